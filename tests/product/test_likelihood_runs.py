"""Whole runs under likelihoods of the registry: potential, predictions, scores, files, doors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tati_re
from tati_re.core.errors import InputError
from tati_re.likelihoods import LocationScale, ScipyLaw, StudentTNoise
from tati_re.likelihoods.skeleton import Gumbel
from tati_re.runs.positions import Positions

RANDOM = np.random.default_rng(12)
X = RANDOM.uniform(-1, 1, (80, 2))
MEAN = np.exp(1 + X[:, 0])
COUNTS = RANDOM.poisson(MEAN).astype(float)
SHORT = {"sampler": "MCLMC", "step_size": 0.1, "num_steps": 60, "num_burnin_steps": 20}
TIMES = np.column_stack([RANDOM.weibull(2.0, 80) * MEAN, RANDOM.random(80) < 0.7]).astype(float)
TARGETS = {
    "student_t": 10 * X[:, 0] + RANDOM.standard_t(4, 80),
    "laplace": 10 * X[:, 0] + RANDOM.laplace(size=80),
    "log_normal": MEAN * RANDOM.lognormal(size=80),
    "gamma": RANDOM.gamma(3.0, MEAN),
    "beta": RANDOM.beta(2.0, MEAN),
    "poisson_count": COUNTS,
    "negative_binomial": COUNTS,
    "zero_inflated_poisson": COUNTS * (RANDOM.random(80) < 0.7),
    "zero_inflated_negative_binomial": COUNTS * (RANDOM.random(80) < 0.7),
    "censored_normal": TIMES,
    "censored_log_normal": TIMES,
    "censored_weibull": TIMES,
    "ordinal": np.clip(COUNTS, 0, 4).astype(int),
}


def made(loss, targets, **options):
    given = {"hidden": [3], "seed": 2, "num_walkers": 2, "test_fraction": 0.25, "verbose": 0}
    return tati_re.Simulation(data=(X, targets), loss=loss, **{**given, **options})


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One short run of each likelihood, made when a test asks for it."""
    folder = tmp_path_factory.mktemp("likelihoods")
    done: dict[str, tuple] = {}

    def run(name: str):
        if name not in done:
            sim = made(name, TARGETS[name], output=str(folder / name))
            done[name] = sim, sim.sample(**SHORT)
        return done[name]

    return run


@pytest.mark.parametrize("name", TARGETS)
def test_the_potential_is_that_of_the_law(name, runs):
    """N times the loss of run.csv is minus the sum of the law's log densities."""
    sim, run = runs(name)
    network = tati_re.prediction.network.Network(run)
    stored = Positions(run, 0, 1).read()
    rows = run.run_info.set_index(["step", "walker"])
    inputs = network.prepared(sim.dataset.inputs)
    outputs = network.outputs(stored.values[-2:], stored.walker[-2:], inputs)
    losses = network.predictive.losses(outputs, sim.dataset.targets).mean(axis=1)
    places = zip(stored.step[-2:], stored.walker[-2:], strict=True)
    expected = [rows.loc[place].loss for place in places]
    np.testing.assert_allclose(losses, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", TARGETS)
def test_predictions_have_scores(name, runs):
    _, run = runs(name)
    prediction = run.predict()
    scores = prediction.scores()
    assert np.isfinite(list(scores.values())).all()
    assert "negative_log_likelihood" in scores
    if name == "ordinal":
        np.testing.assert_allclose(prediction.probabilities.sum(axis=1), 1)
        assert "accuracy" in scores
    else:
        assert (prediction.lower < prediction.upper).all()
        assert np.isfinite(prediction.mean).all()
    if name == "poisson_count":
        assert (prediction.lower == np.floor(prediction.lower)).all()
    if "censored" not in name:
        assert np.isfinite(run.loo().elpd).all()


@pytest.mark.parametrize("name", ["student_t", "poisson_count", "ordinal", "censored_weibull"])
def test_a_folder_predicts_as_its_run(name, runs):
    sim, run = runs(name)
    loaded = tati_re.load(run.folder)
    inputs = sim.dataset.inputs[:7]
    first = run.predict(inputs).frame()
    assert loaded.predict(inputs).frame().equals(first)


def test_a_run_goes_on(runs):
    sim, _ = runs("student_t")
    long = made("student_t", TARGETS["student_t"]).sample(**SHORT)
    short = made("student_t", TARGETS["student_t"]).sample(**{**SHORT, "num_steps": 40})
    again = tati_re.load(short.folder, data=(X, TARGETS["student_t"]))
    assert again is not None and sim is not None
    assert long.run_info.loss.iloc[0] == short.run_info.loss.iloc[0]


def test_averages_that_were_kept_agree_with_the_draws():
    """Means while sampling are those of the stored positions, and densities too."""
    options = {**SHORT, "stream_predictions": 1, "trajectory_every": 1}
    run = made("gamma", TARGETS["gamma"], stream_predictions=1).sample(**options)
    kept = tati_re.prediction.streamed.streamed_prediction(run)
    inputs, labels = tati_re.prediction.rows.test_part(run)
    drawn = run.predict(inputs, labels)
    np.testing.assert_allclose(kept.mean, drawn.mean, rtol=1e-5)
    np.testing.assert_allclose(kept.log_density, drawn.log_density, rtol=1e-4)


def test_a_likelihood_as_an_object_and_by_a_file(tmp_path, monkeypatch):
    targets = TARGETS["student_t"]
    given = made(Gumbel(), targets).sample(**SHORT)
    other = tati_re.load(given.folder, loss=Gumbel(), data=(X, targets))
    np.testing.assert_array_equal(other.predict(X[:3]).mean, given.predict(X[:3]).mean)
    with pytest.raises(InputError, match="gumbel"):
        tati_re.load(given.folder, data=(X, targets)).predict(X[:3])
    path = tmp_path / "own_law.py"
    path.write_text(
        "from tati_re.likelihoods.skeleton import Gumbel as Base\n"
        "class Flood(Base):\n    name = 'flood'\n"
    )
    monkeypatch.chdir(tmp_path)
    run = made("own_law.py:Flood", targets).sample(**SHORT)
    assert run.manifest["loss"]["loss"] == "flood"


def test_settings_come_from_options():
    named = made("student_t", TARGETS["student_t"], degrees_of_freedom=7.0).sample(**SHORT)
    assert named.manifest["loss"]["likelihood"]["degrees_of_freedom"] == 7.0
    given = made(StudentTNoise(7.0), TARGETS["student_t"]).sample(**SHORT)
    np.testing.assert_array_equal(given.run_info.loss, named.run_info.loss)


class TwoNumbers(LocationScale):
    """A wrong likelihood, of one number a target in place of one an example."""

    name = "two_numbers"

    def log_prob(self, targets, outputs):
        return self.standardized(targets, outputs)[0]

    def law(self, outputs):
        center, width = self.center_and_width(outputs)
        return ScipyLaw(stats.norm, {"loc": center, "scale": width})

    def describe(self):
        return "wrong"


REFUSED = [
    ("gamma", -TARGETS["gamma"], {}, "above 0"),
    ("poisson_count", TARGETS["gamma"], {}, "whole numbers"),
    ("gamma", TARGETS["gamma"], {"standardize": "all"}, "keep their units"),
    ("censored_normal", TARGETS["gamma"], {}, "2 columns"),
    (TwoNumbers(), TARGETS["gamma"], {}, "one number per example"),
    (StudentTNoise, TARGETS["gamma"], {}, "a class; an object"),
]


@pytest.mark.parametrize(("loss", "targets", "options", "expected"), REFUSED)
def test_what_does_not_fit_is_refused(loss, targets, options, expected):
    with pytest.raises(InputError, match=expected):
        made(loss, targets, **options).sample(**SHORT)


def test_a_model_of_another_number_of_outputs_is_refused():
    import keras

    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(1)])
    sim = tati_re.Simulation(model, (X, COUNTS), loss="negative_binomial", seed=1, verbose=0)
    with pytest.raises(InputError, match="needs 2 outputs"):
        sim.sample(**SHORT)


def test_the_estimator_predicts_counts():
    from tati_re.sklearn import BayesianRegressor

    short = {**SHORT, "walker_start": "fresh", "hidden": (3,), "members": 2}
    regressor = BayesianRegressor(loss="poisson_count", **short).fit(X, COUNTS)
    mean, std = regressor.predict(X, return_std=True)
    assert (mean > 0).all() and (std > 0).all()
    lower, upper = regressor.predict_interval(X)
    assert (lower == np.floor(lower)).all() and (upper >= lower).all()
