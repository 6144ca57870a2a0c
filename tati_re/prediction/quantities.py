"""The quantities by which the convergence of a run is told: U, predictions, and projections of its
positions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.analysis.averages import rows_at_target
from tati_re.analysis.convergence import chains_of, rows_that_count
from tati_re.analysis.named_draws import is_constant, least_sizes
from tati_re.analysis.until import Quantity, diagnosis
from tati_re.core.errors import InputError
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles, layout_of, stored_every
from tati_re.runs.selection import burnin_of

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Numbers `(n, k)` of positions `(n, P)` and their walkers `(n,)`."""

INPUTS, PROJECTIONS, DRAWS, DRAWS_OF_WALKER = 256, 64, 4_000, 500
"""R-hat of 1,000 independent draws of four walkers is up to 1.016 in the worst of 321 quantities:
1.01 takes more.
"""
ENTRIES = 512
"""Entries of named parameters that are compared, evenly chosen among more."""
_AT_ONCE = 8  # Projections by one product: each by its own reads all positions 64 times.
_MOST_BYTES = (
    2**30
)  # Of a trajectory that is read for this where nobody asks for a number of draws.


def quantities(
    run: RunFiles, predict: Predict | None = None, burnin: int | None = None, most: int = 0
) -> list:
    """Draws at the target of the quantities that show whether a run has converged.

    They are U from all rows, and predictions and 64 random projections from stored positions. Up to
    64 parameters are not projected. Positions are chosen evenly, up to 4,000, or 500 of each
    walker. Draws keep their weights. Walkers of networks are compared by U and predictions only,
    because weights may differ where functions agree.

    Args:
        run: The run.
        predict: Maps positions (n, P) and walkers (n,) to predictions (n, k). Default: None, no
            predictions.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        most: Positions to read, if that is more than the usual number. Above 0, trajectories above
            1 GB are read, too. Default: 0.

    Returns:
        A list of `Quantity`.
    """
    rows = rows_at_target(run, burnin)
    burnin = burnin_of(run, burnin)
    has_full_potential = "full_potential" in rows and bool(rows["full_potential"].notna().all())
    column = "full_potential" if has_full_potential else "potential"
    noisy = run.manifest.sees_batches and not has_full_potential
    weights = chains_of(rows, "weight", -1) if "weight" in rows else None
    entries = [
        Quantity("U of mini-batches" if noisy else "U", chains_of(rows, column, -1), weights)
    ]
    path = files.trajectory_in(run.folder)
    if path is None or (not most and path.stat().st_size > _MOST_BYTES):
        return entries
    every = stored_every(run) or run.manifest.options.record_every or 1
    walkers = rows["walker"].nunique()
    stored = (int(rows["step"].max()) - burnin) // every * walkers
    try:
        positions = Positions(
            run, burnin, max(1, -(-stored // max(most, DRAWS, DRAWS_OF_WALKER * walkers)))
        )
        steps, walkers, columns, weight, names = _columns(positions, predict)
    except InputError:
        if Positions(run, burnin).left():
            raise
        # No position is stored yet.
        return [*entries, Quantity("stored positions", np.zeros((1, 0)))]
    chosen, weight = rows_that_count(steps, walkers, weight)
    of_weights = not run.manifest.dataset.potential
    named = layout_of(run) is not None
    return entries + [
        Quantity(name, column[chosen], weight, not (of_weights and is_parameter))
        for (name, is_parameter), column in zip(names, columns.T, strict=True)
        if not (named and is_constant(column))
    ]


def convergence_of(run: RunFiles, compared: Sequence[Quantity], limit: float) -> dict[str, Any]:
    """The numbers of `diagnosis`; for named parameters the effective size counts more.

    Args:
        run: The run.
        compared: Its quantities.
        limit: Of R-hat.

    Returns:
        As of `diagnosis`. For a run of named parameters `sizes` are the least effective sizes of
        each one, over values, squares and tails; the least of all is `ess`.
    """
    numbers = diagnosis(compared, limit)
    sizes = least_sizes(
        run, {quantity.name: (quantity.draws, quantity.weights) for quantity in compared}
    )
    if not sizes:
        return numbers
    least = min(sizes, key=lambda name: sizes[name])
    if not numbers["ess"] <= sizes[least]:
        numbers |= {"ess": sizes[least], "ess_of": least}
    return {**numbers, "sizes": sizes}


def _columns(positions: Positions, predict: Predict | None) -> tuple:
    """Steps, walkers, quantities `(draws, quantities)`, weights; each one's name and whether it is
    a parameter's.
    """
    parts: list[tuple] = []
    number = positions.num_parameters
    layout = layout_of(positions.run)
    names_of_entries = [] if layout is None else layout.entry_names()
    chosen = np.unique(np.linspace(0, len(names_of_entries) - 1, ENTRIES).astype(int))
    for block in positions.blocks():
        if layout is not None:
            parameter_columns = layout.entries(layout.constrain(block.values)[0])[:, chosen]
        elif number <= PROJECTIONS:
            parameter_columns = block.values
        else:
            random = np.random.default_rng(number)
            groups = (
                random.standard_normal((_AT_ONCE, number)) for _ in range(PROJECTIONS // _AT_ONCE)
            )
            parameter_columns = np.concatenate(
                [block.values @ directions.T for directions in groups], axis=1
            )
        predicted = (
            predict(block.values, block.walker)
            if predict is not None
            else np.zeros((len(parameter_columns), 0))
        )
        parts.append(
            (
                block.step,
                block.walker,
                np.concatenate([predicted, parameter_columns], axis=1),
                block.weight,
            )
        )
    step, walker, columns = (np.concatenate([part[k] for part in parts]) for k in range(3))
    weight = None if parts[0][3] is None else np.concatenate([part[3] for part in parts])
    names = [(f"prediction {k}", False) for k in range(predicted.shape[1])]
    own_names = positions.names
    if layout is not None:
        own_names = [names_of_entries[k] for k in chosen]
    elif number > PROJECTIONS:
        own_names = [f"projection {k}" for k in range(PROJECTIONS)]
    return step, walker, columns, weight, [*names, *((name, True) for name in own_names)]
