"""Functions of jobs in processes side by side."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tati_re
from tati_re.distributed import jobs
from tati_re.distributed.processes import Failed


class Score(NamedTuple):
    seed: int
    value: float


def test_what_a_call_raises_comes_back():
    """And what calls before it returned was told."""
    told = []

    def scored(seed):
        if seed == 2:
            raise ValueError("no such seed")
        return Score(seed, np.random.default_rng(seed).standard_normal())

    with pytest.raises(tati_re.SamplingError, match="ValueError: no such seed"):
        tati_re.side_by_side(
            scored, [0, 1, 2], workers=1, done=lambda place, score: told.append((place, score))
        )
    assert told == [(seed, scored(seed)) for seed in (0, 1)]
    for bad in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(tati_re.InputError, match=f"{next(iter(bad))}: too few"):
            tati_re.side_by_side(scored, [0], **bad)
    assert tati_re.side_by_side(scored, []) == []


class Slow:
    """A process that says one thing some seconds after the other has done all jobs."""

    def __init__(self, slot: int) -> None:
        self.slot, self.pipe, self.said = slot, Half(self), [None] if slot == 0 else []

    def send(self, message) -> None:
        self.said.append(message[0])

    def receive(self):
        said = self.said.pop(0)
        if said == "fails":
            raise Failed("ValueError", "no")
        return said

    def close(self) -> None:
        self.said = []


class Half(NamedTuple):
    process: Slow


def test_what_a_process_says_late_is_no_answer_to_a_later_job(monkeypatch):
    """A process that came up after the jobs of a call were done had its first word taken for the
    answer to a job of the next call, and that for the one after; so had an answer that was
    outstanding when a call raised.
    """
    monkeypatch.setattr(
        jobs, "wait", lambda pipes: [pipe for pipe in pipes if pipe.process.said][:1]
    )
    monkeypatch.setattr(jobs.SideBySide, "_started", lambda _, slot: Slow(slot))
    team = jobs.SideBySide(lambda: None, 2, 1)

    def run(*given) -> dict[int, object]:
        found = {}
        team.run(given, found.__setitem__)
        return found

    assert run(1, 2) == {0: 1, 1: 2}
    team._processes[1].said = [None]
    assert run(3, 4) == {0: 3, 1: 4} == run(3, 4)
    team.close()
    assert run(5) == {0: 5}
    with pytest.raises(tati_re.SamplingError, match="could not do a job"):
        run("fails", "late")
    assert run(7, 8) == {0: 7, 1: 8}


@pytest.mark.slow
def test_fits_of_several_seeds_are_those_of_one_after_the_other(tmp_path):
    """A process that dies on its way is made again, and with it its job."""

    def fitted(seed):
        died = Path(tmp_path / f"died{seed}")
        if seed == 1 and not died.exists():
            died.touch()
            os._exit(9)
        sim = tati_re.Simulation(data="two_clusters", hidden=[3], seed=seed, verbose=0)
        return sim.fit(num_steps=50, learning_rate=0.1).run_info["loss"].to_numpy()

    found = tati_re.side_by_side(fitted, [0, 1, 2])
    assert (tmp_path / "died1").exists()
    for seed, losses in enumerate(found):
        np.testing.assert_array_equal(losses, tati_re.side_by_side(fitted, [seed], workers=1)[0])
    with pytest.raises(tati_re.SamplingError, match="died 3 times in one job"):
        tati_re.side_by_side(lambda _: os._exit(3), [0])
    with pytest.raises(tati_re.InputError, match="step_size"):
        tati_re.side_by_side(
            lambda seed: tati_re.Simulation(data="two_clusters", step_size=-1.0), [0]
        )
