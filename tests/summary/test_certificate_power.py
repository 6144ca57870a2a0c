"""The certificate passes nothing that was not measured: chance against limits, cut burn-ins, means
that hide a direction, and runs without draws.
"""

import numpy as np
import pytest

import tati_re
from tati_re.core.backend import tf
from tati_re.summary import screen
from tati_re.summary.certificate import _nothing_drawn, certificate
from tests.made_runs import made_run
from tests.summary.test_certificate import METERED, columns, made, positions, rows_of, verdicts

BATCHES = {
    "options": {"batch_size": 10, "num_steps": 6000, "record_every": 10},
    "dataset": {"num_examples": 100},
}


def heated(**numbers) -> dict:
    return BATCHES | {"heating": {"end": {"mean": 0.0028, "slowest": 0.001} | numbers}}


@pytest.mark.parametrize("kind", ["kinetic", "configurational"])
def test_a_temperature_that_chance_may_hide_is_unknown(tmp_path, kind):
    """Of 40 parameters and 2,400 rows chance gives up to 1.9 %, of 120 rows up to 12 %: more than
    the 2 % that are asked, and less than 20 %. A temperature far above both is outside.
    """
    column = {"kinetic": "kinetic_energy", "configurational": "virial"}[kind]
    what = f"{kind} temperature"
    found = []
    for count, factor, asked in (
        (2_400, 1.0, 0.02),
        (30, 1.0, 0.02),
        (30, 1.05, 0.02),
        (30, 1.0, 0.2),
        (30, 1.4, 0.02),
        (30, 1.4, 0.2),
    ):
        given = columns(count=count)
        given[column] = factor * given[column]
        asks = {"options": {"target_bias": asked, "num_steps": 10 * count, "record_every": 10}}
        run = made(tmp_path / f"{count}{factor}{asked}", given, extra=asks)
        row = rows_of(run).loc[what]
        found.append(row["verdict"])
        told = "times as many draws needed" in row["note"]
        assert told == (row["verdict"] == "not measured")
    assert found == ["passed", "not measured", "not measured", "passed", "failed", "failed"]


def test_a_mean_that_hides_a_hot_direction_is_outside(tmp_path):
    """As on MNIST by mini-batches: 0.28 % in all, 3,714 % in the stiffest."""
    cases = {
        "cool": ({"stiffest": 0.05}, "passed", "5 % in the stiffest"),
        "stiffest": ({"stiffest": 37.14}, "failed", "3,714 % in the stiffest"),
        "slowest": ({"slowest": 0.4}, "failed", "40 % in the slowest"),
        "hottest": ({"stiffest": 0.05, "hottest": 0.2}, "failed", "20 % in the hottest"),
        "not measured": ({"stiffest": float("nan")}, "not measured", ""),
        "mean": ({"mean": 0.3}, "failed", ""),
    }
    for name, (numbers, verdict, said) in cases.items():
        row = rows_of(made(tmp_path / name, columns(), extra=heated(**numbers)))
        row = row.loc["mini-batch heating"]
        assert (row["verdict"], said in row["note"]) == (verdict, True), name


def test_a_mean_that_hides_a_hot_group_is_outside(tmp_path):
    """One of 40 parameters has twice the temperature: 2.5 % of the mean, less than the 10 % asked."""
    random = np.random.default_rng(3)
    energies = 0.5 * random.chisquare([[[39]], [[1]]], (2, 4, 2_400))
    for factor, verdict in ((1.0, "passed"), (2.0, "failed")):
        parts = {"virial(dense/kernel)": energies[0], "virial(dense/bias)": factor * energies[1]}
        given = columns(count=2_400) | {"virial": sum(parts.values())} | parts
        extra = {"options": {"target_bias": 0.1, "num_steps": 24_000, "record_every": 10}}
        shapes = {"dense/kernel": (39,), "dense/bias": (1,)}
        run = made_run(tmp_path / f"{factor}", given, shapes=shapes, extra=extra)
        row = rows_of(run).loc["configurational temperature"]
        assert row["verdict"] == verdict
        assert ("dense/bias alone is off by 1" in row["note"]) == (verdict == "failed")


def test_few_energy_errors_bound_no_bias(tmp_path):
    """Of 4 walkers with 600 rows, and with 6, that say the same; an error that is too large is
    outside in both.
    """
    for count, verdict in ((600, "passed"), (6, "not measured")):
        for factor in (1.0, 100.0):
            errors = np.full((4, count), factor * METERED["eevpd"][0, 0])
            run = made(tmp_path / f"{count}{factor}", columns(count=count, eevpd=errors))
            row = rows_of(run).loc["bias from the step size"]
            assert row["verdict"] == (verdict if factor == 1 else "failed")
            assert ("too few rows with energy errors" in row["note"]) == (
                (count, factor) == (6, 1.0)
            )
    # Of MCLMC single steps may have all of the error, which takes 500 rows to tell.
    asked = {"options": {"sampler": "MCLMC"}}
    for count, verdict in ((600, "passed"), (100, "not measured")):
        errors = np.full((4, count), METERED["eevpd"][0, 0])
        run = made(tmp_path / f"mclmc{count}", columns(count=count, eevpd=errors), extra=asked)
        assert verdicts(run)["bias from the step size"] == verdict


@pytest.mark.parametrize("count", [12, 60, 400])
def test_an_r_hat_that_few_draws_give_by_chance_is_not_inside(tmp_path, count):
    """The first halves are the second ones: R-hat is 1 or less whatever the number of draws."""
    given = columns(count=count)
    for name, values in given.items():
        half = np.sort(values[:1, : count // 2])[
            :, np.random.default_rng(1).permutation(count // 2)
        ]
        given[name] = np.repeat(np.concatenate([half, half], axis=1), 4, axis=0)
    row = rows_of(made(tmp_path / "a", given)).loc["R-hat"]
    assert row["value"] < 1.01
    assert row["verdict"] == ("passed" if count == 400 else "not measured")
    assert ("expected by chance" in row["note"]) == (count != 400)


def test_a_burn_in_that_was_given_is_unknown_where_nothing_tells_that_u_settled(tmp_path):
    """Below 40 rows of each walker, or with weights, the first tenth is not compared."""
    weights = np.random.default_rng(0).random((4, 600))
    cases = {"long": columns(), "short": columns(count=30), "weights": columns(weight=weights)}
    found = {}
    for burnin in (0, 100):
        for name, given in cases.items():
            extra = {"given": ["num_burnin_steps"]}
            run = made(tmp_path / f"{name}{burnin}", given, burnin=burnin, extra=extra)
            found[name, burnin] = verdicts(run)["burn-in"]
    assert {found["long", 0], found["long", 100]} == {"passed"}
    del found["long", 0], found["long", 100]
    assert set(found.values()) == {"not measured"}


def test_an_error_of_an_average_needs_independent_draws(tmp_path):
    for size, verdict in ((500.0, "passed"), (3.0, "not measured"), (0.0, "not measured")):
        numbers = {"rhat": 1.0, "rhat_of": "U", "ess": size, "ess_of": "U", "step": 6000}
        extra = {
            "convergence": numbers | {"mcse": {"potential": 0.1}},
            "options": {"until": "mcse(potential)<0.2", "num_steps": 6000, "record_every": 10},
        }
        run = made(tmp_path / f"{size}", columns(), extra=extra)
        assert verdicts(run)["standard error of potential"] == verdict


def test_what_is_bounded_on_average_is_said_to_be_so(tmp_path):
    found = rows_of(made(tmp_path / "a", columns(**METERED), positions()))
    assert "mean over all directions" in found.loc["bias from the step size", "note"]


def gaussian(x):
    return 0.5 * tf.reduce_sum(x**2, -1)


def flat(x):
    return 0.0 * tf.reduce_sum(x, -1) + 3.0


STEPS = {"sampler": "BAOAB", "step_size": 0.1, "friction": 1.0, "record_every": 1}


@pytest.mark.parametrize(
    ("potential", "walkers", "options"),
    [
        *((gaussian, walkers, {"num_steps": 10}) for walkers in (1, 4)),
        *((gaussian, walkers, {"num_steps": 25, "num_burnin_steps": 0}) for walkers in (1, 4)),
        (gaussian, 4, {"num_steps": 1}),
        (gaussian, 4, {"num_steps": 2, "num_burnin_steps": 0}),
        (flat, 4, {"num_steps": 200}),
        (gaussian, 2, {"num_steps": 25, "temperatures": [1.0, 2.0]}),
    ],
)
def test_a_run_without_draws_passes_nowhere(potential, walkers, options):
    """Its effective size is 0, unknown, or far below what is asked, and R-hat is not inside."""
    sim = tati_re.Simulation(
        potential=potential,
        dimension=3,
        num_walkers=walkers,
        walker_start="jitter",
        walker_jitter=1.0,
        seed=1,
        verbose=0,
        execution="eager",
    )
    run = sim.sample(**STEPS, **options)
    found = certificate(run)
    verdict = found.outcome
    assert verdict in ("failed", "not measured")
    found = found.set_index("check")["verdict"]
    assert found["ESS"] != "passed" and found["R-hat"] != "passed"


def test_a_burn_in_that_max_time_ended_is_not_inside(tmp_path):
    """The manifest notes it, whether or not something was still open."""
    cut = {"burnin_cut": {"step": 1000, "by": "max_time"}, "given": []}
    found = {}
    for still in ("", "the mass"):
        for apart in (False, True):
            given = columns()
            given["potential"] += 9 * apart * np.arange(4)[:, None]
            folder = tmp_path / f"{still}{apart}"
            extra = cut | {"burnin_open": still}
            run = made(folder, given, positions(), burnin=1000, extra=extra)
            row = rows_of(run).loc["burn-in"]
            assert "cut off early by max_time" in row["note"]
            found[still, apart] = row["verdict"]
    assert found == {
        ("", False): "not measured",
        ("", True): "failed",
        ("the mass", False): "not measured",
        ("the mass", True): "not measured",
    }


def test_a_short_run_of_a_network_on_mini_batches_passes_nowhere():
    x = np.linspace(-1, 1, 40)[:, None]
    for steps in (1, 25):
        sim = tati_re.Simulation(data=(x, np.sin(3 * x[:, 0])), batch_size=10, verbose=0)
        run = sim.sample(**STEPS | {"step_size": 0.001}, num_steps=steps)
        verdict = certificate(run).outcome
        assert verdict in ("failed", "not measured")
        assert verdicts(run)["ESS"] != "passed"


def test_a_burn_in_that_the_step_limit_cuts_off_is_not_inside():
    sim = tati_re.Simulation(
        potential=lambda x: 0.5 * tf.reduce_sum(tf.cast([1.0, 1e6], x.dtype) * x**2, -1),
        dimension=2,
        num_walkers=2,
        seed=1,
        verbose=0,
        execution="graph",
    )
    run = sim.sample(sampler="MCLMC", step_size="auto", friction="auto", num_steps=90)
    row = certificate(run).detailed().set_index("check").loc["burn-in"]
    assert row["verdict"] != "passed" and "cut off" in row["note"]


@pytest.mark.parametrize("kind", ["kinetic", "configurational"])
def test_noise_of_a_sweep_that_heats_the_meter_alone_is_no_failure(tmp_path, kind):
    """Batches of an epoch heat momenta by 13 % and positions by 1 %, as predicted. Without a
    prediction, with hot positions, or far above it, the same temperature fails.
    """
    column, expected = {
        "kinetic": ("kinetic_energy", "kinetic"),
        "configurational": ("virial", "virial"),
    }[kind]
    what = f"{kind} temperature"
    cases = {
        "predicted": (1.13, {"mean": 0.01, expected: 0.13}, "passed"),
        "not predicted": (1.13, {"mean": 0.01, expected: 0.01}, "failed"),
        "hot positions": (1.13, {"mean": 0.1, expected: 0.13}, "failed"),
        "hotter": (1.3, {"mean": 0.01, expected: 0.13}, "failed"),
        "colder": (1.0, {"mean": 0.01, expected: 0.13}, "failed"),
    }
    for name, (factor, numbers, verdict) in cases.items():
        given = columns(count=2_400)
        given[column] = factor * given[column]
        extra = heated(**numbers)
        extra = extra | {"options": extra["options"] | {"num_steps": 24_000}}
        row = rows_of(made(tmp_path / name, given, extra=extra)).loc[what]
        assert row["verdict"] == verdict, (name, row["note"])
        told = "and not to the positions (predicted)" in row["note"]
        assert told == (name in ("predicted", "hotter", "colder")), row["note"]


FITS_ALONE = {
    "burnin_cut": {"step": 0, "by": "max_time"},
    "last_positions": {"step": 0, "of": "fits"},
}
LOST = {"choice": {"trial_steps": 700, "trial_density": -0.4, "trial_won": False}}


@pytest.mark.parametrize(
    ("choice", "reason"), [({}, "max_time left no time"), (LOST, "short chains")]
)
def test_a_run_of_fits_alone_says_why_nothing_was_measured(tmp_path, choice, reason):
    run = made(tmp_path / "a", columns(), extra=FITS_ALONE | choice)
    checks = _nothing_drawn(run.manifest, 0)
    assert {one.verdict for one in checks} == {"not measured"}
    assert all(reason in one.remark for one in checks), [one.remark for one in checks]
    assert not any("no draws yet" in one.remark for one in checks)

    content = {name: value for name, value in FITS_ALONE.items() if name == "burnin_cut"}
    cut = made(tmp_path / "b", columns(), extra=content)
    assert "no draws yet" in _nothing_drawn(cut.manifest, 0)[0].remark


def test_a_trial_that_chains_lost_offers_no_chains(tmp_path, monkeypatch):
    """More time makes more members; without a trial a resume makes chains."""
    monkeypatch.setattr(screen, "_results", lambda run: _nothing_drawn(run.manifest, 0))
    lost = made(tmp_path / "a", columns(), extra=FITS_ALONE | LOST)
    said = screen._not_converged(lost)
    assert "max_time adds members" in said[0] and "resume" not in " ".join(said)
    assert max(map(len, said)) <= 100

    monkeypatch.setattr(screen.manifest, "going_on", lambda folder: "a command")
    untried = made(tmp_path / "b", columns(), extra=FITS_ALONE)
    assert screen._not_converged(untried) == ["To sample chains from the fits: a command"]
