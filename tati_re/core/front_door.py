"""Functions that users call: an argument of another kind is one sentence, not an error from deep
inside.

Nothing is checked before a call: where it fails, its arguments are held against their annotations.
What fails with arguments that are right stays as it is, for it is a fault of the function.
"""

from __future__ import annotations

import builtins
import inspect
import math
import numbers
import os
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from itertools import islice
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from tati_re.core.errors import InputError, SamplingError, abbreviated
from tati_re.core.user_input import error_text

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

_OWN = (InputError, SamplingError)
_LISTS = (Sequence, Collection, Iterable, list, tuple)
_FEW = 100  # Items of a list that are looked at.
_LARGEST = 2**63
_KNOWN = ("tati_re", "keras", "tensorflow", "pandas", "matplotlib")


def front_door(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes a function of users say in one sentence which argument is of another kind.

    Args:
        function: Any function or method with annotations.

    Returns:
        The function, which raises an `InputError` in place of what an argument of another kind
        made it raise. A call with missing or unknown arguments stays a `TypeError`.
    """

    @wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except _OWN:
            raise
        except Exception as error:  # other libraries raise what they like
            if (refusal := _refusal(function, args, kwargs, error)) is None:
                raise
            raise refusal from error

    return called


def front_doors(kind: _C) -> _C:
    """Makes `front_door` of all public methods that a class defines, and of its constructor."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            setattr(kind, name, front_door(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(kind, name, type(member)(front_door(member.__func__)))
    return kind


def _refusal(
    function: Callable[..., Any], args: Any, kwargs: Any, error: Exception
) -> InputError | None:
    """The sentence on the first argument that is of another kind; None where all may be right."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    hints = _hints(function)
    unknown = []
    for name, value, hint in _arguments(bound, hints):
        fits = _fits(value, hint)
        if fits is False:
            expected = _in_words(hint)
            return InputError(f"{name} has the wrong type or value.", _written(value), expected)
        if name == "seed" and isinstance(value, numbers.Integral) and value < 0:
            return InputError("seed is out of range.", value, "a whole number, 0 or more")
        is_needed = bound.signature.parameters[name].default is inspect.Parameter.empty
        if fits is None and (
            _is_suspect(value, hint, error) or (is_needed and _lacks(value, error))
        ):
            unknown.append((name, value))
    if not unknown:
        return None
    name, value = unknown[0]
    return InputError(f"{name} cannot be used ({error_text(error, 120)}).", _written(value))


def _lacks(value: Any, error: Exception) -> bool:
    """Whether an error says that None or a text has not what was asked of it."""
    kind = type(value).__name__
    missing = isinstance(error, AttributeError) or value is None
    return missing and (value is None or isinstance(value, str)) and f"'{kind}'" in str(error)


def _is_suspect(value: Any, hint: Any, error: Exception) -> bool:
    """Whether a value whose annotation does not say what is right may be what is wrong."""
    if isinstance(value, str) or value is None:
        return _is_odd(value)
    named = f"'{type(value).__name__}'" in str(error) or f"a {type(value).__name__} " in str(error)
    listed = hint is not Any and _is_array(value)
    single = isinstance(error, TypeError) and _is_scalar(value)
    return named or listed or single or _is_odd(value)


def _arguments(
    bound: inspect.BoundArguments, hints: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and annotation of each argument; options by further names check themselves, and
    may be objects whose own errors are to be seen.
    """
    for name, value in bound.arguments.items():
        kind = bound.signature.parameters[name].kind
        hint = hints.get(name, Any)
        if kind is inspect.Parameter.VAR_POSITIONAL:
            for item in value:
                yield name, item, hint
        elif kind is not inspect.Parameter.VAR_KEYWORD and name not in ("self", "cls"):
            yield name, value, hint


class _Module:
    """A module that is imported for type checkers alone: its names may be anything."""

    def __getattr__(self, name: str) -> Any:
        return Any


class _Names(dict[str, Any]):
    """The names of a module; what it imports for type checkers alone may be anything."""

    def __missing__(self, name: str) -> Any:
        return _Module() if name.islower() else Any


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    plain = inspect.unwrap(function)
    names = _Names(vars(builtins) | plain.__globals__)
    try:
        return typing.get_type_hints(plain, localns=names)
    except (TypeError, NameError, AttributeError):
        return {}


def _fits(value: Any, hint: Any) -> bool | None:
    """Whether a value is of an annotation; None where that does not say."""
    origin = get_origin(hint)
    parts = get_args(hint)
    if origin in (Union, types.UnionType):
        return _any_fits([_fits(value, part) for part in parts])
    if origin is Literal:
        return isinstance(value, (str, int, bool, type(None))) and value in parts
    if hint is None or hint is type(None):
        return value is None
    if hint is bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")
    if hint is int:
        is_integer = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return is_integer and abs(int(value)) < _LARGEST
    if hint is float:
        return isinstance(value, numbers.Real) and _is_finite(value)
    if hint is str or (inspect.isclass(origin or hint) and issubclass(origin or hint, os.PathLike)):
        texts = (str,) if hint is str else (os.PathLike,)
        return isinstance(value, texts) and _is_text(os.fspath(value))
    if origin is not None and inspect.isclass(origin):
        return _fits_container(value, origin, parts)
    if inspect.isclass(hint) and hint is not Any and hint is not object:
        try:
            return isinstance(value, hint)
        except TypeError:  # protocols that are not for it
            return None
    return None


def _fits_container(value: Any, origin: type, parts: tuple[Any, ...]) -> bool | None:
    if origin is type:
        return isinstance(value, type)
    if origin.__name__ == "Callable":
        return callable(value)
    if origin in _LISTS and _is_array(value):
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, origin):
        return False
    if isinstance(value, Mapping) and len(parts) == 2:
        items = [_fits(item, parts[1]) for item in islice(value.values(), _FEW)]
    elif isinstance(value, Collection) and origin is not tuple and parts:
        items = [_fits(item, parts[0]) for item in islice(value, _FEW)]
    else:
        items = [None]
    return _all_fit(items)


def _any_fits(answers: list[bool | None]) -> bool | None:
    """Whether one of several answers is yes; None where one is open."""
    if True in answers:
        return True
    return None if None in answers else False


def _all_fit(answers: list[bool | None]) -> bool | None:
    """Whether all answers are yes; None where one is open, or there is none."""
    if False in answers:
        return False
    return None if None in answers or not answers else True


def _is_scalar(value: Any) -> bool:
    """Whether a value is a number where most functions expect several."""
    return isinstance(value, numbers.Number) or (_is_array(value) and not value.ndim)


def _is_array(value: Any) -> bool:
    package = type(value).__module__.partition(".")[0]
    return package in ("numpy", "pandas") and "ndim" in dir(value)


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except (OverflowError, TypeError, ValueError):
        return False


def _is_text(text: str | bytes) -> bool:
    """Whether a text can be the name of a file: in UTF-8, without NUL, and not too long."""
    try:
        name = os.fsdecode(text)
        name.encode()
    except (UnicodeError, TypeError):
        return False
    return "\0" not in name and all(len(part) < 256 for part in name.split("/"))


def _is_odd(value: Any) -> bool:
    """Whether a value is of a kind that few functions take: nothing in it, no number, or one that
    is not finite.
    """
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, numbers.Integral):
        return abs(int(value)) >= _LARGEST
    if isinstance(value, numbers.Real):
        return not _is_finite(value)
    if isinstance(value, (str, os.PathLike)):
        return not _is_text(os.fspath(value))
    if type(value).__module__.partition(".")[0] in _KNOWN:
        return False
    if isinstance(value, (list, tuple)):
        return not value or any(map(_is_odd, value[:_FEW]))
    if isinstance(value, Mapping):
        return not value or any(_is_odd(item) for item in islice(value.values(), _FEW))
    if type(value).__module__.partition(".")[0] == "numpy":
        return _is_odd_array(value)
    return True


def _is_odd_array(value: Any) -> bool:
    import numpy as np

    array = np.asarray(value)
    return array.dtype.kind not in "buif" or not array.size or not bool(np.isfinite(array).all())


def _written(value: Any) -> str:
    text = abbreviated(value, 120, repr)
    return f"{type(value).__name__} {text}" if not isinstance(value, (str, int, float)) else text


def _in_words(hint: Any) -> str:
    if inspect.isclass(hint) and get_origin(hint) is None:
        return _WORDS.get(hint.__name__, f"a {hint.__name__}")
    if get_origin(hint) in (Union, types.UnionType):
        return _alternatives([*dict.fromkeys(map(_in_words, get_args(hint)))])
    if get_origin(hint) is Literal:
        return _alternatives([repr(value) for value in get_args(hint)])
    name = get_origin(hint).__name__ if get_origin(hint) is not None else str(hint)
    items = [_in_words(part) for part in get_args(hint) if part is not Ellipsis and part is not Any]
    words = _WORDS.get(name, f"a {name}")
    if not items or name in ("Callable", "PathLike"):
        return words
    return f"{words} of {_PLURALS.get(items[-1], items[-1])}"


def _alternatives(texts: list[str]) -> str:
    """Texts as in `a, b or c`."""
    if len(texts) == 1:
        return texts[0]
    return f"{', '.join(texts[:-1])} or {texts[-1]}"


_WORDS = {
    "int": "a whole number",
    "float": "a finite number",
    "str": "a text",
    "bool": "True or False",
    "NoneType": "None",
    "PathLike": "a path",
    "Sequence": "a list",
    "Iterable": "a list",
    "Collection": "a list",
    "list": "a list",
    "tuple": "a tuple",
    "dict": "a dictionary",
    "Mapping": "a dictionary",
    "Callable": "a function",
    "ndarray": "an array",
    "RunFiles": "a run",
}

_PLURALS = {
    "a whole number": "whole numbers",
    "a finite number": "finite numbers",
    "a text": "texts",
    "a path": "paths",
    "a list": "lists",
    "a function": "functions",
    "an array": "arrays",
    "a run": "runs",
}
"""What elements of a list are called."""
