"""The change of a measured mass is that of the matrix, whichever parts it is made of."""

from collections import namedtuple

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.samplers.wrappers.fisher import LowRankMass, low_rank_mass
from tati_re.tuning.mass_change import mass_change, mass_record, unit_mass
from tests.samplers.test_measured_mass import inverse_mass

State = namedtuple("State", ("position", "mass_scale", "mass_directions", "mass_roots"))


def state_of(mass: LowRankMass) -> State:
    """A state of four walkers with a low-rank mass."""
    return State(np.zeros((4, len(mass.scale))), mass.scale, mass.directions, mass.roots)


def change_between(first: LowRankMass, second: LowRankMass) -> float:
    return mass_change(state_of(first), mass_record(state_of(first)), mass_record(state_of(second)))


def parts_of(root: np.ndarray, scale: np.ndarray) -> LowRankMass:
    """The inverse mass `root root'` with this diagonal, and its directions in a random order."""
    inner = root @ root.T / np.outer(scale, scale)
    values, vectors = np.linalg.eigh(inner)
    order = np.random.default_rng(5).permutation(len(values))
    return LowRankMass(scale, vectors.T[order], np.sqrt(values[order]))


@pytest.mark.parametrize("size", [2, 8, 26, 200, 230])
def test_two_sets_of_parts_of_one_matrix_are_one_mass(size):
    random = np.random.default_rng(size)
    root = random.standard_normal((size, size)) / np.sqrt(size) + np.eye(size)
    root *= np.geomspace(1.0, 1e3, size)[:, None]
    scales = np.ones(size), np.sqrt((root**2).sum(1))
    first, second = (parts_of(root, scale) for scale in scales)
    np.testing.assert_allclose(inverse_mass(first), inverse_mass(second), rtol=1e-6, atol=1e-6)
    assert change_between(first, second) < 1e-6
    logs = np.log(first.roots) - np.log(second.roots)
    assert np.median(np.abs(logs)) > 0.25  # the parts themselves seem to have changed
    for factor in (1.1, 0.5):
        third = parts_of(root * np.sqrt(factor), scales[1])
        assert change_between(first, third) == pytest.approx(abs(np.log(factor)), abs=1e-6)
        assert change_between(third, first) == pytest.approx(abs(np.log(factor)), abs=1e-6)


@pytest.mark.parametrize("size", [40, 400])
def test_most_directions_count_and_not_single_ones(size):
    """One direction in ten changes by a factor of 100; then nine in ten by a factor of 3."""
    unit = LowRankMass(np.ones(size), np.zeros((1, size)), np.ones(1))
    few = LowRankMass(np.ones(size), np.eye(size)[:: size // 4], np.full(4, 10.0))
    assert change_between(unit, few) < 0.05
    most = LowRankMass(
        np.ones(size), np.eye(size)[: 9 * size // 10], np.full(9 * size // 10, 3**0.5)
    )
    assert change_between(unit, most) == pytest.approx(np.log(3), rel=0.1)


def test_the_record_of_a_unit_mass_has_the_shape_of_a_measured_one():
    for size in (6, 230):
        mass = LowRankMass(np.full(size, 2.0), np.zeros((3, size)), np.ones(3))
        state = state_of(mass)
        start = unit_mass(state)
        assert start.shape == mass_record(state).shape
        assert mass_change(state, start, mass_record(state)) == pytest.approx(np.log(4))


def test_windows_of_one_law_agree():
    """Windows of 160 draws of one Gaussian, and of Student's t with 10 degrees of freedom.

    The parts of the masses differed by more than a quarter in every second pair of windows.
    """
    random, size = np.random.default_rng(3), 8
    root = random.standard_normal((size, size)) * np.geomspace(1, 100, size)[:, None]
    changes = []
    for _ in range(20):
        windows = []
        for _ in range(2):
            normal = random.standard_normal((40, 4, size))
            square = random.chisquare(10, (40, 4, 1)) / 10
            draws = normal / np.sqrt(square)
            slopes = draws * (10 + size) / (10 + (draws**2).sum(-1, keepdims=True))
            gradients = slopes @ np.linalg.inv(root)
            windows.append(low_rank_mass(draws @ root.T, gradients, size))
        changes.append(change_between(*windows))
    assert max(changes) < 0.15


def regression(x):
    """A linear regression with its noise, whose columns are almost collinear; sigma by its log."""
    inputs = np.random.default_rng(1).standard_normal((46, 7)) + 3.0
    inputs = inputs * np.geomspace(1.0, 30.0, 7)
    inputs[:, 0] = 1.0
    labels = inputs @ np.ones(7) + 20.0 * np.random.default_rng(2).standard_normal(46)
    weights, log_deviation = x[:, :-1], x[:, -1]
    design = tf.constant(inputs, x.dtype)
    residuals = tf.constant(labels, x.dtype)[None] - weights @ tf.transpose(design)
    squares = tf.reduce_sum(residuals**2, -1)
    return 0.5 * squares * tf.exp(-2.0 * log_deviation) + 45.0 * log_deviation


@pytest.mark.slow
def test_the_burn_in_of_a_regression_is_short_for_each_seed():
    ends = []
    for seed in range(8):
        sim = Simulation(potential=regression, dimension=8, seed=seed, dtype="float64", verbose=0)
        run = sim.sample(max_time=120)
        ends.append(run.manifest["options"]["num_burnin_steps"])
    assert max(ends) <= 960, ends
