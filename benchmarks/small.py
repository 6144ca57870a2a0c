"""Where overheads count: `python -m benchmarks.small [--quick]`. The perceptron of three
parameters, the start of a process, calls from Python, `--help`. Figures are reported, never
asserted.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.engine import show

TITLE = (
    "The perceptron of the two clusters: 3 parameters, 500 points, full batch, no prior, mean loss"
)
SYSTEM = {
    "data": "two_clusters",
    "loss": "mean_squared_error",
    "potential": "mean_loss",
    "prior": "none",
    "seed": 1,
}
DYNAMICS = {"sampler": "BAOAB", "step_size": 0.1, "friction": 10.0, "inverse_temperature": 10.0}

_FIRST_STEP = """
import time, tati_re
sim = tati_re.Simulation(**{system!r}, verbose=0)
sim.sample(**{dynamics!r}, num_steps=1, record_every=1)
print(time.time())
"""


def steps_per_second(num_steps: int, execution: str = "auto") -> tuple[float, float]:
    """Runs `Simulation.sample` on the two clusters, full batch, with all its files; each 100th step
    is recorded.

    Args:
        num_steps: Length of the run.
        execution: As the option.

    Returns:
        Steps per second between the first and the last flush, when all is compiled; and of the
        whole call.
    """
    from tati_re import Simulation

    simulation = Simulation(**SYSTEM, verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run = simulation.sample(
            **DYNAMICS,
            num_steps=num_steps,
            record_every=100,
            trajectory_every=100,
            checkpoint_seconds=0.1,
            execution=execution,
            output=str(Path(folder) / "run"),
        )
        whole = num_steps / (time.perf_counter() - began)
        timing = run.timing
    steps, seconds = timing["step"].to_numpy(), timing["seconds"].to_numpy()
    return float((steps[-1] - steps[0]) / (seconds[-1] - seconds[0])) if len(
        steps
    ) > 1 else whole, whole


def start_up(repetitions: int) -> float:
    """Seconds from the start of a Python process to the end of the first step, the median."""
    code = _FIRST_STEP.format(system=SYSTEM, dynamics=DYNAMICS)
    found = []
    for _ in range(repetitions):
        began = time.time()
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        found.append(float(done.stdout.split()[-1]) - began)
    return float(np.median(found))


def calls_per_second(repetitions: int, seconds: float) -> float:
    """Calls of `Simulation.gradients()`, the parameters changed before each, the median."""
    from tati_re import Simulation

    simulation = Simulation(**SYSTEM, verbose=0)
    start = simulation.parameters.copy()
    found = []
    for _ in range(repetitions + 1):
        began, calls = time.perf_counter(), 0
        while (elapsed := time.perf_counter() - began) < seconds:
            for _ in range(100):
                simulation.parameters = start + 1e-6 * calls
                simulation.gradients()
                calls += 1
        found.append(calls / elapsed)
    return float(np.median(found[1:]))


def process_seconds(repetitions: int, *arguments: str) -> float:
    """Seconds of a fresh Python process of these arguments, FOLDER in them a new one, from its
    start to its end, the median.
    """
    found = []
    for _ in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            command, began = (
                [word.replace("FOLDER", folder) for word in arguments],
                time.perf_counter(),
            )
            subprocess.run([sys.executable, *command], capture_output=True, check=True)
            found.append(time.perf_counter() - began)
    return float(np.median(found))


def report(quick: bool) -> list[tuple[str, str]]:
    """Measures all of it.

    Args:
        quick: Shorter runs and fewer repetitions.

    Returns:
        Lines of what and value.
    """
    steps = 200_000 if quick else 1_000_000
    repetitions = 1 if quick else 5
    compiled, whole = np.median([steps_per_second(steps) for _ in range(1 if quick else 3)], axis=0)
    graph, _ = steps_per_second(steps // 10, "graph")
    options = (
        SYSTEM
        | DYNAMICS
        | {"num_steps": 1, "record_every": 1, "verbose": 0, "output": "FOLDER/run"}
    )
    one_step = [
        word
        for name, value in options.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]

    def started(*arguments: str) -> str:
        return f"{process_seconds(repetitions, *arguments):.2f}"

    return [
        (f"steps/s over {steps:,} steps, every 100th recorded", f"{compiled:,.0f}"),
        ("the same with the time to compile", f"{whole:,.0f}"),
        ("steps/s with execution graph", f"{graph:,.0f}"),
        ("tati-sample of one step, s", started("-m", "tati_re.cli.sample", *one_step)),
        (
            "a script, from the start of its process to the end of its first step, s",
            f"{start_up(repetitions):.2f}",
        ),
        ("a process that imports TensorFlow, s", started("-c", "import tensorflow")),
        ("calls/s of gradients()", f"{calls_per_second(repetitions, 0.3 if quick else 2.0):,.0f}"),
        ("tati-sample --help, s", started("-m", "tati_re.cli.sample", "--help")),
        ("tati-optimize --help, s", started("-m", "tati_re.cli.optimize", "--help")),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line each."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.small", description="Where overheads count."
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs, each once")
    show(TITLE, ("", "here"), report(parser.parse_args(argv).quick))
    return 0


if __name__ == "__main__":
    sys.exit(main())
