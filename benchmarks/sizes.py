"""How memory, files and time grow with walkers, parameters and data: `python -m benchmarks.sizes
[--quick | --growth]`.

Every case is a run of its own in a process of its own: random images, dense networks, BAOAB, a row
and a position of each walker every 100th step. Figures are reported, never asserted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine import show
from benchmarks.systems import Row, images
from benchmarks.timing import ONE_THREAD

CASES: dict[str, dict[str, Any]] = {
    "perceptron 784-10": {},
    "4 walkers": {"num_walkers": 4},
    "16 walkers": {"num_walkers": 16},
    "784-100-10": {"hidden": [100]},
    "784-100-10, 8 walkers": {"hidden": [100], "num_walkers": 8},
    "784-1000-10": {"hidden": [1000]},
    "50,000 examples as float32": {"examples": 50_000},
    "50,000 examples as bytes": {"examples": 50_000, "bytes": True},
    "batch of 1,000": {"batch_size": 1_000},
}
"""What differs from a perceptron with 1 walker, 5,000 examples as float32 and mini-batches of
100.
"""
GROWTH = [
    *(
        (hidden, walkers, 1_000)
        for hidden in (10, 100, 1_000)
        for walkers in (1, 8, 64, 256, 1_024)
    ),
    *((10, walkers, examples) for examples in (10_000, 100_000, 1_000_000) for walkers in (1, 64)),
]
"""Hidden units, walkers and examples of `--growth`."""
_MOST_BYTES = 8e9
"""What a case of `--growth` may take; of those that take more the page's formula tells how much."""


def predicted(parameters: int, walkers: int) -> float:
    """Bytes of a run, as userguide/sizes.md has it: some 1.1 GB, and 170 for each parameter of each
    walker.
    """
    return 1.1e9 + 170.0 * parameters * walkers


def measure(case: dict[str, Any], num_steps: int) -> dict[str, float]:
    """One run in this process.

    Args:
        case: Options, and `examples` and `bytes` for the data.
        num_steps: Length of the run.

    Returns:
        Parameters; memory at its largest and before the run, in MB; bytes of the files;
        milliseconds a step.
    """
    import tati_re
    from tati_re.data import Dataset

    options = {"batch_size": 100, "num_walkers": 1, **case}
    count, as_bytes = options.pop("examples", 5_000), options.pop("bytes", False)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, 784), dtype=np.uint8)
    if not as_bytes:
        images = images.astype(np.float32) / 255
    labels = generator.integers(0, 10, count).astype(np.int32)
    data = (
        Dataset.from_arrays(images, labels, input_scale=1 / 255) if as_bytes else (images, labels)
    )
    sim = tati_re.Simulation(data=data, seed=0, verbose=0, **options)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    with tempfile.TemporaryDirectory() as folder:
        run = sim.sample(
            step_size=1e-4,
            friction=10.0,
            num_steps=num_steps,
            record_every=100,
            trajectory_every=100,
            output=f"{folder}/run",
        )
        found = {
            "parameters": float(sim.num_parameters()),
            "before": before,
            "largest": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "run.csv": float((run.folder / "run.csv").stat().st_size),
            "trajectory": float(
                sum(path.stat().st_size for path in run.folder.glob("trajectory.*"))
            ),
            "checkpoint": float(
                sum(path.stat().st_size for path in (run.folder / "checkpoint").rglob("*")) / 2
            ),
        }
        start = time.perf_counter()
        sim.sample(
            step_size=1e-4,
            friction=10.0,
            num_steps=num_steps,
            record_every=100,
            trajectory_every=100,
        )
        found["milliseconds"] = 1e3 * (time.perf_counter() - start) / num_steps
    return found


def grown(hidden: int, walkers: int, examples: int) -> dict[str, float]:
    """Memory before and at most, MB, and milliseconds of processor time a walker and step of the
    compiled loop.

    784-hidden-10, images as bytes, own mini-batches of 100, one thread; memory is that of a short
    run.
    """
    import tati_re
    from benchmarks.ours import Steps
    from tati_re.data import Dataset

    row = Row(f"784-{hidden}-10", walkers, "own", 100, examples)
    data = Dataset.from_arrays(*images(count=examples), input_scale=1 / 255)
    sim = tati_re.Simulation(
        data=data,
        hidden=[hidden],
        num_walkers=walkers,
        batch_size=100,
        seed=0,
        verbose=0,
        standardize="none",
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    num_steps = max(4, int(400 / walkers / max(hidden / 10, 1)))
    options = {
        "sampler": "BAOAB",
        "step_size": 1e-5,
        "friction": 10.0,
        "execution": "xla",
        "num_burnin_steps": 0,
    }
    options |= {"record_every": 100, "trajectory_every": num_steps, "checkpoint_seconds": 1e6}
    with tempfile.TemporaryDirectory() as folder:
        sim.sample(num_steps=num_steps, output=f"{folder}/run", **options)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    found, steps = [], Steps(row, "xla")
    for _ in range(3):
        wall, spent = time.perf_counter(), time.process_time()
        taken = steps.measure(1.0) / walkers
        found.append(taken * (time.process_time() - spent) / (time.perf_counter() - wall))
    parameters = float(sim.num_parameters())
    return {
        "parameters": parameters,
        "before": before,
        "largest": largest,
        "each": float(np.median(found)),
    }


def growth() -> int:
    lines = []
    for hidden, walkers, examples in GROWTH:
        parameters = 785 * hidden + 10 * (hidden + 1)
        if (total := predicted(parameters, walkers)) > _MOST_BYTES:
            needed = f"{total / 2**20:,.0f} by the formula"
            lines.append(
                [str(hidden), f"{walkers:,}", f"{examples:,}", f"{parameters:,}", needed, "", ""]
            )
            continue
        name = f"{hidden},{walkers},{examples}"
        print(f"{name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.sizes", "--case", name]
        place = {"cwd": Path(__file__).parent.parent, "env": os.environ | ONE_THREAD}
        done = subprocess.run(command, capture_output=True, text=True, check=True, **place)
        found = json.loads(done.stdout.splitlines()[-1])
        one = (found["largest"] - found["before"]) / walkers
        size = f"{found['parameters']:,.0f}"
        times = [f"{found['largest']:,.0f}", f"{one:,.1f}", f"{found['each']:.3f}"]
        lines.append([str(hidden), f"{walkers:,}", f"{examples:,}", size, *times])
        print(lines[-1], file=sys.stderr, flush=True)
    head = (
        "hidden",
        "walkers",
        "examples",
        "P",
        "MB at most",
        "MB a walker",
        "ms of processor a walker and step",
    )
    show("784-hidden-10, mini-batches of 100 of bytes, XLA", head, lines)
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes", description="Memory, files, time of runs."
    )
    parser.add_argument("--quick", action="store_true", help="2,000 steps in place of 10,000")
    parser.add_argument(
        "--growth",
        action="store_true",
        help="how time and memory grow with walkers, width and data",
    )
    parser.add_argument("--case", help="one case alone, its figures as JSON")
    arguments = parser.parse_args(argv)
    num_steps = 2_000 if arguments.quick else 10_000
    if arguments.growth:
        return growth()
    if arguments.case is not None:
        case = CASES.get(arguments.case)
        found = (
            grown(*map(int, arguments.case.split(",")))
            if case is None
            else measure(case, num_steps)
        )
        print(json.dumps(found))
        return 0
    lines = []
    for name in CASES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        command = [
            sys.executable,
            "-m",
            "benchmarks.sizes",
            "--case",
            name,
            *(["--quick"] if arguments.quick else []),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent
        )
        found = json.loads(done.stdout.splitlines()[-1])
        walkers = CASES[name].get("num_walkers", 1)
        rows = walkers * num_steps / 100
        lines.append(
            [
                name,
                f"{found['parameters']:,.0f}",
                f"{found['before']:,.0f}",
                f"{found['largest']:,.0f}",
                f"{found['run.csv'] / rows:,.0f}",
                f"{found['trajectory'] / rows / 1e3:,.1f}",
                f"{found['checkpoint'] / 1e6:,.2f}",
                f"{found['milliseconds']:.2f}",
            ]
        )
    head = (
        "run",
        "P",
        "MB before",
        "MB at most",
        "bytes a row",
        "kB a position",
        "MB a checkpoint",
        "ms a step",
    )
    show(f"Sizes of runs of {num_steps:,} steps", head, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
