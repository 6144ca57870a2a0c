"""A predicted spread includes the rounding of the targets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tati_re
from tati_re.core.errors import InputError
from tati_re.likelihoods.gaussian import PredictedGaussian
from tati_re.likelihoods.registry import likelihood_class
from tati_re.likelihoods.rounding import least_std, rounding_of, spike_of
from tati_re.runs import manifest
from tati_re.testing.likelihood_protocol import check_likelihood

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

RANDOM = np.random.default_rng(5)
GRADES = np.round(6 + 1.2 * RANDOM.standard_normal((200, 1)))
SHARES = np.clip(np.round(10 * RANDOM.beta(2.0, 3.0, (200, 1))) / 10, 0.1, 0.9)
EVENTS = (RANDOM.random((200, 1)) < 0.8).astype(float)
ROUNDED = {
    "student_t": GRADES,
    "laplace": GRADES,
    "log_normal": GRADES,
    "gamma": GRADES,
    "beta": SHARES,
    "censored_normal": np.hstack([GRADES, EVENTS]),
    "censored_log_normal": np.hstack([GRADES, EVENTS]),
    "censored_weibull": np.hstack([GRADES, EVENTS]),
}
MOST_SURE = -12.0
"""The logarithm of a width that a network may predict for rows that it knows by heart."""


@pytest.mark.parametrize(
    "values, unit",
    [
        (np.arange(40) % 7, 1.0),
        (0.1 * (np.arange(40) % 7), 0.1),
        (np.array([0.0, 0.5, 2.5, 0.5, 2.5, 0.0]), 0.5),
        (1e6 * (np.arange(40) % 7), 1e6),
        (np.linspace(0, 1, 40), 0.0),
        (np.append(np.linspace(0, 1, 40), [0.0] * 10), 0.0),
        (np.ones(40), 0.0),
        (np.ones(1), 0.0),
        (np.append(np.arange(1000) % 100, 7 + 1e-6), 1.0),
    ],
)
def test_the_unit_is_the_smallest_difference_where_most_values_repeat(values, unit):
    assert rounding_of(values[:, None]) == pytest.approx([unit], rel=1e-9)
    assert least_std(values[:, None]) == pytest.approx([unit / math.sqrt(12)], rel=1e-9)


@pytest.mark.parametrize(
    "values, spike",
    [
        (np.append(RANDOM.normal(size=60), [0.0] * 20), (0.0, 0.25)),
        (np.append(np.round(100 * RANDOM.normal(size=60), 1), [-3.0] * 20), (-3.0, 0.25)),
        (RANDOM.normal(size=80), None),
        (RANDOM.poisson(3.0, size=80), None),
        (RANDOM.integers(0, 2, size=80), None),
        (np.append(RANDOM.normal(size=20), [0.0] * 5), None),  # a few rows agree by chance
        (np.ones(40), None),
    ],
)
def test_a_value_that_is_too_frequent_for_a_density_is_found(values, spike):
    found = spike_of(np.asarray(values, np.float64))
    assert found == (spike if spike is None else pytest.approx(spike))


def test_targets_are_rounded_each_by_itself():
    values = np.stack([np.arange(40) % 5, np.linspace(0, 1, 40)], axis=1)
    np.testing.assert_allclose(rounding_of(values), [1.0, 0.0])


@pytest.mark.parametrize("name", ROUNDED)
def test_the_protocol_holds_with_rounded_targets(name):
    likelihood = likelihood_class(name)()
    check_likelihood(likelihood, ROUNDED[name])
    without = likelihood_class(name)(rounding="none")
    check_likelihood(without, ROUNDED[name])

    again = type(likelihood).from_config(likelihood.fitted(ROUNDED[name]).get_config())
    outputs = np.zeros((1, 3, 2))
    outputs[..., 1] = MOST_SURE
    expected = likelihood.fitted(ROUNDED[name]).law(outputs).std
    np.testing.assert_allclose(again.law(outputs).std, expected)


@pytest.mark.parametrize("name", ROUNDED)
def test_a_sure_network_predicts_the_spread_of_the_rounding(name):
    """Targets are 0.1 or 1 apart; without the bound the spread is below a thousandth of that."""
    outputs = np.zeros((1, 1, 2))
    sure = {"gamma": -2 * MOST_SURE, "beta": -2 * MOST_SURE}.get(name, MOST_SURE)
    outputs[..., 1] = sure
    unit = 0.1 if name == "beta" else 1.0
    bounded = likelihood_class(name)().fitted(ROUNDED[name]).law(outputs).std.item()
    # Laws of positive values have the bound of the largest one.
    assert 0.15 * unit < bounded < 0.6 * unit
    free = likelihood_class(name)(rounding="none").fitted(ROUNDED[name]).law(outputs).std.item()
    assert free < 1e-3 * unit


def test_the_variance_of_the_gaussian_is_the_sum_of_both():
    likelihood = PredictedGaussian(least_std=(0.3, 0.0))
    outputs = np.array([[[0.5, -1.0, math.log(0.4), math.log(0.2)]]])
    law = likelihood.law(outputs)
    np.testing.assert_allclose(law.width, [[[0.5, 0.2]]])
    targets = np.array([[0.6, -1.1]])
    expected = -stats.norm.logpdf(targets, [[0.5, -1.0]], [[0.5, 0.2]]).sum()
    assert likelihood.losses(outputs, targets).item() == pytest.approx(expected)
    in_tensorflow = likelihood.loss(targets, outputs[0])
    assert float(in_tensorflow[0]) == pytest.approx(expected)


def test_an_unknown_word_is_refused():
    with pytest.raises(InputError, match="rounding is unknown"):
        likelihood_class("laplace")(rounding="integers")
    with pytest.raises(InputError, match="rounding"):
        tati_re.Simulation(data=table(), loss="laplace", rounding="integers")


def table():
    random = np.random.default_rng(8)
    x = random.uniform(-2, 2, (150, 2))
    return x, np.round(10 + 3 * x[:, 0] + random.standard_normal(150))


NAMED = {
    "hidden": [4],
    "loss": "heteroscedastic_gaussian",
    "standardize": "all",
    "num_walkers": 2,
    "seed": 3,
    "verbose": 0,
}
SAMPLED = {"sampler": "BAOAB", "step_size": 0.002, "num_burnin_steps": 20, "trajectory_every": 2}


def test_a_run_says_and_stores_the_rounding(tmp_path, capsys):
    x, y = table()
    sim = tati_re.Simulation(data=(x, y), **NAMED | {"verbose": 1})
    run = sim.sample(num_steps=60, output=str(tmp_path / "a"), **SAMPLED)
    assert "The targets are rounded to 1:" in capsys.readouterr().out
    deviation = y.std()
    least = 1 / math.sqrt(12) / deviation
    assert run.manifest.loss.table["least_std"] == pytest.approx([least], rel=1e-5)

    found = tati_re.load(run.folder).predict(x, y)
    assert (found.noise_std > 1 / math.sqrt(12)).all()
    again = tati_re.Simulation.resume(run.folder, data=(x, y), num_steps=70)
    assert again.manifest.loss.table["least_std"] == pytest.approx([least], rel=1e-5)
    kept = run.compress(members=None)
    np.testing.assert_allclose(kept.predict(x).std, run.predict(x).std, rtol=1e-5)
    in_keras = kept.to_keras()(x.astype(np.float32))
    np.testing.assert_allclose(np.ravel(in_keras["std"]), np.ravel(run.predict(x).std), rtol=1e-4)


@pytest.mark.parametrize(("loss", "is_said"), [("student_t", True), ("gaussian", False)])
def test_a_run_says_that_a_value_is_too_frequent(capsys, loss, is_said):
    """Two thirds of the amounts were 0, where a predicted spread shrinks without a limit."""
    x, _ = table()
    y = np.where(x[:, 0] > 0.5, np.exp(x[:, 0]), 0.0)
    named = NAMED | {"loss": loss, "standardize": "inputs", "verbose": 1}
    tati_re.Simulation(data=(x, y), **named).sample(
        num_steps=20, **SAMPLED | {"num_burnin_steps": 4}
    )
    assert ("% of the targets are 0, which no density" in capsys.readouterr().out) == is_said


def test_rounding_can_be_left_out(capsys):
    x, y = table()
    sim = tati_re.Simulation(data=(x, y), rounding="none", **NAMED | {"verbose": 1})
    run = sim.sample(num_steps=30, **SAMPLED)
    assert "rounded" not in capsys.readouterr().out
    assert "least_std" not in run.manifest.loss.table
    unrounded = tati_re.Simulation(data=(x, y + 0.01 * np.arange(150)), **NAMED)
    assert "least_std" not in unrounded.sample(num_steps=30, **SAMPLED).manifest.loss.table


def test_a_run_of_an_earlier_version_continues_without_it(tmp_path):
    x, y = table()
    sim = tati_re.Simulation(data=(x, y), rounding="none", **NAMED)
    run = sim.sample(num_steps=40, output=str(tmp_path / "a"), **SAMPLED)
    stored = manifest.read(run.folder)
    options = {name: value for name, value in stored.options.table.items() if name != "rounding"}
    given = [name for name in stored.given or () if name != "rounding"]
    older = manifest.Manifest.of({**stored.table, "options": options, "given": given})
    assert manifest.explicit_options(older)["rounding"] == "none"


def test_a_run_for_prediction_does_not_collapse_on_whole_numbers():
    """Without the bound, a network that predicts one value exactly has a density without a limit."""
    random = np.random.default_rng(2)
    x = random.uniform(-2, 2, (300, 3))
    y = np.round(12 + 4 * x[:, 0] + 1.5 * random.standard_normal(300))
    run = tati_re.Simulation(data=(x, y), seed=1, verbose=0, test_fraction=0.2).sample(max_time=8)
    assert run.manifest.loss.loss == "student_t"
    found = run.predict(x)
    assert (found.noise_std > 0.99 / math.sqrt(12)).all()
    assert np.median(found.std) < y.std()
