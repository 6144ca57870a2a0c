"""Hard walls: outside of them U is infinite, and what drifts against them is reflected."""

import math

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.potential import Prior
from tati_re.posterior.priors.base import ScaleFamily


class Interval:
    """The walls of each parameter, and reflection at them.

    Args:
        lower: Lower walls, a number or (parameters,); -inf where there is none.
        upper: Upper walls, a number or (parameters,); inf where there is none.
    """

    def __init__(self, lower, upper) -> None:
        self.lower, self.upper = np.broadcast_arrays(
            np.asarray(lower, np.float64), np.asarray(upper, np.float64)
        )

    def inside(self, position) -> tf.Tensor:
        """Whether all parameters of a walker are between their walls, `(walkers,)`."""
        lower, upper = self._in(position.dtype)
        return tf.reduce_all((position >= lower) & (position <= upper), axis=-1)

    def confine(self, position, momentum):
        """Reflects what left the interval, as often as it met a wall; momenta turn at each of them.

        Args:
            position: Positions, (walkers, parameters).
            momentum: Momenta in the same shape, or None.

        Returns:
            Position and momentum inside the walls; a momentum of None stays None.
        """
        lower, upper = self._in(position.dtype)
        below = position < lower
        above = position > upper
        finite = np.isfinite(self.upper - self.lower)
        # Of one wall there is one reflection; between two, motion is a triangle wave of twice their
        # distance.
        reflected = tf.where(
            below, 2 * lower - position, tf.where(above, 2 * upper - position, position)
        )
        turned = below | above
        if finite.any():
            start = tf.constant(np.where(finite, self.lower, 0.0), position.dtype)
            span = tf.constant(np.where(finite, self.upper - self.lower, 1.0), position.dtype)
            phase = tf.math.floormod(position - start, 2 * span)
            back = phase > span
            folded = start + tf.where(back, 2 * span - phase, phase)
            both = tf.constant(finite)
            reflected = tf.where(both & turned, folded, reflected)
            turned = tf.where(both, turned & back, turned)
        # Rounding may leave it outside by one bit, where the potential is infinite.
        reflected = tf.clip_by_value(reflected, lower, upper)
        return reflected, None if momentum is None else tf.where(turned, -momentum, momentum)

    def _in(self, dtype) -> tuple:
        return tf.constant(self.lower, dtype), tf.constant(self.upper, dtype)


@front_doors
class Box(ScaleFamily):
    """A uniform distribution on abs(θ_i) < bound_i: V = sum of log(2 bound_i) inside, infinite
    outside.

    Metropolis methods reject proposals outside the box. Langevin methods are reflected at its
    walls, including their momentum.

    Source: bounds by fan-in, f/sqrt(k_i): Baldock and Marzari (2019), with f = 50.

    Args:
        bound: Half the width, above 0: one number, or one per parameter, `(parameters,)`. Default:
            1.
        fan_in: Fan-in k of each parameter, `(parameters,)`; its width is divided by sqrt(k).
            Default: None, not divided.
        words: Description of the widths for messages. Default: None, their numbers.

    Examples:
        >>> str(Box(3.0))
        'uniform between -3 and 3'
    """

    name = "box"
    option = "prior_bound"
    quantity = "a bound"
    constant = 2.0
    walled = True

    @front_door
    def __init__(self, bound=1.0, fan_in=None, words: str | None = None) -> None:
        super().__init__(bound, fan_in, words)
        self.bound = self.scale
        self._interval = Interval(-np.asarray(self.bound), self.bound)

    def log_prob(self, position) -> tf.Tensor:
        height = tf.constant(-self.width.sum_of_logarithms(self.constant, position), tf.float64)
        return tf.where(self._interval.inside(position), height, tf.constant(-math.inf, tf.float64))

    def gradient(self, position) -> None:
        return None

    def confine(self, position, momentum):
        return self._interval.confine(position, momentum)

    def standard_from_normal(self, normal):
        return tf.math.erf(normal * tf.constant(math.sqrt(0.5), normal.dtype))

    def quantile(self, score):
        from scipy.special import erf

        return erf(score / math.sqrt(2))

    def score(self, x):
        from scipy.special import erfinv

        return math.sqrt(2) * erfinv(np.clip(x, -1.0, 1.0))

    def __str__(self) -> str:
        if self.width.words is not None:
            return f"uniform, {self.width}"
        if self.width.given.ndim:
            return f"uniform between bounds {self.width}"
        return f"uniform between -{self.width.given:g}{'/sqrt(k)' if self.width.fan_in else ''} and {self.width}"


@front_doors
class HardWalls(Prior):
    """A prior truncated by walls: renormalized inside and 0 outside.

    Metropolis methods reject proposals outside. Langevin methods reflect position and momentum
    during the drift.

    Args:
        inside: `Gaussian`, `Laplace`, `StudentT` or `Flat`.
        lower: The lower wall: one number, or one per parameter; -inf for no wall. Default: no
            walls.
        upper: The upper wall: one number, or one per parameter; inf for no wall. Default: no walls.

    Raises:
        InputError: A lower wall is not below the upper one, or the prior already has walls.

    Examples:
        >>> str(tati_re.priors.HardWalls(tati_re.priors.Gaussian(1.0), lower=0.0))
        'a Gaussian of standard deviation 1, with hard walls above 0'
    """

    walled = True

    @front_door
    def __init__(self, inside, lower=-math.inf, upper=math.inf) -> None:
        self.inner = inside
        self._interval = Interval(lower, upper)
        lower = self._interval.lower
        upper = self._interval.upper
        if inside.walled or not (inside.name == "none" or isinstance(inside, ScaleFamily)):
            raise InputError(
                "lower_wall, upper_wall: this prior has its own walls.",
                str(inside),
                "another prior",
            )
        if not (lower < upper).all():
            first = np.flatnonzero(~(lower < upper))[0]
            received = f"{lower.flat[first]:g} and {upper.flat[first]:g}"
            raise InputError(
                "lower_wall is not below upper_wall.", received, "a lower wall below the upper one"
            )
        bounded = np.isfinite(upper - lower)
        self.proper = bool(inside.proper or bounded.all())
        self.hottest = math.inf if bounded.all() else inside.hottest
        if inside.proper:
            self._low = inside.score(lower / inside.scale)
            self._high = inside.score(upper / inside.scale)
            self._log_mass = _log_mass(self._low, self._high)
        else:
            self._low = lower
            self._high = upper
            self._log_mass = np.log(np.where(bounded, upper - lower, 1.0))
        self.num_parameters = len(lower) if lower.ndim else inside.num_parameters

    def log_prob(self, position) -> tf.Tensor:
        density = self.inner.log_prob(position) - float(
            np.sum(np.broadcast_to(self._log_mass, position.shape[-1:]))
        )
        return tf.where(
            self._interval.inside(position), density, tf.constant(-math.inf, tf.float64)
        )

    def gradient(self, position):
        return self.inner.gradient(position)

    def confine(self, position, momentum):
        return self._interval.confine(position, momentum)

    def from_normal(self, normal) -> tf.Tensor:
        from scipy.special import ndtr

        if not self.proper:
            return self.inner.from_normal(normal)
        part = tf.cast(normal, tf.float64)
        if not self.inner.proper:
            inside = self._low + (self._high - self._low) * 0.5 * tf.math.erfc(
                -part * math.sqrt(0.5)
            )
        else:
            # Measured from the nearer tail, so that walls far out in a tail leave digits.
            side = np.where(self._low > 0, -1.0, 1.0)
            first = ndtr(side * self._low)
            last = ndtr(side * self._high)
            share = first + (last - first) * 0.5 * tf.math.erfc(-part * math.sqrt(0.5))
            inside = self.inner.from_normal(side * tf.math.ndtri(share))
        lower = self._interval.lower
        upper = self._interval.upper
        return tf.cast(tf.clip_by_value(inside, lower, upper), normal.dtype)

    def get_config(self) -> dict:
        ends = {"lower_wall": self._interval.lower, "upper_wall": self._interval.upper}
        bounds = {
            name: sorted({float(v) for v in np.ravel(end) if np.isfinite(v)})
            for name, end in ends.items()
        }
        return {
            **self.inner.get_config(),
            **{n: v[0] if len(v) == 1 else [v[0], v[-1]] for n, v in bounds.items() if v},
        }

    def __str__(self) -> str:
        return (
            f"{self.inner}, with hard walls {between(self._interval.lower, self._interval.upper)}"
        )


def _log_mass(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """log(Φ(high) - Φ(low)), also far out in the tails."""
    from scipy.special import log_ndtr

    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(divide="ignore"):
        return log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))


def between(lower: np.ndarray, upper: np.ndarray) -> str:
    """Describes walls in words: `between -1 and 2`, `above 0`, or different walls per parameter.

    Args:
        lower: Lower walls, `(parameters,)`; -inf for none.
        upper: Upper walls, `(parameters,)`; inf for none.

    Returns:
        A few words.
    """
    low = np.unique(lower)
    high = np.unique(upper)
    if len(low) > 1 or len(high) > 1:
        return "separate for each parameter"
    if np.isfinite(low[0]) and np.isfinite(high[0]):
        return f"between {low[0]:g} and {high[0]:g}"
    return f"above {low[0]:g}" if np.isfinite(low[0]) else f"below {high[0]:g}"
