"""One writer a folder: the second is refused by host and process, a dead one stands in nobody's
way.
"""

import contextlib
import errno
import json
import multiprocessing
import os
import platform
import re
import signal
import threading

import pytest

from tati_re.core.errors import InputError
from tati_re.runs import files, run_folder
from tati_re.runs.lock import entries, one_writer, writing
from tati_re.runs.run import RunFiles
from tati_re.runs.specification import open_folder
from tati_re.runs.storage import StorageError

OTHER = multiprocessing.get_context("forkserver")
"""Not by fork: other tests of this process may have threads."""


def hold(folder, ready):
    with writing(folder):
        ready.set()
        signal.pause()


@pytest.fixture
def holder(tmp_path):
    """Starts a process that writes to tmp_path / "a" until it is killed."""
    started = []

    def start():
        ready = OTHER.Event()
        process = OTHER.Process(target=hold, args=(tmp_path / "a", ready))
        process.start()
        started.append(process)
        assert ready.wait(30)
        return process

    yield start
    for process in started:
        process.kill()
        process.join()


def refused(folder, process):
    where = rf"process {process} on {platform.node()}\."
    what = rf"^Another process is writing to the folder {folder}\. Received: {where}"
    with pytest.raises(InputError, match=what), writing(folder):
        pytest.fail("two writers")


def test_a_second_process_is_refused_until_the_first_dies(holder, tmp_path):
    first = holder()
    (tmp_path / "a/run.csv").write_text("rows")
    before = {name: (tmp_path / "a" / name).read_bytes() for name in os.listdir(tmp_path / "a")}
    for _ in range(3):
        refused(tmp_path / "a", first.pid)
    assert {
        name: (tmp_path / "a" / name).read_bytes() for name in os.listdir(tmp_path / "a")
    } == before
    os.kill(first.pid, signal.SIGKILL)
    first.join()
    assert (tmp_path / "a" / files.LOCK).exists(), "a killed writer cannot remove it"
    with writing(tmp_path / "a"):
        assert json.loads((tmp_path / "a" / files.LOCK).read_text())["process"] == os.getpid()
    assert os.listdir(tmp_path / "a") == ["run.csv"]


def test_the_same_process_is_refused_too(tmp_path):
    with writing(tmp_path / "a"), writing(tmp_path / "b"):
        refused(tmp_path / "a", os.getpid())
        thread = threading.Thread(target=refused, args=(tmp_path / "b", os.getpid()))
        thread.start()
        thread.join()
        (tmp_path / "link").symlink_to("a")
        refused(tmp_path / "link", os.getpid())
    assert os.listdir(tmp_path) == ["link"], "folders that stay empty are removed"


def count(folder):
    done = 0
    while done < 50:
        with contextlib.suppress(InputError), writing(folder):
            number = int((folder / "count").read_text())
            (folder / "count").write_text(str(number + 1))
            done += 1


def test_of_many_writers_at_once_one_is_in(tmp_path):
    """Each adds 1 to a number in a file 50 times; the lock's file is removed and made again all the
    while.
    """
    (tmp_path / "a").mkdir()
    (tmp_path / "a/count").write_text("0")
    how = {"target": count, "args": (tmp_path / "a",)}
    counting = [OTHER.Process(**how) for _ in range(3)] + [
        threading.Thread(**how) for _ in range(2)
    ]
    for one in counting:
        one.start()
    for one in counting:
        one.join(60)
    assert (tmp_path / "a/count").read_text() == "250"


def test_a_start_that_was_killed_does_not_block_the_same_command(holder, tmp_path):
    process = holder()
    (tmp_path / "a" / files.START / "checkpoint").mkdir(parents=True)
    (tmp_path / "a" / files.START / "model.keras").write_text("half")
    refused(tmp_path / "a", process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    for _ in range(2):  # nor does the one after it that is refused for another reason
        with pytest.raises(ZeroDivisionError), writing(tmp_path / "a"):
            raise ZeroDivisionError
    with writing(tmp_path / "a"):
        run_folder.prepare(tmp_path / "a")
        assert entries(tmp_path / "a") == []
    (tmp_path / "b" / files.START).mkdir(parents=True)
    (tmp_path / "b/notes.txt").touch()
    with pytest.raises(InputError, match="not empty"):
        run_folder.prepare(tmp_path / "b")


def test_an_overwrite_keeps_the_lock(tmp_path):
    with writing(tmp_path / "a"):
        (tmp_path / "a/run.csv").touch()
        run_folder.prepare(tmp_path / "a", overwrite=True)
        assert os.listdir(tmp_path / "a") == [files.LOCK]
        assert open_folder(tmp_path / "a", "b.toml", {"x": 1}, "thing") is None, (
            "a lock alone makes no folder full"
        )


@pytest.mark.parametrize(
    "text", ["", "{", "[1]", '{"host": "a\\u001b[2J", "process": 1}', '{"process": "x"}', "\0" * 9]
)
def test_what_the_lock_says_may_be_anything(tmp_path, text):
    with writing(tmp_path / "a"):
        (tmp_path / "a" / files.LOCK).write_text(text)
        with (
            pytest.raises(InputError, match="process unknown on an unknown host"),
            writing(tmp_path / "a"),
        ):
            pass
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / files.LOCK).write_text(text)
    with writing(tmp_path / "a"):
        assert json.loads((tmp_path / "a" / files.LOCK).read_text())["process"] == os.getpid()


def test_a_link_in_its_place_is_not_followed(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "a" / files.LOCK).symlink_to(tmp_path / "mine")
    with pytest.raises(StorageError, match=r"^Cannot write .*/a: "), writing(tmp_path / "a"):
        pass
    assert (tmp_path / "mine").read_text() == "mine"


def test_an_output_that_is_a_link_to_nowhere_is_said_to_be_one(tmp_path):
    (tmp_path / "run").symlink_to(tmp_path / "gone")
    sentence = (
        f"The folder {tmp_path}/run is a link to a missing target. Received: {tmp_path}/gone."
    )
    with pytest.raises(InputError, match=re.escape(sentence)), writing(tmp_path / "run"):
        pass


def test_where_nothing_can_be_locked_it_is_said_once_and_goes_on(tmp_path, monkeypatch):
    def flock(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    why = r"a cannot be locked \(No locks available\): a second process could write"
    with pytest.warns(UserWarning, match=why) as said, writing(tmp_path / "a"):
        assert entries(tmp_path / "a") == [] and os.listdir(tmp_path / "a") == [files.LOCK]
    assert len(said) == 1
    monkeypatch.setitem(__import__("sys").modules, "fcntl", None)
    with pytest.warns(UserWarning, match="no flock on this system"), writing(tmp_path / "a"):
        pass
    assert not (tmp_path / "a").exists()


def test_nothing_is_made_of_what_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with writing(None), writing(tmp_path / "none", new=False), writing(tmp_path / "file"):
        pass
    assert os.listdir(tmp_path) == ["file"]


def test_functions_lock_what_they_write(tmp_path):
    @one_writer
    def function(number, *, output=None):
        if output is not None:
            refused(output, os.getpid())
        return number + 1

    assert function(1) == 2 and function(2, output=tmp_path / "a") == 3


def test_a_lock_of_another_user_is_named(tmp_path, monkeypatch):
    """The folder of a group: others may write there, and not to the lock that one of them made."""
    (tmp_path / files.LOCK).write_text('{"host": "far", "process": 42}')
    opened = os.open

    def refused(path, flags, *mode, **others):
        if flags & os.O_RDWR:
            raise PermissionError(13, "Permission denied", str(path))
        return opened(path, flags, *mode, **others)

    monkeypatch.setattr(os, "open", refused)
    owner = (tmp_path / files.LOCK).owner()
    with (
        pytest.raises(
            InputError, match=rf"another user\. Received: user {owner}, process 42 on far"
        ),
        writing(tmp_path),
    ):
        pass
    (tmp_path / files.LOCK).unlink()
    with pytest.raises(InputError, match="Permission denied"), writing(tmp_path):
        pass


def test_a_folder_whose_name_is_not_utf_8(tmp_path):
    folder = tmp_path / os.fsdecode(b"a\xff")
    folder.mkdir()
    with pytest.raises(InputError, match=r"is not in UTF-8\. Received: \$'.*a\\xff'"):
        RunFiles.open(folder)


def test_a_name_that_is_too_long(tmp_path):
    with pytest.raises(InputError, match="too long"), writing(tmp_path / ("x" * 5_000)):
        pass
