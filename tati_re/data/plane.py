"""Two classes in the plane, labels +1 and -1: clusters, circles, squares and spirals, drawn from a
seed. All take `num_examples` points to train and sample on, whose labels alternate, and draw the
test set in addition. `noise` displaces each coordinate of the circles, squares and spirals by a
uniform number between -5 noise and 5 noise, after the label is settled; 5 is the radius of these
sets.
"""

from collections.abc import Callable

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.data.dataset import Dataset
from tati_re.data.streams import GENERATE, GENERATE_TEST, stream

RADIUS = 5.0
PADDING = 0.3
"""Gap between the axes and the points of `squares`."""

Draw = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def two_clusters(
    num_examples: int = 500,
    seed: int = 0,
    std: float = 1.0,
    test_fraction: float = 0.2,
    noise: float | None = None,
) -> Dataset:
    """Draws two Gaussian clusters in the plane.

    They lie around (2, 2) with label +1 and around (-2, -2) with label -1, as in the second
    experiment of TATi's paper.

    Args:
        num_examples: Number of examples in both parts together. Default: 500.
        seed: Seed of the random numbers. Default: 0.
        std: Standard deviation of each coordinate around its center. Default: 1.0.
        test_fraction: Fraction of the examples for testing, in [0, 1). Default: 0.2.
        noise: In [0, 1]. If set, it replaces `std` by 0.5 + 7 noise, the width of TATi's generator.
            Default: None.

    Returns:
        The data set.
    """
    if noise is not None:
        std = 0.5 + 7 * _checked_noise(noise)
    refuse_if(not std > 0, "std is not positive.", std, "a number above 0")

    def draw(generator: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        return 2 * labels[:, None] + std * generator.standard_normal((len(labels), 2))

    return _two_classes("two_clusters", draw, num_examples, seed, test_fraction, 0.0)


def two_circles(
    num_examples: int = 500, seed: int = 0, noise: float = 0.0, test_fraction: float = 0.2
) -> Dataset:
    """Draws a disc of radius 2.5 with label +1, inside a ring from 3.5 to 5 with label -1.

    Points are uniform in radius and angle. Inputs are `(num_examples, 2)`, targets
    `(num_examples,)`, float64.

    Args:
        num_examples: Number of examples in both parts together. Default: 500.
        seed: Seed of the random numbers. Default: 0.
        noise: In [0, 1]; 5 noise is the largest displacement of a coordinate. Default: 0.
        test_fraction: Fraction of the examples for testing, in [0, 1). Default: 0.2.

    Returns:
        The data set.
    """

    def draw(generator: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        part, angle = generator.random((2, len(labels)))
        radius = RADIUS * np.where(labels > 0, 0.5 * part, 0.7 + 0.3 * part)
        return radius[:, None] * np.stack(
            [np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)], axis=1
        )

    return _two_classes("two_circles", draw, num_examples, seed, test_fraction, noise)


def squares(
    num_examples: int = 500, seed: int = 0, noise: float = 0.0, test_fraction: float = 0.2
) -> Dataset:
    """Draws four squares: label +1 in the first and third quadrants, -1 in the others.

    The squares are 0.3 away from the axes. Inputs are `(num_examples, 2)`, targets
    `(num_examples,)`, float64.

    Args:
        num_examples: Number of examples in both parts together. Default: 500.
        seed: Seed of the random numbers. Default: 0.
        noise: In [0, 1]; 5 noise is the largest displacement of a coordinate. Default: 0.
        test_fraction: Fraction of the examples for testing, in [0, 1). Default: 0.2.

    Returns:
        The data set.
    """

    def draw(generator: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        first, second, side = generator.random((3, len(labels)))
        side = np.where(side < 0.5, -1.0, 1.0)
        signs = np.stack([side, side * labels], axis=1)
        return signs * (PADDING + (RADIUS - PADDING) * np.stack([first, second], axis=1))

    return _two_classes("squares", draw, num_examples, seed, test_fraction, noise)


def spirals(
    num_examples: int = 500, seed: int = 0, noise: float = 0.0, test_fraction: float = 0.2
) -> Dataset:
    """Draws two spiral arms of 1.75 turns, related by a rotation of half a turn.

    The radius is 5 t and the angle 3.5 pi t, for t uniform in [0, 1). The arms are 1.4 apart.
    Inputs are `(num_examples, 2)`, targets `(num_examples,)`, float64.

    Args:
        num_examples: Number of examples in both parts together. Default: 500.
        seed: Seed of the random numbers. Default: 0.
        noise: In [0, 1]; 5 noise is the largest displacement of a coordinate. Default: 0.
        test_fraction: Fraction of the examples for testing, in [0, 1). Default: 0.2.

    Returns:
        The data set.
    """

    def draw(generator: np.random.Generator, labels: np.ndarray) -> np.ndarray:
        part = generator.random(len(labels))
        angle = 3.5 * np.pi * part
        return (labels * RADIUS * part)[:, None] * np.stack([np.sin(angle), np.cos(angle)], axis=1)

    return _two_classes("spirals", draw, num_examples, seed, test_fraction, noise)


def _checked_noise(noise: float) -> float:
    refuse_if(not 0 <= noise <= 1, "noise is out of its range.", noise, "a number in [0, 1]")
    return noise


def _two_classes(
    name: str, draw: Draw, num_examples: int, seed: int, test_fraction: float, noise: float
) -> Dataset:
    refuse_if(
        num_examples < 2,
        f"num_examples: {name} needs at least one point of each class.",
        num_examples,
        "at least 2",
    )
    refuse_if(
        not 0 <= test_fraction < 1,
        "test_fraction is out of its range.",
        test_fraction,
        "a number in [0, 1)",
    )
    width = RADIUS * _checked_noise(noise)

    def part(count: int, purpose: int) -> tuple[np.ndarray, np.ndarray]:
        labels = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
        generator = stream(seed, purpose)
        points = draw(generator, labels)
        return points + generator.uniform(-width, width, points.shape) if width else points, labels

    count = round(num_examples * test_fraction / (1 - test_fraction))
    inputs, targets = part(num_examples, GENERATE)
    test_inputs, test_targets = part(count, GENERATE_TEST) if count else (None, None)
    return Dataset(
        inputs, targets, test_inputs, test_targets, name, num_classes=2, feature_names=("x1", "x2")
    )
