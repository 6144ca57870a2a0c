"""Ladders: temperatures, what is refused, and rungs that move until neighbors reject equally.

On harmonic wells the acceptance of neighbors is known (`harmonic_acceptance`): at temperature ratio
R, 2 I_{1/(1+R)} (d/2, d/2). With a Gaussian prior of c times the precision of the data, likelihood
tempering has the same law with R = (λ + c)/(λ' + c): rung λ has loss energies Gamma(d/2) of rate λ
+ c.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exchange import ladder as ladders
from tati_re.exchange.advice import harmonic_acceptance
from tati_re.exchange.ladder import Ladder, explicit, geometric, likelihood, make_ladder


def test_geometric_starts_at_the_target():
    """T_j = T R^j from j = 0: 12 rungs of ratio 1.2 end at 1.2^11 = 7.43, 7 of 1.5 at 11.39."""
    own = geometric(12, temperature_ratio=1.2)
    assert own.temperature[0] == 1.0 and own.temperature[-1] == pytest.approx(7.430, abs=5e-4)
    assert geometric(7, temperature_ratio=1.5).temperature[-1] == pytest.approx(11.391, abs=5e-4)
    same = geometric(12, max_temperature=1.2**11)
    np.testing.assert_allclose(same.temperature, own.temperature, rtol=1e-14)
    assert geometric(16, 0.01, max_temperature=1.0).temperature[1] / 0.01 == pytest.approx(
        1.359356, abs=5e-7
    )
    assert all(values.dtype == np.float64 for values in own)


def test_ladders_of_options():
    assert make_ladder().temperature.tolist() == [1.0] and make_ladder().num_rungs == 1
    assert make_ladder(num_replicas=1, temperature=2.0).temperature.tolist() == [2.0]
    own = make_ladder(temperatures=[0.5, 1.0, 4.0], step_sizes=[0.1, 0.2, 0.3])
    assert own.temperature.tolist() == [0.5, 1.0, 4.0] and own.step_size.tolist() == [0.1, 0.2, 0.3]
    assert own.tempering == "posterior" and not own.draws_prior
    own = make_ladder(num_replicas=5, tempering="likelihood", temperature=2.0, step_size=0.1)
    np.testing.assert_allclose(own.likelihood_weight, np.array([4, 3, 2, 1, 0]) ** 5 / 4**5)
    assert (
        own.draws_prior and own.tempering == "likelihood" and (own.inverse_temperature == 0.5).all()
    )


@pytest.mark.parametrize(
    "options",
    [
        dict(num_replicas=4),
        dict(num_replicas=1, temperature_ratio=1.2),
        dict(num_replicas=0, temperature_ratio=1.2),
        dict(num_replicas=True, temperature_ratio=1.2),
        dict(num_replicas=2.5, temperature_ratio=1.2),
        dict(num_replicas=4, temperature_ratio=1.2, max_temperature=2.0),
        dict(num_replicas=4, temperature_ratio=1.0),
        dict(num_replicas=4, temperature_ratio=float("nan")),
        dict(num_replicas=400, temperature_ratio=1e10),
        dict(num_replicas=4, max_temperature=1.0),
        dict(num_replicas=4, max_temperature=2.0, temperature=3.0),
        dict(num_replicas=4, temperature_ratio=1.2, temperature=-1.0),
        dict(temperature_ratio=1.2),
        dict(max_temperature=4.0),
        dict(temperatures=[1.0, 2.0], temperature_ratio=2.0),
        dict(temperatures=[1.0, 2.0], num_replicas=3),
        dict(temperatures=[2.0, 4.0], temperature=1.0),
        dict(temperatures=[1.0, 3.0, 2.0]),
        dict(temperatures=[1.0, 1.0]),
        dict(temperatures=[1.0]),
        dict(temperatures=[]),
        dict(temperatures=["a", "b"]),
        dict(temperatures=[0.0, 1.0]),
        dict(temperatures=[1.0, float("inf")]),
        dict(temperatures=3.0),
        dict(tempering="prior", num_replicas=4),
        dict(tempering="likelihood"),
        dict(tempering="likelihood", num_replicas=1),
        dict(tempering="likelihood", num_replicas=4, temperature_ratio=1.2),
        dict(tempering="likelihood", num_replicas=4, temperatures=[1.0, 2.0]),
        dict(num_replicas=4, temperature_ratio=1.2, step_size=0.1, step_sizes=[0.1] * 4),
        dict(num_replicas=4, temperature_ratio=1.2, step_sizes=[0.1] * 3),
        dict(num_replicas=4, temperature_ratio=1.2, step_sizes=[0.1, 0.1, 0.1, -0.1]),
        dict(num_replicas=4, temperature_ratio=1.2, step_size=0.0),
    ],
)
def test_what_is_refused(options):
    with pytest.raises(InputError):
        make_ladder(**options)


def test_power_below_one_is_refused():
    with pytest.raises(InputError, match="power"):
        likelihood(4, power=0.5)


def temperature_rejection(ladder: Ladder, dimensions: np.ndarray) -> np.ndarray:
    """Of neighbors on harmonic wells; one number of dimensions for each pair, as if it changed with
    T.
    """
    temperature = ladder.temperature
    return 1 - harmonic_acceptance(dimensions, temperature[1:] / temperature[:-1])


def weight_rejection(ladder: Ladder, dimensions: int, prior_part: float) -> np.ndarray:
    rate = ladder.likelihood_weight + prior_part
    return 1 - harmonic_acceptance(dimensions, rate[:-1] / rate[1:])


def test_temperatures_become_geometric_on_a_harmonic_well():
    own = explicit([1.0, 1.1, 1.3, 3.0, 3.5, 4.0])
    for _ in range(20):
        own = own.adapted(temperature_rejection(own, np.full(5, 20)))
    np.testing.assert_allclose(
        own.temperature, geometric(6, max_temperature=4.0).temperature, rtol=1e-6
    )
    assert own.inverse_temperature[0] == 1.0 and own.inverse_temperature[-1] == 0.25


@pytest.mark.parametrize("prior_part", [1e-4, 1e-2, 1.0])
def test_likelihood_weights_reject_equally_after_adaptation(prior_part):
    """λ = 0 stays the last rung, and the rung before it finds its place."""
    own = likelihood(12)
    for _ in range(30):
        own = own.adapted(weight_rejection(own, 20, prior_part))
    rejection = weight_rejection(own, 20, prior_part)
    assert np.ptp(rejection) < 1e-4 and own.draws_prior and own.likelihood_weight[0] == 1.0
    even = np.exp(np.linspace(np.log(1 + prior_part), np.log(prior_part), 12)) - prior_part
    np.testing.assert_allclose(own.likelihood_weight, even, atol=1e-4)


def test_fifth_powers_open_no_gap_where_even_weights_do():
    worst = {
        power: 1 - weight_rejection(likelihood(12, power=power), 20, 1e-3).max()
        for power in (1.0, 5.0)
    }
    assert worst[5.0] > 0.015 and worst[1.0] < 1e-6


def test_measured_rejections_find_the_barrier_of_a_bumpy_heat_capacity():
    """r as |Δ log β| times a density with a peak: the adapted rungs have equal parts of its
    integral.
    """
    edges = np.linspace(0.0, np.log(8.0), 4001)
    summed = np.concatenate([[0], np.cumsum(0.2 + 2.0 * np.exp(-((edges[1:] - 1.2) ** 2) / 0.05))])
    summed *= 2.0 / summed[-1]

    own = geometric(16, max_temperature=8.0)
    for _ in range(40):
        own = own.adapted(np.diff(np.interp(np.log(own.temperature), edges, summed)))
    parts = np.diff(np.interp(np.log(own.temperature), edges, summed))
    np.testing.assert_allclose(parts, 2.0 / 15, atol=2e-4)


def test_rungs_stay_in_order_and_in_place_where_nothing_is_rejected():
    own = geometric(6, max_temperature=4.0)
    np.testing.assert_allclose(own.adapted(np.zeros(5)).temperature, own.temperature, rtol=1e-12)
    moved = own.adapted(np.array([0.0, 0.0, 1.0, 0.0, 0.0])).temperature
    assert (
        (np.diff(moved) > 0).all()
        and moved[1] > own.temperature[2]
        and moved[4] < own.temperature[3]
    )


@pytest.mark.parametrize("coordinate", ["logarithm", "power"])
def test_adaptation_under_xla(coordinate):
    values = (
        np.array([1.0, 0.7, 0.2, 0.1])
        if coordinate == "logarithm"
        else likelihood(4).likelihood_weight
    )
    rejection = np.array([0.3, 0.8, 0.1])

    @tf.function(jit_compile=True, autograph=False)
    def compiled(values, rejection):
        return (
            ladders.adapted(values, rejection, coordinate),
            ladders.barrier(rejection),
            ladders.round_trip_rate(rejection),
        )

    theirs = compiled(tf.constant(values), tf.constant(rejection))
    own = (
        ladders.adapted(values, rejection, coordinate),
        ladders.barrier(rejection),
        ladders.round_trip_rate(rejection),
    )
    for a, b in zip(theirs, own, strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-13)


def test_round_trips():
    assert ladders.round_trip_rate(np.zeros(7)) == 0.5
    assert ladders.round_trip_rate(np.array([0.5, 0.5, 0.5])) == 1 / 8
    assert ladders.round_trip_rate(np.array([0.5, 1.0])) == 0.0
    assert ladders.barrier(np.array([0.5, 0.25])) == 0.75
