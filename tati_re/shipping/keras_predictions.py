"""Averages over members in operations of Keras: probabilities, means, deviations and quantiles."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtri

from tati_re.core.backend import keras
from tati_re.core.errors import InputError, refuse_if
from tati_re.likelihoods.bernoulli import Bernoulli
from tati_re.likelihoods.categorical import Categorical
from tati_re.likelihoods.extra_parameters import PREDICTED
from tati_re.likelihoods.gaussian import LEAST_LOG_STD, GaussianNoise, PredictedGaussian
from tati_re.likelihoods.location_scale import LocationScale
from tati_re.likelihoods.student_t import LaplaceNoise, StudentTNoise
from tati_re.shipping.exportable import Exportable

ops = keras.ops
Tensors = dict[str, Any]

_ROUNDS, _CELLS = 6, 16
"""Searches for a quantile, and cells of each: the bracket shrinks by 16^6."""
_MOST_FREEDOM = 100
"""Degrees of freedom up to which the distribution function is a sum of terms."""
_TINY = 1e-30


def of_classes(predictor: Exportable, outputs: Any) -> Tensors:
    """Averaged probabilities of classes, and their entropy.

    Args:
        predictor: The predictor.
        outputs: Outputs of the members, shape (n, members, outputs).
    """
    predictive = predictor.network.predictive
    objective = predictive.objective
    if isinstance(objective, Bernoulli) and predictive.num_outputs == 1:
        yes = _label_probabilities(objective, outputs)
        probabilities = ops.concatenate([1.0 - yes, yes], axis=-1)
    elif isinstance(objective, Bernoulli) and objective.from_logits:
        probabilities = ops.softmax(outputs, axis=-1)
    elif isinstance(objective, Categorical):
        probabilities = _class_probabilities(objective, outputs)
    else:
        raise _other_loss(predictive.name)
    average = _average(predictor, probabilities)
    if predictor.calibration is not None:
        logs = ops.log(ops.maximum(average, _TINY))
        average = ops.softmax(logs / predictor.calibration, axis=-1)
    return {"probabilities": average, "entropy": _entropy(average)}


def of_labels(predictor: Exportable, outputs: Any) -> Tensors:
    """Averaged probabilities of several labels, and the sum of their entropies.

    Args:
        predictor: The predictor.
        outputs: Outputs of the members, shape (n, members, labels).
    """
    objective = predictor.network.predictive.objective
    if not isinstance(objective, Bernoulli):
        raise _other_loss(predictor.network.predictive.name)
    average = _average(predictor, _label_probabilities(objective, outputs))
    entropy = _entropy(ops.stack([average, 1.0 - average], axis=-1))
    return {"probabilities": average, "entropy": ops.sum(entropy, axis=-1)}


def _class_probabilities(objective: Categorical, outputs: Any) -> Any:
    if objective.from_logits:
        return ops.softmax(outputs, axis=-1)
    return outputs / ops.sum(outputs, axis=-1, keepdims=True)


def _label_probabilities(objective: Bernoulli, outputs: Any) -> Any:
    return ops.sigmoid(outputs) if objective.from_logits else outputs


def _entropy(probabilities: Any) -> Any:
    logs = ops.log(ops.maximum(probabilities, _TINY))
    return -ops.sum(probabilities * logs, axis=-1)


class _Noise(NamedTuple):
    """The law of (y - center) / width.

    Attributes:
        cdf: Its distribution function, in operations of Keras; None: not known there.
        quantile: Its quantile of a level.
        deviation: Its standard deviation.
    """

    cdf: Callable[[Any], Any] | None
    quantile: Callable[[float], float]
    deviation: float


def _normal_cdf(z: Any) -> Any:
    return 0.5 * (1.0 + ops.erf(z * math.sqrt(0.5)))


def _laplace_cdf(z: Any) -> Any:
    tail = 0.5 * ops.exp(-ops.abs(z))
    return ops.where(z < 0.0, tail, 1.0 - tail)


def _student_cdf(freedom: float) -> Callable[[Any], Any] | None:
    """The distribution function of Student's t, a finite sum for even degrees of freedom.

    Source: M. Abramowitz and I. A. Stegun, Handbook of Mathematical Functions, 26.7.4.

    Args:
        freedom: Degrees of freedom.

    Returns:
        The function; None for degrees of freedom that are not even.
    """
    if freedom % 2 or freedom > _MOST_FREEDOM:
        return None

    def cdf(z: Any) -> Any:
        square = z * z * (1.0 / freedom)
        sine = z * (1.0 / math.sqrt(freedom)) / ops.sqrt(1.0 + square)
        cosine_squared = 1.0 / (1.0 + square)
        term: Any = ops.ones_like(z)
        total: Any = term
        for k in range(1, int(freedom) // 2):
            term = term * cosine_squared * ((2 * k - 1) / (2 * k))
            total = total + term
        return 0.5 + 0.5 * sine * total

    return cdf


_NORMAL = _Noise(_normal_cdf, lambda level: float(ndtri(level)), 1.0)
_LAPLACE = _Noise(_laplace_cdf, lambda level: float(stats.laplace.ppf(level)), math.sqrt(2.0))


def _noise_of(objective: Any) -> _Noise | None:
    """The law of the noise; None if it is none that Keras can compute."""
    if isinstance(objective, (GaussianNoise, PredictedGaussian)):
        return _NORMAL
    if isinstance(objective, LaplaceNoise):
        return _LAPLACE
    if not isinstance(objective, StudentTNoise) or isinstance(objective.degrees_of_freedom, str):
        return None
    freedom = float(objective.degrees_of_freedom)
    return _Noise(
        cdf=_student_cdf(freedom),
        quantile=lambda level: float(stats.t.ppf(level, freedom)),
        deviation=math.sqrt(freedom / (freedom - 2)),
    )


def of_values(predictor: Exportable, outputs: Any, levels: tuple[float, ...]) -> Tensors:
    """Mean, deviations and quantiles of values, in the units of the data.

    Args:
        predictor: The predictor.
        outputs: Outputs of the members, shape (n, members, outputs).
        levels: Probabilities below, of the quantiles.
    """
    predictive = predictor.network.predictive
    noise = _noise_of(predictive.objective)
    if predictive.has_noise and noise is None:
        raise _other_loss(predictive.name)
    center, width = _center_and_width(predictor, outputs)
    mean = _average(predictor, center)
    away = center - mean[:, None]
    factor = predictor.calibration or 1.0
    spread = _average(predictor, away * away)
    location, unit = _units(predictor)
    predictions = {"mean": mean * unit + location}
    predictions["parameter_std"] = ops.sqrt(spread) * (factor * unit)
    if width is None or noise is None:
        return predictions
    variance = _average(predictor, width * width) * noise.deviation**2
    predictions["std"] = ops.sqrt(spread + variance) * (factor * unit)
    if levels:
        expected = "quantiles=(), or a gaussian loss"
        problem = (
            "to_keras: quantiles of Student's t noise need even degrees of freedom, up to 100."
        )
        refuse_if(noise.cdf is None, problem, predictive.objective.describe(), expected)
        away_from_mean = _quantiles(predictor, away, width, noise, levels)
        stretched = mean[..., None] + away_from_mean * factor
        predictions["quantiles"] = stretched * unit[:, None] + location[:, None]
    return predictions


def _center_and_width(predictor: Exportable, outputs: Any) -> tuple[Any, Any]:
    """Centers and widths of the members, (n, members, targets) each, in the units of the network."""
    predictive = predictor.network.predictive
    objective = predictive.objective
    if not predictive.has_noise:
        return outputs, None
    predicts = isinstance(objective, PredictedGaussian)
    predicts = predicts or (
        isinstance(objective, LocationScale) and objective.noise_std == PREDICTED
    )
    if predicts:
        center, log_width = ops.split(outputs, 2, axis=-1)
        if isinstance(objective, PredictedGaussian):
            log_width = ops.maximum(log_width, LEAST_LOG_STD)
            least = objective.least_std
        else:
            least = objective.least_width
        width = ops.exp(log_width)
        if np.any(least):
            width = ops.sqrt(width * width + _constant(np.square(least), outputs.dtype))
        return center, width
    return outputs, _constant(_widths(predictor), outputs.dtype)


def _widths(predictor: Exportable) -> np.ndarray:
    """Widths that no input changes, in the units of the network, shape (1, members, targets)."""
    network = predictor.network
    predictive = network.predictive
    objective = predictive.objective
    vectors = predictor.members.vectors
    extra = network.extra(vectors)
    extra_by_member = None if extra is None else extra[:, None, :]
    shape = (len(vectors), 1, predictive.num_columns)
    zeros = np.zeros((len(vectors), 1, predictive.num_outputs))
    if isinstance(objective, LocationScale):
        _, width = objective.center_and_width(zeros, extra_by_member)
        width = width / objective.scale
    else:
        width = objective.law(zeros, extra_by_member).width
    return np.broadcast_to(width, shape).reshape(1, len(vectors), -1)


def _units(predictor: Exportable) -> tuple[Any, Any]:
    """Mean and deviation of the targets, by which the network's units differ from the data's."""
    predictive = predictor.network.predictive
    objective = predictive.objective
    location, unit = predictive.mean, predictive.deviation
    if isinstance(objective, LocationScale):
        location, unit = objective.location, objective.scale
    size = predictive.num_columns
    dtype = predictor.network.flat.dtype
    pair = (np.broadcast_to(np.asarray(values, dtype), (size,)) for values in (location, unit))
    first, second = pair
    return first, second


def _quantiles(
    predictor: Exportable, center: Any, width: Any, noise: _Noise, levels: tuple[float, ...]
) -> Any:
    """Quantiles of the mixture of the members, shape (n, targets, levels).

    Each round looks for the cell of a grid in which the distribution function passes the level;
    the last one interpolates.
    """
    distribution = noise.cdf
    assert distribution is not None
    points = _constant([noise.quantile(level) for level in levels], center.dtype)
    goal = _constant(levels, center.dtype)[..., None]
    quantiles = center[..., None] + width[..., None] * points
    low = ops.min(quantiles, axis=1)
    high = ops.max(quantiles, axis=1)
    grid = _constant(np.arange(_CELLS + 1) / _CELLS, center.dtype)
    middle = center[..., None, None]
    spread = width[..., None, None]

    def cdf(values: Any) -> Any:
        return _average(predictor, distribution((values[:, None] - middle) / spread))

    for _ in range(_ROUNDS):
        size = (high - low) / _CELLS
        inner = low[..., None] + (high - low)[..., None] * grid[1:-1]
        passed = ops.sum(ops.cast(cdf(inner) < goal, center.dtype), axis=-1)
        low = low + size * passed
        high = low + size
    ends = cdf(ops.stack([low, high], axis=-1))
    rise = ends[..., 1] - ends[..., 0]
    part = (ends[..., 0] - goal[..., 0]) / ops.maximum(rise, _TINY)
    return low + (high - low) * ops.clip(-part, 0.0, 1.0)


def _average(predictor: Exportable, values: Any) -> Any:
    """The weighted average over the members, which are the second axis."""
    shape = [len(predictor.weights), *[1] * (len(values.shape) - 2)]
    weights = _constant(predictor.weights.reshape(shape), values.dtype)
    if isinstance(values, np.ndarray):
        return (values * weights).sum(axis=1)
    return ops.sum(values * weights, axis=1)


def _constant(values: Any, dtype: Any) -> np.ndarray:
    return np.asarray(values, dtype)


def _other_loss(name: str) -> InputError:
    problem = "to_keras: predictions under this loss are not exported."
    expected = "a cross-entropy, gaussian, heteroscedastic_gaussian, laplace or student_t"
    return InputError(problem, name, expected)
