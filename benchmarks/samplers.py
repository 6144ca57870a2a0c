"""What each sampler costs beside the bare gradient: `python -m benchmarks.samplers [--quick]
[--network 784-100-10]`.

Milliseconds of one step of all walkers, in one run with interleaved repetitions and medians, over
the bare compiled gradient on the same mini-batches times the gradients that a step of the sampler
needs. Figures are reported, never asserted.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence

from benchmarks.bare import bare_gradient
from benchmarks.engine import show
from benchmarks.ours import Steps
from benchmarks.systems import FRICTION, Row
from benchmarks.timing import interleaved


def methods() -> dict:
    """Samplers for mini-batches by name, momentum methods first."""
    from tati_re.samplers import (
        SGHMC,
        SGLD,
        SGNHT,
        CCAdL,
        ControlVariate,
        EnsembleQuasiNewton,
        LeimkuhlerMatthews,
        Massive,
        PreconditionedSGLD,
        Splitting,
    )

    words = {
        word: Splitting(word, FRICTION) for word in ("BAOAB", "OBABO", "GLA1", "GLA2", "BADODAB")
    }
    return words | {
        "SGHMC": SGHMC(FRICTION),
        "SGNHT": SGNHT(FRICTION),
        "SGLD": SGLD(),
        "LM": LeimkuhlerMatthews(),
        "pSGLD": PreconditionedSGLD(),
        "BAOAB, mass by gradient rms": Massive(Splitting("BAOAB", FRICTION)),
        "BAOAB, control variate": ControlVariate(Splitting("BAOAB", FRICTION)),
        "BAOAB, ensemble (EQN, halves)": EnsembleQuasiNewton(Splitting("BAOAB", FRICTION)),
        "BAOAB, ensemble (EQN, simultaneous)": EnsembleQuasiNewton(
            Splitting("BAOAB", FRICTION), scheme="simultaneous"
        ),
        "CCAdL": CCAdL(FRICTION),
        "mCCAdL": Splitting("mCCAdL", FRICTION),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.samplers", description="Samplers beside the gradient."
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 repetitions of 0.3 s in place of 5 of 1 s"
    )
    parser.add_argument("--network", choices=("784-10", "784-100-10"), default="784-10")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="samplers whose names begin so; default all"
    )
    arguments = parser.parse_args(argv)
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    row = Row(arguments.network, 8)
    measures = {
        f"bare {how}": bare_gradient(row, "xla", how)
        for how in ("unrolled", "looped", "vectorized")
    }
    chosen = {
        name: method
        for name, method in methods().items()
        if not arguments.only or name.startswith(tuple(arguments.only))
    }
    for name, method in chosen.items():
        print(f"compiling {name} ...", file=sys.stderr, flush=True)
        measures[name] = Steps(row, method=method).measure
    found = interleaved(measures, *((3, 0.3) if arguments.quick else (5, 1.0)), always=list(chosen))
    bare = min(value for name, value in found.items() if name.startswith("bare "))
    lines = []
    for name, method in chosen.items():
        gradients = method.gradients_per_step
        lines.append(
            [
                name,
                f"{gradients:g}",
                f"{found[name]:.2f}",
                f"{found[name] / (gradients * bare):.2f}",
            ]
        )
    title = f"{arguments.network}, 8 walkers with own mini-batches of {row.batch_size}; bare gradient {bare:.2f} ms"
    show(title, ("sampler", "gradients", "ms a step", "over the bare gradients"), lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
