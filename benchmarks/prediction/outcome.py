"""Lines of results, and what follows from them: means, paired differences, tables."""

from __future__ import annotations

import csv
import json
import math
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.prediction.scores import NAMES

PUBLISHED = Path(__file__).parent / "published.toml"
PUBLISHED_DROPOUT = "MC dropout (published)"
_DROPOUT_NAMES = {"power": "power-plant", "wine-red": "wine-quality-red"}


class Line(NamedTuple):
    """What one method did on one case.

    Attributes:
        protocol: A, B, C or D.
        table: Name of the table.
        split: Number of the split.
        method: Name of the method.
        budget: Seconds of processor time that it was given; 0 of published lines.
        processor_seconds: Seconds that it used.
        members: Draws, members, passes or restarts.
        nll: Negative log density, or log probability, in the units of the target.
        rmse: Of values.
        crps: Of values.
        coverage_90: Share of the targets in central intervals of 90 %.
        accuracy: Of classes.
        calibration_error: Of classes.
        commit: Of the code.
        note: Why there are no scores, if there are none.
    """

    protocol: str
    table: str
    split: int
    method: str
    budget: float
    processor_seconds: float = math.nan
    members: int = 0
    nll: float = math.nan
    rmse: float = math.nan
    crps: float = math.nan
    coverage_90: float = math.nan
    accuracy: float = math.nan
    calibration_error: float = math.nan
    commit: str = ""
    note: str = ""

    @property
    def key(self) -> tuple[str, str, int, str, float]:
        """What tells the lines of a file apart."""
        return self.protocol, self.table, self.split, self.method, self.budget


_KINDS = {
    "split": int,
    "members": int,
    "budget": float,
    "processor_seconds": float,
} | dict.fromkeys(NAMES, float)


def read(path: Path) -> list[Line]:
    """The lines of results.csv, if there is one."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Line(**{name: _KINDS.get(name, str)(text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def add(line: Line, path: Path) -> None:
    """Adds a line to results.csv."""
    is_new = not path.exists()
    with path.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(Line._fields)
        writer.writerow(line)


def published_dropout(folder: Path, tables: Iterable[str]) -> list[Line]:
    """The published density of MC dropout on each split of protocol A."""
    path = folder / "uci" / "mc_dropout_20_splits.json"
    if not path.exists():
        return []
    known = json.loads(path.read_text(encoding="utf-8"))
    lines = []
    for table in tables:
        values = known.get(_DROPOUT_NAMES.get(table, table), {}).get("log_likelihood", [])
        for split, value in enumerate(values):
            lines.append(Line("A", table, split, PUBLISHED_DROPOUT, 0.0, nll=-float(value)))
    return lines


def scored(lines: Iterable[Line]) -> list[Line]:
    """The lines that have a density."""
    return [line for line in lines if not math.isnan(line.nll)]


def paired(
    lines: Sequence[Line], method: str, other: str, score: str = "nll"
) -> tuple[float, float, int]:
    """Mean difference of two methods over the splits that both have.

    Args:
        lines: Lines of one table and one budget.
        method: Name of a method.
        other: Name of the method to subtract.
        score: Name of the score.

    Returns:
        The mean, its standard error (nan of one split), and the number of splits.
    """
    values = {
        name: {line.split: getattr(line, score) for line in lines if line.method == name}
        for name in (method, other)
    }
    both = sorted(values[method].keys() & values[other].keys())
    if not both:
        return math.nan, math.nan, 0
    apart = np.array([values[method][split] - values[other][split] for split in both])
    error = float(apart.std(ddof=1) / math.sqrt(len(apart))) if len(apart) > 1 else math.nan
    return float(apart.mean()), error, len(apart)


def for_budget(lines: Iterable[Line], protocol: str, table: str, budget: float) -> list[Line]:
    """The scored lines of a table at a budget, with those that have no budget."""
    return [
        line
        for line in scored(lines)
        if (line.protocol, line.table) == (protocol, table) and line.budget in (0.0, budget)
    ]


def tables(lines: Sequence[Line], reference: str) -> str:
    """All results in Markdown: means of each method, and paired differences from a reference.

    Args:
        lines: Lines of results.
        reference: The method that is subtracted.
    """
    parts = []
    keys = dict.fromkeys(
        (line.protocol, line.table, line.budget) for line in scored(lines) if line.budget
    )
    for protocol, table, budget in sorted(keys):
        here = for_budget(lines, protocol, table, budget)
        parts.append(_table(here, protocol, table, budget, reference))
    return "\n\n".join(parts)


def _table(lines: Sequence[Line], protocol: str, table: str, budget: float, reference: str) -> str:
    classes = any(not math.isnan(line.accuracy) for line in lines)
    columns = ["nll", "accuracy", "calibration_error"]
    if not classes:
        columns = ["nll", "rmse", "crps", "coverage_90"]
    head = f"**{table}, protocol {protocol}, {budget:g} s of processor time**"
    names = [*columns, "processor seconds", "splits", f"NLL less {reference}"]
    rows = [f"| method | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    methods = dict.fromkeys(line.method for line in lines)
    means = {name: np.mean([line.nll for line in lines if line.method == name]) for name in methods}
    for name in sorted(methods, key=lambda one: means[one]):
        own = [line for line in lines if line.method == name]
        cells = [_digits(float(np.mean([getattr(line, one) for line in own]))) for one in columns]
        cells.append(_digits(float(np.median([line.processor_seconds for line in own])), 3))
        cells.append(str(len(own)))
        cells.append(_difference(lines, name, reference))
        rows.append(f"| {name} | {' | '.join(cells)} |")
    for name, known in published(protocol, table).items():
        cells = [_digits(known["nll"]), *["-"] * (len(names) - 1)]
        rows.append(f"| {name} ({known['source']}) | {' | '.join(cells)} |")
    return "\n".join([head, "", *rows])


def published(protocol: str, table: str) -> dict[str, dict]:
    """Published rows of a table by method, with `nll` and the name of their `source`."""
    known = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    return known.get(protocol, {}).get(table, {})


def _digits(value: float, digits: int = 3) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def _difference(lines: Sequence[Line], name: str, reference: str) -> str:
    mean, error, count = paired(lines, name, reference)
    if name == reference or not count:
        return "-"
    return f"{mean:+.3f} ± {error:.3f}" if count > 1 else f"{mean:+.3f}"
