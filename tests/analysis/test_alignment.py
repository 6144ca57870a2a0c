"""Alignment of walkers: copies whose hidden units are permuted come back to distance 0, and the
function stays.
"""

import keras
import numpy as np
import pytest

import tati_re
from tati_re.analysis import align
from tati_re.analysis.alignment import hidden_units
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tati_re.models.flat import FlatModel

L = keras.layers


def dense(activation):
    middle = [L.Dense(7, activation=activation), L.Dropout(0.1), L.Dense(5, activation=activation)]
    return keras.Sequential([keras.Input((3,)), *middle, L.Dense(2)]), (3,)


def convolutional(activation):
    pool = L.MaxPooling2D if activation == "relu" else L.AveragePooling2D
    middle = [
        L.Conv2D(4, 3, activation=activation),
        pool(2),
        L.Conv2D(6, 2),
        L.Activation(activation),
        L.Flatten(),
    ]
    return keras.Sequential(
        [keras.Input((10, 10, 2)), *middle, L.Dense(8, activation), L.Dense(3)]
    ), (10, 10, 2)


def permuted(model, vector, generator, signs):
    """The same function by other weights: units in another order and, where they are odd, with
    other signs.
    """
    vector = vector.copy()
    for layer in hidden_units(model):
        order = generator.permutation(len(layer.incoming))
        sign = (
            generator.choice((-1.0, 1.0), len(order))
            if signs and layer.odd
            else np.ones(len(order))
        )
        for places in (layer.incoming, layer.outgoing):
            vector[places] = sign[:, None] * vector[places[order]]
    return vector


@pytest.mark.parametrize("build", [dense, convolutional])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_permuted_copies_align_to_distance_zero(build, activation):
    keras.utils.set_random_seed(1)
    model, shape = build(activation)
    generator = np.random.default_rng(0)
    flat = FlatModel(model)
    start = flat.get() + 0.3 * generator.standard_normal(flat.num_parameters)
    walkers = np.stack([start, *(permuted(model, start, generator, True) for _ in range(3))])
    inputs = generator.standard_normal((5, *shape)).astype("float32")
    outputs = []
    for walker in walkers:
        flat.set(walker.astype("float32"))
        outputs.append(model(inputs).numpy())
    np.testing.assert_allclose(outputs[1:], [outputs[0]] * 3, atol=2e-5)
    found = align(model, walkers)
    assert found.before[1:].min() > 1
    assert found.after.max() == 0
    assert (found.positions == start).all()
    wrong = walkers.copy()
    wrong[1, 0] += 0.5
    assert align(model, wrong).after[1] == pytest.approx(0.5)
    assert {layer.odd for layer in hidden_units(model)} == {activation == "tanh"}


def test_noise_and_draws_keep_the_matching():
    """Copies with noise of a tenth of the weights: as near as the noise alone, and each draw is
    permuted alike.
    """
    model, _ = dense("tanh")
    generator = np.random.default_rng(3)
    start = generator.standard_normal(FlatModel(model).num_parameters)
    copies = [permuted(model, start, generator, True) for _ in range(3)]
    draws = np.stack([copy + 0.1 * generator.standard_normal((50, len(start))) for copy in copies])
    found = align(model, draws)
    assert found.after.max() < 0.03 * np.sqrt(len(start)) < found.before[1:].min()
    assert np.sort(np.abs(found.positions), axis=-1) == pytest.approx(
        np.sort(np.abs(draws), axis=-1)
    )


def test_other_architectures_are_refused_in_a_sentence():
    inputs = keras.Input((3,))
    hidden = L.Dense(3, activation="tanh")(inputs)
    skip = keras.Model(inputs, L.Dense(1)(L.Add()([hidden, inputs])))
    normed = keras.Sequential([keras.Input((3,)), L.Dense(4), L.BatchNormalization(), L.Dense(1)])
    chain = keras.Model(inputs, L.Dense(1)(hidden))
    assert len(hidden_units(chain)) == 1
    for model, name in ((skip, "Add"), (normed, "BatchNormalization")):
        with pytest.raises(InputError, match=rf"cannot be matched.*{name}"):
            align(model, np.zeros((2, 30)))
    with pytest.raises(InputError, match="do not match"):
        align(dense("relu")[0], np.zeros((2, 30)))


def test_from_a_run(tmp_path, monkeypatch, capsys):
    """Walkers at permuted copies of one place: R-hat of the weights is that of other networks, and
    then near 1.
    """
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(0)
    x = generator.standard_normal((30, 2))
    sim = tati_re.Simulation(
        data=(x, np.tanh(3 * x[:, :1])),
        hidden=[4],
        activation="tanh",
        noise_std=0.3,
        num_walkers=3,
        seed=1,
        verbose=0,
    )
    model, start = sim.system.model, 2 * generator.standard_normal(sim.num_parameters())
    sim.parameters = np.stack([start, *(permuted(model, start, generator, True) for _ in range(2))])
    sim.sample(step_size=0.003, num_steps=200, trajectory_every=5, output="run")
    analyse.main(["run", "--modules", "alignment"])
    said = capsys.readouterr().out
    before, after = (
        float(word.strip(",;"))
        for word in said.split("Largest R-hat of a weight: ")[1].split()[:3:2]
    )
    assert before > 3 * after
    with np.load("run/analysis/alignment.npz") as arrays:
        assert arrays["positions"].shape == (3, 40, sim.num_parameters())


def test_a_run_with_fixed_weights_is_refused():
    """One fixed weight and the noise have as many numbers as the model, which let it pass."""
    x = np.random.default_rng(0).normal(size=(12, 3))
    options = {
        "hidden": [4],
        "num_walkers": 2,
        "execution": "graph",
        "verbose": 0,
        "noise_std": "sampled",
    }
    sim = tati_re.Simulation(data=(x, x[:, 0]), fix_parameters="dense/kernel[0,3]=0.7", **options)
    run = sim.sample(
        sampler="BAOAB", step_size=0.01, num_steps=20, num_burnin_steps=0, trajectory_every=10
    )
    with pytest.raises(
        InputError, match=r"fixed weights cannot be permuted\. Received: dense/kernel"
    ):
        tati_re.analyse(run, modules=["alignment"])
