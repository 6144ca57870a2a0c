"""Predictions of runs: what they store, what they average on the way, and the command."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.signal import lfilter
from scipy.special import expit

import tati_re
import tati_re.runs.run
from tati_re.cli import predict as command
from tati_re.core.errors import InputError
from tati_re.prediction.draws import Draws, independent_draws
from tati_re.prediction.predict import predict
from tati_re.prediction.streamed import streamed_prediction
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table
from tati_re.runs.manifest import Manifest

SHORT = {"verbose": 0, "execution": "graph", "record_every": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def signs(folder):
    """Two classes, -1 and +1, with one output; a trajectory and averages of the same draws."""
    sim = tati_re.Simulation(
        data="two_clusters", hidden=[3], num_walkers=2, seed=1, dtype="float64", **SHORT
    )
    options = {"step_size": 0.003, "num_steps": 20, "num_burnin_steps": 4, "trajectory_every": 4}
    run = sim.sample(**options, stream_predictions=4, output=str(folder / "signs"))
    fit = sim.fit(
        optimizer="gradient_descent",
        learning_rate=1e-4,
        num_steps=3,
        output=str(folder / "signs_fit"),
    )
    return sim, run, fit


@pytest.fixture(scope="module")
def line(folder):
    """A regression from a CSV file, derived columns, everything standardized."""
    generator = np.random.default_rng(1)
    x = generator.uniform(-3, 5, (40, 2))
    y = 100 + 20 * x[:, 0] + generator.normal(size=40)
    pd.DataFrame({"a": x[:, 0], "text": 0, "b": x[:, 1], "label": y}).to_csv(
        folder / "line.csv", index=False
    )
    sim = tati_re.Simulation(
        data=str(folder / "line.csv"),
        input_columns=["a", "b", "a^2"],
        standardize="all",
        noise_std=0.1,
        seed=1,
        **SHORT,
    )
    options = {"step_size": 0.01, "num_steps": 12, "num_burnin_steps": 4, "trajectory_format": "h5"}
    return sim, sim.sample(
        **options, trajectory_every=2, stream_predictions=2, output=str(folder / "line")
    )


def test_a_run_predicts_what_its_positions_say(signs):
    sim, run, _ = signs
    x, y = sim.dataset.test_inputs, sim.dataset.test_targets
    found = run.predict()
    steps = range(8, 21, 4)
    outputs = np.stack(
        [sim.predict(x, run.parameters(step, walker)) for step in steps for walker in (0, 1)]
    )
    assert found.num_draws == 8
    assert found.probabilities[:, 1] == pytest.approx(
        expit(4 * outputs[..., 0]).mean(axis=0), rel=1e-9
    )
    assert found.labels.tolist() == (y > 0).tolist()
    assert found.draw_losses == pytest.approx(((outputs[..., 0] - y) ** 2).mean(axis=1))
    assert set(np.unique(found.predicted)) <= {-1, 1}
    again = tati_re.predict([run, run], x)
    assert again.probabilities == pytest.approx(found.probabilities) and again.labels is None
    assert run.predict(x, thin=2).num_draws == 4


def test_many_inputs_are_predicted_by_fewer_draws(signs, monkeypatch):
    """8 draws of 2 walkers: half of them for more inputs than so many predictions allow, never
    fewer than the least.
    """
    sim, run, _ = signs
    x = sim.dataset.test_inputs
    for predictions, fewest, draws in (
        (8 * len(x), 1, 8),
        (5 * len(x), 1, 8),
        (4 * len(x), 1, 4),
        (1, 4, 4),
    ):
        monkeypatch.setattr("tati_re.prediction.sources.MOST_PREDICTIONS", predictions)
        monkeypatch.setattr("tati_re.prediction.sources.FEWEST_DRAWS", fewest)
        assert run.predict(x).num_draws == draws
        assert run.predict(x, thin=1).num_draws == 8


def test_few_draws_are_told_once_in_one_sentence(signs):
    _, run, _ = signs
    with pytest.warns(
        UserWarning,
        match=r"^Predictions average 8 draws, worth an unknown number of independent ones. Below 100 ",
    ):
        found = run.predict()
    assert np.isnan(found.independent_draws) and found.num_draws == 8
    assert "8, worth an unknown number of independent ones" in repr(found)


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_independent_draws_follow_from_autocorrelation_and_weights(memory):
    """(1 - φ)/(1 + φ) of the draws of an autoregression; the median of 64 sizes is within a sixth
    of it.
    """
    random = np.random.default_rng(3)
    noise = random.standard_normal((4, 2000, 80)) * np.sqrt(1 - memory**2)
    values = lfilter([1], [1, -memory], noise, axis=1).reshape(8000, 80)
    step, walker, same = np.tile(np.arange(2000), 4), np.repeat(np.arange(4), 2000), np.ones(8000)
    wanted = 8000 * (1 - memory) / (1 + memory)
    assert independent_draws(values, step, walker, same) == pytest.approx(wanted, rel=0.17)
    halved = np.tile([1.0, 1e-9], 4000)
    assert independent_draws(values, step, walker, halved) <= 4000.1
    # Of 7 draws of each walker, or of what never moves, nobody can tell; of 8 a number can.
    for few, known in ((7, False), (8, True)):
        first = step < few
        found = independent_draws(values[first], step[first], walker[first], same[first])
        assert np.isfinite(found) == known
    assert np.isnan(independent_draws(np.ones((8000, 2)), step, walker, same))


def test_averages_kept_on_the_way_are_those_of_the_positions(signs, line):
    for (sim, run, *_), spread in ((signs, "std"), (line, "parameter_std")):
        stored, kept = run.predict(), streamed_prediction(run)
        assert kept.num_draws == stored.num_draws and kept.effective_draws == pytest.approx(
            stored.effective_draws
        )
        rel = 1e-9 if sim.options.dtype == "float64" else 1e-4
        assert getattr(kept, spread) == pytest.approx(getattr(stored, spread), rel=rel)
        wanted, found = stored.scores(), kept.scores()
        for name in set(wanted) - {"coverage", "interval_width", "crps"}:
            assert found[name] == pytest.approx(wanted[name], rel=rel), name
    run = signs[1]
    assert streamed_prediction(run).expected_entropy == pytest.approx(
        run.predict().expected_entropy, rel=1e-9
    )
    assert "test predictions" in run.summary() and "average of 8 draws" in run.summary()


def test_averages_kept_on_the_way_have_the_scores_of_each_output(tmp_path):
    x = np.random.default_rng(1).normal(size=(30, 2))
    data = (x[:20], x[:20] * [1e6, 1e-3]), (x[20:], x[20:] * [1e6, 1e-3])
    sim = tati_re.Simulation(data=data, hidden=[], seed=1, verbose=0, dtype="float64")
    run = sim.sample(
        step_size=0.01,
        num_steps=8,
        trajectory_every=2,
        stream_predictions=2,
        execution="graph",
        output=tmp_path / "r",
    )
    stored, kept = run.predict(), streamed_prediction(run)
    for name in ("rmse[0]", "rmse[1]"):
        assert kept.scores()[name] == pytest.approx(stored.scores()[name], rel=1e-9)
    assert kept.uncertainty()["std"] == pytest.approx(stored.uncertainty()["std"], rel=1e-9)


def test_predictions_are_in_the_units_of_the_data(line):
    sim, run = line
    x, y = sim.dataset.test_inputs, sim.dataset.test_targets
    found = run.predict(x, y)
    assert found.num_draws == 4
    each = np.stack([sim.predict(x, run.parameters(step)) for step in range(6, 13, 2)])
    assert found.mean == pytest.approx(each.mean(axis=0), rel=1e-5)
    deviation = sim.dataset.preparation.target_standard.deviation
    assert found.noise_std == pytest.approx(0.1 * deviation)
    assert found.scores() == pytest.approx(run.predict().scores()), "the test set is read again"
    with pytest.raises(InputError, match="input_columns do not fit"):
        run.predict(x[:, :1])


def test_averages_go_on_byte_for_byte(folder, signs):
    """Interrupted by the number of steps in the middle between two predictions."""
    sim, run, _ = signs
    fresh = tati_re.Simulation(
        data="two_clusters", hidden=[3], num_walkers=2, seed=1, dtype="float64", **SHORT
    )
    options = {
        "step_size": 0.003,
        "num_burnin_steps": 4,
        "trajectory_every": 0,
        "stream_predictions": 4,
    }
    fresh.sample(**options, num_steps=10, output=str(folder / "stopped"))
    resumed = tati_re.Simulation.resume(str(folder / "stopped"), num_steps=20, verbose=0)
    kept, whole = streamed_prediction(resumed), streamed_prediction(run)
    for name in ("probabilities", "std", "expected_entropy"):
        assert np.array_equal(getattr(kept, name), getattr(whole, name)), name
    assert resumed.predict().scores() == whole.scores(), (
        "without a trajectory the averages are taken"
    )
    with pytest.raises(InputError, match="has no trajectory"):
        resumed.predict(sim.dataset.test_inputs)


@pytest.mark.slow
def test_a_ladder_averages_its_target_alone_and_with_weights(folder):
    sim = tati_re.Simulation(
        data="two_clusters", hidden=[2], num_walkers=2, seed=2, dtype="float64", **SHORT
    )
    ladder = {
        "temperatures": [1.0, 3.0],
        "exchange_every": 5,
        "bias": "well_tempered",
        "bias_factor": 3.0,
    }
    options = {
        "step_size": 0.003,
        "num_steps": 20,
        "num_burnin_steps": 10,
        "trajectory_rungs": "all",
    }
    run = sim.sample(
        **options, **ladder, trajectory_every=5, stream_predictions=5, output=str(folder / "ladder")
    )
    stored, kept = run.predict(), streamed_prediction(run)
    rows = run.trajectory
    rows = rows[rows["rung"] == 0]
    assert stored.num_draws == len(rows) == 4 and rows["weight"].nunique() > 1
    assert stored.weight == pytest.approx(rows["weight"].to_numpy())
    assert kept.probabilities == pytest.approx(stored.probabilities, rel=1e-9)
    assert kept.effective_draws == pytest.approx(stored.effective_draws)
    hot = run.predict(rung=1)
    assert np.abs(hot.probabilities - stored.probabilities).max() > 1e-6
    with pytest.raises(InputError, match="multiple of record_every"):
        sim.sample(**options, **ladder, stream_predictions=3)


@pytest.mark.slow
def test_moving_statistics_are_those_of_the_walker(folder):
    import keras

    layers = [
        keras.Input((2,)),
        keras.layers.Dense(2),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    sim = tati_re.Simulation(model, "two_clusters", num_walkers=2, seed=3, **SHORT)
    sim.fit(optimizer="sgd", learning_rate=0.01, num_steps=4)
    options = {"num_steps": 4, "trajectory_every": 2, "stream_predictions": 2, "step_size": 0.01}
    run = sim.sample(**options, output=str(folder / "norm"))
    x = sim.dataset.test_inputs
    outputs = [
        sim.predict(x, run.parameters(step, walker), walker) for step in (2, 4) for walker in (0, 1)
    ]
    expected = expit(4 * np.stack(outputs)[..., 0]).mean(axis=0)
    assert run.predict().probabilities[:, 1] == pytest.approx(expected, rel=1e-5)
    assert streamed_prediction(run).probabilities[:, 1] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("table", "name"), [(CsvTable, "trajectory.csv"), (H5Table, "trajectory.h5")]
)
def test_draws_of_a_rung_with_their_weights(tmp_path, table, name):
    columns = ["step", "walker", "potential", "loss", "w[0]", "w[1]", "rung", "weight"]
    rows = np.random.default_rng(1).random((12, 8))
    rows[:, 0], rows[:, 1], rows[:, 6] = (
        np.repeat(np.arange(1, 4) * 10, 4),
        np.tile([0, 1], 6),
        np.tile([0, 0, 1, 1], 3),
    )
    rows[1, 7] = 0.0
    file = table(tmp_path / name, columns)
    file.append(rows)
    file.flush()
    (tmp_path / "run.csv").write_text("step,walker,loss,rung,weight\n")
    run = tati_re.runs.run.RunFiles(tmp_path)
    stored = Manifest.of({"kind": "sample", "options": {}, "parameters": {"num": 2}})
    run._read = {"manifest.toml": ((-1, -1), stored)}
    for rung in (0, 1):
        chosen = rows[(rows[:, 6] == rung) & (rows[:, 7] > 0)]
        draws = Draws(run, rung)
        assert draws.weight == pytest.approx(chosen[:, 7]) and draws.loss == pytest.approx(
            chosen[:, 3]
        )
        assert (
            draws.step.tolist() == chosen[:, 0].tolist()
            and draws.walker.tolist() == chosen[:, 1].tolist()
        )
        blocks = list(draws.blocks(3))
        assert [first for first, _ in blocks] == list(range(0, len(chosen), 3))
        assert np.concatenate([part for _, part in blocks]) == pytest.approx(chosen[:, 4:6])


def test_the_command_compares_and_writes(folder, signs, capsys):
    where = folder / "signs"
    fit = str(folder / "signs_fit")
    arguments = [
        str(where),
        "--optimum",
        fit,
        "--ensemble",
        fit,
        fit,
        "--ood",
        "noise",
        "--interval",
        "0.5",
    ]
    assert command.main(arguments) == 0
    said = capsys.readouterr().out
    assert "posterior average" in said and "AUROC by mutual information" in said
    out = where / "predictions"
    scores = pd.read_csv(out / "scores.csv")
    assert scores["predictor"].tolist() == ["posterior average", "optimum", "ensemble"]
    assert scores["draws"].tolist() == [8, 1, 4]
    average = predict(tati_re.load(where))
    assert scores.loc[0, "brier_score"] == pytest.approx(average.scores()["brier_score"])
    frame = pd.read_csv(out / "predictions.csv")
    assert len(frame) == len(average.labels) and set(frame["label"]) == {-1, 1}
    outside = pd.read_csv(out / "outside.csv")
    assert len(outside) == 6 and outside["auroc"].between(0, 1).all()
    assert len(pd.read_csv(out / "reliability.csv")) == 45
    assert (out / "predictions.png").read_bytes().startswith(b"\x89PNG")
    assert command.main(arguments) == 2
    assert "not empty" in capsys.readouterr().err


def test_the_command_reads_inputs_with_and_without_labels(folder, line, capsys):
    where = str(folder / "line")
    table = pd.read_csv(folder / "line.csv")
    table.drop(columns="text").to_csv(folder / "labelled.csv", index=False)
    table[["b", "a"]].to_csv(folder / "inputs.csv", index=False)
    np.save(folder / "inputs.npy", table[["a", "b"]].to_numpy())
    frames = {}
    for name in ("labelled.csv", "inputs.csv", "inputs.npy"):
        out = folder / f"of {name}"
        assert (
            command.main([where, "--data", str(folder / name), "--output", str(out), "--quiet"])
            == 0
        )
        frames[name] = pd.read_csv(out / "predictions.csv")
    assert "target" in frames["labelled.csv"] and "target" not in frames["inputs.csv"]
    for name in ("inputs.csv", "inputs.npy"):
        assert frames[name]["mean"].to_numpy() == pytest.approx(
            frames["labelled.csv"]["mean"].to_numpy()
        )
    assert (folder / "of labelled.csv" / "scores.csv").exists()
    assert not (folder / "of inputs.csv" / "scores.csv").exists()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "tati-predict needs a run folder"),
        (["nowhere"], "The run folder nowhere does not exist"),
        (["signs", "--interval", "2"], "error: --interval is out of range"),
        (["signs", "--thin", "some"], "--thin has the wrong type"),
        (["signs", "--rung", "3"], "has no ladder"),
        (["signs", "--optimum", "line"], "not a run of an optimizer"),
        (["signs_fit"], "did not sample"),
        (["signs_fit"], "--optimum signs_fit; alone, tati_re.load('signs_fit').predict()."),
        (["line", "--data", "missing.csv"], "does not exist"),
        (["signs", "--data", "line.csv"], "lacks a column"),
        (["signs", "--ood", "nope.npy"], "There is no such file of inputs. Received: nope.npy"),
        (["signs", "--seed", "3"], "--seed applies only with --ood noise"),
    ],
)
def test_bad_input_is_one_sentence(arguments, sentence, folder, signs, line, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    assert command.main([*arguments, *(["--output", "nothing"] if arguments else [])]) == 2
    said = capsys.readouterr().err
    assert sentence in said and said.count("\n") == 1


def test_data_given_in_python_are_not_read_again(tmp_path):
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(10, 1)), generator.normal(size=10)
    sim = tati_re.Simulation(
        data=((x, y), (x[:4], y[:4])), noise_std="sampled", dtype="float64", seed=1, **SHORT
    )
    options = {"num_steps": 6, "trajectory_every": 2, "step_size": 0.01}
    run = sim.sample(**options, stream_predictions=2, output=str(tmp_path / "kept"))
    kept, stored = run.predict(), run.predict(x[:4], y[:4])
    assert kept.draw_losses is None and stored.num_draws == kept.num_draws == 3
    assert kept.noise_std == pytest.approx(stored.noise_std)
    assert kept.log_density == pytest.approx(stored.log_density)
    noise = np.exp([run.parameters(step)[-1] for step in (2, 4, 6)])
    assert stored.noise_std[:, 0] == pytest.approx(np.sqrt((noise**2).mean())), (
        "of each draw its own"
    )
    other = sim.sample(**options, output=str(tmp_path / "other"))
    assert other.predict().targets.tolist() == y[:4, None].tolist()
    with pytest.raises(InputError, match="given in Python"):
        tati_re.load(tmp_path / "other").predict()


def test_help_loads_nothing_heavy():
    program = "import sys; from tati_re.cli.predict import main; main(['--help'])"
    check = f"try:\n    {program}\nexcept SystemExit:\n    print('tensorflow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("False") and "--by-temperature" in done.stdout


def test_no_test_part_no_averages():
    data = (np.zeros((4, 1)), np.arange(4.0))
    with pytest.raises(InputError, match="no test set"):
        tati_re.Simulation(data=data, verbose=0).sample(num_steps=2, stream_predictions=1)
