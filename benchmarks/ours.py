"""Steps of BAOAB as a run of tati_re takes them: batches drawn, rows every 100th step brought back; no files."""

from __future__ import annotations

import numpy as np

from benchmarks.systems import Row, measured
from benchmarks.timing import milliseconds_per_step

RECORD_EVERY = 100


class Steps:
    """The compiled loop of a run, ready to be measured.

    Args:
        row: Network, walkers, batches.
        execution: "auto", "xla" or "graph".
        walker_evaluation: As the option.

    Attributes:
        execution: What "auto" came to.
        walker_evaluation: Likewise.
        chunk_steps: Steps of one call.
        xla_safe: XLA can compile the network.
    """

    def __init__(self, row: Row, execution: str = "auto", walker_evaluation: str = "auto") -> None:
        from tati_re.engine.environment import deterministic
        from tati_re.engine.loop import Loop
        from tati_re.engine.observables import Observables
        from tati_re.models.backend import tf
        from tati_re.samplers import Rung, Splitting

        self._deterministic = deterministic
        potential, position, options, self.execution = measured(row, execution, walker_evaluation)
        self.xla_safe = potential.flat.xla_safe
        self.walker_evaluation = potential.walker_evaluation
        method = Splitting("BAOAB", options.friction)
        values = (1.0, 1.0, options.step_size)
        rung = Rung(*(tf.fill([row.walkers], tf.constant(value, tf.float64)) for value in values))
        observables = Observables(method, potential.metric_name)
        self._loop = Loop(potential, method, observables, rung, 0, self.execution, RECORD_EVERY)
        self.chunk_steps, self._step = 0, 0
        with deterministic():
            self._carry = self._loop.start(position, potential.auxiliary)
            self.chunk_steps = self._loop.chunk_steps
            self._call()

    def measure(self, seconds: float) -> float:
        """Milliseconds a step, under the op determinism that runs have."""
        with self._deterministic():
            return milliseconds_per_step(self._call, seconds)

    def _call(self) -> int:
        chunk = self._loop.run(self._carry, self._step + 1, self.chunk_steps)
        rows = chunk.rows.numpy()[: int(chunk.num_rows)]
        if int(chunk.taken) != self.chunk_steps or not np.isfinite(rows).all():
            raise RuntimeError(f"The measured run is not stable in step {self._step + int(chunk.taken)}.")
        self._carry = chunk.carry
        self._step += self.chunk_steps
        return self.chunk_steps
