"""Results of predictions that are computed when they are read."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import tati_re
from tati_re.prediction import part
from tati_re.prediction.averaging import average
from tati_re.prediction.deferred import Deferred, changed, deferrable
from tati_re.prediction.draws import Members
from tati_re.prediction.network import network_of
from tati_re.prediction.scores import mixture_interval

LATER = ("mean_lower", "mean_upper", "lower", "upper", "crps", "pit")


@deferrable("width")
@dataclass(frozen=True)
class Box:
    height: float
    width: float


def test_a_deferred_field_is_computed_once_when_it_is_read():
    counted = []
    box = Box(2.0, Deferred(lambda: counted.append(1) or 3.0))
    other = changed(box, height=4.0)
    assert counted == []
    assert (other.height, other.width, box.width, box.width) == (4.0, 3.0, 3.0, 3.0)
    assert counted == [1]
    fresh = Box(2.0, Deferred(lambda: 5.0))
    assert replace(fresh, height=1.0).width == 5.0
    with pytest.raises(TypeError, match="width"):
        Box(2.0)


def test_pickles_hold_values():
    box = Box(2.0, Deferred(lambda: 7.0))
    assert pickle.loads(pickle.dumps(box)).width == 7.0


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A regression whose network predicts its noise: 80 draws of two chains."""
    random = np.random.default_rng(2)
    x = random.normal(size=(60, 2))
    y = x[:, 0] + 0.2 * random.normal(size=60)
    sim = tati_re.Simulation(
        data=(x, y),
        hidden=[4],
        loss="heteroscedastic_gaussian",
        num_walkers=2,
        seed=1,
        verbose=0,
    )
    steps = {"num_steps": 500, "num_burnin_steps": 100, "trajectory_every": 10}
    folder = str(tmp_path_factory.mktemp("runs") / "a")
    return sim.sample(sampler="BAOAB", step_size=0.01, **steps, output=folder)


@pytest.fixture(scope="module")
def source(run):
    network = network_of(run)
    vectors = np.random.default_rng(0).normal(size=(40, network.num_parameters))
    return network, Members(vectors)


def test_a_prediction_computes_no_interval_that_is_not_read(run, monkeypatch):
    """Ends of intervals took 85 % of the time of a prediction of which only the mean was read."""

    def refused(*_args):
        raise AssertionError("computed")

    names = ("mixture_interval", "weighted_quantiles", "crps", "mixture_cdf")
    with monkeypatch.context() as patched:
        for name in names:
            patched.setattr(part, name, refused)
        x = np.zeros((3, 2))
        found = run.predict(x, np.zeros(3))
        assert np.isfinite(found.mean).all()
        assert np.isfinite(found.std).all()
        assert np.isfinite(found.log_density).all()
        with pytest.raises(AssertionError, match="computed"):
            _ = found.lower
    for name in LATER:
        assert np.isfinite(getattr(found, name)).all()
    assert (found.lower < found.mean_lower).all()


def test_parts_and_outputs_that_are_computed_again_change_nothing(source, monkeypatch):
    x = np.random.default_rng(1).normal(size=(7, 2))
    whole = average([source], x, x[:, 0])
    monkeypatch.setattr(part, "_KEPT_VALUES", 0)
    parts = average([source], x, x[:, 0], memory_values=200)
    for name in (*LATER, "mean", "parameter_std", "noise_std", "log_density"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-6)


def test_draws_on_disk_are_not_read_after_the_prediction(run, monkeypatch):
    """Draws too many for the memory are read from files, which may be gone later."""
    x = np.zeros((2, 2))
    before = run.predict(x)
    monkeypatch.setattr("tati_re.prediction.draws.CACHED_BYTES", 0)
    opened = tati_re.load(run.folder)
    after = opened.predict(x)
    monkeypatch.setattr(part, "outputs_of_draws", None)
    np.testing.assert_allclose(after.lower, before.lower, rtol=1e-6)
    np.testing.assert_allclose(after.mean_upper, before.mean_upper, rtol=1e-6)


def test_what_becomes_of_the_parameters_afterwards_does_not_matter(run, monkeypatch):
    monkeypatch.setattr(part, "_KEPT_VALUES", 0)
    vectors = np.random.default_rng(0).normal(size=(9, network_of(run).num_parameters))
    x = np.zeros((2, 2))
    expected = run.predict(x, parameters=vectors).lower
    found = run.predict(x, parameters=vectors)
    vectors[:] = 0
    np.testing.assert_array_equal(found.lower, expected)


def test_a_pickled_prediction_has_its_intervals(run):
    found = run.predict(np.zeros((2, 2)))
    copied = pickle.loads(pickle.dumps(found))
    np.testing.assert_array_equal(copied.upper, found.upper)


def test_quantiles_of_many_draws_are_those_of_bisection():
    """Many draws start in single precision: modes, offsets and widths that differ by powers of ten."""
    random = np.random.default_rng(5)
    draws = 700
    widths = np.exp(random.normal(size=(draws, 40)) * np.linspace(0.1, 5, 40))
    means = 1e4 + random.normal(size=(draws, 40)) + 6 * (np.arange(draws)[:, None] % 3)
    weights = random.uniform(0.2, 1, draws)
    share = weights / weights.sum()
    for level in (0.5, 0.9, 0.9999):
        ends = mixture_interval(means, widths, weights, level)
        for goal, end in zip(((1 - level) / 2, (1 + level) / 2), ends, strict=True):
            for k in range(0, 40, 3):

                def excess(y, k=k, goal=goal):
                    return share @ norm.cdf((y - means[:, k]) / widths[:, k]) - goal

                right = brentq(excess, -1e12, 1e12, xtol=1e-12, rtol=1e-15)
                assert end[k] == pytest.approx(right, rel=1e-9), (level, goal, k)
