"""How one option is written: its type in words, its flag, its line of TOML, its row of the
reference page.
"""

import argparse
import re
import types
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import tomli_w
from pydantic.fields import FieldInfo

from tati_re.options.families import meaning
from tati_re.options.patterns import is_table
from tati_re.options.patterns import toml as inline_table
from tati_re.options.stages import METAVAR, Stage, toml

_METAVARS = {str: "TEXT", int: "N", float: "X"}


def flag(name: str) -> str:
    """The flag of an option: `step_size` is typed as `--step-size`."""
    return "--" + name.replace("_", "-")


def _bounds(metadata: Iterable[Any]) -> str:
    """The range in words: `" greater than 0"`, `" at least 0 and below 1"`, or an empty string."""
    words = {"gt": "greater than", "ge": "at least", "lt": "below", "le": "at most"}
    bounds = []
    for constraint in metadata:
        for key, text in words.items():
            limit = getattr(constraint, key, None)
            if limit is not None:
                bounds.append(f"{text} {limit:g}")
    return " " + " and ".join(bounds) if bounds else ""


def _words(annotation: Any, metadata: Iterable[Any]) -> str:
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if is_table(metadata):
        # One table says what the values of all of them are.
        plain = [part for part in arguments if get_origin(part) is not dict]
        return " or ".join(_words(part, ()) for part in plain) + ", or a table of pattern = value"
    if origin is Annotated:
        if description := next(
            (m.description for m in arguments[1:] if isinstance(m, FieldInfo) and m.description),
            None,
        ):
            return description
        return _words(arguments[0], [c for m in arguments[1:] for c in getattr(m, "metadata", [m])])
    if origin is Literal:
        return _alternatives(_values_of(annotation))
    if origin in (Union, types.UnionType):
        return _alternatives([text for part in arguments for text in _choices_of(part, metadata)])
    if origin is list:
        element = arguments[0]
        limits = list[Any]()
        if element is Stage:
            return "a list of stages"
        if element is str:
            return "a list of texts"
        if get_origin(element) is Literal:
            return f"one or more of {_words(element, ())}"
        if hasattr(element, "__metadata__"):
            limits = [c for m in element.__metadata__ for c in getattr(m, "metadata", [m])]
            element = element.__origin__
        kind = "numbers" if element is float else "integers"
        return f"a list of {kind}" + (f", each{_bounds(limits)}" if limits else "")
    names_of = {bool: "true or false", str: "text", type(None): "none"}
    if annotation in names_of:
        return names_of[annotation]
    return {int: "an integer", float: "a number"}[annotation] + _bounds(metadata)


def _values_of(literal: Any) -> list[str]:
    """The values of a literal type, texts in quotes."""
    return [f"'{value}'" if isinstance(value, str) else str(value) for value in get_args(literal)]


def _choices_of(part: Any, metadata: Iterable[Any]) -> list[str]:
    """What a part of a union allows, each value of it on its own."""
    if get_origin(part) is Literal:
        return _values_of(part)
    if part is bool:
        return ["true", "false"]
    return [_words(part, metadata)]


def _alternatives(texts: list[str]) -> str:
    """The texts as alternatives, with a comma before the last one if others contain clauses."""
    if len(texts) == 1:
        return texts[0]
    last = " or " + texts[-1]
    if any(" and " in text or ", " in text for text in texts[:-1]):
        last = "," + last
    return ", ".join(texts[:-1]) + last


class _OneOrMore(argparse.Action):
    """Stores one text as a text and several as a list."""

    def __call__(self, parser, namespace, values, option_string=None) -> None:
        setattr(namespace, self.dest, values[0] if len(values) == 1 else values)


def expected(field: FieldInfo) -> str:
    """What an option may be, in words: `a number greater than 0 or none`."""
    return _words(field.annotation, field.metadata)


_SIGNS = {"greater than": ">", "at least": ">=", "below": "<", "at most": "<="}
_PLAIN = {"a number", "an integer", "text", "true or false", "a list of texts", "a list of stages"}
"""What the form of a value in the help shows, too."""


def _briefly(field: FieldInfo) -> str:
    """What an option may be, as a help adds it to the form of the value: `>= 0, < 1`."""
    text = expected(field)
    if field.default is None:
        text = text.removesuffix(" or none").removesuffix(",")
    if text in _PLAIN:
        return ""
    for words, sign in _SIGNS.items():
        text = re.sub(rf"{words} (-?[\d.e+-]+)", rf"{sign} \1", text)
    text = re.sub(r"(?:a number|an integer) (?=[<>])", "", text)
    return re.sub(r"(?<=\d) and (?=[<>])", ", ", text)


def choices(field: FieldInfo) -> list[str]:
    parts = (
        get_args(field.annotation)
        if get_origin(field.annotation) is not Literal
        else (field.annotation,)
    )
    return [v for p in parts if get_origin(p) is Literal for v in get_args(p) if isinstance(v, str)]


def optional(field: FieldInfo) -> bool:
    """Whether an option may be left without a value (none)."""
    return type(None) in get_args(field.annotation)


def default_text(field: FieldInfo) -> str:
    value = field.default
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def add_field(group: argparse._ArgumentGroup, name: str, field: FieldInfo) -> None:
    """Adds the flag of an option to an argparse parser.

    Values stay text, and only typed flags are stored.

    Args:
        group: A group of arguments of the parser.
        name: Name of the option.
        field: Its field in the table of options, with type, default and meaning.
    """
    usual = default_text(field)
    default = "" if usual in ("none", "[]") else f"default {usual}"
    values = "; ".join(filter(None, [_briefly(field), default]))
    text = f"{meaning(field)} ({values})" if values else meaning(field)
    text = text.replace("%", "%%")
    names = choices(field)
    style = dict[str, Any]()
    base = next(
        (t for t in _METAVARS if t is field.annotation or t in get_args(field.annotation)), str
    )
    if field.annotation is bool:
        style = {"action": argparse.BooleanOptionalAction}
    elif is_table(field.metadata):
        kind = "NAME" if names else "X"
        style = {"nargs": "+", "action": _OneOrMore, "metavar": (f"{kind}|PATTERN={kind}",) * 2}
    elif list[str] in get_args(field.annotation):
        style = {"nargs": "+", "action": _OneOrMore, "metavar": "TEXT"}
    elif get_origin(field.annotation) is list:
        metavar = {Stage: METAVAR, str: _METAVARS[str]}.get(
            get_args(field.annotation)[0], "NAME" if names else "N"
        )
        style = {"nargs": "*", "metavar": metavar}
    else:
        style = {"metavar": "NAME" if names else _METAVARS[base]}
    group.add_argument(flag(name), dest=name, default=argparse.SUPPRESS, help=text, **style)


def toml_line(name: str, value: Any) -> str:
    """A line of TOML, `name = value`; a comment if the option is not set, since TOML has no none.

    Args:
        name: Name of the option.
        value: Its value, or None.
    """
    if value is None:
        return f"# {name} is not set"
    if isinstance(value, Mapping):
        return f"{name} = {inline_table(value)}"
    if isinstance(value, list):
        return f"{name} = {toml(value) if value and isinstance(value[0], Stage) else value}"
    return tomli_w.dumps({name: value}).rstrip("\n")


def markdown_table(fields: Mapping[str, FieldInfo]) -> str:
    rows = ["| option | flag | type and range | default | meaning |", "|---|---|---|---|---|"]
    for name, field in fields.items():
        text = meaning(field).replace("|", "\\|")
        rows.append(
            f"| `{name}` | `{flag(name)}` | {expected(field)} | `{default_text(field)}` | {text} |"
        )
    return "\n".join(rows)
