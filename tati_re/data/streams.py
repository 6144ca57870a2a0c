"""Counter-based random streams of numpy: numbers depend on a key and a counter, never on earlier
draws.
"""

import numpy as np

from tati_re.core.errors import InputError

SPLIT, GENERATE, GENERATE_TEST, BATCHES = range(1, 5)
"""The purpose of a stream: the second word of its key, so that no two purposes share numbers."""


def stream(seed: int, purpose: int, *counter: int, stage: int = 0) -> np.random.Generator:
    """The generator for a seed in [0, 2**63), a purpose of this module, and up to two counters, as
    (epoch, walker). Philox 4x64 (Salmon et al. 2011) with key (seed, purpose); the stage of a fit,
    in [0, 2**32), is the upper half of the second word. The counters fill the two high words of its
    256-bit counter, so that no two overlap.
    """
    if not isinstance(seed, (int, np.integer)) or isinstance(seed, bool) or not 0 <= seed < 2**63:
        raise InputError("seed is not valid.", seed, "an integer from 0 to 2**63 - 1")
    words = np.zeros(4, np.uint64)
    words[2 : 2 + len(counter)] = counter
    key = np.array([seed, purpose + (stage << 32)], np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=words))
