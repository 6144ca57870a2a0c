"""The Leimkuhler-Matthews method: overdamped Langevin dynamics of second order."""

from tati_re.core.method import Method
from tati_re.core.ops import column, sqrt
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.sgld import SGLD
from tati_re.samplers.wrappers.coordinates import extend


class LeimkuhlerMatthews(Method):
    """Overdamped Langevin dynamics in which each random number is used in two steps.

    It is the limit of BAOAB at large friction.

    Targets exp(-β U) up to a bias of order h² in the long run (SGLD: h). On a harmonic well of
    stiffness k the variance is T/k at every stable step; mini-batches heat as in SGLD. Stable while
    hk < 2. One gradient per step.

    Rule:

        θ <- θ - h ∇U(θ) + sqrt(h T / 2) (R + R')

    R' is a new random number and replaces R, which the state stores as `random`. The walls of a
    prior reflect R' together with the walker, so the distribution in a box without forces is
    uniform. Source: Leimkuhler and Matthews, Appl. Math. Res. Express 2013(1), 34-56, section 4.

    Examples:
        >>> LeimkuhlerMatthews().gradients_per_step
        1.0
    """

    name = "LM"

    def init(self, position, evaluate, noise):
        return extend(
            SGLD.init(self, position, evaluate, noise), random=noise.normal(position.shape)
        )

    def step(self, state, evaluate, noise):
        time = column(state.rung.step_size, state.position)
        spread = sqrt(0.5 * time * column(state.rung.temperature, state.position))
        random = noise.normal(state.position.shape)
        position = state.position - time * state.gradient + spread * (state.random + random)
        position, random = evaluate.confine(position, random)
        return with_energy(
            state._replace(position=position, random=random), evaluate(position)
        ), Info()
