"""Presets: what each name stands for, through every door; runs with them, and runs that go on."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.options.make import make_options, options_from_flags, read_toml
from tati_re.options.presets import NOTES, PRESETS, expanded
from tati_re.options.table import OPTIONS
from tests.systems import tables

X = np.random.default_rng(1).normal(size=(12, 2))
Y = X @ [1.0, -0.5] + 0.1
STEPS, BURNIN = 40, 20
SMALL = {
    "noise_std": 1.0,
    "hidden": [2],
    "activation": "tanh",
    "dtype": "float64",
    "seed": 2,
    "verbose": 0,
    "execution": "graph",
    "num_steps": STEPS,
    "num_burnin_steps": BURNIN,
    "record_every": 2,
    "trajectory_every": 4,
    "walker_evaluation": "vectorized",
}
MINI_BATCHES = {"batch_size": 4, "step_size": 1e-3, "exchange_every": 5}
RUNS = {
    "RENHD": MINI_BATCHES | {"num_replicas": 4},
    "renhd_euler": MINI_BATCHES | {"num_replicas": 4},
    "RELD": MINI_BATCHES | {"num_replicas": 4},
    "reSGLD": {"batch_size": 4, "step_size": 1e-3},
    "reSGHMC": {"batch_size": 4, "step_size": 1e-3, "exchange_every": 2},
    "RE-HMC": {"num_replicas": 4, "num_leapfrog_steps": 3, "descent_steps": 20, "step_size": 0.01},
    "MILE": {"num_walkers": 2, "fit_steps": 5, "mass": "unit", "num_burnin_steps": 20},
    "SMS-UBU": {"batch_size": 4, "num_walkers": 2, "fit_steps": 5},
    "simulated_tempering": MINI_BATCHES | {"num_replicas": 3},
    "EQN": {"step_size": 1e-3, "num_walkers": 4, "covariance_after_steps": 10},
    "WTE": {"step_size": 1e-3, "exchange_every": 5, "num_replicas": 3},
}
"""What makes each preset small enough for 40 steps on a network with 9 parameters."""


def small(name: str, output=None, **options) -> object:
    given = SMALL | RUNS[name] | options | {"sampler": name}
    return Simulation(data=(X, Y), **given).sample(output=None if output is None else str(output))


# --------------------------------------------------------------------------------------------------------
# what they are


def test_every_preset_has_a_note_and_stands_in_the_help(capsys):
    assert list(PRESETS) == list(NOTES) == list(RUNS)
    assert all(note and "\n" not in note for note in NOTES.values())
    with pytest.raises(SystemExit) as caught:
        sample.main(["--help"])
    assert caught.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    assert all(name in told for name in PRESETS)


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_known_options_that_differ_from_the_defaults(name):
    for key, value in PRESETS[name].items():
        assert key in OPTIONS
        assert key == "sampler" or value != OPTIONS[key].default
    assert PRESETS[name]["sampler"].upper() not in {other.upper() for other in PRESETS}


@pytest.mark.parametrize("door", ["python", "toml", "flags", "command"])
@pytest.mark.parametrize("name", PRESETS)
def test_every_door_gives_the_same_options(name, door, tmp_path, capsys):
    written = name.lower() if door == "flags" else name
    if door == "python":
        found = make_options(sampler=written).model_dump()
    elif door == "toml":
        (tmp_path / "run.toml").write_text(f'sampler = "{written}"\n')
        found = make_options(read_toml(tmp_path / "run.toml")).model_dump()
    elif door == "flags":
        found = options_from_flags({"sampler": written}).model_dump()
    else:
        assert sample.main(["--sampler", written, "--print-config"]) == 0
        written = capsys.readouterr().out
        assert written.startswith(f"# {name}: {NOTES[name]}\n")
        found = tomllib.loads(written)
    for key, value in PRESETS[name].items():
        assert found[key] == value, key
    for key, field in OPTIONS.items():
        if key not in PRESETS[name] and found.get(key) is not None and key != "resume":
            assert found[key] == field.get_default(call_default_factory=True), key


def test_numbers_of_sms_ubu():
    """Arxiv 2410.19780 and the notebooks of its authors: λ = 25, γ = √λ, h = 1.25e-4, batches of
    200.
    """
    found = make_options(preset="SMS-UBU")
    precision = found.prior_std**-2
    assert precision == pytest.approx(25.0) and found.friction == pytest.approx(precision**0.5)
    assert (found.sampler, found.batch_sampling, found.batch_size) == ("UBU", "symmetric", 200)
    assert found.step_size == 1.25e-4 and found.control_variate


def test_numbers_of_the_papers():
    assert (
        make_options(sampler="RENHD").num_replicas
        == make_options(sampler="RELD").num_replicas
        == 12
    )
    two = make_options(sampler="reSGLD")
    assert (two.num_replicas, two.temperature_ratio, two.swap_rule, two.correction_factor) == (
        2,
        10,
        "corrected",
        1,
    )
    assert make_options(sampler="reSGHMC").temperature_ratio == 5
    hmc = make_options(sampler="RE-HMC")
    assert (hmc.kT, hmc.max_temperature, hmc.num_replicas) == (0.01, 1.0, 16)
    assert (hmc.prior, hmc.prior_bound, hmc.prior_scaling, hmc.mass) == (
        "box",
        50,
        "fan_in",
        "fan_in",
    )
    assert (hmc.replica_start, hmc.descent_steps, hmc.target_acceptance) == ("descent", 1000, 0.65)


# ------------------------------------------------------------------------------------------------
# what is given besides


def test_options_that_are_given_go_first():
    options = make_options(sampler="RENHD", swap_rule="penalty", num_replicas=3)
    assert (options.swap_rule, options.num_replicas, options.temperature_ratio) == (
        "penalty",
        3,
        1.2,
    )
    options = options_from_flags({"swap_rule": "penalty"}, {"sampler": "RENHD", "num_replicas": 5})
    assert (options.sampler, options.swap_rule, options.num_replicas) == ("BADODAB", "penalty", 5)
    later = make_options(make_options(num_replicas=7), sampler="RENHD")
    assert later.num_replicas == 7 and later.swap_rule == "barker_compensated"


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ({"temperatures": [1.0, 2.0, 4.0]}, ("num_replicas", "temperature_ratio")),
        ({"max_temperature": 3.0}, ("temperature_ratio",)),
        ({"tempering": "likelihood"}, ("temperature_ratio", "max_temperature")),
        ({"exchange": "none"}, ("swap_rule",)),
    ],
)
def test_a_ladder_given_in_another_way_takes_the_place_of_the_presets(given, gone):
    found = expanded({"sampler": "RENHD", **given})
    assert not set(gone) & set(found) and all(found[key] == value for key, value in given.items())
    assert found["sampler"] == "BADODAB"


@pytest.mark.parametrize(
    ("given", "gone"),
    [
        ({"temperature_ratio": 1.3}, ("max_temperature",)),
        ({"inverse_temperature": 50.0}, ("temperature",)),
        ({"exchange": "infinite"}, ("swap_schedule",)),
        ({"prior": "gaussian"}, ("prior_bound", "prior_scaling")),
    ],
)
def test_what_a_given_option_contradicts_of_re_hmc_goes(given, gone):
    found = expanded({"sampler": "RE-HMC", **given})
    assert not set(gone) & set(found) and all(found[key] == value for key, value in given.items())
    make_options(sampler="RE-HMC", **given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("BAOAB", 4, 1.5)),
        ({"sampler": "OBABO", "num_replicas": 3}, ("OBABO", 3, 1.5)),
        ({"sampler": "RENHD"}, ("BADODAB", 12, 1.2)),
        ({"temperatures": [1.0, 2.0]}, ("BAOAB", None, None)),
    ],
)
def test_wte_as_a_bias_brings_a_ladder_where_none_is_given(given, expected):
    options = make_options(bias="WTE", **given)
    assert options.bias == "well_tempered"
    assert (options.sampler, options.num_replicas, options.temperature_ratio) == expected
    flags = {"bias": "WTE"} | {name: str(value) for name, value in given.items()}
    if "temperatures" not in given:
        assert options_from_flags(flags).model_dump() == options.model_dump()


def test_the_command_says_what_a_preset_starts(tmp_path, capsys):
    arguments = ["--data", "two_clusters", "--sampler", "EQN", "--num-walkers", "4"]
    arguments += ["--covariance-after-steps", "10", "--num-steps", "20", "--step-size", "1e-3"]
    arguments += ["--execution", "graph", "--output", str(tmp_path / "run")]
    assert sample.main(arguments) == 0
    assert f"EQN: {NOTES['EQN']}" in capsys.readouterr().out


def test_other_names_are_as_they_were():
    assert expanded({"sampler": "BAOAB", "friction": 2.0}) == {"sampler": "BAOAB", "friction": 2.0}
    assert expanded({"friction": 2.0}) == {"friction": 2.0}
    with pytest.raises(InputError, match=r"^sampler.*reSGLDD"):
        Simulation(data=(X, Y), **SMALL).sample(sampler="reSGLDD")


# --------------------------------------------------------------------------------------------------------------
# in runs


LONG = (
    "EQN",
    "WTE",
    "MILE",
    "simulated_tempering",
    "RENHD",
    "renhd_euler",
    "RELD",
    "reSGLD",
    "reSGHMC",
    "RE-HMC",
)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in PRESETS]
)
def test_runs_and_goes_on_as_if_it_had_not_stopped(name, tmp_path):
    whole = small(name, tmp_path / "whole")
    small(name, tmp_path / "parts", num_steps=30)
    Simulation.resume(str(tmp_path / "parts"), num_steps=STEPS, data=(X, Y))
    assert tables(tmp_path / "parts") == tables(tmp_path / "whole")
    rows, method = whole.run_info, whole.manifest["method"]
    assert method["sampler"] == PRESETS[name]["sampler"]
    assert np.isfinite(rows[["loss", "potential"]]).all(axis=None)
    if name == "MILE":
        assert set(rows["walker"]) == {0, 1} and rows["eevpd"].notna().all()
        return
    if name == "SMS-UBU":
        assert set(rows["walker"]) == {0, 1} and method["control_variate"]
        assert whole.manifest["options"]["batch_sampling"] == "symmetric"
        return
    if name == "simulated_tempering":
        assert list(rows.columns[-2:]) == ["rung", "weight"] and set(rows["weight"]) <= {0.0, 1.0}
        return
    if name == "EQN":
        assert set(rows["walker"]) == {0, 1, 2, 3} and (rows["blending"] > 0).any()
        return
    rungs = RUNS[name].get("num_replicas", 2)
    assert set(rows["rung"]) == set(range(rungs)) == set(rows["replica"])
    found = rows.groupby("rung")["temperature"].first().to_numpy()
    expected = 0.01 * 100 ** (np.arange(rungs) / (rungs - 1)) if name == "RE-HMC" else None
    if expected is None:
        expected = PRESETS[name]["temperature_ratio"] ** np.arange(rungs)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert method["swap_rule"] == PRESETS[name].get("swap_rule", "metropolis")
    every = RUNS[name].get("exchange_every") or PRESETS[name]["exchange_every"]
    assert set(whole.exchanges["step"]) == set(range(every, STEPS + 1, every))


def test_re_hmc_starts_within_its_walls_and_tunes_each_rung():
    """k = 3: all parameters of the first layer and of the second lie within 50/sqrt(3)."""
    run = small("RE-HMC", step_sizes=[0.01, 0.02, 0.03, 0.04], trajectory_rungs="all")
    names = [name for name in run.trajectory if "[" in name]
    assert len(names) == 9 and np.abs(run.trajectory[names]).to_numpy().max() <= 50 / np.sqrt(3)
    last = run.run_info.query(f"step == {STEPS}")["step_size"].to_numpy()
    assert len(set(last)) == 4
    first = run.run_info.query("step == 2").sort_values("rung")["loss"]
    assert first.nunique() == 4


@pytest.mark.slow
def test_resghmc_with_annealing_and_a_step_size_for_each_chain():
    """Both temperatures cool from the start's to their own, at a fixed ratio; step sizes stay with
    the rung.
    """
    run = small(
        "reSGHMC",
        step_sizes=[1e-3, 1.5e-3],
        temperature_schedule="annealing",
        temperature_start=8.0,
        num_walkers=2,
    )
    rows = run.run_info
    cold, hot = (rows[rows["rung"] == rung].groupby("step").first() for rung in (0, 1))
    np.testing.assert_allclose(hot["temperature"] / cold["temperature"], 5.0)
    np.testing.assert_allclose(
        cold["temperature"], 8.0 ** np.clip(1 - (cold.index - 1) / BURNIN, 0, 1)
    )
    assert set(cold["step_size"]) == {1e-3}
    np.testing.assert_allclose(hot["step_size"], 1.5e-3)
    assert cold["temperature"].iloc[-1] == 1.0


@pytest.mark.slow
def test_a_preset_places_walkers_that_a_simulation_has():
    """Fits of their own begin at starts of their own: one step of Adam at 1e-6 leaves them as far
    apart as those are; walkers that were placed stay where they are.
    """
    small_steps = {
        "num_steps": 4,
        "num_burnin_steps": 0,
        "step_size": 1e-6,
        "mass": "unit",
        "learning_rate": 1e-6,
    }
    sim = Simulation(data=(X, Y), **SMALL | {"num_walkers": 2, "fit_steps": 1, "num_steps": 4})
    sim.sample(preset="MILE", **small_steps)
    assert np.ptp(sim.parameters, axis=0).max() > 0.1
    sim.parameters = np.zeros_like(sim.parameters)
    sim.sample(preset="MILE", **small_steps)
    assert np.abs(sim.parameters).max() < 1e-3


def test_a_run_shorter_than_the_burn_in_of_a_preset_says_whose_it_is():
    sim = Simulation(data=(X, Y), hidden=[2], verbose=0)
    with pytest.raises(
        InputError,
        match=r"Received: 50000, the default of preset MILE. Expected: less",
    ):
        sim.sample(preset="MILE", num_steps=2_000)
    with pytest.raises(InputError, match=r"Received: 3000\."):
        sim.sample(preset="MILE", num_steps=2_000, num_burnin_steps=3_000)
