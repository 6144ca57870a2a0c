"""Hamiltonian Monte Carlo."""

from __future__ import annotations

import math

from tati_re.errors import InputError
from tati_re.samplers.functions import column, exp, floor, log, minimum, repeat, sqrt, sum_of_products, where
from tati_re.samplers.protocol import Info
from tati_re.samplers.splitting import LangevinState


class HamiltonianMonteCarlo:
    """Hamiltonian Monte Carlo with velocity Verlet trajectories of random length.

    Targets exp(-β U) exactly, at every stable step size, for any number of leapfrog steps; needs the full batch.

    Rule, each step:
        p ~ N(0, T);  L uniform among the whole numbers of [(1 - j) L₀, (1 + j) L₀], the same for all walkers
        L times: p <- p - (h/2) ∇U(θ);  θ <- θ + h p;  p <- p - (h/2) ∇U(θ)
        accept with probability min(1, exp(-β ΔH)), H = U + p'p/2; else keep θ and turn p around

    Cost: L gradients per step. A trajectory that leaves the support of the prior or is not finite is rejected. Stable
    while hω < 2.

    Source: Duane et al. 1987; random lengths against periodic orbits: Neal, MCMC using Hamiltonian dynamics (2011),
    section 5.3.2.

    Args:
        num_leapfrog_steps: L₀, at least 1. Default: 10.
        leapfrog_jitter: j in [0, 1]; 0 fixes the length. Default: 0.5.

    Raises:
        InputError: A value out of its range.

    Example:
        >>> HamiltonianMonteCarlo(10, 0.5).lengths
        (5, 15)
    """

    name = "HMC"
    has_momentum = True
    metropolis = True
    full_batch = True
    current = True

    def __init__(self, num_leapfrog_steps: int = 10, leapfrog_jitter: float = 0.5) -> None:
        if num_leapfrog_steps < 1:
            raise InputError("num_leapfrog_steps: too few.", received=num_leapfrog_steps, expected="at least 1")
        if not 0 <= leapfrog_jitter <= 1:
            raise InputError("leapfrog_jitter: out of range.", received=leapfrog_jitter, expected="0 to 1")
        self.num_leapfrog_steps = int(num_leapfrog_steps)
        self.leapfrog_jitter = float(leapfrog_jitter)
        low = max(1, math.ceil((1 - leapfrog_jitter) * num_leapfrog_steps - 1e-9))
        self.lengths = (low, max(low, math.floor((1 + leapfrog_jitter) * num_leapfrog_steps + 1e-9)))
        self.gradients_per_step = sum(self.lengths) / 2

    def init(self, position, evaluate, noise) -> LangevinState:
        """Momenta from N(0, T), the full gradient at the given positions."""
        momentum = sqrt(column(evaluate.rung.temperature, position)) * noise.normal(position.shape)
        energy = evaluate.full(position)
        return LangevinState(
            position, momentum, energy.gradient, energy.potential, energy.loss, energy.log_prior, evaluate.rung
        )

    def step(self, state: LangevinState, evaluate, noise) -> tuple[LangevinState, Info]:
        """One trajectory and its Metropolis test."""
        low, high = self.lengths
        momentum = sqrt(column(state.rung.temperature, state.position)) * noise.normal(state.position.shape)
        length = minimum(floor(low + (high - low + 1) * noise.uniform(())), float(high))
        end = leapfrog(state._replace(momentum=momentum), evaluate, length)
        change = (
            end.potential
            - state.potential
            + 0.5 * (sum_of_products(end.momentum, end.momentum) - sum_of_products(momentum, momentum))
        )
        # A comparison with nan is false, so that a trajectory that blew up is rejected.
        accepted = log(noise.uniform(state.potential.shape)) < -state.rung.inverse_temperature * change
        kept = state._replace(momentum=-momentum)
        chosen = [
            where(accepted[:, None] if len(new.shape) == 2 else accepted, new, old)
            for new, old in zip(end[:-1], kept[:-1], strict=True)
        ]
        rate = exp(minimum(-state.rung.inverse_temperature * change, 0.0 * change))
        rate = where(rate == rate, rate, 0.0 * state.potential)
        return LangevinState(*chosen, rung=state.rung), Info(acceptance=rate, energy_change=change)

    def get_config(self) -> dict:
        return {
            "sampler": self.name,
            "num_leapfrog_steps": self.num_leapfrog_steps,
            "leapfrog_jitter": self.leapfrog_jitter,
        }


def leapfrog(state: LangevinState, evaluate, length) -> LangevinState:
    """`length` velocity Verlet steps on the full potential; reversible and volume preserving."""
    t = column(state.rung.step_size, state.position)

    def body(position, momentum, gradient, potential, loss, log_prior):
        position = position + t * momentum
        energy = evaluate.full(position)
        return (
            position,
            momentum - t * energy.gradient,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
        )

    start = (
        state.position,
        state.momentum - 0.5 * t * state.gradient,
        state.gradient,
        state.potential,
        state.loss,
        state.log_prior,
    )
    position, momentum, gradient, potential, loss, log_prior = repeat(length, body, start)
    return LangevinState(position, momentum + 0.5 * t * gradient, gradient, potential, loss, log_prior, state.rung)
