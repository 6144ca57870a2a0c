"""The letters C, D and U of a splitting word, and the bath O with a thermostat.

With a friction ξ of its own for each walker (Nosé-Hoover) and the noise of the gradient damped
where it is known,

    dp = -∇U dt - h Σ p / (2T) dt - ξ p dt + sqrt(2 γ T) dW + gradient noise,    dξ = (p'p - P T) / μ dt,

where a mini-batch whose estimate of ∇U has the variance Σ heats by h Σ each unit of time. The parts
are solved exactly:

    C(t)  damping     p <- exp(-t h Σ / (2T)) p,   Σ of a mini-batch whose noise is not in what it damps
    D(t)  thermostat  ξ <- ξ + t (p'p - P T) / μ
    O(t)  bath        p <- c p + sqrt(γ T (1 - c²) / ξ) R,   c = exp(-ξ t),   for ξ of either sign
    U(t)  A and O     θ <- θ + p (1 - c) / ξ + X,  p <- c p + Y

with X and Y of the covariance γT/ξ · ((2a - 3 + 4c - c²)/ξ², (1 - c)²/ξ; ., 1 - c²), a = ξt, and γ
as ξ in words without D.
"""

from tati_re.core.errors import refuse_if
from tati_re.core.ops import (
    as_float64,
    column,
    exp,
    expm1,
    sqrt,
    sum_of_products,
    where,
    zeros_like,
)

THERMOSTATS = (
    "its thermostat removes noise that is white and has the same variance for all "
    "parameters, however large."
)
"""What a method with D, and without C, does about the noise of mini-batches."""
DAMPS = "it damps the noise of each parameter according to its measured variance."
"""What one with C does."""


def checked_mass(thermal_mass: float | None) -> float | None:
    """The thermal mass as a float; `None` stands for the number of parameters."""
    if thermal_mass is None:
        return None
    refuse_if(
        not thermal_mass > 0,
        "thermal_mass is out of range.",
        thermal_mass,
        "a number above 0, or none",
    )
    return float(thermal_mass)


def first_thermostat(friction: float, potential):
    """ξ = γ for every walker, shape (walkers,), float64.

    Args:
        friction: γ, a number or shape (walkers,).
        potential: U of the walkers, shape (walkers,); only its shape counts.
    """
    return 0.0 * as_float64(potential) + friction


def heat_up(state, time, thermal_mass: float | None):
    """D(t): ξ <- ξ + t (p'p - P T) / μ.

    Args:
        state: The state before, with the field `thermostat`.
        time: t, shape (walkers,), float64.
        thermal_mass: μ above 0; None for the number of parameters.
    """
    parameters = state.momentum.shape[-1]
    excess = (
        sum_of_products(state.momentum, state.momentum) - float(parameters) * state.rung.temperature
    )
    return state._replace(
        thermostat=state.thermostat + time * excess / (thermal_mass or float(parameters))
    )


def thermostatted_bath(state, noise, friction: float, time):
    """O(t) with the ξ of each walker.

    Args:
        state: The state before, with the field `thermostat`.
        noise: Random numbers of this step; one normal number per parameter is drawn.
        friction: γ of the noise, a number or shape (walkers,).
        time: t, shape (walkers,), float64.
    """
    turn = state.thermostat * time
    spread = sqrt(2.0 * friction * state.rung.temperature * time * decayed_share(2.0 * turn))
    momentum = state.momentum
    random = noise.normal(momentum.shape)
    return state._replace(
        momentum=column(exp(-turn), momentum) * momentum + column(spread, momentum) * random
    )


def decayed_share(x):
    """(1 - exp(-x)) / x, which is 1 at 0, without loss of digits."""
    x = where(x == 0.0, zeros_like(x) + 1e-30, x)
    return -expm1(-x) / x


def drift_in_bath(state, evaluate, noise, friction, rate, time):
    """U(t): drift and bath solved together, reflected at the walls of the prior.

    The reflection is exact too, because it turns the noise of a free walker around with it. All
    coefficients keep their digits where ξt is small, down to A(t) at ξ = 0, for ξ of either sign.

    Args:
        state: The state before.
        evaluate: Reflects at the walls of the prior.
        noise: Random numbers of this step; two normal numbers per parameter are drawn.
        friction: γ of the noise 2γT, a number or shape (walkers,).
        rate: The friction ξ, a number or shape (walkers,).
        time: t, shape (walkers,), float64.
    """
    turn = rate * time
    heat = 2.0 * friction * state.rung.temperature * time
    momentum = state.momentum
    # Of Y all, of X the part that goes with Y and the rest, of the variance 2γT (a - 2 tanh(a/2)) /
    # ξ³.
    spread = sqrt(heat * decayed_share(2.0 * turn))
    noise_scale = time * sqrt(heat / 12.0 * _left_by_the_momentum(turn))
    along = time * decayed_share(turn) / (1.0 + exp(-turn))
    push = column(spread, momentum) * noise.normal(momentum.shape)
    position = (
        state.position
        + column(time * decayed_share(turn), momentum) * momentum
        + column(along, momentum) * push
    )
    position = position + column(noise_scale, momentum) * noise.normal(momentum.shape)
    position, momentum = evaluate.confine(position, column(exp(-turn), momentum) * momentum + push)
    return state._replace(position=position, momentum=momentum)


def _left_by_the_momentum(a):
    """12 (a - 2 tanh(a/2)) / a³, which is 1 at 0: within 1e-11, by its series below |a| = 0.1."""
    square = a * a
    series = 1.0 - square * (0.1 - square * (17.0 / 1680.0 - square * (31.0 / 30240.0)))
    large = where(square < 0.01, zeros_like(a) + 1.0, a)
    closed = 12.0 * (1.0 - decayed_share(large) * 2.0 / (1.0 + exp(-large))) / (large * large)
    return where(square < 0.01, series, closed)


def damp(state, time, batch_kick):
    """C(t): p <- exp(-t h Σ / (2T)) p.

    Args:
        state: The state before, with the fields `gradient_variance` and `variance_before`.
        time: t, shape (walkers,), float64.
        batch_kick: What the kicks of Σ's own mini-batch have left in p, shape (walkers, parameters)
            or 0. It is damped by the Σ of the step before.

    Returns:
        The state after, and what is left of `batch_kick`.
    """
    rate = column(
        0.5 * time * state.rung.step_size * state.rung.inverse_temperature, state.momentum
    )
    left = exp(-rate * state.variance_before) * batch_kick
    return state._replace(
        momentum=exp(-rate * state.gradient_variance) * (state.momentum - batch_kick) + left
    ), left
