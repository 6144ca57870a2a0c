"""Predictions from a network's outputs under a likelihood of the registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.contract import Likelihood
from tati_re.likelihoods.laws import Law
from tati_re.likelihoods.registry import likelihood_of
from tati_re.posterior.predictive import CLASSES, VALUES, Predictive


class LikelihoodPredictive(Predictive):
    """What outputs predict under a likelihood; see `Predictive`, whose answers it gives.

    Targets keep their units, so that nothing is restored: the likelihood has constants of its own.

    Args:
        loss: As `Loss.get_config` gives it.
        task: That of the data set.
        num_outputs: Outputs of the network.
        likelihood: The likelihood where its class has no line in the registry.
    """

    def __init__(
        self,
        loss: Mapping[str, Any],
        task: str,
        num_outputs: int,
        likelihood: Likelihood | None = None,
    ) -> None:
        config = loss["likelihood"]
        kind = None if likelihood is None else type(likelihood)
        self.target_law = likelihood_of(config) if kind is None else kind.from_config(config)
        self.objective = self.target_law
        self.loss, self.task, self.name = dict(loss), task, str(loss["loss"])
        self.num_outputs, self.rows = int(num_outputs), 1
        self.mean, self.deviation = np.asarray(0.0), np.asarray(1.0)
        self.num_extra = len(self.target_law.extra_parameters)
        # Values that may be censored have a second column of labels, which no output predicts.
        self.own_loss = self.target_law.target_columns > 1
        self.kind = CLASSES if self.target_law.kind == CLASSES else VALUES
        self.has_noise = self.predicts_noise = self.kind == VALUES
        self.likelihood = self.has_loss = True
        self.notes: tuple[str, ...] = ()
        self.class_weights: tuple[float, ...] = ()
        self.num_columns = self._columns_of_law()

    def _columns_of_law(self) -> int:
        """Classes, or targets of an example."""
        if self.kind == CLASSES:
            zeros = np.zeros((1, self.num_outputs))
            return self.target_law.log_probabilities(zeros).shape[-1]
        return self.num_outputs // self.target_law.outputs_per_target

    @property
    def label_columns(self) -> int:
        """Columns of labels that the densities take."""
        return self.num_columns * self.target_law.target_columns

    def check_labels(self, labels: np.ndarray) -> None:
        """Refuses labels that do not fit, or that the law cannot have produced.

        Args:
            labels: Labels of the inputs that are predicted, shape (n, ...).

        Raises:
            InputError: Another number of columns, or labels outside of the support.
        """
        columns = 1 if self.kind == CLASSES else self.label_columns
        values = np.asarray(labels, np.float64).reshape(len(labels), -1)
        problem = "The labels do not match the network."
        refuse_if(values.shape[1] != columns, problem, np.shape(labels), f"(n, {columns})")
        self.target_law.check(values)

    def law(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> Law:
        extra_by_draw = None if extra is None else np.asarray(extra, np.float64)[:, None, :]
        return self.target_law.law_of(np.asarray(outputs, np.float64), extra_by_draw)

    def noise(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray | None:
        return self.law(outputs, extra).std if self.has_noise else None

    def restored(self, outputs: np.ndarray, extra: np.ndarray | None = None) -> np.ndarray:
        return self.law(outputs, extra).mean

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        return self.target_law.log_probabilities(np.asarray(outputs, np.float64))

    def probabilities_by_class(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.target_law.probabilities_by_class(outputs)

    def losses(
        self, outputs: np.ndarray, targets: np.ndarray, extra: np.ndarray | None = None
    ) -> np.ndarray:
        labels = np.asarray(targets, np.float64).reshape(len(targets), -1)
        extra_by_draw = None if extra is None else np.asarray(extra, np.float64)[:, None, :]
        values = np.asarray(outputs, np.float64)
        return -self.target_law.log_likelihood(labels, values, extra_by_draw)

    def log_densities(
        self, outputs: np.ndarray, targets: np.ndarray, extra: np.ndarray | None = None
    ) -> np.ndarray | None:
        return -self.losses(outputs, targets, extra) if self.has_noise else None

    def log_likelihoods(
        self,
        outputs: np.ndarray,
        targets: np.ndarray,
        in_units: np.ndarray,
        extra: np.ndarray | None = None,
    ) -> np.ndarray:
        return -self.losses(outputs, targets, extra)

    def drawn(
        self, outputs: np.ndarray, extra: np.ndarray | None, random: np.random.Generator
    ) -> np.ndarray:
        if self.kind == VALUES:
            return self.law(outputs, extra).draw(random)
        return super().drawn(outputs, extra, random)


def predictive_of(
    loss: Mapping[str, Any],
    task: str,
    num_classes: int | None,
    num_outputs: int,
    deviation: np.ndarray | float = 1.0,
    mean: np.ndarray | float = 0.0,
    likelihood: Any = None,
    **others: Any,
) -> Predictive:
    """What the outputs of a network predict under the loss of a run.

    Args:
        loss: The loss as the manifest describes it.
        task: Task of the data set, as for `Predictive`.
        num_classes: Classes of the data set; None for a regression.
        num_outputs: Outputs of the network for an example.
        deviation: Divisor of the targets, a number or of shape (outputs,). Default: 1.
        mean: Number subtracted from the targets before, or shape (outputs,). Default: 0.
        likelihood: The object that was given as the loss, where it is a likelihood. Default: None.
        **others: Further arguments of `Predictive`. Like `num_classes`, `deviation` and `mean` they
            have no effect where the manifest describes a likelihood.
    """
    if "likelihood" in loss:
        known = likelihood if isinstance(likelihood, Likelihood) else None
        return LikelihoodPredictive(loss, task, num_outputs, known)
    return Predictive(loss, task, num_classes, num_outputs, deviation, mean, **others)
