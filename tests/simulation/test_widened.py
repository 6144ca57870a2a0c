"""A simulation of a wider network starts as the same function."""

from __future__ import annotations

import numpy as np
import pytest

import tati_re
from tati_re import InputError
from tati_re.coming_from_tati import Simulation as tati

X = np.random.default_rng(0).standard_normal((30, 3))
Y = np.sin(X[:, :1]) + 0.1 * X[:, 1:2]


@pytest.fixture(scope="module")
def small():
    sim = tati_re.Simulation(
        data=(X, Y),
        hidden=[3, 2],
        activation="tanh",
        num_walkers=2,
        dtype="float64",
        prior_std=3.0,
        seed=5,
        verbose=0,
    )
    place = np.random.default_rng(1).standard_normal(sim.parameters.shape)
    sim.parameters = place
    return sim


def tensors(sim) -> dict[str, np.ndarray]:
    """The walkers' tensors by name, `(walkers, *shape)`."""
    flat = sim.system.flat
    return dict(
        zip(flat.tensor_names, map(np.asarray, flat.split(sim.walkers.position)), strict=False)
    )


def test_the_function_is_kept_and_the_new_weights_are_of_the_prior(small):
    wide = small.widened(hidden=[200, 150])
    np.testing.assert_allclose(wide.predict(X), small.predict(X), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(wide.loss(), small.loss(), rtol=1e-12)
    # The sampled noise comes last.
    np.testing.assert_array_equal(wide.parameters[:, -1], small.parameters[:, -1])
    old = tensors(small)
    new = tensors(wide)
    np.testing.assert_array_equal(new["dense_1/kernel"][:, :3, :2], old["dense_1/kernel"])
    assert (new["dense_1/kernel"][:, 3:, :2] == 0).all()
    assert (new["dense_2/kernel"][:, 2:] == 0).all()
    # 3.0 is the deviation of the prior: of n numbers within 5 standard errors, 3 / sqrt(2 n).
    for drawn in (new["dense/kernel"][:, :, 3:], new["dense_1/kernel"][:, :, 2:]):
        assert abs(drawn.std() - 3.0) < 5 * 3.0 / np.sqrt(2 * drawn.size)
    assert new["dense/bias"][:, 3:].std() > 1.0
    # Walkers differ, a seed repeats the numbers, and the small one is as it was.
    assert (new["dense/kernel"][0, :, 3:] != new["dense/kernel"][1, :, 3:]).all()
    assert (small.widened(hidden=[200, 150]).parameters == wide.parameters).all()
    assert (small.widened(hidden=[200, 150], seed=6).parameters != wide.parameters).any()
    assert small.options.hidden == [3, 2] and wide.options.hidden == [200, 150]


def test_the_new_units_move_and_the_wider_network_samples(small):
    """The gradient along the new units' outgoing weights is not 0."""
    wide = small.widened(hidden=[4, 3])
    gradients = wide.gradients()
    flat = wide.system.flat
    outgoing = np.asarray(flat.split(gradients)[-3 if flat.num_extra else -2])[:, 2:]
    assert (np.abs(outgoing) > 0).all()
    run = wide.sample(sampler="HMC", step_size=1e-4, num_steps=3, execution="graph")
    assert np.isfinite(run.run_info["potential"]).all()


def test_a_simulation_of_tati_is_widened():
    """No prior: the new weights are of the usual initialization."""
    labels = np.where(Y > 0, 1.0, -1.0)
    sim = tati(dataset=[X, labels], hidden_dimension=[2], hidden_activation="relu", verbose=0)
    wide = sim.widened(hidden=[6])
    assert isinstance(wide, tati)
    np.testing.assert_allclose(wide.predict(X), sim.predict(X), rtol=1e-6)
    new = np.abs(tensors(wide)["dense/kernel"][..., 2:])
    assert 0 < new.max() <= 1 / np.sqrt(4)


@pytest.mark.parametrize("hidden", [[3], [2, 2], [3, 2, 2], [], [3, 0], "wide"])
def test_networks_that_are_not_wider_are_refused(small, hidden):
    with pytest.raises(InputError, match="hidden"):
        small.widened(hidden=hidden)


def test_other_networks_are_refused():
    linear = tati_re.Simulation(data=(X, Y), verbose=0)
    with pytest.raises(InputError, match="with hidden layers to widen"):
        linear.widened(hidden=[3])
    fixed = tati_re.Simulation(data=(X, Y), hidden=[2], fix_parameters="dense/bias", verbose=0)
    with pytest.raises(InputError, match="fixed parameters"):
        fixed.widened(hidden=[3])
    density = tati_re.Simulation(potential=lambda x: (x @ x, 2 * x), dimension=2, verbose=0)
    with pytest.raises(InputError, match="only networks of dense layers"):
        density.widened(hidden=[3])
