"""Samples posteriors of posteriordb by defaults: `python -m benchmarks.posteriordb --data FOLDER`.

FOLDER holds a JSON file for each posterior: `data`, and of the reference draws `names`, `mean`,
`var`, `mcse_mean` and `quantiles` (5, 50 and 95 %). Rows that the table has already are left out, so
that a measurement goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

import tati_re
from benchmarks.posteriordb.models import MODELS

LEVELS = (0.05, 0.5, 0.95)


def entries_of_reference(draws: dict[str, np.ndarray], names: list[str]) -> np.ndarray:
    """Draws of the reference's quantities, `(quantities, chains, draws)`; they count from 1."""
    found = []
    for name in names:
        base, _, places = name.partition("[")
        place = tuple(int(number) - 1 for number in re.findall(r"\d+", places))
        found.append(draws[base][(..., *place)])
    return np.stack(found)


def compared(values: np.ndarray, reference: dict[str, Any]) -> dict[str, float]:
    """How far means and quantiles are off, in combined errors and in standard deviations.

    Args:
        values: Draws, `(quantities, chains, draws)`.
        reference: The file of the posterior.
    """
    deviation = np.sqrt(reference["var"])
    mean_errors = []
    quantile_errors = []
    quantile_shifts = []
    for k, chains in enumerate(values):
        error = tati_re.analysis.monte_carlo_error(chains)
        shift = chains.mean() - reference["mean"][k]
        mean_errors.append(shift / np.hypot(error, reference["mcse_mean"][k]))
        size = tati_re.analysis.effective_sample_size(chains, "tail")
        reference_size = (deviation[k] / reference["mcse_mean"][k]) ** 2
        for row, level in enumerate(LEVELS):
            shift = (np.quantile(chains, level) - reference["quantiles"][row][k]) / deviation[k]
            height = stats.norm.pdf(stats.norm.ppf(level))
            one = np.sqrt(level * (1 - level) * (1 / size + 1 / reference_size)) / height
            quantile_errors.append(shift / one)
            quantile_shifts.append(abs(shift))
    return {
        "worst_mean": float(np.abs(mean_errors).max()),
        "worst_quantile": float(np.abs(quantile_errors).max()),
        "median_quantile_shift": float(np.median(quantile_shifts)),
    }


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
    run = sim.sample()
    seconds = time.process_time() - begin
    draws = run.draws | (run.generated if model.generated else {})
    values = entries_of_reference(draws, reference["names"])
    outcome = run.certificate.outcome
    return {
        "posterior": name,
        "seed": seed,
        "sampler": str(run.manifest.method.sampler),
        "steps": int(run.run_info["step"].max()),
        "draws": values.shape[1] * values.shape[2],
        "ess": run.manifest.convergence.ess,
        "rhat": run.manifest.convergence.rhat,
        "certificate": outcome,
        "cpu_seconds": seconds,
        **compared(values, reference),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of the JSON files")
    parser.add_argument("--output", type=Path, default=Path("posteriordb.csv"))
    parser.add_argument("--seeds", type=int, nargs="*", default=[1, 2, 3])
    parser.add_argument("--posteriors", nargs="*", default=list(MODELS))
    parser.add_argument("--execution", default="auto", help="auto, xla or graph")
    chosen = parser.parse_args()
    table = pd.read_csv(chosen.output) if chosen.output.exists() else pd.DataFrame()
    done = set() if table.empty else set(zip(table["posterior"], table["seed"], strict=True))
    for seed in chosen.seeds:
        for name in chosen.posteriors:
            if (name, seed) in done:
                continue
            row = measured(name, chosen.data, seed, execution=chosen.execution)
            table = pd.concat([table, pd.DataFrame([row])], ignore_index=True)
            table.to_csv(chosen.output, index=False)
            print(table.tail(1).to_string(), flush=True)


if __name__ == "__main__":
    main()
