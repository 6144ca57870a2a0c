"""Counter-based random numbers: each number is a function of seed, purpose, step and walker, and of nothing else.

One Philox key belongs to (seed, purpose, number of the draw within a step). The low word of the counter runs over
(step, block of four 32-bit words), its high word is the walker: its numbers are the same however many there are beside
it. What has ladders first is likewise counted by ladder; a single number that all walkers share has high word 0. The
bits of many steps are drawn at once, by TensorFlow's own kernel, walker by walker, or, for large arrays, by the same
rounds compiled by XLA, and turned into normals by the inverse of the error function: eager, graph and XLA execution
see the same bits, and chunk sizes and restarts change nothing.

Source: Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (2011)."""

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
_MOST_UNROLLED, _MOST_LOOPED = 16, 64
"""Walkers that have a node of the graph each for their bits, and that are drawn in a loop, which copies once more; for
more walkers a program is compiled."""
_COMPILED_FROM_BYTES = {"xla": 2**14, "graph": 2**17, "eager": math.inf}
"""Bytes of random bits in a step from which on it pays to have XLA compile their making: 4 walkers of 54,000 parameters
take 1.2 ms where TensorFlow's kernels take 3.2; compiling takes half a second."""


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
        """High words of the counters, uint64 `(walkers,)`; a number that all walkers share is that of no walker."""
        first = tf.cast(first_walker if self.shape else 0, tf.int64)
        return tf.cast(first + tf.range(self.padded[0], dtype=tf.int64), tf.uint64)

    def bytes(self) -> int:
        return math.prod(self.padded) * self.bit_type.size


def philox_key(seed: int, purpose: str) -> int:
    """A 64-bit key from the seed and what the numbers are for."""
    return int.from_bytes(hashlib.sha256(f"tati_re/{seed}/{purpose}".encode()).digest()[:8], "little")


def philox_keys(draws: Sequence[Draw], seed: int, purpose: str) -> tf.Tensor:
    """The key of each draw, uint64 `(draws,)`."""
    return tf.constant([philox_key(seed, f"{purpose}/{number}") for number in range(len(draws))], tf.uint64)


def draw_bits(draws: Sequence[Draw], keys, first_step, num_steps: int, first_walker=0) -> list[tf.Tensor]:
    """The bits of each draw for `num_steps` steps: integer tensors `(num_steps, walkers, padded numbers)`. `first_step`
    is a number, or an int64 tensor; so is `first_walker`, for a block of the walkers of a run."""
    bits = []
    for number, draw in enumerate(draws):
        high, key = draw.high_words(first_walker), keys[number : number + 1]
        if draw.padded[0] > _MOST_LOOPED:
            bits.append(_compiled(draw, num_steps)(key, _low_words(draw, first_step, num_steps), high[:, None]))
            continue
        low = tf.cast(tf.cast(first_step, tf.int64) * draw.counters(), tf.uint64)
        shape = (num_steps, draw.padded[1])
        if draw.padded[0] > _MOST_UNROLLED:
            bits.append(_looped(key, low, high, shape, draw.bit_type))
        else:
            each = [_kernel(key, low, word, shape, draw.bit_type) for word in tf.unstack(high)]
            bits.append(tf.stack(each, axis=1))
    return bits


def _kernel(key, low, high, shape: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    """The bits of one walker, `(num_steps, padded numbers)`."""
    drawn = tf.raw_ops.StatelessRandomUniformFullIntV2
    return drawn(shape=shape, key=key, counter=tf.stack([low, high]), alg=_PHILOX, dtype=dtype)


@tf.function(autograph=False)
def _looped(key, low, high, shape: tuple[int, int], dtype: tf.DType) -> tf.Tensor:
    """The bits of several walkers, one after the other; a function, so that no eager call makes the loop in Python."""
    each = tf.map_fn(lambda word: _kernel(key, low, word, shape, dtype), high, fn_output_signature=dtype)
    return tf.transpose(each, (1, 0, 2))


@lru_cache(maxsize=256)
def _compiled(draw: Draw, num_steps: int) -> Callable:
    """Key and the two words of the counters to the bits of many walkers, compiled once for all keys."""

    def bits(key, low, high):
        return bits_of_blocks(draw, philox.words(key[0], low, high), num_steps)

    return tf.function(bits, autograph=False, jit_compile=True)


def _low_words(draw: Draw, first_step, num_steps: int) -> tf.Tensor:
    """Low words of the counters of one walker, uint64 `(num_steps, 1, counters)`."""
    low = tf.cast(first_step, tf.int64) * draw.counters() + tf.range(num_steps * draw.counters(), dtype=tf.int64)
    return tf.reshape(tf.cast(low, tf.uint64), (num_steps, 1, draw.counters()))


def draw_blocks(draws: Sequence[Draw], keys, first_step, num_steps: int, first_walker=0) -> list[list[tf.Tensor]]:
    """The bits of `draw_bits` as XLA makes them fastest: the four words of each Philox block apart. For each draw these
    are four uint32 tensors `(num_steps, walkers, blocks)`; `bits_of_blocks` puts them in order."""
    blocks = []
    for number, draw in enumerate(draws):
        low = _low_words(draw, first_step, num_steps)
        blocks.append(philox.words(keys[number], low, draw.high_words(first_walker)[:, None]))
    return blocks


def bits_of_blocks(draw: Draw, blocks: list[tf.Tensor], num_steps: int) -> tf.Tensor:
    """The bits of one draw, `(num_steps, walkers, padded numbers)`, from the words of its blocks."""
    return tf.reshape(philox.interleaved(blocks, draw.bit_type), (num_steps, *draw.padded))


def symmetric_uniform(bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Signed bits to uniform numbers in (-1, 1), never at an end."""
    half_range = 2.0 ** (8 * bits.dtype.size - 1)
    largest = 1.0 - float(np.finfo(dtype.as_numpy_dtype).eps)
    values = (tf.cast(bits, dtype) + 0.5) * tf.constant(1.0 / half_range, dtype)
    return tf.clip_by_value(values, tf.constant(-largest, dtype), tf.constant(largest, dtype))


def standard_normal(bits: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Signed bits to standard normal numbers: sqrt(2) erfinv(u). The lower half is computed and mirrored: outside of
    XLA the inverse goes by (u + 1)/2, which is coarse near 1 and infinite at the last number below it. float32 numbers
    end at 5.3 standard deviations (float64: 8.2); what is beyond has probability 1.2e-7 and is set to the end."""
    uniform = symmetric_uniform(bits, dtype)
    return tf.sign(uniform) * tf.math.erfinv(-tf.abs(uniform)) * tf.constant(-math.sqrt(2.0), dtype)


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


def numbers_of(draw: Draw, bits: tf.Tensor) -> tf.Tensor:
    """The numbers of one draw from its bits `(steps, walkers, padded numbers)`: `(steps, *shape)`. Made in whole
    vectors of the processor: what is left over at the end of an array goes by another logarithm, which rounds
    otherwise, and which steps stand there depends on where a chunk begins."""
    size = math.prod(bits.shape)
    whole = tf.reshape(bits, (size,))
    if rest := -size % _VECTOR:
        whole = tf.concat([whole, tf.zeros((rest,), bits.dtype)], axis=0)
    if draw.kind == "normal":
        numbers = standard_normal(whole, draw.dtype)
    else:
        numbers = 0.5 * (symmetric_uniform(whole, draw.dtype) + 1.0)
    numbers = tf.reshape(numbers[:size], bits.shape)
    return tf.reshape(numbers[:, :, : math.prod(draw.shape[1:])], (bits.shape[0], *draw.shape))


def draw_numbers(
    draws: Sequence[Draw], seed: int, purpose: str, first_step, num_steps: int, first_walker=0
) -> list[tf.Tensor]:
    """The numbers of all draws for `num_steps` steps: as `draw_bits`, `(num_steps, *shape)` each."""
    bits = draw_bits(draws, philox_keys(draws, seed, purpose), first_step, num_steps, first_walker)
    return [numbers_of(*pair) for pair in zip(draws, bits, strict=True)]


class Drawing:
    """The numbers of `num_steps` steps that a loop makes at once: drawn as bits, turned into numbers where used."""

    def __init__(self, draws: Sequence[Draw], num_steps: int, execution: str) -> None:
        self._draws, self._num_steps = draws, num_steps
        self._in_blocks = sum(draw.bytes() for draw in draws) >= _COMPILED_FROM_BYTES[execution]

        draw = draw_blocks if self._in_blocks else draw_bits

        def drawn(keys, first_step, first_walker) -> list:
            return draw(draws, keys, first_step, num_steps, first_walker)

        compiled = partial(tf.function, autograph=False, jit_compile=True)
        self.drawn = compiled(drawn) if self._in_blocks else drawn
        self.numbers = compiled(self._numbers) if self._in_blocks and execution == "graph" else self._numbers

    def _numbers(self, bits) -> list[tf.Tensor]:
        """The numbers of each draw, `(num_steps, *shape)`."""
        if self._in_blocks:
            bits = [bits_of_blocks(*pair, self._num_steps) for pair in zip(self._draws, bits, strict=True)]
        return [numbers_of(*pair) for pair in zip(self._draws, bits, strict=True)]


class StepNoise:
    """One step's numbers, of those that were made for many steps."""

    def __init__(self, draws: Sequence[Draw], numbers: Sequence[tf.Tensor]) -> None:
        self._waiting = list(zip(draws, numbers, strict=True))

    def normal(self, shape) -> tf.Tensor:
        return self._next("normal", shape)

    def uniform(self, shape) -> tf.Tensor:
        return self._next("uniform", shape)

    def _next(self, kind: str, shape) -> tf.Tensor:
        draw, numbers = self._waiting.pop(0)
        wanted = tuple(int(size) for size in shape)
        if (draw.kind, draw.shape) != (kind, wanted):
            raise RuntimeError(
                f"A step must ask for the same random numbers each time. Received: {kind} {wanted}. "
                f"Expected: {draw.kind} {draw.shape}."
            )
        return numbers
