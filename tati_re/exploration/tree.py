"""The disconnectivity tree of minima: at which energy each is no longer apart from a lower one."""

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from tati_re.exploration.explorer import Exploration


def disconnectivity(found: "Exploration") -> pd.DataFrame:
    """At which potential each minimum joins a lower one, when the surface is flooded from below.

    The pass between two minima is the lowest, over all chains of relaxed paths, of the highest potential on the chain:
    pairs are joined in the order of their passes, as in a minimal spanning tree. Passes are upper bounds, as the
    relaxed paths are. O. Becker, M. Karplus, J. Chem. Phys. 106, 1495 (1997); D. Wales et al., Nature 394, 758 (1998).

    Args:
        found: Of `explore`.

    Returns:
        One row for each minimum that a path leads to, the lowest first: its `number` and `potential`; the minimum it
        `joins`, the lowest on the other side of its pass (0: none, it is the lowest of all that are connected); the
        potential of the pass, `joins_at`; and `depth`, the height of the pass above it (nan: none).
    """
    potential = dict(zip(found.minima["number"], found.minima["potential"], strict=True))
    passes = [
        (max(potential[i], potential[j]) + barrier, i, j)
        for i, j, barrier in found.barriers[["first", "second", "relaxed_barrier"]].itertuples(index=False)
    ]
    lowest = {int(number): int(number) for _, *pair in passes for number in pair}
    joined: dict[int, tuple[int, float]] = {}
    for height, i, j in sorted(passes):
        low, high = sorted(
            (_root(lowest, int(i)), _root(lowest, int(j))), key=lambda number: (potential[number], number)
        )
        if low != high:
            lowest[high] = low
            joined[high] = low, float(height)
    rows = []
    for number in sorted(lowest):
        joins, at = joined.get(number, (0, np.nan))
        rows.append((number, potential[number], joins, at, at - potential[number]))
    return pd.DataFrame(rows, columns=["number", "potential", "joins", "joins_at", "depth"])


def _root(lowest: dict[int, int], number: int) -> int:
    """The lowest minimum of the basin of a minimum."""
    while lowest[number] != number:
        number = lowest[number]
    return number
