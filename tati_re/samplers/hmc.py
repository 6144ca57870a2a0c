"""Hamiltonian Monte Carlo."""

import math
from dataclasses import replace
from typing import Any

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.ops import (
    as_float64,
    column,
    floor,
    maximum,
    minimum,
    repeat,
    sqrt,
    sum_of_products,
    sum_over,
)
from tati_re.core.protocol import Info, with_energy
from tati_re.samplers.metropolis import accept_or_keep
from tati_re.samplers.splitting import LangevinState, drift, kick, with_momenta
from tati_re.samplers.wrappers.coordinates import extend

_FIRST = 3
_MOST = 1000.0


class HamiltonianMonteCarlo(Method):
    """Hamiltonian Monte Carlo with velocity Verlet trajectories of random length.

    Targets exp(-β U) exactly, at every stable step size, for any number of leapfrog steps; needs
    all data in every step.

    Rule, each step:

        p ~ N(0, T);  L uniform among the whole numbers of [(1 - j) L₀, (1 + j) L₀], the same for all walkers
        L times: p <- p - (h/2) ∇U(θ);  θ <- θ + h p;  p <- p - (h/2) ∇U(θ)
        accept with probability min(1, exp(-β ΔH)), H = U + p'p/2; else keep θ and turn p around

    Cost: L gradients per step, with "auto" 3 at first. A trajectory that ends outside of the
    support of the prior or is not finite is rejected. With walls "reflect" the drift is reflected
    at the walls of a box instead, like motion without a force. This preserves volume and time
    reversal, and hence the distribution. With thousands of parameters, some of which move freely
    between their walls, rejection makes trajectories very short. Stable while hω < 2. Source: Duane
    et al. 1987; random lengths against periodic orbits: Neal, MCMC using Hamiltonian dynamics
    (2011), section 5.3.2.

    Args:
        num_leapfrog_steps: L₀, at least 1, or "auto": the burn-in tunes the duration of a
            trajectory, the field `trajectory_length` of the state. L₀ is its mean over h, rounded
            up, at most 1,000. Default: 10.
        leapfrog_jitter: j in [0, 1]; 0 fixes the length. Default: 0.5.
        walls: "reject" or "reflect". Default: "reject".

    Examples:
        >>> HamiltonianMonteCarlo(10, 0.5).lengths
        (5, 15)
    """

    name = "HMC"
    has_momentum = metropolis = full_batch = True
    settings: tuple[str, ...] = ("num_leapfrog_steps", "leapfrog_jitter", "walls")

    @front_door
    def __init__(
        self,
        num_leapfrog_steps: int | str = 10,
        leapfrog_jitter: float = 0.5,
        walls: str = "reject",
    ) -> None:
        refuse_if(
            walls not in ("reject", "reflect"),
            "walls: unknown value.",
            repr(walls),
            "'reject' or 'reflect'",
        )
        self.walls = walls
        self.finds_length = num_leapfrog_steps == "auto"
        self.lengths = trajectory_lengths(
            _FIRST if self.finds_length else num_leapfrog_steps, leapfrog_jitter
        )
        self.num_leapfrog_steps = (
            num_leapfrog_steps if isinstance(num_leapfrog_steps, str) else int(num_leapfrog_steps)
        )
        if self.finds_length:
            self.adapts = True
            self.dynamics = replace(self.dynamics, finds_length=True)
            self.shown = ("trajectory_length",)
            self.of_rung = ("trajectory_length",)
        self.leapfrog_jitter = float(leapfrog_jitter)
        self.gradients_per_step = sum(self.lengths) / 2

    def init(self, position, evaluate, noise) -> LangevinState:
        state = with_momenta(position, evaluate.full, evaluate.rung, noise)
        return (
            extend(state, trajectory_length=_FIRST * evaluate.rung.step_size)
            if self.finds_length
            else state
        )

    def step(self, state, evaluate, noise) -> tuple[Any, Info]:
        return trajectory(
            state, evaluate, noise, self.lengths_of(state), reflect=self.walls == "reflect"
        )

    def lengths_of(self, state) -> tuple[Any, Any]:
        """Returns the range of the number of leapfrog steps, fixed or from the duration in the state.

        Args:
            state: The state after a step.

        Returns:
            The smallest and the largest number.
        """
        if not self.finds_length:
            return self.lengths
        count = state.trajectory_length / state.rung.step_size
        count = minimum(-floor(-sum_over(count, 0)[0] / float(count.shape[0])), as_float64(_MOST))
        low = maximum(-floor(-(1.0 - self.leapfrog_jitter) * count), as_float64(1.0))
        return low, maximum(floor((1.0 + self.leapfrog_jitter) * count), low)


def trajectory_lengths(num_leapfrog_steps: int | str, leapfrog_jitter: float) -> tuple[int, int]:
    """The smallest and the largest whole number of [(1 - j) L₀, (1 + j) L₀], at least 1.

    Args:
        num_leapfrog_steps: L₀, at least 1.
        leapfrog_jitter: j, from 0 to 1.

    Raises:
        InputError: A value is out of range, or L₀ is a text such as "auto".
    """
    if isinstance(num_leapfrog_steps, str):
        raise InputError(
            "num_leapfrog_steps: this sampler cannot choose them.",
            num_leapfrog_steps,
            "a number, or sampler HMC",
        )
    refuse_if(
        num_leapfrog_steps < 1, "num_leapfrog_steps: too few.", num_leapfrog_steps, "at least 1"
    )
    refuse_if(
        not 0 <= leapfrog_jitter <= 1, "leapfrog_jitter: out of range.", leapfrog_jitter, "0 to 1"
    )
    low = max(1, math.ceil((1 - leapfrog_jitter) * num_leapfrog_steps - 1e-9))
    return low, max(low, math.floor((1 + leapfrog_jitter) * num_leapfrog_steps + 1e-9))


def trajectory(state: LangevinState, evaluate, noise, lengths: tuple[Any, Any], **split):
    """A trajectory of random length with fresh momenta, and its Metropolis test.

    Random numbers are drawn in the order momenta, length, test. A walker that is rejected keeps its
    position, with the fresh momenta turned around.

    Args:
        state: The state before the step; its momenta are replaced.
        evaluate: Computes U and its gradient on all data.
        noise: Random numbers of this step.
        lengths: The smallest and the largest number of leapfrog steps, numbers or tensors.
        **split: `before` and `reflect` of `leapfrog`.

    Returns:
        The state after the step, and its `Info`.
    """
    momentum = sqrt(column(state.rung.temperature, state.position)) * noise.normal(
        state.position.shape
    )
    start = state._replace(momentum=momentum)
    end = leapfrog(start, evaluate, drawn_length(lengths, noise), **split)
    return accept_or_keep(end, state._replace(momentum=-momentum), energy_change(start, end), noise)


def drawn_length(lengths: tuple[Any, Any], noise):
    """One of the whole numbers of a range, each equally likely; float64.

    Args:
        lengths: The smallest and the largest number, included; numbers or tensors of shape ().
        noise: Random numbers of this step; one uniform number is drawn.
    """
    low, high = lengths
    return minimum(floor(low + (high - low + 1) * noise.uniform(())), as_float64(high))


def energy_change(start: LangevinState, end: LangevinState):
    """ΔH with H = U + p'p/2, shape (walkers,), float64.

    Args:
        start: The state at the start of the trajectory.
        end: The state at its end.
    """
    kinetic = sum_of_products(end.momentum, end.momentum) - sum_of_products(
        start.momentum, start.momentum
    )
    return end.potential - start.potential + 0.5 * kinetic


def leapfrog(
    state: LangevinState, evaluate, length, before=0.5, reflect: bool = False
) -> LangevinState:
    """Makes leapfrog steps on all data: a kick of u h, a drift of h, a kick of (1 - u) h.

    The map preserves volume, and with 1 - u it is its own reverse.

    Args:
        state: The state before.
        evaluate: Computes U and its gradient.
        length: Number of steps; it may be a tensor.
        before: u, a number or shape (walkers, 1). Default: 0.5.
        reflect: Whether drifts turn around at walls. Default: False.

    Returns:
        The state after the steps.
    """
    t = column(state.rung.step_size, state.position)

    def body(state):
        state = drift(state, evaluate if reflect else None, t)
        return (kick(with_energy(state, evaluate.full(state.position)), t),)

    (end,) = repeat(length, body, (kick(state, before * t),))
    return kick(end, -before * t)
