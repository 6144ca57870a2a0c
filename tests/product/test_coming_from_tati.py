"""A script and a command line of TATi run here, and the classes that their import lines name."""

from __future__ import annotations

import importlib
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError
from tati_re.cli import analyse, dataset
from tati_re.coming_from_tati import ClassificationDatasets, data_numpy_to_csv

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands(script: Path) -> list[list[str]]:
    """The commands of a shell script, words apart."""
    text = script.read_text().replace("\\\n", " ").replace("$(pwd)", str(Path.cwd()))
    return [shlex.split(line) for line in text.splitlines() if line.startswith("tati-")]


@pytest.mark.slow
def test_the_command_line_runs(folder, capsys):
    """The mean of the loss over the positions of a quadratic potential is its minimum plus P/(2
    beta) = 0.15; the standard error of 450 rows is about 0.01.
    """
    programs = []
    for program, *arguments in commands(EXAMPLES / "coming_from_tati.sh"):
        programs.append(program)
        quick = ["--execution", "graph"] if program in ("tati-optimize", "tati-sample") else []
        command = importlib.import_module(f"tati_re.cli.{program.removeprefix('tati-')}")
        assert command.main([*arguments, *quick]) == 0, capsys.readouterr().err
    assert programs == ["tati-dataset", "tati-optimize", "tati-sample", "tati-analyse"]
    said = capsys.readouterr().out
    assert "step_width is TATi's name, so that potential is mean_loss" in said
    assert f"{folder}/model.ckpt.meta.keras" in Path("runs/sample-1/manifest.toml").read_text()
    energies = pd.read_csv("average_run.csv")
    rows = pd.read_csv("sampling-run.csv").query("step > 500")
    assert list(energies.columns[:3]) == [
        "step",
        "average_kinetic_energy",
        "variance_kinetic_energy",
    ]
    assert len(energies) == 10
    assert energies["average_loss"].iloc[-1] == pytest.approx(rows["loss"].mean(), rel=1e-12)
    assert energies["variance_total_energy"].iloc[-1] == pytest.approx(
        np.var(rows["loss"] + rows["kinetic_energy"]), rel=1e-10
    )
    features = pd.read_csv("dataset-twoclusters.csv").to_numpy()
    design = np.column_stack([features[:, :2], np.ones(500)])
    residual = np.linalg.lstsq(design, features[:, 2], rcond=None)[1][0] / 500
    assert abs(rows["loss"].mean() - residual - 3 / (2 * 10.0)) < 0.06
    positions = pd.read_csv("sampling-trajectory.csv").query("step > 500").iloc[:, 4:]
    means = pd.read_csv("average_trajectory.csv")
    np.testing.assert_allclose(
        means.to_numpy(), [positions.mean(), positions.var(ddof=0)], rtol=1e-10
    )
    values = pd.read_csv("eigenvalues.csv")["value"]
    np.testing.assert_allclose(values, np.linalg.eigvalsh(np.cov(positions.T))[::-1], rtol=1e-8)


def test_the_script_runs(capsys):
    text = (
        (EXAMPLES / "coming_from_tati.py").read_text().replace("max_steps=20000", "max_steps=6000")
    )
    text = text.replace("output_dimension=1,", "output_dimension=1, execution='graph',")
    exec(compile(text, "coming_from_tati.py", "exec"), {"__name__": "__main__"})
    said = capsys.readouterr().out
    found, expected = map(float, re.search(r"Average loss: (\S+) expected: (\S+)", said).groups())
    # 500 rows 10 steps apart, correlated over some 30 steps: a standard error of 0.01.
    assert abs(found - expected) < 0.055


def test_points_of_two_classes_are_made_and_written():
    made = ClassificationDatasets(seed=4)
    features, labels = made.generate(dimension=40, noise=0.1, data_type=made.TWOCIRCLES)
    assert features.shape == (40, 2) and labels.shape == (40, 1) and set(labels.ravel()) == {-1, 1}
    again, _ = ClassificationDatasets(seed=4).generate(
        dimension=40, noise=0.1, data_type=made.TWOCIRCLES
    )
    np.testing.assert_array_equal(features, again)
    data_numpy_to_csv(features, labels, "points.csv")
    np.testing.assert_array_equal(
        pd.read_csv("points.csv").to_numpy(), np.column_stack([features, labels])
    )
    with pytest.raises(
        InputError, match=r"^data_type: there is none of this number\. Received: 4\."
    ):
        made.generate(dimension=4, data_type=4)


def test_the_writer_splits_points_over_files():
    argv = [
        "--data_type",
        "1",
        "--dimension",
        "30",
        "--train_test_ratio",
        "0.6",
        "--seed",
        "2",
        "-v",
    ]
    files = ["--train_data_files", "a.csv", "b.csv", "--test_data_files", "c.csv"]
    assert dataset.main([*argv, *files]) == 0
    parts = [pd.read_csv(name) for name in ("a.csv", "b.csv", "c.csv")]
    assert [len(part) for part in parts] == [9, 9, 12]
    assert len(pd.concat(parts).drop_duplicates()) == 30
    assert dataset.main(["--batch_data_files", "a.csv"]) == 0


BAD = {
    "no files": (
        dataset,
        ["--data_type", "2", "--dimension", "8"],
        "--train_data_files is missing",
    ),
    "more files": (
        dataset,
        ["--dimension", "2", "--train_test_ratio", "1", "--train_data_files", "a", "b", "c"],
        "fewer points than files",
    ),
    "a ratio": (
        dataset,
        ["--dimension", "2", "--train_test_ratio", "2"],
        "--train_test_ratio is out of range",
    ),
    "a type": (dataset, ["--data_type", "two"], "--data_type: invalid int value: 'two'; see"),
    "another module": (
        analyse,
        ["average_energies", "average_energie"],
        "Did you mean 'average_energies'?",
    ),
    "no input": (
        analyse,
        ["average_energies", "--average_run_file", "o.csv"],
        "--run_file is missing",
    ),
    "a missing input": (
        analyse,
        ["average_energies", "--average_run_file", "o.csv", "--run_file", "no.csv"],
        "--run_file: there is no no.csv",
    ),
    "nothing left": (
        analyse,
        [
            "average_trajectory",
            "--average_trajectory_file",
            "o",
            "--trajectory_file",
            "t.csv",
            "--drop_burnin",
            "9",
        ],
        "--drop_burnin leaves no rows of t.csv. Received: 9. Expected: below 2.",
    ),
    "nowhere to go": (
        analyse,
        ["covariance", "--trajectory_file", "t.csv"],
        "covariance has nowhere to go",
    ),
    "no number": (analyse, ["covariance", "--steps", "x"], "--steps: invalid int value: 'x'; see"),
    "none": (
        analyse,
        ["covariance", "--every_nth", "0"],
        "--every_nth is out of range. Received: 0.",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_sentence(folder, capsys, case):
    (folder / "t.csv").write_text("step,walker,potential,loss,a/kernel\n1,0,0,0,1\n2,0,0,0,2\n")
    module, argv, sentence = BAD[case]
    assert module.main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said
