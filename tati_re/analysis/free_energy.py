"""Coordinates of a run (columns, parameters, eigenvectors, eigenfunctions), and free energies along
them.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.polynomial import hermite_e

from tati_re.analysis import convergence
from tati_re.analysis.averages import rows_at_target
from tati_re.analysis.covariance import covariance_eigenpairs
from tati_re.analysis.diffusion_map import DiffusionMap, diffusion_map
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.positions import Block, Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run

FORM = "a column of run.csv, a parameter such as dense/kernel[0,0], covariance:1 or diffusion:1"


class Coordinate(NamedTuple):
    """Draws of one coordinate, `(walkers, draws)`, and what each counts, same shape; None where all
    count the same.
    """

    values: np.ndarray
    weights: np.ndarray | None


@front_door
def coordinate_of(
    run: AnyRun, name: str, burnin: int | None = None, thin: int = 1, **map_options: Any
) -> Coordinate:
    """Returns the draws of a coordinate of a run.

    Args:
        run: The run, or its folder.
        name: A column of `run.csv`, the name of a parameter in the trajectory, or `covariance:k` or
            `diffusion:k`. The latter are the k-th eigenvector (from 1) of the covariance, and the
            k-th eigenfunction of the diffusion map, of the stored positions.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows or positions. Default: 1.
        **map_options: For `diffusion:k`: options of `diffusion_map_of`.

    Returns:
        The draws, `(walkers, draws)`, and their weights.

    Raises:
        InputError: There is no such coordinate, or no positions are stored.
    """
    run = as_run(run)
    kind, _, number = name.partition(":")
    if number and kind in ("covariance", "diffusion"):
        refuse_if(
            not number.isdecimal() or int(number) < 1,
            f"{kind}: which?",
            number,
            f"{kind}:1, {kind}:2, ...",
        )
        return _along(run, kind, int(number), burnin, thin, map_options)
    if name in run.run_info.columns and name not in ("step", "walker"):
        rows = rows_at_target(run, burnin, thin)
        weights = convergence.chains_of(rows, "weight", -1) if "weight" in rows else None
        return Coordinate(convergence.chains_of(rows, name, -1), weights)
    positions = Positions(run, burnin, thin)
    if name not in positions.names:
        known = [*run.run_info.columns, *positions.names]
        raise InputError(f"There is no coordinate '{name}'.{nearest(name, known)}", expected=FORM)
    place = positions.names.index(name)
    return _by_walker(positions.blocks(), lambda block: block.values[:, place])


@front_door
def diffusion_map_of(
    run: AnyRun,
    num_eigenvectors: int = 4,
    burnin: int | None = None,
    thin: int = 1,
    num_points: int = 2000,
    bandwidth: float | str = "bgh",
    alpha: float = 0.5,
    target_measure: bool = False,
) -> tuple[DiffusionMap, Block]:
    """Computes the diffusion map of a run's stored positions, evenly thinned to a maximum number.

    Args:
        run: The run, or its folder.
        num_eigenvectors: Number of eigenfunctions, at least 1. Default: 4.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: 1.
        num_points: Largest number of positions used. Default: 2000.
        bandwidth: ε, or a rule, as for `diffusion_map`. Default: "bgh".
        alpha: α in [0, 1], as for `diffusion_map`. Default: 0.5.
        target_measure: Whether the target measure is exp(-U/T), with the recorded U, whatever the
            density of the points (TMDmap). Default: False.

    Returns:
        The map, and the positions used.

    Raises:
        InputError: No positions are stored, or there are too few.
    """
    run = as_run(run)
    count = sum(len(block.step) for block in Positions(run, burnin, thin).blocks())
    more = -(-count // max(num_points, 1, run.manifest.options.num_walkers))
    block = Positions(run, burnin, thin * max(1, more)).read()
    log_target = -block.potential / (run.manifest.temperature or 1.0) if target_measure else None
    return diffusion_map(block.values, num_eigenvectors, bandwidth, alpha, log_target), block


def _along(
    run: RunFiles,
    kind: str,
    number: int,
    burnin: int | None,
    thin: int,
    map_options: dict[str, Any],
) -> Coordinate:
    if kind == "diffusion":
        diffusion, block = diffusion_map_of(run, number, burnin, thin, **map_options)
        return _by_walker([block], lambda _: diffusion.vectors[:, number - 1])
    pairs = covariance_eigenpairs(run, number, None, burnin, thin)
    refuse_if(
        number > len(pairs.values),
        "The covariance has fewer eigenvectors than requested.",
        number,
        f"1 to {len(pairs.values)}",
    )
    vector = pairs.vectors[number - 1]
    return _by_walker(
        Positions(run, burnin, thin).blocks(), lambda block: (block.values - pairs.mean) @ vector
    )


def _by_walker(blocks, take) -> Coordinate:
    steps, walkers, values, weights = zip(
        *((b.step, b.walker, take(b), b.weight) for b in blocks), strict=True
    )
    weight = None if weights[0] is None else np.concatenate(weights)
    rows, counted = convergence.rows_that_count(
        np.concatenate(steps), np.concatenate(walkers), weight
    )
    return Coordinate(np.concatenate(values)[rows], counted)


MOST_BINS = 100_000


@front_door
def free_energy(
    values: np.ndarray,
    temperature: float = 1.0,
    method: Literal["histogram", "kernel"] = "histogram",
    num_bins: int = 40,
    weights: np.ndarray | None = None,
    bandwidth: float | None = None,
    limits: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Estimates the free energy F(x) = -T ln p(x) along a coordinate x from its draws.

    For a histogram, the density p of a bin is the fraction of draws in it over its width. For
    kernels, it is the mean of Gaussians centered at the draws, which is smooth but broadened by
    their width. The error is T times the relative standard error of p. It comes from the
    autocorrelated series of bin indicators (or kernel values) at each x. A barrier crossed only
    twice therefore has a large error, however many draws lie on each side.

    Args:
        values: The coordinate, `(chains, draws)` or `(draws,)`.
        temperature: T, above 0. Default: 1.
        method: `"histogram"` or `"kernel"`. Default: `"histogram"`.
        num_bins: Number of bins, or of points for the kernel estimate, from 2 to 100,000. Default:
            40.
        weights: Weight of each draw, at least 0, in the same shape. Default: None, equal weights.
        bandwidth: Standard deviation of the kernel. Default: None, a plug-in value for the
            effective sample size.
        limits: Ends of the coordinate, with draws between them. Default: None, the range of the
            draws.

    Returns:
        One row per bin or point: `coordinate, density, density_error, free_energy, error, short`.
        The lowest free energy is 0. Free energy and error are nan where there are no draws. `short`
        marks chains below 50 autocorrelation times, whose errors are rough and usually too small.

    Raises:
        InputError: Draws are too few, not finite or all equal, the method is unknown, or numbers
            are out of range.
    """
    values = np.atleast_2d(np.asarray(values, np.float64))
    _check_method(values, method)
    weights = (
        np.ones_like(values) if weights is None else np.atleast_2d(np.asarray(weights, np.float64))
    )
    has_weights = _are_weights(weights, values.shape)
    counted = values[weights > 0] if has_weights else values
    low, high = limits if limits is not None else (float(counted.min()), float(counted.max()))
    refuse_if(
        not has_weights,
        "weights do not fit.",
        f"{weights.shape}, {weights}",
        f"{values.shape}, 0 or more, not all 0",
    )
    _check_numbers(num_bins, temperature)
    inside = np.isfinite(high - low) and low < high and ((low <= counted) & (counted <= high)).any()
    refuse_if(
        not inside,
        "limits: the interval contains no draws.",
        (low, high),
        "a lower end, then an upper one",
    )
    _check_bandwidth(bandwidth, method)

    weights = weights / weights.mean()
    if method == "histogram":
        centers, estimates = _by_bins(values, weights, num_bins, low, high)
    else:
        centers = np.linspace(low, high, num_bins)
        width = bandwidth or _kernel_width(values, weights, counted)
        estimates = _by_kernels(values, weights, centers, width)

    density, error = np.array(estimates).T
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = np.where(density > 0, -temperature * np.log(density), np.nan)
        relative = np.where(density > 0, temperature * error / density, np.nan)
    columns = {"coordinate": centers, "density": density, "density_error": error}
    columns |= {
        "free_energy": energy - np.nanmin(energy),
        "error": relative,
        "short": convergence.is_short(values),
    }
    return pd.DataFrame(columns)


def _check_method(values: np.ndarray, method: str) -> None:
    """Refuses other methods, and draws that have no density."""
    refuse_if(
        method not in ("histogram", "kernel"),
        "method has an unknown value.",
        method,
        "histogram or kernel",
    )
    wrong = (
        values.shape[1] < convergence.MINIMUM_DRAWS
        or not np.isfinite(values).all()
        or np.ptp(values) == 0
    )
    refuse_if(
        wrong,
        "A free energy needs finite draws that are not all equal.",
        f"shape {values.shape}",
        "(chains, draws)",
    )


def _are_weights(weights: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Whether there is a weight for each draw, and none below 0."""
    return bool(
        weights.shape == shape
        and np.isfinite(weights).all()
        and (weights >= 0).all()
        and weights.any()
    )


def _check_numbers(num_bins: int, temperature: float) -> None:
    """Refuses numbers out of their range."""
    refuse_if(
        not isinstance(num_bins, int | np.integer) or not 2 <= num_bins <= MOST_BINS,
        "num_bins is out of range.",
        num_bins,
        f"2 to {MOST_BINS:,}",
    )
    refuse_if(
        not 0 < temperature < np.inf,
        "temperature is out of range.",
        temperature,
        "a number above 0",
    )


def _check_bandwidth(bandwidth: float | None, method: str) -> None:
    """Refuses a bandwidth of bins, and one out of its range."""
    refuse_if(
        bandwidth is not None and method != "kernel",
        "bandwidth applies only to method kernel.",
        method,
        "method kernel",
    )
    refuse_if(
        bandwidth is not None and not 0 < bandwidth < np.inf,
        "bandwidth is out of range.",
        bandwidth,
        "above 0",
    )


def _by_bins(
    values: np.ndarray, weights: np.ndarray, num_bins: int, low: float, high: float
) -> tuple[np.ndarray, list[tuple[float, float]]]:
    """The centers of bins, and the density in each with its error."""
    edges = np.linspace(low, high, num_bins + 1)
    centers = 0.5 * (edges[1:] + edges[:-1])
    # The last bin holds its upper end, as the others do not.
    number = np.where(
        values == high, num_bins - 1, np.floor((values - low) / (high - low) * num_bins)
    ).astype(int)
    width = (high - low) / num_bins
    return centers, [_mean_and_error((number == k) / width, weights) for k in range(num_bins)]


def _by_kernels(
    values: np.ndarray, weights: np.ndarray, centers: np.ndarray, width: float
) -> list[tuple[float, float]]:
    """The density at some places, of Gaussians of this width, with its error."""
    norm = 1.0 / (np.sqrt(2 * np.pi) * width)
    return [
        _mean_and_error(norm * np.exp(-0.5 * ((values - x) / width) ** 2), weights) for x in centers
    ]


def _kernel_width(values: np.ndarray, weights: np.ndarray, counted: np.ndarray) -> float:
    """Direct plug-in of two stages. Source: S. Sheather, M. Jones, J. R. Stat. Soc. B 53, 683
    (1991).
    """
    spread = (
        min(counted.std(), np.subtract(*np.quantile(counted, [0.75, 0.25])) / 1.349)
        or counted.std()
    )
    size = max(4.0, convergence.effective_sample_size(weights * (values - counted.mean()), "mean"))
    share, edges = np.histogram(
        (values - np.median(counted)) / spread, 800, (-8, 8), weights=weights
    )
    share = share / weights.sum()
    roughness = 105 / (32 * np.sqrt(np.pi))
    for order, top in ((6, 15.0), (4, 3.0)):
        h = (2 * top / (np.sqrt(2 * np.pi) * abs(roughness) * size)) ** (1 / (order + 3))
        z = np.subtract.outer(edges[1:], edges[1:]) / h
        roughness = share @ (np.exp(-0.5 * z**2) * hermite_e.hermeval(z, [0] * order + [1])) @ share
        roughness /= np.sqrt(2 * np.pi) * h ** (order + 1)
    return float(spread * (2 * np.sqrt(np.pi) * abs(roughness) * size) ** -0.2)


def _mean_and_error(series: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    mean = float((weights * series).mean())
    influence = weights * (series - mean)
    if np.ptp(influence) == 0:
        return mean, np.nan if mean else 0.0
    return mean, convergence.monte_carlo_error(influence)
