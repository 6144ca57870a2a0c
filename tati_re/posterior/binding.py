"""The potential of a step, bound to a batch, to the walkers' rungs and to their auxiliary variables."""

from __future__ import annotations

from typing import Any

from tati_re.core.backend import tf
from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung
from tati_re.core.ops import rows, with_rows
from tati_re.core.potential import Batch
from tati_re.posterior.function import no_clock
from tati_re.posterior.passes import ModelPasses


class ModelEvaluate(Evaluate):
    """A `ModelPotential` bound to a step's batch, rungs, and auxiliary variables, which the forward passes renew."""

    def __init__(
        self, potential: ModelPasses, rung: Rung, batch: Batch | None, auxiliary: tuple, clock: Clock | None = None
    ) -> None:
        self.potential, self.rung, self.batch = potential, rung, batch
        self.scale, self.clock = potential.scale, clock or no_clock()
        self.num_examples, self.exact = potential.num_examples, batch is None
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
            whole, first = self._whole
            pairs = zip(whole.auxiliary, values, strict=True)
            whole.auxiliary = tuple(with_rows(tf.convert_to_tensor(old), first, new) for old, new in pairs)

    def __call__(self, position) -> Energy:
        energy, new = self.potential.energy(position, self.rung, self.batch, self.auxiliary)
        # What is computed inside of a condition or a loop of the step is not known outside of it.
        if self.potential.training and (self._place is None or tf.compat.v1.get_default_graph() is self._place):
            self.auxiliary = new
        return energy

    def full(self, position) -> Energy:
        if self.potential.fitting and self.batch is None:
            # Batch normalization learns its moving statistics in this pass, as in one on a mini-batch.
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
        part = ModelEvaluate(self.potential, self.rung.part(first, count), batch, auxiliary, self.clock)
        part._whole, part._place = (self, first), self._place
        return part

    def confine(self, position, momentum):
        return self.potential.prior.confine(position, momentum)

    def metric(self, position):
        if self.potential.metric_name is None:
            return None
        return self.potential.metric(position, self.batch, self.auxiliary)
