"""The example of TATi's Figures 5 to 8: it runs on a few images, and says what it misses."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.scripts import example


@pytest.fixture(scope="module")
def script():
    return example("tati_figures_5_to_8")


def test_without_images(script, tmp_path, capsys):
    assert script.main(["--data", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: --data: there is no mnist.npz.") and err.count("\n") == 1
    assert script.main(["--data", str(tmp_path), "--num-steps", "10"]) == 2
    assert "--num-steps and --points are too small" in capsys.readouterr().err


@pytest.mark.slow
def test_figures(script, tmp_path, capsys):
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 700).astype(np.uint8)
    images = generator.integers(0, 60, (700, 28, 28)).astype(np.uint8)
    images[np.arange(700), labels] += 150
    arrays = {
        "x_train": images[:600],
        "y_train": labels[:600],
        "x_test": images[600:],
        "y_test": labels[600:],
    }
    np.savez(tmp_path / "mnist.npz", **arrays)
    output = tmp_path / "out"
    flags = [
        "--data",
        str(tmp_path),
        "--num-examples",
        "600",
        "--num-steps",
        "1000",
        "--points",
        "3",
    ]
    flags += ["--stages", "40:0.5:200", "20:0.05:all", "--output", str(output)]
    assert script.main(flags) == 0
    table = pd.read_csv(output / "spectra.csv")
    assert set(table["run"]) == {"no prior", "prior std 3"} and (table["eigenvalue"] > 0).all()
    for name in (
        "figure5.png",
        "figure6.png",
        "figure7_float64.png",
        "figure7_float32.png",
        "figure8.png",
    ):
        assert (output / name).stat().st_size > 10_000
    plane = pd.read_csv(output / "landscape-float64" / "landscape.csv")
    assert len(plane) == 9 * 7
    # The center is the lowest point of the plane: at every scale no other point lies below it.
    for _, rows in plane.groupby("scale"):
        assert rows["loss"].min() > rows["loss"].iloc[4] - 1e-12
    said = capsys.readouterr().out
    assert "published_loss" in said and "differ by" in said
    # The way of the training ends in the plane, which goes through the end, and nowhere below its
    # lowest point.
    way = pd.read_csv(output / "way.csv")
    assert list(way["step"]) == [10, 20, 30, 40, 50, 60]
    assert way["distance"].iloc[0] > 0.01 and way["distance"].iloc[-1] < 1e-4
    assert way["loss"].iloc[-1] < 0.8 * way["loss"].iloc[0]
    assert way["loss"].min() > plane["loss"].min()
