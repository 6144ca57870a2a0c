"""What users hand over in Python: arrays, functions and models that are refused in one sentence,
and labels that are doubted.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import InputError, Simulation
from tati_re.core.backend import keras, tf
from tati_re.core.user_input import as_array, seeded
from tati_re.data import load_data
from tati_re.data.labels import doubts
from tati_re.options.make import make_options
from tati_re.samplers.user_samplers import made

GENERATOR = np.random.default_rng(18)
X, Y = GENERATOR.normal(size=(10, 2)), GENERATOR.normal(size=10)
QUICK = {"noise_std": 1.0, "verbose": 0, "execution": "graph", "num_steps": 3, "step_size": 0.01}
MASKED = np.ma.masked_array(X, X > 1)


class OnDevice:
    """An array of another library that does not come to the host by itself."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("call .cpu() first")


class Tensor:
    """An array of another library."""

    def __array__(self, dtype=None, copy=None):
        return np.asarray(X, dtype)


def test_arrays_of_all_kinds():
    np.testing.assert_array_equal(as_array(np.ma.masked_array(X), "x"), X)
    np.testing.assert_array_equal(as_array(Tensor(), "x", numbers=True), X)
    np.testing.assert_array_equal(as_array(pd.DataFrame(X), "x", numbers=True), X)
    assert as_array([True, False], "x", np.float32).dtype == np.float32
    assert as_array(X.astype(np.longdouble), "x").dtype == np.float64


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (MASKED, rf"^x: a masked array .* Received: {MASKED.mask.sum()} masked entries\."),
        ([list(MASKED), list(MASKED)], rf"Received: {2 * MASKED.mask.sum()} masked entries\."),
        (
            [[1, 2], [3]],
            r"^x has rows of unequal lengths\. Received: list\. Expected: .*keras\.utils\.pad_sequences",
        ),
        (
            OnDevice(),
            r"^x cannot be converted to a NumPy array. Received: OnDevice \(RuntimeError: call .cpu\(\) first\).",
        ),
        (X + 1j, r"^x are not numbers\. Received: an array of type complex128\."),
        (pd.DataFrame({"a": ["x"], "b": [1.0]}), "an array of type object"),
        (pd.DataFrame({"a": pd.date_range("2020", periods=2)}), "an array of type datetime64"),
        (np.zeros(2, [("a", float)]), "x are not numbers"),
        (np.array(["1"]), "x are not numbers"),
        (None, "an array of type object"),
    ],
)
def test_arrays_that_are_none(values, sentence):
    with pytest.raises(InputError, match=sentence):
        as_array(values, "x", numbers=True)


MASKS = {
    "inputs": lambda: Simulation(data=(MASKED, Y)),
    "targets": lambda: Simulation(data=(X, np.ma.masked_array(Y, Y > 0))),
    "test set": lambda: Simulation(data=((X, Y), (MASKED, Y))),
    "test_data": lambda: Simulation(data=(X, Y), test_data=(MASKED, Y)),
    "weights": lambda: Simulation(
        data=(X, Y), sample_weights=np.ma.masked_array(np.ones(10), Y > 0)
    ),
    "several inputs": lambda: Simulation(data=({"a": MASKED}, Y)),
    "a data set": lambda: tati_re.data.Dataset(MASKED, Y),
    "inputs for prediction": lambda: simulation().predict(MASKED),
    "parameters": lambda: setattr(
        simulation(), "parameters", np.ma.masked_array(np.zeros(3), [1, 0, 0])
    ),
    "starts": lambda: simulation().sample(starts=np.ma.masked_array(np.zeros((1, 3)), [[1, 0, 0]])),
    "directions": lambda: simulation().sample(
        directions=np.ma.masked_array(np.ones((1, 3)), [[1, 0, 0]])
    ),
    "mass": lambda: simulation().sample(mass=np.ma.masked_array(np.ones(3), [1, 0, 0])),
}


@pytest.fixture(scope="module", autouse=True)
def one():
    simulation.made = Simulation(data=(X, Y), **QUICK)


def simulation(**objects):
    """The simulation of the module; one of its own where it is made with objects."""
    return Simulation(data=(X, Y), **QUICK, **objects) if objects else simulation.made


@pytest.mark.parametrize("case", MASKS)
def test_masks_are_not_lost(case):
    with pytest.raises(
        InputError, match=r"a masked array has missing numbers\. Received: \d+ masked"
    ):
        MASKS[case]()


LOSSES = {
    "two numbers an example": (
        lambda t, o: tf.concat([t - o, t - o], -1),
        r"Received: float32 of shape \(10, 2\)",
    ),
    "a float": (
        lambda t, o: 1.0,
        r"Received: float32 of shape \(\)\. Expected: floats of shape \(10,\)",
    ),
    "the mean": (lambda t, o: tf.reduce_mean((t - o) ** 2), r"of shape \(\)"),
    "an example less": (lambda t, o: (t - o)[1:, 0], r"of shape \(9,\)"),
    "integers": (lambda t, o: tf.cast(t[:, 0], tf.int32), "Received: int32"),
    "nothing": (lambda t, o: None, "ValueError"),
    "NumPy": (lambda t, o: np.square(t) - o, r"cannot be computed inside the compiled steps \("),
    "an exception": (
        lambda t, o: 1 / 0,
        r"\(ZeroDivisionError: division by zero\)\. Expected: a function of",
    ),
    "one argument": (lambda t: t, "TypeError"),
}


@pytest.mark.parametrize("case", LOSSES)
def test_losses_are_refused_wherever_they_are_asked(case):
    loss, sentence = LOSSES[case]
    sim = simulation(loss=loss)
    for action in (sim.sample, sim.fit, sim.loss):
        with pytest.raises(InputError, match=rf"^loss: <lambda> .*{sentence}"):
            action()


def test_losses_of_one_number_an_example_stay():
    def loss(labels, outputs):
        return (labels - outputs) ** 2

    column = simulation(loss=loss)
    row = simulation(loss=lambda labels, outputs: loss(labels, outputs)[:, 0])
    assert column.loss() == pytest.approx(row.loss(), rel=1e-6)


CALLS = {
    "observables in a list": (
        {"observables": [1]},
        r"^observables is not a table of functions\. Received: \[1\]\.",
    ),
    "no function": ({"observables": {"a": 3}}, "^observables is not a table of functions"),
    "an observable that raises": (
        {"observables": {"a": lambda p: 1 / 0}},
        r"^observables: 'a' .*\(ZeroDivisionError",
    ),
    "an observable of text": (
        {"observables": {"a": lambda p: tf.fill([1], "b")}},
        "one number per walker. .*string",
    ),
    "callbacks as a number": (
        {"callbacks": 3},
        r"^callbacks are not a list of functions\. Received: 3\.",
    ),
    "a number in a list": (
        {"callbacks": [3]},
        r"Received: \[3\]\. Expected: a list of functions of \(folder, step\)",
    ),
    "a callback of one argument": (
        {"callbacks": [lambda folder: 1]},
        "^callbacks: one cannot be called",
    ),
    "a class of Python": ({"sampler": dict}, "^sampler: dict is built into Python"),
    "a number as optimizer": (
        {"optimizer": 3},
        "^optimizer: this is not an optimizer. Received: int.",
    ),
    "a class as optimizer": (
        {"optimizer": keras.optimizers.SGD},
        "^optimizer: this is not an optimizer",
    ),
    "a class as prior": (
        {"prior": tati_re.priors.Gaussian},
        "^prior is a class; an object is needed",
    ),
    "ragged starts": ({"starts": [[1, 2], [3]]}, "^starts has rows of unequal lengths"),
    "no directions": ({"directions": np.zeros((0, 3))}, "^directions: these are not row vectors"),
    "objects as mass": ({"mass": object()}, "^mass are not numbers"),
    "a schedule that raises": (
        {"step_schedule": lambda step: 1 / 0},
        "^step_schedule: .*ZeroDivisionError",
    ),
    "a negative temperature": (
        {"temperature_schedule": lambda step: -1.0},
        r"invalid value\. Received: -1\.",
    ),
}


@pytest.mark.parametrize("case", CALLS)
def test_arguments_of_a_call_are_refused_before_a_folder_is_made(tmp_path, case):
    arguments, sentence = CALLS[case]
    call = simulation().fit if "optimizer" in arguments else simulation().sample
    with pytest.raises(InputError, match=sentence) as caught:
        call(output=str(tmp_path / "run"), **arguments)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["load", "resume", "from_folder"])
@pytest.mark.parametrize("where", [3, None, b"a", "a\0b", "x" * 5000])
def test_no_folder_of_a_run(name, where):
    with pytest.raises(InputError):
        (tati_re.load if name == "load" else getattr(Simulation, name))(where)


# Models


class Own(keras.layers.Layer):
    """A layer around a function."""

    def __init__(self, function) -> None:
        super().__init__()
        self.function, self.seeds = function, keras.random.SeedGenerator(1)

    def compute_output_spec(self, x):
        return keras.KerasTensor(x.shape, x.dtype)

    def call(self, x):
        return self.function(self, x)


MODELS = {
    "NumPy": (lambda layer, x: x * np.mean(x), "cannot be computed inside the compiled steps"),
    "random numbers of NumPy": (lambda layer, x: x * np.random.normal(), "draws random numbers"),
    "random numbers of TensorFlow": (
        lambda layer, x: x + tf.random.normal(tf.shape(x)),
        "draws random numbers",
    ),
    "random numbers of Keras": (
        lambda layer, x: x + keras.random.normal(keras.ops.shape(x)),
        "draws random numbers",
    ),
    "an exception": (lambda layer, x: [][0], "IndexError"),
}


def with_layer(layer):
    return keras.Sequential([keras.Input((2,)), layer, keras.layers.Dense(1)])


@pytest.mark.parametrize("case", MODELS)
def test_models_that_are_no_functions(case):
    function, sentence = MODELS[case]
    with pytest.raises(InputError, match=f"^model: its call .*{sentence}"):
        Simulation(with_layer(Own(function)), (X, Y), **QUICK)


def test_random_numbers_of_a_layer_with_its_own_seeds_stay():
    layer = Own(lambda layer, x: x + 0.01 * keras.random.normal((2,), seed=layer.seeds))
    assert np.isfinite(Simulation(with_layer(layer), (X, Y), **QUICK).loss())
    with pytest.raises(InputError, match="draws random numbers"):
        Simulation(
            with_layer(keras.layers.Lambda(lambda x: x * np.random.normal())), (X, Y), **QUICK
        )


# Labels


@pytest.mark.parametrize(
    ("labels", "num_classes", "sentence"),
    [
        ([0, 57] * 5, 58, "Labels up to 57 are 58 classes, of which 2 occur"),
        ([1] * 10, None, "All labels are 1: there is only one class"),
        (
            [0, 1, 0, -1] * 3,
            None,
            "Labels -1, 0, 1 are treated as regression targets. Set num_classes = 3",
        ),
        ([0, 1, 2] * 3, 3, None),
        ([-1, 1] * 3, 2, None),
        (
            [*range(18, 89)] * 3,
            None,
            "Labels 18, 19, 20, 21, 22, ... (71 different values) are treated as regression targets.",
        ),
        ([3, 50, -7, 8], None, None),
        (Y, None, None),
        ([5], None, None),
        (np.eye(3), 3, None),
    ],
)
def test_labels_that_may_be_something_else_are_doubted(labels, num_classes, sentence):
    said = list(doubts(np.asarray(labels), None, num_classes))
    assert (sentence is None and not said) or (len(said) == 1 and said[0].startswith(sentence))


def test_a_run_says_its_doubts(capsys):
    options = QUICK | {"verbose": 1}
    Simulation(data=(X, np.where(Y > 0, 57, 0)), **options).sample()
    assert "The labels 0, 57 are 2 classes, in this order." in capsys.readouterr().out
    Simulation(data=(X, np.where(Y > 0, 57, 0)), num_classes=0, **options).sample()
    assert "classes" not in capsys.readouterr().out


def test_functions_without_a_signature_are_no_samplers():
    with pytest.raises(InputError, match="built into Python"):
        made(dict, make_options())


def test_a_tensorflow_without_tensorboard_says_so(monkeypatch):
    monkeypatch.delattr(tf.summary, "create_file_writer")
    with pytest.raises(
        InputError,
        match=r"^tensorboard: .* is not installed\. Expected: pip install 'tati_re\[tens",
    ):
        simulation().sample(tensorboard="board")


def test_a_tf_dataset_that_raises():
    data = tf.data.Dataset.from_generator(lambda: 1 / 0, output_types=("float32", "float32"))
    data = data.map(lambda x, y: (tf.ensure_shape(x, (None, 2)), tf.ensure_shape(y, (None,))))
    with pytest.raises(
        InputError, match=r"^data: the tf\.data\.Dataset raises \w+: .*ZeroDivisionError"
    ):
        Simulation(data=data)


@pytest.mark.parametrize(
    "option", ["model", "data", "parameters", "directions", "prior_std", "step_schedule"]
)
def test_names_that_are_too_long_for_a_file(option):
    with pytest.raises(InputError) as caught:
        Simulation(**{"data": (X, Y), **QUICK, option: "a" * 5000}).sample()
    assert option in str(caught.value)


@pytest.mark.parametrize("flag", [1, 32])
def test_members_of_archives_that_are_encrypted_or_patched(tmp_path, flag):
    path = tmp_path / "a.npz"
    np.savez(path, x=X, y=Y)
    content = bytearray(path.read_bytes())
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(signature) + place] |= flag
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"cannot be read as an NPZ file of numbers\. Received:"):
        load_data(str(path))
    with pytest.raises(InputError, match=r"^directions: .* cannot be read"):
        simulation().sample(directions=str(path))


CONTAINS_ITSELF: list = []
CONTAINS_ITSELF.append(CONTAINS_ITSELF)
SEEDS = [CONTAINS_ITSELF, [[1, 2], 3], "1", 0.5, -1, {"a": 1}, [1, -1], np.array(1.0)]


@pytest.mark.parametrize("seed", SEEDS, ids=lambda seed: type(seed).__name__)
def test_a_seed_is_a_whole_number(seed):
    """A list that contains itself ended the process by a segmentation fault in NumPy."""
    directions = tati_re.landscape.random_directions
    for call in (
        lambda: seeded(seed),
        lambda: seeded(seed, 7),
        lambda: tati_re.testing.NumpyNoise(seed),
        lambda: directions(np.zeros(3), [(3,)], 2, seed=seed),
        lambda: tati_re.priors.Gaussian().sample((2, 3), seed),
    ):
        with pytest.raises(InputError, match=r"^seed"):
            call()


def test_the_numbers_of_a_seed_are_those_of_numpy():
    for seed in (0, np.int64(7), [1, 2], (3, 4)):
        expected = np.random.default_rng(seed).random(3)
        np.testing.assert_array_equal(seeded(seed).random(3), expected)
        expected = np.random.default_rng([seed, 5]).random(3)
        np.testing.assert_array_equal(seeded(seed, 5).random(3), expected)
