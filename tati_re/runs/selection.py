"""Selection of a run's rows: after the burn-in, drawn at a temperature, thinned, of one rung."""

from typing import Any

import numpy as np
import pandas as pd

from tati_re.core.errors import InputError, refuse_if
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import AnyRun, RunFiles


def as_run(run: Any) -> RunFiles:
    """The run itself, or what else has a folder of one; a path is opened, and other objects are
    refused.
    """
    return run if hasattr(run, "folder") else RunFiles.open(run)


def burnin_of(run: RunFiles, burnin: int | None) -> int:
    """Returns the steps to drop.

    Args:
        run: The run.
        burnin: The number of steps, 0 or more. None: the burn-in of the run (0 for a fit).
    """
    if burnin is None:
        return run.manifest.num_burnin_steps
    refuse_if(burnin < 0, "burnin must be a number of steps.", burnin, "0 or more")
    return int(burnin)


def select_rows(
    run: AnyRun, burnin: int | None = None, thin: int = 1, rung: int | None = 0
) -> pd.DataFrame:
    """Selects rows of `run.csv`, by step and walker, with row numbers from 0.

    Args:
        run: The run, or its folder.
        burnin: Rows after this step are selected. Default: None, the burn-in of the run.
        thin: Every `thin`-th row of each walker is selected. Default: 1.
        rung: Rung of a temperature ladder, 0 for the target; None: all rungs. Default: 0.

    Raises:
        InputError: No rows are left, or the rung does not exist.
    """
    run = as_run(run)
    return keep(run.run_info, burnin_of(run, burnin), thin, rung)


def keep(
    rows: pd.DataFrame, burnin: int = 0, thin: int = 1, rung: int | None = None
) -> pd.DataFrame:
    """Selects rows of a table, as `select_rows`.

    Args:
        rows: A table with the columns `step` and `walker`.
        burnin: Rows after this step are selected. Default: 0.
        thin: Every `thin`-th row of each walker is selected. Default: 1.
        rung: Rung of a temperature ladder, 0 for the target. A table without a column `rung` is not
            filtered. Default: None, all rungs.

    Returns:
        The rows, with row numbers from 0.

    Raises:
        InputError: No rows are left, or the rung does not exist.
    """
    check_thin(thin)
    selected = drawn(rows[rows["step"] > burnin])
    if rung is not None and "rung" in selected.columns:
        selected = selected[selected["rung"] == rung]
        if selected.empty and len(rows) and not (rows["rung"] == rung).any():
            raise InputError(
                "There are no rows of this rung.", rung, f"0 to {int(rows['rung'].max())}"
            )
    refuse_if(
        rows.empty, "No row was recorded.", expected="a longer run, or a smaller record_every"
    )
    last = f"last step {int(rows['step'].max()):,}"
    refuse_if(selected.empty, f"No rows are left after the burn-in of {burnin:,} steps.", last)
    if thin > 1:
        selected = selected[
            selected.groupby(["walker", "rung"] if _on_ladder(selected) else ["walker"]).cumcount()
            % thin
            == 0
        ]
    return selected.reset_index(drop=True)


def drawn(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows but those at temperature 0, where a cyclical schedule explores; of an optimization
    all.
    """
    explores = rows["temperature"] == 0 if "temperature" in rows else np.zeros(len(rows), bool)
    return rows[~explores] if explores.any() and not explores.all() else rows


def check_thin(thin: int) -> None:
    refuse_if(thin < 1 or thin % 1, "thin keeps every k-th row.", thin, "a whole number, 1 or more")


def _on_ladder(rows: pd.DataFrame) -> bool:
    """Whether there are several rows of a walker and step, one for each rung."""
    return "rung" in rows and bool(rows.duplicated(["walker", "step"]).any())


def spacing(rows: pd.DataFrame) -> float:
    """Returns the mean number of steps between rows of a walker at a rung; nan for a single row.

    Args:
        rows: A table of rows, with the columns `step` and `walker`.

    Returns:
        The mean number of steps.
    """
    walker_rows = rows[rows["walker"] == rows["walker"].iloc[0]]
    if _on_ladder(walker_rows):
        walker_rows = walker_rows[walker_rows["rung"] == walker_rows["rung"].iloc[0]]
    steps = walker_rows["step"].to_numpy(dtype=np.float64)
    return float((steps[-1] - steps[0]) / (len(steps) - 1)) if len(steps) > 1 else float("nan")


def at_target(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are draws from the target: at its temperature, with a weight."""
    rows = drawn(rows)
    if "rung" in rows:
        rows = rows[rows["rung"] == 0]
    return rows[rows["weight"] > 0] if "weight" in rows else rows


def leaves(rows: pd.DataFrame) -> bool:
    """Whether walkers leave the target for other temperatures and come back, where rows have no
    weight.
    """
    return "weight" in rows and not rows["weight"].all()


def is_optimization(manifest: Manifest, rows: pd.DataFrame) -> bool:
    """Returns whether a run is an optimization, by its manifest or its rows.

    Args:
        manifest: The manifest of the run.
        rows: Rows of `run.csv`. A run is an optimization if none has a temperature above 0.
    """
    if manifest.is_fit:
        return True
    values = (
        rows["temperature"].to_numpy(dtype=np.float64)
        if "temperature" in rows.columns
        else np.full(1, np.nan)
    )
    return not np.any(values > 0)
