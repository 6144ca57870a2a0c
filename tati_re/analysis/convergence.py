"""Convergence diagnostics: effective sample size, R-hat, Monte Carlo error, autocorrelation
time.
"""

import hashlib
import math
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np
import pandas as pd
from scipy.special import ndtri

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.rhat import rhat_of_halves

P = ParamSpec("P")
T = TypeVar("T")

MINIMUM_DRAWS = 4
"""Fewest draws of a chain for which R-hat and the effective sample size are defined (each half
chain needs two).
"""

LARGEST_R_HAT = 1.01
"""Above it walkers are said not to have converged (Vehtari and others, 2021); `until` asks for this
by default.
"""

ENOUGH_TIMES = 50.0
"""Autocorrelation times from which on a chain tells its own, and the error of its mean."""


@front_door
def chains_of(run_info: pd.DataFrame, column: str, num_burnin_steps: int = 0) -> np.ndarray:
    """Returns one column of a run's table as an array with one row per walker.

    If walkers have different numbers of rows (the last flush of an interrupted run), only the steps
    that all have are kept.

    Args:
        run_info: Rows of `run.csv` with the columns `step`, `walker` and `column`.
        column: Name of the column.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0, which leaves
            out only step 0.

    Returns:
        Array (walkers, draws), float64, walkers and steps in rising order.

    Raises:
        InputError: There is no such column, or it has no rows after burn-in.
    """
    refuse_if(
        column not in run_info,
        f"The run has no column '{column}'.",
        column,
        ", ".join(map(str, run_info)),
    )
    rows = run_info[run_info["step"] > num_burnin_steps]
    last = int(run_info["step"].max()) if len(run_info) else 0
    refuse_if(
        rows.empty,
        f"No rows are left after the burn-in of {num_burnin_steps:,} steps.",
        f"last step {last:,}",
    )
    values = rows[column].to_numpy(dtype=np.float64)
    values = np.where(
        np.abs(values) < 1e-150, 0.0, values
    )  # such as acceptances of 1e-277, whose squares are 0
    return values[rows_by_walker(rows["step"].to_numpy(), rows["walker"].to_numpy())]


def rows_by_walker(steps: np.ndarray, walkers: np.ndarray) -> np.ndarray:
    """The numbers of rows by walker and step, shape (walkers, draws).

    All walkers are cut to the number of rows that the shortest one has.

    Args:
        steps: Step of each row, shape (n,).
        walkers: Walker of each row, shape (n,).
    """
    order = np.lexsort((steps, walkers))
    parts = np.split(order, np.flatnonzero(np.diff(walkers[order])) + 1)
    return np.stack([part[: min(map(len, parts))] for part in parts])


def rows_on_grid(steps: np.ndarray, walkers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows by walker and step, for walkers that come and leave.

    Args:
        steps: Step of each row, shape (n,).
        walkers: Walker of each row, shape (n,).

    Returns:
        Numbers of rows, shape (walkers, different steps), and whether a row exists there. Where
        none does, the number is the walker's last row before, or its first row.
    """
    (every, place), (names, walker) = (
        np.unique(values, return_inverse=True) for values in (steps, walkers)
    )
    rows = np.full((len(names), len(every)), -1)
    rows[walker, place] = np.arange(len(steps))
    there = rows >= 0
    last = np.maximum.accumulate(
        np.where(there, np.arange(len(every)), there.argmax(1)[:, None]), axis=1
    )
    return np.take_along_axis(rows, last, 1), there


def rows_that_count(
    steps: np.ndarray, walkers: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers of rows by walker and step, and their weights.

    Args:
        steps: Step of each row, shape (n,).
        walkers: Walker of each row, shape (n,).
        weights: Weight of each row, shape (n,). Default: None, 1 each.

    Returns:
        Numbers of rows, shape (walkers, draws), as from `rows_by_walker`. If that would cut rows
        off, they are as from `rows_on_grid`, with weight 0 where no row exists. Weights have the
        same shape, or are None if all rows count the same.
    """
    rows = rows_by_walker(steps, walkers)
    if rows.size == len(steps):
        return rows, None if weights is None else weights[rows]
    rows, there = rows_on_grid(steps, walkers)
    return rows, there * (1.0 if weights is None else weights[rows])


def _remembered(function: Callable[P, T]) -> Callable[P, T]:
    """The function with its last results: a page and a table ask for the same number of the same
    million draws.
    """
    known: OrderedDict[Any, T] = OrderedDict()
    lock = Lock()

    @wraps(function)
    def remembered(*arguments: P.args, **named: P.kwargs) -> T:
        contiguous = [
            v if isinstance(v, str | None) else np.ascontiguousarray(v, dtype=np.float64)
            for v in arguments
        ]
        values = (
            v if isinstance(v, str | None) else (hashlib.sha256(v.data).digest(), v.shape)
            for v in contiguous
        )
        key = (*values, *named.items())
        if (result := known.get(key)) is None:
            result = function(*arguments, **named)
        with lock:
            known[key] = result
            known.move_to_end(key)
            if len(known) > 256:
                known.popitem(last=False)
        return result

    return remembered


@front_door
@_remembered
def effective_sample_size(
    chains: np.ndarray, kind: Literal["bulk", "mean", "tail"] = "bulk"
) -> float:
    """Returns the number of independent draws with the same Monte Carlo error as all chains
    together.

    Reference: A. Vehtari, A. Gelman, D. Simpson, B. Carpenter, P.-C. Bürkner, Rank-normalization,
    folding, and localization: an improved R-hat, Bayesian Analysis 16 (2021), section 3.

    Args:
        chains: Draws, shape (chains, draws) or (draws,), at least 4 per chain.
        kind: `"bulk"`: for rank-normalized draws, the general measure. `"mean"`: for the
            untransformed draws, which determines the error of their mean. `"tail"`: for the 5 % and
            95 % quantiles, the smaller of the two. Default: `"bulk"`.

    Returns:
        The effective sample size. It may exceed the number of draws if they alternate. It is nan
        for draws that are constant or not finite.

    Raises:
        InputError: A chain has fewer than 4 draws.
    """
    chains = _checked(chains)
    if not _moves(chains):
        return float("nan")
    if kind == "bulk" and chains.shape[1] >= 2 * MINIMUM_DRAWS:
        return float(array_stats().ess(normal_scores(halves_of(chains)), method="identity"))
    quantiles = {"prob": (0.05, 0.95)} if kind == "tail" else {}
    return float(array_stats().ess(chains, method=kind, **quantiles))


@front_door
@_remembered
def r_hat(chains: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Returns the rank-normalized split R-hat: near 1 if all half chains have the same
    distribution.

    Values above 1.01 show that they differ. The result is the larger of the rank-normalized value
    (location) and the folded one (scale). The two halves of a single chain are compared with each
    other. The rows of several chains are independent only if each walker has its own mini-batches.
    Reference: Vehtari and others, Bayesian Analysis 16 (2021), equations 4 and 14.

    Args:
        chains: Draws, shape (chains, draws) or (draws,), at least 4 per chain (8 for a single
            chain).
        weights: Weights in the same shape; 0 marks entries without a draw, for walkers that leave
            the target and return. Half chains are then formed from the existing draws, and count by
            their number (`core.rhat.rhat_of_halves`). Default: None.

    Returns:
        R-hat. It is infinite if half chains are stuck at different values, and nan if no chain
        varies or draws are not finite.

    Raises:
        InputError: A chain has too few draws.
    """
    chains = _checked(chains)
    if weights is not None and not np.all(weights):
        return _unlike_r_hat(
            [
                draws[counted]
                for draws, counted in zip(chains, np.atleast_2d(weights) > 0, strict=True)
            ]
        )
    if len(chains) == 1:
        chains = _checked(halves_of(chains))
    if not _moves(chains):
        return float("nan")
    halves = halves_of(chains)
    if chains.shape[1] < 2 * MINIMUM_DRAWS and np.ptp(halves, axis=1).any():
        return float(array_stats().rhat(chains, method="rank"))
    # As `method="rank"`, with ranks from one sort.
    return max(map(_r_hat_of_ranks, (halves, np.abs(halves - np.median(halves)))))


def _r_hat_of_ranks(halves: np.ndarray) -> float:
    if (np.ptp(halves, axis=1) == 0).all():
        return math.inf if np.ptp(halves) > 0 else 1.0
    return float(array_stats().rhat(normal_scores(halves), method="identity"))


def _unlike_r_hat(chains: list[np.ndarray]) -> float:
    """As `r_hat`, of chains of unlike numbers of draws, `(draws,)` each."""
    halves = [half for draws in chains if len(draws) > 1 for half in halves_of(draws[None])]
    values = np.concatenate(halves) if halves else np.zeros(0)
    if len(values) <= len(halves) or not _moves(values):
        return float("nan")
    if all(np.ptp(half) == 0 for half in halves):
        return float("inf")
    ends = np.cumsum([len(half) for half in halves])[:-1]
    parts = map(normal_scores, (values, np.abs(values - np.median(values))))
    return float(max(rhat_of_halves(np.split(part, ends)) for part in parts))


@front_door
@_remembered
def monte_carlo_error(chains: np.ndarray) -> float:
    """Returns the standard error of the mean over all chains.

    It is the standard deviation of the draws over the square root of the effective sample size.

    Args:
        chains: Draws, `(chains, draws)` or `(draws,)`, at least 4 per chain.

    Returns:
        The error; nan for draws that are constant or not finite.

    Raises:
        InputError: A chain has fewer than 4 draws.
    """
    checked = _checked(chains)
    scale = _scale(chains)
    return (
        scale * float(array_stats().mcse(checked, method="mean"))
        if _moves(checked)
        else float("nan")
    )


@front_door
def autocorrelation_time(chains: np.ndarray) -> float:
    """Returns the integrated autocorrelation time in rows, 1 + 2 sum of the autocorrelations ρ.

    The chains are averaged by their variances. Multiply by the steps between rows to get steps. The
    time is below 1 for draws that alternate: (1 + φ)/(1 - φ) = 1/3 for x' = -x/2 + noise.

    The sum ends at the first lag above five times the estimate (Sokal's window) and five times the
    memory 1 + 4 Σρ², which is longer if ρ changes its sign. The last term counts half, so that
    alternating terms beyond it cancel. Each chain is centered on its own mean, so chains stuck in
    different places are not detected: check R-hat as well. References: J. Goodman, J. Weare, Comm.
    App. Math. Comp. Sci. 5 (2010); A. Sokal, Monte Carlo methods in statistical mechanics (1997),
    section 3.

    Args:
        chains: Draws, shape (chains, draws) or (draws,), longer than 50 times the estimate and the
            memory.

    Returns:
        The time in rows, above 0.

    Raises:
        InputError: The chain is too short for an estimate (the message gives the length needed), or
            constant.
    """
    tau, needed = autocorrelation_estimate(chains)
    problem = (
        f"The chain is too short to estimate its autocorrelation time (so far {tau:.3g} "
        "rows). Take more steps."
    )
    expected = f"at least {needed:,} rows, {ENOUGH_TIMES:g} autocorrelation times"
    refuse_if(needed, problem, f"{np.atleast_2d(chains).shape[1]:,} rows", expected)
    return tau


@_remembered
def autocorrelation_estimate(chains: np.ndarray) -> tuple[float, int]:
    """As `autocorrelation_time`, in rows, though too small for short chains; and the rows that are
    needed, or 0.
    """
    chains = _checked(chains)
    if not np.isfinite(chains).all() or (np.ptp(chains, axis=1) == 0).any():
        raise InputError("A chain that never changes or is not finite has no autocorrelation time.")
    function = autocorrelation_function(chains)
    lags = np.arange(len(function))
    times = 2 * np.cumsum(function) - 1
    # Of independent draws ρ² is 1/n on average: the second factor takes that off.
    squares = (2 * np.cumsum(function**2) - 1) / (1 + 2 * lags / chains.size)
    memory = np.maximum(times - function, 2 * squares - 1)
    at = _first(lags >= 5 * memory)
    tau = times[at] - function[at]
    needed = int(np.ceil(ENOUGH_TIMES * memory[at]))
    if needed <= chains.shape[1]:
        return max(0.0, float(tau)), 0
    return max(0.0, float(tau), float(times[_first(lags >= 5 * times)])), needed


@front_door
def is_short(chains: np.ndarray) -> bool:
    """Whether chains are too short for an error bar that can be trusted.

    Args:
        chains: Draws of one quantity, `(chains, draws)`, or one chain `(draws,)`.

    Returns:
        True if there are fewer than 50 autocorrelation times, a draw is not finite, or a chain
        never changes.
    """
    chains = np.atleast_2d(np.asarray(chains, dtype=np.float64))
    unknown = (
        chains.shape[1] < MINIMUM_DRAWS
        or not np.isfinite(chains).all()
        or (np.ptp(chains, axis=1) == 0).any()
    )
    return bool(unknown) or autocorrelation_estimate(chains)[1] > 0


def autocorrelation_function(chains: np.ndarray) -> np.ndarray:
    """Returns the mean autocovariance of the chains, each about its mean, at all lags, over that at
    lag 0.
    """
    chains = np.atleast_2d(chains)
    chains = chains / _scale(chains)
    return np.average(array_stats().autocorr(chains), axis=0, weights=chains.var(axis=1))


def _first(mask: np.ndarray) -> int:
    """The first place where something is found, the last of all where it is not."""
    return int(np.argmax(mask)) if mask.any() else len(mask) - 1


def _checked(chains: np.ndarray) -> np.ndarray:
    chains = np.atleast_2d(np.asarray(chains, dtype=np.float64))
    if chains.ndim != 2 or chains.shape[1] < MINIMUM_DRAWS:
        raise InputError(
            "Too few draws.",
            f"shape {chains.shape}",
            f"(chains, draws) with draws >= {MINIMUM_DRAWS}",
        )
    return chains if (scale := _scale(chains)) == 1 else chains / scale


def _scale(chains: np.ndarray) -> float:
    """A power of two near the spread where estimators take that for 0, or its squares overflow;
    else 1.
    """
    spread = float(np.max(chains) / 2 - np.min(chains) / 2)
    return (
        2.0 ** math.floor(math.log2(spread))
        if 0 < spread < 1e-14 or 1e100 < spread < np.inf
        else 1.0
    )


def halves_of(chains: np.ndarray) -> np.ndarray:
    """First and second halves of the chains, as chains."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def normal_scores(chains: np.ndarray) -> np.ndarray:
    """The draws by normal quantiles of their ranks, equal ones by the mean rank (Vehtari et al.
    2021, eq. 14).
    """
    values = chains.ravel()
    order = np.argsort(values)
    if (np.diff(values[order]) == 0).any():
        from scipy.stats import rankdata

        return ndtri((rankdata(values) - 0.375) / (values.size + 0.25)).reshape(chains.shape)
    scores = np.empty(values.size)
    scores[order] = _scores_of(values.size)
    return scores.reshape(chains.shape)


@lru_cache(maxsize=1)
def _scores_of(count: int) -> np.ndarray:
    """The normal quantiles of the ranks 1 to `count`."""
    return ndtri((np.arange(1, count + 1) - 0.375) / (count + 0.25))


def _moves(chains: np.ndarray) -> bool:
    return bool(np.isfinite(chains).all() and np.ptp(chains) > 0)


def array_stats() -> Any:
    """The functions of arviz-stats on arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="arviz_stats")
        from arviz_stats.base import array_stats as stats
    return stats
