"""Schedules of swaps: who tries, how fast replicas travel, and that the law of the rungs is kept.

Laws are those of an exact chain: each of R replicas sits on one of four levels, the state is the
level at each rung, local Metropolis moves and a swap round are stochastic matrices, and the
stationary law has to be the product of exp(-β_r U) over the rungs.
"""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange.ladder import round_trip_rate
from tati_re.exchange.schedule import (
    SCHEDULES,
    all_assignments,
    assignment_probabilities,
    gibbs,
    make_swap_schedule,
)

BETA = np.array([1.0, 0.6, 0.3])
LEVELS = np.array([0.0, 0.7, 1.1, 3.0])
STATES = list(product(range(4), repeat=3))
NUMBER = {state: i for i, state in enumerate(STATES)}


def product_law() -> np.ndarray:
    law = np.exp(
        -np.array(
            [sum(BETA[r] * LEVELS[level] for r, level in enumerate(state)) for state in STATES]
        )
    )
    return law / law.sum()


def local_moves() -> np.ndarray:
    matrix = np.ones((1, 1))
    for beta in BETA:
        own = np.zeros((4, 4))
        for i in range(4):
            for k in (i - 1, i + 1):
                if 0 <= k < 4:
                    own[i, k] = 0.5 * min(1.0, np.exp(-beta * (LEVELS[k] - LEVELS[i])))
            own[i, i] = 1 - own[i].sum()
        matrix = np.kron(matrix, own)
    return matrix


def swap_round(pairs, probability) -> np.ndarray:
    """All pairs at once, each with its own test."""
    matrix = np.eye(len(STATES))
    for low, high, valid in zip(*pairs, strict=True):
        if not valid:
            continue
        one = np.zeros_like(matrix)
        for i, state in enumerate(STATES):
            log_ratio = (BETA[low] - BETA[high]) * (LEVELS[state[low]] - LEVELS[state[high]])
            other = list(state)
            other[low], other[high] = state[high], state[low]
            accepted = probability(log_ratio)
            one[i, NUMBER[tuple(other)]] += accepted
            one[i, i] += 1 - accepted
        matrix = matrix @ one
    return matrix


def distance(matrix: np.ndarray) -> float:
    """Total variation between the stationary law and the product of the rungs' laws."""
    values, vectors = np.linalg.eig(matrix.T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    return 0.5 * np.abs(law / law.sum() - product_law()).sum()


def metropolis(log_ratio: float) -> float:
    return min(1.0, np.exp(log_ratio))


def all_rounds(name: str) -> list:
    """The pairs of each round of a schedule with the same probability; of even_odd in their
    order.
    """
    schedule = make_swap_schedule(name, 3)
    if name == "even_odd":
        return [schedule.pairs(0), schedule.pairs(1)]
    if name == "random_neighbours":
        return [schedule.pairs(0, np.array([u])) for u in (0.25, 0.75)]
    return [schedule.pairs(0, np.array(u)) for u in permutations((0.1, 0.4, 0.8))]


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_keep_the_law(name):
    rounds = [swap_round(pairs, metropolis) for pairs in all_rounds(name)]
    if name == "even_odd":
        matrix = local_moves() @ rounds[0] @ local_moves() @ rounds[1]
    else:
        matrix = local_moves() @ np.mean(rounds, axis=0)
    assert distance(matrix) < 1e-12


def test_the_wrong_sign_is_caught():
    rounds = [swap_round(pairs, lambda d: metropolis(-d)) for pairs in all_rounds("even_odd")]
    assert distance(local_moves() @ rounds[0] @ local_moves() @ rounds[1]) > 0.05


def gibbs_round(change=lambda u: u) -> np.ndarray:
    matrix = np.zeros((len(STATES), len(STATES)))
    for i, state in enumerate(STATES):
        reduced = BETA[:, None] * LEVELS[list(state)][None, :]
        for row, weight in zip(
            all_assignments(3), assignment_probabilities(change(reduced)), strict=True
        ):
            matrix[i, NUMBER[tuple(state[k] for k in row)]] += weight
    return matrix


def test_gibbs_keeps_the_law():
    assert distance(local_moves() @ gibbs_round()) < 1e-12
    assert distance(local_moves() @ gibbs_round(lambda u: -u)) > 0.05
    assert distance(local_moves() @ gibbs_round(lambda u: 0.5 * u)) > 0.02


@pytest.mark.parametrize("rungs", [2, 3, 6])
def test_assignments_are_drawn_with_their_weights(rungs):
    """Drawn at even uniforms, so that frequencies are exact to one part in their number."""
    random = np.random.default_rng(rungs)
    reduced = np.cumsum(random.normal(size=(rungs, rungs)), axis=0)
    count = 2_000
    uniforms = (np.arange(count) + 0.5) / count
    own = gibbs(np.broadcast_to(reduced, (count, rungs, rungs)), uniforms)
    drawn = np.eye(rungs)[own.replica].mean(0)
    np.testing.assert_allclose(drawn, own.weights[0], atol=0.02)
    np.testing.assert_allclose(own.weights.sum(-1), 1.0, rtol=1e-12)
    np.testing.assert_allclose(own.weights.sum(-2), 1.0, rtol=1e-12)
    if rungs == 2:
        exchanged = 1 / (1 + np.exp(-(np.trace(reduced) - reduced[0, 1] - reduced[1, 0])))
        np.testing.assert_allclose(own.weights[0, 0, 1], exchanged, rtol=1e-12)


def test_a_replica_that_is_not_allowed_stays_away():
    reduced = np.array([[0.0, np.inf, 1.0], [0.0, 1.0, 2.0], [1e6, 1e6, 1e6]])
    own = gibbs(reduced, np.array(0.999999))
    assert own.weights[0, 1] == 0.0 and np.isfinite(own.weights).all() and own.replica[0] != 1


def test_seven_rungs_are_refused():
    with pytest.raises(InputError, match="at most 6"):
        gibbs(np.zeros((7, 7)), 0.5)


def test_unknown_schedule():
    with pytest.raises(InputError, match="even_odd"):
        make_swap_schedule("evenodd", 4)
    with pytest.raises(InputError, match="at least 2"):
        make_swap_schedule("even_odd", 1)


def index_process(
    schedule, rungs: int, rounds: int, acceptance: float, seed: int
) -> tuple[int, np.ndarray]:
    """Replicas that only travel: each valid pair is exchanged with one probability. Returns the
    round trips of all replicas, and the round at which the first one ends for the replica of rung 0
    (0: never).
    """
    random = np.random.default_rng(seed)
    at = np.arange(rungs)
    direction, trips, first = np.where(at == 0, 1, 0), 0, 0
    for number in range(rounds):
        low, high, valid = schedule.pairs(number, random.uniform(size=schedule.num_uniforms))
        swapped = valid & (random.uniform(size=len(low)) < acceptance)
        low, high = low[swapped], high[swapped]
        at[low], at[high] = at[high], at[low]
        direction[at[-1]] = np.where(direction[at[-1]] == 1, 2, direction[at[-1]])
        if direction[at[0]] == 2:
            trips += 1
            if at[0] == 0 and not first:
                first = number + 1
        direction[at[0]] = 1
    return trips, first


@pytest.mark.parametrize("rungs", [2, 4, 5, 8])
def test_a_round_trip_takes_two_rounds_a_rung(rungs):
    """With every swap accepted: from the bottom up R - 1 rounds, one of waiting, and the same back,
    within a period of 2R; replica 0 is at the bottom again after at most that.
    """
    trips, first = index_process(
        make_swap_schedule("even_odd", rungs), rungs, 200 * 2 * rungs, 1.0, 0
    )
    assert 0 < first <= 2 * rungs and 0 <= 200 * rungs - trips <= rungs


@pytest.mark.parametrize("acceptance", [0.8, pytest.param(0.4, marks=pytest.mark.slow)])
def test_rates_of_round_trips(acceptance):
    """1/(2 + 2Σ r/(1-r)) for even_odd, 1/(2M + 2Σ r/(1-r)) for random parity, M pairs (Syed et al.
    2021).
    """
    rungs, rounds, rejection = 8, 20_000, np.full(7, 1 - acceptance)
    rate = round_trip_rate(rejection)
    slow = 1 / (2 * 7 + 2 * np.sum(rejection / acceptance))
    for name, expected in (("even_odd", rate), ("random_neighbours", slow)):
        trips, _ = index_process(make_swap_schedule(name, rungs), rungs, rounds, acceptance, 1)
        # Round trips of different replicas exclude each other: counts are steadier than Poisson's.
        assert abs(trips - expected * rounds) < 5.5 * np.sqrt(expected * rounds), name


def test_all_matchings_have_the_same_probability():
    """Six rungs have 15 perfect matchings; chi-square over 30,000 draws, false alarm below 1e-4."""
    uniforms = np.random.default_rng(4).uniform(size=(30_000, 6))
    low, high, valid = make_swap_schedule("all_pairs", 6).pairs(0, uniforms)
    assert valid.all() and (low < high).all() and low.shape == (30_000, 3)
    matchings = np.sort(10 * low + high, axis=1)
    _, counts = np.unique(matchings, axis=0, return_counts=True)
    assert len(counts) == 15
    assert np.sum((counts - 2000) ** 2 / 2000) < chi2.isf(1e-4, 14)


@pytest.mark.parametrize("rungs", [2, 3, 4, 7, 8])
@pytest.mark.parametrize("name", SCHEDULES)
def test_shapes_and_xla(name, rungs):
    """No rung is in two pairs, those of a pair that is not valid included; TensorFlow says the same
    as NumPy.
    """
    schedule = make_swap_schedule(name, rungs)
    uniforms = np.random.default_rng(0).uniform(size=(5, schedule.num_uniforms))
    compiled = tf.function(
        lambda number, u: schedule.pairs(number, u),
        jit_compile=True,
        autograph=False,
        reduce_retracing=True,
    )
    for number in range(3):
        own = schedule.pairs(np.int64(number), uniforms)
        theirs = compiled(tf.constant(number, tf.int64), tf.constant(uniforms))
        for a, b in zip(own, theirs, strict=True):
            assert a.shape == ((rungs // 2,) if name == "even_odd" else (5, rungs // 2))
            np.testing.assert_array_equal(a, b.numpy())
        assert own.low.dtype == own.high.dtype == np.int32
        seated = np.sort(np.concatenate([own.low, own.high], axis=-1), axis=-1)
        assert (np.diff(seated, axis=-1) > 0).all()
        if name != "all_pairs":
            assert (own.high - own.low == 1)[own.valid].all()


def test_gibbs_under_xla():
    random = np.random.default_rng(2)
    reduced, uniform = random.normal(size=(7, 4, 4)), random.uniform(size=7)
    compiled = tf.function(gibbs, jit_compile=True, autograph=False)(
        tf.constant(reduced), tf.constant(uniform)
    )
    own = gibbs(reduced, uniform)
    np.testing.assert_array_equal(compiled.replica.numpy(), own.replica)
    np.testing.assert_allclose(compiled.weights.numpy(), own.weights, rtol=1e-12)
