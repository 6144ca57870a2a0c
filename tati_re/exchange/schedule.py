"""Schedules: the pairs of rungs that attempt a swap in a round.

A schedule is a rule `pairs(round, uniforms) -> (low, high, valid)` for NumPy and TensorFlow alike:
R // 2 pairs of rungs, no rung in two of them. Where all pairs are tried at once, each with its own
accept test, the product distribution of the rungs is kept whatever the schedule, as long as it does
not look at the energies.

`gibbs` needs no pairs: it draws one of all assignments of replicas to rungs with its exact
probability.
"""

from itertools import permutations
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.ops import (
    as_int32,
    cumulative_sum,
    exp,
    largest,
    maximum,
    minimum,
    sum_over,
    take,
    take_last,
)

MOST_GIBBS_RUNGS = 6


class Pairs(NamedTuple):
    """Pairs of a colder rung `low` and a hotter one `high` that attempt a swap, int32 `(R // 2,)`
    or `(ladders, R // 2)`; where `valid`, bool, is false, they sit out this round and must not be
    exchanged.
    """

    low: Any
    high: Any
    valid: Any


@front_doors
class _Schedule:
    """The schedule of R rungs, `num_rungs`, at least 2."""

    def __init__(self, num_rungs: int) -> None:
        refuse_if(num_rungs < 2, "A schedule of swaps needs rungs.", num_rungs, "at least 2")
        self.num_rungs = int(num_rungs)


@front_doors
class EvenOdd(_Schedule):
    """Rungs (0, 1), (2, 3), ... in even rounds, (1, 2), (3, 4), ... in odd ones.

    The alternation is deterministic: replicas keep their direction as long as swaps are accepted,
    and a round trip takes 2R rounds at acceptance 1 with R rungs (Okabe et al. 2001; Syed,
    Bouchard-Côté, Deligiannidis and Doucet 2021).

    Args:
        num_rungs: The number of rungs, at least 2.
    """

    name = "even_odd"
    num_uniforms = 0

    def pairs(self, round, uniforms=None) -> Pairs:
        """Returns the pairs of a round, the same on all ladders.

        Args:
            round: Number of the round, from 0.
            uniforms: Not used.

        Returns:
            The pairs, `R // 2` of them.
        """
        return _neighbors(self.num_rungs, as_int32(round) % 2)


@front_doors
class RandomNeighbours(_Schedule):
    """Like `EvenOdd`, but each round is even or odd with probability 1/2.

    The schedule is reversible, and replicas diffuse along the ladder.

    Args:
        num_rungs: Number of rungs, at least 2.
    """

    name = "random_neighbours"
    num_uniforms = 1

    def pairs(self, round, uniforms) -> Pairs:
        """Returns the pairs of a round, with even or odd lower rungs at random.

        Args:
            round: Not used.
            uniforms: Random numbers in (0, 1), shape (1,) or (ladders, 1).

        Returns:
            The pairs, `R // 2` of them.
        """
        return _neighbors(self.num_rungs, as_int32(uniforms >= 0.5))


@front_doors
class AllPairs(_Schedule):
    """A random perfect matching of all rungs; with an odd number of rungs one is left out.

    All matchings have the same probability. Distant rungs rarely accept, so this pays for short
    ladders and for ladders with high acceptance.

    Args:
        num_rungs: Number of rungs, at least 2.
    """

    name = "all_pairs"

    @property
    def num_uniforms(self) -> int:
        """Uniform numbers that a round needs: one for each rung."""
        return self.num_rungs

    def pairs(self, round, uniforms) -> Pairs:
        """Returns the pairs of a round.

        The rungs in the order of random numbers make a random permutation, whose neighbors are paired.

        Args:
            round: Not used.
            uniforms: Random numbers in (0, 1), shape (R,) or (ladders, R).

        Returns:
            The pairs, `R // 2` of them on each ladder.
        """
        rungs = np.arange(self.num_rungs)
        mine = uniforms[..., :, None]
        other = uniforms[..., None, :]
        before = (other < mine) | ((other == mine) & (rungs[None, :] < rungs[:, None]))
        is_at = as_int32(
            as_int32(_summed(as_int32(before)))[..., None, :] == rungs[:, None].astype(np.int32)
        )
        order = as_int32(_summed(is_at * rungs.astype(np.int32)))
        count = self.num_rungs // 2 * 2
        first = order[..., 0:count:2]
        second = order[..., 1:count:2]
        return Pairs(minimum(first, second), maximum(first, second), first != second)


SCHEDULES = {kind.name: kind for kind in (EvenOdd, RandomNeighbours, AllPairs)}


@front_door
def make_swap_schedule(name: str, num_rungs: int):
    """Creates a swap schedule by name.

    Args:
        name: "even_odd", "random_neighbours" or "all_pairs".
        num_rungs: Number of rungs, at least 2.

    Returns:
        The schedule.

    Raises:
        InputError: There is no schedule with this name.
    """
    if name not in SCHEDULES:
        raise InputError(
            f"swap_schedule has an unknown value.{nearest(name, SCHEDULES)}",
            repr(name),
            ", ".join(SCHEDULES),
        )
    return SCHEDULES[name](num_rungs)


class Assignment(NamedTuple):
    """A draw of `gibbs`: which `replica` sits on each rung, int32 `(..., rungs)`, and the
    probabilities of all. `weights[r, i]` is the probability of replica i on rung r, `(..., rungs,
    replicas)`, float64: rows and columns add up to 1. The mean of an observable on rung r is that
    of Σ_i weights[r, i] f_i, with less noise than that of the replica drawn, and no bias.
    """

    replica: Any
    weights: Any


@front_door
def gibbs(reduced_potential, uniform) -> Assignment:
    """Draws an assignment of replicas to rungs from all R! assignments with their exact weights.

    The weight of an assignment is exp(-Σ_r u[r, replica(r)]). It does not depend on the present
    rungs and preserves the product distribution of the rungs. Averages with these weights are the
    infinite swapping of Plattner et al. (2011).

    Args:
        reduced_potential: u[r, i] = β_r (λ_r L_i + V_i) of replica i on rung r, float64 `(...,
            rungs, replicas)`; +∞ for a replica that is not allowed there.
        uniform: Uniform numbers in (0, 1), `(...)`.

    Returns:
        The replica on each rung, and the probability of each replica there.

    Raises:
        InputError: There are more than 6 rungs, with more than 720 assignments.
    """
    rungs = reduced_potential.shape[-1]
    probability = assignment_probabilities(reduced_potential)
    table = all_assignments(rungs)
    reached = cumulative_sum(probability)
    drawn = _summed(as_int32(reached[..., :-1] < uniform[..., None] * reached[..., -1:]))
    weights = _summed(probability[..., None, None, :] * np.moveaxis(np.eye(rungs)[table], 0, -1))
    return Assignment(take(table.astype(np.int32), drawn), weights)


def assignment_probabilities(reduced_potential):
    """Probability of each row of `all_assignments`, `(..., R!)`, float64; arguments as of
    `gibbs`.
    """
    rungs = reduced_potential.shape[-1]
    table = all_assignments(rungs)
    energy = 0.0
    for rung in range(rungs):
        energy = energy + take_last(reduced_potential[..., rung, :], table[:, rung])
    log_weight = -energy
    weight = exp(log_weight - largest(log_weight, -1)[..., None])
    return weight / sum_over(weight, -1)


def all_assignments(rungs: int) -> np.ndarray:
    """Every assignment, `(R!, R)`: the replica on each rung; the first leaves all in place."""
    if rungs > MOST_GIBBS_RUNGS:
        raise InputError(
            "gibbs evaluates all assignments of replicas.",
            f"{rungs} rungs",
            f"at most {MOST_GIBBS_RUNGS}",
        )
    return np.array(list(permutations(range(rungs))))


def _neighbors(num_rungs: int, parity) -> Pairs:
    """Of an even number of rungs, odd rounds pair the last with the first, which is not valid."""
    begin = parity + 2 * np.arange(num_rungs // 2, dtype=np.int32)
    first = begin % num_rungs
    second = (begin + 1) % num_rungs
    return Pairs(minimum(first, second), maximum(first, second), second > first)


def _summed(values):
    return sum_over(values, -1)[..., 0]
