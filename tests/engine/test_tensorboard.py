"""Scalars for TensorBoard: every number of run.csv once, also over a resumed run."""

from __future__ import annotations

import numpy as np
import pytest

import tati_re
from tati_re.engine.tensorboard import TensorBoard


def events_of(folder):
    """{(run, tag): {step: value}} of all event files; a number that is there twice fails."""
    import tensorflow as tf

    found: dict = {}
    for path in sorted(folder.glob("*/events*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                assert value.metadata.plugin_data.plugin_name == "scalars"
                series = found.setdefault((path.parent.name, value.tag), {})
                assert event.step not in series, "written twice"
                series[event.step] = tf.make_ndarray(value.tensor).item()
    return found


@pytest.fixture(scope="module")
def system():
    return {"data": "harmonic", "num_walkers": 2, "execution": "graph", "verbose": 0, "seed": 1}


def test_every_number_once_over_a_resumed_run(system, tmp_path):
    sim = tati_re.Simulation(**system)
    options = {
        "step_size": 0.1,
        "record_every": 5,
        "trajectory_every": 0,
        "output": str(tmp_path / "run"),
    }
    sim.sample(num_steps=40, tensorboard=str(tmp_path / "board"), **options)
    run = tati_re.Simulation.resume(str(tmp_path / "run"), num_steps=60, trust=True)
    rows = run.run_info
    found = events_of(tmp_path / "board")
    assert {name for name, _ in found} == {"walker0", "walker1"}
    for walker in (0, 1):
        mine = rows[rows["walker"] == walker]
        for column in ("potential", "kinetic_energy", "virial"):
            series = found[f"walker{walker}", column]
            assert list(series) == mine["step"].tolist() == list(range(5, 61, 5))
            np.testing.assert_allclose(list(series.values()), mine[column], rtol=1e-6)


def test_rows_come_as_they_are_written(tmp_path):
    board = TensorBoard(str(tmp_path / "board"))
    path = tmp_path / "run.csv"
    board(tmp_path, 0)
    path.write_text("step,walker,loss,none,rung\n1,0,0.5,,0\n1,0,0.7,,1\n2,0,0.2")
    board(tmp_path, 1)
    with path.open("a") as file:
        file.write("5,,0\n")
    board(tmp_path, 2)
    found = events_of(tmp_path / "board")
    assert set(found) == {("rung0-walker0", "loss"), ("rung1-walker0", "loss")}, (
        "an empty cell is no number"
    )
    assert found["rung0-walker0", "loss"] == pytest.approx({1: 0.5, 2: 0.25})


def test_without_a_folder_nothing_is_written(tmp_path):
    (tmp_path / "run.csv").write_text("step,walker,loss\n1,0,0.5\n")
    TensorBoard(None)(tmp_path, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run.csv"]
