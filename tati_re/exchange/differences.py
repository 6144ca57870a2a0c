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
    """Count, mean and squared deviations of differences.

    Args:
        differences: Paired differences, shape (pairs, n).
        inside: Which of them count, bool, shape (n,) or (pairs, n), at least one. The last places
            of a batch may lie beyond the data. Default: None, all.
    """
    differences = as_float64(differences)
    weights = 0.0 * differences + (1.0 if inside is None else as_float64(inside))
    count = sum_over(weights, -1)
    mean = sum_over(weights * differences, -1) / count
    return DifferenceMoments(
        count[..., 0], mean[..., 0], sum_over(weights * (differences - mean) ** 2, -1)[..., 0]
    )


def merged(first: DifferenceMoments, second: DifferenceMoments) -> DifferenceMoments:
    """The moments of two parts of a batch together (Chan, Golub and LeVeque 1983).

    No digits are lost, as they are in sums of squares.

    Args:
        first: Moments of one part.
        second: Moments of the other part.
    """
    count = first.count + second.count
    step = second.mean - first.mean
    mean = first.mean + step * (second.count / count)
    squares = first.squares + second.squares + step**2 * (first.count * second.count / count)
    return DifferenceMoments(count, mean, squares)


def estimate_variance(moments: DifferenceMoments, factor, num_examples):
    """V = f² s² / n (1 - n/N), the variance of f mean(a); 0 where n = N.

    s² = squares / (n - 1) is the sample variance.

    Args:
        moments: Moments of at least 2 differences, or of all.
        factor: f, a number or shape (pairs,).
        num_examples: N.

    Returns:
        V, shape (pairs,).
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
    """The colder rung's value less the hotter one's, by pair, shape (ladders, pairs, ...).

    Args:
        pairs: The pairs of rungs.
        values: A value at each rung, shape (ladders, rungs, ...).
    """
    return tf.gather(values, pairs.low, batch_dims=1) - tf.gather(values, pairs.high, batch_dims=1)


def coefficients(table: RungTargets, pairs: Pairs):
    """Coefficients of L_i - L_j and of V_i - V_j in D, in the shape of the pairs each.

    Args:
        table: The target of each rung.
        pairs: The pairs of rungs.
    """
    beta, weight = table

    def between(values):
        return tf.gather(values, pairs.low) - tf.gather(values, pairs.high)

    return between(beta * weight), between(beta)


def exact_difference(
    table: RungTargets, pairs: Pairs, loss, penalty, num_examples: int
) -> LogRatioEstimate:
    """D from exact energies, without noise.

    Args:
        table: The target of each rung.
        pairs: The pairs of rungs.
        loss: L of the walker at each rung, shape (ladders, rungs), float64.
        penalty: V of it, in the same shape.
        num_examples: Number of examples behind L.
    """
    on_loss, on_penalty = coefficients(table, pairs)
    log_ratio = on_loss * gap(pairs, loss) + on_penalty * gap(pairs, penalty)
    zeros = tf.zeros_like(log_ratio)
    return LogRatioEstimate(
        log_ratio, zeros, zeros + LARGE_COUNT, tf.constant(float(num_examples), tf.float64)
    )


def estimated_difference(
    table: RungTargets,
    pairs: Pairs,
    evaluate: Any,
    position: Any,
    at_rung: Any,
    penalty: Any,
    keys: Any,
    batch_size: int,
    target_variance: float | None = None,
    centre: Any = None,
    centre_loss: Any = None,
    bias: Bias | None = None,
) -> LogRatioEstimate:
    """D estimated on examples drawn without replacement, the same for both replicas of a pair,
    others for each pair.

    The variance is that of the mean over n of N examples, (N s)² (1 - n/N) / n with s the standard
    deviation of the paired differences of single examples. Pairs that share examples would share
    their noise: each swap by itself is right then, all of a round together are not.

    Under a `bias` D is no longer linear in the energies, and the paired differences are f l_i - g
    l_j with the `noise_factors` at the first batch's energies: right to first order in their
    noise.

    Args:
        table: The target of each rung.
        pairs: The pairs of rungs.
        evaluate: Losses of examples at positions.
        position: Positions of the walkers, shape (walkers, parameters).
        at_rung: The walker at each rung, int32, shape (ladders, rungs).
        penalty: V of it, shape (ladders, rungs).
        keys: Uniform numbers that choose the examples, shape (ladders, pairs, n).
        batch_size: Examples of a batch, 2 or more.
        target_variance: As many batches are drawn as bring the variance of every pair below it, and
            all examples at most. Default: None, one batch.
        centre: Positions that serve as control variates, shape (walkers, parameters). Default: None.
        centre_loss: The mean loss over all data there, shape (walkers,). Default: None.
        bias: The bias of each rung. Default: None.
    """
    batches = _Batches(evaluate, pairs, position, at_rung, keys, batch_size, centre)
    if bias is None:
        known = None if centre_loss is None else tf.gather(centre_loss, at_rung)
        estimate: _Differences = _Differences(table, pairs, batches, penalty, known)
    else:
        known = penalty
        if centre_loss is not None:
            known = penalty + evaluate.scale * tf.gather(centre_loss, at_rung)
        estimate = _BiasedDifferences(table, pairs, batches, known, bias)
    return estimate.log_ratio(estimate.sampled(target_variance))


class _Batches:
    """Losses of examples that are drawn without replacement, the same for both of a pair.

    See `estimated_difference` for the arguments.
    """

    def __init__(
        self,
        evaluate: Any,
        pairs: Pairs,
        position: Any,
        at_rung: Any,
        keys: Any,
        batch_size: int,
        centre: Any,
    ) -> None:
        self.size = batch_size
        self.count = evaluate.num_examples
        self.scale = evaluate.scale
        self._evaluate = evaluate
        self._position = position
        self._at_rung = at_rung
        self._keys = keys
        self._centre = centre
        self._pair_of_walker = _pair_of_walker(pairs, at_rung)

    def drawn(self, number: Any) -> tuple[Any, Any]:
        """Losses of a batch at each rung, (ladders, rungs, n), and which places have an example.

        Args:
            number: Of the batch, from 0.
        """
        numbers = number * self.size + tf.range(self.size)
        examples = permuted(tf.minimum(numbers, self.count - 1), self._keys, self.count)
        indices = tf.gather(tf.reshape(examples, (-1, self.size)), self._pair_of_walker)
        losses = self._evaluate.examples(self._position, indices)
        if self._centre is not None:
            losses = losses - self._evaluate.examples(self._centre, indices)
        return tf.gather(losses, self._at_rung), numbers < self.count


class _Differences:
    """D of all pairs from paired differences of examples; D is linear in the energies.

    Args:
        table: The target of each rung.
        pairs: The pairs of rungs.
        batches: Losses of examples.
        penalty: V at each rung, shape (ladders, rungs).
        centre_loss: The mean loss over all data where the control variates are, at each rung; None
            without them.
    """

    def __init__(
        self,
        table: RungTargets,
        pairs: Pairs,
        batches: _Batches,
        penalty: Any,
        centre_loss: Any = None,
    ) -> None:
        self.pairs = pairs
        self.batches = batches
        self._penalty = penalty
        self._centre_loss = centre_loss
        on_loss, self._on_penalty = coefficients(table, pairs)
        self.factor = on_loss * batches.scale

    def sampled(self, target_variance: float | None) -> DifferenceMoments:
        """Moments of one batch, or of as many as bring the variance below the target."""
        first = self.batches.drawn(tf.constant(0))
        self.begin(*first)
        begun = self.grown(*first)
        if target_variance is None or self.batches.size >= self.batches.count:
            return begun
        return self._continued(begun, target_variance)

    def begin(self, losses: Any, inside: Any) -> None:
        """What the first batch settles: nothing where D is linear."""

    def grown(self, losses: Any, inside: Any) -> DifferenceMoments:
        """The moments of a batch."""
        return moments(gap(self.pairs, losses), inside)

    def paired(self, seen: DifferenceMoments) -> DifferenceMoments:
        """The moments of the differences, among all that are followed."""
        return seen

    def variance(self, seen: DifferenceMoments) -> Any:
        """The variance of D. A pair that is none must not ask for more examples."""
        variance = estimate_variance(self.paired(seen), self.factor, self.batches.count)
        return tf.where(self.pairs.valid, variance, 0.0)

    def _continued(self, begun: DifferenceMoments, target_variance: float) -> DifferenceMoments:
        """Moments of as many batches as bring the variance of every pair below the target.

        How many are needed is settled by the first batch: to stop at the first variance that looks
        small enough would prefer those that are estimated too small.
        """
        size = self.batches.size
        count = self.batches.count
        differences = self.paired(begun)
        spread = differences.squares / tf.maximum(differences.count - 1.0, 1.0)
        factor = tf.where(self.pairs.valid, self.factor, 0.0)
        needed_by_pair = sample_size(target_variance, factor, count, spread)
        needed = tf.cast(tf.reduce_max(needed_by_pair), tf.int32)

        def wanting(number: Any, *values: Any) -> Any:
            above = tf.reduce_any(self.variance(DifferenceMoments(*values)) > target_variance)
            is_short = tf.logical_or(above, number * size < needed)
            return tf.logical_and(is_short, number * size < count)

        def more(number: Any, *values: Any) -> tuple:
            batch = self.grown(*self.batches.drawn(number))
            return number + 1, *merged(DifferenceMoments(*values), batch)

        return DifferenceMoments(*tf.while_loop(wanting, more, (tf.constant(1), *begun))[1:])

    def log_ratio(self, seen: DifferenceMoments) -> LogRatioEstimate:
        """The estimate from moments of all batches."""
        mean = seen.mean
        if self._centre_loss is not None:
            mean = mean + gap(self.pairs, self._centre_loss)
        spread = seen.squares / tf.maximum(seen.count - 1.0, 1.0)
        return LogRatioEstimate(
            log_ratio=self.factor * mean + self._on_penalty * gap(self.pairs, self._penalty),
            variance=self.variance(seen),
            count=seen.count,
            used=tf.reduce_max(seen.count),
            example_variance=self.batches.scale**2 * spread,
        )


class _BiasedDifferences(_Differences):
    """D under a bias, from the energies of both replicas and their differences.

    Args:
        table: The target of each rung.
        pairs: The pairs of rungs.
        batches: Losses of examples.
        known: The part of the energy at each rung that needs no examples, shape (ladders, rungs).
        bias: The bias of each rung.
    """

    def __init__(
        self, table: RungTargets, pairs: Pairs, batches: _Batches, known: Any, bias: Bias
    ) -> None:
        super().__init__(table, pairs, batches, known)
        self._bias = bias
        self._beta = table.inverse_temperature
        self._known = tf.stack(self._sides(known))
        self._slopes: list[Any] = []
        scale = tf.constant(batches.scale, tf.float64)
        self.factor = tf.fill(tf.shape(self.factor), scale)

    def _sides(self, values: Any) -> list[Any]:
        """Values of the colder and of the hotter rung of each pair."""
        return [tf.gather(values, part, batch_dims=1) for part in (self.pairs.low, self.pairs.high)]

    def _energies(self, mean: Any) -> Any:
        """Energies of both sides with these mean losses."""
        return tf.unstack(self._known + self.batches.scale * mean)

    def begin(self, losses: Any, inside: Any) -> None:
        """Settles by how much the noise of either energy counts."""
        low, high = self._energies(moments(tf.stack(self._sides(losses)), inside).mean)
        both = noise_factors(self._bias, self._beta, low, high, self.pairs.low, self.pairs.high)
        self._slopes = [values[..., None] for values in both]

    def grown(self, losses: Any, inside: Any) -> DifferenceMoments:
        low, high = self._sides(losses)
        difference = self._slopes[0] * low - self._slopes[1] * high
        return moments(tf.stack([difference, low, high]), inside)

    def paired(self, seen: DifferenceMoments) -> DifferenceMoments:
        return DifferenceMoments(*(values[0] for values in seen))

    def log_ratio(self, seen: DifferenceMoments) -> LogRatioEstimate:
        total = self.paired(seen)
        low, high = self._energies(seen.mean[1:])
        ratio = biased_log_ratio(self._bias, self._beta, low, high, self.pairs.low, self.pairs.high)
        used = tf.reduce_max(total.count)
        return LogRatioEstimate(ratio, self.variance(seen), total.count, used)


def _pair_of_walker(pairs: Pairs, at_rung: Any) -> Any:
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
