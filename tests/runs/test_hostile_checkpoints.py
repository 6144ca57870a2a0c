"""A checkpoint whose sha256 is right and whose metadata are of other types: a sentence, whoever
reads it.
"""

from __future__ import annotations

import json
import shutil

import pytest

import tati_re
from tati_re.cli import compare, sample
from tati_re.core.errors import InputError
from tati_re.runs import checkpoint, files
from tati_re.runs.parameters import read_parameters

VALUES = [
    None,
    [],
    {},
    "x",
    "",
    True,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    2**70,
    10**400,
    [1],
    {"run.csv": None},
    {"run.csv": -1},
    {"run.csv": "x"},
    {"run.csv": 1.5},
    {"run.csv": [1]},
    {"run.csv": {"a": 1}},
    {"a": "b"},
]
NAMES = ["step", "move", "seconds", "files", "digests", "whole", "manifest"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a"
    sim = tati_re.Simulation(data="two_clusters", loss="mean_squared_error", verbose=0, seed=1)
    sim.sample(sampler="sgld", step_size=1e-5, num_steps=20, trajectory_every=5, output=str(folder))
    return folder


def changed(finished, folder, change):
    """A copy of a run with other metadata, in both checkpoints."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(finished, folder)
    arrays, meta, _ = checkpoint.load(finished)
    change(meta)
    for _ in range(2):
        checkpoint.save(folder, arrays, meta)


def uses(folder, finished):
    return {
        "load": lambda: tati_re.load(folder).run_info,
        "trajectory": lambda: tati_re.load(folder).trajectory,
        "compare": lambda: tati_re.compare(folder, finished),
        "resume": lambda: tati_re.Simulation.resume(str(folder), 20, verbose=0),
        "verify": lambda: tati_re.verify(folder),
        "parameters": lambda: read_parameters(folder, names=["a"]),
        "analyse": lambda: tati_re.analyse(folder, ["averages"]),
    }


_QUICK = ("manifest", "step")


@pytest.mark.parametrize(
    "name",
    [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NAMES],
)
def test_values_of_other_types(finished, tmp_path, name):
    for value in VALUES:
        changed(finished, tmp_path / "run", lambda meta: meta.update({name: value}))  # noqa: B023
        for use in uses(tmp_path / "run", finished).values():
            try:
                use()
            except InputError as error:
                assert "\n" not in str(error)


@pytest.mark.parametrize("name", NAMES)
def test_a_value_that_is_not_there(finished, tmp_path, name):
    changed(finished, tmp_path / "run", lambda meta: meta.pop(name, None))
    for use in uses(tmp_path / "run", finished).values():
        try:
            use()
        except InputError as error:
            assert "\n" not in str(error)
    if name in ("step", "move", "seconds", "files"):
        with pytest.raises(InputError, match=f"not complete. Received: no {name}"):
            tati_re.Simulation.resume(str(tmp_path / "run"), 30, verbose=0)


@pytest.mark.parametrize("meta", [[], None, 3, "x", [["step", 1]]])
def test_metadata_that_are_no_table(finished, tmp_path, meta, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    arrays, _, _ = checkpoint.load(finished)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint.json, "dumps", lambda *_, **__: json.JSONEncoder().encode(meta))
        for _ in range(2):
            checkpoint.save(folder, arrays, {})
    with pytest.raises(InputError, match="its description of the run is not a table"):
        checkpoint.load(folder)
    with pytest.raises(InputError, match="No checkpoint"):
        tati_re.Simulation.resume(str(folder), 30, verbose=0)


def test_the_command_ends_with_status_2(finished, tmp_path, capsys):
    changed(finished, tmp_path / "run", lambda meta: meta.update(step="x"))
    assert sample.main(["--resume", str(tmp_path / "run"), "--num-steps", "30", "--quiet"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "it states step = x" in said
    assert compare.main(["--verify", str(tmp_path / "run")]) in (1, 2)
    assert "Traceback" not in capsys.readouterr().err
    assert files.CHECKPOINTS in said
