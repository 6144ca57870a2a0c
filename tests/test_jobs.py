"""Functions of jobs in processes side by side."""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import tati_re


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
        tati_re.side_by_side(scored, [0, 1, 2], workers=1, done=lambda place, score: told.append((place, score)))
    assert told == [(seed, scored(seed)) for seed in (0, 1)]
    for bad in ({"workers": 0}, {"threads": 0}):
        with pytest.raises(tati_re.InputError, match=f"{next(iter(bad))}: too few"):
            tati_re.side_by_side(scored, [0], **bad)
    assert tati_re.side_by_side(scored, []) == []


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
    with pytest.raises(tati_re.SamplingError, match="died 3 times at one job"):
        tati_re.side_by_side(lambda _: os._exit(3), [0])
    with pytest.raises(tati_re.InputError, match="step_size"):
        tati_re.side_by_side(lambda seed: tati_re.Simulation(data="two_clusters", step_size=-1.0), [0])
