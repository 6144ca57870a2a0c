"""What exports need of a predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tati_re.core.errors import AnyPath
from tati_re.prediction.draws import Members
from tati_re.prediction.network import Network
from tati_re.runs.manifest import Manifest


class Exportable(Protocol):
    """Weighted members of a network.

    Attributes:
        network: The network as a function of parameters and inputs.
        members: Parameters of the members.
        weights: Weights of the members with the sum 1, shape (members,).
    """

    network: Network
    members: Members
    weights: np.ndarray

    @property
    def num_members(self) -> int:
        """Number of networks."""

    @property
    def calibration(self) -> float | None:
        """Temperature of classes, or scale of values; None if nothing calibrates."""

    @property
    def manifest(self) -> Manifest:
        """The part of the run's manifest that predictions need."""

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the input columns; empty if they have none."""

    @property
    def target_names(self) -> tuple[str, ...]:
        """Names of the predicted values; empty if they have none."""

    def save(self, path: AnyPath) -> None:
        """Writes the file of the predictor."""

    def to_keras(self, quantiles: Sequence[float] = ...) -> Any:
        """One plain Keras model."""
