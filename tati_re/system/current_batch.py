"""The mini-batch that the answers of a Simulation refer to, and its data set, which gives this
batch as a pair.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tati_re.data import Dataset
from tati_re.posterior.evaluator import Evaluator


class CurrentBatch:
    """The mini-batch that the answers of a Simulation refer to, until `next`.

    `inputs, labels = sim.batch` are its examples, (batch, ...), or (walkers, batch, ...) where each
    walker has its examples.

    Args:
        dataset: The data set.
        evaluator: The potential of the Simulation, which chooses the batches.
        number: Number of the batch, from 0, in the order of a run. Default: 0.

    Attributes:
        number: Number of the current batch.
        tensors: Its indices and size, as the evaluator takes them; empty for all data.
    """

    def __init__(self, dataset: Dataset, evaluator: Evaluator, number: int = 0) -> None:
        self._dataset = dataset
        self._evaluator = evaluator
        self._answered: set[str] = set()
        self._position: np.ndarray | None = None
        self.number = number
        self.tensors = evaluator.batch(number)

    def next(self) -> None:
        """Moves on to the next mini-batch."""
        self.number += 1
        self.tensors = self._evaluator.batch(self.number)
        self._answered = set()

    @property
    def examples(self) -> np.ndarray | None:
        """Numbers of its examples, `(batch,)`, or `(walkers, batch)` where each walker has its own;
        None: all.
        """
        if not self.tensors:
            return None
        indices, size = (value.numpy() for value in self.tensors)
        rows = indices[:, : int(size)]
        return rows[0] if len(rows) == 1 else rows

    def __iter__(self) -> Iterator[np.ndarray]:
        rows = slice(None) if (examples := self.examples) is None else examples
        return iter((self._dataset.inputs[rows], self._dataset.targets[rows]))

    def follow(self, name: str, position: np.ndarray) -> None:
        """TATi's rule: moves on if this answer was given before, or if the parameters changed.

        Args:
            name: Name of the answer, such as "loss".
            position: Positions of the walkers, (walkers, parameters).
        """
        known = self._position
        moved = known is None or not np.array_equal(known, position)
        if self.tensors and known is not None and (moved or name in self._answered):
            self.next()
        self._position = position.copy() if moved else known
        self._answered.add(name)


class CurrentDataset(Dataset):
    """The whole data set by its attributes, and the current mini-batch as a pair: `inputs, labels =
    sim.dataset`.
    """

    @classmethod
    def of(cls, dataset: Dataset, batch: Callable[[], Iterable[Any]]) -> "CurrentDataset":
        """A view of a data set; nothing is copied.

        Args:
            dataset: The data set.
            batch: Function that returns inputs and labels of the current mini-batch.
        """
        view = object.__new__(cls)
        view.__dict__.update(dataset.__dict__)
        view.__dict__["_batch"] = batch
        return view

    def with_pair(self, inputs: np.ndarray, labels: np.ndarray) -> "CurrentDataset":
        """The same data set with a pair that stays when the batch moves on.

        Args:
            inputs: Inputs of the pair, (batch, ...).
            labels: Labels of the pair, (batch, ...).
        """
        return self.of(self, lambda: (inputs, labels))

    def __iter__(self) -> Iterator[Any]:
        yield from (
            self.__dict__["_batch"]() if "_batch" in self.__dict__ else (self.inputs, self.targets)
        )

    def __getitem__(self, index: int) -> Any:
        return tuple(self)[index]

    def __len__(self) -> int:
        return 2
