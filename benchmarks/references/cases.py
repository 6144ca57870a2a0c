"""The networks: data, layers, priors, and the inputs of their predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

NUM_INPUTS = 64
PRIOR_STD = 1.0
DATA = Path("shared/data")
"""The folder with `uci/`, from the root of a checkout."""


@dataclass(frozen=True)
class Case:
    """A posterior of a network with one hidden layer of tanh, and standard normal weights.

    Attributes:
        name: The name, with the number of weights.
        source: Where the data come from.
        inputs: Training inputs, `(rows, columns)`.
        targets: Training targets, `(rows,)`: numbers, or classes from 0.
        grid: Inputs of the predictions, `(inputs, columns)`.
        hidden: Number of hidden units.
        noise_std: The known standard deviation of the targets; none for classes.
        num_classes: The number of classes; 0 for numbers.
    """

    name: str
    source: str
    inputs: np.ndarray
    targets: np.ndarray
    grid: np.ndarray
    hidden: int
    noise_std: float | None = None
    num_classes: int = 0

    @property
    def num_weights(self) -> int:
        """The number of weights and biases."""
        outputs = self.num_classes or 1
        return (self.inputs.shape[1] + 1) * self.hidden + (self.hidden + 1) * outputs


def surface() -> Case:
    """A surface over two inputs, with noise of deviation 0.2."""
    random = np.random.default_rng(41)
    inputs = random.uniform(-1.5, 1.5, size=(60, 2))
    surface = np.sin(2 * inputs[:, 0]) + 0.5 * inputs[:, 1] ** 2
    targets = surface + 0.2 * random.standard_normal(60)
    grid = random.uniform(-2.5, 2.5, size=(NUM_INPUTS, 2))
    return Case("surface-41", "generated", inputs, targets, grid, 10, noise_std=0.2)


def gap() -> Case:
    """A wave over one input, with noise of deviation 0.1 and no rows between -0.5 and 0.7."""
    random = np.random.default_rng(46)
    left = random.uniform(-1.5, -0.5, size=20)
    right = random.uniform(0.7, 1.5, size=20)
    x = np.concatenate([left, right])
    targets = np.sin(3 * x) + 0.1 * random.standard_normal(40)
    grid = np.linspace(-2, 2, NUM_INPUTS)[:, None]
    return Case("gap-46", "generated", x[:, None], targets, grid, 15, noise_std=0.1)


def classes() -> Case:
    """Three overlapping groups of points in the plane."""
    random = np.random.default_rng(51)
    labels = np.arange(90) % 3
    centers = np.array([[0.0, 1.0], [-0.9, -0.5], [0.9, -0.5]])
    inputs = centers[labels] + 0.6 * random.standard_normal((90, 2))
    grid = random.uniform(-2, 2, size=(NUM_INPUTS, 2))
    return Case("classes-51", "generated", inputs, labels, grid, 8, num_classes=3)


def yacht() -> Case:
    """The first 200 shuffled rows of yacht hydrodynamics, standardized, with noise of 0.3."""
    return _table("yacht-81", "UCI yacht hydrodynamics", np.loadtxt(DATA / "uci/yacht.txt"), 81)


def diabetes() -> Case:
    """The first 200 shuffled rows of the diabetes table, standardized, with noise of 0.7."""
    from sklearn.datasets import load_diabetes

    inputs, targets = load_diabetes(return_X_y=True)
    table = np.column_stack([inputs, targets])
    return _table("diabetes-121", "diabetes of scikit-learn", table, 121, noise_std=0.7)


def _table(name: str, source: str, table: np.ndarray, seed: int, noise_std: float = 0.3) -> Case:
    """200 rows to learn from, and others to predict, with 10 hidden units."""
    order = np.random.default_rng(seed).permutation(len(table))
    table = table[order]
    center = table[:200].mean(axis=0)
    scale = table[:200].std(axis=0)
    table = (table - center) / np.where(scale > 0, scale, 1.0)
    inputs = table[:200, :-1]
    grid = table[200 : 200 + NUM_INPUTS, :-1]
    return Case(name, source, inputs, table[:200, -1], grid, 10, noise_std=noise_std)


CASES: dict[str, Callable[[], Case]] = {
    "surface-41": surface,
    "gap-46": gap,
    "classes-51": classes,
    "yacht-81": yacht,
    "diabetes-121": diabetes,
}


def predictions_of(case: Case, weights: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The outputs of networks, or their probabilities of classes.

    Args:
        case: The case.
        weights: Kernel and bias of the hidden layer, then of the output, `(..., weights)`.
        inputs: Inputs, `(inputs, columns)`.

    Returns:
        Outputs, `(..., inputs)`; probabilities, `(..., inputs * classes)`.
    """
    columns = inputs.shape[1]
    outputs = case.num_classes or 1
    sizes = [columns * case.hidden, case.hidden, case.hidden * outputs, outputs]
    parts = np.split(weights, np.cumsum(sizes)[:-1], axis=-1)
    leading = weights.shape[:-1]
    kernel = parts[0].reshape(*leading, columns, case.hidden)
    last = parts[2].reshape(*leading, case.hidden, outputs)
    hidden = np.tanh(inputs @ kernel + parts[1][..., None, :])
    values = hidden @ last + parts[3][..., None, :]
    if case.num_classes:
        values = np.exp(values - values.max(axis=-1, keepdims=True))
        values = values / values.sum(axis=-1, keepdims=True)
    return values.reshape(*leading, -1)
