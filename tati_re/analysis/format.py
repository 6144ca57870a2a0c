"""Text of tables and of numbers with errors."""

from __future__ import annotations

import math
import textwrap

WIDTH = 110


def table(lines: list[tuple[str, str]], width: int = WIDTH) -> str:
    """Aligns pairs of label and value in lines of `width` characters; long values go on below themselves."""
    indent = max((len(label) for label, _ in lines), default=0) + 2
    return "\n".join(
        textwrap.fill(
            value,
            width,
            initial_indent=label.ljust(indent),
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        if value
        else label
        for label, value in lines
    )


def with_error(mean: float, error: float) -> str:
    """Returns `1,295.8 ± 2.8`: two digits of the error, and the mean to the same place."""
    if not (math.isfinite(mean) and math.isfinite(error) and error > 0):
        return f"{mean:,.6g}"
    places = max(0, 1 - math.floor(math.log10(error)))
    return f"{mean:,.{places}f} ± {error:,.{places}f}"


def percent(part: float) -> str:
    """`4 %`, `0.03 %`, `250 %` of 0.04, 0.0003, 2.5."""
    return f"{100 * part:.2g} %" if abs(part) < 0.995 else f"{100 * part:,.0f} %"
