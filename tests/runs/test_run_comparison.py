"""Averages of two runs compared within their errors: verdicts with power, and exit statuses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tati_re
from tati_re import InputError, Simulation
from tati_re.analysis.until import Quantity
from tati_re.cli import compare as command
from tati_re.prediction.run_comparison import LEVEL, _compared, compare_runs
from tests.made_runs import made_run

TARGET = {"dataset": {"potential": True, "num_examples": 1, "fingerprint": "same"}}


def run_of(folder, seed, shift=0.0, count=600, memory=0.0, extra=TARGET):
    """Four walkers of a Gaussian in five dimensions, with this memory from row to row."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((4, count, 5))
    for row in range(1, count):
        fresh = np.sqrt(1 - memory**2) * values[:, row]
        values[:, row] = memory * values[:, row - 1] + fresh
    values[..., 2] += shift
    chains = {"potential": 0.5 * (values**2).sum(-1)}
    return made_run(folder, chains, values, extra=extra)


def test_two_runs_of_one_law_agree_and_a_shifted_one_differs(tmp_path):
    """A shift of 0.35 standard deviations is seven standard errors of 2,400 draws each."""
    first, same, other = (
        run_of(tmp_path / name, seed, shift)
        for name, seed, shift in (("a", 1, 0.0), ("b", 2, 0.0), ("c", 3, 0.35))
    )
    found = compare_runs(first, same)
    assert found.verdict == "agree" and set(found.table["verdict"]) == {"agree"}
    assert found.table["group"].tolist() == ["U"] + ["parameters"] * 5
    assert found.table["band"].max() < 0.2
    unlike = compare_runs(first, other)
    assert unlike.verdict == "differ"
    row = unlike.table[unlike.table["verdict"] == "differ"]
    assert row["group"].tolist()[-1] == "parameters" and len(row) <= 2
    assert row["difference"].iloc[-1] == pytest.approx(0.35, abs=0.1)
    assert "They differ by more than chance explains." in repr(unlike)


def test_runs_that_are_too_short_are_unknown(tmp_path):
    """A shift of a tenth, in 40 rows, or in 600 rows that remember 100: no verdict; nor do equal laws
    agree there.
    """
    for name, options in (("few", {"count": 40}), ("slow", {"memory": 0.98})):
        for shift in (0.0, 0.1):
            first = run_of(tmp_path / f"{name}{shift}a", 1, **options)
            second = run_of(tmp_path / f"{name}{shift}b", 2, shift, **options)
            found = compare_runs(first, second)
            assert found.verdict == "unknown", (name, shift)
            assert "Run more steps" in repr(found)
    first, second = (run_of(tmp_path / f"tiny{k}", k, count=3) for k in (1, 2))
    found = compare_runs(first, second)
    assert found.verdict == "unknown" and "too few independent draws" in repr(found)


@pytest.mark.slow
def test_correct_runs_differ_as_rarely_as_said():
    """Of 3,000 pairs of equal laws, of memory 0 and 0.8, at the level 0.01 at most 70 differ (30
    are expected; 70 are 7 deviations above); of pairs with the errors of independent draws, which
    are wrong for a memory of 0.8, more than 300 do.
    """
    random, count = np.random.default_rng(5), 400
    noise = random.standard_normal((3_000, 2, 4, count))
    series = noise.copy()
    for row in range(1, count):
        series[..., row] = 0.8 * series[..., row - 1] + 0.6 * noise[..., row]
    for draws in (noise[:500], series[:500]):
        rows = [
            _compared("U", "U", Quantity("U", a), Quantity("U", b), 0.01, 1.0) for a, b in draws
        ]
        differ = sum(row["verdict"] == "differ" for row in rows)
        assert differ <= 20, differ  # 5 are expected at most
    naive = np.abs(series[:, 0].mean((1, 2)) - series[:, 1].mean((1, 2)))
    assert np.mean(naive / np.sqrt(2 / (4 * count)) > 2.58) > 0.1


def test_runs_with_the_same_draws_agree(tmp_path):
    first, same = (run_of(tmp_path / name, 1, count=20) for name in ("a", "b"))
    found = compare_runs(first, same)
    assert found.verdict == "agree" and "contain the same draws" in repr(found)


def test_constants_agree_where_they_are_equal():
    def verdict(a, b):
        one, other = (Quantity("x", np.full((2, 50), value)) for value in (a, b))
        return _compared("U", "x", one, other, LEVEL, 0.5)["verdict"]

    assert (verdict(1.0, 1.0), verdict(1.0, 2.0)) == ("agree", "differ")
    moving = Quantity("x", np.random.default_rng(0).standard_normal((2, 50)))
    still = Quantity("x", np.zeros((2, 50)))
    assert _compared("U", "x", moving, still, LEVEL, 0.5)["verdict"] == "unknown"


def test_what_cannot_be_compared_is_refused(tmp_path):
    first = run_of(tmp_path / "a", 1)
    elsewhere = {"dataset": {**TARGET["dataset"], "fingerprint": "other"}}
    other = run_of(tmp_path / "b", 2, extra=elsewhere)
    with pytest.raises(InputError, match=r"^The runs sampled different systems"):
        compare_runs(first, other)
    seeded = {**elsewhere, "options": {**first.manifest["options"], "seed": 5}}
    with pytest.raises(
        InputError, match=r"different data, .* another seed .*with seed 5\..*call = 2"
    ):
        compare_runs(first, run_of(tmp_path / "c", 2, extra=seeded))
    for wrong in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"^resolution"):
            compare_runs(first, first, resolution=wrong)


def test_the_command_compares_folders_by_their_averages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, seed, shift in (("a", 1, 0.0), ("b", 2, 0.0), ("c", 3, 0.35)):
        run_of(tmp_path / name, seed, shift)
    for name, seed in (("d", 4), ("e", 5)):
        run_of(tmp_path / name, seed, count=40)
    statuses = {"b": 0, "c": 1}
    for name, status in statuses.items():
        assert command.main(["a", name]) == status
        out = capsys.readouterr().out
        assert "U: " in out and "parameters (5): " in out
    assert command.main(["d", "e"]) == 3
    assert capsys.readouterr().out.splitlines()[-1].startswith("Unknown: ")
    assert command.main(["d", "e", "--resolution", "5", "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    # Tables are compared where their options are given, and bytes with --verify.
    assert command.main(["a", "b", "--tolerance", "1e-8", "--quiet"]) == 1
    assert command.main(["a", "a", "--drop", "potential", "--quiet"]) == 0
    for argv in (["a", "b", "--resolution", "0"], ["a", "b", "--resolution", "wide"]):
        assert command.main(argv) == 2
        assert "--resolution" in capsys.readouterr().err
    pd.DataFrame({"step": [1]}).to_csv("t.csv", index=False)
    assert command.main(["t.csv", "t.csv", "--resolution", "1"]) == 2


def test_predictions_and_tensors_of_networks_are_compared(tmp_path):
    """The same posterior by two seeds agrees in U and predictions or is too short to tell; a narrower
    prior is found. Hidden units may be permuted: no single weight is compared.
    """
    x = np.linspace(-1, 1, 30)[:, None]
    found = {}
    for name, seed, width in (("a", 1, 1.0), ("b", 2, 1.0), ("c", 3, 0.1)):
        sim = Simulation(
            data=(x, 0.5 * x[:, 0]),
            output_activation="linear",
            noise_std=1.0,
            prior="gaussian",
            prior_std=width,
            num_walkers=4,
            seed=seed,
            verbose=0,
            execution="graph",
        )
        options = {"sampler": "HMC", "step_size": 0.05, "num_leapfrog_steps": 10}
        found[name] = sim.sample(
            **options,
            num_steps=600,
            num_burnin_steps=100,
            trajectory_every=1,
            output=str(tmp_path / name),
        )
    same = tati_re.compare_runs(found["a"], found["b"])
    assert set(same.table["group"]) == {"U", "predictions", "tensors"}
    assert (same.table["group"] == "predictions").sum() == 30
    assert "differ" not in set(same.table["verdict"])
    other = tati_re.compare_runs(tmp_path / "a", tmp_path / "c")
    assert other.verdict == "differ"
    # Only the files of a run that is the same agree byte for byte.
    argv = ["--verify", str(tmp_path / "a")]
    assert command.main([*argv, str(tmp_path / "a"), "--quiet"]) == 0
    assert command.main([*argv, str(tmp_path / "b"), "--quiet"]) == 1
