"""The mathematical functions of a step besides + - * /, each in the library of its argument, NumPy
or TensorFlow, so that the same sampler runs on numpy, eagerly, as a graph, or under XLA.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from inspect import Parameter, Signature
from operator import attrgetter, getitem
from typing import Any

import numpy as np


def _is_numpy(*values) -> bool:
    return all(
        isinstance(value, (np.ndarray, np.generic, float, int, bool, tuple)) for value in values
    )


def _tf():
    from tati_re.core.backend import tf

    return tf


def _both(
    name: str, of_numpy: Callable, of_tensorflow: str, words: str, arguments: Mapping[str, str]
) -> Callable:
    """A function that both libraries have, of the same arguments.

    Args:
        name: Its name here.
        of_numpy: NumPy's function.
        of_tensorflow: The name of TensorFlow's function, as an attribute of `tf`.
        words: The first sentence of its docstring.
        arguments: What each argument is; their order is that of the call.

    Returns:
        The function, with its signature and docstring.
    """

    def function(*values):
        return (
            of_numpy(*values) if _is_numpy(*values) else attrgetter(of_tensorflow)(_tf())(*values)
        )

    function.__name__ = function.__qualname__ = name
    lines = [f"    {argument}: {text}" for argument, text in arguments.items()]
    function.__doc__ = "\n".join([words, "", "Args:", *lines])
    # `inspect` and the site read the arguments here; the call itself takes them by position.
    vars(function)["__signature__"] = Signature(
        [Parameter(argument, Parameter.POSITIONAL_ONLY) for argument in arguments]
    )
    return function


_X = {"x": "Numbers, an array of any shape."}
_MATRICES = "Matrices, `(..., n, n)`"

exp = _both("exp", np.exp, "exp", "e to the power of `x`.", _X)
log = _both("log", np.log, "math.log", "Natural logarithm.", _X)
sqrt = _both("sqrt", np.sqrt, "sqrt", "Square root.", _X)
expm1 = _both(
    "expm1", np.expm1, "math.expm1", "`exp(x) - 1` without the loss of digits near 0.", _X
)
log1p = _both(
    "log1p", np.log1p, "math.log1p", "`log(1 + x)` without the loss of digits near 0.", _X
)
tanh = _both("tanh", np.tanh, "tanh", "Hyperbolic tangent.", _X)
floor = _both("floor", np.floor, "floor", "The largest integer not above `x`.", _X)
absolute = _both("absolute", np.abs, "abs", "Absolute value, entry by entry.", _X)
cos = _both("cos", np.cos, "cos", "Cosine.", {"x": "Angles in radians, an array of any shape."})
minimum = _both(
    "minimum",
    np.minimum,
    "minimum",
    "The smaller of the two, entry by entry.",
    {"x": "Numbers.", "y": "Numbers whose shape broadcasts with the shape of `x`."},
)
maximum = _both(
    "maximum",
    np.maximum,
    "maximum",
    "The larger of the two, entry by entry.",
    {"x": "Numbers.", "y": "Numbers whose shape broadcasts with the shape of `x`."},
)
where = _both(
    "where",
    np.where,
    "where",
    "`x` where the condition holds, else `y`.",
    {
        "condition": "Booleans, of a shape that broadcasts with the others.",
        "x": "Values where the condition holds.",
        "y": "Values elsewhere, of the type of `x`.",
    },
)
is_finite = _both(
    "is_finite", np.isfinite, "math.is_finite", "Neither infinite nor NaN, entry by entry.", _X
)
largest = _both(
    "largest",
    np.max,
    "reduce_max",
    "Largest entry along one axis, which is removed.",
    {"x": "Numbers, an array of any shape.", "axis": "The number of the axis."},
)
take = _both(
    "take",
    getitem,
    "gather",
    "Returns the entries of an array at given indices.",
    {"values": "An array, `(entries, ...)`.", "places": "Indices, int32, of any shape."},
)
zeros_like = _both(
    "zeros_like",
    np.zeros_like,
    "zeros_like",
    "Zeros of the shape and type of `x`.",
    {"x": "An array of any shape."},
)
reshape = _both(
    "reshape",
    np.reshape,
    "reshape",
    "The same numbers in another shape.",
    {"x": "An array of any shape.", "shape": "The new shape; one length may be -1."},
)
transpose = _both(
    "transpose",
    lambda x: np.swapaxes(x, -1, -2),
    "linalg.matrix_transpose",
    "Last two axes exchanged.",
    {"x": "Matrices, `(..., n, m)`."},
)
product = _both(
    "product",
    np.matmul,
    "linalg.matmul",
    "Products of matrices.",
    {"x": "Matrices, `(..., n, k)`.", "y": "Matrices, `(..., k, m)`."},
)
cholesky = _both(
    "cholesky",
    np.linalg.cholesky,
    "linalg.cholesky",
    "Lower triangular M with M M' = x.",
    {"x": f"{_MATRICES}, symmetric and positive definite."},
)


def logistic(x):
    """1 / (1 + e⁻ˣ), without overflow.

    Args:
        x: Numbers, an array of any shape.

    Returns:
        Numbers in (0, 1), in the shape of `x`.
    """
    if _is_numpy(x):
        from scipy.special import expit

        return expit(x)
    return _tf().sigmoid(x)


def log_logistic(x: Any) -> Any:
    """log(1 / (1 + e⁻ˣ)), without overflow.

    Args:
        x: Numbers, an array of any shape.

    Returns:
        Numbers of at most 0, in the shape of `x`.
    """
    return -np.logaddexp(0.0, -x) if _is_numpy(x) else _tf().math.log_sigmoid(x)


def join_last(parts: list) -> Any:
    """Arrays joined along their last axis.

    Args:
        parts: Arrays of one shape but for the last axis.

    Returns:
        One array with the entries of all along the last axis.
    """
    return np.concatenate(parts, axis=-1) if _is_numpy(*parts) else _tf().concat(parts, axis=-1)


def cond(condition, true, false):
    """`true()` if the condition, one bool for all walkers, holds, else `false()`.

    Args:
        condition: One bool.
        true: A function of no arguments.
        false: A function of no arguments; its result has the structure of that of `true`.

    Returns:
        The result of the function that was called.
    """
    if _is_numpy(condition):
        return true() if condition else false()
    return _tf().cond(condition, true, false)


def replaced_if(condition, new, old: tuple) -> tuple:
    """Returns `new(*old)` if the condition, one bool for all walkers, holds, otherwise `old`.

    Use it for large arrays that seldom change. `cond` copies unchanged arrays at every step; a loop
    without rounds does not. Inside the round there is a branch again, because XLA would otherwise
    do the work ahead of the loop, even if it is not needed.

    Args:
        condition: One bool.
        new: A function of the old arrays that returns arrays of the same shapes.
        old: The arrays.

    Returns:
        The new or the old arrays.
    """
    if _is_numpy(condition):
        return new(*old) if condition else old
    tf = _tf()
    rounds = tf.cast(condition, tf.int32)

    def once(i, *now):
        return i + 1, *tf.cond(i < 1, lambda: new(*now), lambda: now)

    return tuple(tf.while_loop(lambda i, *_: i < rounds, once, (tf.constant(0), *old))[1:])


def solve_lower(matrix, right, transposed: bool = False):
    """`matrix`⁻¹ `right`, or `matrix`'⁻¹ `right`, of lower triangular matrices.

    Args:
        matrix: Lower triangular matrices, `(..., n, n)`.
        right: The right-hand sides, `(..., n, m)`.
        transposed: Whether to solve with the transposed matrix. Default: False.

    Returns:
        The solutions, `(..., n, m)`.
    """
    if _is_numpy(matrix, right):
        return np.linalg.solve(np.swapaxes(matrix, -1, -2) if transposed else matrix, right)
    return _tf().linalg.triangular_solve(matrix, right, lower=True, adjoint=transposed)


def sum_over(x, axis: int):
    """Sum over one axis, which keeps length 1.

    Args:
        x: Numbers, an array of any shape.
        axis: The number of the axis.

    Returns:
        The sums, in the shape of `x` with length 1 along the axis.
    """
    return (
        np.sum(x, axis, keepdims=True) if _is_numpy(x) else _tf().reduce_sum(x, axis, keepdims=True)
    )


def cumulative_sum(x):
    """Cumulative sum along the last axis: each entry and all before it.

    Args:
        x: Numbers, an array of any shape.

    Returns:
        The sums, in the shape of `x`.
    """
    return np.cumsum(x, axis=-1) if _is_numpy(x) else _tf().cumsum(x, axis=-1)


def take_last(values, index):
    """Entries along the last axis, at an integer array of any shape.

    Args:
        values: An array, `(..., entries)`.
        index: Places along the last axis, integers of any shape.

    Returns:
        The entries, `(..., *index.shape)`.
    """
    return (
        np.take(values, index, axis=-1)
        if _is_numpy(values, index)
        else _tf().gather(values, index, axis=-1)
    )


def interp(x, points, values):
    """Linear interpolation in a table, constant outside of it.

    Args:
        x: Where to interpolate, float64, of any shape.
        points: The abscissas, float64, `(n,)`, not falling, n at least 2.
        values: The ordinates, float64, `(n,)`.

    Returns:
        The interpolated values, of the shape of `x`.
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
    """Mean over the parameters, `(walkers, parameters)` to `(walkers, 1)`.

    Args:
        x: Numbers, `(walkers, parameters)`.

    Returns:
        The means, `(walkers, 1)`.
    """
    return (
        np.mean(x, axis=-1, keepdims=True)
        if _is_numpy(x)
        else _tf().reduce_mean(x, axis=-1, keepdims=True)
    )


def constant(values, like):
    """A numpy array as a constant in the type of `like`.

    Args:
        values: A number or a numpy array of any shape.
        like: An array of the wanted library and type.

    Returns:
        An array or tensor in the shape of `values`.
    """
    if _is_numpy(like):
        return np.asarray(values, like.dtype)
    return _tf().constant(np.asarray(values, like.dtype.as_numpy_dtype))


def stack(values: list):
    """Stacks arrays of equal shape along a new first axis.

    Args:
        values: The arrays.

    Returns:
        One array, `(len(values), ...)`.
    """
    return np.stack(values) if _is_numpy(*values) else _tf().stack(values)


def as_type(x, like):
    """Converts an array to the type of another.

    Args:
        x: A number or an array of any shape.
        like: An array of the wanted type.

    Returns:
        An array in the shape of `x`.
    """
    return np.asarray(x, like.dtype) if _is_numpy(x) else _tf().cast(x, like.dtype)


def as_float64(x):
    """Converts a number or array to float64; a tensor stays a tensor.

    Args:
        x: A number or an array of any shape and type.

    Returns:
        An array in the shape of `x`.
    """
    return np.asarray(x, np.float64) if _is_numpy(x) else _tf().cast(x, _tf().float64)


def as_int32(x):
    """Converts a number or array to int32 by truncation; a tensor stays a tensor.

    Args:
        x: A number or an array of any shape and type.

    Returns:
        An array in the shape of `x`.
    """
    return np.asarray(x).astype(np.int32) if _is_numpy(x) else _tf().cast(x, _tf().int32)


def as_uint32(x):
    """Converts a number or array to uint32 by truncation; a tensor stays a tensor.

    Args:
        x: A number or an array of any shape and type.

    Returns:
        An array in the shape of `x`.
    """
    if _is_numpy(x):
        return np.asarray(x).astype(np.int64).astype(np.uint32)
    tf = _tf()
    return tf.cast(tf.cast(x, tf.int64), tf.uint32)


def shift_right(x, bits: int):
    """Shifts uint32 numbers right by some bits; zeros enter from the left.

    Args:
        x: Numbers, uint32, of any shape.
        bits: Number of bits, 0 to 31.

    Returns:
        uint32 numbers in the shape of `x`.
    """
    if _is_numpy(x):
        return x >> np.uint32(bits)
    tf = _tf()
    return tf.bitwise.right_shift(x, tf.constant(bits, tf.uint32))


UNDER_XLA: ContextVar[bool] = ContextVar("under_xla", default=False)


@contextmanager
def compiled_by_xla() -> Iterator[None]:
    """Marks code traced for XLA, which has its own operations for parts of arrays.

    Returns:
        A context manager.
    """
    token = UNDER_XLA.set(True)
    try:
        yield
    finally:
        UNDER_XLA.reset(token)


def rows(values, first, count: int):
    """`count` rows of `(walkers, ...)` values from `first` on.

    Args:
        values: An array, `(walkers, ...)`.
        first: The first row; it may be a tensor.
        count: The number of rows.

    Returns:
        The rows, `(count, ...)`.
    """
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
    """`values` with the rows from `first` on replaced by `new`.

    Args:
        values: An array, `(walkers, ...)`.
        first: The first row that is replaced; it may be a tensor.
        new: The new rows, `(count, ...)`.

    Returns:
        A new array of the shape of `values`.
    """
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
    """Returns `(walkers,)` values as a `(walkers, 1)` column in the type of `like`.

    Args:
        values: One number per walker, `(walkers,)`.
        like: An array of the wanted type, such as the positions.

    Returns:
        The values, `(walkers, 1)`.
    """
    if _is_numpy(values, like):
        return np.asarray(values)[:, None].astype(like.dtype)
    return _tf().cast(values, like.dtype)[:, None]


def sum_of_products(x, y):
    """Sum over the parameters of `x * y`, accumulated in float64.

    Args:
        x: Numbers, `(walkers, parameters)`.
        y: Numbers, `(walkers, parameters)`.

    Returns:
        The sums, float64, `(walkers,)`.
    """
    if _is_numpy(x, y):
        return np.sum(x.astype(np.float64) * y.astype(np.float64), axis=-1)
    tf = _tf()
    return tf.reduce_sum(tf.cast(x, tf.float64) * tf.cast(y, tf.float64), axis=-1)


def repeat(count, body, values: tuple) -> tuple:
    """Applies `body` to some values `count` times.

    Args:
        count: The number of times; it may be a tensor.
        body: A function of all values that returns a tuple of the same length and shapes.
        values: The values to begin with.

    Returns:
        The values after the last time.
    """
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
    """Applies `body` to an array as long as a condition holds for any of its entries.

    Args:
        condition: A function of the array that returns booleans.
        body: A function of the array that returns one of the same shape and type.
        value: The array to begin with.

    Returns:
        The first array for which the condition holds nowhere.
    """
    if _is_numpy(value):
        while np.any(condition(value)):
            value = body(value)
        return value
    tf = _tf()
    return tf.while_loop(
        lambda now: tf.reduce_any(condition(now)), lambda now: (body(now),), (value,)
    )[0]
