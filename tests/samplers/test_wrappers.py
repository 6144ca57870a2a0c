"""Masses and control variates around any sampler: the rule to 1e-12, the law, and wrong variants
that must fail.

Law: a Gaussian of two dimensions, stiffness 1 and 100, masses 1 and 100: in the scaled coordinates
both directions are alike. Power: 2,000 walkers, 700 steps from the law: 5.5 standard errors are 1.9
% of a variance.
"""

from __future__ import annotations

import itertools

import keras
import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.launch.description import unused
from tati_re.launch.request import make_request
from tati_re.options.make import make_options
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.potential import Batch
from tati_re.samplers import SGLD, HamiltonianMonteCarlo, Splitting
from tati_re.samplers.wrappers.control_variate import ControlVariate, ControlVariateEvaluate
from tati_re.samplers.wrappers.mass import Diagonal, Massive
from tests.scenarios import TOLERANCE, NumpyEvaluate, NumpyNoise, averages, mean_and_error, rung_of
from tests.systems import harmonic_well, tables

STIFFNESS = np.array([1.0, 100.0])
WALKERS, NUM_STEPS = 2_000, 700


def gaussian() -> FunctionPotential:
    return harmonic_well(2, STIFFNESS)


def variances(sampler, step_size: float) -> list[tuple[float, float]]:
    """k Var q / T of both directions and their standard errors over the walkers."""
    start = np.random.default_rng(0).standard_normal((WALKERS, 2)) / np.sqrt(STIFFNESS)

    def squares(old, state, info):
        return [STIFFNESS[i] * tf.cast(state.position[:, i], tf.float64) ** 2 for i in range(2)]

    found = averages(
        sampler, gaussian(), rung_of(np.full(WALKERS, step_size)), start, NUM_STEPS, squares
    )
    return [mean_and_error(values) for values in found]


# -------------------------------------------------------------------------------------------------------------
# the mass


def test_the_mass_enters_drift_and_kick():
    """A step of BAOAB with masses in plain numpy, momenta in scaled coordinates, to 1e-12."""
    mass, h = np.array([1.0, 4.0, 0.25]), 0.1
    evaluate, noise = NumpyEvaluate(rung_of(np.full(5, h), numpy=True)), NumpyNoise(1)
    sampler = Massive(Splitting("BAOAB", 2.0), mass)
    state = sampler.init(np.random.default_rng(0).standard_normal((5, 3)), evaluate, NumpyNoise(0))
    after, _ = sampler.step(state, evaluate, noise)
    q, p = state.position, state.momentum
    p = p - 0.5 * h * (q**3 + q) / np.sqrt(mass)
    q = q + 0.5 * h * p / np.sqrt(mass)
    c = np.exp(-2.0 * h)
    p = c * p + np.sqrt(1 - c * c) * noise.drawn[0]
    q = q + 0.5 * h * p / np.sqrt(mass)
    p = p - 0.5 * h * (q**3 + q) / np.sqrt(mass)
    np.testing.assert_allclose(after.position, q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.momentum, p, rtol=0, atol=1e-12)
    np.testing.assert_allclose(after.gradient, q**3 + q, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "inner", [Splitting("BAOAB"), HamiltonianMonteCarlo(5, 0.5)], ids=["BAOAB", "HMC"]
)
def test_a_mass_like_the_stiffness_makes_a_long_step_stable(inner):
    """h = 0.5 is 2.5 times the limit of stability of the stiff direction without the mass; with it
    the law is exact.
    """
    for value, error in variances(Massive(inner, STIFFNESS), 0.5):
        assert TOLERANCE * error < 0.03
        assert abs(value - 1) < TOLERANCE * error


def test_a_mass_in_the_drift_alone_is_caught(monkeypatch):
    """Kicks without 1/sqrt(m): another law."""
    monkeypatch.setattr(Diagonal, "transposed", lambda self, vectors: vectors)
    monkeypatch.setattr(Diagonal, "untransposed", lambda self, vectors: vectors)
    found = variances(Massive(Splitting("BAOAB"), np.array([1.0, 4.0])), 0.05)
    assert max(abs(value - 1) / error for value, error in found) > TOLERANCE


def test_walls_hold_under_a_mass():
    """A drift through a wall of the box comes back by what it was beyond, its momentum turned."""
    from tati_re.posterior.priors import Box

    potential = FunctionPotential(lambda x: 0.0 * x[:, 0], 2, prior=Box(1.0))
    sampler = Massive(Splitting("BAOAB"), np.array([4.0, 1.0]))
    rung = rung_of(np.full(500, 0.3))
    start = np.random.default_rng(0).uniform(-1, 1, (500, 2))

    def inside(old, state, info):
        worst = tf.cast(tf.reduce_max(tf.abs(state.position), -1), tf.float64)
        return [tf.cast(worst <= 1.0, tf.float64), tf.cast(state.position[:, 0], tf.float64) ** 2]

    within, square = averages(sampler, potential, rung, start, 400, inside)
    assert (within == 1).all()
    value, error = mean_and_error(square)
    assert abs(value - 1 / 3) < TOLERANCE * error


def test_masses_from_gradients_are_frozen_after_the_burn_in():
    """rms of the gradient in the law is sqrt(k): masses 1 : 10 for stiffness 1 : 100; nothing
    changes afterwards.
    """
    from tati_re.engine.loop import Loop
    from tati_re.engine.observables import Observables

    sampler = Massive(Splitting("BAOAB"), "gradient_rms")
    rung = rung_of(np.full(50, 0.1))
    loop = Loop(
        gaussian(),
        sampler,
        Observables(sampler, None),
        rung,
        0,
        "xla",
        100,
        num_burnin_steps=1000,
        num_steps=1400,
    )
    start = np.random.default_rng(0).standard_normal((50, 2)) / np.sqrt(STIFFNESS)
    carry, move, masses = loop.start(start, ()), 1, {}
    while move <= 1400:
        chunk = loop.run(carry, move, 200)
        carry, move = chunk.carry, move + 200
        masses[move - 1] = carry.state.mass.numpy()
    assert (masses[200] != masses[1000]).all()
    np.testing.assert_array_equal(masses[1000], masses[1400])
    ratio = np.median(masses[1000][:, 1] / masses[1000][:, 0])
    assert 6 < ratio < 16


def test_masses_by_fan_in_follow_the_layers():
    keras.utils.set_random_seed(0)
    sim = Simulation(data="digits", hidden=[5], verbose=0)
    from tati_re.launch.request import sampler_of

    sampler = sampler_of(sim.options.model_copy(update={"mass": "fan_in"}), {}, sim.system)
    np.testing.assert_array_equal(
        sampler.mass, np.repeat([65.0, 65.0, 6.0, 6.0], [64 * 5, 5, 5 * 10, 10])
    )


def test_bad_masses_get_one_sentence():
    with pytest.raises(InputError, match="no momenta"):
        Massive(SGLD(), [1.0])
    with pytest.raises(InputError, match="above 0"):
        Massive(Splitting(), [1.0, 0.0])
    sim = Simulation(data="digits", num_walkers=4, verbose=0)
    with pytest.raises(InputError, match="wrong shape"):
        sim.sample(step_size=0.001, mass=np.ones(3), num_steps=10)
    with pytest.raises(InputError, match="one of the two"):
        sim.sample(step_size=0.001, mass="fan_in", covariance_blending=1.0, num_steps=100)
    with pytest.raises(InputError, match="measured during the burn-in"):
        sim.sample(step_size=0.001, mass="gradient_rms", num_steps=300, num_burnin_steps=0)


# --------------------------------------------------------------------------------------------------
# the control variate


@pytest.fixture(scope="module")
def regression():
    """Six points, a network with a hidden layer, float64, and its potential for batches of 2."""
    random = np.random.default_rng(0)
    x = random.normal(size=(6, 2))
    keras.utils.set_random_seed(1)
    sim = Simulation(
        data=(x, np.sin(x[:, 0]) + x[:, 1]),
        hidden=[3],
        activation="tanh",
        dtype="float64",
        batch_size=2,
        verbose=0,
    )
    return sim.system.potential(sim.options, {}), np.asarray(sim.parameters)[None]


def every_batch(potential, position, centre):
    """Corrected energies on each of the 15 batches of 2 of the 6 points."""
    rung = rung_of(np.ones(1))
    full = potential.bind(rung).full(tf.constant(centre))
    fields = {
        "centre": tf.constant(centre),
        "centre_gradient": full.gradient,
        "centre_potential": full.potential,
        "centre_loss": full.loss,
    }
    found = []
    for pair in itertools.combinations(range(6), 2):
        evaluate = potential.bind(rung, Batch(tf.constant([pair], tf.int32), tf.constant(2)))
        found.append(ControlVariateEvaluate(evaluate, fields)(tf.constant(position)))
    return found


def test_corrected_estimates_are_unbiased(regression):
    """Over all batches the mean of U, of its gradient and of the loss is that of all data, to
    1e-12.
    """
    potential, position = regression
    centre = position + 0.3
    full = potential.bind(rung_of(np.ones(1))).full(tf.constant(position))
    found = every_batch(potential, position, centre)
    for name in ("potential", "gradient", "loss", "log_prior"):
        mean = np.mean([getattr(energy, name).numpy() for energy in found], axis=0)
        np.testing.assert_allclose(
            mean, getattr(full, name).numpy(), rtol=0, atol=1e-12 * 100, err_msg=name
        )


def test_their_variance_falls_with_the_square_of_the_distance(regression):
    potential, position = regression
    spread = []
    for distance in (0.1, 0.01, 0.001):
        found = every_batch(potential, position, position + distance)
        spread.append(np.var([energy.gradient.numpy() for energy in found], axis=0).sum())
    ratios = np.array(spread[:-1]) / spread[1:]
    assert ((ratios > 60) & (ratios < 160)).all()


def test_a_centre_from_the_batch_is_caught(regression):
    """Without the gradient of all data at the center the estimate is off."""
    potential, position = regression
    rung = rung_of(np.ones(1))
    zero = {"centre": tf.constant(position + 0.3), "centre_gradient": tf.zeros_like(position)}
    zero |= {name: tf.zeros(1, tf.float64) for name in ("centre_potential", "centre_loss")}
    pairs = list(itertools.combinations(range(6), 2))
    batches = [Batch(tf.constant([pair], tf.int32), tf.constant(2)) for pair in pairs]
    values = [
        ControlVariateEvaluate(potential.bind(rung, batch), zero)(
            tf.constant(position)
        ).gradient.numpy()
        for batch in batches
    ]
    full = potential.bind(rung).full(tf.constant(position)).gradient.numpy()
    assert np.abs(np.mean(values, axis=0) - full).max() > 0.1


def test_the_centre_moves_at_its_steps():
    """Every third step, to where the walker is at its beginning; never with 0."""
    evaluate = NumpyEvaluate(rung_of(np.full(5, 0.1), numpy=True))
    start = np.random.default_rng(0).standard_normal((5, 3))
    for every, moved in ((3, [1, 4, 7]), (0, [])):
        sampler = ControlVariate(Splitting("BAOAB"), every)
        state = sampler.init(start, evaluate, NumpyNoise(0))
        found = []
        for step in range(1, 9):
            before = state
            evaluate.clock = evaluate.clock._replace(step=np.int64(step))
            state, _ = sampler.step(state, evaluate, NumpyNoise(step))
            if (step > 1 and (state.centre != before.centre).any()) or (step == 1 and every):
                np.testing.assert_array_equal(state.centre, before.position)
                found.append(step)
        assert found == moved


def test_a_run_with_a_control_variate_is_cooler(tmp_path):
    """Linear regression, batches of 20 of 200: the heating by the mini-batch's noise goes away."""
    random = np.random.default_rng(0)
    x = random.normal(size=(200, 3))
    y = x @ [1.0, -1.0, 0.5] + random.normal(size=200)
    temperatures, there = [], None
    for control in (False, True):
        keras.utils.set_random_seed(0)
        sim = Simulation(
            data=(x, y), noise_std=1.0, dtype="float64", num_walkers=20, seed=2, verbose=0
        )
        if there is not None:
            sim.parameters = there
        else:
            sim.fit(optimizer="gradient_descent", learning_rate=0.2, num_steps=200)
            there = np.array(sim.parameters)
        run = sim.sample(
            num_steps=800,
            num_burnin_steps=200,
            step_size=0.02,
            friction=5.0,
            batch_size=20,
            control_variate=control,
            control_variate_every=40 * control,
            record_every=5,
            trajectory_every=0,
            execution="graph",
        )
        rows = run.run_info[run.run_info["step"] > 200]
        temperatures.append(2 * rows["kinetic_energy"].mean() / 4)
    # The noise has the variance V = 200²/20 Var(∇l) (1 - 0.1), about 1,800 a parameter: hV/(2γ) =
    # 3.6. BAOAB's own bias, h²k/4 = 0.02, lowers the kinetic temperature a little.
    assert temperatures[0] > 2 and 0.9 < temperatures[1] < 1.3


@pytest.mark.slow
def test_it_resumes_byte_for_byte(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 2))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    for folder, steps in ((whole, 40), (parts, 20)):
        keras.utils.set_random_seed(0)
        sim = Simulation(data=(x, x[:, 0]), num_walkers=2, seed=2, verbose=0, execution="graph")
        sim.sample(
            step_size=0.001,
            output=str(folder),
            num_steps=steps,
            batch_size=7,
            control_variate=True,
            control_variate_every=6,
            record_every=4,
            trajectory_every=4,
        )
    Simulation.resume(str(parts), num_steps=40, data=(x, x[:, 0]), verbose=0)
    assert tables(whole) == tables(parts)


def test_refusals():
    with pytest.raises(InputError, match="uses all data"):
        ControlVariate(HamiltonianMonteCarlo(3, 0.0))
    sim = Simulation(data="digits", verbose=0)
    with pytest.raises(InputError, match="no noise to reduce"):
        sim.sample(step_size=0.001, control_variate=True, num_steps=10)


# ---------------------------------------------------------------------------------------- options
# that nobody looks at


def test_options_that_are_not_used_are_named(capsys):
    """What was given and means nothing to this sampler is said at the start; what is used is
    not.
    """
    sim = Simulation(data="two_clusters", execution="graph")
    sim.sample(
        step_size=0.001,
        num_steps=10,
        friction=2.0,
        num_leapfrog_steps=3,
        cycle_steps=5,
        ensemble_scheme="simultaneous",
    )
    said = capsys.readouterr()
    line = next(line for line in (said.out + said.err).splitlines() if "Not used" in line)
    assert line.endswith(
        "Not used by BAOAB with these settings: num_leapfrog_steps, cycle_steps, ensemble_scheme."
    )
    sim.sample(step_size=0.001, num_steps=10, friction=2.0)
    said = capsys.readouterr()
    assert "Not used" not in said.out + said.err


UNUSED = [
    (
        ["batch_sampling", "walker_batches"],
        {"batch_sampling": "symmetric", "walker_batches": "shared"},
    ),
    ([], {"batch_sampling": "symmetric", "walker_batches": "shared", "batch_size": 20}),
    (["trajectory_format"], {"trajectory_format": "h5", "trajectory_every": 0}),
    (["step_size"], {"temperatures": [1.0, 2.0], "step_sizes": [0.001, 0.002]}),
    (
        ["preconditioner_correction"],
        {"sampler": "pSGLD", "preconditioner_correction": False, "num_burnin_steps": 5},
    ),
    (["target_bias"], {"sampler": "HMC", "step_size": "auto", "target_bias": 0.1}),
    (
        ["step_size_tuning"],
        {"sampler": "BAOAB", "step_size": "auto", "step_size_tuning": "baldock"},
    ),
    ([], {"friction": "auto", "target_bias": 0.1, "batch_size": 20}),
    (["bias_energies"], {"bias": "well_tempered", "bias_energies": "batch", "num_burnin_steps": 5}),
    (
        ["exchange", "trajectory_rungs"],
        {"bias": "well_tempered", "exchange": "infinite", "trajectory_rungs": "all"},
    ),
]


@pytest.mark.parametrize(("expected", "options"), UNUSED)
def test_options_that_another_one_makes_void_are_named(expected, options):
    sim = Simulation(data="two_clusters", execution="graph", verbose=0)
    given = make_options(
        sim.options, **{"step_size": 0.001, "num_steps": 400, "num_burnin_steps": 200, **options}
    )
    assert unused(make_request("sample", given, {}, sim.system)) == expected


def test_every_option_of_a_family_is_in_a_configuration():
    """The list of options that belong to families and their configurations agree, so that the
    sentence can be true.
    """
    from tati_re.options.families import FAMILIES, options_of_family
    from tati_re.options.make import make_options
    from tati_re.samplers import make_sampler

    seen = {
        key
        for name in [*FAMILIES, "BADODAB"]
        for key in make_sampler(name, make_options()).get_config()
    }
    assert {name for where in FAMILIES.values() for name in options_of_family(where)} == seen - {
        "sampler"
    }
