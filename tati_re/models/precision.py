"""A Keras model rebuilt in float64 (or float32)."""

import re
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import Parameter, signature
from typing import Any

import numpy as np

from tati_re.core.backend import keras, layers_of, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.models.inspect import input_dtype_of, input_shape_of

_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


def in_precision(model: Any, dtype: str) -> Any:
    """The model in one precision: itself where it has this one, else rebuilt from its config with every type policy
    rewritten, weights and states copied; for given weights of another type it casts them back to its own."""
    if not _other_precision(model, dtype):
        return model
    hint = f'a model with get_config, or dtype="{model.dtype_policy.variable_dtype}"'
    with own_code(model) as custom:
        try:
            config = keras.saving.serialize_keras_object(model)
        except (NotImplementedError, TypeError, ValueError):
            what = f"The model has no config, so it cannot be rebuilt in {dtype}."
            raise InputError(what, type(model).__name__, hint) from None
    config.pop("compile_config", None)
    config = _rewritten(config, dtype, custom)
    try:
        with default_precision(dtype), warnings.catch_warnings():
            # Keras tries to build a model of one's own on float32 inputs, and warns where that fails.
            warnings.simplefilter("ignore", UserWarning)
            # safe_mode guards against code in files; this config comes from an object of this process.
            rebuilt = keras.saving.deserialize_keras_object(config, custom_objects=custom, safe_mode=False)
            if model.built and len(rebuilt.variables) != len(model.variables):
                shape = [length or 1 for length in input_shape_of(model)[1:]]
                rebuilt(tf.zeros((1, *shape), input_dtype_of(model) or dtype), training=False)
    except Exception as error:
        # Keras wraps the cause into its advice; the cause comes last.
        reason = re.split(r"encountered[\w ]*:", str(error))[-1].strip().strip("'").split("\n")[0][:200]
        what = f"The model cannot be rebuilt in {dtype} from its config: {reason}"
        raise InputError(what, type(model).__name__, hint) from error
    wrong = _other_precision(rebuilt, dtype)
    refuse_if(wrong, f"The model cannot be rebuilt in {dtype}.", f"layer {wrong} keeps its own type", hint)
    _copy_state(model, rebuilt, dtype, hint)
    return rebuilt


def _other_precision(model: Any, dtype: str) -> str | None:
    """Returns the name of a layer that holds or computes in another floating-point type, or None."""
    for layer in [model, *layers_of(model)]:
        # Inputs, and chains and graphs of layers, pass values on as they are, whatever their own policy.
        passing = isinstance(layer, (keras.Sequential, keras.layers.InputLayer)) or type(layer).__name__ == "Functional"
        types = [*(v.dtype for v in layer.weights), *([] if passing else [layer.compute_dtype or dtype])]
        if any("float" in kind and kind != dtype for kind in types):
            return layer.name
    return None


@contextmanager
def default_precision(dtype: str) -> Iterator[None]:
    """Sets the default precision while a user's model makes its inner layers."""
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx(dtype)
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_floatx(floatx)
        keras.config.set_dtype_policy(policy)


def _rewritten(config: Any, dtype: str, custom: dict[str, Any]) -> Any:
    if isinstance(config, dict):
        name = config.get("class_name")
        if str(name).endswith(("DTypePolicy", "DTypePolicyMap")):
            return {"module": "keras", "class_name": "DTypePolicy", "config": {"name": dtype}, "registered_name": None}
        if name in custom and isinstance(config.get("config"), dict):
            config = {**config, "config": _accepted(custom[name], config["config"])}
        return {k: dtype if k == "dtype" and v in _FLOATS else _rewritten(v, dtype, custom) for k, v in config.items()}
    if isinstance(config, (list, tuple)):
        return type(config)(_rewritten(value, dtype, custom) for value in config)
    return config


def _accepted(kind: Any, config: dict[str, Any]) -> dict[str, Any]:
    """Drops the entries that Keras adds to a config and a user's class does not accept."""
    if not isinstance(kind, type) or "from_config" in vars(kind):
        return config
    taken = signature(kind.__init__).parameters.values()
    if any(p.kind is Parameter.VAR_KEYWORD for p in taken):
        return config
    names = {p.name for p in taken}
    return {k: v for k, v in config.items() if k in names or k not in ("name", "trainable", "dtype")}


def accepting(kind: Any) -> Any:
    """A class of users that `keras` can make from a config, whatever Keras adds to it."""
    added = {"name": "", "trainable": True, "dtype": None}
    if _accepted(kind, added) == added:
        return kind
    made = classmethod(lambda cls, config: kind.from_config.__func__(cls, _accepted(kind, config)))
    return type(kind.__name__, (kind,), {"from_config": made})


@contextmanager
def own_code(model: Any) -> Iterator[dict[str, Any]]:
    """The classes and functions of users in a model, by the names under which Keras looks for them. Meanwhile lambdas,
    which Keras would save without their closure, and those that share a name have names of their own."""
    layers = [model, *layers_of(model)]
    wrapped = dir(keras.layers.Layer)  # by Keras, as `build` is
    values = [value for layer in layers for name, value in vars(layer).items() if name not in wrapped]
    values = [v for v in values if not (getattr(v, "__module__", None) or "keras.").startswith(("keras.", "builtins"))]
    own: list[Any] = [type(layer) for layer in layers if not type(layer).__module__.startswith("keras.")]
    own += [v for v in values if isinstance(v, types.FunctionType)]
    own += [type(v) for v in values if not isinstance(v, types.FunctionType) and hasattr(v, "get_config")]
    names = {thing: thing.__name__ for thing in own}
    shared = [name for name in names.values() if name == "<lambda>" or [*names.values()].count(name) > 1]
    for i, (thing, name) in enumerate(names.items()):
        if name in shared:
            thing.__name__ = f"own_{i}"
    try:
        yield {thing.__name__: thing for thing in names} | {keras.saving.get_registered_name(v): v for v in names}
    finally:
        for thing, name in names.items():
            if name in shared:
                thing.__name__ = name


def _copy_state(source: Any, target: Any, dtype: str, hint: str) -> None:
    pairs = list(zip([source, *layers_of(source)], [target, *layers_of(target)], strict=False))
    same = len(layers_of(source)) == len(layers_of(target)) and len(source.variables) == len(target.variables)
    if not same or any(a.shape != b.shape for a, b in zip(source.variables, target.variables, strict=True)):
        raise InputError(f"The model rebuilt in {dtype} from its config is another one.", type(source).__name__, hint)
    for old, new in pairs:
        # A layer's own saving and loading, because some derive more than variables from it (Normalization).
        store: dict[str, Any] = {}
        old.save_own_variables(store)
        if store:
            new.load_own_variables({name: np.asarray(value) for name, value in store.items()})
    for old, new in pairs:
        if new.trainable != old.trainable:
            new.trainable = old.trainable
    weights = {id(v) for v in source.weights}
    for old, new in zip(source.variables, target.variables, strict=True):
        if id(old) not in weights:
            new.assign(old.numpy())
