"""The network that learns the predictions of others."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.user_input import seeded
from tati_re.likelihoods.location_scale import LocationScale
from tati_re.posterior.predictive import CLASSES
from tati_re.prediction.network import Network

_BATCH = 64
"""Inputs of each kind in a step."""
_LEARNING_RATE = 0.01
_LEAST_WIDTH = 1e-6
"""Of a prediction, in units of the deviation of the targets."""


class Targets(NamedTuple):
    """What is learned at some inputs.

    Attributes:
        inputs: As the network takes them, shape (n, ...).
        values: Means in the units of the data, shape (n, targets), or probabilities, (n, classes).
        widths: Standard deviations, shape (n, targets); None for classes.
    """

    inputs: np.ndarray
    values: np.ndarray
    widths: np.ndarray | None


class Student:
    """A network of dense layers that learns the predictions of the draws of a run.

    Args:
        network: The network of the run.
        hidden: Units of the hidden layers.
        seed: Seed of the weights and of the order of the inputs.
    """

    def __init__(self, network: Network, hidden: tuple[int, ...], seed: int) -> None:
        from tati_re.models.build import build_network
        from tati_re.models.flat import FlatModel

        predictive = network.predictive
        self._predictive = predictive
        self._seed = seed
        self._of_classes = predictive.kind == CLASSES
        self._has_own_units = isinstance(predictive.objective, LocationScale)
        count = predictive.num_columns if self._of_classes else 2 * predictive.num_columns
        if predictive.task == "signs":
            count = 1
        shape = [int(length or 1) for length in network.input_shape]
        dtype = str(network.flat.dtype)
        model = build_network(shape, count, hidden, "tanh", dtype=dtype, seed=seed)
        self.flat: Any = FlatModel(model)

    @property
    def vector(self) -> np.ndarray:
        """The parameters, shape (P,)."""
        return self.flat.get()

    def train(self, kinds: dict[str, Targets], num_steps: int) -> None:
        """Minimizes the mean divergence from what is learned, with the same weight for each kind.

        Inputs are standardized for the time of the training; the first layer takes that over.

        Args:
            kinds: Inputs of several kinds, and what is learned there.
            num_steps: Steps of Adam with a rate that falls to 0.
        """
        from tati_re.core.backend import keras, tf

        model = self.flat.model
        dtype = self.flat.dtype
        flat = [part.inputs.reshape(len(part.inputs), -1) for part in kinds.values()]
        together = np.concatenate(flat).astype(np.float64)
        center = together.mean(axis=0)
        width = together.std(axis=0)
        width = np.where(width > 0, width, 1.0)
        inputs = [((part - center) / width).astype(dtype) for part in flat]
        shape = model.input_shape[1:]
        learned = [self._learned(part).astype(dtype) for part in kinds.values()]
        rate = keras.optimizers.schedules.CosineDecay(_LEARNING_RATE, num_steps)
        optimizer = keras.optimizers.Adam(rate)
        optimizer.build(model.trainable_variables)

        @tf.function(autograph=False)
        def step(x: Any, y: Any) -> None:
            with tf.GradientTape() as tape:
                loss = self._divergence(y, model(x, training=True))
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

        random = seeded(self._seed)
        for _ in range(num_steps):
            chosen = [random.integers(len(part), size=_BATCH) for part in inputs]
            x = np.concatenate([part[rows] for part, rows in zip(inputs, chosen, strict=True)])
            y = np.concatenate([part[rows] for part, rows in zip(learned, chosen, strict=True)])
            step(tf.constant(x.reshape(len(x), *shape)), tf.constant(y))
        self._take_over(center, width)
        if self._has_own_units:
            self._take_over_targets()

    def _units(self) -> tuple[Any, Any]:
        """Center and deviation of the targets, in whose units the network learns."""
        if self._has_own_units:
            return self._predictive.objective.location, self._predictive.objective.scale
        return self._predictive.mean, self._predictive.deviation

    def _learned(self, part: Targets) -> np.ndarray:
        """Means and deviations in units of the deviation of the targets, or probabilities."""
        if part.widths is None:
            return part.values[:, 1:] if self._predictive.task == "signs" else part.values
        center, scale = self._units()
        mean = (part.values - center) / scale
        return np.concatenate([mean, np.maximum(part.widths / scale, _LEAST_WIDTH)], axis=1)

    def _divergence(self, learned: Any, outputs: Any) -> Any:
        """The Kullback-Leibler divergence but for a constant, averaged over inputs."""
        from tati_re.core.backend import tf

        if self._predictive.task == "signs":
            losses = tf.nn.sigmoid_cross_entropy_with_logits(learned, outputs)
            return tf.reduce_mean(losses)
        if self._of_classes:
            return -tf.reduce_mean(
                tf.reduce_sum(learned * tf.nn.log_softmax(outputs, axis=-1), axis=-1)
            )
        mean, log_width = tf.split(outputs, 2, axis=-1)
        center, width = tf.split(learned, 2, axis=-1)
        # Relative to the width that is learned: far outside the data it spans powers of ten.
        log_ratio = log_width - tf.math.log(width)
        away = tf.square((center - mean) / width)
        divergences = 0.5 * (1 + away) * tf.exp(-2 * log_ratio) + log_ratio
        return tf.reduce_mean(tf.reduce_sum(divergences, axis=-1))

    def _take_over(self, center: np.ndarray, width: np.ndarray) -> None:
        """Gives the first layer the standardization of the inputs."""
        first = next(layer for layer in self.flat.model.layers if layer.weights)
        kernel, bias = (np.asarray(values, np.float64) for values in first.get_weights())
        scaled = kernel / width[:, None]
        first.set_weights([scaled, bias - center @ scaled])

    def _take_over_targets(self) -> None:
        """Gives the last layer the units of the targets, which such a run does not standardize."""
        center, scale = self._units()
        last = [layer for layer in self.flat.model.layers if layer.weights][-1]
        kernel, bias = (np.asarray(values, np.float64) for values in last.get_weights())
        means = slice(0, len(bias) // 2)
        kernel[:, means] *= scale
        bias[means] = bias[means] * scale + center
        bias[means.stop :] += np.log(scale)
        last.set_weights([kernel, bias])
