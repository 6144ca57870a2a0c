"""U = N * mean loss - log prior with all its constants, for every loss, layer and way to evaluate
walkers.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tati_re import InputError, Simulation, priors
from tati_re.core.backend import keras, tf
from tati_re.core.ops import compiled_by_xla
from tati_re.data import Dataset
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.walkers import loss_and_gradient
from tati_re.samplers import SGLD, HamiltonianMonteCarlo, Splitting
from tests.scenarios import TOLERANCE, rung_of

N = 12
GENERATOR = np.random.default_rng(8)
X = GENERATOR.normal(size=(N, 3))
CLASSES = np.arange(N) % 3
TWO = np.arange(N) % 2
VALUES = GENERATOR.normal(size=(N, 2))
SMALL = {"dtype": "float64", "verbose": 0, "execution": "graph", "seed": 5}


def log_softmax(outputs):
    return outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))


def gaussian(outputs, std=0.3):
    return np.sum((VALUES - outputs) ** 2 / (2 * std**2) + np.log(std * np.sqrt(2 * np.pi)), axis=1)


def sparse(outputs):
    return -log_softmax(outputs)[np.arange(N), CLASSES]


def binary(outputs):
    return (np.log1p(np.exp(outputs)) - TWO[:, None] * outputs)[:, 0]


LOSSES = {
    "gaussian": (VALUES, gaussian, {"noise_std": 0.3}),
    "sparse_categorical_crossentropy": (CLASSES, sparse, {}),
    "categorical_crossentropy": (np.eye(3)[CLASSES], sparse, {}),
    "binary_crossentropy": (TWO, binary, {}),
    "mean_squared_error": (VALUES, lambda outputs: np.mean((VALUES - outputs) ** 2, axis=1), {}),
    "mean_absolute_error": (VALUES, lambda outputs: np.mean(np.abs(VALUES - outputs), axis=1), {}),
}


def dense(units: int, activation: str | None = None):
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, activation=activation)])


@pytest.mark.parametrize("name", LOSSES)
def test_the_potential_of_every_loss_counts_its_constants(name):
    targets, per_example, options = LOSSES[name]
    model = dense(1 if name.startswith("binary") else 3 if "crossentropy" in name else 2)
    sim = Simulation(model, (X, targets), loss=name, prior_std=2.0, **SMALL, **options)
    theta = sim.parameters
    outputs = X @ theta[: -model.output_shape[1]].reshape(3, -1) + theta[-model.output_shape[1] :]
    losses = per_example(outputs)
    assert sim.loss() == pytest.approx(losses.mean(), rel=1e-12)
    prior = theta @ theta / 8 + len(theta) * np.log(2 * np.sqrt(2 * np.pi))
    assert sim.potential() == pytest.approx(losses.sum() + prior, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "activation"),
    [
        ("sparse_categorical_crossentropy", "softmax"),
        ("categorical_crossentropy", "softmax"),
        ("binary_crossentropy", "sigmoid"),
    ],
)
def test_probabilities_and_logits_give_one_potential(name, activation):
    targets, _, _ = LOSSES[name]
    units = 1 if activation == "sigmoid" else 3
    logits = Simulation(dense(units), (X, targets), loss=name, **SMALL)
    ending = Simulation(dense(units, activation), (X, targets), loss=name, **SMALL)
    ending.parameters = logits.parameters
    assert ending.potential() == pytest.approx(logits.potential(), rel=1e-12)
    np.testing.assert_allclose(ending.gradients(), logits.gradients(), rtol=1e-9)
    np.testing.assert_allclose(
        ending.predict_probabilities(X), logits.predict_probabilities(X), rtol=1e-12
    )
    assert ending.score() == logits.score()


def test_default_losses_and_outputs_fit_the_labels():
    for targets, loss, outputs in (
        (CLASSES, "sparse", 3),
        (np.eye(3)[CLASSES], "categorical", 3),
        (VALUES, "gauss", 2),
    ):
        sim = Simulation(data=(X, targets), **SMALL)
        assert sim._engine().potential.loss.name.startswith(loss)
        assert sim.predict(X).shape == (N, outputs)
    sim = Simulation(data=(X, TWO), loss="binary_crossentropy", **SMALL)
    assert sim.predict(X).shape == (N, 1)


def test_labels_by_sign_are_taken_by_their_sign():
    signs = 2.0 * TWO - 1
    by_sign = Simulation(dense(1), (X, signs), loss="binary_crossentropy", **SMALL)
    by_class = Simulation(dense(1), (X, TWO), loss="binary_crossentropy", **SMALL)
    by_sign.parameters = by_class.parameters
    assert by_sign.potential() == pytest.approx(by_class.potential(), rel=1e-14)
    assert by_sign.score() == by_class.score()
    squares = Simulation(data=(X, signs), loss="mean_squared_error", **SMALL)
    right = np.mean((squares.predict(X)[:, 0] > 0) == (signs > 0))
    assert squares.score() == pytest.approx(right)
    two = [
        Simulation(dense(2), (X, y), loss="sparse_categorical_crossentropy", **SMALL)
        for y in (signs, TWO)
    ]
    two[0].parameters = two[1].parameters
    assert two[0].potential() == two[1].potential()
    assert two[0].score() == two[1].score()


def test_class_numbers_as_values_have_no_accuracy():
    sim = Simulation(data=(X, CLASSES), loss="mse", **SMALL)
    assert sim.predict(X).shape == (N, 1)
    assert (
        "accuracy" not in sim.sample(step_size=0.001, num_steps=1, record_every=1).run_info.columns
    )
    with pytest.raises(InputError, match="accuracy of a classifier"):
        sim.score()
    with pytest.raises(InputError, match=r"^loss: categorical_crossentropy needs one output"):
        Simulation(dense(1), (X, CLASSES), loss="categorical_crossentropy", **SMALL).loss()


def test_accuracy_of_one_output_is_by_threshold():
    sim = Simulation(dense(1), (X, TWO), loss="mean_squared_error", **SMALL)
    assert sim.score() == pytest.approx(np.mean((sim.predict(X)[:, 0] > 0.5) == TWO))
    assert 0 < sim.score() < 1


@pytest.mark.parametrize("batch_size", [None, 20])
def test_an_accuracy_is_never_above_one(batch_size):
    """49 times 1/49 is not 1, at once or one after the other; the last of three batches of 20 has 9
    examples.
    """
    inputs = np.linspace(-1, 1, 49)[:, None]
    options = {"hidden": [], "num_walkers": 2, "execution": "graph", "batch_size": batch_size}
    sim = Simulation(
        data=(inputs, (inputs[:, 0] > 0).astype(int)), loss="binary_crossentropy", **options
    )
    sim.parameters = np.array([[1.0, -1e-6], [-1.0, 1e-6]])
    assert [list(sim.score()) for _ in range(3)] == [[1.0, 0.0]] * 3


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.CategoricalCrossentropy(from_logits=True),
        keras.losses.Huber(),
        "huber",
        "log_cosh",
    ],
)
def test_keras_losses_are_means_over_examples(loss):
    targets = np.eye(3)[CLASSES]
    sim = Simulation(dense(3), (X, targets), loss=loss, prior="none", **SMALL)
    function = keras.losses.get(loss) if isinstance(loss, str) else loss
    expected = np.mean(function(targets, sim.predict(X)))
    # Keras' loss objects compute in float32.
    assert sim.loss() == pytest.approx(expected, rel=1e-6)
    assert sim.potential() == pytest.approx(N * sim.loss(), rel=1e-14)


# layers and their slopes

IMAGES = GENERATOR.normal(size=(N, 4, 4, 1))
SERIES = GENERATOR.normal(size=(N, 5, 2))
LAYERS = {
    "Dense": (X, lambda: [keras.layers.Dense(4, activation="tanh")]),
    "Conv2D": (
        IMAGES,
        lambda: [keras.layers.Conv2D(2, 3, activation="tanh"), keras.layers.Flatten()],
    ),
    "LSTM": (SERIES, lambda: [keras.layers.LSTM(2)]),
    "BatchNormalization": (
        X,
        lambda: [keras.layers.Dense(3, activation="tanh"), keras.layers.BatchNormalization()],
    ),
}


def layered(name: str, **options) -> Simulation:
    inputs, layers = LAYERS[name]
    keras.utils.set_random_seed(9)
    model = keras.Sequential([keras.Input(inputs.shape[1:]), *layers(), keras.layers.Dense(3)])
    return Simulation(model, (inputs, CLASSES), **SMALL | options)


@pytest.mark.parametrize("name", LAYERS)
def test_gradients_and_hessian_products_are_slopes_of_the_potential(name):
    sim = layered(name)
    theta, step = sim.parameters.copy(), 1e-4
    direction = np.random.default_rng(0).normal(size=theta.shape)
    slope, curved = sim.gradients() @ direction, sim.hessian_vector_product(direction)
    potentials, gradients = {}, {}
    for times in (-2, -1, 1, 2):
        sim.parameters = theta + times * step * direction
        potentials[times], gradients[times] = sim.potential(), sim.gradients()

    def difference(values):
        return (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step)

    assert difference(potentials) == pytest.approx(slope, rel=1e-6)
    np.testing.assert_allclose(
        difference(gradients), curved, rtol=1e-6, atol=1e-6 * np.abs(curved).max()
    )


# walker evaluation


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("walker_batches", ["own", "shared"])
def test_walkers_are_evaluated_alike_in_every_way(dtype, walker_batches):
    found = {}
    start = np.random.default_rng(1).normal(size=(3, 31))
    for how in ("vectorized", "unrolled", "looped"):
        options = {
            "dtype": dtype,
            "walker_batches": walker_batches,
            "walker_evaluation": how,
            "num_walkers": 3,
        }
        sim = layered("Dense", batch_size=5, **options)
        sim.parameters = start
        # The third batch of an epoch is the short one.
        found[how] = []
        for _ in range(3):
            found[how].append((sim.gradients(), sim.loss(), sim.score()))
            sim.next_batch()
    tolerance = 1e-12 if dtype == "float64" else 1e-6
    for how in ("unrolled", "looped"):
        for here, there in zip(found[how], found["vectorized"], strict=True):
            for value, expected in zip(here, there, strict=True):
                np.testing.assert_allclose(
                    value, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max()
                )
    same = np.allclose(found["looped"][0][1][0], found["looped"][0][1][1])
    assert not same


def test_gradients_of_walkers_in_a_loop_are_joined_after_it():
    """What XLA joins inside it loads through masks, by hundreds of cycles where the masked part
    lies outside of memory: 64 walkers of a small network took five times as long.
    """
    weights, x, y = (
        [tf.fill((3, 2, 2), 0.5), tf.fill((3, 5), 2.0)],
        tf.reshape(tf.range(12.0), (3, 4)),
        tf.zeros((3, 4)),
    )

    def total(own, extra, inputs, labels):
        return tf.cast(
            sum(tf.reduce_sum(inputs) * tf.reduce_sum(weight**3) for weight in own), tf.float64
        ), extra

    def gradient(how, *own):
        return loss_and_gradient(how, total, list(own), (), x, y, shared=False)[1]

    traced = tf.function(partial(gradient, "looped"), autograph=False).get_concrete_function(
        *weights
    )
    bodies = [
        one
        for one in traced.graph.as_graph_def().library.function
        if "while_body" in one.signature.name
    ]
    assert bodies and not [
        node for body in bodies for node in body.node_def if node.op == "ConcatV2"
    ]
    np.testing.assert_array_equal(traced(*weights), gradient("unrolled", *weights))


@pytest.mark.parametrize(
    ("inputs", "hidden", "examples", "options", "chosen", "on_all"),
    [
        (1, 50, 1_000, {}, "looped", "looped"),
        (1, 50, 1_000, {"num_walkers": 3}, "unrolled", "unrolled"),
        (1, 50, 1_000, {"execution": "graph"}, "unrolled", "unrolled"),
        (1, 50, 500, {}, "vectorized", "vectorized"),
        (1, 50, 1_000, {"num_walkers": 20}, "looped", "looped"),
        (1, 50, 100, {"num_walkers": 20}, "vectorized", "vectorized"),
        (
            1,
            50,
            1_000,
            {"num_walkers": 20, "batch_size": 32, "walker_batches": "shared"},
            "vectorized",
            "looped",
        ),
        (30, 10, 1_000, {"num_walkers": 20}, "vectorized", "vectorized"),
        (784, 10, 200, {"num_walkers": 20, "batch_size": 100}, "looped", "vectorized"),
        (784, 10, 200, {"num_walkers": 20, "batch_size": 20}, "vectorized", "vectorized"),
        (784, 10, 200, {"batch_size": 100}, "vectorized", "vectorized"),
        (784, 10, 600, {"batch_size": 550}, "looped", "vectorized"),
        (8, 50, 500, {"num_walkers": 8}, "looped", "looped"),
        (8, 16, 824, {"num_walkers": 8, "hidden": [16, 16]}, "vectorized", "vectorized"),
        (8, 16, 8_000, {"num_walkers": 8, "hidden": [16, 16]}, "looped", "looped"),
        (30, 10, 569, {"hidden": []}, "unrolled", "unrolled"),
        (30, 10, 569, {"hidden": [], "num_walkers": 8}, "vectorized", "vectorized"),
        (
            784,
            10,
            200,
            {"num_walkers": 20, "batch_size": 100, "execution": "graph"},
            "vectorized",
            "vectorized",
        ),
    ],
)
def test_auto_takes_the_evaluation_that_was_measured_as_the_fastest(
    inputs, hidden, examples, options, chosen, on_all
):
    x = np.zeros((examples, inputs))
    options = {"hidden": [hidden], "num_walkers": 4, "execution": "xla", "verbose": 0, **options}
    sim = Simulation(data=(x, x[:, 0]), **options)
    made = sim.system.potential(sim.options)
    assert (made.walker_evaluation, made._full_evaluation) == (chosen, on_all)


@pytest.mark.parametrize(
    ("layer", "walkers", "chosen"),
    [
        (keras.layers.GRU(2), 2, "unrolled"),
        (keras.layers.GRU(2), 3, "looped"),
        (keras.layers.Bidirectional(keras.layers.LSTM(2)), 3, "looped"),
        (keras.layers.Conv1D(2, 2), 16, "unrolled"),
    ],
)
def test_recurrent_layers_are_looped_whose_copies_take_long_to_compile(layer, walkers, chosen):
    model = keras.Sequential(
        [keras.Input((3, 1)), layer, keras.layers.Flatten(), keras.layers.Dense(1)]
    )
    sim = Simulation(model, (np.zeros((4, 3, 1)), np.arange(4.0)), num_walkers=walkers, verbose=0)
    made = sim.system.potential(sim.options)
    assert (made.walker_evaluation, made._full_evaluation) == (chosen, chosen)


def test_what_comes_before_a_recurrent_layer_compiles_under_xla():
    """The gradient by the sequences that it takes was traced in a graph first, in a form that XLA
    refuses.
    """
    parts = (
        keras.Input((3,), dtype="int32"),
        keras.layers.Embedding(5, 2),
        keras.layers.SimpleRNN(2),
    )
    sim = Simulation(
        keras.Sequential([*parts, keras.layers.Dense(1)]), (np.eye(3), np.arange(3.0)), verbose=0
    )
    potential, position = sim.system.potential(sim.options), tf.constant(sim.walkers.position)

    def energy(position):
        return tuple(
            potential.bind(rung_of(np.ones(1)), None, tuple(map(tf.constant, potential.auxiliary)))(
                position
            )
        )

    def marked(position):
        with compiled_by_xla():
            return energy(position)

    graph = tf.function(energy, autograph=False)(position)
    for here, there in zip(
        graph, tf.function(marked, autograph=False, jit_compile=True)(position), strict=True
    ):
        np.testing.assert_allclose(here, there, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"walker_batches": "shared"}, {"batch_size": None}])
def test_bytes_are_scaled_like_numbers(options):
    pixels = np.random.default_rng(2).integers(0, 256, (N, 3), dtype=np.uint8)
    found = []
    for inputs, scale in ((pixels, 1 / 255), (pixels / 255, 1.0)):
        data = Dataset.from_arrays(inputs, CLASSES, input_scale=scale)
        sim = Simulation(dense(3), data, **{**SMALL, "batch_size": 5, "num_walkers": 2, **options})
        sim.parameters = np.linspace(-1, 1, 24).reshape(2, 12)
        found.append((sim.gradients(), sim.loss(), sim.score(), sim.predict(inputs)))
    for here, there in zip(*found, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-12, atol=1e-12)


def test_own_batches_differ_and_shared_ones_do_not():
    for walker_batches, spread in (("own", True), ("shared", False)):
        sim = layered("Dense", batch_size=5, walker_batches=walker_batches, num_walkers=3)
        assert (np.ptp(sim.loss()) > 0) == spread


# box prior


def after(
    sampler, potential, step_size: float, num_steps: int, walkers: int = 40_000
) -> np.ndarray:
    """Where independent walkers are after some steps from 0, the only thing that is recorded."""
    loop = Loop(
        potential,
        sampler,
        Observables(sampler, None),
        rung_of([step_size] * walkers),
        1,
        "graph",
        record_every=10**6,
    )
    carry = loop.start(np.zeros((walkers, potential.num_parameters)), ())
    for first in range(1, num_steps + 1, loop.chunk_steps):
        carry = loop.run(carry, first, min(loop.chunk_steps, num_steps + 1 - first)).carry
    return carry.state.position.numpy()


def within(values: np.ndarray, expected: float) -> None:
    assert abs(values.mean() - expected) < TOLERANCE * values.std() / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("sampler", "step_size", "num_steps"), [(Splitting("BAOAB"), 0.5, 60), (SGLD(), 0.05, 100)]
)
def test_langevin_walkers_are_reflected_at_the_walls_and_fill_the_box(
    sampler, step_size, num_steps
):
    """The uniform law is exact at every step size; 40,000 walkers resolve 2.5 % of the second
    moment.
    """
    flat = FunctionPotential(lambda x: 0.0 * tf.reduce_sum(x, -1), 1, prior=priors.Box(0.7))
    positions = after(sampler, flat, step_size, num_steps)[:, 0]
    assert np.abs(positions).max() <= 0.7
    within(positions, 0.0)
    within(positions**2, 0.7**2 / 3)
    within(positions**4, 0.7**4 / 5)


def test_hmc_rejects_what_leaves_the_box():
    """A standard normal law, truncated at 1: its second moment is 1 - 2 φ(1) / (2 Φ(1) - 1) =
    0.2911.
    """
    well = FunctionPotential(lambda x: 0.5 * tf.reduce_sum(x * x, -1), 1, prior=priors.Box(1.0))
    positions = after(HamiltonianMonteCarlo(4, 0.5), well, 0.3, 60)[:, 0]
    assert np.abs(positions).max() <= 1
    within(positions, 0.0)
    within(positions**2, 0.291125)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bound", [0.1, 0.3, 0.7, 1.0, 1.1, 3.3])
def test_a_reflected_position_is_inside_to_the_last_bit(bound, dtype):
    box = priors.Box(bound)
    edge = dtype(bound)
    near = [
        np.nextafter(edge, dtype(np.inf)),
        edge,
        np.nextafter(edge, dtype(0)),
        edge * dtype(1.5),
        3 * edge,
    ]
    near += [
        np.nextafter(3 * edge, dtype(0)),
        np.nextafter(3 * edge, dtype(np.inf)),
        5 * edge,
        dtype(0),
    ]
    position = np.array([near, [-value for value in near]], dtype)
    reflected, momentum = box.confine(tf.constant(position), tf.ones_like(position))
    assert np.isfinite(box.log_prob(reflected)).all()
    np.testing.assert_array_equal(reflected[:, 1:3], position[:, 1:3])
    np.testing.assert_allclose(np.abs(reflected[:, 3]), edge / 2, rtol=1e-5)
    np.testing.assert_array_equal(momentum[:, 3], [-1, -1])
    np.testing.assert_array_equal(momentum[:, 1], [1, 1])


# what is said


def test_the_start_of_a_run_says_what_is_sampled(capsys):
    options = {**SMALL, "verbose": 2}
    Simulation(data=(X, VALUES), loss="mean_squared_error", prior="none", **options).sample(
        step_size=0.001, num_steps=1
    )
    said = capsys.readouterr().out
    assert "BAOAB on arrays: 8 parameters, 1 walker(s), temperature 1." in said
    assert (
        "U = L + V; L = 12 * the mean loss (the mean squared error), from all examples; V = -log prior"
        in said
    )
    assert "Nothing confines U" in said
    # U = sum over both outputs of d² / 2, so that the variance of the noise is 1.
    assert "implies Gaussian noise of standard deviation 1." in said
    Simulation(data=(X, VALUES), loss="mean_absolute_error", **options).sample(
        step_size=0.001, num_steps=1
    )
    assert "The loss mean_absolute_error is not a normalized likelihood" in " ".join(
        capsys.readouterr().out.split()
    )


def test_weight_regularisers_become_part_of_the_prior(capsys):
    model = keras.Sequential(
        [
            keras.Input((3,)),
            keras.layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.3), use_bias=False),
        ]
    )
    sim = Simulation(model, (X, VALUES), prior="none", noise_std=1.0, **{**SMALL, "verbose": 2})
    theta = sim.parameters
    expected = N * sim.loss() + N * 0.3 * theta @ theta
    assert sim.potential() == pytest.approx(expected, rel=1e-6)
    sim.sample(step_size=0.001, num_steps=1)
    assert "12 times the model's weight regularisers" in capsys.readouterr().out


class Gaussian(keras.losses.Loss):
    def call(self, labels, outputs):
        return 3 * keras.ops.sum((labels - outputs) ** 2, axis=-1)


def mean_squared_error(labels, outputs):
    return Gaussian().call(labels, outputs)


@pytest.mark.parametrize("loss", [Gaussian(), mean_squared_error])
def test_a_loss_of_users_that_is_called_like_another_is_theirs(loss):
    values = GENERATOR.normal(size=(N, 2))
    sim = Simulation(dense(2), (X, values), loss=loss, prior="none", **SMALL)
    assert sim.loss() == pytest.approx(
        3 * np.mean(np.sum((values - sim.predict(X)) ** 2, axis=1)), rel=1e-6
    )


@pytest.mark.parametrize("loss", ["bce", "BCE", "BinaryCrossentropy", "binary_focal_crossentropy"])
def test_a_cross_entropy_by_any_name_takes_outputs_of_a_linear_layer_as_logits(loss):
    labels = (X[:, 0] > 0).astype(int)
    sim = Simulation(dense(1), (X, labels), loss=loss, prior="none", **SMALL)
    p = np.where(labels, 1, -1) * sim.predict(X)[:, 0]
    p = 1 / (1 + np.exp(-p))
    factor = (1 - p) ** 2 if "focal" in loss else 1.0
    assert sim.loss() == pytest.approx(np.mean(-factor * np.log(p)), rel=1e-5)


def test_losses_of_keras_refuse_other_shapes_and_logits_as_probabilities():
    for loss in (keras.losses.Huber(), "categorical_hinge"):
        with pytest.raises(InputError, match=r"outputs of shape \(1,\) for labels of shape \(3,\)"):
            Simulation(dense(1), (X, GENERATOR.normal(size=(N, 3))), loss=loss, **SMALL).potential()
    for loss in ("kl_divergence", keras.losses.BinaryFocalCrossentropy()):
        with pytest.raises(InputError, match="outputs of a linear layer are not the probabilities"):
            Simulation(dense(3), (X, np.eye(3)[CLASSES]), loss=loss, **SMALL).potential()
