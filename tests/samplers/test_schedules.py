"""Schedules of step size and temperature: their formulas, their columns, their resume, and bad
input.
"""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.errors import InputError
from tati_re.options.make import make_options
from tati_re.samplers import schedules
from tests.systems import tables

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(40, 2))
Y = X @ [1.0, -0.5] + 0.1 * RANDOM.normal(size=40)


def simulation(**options) -> Simulation:
    keras.utils.set_random_seed(0)
    options = {"step_size": 0.001} | options
    return Simulation(
        data=(X, Y), verbose=0, num_walkers=2, seed=1, execution="graph", noise_std=1.0, **options
    )


STEPS = np.arange(1, 2001)


def test_polynomial_is_welling_and_tehs():
    """a (b + t)^-γ scaled to 1 at the first step, where t counts from 0."""
    factor = schedules.step_factor(
        make_options(step_schedule="polynomial", schedule_delay=50.0, schedule_power=0.7)
    )
    own = (50.0 + STEPS - 1) ** -0.7
    np.testing.assert_allclose(factor(STEPS), own / own[0], rtol=1e-12)


def test_cyclical_is_zhangs():
    """Eq. 1 of Zhang et al. (2020): 4 cycles in 2,000 steps; each starts at 1 and ends near 0."""
    factor = schedules.step_factor(make_options(step_schedule="cyclical", cycle_steps=500))(STEPS)
    own = [0.5 * (np.cos(np.pi * ((k - 1) % 500) / 500) + 1) for k in STEPS]
    np.testing.assert_allclose(factor, own, rtol=1e-12)
    assert (factor[::500] == 1).all() and (factor[499::500] < 1e-4).all()


def test_annealing_cools_geometrically_to_the_end_of_the_burn_in():
    options = make_options(
        temperature=2.0,
        temperature_schedule="annealing",
        temperature_start=32.0,
        num_burnin_steps=4,
        num_steps=9,
    )
    factor = schedules.temperature_factor(options)
    np.testing.assert_allclose(2.0 * factor(np.arange(1, 8)), [32, 16, 8, 4, 2, 2, 2], rtol=1e-12)


def test_a_table_holds_each_value_from_its_step_on():
    factor = schedules.table([(1, 0.1), (10, 0.05)], 0.2, "step_schedule")
    np.testing.assert_allclose(
        0.2 * factor(np.array([1, 9, 10, 11])), [0.1, 0.1, 0.05, 0.05], rtol=1e-12
    )


def test_a_table_on_a_ladder_is_of_the_target(tmp_path):
    """The factors of the other rungs' own steps; `step_size`, its default included, has no part in
    them.
    """
    (tmp_path / "s.csv").write_text("step,value\n1,0.004\n5,0.002\n")
    options = make_options(
        temperatures=[1.0, 2.0], step_sizes=[0.004, 0.008], step_schedule=str(tmp_path / "s.csv")
    )
    np.testing.assert_allclose(
        schedules.step_factor(options)(np.array([1, 5])), [1.0, 0.5], rtol=1e-12
    )


def test_keras_schedules_count_from_zero():
    decay = keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.5)
    factor = schedules.keras_schedule(decay, 0.1)
    np.testing.assert_allclose(factor(np.array([1, 11, 21])), [1, 0.5, 0.25], rtol=1e-6)


def test_the_columns_show_what_was_used(tmp_path):
    """Step size and temperature of each row are those of its step, also under a table from a
    file.
    """
    table = tmp_path / "steps.csv"
    table.write_text("step,value\n1,0.01\n21,0.005\n")
    run = simulation().sample(
        step_size=0.001,
        num_steps=40,
        num_burnin_steps=20,
        record_every=10,
        step_schedule=str(table),
        temperature_schedule="annealing",
        temperature_start=16.0,
    )
    rows = run.run_info[run.run_info["walker"] == 0]
    np.testing.assert_allclose(rows["step_size"], [0.01, 0.01, 0.005, 0.005])
    np.testing.assert_allclose(rows["temperature"], [16 ** (1 - 9 / 20), 16 ** (1 - 19 / 20), 1, 1])


def test_the_step_size_acts(tmp_path):
    """A run under a table of one value equals the run at that step size, number by number."""
    plain = simulation().sample(num_steps=20, step_size=0.02, record_every=5)
    table = simulation().sample(
        num_steps=20, step_size=0.01, record_every=5, step_schedule=[(1, 0.02)]
    )
    np.testing.assert_allclose(plain.run_info["potential"], table.run_info["potential"], rtol=1e-6)


def test_exploration_descends_and_is_left_out():
    """The first half of each cycle of 20 steps runs at temperature 0: SGLD is gradient descent
    there, and averages and the trajectory have the other half alone.
    """
    options = {
        "sampler": "SGLD",
        "step_schedule": "cyclical",
        "cycle_steps": 20,
        "exploration_fraction": 0.5,
    }
    run = simulation().sample(
        num_steps=40, step_size=1e-3, record_every=5, trajectory_every=5, **options
    )
    rows = run.run_info[run.run_info["walker"] == 0]
    assert rows["temperature"].tolist() == [0, 0, 1, 1, 0, 0, 1, 1]
    assert (
        sorted(set(run.trajectory["step"])) == [15, 20, 35, 40] == sorted(set(run.averages["step"]))
    )
    explored = simulation().sample(num_steps=10, step_size=1e-3, record_every=1, **options)
    first = explored.run_info[explored.run_info["walker"] == 0]["potential"]
    assert (np.diff(first) < 0).all()


@pytest.mark.parametrize(
    ("options", "who"),
    [
        ({"sampler": "TACT-HMC", "num_burnin_steps": 20}, "TACT-HMC"),
        ({"sampler": "CCAdL"}, "CCAdL"),
        ({"sampler": "mCCAdL", "batch_size": 10}, "mCCAdL"),
        ({"sampler": "BADODAB", "thermostat_bath": "noise"}, "BADODAB"),
        ({"sampler": "MCLMC"}, "MCLMC"),
        ({"num_replicas": 2, "max_temperature": 4.0}, "a ladder"),
        (
            {
                "exchange": "tempering",
                "num_replicas": 2,
                "max_temperature": 4.0,
                "num_burnin_steps": 20,
            },
            "a ladder",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_divides_by_the_temperature_does_not_explore(options, who):
    """The potential was nan after the first step."""
    cycles = {"step_schedule": "cyclical", "cycle_steps": 20, "exploration_fraction": 0.5}
    with pytest.raises(
        InputError, match=rf"^exploration_fraction: {who} does not move at temperature 0\."
    ):
        simulation().sample(num_steps=40, step_size=1e-3, **cycles | options)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param(
            {"step_schedule": "polynomial", "schedule_delay": 7.0}, marks=pytest.mark.slow
        ),
        pytest.param(
            {"step_schedule": "cyclical", "cycle_steps": 8, "exploration_fraction": 0.25},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            {"temperature_schedule": "annealing", "temperature_start": 9.0}, marks=pytest.mark.slow
        ),
    ],
    ids=lambda options: next(iter(options.values())),
)
def test_a_resumed_run_goes_on_with_its_schedule(tmp_path, options):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 60), (parts, 30)):
        simulation(batch_size=10).sample(
            output=str(folder),
            num_steps=steps,
            num_burnin_steps=12,
            record_every=3,
            trajectory_every=6,
            **options,
        )
    Simulation.resume(str(parts), num_steps=60, data=(X, Y), verbose=0)
    assert tables(whole) == tables(parts)


def test_a_resumed_run_has_the_table_that_it_started_with(tmp_path, monkeypatch):
    """Its relative name means another file elsewhere."""
    for name, text in (("here", "1,0.004\n6,0.002\n"), ("there", "1,0.1\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "steps.csv").write_text(f"step,value\n{text}")
    monkeypatch.chdir(tmp_path / "here")
    simulation().sample(output="run", num_steps=4, record_every=2, step_schedule="steps.csv")
    monkeypatch.chdir(tmp_path / "there")
    run = Simulation.resume(tmp_path / "here" / "run", num_steps=8, data=(X, Y), verbose=0)
    one = run.run_info[run.run_info["walker"] == 0]
    np.testing.assert_allclose(one["step_size"], [0.004, 0.004, 0.002, 0.002], rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step_schedule": "cyclic"}, "unknown name"),
        ({"step_schedule": "gone.csv"}, "step_schedule: there is no such file"),
        ({"temperature_schedule": "annealing"}, "cools during the burn-in"),
        ({"exploration_fraction": 0.5}, "fraction of each cycle"),
        (
            {
                "exploration_fraction": 0.5,
                "step_schedule": "cyclical",
                "temperature_schedule": "annealing",
                "temperature_start": 2.0,
            },
            "exclude each other",
        ),
        ({"step_schedule": [(1, -0.1)]}, "the table"),
        ({"step_schedule": [(5, 0.1), (1, 0.1)]}, "the table"),
        ({"step_schedule": [1, 2]}, "not a table"),
    ],
    ids=str,
)
def test_bad_schedules_get_one_sentence(options, words):
    with pytest.raises(InputError, match=words):
        simulation().sample(num_steps=20, **options)


@pytest.mark.parametrize("name", ["step_schedule", "temperature_schedule"])
def test_a_bad_schedule_costs_no_earlier_run(tmp_path, name):
    run = simulation().sample(num_steps=20, output=str(tmp_path / "a"))
    with pytest.raises(InputError, match="cannot be computed"):
        simulation().sample(
            num_steps=20, output=str(tmp_path / "a"), overwrite=True, **{name: lambda step: step[9]}
        )
    assert len(run.run_info)


def test_a_file_that_is_no_table(tmp_path):
    table = tmp_path / "steps.csv"
    table.write_text("step,rate\n1,0.01\n")
    with pytest.raises(InputError, match="is not a table"):
        simulation().sample(step_size=0.001, num_steps=20, step_schedule=str(table))


def test_on_a_ladder_with_step_sizes_a_table_is_that_of_the_target():
    """Its values were divided by a step size that nobody gave: 20 in place of 0.1 here."""
    sim = Simulation(potential=lambda x: 0.5 * x[:, 0] ** 2, dimension=1, seed=1, verbose=0)
    ladder = {
        "temperatures": [0.5, 2.0],
        "step_sizes": [0.2, 0.4],
        "execution": "graph",
        "record_every": 1,
    }
    table = [(1, 0.1), (3, 0.2)]
    run = sim.sample(
        sampler="BAOAB", step_schedule=table, num_steps=4, num_burnin_steps=0, **ladder
    )
    used = run.run_info[run.run_info["step"] > 0].pivot(
        index="step", columns="rung", values="step_size"
    )
    np.testing.assert_allclose(used.to_numpy(), [[0.1, 0.2], [0.1, 0.2], [0.2, 0.4], [0.2, 0.4]])
    with pytest.raises(
        InputError, match=r"at friction 1 and step_size 0\.2\. Expected: at most 2 friction T"
    ):
        sim.sample(sampler="SGHMC", gradient_noise=20.0, num_steps=4, **ladder)
