"""Philox 4x32-10 in XLA's own operations: the words of TensorFlow's kernel, bit for bit, at less
than half of its cost.

XLA makes one loop of the ten rounds that uses the processor's vectors; the kernel goes number by
number. The four words of a block are kept apart, for a loop that also interleaved them would
compute each block four times.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011).
"""

from tati_re.core.backend import tf

WORDS = 4
"""32-bit words of a block."""

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)


def words(key, low, high) -> list[tf.Tensor]:
    """The words of each block, in the order of the kernel's numbers.

    Args:
        key: The key, a number or a uint64 tensor.
        low: Low word of the counter of each block, uint64.
        high: High word of the counter of each block, uint64, of a shape that broadcasts with `low`.

    Returns:
        Four uint32 tensors of the broadcast shape.
    """
    a, b, c, d = (
        part + tf.zeros_like(low + high, tf.uint32) for part in (*_halves(low), *_halves(high))
    )
    low_key, high_key = _halves(tf.convert_to_tensor(key, tf.uint64))
    weyl = [tf.constant(constant, tf.uint32) for constant in _WEYL]
    for _ in range(_ROUNDS):
        first_product = tf.cast(a, tf.uint64) * tf.constant(_MULTIPLIERS[0], tf.uint64)
        second_product = tf.cast(c, tf.uint64) * tf.constant(_MULTIPLIERS[1], tf.uint64)
        a = _xor(_high(second_product), b, low_key)
        b = tf.cast(second_product, tf.uint32)
        c = _xor(_high(first_product), d, high_key)
        d = tf.cast(first_product, tf.uint32)
        low_key = low_key + weyl[0]
        high_key = high_key + weyl[1]
    return [a, b, c, d]


def numbers(blocks: list[tf.Tensor], bit_type: tf.DType) -> list[tf.Tensor]:
    """The words of all blocks as signed integers.

    Args:
        blocks: The four words of each block, uint32, from `words`.
        bit_type: `tf.int32`, or `tf.int64` for numbers of two words each.

    Returns:
        Four tensors of int32, or two of int64, with the shape of the words.
    """
    if bit_type == tf.int32:
        return [tf.bitcast(word, tf.int32) for word in blocks]
    wide = [tf.cast(word, tf.uint64) for word in blocks]
    shift = tf.constant(32, tf.uint64)
    halves = [
        tf.bitwise.bitwise_or(low, tf.bitwise.left_shift(high, shift))
        for low, high in (wide[:2], wide[2:])
    ]
    return [tf.bitcast(half, tf.int64) for half in halves]


def _halves(values: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.cast(values, tf.uint32), _high(values)


def _high(values: tf.Tensor) -> tf.Tensor:
    return tf.cast(tf.bitwise.right_shift(values, tf.constant(32, tf.uint64)), tf.uint32)


def _xor(left: tf.Tensor, right: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(left, right), key)
