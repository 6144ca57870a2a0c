"""How the loss of several walkers is evaluated: vectorized, as unrolled copies, or in a loop; alike
up to rounding.
"""

from collections.abc import Callable

from tati_re.core.backend import on_gpu, tf

MANY_WALKERS = 16
_COSTLY_FROM = 4
"""Walkers from which on XLA takes longer to compile their copies than a loop costs. 8 walkers of
8-16-16-2 on 824 rows take 6 seconds more; a step takes 2.86 ms, 3.01 in a loop.
"""


def choose(
    requested: str,
    vectorizable: bool,
    num_walkers: int,
    shared: bool,
    training: bool,
    moves_data: bool = False,
    large: bool = False,
    wide: bool = False,
    recurrent: bool = False,
    costly_copies: bool = False,
) -> str:
    """The walker evaluation of a run: "vectorized", "unrolled" or "looped".

    "auto" is decided here. It is vectorized, one product for all walkers, where the layers allow
    it. But on CPUs that was measured as slower for `wide` shared inputs, and for `large` own
    batches, which are looped instead. All else is unrolled up to 16 walkers (2 on a GPU, and for
    recurrent layers) and looped beyond. Wide inputs are looped from 4 walkers on if each copy takes
    long to compile (`costly_copies`).

    Args:
        requested: Option of the run: "auto" or one of the three.
        vectorizable: Whether the layers can be vectorized.
        num_walkers: Number of walkers.
        shared: Whether all walkers share the examples.
        training: Whether layers act as in training. That is never vectorized, because this form
            does not carry the auxiliary variables that training updates.
        moves_data: Whether the batch of one walker is much larger than its parameters, under XLA.
            One walker is then looped, which keeps XLA from converting images inside of the product
            (784-10, batch 550: 0.6 ms, unrolled 0.7). Default: False.
        large: Whether the own batches of all walkers are too large to share the cache, under XLA.
            Default: False.
        wide: Whether one product for all walkers is slower than one each. Default: False.
        recurrent: Whether the model has recurrent layers. Default: False.
        costly_copies: Whether XLA compiles a copy of hidden layers for each walker. Default: False.
    """
    # There each copy is compiled under XLA: 4 of a ResNet-20 took 124 s on a processor, one or a
    # loop 45.
    many = num_walkers > (2 if on_gpu() or recurrent else MANY_WALKERS)
    if training:
        default = "looped" if many and on_gpu() else "unrolled"
        return default if requested in ("auto", "vectorized") else requested
    if requested != "auto":
        return requested
    if num_walkers == 1:
        return "looped" if vectorizable and moves_data else "unrolled"
    if vectorizable and (on_gpu() or not (wide if shared else large)):
        return "vectorized"
    costly = costly_copies and num_walkers >= _COSTLY_FROM
    looped = many or (vectorizable and (not shared or costly))
    return "looped" if looped else "unrolled"


def loss_and_gradient(
    how: str,
    total: Callable,
    weights: list,
    auxiliary: tuple,
    x,
    y,
    shared: bool,
    shape: tuple[int, ...] = (),
):
    """Summed loss of every walker, its gradient and the new auxiliary variables.

    Args:
        how: Walker evaluation: "vectorized", "unrolled" or "looped".
        total: Function of the weights of one walker, its auxiliary variables, x and y. It returns
            the sum of the losses, float64, and the new auxiliary variables.
        weights: Weights of all walkers, (walkers, *shape) each.
        auxiliary: Keras' non-trainable variables, (walkers, *shape) each.
        x: Inputs: (n, ...) where all walkers share a mini-batch, else (walkers, n, ...).
        y: Labels in the form of `x`.
        shared: Whether all walkers share the mini-batch.
        shape: Shape of the sum of one walker. With numbers that have no gradient in addition to the
            loss it is (2,) or longer. Default: (), the loss alone.

    Returns:
        Sums, (walkers, *shape), float64; the flat gradient, (walkers, entries); and the new
        auxiliary variables, which are the old ones in the vectorized form.
    """
    walkers = weights[0].shape[0]
    if how == "vectorized":
        with tf.GradientTape() as tape:
            tape.watch(weights)
            losses = map_walkers(
                "vectorized", lambda *walker: total(*walker)[0], weights, auxiliary, x, y, shared
            )
        slopes = tape.gradient(losses, weights, unconnected_gradients="zero")
        return (
            losses,
            tf.concat([tf.reshape(dense(slope), (walkers, -1)) for slope in slopes], 1),
            auxiliary,
        )

    def walker_gradient(values, extra, inputs, labels):
        with tf.GradientTape() as tape:
            tape.watch(values)
            loss, new = total(values, extra, inputs, labels)
        slopes = tape.gradient(loss, values, unconnected_gradients="zero")
        return loss, [tf.reshape(dense(slope), [-1]) for slope in slopes], tuple(new)

    if how == "unrolled":
        results = [
            walker_gradient(*walker_arguments)
            for walker_arguments in _walker_arguments(weights, auxiliary, x, y, shared)
        ]
        # One concatenation of all pieces: XLA copies it piece by piece, where nested ones are
        # computed entry by entry.
        pieces = [piece for _, slopes, _ in results for piece in slopes]
        gradient = tf.reshape(tf.concat(pieces, 0), (walkers, -1))
        new = tuple(tf.stack([result[2][k] for result in results]) for k in range(len(auxiliary)))
        return tf.stack([loss for loss, _, _ in results]), gradient, new

    # Piece by piece: what XLA joins inside of the loop it reads through masks, also where no memory
    # is.
    pieces = [tf.TensorSpec((w.shape[1:].num_elements(),), w.dtype) for w in weights]
    extra = tuple(tf.TensorSpec(a.shape[1:], a.dtype) for a in auxiliary)
    signature = tf.TensorSpec(shape, tf.float64), pieces, extra
    losses, slopes, new = map_walkers(
        "looped", walker_gradient, weights, auxiliary, x, y, shared, signature
    )
    return losses, tf.concat(slopes, 1), new


def once(function: Callable, position, *others, shape: tuple[int, ...] | None = None):
    """Losses and gradients by a function that runs inside a loop of one round.

    A vectorized map reshapes by shapes that TensorFlow looks for in all that its inputs depend on.
    It takes the step's random bits and mini-batches for constants of the compilation, and XLA would
    compile every chunk again. The search ends at loop variables that change; XLA then removes the
    loop.

    Args:
        function: Function of `position` and `others`. It returns losses, (walkers,), and a gradient
            in the shape of `position`.
        position: Positions, (walkers, parameters).
        *others: Further tensors that the function takes.
        shape: Shape of the losses. Default: None, (walkers,).

    Returns:
        Losses, float64, and the gradient.
    """

    def body(i, _, position, *others):
        losses, gradient = function(position, *others)
        losses = tf.ensure_shape(losses, start[1].shape)
        gradient = tf.ensure_shape(gradient, position.shape)
        return i + 1, losses, gradient, *(tf.zeros_like(other) for other in others)

    start = (tf.constant(0), tf.zeros(shape or position.shape[:1], tf.float64), position, *others)
    _, losses, gradient, *_ = tf.while_loop(lambda i, *_: i < 1, body, start)
    return losses, gradient


def _walker_arguments(weights: list, auxiliary: tuple, x, y, shared: bool) -> list:
    walkers = weights[0].shape[0]
    num_weights = len(weights)
    batch = ((x, y),) * walkers if shared else zip(*map(tf.unstack, (x, y)), strict=True)
    # Taken apart in one operation for each tensor, where indexing makes four for each walker.
    tensors_by_walker = zip(*map(tf.unstack, (*weights, *auxiliary)), strict=True)
    return [
        (list(tensors[:num_weights]), list(tensors[num_weights:]), *pair)
        for tensors, pair in zip(tensors_by_walker, batch, strict=True)
    ]


def map_walkers(
    how: str,
    function: Callable,
    weights: list,
    auxiliary: tuple,
    x,
    y,
    shared: bool,
    signature=tf.float64,
):
    """Results of a function for every walker, stacked; without gradients.

    Args:
        how: Walker evaluation: "vectorized", "unrolled" or "looped".
        function: Function of the weights of one walker, its auxiliary variables, x and y.
        weights: Weights of all walkers, (walkers, *shape) each.
        auxiliary: Keras' non-trainable variables, (walkers, *shape) each.
        x: Inputs: (n, ...) where all walkers share a mini-batch, else (walkers, n, ...).
        y: Labels in the form of `x`.
        shared: Whether all walkers share the mini-batch.
        signature: Type of what the function returns, or types in its structure; only the looped
            form needs it. Default: float64.
    """
    if how == "unrolled":
        results = [
            function(*walker_arguments)
            for walker_arguments in _walker_arguments(weights, auxiliary, x, y, shared)
        ]
        return tf.nest.map_structure(lambda *values: tf.stack(values), *results)

    def walker_result(args):
        values, extra, *batch = args
        return function(list(values), list(extra), *(batch or (x, y)))

    elements = (tuple(weights), tuple(auxiliary)) + (() if shared else (x, y))
    if how == "vectorized":
        return tf.vectorized_map(walker_result, elements, fallback_to_while_loop=False)
    return tf.map_fn(walker_result, elements, fn_output_signature=signature)


def dense(gradient):
    """Embedding layers give sparse gradients, whose sums depend on the order of threads."""
    return tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient
