"""Scores of predictions against closed forms and synthetic laws."""

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.prediction import accuracy, calibration, negative_log_likelihood, predictive_entropy

EXAMPLES = 20_000


def softmax(logits):
    exponent = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponent / exponent.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def calibrated():
    """Labels drawn from the predicted probabilities themselves, five classes."""
    generator = np.random.default_rng(1)
    logits = 2.0 * generator.standard_normal((EXAMPLES, 5))
    labels = (softmax(logits).cumsum(axis=1) < generator.random((EXAMPLES, 1))).sum(axis=1)
    return logits, labels


def test_calibration_of_calibrated_and_overconfident_predictions(calibrated):
    logits, labels = calibrated
    good = calibration(softmax(logits), labels)
    # By chance alone: the mean of |N(0, s²)| over the bins, at most sqrt(2/pi) sqrt(bins)
    # 0.5/sqrt(n) = 0.011.
    assert good.error < 0.011
    assert good.count.sum() == EXAMPLES
    assert len(good.edges) == 16
    sharp = calibration(softmax(3 * logits), labels)
    stated = softmax(3 * logits).max(axis=1).mean()
    overconfidence = stated - accuracy(softmax(3 * logits), labels)
    assert sharp.error == pytest.approx(overconfidence, abs=0.01), "too sure in every bin"
    assert sharp.error > 10 * good.error
    blunt = calibration(softmax(0.3 * logits), labels)
    assert blunt.error > 10 * good.error


def test_bins_by_hand():
    probabilities = np.array([[0.95, 0.05], [0.95, 0.05], [0.6, 0.4], [1.0, 0.0]])
    result = calibration(probabilities, np.array([0, 1, 0, 0]), num_bins=10)
    assert result.count.tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0, 3]
    assert result.accuracy[9] == pytest.approx(2 / 3)
    assert result.confidence[9] == pytest.approx(2.9 / 3)
    assert np.isnan(result.confidence[0])
    assert result.error == pytest.approx(0.75 * (2.9 / 3 - 2 / 3) + 0.25 * 0.4)


def test_negative_log_likelihood_of_closed_forms(calibrated):
    logits, labels = calibrated
    uniform = np.full((EXAMPLES, 5), 0.2)
    assert negative_log_likelihood(uniform, labels) == pytest.approx(np.log(5), rel=1e-12)
    values = softmax(logits)
    # Calibrated: the expected loss is the mean entropy, to 5.5 standard errors.
    chosen = -np.log(values[np.arange(EXAMPLES), labels])
    assert negative_log_likelihood(values, labels) == pytest.approx(
        predictive_entropy(values).mean(), abs=5.5 * chosen.std() / np.sqrt(EXAMPLES)
    )
    assert negative_log_likelihood(np.array([[0.25, 0.75]]), [1]) == pytest.approx(-np.log(0.75))


def test_probability_zero_has_a_stated_floor():
    certain = np.array([[1.0, 0.0]])
    assert negative_log_likelihood(certain, [1]) == pytest.approx(87.34, abs=0.01)
    assert negative_log_likelihood(certain, [1], floor=0.0) == np.inf


def test_binary_forms_agree():
    positive = np.array([0.9, 0.2, 0.6])
    both = np.stack([1 - positive, positive], axis=1)
    for labels in ([1, 0, 0], [1, -1, -1], [[0, 1], [1, 0], [1, 0]]):
        for values in (positive, positive[:, None], both):
            assert accuracy(values, np.array(labels)) == pytest.approx(2 / 3)
            assert negative_log_likelihood(values, np.array(labels)) == pytest.approx(
                -np.log([0.9, 0.8, 0.4]).mean()
            )


def test_entropy():
    assert predictive_entropy(np.array([[1.0, 0.0], [0.5, 0.5]])) == pytest.approx([0.0, np.log(2)])
    assert predictive_entropy(np.full((3, 10), 0.1)) == pytest.approx(np.log(10))


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="Labels do not match"):
        accuracy(np.full((2, 3), 1 / 3), np.array([0, 3]))
    with pytest.raises(InputError, match="Labels do not match"):
        accuracy(np.full((2, 3), 1 / 3), np.array([0.5, 1.0]))
    with pytest.raises(InputError, match=r"numbers of inputs and labels differ|differ in length"):
        accuracy(np.full((2, 3), 1 / 3), np.array([0, 1, 2]))
    with pytest.raises(InputError, match="between 0 and 1"):
        accuracy(np.array([[2.0, -1.0]]), np.array([0]))
    with pytest.raises(InputError, match="between 0 and 1"):
        accuracy(np.array([[np.nan, 1.0]]), np.array([0]))
    with pytest.raises(InputError, match="num_bins"):
        calibration(np.array([0.5]), np.array([1]), num_bins=0)
