"""One network that is trained to predict as the average over all draws."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.cli import export as command
from tati_re.core.errors import InputError
from tati_re.prediction.draws import Members
from tati_re.prediction.network import network_of
from tati_re.shipping import distilling

NOISE = 0.3
QUICK = {"hidden": (16,), "num_steps": 600}


@pytest.fixture(scope="module")
def line(tmp_path_factory):
    """A Bayesian linear regression with known noise, of which few steps are sampled."""
    random = np.random.default_rng(3)
    x = random.uniform(-1, 1, (40, 1))
    y = 0.5 + 2 * x[:, 0] + NOISE * random.normal(size=40)
    table = pd.DataFrame({"a": x[:, 0], "label": y})
    path = tmp_path_factory.mktemp("runs") / "line.csv"
    table.to_csv(path, index=False)
    sim = tati_re.Simulation(
        data=str(path),
        hidden=[],
        loss="gaussian",
        noise_std=NOISE,
        test_fraction=0.2,
        num_walkers=2,
        seed=1,
        verbose=0,
    )
    steps = {"num_steps": 300, "num_burnin_steps": 100, "trajectory_every": 10}
    return sim.sample(sampler="BAOAB", step_size=0.01, **steps, output=str(path.parent / "a"))


def posterior_of(x, y):
    """Mean and covariance of slope and offset under a flat prior."""
    design = np.stack([x, np.ones_like(x)], axis=1)
    precision = design.T @ design / NOISE**2
    covariance = np.linalg.inv(precision)
    return covariance @ design.T @ y / NOISE**2, covariance


@pytest.fixture(scope="module")
def exact(line):
    """The network of the line, and draws of its exact posterior by five rows."""
    random = np.random.default_rng(5)
    x = np.array([-0.8, -0.3, 0.1, 0.4, 0.9])
    mean, covariance = posterior_of(x, 0.5 + 2 * x)
    draws = random.multivariate_normal(mean, covariance, size=1000)
    # Moments of the draws are exact, so that only the distillation is tested.
    draws -= draws.mean(axis=0)
    draws = draws @ np.linalg.inv(np.linalg.cholesky(np.cov(draws.T, bias=True))).T
    draws = mean + draws @ np.linalg.cholesky(covariance).T
    return network_of(line), Members(draws), mean, covariance


def exact_moments(exact, x):
    _, _, mean, covariance = exact
    design = np.stack([x, np.ones_like(x)], axis=1)
    variance = np.einsum("ni,ij,nj->n", design, covariance, design)
    return design @ mean, np.sqrt(variance + NOISE**2)


def test_a_distilled_line_has_the_known_predictive(line, exact, monkeypatch):
    """Spread of a Bayesian linear regression within a twentieth, mean within a tenth of it, inside and
    outside the data; without the spread of the parameters it would be off by up to a half.
    """
    monkeypatch.setattr(distilling, "source_of", lambda *_args, **_options: exact[:2])
    inside = np.linspace(-1, 1, 60)[:, None]
    outside = np.random.default_rng(0).uniform(-2, 2, (400, 1))
    predictor = line.distil(hidden=(32, 32), num_steps=2500, inputs=inside, outside=outside)
    for x in (np.linspace(-0.95, 0.95, 21), np.linspace(-1.9, 1.9, 21)):
        mean, spread = exact_moments(exact, x)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = predictor.predict(x[:, None])
        np.testing.assert_allclose(found.std[:, 0], spread, rtol=0.05)
        np.testing.assert_allclose(found.mean[:, 0], mean, atol=0.1 * spread.min())
    assert (spread / NOISE).max() > 1.5
    assert predictor.num_members == 1
    assert {*predictor.losses} == {"inside", "outside", "held_out"}
    assert abs(predictor.losses["inside"]) < 0.01
    np.testing.assert_array_equal(found.parameter_std, 0)


def test_lost_spread_outside_the_data_is_named(line, exact, monkeypatch):
    """A network knows no spread where it learned none: every second input outside, the ones that
    measure the loss, is twenty times further away.
    """
    monkeypatch.setattr(distilling, "source_of", lambda *_args, **_options: exact[:2])
    inside = np.linspace(-1, 1, 60)[:, None]
    outside = np.linspace(-1.5, 1.5, 200)
    outside[1::2] *= 20
    options = {"inputs": inside, "outside": outside[:, None]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        predictor = line.distil(**QUICK, **options)
    said = [str(one.message) for one in caught]
    assert any("nats a row on inputs outside the data" in text for text in said)
    assert any("loses spread outside the data" in text for text in said)
    assert predictor.losses["outside"] > 0.05


@pytest.fixture(scope="module")
def student(line):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return line.distil(**QUICK)


def test_a_distilled_predictor_is_saved_and_exported_like_others(student, tmp_path):
    student.save(tmp_path / "p.tati")
    opened = tati_re.Predictor.load(tmp_path / "p.tati")
    x = np.linspace(-0.5, 0.5, 5)[:, None]
    found = student.predict(x)
    np.testing.assert_array_equal(opened.predict(x).mean, found.mean)
    assert opened.losses == student.losses
    assert opened.digest == student.digest
    made = opened.to_keras()(x)
    np.testing.assert_allclose(made["mean"], found.mean, rtol=1e-5)
    np.testing.assert_allclose(made["std"], found.std, rtol=1e-5)


def test_the_same_seed_gives_the_same_network(line, student):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = line.distil(**QUICK)
        other = line.distil(**QUICK, seed=1)
    np.testing.assert_array_equal(again.members.vectors, student.members.vectors)
    assert not np.array_equal(other.members.vectors, student.members.vectors)


@pytest.mark.parametrize("count", [2, 3])
def test_distilled_classes_have_the_probabilities_of_all_draws(tmp_path, count):
    random = np.random.default_rng(1)
    x = random.normal(size=(80, 2))
    names = np.array(["low", "middle", "high"])
    ends = [0.0] if count == 2 else [-0.5, 0.5]
    labels = names[np.digitize(x[:, 0] + 0.3 * random.normal(size=80), ends)]
    sim = tati_re.Simulation(
        data=pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": labels}),
        label_columns=["label"],
        hidden=[4],
        num_walkers=2,
        seed=1,
        verbose=0,
    )
    steps = {"num_steps": 300, "num_burnin_steps": 100, "trajectory_every": 10}
    run = sim.sample(sampler="BAOAB", step_size=0.05, **steps, output=str(tmp_path / "a"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = run.distil(hidden=(32,), num_steps=1500)
        expected = run.predict(x).probabilities
        found = predictor.predict(x)
    assert np.abs(found.probabilities - expected).max() < 0.05
    assert list(found.class_values) == sorted(names[:count])
    assert predictor.losses["inside"] < 0.01


def test_a_run_with_a_column_of_text_is_distilled(tmp_path):
    """Between two categories there is none: the numbers in between were refused."""
    random = np.random.default_rng(2)
    towns = random.choice(["Bonn", "Essen", "Trier"], 60)
    area = random.normal(size=60)
    price = area + 2.0 * (towns == "Trier") + 0.1 * random.normal(size=60)
    table = pd.DataFrame({"area": area, "town": towns, "price": price})
    sim = tati_re.Simulation(data=table, hidden=[4], walker_start="fit", seed=1, verbose=0)
    steps = {"num_steps": 200, "num_burnin_steps": 100, "trajectory_every": 10}
    run = sim.sample(sampler="BAOAB", step_size=0.002, **steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = run.distil(hidden=(32,), num_steps=1500)
    found = predictor.predict(table[["area", "town"]])
    expected = run.predict(table[["area", "town"]])
    assert np.abs(found.mean - expected.mean).max() < 0.5 * price.std()


@pytest.mark.parametrize("loss", ["student_t", "laplace"])
def test_noise_with_heavy_tails_is_distilled_in_the_units_of_the_targets(tmp_path, loss):
    """They were refused, in a sentence that expected them."""
    random = np.random.default_rng(1)
    x = random.uniform(-1, 1, size=(80, 2))
    y = 500 + 40 * x[:, 0] + 8 * random.standard_t(5, size=80)
    sim = tati_re.Simulation(
        data=(x, y), hidden=[4], loss=loss, num_walkers=2, walker_start="fit", seed=1, verbose=0
    )
    steps = {"num_steps": 200, "num_burnin_steps": 100, "trajectory_every": 10}
    run = sim.sample(output=str(tmp_path / "a"), sampler="BAOAB", step_size=0.002, **steps)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictor = run.distil(hidden=(32,), num_steps=1500)
        expected = run.predict(x)
    found = predictor.predict(x)
    assert np.abs(found.mean - expected.mean).max() < 0.3 * expected.std.mean()
    np.testing.assert_allclose(found.std, expected.std, rtol=0.3)
    # A normal distribution in place of heavy tails loses a tenth of a nat.
    assert predictor.losses["inside"] < 0.3


def test_what_one_network_cannot_predict_is_refused(line):
    with pytest.raises(InputError, match="num_steps"):
        line.distil(num_steps=0)
    with pytest.raises(InputError, match="tolerance"):
        line.distil(tolerance=0)
    with pytest.raises(InputError, match="without units"):
        line.distil(hidden=(0,))
    with pytest.raises(InputError, match="two rows"):
        line.distil(inputs=[[0.5]])
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 1))
    counts = random.poisson(3, size=30)
    sim = tati_re.Simulation(
        data=(x, counts),
        hidden=[2],
        loss="poisson",
        seed=1,
        verbose=0,
        output_activation="softplus",
    )
    run = sim.sample(sampler="BAOAB", step_size=0.01, num_steps=20, trajectory_every=5)
    with pytest.raises(InputError, match="one network cannot predict"):
        run.distil()


def test_the_command_distils(line, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        command.main([str(line.folder), "--distil", "--hidden", "8", "--output", "one.tati"])
    assert "1 member of" in capsys.readouterr().out
    assert tati_re.Predictor.load("one.tati").num_members == 1
    for wrong in (["--hidden", "8"], ["--distil", "--members", "4"], ["--distil", "--hidden", "x"]):
        assert command.main([str(line.folder), *wrong, "--output", "two.tati"]) == 2
        assert not os.path.exists("two.tati")
