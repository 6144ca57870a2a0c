"""Temperatures of groups: bands that hold, a layer that is off and is found, and what a run
records.
"""

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re.analysis.temperature import chi_square_band, group_sentences, group_temperatures
from tati_re.cli import analyse
from tati_re.core.errors import InputError
from tati_re.plotting.analysis import plot_group_temperatures
from tests.made_runs import made_run

SHAPES = {
    "dense/kernel": (4, 10),
    "dense/bias": (10,),
    "dense_1/kernel": (10, 1),
    "dense_1/bias": (1,),
}
T, ROWS = 2.0, 500


def energies(seed, factors=(1.0, 1.0, 1.0, 1.0)):
    generator = np.random.default_rng(seed)
    columns = {}
    for (name, shape), factor in zip(SHAPES.items(), factors, strict=True):
        number = int(np.prod(shape))
        columns[f"kinetic_energy({name})"] = (
            0.5 * T * factor * generator.chisquare(number, (4, ROWS))
        )
        normal = generator.standard_normal((4, ROWS, number)) * generator.standard_normal(
            (4, ROWS, number)
        )
        columns[f"virial({name})"] = 0.5 * T * (factor * number + normal.sum(axis=2))
    return columns


def test_bands_hold_and_a_hot_layer_is_found(tmp_path):
    table = group_temperatures(made_run(tmp_path / "a", energies(1), temperature=T, shapes=SHAPES))
    assert table["group"].tolist() == [*SHAPES, "all"] * 2
    assert table["parameters"].tolist() == [40, 10, 10, 1, 61] * 2
    assert (table["verdict"] == "passed").all() and group_sentences(table, True) == []
    np.testing.assert_allclose(table["mean"], T, rtol=0.15)
    hot = made_run(tmp_path / "b", energies(1, (1.0, 1.0, 1.1, 1.0)), temperature=T, shapes=SHAPES)
    table = group_temperatures(hot)
    off = table[(table["verdict"] != "passed") & (table["group"] != "all")]
    assert off["group"].tolist() == ["dense_1/kernel"] * len(off) and set(off["reason"]) == {
        "above"
    }
    assert "kinetic" in set(off["temperature"])
    assert (
        "above its band in dense_1/kernel (2.2); gradient noise heats"
        in group_sentences(table, True)[0]
    )
    layers = group_temperatures(hot, by="layer")
    assert layers["group"].tolist() == ["dense", "dense_1", "all"] * 2
    assert layers["verdict"][:2].tolist() == ["passed", "failed"]
    assert group_temperatures(hot, by="kind")["group"].tolist() == ["kernel", "bias", "all"] * 2
    figure = plot_group_temperatures(table, tmp_path / "t.png")
    assert len(figure.axes) == 2 and (tmp_path / "t.png").stat().st_size > 5000
    assert analyse.main([str(hot.folder), "--groups", "layer", "--quiet"]) == 0
    names = {path.name for path in (hot.folder / "analysis").iterdir()}
    assert {"temperatures.csv", "temperatures.png", "averages.csv"} <= names


def test_the_band_is_that_of_the_mean_of_a_chi_square_law():
    lower, upper = chi_square_band(1, 50.0, T)
    draws = T * np.random.default_rng(2).chisquare(1, (20_000, 50)).mean(axis=1)
    outside = np.mean((draws < lower) | (draws > upper))
    assert outside <= 10 / 20_000, "expected 2 of 20,000"
    assert upper - T > 1.3 * (T - lower), "not symmetric for few numbers"
    wide = chi_square_band(10_000, 100.0)
    np.testing.assert_allclose(
        wide, [1 - 3.89 * np.sqrt(2e-6), 1 + 3.89 * np.sqrt(2e-6)], rtol=1e-4
    )
    assert chi2.cdf(lower * 50 / T, 50) == pytest.approx(5e-5)


def test_bad_input(tmp_path):
    run = made_run(tmp_path / "a", {"loss": np.random.default_rng(1).random((2, 50))})
    with pytest.raises(InputError, match="recorded no temperatures of groups"):
        group_temperatures(run)
    with pytest.raises(InputError, match="by: unknown value"):
        group_temperatures(run, by="colour")


def test_a_run_records_them():
    import tati_re

    system = {
        "data": "two_clusters",
        "hidden": [2],
        "num_walkers": 2,
        "execution": "graph",
        "verbose": 0,
    }
    sim = tati_re.Simulation(
        **system, loss="mean_squared_error", potential="mean_loss", dtype="float64", seed=1
    )
    run = sim.sample(
        step_size=0.05, num_steps=60, record_every=1, trajectory_every=0, group_temperatures=True
    )
    rows = run.run_info
    for name in ("kinetic_energy", "virial"):
        parts = [f"{name}({tensor})" for tensor in run.manifest["parameters"]["names"]]
        np.testing.assert_allclose(rows[parts].sum(axis=1), rows[name], rtol=1e-10, atol=1e-12)
    table = group_temperatures(run, by="layer")
    assert table["group"].tolist() == ["dense", "dense_1", "all"] * 2
    assert table["parameters"].tolist() == [6, 3, 9] * 2


def test_positions_that_nothing_confines_have_no_target(tmp_path):
    """A temperature of the positions was judged, and told as heat, where a flat direction or a wall
    gives it none.
    """
    free = made_run(
        tmp_path / "free",
        energies(1, (1.0, 1.0, 2.0, 1.0)),
        temperature=T,
        shapes=SHAPES,
        extra={"prior_proper": False},
    )
    table = group_temperatures(free)
    positions = table[table["temperature"] == "configurational"]
    assert set(positions["reason"]) == {"no target"} and positions["upper"].isna().all()
    assert [
        sentence for sentence in group_sentences(table, True) if "configurational" in sentence
    ] == []
    assert table[table["temperature"] == "kinetic"]["reason"].tolist()[2] == "above"
    assert len(plot_group_temperatures(table).axes) == 2
