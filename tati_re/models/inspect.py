"""What a model is made of, and what follows for its evaluation."""

from __future__ import annotations

from tati_re.errors import InputError
from tati_re.models.backend import keras

_VECTORIZES = (
    "InputLayer",
    "Dense",
    "Flatten",
    "Reshape",
    "Activation",
    "ReLU",
    "LeakyReLU",
    "ELU",
    "PReLU",
    "Softmax",
    "Dropout",
    "Rescaling",
    "Normalization",
    "BatchNormalization",
    "LayerNormalization",
    "Add",
    "Subtract",
    "Multiply",
    "Average",
    "Concatenate",
    "Identity",
    "Permute",
    "RepeatVector",
)
_TRAINING_STATE = ("BatchNormalization", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "GaussianNoise", "GaussianDropout", "AlphaDropout")


def all_layers(model) -> list:
    """The model's layers and the layers inside them, without the containers."""
    found = []
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if not isinstance(layer, keras.Model):
            found.append(layer)
    return found


def vectorizable(model) -> bool:
    """Whether TensorFlow turns every layer into one operation for all walkers."""
    return bool(model.layers) and all(type(layer).__name__ in _VECTORIZES for layer in all_layers(model))


def xla_safe(model) -> bool:
    """Whether XLA compiles the model: recurrent layers loop in a way that it refuses."""
    return not any(isinstance(layer, keras.layers.RNN | keras.layers.Bidirectional) for layer in all_layers(model))


def has_training_state(model) -> bool:
    """Whether the model computes something else in training: batch normalisation, dropout."""
    return any(type(layer).__name__ in _TRAINING_STATE for layer in all_layers(model))


def output_activation_of(model) -> str | None:
    """Name of the activation that the model ends in, or `None` where it cannot be told."""
    layers = [layer for layer in getattr(model, "layers", []) if type(layer).__name__ not in ("InputLayer", "Flatten", "Reshape")]
    if not layers:
        return None
    last = layers[-1]
    if isinstance(last, keras.Model):
        return output_activation_of(last)
    if isinstance(last, keras.layers.Softmax):
        return "softmax"
    activation = getattr(last, "activation", None)
    return getattr(activation, "__name__", None)


def refuse_what_changes_the_law(model) -> None:
    """Raises InputError for what the potential cannot express.

    Raises:
        InputError: The model has no weights yet, none that train, a constraint, or an activity regulariser.
    """
    if not model.built:
        raise InputError("model: it has no weights yet.", expected="a built model: give it an Input layer, or call it once on data")
    if not model.trainable_variables:
        raise InputError("model: it has no trainable parameters.", expected="at least one trainable weight")
    for variable in model.trainable_variables:
        if getattr(variable, "constraint", None) is not None:
            raise InputError(
                f"model: {variable.path} has a constraint, which no potential expresses.",
                received=type(variable.constraint).__name__,
                expected="no constraint; a prior can confine the parameters",
            )
    for layer in all_layers(model):
        if getattr(layer, "activity_regularizer", None) is not None or isinstance(layer, keras.layers.ActivityRegularization):
            raise InputError(f"model: {layer.name} has an activity regulariser.", expected="weight regularisers or a prior")
