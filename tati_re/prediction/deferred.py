"""Results that are computed when they are first read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")
_K = TypeVar("_K", bound=type)


class Deferred:
    """A value of a result that is computed when it is first read.

    Args:
        compute: Returns the value.
    """

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute


class _DeferredField:
    """A field of a class that may hold a `Deferred`, which reading replaces by its value.

    Args:
        name: Name of the field.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            raise AttributeError(self._name)
        if self._name not in vars(instance):
            raise AttributeError(self._name)
        return _value(instance, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        vars(instance)[self._name] = value


def deferrable(*names: str) -> Callable[[_K], _K]:
    """Makes a class decorator for dataclasses some of whose fields may hold a `Deferred`.

    Pickles and copies hold the values.

    Args:
        *names: The fields.
    """

    def changed_class(kind: _K) -> _K:
        for name in names:
            setattr(kind, name, _DeferredField(name))
        setattr(kind, "__getstate__", _state_with_values)  # noqa: B010
        return kind

    return changed_class


def _value(instance: Any, name: str) -> Any:
    """A field of an instance, computed if it was deferred."""
    value = vars(instance)[name]
    if isinstance(value, Deferred):
        value = value.compute()
        vars(instance)[name] = value
    return value


def _state_with_values(instance: Any) -> dict[str, Any]:
    """The fields of an instance, all of them computed."""
    return {name: _value(instance, name) for name in vars(instance)}


def changed(result: _T, **fields: Any) -> _T:
    """A copy of a frozen dataclass with other fields, as `dataclasses.replace` makes it, in which
    deferred values stay deferred.

    Args:
        result: An instance without `__post_init__`.
        **fields: New values.
    """
    made = object.__new__(type(result))
    # What the copy reads first is computed once for both.
    vars(made).update({name: _shared(result, name) for name in vars(result)})
    vars(made).update(fields)
    return made


def _shared(result: Any, name: str) -> Any:
    """A field as it is; one that is deferred as the reading of it from the first instance."""
    value = vars(result)[name]
    if not isinstance(value, Deferred):
        return value
    return Deferred(lambda: _value(result, name))
