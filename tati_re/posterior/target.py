"""A potential that users wrote as a function: how it is called, its gradient, and whether it can be
right.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.potential import Prior
from tati_re.core.user_input import error_text, is_change
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.named_density import NamedDensity, name_of
from tati_re.posterior.priors import Flat

EXPECTED = (
    "U = -log density in TensorFlow, `(walkers,)` for positions `(walkers, dimension)` or a number for one position "
    "`(dimension,)`; or the same in NumPy, as a pair of U and its gradient"
)
_SEED = 0x5447


class Target:
    """A function of users as U of all walkers, differentiable in TensorFlow.

    Calls at a few places find out its form: whether it has a gradient already, is in NumPy, and
    takes all walkers or one.

    Args:
        function: U, -log density, in TensorFlow, or in NumPy with its gradient; or a
            `NamedDensity`.
        dimension: Number of coordinates of a position.
        dtype: "float32" or "float64".

    Attributes:
        numpy: Whether the function is in NumPy, which XLA cannot compile.
        batched: Whether it takes all walkers, (walkers, dimension), not one.
        pair: Whether it returns U and its gradient.
        failure: Text of the last exception of a function in NumPy, or None.

    Raises:
        InputError: The function fails, or its values have the wrong shape, no gradient, or depend
            on other walkers.
    """

    def __init__(self, function: Callable, dimension: int, dtype: str) -> None:
        refuse_if(
            not callable(function),
            "potential: this is not a function.",
            type(function).__name__,
            EXPECTED,
        )
        self.function = function
        self.dimension = dimension
        self.dtype = dtype
        # A lambda has a name that is none; a partial function and an object have none at all.
        self.name = function.name if isinstance(function, NamedDensity) else name_of(function)
        self.failure: str | None = None
        self._probe = (
            np.random.default_rng(_SEED)
            .standard_normal((2 + (dimension != 3), dimension))
            .astype(dtype)
        )
        self.numpy, self.batched, self.pair = self._calling_convention()
        self._check_rows()

    @cached_property
    def _compiled(self) -> Callable:
        return self.__call__ if self.numpy else tf.function(self.__call__, autograph=False)

    def __getstate__(self) -> dict[str, Any]:
        """Without what is compiled, which does not travel to workers."""
        return {name: value for name, value in vars(self).items() if name != "_compiled"}

    def __call__(self, position: Any) -> Any:
        """U, `(walkers,)`, of positions `(walkers, dimension)`."""
        if self.numpy:
            return self._of_numpy(position)
        if not self.pair:
            return self._values(position)

        @tf.custom_gradient
        def value(x):
            # The compiler finds that both calls compute the same.
            return self._values(x)[0], lambda upstream: upstream[:, None] * self._values(x)[1]

        return value(position)

    def value_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = tf.constant(np.asarray(position, self.dtype))
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = self._compiled(x)
        gradient = tape.gradient(value, x)
        if gradient is None:
            raise _without_gradient(self.name)
        return value.numpy(), gradient.numpy()

    def fingerprint(self) -> str:
        """SHA-256 of U and ∇U at a few places, in 5 digits (3 in float32): what a changed function
        changes.
        """
        digits = 4 if self.dtype == "float64" else 2
        numbers = [
            f"{v:.{digits}e}"
            for part in self.value_and_gradient(self._probe)
            for v in np.ravel(part)
        ]
        return hashlib.sha256(" ".join(numbers).encode()).hexdigest()

    def check_at(self, position: np.ndarray) -> None:
        """Refuses a function that is not finite at these positions, `(walkers, dimension)`, or
        whose gradient near the first three has an entry that differs from central differences by
        1e-3 (float32: 5e-2) of the sum of all entries' sizes. These go along random signs in steps
        of 1e-5 (1e-2) of |θ| + 1.
        """
        for walker, (value, slope) in enumerate(
            zip(*self.value_and_gradient(position), strict=True)
        ):
            if not (np.isfinite(value) and np.isfinite(slope).all()):
                evaluation = (
                    f"U = {value:g}" if not np.isfinite(value) else "a gradient that is not finite"
                )
                received = f"{evaluation} at {_listed(position[walker])}"
                expected = "parameters=..., a start where U and its gradient are finite"
                raise InputError(
                    f"potential: not finite where walker {walker} starts.", received, expected
                )
        random = np.random.default_rng(_SEED)
        step, tolerance = (1e-5, 1e-3) if self.dtype == "float64" else (1e-2, 5e-2)
        for start in np.asarray(position[:3], np.float64):
            size = 1 + np.abs(start)
            point = start + 0.05 * size * random.standard_normal(self.dimension)
            along = step * size * random.choice((-1.0, 1.0), self.dimension)
            values, slopes = self.value_and_gradient(
                np.stack([point - along, point, point + along])
            )
            if not (np.isfinite(values).all() and np.isfinite(slopes[1]).all()):
                continue
            difference = float(values[2]) - float(values[0])
            terms = 2 * along * slopes[1]
            if not is_change(values, terms, tolerance, self.dtype):
                raise InputError(
                    "potential: the gradient does not match the values.",
                    received=f"a slope of {terms.sum() / 2 / step:.6g} by the gradient and {difference / 2 / step:.6g} "
                    f"by finite differences near {_listed(point)}",
                    expected="the gradient of U = -log density, with its sign",
                )

    def unexplained(self, positions: np.ndarray) -> float:
        """The share of the lines from each position to the next along which U changes by other than
        the integral of its gradient, by 0.1 and three times what 16 and 8 nodes differ by: where U
        jumps, or a gradient is wrong.
        """
        along = np.diff(positions, axis=0)
        sums = []
        for nodes, weights in map(np.polynomial.legendre.leggauss, (8, 16)):
            slopes = [
                self.value_and_gradient(positions[:-1] + (1 + x) / 2 * along)[1] for x in nodes
            ]
            sums.append(np.einsum("k,kij,ij->i", weights / 2, slopes, along))
        values = self.value_and_gradient(positions)[0].astype(np.float64)
        rounding = 100 * np.finfo(self.dtype).eps * np.abs(values).max()
        least = 0.1 + rounding + 3 * np.sqrt(np.mean((sums[1] - sums[0]) ** 2))
        return float(np.mean(np.abs(np.diff(values) - sums[1]) > least))

    def is_quadratic(self, position: np.ndarray) -> bool:
        """Whether each entry of the gradient is linear, to 1e-6 (float32: 1e-3) of its size, on the
        line through `(dimension,)` whose direction has random entries of the size of |θ| + 1, as
        that of a Gaussian is.
        """
        along = (1 + np.abs(position)) * np.random.default_rng(_SEED).standard_normal(
            self.dimension
        )
        first, second, third = self.value_and_gradient(position + np.outer(np.arange(3), along))[1]
        size = np.maximum(np.abs(first), np.abs(third))
        return bool(
            (
                np.abs(first - 2 * second + third)
                <= (1e-6 if self.dtype == "float64" else 1e-3) * size
            ).all()
        )

    def _values(self, x: Any) -> Any:
        # The gradient of a reshape is dense and has a shape, that of rows taken out of x, or of
        # Python, has not.
        dense = tf.reshape(x, tf.shape(x))
        result = self.function(dense) if self.batched else tf.vectorized_map(self.function, dense)
        value, *slope = (tf.cast(part, x.dtype) for part in (result if self.pair else (result,)))
        value = tf.ensure_shape(value, x.shape[:1])
        return (value, tf.ensure_shape(slope[0], x.shape)) if self.pair else value

    def _of_numpy(self, position: Any) -> Any:
        def call(x):
            # It may write into what it is given, and give the same arrays each time.
            arguments = [x.copy()] if self.batched else x.copy()
            try:
                rows = [tuple(map(np.array, self.function(argument))) for argument in arguments]
                values, slopes = (
                    np.concatenate([np.reshape(row[k], (-1, *n)) for row in rows])
                    for k, n in shapes
                )
            except Exception as error:
                self.failure = error_text(error, 160)
                raise
            return values.astype(x.dtype), slopes.astype(x.dtype)

        def both(x):
            values, slopes = tf.numpy_function(call, [x], [x.dtype, x.dtype])
            return tf.ensure_shape(values, x.shape[:1]), tf.ensure_shape(slopes, x.shape)

        def product(x, vector):
            """∇²U times a vector by central differences of the gradient."""
            step = tf.cast(1e-5 if self.dtype == "float64" else 1e-2, x.dtype)
            step /= tf.reduce_max(tf.abs(vector)) + tf.cast(1e-30, x.dtype)
            return (both(x + step * vector)[1] - both(x - step * vector)[1]) / (2 * step)

        @tf.custom_gradient
        def slope_at(x, slopes):
            return tf.identity(slopes), lambda upstream: (product(x, upstream), None)

        @tf.custom_gradient
        def value(x):
            values, slopes = both(x)
            return values, lambda upstream: upstream[:, None] * slope_at(x, slopes)

        shapes: tuple[tuple[int, tuple[int, ...]], ...] = ((0, ()), (1, (self.dimension,)))
        return value(position)

    def _calling_convention(self) -> tuple[bool, bool, bool]:
        """Whether it computes in NumPy, takes all walkers at once, and returns a pair."""
        unlike = list[str]()
        failed = list[str]()
        for numpy in (False, True):
            for batched in (True, False):
                x = self._probe if batched else self._probe[0]
                argument = x.copy() if numpy else tf.constant(x)
                try:
                    with tf.GradientTape() as tape:
                        tape.watch(() if numpy else argument)
                        result = self.function(argument)
                    pair = isinstance(result, tuple) and len(result) == 2
                    value, slope = result if pair else (result, x)
                    shapes = _shape(value), _shape(slope)
                except Exception as error:
                    failed.append(f"{error_text(error, 160)} for {x.shape}")
                    continue
                if tf.is_tensor(value) == numpy:
                    continue
                if shapes != (x.shape[:-1], x.shape):
                    unlike.append(
                        f"{f'U {shapes[0]} and gradient {shapes[1]}' if pair else shapes[0]} for {x.shape}"
                    )
                elif numpy and not pair:
                    problem = "potential: it computes in NumPy but returns no gradient."
                    raise InputError(problem, "None" if value is None else self.name, EXPECTED)
                elif not numpy and not pair and tape.gradient(value, argument) is None:
                    raise _without_gradient(self.name)
                else:
                    return numpy, batched, pair
        raise InputError(
            "potential: it does not return U.",
            "; ".join([*unlike, *failed][:2]) or self.name,
            EXPECTED,
        )

    def _check_rows(self) -> None:
        """Refuses a function that TensorFlow cannot compile, or whose value depends on other
        walkers, or on chance.
        """
        x = self._probe
        try:
            first = self.value_and_gradient(x)[0]
        except InputError:
            raise
        except Exception as error:
            raise InputError(
                "potential: TensorFlow cannot compile it.", error_text(error, 160), EXPECTED
            ) from error
        among = self.value_and_gradient(np.concatenate([x[:1], 1.7 * x[1:] + 0.3]))[0]
        if not np.array_equal(first, self.value_and_gradient(x)[0], equal_nan=True):
            raise InputError(
                "potential: two calls give different values.",
                self.name,
                "a function of the position",
            )
        if not np.allclose(first[0], among[0], rtol=1e-4, equal_nan=True):
            problem = "potential: the value of a walker depends on the other walkers."
            expected = "sums over the last axis only, as in tf.reduce_sum(x * x, axis=-1)"
            raise InputError(problem, f"{first[0]:.6g} and {among[0]:.6g}", expected)


def _without_gradient(name: str) -> InputError:
    reason = "its value does not depend on the position through TensorFlow, so it has no gradient"
    return InputError(f"potential: {reason}.", name, EXPECTED)


class _Loss:
    """What stands where a model has its loss: L is the function itself."""

    name = "potential"
    likelihood = True
    samples_noise = False
    has_density = True

    def get_config(self) -> dict[str, Any]:
        return {"loss": self.name}


class TargetPotential(FunctionPotential):
    """U = L + V of a run, with L a user's function, and V = -log prior, zero without a prior.

    Args:
        target: L.
        prior: The prior.
        names: Names of the coordinates, one for each.
        copies: Number of walkers at all temperatures.
    """

    loss = _Loss()

    def __init__(self, target: Target, prior: Prior, names: Sequence[str], copies: int) -> None:
        super().__init__(target, target.dimension, prior, target.dtype, names)
        self.target = target
        self.num_walkers = copies

    @property
    def confined(self) -> bool:
        """The density of users counts as one that can be normalized."""
        return True

    def with_batches(self, batches: Any) -> TargetPotential:
        return self

    def describe(self, batch: str | None = None) -> str:
        if isinstance(self.target.function, NamedDensity):
            names = ", ".join(self.target.function.layout.supports)
            prior = "" if isinstance(self.prior, Flat) else f" - log prior, {self.prior}"
            return f"U = -log density {self.target.name}({names}) - log Jacobian{prior}"
        function = f"the function {self.target.name} of {self.num_parameters} coordinates"
        if isinstance(self.prior, Flat):
            return f"U = {function}, -log density"
        return f"U = L + V; L = {function}; V = -log prior, {self.prior}"

    def notices(self) -> list[str]:
        if isinstance(self.target.function, NamedDensity):
            return [f"{self.target.name} is called for one draw, and vectorized over chains."]
        how = "all walkers at once" if self.target.batched else "one walker at a time"
        whose = (
            "and returns its own gradient"
            if self.target.pair
            else "and is differentiated by TensorFlow"
        )
        if self.target.numpy:
            whose = (
                "in NumPy with its own gradient; the steps run as a graph, because XLA "
                "cannot compile NumPy"
            )
        return [f"{self.target.name} is called for {how}, {whose}."]


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in np.shape(value))


def _listed(position: np.ndarray) -> str:
    numbers = [f"{value:.4g}" for value in position[:6]]
    return f"({', '.join(numbers)}{', ...' if len(position) > 6 else ''})"
