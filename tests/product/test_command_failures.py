"""Whatever goes wrong in a command: one sentence, an exit status, and a log of what nobody
foresaw.
"""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import tempfile
import types
from importlib import import_module
from pathlib import Path

import pytest

from tati_re.cli.arguments import Parser, command
from tati_re.core.errors import InputError
from tati_re.core.process import memory
from tati_re.options.flags import flag
from tati_re.options.make import OPTIONS, make_options, options_from_flags, read_toml

COMMANDS = (
    *(
        "sample",
        "optimize",
        "dataset",
        "evidence",
        "predict",
        "analyse",
        "report",
        "landscape",
        "inputspace",
    ),
    *("explore", "compare", "quickstart"),
)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder to work in, with one for temporary files in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path


def said(capsys, error: BaseException, *argv: str) -> tuple[int, str, str]:
    """Exit status, the sentence, and what stands before it, of a command that ends with this
    error.
    """

    def body(arguments):
        Parser(prog="tati-sample").parse_known_args(arguments)
        raise error

    status = command("tati-sample", body, argv)
    out, err = capsys.readouterr()
    before, found, sentence = err.rstrip("\n").rpartition("error: ")
    assert out == "" and found and "\n" not in sentence
    return status, sentence, before


class OpError(Exception):
    pass


class ResourceExhaustedError(OpError):
    pass


@pytest.fixture
def tensorflow(monkeypatch):
    errors = types.SimpleNamespace(OpError=OpError, ResourceExhaustedError=ResourceExhaustedError)
    monkeypatch.setitem(sys.modules, "tensorflow", types.SimpleNamespace(errors=errors))


FORESEEN = [
    (
        OSError(28, "No space left on device", "runs/a/run.csv"),
        "--output: runs/a/run.csv cannot be used: No space left on",
    ),
    (
        OSError(36, "File name too long", "b" * 300),
        f"{'b' * 77}...{'b' * 80} cannot be used: File name too long.",
    ),
    (PermissionError(13, "Permission denied", b"c"), "c cannot be used: Permission denied."),
    (OSError("HDF5 says no.\n"), "The operating system refused this (OSError: HDF5 says no)."),
    (
        MemoryError("Unable to allocate 7 GiB"),
        "Not enough memory (MemoryError: Unable to allocate",
    ),
    (MemoryError(), "Not enough memory (MemoryError). Expected: fewer"),
    (
        BrokenPipeError(32, "Broken pipe"),
        "The operating system refused this (BrokenPipeError: [Errno 32] Broken pipe).",
    ),
]


@pytest.mark.parametrize(("error", "words"), FORESEEN, ids=lambda value: type(value).__name__)
def test_what_the_system_refuses_is_one_sentence_and_status_2(capsys, here, error, words):
    status, sentence, before = said(capsys, error, "--output", "runs/a")
    assert (status, before) == (2, "") and sentence.startswith(words)
    assert not list(here.rglob("*.log"))


def test_what_tensorflow_refuses_is_one_sentence_with_a_log(capsys, tensorflow):
    status, sentence, _ = said(capsys, ResourceExhaustedError("OOM when allocating [9]"))
    assert status == 2 and sentence.startswith(
        "Not enough memory (ResourceExhaustedError: OOM when allocating [9])."
    )
    status, sentence, _ = said(capsys, OpError(f"{'x' * 400}\n[[node]]"))
    assert (
        status == 2
        and sentence.startswith("TensorFlow cannot compute this (OpError: xxx")
        and len(sentence) < 600
    )


def test_anything_else_is_status_70_with_a_log_of_traceback_and_versions(capsys, here):
    status, sentence, before = said(capsys, ValueError("two\nlines."), "--seed", "3")
    log = next(here.rglob("*.log"))
    assert status == 70 and before == ""
    assert sentence == f"Internal error (ValueError: two lines). The traceback is in {log}."
    text = log.read_text()
    assert log.parent.name == "temporary" and len(log.stem) > len("tati_re-error-")
    assert (
        text.startswith("tati-sample --seed 3\ntati_re ")
        and "keras" in text
        and text.endswith("ValueError: two\nlines.\n")
    )


def test_the_log_lies_in_the_run_folder_that_is_named(capsys, here):
    (here / "run").mkdir()
    assert str(here / "temporary") in said(capsys, KeyError("x"), "--output", "run")[1], (
        "no run yet: it would be in the way"
    )
    (here / "run" / "manifest.toml").touch()
    for argv in (["--resume", "run"], ["--resume=run"], ["run"]):
        assert (
            f"The traceback is in {here}/run/tati_re-error-"
            in said(capsys, KeyError("x"), *argv)[1]
        )


def test_a_log_that_cannot_be_written_costs_no_sentence(capsys, here, monkeypatch):
    monkeypatch.setattr(
        tempfile, "mkstemp", lambda *_, **__: (_ for _ in ()).throw(OSError(28, "full"))
    )
    assert said(capsys, KeyError("x")) == (70, "Internal error (KeyError: 'x').", "")


def test_debug_shows_the_traceback(capsys):
    for error, status in ((InputError("seed is bad."), 2), (KeyError("x"), 70)):
        found, _, before = said(capsys, error, "--debug")
        assert found == status and before.startswith("Traceback") and "raise error" in before


def test_control_characters_of_a_name_do_not_reach_the_terminal(capsys):
    assert said(capsys, InputError("no run \x1b[2J.")) == (2, r"no run \x1b[2J.", "")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_goes_through_the_same_door(name, capsys):
    module = import_module(f"tati_re.cli.{name}")
    with pytest.raises(SystemExit, match="0"):
        module.main(["--help"])
    assert "--debug" in capsys.readouterr().out
    assert module.main(["--no-such-flag"]) == 2
    assert capsys.readouterr().err.startswith("error: --no-such-flag is not a known option of ")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", [["--help"], ["--help-all"], ["--print-config"]])
def test_a_reader_that_leaves_is_no_error(argv, unbuffered):
    """As `tati-sample --print-config | head -1`: silent, with the status that a shell gives to a
    command so ended.
    """
    own = os.environ | {"PYTHONUNBUFFERED": unbuffered}
    read, write = os.pipe()
    os.close(read)
    line = [sys.executable, "-m", "tati_re.cli.sample", *argv]
    try:
        root = Path(__file__).parents[2]
        done = subprocess.run(
            line, stdout=write, stderr=subprocess.PIPE, text=True, cwd=root, env=own
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


# Values of options


BAD_VALUES = {
    "num_walkers": 2**63,
    "record_every": 10**30,
    "trajectory_every": 2**64,
    "seed": 10**6000,
    "hidden": [3, 2**63],
    "prior_std": 1e300,
    "prior_scale": {"*/bias": 1e30},
    "step_size": 1e-320,
    "friction": 1e300,
    "temperature": 1e-40,
    "learning_rate": 1e-45,
    "lower_wall": -1e38,
    "stages": ["10:1e-40"],
    "temperatures": [1.0, 1e20],
    "output": "a\0b",
    "data": ["a.csv", "\udc80.csv"],
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_the_run_cannot_hold_is_refused_by_name(name):
    with pytest.raises(
        InputError, match=f"^{name} is out of range. Received: .* Expected: "
    ) as error:
        make_options({name: BAD_VALUES[name]})
    assert len(str(error.value)) < 400


def test_the_precision_decides_what_a_run_can_hold():
    wide = {"step_size": 1e-100, "prior_std": 1e100}
    assert make_options(wide, dtype="float64").step_size == 1e-100
    with pytest.raises(InputError, match="float32"):
        make_options(wide)
    far = {
        "max_time": 1e300,
        "checkpoint_seconds": 1e300,
        "memory_limit": 1e30,
        "friction": 0.0,
        "seed": 2**63 - 1,
    }
    assert make_options(far).max_time == 1e300, "seconds enter no arithmetic of the run"


TOML = {
    "nesting": b"hidden = " + b"[" * 100_000,
    "another encoding": b'output = "\xff"',
    "an integer of 5,000 digits": b"seed = " + b"9" * 5000,
    "zeros": b"\0" * 100,
    "a wrong type": b'seed = "1"',
    "a date": b"seed = 2020-01-01",
    "a large integer": b"num_walkers = 99999999999999999999",
    "infinity": b"step_size = inf",
    "a NUL character": b'output = "a\\u0000b"',
    "a table": b"[output]\na = 1\n",
}


@pytest.mark.parametrize("case", TOML)
def test_a_bad_file_of_options_is_one_sentence(here, case):
    (here / "a.toml").write_bytes(TOML[case])
    with pytest.raises(InputError, match=r"^a.toml"):
        read_toml("a.toml")


@pytest.mark.parametrize("path", [".", "no.toml", "b" * 300, "/dev/zero"])
def test_what_is_no_file_of_options_is_one_sentence(path):
    with pytest.raises(InputError, match="TOML"):
        read_toml(path)


def test_an_empty_file_of_options_has_none():
    assert read_toml("/dev/null") == {}


def test_a_sentence_inside_of_another_says_once_what_is_expected():
    inner = InputError("model is missing.", 3, "a file")
    assert (
        str(InputError(f"run: {inner}", expected="model=..."))
        == "run: model is missing. Received: 3. Expected: model=...."
    )


# Memory


@pytest.fixture
def system(here):
    """`system(available, groups)`: what a system says of its memory, in bytes, and of control
    groups by their folder: limit, use and pages of files.
    """

    def say(available: int, groups: dict[str, tuple] | None = None):
        for path, (limit, used, cached) in (groups or {}).items():
            folder, version = here / "groups" / path, path.startswith("memory")
            folder.mkdir(parents=True, exist_ok=True)
            names = ("limit_in_bytes", "usage_in_bytes") if version else ("max", "current")
            for name, value in zip(names, (limit, used), strict=True):
                (folder / f"memory.{name}").write_text(f"{value}\n")
            (folder / "memory.stat").write_text(f"inactive_file {cached}\nanon 3\n")
        (here / "cgroup").write_text("4:memory:/job\n3:cpu:/\n0::/batch/step\n")
        return min([available, *memory._of_groups(here / "groups", here / "cgroup")])

    return say


def test_free_memory_is_what_the_system_and_the_job_of_a_queue_leave(system):
    assert system(900) == 900
    assert system(900, {"batch": (800, 300, 100)}) == 600, (
        "of the job's step, and of what it lies in"
    )
    assert system(900, {"batch/step": ("max", 300, 100)}) == 600, "no limit"
    assert system(900, {"memory/job": (500, 100, 0)}) == 400, "version 1"
    assert memory.free_bytes() > 1e6, "of this system"


def test_what_does_not_fit_is_refused_with_the_estimate(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda: 2e9)
    memory.check_free("num_walkers", 3, 1.9e9, "3 walkers")
    with pytest.raises(InputError) as error:
        memory.check_free("num_walkers", 3, 2.1e9, "3 walkers")
    words = (
        "num_walkers: 3 walkers need about 2.1 GB of memory. Received: 3. Expected: "
        "a size that fits into the 2 GB of free memory"
    )
    assert str(error.value).startswith(words)
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    memory.check_free("num_walkers", 3, 1e30, "3 walkers")


REFUSED = {
    "more points than fit": (
        "dataset",
        ["two_clusters", "--num-examples", "100000000000"],
        "--num-examples: 100,000,",
    ),
    "more dimensions than fit": (
        "dataset",
        ["gaussian", "--num-dimensions", "1000000"],
        "--num-dimensions: matrices of",
    ),
    "more points than fit, as TATi": (
        "dataset",
        ["--data_type", "1", "--dimension", "9" * 12],
        "--dimension: 999,",
    ),
    "no noise, as TATi": (
        "dataset",
        ["--data_type", "1", "--noise", "nan"],
        "--noise is out of range. Received: nan.",
    ),
    "a long integer": (
        "dataset",
        ["two_clusters", "--num-examples", "9" * 25],
        "--num-examples is out of range.",
    ),
    "no number": (
        "dataset",
        ["two_clusters", "--noise", "nan"],
        "--noise is out of range. Received: nan.",
    ),
    "a long cell": (
        "dataset",
        ["--inspect", "cell.csv"],
        "cell.csv has a line that is not a table row: field larger",
    ),
    "a long name": ("dataset", ["--inspect", f"{'d' * 300}.csv"], "data: File name too long."),
    "a folder of options": ("sample", ["--config", "."], ". cannot be read: Is a directory."),
    "a tiny step": (
        "sample",
        ["--data", "digits", "--step-size", "1e-320"],
        "--step-size is out of range. Received: 1e-",
    ),
    "a tiny step by TATi's name": (
        "sample",
        ["--data", "digits", "--step_width", "1e-50"],
        "--step_width is out of range.",
    ),
    "a far integer": (
        "optimize",
        ["--data", "digits", "--record-every", "9" * 25],
        "--record-every is out of range.",
    ),
    "an endless trajectory": (
        "sample",
        ["--num-leapfrog-steps", "9" * 15],
        "--num-leapfrog-steps is out of range.",
    ),
    "an empty name": ("sample", ["--data", "digits", "--output", ""], "--output is out of range."),
    "many points of a path": (
        "evidence",
        ["--data", "digits", "--evidence-nodes", "9" * 9],
        "--evidence-nodes is out of",
    ),
    "no part": (
        "predict",
        ["run", "--interval", "nan"],
        "--interval is out of range. Received: nan.",
    ),
    "a cold temperature": (
        "analyse",
        ["run", "--modules", "reweighting", "--temperatures", "1e-300"],
        "--temperatures is",
    ),
    "a far row": ("analyse", ["run", "--burnin", "9" * 25], "--burnin is out of range."),
    "a seed below 0": ("predict", ["run", "--seed", "-1"], "--seed is out of range. Received: -1."),
    "a step of nothing": (
        "inputspace",
        ["run", "--parameters-step", "3"],
        "--parameters-step needs --parameters.",
    ),
    "a step of no file": (
        "landscape",
        ["run", "--parameters-step", "3"],
        "--parameters-step needs --parameters.",
    ),
    "another seed": ("landscape", ["run", "--seed", "9" * 25], "--seed is out of range."),
    "no heat": ("explore", ["run", "--heats", "1,nan"], "--heats is out of range. Received: nan."),
    "a far seed": ("explore", ["run", "--seed", "9" * 25], "--seed is out of range."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_fuzzed_words_are_refused_by_the_name_that_was_typed(case, here, capsys):
    (here / "cell.csv").write_text("a,b,y\n1,2,0\n" + "x" * 300_000 + ",2,1\n")
    command, argv, words = REFUSED[case]
    assert import_module(f"tati_re.cli.{command}").main(argv) == 2
    err = capsys.readouterr().err
    assert (
        err.startswith(f"error: {words}")
        and err.count("\n") == 1
        and err.count("Expected:") <= 1
        and len(err) < 900
    )
    assert not (here / "runs").exists()


def test_a_table_that_would_not_fit_is_refused_before_it_is_read(here, monkeypatch):
    from tati_re.data.loading import load_data

    (here / "a.csv").write_text("a,b,y\n" + "1,2,0\n" * 1000)
    assert load_data("a.csv").num_examples == 800
    monkeypatch.setattr(memory, "free_bytes", lambda: 5e4)
    with pytest.raises(InputError, match=r"^data: 1,001 examples need about 6.01e-05 GB of memory"):
        load_data("a.csv")


def test_a_page_holds_the_words_of_its_template_where_a_run_has_them():
    from tati_re.report.html import document

    page = document("BODY & STYLE", "<p>TITLE STYLE BODY</p>")
    assert "<title>BODY &amp; STYLE</title>" in page
    assert page.count("<p>TITLE STYLE BODY</p>") == 1 and page.count("<style>") == 1


@pytest.mark.parametrize(
    ("content", "received"), [("", "an empty file"), ("a = 1", "no schema_version next to a")]
)
def test_an_empty_manifest_is_called_so(here, capsys, content, received):
    (here / "manifest.toml").write_text(content)
    assert import_module("tati_re.cli.report").main(["."]) == 2
    words = f"error: The file manifest.toml is not the manifest of a run. Received: {received}. Expected: "
    assert capsys.readouterr().err.startswith(words)


ODD = [
    *(
        None,
        True,
        -1,
        2**63,
        10**5000,
        -1e300,
        1e-320,
        float("nan"),
        "",
        "x" * 300,
        "\0",
        "1e-320",
        "9" * 5000,
        "=",
        "a=b",
    ),
    *(
        [],
        [[1]],
        [None],
        [10**5000],
        ["\0"],
        [{}],
        {},
        {"a": {}},
        {"a": 1e300},
        {"\0": 1.0},
        {0: 1.0, 10**9: 1.0},
    ),
    *(
        b"\xff",
        object(),
        datetime.date(2020, 1, 1),
        1j,
        {1},
        int,
        ["1:2:3:4"],
        [{"num_steps": 2**70}],
    ),
]


@pytest.mark.parametrize("door", [make_options, options_from_flags])
def test_any_option_with_any_value_is_taken_or_refused_in_a_sentence_with_its_name(door):
    taken = 0
    for name in OPTIONS:
        for value in ODD:
            try:
                door({name: value})
                taken += 1
            except InputError as error:
                sentence = str(error)
                spelled = name if door is make_options else flag(name)
                assert spelled in sentence or "[" in sentence, (name, value, sentence)
                assert (
                    len(sentence) < 1500
                    and "\n" not in sentence
                    and sentence.count("Expected:") <= 1
                )
    assert 0 < taken < 0.5 * len(OPTIONS) * len(ODD)
