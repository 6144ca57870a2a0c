"""The samplers that have a name: one line each, from which help, completion, the options page and a
run come. Other packages add `GJF = "gjf:GJF"` to `[project.entry-points."tati_re.samplers"]` of
their pyproject.toml.
"""

import inspect
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic.fields import FieldInfo

from tati_re.core.errors import InputError
from tati_re.options.presets import PRESETS
from tati_re.options.table import OPTIONS
from tati_re.options.user_code import imported_object

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
"""Where each sampler is made: a class, or a function; its options are those parameters that are
options.
"""


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The samplers of installed packages, read once: it takes milliseconds, and every sampler by
    name asks.
    """
    return tuple(entry_points(group=GROUP))


def families() -> dict[str, str]:
    """The samplers by name, those of installed packages included: a name that is taken stays what
    it was.
    """
    all_of_them = dict(FAMILIES)
    for entry in _installed():
        if entry.name.upper() not in map(str.upper, (*all_of_them, *WORDS, *PRESETS, "auto")):
            all_of_them[entry.name] = entry.value
    return all_of_them


def family(name: str) -> str | None:
    """Where the sampler of this name, in any case, is made; `None` if there is none."""
    return next(
        (where for known, where in families().items() if known.upper() == name.upper()), None
    )


def check_name(name: str) -> None:
    """Refuses a name that an installed package gives to a sampler, and that is another's too."""
    for entry in _installed():
        if entry.name.upper() == name.upper() and entry.value != family(name):
            problem = (
                f"sampler: the name {entry.name} is already used, but an installed package "
                f"also gives it to {entry.value}."
            )
            raise InputError(
                problem,
                expected=f"another name in the entry points of that package, or {entry.value}",
            )


def is_foreign(name: str) -> bool:
    """Whether the code of a sampler is a user's, or of another package."""
    where = name if ":" in name else family(name)
    return where is not None and where not in FAMILIES.values()


def factory(where: str) -> Callable[..., Any]:
    """The class of samplers, or the function that makes one, that `module:name` means."""
    return _known(where) if where in FAMILIES.values() else _resolved(where)


def _resolved(where: str) -> Callable[..., Any]:
    form = "my_module:MySampler or my_file.py:MySampler"
    kind = "a class with init and step"
    return imported_object(
        "sampler",
        where,
        form,
        lambda value: inspect.isclass(value) and hasattr(value, "step"),
        kind,
    )


_known = cache(_resolved)  # Every run asks for all of them, to say which options it does not use.


def options_of_family(where: str) -> list[str]:
    return [name for name in inspect.signature(factory(where)).parameters if name in OPTIONS]


def meaning(field: FieldInfo) -> str:
    """The help of an option, with the names of all samplers where it lists them."""
    names = ", ".join([*WORDS[6:], *families()])
    return (
        str(field.description).replace("{samplers}", names).replace("{presets}", ", ".join(PRESETS))
    )


def markdown_table() -> str:
    """The samplers that have a name as a Markdown table: name, options, what it is."""
    rows = ["| sampler | its options | description |", "|---|---|---|"]
    for name, where in families().items():
        try:
            description = (
                inspect.cleandoc(factory(where).__doc__ or "").split("\n\n")[0].replace("\n", " ")
            )
            options = ", ".join(f"`{option}`" for option in options_of_family(where))
        except InputError as error:  # another package, which cannot be imported
            description, options = str(error), ""
        rows.append(f"| `{name}` | {options} | {description} |")
    return "\n".join(rows)
