"""The well-tempered ensemble: its converged law, its swaps and weights, its grid, and an adaptive
run.

On a harmonic well of d dimensions, a = d/2, energies are Gamma(a) without bias; with the converged
one they are Gamma((a - 1)/γ + 1, γT), of mean T(a - 1 + γ) and variance γT²(a - 1 + γ), and
neighbors at temperature ratio R exchange with probability 2 I_{1/(1+R)}(b, b), b = (a - 1)/γ + 1.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import gamma as gamma_law

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange import well_tempered as wte
from tati_re.exchange.well_tempered import Bias, WellTempered

TEMPERATURE = np.array([1.0, 1.2])


def on_grid(heights: np.ndarray, origin, width) -> Bias:
    rungs = len(heights)
    return Bias(heights, np.full(rungs, origin), np.full(rungs, width), *np.zeros((4, rungs)))


def converged(
    dimensions: int, factor: float, temperature=TEMPERATURE, low=2.0, high=400.0, cells=2048
) -> Bias:
    energy = np.linspace(low, high, cells)
    log_density = (dimensions / 2 - 1) * np.log(energy) - energy / temperature[:, None]
    heights = (
        (factor - 1)
        / factor
        * temperature[:, None]
        * (log_density - log_density.max(1, keepdims=True))
    )
    return on_grid(heights, low, energy[1] - energy[0])


def test_converged_bias_on_a_hundred_dimensions():
    """γ = 4: mean 53 T, variance 212 T², acceptance 0.642 at R = 1.2; without the bias in the ratio
    it would be 0.26, and the weights give back mean 50 T and variance 50 T².
    """
    bias, energy = converged(100, 4.0), np.linspace(3.0, 300.0, 1500)
    laws = []
    for rung, temperature in enumerate(TEMPERATURE):
        index = np.full(len(energy), rung, np.int32)
        log_density = (
            49 * np.log(energy) - (energy + wte.bias_value(bias, energy, index)) / temperature
        )
        law = np.exp(log_density - log_density.max())
        law /= law.sum()
        mean = law @ energy
        assert mean == pytest.approx(53 * temperature, rel=1e-4)
        assert law @ (energy - mean) ** 2 == pytest.approx(212 * temperature**2, rel=1e-3)
        weight = law * np.exp(wte.bias_value(bias, energy, index) / temperature)
        weight /= weight.sum()
        mean = weight @ energy
        assert mean == pytest.approx(50 * temperature, rel=1e-4)
        assert weight @ (energy - mean) ** 2 == pytest.approx(50 * temperature**2, rel=1e-3)
        laws.append(law)
    low, high = (a.ravel() for a in np.meshgrid(energy, energy, indexing="ij"))
    joint = (laws[0][:, None] * laws[1][None, :]).ravel()
    zeros, ones = np.zeros(len(low), np.int32), np.ones(len(low), np.int32)
    ratio = wte.log_ratio(bias, 1 / TEMPERATURE, low, high, zeros, ones)
    np.testing.assert_allclose(ratio, (1 - 1 / 1.2) * (low - high) / 4, atol=1e-3)
    assert joint @ np.exp(np.minimum(ratio, 0)) == pytest.approx(0.64225, abs=2e-4)


def two_replicas(with_bias: bool) -> tuple[float, float]:
    """Total variation of the cold law after reweighting, with weights e^{+A/T} and with e^{-A/T}:
    two replicas at T = 1 and 2 on eight levels U = 0..7 of degeneracy 2^(0.9 U), the converged bias
    of γ = 5, local moves and swaps.
    """
    temperature, level = np.array([1.0, 2.0]), np.arange(8.0)
    log_degeneracy = 0.9 * level * np.log(2.0)
    log_law = -level / temperature[:, None] + log_degeneracy
    bias = on_grid(0.8 * temperature[:, None] * (log_law - log_law.max(1, keepdims=True)), 0.0, 1.0)
    matrix = np.ones((1, 1))
    for rung in range(2):
        height = wte.bias_value(bias, level, np.full(8, rung, np.int32))
        log_density = log_degeneracy - (level + height) / temperature[rung]
        own = np.zeros((8, 8))
        for i in range(8):
            for k in (i - 1, i + 1):
                if 0 <= k < 8:
                    own[i, k] = 0.5 * min(1.0, np.exp(log_density[k] - log_density[i]))
            own[i, i] = 1 - own[i].sum()
        matrix = np.kron(matrix, own)
    low, high = (a.ravel() for a in np.meshgrid(level, level, indexing="ij"))
    rungs = np.zeros(64, np.int32), np.ones(64, np.int32)
    ratio = wte.log_ratio(bias, 1 / temperature, low, high, *rungs)
    if not with_bias:
        ratio = (1 / temperature[0] - 1 / temperature[1]) * (low - high)
    accepted = np.exp(np.minimum(ratio, 0))
    swap = np.diag(1 - accepted)
    swap[np.arange(64), (8 * high + low).astype(int)] += accepted
    values, vectors = np.linalg.eig((matrix @ swap).T)
    law = np.real(vectors[:, np.argmin(np.abs(values - 1))])
    cold = (law / law.sum()).reshape(8, 8).sum(1)
    log_weight = wte.bias_value(bias, level, np.zeros(8, np.int32)) / temperature[0]
    exact = np.exp(log_law[0]) / np.exp(log_law[0]).sum()
    errors = []
    for sign in (1, -1):
        weighted = cold * np.exp(sign * log_weight)
        errors.append(0.5 * np.abs(weighted / weighted.sum() - exact).sum())
    return tuple(errors)


def test_swaps_need_both_biases_and_weights_their_sign():
    right, wrong_sign = two_replicas(with_bias=True)
    assert right < 1e-12 and wrong_sign == pytest.approx(0.5298, abs=5e-4)
    assert two_replicas(with_bias=False)[0] == pytest.approx(0.0862, abs=5e-4)


def bumpy() -> Bias:
    heights = np.random.default_rng(0).normal(size=(2, 40)).cumsum(1)
    return Bias(heights, np.array([-3.0, 10.0]), np.array([0.5, 2.0]), *np.zeros((4, 2)))


def slope(bias, energy, rung):
    """A', by which a force grows."""
    return wte.force_factor(bias, energy, rung) - 1.0


def test_slope_is_the_derivative():
    """Everywhere, at cells, ends and outside, where A is constant."""
    bias = bumpy()
    for rung, low, high in ((0, -4.0, 18.0), (1, 8.0, 90.0)):
        energy = np.random.default_rng(1).uniform(low, high, 400)
        index, step = np.full(400, rung, np.int32), 1e-6
        difference = wte.bias_value(bias, energy + step, index) - wte.bias_value(
            bias, energy - step, index
        )
        np.testing.assert_allclose(slope(bias, energy, index), difference / (2 * step), atol=2e-5)
    ends = wte.bias_value(bias, np.array([-1e9, 1e9]), np.array([0, 0], np.int32))
    np.testing.assert_array_equal(ends, bias.heights[0, [0, -1]])
    assert (slope(bias, np.array([-1e9, 1e9]), np.array([0, 1], np.int32)) == 0).all()


def test_the_bias_of_no_number_is_no_number_and_of_infinity_that_of_the_ends():
    """In TensorFlow too, where a place in a table that does not exist would be an error."""
    bias, rung = bumpy(), np.zeros(3, np.int32)
    energy = np.array([np.nan, np.inf, -np.inf])
    tensors = Bias(*(tf.constant(values) for values in bias))
    for found in (
        wte.bias_value(bias, energy, rung),
        wte.bias_value(tensors, tf.constant(energy), tf.constant(rung)).numpy(),
    ):
        np.testing.assert_array_equal(found, [np.nan, bias.heights[0, -1], bias.heights[0, 0]])


def test_deposits_leave_the_converged_bias_as_it_is():
    """At energies of the converged law (its quantiles) the sum of deposits is the same at every
    energy, so that A only grows by a constant; at energies of the law without bias it is not.
    """
    factor, count = 4.0, 20_000
    bias = converged(100, factor, np.array([1.0]), 2.0, 300.0)
    share = (np.arange(count) + 0.5) / count
    flat = {}
    for name, law in (
        ("biased", gamma_law(49 / factor + 1, scale=factor)),
        ("plain", gamma_law(50)),
    ):
        energy = law.ppf(share)
        settled = bias._replace(
            mean=np.array([53.0]), variance=np.array([212.0]), count=np.array([1e6])
        )
        method = WellTempered(factor, cells=2048, height=1e-4, kernel_width=0.1)
        new = method.deposit(settled, energy, np.zeros(count, np.int32), np.array([1.0]))
        at = np.linspace(35.0, 75.0, 100)
        rung = np.zeros(100, np.int32)
        grown = wte.bias_value(new, at, rung) - wte.bias_value(bias, at, rung)
        flat[name] = np.ptp(grown) / grown.mean()
    assert flat["biased"] < 0.01 and flat["plain"] > 0.5


def adaptive(factor: float, sign: float = 1.0) -> tuple[Bias, np.ndarray]:
    """Overdamped walkers on a well of 10 dimensions at T = 1 and 2, 100 each, deposits every second
    step for 3,000 steps, then 2,000 of the frozen bias. Returns it and energies of the last,
    `(records, walkers)`.
    """
    random = np.random.default_rng(5)
    temperature = np.array([1.0, 2.0])
    rung = np.repeat(np.arange(2, dtype=np.int32), 100)
    hot = temperature[rung]
    position = random.normal(size=(200, 10)) * np.sqrt(hot)[:, None]
    method = WellTempered(factor, height=0.003)
    energy = 0.5 * np.sum(position**2, 1)
    bias, step, records = method.init(np.array([5.0, 10.0]), 1 / temperature), 0.05, []
    for number in range(5_000):
        force = -position * (1.0 + sign * slope(bias, energy, rung))[:, None]
        position = (
            position
            + step * force
            + np.sqrt(2 * step * hot)[:, None] * random.normal(size=position.shape)
        )
        energy = 0.5 * np.sum(position**2, 1)
        if number < 3_000 and number % 2:
            bias = method.deposit(bias, energy, rung, 1 / temperature)
        elif number >= 3_000 and number % 20 == 0:
            records.append(energy)
    return bias, np.array(records)


def test_an_adaptive_run_finds_the_slope():
    """γ = 3: A' within 0.08 (root mean square) of (γ-1)/γ (4T/E - 1) from mean - 1 to mean + 2
    unbiased sd; energies of mean T(4 + γ) and variance γT²(4 + γ) within 6 and 15 % (the step of
    0.05 alone makes 2.5 and 5).
    """
    bias, records = adaptive(3.0)
    for rung, temperature in enumerate((1.0, 2.0)):
        energy = temperature * np.linspace(3.0, 9.5, 60)
        own = slope(bias, energy, np.full(60, rung, np.int32))
        exact = 2 / 3 * (4 * temperature / energy - 1)
        assert np.sqrt(np.mean((own - exact) ** 2)) < 0.08
        sampled = records[:, rung * 100 : (rung + 1) * 100]
        assert sampled.mean() == pytest.approx(7 * temperature, rel=0.06)
        assert sampled.var() == pytest.approx(21 * temperature**2, rel=0.15)
        weight = np.exp(
            wte.bias_value(bias, sampled, np.full(sampled.shape, rung, np.int32)) / temperature
        )
        assert (weight * sampled).sum() / weight.sum() == pytest.approx(5 * temperature, rel=0.06)
    assert bias.refused.sum() == 0


def test_growing_keeps_the_bias():
    """Energies far away double the cells; what was deposited stays, to the interpolation of wider
    cells.
    """
    method, rung = WellTempered(5.0, memory=50.0, max_jump=1e9), np.zeros(1, np.int32)
    beta = np.array([1.0])
    bias = method.init(np.array([100.0]), beta)
    for energy in np.random.default_rng(0).normal(100.0, 8.0, 300):
        bias = method.deposit(bias, np.array([energy]), rung, beta)
    at = np.linspace(80.0, 120.0, 200)
    index = np.zeros(200, np.int32)
    for far, tolerance in ((190.0, 0.01), (400.0, 0.05)):
        before = wte.bias_value(bias, at, index)
        new = method.deposit(bias, np.array([far]), rung, beta)
        end = new.origin + (method.cells - 1) * new.width
        assert new.origin[0] < 80 and end[0] > far
        assert np.abs(wte.bias_value(new, at, index) - before).max() < tolerance * before.max()
        assert wte.bias_value(new, np.array([far]), rung)[0] == pytest.approx(0.5, abs=0.01)
    assert new.width[0] > bias.width[0] and np.log2(new.width / bias.width)[0] % 1 == 0


def test_a_grid_that_followed_a_long_way_down_becomes_fine_again():
    method, rung, beta = WellTempered(5.0), np.zeros(4, np.int32), np.array([1.0])
    random = np.random.default_rng(0)
    bias, widest = method.init(np.array([20_000.0]), beta), 0.0
    for number in range(4_000):
        energy = 100.0 + 20_000.0 * np.exp(-number / 60) + random.normal(0.0, 7.0, 4)
        bias = method.deposit(bias, energy, rung, beta)
        widest = max(widest, bias.width[0])
    assert widest > 20 and bias.width[0] < 5
    assert bias.origin[0] < 60 and bias.origin[0] + (method.cells - 1) * bias.width[0] > 140
    assert np.isfinite(bias.heights).all()


def test_nan_and_jumps_are_refused_and_what_stays_there_is_not():
    method, rung, beta = WellTempered(5.0), np.zeros(1, np.int32), np.array([1.0])
    bias = method.init(np.array([50.0]), beta)
    for energy in np.random.default_rng(0).normal(50.0, 7.0, 500):
        bias = method.deposit(bias, np.array([energy]), rung, beta)
    for energy in (np.nan, np.inf, -np.inf):
        new = method.deposit(bias, np.array([energy]), rung, beta)
        for a, b in zip(new, bias, strict=True):
            np.testing.assert_array_equal(a, b)
    new = method.deposit(bias, np.array([50.0 + 80.0 * 7.0]), rung, beta)
    np.testing.assert_array_equal(new.heights, bias.heights)
    assert new.refused[0] == 1 and new.width[0] == bias.width[0]
    near = method.deposit(bias, np.array([50.0 + 8.0 * 7.0]), rung, beta)
    assert near.refused[0] == 0 and near.heights.sum() > bias.heights.sum()
    for _ in range(100):
        new = method.deposit(new, np.array([610.0]), rung, beta)
    assert new.refused[0] < 80 and wte.bias_value(new, np.array([610.0]), rung)[0] > 1.0


def test_heights_fall_as_asked():
    rung, beta = np.zeros(1, np.int32), np.array([1.0])
    for decay, expected in ((0.0, 0.5), (1.0, 0.5 / 2.0)):
        method = WellTempered(5.0, decay=decay, decay_after=9.0)
        bias = method.init(np.array([10.0]), beta)._replace(
            count=np.array([8.0]), variance=np.array([4.0])
        )
        new = method.deposit(bias, np.array([10.0]), rung, beta)
        assert wte.bias_value(new, np.array([10.0]), rung)[0] == pytest.approx(expected, rel=0.02)


def test_tensorflow_under_xla_is_numpy():
    method, beta = WellTempered(5.0, cells=64), np.array([1.0, 0.5])
    random = np.random.default_rng(3)

    def tried(bias, energy, rung, beta):
        new = method.deposit(bias, energy, rung, beta)
        ratio = wte.log_ratio(new, beta, energy[:2], energy[2:4], rung[:2], rung[2:4])
        return new, ratio, wte.force_factor(new, energy, rung)

    compiled = tf.function(tried, jit_compile=True, autograph=False)
    own = method.init(np.array([10.0, 20.0]), beta)
    theirs = Bias(*map(tf.constant, own))
    rung = np.array([0, 0, 1, 1, 0, 1], np.int32)
    for number in range(60):
        energy = np.where(rung == 0, 10.0, 20.0) + (1 + number / 10) * random.normal(size=6)
        energy[5] = np.nan if number == 7 else energy[5]
        own, ratio, factors = tried(own, energy, rung, beta)
        theirs, their_ratio, their_factors = compiled(
            theirs, tf.constant(energy), tf.constant(rung), tf.constant(beta)
        )
    for a, b in zip((*own, ratio, *factors), (*theirs, their_ratio, *their_factors), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(
    "options",
    [
        dict(bias_factor=1.0),
        dict(bias_factor=np.inf),
        dict(height=0.0),
        dict(decay=1.5),
        dict(cells=8),
        dict(memory=-1.0),
    ],
)
def test_what_is_refused(options):
    with pytest.raises(InputError):
        WellTempered(**{"bias_factor": 5.0, **options})
