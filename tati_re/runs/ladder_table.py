"""The table of a ladder, which draws itself."""

import os
from typing import TYPE_CHECKING, Any

import pandas

from tati_re.core.views import drawn

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Frame: Any = pandas.DataFrame
"""Any: the attribute `plot` of a DataFrame is another one."""


class LadderTable(_Frame):
    """The rows of `ladder.csv`, one a rung; parts of it are plain DataFrames."""

    def __repr__(self) -> str:
        return self.to_string(index=False, line_width=110, float_format="{:.4g}".format)

    def plot(self, path: str | os.PathLike[str] | None = None) -> "Figure":
        """Draws accepted swaps between neighbors, and the mean potential; see `tati_re.plotting.plot_ladder`."""
        return drawn("ladder", self, path=path)
