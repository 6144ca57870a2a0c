"""The density that makes a noisy Barker test exact: added to Gaussian noise, it gives a logistic
number.

Barker's test accepts when z + D > 0, with z from the logistic distribution. Where D carries
Gaussian noise of variance σ², z comes from a density q instead whose convolution with N(0, σ²) is
the logistic density. Its Fourier transform

    φ(ω) exp(σ² ω² / 2),   φ(ω) = πω / sinh(πω),

exceeds 1 at large ω for every σ² > 0: no density is exact, and how good one is depends on how the
spectrum is cut off. Here it is multiplied by exp(-(ω/c)^p), with c and p (a search of ours) that
bring the convolution nearest.

Sources: D. Seita, X. Pan, H. Chen, J. Canny, An efficient minibatch acceptance test for
Metropolis-Hastings (2017); R. Luo et al., Replica-exchange Nosé-Hoover dynamics for Bayesian
learning on large datasets (2020), eq. 9, 14 and 18.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.ops import (
    absolute,
    as_float64,
    as_int32,
    constant,
    floor,
    log,
    log1p,
    logistic,
    minimum,
    take,
    where,
)

LARGEST_NOISE_VARIANCE = 1.05
"""Above it no cut keeps the density positive without an error that shows."""

NUM_POINTS = 8001
RANGE = 16.0
"""Tables reach so far in z and in log odds; what lies beyond is in closed form to 1e-7 of
itself.
"""

_TAIL = 12.0
_POWERS = (6, 8, 10, 12)
_SMALLEST = 1e-9
"""The density is kept above this part of the logistic one, so that its distribution has an
inverse.
"""


class Cut(NamedTuple):
    """The factor exp(-(ω/frequency)^power) on the spectrum, and its error.

    Attributes:
        frequency: Frequency at which the factor is 1/e.
        power: Sharpness of the cut.
        error: Largest distance between the distribution after convolution and the logistic one.
    """

    frequency: float
    power: int
    error: float


class CompensationTable(NamedTuple):
    """Tables of a compensation density for its upper half; the lower half is its mirror image.

    Attributes:
        noise_variance: σ² of the noise it compensates.
        positions: z from 0 to `RANGE`, `(NUM_POINTS,)`, equally spaced.
        density: q at the positions, `(NUM_POINTS,)`.
        log_odds: ln P(below z) / P(above z) at the positions, `(NUM_POINTS,)`.
        quantiles: z at equally spaced log odds from 0 to `RANGE`, `(NUM_POINTS,)`.
    """

    noise_variance: float
    positions: np.ndarray
    density: np.ndarray
    log_odds: np.ndarray
    quantiles: np.ndarray


@front_door
def series_weights(
    noise_variance: float, terms: int, series_filter: float | None = 10.0
) -> list[float]:
    """Returns the weights of the odd derivatives in the published series for the density.

    They are w_n = (-1)ⁿ H_n(λσ²/4) / (λⁿ n!), the Taylor series of exp(σ²ω²/2 - ω⁴/λ²) in ω², the
    first derivative first. For λ = ∞ they are (-σ²/2)ⁿ / n!.

    Source: Luo et al. 2020, eq. 9. The argument of H_n in the table of its appendix, σ²/(4λ), is a
    misprint.

    Args:
        noise_variance: σ².
        terms: Number of weights.
        series_filter: λ; None for ∞. Default: 10.

    Returns:
        `terms` weights.
    """
    if series_filter is None:
        return [(-noise_variance / 2) ** n / math.factorial(n) for n in range(terms)]
    argument = series_filter * noise_variance / 4
    weights = []
    before = 0.0
    hermite = 1.0
    for n in range(terms):
        weights.append((-1 / series_filter) ** n / math.factorial(n) * hermite)
        before, hermite = hermite, 2 * argument * hermite - 2 * n * before
    return weights


@front_door
def log_spectrum(frequency: np.ndarray) -> np.ndarray:
    """ln φ(ω) = ln(πω / sinh(πω)) of the logistic density.

    Args:
        frequency: ω, at least 0, of any shape.

    Returns:
        Numbers of at most 0, in the shape of `frequency`.
    """
    x = np.pi * np.asarray(frequency, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.log(2 * x) - x - np.log1p(-np.exp(-2 * x))
    return np.where(x > 0, value, 0.0)


def _filtered(
    noise_variance: float, frequency: float, power: int
) -> Callable[[np.ndarray], np.ndarray]:
    def ratio(omega: np.ndarray) -> np.ndarray:
        return np.exp(
            np.minimum(noise_variance * omega**2 / 2 - (omega / frequency) ** power, 600.0)
        )

    return ratio


def _series(
    noise_variance: float, terms: int, series_filter: float | None
) -> Callable[[np.ndarray], np.ndarray]:
    weights = series_weights(noise_variance, terms, series_filter)

    def ratio(omega: np.ndarray) -> np.ndarray:
        return sum(weight * (-1) ** n * omega ** (2 * n) for n, weight in enumerate(weights))

    return ratio


@lru_cache(maxsize=4)
def _cosines(largest_frequency: float, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Frequencies, φ there, and the matrix that makes a density from 0 to `_TAIL` of a spectrum.
    The trapezoidal rule with spacing 0.1 repeats the density with the period 20π: an error of e^(12
    - 20π).
    """
    omega = np.arange(0.0, largest_frequency + 0.05, 0.1)
    matrix = np.cos(np.outer(np.linspace(0, _TAIL, points), omega)) * (0.1 / np.pi)
    matrix[:, 0] *= 0.5
    return omega, np.exp(log_spectrum(omega)), matrix


def _half_density(ratio: Callable, largest_frequency: float, points: int) -> np.ndarray:
    """The density with the spectrum φ(ω) ratio(ω) on an even grid from 0 to `_TAIL`."""
    omega, spectrum, matrix = _cosines(largest_frequency, points)
    return matrix @ (spectrum * ratio(omega))


@front_door
@lru_cache(maxsize=16)
def best_cut(noise_variance: float) -> Cut:
    """Returns the cut whose clipped density, added to N(0, σ²), is closest to the logistic
    distribution.

    Its error is about 3e-11 at σ² = 0.2, 2e-7 at 0.8, and 8e-6 at 1.

    Args:
        noise_variance: σ² in (0, 1.05].

    Returns:
        The cut.

    Raises:
        InputError: σ² is out of range.
    """
    _check(noise_variance)
    points = 601
    z = np.linspace(0, _TAIL, points)
    # The tail continues on the same grid: a coarser one would cost more than the cut does.
    far = _TAIL + z[1] * np.arange(1, 801)
    x = np.linspace(0, 20, 101)
    width = math.sqrt(noise_variance)
    grid = np.concatenate([z, far])
    smear = ndtr((x[:, None] - grid) / width) + ndtr((x[:, None] + grid) / width)
    weights = np.full(len(grid), z[1])
    weights[0] *= 0.5
    target = expit(x)

    def error(frequency: float, power: int) -> float:
        ratio = _filtered(noise_variance, frequency, power)
        tail = _tail_ratio(ratio) * np.exp(-far)
        density = (
            np.maximum(np.concatenate([_half_density(ratio, 16.0, points), tail]), 0.0) * weights
        )
        return float(np.abs(smear @ density / (2 * density.sum()) - target).max())

    frequencies = {power: np.geomspace(2.5, 14.0, 25) for power in _POWERS}
    best: dict[int, float] = {}
    for step in (1.075, 1.02, 1.005):
        for power, tried in frequencies.items():
            best[power] = min((error(c, power), c) for c in tried)[1]
            frequencies[power] = best[power] * step ** np.linspace(-0.8, 0.8, 7)
    least, power = min((error(c, power), power) for power, c in best.items())
    return Cut(float(best[power]), power, least)


def _check(noise_variance: float) -> None:
    if not 0 < noise_variance <= LARGEST_NOISE_VARIANCE:
        raise InputError(
            f"This variance cannot be compensated. Above {LARGEST_NOISE_VARIANCE} the "
            "density that Barker's test needs is negative in places, and swaps are "
            "biased. Use the penalty rule, or reduce the variance of the energies.",
            received=noise_variance,
            expected=f"above 0, up to {LARGEST_NOISE_VARIANCE}",
        )


def _tail_ratio(ratio: Callable) -> float:
    """q / logistic density far from 0: the pole at ω = i decides."""
    return float(np.real(ratio(np.array([1j]))[0]))


@front_door
@lru_cache(maxsize=16)
def compensation_table(
    noise_variance: float, series_terms: int | None = None, series_filter: float | None = 10.0
) -> CompensationTable:
    """Returns tables of the compensation density, clipped at 0 and normalized.

    The same arguments return the same object.

    Args:
        noise_variance: σ² of the noise, in (0, 1.05].
        series_terms: Terms of the published series, at least 1. Default: None, the quadrature with
            `best_cut`.
        series_filter: λ of the series, `None` for ∞. Default: 10.

    Returns:
        The table, from which `quantile` draws.

    Raises:
        InputError: σ² is not in (0, 1.05], there are no terms, the filter is not above 0, or the
            series is not a density.

    Examples:
        >>> table = compensation_table(0.2)
        >>> [round(float(quantile(table, u)), 4) for u in (0.5, 0.75, 0.99)]
        [0.0, 1.0466, 4.4969]
    """
    # Not above: it takes longer to import than the rest, and commands import the rules for their
    # names.
    from scipy.interpolate import CubicSpline, PchipInterpolator

    _check(noise_variance)
    if series_terms is None:
        cut = best_cut(noise_variance)
        ratio = _filtered(noise_variance, cut.frequency, cut.power)
        largest = 16.0
    else:
        refuse_if(series_terms < 1, "series_terms: too few.", series_terms, "at least 1")
        if series_filter is not None and not series_filter > 0:
            raise InputError(
                "series_filter: out of range.", received=series_filter, expected="above 0, or None"
            )
        ratio = _series(noise_variance, series_terms, series_filter)
        largest = 16.0 + 2.0 * series_terms
    points = 2401
    z = np.linspace(0, _TAIL, points)
    raw = _half_density(ratio, largest, points)
    tail = _tail_ratio(ratio)
    clipped = -2 * float(np.trapezoid(np.minimum(raw, 0.0), z))
    problem = (
        "The series is not a density: it is negative over wide ranges. It has too many terms "
        "for its filter."
    )
    refuse_if(
        not (tail > 0 and clipped < 0.1),
        problem,
        f"series_terms {series_terms}, series_filter {series_filter}",
    )
    grid = np.linspace(0, RANGE, NUM_POINTS)
    inside = grid[grid <= _TAIL]
    spline = CubicSpline(z, np.maximum(raw, _SMALLEST * expit(z) * expit(-z)))
    below = spline.antiderivative()
    far = tail * np.exp(-grid[len(inside) :])
    half = float(below(_TAIL)) + tail * math.exp(-_TAIL)
    above = np.concatenate([half - below(inside), far])
    log_odds = np.log(2 * half - above) - np.log(above)
    log_odds[0] = 0.0
    density = np.maximum(np.concatenate([spline(inside), far]) / (2 * half), 0.0)
    beyond = np.arange(1.0, 9.0)
    inverse = PchipInterpolator(np.r_[log_odds, log_odds[-1] + beyond], np.r_[grid, RANGE + beyond])
    return CompensationTable(
        noise_variance=float(noise_variance),
        positions=grid,
        density=density,
        log_odds=log_odds,
        quantiles=inverse(grid),
    )


def _odd(x, values: np.ndarray):
    """An odd function given on an even grid from 0 to `RANGE`, with slope 1 beyond."""
    size = absolute(x)
    inside = minimum(size, as_float64(RANGE))
    scaled = inside * ((NUM_POINTS - 1) / RANGE)
    cell = minimum(floor(scaled), as_float64(NUM_POINTS - 2))
    values = constant(values, scaled)
    place = as_int32(cell)
    low = take(values, place)
    high = take(values, place + 1)
    value = low + (high - low) * (scaled - cell) + (size - inside)
    return where(x < 0, -value, value)


@front_door
def quantile(table: CompensationTable, uniform):
    """Maps uniform numbers to the compensation density; float64, numpy or TensorFlow.

    It interpolates linearly in the log odds of the uniform number, in which the quantile is nearly
    a straight line. No search is needed, and the far tails have a closed form.

    Args:
        table: The compensation density.
        uniform: Uniform numbers in (0, 1), of any shape.

    Returns:
        The numbers, in the shape of `uniform`.
    """
    uniform = as_float64(uniform)
    return _odd(log(uniform) - log1p(-uniform), table.quantiles)


def cumulative(table: CompensationTable, z):
    """Probability of a number below z; float64, numpy or TensorFlow.

    Args:
        table: The compensation density.
        z: Points of evaluation, of any shape.
    """
    return logistic(_odd(as_float64(z), table.log_odds))


@front_door
def cumulative_after_noise(
    table: CompensationTable, x: np.ndarray, noise_variance: float | None = None
) -> np.ndarray:
    """Returns the distribution function of z + N(0, σ²) by quadrature; ideally it is logistic.

    Args:
        table: The compensation density.
        x: Points of evaluation, `(n,)`.
        noise_variance: σ². Default: None, the value of the table.

    Returns:
        The probability below each `x`, `(n,)`.
    """
    width = math.sqrt(table.noise_variance if noise_variance is None else noise_variance)
    z = np.concatenate([table.positions, RANGE + table.positions[1:]])
    weights = (
        np.concatenate([table.density, table.density[-1] * np.exp(-table.positions[1:])]) * z[1]
    )
    weights[0] *= 0.5
    # The upper half mirrored: z and -z together.
    return np.array(
        [weights @ (ndtr((v - z) / width) + ndtr((v + z) / width)) for v in np.asarray(x, float)]
    )
