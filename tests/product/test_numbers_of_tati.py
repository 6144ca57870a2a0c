"""TATi's own numbers by its flags alone, and its defaults under its names.

The points and numbers are those of TATi's tests of gradient descent, grids and inputs (TATi 0.9.5,
commit 887d52f of alan-turing-institute/ThermodynamicAnalyticsToolkit, directory tests).
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tati_re import Simulation, load
from tati_re.cli import inputspace, landscape, optimize, sample
from tati_re.coming_from_tati import Simulation as tati
from tati_re.options.make import make_options
from tati_re.options.tati_names import sentences

POINTS = """x1,x2,label
-1.546112780792795,-2.603108340402154,-1
-2.417448943549538,-2.3006001163552097,-1
-1.9985111028253115,-2.316818075824032,-1
2.5928788988209672,2.5489697787935692,1
-1.7269606733056044,-1.8481418956057896,-1
-2.619618389012149,-3.43606813208348,-1
-2.584099636578692,-2.050694254685728,-1
1.204227492574406,2.031136087926546,1
-2.011638909892303,-1.9812321130136084,-1
1.0061487645788956,2.854977919216016,1
1.5240172695705512,1.6271825130955702,1
1.9387681757413864,2.3732441025692097,1
-2.3762119521549963,-2.0241601557406375,-1
2.4019109630173867,2.511667634749611,1
-1.6398940446338095,-1.8721912668269964,-1
-2.9278180452765348,-2.946473689464032,-1
1.852726375177725,2.1432851485652744,1
1.882209853132257,2.5061509471938956,1
1.4990924748176746,1.776267553940617,1
2.172871660650531,1.8861109749169356,1
"""
START = "id,step,loss,weight0,weight1,bias0\n0,0,0,0.0454769135,0.259294629,0.100000001\n"
LOSSES = [
    0.180728063,
    0.037927635,
    0.0261217114,
    0.0201294515,
    0.0164426826,
    0.0139279021,
    0.012096188,
    0.0106994491,
    0.00959762279,
    0.00870534964,
]
"""At the start and after each of nine steps of rate 0.1: a row of TATi precedes its step."""

PLANE = [
    3.23379064,
    1.93507445,
    0.768988848,
    0.0653047338,
    0.00265838043,
    3.56754732,
    1.99900782,
    0.306456506,
    0.0126202852,
    0.000398283737,
    3.63794971,
    2.03385162,
    0.180728063,
    0.00488515105,
    0.000117822536,
    3.43747783,
    1.96115744,
    0.423588663,
    0.0191404708,
    0.000463781558,
    2.99791789,
    1.92843795,
    0.9473809,
    0.0964913219,
    0.00314005511,
]
"""Losses on the plane of `weight1` and `bias0` about the start, -1 to 1 in 4 intervals each."""

LABELS = [
    -0.807250857,
    -0.794199884,
    -0.780372679,
    -0.765737891,
    -0.750264525,
    -0.733923256,
    -0.716685772,
    -0.698525608,
    -0.679418981,
    -0.659344077,
    -0.638283014,
    -0.72192353,
    -0.704041302,
    -0.685219347,
    -0.665435433,
    -0.644670248,
    -0.622908056,
    -0.600136995,
    -0.576349914,
    -0.551544428,
    -0.525723517,
    -0.498895973,
]
"""Predictions of the start on the two lowest lines of a grid of 11 x 11 inputs from -4 to 4."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(POINTS)
    (tmp_path / "start.csv").write_text(START)


def test_gradient_descent_by_the_flags_of_tati(capsys):
    flags = "--batch_data_files d.csv --batch_size 20 --loss mean_squared --learning_rate 0.1"
    flags += " --optimizer GradientDescent --max_steps 9 --seed 426 --run_file run.csv"
    flags += " --parse_parameters_file start.csv --parse_step 0 --execution graph --output r"
    assert optimize.main(flags.split()) == 0
    assert "batch_data_files is TATi's name, so that its defaults hold" in capsys.readouterr().out
    rows = pd.read_csv("run.csv")
    assert rows["step"].tolist() == list(range(1, 10))
    np.testing.assert_allclose(rows["loss"], LOSSES[1:], rtol=1e-6)


def test_what_nobody_names_is_as_in_tati():
    """The same numbers without loss, optimizer, and the intervals of rows."""
    flags = "--batch_data_files d.csv --learning_rate 0.1 --max_steps 9"
    flags += " --parse_parameters_file start.csv --execution graph --output r --quiet"
    assert optimize.main(flags.split()) == 0
    np.testing.assert_allclose(load("r").run_info["loss"], LOSSES[1:], rtol=1e-6)


def test_the_loss_at_the_start():
    for make in (tati, Simulation):
        sim = make(batch_data_files=["d.csv"], parse_parameters_file="start.csv", verbose=0)
        np.testing.assert_allclose(sim.loss(), LOSSES[0], rtol=1e-6)
    sim = Simulation(data="d.csv", parameters="start.csv", standardize="none", verbose=0)
    assert abs(sim.loss() - LOSSES[0]) > 0.01, "the output is linear under the names here"


def test_a_plane_of_the_loss():
    flags = "naive_grid --batch_data_files d.csv --batch_size 20 --loss mean_squared"
    flags += " --parse_parameters_file start.csv --parse_steps 0 --exclude_parameters w0"
    flags += " --interval_weights -1 1 --samples_weights 4 --interval_biases -1 1"
    flags += " --samples_biases 4 --csv_file p.csv"
    assert landscape.main(flags.split()) == 0
    found = pd.read_csv("p.csv")
    assert list(found) == ["step", "loss", "accuracy", "w0", "w1", "b0"]
    np.testing.assert_allclose(found["loss"], PLANE, rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("activation", ["", "--output_activation tanh"])
@pytest.mark.parametrize("files", ["", "--batch_data_files d.csv"])
def test_predictions_over_the_plane_of_inputs(activation, files):
    """tanh is TATi's default."""
    flags = f"--input_dimension 2 --output_dimension 1 {files} {activation} --samples_input 10"
    flags += " --interval_input -4 4 --parse_parameters_file start.csv --parse_steps 0"
    assert inputspace.main([*flags.split(), "--csv_file", "p.csv"]) == 0
    found = pd.read_csv("p.csv")
    assert len(found) == 121 and list(found) == ["i", "x1", "x2", "label"]
    np.testing.assert_allclose(found["label"][:22], LABELS, rtol=1e-6)


def test_walkers_of_tati_start_apart_and_every_step_has_a_row():
    flags = "--batch_data_files d.csv --sampler BAOAB --step_width 0.01 --friction_constant 10"
    flags += " --number_walkers 2 --max_steps 20 --trajectory_file t.csv --seed 426"
    assert sample.main([*flags.split(), "--execution", "graph", "--output", "r", "--quiet"]) == 0
    run = load("r")
    assert run.run_info["step"].tolist() == np.repeat(np.arange(1, 21), 2).tolist()
    assert len(pd.read_csv("t.csv")) == 40
    assert run.manifest["options"]["output_activation"] == "tanh"

    sim = tati(batch_data_files=["d.csv"], number_walkers=3, seed=426, verbose=0)
    start = np.asarray(sim.parameters)
    assert (start[:, 2] == np.float32(0.1)).all() and (np.abs(start[:, :2]) < 0.5).all()
    assert np.ptp(start[:, 0]) > 0.01
    # Walker i is that of seed + i alone; by the names here all start at one place.
    other = tati(batch_data_files=["d.csv"], seed=427, verbose=0)
    np.testing.assert_array_equal(np.asarray(other.parameters), start[1])
    ours = Simulation(data="d.csv", num_walkers=2, verbose=0)
    np.testing.assert_array_equal(*np.asarray(ours.parameters))


def test_values_that_are_given_stay():
    options = make_options(batch_data_files=["d.csv"])
    found = options.loss, options.output_activation, options.record_every, options.potential
    assert found == ("mean_squared_error", "tanh", 1, "mean_loss") and options.prior == "none"
    assert (options.optimizer, options.learning_rate) == ("gradient_descent", 0.03)
    said = sentences(options)
    expected = "loss mean_squared_error, output_activation tanh, record_every 1."
    assert any(sentence.endswith(expected) for sentence in said)
    assert any("batch_data_files is TATi's name, so that potential" in each for each in said)

    options = make_options(
        batch_data_files=["d.csv"],
        loss="absolute_difference",
        output_activation="linear",
        every_nth=5,
        potential="posterior",
    )
    found = options.loss, options.output_activation, options.record_every, options.potential
    assert found == ("mean_absolute_error", "linear", 5, "posterior")
    assert options.prior == "gaussian"
    assert make_options(data="d.csv", max_steps=3).output_activation == "linear"
