"""What goes on from chunk to chunk of a loop, and what a chunk gives."""

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.engine.recording import RunningMoments


class Carry(NamedTuple):
    """Everything that goes on from chunk to chunk and into the checkpoint; `highest` is the energy U + p·p/2 that no
    walker comes to unless the run diverges, `()`."""

    state: Any
    auxiliary: tuple
    moments: RunningMoments
    highest: Any


class Chunk(NamedTuple):
    """The result of a chunk.

    Attributes:
        carry: The state after the last step.
        taken: Steps taken; fewer than asked for where the run diverged.
        rows: `(row capacity, walkers, columns)`, float64; the first `num_rows` are filled.
        positions: `(trajectory capacity, recorded walkers, parameters or directions)`; first `num_positions` filled.
        beside: Potential, loss and labels of each, `(trajectory capacity, recorded walkers, columns)`, float64.
        events: `(event capacity, rows, columns)`, float64, what the method tells; the first `num_events` are filled.
    """

    carry: Carry
    taken: Any
    rows: Any
    num_rows: Any
    positions: Any
    beside: Any
    num_positions: Any
    events: Any
    num_events: Any


def leaves_of(carry: Carry) -> list[np.ndarray]:
    """The arrays of a carry, the rung left out: of the state, the auxiliary variables, the moments, and the highest
    energy."""
    return [np.asarray(leaf) for leaf in tf.nest.flatten(carry._replace(state=carry.state._replace(rung=())))]


def carry_of(leaves: list[np.ndarray], template) -> Carry:
    """The carry of such arrays, with the rung of a state of the same structure."""
    bare = template._replace(rung=())
    count = len(tf.nest.flatten(bare))
    values = [tf.constant(leaf) for leaf in leaves]
    state = tf.nest.pack_sequence_as(bare, values[:count])._replace(rung=template.rung)
    return Carry(state, tuple(values[count:-4]), RunningMoments(*values[-4:-1]), values[-1])
