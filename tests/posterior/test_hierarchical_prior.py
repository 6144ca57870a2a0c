"""The prior of unknown widths against SciPy's multivariate Student-t law and quadrature over the
widths.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from tati_re import InputError, Simulation, priors
from tati_re.core.backend import tf
from tati_re.posterior.priors.choosing import check_prior, too_hot, unused_prior_options

SIZES = [6, 1, 2]
DEGREES = 4.0
SCALE = 0.5
PRIOR = priors.Hierarchical(SCALE, DEGREES, sizes=SIZES)
X = np.random.default_rng(0).standard_normal((12, 3))
SMALL = {
    "data": (X, np.arange(12) % 2),
    "hidden": [4],
    "dtype": "float64",
    "verbose": 0,
    "seed": 1,
    "execution": "graph",
}


def pieces(values: np.ndarray) -> list[np.ndarray]:
    return np.split(values, np.cumsum(SIZES)[:-1], axis=1)


def test_density_is_that_of_scipy():
    position = np.random.default_rng(1).standard_t(3, (40, sum(SIZES)))
    laws = [
        stats.multivariate_t(np.zeros(size), SCALE**2 * np.eye(size), DEGREES) for size in SIZES
    ]
    expected = sum(law.logpdf(piece) for law, piece in zip(laws, pieces(position), strict=True))
    np.testing.assert_allclose(PRIOR.log_prob(tf.constant(position)).numpy(), expected, rtol=1e-10)


def test_density_is_an_integral_over_the_width():
    """A Gaussian of three parameters whose precision has a Gamma distribution."""
    point = np.array([0.3, -0.7, 1.1])
    prior = priors.Hierarchical(SCALE, DEGREES, num_parameters=3)

    def integrand(precision: float) -> float:
        given_width = stats.norm(0, SCALE / np.sqrt(precision)).pdf(point).prod()
        return given_width * stats.gamma(DEGREES / 2, scale=2 / DEGREES).pdf(precision)

    expected = integrate.quad(integrand, 0, np.inf, epsabs=0, epsrel=1e-9)[0]
    density = np.exp(prior.log_prob(tf.constant(point[None])).numpy()[0])
    assert density == pytest.approx(expected, rel=1e-7)


def test_gradient_is_the_slope_of_the_density():
    position = tf.constant(np.random.default_rng(2).standard_normal((5, sum(SIZES))))
    scales = np.linspace(0.2, 2.0, sum(SIZES))
    for prior in (PRIOR, priors.Hierarchical(scales, 1.0, sizes=SIZES)):
        with tf.GradientTape() as tape:
            tape.watch(position)
            value = -prior.log_prob(position)
        np.testing.assert_allclose(
            prior.gradient(position).numpy(), tape.gradient(value, position).numpy(), rtol=1e-10
        )


@pytest.mark.parametrize("degrees", [1.0, 4.0, 60.0])
@pytest.mark.parametrize("size", [1, 2, 40])
def test_draws_follow_the_density(size, degrees):
    """20,000 draws: lengths and one coordinate have their laws; lengths of independent Student-t
    numbers do not, nor does a coordinate that is wrong by 20 %.
    """
    prior = priors.Hierarchical(SCALE, degrees, sizes=[3, size])
    draws = prior.sample((20_000, 3 + size), 7)[:, 3:] / SCALE
    lengths = (draws**2).sum(axis=1) / size
    length = stats.f(size, degrees)
    assert stats.kstest(lengths, length.cdf).pvalue > 1e-4
    assert stats.kstest(draws[:, 0], stats.t(degrees).cdf).pvalue > 1e-4
    assert stats.kstest(1.2 * draws[:, 0], stats.t(degrees).cdf).pvalue < 1e-4
    if size == 40 and degrees == 4.0:
        independent = stats.t(degrees).rvs((20_000, size), random_state=np.random.default_rng(3))
        assert stats.kstest((independent**2).sum(axis=1) / size, length.cdf).pvalue < 1e-4


def test_tensors_are_independent_and_their_parameters_are_not():
    draws = priors.Hierarchical(1.0, 8.0, sizes=[4, 4]).sample((20_000, 8), 3)
    ranks = stats.spearmanr(draws**2).statistic
    # Deviation of a rank correlation: 0.007.
    assert ranks[0, 1] > 0.04
    assert abs(ranks[0, 4]) < 0.03


def test_long_tensors_can_be_drawn():
    prior = priors.Hierarchical(1.0, 3.0, sizes=[50_000])
    draws = prior.sample((200, 50_000), 1)
    assert np.isfinite(draws).all()
    widths = draws.std(axis=1)
    law = stats.invgamma(1.5, scale=1.5)
    assert stats.kstest(widths**2, law.cdf).pvalue > 1e-4


def test_widths_have_their_posterior():
    """Draws of width, then parameters, then width again have the width's own law."""
    random = np.random.default_rng(4)
    precisions = random.gamma(DEGREES / 2, 2 / DEGREES, (20_000, len(SIZES)))
    widths = SCALE / np.sqrt(np.repeat(precisions, SIZES, axis=1))
    drawn = PRIOR.draw_widths(widths * random.standard_normal(widths.shape), seed=5)
    assert drawn.shape == (20_000, len(SIZES))
    law = stats.gamma(DEGREES / 2, scale=2 / DEGREES)
    for tensor in range(len(SIZES)):
        assert stats.kstest((SCALE / drawn[:, tensor]) ** 2, law.cdf).pvalue > 1e-4
        assert stats.kstest(1.2 * (SCALE / drawn[:, tensor]) ** 2, law.cdf).pvalue < 1e-4
    with pytest.raises(InputError, match=r"Expected: \(draws, 9\)"):
        PRIOR.draw_widths(np.zeros((3, 4)), seed=1)


def test_a_temperature_that_the_tails_do_not_allow():
    assert PRIOR.hottest == pytest.approx(1 + DEGREES / 6)
    assert too_hot(PRIOR, 1.6) is None
    assert "a temperature below 1.66" in too_hot(PRIOR, 1.7)


def test_options_choose_it_by_pattern():
    sim = Simulation(
        **SMALL,
        prior={"*": "hierarchical", "dense_1/bias": "gaussian"},
        prior_degrees=5.0,
        prior_scaling="fan_in",
    )
    prior = sim.system.potential(sim.options).prior
    first, second = prior.parts
    assert isinstance(first, priors.Hierarchical) and isinstance(second, priors.Gaussian)
    assert first.sizes == [12, 4, 8]
    assert first.degrees == 5.0
    # Three inputs, and four hidden units; a bias belongs to its layer.
    np.testing.assert_allclose(first.scale[[0, 12, 16]], [1 / 2, 1 / 2, 1 / np.sqrt(5)])
    check_prior(prior, 26, "float64")
    assert not unused_prior_options(sim.options)
    run = sim.sample(num_steps=20, step_size=1e-3)
    assert "unknown width" in run.manifest.meaning


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"lower_wall": -1.0}, "hierarchical has no walls"),
        ({"prior_upper_boundary": 1.0}, "hierarchical has no walls"),
        ({"prior_degrees": 0.0}, "prior_degrees"),
    ],
)
def test_what_it_cannot_be_is_said(options, match):
    with pytest.raises(InputError, match=match):
        Simulation(**SMALL, prior="hierarchical", **options).sample(num_steps=1, step_size=1e-3)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({}, "sizes, or num_parameters"),
        ({"sizes": [2, 0]}, "a tensor is empty"),
        ({"sizes": [2, 1], "num_parameters": 4}, "not the sum of sizes"),
        ({"sizes": [2], "scale": [1.0, 2.0, 3.0]}, "another number of parameters"),
        ({"sizes": [2], "degrees": np.inf}, "prior_degrees"),
        ({"sizes": [2], "scale": -1.0}, "prior_scale"),
    ],
)
def test_bad_arguments_are_refused(arguments, match):
    with pytest.raises(InputError, match=match):
        priors.Hierarchical(**arguments)
