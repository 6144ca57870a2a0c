"""Weights of chains by leave-one-out density, and where they count."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import tati_re
from tati_re.core.errors import InputError
from tati_re.prediction import average, chain_weights, source_of
from tati_re.prediction.draws import Members, resampled
from tati_re.prediction.held_out import EQUAL_CHAINS, POSTERIOR
from tati_re.prediction.leave_one_out import leave_one_out
from tati_re.prediction.left_out import left_out
from tati_re.prediction.stacking import (
    EQUAL,
    STACKING,
    chain_densities,
    mixture_density,
    stacking_weights,
    stored_stacking,
    weighted_leave_one_out,
)
from tati_re.runs import files
from tati_re.runs.csv_table import frame_text
from tati_re.runs.fits import Fits
from tati_re.runs.positions import Positions

RUN = {
    "sampler": "BAOAB",
    "step_size": 1e-5,
    "num_steps": 200,
    "num_burnin_steps": 0,
    "trajectory_every": 5,
    "verbose": 0,
}


def _simulation(**options):
    random = np.random.default_rng(1)
    inputs = random.standard_normal((80, 2))
    targets = 3 * inputs[:, 0] + random.standard_normal(80)
    choices = {"data": (inputs, targets), "hidden": [3], "num_walkers": 3, "seed": 2, "verbose": 0}
    return tati_re.Simulation(**(choices | {"test_fraction": 0.25} | options))


def _with_a_stuck_chain(**options):
    """Chains that hardly move: two from fits, the last one far from the data."""
    simulation = _simulation(walker_start="fresh")
    simulation.fit(num_steps=300, learning_rate=0.02, optimizer="Adam")
    places = np.array(simulation.parameters)
    places[2] += 1.5 * np.random.default_rng(4).standard_normal(places.shape[1])
    simulation.parameters = places
    simulation.walkers.fits = Fits(places)
    return simulation.sample(**RUN, **options)


@pytest.fixture(scope="module")
def stuck():
    return _with_a_stuck_chain(weights="stacking")


def brute_force(logs: np.ndarray, steps: int = 100) -> tuple[np.ndarray, float]:
    """The best weights on a grid of the simplex, and their density."""
    count = logs.shape[1]
    grids = np.meshgrid(*[np.arange(steps + 1)] * (count - 1), indexing="ij")
    first = np.stack([grid.ravel() for grid in grids], axis=1)
    first = first[first.sum(axis=1) <= steps]
    every = np.column_stack([first, steps - first.sum(axis=1)]) / steps
    densities = [mixture_density(logs, weight) for weight in every]
    best = int(np.argmax(densities))
    return every[best], densities[best]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_weights_are_those_of_a_search_of_all(count, seed):
    random = np.random.default_rng(seed)
    logs = random.normal(0, 1.5, (40, count)) - 0.4 * seed * np.arange(count)
    weight = stacking_weights(logs)
    grid, density = brute_force(logs)
    assert weight.sum() == pytest.approx(1) and (weight >= 0).all()
    assert density - 1e-9 <= mixture_density(logs, weight) <= density + 2e-3
    assert np.abs(weight - grid).max() < 0.03


def test_no_direction_leads_up():
    """At the maximum the mean of p_k over the mixture is 1 where a chain counts, and at most 1."""
    random = np.random.default_rng(5)
    logs = random.normal(0, 1.0, (300, 8))
    weight = stacking_weights(logs)
    ratios = np.exp(logs - logsumexp(logs, b=weight, axis=1, keepdims=True)).mean(axis=0)
    assert ratios.max() < 1 + 1e-5
    assert np.abs(ratios[weight > 1e-3] - 1).max() < 1e-4


def test_chains_that_know_other_rows_share_the_weight():
    """Weights by exp(elpd) take one of them, and predict worse: that is another method."""
    random = np.random.default_rng(6)
    logs = np.full((200, 3), -1.0)
    logs[:90, 0], logs[90:, 1] = -4.0, -4.0
    logs[:, 2] = -6.0
    logs += 0.1 * random.standard_normal(logs.shape)
    weight = stacking_weights(logs)
    assert abs(weight[0] - 0.55) < 0.05 and weight[2] == 0.0
    total = logs.sum(axis=0)
    wrong = np.exp(total - logsumexp(total))
    assert wrong.max() > 0.999
    assert mixture_density(logs, weight) > mixture_density(logs, wrong) + 0.3


def test_chains_of_equal_quality_lose_nothing():
    """On rows that the weights have not seen: at most .01 nats in each of 20 trials."""
    for seed in range(20):
        random = np.random.default_rng(100 + seed)
        centers = 0.3 * random.standard_normal(8)
        rows = random.standard_normal((2, 400))
        logs = -0.5 * (rows[..., None] - centers) ** 2
        weight = stacking_weights(logs[0])
        equal = mixture_density(logs[1], np.full(8, 1 / 8))
        assert mixture_density(logs[1], weight) > equal - 0.01


def test_a_stuck_chain_gets_no_weight(stuck):
    found = chain_weights(stuck)
    assert found.weight[2] < 1e-3 and found.weight[:2].sum() > 0.999
    assert found.stacked > found.equal + 0.1 and found.elpd[2] < found.elpd[:2].min() - 1
    logs, _, rows = chain_densities(stuck)
    assert found.rows == len(rows) == 60
    assert found.stacked == pytest.approx(mixture_density(logs, found.weight))


def test_predictions_count_chains_by_their_weights(stuck):
    """The run's option is the default; the average is that of each chain, weighted by hand."""
    weight = chain_weights(stuck).weight
    network, draws = source_of(stuck)
    data = stuck.data
    inputs, labels = data.test_inputs, data.test_targets
    density = []
    for walker in range(3):
        own = np.concatenate([block for _, block in draws.blocks(512)])[draws.walker == walker]
        one = average([(network, Members(own))], inputs, labels)
        density.append(one.log_density)
    expected = logsumexp(np.stack(density), b=weight[:, None], axis=0)
    found = stuck.predict()
    np.testing.assert_allclose(found.log_density, expected, atol=1e-6)
    equal = stuck.predict(weights="equal").scores()
    assert found.scores()["negative_log_likelihood"] < equal["negative_log_likelihood"] - 0.05
    assert found.effective_draws < 100 < found.num_draws
    assert np.array_equal(stuck.predict(weights="stacking").mean, found.mean)


def test_leaving_out_and_arviz_use_the_weights(stuck):
    pytest.importorskip("xarray")
    found = stuck.loo()
    assert found.total[0] / found.num_examples == pytest.approx(chain_weights(stuck).stacked)
    assert leave_one_out(stuck).total[0] < found.total[0]
    assert weighted_leave_one_out(stuck, "equal").total == leave_one_out(stuck).total
    tree = tati_re.analysis.to_arviz(stuck)
    walkers = tree["posterior"]["walker"].to_numpy()
    assert not (walkers == 2).any() and "resampled" in tree["posterior"].attrs["cut"]
    plain = tati_re.analysis.to_arviz(stuck, weights="equal")
    assert "walker" not in plain["posterior"].coords


def test_the_run_keeps_its_weights_and_says_what_they_give(stuck):
    table = pd.read_csv(stuck.folder / files.STACKING)
    assert table["weight"].sum() == pytest.approx(1) and len(table) == 3
    assert "stacking of the chains" in stuck.summary() and "nats a row" in stuck.summary()
    frame = stuck.comparison
    assert frame.index[:2].tolist() == [POSTERIOR, EQUAL_CHAINS]
    nll = frame["negative_log_likelihood"]
    assert nll[POSTERIOR] < nll[EQUAL_CHAINS]
    assert stuck.manifest["options"]["weights"] == STACKING


@pytest.mark.parametrize(
    "content",
    ["", "walker,weight\n0,1\n", "a\nb\n", "walker,weight,elpd,equal,stacked,rows\n0,2,1,1,1,5\n"],
)
def test_damaged_weights_are_refused_in_one_sentence(stuck, content):
    path = stuck.folder / files.STACKING
    before = path.read_bytes()
    try:
        path.write_text(content)
        with pytest.raises(InputError, match=r"stacking\.csv"):
            stored_stacking(stuck)
    finally:
        path.write_bytes(before)


def test_what_cannot_be_weighed_is_refused():
    with pytest.raises(InputError, match="several chains"):
        _simulation(num_walkers=1).sample(**RUN, weights="stacking")
    with pytest.raises(InputError, match="posterior"):
        _simulation(walker_start="jitter").sample(**RUN, weights="stacking", temperature=2.0)
    run = _simulation(walker_start="jitter").sample(**(RUN | {"trajectory_every": 50}))
    assert not run.has(files.STACKING)
    with pytest.raises(InputError, match="more draws per chain"):
        run.predict(weights="stacking")
    with pytest.raises(InputError, match="weights has an unknown value"):
        run.predict(weights="magic")
    assert np.array_equal(run.predict(weights=EQUAL).mean, run.predict().mean)


def test_kept_weights_are_not_those_of_other_data_or_another_model(stuck):
    assert stuck.has(files.STACKING)
    other = _simulation(seed=3)
    shifted = dataclasses.replace(stuck.data, targets=stuck.data.targets + 1)
    with pytest.raises(InputError, match="the data differ"):
        chain_weights(stuck, shifted)
    with pytest.raises(InputError, match="the model differs"):
        chain_weights(stuck, model=_simulation(hidden=[4]).system.model)
    kept = chain_weights(stuck).weight
    assert np.array_equal(chain_weights(stuck, stuck.data, other.system.model).weight, kept)


def test_weights_of_a_model_that_the_folder_lacks_are_computed(stuck, tmp_path):
    folder = shutil.copytree(stuck.folder, tmp_path / "run")
    (folder / files.MODEL).unlink()
    kept = pd.read_csv(folder / files.STACKING)
    changed = kept.assign(weight=[0.0, 0.0, 1.0])
    (folder / files.STACKING).write_bytes(frame_text(changed))
    run = tati_re.load(folder, data=((stuck.data.inputs, stuck.data.targets)))
    found = chain_weights(run, stuck.data, stuck.objects["model"])
    np.testing.assert_allclose(found.weight, kept["weight"], atol=1e-6)


@pytest.mark.parametrize("about", ["elpd", "rows", "weights", "ArviZ"])
def test_draws_of_different_weights_are_refused_in_one_sentence(stuck, monkeypatch, about):
    read = Positions.read

    def weighted(self):
        block = read(self)
        return block._replace(weight=np.linspace(1, 2, len(block.step)))

    monkeypatch.setattr(Positions, "read", weighted)
    calls = {
        "elpd": lambda: leave_one_out(stuck),
        "rows": lambda: left_out(stuck, stuck.data, np.arange(3), 50),
        "weights": lambda: chain_densities(stuck),
        "ArviZ": lambda: tati_re.analysis.to_arviz(stuck, data=stuck.data),
    }
    with pytest.raises(InputError, match=f"{about}: the draws of this run have different weights"):
        calls[about]()


def test_resampling_keeps_shares():
    assert np.array_equal(resampled(np.full(5, 0.3)), np.arange(5))
    weight = np.array([0.5, 0.0, 0.25, 0.25, 0.0, 0.0, 0.0, 0.0])
    assert np.bincount(resampled(weight), minlength=8).tolist() == [4, 0, 2, 2, 0, 0, 0, 0]
