"""The potential of a Simulation at the places of its walkers, asked from Python."""

from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.protocol import Energy
from tati_re.launch.request import inner_sampler
from tati_re.launch.step_size_advice import StepSizeAdvice, advice
from tati_re.options.make import Options, make_options
from tati_re.posterior.evaluator import Evaluator
from tati_re.samplers.wrappers.mass import keeps_speed
from tati_re.samplers.wrappers.metered import is_timed
from tati_re.system.batch_norm import check_model
from tati_re.system.current_batch import CurrentBatch
from tati_re.system.system import System
from tati_re.system.walkers import Walkers

_MOST_EXAMPLES = 10_000


@front_doors
class Evaluations:
    """Loss, potential, gradients and curvature on one mini-batch, until `next_batch` is called.

    A part of `tati_re.Simulation`.
    """

    follows_tati = False
    """Whether the batch moves on by itself, where an answer is asked a second time or the
    parameters change.
    """

    options: Options
    objects: dict[str, Any]
    walkers: Walkers
    system: System
    """The model and its data, which make the potential."""
    _evaluator: Evaluator | None = None
    _first_batch = 0
    _evaluated: tuple[int, np.ndarray, Energy] | None = None

    def loss(self, walker_index: int | None = None):
        """Returns the mean loss on the current batch: a number, or `(walkers,)`."""
        return self._of_walker(self._energy("loss").loss, walker_index)

    def potential(self, walker_index: int | None = None):
        """Returns U estimated on the current batch: a number, or `(walkers,)`."""
        return self._of_walker(self._energy("potential").potential, walker_index)

    def gradients(self, walker_index: int | None = None) -> np.ndarray:
        """Returns ∇U estimated on the current batch, `(parameters,)` or `(walkers, parameters)`."""
        return self._of_walker(self._energy("gradients").gradient, walker_index)

    def score(self, walker_index: int | None = None):
        """Returns the accuracy on the current batch: a number, or `(walkers,)`."""
        if self._engine().potential.metric_name is None:
            received = "regression" if self.system.has_data else self.system.dataset.name
            raise InputError(
                "score is the accuracy of a classifier.", received, "loss(), predict()"
            )
        batch = self._batch_for("score")
        scores = self._engine().metric(self.walkers.position, batch, self.walkers.auxiliary)
        return self._of_walker(scores, walker_index)

    def hessian_vector_product(self, vector, walker_index: int | None = None) -> np.ndarray:
        """Returns ∇²U times a vector, on the current batch.

        Args:
            vector: The vector, `(parameters,)` or `(walkers, parameters)`.
            walker_index: One walker, counted from 0. Default: None, all walkers.

        Returns:
            The product, `(parameters,)` or `(walkers, parameters)`.
        """
        batch = self._batch_for("hessian_vector_product")
        vector = self.walkers.fitting(vector, "vector")
        product = self._engine().hessian_product(
            self.walkers.position, vector, batch, self.walkers.auxiliary
        )
        return self._of_walker(product, walker_index)

    def hessians(self, walker_index: int | None = None) -> np.ndarray:
        """Returns ∇²U on the current batch: `(parameters, parameters)`, or one matrix per walker.

        The cost is one Hessian-vector product per parameter.
        """
        batch = self._batch_for("hessians")
        identity = np.eye(self.system.flat.num_parameters, dtype=self.walkers.position.dtype)
        product = self._engine().hessian_product
        walkers = self.walkers
        rows = [product(walkers.position, row, batch, walkers.auxiliary) for row in identity]
        return self._of_walker(np.stack(rows, axis=1), walker_index)

    def step_size_advice(self, walker_index: int = 0) -> StepSizeAdvice:
        """Returns the largest eigenvalue of ∇²U at a walker and the largest stable step sizes.

        The cost is about twenty Hessian-vector products on all data, or on 10,000 examples of a
        larger data set.

        Args:
            walker_index: The walker, counted from 0. Default: 0.
        """
        examples = self.system.dataset.num_examples
        options = make_options(
            self.options, batch_size=_MOST_EXAMPLES if examples > _MOST_EXAMPLES else None
        )
        engine = Evaluator(self.system.potential(options, self.objects), False)
        walker = self._checked_walker(walker_index)
        return advice(
            engine.largest_curvature(
                self.walkers.position, walker, engine.batch(0), self.walkers.auxiliary
            )
        )

    def suggest_step_size(self, walker_index: int = 0) -> float:
        """Suggests a step size for the sampler in the options at the position of a walker.

        It is a quarter of the stability limit for methods with momenta, and a tenth for other
        methods. Call it after a fit, when the walker is at a minimum.

        Args:
            walker_index: The walker, counted from 0. Default: 0.

        Raises:
            InputError: The sampler or the mass gives each parameter a different step size.
        """
        sampler = inner_sampler(self.options, self.objects)
        mass = self.objects.get("mass", self.options.mass)
        problem = "suggest_step_size: the curvature of U sets no limit if each parameter has its own speed."
        received = f"mass, {sampler.name}" if sampler.has_momentum else sampler.name
        refuse_if(
            sampler.dynamics.own_speeds or not keeps_speed(mass),
            problem,
            received,
            "step_size = auto, which finds a step size during the run",
        )
        advice = self.step_size_advice(walker_index)
        size = advice.suggested(is_timed(sampler))
        received = f"a largest eigenvalue of {advice.curvature:.4g}"
        expected = "a position near a minimum, for example after fit"
        refuse_if(
            not np.isfinite(size),
            "suggest_step_size: U has no positive curvature here.",
            received,
            expected,
        )
        return size

    @property
    def batch(self) -> CurrentBatch:
        """The mini-batch for loss, potential, gradients, Hessians and score, until `next_batch`."""
        self._engine()
        return self._batch

    def next_batch(self) -> None:
        """Moves to the next mini-batch."""
        self.batch.next()

    def _engine(self) -> Evaluator:
        if self._evaluator is None:
            # One evaluation at a time gains from XLA only where many small operations are fused.
            xla = self.system.execution(self.options) == "xla" and self.system.flat.vectorizable
            training = self.options.batch_norm == "batch"
            if training:
                check_model(self.system.flat)
            self._evaluator = Evaluator(
                self.system.potential(self.options, self.objects, training), xla
            )
            self._batch = CurrentBatch(self.system.dataset, self._evaluator, self._first_batch)
        return self._evaluator

    def _forget(self) -> None:
        if self._evaluator is not None:
            self._first_batch = self._batch.number
        self._evaluator = self._evaluated = None

    def _batch_for(self, name: str) -> tuple:
        """The batch that an answer refers to."""
        if self.follows_tati:
            self.batch.follow(name, self.walkers.position)
        return self.batch.tensors

    def _energy(self, name: str) -> Energy:
        batch = self._batch_for(name)
        position = self.walkers.position
        known = self._evaluated
        if known is None or known[0] != self.batch.number or not np.array_equal(known[1], position):
            energy = self._engine().energy(position, batch, self.walkers.auxiliary)
            known = self.batch.number, position.copy(), energy
            self._evaluated = (
                known if self.system.has_data else None
            )  # a function may read what changes
        return known[2]

    def _of_walker(self, values: np.ndarray, walker_index: int | None):
        if walker_index is None and self.options.num_walkers > 1:
            return values.copy()
        value = values[self._checked_walker(0 if walker_index is None else walker_index)].copy()
        return float(value) if np.ndim(value) == 0 else value

    def _checked_walker(self, walker_index: int) -> int:
        if (
            not isinstance(walker_index, int | np.integer)
            or not 0 <= walker_index < self.options.num_walkers
        ):
            raise InputError(
                "walker_index: no such walker.",
                walker_index,
                f"0 to {self.options.num_walkers - 1}",
            )
        return walker_index
