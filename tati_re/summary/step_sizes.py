"""The step sizes of a run, and the rates of a fit, as they stand in its rows."""

import numpy as np
import pandas as pd

from tati_re.runs.manifest import Manifest
from tati_re.runs.selection import at_target


def step_size_text(manifest: Manifest, rows: pd.DataFrame, burnin: int | None = None) -> str:
    """The step sizes at the target, or the learning rates of a fit.

    Args:
        manifest: The manifest of the run.
        rows: Rows of `run.csv`.
        burnin: Steps to leave out. Default: None, only the steps that tune the step size.

    Returns:
        Text such as `0.0186, tuned from 0.001`; empty if the rows have no step sizes.
    """
    options = manifest.options
    tuned = {"target_acceptance", "target_bias"} & {*manifest.method.table}
    learnt = options.num_burnin_steps or 0 if tuned else 0
    rows = rows.dropna(subset="step_size") if "step_size" in rows else rows[:0]
    target = at_target(rows)
    sampled = target[target["step"] > max(learnt, burnin or 0)]
    last = target[target["step"] == target["step"].max()] if tuned else target
    text = _range_over_steps(last if sampled.empty else sampled)
    if not tuned or not text:
        return text
    first = 1.0 if options.step_size is None else options.step_size
    origin = "" if isinstance(first, str) else f" from {first:g}"
    return f"{text}, still being tuned" if sampled.empty else f"{text}, tuned{origin}"


def _range_over_steps(rows: pd.DataFrame) -> str:
    if rows.empty:
        return ""
    by_step = rows.groupby("step")["step_size"].agg(["min", "max"])
    low = by_step["min"].to_numpy()
    high = by_step["max"].to_numpy()
    both = f"{low.min():.4g} to {high.max():.4g}"
    if np.ptp(low) + np.ptp(high) <= 1e-9 * high.max():
        return f"{low[0]:.4g}" if high[0] - low[0] <= 1e-9 * high[0] else f"{both} over the walkers"
    if (low == high).all() and ((np.diff(low) <= 0).all() or (np.diff(low) >= 0).all()):
        return f"{low[0]:.4g} at step {by_step.index[0]:,} to {low[-1]:.4g} at step {by_step.index[-1]:,}"
    return f"{both}, not the same at every step"
