"""The scores of posterior, ensemble and single fits as a frame that prints whole."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from tati_re.core.printable import SCREEN_WIDTH

TEST_PART = "test set"
LEFT_OUT = "leave-one-out"
VALIDATION = "validation rows"

LEVELS = (50, 90, 95)
"""Probabilities of the central intervals whose coverage is counted, in percent."""

SCORES = {
    "negative_log_likelihood": "NLL",
    "mean_loss": "mean loss",
    "rmse": "RMSE",
    "crps": "CRPS",
    "accuracy": "accuracy",
    "brier_score": "Brier score",
    "calibration_error": "calibration error",
    **{f"coverage_{level}": f"{level} % intervals cover" for level in LEVELS},
}
"""Columns of scores with their names in tables."""

ROUGH = "rough_rows"
USED = "used"

LABEL_WIDTH = 24
"""Characters of a line before its first value."""
_GAP = 3
_HEADS = {TEST_PART: "Held-out rows", VALIDATION: "Validation rows", LEFT_OUT: "Leave-one-out"}


class HeldOutComparison(pd.DataFrame):
    """A frame with a row for each predictor, which prints within the width of a screen.

    What is selected from it is a plain frame.

    Attributes:
        notes: Sentences below the table.
    """

    _metadata: ClassVar[list[str]] = ["notes"]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, notes: Sequence[str]) -> HeldOutComparison:
        """The comparison with these rows and notes.

        Args:
            frame: One row for each predictor.
            notes: Sentences below the table.
        """
        made = cls(frame)
        made.notes = tuple(notes)
        return made

    def __repr__(self) -> str:
        return "\n".join(table_lines(self, tuple(SCORES), self.notes, counts=True))


def table_lines(
    frame: pd.DataFrame,
    names_of_scores: Sequence[str],
    notes: Sequence[str],
    counts: bool = False,
) -> list[str]:
    """A comparison as lines of text: a head, a line for each score, and the notes.

    Args:
        frame: One row per predictor.
        names_of_scores: Columns of scores that are shown, if the frame has them.
        notes: Sentences below the table.
        counts: Whether the number of averaged draws or fits is shown, and which predictor the run
            uses. Default: no.

    Returns:
        Lines of at most 100 characters. A predictor without scores has no column.
    """
    scores = [name for name in names_of_scores if name in frame.columns]
    known = frame[scores].notna().all(axis=1)
    scored = frame[known]
    names = [str(name) for name in scored.index]
    rows = int(frame["rows"].iloc[0])
    head = f"{_HEADS.get(frame['scored_on'].iloc[0], 'Rows')} ({rows:,})"
    lines = [_line(head, names, names, 0)]
    for label, values in _count_columns(scored) if counts else []:
        lines.append(_line(label, values, names, 2))
    for column in scores:
        values = [_digits(column, float(value)) for value in scored[column].to_numpy(np.float64)]
        lines.append(_line(SCORES[column], values, names, 2))
    return lines + [line for note in notes for line in _wrapped(note)]


def _count_columns(scored: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """Label and values of the lines that are no scores."""
    columns = [("draws or fits", [f"{int(number):,}" for number in scored["members"]])]
    if USED in scored.columns:
        columns.append(
            ("used for predictions", ["yes" if is_used else "no" for is_used in scored[USED]])
        )
    return columns


def _wrapped(note: str) -> list[str]:
    """A note in lines that fit the screen."""
    fill: Any = textwrap.TextWrapper(
        SCREEN_WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False
    )
    wrapped: list[str] = fill.wrap(note)
    return wrapped


def _line(label: str, values: Sequence[str], heads: Sequence[str], indent: int) -> str:
    text = (" " * indent + label).ljust(LABEL_WIDTH)
    for name, value in zip(heads, values, strict=True):
        text += value.ljust(len(name) + _GAP)
    return text.rstrip()


def _digits(column: str, value: float) -> str:
    if column in ("accuracy", "calibration_error") or column.startswith("coverage"):
        return f"{value:.3f}"
    return f"{value:.4g}"
