"""One self-contained HTML file about runs."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tati_re.analysis.averages import averages_of_rows, rows_at_target
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of
from tati_re.analysis.format import marked
from tati_re.analysis.temperature import group_sentences, group_temperatures, has_no_target
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.plotting import plot_autocorrelation, plot_group_temperatures, plot_ladder, plot_traces
from tati_re.report import html
from tati_re.report.description import name_of_method, sampling_sentences
from tati_re.report.parts import (
    comparison_section,
    differences,
    made_of,
    narrow,
    parameters_section,
    plot_bias,
    plot_replicas,
    predictions_section,
)
from tati_re.runs import files
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import (
    as_run,
    at_target,
    burnin_of,
    check_thin,
    is_optimization,
    keep,
    leaves,
    spacing,
)
from tati_re.runs.storage import write_whole
from tati_re.summary.summary import summary_lines

_WIDTH = 4.6
_SHOWN = ("potential", "loss", "accuracy", "kinetic_energy", "virial", "acceptance")
_COLUMNS = (
    "observable",
    "mean",
    "error",
    "std",
    "ess_bulk",
    "ess_tail",
    "r_hat",
    "autocorrelation_steps",
    "note",
)
_FIGURE_FOLDERS = (files.ANALYSIS, files.PREDICTIONS, files.LANDSCAPE, files.INPUTSPACE)
"""Subfolders of a run whose figures are shown: those of the other commands."""
_MOST_FIGURES = 16
_SAID = ("potential U", "parameters", "walkers")
"""Lines of the summary that the sentences before them have said."""


@front_door
def write_report(
    runs: AnyRun | Sequence[AnyRun],
    path: AnyPath | None = None,
    figures: Sequence[AnyPath] = (),
    burnin: int | None = None,
    thin: int = 1,
) -> Path:
    """Writes a self-contained web page about one or several runs.

    For each run, the page starts with warnings and advice. Then follow the description of the run,
    traces, averages, autocorrelation and temperatures (per layer, if recorded), and ladder and
    bias, if there are any. If positions are stored, it shows marginals of parameters and
    predictions, which loads the model. Figures that other commands left in the folder, or next to
    it, come last. The page of a running run shows its results so far. Two runs are shown side by
    side, below a table of their differences.

    Args:
        runs: One or several runs, or their folders.
        path: The file, ending in `.html`. Default: None, `report.html` in the folder of a single
            run, `report-A-B.html` next to folder A for two runs.
        figures: Further folders whose figures are shown at the end, such as the folder of a
            landscape. Default: none.
        burnin: Steps to leave out of averages, temperatures and warnings. A fit, the ladder and the
            bias are shown in full. Default: None, the burn-in of the run.
        thin: Keep one in this many rows of a walker for them. Default: 1.

    Returns:
        The path of the file.

    Raises:
        InputError: A folder holds no run, no rows are left, there are more than two runs without a
            path, the path is invalid, or a folder has no figures.
    """
    listed = [runs] if isinstance(runs, str | os.PathLike | RunFiles) else list(runs)
    opened = [as_run(run) for run in listed]
    refuse_if(not opened, "A report needs at least one run.")
    if path is None:
        if len(opened) > 1:
            names = [run.folder.resolve().name for run in opened]
            refuse_if(
                len(opened) > 2,
                "A report of more than two runs needs a file.",
                expected="--output FILE.html",
            )
            path = opened[0].folder.resolve().parent / f"report-{names[0]}-{names[1]}.html"
        else:
            path = opened[0].folder / files.REPORT
    path = Path(path)
    refuse_if(path.suffix.lower() != ".html", "The path of a report must end in .html.", path)
    write_whole(path, page_of(opened, figures, burnin, thin).encode())
    return path


_FOLDERS = re.compile(r"(?<![\w.:/~])/(?:[^\s/<>&\"'|,;=()\[\]]+/)+(?=[^\s/<>])")
_TEXT = re.compile(r">[^<]+<")


def without_folders(body: str, folders: Sequence[Path]) -> str:
    """A page without the absolute folders of the machine it was made on: a report is sent to
    others.

    Args:
        body: HTML, whose tags stay as they are.
        folders: Folders of runs, of which the last part stays.

    Returns:
        The page; of an absolute path of a file the name is left.
    """
    known = {folder.resolve().parent for folder in folders} | {Path.cwd(), Path.home()}
    starts = [html.escape(f"{folder}{os.sep}") for folder in known if len(folder.parts) > 1]
    starts.sort(key=len, reverse=True)

    def shortened(match: re.Match[str]) -> str:
        text = match[0]
        for start in starts:
            text = text.replace(start, "")
        return _FOLDERS.sub("", text)

    return _TEXT.sub(shortened, body)


def page_of(
    runs: Iterable[RunFiles],
    figures: Sequence[AnyPath] = (),
    burnin: int | None = None,
    thin: int = 1,
) -> str:
    """The page of one or several runs; two are shown side by side.

    Args:
        runs: The runs.
        figures: Folders whose PNG files are shown below the runs. Default: none.
        burnin: Steps to leave out. Default: None, the burn-in of each run.
        thin: Keep one in this many rows. Default: 1.

    Raises:
        InputError: A folder has no figures.
    """
    runs = list(runs)
    parts = [Part.of(run, burnin, thin) for run in runs]
    short = [run.folder.resolve().name for run in runs]
    names = [
        name if short.count(name) == 1 else str(run.folder)
        for name, run in zip(short, runs, strict=True)
    ]
    title = f"Report: {names[0]}" if len(runs) == 1 else f"Report of {len(runs)} runs"
    body = [f'<h1 id="top">{html.escape(title)}</h1>']
    if len(runs) > 1:
        links = "".join(
            f'<a href="#run-{number}">{html.escape(name)}</a>' for number, name in enumerate(names)
        )
        body += [f"<nav>{links}</nav>", _comparison(runs, names, parts)]
    articles = [_about(run, names[k], k, len(runs) > 1, parts[k]) for k, run in enumerate(runs)]
    if len(runs) == 2:
        body.append(differences(runs, names, [part.rows for part in parts]))
        articles = [
            '<div class="beside">',
            *(f"<article>{article}</article>" for article in articles),
            "</div>",
        ]
    body += articles
    for number, folder in enumerate(map(Path, figures)):
        paths = sorted(folder.glob("*.png"))
        refuse_if(
            not paths,
            "figures: the folder contains no figures.",
            folder,
            "a folder with .png files",
        )
        drawn = html.figures([_figure_of_file(path, path.name) for path in paths[:_MOST_FIGURES]])
        body.append(html.Section(f"Figures of {folder}", f"figures-{number}", [drawn]).html())
    text = without_folders("\n".join(body), [run.folder for run in runs])
    return html.document(title, text, "two" if len(runs) == 2 else "")


def _about(run: RunFiles, name: str, number: int, several: bool, part: "Part") -> str:
    notes, lines = summary_lines(run, part.burnin, part.thin)
    rows = run.run_info
    run_rows = part.rows
    sections = [html.Section("What was sampled", "what")]
    sections[0].parts += [
        html.bullets(sampling_sentences(run.manifest, rows, part.burnin)),
        html.pairs(line for line in lines if line[0] not in _SAID),
    ]
    if len(rows):
        sections.append(_traces(run, rows, part))
    if run_rows is not None:
        section, more = _averages(run_rows)
        notes += more
        sections.append(section)
        if any(column.startswith("kinetic_energy(") for column in rows.columns):
            section, more = _groups(run, part)
            notes += more
            sections.append(section)
    if run.has(files.LADDER) and len(run.ladder) > 1:  # a bias alone has one rung
        sections.append(_ladder(run, rows))
    if run.has(files.BIAS):
        sections.append(_bias(run))
    if not run.manifest.is_fit and files.trajectory_in(run.folder):
        sections.append(parameters_section(run, part.burnin, part.thin))
        if part_of_page := predictions_section(run, part.burnin, part.thin):
            sections.append(part_of_page)
        if part_of_page := comparison_section(run):
            sections.append(part_of_page)
    if part_of_page := _others(run):
        sections.append(part_of_page)
    options = run.manifest.options.table
    unused = dict.fromkeys(run.manifest.unused, f" (not used by {name_of_method(run.manifest)})")
    named = options if run.manifest.given is None else run.manifest.given
    option_rows = [(key, f"{options[key]}{unused.get(key, '')}") for key in named if key in options]
    sections.append(
        html.Section(
            "Options", "options", [html.fold("options that were set", html.pairs(option_rows))]
        )
    )
    for section in sections:
        section.anchor = f"run-{number}-{section.anchor}"
    head = (
        f'<h2 id="run-{number}">{html.escape(name)}</h2>'
        if several
        else f'<div id="run-{number}"></div>'
    )
    links = "".join(
        f'<a href="#{linked.anchor}">{html.escape(linked.title)}</a>' for linked in sections
    )
    anchors = {section.title: section.anchor for section in sections}
    warnings = html.paragraph("No warnings.", "well")
    if notes:
        warnings = html.bullets(
            notes, "warnings", {note: seen for note in notes if (seen := _seen(note, anchors))}
        )
    return "\n".join(
        [head, warnings, f"<nav>{links}</nav>", *(section.html() for section in sections)]
    )


def _seen(note: str, anchors: dict[str, str]) -> tuple[str, str] | None:
    """Title and anchor of the part of the page where one sees what a warning is about."""
    titles_by_words = (
        (" is above its band in | is below its band in ", "Temperatures of the tensors"),
        ("rungs|round trip|ladder", "Ladder and round trips"),
        ("effective sample size|autocorrelation time|weights of the rows", "Averages"),
        ("R-hat|temperature|potential", "Traces, temperatures, autocorrelation"),
    )
    titles = (
        title
        for words, title in titles_by_words
        if any(word in note for word in words.split("|")) and title in anchors
    )
    return next(((title, anchors[title]) for title in titles), None)


class Part(NamedTuple):
    """What enters a run's averages: each `thin`-th row at the target after `burnin`; None of a fit,
    or of too few.
    """

    burnin: int
    thin: int
    rows: pd.DataFrame | None

    @classmethod
    def of(cls, run: RunFiles, burnin: int | None = None, thin: int = 1) -> "Part":
        """The part of a run after the burn-in.

        Args:
            run: The run.
            burnin: Steps to leave out. Default: None, the burn-in of the run.
            thin: Keep one in this many rows. Default: 1.
        """
        check_thin(thin)
        rows = run.run_info
        if run.manifest.is_fit or (len(rows) and is_optimization(run.manifest, rows)):
            return cls(0, thin, None)
        target = rows[rows["rung"] == 0] if "rung" in rows else rows
        steps = burnin_of(run, burnin)
        if burnin is None and not (target["step"] > steps).any():
            return cls(steps, thin, None)
        rows_kept = rows_at_target(run, steps, thin)
        return cls(
            steps,
            thin,
            rows_kept if rows_kept.groupby("walker").size().min() >= MINIMUM_DRAWS else None,
        )


def _traces(run: RunFiles, rows: pd.DataFrame, part: Part) -> html.Section:
    rows = at_target(rows)
    run_rows = part.rows
    rows = rows.drop(columns="virial", errors="ignore") if has_no_target(run.manifest) else rows
    if (
        part.thin > 1 and (late := rows["step"] > part.burnin).any()
    ):  # the burn-in too: traces break at wide gaps
        rows = pd.concat(
            [keep(phase, -1, part.thin) for phase in (rows[~late], rows[late]) if len(phase)]
        )
    drawn = plot_traces(rows, max(1, run.manifest.parameters.num), part.burnin)
    narrow(drawn)
    caption = "Potential of each walker; gray: burn-in, excluded from averages."
    if len(drawn.axes) > 1:
        caption += " Temperatures: running means over walkers and rows (orange), the target (dashed), and the band that "
        caption += "a correct mean leaves once in 10,000 times."
    parts = [
        html.figure(drawn, caption, _WIDTH, 2.6 + 1.7 * (len(drawn.axes) - 1)),
        *_autocorrelation(run_rows),
    ]
    return html.Section("Traces, temperatures, autocorrelation", "traces", [html.figures(parts)])


def _autocorrelation(rows: pd.DataFrame | None) -> list[str]:
    if rows is None or leaves(rows):
        return []
    chains = {name: chains_of(rows, name, -1) for name in _observables(rows)}
    moving = {name: values for name, values in chains.items() if (np.ptp(values, axis=1) > 0).all()}
    if not moving:
        return []
    drawn = plot_autocorrelation(dict(list(moving.items())[:4]), spacing(rows))
    return [
        html.figure(
            drawn,
            "Autocorrelation functions; the band covers values compatible with zero.",
            _WIDTH,
            3.4,
        )
    ]


def _observables(rows: pd.DataFrame) -> list[str]:
    return [
        name
        for name in _SHOWN
        if name in rows.columns and rows[name].notna().all() and rows[name].nunique() > 1
    ]


def _averages(rows: pd.DataFrame) -> tuple[html.Section, list[str]]:
    table = averages_of_rows(rows, _observables(rows))
    notes = []
    short = table[table["note"].str.contains("too short")]
    if len(short):
        # The notes say "needs 1,234 rows"; the observable that needs most says how long the run
        # must be.
        needed = (
            short["note"].str.extract(r"needs ([\d,]+) rows")[0].str.replace(",", "").astype(int)
        )
        notes.append(
            "The chains are too short to estimate the autocorrelation time of "
            f"{', '.join(short['observable'])}. Run until each walker has "
            f"{needed.max():,} rows or more (now "
            f"{len(rows) // rows['walker'].nunique():,})."
        )
    resting = table["note"].str.extract(r"rest on about (\d+) rows")[0].dropna()
    if len(resting):
        notes.append(
            f"Only about {resting.iloc[0]} of the rows carry weight: weighted averages "
            "and their errors are rough. Take more steps, or a smaller bias_factor."
        )
    columns = _COLUMNS if (table["note"] != "").any() else _COLUMNS[:-1]
    table, foot = marked(table)
    return html.Section(
        "Averages", "averages", [html.html_table(table, columns), *map(html.paragraph, foot)]
    ), notes


def _groups(run: RunFiles, part: Part) -> tuple[html.Section, list[str]]:
    try:
        table = group_temperatures(run, burnin=part.burnin, thin=part.thin)
    except InputError as error:  # rows of several temperatures have no band
        return html.Section(
            "Temperatures of the tensors", "groups", [html.paragraph(str(error))]
        ), []
    caption = "Temperature of each tensor, and the band where it should lie."
    parts = [
        html.figure(plot_group_temperatures(table), caption),
        html.fold("the numbers", html.html_table(table)),
    ]
    notes = group_sentences(table, run.manifest.sees_batches)
    return html.Section("Temperatures of the tensors", "groups", parts), notes


def _ladder(run: RunFiles, rows: pd.DataFrame) -> html.Section:
    ladder = run.ladder
    alike = ["step_size"] if ladder["step_size"].nunique() == 1 else []
    parts = [
        html.html_table(ladder.drop(columns=[*alike, "restarts", "round_trips"], errors="ignore"))
    ]
    drawn = []
    if ladder["acceptance"].notna().any():
        drawn.append(html.figure(plot_ladder(ladder), "Accepted swaps between neighboring rungs."))
        last = ladder.iloc[-1]
        text = f"Round trips: {int(last['round_trips']):,}; arrivals from the hottest rung: {int(last['restarts']):,}."
        parts.append(html.paragraph(text))
    if "replica" in rows.columns and rows["replica"].nunique() > 1:
        drawn.append(html.figure(plot_replicas(rows), "Rungs of some replicas over the steps."))
    return html.Section("Ladder and round trips", "ladder", [*parts, html.figures(drawn)])


def _bias(run: RunFiles) -> html.Section:
    if run.bias.empty:
        return html.Section("Bias", "bias", [html.paragraph("The bias has not grown yet.")])
    drawn = html.figure(
        plot_bias(run.bias), "The bias of each rung; the column weight corrects averages for it."
    )
    return html.Section("Bias", "bias", [html.figures([drawn])])


def _others(run: RunFiles) -> html.Section | None:
    """Figures of other commands in the folder that the page does not have yet."""
    standard_figures = ("traces.png", "autocorrelation.png", "temperatures.png")
    folders = [run.folder, *(run.folder / name for name in _FIGURE_FOLDERS)]
    folders += [folder for folder in made_of(run) if folder not in folders]
    paths = [path for folder in folders for path in sorted(folder.glob("*.png"))]
    # No link to elsewhere, whose content is not for the readers of a page.
    paths = [
        path
        for path in paths
        if path.name not in standard_figures and path.is_file() and not path.is_symlink()
    ]
    paths = [
        path
        for path in paths
        if not path.parent.is_symlink() or path.parent.name not in _FIGURE_FOLDERS
    ]
    if not paths:
        return None
    drawn = [
        _figure_of_file(path, os.path.relpath(path, run.folder)) for path in paths[:_MOST_FIGURES]
    ]
    return html.Section(
        "Predictions, landscape and further analysis", "more", [html.figures(drawn)]
    )


def _figure_of_file(path: Path, place: str) -> str:
    """A figure of another command, with width and height from the first bytes of its PNG file."""
    content = path.read_bytes()
    width, height = (int.from_bytes(content[k : k + 4], "big") for k in (16, 20))
    return html.image(
        content, f"{path.stem.replace('_', ' ')} ({place})", width > 1.3 * max(1, height)
    )


def _comparison(runs: list[RunFiles], names: list[str], parts: list[Part]) -> str:
    lines = []
    foot = list[str]()
    for run, name, part in zip(runs, names, parts, strict=True):
        rows = run.run_info
        run_rows = part.rows
        sampled = len(rows) > 0 and not is_optimization(run.manifest, rows)
        line: dict[str, Any] = {
            "run": name,
            "sampler": name_of_method(run.manifest) if sampled else "fit",
        }
        line["last step"] = int(rows["step"].max()) if len(rows) else 0
        line["warnings"] = len(summary_lines(run, part.burnin, part.thin)[0])
        if run_rows is not None:
            table, more = marked(averages_of_rows(run_rows, ["potential"]))
            row = table.iloc[0]
            foot = more or foot
            line |= {f"U {key}": row[key] for key in ("mean", "error", "ess_bulk", "r_hat")}
        lines.append(line)
    return "\n".join([html.html_table(pd.DataFrame(lines)), *map(html.paragraph, foot)])
