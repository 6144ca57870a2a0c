"""Counter-based random streams of numpy: numbers depend on a key and a counter, never on earlier
draws.
"""

import numpy as np

from tati_re.core.errors import InputError

SPLIT, GENERATE, GENERATE_TEST, BATCHES = range(1, 5)
"""The purpose of a stream: the second word of its key, so that no two purposes share numbers."""


def stream(seed: int, purpose: int, *counter: int, stage: int = 0) -> np.random.Generator:
    """The random generator of a seed, a purpose and counters; no two share numbers.

    It is Philox 4x64 (Salmon et al. 2011) with the key (seed, purpose). The counters fill the two
    high words of its 256-bit counter.

    Args:
        seed: In [0, 2**63).
        purpose: A purpose of this module, such as `SPLIT`.
        *counter: Up to two counters, such as (epoch, walker).
        stage: The stage of a fit, in [0, 2**32), the upper half of the second word of the key.
            Default: 0.

    Raises:
        InputError: The seed is not valid.
    """
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise InputError("seed is not valid.", seed, "an integer from 0 to 2**63 - 1")
    words = np.zeros(4, np.uint64)
    words[2 : 2 + len(counter)] = counter
    key = np.array([seed, purpose + (stage << 32)], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=words))
