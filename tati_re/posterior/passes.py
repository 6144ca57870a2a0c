"""The passes of a model over its examples: energies, gradients, their variances and accuracies of
all walkers.
"""

import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np

from tati_re.core.backend import tf, value_and_gradient
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.evaluate import Energy, Rung
from tati_re.core.ops import UNDER_XLA
from tati_re.core.potential import Batch, Prior
from tati_re.models.chain import chain_of
from tati_re.models.inspect import vectorizes
from tati_re.posterior.device_data import (
    StoredExamples,
    device_targets,
    has_accuracy,
    is_signs,
    scaled,
)
from tati_re.posterior.example_variance import (
    Spread,
    refuse_single_examples,
    spread_in_chain,
    variance_of_gradients,
)
from tati_re.posterior.function import combine
from tati_re.posterior.losses import Loss, WeightedLoss
from tati_re.posterior.walkers import choose, loss_and_gradient, map_walkers, once

_MOVES_DATA = 16
_LARGE_BATCH = 2**15
_LARGE_BATCHES = 2**20
_MANY_UNITS = 16_384
_FEW_WALKERS = 8
_CACHED = 2**17
"""Numbers of a layer, of all walkers, that stay in a processor's cache."""


class ModelPasses:
    """Everything that a `ModelPotential` computes.

    It makes passes of the model over a batch, or over all examples in pieces.

    Args:
        flat: The model, a `FlatModel` or an `ExtendedModel`.
        loss: The loss of an example.
        prior: The prior of all parameters.
        dataset: The data (`Dataset`), prepared for the network.
        batches: The choice of examples for each step.
        num_walkers: Number of walkers at all temperatures.
        convention: "posterior", L = N * mean loss, or "mean_loss", L = mean loss, as in TATi.
            Default: "posterior".
        walker_evaluation: "auto", "vectorized", "unrolled" or "looped". Default: "auto".
        training: Whether layers act as in Keras' training on a step's examples, with batch
            statistics, dropout and updated averages. Default: False.
        under_xla: Whether steps will be compiled by XLA, which changes what "auto" means. Default:
            False.
        fitting: Whether they act so on all data too. Else a pass on all data normalizes by the
            moving averages of each walker. Default: False.
        memory_limit: Bytes of inputs above which they are streamed, not kept as a tensor. Default:
            None, no limit.

    Attributes:
        scale: L divided by the mean loss.
        counted: The loss times the weights of the examples.
        chain: The model as a chain of dense layers, or None.

    Raises:
        InputError: Inputs are streamed, but layers that act differently in training need all
            examples at once.
    """

    full_chunk = 65_536
    """Examples times walkers that are evaluated at once where all data are."""
    examples_at_once = 32
    """Examples whose single gradients are in memory at a time."""
    vanishing = False

    def __init__(
        self,
        flat,
        loss: Loss,
        prior: Prior,
        dataset,
        batches,
        num_walkers: int,
        convention: str = "posterior",
        walker_evaluation: str = "auto",
        training: bool = False,
        under_xla: bool = False,
        fitting: bool = False,
        memory_limit: float | None = None,
    ) -> None:
        self.flat = flat
        self.loss = loss
        self.prior = prior
        self.dataset = dataset
        self.num_walkers = int(num_walkers)
        self.convention = convention
        self.under_xla = under_xla
        self.num_parameters = flat.num_parameters
        self.dtype = tf.as_dtype(flat.dtype)
        self.num_examples = dataset.num_examples
        self.scale = float(self.num_examples) if convention == "posterior" else 1.0
        self.training = training and flat.has_training_state
        self.fitting = self.training and fitting
        # What cannot be vectorized is told in notices().
        self._loops = (
            walker_evaluation == "vectorized"
            and not flat.vectorizable
            and not vectorizes(flat.model)
        )
        walker_evaluation = "auto" if self._loops else walker_evaluation
        self._asked_evaluation = walker_evaluation
        self._functions: dict[tuple, Any] = {}
        self.spectra: dict[
            bytes, Any
        ] = {}  # the noise of mini-batches at one place, by what it was measured with
        self.take_batches(batches)
        self.metric_name = "accuracy" if has_accuracy(dataset, loss) else None
        self.auxiliary = tuple(
            np.repeat(value[None], self.num_walkers, axis=0) for value in flat.auxiliary
        )
        self.signs = is_signs(dataset)
        self._limit = memory_limit
        labels = device_targets(dataset.targets, loss, self.dtype)
        self.counted = loss if dataset.weights is None else WeightedLoss(loss, labels)
        self.train = self._stored(dataset.inputs, labels, dataset.weights)
        self.streamed = self.train.streamed
        if self.streamed and self.training and batches.full:
            raise InputError(
                "batch_size: layers that behave differently in training need all "
                "examples at once, but these are streamed.",
                received="all examples",
                expected="a batch_size, or a larger memory_limit",
            )
        # Batch statistics, and dropped units, tie the examples of a batch together.
        chain = (
            None
            if self.training or loss.num_extra
            else chain_of(flat.model, flat.variables, flat.others)
        )
        self.chain = chain if chain is not None and chain.fits(self.train.x.shape[1:]) else None

    def _stored(
        self, inputs: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
    ) -> StoredExamples:
        if self.dataset.weights is not None:
            labels = WeightedLoss.packed(
                labels, np.ones(len(labels)) if weights is None else weights, self.dtype
            )
        return StoredExamples(
            inputs, labels, self.dataset.input_scale, self.flat.input_dtype, self._limit
        )

    @property
    def most_at_once(self) -> int:
        """Examples that a pass over all of them takes at a time."""
        return max(1, self.full_chunk // self.num_walkers)

    @cached_property
    def test(self) -> StoredExamples:
        dataset = self.dataset
        expected = "test_fraction above 0, or ((inputs, labels), (test inputs, test labels))"
        refuse_if(
            dataset.test_inputs is None,
            "data: there is no test set for validation.",
            dataset.name,
            expected,
        )
        labels = device_targets(dataset.test_targets, self.loss, self.dtype)
        with tf.init_scope():
            return self._stored(dataset.test_inputs, labels, dataset.test_weights)

    def take_batches(self, batches) -> None:
        self.batches = batches
        self.shared = batches.full or batches.shared
        batch_numbers = batches.batch_size * math.prod(self.dataset.inputs.shape[1:])
        moves_data = self.under_xla and batch_numbers > _MOVES_DATA * self.num_parameters
        # They do not stay in the cache together (784-100-10, batch 550, 4 walkers 3.4 ms a
        # gradient, looped 2.9).
        large = (
            self.under_xla
            and batch_numbers > _LARGE_BATCH
            and batch_numbers * self.num_walkers > _LARGE_BATCHES
        )
        decided = partial(
            choose,
            self._asked_evaluation,
            self.flat.vectorizable,
            self.num_walkers,
            recurrent=self.flat.recurrent,
            costly_copies=self.under_xla and len(self.flat.shapes) > 2,
        )
        of_batch = partial(
            decided, moves_data=moves_data, large=large, wide=self._wide(batches.batch_size)
        )

        self.walker_evaluation = of_batch(shared=self.shared, training=self.training)
        self._own_evaluation = of_batch(shared=False, training=False)
        self._full_evaluation = decided(
            shared=True, training=False, wide=self._wide(self.num_examples)
        )
        self._may_be_short = not batches.full and self.num_examples % batches.batch_size != 0

    def _wide(self, examples: int) -> bool:
        """Whether one product for all walkers is slower than one each: of many more units than
        inputs (8-50-1: 50 µs a walker and gradient, looped 29), or of few walkers with one output
        (30-1, 4 walkers: 9.6, unrolled 7.8).

        A layer that the cache holds for all walkers is not wide under XLA: a step of 8 walkers of
        8-16-16-2 on 824 rows takes 2.64 ms, unrolled 2.86 (in a graph 6.64 and 4.37).
        """
        inputs = math.prod(self.dataset.inputs.shape[1:])
        few = (
            self.under_xla and self.num_walkers < _FEW_WALKERS and self.num_parameters <= inputs + 1
        )
        numbers = self.num_walkers * examples * self.flat.widest
        cached = self.under_xla and numbers <= _CACHED
        many = self.num_parameters > max(4 * inputs**2, _MANY_UNITS * inputs / examples)
        return few or (many and not cached)

    def gather(self, batch: Batch | None):
        """Inputs and labels of a batch: ready for the model where walkers share them, else as
        stored, walkers first.
        """
        if batch is None:
            return self.prepared(self.train.x), self.train.y
        indices = batch.indices
        if self.training and self._may_be_short:
            # What fills up a short batch enters its statistics: its own examples do, not one that
            # is not in it.
            indices = tf.gather(indices, tf.range(indices.shape[1]) % batch.size, axis=1)
        if self.shared:
            x, y = self.train.gathered(indices[0])
            return self.prepared(x), y
        return self.train.gathered(indices)

    def prepared(self, x):
        return scaled(x, self.flat.input_dtype, self.dataset.input_scale)

    def energy(
        self,
        position,
        rung: Rung,
        batch: Batch | None,
        auxiliary: tuple,
        how: str | None = None,
        counting=False,
    ) -> tuple[Energy, tuple, Any]:
        """U and its gradient on one batch, or on all data at once.

        Args:
            position: Positions, (walkers, parameters).
            rung: Rung of each walker.
            batch: Examples of the step; None: all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
            how: Another walker evaluation than in the steps; layers then act as in prediction.
                Default: None, as in the steps.
            counting: Whether the accuracy is computed too, if possible. Default: False.

        Returns:
            U with its gradient, the updated non-trainable variables, and the accuracy, (walkers,).
            The accuracy is None without `counting`, if the run has training behavior, and for
            streamed inputs without a batch.
        """
        if batch is None and self.streamed:
            return self.full(position, rung, auxiliary), auxiliary, None
        x, y = self.gather(batch)
        size = None if batch is None else batch.size
        shared = self.shared or batch is None
        training = self.training and how is None
        how = how or self.walker_evaluation
        counting = counting and not self.training  # whose pass is not that of predictions
        mean_loss, gradient, auxiliary, right = self._mean_loss(
            position,
            x,
            y,
            size,
            auxiliary,
            shared=shared,
            how=how,
            training=training,
            counting=counting,
        )
        accuracy = (
            self._accuracy(right, size, y.shape[0] if shared else y.shape[1]) if counting else None
        )
        return self._with_prior(position, rung, mean_loss, gradient), auxiliary, accuracy

    def _with_prior(self, position, rung: Rung, mean_loss, gradient) -> Energy:
        energy = combine(
            mean_loss, gradient, self.prior, position, rung, self.scale, self.vanishing
        )
        if self.flat.regularizer is None:
            return energy
        value, gradient = self.regularizer(position)
        potential = energy.potential + value
        gradient = energy.gradient + gradient
        return energy._replace(
            potential=potential, gradient=gradient, log_prior=energy.log_prior - value
        )

    def losses_of(self, weights, labels, outputs):
        """The loss of each example times its weight in the data, (n,), float64.

        Args:
            weights: Tensors of one walker, the extra parameters of the objective last.
            labels: Labels as they are stored, (n, ...).
            outputs: Outputs of the model, (n, ...).
        """
        if count := self.loss.num_extra:
            losses = self.counted.per_example(labels, outputs, list(weights[-count:]))
        else:
            losses = self.counted.per_example(labels, outputs)
        return tf.cast(losses, tf.float64)

    def _example_weights(self, size, capacity: int):
        """Weight of an example in the mean over a batch, float64: a number, or `(n,)` if a batch
        may be short.
        """
        if size is None or not self._may_be_short:
            return tf.constant(1.0 / capacity, tf.float64)
        return (
            tf.cast(tf.range(capacity) < size, tf.float64)
            * self._share(size)
            / tf.cast(size, tf.float64)
        )

    def _share(self, size):
        """What the mean over a batch counts in the estimate of that over all examples, float64."""
        mean_size = self.batches.mean_size
        return (
            tf.constant(1.0, tf.float64)
            if mean_size is None
            else tf.cast(size, tf.float64) / mean_size
        )

    def summed_loss_and_gradient(
        self,
        position,
        x,
        y,
        weight,
        auxiliary,
        shared: bool,
        how: str,
        factor=1.0,
        training=False,
        counting=False,
    ) -> tuple:
        """The weighted sum of the losses of some examples for each walker, and its gradient.

        Args:
            position: Positions, (walkers, parameters).
            x: Inputs: prepared, (n, ...), where walkers share them, else as stored, (walkers, n,
                ...).
            y: Labels as they are stored, (n, ...) or (walkers, n, ...).
            weight: Weight of each loss in the sum: a number, or (n,), float64.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
            shared: Whether all walkers share the examples.
            how: Walker evaluation: "vectorized", "unrolled" or "looped".
            factor: Factor of the sum. Default: 1.
            training: Whether layers act as in training. Default: False.
            counting: Whether right predictions are counted. Default: False.

        Returns:
            Sums, (walkers,), float64, their gradients, (walkers, parameters), and the new
            non-trainable variables. With `counting` the sums are (walkers, 2): the sum, and the
            number of right examples.
        """

        def total(weights, extra, inputs, labels):
            # Converting one walker's bytes at a time keeps them in the cache.
            inputs = inputs if shared else self.prepared(inputs)
            outputs, new = self.flat.call(weights, extra, inputs, training=training)
            loss = factor * tf.reduce_sum(self.losses_of(weights, labels, outputs) * weight)
            return tf.stack(
                [loss, self._right(weights, labels, outputs, weight)]
            ) if counting else loss, new

        shape = (2,) if counting else ()
        sums, gradient, new = loss_and_gradient(
            how, total, self.flat.split(position), auxiliary, x, y, shared, shape
        )
        return sums, self.flat.free(gradient), new

    def _mean_loss(
        self,
        position,
        x,
        y,
        size,
        auxiliary,
        shared: bool,
        how: str,
        training=False,
        counting=False,
    ):
        """Mean loss of each walker, float64, the gradient of scale times it, the new auxiliary, and
        how many examples are right, None without `counting`.
        """
        weight = self._example_weights(size, y.shape[0] if shared else y.shape[1])
        summed = self._traced(how, shared, training, counting)
        sums, gradient, auxiliary = summed(position, x, y, weight, tuple(auxiliary))
        losses, right = tf.unstack(sums, axis=1) if counting else (sums, None)
        return losses / self.scale, gradient, auxiliary, right

    def _traced(self, *form) -> Callable:
        """Summed losses, gradients and new auxiliary of a batch: a function that is traced once for
        all graphs, and of recurrent layers once more for XLA: of their loops it takes no gradient
        that was made for others.
        """
        key = *form, self.flat.recurrent and UNDER_XLA.get()
        if key not in self._functions:
            how, shared, training, counting = form

            def evaluated(position, x, y, weight, auxiliary):
                def direct(position, x, y, weight):
                    return self.summed_loss_and_gradient(
                        position,
                        x,
                        y,
                        weight,
                        auxiliary,
                        shared=shared,
                        how=how,
                        factor=self.scale,
                        training=training,
                        counting=counting,
                    )

                if how == "vectorized" and self.under_xla:
                    shape = (position.shape[0], 2) if counting else None
                    return *once(
                        lambda *inputs: direct(*inputs)[:2], position, x, y, weight, shape=shape
                    ), auxiliary
                return direct(position, x, y, weight)

            self._functions[key] = tf.function(evaluated, autograph=False)
        function = self._functions[key]
        return function.python_function if tf.executing_eagerly() else function

    def full(self, position, rung: Rung, auxiliary: tuple) -> Energy:
        """U and its gradient on all data, in pieces where they are many.

        Losses are summed in float64. Layers act as in prediction.

        Args:
            position: Positions, (walkers, parameters).
            rung: Rung of each walker.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """
        if self.num_examples <= self.most_at_once and not self.streamed:
            return self.energy(position, rung, None, auxiliary, self._full_evaluation)[0]

        def part(x, y):
            x = self.prepared(x)
            how = self._full_evaluation
            loss, gradient, *_ = self._mean_loss(position, x, y, None, auxiliary, True, how)
            share = y.shape[0] / self.num_examples
            return loss * share, gradient * tf.constant(share, gradient.dtype)

        zeros = tf.zeros((position.shape[0],), tf.float64), tf.zeros_like(position)
        return self._with_prior(position, rung, *self.train.summed(self.most_at_once, part, zeros))

    def gradient_variance(self, position, rung: Rung, batch: Batch | None, auxiliary: tuple):
        """Variance of each entry of a mini-batch's estimate of ∇U, (walkers, parameters).

        For n of N examples it is (scale²/n) (1 - n/N) Var(∇ loss of an example), from the gradients
        of these examples. The factor (1 - n/N) is absent where examples are drawn with replacement.
        The cost is a gradient and a half in a `DenseChain`, else n gradients of single examples.

        Args:
            position: Positions, (walkers, parameters).
            rung: Rung of each walker.
            batch: Examples of the step. None: all data, without variance.
            auxiliary: Non-trainable variables, (walkers, *shape) each.

        Raises:
            InputError: A batch has one example, which gives no variance.
        """
        if batch is None:
            return tf.zeros_like(position)
        if self.chain is not None:
            return self.energy_and_variance(position, rung, batch, auxiliary)[1]
        refuse_single_examples(self.batches, self.num_examples)
        indices = tf.broadcast_to(batch.indices, (position.shape[0], batch.indices.shape[1]))

        def walker_variance(args):
            theta, indices_of_walker, extra = args
            return self._example_variance(theta, indices_of_walker, batch.size, extra)

        spread = tf.map_fn(
            walker_variance,
            (position, indices, tuple(auxiliary)),
            fn_output_signature=position.dtype,
        )
        return self._of_a_batch(spread, rung, batch)

    def _of_a_batch(self, spread, rung: Rung, batch: Batch):
        count = tf.cast(batch.size, tf.float64)
        unseen_share = (
            1.0 if self.batches.sampling == "replacement" else 1.0 - count / self.num_examples
        )
        weight = tf.cast(rung.likelihood_weight, tf.float64) * self._share(batch.size)
        return tf.cast(tf.square(weight) * unseen_share / count, spread.dtype)[:, None] * spread

    def _example_variance(self, theta, indices, size, extra: tuple):
        """Variance over the examples of a batch of scale times the gradient of one,
        `(parameters,)`.
        """
        how = "vectorized" if self.flat.vectorizable else "looped"

        def gradients(indices):
            count = indices.shape[0]
            x, y = self.train.gathered(indices[:, None])
            weights, extra_by_example = (
                tf.nest.map_structure(lambda v: tf.repeat(v[None], count, 0), v)
                for v in (theta, extra)
            )
            return self._mean_loss(weights, x, y, None, extra_by_example, False, how)[1]

        return variance_of_gradients(gradients, theta, indices, size, self.examples_at_once)

    def energy_and_variance(
        self, position, rung: Rung, batch: Batch, auxiliary: tuple
    ) -> tuple[Energy, Any]:
        """U, its gradient and the gradient's variance on one batch, for a model that is a chain.

        Args:
            position: Positions, (walkers, parameters).
            rung: Rung of each walker.
            batch: Examples of the step.
            auxiliary: Non-trainable variables, (walkers, *shape) each.

        Returns:
            U with its gradient, and the variances as `gradient_variance` gives them.
        """
        refuse_single_examples(self.batches, self.num_examples)
        x, y = self.gather(batch)
        counted = tf.cast(tf.range(batch.indices.shape[1]) < batch.size, tf.float64)
        shared = self.shared
        how = self.walker_evaluation
        if how == "vectorized" and not auxiliary:
            inputs = x if shared else self.prepared(x)
            weights = self.flat.split(position)
            spread = spread_in_chain(
                self.chain, self.counted, weights, (), inputs, y, shared, counted
            )
        else:

            def walker_spread(weights, extra, inputs, labels):
                inputs, labels = (
                    (inputs, labels) if shared else (self.prepared(inputs)[None], labels[None])
                )
                weights = [weight[None] for weight in weights]
                spread = spread_in_chain(
                    self.chain, self.counted, weights, extra, inputs, labels, shared, counted
                )
                return tf.nest.map_structure(lambda value: value[0], spread)

            types = [position.dtype] * len(self.flat.shapes)
            how = "looped" if how == "vectorized" else how
            signature = Spread(tf.float64, types, types)
            spread = map_walkers(
                how, walker_spread, self.flat.split(position), auxiliary, x, y, shared, signature
            )
        share = self._share(batch.size)
        gradient = tf.cast(self.scale * share, position.dtype) * self.flat.join(spread.slopes)
        energy = self._with_prior(position, rung, share * spread.loss, gradient)
        return energy, self._of_a_batch(
            self.scale**2 * self.flat.join(spread.variances), rung, batch
        )

    def regularizer(self, position) -> tuple:
        def summed(position):
            terms = (
                self.flat.regularizer(self.flat.split_one(theta)) for theta in tf.unstack(position)
            )
            return tf.stack([self.scale * tf.cast(term, tf.float64) for term in terms])

        return value_and_gradient(summed, position)

    def metric(self, position, batch: Batch | None, auxiliary: tuple):
        """The accuracy of each walker, (walkers,), float64; layers act as in prediction.

        Args:
            position: Positions, (walkers, parameters).
            batch: Examples that are counted; None: all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """
        if batch is None and self.streamed:
            return self._accuracy_of_all(position, auxiliary)
        x, y = self.gather(batch)
        shared = self.shared or batch is None
        size = None if batch is None else batch.size
        capacity = y.shape[0] if shared else y.shape[1]
        inputs = (position, x, y)
        weight = self._example_weights(size, capacity)
        right = self._passed(
            self._right, inputs, auxiliary, self.walker_evaluation, shared, (), weight
        )
        return self._accuracy(right, size, capacity)

    def _passed(
        self, function: Callable, inputs, auxiliary, how: str, shared: bool, shape: tuple, *more
    ):
        """`function(a walker's weights, labels, outputs, *more)` of each walker at positions,
        inputs and labels, float64 of that shape, without gradients.
        """

        def evaluated(position, x, y, *more):
            def walker_value(weights, extra, inputs, labels):
                outputs, _ = self.flat.call(
                    weights, extra, inputs if shared else self.prepared(inputs)
                )
                return function(weights, labels, outputs, *more)

            return map_walkers(
                how, walker_value, self.flat.split(position), auxiliary, x, y, shared
            ), position

        shape = (inputs[0].shape[0], *shape)
        if how == "vectorized" and self.under_xla:
            return once(evaluated, *inputs, *more, shape=shape)[0]
        return tf.ensure_shape(evaluated(*inputs, *more)[0], shape)

    def _right(self, _, labels, outputs, weight=1.0):
        """How many examples are right, of those of a weight above 0, float64."""
        right = tf.cast(self.counted.accuracy(labels, outputs, self.signs), tf.float64)
        return tf.reduce_sum(right * tf.cast(weight > 0, tf.float64))

    def _accuracy(self, right, size, capacity: int):
        # A sum of n times 1/n can be a little above 1. TensorFlow turns x / constant into x times
        # 1/constant, this not.
        count = capacity if size is None or not self._may_be_short else size
        return tf.math.divide_no_nan(right, tf.cast(count, tf.float64))

    def _accuracy_of_all(self, position, auxiliary: tuple):
        how = "looped" if self._full_evaluation == "vectorized" else self._full_evaluation

        def part(x, y):
            return (self.sums(position, x, y, auxiliary, how),)

        (sums,) = self.train.summed(
            self.most_at_once, part, (tf.zeros((position.shape[0], 2), tf.float64),)
        )
        return tf.math.divide_no_nan(sums[:, 1], tf.constant(self.num_examples, tf.float64))

    def sums(self, position, x, y, auxiliary: tuple, how: str):
        """Summed losses of some examples, and how many are right: (walkers, 2), float64.

        The second number is 0 unless the model is a classifier.

        Args:
            position: Positions, (walkers, parameters).
            x: Inputs as they are stored, (n, ...), the same for all walkers.
            y: Labels as they are stored, (n, ...).
            auxiliary: Non-trainable variables, (walkers, *shape) each.
            how: Walker evaluation: "vectorized", "unrolled" or "looped".
        """

        def both(weights, labels, outputs):
            loss = tf.reduce_sum(self.losses_of(weights, labels, outputs))
            return tf.stack(
                [
                    loss,
                    self._right(weights, labels, outputs)
                    if self.metric_name
                    else tf.zeros_like(loss),
                ]
            )

        return self._passed(both, (position, self.prepared(x), y), auxiliary, how, True, (2,))

    def validation(self, position, auxiliary: tuple):
        """Mean loss of each walker on the test set, (walkers,), float64; no gradient.

        Args:
            position: Positions, (walkers, parameters).
            auxiliary: Non-trainable variables, (walkers, *shape) each.

        Raises:
            InputError: There is no test set.
        """
        return self._mean_over(self.test, position, auxiliary)

    def mean_loss(self, position, auxiliary: tuple):
        """Mean loss of each walker on all data, (walkers,), float64; no gradient.

        Args:
            position: Positions, (walkers, parameters).
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """
        return self._mean_over(self.train, position, auxiliary)

    def _mean_over(self, examples: StoredExamples, position, auxiliary: tuple):
        def part(x, y):
            return (tf.reduce_sum(self._losses(position, x, y, auxiliary), axis=1),)

        (total,) = examples.summed(
            self.most_at_once, part, (tf.zeros(position.shape[:1], tf.float64),)
        )
        return total / examples.count

    def losses_of_test(self, position: Any, auxiliary: tuple) -> Any:
        """Loss of each example of the test set for each walker, (walkers, n), float64.

        Args:
            position: Positions, (walkers, parameters).
            auxiliary: Non-trainable variables, (walkers, *shape) each.

        Raises:
            InputError: There is no test set.
        """
        return self._losses(position, self.test.x, self.test.y, auxiliary)

    def examples(self, position, indices, auxiliary: tuple):
        """Loss of some training examples for each walker, (walkers, n), float64.

        Args:
            position: Positions, (walkers, parameters).
            indices: Indices of the examples: (n,), or (walkers, n) for other examples in each
                walker.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """
        x, y = self.train.gathered(indices)
        return self._losses(position, x, y, auxiliary, len(indices.shape) == 1)

    def _losses(self, position, x, y, auxiliary: tuple, shared: bool = True):
        """Loss of each of the examples, of all walkers or each walker's own, as stored: `(walkers,
        n)`, float64.
        """
        x = self.prepared(x) if shared else x
        how = self._full_evaluation if shared else self._own_evaluation
        return self._passed(
            self.losses_of, (position, x, y), auxiliary, how, shared, (y.shape[0 if shared else 1],)
        )

    def log_prior(self, position):
        """-V of each walker, the model's regularizers included, `(walkers,)`, float64."""
        log_prior = self.prior.log_prob(position)
        return (
            log_prior
            if self.flat.regularizer is None
            else log_prior - self.regularizer(position)[0]
        )
