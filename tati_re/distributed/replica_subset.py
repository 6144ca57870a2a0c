"""Replicas of a ladder apart from the others: what is left of replica exchange where swaps are
decided elsewhere.
"""

from typing import Any, NamedTuple

from tati_re.core.backend import tf
from tati_re.core.facets import Temperatures
from tati_re.core.method import Wrapper
from tati_re.core.protocol import Evaluate, step_size_of
from tati_re.exchange.differences import RungTargets
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.samplers.wrappers.coordinates import extend, inner_of


class RungPlacement(NamedTuple):
    """The rung of some walkers and their numbers as replicas, `(walkers,)`, int32; β, λ and the
    bias of all rungs.
    """

    index: Any
    table: RungTargets
    bias: Any
    replica: Any


class PartialLadder(Temperatures):
    """The rungs of replicas that are held apart from the others.

    Args:
        exchange: The method of all replicas.
    """

    def __init__(self, exchange: ReplicaExchange) -> None:
        self.exchange = exchange
        self.rungs = exchange.rungs
        self.reevaluates = exchange.ladder.reevaluates
        self.at_target = exchange.num_ladders
        self.in_all = exchange.num_replicas
        self.stretch = exchange.exchange_every if exchange.has_rounds else 0

    def bound(self, state: Any, evaluate: Evaluate) -> Any:
        return self.exchange.ladder.bound(state, evaluate)


class ReplicaSubset(Wrapper):
    """Some replicas of a ladder, which step and record as within `ReplicaExchange`; whoever holds
    the others tells where they are after a round. `first_replica` is the number of the first one at
    the next `init`.
    """

    def __init__(self, exchange: ReplicaExchange) -> None:
        super().__init__(exchange.inner)
        self.exchange = exchange
        self.ladder = PartialLadder(exchange)
        self.name = exchange.name
        self.label_names = exchange.label_names
        self.current = exchange.current
        self.num_ladders = exchange.num_ladders
        self.first_replica = 0

    def init(self, position, evaluate, noise):
        exchange = self.exchange
        evaluate = self.exchange.energetic(evaluate)
        replica = self.first_replica + tf.range(position.shape[0]) // self.num_ladders
        table = RungTargets(*(tf.constant(values) for values in exchange.target))
        zeros = tf.zeros((exchange.num_rungs,), tf.float64)
        bias = () if exchange.bias is None else exchange.bias.init(zeros, table.inverse_temperature)
        placed = RungPlacement(replica, table, bias, replica)
        rung = exchange.rung_of(placed, evaluate.rung)
        state = self.inner.init(position, evaluate.at(rung), noise)._replace(rung=evaluate.rung)
        return extend(
            state, rungs=placed, temperature=rung.temperature, step_size=step_size_of(state, rung)
        )

    def step(self, state, evaluate, noise):
        if self.exchange.swaps is not None:
            # Drawn by whoever decides; each draw of a step has its number.
            self.exchange.swaps.random_numbers(noise)
        evaluate = self.exchange.energetic(evaluate)
        inner, info = self.exchange.moved(state, state.rungs, evaluate, noise)
        return self.exchange.whole(state, inner, state.rungs, evaluate), info

    def exchanged(self, state, placed: RungPlacement, changed: dict, evaluate):
        """The state of walkers after swaps that were decided elsewhere.

        Args:
            state: The state before the swaps.
            placed: The rungs of the walkers after the swaps.
            changed: The fields that belong to the new rungs, by name.
            evaluate: Computes U and its gradient.
        """
        evaluate = self.exchange.energetic(evaluate)
        inner = inner_of(state)._replace(rung=self.exchange.rung_of(state.rungs, evaluate.rung))
        fields = self.exchange.exchanged(inner, changed, state.rungs, placed, evaluate)
        return self.exchange.whole(state, inner._replace(**fields), placed, evaluate)

    def energies(self, state, evaluate) -> tuple:
        """L and V of the walkers, by which swaps are decided.

        Args:
            state: The state of the walkers.
            evaluate: Computes U and its gradient.

        Returns:
            L and V, shape (walkers,) each, float64.
        """
        return self.exchange.energies(inner_of(state), self.exchange.energetic(evaluate))

    def labels(self, state) -> dict:
        return self.exchange.labels(state) | {"replica": state.rungs.replica}
