"""Simulation-based calibration: verdicts of given ranks, hostile input, and wrong models caught.

A band holds the whole curve of a quantity with probability 1 - 0.01 / quantities, so that a correct
model passes with probability 0.99. The seeds are fixed.
"""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.likelihoods.log_prob import half_normal, normal, total
from tati_re.plotting.bands import uniform_band
from tati_re.samplers import Splitting
from tati_re.supports import positive, real
from tati_re.testing import RankCalibration, calibrate

X = np.array([-1.0, -0.5, 0.5, 1.0])
SUPPORTS = {"a": real(), "b": real(), "s": positive()}


def log_density(a, b, s, x, y):
    return total(normal(y, a + b * x, 2 * s), normal(a), normal(b), half_normal(s))


def simulate(rng, prior=1.0, noise=1.0):
    a = prior * rng.normal()
    b = prior * rng.normal()
    s = abs(rng.normal())
    y = a + b * X + noise * 2 * s * rng.normal(size=len(X))
    return {"a": a, "b": b, "s": s}, {"x": X, "y": y}


def calibration(fractions, **changes):
    """The result of given fractions of draws below the truth, by quantity."""
    size = len(next(iter(fractions.values())))
    given = {
        "ranks": {name: np.floor(100 * values).astype(int) for name, values in fractions.items()},
        "draws": 99,
        "level": 0.99,
        "ess": np.full(size, 400.0),
        "rhat": np.full(size, 1.0),
        "seed": 3,
        **changes,
    }
    return RankCalibration(**given)


def test_bands_hold_whole_curves_as_often_as_they_say():
    """5,000 sets of 100 uniform numbers: the part outside has a standard error of 0.0014 at 0.01."""
    random = np.random.default_rng(7)
    places, low, high = uniform_band(100, 0.99)
    curves = (random.random((5_000, 100, 1)) <= places).mean(axis=1)
    outside = ((curves < low) | (curves > high)).any(axis=1).mean()
    assert outside == pytest.approx(0.01, abs=5.5 * 0.0014)


def test_uniform_ranks_pass():
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(200), "b": random.random(200)})
    assert result.passed
    assert str(result).startswith("Simulation-based calibration: passed")
    assert list(result.bands().columns) == ["place", "low", "high", "a", "b"]
    assert (result.frame()["outside"] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda u: np.clip(0.5 + 1.6 * (u - 0.5), 0, 0.999), "the posterior is too narrow"),
        (lambda u: 0.5 + 0.5 * (u - 0.5), "the posterior is too wide"),
        (lambda u: u**2, "draws are too high"),
        (lambda u: np.sqrt(u), "draws are too low"),
    ],
)
def test_other_ranks_fail_and_say_how(wrong, words):
    random = np.random.default_rng(2)
    result = calibration({"good": random.random(200), "bad": wrong(random.random(200))})
    assert result.outcome == "failed"
    table = result.frame().set_index("quantity")
    assert table.loc["good", "verdict"] == "passed"
    assert words in table.loc["bad", "advice"]
    assert words in str(result)


def test_dependent_draws_are_no_verdict():
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(200)}, ess=np.full(200, 40.0))
    assert result.outcome == "not measured"
    assert "200 of 200 runs have an ESS below 99" in str(result)


def test_the_figure_has_a_panel_for_each_quantity(tmp_path):
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(100), "b": random.random(100) ** 3})
    figure = result.plot(tmp_path / "ranks.png")
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["a", "b"]
    assert (tmp_path / "ranks.png").stat().st_size > 1_000


def changing(rng):
    parameters, data = simulate(rng)
    return parameters, {**data, "n": int(rng.integers(10_000))}


def fails(rng):
    raise ValueError("no such law")


@pytest.mark.parametrize(
    ("function", "changes", "words"),
    [
        (3, {}, "this is not a function"),
        (fails, {}, "the function fails"),
        (lambda rng: simulate(rng)[0], {}, "does not return two dicts"),
        (lambda rng: ({"a": 0.0}, {}), {}, "does not return the parameters of the model"),
        (lambda rng: ({"a": 0.0, "b": 0.0, "s": -1.0}, {}), {}, "s: outside of its support"),
        (changing, {}, "the data n change their form"),
        (simulate, {"replications": 3}, "replications: out of range"),
        (simulate, {"draws": 2.5}, "draws: out of range"),
        (simulate, {"level": 1.0}, "level: out of range"),
        (simulate, {"step_size": 0.0}, "step_size: out of range"),
    ],
)
def test_hostile_input_gets_one_sentence(function, changes, words):
    with pytest.raises(InputError, match=words):
        calibrate(function, log_density, SUPPORTS, **changes)


@pytest.mark.slow
def test_a_correct_model_passes_and_its_ranks_are_those_of_independent_draws():
    result = calibrate(simulate, log_density, SUPPORTS, seed=1)
    print(result)
    assert result.passed
    assert list(result.ranks) == ["a", "b", "s", "log density"]
    assert len(result.too_dependent) <= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"prior": 3.0}, {}),  # the spread of a and b given the data doubles
        ({"noise": 1.3}, {"replications": 400}),
        ({}, {"sampler": Splitting("OBABO", 2.0), "step_size": 1.3}),  # draws 1.3 times too wide
    ],
)
def test_wrong_priors_likelihoods_and_samplers_are_caught(changes, options):
    def wrong(rng):
        return simulate(rng, **changes)

    result = calibrate(wrong, log_density, SUPPORTS, seed=1, **options)
    print(result)
    assert result.outcome == "failed"
