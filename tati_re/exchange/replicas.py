"""Replica exchange: copies of a system at several temperatures that swap temperatures."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import Temperatures, tuning_of, turns_of
from tati_re.core.front_door import front_door
from tati_re.core.method import Method, Sampler, Wrapper
from tati_re.core.protocol import Evaluate, Rung, fields_of, step_size_of
from tati_re.exchange.bookkeeping import EVENT_COLUMNS, ladder_table, no_counts
from tati_re.exchange.differences import RungTargets
from tati_re.exchange.ladder import Ladder
from tati_re.exchange.rungs import Occupancy, Rungs, adapted_rungs
from tati_re.exchange.schedule import EvenOdd, all_assignments
from tati_re.exchange.swap_round import SwapRound
from tati_re.exchange.swap_rules import OPTIONS_OF_RULES
from tati_re.exchange.well_tempered import (
    Biased,
    ExactEnergies,
    WellTempered,
    bias_table,
    bias_value,
)
from tati_re.samplers.wrappers.coordinates import extend, inner_of


class ReplicaExchange(Wrapper):
    """A sampler at several temperatures at once, with replicas that swap temperatures.

    Targets the product over the rungs of exp(-β_r (λ_r L + V)), with the step-size bias of the
    sampler inside. The walkers at rung 0 are draws from the target. Swaps preserve this
    distribution exactly for exact energies. For the penalty and the compensated rule, this holds
    under their assumptions on the noise.

    Rule: the sampler inside moves every replica at its own rung; every `exchange_every` steps pairs
    of rungs are offered a swap, which `swap_rule` decides from D = u_a(θ_i) + u_b(θ_j) - u_a(θ_j) -
    u_b(θ_i). On acceptance the two replicas exchange their rungs: parameters stay where they are,
    momenta are multiplied by sqrt(T_new/T_old), and what belongs to the rung (temperature, step
    size, thermostat, tuned step sizes, bias) changes hands.

    Walker w of the engine is replica w // ladders of ladder w % ladders. Several ladders are
    independent, except that they share the adaptation of the temperatures during the burn-in.

    Cost: that of the sampler inside for each replica, and the energies of a swap round: none for
    exact energies on all data, else one forward pass over `batch_size` examples (penalty),
    over all data (metropolis, barker), or over as many examples as the compensated rule asks for.

    Source: Swendsen and Wang, Phys. Rev. Lett. 57, 2607 (1986); Hukushima and Nemoto, J. Phys. Soc.
    Jpn. 65, 1604 (1996). Mini-batches: Ceperley and Dewing (1999), Luo et al. (2019), Deng et al.
    (2020). Even-odd rounds and the adaptation of the ladder: Syed et al. (2021).

    Args:
        inner: The sampler of every replica.
        ladder: Temperatures, likelihood weights and step sizes of the rungs.
        swap_rule: The swap rule (`tati_re.exchange.swap_rules`); `None`: the replicas never swap.
        swap_schedule: The choice of pairs (`tati_re.exchange.schedule`). Default: None, even and
            odd pairs in turn.
        exchange_every: Steps between two rounds. Default: 20.
        num_ladders: Independent ladders, walkers of each rung. Default: 1.
        batch_size: Number of examples per energy estimate; `None`: all, for exact energies.
        adapt: Whether to move the inner temperatures during the burn-in until all pairs reject
            equally. Default: False.
        infinite: Whether to reassign all replicas to the rungs by the exact probabilities of all
            assignments, in place of pairs (Plattner et al. 2011; Chodera and Shirts 2011). It needs
            exact energies and at most 6 rungs. Default: False.
        bias: A `WellTempered` that grows at each round of the burn-in. Default: none.
        exact_energies: Whether each step computes energies on all data in addition to the
            mini-batch gradient, for a bias on U. Default: False.
        draws_prior: Whether replicas at λ = 0 are drawn from the prior. It must be their
            distribution, which excludes weight regularizers. Otherwise the sampler moves them.
            Default: True.

    Raises:
        InputError: The sampler inside moves groups of walkers in turn.
    """

    ladder: ReplicaLadder

    @front_door
    def __init__(
        self,
        inner: Sampler,
        ladder: Ladder,
        swap_rule=None,
        swap_schedule=None,
        exchange_every: int = 20,
        num_ladders: int = 1,
        batch_size: int | None = None,
        adapt: bool = False,
        infinite: bool = False,
        bias: WellTempered | None = None,
        exact_energies: bool = False,
        draws_prior: bool = True,
    ) -> None:
        super().__init__(inner)
        problem = "num_replicas: an ensemble whose halves take turns needs a single temperature."
        refuse_if(turns_of(self).groups > 1, problem, inner.name, "no covariance_blending")
        if self.dynamics.mixes_parameters and tuning_of(self).renewals:
            problem = "num_replicas: a mass with directions is measured at one temperature."
            expected = "mass = fisher, which has a diagonal for each rung"
            raise InputError(problem, f"{inner.name} with a mass of directions", expected)
        swap_schedule = swap_schedule or (
            EvenOdd(ladder.num_rungs) if swap_rule is not None else None
        )
        self.rungs = ladder
        self.swap_rule = swap_rule
        self.swap_schedule = swap_schedule
        self.exchange_every = int(exchange_every)
        self.num_ladders = int(num_ladders)
        self.batch_size = batch_size
        self.adapt = adapt
        self.infinite = infinite
        self.bias = bias
        self.exact_energies = exact_energies
        self.label_names = ("rung", "replica") if bias is None else ("rung", "replica", "weight")
        if infinite:
            all_assignments(ladder.num_rungs)
        self.num_rungs = ladder.num_rungs
        self.occupancy = Occupancy(self.num_rungs, self.num_ladders)
        self.num_replicas = self.num_rungs * self.num_ladders
        self.name = inner.name + (f", {self.num_rungs} replicas" if self.num_rungs > 1 else "")
        self.tempers_likelihood = ladder.tempering == "likelihood"
        self.draws_prior = draws_prior and ladder.draws_prior and swap_rule is not None
        # What is drawn from the prior at the end of a step was never evaluated.
        self.knows_energies = inner.current and not self.draws_prior
        # Rows show U without the bias.
        self.current = self.knows_energies and bias is None
        reevaluates = self.tempers_likelihood or bias is not None
        self.has_rounds = swap_rule is not None or bias is not None
        self.swaps = None
        if swap_rule is not None:
            schedule = None if infinite else swap_schedule
            biased = bias is not None
            self.swaps = SwapRound(
                rule=swap_rule,
                schedule=schedule,
                occupancy=self.occupancy,
                batch_size=batch_size,
                tempers_likelihood=self.tempers_likelihood,
                biased=biased,
            )
        targets = ladder.inverse_temperature, ladder.likelihood_weight
        self.target = RungTargets(*(np.asarray(values, np.float64) for values in targets))
        self.ladder = ReplicaLadder(self, reevaluates)

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        self.inner.check(step_size, temperature, num_burnin_steps)
        first_rung = (temperature, step_size)
        ladder_start = (1 / self.rungs.inverse_temperature[0], self.rungs.step_size[0])
        problem = (
            "sampler: its ladder starts at a temperature or step size that differs from the run's."
        )
        refuse_if(
            not np.allclose(first_rung, ladder_start, rtol=1e-9, atol=0),
            problem,
            first_rung,
            f"({ladder_start[0]:g}, {ladder_start[1]:g})",
        )

    # The rungs of the walkers

    def rung_of(self, rungs: Rungs, base: Rung) -> Rung:
        """Returns temperature and step size of each walker, with the factors of the schedules.

        Args:
            rungs: The rungs, with the index of each walker.
            base: Temperature and step size of the target, after the schedules.

        Returns:
            The rungs of the walkers.
        """
        beta = tf.gather(rungs.table.inverse_temperature, rungs.index)
        step_size = tf.gather(tf.constant(self.rungs.step_size, tf.float64), rungs.index)
        return Rung(
            beta * (base.inverse_temperature / self.target.inverse_temperature[0]),
            tf.gather(rungs.table.likelihood_weight, rungs.index),
            step_size * (base.step_size / self.rungs.step_size[0]),
        )

    def labels(self, state) -> dict:
        labels = {
            "rung": state.rungs.index,
            "replica": tf.range(self.num_replicas) // self.num_ladders,
        }
        return labels if self.bias is None else {**labels, "weight": self._weight(state)}

    def _weight(self, state):
        """exp(A(U)/T), the weight of a sample in averages of its rung without bias, over that at
        the mean of U. Frozen bias only: weights of samples taken while A still grew belong to
        different ensembles.
        """
        bias = state.rungs.bias
        index = state.rungs.index
        usual = bias_value(bias, tf.gather(bias.mean, index), index)
        return tf.exp((bias_value(bias, state.potential, index) - usual) / state.temperature)

    def linear_part(self, coordinates: Any) -> tuple[Method, Any]:
        return self.inner.linear_part(coordinates)

    # The two functions of a sampler

    def init(self, position, evaluate, noise):
        """Starts replica r at rung r.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.
        """
        evaluate = self.energetic(evaluate)
        index = tf.range(self.num_replicas) // self.num_ladders
        table = RungTargets(*(tf.constant(values) for values in self.target))
        pairs = tf.zeros((self.num_rungs - 1,), tf.float64)
        num_pairs = self.num_rungs // 2 if self.swaps is None else self.swaps.num_pairs
        events = tf.zeros((self.num_ladders * num_pairs, len(EVENT_COLUMNS)), tf.float64)
        counts = no_counts(self.num_rungs, self.num_replicas)
        correction = () if self.swaps is None else self.swaps.correction_at_start()
        rungs = Rungs(
            index=index,
            table=table,
            rounds=tf.zeros((), tf.int64),
            rejected=pairs,
            tried=pairs,
            counts=counts,
            events=events,
            correction=correction,
        )
        rung = self.rung_of(rungs, evaluate.rung)
        state = self.inner.init(position, evaluate.at(rung), noise)
        rungs = self.with_bias(rungs, evaluate.scale * state.loss - state.log_prior)
        state = state._replace(rung=evaluate.rung)
        return extend(
            state, rungs=rungs, temperature=rung.temperature, step_size=step_size_of(state, rung)
        )

    def with_bias(self, rungs: Rungs, energy) -> Rungs:
        """Places the bias, if there is one, around the energies of all walkers at the start.

        Args:
            rungs: The rungs before the first step.
            energy: Energy of each walker, shape (walkers,).

        Returns:
            The rungs with the bias.
        """
        if self.bias is not None:
            by_rung = tf.reshape(energy, (self.num_rungs, self.num_ladders))
            finite = tf.math.is_finite(by_rung)
            sums = tf.reduce_sum(tf.where(finite, by_rung, tf.zeros_like(by_rung)), 1)
            mean = sums / tf.maximum(tf.reduce_sum(tf.cast(finite, tf.float64), 1), 1.0)
            rungs = rungs._replace(bias=self.bias.init(mean, rungs.table.inverse_temperature))
        return rungs

    def step(self, state, evaluate, noise):
        rungs = state.rungs
        evaluate = self.energetic(evaluate)
        random = {} if self.swaps is None else self.swaps.random_numbers(noise)
        inner, info = self.moved(state, rungs, evaluate, noise)
        if self.has_rounds:
            due = self.swaps_after(evaluate.clock.step)
            before = self._changing(inner)
            changing, rungs = tf.cond(
                due, lambda: self._round(inner, rungs, evaluate, random), lambda: (before, rungs)
            )
            inner = inner._replace(**changing)
            if self.metropolis:
                # Like the step size, the acceptance of this step belongs to the rung at which it
                # was made.
                source = self.occupancy.source(state.rungs.index, rungs.index)
                info = info._replace(acceptance=tf.gather(info.acceptance, source))
        return self.whole(state, inner, rungs, evaluate), info

    def moved(self, state, rungs, evaluate, noise) -> tuple:
        """Moves all walkers with the sampler inside.

        Args:
            state: The state before the step.
            rungs: The rungs of the walkers.
            evaluate: Computes U and its gradient.
            noise: Random numbers of this step.

        Returns:
            The state of the sampler inside after the step, and its `Info`.
        """
        rung = self.rung_of(rungs, evaluate.rung)
        bound = self._seen(evaluate.at(rung), rungs)
        inner, info = self.inner.step(inner_of(state)._replace(rung=rung), bound, noise)
        return (
            self._at_prior(inner, rungs, rung, evaluate, noise) if self.draws_prior else inner
        ), info

    def whole(self, state, inner, rungs, evaluate):
        """Combines the state of the sampler inside with rungs.

        Args:
            state: The state before the step.
            inner: The state of the sampler inside.
            rungs: The rungs of the walkers.
            evaluate: Computes U and its gradient.

        Returns:
            The whole state.
        """
        rung = self.rung_of(rungs, evaluate.rung)
        inner = inner._replace(rung=state.rung)
        exchange_fields = {
            "rungs": rungs,
            "temperature": rung.temperature,
            "step_size": step_size_of(inner, rung),
        }
        return type(state)(**inner._asdict(), **exchange_fields)

    def swaps_after(self, step):
        """Returns whether a round of swaps follows a step.

        Args:
            step: Number of the step, an integer or a tensor.

        Returns:
            True or False, or a tensor of them.
        """
        return self.has_rounds and step % self.exchange_every == 0

    def energetic(self, evaluate):
        """Returns the evaluation that a step sees.

        Args:
            evaluate: Computes U and its gradient on the mini-batch.

        Returns:
            The same, or with exact energies if the ladder needs them.
        """
        return ExactEnergies(evaluate) if self.exact_energies and not evaluate.exact else evaluate

    def _seen(self, bound, rungs: Rungs):
        """The potential at the walkers' own rungs, with their bias."""
        return bound if self.bias is None else Biased(bound, rungs.bias, rungs.index)

    # A swap round

    def _at_prior(self, inner, rungs: Rungs, rung: Rung, evaluate, noise):
        """The replicas at the prior drawn anew before a round, which evaluates them; at T other
        than 1 the law there is a power of the prior, in which the sampler moves them.
        """
        fresh = noise.normal((self.num_ladders, *inner.position.shape[1:]))
        drawn = evaluate.drawn_from_prior(
            tf.tile(fresh, (inner.position.shape[0] // self.num_ladders, 1))
        )
        at_one = tf.abs(rung.inverse_temperature - 1.0) < 1e-9
        there = (
            tf.equal(rungs.index, self.num_rungs - 1)
            & at_one
            & self.swaps_after(evaluate.clock.step)
        )
        return inner._replace(position=tf.where(there[:, None], drawn, inner.position))

    def _changing(self, inner) -> dict:
        names = [*self.of_rung]
        if self.has_momentum:
            names.append("momentum")
        if self.ladder.reevaluates:
            names += ["gradient", "potential", "loss", "log_prior"]
            variances = ("gradient_variance", "variance_before")
            names += [name for name in variances if name in inner._fields and name not in names]
        return fields_of(inner, names)

    def _round(self, inner, rungs: Rungs, evaluate, random: dict):
        loss, penalty = self.energies(inner, evaluate)
        grown, new = self.decided(rungs, inner, loss, penalty, evaluate, random)
        source = self.occupancy.source(grown.index, new.index)
        changed = {
            name: tf.gather(value, source) for name, value in fields_of(inner, self.of_rung).items()
        }
        return self.exchanged(inner, changed, grown, new, evaluate), new

    def decided(
        self, rungs: Rungs, inner, loss, penalty, evaluate, random: dict
    ) -> tuple[Rungs, Rungs]:
        """Decides the swaps of a round.

        Args:
            rungs: The rungs before the round.
            inner: The state of the sampler inside; only the fields from which a rule estimates energies
                are used.
            loss: L of each walker.
            penalty: V of each walker.
            evaluate: Computes U and its gradient.
            random: The random numbers of the round, by name.

        Returns:
            The rungs before the swaps, with the bias updated, and those after them.
        """
        factor = evaluate.rung.inverse_temperature[0] / self.target.inverse_temperature[0]
        table = rungs.table._replace(inverse_temperature=rungs.table.inverse_temperature * factor)
        if self.bias is not None:
            # It grows in the burn-in alone.
            counted = (
                rungs.bias,
                loss + penalty,
                rungs.index,
                table.inverse_temperature,
                1.0 / self.num_ladders,
            )
            grown = tf.cond(
                evaluate.clock.adapting, lambda: self.bias.deposit(*counted), lambda: counted[0]
            )
            rungs = rungs._replace(bias=grown)
        new = rungs._replace(rounds=rungs.rounds + 1)
        if self.swaps is not None:
            new = self.swaps.after(rungs, table, inner, loss, penalty, evaluate, random)
            if self.adapt:
                coordinate = (
                    "likelihood_weight" if self.tempers_likelihood else "inverse_temperature"
                )
                new = adapted_rungs(new, evaluate.clock, coordinate)
        return rungs, new

    def energies(self, inner, evaluate):
        """Computes L and V of all walkers.

        Args:
            inner: The state of the sampler inside.
            evaluate: Computes U and its gradient.

        Returns:
            L and V, shape (walkers,) each, float64: exact if the rule needs it, otherwise of this step's
            mini-batch.
        """
        needs_exact = self.bias is not None or self.swap_rule is None or self.swap_rule.exact
        exact = needs_exact or evaluate.exact or self.full_batch
        known = evaluate.exact or self.full_batch or not needs_exact
        if self.knows_energies and known:
            return evaluate.scale * inner.loss, -inner.log_prior
        position = inner.position

        def of_all():
            return evaluate.mean_loss(position)

        def of_batch():
            return evaluate(position).loss

        if self.batch_size is not None and needs_exact and not known and not self.swap_rule.exact:
            # A bias on the energies of mini-batches sees all data while it grows.
            loss = tf.cond(evaluate.clock.adapting, of_all, of_batch)
        else:
            loss = of_all() if exact else of_batch()
        return evaluate.scale * loss, -evaluate.log_prior(position)

    def exchanged(self, inner, changed: dict, rungs, new, evaluate) -> dict:
        """Moves the fields that belong to rungs to the walkers that now hold them.

        Args:
            inner: The state of the sampler inside.
            changed: The fields that belong to the rung, by name.
            rungs: The rungs before the swaps.
            new: The rungs after the swaps.
            evaluate: Computes U and its gradient.

        Returns:
            The fields of the walkers on their new rungs, by name.
        """
        before = self.rung_of(rungs, evaluate.rung)
        after = self.rung_of(new, evaluate.rung)
        changed = dict(changed)
        if self.has_momentum:
            scale = tf.sqrt(after.temperature / before.temperature)
            changed["momentum"] = inner.momentum * tf.cast(scale, inner.momentum.dtype)[:, None]
        if self.ladder.reevaluates:
            bound = self._seen(evaluate.at(after), new)
            changed |= (bound.full if self.full_batch else bound)(inner.position)._asdict()
            if "gradient_variance" in inner._fields and "gradient_variance" not in self.of_rung:
                variance = bound.gradient_variance(inner.position)
                changed |= {"gradient_variance": variance, "variance_before": variance}
        # In the order of `_changing`: both branches of a condition have one structure.
        return {name: changed[name] for name in self._changing(inner)}

    def get_config(self) -> dict:
        config = {
            **self.inner.get_config(),
            "num_replicas": self.num_rungs,
            "temperatures": [float(1.0 / value) for value in self.target.inverse_temperature],
            "likelihood_weights": [float(value) for value in self.target.likelihood_weight],
            "exchange_every": self.exchange_every,
            "exchange_batch_size": self.batch_size,
            "adapt_ladder": self.adapt,
        }
        if self.bias is not None:
            config |= {"bias": "well_tempered", **self.bias.get_config()}
        if self.exact_energies:
            config["bias_energies"] = "full"
        if self.swap_rule is None:
            return {**config, "exchange": "none"}
        if self.infinite:
            return {**config, "exchange": "infinite"}
        config |= {"swap_schedule": self.swap_schedule.name, **self.swap_rule.get_config()}
        swap_bias = self.ladder.swap_bias
        return config if swap_bias is None else {**config, "swap_bias": swap_bias}


class ReplicaLadder(Temperatures):
    """The rungs of replicas that swap them.

    Args:
        method: The method that moves the replicas.
        reevaluates: After a swap, potential and loss belong to the position.
    """

    by_rung = True
    divides = True

    def __init__(self, method: ReplicaExchange, reevaluates: bool) -> None:
        self.method = method
        self.rungs = method.rungs
        self.copies = method.num_rungs
        self.event_columns = EVENT_COLUMNS
        self.event_every = 0 if method.swap_rule is None else method.exchange_every
        self.reevaluates = reevaluates
        self.bias = method.bias
        self.exact_energies = method.exact_energies
        # Where the rule has a bias on noisy energies, and sees such.
        sees_noise = method.swap_rule is not None and method.batch_size is not None
        self.swap_bias = method.swap_rule.biased if sees_noise else None

    def order(self, state: Any) -> Any:
        """The walkers from the target upwards, rung by rung: how rows are written, `(walkers,)`,
        int32.
        """
        return tf.reshape(tf.transpose(self.method.occupancy.at_rung(state.rungs.index)), [-1])

    def events(self, state: Any) -> Any:
        return state.rungs.events

    def tables(self, state: Any) -> dict[str, dict[str, Any]]:
        rungs = state.rungs
        walkers = self.order(state)[:: self.method.num_ladders]
        step_size = tf.gather(state.step_size, walkers)
        if self.bias is None:
            return {"ladder": ladder_table(rungs.table, step_size, rungs.counts)}
        ladder = ladder_table(rungs.table, step_size, rungs.counts, self.bias.bias_factor)
        return {
            "ladder": ladder,
            "bias": bias_table(rungs.bias, tf.gather(state.temperature, walkers)),
        }

    def bound(self, state: Any, evaluate: Evaluate) -> Any:
        rung = self.method.rung_of(state.rungs, evaluate.rung)
        return self.method.energetic(evaluate).at(rung)

    def asks_examples(self, exact: bool) -> bool:
        """Whether a round asks for the losses of single examples, for which it holds a thread of
        TensorFlow that may be the only one.

        Args:
            exact: Steps see all examples.
        """
        rule = self.method.swap_rule
        return not (exact or self.exact_energies or rule is None or rule.exact)

    def used_options(self) -> set[str]:
        method = self.method
        swaps = method.swap_rule is not None
        in_pairs = swaps and not method.infinite
        used = set()
        if swaps:
            used.add("adapt_ladder")
        if swaps or self.bias is not None:
            used.add("exchange_every")
        if in_pairs:
            used |= {"swap_rule", "swap_schedule", *OPTIONS_OF_RULES.get(method.swap_rule.name, ())}
        if method.batch_size is not None:
            used.add("exchange_batch_size")
        if method.num_rungs > 1:
            used |= {"exchange", "trajectory_rungs"}
        return used
