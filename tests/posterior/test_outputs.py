"""Outputs of several draws at once: the numbers of each draw alone, for few inputs and for many."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tati_re.models.flat import FlatModel
from tati_re.posterior.outputs import FEW_ROWS, Outputs

DRAWS = 5


@pytest.fixture(scope="module")
def outputs():
    layers = [keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)]
    return Outputs(FlatModel(keras.Sequential([keras.Input((3,)), *layers])))


@pytest.mark.parametrize("count", [1, FEW_ROWS, FEW_ROWS + 1])
def test_draws_together_have_the_outputs_of_each_alone(outputs, count):
    random = np.random.default_rng(count)
    parameters = random.normal(size=(DRAWS, outputs.flat.num_parameters)).astype(np.float32)
    inputs = random.normal(size=(count, 3)).astype(np.float32)
    alone = np.stack([outputs.of_one(vector, [], inputs) for vector in parameters])
    together = outputs(parameters, [], inputs)
    assert together.shape == (DRAWS, count, 2)
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(outputs(outputs.converted(parameters), [], inputs), together)


def test_draws_that_do_not_fit_into_memory_are_computed_in_blocks(outputs, monkeypatch):
    random = np.random.default_rng(0)
    parameters = random.normal(size=(DRAWS, outputs.flat.num_parameters)).astype(np.float32)
    inputs = random.normal(size=(20, 3)).astype(np.float32)
    whole = outputs(parameters, [], inputs)
    # Two draws a block: 20 inputs of at most 4 units each.
    monkeypatch.setattr("tati_re.posterior.outputs._BLOCK_VALUES", 2 * 20 * 4)
    for given in (parameters, outputs.converted(parameters)):
        np.testing.assert_allclose(outputs(given, [], inputs), whole, rtol=1e-5, atol=1e-6)


def test_few_rows_copy_no_weights_of_dense_layers():
    """The weights of 960 draws were copied for each row: half of the time of its outputs."""
    model = keras.Sequential(
        [keras.Input((3,)), keras.layers.Dense(6), keras.layers.Reshape((3, 2))]
    )
    outputs = Outputs(FlatModel(model))
    random = np.random.default_rng(2)
    parameters = random.normal(size=(DRAWS, outputs.flat.num_parameters)).astype(np.float32)
    inputs = random.normal(size=(2, 3)).astype(np.float32)
    together = outputs(parameters, [], inputs)
    alone = np.stack([outputs.of_one(vector, [], inputs) for vector in parameters])
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-6)

    weights = outputs.converted(parameters).tensors
    graph = tf.function(outputs._of_several_few_rows).get_concrete_function(inputs, *weights).graph
    assert "GatherV2" not in {operation.type for operation in graph.get_operations()}
