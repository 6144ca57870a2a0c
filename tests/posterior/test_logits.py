"""Logits or probabilities: an activation of the model is never applied a second time by its loss."""

import keras
import numpy as np
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.models.inspect import squashing_of
from tati_re.sklearn import BayesianClassifier

RNG = np.random.default_rng(3)
X = RNG.normal(size=(90, 2)).astype("float32")
CLASS = RNG.integers(0, 3, 90)
ONE_HOT = np.eye(3, dtype="float32")[CLASS]
LABELS = RNG.integers(0, 2, (90, 3)).astype("float32")
SHORT = {"sampler": "BAOAB", "step_size": 0.01, "num_steps": 200, "seed": 1, "verbose": 0}
layers = keras.layers


class Own(keras.Model):
    """A model of one's own class, whose last activation no layer names."""

    def __init__(self, activation):
        super().__init__()
        self.dense, self.last = layers.Dense(3), getattr(keras.ops, activation)

    def call(self, inputs):
        return self.last(self.dense(inputs))


def functional(last):
    inputs = keras.Input((2,))
    return keras.Model(inputs, last(layers.Dense(3)(inputs)))


def models(activation):
    """Models whose three outputs end in the same activation, written in different ways."""
    layer = layers.Softmax() if activation == "softmax" else layers.Activation(activation)
    dense = layers.Dense(3, activation=activation)
    own = Own(activation)
    own(X[:1])
    inside = keras.Sequential([keras.Input((2,)), layers.Dense(3, activation=activation)])
    return {
        "argument": keras.Sequential([keras.Input((2,)), dense]),
        "Activation": keras.Sequential(
            [keras.Input((2,)), layers.Dense(3), layers.Activation(activation)]
        ),
        "layer": functional(layer),
        "function": functional(getattr(keras.activations, activation)),
        "operation": functional(getattr(keras.ops, activation)),
        "nested": keras.Sequential([keras.Input((2,)), inside]),
        "nested twice": functional(
            keras.Sequential(
                [
                    keras.Input((3,)),
                    keras.Sequential([keras.Input((3,)), layers.Activation(activation)]),
                ]
            )
        ),
        "linear": keras.Sequential(
            [keras.Input((2,)), layers.Dense(3, activation=activation), layers.Activation("linear")]
        ),
        "linear of a function": functional(lambda z: layers.Activation("linear")(layer(z))),
        "Dropout": keras.Sequential(
            [keras.Input((2,)), layers.Dense(3, activation=activation), layers.Dropout(0.2)]
        ),
        "Flatten": keras.Sequential(
            [
                keras.Input((2,)),
                layers.Dense(3, activation=activation),
                layers.Reshape((1, 3)),
                layers.Flatten(),
            ]
        ),
        "own class": own,
    }


def cross_entropy(name, p, labels):
    if name.startswith("binary"):
        return -(labels * np.log(p) + (1 - labels) * np.log(1 - p))
    return -np.log(p[np.arange(len(p)), CLASS])


CASES = [
    (keras.losses.SparseCategoricalCrossentropy, "softmax", CLASS),
    (keras.losses.CategoricalCrossentropy, "softmax", ONE_HOT),
    (keras.losses.BinaryCrossentropy, "sigmoid", LABELS),
]


@pytest.mark.parametrize("kind, activation, labels", CASES)
@pytest.mark.parametrize("how", models("softmax"))
def test_outputs_of_an_activation_are_probabilities_under_from_logits_true(
    how, kind, activation, labels
):
    """The loss of the model's own probabilities; those of a second softmax are below .576."""
    model = models(activation)[how]
    p, name = np.asarray(model(X), np.float64), kind().name
    expected = cross_entropy(name, p, labels).reshape(90, -1).sum(axis=1).mean()
    for loss in (name, kind(from_logits=True)):
        sim = tati_re.Simulation(model, (X, labels), loss=loss, from_logits=True, verbose=0)
        assert sim.loss() == pytest.approx(expected, rel=1e-5)
        np.testing.assert_allclose(sim.predict_probabilities(X), p, rtol=1e-5)


@pytest.mark.parametrize("kind", ["CategoricalFocalCrossentropy", "CategoricalCrossentropy"])
@pytest.mark.parametrize("logits", [True, False])
def test_focal_and_smoothed_losses_apply_no_second_softmax(kind, logits):
    extra = {"label_smoothing": 0.1}
    of_logits = getattr(keras.losses, kind)(from_logits=logits, **extra)
    of_probabilities = getattr(keras.losses, kind)(**extra)
    model = models("softmax")["argument"]
    sim = tati_re.Simulation(model, (X, ONE_HOT), loss=of_logits, verbose=0)
    assert sim.loss() == pytest.approx(float(of_probabilities(ONE_HOT, model(X))), rel=1e-4)


def test_binary_focal_losses_by_name_and_as_objects_apply_no_second_sigmoid():
    model = models("sigmoid")["argument"]
    expected = float(keras.losses.BinaryFocalCrossentropy()(LABELS, model(X)))
    for loss in (
        "binary_focal_crossentropy",
        keras.losses.binary_focal_crossentropy,
        keras.losses.BinaryFocalCrossentropy(from_logits=True),
    ):
        sim = tati_re.Simulation(
            model, (X, LABELS), loss=loss, from_logits=True, num_classes=0, verbose=0
        )
        assert sim.loss() == pytest.approx(expected, rel=1e-4)


def test_logits_stay_logits():
    """No activation, and one whose outputs leave 0 to 1: nothing changes."""
    for model in (functional(lambda x: x), functional(keras.ops.log_softmax)):
        logits = np.asarray(model(X), np.float64)
        p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        sim = tati_re.Simulation(model, (X, CLASS), from_logits=True, verbose=0)
        assert sim.loss() == pytest.approx(cross_entropy("", p, CLASS).mean(), rel=1e-5)


@pytest.mark.parametrize("how", ["argument", "own class", "nested"])
@pytest.mark.parametrize("given", [{}, {"from_logits": True}])
def test_sigmoids_are_refused_as_logits_of_classes(how, given):
    sim = tati_re.Simulation(models("sigmoid")[how], (X, CLASS), verbose=0, **given)
    with pytest.raises(InputError, match="outputs of a sigmoid are not the class logits"):
        sim.sample(**SHORT)
    tati_re.Simulation(models("sigmoid")[how], (X, CLASS), verbose=0, from_logits=False).loss()


def test_a_loss_of_ones_own_class_that_takes_logits_is_refused_after_a_softmax():
    class Weighted(keras.losses.CategoricalCrossentropy):
        pass

    sim = tati_re.Simulation(
        models("softmax")["argument"], (X, ONE_HOT), loss=Weighted(from_logits=True), verbose=0
    )
    with pytest.raises(InputError, match="Weighted expects logits"):
        sim.loss()


def test_a_run_says_that_it_does_not_apply_the_activation_twice(capsys):
    separate = np.array([[6.0, 0.0], [-6.0, 0.0], [0.0, 6.0]], "float32")
    x, y = np.repeat(separate, 30, axis=0), np.repeat([0, 1, 2], 30)
    model = keras.Sequential([keras.Input((2,)), layers.Dense(3), layers.Softmax()])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    run = tati_re.sample(model, x, y, **{**SHORT, "step_size": 0.1, "verbose": 1})
    assert "model ends in a softmax: its outputs are probabilities" in capsys.readouterr().out
    assert run.manifest["loss"]["from_logits"] is False
    assert run.predict(separate).probabilities.max() > 0.9
    name = {"loss": "sparse_categorical_crossentropy", "from_logits": True}
    classifier = BayesianClassifier(model, members=2, **{**SHORT, "step_size": 0.1}, **name)
    assert classifier.fit(x, y).predict_proba(separate).max() > 0.9


def test_squashing_is_found_by_values():
    found = {name: squashing_of(own_of(name)) for name in ("softmax", "sigmoid", "tanh", "relu")}
    assert found == {"softmax": "softmax", "sigmoid": "sigmoid", "tanh": None, "relu": None}


def own_of(activation):
    model = Own(activation)
    model(X[:1])
    return model
