"""The examples on calibration and temperature, and the images that they take for unlike the
training ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tati_re.prediction.inputs import noise_like

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def digits(monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import digits_calibration

    yield digits_calibration
    sys.modules.pop("digits_calibration", None)


def test_noise_has_the_range_and_the_type_of_the_inputs():
    images = np.random.default_rng(1).integers(0, 256, (500, 4, 4)).astype(np.uint8)
    images[:, 0, 0] = 7
    noise = noise_like(images, seed=2)
    assert noise.dtype == np.uint8 and noise.shape == images.shape
    assert noise[:, 0, 0].max() > 200, "a pixel that never varies has the range of all"
    values = np.random.default_rng(3).normal(size=(200, 3)) * [1.0, 10.0, 0.1]
    noise = noise_like(values)
    assert (noise.min(axis=0) >= values.min(axis=0)).all() and (
        noise.max(axis=0) <= values.max(axis=0)
    ).all()
    assert noise.std(axis=0) == pytest.approx(np.ptp(values, axis=0) / np.sqrt(12), rel=0.15)
    assert np.array_equal(noise_like(values, 4), noise_like(values, 4))


def test_shuffled_images_keep_their_pixels(digits):
    images = np.arange(48.0).reshape(3, 4, 4)
    found = digits.shuffled_pixels(images, seed=1)
    assert found.shape == images.shape
    assert np.array_equal(np.sort(found.reshape(3, -1)), images.reshape(3, -1))
    orders = found.reshape(3, -1) - 16 * np.arange(3)[:, None]
    assert not np.array_equal(orders[0], orders[1]), "each image has an order of its own"


@pytest.mark.slow
def test_digits_calibration_scores_every_predictor(tmp_path, capsys, digits):
    assert digits.main(["--num-steps", "40", "--fit-steps", "30", "--output", str(tmp_path)]) == 0
    table = pd.read_csv(tmp_path / "scores.csv")
    assert table["predictor"].tolist() == [
        *(
            "optimum",
            "ensemble",
            "posterior, same cost",
            "posterior, longer",
            "posterior at T = 0.1",
        ),
        *("Laplace", "SWAG"),
    ]
    assert (
        table["accuracy"].between(0.3, 1).all() and table["auroc_noise_entropy"].between(0, 1).all()
    )
    assert (tmp_path / "figure.png").stat().st_size > 10_000
    assert "359 test images" in capsys.readouterr().out


@pytest.mark.slow
def test_digits_temperatures_draws_a_curve(tmp_path, capsys, monkeypatch):
    monkeypatch.syspath_prepend(EXAMPLES)
    import digits_temperatures

    monkeypatch.setattr(digits_temperatures, "TEMPERATURES", (0.1, 1.0))
    assert (
        digits_temperatures.main(
            ["--num-steps", "80", "--num-train", "200", "--output", str(tmp_path)]
        )
        == 0
    )
    assert len(pd.read_csv(tmp_path / "temperatures.csv")) == 2
    assert "cooling down" in capsys.readouterr().out
