"""Options of the data in a simulation: what the model trains on, what predict takes and gives,
resumed runs.
"""

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import sample
from tests.systems import tables

GENERATOR = np.random.default_rng(8)
X = GENERATOR.normal([3.0, -40.0], [2.0, 9.0], (40, 2))
Y = 500.0 + 80.0 * X[:, 0] ** 2 + GENERATOR.normal(size=40)
QUICK = {"noise_std": 1.0, "verbose": 0, "execution": "graph", "dtype": "float64"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{a},{b},{y}\n" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True)]
    (tmp_path / "one.csv").write_text("a,b,y\n" + "".join(rows[:25]))
    (tmp_path / "two.csv").write_text("a,b,y\n" + "".join(rows[25:]))
    return tmp_path


def test_what_data_or_loss_do_not_use_is_said(capsys):
    plain = {**QUICK, "verbose": 1, "data": "one.csv", "num_classes": 0}
    signs = {
        "data": "two_clusters",
        "num_classes": None,
        "test_fraction": 0.3,
        "loss": "binary_crossentropy",
    }
    for more, sentence in (
        (
            {"test_data": "two.csv", "test_fraction": 0.2},
            "these data, which come with 15 test rows: test_fraction.",
        ),
        ({"loss": "mean_absolute_error"}, "the loss mean_absolute_error: noise_std."),
        ({"from_logits": True}, "the loss gaussian: from_logits."),
        ({"test_fraction": 0.3, "from_logits": "auto"}, None),
        (signs, "the loss binary_crossentropy: noise_std."),
    ):
        Simulation(**plain | more).sample(sampler="SGLD", step_size=1e-6, num_steps=2)
        said = capsys.readouterr().out
        assert (
            said.count("Not used") == (sentence is not None)
            and f"Not used by {sentence}" * (sentence is not None) in said
        )


def test_columns_and_standardisation_reach_the_model_and_predict():
    sim = Simulation(
        data=(X, Y), input_columns=["x1", "x1^2", "cos(x2)"], standardize="all", **QUICK
    )
    assert sim.num_parameters() == 4
    derived = np.stack([X[:, 0], X[:, 0] ** 2, np.cos(X[:, 1])], axis=1)
    inputs, targets = (derived - derived.mean(0)) / derived.std(0), (Y - Y.mean()) / Y.std()
    vector = np.array([0.5, -1.0, 2.0, 0.25])
    sim.parameters = vector
    outputs = inputs @ vector[:3] + vector[3]
    np.testing.assert_allclose(sim.predict(X)[:, 0], outputs * Y.std() + Y.mean(), rtol=1e-10)
    np.testing.assert_allclose(sim.predict(sim.dataset.inputs), sim.predict(X))
    residual = outputs - targets
    plain = Simulation(data=(inputs, targets), **QUICK)
    plain.parameters = vector
    assert sim.loss() == pytest.approx(plain.loss(), rel=1e-12)
    np.testing.assert_allclose(sim.gradients(), plain.gradients(), rtol=1e-10)
    assert sim.loss() == pytest.approx(np.mean(residual**2) / 2 + np.log(2 * np.pi) / 2, rel=1e-10)
    # A prediction that is left in standardized units, or takes raw inputs, is far away.
    assert np.abs(outputs - Y).min() > 100
    with pytest.raises(InputError, match="input_columns do not fit the inputs"):
        sim.predict(np.ones((2, 3)))


def test_files_keep_their_order_and_runs_resume(folder):
    options = {
        "data": ["one.csv", folder / "two.csv"],
        "test_fraction": 0.25,
        "shuffle": False,
        "standardize": "all",
        "batch_size": 10,
        "num_steps": 6,
        "trajectory_every": 1,
        "record_every": 1,
        **QUICK,
    }
    sim = Simulation(**options)
    np.testing.assert_allclose(sim.dataset.inputs, X[:30])
    whole = sim.sample(step_size=0.001, output="whole")
    indices, _ = sim.system.batches(sim.options, 10).indices(0, 3)
    assert indices[:, 0].ravel().tolist() == list(range(30))
    Simulation(**{**options, "num_steps": 3}).sample(step_size=0.001, output="part")
    part = Simulation.resume("part", num_steps=6)
    assert tables(part.folder) == tables(whole.folder)


def test_test_data_and_flags(folder, capsys):
    sim = Simulation(data=(X, Y), test_data=(X[:3], Y[:3]), **QUICK)
    assert sim.dataset.num_examples == 40 and len(sim.dataset.test_inputs) == 3
    argv = [
        "--data",
        "one.csv",
        "two.csv",
        "--input-columns",
        "a^2",
        "--standardize",
        "all",
        "--num-steps",
        "3",
        "--execution",
        "graph",
        "--step-size",
        "0.001",
    ]
    assert sample.main([*argv, "--output", "run", "--quiet"]) == 0
    assert sample.main(["--resume", "run", "--num-steps", "5", "--quiet"]) == 0
    header = (folder / "run" / "trajectory.csv").read_text().split("\n")[0]
    assert header.count("kernel") == 1
    assert sample.main([*argv[:3], "--num-classes", "2", "--quiet"]) == 2
    assert "The labels are not integers." in capsys.readouterr().err
    with pytest.raises(InputError, match="standardize cannot change after the Simulation"):
        sim.set_options(standardize="all")


def test_the_number_of_classes_makes_the_outputs():
    labels = np.arange(40) % 3
    assert Simulation(data=(X, labels), num_classes=5, **QUICK).num_parameters() == 15
    assert Simulation(data=(X, labels), num_classes=0, **QUICK).num_parameters() == 3
