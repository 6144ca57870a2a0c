"""Tables of a run whose header is not the one that the run wrote: one sentence, whatever reads them."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tati_re
from tati_re.runs.foreign_table import has_long_first_row
from tests.made_runs import made_run

HEADERS = {
    "text": lambda header: "hello",
    "the step without a name": lambda header: header.replace("step", "", 1),
    "the walker under another name": lambda header: header.replace("walker", "nan", 1),
    "the potential under another name": lambda header: header.replace("potential", "p", 1),
    "a column twice": lambda header: header.replace("walker", "step", 1),
    "other names throughout": lambda header: ",".join("abcdefghijklmnop"[: header.count(",") + 1]),
}


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    made_run(tmp_path / "run", {"loss": rng.normal(size=(2, 8))}, rng.normal(size=(2, 8, 3)))
    return tmp_path / "run"


@pytest.mark.parametrize("name", ["run.csv", "trajectory.csv"])
@pytest.mark.parametrize("case", HEADERS)
def test_a_table_under_another_header(folder, name, case):
    """KeyError: 'walker' before."""
    header, *lines = (folder / name).read_text().splitlines()
    rows = [] if case == "text" else lines
    (folder / name).write_text("\n".join([HEADERS[case](header), *rows, ""]))
    run = tati_re.load(folder)
    uses = {
        "run.csv": [run.summary, lambda: run.run_info, lambda: tati_re.analyse(run, ["averages"])],
        "trajectory.csv": [lambda: run.trajectory, lambda: tati_re.analyse(run, ["covariance"])],
    }
    for use in uses[name]:
        with pytest.raises(
            tati_re.InputError, match=rf"{name} (is not a table of a run|has no column)"
        ) as error:
            use()
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("row", ["1" + ",1" * 400_000, '"1"' + ',"1"' * 400_000])
def test_a_first_row_of_very_many_cells(folder, row):
    """pandas takes the surplus for an index: .7 ms a cell, minutes."""
    header = (folder / "run.csv").read_text().splitlines()[0]
    (folder / "run.csv").write_text(f"{header}\n{row}\n")
    (folder / "other.csv").write_text(f"{header}\n{row}\n")
    (folder / "loo.csv").write_text(f"example,elpd,pareto_k\n{row}\n")
    run = tati_re.load(folder)
    start = time.process_time()
    for use in (
        lambda: run.run_info,
        lambda: tati_re.compare(folder / "other.csv", folder / "other.csv"),
        run.summary,
    ):
        with pytest.raises(tati_re.InputError, match=r"cells|has no column"):
            use()
    assert time.process_time() - start < 10


def test_a_first_row_with_marks_in_quotes_is_not_long():
    assert not has_long_first_row('a,b\n"1,2,3",4\n')
    assert not has_long_first_row("\na,b\n\n1,2\n1,2,3\n")
    assert has_long_first_row('a,"b,c"\n\n1,2,3\n')
    assert has_long_first_row("1,2,3\n", 2) and not has_long_first_row("", 2)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_damaged_positions_are_not_taken_for_missing_ones(folder, rows):
    """ValueError of zip before; with no row at all there is nothing to compare."""
    lines = (folder / "trajectory.csv").read_text().splitlines()
    kept = lines[: 1 + rows]
    (folder / "trajectory.csv").write_text("\n".join([*kept, ""]))
    found = tati_re.compare_runs(folder, folder)
    assert ("tensors" in set(found.table["group"])) == (rows > 1)
    if rows > 1:
        damaged = [*kept[:-1], kept[-1].replace(",", ",x", 1), ""]
        (folder / "trajectory.csv").write_text("\n".join(damaged))
        with pytest.raises(tati_re.InputError, match=r"trajectory\.csv, line 6"):
            tati_re.compare_runs(folder, folder)
