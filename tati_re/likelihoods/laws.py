"""Laws of predicted targets in NumPy: mean, deviation, density, distribution function, draws."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from tati_re.core.front_door import Doors, front_door


class Law(Doors, ABC):
    """Distributions of targets for many draws and examples, an array (draws, n, targets)."""

    @property
    @abstractmethod
    def mean(self) -> np.ndarray:
        """Returns the means, shape (draws, n, targets); not finite if a mean does not exist."""

    @property
    @abstractmethod
    def std(self) -> np.ndarray:
        """Returns the standard deviations, shape (draws, n, targets); not finite if undefined."""

    @abstractmethod
    def log_prob(self, values: np.ndarray) -> np.ndarray:
        """Returns the log density of values, or the log probability of integers.

        Args:
            values: Targets, shape (n, targets), or one that broadcasts to (draws, n, targets).

        Returns:
            Logarithms, shape (draws, n, targets).
        """

    @abstractmethod
    def cdf(self, values: np.ndarray) -> np.ndarray:
        """Computes the distribution function P(Y <= values).

        Args:
            values: Values of the targets, in a shape as for `log_prob`.

        Returns:
            Probabilities in [0, 1], shape (draws, n, targets).
        """

    @abstractmethod
    def quantile(self, level: float) -> np.ndarray:
        """Returns the smallest value with `cdf` at least `level`, shape (draws, n, targets).

        Args:
            level: The probability, from 0 to 1.

        Returns:
            Targets in the units of the data.
        """

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Computes `quantile` at several levels.

        Args:
            levels: Probabilities, from 0 to 1.

        Returns:
            Targets in the units of the data, shape (levels, draws, n, targets).
        """
        return np.stack([self.quantile(float(level)) for level in levels])

    @abstractmethod
    def draw(self, random: np.random.Generator) -> np.ndarray:
        """Draws one target from each distribution.

        Args:
            random: Generator of random numbers.

        Returns:
            Targets, shape (draws, n, targets).
        """

    @abstractmethod
    def at(self, rows: np.ndarray, column: int) -> Self:
        """Selects the distributions of some examples and one target.

        Args:
            rows: Indices of examples.
            column: Index of the target.

        Returns:
            Distributions, shape (draws, len(rows)).
        """

    def below(self, values: np.ndarray) -> np.ndarray:
        """Computes P(Y < values), which equals `cdf` for a distribution with a density.

        Args:
            values: Values of the targets, in a shape as for `log_prob`.

        Returns:
            Probabilities in [0, 1], shape (draws, n, targets).
        """
        return self.cdf(values)

    @classmethod
    @abstractmethod
    def joined(cls, laws: Sequence[Self]) -> Self:
        """Concatenates the distributions of several sets of draws along the first axis.

        Args:
            laws: The distributions, all of one kind.

        Returns:
            The distributions of all draws.
        """


class ScipyLaw(Law):
    """Distributions from one family of `scipy.stats` with arrays of parameters.

    Args:
        family: The family, such as `scipy.stats.t`.
        parameters: Its parameters by their SciPy names, each of shape (draws, n, targets).
        discrete: Whether values are integers.
    """

    @front_door
    def __init__(self, family: Any, parameters: dict[str, Any], discrete: bool = False) -> None:
        shape = np.broadcast_shapes(*(np.shape(value) for value in parameters.values()))
        self.family, self.discrete = family, discrete
        self.parameters = {
            name: np.broadcast_to(np.asarray(value, np.float64), shape)
            for name, value in parameters.items()
        }

    @property
    def mean(self) -> np.ndarray:
        return np.asarray(self.family.mean(**self.parameters))

    @property
    def std(self) -> np.ndarray:
        return np.asarray(self.family.std(**self.parameters))

    def log_prob(self, values: np.ndarray) -> np.ndarray:
        log_prob = self.family.logpmf if self.discrete else self.family.logpdf
        return log_prob(values, **self.parameters)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        return self.family.cdf(values, **self.parameters)

    def below(self, values: np.ndarray) -> np.ndarray:
        return self.cdf(np.asarray(values) - 1) if self.discrete else self.cdf(values)

    def quantile(self, level: float) -> np.ndarray:
        return self.family.ppf(level, **self.parameters)

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        # Quantiles of SciPy cost much more than moving and widening them.
        of_shape = {
            name: _collapsed(value)
            for name, value in self.parameters.items()
            if name not in ("loc", "scale")
        }
        whole = next(iter(self.parameters.values()))
        if any(value.size == whole.size for value in of_shape.values()):
            return super().quantiles(levels)  # all at once they would fill the memory
        column = np.reshape(np.asarray(levels, np.float64), (-1, *[1] * whole.ndim))
        standard = self.family.ppf(column, **of_shape)
        location = self.parameters.get("loc", 0.0)
        return location + self.parameters.get("scale", 1.0) * standard

    def draw(self, random: np.random.Generator) -> np.ndarray:
        shape = np.shape(next(iter(self.parameters.values())))
        return self.family.rvs(**self.parameters, size=shape, random_state=random)

    def at(self, rows: np.ndarray, column: int) -> ScipyLaw:
        parameters = {name: value[:, rows, column] for name, value in self.parameters.items()}
        return ScipyLaw(self.family, parameters, self.discrete)

    @classmethod
    def joined(cls, laws: Sequence[ScipyLaw]) -> ScipyLaw:
        first = laws[0]
        parameters = {
            name: np.concatenate([law.parameters[name] for law in laws])
            for name in first.parameters
        }
        return ScipyLaw(first.family, parameters, first.discrete)


def _collapsed(values: np.ndarray) -> np.ndarray:
    """An array with length 1 along each axis along which it does not vary."""
    for axis in range(values.ndim):
        first = values.take([0], axis=axis) if values.shape[axis] else values
        if (values == first).all():
            values = first
    return values


class NormalLaw(Law):
    """Normal laws, in closed form.

    Args:
        center: Means, shape (draws, n, targets).
        width: Standard deviations of any shape that broadcasts to that.
    """

    def __init__(self, center: np.ndarray, width: Any) -> None:
        self.center = np.asarray(center, np.float64)
        self.width = np.asarray(width, np.float64)

    @property
    def mean(self) -> np.ndarray:
        return self.center

    @property
    def std(self) -> np.ndarray:
        return np.broadcast_to(self.width, self.center.shape)

    def log_prob(self, values: np.ndarray) -> np.ndarray:
        away = (np.asarray(values, np.float64) - self.center) / self.width
        return -0.5 * away**2 - np.log(self.width) - 0.5 * math.log(2 * math.pi)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        from scipy.special import ndtr

        return ndtr((np.asarray(values, np.float64) - self.center) / self.width)

    def quantile(self, level: float) -> np.ndarray:
        from scipy.special import ndtri

        return self.center + ndtri(level) * self.width

    def draw(self, random: np.random.Generator) -> np.ndarray:
        return self.center + self.width * random.standard_normal(self.center.shape)

    def at(self, rows: np.ndarray, column: int) -> NormalLaw:
        return NormalLaw(self.center[:, rows, column], self.std[:, rows, column])

    def in_units(self, mean: Any, deviation: Any) -> NormalLaw:
        """The laws of mean + deviation * y.

        Args:
            mean: A number, or one per target, shape (targets,).
            deviation: A number above 0, or one per target, shape (targets,).
        """
        scale = np.broadcast_to(deviation, self.center.shape[-1:])
        return NormalLaw(self.center * deviation + mean, self.width * scale)

    @classmethod
    def joined(cls, laws: Sequence[NormalLaw]) -> NormalLaw:
        center = np.concatenate([law.center for law in laws])
        return NormalLaw(center, np.concatenate([law.std for law in laws]))


class ZeroInflated(Law):
    """A law of counts that is 0 with probability `zero`, and else the law `counts`.

    Args:
        zero: Probabilities of the extra zeros, shape (draws, n, targets).
        counts: The law of the counts, discrete, of the same shape.
    """

    def __init__(self, zero: np.ndarray, counts: ScipyLaw) -> None:
        self.zero, self.counts = zero, counts

    @property
    def mean(self) -> np.ndarray:
        return (1 - self.zero) * self.counts.mean

    @property
    def std(self) -> np.ndarray:
        mean = self.counts.mean
        second = (1 - self.zero) * (self.counts.std**2 + mean**2)
        return np.sqrt(second - self.mean**2)

    def log_prob(self, values: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            counted = np.log1p(-self.zero) + self.counts.log_prob(values)
            extra = np.where(np.asarray(values) == 0, np.log(self.zero), -np.inf)
        return np.logaddexp(counted, extra)

    def cdf(self, values: np.ndarray) -> np.ndarray:
        return np.where(
            np.asarray(values) < 0, 0.0, self.zero + (1 - self.zero) * self.counts.cdf(values)
        )

    def below(self, values: np.ndarray) -> np.ndarray:
        return self.cdf(np.asarray(values) - 1)

    def quantile(self, level: float) -> np.ndarray:
        count_level = np.clip((level - self.zero) / np.maximum(1 - self.zero, 1e-300), 0.0, 1.0)
        quantiles = self.counts.family.ppf(count_level, **self.counts.parameters)
        return np.where(level <= self.zero, 0.0, np.maximum(quantiles, 0.0))

    def draw(self, random: np.random.Generator) -> np.ndarray:
        counts = self.counts.draw(random)
        return np.where(random.random(counts.shape) < self.zero, 0, counts)

    def at(self, rows: np.ndarray, column: int) -> ZeroInflated:
        return ZeroInflated(self.zero[:, rows, column], self.counts.at(rows, column))

    @classmethod
    def joined(cls, laws: Sequence[ZeroInflated]) -> ZeroInflated:
        counts = ScipyLaw.joined([law.counts for law in laws])
        return ZeroInflated(np.concatenate([law.zero for law in laws]), counts)
