"""What a swap costs beside its energies: `python -m benchmarks.swap_rules [--quick]`.

Draws of the compensation density beside `np.interp` in a table of 8001 rows, the search of its cut,
and batches drawn without replacement beside a shuffle of all examples; one run, interleaved
repetitions, medians. Figures are reported, never asserted.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.engine import show
from benchmarks.timing import interleaved, milliseconds_per_step

_DRAWS = 1_000_000
_EXAMPLES, _BATCH = 55_000, 550


def draws() -> dict[str, Callable[[], object]]:
    """A million compensated numbers, by several ways."""
    import tensorflow as tf

    from tati_re.exchange import compensation_table, quantile

    table = compensation_table(1.0)
    uniform = np.random.default_rng(0).random(_DRAWS)
    tensor = tf.constant(uniform)
    compiled = tf.function(lambda u: quantile(table, u), jit_compile=True)
    z = np.concatenate([-table.positions[:0:-2], table.positions[::2]])
    below = 1 / (1 + np.exp(-np.concatenate([-table.log_odds[:0:-2], table.log_odds[::2]])))
    return {
        "np.interp, 8001 rows": lambda: np.interp(uniform, below, z),
        "quantile, numpy": lambda: quantile(table, uniform),
        "quantile, XLA": lambda: compiled(tensor).numpy(),
    }


def batches() -> dict[str, Callable[[], object]]:
    """550 of 55,000 examples without replacement."""
    import tensorflow as tf

    from tati_re.exchange import NUM_KEYS, permuted

    generator = np.random.default_rng(0)
    keys = generator.random(NUM_KEYS)
    places = np.arange(_BATCH, dtype=np.int32)
    tensors = tf.constant(places), tf.constant(keys)
    functions = {
        name: tf.function(lambda p, k: permuted(p, k, _EXAMPLES), jit_compile=xla)
        for name, xla in (("XLA", True), ("graph", False))
    }
    return {
        "shuffle of all, numpy": lambda: generator.permutation(_EXAMPLES)[:_BATCH],
        "permuted, numpy": lambda: permuted(places, keys, _EXAMPLES),
    } | {
        f"permuted, {name}": (lambda call=call: call(*tensors).numpy())
        for name, call in functions.items()
    }


def measured(
    calls: dict[str, Callable[[], object]], repetitions: int, seconds: float
) -> dict[str, float]:
    """Milliseconds of one call of each."""

    def measure(call: Callable[[], object]) -> Callable[[float], float]:
        def once() -> int:
            call()
            return 1

        return lambda limit: milliseconds_per_step(once, limit)

    for call in calls.values():
        call()
    return interleaved(
        {name: measure(call) for name, call in calls.items()}, repetitions, seconds, always=calls
    )


def table_seconds(repetitions: int) -> tuple[float, float]:
    """Seconds of the search of a cut and of the table made with it, medians over variances."""
    from tati_re.exchange import best_cut, compensation_table

    found = []
    for variance in np.linspace(0.3, 1.0, repetitions):
        best_cut.cache_clear()
        compensation_table.cache_clear()
        began = time.perf_counter()
        best_cut(float(variance))
        middle = time.perf_counter()
        compensation_table(float(variance))
        found.append((middle - began, time.perf_counter() - middle))
    search, table = np.median(found, axis=0)
    return float(search), float(table)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.swap_rules", description="What a swap costs."
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 repetitions of 0.3 s in place of 5 of 1 s"
    )
    arguments = parser.parse_args(argv)
    repetitions, seconds = (3, 0.3) if arguments.quick else (5, 1.0)
    found = measured(draws(), repetitions, seconds)
    lines = [[name, f"{value:.1f}", f"{1e6 * value / _DRAWS:.1f}"] for name, value in found.items()]
    show("Compensated numbers at variance 1", ("way", "ms for 1e6", "ns a number"), lines)
    found = measured(batches(), repetitions, seconds)
    lines = [[name, f"{1e3 * value:.0f}"] for name, value in found.items()]
    show(f"{_BATCH} of {_EXAMPLES:,} examples without replacement", ("way", "microseconds"), lines)
    search, table = table_seconds(3 if arguments.quick else 9)
    show(
        "Compensation table",
        ("part", "ms"),
        [["best_cut", f"{1e3 * search:.0f}"], ["table", f"{1e3 * table:.0f}"]],
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
