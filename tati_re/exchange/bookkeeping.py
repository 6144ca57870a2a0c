"""Statistics of replica exchange: swaps by pair of neighbors, round trips by replica, mean energies
by rung.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfc

from tati_re.core.backend import tf
from tati_re.exchange.differences import LogRatioEstimate, Pairs, RungTargets

_OF_SWAP = ("delta", "variance", "batch_size", "accepted", "walker")
EVENT_COLUMNS = ("step", "rung_low", "rung_high", "replica_low", "replica_high", *_OF_SWAP)
"""Columns of exchange.csv: `delta` is ln of the Metropolis ratio, exact or estimated, with
`variance` the variance of the estimate from `batch_size` examples; `walker` says which of several
independent ladders.
"""

_NOWHERE = 0
_TOP = 1
_BOTTOM = 2
_TOP_AFTER_BOTTOM = 3


class Counts(NamedTuple):
    """Sums over the swap rounds after the burn-in, float64. For each pair of neighbors, `(rungs -
    1,)`: `attempts`, the swaps tried, `accepted` of these, and `expected`, the sum of their
    acceptance probabilities, given what was known. `energy` is the sum at each rung over ladders
    and rounds, `(rungs,)`, of U, or of L where the likelihood alone is tempered, from `samples`
    steps. For each replica, `(walkers,)`: `last_end`, where it was last of the two ends, int32;
    `restarts`, how often it came to the coldest rung from the hottest one; `round_trips`, how often
    it went from the coldest to the hottest and back.
    """

    attempts: Any
    accepted: Any
    expected: Any
    samples: Any
    energy: Any
    last_end: Any
    restarts: Any
    round_trips: Any


def no_counts(rungs: int, walkers: int) -> Counts:
    """The counts before the first round.

    Args:
        rungs: Number of rungs.
        walkers: Number of walkers, rungs times ladders.
    """
    pairs = tf.zeros((rungs - 1,), tf.float64)
    by_walker = tf.zeros((walkers,), tf.float64)
    energy = tf.zeros((rungs,), tf.float64)
    nowhere = tf.fill((walkers,), tf.constant(_NOWHERE))
    return Counts(
        attempts=pairs,
        accepted=pairs,
        expected=pairs,
        samples=tf.zeros((), tf.float64),
        energy=energy,
        last_end=nowhere,
        restarts=by_walker,
        round_trips=by_walker,
    )


def by_neighbors(pairs: Pairs, values, rungs: int):
    """Sums over the ladders for the pairs of neighbors alone, shape (rungs - 1,).

    Args:
        pairs: The pairs of rungs; other pairs than neighbors, and invalid ones, do not count.
        values: A value of each pair, shape (ladders, pairs), float64.
        rungs: Number of rungs.
    """
    neighbors = tf.logical_and(pairs.valid, tf.equal(pairs.high, pairs.low + 1))
    at = (
        tf.one_hot(pairs.low, rungs - 1, dtype=tf.float64)
        * tf.cast(neighbors, tf.float64)[..., None]
    )
    return tf.reduce_sum(at * values[..., None], axis=[0, 1])


def counted(counts: Counts, pairs: Pairs, accepted, expected, energy, rung, counting) -> Counts:
    """The counts after a round.

    Args:
        counts: The counts before the round.
        pairs: The pairs of rungs of the round.
        accepted: Whether each pair swapped, shape (ladders, pairs).
        expected: Acceptance probabilities, shape (ladders, pairs), float64.
        energy: Energy of the replica at each rung, shape (ladders, rungs), float64.
        rung: The rung of each walker after the round, shape (walkers,), int32.
        counting: Whether the round counts; false in the burn-in.
    """
    rungs = energy.shape[1]
    weight = tf.cast(counting, tf.float64)
    seen = zip(
        counts[:3], (tf.ones_like(expected), tf.cast(accepted, tf.float64), expected), strict=True
    )
    attempts, swaps, chances = (
        sums + weight * by_neighbors(pairs, values, rungs) for sums, values in seen
    )
    bottom = tf.equal(rung, 0)
    top = tf.equal(rung, rungs - 1)
    last = counts.last_end
    was_bottom = tf.equal(last, _BOTTOM)
    was_tripping = tf.equal(last, _TOP_AFTER_BOTTOM)
    arrived = tf.logical_and(bottom, tf.logical_or(tf.equal(last, _TOP), was_tripping))
    returned = tf.logical_and(bottom, was_tripping)
    went_up = tf.where(tf.logical_or(was_bottom, was_tripping), _TOP_AFTER_BOTTOM, _TOP)
    end = tf.where(bottom, _BOTTOM, tf.where(top, went_up, last))
    samples = counts.samples + weight * energy.shape[0]
    energy_sum = counts.energy + weight * tf.reduce_sum(energy, axis=0)
    restarts, trips = (weight * tf.cast(came, tf.float64) for came in (arrived, returned))

    return Counts(
        attempts=attempts,
        accepted=swaps,
        expected=chances,
        samples=samples,
        energy=energy_sum,
        last_end=tf.where(counting, end, last),
        restarts=counts.restarts + restarts,
        round_trips=counts.round_trips + trips,
    )


def events_of(step, pairs: Pairs, difference: LogRatioEstimate, accepted, replica_at):
    """A row of exchange.csv for each pair, shape (ladders * pairs, columns).

    Rows of invalid pairs have a step of -1.

    Args:
        step: Number of the step.
        pairs: The pairs of rungs of the round.
        difference: ln of the Metropolis ratio of each pair.
        accepted: Whether each pair swapped, shape (ladders, pairs).
        replica_at: The replica at each rung before the swaps, shape (ladders, rungs).
    """
    shape = tf.shape(difference.log_ratio)

    def by_pair(values):
        return tf.cast(tf.broadcast_to(values, shape), tf.float64)

    ladder = tf.range(shape[0])[:, None]
    rungs = pairs.low, pairs.high
    replicas = [tf.gather(replica_at, rung, batch_dims=1) for rung in rungs]
    swap = (
        difference.log_ratio,
        difference.variance,
        *map(by_pair, (difference.used, accepted, ladder)),
    )
    columns = [
        tf.where(pairs.valid, by_pair(step), -1.0),
        *map(by_pair, (*rungs, *replicas)),
        *swap,
    ]
    return tf.reshape(tf.stack(columns, axis=-1), (-1, len(EVENT_COLUMNS)))


def ladder_table(table: RungTargets, step_size, counts: Counts, bias_factor: float = 1.0) -> dict:
    """The columns of ladder.csv, one row per rung, as NumPy arrays; nan where nothing was counted.

    Acceptance and expected acceptance stand at the lower rung of a pair. The predicted one is
    erfc(x/2) with x² the product of the differences of β (or λ) and of mean energies, exact where
    energies are normal. `barrier` is the sum of the rejection rates up to each rung.

    Args:
        table: β and λ of the rungs.
        step_size: Step size of each rung, shape (rungs,).
        counts: What was counted.
        bias_factor: γ of a bias, by which the log ratio of the swaps is smaller. Default: 1, no
            bias.
    """
    beta, weight = (np.asarray(values) for values in table)
    attempts, accepted, expected, samples, energy = (np.asarray(values) for values in counts[:5])
    last = np.full(1, np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = energy / samples
        strength = beta * weight
        predicted = erfc(
            0.5 * np.sqrt(np.maximum(np.diff(strength) * -np.diff(mean) / bias_factor, 0.0))
        )
        rejection = 1.0 - expected / attempts
        rates = np.concatenate([accepted / attempts, last])
        expectation = np.concatenate([expected / attempts, last])
    restarts, trips = (np.asarray(values).sum() for values in (counts.restarts, counts.round_trips))
    return {
        "rung": np.arange(len(beta)),
        "temperature": 1.0 / beta,
        "likelihood_weight": weight,
        "step_size": np.asarray(step_size),
        "attempts": np.concatenate([attempts, last]),
        "acceptance": rates,
        "expected_acceptance": expectation,
        "predicted_acceptance": np.concatenate([predicted, last]),
        "barrier": np.concatenate([[0.0], np.cumsum(rejection)]),
        "mean_potential": mean,
        "restarts": np.full(len(beta), restarts),
        "round_trips": np.full(len(beta), trips),
    }
