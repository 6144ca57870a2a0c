"""Variances of swap ratios: closed forms, batches drawn without replacement, and wrong formulas
that must fail.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re.core.backend import tf
from tati_re.exchange.differences import estimate_variance, merged, moments, sample_size
from tati_re.exchange.subsets import NUM_KEYS, permuted


def test_moments_of_parts_are_those_of_the_whole():
    values = 1e6 + np.random.default_rng(0).standard_normal((3, 100))
    whole = merged(
        merged(moments(values[:, :10]), moments(values[:, 10:64])), moments(values[:, 64:])
    )
    np.testing.assert_allclose(whole.mean, values.mean(1), rtol=1e-14)
    np.testing.assert_allclose(whole.squares, 100 * values.var(1), rtol=1e-6)
    assert whole.count.tolist() == [100.0] * 3
    masked = moments(values, np.arange(100) < 40)
    np.testing.assert_allclose(masked.squares, 40 * values[:, :40].var(1), rtol=1e-9)
    assert masked.count.tolist() == [40.0] * 3


def test_tensorflow_computes_the_same():
    values = np.random.default_rng(0).standard_normal((3, 20))

    @tf.function(jit_compile=True)
    def compiled(x):
        found = merged(
            moments(x[:, :15]), moments(x[:, 15:], tf.constant([True, True, True, False, False]))
        )
        return estimate_variance(found, tf.constant([1.0, 2.0, 3.0], tf.float64), 50)

    found = merged(
        moments(values[:, :15]), moments(values[:, 15:], np.array([True, True, True, False, False]))
    )
    np.testing.assert_allclose(
        compiled(tf.constant(values)).numpy(),
        estimate_variance(found, np.array([1.0, 2.0, 3.0]), 50),
        rtol=1e-13,
    )


@pytest.mark.parametrize("size", [10, 40])
def test_the_estimate_is_the_variance_of_the_estimate(size):
    """E V = Var(f mean(a)) over batches of n of 50 without replacement; forgetting 1 - n/N is
    caught.
    """
    differences, draws, factor = np.random.default_rng(1).gamma(2.0, size=50), 50_000, 3.0
    keys = np.random.default_rng(2).random((draws, NUM_KEYS))
    batches = differences[permuted(np.arange(size, dtype=np.int32), keys, 50)]
    found = moments(batches)
    estimates = estimate_variance(found, factor, 50)
    exact = factor**2 * differences.var(ddof=1) / size * (1 - size / 50)
    scatter = (factor * (found.mean - differences.mean())) ** 2
    for values in (estimates, scatter):
        assert abs(values.mean() - exact) < 5.5 * values.std() / np.sqrt(draws)
    assert abs(estimates.mean() / (1 - size / 50) - exact) > 5.5 * estimates.std() / np.sqrt(draws)


def test_all_data_leave_no_variance():
    found = moments(np.random.default_rng(0).standard_normal((2, 30)))
    assert estimate_variance(found, 1e6, 30).tolist() == [0.0, 0.0]
    assert estimate_variance(moments(np.ones((1, 1))), 1.0, 1).tolist() == [0.0]


@pytest.mark.parametrize(
    ("total", "spread", "ratio", "needed"),
    [(500, 0.01, 1.5, 367.6), (50_000, 0.0001, 1.2, 20491.8), (50_000, 0.01, 1.2, 49290.2)],
)
def test_sample_size(total, spread, ratio, needed):
    """n = N / (1 + σ*²/(Δβ² N v)), and V at this n is σ*² = 0.2."""
    factor = (1 - 1 / ratio) * total
    found = float(sample_size(0.2, factor, total, spread))
    assert found == pytest.approx(needed, abs=0.05)
    assert factor**2 * spread / found * (1 - found / total) == pytest.approx(0.2)
    assert float(sample_size(0.2, factor, total, 0.0)) == 0.0
