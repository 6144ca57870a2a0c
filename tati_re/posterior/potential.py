"""The potential of a Keras model and its data: U = λ L + V, L = N * mean loss, V = -log prior; and
bound to a step.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung
from tati_re.core.ops import rows, with_rows
from tati_re.core.potential import Batch, Potential
from tati_re.likelihoods.extra_parameters import ExtraParameter
from tati_re.posterior.device_data import device_bytes
from tati_re.posterior.function import no_clock
from tati_re.posterior.passes import ModelPasses
from tati_re.posterior.priors.choosing import unconfined


class ModelEvaluate(Evaluate):
    """A `ModelPotential` bound to a step.

    Args:
        potential: The potential.
        rung: Rung of each walker.
        batch: Examples of the step; None: all data.
        auxiliary: Non-trainable variables, (walkers, *shape) each; forward passes in training
            update them.
        clock: The step of the run. Default: None, a call from outside of a run.
    """

    def __init__(
        self,
        potential: ModelPasses,
        rung: Rung,
        batch: Batch | None,
        auxiliary: tuple,
        clock: Clock | None = None,
    ) -> None:
        self.potential = potential
        self.rung = rung
        self.batch = batch
        self.scale = potential.scale
        self.clock = clock or no_clock()
        self.num_examples = potential.num_examples
        self.exact = batch is None
        # Shared with the copies on other rungs, which are asked in place of this one.
        self._kept = [auxiliary]
        self._whole: tuple[ModelEvaluate, Any] | None = None
        self._place = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()

    @property
    def auxiliary(self) -> tuple:
        return self._kept[0]

    @auxiliary.setter
    def auxiliary(self, values: tuple) -> None:
        self._kept[0] = values
        if self._whole is not None:
            full_model, first = self._whole
            pairs = zip(full_model.auxiliary, values, strict=True)
            full_model.auxiliary = tuple(
                with_rows(tf.convert_to_tensor(old), first, new) for old, new in pairs
            )

    def __call__(self, position) -> Energy:
        energy, new, accuracy = self.potential.energy(
            position, self.rung, self.batch, self.auxiliary, counting=self.counting
        )
        self.known_accuracy = position, accuracy
        # What is computed inside of a condition or a loop of the step is not known outside of it.
        if self.potential.training and (
            self._place is None or tf.compat.v1.get_default_graph() is self._place
        ):
            self.auxiliary = new
        return energy

    def full(self, position) -> Energy:
        if self.potential.fitting and self.batch is None:
            # Batch normalization learns its moving statistics in this pass, as in one on a
            # mini-batch.
            return self(position)
        if self.potential.training and self.batch is None:
            return self.potential.energy(position, self.rung, None, self.auxiliary)[0]
        return self.potential.full(position, self.rung, self.auxiliary)

    def validation(self, position):
        return self.potential.validation(position, self.auxiliary)

    def gradient_variance(self, position):
        return self.potential.gradient_variance(position, self.rung, self.batch, self.auxiliary)

    def with_variance(self, position):
        if self.batch is None or self.potential.chain is None:
            return super().with_variance(position)
        return self.potential.energy_and_variance(position, self.rung, self.batch, self.auxiliary)

    def mean_loss(self, position):
        return self.potential.mean_loss(position, self.auxiliary)

    def examples(self, position, indices):
        return self.potential.examples(position, indices, self.auxiliary)

    def log_prior(self, position):
        return self.potential.log_prior(position)

    def drawn_from_prior(self, normal):
        return self.potential.prior.from_normal(normal)

    def part(self, first, count: int) -> ModelEvaluate:
        batch = self.batch
        if batch is not None and not self.potential.shared:
            batch = batch._replace(indices=rows(batch.indices, first, count))
        auxiliary = tuple(rows(value, first, count) for value in self.auxiliary)
        part = ModelEvaluate(
            self.potential, self.rung.part(first, count), batch, auxiliary, self.clock
        )
        part._whole = (self, first)
        part._place = self._place
        return part

    def confine(self, position, momentum):
        return self.potential.prior.confine(position, momentum)

    def metric(self, position):
        if self.potential.metric_name is None:
            return None
        if (known := self.accuracy_at(position)) is not None:
            return known
        return self.potential.metric(position, self.batch, self.auxiliary)


class ModelPotential(ModelPasses, Potential):
    """The potential of a model, a loss with one value per example, a prior and a data set.

    Arguments and attributes are described in `ModelPasses`.
    """

    def with_batches(self, batches) -> ModelPotential:
        other = copy.copy(self)
        other.take_batches(batches)
        return other

    @property
    def parameter_names(self) -> list[str]:
        return self.flat.parameter_names()

    def bind(
        self,
        rung: Rung,
        batch: Batch | None = None,
        auxiliary: tuple = (),
        clock: Clock | None = None,
    ) -> ModelEvaluate:
        return ModelEvaluate(self, rung, batch, auxiliary, clock)

    @property
    def columns(self) -> dict[str, Any]:
        extras = self.loss.objective.extra_parameters
        first = self.flat.num_parameters - len(extras)
        return {
            extra.column: partial(_value_of, extra, first + number)
            for number, extra in enumerate(extras)
        }

    def describe(self, batch: str | None = None) -> str:
        count = f"{self.num_examples} * the mean loss"
        if self.convention == "mean_loss":
            count = f"the mean loss, without the factor N = {self.num_examples}"
        if batch is None:
            batch = (
                "all examples"
                if self.batches.full
                else f"mini-batches of {self.batches.batch_size} examples"
            )
        words = f"U = L + V; L = {count} ({self.loss.words}), from {batch}; V = -log prior, {self.prior}"
        if self.dataset.weights is not None:
            total = self.dataset.weights.sum()
            words += (
                "; the loss of each example is multiplied by its weight, with a sum of "
                f"weights of {total:g} for N = "
            )
            words += f"{self.num_examples} examples"
        if self.flat.regularizer is not None:
            words += f", and {self.scale:g} times the model's weight regularisers"
        return words

    def notices(self) -> list[str]:
        notices = [self.loss.note] if self.loss.note else []
        if self._loops:
            notices.append(
                "The layers of this model cannot be vectorized. Walkers are computed one by one."
            )
        if self.streamed:
            size = device_bytes(
                self.dataset.inputs, self.dataset.input_scale, self.flat.input_dtype
            )
            notices.append(
                f"Inputs of {size / 1e6:,.3g} MB exceed memory_limit. Each step reads the rows of its batch from disk, "
                "in a graph instead of XLA."
            )
        if sentence := unconfined(self.prior, self.flat.tensor_names, self.flat.regularized):
            notices.append(sentence)
        if self.convention == "posterior" and not self.loss.likelihood:
            count = int(np.prod(self.dataset.targets.shape[1:], dtype=int)) or 1
            averaged = self.loss.numbers_averaged(self.dataset.targets.shape[1:])
            mean = (
                f" It is a mean over {averaged} numbers per example, not their sum."
                if averaged > 1
                else ""
            )
            notices.append(
                self.loss.objective.without_constant(count)
                or f"The loss {self.loss.name} is not a normalized likelihood: exp(-N * mean "
                f"loss) is sampled unchanged.{mean}"
            )
        return notices


def _value_of(extra: ExtraParameter, column: int, position: Any) -> tf.Tensor:
    """The value of an extra parameter that stands in a column of positions (walkers, parameters)."""
    return extra.value(position[:, column], exp=tf.exp)
