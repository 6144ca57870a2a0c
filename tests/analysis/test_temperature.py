"""Temperatures of a table whose kinetic energies and virials are drawn from the law they should
have.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from tati_re.analysis import (
    configurational_temperature,
    kinetic_temperature,
    target_temperature,
    temperatures,
)
from tati_re.analysis.temperature import measured_temperature
from tati_re.core.errors import InputError
from tati_re.runs.manifest import Manifest
from tati_re.summary.temperatures import temperature_note, temperature_text
from tests.analysis.test_convergence import autoregression

WALKERS, ROWS, PARAMETERS, TARGET = 4, 1000, 50, 0.5


def table(seed=1, kinetic=1.0, configurational=1.0, burnin=0):
    """Rows with p'p/T and θ·∇U/T chi-square distributed with P degrees of freedom, each scaled by a
    factor.
    """
    generator = np.random.default_rng(seed)
    shape = (ROWS, WALKERS)
    energy = 0.5 * TARGET * kinetic * generator.chisquare(PARAMETERS, shape)
    virial = 0.5 * TARGET * configurational * generator.chisquare(PARAMETERS, shape)
    energy[:burnin] *= 100.0
    virial[:burnin] *= 100.0
    step, walker = np.meshgrid(10 * np.arange(1, ROWS + 1), np.arange(WALKERS), indexing="ij")
    columns = {"step": step, "walker": walker, "kinetic_energy": energy, "virial": virial}
    return pd.DataFrame(
        {name: value.ravel() for name, value in columns.items()} | {"temperature": TARGET}
    )


def test_both_lie_in_bands_of_the_right_width():
    kinetic, configurational = temperatures(table(), PARAMETERS)
    half = 3.9 * TARGET * np.sqrt(2 / PARAMETERS) / np.sqrt(WALKERS * ROWS)
    for found, kind in ((kinetic, "kinetic"), (configurational, "configurational")):
        assert found.kind == kind
        assert found.target == TARGET
        assert found.in_band
        assert found.upper - found.target == pytest.approx(half, rel=0.1), (
            "rows are independent: n_eff = n"
        )
        assert found.target - found.lower == pytest.approx(found.upper - found.target, rel=0.01)
        assert found.effective_sample_size == pytest.approx(WALKERS * ROWS, rel=0.15)


def test_the_band_holds_its_promise():
    """z = 3.9 leaves out 1e-4 of all means: none of 100 correct tables; the z scores have variance
    1 (5.5 errors).
    """
    found = [kinetic_temperature(table(seed), PARAMETERS) for seed in range(100)]
    z = np.array([3.9 * (one.mean - one.target) / (one.upper - one.target) for one in found])
    assert all(one.in_band for one in found)
    assert z.std() == pytest.approx(1.0, abs=5.5 / np.sqrt(200))


def left_bands(phi, walkers, rows, parameters, kind, level, runs=2000):
    """Of correct runs with p = an autoregression of unit variance, the part outside the band and
    that with one.
    """
    p = autoregression(phi, runs * walkers * parameters, rows, seed=11).reshape(
        runs, walkers, parameters, rows
    )
    found = [
        measured_temperature(0.5 * each, kind, parameters, 1.0, level)
        for each in (p**2).sum(axis=2)
    ]
    return np.mean([one.verdict == "failed" for one in found]), np.mean(
        [one.upper < np.inf for one in found]
    )


@pytest.mark.parametrize(
    ("phi", "walkers", "rows", "parameters"),
    [
        (0.9, 1, 100, 1),
        (0.97, 1, 40, 10),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                (0.5, 8, 20, 2),
                (0.9, 4, 100, 2),
                (0.5, 1, 40, 1),
                (0.0, 8, 16, 1),
                (0.97, 32, 20, 1),
                (0.9, 1, 1000, 10),
            ]
        ),
    ],
)
def test_short_chains_leave_the_band_at_most_twice_as_often_as_said(phi, walkers, rows, parameters):
    """2,000 correct runs at 1e-4 and, where 2,000 have more power, at 1e-2: no more than a chance
    of twice the level gives but for once in 10,000 times, which is 4 and 69.
    """
    for kind, level in (("kinetic", 1e-2), ("configurational", 1e-4)):
        outside, told = left_bands(phi, walkers, rows, parameters, kind, level)
        assert 2000 * outside <= binom.isf(1e-4, 2000, 2 * level), (kind, level)
        assert told > 0.9 or phi > 0.5 or walkers * rows * parameters <= 40, (
            "a verdict where there are rows enough"
        )


def test_a_run_that_is_too_short_has_no_verdict():
    chain = np.linspace(10.0, 11.0, 40)
    for rows in (chain, chain[:15]):
        found = measured_temperature(rows, "configurational", 1, 1.0)
        assert (
            (found.verdict, found.reason) == ("not measured", "too short")
            and found.in_band
            and np.isinf([found.lower, found.upper]).all()
        )
        assert (
            "not measured: the run is too short" in temperature_text(found)
            and temperature_note(found, Manifest()) is None
        )
    # Some 20 effective rows: the band would be -3 to 5, and no mean lies below it; one above it is
    # still found.
    few = 6.5 * (1 + 0.05 * autoregression(0.85, 1, 150, seed=3)[0])
    found = measured_temperature(few, "kinetic", 13, 1.0)
    assert 8 < found.effective_sample_size < 24 and found.reason == "too short"
    assert "band" not in temperature_text(found)
    assert measured_temperature(1e4 * few, "kinetic", 13, 1.0).reason == "above"
    scattered = 500 * np.random.default_rng(0).standard_normal(3_000)  # as of positions far from 0
    found = measured_temperature(scattered, "configurational", 1, 1.0)
    assert "not measured: too noisy" in temperature_text(found)
    still = measured_temperature(np.ones(40), "kinetic", 1, 1.0)
    assert (
        (still.verdict, still.reason) == ("not measured", "never changes")
        and temperature_note(still, Manifest()) is None
        and temperature_text(still)
    )


def test_wrong_temperatures_lie_outside():
    """The band is 1.2 % wide here: a bias of 3 % must show, in the quantity that has it and only
    there.
    """
    for factor in (0.97, 1.03):
        kinetic, configurational = temperatures(table(kinetic=factor), PARAMETERS)
        assert not kinetic.in_band
        assert configurational.in_band
        kinetic, configurational = temperatures(table(configurational=factor), PARAMETERS)
        assert kinetic.in_band
        assert not configurational.in_band


def test_burnin_is_left_out():
    rows = table(burnin=200)
    assert not kinetic_temperature(rows, PARAMETERS).in_band
    assert kinetic_temperature(rows, PARAMETERS, num_burnin_steps=2000).in_band
    assert configurational_temperature(rows, PARAMETERS, num_burnin_steps=2000).in_band


def test_without_momenta_there_is_no_kinetic_temperature():
    rows = table().assign(kinetic_energy=np.nan)
    assert kinetic_temperature(rows, PARAMETERS) is None
    assert [one.kind for one in temperatures(rows, PARAMETERS)] == ["configurational"]
    assert kinetic_temperature(rows.drop(columns="kinetic_energy"), PARAMETERS) is None


def test_one_temperature_is_needed():
    rows = table()
    assert target_temperature(rows) == TARGET
    rows.loc[rows["step"] > 5000, "temperature"] = 1.0
    with pytest.raises(
        InputError, match=r"one temperature\. Received: 0\.5, 1\. Expected: one value above 0"
    ):
        temperatures(rows, PARAMETERS)
    assert target_temperature(rows, num_burnin_steps=5000) == 1.0
    with pytest.raises(InputError, match="Received: none"):
        target_temperature(rows.assign(temperature=np.nan))
    with pytest.raises(InputError, match="number of parameters"):
        temperatures(rows, 0)


def test_a_bias_is_undone_in_the_temperature_of_positions_alone():
    """U drawn at T' = 1.5 and weighted back to T = 1: the weighted virial has the target, the
    unweighted one 1.5. With weights exp(-U/3), of relative variance 1.7, z = 5.5 is 5 % here.
    """
    generator = np.random.default_rng(4)
    rows = table().assign(temperature=1.0)
    energies = 0.5 * generator.chisquare(8, (2, len(rows)))
    rows = rows.assign(
        kinetic_energy=energies[0], virial=1.5 * energies[1], weight=np.exp(-0.5 * energies[1])
    )
    kinetic, configurational = temperatures(rows, 8)
    assert kinetic.mean == pytest.approx(2 * energies[0].mean() / 8) and kinetic.in_band
    assert configurational.mean == pytest.approx(1.0, abs=0.05) and configurational.in_band
    assert configurational.effective_sample_size < 0.8 * kinetic.effective_sample_size


def test_rows_of_walkers_that_come_and_leave_all_count():
    """Walker 0 has all of its rows, walker 1 thirty, the others one each: means were of one row of
    each walker.
    """
    rows = table()
    left = {0: ROWS, 1: 30, 2: 1, 3: 1}
    rows = rows[rows.groupby("walker").cumcount() < rows["walker"].map(left)]
    kinetic, configurational = temperatures(rows, PARAMETERS)
    assert kinetic.mean == pytest.approx(2 * rows["kinetic_energy"].mean() / PARAMETERS)
    assert kinetic.effective_sample_size == pytest.approx(len(rows), rel=0.3)
    assert kinetic.in_band and configurational.in_band and configurational.upper < np.inf
