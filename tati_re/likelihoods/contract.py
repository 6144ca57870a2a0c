"""What a likelihood is: the law of a target given the outputs of the network."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import Doors, front_door, front_doors
from tati_re.core.renamed import renamed_attribute
from tati_re.data.preparation import Standard
from tati_re.likelihoods.laws import Law
from tati_re.likelihoods.rounding import AUTO, NONE, check_rounding, least_std, log_hypot

PREDICTED, SAMPLED, BY_TARGET = "predicted", "sampled", "by_target"
"""Values of `noise_std` in place of a number: an output of the network, one parameter for all
targets, or one for each.
"""
NAME, COLUMN = "log_noise_std", "noise_std"
"""Of a noise that is sampled: the parameter, and the column in the table of a run."""

VALUES, CLASSES, LABELS = "regression", "classification", "multi_label"
"""What outputs predict: numbers, one of several classes, or several labels of 0 and 1 at once."""

_FAR = 1e3
"""Spreads from 0 beyond which float32 holds targets with fewer than four digits of their spread."""
_LEAST_LOGARITHM = -1e300
"""In place of the logarithm of 0, so that its product with 0 is 0."""


@front_doors
@dataclass(frozen=True)
class ExtraParameter:
    """A number above `least` that is sampled together with the network's parameters.

    The samplers move s, and the number is least + unit * exp(s).

    Attributes:
        name: Name of s among the parameters, such as "log_noise_std".
        column: Name of the number as a column of the table of a run, such as "noise_std".
        target: The target whose standard deviation scales a noise; None: the largest of them.
        law: The prior of exp(s): "noise", the prior of a noise in the options, or "gamma".
        scale: Scale of the prior "gamma". Default: 1.
        shape: Shape of the prior "gamma". Default: 1.
        start: Start of exp(s) under the prior "gamma". Default: 1.
        least: Lower bound of the number. Default: 0.
        unit: Unit of exp(s). Default: 1.
        relative: Whether a noise exp(s) is in units of the standard deviation of the training
            targets. Default: False.
    """

    name: str
    column: str
    target: int | None = None
    law: str = "noise"
    scale: float = 1.0
    shape: float = 1.0
    start: float = 1.0
    least: float = 0.0
    unit: float = 1.0
    relative: bool = False

    def text(self) -> str:
        """Describes exp(s) in words.

        Returns:
            A few words.
        """
        above = f" above {self.least:g}" if self.least else ""
        return f"{self.column.replace('_', ' ')}{above}"

    said = renamed_attribute("said", "text")

    def value(self, parameter: Any, exp: Any = np.exp) -> Any:
        """Returns the number for values of s.

        Args:
            parameter: Values of s.
            exp: The exponential function of NumPy or TensorFlow. Default: `np.exp`.

        Returns:
            Numbers above 0, in the shape of `parameter`.
        """
        values: Any = exp(parameter)
        if self.unit != 1.0:
            values = self.unit * values
        return values if self.least == 0.0 else self.least + values


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


class RoundedLikelihood(Likelihood):
    """A likelihood whose predicted spread includes the rounding of the targets.

    Args:
        rounding: "auto": a predicted spread includes the rounding of the targets, where at least half
            of them occur more than once. "none": it may come down to 0. Default: auto.
    """

    settings: ClassVar[tuple[str, ...]] = ("rounding",)
    later_settings: ClassVar[Mapping[str, Any]] = {"rounding": NONE}

    rounding: str = AUTO

    @front_door
    def __init__(self, rounding: str = AUTO) -> None:
        self.rounding = check_rounding(rounding)

    @property
    def is_far(self) -> bool:
        """Whether targets are so far from 0, in units of their spread, that float32 does not hold
        them.
        """
        return False

    def stored(self, targets: np.ndarray, dtype: type) -> np.ndarray:
        return super().stored(targets, np.float64 if self.is_far else dtype)

    def least_std(self, targets: np.ndarray) -> np.ndarray:
        """Returns the standard deviation of the rounding of training targets.

        Args:
            targets: Values in the units of the data, shape (n, targets).

        Returns:
            Deviations, shape (targets,); 0 where the rounding does not count.
        """
        if self.rounding == NONE:
            return np.zeros(np.shape(targets)[-1])
        return least_std(targets)


class ScaledLikelihood(RoundedLikelihood):
    """A likelihood with the location and scale of the training targets, or of their logarithms.

    Attributes:
        location: Mean of the targets, shape (targets,).
        scale: Their standard deviation, shape (targets,).
        least_width: Standard deviation of their rounding in units of `scale`, shape (targets,).
    """

    constants = ("location", "scale", "least_width")
    later_settings: ClassVar[Mapping[str, Any]] = {
        **RoundedLikelihood.later_settings,
        "least_width": 0.0,
    }

    location: Any = 0.0
    scale: Any = 1.0
    least_width: Any = 0.0

    @property
    def includes_rounding(self) -> bool:
        return bool(np.any(self.least_width))

    @property
    def is_far(self) -> bool:
        return bool(np.any(np.abs(self.location) > _FAR * np.asarray(self.scale)))


class LocationScale(ScaledLikelihood):
    """A likelihood of values y = location + scale * (m + exp(s) z), where z has a fixed
    distribution.

    The network outputs are m, the standardized center, and s, the logarithm of the standardized
    width. `location` and `scale` are the mean and standard deviation of the training targets. The
    width of rounded targets is √(exp(2s) + `least_width`²), where `least_width` is the standardized
    deviation of the rounding.

    A subclass that passes `noise_std` to this constructor, and forwards `extra`, also supports
    fixed and sampled widths. Then m is the only output.

    Args:
        noise_std: "predicted": s is an output. "sampled": s is one parameter for all targets.
            "by_target": s is one parameter per target. A number: the width in the units of the
            targets. Default: predicted.
        target_names: Names of the targets, for one width each. Default: none.
        rounding: "auto": a predicted width includes the rounding of the targets, where at least half
            of them occur more than once. "none": it may come down to 0. Default: auto.
    """

    outputs_per_target = 2
    settings: ClassVar[tuple[str, ...]] = ()
    later_settings: ClassVar[Mapping[str, Any]] = {
        **ScaledLikelihood.later_settings,
        "noise_std": PREDICTED,
        "target_names": [],
    }

    noise_std: float | str = PREDICTED
    target_names: Sequence[str] = ()

    @front_door
    def __init__(
        self,
        noise_std: float | str = PREDICTED,
        target_names: Sequence[str] = (),
        rounding: str = AUTO,
    ) -> None:
        super().__init__(rounding)
        words = (PREDICTED, SAMPLED, BY_TARGET)
        number = not isinstance(noise_std, str) and 0 < noise_std < math.inf
        expected = f"a number above 0, {', '.join(words)}"
        problem = f"noise_std: the noise of {self.name} is unknown."
        refuse_if(noise_std not in words and not number, problem, noise_std, expected)
        fixed = noise_std != PREDICTED and "noise_std" not in self.settings
        problem = f"noise_std: the network predicts the width of {self.name}."
        refuse_if(fixed, problem, noise_std, "no noise_std")
        self.noise_std = noise_std if isinstance(noise_std, str) else float(noise_std)
        self.target_names = list(target_names)
        self.outputs_per_target = 2 if noise_std == PREDICTED else 1

    @property
    def extra_parameters(self) -> tuple[ExtraParameter, ...]:
        units = np.atleast_1d(np.asarray(self.scale, np.float64)).tolist()
        return noise_parameters(self.noise_std, self.target_names, units)

    def fitted(self, targets: np.ndarray, weights: np.ndarray | None = None) -> Self:
        likelihood = super().fitted(targets, weights)
        likelihood.location, likelihood.scale = moments_of(targets, weights)
        if self.noise_std == PREDICTED:
            likelihood.least_width = self.least_std(targets) / likelihood.scale
        return likelihood

    def named(self, names: Sequence[str]) -> Self:
        likelihood = copy.copy(self)
        likelihood.target_names = list(names) if self.noise_std == BY_TARGET else []
        return likelihood

    def center_and_width(
        self, outputs: np.ndarray, extra: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns center and width of the distributions in the units of the data, each (draws, n,
        targets).

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs).
            extra: Widths that are parameters, shape (draws, 1, 1 or targets). Default: None.

        Returns:
            Centers and widths.
        """
        if self.noise_std == PREDICTED:
            center, log_width = parts(outputs, 2)
            width = np.hypot(np.exp(log_width), self.least_width)
            return self.location + self.scale * center, self.scale * width
        center = self.location + self.scale * np.asarray(outputs, np.float64)
        if isinstance(self.noise_std, str):
            return center, np.broadcast_to(self.scale * np.exp(extra), center.shape)
        return center, np.full(center.shape, self.noise_std)

    def standardized(self, targets: Any, outputs: Any, extra: Any = None) -> tuple[Any, Any]:
        """Returns z and log(scale * exp(s)) of targets, in TensorFlow, each of shape (n, targets).

        Args:
            targets: Labels in the units of the data, shape (n, targets); float64 if they are far
                from 0.
            outputs: Outputs of the network, shape (n, outputs).
            extra: Widths that are parameters, one number each. Default: None.

        Returns:
            z and the logarithm.
        """
        tf = tensorflow()
        scale = tf.constant(self.scale, outputs.dtype)
        away = targets - tf.constant(self.location, targets.dtype)
        values = tf.cast(away / tf.constant(self.scale, targets.dtype), outputs.dtype)
        if self.noise_std == PREDICTED:
            center, log_width = tf.split(outputs, 2, axis=-1)
            log_width = log_hypot(log_width, self.least_width)
        else:
            center, log_width = outputs, self._log_width(outputs, extra)
        z = (values - center) * tf.exp(-log_width)
        return z, log_width + tf.math.log(scale)

    def _log_width(self, outputs: Any, extra: Any) -> Any:
        """s of shape (n, targets) where the network does not predict it."""
        tf = tensorflow()
        if isinstance(self.noise_std, str):
            return stacked(extra) + tf.zeros_like(outputs)
        log_width = np.log(self.noise_std) - np.log(np.asarray(self.scale, np.float64))
        return tf.constant(log_width, outputs.dtype) + tf.zeros_like(outputs)

    def width_text(self) -> str:
        """Describes how the width is determined, in a few words.

        Returns:
            A few words.
        """
        if self.noise_std == PREDICTED:
            return "the network predicts its width"
        if isinstance(self.noise_std, str):
            of = " of each target" if self.noise_std == BY_TARGET else ""
            return f"its width{of} is sampled"
        return f"its width is {self.noise_std:g}"

    width_said = renamed_attribute("width_said", "width_text")


def tensorflow() -> Any:
    """TensorFlow, imported by the first log density, so that predictions of runs do without it."""
    from tati_re.core.backend import tf

    return tf


def parts(outputs: np.ndarray, count: int) -> list[np.ndarray]:
    """The groups of the outputs, `count` arrays of shape (..., targets), float64.

    Args:
        outputs: Outputs of the network, shape (..., targets * count).
        count: Number of groups, the likelihood's `outputs_per_target`.
    """
    return np.split(np.asarray(outputs, np.float64), count, axis=-1)


def moments_of(
    targets: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; a column that does not vary has deviation 1.

    Args:
        targets: Numbers, shape (n, columns).
        weights: Weights of the rows, shape (n,). Default: all count alike.
    """
    standard = Standard.of(np.asarray(targets, np.float64), weights)
    return standard.mean, standard.deviation


def refuse_targets(wrong: np.ndarray, targets: np.ndarray, name: str, expected: str) -> None:
    """Refuses labels that a likelihood cannot describe; the message gives the first of them.

    Args:
        wrong: Whether each label is wrong, in the shape of `targets`.
        targets: Labels, shape (n, columns).
        name: Name of the loss in the message.
        expected: Labels that are allowed, in words.

    Raises:
        InputError: A label is wrong.
    """
    if not wrong.any():
        return
    row = int(np.flatnonzero(wrong.reshape(len(wrong), -1).any(axis=1))[0])
    first = np.asarray(targets)[wrong][0]
    problem = f"loss: {name} cannot describe these labels."
    raise InputError(problem, f"{first:g} in row {row + 1}", expected)


def noise_parameters(
    noise_std: float | str, names: Sequence[str], units: Sequence[float] = ()
) -> tuple[ExtraParameter, ...]:
    """The parameters of a noise, by what `noise_std` says.

    Args:
        noise_std: A number, "sampled", "by_target" or "predicted".
        names: Names of the targets. The noise of a single one has no further name.
        units: Deviations of the targets in which the noise counts. A noise of several targets
            together has the unit 1. Default: it does not count in deviations.
    """
    relative = len(units) > 0
    if noise_std == SAMPLED or (noise_std == BY_TARGET and len(names) < 2):
        unit = units[0] if len(units) == 1 else 1.0
        return (ExtraParameter(NAME, COLUMN, unit=unit, relative=relative),)
    if noise_std != BY_TARGET:
        return ()
    return tuple(
        ExtraParameter(
            f"{NAME}[{name}]",
            f"{COLUMN}[{name}]",
            target=number,
            unit=units[number] if len(units) == len(names) else 1.0,
            relative=relative,
        )
        for number, name in enumerate(names)
    )


def stacked(extra: Any) -> Any:
    """Extra parameters in TensorFlow: one number, or a row of several."""
    return extra[0] if len(extra) == 1 else tensorflow().stack(extra, axis=-1)


LOG_2PI = math.log(2 * math.pi)


def entropy_of(log_probabilities: np.ndarray) -> np.ndarray:
    """-sum p log p over the last axis, in nats."""
    values = np.maximum(log_probabilities, _LEAST_LOGARITHM)
    return -np.sum(np.exp(values) * values, axis=-1)


def by_class(log_probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with the classes first, (classes, ...), and entropies in nats, (...)."""
    return np.moveaxis(np.exp(log_probabilities), -1, 0), entropy_of(log_probabilities)
