"""The public names of the package, one line each: `python docs/api.py` writes userguide/api.md."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType
from typing import Any

ROOMS = {
    "tati_re": "The front door",
    "tati_re.priors": "Priors",
    "tati_re.likelihoods": "Likelihoods",
    "tati_re.samplers": "Samplers",
    "tati_re.samplers.functions": "Functions for own samplers and swap rules",
    "tati_re.exchange": "Replica exchange",
    "tati_re.optimizers": "Optimizers",
    "tati_re.data": "Data",
    "tati_re.data.generators": "Built-in data",
    "tati_re.data.readers": "Readers of files",
    "tati_re.analysis": "Analysis",
    "tati_re.prediction": "Prediction",
    "tati_re.shipping": "Shipping",
    "tati_re.sklearn": "scikit-learn",
    "tati_re.landscape": "Landscapes",
    "tati_re.exploration": "Exploration",
    "tati_re.evidence": "Evidence",
    "tati_re.evidence.estimators": "Evidence from energies",
    "tati_re.evidence.grids": "Paths of temperatures",
    "tati_re.plotting": "Figures",
    "tati_re.testing": "Tests for own parts",
    "tati_re.coming_from_tati": "TATi's own names",
    "tati_re.options": "Options",
    "tati_re.supports": "Supports of named parameters",
    "tati_re.interop": "Models of other libraries",
    "tati_re.posterior": "Parts: the potential",
    "tati_re.engine": "Parts: the compiled loop",
    "tati_re.runs": "Parts: files of a run",
}
"""Where public names are imported from. The rooms called parts are for those who build on them."""

PAGE = Path(__file__).parent.parent / "userguide" / "api.md"

HEAD = """# Public names

Every name is imported from the path in the title of its table, and from nowhere else; `tati_re.priors` is an attribute
of `tati_re`. What is not listed here may move or change without notice. `Simulation` and the commands take the
[options](options.md).
"""


def module_of(room: str) -> ModuleType:
    """The module behind a public path."""
    return (
        importlib.import_module("tati_re").priors
        if room == "tati_re.priors"
        else importlib.import_module(room)
    )


def exported(room: str) -> list[str]:
    """The names that a room exports."""
    module = module_of(room)
    return sorted(
        getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
    )


def names_of(room: str) -> list[str]:
    """The public names of a room, those that are rooms themselves left out."""
    return [name for name in exported(room) if f"{room}.{name}" not in ROOMS]


def line_about(value: Any) -> str:
    """The first sentence of a docstring; of a value itself."""
    if not (isinstance(value, ModuleType) or callable(value)):
        text = repr(value)
        return f"`{text}`" if len(text) <= 80 else f"`{type(value).__name__}` of {len(value)}"
    first = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<=[^.]\.)(?<! al\.)(?<! eq\.) (?=[^a-z])", first)[0].rstrip(".:")
    return sentence.replace("|", "\\|")


def page() -> str:
    """The page of all public names."""
    parts = [HEAD]
    for room, title in ROOMS.items():
        module = module_of(room)
        rows = [f"| `{name}` | {line_about(getattr(module, name))} |" for name in names_of(room)]
        parts.append(
            "\n".join([f"## {title}: `{room}`\n", "| name | what it is |", "|---|---|", *rows, ""])
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
