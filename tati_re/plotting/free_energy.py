"""Free energies, diffusion maps, and averages over temperature."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, DARK, GRAY, labeled, new_figure, plain, save

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from tati_re.analysis.diffusion_map import DiffusionMap


def plot_free_energy(
    table: pd.DataFrame, name: str = "coordinate", path: str | os.PathLike[str] | None = None
) -> Figure:
    """Draws a free energy with error bars of one standard error.

    Args:
        table: Of `analysis.free_energy`.
        name: Of the coordinate.
        path: PNG file to write. Default: none.

    Raises:
        InputError: An empty table, or a path that cannot be written.
    """
    if table.empty:
        raise InputError("There is no free energy to draw.")
    figure = new_figure(5.4, 3.4)
    axes = figure.subplots()
    x, energy = table["coordinate"].to_numpy(), table["free_energy"].to_numpy()
    error = np.nan_to_num(table["error"].to_numpy())
    axes.fill_between(x, energy - error, energy + error, color=COLORS[4], alpha=0.35, linewidth=0)
    axes.plot(x, energy, color=COLORS[0], linewidth=1.2, marker="o", markersize=3)
    labeled(axes, name, "free energy -T ln p")
    return save(figure, path)


def plot_diffusion_map(
    found: DiffusionMap,
    potential: np.ndarray,
    landmarks: np.ndarray | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws the eigenvalues of a diffusion map, and its points by their first two eigenfunctions.

    Args:
        found: The map.
        potential: Of the points, `(n,)`: their color, with a color bar.
        landmarks: Indices of points to mark. Default: None.
        path: PNG file to write. Default: none.

    Raises:
        InputError: A path that cannot be written.
    """
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(8.4, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.6])
    number = np.arange(1, len(found.values) + 1)
    left.plot(number, -found.values, "o-", color=COLORS[0], markersize=4, linewidth=0.8)
    left.set_ylim(bottom=0)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set_xlabel("eigenfunction")
    left.set_ylabel("rate, minus its eigenvalue")
    first = found.vectors[:, 0]
    second = found.vectors[:, 1] if len(found.values) > 1 else potential
    order = np.argsort(-potential)
    drawn = right.scatter(first[order], second[order], c=potential[order], s=6, cmap="viridis", linewidths=0)
    if landmarks is not None:
        right.scatter(
            first[landmarks], second[landmarks], s=42, facecolors="none", edgecolors=COLORS[1], linewidths=1.3
        )
    right.set_xlabel("eigenfunction 1")
    right.set_ylabel("eigenfunction 2" if len(found.values) > 1 else "potential U")
    figure.colorbar(drawn, ax=right, label="potential U")
    plain(left, right)
    return save(figure, path)


def plot_reweighting(table: pd.DataFrame, sampled, path: str | os.PathLike[str] | None = None) -> Figure:
    """Draws averages over the temperature with their errors, and marks the temperatures that were sampled.

    Args:
        table: Of `analysis.reweight`; a panel for each observable.
        sampled: Temperatures of the rungs.
        path: PNG file to write. Default: none.

    Raises:
        InputError: An empty table, or a path that cannot be written.
    """
    if table.empty:
        raise InputError("There are no averages to draw.")
    names = list(dict.fromkeys(table["observable"]))
    figure = new_figure(2.9 * len(names), 3.0)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        part = table[table["observable"] == name]
        for temperature in sampled:
            axes.axvline(temperature, color=GRAY, linewidth=0.6, linestyle=":")
        axes.errorbar(
            part["temperature"], part["mean"], yerr=part["error"],
            color=COLORS[0], ecolor=DARK, marker="o", markersize=3, linewidth=1.0, capsize=2,
        )  # fmt: skip
        labeled(axes, "temperature (dotted: sampled)", name.replace("_", " "))
    return save(figure, path)
