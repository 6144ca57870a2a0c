"""Whole numbers, shares and units of targets under losses of values and of classes."""

import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.evidence.energies import Energies
from tati_re.sklearn import BayesianRegressor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 1))
RATE = np.exp(1 + 0.5 * X[:, 0])
COUNTS = RNG.poisson(RATE)


@pytest.mark.parametrize(
    "loss", ["poisson", "huber", "log_cosh", "mean_squared_logarithmic_error", "msle"]
)
def test_counts_are_values_of_one_output_by_name_and_as_an_object(loss):
    given = [loss] if loss == "msle" else [loss, keras.losses.get(loss), keras.losses.serialize]
    for each in given[:2]:
        sim = tati_re.Simulation(data=(X, COUNTS), hidden=[4], loss=each, seed=1, verbose=0)
        assert sim.num_parameters() == 13
        assert sim.dataset.num_classes is None


def test_counts_have_two_outputs_where_noise_is_predicted_and_classes_where_they_are_asked_for():
    sizes = [
        tati_re.Simulation(data=(X, COUNTS), hidden=[4], verbose=0, **given).num_parameters()
        for given in (
            {"loss": "heteroscedastic_gaussian"},
            {"loss": "poisson", "num_classes": 30},
            {},
        )
    ]
    assert sizes == [18, 8 + 5 * 30, 8 + 5 * len({*COUNTS.tolist()})]


@pytest.mark.parametrize("loss", ["poisson", keras.losses.Poisson()])
def test_rates_of_a_linear_layer_are_refused_before_a_step(loss):
    """The logarithm of a rate below 0: the potential was nan after the first step, or a wall at 0
    that nobody meant.
    """
    message = (
        "loss: poisson takes the logarithm of the outputs, so they must be rates "
        "above 0. Received: a last layer that is linear. Expected: output_activation "
        "exponential or softplus, or such a last layer of the model."
    )
    sim = tati_re.Simulation(data=(X, COUNTS), hidden=[], loss=loss, seed=1, verbose=0)
    with pytest.raises(InputError, match=message):
        sim.sample()
    with pytest.raises(InputError, match=message):
        BayesianRegressor(hidden=(), loss=loss).fit(X, COUNTS)
    tati_re.Simulation(
        data=(X, COUNTS), hidden=[], output_activation="exponential", loss=loss, verbose=0
    ).loss()


def test_a_run_on_counts_predicts_its_own_test_part(tmp_path):
    options = {
        "hidden": [4],
        "output_activation": "softplus",
        "loss": "poisson",
        "test_fraction": 0.2,
        "seed": 1,
    }
    pd.DataFrame({"x": X[:, 0], "label": COUNTS}).to_csv(tmp_path / "counts.csv", index=False)
    sim = tati_re.Simulation(data=str(tmp_path / "counts.csv"), verbose=0, **options)
    sim.sample(num_steps=200, step_size=0.003, output=tmp_path / "run")
    assert tati_re.load(tmp_path / "run").predict().scores()["rmse"] < 4.0


def test_a_model_with_several_outputs_is_refused_for_one_column_of_counts():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(3, activation="softplus")])
    with pytest.raises(InputError, match=r"do not match the labels under poisson"):
        tati_re.Simulation(model, (X, COUNTS), loss="poisson").sample(num_steps=1, step_size=0.1)


@pytest.mark.slow
def test_targets_of_the_estimator_keep_their_units_where_the_loss_or_its_noise_has_them():
    """Without that the rates come out as one constant, and a noise of 20 as 20 deviations of the
    targets.
    """
    how = {"hidden": (), "members": 2, "num_steps": 500, "num_burnin_steps": 150, "sampler": "HMC"}
    counts = BayesianRegressor(
        loss="poisson", output_activation="exponential", step_size=0.02, **how
    ).fit(X, COUNTS)
    np.testing.assert_allclose(counts.predict(X), RATE, rtol=0.35)
    y = 300 + 50 * X[:, 0] + 20 * np.random.default_rng(1).normal(size=400)
    noisy = BayesianRegressor(noise_std=20.0, prior_std=300.0, step_size=0.02, **how).fit(X, y)
    mean, std = noisy.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 300 + 50 * X[:, 0], atol=15)
    np.testing.assert_allclose(std, 20, rtol=0.05)


def test_a_loss_that_is_no_function_of_differences_refuses_standardized_targets():
    with pytest.raises(
        InputError, match=r"Received: all with poisson. Expected: inputs, none or auto."
    ):
        tati_re.Simulation(data=(X, COUNTS), hidden=[4], loss="poisson", standardize="all")


def test_shares_of_classes_are_predicted_as_shares():
    x = RNG.normal(size=(200, 2))
    shares = np.exp(x @ [[2.0, 0, -2], [0, 1, -1]])
    shares /= shares.sum(1, keepdims=True)
    sim = tati_re.Simulation(data=(x, shares), loss="categorical_crossentropy", seed=1, verbose=0)
    run = sim.sample(sampler="HMC", step_size=0.05, num_steps=600, num_burnin_steps=200)
    found = run.predict(x, shares)
    np.testing.assert_allclose(found.mean.sum(axis=1), 1.0, rtol=1e-6)
    assert found.scores()["rmse"] < 0.1
    with pytest.raises(InputError, match=r"class proportions are not draws"):
        run.loo()


@pytest.mark.parametrize(
    "beside", [{"activation": "tanh"}, {"output_activation": "sigmoid"}, {"use_bias": False}]
)
def test_layers_of_a_given_model_have_no_options_beside_them(beside):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    with pytest.raises(
        InputError,
        match=f"The options of layers do not apply to a given model. Received: {next(iter(beside))}",
    ):
        tati_re.Simulation(model, (X, RATE), **beside)


def test_a_single_example_is_told_how_to_be_given():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    x = RNG.normal(size=(60, 3))
    run = tati_re.Simulation(model, (x, x[:, 0]), noise_std=0.3, verbose=0).sample(
        num_steps=20, step_size=0.001
    )
    with pytest.raises(InputError, match=r"Expected: shape \(3,\), a single example as x\[None\]"):
        run.predict(x[0])
    assert run.predict(x[:1]).mean.shape == (1, 1)


@pytest.mark.parametrize("points", [6, 60])
def test_a_trapezoid_with_too_few_points_is_told_by_the_stepping_stones(points):
    """E = 25 x², x of the prior N(0, 1): exact draws at each point of the path."""
    path = np.linspace(0, 1, points) ** 2
    x = (
        np.random.default_rng(2).normal(size=(points, 8, 2_000))
        / np.sqrt(1 + 50 * path)[:, None, None]
    )
    given = Energies(
        path, 25 * x**2, np.ones(points), np.ones(points), float("nan"), np.zeros((0, 0, 0))
    )
    found = tati_re.evidence.estimated(given, "thermodynamic_integration")
    away = abs(found.log_z + 0.5 * np.log(51)) / found.error
    assert any("Stepping stones" in note for note in found.notes) == (points == 6) == (away > 5.5)
