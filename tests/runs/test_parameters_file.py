"""Parameters that are read from files: by step, by walker, by name, and what is refused."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.runs.parameters import read_parameters

# Two layers of 2-2-1: 4 weights, 2 biases, 2 weights, 1 bias.
NAMES = [f"dense/kernel[{i},{j}]" for i in range(2) for j in range(2)] + [
    "dense/bias[0]",
    "dense/bias[1]",
]
NAMES += ["dense_1/kernel[0,0]", "dense_1/kernel[1,0]", "dense_1/bias[0]"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path, columns, rows) -> None:
    lines = [",".join(f'"{c}"' if "," in c else c for c in columns)]
    path.write_text("\n".join([*lines, *(",".join(map(str, row)) for row in rows)]) + "\n")


def test_a_row_of_tati_has_all_weights_first(folder):
    """Weights 0 to 3 are those of the first layer, 4 and 5 those of the second, then the biases of
    both.
    """
    columns = [
        "id",
        "step",
        "loss",
        *(f"weight{i}" for i in range(6)),
        *(f"bias{i}" for i in range(3)),
    ]
    write(folder / "tati.csv", columns, [[0, s, 0.5, *range(10 * s, 10 * s + 9)] for s in (1, 2)])
    expected = np.array([10, 11, 12, 13, 16, 17, 14, 15, 18])
    np.testing.assert_array_equal(read_parameters("tati.csv", 1, names=NAMES).positions, [expected])
    last = read_parameters("tati.csv", names=NAMES)
    np.testing.assert_array_equal(last.positions, [expected + 10])
    assert last.source == "step 2 of tati.csv"
    short = ["step", "loss", *(f"w{i}" for i in reversed(range(6))), *(f"b{i}" for i in range(3))]
    write(folder / "grid.csv", short, [[7, 0.5, *range(9)]])
    np.testing.assert_array_equal(
        read_parameters("grid.csv", 7, names=NAMES).positions, [[5, 4, 3, 2, 6, 7, 1, 0, 8]]
    )


def test_walkers_have_their_rows_or_share_the_first(folder):
    rows = [
        [s, w, 0.0, 0.0, *(100 * s + 10 * w + np.arange(9))] for s in (5, 10) for w in (1, 0, 2)
    ]
    write(folder / "trajectory.csv", ["step", "walker", "potential", "loss", *NAMES], rows)
    stored = read_parameters("trajectory.csv", 10, names=NAMES)
    np.testing.assert_array_equal(stored.positions[stored.rows_of(3), 0], [1000, 1010, 1020])
    np.testing.assert_array_equal(stored.positions[stored.rows_of(2), 0], [1000, 1010])
    np.testing.assert_array_equal(stored.positions[stored.rows_of(4), 8], [1008] * 4)


def test_only_the_rows_of_the_target_of_a_ladder_are_taken(folder):
    rows = [[1, 0, 0.0, 0.0, *np.arange(9) + 50 * r, r] for r in (1, 0)]
    write(folder / "trajectory.csv", ["step", "walker", "potential", "loss", *NAMES, "rung"], rows)
    np.testing.assert_array_equal(
        read_parameters("trajectory.csv", names=NAMES).positions, [np.arange(9)]
    )


def test_arrays_come_whole_or_tensor_by_tensor():
    values = np.arange(18.0).reshape(2, 9)
    np.savez("whole.npz", parameters=values, other=1)
    np.savez("one.npz", values[1])
    tensors = {"dense/kernel": values[0, :4].reshape(2, 2), "dense/bias": values[0, 4:6]}
    tensors |= {"dense_1/kernel": values[0, 6:8].reshape(2, 1), "dense_1/bias": values[0, 8:]}
    np.savez("tensors.npz", **dict(reversed(tensors.items())))
    np.save("one.npy", values[0])
    np.testing.assert_array_equal(read_parameters("whole.npz", names=NAMES).positions, values)
    np.testing.assert_array_equal(read_parameters("one.npz", names=NAMES).positions, values[1:])
    np.testing.assert_array_equal(read_parameters("tensors.npz", names=NAMES).positions, values[:1])
    np.testing.assert_array_equal(read_parameters("one.npy", names=NAMES).positions, values[:1])


REFUSED = {
    "a missing file": (
        "trajctory.csv",
        None,
        r"^parameters: there is no trajctory\.csv\. Did you mean 'trajectory",
    ),
    "unknown format": (
        "notes.txt",
        None,
        "^parameters: the file has an unknown format. Received: notes.txt",
    ),
    "no such step": (
        "trajectory.csv",
        7,
        "^parameters_step: .* nearest is 5.$",
    ),
    "fewer parameters": (
        "short.csv",
        None,
        r"short\.csv does not match the model\. Received: 8 parameters\. .* 9 param",
    ),
    "fewer weights": (
        "few.csv",
        None,
        r"Received: 5 weights and 3 biases\. Expected: 6 weights and 3 biases\.$",
    ),
    "another model": (
        "other.csv",
        None,
        r"from another model\. Received: a parameter lstm/kernel\[0,0\]\.",
    ),
    "projections": ("projected.csv", None, "contains projections on directions"),
    "no parameters": ("run.csv", None, "has no parameter columns"),
    "a ragged row": (
        "ragged.csv",
        None,
        r"ragged.csv, line 3 is not a row of the table. Received: 12 cells. Expected: 13 cells",
    ),
    "a word": ("word.csv", None, "a cell that is not a number"),
    "an array too short": (
        "short.npz",
        None,
        r"Received: 8 parameters\. Expected: 9 parameters\.$",
    ),
    "an array without": ("none.npz", None, r"has no array 'dense/kernel'"),
    "a pickled array": ("pickled.npz", None, r"pickled\.npz cannot be read"),
    "a step of an array": (
        "whole.npz",
        3,
        r"^parameters_step: whole\.npz has no steps\. Received: 3\.",
    ),
    "no rows": ("bare.csv", None, "has no rows"),
    "a folder that is no run": (".", None, "not a run folder"),
    "an infinite step": (
        "far.csv",
        None,
        r"far\.csv, line 2 has a step or walker that is not an integer",
    ),
    "a step beyond all": ("beyond.csv", None, r"beyond\.csv, line 2 has a step"),
    "texts": (
        "texts.npy",
        None,
        r"does not contain real numbers\. Received: values of the type <U1",
    ),
    "an array without rows": ("rows.npy", None, "contains no rows"),
    "an infinity": ("inf.npy", None, "values that are not finite"),
    "no model": ("broken.keras", None, r"^parameters: model is not a \.keras file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(folder, case):
    start = ["step", "walker", "potential", "loss"]
    row = [5, 0, 0.0, 0.0, *range(9)]
    (folder / "notes.txt").write_text("none")
    (folder / "broken.keras").write_text("none")
    write(folder / "trajectory.csv", [*start, *NAMES], [row])
    write(folder / "short.csv", [*start, *NAMES[:8]], [row[:-1]])
    tati = [*(f"weight{i}" for i in range(5)), *(f"bias{i}" for i in range(3))]
    write(folder / "few.csv", ["id", "step", "loss", *tati], [[0, 5, 0.0, *range(8)]])
    write(folder / "other.csv", [*start, "lstm/kernel[0,0]", *NAMES[1:]], [row])
    write(folder / "projected.csv", [*start, "c0", "c1"], [row[:6]])
    write(folder / "run.csv", ["step", "walker", "loss"], [[1, 0, 2.0]])
    write(folder / "ragged.csv", [*start, *NAMES], [row, row[:-1]])
    write(folder / "word.csv", [*start, *NAMES], [[*row[:-1], "high"]])
    write(folder / "bare.csv", [*start, *NAMES], [])
    write(folder / "far.csv", [*start, *NAMES], [["inf", *row[1:]]])
    write(folder / "beyond.csv", [*start, *NAMES], [["1e300", *row[1:]]])
    np.savez("short.npz", parameters=np.zeros(8))
    np.savez("none.npz", a=np.zeros(8), b=np.zeros(1))
    np.savez("pickled.npz", parameters=np.array([{}], dtype=object))
    np.savez("whole.npz", parameters=np.zeros(9))
    np.save("inf.npy", np.full(9, np.inf))
    np.save("texts.npy", np.full(9, "x"))
    np.save("rows.npy", np.zeros((0, 9)))
    path, step, pattern = REFUSED[case]
    with pytest.raises(InputError, match=pattern) as caught:
        read_parameters(path, step, names=NAMES)
    assert "\n" not in str(caught.value)


def test_a_mark_of_the_encoding_is_no_part_of_a_name(folder):
    rows = [[9, w, *(100 * w + np.arange(9))] for w in (0, 1)]
    write(folder / "plain.csv", ["step", "walker", *NAMES], rows)
    (folder / "marked.csv").write_bytes("\ufeff".encode() + (folder / "plain.csv").read_bytes())
    marked = read_parameters("marked.csv", names=NAMES)
    assert marked.source == "step 9 of marked.csv"
    np.testing.assert_array_equal(
        marked.positions, read_parameters("plain.csv", names=NAMES).positions
    )


WORDS = h5py.string_dtype()
NO_TABLES = {
    "rows without columns": {"rows": np.zeros(1)},
    "fewer columns than names": {"rows": np.zeros((1, 3))},
    "one number": {"index": np.array(3)},
    "steps that are no integers": {"index": np.array([[1.5, 0.0]])},
    "texts": {"index": np.array([[b"1", b"0"]])},
    "names that are numbers": {"columns": np.arange(4)},
    "a table of names": {"index_columns": np.array([["step", "walker"]], WORDS)},
    "no walker": {"index": np.array([[1]]), "index_columns": np.array(["step"], WORDS)},
    "other integers": {"index_columns": np.array(["a", "b"], WORDS)},
}


@pytest.mark.parametrize("case", NO_TABLES)
def test_an_hdf5_file_of_another_form_is_refused(folder, case):
    parts = {"index": np.array([[1, 0]]), "rows": np.array([[0.0, 0.0, 1.0, 2.0]])}
    parts |= {"index_columns": np.array(["step", "walker"], WORDS)}
    parts |= {"columns": np.array(["potential", "loss", "k[0]", "k[1]"], WORDS)}
    with h5py.File("a.h5", "w") as file:
        for name, values in (parts | NO_TABLES[case]).items():
            file[name] = values
    with pytest.raises(InputError, match=r"a\.h5 is (not a|no) table of a run\."):
        read_parameters("a.h5", names=["k[0]", "k[1]"])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    x = np.random.default_rng(3).normal(size=(10, 2))
    options = {"noise_std": 1.0, "verbose": 0, "execution": "graph", "dtype": "float64"}
    sim = Simulation(data=(x, x[:, 0]), hidden=[2], num_walkers=2, **options)
    path = tmp_path_factory.mktemp("runs") / "a"
    return sim, sim.sample(
        num_steps=7, record_every=1, trajectory_every=2, step_size=0.05, output=str(path)
    )


def test_a_run_folder_gives_its_end_or_a_stored_step(run, folder):
    sim, done = run
    names = sim.parameter_names()
    assert names == NAMES
    end = read_parameters(done.folder, names=names)
    np.testing.assert_array_equal(end.positions, sim.parameters)
    assert end.source == f"the end of {done.folder}, step 7" and end.auxiliary == []
    fourth = read_parameters(done.folder, 4, names=names)
    np.testing.assert_array_equal(fourth.positions, [done.parameters(4, w) for w in range(2)])
    stored = read_parameters(done.folder / "trajectory.csv", names=names)
    np.testing.assert_array_equal(stored.positions, [done.parameters(6, w) for w in range(2)])
    with pytest.raises(InputError, match="does not match the model"):
        read_parameters(done.folder, names=names[:-1])


def test_a_keras_file_gives_its_weights(run):
    sim, done = run
    done.save_model(6, "model.keras", walker=1)
    stored = read_parameters("model.keras", names=sim.parameter_names())
    np.testing.assert_array_equal(stored.positions, [done.parameters(6, 1)])
    with pytest.raises(
        InputError, match=r"from another model\. Received: a parameter dense/kernel\[0,0\]"
    ):
        read_parameters("model.keras", names=["a", *NAMES[1:]])


def test_wide_trajectories_are_read_row_by_row(run, folder):
    sim, _ = run
    done = sim.sample(
        step_size=0.001, num_steps=4, trajectory_every=2, trajectory_format="h5", output="wide"
    )
    stored = read_parameters("wide/trajectory.h5", 2, names=NAMES)
    np.testing.assert_array_equal(stored.positions, [done.parameters(2, w) for w in range(2)])


def test_parameters_that_keep_their_values_may_be_in_the_file(run):
    _, done = run
    free, fixed = NAMES[:3] + NAMES[6:], NAMES[3:6]
    places = [0, 1, 2, 6, 7, 8]
    done.save_model(6, "model.keras", walker=1)
    values = done.parameters(6, 1)
    tensors = {
        "dense/kernel": values[:4].reshape(2, 2),
        "dense_1/kernel": values[6:8, None],
        "dense_1/bias": values[8:],
    }
    np.savez("tensors.npz", **tensors)
    for path, step in (
        ("model.keras", None),
        (done.folder, 6),
        (done.folder / "trajectory.csv", 6),
    ):
        stored = read_parameters(path, step, names=free, fixed=fixed)
        np.testing.assert_array_equal(stored.positions[-1], values[places])
        with pytest.raises(InputError, match="does not match the model"):
            read_parameters(path, step, names=free)
    stored = read_parameters("tensors.npz", names=free, fixed=fixed)
    np.testing.assert_array_equal(stored.positions, [values[places]])
    end = read_parameters(done.folder, names=free, fixed=fixed)
    np.testing.assert_array_equal(
        end.positions, read_parameters(done.folder, names=NAMES).positions[:, places]
    )
    x = np.random.default_rng(3).normal(size=(10, 2))
    quick = {
        "hidden": [2],
        "noise_std": 1.0,
        "verbose": 0,
        "execution": "graph",
        "dtype": "float64",
    }
    still = Simulation(
        data=(x, x[:, 0]), parameters="model.keras", fix_parameters="dense/bias", **quick
    )
    np.testing.assert_array_equal(still.parameters, values[[0, 1, 2, 3, 6, 7, 8]])
