"""Where replicas start: with the walkers, newly initialized, at the end of a descent, or where they
are told to.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tati_re import InputError, Simulation
from tati_re.launch.starts import fresh_starts

RUNGS, WALKERS = 3, 2
LADDER = {"num_replicas": RUNGS, "temperature_ratio": 1.5}
# Three steps take less time one by one than their compilation.
SMALL = {
    "data": "two_clusters",
    "hidden": [4],
    "dtype": "float64",
    "execution": "eager",
    "verbose": 0,
    "seed": 1,
}
SMALL["walker_evaluation"] = "unrolled"  # A vectorized map is traced at each eager step.
STEPS = {
    "sampler": "HMC",
    "num_leapfrog_steps": 2,
    "step_size": 1e-9,
    "num_steps": 3,
    "record_every": 1,
}
"""Steps so small that the walkers stay where they start."""


def simulation(**options) -> Simulation:
    return Simulation(
        **{**SMALL, **LADDER, **STEPS, "trajectory_every": 1, "trajectory_rungs": "all", **options}
    )


def started(run, parameters: int) -> np.ndarray:
    """First positions, `(replicas, walkers, parameters)`: without swaps replica r is at rung r."""
    rows = run.trajectory
    first = rows[rows["step"] == rows["step"].min()].sort_values(["rung", "walker"])
    names = [name for name in first.columns if "[" in name]
    return first[names].to_numpy().reshape(RUNGS, -1, parameters)


def test_by_default_all_rungs_start_where_the_walkers_are():
    sim = simulation(num_walkers=WALKERS, exchange="none")
    sim.parameters = np.random.default_rng(0).standard_normal((WALKERS, sim.num_parameters()))
    there = started(sim.sample(), sim.num_parameters())
    np.testing.assert_allclose(there, np.broadcast_to(there[0], there.shape), atol=1e-7)


def test_given_starts_are_taken_in_the_order_of_the_rungs():
    sim = simulation(num_walkers=WALKERS, exchange="none")
    starts = np.random.default_rng(0).standard_normal((RUNGS, WALKERS, sim.num_parameters()))
    np.testing.assert_allclose(
        started(sim.sample(starts=starts), sim.num_parameters()), starts, atol=1e-7
    )
    one = simulation(exchange="none")
    np.testing.assert_allclose(
        started(one.sample(starts=starts[:, 0]), one.num_parameters()), starts[:, :1], atol=1e-7
    )


def test_starts_without_a_ladder_move_the_walkers_for_this_run():
    sim = Simulation(**SMALL, **STEPS, num_walkers=WALKERS)
    starts = np.random.default_rng(0).standard_normal((1, WALKERS, sim.num_parameters()))
    sim.sample(starts=starts)
    np.testing.assert_allclose(sim.parameters, starts[0], atol=1e-7)


@pytest.mark.parametrize(
    "given",
    [
        {},
        pytest.param(
            {"sampler": "auto", "step_size": "auto", "num_steps": 40}, marks=pytest.mark.slow
        ),
    ],
)
def test_walkers_with_starts_are_not_said_to_begin_elsewhere_nor_fitted(given, capsys):
    options = {**SMALL, **STEPS, "verbose": 1} | given
    sim = Simulation(**options, num_walkers=WALKERS, walker_start="fit", fit_steps=20)
    starts = np.random.default_rng(0).standard_normal((1, WALKERS, sim.num_parameters()))
    sim.sample(starts=starts)
    said = capsys.readouterr().out
    assert "adam" not in said and "Start:" not in said
    assert ("2 chains from the given starts" in said) == bool(given)


def test_fresh_starts_are_uniform_by_fan_in_and_differ():
    """The bounds are 1/sqrt(3) for 12 parameters and 1/sqrt(5) for the others; 3 % would show in
    60,000 numbers.
    """
    names, shapes = ["dense/kernel", "dense/bias", "dense_1/kernel"], [(2, 4), (4,), (4, 2)]
    drawn = fresh_starts(names, shapes, 5_000, seed=3)
    for part, k in ((drawn[:, :12], 3), (drawn[:, 12:], 5)):
        law = stats.uniform(-1 / np.sqrt(k), 2 / np.sqrt(k))
        assert stats.kstest(part.ravel(), law.cdf).pvalue > 1e-4
        assert stats.kstest(1.03 * part.ravel(), law.cdf).pvalue < 1e-4
    assert abs(np.corrcoef(drawn[:-1].ravel(), drawn[1:].ravel())[0, 1]) < 5.5 / np.sqrt(drawn.size)
    np.testing.assert_array_equal(fresh_starts(names, shapes, 7, seed=3), drawn[:7])


def test_a_run_starts_fresh_with_every_replica_and_walker():
    sim = simulation(num_walkers=WALKERS, exchange="none", replica_start="fresh")
    there = started(sim.sample(), sim.num_parameters())
    shapes = [(2, 4), (4,), (4, 1), (1,)]
    names = ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
    expected = fresh_starts(names, shapes, RUNGS * WALKERS, seed=1)
    np.testing.assert_allclose(there.reshape(RUNGS * WALKERS, -1), expected, atol=1e-7)
    again = started(sim.sample(seed=2), sim.num_parameters())
    assert np.abs(again - there).max() > 0.1


@pytest.mark.parametrize("execution", ["graph", pytest.param("xla", marks=pytest.mark.slow)])
def test_the_descent_arrives_where_fire_does(execution):
    """The same fresh starts under `fit` with the same optimizer; on the full batch also where the
    run has batches.
    """
    options = {
        "sampler": "BAOAB",
        "batch_size": 50,
        "replica_start": "descent",
        "descent_steps": 60,
    }
    sim = simulation(exchange="none", execution=execution, **options)
    there = started(sim.sample(), sim.num_parameters())[:, 0]
    fresh = started(sim.sample(replica_start="fresh", call=1), sim.num_parameters())[:, 0]
    descent = Simulation(**SMALL | {"execution": "graph"}, num_walkers=RUNGS)
    descent.parameters = fresh
    before = descent.potential()
    descent.fit(optimizer="fire", learning_rate=0.1, num_steps=60)
    np.testing.assert_allclose(there, descent.parameters, atol=1e-5)
    assert (descent.potential() < before - 1).all()


@pytest.mark.slow
def test_a_descent_is_repeated_by_its_seed_and_resumed(tmp_path):
    options = {
        "replica_start": "descent",
        "descent_steps": 20,
        "step_size": 0.05,
        "execution": "graph",
    }
    whole = simulation(**options).sample(num_steps=6, output=str(tmp_path / "whole"))
    simulation(**options).sample(num_steps=3, output=str(tmp_path / "half"))
    resumed = Simulation.resume(str(tmp_path / "half"), num_steps=6)
    assert resumed.run_info.equals(whole.run_info)
    for name, value in (
        ("starts", np.zeros((RUNGS, 1, 2))),
        ("replica_start", "fresh"),
        ("descent_steps", 3),
    ):
        with pytest.raises(InputError, match=f"resume: {name} cannot be changed"):
            Simulation.resume(str(tmp_path / "half"), num_steps=9, **{name: value})


def test_a_run_with_given_starts_is_resumed_without_them(tmp_path):
    starts = np.random.default_rng(5).standard_normal((RUNGS, 1, simulation().num_parameters()))
    options = {"starts": starts, "step_size": 0.05}
    whole = simulation().sample(num_steps=6, output=str(tmp_path / "whole"), **options)
    simulation().sample(num_steps=3, output=str(tmp_path / "half"), **options)
    assert Simulation.resume(str(tmp_path / "half"), num_steps=6).run_info.equals(whole.run_info)


def test_what_is_no_start_is_refused():
    sim = simulation(num_walkers=WALKERS)
    shape = (RUNGS, WALKERS, sim.num_parameters())
    with pytest.raises(
        InputError,
        match=r"starts: wrong shape. Received: \(2, \d+\). Expected: \(3, 2, \d+\): rungs",
    ):
        sim.sample(starts=np.zeros(shape[1:]))
    with pytest.raises(InputError, match="starts: not all values are finite numbers"):
        sim.sample(starts=np.full(shape, np.nan))
    with pytest.raises(InputError, match="starts and replica_start both set where replicas start"):
        sim.sample(starts=np.zeros(shape), replica_start="fresh")
    with pytest.raises(InputError, match="starts applies only to sample"):
        sim.fit(starts=np.zeros(shape))
    with pytest.raises(InputError, match="replica_start has an unknown value"):
        sim.sample(replica_start="decent")


def test_what_is_not_used_is_said(capsys):
    sim = Simulation(**{**SMALL, **STEPS, "verbose": 2}, replica_start="fresh")
    sim.sample()
    assert "Not used by HMC with these settings: replica_start." in capsys.readouterr().out
