"""Stochastic gradient Hamiltonian Monte Carlo."""

from typing import Any

from tati_re.core.errors import InputError
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import (
    as_float64,
    as_type,
    column,
    maximum,
    minimum,
    replaced_if,
    sqrt,
    zeros_like,
)
from tati_re.core.protocol import Info
from tati_re.samplers.splitting import drift, evaluated, with_momenta
from tati_re.samplers.wrappers.coordinates import extend
from tati_re.samplers.wrappers.fisher import steps_of_window

_KEPT = 10.0
"""Steps as which the mean of the windows before counts in that of a new one, which may be cut
short.
"""


class SGHMC(Method):
    """Langevin dynamics that injects less noise if the mini-batch gradient already supplies some.

    Despite the name there is no Metropolis test.

    Targets exp(-β U) up to a bias of order h², if the estimate V̂ equals the variance V of the
    mini-batch gradient and the noise is independent in every step. Batches are therefore drawn with
    replacement; within epochs the noise sums to zero and heats less. On a harmonic well the
    variance of the positions is (T/k) (1 + h (V - V̂) / (2γT)) times the scheme's own 1 + O(h²): an
    estimate of 0 corrects nothing.

    Rule:

        p <- (1 - α) p - h ∇U(θ) + N(0, 2 α T - h² V̂),   α = γ h
        θ <- θ + h p

    With "estimate" V̂ is, for each parameter and walker, the mean of the gradient's variance over
    the burn-in, kept as `noise_estimate` in the state and frozen afterwards. It restarts after 40,
    80, 160, ... steps, like measured masses, because the variance changes on the way from a distant
    start and with the mass. If h² V̂ exceeds 2αT, no noise is added, and the rest of V heats. Use a
    smaller step or a larger friction.

    One gradient per step, and during the burn-in with "estimate" one and a half more where all
    parameters belong to dense layers in a row, for other networks the gradients of the single
    examples of a mini-batch. Stable while h²ω² < 4 - 2α. The kinetic temperature is T / (1 - α/2).
    A published learning rate η is h², the published V̂ twice theirs (B̂ = h V̂ / 2). Source: Chen,
    Fox and Guestrin, ICML 2014, eq. (13) to (15).

    Args:
        friction: γ above 0. Default: 1.
        gradient_noise: V̂, one number for all parameters (0: no estimate) with a fixed step size
            and no mass, or "estimate". Default: 0.

    Examples:
        >>> SGHMC(friction=1.0, gradient_noise=4.0).get_config()
        {'sampler': 'SGHMC', 'friction': 1.0, 'gradient_noise': 4.0}
    """

    name = "SGHMC"
    has_momentum = True
    settings = ("friction", "gradient_noise")

    @front_door
    def __init__(self, friction: float = 1.0, gradient_noise: float | str = 0.0) -> None:
        if isinstance(friction, str) or not friction > 0:
            raise InputError(
                "friction: SGHMC needs a heat bath.", received=friction, expected="a number above 0"
            )
        self.estimates = isinstance(gradient_noise, str)
        if (
            gradient_noise != "estimate"
            if isinstance(gradient_noise, str)
            else not gradient_noise >= 0
        ):
            raise InputError(
                "gradient_noise: this is not a variance.",
                repr(gradient_noise),
                "0 or more, or 'estimate'",
            )
        self.friction = float(friction)
        self.gradient_noise: Any = gradient_noise if self.estimates else float(gradient_noise)
        self.subtracts_noise = self.gradient_noise != 0.0
        self.of_rung = ("noise_estimate",) if self.estimates else ()
        self.adapts = self.estimates
        self.dynamics = Dynamics(
            removed_noise=float(gradient_noise) if not isinstance(gradient_noise, str) else 0.0
        )
        if self.estimates or gradient_noise:
            self.against_noise = (
                "it reduces the injected noise by the known variance of the gradient; "
                "the rest heats."
            )

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        """Refuses a gradient noise above what friction takes out, h² V̂ > 2 α T.

        Also refuses an estimate without a burn-in.

        Args:
            step_size: h.
            temperature: T.
            num_burnin_steps: Steps of the burn-in.

        Raises:
            InputError: The noise is too large, or it is estimated and there is no burn-in.
        """
        if self.estimates and not num_burnin_steps:
            problem = "gradient_noise: it is estimated during the burn-in."
            raise InputError(
                problem, "num_burnin_steps = 0", "num_burnin_steps above 0, or a number"
            )
        most = 2.0 * self.friction * temperature / step_size
        if not self.estimates and self.gradient_noise > most:
            received = (
                f"{self.gradient_noise:g} at friction {self.friction:g} and step_size {step_size:g}"
            )
            expected = f"at most 2 friction T / step_size = {most:.4g}"
            raise InputError(
                "gradient_noise is larger than the friction can dissipate.", received, expected
            )

    def init(self, position, evaluate, noise):
        """Starts with momenta from N(0, T), and the gradient with its variance if it is estimated.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = with_momenta(position, evaluate, evaluate.rung, noise)
        return (
            extend(state, noise_estimate=evaluate.gradient_variance(position))
            if self.estimates
            else state
        )

    def step(self, state, evaluate, noise):
        time, temperature = (
            column(value, state.momentum)
            for value in (state.rung.step_size, state.rung.temperature)
        )
        known = state.noise_estimate if self.estimates else self.gradient_noise
        left = 2.0 * self.friction * time * temperature - time * time * known
        random = sqrt(maximum(left, zeros_like(left))) * noise.normal(state.momentum.shape)
        momentum = (1.0 - self.friction * time) * state.momentum - time * state.gradient + random
        state = evaluated(drift(state._replace(momentum=momentum), evaluate, time), evaluate)
        return (self._learned(state, evaluate) if self.estimates else state), Info()

    @staticmethod
    def _learned(state, evaluate):
        def learned(old):
            step = as_float64(evaluate.clock.step)
            counted = maximum(minimum(step, steps_of_window(step) + _KEPT), as_float64(1.0))
            gain = as_type(1.0 / counted, old)
            return (old + gain * (evaluate.gradient_variance(state.position) - old),)

        (estimate,) = replaced_if(evaluate.clock.adapting, learned, (state.noise_estimate,))
        return state._replace(noise_estimate=estimate)
