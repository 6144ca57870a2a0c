"""The walkers of a Simulation: where they are, with what momenta, and whether somebody has placed
them.
"""

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.user_input import as_array
from tati_re.runs.fits import Fits


@dataclass
class Walkers:
    """Where the walkers of a simulation are, `(walkers, parameters)`, with their momenta, None
    until they are drawn. `auxiliary` are Keras' non-trainable variables, `(walkers, ...)` each.
    `sentence` is what the start of a run says of the position; None once they have moved. `drawn`
    is a check sum of the position that nobody has given. `fits` are the fits that ended at these
    positions, until the walkers move on; `choice` is how their model was chosen, and `fits_alone`
    whether the next run has no time for chains.
    """

    position: np.ndarray
    auxiliary: tuple[np.ndarray, ...]
    sentence: str | None = None
    momentum: np.ndarray | None = None
    drawn: int | None = None
    fits: Fits | None = None
    choice: dict[str, Any] | None = None
    fits_alone: bool = False

    @property
    def placed(self) -> bool:
        """Whether the walkers were put where they are, or have moved."""
        return self.drawn != check_sum(self.position)

    def move(self, position: np.ndarray) -> None:
        """Starts elsewhere, where nobody has placed the walkers either."""
        self.position = position
        self.drawn = check_sum(position)
        self.fits = None

    def fitting(self, value: Any, name: str) -> np.ndarray:
        """A new array in shape and type of the positions.

        Args:
            value: Finite numbers: (parameters,) for all walkers, or (walkers, parameters).
            name: Name of the value, for messages.

        Raises:
            InputError: The shape differs, or numbers are not finite.
        """
        value = as_array(value, name)
        if value.shape not in (self.position.shape, self.position.shape[1:]):
            problem = f"{name}: wrong shape."
            raise InputError(
                problem,
                value.shape,
                f"{self.position.shape[1:]} for all walkers, or {self.position.shape}",
            )
        if value.dtype.kind not in "fiu" or not np.isfinite(value).all():
            raise InputError(f"{name}: not all are finite numbers.", expected="finite numbers")
        return np.array(np.broadcast_to(value, self.position.shape), self.position.dtype)


def check_sum(position: np.ndarray) -> int:
    return crc32(memoryview(np.ascontiguousarray(position)))
