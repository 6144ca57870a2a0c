"""The log likelihood of each example at the stored positions of a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.prediction.network import Network
from tati_re.prediction.of_run import dataset_of
from tati_re.runs import manifest
from tati_re.runs.positions import Block, stores_projections

if TYPE_CHECKING:
    from tati_re.runs.run import RunFiles

_BLOCK_DRAWS = 64


def likelihood_of(run: RunFiles, data: Any = None, model: Any = None) -> tuple[Any, Network]:
    """The data of a run and its network, of a loss that is a likelihood; `InputError` of others."""
    said = run.manifest
    if stores_projections(run) or said.get("kind") == "fit" or "task" not in said.get("dataset", {}):
        raise InputError("The run has no draws of its parameters, or does not say what its data are.")
    data, network = data or dataset_of(run), Network(run, model)
    manifest.check_data(said, data, run.folder)
    if not network.predictive.likelihood or said["options"].get("potential", "posterior") != "posterior":
        raise InputError("The run's loss is no likelihood.", network.predictive.name, "a cross-entropy or gaussian")
    return data, network


def likelihood_blocks(
    network: Network, data: Any, stored: Block, draws: np.ndarray, examples: np.ndarray | slice = slice(None)
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Of some draws after the other log p(y | θ) of the examples, times their weights, `(draws, n)`; the outputs
    `(draws, n, outputs)`; and the noise of each draw where it is sampled."""
    inputs, given = network.prepared(data.inputs[examples]), data.targets[examples]
    targets = network.prepared_targets(data.targets)[examples]
    weights = 1.0 if data.weights is None else data.weights[examples]
    for first in range(0, len(draws), _BLOCK_DRAWS):
        block = draws[first : first + _BLOCK_DRAWS]
        outputs = network.outputs(stored.values[block], stored.walker[block], inputs)
        noise = network.noise_std(stored.values[block])
        yield weights * network.predictive.log_likelihoods(outputs, targets, given, noise), outputs, noise
