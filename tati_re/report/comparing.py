"""What a page says of two runs together, and which folders beside a run are about it."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.analysis.averages import averages_of_rows
from tati_re.analysis.format import with_error
from tati_re.report import html

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from tati_re.runs.run import RunFiles

_COMPARED = ("potential", "loss", "accuracy", "acceptance")
_UNLIKE = ("output", "verbose", "seed")


def differences(runs: Sequence[RunFiles], names: Sequence[str], rows: Sequence[pd.DataFrame | None]) -> str:
    """Averages of two runs beside each other, how many standard errors they are apart, and options that differ."""
    import pandas as pd

    parts = []
    kept = [each for each in rows if each is not None]
    if len(kept) == 2:
        shown = [name for name in _COMPARED if all(name in each and each[name].notna().all() for each in kept)]
        tables: list[Any] = [averages_of_rows(each, shown).set_index("observable") for each in kept]
        lines = []
        for name in shown:
            one, other = (table.loc[name] for table in tables)
            error = math.hypot(one["error"], other["error"])
            apart = abs(one["mean"] - other["mean"]) / error if error > 0 else math.nan
            values = [with_error(each["mean"], each["error"], bool(each["short"])) for each in (one, other)]
            lines.append([name, *values, apart])
        parts.append(html.html_table(pd.DataFrame(lines, columns=["average", *names, "standard errors apart"])))
    options: list[dict[str, Any]] = [run.manifest.get("options", {}) for run in runs]
    unlike = [name for name in options[0] if name not in _UNLIKE and options[0][name] != options[1].get(name)]
    if unlike:
        found = [[name, *(str(each.get(name)) for each in options)] for name in unlike]
        parts.append(html.html_table(pd.DataFrame(found, columns=["option", *names])))
    return html.Section("Side by side", "beside", parts or [html.paragraph("The runs have the same options.")]).html()


def made_of(run: RunFiles) -> list[Path]:
    """Folders beside a run where `tati-landscape` and `tati-inputspace` say that they are of this run."""
    found = []
    for path in sorted(run.folder.resolve().parent.glob("*/*.toml")):
        if path.name not in ("landscape.toml", "inputspace.toml") or path.is_symlink() or path.parent.is_symlink():
            continue
        try:
            said = tomllib.loads(path.read_text(encoding="utf-8")).get("run")
        except (OSError, ValueError):
            continue
        if isinstance(said, str) and said and (path.parent / said).resolve() == run.folder.resolve():
            found.append(path.parent)
    return found
