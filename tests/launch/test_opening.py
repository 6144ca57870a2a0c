"""A refused option is all that a run prints: its first sentences wait for the checks."""

from __future__ import annotations

import pytest

import tati_re
from tati_re import InputError
from tati_re.cli import optimize, sample
from tati_re.launch.opening import announce, opening, release

SYSTEM = {"data": "two_clusters", "hidden": [2], "seed": 1, "execution": "graph"}
FLAGS = ["--data", "two_clusters", "--hidden", "2", "--num-steps", "20", "--execution", "graph"]
REFUSED = [
    {"until": "rhat<<1"},
    {"until": "ess>-1"},
    {"sampler": "nuts"},
    {"sampler": "MCLMC", "batch_size": 10},
    {"sampler": "SGNHT", "batch_size": 10, "shuffle": False},
    {"loss": "no such loss"},
    {"tether": "no such file"},
    {"trajectory_every": 0},
    {"batch_size": 100_000},
    {"prior": "box", "prior_low": 1.0, "prior_high": 1.0},
    {"num_burnin_steps": 20, "sampler": "SGLD"},
    {"until": "rhat<<1", "max_time": 5.0},
    {"sampler": "nuts", "max_time": 5.0},
    {"sampler": "MCLMC", "batch_size": 10, "max_time": 5.0},
]


@pytest.mark.parametrize("options", REFUSED, ids=lambda options: ", ".join(options))
def test_nothing_is_printed_before_a_refused_option(options, capsys):
    with pytest.raises(InputError):
        tati_re.Simulation(**SYSTEM).sample(num_steps=20, **options)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (sample, ["--until", "rhat<<1"]),
        (sample, ["--sampler", "nuts"]),
        (optimize, ["--optimizer", "no such optimizer"]),
        (optimize, ["--optimizer", "fire", "--batch-size", "10"]),
    ],
)
def test_a_command_prints_nothing_before_a_refused_flag(command, flags, tmp_path, capsys):
    assert command.main([*FLAGS, *flags, "--output", str(tmp_path / "run")]) == 2
    printed = capsys.readouterr()
    assert printed.out.replace("Loading TensorFlow ...\n", "") == ""
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1


def test_the_next_run_begins_with_the_head(capsys):
    sim = tati_re.Simulation(**SYSTEM)
    steps = {"num_steps": 4, "step_size": 1e-4}
    with pytest.raises(InputError):
        sim.sample(**steps, sampler="nuts")
    sim.sample(**steps, sampler="SGLD")
    printed = capsys.readouterr().out
    assert printed.startswith("tati_re ") and printed.count("two_clusters: ") == 1
    sim.sample(**steps, sampler="SGLD")
    assert "two_clusters: " not in capsys.readouterr().out


def test_sentences_wait_until_they_are_released(capsys):
    with opening():
        announce(1, "The data.")
        announce(0, "Silence.")
        assert capsys.readouterr().out == ""
        release()
        assert capsys.readouterr().out == "The data.\n"
        announce(1, "A choice.")
        assert capsys.readouterr().out == "A choice.\n"
    with opening():
        announce(1, "The data.")
    assert capsys.readouterr().out == "The data.\n"


@pytest.mark.parametrize(
    ("error", "printed"), [(InputError("Wrong."), ""), (KeyboardInterrupt(), "The data.\n")]
)
def test_a_refusal_drops_what_waits_and_an_interrupt_does_not(error, printed, capsys):
    with pytest.raises(type(error)), opening():
        announce(1, "The data.")
        raise error
    assert capsys.readouterr().out == printed
    announce(1, "Another run.")
    assert capsys.readouterr().out == "Another run.\n"
