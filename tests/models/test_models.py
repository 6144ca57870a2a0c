"""Keras models as functions of a flat vector: names, layout, precision, what is refused, and where
it runs.
"""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tati_re import Simulation
from tati_re.core.errors import InputError
from tati_re.models.build import build_network, load_model
from tati_re.models.flat import FlatModel
from tati_re.models.inspect import input_shape_of, output_activation_of, output_shape_of, work_of
from tati_re.models.names import parameter_names, tensor_names
from tati_re.models.precision import in_precision
from tati_re.system import system

layers = keras.layers


def dense():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(5, "tanh"),
            layers.Dense(3, "softmax", name="head"),
            layers.Dense(2),
        ]
    )


def convolution():
    return keras.Sequential(
        [
            keras.Input((6, 6, 2)),
            layers.Conv2D(3, 3, activation="relu"),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )


def lstm():
    return keras.Sequential([keras.Input((5, 2)), layers.LSTM(3), layers.Dense(2)])


def batch_norm():
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(5),
            layers.BatchNormalization(),
            layers.Dropout(0.3),
            layers.Dense(2),
        ]
    )


def two_branches():
    inputs = keras.Input((4,))
    a, b = layers.Dense(3, "relu")(inputs), layers.Dense(3)(inputs)
    return keras.Model(inputs, layers.Dense(2, use_bias=False)(layers.Add()([a, b])))


MODELS = [dense, convolution, lstm, batch_norm, two_branches]


class Scale(layers.Layer):
    """A layer of one's own, with a variable without a name."""

    def build(self, input_shape):
        self.factor = self.add_weight(shape=input_shape[-1:], initializer="ones")
        super().build(input_shape)

    def call(self, x):
        return x * self.factor


class Own(keras.Model):
    """A model of one's own, with a config made of its arguments."""

    def __init__(self, units=3):
        super().__init__()
        self.first, self.second = layers.Dense(units, "tanh"), layers.Dense(2)

    def call(self, x):
        return self.second(self.first(x))


def inputs_of(model, n=7, dtype="float32"):
    return np.random.default_rng(1).normal(size=(n, *model.input_shape[1:])).astype(dtype)


def shaken(model, seed=0):
    """The model with every weight moved away from its start, statistics too; variances stay
    positive.
    """
    random = np.random.default_rng(seed)
    model.set_weights([w + 0.1 * np.abs(random.normal(size=w.shape)) for w in model.get_weights()])
    return model


# Names


def test_names_are_counted_in_the_model():
    expected = [
        "dense/kernel",
        "dense/bias",
        "head/kernel",
        "head/bias",
        "dense_1/kernel",
        "dense_1/bias",
    ]
    assert tensor_names(dense()) == expected
    for _ in range(3):
        dense()
        lstm()
    assert tensor_names(dense()) == expected
    assert tensor_names(lstm())[:3] == [
        f"lstm/lstm_cell/{name}" for name in ("kernel", "recurrent_kernel", "bias")
    ]
    assert tensor_names(batch_norm())[2:4] == [
        "batch_normalization/gamma",
        "batch_normalization/beta",
    ]


@pytest.mark.parametrize(
    "make", [dense, *(pytest.param(make, marks=pytest.mark.slow) for make in MODELS[1:])]
)
def test_names_do_not_depend_on_what_else_the_process_built(make):
    keras.backend.clear_session()
    fresh = tensor_names(make())
    assert tensor_names(make()) == fresh
    assert len(set(fresh)) == len(fresh)


def test_names_of_nested_and_wrapped_layers():
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(3), layers.Dense(3)], name="block")
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dense(3), inner, Scale(), Scale(), layers.Dense(1)]
    )
    names = tensor_names(model)
    assert names[::2][:3] == ["dense/kernel", "block/dense/kernel", "block/dense_1/kernel"]
    assert names[6:] == ["scale/variable", "scale_1/variable", "dense_1/kernel", "dense_1/bias"]
    for _ in range(2):
        model = keras.Sequential([keras.Input((5, 2)), layers.Bidirectional(layers.LSTM(2))])
        assert tensor_names(model)[0] == "bidirectional/forward_lstm/lstm_cell/kernel"
        assert tensor_names(model)[3] == "bidirectional/backward_lstm/lstm_cell/kernel"


def test_a_chosen_name_is_kept_and_does_not_collide():
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dense(3), layers.Dense(3, name="Dense"), layers.Dense(1)]
    )
    assert tensor_names(model)[::2] == ["dense/kernel", "Dense/kernel", "dense_1/kernel"]


def test_a_shared_layer_has_the_name_of_its_first_place():
    shared, x = layers.Dense(3), keras.Input((3,))
    model = keras.Model(x, layers.Dense(1)(shared(shared(x))))
    assert tensor_names(model) == ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]


def test_parameter_names():
    assert parameter_names(["a", "b", "c"], [(2, 2), (), (1,)]) == [
        "a[0,0]",
        "a[0,1]",
        "a[1,0]",
        "a[1,1]",
        "b",
        "c[0]",
    ]
    flat = FlatModel(dense())
    names = flat.parameter_names()
    assert len(names) == flat.num_parameters == 4 * 5 + 5 + 5 * 3 + 3 + 3 * 2 + 2
    assert names[3] == "dense/kernel[0,3]"
    assert names[-1] == "dense_1/bias[1]"


# The flat vector


@pytest.mark.parametrize("make", MODELS)
def test_get_set_split_and_join(make):
    model = make()
    flat = FlatModel(model)
    vector = np.random.default_rng(0).normal(size=flat.num_parameters).astype("float32")
    flat.set(vector)
    np.testing.assert_array_equal(flat.get(), vector)
    for variable, weight in zip(model.trainable_variables, flat.split_one(vector), strict=True):
        np.testing.assert_array_equal(variable.numpy(), weight.numpy())
    position = np.stack([vector, 2 * vector, -vector])
    weights = flat.split(position)
    assert [tuple(w.shape) for w in weights] == [(3, *shape) for shape in flat.shapes]
    np.testing.assert_array_equal(flat.join(weights).numpy(), position)
    np.testing.assert_array_equal(weights[0][1].numpy(), flat.split_one(position[1])[0].numpy())
    # The names stand where the values are.
    where = flat.parameter_names().index(
        f"{flat.tensor_names[0]}[{','.join('0' * len(flat.shapes[0]))}]"
    )
    assert vector[where] == model.trainable_variables[0].numpy().ravel()[0]
    with pytest.raises(InputError, match="do not match"):
        flat.set(vector[:-1])


@pytest.mark.parametrize("make", MODELS)
def test_call_is_the_model(make):
    model = shaken(make())
    flat, x = FlatModel(model), inputs_of(model)
    outputs, auxiliary = flat.call(flat.split_one(flat.get()), flat.auxiliary, x)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-6, atol=1e-6)
    for new, old in zip(auxiliary, flat.auxiliary, strict=True):
        np.testing.assert_array_equal(new, old)
    moved = flat.get() + 0.1
    outputs, _ = flat.call(flat.split_one(moved), flat.auxiliary, x)
    assert np.abs(outputs - model(x)).max() > 1e-3
    flat.set(moved)
    np.testing.assert_allclose(outputs, model(x), rtol=1e-6, atol=1e-6)


def test_training_updates_the_statistics_it_returns_and_no_variable():
    model = batch_norm()
    flat, x = FlatModel(model), inputs_of(model, 50)
    assert flat.has_training_state
    assert flat.training_layers == ["BatchNormalization", "Dropout"]
    _, auxiliary = flat.call(flat.split_one(flat.get()), flat.auxiliary, x, training=True)
    assert any(
        np.abs(np.asarray(new) - old).max() > 0
        for new, old in zip(auxiliary, flat.auxiliary, strict=True)
    )
    for variable, old in zip(model.non_trainable_variables, flat.auxiliary, strict=True):
        np.testing.assert_array_equal(variable.numpy(), old)
    assert not FlatModel(dense()).has_training_state
    assert not FlatModel(lstm()).has_training_state
    frozen = batch_norm()
    frozen.layers[1].trainable = frozen.layers[2].trainable = False
    assert FlatModel(frozen).training_layers == ["Dropout"]


def test_a_model_whose_call_does_not_know_of_training_still_trains_its_layers():
    class Plain(keras.Model):
        def __init__(self):
            super().__init__()
            self.normalize, self.out = layers.BatchNormalization(), layers.Dense(2)

        def call(self, x):
            return self.out(self.normalize(x))

    model = Plain()
    x = np.random.default_rng(0).normal(3, 2, size=(50, 4)).astype("float32")
    model(x)
    flat = FlatModel(model)
    weights = flat.split_one(flat.get())
    frozen, same = flat.call(weights, flat.auxiliary, x)
    trained, moved = flat.call(weights, flat.auxiliary, x, training=True)
    np.testing.assert_array_equal(same[0], flat.auxiliary[0])
    np.testing.assert_allclose(moved[0], 0.01 * x.mean(0), rtol=1e-4)
    np.testing.assert_allclose(frozen, model(x), rtol=1e-6)
    assert np.abs(trained - frozen).max() > 0.1


def test_frozen_layers_are_auxiliary():
    model = dense()
    model.layers[0].trainable = False
    flat = FlatModel(model)
    assert flat.tensor_names[0] == "head/kernel"
    assert flat.num_parameters == 26
    assert sum(a.size for a in flat.auxiliary) == 25


@pytest.mark.parametrize("make", MODELS)
def test_graph_xla_and_vectorized_agree_with_eager(make):
    model = shaken(make())
    flat, x = FlatModel(model), tf.constant(inputs_of(model))
    position = tf.constant(flat.get() + 0.1 * np.arange(3, dtype="float32")[:, None])
    auxiliary = [tf.constant(a) for a in flat.auxiliary]

    def loss(weights):
        return tf.reduce_sum(flat.call(weights, auxiliary, x)[0] ** 2)

    def one(vector):
        with tf.GradientTape() as tape:
            tape.watch(vector)
            value = loss(flat.split_one(vector))
        return value, tape.gradient(value, vector)

    eager = [one(vector) for vector in tf.unstack(position)]
    values, slopes = np.array([e[0] for e in eager]), np.array([e[1] for e in eager])
    ways = {"graph": tf.function(one)}
    ways["xla"] = tf.function(one, jit_compile=True)
    for way in ways.values():
        value, slope = way(position[1])
        np.testing.assert_allclose(value, values[1], rtol=1e-5)
        np.testing.assert_allclose(slope, slopes[1], rtol=1e-4, atol=1e-4)
    if flat.vectorizable:

        @tf.function
        def vectorized(position):
            with tf.GradientTape() as tape:
                tape.watch(position)
                value = tf.vectorized_map(loss, flat.split(position), fallback_to_while_loop=False)
            return value, tape.gradient(value, position)

        value, slope = vectorized(position)
        np.testing.assert_allclose(value, values, rtol=1e-5)
        np.testing.assert_allclose(slope, slopes, rtol=1e-4, atol=1e-4)
    assert flat.vectorizable == (make not in (convolution, lstm))
    assert flat.xla_safe


def test_work_counts_numbers_products_and_each_round_of_a_loop():
    """A dense layer makes ten sums of 784 products, and adds a bias to each."""
    dense = keras.Sequential([keras.Input((784,)), layers.Dense(10)])
    assert work_of(dense, np.ones((1, 784)), "float32") == 10 * (1 + 784 / 16) + 10
    model = keras.Sequential([keras.Input((None, 1)), layers.LSTM(4)])
    found = [work_of(model, np.ones((1, n, 1)), "float32") for n in (2, 3, 4, 9)]
    assert found[2] - found[1] == found[1] - found[0] == (found[3] - found[2]) / 5 > 0


def test_what_is_not_known_is_not_vectorized():
    assert not FlatModel(
        keras.Sequential([keras.Input((3,)), Scale(), layers.Dense(1)])
    ).vectorizable
    x = keras.Input((3,))
    assert not FlatModel(keras.Model(x, layers.Dense(3)(x) + 1.0)).vectorizable


class Numpy(layers.Layer):
    """A factor computed by numpy, which XLA cannot compile."""

    def call(self, x):
        return x * tf.reshape(tf.numpy_function(lambda v: v.max(), [x], x.dtype), ())


def test_what_xla_cannot_compile_is_found():
    assert FlatModel(keras.Sequential([keras.Input((3,)), Scale(), layers.Dense(1)])).xla_safe
    assert not FlatModel(keras.Sequential([keras.Input((3,)), Numpy(), layers.Dense(1)])).xla_safe
    assert not FlatModel(
        keras.Sequential([keras.Input((3,)), layers.Lambda(Numpy().call), layers.Dense(1)])
    ).xla_safe


def test_regularizers_are_a_function_of_the_weights():
    assert FlatModel(dense()).regularizer is None
    model = keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(2, kernel_regularizer=keras.regularizers.L2(0.1)),
            layers.Dense(1, kernel_regularizer=keras.regularizers.L1(0.2), bias_regularizer="l2"),
        ]
    )
    flat = FlatModel(shaken(model))
    assert flat.regularized == ["dense/kernel", "dense_1/kernel", "dense_1/bias"]
    now = flat.regularizer(flat.split_one(flat.get()))
    np.testing.assert_allclose(now, sum(model.losses), rtol=1e-6)
    moved = flat.get() * 3
    flat.set(moved)
    np.testing.assert_allclose(
        flat.regularizer(flat.split_one(moved)), sum(model.losses), rtol=1e-6
    )
    assert now < flat.regularizer(flat.split_one(moved))


# Precision


@pytest.mark.parametrize("make", MODELS)
def test_float64_computes_in_float64(make):
    model = shaken(make())
    exact = in_precision(model, "float64")
    assert exact is not model
    assert {w.dtype for w in exact.weights} == {"float64"}
    assert {w.dtype for w in model.weights} == {"float32"}
    x = inputs_of(model)
    flat = FlatModel(exact)
    assert (flat.dtype, flat.input_dtype) == ("float64", "float64")
    outputs = exact(x.astype("float64"))
    assert outputs.dtype == tf.float64
    np.testing.assert_allclose(outputs, model(x), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(flat.get(), FlatModel(model).get().astype("float64"))
    assert flat.tensor_names == FlatModel(model).tensor_names
    # In float32 a change of 1e-10 would be lost in the weights, or on the way.
    vector = flat.get()
    call = lambda v: flat.call(flat.split_one(v), flat.auxiliary, x.astype("float64"))[0].numpy()  # noqa: E731
    difference = np.abs(call(vector + 1e-10) - call(vector)).max()
    assert 1e-11 < difference < 1e-8
    assert in_precision(exact, "float64") is exact
    assert in_precision(model, "float32") is model
    assert keras.config.floatx() == "float32"
    assert keras.config.dtype_policy().name == "float32"


def test_float64_of_layers_and_models_of_ones_own():
    own = Own()
    own(np.zeros((1, 4), "float32"))
    own.first.trainable = False
    model = keras.Sequential(
        [keras.Input((4,)), Scale(), layers.Dense(2, activation=lambda x: x * tf.sigmoid(x))]
    )
    made = [lambda x, factor=factor: tf.tanh(factor * x) for factor in (2.0, -0.5)]
    for function in made:
        function.__name__ = "tanh_of"  # as functions that one function makes
    alike = keras.Sequential(
        [keras.Input((4,)), *(layers.Dense(3, activation=function) for function in made)]
    )
    for source in (own, model, alike):
        exact = in_precision(source, "float64")
        x = np.random.default_rng(0).normal(size=(5, 4))
        assert exact(x).dtype == tf.float64
        np.testing.assert_allclose(exact(x), source(x.astype("float32")), rtol=1e-4, atol=1e-5)
    assert {function.__name__ for function in made} == {"tanh_of"}
    assert input_shape_of(own) == (None, 4)
    assert output_shape_of(own) == (None, 2)
    exact = in_precision(own, "float64")
    assert (
        FlatModel(own).tensor_names
        == FlatModel(exact).tensor_names
        == ["dense_1/kernel", "dense_1/bias"]
    )


def test_float64_keeps_what_a_layer_derived_from_its_variables():
    normalization = layers.Normalization()
    normalization.adapt(np.random.default_rng(0).normal(3, 2, size=(50, 4)))
    model = keras.Sequential([keras.Input((4,)), normalization, layers.Dense(2)])
    x = inputs_of(model)
    np.testing.assert_allclose(
        in_precision(model, "float64")(x.astype("float64")), model(x), rtol=1e-4, atol=1e-5
    )


def test_mixed_precision_becomes_float32():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2, dtype="mixed_float16")])
    plain = in_precision(model, "float32")
    assert plain is not model
    assert plain(inputs_of(plain)).dtype == tf.float32


def test_integer_inputs_stay_integers():
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(10, 3),
            layers.Flatten(),
            layers.Dense(1),
        ]
    )
    flat = FlatModel(in_precision(model, "float64"))
    assert (flat.dtype, flat.input_dtype) == ("float64", "int32")


def test_a_model_without_config_is_refused_in_float64():
    class Bare(keras.Model):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def get_config(self):
            raise NotImplementedError

        def call(self, x):
            return self.layer(x)

    model = Bare(layers.Dense(2))
    model(np.zeros((1, 3), "float32"))
    with pytest.raises(InputError, match="no config, so it cannot be rebuilt in float64"):
        in_precision(model, "float64")
    assert in_precision(model, "float32") is model


def test_a_layer_that_keeps_float32_is_refused_in_float64():
    class Stubborn(layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**(kwargs | {"dtype": "float32"}))

        def call(self, x):
            return x

    with pytest.raises(InputError, match="keeps its own type"):
        in_precision(keras.Sequential([keras.Input((3,)), Stubborn(), layers.Dense(1)]), "float64")


# Refusals


class AddsLoss(layers.Layer):
    def call(self, x):
        self.add_loss(tf.reduce_sum(x))
        return x


class AddsInTraining(layers.Layer):
    def call(self, x, training=False):
        if training:
            self.add_loss(tf.reduce_sum(x))
        return x


def refused():
    x = keras.Input((3,))
    sequence = keras.Input((5, 2), batch_size=4)
    yield keras.Sequential([layers.Dense(2)]), "no weights yet"
    yield Own(), "no weights yet"
    yield keras.Sequential([keras.Input((3,)), layers.Flatten()]), "no trainable parameters"
    frozen = dense()
    frozen.trainable = False
    yield frozen, "no trainable parameters"
    yield (
        keras.Sequential([keras.Input((3,)), layers.Dense(2, kernel_constraint="non_neg")]),
        "Constraints",
    )
    yield (
        keras.Sequential([keras.Input((3,)), layers.Dense(2, activity_regularizer="l2")]),
        "Activity regularizers",
    )
    yield (
        keras.Sequential([keras.Input((3,)), layers.Dense(2), layers.ActivityRegularization(0.1)]),
        "Activity",
    )
    yield keras.Sequential([keras.Input((3,)), AddsLoss(), layers.Dense(2)]), "add_loss"
    yield keras.Model(x, [layers.Dense(1)(x), layers.Dense(1)(x)]), "several outputs"
    y = keras.Input((None, 3))
    pooled = layers.GlobalAveragePooling1D()(y)
    yield (
        keras.Model([x, y], layers.Dense(1)(layers.Add()([x, pooled]))),
        "of several has no fixed shape",
    )
    yield keras.Model(sequence, layers.LSTM(2, stateful=True)(sequence)), "state between batches"
    yield keras.Sequential([keras.Input((3,)), AddsInTraining(), layers.Dense(2)]), "add_loss"
    spectral = layers.SpectralNormalization(layers.Dense(2))
    yield (
        keras.Sequential([keras.Input((3,)), spectral]),
        "changes sampled parameters of the model during training",
    )
    two_types = [keras.Input((3,)), layers.Dense(2), layers.Dense(1, dtype="float64")]
    yield keras.Sequential(two_types), "not of one type"


@pytest.mark.parametrize("index", range(14))
def test_refused(index):
    model, words = list(refused())[index]
    with pytest.raises(InputError, match=words):
        FlatModel(model)


def test_a_layer_of_ones_own_without_losses_is_welcome():
    model = keras.Sequential([keras.Input((3,)), Scale(), layers.Dense(1, kernel_regularizer="l2")])
    assert FlatModel(model).num_parameters == 7


class Drops(layers.Layer):
    def __init__(self):
        super().__init__()
        self.seeds = keras.random.SeedGenerator(1)

    def call(self, x, training=False):
        return keras.random.dropout(x, 0.5, seed=self.seeds) if training else x


class Centers(layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), trainable=False, initializer="zeros")
        super().build(shape)

    def call(self, x, training=False):
        if training:
            self.mean.assign(0.5 * self.mean + 0.5 * keras.ops.mean(x, 0))
        return x - self.mean


class Residual(layers.Layer):
    def __init__(self):
        super().__init__()
        self.inner, self.norm = layers.Dense(3), layers.BatchNormalization()

    def build(self, shape):
        self.inner.build(shape)
        self.norm.build(shape)
        super().build(shape)

    def call(self, x, training=False):
        return x + self.norm(self.inner(x), training=training)


class DropsInside(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner, self.seeds = layers.Dense(1), keras.random.SeedGenerator(1)

    def call(self, x, training=False):
        x = self.inner(x)
        return keras.random.dropout(x, 0.5, seed=self.seeds) if training else x


class Passes(layers.Layer):
    def call(self, x, training=False):
        return 2 * x


def test_layers_of_ones_own_that_act_in_training_are_trained_so():
    """Dropped units and own statistics, told apart from layers that hand `training` on, or take it
    and do nothing.
    """
    inputs = np.random.default_rng(0).normal(size=(30, 3))
    inputs += 3.0
    made = (
        (Drops, ["Drops"]),
        (Centers, ["Centers"]),
        (Residual, ["BatchNormalization"]),
        (Passes, []),
    )
    for layer, names in [*made, (DropsInside, ["DropsInside"])]:
        model = keras.Sequential([keras.Input((3,)), layer(), layers.Dense(1)])
        if layer is DropsInside:
            model = layer()
            model(inputs)
        sim = Simulation(
            model, (inputs, inputs[:, :1]), standardize="none", seed=1, verbose=0, num_walkers=2
        )
        assert sim.system.flat.training_layers == names
        losses = sim.fit(
            optimizer="sgd", learning_rate=1e-9, num_steps=3, record_every=1
        ).run_info.loss
        walkers = losses.to_numpy().reshape(3, 2)
        # With steps of nothing only the layer changes the loss, and dropped units are each walker's
        # own.
        assert (np.ptp(walkers, axis=0) > 1e-3).all() == (layer in (Drops, Centers, DropsInside))
        assert (np.ptp(walkers, axis=1) > 1e-3).any() == (layer in (Drops, DropsInside))


def test_a_regularizer_that_knows_one_precision_is_told_of():
    inputs = np.random.default_rng(0).normal(size=(30, 3))
    term = keras.regularizers.OrthogonalRegularizer(0.1)  # holds its factor as a tensor of float32
    model = keras.Sequential(
        [keras.Input((3,)), layers.Dense(3, kernel_regularizer=term), layers.Dense(1)]
    )
    options = {"loss": "gaussian", "noise_std": 1.0, "standardize": "none", "verbose": 0}
    assert np.isfinite(Simulation(model, (inputs, inputs[:, :1]), **options).potential()).all()
    with pytest.raises(InputError, match="a regularizer in float64"):
        Simulation(model, (inputs, inputs[:, :1]), **options, dtype="float64").potential()


# The output


@pytest.mark.parametrize(
    ("last", "name"),
    [
        ([layers.Dense(2)], "linear"),
        ([layers.Dense(2, "softmax")], "softmax"),
        ([layers.Dense(2, tf.nn.softmax)], "softmax"),
        ([layers.Dense(2), layers.Softmax()], "softmax"),
        ([layers.Dense(2), layers.Activation("sigmoid")], "sigmoid"),
        (
            [
                layers.Dense(2, "tanh"),
                layers.Reshape((2, 1)),
                layers.Flatten(),
                layers.Dropout(0.1),
            ],
            "tanh",
        ),
        ([layers.Dense(2, lambda x: x)], None),
        ([layers.Dense(2), layers.Rescaling(2.0)], None),
        ([keras.Sequential([keras.Input((3,)), layers.Dense(2, "softmax")])], "softmax"),
    ],
)
def test_output_activation(last, name):
    model = keras.Sequential([keras.Input((3,)), *last])
    assert output_activation_of(model) == name
    inputs = keras.Input((3,))
    outputs = inputs
    for layer in last:
        outputs = layer(outputs)
    assert output_activation_of(keras.Model(inputs, outputs)) == name


def test_output_activation_that_cannot_be_told():
    assert output_activation_of(Own()) is None
    assert output_activation_of(keras.Sequential([keras.Input((5, 2)), layers.LSTM(2)])) is None
    x = keras.Input((3,))
    assert output_activation_of(keras.Model(x, layers.Dense(2)(x) * 2.0)) is None
    image = keras.Input((6, 6, 1))
    assert (
        output_activation_of(keras.Model(image, layers.Flatten()(layers.Conv2D(2, 3)(image))))
        == "linear"
    )


# Building and loading


def test_build_network():
    model = build_network((8, 8), 10, [32, 16], "tanh", "softmax", "float64", seed=3)
    assert [layer.name for layer in model.layers] == ["flatten", "dense", "dense_1", "dense_2"]
    assert (model.input_shape, model.output_shape) == ((None, 8, 8), (None, 10))
    assert {w.dtype for w in model.weights} == {"float64"}
    assert [layer.activation.__name__ for layer in model.layers[1:]] == ["tanh", "tanh", "softmax"]
    assert in_precision(model, "float64") is model
    assert len(build_network((4,), 1).layers) == 1


def test_build_network_is_seeded():
    weights = [build_network((4,), 4, [4], seed=seed).get_weights() for seed in (1, 1, 2)]
    np.testing.assert_array_equal(weights[0][0], weights[1][0])
    assert np.abs(weights[0][0] - weights[2][0]).max() > 0.1
    assert np.abs(weights[0][0] - weights[0][2]).max() > 0.1
    limit = np.sqrt(6 / 8)
    assert np.abs(weights[0][0]).max() <= limit
    assert (weights[0][1] == 0).all()


def test_build_network_refuses():
    with pytest.raises(
        InputError, match=r"output_activation is not known\. Did you mean 'softmax'\?"
    ):
        build_network((4,), 2, output_activation="sofmax")
    with pytest.raises(InputError, match="hidden contains a layer without units"):
        build_network((4,), 2, [3, 0])
    with pytest.raises(InputError, match=r"num_outputs is too small\. Received: 0\."):
        build_network((4,), 0, [3])


def test_load_model(tmp_path):
    model = shaken(lstm())
    model.save(tmp_path / "a.keras")
    x = inputs_of(model)
    np.testing.assert_allclose(load_model(tmp_path / "a.keras")(x), model(x), rtol=1e-6)
    assert tensor_names(load_model(str(tmp_path / "a.keras"))) == tensor_names(model)
    with pytest.raises(InputError, match=r"does not exist\. Did you mean 'a\.keras'\?"):
        load_model(tmp_path / "b.keras")
    (tmp_path / "c.keras").write_text("nothing")
    with pytest.raises(InputError, match=r"not a \.keras file"):
        load_model(tmp_path / "c.keras")
    keras.Sequential([keras.Input((3,)), layers.Lambda(lambda x: x * 2), layers.Dense(1)]).save(
        tmp_path / "d.keras"
    )
    with pytest.raises(InputError, match="Lambda layer"):
        load_model(tmp_path / "d.keras")
    content = (tmp_path / "a.keras").read_bytes()
    (tmp_path / "e.keras").write_bytes(
        content[: len(content) // 2] + b"\0" * 300 + content[len(content) // 2 + 300 :]
    )
    with pytest.raises(InputError, match="cannot be loaded"):
        load_model(tmp_path / "e.keras")


def test_load_model_with_an_unknown_layer(tmp_path):
    class Mine(layers.Layer):
        def call(self, x):
            return x

    Mine.__module__ = "__main__"  # as of a script that is not here
    keras.Sequential([keras.Input((3,)), Mine(), layers.Dense(1)]).save(tmp_path / "a.keras")
    with pytest.raises(InputError, match="that Keras does not know"):
        load_model(tmp_path / "a.keras")


def test_the_package_of_models_is_lazy():
    code = "import sys, tati_re.models, tati_re.models.names; print('tensorflow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_model_may_have_a_name_that_is_no_outermost_scope():
    x, runs = np.linspace(-1, 1, 10).reshape(5, 2), []
    for name in ("_net", "net"):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)], name=name)
        sim = Simulation(model, (x, x[:, :1]), seed=1, execution="graph", verbose=0)
        runs.append(sim.sample(sampler="BAOAB", step_size=0.01, num_steps=3).run_info)
    assert runs[0].equals(runs[1])


def test_a_file_is_loaded_once_where_the_outputs_say_what_the_labels_are(tmp_path, monkeypatch):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(120)])
    model.save(tmp_path / "m.keras")
    loaded = []
    monkeypatch.setattr(system, "load_model", lambda path: loaded.append(path) or load_model(path))
    labels = np.array([0, 110, 3, 100])
    sim = Simulation(str(tmp_path / "m.keras"), (np.ones((4, 2)), labels), verbose=0)
    assert sim.system.num_classes == 120 and loaded == [str(tmp_path / "m.keras")]
