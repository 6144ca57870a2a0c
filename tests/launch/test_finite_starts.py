"""Starts that nobody gave and where U is not finite, and priors of users that lack a method."""

import numpy as np
import pytest
import tensorflow as tf

import tati_re
from tati_re.core.errors import CertificateWarning, InputError
from tati_re.posterior import priors

RUN = {"dimension": 2, "seed": 1, "verbose": 1}
SHORT = {"sampler": "BAOAB", "step_size": 0.01, "num_steps": 50}


def half(x):
    """Exponential in the first coordinate: nothing at and below 0."""
    inside = x[:, 0] > 0
    return tf.where(inside, x[:, 0] - tf.math.log(x[:, 0]), np.nan) + 0.5 * x[:, 1] ** 2


def nowhere(x):
    return tf.reduce_sum(x, axis=1) * np.nan


@pytest.mark.parametrize(
    "given", [{}, {"num_walkers": 3}, {"walker_start": "jitter", "num_walkers": 3}]
)
def test_a_start_that_is_not_finite_is_drawn_again(given, capsys):
    sim = tati_re.Simulation(potential=half, **RUN, **given)
    run = sim.sample(**SHORT)
    assert "U was not finite" in capsys.readouterr().out
    assert (run.trajectory.iloc[:, 4] > 0).all()


def steep(x):
    """U = exp(600 |x|) in the first coordinate beyond 0.2: finite, but nothing comes down."""
    far = tf.maximum(tf.abs(x[:, 0]) - 0.2, 0.0)
    return tf.exp(600.0 * far) - 1.0 + 0.5 * tf.reduce_sum(x**2, axis=1)


def test_a_start_out_of_reach_is_drawn_again(capsys):
    apart = {"num_walkers": 4, "walker_start": "jitter", "walker_jitter": 1.0}
    sim = tati_re.Simulation(potential=steep, **apart, **RUN)
    assert (np.abs(sim.parameters[:, 0]) > 0.4).any()
    run = sim.sample(sampler="HMC", step_size=1e-9, num_leapfrog_steps=1, num_steps=2)
    assert "above 1e+30" in capsys.readouterr().out
    assert run.run_info["potential"].max() < 1e30


def test_the_lowest_start_counts_where_all_are_out_of_reach():
    """Data in units so small that squares are above 1e30 everywhere: the run starts anyway."""
    sim = tati_re.Simulation(
        potential=lambda x: 1e33 * (1.0 + tf.reduce_sum(x**2, axis=1)),
        num_walkers=2,
        walker_start="jitter",
        walker_jitter=1.0,
        **(RUN | {"verbose": 0}),
    )
    sim.sample(sampler="HMC", step_size=1e-18, num_leapfrog_steps=1, num_steps=2)
    assert np.abs(sim.parameters).max() < 0.5, "100 draws of two normal numbers"


def test_a_run_that_chooses_draws_its_walkers_again(capsys):
    run = tati_re.Simulation(potential=half, **RUN).sample(num_steps=200)
    assert "U was not finite" in capsys.readouterr().out
    assert (run.trajectory.iloc[:, 4] > 0).all()


def test_finite_starts_stay_and_given_ones_are_refused():
    quiet = RUN | {"verbose": 0}
    wells = tati_re.Simulation(potential=lambda x: 0.5 * tf.reduce_sum(x**2, axis=1), **quiet)
    before = wells.parameters.copy()
    wells.sample(**(SHORT | {"num_steps": 1, "step_size": 1e-9}))
    np.testing.assert_allclose(wells.parameters, before, atol=1e-3)
    given = tati_re.Simulation(potential=half, parameters=np.array([-1.0, 0.0]), **quiet)
    with pytest.raises(InputError, match="not finite where walker 0 starts"):
        given.sample(**SHORT)


def test_a_potential_that_is_finite_nowhere_is_refused_after_a_hundred_draws():
    calls = []

    def counted(x):
        calls.append(len(x))
        return np.full(len(x), np.nan), np.zeros_like(x)

    sim = tati_re.Simulation(potential=counted, **RUN)
    with pytest.raises(InputError, match="nor at 100 other random starts"):
        sim.sample(**SHORT)
    assert 100 <= len(calls) < 250


def test_a_network_whose_start_is_not_finite_is_drawn_again(capsys):
    """A prior of a half space leaves an eighth of all starts of three weights."""

    class Half(priors.Prior):
        proper = False

        def log_prob(self, position):
            inside = tf.reduce_all(position[:, :3] > 0, axis=1)
            return tf.where(inside, tf.zeros((), tf.float64), -np.inf)

        def gradient(self, position):
            return None

    x = np.linspace(-1, 1, 20)[:, None]
    found = 0
    for seed in (1, 2):
        sim = tati_re.Simulation(
            data=(x, x[:, 0]), hidden=[2], prior=Half(), noise_std=1.0, seed=seed, verbose=1
        )
        try:
            sim.sample(sampler="BAOAB", step_size=1e-4, num_steps=5)
        except tati_re.SamplingError as error:
            assert error.step > 0
        found += "U was not finite" in capsys.readouterr().out
    assert found > 0


@pytest.mark.parametrize("widths, far", [((1.0, 1e13), True), ((1e-3, 1e3), False)])
def test_widths_that_no_mass_can_balance_ask_for_other_units(widths, far):
    scale = tf.constant(widths, tf.float64)
    sim = tati_re.Simulation(
        potential=lambda x: 0.5 * tf.reduce_sum((x / scale) ** 2, axis=1), **(RUN | {"verbose": 0})
    )
    if far:
        with pytest.warns(CertificateWarning, match="rescale the coordinates to similar widths"):
            run = sim.sample(num_steps=3000)
    else:
        run = sim.sample(num_steps=1000)
    assert ("rescale the coordinates" in " ".join(run.summary().split())) is far


class NoGradient:
    proper = True

    def log_prob(self, position):
        return tf.zeros(position.shape[:1], tf.float64)


class NotProper(priors.Prior):
    def log_prob(self, position):
        return tf.zeros(position.shape[:1], tf.float64)

    def gradient(self, position):
        return None


class Nothing:
    pass


@pytest.mark.parametrize(
    "prior, missing",
    [
        (NoGradient(), "NoGradient lacks gradient"),
        (NotProper(), "NotProper lacks proper"),
        (Nothing(), "Nothing lacks proper and log_prob and gradient"),
        (NotProper, "prior is a class; an object is needed"),
    ],
)
def test_a_prior_that_lacks_something_is_told_what(prior, missing):
    x = np.linspace(-1, 1, 20)[:, None]
    sim = tati_re.Simulation(data=(x, x[:, 0]), hidden=[2], prior=prior, verbose=0)
    with pytest.raises(InputError, match=missing):
        sim.sample(**SHORT)
