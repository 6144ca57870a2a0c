"""The potential of a Simulation at the places of its walkers, asked from Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.options.make import make_options
from tati_re.posterior.evaluator import Evaluator
from tati_re.simulation.batch_norm import check_model
from tati_re.simulation.request import own_sampler
from tati_re.simulation.step_size_advice import StepSizeAdvice, advice

if TYPE_CHECKING:
    from tati_re.options.make import Options
    from tati_re.simulation.starts import Walkers
    from tati_re.simulation.system import System

_MOST_EXAMPLES = 10_000


class Evaluations:
    """Loss, potential, slopes and curvatures; all of one mini-batch until one of them is asked a second time or the
    parameters change (TATi's rule).

    The part of `tati_re.Simulation` that evaluates; what it is made of is there.
    """

    options: Options
    objects: dict[str, Any]
    system: System
    walkers: Walkers

    def loss(self, walker_index: int | None = None):
        """Mean loss on the current batch: a number, or `(walkers,)`."""
        return self._of_walker(self._ask("loss").loss, walker_index)

    def potential(self, walker_index: int | None = None):
        """U estimated on the current batch: a number, or `(walkers,)`."""
        return self._of_walker(self._ask("potential").potential, walker_index)

    def gradients(self, walker_index: int | None = None) -> np.ndarray:
        """∇U estimated on the current batch: `(parameters,)`, or `(walkers, parameters)`."""
        return self._of_walker(self._ask("gradients").gradient, walker_index)

    def score(self, walker_index: int | None = None):
        """Accuracy on the current batch: a number, or `(walkers,)`.

        Raises:
            InputError: The model is no classifier.
        """
        if self._engine().potential.metric_name is None:
            raise InputError(
                "score is the accuracy of a classifier.", received="regression", expected="loss() or predict()"
            )
        self._move_on("score")
        return self._of_walker(
            self._engine().metric(self.walkers.position, self._batch, self.walkers.auxiliary), walker_index
        )

    def hessian_vector_product(self, vector, walker_index: int | None = None) -> np.ndarray:
        """∇²U times `vector`, `(parameters,)` or `(walkers, parameters)`, on the current batch."""
        self._move_on("hessian_vector_product")
        vector = self.walkers.fitting(vector, "vector")
        return self._of_walker(
            self._engine().hessian_product(self.walkers.position, vector, self._batch, self.walkers.auxiliary),
            walker_index,
        )

    def hessians(self, walker_index: int | None = None) -> np.ndarray:
        """∇²U on the current batch: `(parameters, parameters)`, or one matrix a walker; costs P Hessian-vector
        products."""
        self._move_on("hessians")
        identity = np.eye(self.num_parameters(), dtype=self.walkers.position.dtype)
        rows = [
            self._engine().hessian_product(self.walkers.position, row, self._batch, self.walkers.auxiliary)
            for row in identity
        ]
        return self._of_walker(np.stack(rows, axis=1), walker_index)

    def step_size_advice(self, walker_index: int = 0) -> StepSizeAdvice:
        """The largest eigenvalue of ∇²U at a walker, and the step sizes at which samplers are stable there.

        Costs some twenty Hessian-vector products on all data, or on 10,000 examples where there are more.

        Args:
            walker_index: Which walker. Default: the first.
        """
        examples = self.dataset.num_examples
        options = make_options(self.options, batch_size=_MOST_EXAMPLES if examples > _MOST_EXAMPLES else None)
        engine = Evaluator(self.system.potential(options, self.objects), False)
        walker = self._checked_walker(walker_index)
        return advice(engine.largest_curvature(self.walkers.position, walker, engine.batch(0), self.walkers.auxiliary))

    def suggest_step_size(self, walker_index: int = 0) -> float:
        """A step size for the sampler of the options at the place of a walker, mostly where a fit has ended: a quarter
        of the limit of stability of methods with momenta, a tenth of that of others.

        Args:
            walker_index: Which walker. Default: the first.

        Raises:
            InputError: U has no positive curvature there, so that nothing limits the step.
        """
        found = self.step_size_advice(walker_index)
        size = found.suggested(own_sampler(self.options, self.objects).has_momentum)
        if not np.isfinite(size):
            raise InputError(
                "suggest_step_size: U has no positive curvature here.",
                received=f"a largest eigenvalue of {found.curvature:.4g}",
                expected="a place near a minimum, as fit finds it",
            )
        return size

    def next_batch(self) -> None:
        """Moves on to the next mini-batch."""
        self._batch_number += 1
        self._asked, self._energy, self._batch = set(), None, self._engine().batch(self._batch_number)

    def _engine(self) -> Evaluator:
        if self._evaluator is None:
            # One evaluation at a time gains from XLA only where many small operations are fused.
            xla = self.system.execution(self.options) == "xla" and self.system.flat.vectorizable
            training = self.options.batch_norm == "batch"
            if training:
                check_model(self.system.flat)
            self._evaluator = Evaluator(self.system.potential(self.options, self.objects, training), xla)
            self._batch = self._evaluator.batch(self._batch_number)
        return self._evaluator

    def _forget(self) -> None:
        self._evaluator, self._energy, self._batch_number = None, None, 0
        self._asked: set[str] = set()
        self._seen_position: np.ndarray | None = None

    def _move_on(self, name: str) -> None:
        """All quantities refer to one batch until one is asked a second time or the parameters change (TATi's rule)."""
        engine = self._engine()
        moved = self._seen_position is None or not np.array_equal(self._seen_position, self.walkers.position)
        first = self._seen_position is None
        if moved:
            self._seen_position, self._energy = self.walkers.position.copy(), None
        if not engine.potential.batches.full and not first and (moved or name in self._asked):
            self.next_batch()
        self._asked.add(name)

    def _ask(self, name: str):
        self._move_on(name)
        if self._energy is None:
            self._energy = self._engine().energy(self.walkers.position, self._batch, self.walkers.auxiliary)
        return self._energy

    def _of_walker(self, values: np.ndarray, walker_index: int | None):
        if walker_index is None:
            if self.num_walkers() > 1:
                return values
            walker_index = 0
        value = values[self._checked_walker(walker_index)]
        return float(value) if np.ndim(value) == 0 else value

    def _checked_walker(self, walker_index: int) -> int:
        if not 0 <= walker_index < self.num_walkers():
            raise InputError(
                "walker_index: no such walker.", received=walker_index, expected=f"0 to {self.num_walkers() - 1}"
            )
        return walker_index

    def _rows(self) -> np.ndarray | None:
        """Numbers of the examples of the current batch, `(batch,)`, or `(walkers, batch)` where each has its own."""
        self._engine()
        if not self._batch:
            return None
        indices, size = (value.numpy() for value in self._batch)
        rows = indices[:, : int(size)]
        return rows[0] if len(rows) == 1 else rows
