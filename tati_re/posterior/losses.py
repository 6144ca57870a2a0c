"""The loss of a run: an objective as the potential counts it, and which one an option names."""

from __future__ import annotations

import math
from operator import attrgetter
from typing import Any

import numpy as np

from tati_re.core.backend import keras, tf
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.likelihoods.contract import Likelihood, Objective
from tati_re.likelihoods.keras_losses import (
    KerasLoss,
    function_of_keras,
    function_of_object,
    loss_name,
    refuse_ignored,
    traits_of,
)
from tati_re.likelihoods.objectives import named_objective
from tati_re.likelihoods.registry import LOSSES

_SQUASHED = ("softmax", "sigmoid", "hard_sigmoid")
"""Last activations whose outputs lie between 0 and 1, and are no logits."""
_RECORDED = ("target_names", "quantile_level", "least_std")
"""Settings of losses without constants that the manifest says where they have a value."""
_NO_PROBABILITIES = ("linear", "tanh", "log_softmax", "log_sigmoid")
"""Last activations whose outputs are below 0 too."""


class Loss:
    """An objective (`tati_re.likelihoods.contract.Objective`) with one number for each example.

    Args:
        objective: Of a likelihood with constants of its own, fitted to the training targets.
        from_logits: Whether outputs were taken as logits; the manifest says so of any loss.
            Default: True.
        noise_std: As the manifest says it of any loss. Default: 1.

    Attributes:
        likelihood: Whether N times the mean loss is a negative log likelihood, constants included.
        words: What it assumes about the data.
        note: What was changed of what was asked for.
        num_extra: How many parameters of its own the objective has.
        samples_noise: Whether the noise is among them.
        predicts_noise: Whether the second half of the outputs is the logarithm of a deviation.
        has_density: Whether targets have a density, and not probabilities.
    """

    note = ""
    _places = 1
    """Numbers of an example that its loss is a mean of, seen when the loss was traced."""

    def __init__(
        self, objective: Objective, from_logits: bool = True, noise_std: float | str = 1.0
    ) -> None:
        self.objective = objective
        self.name = objective.name
        self.from_logits = from_logits
        self.noise_std = noise_std if isinstance(noise_std, str) else float(noise_std)
        self.likelihood = objective.is_normalized
        extras = objective.extra_parameters
        self.num_extra = len(extras)
        self.samples_noise = any(extra.law == "noise" for extra in extras)
        self.predicts_noise = objective.predicts_noise
        self.has_density = objective.has_density
        self.words = objective.describe()

    def per_example(self, targets: tf.Tensor, outputs: tf.Tensor, extra: Any = None) -> tf.Tensor:
        """The loss of each example, shape (n,).

        Args:
            targets: Labels as `Objective.stored` gives them, shape (n, ...).
            outputs: Outputs of the network, shape (n, ...).
            extra: Values of the objective's own parameters. Default: it has none.
        """
        values = self.objective.loss(targets, outputs, extra)
        axes = list(range(1, len(values.shape)))
        self._places = math.prod(length or 1 for length in values.shape[1:])
        if not axes:
            return values
        # The places of a sequence or an image are independent given the outputs: their log
        # densities add up.
        combine = tf.reduce_sum if self.likelihood else tf.reduce_mean
        return combine(values, axis=axes)

    def numbers_averaged(self, target_shape: tuple[int, ...]) -> int:
        """How many numbers of an example its loss is a mean of, 1 where it is a sum or one number.

        Args:
            target_shape: That of an example's labels.
        """
        if self.likelihood:
            return 1
        columns = int(target_shape[-1]) if target_shape else 1
        return self._places * self.objective.numbers_averaged(columns)

    def check(self, targets: tf.TensorSpec, outputs: tf.TensorSpec) -> None:
        """Traces a user's loss once, which refuses an invalid one before any work starts.

        Args:
            targets: Shape and type of the labels of a batch, as `Objective.stored` gives them.
            outputs: Shape and type of the outputs of the network for them.

        Raises:
            InputError: The loss is not one number per example.
        """
        if not self.objective.of_users:
            return

        def traced(targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
            extra = [tf.zeros((), outputs.dtype) for _ in range(self.num_extra)]
            return self.per_example(targets, outputs, extra or None)

        tf.function(traced, autograph=False).get_concrete_function(targets, outputs)

    def accuracy(self, targets: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """1 where the prediction is right, the share of right places of several, shape (n,).

        Args:
            targets: Labels as `per_example` takes them.
            outputs: Outputs of the network.
            signs: Whether labels are -1 and 1.
        """
        right = tf.cast(self.objective.right(targets, outputs, signs), tf.float32)
        axes = list(range(1, len(right.shape)))
        return tf.reduce_mean(right, axis=axes) if axes else right

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Class probabilities of the model's outputs; outputs of values as they are."""
        return self.objective.probabilities(outputs)

    def get_config(self) -> dict[str, Any]:
        """What the manifest of a run says of its loss."""
        config = {"loss": self.name, "from_logits": self.from_logits, "noise_std": self.noise_std}
        if isinstance(self.objective, Likelihood) and self.objective.own_units:
            return config | {"likelihood": self.objective.get_config()}
        for key in self.objective.settings:
            if key in _RECORDED and (value := attrgetter(key)(self.objective)):
                config[key] = value
        return config


def make_loss(
    loss: Any,
    num_classes: int | None,
    one_hot: bool,
    signs: bool,
    noise_std: float | str,
    from_logits: bool | str,
    activation: str | None,
    **settings: Any,
) -> Loss:
    """The loss that an option names.

    Args:
        loss: A name, a Keras loss object, or a function of labels and outputs. None: the
            cross-entropy for classes, the mean squared error for `signs`, `gaussian` for a
            regression.
        num_classes: Classes of the data; None for a regression.
        one_hot: Whether labels are rows of indicators.
        signs: Whether labels are -1 and 1, in one column.
        noise_std: Standard deviation of `gaussian`, or "sampled".
        from_logits: Whether outputs are logits. "auto": unless the model's last activation is a
            softmax or a sigmoid. With True they are probabilities then too, as in Keras, which
            takes the logits below the activation; `note` of the loss says so.
        activation: The model's last one; None where it is unknown.
        settings: Further settings that losses have, such as `quantile_level`.

    Raises:
        InputError: A loss that is unknown, or does not fit the activation.
    """
    refuse_ignored(loss)
    name = loss_name(loss)
    is_object = isinstance(loss, keras.losses.Loss)
    config = loss.get_config() if is_object else {}
    _refuse_no_probabilities(loss, config, activation)

    if is_object and "from_logits" in config:
        from_logits = bool(config["from_logits"])
    if loss is None:
        name = _default_loss(num_classes, signs)
    if name == "softmax_cross_entropy":
        name = "categorical_crossentropy" if one_hot else "sparse_categorical_crossentropy"
    of_logits = traits_of(name).takes_logits or config.get("from_logits") is True
    requested = from_logits
    from_logits = _takes_logits(name, from_logits, activation, of_logits)

    settings |= {"from_logits": from_logits, "noise_std": noise_std}
    objective = _objective(loss, name, config, settings)
    problem = "loss: poisson takes the logarithm of the outputs, so they must be rates above 0."
    expected = "output_activation exponential or softplus, or such a last layer of the model"
    below = objective.takes_rates and activation in ("linear", "tanh")
    refuse_if(below, problem, f"a last layer that is {activation}", expected)

    made = Loss(objective, from_logits, noise_std)
    if of_logits and requested is True and not from_logits:
        made.note = (
            f"The model ends in a {activation}: its outputs are probabilities. "
            "from_logits=True is ignored, as it would apply the activation twice."
        )
    return made


def _default_loss(num_classes: int | None, signs: bool) -> str:
    """The name of the loss where none is given."""
    if num_classes is None:
        return "gaussian"
    return "mean_squared_error" if signs else "softmax_cross_entropy"


def _refuse_no_probabilities(loss: Any, config: dict[str, Any], activation: str | None) -> None:
    """Refuses a loss of probabilities of a model whose last layer gives none."""
    if activation not in _NO_PROBABILITIES:
        return
    name = loss_name(loss)
    traits = traits_of(name)
    no_logits = config.get("from_logits") is False
    instead = "a softmax, or a sigmoid, at the end"
    if traits.takes_logits:
        instead = f"from_logits=True, or loss={name!r}"
    loss_label = name
    if isinstance(loss, keras.losses.Loss):
        loss_label = f"{type(loss).__name__}()"
    problem = f"loss: outputs of a {activation} layer are not the probabilities that {loss_label} expects."
    received = "from_logits=False" if no_logits else f"a {activation} layer"
    refuse_if(no_logits or traits.takes_probabilities, problem, received, instead)


def _objective(loss: Any, name: str, config: dict[str, Any], settings: dict[str, Any]) -> Objective:
    """What is summed, for a loss as it was given, its name and its settings.

    Raises:
        InputError: Nothing that a loss can be made of.
    """
    from_logits = bool(settings["from_logits"])
    if isinstance(loss, keras.losses.Loss):
        known = traits_of(name)
        plain = name in LOSSES and not (known.takes_logits and config.get("label_smoothing"))
        if plain:
            return named_objective(name, settings)
        kind = type(loss)
        of_keras = vars(keras.losses).get(kind.__name__) is kind
        function = function_of_object(loss, from_logits)
        return KerasLoss(
            f"keras.losses.{kind.__name__}" if of_keras else name, function, from_logits
        )

    is_function = callable(loss) and not isinstance(loss, type)
    if is_function and not (name in LOSSES or traits_of(name).takes_logits):
        return KerasLoss(name, loss, from_logits)
    if not is_function and not isinstance(loss, str | None):
        problem = "loss: this is not a loss."
        received = type(loss).__name__
        if isinstance(loss, type):
            problem = "loss is a class; an object is needed."
            received = loss.__name__
        raise InputError(
            problem, received, "a name, a Keras loss, or a function of (labels, outputs)"
        )

    if name in LOSSES:
        return named_objective(name, settings)
    try:
        return KerasLoss(name, function_of_keras(name, from_logits), from_logits)
    except ValueError:
        problem = f"loss: unknown name.{nearest(name, LOSSES)}"
        raise InputError(problem, repr(loss), f"{', '.join(LOSSES)}, or a Keras loss") from None


def _takes_logits(
    name: str, from_logits: bool | str, activation: str | None, of_logits: bool
) -> bool:
    """Whether a loss takes the model's outputs as logits.

    Args:
        name: Of the loss.
        from_logits: As it was asked for, or "auto".
        activation: The last one of the model; None where it is unknown.
        of_logits: Whether the loss has a choice between logits and probabilities.

    Raises:
        InputError: Numbers between 0 and 1 each, as logits of classes.
    """
    if not of_logits or from_logits is False or activation not in _SQUASHED:
        return activation != "softmax" if from_logits == "auto" else bool(from_logits)
    problem = f"loss: outputs of a {activation} are not the class logits that {name} expects."
    refuse_if(
        activation != "softmax" and not name.startswith("binary"),
        problem,
        f"a last layer with a {activation}",
        "a linear layer or a softmax, binary_crossentropy for labels 0 and 1, or "
        "from_logits=False, which divides the outputs by their sum",
    )
    return False


class WeightedLoss:
    """A loss times the weight of each example, which comes with the labels.

    All else is as the loss has it.

    Args:
        loss: The loss (`Loss`).
        labels: Labels as the loss takes them, (N, ...). The loss gets labels back in this type and
            shape.
    """

    def __init__(self, loss: Any, labels: np.ndarray) -> None:
        self.loss = loss
        self._type = tf.as_dtype(labels.dtype)
        self._shape = labels.shape[1:]

    def __getattr__(self, name: str) -> Any:
        if name == "loss":
            raise AttributeError(name)
        return getattr(self.loss, name)

    @staticmethod
    def packed(labels: np.ndarray, weights: np.ndarray, dtype: tf.DType) -> np.ndarray:
        """Labels and behind them the weights as one array, (n, labels of an example + 1).

        Args:
            labels: Labels, (n, ...).
            weights: Weights of the examples, (n,).
            dtype: Type of the parameters; it holds class numbers up to 2^24 exactly.

        Returns:
            Numbers of this type, or of the labels' own if that is float64.
        """
        kind = np.float64 if labels.dtype == np.float64 else dtype.as_numpy_dtype
        columns = [labels.reshape(len(labels), -1), weights[:, None]]
        return np.concatenate(columns, axis=1).astype(kind)

    def _parts(self, packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.cast(packed[..., :-1], self._type)
        shape = tf.concat([tf.shape(packed)[:-1], tf.constant(self._shape, tf.int32)], 0)
        return tf.reshape(labels, shape), packed[..., -1]

    def per_example(self, packed: tf.Tensor, outputs: tf.Tensor, *noise: Any) -> tf.Tensor:
        """The loss of each example times its weight, (n,).

        Args:
            packed: Labels and weights, as `packed` gives them, (n, labels of an example + 1).
            outputs: Outputs of the network, (n, ...).
            *noise: Values of the extra parameters of the objective, a list, where it has some.
        """
        labels, weights = self._parts(packed)
        losses = self.loss.per_example(labels, outputs, *noise)
        return tf.cast(weights, losses.dtype) * losses

    def accuracy(self, packed: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """Right predictions as `Loss.accuracy` gives them, (n,): every example counts once.

        Args:
            packed: Labels and weights, as `packed` gives them, (n, labels of an example + 1).
            outputs: Outputs of the network, (n, ...).
            signs: Whether labels are -1 and 1.
        """
        return self.loss.accuracy(self._parts(packed)[0], outputs, signs)
