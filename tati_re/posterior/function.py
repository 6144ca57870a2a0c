"""A potential given as a function, for physics problems, teaching and tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral

from tati_re.core.backend import tf, value_and_gradient
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung
from tati_re.core.front_door import front_doors
from tati_re.core.potential import Potential, Prior
from tati_re.posterior.priors import Flat

_MOST_PARAMETERS = 1_000_000_000
"""More is taken for a mistake."""


@front_doors
class FunctionPotential(Potential):
    """A potential U(θ) = λ L(θ) + V(θ), with L a function of the positions of all walkers.

    Args:
        function: L, in TensorFlow operations. It maps positions `(walkers, parameters)` to
            `(walkers,)`.
        num_parameters: P, the number of parameters, at least 1.
        prior: The prior, whose -log density is V. Default: None, no prior.
        dtype: "float32" or "float64". Default: "float64".
        parameter_names: Names of the parameters. Default: `x[0]`, `x[1]`, ...
        validation: A function like the first that replaces the mean loss on a test set. Default:
            None.

    Raises:
        InputError: `function` is not a function, `num_parameters` is out of range, or there are not
            as many names as parameters.

    Examples:
        >>> well = FunctionPotential(lambda x: 0.5 * tf.reduce_sum(x * x, -1), num_parameters=1)
        >>> well.num_parameters
        1
    """

    def __init__(
        self,
        function: Callable,
        num_parameters: int,
        prior: Prior | None = None,
        dtype: str = "float64",
        parameter_names: Sequence[str] | None = None,
        validation: Callable | None = None,
    ) -> None:
        problem = "function is not a function of the positions."
        refuse_if(
            not callable(function), problem, function, "lambda x: 0.5 * tf.reduce_sum(x**2, -1)"
        )
        whole = isinstance(num_parameters, Integral) and not isinstance(num_parameters, bool)
        problem = "num_parameters is out of range."
        expected = f"a whole number from 1 to {_MOST_PARAMETERS:,}"
        fits = whole and 1 <= num_parameters <= _MOST_PARAMETERS
        refuse_if(not fits, problem, num_parameters, expected)
        self.function = function
        self.validation = validation
        self.num_parameters = int(num_parameters)
        self.prior = prior or Flat()
        self.dtype = tf.as_dtype(dtype)
        numbered = (f"x[{i}]" for i in range(num_parameters))
        self.parameter_names = list(numbered if parameter_names is None else parameter_names)
        problem = "parameter_names: there must be one for each parameter."
        count = len(self.parameter_names)
        refuse_if(count != num_parameters, problem, f"{count} names", f"{num_parameters} names")

    def bind(
        self, rung: Rung, batch=None, auxiliary: tuple = (), clock: Clock | None = None
    ) -> FunctionEvaluate:
        return FunctionEvaluate(self, rung, clock)

    def describe(self, batch: str | None = None) -> str:
        return f"U = L + V, L a function of {self.num_parameters} parameters, V = -log of the prior ({self.prior})"


@front_doors
class FunctionEvaluate(Evaluate):
    """A `FunctionPotential` bound to the walkers' rungs.

    Args:
        potential: The potential.
        rung: Temperature and step size of each walker.
        clock: The step of the run. Default: none.
    """

    scale = 1.0
    num_examples = 1
    exact = True

    def __init__(
        self, potential: FunctionPotential, rung: Rung, clock: Clock | None = None
    ) -> None:
        self.potential = potential
        self.rung = rung
        self.clock = clock or no_clock()

    def __call__(self, position) -> Energy:
        loss, slope = value_and_gradient(self.potential.function, position)
        return combine(
            loss, slope, self.potential.prior, position, self.rung, 1.0, self.potential.vanishing
        )

    full = __call__

    def validation(self, position):
        if self.potential.validation is None:
            raise InputError(
                "validation: there is no test set.",
                expected="FunctionPotential(..., validation=...)",
            )
        return tf.cast(self.potential.validation(position), tf.float64)

    def gradient_variance(self, position):
        return tf.zeros_like(position)

    def mean_loss(self, position):
        return tf.cast(self.potential.function(position), tf.float64)

    def examples(self, position, indices):
        return tf.repeat(self.mean_loss(position)[:, None], indices.shape[-1], axis=1)

    def log_prior(self, position):
        return self.potential.prior.log_prob(position)

    def drawn_from_prior(self, normal):
        return self.potential.prior.from_normal(normal)

    def confine(self, position, momentum):
        return self.potential.prior.confine(position, momentum)


def no_clock() -> Clock:
    """The clock of a call from outside of a run."""
    return Clock(tf.constant(0, tf.int64), tf.constant(False), tf.constant(0))


def combine(
    loss, slope, prior: Prior, position, rung: Rung, scale: float, vanishing: bool = False
) -> Energy:
    """U = λ scale loss + V and its gradient.

    Args:
        loss: Mean loss, (walkers,).
        slope: Gradient of scale times the mean loss, (walkers, parameters).
        prior: The prior, whose -log density is V.
        position: Positions, (walkers, parameters).
        rung: Rung of each walker, which gives the weight λ of the likelihood.
        scale: L divided by the mean loss: N, or 1 under the mean-loss convention.
        vanishing: Whether λ may be 0, which removes L even if it is infinite. Default: False.
    """
    loss = tf.cast(loss, tf.float64)
    log_prior = prior.log_prob(position)
    weight = tf.cast(rung.likelihood_weight, tf.float64)
    counted = loss
    if vanishing:  # 0 times infinity is no number
        counted = tf.where(weight > 0, loss, tf.zeros_like(loss))
        slope = tf.where((weight > 0)[:, None], slope, tf.zeros_like(slope))
    gradient = tf.cast(weight, position.dtype)[:, None] * slope
    prior_gradient = prior.gradient(position)
    if prior_gradient is not None:
        gradient = gradient + prior_gradient
    return Energy(weight * scale * counted - log_prior, gradient, loss, log_prior)
