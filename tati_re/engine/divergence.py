"""When a run has left what is possible: the highest energy that a walker can come to."""

from collections.abc import Callable

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.evaluate import Rung
from tati_re.core.facets import temperatures_of
from tati_re.core.method import Method

_TIMES = 1e3
_TIMES_OF_FIT = 1e6


def highest_energy(
    start: np.ndarray, potential: np.ndarray, temperature: float, num_parameters: int, scale: float
) -> float:
    """The energy U + p·p/2 above which a run has diverged.

    It lies above the highest energy at the start by 1,000 times P T + |U| + N. P is the number of
    parameters, T the temperature, N the scale, and |U| the largest at the start. From the bath a
    walker gets back about P T/2, from mini-batches as much as their U differ. A harmonic U passes
    the limit once in exp(1000) rows. Without a temperature (a fit) the factor is a million, for a
    learning rate that is large at first.

    Args:
        start: Energy U + p·p/2 of each walker at the start, shape (walkers,).
        potential: U of each walker at the start, shape (walkers,).
        temperature: The highest temperature of any rung and step; 0 for a fit.
        num_parameters: Number of parameters, P.
        scale: L divided by the mean loss: the number of examples N, or 1 for a mean loss.
    """
    noise = float(np.abs(potential).max()) + scale
    return float(start.max()) + (_TIMES if temperature > 0 else _TIMES_OF_FIT) * (
        num_parameters * temperature + noise
    )


def hottest(method: Method, rung: Rung, factor: Callable | None, last_step: int) -> float:
    """The highest temperature of any rung and step.

    Args:
        method: The sampler or optimizer. The temperatures of its ladder, if any, replace those in
            `rung`.
        rung: Temperature and step size of each walker.
        factor: A function of step numbers (n,) that multiplies the temperature. It is evaluated at
            1,000 steps at most. None: 1.
        last_step: The last step.
    """
    rungs = temperatures_of(method).rungs
    temperatures = rung.temperature if rungs is None else 1.0 / np.asarray(rungs[0])
    steps = np.linspace(1, min(last_step, 2**62), min(last_step, 1000)).astype(np.int64)
    return float(np.max(temperatures)) * (1.0 if factor is None else float(np.max(factor(steps))))


def total_energy(method: Method, state) -> tf.Tensor:
    """U + p·p/2 of each walker; U without momenta.

    Args:
        method: The sampler or optimizer, which says whether there are momenta.
        state: The state of all walkers.

    Returns:
        Energies, shape (walkers,), float64.
    """
    if not method.has_momentum:
        return state.potential
    return state.potential + 0.5 * tf.reduce_sum(
        tf.square(tf.cast(state.momentum, tf.float64)), axis=-1
    )


def sentence(walker: int, potential: float, energy: float, highest: float, step: int) -> str:
    """What happened to a walker that diverged, with its numbers.

    Args:
        walker: Number of the walker, from 0.
        potential: Its U, which may be inf or nan.
        energy: Its U + p·p/2.
        highest: The limit on the energy, from `highest_energy`.
        step: The step after which it was seen.
    """
    if not np.isfinite(potential):
        return f"The potential of walker {walker} is {potential} after step {step}."
    quantity, value = (
        ("potential", potential) if potential > highest else ("energy U + p·p/2", energy)
    )
    return (
        f"The {quantity} of walker {walker} is {value:.3g} after step {step}, above the limit "
        f"for a run from this start ({highest:.3g}): the run diverges."
    )
