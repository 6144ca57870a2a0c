"""Functions of steps that NumPy and TensorFlow compute alike."""

from __future__ import annotations

import numpy as np
import pytest

from tati_re.core import ops as functions
from tati_re.core.backend import tf


def compiled(function, *arrays):
    """The function of these arrays as TensorFlow computes it under XLA."""
    return tf.function(function, jit_compile=True, autograph=False)(
        *map(tf.constant, arrays)
    ).numpy()


@pytest.mark.parametrize(
    "points",
    [[0.0, 0.5, 2.0, 3.0], [0.0, 0.5, 0.5, 3.0], [0.0, 0.0, 1.0, 3.0], [0.0, 1.0, 3.0, 3.0]],
)
def test_interp(points):
    values = np.array([1.0, -2.0, 5.0, 4.0])
    x = np.array([[-1.0, 0.0, 0.2, 0.5], [1.9, 2.0, 3.0, 9.0]])
    own = functions.interp(x, np.array(points), values)
    assert own.shape == x.shape
    np.testing.assert_allclose(
        compiled(functions.interp, x, np.array(points), values), own, rtol=1e-14
    )
    np.testing.assert_allclose(
        functions.interp(x, np.array(points), values), np.interp(x, points, values)
    )


def test_sums_and_parts():
    x = np.arange(12.0).reshape(3, 4)
    index = np.array([[2, 0], [1, 1]])
    for function, arrays in (
        (functions.cumulative_sum, (x,)),
        (functions.take, (x, index)),
        (functions.take_last, (x, index)),
        (functions.is_finite, (np.array([1.0, np.nan, np.inf]),)),
    ):
        np.testing.assert_array_equal(compiled(function, *arrays), function(*arrays))
    assert functions.cumulative_sum(x)[1].tolist() == [4.0, 9.0, 15.0, 22.0]
    assert functions.take(x, index).shape == (2, 2, 4) and functions.take_last(x, index).shape == (
        3,
        2,
        2,
    )


def test_what_is_repeated_is_traced_once():
    """However often; unrolled, the power iterations of a measured mass were three quarters of its
    program.
    """
    traced = []

    def doubled(x):
        traced.append(x)
        return (x + x,)

    twice = tf.function(lambda x: functions.repeat(8, doubled, (x,)), autograph=False)
    assert (twice(tf.constant(1.0))[0].numpy(), len(traced)) == (256.0, 1)
    assert functions.repeat(8, doubled, (1.0,)) == (256.0,)
    # A state may be among the values.
    assert functions.repeat(2, lambda state, x: ((state[0] + x,), x), ((0.0,), np.ones(1))) == (
        (2.0,),
        1.0,
    )
