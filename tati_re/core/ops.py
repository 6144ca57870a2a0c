"""The mathematical functions of a step besides + - * /, each in the library of its argument, NumPy
or TensorFlow, so that the same sampler runs on numpy, eagerly, as a graph, or under XLA.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from operator import attrgetter, getitem

import numpy as np


def _is_numpy(*values) -> bool:
    return all(
        isinstance(value, (np.ndarray, np.generic, float, int, bool, tuple)) for value in values
    )


def _tf():
    from tati_re.core.backend import tf

    return tf


def _both(name: str, of_numpy: Callable, of_tensorflow: str, words: str) -> Callable:
    """The function that both libraries have, of the same arguments; `of_tensorflow` is its name
    there.
    """

    def function(*values):
        return (
            of_numpy(*values) if _is_numpy(*values) else attrgetter(of_tensorflow)(_tf())(*values)
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = words
    return function


exp = _both("exp", np.exp, "exp", "e to the power of `x`.")
log = _both("log", np.log, "math.log", "Natural logarithm.")
sqrt = _both("sqrt", np.sqrt, "sqrt", "Square root.")
expm1 = _both("expm1", np.expm1, "math.expm1", "`exp(x) - 1` without the loss of digits near 0.")
log1p = _both("log1p", np.log1p, "math.log1p", "`log(1 + x)` without the loss of digits near 0.")
floor = _both("floor", np.floor, "floor", "The largest integer not above `x`.")
absolute = _both("absolute", np.abs, "abs", "Absolute value, entry by entry.")
cos = _both("cos", np.cos, "cos", "Cosine.")
minimum = _both("minimum", np.minimum, "minimum", "The smaller of the two, entry by entry.")
maximum = _both("maximum", np.maximum, "maximum", "The larger of the two, entry by entry.")
where = _both("where", np.where, "where", "`x` where the condition holds, else `y`.")
is_finite = _both(
    "is_finite", np.isfinite, "math.is_finite", "Neither infinite nor NaN, entry by entry."
)
largest = _both("largest", np.max, "reduce_max", "Largest entry along one axis, which is removed.")
take = _both(
    "take", getitem, "gather", "Entries of `(entries, ...)` values at int32 places of any shape."
)
zeros_like = _both("zeros_like", np.zeros_like, "zeros_like", "Zeros of the shape and type of `x`.")
reshape = _both("reshape", np.reshape, "reshape", "The same numbers in another shape.")
transpose = _both(
    "transpose",
    lambda x: np.swapaxes(x, -1, -2),
    "linalg.matrix_transpose",
    "Last two axes exchanged.",
)
cholesky = _both(
    "cholesky", np.linalg.cholesky, "linalg.cholesky", "Lower triangular M with M M' = x."
)


def logistic(x):
    """1 / (1 + e⁻ˣ), without overflow."""
    if _is_numpy(x):
        from scipy.special import expit

        return expit(x)
    return _tf().sigmoid(x)


def cond(condition, true, false):
    """`true()` where the condition, one bool for all walkers, holds, else `false()`; both of the
    same structure.
    """
    if _is_numpy(condition):
        return true() if condition else false()
    return _tf().cond(condition, true, false)


def replaced_if(condition, new, old: tuple) -> tuple:
    """`new(*old)` where the condition, one bool for all walkers, holds, else `old`: arrays of the
    same shapes. For large arrays that seldom change: `cond` copies at every step what it leaves as
    it was, a loop of no round does not. Inside of the round it is a branch again, or XLA would do
    its work ahead of the loop, needed or not.
    """
    if _is_numpy(condition):
        return new(*old) if condition else old
    tf = _tf()
    rounds = tf.cast(condition, tf.int32)

    def once(i, *now):
        return i + 1, *tf.cond(i < 1, lambda: new(*now), lambda: now)

    return tuple(tf.while_loop(lambda i, *_: i < rounds, once, (tf.constant(0), *old))[1:])


def solve_lower(matrix, right, transposed: bool = False):
    """`matrix`⁻¹ `right`, or `matrix`'⁻¹ `right`, of lower triangular matrices."""
    if _is_numpy(matrix, right):
        return np.linalg.solve(np.swapaxes(matrix, -1, -2) if transposed else matrix, right)
    return _tf().linalg.triangular_solve(matrix, right, lower=True, adjoint=transposed)


def sum_over(x, axis: int):
    """Sum over one axis, which keeps length 1."""
    return (
        np.sum(x, axis, keepdims=True) if _is_numpy(x) else _tf().reduce_sum(x, axis, keepdims=True)
    )


def cumulative_sum(x):
    """Sums of the entries along the last axis up to and with each."""
    return np.cumsum(x, axis=-1) if _is_numpy(x) else _tf().cumsum(x, axis=-1)


def take_last(values, index):
    """Entries along the last axis, at an integer array of any shape."""
    return (
        np.take(values, index, axis=-1)
        if _is_numpy(values, index)
        else _tf().gather(values, index, axis=-1)
    )


def interp(x, points, values):
    """Linear interpolation in a table, constant outside of it. `x` has any shape; `points`, not
    falling, and `values` are `(n,)`, n at least 2; all are float64.
    """
    if _is_numpy(x, points, values):
        return np.interp(x, points, values)
    tf = _tf()
    x, points, values = (tf.convert_to_tensor(part, tf.float64) for part in (x, points, values))
    upper = tf.searchsorted(points, tf.reshape(x, [-1]), side="right")
    upper = tf.reshape(tf.clip_by_value(upper, 1, points.shape[0] - 1), x.shape)
    begin = tf.gather(points, upper - 1)
    end = tf.gather(points, upper)
    part = tf.clip_by_value(tf.math.divide_no_nan(x - begin, end - begin), 0.0, 1.0)
    low = tf.gather(values, upper - 1)
    high = tf.gather(values, upper)
    return tf.where(x < points[-1], low + part * (high - low), values[-1])


def mean(x):
    """Mean over the parameters, `(walkers, parameters)` to `(walkers, 1)`."""
    return (
        np.mean(x, axis=-1, keepdims=True)
        if _is_numpy(x)
        else _tf().reduce_mean(x, axis=-1, keepdims=True)
    )


def constant(values, like):
    """A numpy array as a constant in the type of `like`."""
    if _is_numpy(like):
        return np.asarray(values, like.dtype)
    return _tf().constant(np.asarray(values, like.dtype.as_numpy_dtype))


def stack(values: list):
    """Arrays of one shape along a new first axis."""
    return np.stack(values) if _is_numpy(*values) else _tf().stack(values)


def as_type(x, like):
    """An array in the type of another."""
    return np.asarray(x, like.dtype) if _is_numpy(x) else _tf().cast(x, like.dtype)


def as_float64(x):
    """A number or array as float64, in its own library."""
    return np.asarray(x, np.float64) if _is_numpy(x) else _tf().cast(x, _tf().float64)


def as_int32(x):
    """A number or array as int32, in its own library, truncated."""
    return np.asarray(x).astype(np.int32) if _is_numpy(x) else _tf().cast(x, _tf().int32)


def as_uint32(x):
    """A number or array as uint32, in its own library, truncated."""
    if _is_numpy(x):
        return np.asarray(x).astype(np.int64).astype(np.uint32)
    tf = _tf()
    return tf.cast(tf.cast(x, tf.int64), tf.uint32)


def shift_right(x, bits: int):
    """uint32 numbers shifted right by `bits` bits."""
    if _is_numpy(x):
        return x >> np.uint32(bits)
    tf = _tf()
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.uint32))


UNDER_XLA: ContextVar[bool] = ContextVar("under_xla", default=False)


@contextmanager
def compiled_by_xla() -> Iterator[None]:
    """Marks code traced for XLA, which has its own operations for parts of arrays."""
    token = UNDER_XLA.set(True)
    try:
        yield
    finally:
        UNDER_XLA.reset(token)


def rows(values, first, count: int):
    """`count` rows of `(walkers, ...)` values from `first` on, which may be a tensor."""
    if _is_numpy(values, first):
        return values[int(first) : int(first) + count]
    # Not a slice: XLA takes where a slice begins for a constant of the compilation, and would
    # compile every chunk anew.
    tf = _tf()
    values = tf.convert_to_tensor(values)
    if UNDER_XLA.get():
        size = tf.constant([count, *values.shape[1:]])
        from tati_re.core.backend import dynamic_slice

        return dynamic_slice(values, _begin(values, first), size)
    return tf.gather(values, tf.cast(first, tf.int32) + tf.range(count))


def with_rows(values, first, new):
    """`values` with the rows from `first` on replaced by `new`."""
    if _is_numpy(values, new, first):
        changed = np.array(values)
        changed[int(first) : int(first) + len(new)] = new
        return changed
    tf = _tf()
    if UNDER_XLA.get():
        from tati_re.core.backend import dynamic_update_slice

        return dynamic_update_slice(values, _begin(values, first), new)
    index = tf.range(values.shape[0])
    inside = tf.logical_and(index >= first, index < first + new.shape[0])
    moved = tf.gather(new, tf.clip_by_value(index - first, 0, new.shape[0] - 1))
    return tf.where(tf.reshape(inside, [-1] + [1] * (values.shape.rank - 1)), moved, values)


def _begin(values, first):
    tf = _tf()
    return tf.concat([[tf.cast(first, tf.int32)], tf.zeros((values.shape.rank - 1,), tf.int32)], 0)


def column(values, like):
    """`(walkers,)` values as a `(walkers, 1)` column in the type of `like`, to multiply `(walkers,
    parameters)`.
    """
    if _is_numpy(values, like):
        return np.asarray(values)[:, None].astype(like.dtype)
    return _tf().cast(values, like.dtype)[:, None]


def sum_of_products(x, y):
    """Sum over the parameters of `x * y`: `(walkers, parameters)` twice to `(walkers,)`,
    accumulated in float64.
    """
    if _is_numpy(x, y):
        return np.sum(x.astype(np.float64) * y.astype(np.float64), axis=-1)
    tf = _tf()
    return tf.reduce_sum(tf.cast(x, tf.float64) * tf.cast(y, tf.float64), axis=-1)


def repeat(count, body, values: tuple) -> tuple:
    """Applies `body(*values) -> values` `count` times; `count` may be a tensor."""
    if _is_numpy(count, *(value for value in values if not isinstance(value, tuple))):
        for _ in range(int(count)):
            values = body(*values)
        return values
    tf = _tf()
    count = tf.cast(count, tf.int32)
    result = tf.while_loop(
        lambda i, *_: i < count, lambda i, *now: (i + 1, *body(*now)), (tf.constant(0), *values)
    )
    return tuple(result[1:])


def repeat_while_any(condition, body, value):
    """Applies `body(value) -> value` as long as `condition(value)` holds for any entry of the one
    array.
    """
    if _is_numpy(value):
        while np.any(condition(value)):
            value = body(value)
        return value
    tf = _tf()
    return tf.while_loop(
        lambda now: tf.reduce_any(condition(now)), lambda now: (body(now),), (value,)
    )[0]
