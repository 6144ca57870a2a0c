"""Preconditioned stochastic gradient Langevin dynamics: SGLD with the step sizes of RMSprop."""

import math

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import as_float64, as_type, column, maximum, replaced_if, sqrt, where
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.wrappers.coordinates import extend

MODES = ("frozen", "adaptive")


class PreconditionedSGLD(Method):
    """Overdamped Langevin dynamics with a step size for each parameter, from its mean squared
    gradient.

    Targets exp(-β U) up to a bias of order h if the preconditioner G is "frozen": it adapts during
    the burn-in and is constant afterwards. On a harmonic well of stiffness k the variance is then
    (T/k) / (1 - hGk/2).

    Rule, with ḡ = ∇U / N the gradient of the mean loss:

        V <- a V + (1 - a) ḡ²,    G = 1 / (λ + sqrt(V)),    V = 1 at the start
        θ <- θ - h G ∇U(θ) + h T Γ + sqrt(2 h T G) R

    In the first 1/(1 - a) steps V is the plain average. A burn-in of ten times this length forgets
    the start.

    A continually adapting G ("adaptive", as published) depends on the position of the walker.
    Without its divergence Γ the distribution is near exp(-β U) / G: variance 1.89 in place of 1 for
    a harmonic well, a = 0, λ = 0.1. The published Γ = dG/dθ = -(1 - a) G² ḡ H / (N sqrt(V)), H the
    diagonal of the Hessian, corrects this only for a = 0, because it ignores earlier gradients.
    With the usual a = 0.99 the variance is 1.3 either way. Prefer "frozen".

    Cost: one gradient per step, two with Γ, whose H comes from the change of the gradient along
    random signs. Stable while hGk < 2; h N is the learning rate of an RMSprop on the mean loss, so
    that h is of the order 0.001 / N. Source: Li, Chen, Carlson and Carin, AAAI 2016, eq. (4) to
    (7); there h is ε/2 and N times smaller.

    Args:
        preconditioner: "frozen" after the burn-in, which must have steps, or "adaptive". Default:
            "frozen".
        preconditioner_decay: a in [0, 1). Default: 0.99.
        preconditioner_offset: λ above 0, which limits the step of parameters without gradients.
            Default: 1e-5.
        preconditioner_correction: Whether to add hTΓ for the adaptive preconditioner. Many programs
            do not, and sample a different distribution.

    Examples:
        >>> PreconditionedSGLD(preconditioner_decay=0.9).gradients_per_step
        1.0
    """

    name = "pSGLD"
    settings = (
        "preconditioner",
        "preconditioner_decay",
        "preconditioner_offset",
        "preconditioner_correction",
    )

    @front_door
    def __init__(
        self,
        preconditioner: str = "frozen",
        preconditioner_decay: float = 0.99,
        preconditioner_offset: float = 1e-5,
        preconditioner_correction: bool = True,
    ) -> None:
        refuse_if(
            preconditioner not in MODES,
            "preconditioner: unknown value.",
            repr(preconditioner),
            "frozen or adaptive",
        )
        if not 0 <= preconditioner_decay < 1:
            raise InputError(
                "preconditioner_decay: out of range.",
                preconditioner_decay,
                "at least 0 and below 1",
            )
        if not preconditioner_offset > 0:
            raise InputError(
                "preconditioner_offset: too small.", preconditioner_offset, "a number above 0"
            )
        self.preconditioner = preconditioner
        self.preconditioner_decay = float(preconditioner_decay)
        self.preconditioner_offset = float(preconditioner_offset)
        self.preconditioner_correction = bool(preconditioner_correction)
        self.adaptive = preconditioner == "adaptive"
        self._corrects = self.adaptive and self.preconditioner_correction
        self.gradients_per_step = 2.0 if self._corrects else 1.0
        self.of_rung = ("square",)
        self.adapts = not self.adaptive
        self.dynamics = Dynamics(own_speeds=True)
        self.against_noise = (
            "its preconditioner, and thus the speed of each parameter, is measured during the run."
        )

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        """Refuses a frozen preconditioner without a burn-in in which it learns.

        Args:
            step_size: h.
            temperature: T.
            num_burnin_steps: Steps of the burn-in.

        Raises:
            InputError: The preconditioner is frozen and there is no burn-in.
        """
        problem = "preconditioner: a frozen one is learned during the burn-in."
        expected = f"num_burnin_steps such as {round(10 / (1 - self.preconditioner_decay))}"
        refuse_if(
            not self.adaptive and not num_burnin_steps, problem, "num_burnin_steps = 0", expected
        )

    def init(self, position, evaluate, noise):
        """Starts with V = 1: until something is learned this is SGLD.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = SGLD.init(self, position, evaluate, noise)
        state = extend(state, square=0.0 * state.gradient + 1.0)
        if self._corrects:
            state = extend(state, curvature=_curvature(position, state.gradient, evaluate, noise))
        return state

    def step(self, state, evaluate, noise):
        time = column(state.rung.step_size, state.position)
        temperature = column(state.rung.temperature, state.position)
        mean_gradient = state.gradient / evaluate.scale
        square = self._square(state, mean_gradient, evaluate)
        scale = 1.0 / (self.preconditioner_offset + sqrt(square))
        random = sqrt(2.0 * time * temperature * scale) * noise.normal(state.position.shape)
        position = state.position - time * scale * state.gradient + random
        if self._corrects:
            slope = (1.0 - self.preconditioner_decay) * mean_gradient / (sqrt(square) + 1e-30)
            position = (
                position - time * temperature * scale**2 * slope * state.curvature / evaluate.scale
            )
        position, _ = evaluate.confine(position, None)
        new = with_energy(state._replace(position=position, square=square), evaluate(position))
        if self._corrects:
            new = new._replace(curvature=_curvature(position, new.gradient, evaluate, noise))
        return new, Info()

    def speeds(self, state):
        return sqrt(1.0 / (self.preconditioner_offset + sqrt(state.square)))

    def _square(self, state, mean_gradient, evaluate):
        def learned(square):
            gain = 1.0 / (as_float64(evaluate.clock.step) + 1.0)
            gain = as_type(maximum(gain, as_float64(1.0 - self.preconditioner_decay)), square)
            return (square + gain * (mean_gradient**2 - square),)

        before = (state.square,)
        (square,) = (
            learned(*before)
            if self.adaptive
            else replaced_if(evaluate.clock.adapting, learned, before)
        )
        return square


def _curvature(position, gradient, evaluate, noise):
    """Diagonal of ∇²U on this mini-batch, z (∇U(θ + δz) - ∇U(θ)) / δ with random signs z: unbiased,
    exact for P = 1.
    """
    uniform = noise.uniform(position.shape)
    signs = as_type(where(uniform < 0.5, 0.0 * uniform - 1.0, 0.0 * uniform + 1.0), position)
    delta = math.sqrt(float(np.finfo(position.dtype.name).eps))
    return signs * (evaluate(position + delta * signs).gradient - gradient) / delta
