"""Scores of draws against a reference: agreement, total variation and W1, with their errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from benchmarks.references.reference import effective_sizes

BLOCKS = 4
"""Blocks of each chain, for errors."""
SHIFT = 0.1
"""A mean agrees within so many standard deviations, a deviation within this share."""


class Score(NamedTuple):
    """A score, its standard error, and what independent exact draws would have.

    Attributes:
        value: The score, a mean over inputs.
        error: Its standard error by a jackknife over blocks of chains.
        by_chance: The score of as many independent draws of the reference as the draws are worth.
    """

    value: float
    error: float
    by_chance: float


def agreement(draws: np.ndarray, reference: Mapping[str, Any]) -> float:
    """The share of inputs with the same class, or with nearly the same mean and deviation.

    Args:
        draws: Draws, `(draws, quantities)`.
        reference: The reference.
    """
    mean = np.asarray(reference["mean"])
    if classes := reference["num_classes"]:
        best = draws.mean(axis=0).reshape(-1, classes).argmax(axis=1)
        return float((best == mean.reshape(-1, classes).argmax(axis=1)).mean())
    deviation = np.asarray(reference["deviation"])
    near = np.abs(draws.mean(axis=0) - mean) < SHIFT * deviation
    alike = np.abs(np.log(draws.std(axis=0) / deviation)) < SHIFT
    return float((near & alike).mean())


def total_variation(draws: np.ndarray, reference: Mapping[str, Any]) -> float:
    """Total variation of the predictive classes, or of outputs in 40 bins of equal probability."""
    if classes := reference["num_classes"]:
        difference = draws.mean(axis=0) - np.asarray(reference["mean"])
        return float(0.5 * np.abs(difference.reshape(-1, classes)).sum(axis=1).mean())
    quantiles = np.asarray(reference["quantiles"])
    bins = len(quantiles) + 1
    distances = []
    for k in range(draws.shape[1]):
        places = np.searchsorted(quantiles[:, k], draws[:, k])
        shares = np.bincount(places, minlength=bins) / len(draws)
        distances.append(0.5 * np.abs(shares - 1 / bins).sum())
    return float(np.mean(distances))


def wasserstein(draws: np.ndarray, reference: Mapping[str, Any]) -> float:
    """W1 of the outputs or probabilities, in standard deviations of the reference."""
    quantiles = np.quantile(draws, reference["levels"], axis=0)
    distances = np.abs(quantiles - np.asarray(reference["quantiles"])).mean(axis=0)
    return float((distances / np.asarray(reference["deviation"])).mean())


MEASURES = {"agreement": agreement, "total variation": total_variation, "W1": wasserstein}


def exact_draws(reference: Mapping[str, Any], count: int, seed: int = 0) -> np.ndarray:
    """Independent draws of each quantity by its quantiles, `(count, quantities)`.

    Between levels quantiles are interpolated; beyond the last ones they go on straight.
    """
    levels = np.asarray(reference["levels"])
    quantiles = np.asarray(reference["quantiles"])
    uniform = np.random.default_rng(seed).uniform(size=(count, quantiles.shape[1]))
    step = levels[1] - levels[0]
    ends = np.r_[levels[0] - step, levels, levels[-1] + step]
    draws = np.empty_like(uniform)
    for k, column in enumerate(quantiles.T):
        first = 2 * column[0] - column[1]
        last = 2 * column[-1] - column[-2]
        draws[:, k] = np.interp(uniform[:, k], ends, np.r_[first, column, last])
    return draws


def scored(draws: np.ndarray, reference: Mapping[str, Any]) -> dict[str, Score]:
    """All scores of draws.

    Args:
        draws: Predictions, `(chains, draws, quantities)`; quantities are inputs, or inputs times
            classes, in the order of the reference.
        reference: The reference.
    """
    size = max(2, int(np.median(effective_sizes(draws))))
    exact = exact_draws(reference, size)
    blocks = blocks_of(draws)
    scores = {}
    for name, measure in MEASURES.items():
        value = measure(draws.reshape(-1, draws.shape[-1]), reference)
        error = jackknife([_without(blocks, k) for k in range(len(blocks))], measure, reference)
        scores[name] = Score(value, error, measure(exact, reference))
    return scores


def blocks_of(draws: np.ndarray) -> list[np.ndarray]:
    """Blocks of successive draws of each chain; of short chains, the chains."""
    parts = BLOCKS if draws.shape[1] >= 10 * BLOCKS else 1
    return [block for chain in draws for block in np.array_split(chain, parts)]


def _without(blocks: list[np.ndarray], left_out: int) -> np.ndarray:
    return np.concatenate([block for k, block in enumerate(blocks) if k != left_out])


def jackknife(parts: list[np.ndarray], measure: Any, reference: Mapping[str, Any]) -> float:
    """The standard error of a measure from its values without each block."""
    if len(parts) < 2:
        return float("nan")
    values = np.array([measure(part, reference) for part in parts])
    spread = ((values - values.mean()) ** 2).sum()
    return float(np.sqrt((len(values) - 1) / len(values) * spread))
