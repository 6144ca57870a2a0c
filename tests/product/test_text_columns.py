"""A table with a column of text: sampled, predicted, resumed, compressed and exported."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import landscape
from tati_re.data.categories import Categories

SHORT = {"sampler": "MCLMC", "step_size": 0.01, "num_steps": 40, "goal": "posterior"}


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(4)
    region = random.choice(["north", "south", "east"], 80)
    age = random.uniform(20.0, 70.0, 80)
    cost = age + 30.0 * (region == "south") + random.normal(size=80)
    return pd.DataFrame({"age": age, "region": region, "cost": cost})


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    table.to_csv(folder / "own.csv", index=False)
    sim = tati_re.Simulation(
        data=str(folder / "own.csv"), hidden=[3], num_walkers=2, seed=1, verbose=0
    )
    return sim.sample(**SHORT, output=str(folder / "run"))


def means(prediction):
    return prediction.frame()["mean"].to_numpy()


@pytest.mark.filterwarnings("ignore")
def test_a_run_and_all_that_is_made_of_it_take_texts(run, table, tmp_path):
    rows = table.iloc[:4].drop(columns="cost")
    expected = means(run.predict(rows))
    codes = rows.assign(region=rows["region"].map({"east": 0, "north": 1, "south": 2}))

    assert means(tati_re.load(run.folder).predict(rows.to_dict("records"))) == pytest.approx(
        expected
    )
    assert means(run.predict(codes)) == pytest.approx(expected)
    other = rows.assign(region=np.roll(rows["region"], 1))
    assert not np.allclose(means(run.predict(other)), expected)

    predictor = run.compress(members=2)
    predictor.save(tmp_path / "p.tati")
    again = tati_re.Predictor.load(tmp_path / "p.tati")
    assert again.categories == {"region": ("east", "north", "south")}
    ranges = again.training_ranges
    assert ranges.loc["region", "categories"] == ("east", "north", "south")
    assert np.isnan(ranges.loc["region", ["low", "high"]].astype(float)).all()
    assert 20 <= ranges.loc["age", "low"] < ranges.loc["age", "high"] <= 70
    assert ranges.loc["age", "categories"] == ()
    of_two = means(predictor.predict(rows))
    assert means(again.predict(rows)) == pytest.approx(of_two)
    exported = predictor.to_keras().predict(codes.to_numpy(float), verbose=0)
    assert np.ravel(exported["mean"]) == pytest.approx(of_two, rel=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_texts_are_looked_up_once(run, table, monkeypatch):
    """A frame of many rows was encoded for the ranges, for its number, and twice for the network."""
    calls = []
    codes = Categories.codes

    def counted(self, cells, where):
        calls.append(len(cells))
        return codes(self, cells, where)

    monkeypatch.setattr(Categories, "codes", counted)
    rows = table.drop(columns="cost")
    run.predict(rows)
    assert calls == [len(rows)]
    tati_re.predict([run, tati_re.load(run.folder)], table)
    assert calls == [len(rows)] * 2


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_run_for_predictions_chooses_among_networks_of_these_inputs(table, monkeypatch):
    # Beside other work five seconds of the clock are too few.
    monkeypatch.setattr(time, "monotonic", time.process_time)
    run = tati_re.Simulation(data=table, seed=1, verbose=0).sample(max_time=5.0)
    south = run.predict([{"age": 40.0, "region": "south"}]).mean
    north = run.predict([{"age": 40.0, "region": "north"}]).mean
    assert float(south[0, 0] - north[0, 0]) == pytest.approx(30.0, abs=10.0)


@pytest.mark.filterwarnings("ignore")
def test_a_new_category_is_refused_in_one_sentence(run, table):
    with pytest.raises(tati_re.InputError, match=r"holds a category that the training data lack"):
        run.predict(table.iloc[:2].assign(region="west"))


@pytest.mark.filterwarnings("ignore")
def test_a_run_goes_on(run):
    longer = tati_re.Simulation.resume(run.folder, num_steps=60, verbose=0)
    assert longer.manifest["options"]["num_steps"] == 60
    assert longer.run_info["step"].max() == 60


@pytest.mark.filterwarnings("ignore")
def test_a_grid_holds_text_at_a_category(run):
    space = landscape.input_space(run, along=["age"])
    assert "most frequent category" in space.others
    assert {*space.inputs[:, 1]} <= {0.0, 1.0, 2.0}
    both = landscape.input_space(run, along=["age", "region"])
    assert {*both.inputs[:, 1]} == {0.0, 1.0, 2.0}
