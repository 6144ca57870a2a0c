"""One round of swaps: from the energies of all replicas to their rungs after it."""

from typing import Any

from tati_re.core.backend import tf
from tati_re.core.evaluate import Evaluate
from tati_re.core.protocol import fields_of
from tati_re.exchange.bookkeeping import by_neighbors, counted, events_of
from tati_re.exchange.differences import (
    LogRatioEstimate,
    Pairs,
    RungTargets,
    coefficients,
    estimated_difference,
    exact_difference,
)
from tati_re.exchange.rungs import Occupancy, Rungs
from tati_re.exchange.subsets import NUM_KEYS
from tati_re.exchange.swap_rules import Corrected, SwapRule
from tati_re.exchange.well_tempered import bias_value, swap_term


class SwapRound:
    """One round: chooses pairs of rungs, accepts or rejects each swap, and updates the counts.

    Args:
        rule: The swap rule.
        schedule: The choice of pairs. None reassigns all replicas to the rungs by the exact
            probabilities of all assignments.
        occupancy: The rungs of the walkers.
        batch_size: Number of examples of an energy estimate; None for all.
        tempers_likelihood: Whether the energy that is counted is L alone.
        biased: Whether the rungs have a bias.
    """

    def __init__(
        self,
        rule: SwapRule,
        schedule,
        occupancy: Occupancy,
        batch_size: int | None,
        tempers_likelihood: bool,
        biased: bool,
    ) -> None:
        self.rule = rule
        self.schedule = schedule
        self.occupancy = occupancy
        self.batch_size = batch_size
        self.tempers_likelihood = tempers_likelihood
        self.biased = biased
        self.num_rungs = occupancy.num_rungs
        self.num_ladders = occupancy.num_ladders
        self.num_pairs = self.num_rungs - 1 if schedule is None else self.num_rungs // 2
        self.correction = rule.correction if isinstance(rule, Corrected) else None

    def correction_at_start(self):
        if self.correction is None:
            return ()
        return tf.nest.map_structure(
            tf.constant, self.correction.start(self.num_ladders, self.num_rungs)
        )

    def random_numbers(self, noise) -> dict[str, Any]:
        """All random numbers of a round; drawn in every step, since a step always asks for the
        same.
        """
        shape = (self.num_ladders, self.num_pairs)
        drawn = {
            "uniform": noise.uniform(shape),
            "normal": tf.cast(noise.normal(shape), tf.float64),
        }
        if self.schedule is None:
            drawn["assignment"] = noise.uniform((self.num_ladders,))
        elif self.schedule.num_uniforms:
            drawn["pairs"] = noise.uniform((self.num_ladders, self.schedule.num_uniforms))
        if not self.rule.exact:
            drawn["keys"] = noise.uniform((*shape, NUM_KEYS))
        return drawn

    def after(
        self,
        rungs: Rungs,
        table: RungTargets,
        inner,
        loss,
        penalty,
        evaluate: Evaluate,
        random: dict[str, Any],
    ) -> Rungs:
        """The rungs after a round.

        Args:
            rungs: The rungs before the round.
            table: β and λ of the rungs, with the factors of the schedules at this step.
            inner: The state of all replicas.
            loss: L of all walkers, shape (walkers,), float64.
            penalty: V of all walkers, shape (walkers,), float64.
            evaluate: Computes U and its gradient on the mini-batch of the step.
            random: The `random_numbers` of this step.
        """
        if (
            self.tempers_likelihood
        ):  # draws of the prior may be where L is no number, and stay at λ = 0
            loss = tf.where(tf.math.is_nan(loss), tf.constant(float("inf"), loss.dtype), loss)
        at_rung = self.occupancy.at_rung(rungs.index)
        pairs = self._pairs(rungs, random)
        loss_at = tf.gather(loss, at_rung)
        penalty_at = tf.gather(penalty, at_rung)
        if self.rule.exact or evaluate.exact:
            difference = exact_difference(table, pairs, loss_at, penalty_at, evaluate.num_examples)
            if self.biased:
                difference = self._with_bias(difference, rungs, table, pairs, loss_at + penalty_at)
        else:
            bias = rungs.bias if self.biased else None
            difference = self._estimate(
                inner, evaluate, table, pairs, at_rung, penalty_at, random["keys"], bias
            )
        correction = rungs.correction
        if self.schedule is None:
            reduced = self._reduced(table, loss_at, penalty_at, rungs)
            accepted, expected, index = self.occupancy.assigned(
                reduced, at_rung, random["assignment"]
            )
        else:
            correction, difference, variance = self._corrected(
                rungs, pairs, table, difference, evaluate
            )
            known = difference.log_ratio, variance, difference.count
            accepted = self.rule.accept(*known, random["uniform"], random["normal"])
            accepted = tf.logical_and(accepted, pairs.valid)
            expected = self.rule.expected(*known)
            index = self.occupancy.swapped(rungs.index, pairs, accepted)
            if self.correction is not None:
                correction = self.correction.counted(correction, accepted)
        energy = loss_at if self.tempers_likelihood else loss_at + penalty_at
        clock = evaluate.clock
        replica_at = at_rung // self.num_ladders
        rejected = rungs.rejected + by_neighbors(pairs, 1.0 - expected, self.num_rungs)
        tried = rungs.tried + by_neighbors(pairs, tf.ones_like(expected), self.num_rungs)
        counts = counted(
            rungs.counts, pairs, accepted, expected, energy, index, tf.logical_not(clock.adapting)
        )
        events = events_of(clock.step, pairs, difference, accepted, replica_at)
        counters = {"rejected": rejected, "tried": tried, "counts": counts, "events": events}
        return rungs._replace(
            index=index, rounds=rungs.rounds + 1, **counters, correction=correction
        )

    def _pairs(self, rungs: Rungs, random: dict[str, Any]) -> Pairs:
        shape = (self.num_ladders, self.num_pairs)
        if self.schedule is None:
            low = tf.broadcast_to(tf.range(self.num_rungs - 1), shape)
            return Pairs(low, low + 1, tf.ones(shape, tf.bool))
        return Pairs(
            *(
                tf.broadcast_to(part, shape)
                for part in self.schedule.pairs(rungs.rounds, random.get("pairs"))
            )
        )

    def _corrected(
        self, rungs: Rungs, pairs: Pairs, table: RungTargets, difference: LogRatioEstimate, evaluate
    ):
        """The updated noise averages, the corrected difference, and the variance passed to the
        rule.
        """
        state = rungs.correction
        if self.correction is None or difference.example_variance is None:
            return state, difference, difference.variance
        on_loss, _ = coefficients(table, pairs)
        state, difference = self.correction.applied(
            state, pairs, difference, on_loss, evaluate.num_examples
        )
        return (
            state,
            difference,
            difference.variance / self.correction.factor(state, evaluate.clock.step),
        )

    def _estimate(
        self, inner, evaluate, table, pairs, at_rung, penalty_at, keys, bias
    ) -> LogRatioEstimate:
        centre = fields_of(
            inner, [name for name in ("centre", "centre_loss") if name in inner._fields]
        )
        size = min(self.batch_size or evaluate.num_examples, evaluate.num_examples)

        return estimated_difference(
            table,
            pairs,
            evaluate,
            inner.position,
            at_rung,
            penalty_at,
            keys,
            batch_size=size,
            target_variance=self.rule.target_variance,
            bias=bias,
            **centre,
        )

    def _with_bias(
        self, difference: LogRatioEstimate, rungs: Rungs, table: RungTargets, pairs: Pairs, energy
    ) -> LogRatioEstimate:
        low, high = (tf.gather(energy, part, batch_dims=1) for part in (pairs.low, pairs.high))
        term = swap_term(rungs.bias, table.inverse_temperature, low, high, pairs.low, pairs.high)
        return difference._replace(log_ratio=difference.log_ratio + term)

    def _reduced(self, table: RungTargets, loss, penalty, rungs: Rungs):
        beta, weight = (column[None, :, None] for column in table)
        energy = tf.math.multiply_no_nan(loss[:, None, :], weight) + penalty[:, None, :]
        if self.biased:
            rung = tf.broadcast_to(tf.range(self.num_rungs)[None, :, None], energy.shape)
            energy = energy + bias_value(rungs.bias, energy, rung)
        return beta * energy
