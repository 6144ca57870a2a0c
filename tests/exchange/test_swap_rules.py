"""Swap rules: exact stationary laws of a two-replica chain, by linear algebra and quadrature,
without sampling.

Two replicas move on eight levels by Metropolis steps between neighbors and swap by the rule; the
total variation is that of the cold replica's stationary law from exp(-u). The chain tells a bias of
1e-5; the wrong rules have 0.02 to 0.4. Draws of `accept` are compared with `expected` within 5.5
standard errors, at most 0.3 %.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from scipy.special import expit, ndtr
from scipy.stats import chi2

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange.swap_rules import (
    LARGE_COUNT,
    SWAP_RULES,
    Barker,
    BarkerCompensated,
    Corrected,
    Metropolis,
    Naive,
    Penalty,
    SwapRule,
    make_swap_rule,
    mean_acceptance,
)
from tati_re.exchange.well_tempered import Bias, log_ratio, noise_factors

LEVELS = np.arange(8.0)
DEGENERACY = 0.9 * np.log(2) * LEVELS
POSTERIOR = np.outer([1.0, 0.5], LEVELS)
"""Reduced potentials β U of the two rungs, T = 1 and 2."""
LOSS, PRIOR = LEVELS, 0.15 * (LEVELS - 4.0) ** 2
LIKELIHOOD = np.outer([1.0, 0.4], LOSS) + PRIOR
"""λ L + V of two rungs, λ = 1 and 0.4 at β = 1."""

RULES = [
    Metropolis(),
    Barker(),
    Penalty(),
    Penalty(barker=True),
    BarkerCompensated(1.0),
    Corrected(2.0),
    Naive(),
]
NAMES = [f"{rule.name}{'_barker' if getattr(rule, 'barker', False) else ''}" for rule in RULES]


def cold_error(acceptance, reduced: np.ndarray = POSTERIOR) -> float:
    """Total variation of the cold replica's stationary law; `acceptance` takes arrays of D."""
    levels = len(LEVELS)

    def local(u: np.ndarray) -> np.ndarray:
        kernel = np.zeros((levels, levels))
        for i in range(levels):
            for k in (i - 1, i + 1):
                if 0 <= k < levels:
                    kernel[i, k] = 0.5 * min(
                        1.0, np.exp(u[i] - u[k] + DEGENERACY[k] - DEGENERACY[i])
                    )
            kernel[i, i] = 1 - kernel[i].sum()
        return kernel

    cold, hot = reduced
    log_ratio = cold[:, None] + hot[None, :] - cold[None, :] - hot[:, None]
    found, place = np.unique(np.round(log_ratio, 12), return_inverse=True)
    accepted = np.asarray(acceptance(found))[place.reshape(log_ratio.shape)]
    swap = np.zeros((levels**2, levels**2))
    for i in range(levels):
        for k in range(levels):
            swap[i * levels + k, k * levels + i] += accepted[i, k]
            swap[i * levels + k, i * levels + k] += 1 - accepted[i, k]
    kernel = np.kron(local(cold), local(hot)) @ swap
    equations = np.vstack([kernel.T - np.eye(levels**2), np.ones(levels**2)])
    law = np.linalg.lstsq(equations, np.append(np.zeros(levels**2), 1.0), rcond=None)[0]
    target = np.exp(-cold + DEGENERACY)
    return 0.5 * np.abs(law.reshape(levels, levels).sum(1) - target / target.sum()).sum()


def noisy(rule: SwapRule, noise_variance: float, **told):
    return functools.partial(mean_acceptance, rule, noise_variance=noise_variance, **told)


EXACT = {
    "metropolis": noisy(Metropolis(), 0.0),
    "barker": noisy(Barker(), 0.0),
    "penalty at 0.2": noisy(Penalty(), 0.2),
    "penalty at 1": noisy(Penalty(), 1.0),
    "penalty at 4": noisy(Penalty(), 4.0),
    "penalty in Barker's form at 1": noisy(Penalty(barker=True), 1.0),
    "penalty in Barker's form at 4": noisy(Penalty(barker=True), 4.0),
    "compensated at 0.2": noisy(BarkerCompensated(0.2), 0.2),
    "compensated at 1": noisy(BarkerCompensated(1.0), 1.0),
    "compensated for 1 at 0.3": noisy(BarkerCompensated(1.0), 0.3),
    "compensated for 1 at 0": noisy(BarkerCompensated(1.0), 0.0),
    "corrected at 4": noisy(Corrected(), 4.0),
}


@pytest.mark.parametrize("reduced", [POSTERIOR, LIKELIHOOD], ids=["posterior", "likelihood"])
@pytest.mark.parametrize("name", EXACT)
def test_exact_rules_leave_the_law_of_the_cold_replica(name, reduced):
    assert cold_error(EXACT[name], reduced) < 1e-5


@pytest.mark.parametrize(
    ("acceptance", "published"),
    [
        (lambda ratio: Barker().expected(-ratio, 0.0, 2.0), 0.372),
        (noisy(Naive(), 4.0), 0.0885),
        (noisy(Corrected(2.0), 4.0), 0.0397),
        (noisy(Corrected(4.0), 4.0), 0.0634),
        (noisy(Penalty(), 1.0, variance=4.0), 0.0549),
        (noisy(Barker(), 1.0), 0.0233),
        (noisy(BarkerCompensated(0.2, series_terms=3), 0.2), 2.41e-4),
    ],
    ids=[
        "flipped sign",
        "naive",
        "F = 2",
        "F = 4",
        "variance of two batches",
        "uncompensated",
        "series",
    ],
)
def test_wrong_rules_change_the_law(acceptance, published):
    assert cold_error(acceptance) == pytest.approx(published, rel=0.01)


SLOPES = np.array([-0.45, -0.3])
BIAS = Bias(
    SLOPES[:, None] * np.arange(80) / 2, np.full(2, -12.0), np.full(2, 0.5), *np.zeros((4, 2))
)
"""A_r(U) = slope times U + const., far beyond the levels: the noise of D is as Gaussian as that of
the energies.
"""


@pytest.mark.parametrize(
    ("rule", "spread"),
    [(Penalty(), 1.0), (Penalty(), 4.0), (BarkerCompensated(1.0), 1.0)],
    ids=["1", "4", "Barker"],
)
def test_rules_under_a_bias_take_the_noise_by_its_factors(rule, spread):
    """V = f² Var(ε) + g² Var(δ) - 2fg Cov(ε, δ); that of the plain ladder is 6 times as large, and
    so is the error.
    """
    beta, rungs = np.array([1.0, 0.5]), np.zeros((8, 8), np.int32)
    cold, hot = (np.broadcast_to(levels, (8, 8)) for levels in (LEVELS[:, None], LEVELS))
    first, second = noise_factors(BIAS, beta, cold, hot, rungs, rungs + 1)
    np.testing.assert_allclose([first, second], 0.2, rtol=1e-12)
    reduced = beta[:, None] * (LEVELS + np.outer(SLOPES, LEVELS))
    np.testing.assert_allclose(
        log_ratio(BIAS, beta, cold, hot, rungs, rungs + 1),
        reduced[0][:, None] + reduced[1] - reduced[0] - reduced[1][:, None],
        atol=1e-12,
    )
    correlation = 0.6
    energy_variance = spread / (0.04 * 2 * (1 - correlation))
    told = (first**2 + second**2 - 2 * first * second * correlation)[0, 0] * energy_variance
    plain = 0.25 * 2 * (1 - correlation) * energy_variance
    assert cold_error(noisy(rule, spread, variance=told), reduced) < 1e-5
    if rule.name == "penalty":
        # At 4 the larger correction leaves hardly a swap, and so no error.
        assert spread > 1 or cold_error(noisy(rule, spread, variance=plain), reduced) > 0.01
        assert cold_error(noisy(Naive(), spread), reduced) > 0.01


def test_noise_factors_are_the_slopes_of_the_log_ratio():
    """Of a curved bias, by differences, from both sides of a pair."""
    random = np.random.default_rng(0)
    bias = BIAS._replace(heights=np.cumsum(np.cumsum(random.normal(size=(2, 80)), 1), 1) / 30)
    beta, low = np.array([1.0, 0.4]), np.zeros(50, np.int32)
    energies = random.uniform(-5, 20, (2, 50))
    first, second = noise_factors(bias, beta, *energies, low, low + 1)
    for expected, step in ((first, [[1e-6], [0]]), (-second, [[0], [1e-6]])):
        up, down = (
            log_ratio(bias, beta, *(energies + sign * np.array(step)), low, low + 1)
            for sign in (1, -1)
        )
        np.testing.assert_allclose((up - down) / 2e-6, expected, atol=1e-5)


@pytest.mark.parametrize("noise_variance", [0.2, 1.0, 4.0])
def test_penalty_accepts_as_its_closed_form(noise_variance):
    """A(D) = Φ((D - c)/s) + e^D Φ(-(D + c)/s), c = s²/2; ln A(D)/A(-D) = D."""
    ratio, c, s = np.linspace(-6, 6, 25), noise_variance / 2, np.sqrt(noise_variance)
    found = mean_acceptance(Penalty(), ratio, noise_variance)
    np.testing.assert_allclose(
        found, ndtr((ratio - c) / s) + np.exp(ratio) * ndtr(-(ratio + c) / s), atol=2e-6
    )
    np.testing.assert_allclose(np.log(found / found[::-1]), ratio, atol=2e-4)


@pytest.mark.parametrize("variance", [0.0, pytest.param(0.3, marks=pytest.mark.slow), 1.0])
def test_compensated_accepts_as_barker_whatever_the_variance(variance):
    ratio = np.linspace(-8, 8, 33)
    np.testing.assert_allclose(
        mean_acceptance(BarkerCompensated(1.0), ratio, variance), expit(ratio), atol=1e-5
    )


def test_small_samples_ask_for_two_terms_more():
    """D = 0.5, noise variance 2 estimated from n = 10: ln A(D)/A(-D) = 0.493; without the terms
    0.479.
    """
    quantiles = (np.arange(2000) + 0.5) / 2000
    estimates = 2.0 * chi2.ppf(quantiles, 9) / 9
    normal = np.linspace(-8, 8, 1601)
    weights = np.exp(-0.5 * normal**2) / np.exp(-0.5 * normal**2).sum()

    def log_ratio(count: float) -> float:
        rule = Penalty()
        up, down = (
            np.mean(
                [weights @ rule.expected(d + np.sqrt(2.0) * normal, v, count) for v in estimates]
            )
            for d in (0.5, -0.5)
        )
        return np.log(up / down)

    assert log_ratio(10.0) == pytest.approx(0.493, abs=5e-4)
    assert log_ratio(LARGE_COUNT) == pytest.approx(0.479, abs=5e-4)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_draws_accept_as_often_as_expected(rule):
    noise, draws = np.random.default_rng(1), 400_000
    for ratio, variance in ((0.5, 0.0), (-1.0, 0.4), (1.5, 0.9), (-3.0, 0.9)):
        full = np.full(draws, ratio)
        arguments = (np.full(draws, variance), np.full(draws, 20.0))
        accepted = rule.accept(full, *arguments, noise.random(draws), noise.standard_normal(draws))
        expected = float(rule.expected(ratio, variance, 20.0))
        error = max(np.sqrt(expected * (1 - expected) / draws), 1 / draws)
        assert abs(accepted.mean() - expected) < 5.5 * error, (ratio, variance)


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "xla"])
def test_tensorflow_decides_like_numpy(rule, compiled):
    noise, size = np.random.default_rng(2), 1000
    numbers = (
        noise.normal(0, 3, size),
        noise.random(size),
        np.full(size, 15.0),
        noise.random(size),
        noise.standard_normal(size),
    )
    accept, expected = rule.accept, rule.expected
    if compiled:
        accept, expected = (
            tf.function(accept, jit_compile=True),
            tf.function(expected, jit_compile=True),
        )
    found = accept(*map(tf.constant, numbers))
    assert found.dtype == tf.bool
    np.testing.assert_array_equal(found.numpy(), rule.accept(*numbers))
    np.testing.assert_allclose(
        expected(*map(tf.constant, numbers[:3])).numpy(),
        rule.expected(*numbers[:3]),
        rtol=0,
        atol=1e-12,
    )


@pytest.mark.parametrize("rule", RULES, ids=NAMES)
def test_the_contract_of_a_rule(rule):
    assert isinstance(rule, SwapRule)
    assert SWAP_RULES[rule.name] is type(rule)
    assert rule.get_config()["swap_rule"] == rule.name
    ratio = np.array([np.nan, np.inf, -np.inf])
    fixed = (np.full(3, 0.5), np.full(3, 10.0), np.full(3, 0.5), np.zeros(3))
    assert rule.accept(ratio, *fixed).tolist() == [False, True, False]
    if rule.exact:
        assert rule.target_variance is None and rule.biased is None


def test_which_rules_say_that_they_are_biased():
    assert [rule.name for rule in RULES if rule.biased] == ["corrected", "naive"]
    assert Corrected().biased is None and BarkerCompensated(0.2, series_terms=3).biased
    assert "low" in Corrected(0.5).biased and "high" in Corrected(2.0).biased


def test_rules_by_name():
    assert make_swap_rule("penalty").target_variance == 1.0
    assert make_swap_rule("penalty", 4.0).target_variance == 4.0
    assert make_swap_rule("corrected", correction_factor=3.0).factor == 3.0
    assert make_swap_rule("barker_compensated", 0.2).target_variance == 0.2
    assert make_swap_rule("corrected").target_variance is None
    assert make_swap_rule("metropolis").exact


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": "penalti"}, "Did you mean 'penalty'"),
        ({"name": "barker_compensated", "swap_variance": 1.2}, "Above 1.05"),
        ({"name": "barker_compensated", "swap_variance": 0.0}, "Expected: above 0"),
        ({"name": "penalty", "swap_variance": -1.0}, "swap_variance"),
        ({"name": "metropolis", "swap_variance": 1.0}, "without noise"),
        ({"name": "corrected", "correction_factor": 0.0}, "correction_factor"),
        ({"name": "penalty", "correction_factor": 2.0}, "has no such factor"),
    ],
)
def test_bad_input_is_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        make_swap_rule(**arguments)


def test_a_series_that_is_no_density_is_refused():
    with pytest.raises(InputError, match="negative"):
        BarkerCompensated(1.0, series_terms=30, series_filter=None)
