"""Models of several inputs: by name and by place, from arrays and files, in batches, predictions
and resumed runs.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.cli import sample
from tati_re.core.backend import keras
from tati_re.data import load_data
from tests.systems import tables

N = 9
GENERATOR = np.random.default_rng(4)
TOKENS = GENERATOR.integers(0, 5, size=(N, 3))
NUMBERS = GENERATOR.normal(size=(N, 2))
LABELS = np.arange(N) % 3
QUICK = {"noise_std": 1.0, "verbose": 0, "execution": "graph", "dtype": "float64"}


def model(as_dict: bool = False):
    keras.utils.set_random_seed(3)
    tokens, numbers = (
        keras.Input((3,), dtype="int32", name="tokens"),
        keras.Input((2,), name="numbers"),
    )
    embedded = keras.layers.Flatten()(keras.layers.Embedding(5, 2)(tokens))
    outputs = keras.layers.Dense(3)(keras.layers.Concatenate()([embedded, numbers]))
    inputs = {"tokens": tokens, "numbers": numbers} if as_dict else [tokens, numbers]
    return keras.Model(inputs, outputs)


@pytest.mark.parametrize("as_dict", [False, True])
@pytest.mark.parametrize(
    "inputs",
    [
        {"numbers": NUMBERS, "tokens": TOKENS},
        {"tokens": TOKENS, "numbers": NUMBERS},
        "in the order of the model",
    ],
    ids=["by name", "by name, other order", "by place"],
)
def test_potential_and_predictions_are_those_of_the_model(as_dict, inputs):
    net = model(as_dict)
    own = {"tokens": TOKENS, "numbers": NUMBERS} if as_dict else [TOKENS, NUMBERS]
    if isinstance(inputs, str):
        first = sorted(own) if as_dict else None
        inputs = [own[name] for name in first] if as_dict else (TOKENS, NUMBERS)
    sim = Simulation(net, (inputs, LABELS), **QUICK, prior="none")
    outputs = np.asarray(net(own))
    np.testing.assert_allclose(sim.predict(inputs), outputs, rtol=1e-5, atol=1e-6)
    log_probabilities = outputs - np.log(np.exp(outputs).sum(axis=1, keepdims=True))
    assert sim.potential() == pytest.approx(
        -log_probabilities[np.arange(N), LABELS].sum(), rel=1e-6
    )


def test_mini_batches_resume_and_prediction_from_the_folder(tmp_path):
    inputs = {"numbers": NUMBERS, "tokens": TOKENS}
    options = QUICK | {"batch_size": 4, "num_walkers": 2, "record_every": 1, "trajectory_every": 2}
    for folder, steps in (("whole", 6), ("parts", 3)):
        Simulation(model(), (inputs, LABELS), **options).sample(
            step_size=0.001, num_steps=steps, output=str(tmp_path / folder)
        )
    Simulation.resume(str(tmp_path / "parts"), 6, data=(inputs, LABELS))
    assert tables(tmp_path / "whole") == tables(tmp_path / "parts")
    run = load(tmp_path / "whole")
    found = [run.predict(x).probabilities for x in (inputs, (TOKENS, NUMBERS))]
    np.testing.assert_array_equal(*found)
    assert found[0].shape == (N, 3)


def test_an_npz_file_and_a_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model().save("two.keras")
    np.savez("a.npz", t=TOKENS, n=NUMBERS, y=LABELS)
    np.savetxt(
        "a.csv",
        np.column_stack([TOKENS, NUMBERS, LABELS]),
        delimiter=",",
        header="a,b,c,d,e,y",
        comments="",
    )
    common = [
        "--model",
        "two.keras",
        "--quiet",
        "--execution",
        "graph",
        "--num-steps",
        "3",
        "--test-fraction",
        "0",
    ]
    common += ["--dtype", "float64", "--record-every", "1", "--step-size", "0.001"]
    assert (
        sample.main([*common, "--data", "a.npz", "--data-keys", "t+n", "y", "--output", "npz"]) == 0
    )
    assert sample.main([*common, "--data", "a.csv", "--output", "csv"]) == 0
    assert (tmp_path / "npz" / "run.csv").read_bytes() == (
        tmp_path / "csv" / "run.csv"
    ).read_bytes()
    assert load_data("a.npz", 0.0, data_keys=["t+n", "y"]).layout == (("", (3,)), ("", (2,)))


def test_a_list_of_rows_is_one_array():
    rows = [np.ones(2), np.zeros(2), np.ones(2)]
    assert load_data((rows, [0, 1, 0])).layout == ()
    assert load_data(([[1.0, 2.0], [3.0, 4.0]], [0, 1])).inputs.shape == (2, 2)
    assert load_data(([NUMBERS, NUMBERS], LABELS)).layout == (("", (2,)), ("", (2,)))


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        (
            {"tokens": TOKENS, "number": NUMBERS},
            r"the model has no input 'number'\. Did you mean 'numbers'\?",
        ),
        ({"tokens": TOKENS}, "do not fit the inputs of the model. Received: tokens"),
        (
            [NUMBERS, TOKENS],
            r"do not fit the inputs of the model\. Received: \(2,\), \(3,\)\. Expected: tokens \(3,\), numb",
        ),
        ({"tokens": TOKENS, "numbers": NUMBERS[:-1]}, "unequal lengths"),
        (
            {"tokens": 10**8 * TOKENS, "numbers": NUMBERS},
            "input tokens contains integers that are too large",
        ),
        (
            {"tokens": np.array(["a"] * N), "numbers": NUMBERS},
            "input tokens: column '0' contains text",
        ),
        (NUMBERS, "the inputs do not match the model"),
    ],
)
def test_inputs_that_do_not_fit_are_told(inputs, sentence):
    with pytest.raises(InputError, match=f"^data: .*{sentence}"):
        Simulation(model(), (inputs, LABELS), **QUICK)


def test_one_input_and_several_arrays():
    one = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3)])
    with pytest.raises(InputError, match=r"^data: the model has one input\. Received: 2 inputs"):
        Simulation(one, ([TOKENS, NUMBERS], LABELS), **QUICK)
    with pytest.raises(
        InputError, match=r"^standardize and input_columns need data with one input"
    ):
        Simulation(model(), ([TOKENS, NUMBERS], LABELS), standardize="inputs", **QUICK)
    sim = Simulation(model(), ([TOKENS, NUMBERS], LABELS), **QUICK)
    with pytest.raises(InputError, match=r"^inputs lack 'tokens'|^inputs do not match"):
        sim.predict([NUMBERS, NUMBERS])
