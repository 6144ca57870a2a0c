"""Models that a function in a user's file builds: from the command and in Python, resumed, and what
is refused.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.cli import predict, sample
from tati_re.core.backend import keras

NET = """
import keras
from keras import layers


class Doubled(layers.Layer):
    def call(self, x):
        return 2 * x


def build(input_shape, num_outputs, activation, dtype="float32", width=3, hidden=()):
    keras.config.floatx()
    return keras.Sequential(
        [keras.Input(input_shape), *(layers.Dense(n, activation) for n in (*hidden, width)), layers.Dense(num_outputs)]
    )


def own(input_shape, num_outputs):
    return keras.Sequential([keras.Input(input_shape), Doubled(), layers.Dense(num_outputs)])


def fails():
    raise KeyError("nothing")


def needs(widht):
    return None


def plain():
    return 3


ready = keras.Sequential([keras.Input((2,)), layers.Dense(1)])
"""
X = np.random.default_rng(0).normal(size=(6, 2))
DATA = [
    "--data",
    "data.csv",
    "--test-fraction",
    "0",
    "--quiet",
    "--execution",
    "graph",
    "--num-steps",
    "3",
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text(NET)
    np.savetxt(
        "data.csv", np.column_stack([X, X[:, 0]]), delimiter=",", header="a,b,y", comments=""
    )
    return tmp_path


def tables(folder: str) -> list[bytes]:
    from pathlib import Path

    return [
        (Path(folder) / name).read_bytes() for name in ("run.csv", "averages.csv", "trajectory.csv")
    ]


def test_the_function_gets_options_shapes_and_a_seed():
    sim = Simulation(
        "my_net.py:build", (X, X[:, 0]), activation="tanh", seed=5, verbose=0, hidden=[4]
    )
    assert sim.parameter_names()[0] == "dense/kernel[0,0]"
    assert [tuple(layer.kernel.shape) for layer in sim.system.model.layers] == [
        (2, 4),
        (4, 3),
        (3, 1),
    ]
    assert sim.system.model.layers[0].activation is keras.activations.tanh
    again = Simulation(
        "my_net:build", (X, X[:, 0]), activation="tanh", seed=5, verbose=0, hidden=[4]
    )
    np.testing.assert_array_equal(sim.parameters, again.parameters)
    other = Simulation(
        "my_net:build", (X, X[:, 0]), activation="tanh", seed=6, verbose=0, hidden=[4]
    )
    assert (sim.parameters != other.parameters).any()
    assert (
        Simulation("my_net:ready", (X, X[:, 0]), dtype="float64", verbose=0).parameters.dtype
        == np.float64
    )


@pytest.mark.parametrize("name", [pytest.param("build", marks=pytest.mark.slow), "own"])
def test_the_command_samples_and_resumes_it(folder, name):
    options = [
        *DATA,
        "--trajectory-every",
        "2",
        "--record-every",
        "1",
        "--model",
        f"my_net.py:{name}",
    ]
    options += ["--sampler", "BAOAB", "--step-size", "0.001"]
    assert sample.main([*options, "--num-steps", "5", "--output", "whole"]) == 0
    assert sample.main([*options, "--output", "parts"]) == 0
    if name == "build":
        # The run folder holds all that is needed, unless the file brought classes of its own.
        (folder / "my_net.py").unlink()
        resumed = ["--resume", "parts", "--num-steps", "5", "--quiet"]
    else:
        assert sample.main(["--resume", "parts", "--num-steps", "5", "--quiet"]) == 2
        resumed = ["--resume", "parts", "--num-steps", "5", "--quiet", "--model", "my_net.py:own"]
    assert sample.main(resumed) == 0
    assert tables("whole") == tables("parts")
    if name == "own":
        (folder / "my_net.py").write_text(
            NET.replace("Doubled(), ", "Doubled(), layers.Dense(2), ")
        )
        assert sample.main(["--resume", "parts", "--num-steps", "6", "--quiet", "--trust"]) == 2


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "my_net.py:biuld",
            "my_net.py has no function of this name. Did you mean 'build'? Received: biuld. Expected: ",
        ),
        (
            "my_nets.py:build",
            "there is no such file. Received: my_nets.py. Expected: such as my_net.py:build or ",
        ),
        (
            "nowhere:build",
            "there is no such module. Received: nowhere. Expected: a module that is installed or lies in ",
        ),
        ("my_net.py:fails", "fails could not be created (KeyError: 'nothing')."),
        (
            "my_net.py:needs",
            "needs needs widht, which is not an option. Expected: a default for it in the function, or ",
        ),
        (
            "my_net.py:plain",
            "my_net.py:plain does not return a Keras model. Received: int. Expected: a function that returns",
        ),
        (
            "my_net.py:",
            "the form is MODULE:FUNCTION. Received: 'my_net.py:'. Expected: my_net.py:build",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_status_2(folder, capsys, name, sentence):
    assert sample.main([*DATA, "--model", name]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"error: --model: {sentence}") and said.count("\n") == 1
    assert not (folder / "runs").exists()


def test_hidden_is_for_functions_that_take_it(capsys):
    assert sample.main([*DATA, "--model", "my_net.py:own", "--hidden", "3"]) == 2
    assert "does not take hidden" in capsys.readouterr().err


def test_predictions_of_a_model_that_only_code_builds(folder, capsys):
    options = [*DATA, "--trajectory-every", "1", "--model", "my_net.py:own", "--output", "run"]
    assert sample.main([*options, "--sampler", "BAOAB", "--step-size", "0.001"]) == 0
    assert predict.main(["run", "--data", "data.csv"]) == 2
    assert "Keras does not know" in capsys.readouterr().err
    assert predict.main(["run", "--data", "data.csv", "--trust"]) == 0
    assert "draws                       3" in capsys.readouterr().out
    (folder / "my_net.py").write_text(
        NET.replace(
            "[keras.Input(input_shape), Doubled(), layers.Dense(num_outputs)]",
            "[keras.Input(input_shape), Doubled(), layers.Dense(num_outputs, 'tanh')]",
        )
    )
    assert predict.main(["run", "--data", "data.csv", "--trust", "--overwrite"]) == 2
    assert (
        "the model differs from the run's. Received: Sequential layers Dense activation tanh."
        in capsys.readouterr().err
    )


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_another_model_of_the_same_shapes_is_refused(folder, dtype):
    def made(activation, scale=2.0):
        class Scaled(keras.layers.Layer):
            def __init__(self, scale, **given):
                super().__init__(**given)
                self.scale = scale

            def call(self, x):
                return self.scale * x

        inner = keras.layers.Dense(3, activation, kernel_regularizer="l2")
        return keras.Sequential([keras.Input((2,)), inner, Scaled(scale), keras.layers.Dense(1)])

    def resumed(model, steps):
        return Simulation.resume("own", num_steps=steps, data=data, model=model)

    data = X, X[:, 0]
    sim = Simulation(made("relu"), data, dtype=dtype, execution="graph", verbose=0, noise_std=1.0)
    sim.sample(sampler="BAOAB", step_size=0.001, num_steps=4, trajectory_every=2, output="own")
    for other, words in (
        (made("tanh"), "Dense activation tanh"),
        (made("relu", 3.0), "Scaled scale 3.0"),
    ):
        for opened in (lambda model: load("own", model=model), lambda model: resumed(model, 6)):
            with pytest.raises(
                InputError,
                match=f"the model differs from the run's. Received: .*{words}. Expected: ",
            ):
                opened(other)

    first = load("own", model=made("relu")).predict(X, thin=1).mean
    np.testing.assert_allclose(resumed(made("relu"), 4).predict(X, thin=1).mean, first)


def test_a_model_with_a_dict_as_output_is_refused_at_once():
    inputs = keras.Input((2,))
    with pytest.raises(InputError, match=r"The model's output is not a tensor\. Received: dict"):
        Simulation(keras.Model(inputs, {"a": keras.layers.Dense(1)(inputs)}), (X, X[:, 0]))


def test_a_lower_precision_is_told(capsys):
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    finally:
        keras.config.set_dtype_policy("float32")
    quick = {"execution": "graph", "num_steps": 3, "sampler": "BAOAB", "step_size": 0.001}
    Simulation(model, (X, X[:, 0]), noise_std=1.0, **quick).sample()
    assert "The model is rebuilt and sampled in float32 (dtype)." in capsys.readouterr().out
