"""Scores against scikit-learn, closed forms and quadrature."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import norm
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from tati_re.core.errors import InputError
from tati_re.prediction import scores
from tati_re.prediction.metrics import negative_log_likelihood
from tati_re.prediction.scores import (
    auroc,
    brier_score,
    crps,
    mixture_cdf,
    mixture_interval,
    normal_crps,
    weighted_quantiles,
)


@pytest.fixture(scope="module")
def classes():
    generator = np.random.default_rng(1)
    probabilities = generator.dirichlet(np.ones(4), 500)
    labels = (probabilities.cumsum(axis=1) < generator.random((500, 1))).sum(axis=1)
    return probabilities, labels


def test_scores_of_classes_are_those_of_scikit_learn(classes):
    probabilities, labels = classes
    expected = np.mean(((probabilities - np.eye(4)[labels]) ** 2).sum(axis=1))
    assert brier_score(probabilities, labels) == pytest.approx(expected, rel=1e-12)
    assert negative_log_likelihood(probabilities, labels) == pytest.approx(
        log_loss(labels, probabilities), rel=1e-9
    )
    two, right = probabilities[:, 0] / probabilities[:, :2].sum(axis=1), labels % 2
    assert brier_score(two, right) == pytest.approx(2 * brier_score_loss(right, two), rel=1e-9)
    assert brier_score(two, 2 * right - 1) == pytest.approx(brier_score(two, right))


def test_auroc_is_that_of_scikit_learn_also_with_ties():
    generator = np.random.default_rng(2)
    inside, outside = generator.integers(0, 20, 300) / 7, generator.integers(5, 25, 200) / 7
    labels = np.repeat([0, 1], [300, 200])
    assert auroc(inside, outside) == pytest.approx(
        roc_auc_score(labels, np.concatenate([inside, outside])), rel=1e-12
    )
    assert auroc(inside, inside) == pytest.approx(0.5)
    assert auroc([0.0], [1.0]) == 1.0
    with pytest.raises(InputError, match="are no scores to compare"):
        auroc([], [1.0])
    with pytest.raises(InputError, match="not numbers"):
        auroc([np.nan], [1.0])


@pytest.fixture(scope="module")
def mixture():
    generator = np.random.default_rng(3)
    means = np.concatenate([generator.normal(0, 1, (30, 3)), generator.normal(5, 0.3, (10, 3))])
    return means, np.exp(generator.normal(-0.5, 0.3, (40, 1))), generator.random(40) + 0.1


def test_intervals_of_a_mixture_hold_their_probability(mixture):
    means, stds, weights = mixture
    lower, upper = mixture_interval(means, stds, weights, 0.8)
    assert mixture_cdf(lower, means, stds, weights) == pytest.approx(0.1, abs=1e-9)
    assert mixture_cdf(upper, means, stds, weights) == pytest.approx(0.9, abs=1e-9)
    one = mixture_interval(np.array([[2.0]]), np.array([[0.5]]), np.ones(1), 0.95)
    assert one[1][0] == pytest.approx(2.0 + 0.5 * norm.ppf(0.975), rel=1e-9)


@pytest.mark.parametrize("wide", [1e9, 1e12, 1e100])
def test_one_wide_draw_leaves_the_interval_of_the_others(wide):
    """It adds half of its weight on either side; means and weights of any size do not hide the
    others.
    """
    stds = np.append(np.ones(99), wide)[:, None] * [1.0, 1e-3]
    lower, upper = mixture_interval(np.full((100, 2), [0.0, 5.0]), stds, np.full(100, 7.0), 0.9)
    reach = norm.ppf((0.95 - 0.005) / 0.99)
    assert upper == pytest.approx([reach, 5 + 1e-3 * reach], rel=1e-9 if wide > 1e9 else 1e-8)
    assert lower == pytest.approx([-reach, 5 - 1e-3 * reach], rel=1e-9 if wide > 1e9 else 1e-8)


def test_crps_of_a_mixture_is_the_integral_that_defines_it(mixture):
    means, stds, weights = mixture
    y = np.array([-0.3, 4.0, 9.0])
    found = crps(y, means, stds, weights)
    for k in range(3):

        def square(z, k=k):
            below = mixture_cdf(np.full(3, z), means, stds, weights)[k]
            return (below - (z >= y[k])) ** 2

        low, high = means.min() - 9 * stds.max(), max(means.max() + 9 * stds.max(), 9.5)
        expected = quad(square, low, y[k], limit=200)[0] + quad(square, y[k], high, limit=200)[0]
        assert found[k] == pytest.approx(expected, rel=1e-6)


def by_pairs(y, means, stds, weights):
    """CRPS by the closed form of each pair of draws."""
    share = weights / weights.sum()
    scores_of_rows = []
    for row in range(means.shape[1]):
        m, s = means[:, row], stds[:, row]
        first = share @ distance(y[row] - m, s)
        pairs = distance(m[:, None] - m, np.hypot(s[:, None], s))
        scores_of_rows.append(first - 0.5 * share @ pairs @ share)
    return np.array(scores_of_rows)


def distance(mean, std):
    """E|X| for X ~ N(mean, std²)."""
    return mean * (2 * norm.cdf(mean / std) - 1) + 2 * std * norm.pdf(mean / std)


@pytest.mark.parametrize("spread", [0.5, 3.0, 9.0], ids=lambda spread: f"spread {spread:g}")
@pytest.mark.parametrize("distance_of_means", [0.0, 1.0, 1e4])
def test_crps_of_many_draws_is_that_of_their_pairs(spread, distance_of_means):
    """Deviations that differ by factors of 10 to 10^12, weights, and a mean far from all others."""
    random = np.random.default_rng(int(spread))
    means = distance_of_means * random.normal(size=(700, 3))
    means[5] += 100
    stds = np.exp(random.uniform(-spread, spread, size=(700, 3)) * 1.5)
    weights = random.dirichlet(np.ones(700))
    y = random.normal(size=3)
    assert crps(y, means, stds, weights) == pytest.approx(
        by_pairs(y, means, stds, weights), rel=1e-12
    )


def test_the_crps_of_many_draws_takes_few_evaluations(monkeypatch):
    """The pairs of 1,000 draws took 10 seconds for 200 rows."""
    counted = []

    def counting(values):
        counted.append(np.size(values))
        return ndtr(values)

    monkeypatch.setattr(scores, "ndtr", counting)
    random = np.random.default_rng(0)
    means, stds = random.normal(size=(1000, 2)), np.exp(random.normal(size=(1000, 2)))
    crps(np.zeros(2), means, stds, np.ones(1000))
    assert sum(counted) / 2 < 1000**2 / 2


def test_the_crps_of_draws_that_are_not_finite_is_not_a_number():
    means = np.zeros((400, 2))
    means[3, 0] = np.nan
    found = crps(np.zeros(2), means, 10.0 ** np.linspace(-4, 0, 400)[:, None], np.ones(400))
    assert np.isnan(found[0]) and np.isfinite(found[1])


def test_both_ways_to_the_crps_agree(mixture):
    """Many draws are integrated over a grid, few are summed in pairs: 40 draws, and the same ten
    times over.
    """
    means, stds, weights = mixture
    y = np.zeros(3)
    many = crps(y, np.tile(means, (20, 1)), np.tile(stds, (20, 1)), np.tile(weights, 20))
    assert many == pytest.approx(crps(y, means, stds, weights), rel=1e-10)
    normal = crps(y, np.full((1000, 3), 0.7), np.full((1000, 1), 1.3), np.ones(1000))
    assert normal == pytest.approx(normal_crps(0.0, 0.7, 1.3), rel=1e-10)


def test_quantiles_with_weights():
    values = np.random.default_rng(4).normal(size=(101, 2))
    assert weighted_quantiles(values, np.ones(101), np.array([0.1, 0.9])) == pytest.approx(
        np.quantile(values, [0.1, 0.9], axis=0)
    )
    # A draw of weight 3 is three draws of weight 1, and weights do count.
    weights = np.random.default_rng(5).integers(1, 60, 101)
    repeated = np.repeat(values, weights, axis=0)
    found = weighted_quantiles(values, weights.astype(float), np.array([0.25, 0.5]))
    assert found == pytest.approx(np.quantile(repeated, [0.25, 0.5], axis=0), abs=0.05)
    ramp = np.arange(1000.0)[:, None]
    assert weighted_quantiles(ramp, np.arange(1.0, 1001.0), np.array([0.25]))[
        0, 0
    ] == pytest.approx(500, abs=1.5)
