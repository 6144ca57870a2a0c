"""Numbers of a likelihood that are sampled together with the parameters of the network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.front_door import front_doors
from tati_re.core.renamed import renamed_attribute
from tati_re.likelihoods.outputs import tensorflow

PREDICTED, SAMPLED, BY_TARGET = "predicted", "sampled", "by_target"
"""Values of `noise_std` in place of a number: an output of the network, one parameter for all
targets, or one for each.
"""
NAME, COLUMN = "log_noise_std", "noise_std"
"""Of a noise that is sampled: the parameter, and the column in the table of a run."""


@front_doors
@dataclass(frozen=True)
class ExtraParameter:
    """A number above `least` that is sampled together with the network's parameters.

    The samplers move s, and the number is least + unit * exp(s).

    Attributes:
        name: Name of s among the parameters, such as "log_noise_std".
        column: Name of the number as a column of the table of a run, such as "noise_std".
        target: The target whose standard deviation scales a noise; None: the largest of them.
        law: The prior of exp(s): "noise", the prior of a noise in the options, or "gamma".
        scale: Scale of the prior "gamma". Default: 1.
        shape: Shape of the prior "gamma". Default: 1.
        start: Start of exp(s) under the prior "gamma". Default: 1.
        least: Lower bound of the number. Default: 0.
        unit: Unit of exp(s). Default: 1.
        relative: Whether a noise exp(s) is in units of the standard deviation of the training
            targets. Default: False.
    """

    name: str
    column: str
    target: int | None = None
    law: str = "noise"
    scale: float = 1.0
    shape: float = 1.0
    start: float = 1.0
    least: float = 0.0
    unit: float = 1.0
    relative: bool = False

    def text(self) -> str:
        """Describes exp(s) in words.

        Returns:
            A few words.
        """
        above = f" above {self.least:g}" if self.least else ""
        return f"{self.column.replace('_', ' ')}{above}"

    said = renamed_attribute("said", "text")

    def value(self, parameter: Any, exp: Any = np.exp) -> Any:
        """Returns the number for values of s.

        Args:
            parameter: Values of s.
            exp: The exponential function of NumPy or TensorFlow. Default: `np.exp`.

        Returns:
            Numbers above 0, in the shape of `parameter`.
        """
        values: Any = exp(parameter)
        if self.unit != 1.0:
            values = self.unit * values
        return values if self.least == 0.0 else self.least + values


def noise_parameters(
    noise_std: float | str, names: Sequence[str], units: Sequence[float] = ()
) -> tuple[ExtraParameter, ...]:
    """The parameters of a noise, by what `noise_std` says.

    Args:
        noise_std: A number, "sampled", "by_target" or "predicted".
        names: Names of the targets. The noise of a single one has no further name.
        units: Deviations of the targets in which the noise counts. A noise of several targets
            together has the unit 1. Default: it does not count in deviations.
    """
    relative = len(units) > 0
    if noise_std == SAMPLED or (noise_std == BY_TARGET and len(names) < 2):
        unit = units[0] if len(units) == 1 else 1.0
        return (ExtraParameter(NAME, COLUMN, unit=unit, relative=relative),)
    if noise_std != BY_TARGET:
        return ()
    return tuple(
        ExtraParameter(
            f"{NAME}[{name}]",
            f"{COLUMN}[{name}]",
            target=number,
            unit=units[number] if len(units) == len(names) else 1.0,
            relative=relative,
        )
        for number, name in enumerate(names)
    )


def stacked(extra: Any) -> Any:
    """Extra parameters in TensorFlow: one number, or a row of several."""
    return extra[0] if len(extra) == 1 else tensorflow().stack(extra, axis=-1)
