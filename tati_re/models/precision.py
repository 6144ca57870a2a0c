"""A Keras model rebuilt in float64 (or float32)."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tati_re.core.backend import keras, layers_of, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.models.custom_objects import accepted, custom_objects
from tati_re.models.inspect import input_dtype_of, input_shape_of

_FLOATS = ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")


def in_precision(model: Any, dtype: str) -> Any:
    """The model in one precision: unchanged where it has this one, else rebuilt from its config.

    Every type policy is rewritten; weights and states are copied. A model that is called with
    weights of another type casts them back to its type.

    Args:
        model: A Keras model.
        dtype: "float32" or "float64".

    Raises:
        InputError: The model cannot be rebuilt.
    """
    return rebuilt_in(model, dtype) if _other_precision(model, dtype) else model


def rebuilt_in(model: Any, dtype: str) -> Any:
    """A copy of the model in one precision, made from its config, with its weights and states.

    Args:
        model: A Keras model.
        dtype: "float32" or "float64".

    Raises:
        InputError: The model has no config from which it can be made again.
    """
    hint = f'a model with get_config, or dtype="{model.dtype_policy.variable_dtype}"'
    with custom_objects(model) as custom:
        try:
            config = keras.saving.serialize_keras_object(model)
        except (NotImplementedError, TypeError, ValueError):
            problem = f"The model has no config, so it cannot be rebuilt in {dtype}."
            raise InputError(problem, type(model).__name__, hint) from None
    config.pop("compile_config", None)
    config = _rewritten(config, dtype, custom)
    try:
        with default_precision(dtype), warnings.catch_warnings():
            # Keras tries to build a model of one's own on float32 inputs, and warns where that
            # fails.
            warnings.simplefilter("ignore", UserWarning)
            # safe_mode guards against code in files; this config comes from an object of this
            # process.
            rebuilt = keras.saving.deserialize_keras_object(
                config, custom_objects=custom, safe_mode=False
            )
            if model.built and len(rebuilt.variables) != len(model.variables):
                shape = [length or 1 for length in input_shape_of(model)[1:]]
                rebuilt(tf.zeros((1, *shape), input_dtype_of(model) or dtype), training=False)
    except Exception as error:
        # Keras wraps the cause into its advice; the cause comes last.
        reason = (
            re.split(r"encountered[\w ]*:", str(error))[-1].strip().strip("'").split("\n")[0][:200]
        )
        problem = f"The model cannot be rebuilt in {dtype} from its config: {reason}"
        raise InputError(problem, type(model).__name__, hint) from error
    wrong = _other_precision(rebuilt, dtype)
    refuse_if(
        wrong, f"The model cannot be rebuilt in {dtype}.", f"layer {wrong} keeps its own type", hint
    )
    _copy_state(model, rebuilt, dtype, hint)
    return rebuilt


def _other_precision(model: Any, dtype: str) -> str | None:
    """Returns the name of a layer that holds or computes in another floating-point type, or
    None.
    """
    for layer in [model, *layers_of(model)]:
        # Inputs, and chains and graphs of layers, pass values on as they are, whatever their own
        # policy.
        passing = (
            isinstance(layer, (keras.Sequential, keras.layers.InputLayer))
            or type(layer).__name__ == "Functional"
        )
        types = [
            *(v.dtype for v in layer.weights),
            *([] if passing else [layer.compute_dtype or dtype]),
        ]
        if any("float" in kind and kind != dtype for kind in types):
            return layer.name
    return None


@contextmanager
def default_precision(dtype: str) -> Iterator[None]:
    """Sets the default precision while a user's model makes its inner layers."""
    policy = keras.config.dtype_policy()
    floatx = keras.config.floatx()
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
            return {
                "module": "keras",
                "class_name": "DTypePolicy",
                "config": {"name": dtype},
                "registered_name": None,
            }
        if name in custom and isinstance(config.get("config"), dict):
            config = {**config, "config": accepted(custom[name], config["config"])}
        return {
            k: dtype if k == "dtype" and v in _FLOATS else _rewritten(v, dtype, custom)
            for k, v in config.items()
        }
    if isinstance(config, (list, tuple)):
        return type(config)(_rewritten(value, dtype, custom) for value in config)
    return config


def _copy_state(source: Any, target: Any, dtype: str, hint: str) -> None:
    pairs = list(zip([source, *layers_of(source)], [target, *layers_of(target)], strict=False))
    same = len(layers_of(source)) == len(layers_of(target)) and len(source.variables) == len(
        target.variables
    )
    if not same or any(
        a.shape != b.shape for a, b in zip(source.variables, target.variables, strict=True)
    ):
        raise InputError(
            f"The model rebuilt in {dtype} from its config differs from the original.",
            type(source).__name__,
            hint,
        )
    for old, new in pairs:
        # A layer's own saving and loading, because some derive more than variables from it
        # (Normalization).
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
