"""README's first example on a table that this script writes: the default run, and its picture.

    python examples/own_table.py [--max-time 60] [--output DIR]

The table has one input, a gap without data, and a noise that grows with the input. `own_table.png`
shows the predictions with their intervals, and how one fit, the ensemble of the fits, the posterior
and, if the run uses one, their mixture score on the held-out rows. All numbers are in `comparison.csv`.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import tati_re

ROWS = 400
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
GRAY = "#8C8C8C"
GAP = (-0.6, 0.9)
ENDS = (-3.0, 3.0)


def write_table(path: Path, seed: int) -> pd.DataFrame:
    """Writes a table of doses and effects, without doses in the gap.

    Args:
        path: The CSV file.
        seed: Of the random numbers.

    Returns:
        The table, with the columns `dose` and `effect`.
    """
    random = np.random.default_rng(seed)
    dose = random.uniform(*ENDS, 2 * ROWS)
    dose = dose[(dose < GAP[0]) | (dose > GAP[1])][:ROWS]
    spread = 0.05 + 0.1 * (dose - ENDS[0])
    effect = np.sin(1.5 * dose) + 0.3 * dose + spread * random.standard_normal(len(dose))
    table = pd.DataFrame({"dose": dose, "effect": effect})
    table.to_csv(path, index=False)
    return table


def draw_band(axes: Any, table: pd.DataFrame, grid: np.ndarray, found: Any) -> None:
    """Draws the rows of the table, and the predictions with their intervals."""
    axes.plot(table["dose"], table["effect"], ".", color=GRAY, markersize=3, label="table")
    lower = found.lower[:, 0]
    upper = found.upper[:, 0]
    axes.fill_between(grid, lower, upper, color=COLORS[0], alpha=0.2, lw=0, label="90 % interval")
    axes.plot(grid, found.mean[:, 0], color=COLORS[0], lw=1.5, label="mean")
    axes.legend(frameon=False, fontsize=8)
    axes.set(xlabel="dose", ylabel="effect")


def draw_rows(axes: Any, comparison: pd.DataFrame) -> None:
    """Draws the negative log likelihood of each predictor on the held-out rows as a bar."""
    scores = comparison["negative_log_likelihood"]
    places = np.arange(len(scores))
    axes.barh(places, scores, color=COLORS[: len(scores)], height=0.6)
    for place, score, coverage in zip(places, scores, comparison["coverage_90"], strict=True):
        text = f"{score:.3f}   90 % intervals cover {100 * coverage:.0f} %"
        axes.text(0.02, place - 0.42, text, fontsize=8, transform=_beside(axes))
    axes.set_yticks(places, list(scores.index))
    axes.set_ylim(len(scores) - 0.5, -0.7)
    axes.set_xlabel(f"negative log likelihood of {comparison['rows'].iloc[0]} held-out rows")


def _beside(axes: Any) -> Any:
    """Coordinates along the panel's width, and of the data along its height."""
    return axes.get_yaxis_transform()


def main(argv: Sequence[str] | None = None) -> int:
    """Samples, and writes the figure and its numbers."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--max-time", type=float, default=60.0, help="seconds of the run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=Path("results/own_table"))
    arguments = parser.parse_args(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "own.csv"
    table = write_table(path, arguments.seed)

    sim = tati_re.Simulation(data=path, test_fraction=0.2, seed=arguments.seed)
    run = sim.sample(max_time=arguments.max_time)
    comparison = run.comparison
    comparison.to_csv(arguments.output / "comparison.csv")
    print(comparison.T)

    grid = np.linspace(*ENDS, 241)
    figure = Figure(figsize=(8.0, 3.0), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    draw_band(left, table, grid, run.predict(grid[:, None]))
    draw_rows(right, comparison)
    figure.savefig(arguments.output / "own_table.png", dpi=150)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
