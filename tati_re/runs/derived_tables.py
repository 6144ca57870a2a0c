"""Tables that are computed from the draws of a run and kept in its folder."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError
from tati_re.core.files.regular import regular_bytes
from tati_re.runs import files
from tati_re.runs.foreign_table import has_long_first_row
from tati_re.runs.run import RunFiles

if TYPE_CHECKING:
    import pandas


def path_since_draws(run: RunFiles, name: str) -> Path | None:
    """Finds a file that was computed from the draws of a run.

    Args:
        run: The run.
        name: The file in its folder.

    Returns:
        Its path; None if there is none since the last draw.
    """
    path = run.folder / name
    draws = files.trajectory_in(run.folder)
    if not path.exists() or draws is None:
        return None
    return path if path.stat().st_mtime_ns >= draws.stat().st_mtime_ns else None


def has_numbers(frame: pandas.DataFrame, names: Iterable[str]) -> bool:
    """Whether a table has these columns, and numbers in all columns.

    Args:
        frame: A kept table.
        names: Columns that it needs.
    """
    return {*names} <= {*frame.columns} and all(kind.kind in "if" for kind in frame.dtypes)


def derived_table(
    run: RunFiles,
    name: str,
    expected: str = "the file as the run wrote it",
    **reading: Any,
) -> pandas.DataFrame | None:
    """Reads a table that was computed from the draws, unless draws were added since.

    Args:
        run: The run.
        name: The file in its folder.
        expected: What the error about a file that cannot be read expects.
        **reading: Options of `pandas.read_csv`.

    Returns:
        The table, whose columns are not checked; None if there is none since the last draw.

    Raises:
        InputError: The file is not a table.
    """
    import pandas as pd

    path = path_since_draws(run, name)
    if path is None:
        return None
    content = regular_bytes(path)
    try:
        if has_long_first_row(content.decode("utf-8-sig")):
            raise ValueError("line 2 has more cells than the header")
        return pd.read_csv(io.BytesIO(content), **reading)
    except (ValueError, OverflowError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path} cannot be read: {reason}.", expected=expected) from None
