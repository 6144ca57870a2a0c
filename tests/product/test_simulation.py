"""A Simulation from Python: parameters and momenta, the potential at the walkers, predictions,
options.
"""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from tati_re import InputError, Simulation, coming_from_tati
from tati_re.data import Batches

N, NOISE, PRIOR = 6, 0.5, 0.7
GENERATOR = np.random.default_rng(7)
X, Y = GENERATOR.normal(size=(N, 2)), GENERATOR.normal(size=N)
DESIGN = np.column_stack([X, np.ones(N)])
WALKERS = 3
START = GENERATOR.normal(size=(WALKERS, 3))
LINEAR = {
    "dtype": "float64",
    "noise_std": NOISE,
    "prior_std": PRIOR,
    "verbose": 0,
    "execution": "graph",
}


def linear(kind: type[Simulation] = Simulation, **options) -> Simulation:
    """Linear regression: weights of two inputs and a bias, of which everything is known."""
    return kind(data=(X, Y), **LINEAR | options)


def mean_loss(theta, rows=slice(None)) -> float:
    error = Y[rows] - DESIGN[rows] @ theta
    return float(np.mean(error**2) / (2 * NOISE**2) + np.log(NOISE * np.sqrt(2 * np.pi)))


def minus_log_prior(theta) -> float:
    return float(theta @ theta / (2 * PRIOR**2) + len(theta) * np.log(PRIOR * np.sqrt(2 * np.pi)))


def gradient(theta, rows=slice(None)) -> np.ndarray:
    error = Y[rows] - DESIGN[rows] @ theta
    return -N / len(error) * DESIGN[rows].T @ error / NOISE**2 + theta / PRIOR**2


HESSIAN = DESIGN.T @ DESIGN / NOISE**2 + np.eye(3) / PRIOR**2


@pytest.fixture(scope="module")
def three() -> Simulation:
    return linear(num_walkers=WALKERS)


@pytest.fixture(scope="module")
def one() -> Simulation:
    return linear()


@pytest.fixture
def sim(three) -> Simulation:
    three.parameters = START
    return three


# parameters and momenta


def test_one_walker_has_a_vector(one):
    assert (one.num_walkers(), one.num_parameters()) == (1, 3)
    assert one.parameters.shape == one.momenta.shape == (3,)
    assert one.parameters.dtype == one.momenta.dtype == np.float64
    assert one.parameter_names() == ["dense/kernel[0,0]", "dense/kernel[1,0]", "dense/bias[0]"]
    one.parameters = [1.0, 2.0, 3.0]
    one.parameters[1] += 0.5
    np.testing.assert_array_equal(one.parameters, [1.0, 2.5, 3.0])
    one.parameters = [[0.0, 1.0, 2.0]]
    np.testing.assert_array_equal(one.parameters, [0.0, 1.0, 2.0])


def test_several_walkers_have_a_row_each(sim):
    assert sim.parameters.shape == sim.momenta.shape == (WALKERS, 3)
    np.testing.assert_array_equal(sim.parameters, START)
    sim.parameters = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(sim.parameters, [[1.0, 2.0, 3.0]] * WALKERS)
    sim.momenta = [4.0, 5.0, 6.0]
    np.testing.assert_array_equal(sim.momenta, [[4.0, 5.0, 6.0]] * WALKERS)


def test_writing_into_the_parameters_moves_a_walker(sim):
    before = sim.potential()
    sim.parameters[1] += 0.1
    sim.momenta[2] = 7.0
    np.testing.assert_array_equal(sim.parameters[1], START[1] + 0.1)
    np.testing.assert_array_equal(sim.momenta[2], 7.0)
    assert list(sim.potential() != before) == [False, True, False]
    np.testing.assert_array_equal(
        START, np.where(np.arange(3)[:, None] == 1, sim.parameters - 0.1, sim.parameters)
    )


def test_what_was_asked_stays_as_it_was(sim):
    """A step of one's own that is rejected goes back, and what it does with a gradient is not that
    of the next.
    """
    before, gradients, potential = sim.parameters, sim.gradients(), sim.potential()
    gradients *= -(2.0**-20)
    potential *= 2.0
    np.testing.assert_array_equal(sim.gradients(), -(2.0**20) * gradients)
    np.testing.assert_array_equal(sim.potential(), potential / 2.0)
    sim.parameters = sim.parameters + gradients
    np.testing.assert_array_equal(before, START)
    sim.parameters = before
    np.testing.assert_array_equal(sim.parameters, START)


@pytest.mark.parametrize("name", ["parameters", "momenta"])
@pytest.mark.parametrize("value", [1.0, np.ones(2), np.ones((2, 3)), np.ones((WALKERS, 3, 1))])
def test_values_of_another_shape_are_refused(sim, name, value):
    with pytest.raises(
        InputError,
        match=rf"^{name}: wrong shape\. Received: .* Expected: \(3,\) for all walkers, or \(3, 3\)",
    ):
        setattr(sim, name, value)


def test_momenta_are_drawn_from_the_seed_at_the_temperature():
    sim = linear(num_walkers=20_000, temperature=4.0)
    first = sim.momenta.copy()
    sim.init_momenta()
    second = sim.momenta.copy()
    # Independent numbers: a correlation has a standard error of 0.4 %.
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5.5 / np.sqrt(first.size)
    sim.init_momenta(seed=0)
    np.testing.assert_array_equal(sim.momenta, first)
    sim.init_momenta(seed=1)
    assert (sim.momenta != first).all()
    # 60,000 numbers: the variance has a relative standard error of 0.6 %, the mean one of 0.4 % of
    # the width.
    assert abs(first.var() / 4.0 - 1) < 5.5 * np.sqrt(2 / first.size)
    assert abs(first.mean()) < 5.5 * 2 / np.sqrt(first.size)
    sim.init_momenta(temperature=0.25, seed=0)
    np.testing.assert_allclose(sim.momenta, first / 4, rtol=1e-15)


# the potential, in closed form


def test_loss_and_potential_have_their_closed_form(sim):
    np.testing.assert_allclose(sim.loss(), [mean_loss(theta) for theta in START], rtol=1e-13)
    expected = [N * mean_loss(theta) + minus_log_prior(theta) for theta in START]
    np.testing.assert_allclose(sim.potential(), expected, rtol=1e-13)
    assert isinstance(sim.potential(2), float)
    assert sim.potential(2) == pytest.approx(expected[2], rel=1e-13)


def test_gradients_and_hessians_have_their_closed_form(sim):
    np.testing.assert_allclose(sim.gradients(), [gradient(theta) for theta in START], rtol=1e-12)
    np.testing.assert_allclose(sim.gradients(1), gradient(START[1]), rtol=1e-12)
    np.testing.assert_allclose(sim.hessians(), [HESSIAN] * WALKERS, rtol=1e-12, atol=1e-12)
    vectors = np.random.default_rng(0).normal(size=(WALKERS, 3))
    np.testing.assert_allclose(sim.hessian_vector_product(vectors), vectors @ HESSIAN, rtol=1e-12)
    np.testing.assert_allclose(
        sim.hessian_vector_product(vectors[0], 2), HESSIAN @ vectors[0], rtol=1e-12
    )


def test_one_walker_answers_without_a_walker_axis(one):
    one.parameters = START[0]
    assert one.loss() == pytest.approx(mean_loss(START[0]), rel=1e-13)
    assert one.gradients().shape == (3,)
    assert one.hessians().shape == (3, 3)
    assert one.hessian_vector_product(np.ones(3)).shape == (3,)


@pytest.mark.parametrize("ask", ["loss", "potential", "gradients", "hessians"])
@pytest.mark.parametrize("index", [3, -1])
def test_there_is_no_fourth_walker(sim, ask, index):
    with pytest.raises(
        InputError, match=rf"^walker_index: no such walker\. Received: {index}\. Expected: 0 to 2\."
    ):
        getattr(sim, ask)(index)


def test_the_mean_loss_convention_drops_the_number_of_examples():
    sim = linear(potential="mean_loss")
    theta = sim.parameters
    assert sim.potential() == pytest.approx(mean_loss(theta) + minus_log_prior(theta), rel=1e-13)
    data = (gradient(theta) - theta / PRIOR**2) / N
    np.testing.assert_allclose(sim.gradients(), data + theta / PRIOR**2, rtol=1e-12)


# the batch rule


def test_all_quantities_belong_to_one_batch_until_the_next():
    sim = linear(batch_size=4, seed=2)
    theta = sim.parameters.copy()
    indices, sizes = Batches(N, 4, 1, 2).indices(0, 3)
    for number in range(3):
        rows = indices[number, 0, : sizes[number]]
        assert sim.batch.number == number
        np.testing.assert_array_equal(sim.batch.examples, rows)
        for inputs, labels in (sim.batch, sim.dataset):
            np.testing.assert_array_equal(inputs, X[rows])
            np.testing.assert_array_equal(labels, Y[rows])
        for place in (theta, theta + 1):
            sim.parameters = place
            for _ in range(2):
                assert sim.loss() == pytest.approx(mean_loss(place, rows), rel=1e-12)
                np.testing.assert_allclose(sim.gradients(), gradient(place, rows), rtol=1e-12)
        sim.next_batch()
    assert linear().batch.examples is None


def test_in_tati_all_quantities_belong_to_one_batch_until_one_is_asked_again():
    sim = linear(coming_from_tati.Simulation, batch_size=4, seed=2, potential="posterior")
    theta = sim.parameters.copy()
    indices, sizes = Batches(N, 4, 1, 2).indices(0, 6)
    batches = [indices[step, 0, : sizes[step]] for step in range(6)]
    assert [len(batch) for batch in batches] == [4, 2, 4, 2, 4, 2]

    assert sim.loss() == pytest.approx(mean_loss(theta, batches[0]), rel=1e-12)
    np.testing.assert_allclose(sim.gradients(), gradient(theta, batches[0]), rtol=1e-12)
    expected = N * mean_loss(theta, batches[0]) + minus_log_prior(theta)
    assert sim.potential() == pytest.approx(expected, rel=1e-12)
    np.testing.assert_allclose(sim.gradients(), gradient(theta, batches[1]), rtol=1e-12)
    assert sim.loss() == pytest.approx(mean_loss(theta, batches[1]), rel=1e-12)
    sim.parameters = moved = theta + 1
    assert sim.loss() == pytest.approx(mean_loss(moved, batches[2]), rel=1e-12)
    sim.next_batch()
    np.testing.assert_allclose(sim.gradients(), gradient(moved, batches[3]), rtol=1e-12)
    sim.parameters[0] -= 1
    np.testing.assert_allclose(sim.gradients(), gradient(sim.parameters, batches[4]), rtol=1e-12)


def test_the_mean_over_an_epoch_of_equal_batches_is_the_full_gradient():
    sim = linear(coming_from_tati.Simulation, batch_size=2, potential="posterior")
    parts = [sim.gradients() for _ in range(3)]
    np.testing.assert_allclose(np.mean(parts, axis=0), gradient(sim.parameters), rtol=1e-12)


# predictions


def test_predictions_are_those_of_the_walker_or_of_given_parameters(sim):
    x = np.random.default_rng(1).normal(size=(5, 2))
    np.testing.assert_allclose(sim.predict(x)[0, :, 0], x @ START[0, :2] + START[0, 2], rtol=1e-12)
    np.testing.assert_allclose(
        sim.predict(x, walker_index=2)[:, 0], x @ START[2, :2] + START[2, 2], rtol=1e-12
    )
    np.testing.assert_array_equal(sim.predict(x, parameters=[0.0, 0.0, 4.0]), np.full((5, 1), 4.0))
    np.testing.assert_array_equal(sim.predict_probabilities(x), sim.predict(x))
    with pytest.raises(InputError, match="the inputs do not match the model"):
        sim.predict(np.ones((5, 3)))


def test_many_inputs_are_predicted_in_pieces(one):
    x = np.random.default_rng(1).normal(size=(20_000, 2))
    np.testing.assert_allclose(
        one.predict(x)[:, 0], x @ one.parameters[:2] + one.parameters[2], rtol=1e-12
    )


def test_a_classifier_has_probabilities_and_a_score():
    labels = np.array([0, 1, 2, 0, 1, 2])
    sim = Simulation(data=(X, labels), num_walkers=2, verbose=0, execution="graph", seed=1)
    sim.parameters[1] = 0.0
    logits = sim.predict(X, walker_index=0)
    probabilities = sim.predict_probabilities(X, walker_index=0)
    exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        probabilities, exponentials / exponentials.sum(axis=1, keepdims=True), rtol=1e-6
    )
    assert sim.score(0) == pytest.approx(np.mean(logits.argmax(axis=1) == labels))
    np.testing.assert_allclose(sim.score(), [sim.score(0), 1 / 3])


def test_regression_has_no_score(one):
    with pytest.raises(
        InputError, match=r"^score is the accuracy of a classifier\. Received: regression"
    ):
        one.score()


# options


def test_options_that_do_not_shape_the_system_can_be_changed():
    sim = linear()
    theta = sim.parameters.copy()
    assert sim.potential() == pytest.approx(
        N * mean_loss(theta) + minus_log_prior(theta), rel=1e-12
    )
    sim.set_options(prior="none", step_size=0.5)
    assert sim.potential() == pytest.approx(N * mean_loss(theta), rel=1e-12)
    assert (sim.options.step_size, sim.options.prior) == (0.5, "none")
    np.testing.assert_array_equal(sim.parameters, theta)
    sim.set_options(temperature=2.0)
    sim.set_options(inverse_temperature=4.0)
    assert sim.options.beta == 4.0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"num_walkers": 2},
            r"^num_walkers cannot change after the Simulation is created\. Expected: num_walkers in Simulation\(",
        ),
        ({"data": (X, Y)}, r"^data cannot change after the Simulation"),
        ({"dtype": "float32"}, r"^dtype cannot change after the Simulation"),
        ({"step_sise": 0.1}, r"^step_sise is not a known option\. Did you mean 'step_size'\?"),
        (
            {"step_size": -0.1},
            r"^step_size is out of range\. Received: -0\.1\. Expected: a number greater than 0 or 'auto'\.",
        ),
        ({"temperature": 1.0, "inverse_temperature": 1.0}, r"are two names for the same quantity"),
    ],
)
@pytest.mark.parametrize("call", ["set_options", "sample", "fit"])
def test_other_options_are_refused_and_change_nothing(one, call, options, sentence):
    before = one.options
    with pytest.raises(InputError, match=sentence):
        getattr(one, call)(**options)
    assert one.options == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sampler": "HCM"}, r"^sampler: unknown name\. Did you mean 'HMC'\?"),
        ({"sampler": object()}, r"^sampler"),
        ({"optimizer": "adm"}, r"^optimizer: unknown name\. Did you mean 'adam'\?"),
        ({"until": "rhat<"}, r"^until"),
        ({"batch_size": N + 1}, rf"^batch_size is larger than the data set\. Received: {N + 1}\."),
        ({"directions": "no.npy"}, r"^directions"),
        (
            {"directions": np.ones((1, 2))},
            "^directions: these are not row vectors of the parameters.",
        ),
        ({"step_schedule": "foo"}, r"^step_schedule"),
        ({"temperature_schedule": "foo"}, r"^temperature_schedule"),
    ],
)
def test_values_are_told_to_be_wrong_when_they_are_set(one, options, sentence):
    before = one.options, dict(one.objects)
    with pytest.raises(InputError, match=sentence):
        one.set_options(**options)
    assert (one.options, one.objects) == before


def test_options_of_a_call_are_for_that_call():
    sim = linear()
    sim.sample(num_steps=2, step_size=0.01)
    assert "step_size" not in sim.options.explicit


def test_help_says_what_options_mean(capsys):
    Simulation.help("step_size")
    assert capsys.readouterr().out.startswith("step_size: time step h of the scheme")
    Simulation.help()
    assert "friction" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"Did you mean 'friction'\?"):
        Simulation.help("fricton")


def test_the_walkers_stay_where_a_run_left_them(sim):
    run = sim.sample(num_steps=4, trajectory_every=4, record_every=4, step_size=0.1)
    np.testing.assert_array_equal(sim.parameters, run.trajectory.iloc[:, 4:])
    np.testing.assert_allclose(
        np.sum(sim.momenta**2, axis=1) / 2, run.run_info["kinetic_energy"], rtol=1e-13
    )
    np.testing.assert_allclose(sim.potential(), run.run_info["potential"], rtol=1e-12)


def test_a_copy_is_a_simulation_of_its_own():
    """Its potential is that of its copy of the model, and it goes on as the first one does, which
    stays where it is.
    """
    sim = linear(batch_size=2, noise_std="sampled", fix_parameters="bias=0.25")
    untouched = copy.deepcopy(sim)
    sim.sample(num_steps=4, step_size=0.01)
    sim.next_batch()
    here, untouched.parameters = sim.parameters.copy(), sim.parameters
    untouched.next_batch()
    np.testing.assert_array_equal(untouched.gradients(), sim.gradients())
    taken = pickle.loads(pickle.dumps(sim))
    assert taken.system.model is taken.system.flat.inside.model is not sim.system.model
    np.testing.assert_array_equal(taken.gradients(), sim.gradients())
    np.testing.assert_array_equal(tuple(taken.dataset)[1], tuple(sim.dataset)[1])
    rows = taken.sample(num_steps=4, step_size=0.01).trajectory
    np.testing.assert_array_equal(sim.parameters, here)
    pd.testing.assert_frame_equal(rows, sim.sample(num_steps=4, step_size=0.01).trajectory)
