"""The state of replica exchange: the rung of each walker and its change in a round, and the rungs'
targets.
"""

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.exchange.bookkeeping import Counts
from tati_re.exchange.differences import Pairs, RungTargets
from tati_re.exchange.ladder import adapted
from tati_re.exchange.schedule import gibbs


class Occupancy:
    """The rungs of the walkers of several ladders.

    Walker w is replica w // ladders of ladder w % ladders. There are as many walkers as rungs times
    ladders.

    Args:
        num_rungs: Number of rungs.
        num_ladders: Number of ladders.
    """

    def __init__(self, num_rungs: int, num_ladders: int) -> None:
        self.num_rungs = num_rungs
        self.num_ladders = num_ladders

    def _of_walkers(self, values, index):
        """Values of each ladder and rung, `(ladders, rungs)`, for the walker that is there,
        `(walkers,)`.
        """
        ladder = tf.range(self.num_rungs * self.num_ladders) % self.num_ladders
        return tf.gather_nd(values, tf.stack([ladder, index], axis=-1))

    def at_rung(self, index):
        """The walker at each rung of each ladder, shape (ladders, rungs), int32.

        Args:
            index: The rung of each walker, shape (walkers,), int32.
        """
        by_ladder = tf.transpose(tf.reshape(index, (self.num_rungs, self.num_ladders)))
        replica = tf.range(self.num_rungs)
        is_there = tf.equal(by_ladder[:, None, :], replica[None, :, None])
        replica_at = tf.reduce_sum(tf.where(is_there, replica[None, None, :], 0), axis=-1)
        return replica_at * self.num_ladders + tf.range(self.num_ladders)[:, None]

    def source(self, before, after):
        """The previous walker at each walker's rung, shape (walkers,), int32.

        Args:
            before: The rung of each walker before the swaps, shape (walkers,), int32.
            after: The rung of each walker after the swaps, in the same shape.
        """
        return self._of_walkers(self.at_rung(before), after)

    def swapped(self, index, pairs: Pairs, accepted):
        """The rung of every walker after the accepted swaps of a round, shape (walkers,), int32.

        Args:
            index: The rung of each walker before the swaps, shape (walkers,), int32.
            pairs: The pairs of rungs, shape (ladders, pairs).
            accepted: Whether each pair swaps, shape (ladders, pairs).
        """
        moved = tf.cast(accepted, tf.int32) * (pairs.high - pairs.low)
        up = tf.reduce_sum(
            tf.one_hot(pairs.low, self.num_rungs, dtype=tf.int32) * moved[..., None], axis=1
        )
        down = tf.reduce_sum(
            tf.one_hot(pairs.high, self.num_rungs, dtype=tf.int32) * moved[..., None], axis=1
        )
        return index + self._of_walkers(up - down, index)

    def assigned(self, reduced, at_rung, uniform) -> tuple:
        """Reassigns all replicas to the rungs by the exact probabilities.

        Args:
            reduced: u of every replica at every rung, shape (ladders, rungs, replicas), float64.
                Replicas are in the order of their present rungs.
            at_rung: The walker at each rung of each ladder, shape (ladders, rungs), int32.
            uniform: Uniform numbers in (0, 1), shape (ladders,).

        Returns:
            Whether the replica of each next rung came, and how probable that was, shape (ladders,
            rungs - 1) each; and the rung of every walker, shape (walkers,).
        """
        drawn = gibbs(reduced, uniform)
        rungs = tf.range(self.num_rungs)
        came = tf.equal(drawn.replica[:, :-1], rungs[None, 1:])
        expected = tf.linalg.diag_part(drawn.weights[:, :-1, 1:])
        there = tf.gather(at_rung, drawn.replica, batch_dims=1)
        rung = tf.broadcast_to(rungs, there.shape)
        index = tf.scatter_nd(
            tf.reshape(there, (-1, 1)), tf.reshape(rung, [-1]), (self.num_rungs * self.num_ladders,)
        )
        return came, expected, index


_FIRST_ADAPTATION = 16


class Rungs(NamedTuple):
    """The state of replica exchange within the state of the walkers. `index` is the rung of each
    walker, `(walkers,)`, int32; 0 is the target. `table` has β and λ of the rungs, which change
    where the ladder adapts. `rounds` counts the swap rounds so far, int64; `rejected` is the sum of
    rejection probabilities between neighbors since the last adaptation, `tried` the attempts behind
    it, `(rungs - 1,)`, float64. `counts` is what ladder.csv tells, `events` the last round's rows
    of exchange.csv, `correction` what a rule averages from round to round
    (`tati_re.exchange.correction`), else empty, and `bias` A of all rungs (`Bias`), or empty.
    """

    index: Any
    table: RungTargets
    rounds: Any
    rejected: Any
    tried: Any
    counts: Counts
    events: Any
    correction: Any = ()
    bias: Any = ()


def adapted_rungs(rungs: Rungs, clock, coordinate: str) -> Rungs:
    """Moves rungs to where all pairs would reject equally, after 16, 32, 64, ... rounds.

    Rungs move in the burn-in only.

    Args:
        rungs: The rungs after a round.
        clock: Number of the step, and whether it belongs to the burn-in.
        coordinate: The column that adapts: "inverse_temperature" or "likelihood_weight".
    """
    number = tf.cast(rungs.rounds, tf.float64)
    power = tf.math.log(number / _FIRST_ADAPTATION) / np.log(2.0)
    due = tf.logical_and(tf.abs(power - tf.round(power)) < 1e-9, number >= _FIRST_ADAPTATION)
    # A pair that a schedule never chose says nothing of its rejection; the others go on counting.
    due = tf.logical_and(tf.logical_and(due, clock.adapting), tf.reduce_min(rungs.tried) > 0)
    rejection = rungs.rejected / tf.maximum(rungs.tried, 1.0)
    scale = "power" if coordinate == "likelihood_weight" else "logarithm"
    table = rungs.table._replace(
        **{coordinate: adapted(rungs.table._asdict()[coordinate], rejection, scale)}
    )
    table = RungTargets(
        *(tf.where(due, new, old) for new, old in zip(table, rungs.table, strict=True))
    )
    rejected, tried = (
        tf.where(due, tf.zeros_like(sums), sums) for sums in (rungs.rejected, rungs.tried)
    )
    return rungs._replace(table=table, rejected=rejected, tried=tried)
