"""Each chain of a run that chooses its sampler is a block, so that workers can share the chains; the
files do not depend on the number of workers.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.launch.checks import check_request
from tati_re.launch.goal import PREDICT, with_goal
from tati_re.launch.request import make_request
from tati_re.launch.time_plan import TimePlan
from tati_re.launch.workers import block_size
from tati_re.options.make import make_options

RANDOM = np.random.default_rng(8)
X = RANDOM.normal(size=(60, 2))
Y = X[:, :1] + 0.1 * RANDOM.normal(size=(60, 1))
FILES = ("run.csv", "trajectory.csv", "averages.csv", "members.npz")


def request_of(num_walkers, **options):
    sim = Simulation(data=(X, Y), hidden=[3], num_walkers=num_walkers, verbose=0)
    chosen = make_options(sim.options, sampler="BAOAB", step_size=0.01, **options)
    return make_request("sample", chosen, {}, sim.system)


@pytest.mark.parametrize(("walkers", "size"), [(1, 1), (2, 1), (3, 1), (4, 1), (6, 3), (8, 4)])
def test_no_run_has_a_single_block_of_several_walkers(walkers, size):
    assert block_size(request_of(walkers, workers=1)) == size


def test_four_walkers_have_room_for_four_workers():
    check_request(request_of(4, workers=4))
    with pytest.raises(InputError, match=r"more workers than blocks of 1 walker.*Expected: 1 to 4"):
        check_request(request_of(4, workers=5))


def test_workers_leave_the_goal_open():
    sim = Simulation(data=(X, Y), verbose=0)
    options = make_options(sim.options, workers=2)
    assert with_goal(options, {}, sim.system, placed=False).goal == PREDICT


def test_no_clock_decides_in_a_run_without_a_time_limit():
    plan = TimePlan(None, began=0.0)
    year = 3e6
    assert plan.choice_deadline > year / 2
    assert plan.fit_seconds(with_chains=True) > year / 2
    assert plan.num_candidates(7) == 7


def test_time_for_workers_to_start_is_planned():
    began = time.monotonic()
    assert TimePlan(30.0, began).has_chains()
    assert TimePlan(30.0, began, worker_seconds=9.0).has_chains()
    assert TimePlan(20.0, began).has_chains()
    assert not TimePlan(20.0, began, worker_seconds=9.0).has_chains()


def test_a_folder_keeps_its_blocks(tmp_path):
    """A run of four chains that was written when "auto" made one block of them."""
    sim = Simulation(data=(X, Y), hidden=[3], num_walkers=4, seed=1, verbose=0)
    given = {"sampler": "BAOAB", "step_size": 0.01, "num_burnin_steps": 0, "workers": 1}
    whole = sim.sample(num_steps=30, block_size=4, call=1, output=tmp_path / "whole", **given)
    sim = Simulation(data=(X, Y), hidden=[3], num_walkers=4, seed=1, verbose=0)
    sim.sample(num_steps=20, block_size=4, call=1, output=tmp_path / "old", **given)
    path = tmp_path / "old" / "manifest.toml"
    head, workers = path.read_text().split("[workers]")
    assert "block_size = 4" in head
    path.write_text(head.replace("block_size = 4", 'block_size = "auto"') + "[workers]" + workers)
    longer = Simulation.resume(tmp_path / "old", num_steps=30, data=(X, Y), verbose=0)
    assert longer.manifest.workers.block_size == 4
    assert (tmp_path / "old/run.csv").read_bytes() == (whole.folder / "run.csv").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of_system", "of_run"),
    [({"hidden": [3]}, {"until": None}), ({}, {"candidates": "gaussian:4:1"})],
    ids=["posterior", "predict"],
)
def test_files_do_not_depend_on_the_number_of_workers(tmp_path, of_system, of_run):
    for number in (1, 2):
        sim = Simulation(data=(X, Y), seed=3, verbose=0, **of_system)
        folder = tmp_path / str(number)
        run = sim.sample(workers=number, num_steps=200, output=folder, **of_run)
        assert run.manifest.workers.number == number
        assert run.manifest.workers.block_size == 1
    for name in FILES:
        first = tmp_path / "1" / name
        assert first.read_bytes() == (tmp_path / "2" / name).read_bytes()


@pytest.mark.slow
def test_time_that_ends_in_the_burn_in_leaves_the_fits(tmp_path):
    sim = Simulation(data=(X, Y), seed=3, verbose=0)
    long = {"num_steps": 1_000_000, "num_burnin_steps": 900_000, "max_time": 12.0}
    given = {"goal": "predict", "candidates": "gaussian:4:1", "workers": 1}
    run = sim.sample(output=tmp_path / "run", **given, **long)
    assert run.manifest.table["last_positions"]["of"] == "fits"
    assert np.isfinite(run.predict(X[:3]).mean).all()
