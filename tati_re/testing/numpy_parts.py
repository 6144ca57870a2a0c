"""A potential and random numbers in plain numpy that record the requests of a step."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_input import seeded


@front_door
def quartic(position):
    """The anharmonic potential U = sum of x⁴/4 + x²/2, in numpy or TensorFlow.

    Args:
        position: Positions, `(walkers, parameters)`.

    Returns:
        U, `(walkers,)`.
    """
    values = 0.25 * position**4 + 0.5 * position**2
    return values.sum(-1) if isinstance(position, np.ndarray) else tf.reduce_sum(values, -1)


@front_door
def rung_of(step_size, temperature=1.0, numpy: bool = False) -> Rung:
    """Returns rungs at λ = 1 for walkers with given step sizes and temperatures.

    Args:
        step_size: The step sizes, a number or `(walkers,)`.
        temperature: The temperatures, a number or `(walkers,)`. Default: 1.
        numpy: Whether the rungs are numpy arrays instead of tensors. Default: False.

    Returns:
        The rungs, each field in the common shape of the arguments.
    """
    step_size, temperature = np.broadcast_arrays(
        np.asarray(step_size, np.float64), np.asarray(temperature, np.float64)
    )
    fields = (1 / temperature, np.ones_like(temperature), step_size.copy())
    return Rung(*(fields if numpy else map(tf.constant, fields)))


@front_doors
class NumpyEvaluate(Evaluate):
    """`quartic`, or another potential, in plain numpy; counts the evaluations of a step.

    Args:
        rung: Temperature and step size of each walker.
        potential: U, a function from `(walkers, parameters)` to `(walkers,)`. Default: `quartic`.
        gradient: Its gradient, in the type of the position. Default: the gradient of `quartic`.

    Attributes:
        calls: Number of evaluations on a mini-batch.
        full_calls: Number of evaluations on all data.
    """

    scale = 1.0
    num_examples = 1
    exact = False

    def __init__(
        self, rung: Rung, potential: Callable = quartic, gradient: Callable = lambda x: x**3 + x
    ) -> None:
        self.rung = rung
        self.potential = potential
        self.gradient = gradient
        self.clock = Clock(np.int64(1), np.bool_(False), np.int32(0))
        self.calls = self.full_calls = 0

    def __call__(self, position) -> Energy:
        self.calls += 1
        return self._energy(position)

    def full(self, position) -> Energy:
        self.full_calls += 1
        return self._energy(position)

    def _energy(self, position) -> Energy:
        loss = self.potential(position).astype(np.float64)
        return Energy(loss, self.gradient(position), loss, np.zeros_like(loss))

    def mean_loss(self, position):
        return self.potential(position).astype(np.float64)

    validation = mean_loss

    def examples(self, position, indices):
        return np.repeat(self.mean_loss(position)[:, None], indices.shape[-1], axis=1)

    def log_prior(self, position):
        return np.zeros(len(position))

    def drawn_from_prior(self, normal):
        return normal

    def gradient_variance(self, position):
        """Returns arbitrary positive numbers, for the tests of the protocol."""
        return 0.1 + 0.05 * position**2


@front_doors
class NumpyNoise:
    """Random numbers from numpy, with a record of all requests.

    Args:
        seed: Seed of the numbers.
        dtype: Number type of normal numbers.

    Attributes:
        asked: Kind and shape of each request.
        drawn: The returned numbers.
    """

    def __init__(self, seed: int, dtype=np.float64) -> None:
        self.random = seeded(seed)
        self.dtype = dtype
        self.asked: list[Any] = []
        self.drawn: list[Any] = []

    def normal(self, shape):
        """Draws standard normal numbers.

        Args:
            shape: Shape of the array.

        Returns:
            The numbers, in the type of the positions.
        """
        return self._note(
            "normal", shape, self.random.standard_normal(tuple(shape)).astype(self.dtype)
        )

    def uniform(self, shape):
        """Draws random numbers in [0, 1).

        Args:
            shape: Shape of the array.

        Returns:
            The numbers, float64.
        """
        return self._note("uniform", shape, np.float64(self.random.uniform(size=tuple(shape))))

    def _note(self, kind, shape, values):
        self.asked.append((kind, tuple(shape)))
        self.drawn.append(values)
        return values


class ConvertedNoise:
    """The random numbers of another noise, as arrays of another library.

    Args:
        noise: The noise that draws the numbers.
        convert: Converts an array, for example `tf.constant`.
    """

    def __init__(self, noise, convert: Callable) -> None:
        self.noise = noise
        self.convert = convert

    def normal(self, shape):
        return self.convert(self.noise.normal(shape))

    def uniform(self, shape):
        return self.convert(self.noise.uniform(shape))
