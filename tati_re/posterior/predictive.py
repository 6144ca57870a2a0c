"""Predictions from a network's outputs under its loss: class probabilities, or a mean with Gaussian
noise.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy.special import log_softmax, logsumexp

from tati_re.core.errors import InputError

CLASSES, VALUES, LABELS = "classification", "regression", "multi_label"
"""The kinds of predictions: one of several classes, values, or several labels of 0 and 1 at
once.
"""
HETEROSCEDASTIC = "heteroscedastic_gaussian"
"""The loss of networks whose outputs are means and, behind them, logarithms of standard
deviations.
"""
LEAST_LOG_STD = -15.0
"""Smaller ones count as this, 3e-7, about where float32 no longer tells standardized targets
apart.
"""


class Predictive:
    """Turns outputs into predictions, by the likelihood that the loss stands for. For classes the
    probability of class c given outputs f is proportional to exp(-loss(c, f)): the softmax or
    sigmoid of a cross-entropy; for -1 and +1 under Gaussian noise of variance s² the sigmoid of
    2f/s², and likewise for 0 and 1 and for one-hot rows. For a regression values are N(f, s²), s
    the noise of `gaussian`; the mean squared error over k outputs stands for s² = k/2; of
    `heteroscedastic_gaussian` the second half of the outputs is log s. The binary cross-entropy
    over k outputs, several labels at once, is a Bernoulli likelihood for each. `loss` is as
    `Loss.get_config` gives it; `task` ("classification", "signs", "one_hot", "multi_label" or
    "regression") and `num_classes` (None for a regression) are those of the data set. `mean` was
    subtracted from the targets, which were then divided by `deviation`; both are `()` or
    `(outputs,)`, of outputs at several `places` of one of them. Class numbers at several places are
    predicted place by place, outputs and results being `(..., n * places, ...)`, and their losses
    add up. Others need `per_example`, the loss `(n,)` of labels `(n, ...)` and outputs `(n,
    outputs)`; `own_loss`: that of users, whose labels may have any shape. `kind` is `CLASSES`,
    `VALUES` or `LABELS`, `num_columns` the number of classes, or of outputs. `likelihood`:
    exp(-loss) is one, but for a constant; `has_noise`: the loss tells the noise of predicted
    values; `samples_noise`: it is a parameter, each draw brings its own; `has_loss`: the loss of an
    example can be computed; `notes` are sentences on predictions; `class_weights` what the examples
    of each class counted, if they did not count alike.
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
        self.num_outputs = int(num_outputs)
        self.name = str(loss["loss"])
        self.from_logits = bool(loss.get("from_logits", True))
        self._per_example = per_example
        standard = map(np.asarray, (mean, deviation))
        self.mean, self.deviation = (np.tile(v, places) if v.ndim else v for v in standard)
        values_of_classes = (
            task == "classification" and self.name != "sparse_categorical_crossentropy"
        )
        by_value = values_of_classes and (num_classes or 0) > 2
        self.kind = VALUES if task in ("regression", "multi_label") or by_value else CLASSES
        self.kind = (
            LABELS if task == "multi_label" and self.name == "binary_crossentropy" else self.kind
        )
        known = (
            "sparse_categorical_crossentropy",
            "categorical_crossentropy",
            "binary_crossentropy",
        )
        if self.kind == CLASSES and per_example is None and self.name not in (*known, *_ERRORS):
            what = "The run's loss was an object: what its outputs predict is not known."
            raise InputError(
                what, self.name, "tati_re.load(folder, loss=loss), or another loss by its name"
            )
        self.rows, self._places = (places, 1) if self.kind == CLASSES else (1, places)
        self.num_outputs //= self.rows
        sparse = self.name == "sparse_categorical_crossentropy"
        self.num_columns = (
            int(num_classes or 2) if self.kind == CLASSES and not sparse else self.num_outputs
        )
        self.predicts_noise = self.kind == VALUES and self.name == HETEROSCEDASTIC
        self.num_columns = self.num_outputs // 2 if self.predicts_noise else self.num_columns
        self.has_noise = self.kind == VALUES and self.name in (
            "gaussian",
            "mean_squared_error",
            HETEROSCEDASTIC,
        )
        self.samples_noise = self.name == "gaussian" and loss.get("noise_std") == "sampled"
        self._codes = self._class_codes()
        self.likelihood = self.has_noise or (self.kind != VALUES and self.name in known)
        computed = self.name in (*known, *_ERRORS) or self.predicts_noise
        self.has_loss = computed or per_example is not None
        silent = self.kind == VALUES and not self.has_noise and self.name not in known
        self.notes: tuple[str, ...] = (without_noise(self.name),) if silent else ()

    def _class_codes(self) -> np.ndarray | None:
        """The labels of all classes as the loss takes them, `(classes, outputs)`."""
        if self.kind != CLASSES or self.name == "sparse_categorical_crossentropy":
            return None
        if self.task == "one_hot":
            return np.eye(self.num_columns)
        signs = self.task == "signs" and self.name != "binary_crossentropy"
        return np.array([[-1.0 if signs else 0.0], [1.0]])

    def noise(self, outputs: np.ndarray, noise_std: np.ndarray | None = None) -> np.ndarray | None:
        """Noise of predicted values in the units of the targets, `(columns,)`; `(draws, 1,
        columns)` of draws with a `noise_std` of their own, `(draws,)`, in the network's; `(..., n,
        columns)` where it is among the outputs, `(..., n, outputs)`. None where the loss says
        nothing of it.
        """
        if not self.has_noise:
            return None
        if self.predicts_noise:
            return self._moments(outputs)[1] * self.deviation
        own = (
            math.sqrt(self.num_outputs / 2)
            if self.name == "mean_squared_error"
            else self.loss["noise_std"]
        )
        noise = np.asarray(own if noise_std is None else noise_std, np.float64)
        noise = noise if noise.ndim == 0 else noise[:, None, None]
        return noise * np.broadcast_to(self.deviation, (self.num_columns,))

    def _moments(self, outputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations among the outputs, in the network's units, `(..., columns)`
        each, float64.
        """
        values = np.asarray(outputs, np.float64)
        parts = np.split(values.reshape(*values.shape[:-1], self._places, -1), 2, axis=-1)
        mean, log_std = (part.reshape(*values.shape[:-1], -1) for part in parts)
        return mean, np.exp(np.maximum(log_std, LEAST_LOG_STD))

    def restored(self, outputs: np.ndarray) -> np.ndarray:
        """Values, of all outputs but those for the noise, in the units of the targets, float64;
        shares of classes.
        """
        if self.name == "categorical_crossentropy":
            return np.exp(self.log_probabilities(outputs))
        values = (
            self._moments(outputs)[0] if self.predicts_noise else np.asarray(outputs, np.float64)
        )
        return values * self.deviation + self.mean

    def log_probabilities(self, outputs: np.ndarray) -> np.ndarray:
        """log p of each class, `(..., classes)`; of several labels that each is 0 or 1, `(...,
        outputs, 2)`.
        """
        f = np.asarray(outputs, np.float64)
        if self.name in ("sparse_categorical_crossentropy", "categorical_crossentropy"):
            each = f.reshape(*f.shape[:-1], self._places, -1)
            with np.errstate(divide="ignore"):
                logs = (
                    log_softmax(each, -1)
                    if self.from_logits
                    else np.log(each) - np.log(each.sum(-1, keepdims=True))
                )
            return logs.reshape(f.shape)
        if self.name == "binary_crossentropy":
            with np.errstate(divide="ignore"):
                logits = f if self.from_logits else np.log(f) - np.log1p(-f)
            if self.kind == LABELS:
                return np.stack([-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=-1)
            if f.shape[-1] > 1:
                return log_softmax(logits, axis=-1)
            return np.concatenate([-np.logaddexp(0, logits), -np.logaddexp(0, -logits)], axis=-1)
        return log_softmax(
            -np.stack([self._loss(code, f) for code in self._codes], axis=-1), axis=-1
        )

    def losses(
        self, outputs: np.ndarray, targets: np.ndarray, noise_std: np.ndarray | None = None
    ) -> np.ndarray:
        """The loss of each example, `(..., n)`, float64, in the network's units, as the column
        `loss` of a run has it. Outputs are `(..., n, outputs)`; targets, `(n,)` or `(n, outputs)`,
        are those that the network was trained on. Where the noise is a parameter, `noise_std` is
        that of each draw, `(draws,)`.
        """
        if self.name == "sparse_categorical_crossentropy":
            chosen = np.asarray(targets).reshape(-1).astype(np.int64)
            chosen = (chosen + 1) // 2 if self.task == "signs" else chosen
            values = self.log_probabilities(outputs)
            each = np.take_along_axis(
                values, np.broadcast_to(chosen[:, None], (*values.shape[:-1], 1)), -1
            )
            return -each.reshape(*values.shape[:-2], len(targets), -1).sum(axis=-1)
        shape = np.shape(targets)[1:]
        targets = np.asarray(targets, np.float64).reshape(len(targets), -1)
        if self.name == "binary_crossentropy":
            targets = (targets + 1) / 2 if self.task == "signs" else targets
            f = np.asarray(outputs, np.float64)
            with np.errstate(divide="ignore"):
                logits = f if self.from_logits else np.log(f) - np.log1p(-f)
            # Where a probability is 0 or 1 in its precision, the other term is infinite and has no
            # weight.
            yes = targets * np.where(targets > 0, np.logaddexp(0, -logits), 0.0)
            return (yes + (1 - targets) * np.where(targets < 1, np.logaddexp(0, logits), 0.0)).sum(
                axis=-1
            )
        if self.name == "categorical_crossentropy":
            values = self.log_probabilities(outputs)
            return -np.sum(
                np.where(targets > 0, targets * np.where(targets > 0, values, 0.0), 0.0), axis=-1
            )
        noise = None if noise_std is None else np.asarray(noise_std, np.float64)[:, None, None]
        return self._loss(targets, np.asarray(outputs, np.float64), noise, shape)

    def _loss(
        self,
        targets: np.ndarray,
        f: np.ndarray,
        noise: np.ndarray | None = None,
        shape: tuple[int, ...] = (),
    ) -> np.ndarray:
        """The loss of outputs `(..., outputs)` for labels `(..., numbers)`; of an example they have
        the `shape`.
        """
        if self.predicts_noise:
            mean, noise = self._moments(f)
            return _ERRORS["gaussian"](targets - mean, noise)
        if self.name in _ERRORS:
            return _ERRORS[self.name](
                targets - f, self.loss.get("noise_std") if noise is None else noise
            )
        if self._per_example is None:
            what = "The run's loss was an object, which its folder does not hold."
            raise InputError(what, self.name, "tati_re.load(folder, loss=loss)")
        width = targets.shape[-1]
        flat = f.reshape(-1, f.shape[-1])
        labels = np.broadcast_to(targets, (*f.shape[:-1], width)).reshape(-1, *(shape or (width,)))
        return np.asarray(self._per_example(labels, flat), np.float64).reshape(f.shape[:-1])

    def log_densities(
        self, outputs: np.ndarray, targets: np.ndarray, noise_std: np.ndarray | None = None
    ) -> np.ndarray | None:
        """Log density of targets under N(f, s²), all outputs of an example together, `(draws, n)`,
        float64. Density and targets, `(n,)` or `(n, outputs)`, are in the units of the data;
        outputs, `(draws, n, outputs)`, and the noise, `(draws,)` (None: the loss's), in the
        network's. None where the loss says nothing of the noise.
        """
        noise = self.noise(outputs, noise_std)
        if noise is None:
            return None
        away = (
            np.asarray(targets, np.float64).reshape(len(targets), -1) - self.restored(outputs)
        ) / noise
        return (-0.5 * away**2 - np.log(noise) - 0.5 * math.log(2 * math.pi)).sum(axis=-1)

    def log_likelihoods(
        self,
        outputs: np.ndarray,
        targets: np.ndarray,
        in_units: np.ndarray,
        noise_std: np.ndarray | None = None,
    ) -> np.ndarray:
        """log p(y | f) of each example, `(draws, n)`, float64, of a loss that is a likelihood; a
        density is in the units of the data, in which `in_units` are, while `targets` are those that
        the network was trained on.
        """
        densities = self.log_densities(outputs, in_units, noise_std) if self.has_noise else None
        return -self.losses(outputs, targets, noise_std) if densities is None else densities

    def drawn(
        self, outputs: np.ndarray, noise_std: np.ndarray | None, random: np.random.Generator
    ) -> np.ndarray:
        """New targets, one for each draw and example, in the units of the data: `(draws, n)`
        classes by number, -1 and 1 for signs, `(draws, n, outputs)` labels, or `(draws, n,
        outputs)` values.
        """
        if self.kind != VALUES:
            below = np.cumsum(np.exp(self.log_probabilities(outputs)), axis=-1)[..., :-1]
            found = (random.random((*below.shape[:-1], 1)) > below).sum(axis=-1)
            return 2 * found - 1 if self.task == "signs" else found
        noise = self.noise(outputs, noise_std)
        values = self.restored(outputs)
        assert noise is not None
        return values + noise * random.standard_normal(values.shape)


_ERRORS: dict[str, Callable] = {
    "gaussian": lambda d, noise: (
        d**2 / (2 * noise**2) + np.log(noise * math.sqrt(2 * math.pi))
    ).sum(axis=-1),
    "mean_squared_error": lambda d, noise: (d**2).mean(axis=-1),
    "mean_absolute_error": lambda d, noise: np.abs(d).mean(axis=-1),
}
"""Losses of differences between targets and outputs, summed or averaged over the outputs."""


def without_noise(loss: str) -> str:
    """Says what predictions are under a loss that does not tell the noise of an observation."""
    return (
        f"The loss {loss} says nothing of the noise of an observation: intervals are of the mean, "
        "and have no coverage."
    )


def entropy_of(log_probabilities: np.ndarray) -> np.ndarray:
    """-sum p log p over the last axis, in nats."""
    values = np.maximum(log_probabilities, -1e300)
    return -np.sum(np.exp(values) * values, axis=-1)


def log_mean_exp(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """log of the weighted mean of exp(values) over the first axis."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(weights / weights.sum())
    return logsumexp(values + log_weights.reshape(-1, *[1] * (values.ndim - 1)), axis=0)
