"""The posterior of a compiled and trained Keras model: one call, or a callback."""

from __future__ import annotations

import keras
import numpy as np
import pytest

import tati_re
from tati_re.core.errors import InputError

pytestmark = pytest.mark.filterwarnings("ignore:Predictions average")
X = np.linspace(-1, 1, 50)[:, None]
Y = 2 * X + 0.1 * np.random.default_rng(1).standard_normal((50, 1))
SHORT = {"sampler": "BAOAB", "step_size": 0.005, "num_steps": 100, "num_burnin_steps": 20}


def linear(activation=None, loss=None, **compiled):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, activation=activation)])
    if loss is not None:
        model.compile("sgd", loss, **compiled)
    return model


@pytest.mark.slow
def test_a_callback_samples_around_the_trained_weights(capsys):
    model = linear(loss="mse")
    posterior = tati_re.SamplePosterior(X, Y, **SHORT, walker_jitter=1e-6)
    assert posterior.run is None
    model.fit(X, Y, epochs=30, verbose=0, callbacks=[posterior])
    said = capsys.readouterr().out
    assert "Using Gaussian noise with a sampled standard deviation" in said
    kernel, bias = model.get_weights()
    run = posterior.run
    assert run.manifest["loss"] == {"loss": "gaussian", "from_logits": True, "noise_std": "sampled"}
    first = tati_re.sample(
        model,
        X,
        Y,
        **SHORT | {"num_steps": 1, "num_burnin_steps": 0},
        verbose=0,
        trajectory_every=1,
    )
    start = first.trajectory[["dense/kernel[0,0]", "dense/bias[0]"]].to_numpy()
    assert run.manifest["options"]["num_walkers"] == 4 and run.predict(X).mean.shape == (50, 1)
    assert abs(start - [kernel[0, 0], bias[0]]).max() < 0.1
    for old, new in zip((kernel, bias), model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize(
    "loss", ["binary_crossentropy", keras.losses.BinaryCrossentropy(from_logits=False)]
)
def test_a_cross_entropy_is_taken_as_it_is(loss):
    run = tati_re.sample(linear("sigmoid", loss), X, (Y > 0).astype(int), **SHORT, verbose=0)
    assert (
        run.manifest["loss"]["loss"] == "binary_crossentropy"
        and run.manifest["loss"]["from_logits"] is False
    )


def test_models_without_one_compiled_loss():
    with pytest.raises(
        InputError, match=r"its compiled loss is the likelihood\. Received: no compiled loss"
    ):
        tati_re.sample(linear(), X, Y)
    with pytest.raises(InputError, match=r"Received: several losses"):
        tati_re.sample(linear(loss={"dense": "mse"}), X, Y)
    with pytest.raises(InputError, match=r"model is not a Keras model"):
        tati_re.sample("model.keras", X, Y)


def test_weights_and_a_loss_in_place_of_the_compiled_one(capsys):
    weights = np.where(X[:, 0] > 0, 2.0, 1.0)
    run = tati_re.sample(linear(loss="mse"), X, Y, weights, loss="mean_absolute_error", **SHORT)
    assert run.manifest["loss"]["loss"] == "mean_absolute_error"
    assert "is not a normalized likelihood" in capsys.readouterr().out
    assert run.data.weights.tolist() == weights.tolist()


def test_a_pipeline_stands_for_inputs_and_targets():
    """Unshuffled batches hold the same examples in the same order: the same run."""
    import tensorflow as tf

    model, short = linear(loss="mse"), SHORT | {"num_steps": 5, "num_burnin_steps": 0, "verbose": 0}
    pipeline = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    found = [
        tati_re.sample(model, *given, **short).run_info["potential"]
        for given in ((X, Y), (pipeline,))
    ]
    np.testing.assert_array_equal(*found)
    with pytest.raises(InputError, match="sample_weight needs y"):
        tati_re.sample(model, pipeline, sample_weight=X[:, 0])


def test_outputs_that_are_no_probabilities_and_weights_of_the_loss_are_refused():
    with pytest.raises(
        InputError,
        match=r"a linear layer are not the probabilities .* Received: from_logits=False",
    ):
        tati_re.sample(
            linear(loss=keras.losses.BinaryCrossentropy()),
            X,
            (Y > 0).astype(int),
            **SHORT,
            verbose=0,
        )
    logits = linear(loss=keras.losses.BinaryCrossentropy(from_logits=True))
    assert tati_re.sample(logits, X, (Y > 0).astype(int), **SHORT, verbose=0).manifest["loss"][
        "from_logits"
    ]
    with pytest.raises(InputError, match=r"has loss_weights\. Received: \[3\.0\]"):
        tati_re.sample(linear(loss="mse", loss_weights=[3.0]), X, Y, **SHORT)
    with pytest.raises(InputError, match=r"loss is a class; an object is needed. Received: Huber"):
        tati_re.sample(linear(), X, Y, loss=keras.losses.Huber, **SHORT)
