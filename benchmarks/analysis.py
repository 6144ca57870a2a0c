"""Leading eigenpairs of a large covariance: `python -m benchmarks.analysis [--quick] [--folder
DIR]`.

Makes a run folder with a `trajectory.h5` of 10,000 positions of 79,510 parameters (784-100-10; 3.2
GB, in float32) whose covariance decays over four orders, asks in a process of its own for the 64
leading eigenpairs, and says time, passes, peak memory and residuals. Figures are reported, never
asserted.
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

import numpy as np

FACTORS = 400
BLOCK = 250
NOISE = 1e-3


def make_run(folder: Path, num_rows: int, num_parameters: int) -> None:
    """Writes the run folder: 4 walkers, x = mean + Σ sqrt(λ_k) g_k v_k + noise, λ_k = 4·10^(-4
    k/400).
    """
    from tati_re.runs import H5Table, manifest

    generator = np.random.default_rng(0)
    vectors = np.linalg.qr(generator.standard_normal((num_parameters, FACTORS)))[0].T.astype(
        np.float32
    )
    scale = 2.0 * 10 ** (-2.0 * np.arange(FACTORS) / FACTORS)
    names = [f"dense/kernel[{k}]" for k in range(num_parameters)]
    table = H5Table(
        folder / "trajectory.h5", ["step", "walker", "potential", "loss", *names], dtype="float32"
    )
    for first in range(0, num_rows, BLOCK):
        number = np.arange(first, min(first + BLOCK, num_rows))
        factors = (generator.standard_normal((len(number), FACTORS)) * scale).astype(np.float32)
        rows = np.zeros((len(number), 4 + num_parameters))
        rows[:, 0], rows[:, 1] = 10 * (number // 4 + 1), number % 4
        rows[:, 4:] = 0.5 + factors @ vectors
        rows[:, 4:] += NOISE * generator.standard_normal(
            (len(number), num_parameters), dtype=np.float32
        )
        table.append(rows)
        table.flush()
    table.flush()
    content = {"kind": "sample", "options": {"num_walkers": 4}, "temperature": 1.0}
    shape = {"num": num_parameters, "names": ["dense/kernel"], "shapes": [[num_parameters]]}
    manifest.write(folder, content | {"parameters": shape})


def measure(folder: Path, num_eigenpairs: int) -> dict:
    """Seconds, passes and peak memory of this process; eigenvalues and the largest relative
    residual.
    """
    from tati_re.analysis import covariance_eigenpairs

    began = time.perf_counter()
    found = covariance_eigenpairs(folder, num_eigenpairs)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": seconds,
        "processor_seconds": used.ru_utime + used.ru_stime,
        "passes": found.num_passes,
        "rows": found.num_rows,
        "parameters": len(found.mean),
        "gigabytes": used.ru_maxrss / 2**20,
        "residual": float((found.residuals / found.values).max()),
        "largest": float(found.values[0]),
        "smallest": float(found.values[-1]),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark and prints a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.analysis", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--quick", action="store_true", help="1,000 positions of 7,850 parameters, 16 eigenpairs"
    )
    parser.add_argument(
        "--folder", help="where the run folder is made and kept; default a temporary one"
    )
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    typed = parser.parse_args(argv)
    rows, parameters, pairs = (1_000, 7_850, 16) if typed.quick else (10_000, 79_510, 64)
    if typed.measure:
        print(json.dumps(measure(Path(typed.measure), pairs)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = Path(typed.folder or made)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "manifest.toml").exists():
            make_run(folder, rows, parameters)
        own = [
            sys.executable,
            "-m",
            "benchmarks.analysis",
            "--measure",
            str(folder),
            *(["--quick"] * typed.quick),
        ]
        done = subprocess.run(own, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        f"{found['rows']:,} positions of {found['parameters']:,} parameters, {pairs} leading eigenpairs"
    )
    print(f"  time         {found['seconds']:.1f} s, {found['passes']} passes over the file")
    print(f"  processors   {found['processor_seconds']:.1f} s, of all cores together")
    print(f"  peak memory  {found['gigabytes']:.2f} GB, of the whole process")
    print(f"  residuals    at most {found['residual']:.1e} of their eigenvalue")
    print(f"  eigenvalues  {found['largest']:.4g} to {found['smallest']:.4g}")


if __name__ == "__main__":
    main()
