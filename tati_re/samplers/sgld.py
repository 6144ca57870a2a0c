"""Stochastic gradient Langevin dynamics."""

from tati_re.core.method import Method
from tati_re.core.ops import column, sqrt
from tati_re.core.protocol import Info, State


class SGLD(Method):
    """Stochastic gradient Langevin dynamics: overdamped, no momenta.

    Targets exp(-β U) up to a bias of order h. On a harmonic well of stiffness k the variance is
    (T/k) / (1 - hk/2) and mini-batch noise of gradient variance s² multiplies it by 1 + h s²/(2T).
    Stable while hk < 2. One gradient per step.

    Rule:

        θ <- θ - h ∇U(θ) + sqrt(2 h T) R

    Here the step size multiplies the gradient; Welling and Teh's ε is 2h. Source: Welling and Teh,
    ICML 2011, eq. (4).

    Examples:
        >>> SGLD().gradients_per_step
        1.0
    """

    name = "SGLD"

    def init(self, position, evaluate, noise) -> State:
        energy = evaluate(position)
        return State(
            position,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            evaluate.rung,
        )

    def step(self, state: State, evaluate, noise) -> tuple[State, Info]:
        step_size = column(state.rung.step_size, state.position)
        spread = sqrt(2.0 * step_size * column(state.rung.temperature, state.position))
        position = (
            state.position
            - step_size * state.gradient
            + spread * noise.normal(state.position.shape)
        )
        position, _ = evaluate.confine(position, None)
        return self.init(position, evaluate, noise)._replace(rung=state.rung), Info()
