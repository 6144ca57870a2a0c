"""Averages of class probabilities over draws, a block of draws at a time."""

import numpy as np


class ClassAverages:
    """Weighted averages over draws: probabilities, their deviation, entropy, right predictions.

    Deviations are sums of squares about the mean of the first block, which is close to the mean of
    all, so that few digits cancel.

    Args:
        classes: True class of each row, shape (n,). Default: None.
        labels: True labels of 0 and 1 where each row has several, shape (n, labels). Default: None.
    """

    def __init__(self, classes: np.ndarray | None = None, labels: np.ndarray | None = None) -> None:
        self._classes = classes
        self._labels = labels
        self._reference: np.ndarray | None = None
        self._away: np.ndarray = np.zeros(0)
        self._square: np.ndarray = np.zeros(0)
        self._entropy: np.ndarray = np.zeros(0)
        self._right: list[np.ndarray] = []

    def add(self, probabilities: np.ndarray, entropies: np.ndarray, share: np.ndarray) -> None:
        """Counts some draws.

        Args:
            probabilities: Of each draw, shape (classes, draws, n).
            entropies: Of each draw in nats, shape (draws, n).
            share: Weights of the draws, shape (draws,). The weights of all blocks sum to 1.
        """
        if (right := self._is_right(probabilities)) is not None:
            self._right.append(right.sum(axis=1))
        if self._reference is None:
            self._reference = probabilities.mean(axis=1)
            self._away = np.zeros(self._reference.shape)
            self._square = np.zeros(self._reference.shape)
            self._entropy = np.zeros(entropies.shape[1:])

        weights = share.astype(probabilities.dtype)
        away = probabilities - self._reference[:, None]
        self._away += weights @ away
        away *= away
        self._square += weights @ away
        self._entropy += weights @ entropies

    def _is_right(self, probabilities: np.ndarray) -> np.ndarray | None:
        """Whether each draw predicts each row right, shape (draws, n); None without truth."""
        if self._classes is not None:
            return probabilities.argmax(axis=0) == self._classes
        if self._labels is not None:
            return ((probabilities > 0.5) == self._labels.T[:, None]).all(axis=0)
        return None

    @property
    def mean(self) -> np.ndarray:
        """Mean probabilities, shape (n, classes)."""
        assert self._reference is not None
        return np.ascontiguousarray((self._reference + self._away).T)

    @property
    def std(self) -> np.ndarray:
        """Standard deviations of the probabilities over the draws, shape (n, classes)."""
        variance = np.maximum(self._square - self._away**2, 0.0)
        return np.ascontiguousarray(np.sqrt(variance).T)

    @property
    def entropy(self) -> np.ndarray:
        """Mean entropy of each row, shape (n,)."""
        return self._entropy

    @property
    def right(self) -> np.ndarray | None:
        """Rows that each draw predicts right, shape (draws,); None without classes."""
        return np.concatenate(self._right) if self._right else None
