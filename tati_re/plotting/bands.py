"""Simultaneous bands, which a whole curve leaves with a stated probability, and the curves that
they belong to.
"""

from functools import lru_cache

import numpy as np
from matplotlib.axes import Axes

from tati_re.analysis.convergence import autocorrelation_estimate, halves_of
from tati_re.plotting.figure import COLORS, GRAY, empty, labeled

LEVEL = 0.95
POINTS = 100
SIMULATIONS = 4000
_MOST_CHAINS = 8
_MOST_RANKS = 2000
_FEWEST = 10
_GROUPS = 400
_OUTSIDE = 30
"""Simulated curves that should lie outside a band."""
_MOST_SIMULATIONS = 40_000


def envelope(curves: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The narrowest band between equal ranks that contains a fraction of many curves entirely.

    It is a global envelope (M. Myllymäki and others, J. R. Statist. Soc. B 79 (2017) 381).

    Args:
        curves: Curves, shape (curves, points).
        level: Fraction of the curves inside, in (0, 1). Default: 0.95.

    Returns:
        Lower and upper bound, shape (points,) each.
    """
    from scipy.stats import rankdata

    depth = np.minimum(
        *(rankdata(signed, method="max", axis=0).min(axis=1) for signed in (curves, -curves))
    )
    rank = int(np.quantile(depth, 1 - level, method="lower"))
    ordered = np.sort(curves, axis=0)
    return ordered[rank - 1], ordered[-rank]


@lru_cache(maxsize=16)
def uniform_band(count: int, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The band of the distribution function of independent uniform numbers.

    Args:
        count: The number of uniform numbers.
        level: Probability that the band contains the entire curve. Default: 0.95.

    Returns:
        Points between 0 and 1, lower and upper bound there, shape (99,) each.
    """
    levels = np.arange(1, POINTS) / POINTS
    simulations = min(max(SIMULATIONS, round(_OUTSIDE / (1 - level))), _MOST_SIMULATIONS)
    counts = np.random.default_rng(0).multinomial(count, np.full(POINTS, 1 / POINTS), simulations)
    return levels, *envelope(counts.cumsum(axis=1)[:, :-1] / count, level)


@lru_cache(maxsize=16)
def rank_band(chains: int, draws: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The band of the distribution functions of the ranks of each chain among all draws.

    It contains the curves of all chains at once with probability 0.95.

    Args:
        chains: The number of chains.
        draws: The number of independent draws in each chain.

    Returns:
        Ranks as fractions of all draws, lower and upper bound there, shape (points,) each.
    """
    size = chains * draws
    levels = min(POINTS, draws)
    last = (np.arange(1, levels) * size) // levels
    owners = np.tile(np.repeat(np.arange(chains), draws), (SIMULATIONS // 4, 1))
    owners = np.random.default_rng(0).permuted(owners, axis=1)
    curves = [(owners == k).cumsum(axis=1)[:, last - 1] / draws for k in range(chains)]
    low, high = (bound.reshape(chains, -1) for bound in envelope(np.concatenate(curves, axis=1)))
    return last / size, low.min(axis=0), high.max(axis=0)


def independent(chains: np.ndarray) -> np.ndarray:
    """Draws of chains `(chains, draws)` that are about independent: each 2τ - 1-th, τ the
    autocorrelation time.
    """
    thin = max(
        1, round(2 * autocorrelation_estimate(chains)[0] - 1), -(-chains.size // _MOST_RANKS)
    )
    return chains[:, thin - 1 :: thin]


class Calibrated:
    """The frequency of an event at stated probabilities `(n,)`, by isotonic regression, told at 100
    `grid` between the least and the largest of them (Dimitriadis, Gneiting and Jordan, PNAS 118
    (2021) e2016191118).
    """

    def __init__(self, stated: np.ndarray) -> None:
        which = np.unique(stated, return_inverse=True)[1]
        self._which = which * _GROUPS // (which.max() + 1) if which.max() >= _GROUPS else which
        self._count = np.bincount(self._which)
        self._values = np.bincount(self._which, stated) / self._count
        self.grid = np.linspace(stated.min(), stated.max(), POINTS)

    def curve(self, happened: np.ndarray) -> np.ndarray:
        """Of what happened, `(n,)`, as often at each of the grid."""
        return self._fitted(np.bincount(self._which, happened))

    def band(self) -> tuple[np.ndarray, np.ndarray]:
        """The band of the curve where events happen with the stated probabilities."""
        size = (SIMULATIONS // 4, len(self._count))
        draws = np.random.default_rng(0).binomial(self._count, self._values.clip(0, 1), size)
        return envelope(np.array([self._fitted(draw) for draw in draws]))

    def _fitted(self, sums: np.ndarray) -> np.ndarray:
        from scipy.optimize import isotonic_regression

        return np.interp(
            self.grid,
            self._values,
            isotonic_regression(sums / self._count, weights=self._count).x,
        )


def draw_ranks(axes: Axes, chains: np.ndarray) -> None:
    """Draws the distribution of the ranks of chains minus the uniform one, in a band.

    Args:
        axes: The panel.
        chains: Draws, shape (walkers, draws). At most 8 of the walkers are drawn. A single one is
            halved.
    """
    chains, part = (halves_of(chains), "half") if len(chains) == 1 else (chains, "walker")
    thinned = independent(chains[:: -(-len(chains) // _MOST_CHAINS)])
    if thinned.shape[1] < _FEWEST:
        reason = (
            f"too short for ranks:\n{thinned.shape[1]} independent draws per {part}, "
            f"{_FEWEST} needed"
        )
        return empty(axes, reason)
    which = (
        f"of each {part}"
        if len(thinned) == len(chains)
        else f"of {len(thinned)} of {len(chains)} walkers"
    )
    labeled(
        axes,
        f"rank among all; {thinned.shape[1]:,} independent draws {which}",
        "distribution minus uniform",
    )
    # Equal draws, as those of an accuracy, take their ranks by lot: ranks that they share would
    # leave the band.
    order = np.lexsort((np.random.default_rng(0).random(thinned.size), thinned.ravel()))
    ranks = (np.argsort(order).reshape(thinned.shape) + 0.5) / thinned.size
    levels, low, high = rank_band(*thinned.shape)
    axes.fill_between(levels, low - levels, high - levels, color=GRAY, alpha=0.25, linewidth=0)
    for number, chain_ranks in enumerate(ranks):
        cumulative = np.searchsorted(np.sort(chain_ranks), levels) / len(chain_ranks)
        axes.plot(levels, cumulative - levels, color=COLORS[number % len(COLORS)], linewidth=1.0)
    axes.axhline(0, color=GRAY, linewidth=0.6)
    axes.set_xlim(0, 1)
