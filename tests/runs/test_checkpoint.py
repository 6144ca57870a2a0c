"""Checkpoints: what is saved comes back, damage is noticed and said, and no kill leaves a run
without one.
"""

import errno
import os
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.runs import checkpoint
from tati_re.runs.storage import StorageError


def arrays_of(step):
    random = np.random.default_rng(step)
    return {
        "state/position": random.normal(size=(3, 50)).astype(np.float32),
        "moments/m2": random.normal(size=(3, 50)),
        "moments/count": np.array(step, dtype=np.int64),
        "rung": np.arange(3, dtype=np.uint8),
        "empty": np.zeros((0, 4)),
    }


def save(folder, step):
    checkpoint.save(folder, arrays_of(step), {"step": step, "positions": {"run.csv": 100 * step}})


def check(folder, steps):
    """Loads, checks every bit, and returns the step and the note."""
    arrays, meta, note = checkpoint.load(folder)
    assert meta["step"] in steps
    expected = arrays_of(meta["step"])
    assert list(arrays) == list(expected)
    for name, values in expected.items():
        assert arrays[name].dtype == values.dtype and arrays[name].shape == values.shape
        assert arrays[name].tobytes() == values.tobytes()
    assert meta["positions"] == {"run.csv": 100 * meta["step"]}
    return meta["step"], note


def files(folder):
    return sorted(os.listdir(folder / "checkpoint"))


def test_a_flipped_bit_is_nowhere_more_than_a_damaged_checkpoint(tmp_path):
    """Also where it says that a part is encrypted."""
    for step in (1, 2):
        checkpoint.save(tmp_path, {"a": np.zeros(1)}, {"step": step})
    path = tmp_path / "checkpoint" / "current.npz"
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 3, 5):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            path.write_bytes(flipped)
            assert [meta["step"] for meta in checkpoint.metas(tmp_path)] in ([1], [2, 1])
    assert checkpoint.load(tmp_path)[1] == {"step": 1}


@pytest.mark.parametrize("meta", [None, b"{", b"[1]"])
def test_a_checkpoint_of_another_form_is_damaged(tmp_path, meta):
    checkpoint.save(tmp_path, {"a": np.zeros(1)}, {"step": 1})
    checkpoint.save(tmp_path, {"a": np.zeros(1)}, {"step": 2})
    with open(tmp_path / "checkpoint" / "current.npz", "w+b") as file:
        checkpoint._write(
            file, {} if meta is None else {checkpoint.META: np.frombuffer(meta, np.uint8)}
        )
    assert [found["step"] for found in checkpoint.metas(tmp_path)] == [1]
    assert checkpoint.load(tmp_path)[1] == {"step": 1}


def test_round_trip(tmp_path):
    save(tmp_path, 10)
    assert check(tmp_path, [10]) == (10, None)
    assert files(tmp_path) == ["current.npz"]
    save(tmp_path, 20)
    save(tmp_path, 30)
    assert check(tmp_path, [30]) == (30, None)
    assert files(tmp_path) == ["current.npz", "previous.npz"]
    with np.load(tmp_path / "checkpoint" / "previous.npz", allow_pickle=False) as plain:
        assert plain["moments/count"] == 20
    with zipfile.ZipFile(tmp_path / "checkpoint" / "current.npz") as archive:
        assert {entry.compress_type for entry in archive.infolist()} == {zipfile.ZIP_STORED}


def test_meta_is_what_json_can_say(tmp_path):
    meta = {
        "step": np.int64(5),
        "seconds": 0.1,
        "none": None,
        "path": tmp_path,
        "names": ("a", "β"),
    }
    checkpoint.save(tmp_path, {}, meta)
    arrays, found, _ = checkpoint.load(tmp_path)
    assert arrays == {}
    assert found == {
        "step": 5,
        "seconds": 0.1,
        "none": None,
        "path": str(tmp_path),
        "names": ["a", "β"],
    }


def test_fortran_order_and_views(tmp_path):
    values = np.asfortranarray(np.arange(12.0).reshape(3, 4))
    checkpoint.save(tmp_path, {"a": values, "b": values[::2, 1:]}, {})
    arrays, _, _ = checkpoint.load(tmp_path)
    assert np.array_equal(arrays["a"], values) and np.array_equal(arrays["b"], values[::2, 1:])


@pytest.mark.parametrize("values", [np.array([{}]), np.array(["text"])])
def test_only_numbers(tmp_path, values):
    with pytest.raises(TypeError, match="'bad'"):
        checkpoint.save(tmp_path, {"bad": values}, {})
    assert not (tmp_path / "checkpoint").exists()


def test_no_checkpoint(tmp_path):
    with pytest.raises(InputError, match="has no checkpoint"):
        checkpoint.load(tmp_path)


def test_missing_current_falls_back(tmp_path):
    save(tmp_path, 10)
    save(tmp_path, 20)
    (tmp_path / "checkpoint" / "current.npz").unlink()
    _, note = check(tmp_path, [10])
    assert (
        note
        == "The checkpoint current.npz is missing; the previous checkpoint, of step 10, is used."
    )


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 500, -1])
def test_truncated_falls_back_and_says_so(tmp_path, size):
    save(tmp_path, 10)
    save(tmp_path, 20)
    path = tmp_path / "checkpoint" / "current.npz"
    path.write_bytes(path.read_bytes()[:size])
    step, note = check(tmp_path, [10])
    assert note.startswith("The checkpoint current.npz is damaged") and note.endswith(
        "of step 10, is used."
    )
    assert step == 10


def test_every_flipped_bit_is_noticed(tmp_path):
    save(tmp_path, 10)
    save(tmp_path, 20)
    path = tmp_path / "checkpoint" / "current.npz"
    content = path.read_bytes()
    places = np.random.default_rng(0).integers(0, 8 * len(content), 200)
    for place in [0, 8 * len(content) - 1, *places.tolist()]:
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        _, note = check(tmp_path, [10])
        assert "damaged" in note
    path.write_bytes(content)
    assert check(tmp_path, [20]) == (20, None)


def test_both_damaged(tmp_path):
    save(tmp_path, 10)
    save(tmp_path, 20)
    for name in ("current.npz", "previous.npz"):
        (tmp_path / "checkpoint" / name).write_bytes(b"nothing")
    with pytest.raises(
        InputError, match=r"can be used: current.npz is damaged .*; previous.npz is damaged"
    ) as caught:
        checkpoint.load(tmp_path)
    assert "partial" not in str(caught.value)


class Kill(BaseException):
    """Stands for a kill between two system calls."""


@pytest.mark.parametrize(
    "before", ["none", "one", "two", "current damaged", "between renames", "both bad but aside"]
)
def test_a_kill_between_any_two_system_calls(tmp_path, monkeypatch, before):
    start = tmp_path / "start"
    start.mkdir()
    steps = {"none": [], "one": [10]}.get(before, [10, 20])
    for step in steps:
        save(start, step)
    where = start / "checkpoint"
    good = steps[-1:]
    if before == "current damaged":
        (where / "current.npz").write_bytes(b"nothing")
        good = [10]
    if before in ("between renames", "both bad but aside"):
        (where / "current.npz").rename(where / checkpoint.ASIDE)
    if before == "both bad but aside":
        (where / "previous.npz").write_bytes(b"nothing")
    calls = {"left": 0}

    def mortal(function):
        def call(*arguments, **keywords):
            calls["left"] -= 1
            if calls["left"] < 0:
                raise Kill
            return function(*arguments, **keywords)

        return call

    for number in range(100):
        folder = tmp_path / str(number)
        shutil.copytree(start, folder)
        calls["left"] = number
        with monkeypatch.context() as patch:
            for name in ("fsync", "replace"):
                patch.setattr(os, name, mortal(getattr(os, name)))
            patch.setattr(np.lib.format, "write_array", mortal(np.lib.format.write_array))
            try:
                save(folder, 30)
                killed = False
            except Kill:
                killed = True
        if good or not killed:
            check(folder, [*good, 30] if killed else [30])
            # The next save and load after the kill work as ever.
            save(folder, 40)
            assert check(folder, [40]) == (40, None)
        if not killed:
            break
    assert number >= 8


WRITER = """
import sys
import numpy as np
from tati_re.runs import checkpoint
step = int(sys.argv[2])
print("ready", flush=True)
while True:
    step += 1
    checkpoint.save(sys.argv[1], {"a": np.full(step * 997 % 50_000, step), "b": np.array(step)}, {"step": step})
    print(step, flush=True)
"""


def test_kill_at_random_instants(tmp_path):
    random = np.random.default_rng(0)
    saved = 0
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(saved)],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(3):  # ready, and two checkpoints, however slow the machine is
            writer.stdout.readline()
        time.sleep(random.uniform(0, 0.02))
        writer.kill()
        lines = writer.communicate()[0].decode().split("\n")[:-1]
        saved = int(lines[-1]) if lines else saved + 2
        arrays, meta, _ = checkpoint.load(tmp_path)
        assert meta["step"] >= saved
        assert np.array_equal(arrays["a"], np.full(meta["step"] * 997 % 50_000, meta["step"]))
        saved = meta["step"]
    assert saved >= 40


def test_full_disk_keeps_the_old_ones(tmp_path, monkeypatch):
    save(tmp_path, 10)
    save(tmp_path, 20)

    def refuse(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with (
        monkeypatch.context() as patch,
        pytest.raises(StorageError, match=r"current\.npz: No space left on device"),
    ):
        patch.setattr(np.lib.format, "write_array", refuse)
        save(tmp_path, 30)
    assert check(tmp_path, [20]) == (20, None)
    save(tmp_path, 40)
    assert check(tmp_path, [40]) == (40, None)


def test_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Not a directory"):
        save(tmp_path / "file", 10)

    def refuse(*_):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(StorageError, match="Read-only file system"):
        save(tmp_path, 10)
