"""Where the figures of results are drawn: in a room above theirs, which is found by name, as samplers are."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES = {
    "exploration": "tati_re.plotting.exploration:plot_exploration",
    "input space": "tati_re.plotting.inputspace:plot_input_space",
    "ladder": "tati_re.plotting.temperatures:plot_ladder",
    "landscape": "tati_re.plotting.landscape:plot_landscape",
    "prediction": "tati_re.plotting.prediction:plot_prediction",
    "run": "tati_re.plotting.run:plot_run",
}
"""The function that draws each kind of result, for the method `plot` of the result; no other code reaches upward so."""


def drawn(kind: str, result: Any, /, **choices: Any) -> Figure:
    """The figure of a result of this kind."""
    module, name = FIGURES[kind].split(":")
    figure: Figure = vars(import_module(module))[name](result, **choices)
    return figure
