"""Masses that the burn-in measures: exact on Gaussians, frozen, resumed, and the law as it was.

Laws: of a Gaussian exp(-θ'Hθ/2T) the inverse mass is H⁻¹ after d + 1 draws, whatever the draws, and
for H⁻¹ = 1 + rank r after r + 2. Wrong variants: a covariance alone, gradients the wrong way up,
one draw too few.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.engine.limits import Limits
from tati_re.exchange import make_ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.runs import checkpoint
from tati_re.samplers import (
    SGHMC,
    SGLD,
    EnsembleQuasiNewton,
    HamiltonianMonteCarlo,
    Massive,
    Splitting,
)
from tati_re.samplers.wrappers.fisher import ENDS, Stretched, low_rank_mass
from tests.scenarios import TOLERANCE, NumpyEvaluate, NumpyNoise, mean_and_error, rung_of
from tests.systems import tables

STIFFNESS = np.geomspace(1.0, 1e4, 8)


def rotated(size: int, values, seed: int = 0) -> np.ndarray:
    axes = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]
    return (axes * values) @ axes.T


def inverse_mass(found) -> np.ndarray:
    """The whole matrix L L'."""
    root = found.scale[:, None] * found._stretched(np.eye(len(found.scale)), found.roots)
    return root @ root.T


def drawn(
    covariance: np.ndarray, count: int, walkers: int = 1, seed: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Positions about 5 and gradients of a Gaussian, `(draws, walkers, parameters)`."""
    size = len(covariance)
    deviations = (
        np.random.default_rng(seed).standard_normal((count, walkers, size))
        @ np.linalg.cholesky(covariance).T
    )
    return 5 + deviations, deviations @ np.linalg.inv(covariance)


def error(covariance: np.ndarray, positions, gradients, rank: int) -> float:
    found = inverse_mass(low_rank_mass(positions, gradients, rank))
    return np.abs(found - covariance).max() / np.abs(covariance).max()


# ----------------------------------------------------------------------------------------------------
# draws to a matrix


@pytest.mark.parametrize("size", [2, 10, 30])
def test_a_full_mass_is_exact_after_d_and_1_draws(size):
    """Condition 10⁴; one walker, and walkers far from each other, with as many draws about their
    own means.
    """
    covariance = rotated(size, np.geomspace(1, 1e4, size))
    assert error(covariance, *drawn(covariance, size + 1), size) < 1e-6
    positions, gradients = drawn(covariance, size + 1, 3)
    assert error(covariance, positions + 100 * np.arange(3)[:, None], gradients, size) < 1e-6


@pytest.mark.parametrize(("size", "rank"), [(20, 1), (50, 3), (200, 10)])
def test_identity_plus_a_rank_is_exact_after_2_draws_more(size, rank):
    along = np.random.default_rng(2).standard_normal((size, rank))
    covariance = np.eye(size) + along @ along.T
    assert error(covariance, *drawn(covariance, rank + 2), rank) < 1e-6
    stiff = np.linalg.inv(covariance)
    assert error(stiff, *drawn(stiff, rank + 2), rank) < 1e-6


def test_wrong_masses_are_caught():
    """The covariance of the positions alone, of the gradients the wrong way up, and one draw too
    few.
    """
    covariance = rotated(10, np.geomspace(1, 1e4, 10))
    positions, gradients = drawn(covariance, 11)
    alone = np.cov(positions[:, 0].T)
    assert np.abs(alone - covariance).max() / np.abs(covariance).max() > 0.1
    assert error(covariance, positions, gradients @ covariance @ covariance, 10) > 0.1
    assert error(covariance, positions[:10], gradients[:10], 10) > 1e-3
    assert (
        error(
            covariance,
            positions[:, [0, 0]] + [[[0.0], [99.0]]],
            gradients[:, [0, 0]] + [[[0.0], [99.0]]],
            10,
        )
        < 1e-6
    )


def test_a_draw_that_is_not_finite_is_left_out():
    covariance = rotated(6, np.geomspace(1, 100, 6))
    positions, gradients = drawn(covariance, 9)
    kept = np.delete(positions, [2, 5], 0), np.delete(gradients, [2, 5], 0)
    positions[2, 0, 1], gradients[5, 0, 3] = np.nan, np.inf
    found, expected = (low_rank_mass(*pair, 6) for pair in ((positions, gradients), kept))
    np.testing.assert_array_equal(inverse_mass(found), inverse_mass(expected))
    assert low_rank_mass(positions[2:3], gradients[2:3], 6) is None
    assert low_rank_mass(np.ones((9, 1, 6)), np.zeros((9, 1, 6)), 6) is None


def test_a_draw_whose_square_is_infinite_is_left_out():
    """Starts in a far tail have finite gradients of any size, as those of an explosive series."""
    positions, gradients = drawn(np.linalg.inv(rotated(6, np.geomspace(1, 100, 6))), 20)
    kept = low_rank_mass(positions[1:], gradients[1:], 6)
    gradients[0] = 1e200
    found = low_rank_mass(positions, gradients, 6)
    np.testing.assert_allclose(inverse_mass(found), inverse_mass(kept), rtol=1e-10)


def test_single_precision_and_flat_directions_stay_finite():
    """float32 about 5: 1 % at condition 100. A direction without a gradient is faster by 10⁴ at
    most.
    """
    covariance = rotated(10, np.geomspace(1, 100, 10))
    assert (
        error(covariance, *(values.astype(np.float32) for values in drawn(covariance, 80)), 10)
        < 0.01
    )
    positions, gradients = drawn(np.eye(4), 40)
    gradients[..., 0] = 0
    found = low_rank_mass(positions, gradients, 2)
    assert np.isfinite(inverse_mass(found)).all() and np.isfinite(found.longest())


def test_a_gradient_that_does_not_change_tells_of_no_flat_direction():
    """As that of |θ| on one side of its kink: no mass is below 1e-3 of T / Var θ, whatever the
    other directions are.
    """
    positions, gradients = drawn(rotated(5, np.geomspace(1, 100, 5)), 60)
    moved = np.append(positions, 0.1 * np.arange(60.0)[:, None, None], axis=2)
    still = np.append(gradients, np.ones((60, 1, 1)), axis=2)
    variance = moved[:, 0, 5].var() * 60 / 59
    for temperature in (1.0, 4.0):
        found = inverse_mass(low_rank_mass(moved, still, 6, temperature))
        assert found[5, 5] <= 1.001e3 * variance / temperature
        assert np.abs(found[5, :5]).max() < 1e-3 * found[5, 5]


def test_few_directions_take_the_stiffest_and_softest():
    """Ten directions of a rotated Gaussian of 100 dimensions are 10 to 10⁴ times stiffer than the
    rest: of 128 draws ten directions leave a condition of 1, one direction more than 100; what is
    round is left alone.
    """
    axes = np.linalg.qr(np.random.default_rng(3).standard_normal((100, 100)))[0]
    stiffness = np.append(np.geomspace(10, 1e4, 10), np.ones(90))
    hessian = (axes * stiffness) @ axes.T
    condition = {}
    for rank in (1, 10):
        found = low_rank_mass(*drawn(np.linalg.inv(hessian), 128), rank)
        condition[rank] = np.linalg.cond(hessian @ inverse_mass(found))
    assert condition[10] < 1 + 1e-6 and condition[1] > 100
    assert len(low_rank_mass(*drawn(np.eye(100), 128), 32).directions) == 0


def test_coordinates_of_a_low_rank_mass_invert_each_other():
    found = low_rank_mass(*drawn(rotated(7, np.geomspace(1, 50, 7)), 8), 3)
    along, vectors = found, np.random.default_rng(0).standard_normal((4, 7))
    np.testing.assert_allclose(along.backward(along.forward(vectors)), vectors, atol=1e-12)
    np.testing.assert_allclose(along.untransposed(along.transposed(vectors)), vectors, atol=1e-12)
    np.testing.assert_allclose(
        along.forward(along.transposed(np.eye(7))), inverse_mass(found), atol=1e-12
    )
    assert np.isclose(found.longest() ** 2, np.linalg.eigvalsh(inverse_mass(found))[-1], rtol=1e-3)


# -----------------------------------------------------------------------------------------------------
# within a sampler


def after_the_burnin(
    mass, num_steps: int, temperature=1.0, walkers: int = 3, spoilt: int | None = None, offset=0.0
):
    """The state of BAOAB with this mass after steps of the burn-in, in numpy; a gradient may be NaN
    at step 4.
    """
    temperatures = np.broadcast_to(np.asarray(temperature, np.float64), (walkers,))
    evaluate = NumpyEvaluate(
        rung_of(np.full(walkers, 0.005), temperatures, numpy=True),
        lambda x: 0.5 * np.sum(STIFFNESS * (x - offset) ** 2, -1),
        lambda x: STIFFNESS * (x - offset),
    )
    sampler, noise = Massive(Splitting("BAOAB"), mass), NumpyNoise(3)
    start = (
        np.random.default_rng(4).standard_normal((walkers, 8)) / np.sqrt(STIFFNESS)
        + 10 * np.arange(walkers)[:, None]
    )
    state = sampler.init(start, evaluate, noise)
    for step in range(1, num_steps + 1):
        evaluate.clock = evaluate.clock._replace(step=np.int64(step), adapting=np.bool_(True))
        given = state
        if step == 4 and spoilt is not None:
            gradient = state.gradient.copy()
            gradient[spoilt, 2] = np.nan
            given = state._replace(gradient=gradient)
        new, _ = sampler.step(given, evaluate, noise)
        if given is not state:
            new = new._replace(
                position=state.position, momentum=state.momentum, gradient=state.gradient
            )
        state = new
        if step in sampler.burnin.renewals:
            state = sampler.burnin.renewed(state)
    return state


@pytest.mark.parametrize("walkers", [1, 3])
def test_a_diagonal_mass_is_exact_after_the_first_window(walkers):
    """To 1e-6, from walkers far out, at any temperature, about a mean of 1,000; T / Var θ is
    nowhere near.
    """
    for temperature, offset in ((1.0, 0.0), (0.3, 1000.0)):
        state = after_the_burnin("fisher", int(ENDS[0]), temperature, walkers, offset=offset)
        np.testing.assert_allclose(state.mass, np.tile(STIFFNESS, (walkers, 1)), rtol=1e-6)
        np.testing.assert_allclose(state.mass_spread, 100.0, rtol=1e-3)
    wrong = after_the_burnin("variance", int(ENDS[0]), walkers=walkers).mass / STIFFNESS
    assert np.abs(np.log(wrong)).max() > 1


def test_a_low_rank_mass_is_exact_after_the_first_window():
    """Eight directions are all of this Gaussian; the unit is known after the step that follows."""
    state = after_the_burnin("fisher:8", int(ENDS[0]) + 1)
    along = Stretched(state.mass_scale, state.mass_directions, state.mass_roots)
    inverse = along.forward(along.transposed(np.eye(8)))
    np.testing.assert_allclose(inverse, np.diag(1 / STIFFNESS), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(state.mass_unit, 1e4, rtol=1e-3)
    np.testing.assert_allclose(state.mass_spread, 100.0, rtol=1e-3)


@pytest.mark.parametrize("mass", ["fisher", "variance", "fisher:8"])
def test_a_spoilt_draw_is_skipped_and_counted(mass):
    state = after_the_burnin(mass, int(ENDS[0]), spoilt=1)
    np.testing.assert_array_equal(state.mass_skipped, [0, 1, 0])
    values = state.mass if mass != "fisher:8" else state.mass_scale
    assert np.isfinite(values).all() and not (values == 1).all()
    if mass == "fisher":
        np.testing.assert_allclose(state.mass, np.tile(STIFFNESS, (3, 1)), rtol=1e-6)


def test_each_rung_has_its_own_diagonal():
    """Walkers at T = 1 and 4 of a well that is not harmonic: alike within a rung, other between
    them.
    """
    rung = rung_of(np.full(6, 0.1), np.repeat([1.0, 4.0], 3), numpy=True)
    evaluate, noise = NumpyEvaluate(rung), NumpyNoise(5)
    sampler = Massive(Splitting("BAOAB"), "fisher")
    state = sampler.init(np.random.default_rng(1).standard_normal((6, 2)), evaluate, noise)
    for step in range(1, 400):
        evaluate.clock = evaluate.clock._replace(step=np.int64(step), adapting=np.bool_(True))
        state, _ = sampler.step(state, evaluate, noise)
    for rows in (state.mass[:3], state.mass[3:]):
        assert (rows == rows[0]).all()
    assert (state.mass[3] > 1.2 * state.mass[0]).all()
    assert {"mass", "drawn", "position_square"} <= set(sampler.of_rung)


def test_masses_that_cannot_be_are_refused():
    for wrong in ("fischer", "fisher:0", "fisher:", "fisher:-3", "fisher:2.5", "unit"):
        with pytest.raises(InputError, match="mass: unknown value"):
            Massive(Splitting(), wrong)
    for mass in ("fisher", "fisher:3"):
        with pytest.raises(InputError, match="an ensemble moves"):
            Massive(EnsembleQuasiNewton(Splitting()), mass)
        with pytest.raises(InputError, match="no momenta"):
            Massive(SGLD(), mass)
    with pytest.raises(InputError, match=r"^gradient_noise: a number refers to the gradient in θ"):
        Massive(SGHMC(1.0, 2.0), [1.0, 4.0])
    with pytest.raises(InputError, match="measured at one temperature"):
        ReplicaExchange(Massive(Splitting(), "fisher:3"), make_ladder(temperatures=[1.0, 2.0]))
    with pytest.raises(InputError, match="mix gradient entries"):
        Stretched(np.ones(2), np.zeros((0, 2)), np.ones(0)).spread(np.ones((1, 2)))


# -----------------------------------------------------------------------------------------------------------
# whole runs

SPREAD = np.array([1.0, 0.3, 0.1, 0.03, 0.01])


def regression(**options) -> tuple[Simulation, np.ndarray]:
    """A linear regression whose posterior is a Gaussian of condition 10⁴, rotated by 0.3 of a
    correlation of its inputs, and its covariance (weights, bias).
    """
    random = np.random.default_rng(6)
    inputs = (
        random.standard_normal((400, 5))
        @ (0.7 * np.eye(5) + 0.3 * rotated(5, np.ones(5), 7))
        * SPREAD
    )
    targets = inputs @ np.ones(5) + 0.2 * random.standard_normal(400)
    sim = Simulation(
        data=(inputs, targets[:, None]),
        hidden=[],
        noise_std=0.2,
        prior_std=10.0,
        standardize="none",
        verbose=0,
        **options,
    )
    design = np.column_stack([inputs, np.ones(400)])
    return sim, np.linalg.inv(design.T @ design / 0.04 + np.eye(6) / 100)


def sampled(num_steps: int = 3_500, num_burnin_steps: int = 500, **options):
    """Variances of 16 walkers over those of the posterior, `(walkers, parameters)`, and the run."""
    sim, covariance = regression(num_walkers=16, seed=1)
    length = {"num_steps": num_steps, "num_burnin_steps": num_burnin_steps, "record_every": 1}
    run = sim.sample(step_size=0.004, **length, **options)
    return run.moments.variance / np.diag(covariance), run


HMC = {"sampler": "HMC", "num_leapfrog_steps": 5, "target_acceptance": 0.8}
LANGEVIN = {"sampler": "BAOAB", "friction": 50.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mass", "options"),
    [
        ("fisher", HMC),
        ("fisher", LANGEVIN),
        ("fisher:6", HMC),
        ("fisher:6", LANGEVIN),
        ("variance", HMC),
    ],
)
def test_the_posterior_is_kept(mass, options):
    """3,000 steps from random starts, condition 10⁴: all variances within 5.5 standard errors, at
    most 8 % of them.
    """
    found, run = sampled(mass=mass, **options)
    for values in found.T:
        value, error = mean_and_error(values)
        assert abs(value - 1) < TOLERANCE * error < 0.08 * TOLERANCE
    assert run.manifest["method"]["mass"] == mass
    last = run.run_info[run.run_info["step"] > 500]
    assert last["mass_spread"].nunique() == 1 and 50 < last["mass_spread"].iloc[0] < 200
    assert (last["mass_skipped"] == 0).all()


@pytest.mark.slow
@pytest.mark.parametrize("mass", ["fisher", "fisher:6"])
def test_a_third_of_the_gradients_makes_a_smaller_error(mass):
    """The worst mean squared relative error of a variance, over 16 walkers, burn-in included: .02
    with the mass after 1,166 steps, .2 after 3,500 without.
    """
    worst = [
        ((sampled(num_steps, mass=mass, **HMC)[0] - 1) ** 2).mean(0).max()
        for mass, num_steps in ((mass, 1_166), ("unit", 3_500))
    ]
    print(mass, worst)
    assert worst[0] < worst[1] / 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mass", "stop"),
    [("variance", 25), ("fisher:3", 25), ("fisher:3", 40), ("fisher", 25), ("fisher", 40)],
)
def test_a_run_stopped_in_the_burnin_goes_on_as_if_it_had_not(tmp_path, mass, stop):
    """At the end of a window, and in the middle of one."""
    data = np.random.default_rng(6).normal(size=(10, 2)), np.random.default_rng(7).normal(size=10)
    options = {
        "mass": mass,
        "num_burnin_steps": 200,
        "num_steps": 230,
        "step_size": 0.05,
        "execution": "graph",
    }
    for folder, limits, more in (
        ("whole", Limits(), {}),
        ("halves", Limits(stop, stop), {"max_time": 1e-9}),
    ):
        sim = Simulation(
            data=data, num_walkers=2, seed=4, verbose=0, record_every=7, trajectory_every=5
        )
        sim.limits = limits
        sim.sample(output=str(tmp_path / folder), **options, **more)
    assert checkpoint.load(tmp_path / "halves")[1]["step"] == stop
    Simulation.resume(str(tmp_path / "halves"), data=data)
    assert tables(tmp_path / "halves") == tables(tmp_path / "whole")


@pytest.mark.parametrize(
    "sampler", [Splitting("BAOAB"), pytest.param(HamiltonianMonteCarlo(), marks=pytest.mark.slow)]
)
def test_a_sampler_object_with_a_mass_finds_the_steps_of_the_option(sampler):
    """Masses equal to the stiffness, 1 and 10,000: the stable step is a hundred times that at equal
    masses, which the energy errors of an object had.
    """
    mass = np.repeat([1.0, 1e4], 4)
    sizes = []
    for given in ({"sampler": Massive(sampler, mass)}, {"sampler": sampler, "mass": mass}):
        sim = Simulation(
            potential=lambda x: 0.5 * tf.reduce_sum(mass * x * x, -1),
            dimension=8,
            num_walkers=2,
            verbose=0,
            seed=1,
        )
        run = sim.sample(step_size="auto", num_steps=120, num_burnin_steps=100, **given)
        sizes.append(run.run_info["step_size"].to_numpy())
    np.testing.assert_array_equal(*sizes)
    assert 0.05 < sizes[0][-1] < 2
