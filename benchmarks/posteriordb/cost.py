"""Gradients and processor seconds of a run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tati_re.engine.driver import Driver

DESCENT = 1_000
"""Gradients of a chain before the first step at most: a descent from starts that are far off."""


@contextmanager
def first_step() -> Iterator[list[float]]:
    """Notes the processor time at the first step of runs, when their programs are compiled."""
    times: list[float] = []
    run = Driver.run

    def noted(driver: Driver, carry: Any) -> Any:
        times.append(time.process_time())
        return run(driver, carry)

    with mock.patch.object(Driver, "run", noted):
        yield times


def gradients_by_row(steps: np.ndarray, per_step: np.ndarray) -> np.ndarray:
    """Gradients of a chain up to each recorded step.

    Args:
        steps: The recorded steps, from 1.
        per_step: Gradients of a step at each of them.
    """
    return np.cumsum(per_step * np.diff(steps, prepend=0))


def gradients_of(run: Any) -> tuple[int, int]:
    """Gradients of all chains, with the descent and the burn-in, and those after the burn-in."""
    table = run.run_info
    chain = table[table["walker"] == 0]
    chains = table["walker"].nunique()
    steps = chain["step"].to_numpy()
    per_step = np.ones(len(steps))
    if "trajectory_length" in chain:
        length = chain["trajectory_length"] / chain["step_size"]
        per_step = np.ceil(length.to_numpy() - 1e-9).clip(min=1)
    spent = gradients_by_row(steps, per_step)
    burnin = int(run.manifest["options"]["num_burnin_steps"] or 0)
    before = np.interp(burnin, np.r_[0, steps], np.r_[0, spent])
    every = chains * (spent[-1] + DESCENT)
    return int(every), int(chains * (spent[-1] - before))
