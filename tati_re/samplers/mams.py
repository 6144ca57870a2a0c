"""Microcanonical trajectories with a Metropolis test."""

from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.ops import repeat
from tati_re.core.protocol import Info
from tati_re.samplers.hmc import HamiltonianMonteCarlo, drawn_length
from tati_re.samplers.metropolis import accept_or_keep
from tati_re.samplers.microcanonical import INTEGRATORS, check_dimension, checked, moved, on_sphere
from tati_re.samplers.splitting import LangevinState


class MAMS(HamiltonianMonteCarlo):
    """The Metropolis-adjusted microcanonical sampler: trajectories of random length and fresh
    direction.

    Targets exp(-β U) exactly, at every step size. It needs all data in every step; lengths and walls are as
    in HMC.

    Rule: u uniform on the sphere; N steps of the integrator; accept with probability min(1,
    exp(-β(ΔU + ΔK))), whose mean is about 2 Φ(-s/2T) with s² = Var(ΔU + ΔK). Source: Robnik,
    Cohn-Gordon and Seljak, arXiv 2503.01707, without refreshment during the trajectory. There N is
    uniform up to 2 N₀, j = 1.

    Args:
        num_leapfrog_steps: Mean number of steps per trajectory, or "auto", as for
            `HamiltonianMonteCarlo`. Default: 10.
        leapfrog_jitter: Relative variation of the number of steps, in [0, 1], as for
            `HamiltonianMonteCarlo`. Default: 0.5.
        walls: "reject" or "reflect", as of `HamiltonianMonteCarlo`. Default: "reject".
        integrator: "leapfrog", "mclachlan" or "isotropic". Default: "leapfrog".

    Examples:
        >>> MAMS(10, leapfrog_jitter=1.0).lengths
        (1, 20)
    """

    name = "MAMS"
    dynamics = Dynamics(isokinetic=True, needs_heat=True, acceptance=0.9)
    settings = (*HamiltonianMonteCarlo.settings, "integrator")

    @front_door
    def __init__(
        self,
        num_leapfrog_steps: int | str = 10,
        leapfrog_jitter: float = 0.5,
        walls: str = "reject",
        integrator: str = "leapfrog",
    ) -> None:
        super().__init__(num_leapfrog_steps, leapfrog_jitter, walls)
        self.integrator = checked(integrator)
        self.gradients_per_step *= len(INTEGRATORS[integrator]) // 2

    def init(self, position, evaluate, noise) -> LangevinState:
        check_dimension(position.shape[1])
        return on_sphere(super().init(position, evaluate, noise))

    def step(self, state: LangevinState, evaluate, noise) -> tuple[LangevinState, Info]:
        start = on_sphere(state._replace(momentum=noise.normal(state.position.shape)))

        def body(state, kinetic):
            state, change = moved(state, evaluate, self.integrator, self.walls == "reflect")
            return state, kinetic + change

        end, kinetic = repeat(
            drawn_length(self.lengths_of(state), noise), body, (start, 0.0 * state.potential)
        )
        return accept_or_keep(end, start, end.potential - state.potential + kinetic, noise)
