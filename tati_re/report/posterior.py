"""Parts of a page that are computed from the stored positions: marginals of parameters, and predictions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.analysis.convergence import LARGEST_R_HAT, MINIMUM_DRAWS, effective_sample_size, r_hat, rows_by_walker
from tati_re.core.errors import InputError
from tati_re.plotting.figure import COLORS, labeled, new_figure
from tati_re.report import html
from tati_re.runs import files
from tati_re.runs.positions import Positions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tati_re.runs.run import RunFiles

_PARAMETERS = 12
_DRAWS = 400
_FIGURE = "predictions.png"


def parameters_section(run: RunFiles, burnin: int, thin: int) -> html.Section:
    """Marginals of some of the parameters, evenly among all, walker by walker, with their mean, error and R-hat."""
    import pandas as pd

    stored = Positions(run, burnin, thin)
    chosen = np.unique(np.linspace(0, len(stored.names) - 1, _PARAMETERS).astype(int))
    kept = [(block.step, block.walker, block.values[:, chosen]) for block in stored.blocks()]
    section = html.Section("Parameters", "parameters")
    parts: Any = [np.concatenate(part) for part in zip(*kept, strict=True)] if kept else np.zeros((3, 0))
    steps, walkers, values = parts
    if not len(steps) or (order := rows_by_walker(steps, walkers)).shape[1] < 2 * MINIMUM_DRAWS:
        section.parts.append(html.paragraph("Too few positions are stored to say anything of the parameters."))
        return section
    chains = {stored.names[k]: values[:, number][order] for number, k in enumerate(chosen)}
    columns = ("parameter", "mean", "std", "ess_bulk", "r_hat")
    rows = [(name, x.mean(), x.std(), effective_sample_size(x), r_hat(x)) for name, x in chains.items()]
    table = pd.DataFrame(rows, columns=list(columns))
    apart = int((table["r_hat"] > LARGEST_R_HAT).sum())
    said = f"{len(chains)} of {len(stored.names):,} parameters, evenly among all; {order.size:,} positions."
    if apart:
        said += f" R-hat is above {LARGEST_R_HAT} for {apart}: walkers disagree, as those in equivalent minima do."
    drawn = html.figure(_marginals(chains), "Distribution of each parameter, a line a walker.")
    section.parts += [html.paragraph(said), drawn, html.fold("the numbers", html.html_table(table))]
    return section


def _marginals(chains: dict[str, np.ndarray]) -> Figure:
    columns = min(4, len(chains))
    figure = new_figure(2.4 * columns, 1.8 * -(-len(chains) // columns))
    for number, (name, values) in enumerate(chains.items()):
        axes = figure.add_subplot(-(-len(chains) // columns), columns, number + 1)
        edges = np.histogram_bin_edges(values, 30)
        for walker, each in enumerate(values[:6]):
            axes.stairs(np.histogram(each, edges)[0], edges, color=COLORS[walker], linewidth=1.0)
        axes.set_yticks([])
        axes.locator_params(axis="x", nbins=3)
        labeled(axes, name, "")
        axes.spines["left"].set_visible(False)
    return figure


def predictions_section(run: RunFiles, burnin: int, thin: int) -> html.Section | None:
    """Predictions of the test part by the stored positions, at most 400 of them; none where `tati-predict` left a
    figure of all."""
    if (run.folder / files.PREDICTIONS / _FIGURE).exists():
        return None
    from tati_re.plotting.prediction import plot_prediction
    from tati_re.prediction.predict import predict

    section = html.Section("Predictions", "predictions")
    try:
        count = sum(len(block.step) for block in Positions(run, burnin, thin).blocks())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the page says how many draws there are
            found: Any = predict(run, burnin=burnin, thin=thin * -(-count // _DRAWS))
    except InputError as error:
        section.parts.append(html.paragraph(f"None of the test part: {error}"))
        return section
    worth = f"{found.num_draws:,} draws, worth about {found.independent_draws:,.0f} independent ones"
    scores = [(name.replace("_", " "), f"{value:.4g}") for name, value in found.scores().items()]
    said = "The posterior average on the test part; bands hold the whole curves of 95 % of calibrated predictions."
    section.parts += [html.pairs([("average of", worth), *scores]), html.figure(plot_prediction(found), said)]
    return section
