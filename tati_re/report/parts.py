"""Parts of a page: marginals and predictions of stored positions, figures of its own, and two runs
side by side.
"""

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from tati_re.analysis.averages import average, averages_of_rows
from tati_re.analysis.convergence import LARGEST_R_HAT, MINIMUM_DRAWS, rows_that_count
from tati_re.analysis.format import with_error
from tati_re.core.errors import InputError
from tati_re.core.files.structured import read_toml_file
from tati_re.plotting.comparison import plot_comparison
from tati_re.plotting.figure import COLORS, GRAY, labeled, legend_above, new_figure
from tati_re.plotting.prediction import plot_prediction
from tati_re.prediction.held_out import stored_comparison
from tati_re.prediction.held_out_table import SCORES
from tati_re.prediction.predict import predict, predictor_note
from tati_re.report import html
from tati_re.runs import files
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles

_PARAMETERS = 12
_DRAWS = 400
_FIGURE = "predictions.png"
_NEIGHBOUR_BYTES = 1_000_000  # What folders beside a run say of themselves is a few lines.


def parameters_section(run: RunFiles, burnin: int, thin: int) -> html.Section:
    """Marginals of some parameters for each walker, with mean, error and R-hat.

    The parameters are evenly spaced among all.

    Args:
        run: The run, which stored positions.
        burnin: Steps to leave out.
        thin: Keep one in this many stored positions.
    """
    stored = Positions(run, burnin, thin)
    chosen = np.unique(np.linspace(0, len(stored.names) - 1, _PARAMETERS).astype(int))
    blocks = [
        (block.step, block.walker, block.counts, block.values[:, chosen])
        for block in stored.blocks()
    ]
    section = html.Section("Parameters", "parameters")
    parts: Any = (
        [np.concatenate(part) for part in zip(*blocks, strict=True)] if blocks else np.zeros((4, 0))
    )
    steps, walkers, weights, values = parts
    parts = rows_that_count(steps, walkers, weights) if len(steps) else np.zeros((2, 1, 0), int)
    order, weights = parts
    if order.shape[1] < 2 * MINIMUM_DRAWS:
        section.parts.append(
            html.paragraph("Too few positions are stored to describe the parameters.")
        )
        return section
    chains = {stored.names[k]: values[:, number][order] for number, k in enumerate(chosen)}
    rows = [{"parameter": name} | average(x, weights) for name, x in chains.items()]
    table = pd.DataFrame(rows)[["parameter", "mean", "std", "ess_bulk", "r_hat"]]
    num_disagreeing = int((table["r_hat"] > LARGEST_R_HAT).sum())
    count = np.count_nonzero(weights)
    caption = (
        f"{len(chains)} of {len(stored.names):,} parameters, evenly spaced; {count:,} positions."
    )
    if num_disagreeing:
        caption += (
            f" R-hat is above {LARGEST_R_HAT} for {num_disagreeing}: walkers disagree, as they do in "
            "equivalent minima."
        )
    drawn = html.figure(
        _marginals(chains, weights), "Distribution of each parameter, one line per walker."
    )
    section.parts += [
        html.paragraph(caption),
        drawn,
        html.fold("the numbers", html.html_table(table)),
    ]
    return section


def _marginals(chains: dict[str, np.ndarray], weights: np.ndarray) -> Figure:
    columns = min(4, len(chains))
    figure = new_figure(2.4 * columns, 1.8 * -(-len(chains) // columns))
    for number, (name, values) in enumerate(chains.items()):
        axes = figure.add_subplot(-(-len(chains) // columns), columns, number + 1)
        edges = np.histogram_bin_edges(values[weights > 0], 30)
        for walker, walker_values in enumerate(values):
            heights = np.histogram(walker_values, edges, weights=weights[walker])[0]
            color, alpha = (COLORS[walker], 1.0) if len(values) <= len(COLORS) else (COLORS[0], 0.5)
            axes.stairs(heights, edges, color=color, alpha=alpha, linewidth=1.0)
        axes.set_yticks([])
        axes.locator_params(axis="x", nbins=3)
        labeled(axes, name, "")
        axes.spines["left"].set_visible(False)
    return figure


def _of_few_draws(run: RunFiles, burnin: int, thin: int) -> Any:
    """The prediction of the test set by a few draws, or with the fits if the run uses them."""
    if run.manifest.chose_fits:
        return predict(run)
    count = sum(len(block.step) for block in Positions(run, burnin, thin).blocks())
    return predict(run, burnin=burnin, thin=thin * -(-count // _DRAWS))


def predictions_section(run: RunFiles, burnin: int, thin: int) -> html.Section | None:
    """Predictions of the test set by at most 400 stored positions, or with the fits of a run.

    Args:
        run: The run.
        burnin: Steps to leave out.
        thin: Keep one in this many stored positions, or fewer.

    Returns:
        The section; None if `tati-predict` used all positions.
    """
    if (run.folder / files.PREDICTIONS / _FIGURE).exists():
        return None
    section = html.Section("Predictions", "predictions")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the page says how many draws there are
            prediction = _of_few_draws(run, burnin, thin)
    except InputError as error:
        section.parts.append(html.paragraph(f"No predictions of the test set: {error}"))
        return section
    notes = [("note", note) for note in prediction.notes]
    caption = (
        f"The {prediction.title} on the test set; bands contain 95 % of the whole curves of "
        "calibrated predictions."
    )
    section.parts += [
        html.pairs([("average of", prediction.count_text()), *prediction.score_lines(), *notes]),
        html.figure(plot_prediction(prediction), caption),
    ]
    return section


def comparison_section(run: RunFiles) -> html.Section | None:
    """The scores of the posterior average beside the fits it began from; None if the run kept none."""
    frame = stored_comparison(run)
    if frame is None:
        return None
    section = html.Section("What sampling bought", "comparison")
    rows = int(frame["rows"].iloc[0])
    caption = (
        f"Scores on {rows:,} rows ({frame['scored_on'].iloc[0]}). One fit: the mean of the scores of "
        "the single fits. Ensemble: the average of their predictive distributions."
    )
    drawn = html.figure(plot_comparison(frame), "Scores; the gray line marks a coverage of 90 %.")
    names = {name: words for name, words in SCORES.items() if name in frame.columns}
    numbers = html.html_table(frame.reset_index().rename(columns=names))
    section.parts += [html.paragraph(caption), drawn, numbers]
    if note := predictor_note(run.manifest):
        section.parts.append(html.paragraph(note))
    return section


_MOST_STEPS = 1500
_MOST_REPLICAS = 4


def narrow(figure: Figure) -> None:
    """Fits the traces of `plot_traces` to half a page, without wide legends, which the caption
    replaces.
    """
    for number, axes in enumerate(figure.axes):
        handles, labels = axes.get_legend_handles_labels()
        if (legend := axes.get_legend()) is not None:
            legend.remove()
        for text in list(axes.texts):
            text.remove()
        if number == 0 and len(labels) > 1:
            axes.legend(
                handles, labels, frameon=False, fontsize=7, ncols=2, handlelength=1.2, loc="best"
            )
        axes.xaxis.set_major_locator(MaxNLocator(4))


def plot_replicas(rows: pd.DataFrame) -> Figure:
    figure = new_figure(4.6, 2.9)
    axes = figure.subplots()
    rows = rows[rows["walker"] == 0]
    replicas = np.unique(rows["replica"])
    chosen = replicas[np.unique(np.linspace(0, len(replicas) - 1, _MOST_REPLICAS).astype(int))]
    for number, replica in enumerate(chosen):
        mine = rows[rows["replica"] == replica]
        visible = mine[:: max(1, len(mine) // _MOST_STEPS)]
        heights = visible["rung"] + 0.08 * (number - 0.5 * (len(chosen) - 1))
        axes.plot(
            visible["step"],
            heights,
            color=COLORS[number],
            linewidth=0.8,
            label=f"replica {replica}",
        )
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    legend_above(axes)
    labeled(axes, "step", "rung")
    return figure


def plot_bias(bias: pd.DataFrame) -> Figure:
    figure = new_figure(4.6, 2.9)
    axes = figure.subplots()
    for number, (rung, part) in enumerate(bias.groupby("rung")):
        color = COLORS[number % len(COLORS)] if number < len(COLORS) else GRAY
        label = f"rung {rung}" if number < len(COLORS) else None
        every = max(1, len(part) // _MOST_STEPS)
        axes.plot(
            part["energy"][::every], part["bias"][::every], color=color, linewidth=1.1, label=label
        )
    axes.legend(frameon=False, fontsize=8)
    labeled(axes, "potential U", "bias A(U)")
    return figure


_COMPARED = ("potential", "loss", "accuracy", "acceptance")
_UNLIKE = ("output", "verbose", "seed")


def differences(
    runs: Sequence[RunFiles], names: Sequence[str], rows: Sequence[pd.DataFrame | None]
) -> str:
    """Averages of two runs side by side, and the options that differ.

    The table also has the distance of the averages in standard errors.

    Args:
        runs: Two runs.
        names: What the page calls them.
        rows: Rows of each run that enter its averages; None if it has none.
    """
    parts = []
    tables_of_runs = [rows_of_run for rows_of_run in rows if rows_of_run is not None]
    if len(tables_of_runs) == 2:
        columns = [
            name
            for name in _COMPARED
            if all(
                name in rows_of_run and rows_of_run[name].notna().all()
                for rows_of_run in tables_of_runs
            )
        ]
        tables: list[Any] = [
            averages_of_rows(rows_of_run, columns).set_index("observable")
            for rows_of_run in tables_of_runs
        ]
        lines = []
        for name in columns:
            first, other = (table.loc[name] for table in tables)
            error = math.hypot(first["error"], other["error"])
            standard_errors = abs(first["mean"] - other["mean"]) / error if error > 0 else math.nan
            values = [
                with_error(row["mean"], row["error"], bool(row["short"])) for row in (first, other)
            ]
            lines.append([name, *values, standard_errors])
        parts.append(
            html.html_table(
                pd.DataFrame(lines, columns=["average", *names, "standard errors apart"])
            )
        )
    options = [run.manifest.options.table for run in runs]
    names_of_both = dict.fromkeys([*options[0], *options[1]])
    unlike = [
        name
        for name in names_of_both
        if name not in _UNLIKE and options[0].get(name) != options[1].get(name)
    ]
    if unlike:
        table_rows = [
            [name, *(str(run_options.get(name)) for run_options in options)] for name in unlike
        ]
        parts.append(html.html_table(pd.DataFrame(table_rows, columns=["option", *names])))
    return html.Section(
        "Side by side", "beside", parts or [html.paragraph("The runs have the same options.")]
    ).html()


def made_of(run: RunFiles) -> list[Path]:
    """Folders beside a run where `tati-landscape` and `tati-inputspace` say that they are of this
    run.
    """
    folders = []
    for path in sorted(run.folder.resolve().parent.glob("*/*.toml")):
        if (
            path.name not in ("landscape.toml", "inputspace.toml")
            or path.is_symlink()
            or path.parent.is_symlink()
        ):
            continue
        try:
            source = read_toml_file(path, _NEIGHBOUR_BYTES).get("run")
        except (OSError, ValueError):
            continue
        if (
            isinstance(source, str)
            and source
            and (path.parent / source).resolve() == run.folder.resolve()
        ):
            folders.append(path.parent)
    return folders
