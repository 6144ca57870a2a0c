"""Several labels of 0 and 1 at once under the binary cross-entropy: a Bernoulli likelihood for
each, against NumPy.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit, logsumexp

from tati_re import Simulation, load
from tati_re.cli import predict, sample
from tati_re.core.errors import InputError
from tati_re.data import Dataset, load_data
from tati_re.plotting import plot_classes
from tati_re.posterior.predictive import Predictive
from tati_re.prediction import LabelPrediction
from tati_re.prediction.arviz import to_arviz
from tati_re.prediction.averaging import average
from tati_re.prediction.draws import Members
from tati_re.prediction.metrics import calibration
from tati_re.report import prediction as report
from tests.posterior.test_predictive import Linear

GENERATOR = np.random.default_rng(1)
X = GENERATOR.standard_normal((60, 2))
TRUTH = np.array([[1.5, -1.0, 0.5], [0.0, 1.0, 1.0], [0.3, 0.0, -0.5]])
"""Weights of two inputs, and the biases, to three labels."""
Y = (GENERATOR.random((60, 3)) < expit(X @ TRUTH[:2] + TRUTH[2])).astype(int)
TEST_X = GENERATOR.standard_normal((40, 2))
TEST_Y = (GENERATOR.random((40, 3)) < expit(TEST_X @ TRUTH[:2] + TRUTH[2])).astype(int)


def logits(theta, x):
    """Of draws `(..., 9)`, kernel row by row and then the biases."""
    theta = np.asarray(theta, np.float64)
    return x @ theta[..., :6].reshape(*theta.shape[:-1], 2, 3) + theta[..., None, 6:]


def log_likelihood(theta, x, y):
    z = logits(theta, x)
    return (y * z - np.logaddexp(0, z)).sum(-1)


def potential(theta):
    """U: minus the log likelihood and the log of a Gaussian prior of standard deviation 1."""
    return (
        -log_likelihood(theta, X, Y).sum(-1)
        + 0.5 * (theta**2).sum(-1)
        + 0.5 * theta.shape[-1] * np.log(2 * np.pi)
    )


def simulation(**options):
    given = {
        "data": ((X, Y), (TEST_X, TEST_Y)),
        "loss": "binary_crossentropy",
        "hidden": [],
        "dtype": "float64",
    }
    return Simulation(**{**given, "seed": 3, "verbose": 0, **options})


def test_kinds_of_labels():
    assert load_data((X, Y), multi_label=True).task == "multi_label"
    with pytest.raises(InputError, match="One-hot labels do not sum to one"):
        load_data((X, Y))
    rows = np.eye(3)[Y[:, 0] + Y[:, 1]]
    assert load_data((X, rows), multi_label=True).task == "one_hot"
    assert load_data((X, rows), num_classes=0, multi_label=True).task == "multi_label"
    assert load_data((X, Y[:, 0]), multi_label=True).task == "classification"
    assert load_data((X, X), multi_label=True).task == "regression"
    data = Dataset.from_arrays(X, Y, num_classes=0)
    assert load_data(data, multi_label=True).task == "multi_label" and data.task == "regression"
    labels = load_data(data, multi_label=True)
    with pytest.raises(InputError, match="per example must be 0 or 1"):
        load_data(labels, test_data=(X, X @ np.ones((2, 3))))
    assert (
        load_data((X, Y), multi_label=True, standardize="all").preparation.target_standard is None
    )


@pytest.mark.parametrize("evaluation", ["vectorized", "looped"])
def test_potential_and_gradient(evaluation):
    """U of several walkers against NumPy, its gradient against central differences of NumPy's U."""
    sim = simulation(num_walkers=3, walker_start="fresh", walker_evaluation=evaluation)
    theta = np.asarray(sim.parameters)
    assert sim.dataset.task == "multi_label"
    np.testing.assert_allclose(sim.potential(), potential(theta), rtol=1e-12)
    steps = 1e-5 * np.eye(9)
    slopes = (potential(theta[:, None] + steps) - potential(theta[:, None] - steps)) / 2e-5
    np.testing.assert_allclose(sim.gradients(), slopes, rtol=1e-6, atol=1e-6)
    right = ((logits(theta, X) > 0) == Y).all(-1).mean(-1)
    np.testing.assert_allclose(sim.score(), right)


def test_predictions_of_draws():
    """Averages and scores against sums over two draws by hand; the likelihood of all labels
    together.
    """
    theta = np.random.default_rng(5).standard_normal((2, 9))
    predictive = Predictive(
        {"loss": "binary_crossentropy", "from_logits": True}, "multi_label", None, 3
    )
    z = logits(theta, TEST_X)
    np.testing.assert_allclose(
        predictive.log_likelihoods(z, TEST_Y, TEST_Y), log_likelihood(theta, TEST_X, TEST_Y)
    )
    found = average([(Linear(predictive), Members(theta[:, :6]))], TEST_X, TEST_Y)
    free = np.concatenate([theta[:, :6], np.zeros((2, 3))], 1)
    p, density = expit(logits(free, TEST_X)), log_likelihood(free, TEST_X, TEST_Y)
    np.testing.assert_allclose(found.probabilities, p.mean(0))
    np.testing.assert_allclose(found.log_density, np.log(np.exp(density).mean(0)))
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p)).sum(-1).mean(0)
    np.testing.assert_allclose(found.expected_entropy, entropy)
    assert found.scores()["accuracy"] == pytest.approx(((p.mean(0) > 0.5) == TEST_Y).all(1).mean())
    assert found.frame().shape == (40, 1 + 4 * 3 + 3)
    drawn = (
        predictive.drawn(np.repeat(z, 2000, 0), None, np.random.default_rng(0))
        .reshape(2, 2000, 40, 3)
        .mean(1)
    )
    assert (abs(drawn - expit(z)) < 5.5 * np.sqrt(expit(z) * expit(-z) / 2000) + 1e-3).all()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    sim = simulation(num_walkers=4, output=str(tmp_path_factory.mktemp("labels") / "run"))
    length = {"num_steps": 1300, "num_burnin_steps": 100, "record_every": 5, "trajectory_every": 5}
    return sim, sim.sample(
        sampler="HMC", step_size=0.25, num_leapfrog_steps=6, stream_predictions=5, **length
    )


@pytest.mark.slow
def test_a_run_samples_the_posterior_of_the_labels(run):
    """Means of all parameters against a random walk in NumPy with the potential above; both errors
    are counted.
    """
    sim, run = run
    assert "a Bernoulli likelihood for each of 3 labels" in run.manifest["meaning"]
    rng, walkers = np.random.default_rng(0), 800
    theta = np.tile(sim.parameters.mean(0), (walkers, 1))
    here = potential(theta)
    for _ in range(300):
        there = theta + 0.25 * rng.standard_normal(theta.shape)
        new = potential(there)
        moved = np.log(rng.random(walkers)) < here - new
        theta, here = np.where(moved[:, None], there, theta), np.where(moved, new, here)
    found = run.trajectory[sim.parameter_names()].to_numpy()
    blocks = found.reshape(20, -1, 9).mean(1)
    error = np.hypot(blocks.std(0, ddof=1) / np.sqrt(20), theta.std(0) / np.sqrt(walkers))
    assert (abs(found.mean(0) - theta.mean(0)) < 5.5 * error).all() and (error < 0.07).all()
    assert (abs(found.std(0) / theta.std(0) - 1) < 0.15).all()


@pytest.mark.slow
def test_predictions_of_a_run(run):
    sim, run = run
    found = run.predict(TEST_X, TEST_Y)
    assert isinstance(found, LabelPrediction)
    theta = run.trajectory[sim.parameter_names()].to_numpy()
    p = expit(logits(theta, TEST_X))
    np.testing.assert_allclose(found.probabilities, p.mean(0), rtol=1e-9)
    np.testing.assert_allclose(found.std, p.std(0), rtol=1e-7)
    density = logsumexp(log_likelihood(theta, TEST_X, TEST_Y), axis=0) - np.log(len(theta))
    np.testing.assert_allclose(found.log_density, density, rtol=1e-9)
    scores, mean = found.scores(), p.mean(0)
    assert scores["accuracy"] == pytest.approx(((mean > 0.5) == TEST_Y).all(1).mean())
    assert scores["label_accuracy"] == pytest.approx(((mean > 0.5) == TEST_Y).mean())
    assert scores["negative_log_likelihood"] == pytest.approx(-density.mean())
    assert scores["brier_score"] == pytest.approx(2 * ((mean - TEST_Y) ** 2).mean())
    assert scores["calibration_error"] == pytest.approx(
        calibration(mean.reshape(-1), TEST_Y.reshape(-1)).error
    )
    np.testing.assert_allclose(found.draw_accuracy, ((p > 0.5) == TEST_Y).all(-1).mean(-1))
    np.testing.assert_allclose(found.draw_losses, -log_likelihood(theta, TEST_X, TEST_Y).mean(-1))
    tree = to_arviz(run, thin=20, data=sim.dataset)
    shapes = {"dense.kernel": 6, "dense.bias": 3}
    parts = [tree["posterior"][name].values.reshape(4, -1, size) for name, size in shapes.items()]
    np.testing.assert_allclose(
        tree["log_likelihood"]["y"], log_likelihood(np.concatenate(parts, -1), X, Y), rtol=1e-9
    )
    assert tree["posterior_predictive"]["y"].shape == (4, 12, 60, 3)
    kept = (
        run.predict()
    )  # The data were given in Python: what the run kept of its test set, the same draws.
    np.testing.assert_allclose(kept.probabilities, found.probabilities, rtol=1e-9)
    np.testing.assert_allclose(kept.log_density, density, rtol=1e-9)
    assert kept.scores() == pytest.approx(scores)
    np.testing.assert_allclose(kept.expected_entropy, found.expected_entropy, rtol=1e-9)


@pytest.mark.slow
def test_other_inputs_are_told_apart_in_the_figure_as_in_the_table(tmp_path, monkeypatch):
    """Input by input: one of an uncertain and a sure label is less sure than one of two half sure
    ones.
    """
    half, sure, figures = (
        np.array([[0.9, 0.9], [0.1, 0.9]]),
        np.array([[0.5, 0.999], [0.5, 0.999]]),
        [],
    )
    parts = {
        "std": 0.0 * sure,
        "lower": None,
        "upper": None,
        "expected_entropy": np.zeros(2),
        "walker": None,
    }
    parts |= {
        "num_draws": 2,
        "effective_draws": 2.0,
        "level": 0.9,
        "draw_losses": None,
        "draw_accuracy": None,
    }
    parts |= {"labels": np.ones((2, 2), int), "log_density": np.zeros(2), "weight": None}
    found = [{"posterior average": LabelPrediction(**parts, probabilities=p)} for p in (half, sure)]
    monkeypatch.setattr(report, "plot_classes", lambda *given: figures.append(plot_classes(*given)))
    assert "AUROC by entropy" in report._written(tmp_path / "out", *found, None)
    assert pd.read_csv(tmp_path / "out" / "outside.csv").auroc[0] == 1.0
    assert figures[0].axes[-1].get_title(loc="left") == "posterior average, AUROC 1.000"


def test_a_table_by_the_commands(tmp_path, capsys):
    """A table with three label columns, by the command line, in mini-batches, with the variance of
    each example's gradient, resumed, and predicted again from the folder.
    """
    table = tmp_path / "labels.csv"
    rows = np.column_stack([X, Y])
    np.savetxt(table, rows, delimiter=",", header="a,b,wet,cold,windy", comments="")
    folder, out = str(tmp_path / "run"), tmp_path / "predicted"
    labels = [
        "--data",
        str(table),
        "--label-columns",
        "wet",
        "cold",
        "windy",
        "--loss",
        "binary_crossentropy",
    ]
    short = [
        "--num-steps",
        "60",
        "--num-walkers",
        "2",
        "--batch-size",
        "12",
        "--trajectory-every",
        "5",
        "--step-size",
    ]
    assert sample.main([*labels, *short, "0.02", "--sampler", "mCCAdL", "--output", folder]) == 0
    assert sample.main(["--resume", folder, "--num-steps", "80"]) == 0
    assert predict.main([folder, "--output", str(out)]) == 0
    assert "label accuracy" in capsys.readouterr().out
    assert {"predictions.csv", "scores.csv", "reliability.csv", "predictions.png"} <= {
        p.name for p in out.iterdir()
    }
    assert np.isfinite(load(folder).run_info["accuracy"]).all()
    with pytest.raises(InputError, match="One-hot labels do not sum to one"):
        Simulation(data=str(table), label_columns=["wet", "cold", "windy"], verbose=0)
