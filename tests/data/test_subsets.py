"""The keyed permutation: a bijection for every count, uniform in one and two places, the same from
TensorFlow.

Laws: 20,000 to 200,000 keys; chi-square tests at a false alarm of 1e-5 and sums within 5.5 standard
errors. A cipher of 6 rounds on 7 numbers fails (its excess of chi-square is 0.003 a key, the noise
2e-5).
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re.core import ops as functions
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange.subsets import NUM_KEYS, permuted

KEYS = 200_000


def keys_of(rows: int, rounds: int = NUM_KEYS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((rows, rounds))


def chi_square_p(counts: np.ndarray) -> float:
    expected = counts.sum() / len(counts)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), len(counts) - 1))


def pair_counts(count: int, rounds: int = NUM_KEYS) -> np.ndarray:
    """How often each ordered pair stands in the first two places."""
    first, second = permuted(np.arange(2, dtype=np.int32), keys_of(KEYS, rounds), count).T
    counts = np.bincount(first * count + second, minlength=count**2).reshape(count, count)
    assert np.trace(counts) == 0
    return counts[~np.eye(count, dtype=bool)]


@pytest.mark.parametrize("count", [*range(1, 40), 99, 100, 101, 500, 4095, 4096, 4097, 55_000])
def test_every_example_once(count):
    images = permuted(np.arange(count, dtype=np.int32), keys_of(3), count)
    assert images.shape == (3, count) and images.dtype == np.int32
    assert (np.sort(images) == np.arange(count)).all()


def test_the_largest_count():
    places = np.unique(np.random.default_rng(1).integers(0, 2**31, 200_000)).astype(np.int32)
    images = permuted(places, keys_of(1)[0], 2**31)
    assert len(np.unique(images)) == len(places) and images.min() >= 0
    assert chi_square_p(np.bincount(images >> 23, minlength=256)) > 1e-5


def test_more_places_continue_the_batch():
    keys = keys_of(1)[0]
    whole = permuted(np.arange(500, dtype=np.int32), keys, 500)
    np.testing.assert_array_equal(
        permuted(np.arange(100, 200, dtype=np.int32), keys, 500), whole[100:200]
    )
    np.testing.assert_array_equal(
        permuted(np.arange(500, dtype=np.int32), keys_of(3)[0], 500), whole
    )


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 12, 50, 55_000])
def test_the_first_place_is_uniform(count):
    first = permuted(np.zeros(1, np.int32), keys_of(KEYS, seed=2), count)[:, 0]
    cells = min(count, 1000)
    assert (
        chi_square_p(np.bincount(first.astype(np.int64) * cells // count, minlength=cells)) > 1e-5
    )


@pytest.mark.parametrize("count", [2, 3, 4, 5, 7, 12, 30])
def test_pairs_are_uniform(count):
    assert chi_square_p(pair_counts(count)) > 1e-5


def test_too_few_rounds_are_caught():
    assert chi_square_p(pair_counts(7, rounds=6)) < 1e-5


@pytest.mark.parametrize(("count", "size"), [(10, 4), (500, 50), (500, 450)])
def test_sums_of_subsets_are_those_without_replacement(count, size):
    """Data sorted by class; mean n μ and variance n σ² (N - n)/(N - 1), where independent draws
    have n σ².
    """
    values = np.sort(np.random.default_rng(3).integers(0, 10, count)).astype(float) ** 2
    draws = 20_000 if size < 100 else 5_000
    sums = values[permuted(np.arange(size, dtype=np.int32), keys_of(draws, seed=4), count)].sum(1)
    mean, variance = size * values.mean(), size * values.var() * (count - size) / (count - 1)
    deviations = sums - mean
    assert abs(deviations.mean()) < 5.5 * np.sqrt(variance / draws)
    squares = deviations**2
    error = squares.std() / np.sqrt(draws)
    assert abs(squares.mean() - variance) < 5.5 * error
    assert abs(squares.mean() - size * values.var()) > 5.5 * error


@pytest.mark.parametrize(
    "count", [*(pytest.param(count, marks=pytest.mark.slow) for count in (1, 2, 3, 500)), 55_000]
)
def test_tensorflow_gives_the_same_numbers(count):
    places, keys = np.arange(min(count, 600), dtype=np.int32), keys_of(2)
    expected = permuted(places, keys, count)
    compiled = tf.function(lambda p, k: permuted(p, k, count), jit_compile=True)
    for found in (
        permuted(tf.constant(places), tf.constant(keys), count),
        permuted(places, tf.constant(keys), count),
        compiled(tf.constant(places), tf.constant(keys)),
    ):
        assert found.dtype == tf.int32
        np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(
        compiled(tf.constant(places), tf.constant(keys[1])).numpy(), expected[1]
    )


def test_whole_number_functions():
    values = np.array([0.0, 3.7, 4e9])
    assert functions.as_uint32(values).dtype == np.uint32
    np.testing.assert_array_equal(
        functions.as_uint32(tf.constant(values)).numpy(), functions.as_uint32(values)
    )
    np.testing.assert_array_equal(
        functions.as_int32(tf.constant(values[:2])).numpy(), functions.as_int32(values[:2])
    )
    words = functions.as_uint32(values)
    np.testing.assert_array_equal(functions.shift_right(tf.constant(words), 7).numpy(), words >> 7)
    halve = tf.function(
        lambda x: functions.repeat_while_any(
            lambda v: v > 1, lambda v: functions.where(v > 1, v / 2, v), x
        ),
        jit_compile=True,
    )
    assert halve(tf.constant([1.0, 8.0, 5.0])).numpy().tolist() == [1.0, 1.0, 0.625]
    found = functions.repeat_while_any(
        lambda v: v > 1, lambda v: np.where(v > 1, v / 2, v), np.array([1.0, 8.0, 5.0])
    )
    assert found.tolist() == [1.0, 1.0, 0.625]


@pytest.mark.parametrize(("count", "rounds"), [(0, 12), (2**31 + 1, 12), (10, 3)])
def test_bad_input_is_refused(count, rounds):
    with pytest.raises(InputError):
        permuted(np.zeros(1, np.int32), np.full(rounds, 0.5), count)
