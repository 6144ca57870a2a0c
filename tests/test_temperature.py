"""Temperatures of a table whose kinetic energies and virials are drawn from the law they should have."""

import numpy as np
import pandas as pd
import pytest

from tati_re.analysis import configurational_temperature, kinetic_temperature, target_temperature, temperatures
from tati_re.core.errors import InputError

WALKERS, ROWS, PARAMETERS, TARGET = 4, 1000, 50, 0.5


def table(seed=1, kinetic=1.0, configurational=1.0, burnin=0):
    """Rows with p'p/T and θ·∇U/T chi-square distributed with P degrees of freedom, each scaled by a factor."""
    generator = np.random.default_rng(seed)
    shape = (ROWS, WALKERS)
    energy = 0.5 * TARGET * kinetic * generator.chisquare(PARAMETERS, shape)
    virial = 0.5 * TARGET * configurational * generator.chisquare(PARAMETERS, shape)
    energy[:burnin] *= 100.0
    virial[:burnin] *= 100.0
    step, walker = np.meshgrid(10 * np.arange(1, ROWS + 1), np.arange(WALKERS), indexing="ij")
    columns = {"step": step, "walker": walker, "kinetic_energy": energy, "virial": virial}
    return pd.DataFrame({name: value.ravel() for name, value in columns.items()} | {"temperature": TARGET})


def test_both_lie_in_bands_of_the_right_width():
    kinetic, configurational = temperatures(table(), PARAMETERS)
    half = 3.9 * TARGET * np.sqrt(2 / PARAMETERS) / np.sqrt(WALKERS * ROWS)
    for found, kind in ((kinetic, "kinetic"), (configurational, "configurational")):
        assert found.kind == kind
        assert found.target == TARGET
        assert found.in_band
        assert found.upper - found.target == pytest.approx(half, rel=0.1), "rows are independent: n_eff = n"
        assert found.target - found.lower == pytest.approx(found.upper - found.target)
        assert found.effective_sample_size == pytest.approx(WALKERS * ROWS, rel=0.15)


def test_the_band_holds_its_promise():
    """z = 3.9 leaves out 1e-4 of all means: none of 100 correct tables; the z scores have variance 1 (5.5 errors)."""
    found = [kinetic_temperature(table(seed), PARAMETERS) for seed in range(100)]
    z = np.array([3.9 * (one.mean - one.target) / (one.upper - one.target) for one in found])
    assert all(one.in_band for one in found)
    assert z.std() == pytest.approx(1.0, abs=5.5 / np.sqrt(200))


def test_wrong_temperatures_lie_outside():
    """The band is 1.2 % wide here: a bias of 3 % must show, in the quantity that has it and only there."""
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
    with pytest.raises(InputError, match=r"one temperature\. Received: 0\.5, 1\. Expected: one value above 0"):
        temperatures(rows, PARAMETERS)
    assert target_temperature(rows, num_burnin_steps=5000) == 1.0
    with pytest.raises(InputError, match="Received: none"):
        target_temperature(rows.assign(temperature=np.nan))
    with pytest.raises(InputError, match="number of parameters"):
        temperatures(rows, 0)
