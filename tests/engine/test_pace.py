"""The length of the calls of a compiled loop: never one step a call for ever."""

import itertools
import time
from random import Random

import pytest
import tensorflow as tf

import tati_re
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Loop
from tati_re.engine.pace import Pace


def bowl(x):
    return 0.5 * tf.reduce_sum(x * x, axis=-1)


def calls(fixed, slope, seconds, noise=0.0, capacity=16_384, first=0.0):
    """The `(moves, time)` of each call of a loop with such a cost, for so many seconds."""
    pace, clock, random, made = Pace(1, 0.5), 0.0, Random(1), []
    while clock < seconds:
        moves = min(pace.moves, capacity)
        took = (fixed + slope * moves) * (1.0 + noise * random.uniform(-1.0, 1.0))
        took += 0.0 if made else first
        pace.add(moves, took)
        clock += took
        made.append((moves, took))
    return made


@pytest.mark.parametrize("noise", [0.0, 0.2, 0.5])
@pytest.mark.parametrize(
    ("fixed", "slope"),
    [(0.4, 1e-5), (0.4, 1e-3), (0.3, 0.05), (2.0, 1e-4), (1.0, 1.0), (4e-3, 1e-4), (1e-3, 0.3)],
)
def test_at_least_a_quarter_of_the_time_goes_to_steps(fixed, slope, noise):
    made = calls(fixed, slope, seconds=300.0, noise=noise)
    best = slope * 16_384 / (fixed + slope * 16_384)
    share = sum(moves for moves, _ in made) * slope / 300.0
    assert share > 0.5 * min(best, 0.5)


def test_cheap_steps_come_in_calls_of_half_a_second():
    made = calls(fixed=4e-3, slope=1e-4, seconds=60.0)
    later = [took for _, took in made[5:]]
    assert sum(later) / len(later) == pytest.approx(0.5, rel=0.2)


@pytest.mark.parametrize("slope", [1.0, 10.0])
def test_long_steps_come_one_by_one_but_for_a_probe(slope):
    """So that Ctrl-C waits for one step; a call in nine measures the fixed cost again."""
    made = calls(fixed=0.01, slope=slope, seconds=100.0 * slope, noise=0.2)
    assert max(moves for moves, _ in made) == 2
    assert sum(moves == 2 for moves, _ in made) <= 2 + len(made) // 5


def test_a_first_call_that_compiles_is_no_measure():
    made = calls(fixed=0.01, slope=1e-4, seconds=60.0, first=20.0)
    assert sum(moves for moves, _ in made[1:8]) > 10_000


def test_a_call_is_to_end_in_time():
    pace = Pace(1, 0.5)
    for moves in (1, 100, 1_000):
        pace.add(moves, 0.1 + 1e-3 * moves)
    assert pace.within(0.2) == 100
    assert pace.within(1e-3) == 1
    assert pace.shortest == pytest.approx(0.101)


@pytest.fixture
def costly(monkeypatch):
    """A clock on which each call takes 0.4 s more than its steps; the lengths of the calls."""
    lengths, now, run = [], [0.0], Loop.run

    def timed(loop, carry, first_move, count, *others):
        chunk = run(loop, carry, first_move, count, *others)
        now[0] += 0.4 + 2e-5 * int(chunk.taken)
        lengths.append(int(chunk.taken))
        assert len(lengths) < 200, "one step a call"
        return chunk

    monkeypatch.setattr(Loop, "run", timed)
    monkeypatch.setattr(tati_re.Simulation, "limits", Limits())
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return lengths


@pytest.mark.parametrize(("sampler", "execution"), [("BAOAB", "graph"), ("HMC", "xla")])
def test_a_run_whose_calls_cost_four_tenths_of_a_second_is_no_step_a_call(
    tmp_path, monkeypatch, costly, sampler, execution
):
    """20,000 steps took 20,000 calls; their bytes do not depend on the calls."""
    asked = {
        "sampler": sampler,
        "step_size": 0.1,
        "num_steps": 20_000,
        "record_every": 500,
        "trajectory_every": 1_000,
    }
    shaped = {
        "potential": bowl,
        "dimension": 3,
        "num_walkers": 2,
        "seed": 1,
        "verbose": 0,
        "execution": execution,
    }
    run = tati_re.Simulation(**shaped).sample(**asked, output=str(tmp_path / "a"))
    assert sum(costly) > 19_000 and len(costly) < 25
    monkeypatch.setattr(tati_re.Simulation, "limits", Limits(1_000, 1_000))
    lengths = len(costly)
    again = tati_re.Simulation(**shaped).sample(**asked, output=str(tmp_path / "b"))
    assert len(costly) - lengths > 19
    for name in ("run.csv", "averages.csv", "trajectory.csv"):
        assert (run.folder / name).read_bytes() == (again.folder / name).read_bytes()


def test_max_time_is_kept_where_calls_cost_four_tenths_of_a_second(monkeypatch, costly):
    """The last call is as short as the time that is left."""
    monkeypatch.setattr(tati_re.Simulation, "limits", Limits(most_steps=50))
    sim = tati_re.Simulation(potential=bowl, dimension=3, seed=1, verbose=0, execution="graph")
    began = time.monotonic()
    run = sim.sample(sampler="BAOAB", step_size=0.1, num_steps=10**7, max_time=20.0)
    assert run.exit_status == 75
    assert 19.0 < time.monotonic() - began <= 20.5
    lengths = itertools.pairwise(costly[:6])
    assert all(after >= before for before, after in lengths)
