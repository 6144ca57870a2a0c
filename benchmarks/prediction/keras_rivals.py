"""Rivals made of plain Keras networks: an ensemble, MC dropout, a Laplace last layer."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.prediction.budget import Budget
from benchmarks.prediction.cases import Case
from benchmarks.prediction.scores import Distribution, Shares, Standard

_HIDDEN = (16, 16)
_DROPOUT_HIDDEN = (50, 50)
_DROPOUT = 0.05
_PASSES = 200
_LEARNING_RATE = 0.01
_BATCH = 100
_EPOCHS = 2_000
_PATIENCE = 100
_VALIDATION_SHARE = 0.1
_PREDICTION_SHARE = 0.1
_LEAST_LOG_STD = -7.0


def ensemble(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """Networks of two layers of 16, one after the other while there is time for one more."""
    problem = _Problem(case)
    outputs: list[np.ndarray] = []
    took = 0.0
    while not outputs or budget.left > took:
        before = budget.used
        model = problem.model(_HIDDEN, seed=len(outputs))
        problem.fit(model, budget, seed=len(outputs))
        outputs.append(np.asarray(model(problem.test_inputs)))
        took = budget.used - before
    return problem.distribution(np.stack(outputs)), len(outputs)


def mc_dropout(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """One network with dropout of 5 % before each layer, also while it predicts (200 passes)."""
    problem = _Problem(case)
    model = problem.model(_DROPOUT_HIDDEN, seed=0, dropout=_DROPOUT, activation="relu")
    problem.fit(model, budget, seed=0)
    passes = [np.asarray(model(problem.test_inputs, training=True)) for _ in range(_PASSES)]
    return problem.distribution(np.stack(passes)), _PASSES


def laplace_last_layer(case: Case, budget: Budget) -> tuple[Distribution, int]:
    """One network; the posterior of its last layer and of the noise by the evidence, exact."""
    import keras

    problem = _Problem(case)
    model = problem.model(_HIDDEN, seed=0, outputs=1)
    problem.fit(model, budget, seed=0)
    features = keras.Model(model.input, model.layers[-2].output)
    known = _with_constant(np.asarray(features(problem.inputs)))
    unknown = _with_constant(np.asarray(features(problem.test_inputs)))
    mean, std = linear_posterior(known, problem.targets, unknown)
    return problem.standard.restore(mean[None], std[None]), 1


def _with_constant(values: np.ndarray) -> np.ndarray:
    return np.column_stack([values.astype(np.float64), np.ones(len(values))])


def linear_posterior(
    features: np.ndarray, targets: np.ndarray, new: np.ndarray, rounds: int = 200
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions of a Bayesian linear model whose two precisions maximize the evidence.

    Source: MacKay, Neural Computation 4 (1992), 415.

    Args:
        features: Shape (n, columns).
        targets: Shape (n,).
        new: Features of the rows to predict, shape (m, columns).
        rounds: Updates of the precisions.

    Returns:
        Mean and standard deviation of new observations, shape (m,) each.
    """
    values, vectors = np.linalg.eigh(features.T @ features)
    values = np.maximum(values, 0.0)
    projected = vectors.T @ (features.T @ targets)
    prior, noise = 1.0, 1.0 / np.var(targets)
    for _ in range(rounds):
        weights = vectors @ (noise * projected / (prior + noise * values))
        determined = (noise * values / (prior + noise * values)).sum()
        residual = ((targets - features @ weights) ** 2).sum()
        prior = determined / (weights @ weights)
        noise = (len(targets) - determined) / residual
    turned = new @ vectors
    variance = 1 / noise + (turned**2 / (prior + noise * values)).sum(axis=1)
    return new @ weights, np.sqrt(variance)


class _Problem:
    """A case as Keras takes it: standardized, with a tenth of the rows put aside for stopping."""

    def __init__(self, case: Case) -> None:
        self.classes = case.num_classes
        scale = Standard(case.inputs)
        self.standard = Standard(case.targets)
        self.inputs = scale.apply(case.inputs).astype(np.float32)
        self.test_inputs = scale.apply(case.test_inputs).astype(np.float32)
        self.targets = case.targets.astype(np.int32)
        if not self.classes:
            self.targets = self.standard.apply(case.targets).astype(np.float32)
        self._split = case.split

    def model(
        self,
        hidden: tuple[int, ...],
        seed: int,
        dropout: float = 0.0,
        activation: str = "tanh",
        outputs: int | None = None,
    ) -> Any:
        """A compiled network: mean and log deviation, or logits."""
        import keras

        keras.utils.set_random_seed(1_000 * self._split + seed)
        inputs = keras.Input(self.inputs.shape[1:])
        values = inputs
        for width in hidden:
            if dropout:
                values = keras.layers.Dropout(dropout)(values)
            values = keras.layers.Dense(width, activation=activation)(values)
        if dropout:
            values = keras.layers.Dropout(dropout)(values)
        count = outputs or self.classes or 2
        model = keras.Model(inputs, keras.layers.Dense(count)(values))
        model.compile(keras.optimizers.Adam(_LEARNING_RATE), loss=self._loss(count))
        return model

    def _loss(self, count: int) -> Any:
        import keras

        if self.classes:
            return keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return "mse" if count == 1 else _normal_loss

    def fit(self, model: Any, budget: Budget, seed: int) -> None:
        """Fits until the validation loss stops improving, or the budget is nearly used."""
        import keras

        order = np.random.default_rng([self._split, seed]).permutation(len(self.inputs))
        count = max(1, round(_VALIDATION_SHARE * len(order)))
        aside, rest = order[:count], order[count:]
        patience = keras.callbacks.EarlyStopping(patience=_PATIENCE, restore_best_weights=True)
        end = keras.callbacks.LambdaCallback(
            on_epoch_end=lambda epoch, logs: _stop_in_time(model, budget)
        )
        model.fit(
            self.inputs[rest],
            self.targets[rest],
            validation_data=(self.inputs[aside], self.targets[aside]),
            batch_size=_BATCH,
            epochs=_EPOCHS,
            callbacks=[end, patience],
            verbose=0,
        )

    def distribution(self, outputs: np.ndarray) -> Distribution:
        """The average over members of outputs of shape (members, n, columns)."""
        from scipy.special import softmax

        values = outputs.astype(np.float64)
        if self.classes:
            return Shares(softmax(values, axis=-1).mean(axis=0))
        stds = np.exp(np.maximum(values[..., 1], _LEAST_LOG_STD))
        return self.standard.restore(values[..., 0], stds)


def _stop_in_time(model: Any, budget: Budget) -> None:
    if budget.left < _PREDICTION_SHARE * budget.seconds:
        model.stop_training = True


def _normal_loss(targets: Any, outputs: Any) -> Any:
    """Negative log density of a normal law, but for a constant."""
    from keras import ops

    mean, log_std = outputs[:, :1], ops.maximum(outputs[:, 1:], _LEAST_LOG_STD)
    away = (ops.reshape(targets, (-1, 1)) - mean) * ops.exp(-log_std)
    return ops.mean(0.5 * away**2 + log_std, axis=-1)
