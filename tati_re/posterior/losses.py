"""Losses with one value per example, and the meaning of predictions under them."""

import math
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from tati_re.core.backend import keras, on_gpu, tf
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.given import users_code
from tati_re.likelihoods.contract import Likelihood
from tati_re.models.names import snake_case
from tati_re.posterior.predictive import HETEROSCEDASTIC, LEAST_LOG_STD

CLASSIFICATION = (
    "sparse_categorical_crossentropy",
    "categorical_crossentropy",
    "binary_crossentropy",
)
REGRESSION = ("gaussian", HETEROSCEDASTIC, "mean_squared_error", "mean_absolute_error")
MARGIN = ("hinge", "squared_hinge")
"""Losses of one output that is compared with the labels' sign."""
ONE_OUTPUT = ("binary_crossentropy", *MARGIN, *REGRESSION)
OF_LOGITS = (*CLASSIFICATION, "categorical_focal_crossentropy", "binary_focal_crossentropy")
"""Losses whose outputs are logits or probabilities."""
_SQUASHED = ("softmax", "sigmoid", "hard_sigmoid")
"""Last activations whose outputs lie between 0 and 1, and are no logits."""
_NO_PROBABILITIES = ("linear", "tanh", "log_softmax", "log_sigmoid")
"""Last activations whose outputs are below 0 too."""
_OF_PROBABILITIES = ("kl_divergence", "kld", "categorical_generalized_cross_entropy")
_SPARSE = ("keras.losses.SparseCategoricalCrossentropy", "categorical_generalized_cross_entropy")
_UNLIKE_LABELS = {*_SPARSE, "circle", "ctc"}
"""Losses of Keras whose outputs have another shape than the labels."""
_SHORT = {"mse": "mean_squared_error", "mae": "mean_absolute_error", "bce": "binary_crossentropy"}
IN_UNITS = (
    "poisson",
    "mean_squared_logarithmic_error",
    "mean_absolute_percentage_error",
    "msle",
    "mape",
)
OF_VALUES = (*IN_UNITS, "huber", "log_cosh", HETEROSCEDASTIC)
"""Losses under which whole numbers are values and not classes; of the first ones targets keep their
units.
"""


_MEANS = (
    "mean_absolute_error",
    "mean_squared_logarithmic_error",
    "mean_absolute_percentage_error",
    *("huber", "log_cosh", "poisson", "hinge", "squared_hinge"),
    *("binary_crossentropy", "binary_focal_crossentropy"),
)
"""Losses of Keras that are means over the outputs of an example, by the names of their functions."""


class Loss:
    """A loss with one value per example, of `CLASSIFICATION` or `REGRESSION`, or any other Keras
    loss as `function`. `from_logits` concerns the cross-entropies; `noise_std` is that of
    `gaussian` or "sampled". `likelihood`: N times the mean loss is a negative log likelihood,
    constants included; `words` tell what it assumes about the data, `note` what was changed of what
    was asked for.
    """

    note = ""
    _places = 1
    """Numbers of an example that its loss is a mean of, seen when the loss was traced."""

    def __init__(
        self, name: str, from_logits: bool = True, noise_std: float | str = 1.0, function=None
    ) -> None:
        self.name = name
        self.from_logits = from_logits
        self.samples_noise = noise_std == "sampled"
        self.noise_std = "sampled" if self.samples_noise else float(noise_std)
        self._function = function
        self.predicts_noise = name == HETEROSCEDASTIC
        self.likelihood = name in (*CLASSIFICATION, "gaussian", HETEROSCEDASTIC)
        spread = (
            "a standard deviation that is sampled"
            if self.samples_noise
            else f"standard deviation {noise_std:g}"
        )
        taken = f", the model's outputs taken as {'logits' if from_logits else 'probabilities'}"
        words = {
            HETEROSCEDASTIC: "Gaussian noise whose standard deviation the network predicts",
            "gaussian": f"Gaussian noise of {spread}",
            "mean_squared_error": "the mean squared error",
            "mean_absolute_error": "the mean absolute error",
        }
        self.words = words.get(name, name + taken if name in OF_LOGITS else name)

    def per_example(self, targets: tf.Tensor, outputs: tf.Tensor, log_noise=None) -> tf.Tensor:
        """Loss of each example, `(n,)`, from targets and outputs `(n, ...)`; `log_noise`: log σ of
        sampled noise.
        """
        if self.name == "sparse_categorical_crossentropy":
            values = self._sparse(targets, outputs)
        elif self.name == "categorical_crossentropy":
            values = -tf.reduce_sum(targets * self._log_probabilities(outputs), axis=-1)
        elif self.name == "binary_crossentropy":
            values = self._binary(targets, outputs)
        elif self.name == "gaussian":
            constant = 0.5 * math.log(2 * math.pi)
            if self.samples_noise:
                scaled = (targets - outputs) * tf.exp(-log_noise)
                values = tf.reduce_sum(tf.square(scaled) / 2 + (log_noise + constant), axis=-1)
            else:
                constant += math.log(self.noise_std)
                values = tf.reduce_sum(
                    tf.square((targets - outputs) / self.noise_std) / 2 + constant, axis=-1
                )
        elif self.predicts_noise:
            mean, log_std = tf.split(outputs, 2, axis=-1)
            log_std = tf.maximum(log_std, tf.constant(LEAST_LOG_STD, log_std.dtype))
            scaled = (targets - mean) * tf.exp(-log_std)
            values = tf.reduce_sum(
                tf.square(scaled) / 2 + (log_std + 0.5 * math.log(2 * math.pi)), axis=-1
            )
        elif self.name == "mean_squared_error":
            values = tf.reduce_mean(tf.square(targets - outputs), axis=-1)
        elif self.name == "mean_absolute_error":
            values = tf.reduce_mean(tf.abs(targets - outputs), axis=-1)
        else:
            values = self._called(targets, outputs)
        extra = list(range(1, len(values.shape)))
        self._places = math.prod(length or 1 for length in values.shape[1:])
        # The places of a sequence or an image are independent given the outputs: their log
        # densities add up.
        return (
            (tf.reduce_sum if self.likelihood else tf.reduce_mean)(values, axis=extra)
            if extra
            else values
        )

    def _called(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        """The values of a function of users or Keras: one an example, or one a position of outputs
        with several.
        """
        what = f"loss: {self.name}"
        with users_code(what, "a function of (labels, outputs) made of keras.ops or TensorFlow"):
            values = tf.convert_to_tensor(self._function(targets, outputs))
        one = outputs.shape[:1]
        each = outputs.shape[:-1]
        if (
            not values.dtype.is_floating
            or values.shape.rank is None
            or not any(values.shape.is_compatible_with(shape) for shape in (one, [*one, 1], each))
        ):
            received = f"{values.dtype.name} of shape {values.shape}"
            raise InputError(
                f"{what} must give one number an example.", received, f"floats of shape {one}"
            )
        return values

    def numbers_averaged(self, target_shape: tuple[int, ...]) -> int:
        """How many numbers of an example its loss is a mean of, 1 where it is a sum or one number.

        Args:
            target_shape: That of an example's labels.
        """
        if self.likelihood:
            return 1
        name = loss_name(self.name.removeprefix("keras.losses."))
        outputs = target_shape[-1] if target_shape and name in _MEANS else 1
        return self._places * int(outputs)

    def check(self, targets: tf.TensorSpec, outputs: tf.TensorSpec) -> None:
        """Traces a function of users once, so that a bad one is refused before any work starts."""
        if self._function is not None:
            tf.function(self.per_example, autograph=False).get_concrete_function(targets, outputs)

    def _log_probabilities(self, outputs: tf.Tensor) -> tf.Tensor:
        if self.from_logits:
            return tf.nn.log_softmax(outputs, axis=-1)
        tiny = tf.constant(np.finfo(outputs.dtype.as_numpy_dtype).tiny, outputs.dtype)
        return tf.math.log(
            tf.maximum(outputs / tf.reduce_sum(outputs, axis=-1, keepdims=True), tiny)
        )

    def _sparse(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        if self.from_logits and outputs.shape.rank == 2 and not on_gpu():
            # Its kernel for GPUs is not deterministic. What `tf.nn` makes of it then ends in a slow
            # scatter.
            return tf.raw_ops.SparseSoftmaxCrossEntropyWithLogits(features=outputs, labels=targets)[
                0
            ]
        chosen = tf.one_hot(targets, outputs.shape[-1], dtype=outputs.dtype)
        return -tf.reduce_sum(chosen * self._log_probabilities(outputs), axis=-1)

    def _binary(self, targets: tf.Tensor, outputs: tf.Tensor) -> tf.Tensor:
        if self.from_logits:
            values = tf.nn.sigmoid_cross_entropy_with_logits(targets, outputs)
        else:
            tiny = tf.constant(np.finfo(outputs.dtype.as_numpy_dtype).tiny, outputs.dtype)
            logs = [tf.math.log(tf.maximum(p, tiny)) for p in (outputs, 1 - outputs)]
            values = -targets * logs[0] - (1 - targets) * logs[1]
        return tf.reduce_sum(values, axis=-1)

    def accuracy(self, targets: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """1 where the prediction is right, `(n,)`, float32; `signs` compares signs, for labels -1
        and +1.
        """
        if self.name == "sparse_categorical_crossentropy":
            right = tf.equal(tf.argmax(outputs, axis=-1, output_type=targets.dtype), targets)
        elif self.name == "binary_crossentropy":
            right = tf.reduce_all(
                tf.equal(outputs > (0.0 if self.from_logits else 0.5), targets > 0.5), axis=-1
            )
        elif (self.name in MARGIN or signs) and outputs.shape[-1] == 1:
            right = tf.reduce_all(tf.equal(outputs > 0, targets > 0), axis=-1)
        elif outputs.shape[-1] == 1:
            right = tf.reduce_all(tf.equal(outputs > 0.5, targets > 0.5), axis=-1)
        else:
            right = tf.equal(tf.argmax(outputs, axis=-1), tf.argmax(targets, axis=-1))
        right = tf.cast(right, tf.float32)
        extra = list(range(1, len(right.shape)))
        return tf.reduce_mean(right, axis=extra) if extra else right

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Class probabilities of the model's outputs; regression outputs are returned as they
        are.
        """
        if self.name not in CLASSIFICATION or not self.from_logits:
            return outputs
        return (
            0.5 * (1 + np.tanh(0.5 * outputs))
            if self.name == "binary_crossentropy"
            else softmax(outputs, axis=-1)
        )

    def get_config(self) -> dict:
        return {"loss": self.name, "from_logits": self.from_logits, "noise_std": self.noise_std}


def make_loss(
    loss,
    num_classes: int | None,
    one_hot: bool,
    signs: bool,
    noise_std: float | str,
    from_logits,
    activation: str | None,
) -> Loss:
    """The loss that an option names, by name or as a Keras loss object; for `None` the
    cross-entropy for classes (rows of indicators with `one_hot`), the mean squared error for
    `signs` (-1 and +1, one output), `gaussian` for a regression (`num_classes` is `None`). With
    `from_logits` "auto" outputs are probabilities where the model's last `activation` (`None`:
    unknown) is a softmax or a sigmoid, else logits. With `True` they are so too, as in Keras, which
    takes the logits below the activation; `note` of the loss says so.
    """
    function = None
    name = loss_name(loss)
    is_object = isinstance(loss, keras.losses.Loss)
    refuse_ignored(loss)
    config = loss.get_config() if is_object else {}
    kind = type(loss).__name__
    no_logits = config.get("from_logits") is False
    instead = (
        f"from_logits=True, or loss={name!r}"
        if name in OF_LOGITS
        else "a softmax, or a sigmoid, at the end"
    )
    what = f"loss: outputs of a {activation} layer are not probabilities, as {f'{kind}()' if is_object else name} takes them."
    no_softmax = activation in _NO_PROBABILITIES and (no_logits or name in _OF_PROBABILITIES)
    received = "from_logits=False" if no_logits else f"a {activation} layer"
    refuse_if(no_softmax, what, received, instead)
    if is_object and "from_logits" in config:
        from_logits = bool(config["from_logits"])
    if loss is None:
        if num_classes is None:
            name = "gaussian"
        else:
            name = "mean_squared_error" if signs else "softmax_cross_entropy"
    if name == "softmax_cross_entropy":
        name = "categorical_crossentropy" if one_hot else "sparse_categorical_crossentropy"
    of_logits = name in OF_LOGITS or config.get("from_logits") is True
    asked = from_logits
    from_logits = _takes_logits(name, from_logits, activation, of_logits)
    if is_object:
        if name not in REGRESSION and (name not in CLASSIFICATION or config.get("label_smoothing")):
            of_keras = vars(keras.losses).get(kind) is type(loss)
            function = function_of_object(loss, from_logits)
            name = f"keras.losses.{kind}" if of_keras else name
    elif callable(loss) and not isinstance(loss, type):
        function = None if name in OF_LOGITS else loss
    elif not isinstance(loss, str | None):
        what = (
            "loss is a class, not an object of it."
            if isinstance(loss, type)
            else "loss: no loss can be made of it."
        )
        received = loss.__name__ if isinstance(loss, type) else kind
        raise InputError(what, received, "a name, a Keras loss, or a function of (labels, outputs)")
    if function is None and name not in (*CLASSIFICATION, *REGRESSION):
        try:
            function = function_of_keras(name, from_logits)
        except ValueError:
            what = f"loss: unknown name.{nearest(name, (*CLASSIFICATION, *REGRESSION))}"
            expected = f"{', '.join((*CLASSIFICATION, *REGRESSION))}, or a Keras loss"
            raise InputError(what, repr(loss), expected) from None
    what = "loss: poisson takes outputs for rates above 0, of which it takes logarithms."
    expected = "output_activation exponential or softplus, or such a last layer of the model"
    below = name in ("poisson", "keras.losses.Poisson") and activation in ("linear", "tanh")
    refuse_if(below, what, f"a last layer that is {activation}", expected)
    made = Loss(name, from_logits, noise_std, function)
    if of_logits and asked is True and not from_logits:
        made.note = (
            f"The model ends in a {activation}: its outputs are probabilities. from_logits=True is "
            "not applied, as it would apply the activation twice."
        )
    return made


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
    what = f"loss: outputs of a {activation} are not logits of classes, as {name} takes them."
    refuse_if(
        activation != "softmax" and not name.startswith("binary"),
        what,
        f"a last layer that is a {activation}",
        "a linear layer or a softmax, binary_crossentropy for labels of 0 and 1, or "
        "from_logits=False, which divides the outputs by their sum",
    )
    return False


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
        f"loss: {kind.__name__} takes logits, and the model ends in a softmax or sigmoid.",
        "from_logits=True",
        "from_logits=False, or a model without this activation",
    )
    return kind.from_config({**loss.get_config(), "from_logits": False}).call


def function_of_keras(name: str, from_logits: bool) -> Any:
    """The loss of Keras of this name as a function; `ValueError` where it has none."""
    function = keras.losses.get(name)
    function = getattr(function, "call", function)
    return partial(function, from_logits=from_logits) if name in OF_LOGITS else function


def refuse_ignored(loss: Any) -> None:
    """Refuses a Keras loss that leaves out a class, which scores of predictions would count."""
    left_out = (
        loss.get_config().get("ignore_class") if isinstance(loss, keras.losses.Loss) else None
    )
    expected = "sample_weights of 0, or for places a function of (labels, outputs) that leaves them out, num_classes = 0"
    refuse_if(left_out is not None, "loss: ignore_class is not taken.", left_out, expected)


def check_fit(
    loss: Loss, output_shape: tuple, target_shape: tuple, num_classes: int | None
) -> None:
    last = output_shape[-1] if output_shape else 1
    if loss.name == "sparse_categorical_crossentropy":
        if num_classes is None:
            places = "class numbers, of several places with num_classes"
            expected = (
                places if target_shape not in ((), (1,)) else "gaussian or another regression loss"
            )
            raise InputError("loss: the labels are not classes.", loss.name, expected)
        what = f"loss: {loss.name} needs one output a class."
        expected = f"at least {num_classes} outputs, or labels from 0 to {last - 1}"
        refuse_if(
            last < num_classes,
            what,
            f"labels to {num_classes - 1} and a model with {last} outputs",
            expected,
        )
        target_shape = (*target_shape, last)
    if loss.predicts_noise:
        if num_classes is not None or tuple(output_shape) != (
            *target_shape[:-1],
            2 * target_shape[-1],
        ):
            what = f"loss: {loss.name} needs two outputs for each target of a regression."
            expected = "the means, and behind them the logarithms of their standard deviations"
            raise InputError(
                what,
                f"{last} outputs" if num_classes is None else f"{num_classes} classes",
                expected,
            )
        return
    what = "loss: categorical_crossentropy needs one output and one column of labels a class."
    expected = (
        "sparse_categorical_crossentropy for class numbers, or binary_crossentropy for two classes"
    )
    refuse_if(loss.name == "categorical_crossentropy" and last == 1, what, "one column", expected)
    name = loss_name(loss.name.removeprefix("keras.losses."))
    alike = name in (*REGRESSION, *OF_VALUES, *vars(keras.losses)) and _UNLIKE_LABELS.isdisjoint(
        (name, loss.name)
    )
    if alike and tuple(output_shape) != tuple(target_shape):
        received = (
            f"outputs of shape {tuple(output_shape)} for labels of shape {tuple(target_shape)}"
        )
        what = f"loss: the model's outputs do not fit the labels under {loss.name}."
        one = ", for -1 and 1 one output" if num_classes == 2 else ""
        raise InputError(what, received, f"equal shapes{one}")


def loss_name(loss: Any) -> str:
    """The name of a loss: of Keras' own that of its function, however spelled; of a function of
    users, or an object of a class of theirs, its own, with "own_" where another loss is called
    so.
    """
    if isinstance(loss, Likelihood):
        return loss.name
    if isinstance(loss, str):
        name = _SHORT.get(snake_case(loss), snake_case(loss))
        return name if name in vars(keras.losses) else loss
    is_object = isinstance(loss, keras.losses.Loss)
    kind = type(loss) if is_object else loss
    name = getattr(kind, "__name__", "loss")
    own = vars(keras.losses).get(name) is not kind
    name = snake_case(name) if is_object else name
    return f"own_{name}" if own and loss_name(name) in (*REGRESSION, *vars(keras.losses)) else name


class WeightedLoss:
    """A loss (`Loss`) times the weight of each example, which comes with the labels; all else is
    the loss' own. It gets labels back in the type and the shape of `labels`, which are as the loss
    takes them.
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
        """Labels, `(n, ...)`, and behind them the weights, `(n,)`, as one array `(n, labels of an
        example + 1)`. The type is that of the parameters; it holds class numbers up to 2^24
        exactly.
        """
        return np.concatenate([labels.reshape(len(labels), -1), weights[:, None]], axis=1).astype(
            dtype.as_numpy_dtype
        )

    def _parts(self, packed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        labels = tf.cast(packed[..., :-1], self._type)
        shape = tf.concat([tf.shape(packed)[:-1], tf.constant(self._shape, tf.int32)], 0)
        return tf.reshape(labels, shape), packed[..., -1]

    def per_example(self, packed: tf.Tensor, outputs: tf.Tensor, *noise: Any) -> tf.Tensor:
        labels, weights = self._parts(packed)
        losses = self.loss.per_example(labels, outputs, *noise)
        return tf.cast(weights, losses.dtype) * losses

    def accuracy(self, packed: tf.Tensor, outputs: tf.Tensor, signs: bool) -> tf.Tensor:
        """As that of the loss: every example counts once."""
        return self.loss.accuracy(self._parts(packed)[0], outputs, signs)
