"""What replica exchange costs beside independent walkers: `python -m benchmarks.exchange
[--quick]`.

Milliseconds of one step of 12 walkers of 784-10, batch 550 of 55,000, in one run with interleaved
repetitions and medians: BAOAB on 12 independent walkers, and on a ladder of 12 rungs that exchanges
every 20 steps by each rule. Figures are reported, never asserted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from benchmarks.engine import show
from benchmarks.ours import Steps
from benchmarks.systems import FRICTION, Row, measured
from benchmarks.timing import interleaved

RUNGS, EVERY, RATIO = 12, 20, 1.0237


def methods(step_size: float, batch_size: int) -> dict:
    """BAOAB alone, on a ladder without swaps, and with each rule."""
    from tati_re.exchange import (
        BarkerCompensated,
        Metropolis,
        Penalty,
        ReplicaExchange,
        geometric,
        make_swap_schedule,
    )
    from tati_re.samplers import Splitting

    word = Splitting("BAOAB", FRICTION)
    ladder = geometric(RUNGS, temperature_ratio=RATIO, step_size=step_size)

    def on_ladder(rule, batch=batch_size):
        schedule = None if rule is None else make_swap_schedule("even_odd", RUNGS)
        return ReplicaExchange(word, ladder, rule, schedule, EVERY, batch_size=batch)

    return {
        "12 independent walkers": word,
        "ladder, no swaps": on_ladder(None),
        "penalty, batch 550": on_ladder(Penalty(target_variance=None)),
        "penalty, variance below 1": on_ladder(Penalty(target_variance=1.0)),
        "compensated, variance below 1": on_ladder(BarkerCompensated(1.0)),
        "metropolis, all data": on_ladder(Metropolis(), None),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exchange", description="Cost of replica exchange."
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 repetitions of 0.5 s in place of 7 of 1.5 s"
    )
    arguments = parser.parse_args(argv)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    row = Row("784-10", RUNGS)
    _, _, options, _ = measured(row, "auto", "auto")
    measures = {}
    for name, method in methods(options.step_size, row.batch_size).items():
        print(f"compiling {name} ...", file=sys.stderr, flush=True)
        measures[name] = Steps(row, method=method).measure
    found = interleaved(
        measures, *((3, 0.5) if arguments.quick else (7, 1.5)), always=list(measures)
    )
    base = found["12 independent walkers"]
    lines = [
        [name, f"{value:.2f}", f"{100 * (value / base - 1):+.1f} %"]
        for name, value in found.items()
    ]
    title = f"784-10, {RUNGS} replicas, batch {row.batch_size}, swaps every {EVERY} steps, temperature ratio {RATIO}"
    show(title, ("method", "ms a step", "over independent walkers"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
