"""A temperature ladder: accepted swaps, and the energies of the rungs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, DARK, labeled, legend_above, new_figure, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure


def plot_ladder(ladder: pd.DataFrame, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws the accepted swaps between each rung and the next, with what was expected, and the mean potential.

    Args:
        ladder: The table `run.ladder`.
        path: PNG file to write. Default: none.

    Raises:
        InputError: A single rung, or a path that cannot be written.
    """
    pairs = ladder.iloc[:-1]
    if pairs.empty:
        raise InputError("A ladder of one rung has no swaps to draw.")
    figure = new_figure(8.6, 3.0)
    axes, right = figure.subplots(1, 2)
    axes.bar(pairs["rung"] + 0.5, pairs["acceptance"], width=0.8, color=COLORS[0], label="accepted")
    axes.plot(pairs["rung"] + 0.5, pairs["expected_acceptance"], "_", color=DARK, markersize=14, label="expected")
    axes.axhline(0.01, color=COLORS[1], linewidth=0.8, linestyle="--", label="broken below")
    axes.set_ylim(0, 1)
    every = -(-len(pairs) // 10)
    shown = pairs["rung"].to_numpy()[::every]
    axes.set_xticks(shown + 0.5, [f"{rung:g}–{rung + 1:g}" for rung in shown])
    legend_above(axes)
    labeled(axes, "between rungs, 0 is the target", "part of the swaps")
    tempered = ladder["likelihood_weight"].nunique() > 1
    x = ladder["likelihood_weight" if tempered else "temperature"]
    right.plot(x, ladder["mean_potential"], "o-", color=COLORS[0], markersize=4, linewidth=0.8)
    if not tempered:
        right.set_xscale("log")
        some = x.to_numpy()[:: -(-len(x) // 6)]
        right.set_xticks(some, [f"{value:.3g}" for value in some])
        right.minorticks_off()
    labeled(right, "weight of the likelihood" if tempered else "temperature T", "mean potential")
    return save(figure, path)
