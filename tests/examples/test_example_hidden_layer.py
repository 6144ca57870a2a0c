"""The example of a hidden layer: it fits a few images, goes on where it stopped, is sampled, and
its loss drawn.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import tati_re.landscape
from tests.scripts import example, write_images


@pytest.fixture(scope="module")
def script():
    return example("tati_hidden_layer")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of ten classes, each a pattern of its own plus noise."""
    folder = tmp_path_factory.mktemp("images")
    write_images(folder, 150, 60)
    return folder


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ([], "--data: there is no mnist.npz."),
        (["--num-steps", "0"], "--num-steps is too small. Received: 0. Expected: 1 at least."),
        (["--sampling-steps", "100"], "--sampling-steps is too small for the eigenvectors"),
    ],
)
def test_bad_input_is_one_line_and_status_2(script, tmp_path, capsys, flags, sentence):
    assert script.main(["--data", str(tmp_path), *flags]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {sentence}") and err.count("\n") == 1


@pytest.mark.slow
def test_a_network_is_fitted_and_goes_on(script, folder, tmp_path, capsys):
    output = tmp_path / "out"
    flags = ["--data", str(folder), "--num-examples", "100", "--output", str(output)]
    flags += ["--sampling-steps", "800", "--points", "5", "--num-steps"]
    assert script.main([*flags, "20"]) == 0
    assert "all training images are right" in capsys.readouterr().out
    before = pd.read_csv(output / "curves.csv")
    assert script.main([*flags, "40"]) == 0
    said = capsys.readouterr().out
    table, rows = pd.read_csv(output / "curves.csv"), pd.read_csv(output / "training" / "run.csv")
    assert list(rows["step"]) == list(table["step"]) == list(range(1, 41))
    pd.testing.assert_frame_equal(table[: len(before)], before)
    assert rows["step_size"].nunique() == 40, "the step finds its rate anew each time"
    # The same positions by two ways: within the run, and as points of a landscape.
    np.testing.assert_allclose(table["loss"], rows["loss"], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(table["accuracy"], rows["accuracy"], atol=1e-12)
    assert rows["accuracy"].max() == 1.0 and rows["accuracy"].iloc[-1] == 1.0
    first = rows["step"][rows["accuracy"] == 1].iloc[0]
    assert f"all training images are right from step {first} on record" in said
    end = pd.read_csv(output / "training.csv")
    assert list(end["published_accuracy"]) == [1.0, 0.975] and list(end["step"]) == [40, 40]
    assert (output / "figure.png").stat().st_size > 10_000 and (
        output / "figure9.png"
    ).stat().st_size > 10_000
    values = pd.read_csv(output / "eigenvalues.csv")["eigenvalue"]
    assert len(values) == 100 and (np.diff(values) < 0).all() and values.iloc[-1] > 0
    plane = tati_re.landscape.load(output / "surface").table
    assert len(plane) == 2 * 25 and set(plane["scale"]) == {1, -1}
    assert (output / "sampling-from-20").exists() and (output / "sampling-from-40").exists()
