"""The R-hat that costs no ranks, for tuning, for advice, and for thousands of weights."""

import math
from collections.abc import Sequence

import numpy as np


def mean_size(sizes: np.ndarray) -> float:
    """n of m groups of n_i among N, (N - Σn_i²/N)/(m - 1): that of each where they are equal."""
    return float((sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(sizes) - 1))


def rhat_of_halves(halves: Sequence[np.ndarray]) -> np.ndarray:
    """R-hat of halves of chains, `(rows, ...)` each, which count by their rows: R-hat² = 1 + (F -
    1)/n, F that of the analysis of variance and n the `mean_size`. Of equal ones that is the usual
    one; 1 where nothing moves.
    """
    sizes = np.array([len(half) for half in halves], np.float64)
    means = np.stack([half.mean(axis=0) for half in halves])
    squares = sum(
        ((half - mean) ** 2).sum(axis=0) for half, mean in zip(halves, means, strict=True)
    )
    between = np.tensordot(sizes, (means - np.average(means, 0, sizes)) ** 2, 1) / (len(sizes) - 1)
    ratio = between / np.maximum(squares / (sizes.sum() - len(sizes)), 1e-300)
    still = np.all(
        [(half == halves[0][0]).all(axis=0) for half in halves], axis=0
    )  # whose mean may be rounded
    return np.where(still | (between == 0), 1.0, np.sqrt(1 + (ratio - 1) / mean_size(sizes)))


def split_rhat(chains: np.ndarray) -> np.ndarray:
    """R-hat of `(walkers, rows, ...)`, each walker cut in two, without ranks; 1 where nothing
    moves.
    """
    half = chains.shape[1] // 2
    parts = [*chains[:, :half], *chains[:, half : 2 * half]]
    return rhat_of_halves(parts) if half > 1 else np.full(chains.shape[2:], math.inf)
