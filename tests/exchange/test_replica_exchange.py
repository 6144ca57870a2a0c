"""Replica exchange in the engine: who swaps with whom, what changes hands, and what is written
down.

Everything here is exact, or exact up to rounding, but for a few laws at 5.5 standard errors; the
longer laws are in test_replica_laws.py.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
import pytest
from scipy.special import erfc

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.engine.limits import LIMITS, Limits
from tati_re.engine.loop import Loop
from tati_re.exchange.bookkeeping import EVENT_COLUMNS, counted, ladder_table, no_counts
from tati_re.exchange.differences import Pairs, RungTargets
from tati_re.exchange.ladder import Ladder, geometric, make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.swap_rules import Barker, Metropolis, Naive, Penalty
from tati_re.posterior.priors import Gaussian
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.step_size_tuning import StepSizeTuning
from tests.ladders import (
    Examples,
    FunctionPotential,
    NoisyEnergies,
    exchanging,
    harmonic,
    run_ladder,
)
from tests.scenarios import TOLERANCE, mean_and_error

RUNGS, LADDERS, BURNIN, STEPS, EVERY = 5, 3, 60, 400, 2
GEOMETRIC = make_ladder(num_replicas=RUNGS, temperature_ratio=1.3, step_size=0.4)
WEIGHTS = make_ladder(num_replicas=RUNGS, tempering="likelihood", step_size=0.3)
PRIOR = Gaussian(2.0)


def start_of(rungs: int, ladders: int, parameters: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rungs * ladders, parameters))


@pytest.fixture(
    scope="module",
    params=[
        "posterior",
        "likelihood",
        pytest.param("posterior, HMC", marks=pytest.mark.slow),
        "noisy energies",
    ],
)
def recorded(request):
    """400 steps of 3 ladders of 5 rungs, a row each step and a round each second one."""
    ladder = WEIGHTS if request.param == "likelihood" else GEOMETRIC
    inner = HamiltonianMonteCarlo(3) if "HMC" in request.param else Splitting("BAOAB", 1.0)
    noisy = request.param.startswith("noisy")
    rule = Penalty(target_variance=None) if noisy else Metropolis()
    method = exchanging(inner, ladder, rule, every=EVERY, ladders=LADDERS, batch_size=16)
    potential = NoisyEnergies(harmonic, 3, 0.0, 0.5) if noisy else FunctionPotential(harmonic, 3)
    potential.prior = PRIOR
    return method, run_ladder(
        method,
        potential,
        start_of(RUNGS, LADDERS, 3),
        STEPS,
        1,
        BURNIN,
        trajectory_every=1,
        execution="graph",
    )


# ------------------------------------------------------------------------------------------------------
# what is written


def test_rows_come_rung_by_rung_with_one_walker_for_each(recorded):
    """Once each replica, the rungs of a step from the target upwards, and the numbers of the ladder
    beside them.
    """
    method, run = recorded
    assert run.rows.shape[:3] == (STEPS, RUNGS, LADDERS)
    assert (run.column("rung") == np.arange(RUNGS)[:, None]).all()
    assert (np.sort(run.column("replica"), axis=1) == np.arange(RUNGS)[:, None]).all()
    np.testing.assert_allclose(run.column("temperature") / method.rungs.temperature[:, None], 1)
    assert run.columns[-2:] == ["rung", "replica"]
    assert set(run.rows[-1, :, 0, -1]) == set(range(RUNGS))


def test_a_row_and_a_position_are_of_the_same_walker(recorded):
    method, run = recorded
    positions = run.positions
    loss = 0.5 * (positions**2).sum(-1)
    rows = run.column("loss")[BURNIN:]
    np.testing.assert_allclose(rows, loss, rtol=1e-10)
    penalty = -run.column("log_prior")[BURNIN:]
    weight = method.rungs.likelihood_weight[:, None]
    np.testing.assert_allclose(
        run.column("potential")[BURNIN:], weight * loss + penalty, rtol=1e-10
    )


def test_swaps_are_written_as_they_were_made(recorded):
    """Each event against the rows: who sat where, what D is, who moved; and nothing else ever
    moves.
    """
    method, run = recorded
    found = {name: run.events[:, k] for k, name in enumerate(EVENT_COLUMNS)}
    step, low, high = (found[name].astype(int) for name in ("step", "rung_low", "rung_high"))
    walker, accepted = found["walker"].astype(int), found["accepted"].astype(int)
    assert set(step) == set(range(EVERY, STEPS + 1, EVERY)) and (high == low + 1).all()
    assert (low % 2 == (step // EVERY - 1) % 2).all()
    assert len(run.events) == STEPS // EVERY * 2 * LADDERS and set(accepted) == {0, 1}
    replica = run.column("replica").astype(int)
    before = np.concatenate(
        [np.broadcast_to(np.arange(RUNGS)[:, None], (1, RUNGS, LADDERS)), replica[:-1]]
    )
    np.testing.assert_array_equal(before[step - 1, low, walker], found["replica_low"])
    np.testing.assert_array_equal(before[step - 1, high, walker], found["replica_high"])
    after = before.copy()
    swapped = accepted == 1
    where = (step - 1)[swapped], walker[swapped]
    after[where[0], low[swapped], where[1]] = found["replica_high"][swapped]
    after[where[0], high[swapped], where[1]] = found["replica_low"][swapped]
    np.testing.assert_array_equal(after, replica)

    loss, penalty = run.column("loss"), -run.column("log_prior")
    by_replica = np.argsort(replica, axis=1)
    loss, penalty = (np.take_along_axis(values, by_replica, 1) for values in (loss, penalty))
    beta, weight = method.rungs.inverse_temperature, method.rungs.likelihood_weight

    def gap(values):
        first, second = (
            values[step - 1, found[name].astype(int), walker]
            for name in ("replica_low", "replica_high")
        )
        return first - second

    strength = beta * weight
    delta = (strength[low] - strength[high]) * gap(loss) + (beta[low] - beta[high]) * gap(penalty)
    if isinstance(method.swap_rule, Metropolis):
        np.testing.assert_allclose(found["delta"], delta, rtol=1e-9, atol=1e-12)
        assert (found["variance"] == 0).all() and (found["batch_size"] == 1).all()
    else:
        scaled = (found["delta"] - delta) / (beta[low] - beta[high])
        assert abs(np.mean(scaled**2) / (2 * 0.5) - 1) < TOLERANCE * np.sqrt(2 / len(scaled))
        told = found["variance"] / (beta[low] - beta[high]) ** 2
        assert abs(np.mean(told) - 2 * 0.5) < TOLERANCE * np.std(told) / np.sqrt(len(told))
        assert (found["batch_size"] == 16).all()


def test_the_two_tables_agree(recorded):
    """ladder.csv counts what exchange.csv and run.csv hold after the burn-in."""
    method, run = recorded
    table = method.ladder.tables(run.state)["ladder"]
    events = run.events[run.events[:, 0] > BURNIN]
    for pair in range(RUNGS - 1):
        mine = events[events[:, 1] == pair]
        assert table["attempts"][pair] == len(mine)
        assert table["acceptance"][pair] == pytest.approx(mine[:, 8].mean(), rel=1e-12)
        assert 0 < table["expected_acceptance"][pair] <= 1
        if isinstance(method.swap_rule, Metropolis):
            expected = np.exp(np.minimum(mine[:, 5], 0))
            assert table["expected_acceptance"][pair] == pytest.approx(expected.mean(), rel=1e-9)
            error = np.sqrt(np.sum(expected * (1 - expected))) / len(mine)
            assert abs(mine[:, 8].mean() - expected.mean()) < TOLERANCE * error
    assert all(
        np.isnan(table[name][-1]) for name in ("attempts", "acceptance", "expected_acceptance")
    )
    assert table["barrier"][0] == 0
    np.testing.assert_allclose(np.diff(table["barrier"]), 1 - table["expected_acceptance"][:-1])
    rounds = slice(BURNIN + EVERY - 1, None, EVERY)
    energy = run.column("loss" if method.tempers_likelihood else "potential")[rounds]
    # The energy counted is that of the replica at the rung before the swap: the sum over all rungs
    # is the same.
    assert table["mean_potential"].sum() == pytest.approx(energy.mean((0, 2)).sum(), rel=1e-9)
    np.testing.assert_allclose(table["temperature"], method.rungs.temperature)
    np.testing.assert_allclose(table["likelihood_weight"], method.rungs.likelihood_weight)
    assert [len(column) for column in table.values()] == [RUNGS] * 12
    trips, restarts = table["round_trips"][0], table["restarts"][0]
    assert 0 < trips <= restarts
    assert (trips, restarts) == travels(run.column("replica")[rounds])


def travels(replica: np.ndarray) -> tuple[int, int]:
    """Round trips and restarts of `(rounds, rungs, ladders)` replicas, by a walk along each of
    their paths.
    """
    trips = restarts = 0
    for ladder in range(replica.shape[2]):
        for who in range(replica.shape[1]):
            path = np.argmax(replica[:, :, ladder] == who, axis=1)
            ends = path[(path == 0) | (path == replica.shape[1] - 1)]
            ends = ends[np.concatenate([[True], np.diff(ends) != 0])] if len(ends) else ends
            restarts += int(((ends[1:] == 0) & (ends[:-1] > 0)).sum())
            trips += int(((ends[2:] == 0) & (ends[:-2] == 0)).sum())
    return trips, restarts


def test_round_trips_of_a_path_by_hand():
    """Three rungs; a replica's path and when it has restarted or come round."""
    path = [1, 2, 1, 0, 1, 0, 1, 2, 2, 1, 0, 0, 2, 0]
    restarts = [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 3]
    round_trips = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2]
    pairs = Pairs(tf.constant([[0]]), tf.constant([[1]]), tf.constant([[True]]))
    one = tf.ones((1, 1), tf.float64)

    def go(counts, rung, counting=True):
        energy = tf.constant([[1.0, 2.0, 3.0]], tf.float64)
        at = tf.constant([rung])
        return counted(
            counts, pairs, tf.constant([[True]]), 0.25 * one, energy, at, tf.constant(counting)
        )

    counts = no_counts(3, 1)
    for rung, restart, trip in zip(path, restarts, round_trips, strict=True):
        counts = go(counts, rung)
        assert (counts.restarts.numpy()[0], counts.round_trips.numpy()[0]) == (restart, trip)
    assert list(counts.attempts.numpy()) == [len(path), 0]
    assert list(counts.accepted.numpy()) == [len(path), 0]
    assert list(counts.expected.numpy()) == [len(path) / 4, 0]
    quiet = no_counts(3, 1)
    for rung in path:
        quiet = go(quiet, rung, counting=False)
    assert all((values.numpy() == 0).all() for values in quiet)
    energies = ladder_table(
        RungTargets(np.array([1.0, 0.5, 0.25]), np.ones(3)), np.ones(3), counts
    )["mean_potential"]
    np.testing.assert_allclose(energies, [1.0, 2.0, 3.0])
    table = RungTargets(np.array([1.0, 0.5, 0.25]), np.ones(3)), np.ones(3), counts
    for factor in (1.0, 4.0):
        expected = erfc(0.5 * np.sqrt(np.array([0.5, 0.25]) / factor))
        np.testing.assert_allclose(
            ladder_table(*table, factor)["predicted_acceptance"][:-1], expected
        )


def test_ladders_are_independent():
    """Different numbers, and correlations of 0 between the walkers of one rung of two ladders that
    start alike.
    """
    method = exchanging(HamiltonianMonteCarlo(6), GEOMETRIC, every=1, ladders=4)
    start = np.repeat(start_of(RUNGS, 1, 2), 4, axis=0)
    potential = run_ladder(method, FunctionPotential(harmonic, 2), start, 2_000, 1).column(
        "potential"
    )
    assert (potential[0].std(axis=1) > 0).all()
    for rung in range(RUNGS):
        correlations = np.corrcoef(potential[:, rung].T) - np.eye(4)
        assert np.abs(correlations).max() < TOLERANCE / np.sqrt(len(potential) / 2)


# ------------------------------------------------------------------------------------------------------------
# who swaps


@pytest.mark.parametrize(
    "rungs", [pytest.param(2, marks=pytest.mark.slow), 5, pytest.param(6, marks=pytest.mark.slow)]
)
def test_at_one_temperature_all_swaps_are_accepted_and_a_round_trip_takes_2m_rounds(rungs):
    rounds = 40 * rungs
    ladder = Ladder(np.ones(rungs), np.ones(rungs), np.full(rungs, 0.1))
    method = exchanging(Splitting("BAOAB"), ladder, every=1, ladders=2)
    run = run_ladder(
        method,
        FunctionPotential(harmonic, 1),
        start_of(rungs, 2, 1),
        rounds,
        rounds,
        execution="graph",
    )
    assert (run.events[:, 8] == 1).all() and np.abs(run.events[:, 5]).max() == 0
    trips = run.state.rungs.counts.round_trips.numpy()
    # The first trip of a replica begins when it is first at rung 0.
    np.testing.assert_allclose(rounds / (trips + 1), 2 * rungs, rtol=0.05)


def test_a_cold_replica_that_is_lower_in_energy_stays():
    """D = (β - β')(U - U') with U = 0 and 50: e^-25 = 1e-11; the other way round the swap is as
    good as certain.
    """
    ladder = make_ladder(temperatures=[1.0, 2.0], step_size=1e-9)
    method = exchanging(Splitting("BAOAB"), ladder, every=1, ladders=2)
    start = np.array([[0.0], [10.0], [10.0], [0.0]])
    events = run_ladder(
        method, FunctionPotential(harmonic, 1), start, 1, 1, execution="graph"
    ).events
    np.testing.assert_allclose(events[:, 5], [-25.0, 25.0], rtol=1e-6)
    assert list(events[:, 8]) == [0, 1]
    for rule in (Metropolis(), Barker()):
        chances = np.asarray(rule.expected(events[:, 5], np.zeros(2), np.full(2, 1e15)))
        assert chances[0] < 1e-6 and chances[1] > 1 - 1e-6


@pytest.mark.parametrize("schedule", ["even_odd", "random_neighbours", "all_pairs"])
@pytest.mark.parametrize("rungs", [pytest.param(4, marks=pytest.mark.slow), 5])
def test_every_schedule_pairs_a_rung_at_most_once(schedule, rungs):
    ladder = make_ladder(num_replicas=rungs, temperature_ratio=1.2, step_size=0.3)
    method = exchanging(Splitting("BAOAB"), ladder, every=1, ladders=3, schedule=schedule)
    run = run_ladder(
        method, FunctionPotential(harmonic, 2), start_of(rungs, 3, 2), 60, 1, execution="graph"
    )
    low, high, step, walker = (run.events[:, k].astype(int) for k in (1, 2, 0, 9))
    assert (low < high).all() and (high < rungs).all() and (low >= 0).all()
    seen = np.concatenate([np.stack([step, walker, rung]) for rung in (low, high)], axis=1)
    assert len(np.unique(seen, axis=1).T) == 2 * len(low)
    assert (np.sort(run.column("replica"), axis=1) == np.arange(rungs)[:, None]).all()
    pairs = set(zip(low, high, strict=True))
    if schedule == "all_pairs":
        assert len(pairs) == rungs * (rungs - 1) // 2
    else:
        assert pairs == {(rung, rung + 1) for rung in range(rungs - 1)}
    choice = [
        {(w, r) for w, r in zip(walker[step == s], low[step == s], strict=True)}
        for s in range(1, 61)
    ]
    same = [len({frozenset(r for w, r in at if w == k) for k in range(3)}) == 1 for at in choice]
    assert all(same) == (schedule == "even_odd")


def test_without_exchange_every_replica_stays_at_its_rung():
    method = exchanging(Splitting("BAOAB"), GEOMETRIC, None, ladders=LADDERS)
    run = run_ladder(
        method,
        FunctionPotential(harmonic, 1),
        start_of(RUNGS, LADDERS, 1),
        50,
        1,
        execution="graph",
    )
    assert (run.column("replica") == np.arange(RUNGS)[:, None]).all() and not len(run.events)
    assert method.get_config()["exchange"] == "none"
    table = method.ladder.tables(run.state)["ladder"]
    assert np.isnan(table["acceptance"]).all() and (table["round_trips"] == 0).all()


# ---------------------------------------------------------------------------------------------------
# what changes hands


def quartic(position):
    return 0.25 * tf.reduce_sum(position**4, -1)


@pytest.mark.parametrize(
    "tempering", ["posterior", pytest.param("likelihood", marks=pytest.mark.slow)]
)
def test_step_sizes_belong_to_the_rung(tempering):
    sizes = [0.4, 0.3, 0.25, 0.2]
    spacing = {"temperature_ratio": 1.1} if tempering == "posterior" else {}
    ladder = make_ladder(num_replicas=4, tempering=tempering, step_sizes=sizes, **spacing)
    method = exchanging(Splitting("BAOAB"), ladder, every=1, ladders=2)
    potential = FunctionPotential(harmonic, 1, Gaussian(1.0))
    run = run_ladder(method, potential, start_of(4, 2, 1), 60, 1, execution="graph")
    assert (run.column("step_size") == np.array(sizes)[:, None]).all()
    assert run.events[:, 8].sum() > 20


@pytest.mark.slow
def test_tuned_step_sizes_belong_to_the_rung_and_freeze():
    """On a quartic well the acceptance of HMC depends on the energy: hot rungs need smaller steps,
    T^(-1/4).
    """
    ladder = make_ladder(num_replicas=4, temperature_ratio=2.0, step_size=0.5)
    method = exchanging(StepSizeTuning(HamiltonianMonteCarlo(3), 0.8), ladder, every=1, ladders=20)
    start = np.repeat(2.0 ** (np.arange(4) / 4), 20)[:, None] * start_of(4, 20, 4)
    run = run_ladder(method, FunctionPotential(quartic, 4), start, 1_000, 1, 600)
    sizes = run.column("step_size")
    assert (sizes == sizes[:, :, :1]).all()
    frozen = sizes[600:]
    assert (frozen == frozen[:1]).all() and len(np.unique(sizes[:600, 0, 0])) > 500
    np.testing.assert_allclose(frozen[0, :, 0] * 2 ** (np.arange(4) / 4), frozen[0, 0, 0], rtol=0.1)
    np.testing.assert_allclose(run.column("acceptance")[600:].mean((0, 2)), 0.8, atol=0.05)
    assert run.events[run.events[:, 0] > 600, 8].mean() > 0.2


def test_an_acceptance_belongs_to_the_rung_that_made_it():
    """One rung with steps so small that everything is accepted, one with steps of 1.5; the same
    temperature, so that they swap after each trajectory, and would show each other's acceptance.
    """
    ladder = Ladder(np.ones(2), np.ones(2), np.array([1e-3, 1.5]))
    method = exchanging(HamiltonianMonteCarlo(3), ladder, every=1, ladders=20, schedule="all_pairs")
    run = run_ladder(
        method, FunctionPotential(harmonic, 20), start_of(2, 20, 20), 100, 1, execution="graph"
    )
    assert run.events[:, 8].mean() == 1.0
    acceptance = run.column("acceptance")
    assert acceptance[:, 0].min() > 0.999 and acceptance[:, 1].mean() < 0.9


class ByWalker(Splitting):
    """The thermostat stays with the walker: a wrong variant."""

    def __init__(self, *arguments) -> None:
        super().__init__(*arguments)
        self.of_rung = ()


def thermostats(sampler, num_steps):
    """Mean ξ of each rung with its error under gradient noise of variance 16, from 200 ladders."""
    ladder = make_ladder(temperatures=[1.0, 2.0, 4.0], step_size=0.1)
    method = exchanging(sampler, ladder, every=1, ladders=200)
    noisy = NoisyEnergies(harmonic, 1, 16.0, 0.0, seed=5)
    noisy.bind = lambda rung, batch=None, auxiliary=(), clock=None: exactly(noisy, rung, clock)
    start = np.repeat([1.0, 2.0, 4.0], 200)[:, None] ** 0.5 * start_of(3, 200, 1)
    run = run_ladder(method, noisy, start, num_steps, 10)
    assert run.events[:, 8].mean() > 0.5
    later = run.column("thermostat")[num_steps // 30 :]
    return [mean_and_error(later[:, rung].mean(axis=0)) for rung in range(3)]


def exactly(potential, rung, clock):
    bound = type(potential).bind(potential, rung, None, (), clock)
    bound.exact = True
    return bound


@pytest.mark.slow
def test_the_thermostat_stays_with_the_rung():
    """BADODAB with bath noise 2 γ T: ξ has the mean γ + hΣ/(2T), 1.8, 1.4, 1.2."""
    for (mean, error), temperature in zip(
        thermostats(Splitting("BADODAB", 1.0, 3.0), 3_000), (1, 2, 4), strict=True
    ):
        print(f"{mean:.4f} +- {error:.4f}")
        assert abs(mean - (1 + 0.8 / temperature)) < TOLERANCE * error + 0.003
        assert error < 0.04


@pytest.mark.slow
def test_a_thermostat_that_stays_with_the_walker_is_caught():
    found = thermostats(ByWalker("BADODAB", 1.0, 3.0), 1_500)
    assert (
        max(
            abs(mean - (1 + 0.8 / t)) / error
            for (mean, error), t in zip(found, (1, 2, 4), strict=True)
        )
        > 11
    )


# -------------------------------------------------------------------------------------------------
# a ladder that adapts


def stiff_and_soft(position):
    """Harmonic at the bottom, linear above: C_V rises from 1/2 to 1 for each parameter."""
    return 3.0 * tf.reduce_sum(tf.sqrt(1.0 + position**2) - 1.0, -1)


def adapting(num_steps, burnin):
    ladder = make_ladder(temperatures=[0.3, 0.32, 0.35, 0.4, 0.5, 4.0], step_size=0.5)
    method = exchanging(HamiltonianMonteCarlo(3), ladder, every=1, ladders=20, adapt=True)
    start = 0.5 * start_of(6, 20, 16)
    return run_ladder(method, FunctionPotential(stiff_and_soft, 16), start, num_steps, 1, burnin)


def test_a_ladder_adapts_in_the_burn_in_alone_until_all_pairs_reject_alike():
    run = adapting(900, 600)
    temperature = run.column("temperature")
    assert (temperature == temperature[:, :, :1]).all()
    temperature = temperature[:, :, 0]
    np.testing.assert_allclose(temperature[:, [0, -1]], [[0.3, 4.0]] * len(temperature), rtol=1e-12)
    changed = 1 + np.flatnonzero((np.diff(temperature, axis=0) != 0).any(axis=1))
    np.testing.assert_array_equal(changed + 1, 2 ** np.arange(4, 10))
    assert (np.diff(temperature, axis=1) > 0).all()
    events = run.events[run.events[:, 0] > 600]
    rejection = [
        1 - np.exp(np.minimum(events[events[:, 1] == pair, 5], 0)).mean() for pair in range(5)
    ]
    early = run.events[run.events[:, 0] <= 16]
    before = [1 - np.exp(np.minimum(early[early[:, 1] == pair, 5], 0)).mean() for pair in range(5)]
    print(np.round(before, 3), np.round(rejection, 3))
    assert np.ptp(before) > 0.5 and np.ptp(rejection) < 0.04
    # No geometric ladder: where the heat capacity is higher rungs are nearer.
    ratio = temperature[-1, 1:] / temperature[-1, :-1]
    print(ratio)
    assert ratio[-1] < 0.95 * ratio[0]


@pytest.mark.slow
def test_a_ladder_of_weights_adapts_too():
    """20 parameters at a likelihood that says 50 times what the prior says: even in log(λ +
    1/50).
    """
    method = exchanging(
        HamiltonianMonteCarlo(4),
        make_ladder(num_replicas=8, tempering="likelihood", step_size=0.1),
        every=1,
        ladders=20,
        adapt=True,
    )
    potential = FunctionPotential(lambda x: 25.0 * tf.reduce_sum(x * x, -1), 20, Gaussian(1.0))
    run = run_ladder(method, potential, 0.2 * start_of(8, 20, 20), 900, 100, 600)
    weight = run.state.rungs.table.likelihood_weight.numpy()
    assert weight[0] == 1 and weight[-1] == 0
    table = method.ladder.tables(run.state)["ladder"]
    rejection = 1 - table["expected_acceptance"][:-1]
    print(np.round(rejection, 3))
    assert np.ptp(rejection) < 0.08
    steps = np.diff(np.log(weight + 1 / 50))
    np.testing.assert_allclose(steps, steps.mean(), rtol=0.2)


# -------------------------------------------------------------------------------------------------
# one law, one program


CASES = {
    "metropolis": (lambda: Splitting("BADODAB"), Metropolis(), GEOMETRIC, "even_odd"),
    "penalty": (lambda: Splitting("BAOAB"), Penalty(target_variance=0.5), GEOMETRIC, "all_pairs"),
    "likelihood": (
        lambda: StepSizeTuning(HamiltonianMonteCarlo(2)),
        Metropolis(),
        WEIGHTS,
        "even_odd",
    ),
}


def executed(case: str, execution: str, num_steps: int = 6, limits: Limits = LIMITS):
    inner, rule, ladder, schedule = CASES[case]
    method = exchanging(
        inner(), ladder, rule, every=1, ladders=2, schedule=schedule, batch_size=4, adapt=True
    )
    potential = FunctionPotential(harmonic, 3)
    if not rule.exact:
        potential = Examples(np.random.default_rng(4).normal(size=(40, 3)))
    potential.prior = PRIOR
    start = start_of(RUNGS, 2, 3)
    return run_ladder(
        method,
        potential,
        start,
        num_steps,
        2,
        5,
        execution=execution,
        trajectory_every=3,
        limits=limits,
    )


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case == "metropolis" else pytest.mark.slow) for case in CASES],
)
def test_every_execution_gives_the_same_numbers(case):
    graph = executed(case, "graph")
    for execution, tolerance in (("eager", 1e-11), ("xla", 1e-8)):
        found = executed(case, execution)
        for name in ("rows", "events", "positions"):
            np.testing.assert_allclose(
                getattr(found, name), getattr(graph, name), rtol=tolerance, atol=tolerance
            )
    assert 0 < graph.events[:, 8].mean() < 1


@pytest.mark.slow
def test_a_run_is_traced_and_compiled_once(monkeypatch):
    """Later chunks take less time in all than the compilation in the first call."""
    loops, seconds, run = [], [], Loop.run

    def timed(self, *arguments):
        begin = perf_counter()
        chunk = run(self, *arguments)
        seconds.append(perf_counter() - begin)
        loops.append(self)
        return chunk

    monkeypatch.setattr(Loop, "run", timed)
    executed("metropolis", "xla", 90, Limits(most_steps=9))
    assert len(seconds) == 10 and all(loop.traces <= 2 for loop in loops)
    assert sum(seconds[1:]) < seconds[0]


# --------------------------------------------------------------------------------------------------------------
# refused


def test_walkers_that_move_in_turn_have_one_temperature():
    with pytest.raises(InputError, match=r"^num_replicas: an ensemble whose halves take turns"):
        exchanging(EnsembleQuasiNewton(), GEOMETRIC)


def test_the_configuration_tells_ladder_and_rule():
    config = exchanging(Splitting("BADODAB"), GEOMETRIC, Naive(), schedule="all_pairs").get_config()
    assert (config["num_replicas"], config["swap_rule"], config["swap_schedule"]) == (
        5,
        "naive",
        "all_pairs",
    )
    assert config["sampler"] == "BADODAB" and config["temperatures"] == pytest.approx(
        1.3 ** np.arange(5)
    )


def test_a_ladder_of_ones_own_in_a_run_of_a_simulation():
    """Its pairs are even and odd by default; temperature, step size and walkers are those of the
    run or refused.
    """
    sim = Simulation(
        data="two_clusters", num_walkers=2, dtype="float64", execution="graph", verbose=0
    )
    given = {"step_size": 0.001, "num_steps": 4}
    own = ReplicaExchange(
        Splitting(), geometric(3, temperature_ratio=2.0, step_size=0.001), Metropolis(), None, 2, 2
    )
    run = sim.sample(sampler=own, **given)
    assert run.manifest["method"]["swap_schedule"] == "even_odd"
    assert run.ladder["temperature"].tolist() == [1.0, 2.0, 4.0] and run.ladder[
        "attempts"
    ].tolist()[:2] == [2, 2]
    for wrong in ({"temperature": 3.0}, {"step_size": 0.002}):
        with pytest.raises(InputError, match=r"ladder starts at .*Expected: \(1, 0.001\)"):
            sim.sample(sampler=own, **given | wrong)
    with pytest.raises(
        InputError, match=r"num_walkers: this sampler defines its own temperature ladder"
    ):
        sim.sample(sampler=ReplicaExchange(Splitting(), own.rungs, Metropolis()), **given)
