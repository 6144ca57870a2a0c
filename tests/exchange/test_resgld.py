"""The corrected swap with a variance averaged from swap to swap: closed forms, and the published
mixtures.

Masses and swap rates of the mixtures are those of the stationary law of the kernel of two chains at
a finite step size, found on a grid: at step size 0.03 the right mode of the first has mass 0.589
with noise-free swaps too, at 0.015 0.595, at 0.005 0.598, and 0.6 in the limit.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import tati_re
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange.correction import Correction
from tati_re.exchange.differences import LogRatioEstimate
from tati_re.exchange.swap_rules import Corrected, make_swap_rule
from tati_re.summary.summary import summarize
from tests.scenarios import TOLERANCE
from tests.scripts import example

LAW = example("resgld_mixtures")
PAIRS = SimpleNamespace(
    low=np.array([[0, 2]]), high=np.array([[1, 3]]), valid=np.array([[True, True]])
)
OTHERS = SimpleNamespace(
    low=np.array([[1, 0]]), high=np.array([[2, 3]]), valid=np.array([[True, True]])
)


def averaged(correction: Correction, values, pairs=PAIRS):
    """The state after these estimates `(rounds, pairs)`."""
    state = correction.start(1, 4)
    for found in values:
        state = correction.updated(state, pairs, np.asarray([found]))
    return state


def difference(variance, example_variance, count=10.0):
    filled = np.full((1, 2), count)
    return LogRatioEstimate(
        np.zeros((1, 2)), np.array([variance]), filled, count, np.array([example_variance])
    )


def test_default_gain_gives_the_mean_of_all_estimates():
    values = np.random.default_rng(0).gamma(2.0, size=(7, 2))
    state = averaged(Correction(), values)
    np.testing.assert_allclose(state.variance[0], [values[:, 0].mean(), 0, values[:, 1].mean()])
    np.testing.assert_allclose(state.tries, [[7, 0, 7]])


def test_constant_gain_starts_from_the_first_estimate():
    values = np.random.default_rng(0).gamma(2.0, size=(6, 2))
    weights = np.append(0.7**5, 0.3 * 0.7 ** np.arange(4, -1, -1))
    np.testing.assert_allclose(
        averaged(Correction(0.3), values).variance[0, [0, 2]], weights @ values
    )


def test_estimates_are_taken_each_so_many_attempts():
    values = np.random.default_rng(0).gamma(2.0, size=(7, 2))
    state = averaged(Correction(every=3), values)
    np.testing.assert_allclose(state.variance[0, [0, 2]], values[::3].mean(0))
    np.testing.assert_allclose(state.updates[0], [3, 0, 3])


def test_pairs_that_are_none_leave_the_averages_alone():
    wrong = SimpleNamespace(
        low=np.array([[0, 2]]), high=np.array([[1, 3]]), valid=np.array([[True, False]])
    )
    state = averaged(Correction(), [[3.0, np.nan]], wrong)
    np.testing.assert_allclose(state.variance, [[3.0, 0.0, 0.0]])
    np.testing.assert_allclose(state.tries, [[1.0, 0.0, 0.0]])


def test_variance_follows_temperatures_and_batch():
    """V = f² v/n (1 - n/N), whatever this batch says; all examples leave no noise."""
    correction = Correction()
    state = averaged(correction, [[4.0, 6.0], [2.0, 2.0]])
    new, told = correction.applied(
        state, PAIRS, difference([9.0, 9.0], [3.0, 4.0], 10.0), np.array([[0.5, 2.0]]), 40
    )
    np.testing.assert_allclose(new.variance[0, [0, 2]], [3.0, 4.0])
    np.testing.assert_allclose(told.variance, [[0.25 * 3 / 10 * 0.75, 4 * 4 / 10 * 0.75]])
    _, told = correction.applied(
        state, PAIRS, difference([0.0, 0.0], [3.0, 4.0], 40.0), np.array([[0.5, 2.0]]), 40
    )
    np.testing.assert_allclose(told.variance, 0.0)
    _, told = correction.applied(
        state, OTHERS, difference([7.0, 8.0], [3.0, 4.0]), np.array([[0.5, 2.0]]), 40
    )
    np.testing.assert_allclose(told.variance, [[0.25 * 3 / 10 * 0.75, 8.0]])


def test_factor_falls_with_swaps_and_grows_with_steps():
    correction = Correction(decay=0.8, growth=1.02)
    state = correction.counted(correction.start(2, 4), np.array([[True, True], [False, True]]))
    np.testing.assert_allclose(correction.factor(state, 3_000), 1.02**3 * np.array([[0.64], [0.8]]))
    assert correction.varies and not Correction().varies
    assert "according to past swaps" in Corrected(2.0, correction=correction).biased


def test_tensorflow_computes_the_same():
    correction = Correction(0.3, 2, 0.8, 1.02)

    def both(state, low, high, valid, found, accepted):
        pairs = SimpleNamespace(low=low, high=high, valid=valid)
        given = LogRatioEstimate(found, found, 0.0 * found + 10.0, 10.0, found)
        state, told = correction.applied(state, pairs, given, 0.0 * found + 0.5, 40)
        state = correction.counted(state, accepted)
        return state, told.variance, correction.factor(state, np.int64(500))

    found, state = (
        np.array([[3.0, 4.0]]),
        averaged(correction, [[1.0, 2.0], [3.0, 3.0], [7.0, 9.0]]),
    )
    given = (state, PAIRS.low, PAIRS.high, PAIRS.valid, found, np.array([[True, False]]))
    compiled = tf.function(both, jit_compile=True)(*tf.nest.map_structure(tf.constant, given))
    tf.nest.map_structure(
        lambda a, b: np.testing.assert_allclose(a.numpy(), b, rtol=1e-13), compiled, both(*given)
    )


@pytest.mark.parametrize(
    "wrong",
    [{"gain": 0.0}, {"gain": 1.5}, {"every": 0}, {"decay": 0.0}, {"decay": 1.1}, {"growth": 0.9}],
)
def test_values_out_of_range_are_refused(wrong):
    with pytest.raises(InputError, match=r"out of range|at least"):
        Correction(**wrong)


def test_rule_takes_its_correction_from_the_options():
    rule = make_swap_rule("corrected", correction_factor=2.0, correction=Correction(0.3, 50))
    assert rule.get_config()["variance_gain"] == 0.3 and rule.get_config()["variance_every"] == 50


def test_a_biased_run_says_so_at_both_ends(capfd):
    simulation = tati_re.Simulation(
        data="two_clusters", loss="mean_squared_error", potential="mean_loss", seed=1
    )
    asked = {"sampler": "reSGLD", "batch_size": 50, "num_steps": 40, "step_size": 0.01}
    run = simulation.sample(**asked, correction_factor=2.0, execution="graph")
    assert "correction_factor 2 makes the correction" in capfd.readouterr().out
    assert "Warning: correction_factor 2 makes the correction" in " ".join(summarize(run).split())
    assert run.manifest["method"]["swap_bias"] == Corrected(2.0).biased


def agrees(found, exact: tuple[float, float], mass_error: float, rate_error: float) -> None:
    """Mass and swap rate in % within these bounds of exact, which are no narrower than 5.5 standard
    errors.
    """
    mass, error = found.mass
    assert error * TOLERANCE < mass_error and abs(mass - exact[0]) < mass_error
    assert abs(100 * found.swap_rate - exact[1]) < rate_error


@pytest.mark.slow
def test_corrected_swaps_of_the_first_mixture():
    """Detects naive swaps (0.514, 42 %), a correction wrong by 5 % by its swap rate, and a variance
    wrong by 4 %.
    """
    found = LAW.sample(LAW.MIXTURES["1"], "F = 1", 400, 1_000, 300)
    agrees(found, (0.5892, 11.20), 0.06, 0.5)
    assert abs(found.variance.mean() - 4.0) < TOLERANCE * found.variance.std() / np.sqrt(400)


@pytest.mark.slow
def test_naive_swaps_are_caught():
    found = LAW.sample(LAW.MIXTURES["1"], "naive", 400, 1_000, 300)
    agrees(found, (0.5139, 41.99), 0.06, 0.5)
    assert abs(found.mass[0] - 0.5892) > TOLERANCE * found.mass[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rule", "exact", "rate_error"),
    [
        ("1", "F = 1", (0.5892, 11.20), 0.3),
        ("1", "naive", (0.5139, 41.99), 0.3),
        ("2", "F = 1", (0.5952, 19.58), 0.4),
        ("2", "naive", (0.5361, 37.92), 0.3),
    ],
)
def test_published_mixtures(name, rule, exact, rate_error):
    """Masses to 0.007: a correction wrong by a tenth would show in the swap rates, F = 2 in the
    masses.
    """
    num_pairs = 4_000 if name == "1" else 6_000
    found = LAW.sample(LAW.MIXTURES[name], rule, num_pairs, 8_000, num_burnin_steps=1_000)
    agrees(found, exact, 0.0075, rate_error)


@pytest.mark.slow
def test_smaller_steps_approach_the_target():
    """Mass 0.5983 at step size 0.005, and 0.6 in the limit: the rest is the step, not the swaps."""
    found = LAW.sample(LAW.MIXTURES["1"], "F = 1", 4_000, 12_000, 2_000, step_size=0.005)
    agrees(found, (0.5983, 11.33), 0.013, 0.3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "exact"),
    [
        ("F = 2", (0.4927, 0.7001)),
        ("F = 4", (0.4768, 8.7725)),
        ("naive", (0.4466, 46.03)),
        ("noise-free", (0.5821, 35.46)),
    ],
)
def test_factors_of_the_third_mixture(rule, exact):
    """Noise of variance 61: F above 1 mixes and is biased, exact energies are not. What an average
    of estimates lacks of the true variance adds 0.03 % to swaps of 0.7 %, 0.1 % to those of 8.8
    %.
    """
    found = LAW.sample(LAW.MIXTURES["3"], rule, 2_000, 6_000, num_burnin_steps=2_000)
    mass, error = found.mass
    assert abs(mass - exact[0]) < TOLERANCE * error
    spread = 0.0 if np.isnan(found.swap_error) else 100 * found.swap_error
    assert abs(100 * found.swap_rate - exact[1]) < max(TOLERANCE * spread, 0.02 * exact[1])


@pytest.mark.slow
def test_without_swaps_chains_stay_in_their_mode():
    start = np.full((200, 1), -4.0)
    found = LAW.sample(LAW.MIXTURES["2"], "SGLD", 100, 500, 0, start=start)
    assert found.right.max() == 0.0 and found.swap_rate == 0.0


@pytest.mark.slow
def test_control_variate_lets_the_exact_correction_mix():
    """The mean of a mixture, T = 25 and 1000, F = 1: a center of each third step divides the
    variance of a swap by 2 and more, and multiplies accepted swaps by 10 and more; all chains begin
    in one mode, and leave it.
    """
    rows = []
    for used in (False, True):
        run = LAW.sample_mean(used, 32, 12_000, 3, num_burnin_steps=6_000)
        rows.append(LAW.mean_row(run, 3 if used else 0, 32)[0])
    plain, helped = rows
    assert plain.variance > 2 * helped.variance
    assert helped.swap_rate > 10 * plain.swap_rate
    assert abs(helped.right - 0.5) < TOLERANCE * helped.right_error < 0.5


@pytest.mark.parametrize("flag", ["--num-pairs", "--num-steps", "--mean-steps", "--refresh"])
def test_example_says_what_is_too_small(flag, capsys):
    assert LAW.main([flag, "0"]) == 2
    assert "too small" in capsys.readouterr().err


@pytest.mark.slow
def test_example_writes_tables_and_figure(tmp_path, capsys):
    sizes = {"--num-pairs": 50, "--num-steps": 200, "--mean-pairs": 4, "--mean-steps": 400}
    arguments = [str(part) for pair in sizes.items() for part in pair]
    assert LAW.main([*arguments, "--output", str(tmp_path)]) == 0
    assert (tmp_path / "resgld.png").stat().st_size > 10_000
    table = (tmp_path / "mixtures.csv").read_text().splitlines()
    assert len(table) == 1 + sum(len(rules) for rules in LAW.RULES.values())
    assert len((tmp_path / "control_variate.csv").read_text().splitlines()) == 3
    assert "published" in capsys.readouterr().out
