"""The example of networks that predict mean and deviation: its scores in closed form, its bad
input, a quick run.
"""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

from tests.scripts import example

script = example("airfoil")


def test_scores_in_closed_form():
    """Two draws N(0, 1) and N(2, e²) at the target 1; the mixture is not the Gaussian of its mean
    and variance.
    """
    outputs, targets = np.array([[[0.0, 0.0]], [[2.0, 1.0]]]), np.array([1.0])
    density = (math.exp(-0.5) + math.exp(-0.5 / math.e**2) / math.e) / 2 / math.sqrt(2 * math.pi)
    variance = (1 + math.e**2) / 2 + 1
    moments = 0.5 * math.log(2 * math.pi * variance)
    assert script.errors_of(outputs, targets) == pytest.approx((0.0, -math.log(density), moments))
    one = 0.5 + 0.5 * math.log(2 * math.pi)
    assert script.errors_of(outputs[:1], targets) == pytest.approx((1.0, one, one))


def test_the_split_is_scaled_by_its_training_part():
    rows = script.generated(100)
    split = script.split_of(rows)
    assert split.train.shape == (80, 3) and split.test.shape == (20, 3)
    np.testing.assert_allclose(split.train.mean(0), 0, atol=1e-6)
    np.testing.assert_allclose(split.train.std(0), 1, atol=1e-5)
    assert abs(split.test.mean(0)).max() > 1e-3
    assert np.array_equal(script.split_of(rows).test, split.test)
    inner = script.split_of(rows, "validation")
    assert inner.train.shape == (64, 3) and inner.test.shape == (16, 3)


@pytest.mark.parametrize(
    "arguments",
    [[], ["--data", "nowhere"], ["--quick", "--num-seeds", "0"], ["--quick", "--processes", "0"]],
)
def test_bad_input_is_one_sentence(arguments, capsys):
    assert script.main(arguments) == 2
    assert capsys.readouterr().err.startswith("error: --")


@pytest.mark.slow
def test_a_quick_run(tmp_path, capsys):
    """Better than the mean of the targets after 600 steps, and the mixture better than one
    walker.
    """
    assert script.main(["--quick", "--output", str(tmp_path)]) == 0
    with (tmp_path / "results.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert 0 < float(row["rmse"]) < 0.8 and float(row["nll"]) < float(row["nll_one"])
    assert "generated, MILE, 1 seeds: RMSE" in capsys.readouterr().out
