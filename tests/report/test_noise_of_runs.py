"""Runs on a ladder test the noise that their swaps and gradients see."""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.runs import files
from tati_re.summary.ladder import ladder_lines


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((600, 3)).astype("float32")
    targets = inputs @ np.array([1.0, -1.0, 0.5], "float32") + 0.1 * rng.standard_normal(
        600
    ).astype("float32")
    sim = Simulation(
        data=(inputs, targets), loss="gaussian", noise_std=1.0, batch_size=60, seed=1, verbose=0
    )
    return sim.sample(
        num_steps=200,
        step_size=0.01,
        num_replicas=3,
        temperature_ratio=1.2,
        exchange_every=10,
        execution="graph",
        output=tmp_path_factory.mktemp("runs") / "a",
    )


def test_p_values_of_energies_and_gradients(run):
    """20 tests shared among the pairs, 100 of the gradient; means of 60 losses of a linear model
    are near to normal.
    """
    assert (run.folder / files.NOISE).is_file()
    noise = run.noise
    assert list(noise.columns) == ["test", "rung", "p_value"]
    energy, gradient = (noise[noise["test"] == kind] for kind in ("energy", "gradient"))
    assert len(energy) == 20 and set(energy["rung"]) == {0, 1} and len(gradient) == 100
    assert noise["p_value"].between(0, 1).all()
    assert (gradient["p_value"] < 0.05).mean() < 0.4


def test_the_end_table_has_them(run):
    text = run.summary()
    assert "energy noise" in text and "gradient noise" in text and "Shapiro-Wilk" in text


def test_noise_that_is_not_normal_is_a_warning(run):
    noise = run.noise
    noise["p_value"] = 1e-4
    notes, _ = ladder_lines(run.manifest, run.ladder, noise)
    assert sum("not Gaussian" in note for note in notes) == 2


def test_a_full_batch_has_none(tmp_path):
    sim = Simulation(data="two_clusters", seed=1, verbose=0)
    made = sim.sample(
        step_size=0.001,
        num_steps=20,
        num_replicas=2,
        temperature_ratio=1.2,
        execution="graph",
        output=tmp_path / "b",
    )
    assert not made.has(files.NOISE)
