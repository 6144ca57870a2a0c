"""Variance of the gradients of single examples, from one mini-batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.models.chain import DenseChain
from tati_re.posterior.losses import Loss, WeightedLoss


class Spread(NamedTuple):
    """Mean loss of a mini-batch, `(walkers,)`, float64, its gradient `slopes`, `(walkers, *shape)`
    for each variable, and, likewise, `variances` over the examples of the gradient of one example's
    loss, n - 1 below the sum.
    """

    loss: Any
    slopes: list
    variances: list


def refuse_single_examples(batches, num_examples: int) -> None:
    size = batches.batch_size
    sampling = batches.sampling
    single = sampling == "epochs" and num_examples % size == 1
    if size == 1 or single or (sampling == "symmetric" and batches.mean_size < 2):
        raise InputError(
            "batch_size: this sampler needs the variance of the gradient, which a batch "
            "of one example does not give.",
            received=f"{size} of {num_examples} examples",
            expected="at least two examples in each batch of an epoch",
        )


def spread_in_chain(
    chain: DenseChain,
    loss: Loss | WeightedLoss,
    weights: Sequence,
    auxiliary: Sequence,
    x,
    y,
    shared: bool,
    counted,
) -> Spread:
    """Loss, gradient and variance in one pass: of each dense layer with inputs a and slopes δ, one
    row an example, the gradients sum to a'δ and their squares to (a²)'(δ²). Where the mean of a
    gradient is 1/ε times its deviation, rounding counts 1/ε² times. The arguments are those of
    `DenseChain.call`; `y` has the form of `x`, and `counted` is 1 for each example that is meant, 0
    for those that fill up a short batch, `(n,)`, float64.
    """
    walkers = weights[0].shape[0]
    n = counted.shape[0]
    labels = tf.repeat(y[None], walkers, axis=0) if shared else y
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        outputs, passes = chain.call(weights, auxiliary, x, shared, tape.watch)
        losses = loss.per_example(tf.reshape(labels, (walkers * n, *labels.shape[2:])), outputs)
        losses = tf.reshape(tf.cast(losses, tf.float64), (walkers, n)) * counted
        total = tf.reduce_sum(losses)
    deltas = tape.gradient(total, [layer.linear for layer in passes], unconnected_gradients="zero")
    size = tf.reduce_sum(counted)
    slopes = list(weights)
    variances = list(weights)
    for layer, delta in zip(passes, deltas, strict=True):
        over_examples = "ni,wno->wio" if layer.inputs.shape.rank == 2 else "wni,wno->wio"
        sums = tf.einsum(over_examples, layer.inputs, delta)
        squares = tf.einsum(over_examples, tf.square(layer.inputs), tf.square(delta))
        slopes[layer.kernel], variances[layer.kernel] = _moments(sums, squares, size)
        if layer.bias is not None:
            sums = tf.reduce_sum(delta, 1)
            squares = tf.reduce_sum(tf.square(delta), 1)
            slopes[layer.bias], variances[layer.bias] = _moments(sums, squares, size)
    return Spread(tf.reduce_sum(losses, 1) / size, slopes, variances)


def _moments(sums, squares, size):
    """Mean and variance of `size` numbers from their sum and the sum of their squares."""
    size = tf.cast(size, sums.dtype)
    mean = sums / size
    return mean, tf.maximum(squares - sums * mean, 0) / (size - 1)


def variance_of_gradients(gradients: Callable, theta, indices, size, at_once: int = 32):
    """Variance over the examples of a mini-batch of any gradient, piece by piece (Chan, Golub and
    LeVeque 1983). `gradients` takes indices `(k,)`, k at most `at_once`, to the gradient of each
    example, `(k, parameters)`. Of `theta`, `(parameters,)`, only shape and type count; of the
    `indices`, `(n,)`, as many as `size`, an int32 scalar, are meant. The result is `(parameters,)`,
    n - 1 below the sum.
    """
    capacity = indices.shape[0]
    piece = min(at_once, capacity)

    def body(start, count, mean, m2):
        numbers = start + tf.range(piece)
        slopes = gradients(tf.gather(indices, tf.minimum(numbers, capacity - 1)))
        counts = tf.cast(numbers < size, theta.dtype)
        new = tf.reduce_sum(counts)
        middle = tf.reduce_sum(counts[:, None] / tf.maximum(new, 1.0) * slopes, 0)
        spread = tf.reduce_sum(counts[:, None] * tf.square(slopes - middle), 0)
        total = tf.maximum(count + new, 1.0)
        gap = middle - mean
        return (
            start + piece,
            count + new,
            mean + gap * new / total,
            m2 + spread + gap * gap * count * new / total,
        )

    zeros = tf.zeros_like(theta)
    begin = (tf.constant(0), tf.zeros((), theta.dtype), zeros, zeros)
    _, count, _, m2 = tf.while_loop(lambda start, *_: start < capacity, body, begin)
    return m2 / tf.maximum(count - 1.0, 1.0)
