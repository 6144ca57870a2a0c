"""Where walkers start, tables and models under names of their own, and energies on all data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError, Simulation, coming_from_tati
from tati_re.cli import sample
from tati_re.models.names import fan_in_plus_one

X = np.random.default_rng(4).normal(size=(12, 2))
Y = X @ [1.0, -0.5] + 0.3
QUICK = {"data": (X, Y), "verbose": 0, "execution": "eager", "dtype": "float64", "noise_std": 0.5}


def linear(**options) -> Simulation:
    return Simulation(**QUICK | options)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{a},{b},{y}\n" for (a, b), y in zip(X.tolist(), Y.tolist(), strict=True))
    (tmp_path / "data.csv").write_text("a,b,y\n" + rows)
    (tmp_path / "tati.csv").write_text(
        "id,step,loss,weight0,weight1,bias0\n0,1,9,1,2,3\n0,2,8,4,5,6\n1,2,8,7,8,9\n"
    )
    return tmp_path


def test_walkers_start_at_rows_of_a_file(capsys):
    sim = linear(parameters="tati.csv", parameters_step=2, num_walkers=2, verbose=2)
    np.testing.assert_array_equal(sim.parameters, [[4, 5, 6], [7, 8, 9]])
    sim.sample(num_steps=1, step_size=1e-6)
    assert "Start: step 2 of tati.csv, a separate row for each walker." in capsys.readouterr().out
    sim.sample(num_steps=1, step_size=1e-6)
    assert "Start:" not in capsys.readouterr().out
    np.testing.assert_array_equal(
        linear(parse_parameters_file="tati.csv", parse_steps=[2], num_walkers=3).parameters,
        [[4, 5, 6]] * 3,
    )
    np.testing.assert_array_equal(
        linear(parameters="tati.csv", parameters_step=1).parameters, [1, 2, 3]
    )


def test_walkers_start_together_apart_or_anew(capsys):
    one = linear(seed=3).parameters
    np.testing.assert_array_equal(linear(seed=3, num_walkers=2).parameters, [one] * 2)
    many = 4000
    moved = (
        linear(seed=3, num_walkers=many, walker_start="jitter", walker_jitter=0.1).parameters - one
    )
    # 12,000 numbers: a standard error of 0.6 % of the deviation.
    assert abs(moved.std() / 0.1 - 1) < 5.5 / np.sqrt(2 * moved.size)
    assert abs(moved.mean()) < 5.5 * 0.1 / np.sqrt(moved.size)
    sim = linear(seed=3, num_walkers=many, walker_start="fresh", verbose=2)
    bound = 1 / np.sqrt(fan_in_plus_one(["dense/kernel", "dense/bias"], [(2, 1), (1,)]))
    assert (np.abs(sim.parameters) <= bound).all()
    # The mean square of a uniform number on (-b, b) is b²/3, that of its square b⁴/5.
    error = np.sqrt((1 / 5 - 1 / 9) / many)
    assert (np.abs(np.mean((sim.parameters / bound) ** 2, axis=0) - 1 / 3) < 5.5 * error).all()
    sim.sample(num_steps=1, step_size=1e-6, trajectory_every=0)
    assert "Start: drawn separately for each walker." in capsys.readouterr().out
    np.testing.assert_array_equal(
        linear(seed=3, num_walkers=2, walker_start="fresh").parameters, sim_start(2)
    )


def sim_start(count: int) -> np.ndarray:
    return linear(seed=3, num_walkers=5, walker_start="fresh").parameters[:count]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"parameters_step": 2}, "^parameters_step needs a file. Received: 2."),
        ({"parameters": "tati.csv", "walker_start": "fresh"}, "both set where walkers start"),
        (
            {"walker_jitter": 0.1},
            "^walker_jitter applies only to walker_start jitter. Received: same.",
        ),
        (
            {"parameters": "tati.csv", "parameters_step": 3},
            "^parameters_step: tati.csv has no such step",
        ),
        (
            {"parameters": "tati.csv", "hidden": [2]},
            r"Received: 2 weights and 1 biases\. Expected: 6 weights and 3",
        ),
        ({"parameters": "no.csv"}, r"^parameters: there is no no\.csv"),
    ],
)
def test_starts_that_contradict_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        linear(**options)


def test_the_command_names_its_flags(capsys):
    argv = ["--data", "data.csv", "--parse_parameters_file", "tati.csv", "--parse_steps", "7"]
    assert sample.main(argv) == 2
    assert capsys.readouterr().err.startswith(
        "error: --parse_steps: tati.csv has no such step. Received: 7."
    )
    assert (
        sample.main(["--data", "data.csv", "--parameters", "tati.csv", "--parameters-step", "7"])
        == 2
    )
    assert capsys.readouterr().err.startswith(
        "error: --parameters-step: tati.csv has no such step."
    )


def test_a_fit_is_where_sampling_starts_from_its_folder():
    fitted = linear(num_walkers=2, walker_start="jitter")
    fitted.fit(num_steps=5, output="runs/fit", learning_rate=0.1)
    sim = linear(num_walkers=2, parameters="runs/fit")
    np.testing.assert_array_equal(sim.parameters, fitted.parameters)


def test_a_run_goes_on_without_the_file_it_started_from(folder):
    whole = linear(parameters="tati.csv").sample(
        num_steps=6, record_every=1, step_size=0.01, output="whole"
    )
    linear(parameters="tati.csv").sample(
        num_steps=3, record_every=1, step_size=0.01, output="parts"
    )
    (folder / "tati.csv").unlink()
    parts = Simulation.resume("parts", num_steps=6, data=(X, Y), verbose=0)
    assert (whole.folder / "run.csv").read_bytes() == (parts.folder / "run.csv").read_bytes()


# Tables under names of their own


def test_tables_are_kept_under_names_of_their_own(folder):
    sizes = []

    def look(run_folder, step):
        sizes.append(
            [
                (run_folder / name).read_bytes() == (folder / copy).read_bytes()
                for name, copy in PAIRS
            ]
        )

    names = {"run_file": "r.csv", "averages_file": "a.csv", "trajectory_file": "t.csv"}
    (folder / "r.csv").write_text("an old one")
    options = {
        "num_steps": 40,
        "record_every": 1,
        "trajectory_every": 10,
        "checkpoint_seconds": 1e-9,
    }
    sim = linear()
    run = sim.sample(output="run", callbacks=[look], step_size=0.01, **names, **options)
    assert len(sizes) > 1 and np.all(sizes)
    assert len(pd.read_csv("r.csv")) == 40
    Simulation.resume("run", num_steps=50, data=(X, Y), verbose=0, **names)
    for name, copy in PAIRS:
        assert (run.folder / name).read_bytes() == (folder / copy).read_bytes()
    assert pd.read_csv("t.csv")["step"].tolist() == [10, 20, 30, 40, 50]
    sim.sample(
        step_size=0.001,
        num_steps=10,
        run_file="other.csv",
        trajectory_file="wide.h5",
        trajectory_every=5,
    )
    assert len(pd.read_csv("other.csv")) == 1
    from tati_re.runs.reading import read_h5

    assert read_h5("wide.h5")["step"].tolist() == [5, 10]


PAIRS = (("run.csv", "r.csv"), ("averages.csv", "a.csv"), ("trajectory.csv", "t.csv"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"run_file": "a.csv", "averages_file": "a.csv"},
            "^averages_file and run_file are the same file",
        ),
        ({"run_file": "no/a.csv"}, r"^run_file cannot be written\. Received: no/a\.csv"),
        ({"save_model": "."}, r"^save_model cannot be written"),
        (
            {"trajectory_file": "t.csv", "trajectory_every": 0},
            "^trajectory_file: the run stores no trajectory",
        ),
        (
            {"trajectory_file": "t.csv", "trajectory_format": "h5"},
            "^trajectory_file: its suffix contradicts trajectory_format",
        ),
        (
            {"full_every": 15, "sampler": "BAOAB"},
            r"^full_every: rows are recorded at other steps\. Received: 15, and record_every 10",
        ),
    ],
)
def test_names_that_cannot_be_written_are_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        linear().sample(num_steps=2, **options)


def test_the_model_is_written_where_it_is_asked_for(folder):
    sim = linear(seed=2)
    sim.fit(max_steps=5, save_model="model.ckpt.meta")
    assert (folder / "model.ckpt.meta.keras").exists()
    again = linear(seed=5, restore_model="model.ckpt.meta")
    np.testing.assert_array_equal(again.parameters, sim.parameters)
    sim.sample(num_steps=5, step_size=0.01, save_model="sampled.keras")
    np.testing.assert_array_equal(linear(parameters="sampled.keras").parameters, sim.parameters)


# Energies on all data


def test_rows_have_energies_on_all_data_where_they_are_due():
    sim = linear(num_walkers=2, batch_size=5, prior_std=2.0)
    run = sim.sample(
        num_steps=12, record_every=2, full_every=4, trajectory_every=2, step_size=0.01, seed=3
    )
    rows, trajectory = run.run_info, run.trajectory
    due = rows["step"] % 4 == 0
    assert rows.loc[~due, ["full_loss", "full_potential"]].isna().all().all()
    for (_, row), theta in zip(
        rows[due].iterrows(), trajectory[due].iloc[:, 4:].to_numpy(), strict=True
    ):
        error = Y - X @ theta[:2] - theta[2]
        loss = np.mean(error**2) / (2 * 0.5**2) + np.log(0.5 * np.sqrt(2 * np.pi))
        prior = theta @ theta / (2 * 2.0**2) + 3 * np.log(2.0 * np.sqrt(2 * np.pi))
        assert row["full_loss"] == pytest.approx(loss, rel=1e-12)
        assert row["full_potential"] == pytest.approx(12 * loss + prior, rel=1e-12)
    plain = linear(num_walkers=2, batch_size=5, prior_std=2.0)
    without = plain.sample(
        num_steps=12, record_every=2, trajectory_every=2, step_size=0.01, seed=3
    ).run_info
    pd.testing.assert_frame_equal(without, rows[without.columns])


# The Simulation of TATi


def test_the_data_set_gives_the_batch_of_the_answers():
    sim = linear(batch_size=5)
    x, y = sim.dataset
    loss = sim.loss()
    assert (x.shape, y.shape, len(sim.dataset)) == ((5, 2), (5,), 2)
    theta = sim.parameters
    error = y - x @ theta[:2] - theta[2]
    assert loss == pytest.approx(
        np.mean(error**2) / 0.5 + np.log(0.5 * np.sqrt(2 * np.pi)), rel=1e-12
    )
    np.testing.assert_array_equal(sim.dataset[1], y)
    sim.next_batch()
    assert (sim.dataset[0] != x).any()
    assert sim.dataset.inputs.shape == (12, 2)
    each, _ = linear(batch_size=5, num_walkers=3).dataset
    assert each.shape == (3, 5, 2)
    shared, _ = linear(batch_size=5, num_walkers=3, walker_batches="shared").dataset
    assert shared.shape == (5, 2)
    whole, labels = linear().dataset
    np.testing.assert_array_equal(whole, X)
    np.testing.assert_array_equal(labels, Y)


def test_the_data_may_be_changed(folder):
    sim = linear(label_columns=[])
    theta = sim.parameters.copy()
    sim.loss()
    for value in ((X[:6], Y[:6]), [X[:6], Y[:6]]):
        sim.dataset = value
        assert sim.dataset.num_examples == 6
        error = Y[:6] - X[:6] @ theta[:2] - theta[2]
        assert sim.loss() == pytest.approx(
            np.mean(error**2) / 0.5 + np.log(0.5 * np.sqrt(2 * np.pi)), rel=1e-12
        )
    sim.set_options(batch_size=None)
    sim.dataset = "data.csv"
    assert sim.dataset.num_examples == 10 and len(sim.dataset.test_inputs) == 2
    (folder / "more.csv").write_text((folder / "data.csv").read_text())
    sim.dataset = ["data.csv", "more.csv"]
    assert sim.dataset.num_examples == 19
    np.testing.assert_array_equal(sim.parameters, theta)
    before = sim.dataset
    with pytest.raises(InputError, match="inputs do not match the model"):
        sim.dataset = (np.ones((4, 3)), np.ones(4))
    with pytest.raises(InputError, match=r"there\.csv"):
        sim.dataset = "not_there.csv"
    assert sim.dataset is before
    run = sim.sample(num_steps=2, step_size=0.01)
    assert run.manifest["dataset"]["num_examples"] == 19


def test_what_is_said_of_the_data_is_true_of_those_that_are_there(capsys):
    sim = linear(label_columns=[])
    sim.dataset = (X[:6], Y[:6])
    sim.sample(num_steps=1, step_size=0.01, verbose=1)
    assert "No test rows: the run trains on all 6 rows." in capsys.readouterr().out
    sim.dataset = ((X[:6], Y[:6]), (X[6:], Y[6:]))
    sim.sample(num_steps=1, step_size=0.01, verbose=1)
    assert "No test rows" not in capsys.readouterr().out


@pytest.mark.parametrize("ask", ["momenta", "init_momenta"])
def test_a_method_without_momenta_says_so(ask):
    sim = linear(sampler="StochasticGradientLangevinDynamics")
    sentence = "^momenta: SGLD has none; it moves positions only."
    with pytest.raises(InputError, match=sentence):
        sim.init_momenta() if ask == "init_momenta" else sim.momenta
    with pytest.raises(InputError, match=sentence):
        sim.momenta = np.zeros(3)
    sim.set_options(sampler="BAOAB")
    assert sim.momenta.shape == (3,)


def test_step_sizes_follow_from_the_largest_eigenvalue():
    design = np.column_stack([X, np.ones(12)])
    largest = np.linalg.eigvalsh(design.T @ design / 0.25 + np.eye(3))[-1]
    sim = linear(num_walkers=2, batch_size=4)
    found = sim.step_size_advice(1)
    assert found.curvature == pytest.approx(largest, rel=1e-10)
    assert (
        found.with_momentum == pytest.approx(2 / np.sqrt(largest))
        and found.without_momentum == 2 / found.curvature
    )
    assert sim.suggest_step_size() == pytest.approx(0.5 / np.sqrt(largest))
    assert f"{largest:.4g}" in str(
        found
    ) and "Methods with momenta such as BAOAB are stable below" in str(found)
    sim.set_options(sampler="SGLD")
    assert sim.suggest_step_size() == pytest.approx(0.2 / largest)
    sim.set_options(sampler="RWMH")
    assert sim.suggest_step_size() == pytest.approx(0.5 / np.sqrt(largest))
    sim.set_options(sampler="BAOAB", mass="fisher")
    assert sim.suggest_step_size() == pytest.approx(0.5 / np.sqrt(largest))
    for given in ({"mass": "fan_in"}, {"mass": np.ones(3)}, {"mass": "unit", "sampler": "pSGLD"}):
        sim.set_options(**given)
        with pytest.raises(InputError, match="sets no limit if each parameter has its own speed"):
            sim.suggest_step_size()
    flat = Simulation(
        data=(0 * X, Y), prior="none", use_bias=False, verbose=0, noise_std=1.0, execution="graph"
    )
    with pytest.raises(InputError, match=r"^suggest_step_size: U has no positive curvature here\."):
        flat.suggest_step_size()


@pytest.mark.slow
def test_the_limit_of_stability_is_where_it_is_said_to_be():
    """Below the limit the potential stays near its minimum, above it grows without bound: no
    friction to speak of, and 1,500 steps, in which a growth of 1 % in a step would be a factor of
    10^6.
    """
    largest = {}
    for factor in (0.97, 1.03):
        sim = linear(seed=1, friction=1e-6, temperature=1e-6, execution="graph")
        limit = sim.step_size_advice().with_momentum
        run = (
            sim.sample(
                num_steps=1500, step_size=factor * limit, record_every=10, trajectory_every=0
            )
            if (factor < 1)
            else _until_it_stops(sim, factor * limit)
        )
        largest[factor] = run
    assert largest[0.97].run_info["potential"].iloc[-1] < 1e6
    assert largest[1.03] > 1e6


def _until_it_stops(sim, step_size: float) -> float:
    from tati_re import SamplingError

    try:
        run = sim.sample(num_steps=1500, step_size=step_size, record_every=10, trajectory_every=0)
    except SamplingError:
        return float("inf")
    return run.run_info["potential"].iloc[-1]


def test_the_command_says_which_step_sizes_are_stable(capsys):
    from tati_re.cli import optimize

    argv = [
        "--data",
        "data.csv",
        "--num-steps",
        "20",
        "--execution",
        "graph",
        "--output",
        "fitted",
        "--noise-std",
        "0.5",
    ]
    assert optimize.main(argv) == 0
    said = capsys.readouterr().out
    assert (
        "The largest eigenvalue of the Hessian of U is" in said
        and "Methods without momenta such as SGLD are stable below" in said
    )
    assert optimize.main([*argv[:-4], "--output", "quiet", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


def test_score_and_hessians_follow_the_same_batch():
    labels = (X[:, 0] > 0.1).astype(int)
    options = {
        "loss": "sigmoid_cross_entropy",
        "batch_size": 5,
        "prior": "none",
        "verbose": 0,
        "potential": "posterior",
    }
    sim = coming_from_tati.Simulation(
        data=(X, labels), dtype="float64", execution="graph", **options
    )

    def expected(x, y):
        z = x @ sim.parameters[:2] + sim.parameters[2]
        design, p = np.column_stack([x, np.ones(len(x))]), 1 / (1 + np.exp(-z))
        hessian = 12 / len(x) * design.T @ (design * (p * (1 - p))[:, None])
        return np.mean(np.log1p(np.exp(z)) - y * z), np.mean((z > 0) == y), hessian

    found = sim.loss()
    x, y = sim.dataset
    loss, score, hessian = expected(x, y[:, 0])
    assert found == pytest.approx(loss, rel=1e-12)
    assert sim.score() == pytest.approx(score)
    np.testing.assert_allclose(sim.hessians(), hessian, rtol=1e-10)
    sim.hessians()
    moved, labels = sim.dataset
    assert (moved != x).any()
    np.testing.assert_allclose(sim.loss(), expected(moved, labels[:, 0])[0], rtol=1e-12)
    sim.parameters += 0.1
    features, labels = sim.dataset
    assert sim.score() == pytest.approx(expected(features, labels[:, 0])[1])
    assert (sim.dataset[0].shape != moved.shape) or (sim.dataset[0] != moved).any()
