"""benchmarks.references, on a network of four weights whose posterior is known by quadrature."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.references import __main__ as command
from benchmarks.references import make
from benchmarks.references.cases import CASES, Case, predictions_of
from benchmarks.references.reference import Agreement, agreement_of, reference_of
from benchmarks.references.score import exact_draws, scored

CHAINS = 8
GRID = np.array([[-1.5], [-0.4], [0.3], [2.0]])


def tiny() -> Case:
    """One input, one hidden unit, five rows."""
    inputs = np.array([[-1.0], [-0.5], [0.0], [0.6], [1.2]])
    targets = np.array([-0.9, -0.3, 0.2, 0.5, 1.1])
    return Case("tiny-4", "generated", inputs, targets, GRID, 1, noise_std=0.8)


def log_likelihood(case: Case, weights: np.ndarray) -> np.ndarray:
    residuals = (predictions_of(case, weights, case.inputs) - case.targets) / case.noise_std
    return -0.5 * (residuals**2).sum(axis=-1)


@pytest.fixture(scope="module")
def truth():
    """Mean and deviation of the outputs by quadrature over 4 weights, good to 1e-6 of itself."""
    axis = np.linspace(-4.8, 4.8, 25)
    weights = np.array(list(itertools.product(axis, repeat=4)))
    case = tiny()
    masses = np.exp(log_likelihood(case, weights) - 0.5 * (weights**2).sum(axis=1))
    masses /= masses.sum()
    values = predictions_of(case, weights, GRID)
    mean = masses @ values
    return SimpleNamespace(mean=mean, deviation=np.sqrt(masses @ (values - mean) ** 2))


@pytest.fixture(scope="module")
def draws():
    """Independent draws of the posterior, by rejection from the prior: `(chains, draws, inputs)`."""
    case = tiny()
    random = np.random.default_rng(4)
    weights = random.standard_normal((300_000, 4))
    kept = weights[np.log(random.uniform(size=len(weights))) < log_likelihood(case, weights)]
    length = len(kept) // CHAINS
    return predictions_of(case, kept[: CHAINS * length].reshape(CHAINS, length, 4), GRID)


@pytest.fixture(scope="module")
def reference(draws):
    return {
        "name": "tiny-4",
        "num_classes": 0,
        "num_weights": 4,
        "inputs": GRID.tolist(),
        "agreement": {"least_ess": 1e4, "rhat": 1.0, "nested_rhat": 1.0, "distance": 0.01},
        **reference_of(draws),
    }


def test_moments_are_those_of_the_quadrature(draws, reference, truth):
    """8 numbers within 4.5 of their errors, which chance exceeds once in 20,000 times."""
    assert draws.shape[1] > 1_000
    means = (np.array(reference["mean"]) - truth.mean) / reference["mean_error"]
    spreads = (np.array(reference["deviation"]) - truth.deviation) / reference["deviation_error"]
    assert np.abs(means).max() < 4.5
    assert np.abs(spreads).max() < 4.5
    # The errors are those of independent draws.
    expected = truth.deviation / np.sqrt(draws.shape[0] * draws.shape[1])
    np.testing.assert_allclose(reference["mean_error"], expected, rtol=0.2)


def test_quantiles_have_the_errors_that_halves_show(draws):
    """Quantiles of both halves differ by their combined errors: mean squares of 156 are near 1."""
    halves = [reference_of(half) for half in (draws[:4], draws[4:])]
    difference = np.subtract(*(half["quantiles"] for half in halves))
    combined = np.hypot(*(half["quantile_errors"] for half in halves))
    assert 0.3 < np.mean((difference / combined) ** 2) < 2.5


def test_samplers_that_differ_do_not_agree(draws):
    first, second = draws[:4], draws[4:]
    right = agreement_of(first, second)
    assert right.holds, right
    assert not agreement_of(first, second + 0.3 * second.std(axis=(0, 1))).holds
    center = second.mean(axis=(0, 1))
    assert not agreement_of(first, center + 1.4 * (second - center)).holds
    assert not agreement_of(first[:, :100], second[:, :100]).holds  # too few draws


def test_exact_draws_score_as_by_chance_and_wrong_ones_worse(draws, reference):
    exact = exact_draws(reference, 4_000, seed=1).reshape(4, 1_000, -1)
    right = scored(exact, reference)
    assert right["agreement"].value == 1
    for name in ("total variation", "W1"):
        score = right[name]
        assert abs(score.value - score.by_chance) < 5 * score.error + 0.2 * score.by_chance
    center = exact.mean(axis=(0, 1))
    wide = scored(center + 1.3 * (exact - center), reference)
    assert wide["agreement"].value == 0
    assert wide["W1"].value > 3 * right["W1"].value
    assert wide["total variation"].value > 1.5 * right["total variation"].value


def test_few_members_of_an_ensemble_are_compared_with_as_few_exact_draws(reference):
    members = exact_draws(reference, 8, seed=2)[:, None, :]
    score = scored(members, reference)["W1"]
    assert 0.1 < score.value < 3 * score.by_chance


def test_classes_are_scored_by_their_probabilities():
    random = np.random.default_rng(5)
    shares = random.dirichlet([2.0, 3.0, 4.0], size=(4, 500, 6)).reshape(4, 500, 18)
    reference = {"num_classes": 3, **reference_of(shares)}
    other = random.dirichlet([2.0, 3.0, 4.0], size=(4, 500, 6)).reshape(4, 500, 18)
    right = scored(other, reference)
    assert right["agreement"].value == 1
    assert right["total variation"].value < 0.02
    wrong = random.dirichlet([4.0, 3.0, 2.0], size=(4, 500, 6)).reshape(4, 500, 18)
    # Mean probabilities 2/9, 3/9, 4/9 against 4/9, 3/9, 2/9.
    assert scored(wrong, reference)["total variation"].value == pytest.approx(2 / 9, abs=0.02)
    assert scored(wrong, reference)["agreement"].value == 0


@pytest.mark.parametrize("name", ["surface-41", "gap-46", "classes-51"])
def test_cases_have_the_weights_that_their_names_say(name):
    case = CASES[name]()
    assert case.num_weights == int(name.rpartition("-")[2])
    weights = np.random.default_rng(6).standard_normal((2, 3, case.num_weights))
    values = predictions_of(case, weights, case.grid)
    assert values.shape == (2, 3, len(case.grid) * (case.num_classes or 1))
    columns = case.inputs.shape[1]
    split = columns * case.hidden
    kernel = weights[1, 2, :split].reshape(columns, case.hidden)
    hidden = np.tanh(case.grid[5] @ kernel + weights[1, 2, split : split + case.hidden])
    last = weights[1, 2, split + case.hidden :]
    outputs = case.num_classes or 1
    output = hidden @ last[:-outputs].reshape(case.hidden, outputs) + last[-outputs:]
    if case.num_classes:
        output = np.exp(output) / np.exp(output).sum()
    np.testing.assert_allclose(values[1, 2].reshape(-1, outputs)[5], output, rtol=1e-12)


def test_only_samplers_that_agree_make_a_reference(tmp_path, monkeypatch, draws, reference, capsys):
    def samples(num_steps):
        return {"HMC": draws[:4], "MAMS": draws[4:] + (0.5 if num_steps < 1_000 else 0)}

    def made(case, num_steps, folder):
        groups = samples(num_steps)
        agreement = agreement_of(groups["HMC"], groups["MAMS"])
        entries = make.entries_of(agreement)
        return {**reference, "name": case.name, "agreement": entries}, agreement.holds

    monkeypatch.setattr(make, "made", made)
    given = ["--make", "surface-41", "--work", str(tmp_path / "w"), "--folder", str(tmp_path)]
    assert command.main([*given, "--num-steps", "500"]) == 1
    assert not list(tmp_path.glob("*.json"))
    assert "do not agree" in capsys.readouterr().out
    assert command.main([*given, "--num-steps", "5000"]) == 0
    assert json.loads((tmp_path / "surface-41.json").read_text())["agreement"]["rhat"] < 1.01
    assert command.main(["--folder", str(tmp_path)]) == 0
    assert "| surface-41 | 4 |" in capsys.readouterr().out


def test_an_archive_is_scored_and_a_wrong_one_refused(tmp_path, reference, draws, capsys):
    (tmp_path / "tiny-4.json").write_text(json.dumps(reference))
    archive = tmp_path / "draws.npz"
    np.savez(archive, name="tiny-4", predictions=draws)
    assert command.main(["--score", str(archive), "--folder", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == [
        "agreement",
        "total variation",
        "W1",
    ]
    assert float(lines[-1].split("|")[2]) < 0.01
    for arrays, words in (
        ({"name": "tiny-4", "predictions": draws[:, :, :3]}, "wrong shape"),
        ({"name": "other", "predictions": draws}, "no such reference"),
        ({"predictions": draws}, "has no name"),
    ):
        np.savez(archive, **arrays)
        with pytest.raises(SystemExit, match=words):
            command.main(["--score", str(archive), "--folder", str(tmp_path)])


def test_agreement_needs_every_condition():
    right = {"rhat": 1.0, "nested_rhat": 1.0, "distance": 0.01, "by_chance": 0.01}
    assert Agreement(**right, least_ess=2_000).holds
    assert not Agreement(**right, least_ess=200).holds
    for name, value in (("rhat", 1.05), ("nested_rhat", 1.05), ("distance", 0.2)):
        assert not Agreement(**{**right, name: value}, least_ess=2_000).holds


@pytest.mark.slow
def test_both_samplers_find_the_moments_of_the_quadrature(tmp_path, truth):
    reference, agrees = make.made(tiny(), 5_000, tmp_path)
    assert agrees, reference["agreement"]
    means = (np.array(reference["mean"]) - truth.mean) / reference["mean_error"]
    spreads = (np.array(reference["deviation"]) - truth.deviation) / reference["deviation_error"]
    assert np.abs(means).max() < 4.5 and np.abs(spreads).max() < 4.5
    again, _ = make.made(tiny(), 5_000, tmp_path)  # complete runs are read, not made again
    assert again["quantiles"] == reference["quantiles"]
