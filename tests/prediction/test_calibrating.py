"""One temperature or scale after the draws, fitted to rows that are left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

import tati_re
from tati_re.core.errors import InputError
from tati_re.likelihoods.laws import ScipyLaw
from tati_re.prediction import average, source_of
from tati_re.prediction.calibrating import (
    best_scale,
    best_temperature,
    calibration,
    scaled_density,
    stored_calibration,
    tempered,
    with_scale,
)
from tati_re.prediction.draws import Members
from tati_re.runs import files
from tati_re.runs.fits import read_fits

RUN = {
    "sampler": "BAOAB",
    "step_size": 0.01,
    "num_steps": 120,
    "num_burnin_steps": 20,
    "trajectory_every": 5,
    "fit_steps": 150,
    "verbose": 0,
}


def _sampled(labels, **options):
    inputs = np.random.default_rng(1).standard_normal((60, 2))
    data = (inputs, labels(inputs))
    choices = {"hidden": [3], "num_walkers": 3, "walker_start": "fit", "seed": 2, "verbose": 0}
    loss = {"loss": options.pop("loss")} if "loss" in options else {}
    simulation = tati_re.Simulation(data=data, test_fraction=0.25, **choices, **loss)
    return simulation.sample(**(RUN | options))


def _values(inputs):
    return 3 * inputs[:, 0] + np.random.default_rng(2).standard_normal(len(inputs))


@pytest.fixture(scope="module")
def of_values():
    return _sampled(_values)


@pytest.mark.parametrize("factor", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_that_of_the_logits(factor):
    """20,000 rows: the estimate has a standard error of about 1 %."""
    random = np.random.default_rng(3)
    logits = 2.0 * random.standard_normal((20_000, 4))
    p = np.exp(tempered(logits, 1.0))
    labels = (random.random((len(p), 1)) > np.cumsum(p, axis=1)[:, :-1]).sum(axis=1)
    found = best_temperature(np.log(p) * factor, labels)
    assert found == pytest.approx(factor, rel=0.06)


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_scale_undoes_that_of_the_noise(factor):
    random = np.random.default_rng(4)
    mean = random.standard_normal((5_000, 1))
    targets = mean + random.standard_normal(mean.shape)
    scale = np.full((1, *mean.shape), 1 / factor)
    law = ScipyLaw(stats.norm, {"loc": mean[None], "scale": scale})
    weights = np.zeros((1, len(mean)))
    found = best_scale(law, weights, mean, targets)
    assert found == pytest.approx(factor, rel=0.06)
    best = scaled_density(law, weights, mean, targets, found)
    if factor != 1.0:  # the other way round is worse than nothing
        plain = scaled_density(law, weights, mean, targets, 1.0)
        assert scaled_density(law, weights, mean, targets, 1 / found) < plain < best


def test_a_stretched_law_has_the_mass_one():
    centers, widths = np.array([[[0.0]], [[2.0]]]), np.array([[[0.5]], [[1.0]]])
    law = ScipyLaw(stats.norm, {"loc": centers, "scale": widths})
    weights, mean = np.log([[0.3], [0.7]]), np.array([[1.4]])

    def density(y: float) -> float:
        return np.exp(scaled_density(law, weights, mean, np.array([[y]]), 1.7))

    assert quad(density, -30, 30, limit=300)[0] == pytest.approx(1, rel=1e-6)
    first = quad(lambda y: y * density(y), -30, 30, limit=300)[0]
    assert first == pytest.approx(1.4, rel=1e-6)


def test_a_stretched_prediction_is_that_of_stretched_draws(of_values):
    """Each draw N(m, s²) becomes N(mean + 1.5 (m - mean), (1.5 s)²)."""
    run = of_values
    network, _ = source_of(run)
    members = Members(read_fits(run.folder).positions)
    data = run.data
    plain = average([(network, members)], data.test_inputs, data.test_targets)

    def again(targets):
        return average([(network, members)], data.test_inputs, targets)

    found = with_scale(plain, 1.5, again)
    single = [
        average([(network, Members(one))], data.test_inputs, data.test_targets)
        for one in members.vectors
    ]
    centers = plain.mean + 1.5 * (np.stack([one.mean for one in single]) - plain.mean)
    widths = 1.5 * np.stack([one.noise_std for one in single])
    y = np.asarray(data.test_targets).reshape(-1, 1)
    density = stats.norm.pdf(y, centers, widths).mean(axis=0)
    np.testing.assert_allclose(found.log_density, np.log(density[:, 0]), atol=1e-5)
    below = stats.norm.cdf(y, centers, widths).mean(axis=0)
    np.testing.assert_allclose(found.pit, below, atol=1e-5)
    at_ends = stats.norm.cdf(found.upper, centers, widths).mean(axis=0)
    np.testing.assert_allclose(at_ends, 0.95, atol=1e-5)
    assert np.array_equal(found.mean, plain.mean) and np.array_equal(found.targets, plain.targets)
    np.testing.assert_allclose(found.std, 1.5 * plain.std)


def test_a_run_is_calibrated_where_that_is_asked_for(of_values):
    run = of_values
    assert not run.has(files.CALIBRATION)
    plain, found = run.predict(), run.predict(calibrate="loo")
    one = calibration(run)
    assert one.after >= one.before and one.rows == 45
    np.testing.assert_allclose(found.std, one.factor * plain.std, rtol=1e-6)
    assert "calibrated" in found.notes[-1] and "calibration" in run.summary()
    assert stored_calibration(run) == one
    np.testing.assert_allclose(run.predict().std, plain.std)


def test_the_option_of_the_run_is_the_default():
    run = _sampled(lambda inputs: (_values(inputs) > 0).astype(int), calibrate="loo")
    found, plain = run.predict(), run.predict(calibrate="none")
    factor = calibration(run).factor
    expected = np.exp(tempered(np.log(plain.probabilities), factor))
    np.testing.assert_allclose(found.probabilities, expected)
    assert np.array_equal(found.predicted, plain.predicted)
    nll = run.comparison.loc["posterior", "negative_log_likelihood"]
    assert nll == pytest.approx(found.scores()["negative_log_likelihood"], rel=1e-6)


def test_what_cannot_be_calibrated_is_refused(of_values):
    with pytest.raises(InputError, match="calibrate has an unknown value"):
        of_values.predict(calibrate="magic")
    with pytest.raises(InputError, match="several runs"):
        tati_re.predict([of_values, of_values], calibrate="loo")
    with pytest.raises(InputError, match="posterior"):
        _sampled(_values, calibrate="loo", temperature=2.0)
    without_density = _sampled(_values, loss="mean_absolute_error")
    with pytest.raises(InputError):
        without_density.predict(calibrate="loo")


@pytest.mark.parametrize("content", ["", "factor\n1\n", "factor,before,after,rows\n0,1,1,3\n"])
def test_a_damaged_file_is_refused_in_one_sentence(of_values, content):
    path = of_values.folder / files.CALIBRATION
    calibration(of_values)
    before = path.read_bytes()
    try:
        path.write_text(content)
        with pytest.raises(InputError, match=r"calibration\.csv"):
            stored_calibration(of_values)
    finally:
        path.write_bytes(before)
