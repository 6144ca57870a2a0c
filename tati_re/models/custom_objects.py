"""Classes and functions of users in a model: how Keras finds them again, here and in another
process.
"""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

from tati_re.core.backend import keras, layers_of


def accepted(kind: Any, config: dict[str, Any]) -> dict[str, Any]:
    """A config without the entries that Keras adds and a user's class does not accept.

    Args:
        kind: The class of users. With `from_config`, or if it is not a class, the config is
            unchanged.
        config: Arguments of its constructor by name.
    """
    if not isinstance(kind, type) or "from_config" in vars(kind):
        return config
    parameters = signature(kind.__init__).parameters.values()
    if any(p.kind is Parameter.VAR_KEYWORD for p in parameters):
        return config
    names = {p.name for p in parameters}
    return {
        k: v for k, v in config.items() if k in names or k not in ("name", "trainable", "dtype")
    }


def accepting(kind: Any) -> Any:
    """A class of users that `keras` can make from a config, whatever Keras adds to it."""
    added = {"name": "", "trainable": True, "dtype": None}
    if accepted(kind, added) == added:
        return kind
    made = classmethod(lambda cls, config: kind.from_config.__func__(cls, accepted(kind, config)))
    return type(kind.__name__, (kind,), {"from_config": made})


@contextmanager
def custom_objects(model: Any) -> Iterator[dict[str, Any]]:
    """The classes and functions of users in a model, by the names under which Keras looks for them.
    Meanwhile lambdas, which Keras would save without their closure, and those that share a name
    have names of their own.
    """
    layers = [model, *layers_of(model)]
    wrapped = dir(keras.layers.Layer)  # by Keras, as `build` is
    values = [
        value for layer in layers for name, value in vars(layer).items() if name not in wrapped
    ]
    values = [
        v
        for v in values
        if not (getattr(v, "__module__", None) or "keras.").startswith(("keras.", "builtins"))
    ]
    users_objects: list[Any] = [
        type(layer) for layer in layers if not type(layer).__module__.startswith("keras.")
    ]
    users_objects += [v for v in values if isinstance(v, types.FunctionType)]
    users_objects += [
        type(v)
        for v in values
        if not isinstance(v, types.FunctionType) and hasattr(v, "get_config")
    ]
    names = {thing: thing.__name__ for thing in users_objects}
    shared = [
        name for name in names.values() if name == "<lambda>" or [*names.values()].count(name) > 1
    ]
    for i, (thing, name) in enumerate(names.items()):
        if name in shared:
            thing.__name__ = f"own_{i}"
    try:
        yield {thing.__name__: thing for thing in names} | {
            keras.saving.get_registered_name(v): v for v in names
        }
    finally:
        for thing, name in names.items():
            if name in shared:
                thing.__name__ = name
