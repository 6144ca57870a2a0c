"""Steps of a sampler as a run of tati_re takes them: batches drawn, rows every 100th step brought
back; no files.
"""

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
        method: The sampler. Default: BAOAB.

    Attributes:
        execution: What "auto" came to.
        walker_evaluation: Likewise.
        chunk_steps: Moves of one call; a method whose walkers take turns makes several for one step
            of all.
        xla_safe: XLA can compile the network.
    """

    def __init__(
        self, row: Row, execution: str = "auto", walker_evaluation: str = "auto", method=None
    ) -> None:
        import tensorflow as tf

        from tati_re.engine import Loop, Observables, deterministic
        from tati_re.samplers import Rung, Splitting

        self._deterministic = deterministic
        potential, position, options, self.execution = measured(row, execution, walker_evaluation)
        self.xla_safe = potential.flat.xla_safe
        self.walker_evaluation = potential.walker_evaluation
        method = method or Splitting("BAOAB", options.friction)
        # Methods without momenta are stable up to 2/k, those with momenta up to 2/sqrt(k).
        values = (1.0, 1.0, options.step_size if method.has_momentum else options.step_size**2)
        rung = Rung(*(tf.fill([row.walkers], tf.constant(value, tf.float64)) for value in values))
        observables = Observables(method, potential.metric_name)
        self._loop = Loop(potential, method, observables, rung, 0, self.execution, RECORD_EVERY)
        self.chunk_steps, self._step = 0, 0
        with deterministic():
            self._carry = self._loop.start(position, potential.auxiliary)
            self.chunk_steps = self._loop.chunk_steps
            self._call()

    def measure(self, seconds: float) -> float:
        """Milliseconds a step of all walkers, under the op determinism that runs have."""
        with self._deterministic():
            return self._loop.timeline.groups * milliseconds_per_step(self._call, seconds)

    def _call(self) -> int:
        chunk = self._loop.run(self._carry, self._step + 1, self.chunk_steps)
        potentials = chunk.rows.numpy()[
            : int(chunk.num_rows), :, self._loop.observables.columns.index("potential")
        ]
        if int(chunk.taken) != self.chunk_steps or not np.isfinite(potentials).all():
            raise RuntimeError(
                f"The measured run is not stable in step {self._step + int(chunk.taken)}."
            )
        self._carry = chunk.carry
        self._step += self.chunk_steps
        return self.chunk_steps
