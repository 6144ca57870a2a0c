"""Samples posteriors of posteriordb by defaults: `python -m benchmarks.posteriordb --data FOLDER`.

FOLDER holds a JSON file for each posterior: `data`, and of the reference draws `names`, `mean`,
`var`, `mcse_mean` and `quantiles` (5, 50 and 95 %). Rows that the table has already are left out, so
that a measurement goes on where it stopped. `--rivals nuts --python PYTHON` adds rows of NumPyro's
NUTS, sampled with that Python.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import tati_re
from benchmarks.posteriordb.comparison import (
    compared,
    entries_of_reference,
    least_effective_size,
)
from benchmarks.posteriordb.cost import first_step, gradients_of
from benchmarks.posteriordb.models import MODELS

OURS = "tati_re"
NUTS = "NumPyro NUTS"


def measured(name: str, folder: Path, seed: int, **options: Any) -> dict[str, Any]:
    """One run of one posterior, as a row of the table."""
    reference = json.loads((folder / f"{name}.json").read_text())
    model = MODELS[name](reference["data"])
    begin = time.process_time()
    sim = tati_re.Simulation(
        log_density=model.log_density,
        parameters=model.parameters,
        data=model.data,
        generated=model.generated,
        inits=model.inits,
        seed=seed,
        verbose=0,
        **options,
    )
    with first_step() as compiled:
        run = sim.sample()
    end = time.process_time()
    draws = run.draws | (run.generated if model.generated else {})
    values = entries_of_reference(draws, reference["names"])
    gradients, gradients_kept = gradients_of(run)
    return {
        "posterior": name,
        "method": OURS,
        "seed": seed,
        "sampler": str(run.manifest.method.sampler),
        "steps": int(run.run_info["step"].max()),
        "draws": values.shape[1] * values.shape[2],
        "ess": run.manifest.convergence.ess,
        "rhat": run.manifest.convergence.rhat,
        "certificate": run.certificate.outcome,
        "least_ess": least_effective_size(values),
        "gradients": gradients,
        "gradients_kept": gradients_kept,
        "seconds": end - compiled[0],
        "compile_seconds": compiled[0] - begin,
        **compared(values, reference),
    }


def measured_nuts(name: str, folder: Path, seed: int, python: str) -> dict[str, Any]:
    """One run of NumPyro's NUTS in a process of its own, as a row of the table."""
    path = folder / f"{name}.json"
    reference = json.loads(path.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch) / "draws.npz"
        module = [python, "-m", "benchmarks.posteriordb.nuts", name, str(path)]
        subprocess.run([*module, f"--seed={seed}", f"--output={output}"], check=True)
        with np.load(output) as arrays:
            draws = dict(arrays)
    values = entries_of_reference(draws, reference["names"])
    return {
        "posterior": name,
        "method": NUTS,
        "seed": seed,
        "sampler": "NUTS",
        "draws": values.shape[1] * values.shape[2],
        "least_ess": least_effective_size(values),
        "gradients": int(draws["measured_gradients"]),
        "gradients_kept": int(draws["measured_gradients_kept"]),
        "seconds": float(draws["measured_seconds"]),
        **compared(values, reference),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the JSON files")
    parser.add_argument("--output", type=Path, default=Path("posteriordb.csv"))
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--posteriors", nargs="*", default=list(MODELS))
    parser.add_argument("--execution", default="auto", help="auto, xla or graph")
    parser.add_argument("--rivals", nargs="*", choices=["nuts"], default=[])
    parser.add_argument("--python", default=sys.executable, help="a Python with NumPyro")
    chosen = parser.parse_args()
    table = pd.read_csv(chosen.output) if chosen.output.exists() else pd.DataFrame()
    done = set()
    if not table.empty:
        done = set(zip(table["posterior"], table["method"], table["seed"], strict=True))
    methods = [OURS, *([NUTS] if chosen.rivals else [])]
    rows = [
        (name, method, seed)
        for seed in chosen.seeds
        for name in chosen.posteriors
        for method in methods
    ]
    for name, method, seed in rows:
        if (name, method, seed) in done:
            continue
        if method == OURS:
            row = measured(name, chosen.data, seed, execution=chosen.execution)
        else:
            row = measured_nuts(name, chosen.data, seed, chosen.python)
        table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
        table.to_csv(chosen.output, index=False)
        print(table.tail(1).to_string(), flush=True)


if __name__ == "__main__":
    main()
