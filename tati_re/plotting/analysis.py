"""Figures of the modules of an analysis. Each writes a PNG file where there is a `path`; an empty
table, or a path that cannot be written, is an InputError.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator

from tati_re.analysis.diffusion_map import DiffusionMap
from tati_re.analysis.learning_coefficient import curve_value
from tati_re.core.errors import AnyPath, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.outcomes import FAILED
from tati_re.core.renamed import renamed_arguments
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    color_bar,
    labeled,
    legend_above,
    new_figure,
    plain,
    save,
)
from tati_re.plotting.run import FORMULAS


class _InFigures(LogFormatterSciNotation):
    """Labels between powers of ten as they are said, 6.2 and not 6.2 × 10⁰, where no power is
    needed.
    """

    def __call__(self, value, pos=None):
        label = super().__call__(value, pos)
        return f"{value:g}" if label and 1e-3 <= value < 1e4 else label


@front_door
def plot_spectrum(tables: Mapping[str, pd.DataFrame], path: AnyPath | None = None) -> Figure:
    """Plots the leading eigenvalues of covariances, and the autocorrelation time along each vector.

    The second panel appears only if autocorrelation times could be estimated.

    Args:
        tables: Tables from `analysis.covariance_table` by name, such as one per run or walker.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There are no tables.
    """
    refuse_if(not tables, "There is no covariance to draw.")
    timed = any(np.isfinite(table["autocorrelation_steps"]).any() for table in tables.values())
    figure = new_figure(8.0 if timed else 4.8, 3.4)
    panels = figure.subplots(1, 2 if timed else 1, squeeze=False, sharex=True)[0]
    columns = ["eigenvalue"] + (["autocorrelation_steps"] if timed else [])
    for axes, column in zip(panels, columns, strict=True):
        for number, (name, table) in enumerate(tables.items()):
            values = table[column].where(table[column] > 0)
            size = 3.5 if len(table) <= 40 else 2
            axes.plot(
                table["number"],
                values,
                marker="o",
                markersize=size,
                linewidth=0.8,
                color=COLORS[number % len(COLORS)],
                label=name,
            )
        axes.set_yscale("log")
        axes.yaxis.set_minor_formatter(_InFigures(minor_thresholds=(1.2, 0.5)))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("eigenvector (by decreasing variance)")
        plain(axes)
    panels[0].set_ylabel("variance (eigenvalue)")
    if timed:
        panels[1].set_ylabel("autocorrelation time (steps)")
    if len(tables) > 1:
        legend_above(panels[0])
    return save(figure, path)


@front_door
def plot_free_energy(
    table: pd.DataFrame, name: str = "coordinate", path: AnyPath | None = None
) -> Figure:
    """Plots a free energy with error bars of one standard error.

    Args:
        table: The table from `analysis.free_energy`.
        name: The name of the coordinate. Default: "coordinate".
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The table is empty.
    """
    refuse_if(table.empty, "There is no free energy to draw.")
    figure = new_figure(5.4, 3.4)
    axes = figure.subplots()
    x = table["coordinate"].to_numpy()
    energy = table["free_energy"].to_numpy()
    error = np.nan_to_num(table["error"].to_numpy())
    axes.fill_between(x, energy - error, energy + error, color=COLORS[4], alpha=0.35, linewidth=0)
    axes.plot(x, energy, color=COLORS[0], linewidth=1.2, marker="o", markersize=3)
    labeled(axes, name, "free energy -T ln p")
    return save(figure, path)


@renamed_arguments(found="diffusion")
@front_door
def plot_diffusion_map(
    diffusion: DiffusionMap,
    potential: np.ndarray,
    landmarks: np.ndarray | None = None,
    path: AnyPath | None = None,
) -> Figure:
    """Plots the eigenvalues of a diffusion map, and its points on the first two eigenfunctions.

    Args:
        diffusion: The diffusion map.
        potential: U of its points, `(n,)`, shown as color.
        landmarks: Indices of points to mark. Default: None.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.
    """
    figure = new_figure(8.4, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=[1.0, 1.6])
    left.plot(
        np.arange(1, len(diffusion.values) + 1),
        -diffusion.values,
        "o-",
        color=COLORS[0],
        markersize=4,
        linewidth=0.8,
    )
    left.set_ylim(bottom=0)
    left.xaxis.set_major_locator(MaxNLocator(integer=True))
    left.set(xlabel="eigenfunction", ylabel="rate (minus the eigenvalue)")
    first = diffusion.vectors[:, 0]
    second = diffusion.vectors[:, 1] if len(diffusion.values) > 1 else potential
    order = np.argsort(-potential)
    drawn = right.scatter(
        first[order], second[order], c=potential[order], s=6, cmap="viridis", linewidths=0
    )
    if landmarks is not None:
        x = first[landmarks]
        y = second[landmarks]
        right.scatter(x, y, s=42, facecolors="none", edgecolors=COLORS[1], linewidths=1.3)
    right.set(
        xlabel="eigenfunction 1",
        ylabel="eigenfunction 2" if len(diffusion.values) > 1 else "potential U",
    )
    color_bar(figure, right, drawn, "potential U")
    plain(left, right)
    return save(figure, path)


@front_door
def plot_reweighting(table: pd.DataFrame, sampled, path: AnyPath | None = None) -> Figure:
    """Plots averages with errors against temperature, and marks the sampled temperatures.

    There is one panel per observable.

    Args:
        table: The table from `analysis.reweight`.
        sampled: The sampled temperatures.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The table is empty.
    """
    refuse_if(table.empty, "There are no averages to draw.")
    names = list(dict.fromkeys(table["observable"]))
    figure = new_figure(2.9 * len(names), 3.0)
    for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
        part = table[table["observable"] == name]
        for temperature in sampled:
            axes.axvline(temperature, color=GRAY, linewidth=0.6, linestyle=":")
        axes.errorbar(
            part["temperature"],
            part["mean"],
            yerr=part["error"],
            color=COLORS[0],
            ecolor=DARK,
            marker="o",
            markersize=3,
            linewidth=1.0,
            capsize=2,
        )
        labeled(axes, "temperature (dotted: sampled)", name.replace("_", " "))
    return save(figure, path)


@front_door
def plot_group_temperatures(table: pd.DataFrame, path: AnyPath | None = None) -> Figure:
    """Plots the temperature of each parameter group as a point, with the band where it should lie.

    There is one panel per kind of temperature.

    Args:
        table: The table from `analysis.group_temperatures`.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The table is empty.
    """
    refuse_if(table.empty, "There are no temperatures to draw.")
    kinds = list(dict.fromkeys(table["temperature"]))
    figure = new_figure(7.2, 1.1 + 0.26 * int(table.groupby("temperature").size().max()))
    panels = figure.subplots(1, len(kinds), squeeze=False, sharey=True)[0]
    groups = list(dict.fromkeys(table["group"]))
    for axes, kind in zip(panels, kinds, strict=True):
        axes.use_sticky_edges = False
        part = table[table["temperature"] == kind]
        positions = np.array([groups.index(group) for group in part["group"]])
        ends = part[["lower", "upper"]].where(np.isfinite(part["lower"])).to_numpy()
        axes.barh(
            positions,
            ends[:, 1] - ends[:, 0],
            left=ends[:, 0],
            height=0.62,
            color=COLORS[4],
            alpha=0.35,
        )
        outside = (part["verdict"] == FAILED).to_numpy()
        for chosen, color, marker in ((~outside, COLORS[0], "o"), (outside, COLORS[1], "D")):
            axes.plot(
                part["mean"][chosen],
                positions[chosen],
                marker,
                color=color,
                markersize=5,
                linestyle="none",
            )
        axes.axvline(part["target"].iloc[0], color=DARK, linewidth=0.8, linestyle="--")
        axes.set_xlabel(f"{kind} temperature {FORMULAS[kind]}")
        plain(axes)
    panels[0].set_yticks(range(len(groups)), groups)
    panels[0].set_ylim(len(groups) - 0.4, -0.6)
    legend = "bands hold all but 1 in 10,000 means; diamonds: failed; no band: not measured"
    figure.suptitle(legend, fontsize=8, color=DARK, x=0.99, ha="right")
    return save(figure, path)


@front_door
def plot_learning_coefficient(
    table: pd.DataFrame,
    curve: pd.DataFrame | None = None,
    num_parameters: int | None = None,
    path: AnyPath | None = None,
) -> Figure:
    """Plots the learning coefficient against nβ with one standard error, and the fitted curve.

    Args:
        table: The table from `analysis.learning_coefficient`.
        curve: The fitted curve with its limit, from `analysis.learning_curve`. Default: None, no
            curve.
        num_parameters: P. The value of a regular model, P/2, is marked if it lies in range.
            Default: None, no mark.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: The table is empty.
    """
    refuse_if(table.empty, "There is no learning coefficient to draw.")
    figure = new_figure(5.6, 3.8)
    axes = figure.subplots()
    examples = table["effective_examples"].to_numpy()
    axes.errorbar(
        examples,
        table["raw"],
        table["raw_error"],
        fmt="o",
        color=GRAY,
        markersize=4,
        label="as sampled",
    )
    values = table["coefficient"]
    errors = table["error"]
    axes.errorbar(
        examples,
        values,
        errors,
        fmt="o",
        color=COLORS[0],
        markersize=5,
        label="corrected for the tether",
    )
    if curve is not None:
        best = curve.iloc[0]
        used = np.sort(examples)[-int(best["rungs"]) :]
        x = np.geomspace(used[0], used[-1], 200)
        y = curve_value(int(best["multiplicity"]), best["coefficient"], best["offset"], x)
        axes.plot(x, y, color=COLORS[1], label=f"fit, multiplicity {best['multiplicity']:.0f}")
        axes.axhline(
            best["coefficient"], color=COLORS[1], linewidth=0.8, linestyle="--", label="its limit λ"
        )
    if num_parameters is not None and num_parameters / 2 < 1.5 * values.max():
        axes.axhline(
            num_parameters / 2, color=DARK, linewidth=0.8, linestyle=":", label="regular, P/2"
        )
    if len(table) > 1:
        axes.set_xscale("log")
    labeled(axes, "effective number of examples nβ", "learning coefficient λ")
    legend_above(axes)
    return save(figure, path)
