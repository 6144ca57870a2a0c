"""Losses that say which outputs are better, but not how targets are distributed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.gaussian import flat


class WithoutDensity(Objective):
    """A loss that only TensorFlow computes, as predictions of a run meet it.

    Args:
        name: As the manifest has it.
        in_numpy: The loss as a function of arrays, of shape (rows,) for labels (rows, ...) and
            outputs (rows, outputs). Default: not known.
    """

    def __init__(self, name: str, in_numpy: Callable[..., Any] | None = None) -> None:
        self.name = name
        self._in_numpy = in_numpy

    @property
    def is_computed(self) -> bool:
        return self._in_numpy is not None

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        raise NotImplementedError(f"only the name of {self.name} is known.")

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        if self._in_numpy is None:
            problem = "The run's loss was an object, which its folder does not contain."
            raise InputError(problem, self.name, "tati_re.load(folder, loss=loss)")
        values = np.asarray(outputs, np.float64)
        rows = flat(targets)
        shape = np.shape(targets)[1:] or rows.shape[1:]
        labels = np.broadcast_to(rows, (*values.shape[:-1], rows.shape[1])).reshape(-1, *shape)
        by_row = self._in_numpy(labels, values.reshape(-1, values.shape[-1]))
        return np.asarray(by_row, np.float64).reshape(values.shape[:-1])

    def describe(self) -> str:
        return self.name
