"""Checks of every likelihood: density, gradient, normalization, draws, quantiles, configuration."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from scipy import stats

from tati_re.core.front_door import front_door
from tati_re.likelihoods.contract import CLASSES, Likelihood
from tati_re.likelihoods.laws import Law
from tati_re.testing.sampler_protocol import require

_ROWS, _DRAWS, _SEED = 40, 500, 20_261
_LEAST_P = 1e-5
"""A correct likelihood fails one of the two tests by chance once in 50,000 runs."""
_GRID = 4_001


@front_door
def check_likelihood(likelihood: Likelihood, targets: np.ndarray) -> None:
    """Tests a likelihood on example labels and reports the first failure.

    Args:
        likelihood: A likelihood that is not fitted yet.
        targets: Labels for it that vary, shape (n,) or (n, columns), with n at least 20.

    Raises:
        AssertionError: A sentence on the first check that failed.
    """
    labels = np.asarray(targets, np.float64).reshape(len(targets), -1)
    fitted = likelihood.fitted(labels)
    _check_configuration(fitted)
    outputs = _outputs_of(fitted, labels)
    extra = _extra_of(fitted)
    if fitted.kind == CLASSES:
        _check_classes(fitted, outputs)
        drawn = _drawn_classes(fitted, outputs)
    else:
        law = fitted.law_of(outputs, extra)
        _check_law(law)
        drawn = _with_all_columns(fitted, law.draw(np.random.default_rng(_SEED))[0])
        _check_normalization(fitted, law, outputs, extra)
    _check_density(fitted, outputs, drawn, extra)
    _check_gradient(fitted, outputs, drawn, extra)


def _outputs_of(likelihood: Likelihood, labels: np.ndarray) -> np.ndarray:
    """Random outputs of order 1/2, the same for all draws of an example: (1, rows, outputs)."""
    random = np.random.default_rng(_SEED)
    count = likelihood.num_outputs(labels.shape[1])
    return 0.5 * random.standard_normal((1, _ROWS, count))


def _extra_of(likelihood: Likelihood) -> np.ndarray | None:
    """Random extra parameters of order 1/2, shape (1, 1, numbers); None where there are none."""
    count = len(likelihood.extra_parameters)
    if not count:
        return None
    return 0.5 * np.random.default_rng(_SEED + 1).standard_normal((1, 1, count))


def _with_all_columns(likelihood: Likelihood, values: np.ndarray) -> np.ndarray:
    """Labels of drawn values: where there is a second column, they count as observed."""
    if likelihood.target_columns == 1:
        return values
    return np.concatenate([values, np.ones_like(values)], axis=-1)


def log_prob_of(
    likelihood: Likelihood,
    labels: np.ndarray,
    outputs: np.ndarray,
    extra: np.ndarray | None = None,
) -> np.ndarray:
    """The log density in TensorFlow of labels `(n, columns)` under outputs `(n, outputs)`.

    Args:
        likelihood: A likelihood that was fitted.
        labels: Labels, shape (n, columns).
        outputs: Outputs of the network, shape (n, outputs).
        extra: Its extra parameters, shape (1, 1, numbers). Default: it has none.
    """
    values = _log_prob(likelihood, labels, _constant(outputs), _tensors(extra))
    return np.asarray(values, np.float64)


def _constant(values: Any) -> Any:
    from tati_re.core.backend import tf

    return tf.constant(values, tf.float64)


def _tensors(extra: np.ndarray | None) -> Any:
    """Extra parameters as a density gets them, a number each."""
    return None if extra is None else [_constant(value) for value in extra[0, 0]]


def _log_prob(likelihood: Likelihood, labels: np.ndarray, outputs: Any, extra: Any) -> Any:
    log_prob: Any = likelihood.log_prob
    if extra is None:
        return log_prob(_constant(labels), outputs)
    return log_prob(_constant(labels), outputs, extra)


def _check_configuration(likelihood: Likelihood) -> None:
    config = likelihood.get_config()
    again = type(likelihood).from_config(json.loads(json.dumps(config)))
    text = f"from_config(get_config()) gives {again.get_config()}. Expected: {config}."
    require(again.get_config() == config, text)
    require(likelihood.name and likelihood.describe(), "name or describe() is empty.")


def _check_density(
    likelihood: Likelihood, outputs: np.ndarray, labels: np.ndarray, extra: np.ndarray | None
) -> None:
    ours = log_prob_of(likelihood, labels, outputs[0], extra)
    require(ours.shape == (len(labels),), f"log_prob has shape {ours.shape}. Expected: (n,).")
    other = likelihood.log_likelihood(labels, outputs, extra)[0]
    worst = np.abs(ours - other).max()
    text = f"log_prob and log_likelihood differ by {worst:.3g}. Expected: the same distribution."
    require(worst < 1e-6 * (1 + np.abs(other).max()), text)


def _check_gradient(
    likelihood: Likelihood, outputs: np.ndarray, labels: np.ndarray, extra: np.ndarray | None
) -> None:
    from tati_re.core.backend import tf

    position = _constant(outputs[0])
    parameters = _tensors(extra)
    with tf.GradientTape() as tape:
        tape.watch(position)
        tape.watch(parameters or [])
        total = tf.reduce_sum(_log_prob(likelihood, labels, position, parameters))
    gradient, of_extra = tape.gradient(total, (position, parameters or []))
    require(gradient is not None, "log_prob does not depend on the outputs through TensorFlow.")
    slopes = np.asarray(gradient)
    step = 1e-5
    for column in range(outputs.shape[-1]):
        shift = step * np.eye(outputs.shape[-1])[column]
        above = log_prob_of(likelihood, labels, outputs[0] + shift, extra)
        below = log_prob_of(likelihood, labels, outputs[0] - shift, extra)
        difference = (above - below) / (2 * step)
        worst = np.abs(difference - slopes[:, column]).max()
        text = (
            f"The gradient with respect to output {column} differs from finite differences by "
            f"{worst:.3g}."
        )
        require(worst < 1e-4 * (1 + np.abs(difference).max()), text)

    for number, slope in enumerate(of_extra):
        name = likelihood.extra_parameters[number].name
        require(slope is not None, f"log_prob does not depend on {name} through TensorFlow.")
        assert extra is not None
        shift = step * np.eye(extra.shape[-1])[number]
        above = log_prob_of(likelihood, labels, outputs[0], extra + shift).sum()
        below = log_prob_of(likelihood, labels, outputs[0], extra - shift).sum()
        difference = (above - below) / (2 * step)
        off = abs(float(difference - slope))
        text = f"The gradient with respect to {name} differs from finite differences by {off:.3g}."
        require(off < 1e-4 * (1 + abs(float(difference))), text)


def _check_normalization(
    likelihood: Likelihood, law: Law, outputs: np.ndarray, extra: np.ndarray | None
) -> None:
    """The density of `log_prob` over one target, integrated or summed, is 1."""
    num_targets = law.quantile(0.5).shape[-1]
    if num_targets > 1:
        return
    for row in range(3):
        values = _grid(likelihood, law, row)
        labels = _with_all_columns(likelihood, values[:, None])
        repeated = np.repeat(outputs[0, row][None], len(values), axis=0)
        density = np.exp(log_prob_of(likelihood, labels, repeated, extra))
        total = density.sum() if likelihood.discrete else np.trapezoid(density, values)
        text = f"log_prob integrates to {total:.6g}. Expected: 1."
        require(abs(total - 1) < 1e-3, text)


def _grid(likelihood: Likelihood, law: Law, row: int) -> np.ndarray:
    """Values that hold all but 1e-5 of the probability, dense where the law is."""
    law_of_row = law.at(np.array([row]), 0)
    if likelihood.discrete:
        return np.arange(0, float(law_of_row.quantile(1 - 1e-6)[0, 0]) + 1)
    levels = 1 / (1 + np.exp(-np.linspace(-12, 12, _GRID)))
    return np.unique([float(law_of_row.quantile(level)[0, 0]) for level in levels])


def _check_law(law: Law) -> None:
    random = np.random.default_rng(_SEED)
    draws = np.concatenate([law.draw(random) for _ in range(_DRAWS)])
    _check_moments(law, draws)
    _check_pit(law, draws, random)
    _check_quantiles(law)


def _check_moments(law: Law, draws: np.ndarray) -> None:
    mean, std = law.mean[0], law.std[0]
    known = np.isfinite(mean) & np.isfinite(std)
    error = (draws.mean(axis=0) - mean) / (std / np.sqrt(len(draws)))
    # Means over rows: heavy tails make single rows far from normal.
    z = np.sqrt(known.sum()) * np.mean(error[known])
    require(abs(z) < 6, f"The mean of the draws is off by {z:.2g} standard errors.")


def _check_pit(law: Law, draws: np.ndarray, random: np.random.Generator) -> None:
    upper, lower = law.cdf(draws), law.below(draws)
    pit = lower + random.random(draws.shape) * (upper - lower)
    p_value = stats.kstest(pit.ravel(), "uniform").pvalue
    text = (
        f"The draws do not follow the distribution function (Kolmogorov-Smirnov p {p_value:.1g})."
    )
    require(p_value > _LEAST_P, text)


def _check_quantiles(law: Law) -> None:
    for level in (0.05, 0.5, 0.95):
        values = law.quantile(level)
        enough = law.cdf(values) >= level - 1e-9
        less = law.below(values) <= level + 1e-9
        text = f"quantile({level}) is not where the distribution function equals {level}."
        require((enough & less).all(), text)


def _check_classes(likelihood: Likelihood, outputs: np.ndarray) -> None:
    logarithms = likelihood.log_probabilities(outputs)
    total = np.exp(logarithms).sum(axis=-1)
    text = "The probabilities of the classes do not add up to 1."
    require(np.allclose(total, 1, atol=1e-9), text)

    probabilities, entropies = likelihood.probabilities_by_class(outputs)
    same = np.allclose(np.moveaxis(probabilities, 0, -1), np.exp(logarithms), atol=1e-9)
    require(same, "probabilities_by_class are not the exponentials of log_probabilities.")
    expected = -(np.exp(logarithms) * np.maximum(logarithms, -1e300)).sum(axis=-1)
    require(
        np.allclose(entropies, expected, atol=1e-9),
        "The entropies do not belong to the probabilities.",
    )


def _drawn_classes(likelihood: Likelihood, outputs: np.ndarray) -> np.ndarray:
    random = np.random.default_rng(_SEED)
    below = np.exp(likelihood.log_probabilities(outputs))[0].cumsum(axis=-1)
    chosen = (random.random((len(below), 1)) > below[:, :-1]).sum(axis=-1)
    return likelihood.labels_of(chosen)
