"""A run at a glance: traces, ranks and autocorrelation of its observables, temperatures with their
target.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from tati_re.analysis.convergence import (
    MINIMUM_DRAWS,
    autocorrelation_estimate,
    autocorrelation_function,
    chains_of,
)
from tati_re.analysis.temperature import COLUMNS, Temperature, measured_temperatures
from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.plotting.bands import draw_ranks
from tati_re.plotting.figure import (
    COLORS,
    DARK,
    GRAY,
    empty,
    labeled,
    legend_above,
    new_figure,
    plain,
    save,
)
from tati_re.runs.run import RunFiles
from tati_re.runs.selection import at_target, burnin_of, is_optimization, keep, leaves, spacing

_SHOWN = ("potential", "loss", "accuracy")


@front_door
def plot_run(
    run: RunFiles,
    observables: Sequence[str] | str | None = None,
    burnin: int | None = None,
    thin: int = 1,
    path: AnyPath | None = None,
) -> Figure:
    """Plots the trace, ranks and autocorrelation of each observable of a run, one row each.

    Traces show each walker against the steps, with the burn-in in gray. Ranks show the distribution
    function of each walker's ranks among all draws, minus the uniform one. Draws are first thinned
    by their autocorrelation time. If all walkers sample the same distribution, their curves stay
    inside the gray band together with probability 95 %. For a single walker, its two halves are
    compared. Only traces are plotted for fits, for walkers that leave the target and return, and
    for fewer than 4 rows per walker after burn-in.

    Args:
        run: The run.
        observables: Columns of `run.csv`. Default: None, those of potential, loss and accuracy that
            vary.
        burnin: Steps to leave out of ranks and autocorrelation. Default: None, the burn-in of the
            run.
        thin: Keep one in this many rows for ranks and autocorrelation. Default: 1.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There are no rows, or there is no such column.
    """
    rows = at_target(run.run_info)
    refuse_if(rows.empty, "The run has no rows to draw.")
    names = _names_of(rows, observables)
    steps = burnin_of(run, burnin)
    late = rows["step"] > steps
    enough = late.any() and rows[late].groupby("walker").size().min() >= 2 * MINIMUM_DRAWS * thin
    sampled = (
        enough and not leaves(run.run_info) and not is_optimization(run.manifest, run.run_info)
    )
    thinned = rows if thin == 1 else keep(rows, 0, thin)
    figure = new_figure(12.0 if sampled else 6.4, 2.4 * len(names) + 0.4)
    widths = [1.6, 1, 1] if sampled else [1]
    panels = figure.subplots(len(names), len(widths), squeeze=False, width_ratios=widths)
    for number, (name, line) in enumerate(zip(names, panels, strict=True)):
        draw_traces(line[0], thinned, name, steps, legend=number == 0)
        if sampled:
            _draw_chains(line[1], line[2], keep(rows, steps, thin), name)
        plain(*line)
    panels[-1][0].set_xlabel("step; gray: burn-in" if steps else "step")
    return save(figure, path)


def _names_of(rows: pd.DataFrame, observables: Sequence[str] | str | None) -> Sequence[str]:
    """The columns to draw: those that were asked for, else those of the usual ones that change."""
    if observables is None:
        changing = [name for name in _SHOWN if name in rows and rows[name].nunique() > 1]
        return changing or ["potential"]

    names = [observables] if isinstance(observables, str) else observables
    for name in names:
        if name not in rows or name in ("step", "walker"):
            known = [str(column) for column in rows.columns[2:]]
            raise InputError(
                f"The run has no observable {name}.{nearest(name, known)}", name, ", ".join(known)
            )
    return names


def _draw_chains(ranks: Axes, autocorrelation: Axes, rows: pd.DataFrame, name: str) -> None:
    """Draws ranks and autocorrelation of one observable, where it moves."""
    chains = chains_of(rows, name, -1)
    if np.isfinite(chains).all() and (np.ptp(chains, axis=1) > 0).all():
        draw_ranks(ranks, chains)
        draw_autocorrelation(autocorrelation, {"": chains}, spacing(rows))
        return

    for panel in (ranks, autocorrelation):
        empty(panel, f"{name} is not a number, or does not change")


_POINTS = 2000
FORMULAS = {"kinetic": "p·p / P", "configurational": "θ·∇U / P"}


@front_door
def plot_traces(
    run_info: pd.DataFrame,
    num_parameters: int,
    num_burnin_steps: int = 0,
    path: AnyPath | None = None,
) -> Figure:
    """Plots the potential of each walker against the steps, with the recorded temperatures below.

    Each temperature has a panel with the running mean over walkers and rows after burn-in, the
    target, and the band where the mean should lie. The band narrows as 1/sqrt(rows) and ends at the
    band of `analysis.temperatures`.

    Args:
        run_info: Rows of `run.csv`.
        num_parameters: Number of parameters P.
        num_burnin_steps: Steps that are shaded in the upper panel and excluded from the means.
            Default: 0.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: There are no rows.
    """
    refuse_if(run_info.empty, "The run has no rows to draw.")
    temperatures = measured_temperatures(
        run_info[run_info["step"] > num_burnin_steps], num_parameters
    )
    figure = new_figure(8.0, 3.0 + 1.9 * len(temperatures))
    heights = [1.4] + [1.0] * len(temperatures)
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[
        :, 0
    ]
    draw_traces(panels[0], run_info, "potential", num_burnin_steps)
    if num_burnin_steps:
        style: dict[str, Any] = {
            "transform": panels[0].transAxes,
            "fontsize": 8,
            "color": DARK,
            "va": "bottom",
        }
        panels[0].text(0.0, 1.02, "gray: burn-in, left out of averages", **style)
    for panel, temperature in zip(panels[1:], temperatures, strict=True):
        _draw_temperature(panel, run_info, num_parameters, num_burnin_steps, temperature)
    if temperatures:
        legend_above(panels[1])
    panels[-1].set(xlabel="step", xlim=(0, int(run_info["step"].max())))
    plain(*panels)
    figure.align_ylabels(list(panels))
    return save(figure, path)


def draw_traces(
    axes: Axes, run_info: pd.DataFrame, column: str, num_burnin_steps: int, legend: bool = True
) -> None:
    """Draws a column of each walker over the steps, faint, with its moving mean.

    Args:
        axes: The panel.
        run_info: Rows of `run.csv`.
        column: Name of the column.
        num_burnin_steps: Steps of the burn-in, which are gray; 0: none.
        legend: Whether several walkers have a legend. Default: True.
    """
    # Walkers of a tempered run are at the target at steps of their own.
    walkers = [(walker, part.sort_values("step")) for walker, part in run_info.groupby("walker")]
    own_colors = len(walkers) <= len(COLORS)
    if num_burnin_steps:
        axes.axvspan(
            0, min(num_burnin_steps, run_info["step"].max()), color=GRAY, alpha=0.18, linewidth=0
        )
    for number, (walker, part) in enumerate(walkers):
        steps = part["step"].to_numpy()
        chain = part[column].to_numpy(np.float64)
        color = COLORS[number] if own_colors else COLORS[0]
        every = slice(None, None, max(1, len(chain) // _POINTS))
        window = max(1, len(chain) // 60)
        raw = _in_pieces(steps[every], chain[every])
        label = f"walker {walker}" if own_colors else None
        if not own_colors and number == 0:
            label = f"{len(walkers)} walkers"
        smooth_steps, smooth = _moving_mean(steps, chain, window) if window > 1 else raw
        alone = len(raw[0]) > len(steps[every]) or len(chain) == 1  # a visit of one row is a point
        point: dict[str, Any] = {"marker": "." if alone else None, "markersize": 2}
        if window > 1:
            axes.plot(*raw, color=color, linewidth=0.4, alpha=0.25, **point)
            point = {}
            smooth_steps = smooth_steps[every]
            smooth = smooth[every]
        alpha = 1.0 if own_colors else 0.5
        axes.plot(
            smooth_steps, smooth, color=color, linewidth=1.2, alpha=alpha, label=label, **point
        )
    late = run_info.loc[run_info["step"] > num_burnin_steps, column].to_numpy(np.float64)
    if late.size and np.isfinite(late).all() and np.ptp(late) > 0:
        # A start far away would press all that is sampled into one line.
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, late.min() - np.ptp(late)), min(high, late.max() + np.ptp(late)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axes.set_ylabel("potential U" if column == "potential" else column.replace("_", " "))
    if len(walkers) > 1 and legend:
        legend_above(axes)


def _in_pieces(steps: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A line that is broken where a walker is elsewhere, as at another temperature: where steps
    have no rows.
    """
    gaps = np.diff(steps)
    away = np.flatnonzero(gaps > 1.5 * np.median(gaps)) + 1 if len(gaps) else np.zeros(0, int)
    return np.insert(steps.astype(np.float64), away, np.nan), np.insert(values, away, np.nan)


def _moving_mean(
    steps: np.ndarray, values: np.ndarray, window: int
) -> tuple[np.ndarray, np.ndarray]:
    """Means of so many rows at their middle step; nan across a gap, where they take over twice the
    usual time.
    """
    # Sums about the mean, so that the sum of a window is not lost in that of all rows before it.
    known = np.isfinite(values)
    middle = values[known].mean() if known.any() else 0.0
    columns = np.stack([np.where(known, values - middle, 0.0), known])
    sums = np.cumsum(np.pad(columns, ((0, 0), (1, 0))), axis=1)
    sums, counts = sums[:, window:] - sums[:, :-window]
    first = steps[: 1 - window]
    last = steps[window - 1 :]
    usual = (steps[-1] - steps[0]) * (window - 1) / (len(steps) - 1)
    is_full = (counts == window) & (last - first <= 2 * usual)
    return 0.5 * (first + last), np.where(is_full, middle + sums / window, np.nan)


def _draw_temperature(
    axes: Axes,
    run_info: pd.DataFrame,
    num_parameters: int,
    num_burnin_steps: int,
    temperature: Temperature,
) -> None:
    late = run_info[run_info["step"] > num_burnin_steps]
    counts = (
        late["weight"]
        if temperature.kind == "configurational" and "weight" in late
        else late["step"] * 0.0 + 1.0
    )
    columns = pd.DataFrame({"rows": counts, "energies": counts * late[COLUMNS[temperature.kind]]})
    sums = columns.groupby(late["step"]).sum().cumsum()
    steps = sums.index.to_numpy()
    rows = sums["rows"].to_numpy()
    running = 2.0 / num_parameters * sums["energies"].to_numpy() / rows
    every = max(1, len(rows) // _POINTS)
    if np.isfinite(temperature.lower):
        narrowing = np.sqrt(rows[-1] / rows)[::every]
        lower = temperature.target + (temperature.lower - temperature.target) * narrowing
        upper = temperature.target + (temperature.upper - temperature.target) * narrowing
        label = "once in 10,000 outside"
        axes.fill_between(
            steps[::every], lower, upper, color=COLORS[4], alpha=0.3, linewidth=0, label=label
        )
    axes.axhline(
        temperature.target,
        color=DARK,
        linewidth=0.8,
        linestyle="--",
        label=f"target {temperature.target:g}",
    )
    label = "running mean over walkers and rows"
    axes.plot(steps[::every], running[::every], color=COLORS[1], linewidth=1.4, label=label)
    reach = max(
        4.0 * (temperature.upper - temperature.target),
        1.5 * abs(temperature.mean - temperature.target),
    )
    if np.isfinite(reach) and reach > 0:
        axes.set_ylim(temperature.target - reach, temperature.target + reach)
    axes.set_ylabel(f"{temperature.kind}\ntemperature {FORMULAS[temperature.kind]}")


_LAGS = 8.0  # Autocorrelation times that are shown.


@front_door
def plot_autocorrelation(
    chains: Mapping[str, np.ndarray], steps_between_rows: float = 1.0, path: AnyPath | None = None
) -> Figure:
    """Plots the autocorrelation function of each observable, with its integrated time in the
    legend.

    The band is two standard errors of a zero correlation, from Bartlett's formula with the squares
    of the plotted values.

    Args:
        chains: Draws by name, `(chains, draws)` each.
        steps_between_rows: Steps between two draws, the unit of the lags. Default: 1.
        path: A PNG file to write. Default: None, no file.

    Returns:
        The figure.

    Raises:
        InputError: No observable varies.
    """
    observables = {
        name: values
        for name, values in chains.items()
        if values.shape[1] >= MINIMUM_DRAWS
        and np.isfinite(values).all()
        and (np.ptp(values, axis=1) > 0).all()
    }
    refuse_if(not observables, "No observable changes: there is no autocorrelation to draw.")
    figure = new_figure(6.4, 3.4)
    draw_autocorrelation(figure.subplots(), observables, steps_between_rows)
    return save(figure, path)


def draw_autocorrelation(
    axes: Axes, chains: Mapping[str, np.ndarray], steps_between_rows: float
) -> None:
    """Draws the autocorrelation functions of some observables into a panel.

    The band of the first one contains values compatible with zero.

    Args:
        axes: The panel.
        chains: Draws of each observable by its name, shape (walkers, draws); they must change.
        steps_between_rows: Steps between draws.
    """
    estimates = {name: autocorrelation_estimate(values) for name, values in chains.items()}
    longest = max(time for time, _ in estimates.values())
    for number, (name, values) in enumerate(chains.items()):
        time, needed = estimates[name]
        lags = int(min(values.shape[1] - 1, max(10, np.ceil(_LAGS * longest))))
        function = autocorrelation_function(values)[: lags + 1]
        every = max(1, lags // 1000)
        steps = steps_between_rows * np.arange(lags + 1)
        color = COLORS[number % len(COLORS)]
        time_text = f"{steps_between_rows * time:,.3g} steps" + (
            " or more: too short to tell" if needed else ""
        )
        label = f"{name}: {time_text}" if name else time_text
        axes.plot(steps[::every], function[::every], color=color, linewidth=1.3, label=label)
        if number == 0:
            error = 2 * np.sqrt((1 + 2 * np.cumsum(function[1:] ** 2)) / values.size)
            axes.fill_between(steps[1:], -error, error, color=GRAY, alpha=0.2, linewidth=0)
    axes.axhline(0.0, color=GRAY, linewidth=0.8)
    axes.set_xlim(0, None)
    axes.legend(
        frameon=False, fontsize=8, title="integrated time", title_fontsize=8, loc="upper right"
    )
    labeled(axes, "lag (steps)", "autocorrelation")
