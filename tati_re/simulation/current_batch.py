"""The data set of a Simulation, which also gives the mini-batch that its answers refer to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tati_re.data import Dataset


class CurrentDataset(Dataset):
    """The whole data set by its attributes, and the current mini-batch as a pair: `inputs, labels = sim.dataset`.

    Inputs and labels have the shape `(batch, ...)`; `(walkers, batch, ...)` where several walkers have mini-batches of
    their own.
    """

    @classmethod
    def of(cls, dataset: Dataset, rows: Callable[[], np.ndarray | None]) -> CurrentDataset:
        """A view of a data set; nothing is copied.

        Args:
            dataset: The data.
            rows: Returns the numbers of the examples of the current batch, or `None` for all of them.
        """
        view = object.__new__(cls)
        view.__dict__.update(dataset.__dict__)
        view.__dict__["_rows"] = rows
        return view

    def __iter__(self) -> Iterator[Any]:
        rows = self.__dict__["_rows"]() if "_rows" in self.__dict__ else None
        yield from (self.inputs, self.targets) if rows is None else (self.inputs[rows], self.targets[rows])

    def __getitem__(self, index: int) -> Any:
        return tuple(self)[index]

    def __len__(self) -> int:
        return 2
