"""Evidence from energies along a path, with notes on its reliability."""

import numpy as np

from tati_re.evidence import estimators
from tati_re.evidence.energies import Energies
from tati_re.evidence.grids import Quadrature, trapezoid_weights
from tati_re.evidence.result import NAMES, Evidence


def estimated(energies: Energies, method: str, grid: Quadrature | None = None) -> Evidence:
    """Estimates log Z from sampled energies along a path.

    Args:
        energies: `path` from 0 to 1 and `values`, `(points, walkers, draws)`.
        method: "thermodynamic_integration", "stepping_stone" or "mbar".
        grid: For thermodynamic integration, with the energies' path. Default: the corrected trapezoid over it.
    """
    import pandas as pd

    if grid is None:
        grid = Quadrature(energies.path, trapezoid_weights(energies.path), "corrected_trapezoid")
    if method == "stepping_stone":
        found = estimators.stepping_stone(energies.path, energies.values)
    elif method == "mbar":
        found = estimators.mbar(energies.path, energies.values)
    else:
        found = estimators.thermodynamic_integration(grid, energies.values)
    settings = {"points": len(energies.path), "walkers": energies.values.shape[1], "draws": energies.values.shape[2]}
    settings["gradients"] = float(energies.gradients)
    curve = pd.DataFrame(found.curve)
    name = method if method in NAMES else "thermodynamic_integration"
    return Evidence(
        found.log_z, found.error, name, curve, found.repeats, _notes(found, energies), settings, found.short
    )


def _notes(found: estimators.Estimate, energies: Energies) -> tuple[str, ...]:
    said = []
    if abs(found.bias) > found.error:
        said.append(
            f"The trapezoid is off by about {found.bias:+.2g} between its points, more than its error: evidence_grid "
            "corrected_trapezoid or gauss_legendre."
        )
    if "effective_fraction" in found.curve and (least := found.curve["effective_fraction"].min()) < 0.02:
        said.append(f"One step of the path uses {least:.1%} of its draws: take more evidence_nodes.")
    if "overlap" in found.curve and (least := np.nanmin(found.curve["overlap"])) < 0.03:
        said.append(f"Two neighboring points overlap by {least:.3f} only: take more evidence_nodes.")
    if (poor := energies.acceptance[1:].min()) < 0.3:
        said.append(f"The acceptance at one point is {poor:.2f}: a smaller step_size or more burn-in.")
    half = found.influence.shape[1] // 2
    early, late = found.influence[:, :half], found.influence[:, -half:]
    drift = float(late.mean() - early.mean())
    # Errors of the halves: that of the whole has grown with the drift.
    if abs(drift) > 3.5 * np.hypot(estimators.series_error(early), estimators.series_error(late)):
        said.append(f"The second half of the draws says {drift:+.2g} more than the first: more num_burnin_steps.")
    deviation = found.repeats.std(ddof=1) / np.sqrt(len(found.repeats)) if len(found.repeats) > 3 else 0.0
    if deviation > 3 * found.error:
        said.append(f"The walkers differ more than their draws explain (error {deviation:.2g} from their spread).")
    return tuple(said)
