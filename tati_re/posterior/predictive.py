"""Predictions from a network's outputs under its loss: class probabilities, or laws of values."""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp

from tati_re.core.errors import InputError
from tati_re.likelihoods.contract import CLASSES, LABELS, VALUES, Objective
from tati_re.likelihoods.objectives import objective_of_manifest
from tati_re.likelihoods.outputs import by_class, entropy_of


class Predictive:
    """Turns outputs into predictions, by the likelihood that the loss stands for.

    For classes the probability of class c given outputs f is proportional to exp(-loss(c, f)): the
    softmax or sigmoid of a cross-entropy; for -1 and +1 under Gaussian noise of variance s² the
    sigmoid of 2f/s², and likewise for 0 and 1 and for one-hot rows. Values have the law that the
    objective has of them. Class numbers at several places are predicted place by place, outputs and
    results being (..., n * places, ...), and their losses add up.

    Args:
        loss: As `Loss.get_config` gives it.
        task: "classification", "signs", "one_hot", "multi_label" or "regression", of the data set.
        num_classes: Classes of the data set; None for a regression.
        num_outputs: Outputs of the network for an example.
        deviation: By which the targets were divided, a number or of shape (outputs,). Default: 1.
        mean: That was subtracted from the targets before, likewise. Default: 0.
        per_example: The loss (n,) of labels (n, ...) and outputs (n, outputs), of losses that only
            TensorFlow can compute. Default: not known.
        places: Places of an example that have outputs each. Default: 1.
        own_loss: Whether the loss is one of users, whose labels may have any shape. Default: no.

    Attributes:
        objective: The loss as an objective (`tati_re.likelihoods.contract.Objective`).
        kind: `CLASSES`, `VALUES` or `LABELS`.
        num_columns: Classes, or predicted values of an example.
        likelihood: Whether exp(-loss) is one, but for a constant.
        has_noise: Whether the loss tells the noise of predicted values.
        num_extra: How many extra parameters each draw brings.
        has_loss: Whether the loss of an example can be computed.
        notes: Sentences on predictions.
        class_weights: What the examples of each class counted, if they did not count alike.

    Raises:
        InputError: A loss of classes that is not known.
    """

    def __init__(
        self,
        loss: Mapping[str, Any],
        task: str,
        num_classes: int | None,
        num_outputs: int,
        deviation: np.ndarray | float = 1.0,
        mean: np.ndarray | float = 0.0,
        per_example: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None,
        places: int = 1,
        own_loss: bool = False,
    ) -> None:
        self.own_loss = own_loss
        self.class_weights: tuple[float, ...] = ()
        self.loss = dict(loss)
        self.task = task
        self.name = str(loss["loss"])
        objective = copy.copy(objective_of_manifest(loss, per_example))
        self.objective: Any = objective
        self.mean = _at_places(mean, places)
        self.deviation = _at_places(deviation, places)

        self.kind = _kind_of(objective, task, num_classes)
        of_values = objective.predicts_noise or not objective.is_computed
        if self.kind == CLASSES and of_values:
            problem = "The run's loss was an object; what its outputs predict is not known."
            raise InputError(
                problem, self.name, "tati_re.load(folder, loss=loss), or another loss by name"
            )
        self.rows = places if self.kind == CLASSES else 1
        objective.places = 1 if self.kind == CLASSES else places
        self.num_outputs = int(num_outputs) // self.rows
        self.num_columns = self._columns(num_classes)
        self._codes = self._class_codes()

        of_classes = objective.kind == CLASSES
        self.has_noise = self.kind == VALUES and objective.has_law
        self.predicts_noise = self.kind == VALUES and objective.predicts_noise
        self.num_extra = len(objective.extra_parameters)
        self.likelihood = self.has_noise or (self.kind != VALUES and of_classes)
        self.has_loss = objective.is_computed
        silent = self.kind == VALUES and not (self.has_noise or of_classes)
        self.notes: tuple[str, ...] = (without_noise(self.name),) if silent else ()

    def _columns(self, num_classes: int | None) -> int:
        """Classes, or predicted values of an example."""
        if self.kind == CLASSES and not self.objective.one_output_a_class:
            return int(num_classes or 2)
        if self.kind == VALUES:
            return self.num_outputs // self.objective.outputs_per_target
        return self.num_outputs

    def _class_codes(self) -> np.ndarray | None:
        """The labels of all classes as a loss of values takes them, (classes, outputs)."""
        if self.kind != CLASSES or self.objective.kind == CLASSES:
            return None
        if self.task == "one_hot":
            return np.eye(self.num_columns)
        return np.array([[-1.0 if self.task == "signs" else 0.0], [1.0]])

    def law(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> Any:
        """The laws of the targets in the units of the data; None where the loss has none.

        Args:
            outputs: Outputs of the network, (..., n, outputs).
            extra: The extra parameters of each draw, (draws, numbers), where there are some.
        """
        if not self.has_noise:
            return None
        values = np.asarray(outputs, np.float64)
        law = self.objective.law(values, _of_draws(extra))
        return law.in_units(self.mean, self.deviation)

    def noise(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray | None:
        """Noise of predicted values in the units of the targets; None if the loss has no noise.

        Args:
            outputs: Outputs of the network, (..., n, outputs).
            extra: The extra parameters of each draw, (draws, numbers), where there are some.
                Default: None.

        Returns:
            Shape (columns,). It is (draws, 1, columns) where the noise is among the extra
            parameters, and (..., n, columns) where it depends on the outputs.
        """
        law = self.law(outputs, extra)
        return None if law is None else law.width

    def restored(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray:
        """Predicted values in the units of the targets, float64; shares of classes.

        Args:
            outputs: Outputs of the network, (..., n, outputs).
            extra: The extra parameters of each draw, (draws, numbers). Default: None. Only the mean
                of a likelihood with constants in the units of the data may depend on them.
        """
        del extra
        values = self.objective.predicted(np.asarray(outputs, np.float64))
        if self.objective.predicts_shares:
            return values
        return values * self.deviation + self.mean

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """log p of each class, (..., classes); of several labels that each is 0 or 1, (...,
        outputs, 2).
        """
        values = np.asarray(outputs, np.float64)
        if self.kind == LABELS:
            return self.objective.label_log_probabilities(values)
        if self._codes is None:
            return self.objective.log_probabilities(values)
        rows = values.shape[-2]
        losses = [
            self.objective.losses(values, np.broadcast_to(code, (rows, len(code))))
            for code in self._codes
        ]
        return log_softmax(-np.stack(losses, axis=-1), axis=-1)

    def probabilities_by_class(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Probabilities of the classes, or of 1 for each of several labels, and their entropies.

        Args:
            outputs: Outputs of the network, shape (draws, n, outputs), in its number type.

        Returns:
            Probabilities, shape (classes or labels, draws, n), and entropies of each row in nats,
            shape (draws, n).
        """
        if self.kind == CLASSES and self._codes is None:
            return self.objective.probabilities_by_class(outputs)
        logarithms = self.log_probabilities(outputs)
        if self.kind != LABELS:
            return by_class(logarithms)
        probabilities = np.exp(logarithms[..., 1])
        return np.moveaxis(probabilities, -1, 0), entropy_of(logarithms).sum(axis=-1)

    def losses(
        self, outputs: np.ndarray, targets: np.ndarray, extra: np.ndarray | None = None
    ) -> np.ndarray:
        """The loss of each example, (..., n), float64, in the network's units.

        The column `loss` of a run has it so.

        Args:
            outputs: Outputs of the network, (..., n, outputs).
            targets: Those that the network was trained on, (n,) or (n, outputs).
            extra: The extra parameters of each draw, (draws, numbers), where there are some.
        """
        labels = np.asarray(targets)
        if self.task == "signs":
            labels = self.objective.without_signs(labels)
        return self.objective.losses(outputs, labels, _of_draws(extra))

    def log_densities(
        self, outputs: np.ndarray, targets: np.ndarray, extra: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Log density of the targets, all values of an example together, (draws, n), float64.

        Args:
            outputs: Outputs of the network, (draws, n, outputs).
            targets: Targets in the units of the data, (n,) or (n, columns), as is the density.
            extra: The extra parameters of each draw, (draws, numbers), where there are some.

        Returns:
            Densities; None where the loss says nothing of the noise.
        """
        law = self.law(outputs, extra)
        if law is None:
            return None
        values = np.asarray(targets, np.float64).reshape(len(targets), -1)
        return law.log_prob(values).sum(axis=-1)

    def log_likelihoods(
        self,
        outputs: np.ndarray,
        targets: np.ndarray,
        in_units: np.ndarray,
        extra: np.ndarray | None = None,
    ) -> np.ndarray:
        """log p(y | f) of each example, (draws, n), float64, under a loss that is a likelihood.

        Args:
            outputs: Outputs of the network, (draws, n, outputs).
            targets: Targets on which the network was trained, (n,) or (n, outputs).
            in_units: The same targets in the units of the data, (n,) or (n, columns); a density is
                in these units.
            extra: The extra parameters of each draw, (draws, numbers), where there are some.
                Default: None.
        """
        densities = self.log_densities(outputs, in_units, extra) if self.has_noise else None
        return -self.losses(outputs, targets, extra) if densities is None else densities

    def drawn(
        self, outputs: np.ndarray, extra: np.ndarray | None, random: np.random.Generator
    ) -> np.ndarray:
        """New targets, one for each draw and example, in the units of the data.

        Args:
            outputs: Outputs of the network, (draws, n, outputs).
            extra: The extra parameters of each draw, (draws, numbers), where there are some, else
                None.
            random: Generator of the random numbers.

        Returns:
            Class numbers, (draws, n), -1 and 1 for signs; labels, (draws, n, outputs), or values,
            (draws, n, columns).
        """
        if self.kind != VALUES:
            below = np.cumsum(np.exp(self.log_probabilities(outputs)), axis=-1)[..., :-1]
            classes = (random.random((*below.shape[:-1], 1)) > below).sum(axis=-1)
            return 2 * classes - 1 if self.task == "signs" else classes
        law = self.law(outputs, extra)
        assert law is not None
        return law.draw(random)


def _kind_of(objective: Objective, task: str, num_classes: int | None) -> str:
    """What the outputs predict under an objective of a task."""
    if task == "multi_label":
        return LABELS if objective.takes_labels else VALUES
    by_number = task == "classification" and not objective.one_output_a_class
    if task == "regression" or (by_number and (num_classes or 0) > 2):
        return VALUES
    return CLASSES


def _at_places(standard: np.ndarray | float, places: int) -> np.ndarray:
    """Means or deviations of the outputs, as often as there are places."""
    values = np.asarray(standard)
    return np.tile(values, places) if values.ndim else values


def _of_draws(extra: np.ndarray | None) -> np.ndarray | None:
    """Extra parameters of each draw, (draws, numbers), as they go with outputs, (draws, 1, numbers)."""
    return None if extra is None else np.asarray(extra, np.float64)[:, None, :]


def without_noise(loss: str) -> str:
    """Says what predictions are under a loss that does not tell the noise of an observation."""
    return (
        f"The loss {loss} does not model the noise of an observation: intervals are for "
        "the mean, and have no coverage."
    )


def log_mean_exp(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log of the weighted mean of exp(values) over the first axis.

    Args:
        values: The logarithms, (draws, ...).
        weights: Weights of the draws, at least 0, (draws,); their sum need not be 1.
    """
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights / weights.sum())
    return logsumexp(values + log_weights.reshape(-1, *[1] * (values.ndim - 1)), axis=0)
