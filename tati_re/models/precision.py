"""Rebuilding a model in another precision."""

from __future__ import annotations

from tati_re.errors import InputError
from tati_re.models.backend import keras


def in_precision(model, dtype: str):
    """Returns the model with all computations in `dtype`.

    A float32 model that is given float64 weights computes in float32, so it is rebuilt from its config with every dtype
    policy rewritten, and the weights are copied.

    Args:
        model: A built Keras model.
        dtype: "float32" or "float64".

    Raises:
        InputError: The model has no config to be rebuilt from.
    """
    if all(variable.dtype == dtype for variable in model.trainable_variables) and model.compute_dtype == dtype:
        return model
    try:
        config = keras.saving.serialize_keras_object(model)
        rebuilt = keras.saving.deserialize_keras_object(
            _rewritten(config, dtype), custom_objects={type(model).__name__: type(model)}
        )
        if not rebuilt.built:
            rebuilt.build(model.input_shape)
        rebuilt.set_weights([value.astype(dtype) if value.dtype.kind == "f" else value for value in model.get_weights()])
    except (NotImplementedError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"dtype: {type(model).__name__} cannot be rebuilt in {dtype}.",
            expected="a model with a complete get_config, or one made in this precision",
        ) from None
    return rebuilt


def _rewritten(config, dtype: str):
    if isinstance(config, dict):
        return {
            key: dtype
            if key in ("dtype", "name") and value in ("float16", "bfloat16", "float32", "float64", "mixed_float16", "mixed_bfloat16")
            else _rewritten(value, dtype)
            for key, value in config.items()
        }
    if isinstance(config, list | tuple):
        return type(config)(_rewritten(value, dtype) for value in config)
    return config
