"""The compensation density: published coefficients exactly, and the distribution after convolution
by quadrature.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import eval_hermite, expit, ndtr
from scipy.stats import kstest

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange.compensation import (
    best_cut,
    compensation_table,
    cumulative,
    cumulative_after_noise,
    quantile,
    series_weights,
)
from tests.scripts import example

X = np.linspace(-20, 20, 101)
FIGURE = example("compensation_density")


def error_of_draws(table, x=X) -> float:
    """Largest error of the distribution of `quantile(u)` + noise, integrated over u in its log
    odds.
    """
    odds = np.linspace(-38, 38, 15201)
    uniform, weights = expit(odds), expit(odds) * expit(-odds) * (odds[1] - odds[0])
    # u near 1 is told from 1 only to 1e-16: both halves of the law are drawn from u below 1/2.
    half = odds < 0
    z, weights = quantile(table, uniform[half]), weights[half]
    width = np.sqrt(table.noise_variance)
    found = [
        weights @ (ndtr((v - z) / width) + ndtr((v + z) / width))
        + 0.25 * (odds[1] - odds[0]) * ndtr(v / width)
        for v in x
    ]
    return float(np.abs(found - expit(x)).max())


def test_derivatives_of_the_logistic_function():
    assert [FIGURE.logistic_derivative(order) for order in (0, 1, 3, 5)] == [
        [1],
        [1, -1],
        [1, -7, 12, -6],
        [1, -31, 180, -390, 360, -120],
    ]


def test_weights_are_hermite_polynomials():
    for terms, weight in enumerate(series_weights(0.7, 8, 5.0)):
        factorial = float(np.prod(np.arange(1, terms + 1)))
        assert weight == pytest.approx(
            (-1 / 5.0) ** terms * eval_hermite(terms, 5.0 * 0.7 / 4) / factorial, rel=1e-12
        )
    assert series_weights(0.2, 3) == pytest.approx([1, -0.1, -0.005])
    assert series_weights(0.2, 3, None) == pytest.approx([1, -0.1, 0.005])


def test_published_coefficients():
    """Eq. 18 of Luo et al. 2020 to all printed digits; without the filter, other ones."""
    np.testing.assert_allclose(
        FIGURE.series_coefficients(0.2, 3), [0.895, -0.145, -2.1, 2.55, -1.8, 0.6], atol=1e-14
    )
    unfiltered = FIGURE.series_coefficients(0.2, 3, None)
    np.testing.assert_allclose(unfiltered, [0.905, -0.455, -0.3, -1.35, 1.8, -0.6], atol=1e-14)


def test_density_of_the_series_is_its_polynomial():
    table = compensation_table(0.2, 3, 10.0)
    below = expit(-table.positions)
    polynomial = np.polyval([*FIGURE.series_coefficients(0.2, 3)[::-1], 0.0], below)
    np.testing.assert_allclose(table.density, polynomial, rtol=1e-4, atol=1e-10)


@pytest.mark.parametrize(
    ("variance", "bound"),
    [(0.05, 1e-9), (0.2, 1e-7), (0.5, 1e-7), (0.8, 1e-6), (1.0, 1e-5), (1.05, 2e-5)],
)
def test_added_to_its_noise_it_is_logistic(variance, bound):
    table = compensation_table(variance)
    assert np.abs(cumulative_after_noise(table, X) - expit(X)).max() < bound
    assert error_of_draws(table) < bound
    assert best_cut(variance).error < bound


def test_error_of_the_published_series():
    """1.031e-3; two terms are better, and so is the same without a filter."""
    near = np.linspace(0, 5, 101)
    found = {
        key: error_of_draws(compensation_table(0.2, *key), near)
        for key in ((3, 10.0), (2, 10.0), (3, None), (6, 100.0))
    }
    assert found[3, 10.0] == pytest.approx(1.031e-3, rel=1e-3)
    assert found[2, 10.0] == pytest.approx(5.4e-4, rel=0.02)
    assert found[3, None] == pytest.approx(4.7e-5, rel=0.02)
    assert found[6, 100.0] == pytest.approx(1.3e-5, rel=0.05)


def test_a_density_for_another_noise_is_caught():
    table = compensation_table(0.2)
    assert np.abs(cumulative_after_noise(table, X, 0.25) - expit(X)).max() > 1e-3


def test_quantiles():
    table = compensation_table(0.2)
    uniform = np.array([0.5, 0.75, 0.9, 0.95, 0.99, 0.999])
    np.testing.assert_allclose(
        quantile(table, uniform), [0, 1.04657, 2.11579, 2.85362, 4.49695, 6.80695], atol=2e-5
    )
    np.testing.assert_allclose(quantile(table, 1 - uniform), -quantile(table, uniform), atol=1e-9)
    np.testing.assert_allclose(cumulative(table, quantile(table, uniform)), uniform, atol=1e-8)
    tiny = np.array([1e-9, 1e-12, 1e-300])
    np.testing.assert_allclose(quantile(table, tiny), np.log(tiny) + 0.1, atol=1e-4)


def test_variance_and_shape_of_the_draws():
    """π²/3 - σ² within 5.5 standard errors of 2 million draws (0.3 %); Kolmogorov-Smirnov after
    adding noise.
    """
    noise, draws = np.random.default_rng(3), 2_000_000
    z = quantile(compensation_table(1.0), noise.random(draws))
    error = np.std(z**2) / np.sqrt(draws)
    assert abs(np.mean(z**2) - (np.pi**2 / 3 - 1.0)) < 5.5 * error
    assert kstest(z + noise.standard_normal(draws), expit).pvalue > 1e-4
    assert kstest(z + 0.9 * noise.standard_normal(draws), expit).pvalue < 1e-4


def test_tensorflow_draws_the_same():
    table, uniform = compensation_table(1.0), np.random.default_rng(0).random(5000)
    compiled = tf.function(
        lambda u: (quantile(table, u), cumulative(table, 10 * u - 5)), jit_compile=True
    )
    z, below = compiled(tf.constant(uniform))
    np.testing.assert_allclose(z.numpy(), quantile(table, uniform), atol=1e-10)
    np.testing.assert_allclose(below.numpy(), cumulative(table, 10 * uniform - 5), atol=1e-12)


def test_tables_are_made_once():
    table = compensation_table(0.97)
    assert compensation_table(0.97) is table


@pytest.mark.parametrize(
    "arguments",
    [(1.1,), (0.0,), (-1.0,), (float("nan"),), (0.2, 0), (0.2, 3, 0.0), (1.0, 30, None)],
)
def test_what_is_no_density_is_refused(arguments):
    with pytest.raises(InputError):
        compensation_table(*arguments)


@pytest.mark.slow
def test_the_figure_of_the_density(tmp_path, capsys):
    """It writes what it prints: the published coefficients, and the error of the series beside
    ours.
    """
    script = FIGURE
    assert script.main(["--output", str(tmp_path)]) == 0
    rows = np.genfromtxt(tmp_path / "compensation.csv", delimiter=",", names=True)
    assert np.abs(rows["error_0"]).max() == pytest.approx(1.031e-3, rel=1e-3)
    assert np.abs(rows["error_3"]).max() < 1e-9
    assert (tmp_path / "compensation.png").stat().st_size > 10_000
    assert "0.895, -0.145" in capsys.readouterr().out
    assert script.main(["--noise-variance", "2", "--output", str(tmp_path)]) == 2
