"""A run at a glance: traces, ranks and autocorrelation of its observables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of
from tati_re.core.errors import InputError, nearest
from tati_re.plotting.autocorrelation import draw_autocorrelation
from tati_re.plotting.bands import draw_ranks
from tati_re.plotting.figure import empty, new_figure, plain, save
from tati_re.plotting.traces import draw_traces
from tati_re.runs.kinds import at_target, is_optimization
from tati_re.runs.selection import burnin_of, keep, spacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tati_re.runs.run import RunFiles

_SHOWN = ("potential", "loss", "accuracy")


def plot_run(
    run: RunFiles,
    observables: Sequence[str] | str | None = None,
    burnin: int | None = None,
    thin: int = 1,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws a row of panels for each observable of a run: trace, ranks, autocorrelation.

    Trace: each walker over the steps, gray the burn-in. Ranks: the distribution function of each walker's ranks among
    all draws, less the uniform one; walkers that sample the same distribution stay in the gray band together, 95 times
    in 100 (a single walker's halves are compared). Draws are thinned by their autocorrelation time for that. Of a fit,
    and of fewer than 4 rows of a walker after the burn-in, the traces alone.

    Args:
        run: The run.
        observables: Columns of `run.csv`. Default: potential, loss and accuracy, those that change.
        burnin: Steps to leave out of ranks and autocorrelation. Default: the run's own burn-in.
        thin: Every how many rows are kept. Default: 1.
        path: PNG file to write. Default: none.

    Raises:
        InputError: No rows, no such column, or a path that cannot be written.
    """
    rows = at_target(run.run_info)
    if rows.empty:
        raise InputError("The run has no rows to draw.")
    names = [observables] if isinstance(observables, str) else observables
    if names is None:
        names = [name for name in _SHOWN if name in rows and rows[name].nunique() > 1] or ["potential"]
    for name in names:
        if name not in rows or name in ("step", "walker"):
            known = [str(column) for column in rows.columns[2:]]
            raise InputError(f"The run has no observable {name}.{nearest(name, known)}", name, ", ".join(known))
    steps = burnin_of(run, burnin)
    late = rows["step"] > steps
    enough = late.any() and rows[late].groupby("walker").size().min() >= 2 * MINIMUM_DRAWS * thin
    sampled = enough and not is_optimization(run.manifest, run.run_info)
    shown = rows if thin == 1 else keep(rows, 0, thin)
    figure = new_figure(12.0 if sampled else 6.4, 2.4 * len(names) + 0.4)
    panels = figure.subplots(
        len(names), 3 if sampled else 1, squeeze=False, width_ratios=[1.6, 1, 1][: 1 + 2 * sampled]
    )
    for number, (name, line) in enumerate(zip(names, panels, strict=True)):
        draw_traces(line[0], shown, name, steps, legend=number == 0)
        if sampled:
            chains = chains_of(keep(rows, steps, thin), name, -1)
            if np.isfinite(chains).all() and (np.ptp(chains, axis=1) > 0).all():
                draw_ranks(line[1], chains)
                draw_autocorrelation(line[2], {"": chains}, spacing(keep(rows, steps, thin)))
            else:
                for panel in line[1:]:
                    empty(panel, f"{name} is not a number, or rests")
        plain(*line)
    panels[-1][0].set_xlabel("step; gray: burn-in" if steps else "step")
    return save(figure, path)
