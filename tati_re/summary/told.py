"""What a section of a summary tells."""

from collections.abc import Callable
from typing import NamedTuple

from tati_re.summary.facts import RunFacts


class Told(NamedTuple):
    """What a section of a summary tells.

    Attributes:
        notes: Warnings, one or two sentences each.
        lines: Label and value of each line of the table.
    """

    notes: list[str]
    lines: list[tuple[str, str]]


NOTHING = Told([], [])

Section = Callable[[RunFacts, int], Told]
"""What is known of a run, and every how many rows of a walker are kept, to notes and lines."""
