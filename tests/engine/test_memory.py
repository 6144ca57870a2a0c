"""Memory does not grow with the length of a run."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.engine.limits import Limits

STATM = Path("/proc/self/statm")


def resident_megabytes() -> float:
    return int(STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not STATM.exists(), reason="resident memory is read from /proc")
@pytest.mark.parametrize("execution", ["xla", pytest.param("graph", marks=pytest.mark.slow)])
def test_resident_memory_is_flat_over_100_000_steps(tmp_path, execution):
    """Mini-batches, rows, a trajectory and checkpoints: the process grows by less than 12 MB in
    100,000 steps, which is less than if each step kept one row of run.csv (2 walkers, 11 numbers:
    18 MB).
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(100, 2))
    sim = Simulation(
        data=(x, x[:, 0]), num_walkers=2, batch_size=10, seed=1, verbose=0, noise_std=1.0
    )
    sim.limits = Limits(chunk_seconds=0.25)
    seen: list[tuple[int, float]] = []

    def look(folder: Path, step: int) -> None:
        gc.collect()
        seen.append((step, resident_megabytes()))

    gc.freeze()  # what other tests of this process left is not visited at each look
    try:
        sim.sample(
            output=str(tmp_path / "run"),
            num_steps=120_000,
            step_size=0.01,
            record_every=50,
            trajectory_every=50,
            execution=execution,
            checkpoint_seconds=0.1,
            callbacks=[look],
        )
    finally:
        gc.unfreeze()
    after = [size for step, size in seen if step >= 20_000]
    assert len(after) > 1 and seen[-1][0] == 120_000
    assert max(after) - after[0] < 12, seen
