"""Mean acceptance of a rule over the noise of the energies."""

import numpy as np

from tati_re.exchange.swap_rules import SwapRule

LARGE_COUNT = 1e15
"""Stands for a variance that is known, not estimated."""


def mean_acceptance(
    rule: SwapRule, log_ratio, noise_variance: float, variance: float | None = None, count: float = LARGE_COUNT
) -> np.ndarray:
    """A(D): acceptance of a swap with log ratio D, averaged over Gaussian noise of the estimate, by quadrature.

    The result has the shape of `log_ratio`, to about 1e-6; an exact rule has ln A(D)/A(-D) = D.

    Args:
        log_ratio: D, of any shape.
        noise_variance: Variance of the noise that there is, 0 or more.
        variance: Variance that the rule is told. Default: the true one.
        count: How many numbers it is said to come from. Default: so many that it counts as known.

    Examples:
        >>> from tati_re.exchange.swap_rules import Penalty
        >>> float(mean_acceptance(Penalty(), 0.5, 1.0)).__round__(4)
        0.7616
    """
    log_ratio = np.asarray(log_ratio, float)
    told = np.float64(noise_variance if variance is None else variance)
    if noise_variance == 0:
        return np.asarray(rule.expected(log_ratio, np.full_like(log_ratio, told), np.full_like(log_ratio, count)))
    normal = np.linspace(-9, 9, 6001)
    weights = np.exp(-0.5 * normal**2)
    weights /= weights.sum()
    result = np.empty(log_ratio.shape)
    for place, value in np.ndenumerate(log_ratio):
        noisy = value + np.sqrt(noise_variance) * normal
        result[place] = weights @ rule.expected(noisy, np.full_like(noisy, told), np.full_like(noisy, count))
    return result
