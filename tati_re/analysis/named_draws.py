"""Stored draws of a run by the names and shapes of its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import (
    MINIMUM_DRAWS,
    effective_sample_size,
    r_hat,
    rows_by_walker,
)
from tati_re.analysis.until import weighted
from tati_re.core.errors import nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.manifest_entries import ParametersEntry
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun, RunFiles, layout_of
from tati_re.runs.selection import as_run
from tati_re.supports.layout import entries_of


@front_door
def draws_of(run: RunFiles, burnin: int | None = None, thin: int = 1) -> dict[str, np.ndarray]:
    """Returns the stored draws at the target temperature after burn-in, by parameter.

    Named parameters with supports have their constrained values and their shapes. In other runs the
    names are those of the model's tensors, or of the coordinates.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions of a chain. Default: 1.

    Returns:
        Arrays `(chains, draws, *shape)`, float64, cut to the chain with the fewest draws.

    Raises:
        InputError: No positions are stored, projections are stored, or draws have different
            weights.
    """
    positions = Positions(run, burnin, thin)
    problem = f"The run {run.folder} stored projections, not parameters."
    refuse_if(positions.projected, problem, expected="a run without the option directions")
    stored = positions.read()
    weighted = stored.weight is not None and np.ptp(stored.weight) > 0
    problem = "The draws have different weights."
    refuse_if(weighted, problem, expected="run.trajectory, with its column weight")
    rows = rows_by_walker(stored.step, stored.walker)
    values = values_by_name(run, stored.values[rows.ravel()])
    return {name: value.reshape(*rows.shape, *value.shape[1:]) for name, value in values.items()}


def values_by_name(run: RunFiles, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Positions as parameters by name.

    Args:
        run: The run.
        positions: Positions, `(n, parameters)`.

    Returns:
        Arrays `(n, *shape)`, constrained where the run has supports.
    """
    layout = layout_of(run)
    if layout is not None:
        return layout.constrain(np.asarray(positions, np.float64))[0]
    return _tensors(run.manifest.parameters, positions)


def _tensors(described: ParametersEntry, positions: np.ndarray) -> dict[str, np.ndarray]:
    """Positions by the names of tensors."""
    tensors = {}
    first = 0
    for name, shape in zip(described.names, described.shapes, strict=True):
        size = math.prod(shape)
        tensors[name] = positions[:, first : first + size].reshape(-1, *shape)
        first += size
    return tensors


@front_door
def parameter_summary(
    run: AnyRun, names: str | Sequence[str] | None = None, burnin: int | None = None, thin: int = 1
) -> pd.DataFrame:
    """Summarizes the posterior of each entry of each stored parameter, one row each.

    Args:
        run: The run, or its folder.
        names: Parameters to include, or one of them. Default: None, all of them.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions of a chain. Default: 1.

    Returns:
        A table indexed by entry, such as `theta[2]`, with the columns `mean`, `sd`, `q5`, `median`,
        `q95`, `ess_bulk`, `ess_tail` and `r_hat`. Values are nan if draws are constant or too few.

    Raises:
        InputError: There is no such parameter, or an error of `draws_of` occurs.
    """
    draws = draws_of(as_run(run), burnin, thin)
    chosen = [names] if isinstance(names, str) else list(draws if names is None else names)
    rows = []
    index = []
    for name in chosen:
        refuse_if(
            name not in draws,
            f"The run has no parameter {name}.{nearest(str(name), draws)}",
            expected=", ".join(draws),
        )
        values = draws[name]
        flat = values.reshape(*values.shape[:2], -1)
        index += entries_of(name, values.shape[2:])
        rows += [_summary_of(flat[:, :, k]) for k in range(flat.shape[2])]
    return pd.DataFrame(rows, index=pd.Index(index, name="parameter"), columns=_COLUMNS)


_COLUMNS = ["mean", "sd", "q5", "median", "q95", "ess_bulk", "ess_tail", "r_hat"]


def _summary_of(chains: np.ndarray) -> dict[str, float]:
    """The summary of one entry, of draws `(chains, draws)`."""
    low, middle, high = np.quantile(chains, (0.05, 0.5, 0.95))
    summary = {"mean": chains.mean(), "q5": low, "median": middle, "q95": high}
    summary["sd"] = chains.std(ddof=1) if chains.size > 1 else np.nan
    if chains.shape[1] >= 2 * MINIMUM_DRAWS and not is_constant(chains):
        summary["ess_bulk"] = effective_sample_size(chains, "bulk")
        summary["ess_tail"] = effective_sample_size(chains, "tail")
        summary["r_hat"] = r_hat(chains)
    return {name: float(value) for name, value in summary.items()}


def least_sizes(
    run: RunFiles, entries: Mapping[str, tuple[np.ndarray, np.ndarray | None]]
) -> dict[str, float]:
    """The least effective sample size of each named parameter, over its entries.

    Counted are the values, their squared deviations from the mean, and the 5 % and 95 % quantiles:
    moments and intervals are then as good as the number says.

    Args:
        run: The run.
        entries: Draws `(chains, draws)` and weights of each entry, by its name.

    Returns:
        Sizes by parameter, and by entry where a parameter has several; entries that never change
        are left out.
    """
    layout = layout_of(run)
    sizes: dict[str, float] = {}
    for name, support in {} if layout is None else layout.supports.items():
        for entry in entries_of(name, support.shape):
            size = _least_size(*entries[entry]) if entry in entries else math.nan
            if math.isnan(size):
                continue
            sizes[entry] = size
            sizes[name] = min(size, sizes.get(name, math.inf))
    return sizes


def _least_size(chains: np.ndarray, weights: np.ndarray | None) -> float:
    """The least effective sample size of values, squares and tails; nan if nothing changes."""
    if chains.shape[1] < 2 * MINIMUM_DRAWS or not np.isfinite(chains).all():
        return math.nan
    if is_constant(chains):
        return math.nan
    squares = (chains - chains.mean()) ** 2
    if weights is not None and np.ptp(weights) > 0:
        return min(weighted(series, weights)[1] for series in (chains, squares))
    sizes = [effective_sample_size(series) for series in (chains, squares)]
    return min(
        *sizes, effective_sample_size(squares, "mean"), effective_sample_size(chains, "tail")
    )


def is_constant(values: np.ndarray) -> bool:
    """Whether numbers are all the same but for rounding, as a diagonal of ones.

    Args:
        values: Numbers of any shape.
    """
    return bool(np.ptp(values) <= _CONSTANT * np.abs(values).max())


_CONSTANT = 1e-12
"""Relative spread below which an entry, such as a diagonal of ones, counts as constant."""
