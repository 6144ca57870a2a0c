"""Work in parts shows how many are done, and the time that is left."""

import io

import numpy as np
import pytest

import tati_re
from tati_re.engine.progress import Countdown, PlainProgress
from tati_re.evidence import log_evidence
from tati_re.evidence.smc import _stages_left


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def lines_of(costs, seconds, kept=0):
    clock, stream = Clock(), io.StringIO()
    countdown = Countdown(PlainProgress(stream, clock=clock), costs, "points", clock=clock)
    for number, each in enumerate(seconds):
        clock.now += 0.0 if number < kept else each
        countdown.done(number < kept)
    countdown.stop()
    return stream.getvalue().splitlines()


def test_a_line_a_minute_and_the_last_state():
    found = lines_of([1.0] * 100, [6.0] * 100)
    assert found[0] == "points     part 1/100           0:06   9:54 left"
    assert found[1] == "points     part 11/100          1:06   8:54 left"
    assert len(found) == 11 and found[-1] == "points     part 100/100        10:00"


def test_costs_and_parts_that_were_kept_count():
    costs = [1.0, 1.0, 8.0, 8.0]
    found = lines_of(costs, [10.0, 10.0, 80.0])
    assert found[0] == "points     part 1/4             0:10   2:50 left"
    assert found[-1] == "points     part 3/4             1:40   1:20 left"
    assert (
        lines_of(costs, [10.0, 10.0, 80.0], kept=2)[-1]
        == "points     part 3/4             1:20   1:20 left"
    )


@pytest.mark.parametrize("sampling", ["ladder", "sequential"])
def test_an_estimate_shows_its_parts(sampling, tmp_path, monkeypatch):
    shown = []

    class Noted(PlainProgress):
        def update(self, step, *others, limit=None, **more):
            shown.append((step, self._state.total, limit))

    monkeypatch.setattr(
        "tati_re.evidence.estimation.make_progress", lambda verbose: Noted(io.StringIO())
    )
    x = np.random.default_rng(0).normal(size=(20, 1))
    asked = {
        "method": "thermodynamic_integration",
        "evidence_nodes": 5,
        "evidence_sampling": sampling,
        "num_steps": 100,
    }

    def estimate():
        sim = tati_re.Simulation(
            data=(x, 2.0 * x), hidden=[], loss="gaussian", noise_std=1.0, seed=1, verbose=0
        )
        return log_evidence(sim, output=str(tmp_path / sampling), **asked)

    estimate()
    total = shown[0][1]
    assert [step for step, _, _ in shown] == list(range(1, total + 1))
    assert all(limit is not None and limit >= 0.0 for _, _, limit in shown)
    assert shown[-1][2] == 0.0
    # All parts are kept: the pace is unknown.
    shown.clear()
    estimate()
    assert len(shown) == total and {limit for _, _, limit in shown} == {None}


def test_stages_that_are_left_follow_from_the_last_one():
    """From 1e-4 by a factor of 10 there are four more to 1, of two seconds each."""
    rows = np.array([[0.0, 1e-5, 0, 0, 0, 0], [1e-5, 1e-4, 0, 0, 0, 0]])
    assert _stages_left(rows, 2, 4.0) == "; about 4 more stages, 0:08 left"
    assert _stages_left(rows[:1], 1, 2.0) == ""
    assert _stages_left(np.array([[0.5, 1.0, 0, 0, 0, 0]]), 1, 2.0) == ""
