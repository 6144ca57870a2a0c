"""What averages are over: rows that were drawn, of the target, at one temperature."""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation, analyse
from tati_re.analysis import averages, parameter_averages, reweight
from tati_re.core.backend import tf
from tati_re.samplers import HamiltonianMonteCarlo, SimulatedTempering
from tests.made_runs import made_run

QUICK = {"execution": "graph", "record_every": 1}


def well(walkers: int = 4) -> Simulation:
    """U = (x² + 4 y²)/2."""

    def potential(x):
        return 0.5 * tf.reduce_sum(tf.constant([1.0, 4.0], x.dtype) * x**2, -1)

    return Simulation(potential=potential, dimension=2, num_walkers=walkers, seed=3, verbose=0)


def test_rows_of_an_exploration_enter_no_average():
    """A cyclical schedule descends at temperature 0 in the first part of each cycle: 40 % of the
    rows, U near 0.
    """
    run = well().sample(
        sampler="BAOAB",
        step_size=0.5,
        step_schedule="cyclical",
        cycle_steps=40,
        exploration_fraction=0.4,
        num_steps=800,
        num_burnin_steps=40,
        trajectory_every=10,
        **QUICK,
    )
    rows = run.run_info.query("step > 40")
    assert 0.3 < (rows["temperature"] == 0).mean() < 0.5
    wanted = rows[rows["temperature"] > 0]["potential"].mean()
    found = averages(run, ["potential"]).iloc[0]
    assert found["mean"] == pytest.approx(wanted) and wanted > 1.4 * rows["potential"].mean()
    assert f"{wanted:.3g}" in str(run.summary())
    assert np.isfinite(reweight(run, temperatures=[1.0])["mean"]).all()


@pytest.mark.parametrize("bias", ["none", pytest.param("well_tempered", marks=pytest.mark.slow)])
def test_means_of_parameters_are_the_targets_where_all_rungs_are_stored(bias):
    run = well(3).sample(
        sampler="HMC",
        num_leapfrog_steps=5,
        step_size=0.35,
        temperatures=[1.0, 4.0],
        trajectory_rungs="all",
        bias=bias,
        num_steps=200,
        num_burnin_steps=100,
        trajectory_every=1,
        **QUICK,
    )
    assert run.moments.mean.shape == (3, 2)
    stored = run.trajectory.query("rung == 0 and step > 100")
    counts = stored["weight"] if "weight" in stored else np.ones(len(stored))
    x = stored[["x[0]", "x[1]"]]
    wanted = np.average(x, axis=0, weights=counts)
    np.testing.assert_allclose(run.parameters("mean"), wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(parameter_averages(run)["mean"], wanted, rtol=1e-4, atol=1e-6)
    with pytest.raises(InputError, match="a walker from 0 to 2"):
        run.parameters("mean", walker=3)


def test_rows_at_several_temperatures_are_not_reweighted_as_one():
    schedule = {"temperature_schedule": [(0, 8.0), (60, 4.0), (80, 1.0)]}
    hmc = {
        "sampler": "HMC",
        "step_size": 0.35,
        "num_leapfrog_steps": 5,
        "num_steps": 100,
        "num_burnin_steps": 20,
    }
    for ladder in ({}, {"temperatures": [1.0, 2.0]}):
        run = well().sample(**hmc, **ladder, **schedule, **QUICK)
        with pytest.raises(InputError, match="must have been sampled at one temperature"):
            reweight(run, temperatures=[1.0])


def test_expected_energies_beside_averages_at_the_target_are_the_targets():
    sampler = SimulatedTempering(
        HamiltonianMonteCarlo(5), inverse_temperatures=[1.0, 0.5, 0.25], move_every=2
    )
    run = well(6).sample(
        sampler=sampler, step_size=0.35, num_steps=120, num_burnin_steps=40, **QUICK
    )
    assert run.run_info["temperature"].nunique() == 3
    assert (
        set(run.averages["expected_kinetic_energy"])
        == set(run.averages["expected_virial"])
        == {1.0}
    )
    counts = run.run_info.query("weight > 0").groupby("walker").size()
    said = str(run.summary())
    assert f"{counts.min()} to {counts.max()} rows each" in said
    wanted = run.run_info.query("step > 40 and weight > 0")["potential"].mean()
    assert f"potential (mean)             {wanted:.2g}" in said


@pytest.mark.parametrize("name", ["weight", "rung", "replica", "walker"])
def test_observables_may_not_be_named_as_columns_that_choose_rows(name):
    with pytest.raises(
        InputError, match=f"a column of run.csv already has this name. Received: {name}"
    ):
        well().sample(sampler="HMC", num_steps=10, observables={name: lambda p: p[:, 1]}, **QUICK)


def test_a_temperature_that_changes_after_the_burn_in_is_told(capsys):
    asked = {"sampler": "BAOAB", "step_size": 0.5, "num_steps": 400, "verbose": 1, **QUICK}
    schedule = {"temperature_schedule": [(1, 20.0), (300, 1.0)]}
    well().sample(num_burnin_steps=100, **schedule, **asked)
    assert "continues after the burn-in, from 20 to 1. Averages and predictions mix" in " ".join(
        capsys.readouterr().out.split()
    )
    well().sample(num_burnin_steps=300, **schedule, **asked)
    assert "after the burn-in" not in capsys.readouterr().out
    explores = {"step_schedule": "cyclical", "cycle_steps": 10_000, "exploration_fraction": 0.9}
    well().sample(num_burnin_steps=10, **explores, **asked)
    assert "explore at temperature 0, so there are no draws" in " ".join(
        capsys.readouterr().out.split()
    )


def tempered_by_hand(folder, left=(300, 300, 2, 0), rows=300):
    """A run of four walkers under simulated tempering, at the target in so many of the last rows
    each.
    """
    generator = np.random.default_rng(1)
    there = np.arange(rows) >= rows - np.array(left)[:, None]
    energies = 0.5 * generator.chisquare(5, (3, len(left), rows)) * np.where(there, 1.0, 4.0)
    columns = {"potential": energies[0], "kinetic_energy": energies[1], "virial": energies[2]}
    columns |= {"temperature": np.where(there, 1.0, 4.0), "rung": ~there, "weight": there}
    return (
        made_run(folder, columns, shapes={"x": (5,)}, extra={"prior_proper": True}),
        there,
        energies,
    )


def test_a_walker_that_is_hardly_at_the_target_hides_no_numbers(tmp_path):
    """One such walker left the summary of all without a number, and a walker never there was not
    counted.
    """
    run, there, energies = tempered_by_hand(tmp_path / "a")
    said = str(run.summary())
    assert (
        "Fewer than 4 rows" not in said
        and "walkers                      4, 0 to 300 rows each" in said
    )
    for label, wanted in (
        ("potential (mean)", energies[0]),
        ("kinetic temperature", 2 * energies[1] / 5),
    ):
        number = float(said.split(f"\n{label} ")[1].split()[0])
        assert number == pytest.approx(wanted[there].mean(), abs=0.01)
    # Of independent draws, none of them from the last walker, which made the error one of short
    # chains.
    run, there, energies = tempered_by_hand(tmp_path / "b", (300, 300, 250, 0))
    found = averages(run, ["potential"]).iloc[0]
    assert not found["short"] and found["note"] == "" and found["autocorrelation_steps"] < 20
    assert found["error"] == pytest.approx(energies[0][there].std() / np.sqrt(there.sum()), rel=0.2)
    assert "Fewer than 4 rows" in str(tempered_by_hand(tmp_path / "few", (2, 1, 0, 0))[0].summary())


def test_gaps_have_no_autocorrelation(tmp_path):
    """Rows before and after a gap are no neighbors: figures of ranks and correlations were of rows
    as if they were.
    """
    run, _, _ = tempered_by_hand(tmp_path / "a", (300, 200, 100, 20))
    assert [axes.get_xlabel() for axes in run.plot("potential").axes] == ["step"]
    assert "autocorrelation" not in analyse(run, ["averages"])["averages"].figures
