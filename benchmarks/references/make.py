"""Draws of a network by two exact samplers from different starts."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.references.cases import PRIOR_STD, Case, predictions_of
from benchmarks.references.reference import agreement_of, entries_of, reference_of

CHAINS = 8
BURNIN_SHARE = 0.2
FEWEST_BURNIN = 200
KEPT = 4_000
"""Draws of each chain at most."""

SAMPLERS: dict[str, dict[str, Any]] = {
    "HMC": {"sampler": "HMC", "num_leapfrog_steps": 25},
    "MAMS": {"sampler": "MAMS", "num_leapfrog_steps": "auto"},
}
STARTS = {"HMC": "fit", "MAMS": "fresh"}
"""HMC starts from independent fits, MAMS from random weights."""


def data_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets for a simulation."""
    return case.inputs, case.targets.astype(int) if case.num_classes else case.targets


def simulation_of(case: Case, **options: Any) -> Any:
    """The posterior of a case, with nothing chosen but the model."""
    import tati_re

    kind = {"num_classes": case.num_classes} if case.num_classes else {"noise_std": case.noise_std}
    return tati_re.Simulation(
        data=data_of(case),
        hidden=[case.hidden],
        activation="tanh",
        prior="gaussian",
        prior_std=PRIOR_STD,
        standardize="none",
        test_fraction=0.0,
        verbose=0,
        **kind,
        **options,
    )


def weights_of(case: Case, sampler: str, num_steps: int, folder: Path) -> np.ndarray:
    """Stored weights of one sampler, `(chains, draws, weights)`; a stopped run goes on.

    Args:
        case: The case.
        sampler: HMC or MAMS.
        num_steps: Steps, the burn-in included.
        folder: Where the run folder is, or is to be.
    """
    import tati_re

    output = folder / f"{case.name}-{sampler}"
    if (output / "manifest.toml").exists():
        run = tati_re.load(str(output))
        if run.run_info["step"].max() < num_steps:
            given = {"data": data_of(case), "verbose": 0}
            run = tati_re.Simulation.resume(str(output), num_steps=num_steps, **given)
        return stored_weights(run)
    seed = 1 + list(SAMPLERS).index(sampler)
    sim = simulation_of(
        case, num_walkers=CHAINS, walker_start=STARTS[sampler], seed=seed, dtype="float64"
    )
    burnin = max(FEWEST_BURNIN, int(BURNIN_SHARE * num_steps))
    run = sim.sample(
        num_steps=num_steps,
        num_burnin_steps=burnin,
        step_size="auto",
        mass="fisher",
        record_every=max(1, num_steps // 1_000),
        trajectory_every=max(1, (num_steps - burnin) // KEPT),
        trajectory_format="h5",
        output=str(output),
        **SAMPLERS[sampler],
    )
    return stored_weights(run)


def stored_weights(run: Any) -> np.ndarray:
    """Weights after the burn-in, `(chains, draws, weights)`."""
    burnin = int(run.manifest["options"]["num_burnin_steps"] or 0)
    table = run.trajectory
    table = table[table["step"] > burnin].sort_values(["walker", "step"], kind="stable")
    names = list(run.trajectory.columns)
    weights = names[names.index("walker") :]
    weights = [name for name in weights if "[" in name]
    values = table[weights].to_numpy(float)
    return values.reshape(table["walker"].nunique(), -1, len(weights))


def made(case: Case, num_steps: int, folder: Path) -> tuple[dict[str, Any], bool]:
    """A reference of both samplers, and whether they agree.

    Args:
        case: The case.
        num_steps: Steps of each sampler.
        folder: Where run folders are, or are to be.
    """
    groups = []
    seconds = {}
    for sampler in SAMPLERS:
        begin = time.process_time()
        weights = weights_of(case, sampler, num_steps, folder)
        seconds[sampler] = round(time.process_time() - begin)
        groups.append(predictions_of(case, weights, case.grid))
    agreement = agreement_of(*groups)
    reference = {
        "name": case.name,
        "source": case.source,
        "num_weights": case.num_weights,
        "num_classes": case.num_classes,
        "noise_std": case.noise_std,
        "hidden": case.hidden,
        "prior_std": PRIOR_STD,
        "rows": len(case.inputs),
        "inputs": np.round(case.grid, 6).tolist(),
        "num_steps": num_steps,
        "chains": 2 * CHAINS,
        "processor_seconds": seconds,
        "agreement": entries_of(agreement),
        **reference_of(np.concatenate(groups)),
    }
    return reference, agreement.holds


def write(reference: dict[str, Any], folder: Path) -> Path:
    """Writes a reference as JSON, whole or not at all."""
    path = folder / f"{reference['name']}.json"
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps(reference) + "\n", encoding="utf-8")
    partial.replace(path)
    return path
