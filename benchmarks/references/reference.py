"""Moments and quantiles of predictions with their errors, and whether two samplers agree on them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tati_re.analysis import effective_sample_size, nested_r_hat, r_hat

LEVELS = np.arange(1, 40) / 40
"""Levels of the stored quantiles: 39, between 40 bins of equal probability."""
LARGEST_R_HAT = 1.01
LARGEST_DISTANCE = 0.1
"""The largest W1 of two samplers at one input, in standard deviations."""
LEAST_ESS = 1_000


def effective_sizes(draws: np.ndarray, kind: str = "bulk") -> np.ndarray:
    """The effective sample size of each quantity, `(quantities,)`.

    Args:
        draws: Draws, `(chains, draws, quantities)`. Fewer than four draws a chain are taken to be
            independent, as the members of an ensemble are.
        kind: "bulk" or "tail".
    """
    chains, length, quantities = draws.shape
    if length < 4:
        return np.full(quantities, float(chains * length))
    return np.array([effective_sample_size(draws[:, :, k], kind) for k in range(quantities)])


@dataclass(frozen=True)
class Agreement:
    """How far two samplers agree, the worst over all quantities.

    Attributes:
        rhat: R-hat of all chains, of values and of distances from the median.
        nested_rhat: Nested R-hat of the two groups of chains, of the same.
        distance: W1 between the two samplers, in standard deviations.
        by_chance: The W1 that two sets of independent draws of these effective sizes have.
        least_ess: The least effective size of one sampler.
    """

    rhat: float
    nested_rhat: float
    distance: float
    by_chance: float
    least_ess: float

    @property
    def holds(self) -> bool:
        """Whether the draws may be a reference."""
        return (
            self.rhat < LARGEST_R_HAT
            and self.nested_rhat < LARGEST_R_HAT
            and self.distance < LARGEST_DISTANCE
            and self.least_ess > LEAST_ESS
        )


def agreement_of(first: np.ndarray, second: np.ndarray) -> Agreement:
    """Compares draws of two samplers.

    Args:
        first: Draws, `(chains, draws, quantities)`.
        second: Draws of the same shape.
    """
    both = np.concatenate([first, second])
    apart = np.abs(both - np.median(both, axis=(0, 1)))
    quantities = range(both.shape[-1])
    views = [values[:, :, k] for values in (both, apart) for k in quantities]
    deviation = both.std(axis=(0, 1))
    quantiles = [np.quantile(draws, LEVELS, axis=(0, 1)) for draws in (first, second)]
    distances = np.abs(quantiles[0] - quantiles[1]).mean(axis=0) / deviation
    sizes = np.minimum(effective_sizes(first), effective_sizes(second))
    # Quantiles of a normal law, whose W1 from n draws is about 0.8 sqrt(2/n) for two sets of n.
    by_chance = 0.8 * np.sqrt(2 / sizes)
    return Agreement(
        rhat=max(float(r_hat(view)) for view in views),
        nested_rhat=max(float(nested_r_hat(view, 2).value) for view in views),
        distance=float(distances.max()),
        by_chance=float(by_chance[distances.argmax()]),
        least_ess=float(sizes.min()),
    )


def reference_of(draws: np.ndarray) -> dict[str, Any]:
    """Moments and quantiles with standard errors, as lists of numbers.

    Args:
        draws: Draws, `(chains, draws, quantities)`.
    """
    mean = draws.mean(axis=(0, 1))
    deviation = draws.std(axis=(0, 1))
    sizes = effective_sizes(draws)
    squares = (draws - mean) ** 2
    spread_of_squares = squares.std(axis=(0, 1)) / np.sqrt(effective_sizes(squares))
    quantiles = np.quantile(draws, LEVELS, axis=(0, 1))
    # dQ/dp by differences of neighbors is one over the density.
    slopes = np.gradient(quantiles, LEVELS, axis=0)
    tail = np.minimum(sizes, effective_sizes(draws, "tail"))
    errors = np.sqrt(LEVELS * (1 - LEVELS))[:, None] * slopes / np.sqrt(tail)
    return {
        "mean": _listed(mean),
        "mean_error": _listed(deviation / np.sqrt(sizes)),
        "deviation": _listed(deviation),
        "deviation_error": _listed(spread_of_squares / (2 * deviation)),
        "levels": _listed(LEVELS),
        "quantiles": _listed(quantiles),
        "quantile_errors": _listed(errors),
    }


def _listed(values: np.ndarray) -> Any:
    """Nested lists of six digits."""
    return np.vectorize(lambda value: float(f"{value:.6g}"))(values).tolist()


def entries_of(agreement: Agreement) -> dict[str, float]:
    """The agreement for a file, to four digits."""
    return {name: float(f"{value:.4g}") for name, value in asdict(agreement).items()}
