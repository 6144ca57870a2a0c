"""The examples run, and say in one sentence what they miss."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name: str):
    """Loads a script of the folder `examples` as a module."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_gla2_in_numpy_agrees_with_the_built_in_word(tmp_path, capsys):
    """Both means of virial and kinetic energy lie within 5.5 standard errors of each other and of the exact value.

    With 4,000 steps the error of the kinetic energy is 0.002 of 0.150: noise halved (0.150 to 0.038) or the square root
    of 1 - c² lost (to 0.115) would show; that of the virial is about 0.012 of 0.158.
    """
    script = example("gla2_in_numpy")
    assert script.main(["--num-steps", "4000", "--output", str(tmp_path)]) == 0
    rows = np.loadtxt(tmp_path / "gla2.csv", delimiter=",", skiprows=1)
    assert rows.shape == (3600, 4)
    virial, kinetic = (0.1577, 0.15)
    for first, second, exact in ((rows[:, 0], rows[:, 1], virial), (rows[:, 2], rows[:, 3], kinetic)):
        (mean, error), (other, other_error) = script.mean_and_error(first), script.mean_and_error(second)
        assert abs(mean - other) < 5.5 * np.hypot(error, other_error)
        assert abs(mean - exact) < 5.5 * error
        assert abs(other - exact) < 5.5 * other_error
    assert (tmp_path / "gla2.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "plain numpy" in said and "word GLA2" in said


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        ("gla2_in_numpy", ["--num-steps", "10"], "--num-steps is too small. Received: 10. Expected: at least 1,000."),
        ("mnist_softmax", ["--data", "nowhere"], "--data: there is no mnist.npz. Received: nowhere. Expected: a "),
        ("mnist_softmax", ["--data", ".", "--num-steps", "5"], "--num-steps is too small. Received: 5."),
    ],
)
def test_bad_input_is_one_line_and_status_2(tmp_path, monkeypatch, capsys, name, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert example(name).main(arguments) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())
