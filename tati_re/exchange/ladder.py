"""Ladders: the rungs of a replica exchange, and their spacing. Rung r samples exp(-β_r (λ_r L +
V)), with L = N * mean loss and V = -log prior. Posterior tempering varies β at λ = 1, likelihood
tempering varies λ at one β; the last rung of the latter has λ = 0 and is the prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.ops import cumulative_sum, exp, interp, log, maximum, take, where

TEMPERINGS = ("posterior", "likelihood")
LIKELIHOOD_POWER = 5.0
"""λ = t⁵ with t even on [0, 1], the spacing of Friel and Pettitt (2008)."""


@front_doors
class Ladder(NamedTuple):
    """The table of rungs, the coldest first; float64 arrays, `(rungs,)` each.

    Attributes:
        inverse_temperature: β.
        likelihood_weight: λ, 1 except for likelihood tempering.
        step_size: h.
    """

    inverse_temperature: Any
    likelihood_weight: Any
    step_size: Any

    @property
    def num_rungs(self) -> int:
        """Number of rungs."""
        return self.inverse_temperature.shape[0]

    @property
    def temperature(self):
        """T = 1/β, `(rungs,)`."""
        return 1.0 / self.inverse_temperature

    @property
    def tempering(self) -> str:
        """The tempered quantity: "likelihood" if λ varies, otherwise "posterior"; NumPy arrays only."""
        return "likelihood" if self.likelihood_weight[-1] != 1.0 else "posterior"

    @property
    def draws_prior(self) -> bool:
        """Whether the last rung is the prior, which must be proper and is sampled exactly.

        For a ladder of NumPy arrays.
        """
        return bool(self.likelihood_weight[-1] == 0.0)

    def adapted(self, rejection) -> Ladder:
        """Returns a ladder with the same ends and inner rungs at which all neighbors reject
        equally.

        Args:
            rejection: Mean rejection of each pair of neighbors, `(rungs - 1,)`.

        Returns:
            A ladder with as many rungs.
        """
        if self.tempering == "likelihood":
            return self._replace(
                likelihood_weight=adapted(self.likelihood_weight, rejection, "power")
            )
        return self._replace(inverse_temperature=adapted(self.inverse_temperature, rejection))


@front_door
def geometric(
    num_replicas: int,
    temperature: float = 1.0,
    temperature_ratio: float | None = None,
    max_temperature: float | None = None,
    step_size: float | Sequence[float] = 1.0,
) -> Ladder:
    """Creates a geometric ladder T_j = T R^j, j = 0, 1, ...

    All neighbors exchange equally often if the heat capacity does not depend on T.

    Args:
        num_replicas: Number of rungs M, at least 2.
        temperature: T of the target. Default: 1.
        temperature_ratio: R, above 1. Default: None, from `max_temperature`.
        max_temperature: T of the last rung, for R = (T_max/T)^(1/(M-1)). Default: None.
        step_size: h of all rungs, or one per rung. Default: 1.

    Returns:
        The ladder.

    Raises:
        InputError: Both or neither of ratio and maximum are given, or values are out of range.
    """
    _check_count(num_replicas)
    problem = "temperature_ratio and max_temperature both define the spacing of the ladder."
    received = f"temperature_ratio={temperature_ratio}, max_temperature={max_temperature}"
    refuse_if(
        temperature_ratio is not None and max_temperature is not None,
        problem,
        received,
        "one of them",
    )
    if temperature_ratio is None and max_temperature is None:
        problem = "num_replicas alone does not define the temperatures of the ladder."
        received = f"num_replicas={num_replicas}"
        raise InputError(
            problem, received, "temperature_ratio, max_temperature or temperatures in addition"
        )
    _check_above("temperature", temperature, 0.0)
    if max_temperature is not None:
        _check_above(
            "max_temperature", max_temperature, temperature, "the temperature of the target"
        )
        temperature_ratio = (max_temperature / temperature) ** (1.0 / (num_replicas - 1))
    else:
        _check_above("temperature_ratio", temperature_ratio, 1.0)
    with np.errstate(over="ignore"):
        temperatures = temperature * np.float64(temperature_ratio) ** np.arange(num_replicas)
    problem = "temperature_ratio is too large for so many rungs."
    refuse_if(
        not np.isfinite(temperatures).all(), problem, temperature_ratio, "a finite hottest rung"
    )
    return _posterior(temperatures, step_size)


@front_door
def explicit(
    temperatures: Sequence[float],
    temperature: float | None = None,
    step_size: float | Sequence[float] = 1.0,
) -> Ladder:
    """Creates a ladder from a list of temperatures.

    Args:
        temperatures: At least 2 temperatures, rising from the target temperature.
        temperature: T of the target. Default: None, the first of `temperatures`.
        step_size: h of all rungs, or one per rung. Default: 1.

    Returns:
        The ladder.

    Raises:
        InputError: There are too few temperatures, or they do not rise from the target temperature.
    """
    values = _numbers("temperatures", temperatures)
    target = values[0] if temperature is None and len(values) else temperature
    rising = (
        len(values) >= 2
        and np.isfinite(values).all()
        and values[0] > 0
        and (np.diff(values) > 0).all()
    )
    if not rising or target is None or not np.isclose(values[0], target, rtol=1e-9, atol=0):
        begin = "the target's" if target is None else f"the target's, {target:g},"
        raise InputError(
            "temperatures is not a ladder.",
            list(temperatures),
            f"at least 2 temperatures, ascending from {begin}",
        )
    return _posterior(values, step_size)


@front_door
def likelihood(
    num_replicas: int,
    temperature: float = 1.0,
    power: float = LIKELIHOOD_POWER,
    step_size: float | Sequence[float] = 1.0,
) -> Ladder:
    """Creates a ladder of likelihood weights λ = t^p, with t from 1 down to 0, at one temperature.

    t is equally spaced. If the data are much more informative than the prior, neighbors exchange
    evenly for λ equally spaced in log(λ + c). Here c is the ratio of the prior precision to the
    precision of the data, which is unknown beforehand. p = 5 leaves no gap for c down to 1e-3, with
    12 rungs in 20 dimensions (smallest acceptance 0.02). p = 1 leaves a gap before the last rung
    (below 1e-6). Adapt the ladder during the burn-in.

    Args:
        num_replicas: Number of rungs, at least 2.
        temperature: T of all rungs. Default: 1.
        power: p, at least 1. Default: 5.
        step_size: h of all rungs, or one per rung. Default: 1.

    Returns:
        The ladder.
    """
    _check_count(num_replicas)
    _check_above("temperature", temperature, 0.0)
    refuse_if(not power >= 1, "power is out of range.", power, "at least 1")
    weights = np.linspace(1.0, 0.0, num_replicas) ** power
    return Ladder(
        np.full(num_replicas, 1.0 / temperature), weights, _step_sizes(step_size, num_replicas)
    )


@front_door
def make_ladder(
    num_replicas: int | None = None,
    temperature_ratio: float | None = None,
    max_temperature: float | None = None,
    temperatures: Sequence[float] | None = None,
    tempering: str = "posterior",
    temperature: float | None = None,
    step_size: float | None = None,
    step_sizes: Sequence[float] | None = None,
) -> Ladder:
    """Creates the ladder of the options; without options, the target is its only rung.

    Args:
        num_replicas: Number of rungs. Default: None, the number of `temperatures`, otherwise 1.
        temperature_ratio: Ratio of neighboring temperatures, above 1. Default: None.
        max_temperature: The last temperature, in place of the ratio. Default: None.
        temperatures: All temperatures, in place of both. Default: None.
        tempering: "posterior" or "likelihood"; the latter needs `num_replicas` alone. Default:
            posterior.
        temperature: T of the target. Default: None, the first of `temperatures`, otherwise 1.
        step_size: h of all rungs. Default: None, 1.
        step_sizes: h of each rung, in place of `step_size`. Default: None.

    Returns:
        The ladder.

    Raises:
        InputError: Options contradict each other, or one is missing.
    """
    if tempering not in TEMPERINGS:
        raise InputError(
            "tempering has an unknown value.",
            repr(tempering),
            " or ".join(f'"{name}"' for name in TEMPERINGS),
        )
    problem = "step_size and step_sizes both set the step size."
    refuse_if(
        step_size is not None and step_sizes is not None,
        problem,
        f"{step_size}, {step_sizes}",
        "one of them",
    )
    spacing = {
        "temperature_ratio": temperature_ratio,
        "max_temperature": max_temperature,
        "temperatures": temperatures,
    }
    named = [name for name, value in spacing.items() if value is not None]
    step: float | Sequence[float] = 1.0 if step_size is None else step_size
    if step_sizes is not None:
        step = step_sizes
    target = 1.0 if temperature is None else temperature
    if tempering == "likelihood":
        return _of_likelihood(num_replicas, target, step, named)
    refuse_if(
        len(named) > 1,
        f"{' and '.join(named)} each define the spacing of the ladder.",
        expected="one of them",
    )
    if temperatures is not None:
        _check_number(num_replicas, temperatures)
        return explicit(temperatures, temperature, step)
    if num_replicas is None or (num_replicas == 1 and not named):
        return _single(target, step, named)
    return geometric(num_replicas, target, temperature_ratio, max_temperature, step)


def _of_likelihood(
    num_replicas: int | None, target: float, step: float | Sequence[float], named: list[str]
) -> Ladder:
    """The ladder of likelihood weights; `named` are options of temperatures, which it has not."""
    if named:
        raise InputError(
            f'tempering="likelihood" uses one temperature and does not accept {named[0]}.'
        )
    if num_replicas is None:
        raise InputError(
            'tempering="likelihood" needs the number of rungs.',
            expected="num_replicas, at least 2",
        )
    return likelihood(num_replicas, target, step_size=step)


def _check_number(num_replicas: int | None, temperatures: Sequence[float]) -> None:
    """Refuses a number of rungs that is not that of the temperatures."""
    if num_replicas is not None and num_replicas != len(_numbers("temperatures", temperatures)):
        problem = "num_replicas is not the number of temperatures."
        raise InputError(problem, num_replicas, f"{len(temperatures)}, or none")


def _single(target: float, step: float | Sequence[float], named: list[str]) -> Ladder:
    """A ladder of the target alone; `named` are options that need more rungs."""
    if named:
        raise InputError(
            f"{named[0]} needs the number of rungs.", expected="num_replicas, at least 2"
        )
    _check_above("temperature", target, 0.0)
    return _posterior(np.array([target]), step)


def adapted(values, rejection, coordinate: str = "logarithm"):
    """Moves inner rungs to where neighbors reject equally, for NumPy and TensorFlow; the ends stay.

    The sums of the rejections estimate the barrier between the first rung and each other. The
    barrier is additive, and equal parts of it minimize the time of round trips (Syed,
    Bouchard-Côté, Deligiannidis and Doucet 2021, section 5). It is interpolated linearly, which
    keeps it monotone, and divided into equal parts. Rejections near 1 do not show how far apart
    rungs are: adapt several times.

    Args:
        values: β or λ, falling, of at least 2 rungs, shape (rungs,), float64.
        rejection: Mean rejection of each pair of neighbors, shape (rungs - 1,), float64.
        coordinate: In which the barrier is interpolated: "logarithm", for β, or "power", λ^(1/5).
            Default: logarithm.

    Returns:
        The new values, shape (rungs,).
    """
    rungs = values.shape[0]
    place = log(values) if coordinate == "logarithm" else values ** (1.0 / LIKELIHOOD_POWER)
    summed = cumulative_sum(maximum(rejection, 1e-6))
    # The barrier at each rung: 0, then the sums; written as a sum with the first taken off, which
    # needs no joining.
    steps = np.arange(rungs)
    barrier_at = take(summed, np.maximum(steps - 1, 0)) * np.where(steps == 0, 0.0, 1.0)
    moved = interp(summed[-1] * (steps / (rungs - 1.0)), barrier_at, place)
    moved = exp(moved) if coordinate == "logarithm" else moved**LIKELIHOOD_POWER
    return where((steps == 0) | (steps == rungs - 1), values, moved)


@front_door
def barrier(rejection):
    """Returns the barrier Λ, the sum of the rejections of neighbors.

    A ladder works well with about 2Λ + 1 rungs (Syed et al. 2021).

    Args:
        rejection: Rejection probability of each pair of neighbors, `(rungs - 1,)`.

    Returns:
        Λ, at least 0.
    """
    return cumulative_sum(rejection)[-1]


@front_door
def round_trip_rate(rejection):
    """Returns the rate of round trips of all replicas per round of the schedule "even_odd".

    It is 1/(2 + 2 Σ r/(1 - r)) (Syed et al. 2021) if replicas forget their energy between two
    rounds. It is 0 if a pair always rejects.

    Args:
        rejection: r of each pair of neighbors, `(rungs - 1,)`, in [0, 1].

    Returns:
        The rate, in [0, 1/2].
    """
    open_pairs = rejection < 1.0
    zero = 0.0 * rejection
    odds = rejection / where(open_pairs, 1.0 - rejection, zero + 1.0)
    return 1.0 / (2.0 + 2.0 * cumulative_sum(where(open_pairs, odds, zero + float("inf")))[-1])


def _posterior(temperatures: np.ndarray, step_size) -> Ladder:
    rungs = len(temperatures)
    return Ladder(1.0 / temperatures, np.ones(rungs), _step_sizes(step_size, rungs))


def _step_sizes(step_size, rungs: int) -> np.ndarray:
    if np.ndim(step_size) == 0:
        _check_above("step_size", step_size, 0.0)
        return np.full(rungs, float(step_size))
    values = _numbers("step_sizes", step_size)
    if len(values) != rungs or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(
            "step_sizes does not match the ladder.", list(step_size), f"{rungs} numbers above 0"
        )
    return values


def _numbers(name: str, values) -> np.ndarray:
    try:
        numbers = np.array(values, np.float64)
    except (TypeError, ValueError):
        numbers = np.zeros((0, 0))
    refuse_if(
        numbers.ndim != 1,
        f"{name} is not a list of numbers.",
        repr(values),
        "numbers, one for each rung",
    )
    return numbers


def _check_count(num_replicas: int) -> None:
    if (
        isinstance(num_replicas, bool)
        or not isinstance(num_replicas, int | np.integer)
        or num_replicas < 2
    ):
        raise InputError(
            "num_replicas does not define a ladder.", num_replicas, "a whole number, at least 2"
        )


def _check_above(name: str, value, bound: float, words: str = "") -> None:
    if not (np.isfinite(value) and value > bound):
        raise InputError(
            f"{name} is out of range.", value, f"above {bound:g}{words and f', {words}'}"
        )
