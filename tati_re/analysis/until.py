"""An end that is earned: conditions on R-hat, effective sample size and errors, and the numbers
that they are about.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtri

from tati_re.analysis.convergence import (
    LARGEST_R_HAT,
    MINIMUM_DRAWS,
    effective_sample_size,
    monte_carlo_error,
    r_hat,
)
from tati_re.core.errors import InputError
from tati_re.core.rhat import mean_size

FORM = (
    "conditions joined by commas: rhat<A or rhat(weights)<A with A above 1, ess>N, ess(NAME)>N of a named "
    "parameter, gain<X, or mcse(NAME)<X for a column of run.csv"
)
_CONDITION = re.compile(
    r"\s*(?:(rhat\(weights\)|rhat|ess(?!\()|gain)|(mcse|ess)\((.+?)\))\s*([<>])\s*(\d*\.?\d+(?:[eE][-+]?\d+)?|\d+\.)\s*(?:,(?=.)|$)"
)
_EXPLAINED = 3.0  # A few walkers spoil R-hat where without them it is so many times closer to 1.
_AGREED, _OF_ONE, _SETTLED = 1.1, 1.05, 1.4
"""R-hat above which walkers do not seem to draw from one law; where one alone lifts it; of weights,
each by itself.
"""
_OF_HALVES = 0.1
"""Excess of R-hat within chains, as a part of that between them, below which chains are stuck."""
_MOST_NAMED = 10  # Walkers, in one sentence.
WEIGHTS = "rhat(weights)"
_HATS = ("rhat", WEIGHTS)
MCSE = "mcse"
GAIN = "gain"
"""Leave-one-out log density that a row of the data gained, on average, in the last doubling of the
draws; that of few draws may be lost again.
"""
DEFAULTS = {"rhat": LARGEST_R_HAT, "ess": 400.0, WEIGHTS: 1.1}
"""What is asked for where nothing is said."""
FIRST_ROWS = 250
"""Rows of a walker at the first look; at each further one they are twice as many."""


class Condition(NamedTuple):
    """`quantity` is "rhat", "ess", "rhat(weights)", "gain" or "mcse"; `name` is the column of the
    last one, or the parameter of "ess", empty for the least of all.
    """

    quantity: str
    name: str
    limit: float

    def __str__(self) -> str:
        label = f"{self.quantity}({self.name})" if self.name else self.quantity
        return f"{label}{'>' if self.quantity == 'ess' else '<'}{self.limit:g}"

    def value(self, numbers: Mapping[str, Any]) -> float:
        """What the numbers of a look say of it."""
        table = numbers
        if self.name:
            table = numbers.get(MCSE if self.quantity == MCSE else "sizes", {})
        return float(table.get(self.name or self.quantity, math.nan))

    def met(self, numbers: Mapping[str, Any]) -> bool:
        """Whether it holds; not where its number is not known."""
        value = self.value(numbers)
        if self.quantity == GAIN:  # a loss is as far from an end as a gain
            return abs(value) < self.limit
        return value > self.limit if self.quantity == "ess" else value < self.limit


def conditions_of(text: str | None) -> list[Condition]:
    """The conditions of the option `until`; refuses what is none in one sentence, with its
    place.
    """
    conditions: list[Condition] = []
    place = 0
    text = text or ""
    while place < len(text):
        match = _CONDITION.match(text, place)
        if match is not None:
            quantity, of_one, name, sign, number = match.groups()
            condition = Condition(quantity or of_one, (name or "").strip(), float(number))
            least = 1.0 if condition.quantity in _HATS else 0.0
            if (sign == ">") == (
                condition.quantity == "ess"
            ) and least < condition.limit < math.inf:
                if (condition.quantity, condition.name) in (
                    (other.quantity, other.name) for other in conditions
                ):
                    raise InputError(
                        f"until: {str(condition).rstrip('0123456789.<>')} occurs twice.", text, FORM
                    )
                conditions.append(condition)
                place = match.end()
                continue
        at = place + len(text[place:]) - len(text[place:].lstrip()) + 1
        raise InputError(f"until: no valid condition at character {at}.", text, FORM)
    return conditions


def look_after(steps: int, unit: int, multiple: int = 1) -> int:
    """The step after the burn-in at which the run is looked at next.

    A run is looked at after 250, 500, 1,000, ... rows of a walker.

    Args:
        steps: Steps after the burn-in so far; the next look comes later.
        unit: Steps between rows.
        multiple: The look is rounded up to a multiple of this many steps, as a turn takes. Default:
            1.
    """
    look = FIRST_ROWS * unit
    while (rounded := -(-look // multiple) * multiple) <= steps:
        look *= 2
    return rounded


class Quantity(NamedTuple):
    """Draws of a quantity, `(walkers, draws)`, and what each counts, None where all count the same.
    Walkers that are not `compared` may be in places worth the same, such as permuted networks: each
    is taken about its own mean.
    """

    name: str
    draws: np.ndarray
    weights: np.ndarray | None = None
    compared: bool = True


def _own_hat(draws: np.ndarray, weights: np.ndarray | None) -> float:
    """R-hat of each walker compared with itself: of deviations from its own mean."""
    shares = np.ones(draws.shape) if weights is None else weights
    total = np.where(shares.any(axis=1), shares.sum(axis=1), 1.0)
    means = (shares * draws).sum(axis=1) / total
    return r_hat(_influence(draws - means[:, None], weights), weights)


def _by_chance(there: np.ndarray, count: int) -> dict[str, float]:
    """What R-hat of independent draws may be by chance.

    R-hat² is 1 + (F - 1)/n, F the ratio of variances of halves of n draws; twice, for location and
    scale.

    Args:
        there: Weights of the draws, `(walkers, draws)`; 0 where there is none.
        count: The number of quantities that are compared.
    """
    halves = np.repeat(np.maximum(np.count_nonzero(there, axis=1) // 2, 2), 2)
    between = len(halves) - 1
    within = halves.sum() - len(halves)

    limits = {}
    for name, rarity in (("rhat_by_chance", 0.005 / count), ("rhat_by_chance_of_one", 0.05)):
        ratio = fdtri(between, within, 1 - rarity)
        limits[name] = math.sqrt(1 + (ratio - 1) / mean_size(halves))
    return limits


def diagnosis(quantities: Iterable[Quantity], limit: float) -> dict[str, Any]:
    """The worst R-hat and the least effective sample size of some quantities.

    Quantities that never change do not count.

    Args:
        quantities: The quantities.
        limit: R-hat above which walkers are searched that alone raise it.

    Returns:
        `rhat` and `ess` with the names of their quantities, `rhat_of` and `ess_of`; nan if no
        quantity counts, or draws are too few. `rhat(weights)` and `rhat(weights)_of` are the worst
        R-hat of the quantities that are not compared. `spoiled_by` lists the walkers that alone
        raise R-hat above the limit, fewer than half and at most ten. `rhat_without` is R-hat
        without them. In 99 of 100 cases with independent draws, the worst R-hat of so many
        quantities is below `rhat_by_chance`. In 19 of 20 cases, one part of R-hat of a single
        quantity is below `rhat_by_chance_of_one`.
    """
    worst: tuple[float, str, np.ndarray, np.ndarray | None] = math.nan, "", np.zeros((1, 0)), None
    least = (math.nan, "")
    worst_of_weights = (math.nan, "")
    few = False
    count = 0
    for name, draws, weights, compared in quantities:
        finite = bool(np.isfinite(draws).all())
        size = 0.0
        if draws.shape[1] < 2 * MINIMUM_DRAWS:
            few = few or compared
            hat = math.nan
        elif not finite:
            hat = math.inf
        elif np.ptp(draws) == 0:
            continue
        elif compared:
            draws, size = weighted(draws, weights)
            hat = r_hat(draws, weights)
            count = count + 1
        else:
            hat = _own_hat(draws, weights)

        if compared:
            worst = (hat, name, draws, weights) if not hat <= worst[0] and hat == hat else worst
            least = (size, name) if not size >= least[0] and size == size else least
        else:
            worst_of_weights = (
                (hat, name)
                if not hat <= worst_of_weights[0] and hat == hat
                else (worst_of_weights[0], worst_of_weights[1] or name)
            )
    hat, name, draws, weights = worst
    numbers: dict[str, Any] = {"rhat": hat, "rhat_of": name, "ess": least[0], "ess_of": least[1]}
    if worst_of_weights[1]:
        numbers |= {WEIGHTS: worst_of_weights[0], f"{WEIGHTS}_of": worst_of_weights[1]}
    there = np.ones(draws.shape) if weights is None else weights
    if count:
        numbers |= _by_chance(there, count)
    if hat > limit and math.isfinite(hat):
        numbers["spoiled_by"], numbers["rhat_without"] = _spoilers(draws, there, hat)
    elif few:
        numbers |= {"rhat": math.nan, "rhat_of": "too few draws"}
    return numbers


def weighted(draws: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, float]:
    """The influence of draws on the weighted mean, and their effective sample size.

    Args:
        draws: Draws, shape (walkers, draws).
        weights: Weights in the same shape; None: 1 each.

    Returns:
        What each draw adds to the error of the mean, to first order, in the shape of the draws; the
        draws where all weights are the same. The size.
    """
    if weights is None or np.ptp(weights) == 0:
        return draws, effective_sample_size(draws)
    total = weights.sum()
    influence = _influence(draws, weights)
    away = draws - (weights * draws).sum() / total
    size = float((weights * away**2).sum() / total) / monte_carlo_error(influence) ** 2
    return influence, min(size, float(total**2 / (weights**2).sum()))


def _influence(draws: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """What each draw adds to the error of the weighted mean, to first order; the draws where all
    count the same.
    """
    if weights is None or np.ptp(weights) == 0:
        return draws
    total = weights.sum()
    return weights * (draws - (weights * draws).sum() / total) * (weights.size / total)


def _spoilers(draws: np.ndarray, weights: np.ndarray, hat: float) -> tuple[list[int], float]:
    """The fewest walkers without which two thirds of R-hat's excess are gone, fewer than half and
    ten at most, and what it is then: those whose draws lie farthest from the others', or from the
    middle of all, by mean rank.
    """
    from scipy.stats import rankdata

    owner = np.nonzero(weights)[0]
    values = draws[weights > 0]
    counts = np.bincount(owner, minlength=len(draws))
    parts = (values, np.abs(values - np.median(values)))
    with np.errstate(invalid="ignore"):
        means = [np.bincount(owner, rankdata(part), len(draws)) / counts for part in parts]
    away = np.nan_to_num(np.max([np.abs(mean - np.nanmedian(mean)) for mean in means], axis=0))
    order = np.argsort(-away, kind="stable")
    for count in range(1, min((len(draws) - 1) // 2, _MOST_NAMED) + 1):
        others = np.sort(order[count:])
        without = r_hat(draws[others], weights[others])
        if without - 1 <= (hat - 1) / _EXPLAINED:
            return sorted(order[:count].tolist()), without
    return [], math.nan


def within_chains(quantities: Iterable[Quantity]) -> Iterator[Quantity]:
    """The quantities about the mean of each walker: R-hat then compares each chain with itself, and
    the effective sample size counts draws within chains.
    """
    for name, draws, weights, compared in quantities:
        if not draws.shape[1]:
            yield Quantity(name, draws, weights, compared)
            continue
        shares = np.ones(draws.shape) if weights is None else weights
        total = np.where(shares.any(axis=1), shares.sum(axis=1), 1.0)
        means = (shares * draws).sum(axis=1) / total
        yield Quantity(f"{name} within chains", draws - means[:, None], weights, compared)


class SeparateModes(NamedTuple):
    """Chains that agree with themselves and not with each other.

    Attributes:
        between: R-hat of the quantity in which the chains differ most.
        within: R-hat of the same quantity, each chain compared with itself.
    """

    between: float
    within: float


def separate_modes(quantities: Iterable[Quantity]) -> SeparateModes | None:
    """Whether chains sit in different modes, which more steps hardly connect.

    A chain that moves between modes differs from itself as well: its halves see them at different
    times. Chains are stuck if what separates them is ten times what separates their halves.

    Args:
        quantities: What chains are compared by.

    Returns:
        R-hat between and within the chains; None if they are not stuck, or it cannot be told.
    """
    worst = SeparateModes(math.nan, math.nan)
    for _, draws, weights, compared in quantities:
        chains, length = draws.shape
        is_known = compared and chains > 1 and length >= 2 * MINIMUM_DRAWS
        if not is_known or not np.isfinite(draws).all() or np.ptp(draws) == 0:
            continue
        influence, _ = weighted(draws, weights)
        between = r_hat(influence, weights)
        if not between <= worst.between:
            worst = SeparateModes(between, _own_hat(draws, weights))
    is_stuck = worst.between > _AGREED and worst.within - 1 < _OF_HALVES * (worst.between - 1)
    return worst if is_stuck else None


def whole_text(size: float) -> str:
    """An effective sample size as a whole number, rounded down: 399.7 is not yet 400."""
    return f"{np.floor(size):,.0f}"


def goal_text(conditions: Sequence[Condition], numbers: Mapping[str, Any]) -> str:
    """How far a run is from the end of its conditions.

    Args:
        conditions: The conditions of `until`.
        numbers: The numbers of a look.

    Returns:
        Such as `ESS 212 of 400, R-hat 1.021 (> 1.01)`, with the limits that do not hold yet;
        conditions on weights and averages only if they do not hold.
    """
    parts: list[str] = []
    for condition in conditions:
        value = condition.value(numbers)
        known = not math.isnan(value)
        if condition.quantity == "ess":
            of_one = f" of {condition.name}" if condition.name else ""
            size = f"{whole_text(value)} of {condition.limit:,.4g}" if known else "unknown"
            parts.insert(0, f"ESS{of_one} {size}")
        elif condition.quantity == "rhat":
            parts.append(f"R-hat {_beside_limit(condition, value, numbers)}")
        elif condition.quantity == GAIN:
            gain = f"{value:+.3g} per row in the last doubling" if known else "not known yet"
            parts.append(f"log density {gain} (limit {condition.limit:g})")
        elif known and not condition.met(numbers):
            name = "of weights" if condition.quantity == WEIGHTS else f"mcse({condition.name})"
            parts.append(f"{name} {_beside_limit(condition, value, numbers)}")
    return ", ".join(parts)


def _beside_limit(condition: Condition, value: float, numbers: Mapping[str, Any]) -> str:
    """A value with its limit, unless it is below: with the digits that show the difference."""
    form = ".3g" if condition.quantity == MCSE else ".3f"
    if math.isnan(value):
        return f"unknown (limit {condition.limit:g})"
    if condition.met(numbers):
        return f"{value:{form}}"
    if float(f"{value:{form}}") <= condition.limit:
        form = ".6g"
    return f"{value:{form}} (> {condition.limit:g})"


def _agreed(condition: Condition, numbers: Mapping[str, Any]) -> float:
    """R-hat below which more steps are known to bring it down."""
    if condition.quantity == WEIGHTS:
        return _SETTLED
    return _OF_ONE if numbers.get("spoiled_by") else _AGREED


def steps_left(condition: Condition, numbers: Mapping[str, Any], steps: int) -> float:
    """The number of further steps until a condition is met, in two digits; inf if unknown.

    R-hat - 1 falls as the inverse of the steps.

    Args:
        condition: The condition.
        numbers: Numbers of the last look, as from `diagnosis`.
        steps: Steps after the burn-in so far.
    """
    value = condition.value(numbers)
    if condition.met(numbers) or not value > 0:
        return 0.0 if condition.met(numbers) else math.inf
    if condition.quantity == GAIN:  # the next doubling
        return float(steps)
    if condition.quantity in _HATS:
        factor = (
            (value - 1) / (condition.limit - 1) if value < _agreed(condition, numbers) else math.inf
        )
    else:
        factor = (
            condition.limit / value
            if condition.quantity == "ess"
            else (value / condition.limit) ** 2
        )
    return float(f"{steps * (factor - 1):.2g}")


def walker_names(walkers: Sequence[int]) -> str:
    """`walker 3`, or `walkers 1, 3`."""
    return f"walker{'s' if len(walkers) > 1 else ''} {', '.join(map(str, walkers))}"
