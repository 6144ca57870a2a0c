"""Likelihoods over several places of one example, rows that go by their index, columns that go by
name, weights, and what stays when the data change: each against a closed form, or against the same
examples written otherwise.
"""

from types import SimpleNamespace

import keras
import numpy as np
import pandas as pd
import pytest
from keras import layers
from scipy.stats import norm
from scipy.stats import t as student

import tati_re.sklearn
from tati_re import InputError, Simulation, predict
from tati_re.analysis import averages
from tati_re.analysis.averages import averages_of_rows
from tati_re.analysis.reweighting import exact_rows
from tati_re.analysis.until import Quantity, diagnosis
from tati_re.cli.compare import main as compare
from tati_re.cli.predict import main as tati_predict
from tati_re.data.dataset import Dataset
from tati_re.data.loading import load_data
from tati_re.landscape.inputspace import input_space
from tati_re.models.flat import FlatModel
from tati_re.models.names import fan_in_plus_one
from tati_re.plotting.figure import new_figure
from tati_re.plotting.run import draw_traces
from tati_re.prediction.arviz import to_arviz
from tati_re.prediction.inputs import read_inputs
from tati_re.prediction.streamed import streamed_prediction
from tati_re.prediction.temperature_study import temperature_curve
from tati_re.report.parts import differences, parameters_section
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import Moments
from tati_re.runs.selection import keep, spacing
from tati_re.samplers import TactHMC

QUIET = {"seed": 1, "verbose": 0, "dtype": "float64"}


def _series(num_outputs: int = 1):
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 5, 1))
    network = keras.Sequential([keras.Input((5, 1)), layers.Dense(num_outputs, use_bias=False)])
    return network, x, 0.7 * x + 0.5 * random.normal(size=x.shape)


def test_log_densities_at_the_places_of_an_example_add_up():
    """Mean and deviation of the posterior of one weight, in closed form, within 5.5 standard errors
    of 4,000 draws that are worth 1,000; the mean over the places, likelihood^(1/5), has a deviation
    of .0946.
    """
    network, x, y = _series()
    sim = Simulation(
        network, (x, y), standardize="none", loss="gaussian", noise_std=0.5, num_walkers=4, **QUIET
    )
    how = {"sampler": "HMC", "step_size": 0.05, "num_leapfrog_steps": 5, "num_burnin_steps": 200}
    run = sim.sample(**how, num_steps=1_200, trajectory_every=1, record_every=1)
    weights = run.trajectory.query("step > 200")["dense/kernel[0,0]"]
    precision = (x**2).sum() / 0.25 + 1
    expected, deviation = (x * y).sum() / 0.25 / precision, precision**-0.5
    assert abs(weights.mean() - expected) < 5.5 * deviation / np.sqrt(1_000)
    assert abs(weights.std() / deviation - 1) < 5.5 / np.sqrt(2_000)
    flat = Simulation(
        keras.Sequential([keras.Input((1,)), layers.Dense(1, use_bias=False)]),
        (x.reshape(-1, 1), y.reshape(-1, 1)),
        standardize="none",
        loss="gaussian",
        noise_std=0.5,
        **QUIET,
    )
    flat.parameters = sim.parameters[:1]
    assert sim.potential()[0] == pytest.approx(float(flat.potential()), rel=1e-12)
    predicted = run.predict(x, y)
    last = pd.read_csv(run.folder / "run.csv").query("step == 1200")["loss"]
    assert predicted.draw_losses[-4:] == pytest.approx(last.to_numpy(), rel=1e-9)
    assert predicted.log_density.sum() == pytest.approx(run.loo().total[0], abs=3)


@pytest.mark.parametrize("loss", ["gaussian", "heteroscedastic_gaussian"])
def test_predictions_at_several_places_are_in_units_of_their_features(loss):
    """Two outputs of very different units at five times, against the loss of the run and the
    network by hand.
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 5, 1))
    y = np.concatenate([1000 + 300 * x, 0.01 * x], -1) + random.normal(size=(60, 5, 2)) * [
        30,
        0.001,
    ]
    network = keras.Sequential([keras.Input((5, 1)), layers.Dense(2 if loss == "gaussian" else 4)])
    sim = Simulation(network, (x, y), standardize="all", loss=loss, **QUIET)
    run = sim.sample(
        sampler="HMC", step_size=0.01, num_steps=40, num_burnin_steps=20, trajectory_every=40
    )
    found = run.predict(x, y)
    assert found.draw_losses[-1] == pytest.approx(float(sim.loss()), rel=1e-9)
    last = sim.predict(x)
    parts = np.split(last, 2, axis=-1) if loss == "heteroscedastic_gaussian" else (last, None)
    np.testing.assert_allclose(found.mean[:, -2:], parts[0][:, -1], rtol=1e-9)
    if parts[1] is not None:
        np.testing.assert_allclose(found.noise_std.reshape(y.shape), np.exp(parts[1]), rtol=1e-9)
    away = np.sqrt(((found.mean.reshape(y.shape) - y) ** 2).mean((0, 1)))
    assert away[0] < 1000 and away[1] < 1
    noise = (
        found.noise_std.reshape(-1, 5, 2)
        if found.noise_std.ndim > 1
        else found.noise_std.reshape(1, 5, 2)
    )
    by_hand = norm.logpdf(y, found.mean.reshape(y.shape), noise).sum((1, 2))
    np.testing.assert_allclose(found.log_density, by_hand, rtol=1e-8)


def test_labels_at_several_places_are_labels():
    network, x, y = _series()
    sim = Simulation(network, (x, (y > 0).astype(float)), loss="binary_crossentropy", **QUIET)
    run = sim.sample(
        sampler="HMC", step_size=0.05, num_steps=150, num_burnin_steps=50, trajectory_every=1
    )
    found = run.predict(x, (y > 0).astype(float))
    f, right = sim.parameters.reshape(-1)[0] * x, y > 0
    by_hand = np.logaddexp(0, np.where(right, -f, f)).sum() / len(x)
    assert found.kind == "multi_label" and found.draw_losses[-1] == pytest.approx(by_hand) == float(
        sim.loss()
    )
    assert 0.6 < found.scores()["label_accuracy"] <= 1


def test_classes_at_several_places_are_shares_of_each_place():
    network, x, _ = _series(2)
    right = np.eye(2)[(x[..., 0] > 0).astype(int)]
    sim = Simulation(network, (x, right), loss="categorical_crossentropy", **QUIET)
    run = sim.sample(
        sampler="HMC", step_size=0.01, num_steps=20, num_burnin_steps=10, trajectory_every=20
    )
    found = run.predict(x, right)
    np.testing.assert_allclose(
        found.mean.reshape(30, 5, 2), sim.predict_probabilities(x), rtol=1e-9
    )
    assert found.draw_losses[-1] == pytest.approx(float(sim.loss()), rel=1e-9)
    with pytest.raises(InputError, match="Sequences of classes are not draws"):
        run.loo()


@pytest.mark.parametrize(
    ("places", "classes", "named"),
    [
        pytest.param(5, 3, True, marks=pytest.mark.slow),
        (3, 3, False),
        pytest.param(4, 2, True, marks=pytest.mark.slow),
    ],
)
def test_class_numbers_at_several_places(tmp_path, places, classes, named):
    """Of softmax regressions at each place, against the network by hand; also where there are as
    many places as classes, and of labels of 0 and 1.
    """
    random = np.random.default_rng(places)
    x = random.normal(size=(40, places, 2))
    y = (x[..., 0] > 0).astype(int) + (classes > 2) * (x[..., 1] > 1)
    network = keras.Sequential([keras.Input((places, 2)), layers.Dense(classes)])
    loss = {"loss": "sparse_categorical_crossentropy"} if named else {}
    test = {"test_data": (x[:9], y[:9])}
    sim = Simulation(network, (x, y), **loss, **test, **QUIET)
    assert (sim.dataset.task, sim.dataset.num_classes) == ("classification", classes)
    how = {"num_steps": 60, "num_burnin_steps": 20, "trajectory_every": 1, "stream_predictions": 1}
    run = sim.sample(sampler="HMC", step_size=0.1, output=str(tmp_path / "run"), **how)

    outputs = sim.predict(x)
    logs = outputs - np.log(np.exp(outputs).sum(-1, keepdims=True))
    lost = -np.take_along_axis(logs, y[..., None], -1)[..., 0].sum(1)
    assert lost.mean() == pytest.approx(float(sim.loss()), rel=1e-12)
    found = run.predict(x, y, thin=1)
    assert found.draw_losses[-1] == pytest.approx(lost.mean(), rel=1e-9)
    assert found.draw_accuracy[-1] == pytest.approx((outputs.argmax(-1) == y).mean(), abs=1e-12)
    own = np.take_along_axis(found.probabilities.reshape(40, places, classes), y[..., None], -1)
    assert found.scores()["negative_log_likelihood"] == pytest.approx(-np.log(own).mean(), rel=1e-9)
    assert found.frame()[["input", "place"]].to_numpy()[[0, 1, places]].tolist() == [
        [0, 0],
        [0, 1],
        [1, 0],
    ]
    assert found.frame()["label"].tolist() == y.ravel().tolist()
    one_hot = run.predict(x, np.eye(classes)[y], thin=1)
    assert one_hot.scores() == found.scores()

    kept, again = streamed_prediction(run), run.predict(thin=1)
    assert kept.scores() == pytest.approx(again.scores(), rel=1e-9)
    assert kept.frame()[["input", "place"]].equals(again.frame()[["input", "place"]])
    loo = run.loo()
    draws = -np.log(np.mean(np.exp(_losses_of(run, network, x, y)), axis=0))
    np.testing.assert_allclose(loo.elpd, draws, atol=0.15)
    tree = to_arviz(run)
    assert (
        tree["posterior_predictive"]["y"].shape[2:]
        == tree["observed_data"]["y"].shape
        == (40, places)
    )
    assert tati_re.load(run.folder, data=(x, y), **test).predict(thin=1).scores() == again.scores()
    for wrong in (y[:, :-1], np.full_like(y, classes)):
        with pytest.raises(InputError, match=r"abels do not match"):
            run.predict(x, wrong)


def _losses_of(run, network, x, y):
    """The loss of each example for each draw after the burn-in, `(draws, n)`, by Keras."""
    found = []
    for vector in (
        run.trajectory[run.trajectory["step"] > 20].iloc[:, -network.count_params() :].to_numpy()
    ):
        parts = np.split(vector, [network.weights[0].numpy().size])
        outputs = x @ parts[0].reshape(network.weights[0].shape) + parts[1]
        logs = outputs - np.log(np.exp(outputs).sum(-1, keepdims=True))
        found.append(-np.take_along_axis(logs, y[..., None], -1)[..., 0].sum(1))
    return np.array(found)


def test_class_numbers_at_places_that_do_not_fit():
    x, y = np.zeros((6, 4, 2)), np.arange(24).reshape(6, 4) % 3
    network = keras.Sequential([keras.Input((4, 2)), layers.Dense(3)])
    sparse = {"loss": "sparse_categorical_crossentropy", **QUIET}
    for labels, sentence in (
        (
            y + 1,
            r"not one of the classes\. Received: targets\[0, 2\] = 3\. Expected: integers from 0 to 2\.",
        ),
        (y / 2, r"not integers\. Received: targets\[0, 1\] = 0\.5\."),
        (y[:, :3], r"outputs of shape \(4, 3\) for labels of shape \(3, 3\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            Simulation(network, (x, labels), **sparse).sample(num_steps=1, step_size=0.1)
    labels = np.eye(4, dtype=int)[y[:, 0]] + np.eye(4, dtype=int)[3]
    for loss in ("binary_crossentropy", "gaussian"):
        with pytest.raises(
            InputError, match="loss: class numbers at several positions work with one loss only"
        ):
            four = keras.Sequential([keras.Input((4, 2)), layers.Flatten(), layers.Dense(4)])
            Simulation(four, (x, labels), num_classes=3, **{**sparse, "loss": loss}).sample(
                num_steps=1, step_size=0.1
            )
    plane = keras.Sequential([keras.Input((2,)), layers.Dense(12), layers.Reshape((4, 3))])
    run = Simulation(plane, (x[:, 0] + np.arange(12).reshape(6, 2), y), **sparse).sample(
        num_steps=9, step_size=0.01
    )
    with pytest.raises(
        InputError, match=r"Sequences of classes cannot be drawn over the inputs. Received: 4"
    ):
        input_space(run)
    not_built = keras.Sequential([layers.Dense(3)])
    assert Simulation(not_built, (x[:, 0], y[:, 0]), **sparse).dataset.num_classes == 3
    with pytest.raises(InputError, match="for several positions, with num_classes"):
        Simulation(keras.Sequential([layers.Dense(3)]), (x, y), **sparse).sample(
            num_steps=1, step_size=0.1
        )
    with pytest.raises(
        InputError, match="class_weights cannot weight examples with several classes"
    ):
        Simulation(network, (x, y), class_weights=[1, 1, 2], **sparse)


@pytest.mark.parametrize("single", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_rows_of_0_and_1_are_of_the_places_that_the_outputs_have(tmp_path, single):
    """Also where each row has a single 1, and from the folder again; as the loss of each place says
    it.
    """
    random = np.random.default_rng(2)
    x, y = random.normal(size=(20, 5, 2)), np.eye(5, dtype=int)[random.integers(0, 5, 20)]
    y = y if single else 1 - y
    network = keras.Sequential([keras.Input((5, 2)), layers.Dense(2)])
    sim = Simulation(network, (x, y), **QUIET)
    assert (sim.dataset.task, sim.dataset.num_classes) == ("classification", 2)
    logs = np.log(keras.ops.softmax(sim.predict(x)))
    assert float(sim.loss()) == pytest.approx(
        -np.take_along_axis(logs, y[..., None], -1).sum() / 20, rel=1e-6
    )
    run = sim.sample(step_size=0.01, num_steps=60, trajectory_every=1, output=str(tmp_path / "run"))
    again = tati_re.load(run.folder, data=(x, y))
    assert again.predict(x, y).scores() == run.predict(x, y).scores()
    assert again.loo().elpd.tolist() == run.loo().elpd.tolist()
    Simulation.resume(str(run.folder), 62, data=(x, y), verbose=0)


@pytest.mark.parametrize("k", [0, -1])
def test_a_loss_that_ignores_a_class_is_refused_and_one_that_leaves_places_out_is_not(k):
    """The labels k are refused after the loss. By a function the loss is that of the other
    places.
    """
    x = np.random.default_rng(3).normal(size=(6, 4, 2))
    y = np.where(x[..., 0] > 0.5, k, 1 + (x[..., 1] > 0))
    network = keras.Sequential([keras.Input((4, 2)), layers.Dense(3)])
    ignoring = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=k)
    with pytest.raises(
        InputError,
        match=rf"^loss: ignore_class is not supported\. Received: {k}\. Expected: sample_weights",
    ):
        Simulation(network, (x, y), loss=ignoring, **QUIET)
    with pytest.raises(InputError, match="ignore_class is not supported"):
        Simulation(network, (x, y % 3), **QUIET).sample(loss=ignoring, num_steps=1, step_size=0.1)

    def left_out(labels, outputs):
        numbers = keras.ops.cast(labels, "int32")
        each = keras.ops.sparse_categorical_crossentropy(
            keras.ops.maximum(numbers, 0), outputs, from_logits=True
        )
        return keras.ops.sum(keras.ops.where(numbers == k, 0.0, each), axis=-1)

    sim = Simulation(network, (x, y), loss=left_out, num_classes=0, standardize="none", **QUIET)
    logs = np.log(keras.ops.softmax(sim.predict(x)))
    lost = -np.take_along_axis(logs, np.maximum(y, 0)[..., None], -1)[..., 0]
    assert float(sim.loss()) == pytest.approx(lost[y != k].sum() / 6, rel=1e-6)


def test_what_a_data_set_and_a_model_say_of_their_labels():
    """One-hot rows of any type are one-hot; a model whose output has no axis is refused in a
    sentence.
    """
    rows = np.eye(3)[[0, 1, 2, 0]]
    for kind in (np.int32, np.int64, np.float32):
        assert Dataset(np.zeros((4, 1)), rows.astype(kind), num_classes=3).task == "one_hot"
    inputs = keras.Input((3,))
    flat = keras.Model(inputs, layers.Dense(1)(inputs)[:, 0])
    with pytest.raises(InputError, match="needs one output per class"):
        Simulation(flat, (np.ones((4, 3)), [0, 1, 0, 1]), **QUIET).sample(
            num_steps=1, step_size=0.1
        )


def test_a_class_that_does_not_occur_is_predicted():
    """Of a network with five outputs and labels of three classes the fourth is the most probable
    one far outside.
    """
    x = np.array([[0.0], [0.1], [0.2]])
    network = keras.Sequential([keras.Input((1,)), layers.Dense(5)])
    sim = Simulation(network, (x, [0, 1, 2]), **QUIET)
    run = sim.sample(
        sampler="HMC", step_size=0.01, num_steps=4, num_burnin_steps=0, trajectory_every=1
    )
    weights = np.zeros(10)
    weights[3] = 1.0
    found = run.predict([[50.0], [60.0]], [3, 4], parameters=weights)
    assert found.predicted.tolist() == [3, 3] and found.frame()["label"].tolist() == [3, 4]
    assert found.scores()["accuracy"] == 0.5
    with pytest.raises(InputError, match=r"does not match 3 classes\. Received: 5 outputs"):
        tati_re.sklearn.BayesianClassifier(network, num_steps=4).fit(x, [0, 1, 2])


def test_other_losses_say_that_they_are_means_and_a_scaled_loss_is_refused(capsys):
    random = np.random.default_rng(0)
    network = keras.Sequential([keras.Input((1,)), layers.Dense(4, activation="exponential")])
    sim = Simulation(
        network, (random.normal(size=(30, 1)), random.poisson(2.0, (30, 4))), loss="poisson", seed=1
    )
    sim.sample(sampler="BAOAB", step_size=0.01, num_steps=5)
    assert "sampled unchanged. It is a mean over 4 numbers per example, not their sum." in " ".join(
        capsys.readouterr().out.split()
    )
    with pytest.raises(InputError, match=r"Received: loss_scale_factor=16\.0"):
        sim.fit(optimizer=keras.optimizers.SGD(0.1, loss_scale_factor=16.0), num_steps=2)


@pytest.mark.parametrize(
    "network, expected",
    [
        ([keras.Input((4, 10)), layers.GRU(8)], {19}),
        ([keras.Input((4, 10)), layers.LSTM(3)], {14}),
        ([keras.Input((8, 8, 3)), layers.DepthwiseConv2D(2)], {5}),
        ([keras.Input((8, 8, 3)), layers.Conv2DTranspose(4, 3)], {28}),
        ([keras.Input((8, 8, 2)), layers.SeparableConv2D(5, 3)], {10, 3}),
        ([keras.Input((8, 8, 2)), layers.Conv2D(5, 3)], {19}),
        ([keras.Input((4,)), layers.Embedding(50, 3)], {2}),
    ],
)
def test_fan_in_is_what_a_unit_sums_over(network, expected):
    flat = FlatModel(keras.Sequential(network))
    assert {*fan_in_plus_one(flat.tensor_names, flat.shapes)} == expected


def test_fan_in_of_attention_is_that_of_its_products():
    inputs = keras.Input((4, 32))
    flat = FlatModel(keras.Model(inputs, layers.MultiHeadAttention(2, 5)(inputs, inputs)))
    found = fan_in_plus_one(flat.tensor_names, flat.shapes)
    names = [
        name
        for name, shape in zip(flat.tensor_names, flat.shapes, strict=True)
        for _ in range(np.prod(shape))
    ]
    assert {(name.split("/")[1], k) for name, k in zip(names, found, strict=True)} == {
        ("query", 33),
        ("key", 33),
        ("value", 33),
        ("attention_output", 11),
    }
    fixed = FlatModel(flat.model, ["multi_head_attention/key/bias"])
    kept = [name != "multi_head_attention/key/bias" for name in names]
    assert fan_in_plus_one(fixed.tensor_names, fixed.shapes).tolist() == found[kept].tolist()


def _frames():
    random = np.random.default_rng(0)
    x = pd.DataFrame(random.normal(size=(40, 2)), columns=["a", "b"])
    return x, pd.DataFrame({"y1": x.a, "y2": -x.b}), pd.Series(np.where(x.a > 0, 10.0, 0.1))


def test_rows_in_another_order_are_refused():
    x, y, weights = _frames()
    mixed = {"frac": 1, "random_state": 1}
    said = "have the same index as the inputs, but in another order"
    with pytest.raises(InputError, match=f"the weights {said}"):
        Simulation(data=(x, y.y1, weights.sample(**mixed)), **QUIET)
    with pytest.raises(InputError, match=f"sample_weights {said}"):
        Simulation(data=(x, y.y1), sample_weights=weights.sample(**mixed), **QUIET)
    run = Simulation(data=(x, y), hidden=[], **QUIET).sample(
        sampler="BAOAB", step_size=0.01, num_steps=200
    )
    with pytest.raises(InputError, match=f"labels {said}"):
        run.predict(x, y.sample(**mixed))
    right = run.predict(x, y).scores()
    assert run.predict(x, y[["y2", "y1"]]).scores() == right and right["rmse"] < 1
    with pytest.raises(InputError, match="no column 'y2'"):
        run.predict(x, y.rename(columns={"y2": "z"}))


@pytest.mark.parametrize("label", ["y", "kind"])
def test_a_frame_brings_its_labels_to_predictions(label):
    frame = _frames()[0]
    frame = frame.assign(y=frame.a + 1.0, kind=np.where(frame.a > 0, "cat", "dog"))
    sim = Simulation(data=frame[["a", "b", label]], label_columns=[label], hidden=[], **QUIET)
    run = sim.sample(sampler="BAOAB", step_size=0.01, num_steps=100)
    scores = run.predict(frame[["b", label, "a"]]).scores()
    assert scores and scores == run.predict(frame[["a", "b"]], frame[label]).scores()
    assert run.predict(frame[["a", "b"]]).scores() == {}
    unknown = frame.assign(**{label: [None, *frame[label][1:]]})
    with pytest.warns(UserWarning, match=r"^The labels of 1 of 40 rows are missing"):
        assert run.predict(unknown).scores() == {}


def test_arrays_have_no_keys():
    x = np.random.default_rng(0).normal(size=(20, 2))
    with pytest.raises(
        InputError, match="data_keys applies only to NPZ and TFRecord files; arrays"
    ):
        Simulation(data=(x, x[:, 0]), data_keys=["x", "y"], **QUIET)


def test_label_columns_of_a_test_part_go_by_name():
    x, y, _ = _frames()
    sim = Simulation(data=((x, y), (x, y[["y2", "y1"]])), **QUIET)
    np.testing.assert_array_equal(sim.dataset.targets, sim.dataset.test_targets)


@pytest.mark.parametrize("standardize", ["auto", "inputs", "all"])
def test_a_weight_of_two_is_an_example_that_is_there_twice(standardize):
    random = np.random.default_rng(0)
    x, weights = 30 * random.normal(size=(40, 2)) + 100, random.integers(1, 9, 40).astype(float)
    weights[x[:, 0] > 100] = 1
    y, twice = 500 + 3 * x[:, 0], np.repeat(np.arange(40), weights.astype(int))
    one = Simulation(data=(x, y, weights), standardize=standardize, hidden=[3], **QUIET)
    other = Simulation(data=(x[twice], y[twice]), standardize=standardize, hidden=[3], **QUIET)
    one.parameters = other.parameters = 0.3 * random.normal(size=one.parameters.shape)
    assert float(one.potential()) == pytest.approx(float(other.potential()), rel=1e-9)


def test_other_data_leave_what_inputs_and_outputs_mean():
    random = np.random.default_rng(0)
    x = 20 * random.normal(size=(100, 1)) + 100
    y = 300 + 3 * x[:, 0]
    sim = Simulation(data=(x, y), hidden=[], **QUIET)
    sim.fit(num_steps=300, learning_rate=0.1)
    before, part = sim.predict([[100.0]]), x[:, 0] < 90
    sim.dataset = x[part], y[part]
    assert sim.predict([[100.0]]) == before
    assert sim.dataset.num_examples == part.sum()


@pytest.mark.parametrize("loss", ["student_t", "gamma", "poisson_count"])
def test_other_data_leave_the_units_of_a_likelihood(tmp_path, loss):
    """Constants of the likelihood were fitted again, so that chains became other functions: on half
    of the rows the loss went from 3.8 to 9.2.
    """
    random = np.random.default_rng(0)
    x = random.normal(size=(60, 1))
    y = np.round(300 + 50 * x[:, 0] + 10 * random.normal(size=60))
    part = x[:, 0] < 0
    given = {"loss": loss, "hidden": [], "num_classes": 0, **QUIET}
    sim = Simulation(data=(x, y), **given)
    first = sim.sample(sampler="HMC", step_size=0.01, num_steps=5, output=tmp_path / "first")
    units = first.manifest.loss.table["likelihood"]
    before = sim.potential()

    taken = Simulation(data=(x[part], y[part]), parameters=str(first.folder), **given)
    sim.dataset = x[part], y[part]
    assert taken.potential() == sim.potential()
    run = sim.sample(sampler="HMC", step_size=0.01, num_steps=5, output=tmp_path / "second")
    assert run.manifest.loss.table["likelihood"] == units
    means = [each.predict(x, parameters=taken.parameters).mean for each in (first, run)]
    np.testing.assert_array_equal(*means)
    resumed = Simulation.resume(run, num_steps=8)
    assert resumed.manifest.loss.table["likelihood"] == units

    sim.parameters = taken.parameters
    sim.dataset = x, y
    assert sim.potential() == before


def test_weights_of_other_examples_do_not_stay():
    """They stayed among the objects of a run, which could then not be resumed."""
    x = np.random.default_rng(0).normal(size=(20, 2))
    sim = Simulation(
        data=(x, x[:, 0]), sample_weights=np.linspace(0.5, 1.5, 20), hidden=[], **QUIET
    )
    sim.dataset = x[:10], x[:10, 0]
    run = sim.sample(sampler="HMC", step_size=0.01, num_steps=4, record_every=1)
    assert run.manifest["objects"] == ["data"]
    assert Simulation.resume(run, num_steps=8).run_info["step"].max() == 8


def test_a_run_on_other_data_is_the_same_function_where_it_is_taken_up(tmp_path):
    random = np.random.default_rng(0)
    for name, scale, count in (("first", 50, 120), ("second", 80, 60)):
        x = 1000 + scale * random.normal(size=(count, 2))
        np.savez(
            tmp_path / f"{name}.npz", x=x, y=300 + x @ [1.0, -2.0] + 20 * random.normal(size=count)
        )
    sim = Simulation(data=str(tmp_path / "first.npz"), hidden=[], **QUIET)
    sim.fit(num_steps=300, learning_rate=0.05)
    sim.dataset = str(tmp_path / "second.npz")
    run = sim.sample(
        sampler="HMC", step_size=0.002, num_steps=20, trajectory_every=1, output=tmp_path / "run"
    )
    taken = [
        Simulation.from_folder(run.folder, parameters=str(run.folder), verbose=0),
        Simulation(
            data=str(tmp_path / "second.npz"), hidden=[], parameters=str(run.folder), **QUIET
        ),
    ]
    for again in taken:
        np.testing.assert_array_equal(again.parameters, sim.parameters)
        np.testing.assert_array_equal(again.predict(x), sim.predict(x))
    assert taken[0].loss() == sim.loss()


def test_features_of_series_have_units_of_their_own_and_pixels_one():
    random = np.random.default_rng(0)
    series = np.stack(
        [300 + 10 * random.normal(size=(50, 6)), 1e5 + 1e3 * random.normal(size=(50, 6))], -1
    )
    network = keras.Sequential([keras.Input((6, 2)), layers.LSTM(3), layers.Dense(1)])
    how = {"standardize": "inputs", "noise_std": 1.0, **QUIET}
    seen = Simulation(network, (series, random.normal(size=50)), **how).dataset.prepared().inputs
    np.testing.assert_allclose(seen.mean((0, 1)), 0, atol=1e-9)
    np.testing.assert_allclose(seen.std((0, 1)), 1)
    images = random.random((50, 8, 8)) * (random.random((50, 8, 8)) < np.linspace(0, 0.9, 8))
    network = keras.Sequential([keras.Input((8, 8)), layers.Flatten(), layers.Dense(1)])
    seen = Simulation(network, (images, random.normal(size=50)), **how).dataset.prepared().inputs
    np.testing.assert_allclose(seen, (images - images.mean()) / images.std())


def test_students_t_beside_a_soft_wall_has_its_law():
    """Draws of the prior against its density on a grid, for degrees whose quantiles SciPy takes for
    infinite.
    """
    walls = {"prior": "student_t", "prior_factor": 3.0, "prior_lower_boundary": 0.5}
    for degrees in (2.5, 3.0, 10.0):
        sim = Simulation(
            potential=lambda x: 0.0 * x[:, 0], dimension=1, prior_degrees=degrees, **walls, **QUIET
        )
        grid = np.linspace(-4, 4, 9)[:, None]
        energies = np.array([_potential_at(sim, x) for x in grid])
        inside = grid[:, 0] >= 0.5
        expected = -student.logpdf(grid[inside, 0], degrees)
        assert np.ptp(energies[inside] - expected) < 1e-9 and (np.diff(energies[~inside]) < 0).all()


def _potential_at(sim, x):
    sim.parameters = x
    return float(sim.potential())


def test_leaving_out_takes_draws_that_all_repeat():
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 2))
    sim = Simulation(data=(x, x[:, 0] + 0.1 * random.normal(size=30)), noise_std=0.1, **QUIET)
    run = sim.sample(
        sampler="RWMH", step_size=0.3, num_steps=60, trajectory_every=1, num_burnin_steps=10
    )
    found = run.loo()
    assert np.isfinite(found.elpd).all() and np.isinf(found.pareto_k).any()


def test_elpd_of_other_columns_of_the_same_labels_is_compared(tmp_path, capsys):
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(40, 2)), columns=["a", "b"]).assign(
        y=lambda t: t.a + 2 * t.b
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    table.assign(y=table.y + 1).to_csv(tmp_path / "other.csv", index=False)
    for name, data, columns in (
        ("one", "t", ["a"]),
        ("both", "t", ["a", "b"]),
        ("other", "other", ["a"]),
    ):
        how = {
            "input_columns": columns,
            "hidden": [],
            "test_fraction": 0,
            "output": str(tmp_path / name),
            **QUIET,
        }
        sim = Simulation(data=str(tmp_path / f"{data}.csv"), **how)
        sim.sample(
            sampler="HMC", step_size=0.02, num_steps=200, trajectory_every=1, num_burnin_steps=50
        )
    assert compare(["--elpd", str(tmp_path / "one"), str(tmp_path / "both")]) == 0
    assert "elpd" in capsys.readouterr().out
    assert compare(["--elpd", str(tmp_path / "one"), str(tmp_path / "other")]) == 2
    assert "different data" in capsys.readouterr().err


def test_a_mean_loss_is_no_posterior_and_a_run_without_rows_says_so():
    x = np.random.default_rng(0).normal(size=(30, 2))
    sim = Simulation(data=(x, x[:, 0]), potential="mean_loss", prior="none", **QUIET)
    run = sim.sample(sampler="BAOAB", step_size=0.01, num_steps=100, trajectory_every=10)
    with pytest.raises(InputError, match=r"The run sampled exp\(-mean loss\), not a posterior"):
        run.loo()
    short = Simulation(data=(x, x[:, 0]), **QUIET).sample(
        sampler="BAOAB", step_size=0.01, num_steps=3
    )
    with pytest.raises(InputError, match="No row was recorded"):
        averages(short)


def test_draws_with_weights_are_no_group_of_arviz():
    pytest.importorskip("xarray")
    random = np.random.default_rng(0)
    sim = Simulation(
        data=(random.normal(size=(30, 1)), random.normal(size=30)), noise_std=1.0, **QUIET
    )
    method = TactHMC(friction=2.0, max_temperature=10.0, tempering_steps=5)
    run = sim.sample(
        sampler=method, step_size=0.05, num_steps=200, trajectory_every=2, record_every=2
    )
    tree = to_arviz(run)
    assert [*tree.children] == ["sample_stats"]
    assert "weights" in tree["sample_stats"].attrs["left_out"]


@pytest.mark.parametrize(
    "given", [{"noise_std": 0.5}, {"loss": "mean_squared_error"}, {"loss": "binary_crossentropy"}]
)
def test_weights_of_examples_at_several_places(given):
    network, x, y = _series()
    labels = (y > 0).astype(float) if given.get("loss") == "binary_crossentropy" else y
    weights = np.arange(1, 31) % 3 + 1
    twice = np.repeat(np.arange(30), weights)
    one = Simulation(network, (x, labels, weights.astype(float)), **given, **QUIET)
    other = Simulation(network, (x[twice], labels[twice]), **given, **QUIET)
    assert float(one.potential()) == pytest.approx(float(other.potential()), rel=1e-12)


def test_runs_find_their_columns_by_name(tmp_path, capsys):
    """Two runs on the same columns in another order average as they predict alone, in either order,
    by the command too; runs of other columns take their own, and several targets in another order
    are refused.
    """
    random = np.random.default_rng(0)
    frame = pd.DataFrame(random.normal(size=(60, 3)), columns=["a", "b", "c"])
    frame = frame.assign(y=frame.a - 2 * frame.b + 2 * frame.c, u=frame.a)

    def sampled(name, columns, labels=("y",)):
        how = {
            "label_columns": [*labels],
            "hidden": [],
            "test_fraction": 0.2,
            "shuffle": False,
            "noise_std": 0.3,
        }
        sim = Simulation(
            data=frame[[*columns, *labels]], output=str(tmp_path / name), **how, **QUIET
        )
        if name in ("one", "other"):
            sim.fit(num_steps=200, learning_rate=0.1, output=str(tmp_path / f"fit-{name}"))
        return sim.sample(sampler="BAOAB", step_size=0.002, num_steps=100, trajectory_every=10)

    one, other, apart = sampled("one", "ab"), sampled("other", "ba"), sampled("apart", "ac")
    for runs, inputs in ((one, other), None), ((other, one), frame), ((one, apart), frame):
        alone = [run.predict(frame if inputs is not None else frame.iloc[48:]).mean for run in runs]
        np.testing.assert_allclose(predict([*runs], inputs).mean, np.mean(alone, axis=0), rtol=1e-9)
    frame[["a", "b", "y"]].to_csv(tmp_path / "q.csv", index=False)
    scores = []
    for beside in ("one", "other"):
        words = [
            str(tmp_path / "one"),
            "--data",
            str(tmp_path / "q.csv"),
            "--optimum",
            str(tmp_path / f"fit-{beside}"),
        ]
        assert tati_predict([*words, "--output", str(tmp_path / f"predicted-{beside}")]) == 0
        table = pd.read_csv(tmp_path / f"predicted-{beside}" / "scores.csv", index_col=0)
        scores.append(table.loc["optimum", "rmse"])
    assert scores[1] == pytest.approx(scores[0], rel=0.05)
    with pytest.raises(
        InputError, match=r"The runs predict different quantities. Received: y, u and u, y"
    ):
        predict([sampled("two", "ab", ("y", "u")), sampled("turned", "ab", ("u", "y"))], frame)


@pytest.mark.parametrize("masked", [True, False])
def test_masked_places_of_outputs_are_refused(masked):
    """Keras leaves them out of its loss. Where the mask ends in one vector all is well."""
    inner = [
        keras.Input((5,)),
        layers.Embedding(7, 2, mask_zero=True),
        layers.GRU(3, return_sequences=masked),
    ]
    network = keras.Sequential([*inner, layers.Dense(1)])
    x = np.random.default_rng(0).integers(0, 7, (20, 5))
    data = x, np.zeros((20, 5, 1) if masked else 20)
    if masked:
        with pytest.raises(InputError, match="The model masks positions of its outputs"):
            Simulation(network, data, noise_std=1.0, **QUIET)
    else:
        assert np.isfinite(float(Simulation(network, data, noise_std=1.0, **QUIET).potential()))


def _line(seed: int = 0, count: int = 60):
    random = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": random.normal(size=count), "b": random.normal(size=count)})
    return frame, 2 * frame.a + 0.3 * random.normal(size=count)


def _sampled(data, outputs: int = 1, how=(), **options):
    network = keras.Sequential([keras.Input((2,)), layers.Dense(outputs)])
    sim = Simulation(network, data, **{**QUIET, "num_walkers": 2, "standardize": "none", **options})
    steps = {
        "sampler": "BAOAB",
        "step_size": 0.05,
        "num_steps": 60,
        "num_burnin_steps": 20,
        "trajectory_every": 1,
    }
    steps["record_every"] = 1
    return sim.sample(**steps | dict(how))


def test_a_test_part_goes_by_the_names_of_inputs_and_labels():
    random = np.random.default_rng(0)
    parts = {"a": np.arange(8.0)[:, None], "b": 100 + np.arange(8.0)[:, None]}
    other = {"b": parts["b"], "a": parts["a"]}
    read = load_data((parts, parts["a"][:, 0] / 2), test_data=(other, parts["a"][:, 0] / 2))
    np.testing.assert_array_equal(read.inputs, read.test_inputs)
    with pytest.raises(InputError, match=r"^test_data: the model has no input 'c'"):
        load_data(
            (parts, parts["a"][:, 0] / 2),
            test_data=({"c": parts["b"], "a": parts["a"]}, parts["a"][:, 0] / 2),
        )
    x = pd.DataFrame({"u": random.normal(size=8), "v": random.normal(size=8)})
    y = pd.DataFrame({"p": random.normal(size=8), "q": random.normal(size=8)})
    read = load_data(load_data((x, y)), test_data=(x[["v", "u"]], y[["q", "p"]]))
    np.testing.assert_array_equal(read.targets, read.test_targets)
    np.testing.assert_array_equal(read.inputs, read.test_inputs)


def test_labels_in_any_form_have_the_loss_of_their_class():
    frame, values = _line()
    numbers = (values > 0).to_numpy().astype(int)
    forms = {"numbers": numbers, "signs": 2 * numbers - 1, "one-hot": np.eye(2)[numbers]}
    runs = {
        ("numbers", 2): {},
        ("numbers", 1): {"loss": "binary_crossentropy"},
        ("signs", 1): {},
        ("one-hot", 2): {},
    }
    for (form, outputs), options in runs.items():
        run = _sampled((frame.to_numpy(), forms[form]), outputs, **options)
        losses = [run.predict(frame.to_numpy(), each).draw_losses for each in forms.values()]
        own = losses[list(forms).index(form)]
        rows = run.run_info.query("step > 20")
        assert own.mean() == pytest.approx(rows.loss.mean(), rel=1e-6)
        for other in losses:
            np.testing.assert_array_equal(other, own)


@pytest.mark.slow
def test_several_runs_keep_their_chains_and_the_worth_of_each():
    """The error of a pooled mean is that of its worst part by its share: 2,000 draws of a run that
    hardly moves count little. Draws of one walker number in two runs are two chains.
    """
    frame, values = _line()
    fast, slow = (
        _sampled(
            (frame, values), seed=seed, how={"step_size": step, "num_steps": 620}, noise_std=0.3
        )
        for seed, step in ((1, 0.03), (2, 0.001))
    )
    one, other, both = (predict(runs, frame, values) for runs in (fast, slow, [fast, slow]))
    sizes, worth = (
        np.array([getattr(each, name) for each in (one, other)])
        for name in ("num_draws", "independent_draws")
    )
    assert worth[0] > 5 * worth[1]
    assert both.independent_draws == pytest.approx(sizes.sum() ** 2 / (sizes**2 / worth).sum())
    assert np.unique(both.walker).tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="predict different quantities"):
        predict(
            [_sampled((frame, values.to_frame(name))) for name in ("price", "size")], frame, values
        )


def test_a_study_of_temperatures_goes_by_names_and_by_one_loss():
    """Losses of inputs in another order, several inputs by name, and the mean squared error of the
    average, which by convexity is at most that of the draws; chosen draws are those of `burnin` and
    `thin`.
    """
    frame, values = _line()
    runs = [
        _sampled((frame, values), how={"temperature": t}, loss="mean_squared_error")
        for t in (1.0, 2.0)
    ]
    curve = temperature_curve(runs, frame, values)
    pd.testing.assert_frame_equal(curve, temperature_curve(runs, frame[["b", "a"]], values))
    assert (curve.average_loss <= curve.test_loss).all() and (
        curve.average_loss > 0.5 * curve.test_loss
    ).all()
    few = temperature_curve(runs, frame, values, burnin=40, thin=2)
    assert few.draws.tolist() == [20, 20] and curve.draws.tolist() == [80, 80]
    signs = [
        _sampled((frame, np.sign(values)), how={"temperature": t}, loss="mean_squared_error")
        for t in (1.0, 2.0)
    ]
    assert temperature_curve(signs, frame, np.sign(values)).average_loss.isna().all()


def test_a_built_in_set_is_parted_as_the_run_parted_it():
    given = {"seed": 3, "test_fraction": 0.05, "shuffle": False}
    run = SimpleNamespace(manifest=Manifest.of({"options": {**given, "data": "digits"}}))
    np.testing.assert_array_equal(
        read_inputs("digits", run)[0], load_data("digits", **given).test_inputs
    )


def test_walkers_that_were_never_at_the_target_have_no_average():
    random = np.random.default_rng(0)
    there = [
        (step, walker, walker == 0 and step % 3 == 0) for step in range(1, 241) for walker in (0, 1)
    ]
    rows = pd.DataFrame(
        [
            {
                "step": s,
                "walker": w,
                "rung": int(not here),
                "weight": float(here),
                "temperature": 1.0 if here else 9.0,
            }
            for s, w, here in there
        ]
    )
    rows["potential"] = np.where(rows.rung == 0, 5.0, 500.0) + random.normal(size=len(rows))
    found = averages_of_rows(rows, ["potential"], "walker").set_index("walker")
    assert found["mean"][0] == pytest.approx(5.0, abs=0.6) and np.isnan(found["mean"][1])
    assert found["note"][1] == "no row has a weight" and found["rows"][1] == 0
    assert averages_of_rows(rows, ["potential"], "rung").set_index("rung")["mean"][
        1
    ] == pytest.approx(500.0, abs=0.6)
    moments = Moments(np.zeros((2, 3)), np.zeros((2, 3)), np.array([5.0, 0.0]))
    with pytest.raises(InputError, match="This walker has no steps at the target temperature"):
        moments.of(1)
    assert spacing(rows) == 1.0 and len(keep(rows, thin=2)) == len(rows) // 2
    with pytest.raises(InputError, match="a whole number"):
        keep(rows, thin=1.5)
    axes = new_figure(4, 3).subplots()
    target = rows[rows.rung == 0]
    draw_traces(axes, target, "potential", 0)
    assert axes.lines[0].get_xdata().tolist() == target.step.tolist()


def test_a_few_stuck_draws_are_worth_nothing():
    still = np.repeat(np.random.default_rng(0).normal(size=(64, 1)), 7, axis=1)
    assert diagnosis([Quantity("stuck", still)], 1.01)["ess"] == 0.0


@pytest.mark.slow
def test_the_table_of_parameters_counts_by_weight():
    """Positions without weight, as those at other temperatures, are no draws of the target."""
    network, x, y = _series()
    sim = Simulation(
        network, (x, y), standardize="none", loss="gaussian", noise_std=0.5, num_walkers=2, **QUIET
    )
    how = {"num_steps": 400, "record_every": 1, "trajectory_every": 1, "num_burnin_steps": 100}
    run = sim.sample(sampler=TactHMC(), step_size=0.02, **how)
    stored = run.trajectory.query("step > 100")
    weights = stored["weight"]
    assert (weights == 0).any()
    shown = parameters_section(run, 100, 1).html()
    mean = np.average(stored["dense/kernel[0,0]"], weights=weights)
    assert f"{mean:.4g}" in shown and f"{int((weights > 0).sum()):,} positions" in shown


def test_energies_of_batches_drawn_with_replacement_are_not_those_of_all_data():
    frame, values = _line()
    how = {"batch_size": 60, "batch_sampling": "replacement"}
    with pytest.raises(InputError, match="needs energies of all data"):
        exact_rows(run := _sampled((frame, values), how=how), run.run_info)


def test_draws_that_are_chosen_are_not_those_averaged_while_sampling():
    frame, values = _line()
    run = _sampled(((frame, values), (frame[:9], values[:9])), how={"stream_predictions": 2})
    assert run.predict().num_draws == 40 and run.predict(burnin=40, thin=4).num_draws == 10
    shown = differences([run, _sampled((frame, values))], ["one", "other"], [None, None])
    assert "stream_predictions" in shown
