"""What is decided otherwise where TensorFlow computes on a GPU. None is needed: the decisions are
asked as if one were there, and what they lead to is compared on processors. Measured on a GPU:
userguide/speed.md.
"""

import os

import keras
import numpy as np
import pytest
import tensorflow as tf

from tati_re import Simulation
from tati_re.core import backend
from tati_re.engine.loop import Loop
from tati_re.likelihoods.categorical import SparseCategorical
from tati_re.models.inspect import xla_safe
from tati_re.posterior.losses import Loss
from tati_re.posterior.walkers import choose

USERS = ("models.inspect", "core.backend", "posterior.walkers", "system.system")


@pytest.fixture
def gpu(monkeypatch):
    for room in USERS:
        monkeypatch.setattr(f"tati_re.{room}.on_gpu", lambda: True)


def test_products_are_not_rounded_to_ten_bits():
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


def test_asks_tensorflow(monkeypatch):
    assert not backend.on_gpu()
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [kind])
    assert backend.on_gpu()


@pytest.mark.parametrize("rank", [2, 3])
def test_cross_entropy_has_no_operation_that_is_not_deterministic(gpu, monkeypatch, rank):
    random = np.random.default_rng(0)
    outputs = tf.constant(3 * random.normal(size=(50, 7, 4)[-rank:]))
    labels = tf.constant(random.integers(0, 4, outputs.shape[:-1]), tf.int32)
    loss = Loss(SparseCategorical())

    @tf.function(autograph=False)
    def values_and_gradient(outputs):
        with tf.GradientTape() as tape:
            tape.watch(outputs)
            values = loss.per_example(labels, outputs)
        return values, tape.gradient(values, outputs)

    graph = values_and_gradient.get_concrete_function(
        tf.TensorSpec(outputs.shape, outputs.dtype)
    ).graph
    assert not {"SparseSoftmaxCrossEntropyWithLogits", "GatherNd", "ScatterNd"} & {
        op.type for op in graph.get_operations()
    }
    values, gradient = values_and_gradient(outputs)
    softmax = tf.nn.softmax(outputs).numpy()
    ones = np.eye(4)[labels.numpy()]
    each = -np.log(np.sum(softmax * ones, -1))
    np.testing.assert_allclose(values, each if rank == 2 else each.sum(-1), rtol=1e-12)
    np.testing.assert_allclose(gradient, softmax - ones, atol=1e-14)


def test_walkers_are_one_product_whatever_their_batches(gpu, monkeypatch):
    sizes = {"moves_data": True, "large": True, "wide": True}
    assert [choose("auto", True, 8, shared, False, **sizes) for shared in (True, False)] == [
        "vectorized"
    ] * 2
    assert choose("looped", True, 8, False, False, **sizes) == "looped"
    for training, vectorizable in ((True, True), (True, False), (False, False)):
        chosen = [choose("auto", vectorizable, walkers, False, training) for walkers in (2, 3, 8)]
        assert chosen == ["unrolled", "looped", "looped"], "each copy would be compiled by itself"
    monkeypatch.setattr("tati_re.posterior.walkers.on_gpu", lambda: False)
    assert choose("auto", True, 8, False, False, **sizes) == "looped"


def test_convolutions_are_compiled(gpu, monkeypatch):
    network = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Conv2D(2, 3), keras.layers.Flatten()]
    )
    network.add(keras.layers.Dense(3))
    data = np.zeros((12, 8, 8, 1), "float32"), np.arange(12) % 3
    sim = Simulation(network, data, verbose=0)
    assert sim.system.execution(sim.options) == "xla"
    monkeypatch.setattr("tati_re.system.system.on_gpu", lambda: False)
    assert sim.system.execution(sim.options) == "graph"


def test_layers_that_call_cudnn_are_tried(gpu, monkeypatch):
    tried = []
    monkeypatch.setattr(
        "tati_re.models.inspect._computes", lambda *_, **how: bool(tried.append(how))
    )
    for layer in (keras.layers.LSTM(3), keras.layers.GRU(3)):
        assert not xla_safe(keras.Sequential([keras.Input((4, 2)), layer]))
    assert tried == [{"jit_compile": True}] * 2
    assert xla_safe(keras.Sequential([keras.Input((4, 2)), keras.layers.SimpleRNN(3)]))
    monkeypatch.setattr("tati_re.models.inspect.on_gpu", lambda: False)
    assert xla_safe(keras.Sequential([keras.Input((4, 2)), keras.layers.LSTM(3)]))


def test_what_xla_refuses_is_told_in_one_sentence(capfd, monkeypatch):
    """What TensorFlow's libraries write about it, as on GPUs about the gradient of MaxPooling2D,
    stays away.
    """
    run = Loop.run

    def talkative(loop, carry, step, num_steps):
        if num_steps == 0:
            os.write(2, b"tf2xla conversion failed")
        return run(loop, carry, step, num_steps)

    monkeypatch.setattr(Loop, "run", talkative)

    @keras.saving.register_keras_serializable()
    class Texts(keras.layers.Layer):
        def call(self, x):
            return x + 0 * tf.cast(tf.strings.length(tf.strings.as_string(x[0, 0])), x.dtype)

    network = keras.Sequential([keras.Input((2,)), Texts(), keras.layers.Dense(2)])
    sim = Simulation(
        network, (np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2), verbose=1
    )
    sim.system.flat.xla_safe = True
    capfd.readouterr()
    sim.sample(sampler="BAOAB", step_size=1e-3, num_steps=20_000, max_time=2)
    said = capfd.readouterr()
    text = said.out + said.err
    assert "XLA cannot compile this model. Running the steps as a graph." in text
    assert "tf2xla" not in text
