"""Losses of Keras and functions of users, which have no density."""

from __future__ import annotations

from functools import partial
from typing import Any

from tati_re.core.backend import keras, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.user_input import users_code
from tati_re.likelihoods.categorical import loss_with_outputs
from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.registry import LOSSES, named_loss
from tati_re.likelihoods.without_density import WithoutDensity
from tati_re.models.names import snake_case

_MARGIN = ("hinge", "squared_hinge")
"""Losses of one output that is compared with the labels' sign."""
_OF_LOGITS = ("categorical_focal_crossentropy", "binary_focal_crossentropy")
"""Losses whose outputs are logits or probabilities."""
_OF_PROBABILITIES = ("kl_divergence", "kld", "categorical_generalized_cross_entropy")
_SPARSE = ("keras.losses.SparseCategoricalCrossentropy", "categorical_generalized_cross_entropy")
_UNLIKE_LABELS = {*_SPARSE, "circle", "ctc"}
"""Losses whose outputs have another shape than the labels."""
_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "bce": "binary_crossentropy"}
_IN_UNITS = (
    "poisson",
    "mean_squared_logarithmic_error",
    "mean_absolute_percentage_error",
    "msle",
    "mape",
)
"""Losses that are no functions of differences: targets keep their units."""
_OF_VALUES = (*_IN_UNITS, "huber", "log_cosh")
"""Losses under which whole numbers are values and not classes."""
_MEANS = (
    "mean_squared_logarithmic_error",
    "mean_absolute_percentage_error",
    *("huber", "log_cosh", "poisson", "hinge", "squared_hinge"),
    "binary_focal_crossentropy",
)
"""Losses that are means over the outputs of an example."""
_PREFIX = "keras.losses."


class KerasLoss(WithoutDensity):
    """A loss of Keras, or a function of users, with one number an example or place.

    Args:
        name: As `loss_name` gives it, or `keras.losses.Name` of an object.
        function: Of labels and outputs, in TensorFlow; None to ask what the loss is like.
        from_logits: Whether outputs are logits, where the loss has a choice. Default: True.
    """

    def __init__(self, name: str, function: Any = None, from_logits: bool = True) -> None:
        super().__init__(name)
        self.from_logits = from_logits
        self._function = function
        self._keras_name = loss_name(name.removeprefix(_PREFIX))
        self.own_units = name in _IN_UNITS
        self.numbers_are_values = name in _OF_VALUES
        self.one_output = name in _MARGIN
        self.takes_logits = name in _OF_LOGITS
        self.takes_probabilities = name in _OF_PROBABILITIES
        self.takes_rates = name in ("poisson", "keras.losses.Poisson")
        self.of_users = function is not None

    def loss(self, targets: tf.Tensor, outputs: tf.Tensor, extra: Any = None) -> tf.Tensor:
        subject = f"loss: {self.name}"
        with users_code(
            subject, "a function of (labels, outputs) written in keras.ops or TensorFlow"
        ):
            values = tf.convert_to_tensor(self._function(targets, outputs))
        rows = outputs.shape[:1]
        shapes = (rows, [*rows, 1], outputs.shape[:-1])
        fits = values.shape.rank is not None
        fits = fits and any(values.shape.is_compatible_with(shape) for shape in shapes)
        if not fits or not values.dtype.is_floating:
            received = f"{values.dtype.name} of shape {values.shape}"
            problem = f"{subject} must return one number per example."
            raise InputError(problem, received, f"floats of shape {rows}")
        return values

    def right(self, targets: Any, outputs: Any, signs: bool) -> Any:
        return super().right(targets, outputs, signs or self.name in _MARGIN)

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        known = self._keras_name in (*_OF_VALUES, *vars(keras.losses))
        if known and _UNLIKE_LABELS.isdisjoint((self._keras_name, self.name)):
            super().check_fit(outputs, targets, num_classes)

    def numbers_averaged(self, columns: int) -> int:
        means = (*_MEANS, "mean_absolute_error", "binary_crossentropy")
        return columns if self._keras_name in means else 1

    def describe(self) -> str:
        return loss_with_outputs(self.name, self.from_logits) if self.takes_logits else self.name


def traits_of(loss: Any) -> Any:
    """What a loss is like, given by its name or as an object: a class of this room, or an object.

    Args:
        loss: A name as `loss_name` gives it, or a likelihood.
    """
    if isinstance(loss, Objective):
        return loss
    return named_loss(loss) or KerasLoss(str(loss))


def loss_name(loss: Any) -> str:
    """The name of a loss.

    Of Keras' own it is that of its function, however spelled; of a function of users, or an object
    of a class of theirs, its own, with "own_" where another loss is called so.
    """
    if isinstance(loss, Objective):
        return loss.name
    if isinstance(loss, str):
        name = _SHORT.get(snake_case(loss), snake_case(loss))
        return name if name in vars(keras.losses) else loss
    is_object = isinstance(loss, keras.losses.Loss)
    kind = type(loss) if is_object else loss
    name = getattr(kind, "__name__", "loss")
    is_users = vars(keras.losses).get(name) is not kind
    name = snake_case(name) if is_object else name
    clashes = is_users and loss_name(name) in (*LOSSES, *vars(keras.losses))
    return f"own_{name}" if clashes else name


def function_of_object(loss: Any, from_logits: bool) -> Any:
    """The function of labels and outputs of a Keras loss object, which takes probabilities unless
    `from_logits`.

    Args:
        loss: An object of `keras.losses` or of a class of users.
        from_logits: Whether outputs are logits, as `make_loss` found.

    Raises:
        InputError: The object takes logits only, and the outputs are probabilities.
    """
    if from_logits or loss.get_config().get("from_logits") is not True:
        return loss.call
    kind = type(loss)
    refuse_if(
        vars(keras.losses).get(kind.__name__) is not kind,
        f"loss: {kind.__name__} expects logits, but the model ends in a softmax or sigmoid.",
        "from_logits=True",
        "from_logits=False, or a model without this activation",
    )
    return kind.from_config({**loss.get_config(), "from_logits": False}).call


def function_of_keras(name: str, from_logits: bool) -> Any:
    """The loss of Keras of this name as a function of labels and outputs.

    Args:
        name: Keras' name of the loss.
        from_logits: Whether outputs are logits; it counts only for losses with this choice.

    Raises:
        ValueError: Keras has no loss of this name.
    """
    function = keras.losses.get(name)
    function = getattr(function, "call", function)
    return partial(function, from_logits=from_logits) if name in _OF_LOGITS else function


def refuse_ignored(loss: Any) -> None:
    """Refuses a Keras loss that leaves out a class, which scores of predictions would count."""
    left_out = (
        loss.get_config().get("ignore_class") if isinstance(loss, keras.losses.Loss) else None
    )
    expected = (
        "sample_weights of 0; or for positions a function of (labels, outputs) that leaves "
        "them out, with num_classes = 0"
    )
    refuse_if(left_out is not None, "loss: ignore_class is not supported.", left_out, expected)
