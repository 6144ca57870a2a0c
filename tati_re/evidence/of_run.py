"""Energies of a run on a ladder of likelihood weights."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.evidence.energies import Energies
from tati_re.posterior.losses import CLASSIFICATION
from tati_re.posterior.predictive import HETEROSCEDASTIC

if TYPE_CHECKING:
    from tati_re.simulation.run import Run


def energies_of_run(run: Run) -> Energies:
    """Energies of all rungs of a run with `tempering` likelihood, after the burn-in, for `estimated`.

    Its points are the run's own rungs; take stepping_stone or mbar, or the trapezoid over them.

    Args:
        run: Sampled on all data, with the prior as its last rung.

    Raises:
        InputError: Another run, or one whose energies have no normalization.

    Examples:
        >>> run = sim.sample(sampler="HMC", tempering="likelihood", num_replicas=4, num_steps=100, step_size=0.05)
        >>> energies = tati_re.evidence.energies_of_run(run)
        >>> tati_re.evidence.estimated(energies, "mbar").log_z < 0
        True
    """
    manifest = run.manifest
    options, method, loss = manifest["options"], manifest["method"], manifest["loss"]
    weights = method.get("likelihood_weights", [1.0])
    if weights[0] != 1.0 or weights[-1] != 0.0:
        raise InputError("The run has no ladder from the posterior to the prior.", run.folder, "tempering likelihood")
    if options.get("potential", "posterior") != "posterior" or not manifest["prior_proper"]:
        raise InputError("The run's potential has no normalization.", run.folder, "potential posterior, a proper prior")
    if loss["loss"] not in (*CLASSIFICATION, "gaussian", HETEROSCEDASTIC):
        expected = "gaussian with noise_std"
        raise InputError("The run's loss is not a likelihood with its constant.", loss["loss"], expected)
    count = manifest["dataset"]["num_examples"]
    if options.get("batch_size") not in (None, count) or manifest["temperature"] != 1.0:
        raise InputError("The run's energies are not those of all data at T = 1.", run.folder, "no batch_size, T = 1")
    ladder = run.ladder
    rows = run.run_info
    rows = rows[rows["step"] > max(options.get("num_burnin_steps", 0), 0)].sort_values(["rung", "walker", "step"])
    walkers = rows["walker"].nunique()
    energies = count * rows["loss"].to_numpy(np.float64).reshape(len(ladder), walkers, -1)
    path = ladder["likelihood_weight"].to_numpy(np.float64)[::-1]
    acceptance = np.ones(len(path))
    if "acceptance" in rows:
        acceptance = rows.groupby("rung")["acceptance"].mean().to_numpy(np.float64)[::-1]
    steps = ladder["step_size"].to_numpy(np.float64)[::-1]
    return Energies(path, energies[::-1], steps, acceptance, float("nan"), np.zeros((0, 0, 0)))
