"""Variances of swap ratios from mini-batches, and their corrections.

The log ratio of a swap of rungs i and j is D = (β_i - β_j)(U_i - U_j), or (λ_i - λ_j)(L_i - L_j). Estimated from n of N
examples that both replicas see, drawn without replacement, its noise is that of the differences a of their losses:

    D = f mean(a) + exact parts,   V = f² var(a) / n (1 - n/N),   f = (β_i - β_j) N

(f = β_i - β_j where U is a mean loss). All functions take numpy or TensorFlow.
"""

from typing import Any, NamedTuple

from tati_re.core.ops import as_float64, maximum, sum_over


class DifferenceMoments(NamedTuple):
    """n, mean, and sum of squared deviations from it of the paired differences so far, `(pairs,)` each, float64."""

    count: Any
    mean: Any
    squares: Any


def moments(differences, inside=None) -> DifferenceMoments:
    """Count, mean and squared deviations of differences `(pairs, n)`, or of those `inside`, bool, `(n,)` or
    `(pairs, n)`, at least one: the last places of a batch may lie beyond the data."""
    differences = as_float64(differences)
    weights = 0.0 * differences + (1.0 if inside is None else as_float64(inside))
    count = sum_over(weights, -1)
    mean = sum_over(weights * differences, -1) / count
    squares = sum_over(weights * (differences - mean) ** 2, -1)
    return DifferenceMoments(count[..., 0], mean[..., 0], squares[..., 0])


def merged(first: DifferenceMoments, second: DifferenceMoments) -> DifferenceMoments:
    """Of two parts of a batch together, without the lost digits of sums of squares (Chan, Golub and LeVeque 1983)."""
    count = first.count + second.count
    step = second.mean - first.mean
    mean = first.mean + step * (second.count / count)
    return DifferenceMoments(
        count, mean, first.squares + second.squares + step**2 * (first.count * second.count / count)
    )


def estimate_variance(found: DifferenceMoments, factor, num_examples):
    """V = f² s² / n (1 - n/N), the variance of f mean(a), with the sample variance s² = squares / (n - 1).

    It is 0 where n = N, and takes at least 2 differences, or all; f is a number or, as V, `(pairs,)`.
    """
    sample = found.squares / maximum(found.count - 1.0, as_float64(1.0))
    left = maximum(1.0 - found.count / num_examples, as_float64(0.0))
    return as_float64(factor) ** 2 * sample / found.count * left


def sample_size(target_variance, factor, num_examples, example_variance):
    """How many examples bring V down to σ*²: n = N / (1 + N σ*² / (f² v)).

    Not rounded: take the next whole number; N where v is so large that nothing less will do, 0 where v = 0.

    Args:
        target_variance: σ*².
        factor: f.
        num_examples: N.
        example_variance: v, variance of the differences of single examples.

    Examples:
        >>> float(sample_size(0.2, (1 - 1 / 1.2) * 50_000, 50_000, 0.01)).__round__(1)
        49290.2
    """
    needed = as_float64(factor) ** 2 * example_variance
    return num_examples * needed / (needed + num_examples * as_float64(target_variance))
