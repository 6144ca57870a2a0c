"""Text of tables and of numbers with errors; tables as CSV and Parquet."""

import math
import textwrap
from pathlib import Path

import pandas as pd

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.printable import printable
from tati_re.runs.csv_table import frame_text
from tati_re.runs.storage import replacing

WIDTH = 110

SHORT = "†"
SHORT_NOTE = (
    "from chains shorter than 50 autocorrelation times: the error is rough, mostly too small"
)
FOOTNOTE = f"{SHORT} {SHORT_NOTE}"


def table(lines: list[tuple[str, str]], width: int = WIDTH) -> str:
    """Aligns pairs of label and value; long values continue in the next line.

    Args:
        lines: Pairs of label and value.
        width: Characters in a line. Default: 110.
    """
    indent = max((len(label) for label, _ in lines), default=0) + 2
    fill = textwrap.TextWrapper(
        width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    cells = []
    for label, value in ((printable(label), printable(value)) for label, value in lines):
        fill.initial_indent = label.ljust(indent)
        cells.append(fill.fill(value) if value else label)
    return "\n".join(cells)


def with_error(mean: float, error: float, short: bool = False) -> str:
    """Text such as `1,295.8 ± 2.8`: two digits of the error, and the mean to the same place.

    Args:
        mean: The mean.
        error: Its error. Without a finite error above 0, only the mean is written.
        short: Whether chains are short, so that the error is marked, as in `± 2.8†`. Default:
            False.
    """
    if not (math.isfinite(mean) and math.isfinite(error) and error > 0):
        return f"{mean:,.6g}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    form = f",.{decimals}f" if abs(mean) + error > 1e-9 else ".2g"
    return f"{mean:{form}} ± {error:{form}}{SHORT if short else ''}"


def marked(table: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """A table to be shown: its column `short` becomes a mark at the error, and a footnote where
    there is one.
    """
    if "short" not in table or "error" not in table:
        return table, []
    short = (table["short"].astype(bool) & table["error"].notna()).to_numpy()
    marked_table = table.drop(columns="short")
    if short.any():
        cells = zip(table["error"], short, strict=True)
        texts = [
            "" if math.isnan(value) else f"{value:.4g}{SHORT if mark else ''}"
            for value, mark in cells
        ]
        marked_table = marked_table.assign(error=texts)
    return marked_table, [FOOTNOTE] if short.any() else []


def percent(part: float) -> str:
    """`4 %`, `0.03 %`, `250 %` of 0.04, 0.0003, 2.5."""
    return f"{100 * part:.2g} %" if abs(part) < 0.995 else f"{100 * part:,.0f} %"


@front_door
def write_table(table: pd.DataFrame, path: AnyPath, to: str = "csv") -> Path:
    """Writes a table as a CSV or Parquet file.

    Args:
        table: The table.
        path: The file. The ending of the format is added if it is missing.
        to: "csv" or "parquet". Default: "csv".

    Returns:
        The path of the file, with its ending.

    Raises:
        InputError: The format is unknown, the file cannot be written, or Parquet lacks the package
            pyarrow.
    """
    refuse_if(to not in ("csv", "parquet"), "to: unknown format.", to, "csv or parquet")
    path = Path(path).with_name(f"{Path(path).name}.{to}")
    try:
        with replacing(path) as file:
            if to == "csv":
                file.write(frame_text(table))
            else:
                table.to_parquet(file, index=False)
    except ImportError:
        raise InputError(
            "Parquet needs the package pyarrow.", expected="pip install 'tati_re[parquet]'"
        ) from None
    return path
