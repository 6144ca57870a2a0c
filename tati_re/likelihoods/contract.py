"""What a likelihood is: the law of a target given the outputs of the network."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import Doors
from tati_re.likelihoods.extra_parameters import ExtraParameter
from tati_re.likelihoods.laws import Law
from tati_re.likelihoods.outputs import by_class, refuse_targets, tensorflow

VALUES, CLASSES, LABELS = "regression", "classification", "multi_label"
"""What outputs predict: numbers, one of several classes, or several labels of 0 and 1 at once."""


class Objective(Doors, ABC):
    """What a run sums over its examples, and what the outputs of the network predict under it.

    `Likelihood` is an objective with a density, and most are. Others, such as the hinge loss, say
    which outputs are better but not how targets are distributed.

    The labels come as `stored` gives them, and the outputs as the network has them. Along the last
    axis are the numbers of one place; sequences and images have axes of places before it.

    Attributes:
        name: What users type, as in `loss="student_t"`.
        kind: `VALUES` or `CLASSES`.
        outputs_per_target: Numbers that the network gives for one target, at least 1.
        is_normalized: Whether exp(-loss) is a density or a probability with its constant.
        own_units: Whether targets keep the units of the data, and the objective has constants of
            its own. Else the data room may standardize them.
        scale_free: Whether targets may be standardized unasked: their scale is a parameter, or
            predicted.
        predicts_noise: Whether the second half of the outputs is the logarithm of a deviation.
        has_law: Whether `law` says how a new target is distributed.
        takes_logits: Whether outputs may be logits or probabilities (`from_logits`).
        one_output: Whether two classes, or any numbers of classes, have one output.
        one_output_a_class: Whether labels are class numbers, and each class has an output.
        numbers_are_values: Whether whole numbers are values and not classes.
        takes_labels: Whether outputs may be several labels of 0 and 1 at once.
        takes_probabilities: Whether outputs have to be probabilities.
        takes_rates: Whether outputs have to be above 0.
        predicts_shares: Whether values that it predicts are shares of classes.
        of_users: Whether its code may be one of users, which is tried before a run starts.
        settings: Names of the constructor's parameters, which `get_config` gives back.
    """

    name: str = ""
    kind: ClassVar[str] = VALUES
    outputs_per_target: int = 1
    is_normalized: bool = False
    own_units: bool = False
    scale_free: bool = False
    predicts_noise: bool = False
    has_law: bool = False
    takes_logits: bool = False
    one_output: bool = False
    one_output_a_class: bool = False
    takes_labels: bool = False
    numbers_are_values: bool = False
    takes_probabilities: bool = False
    takes_rates: bool = False
    predicts_shares: bool = False
    of_users: bool = False
    settings: ClassVar[tuple[str, ...]] = ()
    places: int = 1
    """Places of an example, of whose outputs NumPy gets all in a row."""

    @property
    def extra_parameters(self) -> tuple[ExtraParameter, ...]:
        """What is sampled besides the network's parameters. Default: nothing."""
        return ()

    @property
    def is_computed(self) -> bool:
        """Whether `losses` is known."""
        return True

    @property
    def includes_rounding(self) -> bool:
        """Whether the targets are rounded, and a predicted spread includes that."""
        return False

    @abstractmethod
    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        """The loss of each place of each example, in TensorFlow.

        Args:
            targets: Labels as `stored` gives them, shape (n, ..., targets).
            outputs: Outputs of the network, shape (n, ..., outputs).
            extra: The parameters of `extra_parameters`, a number each.

        Returns:
            Losses, shape (n, ...).
        """

    @abstractmethod
    def describe(self) -> str:
        """The objective in a few words, as they stand in the first lines of a run."""

    @abstractmethod
    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        """The loss of each example under each draw, in NumPy.

        Args:
            outputs: Outputs of the network, shape (..., n, outputs), float64.
            targets: Labels, shape (n, ...), float64.
            extra: The parameters of `extra_parameters` of each draw, shape (draws, 1, numbers).

        Returns:
            Losses, summed over the places of an example, shape (..., n).
        """

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        """Labels as `loss` takes them.

        Args:
            targets: Labels, shape (n,) or (n, ..., columns).
            dtype: The type of the parameters.

        Returns:
            Numbers of this type, shape (n, ..., columns).
        """
        with np.errstate(over="ignore"):  # an infinite potential is said
            values: np.ndarray = np.asarray(targets, dtype)
        return values[:, None] if values.ndim == 1 else values

    def without_signs(self, targets: np.ndarray) -> np.ndarray:
        """Labels -1 and 1 as `losses` takes them."""
        return targets

    def has_accuracy(self, num_classes: int | None, one_column: bool, multi_label: bool) -> bool:
        """Whether predictions can be right or wrong.

        Args:
            num_classes: Classes of the data; None for a regression.
            one_column: Whether an example has one label.
            multi_label: Whether labels are several of 0 and 1 at once.
        """
        del multi_label
        return num_classes is not None and (num_classes <= 2 or not one_column)

    def right(self, targets: Any, outputs: Any, signs: bool) -> Any:
        """Whether each place is predicted right, in TensorFlow, shape (n, ...).

        Args:
            targets: Labels as `stored` gives them.
            outputs: Outputs of the network.
            signs: Whether labels are -1 and 1.
        """
        tf = tensorflow()
        if outputs.shape[-1] > 1:
            return tf.equal(tf.argmax(outputs, axis=-1), tf.argmax(targets, axis=-1))
        threshold = 0.0 if signs else 0.5
        return tf.reduce_all(tf.equal(outputs > threshold, targets > threshold), axis=-1)

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        """Refuses a model whose outputs do not fit the labels.

        Args:
            outputs: Shape of the outputs of one example.
            targets: Shape of the labels of one example.
            num_classes: Classes of the data; None for a regression.

        Raises:
            InputError: Another shape.
        """
        if tuple(outputs) == tuple(targets):
            return
        received = f"outputs of shape {tuple(outputs)} for labels of shape {tuple(targets)}"
        problem = f"loss: the model's outputs do not match the labels under {self.name}."
        for_two_classes = ", for -1 and 1 one output" if num_classes == 2 else ""
        raise InputError(problem, received, f"equal shapes{for_two_classes}")

    def left_out(self, columns: int) -> float:
        """The constant of the negative log density over so many outputs that `loss` leaves out."""
        del columns
        return 0.0

    def without_constant(self, columns: int) -> str:
        """A sentence on what the loss over so many outputs stands for; empty where nothing is said."""
        del columns
        return ""

    def numbers_averaged(self, columns: int) -> int:
        """How many numbers of one place with so many labels the loss is a mean of."""
        del columns
        return 1

    @property
    def has_density(self) -> bool:
        """Whether targets have a density, and not probabilities of classes or whole numbers."""
        return self.kind == VALUES

    def predicted(self, outputs: np.ndarray) -> np.ndarray:
        """What outputs predict, in NumPy: values, or shares of classes; (..., columns)."""
        return np.asarray(outputs, np.float64)

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Probabilities of classes, in NumPy; outputs of values as they are."""
        return outputs


class Likelihood(Objective):
    """The distribution of a target given the network outputs, independent for each target.

    A subclass implements two methods. `log_prob`, in TensorFlow, is the log density that is
    sampled. `law`, in NumPy, is the same distribution with mean, quantiles and draws for
    predictions. Training, sampling, predictions, intervals, PIT, leave-one-out, evidence and the
    report follow from these two.

    The outputs of an example come in `outputs_per_target` groups with one number per target;
    `parts` splits them. They are relative to constants that `fitted` computes from the training
    targets, such as their mean. Outputs of order 1 therefore describe targets in any unit.

    Attributes (in addition to those of `Objective`):
        target_columns: Number of label columns per target; 2 if a column says whether the other is
        censored.
        discrete: Whether targets are integers, with probabilities in place of a density.
        constants: Names of the attributes that `fitted` sets; they are part of the configuration.
        later_settings: Settings that configurations of older versions lack, with the values they
        had.
    """

    is_normalized = True
    own_units = True
    has_law = True
    numbers_are_values = True
    of_users = True
    target_columns: ClassVar[int] = 1
    discrete: ClassVar[bool] = False
    constants: ClassVar[tuple[str, ...]] = ()
    later_settings: ClassVar[Mapping[str, Any]] = {}

    @property
    def has_density(self) -> bool:
        """Whether targets have a density, and not probabilities of classes or whole numbers."""
        return super().has_density and not self.discrete

    @abstractmethod
    def log_prob(self, targets: Any, outputs: Any) -> Any:
        """Returns the log density of each example, in TensorFlow.

        Args:
            targets: Labels in the units of the data, shape (n, targets * target_columns), with the
                number type of the outputs.
            outputs: Outputs of the network, shape (n, targets * outputs_per_target).
            extra: The parameters of `extra_parameters`, a number each. Only a likelihood that has
                some takes this third argument.

        Returns:
            Log densities summed over the targets of an example, constants included, shape (n,).
        """

    @abstractmethod
    def law(self, outputs: np.ndarray) -> Law:
        """Returns the distribution of the targets in the units of the data, in NumPy.

        Args:
            outputs: Outputs of the network, shape (draws, n, targets * outputs_per_target),
                float64.
            extra: The parameters of `extra_parameters` of each draw, shape (draws, 1, numbers).
                Only a likelihood that has some takes this second argument.

        Returns:
            The distributions of all targets, of shape (draws, n, targets).
        """

    def check(self, targets: np.ndarray) -> None:
        """Refuses labels that this distribution cannot produce.

        The default implementation refuses numbers that are not finite.

        Args:
            targets: Labels of the data, shape (n, columns), float64.

        Raises:
            InputError: Labels lie outside the support; the message gives the first of them.
        """
        refuse_targets(~np.isfinite(targets), targets, self.name, "finite numbers")

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        """Returns a copy with constants computed from the training targets.

        Args:
            targets: Labels, shape (n, columns), float64.
            weights: Weights of the examples, shape (n,). Default: None, equal weights.

        Returns:
            A copy with `constants` set; the original is unchanged.
        """
        del weights
        self.check(targets)
        return copy.copy(self)

    def with_constants_of(self, config: Mapping[str, Any]) -> Self:
        """Returns a copy with the constants of another fit of this likelihood.

        Outputs of a network keep their meaning where their data are replaced.

        Args:
            config: The result of `get_config`; another likelihood's changes nothing.

        Returns:
            A copy with these constants; the original is unchanged.
        """
        changed = copy.copy(self)
        if config.get("name") != self.name:
            return changed
        for key in self.constants:
            if key in config:
                setattr(changed, key, np.asarray(config[key], np.float64))
        return changed

    def num_outputs(self, columns: int) -> int:
        """Returns the number of network outputs that labels need.

        Args:
            columns: Number of columns of the labels.

        Returns:
            The number of outputs.
        """
        return self.num_targets(columns) * self.outputs_per_target

    def num_targets(self, columns: int) -> int:
        """Returns the number of targets in labels.

        Args:
            columns: Number of columns of the labels.

        Returns:
            The number of targets.

        Raises:
            InputError: The columns cannot be grouped into targets.
        """
        problem = (
            f"loss: {self.name} needs {self.target_columns} columns of labels for each target."
        )
        refuse_if(
            columns % self.target_columns,
            problem,
            f"{columns} columns",
            f"a multiple of {self.target_columns}",
        )
        return columns // self.target_columns

    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        log_prob: Any = self.log_prob
        if self.extra_parameters:
            values = -log_prob(targets, outputs, extra)
        else:
            values = -log_prob(targets, outputs)
        fits = values.shape.is_compatible_with(outputs.shape[:1])
        problem = f"loss: log_prob of {self.name} must return one number per example."
        refuse_if(not fits, problem, values.shape, "(n,)")
        return values

    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        labels = np.asarray(targets, np.float64).reshape(len(targets), -1)
        values = np.asarray(outputs, np.float64)
        return -self.log_likelihood(labels, values, extra)

    def check_fit(self, outputs: tuple, targets: tuple, num_classes: int | None) -> None:
        needed = self.num_outputs(math.prod(targets))
        if tuple(outputs) != (needed,):
            problem = f"loss: {self.name} needs {needed} outputs for these labels."
            raise InputError(
                problem, f"outputs of shape {tuple(outputs)}", f"a last layer of {needed} units"
            )

    def has_accuracy(self, num_classes: int | None, one_column: bool, multi_label: bool) -> bool:
        return self.kind == CLASSES

    def right(self, targets: Any, outputs: Any, signs: bool) -> Any:
        tf = tensorflow()
        chosen = tf.argmax(self.class_log_probs(outputs), axis=-1, output_type=tf.int32)
        return tf.equal(chosen, tf.cast(targets[:, 0], tf.int32))

    def probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Converts outputs to probabilities of classes.

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs).

        Returns:
            Probabilities, shape (draws, n, classes); without classes, the outputs unchanged.
        """
        if self.kind != CLASSES:
            return outputs
        return np.exp(self.log_probabilities(outputs))

    def labels_of(self, classes: np.ndarray) -> np.ndarray:
        """Converts class numbers to labels for `log_prob`.

        Args:
            classes: Numbers of classes, shape (n,).

        Returns:
            Labels, shape (n, columns), float64.
        """
        return classes[:, None].astype(np.float64)

    def log_likelihood(
        self, targets: np.ndarray, outputs: np.ndarray, extra: Any = None
    ) -> np.ndarray:
        """Returns the log density of each example under each draw, in NumPy.

        Args:
            targets: Labels in the units of the data, shape (n, columns), float64.
            outputs: Outputs of the network, shape (draws, n, outputs), float64.
            extra: The extra parameters of each draw, shape (draws, 1, numbers). Default: None.

        Returns:
            Log densities summed over the targets of an example, shape (draws, n).
        """
        return self.law_of(outputs, extra).log_prob(targets).sum(axis=-1)

    def law_of(self, outputs: np.ndarray, extra: Any = None) -> Any:
        """Returns the distributions from `law`, with the extra parameters if there are any.

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs).
            extra: Values of the extra parameters. Default: None.

        Returns:
            A `Law` of all targets.
        """
        law: Any = self.law
        return law(outputs, extra) if self.extra_parameters else law(outputs)

    def named(self, names: Sequence[str]) -> Self:
        """Returns the likelihood for targets with names.

        Args:
            names: One name per target.

        Returns:
            A likelihood; this one if names do not matter.
        """
        del names
        return self

    def of_classes(self, count: int) -> Self:
        """Returns the likelihood for labels of 0 to count - 1, for likelihoods of classes. Some may
        be absent from the training labels.

        Args:
            count: Number of classes, at least 2.

        Returns:
            The likelihood; this one unless it depends on the number of classes.
        """
        del count
        return self

    def class_log_probs(self, outputs: Any) -> Any:
        """Returns log p of each class, in TensorFlow, for likelihoods of classes.

        Args:
            outputs: Outputs of the network, shape (n, outputs).

        Returns:
            Logarithms, shape (n, classes).
        """
        raise NotImplementedError(f"{self.name} describes values, not classes.")

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """Returns log p of each class, in NumPy, for likelihoods of classes.

        Args:
            outputs: Outputs of the network, shape (..., outputs), float64.

        Returns:
            Logarithms, shape (..., classes).
        """
        raise NotImplementedError(f"{self.name} describes values, not classes.")

    def probabilities_by_class(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the probabilities of the classes and their entropies, in NumPy.

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs), in its number type.

        Returns:
            Probabilities, shape (classes, draws, n), and entropies in nats, shape (draws, n).
        """
        logarithms = self.log_probabilities(np.asarray(outputs, np.float64))
        return by_class(logarithms)

    def get_config(self) -> dict[str, Any]:
        """Returns name, settings and constants as plain numbers, the input of `from_config`."""
        config: dict[str, Any] = {"name": self.name}
        for key in self.settings:
            value = attrgetter(key)(self)
            if key not in self.later_settings or value != self.later_settings[key]:
                config[key] = value
        for key in self.constants:
            config[key] = np.asarray(attrgetter(key)(self), np.float64).tolist()
        return config

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Creates a likelihood from the result of `get_config`.

        Args:
            config: Name, settings and constants.

        Returns:
            The likelihood.

        Raises:
            InputError: The configuration lacks a setting or a constant.
        """
        config = {**cls.later_settings, **config}
        needed = (*cls.settings, *cls.constants)
        if missing := [key for key in needed if key not in config]:
            problem = f"The likelihood {cls.name} lacks {', '.join(missing)}."
            raise InputError(problem, ", ".join(config), ", ".join(needed))
        likelihood = cls(**{key: config[key] for key in cls.settings})
        for key in cls.constants:
            setattr(likelihood, key, np.asarray(config[key], np.float64))
        return likelihood

    def __repr__(self) -> str:
        settings = ", ".join(f"{key}={attrgetter(key)(self)!r}" for key in self.settings)
        return f"{type(self).__name__}({settings})"


class StandardizedLikelihood(Likelihood):
    """A likelihood of targets in the units of the network, which the data room may standardize.

    It says the loss itself, `loss` and `losses`, from which the log densities follow. Labels of
    classes and values at the places of an image or a sequence are allowed.
    """

    own_units = False
    numbers_are_values = False
    of_users = False

    @abstractmethod
    def loss(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        """The loss of each place of each example, in TensorFlow; see `Objective.loss`.

        Args:
            targets: Labels as `stored` gives them, shape (n, ..., targets).
            outputs: Outputs of the network, shape (n, ..., outputs).
            extra: The parameters of `extra_parameters`, a number each. Default: None.
        """

    @abstractmethod
    def losses(self, outputs: np.ndarray, targets: np.ndarray, extra: Any = None) -> np.ndarray:
        """The loss of each example under each draw, in NumPy; see `Objective.losses`.

        Args:
            outputs: Outputs of the network, shape (..., n, outputs), float64.
            targets: Labels, shape (n, ...), float64.
            extra: The parameters of `extra_parameters` of each draw, shape (draws, 1, numbers).
                Default: None.
        """

    def log_prob(self, targets: Any, outputs: Any, extra: Any = None) -> Any:
        return -self.loss(targets, outputs, extra)

    def log_likelihood(
        self, targets: np.ndarray, outputs: np.ndarray, extra: Any = None
    ) -> np.ndarray:
        return -self.losses(outputs, targets, extra)

    def law(self, outputs: np.ndarray, extra: Any = None) -> Law:
        raise NotImplementedError(f"{self.name} describes classes, not values.")

    check_fit = Objective.check_fit
    has_accuracy = Objective.has_accuracy
    right = Objective.right
    probabilities = Objective.probabilities
