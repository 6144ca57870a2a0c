"""Generalized Hamiltonian Monte Carlo."""

from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import column
from tati_re.core.protocol import Info
from tati_re.samplers.hmc import HamiltonianMonteCarlo, energy_change, leapfrog, trajectory_lengths
from tati_re.samplers.metropolis import accept_or_keep
from tati_re.samplers.splitting import LangevinState, ornstein_uhlenbeck


class GeneralizedHMC(Method):
    """Generalized Hamiltonian Monte Carlo: trajectories with partial refreshment of the momenta.

    Targets exp(-β U) p(momentum) exactly, at every stable step size; needs all data in every step. With one
    leapfrog step it is OBABO with a Metropolis test, also known as stochastic Verlet or
    Metropolized Langevin dynamics.

    Rule, each step, O(t) as in the Langevin splittings:

        O(L h/2)   p <- c p + sqrt((1 - c²) T) R,   c = exp(-γ L h/2)
        L times:   p <- p - (h/2) ∇U(θ);  θ <- θ + h p;  p <- p - (h/2) ∇U(θ)
        accept with probability min(1, exp(-β ΔH)), H = U + p'p/2; else keep θ and turn p around
        O(L h/2)

    The friction is a rate, 1/time, independent of L. A rejection reverses the motion, so paths
    longer than 1/γ need an acceptance above 0.9. For large γ L h the momenta are independent at
    each step, as in HMC with fixed L. Cost: L gradients per step. A trajectory that leaves the
    support of the prior or is not finite is rejected. Stable while hω < 2. Source: Horowitz,
    Physics Letters B 268, 247 (1991); Kennedy and Pendleton, Nuclear Physics B 607, 456 (2001).

    Args:
        friction: γ, above 0. Default: 1.
        num_leapfrog_steps: L, at least 1. Default: 10.

    Examples:
        >>> GeneralizedHMC(friction=2.0, num_leapfrog_steps=3).gradients_per_step
        3.0
    """

    name = "GHMC"
    has_momentum = metropolis = full_batch = True
    finds_length = False
    settings = ("friction", "num_leapfrog_steps")

    @front_door
    def __init__(self, friction: float = 1.0, num_leapfrog_steps: int = 10) -> None:
        if isinstance(friction, str) or not friction > 0:
            raise InputError(
                "friction: without it the momenta are never refreshed.",
                friction,
                "a number above 0",
            )
        self.friction = float(friction)
        self.num_leapfrog_steps, _ = trajectory_lengths(num_leapfrog_steps, 0.0)
        self.gradients_per_step = float(self.num_leapfrog_steps)

    init = HamiltonianMonteCarlo.init

    def step(self, state: LangevinState, evaluate, noise) -> tuple[LangevinState, Info]:
        count = self.num_leapfrog_steps
        refresh = 0.5 * self.friction * count * column(state.rung.step_size, state.position)
        start = ornstein_uhlenbeck(state, noise, refresh)
        end = leapfrog(start, evaluate, count)
        new, info = accept_or_keep(
            end, start._replace(momentum=-start.momentum), energy_change(start, end), noise
        )
        return ornstein_uhlenbeck(new, noise, refresh), info
