"""Variances of gradients in one pass: equal to those from single examples, on every network that
counts as a chain.

The reference takes each example as a batch of its own, by Keras' own call of the model; 1e-6 in
float64. What is no chain is refused, and still told from single examples.
"""

from __future__ import annotations

from time import perf_counter

import keras
import numpy as np
import pytest
from keras import layers

from tati_re import Simulation
from tati_re.core.backend import tf
from tati_re.data import Dataset
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Loop
from tati_re.models.chain import chain_of
from tati_re.options.make import make_options
from tati_re.posterior import example_variance
from tati_re.posterior.potential import Batch
from tati_re.samplers.wrappers.coordinates import InCoordinates
from tati_re.samplers.wrappers.mass import Diagonal
from tests.scenarios import rung_of

N = 13
GENERATOR = np.random.default_rng(4)
X = GENERATOR.normal(size=(N, 4))
CLASSES, VALUES = GENERATOR.integers(0, 3, N), GENERATOR.normal(size=(N, 3))
IMAGES = GENERATOR.integers(0, 256, (N, 2, 2, 1), np.uint8)


def potential_of(model, data, walkers: int, training: bool = False, **options):
    """Batches of 5, the last of an epoch with 3."""
    given = {
        "dtype": "float64",
        "batch_size": 5,
        "num_walkers": walkers,
        "verbose": 0,
        "seed": 3,
        "noise_std": 1.0,
    }
    given |= options
    sim = Simulation(model, data, **given)
    return sim.system.potential(make_options(given), training=training)


def asked(potential, batch):
    """The potential at a mini-batch, and one random place a walker."""
    walkers = potential.num_walkers
    position = tf.constant(
        0.7 * np.random.default_rng(1).normal(size=(walkers, potential.num_parameters))
    )
    evaluate = potential.bind(
        rung_of(np.full(walkers, 0.1)), batch, tuple(map(tf.constant, potential.auxiliary))
    )
    return evaluate, position


def by_examples(potential, *batches):
    """Energy, and variance from single examples, at each batch of indices and size."""

    @tf.function(autograph=False, reduce_retracing=True)
    def found(indices, size):
        evaluate, position = asked(potential, Batch(indices, size))
        return evaluate(position), evaluate.gradient_variance(position)

    chain, potential.chain = potential.chain, None
    try:
        return [found(tf.constant(indices), tf.constant(size)) for indices, size in batches]
    finally:
        potential.chain = chain


def in_one_pass(potential, indices, size, execution: str = "graph"):
    def found(indices, size):
        evaluate, position = asked(potential, Batch(indices, size))
        return evaluate.with_variance(position)

    assert potential.chain is not None
    if execution != "eager":
        found = tf.function(found, autograph=False, jit_compile=execution == "xla")
    return found(tf.constant(indices), tf.constant(size))


def agree(found, expected, rtol: float = 1e-6):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-9 * np.abs(expected).max())


CASES = {
    "own": {"walker_evaluation": "unrolled"},
    "looped": {"walker_evaluation": "looped", "batch_sampling": "replacement"},
    "stacked": {"walker_evaluation": "vectorized"},
    "shared": {
        "walker_batches": "shared",
        "walker_evaluation": "vectorized",
        "batch_sampling": "replacement",
    },
    "shared, looped": {"walker_batches": "shared", "walker_evaluation": "looped"},
}
UNDER_XLA = "looped", "stacked", "shared"
"""A loop, a product for all walkers, and one for a batch that they share."""
CROSS_ENTROPY, GAUSSIAN = "sparse_categorical_crossentropy", "gaussian"


@pytest.mark.parametrize(
    ("case", "loss", "hidden", "walkers", "activation"),
    [
        ("own", CROSS_ENTROPY, [], 8, "linear"),
        ("own", GAUSSIAN, [3], 1, "tanh"),
        pytest.param("looped", CROSS_ENTROPY, [4, 3], 3, "elu", marks=pytest.mark.slow),
        pytest.param("stacked", GAUSSIAN, [4, 3], 8, "relu", marks=pytest.mark.slow),
        ("shared", CROSS_ENTROPY, [3], 8, "sigmoid"),
        ("shared, looped", GAUSSIAN, [], 3, "linear"),
    ],
)
def test_it_is_that_of_single_examples(case, loss, hidden, walkers, activation):
    """A full batch, and a short one however it is executed; each walker at a place of its own,
    regularized weights.
    """
    inner = [
        layers.Dense(units, activation=activation, kernel_regularizer="l2") for units in hidden
    ]
    model = keras.Sequential([keras.Input((4,)), *inner, layers.Dense(3)])
    data = (X, CLASSES if loss.startswith("sparse") else VALUES)
    potential = potential_of(model, data, walkers, loss=loss, **CASES[case])
    indices, sizes = potential.batches.indices(0, 3)
    asked_for = {0: ["eager"], 2: ["eager", "graph", *["xla"] * (case in UNDER_XLA)]}
    references = by_examples(potential, *((indices[i], sizes[i]) for i in asked_for))
    for (i, executions), (expected_energy, expected) in zip(
        asked_for.items(), references, strict=True
    ):
        for execution in executions:
            energy, variance = in_one_pass(potential, indices[i], sizes[i], execution)
            agree(variance, expected)
            for here, there in zip(energy, expected_energy, strict=True):
                agree(here, there, 1e-10)


def frozen(layer):
    layer.trainable = False
    return layer


def functional():
    inside = keras.Sequential([keras.Input((5,)), layers.Dense(4, "sigmoid"), layers.Dropout(0.5)])
    entry = keras.Input((4,))
    return keras.Model(
        entry, layers.Dense(3, use_bias=False)(inside(layers.Dense(5, "gelu")(entry)))
    )


def normalised():
    first = layers.Normalization(mean=[0.1, 0.2, 0.3, 0.4], variance=[1.0, 2.0, 3.0, 4.0])
    rest = [
        frozen(layers.Dense(5, "tanh")),
        layers.Dense(4),
        layers.LeakyReLU(),
        frozen(layers.BatchNormalization()),
    ]
    return keras.Sequential([keras.Input((4,)), first, *rest, layers.Dense(3, "softmax")])


def images():
    return keras.Sequential(
        [keras.Input((2, 2, 1)), layers.Flatten(), layers.Dense(3), layers.ReLU(), layers.Dense(3)]
    )


@pytest.mark.parametrize(
    ("made", "case"),
    [
        (functional, "own"),
        pytest.param(functional, "shared", marks=pytest.mark.slow),
        (normalised, "stacked"),
        pytest.param(normalised, "shared, looped", marks=pytest.mark.slow),
        (images, "looped"),
        pytest.param(images, "shared", marks=pytest.mark.slow),
    ],
)
def test_other_layers_may_stand_between(made, case):
    """Frozen layers, bytes that are scaled, models in models, layers without a bias."""
    data = (X, CLASSES)
    if made is images:
        data = Dataset(IMAGES, CLASSES, name="images", input_scale=1 / 255, num_classes=3)
    potential = potential_of(made(), data, 3, **CASES[case])
    indices, sizes = potential.batches.indices(0, 3)
    ((expected_energy, expected),) = by_examples(potential, (indices[2], sizes[2]))
    energy, variance = in_one_pass(potential, indices[2], sizes[2])
    evaluate, position = asked(potential, Batch(tf.constant(indices[2]), tf.constant(sizes[2])))
    agree(variance, expected)
    agree(evaluate.gradient_variance(position), expected)
    agree(energy.gradient, expected_energy.gradient)
    agree(energy.potential, expected_energy.potential)


def test_each_walker_has_frozen_values_of_its_own():
    potential = potential_of(normalised(), (X, CLASSES), 3, walker_evaluation="vectorized")
    potential.auxiliary = tuple(
        value * np.linspace(1.0, 1.5, 3).reshape(3, *[1] * (value.ndim - 1)).astype(value.dtype)
        for value in potential.auxiliary
    )
    indices, sizes = potential.batches.indices(0, 1)
    agree(
        in_one_pass(potential, indices[0], sizes[0])[1],
        by_examples(potential, (indices[0], sizes[0]))[0][1],
    )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda sums, squares, size: (sums / size, squares / (size - 1)),
        lambda sums, squares, size: (sums / size, (squares - sums**2 / size) / size),
    ],
    ids=["the mean not taken off", "n below the sum"],
)
def test_wrong_variances_are_caught(wrong, monkeypatch):
    monkeypatch.setattr(example_variance, "_moments", wrong)
    potential = potential_of(images(), (IMAGES / 255, CLASSES), 3)
    indices, sizes = potential.batches.indices(0, 1)
    variance = in_one_pass(potential, indices[0], sizes[0])[1]
    ((_, expected),) = by_examples(potential, (indices[0], sizes[0]))
    with pytest.raises(AssertionError):
        agree(variance, expected, 0.02)


def test_examples_that_agree_have_no_variance():
    """Equal examples: what rounding leaves is never below 0, in float32 too."""
    data = (np.repeat(X[:1], N, axis=0), np.repeat(VALUES[:1], N, axis=0))
    model = keras.Sequential([keras.Input((4,)), layers.Dense(5, "tanh"), layers.Dense(3)])
    potential = potential_of(model, data, 3, dtype="float32")
    indices, sizes = potential.batches.indices(0, 1)
    position = tf.random.stateless_normal((3, potential.num_parameters), (1, 2))
    evaluate = potential.bind(
        rung_of(np.full(3, 0.1)), Batch(tf.constant(indices[0]), tf.constant(sizes[0]))
    )
    energy, variance = evaluate.with_variance(position)
    assert (variance.numpy() >= 0).all()
    assert (variance.numpy() <= 1e-6 * energy.gradient.numpy() ** 2).all()


def branches():
    entry = keras.Input((4,))
    return keras.Model(entry, layers.Dense(3)(layers.Add()([layers.Dense(4)(entry), entry])))


def operations():
    entry = keras.Input((4,))
    return keras.Model(entry, layers.Dense(3)(keras.ops.sin(entry)))


def twice():
    layer = layers.Dense(4)
    return keras.Sequential(
        [keras.Input((4,)), layer, layers.Activation("tanh"), layer, layers.Dense(3)]
    )


def random_always():
    entry = keras.Input((4,))
    return keras.Model(entry, layers.Dense(3)(layers.Dropout(0.5)(entry, training=True)))


def row(*inside):
    return keras.Sequential([keras.Input((4,)), *inside, layers.Dense(3)])


@pytest.mark.parametrize(
    "made",
    [
        branches,
        operations,
        twice,
        random_always,
        lambda: row(layers.BatchNormalization()),
        lambda: row(layers.PReLU()),
        lambda: row(layers.Reshape((4, 1)), layers.Dense(2), layers.Flatten()),
        lambda: row(layers.Reshape((4, 1)), layers.Conv1D(2, 2), layers.Flatten()),
        lambda: row(layers.Lambda(lambda x: x - keras.ops.mean(x, axis=0))),
    ],
)
def test_what_is_no_chain_is_refused(made):
    assert chain_of(made()) is None


def test_other_networks_are_told_from_single_examples():
    """Inputs that go around a layer: against batches of one example, repeated."""
    potential = potential_of(branches(), (X, VALUES), 2)
    assert potential.chain is None
    indices, sizes = potential.batches.indices(0, 1)
    position = tf.constant(np.random.default_rng(1).normal(size=(2, potential.num_parameters)))
    rung = rung_of(np.full(2, 0.1))
    evaluate = potential.bind(rung, Batch(tf.constant(indices[0]), tf.constant(sizes[0])))
    energy, variance = evaluate.with_variance(position)
    agree(energy.gradient, evaluate(position).gradient)
    single = []
    for column in range(5):
        repeated = np.repeat(indices[0][:, column : column + 1], 5, axis=1)
        single.append(
            potential.bind(rung, Batch(tf.constant(repeated), tf.constant(5)))(
                position
            ).gradient.numpy()
        )
    agree(variance, np.var(single, axis=0, ddof=1) / 5 * (1 - 5 / N))


def test_layers_that_train_tie_the_examples_together():
    model = keras.Sequential([keras.Input((4,)), layers.Dropout(0.5), layers.Dense(3)])
    assert potential_of(model, (X, CLASSES), 2).chain is not None
    assert potential_of(model, (X, CLASSES), 2, training=True).chain is None


def test_other_coordinates_see_it_squared():
    """θ = θ₀ + B x with diagonal B: U, B ∇U and B² times the variance, in one pass as one by
    one.
    """
    potential = potential_of(images(), (IMAGES / 255, CLASSES), 2)
    indices, sizes = potential.batches.indices(0, 1)
    evaluate = potential.bind(
        rung_of(np.full(2, 0.1)), Batch(tf.constant(indices[0]), tf.constant(sizes[0]))
    )
    origin = tf.constant(np.random.default_rng(1).normal(size=(2, potential.num_parameters)))
    scales = tf.constant(np.random.default_rng(2).uniform(0.5, 2.0, potential.num_parameters))
    inside = InCoordinates(evaluate, origin, Diagonal(scales))
    energy, variance = inside.with_variance(tf.zeros_like(origin))
    agree(inside.seen, evaluate(origin).gradient)
    agree(energy.gradient, inside(tf.zeros_like(origin)).gradient)
    agree(variance, inside.gradient_variance(tf.zeros_like(origin)))


@pytest.mark.slow
@pytest.mark.parametrize(("evaluation", "batches"), [("vectorized", "shared"), ("looped", "own")])
def test_xla_compiles_once(evaluation, batches, monkeypatch):
    """Later chunks take less time in all than the compilation in the first call."""
    system = {"hidden": [3], "num_walkers": 3, "batch_size": 5, "walker_batches": batches}
    sim = Simulation(None, (X, CLASSES), walker_evaluation=evaluation, verbose=0, **system)
    sim.limits = Limits(most_steps=9, first_steps=9)
    seconds, run = [], Loop.run

    def timed(self, *arguments):
        begin = perf_counter()
        chunk = run(self, *arguments)
        seconds.append(perf_counter() - begin)
        return chunk

    monkeypatch.setattr(Loop, "run", timed)
    sim.sample(sampler="mCCAdL", num_steps=60, step_size=0.01, execution="xla", trajectory_every=0)
    assert len(seconds) > 6
    assert sum(seconds[1:7]) < seconds[0]
