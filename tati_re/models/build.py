"""Networks built from options, and models loaded from files."""

import inspect
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.backend import keras
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.files.regular import check_regular
from tati_re.core.files.structured import json_of
from tati_re.models.claims import check_model_file, limited_weights
from tati_re.options.user_code import called, imported_object


def build_network(
    input_shape: Sequence[int],
    num_outputs: int,
    hidden: Sequence[int] = (),
    activation: str = "relu",
    output_activation: str = "linear",
    dtype: str = "float32",
    seed: int = 0,
    use_bias: bool = True,
) -> Any:
    """A fully connected `keras.Sequential` with layers named `dense`, `dense_1`, ...

    Examples of more than one dimension are flattened first. The weights are uniform after Glorot
    and Bengio (2010); biases are 0.

    Args:
        input_shape: Shape of one example.
        num_outputs: Units of the last layer, at least 1.
        hidden: Units of the hidden layers, at least 1 each. Default: (), a linear model.
        activation: Keras' name of the activation of the hidden layers. Default: "relu".
        output_activation: Keras' name of the last activation. Default: "linear".
        dtype: "float32" or "float64". Default: "float32".
        seed: Seed of the weights. Default: 0.
        use_bias: Whether the layers have biases. Default: True.

    Raises:
        InputError: An activation is unknown, or a layer has no units.
    """
    for name, value in (("activation", activation), ("output_activation", output_activation)):
        try:
            keras.activations.get(value)
        except (ValueError, TypeError):
            known = activation_names()
            problem = f"{name} is not known.{nearest(value, known)}"
            raise InputError(problem, value, f"one of {', '.join(known)}") from None
    units = [*hidden, num_outputs]
    problem = "hidden contains a layer without units."
    refuse_if(any(u < 1 for u in hidden), problem, list(hidden), "at least 1 unit in each layer")
    refuse_if(num_outputs < 1, "num_outputs is too small.", num_outputs, "at least 1")
    layers = [keras.Input(tuple(input_shape), dtype=dtype)]
    if len(input_shape) != 1:
        layers.append(keras.layers.Flatten(dtype=dtype, name="flatten"))
    for i, count in enumerate(units):
        last = i == len(units) - 1
        # Two layers of one shape must not start with the same weights.
        layer_seed = int(np.random.SeedSequence([seed, i]).generate_state(1, np.uint32)[0] >> 1)
        how = {
            "use_bias": use_bias,
            "kernel_initializer": keras.initializers.GlorotUniform(seed=layer_seed),
            "dtype": dtype,
        }
        name = f"dense_{i}" if i else "dense"
        layers.append(
            keras.layers.Dense(count, output_activation if last else activation, name=name, **how)
        )
    return keras.Sequential(layers, name="network")


def activation_names() -> list[str]:
    return sorted(
        n
        for n in dir(keras.activations)
        if n[0].islower() and n not in ("get", "serialize", "deserialize")
    )


def load_model(path: str | Path) -> Any:
    path = Path(path).expanduser()
    if os.path.isdir(path) or path.suffix in (".h5", ".hdf5"):
        kind = (
            "a folder, possibly a SavedModel"
            if os.path.isdir(path)
            else "an HDF5 file, the Keras 2 format"
        )
        expected = "the model saved by Keras 3 as model.save('name.keras')"
        raise InputError(f"model is {kind}, not a .keras file.", path, expected)
    check_regular(path, "model")
    if not os.path.isfile(path):
        others = [p.name for p in path.parent.glob("*.keras")] if path.parent.is_dir() else []
        raise InputError(
            f"model: the file does not exist.{nearest(path.name, others)}",
            path,
            "a .keras file",
        )
    if path.suffix != ".keras" or not zipfile.is_zipfile(path):
        raise InputError(
            "model is not a .keras file.", path, "a file written by model.save('name.keras')"
        )
    try:
        most = check_model_file(path)
        _refuse_foreign(member(path, "config.json"))
        with limited_weights(most):
            return keras.saving.load_model(path, compile=False, safe_mode=True)
    except Exception as error:
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        if "Lambda" in text and "safe_mode" in text:
            problem = (
                "model has a Lambda layer, which contains code; files with code are not loaded."
            )
            raise InputError(
                problem, path, "a model without Lambda layers, or the model as an object in Python"
            ) from None
        if "Could not locate class" in text or "Could not locate function" in text:
            problem = "model has layers or functions that Keras does not know."
            expected = "keras.saving.register_keras_serializable on the class, or the model as an object in Python"
            raise InputError(problem, path, expected) from None
        if (version := _written_by(path)).startswith("2."):
            problem = f"model was written by Keras {version}, and Keras {keras.__version__} cannot read its layers."
            expected = "the same model built and saved by Keras 3, with the same weights"
            raise InputError(problem, path, expected) from None
        reason = text.strip().split("\n")[0][:200].rstrip(".")
        problem = f"model cannot be loaded: {reason}."
        raise InputError(problem, path, "a file written by model.save('name.keras')") from error


def _refuse_foreign(config: Any) -> None:
    """Refuses a model whose layers are of a module that is not of Keras, and were not registered:
    the oldest Keras that we take imports any module that a file names, and calls what it finds
    there.
    """
    if isinstance(config, list):
        for part in config:
            _refuse_foreign(part)
    if not isinstance(config, dict):
        return
    module = config.get("module")
    name = config.get("registered_name") or config.get("class_name")
    if isinstance(module, str) and keras.saving.get_registered_object(name) is None:
        parts = module.split(".")
        if parts[0] not in _LAYERS_OF or {"utils", "config", "saving", "datasets"} & {*parts}:
            raise ValueError(f"Could not locate class {name} of {module}")
    for part in config.values():
        _refuse_foreign(part)


_LAYERS_OF = ("keras", "builtins", "keras_hub", "keras_cv", "keras_nlp")


def member(path: Path, name: str) -> Any:
    """The content of a JSON file in a .keras file.

    Args:
        path: The .keras file.
        name: Name of the JSON file in it, such as "config.json".
    """
    with zipfile.ZipFile(path) as archive:
        return json_of(archive.read(name))


def _written_by(path: Path) -> str:
    """The Keras version recorded in a .keras file; empty if there is none."""
    try:
        return str(member(path, "metadata.json").get("keras_version", ""))
    except Exception:
        return ""


FORM = "my_net.py:build or my_module:build"


def imported_model(name: Any, options: Any, input_shape: tuple[int, ...], num_outputs: int) -> Any:
    """The Keras model that a function, a class or an object of users gives.

    A function or class is called with `input_shape`, `num_outputs` and the options, as far as its
    signature names them. Keras' random numbers start from the option `seed`.

    Args:
        name: A module or file, a colon, and a function, class of models or model in it; or a
            function.
        options: Options of the run.
        input_shape: Shape of one example.
        num_outputs: Outputs of a network for these data and this loss.

    Raises:
        InputError: The result is not a Keras model, or `hidden` is set and the function does not
            take it.
    """

    def builds(value: Any) -> bool:
        return inspect.isfunction(value) or isinstance(value, keras.Model)

    kind = "a function that returns a keras.Model"
    made = imported_object("model", name, FORM, builds, kind) if isinstance(name, str) else name
    name = name if isinstance(name, str) else "the function"
    takes_hidden = inspect.isroutine(made) and "hidden" in inspect.signature(made).parameters
    if options.hidden and not takes_hidden:
        raise InputError(
            f"model: {name} does not take hidden.", f"hidden = {options.hidden}", "one of the two"
        )
    if callable(made) and not isinstance(made, keras.Model):
        keras.utils.set_random_seed(options.seed % 2**32)
        made = called(
            "model",
            made,
            options,
            {"input_shape": tuple(input_shape), "num_outputs": int(num_outputs)},
        )
    if not isinstance(made, keras.Model):
        expected = "a function that returns one"
        raise InputError(
            f"model: {name} does not return a Keras model.", type(made).__name__, expected
        )
    return made
