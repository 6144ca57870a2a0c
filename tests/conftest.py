"""Quiet TensorFlow, and compiled loops that tests share."""

from __future__ import annotations

import gc
import logging
import os
import sys
import time

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# Small programs gain nothing from being compiled in 32 parts, and the parts cost a sixth of the compilation.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_parallel_codegen_split_count=1")
# A suite makes many loops on purpose; TensorFlow takes that for a function traced again and again and says so.
logging.getLogger("tensorflow").setLevel(logging.ERROR)
# Tracing makes objects by the million, few of them in cycles, and each full collection visits all of TensorFlow:
# with the thresholds of Python one second in fourteen goes into looking for garbage.
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser):
    parser.addoption("--within", type=float, metavar="SECONDS", help="begin no test after so many seconds of tests")


@pytest.fixture(scope="session", autouse=True)
def graphs_as_they_stand(request):
    """The quick suite runs graphs without TensorFlow's rewriting of them, a third of what starting a small run costs.

    What runs in processes of its own keeps it, and so does everything under `bin/test --slow`.
    """
    if request.config.getoption("markexpr") and "tensorflow" in sys.modules:
        sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


@pytest.fixture
def rewritten_graphs():
    """Graphs as users run them, for bytes that are compared with those of another process."""
    options = sys.modules["tensorflow"].config.optimizer
    before = options.get_experimental_options().get("disable_meta_optimizer", False)
    options.set_experimental_options({"disable_meta_optimizer": False})
    yield
    options.set_experimental_options({"disable_meta_optimizer": before})


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
    """`loop_run(sampler, execution)`: 25 steps on an anharmonic potential, 5 walkers, 3 parameters, float64; each
    compiled once a session."""
    from tati_re.testing.sampler_in_engine import run_loop

    done: dict = {}

    def run(sampler, execution: str):
        key = (f"{type(sampler).__name__} {sampler.get_config()}", execution)
        if key not in done:
            done[key] = run_loop(sampler, execution)
        return done[key]

    return run
