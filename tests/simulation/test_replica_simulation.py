"""Replica exchange from options: files, tables and what is said; interruptions that change no byte;
what is refused.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.engine.limits import LIMITS, Limits
from tati_re.exchange.bookkeeping import EVENT_COLUMNS
from tati_re.launch.request import make_request
from tati_re.options.make import make_options
from tests.systems import tables

RUNGS, WALKERS, STEPS, BURNIN, EVERY = 4, 2, 96, 50, 2
GENERATOR = np.random.default_rng(5)
X, Y = GENERATOR.normal(size=(10, 2)), GENERATOR.normal(size=10)
SYSTEM = {
    "noise_std": 1.0,
    "hidden": [2],
    "activation": "tanh",
    "seed": 3,
    "verbose": 0,
    "walker_evaluation": "vectorized",
    "step_size": 0.03,
}
LADDER = {
    "num_replicas": RUNGS,
    "temperature_ratio": 1.4,
    "exchange_every": EVERY,
    "num_steps": STEPS,
    "num_burnin_steps": BURNIN,
    "record_every": 3,
    "trajectory_every": 6,
}


def sample(
    output=None, num_walkers=WALKERS, dtype="float64", execution="graph", limits=LIMITS, **options
):
    """A network with 9 parameters on 10 examples."""
    given = (
        LADDER
        | options
        | {"output": None if output is None else str(output), "execution": execution}
    )
    sim = Simulation(data=(X, Y), num_walkers=num_walkers, dtype=dtype, **SYSTEM)
    sim.limits = limits
    return sim.sample(**given)


@pytest.fixture(scope="module")
def batches():
    return sample(batch_size=4)


def test_rows_of_every_rung_and_positions_of_the_target(batches):
    run, rows = batches, batches.run_info
    assert list(rows.columns[-2:]) == ["rung", "replica"]
    steps = range(3, STEPS + 1, 3)
    expected = [
        (step, rung, walker) for step in steps for rung in range(RUNGS) for walker in range(WALKERS)
    ]
    assert list(map(tuple, rows[["step", "rung", "walker"]].to_numpy())) == expected
    np.testing.assert_allclose(rows["temperature"], 1.4 ** rows["rung"], rtol=1e-12)
    for _, ladder in rows.groupby(["step", "walker"]):
        assert sorted(ladder["replica"]) == list(range(RUNGS))
    stored = [(step, walker) for step in range(54, STEPS + 1, 6) for walker in range(WALKERS)]
    assert list(map(tuple, run.trajectory[["step", "walker"]].to_numpy())) == stored
    assert set(run.trajectory["rung"]) == {0}
    both = run.trajectory.merge(run.at_rung(0), on=["step", "walker"])
    np.testing.assert_array_equal(both["potential_x"], both["potential_y"])
    np.testing.assert_array_equal(both["replica_x"], both["replica_y"])
    assert len(run.at_rung(2)) == len(rows) / RUNGS and set(run.at_rung(2)["rung"]) == {2}
    averages = run.averages.query("rung == 1 and walker == 0")["potential"]
    later = rows.query(f"rung == 1 and walker == 0 and step > {BURNIN}")["potential"]
    np.testing.assert_allclose(averages, later.expanding().mean(), rtol=1e-13)


def test_exchanges_and_ladder_tell_the_same(batches):
    events, ladder = batches.exchanges, batches.ladder
    assert list(events.columns) == list(EVENT_COLUMNS)
    assert list(ladder.columns) == [
        "rung",
        "temperature",
        "likelihood_weight",
        "step_size",
        "attempts",
        "acceptance",
        "expected_acceptance",
        "predicted_acceptance",
        "barrier",
        "mean_potential",
        "restarts",
        "round_trips",
    ]
    assert set(events["step"]) == set(range(EVERY, STEPS + 1, EVERY))
    assert set(events["batch_size"]) == {4} and (events["variance"] > 0).all()
    later = events[events["step"] > BURNIN].groupby("rung_low")["accepted"]
    np.testing.assert_array_equal(ladder["attempts"][:-1], later.count())
    np.testing.assert_allclose(ladder["acceptance"][:-1], later.mean(), rtol=1e-12)
    assert ladder["acceptance"][:-1].between(0.05, 0.999).all()
    method = batches.manifest["method"]
    assert (method["swap_rule"], method["swap_schedule"], method["num_replicas"]) == (
        "penalty",
        "even_odd",
        RUNGS,
    )


def test_the_summary_has_a_line_a_rung(batches):
    text = str(batches.summary())
    for words in (
        "ladder",
        "rung 0",
        "rung 3",
        "temperature 1.4",
        "swaps up",
        "barrier",
        "round trips",
    ):
        assert words in text
    assert "the ladder is broken" not in text


def test_a_pair_that_never_tried_to_swap_leaves_the_barrier_unknown():
    text = str(sample(num_steps=10, num_burnin_steps=0, exchange_every=10).summary())
    assert "barrier unknown: one pair of rungs" in " ".join(text.split()) and "nan" not in text


def test_a_broken_ladder_is_warned_of():
    text = str(sample(temperature_ratio=60.0, step_size=1e-3, exchange_every=1).summary())
    assert text.startswith("Warning") and "the ladder is broken there" in text


def test_all_rungs_can_be_stored():
    run = sample(trajectory_rungs="all", num_steps=60)
    assert list(run.trajectory["rung"]) == [
        rung for _ in (54, 60) for rung in range(RUNGS) for _ in range(WALKERS)
    ]
    both = run.trajectory.merge(run.run_info, on=["step", "walker", "rung"])
    np.testing.assert_array_equal(both["potential_x"], both["potential_y"])


def test_full_batches_swap_by_metropolis_and_the_likelihood_alone_may_be_tempered():
    run = sample(
        tempering="likelihood", temperature_ratio=None, sampler="HMC", num_leapfrog_steps=3
    )
    assert run.manifest["method"]["swap_rule"] == "metropolis"
    assert (run.exchanges["variance"] == 0).all() and set(run.exchanges["batch_size"]) == {10}
    np.testing.assert_allclose(run.ladder["likelihood_weight"], np.linspace(1, 0, RUNGS) ** 5)
    rows = run.run_info
    weight = run.ladder["likelihood_weight"].to_numpy()[rows["rung"]]
    np.testing.assert_allclose(
        rows["potential"], weight * 10 * rows["loss"] - rows["log_prior"], rtol=1e-12
    )
    assert set(rows["temperature"]) == {1.0}


@pytest.mark.slow
def test_exact_swaps_beside_mini_batches_see_all_data():
    """D from the positions of all rungs, on all examples."""
    run = sample(
        batch_size=4,
        swap_rule="metropolis",
        trajectory_rungs="all",
        trajectory_every=1,
        num_steps=60,
    )
    sim = Simulation(data=(X, Y), **SYSTEM, dtype="float64", num_walkers=RUNGS)
    events = run.exchanges.query(f"step > {BURNIN}")
    assert (events["variance"] == 0).all() and set(events["batch_size"]) == {10}
    checked = 0
    for (step, walker), stored in run.trajectory.groupby(["step", "walker"]):
        stored = stored.sort_values("replica")
        sim.parameters = stored[sim.parameter_names()].to_numpy()
        potential = np.array([sim.potential(replica) for replica in range(RUNGS)])
        for _, event in events.query(f"step == {step} and walker == {walker}").iterrows():
            gap = 1.4 ** -event["rung_low"] - 1.4 ** -event["rung_high"]
            first, second = int(event["replica_low"]), int(event["replica_high"])
            assert event["delta"] == pytest.approx(
                gap * (potential[first] - potential[second]), rel=1e-9
            )
            checked += 1
    assert checked == len(events) == 14


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"sampler": "BADODAB", "batch_size": 4}, {"sampler": "HMC", "exchange_every": 1}]
)
def test_xla_gives_the_numbers_of_the_graph(options):
    """With mini-batches whose losses are looked up for swaps, and with energies of all data."""
    options = options | {"num_steps": 12, "num_burnin_steps": 6, "trajectory_every": 3}
    graph, xla = (sample(execution=execution, **options) for execution in ("graph", "xla"))
    for name in ("run_info", "exchanges", "ladder", "trajectory"):
        found, expected = getattr(xla, name), getattr(graph, name)
        assert list(found.columns) == list(expected.columns) and len(found) > 0
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)


@pytest.mark.slow
def test_what_a_ladder_learns_has_half_of_a_run_whose_burn_in_nobody_gave():
    sim = Simulation(data=(X, Y), **SYSTEM)
    plain = {name: value for name, value in LADDER.items() if name != "num_burnin_steps"} | {
        "num_steps": 60
    }
    learning = {"adapt_ladder": True}, {"exchange": "tempering"}, {"bias": "well_tempered"}
    asked = [make_options(sim.options, **plain, **more) for more in ({}, *learning)]
    found = [
        make_request("sample", options, {}, sim.system).options.num_burnin_steps
        for options in asked
    ]
    assert found == [0, 30, 30, 30]
    run = sim.sample(**plain | {"record_every": 1}, adapt_ladder=True, execution="graph")
    said = "not settled: the ladder or the bias, which are not tested"
    assert run.certificate.detailed()["note"].iloc[-1] == said


def test_single_precision():
    run = sample(
        batch_size=4,
        sampler="BADODAB",
        dtype="float32",
        swap_rule="barker_compensated",
        adapt_ladder=True,
    )
    rows = run.run_info.query(f"step > {BURNIN}")
    assert np.isfinite(rows.to_numpy()).all()
    temperature = run.ladder["temperature"].to_numpy()
    np.testing.assert_allclose(rows["temperature"], temperature[rows["rung"]], rtol=1e-12)
    assert run.exchanges["accepted"].mean() > 0.2


@pytest.mark.slow
def test_a_control_variate_that_follows_takes_most_of_the_noise_of_swaps():
    """Losses compared with those where the replica was up to ten steps ago: at most a twentieth of
    the variance.
    """
    noise = {}
    for control in ({}, {"control_variate": True, "control_variate_every": 10}):
        run = sample(batch_size=4, step_size=3e-3, exchange_every=9, **control)
        events = run.exchanges
        gap = 1.4 ** -events["rung_low"] - 1.4 ** -events["rung_high"]
        noise[len(control)] = (events["variance"] / gap**2)[events["step"] > BURNIN].mean()
    print(noise)
    assert 0 < noise[2] < noise[0] / 20


# --------------------------------------------------------------------------------------------------------
# interruptions


CASES = {
    "mini-batches": {"batch_size": 4, "adapt_ladder": True},
    "thermostats, all rungs, h5": {
        "batch_size": 4,
        "sampler": "BADODAB",
        "swap_rule": "barker_compensated",
        "adapt_ladder": True,
        "trajectory_rungs": "all",
        "trajectory_format": "h5",
        "swap_schedule": "all_pairs",
    },
    "likelihood, tuned HMC": {
        "tempering": "likelihood",
        "temperature_ratio": None,
        "sampler": "HMC",
        "num_leapfrog_steps": 2,
        "target_acceptance": 0.8,
        "adapt_ladder": True,
        "exchange_every": 1,
        "trajectory_rungs": "all",
    },
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """`whole(case)`: the folder of the run without a stop, run once."""
    folder = tmp_path_factory.mktemp("whole")

    def run(case: str) -> Path:
        if not (folder / case).exists():
            sample(folder / case, **CASES[case])
        return folder / case

    return run


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_an_interruption_changes_no_byte(tmp_path, whole, case):
    """Stopped in the burn-in, while the ladder adapts, and again after it."""
    sample(tmp_path / "parts", **CASES[case] | {"num_burnin_steps": BURNIN, "num_steps": 70})
    Simulation.resume(str(tmp_path / "parts"), num_steps=STEPS, data=(X, Y))
    assert tables(tmp_path / "parts") == tables(whole(case))
    table = (whole(case) / "ladder.csv").read_text()
    column = "likelihood_weight" if "likelihood" in case else "temperature"
    position = table.splitlines()[0].split(",").index(column)
    found = np.array([float(line.split(",")[position]) for line in table.splitlines()[1:]])
    plain = np.linspace(1, 0, RUNGS) ** 5 if "likelihood" in case else 1.4 ** np.arange(RUNGS)
    assert found[[0, -1]] == pytest.approx(plain[[0, -1]]) and (found[1:-1] != plain[1:-1]).all()


@pytest.mark.slow
def test_an_interruption_in_the_burn_in_changes_no_byte(tmp_path, whole):
    expected = tables(whole("mini-batches"))
    twenty = Limits(most_steps=20, first_steps=20)
    sample(tmp_path / "parts", limits=twenty, **CASES["mini-batches"], max_time=1e-6)
    stopped = (tmp_path / "parts" / "exchange.csv").read_text().splitlines()[-1]
    assert int(stopped.split(",")[0]) == 20
    Simulation.resume(str(tmp_path / "parts"), data=(X, Y), max_time=None)
    assert tables(tmp_path / "parts") == expected


# --------------------------------------------------------------------------------------------------------
# said, refused


def test_unused_options_are_said(monkeypatch):
    said = []
    monkeypatch.setattr(
        "tati_re.engine.progress.NullProgress.message", lambda self, text: said.append(text)
    )
    few = {"num_steps": 2, "num_burnin_steps": 0, "execution": "eager"}
    sample(**few, exchange_batch_size=5)
    [line] = [text for text in said if text.startswith("Not used by")]
    assert line.endswith(": exchange_batch_size.")
    said.clear()
    sample(
        **few, exchange="none", swap_rule="penalty", swap_variance=0.5, swap_schedule="all_pairs"
    )
    [line] = [text for text in said if text.startswith("Not used by")]
    assert all(
        name in line for name in ("swap_rule", "swap_variance", "swap_schedule", "exchange_every")
    )
    said.clear()
    sample(**few, bias_factor=7.0, bias_width=0.5)
    [line] = [text for text in said if text.startswith("Not used by")]
    assert line.endswith(": bias_factor, bias_width.")
    said.clear()
    Simulation(data=(X, Y), execution="eager", **SYSTEM).sample(
        num_steps=2, swap_rule="metropolis", adapt_ladder=True
    )
    [line] = [text for text in said if text.startswith("Not used by")]
    assert "swap_rule" in line and "adapt_ladder" in line
    said.clear()
    sample(**few | {"num_burnin_steps": 1}, exchange="none", adapt_ladder=True)
    [line] = [text for text in said if text.startswith("Not used by")]
    assert "adapt_ladder" in line
    said.clear()
    tempered = {
        "exchange": "tempering",
        "exchange_every": 5,
        "temperature_ratio": 1.5,
        "num_replicas": 3,
    }
    sim = Simulation(data=(X, Y), execution="eager", **SYSTEM)
    sim.sample(num_steps=2, num_burnin_steps=1, swap_variance=2.0, **tempered)
    [line] = [text for text in said if text.startswith("Not used by")]
    assert line.endswith(": swap_variance.")
    wrong = {
        "bias": "well_tempered",
        "num_replicas": 4,
        "temperature_ratio": 2.0,
        "step_sizes": [0.1, 0.2],
    }
    for name, value in wrong.items():
        with pytest.raises(InputError, match=f"{name}: the sampler has its own temperatures"):
            sim.sample(
                sampler="TACT-HMC", num_steps=4, num_burnin_steps=2, step_size=0.02, **{name: value}
            )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"temperature_ratio": None},
            "num_replicas alone does not define the temperatures of the ladder.",
        ),
        (
            {"max_temperature": 3.0},
            "temperature_ratio and max_temperature each define the spacing of the ladder.",
        ),
        ({"num_replicas": None}, r"temperature_ratio needs the number of rungs\."),
        (
            {"num_replicas": None, "temperature_ratio": None, "temperatures": [2.0, 1.0]},
            "temperatures is not a ladder",
        ),
        (
            {"temperature_ratio": None, "temperatures": [1.0, 2.0]},
            "num_replicas is not the number of temperatures",
        ),
        ({"step_sizes": [0.1, 0.2]}, "step_sizes does not match the ladder"),
        ({"tempering": "likelihood"}, "uses one temperature and does not accept temperature_ratio"),
        (
            {"tempering": "likelihood", "temperature_ratio": None, "prior": "none"},
            "tempering: the hottest rung is the prior, which must be proper",
        ),
        (
            {
                "tempering": "likelihood",
                "temperature_ratio": None,
                "control_variate": True,
                "batch_size": 4,
            },
            "control_variate: its center is defined for one likelihood weight only",
        ),
        (
            {"adapt_ladder": True, "num_burnin_steps": 0},
            "adapt_ladder: the ladder adapts during the burn-in only",
        ),
        (
            {"covariance_blending": 1.0, "covariance_after_steps": 10, "num_walkers": 4},
            "num_replicas: an ensemble whose halves take turns",
        ),
        ({"exchange": "infinite", "num_replicas": 7}, "at most 6"),
        (
            {"swap_rule": "barker_compensated", "swap_variance": 2.0, "batch_size": 4},
            "swap_variance is out of range",
        ),
        (
            {"swap_rule": "metropolis", "swap_variance": 0.5},
            "swap_variance: 'metropolis' uses all data",
        ),
    ],
)
def test_contradictions_are_one_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence) as caught:
        sample(**{"num_steps": 60} | options)
    assert "\n" not in str(caught.value)
