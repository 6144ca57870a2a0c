"""What the digests of the tables cost a run that writes each row: pairs of runs with and without
them.
"""

from __future__ import annotations

import pkgutil
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.small import DYNAMICS, SYSTEM

Digest = pkgutil.resolve_name("tati_re.runs.digests:Digest")
"""An inside of the package, which moves without notice: its time is taken apart from that of the
run.
"""


def cost(num_steps: int, repetitions: int) -> tuple[float, float]:
    """The share of a run's processor time that its digests take, on the perceptron of three
    parameters with a row and a position each step, where rows cost most: measured inside, the
    median over the runs; and as the median difference of pairs with and without them, which sees
    the noise of the machine too.

    Args:
        num_steps: Length of each run.
        repetitions: Pairs, in turn; one more goes before, which compiles.
    """
    from tati_re import Simulation

    simulation = Simulation(**SYSTEM, verbose=0)
    update, inside = Digest.update, [0.0]

    def timed(digest: Digest, content: Any) -> None:
        began = time.process_time()
        update(digest, content)
        inside[0] += time.process_time() - began

    def seconds(replaced: Any) -> float:
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(Digest, "update", replaced):
            began = time.process_time()
            options = DYNAMICS | {"step_size": 0.005, "record_every": 1, "trajectory_every": 1}
            simulation.sample(
                **options,
                num_steps=num_steps,
                checkpoint_seconds=0.5,
                output=str(Path(folder) / "run"),
            )
            return time.process_time() - began

    shares, differences = [], []
    for repetition in range(repetitions + 1):
        inside[0] = 0.0
        with_them = seconds(timed)
        without = seconds(lambda digest, content: None)
        if repetition:
            shares.append(inside[0] / with_them)
            differences.append(with_them / without - 1)
    return float(np.median(shares)), float(np.median(differences))


if __name__ == "__main__":
    share, difference = cost(20_000, 3)
    print(
        f"digests: {100 * share:.2f} % of a run that writes each row; pairs differ by {100 * difference:+.1f} %"
    )
