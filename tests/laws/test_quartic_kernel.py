"""Bias of the mean potential on a quartic well, without random numbers: the transition kernel of a
step on a grid.

U = x⁴/4, T = 1, γ = 1, <U> = 1/4 exactly. The kernel comes from the repository's own steps: each
point of a grid in (x, p) takes a step once with each node of a Gauss-Hermite rule as its normal
number, and where it arrives is shared among 8 x 8 neighboring points by Lagrange's interpolation.
The row vector that the kernel keeps is the stationary law. 81 x 81 points in place of 65 x 61
change the bias by 4e-11 (BAOAB, h = 0.2) to 1.2e-8.

BAOAB's bias shows no order at these step sizes (slopes 4.2 to 6.6) and is bounded instead; the
orders of the others are fitted between neighboring step sizes.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse

from tati_re.samplers import SGLD, Splitting, sgld
from tests.scenarios import NumpyEvaluate, rung_of

X, P = np.linspace(-3.3, 3.3, 65), np.linspace(-6.0, 6.0, 61)
LINE = np.linspace(-4.5, 4.5, 801)
ORDER = 8


class Given:
    """One step's normal numbers."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def normal(self, shape):
        return self.values.reshape(shape)


def evaluate_for(walkers: int, step_size: float) -> NumpyEvaluate:
    rung = rung_of(np.full(walkers, step_size), numpy=True)
    return NumpyEvaluate(rung, lambda x: (x**4 / 4).sum(-1), lambda x: x**3)


def hermite(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of a mean over standard normal numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(number)
    kept = weights > 1e-13 * weights.sum()
    return nodes[kept], weights[kept] / weights.sum()


def lagrange(points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first of `ORDER` neighboring points for each target, and their weights `(targets,
    ORDER)`; the ends hold what would leave.
    """
    place = (np.clip(targets, points[0], points[-1]) - points[0]) / (points[1] - points[0])
    first = np.clip(np.floor(place).astype(int) - ORDER // 2 + 1, 0, len(points) - ORDER)
    within = place - first
    weights = np.ones((len(targets), ORDER))
    for i in range(ORDER):
        for j in set(range(ORDER)) - {i}:
            weights[:, i] *= (within - j) / (i - j)
    return first, weights


def stationary_mean(kernel: sparse.csr_matrix, values: np.ndarray) -> float:
    """Mean of the values under the law that the kernel keeps, to 1e-12."""
    law, transposed, before = np.full(len(values), 1 / len(values)), kernel.T.tocsr(), math.inf
    for _ in range(500):
        for _ in range(10):
            law = transposed @ law
        law = law / law.sum()
        if abs(law @ values - before) < 1e-12:
            return float(law @ values)
        before = law @ values
    raise AssertionError("the power iteration does not converge")


def bias_of_splitting(word: str, step_size: float) -> float:
    """<U> - 1/4 of a word with one O."""
    nodes, weights = hermite(20)
    x, p, normal = (values.ravel() for values in np.meshgrid(X, P, nodes, indexing="ij"))
    sampler, evaluate = Splitting(word), evaluate_for(len(x), step_size)
    state = sampler.init(x[:, None], evaluate, Given(0 * x))._replace(momentum=p[:, None])
    state, _ = sampler.step(state, evaluate, Given(normal))
    first_x, weights_x = lagrange(X, state.position[:, 0])
    first_p, weights_p = lagrange(P, state.momentum[:, 0])
    near = np.arange(ORDER)
    columns = (first_x[:, None] + near)[:, :, None] * len(P) + (first_p[:, None] + near)[:, None, :]
    shares = (
        np.tile(weights, len(X) * len(P))[:, None, None]
        * weights_x[:, :, None]
        * weights_p[:, None, :]
    )
    rows = np.arange(len(X) * len(P) + 1) * len(nodes) * ORDER**2
    kernel = sparse.csr_matrix((shares.ravel(), columns.ravel(), rows), shape=2 * [len(X) * len(P)])
    kernel.sum_duplicates()
    return stationary_mean(kernel, np.repeat(X**4 / 4, len(P))) - 0.25


def biases_without_memory(step_size: float) -> tuple[float, float]:
    """<x²> less its exact value for BAOAB at infinite friction, and that of <z²>, z = x - h ξ/2.

    The momentum after O is fresh noise ξ, so that x is z and half a step with it, and z alone is a
    Markov chain: a step without new noise goes from (z, ξ) to the next z.
    """
    line = np.linspace(-3.3, 3.3, 601)
    nodes, weights = hermite(30)
    z, noise = (values.ravel() for values in np.meshgrid(line, nodes, indexing="ij"))
    x = z + step_size / 2 * noise
    momentum = noise - step_size / 2 * x**3
    sampler, evaluate = Splitting("BAOAB", friction=1e6), evaluate_for(len(x), step_size)
    state = sampler.init(x[:, None], evaluate, Given(0 * x))._replace(momentum=momentum[:, None])
    state, _ = sampler.step(state, evaluate, Given(0 * x))
    first, shares = lagrange(line, state.position[:, 0])
    shares = np.tile(weights, len(line))[:, None] * shares
    rows = np.arange(len(line) + 1) * len(nodes) * ORDER
    columns = (first[:, None] + np.arange(ORDER)).ravel()
    kernel = sparse.csr_matrix((shares.ravel(), columns, rows), shape=2 * [len(line)])
    squares = (line[:, None] + step_size / 2 * nodes) ** 2 @ weights
    exact = 2 * math.gamma(0.75) / math.gamma(0.25)
    return stationary_mean(kernel, squares) - exact, stationary_mean(kernel, line**2) - exact


def bias_of_sgld(step_size: float) -> float:
    """<U> - 1/4; noise of a width below the grid's spacing leaves the interpolation exact to
    1e-10.
    """
    nodes, weights = hermite(30)
    x, normal = (values.ravel() for values in np.meshgrid(LINE, nodes, indexing="ij"))
    sampler, evaluate = SGLD(), evaluate_for(len(x), step_size)
    state, _ = sampler.step(
        sampler.init(x[:, None], evaluate, Given(0 * x)), evaluate, Given(normal)
    )
    first, shares = lagrange(LINE, state.position[:, 0])
    shares = np.tile(weights, len(LINE))[:, None] * shares
    rows = np.arange(len(LINE) + 1) * len(nodes) * ORDER
    columns = first[:, None] + np.arange(ORDER)
    kernel = sparse.csr_matrix((shares.ravel(), columns.ravel(), rows), shape=2 * [len(LINE)])
    return stationary_mean(kernel, LINE**4 / 4) - 0.25


def slopes(step_sizes, biases) -> list[float]:
    """Logarithmic slopes between neighbors; all biases have one sign."""
    assert len(set(np.sign(biases))) == 1
    logs = zip(np.log(step_sizes), np.log(np.abs(biases)), strict=True)
    return [(after[1] - before[1]) / (after[0] - before[0]) for before, after in pairwise(logs)]


@pytest.mark.parametrize(
    ("step_size", "published", "bound"),
    [(0.2, 1.054e-5, 1.1e-5), (0.3, 7.413e-5, 7.5e-5), (0.4, 4.919e-4, 5e-4)],
)
def test_the_bias_of_baoab_is_bounded(step_size, published, bound):
    bias = bias_of_splitting("BAOAB", step_size)
    print(f"BAOAB h {step_size}: {bias:.4e}")
    assert abs(bias) < bound
    assert bias == pytest.approx(published, rel=1e-3)


def test_baoab_is_of_fourth_order_at_high_friction():
    """Without the half step of the noise, which is the scheme's trick, the order is two."""
    step_sizes = (0.2, 0.28, 0.4)
    biases, without = zip(*map(biases_without_memory, step_sizes), strict=True)
    found = slopes(step_sizes, biases)
    print(f"BAOAB at infinite friction: {np.array(biases)}, slopes {np.round(found, 3)}")
    np.testing.assert_allclose(found, (4.12, 4.30), atol=0.02)
    np.testing.assert_allclose(slopes(step_sizes, without), 2.0, atol=0.15)


@pytest.mark.parametrize(
    ("word", "step_sizes", "published", "expected"),
    [
        (
            "ABOBA",
            (0.1, 0.2, 0.3, 0.4),
            (-1.273e-3, -5.168e-3, -1.192e-2, -2.181e-2),
            (2.02, 2.06, 2.10),
        ),
        pytest.param(
            "GLA2",
            (0.1, 0.2, 0.3, 0.4),
            (1.283e-3, 5.328e-3, 1.290e-2, 2.661e-2),
            (2.05, 2.18, 2.52),
            marks=pytest.mark.slow,
        ),
        ("GLA1", (0.025, 0.05, 0.1), (-3.007e-3, -5.782e-3, -1.064e-2), (0.94, 0.88)),
    ],
)
def test_the_order_of_a_word(word, step_sizes, published, expected):
    """The kernel of another computation has the same biases to 4 digits."""
    biases = [bias_of_splitting(word, step_size) for step_size in step_sizes]
    found = slopes(step_sizes, biases)
    print(f"{word}: {np.array(biases)}, slopes {np.round(found, 3)}")
    np.testing.assert_allclose(biases, published, rtol=1e-3)
    np.testing.assert_allclose(found, expected, atol=0.006)


def test_the_order_of_sgld():
    step_sizes = (0.02, 0.04)
    biases = [bias_of_sgld(step_size) for step_size in step_sizes]
    found = slopes(step_sizes, biases)
    print(f"SGLD: {np.array(biases)}, slopes {np.round(found, 3)}")
    np.testing.assert_allclose(biases, [5.327e-3, 1.125e-2], rtol=1e-3)
    assert found[0] == pytest.approx(1.08, abs=0.15)


def test_wrong_steps_are_rejected(monkeypatch):
    """ABOBA is no BAOAB; a drift of the whole step in place of half of it; noise short by 1 %."""

    class Doubled(Splitting):
        def __init__(self, word):
            super().__init__(word)
            self.fraction = dict(self.fraction, A=1.0)

    assert abs(bias_of_splitting("ABOBA", 0.2)) > 100 * 1.1e-5
    monkeypatch.setitem(globals(), "Splitting", Doubled)
    assert abs(bias_of_splitting("BAOAB", 0.2)) > 100 * 1.1e-5
    right = sgld.sqrt
    monkeypatch.setattr(sgld, "sqrt", lambda x: 0.99 * right(x))
    assert abs(bias_of_sgld(0.02) / 5.327e-3 - 1) > 0.2
