"""Convergence measures against series whose law is known in closed form."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.signal import lfilter

from tati_re.analysis import (
    autocorrelation_time,
    chains_of,
    effective_sample_size,
    monte_carlo_error,
    r_hat,
)
from tati_re.analysis.averages import average
from tati_re.analysis.convergence import (
    autocorrelation_estimate,
    autocorrelation_function,
    halves_of,
    is_short,
)
from tati_re.analysis.until import Quantity, diagnosis
from tati_re.core.errors import InputError


def autoregression(phi, chains, draws, seed):
    """x_t = phi x_{t-1} + noise, started from its stationary law N(0, 1); tau = (1 + phi)/(1 -
    phi).
    """
    generator = np.random.default_rng(seed)
    noise = generator.standard_normal((chains, draws))
    start = phi * generator.standard_normal((chains, 1))
    return lfilter([1.0], [1.0, -phi], np.sqrt(1 - phi**2) * noise, axis=1, zi=start)[0]


@pytest.fixture(scope="module")
def series():
    return autoregression(0.9, chains=4, draws=50_000, seed=1)


def test_autocorrelation_time_of_an_autoregression(series):
    # The estimate's own standard error, sqrt((4 * 5 * 19 + 2)/draws), is 4.4 % here and 1.5 % in
    # the second case.
    assert autocorrelation_time(series) == pytest.approx(19.0, rel=0.05)
    long = autoregression(0.9, chains=8, draws=200_000, seed=2)
    assert autocorrelation_time(long) == pytest.approx(19.0, rel=0.05)


@pytest.mark.parametrize("phi", [-0.9, -0.5, 0.0, 0.5])
def test_autocorrelation_time_of_alternating_and_of_independent_draws(phi):
    """Five windows of (memory) lags: the error of the estimate is sqrt((4 * 5 * memory + 2)/draws),
    at most 4.3 %.
    """
    memory = (1 + phi**2) / (1 - phi**2) * 2 - 1
    tau, error = (1 + phi) / (1 - phi), np.sqrt((20 * max(memory, 1 + phi) + 2) / 200_000)
    found = autocorrelation_time(autoregression(phi, chains=4, draws=50_000, seed=8))
    assert found == pytest.approx(tau, rel=4.5 * error)


def test_autocorrelation_time_of_draws_that_swing():
    """x'' = 2 r cos(ω) x' - r² x + noise, r = 0.95, ω = 0.3: Sokal's window alone ends in a trough,
    40 % low.
    """
    a, b = 2 * 0.95 * np.cos(0.3), -(0.95**2)
    noise = np.random.default_rng(9).standard_normal((8, 100_000))
    chains = lfilter([1.0], [1.0, -a, -b], noise, axis=1)[:, 1000:]
    variance = (1 - b) / ((1 + b) * ((1 - b) ** 2 - a**2))
    # The spectral density at 0 over the variance; 104 lags: an error of 2.3 %.
    assert autocorrelation_time(chains) == pytest.approx(1 / (1 - a - b) ** 2 / variance, rel=0.1)


def test_a_short_alternating_chain_is_told_from_a_long_one():
    chain = autoregression(-0.9, chains=1, draws=20_000, seed=10)
    tau, needed = autocorrelation_estimate(chain[:, :100])
    assert 0.0 <= tau < 0.5 and 300 < needed < 2000
    assert is_short(chain[:, :100]) and not is_short(chain)
    assert is_short(np.zeros((2, 1000))) and is_short(chain[:, :3])


def test_effective_sample_size_is_draws_over_tau(series):
    for kind in ("bulk", "mean"):
        assert effective_sample_size(series, kind) == pytest.approx(series.size / 19.0, rel=0.1)
    independent = np.random.default_rng(3).standard_normal((4, 5000))
    assert effective_sample_size(independent) == pytest.approx(independent.size, rel=0.1)


def test_monte_carlo_error_is_the_error_of_the_mean(series):
    assert monte_carlo_error(series) == pytest.approx(np.sqrt(19.0 / series.size), rel=0.07)
    # What it claims holds: the means of 200 repetitions scatter by it, to 5.5 standard errors (28
    # %).
    many = autoregression(0.9, chains=200, draws=5000, seed=4)
    claimed = np.mean([monte_carlo_error(chain) for chain in many])
    assert many.mean(axis=1).std() == pytest.approx(claimed, rel=5.5 / np.sqrt(400))


def test_r_hat_tells_chains_of_one_law_from_shifted_ones(series):
    assert r_hat(series) == pytest.approx(1.0, abs=0.005)
    assert r_hat(series + 0.75 * np.arange(4)[:, None]) > 1.1
    assert r_hat(series * np.array([[1.0], [1.0], [1.0], [3.0]])) > 1.1, (
        "the folded part sees a difference in scale"
    )


def test_r_hat_of_a_single_chain_compares_its_halves():
    chain = np.random.default_rng(5).standard_normal(4000)
    assert r_hat(chain) == pytest.approx(1.0, abs=0.01)
    assert r_hat(chain + np.linspace(0, 3, 4000)) > 1.1


def test_a_short_chain_is_refused_with_the_length_that_would_do(series):
    with pytest.raises(
        InputError, match=r"too short .*\. Received: 500 rows\. Expected: at least .* rows, 50"
    ):
        autocorrelation_time(series[:, :500])


def test_chains_that_say_nothing():
    still = np.ones((4, 100))
    assert np.isnan(effective_sample_size(still))
    assert np.isnan(r_hat(still))
    assert np.isnan(monte_carlo_error(still))
    with pytest.raises(InputError, match="never changes"):
        autocorrelation_time(still)
    assert r_hat(still * np.arange(4)[:, None]) == np.inf, "walkers stuck in different places"
    broken = np.random.default_rng(6).standard_normal((2, 50))
    broken[1, 3] = np.nan
    assert np.isnan(effective_sample_size(broken))


@pytest.mark.filterwarnings("error")
def test_halves_that_stand_still_have_no_variance_to_divide_by():
    """One move in the middle was an R-hat of 6.5e15 with a warning of 0/0; so were two sizes that
    no mean tells.
    """
    once = np.repeat([[0.0, 1.0]], 50, axis=1).repeat(4, axis=0)
    assert r_hat(once) == r_hat(once[:, 48:52]) == np.inf
    signs = np.random.default_rng(7).permuted(np.tile([1.0, -1.0], (4, 50)), axis=1)
    assert r_hat(signs * [[1.0], [1.0], [2.0], [2.0]]) == np.inf
    assert 0.99 < r_hat(signs) < 1.1, (
        "of two values as often, the distance from their median never changes"
    )


@pytest.mark.parametrize("power", [-1000, -500, -100, 500, 1000])
def test_the_unit_of_the_draws_does_not_matter(power):
    """Squares of such numbers are 0 or infinite, and draws within 1e-15 are taken for constant by
    the library.
    """
    draws, unit = np.random.default_rng(8).standard_normal((2, 500)), 2.0**power
    assert monte_carlo_error(unit * draws) / unit == pytest.approx(
        monte_carlo_error(draws), rel=1e-12
    )
    assert monte_carlo_error((unit * draws).tolist()) == monte_carlo_error(unit * draws)
    for measure in (
        autocorrelation_time,
        r_hat,
        *(lambda x, k=k: effective_sample_size(x, k) for k in ("mean", "tail")),
    ):
        assert measure(unit * draws) == pytest.approx(measure(draws), rel=1e-12)


def test_too_few_draws_are_refused():
    for measure in (effective_sample_size, monte_carlo_error, r_hat):
        with pytest.raises(InputError, match="Too few draws"):
            measure(np.zeros((4, 3)))


def test_chains_of_a_table():
    table = pd.DataFrame(
        {"step": [10, 10, 20, 20, 30], "walker": [0, 1, 0, 1, 0], "loss": [1.0, 4.0, 2.0, 5.0, 3.0]}
    )
    assert np.array_equal(chains_of(table, "loss"), [[1.0, 2.0], [4.0, 5.0]])
    assert np.array_equal(
        chains_of(table.sample(frac=1.0, random_state=1), "loss"), [[1.0, 2.0], [4.0, 5.0]]
    )
    assert np.array_equal(chains_of(table, "loss", num_burnin_steps=10), [[2.0], [5.0]])
    with pytest.raises(InputError, match="no column 'losss'"):
        chains_of(table, "losss")
    with pytest.raises(InputError, match="No rows are left after the burn-in of 30 steps"):
        chains_of(table, "loss", num_burnin_steps=30)


@pytest.mark.parametrize("shape", [(1, 4), (1, 9), (1, 1001), (2, 8), (3, 501), (4, 5)])
@pytest.mark.parametrize("ties", [False, True])
def test_ranks_from_one_sort_are_those_of_the_library(shape, ties):
    from arviz_stats.base import array_stats

    draws = autoregression(0.5, *shape, seed=3)
    draws = np.round(draws, 1) if ties else draws
    assert effective_sample_size(draws) == pytest.approx(
        float(array_stats.ess(draws, method="bulk")), rel=1e-12
    )
    if shape == (1, 4):
        return
    half = shape[1] // 2
    chains = draws if len(draws) > 1 else np.stack([draws[0, :half], draws[0, -half:]])
    assert r_hat(draws) == pytest.approx(float(array_stats.rhat(chains, method="rank")), rel=1e-12)


def test_what_was_measured_is_remembered_by_its_draws(monkeypatch):
    draws = autoregression(0.5, 2, 500, seed=4)
    first = [function(draws) for function in (effective_sample_size, r_hat, monte_carlo_error)]
    monkeypatch.setattr("tati_re.analysis.convergence.array_stats", None)
    assert [
        function(draws.copy()) for function in (effective_sample_size, r_hat, monte_carlo_error)
    ] == first
    with pytest.raises(TypeError):
        effective_sample_size(draws, "tail")
    draws[1, 7] += 1.0
    with pytest.raises(TypeError):
        r_hat(draws)


def test_autocorrelations_of_large_numbers():
    """Squares of 1e200 overflow: the function was nan, and its figure empty."""
    chains = autoregression(0.5, 2, 500, seed=3)
    np.testing.assert_allclose(
        autocorrelation_function(1e200 * chains), autocorrelation_function(chains), atol=1e-12
    )


def test_r_hat_of_walkers_that_come_and_leave():
    """Uneven visits are no disagreement: it was 1.24 of independent draws of one law, and 1.11 of
    averages, which took the draws at other temperatures along.
    """
    random = np.random.default_rng(0)
    there = random.random((4, 1000)) < np.array([0.9, 0.6, 0.3, 0.05])[:, None]
    draws = np.where(
        there, random.standard_normal((4, 1000)), 3 + 2 * random.standard_normal((4, 1000))
    )
    weights = there.astype(float)
    found = diagnosis([Quantity("x", draws, weights)], 1.01)
    assert (
        found["rhat"] == pytest.approx(r_hat(draws, there))
        and found["rhat"] < found["rhat_by_chance"] < 1.01
    )
    assert average(draws, weights)["r_hat"] == pytest.approx(r_hat(draws, there))
    # Halves count by their draws, as in an analysis of variance, and equal ones as always.
    halves = [
        half for x, here in zip(draws, there, strict=True) for half in halves_of(x[here][None])
    ]
    values, sizes = np.concatenate(halves), np.array([len(half) for half in halves])
    size = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / 7
    parts = (values, np.abs(values - np.median(values)))
    scores = [stats.norm.ppf((stats.rankdata(part) - 0.375) / (len(part) + 0.25)) for part in parts]
    ratios = [stats.f_oneway(*np.split(one, np.cumsum(sizes)[:-1])).statistic for one in scores]
    assert r_hat(draws, there) == pytest.approx(np.sqrt(1 + (max(ratios) - 1) / size), rel=1e-9)
    places = random.permuted(np.tile(np.arange(1000) < 300, (4, 1)), axis=1)
    assert r_hat(draws, places) == pytest.approx(r_hat(draws[places].reshape(4, 300)), rel=1e-12)
    # Walkers that disagree are found, and named, however few draws they have.
    apart = draws + 3 * (np.arange(4) == 2)[:, None]
    found = diagnosis([Quantity("x", apart, weights)], 1.01)
    assert found["rhat"] > 1.3 and found["spoiled_by"] == [2] and found["rhat_without"] < 1.01
    # Each by itself, where walkers are not compared: of places that are 100 apart.
    places = Quantity("x", draws + 100 * np.arange(4)[:, None], weights, False)
    assert diagnosis([places], 1.01)["rhat(weights)"] < 1.01
    assert np.isnan(r_hat(draws, np.eye(4, 1000)))
    assert r_hat(np.arange(4.0)[:, None] * np.ones(1000), there) == np.inf


def test_autocorrelations_count_by_the_rows_of_a_chain():
    """(1 + φ)/(1 - φ) = 19; two chains that were there for five rows made it 9."""
    draws = autoregression(0.9, 4, 100_000, seed=6)
    there = (np.arange(100_000) < np.array([100_000, 100_000, 5, 5])[:, None]).astype(float)
    assert average(draws, there)["autocorrelation_steps"] == pytest.approx(19, rel=0.2)
