"""Tables that know when they were changed: digests in checkpoints, what readers say of damaged
files, and `verify`.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from tati_re.cli import analyse, compare
from tati_re.core.errors import InputError
from tati_re.runs import checkpoint, files, manifest
from tati_re.runs.checked_tables import ShorterTable
from tati_re.runs.csv_table import CsvTable, frame_text
from tati_re.runs.digests import BLOCK_BYTES, LENGTH, Digest, lasting, of_whole
from tati_re.runs.h5_table import H5Table
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles
from tati_re.runs.verify import verify
from tati_re.summary.summary import summary_lines

ROWS, WALKERS, P = 400, 2, 2
NAMES = ["dense/kernel[0,0]", "dense/kernel[1,0]"]
COLUMNS = {
    files.ROWS: ["step", "walker", "temperature", "loss", "potential", "kinetic_energy"],
    files.AVERAGES: ["step", "walker", "loss", "potential"],
    files.EXCHANGES: ["step", "rung_low", "rung_high", "accepted"],
    files.TIMING: ["step", "seconds", "steps_per_second"],
}
MANIFEST = {
    "kind": "sample",
    "options": {
        "num_steps": ROWS,
        "num_walkers": WALKERS,
        "num_burnin_steps": 0,
        "step_size": 0.01,
        "data": "a.csv",
    },
    "parameters": {"num": P, "names": ["dense/kernel"], "shapes": [[P, 1]]},
    "meaning": "U = L + V",
}


def write_run(folder: Path, h5: bool) -> None:
    """A folder as the engine leaves it, of two checkpoints, and rows after the second one."""
    folder.mkdir()
    manifest.write(folder, MANIFEST)
    np.save(folder / files.DIRECTIONS, np.eye(P))
    noise = np.random.default_rng(1)
    columns = COLUMNS | {
        files.TRAJECTORIES["h5" if h5 else "csv"]: files.trajectory_columns(NAMES, [])
    }
    tables = {
        name: (H5Table if ".h5" in name else CsvTable)(folder / name, list(c))
        for name, c in columns.items()
    }
    ladder = {"rung": np.arange(3), "inverse_temperature": np.array([1.0, 0.5, 0.25])}

    def append(first: int, last: int) -> None:
        for name, table in tables.items():
            step = np.repeat(np.arange(first, last), WALKERS)
            values = np.stack([step, np.tile(np.arange(WALKERS), last - first)], axis=1)
            width = len(columns[name]) - 2
            more = noise.integers(0, 2, (len(step), width)) if name == files.EXCHANGES else None
            table.append(
                np.concatenate(
                    [values, noise.normal(size=(len(step), width)) if more is None else more], 1
                )
            )
            table.flush()

    for first, last in ((1, 200), (200, ROWS)):
        append(first, last)
        ladder["acceptance"] = noise.random(3)
        bias = {"rung": np.arange(3), "bias": noise.random(3)}
        of_rungs = {files.LADDER: ladder, files.BIAS: bias}
        whole = {name: frame_text(table) for name, table in of_rungs.items()}
        known = {name: of_whole(text) for name, text in whole.items()}
        known[files.DIRECTIONS] = of_whole((folder / files.DIRECTIONS).read_bytes())
        meta = {"step": last - 1, "files": {name: table.on_disk for name, table in tables.items()}}
        meta |= {
            "digests": {name: table.digest.text() for name, table in tables.items()},
            "whole": known,
        }
        arrays = {
            "moments/mean": np.zeros((WALKERS, P)),
            "moments/count": np.array(9.0),
            "moments/m2": np.ones(P),
        }
        checkpoint.save(folder, arrays, meta | {"manifest": lasting(manifest.read(folder))})
        for name, text in whole.items():
            (folder / name).write_bytes(text)
    append(ROWS, ROWS + 5)
    (folder / files.NOISE).write_text("test,rung,p_value\nenergy,0,0.25\n")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("made")
    for kind in ("csv", "h5"):
        write_run(folder / kind, kind == "h5")
    return {kind: folder / kind for kind in ("csv", "h5")}


@pytest.fixture
def copy(made, tmp_path) -> Path:
    return Path(shutil.copytree(made["csv"], tmp_path / "run"))


def read(folder: Path, name: str) -> object:
    """What a user reads who wants this file."""
    run = RunFiles.open(folder)
    if name == files.MANIFEST and (said := manifest.changes(folder, run.manifest)):
        raise InputError(" ".join(said))
    if name == files.DIRECTIONS:
        return run.directions
    if name.startswith(files.CHECKPOINTS):
        return run.moments
    if name.startswith("trajectory"):
        return sum(len(block.values) for block in Positions(run).blocks()), len(run.trajectory)
    return run.manifest if name == files.MANIFEST else run._table(name)


def refused(folder: Path, name: str) -> str:
    """What a reader says of a file that is not what the run wrote; it must say something."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((InputError, ShorterTable, UserWarning)) as caught:
            read(folder, name)
    return str(caught.value)


# ------------------------------------------------------------------------------------------------------
# digests


def test_a_digest_is_the_same_however_the_bytes_come():
    content = np.random.default_rng(0).bytes(3 * BLOCK_BYTES + 17)
    whole, parts = Digest(), Digest()
    whole.update(content)
    for first in range(0, len(content), 7001):
        parts.update(content[first : first + 7001])
    assert whole.text() == parts.text()
    assert len(whole.text()) == 4 * LENGTH
    limited = Digest(BLOCK_BYTES + 5)
    limited.update(content)
    short = Digest()
    short.update(content[: BLOCK_BYTES + 5])
    assert limited.text() == short.text()


@pytest.mark.parametrize("place", [0, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES + 16])
def test_a_change_is_found_in_its_block(place):
    content = bytearray(3 * BLOCK_BYTES + 17)
    known = Digest()
    known.update(content)
    content[place] ^= 1
    found = Digest(len(content))
    found.update(content)
    first, last = found.first_change(known.text())
    assert first <= place < last
    assert last - first <= BLOCK_BYTES
    assert found.first_change(None) is None


def test_every_flipped_byte_of_a_table_is_refused_by_a_resume(made, tmp_path):
    """50 places for each format, all of which go through without digests but for those that break
    the structure.
    """
    noise = np.random.default_rng(2)
    for kind in ("csv", "h5"):
        name = files.TRAJECTORIES[kind]
        known, columns = checkpoint.known(made[kind], name), files.trajectory_columns(NAMES, [])
        content = (made[kind] / name).read_bytes()
        table = (H5Table if kind == "h5" else CsvTable).reopen
        places, silent = noise.integers(0, known.size if kind == "csv" else len(content), 50), 0
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << int(noise.integers(8))
            (tmp_path / name).write_bytes(changed)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    opened = table(tmp_path / name, columns, known.size, digest=known.digest)
            except InputError as error:
                assert name in str(error)
                continue
            # In an HDF5 file many bytes hold nothing, or rows after the checkpoint.
            silent += 1
            assert kind == "h5"
            assert opened.digest.text() == known.digest
        assert silent < (1 if kind == "csv" else 50)


def test_a_changed_number_of_an_h5_table_is_refused_with_its_rows(made, tmp_path):
    h5py = pytest.importorskip("h5py")
    folder = Path(shutil.copytree(made["h5"], tmp_path / "run"))
    path = folder / "trajectory.h5"
    with h5py.File(path, "r+") as file:
        file["rows"][33, 1] += 1e-9
    known = checkpoint.known(made["h5"], "trajectory.h5")
    columns = files.trajectory_columns(NAMES, [])
    assert "rows 1 to" in refused(folder, "trajectory.h5")
    with pytest.raises(InputError, match="rows 1 to"):
        RunFiles.open(folder).trajectory.sum()
    with pytest.raises(
        InputError, match=r"trajectory\.h5, rows 1 to [\d,]+: they differ from what the run wrote"
    ):
        H5Table.reopen(path, columns, known.size, digest=known.digest)


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_a_table_goes_on_with_its_digest(made, tmp_path, kind):
    """Cut back and taken up again it has the digest of a table that was never closed."""
    name, columns = files.TRAJECTORIES[kind], files.trajectory_columns(NAMES, [])
    path = Path(shutil.copy(made[kind] / name, tmp_path))
    known = checkpoint.known(made[kind], name)
    table = (H5Table if kind == "h5" else CsvTable).reopen(
        path, columns, known.size, digest=known.digest
    )
    rows = np.random.default_rng(3).normal(size=(20000, len(columns)))
    rows[:, :2] = np.arange(40000).reshape(-1, 2)
    table.append(rows)
    table.flush()
    again = (H5Table if kind == "h5" else CsvTable).reopen(path, columns, table.on_disk)
    assert again.digest.text() == table.digest.text() != known.digest


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_a_table_that_another_process_wrote_to_is_left_alone(tmp_path, kind):
    table = (H5Table if kind == "h5" else CsvTable)(tmp_path / f"t.{kind}", ["step", "loss"])
    table.append(np.ones((3, 2)))
    table.flush()
    with open(table.path, "ab") as other:
        other.write(b"7,8\n")
    before = table.path.read_bytes()
    table.append(np.ones((3, 2)))
    with pytest.raises(
        InputError,
        match="was changed during the run, perhaps by another process; the run stops writing to it",
    ):
        table.flush()
    assert table.path.read_bytes() == before


# ------------------------------------------------------------------------------------------------------
# readers

LINE = {
    "an extra cell": (
        lambda line: line + b",7",
        "line 54: it has 7 cells, but the table has 6 columns",
    ),
    "a cell too few": (lambda line: line.rsplit(b",", 1)[0], "line 54: it has 5 cells"),
    "a letter in a number": (
        lambda line: line[:-3] + b"x" + line[-2:],
        "in the column kinetic_energy is not a number",
    ),
    "NULs": (lambda line: line[:-8] + bytes(8), "line 54: it contains NUL bytes"),
    "an empty line": (lambda line: b"", "line 54: it has 1 cells"),
    "a step that is no integer": (
        lambda line: b"1" + line.replace(b",", b".5,", 1),
        "in the column step is not a step",
    ),
    "two points": (lambda line: line + b".1", "in the column kinetic_energy is not a number"),
}


@pytest.mark.parametrize("known", [True, False], ids=["digests", "no digests"])
@pytest.mark.parametrize("damage", LINE)
def test_readers_name_the_line(copy, capsys, damage, known):
    change, said = LINE[damage]
    path = copy / files.ROWS
    lines = path.read_bytes().split(b"\n")
    lines[53] = change(lines[53])
    path.write_bytes(b"\n".join(lines))
    if not known:
        shutil.rmtree(copy / files.CHECKPOINTS)
    assert analyse.main([str(copy), "--no-figures"]) == 2
    error = capsys.readouterr().err
    assert "run.csv, line 54: " in error
    assert said in error
    assert error.count("\n") == 1


def test_a_digit_is_told_by_the_lines_that_share_its_digest(copy):
    path = copy / files.ROWS
    content = bytearray(path.read_bytes())
    place = content.rindex(b"7", 0, checkpoint.known(copy, files.ROWS).size)
    content[place] = ord("3")
    path.write_bytes(content)
    assert "run.csv, lines 1 to " in refused(copy, files.ROWS)
    assert "they differ from what the run wrote" in refused(copy, files.ROWS)


def test_a_table_that_is_shorter_than_its_checkpoint_is_read_and_said(copy):
    path = copy / files.ROWS
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(
        ShorterTable, match=r"run.csv is shorter than its checkpoint of step 399: [\d,]+ bytes of"
    ):
        assert 200 < len(RunFiles.open(copy).run_info) < 600
    with pytest.raises(InputError, match="does not match the checkpoint"):
        known = checkpoint.known(copy, files.ROWS)
        CsvTable.reopen(path, COLUMNS[files.ROWS], known.size, digest=known.digest)


def test_rows_after_the_checkpoint_and_half_a_line_are_a_run_that_goes_on(copy):
    path = copy / files.ROWS
    path.write_bytes(path.read_bytes() + b"9999,0,1.0,0.2")
    assert len(RunFiles.open(copy).run_info) == (ROWS + 4) * WALKERS
    assert all(file.whole for file in verify(copy))


def test_folders_without_digests_are_read_and_go_on(copy):
    arrays, meta, _ = checkpoint.load(copy)
    old = {name: value for name, value in meta.items() if name in ("step", "files")}
    for _ in range(2):
        checkpoint.save(copy, arrays, old)
    assert len(RunFiles.open(copy).run_info) == (ROWS + 4) * WALKERS
    known = checkpoint.known(copy, files.ROWS)
    assert known.digest is None
    table = CsvTable.reopen(copy / files.ROWS, COLUMNS[files.ROWS], known.size, digest=None)
    assert table.digest.text() == meta["digests"][files.ROWS]
    assert all(file.whole for file in verify(copy))


@pytest.mark.parametrize("name", [files.LADDER, files.BIAS])
def test_a_table_of_the_checkpoint_before_is_right_after_a_kill(copy, name):
    """The table is written after the checkpoint; a kill between leaves the one that the checkpoint
    before knows.
    """
    arrays, meta, _ = checkpoint.load(copy)
    checkpoint.save(copy, arrays, meta | {"whole": meta["whole"] | {name: "0" * 32}})
    assert len(RunFiles.open(copy)._table(name)) == 3
    checkpoint.save(copy, arrays, meta | {"whole": meta["whole"] | {name: "1" * 32}})
    assert "from what the run wrote" in refused(copy, name)


def test_a_manifest_says_which_entry_was_changed(copy):
    path = copy / files.MANIFEST
    text = path.read_text()
    path.write_text(
        text.replace("num_steps = 400", "num_steps = 9000").replace('"a.csv"', '"b.csv"')
    )
    assert RunFiles.open(copy).manifest["options"]["num_steps"] == 9000
    assert manifest.changes(copy, manifest.read(copy)) == []
    path.write_text(text.replace("step_size = 0.01", "step_size = 0.07"))
    said = "manifest.toml was changed after its checkpoint: step_size = 0.07 (before: 0.01)."
    assert manifest.changes(copy, manifest.read(copy)) == [said]
    assert said in "\n".join(file.sentence for file in verify(copy) if not file.whole)
    (copy / files.LADDER).unlink()
    assert said in summary_lines(RunFiles.open(copy))[0]
    path.write_text(text[: text.index("[parameters]")])
    with pytest.raises(InputError, match=r"manifest.toml is incomplete: parameters is missing"):
        RunFiles.open(copy)


# ------------------------------------------------------------------------------------------------------
# whole folders

DAMAGE = {
    "empty": lambda content, noise: b"",
    "half": lambda content, noise: content[: len(content) // 2],
    "one byte less": lambda content, noise: content[:-1],
    "NULs": lambda content, noise: (
        content[: len(content) // 3] + bytes(64) + content[len(content) // 3 + 64 :]
    ),
    "a flipped bit": lambda content, noise: flipped(content, noise),
    "a line twice": lambda content, noise: content[:40] + content,
    "another file": lambda content, noise: bytes(range(256)) * 4,
}
SPARE = {("trajectory.h5", name) for name in ("a flipped bit", "one byte less", "NULs")}
SPARE |= {("manifest.toml", "one byte less")}
"""Bytes of an HDF5 file that may hold nothing, and an end of line that TOML does not need."""


def flipped(content: bytes, noise: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[int(noise.integers(len(content) * 3 // 4))] ^= 1 << int(noise.integers(7))
    return bytes(changed)


def names_of(folder) -> list[str]:
    """The files in a run folder that are a run's."""
    return [file.name for file in files.FILES if (folder / file.name).is_file()]


@pytest.mark.parametrize("kind", ["csv", "h5"])
def test_no_damage_of_any_file_is_silent_and_none_a_traceback(made, tmp_path, kind):
    """Every file of the folder in every way: readers refuse or warn, and `verify` names the
    file.
    """
    noise, tried = np.random.default_rng(4), 0
    names = [
        name
        for name in names_of(made[kind])
        if name not in (files.NOISE, f"checkpoint/{files.PREVIOUS}")
    ]
    assert len(names) == 10
    names = ["trajectory.h5"] if kind == "h5" else names
    for name in names:
        content = (made[kind] / name).read_bytes()
        for damage, change in DAMAGE.items():
            folder = Path(shutil.copytree(made[kind], tmp_path / f"{tried}"))
            tried += 1
            (folder / name).write_bytes(change(content, noise))
            cut_after_checkpoint = damage == "one byte less" and name in (
                *COLUMNS,
                *files.TRAJECTORIES.values(),
            )
            if (name, damage) in SPARE or cut_after_checkpoint:
                continue
            assert name.split("/")[-1] in refused(folder, name), (name, damage)
            assert [file.name for file in verify(folder) if not file.whole] == [name], (
                name,
                damage,
            )
    assert tried == len(DAMAGE) * len(names)


def test_the_command_checks_folders(made, copy, capsys):
    assert compare.main(["--verify", str(made["h5"])]) == 0
    lines = [
        line for line in capsys.readouterr().out.splitlines() if not line.startswith("Reading ")
    ]
    assert lines[-1] == "All files are intact."
    assert "ok  run.csv: 808 rows of numbers, the same as at step 399." in lines
    assert len(lines) == 1 + len(names_of(made["h5"]))
    (copy / files.LADDER).unlink()
    (copy / files.AVERAGES).unlink()
    assert compare.main(["--verify", str(made["h5"]), str(copy)]) == 1
    out = capsys.readouterr().out
    for name in (files.AVERAGES, files.LADDER):
        assert f"{copy}: BAD {name}: It is missing." in out
    assert (
        out.splitlines()[-1] == f"2 of {2 * (len(lines) - 1)} files differ from what the run wrote."
    )
    assert compare.main(["--verify", str(copy), "--quiet"]) == 1
    assert capsys.readouterr().out == ""
    for argv in (
        ["--verify"],
        ["--verify", str(copy), "--drop", "loss"],
        ["--verify", str(copy / "no")],
    ):
        assert compare.main(argv) == 2
        assert capsys.readouterr().err.startswith("error: ")
