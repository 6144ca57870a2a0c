"""Interleaved repetitions and their medians: every figure of a table is measured in turn with the
others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

import numpy as np

_HOPELESS = 4.0
ONE_THREAD = {
    "TF_NUM_INTRAOP_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
"""Environment of a process whose processor time is looked at: threads that wait for work spend it
too.
"""


def milliseconds_per_step(call: Callable[[], int], seconds: float) -> float:
    """Calls again and again for at least `seconds`.

    Args:
        call: Takes steps and returns how many.
        seconds: Above 0.

    Returns:
        Milliseconds of one step.
    """
    began, steps = time.perf_counter(), 0
    while True:
        steps += call()
        elapsed = time.perf_counter() - began
        if elapsed >= seconds:
            return 1e3 * elapsed / steps


def interleaved(
    measures: Mapping[str, Callable[[float], float]],
    repetitions: int,
    seconds: float,
    always: Collection[str] = (),
) -> dict[str, float]:
    """Measures each in turn, so that what else the machine does meets all of them alike.

    A round of a fifth of the time goes before, as warm-up; what takes more than 4 times as long as
    the fastest there is not measured again.

    Args:
        measures: By name, a function of the seconds to measure that returns milliseconds a step.
        repetitions: How many rounds.
        seconds: Of one measurement.
        always: Names that are measured in every round, however slow.

    Returns:
        The median of each over the rounds.
    """
    first = {name: measure(0.2 * seconds) for name, measure in measures.items()}
    limit = _HOPELESS * min(first.values())
    found = {name: [] for name, value in first.items() if value <= limit or name in always}
    for _ in range(repetitions):
        for name, values in found.items():
            values.append(measures[name](seconds))
    return first | {name: float(np.median(values)) for name, values in found.items()}
