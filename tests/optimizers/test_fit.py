"""fit descends like the optimizer it names; a saved model is the run's; all kinds of layers go
through a run.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.core.backend import keras, tf

N, PRIOR = 8, 0.7
GENERATOR = np.random.default_rng(9)
X, Y = GENERATOR.normal(size=(N, 2)), GENERATOR.normal(size=N)
DESIGN = np.column_stack([X, np.ones(N)])
START = GENERATOR.normal(size=(2, 3))
LINEAR = {
    "noise_std": 1.0,
    "dtype": "float64",
    "prior_std": PRIOR,
    "verbose": 0,
    "execution": "graph",
    "num_walkers": 2,
}


def slope(theta) -> np.ndarray:
    """∇U / N of linear regression with unit noise: the gradient of the mean loss, plus that of V /
    N.
    """
    return (DESIGN.T @ (DESIGN @ theta - Y) + theta / PRIOR**2) / N


def fitted(**options):
    sim = Simulation(data=(X, Y), **LINEAR)
    sim.parameters = START
    run = sim.fit(num_steps=20, record_every=5, trajectory_every=10, **options)
    return sim, run


def test_gradient_descent_is_plain_descent():
    theta, stored = START.copy(), {}
    for step in range(1, 21):
        theta = np.array([row - 0.1 * slope(row) for row in theta])
        stored[step] = theta
    sim, run = fitted(optimizer="gradient_descent", learning_rate=0.1)
    np.testing.assert_allclose(sim.parameters, theta, rtol=1e-10)
    np.testing.assert_allclose(
        run.trajectory.iloc[:, 4:], np.concatenate([stored[10], stored[20]]), rtol=1e-10
    )


@pytest.mark.parametrize(
    "layer",
    [keras.layers.Dropout, pytest.param(keras.layers.GaussianNoise, marks=pytest.mark.slow)],
)
def test_walkers_and_runs_drop_units_of_their_own(layer, tmp_path):
    """Of one state of the seed generator all walkers, and runs of all seeds, would stay
    together.
    """
    model = keras.Sequential([keras.Input((2,)), layer(0.5), keras.layers.Dense(1)])
    found = []
    for seed in (1, 2, 1):
        sim = Simulation(model, (X, Y), **LINEAR | {"num_walkers": 3}, seed=seed)
        sim.parameters = np.tile(START[0], (3, 1))
        sim.fit(
            num_steps=10,
            optimizer="gradient_descent",
            learning_rate=0.1,
            output=str(tmp_path / f"{len(found)}"),
        )
        found.append(sim.parameters)
    assert len(np.unique(np.round(np.concatenate(found[:2]), 9), axis=0)) == 6
    np.testing.assert_array_equal(found[0], found[2])
    sim.fit(num_steps=10, optimizer="gradient_descent", learning_rate=0.1)
    assert len(np.unique(np.round(sim.parameters, 9), axis=0)) == 3


def test_gradient_descent_takes_its_mini_batches_in_turn():
    from tati_re.data import Batches

    indices, sizes = Batches(N, 3, 2, 0).indices(0, 20)
    theta = START.copy()
    for step in range(20):
        for walker in range(2):
            rows = indices[step, walker, : sizes[step]]
            error = DESIGN[rows] @ theta[walker] - Y[rows]
            data = DESIGN[rows].T @ error / len(rows)
            theta[walker] = theta[walker] - 0.1 * (data + theta[walker] / PRIOR**2 / N)
    sim, _ = fitted(optimizer="gradient_descent", learning_rate=0.1, batch_size=3)
    np.testing.assert_allclose(sim.parameters, theta, rtol=1e-10)


@pytest.mark.parametrize(
    ("optimizer", "same"),
    [
        ("adam", lambda: keras.optimizers.Adam(0.05)),
        pytest.param("sgd", lambda: keras.optimizers.SGD(0.05), marks=pytest.mark.slow),
        pytest.param("rmsprop", lambda: keras.optimizers.RMSprop(0.05), marks=pytest.mark.slow),
        (
            keras.optimizers.SGD(
                keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5),
                momentum=0.9,
                nesterov=True,
            ),
            lambda: keras.optimizers.SGD(
                keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5),
                momentum=0.9,
                nesterov=True,
            ),
        ),
    ],
)
def test_keras_optimizers_descend_as_in_keras(optimizer, same):
    expected = []
    for row in START:
        kernel, bias = (
            keras.Variable(row[:2, None], dtype="float64"),
            keras.Variable(row[2:], dtype="float64"),
        )
        keras_optimizer = same()
        for _ in range(20):
            gradient = slope(np.concatenate([kernel.numpy()[:, 0], bias.numpy()]))
            keras_optimizer.apply([gradient[:2, None], gradient[2:]], [kernel, bias])
        expected.append(np.concatenate([kernel.numpy()[:, 0], bias.numpy()]))
    sim, _ = fitted(optimizer=optimizer, learning_rate=0.05)
    # Keras keeps learning rate and decay in float32 variables.
    np.testing.assert_allclose(sim.parameters, expected, rtol=1e-7)
    assert np.abs(sim.parameters - START).max() > 0.1


def test_fit_records_like_sample():
    _, run = fitted(optimizer="adam")
    assert list(run.run_info.step) == [5, 5, 10, 10, 15, 15, 20, 20]
    assert run.run_info["kinetic_energy"].isna().all()
    assert (run.run_info["temperature"] == 0).all()
    assert run.manifest["kind"] == "fit"
    last = run.run_info[run.run_info.walker == 0]["potential"].to_numpy()
    assert (np.diff(last) < 0).all()


def test_an_optimizer_that_does_not_exist_is_told_with_the_nearest():
    with pytest.raises(InputError, match=r"^optimizer: unknown name\. Did you mean 'adam'\?"):
        fitted(optimizer="adamm")


# Models as files


def batch_normalised():
    keras.utils.set_random_seed(1)
    layers = [
        keras.layers.BatchNormalization(momentum=0.9),
        keras.layers.Dense(3, activation="tanh"),
    ]
    return keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(1)])


def test_a_saved_model_predicts_what_the_walker_predicts(tmp_path):
    sim = Simulation(
        batch_normalised(), (X, Y), verbose=0, execution="graph", batch_size=4, num_walkers=2
    )
    sim.fit(num_steps=10, learning_rate=0.05)
    run = sim.sample(
        step_size=0.001,
        num_steps=6,
        trajectory_every=3,
        record_every=3,
        output=str(tmp_path / "run"),
    )
    for which, walker in ((3, 0), (6, 0), (6, 1), ("mean", None)):
        path = tmp_path / f"{which}-{walker}.keras"
        run.save_model(which, path, walker=walker or 0)
        vector = run.parameters(which, walker)
        if walker == 1:
            continue  # the moving statistics of walker 1 differ from those in the file
        found = keras.saving.load_model(path).predict(X, verbose=0)
        np.testing.assert_allclose(found, sim.predict(X, vector), rtol=1e-5)


def test_the_model_of_a_fit_has_the_moving_statistics_of_its_end(tmp_path):
    sim = Simulation(batch_normalised(), (X, Y), verbose=0, execution="graph")
    run = sim.fit(num_steps=10, trajectory_every=10)
    run.save_model(10, tmp_path / "fitted.keras")
    model = keras.saving.load_model(tmp_path / "fitted.keras")
    # Each of the 11 evaluations, one before the first step, moves them by a tenth towards the mean
    # of all examples.
    np.testing.assert_allclose(
        model.layers[0].moving_mean, (1 - 0.9**11) * X.mean(axis=0), rtol=1e-5
    )
    np.testing.assert_allclose(model.predict(X, verbose=0), sim.predict(X), rtol=1e-5)


def test_the_users_model_is_left_as_it_was():
    model = batch_normalised()
    before = model.get_weights()
    sim = Simulation(model, (X, Y), verbose=0, execution="graph")
    sim.fit(num_steps=3)
    for value, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, expected)


# Layers

IMAGES = GENERATOR.normal(size=(N, 4, 4))
SERIES = GENERATOR.normal(size=(N, 5, 2))
LAYERS = {
    "Dense": (X, (2,), lambda: [keras.layers.Dense(3, activation="tanh")]),
    "Conv2D": (
        IMAGES,
        (4, 4, 1),
        lambda: [keras.layers.Conv2D(2, 3, activation="relu"), keras.layers.Flatten()],
    ),
    "LSTM": (SERIES, (5, 2), lambda: [keras.layers.LSTM(2)]),
    "BatchNormalization": (
        X,
        (2,),
        lambda: [keras.layers.Dense(3), keras.layers.BatchNormalization()],
    ),
}


SHORT = {"verbose": 0, "batch_size": 3, "step_size": 0.01, "record_every": 3, "trajectory_every": 4}


def layered(name: str):
    inputs, shape, layers = LAYERS[name]
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input(shape), *layers(), keras.layers.Dense(3)])
    return model, (inputs, np.arange(N) % 3)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_layers_go_through_sample_and_resume(tmp_path, name):
    model, data = layered(name)
    options = {
        **SHORT,
        "execution": "graph",
        "num_walkers": 2 if name == "BatchNormalization" else 1,
    }
    tables = {}
    for folder, steps in (("whole", 12), ("halves", 5)):
        Simulation(model, data, **options).sample(num_steps=steps, output=str(tmp_path / folder))
    Simulation.resume(str(tmp_path / "halves"), 12, data=data)
    for folder in ("whole", "halves"):
        run = load(tmp_path / folder)
        assert np.isfinite(run.run_info).all(axis=None)
        names = ("run.csv", "averages.csv", "trajectory.csv")
        tables[folder] = [(run.folder / name).read_bytes() for name in names]
    assert tables["whole"] == tables["halves"]
    assert run.parameters(12, 0).dtype == np.float32


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name == "BatchNormalization" else pytest.mark.slow)
        for name in LAYERS
    ],
)
def test_layers_go_through_sample_in_float64(name):
    model, data = layered(name)
    sim = Simulation(model, data, dtype="float64", execution="graph", **SHORT)
    run = sim.sample(num_steps=4)
    assert (
        sim.parameters.dtype == sim.predict(data[0]).dtype == run.parameters(4).dtype == np.float64
    )
    np.testing.assert_array_equal(run.parameters(4), sim.parameters)
    rounded = sim.parameters.astype(np.float32).astype(np.float64)
    assert (rounded != sim.parameters).mean() > 0.9
    sim.set_options(batch_size=None)
    exact = sim.potential()
    sim.parameters = rounded
    assert exact != sim.potential()


class Passed(keras.layers.Layer):
    """Hands its inputs through numpy, where no compiler can follow."""

    def call(self, inputs):
        through = tf.numpy_function(lambda values: values, [inputs], inputs.dtype)
        through.set_shape(inputs.shape)
        return inputs + tf.stop_gradient(through - inputs)

    def compute_output_shape(self, input_shape):
        return input_shape


def test_what_xla_cannot_compile_runs_as_a_graph_and_its_model_must_be_given_again(tmp_path):
    model = keras.Sequential([keras.Input((2,)), Passed(), keras.layers.Dense(3)])
    data = X, np.arange(N) % 3
    output = str(tmp_path / "run")
    run = Simulation(model, data, **SHORT).sample(num_steps=4, output=output)
    assert run.manifest["execution"] == "graph"
    with pytest.raises(InputError, match=r"^resume: .* Expected: model=\.\.\., the object"):
        Simulation.resume(output, 8, data=data)
    run = Simulation.resume(output, 8, data=data, model=model)
    assert run.run_info["step"].max() == 6


def test_options_that_a_fit_does_not_use_are_told(capsys):
    sim = Simulation(
        keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]),
        (X, Y),
        **LINEAR | {"verbose": 1, "execution": "eager"},
    )
    sim.fit(num_steps=3, step_size=0.1, friction=7.0, learning_rate=0.01)
    assert "Not used by a fit: friction, step_size." in capsys.readouterr().out
    sim.fit(num_steps=3, learning_rate=0.01)
    assert "Not used" not in capsys.readouterr().out
    run = sim.fit(
        num_steps=3,
        annealing_cooling=0.5,
        barzilai_borwein_step="long",
        until="ess>9",
        num_burnin_steps=1,
    )
    unused = ["annealing_cooling", "barzilai_borwein_step", "num_burnin_steps", "until"]
    assert f"Not used by a fit: {', '.join(unused)}." in capsys.readouterr().out
    assert set(unused) <= set(run.manifest["unused"])
    sim.fit(num_steps=3, optimizer="barzilai_borwein", barzilai_borwein_step="long")
    assert "Not used" not in capsys.readouterr().out


def test_options_of_fits_and_evidences_that_a_run_does_not_use_are_told(capsys):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    sim = Simulation(
        model,
        (X, Y),
        **LINEAR
        | {
            "verbose": 1,
            "step_size": 1e-3,
            "walker_start": "fit",
            "fit_steps": 2,
            "execution": "eager",
        },
    )
    sim.sample(num_steps=3, sampler="BAOAB", learning_rate=0.1, evidence_nodes=5)
    assert "Not used by this run: evidence_nodes." in capsys.readouterr().out, (
        "it begins with a fit"
    )
    sim.sample(num_steps=3, sampler="BAOAB", learning_rate=0.1, evidence_nodes=5)
    assert "Not used by this run: evidence_nodes, learning_rate." in capsys.readouterr().out


def test_averages_of_weights_are_refused():
    sim = Simulation(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]), (X, Y), **LINEAR)
    with pytest.raises(
        InputError, match=r"averages of weights are not supported\. Received: use_ema"
    ):
        sim.fit(optimizer=keras.optimizers.SGD(0.1, use_ema=True), num_steps=3)
