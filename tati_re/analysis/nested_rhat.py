"""Nested R-hat: convergence of many short chains that start in groups."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tati_re.analysis.convergence import LARGEST_R_HAT
from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.core.front_door import front_door


class NestedRHat(NamedTuple):
    """The result of `nested_r_hat`.

    Attributes:
        value: Nested R-hat; nan if no chain moves.
        factor: Factor by which the chains of each group, or the draws of each chain, must grow to
            reach the limit by chance alone. It is at most 1 if the limit holds. Chains that have
            not forgotten their starting points need more draws in any case.
    """

    value: float
    factor: float


@front_door
def nested_r_hat(chains: np.ndarray, num_groups: int, limit: float = LARGEST_R_HAT) -> NestedRHat:
    """Returns the nested R-hat of chains in groups, each group started at one point.

    It compares the means of groups of chains. Many chains make the mean of a group precise, so
    short chains, even with one draw each, can be judged, while plain R-hat needs long chains. If
    chains have forgotten their common starting point, their means differ by chance alone.
    Reference: C. C. Margossian, M. D. Hoffman, P. Sountsov, L. Riou-Durand, A. Vehtari, A. Gelman,
    Nested R-hat, Bayesian Analysis (2024), section 3.

    Args:
        chains: Draws, `(chains, draws)`. Chains 0 to M - 1 are the first group, and so on.
        num_groups: Number of groups, at least 2 and a divisor of the number of chains. Each group
            has at least 2 chains, or its chain has at least 2 draws.
        limit: The limit that `factor` refers to, above 1. Default: 1.01.

    Returns:
        The value, and the factor of chains or draws that the limit requires.

    Raises:
        InputError: Draws have the wrong shape or are not finite, or the number of groups does not
            fit.

    Examples:
        >>> draws = np.random.default_rng(1).standard_normal((64, 50))
        >>> nested_r_hat(draws, num_groups=4).value < 1.01
        True
    """
    draws = np.asarray(chains, np.float64)
    wrong = draws.ndim != 2 or not draws.size
    refuse_if(wrong, "chains: wrong shape.", draws.shape, "(chains, draws)")
    refuse_if(not np.isfinite(draws).all(), "chains: not all draws are finite.")
    is_integer = isinstance(num_groups, int | np.integer) and not isinstance(num_groups, bool)
    if not is_integer or num_groups < 2 or len(draws) % num_groups:
        raise InputError(
            "num_groups: the chains cannot be split into so many groups.",
            abbreviated(num_groups, 40),
            f"a divisor of {len(draws)} chains, 2 or more",
        )
    refuse_if(not limit > 1, "limit: R-hat is at least 1.", limit, "a number above 1")
    grouped = draws.reshape(num_groups, -1, draws.shape[1])
    alone = grouped.shape[1] == 1 and grouped.shape[2] == 1
    expected = "2 chains in each group, or 2 draws in each chain"
    refuse_if(alone, "chains: one draw has no variance.", draws.shape, expected)

    means = grouped.mean(axis=2)
    between_groups = float(means.mean(axis=1).var(ddof=1))
    between_chains = means.var(axis=1, ddof=1) if grouped.shape[1] > 1 else np.zeros(num_groups)
    within = np.zeros(num_groups)
    if grouped.shape[2] > 1:
        within = grouped.var(axis=2, ddof=1).mean(axis=1)
    spread = float((between_chains + within).mean())
    if spread == 0:
        return NestedRHat(math.nan if between_groups == 0 else math.inf, math.inf)
    excess = between_groups / spread
    return NestedRHat(math.sqrt(1 + excess), excess / (limit**2 - 1))
