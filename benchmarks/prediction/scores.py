"""Scores of predictive distributions on test rows, in the units of the target."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from tati_re.prediction.metrics import calibration
from tati_re.prediction.results import ClassPrediction, Prediction, RegressionPrediction
from tati_re.prediction.scores import crps, mixture_cdf

_LEVEL = 0.9
_LEAST_PROBABILITY = 1e-12
NAMES = ("nll", "rmse", "crps", "coverage_90", "accuracy", "calibration_error")
"""Scores; those that a case does not have are nan."""


@dataclass(frozen=True, eq=False)
class Normals:
    """An average of normal distributions, one for each member and row.

    Attributes:
        means: Shape (members, n), in the units of the target.
        stds: Standard deviations above 0, of a shape that broadcasts to it.
    """

    means: np.ndarray
    stds: np.ndarray

    def scores(self, targets: np.ndarray) -> dict[str, float]:
        """Scores of the average on rows that came true, shape (n,)."""
        means = np.asarray(self.means, np.float64)
        stds = np.broadcast_to(np.asarray(self.stds, np.float64), means.shape)
        weights = np.ones(len(means))
        logs = norm.logpdf(targets, means, stds)
        density = logsumexp(logs, axis=0) - math.log(len(means))
        inside = np.abs(mixture_cdf(targets, means, stds, weights) - 0.5) <= _LEVEL / 2
        return {
            "nll": float(-density.mean()),
            "rmse": float(np.sqrt(((means.mean(axis=0) - targets) ** 2).mean())),
            "crps": float(crps(targets, means, stds, weights).mean()),
            "coverage_90": float(inside.mean()),
        }


@dataclass(frozen=True, eq=False)
class Shares:
    """Probabilities of classes, shape (n, classes)."""

    probabilities: np.ndarray

    def scores(self, targets: np.ndarray) -> dict[str, float]:
        """Scores on rows whose classes are known, shape (n,)."""
        p = np.clip(np.asarray(self.probabilities, np.float64), _LEAST_PROBABILITY, 1.0)
        p = p / p.sum(axis=1, keepdims=True)
        labels = np.asarray(targets).astype(int)
        return {
            "nll": float(-np.log(p[np.arange(len(p)), labels]).mean()),
            "accuracy": float((p.argmax(axis=1) == labels).mean()),
            "calibration_error": calibration(p, labels).error,
        }


@dataclass(frozen=True, eq=False)
class Predicted:
    """A prediction of this package, with labels."""

    prediction: Prediction

    def scores(self, targets: np.ndarray) -> dict[str, float]:
        """Scores on the rows that the prediction was made with."""
        del targets
        found = self.prediction
        known = found.scores()
        scores = {"nll": known["negative_log_likelihood"]}
        if isinstance(found, RegressionPrediction):
            scores |= {name: known[name] for name in ("rmse", "crps")}
            assert found.pit is not None
            scores["coverage_90"] = float((np.abs(found.pit - 0.5) <= _LEVEL / 2).mean())
        if isinstance(found, ClassPrediction):
            scores |= {name: known[name] for name in ("accuracy", "calibration_error")}
        return scores


Distribution = Normals | Shares | Predicted


class Standard:
    """Means and standard deviations of training columns; a column that does not vary has 1.

    Args:
        values: Shape (n,) or (n, columns).
    """

    def __init__(self, values: np.ndarray) -> None:
        self.mean = np.mean(values, axis=0)
        deviation = np.std(values, axis=0)
        self.deviation = np.where(deviation > 0, deviation, 1.0)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """The values in units of the deviation, about the mean."""
        return (values - self.mean) / self.deviation

    def restore(self, means: np.ndarray, stds: np.ndarray) -> Normals:
        """Normal distributions of a standardized target in its own units."""
        return Normals(means * self.deviation + self.mean, stds * self.deviation)
