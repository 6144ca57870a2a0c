"""Whether a run for prediction predicts with its chains, the fits that they began from, or both."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.launch.candidates import exceeds
from tati_re.launch.goal import PREDICT
from tati_re.prediction.draws import BOTH, FITS
from tati_re.prediction.leave_one_out import LEAST_DRAWS
from tati_re.prediction.left_out import LeftOut, left_out, left_out_of_unseen_rows, unseen_rows
from tati_re.prediction.network import dataset_of, likelihood_of
from tati_re.prediction.stacking import chosen_weights
from tati_re.runs import manifest
from tati_re.runs.fits import read_fits
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles, last_step

CHAINS = "chains"
MOST_LOST = math.log(2)
"""Nats a row that a mixture with half of the weight loses at most against either of its parts."""
FEWEST_DRAWS = 10
"""Draws of a chain below which leaving out rows tells nothing, and the fits predict."""
MOST_ROWS = 1_000
MOST_DRAWS = 400
_FEWEST_ROWS = 100
_SHARE = 0.1
"""Of the cost of sampling, which the comparison takes at most."""
_PASSES = 3
"""Predictions of an example that cost as much as its gradient."""


def choose_predictor(run: RunFiles) -> None:
    """Notes in the manifest whether the run predicts with its chains, with its fits or with both.

    Both are compared on the training rows that no fit was trained on. These rows stopped the fits,
    so each half of them is scored by fits that the other half stopped. The chains were conditioned
    on all rows, so each row is left out of them by Pareto-smoothed importance sampling. Test rows
    play no part.

    The chains are chosen unless the mean log density of the fits is higher by more than the standard
    error of the difference. Then both are mixed, half each: fits are overconfident, and a few
    held-out rows need not contain the rare errors that cost them most. The fits alone are chosen if
    they are better by more than a mixture can lose, or if the chains have too few draws.

    Args:
        run: A run that ended; nothing is chosen unless it is one for prediction with both draws and
            fits, and a likelihood.
    """
    stored = run.manifest
    if stored.options.goal != PREDICT:
        return
    try:
        entry = None if stored.has_fits_alone else _compared(run)
    except InputError:  # no likelihood, or draws that do not count alike
        entry = None
    if entry is not None or stored.predictor is not None:
        manifest.note(run.folder, predictor=entry)


def better(fits: np.ndarray, chains: np.ndarray) -> dict[str, Any]:
    """Which of two predictors is better on the same rows, as an entry of the manifest.

    Args:
        fits: Log density of each held-out row under the ensemble of the fits, shape (rows,).
        chains: The same under the chains without that row.
    """
    uses = CHAINS
    if exceeds(fits, chains):
        gained = float(fits.mean() - chains.mean())
        uses = BOTH if gained <= MOST_LOST else FITS
    error = math.nan
    if len(fits) > 1 and np.isfinite(fits).all() and np.isfinite(chains).all():
        error = float((fits - chains).std(ddof=1)) / math.sqrt(len(fits))
    return {
        "uses": uses,
        "rows": len(fits),
        "fits": float(fits.mean()),
        "chains": float(chains.mean()),
        "error": error,
    }


def _compared(run: RunFiles) -> dict[str, Any] | None:
    """The entry of a run with draws; None if no row was held out of its fits."""
    data, _ = likelihood_of(run, dataset_of(run))
    passes = _affordable_passes(run)
    rows = unseen_rows(run, data, min(MOST_ROWS, max(_FEWEST_ROWS, passes // MOST_DRAWS)))
    if not len(rows):
        return None

    stored = Positions(run).read()
    if stored.weight is not None and np.ptp(stored.weight) > 0:
        return None
    draws = int(np.unique(stored.walker, return_counts=True)[1].min())
    if draws < FEWEST_DRAWS or len(stored.step) < LEAST_DRAWS:
        return {"uses": FITS, "rows": 0, "draws": draws}

    most_draws = max(LEAST_DRAWS, FEWEST_DRAWS * len(np.unique(stored.walker)))
    most_draws = min(MOST_DRAWS, max(most_draws, passes // len(rows)))
    chains = left_out(run, data, rows, most_draws, chosen_weights(run.manifest, None))
    fits = _density_of_fits(run, rows, left_out_of_unseen_rows(run, data, rows))
    return {**better(fits, chains.log_density), "draws": draws}


def _density_of_fits(run: RunFiles, rows: np.ndarray, held_out: LeftOut) -> np.ndarray:
    """Log density of held-out rows under an ensemble that these rows did not stop, shape (rows,).

    A folder of an earlier version does not have it: the density of its fits is a little too good.
    """
    fits = read_fits(run.folder)
    if fits is None or not len(fits.density):
        return held_out.log_density
    return fits.density[np.searchsorted(fits.held_out, rows)]


def _affordable_passes(run: RunFiles) -> int:
    """Predictions of examples that cost a tenth of what the gradients of the run did."""
    stored = run.manifest
    size = stored.options.batch_size or stored.dataset.num_examples or 1
    steps = last_step(run, stored.options.num_steps or 1)
    return int(_SHARE * _PASSES * steps * stored.options.num_walkers * size)
