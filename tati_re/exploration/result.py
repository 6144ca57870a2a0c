"""What an exploration has found, and the disconnectivity tree that its minima and barriers make."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from tati_re.core.errors import AnyPath
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.renamed import renamed_arguments
from tati_re.core.views import drawn, viewable
from tati_re.exploration.paths import Path

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@front_doors
@viewable
class Exploration(NamedTuple):
    """The minima, barriers and paths of an exploration.

    Attributes:
        minima: One row per minimum, the lowest first: `number, kind, potential, loss,
            gradient_norm, hessian_index, num_flat, smallest, largest, ln_volume, distance` (from
            the lowest), `times_found, round`.
        positions: Positions of the minima, `(n, parameters)`.
        barriers: One row per pair: `first, second, distance, linear_barrier, relaxed_barrier,
            residual`.
        paths: Both paths of each pair, by pair of numbers.
        legs: Positions of all legs, `(k, n, parameters)`, as a list.
        num_rounds: Number of rounds.
        reason: The reason why the exploration stopped, in words.
        out_of_time: Whether `max_time` ended it.
    """

    minima: pd.DataFrame
    positions: np.ndarray
    barriers: pd.DataFrame
    paths: dict[tuple[int, int], Path]
    legs: list[np.ndarray]
    num_rounds: int
    reason: str
    out_of_time: bool = False

    def plot(self, path: AnyPath | None = None) -> Figure:
        """Plots minima, barriers and paths; see `tati_re.plotting.plot_exploration`.

        Args:
            path: File for the figure. Default: None, no file.

        Returns:
            The figure.
        """
        return drawn("exploration", self, path=path)


@renamed_arguments(found="exploration")
@front_door
def disconnectivity(exploration: Exploration) -> pd.DataFrame:
    """Returns the potential at which each minimum joins a lower one when the surface is flooded.

    The pass between two minima is the lowest value, over all chains of relaxed paths, of the
    highest potential on the chain. Pairs are joined in the order of their passes, as in a minimal
    spanning tree. Passes are upper bounds, because relaxed paths are. References: O. Becker, M.
    Karplus, J. Chem. Phys. 106, 1495 (1997); D. Wales et al., Nature 394, 758 (1998).

    Args:
        exploration: The result of `explore`.

    Returns:
        One row per connected minimum, the lowest first. `number` and `potential` describe it.
        `joins` is the minimum it joins, the lowest on the other side of its pass (0 for the lowest
        of all). `joins_at` is the potential of the pass, and `depth` its height above the minimum
        (both nan for the lowest).
    """
    potential = dict(
        zip(exploration.minima["number"], exploration.minima["potential"], strict=True)
    )
    passes = [
        (max(potential[i], potential[j]) + barrier, i, j)
        for i, j, barrier in exploration.barriers[
            ["first", "second", "relaxed_barrier"]
        ].itertuples(index=False)
    ]
    lowest = {int(number): int(number) for _, *pair in passes for number in pair}
    joined: dict[int, tuple[int, float]] = {}
    for height, i, j in sorted(passes):
        low, high = sorted(
            (_root(lowest, int(i)), _root(lowest, int(j))), key=lambda n: (potential[n], n)
        )
        if low != high:
            lowest[high] = low
            joined[high] = low, float(height)
    ends = [(number, *joined.get(number, (0, np.nan))) for number in sorted(lowest)]
    rows = [
        (number, potential[number], joins, at, at - potential[number]) for number, joins, at in ends
    ]
    return pd.DataFrame(rows, columns=["number", "potential", "joins", "joins_at", "depth"])


def _root(lowest: dict[int, int], number: int) -> int:
    """The lowest minimum of the basin of a minimum."""
    while lowest[number] != number:
        number = lowest[number]
    return number
