"""Variance of the gradients of single examples, from one mini-batch."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.models.chain import DenseChain
from tati_re.posterior.losses import Loss, WeightedLoss


class Spread(NamedTuple):
    """Mean loss of a mini-batch, its gradient, and the variances of gradients of single examples.

    Attributes:
        loss: Mean loss, (walkers,), float64.
        slopes: Gradient of the mean loss, (walkers, *shape) for each variable.
        variances: Variances over the examples of the gradient of one example's loss, with n - 1
            below the sum, (walkers, *shape) for each variable.
    """

    loss: Any
    slopes: list
    variances: list


def refuse_single_examples(batches, num_examples: int) -> None:
    """Refuses batches of one example, whose gradients have no variance.

    Args:
        batches: The mini-batches of the run.
        num_examples: Examples of the training set, N.

    Raises:
        InputError: Batches, the last one of an epoch included, may have only one example, or have
            fewer than two on average.
    """
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
    """Loss, gradient and variance in one pass.

    For a dense layer with inputs a and slopes δ, one row an example, the gradients sum to a'δ.
    Their squares sum to (a²)'(δ²). Where the mean of a gradient is 1/ε times its deviation,
    rounding counts 1/ε² times.

    Args:
        chain: The model as a chain of layers.
        loss: The loss, or the loss with weights of the examples.
        weights: All trainable variables, (walkers, *shape) each.
        auxiliary: All other variables, (*shape) each, the same for these walkers.
        x: Inputs of the model: (n, ...) where all walkers share them, else (walkers, n, ...).
        y: Labels in the form of `x`.
        shared: Whether all walkers share the examples.
        counted: 1 for each example of the batch, 0 for those that fill up a short one, (n,),
            float64.
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
    """Variance over the examples of a mini-batch of any gradient, (parameters,).

    It has n - 1 below the sum, and is computed piece by piece (Chan, Golub and LeVeque 1983).

    Args:
        gradients: Function from indices, (k,), k at most `at_once`, to the gradient of each
            example, (k, parameters).
        theta: Any vector of the shape, (parameters,), and the type of the result.
        indices: Indices of the examples, (n,).
        size: How many of the indices, the first ones, count; an int32 scalar.
        at_once: Greatest number of gradients in memory at once. Default: 32.
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
