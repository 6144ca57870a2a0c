"""Whatever is typed, read or handed over: a readable run, or one sentence that names what it is
about.

60 cases in the quick suite, most of them up to the checks of a launch, and 5,000 behind --slow.
They are always the same: a failure comes again.
"""

from __future__ import annotations

import contextlib
import io
import resource
import shutil
import signal
import types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import tati_re
from tati_re import InputError, SamplingError, Simulation
from tati_re.cli import dataset, optimize, sample
from tati_re.core.process.exit_status import BAD_INPUT, FINISHED, OUT_OF_TIME
from tati_re.launch.checks import check_request
from tati_re.simulation import simulation as module
from tests.fuzz import strategies

MAINS = {"sample": sample.main, "optimize": optimize.main}
SHARES = {"commands": 0.5, "files": 0.3, "arguments": 0.2}
QUICK, SLOW = 60, 5000
MOST_SECONDS, MOST_KILOBYTES = 60, 2 * 2**20
EVERY = 8
"""Of what passes the checks in the slow cases, one in so many is run; in the quick ones nothing but
the first.
"""

X, Y = np.array([row[:2] for row in strategies.ROWS]), np.array([row[2] for row in strategies.ROWS])


def cases(name: str):
    """A decorator for a property: quick and slow numbers of cases, always the same ones."""

    def decorated(property_):
        def tried(number):
            how = settings(
                max_examples=int(number * SHARES[name]),
                derandomize=True,
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )
            return how(given(getattr(strategies, name))(property_))

        @pytest.mark.parametrize("number", [QUICK, pytest.param(SLOW, marks=pytest.mark.slow)])
        def test(number, folder, monkeypatch):
            Place.slow, Place.passed = number == SLOW, 0
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            tried(number)()
            assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KILOBYTES

        test.__doc__ = property_.__doc__
        test.inner = property_
        return test

    return decorated


class Place:
    """Whether many cases are tried, and how many have passed the checks."""

    slow, passed = False, 0

    @classmethod
    def runs(cls) -> bool:
        """Whether the next run that passes its checks is taken to its end."""
        cls.passed += 1
        return cls.passed % EVERY == 1 if cls.slow else cls.passed == 1


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a small table, in which a launch mostly ends with its checks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    rows = "".join(f"{a},{b},{label}\n" for a, b, label in strategies.ROWS)
    (tmp_path / "data.csv").write_text("a,b,label\n" + rows)
    launch = module.launch_finite

    def perhaps(request, walkers, calls):
        if Place.runs():
            return launch(request, walkers, calls)
        check_request(request)
        return types.SimpleNamespace(
            folder=Path(request.options.output or "run"),
            summary=str,
            exit_status=FINISHED,
            manifest=types.SimpleNamespace(failed_checks=()),
        )

    monkeypatch.setattr(module, "launch_finite", perhaps)
    return tmp_path


@contextlib.contextmanager
def in_time():
    """Nothing takes longer than a minute of the processor, or hangs: on a busy machine the clock
    says little.
    """

    def late(*_):
        raise AssertionError("longer than a minute")

    before = signal.signal(signal.SIGPROF, late), signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    signal.alarm(10 * MOST_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)
        signal.signal(signal.SIGPROF, before[0])
        signal.signal(signal.SIGALRM, before[1])


def told(main, argv: list[str]) -> tuple[int, str]:
    """Exit status and what stderr says of a command."""
    out, err = io.StringIO(), io.StringIO()
    with in_time(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(argv)
    assert "Traceback" not in out.getvalue() + err.getvalue(), err.getvalue()
    return status, err.getvalue()


def is_one_sentence(text: str) -> bool:
    return (
        text.count("\n") == 1
        and text.startswith("error: ")
        and text.rstrip()[-1] in ".?"
        and len(text) < 2100
    )


def clear(folder) -> None:
    for path in folder.iterdir():
        if path.name != "data.csv":
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def check(main, argv: list[str], about: list[str], folder) -> None:
    """A readable run, or one sentence that has one of the words that it may be about."""
    try:
        status, err = told(main, argv)
        if status in (FINISHED, OUT_OF_TIME):
            if (folder / "run" / "manifest.toml").exists():
                assert len(tati_re.load("run").run_info) >= 0
        else:
            assert status == BAD_INPUT, f"{status}: {err}"
            assert is_one_sentence(err), err
            diverged = (
                "diverges" in err or " after step " in err or "start outside the prior" in err
            )
            assert diverged or any(word in err for word in about), err
    finally:
        clear(folder)


@cases("commands")
def test_options_of_a_command(case):
    """Options with odd values, on a table that is as it should be."""
    name, typed = case
    given = {part[0].split("=")[0] for part in typed}
    argv = [text for part in typed for text in part]
    defaults = {"--data": "data.csv", "--num-steps": "2", "--output": "run", "--execution": "graph"}
    defaults |= {"--trajectory-every": "0", "--max-time": "20", "--verbose": "0"}
    for flag, value in defaults.items():
        if flag not in given:
            argv = [flag, value, *argv]
    about = [
        *given,
        *(flag[2:].replace("-", "_") for flag in given),
        " is not the value of an option.",
        " is not a known option of ",
    ]
    about += [f"{option}:" for option in tati_re.options.make.OPTIONS]
    check(MAINS[name], argv, about, Path.cwd())


@cases("files")
def test_files(case):
    """Files that are not what they should be, of data and of options."""
    name, content = case
    Path(name).write_bytes(content)
    if name == "a.toml":
        base = [
            "--data",
            "data.csv",
            "--num-steps",
            "2",
            "--output",
            "run",
            "--execution",
            "graph",
            "--quiet",
        ]
        check(
            sample.main,
            [*base, "--config", name],
            [name, *tati_re.options.make.OPTIONS],
            Path.cwd(),
        )
        return
    if name == "a.keras":
        check(
            sample.main,
            ["--data", "data.csv", "--model", name, "--num-steps", "2"],
            [name],
            Path.cwd(),
        )
        return
    words = [name, "data", "inputs", "targets", "abel"]
    if Place.slow and len(content) % 3 == 0:
        argv = [
            "--data",
            name,
            "--num-steps",
            "2",
            "--output",
            "run",
            "--execution",
            "graph",
            "--quiet",
        ]
        check(sample.main, argv, [*words, "examples", "num_"], Path.cwd())
    else:
        check(dataset.main, ["--inspect", name], [*words, "examples"], Path.cwd())


def handed_over(case) -> object:
    """What a case does in Python."""
    where, name, value = case
    quick = {"verbose": 0, "execution": "graph", "num_steps": 2, "step_size": 0.01, "data": (X, Y)}
    if where == "Simulation":
        return Simulation(**quick | {name: value})
    if where in ("load", "resume", "from_folder"):
        return (tati_re.load if where == "load" else getattr(Simulation, where))(value)
    if where == "data":
        pairs = {
            "x": (value, Y),
            "y": (X, value),
            "pair": value,
            "test": ((X, Y), (value, Y)),
            "weights": (X, Y, value),
        }
        return Simulation(**quick | {"data": pairs[name]}).sample()
    sim = Simulation(**quick)
    if where == "predict":
        return sim.predict(value)
    if where in ("parameters", "momenta"):
        return setattr(sim, where, value)
    return getattr(sim, where)(**{name: value})


@cases("arguments")
def test_arguments_in_python(case):
    """Objects that are not what an argument should be: they are taken, or refused in one
    sentence.
    """
    try:
        with in_time():
            handed_over(case)
    except (InputError, SamplingError) as error:
        assert "\n" not in str(error)
        assert str(error).rstrip()[-1] in ".?", str(error)
    finally:
        clear(Path.cwd())
