"""Tables of TOML or JSON read into frozen dataclasses, whose annotations say what each value is.

A class declares one field a key. Keys that it does not declare are left alone, so that files of
other versions can be read; whoever writes a table again keeps them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tati_re.core.errors import InputError, abbreviated

LARGEST = 2**63 - 1
"""The largest whole number that TOML promises to hold."""
_LONGEST = 77  # letters of a value in a message
_KEY = "key"
_TABLES = (dict, Mapping)
_WHOLE = "whole"


class Limit(NamedTuple):
    """A condition on a value beside its type: `Annotated[int, Limit(is_even, "an even number")]`.

    Attributes:
        holds: Whether a value of the type fulfils it.
        words: What is expected.
    """

    holds: Callable[[Any], bool]
    words: str


FiniteNumber = Annotated[float, Limit(math.isfinite, "a finite number")]
"""A number, neither infinite nor not-a-number."""

Count = Annotated[int, Limit(lambda value: value >= 0, "a whole number, 0 or more")]
"""A number of things."""


class Declared(Protocol):
    """A dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


Entry = TypeVar("Entry", bound=Declared)


class WrongValue(ValueError):
    """A value that does not fit its key: of another type, or beyond its limits.

    Attributes:
        key: The key, with the tables that it is in: `options.num_steps`.
        received: The value, shortened.
        expected: What belongs there.
    """

    def __init__(self, key: str, received: str, expected: str) -> None:
        super().__init__(key)
        self.key = key
        self.received = received
        self.expected = expected


def under(key: str, default: Any = None) -> Any:
    """Declares a field whose key in the table is not a valid name in Python.

    Args:
        key: The key in the table, such as `rhat(weights)`.
        default: Value of the field if the key is missing. Default: None.
    """
    return field(default=default, metadata={_KEY: key})


def whole_table() -> Any:
    """A field that holds the whole table, with the keys that its class does not declare."""
    return field(default_factory=dict, repr=False, metadata={_WHOLE: True})


Reader = Callable[[Any, str], Any]
"""Reads the value of a key: the value, and the key for messages."""


@cache
def _types_of(kind: type[Declared]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def keys_of(kind: type[Declared]) -> dict[str, Any]:
    """The annotation of each key that a class declares."""
    types = _types_of(kind)
    declared = (
        declared_field for declared_field in fields(kind) if _WHOLE not in declared_field.metadata
    )
    return {
        declared_field.metadata.get(_KEY, declared_field.name): types[declared_field.name]
        for declared_field in declared
    }


@cache
def _readers_of(kind: type[Declared]) -> dict[str, Reader]:
    return {key: reader_of(annotation) for key, annotation in keys_of(kind).items()}


def entry_of(kind: type[Entry], table: Mapping[str, Any], where: str = "") -> Entry:
    """Reads a table into a dataclass.

    Args:
        kind: A frozen dataclass, each of whose fields is a key of the table.
        table: The table.
        where: The keys that lead to it, for messages. Default: it is the whole file.

    Returns:
        The entry. Arrays are tuples, and tables dictionaries, or entries of their own class.

    Raises:
        WrongValue: A value does not fit its field, or is missing and has no default.
    """
    readers = _readers_of(kind)
    values: dict[str, Any] = {}

    for declared_field in fields(kind):
        if _WHOLE in declared_field.metadata:
            values[declared_field.name] = table
            continue

        key = declared_field.metadata.get(_KEY, declared_field.name)
        path = f"{where}.{key}" if where else key
        if key in table:
            values[declared_field.name] = readers[key](table[key], path)
        elif declared_field.default is MISSING and declared_field.default_factory is MISSING:
            raise WrongValue(path, "nothing", words_of(_types_of(kind)[declared_field.name]))

    return kind(**values)


def reader_of(annotation: Any) -> Reader:
    """What reads a value of a type; it raises `WrongValue` if the value does not fit.

    Args:
        annotation: A type, as fields of dataclasses and of the table of options have.
    """
    fits = _matcher_of(annotation)
    kind: Any = next((part for part in _parts(annotation) if is_dataclass(part)), None)
    of_array = _inner_of(annotation, (tuple, list), 0)
    of_table = _inner_of(annotation, _TABLES, 1)
    element_reader = reader_of(of_array) if is_dataclass(of_array) else None
    named = reader_of(of_table) if is_dataclass(of_table) else None

    def read(value: Any, path: str) -> Any:
        if kind is not None and isinstance(value, Mapping):
            return entry_of(kind, value, path)
        if element_reader is not None and isinstance(value, list):
            return tuple(
                element_reader(part, f"{path}[{number}]") for number, part in enumerate(value)
            )
        if named is not None and isinstance(value, Mapping):
            return {name: named(part, f"{path}.{name}") for name, part in value.items()}
        if not fits(value):
            raise WrongValue(path, abbreviated(value, _LONGEST, repr), words_of(annotation))
        return _plain(value)

    return read


def _plain(value: Any) -> Any:
    """Arrays as tuples, as a frozen entry has them."""
    if isinstance(value, list):
        return tuple(_plain(part) for part in value)
    return value


def _parts(annotation: Any) -> Iterator[Any]:
    """The alternatives of an annotation."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        for part in get_args(annotation):
            yield from _parts(part)
    elif origin is Annotated and _limit_of(annotation) is None:
        yield from _parts(get_args(annotation)[0])
    else:
        yield annotation


def _limit_of(annotation: Any) -> Limit | None:
    """The condition of an annotation; None of other annotated types, such as options have."""
    return next(
        (argument for argument in get_args(annotation)[1:] if isinstance(argument, Limit)), None
    )


def _inner_of(annotation: Any, origins: tuple[Any, ...], place: int) -> Any:
    """The type of the parts of an array or a table; None if it is neither."""
    part = next((part for part in _parts(annotation) if get_origin(part) in origins), None)
    return None if part is None else get_args(part)[place]


def matches(value: Any, annotation: Any) -> bool:
    """Whether a value of TOML has the type that an annotation says.

    A number without a fraction is a number as well. Texts are not compared with the choices of a
    `Literal`, and numbers not with the ranges of options: earlier versions may have had others.

    Args:
        value: Text, number, boolean, list, dictionary, or None.
        annotation: A type, as fields of dataclasses and of the table of options have.
    """
    return _matcher_of(annotation)(value)


Matcher = Callable[[Any], bool]


def _matcher_of(annotation: Any) -> Matcher:
    """What tells whether a value has a type."""
    matchers = [_matcher_of_part(part) for part in _parts(annotation)]
    if len(matchers) == 1:
        return matchers[0]
    return lambda value: any(fits(value) for fits in matchers)


def _matcher_of_part(kind: Any) -> Matcher:
    """What tells whether a value has one type, without alternatives."""
    origin = get_origin(kind)
    if kind is Any:
        return lambda value: True

    limit = _limit_of(kind) if origin is Annotated else None
    if limit is not None:
        fits = _matcher_of(get_args(kind)[0])
        holds = limit.holds
        return lambda value: fits(value) and holds(value)

    if origin is Literal:
        types = {type(choice) for choice in get_args(kind)}
        return lambda value: type(value) in types

    if origin in (list, tuple):
        inner = _matcher_of(get_args(kind)[0])
        return lambda value: isinstance(value, list) and all(map(inner, value))

    if origin in _TABLES:
        inner = _matcher_of(get_args(kind)[1])
        return lambda value: isinstance(value, dict) and all(map(inner, value.values()))

    return _SIMPLE.get(kind, _is_table)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


_SIMPLE: dict[Any, Matcher] = {
    float: _is_number,
    int: _is_whole_number,
    str: lambda value: isinstance(value, str),
    bool: lambda value: isinstance(value, bool),
    type(None): lambda value: value is None,
    None: lambda value: value is None,
}
"""Types that are no tables, and have no parts."""


_WORDS: dict[Any, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number of at most 64 bits",
    float: "a number",
    dict: "a table",
    Mapping: "a table",
}


def words_of(annotation: Any) -> str:
    """An annotation in words: "a number or text"."""
    parts = [_words_of(part) for part in _parts(annotation) if part not in (None, type(None))]
    return " or ".join(dict.fromkeys(parts))


def _words_of(kind: Any) -> str:
    origin = get_origin(kind)
    limit = _limit_of(kind) if origin is Annotated else None
    if limit is not None:
        return limit.words
    if origin is Literal:
        return " or ".join(dict.fromkeys(_WORDS[type(choice)] for choice in get_args(kind)))
    if origin in (list, tuple):
        return f"a list, each {words_of(get_args(kind)[0])}"
    if origin in _TABLES:
        inner = get_args(kind)[1]
        return "a table" if inner is Any else f"a table, each {words_of(inner)}"
    return _WORDS.get(kind, "a table")


def refuse_wrong_value(error: WrongValue, path: Any) -> InputError:
    """The error about a file with a wrong value.

    Args:
        error: Which value it is.
        path: The file.
    """
    problem = f"The file {path} has a wrong value: {error.key}."
    if error.received == "nothing":
        problem = f"The file {path} lacks {error.key}."
    return InputError(problem, error.received, error.expected)
