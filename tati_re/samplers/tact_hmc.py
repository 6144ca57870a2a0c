"""Thermostat-assisted continuously-tempered Hamiltonian Monte Carlo: a temperature that moves along
with the walker.

A tempering variable ξ in [-1, 1] has a momentum and a mass of its own, and scales the potential,

    H = λ(ξ) U(θ) + W(ξ) + p'p/2 + r²/(2m),     1/λ(ξ) = 1 + (M - 1) ((|ξ| - ξ₀)/(1 - ξ₀))³, and 1 where |ξ| <= ξ₀.

On the plateau |ξ| <= ξ₀ the walker sees U itself, at the ends, where ξ is reflected, U/M. The bias
W has one task: to leave all ξ equally often. Its derivative is what the mean of the force on ξ has
to be,

    W'(ξ) = -λ'(ξ) Ū(|ξ|),     Ū(|ξ|) = <U> at this ξ,

with Ū a piecewise linear function whose nodes are measured. Any Ū gives the same distribution at
each ξ, a poor one only visits them unevenly. U enters as U - Ū: a constant in it has no effect.
"""

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Dynamics
from tati_re.core.front_door import front_door
from tati_re.core.method import Method
from tati_re.core.protocol import Info, sums_at_rung, with_energy
from tati_re.samplers.sgnht import start
from tati_re.samplers.thermostat import THERMOSTATS, checked_mass, decayed_share, thermostatted_bath
from tati_re.samplers.wrappers.coordinates import extend

LEARN_EVERY = 10
"""Steps of the burn-in from one look at U to the next: neighbors tell the same, and sharing takes
time.
"""


class TactHMC(Method):
    """Langevin dynamics with a temperature that follows a tempering variable, under two
    thermostats.

    Targets exp(-β U) over the steps that end with |ξ| <= ξ₀, where the column `weight` of run.csv
    is 1, up to a bias of order h². At other ξ it targets exp(-β λ(ξ) U): the column `temperature`
    shows T/λ(ξ), `tempering` ξ. The momenta keep T at every ξ. Each thermostat keeps its
    temperature under noise of one constant variance: Σ of the gradient and σ² of the potential
    itself. The two noises are assumed to be independent.

    Rule: the word BADODAB for θ and ξ together, x = p and ρ = r/sqrt(m), both N(0, T),

        A(t)  θ <- θ + t p;   ξ <- ξ + t ρ/sqrt(m), reflected at ±1
        B(t)  p <- p - t λ(ξ) ∇U(θ);   ρ <- ρ - t (λ'(ξ) U(θ) + W'(ξ))/sqrt(m)
        D(t)  s <- s + t λ² (p'p - P T)/μ;   z <- z + t λ'² (ρ² - T)/m
        O(t)  baths of strength γ and 1/(K h), frictions γ + λ² (s - γ) and 1/(K h) + λ'² z

    with m = T (K h)²: at its thermal speed ξ takes K steps for a way of 1. The factors λ² and λ'²
    are those by which the noise of a mini-batch in the two kicks depends on ξ, so that s settles at
    γ + hΣ/(2T) and z at hσ²/(2mT) at every ξ. K should be above 3 sd(U)/T, with U as a mini-batch
    tells it.

    The nodes of Ū are averages over all walkers of the same rung and every tenth step, each
    weighted by the number of those before it; they are adapted during the burn-in and frozen
    afterwards. The burn-in should see ξ go from end to end some ten times, which takes about 4 K
    steps each for a few parameters, and more for many, as U/T spreads by sqrt(P/2): 300 of them are
    not evenly tempered after 2,000 steps, though each ξ has its distribution.

    Cost: one gradient per step, of which a share of about ξ₀ counts. Stable while hω < 2. Source:
    Luo, Wang, Yang, Zhu and Wang, NeurIPS 2018; λ(ξ) as in the authors' program. Theirs is an Euler
    step with noise scaled by λ, and resamples momenta that grew too large; the splitting, the baths
    at every ξ, and the measured U in W are ours.

    Args:
        friction: γ above 0, 1/time; the thermostat of θ starts there. Default: 1.
        thermal_mass: μ above 0. Default: the number of parameters.
        max_temperature: M at least 1, the temperature at the ends in units of T. Default: 6, as
            published.
        tempering_plateau: ξ₀ between 0 and 1. Default: 0.1, as published.
        tempering_steps: K above 0. Default: 100.
        tempering_nodes: Nodes of Ū between the plateau and the ends, at least 2. Default: 25.

    Examples:
        >>> TactHMC(max_temperature=10.0, tempering_steps=50).get_config()["max_temperature"]
        10.0
    """

    name = "TACT-HMC"
    has_momentum = adapts = True
    dynamics = Dynamics(needs_heat=True)
    shown = ("thermostat", "tempering")
    against_noise = THERMOSTATS
    label_names = ("weight",)
    _tempering = ("tempering_plateau", "tempering_steps", "tempering_nodes")
    settings = ("friction", "thermal_mass", "max_temperature", *_tempering)

    @front_door
    def __init__(
        self,
        friction: float = 1.0,
        thermal_mass: float | None = None,
        max_temperature: float = 6.0,
        tempering_plateau: float = 0.1,
        tempering_steps: float = 100.0,
        tempering_nodes: int = 25,
    ) -> None:
        cold = isinstance(friction, str) or not friction > 0
        refuse_if(cold, "friction: TACT-HMC needs a heat bath.", friction, "a number above 0")
        if not (max_temperature >= 1 and np.isfinite(max_temperature)):
            raise InputError(
                "max_temperature: it is in units of the temperature.", max_temperature, "1 or more"
            )
        if not 0 < tempering_plateau < 1:
            raise InputError(
                "tempering_plateau: out of range.",
                received=tempering_plateau,
                expected="between 0 and 1",
            )
        refuse_if(
            not tempering_steps > 0,
            "tempering_steps: too few.",
            tempering_steps,
            "a number above 0",
        )
        refuse_if(tempering_nodes < 2, "tempering_nodes: too few.", tempering_nodes, "2 or more")
        self.friction = float(friction)
        self.thermal_mass = checked_mass(thermal_mass)
        self.max_temperature = float(max_temperature)
        self.tempering_plateau = float(tempering_plateau)
        self.tempering_steps = float(tempering_steps)
        self.tempering_nodes = int(tempering_nodes)

    def init(self, position, evaluate, noise):
        """Starts all walkers at ξ = 0, with momenta from N(0, T), s = γ and z = 0.

        Ū is the potential at the start of the walker.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        state = start(self.friction, position, evaluate, noise)
        potential = ops.as_float64(state.potential)
        temperature = evaluate.rung.temperature
        zeros = 0.0 * potential
        nodes = ops.constant(np.zeros((1, self.tempering_nodes)), potential)
        momentum = ops.sqrt(temperature) * ops.as_float64(noise.normal(potential.shape))
        tempering = {
            "tempering": zeros,
            "tempering_momentum": momentum,
            "tempering_thermostat": zeros,
        }
        bias = {"bias_count": zeros[:, None] + nodes, "bias_mean": potential[:, None] + nodes}
        return extend(
            state, **tempering, temperature=temperature + zeros, weight=zeros + 1.0, **bias
        )

    def step(self, state, evaluate, noise):
        time = state.rung.step_size
        state = self._drift(self._kick(state, 0.5 * time), evaluate, 0.5 * time)
        state = self._thermostats(
            self._baths(self._thermostats(state, 0.5 * time), noise), 0.5 * time
        )
        state = self._drift(state, evaluate, 0.5 * time)
        state = self._kick(with_energy(state, evaluate(state.position)), 0.5 * time)
        due = evaluate.clock.adapting & (evaluate.clock.step % LEARN_EVERY == 0)
        count, mean = ops.cond(
            due, lambda: self._learnt(state), lambda: (state.bias_count, state.bias_mean)
        )
        scale, _ = self.scale(state.tempering)
        on_plateau = ops.as_float64(ops.absolute(state.tempering) <= self.tempering_plateau)
        temperature = state.rung.temperature / scale
        return state._replace(
            bias_count=count, bias_mean=mean, temperature=temperature, weight=on_plateau
        ), Info()

    def scale(self, tempering):
        """Computes the scale of the potential and its derivative.

        Args:
            tempering: The variable ξ, shape (walkers,).

        Returns:
            λ(ξ) and λ'(ξ), shape (walkers,) each.
        """
        width = 1.0 - self.tempering_plateau
        rise = self.max_temperature - 1.0
        above = (
            ops.maximum(ops.absolute(tempering) - self.tempering_plateau, 0.0 * tempering) / width
        )
        scale = 1.0 / (1.0 + rise * above**3)
        slope = scale**2 * rise * 3.0 * above**2 / width
        return scale, ops.where(tempering < 0.0, slope, -slope)

    def mean_potential(self, state):
        """Computes Ū(|ξ|), the running mean of the potential.

        Args:
            state: The state after a step.

        Returns:
            One number per walker, shape (walkers,).
        """
        return ops.sum_of_products(self._shares(state), state.bias_mean)

    def _shares(self, state):
        """How much of each node the linear interpolation takes at |ξ|, `(walkers, nodes)`; they add
        up to 1.
        """
        width = 1.0 - self.tempering_plateau
        above = (
            ops.maximum(
                ops.absolute(state.tempering) - self.tempering_plateau, 0.0 * state.tempering
            )
            / width
        )
        nodes = ops.constant(np.arange(self.tempering_nodes)[None, :], above)
        distance = ops.absolute((self.tempering_nodes - 1.0) * above[:, None] - nodes)
        return ops.maximum(1.0 - distance, 0.0 * distance)

    def _learnt(self, state):
        """Count and mean of each node with this step's potentials, the k-th look at a node weighted
        by k.
        """
        shares = self._shares(state)
        seen = sums_at_rung(state.rung, shares)
        total = sums_at_rung(state.rung, shares * state.potential[:, None])
        count = state.bias_count + seen
        gain = 2.0 / ops.maximum(count + seen, 1e-300 + 0.0 * seen)
        return count, state.bias_mean + gain * (total - seen * state.bias_mean)

    def _pace(self, state):
        """1/sqrt(m), `(walkers,)`."""
        return 1.0 / (
            ops.sqrt(state.rung.temperature) * self.tempering_steps * state.rung.step_size
        )

    def _drift(self, state, evaluate, time):
        position = state.position + ops.column(time, state.position) * state.momentum
        position, momentum = evaluate.confine(position, state.momentum)
        tempering, turned = reflected(
            state.tempering + time * self._pace(state) * state.tempering_momentum
        )
        state = state._replace(position=position, momentum=momentum)
        return state._replace(
            tempering=tempering, tempering_momentum=turned * state.tempering_momentum
        )

    def _kick(self, state, time):
        scale, slope = self.scale(state.tempering)
        force = -slope * (state.potential - self.mean_potential(state))
        return state._replace(
            momentum=state.momentum - ops.column(time * scale, state.momentum) * state.gradient,
            tempering_momentum=state.tempering_momentum + time * self._pace(state) * force,
        )

    def _thermostats(self, state, time):
        scale, slope = self.scale(state.tempering)
        parameters = float(state.momentum.shape[-1])
        temperature = state.rung.temperature
        excess = ops.sum_of_products(state.momentum, state.momentum) - parameters * temperature
        tempering_excess = state.tempering_momentum**2 - temperature
        return state._replace(
            thermostat=state.thermostat
            + time * scale**2 * excess / (self.thermal_mass or parameters),
            tempering_thermostat=state.tempering_thermostat
            + time * slope**2 * tempering_excess * self._pace(state) ** 2,
        )

    def _baths(self, state, noise):
        """O(h) for p and ρ; in units of the step for ρ, whose bath forgets within K steps."""
        scale, slope = self.scale(state.tempering)
        time = state.rung.step_size
        momentum = state.tempering_momentum
        rate = self.friction + scale**2 * (state.thermostat - self.friction)
        moved = thermostatted_bath(state._replace(thermostat=rate), noise, self.friction, time)
        turn = 1.0 / self.tempering_steps + time * slope**2 * state.tempering_thermostat
        spread = ops.sqrt(
            2.0 / self.tempering_steps * state.rung.temperature * decayed_share(2.0 * turn)
        )
        tempering_momentum = ops.exp(-turn) * momentum + spread * ops.as_float64(
            noise.normal(momentum.shape)
        )
        return state._replace(momentum=moved.momentum, tempering_momentum=tempering_momentum)

    def labels(self, state) -> dict:
        return {"weight": state.weight}


def from_temperatures(
    friction: float,
    thermal_mass: float | None,
    tempering_plateau: float,
    tempering_steps: float,
    tempering_nodes: int,
    kT: float,
    max_temperature: float | None = None,
) -> TactHMC:
    """Continuously tempered Hamiltonian dynamics up to a maximal temperature, by default 6 times
    the target's.

    Args:
        friction: γ above 0, 1/time.
        thermal_mass: μ above 0; None for the number of parameters.
        tempering_plateau: ξ₀ between 0 and 1.
        tempering_steps: K above 0.
        tempering_nodes: Nodes of Ū, at least 2.
        kT: Temperature of the target.
        max_temperature: The maximal temperature, at least `kT`. Default: None, 6 times `kT`.

    Raises:
        InputError: The maximal temperature is below the target's, or a value is out of range.
    """
    hottest = max_temperature or 6.0 * kT
    refuse_if(
        hottest < kT,
        "max_temperature is below the target's temperature.",
        max_temperature,
        f"{kT:g} or more",
    )
    return TactHMC(
        friction, thermal_mass, hottest / kT, tempering_plateau, tempering_steps, tempering_nodes
    )


def reflected(tempering):
    """ξ between walls at ±1, and 1 or -1 for an even or odd number of reflections."""
    rooms = ops.floor(0.5 * (tempering + 1.0))
    odd = rooms - 2.0 * ops.floor(0.5 * rooms)
    inside = tempering - 2.0 * rooms
    turned = 1.0 - 2.0 * odd
    return turned * inside, turned
