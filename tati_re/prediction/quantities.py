"""The quantities by which the convergence of a run is told: U, predictions, and projections of its
positions.
"""

from collections.abc import Callable

import numpy as np

from tati_re.analysis.averages import rows_at_target
from tati_re.analysis.convergence import chains_of, rows_that_count
from tati_re.analysis.until import Quantity
from tati_re.core.errors import InputError
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles, stored_every
from tati_re.runs.selection import burnin_of

Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Numbers `(n, k)` of positions `(n, P)` and their walkers `(n,)`."""

INPUTS, PROJECTIONS, DRAWS, DRAWS_OF_WALKER = 256, 64, 4_000, 500
"""R-hat of 1,000 independent draws of four walkers is up to 1.016 in the worst of 321 quantities:
1.01 takes more.
"""
_AT_ONCE = 8  # Projections by one product: each by its own reads all positions 64 times.
_MOST_BYTES = (
    2**30
)  # Of a trajectory that is read for this where nobody asks for a number of draws.


def quantities(
    run: RunFiles, predict: Predict | None = None, burnin: int | None = None, most: int = 0
) -> list:
    """Draws of U from all rows, and of predictions and 64 random projections (all coordinates where
    there are no more) from stored positions, evenly, up to 4,000, 500 of a walker, or `most`. They
    are those at the target, with their weights. Walkers of networks are compared by U and
    predictions only: weights may differ where functions agree.
    """
    rows = rows_at_target(run, burnin)
    burnin = burnin_of(run, burnin)
    whole = "full_potential" in rows and bool(rows["full_potential"].notna().all())
    column = "full_potential" if whole else "potential"
    noisy = run.manifest.sees_batches and not whole
    weights = chains_of(rows, "weight", -1) if "weight" in rows else None
    found = [Quantity("U of mini-batches" if noisy else "U", chains_of(rows, column, -1), weights)]
    path = files.trajectory_in(run.folder)
    if path is None or (not most and path.stat().st_size > _MOST_BYTES):
        return found
    every = stored_every(run) or run.manifest.options.record_every or 1
    walkers = rows["walker"].nunique()
    stored = (int(rows["step"].max()) - burnin) // every * walkers
    try:
        positions = Positions(
            run, burnin, max(1, -(-stored // max(most, DRAWS, DRAWS_OF_WALKER * walkers)))
        )
        steps, walkers, columns, weight, names = _columns(positions, predict)
    except InputError:  # no position is stored yet
        return [*found, Quantity("stored positions", np.zeros((1, 0)))]
    chosen, weight = rows_that_count(steps, walkers, weight)
    of_weights = not run.manifest.dataset.potential
    return found + [
        Quantity(name, column[chosen], weight, not (of_weights and own))
        for (name, own), column in zip(names, columns.T, strict=True)
    ]


def _columns(positions: Positions, predict: Predict | None) -> tuple:
    """Steps, walkers, quantities `(draws, quantities)`, weights; each one's name and whether it is
    a parameter's.
    """
    parts: list[tuple] = []
    number = positions.num_parameters
    for block in positions.blocks():
        if number <= PROJECTIONS:
            own = block.values
        else:
            random = np.random.default_rng(number)
            groups = (
                random.standard_normal((_AT_ONCE, number)) for _ in range(PROJECTIONS // _AT_ONCE)
            )
            own = np.concatenate([block.values @ directions.T for directions in groups], axis=1)
        told = (
            predict(block.values, block.walker) if predict is not None else np.zeros((len(own), 0))
        )
        parts.append((block.step, block.walker, np.concatenate([told, own], axis=1), block.weight))
    step, walker, columns = (np.concatenate([part[k] for part in parts]) for k in range(3))
    weight = None if parts[0][3] is None else np.concatenate([part[3] for part in parts])
    names = [(f"prediction {k}", False) for k in range(told.shape[1])]
    own_names = (
        positions.names
        if number <= PROJECTIONS
        else [f"projection {k}" for k in range(PROJECTIONS)]
    )
    return step, walker, columns, weight, [*names, *((name, True) for name in own_names)]
