"""Pieces of benchmarks.posteriordb: places of quantities, errors, costs, and rows that exist."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.posteriordb import __main__ as command
from benchmarks.posteriordb import comparison, cost


def reference_of(names, mean, deviation, draws=10_000):
    """A reference of independent normal quantities."""
    quantiles = mean + np.outer([-1.6448536, 0.0, 1.6448536], deviation)
    return {
        "names": names,
        "mean": list(mean),
        "var": list(deviation**2),
        "mcse_mean": list(deviation / np.sqrt(draws)),
        "quantiles": quantiles.tolist(),
    }


def test_names_of_the_reference_count_from_one():
    draws = {"beta": np.arange(24.0).reshape(2, 3, 4), "sigma": np.ones((2, 3))}
    values = comparison.entries_of_reference(draws, ["beta[1]", "beta[4]", "sigma"])
    assert values.shape == (3, 2, 3)
    assert np.array_equal(values[1], draws["beta"][:, :, 3])


def test_right_draws_pass_the_goal_and_shifted_ones_do_not():
    """4,000 independent draws of 5 quantities: 4.5 errors are exceeded once in 20,000 times."""
    mean = np.arange(5.0)
    deviation = np.array([0.1, 1.0, 2.0, 10.0, 100.0])
    reference = reference_of([f"b[{k + 1}]" for k in range(5)], mean, deviation)
    random = np.random.default_rng(3)
    values = mean[:, None, None] + deviation[:, None, None] * random.standard_normal((5, 4, 1000))
    right = comparison.compared(values, reference)
    assert right["worst_mean"] < 4.5 and right["worst_quantile"] < 5
    assert right["median_quantile_shift"] < 0.08

    values[3] += 0.2 * deviation[3]
    shifted = comparison.compared(values, reference)
    assert shifted["worst_mean"] > 4.5 and shifted["worst_mean_of"].startswith("b[4] +")

    values[3] = mean[3] + 1.3 * (values[3] - values[3].mean())
    assert comparison.compared(values, reference)["worst_quantile"] > 5


def test_gradients_follow_the_length_of_trajectories():
    """Two chains: 10 steps of 2 gradients in the burn-in, then 20 steps of 3."""
    steps = [5, 10, 20, 30]
    chain = pd.DataFrame(
        {"step": steps, "step_size": [0.1] * 4, "trajectory_length": [0.2, 0.2, 0.25, 0.3]}
    )
    table = pd.concat([chain.assign(walker=walker) for walker in (0, 1)])
    run = SimpleNamespace(run_info=table, manifest={"options": {"num_burnin_steps": 10}})
    every, kept = cost.gradients_of(run)
    assert kept == 2 * 20 * 3
    assert every == 2 * (10 * 2 + 20 * 3 + cost.DESCENT)


@pytest.fixture
def folder(tmp_path):
    """A posterior of one normal quantity."""
    reference = reference_of(["mu"], np.zeros(1), np.ones(1))
    (tmp_path / "normal.json").write_text(json.dumps(reference | {"data": {}}))
    return tmp_path


def test_rows_of_both_samplers_are_added_once(folder, monkeypatch):
    made = []

    def sampled(command_line, check):
        """Writes draws as the other process does."""
        made.append(command_line)
        values = np.random.default_rng(1).standard_normal((4, 500))
        measures = {"gradients": 9_000, "gradients_kept": 6_000, "seconds": 1.5}
        named = {f"measured_{name}": value for name, value in measures.items()}
        np.savez(command_line[-1].removeprefix("--output="), mu=values, **named)

    def ours(name, folder, seed, **options):
        made.append(name)
        return {"posterior": name, "method": command.OURS, "seed": seed}

    monkeypatch.setattr(command.subprocess, "run", sampled)
    monkeypatch.setattr(command, "measured", ours)
    output = folder / "rows.csv"
    given = ["posteriordb", "--data", str(folder), "--output", str(output), "--seeds", "1"]
    given += ["--posteriors", "normal", "--rivals", "nuts", "--python", "python-with-numpyro"]
    monkeypatch.setattr("sys.argv", given)
    command.main()
    command.main()
    table = pd.read_csv(output)
    assert len(made) == 2 and made[1][0] == "python-with-numpyro"
    assert list(table["method"]) == [command.OURS, command.NUTS]
    row = table.iloc[1]
    assert row["gradients"] == 9_000 and row["seconds"] == 1.5
    assert row["draws"] == 2_000 and 1_000 < row["least_ess"] < 3_500
    assert row["worst_mean"] < 4.5
