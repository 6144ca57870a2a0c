"""Estimators of log Z from energies along a path, with errors from autocorrelation and repeats.

Energies are E = -log(f/q) in nats, N times the mean loss where the reference q is the prior, as an
array `(points, walkers, draws)`: every walker is a repeat with one draw at each point of the path
at the same time, so that neighboring points may be correlated.

Each estimator gives its value and its influence: what each draw adds to its error, to first order,
a series `(walkers, draws)` of mean 0. The standard error of the mean of that one series counts
correlations in time, between points of the path and between walkers at once.
"""

from typing import NamedTuple

import numpy as np

from tati_re.analysis.convergence import (
    MINIMUM_DRAWS,
    effective_sample_size,
    is_short,
    monte_carlo_error,
)
from tati_re.analysis.reweighting import mbar_free_energies
from tati_re.core.errors import InputError
from tati_re.evidence.grids import Quadrature

__all__ = ["Estimate", "mbar", "series_error", "stepping_stone", "thermodynamic_integration"]

_MOST_FOR_MBAR = 5_000_000
"""Numbers in the table of all draws at all points, of which pymbar has some ten copies."""


class Estimate(NamedTuple):
    """An estimate of log Z from energies along a path.

    Attributes:
        log_z: The estimate.
        influence: The contribution of each draw to the error, `(walkers, draws)`.
        curve: Columns of the underlying curve, `(points,)` or `(points - 1,)` each.
        bias: The known bias of the rule, such as the discretization error between points, or 0.
    """

    log_z: float
    influence: np.ndarray
    curve: dict[str, np.ndarray]
    bias: float = 0.0

    @property
    def error(self) -> float:
        """Standard error, from the autocorrelation of the influence and its spread over the
        walkers.
        """
        return series_error(self.influence)

    @property
    def short(self) -> bool:
        """Whether the chains behind the error are shorter than 50 autocorrelation times."""
        return self.error > 0 and is_short(self.influence)

    @property
    def repeats(self) -> np.ndarray:
        """The estimate from each walker, to first order, `(walkers,)`."""
        return self.log_z + self.influence.mean(axis=1)


def series_error(series: np.ndarray) -> float:
    """Returns the standard error of the mean of a series; 0 for a constant series.

    Args:
        series: Values in the order of the draws, `(walkers, draws)`.

    Returns:
        The standard error, at least 0.
    """
    if np.ptp(series) == 0:
        return 0.0
    if series.shape[1] >= MINIMUM_DRAWS:
        return monte_carlo_error(series)
    return (
        float(series.mean(axis=1).std(ddof=1) / np.sqrt(len(series)))
        if len(series) > 1
        else float("nan")
    )


def checked_energies(path, energies) -> np.ndarray:
    """Energies as float64, shape (points, walkers, draws).

    Args:
        path: λ of the points, shape (points,).
        energies: Energies, one row of walkers and draws per point, at least 2 draws.

    Raises:
        InputError: The shape is wrong, or a number is not finite.
    """
    energies = np.asarray(energies, np.float64)
    if energies.ndim != 3 or len(energies) != len(path) or energies.shape[2] < 2:
        expected_shape = f"({len(path)}, walkers, draws) with at least 2 draws"
        raise InputError("energies: wrong shape.", energies.shape, expected_shape)
    if not np.isfinite(energies).all():
        raise InputError(
            "energies: not all are finite numbers.",
            f"{(~np.isfinite(energies)).sum()} that are not finite",
        )
    return energies


def point_columns(path, energies: np.ndarray) -> dict[str, np.ndarray]:
    """Statistics at each point: mean of log(f/q), its error and variance, and effective draws.

    Args:
        path: λ of the points, shape (points,).
        energies: -log(f/q), shape (points, walkers, draws).

    Returns:
        Columns by name, shape (points,) each.
    """
    flat = -energies
    enough = energies.shape[2] >= MINIMUM_DRAWS
    effective = [effective_sample_size(point, "mean") if enough else float("nan") for point in flat]
    return {
        "path": np.asarray(path, np.float64),
        "mean": flat.mean(axis=(1, 2)),
        "error": np.array([series_error(point) for point in flat]),
        "variance": flat.var(axis=(1, 2), ddof=1),
        "effective_draws": np.array(effective),
        "short": np.array([is_short(point) for point in flat]),
    }


def thermodynamic_integration(grid: Quadrature, energies) -> Estimate:
    """Estimates log Z as the integral of the mean of log(f/q) over the path.

    The corrected trapezoid rule subtracts the sum of (Δ²/12)(V_{i+1} - V_i), with V the variance of
    log(f/q), which is the slope of the integrand. For a plain trapezoid rule, `bias` is this
    correction. Source: Gelman and Meng (1998); the correction: Friel, Hurn and Wyse, Stat. Comput.
    24 (2014), eq. 10.

    Args:
        grid: The points and the rule.
        energies: -log(f/q) of the draws at each point, `(points, walkers, draws)`.

    Returns:
        The estimate.
    """
    energies = checked_energies(grid.path, energies)
    curve = point_columns(grid.path, energies) | {"weight": grid.weights}
    value = float(grid.weights @ curve["mean"])
    deviation = -(energies - energies.mean(axis=(1, 2), keepdims=True))
    influence = np.einsum("r,rwd->wd", grid.weights, deviation)
    if "trapezoid" not in grid.rule:
        return Estimate(value, influence, curve)
    squares = np.diff(grid.path) ** 2 / 12
    # The sum over the intervals, written as one over the points.
    on_variance = np.concatenate([[0.0], squares]) - np.concatenate([squares, [0.0]])
    correction = float(on_variance @ curve["variance"])
    if grid.rule == "trapezoid":
        return Estimate(value, influence, curve, bias=correction)
    excess = deviation**2 - curve["variance"][:, None, None]
    return Estimate(
        value - correction, influence - np.einsum("r,rwd->wd", on_variance, excess), curve
    )


def stepping_stone(path, energies) -> Estimate:
    """Estimates log Z as the sum over neighboring points of log <exp(-Δ E)>, averaged at the lower
    one.

    The spacing of the points causes no bias. For wide steps, however, few terms dominate the mean
    of the exponentials; `effective_fraction` is the fraction that counts. Source: Xie, Lewis, Fan,
    Kuo and Chen, Syst. Biol. 60 (2011).

    Args:
        path: λ from 0 to 1, `(points,)`.
        energies: -log(f/q) of the draws at each point, `(points, walkers, draws)`.

    Returns:
        The estimate.
    """
    path = np.asarray(path, np.float64)
    energies = checked_energies(path, energies)
    logs = -np.diff(path)[:, None, None] * energies[:-1]
    top = logs.max(axis=(1, 2), keepdims=True)
    weights = np.exp(logs - top)
    means = weights.mean(axis=(1, 2), keepdims=True)
    ratios = (np.log(means) + top)[:, 0, 0]
    influences = weights / means - 1.0
    curve = {
        "path": path[:-1],
        "next": path[1:],
        "log_ratio": ratios,
        "error": np.array([series_error(step) for step in influences]),
        "effective_fraction": means[:, 0, 0] ** 2 / (weights**2).mean(axis=(1, 2)),
    }
    return Estimate(float(ratios.sum()), influences.sum(axis=0), curve)


def mbar(path, energies) -> Estimate:
    """Estimates log Z by the multistate Bennett acceptance ratio, from draws at all points.

    It has the smallest variance of all estimates from these draws. pymbar solves for the free
    energies. The errors of pymbar assume independent draws. Here the influence in the estimating
    equations is summed over the points at each time, which accounts for correlations. If draws
    times points exceed 5,000,000, every k-th draw is used. Source: Shirts and Chodera, J. Chem.
    Phys. 129, 124105 (2008).

    Args:
        path: λ from 0 to 1, `(points,)`.
        energies: -log(f/q) of the draws at each point, `(points, walkers, draws)`.

    Returns:
        The estimate.

    Raises:
        InputError: The package pymbar is missing.
    """
    path = np.asarray(path, np.float64)
    energies = checked_energies(path, energies)
    points, walkers, draws = energies.shape
    energies = energies[:, :, :: max(1, -(-(points**2) * walkers * draws // _MOST_FOR_MBAR))]
    draws = energies.shape[2]
    reduced = path[:, None] * energies.reshape(1, -1)
    rising = energies.mean(axis=(1, 2))
    start = np.concatenate([[0.0], np.cumsum(np.diff(path) * 0.5 * (rising[1:] + rising[:-1]))])
    free = mbar_free_energies(reduced, np.full(points, walkers * draws), start)
    # The probability that a draw came from each of the points, given where it is; the equations ask
    # that these sum to the numbers drawn there.
    shares = free[:, None] - reduced
    shares -= shares.max(axis=0)
    shares = np.exp(shares)
    shares /= shares.sum(axis=0)
    slope = np.diag(shares.sum(axis=1)) - shares @ shares.T
    by_time = shares.reshape(points, points, walkers, draws)
    by_time = (by_time - by_time.mean(axis=(2, 3), keepdims=True)).sum(axis=1)
    target = np.zeros(points)
    target[0], target[-1] = 1.0, -1.0
    # slope is singular along equal shifts of all free energies, which the difference of two does
    # not feel.
    onto = np.linalg.lstsq(slope, target, rcond=None)[0]
    # The equations are sums over all draws, the influence is a mean over walkers and times.
    influence = -np.einsum("r,rwd->wd", onto, by_time) * (walkers * draws)
    overlaps = np.array([float(shares[k] @ shares[k + 1]) for k in range(points - 1)]) / (
        walkers * draws
    )
    curve = {"path": path, "log_z": free[0] - free, "overlap": np.append(overlaps, np.nan)}
    return Estimate(float(free[0] - free[-1]), influence, curve)
