"""The samplers that have a name: one line each, from which help, completion, the options page and a run come. Other
packages add `GJF = "gjf:GJF"` to `[project.entry-points."tati_re.samplers"]` of their pyproject.toml."""

import inspect
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic.fields import FieldInfo

from tati_re.core.errors import InputError
from tati_re.options.presets import PRESETS
from tati_re.options.table import OPTIONS
from tati_re.options.user_code import found

GROUP = "tati_re.samplers"
WORDS = ("BAOAB", "OBABO", "ABOBA", "OABAO", "UBU", "BADODAB", "GLA1", "GLA2", "mCCAdL")
"""Splitting words that have a name or are common; any other valid word is a sampler too."""

DEFAULT = "BAOAB"
"""The sampler where none is named, but the step size or a ladder."""

FAMILIES = {
    "SGLD": "tati_re.samplers.sgld:SGLD",
    "LM": "tati_re.samplers.leimkuhler_matthews:LeimkuhlerMatthews",
    "pSGLD": "tati_re.samplers.psgld:PreconditionedSGLD",
    "SGHMC": "tati_re.samplers.sghmc:SGHMC",
    "SGNHT": "tati_re.samplers.sgnht:SGNHT",
    "CCAdL": "tati_re.samplers.ccadl:CCAdL",
    "HMC": "tati_re.samplers.hmc:HamiltonianMonteCarlo",
    "HMC1": "tati_re.samplers.first_order_hmc:FirstOrderHMC",
    "GHMC": "tati_re.samplers.ghmc:GeneralizedHMC",
    "MCLMC": "tati_re.samplers.microcanonical:MCLMC",
    "MAMS": "tati_re.samplers.mams:MAMS",
    "MALA": "tati_re.samplers.mala:MALA",
    "RWMH": "tati_re.samplers.rwmh:RandomWalkMetropolis",
    "TACT-HMC": "tati_re.samplers.tact_hmc:from_temperatures",
}
"""Where each sampler is made: a class, or a function; its options are those parameters that are options."""


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The samplers of installed packages, read once: it takes milliseconds, and every sampler by name asks."""
    return tuple(entry_points(group=GROUP))


def families() -> dict[str, str]:
    """The samplers by name, those of installed packages included, which may not take another sampler's name."""
    all_of_them = dict(FAMILIES)
    for entry in _installed():
        if entry.name.upper() in map(str.upper, all_of_them):
            raise InputError(f"The name of the sampler {entry.value} is taken.", entry.name, "another entry point")
        all_of_them[entry.name] = entry.value
    return all_of_them


def family(name: str) -> str | None:
    """Where the sampler of this name, in any case, is made; `None` if there is none."""
    return next((where for known, where in families().items() if known.upper() == name.upper()), None)


def is_foreign(name: str) -> bool:
    """Whether the code of a sampler is a user's, or of another package."""
    where = name if ":" in name else family(name)
    return where is not None and where not in FAMILIES.values()


def factory(where: str) -> Callable[..., Any]:
    """The class of samplers, or the function that makes one, that `module:name` means."""
    return _known(where) if where in FAMILIES.values() else _found(where)


def _found(where: str) -> Callable[..., Any]:
    form, kind = "my_module:MySampler or my_file.py:MySampler", "a class with init and step"
    return found("sampler", where, form, lambda value: inspect.isclass(value) and hasattr(value, "step"), kind)


_known = cache(_found)  # Every run asks for all of them, to say which options it does not use.


def options_of_family(where: str) -> list[str]:
    return [name for name in inspect.signature(factory(where)).parameters if name in OPTIONS]


def meaning(field: FieldInfo) -> str:
    """The help of an option, with the names of all samplers where it lists them."""
    text = str(field.description)
    if "{samplers}" not in text:
        return text
    return text.replace("{samplers}", ", ".join([*WORDS[6:], *families()])).replace("{presets}", ", ".join(PRESETS))


def markdown_table() -> str:
    """The samplers that have a name as a Markdown table: name, options, what it is."""
    rows = ["| sampler | its options | what it is |", "|---|---|---|"]
    for name, where in families().items():
        said = (inspect.getdoc(factory(where)) or "").split("\n\n")[0].replace("\n", " ")
        options = ", ".join(f"`{option}`" for option in options_of_family(where))
        rows.append(f"| `{name}` | {options} | {said} |")
    return "\n".join(rows)
