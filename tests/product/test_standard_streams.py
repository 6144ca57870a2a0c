"""A closed, missing or full standard output never ends a run."""

import errno
import importlib
import io
import os
import subprocess
import sys

import pytest

import tati_re
from tati_re.cli import sample
from tati_re.cli.arguments import command
from tati_re.cli.tati import COMMANDS
from tati_re.core.process.standard_streams import LenientStream, open_missing
from tati_re.engine.progress import make_progress

SYSTEM = {"data": "two_clusters", "hidden": [2], "seed": 1, "execution": "eager"}
STEPS = {"sampler": "BAOAB", "step_size": 1e-4, "num_steps": 30, "record_every": 10}
FLAGS = [
    "--data",
    "two_clusters",
    "--hidden",
    "2",
    "--seed",
    "1",
    "--execution",
    "eager",
    "--sampler",
    "BAOAB",
]
FLAGS += ["--step-size", "1e-4", "--num-steps", "30", "--record-every", "10"]


class Full(io.StringIO):
    """A stream on a full disk, or a pipe without a reader."""

    def __init__(self, number=errno.ENOSPC):
        super().__init__()
        self.number, self.tries = number, 0

    def write(self, text):
        self.tries += 1
        raise OSError(self.number, os.strerror(self.number))


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


STREAMS = {
    "full": Full,
    "no reader": lambda: Full(errno.EPIPE),
    "bad descriptor": lambda: Full(errno.EBADF),
    "closed": closed,
    "missing": lambda: None,
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    return tati_re.Simulation(**SYSTEM, verbose=0).sample(**STEPS, output=str(folder))


@pytest.mark.parametrize("broken", STREAMS)
@pytest.mark.parametrize("verbose", [0, 1, 2])
def test_a_run_in_python_goes_on(broken, verbose, monkeypatch, tmp_path, whole):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", STREAMS[broken]())
        patch.setattr(sys, "stderr", STREAMS[broken]())
        sim = tati_re.Simulation(**SYSTEM, verbose=verbose)
        run = sim.sample(**STEPS, output=str(tmp_path / "run"))
        sim.fit(num_steps=3)
    assert run.exit_status == 0
    assert (run.folder / "run.csv").read_bytes() == (whole.folder / "run.csv").read_bytes()


@pytest.mark.parametrize("broken", STREAMS)
def test_a_command_that_makes_a_run_goes_on(broken, monkeypatch, tmp_path, whole):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", STREAMS[broken]())
        patch.setattr(sys, "stderr", STREAMS[broken]())
        streams = sys.stdout, sys.stderr
        assert sample.main([*FLAGS, "--output", str(tmp_path / "run")]) == 0
        assert (sys.stdout, sys.stderr) == streams
    found = (tmp_path / "run" / "run.csv").read_bytes()
    assert found == (whole.folder / "run.csv").read_bytes()


@pytest.mark.parametrize("stream", [1, 2])
def test_a_run_goes_on_where_one_of_the_two_is_full(stream, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        patch.setattr(sys, {1: "stdout", 2: "stderr"}[stream], Full())
        assert sample.main([*FLAGS, "--output", str(tmp_path / "run")]) == 0


@pytest.mark.parametrize(
    ("broken", "status", "said"),
    [
        ("full", 74, "error: Standard output cannot be written: No space left on device.\n"),
        ("bad descriptor", 74, "error: Standard output cannot be written: Bad file descriptor.\n"),
        ("no reader", 141, ""),
        ("closed", 0, ""),
        ("missing", 0, ""),
    ],
)
def test_a_result_that_cannot_be_printed_is_an_error(broken, status, said, monkeypatch, capsys):
    def body(argv):
        for line in range(1_000):
            print(line)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", STREAMS[broken]())
        assert command("tati-compare", body, []) == status
        assert command("tati-compare", body, [], writes_files=True) == 0
    assert capsys.readouterr().err == said


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A run, its predictor and a file of inputs."""
    folder = tmp_path_factory.mktemp("files")
    sim = tati_re.Simulation(**SYSTEM, verbose=0)
    run = sim.sample(**STEPS, trajectory_every=5, output=str(folder / "run"))
    run.compress(members=2).export(folder / "run.tati", "tati")
    (folder / "new.csv").write_text("x1,x2\n0.5,-1\n1,2\n")
    return folder


IN_FILES = {
    "predict": ["run", "--output", "predictions"],
    "predict of a file": ["run.tati", "new.csv", "--output", "predicted"],
    "export": ["run", "--members", "2", "--output", "other.tati"],
    "analyse": ["run", "--modules", "averages", "--no-figures", "--output", "analysis"],
    "report": ["run", "--output", "report.html"],
    "landscape": ["run", "--along", "--output", "landscape"],
    "inputspace": ["run", "--range", "-1:1:3", "--no-figures", "--output", "inputspace"],
    "optimize": [*FLAGS[:8], "--num-steps", "3", "--output", "fit"],
    "dataset": ["two_clusters", "--output", "data.csv"],
    "dataset drawn": ["two_clusters", "--plot", "data.png"],
    "tati": ["predict", "run", "--output", "predictions_of_tati"],
}
SLOW = {
    "evidence": [
        *FLAGS[:6],
        *(
            "--execution",
            "graph",
            "--loss",
            "binary_crossentropy",
            "--num-steps",
            "40",
            "--evidence-nodes",
            "4",
        ),
        *("--num-leapfrog-steps", "3", "--num-walkers", "4", "--output", "evidence"),
    ],
    "explore": [
        *("run", "--leg-steps", "20", "--num-legs", "1", "--max-rounds", "1", "--num-candidates"),
        *("1", "--no-figures", "--output", "explore"),
    ],
}
PRINTED = {
    "predict": ["run.tati", "new.csv"],
    "compare": ["run", "run", "--tolerance", "1e-8"],
    "dataset": ["two_clusters"],
    "tati": ["--help"],
    "sample": ["--print-config"],
    "evidence": ["--print-config"],
    "optimize": ["--help-all"],
    "landscape": ["--help"],
}
BY_SPEED = [
    *IN_FILES.items(),
    *(pytest.param(*item, marks=pytest.mark.slow) for item in SLOW.items()),
]


def status_of(name: str, words: list[str], patch: pytest.MonkeyPatch, **streams) -> int:
    """The exit status of a command with other standard streams."""
    main = importlib.import_module(f"tati_re.cli.{name.split()[0]}").main
    with patch.context() as within:
        for stream, value in streams.items():
            within.setattr(sys, stream, value)
        try:
            return main(words)
        except SystemExit as end:
            return int(end.code or 0)


@pytest.mark.parametrize(("name", "words"), BY_SPEED, ids=lambda value: str(value)[:20])
def test_a_result_in_files_needs_no_stream(name, words, files, monkeypatch):
    """One rule for all commands: what is printed about files may be lost."""
    monkeypatch.chdir(files)
    overwrite = ["--overwrite"] if "--overwrite" in help_of(name, words) else []
    full = status_of(name, words, monkeypatch, stdout=Full(), stderr=Full())
    result = files / words[words.index("--output" if "--output" in words else "--plot") + 1]
    assert (full, result.exists()) == (0, True)
    if name not in SLOW and (overwrite or name in ("analyse", "report")):
        words = [*words, *overwrite]
        for stderr in (None, closed(), Full(errno.EBADF)):
            assert status_of(name, words, monkeypatch, stderr=stderr) == 0


def help_of(name: str, words: list[str]) -> str:
    """The help of a command, or of the one that `tati` calls."""
    if name == "tati":
        name = words[0]
    return (
        importlib.import_module(f"tati_re.cli.{name.split()[0]}").parser_of_command().format_help()
    )


@pytest.mark.parametrize(("name", "words"), PRINTED.items(), ids=lambda value: str(value)[:20])
def test_a_result_that_is_printed_needs_standard_output(name, words, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert status_of(name, words, monkeypatch, stdout=Full()) == 74
    assert capsys.readouterr().err.count("error: Standard output cannot be written: No space") == 1
    assert status_of(name, words, monkeypatch, stdout=Full(errno.EPIPE)) == 141
    for stderr in (None, closed(), Full()):
        assert status_of(name, words, monkeypatch, stderr=stderr) == 0


def test_each_command_is_among_those_whose_streams_fail():
    """`sample` and `quickstart` make runs, which are tested above."""
    tested = {name.split()[0] for name in (*IN_FILES, *SLOW, *PRINTED)} | {"sample", "quickstart"}
    assert {"optimize" if name == "fit" else name for name in COMMANDS} <= tested


def test_an_error_of_the_command_comes_first(monkeypatch, capsys):
    def body(argv):
        print("a line", flush=True)
        raise tati_re.InputError("This is wrong.")

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        assert command("tati-compare", body, []) == 2
    assert capsys.readouterr().err == "error: This is wrong.\n"


def test_the_help_is_a_result(monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", Full())
        assert sample.main(["--help"]) == 74
    assert "cannot be written" in capsys.readouterr().err


def test_a_stream_that_failed_is_left_alone():
    full = Full()
    stream = LenientStream(full)
    for _ in range(3):
        assert stream.write("abc") == 3
        stream.flush()
    assert full.tries == 1 and stream.failure.errno == errno.ENOSPC
    progress = make_progress(1, full)
    progress.message("A sentence.")
    progress.start(10)
    progress.update(5)
    progress.stop()
    assert not LenientStream(closed()).isatty()


def test_letters_that_a_stream_does_not_have_are_still_an_error():
    stream = LenientStream(io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    with pytest.raises(UnicodeEncodeError):
        stream.write("ä")


@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
@pytest.mark.parametrize("numbers", [(0,), (1,), (2,), (0, 1, 2)])
def test_no_file_takes_the_number_of_a_closed_stream(numbers, tmp_path):
    """What is written to standard error would be written into a table."""
    closing = " ".join({0: "<&-", 1: ">&-", 2: "2>&-"}[number] for number in numbers)
    code = (
        "import os, tati_re; file = open('file', 'w'); os.write(2, b'noise');"
        "file.write(str(file.fileno())); file.close()"
    )
    shell = f'exec {sys.executable} -c "{code}" {closing}'
    assert subprocess.run(["sh", "-c", shell], cwd=tmp_path, timeout=300).returncode == 0
    assert int((tmp_path / "file").read_text()) > 2


@pytest.mark.skipif(os.name != "posix", reason="descriptors of POSIX")
def test_open_missing_leaves_open_streams_alone():
    before = [os.fstat(number) for number in (0, 1, 2)]
    open_missing()
    assert [os.fstat(number)[:3] for number in (0, 1, 2)] == [each[:3] for each in before]


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
@pytest.mark.parametrize("ends", [">&-", "2>&-", "<&- >&- 2>&-", "> /dev/full 2> /dev/full"])
def test_a_process_with_such_streams_makes_the_same_run(ends, tmp_path, whole):
    words = " ".join([sys.executable, "-m", "tati_re.cli.sample", *FLAGS, "--output run", ends])
    assert subprocess.run(["sh", "-c", f"exec {words}"], cwd=tmp_path, timeout=600).returncode == 0
    found = (tmp_path / "run" / "run.csv").read_bytes()
    assert found == (whole.folder / "run.csv").read_bytes()
