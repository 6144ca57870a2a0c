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
from pathlib import PurePath
from typing import Any, Literal, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from tati_re.core.errors import InputError, InputTypeError, SamplingError, abbreviated
from tati_re.core.user_input import error_text

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C", bound=type)

_PACKAGE = __name__.partition(".")[0]
_ROOM_OF_CHECKS = "testing"
_DOOR = "_is_front_door"  # Attribute of functions that are front doors.
_OWN = (InputError, SamplingError)
_LISTS = (Sequence, Collection, Iterable, list, tuple)
_FEW = 100  # Items of a list that are looked at.
_FEWER = 10  # Items of a list in a list.
_DEPTH = 4  # Lists in lists that are looked into.
_LARGEST = 2**63
_EXTREME_NUMBER = 1e9
_OF_VALUES = (TypeError, ValueError, IndexError, AttributeError)
_OF_ZERO = (ArithmeticError, ValueError, IndexError)  # Errors of 0 in place of a number.
_WORDS_OF_TEXT = (
    "could not convert string",
    "'str'",
    "seed string",
    "string indices",
    "Cast string",
    "of string is not",
    "not supported for the input types",
    "resolved dtypes",
    "signature matching types",
    "dtype string",
)
_WORDS_OF_SHAPES = (
    "broadcast",
    "shape",
    "dimension",
    "too many indices",
    "out of bounds",
    "out of range",
    "tuple index",
    "size",
    "not aligned",
    "empty sequence",
    "equal division",
    "-input rank",
    "list of allowed values",
    "data type",
    "slice",
    "too deep",
    "was expected to be a",
    "1- or 2-d",
    "invalid index to scalar",
    "must be a scalar",
    "truth value of an array",
    "interpreted as an integer",
)
_WORDS_OF_NUMBERS = ("nan", "infinity", "singular", "positive definite", "converge", "by zero")
_MISSING_VALUES = ("NAType", "NaTType")
_KNOWN = ("tati_re", "keras", "tensorflow", "pandas", "matplotlib")


def front_door(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Makes a function of users say in one sentence which argument is of another kind.

    Args:
        function: Any function or method with annotations.

    Returns:
        The function, which raises an `InputError` in place of what an argument of another kind
        made it raise. A call with missing or unknown arguments stays a `TypeError`.
    """

    passed = (*_OWN, AssertionError) if _gives_verdicts(function) else _OWN

    @wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except passed:
            raise
        except Exception as error:  # other libraries raise what they like
            if (refusal := _refusal(function, args, kwargs, error)) is None:
                raise
            raise refusal from error

    @wraps(function)
    def iterated(*args: _P.args, **kwargs: _P.kwargs) -> Any:
        try:
            return (yield from cast(Any, function(*args, **kwargs)))
        except passed:
            raise
        except Exception as error:
            if (refusal := _refusal(function, args, kwargs, error)) is None:
                raise
            raise refusal from error

    door = cast(Callable[_P, _R], iterated if inspect.isgeneratorfunction(function) else called)
    vars(door)[_DOOR] = True
    return door


def _gives_verdicts(function: Callable) -> bool:
    """Whether an `AssertionError` is what a function has to say, as of the checks of user code."""
    package, _, module = function.__module__.partition(".")
    return package == _PACKAGE and module.partition(".")[0] == _ROOM_OF_CHECKS


def front_doors(kind: _C) -> _C:
    """Makes `front_door` of all public methods that a class defines, and of its constructor."""
    for name, member in list(vars(kind).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if inspect.isfunction(member):
            if member.__module__ == "typing":  # the constructor of a protocol
                continue
            setattr(kind, name, _once(member))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(kind, name, type(member)(_once(member.__func__)))
    return kind


class Doors:
    """Base of a contract: the public methods of all classes of this package that fulfil it are
    front doors. Those of users are not, so that errors of their code keep their traceback.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.partition(".")[0] == _PACKAGE:
            front_doors(cls)


def _once(function: Callable[..., Any]) -> Callable[..., Any]:
    return function if _DOOR in vars(function) else front_door(function)


def _refusal(
    function: Callable[..., Any], args: Any, kwargs: Any, error: Exception
) -> InputError | None:
    """What to raise for an error, None for the error itself; a `TypeError` stays one too, since
    callers may wait for that kind.
    """
    sentence = _sentence(function, args, kwargs, error)
    is_typed = sentence is not None and isinstance(error, TypeError)
    return InputTypeError(str(sentence)) if is_typed else sentence


def _sentence(
    function: Callable[..., Any], args: Any, kwargs: Any, error: Exception
) -> InputError | None:
    """The sentence on the first argument that is of another kind; None where all may be right."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        return None
    hints = _hints(function)
    found: dict[int, tuple[str, Any]] = {}
    given = []
    for name, value, hint in _arguments(bound, hints):
        fits = _fits(value, hint)
        if fits is False:
            expected = _in_words(hint)
            return InputError(f"{name} has the wrong type or value.", _written(value), expected)
        if name == "seed" and isinstance(value, numbers.Integral) and value < 0:
            return InputError("seed is out of range.", value, "a whole number, 0 or more")
        default = bound.signature.parameters[name].default
        if (doubt := _doubt(value, hint, fits, default, error)) is not None:
            found.setdefault(doubt, (name, value))
        given.append((name, value))
    reason = min(found, default=_EXTREME)
    if reason > _ODD and (refusal := _missing(given, error) or _unequal(given, error, least=2)):
        return refusal
    if found:
        name, value = found[reason]
        return InputError(f"{name} cannot be used ({error_text(error, 120)}).", _written(value))
    return _unequal(given, error, least=1)


def refuse_arguments(function: Callable[..., Any], **arguments: Any) -> None:
    """Refuses arguments that are not of their annotations, for a function that calls code of users
    whose errors it reports.

    Args:
        function: The function.
        **arguments: Some of its arguments, by name.

    Raises:
        InputError: An argument is of another kind.
    """
    hints = _hints(function)
    for name, value in arguments.items():
        hint = hints.get(name, Any)
        if _fits(value, hint) is False:
            problem = f"{name} has the wrong type or value."
            raise InputError(problem, _written(value), _in_words(hint))


_NAMED, _ODD, _OTHER, _ABSENT, _EXTREME = range(5)
"""Why an argument may be what is wrong, the strongest reason first."""


def _doubt(value: Any, hint: Any, fits: bool | None, default: Any, error: Exception) -> int | None:
    """The reason to think that an argument is what is wrong; None where there is none."""
    if _is_symbolic(value):
        return None
    is_needed = default is inspect.Parameter.empty
    if fits is None or _is_array(value):
        if _is_named(value, error):
            return _NAMED
        if isinstance(value, str):
            return _ODD if _is_odd(value) or _is_of_text(error) else None
        if value is None:
            return _ABSENT if is_needed else None
        if _is_odd(value):
            return _ODD
    if fits is None:
        listed = hint is not Any and _is_array(value)
        mixed = isinstance(value, (list, tuple)) and not all(map(_is_scalar, value[:_FEW]))
        unlike = (mixed or _is_scalar(value)) and _is_of_values(error)
        if listed or unlike or _is_pandas(error, value):
            return _OTHER
    if fits and _is_array(value) and not value.ndim and _is_of_values(error):
        return _OTHER
    return _EXTREME if value is not default and _is_extreme(value, error) else None


def _is_named(value: Any, error: Exception) -> bool:
    """Whether an error names the type of a value; that of a text or None if something is missing
    in it.
    """
    text = str(error)
    kind = type(value)
    full = f"{kind.__module__}.{kind.__qualname__}"
    if value is None or isinstance(value, str):
        return isinstance(error, AttributeError) and f"'{kind.__name__}'" in text
    if isinstance(value, (list, tuple, Mapping)):
        items = islice(value.values() if isinstance(value, Mapping) else value, _FEWER)
        if any(_is_named(item, error) for item in items if not _is_plain(item)):
            return True
    return (
        any(f"'{name}'" in text for name in (kind.__name__, full))
        or f"a {kind.__name__} " in text
        or (not _is_array(value) and f"got '{abbreviated(value, 200)}'" in text)
        or (kind.__module__ != "builtins" and f"<class '{full}'>" in text)
    )


def _is_plain(value: Any) -> bool:
    """Whether a value is of a type of the language itself."""
    return type(value).__module__ == "builtins"


def _is_of_values(error: Exception) -> bool:
    """Whether an error is one of values that code cannot compute with."""
    return isinstance(error, _OF_VALUES) or type(error).__module__.startswith("tensorflow.")


def _is_extreme(value: Any, error: Exception) -> bool:
    """Whether a number is below 0 or very large, or is 0 where that may be the reason."""
    if not _is_number(value):
        return False
    if value == 0:
        return isinstance(error, _OF_ZERO)
    return not 0 < value < _EXTREME_NUMBER


def _is_of_text(error: Exception) -> bool:
    """Whether an error is one of a text in place of numbers."""
    return any(words in str(error) for words in _WORDS_OF_TEXT)


def _missing(given: Sequence[tuple[str, Any]], error: Exception) -> InputError | None:
    """The sentence on a table or a mapping that lacks what was looked up in it."""
    key = None
    if isinstance(error, KeyError) and error.args:
        key = error.args[0]
    elif isinstance(error, AttributeError) and "'DataFrame'" in str(error):
        key = error.name
    if not isinstance(key, str):
        return None
    missing = abbreviated(key, 60, repr)
    for name, value in given:
        if _is_frame(value) and value.ndim == 2 and key not in value.columns:
            columns = ", ".join(map(str, value.columns))
            return InputError(f"{name} lacks the column {missing}.", columns or "no columns")
        if isinstance(value, Mapping) and key not in value:
            return InputError(f"{name} lacks {missing}.", _written(value))
    return None


def _unequal(given: Sequence[tuple[str, Any]], error: Exception, least: int) -> InputError | None:
    """The sentence on at least so many arrays whose shapes or numbers do not fit together, or not
    to the function.
    """
    arrays = [(name, value) for name, value in given if _has_shape(value) and value.ndim]
    text = str(error).lower()
    of_shapes = any(words in text for words in _WORDS_OF_SHAPES)
    of_numbers = any(words in text for words in _WORDS_OF_NUMBERS)
    if len(arrays) < least or not (of_shapes or of_numbers):
        return None
    names = " and ".join(name for name, _ in arrays)
    verb = "cannot be used"
    if of_shapes:
        verb = "has a shape that does not fit" if len(arrays) == 1 else "do not fit together"
    received = ", ".join(f"{name} of shape {tuple(value.shape)}" for name, value in arrays)
    return InputError(f"{names} {verb} ({error_text(error, 120)}).", received)


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
    if hint is str or _is_path(origin or hint):
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


def _is_path(hint: Any) -> bool:
    """Whether an annotation is that of a path; runs have one, but are none."""
    return hint is os.PathLike or (inspect.isclass(hint) and issubclass(hint, PurePath))


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


def _is_symbolic(value: Any) -> bool:
    """Whether a value is a tensor of a function that is being compiled: code made it, no user."""
    return type(value).__module__.startswith("tensorflow.") and "numpy" not in dir(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _has_shape(value: Any) -> bool:
    """Whether a value is an array, a frame, or a tensor with numbers."""
    return _is_array(value) or {"shape", "dtype"} <= {*dir(value)}


def _is_frame(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] == "pandas" and "shape" in dir(value)


def _is_pandas(error: Exception, value: Any) -> bool:
    """Whether a frame met code that takes arrays."""
    return _is_frame(value) and not isinstance(error, KeyError)


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


def _is_odd(value: Any, depth: int = _DEPTH) -> bool:
    """Whether a value is of a kind that few functions take: nothing in it, no number, one that is
    not finite, or lists in lists without end.
    """
    if not depth:
        return True
    if value is None or isinstance(value, bool):
        return False
    if isinstance(value, numbers.Integral):
        return abs(int(value)) >= _LARGEST
    if isinstance(value, numbers.Real):
        return not _is_finite(value)
    if isinstance(value, (str, os.PathLike)):
        return not _is_text(os.fspath(value))
    if _is_frame(value):
        return not value.size
    if type(value).__name__ in _MISSING_VALUES:
        return True
    if type(value).__module__.partition(".")[0] in _KNOWN:
        return False
    few = _FEW if depth == _DEPTH else _FEWER
    if isinstance(value, (list, tuple)):
        return not value or any(_is_odd(item, depth - 1) for item in value[:few])
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in islice(value, few)):
            return True
        values = islice(value.values(), few)
        return not value or any(_is_odd(item, depth - 1) for item in values)
    if type(value).__module__.partition(".")[0] == "numpy":
        return _is_odd_array(value)
    return True


def _is_odd_array(value: Any) -> bool:
    import numpy as np

    if isinstance(value, np.ma.MaskedArray):
        return True
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
