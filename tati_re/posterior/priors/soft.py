"""Soft walls and tethers: forces that TATi adds to the gradient, here with their potential."""

import math

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.potential import Prior
from tati_re.posterior.priors.base import ScaleFamily
from tati_re.posterior.priors.quantiles import NormalMap, tabulated
from tati_re.posterior.priors.walls import between

_FAR = 60.0


@front_doors
class SoftWalls(Prior):
    """A prior times exp(-W), where W rises at soft walls or around a point, the tether.

    W rises in a layer before each wall and continues to rise beyond it.

    With f = `factor`, a = `power`, the distance d of θ from a wall inside of it (below 0 beyond it)
    and its layer w:

        W = f w/(a + 1) max(1 - d/w, 0)^(a + 1),      -∇W = f max(1 - d/w, 0)^a, inward
        W = f/(a + 1) abs(θ - c)^(a + 1),             -∇W = f abs(θ - c)^a, towards c, where both walls are at c

    w = 0.01 (upper - lower); with one wall only 0.01 abs(wall) where it is below 0, else 0.01.

    W is a term of U like V, and is not multiplied by N. Under the mean-loss convention the force
    adds to the gradient of the mean loss, which gives TATi's distribution. Under the posterior
    convention it acts like a log prior.

    Source: the forces are those of TATi 0.9.5, which moves the parameters by them outside of
    energy, momentum and Metropolis test, so that its Langevin methods sample another distribution;
    the energies, their integrals, are ours.

    Args:
        inside: The prior without these walls: a Gaussian, Laplace or Student-t distribution, a box,
            or flat.
        factor: f, at least 0. Default: 1.
        power: a, at least 0. Default: 1.
        lower: The lower wall: a number, or one for each parameter; -inf where there is none.
            Default: none.
        upper: The upper wall: a number, or one for each parameter; inf for no wall. Default: no
            wall.

    Raises:
        InputError: The lower wall is above the upper one, or a factor or power is below 0.

    Examples:
        >>> str(tati_re.priors.SoftWalls(tati_re.priors.Flat(), lower=-1.0, upper=1.0))
        'none, with soft walls between -1 and 1 (factor 1, power 1)'
    """

    @front_door
    def __init__(self, inside, factor=1.0, power=1.0, lower=-math.inf, upper=math.inf) -> None:
        if not (inside.name == "none" or isinstance(inside, ScaleFamily)):
            problem = "prior_lower_boundary, prior_upper_boundary: hard and soft walls exclude each other."
            raise InputError(problem, str(inside), "lower_wall and upper_wall, or these")
        arrays = [np.asarray(value, np.float64) for value in (factor, power, lower, upper)]
        self.factor, self.power, self.lower, self.upper = arrays
        for name, value in (("prior_factor", self.factor), ("prior_power", self.power)):
            if not ((value >= 0) & np.isfinite(value)).all():
                raise InputError(f"{name} is below 0.", received=value.min(), expected="at least 0")
        if (self.lower > self.upper).any():
            received = f"{self.lower.max():g} and {self.upper.min():g}"
            expected = "a lower boundary below the upper one, or both equal for a tether"
            raise InputError(
                "prior_lower_boundary is above prior_upper_boundary.", received, expected
            )
        self.inner = inside
        self.walled = inside.walled
        scale = np.asarray(inside.scale if isinstance(inside, ScaleFamily) else 1.0)
        self._rows = np.broadcast_arrays(scale, *arrays)
        lower, upper = self._rows[3:]
        self._tether = np.equal(lower, upper)
        self._layer = layers(lower, upper)
        held = (self._rows[1] > 0) & np.isfinite(lower) & np.isfinite(upper)
        self.proper = bool(inside.proper or held.all())
        self.hottest = math.inf if held.all() else inside.hottest
        shape = self._rows[0].shape
        self.num_parameters = shape[0] if shape else None
        self._solved: tuple | None = None

    def energy(self, position) -> tf.Tensor:
        """Computes the energy W of the walls.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            W of each parameter, in this shape, float64.
        """
        position = tf.cast(position, tf.float64)
        _, f, a, lower, _ = self._rows
        total = tf.zeros_like(position)
        for depth, _ in self._depths(position):
            total += f * self._layer / (a + 1) * tf.pow(depth, a + 1)
        away = tf.abs(position - np.where(self._tether, lower, 0.0))
        return tf.where(self._tether, f / (a + 1) * tf.pow(away, a + 1), total)

    def energy_gradient(self, position) -> tf.Tensor:
        """Computes ∇W.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            The gradient, in the shape and type of `position`.
        """
        _, f, a, lower, _ = (tf.constant(row, position.dtype) for row in self._rows)
        total = tf.zeros_like(position)
        for depth, sign in self._depths(position):
            total += sign * f * tf.where(depth > 0, tf.pow(depth, a), tf.zeros_like(depth))
        away = position - tf.where(self._tether, lower, tf.zeros_like(lower))
        return tf.where(self._tether, f * tf.sign(away) * tf.pow(tf.abs(away), a), total)

    def _depths(self, position):
        """max(1 - d/w, 0) at each wall, and the sign of its slope."""
        layer = tf.constant(self._layer, position.dtype)
        for wall, sign in ((self._rows[3], -1.0), (self._rows[4], 1.0)):
            present = np.isfinite(wall) & ~self._tether
            if present.any():
                distance = -sign * (
                    position - tf.constant(np.where(present, wall, 0.0), position.dtype)
                )
                depth = tf.nn.relu(1.0 - distance / layer)
                yield tf.where(present, depth, tf.zeros_like(depth)), sign

    def log_prob(self, position) -> tf.Tensor:
        log_mass = self._maps()[0] if self.proper else np.zeros(())
        normalizer = float(np.sum(np.broadcast_to(log_mass, position.shape[-1:])))
        return (
            self.inner.log_prob(position)
            - tf.reduce_sum(self.energy(position), axis=-1)
            - normalizer
        )

    def gradient(self, position) -> tf.Tensor:
        slope = self.energy_gradient(position)
        inner = self.inner.gradient(position)
        return slope if inner is None else slope + inner

    def confine(self, position, momentum):
        return self.inner.confine(position, momentum)

    def from_normal(self, normal) -> tf.Tensor:
        if not self.proper:
            return self.inner.from_normal(normal)
        inside = self._maps()[1](normal)
        return tf.cast(
            self.inner.from_normal(inside) if self.inner.proper else inside, normal.dtype
        )

    def _maps(self) -> tuple[np.ndarray, NormalMap]:
        """log of ∫ exp(-W) over the prior inside, of each parameter; and what makes draws of normal
        numbers.
        """
        if self._solved is None:
            rows = np.stack([np.ravel(row) for row in self._rows], axis=-1)
            distinct, which = np.unique(rows, axis=0, return_inverse=True)
            maps = [self._alone(*row) for row in distinct]
            masses = np.array([mass for mass, _ in maps])
            tables = np.stack([table for _, table in maps])
            which = which.reshape(self._rows[0].shape)
            self._solved = masses[which], NormalMap(tables, which)
        return self._solved

    def _alone(
        self, scale: float, f: float, a: float, lower: float, upper: float
    ) -> tuple[float, np.ndarray]:
        """The same for one parameter: in the normal number of the prior inside, or, where that is
        flat, in θ.
        """
        layer = float(layers(np.asarray(lower), np.asarray(upper)))
        walls = [wall for wall in (lower, upper) if math.isfinite(wall)]
        kinks = sorted({*walls, lower + layer, upper - layer} - {math.inf, -math.inf})

        def energy(x):
            if lower == upper:
                return f / (a + 1) * np.abs(x - lower) ** (a + 1)
            depths = [
                np.maximum(1 - (x - lower) / layer, 0.0),
                np.maximum(1 - (upper - x) / layer, 0.0),
            ]
            return f * layer / (a + 1) * sum(depth ** (a + 1) for depth in depths)

        if not self.inner.proper:
            if lower == upper:
                reach = (_FAR * (a + 1) / f) ** (1 / (a + 1))
            else:
                reach = layer * (_FAR * (a + 1) / (f * layer)) ** (1 / (a + 1))
            return tabulated(lambda x: -energy(x), (lower - reach, upper + reach), kinks)
        scores = [float(self.inner.score(np.asarray(kink / scale))) for kink in kinks]

        def log_density(z):
            return (
                -(z**2) / 2
                - math.log(math.sqrt(2 * math.pi))
                - energy(scale * self.inner.quantile(z))
            )

        return tabulated(
            log_density, (-37.0, 37.0), [score for score in scores if math.isfinite(score)]
        )

    def get_config(self) -> dict:
        config = dict(self.inner.get_config())
        for name in ("factor", "power", "lower", "upper"):
            values = sorted({float(v) for v in np.ravel(getattr(self, name)) if np.isfinite(v)})
            key = {"lower": "prior_lower_boundary", "upper": "prior_upper_boundary"}.get(
                name, f"prior_{name}"
            )
            if values:
                config[key] = values[0] if len(values) == 1 else [values[0], values[-1]]
        return config

    def __str__(self) -> str:
        force = "separate for each parameter"
        if self.factor.ndim == 0 and self.power.ndim == 0:
            force = f"factor {self.factor:g}, power {self.power:g}"
        if self.lower.ndim == self.upper.ndim == 0 and self.lower == self.upper:
            return f"{self.inner}, with a tether to {self.lower:g} ({force})"
        return f"{self.inner}, with soft walls {between(*self._rows[3:])} ({force})"


def layers(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Width w of the layer in which W rises before each wall, in the shape of the walls.

    Args:
        lower: Lower walls; -inf where there is none.
        upper: Upper walls; inf where there is none.
    """
    with np.errstate(invalid="ignore"):
        both = np.isfinite(lower) & np.isfinite(upper) & (lower < upper)
        alone = np.where(np.isfinite(lower), lower, upper)
        single = np.where(alone < 0, 0.01 * np.abs(alone), 0.01)
        return np.where(both, 0.01 * np.where(both, upper - lower, 1.0), single)


@front_doors
class Tether(Prior):
    """A Gaussian around one point, V = γ abs(θ - c)²/2 + P/2 log(2π/γ), for runs near one minimum.

    Args:
        center: c, `(parameters,)`, such as `sim.parameters` after a fit, including a sampled noise.
        precision: γ, above 0. Directions in which the loss is flat have the variance 1/γ. Default:
            1.

    Raises:
        InputError: The center is not a vector of finite numbers, or γ is not above 0.

    Examples:
        >>> str(tati_re.priors.Tether([1.0, 2.0], 100.0))
        'a tether of precision 100 to a point'
    """

    name = "tether"
    proper = True

    @front_door
    def __init__(self, center, precision: float = 1.0) -> None:
        self.center = np.asarray(center, np.float64)
        self.precision = float(precision)
        if self.center.ndim != 1 or not np.isfinite(self.center).all():
            raise InputError(
                "tether: the center is not a point.",
                f"shape {self.center.shape}",
                "a finite vector",
            )
        if not (self.precision > 0 and math.isfinite(self.precision)):
            raise InputError("tether is out of range.", precision, "a finite number above 0")
        self.num_parameters = len(self.center)

    def log_prob(self, position) -> tf.Tensor:
        away = tf.cast(position, tf.float64) - self.center
        normalization = 0.5 * len(self.center) * math.log(self.precision / (2 * math.pi))
        return normalization - 0.5 * self.precision * tf.reduce_sum(away * away, axis=-1)

    def gradient(self, position) -> tf.Tensor:
        return tf.constant(self.precision, position.dtype) * (
            position - tf.constant(self.center, position.dtype)
        )

    def from_normal(self, normal) -> tf.Tensor:
        return tf.constant(self.center, normal.dtype) + normal / tf.constant(
            math.sqrt(self.precision), normal.dtype
        )

    def get_config(self) -> dict:
        return {"prior": self.name, "tether": self.precision}

    def __str__(self) -> str:
        return f"a tether of precision {self.precision:g} to a point"
