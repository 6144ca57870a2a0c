"""Acceptance of neighbors: exact on harmonic wells, expected from heat capacities, and what is said
of bad ladders.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import erfc

from tati_re.core.errors import InputError
from tati_re.exchange import advice as advices
from tati_re.exchange.advice import exchange_advice, harmonic_acceptance, ladder_advice
from tati_re.exchange.ladder import explicit, geometric, likelihood

TABLE = {
    2: (9.091e-01, 8.000e-01, 6.667e-01),
    4: (8.640e-01, 7.040e-01, 5.185e-01),
    10: (7.787e-01, 5.331e-01, 2.897e-01),
    30: (6.207e-01, 2.724e-01, 6.228e-02),
    100: (3.635e-01, 4.386e-02, 6.183e-04),
    300: (1.149e-01, 4.712e-04, 2.860e-09),
    1000: (3.976e-03, 1.685e-10, 1.992e-27),
    10690: (4.571e-21, 6.686e-97, 8.995e-276),
    13970: (4.923e-27, 4.922e-126, 0.0),
}


@pytest.mark.parametrize("dimensions", TABLE)
def test_harmonic_acceptance_against_quadrature(dimensions):
    own = harmonic_acceptance(dimensions, np.array([1.2, 1.5, 2.0]))
    np.testing.assert_allclose(own, TABLE[dimensions], rtol=2e-4)


@pytest.mark.parametrize("dimensions", [0.5, 2, 7, 100, 5000])
@pytest.mark.parametrize("ratio", [1.0, 1.0001, 1.2, 3.0, 50.0])
def test_harmonic_acceptance_is_that_of_the_other_direction(dimensions, ratio):
    np.testing.assert_allclose(
        harmonic_acceptance(dimensions, 1 / ratio), harmonic_acceptance(dimensions, ratio), 1e-9
    )


def test_harmonic_acceptance_near_the_end_of_double_precision():
    """13,000 dimensions at ratio 1.5: ln from the leading term 2 (4R/(1+R)²)^b / (2 sqrt(πb)
    tanh(ln R/2)).
    """
    b, ratio = 13_000 / 2, 1.5
    leading = b * np.log(4 * ratio / (1 + ratio) ** 2) - np.log(
        np.sqrt(np.pi * b) * np.tanh(np.log(ratio) / 2)
    )
    assert np.log(harmonic_acceptance(13_000, ratio)) == pytest.approx(leading, abs=2e-3)
    assert harmonic_acceptance(269_722, 1.2) == 0.0


@pytest.mark.parametrize(
    ("dimensions", "plain", "ten", "hundred"),
    [
        (7850, 7.0e-16, 1.1e-2, 0.42),
        (10690, 4.6e-21, 2.9e-3, 0.34),
        (89290, 3.6e-163, 7.4e-18, 6.4e-3),
        (269722, 0.0, 1.3e-50, 2.2e-6),
    ],
)
def test_well_tempered_acceptance(dimensions, plain, ten, hundred):
    for factor, value in ((1, plain), (10, ten), (100, hundred)):
        assert harmonic_acceptance(dimensions, 1.2, factor) == pytest.approx(value, rel=0.05)


@pytest.mark.parametrize(
    ("dimensions", "factor", "at_12", "at_15"),
    [
        (100, 4, 0.64225, 0.30284),
        (100, 10, 0.75931, 0.49678),
        (1000, 4, 0.14895, 1.3695e-3),
        (13970, 10, 6.5802e-4, 4.1813e-14),
    ],
)
def test_well_tempered_acceptance_at_two_ratios(dimensions, factor, at_12, at_15):
    np.testing.assert_allclose(
        harmonic_acceptance(dimensions, np.array([1.2, 1.5]), factor), [at_12, at_15], rtol=1e-4
    )


def test_gaussian_energies():
    """D ~ N(-x², 2x²): E min(1, e^D) = erfc(x/2), by quadrature."""
    for x in (0.25, 1.0, 3.0):
        z = np.linspace(-12, 12, 200_001)
        density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
        drawn = -x * x + np.sqrt(2) * x * z
        assert np.exp(advices.log_acceptance(x)) == pytest.approx(
            np.trapezoid(density * np.exp(np.minimum(drawn, 0)), z), rel=1e-8
        )
    assert advices.log_acceptance(60.0) == pytest.approx(
        -900 - np.log(30 * np.sqrt(np.pi)), abs=1e-3
    )
    assert np.exp(advices.log_acceptance(2.0)) == pytest.approx(erfc(1.0), rel=1e-12)
    np.testing.assert_allclose(
        advices.spacing(np.array([0.2, 0.3, 0.4])), [1.8124, 1.4657, 1.1902], atol=5e-5
    )


def test_expected_acceptance_from_measured_spreads_is_near_the_exact_one():
    """d = 100, R = 1.2 and 1.5: exact 0.3635 and 0.0439; the larger of the two sd would give 0.318
    and 0.011.
    """
    for ratio, exact in ((1.2, 0.3635), (1.5, 0.0439)):
        own = geometric(3, temperature_ratio=ratio)
        found = ladder_advice(own, energy_sd=own.temperature * np.sqrt(50.0)).acceptance
        np.testing.assert_allclose(found, exact, atol=2e-3)
        careless = np.exp(advices.log_acceptance((1 - 1 / ratio) * ratio * np.sqrt(50.0)))
        assert careless < 0.9 * exact


@pytest.mark.parametrize(
    ("dimensions", "rungs", "ratio"),
    [(7850, 87, 1.0237), (10690, 102, 1.0203), (89290, 291, 1.0070), (269722, 504, 1.0040)],
)
def test_rungs_needed(dimensions, rungs, ratio):
    own = geometric(12, temperature_ratio=1.2)
    for spread in (dict(dimensions=dimensions), dict(heat_capacity=np.full(12, dimensions / 2))):
        found = ladder_advice(own, **spread)
        assert found.num_replicas == rungs and found.hopeless
        temperatures = 1 / found.coordinate
        np.testing.assert_allclose(temperatures[1:] / temperatures[:-1], ratio, rtol=3e-4)
        assert temperatures[-1] == pytest.approx(1.2**11)


def test_eight_rungs_for_a_hundred_dimensions():
    found = ladder_advice(explicit([1.0, 4.0]), dimensions=100)
    assert found.num_replicas == 8
    assert harmonic_acceptance(100, found.coordinate[0] / found.coordinate[1]) == pytest.approx(
        0.3237, abs=5e-5
    )


def test_spread_that_changes_with_temperature():
    """Heat capacity C = a T: x = ∫ sqrt(a T) dT/T = 2 sqrt(a) (sqrt(T) - 1); the new rungs are even
    in sqrt(T).
    """
    temperature = np.geomspace(1, 4, 60)
    own = explicit(temperature)
    found = ladder_advice(own, heat_capacity=30.0 * temperature)
    steps = np.diff(np.sqrt(1 / found.coordinate))
    np.testing.assert_allclose(steps, steps.mean(), rtol=2e-3)
    assert found.num_replicas == 1 + int(np.ceil(2 * np.sqrt(30.0) / 1.46572))
    assert "temperature ratios" not in found.sentences[0] and len(found.sentences) == 1


def test_likelihood_tempering():
    """L of rate λ + c: x = sqrt(d/2) ln((λ + c)/(λ' + c)), λ = 0 included, at two temperatures of
    the rungs.
    """
    for temperature in (1.0, 2.0):
        own = likelihood(12, temperature)
        rate = own.likelihood_weight + 1e-2
        found = ladder_advice(own, energy_sd=temperature * np.sqrt(10.0) / rate)
        distance = np.sqrt(10.0) * np.log(rate[:-1] / rate[1:])
        np.testing.assert_allclose(found.acceptance, erfc(distance / 2), rtol=1e-9)
        assert found.num_replicas == 1 + int(np.ceil(distance.sum() / 1.46572))
        even = found.coordinate * temperature + 1e-2
        np.testing.assert_allclose(even[1:] / even[:-1], even[1] / even[0], rtol=1e-9)
        assert found.bias_factor is None


def test_what_is_said_of_an_impossible_ladder():
    found = ladder_advice(geometric(12, temperature_ratio=1.2), dimensions=7850)
    first, second = found.sentences
    assert "6.6e-16" in first and "would not cross" in first
    for words in (
        "num_replicas 87 (temperature_ratio 1.0236)",
        "T = 7.43",
        "bias_factor 62",
        "129 stiff directions",
    ):
        assert words in second
    assert "up to T = 1.294 only (temperature_ratio 1.0237)" in second
    gamma = found.bias_factor
    assert harmonic_acceptance(7850, 1.2, gamma) == pytest.approx(0.3, abs=0.01)
    healed = ladder_advice(
        geometric(12, temperature_ratio=1.2), dimensions=7850, bias_factor=gamma * 1.01
    )
    assert not healed.hopeless and healed.acceptance.min() > 0.3 and len(healed.sentences) == 1
    assert "e-" in ladder_advice(geometric(4, temperature_ratio=1.2), dimensions=1e6).sentences[0]


def test_a_gap_that_no_bias_closes():
    """With γ → ∞ neighbors are ln R apart: ratio 10 is further than 0.3 allows."""
    found = ladder_advice(explicit([1.0, 10.0]), dimensions=1000)
    assert found.hopeless and found.bias_factor is None and "bias_factor" not in found.sentences[1]


def test_what_is_said_of_a_middling_ladder():
    found = ladder_advice(explicit([1.0, 1.2, 1.8, 2.0]), dimensions=50)
    assert (
        not found.hopeless and "would raise it to 0.3 or more for all pairs" in found.sentences[1]
    )
    assert "between T = 1.2 and 1.8" in found.sentences[0]


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(dimensions=10, heat_capacity=5.0),
        dict(dimensions=-1),
        dict(energy_sd=[1.0, 0.0, 1.0]),
        dict(dimensions=10, acceptance=1.0),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt:RuntimeWarning")
def test_what_is_refused(options):
    with pytest.raises(InputError):
        ladder_advice(geometric(3, temperature_ratio=1.2), **options)


def test_heat_capacity_of_likelihood_tempering_is_refused():
    with pytest.raises(InputError, match="energy_sd"):
        ladder_advice(likelihood(4), dimensions=10)


def autoregressive(walkers: int, rows: int, quantities: int, keeps: float, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    noise = np.sqrt(1 - keeps**2) * random.normal(size=(walkers, rows, quantities))
    noise[:, 0] = random.normal(size=(walkers, quantities))
    for row in range(1, rows):
        noise[:, row] += keeps * noise[:, row - 1]
    return noise


def test_walkers_that_agree_need_no_exchange():
    """Of 200 sets of 8 chains of 400 nearly independent rows none is told that exchange pays, and
    198 that it does not: at 20 quantities R-hat passes 1.1 with a probability below 1e-6.
    """
    said = [exchange_advice(autoregressive(8, 400, 20, 0.3, seed)).pays for seed in range(200)]
    assert said.count(False) >= 198 and True not in said


def test_walkers_that_stay_apart_do():
    """One quantity of two modes, a deviation of 3 apart, each walker in one of them for good; the
    others agree.
    """
    for seed in range(50):
        chains = autoregressive(8, 100, 20, 0.3, seed)
        chains[:, :, 7] += 3.0 * (np.arange(8) % 2)[:, None]
        advice = exchange_advice(chains)
        assert advice.pays and advice.r_hat > 1.4 and advice.kept > 0.8
    assert advice.sentence.startswith("Exchange is likely to pay: 8 walkers stay apart (R-hat 1.")


def test_walkers_on_their_way_are_not_taken_for_stuck():
    """Autocorrelation time 200 in 400 rows: R-hat is large, and means of two halves have little to
    do with another.
    """
    said = [exchange_advice(autoregressive(16, 400, 1, 0.99, seed)).pays for seed in range(50)]
    assert said.count(None) >= 45


def test_the_barrier_from_energies():
    """Of a harmonic well x = √(d/2) ln R: Λ = √(d/2π) ln(T_max/T), here the mean rejections of 40
    rungs.
    """
    ladder = geometric(40, max_temperature=10.0)
    advice = exchange_advice(
        autoregressive(8, 100, 1, 0.0, 0), ladder, np.sqrt(50.0) * ladder.temperature
    )
    exact = 39 * (1 - harmonic_acceptance(100, 10 ** (1 / 39)))
    assert advice.barrier == pytest.approx(exact, rel=0.02)
    assert f"barrier is {advice.barrier:.1f}" in advice.sentence


@pytest.mark.parametrize(
    "arguments",
    [
        (np.zeros((3, 50)),),
        (np.zeros((8, 9)),),
        (np.full((8, 50), np.nan),),
        (np.zeros((8, 50)), geometric(4, 1, 2.0)),
    ],
)
def test_what_advice_on_exchange_refuses(arguments):
    with pytest.raises(InputError, match=r"^Advice"):
        exchange_advice(*arguments)
