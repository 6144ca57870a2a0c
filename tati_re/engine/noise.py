"""Counter-based random numbers: each number is a function of seed, purpose, step and walker, and of
nothing else.

One Philox key belongs to (seed, purpose, number of the draw within a step). The low word of the
counter runs over (step, block of four 32-bit words), its high word is the walker: its numbers are
the same however many there are beside it. What has ladders first is likewise counted by ladder; a
single number that all walkers share has high word 0. The bits of many steps are drawn at once, by
TensorFlow's own kernel, walker by walker, or, for large arrays, by the same rounds compiled by XLA,
and turned into normals in pairs, as radius and angle: eager, graph and XLA execution see the same
bits, and chunk sizes and restarts change nothing.

Sources: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011); Box and
Muller, Ann. Math. Stat. 29, 610 (1958).
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.engine import philox

_PHILOX = 1
_VECTOR = 64  # Numbers that Eigen's unrolled loops take at once, on processors with 512 bits.
_MOST_UNROLLED = 64
"""Walkers that have a node of the graph each for their bits; for more a program is compiled."""
_COMPILED_FROM_BYTES = {"xla": 2**14, "graph": 2**17, "eager": math.inf}
"""Bytes of random bits in a step from which on it pays to have XLA compile their making: 4 walkers
of 54,000 parameters take 1.2 ms where TensorFlow's kernels take 3.2; compiling takes half a
second.
"""


class Draw(NamedTuple):
    """One request of a step: kind ("normal" or "uniform"), shape, and the type of the numbers."""

    kind: str
    shape: tuple[int, ...]
    dtype: tf.DType

    @property
    def bit_type(self) -> tf.DType:
        return tf.int64 if self.dtype == tf.float64 else tf.int32

    @property
    def padded(self) -> tuple[int, int]:
        """(walkers, numbers of each walker rounded up to whole Philox blocks)."""
        walkers = self.shape[0] if self.shape else 1
        per_block = philox.WORDS // (self.bit_type.size // 4)
        return walkers, -(-math.prod(self.shape[1:]) // per_block) * per_block

    def counters(self) -> int:
        """Philox counters that one step of one walker uses."""
        return self.padded[1] * (self.bit_type.size // 4) // philox.WORDS

    def high_words(self, first_walker) -> tf.Tensor:
        """High words of the counters, uint64 `(walkers,)`; a number that all walkers share is that
        of no walker.
        """
        first = tf.cast(first_walker if self.shape else 0, tf.int64)
        return tf.cast(first + tf.range(self.padded[0], dtype=tf.int64), tf.uint64)

    def bytes(self) -> int:
        return math.prod(self.padded) * self.bit_type.size


def philox_key(seed: int, purpose: str) -> int:
    """A 64-bit key from the seed and the purpose of the numbers.

    Args:
        seed: Seed of the run.
        purpose: What the numbers are for, such as "step/0".
    """
    return int.from_bytes(
        hashlib.sha256(f"tati_re/{seed}/{purpose}".encode()).digest()[:8], "little"
    )


def philox_keys(draws: Sequence[Draw], seed: int, purpose: str) -> tf.Tensor:
    """The key of each draw.

    Args:
        draws: The draws of a step.
        seed: Seed of the run.
        purpose: What the numbers are for, such as "step".

    Returns:
        Keys, uint64, shape (draws,).
    """
    return tf.constant(
        [philox_key(seed, f"{purpose}/{number}") for number in range(len(draws))], tf.uint64
    )


def draw_bits(
    draws: Sequence[Draw], keys, first_step, num_steps: int, first_walker=0
) -> list[tf.Tensor]:
    """The random bits of each draw for consecutive steps.

    Args:
        draws: The draws of a step.
        keys: Key of each draw, uint64, shape (draws,).
        first_step: The first step, a number or an int64 tensor.
        num_steps: Number of steps.
        first_walker: Number of the first walker in the run, for a block of its walkers; a number or
            an int64 tensor. Default: 0.

    Returns:
        For each draw a tensor of signed integers, shape (num_steps, walkers, padded numbers).
    """
    bits = []
    for number, draw in enumerate(draws):
        high = draw.high_words(first_walker)
        key = keys[number : number + 1]
        if draw.padded[0] > _MOST_UNROLLED:
            bits.append(
                _compiled(draw, num_steps)(
                    key, _low_words(draw, first_step, num_steps), high[:, None]
                )
            )
            continue
        low = tf.cast(tf.cast(first_step, tf.int64) * draw.counters(), tf.uint64)
        shape = (num_steps, draw.padded[1])
        walker_bits = [_kernel(key, low, word, shape, draw.bit_type) for word in tf.unstack(high)]
        bits.append(tf.stack(walker_bits, axis=1))
    return bits


def _kernel(key, low, high, shape: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    """The bits of one walker, `(num_steps, padded numbers)`."""
    drawn = tf.raw_ops.StatelessRandomUniformFullIntV2
    return drawn(shape=shape, key=key, counter=tf.stack([low, high]), alg=_PHILOX, dtype=dtype)


@lru_cache(maxsize=256)
def _compiled(draw: Draw, num_steps: int) -> Callable:
    """Key and the two words of the counters to the bits of many walkers, compiled once for all
    keys.
    """
    compiled = tf.function(autograph=False, jit_compile=True)
    return compiled(
        lambda key, *counters: bits_of_blocks(draw, philox.words(key[0], *counters), num_steps)
    )


def _low_words(draw: Draw, first_step, num_steps: int) -> tf.Tensor:
    """Low words of the counters of one walker, uint64 `(num_steps, 1, counters)`."""
    low = tf.cast(first_step, tf.int64) * draw.counters() + tf.range(
        num_steps * draw.counters(), dtype=tf.int64
    )
    return tf.reshape(tf.cast(low, tf.uint64), (num_steps, 1, draw.counters()))


def draw_blocks(
    draws: Sequence[Draw], keys, first_step, num_steps: int, first_walker=0
) -> list[list[tf.Tensor]]:
    """The bits of `draw_bits` as XLA makes them fastest: the four words of each Philox block apart.

    Args:
        draws: The draws of a step.
        keys: Key of each draw, uint64, shape (draws,).
        first_step: The first step, a number or an int64 tensor.
        num_steps: Number of steps.
        first_walker: Number of the first walker in the run, for a block of its walkers; a number or
            an int64 tensor. Default: 0.

    Returns:
        For each draw four uint32 tensors, shape (num_steps, walkers, blocks) each. `bits_of_blocks`
        puts them in order.
    """
    return [
        philox.words(
            keys[number],
            _low_words(draw, first_step, num_steps),
            draw.high_words(first_walker)[:, None],
        )
        for number, draw in enumerate(draws)
    ]


def bits_of_blocks(draw: Draw, blocks: list[tf.Tensor], num_steps: int) -> tf.Tensor:
    """The bits of one draw from the words of its blocks.

    Args:
        draw: The draw.
        blocks: The four words of each block, uint32, shape (num_steps, walkers, blocks) each.
        num_steps: Number of steps.

    Returns:
        Signed integers, shape (num_steps, walkers, padded numbers).
    """
    return tf.reshape(
        tf.stack(philox.numbers(blocks, draw.bit_type), axis=-1), (num_steps, *draw.padded)
    )


def open_uniform(bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Turns bits into uniform numbers in (0, 1), never at an end.

    Args:
        bits: Signed integers of any shape. The sign bit does not count.
        dtype: Type of the numbers.
    """
    positive = tf.cast(tf.bitwise.bitwise_and(bits, tf.constant(bits.dtype.max, bits.dtype)), dtype)
    return (positive + 0.5) * tf.constant(
        (1.0 - 0.5 * np.finfo(dtype.as_numpy_dtype).eps) / (bits.dtype.max + 1), dtype
    )


def standard_normals(
    radius: tf.Tensor, angle: tf.Tensor, dtype: tf.DType
) -> tuple[tf.Tensor, tf.Tensor]:
    """Turns two arrays of bits into two arrays of standard normal numbers.

    They are r cos φ and r sin φ, with r² = -2 ln u, u in (0, 1), and a uniform angle φ. The sine
    and cosine are Taylor series between -π/4 and π/4, exact to rounding.

    float32 numbers end at 6.6 standard deviations (float64: 9.4). The probability beyond is 5e-11.

    Args:
        radius: Bits of u, signed integers.
        angle: Bits of the angle, signed integers of the same shape. The two lowest bits choose the
            quarter of the circle.
        dtype: Type of the numbers.
    """
    length = tf.sqrt(-2.0 * tf.math.log(open_uniform(radius, dtype)))
    x = tf.cast(angle, dtype) * tf.constant(0.25 * math.pi / (angle.dtype.max + 1), dtype)
    square = x * x
    terms = 4 if dtype == tf.float32 else 8
    cosine, sine = ((1.0 / math.factorial(2 * terms + odd)) * tf.ones_like(x) for odd in range(2))
    for k in reversed(range(terms)):
        cosine = cosine * square + tf.constant((-1) ** k / math.factorial(2 * k), dtype)
        sine = sine * square + tf.constant((-1) ** k / math.factorial(2 * k + 1), dtype)
    unit = tf.constant(1, angle.dtype)
    cosine = cosine * tf.cast(tf.bitwise.bitwise_and(angle, 2 * unit) - unit, dtype)
    sine = sine * x
    turned = tf.equal(tf.bitwise.bitwise_and(angle, unit), unit)
    return length * tf.where(turned, sine, cosine), length * tf.where(turned, cosine, sine)


class RecordingNoise:
    """Notes which numbers a step asks for, while the step is traced once."""

    def __init__(self, dtype: tf.DType) -> None:
        self.dtype = dtype
        self.draws: list[Draw] = []

    def normal(self, shape) -> tf.Tensor:
        return self._note("normal", shape, self.dtype)

    def uniform(self, shape) -> tf.Tensor:
        return self._note("uniform", shape, tf.float64) + 0.5

    def _note(self, kind: str, shape, dtype: tf.DType) -> tf.Tensor:
        self.draws.append(Draw(kind, tuple(int(size) for size in shape), dtype))
        return tf.zeros(self.draws[-1].shape, dtype)


def numbers_of(draw: Draw, parts: Sequence[tf.Tensor]) -> tf.Tensor:
    """The numbers of one draw from the bits of its Philox blocks.

    They are made in whole vectors of the processor. The rest at the end of an array would go
    through another logarithm, which rounds differently. Which steps stand there depends on where a
    chunk begins.

    Args:
        draw: The draw.
        parts: Bits, shape (steps, walkers, numbers) each: all that are first in their block before
            all that are second.

    Returns:
        Numbers, shape (steps, *shape) with the shape of the draw.
    """
    like = parts[0].shape
    size = math.prod(parts[0].shape)
    parts = [tf.reshape(part, (size,)) for part in parts]
    if padding := -size % _VECTOR:
        parts = [tf.concat([part, tf.zeros((padding,), part.dtype)], axis=0) for part in parts]
    if draw.kind == "normal":
        pairs = zip(parts[::2], parts[1::2], strict=True)
        cosines, sines = zip(*(standard_normals(*pair, draw.dtype) for pair in pairs), strict=True)
        made = [*cosines, *sines]
    else:
        made = [open_uniform(part, draw.dtype) for part in parts]
    numbers = tf.concat([tf.reshape(values[:size], like) for values in made], axis=-1)
    return tf.reshape(numbers[:, :, : math.prod(draw.shape[1:])], (like[0], *draw.shape))


def parts_of(draw: Draw, bits: tf.Tensor) -> list[tf.Tensor]:
    """The bits of a draw in the two parts that `numbers_of` takes.

    Args:
        draw: The draw.
        bits: Signed integers from `draw_bits`, shape (steps, walkers, padded numbers).

    Returns:
        Two tensors, shape (steps, walkers, padded numbers / 2) each.
    """
    steps, walkers, _ = bits.shape
    blocks = tf.reshape(bits, (steps, walkers, draw.counters(), -1, 2))
    return [
        tf.reshape(part, (steps, walkers, -1))
        for part in tf.unstack(tf.transpose(blocks, (4, 0, 1, 3, 2)))
    ]


def draw_numbers(
    draws: Sequence[Draw], seed: int, purpose: str, first_step, num_steps: int, first_walker=0
) -> list[tf.Tensor]:
    """The numbers of all draws for consecutive steps.

    Args:
        draws: The draws of a step.
        seed: Seed of the run.
        purpose: What the numbers are for, such as "step".
        first_step: The first step, a number or an int64 tensor.
        num_steps: Number of steps.
        first_walker: Number of the first walker in the run, for a block of its walkers; a number or
            an int64 tensor. Default: 0.

    Returns:
        For each draw its numbers, shape (num_steps, *shape).
    """
    bits = draw_bits(draws, philox_keys(draws, seed, purpose), first_step, num_steps, first_walker)
    return [
        numbers_of(draw, parts_of(draw, random_bits))
        for draw, random_bits in zip(draws, bits, strict=True)
    ]


class Drawing:
    """The random numbers of the steps of a chunk: drawn as bits, turned into numbers where used.

    Args:
        draws: The draws of a step.
        num_steps: Number of steps whose numbers are made at once.
        execution: "xla", "graph" or "eager". It decides from how many bytes on XLA compiles the
            drawing.
    """

    def __init__(self, draws: Sequence[Draw], num_steps: int, execution: str) -> None:
        self._draws = draws
        self._in_blocks = sum(draw.bytes() for draw in draws) >= _COMPILED_FROM_BYTES[execution]
        draw = draw_blocks if self._in_blocks else draw_bits

        def drawn(keys, first_step, first_walker) -> list:
            return draw(draws, keys, first_step, num_steps, first_walker)

        compiled = partial(tf.function, autograph=False, jit_compile=True)
        self.drawn = compiled(drawn) if self._in_blocks else drawn
        self.numbers = (
            compiled(self._numbers) if self._in_blocks and execution == "graph" else self._numbers
        )

    def _numbers(self, bits) -> list[tf.Tensor]:
        """The numbers of each draw, `(num_steps, *shape)`."""
        parts = (
            (lambda draw, words: philox.numbers(words, draw.bit_type))
            if self._in_blocks
            else parts_of
        )
        return [
            numbers_of(draw, parts(draw, draw_words))
            for draw, draw_words in zip(self._draws, bits, strict=True)
        ]


class StepNoise:
    """The random numbers of one step, given out in the order in which they were recorded.

    Args:
        draws: The draws of the step.
        numbers: Numbers of each draw, with its shape.
    """

    def __init__(self, draws: Sequence[Draw], numbers: Sequence[tf.Tensor]) -> None:
        self._waiting = list(zip(draws, numbers, strict=True))

    def normal(self, shape) -> tf.Tensor:
        return self._next("normal", shape)

    def uniform(self, shape) -> tf.Tensor:
        return self._next("uniform", shape)

    def _next(self, kind: str, shape) -> tf.Tensor:
        draw, numbers = self._waiting.pop(0)
        expected_shape = tuple(int(size) for size in shape)
        if (draw.kind, draw.shape) != (kind, expected_shape):
            raise RuntimeError(
                f"A step must ask for the same random numbers each time. Received: {kind} {expected_shape}. "
                f"Expected: {draw.kind} {draw.shape}."
            )
        return numbers
