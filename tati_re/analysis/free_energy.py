"""Free energy along a coordinate, with error bars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from tati_re.analysis.convergence import MINIMUM_DRAWS, effective_sample_size, is_short, monte_carlo_error
from tati_re.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MOST_BINS = 100_000


def free_energy(
    values: np.ndarray,
    temperature: float = 1.0,
    method: Literal["histogram", "kernel"] = "histogram",
    num_bins: int = 40,
    weights: np.ndarray | None = None,
    bandwidth: float | None = None,
    limits: tuple[float, float] | None = None,
) -> pd.DataFrame:
    """Free energy F(x) = -T ln p(x) along a coordinate x, from draws of it.

    The density p of a bin is the part of the draws in it over its width; by kernels it is the mean of Gaussians of the
    given width about the draws, which is smooth, and smeared by that width. The error is T times the relative standard
    error of p, from the autocorrelated series of zeros and ones (or of kernels) at each x: a barrier crossed twice has
    a large one, however many draws lie on each side of it.

    Args:
        values: The coordinate, `(chains, draws)` or `(draws,)`.
        temperature: T. Default: 1.
        method: `"histogram"` or `"kernel"`. Default: `"histogram"`.
        num_bins: Bins, or points where the kernel estimate is taken, 2 to 100,000. Default: 40.
        weights: What each draw counts, same shape. Default: None, all the same.
        bandwidth: Standard deviation of the kernel. Default: None, Silverman's rule for the effective sample size.
        limits: Ends of the coordinate. Default: None, those of the draws.

    Returns:
        A row for each bin or point: `coordinate, density, density_error, free_energy, error, short` (chains of the
        coordinate below 50 autocorrelation times: the errors are rough, and mostly too small); the lowest free energy
        is 0. Where no draw lies free energy and error are nan.

    Raises:
        InputError: Too few draws, not finite, or all the same; a method that is not known.
    """
    import pandas as pd

    values = np.atleast_2d(np.asarray(values, np.float64))
    if method not in ("histogram", "kernel"):
        raise InputError("method is not known.", method, "histogram or kernel")
    if not 2 <= num_bins <= MOST_BINS:
        raise InputError("num_bins is out of range.", num_bins, f"2 to {MOST_BINS:,}")
    if values.shape[1] < MINIMUM_DRAWS or not np.isfinite(values).all() or np.ptp(values) == 0:
        raise InputError(
            "A free energy needs draws that differ and are finite.", f"shape {values.shape}", "(chains, draws)"
        )
    weights = np.ones_like(values) if weights is None else np.atleast_2d(np.asarray(weights, np.float64))
    weights = weights / weights.mean()
    low, high = limits if limits is not None else (float(values.min()), float(values.max()))
    if method == "histogram":
        edges = np.linspace(low, high, num_bins + 1)
        places = 0.5 * (edges[1:] + edges[:-1])
        # The last bin holds its upper end, as the others do not.
        number = np.where(values == high, num_bins - 1, np.floor((values - low) / (high - low) * num_bins)).astype(int)
        width = (high - low) / num_bins
        found = [_mean_and_error((number == k) / width, weights) for k in range(num_bins)]
    else:
        places = np.linspace(low, high, num_bins)
        spread = min(values.std(), np.subtract(*np.quantile(values, [0.75, 0.25])) / 1.349) or values.std()
        h = bandwidth or 0.9 * spread * max(4.0, effective_sample_size(values, "mean")) ** -0.2  # Silverman's rule
        norm = 1.0 / (np.sqrt(2 * np.pi) * h)
        found = [_mean_and_error(norm * np.exp(-0.5 * ((values - x) / h) ** 2), weights) for x in places]
    density, error = np.array(found).T
    with np.errstate(divide="ignore", invalid="ignore"):
        energy = np.where(density > 0, -temperature * np.log(density), np.nan)
        relative = np.where(density > 0, temperature * error / density, np.nan)
    columns = {"coordinate": places, "density": density, "density_error": error}
    columns |= {"free_energy": energy - np.nanmin(energy), "error": relative, "short": is_short(values)}
    return pd.DataFrame(columns)


def _mean_and_error(series: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    mean = float((weights * series).mean())
    influence = weights * (series - mean)
    if np.ptp(influence) == 0:
        return mean, np.nan if mean else 0.0
    return mean, monte_carlo_error(influence)
