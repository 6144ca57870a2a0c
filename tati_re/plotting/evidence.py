"""Integrands of log Z, and the estimates of several methods."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from tati_re.analysis.format import SHORT
from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door
from tati_re.evidence.result import NAMES, Evidence
from tati_re.exchange.ladder import LIKELIHOOD_POWER as POWER
from tati_re.plotting.figure import COLORS, GRAY, new_figure, plain, save


@front_door
def plot_evidence(
    estimates: Sequence[Evidence], path=None, labels: Sequence[str] | None = None
) -> Figure:
    """Plots the curve behind each evidence estimate, and the estimates side by side.

    The left panel has t on its axis, with λ = t⁵. For integrals it shows the integrand <log(f/q)>
    dλ/dt, whose area is log Z. For other methods it shows the contribution of each step to log Z,
    per unit of t. Colors are methods, line styles are models. The right panel shows log Z with one
    standard error.

    Args:
        estimates: Estimates for one or several models.
        path: A PNG file to write. Default: None, no file.
        labels: The name of each estimate. Default: None, its method.

    Returns:
        The figure.

    Raises:
        InputError: A curve lacks a column.
    """
    for estimate in estimates:
        _check_curve(estimate)
    labels = [NAMES[estimate.method] for estimate in estimates] if labels is None else list(labels)
    labels = [
        f"{label} {SHORT}" if estimate.short else label
        for estimate, label in zip(estimates, labels, strict=True)
    ]
    rows = len(estimates)
    figure = new_figure(8.6, max(3.2, 0.34 * rows + 2.2))
    left, right = figure.subplots(1, 2, gridspec_kw={"width_ratios": [1.6, 1]})
    seen: Counter = Counter()
    for number, estimate in enumerate(estimates):
        color = COLORS[list(NAMES).index(estimate.method)]
        style = ("-", "--", ":", "-.")[seen[estimate.method] % 4]
        seen[estimate.method] += 1
        # Stepping stones lie on MBAR's steps: wide enough to be seen below them.
        look = {
            "color": color,
            "linewidth": 2.6 if estimate.method == "stepping_stone" else 1,
            "linestyle": style,
        }
        left.plot([], [], label=labels[number], **look)
        curve = estimate.curve
        if "weight" in curve:
            counted = curve[curve["weight"] > 0]
            t = counted["path"].to_numpy() ** (1 / POWER)
            slope = POWER * t ** (POWER - 1)
            left.errorbar(
                t,
                counted["mean"] * slope,
                counted["error"] * slope,
                marker="o",
                markersize=3,
                **look,
            )
        elif "next" in curve:
            edges = np.append(curve["path"].to_numpy(), curve["next"].to_numpy()[-1]) ** (1 / POWER)
            left.stairs(
                curve["log_ratio"].to_numpy() / np.diff(edges), edges, baseline=None, **look
            )
        else:
            t = curve["path"].to_numpy() ** (1 / POWER)
            left.stairs(np.diff(curve["log_z"].to_numpy()) / np.diff(t), t, baseline=None, **look)
        right.errorbar(
            estimate.log_z,
            rows - 1 - number,
            xerr=estimate.error,
            fmt="o",
            color=color,
            markersize=4,
            capsize=2,
        )
    left.axhline(0, color=GRAY, linewidth=0.6)
    left.set_xlabel("t, λ = t⁵: 0 the reference, 1 the posterior")
    left.legend(frameon=False, fontsize=7)
    left.set_ylabel("d log Z / dt, nats")
    right.set_yticks(range(rows), labels[::-1])
    right.set(ylim=(-0.6, rows - 0.4), xlabel="log Z, nats")
    right.ticklabel_format(axis="x", useOffset=False)
    right.locator_params(axis="x", nbins=4)
    plain(left, right)
    return save(figure, path)


def _check_curve(estimate: Evidence) -> None:
    """Refuses an estimate that was made by hand without the columns that are drawn."""
    columns = {*estimate.curve}
    needed = {"path", "log_z"}
    if "weight" in columns:
        needed = {"path", "mean"}
    elif "next" in columns:
        needed = {"path", "log_ratio"}
    missing = sorted(needed - columns)
    problem = f"estimates: the curve of {NAMES[estimate.method]} lacks a column."
    refuse_if(missing, problem, ", ".join(sorted(columns)) or "no columns", ", ".join(missing))
