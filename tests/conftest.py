"""Quiet TensorFlow, and compiled loops that tests share."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import resource
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tati_re.core.lazy import settled

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Small programs gain nothing from being compiled in 32 parts, and the parts cost a sixth of the
# compilation.
PARTS = "--xla_cpu_parallel_codegen_split_count=1"
CHEAP = "--xla_llvm_disable_expensive_passes=true"
# XLA ends a process whose flags it does not know: this one only where it is known to be.
CHEAP += " --xla_cpu_use_fusion_emitters=false" if version("tensorflow").startswith("2.21.") else ""
# A suite makes many loops on purpose; TensorFlow takes that for a function traced again and again
# and says so.
logging.getLogger("tensorflow").setLevel(logging.ERROR)


LONG = Path(__file__).with_name("long.toml")


def pytest_addoption(parser):
    parser.addoption(
        "--processor-times",
        metavar="FILE",
        help="append the processor seconds and the name of each test (in one process, without -n)",
    )
    parser.addoption(
        "--within",
        type=float,
        metavar="SECONDS",
        help="begin no test after so many seconds of tests",
    )
    parser.addoption(
        "--as-users",
        action="store_true",
        help="run with the defaults of TensorFlow, XLA and the disk, as users do",
    )


def is_quick(config) -> bool:
    """Whether tests may compile and write faster than users do: in `bin/test` and `bin/test --slow`,
    except for the tests of the product there.
    """
    return bool(config.getoption("markexpr")) and not config.getoption("as_users")


def has_slow(config) -> bool:
    """Whether slow tests run."""
    return not config.getoption("markexpr").startswith("not slow")


def pytest_collection_modifyitems(items):
    """Marks the tests of `long.toml`, which lists them by their files."""
    known = tomllib.loads(LONG.read_text())
    for item in items:
        path, name = item.nodeid.split("::", 1)
        if name in known.get(path, ()):
            item.add_marker(pytest.mark.long)


def processor_seconds() -> float:
    """Processor seconds of this process and of those that it has waited for."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in each)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Writes down what a test takes, with the fixtures that it is the first to ask for."""
    path = item.config.getoption("processor_times")
    before = processor_seconds()
    yield
    if path is not None:
        with open(path, "a") as file:
            file.write(f"{processor_seconds() - before:.2f}\t{item.nodeid}\n")


def pytest_configure(config):
    """Tests compile without LLVM's expensive passes and by XLA's older emitters, in two thirds of the
    time. XLA reads its flags when it compiles for the first time; tests that run as users do have
    its defaults.
    """
    quick = is_quick(config)
    os.environ.setdefault("XLA_FLAGS", f"{PARTS} {CHEAP}" if quick else PARTS)
    if (has_slow(config) or not quick) and (
        hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    ):
        # Examples and clusters ask for one thread, which has to be set before TensorFlow computes
        # for the first time.
        from tati_re.core.backend import set_threads

        set_threads(1)


@pytest.fixture(scope="session", autouse=True)
def graphs_as_they_stand(request):
    """Tests run graphs without TensorFlow's rewriting of them, a third of what starting
    a small run costs, and without a note of who made each operation, which is a twentieth of
    tracing below pytest's many calls.

    Other processes keep both, and so do tests that run as users do.
    """
    with pytest.MonkeyPatch.context() as patch:
        if is_quick(request.config) and "tensorflow" in sys.modules:
            sys.modules["tensorflow"].config.optimizer.set_experimental_options(
                {"disable_meta_optimizer": True}
            )
            stacks = importlib.import_module("tensorflow.python.util.tf_stack")
            some = stacks.extract_stack()
            patch.setattr(stacks, "extract_stack", lambda stacklevel=1: some)
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_waits_for_the_disk(request):
    """A run waits for the disk some 25 times, a tenth of what a small one takes. That is for a
    machine that loses its power: what a process has written is there after its end, killed or not,
    which is all that a test can see.

    Processes of their own wait, and so do tests that run as users do.
    """
    with pytest.MonkeyPatch.context() as patch:
        if is_quick(request.config):
            patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session", autouse=True)
def libraries_are_no_garbage():
    """TensorFlow's half a million objects stay to the end: no collection visits them again. As in
    commands.
    """
    gc.collect()
    settled()


@pytest.fixture
def rewritten_graphs():
    """Graphs as users run them, for bytes that are compared with those of another process."""
    options = sys.modules["tensorflow"].config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    options.set_experimental_options({"disable_meta_optimizer": False})
    yield
    options.set_experimental_options({"disable_meta_optimizer": before})


_held = [0.0]


def resident() -> float:
    """Gigabytes of this process; none where the system does not say."""
    with contextlib.suppress(OSError), open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**30
    return 0.0


@pytest.fixture(scope="module", autouse=True)
def memory_is_given_back():
    """Programs that a file of tests left behind hang in cycles, which are looked for so seldom that
    a process would come to several gigabytes: after a file, once they have taken half a
    gigabyte.
    """
    yield
    if resident() > _held[0] + 0.5:
        gc.collect()
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        _held[0] = resident()


@pytest.fixture(scope="session")
def began() -> float:
    return time.monotonic()


@pytest.fixture(autouse=True)
def in_time(request, began):
    within = request.config.getoption("within")
    if within is not None and time.monotonic() - began > within:
        pytest.skip(f"{within:g} seconds are over")


@pytest.fixture(scope="session")
def loop_run():
    """`loop_run(sampler, execution)`: 25 steps on an anharmonic potential, 5 walkers, 3 parameters,
    float64; each compiled once a session.
    """
    from tati_re.testing.sampler_in_engine import run_loop

    done: dict = {}

    def run(sampler, execution: str):
        key = (f"{type(sampler).__name__} {sampler.get_config()}", execution)
        if key not in done:
            done[key] = run_loop(sampler, execution)
        return done[key]

    return run
