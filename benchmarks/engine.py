"""One table of speeds: `python -m benchmarks.engine [--quick] [--rows NAME ...] [--auto-only]
[--device gpu]`.

For each row, in one run with interleaved repetitions and medians: the bare compiled gradient (the
limit of a step), whole steps of BAOAB, the same job written by hand as a `jax.lax.scan`, and every
other `execution` and `walker_evaluation` beside those that "auto" chose. The images are random,
55,000 of 784 bytes with scale 1/255; the mini-batches are gathered as bytes. Figures are reported,
never asserted. On a GPU the rows are others, and only what "auto" chose is measured beside the bare
gradient and JAX, for compiling a ResNet in all ways takes long.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import jax_scan
from benchmarks.bare import bare_gradient
from benchmarks.ours import Steps
from benchmarks.systems import ON_GPU, ROWS, Row
from benchmarks.timing import interleaved

PERCEPTRON = "perceptron"
DEVICE_ROWS = ["784-10x1", "784-100-10x1", "784-100-10x8-own", *(row.name for row in ON_GPU)]


class Result(NamedTuple):
    """What was measured in one row, milliseconds a step by name.

    Attributes:
        row: The row.
        chosen: Execution and walker evaluation that "auto" came to.
        auto: BAOAB with these.
        bare: The bare gradient by execution and walker evaluation.
        others: BAOAB with all other executions and walker evaluations.
        jax: The scan by its form; empty without JAX.
    """

    row: Row
    chosen: str
    auto: float
    bare: dict[str, float]
    others: dict[str, float]
    jax: dict[str, float]


def measure(
    row: Row, repetitions: int, seconds: float, with_jax: bool, auto_only: bool = False
) -> Result:
    """Measures one row.

    Args:
        row: The row.
        repetitions: Rounds.
        seconds: Of one measurement.
        with_jax: JAX is installed.
        auto_only: No other execution and walker evaluation than those of "auto".
    """
    auto = Steps(row)
    executions = ("xla", "graph") if auto.xla_safe else ("graph",)
    ways = [(execution, how) for execution in executions for how in row.evaluations]
    if auto_only:
        ways = [(auto.execution, auto.walker_evaluation)]
    chosen = f"{auto.execution} {auto.walker_evaluation}"
    measures = {f"auto {chosen}": auto.measure}
    for execution, how in ways:
        measures[f"bare {execution} {how}"] = bare_gradient(row, execution, how)
        if f"{execution} {how}" != chosen:
            measures[f"other {execution} {how}"] = Steps(row, execution, how).measure
    peers = (
        {form: jax_scan.JaxScan(row, form) for form in jax_scan.forms(row)}
        if with_jax and row.in_jax
        else {}
    )
    measures |= {f"jax {form}": peer.measure for form, peer in peers.items()}
    found = interleaved(measures, repetitions, seconds, always=[f"auto {chosen}"])
    for peer in peers.values():
        peer.close()

    def of(kind: str) -> dict[str, float]:
        return {
            name.removeprefix(f"{kind} "): value
            for name, value in found.items()
            if name.startswith(f"{kind} ")
        }

    return Result(row, chosen, found[f"auto {chosen}"], of("bare"), of("other"), of("jax"))


def cells(result: Result) -> list[str]:
    """The row's cells of the main table."""
    bare, jax = (
        _fastest(result.bare),
        _fastest({form: v for form, v in result.jax.items() if not form.endswith("bare")}),
    )
    beside = [f"{jax[1]:.3f}", jax[0], f"{jax[1] / result.auto:.2f}"] if jax else ["", "", ""]
    ratio = f"{bare[1] / result.auto:.2f}"
    limit = [f"{bare[1]:.3f}", bare[0], f"{result.auto:.3f}", ratio]
    return [result.row.name, *limit, *beside, result.chosen, f"{1e3 / result.auto:,.0f}"]


def other_cells(result: Result) -> list[str]:
    """The row's cells of the table of other executions."""
    best = _fastest(result.others)
    every = ", ".join(f"{name} {result.auto / value:.2f}" for name, value in result.others.items())
    gain = result.auto / best[1] if best else 0.0
    return [
        result.row.name,
        result.chosen,
        f"{'above 1.10: ' if gain > 1.1 else ''}{gain:.2f}",
        every,
    ]


def _fastest(values: dict[str, float]) -> tuple[str, float] | None:
    return min(values.items(), key=lambda item: item[1]) if values else None


def show(title: str, heads: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Prints a table in Markdown, its columns aligned."""
    widths = [
        max(3, *(len(row[column]) for row in (heads, *lines))) for column in range(len(heads))
    ]
    print(f"\n{title}\n")
    for row in (heads, ["-" * width for width in widths], *lines):
        print(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            + " |"
        )
    print()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engine", description="Speed beside its limit and JAX."
    )
    parser.add_argument(
        "--quick", action="store_true", help="3 repetitions of 0.3 s in place of 5 of 1 s"
    )
    known = [*ROWS, PERCEPTRON]
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=known,
        metavar="NAME",
        help=f"of {', '.join(known)}; default all but those with resnet20 or x64, and on a GPU "
        f"{', '.join(DEVICE_ROWS)}",
    )
    parser.add_argument(
        "--auto-only",
        action="store_true",
        help="no other execution or walker evaluation than auto's",
    )
    parser.add_argument(
        "--device", choices=["cpu", "gpu"], help="default: a GPU where TensorFlow sees one"
    )
    arguments = parser.parse_args(argv)
    on_gpu = _placed(arguments.device)
    if on_gpu is None:
        print("error: --device gpu: TensorFlow sees no GPU here.", file=sys.stderr)
        return 2
    small = [name for name in known if name not in [row.name for row in ON_GPU]]
    arguments.rows = arguments.rows or (DEVICE_ROWS if on_gpu else small)
    # Many loops are compiled on purpose; TensorFlow takes that for one function traced again and
    # again, and warns.
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    repetitions, seconds = (3, 0.3) if arguments.quick else (5, 1.0)
    with_jax = jax_scan.available()
    if not with_jax:
        print('jax is not installed, its columns stay empty: pip install "tati_re[bench]".')
    began, load = time.time(), os.getloadavg()[0]
    results = []
    for name in arguments.rows:
        if name in ROWS:
            print(f"measuring {name} ...", file=sys.stderr, flush=True)
            results.append(
                measure(ROWS[name], repetitions, seconds, with_jax, arguments.auto_only or on_gpu)
            )
            # A row each as it is done, so that a run cut short has told what it found.
            print(
                f"  {' | '.join(cells(results[-1]))}; others {other_cells(results[-1])[2]}",
                file=sys.stderr,
                flush=True,
            )
    if results:
        _show(results, repetitions, seconds)
    if PERCEPTRON in arguments.rows:
        from benchmarks.small import TITLE, report

        print(f"measuring {PERCEPTRON} ...", file=sys.stderr, flush=True)
        show(TITLE, ("", "here"), report(arguments.quick))
    print(
        f"\n{_machine()}; load {load:.1f} before and {os.getloadavg()[0]:.1f} after, {time.time() - began:.0f} s."
    )
    return 0


def _placed(device: str | None) -> bool | None:
    """Whether what follows runs on a GPU; None where one is asked for and not there."""
    if device == "cpu":
        os.environ.update(CUDA_VISIBLE_DEVICES="-1", JAX_PLATFORMS="cpu")
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # JAX is beside it
    import tensorflow as tf

    return True if tf.config.list_physical_devices("GPU") else None if device == "gpu" else False


def _show(results: Sequence[Result], repetitions: int, seconds: float) -> None:
    heads = (
        "row",
        "bare ms",
        "by",
        "BAOAB ms",
        "bare/BAOAB",
        "jax ms",
        "by",
        "jax/BAOAB",
        "auto",
        "steps/s",
    )
    title = f"Milliseconds of one step of all walkers, medians of {repetitions} interleaved repetitions of {seconds} s"
    show(title, heads, [cells(result) for result in results])
    print(
        "bare: gradient of the mean loss, mini-batch gathered as bytes, fastest way. jax: lax.scan by hand, images "
        "stored as bytes\nor as float32, the faster. Ratios are rates: bare/BAOAB 1 is the limit, jax/BAOAB above 1 "
        "is faster than JAX."
    )
    if any(result.jax for result in results):
        forms = list(dict.fromkeys(form for result in results for form in result.jax))
        lines = [
            [r.row.name, *(f"{r.jax[form]:.3f}" if form in r.jax else "" for form in forms)]
            for r in results
        ]
        show("JAX by form, ms; bare is its gradient alone", ("row", *forms), lines)
    if any(result.others for result in results):
        heads = ("row", "auto", "fastest other", "rate of every other way beside that of auto")
        show(
            "Other executions and walker evaluations",
            heads,
            [other_cells(result) for result in results],
        )


def _machine() -> str:
    import keras
    import tensorflow as tf

    versions = f"Python {platform.python_version()}, TensorFlow {tf.__version__}, Keras {keras.__version__}"
    if jax_scan.available():
        import importlib.metadata

        versions += f", JAX {importlib.metadata.version('jax')}"
    gpus = [
        tf.config.experimental.get_device_details(gpu)["device_name"]
        for gpu in tf.config.list_physical_devices("GPU")
    ]
    return ", ".join([f"{os.cpu_count()} cores", *gpus, versions])


if __name__ == "__main__":
    sys.exit(main())
