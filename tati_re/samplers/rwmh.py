"""Random-walk Metropolis."""

from tati_re.core.facets import Dynamics
from tati_re.core.method import Method
from tati_re.core.ops import column, sqrt
from tati_re.samplers.mala import MALA
from tati_re.samplers.metropolis import accept_or_keep


class RandomWalkMetropolis(Method):
    """Random-walk Metropolis: the baseline that uses no gradient.

    Targets exp(-β U) exactly, at every step size; needs all data in every step.

    Rule:

        θ' = θ + h p,   p ~ N(0, T)
        accept with probability min(1, exp(-β (U' - U))), else keep θ

    The proposal is the drift of a momentum over the time step h: its standard deviation is h
    sqrt(T), proportional to the width of the target. One step size therefore suits all temperatures
    of a harmonic well. Cost: one evaluation of U per step; the gradient is computed with it for the
    columns of run.csv. A proposal outside of the support of the prior or not finite is rejected.
    For a Gaussian of P equal standard deviations σ at T = 1 the best step is 2.38 σ/sqrt(P), with
    the acceptance 0.234 at large P. Source: Metropolis et al., J. Chem. Phys. 21, 1087 (1953); best
    step: Roberts, Gelman and Gilks, Annals of Applied Probability 7, 110 (1997).

    Examples:
        >>> RandomWalkMetropolis().metropolis
        True
    """

    name = "RWMH"
    metropolis = full_batch = True
    dynamics = Dynamics(timed=True, acceptance=0.234)

    init = MALA.init

    def step(self, state, evaluate, noise):
        spread = column(state.rung.step_size, state.position) * sqrt(
            column(state.rung.temperature, state.position)
        )
        proposal = self.init(
            state.position + spread * noise.normal(state.position.shape), evaluate, noise
        )
        proposal = proposal._replace(rung=state.rung)
        return accept_or_keep(proposal, state, proposal.potential - state.potential, noise)
