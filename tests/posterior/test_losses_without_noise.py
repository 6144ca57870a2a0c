"""Predictions under losses that say nothing of noise, and under losses of users whose labels have
another shape than the outputs.
"""

import keras
import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re.core.errors import InputError
from tati_re.plotting.prediction import plot_prediction
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.sources import source_of
from tati_re.report.page import page_of
from tati_re.report.prediction import report_predictions
from tati_re.sklearn import BayesianRegressor
from tati_re.summary.summary import summarize

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (120, 1))
RATE = np.exp(1 + X[:, 0])
COUNTS = RNG.poisson(RATE).astype(float)
CENSORED = np.stack([np.minimum(RNG.exponential(RATE), 3.0), RNG.exponential(RATE) < 3.0], axis=1)
SHORT = {
    "sampler": "BAOAB",
    "step_size": 0.005,
    "num_steps": 400,
    "trajectory_every": 10,
    "test_fraction": 0.25,
    "seed": 1,
    "verbose": 0,
}


def words(found):
    """The text of a result, whose lines may break anywhere."""
    return " ".join(str(found).split())


def quantile(labels, outputs):
    """The pinball loss of the 90 % quantile."""
    apart = labels - outputs
    return keras.ops.mean(keras.ops.maximum(0.9 * apart, -0.1 * apart), axis=-1)


def censored(labels, outputs):
    """Exponential lifetimes: `labels` are times and whether the event was seen, outputs log
    rates.
    """
    time, event, log_rate = labels[:, 0], labels[:, 1], outputs[:, 0]
    return keras.ops.exp(log_rate) * time - event * log_rate


def outputs_of(run, inputs):
    """The network's outputs for all draws, `(draws, n, outputs)`, and the weights of the draws."""
    network, draws = source_of(run)
    return outputs_of_draws(network, draws, inputs.astype("float32"))[0]


def sampled(loss, y=COUNTS, **given):
    activation = "exponential" if loss == "poisson" else "linear"
    network = {"hidden": [4], "output_activation": activation, "num_classes": 0}
    if "model" in given:
        network = {"num_classes": 0}
    return tati_re.Simulation(data=(X, y), loss=loss, **network, **SHORT, **given).sample()


def lifetimes():
    return sampled(
        censored, CENSORED, model=keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    )


@pytest.mark.parametrize(
    "loss", ["poisson", "mean_absolute_error", keras.losses.LogCosh(), quantile]
)
def test_intervals_are_of_the_mean_and_have_no_coverage(loss, tmp_path):
    """Coverage was .24 of "observations" that were means."""
    run = sampled(loss)
    found = run.predict()
    assert found.lower is None and found.upper is None and found.std is None
    assert set(found.scores()) == {"rmse", "mean_loss"}
    assert {*found.frame().columns} == {
        *("input", "target", "mean", "parameter_std", "mean_lower", "mean_upper")
    }
    assert "intervals are for the mean, and have no coverage" in words(found)
    with pytest.raises(InputError, match="coverage: the loss does not model the noise"):
        _ = found.coverage
    assert {*found.uncertainty()} == {"parameter_std"}
    for figure in (plot_prediction(found), plot_prediction(run.predict(X), along=0)):
        shown = [text.get_text() for axes in figure.axes for text in axes.get_legend().get_texts()]
        assert any("interval of the mean" in word for word in shown)
        assert not any("observations" in word for word in shown)
    said = words(report_predictions([run], tmp_path, {}))
    assert "coverage of" not in said and "intervals are for the mean" in said
    assert not {"lower", "std"} & {*pd.read_csv(tmp_path / "predictions.csv").columns}
    assert not {"coverage", "interval"} & {*pd.read_csv(tmp_path / "scores.csv").columns}


def test_the_score_of_a_loss_without_noise_is_its_mean_over_the_draws():
    run = sampled("poisson")
    found = run.predict(X, COUNTS)
    outputs = outputs_of(run, X)
    each = (outputs[..., 0] - COUNTS * np.log(outputs[..., 0] + 1e-7)).mean(axis=1)
    np.testing.assert_allclose(found.draw_losses, each, rtol=1e-4)
    assert found.scores()["mean_loss"] == pytest.approx(each.mean(), rel=1e-4)


def test_averages_kept_while_sampling_have_no_coverage_either():
    found = sampled("poisson", stream_predictions=20).predict()
    assert found.lower is None and "coverage" not in found.scores()
    assert "for the mean" in words(found)
    streamed = sampled("gaussian", stream_predictions=20).predict()
    assert streamed.lower is not None and "coverage" in streamed.scores()


def test_the_regressor_warns_that_its_interval_is_of_the_mean():
    given = {name: SHORT[name] for name in SHORT if name != "test_fraction"}
    poisson = {"loss": "poisson", "output_activation": "exponential"}
    regressor = BayesianRegressor(hidden=(4,), members=1, **given, **poisson).fit(X, COUNTS)
    with pytest.warns(UserWarning, match="interval is for the mean, not for a new observation"):
        lower, upper = regressor.predict_interval(X)
    assert (lower <= upper).all()
    with pytest.warns(UserWarning, match="standard deviation is for the mean"):
        _, std = regressor.predict(X, return_std=True)
    np.testing.assert_allclose(std, regressor.sample_posterior(X).std(axis=0))


def test_labels_of_another_shape_have_the_runs_own_loss_as_their_score(tmp_path):
    """Censored times: the run was accepted, and predicting its own test set refused."""
    run = lifetimes()
    found = run.predict()
    assert found.mean.shape == (30, 1) and found.targets is None
    assert "The labels, of shape (n, 2), do not match the outputs, of shape (n, 1)" in words(found)
    inputs, labels = run.data.test_inputs, run.data.test_targets
    log_rates = outputs_of(run, inputs)[..., 0]
    each = np.exp(log_rates) * labels[:, 0] - labels[:, 1] * log_rates
    assert found.scores()["mean_loss"] == pytest.approx(each.mean(), rel=1e-4)
    assert {*found.scores()} == {"mean_loss"}
    again = run.predict(inputs, labels)
    assert again.scores() == found.scores()
    assert "mean loss" in report_predictions([run], tmp_path, {})
    assert "mean_loss" in pd.read_csv(tmp_path / "scores.csv")
    assert "mean loss" in page_of([run]) and summarize(run)


def test_without_the_loss_such_labels_have_no_score():
    run = lifetimes()
    opened = tati_re.load(run.folder)
    found = opened.predict(X, CENSORED)
    assert found.scores() == {} and "tati_re.load(folder, loss=loss)" in words(found)
    assert opened.predict(X).scores() == {}
    known = tati_re.load(run.folder, loss=censored).predict(X, CENSORED)
    assert known.scores()["mean_loss"] == pytest.approx(
        run.predict(X, CENSORED).scores()["mean_loss"]
    )
    streamed = sampled(
        censored,
        CENSORED,
        model=keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]),
        stream_predictions=20,
    )
    assert streamed.predict().targets is None


def test_a_loss_of_one_label_and_two_outputs_gets_them_as_the_run_did():
    """Labels were repeated for each output, so that a sum over them counted twice."""

    def laplace(labels, outputs):
        center, log_scale = outputs[:, :1], outputs[:, 1:]
        return keras.ops.sum(
            keras.ops.abs(labels - center) * keras.ops.exp(-log_scale) + log_scale, axis=-1
        )

    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(2)])
    run = sampled(laplace, model=model)
    found = run.predict(X, COUNTS)
    center, log_scale = np.moveaxis(outputs_of(run, X), -1, 0)
    each = np.abs(COUNTS - center) * np.exp(-log_scale) + log_scale
    assert found.scores() == {"mean_loss": pytest.approx(each.mean(), rel=1e-4)}


def test_labels_of_a_wrong_shape_are_still_refused_under_losses_of_keras():
    for loss in ("poisson", keras.losses.LogCosh(), "gaussian"):
        with pytest.raises(InputError, match="The targets do not match the network"):
            sampled(loss).predict(X, CENSORED)


def test_coverage_is_printed_with_its_level(tmp_path):
    run = sampled("gaussian")
    found = run.predict(interval=0.5)
    assert "coverage of 50 % intervals" in words(found)
    assert "coverage of 50 % intervals" in report_predictions([run], tmp_path, {"interval": 0.5})
    assert pd.read_csv(tmp_path / "scores.csv")["interval"].tolist() == [0.5]
    assert "coverage of 90 % intervals" in page_of([run])
    streamed = sampled("gaussian", stream_predictions=20)
    assert "coverage of 90 % intervals" in words(summarize(streamed))


@pytest.mark.parametrize("classes", [False, True])
def test_a_band_over_one_input_shows_the_training_data(classes):
    y = (COUNTS > 3).astype(int) if classes else COUNTS
    given = {"hidden": [4], **SHORT} | ({} if classes else {"num_classes": 0})
    run = tati_re.Simulation(data=(X, y), **given).sample()
    grid = np.linspace(-1.5, 1.5, 40)[:, None]
    figure = run.predict(grid).plot()
    axes = figure.axes[0]
    dots = [each for each in axes.collections if each.get_label() == "training data"]
    assert len(dots) == 1
    expected = np.stack([run.data.inputs[:, 0], run.data.targets.reshape(-1)], axis=1)
    np.testing.assert_allclose(dots[0].get_offsets(), expected, rtol=1e-6)
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 0] ** 2, "y": COUNTS})
    two = tati_re.Simulation(data=table, **({"hidden": [4], "num_classes": 0} | SHORT)).sample()
    assert two.predict().training is None
