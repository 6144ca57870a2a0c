"""The limit of a step: nothing but the compiled gradient of the model, mini-batches gathered, again
and again.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from benchmarks.systems import Row, measured
from benchmarks.timing import milliseconds_per_step

_STEPS = 50


def bare_gradient(row: Row, execution: str, walker_evaluation: str) -> Callable[[float], float]:
    """Measures the gradient of the mean loss alone: no prior, no noise, no rows, batches drawn
    beforehand.

    Each step moves the position by 1e-9 of the gradient, so that no step can be left out.

    Args:
        row: Network, walkers, batches.
        execution: "xla" or "graph".
        walker_evaluation: As the option.

    Returns:
        A function of the seconds to measure that returns milliseconds a step.
    """
    import tensorflow as tf

    from tati_re.posterior import Batch
    from tati_re.samplers import Rung

    potential, position, _, _ = measured(row, execution, walker_evaluation, prior="none")
    indices, sizes = (tf.constant(values) for values in potential.batches.indices(0, _STEPS))
    auxiliary = tuple(tf.constant(value) for value in potential.auxiliary)
    ones = tf.ones((row.walkers,), tf.float64)
    rung = Rung(ones, ones, ones)

    @tf.function(autograph=False, jit_compile=execution == "xla")
    def steps(position, indices, sizes):
        def body(i, position):
            energy = potential.bind(rung, Batch(indices[i], sizes[i]), auxiliary)(position)
            return i + 1, position - 1e-9 * energy.gradient

        return tf.while_loop(lambda i, position: i < _STEPS, body, (tf.constant(0), position))[1]

    place = [tf.constant(position)]

    def call() -> int:
        place[0] = steps(place[0], indices, sizes)
        np.asarray(place[0])
        return _STEPS

    call()
    return lambda seconds: milliseconds_per_step(call, seconds)
