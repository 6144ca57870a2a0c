"""Examples drawn without replacement, a few at a time, without an ordering of all of them.

A keyed permutation of 0, ..., N - 1 is evaluated where it is asked for: the images of the places 0
to n - 1 are a random subset, the next places enlarge it, and all N places give every example once.
It costs n places, whatever N.

Source: J. Black, P. Rogaway, Ciphers with arbitrary finite domains (2002): a generalized Feistel
network on a x b >= N numbers, and cycle walking, which sends numbers outside of 0, ..., N - 1
through it again until they are inside.
"""

import math

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.ops import as_int32, as_uint32, constant, repeat_while_any, shift_right, where

NUM_KEYS = 12
"""Rounds after which pairs of images are uniform to 1 part in 1000 for every N; large N need
fewer.
"""

LARGEST_COUNT = 2**31


@front_door
def permuted(numbers, keys, count: int):
    """Returns entries of a pseudo-random permutation of 0, ..., `count` - 1.

    They are int32, `(n,)` or `(pairs, n)`, the same from numpy and TensorFlow, and distinct for
    distinct places.

    Args:
        numbers: int32 `(n,)`, each from 0 to count - 1; numpy or TensorFlow.
        keys: Uniform numbers in (0, 1), float64, `(rounds,)`, or `(pairs, rounds)` for one
            permutation per pair. `NUM_KEYS` rounds are enough.
        count: N from 1 to 2³¹, known when the step is compiled.

    Returns:
        Entries of the permutation, int32, `(n,)` or `(pairs, n)`.

    Raises:
        InputError: `count` is out of range, or there are fewer than 4 keys.

    Examples:
        >>> import numpy as np
        >>> keys = np.random.default_rng(0).random(NUM_KEYS)
        >>> sorted(permuted(np.arange(5, dtype=np.int32), keys, 5).tolist())
        [0, 1, 2, 3, 4]
    """
    if not 1 <= count <= LARGEST_COUNT:
        raise InputError(
            "The length of the permutation is out of range.", count, f"1 to {LARGEST_COUNT}"
        )
    refuse_if(
        keys.shape[-1] < 4,
        "A permutation needs more keys.",
        keys.shape[-1],
        f"at least 4, preferably {NUM_KEYS}",
    )
    rows = math.isqrt(count - 1) + 1
    columns = -(-count // rows)
    words = [as_uint32(keys[..., number] * 2.0**32)[..., None] for number in range(keys.shape[-1])]
    size = constant(count, words[0])

    def once(values):
        high = values // constant(columns, values)
        low = values % constant(columns, values)
        for number, word in enumerate(words):
            if number % 2 == 0:
                high = (high + _hashed(low, word, number) % constant(rows, values)) % constant(
                    rows, values
                )
            else:
                low = (low + _hashed(high, word, number) % constant(columns, values)) % constant(
                    columns, values
                )
        return high * constant(columns, values) + low

    # Ends: the permutation of the rows x columns numbers leads every number outside back to where
    # its cycle came from.
    def back(values):
        return where(values >= size, once(values), values)

    return as_int32(repeat_while_any(lambda values: values >= size, back, once(as_uint32(numbers))))


def _hashed(values, word, number: int):
    """32 bits that depend on all bits of a value and of a key: Murmur's finalizer (Appleby 2011),
    keyed twice.
    """
    values = (values + constant(0x9E3779B9 * (number + 1) % 2**32, values)) ^ word
    values = (values ^ shift_right(values, 16)) * constant(0x85EBCA6B, values)
    values = ((values ^ shift_right(values, 13)) + word) * constant(0xC2B2AE35, values)
    return values ^ shift_right(values, 16)
