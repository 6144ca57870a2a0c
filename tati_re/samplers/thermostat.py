"""The letters C and D of a splitting word, and the bath O with a thermostat, for noisy gradients.

With a friction ξ of its own for each walker (Nosé-Hoover) and the noise of the gradient damped where it is known,

    dp = -∇U dt - h Σ p / (2T) dt - ξ p dt + sqrt(2 γ T) dW + gradient noise,    dξ = (p'p - P T) / μ dt,

where a mini-batch whose estimate of ∇U has the variance Σ heats by h Σ each unit of time. The parts are solved exactly:

    C(t)  damping     p <- exp(-t h Σ / (2T)) p
    D(t)  thermostat  ξ <- ξ + t (p'p - P T) / μ
    O(t)  bath        p <- c p + sqrt(γ T (1 - c²) / ξ) R,   c = exp(-ξ t),   for ξ of either sign
"""

from __future__ import annotations

from tati_re.core.errors import InputError
from tati_re.core.ops import as_float64, column, exp, expm1, sqrt, sum_of_products, where, zeros_like


def checked_mass(thermal_mass: float | None) -> float | None:
    """The thermal mass as a float; `None` stands for the number of parameters."""
    if thermal_mass is None:
        return None
    if not thermal_mass > 0:
        raise InputError("thermal_mass: too light.", received=thermal_mass, expected="a number above 0, or none")
    return float(thermal_mass)


def first_thermostat(friction: float, potential):
    """ξ = γ for every walker, float64."""
    return 0.0 * as_float64(potential) + friction


def heat_up(state, time, thermal_mass: float | None):
    """D(t): ξ <- ξ + t (p'p - P T) / μ; `time` is `(walkers,)`, float64."""
    parameters = state.momentum.shape[-1]
    excess = sum_of_products(state.momentum, state.momentum) - float(parameters) * state.rung.temperature
    return state._replace(thermostat=state.thermostat + time * excess / (thermal_mass or float(parameters)))


def thermostatted_bath(state, noise, friction: float, time):
    """O(t) with the walker's own ξ; `time` is `(walkers,)`, float64."""
    turn = state.thermostat * time
    spread = sqrt(2.0 * friction * state.rung.temperature * time * decayed_share(2.0 * turn))
    momentum = state.momentum
    random = noise.normal(momentum.shape)
    return state._replace(momentum=column(exp(-turn), momentum) * momentum + column(spread, momentum) * random)


def decayed_share(x):
    """(1 - exp(-x)) / x, which is 1 at 0, without loss of digits."""
    x = where(x == 0.0, zeros_like(x) + 1e-30, x)
    return -expm1(-x) / x


def damp(state, time):
    """C(t): p <- exp(-t h Σ / (2T)) p with the variance of the last gradient; `time` is `(walkers,)`, float64."""
    rate = column(0.5 * time * state.rung.step_size * state.rung.inverse_temperature, state.momentum)
    return state._replace(momentum=exp(-rate * state.gradient_variance) * state.momentum)
