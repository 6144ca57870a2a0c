"""Pieces of benchmarks.prediction: splits, scores in units of the target, rivals, paired differences."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.prediction import cases, keras_rivals, other_rivals
from benchmarks.prediction.__main__ import main, measured, parsed
from benchmarks.prediction.budget import Budget
from benchmarks.prediction.outcome import (
    PUBLISHED_DROPOUT,
    Line,
    add,
    paired,
    published,
    published_dropout,
    read,
    tables,
)
from benchmarks.prediction.scores import Normals, Shares, Standard


@pytest.fixture
def folder(tmp_path):
    """A folder with a small yacht table, its gaps, and published densities."""
    random = np.random.default_rng(1)
    inputs = random.standard_normal((240, 3))
    targets = 50 + 10 * inputs[:, 0] + 2 * random.standard_normal(240)
    (tmp_path / "uci").mkdir()
    np.savetxt(tmp_path / "uci" / "yacht.txt", np.column_stack([inputs, targets]))
    gaps = {"source": "here", "yacht": [[1, 5, 7], [0, 2]]}
    (tmp_path / "uci" / "gap_splits.json").write_text(json.dumps(gaps))
    known = {"yacht": {"log_likelihood": [-1.5, -1.25]}}
    (tmp_path / "uci" / "mc_dropout_20_splits.json").write_text(json.dumps(known))
    return tmp_path


def test_the_twenty_splits_follow_one_stream_of_numbers():
    """Split 2 is the third permutation of RandomState(1), not the first of another seed."""
    random = np.random.RandomState(1)
    orders = [random.choice(range(308), 308, replace=False) for _ in range(3)]
    for split, order in enumerate(orders):
        train, test = cases.published_rows(308, split)
        assert np.array_equal(train, order[:277]) and np.array_equal(test, order[277:])
    # The first rows of the file index_test_0 of yacht.
    assert cases.published_rows(308, 0)[1][:5].tolist() == orders[0][277:282].tolist()
    assert not np.array_equal(cases.published_rows(308, 0)[0], cases.published_rows(308, 1)[0])


def test_no_row_is_on_both_sides(folder):
    every = [
        cases.protocol_a(folder, "yacht", 3),
        cases.protocol_b(folder, "yacht", 1),
        cases.protocol_d(folder, "wine", 7),
        cases.protocol_d(folder, "diabetes", 49),
    ]
    for case in every:
        train = {tuple(row) for row in case.inputs}
        assert not train & {tuple(row) for row in case.test_inputs}
        assert len(case.inputs) == len(case.targets) > len(case.test_inputs)
    assert every[1].test_targets.shape == (2,)
    assert every[2].num_classes == 3 and {*every[2].test_targets} == {0, 1, 2}
    assert [*cases.keys(folder, "A", ("yacht", "power"), range(2))] == [("yacht", 0), ("yacht", 1)]
    assert "power" in cases.missing_tables(folder, "A")


def test_a_density_in_units_of_the_target_has_the_log_of_its_deviation():
    random = np.random.default_rng(2)
    targets = 7.0 * random.standard_normal(200) + 30
    standard = Standard(targets)
    means = 0.3 * random.standard_normal((5, 200))
    plain = Normals(means, np.ones((5, 1))).scores(standard.apply(targets))
    own = standard.restore(means, np.ones((5, 1))).scores(targets)
    deviation = float(standard.deviation)
    assert own["nll"] == pytest.approx(plain["nll"] + math.log(deviation))
    assert own["rmse"] == pytest.approx(plain["rmse"] * deviation)
    assert own["crps"] == pytest.approx(plain["crps"] * deviation)
    assert own["coverage_90"] == plain["coverage_90"]


def test_the_density_of_an_average_is_not_the_average_of_densities():
    targets = np.array([0.0, 1.0])
    means, stds = np.array([[0.0, 0.0], [1.0, 3.0]]), np.array([[1.0], [0.5]])
    density = stats.norm.pdf(targets, means, stds).mean(axis=0)
    found = Normals(means, stds).scores(targets)
    assert found["nll"] == pytest.approx(-np.log(density).mean())
    p = np.array([[0.9, 0.1], [0.4, 0.6]])
    classes = Shares(p).scores(np.array([0, 1]))
    assert classes["nll"] == pytest.approx(-np.log([0.9, 0.6]).mean()) and classes["accuracy"] == 1


def test_the_last_layer_has_the_predictions_of_scikit_learn():
    """BayesianRidge without a fitted intercept maximizes the same evidence."""
    from sklearn.linear_model import BayesianRidge

    random = np.random.default_rng(3)
    features = random.standard_normal((80, 4))
    targets = features @ [1.0, -0.5, 0.2, 0.0] + 0.3 * random.standard_normal(80)
    new = random.standard_normal((10, 4))
    model = BayesianRidge(
        fit_intercept=False, alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=2_000
    )
    mean, std = model.fit(features, targets).predict(new, return_std=True)
    found = keras_rivals.linear_posterior(features, targets, new)
    np.testing.assert_allclose(found[0], mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1], std, rtol=1e-3)


class CountedBudget(Budget):
    """Each look at the clock takes a tenth of a second, so that a busy machine changes nothing."""

    looks = 0

    @property
    def used(self):
        self.looks += 1
        return 0.1 * self.looks


@pytest.mark.parametrize("name", ["gaussian_process", "gradient_boosting"])
def test_rivals_learn_from_training_rows_alone(folder, name):
    case = cases.protocol_a(folder, "yacht", 0)
    method = getattr(other_rivals, name)
    scores = method(case, CountedBudget(3.0))[0].scores(case.test_targets)
    assert scores["nll"] < 3.6  # of a normal law with the moments of the targets about 3.8
    assert scores["rmse"] < 8.0 and 0.3 <= scores["coverage_90"] <= 1.0
    other = cases.Case(
        "A", "yacht", 0, case.inputs, case.targets, case.test_inputs, -case.test_targets
    )
    again = method(other, CountedBudget(3.0))[0].scores(case.test_targets)
    assert again["rmse"] == pytest.approx(scores["rmse"], rel=1e-2)


def test_what_a_method_cannot_do_is_a_note(folder):
    case = cases.protocol_d(folder, "wine", 0)
    line = measured(case, "Gaussian process", other_rivals.gaussian_process, 1.0)
    assert "TooLarge" in line.note and math.isnan(line.nll)


def _line(split: int, method: str, nll: float, table: str = "yacht") -> Line:
    return Line("A", table, split, method, 15.0, nll=nll, processor_seconds=9.0)


def test_differences_are_paired_over_the_splits_that_both_have():
    lines = [_line(0, "a", 1.0), _line(1, "a", 3.0), _line(2, "a", 9.0)]
    lines += [_line(0, "b", 0.5), _line(1, "b", 2.0), _line(3, "b", -50.0)]
    mean, error, count = paired(lines, "b", "a")
    assert (mean, count) == (pytest.approx(-0.75), 2) and error == pytest.approx(0.25)
    assert math.isnan(paired(lines, "c", "a")[0])
    text = tables(lines, "a")
    assert "-0.750 ± 0.250" in text and "WEvidential" in text


def test_lines_are_kept_and_read_again(tmp_path, folder):
    path = tmp_path / "results.csv"
    lines = [_line(0, "a", 1.0), Line("A", "yacht", 1, "b", 15.0, note="ValueError: no, really")]
    for line in lines:
        add(line, path)
    found = read(path)
    assert [line.key for line in found] == [line.key for line in lines]
    assert found[0].nll == 1.0 and math.isnan(found[1].nll) and found[1].note == lines[1].note
    dropout = published_dropout(folder, ["yacht"])
    assert [line.nll for line in dropout] == [1.5, 1.25]
    assert {line.method for line in dropout} == {PUBLISHED_DROPOUT}


def test_a_second_call_goes_on_where_the_first_was(folder, capsys):
    call = ["--data", str(folder), "--output", str(folder / "out"), "--quick", "--splits", "1"]
    assert main(call) == 0
    before = (folder / "out" / "results.csv").read_bytes()
    assert main([*call]) == 0
    assert (folder / "out" / "results.csv").read_bytes() == before
    for name in ("tables.md", "nll_against_time.png", "differences.png"):
        assert (folder / "out" / name).stat().st_size > 100
    assert "HistGradientBoosting" in capsys.readouterr().out


def test_an_unknown_method_is_refused(capsys):
    with pytest.raises(SystemExit):
        parsed(["--methods", "magic"])
    assert "magic" in capsys.readouterr().err


def test_every_published_row_names_its_source():
    import tomllib

    from benchmarks.prediction.outcome import PUBLISHED

    known = tomllib.loads(PUBLISHED.read_text(encoding="utf-8"))
    for protocol in ("A", "B", "C"):
        for table in known[protocol]:
            for row in published(protocol, table).values():
                assert row["source"] in known["sources"] and math.isfinite(row["nll"])
