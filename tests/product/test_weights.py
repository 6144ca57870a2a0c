"""Sample and class weights: L = sum of w_i l_i, in energies, gradients, mini-batches, swaps and
test losses.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import InputError, Simulation
from tati_re.cli import sample
from tati_re.core.backend import keras, tf
from tati_re.data import Dataset, load_data
from tati_re.posterior.potential import Batch

GENERATOR = np.random.default_rng(7)
N = 6
X = GENERATOR.normal(size=(N, 2))
Y = X[:, 0] - 0.3
CLASSES = np.array([0, 1, 2, 2, 1, 0])
W = np.array([0.0, 1.0, 2.0, 0.5, 3.0, 1.0])
QUICK = {
    "noise_std": 1.0,
    "standardize": "none",
    "verbose": 0,
    "execution": "graph",
    "dtype": "float64",
    "prior": "none",
}


def losses(theta) -> np.ndarray:
    return (Y - X @ theta[:2] - theta[2]) ** 2 / 2 + np.log(2 * np.pi) / 2


def test_potential_and_gradient_are_weighted_sums():
    sim = Simulation(data=(X, Y, W), **QUICK)
    theta = sim.parameters = np.array([0.3, -0.2, 0.1])
    assert sim.potential() == pytest.approx(W @ losses(theta), rel=1e-13)
    assert sim.loss() == pytest.approx(W @ losses(theta) / N, rel=1e-13)
    error = X @ theta[:2] + theta[2] - Y
    np.testing.assert_allclose(
        sim.gradients(), np.column_stack([X, np.ones(N)]).T @ (W * error), rtol=1e-12
    )
    mean = Simulation(data=(X, Y), sample_weights=W, potential="mean_loss", **QUICK)
    mean.parameters = theta
    assert mean.potential() == pytest.approx(W @ losses(theta) / N, rel=1e-13)


def test_repeated_examples_are_integer_weights():
    weights = np.array([1, 2, 1, 3, 1, 1])
    repeated = np.repeat(np.arange(N), weights)
    weighted = Simulation(data=(X, CLASSES, weights), hidden=[2], **QUICK)
    plain = Simulation(data=(X[repeated], CLASSES[repeated]), hidden=[2], **QUICK)
    assert weighted.potential() == pytest.approx(plain.potential(), rel=1e-12)
    np.testing.assert_allclose(weighted.gradients(), plain.gradients(), rtol=1e-12)
    # The wrong law, with the weights divided by their mean, would differ.
    assert weighted.potential() != pytest.approx(plain.potential() * N / len(repeated), rel=1e-3)


@pytest.mark.parametrize("hidden", [[2], []])
def test_mini_batches_examples_and_variances(hidden):
    """Unbiased over an epoch; the variance of gradients in one pass is that of weighted
    examples.
    """
    sim = Simulation(data=(X, CLASSES, W), hidden=hidden, batch_size=2, **QUICK)
    whole = Simulation(data=(X, CLASSES, W), hidden=hidden, **QUICK)
    total, gradient = (
        np.mean([(sim.potential(), sim.next_batch())[0] for _ in range(3)]),
        whole.potential(),
    )
    assert total == pytest.approx(gradient, rel=1e-12)
    engine = sim._engine()
    batch = Batch(tf.constant([[1, 2]]), tf.constant(2))
    evaluate = engine.potential.bind(engine._rung, batch, ())
    position = tf.constant(sim.walkers.position)
    each = evaluate.examples(position, tf.range(N)).numpy()[0]
    assert each.sum() == pytest.approx(whole.potential(), rel=1e-12)
    assert each[0] == 0.0
    _, variance = evaluate.with_variance(position)
    slopes = []
    for i in (1, 2):
        one = Simulation(
            data=(X[[i, i]], np.array([CLASSES[i]] * 2)), hidden=hidden, num_classes=3, **QUICK
        )
        one.parameters = sim.parameters
        slopes.append(N * W[i] * one.gradients() / 2)
    np.testing.assert_allclose(
        variance[0], np.var(slopes, axis=0, ddof=1) / 2 * (1 - 2 / N), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("given", [[1.0, 0.5, 2.0], {1: 0.5, 2: 2.0}])
@pytest.mark.parametrize("labels", [CLASSES, np.eye(3)[CLASSES]])
def test_class_weights_multiply_sample_weights(given, labels):
    expected = W * np.array([1.0, 0.5, 2.0])[CLASSES]
    sim = Simulation(data=(X, labels, W), class_weights=given, **QUICK)
    np.testing.assert_array_equal(sim.dataset.weights, expected)
    plain = Simulation(data=(X, labels, expected), **QUICK)
    assert sim.potential() == plain.potential()
    assert sim.score() == Simulation(data=(X, labels), **QUICK).score()


@pytest.mark.parametrize("given", [{"b": 0.5, "c": 2.0}, {1: 0.5, "c": 2.0}, {"2": 2, "b": 0.5}])
def test_class_weights_by_name(given):
    names, expected = np.array(["a", "b", "c"])[CLASSES], np.array([1.0, 0.5, 2.0])[CLASSES]
    assert (
        Simulation(data=(X, names), class_weights=given, **QUICK).dataset.weights.tolist()
        == expected.tolist()
    )
    one = Simulation(data=(X, CLASSES), class_weights={0: 3.0}, **QUICK)
    assert one.dataset.weights.tolist() == np.array([3.0, 1.0, 1.0])[CLASSES].tolist()
    with pytest.raises(
        InputError, match=r"^class_weights: unknown class\. Received: d\. Expected: a, b, c\."
    ):
        Simulation(data=(X, names), class_weights={"d": 1.0}, **QUICK)


def test_the_command_takes_class_weights_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = np.array(["spam", "ham", "eggs"])[CLASSES]
    rows = [f"{a},{b},{name}" for (a, b), name in zip(X.tolist(), names, strict=True)]
    (tmp_path / "a.csv").write_text("\n".join(["a,b,kind", *rows]))
    common = [
        "--data",
        "a.csv",
        "--test-fraction",
        "0",
        "--num-steps",
        "3",
        "--step-size",
        "0.001",
        "--quiet",
    ]
    common += ["--execution", "graph", "--record-every", "1", "--class-weights"]
    assert sample.main([*common, "spam=5", "eggs=0.5", "--output", "named"]) == 0
    assert sample.main([*common, "0.5", "1", "5", "--output", "numbered"]) == 0
    assert (tmp_path / "named" / "run.csv").read_bytes() == (
        tmp_path / "numbered" / "run.csv"
    ).read_bytes()
    assert sample.main(["--resume", "named", "--num-steps", "4", "--quiet"]) == 0


def test_signs_and_the_test_part():
    signs = np.array([-1, 1, 1, -1, -1, 1])
    data = load_data(((X, signs), (X[:2], signs[:2])), class_weights=[2, 3])
    assert data.weights.tolist() == [2, 3, 3, 2, 2, 3]
    assert data.test_weights.tolist() == [2, 3]
    sim = Simulation(data=((X, Y, W), (X[:3], Y[:3], W[:3])), **QUICK)
    evaluate = sim._engine().potential.bind(sim._engine()._rung, None, ())
    expected = W[:3] @ losses(sim.parameters)[:3] / 3
    assert float(evaluate.validation(tf.constant(sim.walkers.position))[0]) == pytest.approx(
        expected, rel=1e-12
    )


def test_a_part_for_testing_takes_its_weights_along():
    data = load_data((X, Y, W), test_fraction=1 / 3, seed=2)
    for inputs, weights in ((data.inputs, data.weights), (data.test_inputs, data.test_weights)):
        assert [W[np.flatnonzero((row == X).all(1))[0]] for row in inputs] == weights.tolist()


def test_weights_from_files_and_streams(tmp_path):
    rows = np.column_stack([X, W, Y])
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="a,b,w,y", comments="")
    np.savez(tmp_path / "a.npz", x=X, y=Y, how_much=W)
    table = load_data(tmp_path / "a.csv", 0.0, sample_weights="w")
    assert table.feature_names == ("a", "b")
    np.testing.assert_allclose(table.weights, W)
    np.testing.assert_array_equal(
        load_data(tmp_path / "a.npz", 0.0, sample_weights="how_much").weights, W
    )
    stream = tf.data.Dataset.from_tensor_slices((X, Y, W)).batch(4)
    np.testing.assert_array_equal(load_data(stream).weights, W)
    assert load_data((X, Y, W)).fingerprint() != load_data((X, Y)).fingerprint()


def test_the_command_samples_with_weights_and_resumes(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savetxt(
        "a.csv", np.column_stack([X, W, CLASSES]), delimiter=",", header="a,b,w,label", comments=""
    )
    common = [
        "--data",
        "a.csv",
        "--test-fraction",
        "0",
        "--execution",
        "graph",
        "--record-every",
        "1",
    ]
    common += ["--step-size", "0.001", "--sample-weights", "w", "--num-classes", "3"]
    common += ["--class-weights", "1", "0.5", "2"]
    whole = ["--num-steps", "4", "--output", "whole", "--verbose", "2"]
    assert sample.main([*common, *whole]) == 0
    said = capsys.readouterr()
    assert "multiplied by its weight, with a sum of weights of 8" in " ".join(
        (said.out + said.err).split()
    )
    assert sample.main([*common, "--num-steps", "2", "--output", "parts", "--quiet"]) == 0
    assert sample.main(["--resume", "parts", "--num-steps", "4", "--quiet"]) == 0
    assert (tmp_path / "whole" / "run.csv").read_bytes() == (
        tmp_path / "parts" / "run.csv"
    ).read_bytes()
    assert sample.main([*common[:-6], "--sample-weights", "v", "--quiet"]) == 2
    assert "sample_weights: a.csv has no column 'v'." in capsys.readouterr().err.replace(
        "--sample-weights", "sample_weights"
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"data": (X, Y, W[:-1])},
            r"^sample_weights do not match the examples. Received: shape \(5,\)",
        ),
        (
            {"data": (X, Y), "sample_weights": -W},
            "^sample_weights contain an invalid weight. Received: -1 of",
        ),
        ({"data": (X, Y), "sample_weights": 0 * W}, "^sample_weights are all zero"),
        (
            {"data": (X, Y), "sample_weights": "w"},
            "^sample_weights: only files have named columns",
        ),
        ({"data": (X, Y), "class_weights": [1, 2]}, "^class_weights: the labels are not classes"),
        (
            {"data": (X, CLASSES), "class_weights": [1, 2]},
            "^class_weights: their number differs from the number of classes. Received: 2 of them",
        ),
        ({"data": (X, CLASSES), "class_weights": [1, -2, 1]}, "^class_weights is out of range"),
        (
            {
                "data": ((X, CLASSES), (X[CLASSES == 1], CLASSES[CLASSES == 1])),
                "class_weights": [1, 0, 1],
            },
            "^All test rows have the weight 0 .*class_weights",
        ),
        (
            {"data": (X, CLASSES), "sample_weights": [0, 0, 0, 0, 0, 1], "test_fraction": 0.5},
            "^All (training|test) rows have the weight 0 .*sample_weights",
        ),
        ({"data": (X, Y, W, W)}, r"^data has the wrong form"),
    ],
)
def test_bad_weights_are_told_in_a_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        Simulation(**options, **QUICK)


def test_a_dataset_object_has_them():
    data = Dataset.from_arrays(X, CLASSES, weights=W)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3)])
    assert (
        Simulation(model, data, verbose=0, execution="graph").dataset.weights.tolist() == W.tolist()
    )
