"""Parameters that do not move: out of P, columns and gradients, in predictions, files and resumed
runs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.core.backend import keras, tf
from tati_re.models.flat import FlatModel, fixed_parts, items
from tati_re.models.names import fan_in_plus_one
from tati_re.posterior.potential import Batch
from tests.systems import tables

GENERATOR = np.random.default_rng(5)
X = GENERATOR.normal(size=(8, 2))
Y = X[:, 0] - 0.3
NAMES = ["dense/kernel", "dense/bias", "dense_1/kernel", "dense_1/bias"]
SHAPES = [(2, 3), (3,), (3, 1), (1,)]
VALUES = [np.arange(np.prod(shape)).reshape(shape) + 1.0 for shape in SHAPES]
QUICK = {
    "noise_std": 1.0,
    "verbose": 0,
    "execution": "graph",
    "dtype": "float64",
    "step_size": 0.01,
}
FIX = ["dense/bias=0.5,0,-1", "dense_1/kernel[1,0]=0.25", "dense/kernel[0,*]"]


def test_items_are_texts_between_semicolons():
    tati = "layer1/biases/Variable:0=0.,0.;output/biases/Variable:0=0."
    assert items(tati) == [
        ("layer1/biases/Variable:0", "0.,0."),
        ("output/biases/Variable:0", "0."),
    ]
    assert items(["a", " b = 1 "]) == [("a", None), ("b", "1")]
    assert items(None) == []


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("dense/bias", {1: (3, [1, 2, 3])}),
        ("bias=0", {1: (3, [0, 0, 0]), 3: (1, [0])}),
        ("dense_1/*", {2: (3, [1, 2, 3]), 3: (1, [1])}),
        ("dense/kernel[1,2]=7", {0: (1, [1, 2, 3, 4, 5, 7])}),
        ("dense/kernel[*,1]=7,8", {0: (2, [1, 7, 3, 4, 8, 6])}),
        (
            "layer1/biases/Variable:0=1.,2.,4.;output/weights/Variable:0",
            {1: (3, [1, 2, 4]), 2: (3, [1, 2, 3])},
        ),
        ("dense/bias=3;dense/bias[1]=4", {1: (3, [3, 4, 3])}),
    ],
)
def test_what_a_text_fixes(text, fixed):
    found = fixed_parts(text, NAMES, VALUES)
    for i, part in enumerate(found):
        if i not in fixed:
            assert part is None
        else:
            assert (part.mask.sum(), part.values.ravel().tolist()) == fixed[i]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "dense/baas=0",
            r"no parameter of the model matches the pattern\. Did you mean 'dense/bias'\? Received: 'den",
        ),
        ("layer2/biases/Variable:0=0.", "no parameter of the model matches the pattern"),
        (
            "dense/kernel[2,0]",
            r"dense/kernel has no such entry\. Received: .* Expected: dense/kernel\[0,0\] to dense",
        ),
        ("dense/bias[0,0]", "dense/bias has no such entry"),
        (
            "dense/bias=1,2",
            r"does not match the tensor\. Received: 2 of them\. Expected: one finite number for all, or 3",
        ),
        (
            "dense/bias=a",
            r"the values are not numbers\. Received: dense/bias=a\. Expected: dense/bias=0, or 3 numbers",
        ),
        ("dense/bias=", "does not match the tensor"),
        ("dense/bias=nan", "does not match the tensor"),
    ],
)
def test_what_cannot_be_fixed(text, sentence):
    with pytest.raises(InputError, match=f"^fix_parameters: .*{sentence}"):
        fixed_parts(text, NAMES, VALUES)


def test_the_command_says_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    common = ["--data", "two_clusters", "--quiet", "--num-steps", "2", "--step-size", "0.01"]
    assert sample.main([*common, "--hidden", "2", "--fix-parameters", "outputs/bias=0"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --fix-parameters: no parameter") and said.count("\n") == 1
    assert sample.main([*common, "--fix-parameters", "*"]) == 2
    assert "all parameters are fixed" in capsys.readouterr().err
    theirs = "layer1/biases/Variable:0=0.,0.;output/biases/Variable:0=0."
    assert (
        sample.main([*common, "--hidden", "2", "--fix-parameters", theirs, "--output", "run"]) == 0
    )
    assert "bias" not in (tmp_path / "run" / "averages.csv").read_text()


def model():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [keras.Input((2,)), keras.layers.Dense(3, "tanh"), keras.layers.Dense(1)]
    )


def both(**options):
    """A simulation with fixed parameters, a whole one at the same place, and which entries of the
    whole one move.
    """
    part = Simulation(model(), (X, Y), fix_parameters=FIX, **QUICK | options)
    whole = Simulation(model(), (X, Y), **QUICK | options)
    names = whole.parameter_names()
    moving = [names.index(name) for name in part.parameter_names()]
    theta = whole.parameters.copy()
    theta[..., names.index("dense/bias[0]")] = 0.5
    theta[..., names.index("dense/bias[2]")] = -1
    theta[..., names.index("dense_1/kernel[1,0]")] = 0.25
    whole.parameters = theta
    return part, whole, moving


def test_potential_gradients_and_predictions_are_those_of_the_whole_model():
    part, whole, moving = both()
    assert part.num_parameters() == len(moving) == 13 - 7
    assert part.parameter_names() == [
        "dense/kernel[1,0]",
        "dense/kernel[1,1]",
        "dense/kernel[1,2]",
        "dense_1/kernel[0,0]",
        "dense_1/kernel[2,0]",
        "dense_1/bias[0]",
    ]
    moved = whole.parameters.copy()
    moved[moving] += 0.1 * np.arange(6)
    whole.parameters, part.parameters = moved, moved[moving]
    assert part.loss() == pytest.approx(whole.loss(), rel=1e-14)
    np.testing.assert_allclose(part.gradients(), whole.gradients()[moving], rtol=1e-12)
    np.testing.assert_allclose(part.predict(X), whole.predict(X), rtol=1e-14)
    np.testing.assert_allclose(
        part.hessians(), whole.hessians()[np.ix_(moving, moving)], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("how", ["vectorized", "unrolled", "looped"])
def test_walkers_agree(how):
    part, whole, moving = both(num_walkers=3, batch_size=4, walker_evaluation=how)
    moved = whole.parameters.copy()
    moved[:, moving] += GENERATOR.normal(size=(3, 6))
    whole.parameters, part.parameters = moved, moved[:, moving]
    np.testing.assert_allclose(part.gradients(), whole.gradients()[:, moving], rtol=1e-12)


@pytest.mark.parametrize(
    "fix", ["dense/kernel[0,*];dense_1/bias;dense_1/kernel", "dense/kernel[0,1]", "dense/bias"]
)
def test_the_variance_of_gradients_is_that_of_the_whole_model(fix):
    """In one pass where whole layers or some entries are fixed, else example by example."""
    found = []
    for fixed in (fix, None):
        sim = Simulation(model(), (X, Y), batch_size=4, fix_parameters=fixed, **QUICK)
        engine = sim._engine()
        auxiliary = tuple(map(tf.constant, sim.walkers.auxiliary))
        evaluate = engine.potential.bind(engine._rung, Batch(*engine.batch(0)), auxiliary)
        energy, variance = evaluate.with_variance(tf.constant(sim.walkers.position))
        assert (engine.potential.chain is None) == (fixed == "dense/bias")
        found.append((sim.parameter_names(), energy.gradient.numpy()[0], variance.numpy()[0]))
    (names, gradient, variance), (every, whole_gradient, whole_variance) = found
    moving = [every.index(name) for name in names]
    np.testing.assert_allclose(gradient, whole_gradient[moving], rtol=1e-12)
    np.testing.assert_allclose(variance, whole_variance[moving], rtol=1e-10)


def test_fan_ins_are_those_of_the_layer():
    flat = FlatModel(model(), "dense/kernel;dense_1/kernel[0,0]")
    assert flat.tensor_names == ["dense/bias", "dense_1/kernel", "dense_1/bias"]
    assert fan_in_plus_one(flat.tensor_names, flat.shapes).tolist() == [3, 3, 3, 4, 4, 4]


def test_a_run_keeps_them_and_is_resumed_byte_for_byte(tmp_path):
    options = QUICK | {"num_walkers": 2, "batch_size": 4, "trajectory_every": 2, "record_every": 1}
    source = model()
    before = source.get_weights()
    for folder, steps in (("whole", 6), ("parts", 3)):
        sim = Simulation(source, (X, Y), fix_parameters=FIX, **options)
        run = sim.sample(num_steps=steps, output=str(tmp_path / folder))
    for value, expected in zip(source.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, expected)
    run = Simulation.resume(str(tmp_path / "parts"), 6, data=(X, Y))
    assert tables(tmp_path / "whole") == tables(tmp_path / "parts")
    columns = list(run.trajectory.columns)
    assert "dense/kernel[1,0]" in columns and not any("dense/bias" in name for name in columns)
    path = tmp_path / "saved.keras"
    run.save_model(6, path, walker=1)
    saved = keras.saving.load_model(path)
    kernel, bias, second, _ = saved.get_weights()
    assert bias.tolist() == [0.5, 0.0, -1.0] and second[1, 0] == 0.25
    np.testing.assert_array_equal(kernel[0].astype("float32"), before[0][0])
    np.testing.assert_array_equal(kernel[1], run.parameters(6, 1)[:3])


def test_a_layer_that_is_not_trainable_stays_and_has_no_columns(tmp_path):
    frozen = model()
    frozen.layers[0].trainable = False
    sim = Simulation(frozen, (X, Y), **QUICK)
    assert sim.parameter_names() == [
        "dense_1/kernel[0,0]",
        "dense_1/kernel[1,0]",
        "dense_1/kernel[2,0]",
        "dense_1/bias[0]",
    ]
    run = sim.sample(num_steps=4, trajectory_every=2, output=str(tmp_path / "run"))
    assert list(run.trajectory.columns[4:]) == sim.parameter_names()
    run.save_model(4, tmp_path / "saved.keras")
    saved = keras.saving.load_model(tmp_path / "saved.keras")
    np.testing.assert_array_equal(saved.layers[0].kernel, frozen.layers[0].kernel)
    assert not np.array_equal(saved.layers[1].kernel, frozen.layers[1].kernel)
    with pytest.raises(InputError, match="no parameter of the model matches"):
        Simulation(frozen, (X, Y), fix_parameters="dense/bias", **QUICK)


def test_training_leaves_them():
    sim = Simulation(model(), (X, Y), fix_parameters="dense_1/bias=0.125;dense/*", **QUICK)
    before = sim.predict(X)
    sim.fit(optimizer="adam", num_steps=5, learning_rate=0.1)
    assert sim.num_parameters() == 3
    assert np.abs(sim.predict(X) - before).max() > 0.01
    sim.parameters = np.zeros(3)
    np.testing.assert_allclose(sim.predict(X), 0.125)
