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
    """The state after the last step, the steps `taken`, fewer than asked for where the run diverged, and what was
    recorded: `rows`, `(capacity, walkers, columns)`, `positions`, `(capacity, recorded walkers, parameters or
    directions)`, `beside` these potential, loss and labels, and `events`, `(capacity, rows, columns)`, float64."""

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
    """The arrays of a carry, without the rung: of the state, auxiliary variables, moments, and the highest energy."""
    return [np.asarray(leaf) for leaf in tf.nest.flatten(carry._replace(state=carry.state._replace(rung=())))]


def carry_of(leaves: list[np.ndarray], template) -> Carry:
    """The carry of such arrays, with the rung of a state of the same structure."""
    bare = template._replace(rung=())
    count = len(tf.nest.flatten(bare))
    values = [tf.constant(leaf) for leaf in leaves]
    state = tf.nest.pack_sequence_as(bare, values[:count])._replace(rung=template.rung)
    return Carry(state, tuple(values[count:-4]), RunningMoments(*values[-4:-1]), values[-1])
