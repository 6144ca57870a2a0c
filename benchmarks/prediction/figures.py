"""Two figures: the density against processor time, and paired differences with their errors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.prediction.outcome import Line, for_budget, paired, published, scored
from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

_MARKERS = "osD^vP*X<>"
_COLUMNS = 4


def draw_times(lines: Sequence[Line], path: Path) -> None:
    """NLL against processor seconds, a panel for each table, a line for each method.

    Args:
        lines: Lines of results.
        path: The PNG file.
    """
    keys = _keys(lines)
    figure = new_figure(3.1 * min(_COLUMNS, len(keys)), 2.8 * -(-len(keys) // _COLUMNS) + 0.9)
    panels = figure.subplots(-(-len(keys) // _COLUMNS), min(_COLUMNS, len(keys)), squeeze=False)
    methods = [*dict.fromkeys(line.method for line in scored(lines) if line.budget)]
    for axes, (protocol, table) in zip(panels.flat, keys, strict=False):
        for number, method in enumerate(methods):
            own = [
                line
                for line in scored(lines)
                if (line.protocol, line.table, line.method) == (protocol, table, method)
            ]
            budgets = sorted({line.budget for line in own})
            if not budgets:
                continue
            groups = [[line for line in own if line.budget == budget] for budget in budgets]
            axes.plot(
                [np.median([line.processor_seconds for line in group]) for group in groups],
                [np.mean([line.nll for line in group]) for group in groups],
                marker=_MARKERS[number % len(_MARKERS)],
                color=COLORS[number % len(COLORS)],
                markerfacecolor="none" if number >= len(COLORS) else None,
                linewidth=1.0,
                markersize=5,
                label=method,
            )
        known = [row["nll"] for row in published(protocol, table).values()]
        if known:
            best = min(known)
            axes.axhline(
                best, color=GRAY, linewidth=0.8, linestyle="--", label="best published mean"
            )
        axes.set_xscale("log")
        axes.set_title(f"{table} ({protocol})", fontsize=9, loc="left")
        axes.set_xlabel("processor seconds")
        axes.set_ylabel("NLL")
        plain(axes)
    for axes in panels.flat[len(keys) :]:
        axes.set_axis_off()
    _legend(figure, panels)
    save(figure, path)


def draw_differences(lines: Sequence[Line], reference: str, path: Path) -> None:
    """Paired differences of NLL from a reference, two standard errors to each side.

    Args:
        lines: Lines of results.
        reference: The method that is subtracted; right of zero it is the better one.
        path: The PNG file.
    """
    keys = _keys(lines)
    figure = new_figure(3.1 * min(_COLUMNS, len(keys)), 2.6 * -(-len(keys) // _COLUMNS))
    panels = figure.subplots(-(-len(keys) // _COLUMNS), min(_COLUMNS, len(keys)), squeeze=False)
    for axes, (protocol, table) in zip(panels.flat, keys, strict=False):
        budget = max(
            line.budget
            for line in scored(lines)
            if (line.protocol, line.table) == (protocol, table)
        )
        here = for_budget(lines, protocol, table, budget)
        methods = [
            name for name in dict.fromkeys(line.method for line in here) if name != reference
        ]
        found = [paired(here, name, reference) for name in methods]
        if not any(count for _, _, count in found):
            axes.set_axis_off()
            continue
        axes.axvline(0.0, color=GRAY, linewidth=0.8)
        for place, (mean, error, _) in enumerate(found):
            error = 2 * error if np.isfinite(error) else 0.0
            axes.errorbar(mean, place, xerr=error, color=COLORS[0], marker="o", markersize=4)
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(len(methods) - 0.5, -0.5)
        axes.set_title(f"{table} ({protocol}), {budget:g} s", fontsize=9, loc="left")
        axes.set_xlabel("difference of NLL")
        plain(axes)
    for axes in panels.flat[len(keys) :]:
        axes.set_axis_off()
    figure.suptitle(f"NLL less that of {reference}, with two standard errors", fontsize=10)
    save(figure, path)


def _keys(lines: Sequence[Line]) -> list[tuple[str, str]]:
    return [*dict.fromkeys((line.protocol, line.table) for line in scored(lines) if line.budget)]


def _legend(figure, panels) -> None:
    known = {}
    for axes in panels.flat:
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    figure.legend(
        known.values(), known.keys(), loc="outside lower center", ncols=4, frameon=False, fontsize=8
    )
