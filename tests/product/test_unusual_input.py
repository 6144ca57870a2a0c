"""Targets that do not vary, labels that are none, rows that an embedding lacks, and functions
through Python.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tati_re
from tati_re import InputError
from tati_re.cli import sample

FEW = {"num_steps": 10, "step_size": 1e-3, "execution": "graph", "verbose": 0}
RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(60, 3))


@pytest.mark.parametrize("value", [0.3, 1 / 3, 5.0, 100.1])
def test_targets_that_do_not_vary_up_to_rounding_have_the_noise_1(value):
    run = tati_re.Simulation(
        data=(INPUTS, np.full(60, value)), hidden=[2], seed=1, verbose=0
    ).sample(**FEW)
    assert run.manifest["loss"]["noise_std"] == 1.0


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        ("binary_crossentropy", INPUTS[:, 0]),
        ("binary_crossentropy", np.arange(60) % 3),
        ("categorical_crossentropy", INPUTS[:, :2]),
        ("categorical_crossentropy", np.full((60, 2), 0.4)),
    ],
)
def test_a_cross_entropy_refuses_what_are_no_labels(loss, targets):
    sim = tati_re.Simulation(data=(INPUTS, targets), hidden=[2], loss=loss, seed=1, verbose=0)
    with pytest.raises(
        InputError,
        match=rf"loss: {loss} does not accept these labels\. Received: .* in row \d+\. Expected",
    ):
        sim.sample(**FEW)


@pytest.mark.parametrize(
    ("loss", "targets"),
    [
        ("binary_crossentropy", 2 * (np.arange(60) % 2) - 1),
        ("binary_crossentropy", np.linspace(0, 1, 60)),
        ("categorical_crossentropy", np.tile(np.float32([0.3, 0.7]), (60, 1))),
    ],
)
def test_signs_and_probabilities_are_labels(loss, targets):
    run = tati_re.Simulation(
        data=(INPUTS, targets), hidden=[2], loss=loss, seed=1, verbose=0
    ).sample(**FEW)
    assert np.isfinite(run.run_info["loss"]).all()


def embedded(rows: int, other: bool = False) -> keras.Model:
    words = keras.Input((4,), dtype="int32")
    found = keras.layers.Flatten()(keras.layers.Embedding(rows, 2, name="words")(words))
    if not other:
        return keras.Model(words, keras.layers.Dense(1)(found))
    numbers = keras.Input((3,))
    return keras.Model(
        [numbers, words], keras.layers.Dense(1)(keras.layers.Concatenate()([numbers, found]))
    )


def test_an_embedding_without_such_a_row_is_told_before_a_step_and_before_a_prediction():
    words, targets = RANDOM.integers(0, 7, (60, 4)), INPUTS[:, 0]
    for model, data in ((embedded(3), words), (embedded(9), words - 1), (embedded(9), words + 0.5)):
        with pytest.raises(
            InputError,
            match=r"data: an index exceeds the rows of layer words. .* whole numbers from 0 to [28].",
        ):
            tati_re.Simulation(model, (data, targets), seed=1, verbose=0).sample(**FEW)
    with pytest.raises(InputError, match="an index exceeds the rows of layer words"):
        tati_re.Simulation(embedded(3, True), ([INPUTS, words], targets), seed=1, verbose=0).sample(
            **FEW
        )
    run = tati_re.Simulation(
        embedded(7, True), ([INPUTS, words], targets), seed=1, verbose=0
    ).sample(**FEW)
    with pytest.raises(InputError, match="an index exceeds the rows of layer words"):
        run.predict([INPUTS, words + 5])


def inside(words: keras.KerasTensor, how: str) -> keras.KerasTensor:
    """An embedding of 5 rows that the inputs of the model do not enter directly, flat."""
    rows = keras.layers.Embedding(5, 2)
    if how == "nested":
        return keras.Sequential([keras.Input((4,), dtype="int32"), rows, keras.layers.Flatten()])(
            words
        )
    if how == "again":
        rows(words)
    return keras.layers.Flatten()(rows(keras.layers.Reshape((2, 2))(words)))


@pytest.mark.parametrize("how", ["nested", "reshaped", "again"])
def test_an_embedding_inside_of_a_model_is_looked_up_too(how):
    """XLA takes another row, and mini-batches without the example would not tell."""
    words = keras.Input((4,), dtype="int32")
    model = keras.Model(words, keras.layers.Dense(1)(inside(words, how)))
    data = RANDOM.integers(0, 5, (60, 4))
    sim = tati_re.Simulation(model, (data, INPUTS[:, 0]), batch_size=2, seed=1, verbose=0)
    run = sim.sample(**FEW | {"trajectory_every": 5})
    for wrong in (7, -6):
        data[30, 1] = wrong
        with pytest.raises(
            InputError,
            match=r"^data: an index exceeds .*\. Received: (\[7\]|7 is not|\[-6\]|-1 is not)",
        ):
            tati_re.Simulation(model, (data, INPUTS[:, 0]), batch_size=2, seed=1, verbose=0)
    with pytest.raises(InputError, match="an index exceeds the rows"):
        run.predict(data)


@pytest.mark.parametrize("name", ["weight", "rung", "step", "loss"])
def test_a_weight_of_the_name_of_a_column_is_told_where_positions_are_stored(name):
    class Line(keras.Model):
        def build(self, shape):
            self.slope = self.add_weight(name=name, shape=(), initializer="ones")

        def call(self, x):
            return x[:, :1] * self.slope

    (model := Line())(INPUTS)
    sim = tati_re.Simulation(model, (INPUTS, INPUTS[:, 0]), noise_std=1.0, seed=1, verbose=0)
    with pytest.raises(InputError, match=rf"^model: a scalar weight .* Received: {name}\."):
        sim.sample(**FEW | {"trajectory_every": 5})
    assert sim.sample(**FEW | {"trajectory_every": 0}).moments.count[0] > 0


@pytest.mark.parametrize(
    "layer",
    [keras.layers.Dense(1, name="my layer"), keras.layers.Dense(1, name="größe"), "a weight"],
)
def test_a_layer_whose_name_nobody_can_compile_is_told(layer):
    class Scaled(keras.layers.Layer):
        def build(self, shape):
            self.slope = self.add_weight(name="a\nb", shape=(3, 1))

        def call(self, x):
            return x @ self.slope

    model = keras.Sequential([keras.Input((3,)), Scaled() if isinstance(layer, str) else layer])
    with pytest.raises(
        InputError,
        match=(
            r"^model: TensorFlow or a table does not accept the name of a layer or weight"
            r"\. Received: '(my layer|größe|a\\nb)'"
        ),
    ):
        tati_re.Simulation(model, (INPUTS, INPUTS[:, 0]), seed=1, verbose=0)


def test_a_potential_through_python_keeps_its_shapes():
    def through(x):
        return tf.py_function(lambda y: 0.5 * tf.reduce_sum(y**2, -1), [x], tf.float64)

    few = FEW | {"step_size": 0.1, "trajectory_every": 1}
    runs = [
        tati_re.Simulation(potential=f, dimension=2, seed=1, verbose=0).sample(**few)
        for f in (through, lambda x: 0.5 * tf.reduce_sum(x**2, -1))
    ]
    first, second = (run.trajectory.to_numpy() for run in runs)
    np.testing.assert_allclose(first, second, rtol=1e-12)


@pytest.mark.parametrize("name", ["loss", "potential", "a\nb"])
def test_names_of_coordinates_that_a_trajectory_cannot_have(name):
    with pytest.raises(InputError, match="coordinates: one printable name for each"):
        tati_re.Simulation(
            potential=lambda x: tf.reduce_sum(x**2, -1), coordinates=[name, "b"], verbose=0
        )


def test_a_test_fraction_that_keeps_no_example_is_refused():
    with pytest.raises(
        InputError,
        match=r"test_fraction: no example would be held out. Received: 0.2 of 2 examp",
    ):
        tati_re.Simulation(
            data=(INPUTS[:2], INPUTS[:2, 0]), hidden=[2], test_fraction=0.2, verbose=0
        )


@pytest.mark.parametrize("labels", [pytest.param("0.1 0.9", marks=pytest.mark.slow), "ja nein"])
def test_a_printed_config_is_the_run_that_printed_it(labels, tmp_path, capsys, monkeypatch):
    """Defaults are comments: given, they would name a sampler, or a noise that classes do not
    have.
    """
    monkeypatch.chdir(tmp_path)
    lines = [f"{a:.6f},{labels.split()[int(a > 0)]}" for a in INPUTS[:, 0]]
    (tmp_path / "own.csv").write_text("\n".join(["a,y", *lines]) + "\n")
    words = [
        "--data",
        "own.csv",
        "--goal",
        "posterior",
        "--num-steps",
        "40",
        "--fit-steps",
        "20",
        "--execution",
        "graph",
        "--quiet",
    ]
    assert sample.main([*words, "--print-config"]) == 0
    printed = capsys.readouterr().out
    (tmp_path / "own.toml").write_text(printed)
    assert "# walker_jitter = 0.0" in printed and "\nnum_steps = 40\n" in printed
    assert sample.main([*words, "--output", "typed"]) == 0
    assert sample.main(["--config", "own.toml", "--output", "read"]) == 0
    first, second = ((tmp_path / folder / "run.csv").read_bytes() for folder in ("typed", "read"))
    assert first == second and len(first) > 1000


def test_walls_without_walls_are_told_as_not_used(capsys):
    """`walls` of a prior that has none was parsed and ignored."""
    x = np.arange(6.0)[:, None]
    for prior, told in ({}, True), ({"lower_wall": -5.0}, False):
        sim = tati_re.Simulation(
            data=(x, x[:, 0] / 6), hidden=[2], seed=1, standardize="none", noise_std=1.0, **prior
        )
        sim.sample(sampler="HMC", step_size=0.001, num_steps=2, walls="reflect", record_every=1)
        assert ("Not used by HMC with these settings: walls." in capsys.readouterr().out) == told
