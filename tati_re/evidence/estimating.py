"""Evidence from energies along a path, with notes on its reliability, and the energies of a run on
a ladder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.data.preparation import Preparation
from tati_re.evidence import estimators
from tati_re.evidence.energies import Energies
from tati_re.evidence.grids import Quadrature, trapezoid_weights
from tati_re.evidence.result import NAMES, Evidence
from tati_re.likelihoods.registry import named_loss

if TYPE_CHECKING:
    from tati_re.launch.run import Run
    from tati_re.runs.manifest_entries import DataEntry


_FEWEST = 0.02  # Of the draws at a point that a step of the path must use.


@front_door
def estimated(energies: Energies, method: str, grid: Quadrature | None = None) -> Evidence:
    """Estimates log Z from sampled energies along a path.

    Args:
        energies: The `path` from 0 to 1 and the `values`, `(points, walkers, draws)`.
        method: "thermodynamic_integration", "stepping_stone" or "mbar".
        grid: Quadrature rule for thermodynamic integration, on the path of the energies. Default:
            None, the corrected trapezoid rule on that path.

    Returns:
        The estimate.

    Raises:
        InputError: The method is unknown.
    """
    names = [name for name in NAMES if name != "smc"]
    refuse_if(
        method not in names,
        f"method: unknown name.{nearest(method, names)}",
        repr(method),
        ", ".join(names),
    )
    if grid is None:
        grid = Quadrature(energies.path, trapezoid_weights(energies.path), "corrected_trapezoid")
    if method == "stepping_stone":
        estimate = estimators.stepping_stone(energies.path, energies.values)
    elif method == "mbar":
        estimate = estimators.mbar(energies.path, energies.values)
    else:
        estimate = estimators.thermodynamic_integration(grid, energies.values)
    settings = {
        "points": len(energies.path),
        "walkers": energies.values.shape[1],
        "draws": energies.values.shape[2],
    }
    settings["gradients"] = float(energies.gradients)
    curve = pd.DataFrame(estimate.curve)
    notes = _notes(estimate, energies)
    if estimate.bias == 0 and method not in ("stepping_stone", "mbar") and "trapezoid" in grid.rule:
        other = estimators.stepping_stone(energies.path, energies.values)
        away = other.log_z - estimate.log_z
        reliable = other.curve["effective_fraction"].min() > _FEWEST
        if reliable and abs(away) > 3 * np.hypot(estimate.error, other.error):
            note = (
                f"Stepping stones from the same draws differ by {away:+.2g}: use more points, "
                "stepping_stone, or mbar."
            )
            notes += (note,)
    return Evidence(
        log_z=estimate.log_z,
        error=estimate.error,
        method=method,
        curve=curve,
        repeats=estimate.repeats,
        notes=notes,
        settings=settings,
        short=estimate.short,
    )


def _notes(estimate: estimators.Estimate, energies: Energies) -> tuple[str, ...]:
    notes = []
    if abs(estimate.bias) > estimate.error:
        notes.append(
            f"The trapezoidal rule is off by about {estimate.bias:+.2g} between its points, "
            "more than its error. Use evidence_grid corrected_trapezoid or "
            "gauss_legendre."
        )
    if (
        "effective_fraction" in estimate.curve
        and (least := estimate.curve["effective_fraction"].min()) < _FEWEST
    ):
        notes.append(
            f"One step of the path uses only {least:.1%} of its draws: increase evidence_nodes."
        )
    if "overlap" in estimate.curve and (least := np.nanmin(estimate.curve["overlap"])) < 0.03:
        notes.append(
            f"Two neighboring points overlap by only {least:.3f}: increase evidence_nodes."
        )
    if (poor := energies.acceptance[1:].min()) < 0.3:
        notes.append(
            f"The acceptance at one point is {poor:.2f}: reduce step_size or use more burn-in."
        )
    half = estimate.influence.shape[1] // 2
    early = estimate.influence[:, :half]
    late = estimate.influence[:, -half:]
    drift = float(late.mean() - early.mean())
    # Errors of the halves: that of the whole has grown with the drift.
    if abs(drift) > 3.5 * np.hypot(estimators.series_error(early), estimators.series_error(late)):
        notes.append(
            f"The second half of the draws gives {drift:+.2g} more than the first: "
            "increase num_burnin_steps."
        )
    deviation = (
        estimate.repeats.std(ddof=1) / np.sqrt(len(estimate.repeats))
        if len(estimate.repeats) > 3
        else 0.0
    )
    if deviation > 3 * estimate.error:
        notes.append(
            f"The walkers differ by more than their draws explain (error {deviation:.2g} "
            "from their spread)."
        )
    middle = np.median(estimate.repeats)
    away = np.abs(estimate.repeats - middle)
    if far := int(np.sum(away > 30 * np.median(away) + 1)) if len(away) > 3 else 0:
        where = (
            f"far from the median, {middle:.6g}, and may never have left their starting "
            "region in the prior"
        )
        notes.append(
            f"{far} of {len(away)} walkers are {where}. Use fewer walkers and more num_steps."
        )
    return tuple(notes)


def _log_unit(data: DataEntry) -> float:
    """How much larger the log density of an example is in the network's units than in the data's."""
    if data.preparation is None:
        return 0.0
    preparation = Preparation.from_config(data.preparation.table)
    standard = preparation.target_standard
    if standard is None:
        return 0.0
    return preparation.log_unit((*(data.places or ()), *standard.deviation.shape))


@front_door
def energies_of_run(run: Run) -> Energies:
    """Returns the energies of all rungs of a run with `tempering` likelihood after burn-in.

    Pass them to `estimated`. The points are the rungs of the run; use stepping_stone or mbar, or
    the trapezoid rule on them.

    Args:
        run: A run on all data, with the prior as its last rung.

    Returns:
        The energies.

    Raises:
        InputError: The run has no such ladder, or its energies have no normalization.

    Examples:
        >>> run = sim.sample(sampler="HMC", tempering="likelihood", num_replicas=4, num_steps=100, step_size=0.05)
        >>> energies = tati_re.evidence.energies_of_run(run)
        >>> tati_re.evidence.estimated(energies, "mbar").log_z < 0
        True
    """
    manifest = run.manifest
    options = manifest.options
    loss = manifest.loss
    weights = manifest.method.likelihood_weights
    if weights[0] != 1.0 or weights[-1] != 0.0:
        raise InputError(
            "The run has no ladder from the posterior to the prior.",
            run.folder,
            "tempering likelihood",
        )
    if (options.potential or "posterior") != "posterior" or not manifest.prior_proper:
        raise InputError(
            "The run's potential is not normalized.",
            run.folder,
            "potential posterior with a proper prior",
        )
    kind = named_loss(loss.loss)
    normalized = loss.likelihood is not None or loss.loss == "potential"
    normalized |= kind is not None and kind.is_normalized
    if not normalized:
        expected = "gaussian with noise_std"
        raise InputError("The run's loss is not a normalized likelihood.", loss.loss, expected)
    words = manifest.meaning
    ladder = run.ladder
    rows = run.run_info
    problem = (
        "The run's potential has example weights or weight regularizers, which are not normalized."
    )
    refuse_if(
        "its weight" in words or "regularis" in words, problem, run.folder, "a run without them"
    )
    rows = rows[rows["step"] > (options.num_burnin_steps or 0)].sort_values(
        ["rung", "walker", "step"]
    )
    count = manifest.dataset.num_examples or 1
    if options.batch_size not in (None, count) or (np.abs(rows["temperature"] - 1.0) > 1e-9).any():
        raise InputError(
            "The run's energies are not for all data at T = 1.",
            run.folder,
            "no batch_size, T = 1",
        )
    problem = "The run's energies use batch statistics that changed from step to step."
    refuse_if(options.batch_norm == "batch", problem, "batch_norm batch", "batch_norm frozen")
    losses = rows["loss"].to_numpy(np.float64).reshape(len(ladder), rows["walker"].nunique(), -1)
    energies = count * (losses + _log_unit(manifest.dataset))
    path = ladder["likelihood_weight"].to_numpy(np.float64)[::-1]
    acceptance = np.ones(len(path))
    if "acceptance" in rows:
        acceptance = rows.groupby("rung")["acceptance"].mean().to_numpy(np.float64)[::-1]
    steps = ladder["step_size"].to_numpy(np.float64)[::-1]
    return Energies(
        path=path,
        values=energies[::-1],
        step_size=steps,
        acceptance=acceptance,
        gradients=float("nan"),
        position=np.zeros((0, 0, 0)),
    )
