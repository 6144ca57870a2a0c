"""What the efficiency benchmark measures, on chains and targets with closed forms. Nothing here
starts TensorFlow.
"""

from __future__ import annotations

import importlib.util
import math

import numpy as np
import pytest

from benchmarks.efficiency.__main__ import cell, main, read, table, write
from benchmarks.efficiency.measures import Draws, judged, least_ess, low_for_good, worst_error
from benchmarks.efficiency.targets import (
    Target,
    Truth,
    all_targets,
    breast_cancer,
    brownian,
    digits,
    funnel,
    network,
    rosenbrock,
)


def autoregressive(chains: int, draws: int, k: int, rho: float, seed: int = 0) -> np.ndarray:
    """Stationary chains of variance 1 with autocorrelation rho^t, `(chains, draws, k)`."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal((chains, draws, k)) * math.sqrt(1 - rho**2)
    values = np.empty_like(noise)
    values[:, 0] = random.standard_normal((chains, k))
    for t in range(1, draws):
        values[:, t] = rho * values[:, t - 1] + noise[:, t]
    return values


@pytest.mark.parametrize("rho", [0.0, 0.6])
def test_errors_fall_as_the_closed_form_says(rho):
    """E b² after n draws is (1 + 2 Σ (1 - t/n) ρ^t)/n; over 2,000 chains within 5.5 standard
    errors, sqrt(2/2000) each.

    A mean over n - 1, or a truth that is off by .05, would be 7 errors away at the last n.
    """
    values = autoregressive(2_000, 400, 1, rho)
    errors = np.array([worst_error(chain, np.zeros(1), np.ones(1)) for chain in values])
    for n in (1, 7, 60, 400):
        t = np.arange(1, n)
        exact = (1 + 2 * np.sum((1 - t / n) * rho**t)) / n
        assert abs(errors[:, n - 1].mean() / exact - 1) < 5.5 * math.sqrt(2 / 2_000)
    shifted = np.array([worst_error(chain, np.full(1, 0.2), np.ones(1)) for chain in values])
    assert shifted[:, -1].mean() > errors[:, -1].mean() + 0.03


def test_effective_draws_of_autoregressive_chains():
    """n (1 - ρ)/(1 + ρ) for x, n (1 - ρ²)/(1 + ρ²) for its square, of which the least counts;
    within a tenth.
    """
    found = least_ess(autoregressive(4, 20_000, 2, 0.8, seed=1))
    assert found == pytest.approx(80_000 * 0.2 / 1.8, rel=0.1)
    both = np.concatenate(
        [autoregressive(4, 20_000, 1, 0.3, 2), autoregressive(4, 20_000, 1, 0.95, 3)], axis=-1
    )
    assert least_ess(both) == pytest.approx(80_000 * 0.05 / 1.95, rel=0.15)


def test_the_last_crossing_counts_and_the_median_of_chains():
    gradients = np.tile([10.0, 20.0, 30.0, 40.0], (3, 1))
    errors = np.array(
        [[0.9, 0.001, 0.2, 0.001], [0.9, 0.001, 0.3, 0.002], [0.9, 0.001, 0.001, 0.9]]
    )
    assert low_for_good(errors, gradients) == 40.0
    assert low_for_good(errors[:, :3], gradients[:, :3]) == math.inf
    assert low_for_good(np.zeros((3, 4)), gradients) == 10.0
    assert low_for_good(errors[2:, :3], gradients[2:, :3]) == 20.0


def test_a_line_of_the_table():
    """Independent draws of N(0, 1), five gradients each: 200 effective draws per 1,000 gradients, U
    likewise.
    """
    target = Target("normal", 3, lambda xp, x: 0.5 * xp.sum(x * x, -1), 0, np.zeros(3))
    target = target._replace(truth=Truth(np.zeros(3), np.ones(3), np.ones(3), 2 * np.ones(3)))
    draws = 4_000
    positions = autoregressive(4, draws, 3, 0.0, seed=5)
    given = Draws(positions, np.tile(5.0 * np.arange(1, draws + 1), (4, 1)), 1_000.0, 2.0, 3.0, 4.0)
    found = judged(target, "made", 0, given)
    assert found.ess_1000 == pytest.approx(200, rel=0.1) and found.ess_u_1000 == pytest.approx(
        200, rel=0.1
    )
    assert found.ess_second == pytest.approx(found.ess_1000 * 4 * 5 * draws / 1_000 / 2.0)
    assert found.seconds_to_square == pytest.approx(found.to_square * 2.0 / (5 * draws))
    # b² < .01 takes a hundred draws or more; chains whose variance is a fifth too large never get
    # there for x².
    assert 5 * 50 < found.to_mean < 5 * 1_500
    wrong = judged(target, "made", 0, given._replace(positions=positions * math.sqrt(1.2)))
    assert wrong.to_square == math.inf and wrong.to_mean < math.inf
    assert "not reached" in table([wrong]) and cell(math.nan) == "-"


def test_results_are_read_as_they_were_written(tmp_path):
    target = Target("normal", 1, lambda xp, x: 0.5 * xp.sum(x * x, -1), 0, np.zeros(1))
    draws = Draws(
        autoregressive(4, 200, 1, 0.0),
        np.tile(np.arange(1.0, 201), (4, 1)),
        0.0,
        1.0,
        0.0,
        0.0,
        note="a, b",
    )
    results = [judged(target, "made", number, draws) for number in (0, 1)]
    write(results, tmp_path / "results.csv")
    assert list(map(repr, read(tmp_path / "results.csv"))) == list(map(repr, results))
    assert len(table(results).splitlines()) == 3


def test_moments_of_the_targets_are_those_of_draws():
    """Rosenbrock and funnel drawn exactly, 400,000 times; the funnel's by its formula: x² has no
    error bar.
    """
    random, n = np.random.default_rng(1), 400_000
    x = 1 + random.standard_normal((n, 1))
    pair = np.concatenate([x, x**2 + math.sqrt(0.1) * random.standard_normal((n, 1))], axis=1)
    exact = rosenbrock().truth
    for column, place in ((0, 0), (1, 18)):
        for power, mean, variance in (
            (1, exact.mean, exact.variance),
            (2, exact.mean_of_square, exact.variance_of_square),
        ):
            error = math.sqrt(variance[place] / n)
            assert abs((pair[:, column] ** power).mean() - mean[place]) < 5.5 * error
            assert (pair[:, column] ** power).var() == pytest.approx(variance[place], rel=0.1)
    assert exact.variance_of_square[18] == pytest.approx(668.02, abs=0.01)
    assert funnel().truth.mean_of_square[1] == pytest.approx(math.exp(4.5))


def test_potentials_are_densities():
    """Rosenbrock's and the funnel's U differ from the exact -log density by a constant; a network's
    from its parts.
    """
    random = np.random.default_rng(2)
    x = random.standard_normal((5, 36))
    exact = 0.5 * ((x[:, :18] - 1) ** 2).sum(1) + 5 * ((x[:, 18:] - x[:, :18] ** 2) ** 2).sum(1)
    np.testing.assert_allclose(rosenbrock().potential(np, x), exact, rtol=1e-12)
    v, rest = x[:, 0], x[:, 1:10]
    exact = v**2 / 18 + sum(0.5 * (r / np.exp(v / 2)) ** 2 + v / 2 for r in rest.T)
    np.testing.assert_allclose(funnel().potential(np, x[:, :10]), exact, rtol=1e-12)
    inputs, targets = random.standard_normal((20, 2)), random.standard_normal((20, 1))
    small = network("small", inputs, targets, [3], 0)
    assert small.dimension == 13
    w = random.standard_normal(13)
    outputs = np.tanh(inputs @ w[:6].reshape(2, 3) + w[6:9]) @ w[9:12] + w[12]
    exact = ((outputs - targets[:, 0]) ** 2).sum() / (2 * 0.1**2) + 0.5 * w @ w
    np.testing.assert_allclose(small.potential(np, w), exact, rtol=1e-5)
    np.testing.assert_allclose(small.potential(np, w[None]), [exact], rtol=1e-5)
    np.testing.assert_allclose(small.observed(np, w[None])[0], outputs, rtol=1e-4, atol=1e-5)
    assert digits().dimension == 64 * 32 + 32 + 32 * 10 + 10
    at_zero = digits()
    assert at_zero.potential(np, np.zeros(at_zero.dimension)) == pytest.approx(
        1797 * math.log(10), rel=1e-5
    )
    assert breast_cancer().potential(np, np.zeros(31)) == pytest.approx(569 * math.log(2))


def test_what_is_missing_is_said(tmp_path, capsys):
    found, missing = all_targets(tmp_path)
    assert set(missing) == {"german-credit", "yacht", "energy"} and "brownian" in found
    assert (
        main(["--targets", "yacht", "--methods", "BlackJAX NUTS", "--output", str(tmp_path)]) == 0
    )
    assert "yacht is left out: needs uci/yacht.txt" in capsys.readouterr().out


def test_german_credit_is_read(tmp_path):
    """1,000 rows of 24 numbers and a class 1 or 2; at zero scales are 1 and weights 0."""
    rows = np.column_stack(
        [np.random.default_rng(0).integers(0, 9, (1_000, 24)), np.tile([1, 2], 500)]
    )
    np.savetxt(tmp_path / "german.data-numeric", rows, fmt="%d")
    target = all_targets(tmp_path)[0]["german-credit"]()
    assert target.potential(np, np.zeros(51)) == pytest.approx(1_000 * math.log(2) + 0.5 * 26)
    assert target.observed(np, np.zeros((1, 51)))[0].tolist() == [1.0] * 26 + [0.0] * 25


@pytest.mark.slow
def test_a_quick_table_is_whole(tmp_path, capsys):
    """Ours and, where JAX is installed, MCLMC on a Gaussian of 100 coordinates: each within a
    factor 3 of the other.
    """
    methods = ["ours, MCLMC", "BlackJAX MCLMC"]
    assert main(["--quick", "--share", "4", "--methods", *methods, "--output", str(tmp_path)]) == 0
    said, found = (
        capsys.readouterr().out,
        {result.method: result for result in read(tmp_path / "results.csv")},
    )
    ours = found["ours, MCLMC"]
    assert 60 < ours.ess_1000 < 500 and 60 < ours.ess_u_1000 < 700 and 0 < ours.eevpd < 5e-4
    assert 0 < ours.tuning_gradients < 2_000
    if importlib.util.find_spec("blackjax") is None:
        assert "BlackJAX MCLMC is left out: ModuleNotFoundError" in said
        return
    assert 1 / 3 < ours.ess_1000 / found["BlackJAX MCLMC"].ess_1000 < 3


def test_the_potential_of_brownian_motion_is_inference_gyms():
    """Where that package is installed: one constant beside its log density and the Jacobian of its
    scales.
    """
    gym = pytest.importorskip("inference_gym.using_numpy", exc_type=ImportError)
    model = gym.targets.VectorModel(
        gym.targets.BrownianMotionUnknownScalesMissingMiddleObservations(),
        flatten_sample_transformations=True,
    )
    target = brownian()
    x = target.start + 0.3 * np.random.default_rng(0).standard_normal((5, 32))
    map_ = model.default_event_space_bijector
    given = x.astype(np.float32)
    theirs = model.unnormalized_log_prob(map_.forward(given)) + map_.forward_log_det_jacobian(
        given, 1
    )
    assert np.ptp(np.asarray(theirs) + target.potential(np, x)) < 1e-3
