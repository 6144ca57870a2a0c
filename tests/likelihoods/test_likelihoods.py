"""Every likelihood of the registry: the protocol, and laws of mixtures against closed forms."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import special, stats

from tati_re.core.errors import InputError
from tati_re.likelihoods import LocationScale, StudentTNoise, likelihoods
from tati_re.likelihoods.bernoulli import Bernoulli
from tati_re.likelihoods.categorical import SparseCategorical
from tati_re.likelihoods.gaussian import GaussianNoise, PredictedGaussian
from tati_re.likelihoods.keras_losses import traits_of
from tati_re.likelihoods.laws import ScipyLaw
from tati_re.likelihoods.mixture import (
    empirical_crps,
    mixture_cdf,
    mixture_crps,
    mixture_pit,
    mixture_quantile,
)
from tati_re.likelihoods.outputs import tensorflow
from tati_re.likelihoods.registry import LIKELIHOODS, LOSSES, likelihood_class
from tati_re.likelihoods.skeleton import Gumbel
from tati_re.likelihoods.student_t import _log_constant
from tati_re.options.table import OPTIONS
from tati_re.posterior.likelihood_option import likelihood_of_loss
from tati_re.prediction.scores import crps as normal_crps
from tati_re.prediction.scores import mixture_interval
from tati_re.testing.likelihood_protocol import check_likelihood

RANDOM = np.random.default_rng(3)
VALUES = 40 + 7 * RANDOM.standard_normal((200, 2))
POSITIVE = RANDOM.gamma(3.0, 50.0, (200, 1))
SHARES = RANDOM.beta(2.0, 5.0, (200, 1))
COUNTS = RANDOM.poisson(4.0, (200, 1)).astype(float)
SOME_ZEROS = COUNTS * (RANDOM.random((200, 1)) < 0.6)
EVENTS = RANDOM.choice([1.0, 0.0, -1.0], (200, 1), p=[0.7, 0.2, 0.1])
LABELS = {
    "student_t": VALUES[:, :1],
    "laplace": VALUES[:, :1],
    "log_normal": POSITIVE,
    "gamma": POSITIVE,
    "beta": SHARES,
    "poisson_count": COUNTS,
    "negative_binomial": COUNTS,
    "zero_inflated_poisson": SOME_ZEROS,
    "zero_inflated_negative_binomial": SOME_ZEROS,
    "censored_normal": np.hstack([VALUES[:, :1], EVENTS]),
    "censored_log_normal": np.hstack([POSITIVE, EVENTS]),
    "censored_weibull": np.hstack([POSITIVE, EVENTS]),
    "ordinal": RANDOM.integers(0, 5, (200, 1)).astype(float),
}


CLASSES = RANDOM.integers(0, 4, 200)
LABELS_OF_LOSSES = {
    "sparse_categorical_crossentropy": CLASSES[:, None].astype(float),
    "categorical_crossentropy": np.eye(4)[CLASSES],
    "binary_crossentropy": (CLASSES[:, None] > 1).astype(float),
    "gaussian": VALUES[:, :1],
    "heteroscedastic_gaussian": VALUES[:, :1],
}
"""Of losses whose targets the data room may standardize."""


def test_every_likelihood_has_labels_here():
    assert set(likelihoods()) == set(LABELS)
    with_density = {name for name in LOSSES if likelihood_class(name).is_normalized}
    assert with_density == set(LABELS_OF_LOSSES)


@pytest.mark.parametrize("name", LABELS)
def test_the_protocol_holds(name):
    check_likelihood(likelihood_class(name)(), LABELS[name])


@pytest.mark.parametrize("name", LABELS_OF_LOSSES)
def test_the_protocol_holds_of_losses(name):
    check_likelihood(likelihood_class(name)(), LABELS_OF_LOSSES[name])


def test_losses_without_a_density_say_so():
    for name in ("mean_squared_error", "mean_absolute_error"):
        assert not likelihood_class(name).is_normalized
    assert not traits_of("huber").is_normalized


class VarianceAsDeviation(PredictedGaussian):
    """A wrong variant: the second output counts as the logarithm of the variance."""

    def loss(self, targets, outputs, extra=None):
        tf = tensorflow()
        mean, log_variance = tf.split(outputs, 2, axis=-1)
        return super().loss(targets, tf.concat([mean, log_variance / 2], axis=-1))


class WithoutConstant(GaussianNoise):
    """A wrong variant: half of the square, without the constant."""

    def loss(self, targets, outputs, extra=None):
        return tensorflow().reduce_sum((targets - outputs) ** 2 / 2, axis=-1)


class OtherClass(SparseCategorical):
    """A wrong variant: predictions have the classes in the other order."""

    def log_probabilities(self, outputs):
        return super().log_probabilities(outputs)[..., ::-1]


class HalfOfTheLogit(Bernoulli):
    """A wrong variant: the probabilities that are sampled are not those of the labels."""

    def loss(self, targets, outputs, extra=None):
        return super().loss(targets, outputs / 2)


@pytest.mark.parametrize(
    "wrong", [VarianceAsDeviation, WithoutConstant, OtherClass, HalfOfTheLogit]
)
def test_wrong_variants_of_losses_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_likelihood(wrong(), LABELS_OF_LOSSES[wrong.name])


def test_a_loss_of_the_network_s_units_is_given_by_its_name():
    with pytest.raises(InputError, match="loss='gaussian'"):
        likelihood_of_loss(GaussianNoise(), None)


def test_the_skeleton_keeps_the_protocol():
    check_likelihood(Gumbel(), VALUES[:, :1])


class WithoutWidth(Gumbel):
    """A wrong variant: its density lacks the width's logarithm, and is not normalized."""

    def log_prob(self, targets, outputs):
        tf = tensorflow()
        z, _ = self.standardized(targets, outputs)
        return tf.reduce_sum(-z - tf.exp(-z), axis=-1)


class OtherDraws(Gumbel):
    """A wrong variant: its predictions have another law than its density."""

    def law(self, outputs):
        center, width = self.center_and_width(outputs)
        return ScipyLaw(stats.gumbel_l, {"loc": center, "scale": width})


@pytest.mark.parametrize("wrong", [WithoutWidth, OtherDraws])
def test_wrong_variants_are_caught(wrong):
    with pytest.raises(AssertionError):
        check_likelihood(wrong(), VALUES[:, :1])


@pytest.mark.parametrize("name", ["student_t", "log_normal", "poisson_count", "censored_weibull"])
def test_two_targets_are_independent(name):
    """The log density of two targets is the sum of those of each by itself."""
    single = LABELS[name]
    if single.shape[1] == 2:
        both = np.hstack([single[:, :1], single[::-1, :1], single[:, 1:], single[::-1, 1:]])
    else:
        both = np.hstack([single, single[::-1]])
    together = likelihood_class(name)().fitted(both)
    alone = likelihood_class(name)().fitted(single)
    outputs = 0.3 * np.random.default_rng(5).standard_normal(
        (2, 200, together.num_outputs(both.shape[1]))
    )
    first = together.log_likelihood(both, outputs)
    groups = np.split(outputs, together.outputs_per_target, axis=-1)
    left = np.concatenate([group[..., :1] for group in groups], axis=-1)
    right = np.concatenate([group[..., 1:] for group in groups], axis=-1)
    expected = alone.log_likelihood(single, left) + alone.log_likelihood(single[::-1], right)
    np.testing.assert_allclose(first, expected, rtol=1e-10)


def test_student_t_refuses_an_infinite_variance():
    with pytest.raises(InputError, match="degrees_of_freedom"):
        StudentTNoise(degrees_of_freedom=2)


REFUSED = [
    ("gamma", [[1.0], [0.0]], "above 0"),
    ("log_normal", [[-1.0], [2.0]], "above 0"),
    ("beta", [[0.5], [1.0]], "between 0 and 1"),
    ("poisson_count", [[1.0], [1.5]], "whole numbers"),
    ("ordinal", [[0.0], [-1.0]], "numbered from 0"),
    ("censored_normal", [[1.0, 2.0], [3.0, 1.0]], "events 1"),
    ("censored_weibull", [[0.0, 1.0], [3.0, 1.0]], "above 0"),
]


@pytest.mark.parametrize(("name", "labels", "expected"), REFUSED)
def test_labels_outside_the_support_are_refused(name, labels, expected):
    with pytest.raises(InputError, match=expected):
        likelihood_class(name)().fitted(np.array(labels))


def _normal_mixture():
    random = np.random.default_rng(7)
    means, stds = random.standard_normal((30, 12, 1)), 0.2 + random.random((30, 12, 1))
    return means, stds, 0.1 + random.random(30), ScipyLaw(stats.norm, {"loc": means, "scale": stds})


def test_quantiles_of_a_mixture_are_those_of_the_closed_form():
    means, stds, weights, law = _normal_mixture()
    low, high = mixture_interval(means[..., 0], stds[..., 0], weights, 0.9)
    np.testing.assert_allclose(mixture_quantile(law, 0.05, weights, 1)[:, 0], low, atol=1e-6)
    np.testing.assert_allclose(mixture_quantile(law, 0.95, weights, 1)[:, 0], high, atol=1e-6)


def test_the_score_of_a_mixture_is_that_of_the_closed_form():
    means, stds, weights, law = _normal_mixture()
    values = np.random.default_rng(8).standard_normal((12, 1))
    exact = normal_crps(values[:, 0], means[..., 0], stds[..., 0], weights)
    np.testing.assert_allclose(mixture_crps(law, values, weights)[:, 0], exact, rtol=2e-3)


def test_a_quantile_of_counts_is_the_smallest_with_its_probability():
    random = np.random.default_rng(9)
    rate = random.gamma(2.0, 5.0, (20, 15, 1))
    law, weights = ScipyLaw(stats.poisson, {"mu": rate}, discrete=True), np.ones(20)
    for level in (0.01, 0.05, 0.5, 0.95, 0.999):
        found = mixture_quantile(law, level, weights, 1, discrete=True)
        assert (mixture_cdf(law, found, weights) >= level - 1e-9).all()
        assert (mixture_cdf(law, found - 1, weights) < level).all()


def test_the_score_of_points_is_that_of_all_pairs():
    random = np.random.default_rng(10)
    points, share = random.standard_normal((9, 4)), random.dirichlet(np.ones(9))
    values = random.standard_normal(4)
    distance = share @ np.abs(points - values)
    pairs = np.abs(points[:, None] - points[None])
    expected = distance - 0.5 * np.einsum("i,j,ijk->k", share, share, pairs)
    np.testing.assert_allclose(empirical_crps(points, values, share), expected, rtol=1e-12)


def test_the_pit_of_counts_is_uniform():
    random = np.random.default_rng(11)
    rate = random.gamma(2.0, 2.0, (1, 4_000, 1))
    law = ScipyLaw(stats.poisson, {"mu": rate}, discrete=True)
    counts = law.draw(random)[0]
    pit = mixture_pit(law, counts, np.ones(1), random)
    assert stats.kstest(pit[:, 0], "uniform").pvalue > 1e-4
    wrong = mixture_cdf(law, counts, np.ones(1))
    assert stats.kstest(wrong[:, 0], "uniform").pvalue < 1e-6


@pytest.mark.parametrize(
    "name", ["student_t", "laplace", "log_normal", "gamma", "beta", "poisson_count"]
)
def test_outputs_of_zero_describe_the_training_targets(name):
    """At outputs of 0 the mean of the law is near that of the targets, in any unit."""
    labels = LABELS[name]
    likelihood = likelihood_class(name)().fitted(labels)
    law = likelihood.law(np.zeros((1, 1, likelihood.num_outputs(1))))
    assert abs(law.mean[0, 0, 0] / labels.mean() - 1) < 0.2
    if isinstance(likelihood, LocationScale):
        assert 0.5 < law.std[0, 0, 0] / labels.std() < 2.5


@pytest.mark.parametrize("output", [-1e3, 40.0, 1e3])
def test_counts_without_overdispersion_have_a_finite_density(output):
    """Towards the Poisson law the size has no end; its density and slope stay finite."""
    tf = tensorflow()
    likelihood = likelihood_class("negative_binomial")().fitted(COUNTS)
    outputs = tf.constant(np.tile([0.1, output], (len(COUNTS), 1)))
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        density = likelihood.log_prob(tf.constant(COUNTS), outputs)
    assert np.isfinite(tape.gradient(density, outputs)).all()
    assert np.isfinite(density).all()
    if output > 0:
        poisson = likelihood_class("poisson_count")().fitted(COUNTS)
        expected = poisson.log_prob(tf.constant(COUNTS), outputs[:, :1])
        np.testing.assert_allclose(density, expected, atol=0.05)


def test_the_help_of_the_option_names_every_likelihood():
    """A line in the registry is not enough for `--help` and `tati_re.help`."""
    said = str(OPTIONS["loss"].description)
    assert [name for name in LIKELIHOODS if not re.search(rf"\b{name}\b", said)] == []


@pytest.mark.parametrize("family", ["t", "t of each draw", "gamma", "poisson"])
def test_quantiles_at_several_levels_are_those_of_scipy(family, monkeypatch):
    """To the last bit, and of a shape that all rows share, SciPy computes one number a level."""
    random = np.random.default_rng(1)
    center = random.standard_normal((5, 30, 2))
    moved = {"loc": center, "scale": np.exp(random.standard_normal((5, 30, 2)))}
    degrees = random.uniform(3, 9, (5, 1, 1))
    kind, parameters, least = {
        "t": (stats.t, {"df": 4.0} | moved, 3),
        "t of each draw": (stats.t, {"df": degrees} | moved, 15),
        "gamma": (stats.gamma, {"a": np.exp(center)}, 900),
        "poisson": (stats.poisson, {"mu": np.exp(center)}, 900),
    }[family]
    law = ScipyLaw(kind, parameters, discrete=family == "poisson")
    levels = [0.05, 0.5, 0.9]
    expected = np.stack([kind.ppf(level, **parameters) for level in levels])
    computed = []
    inside = type(kind).ppf
    monkeypatch.setattr(
        type(kind),
        "ppf",
        lambda self, *args, **given: computed.append(inside(self, *args, **given)) or computed[-1],
    )
    np.testing.assert_array_equal(law.quantiles(levels), expected)
    assert sum(map(np.size, computed)) == least
    np.testing.assert_array_equal(law.quantile(0.5), expected[1])


@pytest.mark.parametrize(("dtype", "bound"), [("float32", 1e-6), ("float64", 2e-9)])
def test_the_constant_of_sampled_degrees_of_freedom_is_that_of_gamma_functions(dtype, bound):
    """From the least degrees of freedom to nearly a normal law, with its derivative."""
    freedom = np.array([2.0, 2.01, 3.0, 4.0, 8.0, 30.0, 1e3, 1e6, 1e12])
    expected = special.gammaln((freedom + 1) / 2) - special.gammaln(freedom / 2)
    expected -= 0.5 * np.log(freedom * np.pi)
    expected[-2:] = -0.5 * np.log(2 * np.pi) - 0.25 / freedom[-2:]  # the difference has no digits
    slope = 0.5 * (special.digamma((freedom + 1) / 2) - special.digamma(freedom / 2) - 1 / freedom)
    tf = tensorflow()
    given = tf.constant(freedom, dtype)
    with tf.GradientTape() as tape:
        tape.watch(given)
        constant = _log_constant(given)
    np.testing.assert_allclose(constant, expected, rtol=0, atol=bound)
    np.testing.assert_allclose(tape.gradient(constant, given), slope, rtol=0, atol=bound)
