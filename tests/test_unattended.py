"""Starts at fits, presets by their own option, and runs without a named sampler."""

import numpy as np
import pytest

import tati_re
from tati_re.options.make import make_options

REGRESSION = {"data": "two_clusters", "hidden": [3], "loss": "binary_crossentropy", "seed": 3, "verbose": 0}


def test_walkers_start_at_fits_of_their_own():
    sim = tati_re.Simulation(**REGRESSION, num_walkers=3, walker_start="fit", fit_steps=100)
    fresh, before = np.array(sim.parameters), sim.potential()
    run = sim.sample(sampler="BAOAB", step_size=1e-4, num_steps=2, record_every=1)
    start = run.run_info[run.run_info["step"] == 1]
    assert (start["potential"].to_numpy() < 0.5 * before).all()
    assert (np.linalg.norm(sim.parameters[:, None] - sim.parameters[None], axis=-1)[~np.eye(3, dtype=bool)] > 0.1).all()
    assert np.linalg.norm(sim.parameters - fresh, axis=1).min() > 0.1
    moved = np.array(sim.parameters)
    sim.sample(sampler="BAOAB", step_size=1e-6, num_steps=1)
    assert np.abs(sim.parameters - moved).max() < 1e-3, "only walkers that nobody has placed are fitted"


def test_placed_walkers_are_not_fitted():
    sim = tati_re.Simulation(**REGRESSION, walker_start="fit")
    assert not sim.walkers.placed
    sim.parameters[0] = 0.25
    assert sim.walkers.placed
    sim.sample(sampler="BAOAB", step_size=1e-6, num_steps=1)
    assert abs(sim.parameters[0] - 0.25) < 1e-3


def test_a_preset_has_an_option_of_its_own():
    assert make_options(preset="renhd") == make_options(sampler="RENHD")
    assert make_options(make_options(sampler="SGLD"), preset="RELD").num_replicas == 12
    assert make_options(preset="auto").sampler == "auto"


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"preset": "RENH"}, "preset: not known. Received: 'RENH'. Expected: auto, RENHD"),
        ({"preset": "RENHD", "sampler": "SGLD"}, "preset and sampler both name the sampler. Received: RENHD and SGLD."),
    ],
)
def test_bad_presets_are_one_sentence(options, sentence):
    with pytest.raises(tati_re.InputError) as caught:
        make_options(**options)
    assert str(caught.value).startswith(sentence)
