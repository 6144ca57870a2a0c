"""Text tables of other programs: every line counts, whatever ends it, and a torn one is named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import analyse
from tati_re.cli import compare as compare_command
from tati_re.cli.dataset import _matrix
from tati_re.data import load_data
from tati_re.options.make import read_toml
from tati_re.runs.compare import compare
from tati_re.runs.parameters import read_parameters, read_trajectory
from tati_re.runs.reading import read_csv
from tati_re.samplers.schedules import read_table
from tati_re.system.saved_model import read_rows

NAMES = ["dense/kernel[0,0]", "dense/kernel[1,0]", "dense/bias[0]"]
ENDS = {
    "no end": lambda text: text.rstrip("\n"),
    "CRLF": lambda text: text.replace("\n", "\r\n"),
    "CRLF, no end": lambda text: text.replace("\n", "\r\n").rstrip("\r\n"),
    "CR": lambda text: text.replace("\n", "\r"),
    "CR, no end": lambda text: text.replace("\n", "\r").rstrip("\r"),
    "empty lines": lambda text: text + "\n \n\n",
    "a byte order mark": lambda text: "\ufeff" + text.rstrip("\n"),
}
TRAJECTORY = "step,loss,kinetic_energy,weight0,weight1,bias0\n" + "".join(
    f"{k},{k / 10},{k / 5},{k + 0.1},{k - 0.2},{k}\n" for k in (1, 2, 3)
)
PLAIN = "1.5,2\n3,4\n5,6\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> str:
    with open(name, "w", newline="", encoding="utf-8") as file:
        file.write(text)
    return name


@pytest.mark.parametrize("end", ENDS)
def test_every_reader_keeps_the_last_line(end):
    path = write("t.csv", ENDS[end](TRAJECTORY))
    assert read_csv(path)["step"].tolist() == [1, 2, 3]
    assert read_parameters(path, names=NAMES).positions.tolist() == [[3.1, 2.8, 3.0]]
    steps, points = read_trajectory(path, NAMES)
    assert steps.tolist() == [1, 2, 3] and points.shape == (3, 3)

    write("whole.csv", TRAJECTORY)
    write("less.csv", ENDS[end](TRAJECTORY[: TRAJECTORY.index("3,")]))
    assert compare(path, "whole.csv") == []
    assert [found.sentence for found in compare("whole.csv", "less.csv")] == ["3 rows and 2 rows"]

    rows = write("rows.csv", ENDS[end](PLAIN))
    assert read_rows("directions", rows, "rows").tolist() == [[1.5, 2], [3, 4], [5, 6]]
    assert _matrix(rows).tolist() == [[1.5, 2], [3, 4], [5, 6]]

    table = write("schedule.csv", ENDS[end]("step,value\n1,0.5\n10,0.25\n"))
    assert read_table(table, "step_schedule") == [(1, 0.5), (10, 0.25)]

    data = write("data.csv", ENDS[end]("a,b,y\n1.5,2,3.5\n4,5,6.5\n"))
    assert load_data(data, 0).inputs.tolist() == [[1.5, 2], [4, 5]]


@pytest.mark.parametrize("end", ENDS)
def test_a_file_of_options_ends_its_lines_in_any_way(end):
    path = write("a.toml", ENDS[end]("seed = 3\n# a comment\nnum_steps = 5\n"))
    assert read_toml(path) == {"seed": 3, "num_steps": 5}


def test_names_in_quotes_hold_commas_in_rows_of_numbers():
    path = write("rows.csv", '"kernel[0,0]","kernel[0,1]"\n1.5,2\n"3",4\n')
    assert read_rows("directions", path, "rows").tolist() == [[1.5, 2], [3, 4]]


@pytest.mark.parametrize(("row", "cell"), [("3;4", "3;4"), ("3 4", "3 4"), ("3,x", "x")])
def test_a_cell_that_is_no_number_is_shown(row, cell):
    first = "1,2" if "," in row else "1"
    path = write("rows.csv", f"{first}\n{row}\n")
    words = rf"line 2 has a cell that is not a number\. Received: '{cell}'\. Expected: numbers betw"
    with pytest.raises(InputError, match=words):
        read_rows("directions", path, "rows")


@pytest.mark.parametrize("end", ENDS)
def test_commands_count_the_last_line(end, capsys):
    write("a.csv", TRAJECTORY)
    write("b.csv", ENDS[end](TRAJECTORY[: TRAJECTORY.index("3,")]))
    assert compare_command.main(["a.csv", "b.csv"]) == 1
    assert "3 rows and 2 rows" in capsys.readouterr().out

    write("a.csv", ENDS[end](TRAJECTORY))
    words = "average_trajectory --trajectory_file a.csv --average_trajectory_file out.csv"
    assert analyse.main(words.split()) == 0
    np.testing.assert_allclose(pd.read_csv("out.csv")["weight0"][0], 2.1)
    words = "average_energies --run_file a.csv --average_run_file out.csv --steps 3"
    assert analyse.main(words.split()) == 0
    np.testing.assert_allclose(pd.read_csv("out.csv")["average_loss"].iloc[-1], 0.2)


@pytest.mark.parametrize(
    ("name", "row"), [("short", "3,0.3,0.6"), ("long", "3,0.3,0.6,3.1,2.8,3,4"), ("first", "3")]
)
def test_a_torn_line_is_named(name, row):
    torn = write("torn.csv", TRAJECTORY[: TRAJECTORY.index("3,")] + row)
    for reader in (
        lambda: compare(torn, torn),
        lambda: read_trajectory(torn, NAMES),
        lambda: read_parameters(torn, names=NAMES),
    ):
        with pytest.raises(InputError, match=r"torn\.csv, line 4 .* Expected: 6 cells"):
            reader()
    assert compare_command.main([torn, torn]) == 2
    with pytest.raises(InputError, match=r"directions: torn.csv, line 4 .* 6 cells"):
        read_rows("directions", torn, "rows")


def test_a_long_and_a_short_line_do_not_make_up_for_each_other():
    for first, second in (("1,2,3,4", "5,6"), ("5,6", "1,2,3,4")):
        write("odd.csv", f"a,b,c\n{first}\n{second}\n")
        with pytest.raises(InputError, match=r"odd\.csv, line 2 .* Expected: 3 cells"):
            read_csv("odd.csv")
    write("odd.csv", "a,b,c\n1,2,3,4\n5,6,7,8\n")
    with pytest.raises(InputError, match="line 2"):
        read_csv("odd.csv")


def test_quoted_cells_hold_commas_and_line_ends():
    write("q.csv", 'name,loss\n"a, b",1\n"c\nd",2')
    table = read_csv("q.csv")
    assert table["name"].tolist() == ["a, b", "c\nd"] and table["loss"].tolist() == [1, 2]
    write("q.csv", 'name,loss\n"a, b",1\n"c\nd"')
    with pytest.raises(InputError, match=r"q\.csv, line 4"):
        read_csv("q.csv")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("step,value\n1,0.5\n10", "line 3"),
        ("step,value\n1,0.5\n10,high", "line 3"),
        ("step,value\n1,0.5\n10,1,2", "line 3"),
        ("when,value\n1,0.5", "is not a table"),
    ],
)
def test_a_schedule_names_its_bad_line(text, words):
    write("s.csv", text)
    with pytest.raises(InputError, match=f"^step_schedule: .*{words}"):
        read_table("s.csv", "step_schedule")


def test_other_encodings_and_words_are_refused(capsys):
    with open("l.csv", "wb") as file:
        file.write("step,größe\n1,2\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"l.csv, line 1 is not UTF-8 text"):
        read_csv("l.csv")
    write("w.csv", TRAJECTORY.replace("0.2,", "high,"))
    for words in (
        "average_energies --run_file w.csv --average_run_file out.csv",
        "average_energies --run_file c.csv --average_run_file out.csv",
    ):
        write("c.csv", "step,loss\n1,2\n")
        assert analyse.main(words.split()) == 2
    assert "has no column kinetic_energy" in capsys.readouterr().err


def test_only_a_run_that_is_written_may_have_a_torn_line(folder):
    """Of rows that the last checkpoint does not know the last one may be half written, as after a
    kill; a table that is shorter was cut by somebody else.
    """
    x = np.linspace(-1, 1, 8)[:, None]
    sim = Simulation(data=(x, x[:, 0]), hidden=[], noise_std=0.5, seed=1, num_walkers=1)
    options = {"sampler": "BAOAB", "num_steps": 20, "step_size": 0.01}
    sim.sample(output="r", record_every=1, verbose=0, **options)
    table = folder / "r" / "run.csv"
    whole = table.read_bytes()
    table.write_bytes(whole + b"21,0,1.2")
    assert len(read_csv(table)) == 20
    table.write_bytes(whole[:-1])
    assert len(read_csv(table)) == 20
    table.write_bytes(whole[: whole.rindex(b"\n", 0, -1) + 4])
    with pytest.raises(InputError, match=r"run\.csv, line 21"):
        read_csv(table)
    (folder / "r" / "mine.csv").write_bytes(b"a,b\n1,2\n3,4")
    assert len(read_csv(folder / "r" / "mine.csv")) == 2
