"""Texts in cells of a table that a spreadsheet must not take for formulas."""

import re
from typing import Any

_FORMULA = re.compile(r"'*[=+\-@\t\r\n]")


def as_cell(value: Any) -> Any:
    """A text that a spreadsheet would calculate gets an apostrophe in front, with which
    spreadsheets mark texts; all other values stay, numbers among them, also where they are
    texts.
    """
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def from_cell(value: Any) -> Any:
    """What `as_cell` was given."""
    return (
        value[1:]
        if isinstance(value, str) and value[:1] == "'" and as_cell(value) != value
        else value
    )
