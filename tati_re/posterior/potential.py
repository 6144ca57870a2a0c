"""The potential of a Keras model and its data: U = λ L + V, L = N * mean loss, V = -log prior."""

from __future__ import annotations

import copy
import math
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.potential import Batch, Potential, Prior
from tati_re.core.protocol import Clock, Energy, Rung
from tati_re.models.chain import chain_of
from tati_re.models.inspect import vectorizes
from tati_re.posterior.binding import ModelEvaluate
from tati_re.posterior.device_data import device_targets, has_accuracy, is_signs
from tati_re.posterior.example_variance import (
    Spread,
    refuse_single_examples,
    spread_in_chain,
    variance_of_gradients,
)
from tati_re.posterior.examples import StreamedInputs, device_bytes, device_inputs, rows_at_once, taken
from tati_re.posterior.function import combine
from tati_re.posterior.losses import Loss
from tati_re.posterior.priors.choosing import unconfined
from tati_re.posterior.walkers import choose, loss_and_gradient, map_walkers, once
from tati_re.posterior.weighted import WeightedLoss

_MOVES_DATA = 16


class ModelPotential(Potential):
    """The potential that a model, a loss, a prior and a data set make.

    Args:
        flat: The model as a function of a flat vector (`FlatModel`).
        loss: One value an example.
        prior: V.
        dataset: Inputs and labels (`tati_re.data.Dataset`).
        batches: The mini-batches (`tati_re.data.Batches`).
        num_walkers: W.
        convention: "posterior": L = N * mean loss; "mean_loss": L = mean loss, TATi's convention.
        walker_evaluation: "auto", "vectorized", "unrolled" or "looped".
        under_xla: The steps will be compiled by XLA, which changes what "auto" means.
        training: The forward pass on the examples of a step is Keras' training one: batch statistics, dropout, moving
            averages updated.
        fitting: So is one on all data, for `fit`; else it normalizes by the moving averages of each walker.
        memory_limit: Bytes of inputs that are kept as a tensor at most; what is larger is streamed. Default: all.

    Attributes:
        scale: L over the mean loss: N, or 1.
        counted: The loss, times the weight of each example where the data have weights.
        auxiliary: Start values of Keras' non-trainable variables, `(walkers, *shape)` each.
        chain: The model as a chain of dense layers (`chain_of`), `None` where it is none.
    """

    full_chunk = 65_536
    """Examples times walkers that are evaluated at once where all data are."""

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
        self.flat, self.loss, self.prior, self.dataset = flat, loss, prior, dataset
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
        self._loops = walker_evaluation == "vectorized" and not flat.vectorizable and not vectorizes(flat.model)
        walker_evaluation = "auto" if self._loops else walker_evaluation
        self._asked_evaluation = walker_evaluation
        self._take(batches)
        self._full_evaluation = choose(walker_evaluation, flat.vectorizable, self.num_walkers, True, False)
        self.signs = is_signs(dataset)
        self.metric_name = "accuracy" if has_accuracy(dataset, loss) else None
        self.auxiliary = tuple(np.repeat(value[None], self.num_walkers, axis=0) for value in flat.auxiliary)
        self._limit = memory_limit
        self._x = device_inputs(dataset.inputs, dataset.input_scale, flat.input_dtype, memory_limit)
        self.streamed = isinstance(self._x, StreamedInputs)
        if self.streamed and self.training and batches.full:
            raise InputError(
                "batch_size: layers that act otherwise while training need their examples at once, which are streamed.",
                received="all examples",
                expected="a batch_size, or a larger memory_limit",
            )
        labels = device_targets(dataset.targets, loss, self.dtype)
        self.counted = loss if dataset.weights is None else WeightedLoss(loss, labels)
        self._y = tf.constant(self._counted_labels(labels, dataset.weights))
        # Batch statistics, and dropped units, tie the examples of a batch together.
        chain = None if self.training or loss.samples_noise else chain_of(flat.model, flat.variables, flat.others)
        self.chain = chain if chain is not None and chain.fits(self._x.shape[1:]) else None

    def _counted_labels(self, labels: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
        """Labels as `counted` takes them; without weights, all count once."""
        if self.dataset.weights is None:
            return labels
        weights = np.ones(len(labels)) if weights is None else weights
        return WeightedLoss.packed(labels, weights, self.dtype)

    def with_batches(self, batches) -> ModelPotential:
        """The same potential on other mini-batches; both hold the data, once."""
        other = copy.copy(self)
        other._take(batches)
        return other

    def _take(self, batches) -> None:
        """Sets up everything that depends on the mini-batches."""
        self.batches = batches
        self.shared = batches.full or batches.shared
        batch_numbers = batches.batch_size * math.prod(self.dataset.inputs.shape[1:])
        moves_data = self.under_xla and batch_numbers > _MOVES_DATA * self.num_parameters
        self.walker_evaluation = choose(
            self._asked_evaluation,
            self.flat.vectorizable,
            self.num_walkers,
            self.shared,
            self.training,
            moves_data,
        )
        self._may_be_short = not batches.full and self.num_examples % batches.batch_size != 0

    @property
    def parameter_names(self) -> list[str]:
        return self.flat.parameter_names()

    def bind(
        self, rung: Rung, batch: Batch | None = None, auxiliary: tuple = (), clock: Clock | None = None
    ) -> ModelEvaluate:
        """The potential as a step sees it; without a batch, all data."""
        return ModelEvaluate(self, rung, batch, auxiliary, clock)

    def gather(self, batch: Batch | None):
        """Inputs and labels of a batch: ready for the model where walkers share them, else as stored, walkers first."""
        if batch is None:
            return self.prepared(self._x), self._y
        indices = batch.indices
        if self.training and self._may_be_short:
            # What fills up a short batch enters its statistics: its own examples do, not one that is not in it.
            indices = tf.gather(indices, tf.range(indices.shape[1]) % batch.size, axis=1)
        if self.shared:
            return self.prepared(taken(self._x, indices[0])), tf.gather(self._y, indices[0])
        return taken(self._x, indices), tf.gather(self._y, indices)

    def prepared(self, x):
        """Stored inputs in the type and scale that the model takes."""
        x = tf.cast(x, self.flat.input_dtype)
        scale = self.dataset.input_scale
        return x if scale == 1.0 else x * tf.constant(scale, x.dtype)

    def energy(
        self, position, rung: Rung, batch: Batch | None, auxiliary: tuple, how: str | None = None
    ) -> tuple[Energy, tuple]:
        """U and its gradient on one batch (or on all data at once), and the updated auxiliary.

        Where the walkers are to be evaluated in another way than the steps are, the layers act as in prediction.
        """
        if batch is None and self.streamed:
            return self.full(position, rung, auxiliary), auxiliary
        x, y = self.gather(batch)
        size, shared = None if batch is None else batch.size, self.shared or batch is None
        training, how = self.training and how is None, how or self.walker_evaluation
        mean_loss, slope, auxiliary = self._mean_loss(position, x, y, size, auxiliary, shared, how, training)
        return self._with_prior(position, rung, mean_loss, slope), auxiliary

    def _with_prior(self, position, rung: Rung, mean_loss, slope) -> Energy:
        energy = combine(mean_loss, slope, self.prior, position, rung, self.scale)
        if self.flat.regularizer is None:
            return energy
        value, gradient = self._regularizer(position)
        return energy._replace(
            potential=energy.potential + value, gradient=energy.gradient + gradient, log_prior=energy.log_prior - value
        )

    def losses_of(self, weights, labels, outputs):
        """The loss of each example, float64; noise that is sampled is the last of the weights."""
        noise = (weights[-1],) if self.loss.samples_noise else ()
        return tf.cast(self.counted.per_example(labels, outputs, *noise), tf.float64)

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of run.csv that belong to this potential: functions of positions `(walkers, parameters)`."""
        return {"noise_std": lambda position: tf.exp(position[:, -1])} if self.loss.samples_noise else {}

    def _example_weights(self, size, capacity: int):
        """Weight of an example in the mean over a batch, float64: a number, or `(n,)` if a batch may be short."""
        if size is None or not self._may_be_short:
            return tf.constant(1.0 / capacity, tf.float64)
        return tf.cast(tf.range(capacity) < size, tf.float64) / tf.cast(size, tf.float64)

    def _mean_loss(self, position, x, y, size, auxiliary: tuple, shared: bool, how: str, training: bool = False):
        """Mean loss of each walker, float64, and the gradient of scale times it."""

        def evaluated(position, x, y, weight):
            def total(weights, extra, inputs, labels):
                # Converting one walker's bytes at a time keeps them in the cache.
                inputs = inputs if shared else self.prepared(inputs)
                outputs, new = self.flat.call(weights, extra, inputs, training=training)
                losses = self.losses_of(weights, labels, outputs)
                return self.scale * tf.reduce_sum(losses * weight), new

            losses, slope, new = loss_and_gradient(how, total, self.flat.split(position), auxiliary, x, y, shared)
            return losses, self.flat.free(slope), new

        inputs = position, x, y, self._example_weights(size, y.shape[0] if shared else y.shape[1])
        if how == "vectorized" and self.under_xla:
            losses, slope = once(lambda *inputs: evaluated(*inputs)[:2], *inputs)
        else:
            losses, slope, auxiliary = evaluated(*inputs)
        return losses / self.scale, slope, auxiliary

    def full(self, position, rung: Rung, auxiliary: tuple) -> Energy:
        """U and its gradient on all data, in pieces where they are many, losses summed in float64."""
        piece = self._rows_at_once(self._x)
        count = self.num_examples
        if count <= piece and not self.streamed:
            return self.energy(position, rung, None, auxiliary, self._full_evaluation)[0]

        def body(start, loss, slope):
            indices = start + tf.range(piece)
            part, gradient = self._part(position, taken(self._x, indices), tf.gather(self._y, indices), auxiliary)
            return start + piece, loss + part, slope + gradient

        whole = count - count % piece
        state = (tf.constant(0), tf.zeros((position.shape[0],), tf.float64), tf.zeros_like(position))
        _, loss, slope = tf.while_loop(lambda start, *_: start < whole, body, state)
        if whole < count:
            part, gradient = self._part(position, self._x[whole:], self._y[whole:], auxiliary)
            loss, slope = loss + part, slope + gradient
        return self._with_prior(position, rung, loss, slope)

    def _part(self, position, x, y, auxiliary: tuple):
        """Contribution of some examples to the mean loss of all, and to its gradient."""
        loss, slope, _ = self._mean_loss(position, self.prepared(x), y, None, auxiliary, True, self._full_evaluation)
        share = y.shape[0] / self.num_examples
        return loss * share, slope * tf.constant(share, slope.dtype)

    def gradient_variance(self, position, rung: Rung, batch: Batch | None, auxiliary: tuple):
        """Variance of each entry of a mini-batch's estimate of ∇U, from the gradients of its examples.

        A batch of n examples drawn without replacement from N has the variance (scale²/n) (1 - n/N) Var(∇ loss of an
        example); drawn with replacement the factor (1 - n/N) is absent. Costs a gradient and a half where the model is
        a `DenseChain`, else n gradients of single examples.

        Returns:
            `(walkers, parameters)`, in the type of the parameters.

        Raises:
            InputError: A batch, or the last one of an epoch, has one example, which has no variance.
        """
        if batch is None:
            return tf.zeros_like(position)
        if self.chain is not None:
            return self.energy_and_variance(position, rung, batch, auxiliary)[1]
        refuse_single_examples(self.batches, self.num_examples)
        indices = tf.broadcast_to(batch.indices, (position.shape[0], batch.indices.shape[1]))

        def one(args):
            theta, own, extra = args
            return self._example_variance(theta, own, batch.size, extra)

        spread = tf.map_fn(one, (position, indices, tuple(auxiliary)), fn_output_signature=position.dtype)
        return self._of_a_batch(spread, rung, batch)

    def _of_a_batch(self, spread, rung: Rung, batch: Batch):
        """The variance of a mini-batch's estimate of ∇U from that of scale times the gradient of one example."""
        count = tf.cast(batch.size, tf.float64)
        rest = 1.0 if self.batches.sampling == "replacement" else 1.0 - count / self.num_examples
        factor = tf.square(tf.cast(rung.likelihood_weight, tf.float64)) * rest / count
        return tf.cast(factor, spread.dtype)[:, None] * spread

    def _example_variance(self, theta, indices, size, extra: tuple):
        """Variance over the examples of a batch of scale times the gradient of one, `(parameters,)`."""
        how = "vectorized" if self.flat.vectorizable else "looped"

        def gradients(indices):
            count = indices.shape[0]
            x, y = taken(self._x, indices[:, None]), tf.gather(self._y, indices[:, None])
            weights, own = (
                tf.nest.map_structure(lambda v: tf.repeat(v[None], count, axis=0), v) for v in (theta, extra)
            )
            return self._mean_loss(weights, x, y, None, own, False, how)[1]

        return variance_of_gradients(gradients, theta, indices, size)

    def energy_and_variance(self, position, rung: Rung, batch: Batch, auxiliary: tuple) -> tuple[Energy, Any]:
        """U, its gradient and the variance of that on one batch, for a model that is a chain."""
        refuse_single_examples(self.batches, self.num_examples)
        x, y = self.gather(batch)
        capacity = batch.indices.shape[1]
        counted = tf.cast(tf.range(capacity) < batch.size, tf.float64)
        shared, how = self.shared, self.walker_evaluation
        if how == "vectorized" and not auxiliary:
            inputs = x if shared else self.prepared(x)
            weights = self.flat.split(position)
            spread = spread_in_chain(self.chain, self.counted, weights, (), inputs, y, shared, counted)
        else:

            def one(weights, extra, inputs, labels):
                inputs, labels = (inputs, labels) if shared else (self.prepared(inputs)[None], labels[None])
                weights = [weight[None] for weight in weights]
                found = spread_in_chain(self.chain, self.counted, weights, extra, inputs, labels, shared, counted)
                return tf.nest.map_structure(lambda value: value[0], found)

            types = [position.dtype] * len(self.flat.shapes)
            how = "looped" if how == "vectorized" else how
            signature = Spread(tf.float64, types, types)
            spread = map_walkers(how, one, self.flat.split(position), auxiliary, x, y, shared, signature)
        slope = self.scale * self.flat.join(spread.slopes)
        energy = self._with_prior(position, rung, spread.loss, slope)
        return energy, self._of_a_batch(self.scale**2 * self.flat.join(spread.variances), rung, batch)

    def _regularizer(self, position):
        with tf.GradientTape() as tape:
            tape.watch(position)
            values = tf.stack(
                [
                    self.scale * tf.cast(self.flat.regularizer(self.flat.split_one(theta)), tf.float64)
                    for theta in tf.unstack(position)
                ]
            )
        return values, tape.gradient(values, position, unconnected_gradients="zero")

    def metric(self, position, batch: Batch | None, auxiliary: tuple):
        """Accuracy of each walker on a batch, `(walkers,)`, float64."""
        if batch is None and self.streamed:
            return self._accuracy_of_all(position, auxiliary)
        x, y = self.gather(batch)
        shared = self.shared or batch is None

        def evaluated(position, x, y, weight):
            def accuracy(weights, extra, inputs, labels):
                outputs, _ = self.flat.call(weights, extra, inputs if shared else self.prepared(inputs))
                return tf.reduce_sum(tf.cast(self.counted.accuracy(labels, outputs, self.signs), tf.float64) * counts)

            counts = tf.cast(weight > 0, tf.float64)
            return map_walkers(self.walker_evaluation, accuracy, self.flat.split(position), auxiliary, x, y, shared)

        size, capacity = None if batch is None else batch.size, y.shape[0] if shared else y.shape[1]
        inputs = position, x, y, self._example_weights(size, capacity)
        if self.walker_evaluation != "vectorized" or not self.under_xla:
            right = evaluated(*inputs)
        else:
            right = once(lambda *inputs: (evaluated(*inputs), tf.zeros_like(position)), *inputs)[0]
        # A sum of n times 1/n can be a little above 1. TensorFlow turns x / constant into x times 1/constant, this not.
        count = capacity if size is None or not self._may_be_short else size
        return tf.math.divide_no_nan(right, tf.cast(count, tf.float64))

    def _accuracy_of_all(self, position, auxiliary: tuple):
        """Accuracy on all examples, piece by piece."""
        weights, count = self.flat.split(position), self.num_examples
        how = "looped" if self._full_evaluation == "vectorized" else self._full_evaluation

        def correct(weights, extra, inputs, labels):
            outputs, _ = self.flat.call(weights, extra, inputs)
            return tf.reduce_sum(tf.cast(self.counted.accuracy(labels, outputs, self.signs), tf.float64))

        def of(indices):
            x, y = self.prepared(taken(self._x, indices)), tf.gather(self._y, indices)
            return map_walkers(how, correct, weights, auxiliary, x, y, True)

        piece = self._rows_at_once(self._x)
        whole = count - count % piece
        begin = (tf.constant(0), tf.zeros(position.shape[:1], tf.float64))
        _, total = tf.while_loop(
            lambda start, _: start < whole,
            lambda start, total: (start + piece, total + of(start + tf.range(piece))),
            begin,
        )
        right = total if whole == count else total + of(whole + tf.range(count - whole))
        return tf.math.divide_no_nan(right, tf.constant(count, tf.float64))

    @cached_property
    def _test(self) -> tuple:
        """Inputs and labels of the test part, as stored."""
        dataset = self.dataset
        if dataset.test_inputs is None:
            raise InputError(
                "data: there is no test part to validate on.",
                received=dataset.name,
                expected="test_fraction above 0, or ((inputs, labels), (test inputs, test labels))",
            )
        with tf.init_scope():
            x = device_inputs(dataset.test_inputs, dataset.input_scale, self.flat.input_dtype, self._limit)
            labels = device_targets(dataset.test_targets, self.loss, self.dtype)
            return x, tf.constant(self._counted_labels(labels, dataset.test_weights))

    def _rows_at_once(self, inputs) -> int:
        return rows_at_once(inputs, max(1, self.full_chunk // self.num_walkers), self._limit)

    def validation(self, position, auxiliary: tuple):
        """Mean loss of each walker on the test part of the data, layers as in prediction, `(walkers,)`, float64."""
        x, y = self._test
        piece, count = self._rows_at_once(x), x.shape[0]
        how = "looped" if self._full_evaluation == "vectorized" else self._full_evaluation

        def part(inputs, labels):
            def total(weights, extra, inputs, labels):
                outputs, _ = self.flat.call(weights, extra, inputs)
                return tf.reduce_sum(self.losses_of(weights, labels, outputs))

            weights = self.flat.split(position)
            return map_walkers(how, total, weights, auxiliary, self.prepared(inputs), labels, True)

        sums = [part(x[start : start + piece], y[start : start + piece]) for start in range(0, count, piece)]
        return tf.add_n(sums) / count

    def mean_loss(self, position, auxiliary: tuple):
        """Mean loss of each walker on all data, `(walkers,)`, float64; no gradient."""
        piece, count = self._rows_at_once(self._x), self.num_examples
        whole = count - count % piece

        def body(start, sums):
            losses = self.examples(position, start + tf.range(piece), auxiliary)
            return start + piece, sums + tf.reduce_sum(losses, axis=1)

        begin = (tf.constant(0), tf.zeros(position.shape[:1], tf.float64))
        _, sums = tf.while_loop(lambda start, _: start < whole, body, begin)
        if whole < count:
            sums = sums + tf.reduce_sum(self.examples(position, whole + tf.range(count - whole), auxiliary), axis=1)
        return sums / count

    def examples(self, position, indices, auxiliary: tuple):
        """Loss of the examples `(n,)` for each walker, `(walkers, n)`, float64."""
        x, y = self.prepared(taken(self._x, indices)), tf.gather(self._y, indices)

        def one(weights, extra, inputs, labels):
            outputs, _ = self.flat.call(weights, extra, inputs)
            return self.losses_of(weights, labels, outputs)

        def evaluated(position, x, y):
            return map_walkers(self._full_evaluation, one, self.flat.split(position), auxiliary, x, y, True)

        shape = (position.shape[0], indices.shape[0])
        if self._full_evaluation != "vectorized" or not self.under_xla:
            return tf.ensure_shape(evaluated(position, x, y), shape)
        return once(lambda *inputs: (evaluated(*inputs), inputs[0]), position, x, y, shape=shape)[0]

    def log_prior(self, position):
        """-V of each walker, the model's regularizers included, `(walkers,)`, float64."""
        log_prior = self.prior.log_prob(position)
        return log_prior if self.flat.regularizer is None else log_prior - self._regularizer(position)[0]

    def describe(self, batch: str | None = None) -> str:
        """Describes U at the start of a run; `batch`: the examples of a step, if they change."""
        count = f"{self.num_examples} * the mean loss"
        if self.convention == "mean_loss":
            count = f"the mean loss, without the factor N = {self.num_examples}"
        if batch is None:
            batch = "all examples" if self.batches.full else f"mini-batches of {self.batches.batch_size} examples"
        words = f"U = L + V; L = {count} ({self.loss.words}), from {batch}; V = -log prior, {self.prior}"
        if self.dataset.weights is not None:
            total = self.dataset.weights.sum()
            words += f"; the loss of each example times its weight, weights with the sum {total:g} for N = "
            words += f"{self.num_examples} examples"
        if self.flat.regularizer is not None:
            words += f", and {self.scale:g} times the model's weight regularisers"
        return words

    def notices(self) -> list[str]:
        """Sentences that a user should read before the run."""
        said = []
        if self._loops:
            said.append("The layers of this model cannot be vectorized over walkers, which are computed one by one.")
        if self.streamed:
            size = device_bytes(self.dataset.inputs, self.dataset.input_scale, self.flat.input_dtype)
            said.append(
                f"Inputs of {size / 1e6:,.3g} megabytes are more than memory_limit: each step reads the examples of "
                "its batch, in a graph and not under XLA."
            )
        if sentence := unconfined(self.prior, self.flat.tensor_names, self.flat.regularized):
            said.append(sentence)
        if self.convention == "posterior" and not self.loss.likelihood:
            implied = self.loss.implied_noise(int(np.prod(self.dataset.targets.shape[1:], dtype=int)) or 1)
            said.append(
                implied
                or f"The loss {self.loss.name} is not a likelihood with its constant: "
                "exp(-N * mean loss) is sampled as it stands."
            )
        return said
