"""The learning coefficient along a ladder."""

import os

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tati_re.analysis.learning_coefficient import curve_value
from tati_re.core.errors import refuse_if
from tati_re.plotting.figure import COLORS, DARK, GRAY, labeled, legend_above, new_figure, save


def plot_learning_coefficient(
    table: pd.DataFrame,
    curve: pd.DataFrame | None = None,
    num_parameters: int | None = None,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """Draws the learning coefficient against nβ, with one standard error, and the fitted curve with its limit.

    Args:
        table: Of `analysis.learning_coefficient`.
        curve: Of `analysis.learning_curve`. Default: none.
        num_parameters: P; half of it is the value of a regular model, marked where it is near. Default: none.
        path: PNG file to write. Default: none.

    Raises:
        InputError: An empty table, or a path that cannot be written.
    """
    refuse_if(table.empty, "There is no learning coefficient to draw.")
    figure = new_figure(5.6, 3.8)
    axes = figure.subplots()
    examples = table["effective_examples"].to_numpy()
    axes.errorbar(examples, table["raw"], table["raw_error"], fmt="o", color=GRAY, markersize=4, label="as sampled")
    values, errors = table["coefficient"], table["error"]
    axes.errorbar(examples, values, errors, fmt="o", color=COLORS[0], markersize=5, label="corrected for the tether")
    if curve is not None:
        best = curve.iloc[0]
        used = np.sort(examples)[-int(best["rungs"]) :]
        x = np.geomspace(used[0], used[-1], 200)
        y = curve_value(int(best["multiplicity"]), best["coefficient"], best["offset"], x)
        axes.plot(x, y, color=COLORS[1], label=f"fit, multiplicity {best['multiplicity']:.0f}")
        axes.axhline(best["coefficient"], color=COLORS[1], linewidth=0.8, linestyle="--", label="its limit λ")
    if num_parameters is not None and num_parameters / 2 < 1.5 * values.max():
        axes.axhline(num_parameters / 2, color=DARK, linewidth=0.8, linestyle=":", label="regular, P/2")
    if len(table) > 1:
        axes.set_xscale("log")
    labeled(axes, "effective number of examples nβ", "learning coefficient λ")
    legend_above(axes)
    return save(figure, path)
