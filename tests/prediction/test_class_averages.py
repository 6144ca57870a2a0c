"""Averages of class probabilities in the number type of the network, against double precision."""

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from tati_re.likelihoods.categorical import Categorical, SparseCategorical
from tati_re.posterior.predictive import LABELS, Predictive
from tati_re.prediction.class_averages import ClassAverages
from tati_re.prediction.draws import DRAWS, Members
from tati_re.prediction.part import PredictedPart

DRAWS_AND_ROWS = (40, 30)
CLASS_LOSS = {"loss": "sparse_categorical_crossentropy", "from_logits": True}


class Network:
    """What a part asks of a network."""

    def __init__(self, predictive):
        self.predictive = predictive

    def prepared_targets(self, labels):
        return labels


def logits(classes, dtype, spread=4.0, seed=0):
    random = np.random.default_rng(seed)
    return (spread * random.normal(size=(*DRAWS_AND_ROWS, classes))).astype(dtype)


def part_of(outputs, labels=None, weights=None):
    draws, rows, classes = outputs.shape
    predictive = Predictive(CLASS_LOSS, "classification", classes, classes)
    weights = np.ones(draws) if weights is None else weights
    members = Members(np.zeros((draws, 1)), np.zeros(draws, int), weights, DRAWS)
    sources = [(Network(predictive), members)]
    return PredictedPart(sources, [np.zeros((rows, 1))], [(outputs, None)], labels, 0.9)


@pytest.mark.parametrize("dtype, tolerance", [(np.float32, 1e-6), (np.float64, 1e-13)])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_averages_are_those_of_double_precision(classes, dtype, tolerance):
    outputs = logits(classes, dtype)
    random = np.random.default_rng(1)
    weights = random.uniform(0.1, 2, len(outputs))
    labels = random.integers(0, classes, outputs.shape[1])
    part = part_of(outputs, labels, weights)

    share = weights / weights.sum()
    logs = log_softmax(outputs.astype(np.float64), axis=-1)
    p = np.exp(logs)
    mean = np.tensordot(share, p, 1)
    std = np.sqrt(np.tensordot(share, (p - mean) ** 2, 1))
    entropy = np.tensordot(share, -(p * logs).sum(axis=-1), 1)
    np.testing.assert_allclose(part.probabilities, mean, rtol=10 * tolerance)
    np.testing.assert_allclose(part.probabilities.sum(axis=1), 1, rtol=1e-14)
    np.testing.assert_allclose(part.std, std, rtol=1e3 * tolerance, atol=tolerance)
    np.testing.assert_allclose(part.expected_entropy, entropy, rtol=10 * tolerance)
    assert part.right.tolist() == (p.argmax(axis=-1) == labels).sum(axis=1).tolist()
    losses = -logs[:, np.arange(len(labels)), labels].sum(axis=1)
    np.testing.assert_allclose(part.losses, losses, rtol=10 * tolerance)


def test_a_probability_below_single_precision_is_not_0():
    outputs = np.zeros((5, 3, 4), np.float32)
    outputs[:, 0, 1] = 200.0  # all draws are sure of class 1
    outputs[0, 1, 1] = 200.0  # one draw of five is sure
    part = part_of(outputs, np.array([0, 0, 0]))
    assert np.log(part.probabilities[0, 0]) == pytest.approx(-200.0, rel=1e-6)
    assert part.probabilities[1, 0] == pytest.approx(0.2, rel=1e-6)
    np.testing.assert_allclose(
        part.losses, [400 + np.log(4), *[200 + 2 * np.log(4)] * 4], rtol=1e-6
    )


def test_a_class_that_is_impossible_has_probability_0():
    outputs = np.zeros((5, 2, 3), np.float32)
    outputs[..., 2] = -np.inf
    part = part_of(outputs)
    np.testing.assert_allclose(part.probabilities, [[0.5, 0.5, 0.0]] * 2, rtol=1e-6)
    np.testing.assert_allclose(part.expected_entropy, np.log(2), rtol=1e-6)


def test_equal_draws_have_no_deviation():
    outputs = np.repeat(logits(10, np.float32)[:1], 7, axis=0)
    assert part_of(outputs).std.max() < 1e-6


def test_labels_of_which_each_is_0_or_1():
    averages = ClassAverages(labels=np.array([[0, 1], [1, 1]]))
    probabilities = np.array([[[0.2, 0.9], [0.6, 0.8]], [[0.7, 0.6], [0.7, 0.4]]])
    averages.add(probabilities, np.zeros((2, 2)), np.array([0.5, 0.5]))
    # Draw 0 predicts labels 0, 1 and 1, 1; draw 1 predicts 1, 1 and 1, 0.
    assert averages.right.tolist() == [2, 0]
    np.testing.assert_allclose(averages.mean, [[0.4, 0.7], [0.85, 0.5]])


def test_several_labels_go_through_a_part():
    outputs = logits(3, np.float32)
    predictive = Predictive({"loss": "binary_crossentropy", "from_logits": True}, LABELS, None, 3)
    p, entropies = predictive.probabilities_by_class(outputs)
    expected = 1 / (1 + np.exp(-outputs.astype(np.float64)))
    np.testing.assert_allclose(np.moveaxis(p, 0, -1), expected, rtol=1e-12)
    of_label = -expected * np.log(expected) - (1 - expected) * np.log(1 - expected)
    np.testing.assert_allclose(entropies, of_label.sum(axis=-1), rtol=1e-9)


class Tempered(SparseCategorical):
    """Softmax at twice the temperature."""

    name = "tempered"

    def log_probabilities(self, outputs):
        return super().log_probabilities(np.asarray(outputs, np.float64) / 2)


def test_a_subclass_that_changes_probabilities_changes_averages_and_losses():
    outputs = logits(4, np.float32)
    likelihood = Tempered()
    p, _ = likelihood.probabilities_by_class(outputs)
    halved = softmax(outputs.astype(np.float64) / 2, axis=-1)
    np.testing.assert_allclose(np.moveaxis(p, 0, -1), halved, rtol=1e-9)
    labels = np.zeros(outputs.shape[1], int)
    np.testing.assert_allclose(likelihood.losses(outputs, labels), -np.log(halved[..., 0]))


def test_outputs_that_are_probabilities_go_the_long_way():
    outputs = softmax(logits(4, np.float64), axis=-1)
    p, _ = Categorical(from_logits=False).probabilities_by_class(outputs)
    np.testing.assert_allclose(np.moveaxis(p, 0, -1), outputs, rtol=1e-12)
