"""How memory, files and time of a run grow with walkers, parameters and data: `python -m benchmarks.sizes [--quick]`.

Every case is a run of its own in a process of its own: random images, dense networks, BAOAB, a row and a
position of each walker every 100th step. Figures are reported, never asserted.
"""

from __future__ import annotations

import argparse
import json
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
"""What differs from a perceptron with 1 walker, 5,000 examples as float32 and mini-batches of 100."""


def measure(case: dict[str, Any], num_steps: int) -> dict[str, float]:
    """One run in this process.

    Args:
        case: Options, and `examples` and `bytes` for the data.
        num_steps: Length of the run.

    Returns:
        Parameters; memory at its largest and before the run, in MB; bytes of the files; milliseconds a step.
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
    data = Dataset.from_arrays(images, labels, input_scale=1 / 255) if as_bytes else (images, labels)
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
            "trajectory": float(sum(path.stat().st_size for path in run.folder.glob("trajectory.*"))),
            "checkpoint": float(sum(path.stat().st_size for path in (run.folder / "checkpoint").rglob("*")) / 2),
        }
        start = time.perf_counter()
        sim.sample(step_size=1e-4, friction=10.0, num_steps=num_steps, record_every=100, trajectory_every=100)
        found["milliseconds"] = 1e3 * (time.perf_counter() - start) / num_steps
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark.

    Args:
        argv: The arguments. Default: those of the process.
    """
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sizes", description="Memory, files, time of runs.")
    parser.add_argument("--quick", action="store_true", help="2,000 steps in place of 10,000")
    parser.add_argument("--case", help="one case alone, its figures as JSON")
    arguments = parser.parse_args(argv)
    num_steps = 2_000 if arguments.quick else 10_000
    if arguments.case is not None:
        print(json.dumps(measure(CASES[arguments.case], num_steps)))
        return 0
    lines = []
    for name in CASES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.sizes", "--case", name, *(["--quick"] if arguments.quick else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent.parent)
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
    head = ("run", "P", "MB before", "MB at most", "bytes a row", "kB a position", "MB a checkpoint", "ms a step")
    show(f"Sizes of runs of {num_steps:,} steps", head, lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
