"""Command lines of TATi's samplers of losses and inputs, explorer and parser; scripts that change
an import alone.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError
from tati_re.cli import analyse, dataset, explore, inputspace, landscape, tati_tools
from tati_re.coming_from_tati import Simulation as tati
from tati_re.options.make import make_options
from tati_re.options.tati_names import EXPLORER_FILES, sentences
from tati_re.runs import manifest

POINTS = np.array([[1, 2, 1], [-1, -2, -1], [2, 1, 1], [-2, -1, -1], [0.5, 1, 1]])
ROWS = np.array([[0.1, 0.2, 0.3], [0.2, 0.2, 0.1], [0.3, -0.2, 0.0]])
PLANE = np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 2.0]])
NETWORK = "--batch_data_files d.csv --batch_size 20 --loss mean_squared --output_activation linear --hidden_dimension 0"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(POINTS, columns=["x1", "x2", "label"]).to_csv("d.csv", index=False)
    table = pd.DataFrame(ROWS, columns=["weight0", "weight1", "bias0"])
    table.insert(0, "step", [1, 2, 3])
    table.to_csv("c.csv", index=False)
    pd.DataFrame(PLANE, columns=["w0", "w1", "b0"]).to_csv("plane.csv", index=False)


def losses(rows) -> np.ndarray:
    return np.mean(
        (np.asarray(rows) @ np.column_stack([POINTS[:, :2], np.ones(5)]).T - POINTS[:, 2]) ** 2,
        axis=1,
    )


def run(command, text: str) -> pd.DataFrame:
    assert command.main(f"{text} --csv_file out.csv".split()) == 0
    return pd.read_csv("out.csv")


def test_a_grid_around_a_row():
    flags = "--interval_weights -5 5 --samples_weights 4 --interval_biases -1 1 --samples_biases 2"
    table = run(
        landscape, f"naive_grid {NETWORK} {flags} --parse_parameters_file c.csv --parse_steps 2 -vv"
    )
    assert list(table) == ["step", "loss", "accuracy", "w0", "w1", "b0"] and len(table) == 5 * 5 * 3
    np.testing.assert_allclose(np.unique(table["w0"]), 0.2 + np.linspace(-5, 5, 5), rtol=1e-6)
    np.testing.assert_allclose(table["loss"], losses(table[["w0", "w1", "b0"]]), rtol=2e-6)
    # In TATi's order: the first parameter is the fastest, the last one the slowest.
    assert (np.diff(table["w0"][:5]) > 0).all() and table["b0"][:25].nunique() == 1
    held = run(landscape, f"naive_grid {NETWORK} {flags} --exclude_parameters w0 b0")
    assert len(held) == 5 and set(held["w0"]) == set(held["b0"]) == {0.0}


def test_a_plane_a_trajectory_and_its_coordinates(capsys):
    plane = f"{NETWORK} --directions_file plane.csv"
    table = run(
        landscape,
        f"naive_subgrid {plane} --interval_weights -1 1 --samples_weights 2 --interval_offsets 0 1",
    )
    assert list(table) == ["step", "loss", "accuracy", "c0", "c1"] and set(table["c1"]) == {
        0.0,
        1.0,
        2.0,
    }
    assert table["c0"].tolist() == [-1, 0, 1] * 3
    unit = PLANE / np.linalg.norm(PLANE, axis=1, keepdims=True)
    np.testing.assert_allclose(table["loss"], losses(table[["c0", "c1"]] @ unit), rtol=2e-6)
    table = run(
        landscape,
        f"trajectory {NETWORK} --parse_parameters_file c.csv --samples_weights=3 --interval_biases 0 1",
    )
    assert (
        "Not used by trajectory: --interval_biases, --samples_weights." in capsys.readouterr().out
    )
    np.testing.assert_allclose(table[["w0", "w1", "b0"]], ROWS)
    np.testing.assert_allclose(table["loss"], losses(ROWS), rtol=2e-6)
    table = run(
        landscape, f"trajectory_subgrid {plane} --parse_parameters_file c.csv --parse_steps 1 3"
    )
    np.testing.assert_allclose(
        table[["step", "c0", "c1"]], np.column_stack([[1, 3], (ROWS @ PLANE.T)[[0, 2]]])
    )
    np.testing.assert_allclose(table["loss"], losses(ROWS[[0, 2]]), rtol=2e-6)


def test_a_mode_may_follow_the_files():
    first = run(landscape, f"trajectory {NETWORK} --parse_parameters_file c.csv")
    flags = "--loss mean_squared --output_activation linear --parse_parameters_file c.csv"
    assert first.equals(run(landscape, f"{flags} --batch_data_files d.csv trajectory"))


@pytest.mark.parametrize("header", ["TATi's", "ours"])
def test_directions_of_a_network_with_a_hidden_layer_go_by_their_names(header):
    """TATi has all weights first, then all biases; here they go layer by layer."""
    generator = np.random.default_rng(1)
    centre, directions = generator.standard_normal(9), generator.standard_normal((2, 9))
    weights, biases = [f"w{k}" for k in range(6)], [f"b{k}" for k in range(3)]
    pd.DataFrame([centre], columns=[*weights, *biases]).assign(step=0).to_csv("c.csv", index=False)
    names = [f"dense/kernel[{i},{j}]" for i in (0, 1) for j in (0, 1)]
    names += [f"dense_1/kernel[{i},0]" for i in (0, 1)]
    names += ["dense/bias[0]", "dense/bias[1]", "dense_1/bias[0]"]
    columns = [*weights, *biases] if header == "TATi's" else names
    table = pd.DataFrame(directions, columns=columns)
    table[columns[::-1]].to_csv("plane.csv", index=False)

    def loss(row: np.ndarray) -> float:
        hidden = np.tanh(POINTS[:, :2] @ row[:4].reshape(2, 2) + row[6:8])
        return float(np.mean((hidden @ row[4:6] + row[8] - POINTS[:, 2]) ** 2))

    network = "--batch_data_files d.csv --output_activation linear --hidden_dimension 2"
    network += " --hidden_activation tanh --directions_file plane.csv --parse_parameters_file c.csv"
    plane = run(landscape, f"naive_subgrid {network} --interval_weights -1 1 --samples_weights 2")
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    expected = [loss(centre + row @ unit) for row in plane[["c0", "c1"]].to_numpy()]
    np.testing.assert_allclose(plane["loss"], expected, rtol=1e-5)
    walk = run(landscape, f"trajectory_subgrid {network}")
    np.testing.assert_allclose(walk[["c0", "c1"]].iloc[0], directions @ centre, rtol=1e-6)

    sim = tati(
        **{"batch_data_files": ["d.csv"], "hidden_dimension": [2], "verbose": 0, "seed": 3},
        **{"directions_file": "plane.csv", "sampler": "BAOAB", "step_width": 1e-2},
    )
    stored = sim.sample(max_steps=4).trajectory[["c0", "c1"]].iloc[-1]
    order = [sim.parameter_names().index(name) for name in names]
    np.testing.assert_allclose(stored, directions @ np.asarray(sim.parameters)[order], rtol=1e-4)


def test_predictions_over_a_grid(capsys):
    flags = "--input_dimension 2 --interval_input -4 4 --samples_input 2 --parse_parameters_file c.csv --parse_steps 1"
    table = run(inputspace, f"--batch_data_files d.csv --output_activation linear {flags}")
    assert "d.csv: left alone" in capsys.readouterr().out and len(pd.read_csv("d.csv")) == 5
    assert list(table) == ["i", "x1", "x2", "label"] and len(table) == 9
    assert table["x1"].tolist() == [-4, 0, 4] * 3
    np.testing.assert_allclose(
        table["label"], table[["x1", "x2"]] @ ROWS[0, :2] + 0.3, rtol=1e-6, atol=1e-6
    )


def test_rows_of_a_file(capsys):
    assert (
        dataset.main(["--batch_data_files", "d.csv", "--batch_size", "3", "--seed", "426", "-v"])
        == 0
    )
    said = capsys.readouterr().out.split("batch 0\n")[1].split("batch 1\n")
    found = [np.array([line.split() for line in part.splitlines()], float) for part in said]
    np.testing.assert_array_equal(np.concatenate(found), POINTS)
    assert len(found[0]) == 3
    assert dataset.main(["--batch_data_file", "d.csv", "--batch_size", "3"]) == 0
    assert "batch 1" in capsys.readouterr().out, "also where the flag is cut"


def test_flags_of_one_word_may_be_cut_too(capsys):
    words = "--data_typ 2 --dim 8 --noi 0.1 --see 1 --train_data a.csv --test_data b.csv --verbose"
    assert dataset.main(words.split()) == 0
    assert "4 points to a.csv" in capsys.readouterr().out and len(pd.read_csv("b.csv")) == 4


def test_an_exploration(capsys):
    flags = "--max_exploration_steps 2 --max_legs 5 --max_steps 10 --number_of_parallel_trajectories 1 --seed 4"
    flags += " --number_walkers 1 --every_nth 1 --progress 0 --inter_ops_threads 1"
    flags += " --diffusion_map_method vanilla --number_pruning 0 --use_reweighting 0 --inverse_temperature 10"
    flags += (
        " --sampler GeometricLangevinAlgorithm_2ndOrder --step_width 1e-2 --friction_constant 10 -v"
    )
    files = " ".join(f"--{name} {name}.csv" for name in EXPLORER_FILES)
    assert explore.main(f"{NETWORK} {flags} {files} --output explored --no-figures".split()) == 0
    bottoms, starts, legs = (pd.read_csv(f"{name}.csv") for name in EXPLORER_FILES)
    best = np.linalg.lstsq(np.column_stack([POINTS[:, :2], np.ones(5)]), POINTS[:, 2])[0]
    np.testing.assert_allclose(bottoms.iloc[0, 5:], best, rtol=1e-5)
    assert bottoms["loss"][0] == pytest.approx(losses(best[None])[0], rel=1e-6)
    assert len(starts) == 2 and list(legs[["id", "step"]].iloc[0]) == [0, 0]
    assert "num_steps = 50" in next(Path("explored").glob("*.toml")).read_text()


BAD = {
    "no file": (
        landscape,
        f"naive_subgrid {NETWORK} --interval_weights 0 1 --samples_weights 3",
        "--directions_file is",
    ),
    "falling": (
        landscape,
        f"naive_subgrid {NETWORK} --interval_weights 1 0 --samples_weights 3 --directions_file plane.csv "
        "--interval_offsets 0 0",
        "--interval_weights and --samples_weights are not a grid. Received: 1 to 0 in 3.",
    ),
    "no step": (
        landscape,
        f"trajectory {NETWORK} --parse_parameters_file c.csv --parse_steps 7",
        "Received: 7.",
    ),
    "a step in words": (
        landscape,
        f"trajectory {NETWORK} --parse_parameters_file c.csv --parse_steps x",
        "Received: x.",
    ),
    "no batch": (
        dataset,
        "--batch_data_files d.csv --batch_size 0",
        "--batch_size is out of range. Received: 0.",
    ),
    "files of runs": (
        explore,
        f"{NETWORK} --run_file r.csv",
        "--run_file does not apply to tati-explore.",
    ),
    "an explorer's burn-in": (
        explore,
        f"{NETWORK} --burn_in_steps 5",
        "--burn_in_steps does not apply to tati-explore.",
    ),
    "walkers that explore": (
        explore,
        f"{NETWORK} --number_walkers 2",
        "Received: 2. Expected: nothing: a leg is one",
    ),
    "legs": (explore, f"{NETWORK} --max_legs x", "--max_legs has the wrong form. Received: x."),
    "inputs in words": (
        inputspace,
        "--interval_input 0 1 --samples_input 3 --parse_parameters_file c.csv --input_dimension x",
        "--input_dimension has the wrong type. Received: x.",
    ),
    "another mode": (
        landscape,
        f"naive_gird {NETWORK} --interval_weights 0 1",
        "No mode is named. Did you mean 'naive_grid'?",
    ),
    "a step by TATi's name": (
        explore,
        f"{NETWORK} --parse_parameters_file c.csv --parse_steps 7 --max_legs 2",
        "--parse_steps: c.csv has no such step. Received: 7.",
    ),
    "a file by TATi's name": (
        explore,
        f"{NETWORK} --parse_parameters_file nowhere.csv",
        "--parse_parameters_file: there is no nowhere.csv.",
    ),
    "a file twice": (
        dataset,
        "--dimension 4 --train_data_files a.csv --test_data_files ./a.csv",
        "A file is named twice.",
    ),
    "no parameters": (
        inputspace,
        "--interval_input 0 1 --samples_input 3",
        "--parse_parameters_file is missing.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(capsys, case):
    command, text, sentence = BAD[case]
    more = "" if command in (explore, dataset, analyse) else " --csv_file out.csv"
    assert command.main((text + more).split()) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said


def test_a_sampler_in_python_over_one_hidden_node():
    """GLA2 in a loop over `gradients`, as TATi's guide has it, with a function of the inputs and
    fixed biases.
    """
    nn = tati(
        batch_data_files=["d.csv"],
        fix_parameters="layer1/biases/Variable:0=0.;output/biases/Variable:0=0.",
        hidden_dimension=[1],
        input_columns=["x1"],
        loss="mean_squared",
        seed=426,
        execution="eager",
    )
    assert nn.num_parameters() == 2
    noise, momenta, gradients, h = np.random.default_rng(1), np.zeros(2), np.zeros(2), 0.1
    start = nn.loss()
    for _ in range(20):
        momenta -= 0.5 * h * gradients
        nn.parameters = nn.parameters + h * momenta
        gradients = nn.gradients()
        momenta -= 0.5 * h * gradients
        momenta = np.exp(-h) * momenta + np.sqrt(
            (1 - np.exp(-2 * h)) / 1e3
        ) * noise.standard_normal(2)
    assert nn.loss() < start


def test_walkers_that_learn_from_each_other_in_python():
    """An ensemble of walkers in a loop: the covariance of the others shapes drift and force, by
    `parameters[i]`.
    """
    options = {"loss": "mean_squared", "execution": "eager", "dtype": "float64", "seed": 426}
    options |= {"output_activation": "linear"}
    nn = tati(batch_data_files=["d.csv"], number_walkers=4, walker_start="fresh", **options)
    momenta, noise, h, begun = [np.zeros(3)] * 4, np.random.default_rng(1), 0.1, np.mean(nn.loss())
    for step in range(20):
        for i in range(4):
            if step % 5 == 0:
                others = np.array([nn.parameters[j] for j in range(4) if j != i])
                shape = np.linalg.cholesky(np.eye(3) + 0.5 * np.cov(others.T, ddof=0))
            momenta[i] = momenta[i] - h * shape.T @ nn.gradients(walker_index=i)
            nn.parameters[i] += h * shape @ momenta[i]
            momenta[i] = np.exp(-h) * momenta[i] + np.sqrt(
                (1 - np.exp(-2 * h)) / 1e3
            ) * noise.standard_normal(3)
    design = np.column_stack([POINTS[:, :2], np.ones(5)])
    assert np.mean(nn.loss()) < begun and len(nn.loss()) == 4
    residual = design @ np.array(nn.parameters[2]) - POINTS[:, 2]
    np.testing.assert_allclose(
        nn.gradients(walker_index=2), 2 * design.T @ residual / 5, rtol=1e-10
    )


def test_a_simulation_answers_as_there(capfd):
    nn = tati(
        dataset=[POINTS[:, :2], POINTS[:, 2:]],
        batch_size=500,
        max_steps=10,
        every_nth=5,
        step_width=0.1,
        friction_constant=10.0,
        loss="mean_squared",
        output_activation="linear",
        do_hessians=True,
        execution="graph",
    )
    options = nn.get_options()
    assert (options.max_steps, options.every_nth, options.friction_constant, options.seed) == (
        10,
        5,
        10.0,
        0,
    )
    assert (
        options.do_hessians is True
        and options.sql_db is None
        and nn.get_options("step_width") == 0.1
    )
    assert nn.hessians().shape == (3, 3)
    np.testing.assert_allclose(nn.loss(), losses(nn.parameters[None])[0], rtol=1e-5)
    nn.set_options(batch_size=2)
    assert nn.get_options("batch_size") == 2
    nn.set_options(batch_size=7)
    first = nn.sample()
    assert (
        "batch_size 7 is larger than the data set: all examples, as in TATi."
        in capfd.readouterr().out
    )
    assert first.manifest["options"].get("batch_size") is None
    nn.init_momenta(1e8)
    assert np.abs(nn.momenta).max() < 1e-3
    nn.init_momenta(inverse_temperature=1e-8)
    assert np.abs(nn.momenta).max() > 1e2
    with pytest.raises(InputError, match="batch_size is larger than the data set"):
        from tati_re import Simulation

        Simulation(data=(POINTS[:, :2], POINTS[:, 2]), batch_size=7, execution="graph").loss()


def test_the_mean_loss_has_no_prior_where_none_is_named():
    assert make_options(potential="mean_loss").prior == "none"
    assert sentences(make_options(potential="mean_loss")) == [
        "potential mean_loss has no prior where none is named, as in TATi."
    ]
    for named in ({"prior": "laplace"}, {"prior_std": 2.0}):
        options = make_options(potential="mean_loss", **named)
        assert options.prior != "none" and sentences(options) == []
    assert sentences(make_options(potential="mean_loss"), own_prior=True) == []
    assert (
        make_options(make_options(potential="mean_loss"), potential="posterior").prior == "gaussian"
    )
    before = {
        "options": {"potential": "mean_loss", "prior": "gaussian"},
        "given": ["potential"],
        "dataset": {},
    }
    assert make_options(manifest.explicit_options(manifest.Manifest.of(before))).prior == "gaussian"


@pytest.mark.parametrize(
    "line, is_tati",
    [
        ("trajectory --parse_parameters_file c.csv", True),
        ("--batch_size 20 trajectory_subgrid", True),
        ("runs/first --directions trajectory", False),
        ("runs/first --directions=trajectory --range=-1:1:5", False),
    ],
)
def test_a_mode_is_no_value_of_our_directions(line, is_tati):
    assert tati_tools.scans(line.split()) is is_tati
