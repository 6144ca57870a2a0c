"""Log Metropolis ratio of a swap of two replicas, exact or estimated on a mini-batch.

Rung r samples exp(-u_r) with u_r = β_r (λ_r L + V). Replica i at rung a and replica j at rung b
swap by

    D = u_a(θ_i) + u_b(θ_j) - u_a(θ_j) - u_b(θ_i) = (β_a λ_a - β_b λ_b) (L_i - L_j) + (β_a - β_b)
    (V_i - V_j).

On a mini-batch L_i - L_j is estimated from paired differences a, the same n of N examples for both
replicas, drawn without replacement, whose variance is far below that of either loss:

    D = f mean(a) + exact parts,   V = f² var(a) / n (1 - n/N),   f = (β_a λ_a - β_b λ_b) N

(without the N where U is a mean loss). Moments and variances take numpy or TensorFlow.

Arrays have the independent ladders first: `(ladders, rungs)`, and `(ladders, pairs)` for pairs of
rungs.
"""

from typing import Any, NamedTuple

from tati_re.core.backend import tf
from tati_re.core.front_door import front_door
from tati_re.core.ops import as_float64, maximum, sum_over
from tati_re.exchange.schedule import Pairs
from tati_re.exchange.subsets import permuted
from tati_re.exchange.swap_rules import LARGE_COUNT
from tati_re.exchange.well_tempered import Bias, noise_factors
from tati_re.exchange.well_tempered import log_ratio as biased_log_ratio


class DifferenceMoments(NamedTuple):
    """n, mean, and sum of squared deviations from it of the paired differences so far, `(pairs,)`
    each, float64.
    """

    count: Any
    mean: Any
    squares: Any


def moments(differences, inside=None) -> DifferenceMoments:
    """Count, mean and squared deviations of differences `(pairs, n)`, or of those `inside`, bool,
    `(n,)` or `(pairs, n)`, at least one: the last places of a batch may lie beyond the data.
    """
    differences = as_float64(differences)
    weights = 0.0 * differences + (1.0 if inside is None else as_float64(inside))
    count = sum_over(weights, -1)
    mean = sum_over(weights * differences, -1) / count
    return DifferenceMoments(
        count[..., 0], mean[..., 0], sum_over(weights * (differences - mean) ** 2, -1)[..., 0]
    )


def merged(first: DifferenceMoments, second: DifferenceMoments) -> DifferenceMoments:
    """Of two parts of a batch together, without the lost digits of sums of squares (Chan, Golub and
    LeVeque 1983).
    """
    count = first.count + second.count
    step = second.mean - first.mean
    mean = first.mean + step * (second.count / count)
    squares = first.squares + second.squares + step**2 * (first.count * second.count / count)
    return DifferenceMoments(count, mean, squares)


def estimate_variance(moments: DifferenceMoments, factor, num_examples):
    """V = f² s² / n (1 - n/N), the variance of f mean(a), with the sample variance s² = squares /
    (n - 1). It is 0 where n = N, and takes at least 2 differences, or all; f is a number or, as V,
    `(pairs,)`.
    """
    sample = moments.squares / maximum(moments.count - 1.0, as_float64(1.0))
    return (
        as_float64(factor) ** 2
        * sample
        / moments.count
        * maximum(1.0 - moments.count / num_examples, as_float64(0.0))
    )


@front_door
def sample_size(target_variance, factor, num_examples, example_variance):
    """Returns the number of examples that reduce V to σ*²: n = N / (1 + N σ*² / (f² v)).

    It is not rounded; use the next integer. It is N if v is so large that no smaller number
    suffices, and 0 for v = 0.

    Args:
        target_variance: σ*², the wanted variance.
        factor: f, the factor of the mean difference.
        num_examples: N, the number of all examples.
        example_variance: v, the variance of the differences of single examples.

    Returns:
        The number of examples, from 0 to N.

    Examples:
        >>> float(sample_size(0.2, (1 - 1 / 1.2) * 50_000, 50_000, 0.01)).__round__(1)
        49290.2
    """
    needed = as_float64(factor) ** 2 * example_variance
    return num_examples * needed / (needed + num_examples * as_float64(target_variance))


class RungTargets(NamedTuple):
    """The target of each rung: β, `inverse_temperature`, and λ, `likelihood_weight`; `(rungs,)`,
    float64.
    """

    inverse_temperature: Any
    likelihood_weight: Any


class LogRatioEstimate(NamedTuple):
    """ln of the Metropolis ratio of each swap, D or an estimate; `(ladders, pairs)`, float64.
    `variance` is that of the estimate's noise, 0 where D is exact; `count`, the examples that it
    was estimated from, is then very large. `used` is the number of examples that L was estimated
    from. `example_variance` is that of N (l_i - l_j), the difference of the losses of one example;
    `None` where D is exact.
    """

    log_ratio: Any
    variance: Any
    count: Any
    used: Any
    example_variance: Any = None


def gap(pairs: Pairs, values):
    """Colder rung's value less the hotter one's, by pair: `(ladders, rungs, ...)` to `(ladders,
    pairs, ...)`.
    """
    return tf.gather(values, pairs.low, batch_dims=1) - tf.gather(values, pairs.high, batch_dims=1)


def coefficients(table: RungTargets, pairs: Pairs):
    """Coefficients of L_i - L_j and V_i - V_j in D, `(ladders, pairs)` each."""
    beta, weight = table

    def between(values):
        return tf.gather(values, pairs.low) - tf.gather(values, pairs.high)

    return between(beta * weight), between(beta)


def exact_difference(
    table: RungTargets, pairs: Pairs, loss, penalty, num_examples: int
) -> LogRatioEstimate:
    on_loss, on_penalty = coefficients(table, pairs)
    log_ratio = on_loss * gap(pairs, loss) + on_penalty * gap(pairs, penalty)
    zeros = tf.zeros_like(log_ratio)
    return LogRatioEstimate(
        log_ratio, zeros, zeros + LARGE_COUNT, tf.constant(float(num_examples), tf.float64)
    )


def estimated_difference(
    table: RungTargets,
    pairs: Pairs,
    evaluate,
    position,
    at_rung,
    penalty,
    keys,
    batch_size: int,
    target_variance: float | None = None,
    centre=None,
    centre_loss=None,
    bias: Bias | None = None,
) -> LogRatioEstimate:
    """D estimated on examples drawn without replacement, the same for both replicas of a pair,
    others for each pair.

    The variance is that of the mean over n of N examples, (N s)² (1 - n/N) / n with s the standard
    deviation of the paired differences of single examples. One batch is drawn, of `batch_size`, 2
    or more; with a `target_variance` as many as bring the variance of every pair below it, and all
    examples at most. The uniform numbers `keys`, `(ladders, pairs, n)`, choose them. Pairs that
    share examples would share their noise: each swap by itself is right then, all of a round
    together are not.

    `at_rung` is the walker at each rung, int32, `penalty` V of it; `(ladders, rungs)` each. As
    control variates serve the positions `centre`, `(walkers, parameters)`, and the mean loss over
    all data there, `centre_loss`, `(walkers,)`.

    Under a `bias` D is no longer linear in the energies, and the paired differences are f l_i - g
    l_j with the `noise_factors` at the first batch's energies: right to first order in their
    noise.
    """
    count = evaluate.num_examples
    on_loss, on_penalty = coefficients(table, pairs)
    factor = on_loss * evaluate.scale

    pair_of_walker = _pair_of_walker(pairs, at_rung)
    slopes: list | None = None

    def sides(values):
        return [tf.gather(values, part, batch_dims=1) for part in (pairs.low, pairs.high)]

    def drawn(number):
        numbers = number * batch_size + tf.range(batch_size)
        indices = tf.gather(
            tf.reshape(permuted(tf.minimum(numbers, count - 1), keys, count), (-1, batch_size)),
            pair_of_walker,
        )
        losses = evaluate.examples(position, indices)
        if centre is not None:
            losses = losses - evaluate.examples(centre, indices)
        return tf.gather(losses, at_rung), numbers < count

    def grown(losses, inside) -> DifferenceMoments:
        if slopes is None:
            return moments(gap(pairs, losses), inside)
        low, high = sides(losses)
        return moments(tf.stack([slopes[0] * low - slopes[1] * high, low, high]), inside)

    def paired(seen: DifferenceMoments) -> DifferenceMoments:
        return seen if slopes is None else DifferenceMoments(*(values[0] for values in seen))

    def variance(seen: DifferenceMoments):
        # A pair that is none must not ask for more examples.
        return tf.where(pairs.valid, estimate_variance(seen, factor, count), 0.0)

    first = drawn(tf.constant(0))
    if bias is not None:
        known = (
            penalty
            if centre_loss is None
            else penalty + evaluate.scale * tf.gather(centre_loss, at_rung)
        )
        known = tf.stack(sides(known))
        factor = tf.fill(tf.shape(factor), tf.constant(evaluate.scale, tf.float64))
        low, high = tf.unstack(
            known + evaluate.scale * moments(tf.stack(sides(first[0])), first[1]).mean
        )
        both = noise_factors(bias, table.inverse_temperature, low, high, pairs.low, pairs.high)
        slopes = [values[..., None] for values in both]
    seen = grown(*first)
    if target_variance is not None and batch_size < count:
        # How many are needed is settled by the first batch: to stop at the first variance that
        # looks small enough would prefer those that are estimated too small.
        begun = paired(seen)
        spread = begun.squares / tf.maximum(begun.count - 1.0, 1.0)
        needed_by_pair = sample_size(
            target_variance, tf.where(pairs.valid, factor, 0.0), count, spread
        )
        needed = tf.cast(tf.reduce_max(needed_by_pair), tf.int32)

        def wanting(number, *values):
            above = tf.reduce_any(variance(paired(DifferenceMoments(*values))) > target_variance)
            return tf.logical_and(
                tf.logical_or(above, number * batch_size < needed), number * batch_size < count
            )

        def more(number, *values):
            return number + 1, *merged(DifferenceMoments(*values), grown(*drawn(number)))

        seen = DifferenceMoments(*tf.while_loop(wanting, more, (tf.constant(1), *seen))[1:])
    total = paired(seen)
    used = tf.reduce_max(total.count)
    if bias is not None:
        low, high = tf.unstack(known + evaluate.scale * seen.mean[1:])
        ratio = biased_log_ratio(bias, table.inverse_temperature, low, high, pairs.low, pairs.high)
        return LogRatioEstimate(ratio, variance(total), total.count, used)
    mean = seen.mean
    if centre_loss is not None:
        mean = mean + gap(pairs, tf.gather(centre_loss, at_rung))
    log_ratio = factor * mean + on_penalty * gap(pairs, penalty)
    by_example = evaluate.scale**2 * seen.squares / tf.maximum(seen.count - 1.0, 1.0)
    return LogRatioEstimate(
        log_ratio=log_ratio,
        variance=variance(seen),
        count=seen.count,
        used=used,
        example_variance=by_example,
    )


def _pair_of_walker(pairs: Pairs, at_rung):
    """The pair of each walker, counted ladder by ladder, `(walkers,)`, int32; of one that sits out
    the first.
    """
    num_ladders, num_pairs = pairs.low.shape
    rungs = tf.range(at_rung.shape[1])
    number = tf.range(num_pairs)
    member = tf.logical_or(pairs.low[..., None] == rungs, pairs.high[..., None] == rungs)
    member = tf.logical_and(member, pairs.valid[..., None])
    place = (
        tf.reduce_sum(tf.where(member, number[:, None], 0), axis=1)
        + num_pairs * tf.range(num_ladders)[:, None]
    )
    return tf.scatter_nd(
        tf.reshape(at_rung, (-1, 1)),
        tf.reshape(place, [-1]),
        (at_rung.shape[0] * at_rung.shape[1],),
    )
