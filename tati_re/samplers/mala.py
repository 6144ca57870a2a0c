"""The Metropolis-adjusted Langevin algorithm."""

from tati_re.core.facets import Dynamics
from tati_re.core.method import Method
from tati_re.core.ops import column, sqrt, sum_of_products
from tati_re.core.protocol import Info, State
from tati_re.samplers.metropolis import accept_or_keep


class MALA(Method):
    """Metropolis-adjusted Langevin algorithm: a step of SGLD on all data, accepted or rejected.

    Targets exp(-β U) exactly, at every step size; needs all data in every step.

    Rule:

        θ' = θ - h ∇U(θ) + sqrt(2 h T) R,   R ~ N(0, 1)
        accept with probability min(1, exp(-β ΔH)), else keep θ,
        ΔH = U' - U - [abs(θ' - θ + h ∇U)² - abs(θ - θ' + h ∇U')²] / (4h)

    It is HMC with one leapfrog step of size sqrt(2h), and has the same ΔH. Cost: one gradient per
    step. A proposal outside of the support of the prior or not finite is rejected. Proposals are
    useless above hk = 2, with k the largest curvature. For many parameters the optimal step is
    proportional to their number to the power -1/3, with acceptance 0.574. Source: Rossky, Doll and
    Friedman, J. Chem. Phys. 69, 4628 (1978); Roberts and Tweedie, Bernoulli 2, 341 (1996);
    acceptance: Roberts and Rosenthal, J. R. Statist. Soc. B 60, 255 (1998).

    Examples:
        >>> MALA().gradients_per_step
        1.0
    """

    name = "MALA"
    metropolis = full_batch = True
    dynamics = Dynamics(acceptance=0.574)

    def init(self, position, evaluate, noise) -> State:
        energy = evaluate.full(position)
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
        forward = spread * noise.normal(state.position.shape)
        proposal = self.init(state.position - step_size * state.gradient + forward, evaluate, noise)
        proposal = proposal._replace(rung=state.rung)
        # With w = θ' - θ + h∇U the step back is h(∇U + ∇U') - w; the squares of w cancel.
        both = state.gradient + proposal.gradient
        change = (
            proposal.potential
            - state.potential
            - 0.5 * sum_of_products(both, forward - 0.5 * step_size * both)
        )
        return accept_or_keep(proposal, state, change, noise)
