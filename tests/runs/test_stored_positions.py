"""Positions come out of both kinds of trajectory as they went in, also in blocks smaller than the
file.
"""

import numpy as np
import pytest

from tati_re.analysis import stored_positions
from tati_re.core.errors import InputError
from tati_re.runs.csv_table import CsvTable
from tati_re.runs.h5_table import H5Table
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles
from tati_re.runs.trajectory_rows import steps_between

COLUMNS = ["step", "walker", "potential", "loss", "w[0]", "w[1]", "w[2]"]


class Stored(RunFiles):
    """A run whose manifest is not on the disk."""

    def __init__(self, folder, given: dict) -> None:
        super().__init__(folder)
        self.given = given

    @property
    def manifest(self) -> Manifest:
        return Manifest.of(self.given)


def written(folder, table, name, columns=COLUMNS):
    rows = np.random.default_rng(1).standard_normal((14, 7))
    rows[:, 0], rows[:, 1] = np.repeat(np.arange(1, 8) * 10, 2), np.tile([0, 1], 7)
    if "rung" in columns:
        rows[:, columns.index("rung")] = 0
    file = table(folder / name, columns)
    file.append(rows)
    file.flush()
    file.flush()
    return rows, Stored(folder, {"options": {}})


@pytest.mark.parametrize(
    ("table", "name"), [(CsvTable, "trajectory.csv"), (H5Table, "trajectory.h5")]
)
def test_every_row_in_order(tmp_path, table, name):
    rows, run = written(tmp_path, table, name)
    found = list(stored_positions(run, block_bytes=160))
    assert [(one.step, one.walker) for one in found] == [(int(row[0]), int(row[1])) for row in rows]
    assert np.array_equal([one.parameters for one in found], rows[:, 4:])


@pytest.mark.parametrize("label", ["rung", "weight"])
@pytest.mark.parametrize(
    ("table", "name"), [(CsvTable, "trajectory.csv"), (H5Table, "trajectory.h5")]
)
def test_the_labels_of_a_ladder_are_no_parameters(tmp_path, table, name, label):
    """The last column is a label, an integer or not: two parameters are left."""
    rows, run = written(tmp_path, table, name, [*COLUMNS[:-1], label])
    run.given |= {"parameters": {"num": 2}}
    found = list(stored_positions(run))
    assert np.array_equal([one.parameters for one in found], rows[:, 4:6])
    assert [one.walker for one in found] == [int(row[1]) for row in rows]


def test_a_line_still_being_written_is_left_out(tmp_path):
    rows, run = written(tmp_path, CsvTable, "trajectory.csv")
    with (tmp_path / "trajectory.csv").open("a") as file:
        file.write("80,0,1.5")
    assert len(list(stored_positions(run))) == len(rows)


def test_runs_without_positions(tmp_path):
    with pytest.raises(InputError, match="has no trajectory"):
        stored_positions(Stored(tmp_path, {}))
    for manifest in ({"options": {"directions": "d.npy"}}, {"objects": ["directions"]}):
        with pytest.raises(InputError, match="projections"):
            stored_positions(Stored(tmp_path, manifest))


@pytest.mark.parametrize("every", [4, 2**31, 4_141_524_757_512_192, 10**17])
def test_positions_may_lie_more_steps_apart_than_32_bits_count(every):
    assert int(steps_between(every, 0, 0)) == every
    least = int(steps_between(every, 10, 0))
    assert every % least == 0
    assert int(steps_between(every, 10, np.int64(40 * every))) == every
