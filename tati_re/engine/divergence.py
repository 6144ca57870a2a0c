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
    """The energy U + p·p/2 above which a run has diverged: the highest at the start, `start` of
    each walker, and 1,000 times P T + |U| + N, `scale`, above, at the highest `temperature` of any
    rung and step. From the bath a walker gets back P T/2 or so, from mini-batches as much as their
    U differ: a harmonic U passes it once in exp(1000) rows. Without a temperature (a fit) it is a
    million times |U| + N, for a learning rate that is large at first.
    """
    noise = float(np.abs(potential).max()) + scale
    return float(start.max()) + (_TIMES if temperature > 0 else _TIMES_OF_FIT) * (
        num_parameters * temperature + noise
    )


def hottest(method: Method, rung: Rung, factor: Callable | None, last_step: int) -> float:
    """The highest temperature of any rung and step."""
    rungs = temperatures_of(method).rungs
    temperatures = rung.temperature if rungs is None else 1.0 / np.asarray(rungs[0])
    steps = np.linspace(1, min(last_step, 2**62), min(last_step, 1000)).astype(np.int64)
    return float(np.max(temperatures)) * (1.0 if factor is None else float(np.max(factor(steps))))


def total_energy(method: Method, state) -> tf.Tensor:
    """U + p·p/2 of each walker, `(walkers,)`; U without momenta."""
    if not method.has_momentum:
        return state.potential
    return state.potential + 0.5 * tf.reduce_sum(
        tf.square(tf.cast(state.momentum, tf.float64)), axis=-1
    )


def sentence(walker: int, potential: float, energy: float, highest: float, step: int) -> str:
    """What happened to a walker, with its numbers after that step."""
    if not np.isfinite(potential):
        return f"The potential of walker {walker} is {potential} after step {step}."
    quantity, value = (
        ("potential", potential) if potential > highest else ("energy U + p·p/2", energy)
    )
    return (
        f"The {quantity} of walker {walker} is {value:.3g} after step {step}, above the limit "
        f"for a run from this start ({highest:.3g}): the run diverges."
    )
