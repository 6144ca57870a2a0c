"""Whether chains from equilibrium draws and chains from other starts sample the same law."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from tati_re.analysis.convergence import MINIMUM_DRAWS, effective_sample_size, normal_scores
from tati_re.analysis.until import Quantity

LEVEL = 0.99
"""Probability that chains which sample the same law do not exceed what chance allows."""
LIMIT = 1.2
"""Nested R-hat of means that are 0.94 standard deviations apart: other modes are farther away."""


@dataclass(frozen=True)
class StartsCompared:
    """The agreement of chains from equilibrium draws with chains from other starts.

    They disagree if `rhat` is at least `LIMIT` and above `by_chance`. They agree if both are below
    `LIMIT`. Else the draws are too few to tell.

    Attributes:
        rhat: The worst nested R-hat of one equilibrium chain and all other chains.
        rhat_of: The quantity that has it.
        by_chance: What this R-hat is below by chance, with the probability `LEVEL` over all
            comparisons; if none disagrees, that of the comparison with the least power.
        why: Why nothing was compared; empty if something was.
    """

    rhat: float = math.nan
    rhat_of: str = ""
    by_chance: float = math.nan
    why: str = ""


def compare_starts(usual: Sequence[Quantity], teacher: Sequence[Quantity]) -> StartsCompared:
    """Compares each chain from an equilibrium draw with all chains from other starts.

    The two are superchains of a nested R-hat (Margossian et al., Bayesian Analysis 2024). Draws are
    replaced by normal scores of their ranks, and by those of their distances from the median. With
    means m and n, variances v and w, and effective sizes a and b, in units of s² = (v + w)/2,

        R² = 1 + (m - n)²/2,    and by chance below 1 + t² (v/a + w/b)/2,

    with t the quantile of Student's law for the smaller size, at `LEVEL` over all comparisons.

    Args:
        usual: Quantities of the chains from the usual starts.
        teacher: The same of the chains from equilibrium draws, each chain compared by itself.

    Returns:
        The worst comparison.
    """
    pairs = list(_pairs(usual, teacher))
    if not pairs:
        return StartsCompared(why="no quantity was stored by both groups of chains")
    if any(
        quantity.weights is not None and np.ptp(quantity.weights) > 0
        for pair in pairs
        for quantity in pair
    ):
        return StartsCompared(why="the draws have weights")
    if any(quantity.draws.shape[1] < 2 * MINIMUM_DRAWS for pair in pairs for quantity in pair):
        return StartsCompared(why="too few draws")
    if not all(np.isfinite(quantity.draws).all() for pair in pairs for quantity in pair):
        return StartsCompared(why="a quantity is not finite")
    return _worst(list(_compared(pairs)))


@dataclass(frozen=True)
class _Group:
    """Mean, variance and effective size of some chains."""

    mean: float
    variance: float
    size: float

    @classmethod
    def of(cls, chains: np.ndarray) -> _Group:
        """The moments of chains, `(chains, draws)`; one that never changes counts as one draw."""
        size = effective_sample_size(chains, "mean") if np.ptp(chains) > 0 else 1.0
        known = size if np.isfinite(size) else 1.0
        return cls(float(chains.mean()), float(chains.var()), max(float(known), 1.0))


@dataclass(frozen=True)
class _Comparison:
    """R-hat of one chain and a group of chains, and what it is below by chance."""

    name: str
    rhat: float
    by_chance: float

    @property
    def disagrees(self) -> bool:
        return self.rhat >= LIMIT and self.rhat > self.by_chance


def _worst(comparisons: Sequence[_Comparison]) -> StartsCompared:
    """The comparison that disagrees most; if none does, the largest R-hat and the least power."""
    disagreeing = [comparison for comparison in comparisons if comparison.disagrees]
    worst = max(disagreeing or comparisons, key=lambda comparison: comparison.rhat)
    by_chance = worst.by_chance
    if not disagreeing:
        by_chance = max(comparison.by_chance for comparison in comparisons)
    return StartsCompared(rhat=worst.rhat, rhat_of=worst.name, by_chance=by_chance)


def _compared(pairs: Sequence[tuple[Quantity, Quantity]]) -> Iterator[_Comparison]:
    """Each chain from an equilibrium draw against all others, for each quantity."""
    count = sum(2 * len(teacher.draws) for _, teacher in pairs)
    rarity = (1 - LEVEL) / (2 * count)
    for usual, teacher in pairs:
        for usual_scores, teacher_scores in _scores(usual.draws, teacher.draws):
            group = _Group.of(usual_scores)
            for chain in teacher_scores:
                yield _compare(usual.name, group, _Group.of(chain[None]), rarity)


def _compare(name: str, usual: _Group, teacher: _Group, rarity: float) -> _Comparison:
    """R-hat of two groups, and what it is below by chance."""
    within = (usual.variance + teacher.variance) / 2
    if not within > 0:
        return _Comparison(name, 1.0 if usual.mean == teacher.mean else math.inf, 1.0)
    between = (usual.mean - teacher.mean) ** 2 / 2
    error = usual.variance / usual.size + teacher.variance / teacher.size
    freedom = max(1.0, min(usual.size, teacher.size) - 1)
    quantile = float(stdtrit(freedom, 1 - rarity))
    chance = math.sqrt(1 + quantile**2 * error / 2 / within)
    return _Comparison(name, math.sqrt(1 + between / within), chance)


def _pairs(
    usual: Iterable[Quantity], teacher: Iterable[Quantity]
) -> Iterator[tuple[Quantity, Quantity]]:
    """The quantities that walkers are compared by and that change, by name."""
    by_name = {quantity.name: quantity for quantity in teacher if quantity.compared}
    for quantity in usual:
        other = by_name.get(quantity.name)
        if (
            not quantity.compared
            or other is None
            or not quantity.draws.size
            or not other.draws.size
        ):
            continue
        values = np.concatenate([quantity.draws.ravel(), other.draws.ravel()])
        if not np.isfinite(values).all() or np.ptp(values) > 0:
            yield quantity, other


def _scores(usual: np.ndarray, teacher: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Normal scores of the draws of both groups, and of their distances from the median."""
    values = np.concatenate([usual.ravel(), teacher.ravel()])
    for part in (values, np.abs(values - np.median(values))):
        scores = normal_scores(part[None])[0]
        yield scores[: usual.size].reshape(usual.shape), scores[usual.size :].reshape(teacher.shape)
