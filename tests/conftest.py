"""Quiet TensorFlow, and compiled loops that tests share."""

from __future__ import annotations

import logging
import os
from typing import NamedTuple

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# A suite makes many loops on purpose; TensorFlow takes that for a function traced again and again and says so.
logging.getLogger("tensorflow").setLevel(logging.ERROR)


class LoopRun(NamedTuple):
    """What 25 steps of a loop gave: the number of traces, the recorded rows, and every field of the final state but the
    rung."""

    traces: int
    rows: np.ndarray
    fields: dict[str, np.ndarray]


@pytest.fixture(scope="session")
def loop_run():
    """`loop_run(sampler, execution)`: 25 steps on an anharmonic potential, 5 walkers, 3 parameters, float64; each
    compiled once a session."""
    done: dict[tuple[str, str], LoopRun] = {}

    def run(sampler, execution: str) -> LoopRun:
        key = (f"{type(sampler).__name__} {sampler.get_config()}", execution)
        if key not in done:
            done[key] = _run(sampler, execution)
        return done[key]

    return run


def _run(sampler, execution: str) -> LoopRun:
    from tati_re.engine.loop import Loop
    from tati_re.engine.observables import Observables
    from tati_re.posterior.function import FunctionPotential
    from tests.scenarios import quartic, rung_of

    potential = FunctionPotential(quartic, 3)
    rung = rung_of(np.linspace(0.05, 0.15, 5), temperature=np.linspace(0.5, 1.5, 5))
    loop = Loop(potential, sampler, Observables(sampler, None), rung, seed=3, execution=execution, record_every=5)
    carry = loop.start(np.linspace(-1, 1, 15).reshape(5, 3), ())
    chunk = loop.run(carry, 1, 25)
    fields = {name: value.numpy() for name, value in chunk.carry.state._asdict().items() if name != "rung"}
    return LoopRun(loop.traces, chunk.rows.numpy()[: int(chunk.num_rows)], fields)
