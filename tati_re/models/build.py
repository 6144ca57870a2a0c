"""Networks from options, and models from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tati_re.errors import InputError, nearest
from tati_re.models.backend import keras


def build_network(
    input_shape: Sequence[int],
    num_outputs: int,
    hidden: Sequence[int] = (),
    activation: str = "relu",
    output_activation: str = "linear",
    dtype: str = "float32",
    seed: int = 0,
):
    """A network of dense layers, Glorot-uniform weights from `seed`, biases 0.

    Args:
        input_shape: Of one example; more than one axis is flattened first.
        num_outputs: Units of the last layer.
        hidden: Units of each hidden layer.
        activation: Of the hidden layers, any Keras name.
        output_activation: Of the last layer.
        dtype: "float32" or "float64".
        seed: Of the weights.

    Raises:
        InputError: A hidden layer without units, or an activation that Keras does not know.
    """
    if any(units < 1 for units in hidden):
        raise InputError("hidden: a layer without units.", received=list(hidden), expected="numbers of at least 1")
    for name, value in (("activation", activation), ("output_activation", output_activation)):
        try:
            keras.activations.get(value)
        except ValueError:
            names = [n for n in vars(keras.activations) if n.islower() and not n.startswith("_")]
            raise InputError(f"{name}: Keras has none of this name.{nearest(value, names)}", received=repr(value)) from None
    layers = [keras.layers.Input(tuple(input_shape), dtype=dtype)]
    if len(input_shape) != 1:
        layers.append(keras.layers.Flatten(dtype=dtype))
    units = [(number, activation) for number in hidden] + [(num_outputs, output_activation)]
    for k, (number, chosen) in enumerate(units):
        initializer = keras.initializers.GlorotUniform(seed=seed * 1009 + k)
        layers.append(keras.layers.Dense(number, activation=chosen, kernel_initializer=initializer, dtype=dtype))
    return keras.Sequential(layers)


def load_model(path: str):
    """Reads a `.keras` file in safe mode: no code inside it is run.

    Raises:
        InputError: No such file, no `.keras` file, or one with code (a Lambda layer).
    """
    file = Path(path)
    if not file.exists():
        around = [str(p.name) for p in file.parent.glob("*.keras")] if file.parent.exists() else []
        raise InputError(f"model: there is no such file.{nearest(file.name, around)}", received=str(path), expected="a .keras file")
    if file.suffix != ".keras":
        raise InputError("model: only Keras 3's own format is read.", received=str(path), expected="a file that ends in .keras")
    try:
        return keras.saving.load_model(file, compile=False, safe_mode=True)
    except Exception as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if "lambda" in str(error).lower():
            reason = "it holds a Lambda layer, that is, code, which is never run from a file"
        raise InputError(f"model: the file cannot be read: {reason}", received=str(path), expected="a .keras file that Keras wrote") from None
