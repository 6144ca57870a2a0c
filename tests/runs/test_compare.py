"""Two runs compared, and the exit status that says so."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from tati_re import Simulation
from tati_re.cli import compare as command
from tati_re.runs.compare import Tolerance, compare

A = pd.DataFrame({"step": [1, 2, 3], "loss": [1.0, -2.0, 4.0], "c0": [0.5, 0.25, np.nan]})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A.to_csv("a.csv", index=False)
    return tmp_path


def changed(**columns) -> str:
    A.assign(**columns).to_csv("b.csv", index=False)
    return "b.csv"


def test_tables_agree_to_a_tolerance():
    assert compare("a.csv", "a.csv") == []
    other = changed(loss=A["loss"] + [0, 1e-9, 0])
    assert compare("a.csv", other) == []
    assert [d.column for d in compare("a.csv", other, Tolerance(1e-10))] == ["loss"]
    other = changed(loss=A["loss"] * 1.01)
    assert compare("a.csv", other, Tolerance(0.0101, "relative")) == []
    assert compare("a.csv", other, Tolerance(0.0099, "relative")) != []
    assert compare("a.csv", other, columns={"loss": Tolerance(0.041)}) == []
    assert compare("a.csv", other, Tolerance(0.0), columns={"*": Tolerance(0.041)}) == []
    assert compare("a.csv", other, columns={"loss": Tolerance(0.039)}) != []
    assert compare("a.csv", other, drop=["lo*"]) == []
    assert compare("a.csv", changed(loss=-A["loss"]), ignore_sign=["loss"]) == []
    (found,) = compare("a.csv", changed(loss=-A["loss"]))
    assert (
        found.sentence == "4 and -4 at step 3, the largest of 3 differences beyond 1e-08 absolute"
    )


def test_what_is_no_number_is_no_number_in_both():
    assert [d.column for d in compare("a.csv", changed(c0=[0.5, 0.25, 1.0]))] == ["c0"]
    assert [d.column for d in compare("a.csv", changed(c0=[0.5, np.nan, np.nan]))] == ["c0"]
    A.assign(c0=["x", "y", "z"]).to_csv("words.csv", index=False)
    assert compare("words.csv", "words.csv") == []
    (found,) = compare("words.csv", changed(c0=["x", "y", "w"]))
    assert found.sentence == "z and w at step 3"


def test_an_infinity_is_near_no_number():
    for tolerance in (Tolerance(1e-8), Tolerance(1e-8, "relative")):
        a, b = (
            np.array([np.inf, np.inf, np.inf, -np.inf, 1.0]),
            np.array([np.inf, 1.0, -np.inf, 1.0, np.inf]),
        )
        assert tolerance.exceeded(a, b).tolist() == [False, True, True, True, True]


def test_rows_and_columns_that_are_missing_differ():
    A.iloc[:2].to_csv("b.csv", index=False)
    assert [d.sentence for d in compare("a.csv", "b.csv")] == ["3 rows and 2 rows"]
    A.drop(columns="c0").assign(more=1.0).to_csv("b.csv", index=False)
    assert [(d.column, d.sentence) for d in compare("a.csv", "b.csv")] == [
        ("c0", "only the first has this column"),
        ("more", "only the second has this column"),
    ]
    assert compare("a.csv", "b.csv", drop=["c0", "more"]) == []


def test_the_exit_status_says_it(capsys):
    other = changed(loss=A["loss"] + 1)
    assert command.main(["a.csv", "a.csv"]) == 0
    assert capsys.readouterr().out == "They agree.\n"
    assert command.main(["a.csv", other]) == 1
    assert "a.csv and b.csv: loss: 1 and 2 at step 1" in capsys.readouterr().out
    assert command.main(["a.csv", other, "--tolerance", "0.4", "relative", "--quiet"]) == 1
    assert command.main(["a.csv", other, "--tolerance", "1"]) == 0
    capsys.readouterr()
    # As TATi's NumericalDiff takes them.
    argv = [
        "a.csv",
        other,
        "--general_threshold",
        "1e-9",
        "absolute",
        "--column_threshold",
        "loss",
        "1",
        "absolute",
    ]
    assert command.main(argv) == 0
    assert (
        command.main(["a.csv", other, "--column_drop", "loss", "--column_ignore_sign", "c0"]) == 0
    )


BAD = {
    "one path": (["a.csv"], "tati-compare needs two runs or two tables. Received: a.csv."),
    "a missing file": (["a.csv", "aa.csv"], "aa.csv does not exist. Did you mean 'a.csv'?"),
    "a folder and a file": (["a.csv", "."], "A folder cannot be compared with a file."),
    "no run": ([".", "."], "not a run folder"),
    "no number": (
        ["a.csv", "a.csv", "--tolerance", "small"],
        "--tolerance is out of range. Received: small.",
    ),
    "a kind": (["a.csv", "a.csv", "--tolerance", "1", "relativ"], "Did you mean 'relative'?"),
    "two words": (
        ["a.csv", "a.csv", "--column-tolerance", "loss", "1"],
        "three words for each column",
    ),
    "no such column": (
        ["a.csv", "a.csv", "--drop", "los"],
        "There is no column los. Did you mean 'loss'?",
    ),
    "no table": (["a.csv", "empty.csv"], "empty.csv is empty"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_has_a_status_of_its_own(folder, capsys, case):
    (folder / "empty.csv").write_text("")
    argv, sentence = BAD[case]
    assert command.main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1 and sentence in said


def test_run_folders_are_compared_table_by_table(folder):
    x = np.random.default_rng(0).normal(size=(8, 1))
    sim = Simulation(data=(x, x[:, 0]), verbose=0, execution="graph")
    start = sim.parameters.copy()
    for name, seed in (("first", 1), ("same", 1), ("other", 2)):
        sim.parameters = start
        sim.sample(num_steps=20, trajectory_every=10, step_size=0.01, output=name, seed=seed)
    assert compare("first", "same") == []
    tables = {d.table for d in compare("first", "other")}
    assert tables == {"run.csv", "averages.csv", "trajectory.csv"}
    (folder / "same" / "trajectory.csv").unlink()
    assert [d.sentence for d in compare("first", "same")] == ["only first exists"]
    shutil.copy("first/trajectory.csv", "same/trajectory.csv")
    assert command.main(["first", "same", "--quiet"]) == 0


def test_help_loads_nothing_heavy():
    code = """
import sys
from tati_re.cli.compare import main
try:
    main(["--help"])
except SystemExit:
    assert not {"tensorflow", "pandas", "numpy"} & set(sys.modules)
    raise
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--column-tolerance" in done.stdout
