"""The state of replica exchange: the rung of each walker, and the rungs' targets."""

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.exchange.bookkeeping import Counts
from tati_re.exchange.differences import RungTargets
from tati_re.exchange.ladder import adapted

_FIRST_ADAPTATION = 16


class Rungs(NamedTuple):
    """The state of replica exchange within the state of the walkers.

    `index` is the rung of each walker, `(walkers,)`, int32; 0 is the target. `table` has β and λ of the rungs, which
    change where the ladder adapts. `rounds` counts the swap rounds so far, int64; `rejected` is the sum of rejection
    probabilities between neighbors since the last adaptation, `tried` the attempts behind it, `(rungs - 1,)`, float64.
    `counts` is what ladder.csv tells, `events` the last round's rows of exchange.csv, `correction` what a rule averages
    from round to round (`tati_re.exchange.correction`), empty for others, and `bias` A of all rungs (`Bias`), empty
    without.
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
    """The rungs moved after 16, 32, 64, ... rounds of the burn-in to where all pairs would reject alike."""
    number = tf.cast(rungs.rounds, tf.float64)
    power = tf.math.log(number / _FIRST_ADAPTATION) / np.log(2.0)
    due = tf.logical_and(tf.abs(power - tf.round(power)) < 1e-9, number >= _FIRST_ADAPTATION)
    # A pair that a schedule never chose says nothing of its rejection; the others go on counting.
    due = tf.logical_and(tf.logical_and(due, clock.adapting), tf.reduce_min(rungs.tried) > 0)
    rejection = rungs.rejected / tf.maximum(rungs.tried, 1.0)
    if coordinate == "likelihood_weight":
        table = rungs.table._replace(likelihood_weight=adapted(rungs.table.likelihood_weight, rejection, "power"))
    else:
        table = rungs.table._replace(inverse_temperature=adapted(rungs.table.inverse_temperature, rejection))
    zeros = tf.zeros_like(rungs.tried)
    table = RungTargets(*(tf.where(due, new, old) for new, old in zip(table, rungs.table, strict=True)))
    rejected, tried = (tf.where(due, zeros, sums) for sums in (rungs.rejected, rungs.tried))
    return rungs._replace(table=table, rejected=rejected, tried=tried)
