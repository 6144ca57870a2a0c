"""Predictors as plain Keras models, which load where this package cannot be imported."""

from __future__ import annotations

import io
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tati_re
from tati_re.core.backend import keras
from tati_re.core.errors import InputError
from tati_re.shipping.formats import npz_bytes
from tati_re.shipping.keras_predictions import _student_cdf

# Keras, when it writes a model.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

QUIET = {"verbose": 0, "execution": "graph", "seed": 1}
STEPS = {"sampler": "BAOAB", "num_steps": 60, "num_burnin_steps": 20, "trajectory_every": 10}
LEVELS = (0.05, 0.5, 0.95)


def regression(**options):
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (40, 2)) * [1.0, 100.0] + [0.0, 1e6]
    y = 50 + 10 * x[:, 0] + 0.1 * random.normal(size=40)
    given = {"hidden": [4], "activation": "tanh", "standardize": "all", **options}
    sim = tati_re.Simulation(data=(x, y), num_walkers=2, **given, **QUIET)
    return sim.sample(step_size=0.01, **STEPS), x


def images(**options):
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (30, 6, 6), dtype=np.uint8)
    y = (x[:, :3].mean((1, 2)) > x[:, 3:].mean((1, 2))).astype(int)
    layers = keras.layers
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [
            keras.Input((6, 6, 1)),
            layers.Conv2D(2, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    sim = tati_re.Simulation(model, (x, y), num_walkers=2, **options, **QUIET)
    return sim.sample(step_size=1e-4, **STEPS), x[..., None]


def labels_of_two(**options):
    random = np.random.default_rng(2)
    x = random.normal(size=(40, 3))
    sim = tati_re.Simulation(data=(x, (x[:, 0] > 0).astype(int)), **options, **QUIET)
    return sim.sample(step_size=0.05, **STEPS), x


CASES = {
    "predicted noise": lambda: regression(loss="heteroscedastic_gaussian"),
    "sampled noise": lambda: regression(),
    "fixed noise, float64": lambda: regression(noise_std=0.2, dtype="float64"),
    "student": lambda: regression(loss="student_t", standardize="inputs"),
    "student, 10": lambda: regression(
        loss="student_t", degrees_of_freedom=10.0, standardize="inputs"
    ),
    "laplace": lambda: regression(loss="laplace", standardize="inputs"),
    "no noise": lambda: regression(loss="mean_absolute_error"),
    "derived columns": lambda: regression(input_columns=["x1", "x1^2", "sin(x2)"]),
    "classes": lambda: labels_of_two(hidden=[3], num_walkers=2),
    "one output": lambda: labels_of_two(hidden=[3], loss="binary_crossentropy"),
    "images": lambda: images(),
}


@pytest.mark.parametrize("name", CASES)
def test_the_model_predicts_as_the_predictor_does(name):
    run, x = CASES[name]()
    predictor = run.compress(members=None)
    found = {key: np.asarray(value) for key, value in predictor.to_keras()(x).items()}
    expected = predictor.predict(x)
    if predictor.kind == "classification":
        np.testing.assert_allclose(found["probabilities"], expected.probabilities, atol=1e-5)
        np.testing.assert_allclose(found["entropy"], expected.entropy, atol=1e-5)
        return
    unit = expected.std if expected.std is not None else np.abs(expected.mean).max()
    assert (np.abs(found["mean"] - expected.mean) < 1e-5 * np.maximum(unit, 50)).all()
    assert (np.abs(found["parameter_std"] - expected.parameter_std) < 1e-5 * unit + 2e-5).all()
    if expected.std is None:
        assert {*found} == {"mean", "parameter_std"}
        return
    np.testing.assert_allclose(found["std"], expected.std, rtol=1e-5)
    assert found["quantiles"].shape == (len(x), 1, 3)
    ends = np.stack([expected.lower, predictor.quantiles(x, [0.5])[0], expected.upper], -1)
    assert (
        np.abs(found["quantiles"] - ends) < 1e-5 * np.maximum(expected.std, 50)[..., None]
    ).all()


def test_quantiles_of_odd_degrees_of_freedom_are_refused():
    run, _ = regression(loss="student_t", degrees_of_freedom=5.0, standardize="inputs")
    predictor = run.compress(members=None)
    with pytest.raises(InputError, match="even degrees of freedom"):
        predictor.to_keras()
    assert {*predictor.to_keras(quantiles=()).output} == {"mean", "parameter_std", "std"}


@pytest.mark.parametrize("freedom", [4, 6, 10, 30])
def test_the_distribution_function_of_even_degrees_of_freedom(freedom):
    z = np.linspace(-30, 30, 401)
    found = np.asarray(_student_cdf(float(freedom))(z))
    np.testing.assert_allclose(found, stats.t.cdf(z, freedom), atol=1e-6)
    assert not np.allclose(found, stats.t.cdf(z, freedom + 1), atol=1e-5)


def test_arrays_tell_how_inputs_and_calibration_enter():
    """A file of arrays lacked both, so that predictions by hand differed without a word."""
    run, _ = regression(input_columns=["x1", "x1^2", "sin(x2)"])
    predictor = run.compress(members=None)
    calibrated = tati_re.Predictor(replace(predictor.parts, calibration=1.5))
    with np.load(io.BytesIO(npz_bytes(calibrated)), allow_pickle=False) as arrays:
        assert arrays["column_source"].tolist() == [0, 0, 1]
        assert arrays["column_function"].tolist() == ["power", "power", "sin"]
        assert arrays["column_power"][:2].tolist() == [1, 2]
        assert arrays["calibration"] == 1.5
    with np.load(io.BytesIO(npz_bytes(predictor)), allow_pickle=False) as arrays:
        assert "calibration" not in arrays


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    run, x = regression(loss="heteroscedastic_gaussian")
    predictor = run.compress(members=4, tolerance=100.0)
    folder = tmp_path_factory.mktemp("exported")
    model = predictor.to_keras(LEVELS)
    model.save(folder / "m.keras")
    model.export(folder / "saved", verbose=False)
    np.save(folder / "x.npy", x)
    return folder, predictor, x


PLAIN = """
import sys
import numpy as np

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "tati_re":
            raise ImportError("tati_re is not here")

sys.meta_path.insert(0, Refused())
import keras
model = keras.models.load_model("m.keras", compile=False, safe_mode=True)
found = model(np.load("x.npy"))  # model.predict would round inputs to seven digits
np.savez("found.npz", **{name: value.numpy() for name, value in found.items()})
try:
    import tati_re
except ImportError:
    print("alone")
"""


def test_the_file_loads_where_the_package_cannot_be_imported(exported):
    folder, predictor, x = exported
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PLAIN)], cwd=folder, capture_output=True, text=True
    )
    assert done.stdout.strip().endswith("alone"), done.stderr[-2_000:]
    expected = predictor.predict(x)
    with np.load(folder / "found.npz") as found:
        np.testing.assert_allclose(found["mean"], expected.mean, rtol=1e-5)
        np.testing.assert_allclose(found["std"], expected.std, rtol=1e-5)
        np.testing.assert_allclose(found["quantiles"][..., 0], expected.lower, rtol=2e-5)


def test_the_saved_model(exported):
    from tati_re.core.backend import tf

    folder, predictor, x = exported
    served = tf.saved_model.load(str(folder / "saved"))
    found = served.serve(tf.constant(x, tf.float64))
    np.testing.assert_allclose(found["mean"].numpy(), predictor.predict(x).mean, rtol=1e-5)


def test_what_keras_alone_cannot_compute():
    random = np.random.default_rng(2)
    x = random.normal(size=(30, 2))
    counts = random.poisson(3.0, 30)
    options = {"data": (x, counts), "hidden": [3], "loss": "negative_binomial", "num_classes": 0}
    run = tati_re.Simulation(**options, **QUIET).sample(step_size=0.001, **STEPS)
    predictor = run.compress(members=None)
    with pytest.raises(InputError, match="predictions under this loss are not exported"):
        predictor.to_keras()
    with pytest.raises(InputError, match="a level is out of range"):
        predictor.to_keras(quantiles=(0.5, 1.0))
    several = keras.Input((2,), name="a"), keras.Input((2,), name="b")
    out = keras.layers.Dense(1)(keras.layers.Concatenate()(several))
    data = ({"a": x, "b": x}, x[:, 0])
    run = tati_re.Simulation(keras.Model(several, out), data, **QUIET).sample(
        step_size=0.001, **STEPS
    )
    predictor = run.compress(members=None)
    assert predictor.predict({"a": x, "b": x}).mean.shape == (30, 1)
    with pytest.raises(InputError, match="several inputs is not exported"):
        predictor.to_keras()
