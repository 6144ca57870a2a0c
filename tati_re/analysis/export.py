"""Tables as CSV and Parquet."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tati_re.core.errors import InputError
from tati_re.runs.csv_table import frame_text
from tati_re.runs.storage import replacing

if TYPE_CHECKING:
    import pandas as pd


def write_table(table: pd.DataFrame, path: str | os.PathLike[str], to: str = "csv") -> Path:
    """Writes a table. Returns the file, with its ending.

    Args:
        table: The table.
        path: The file without its ending.
        to: `"csv"` or `"parquet"`. Default: `"csv"`.

    Raises:
        InputError: Parquet without the package pyarrow, another format, or a file that cannot be written.
    """
    if to not in ("csv", "parquet"):
        raise InputError("to is not known.", to, "csv or parquet")
    path = Path(path).with_name(f"{Path(path).name}.{to}")
    try:
        with replacing(path) as file:
            if to == "csv":
                file.write(frame_text(table))
            else:
                table.to_parquet(file, index=False)
    except ImportError:
        raise InputError("Parquet needs the package pyarrow.", expected="pip install 'tati_re[parquet]'") from None
    return path
