"""Folders of others name code to run and files to write: neither happens unless the caller says
so.
"""

import json
import shutil
import zipfile

import pytest
import tomli_w

import tati_re
from tati_re.cli import evidence, sample
from tati_re.core.errors import InputError
from tati_re.landscape.request import simulation_of
from tati_re.models.build import load_model
from tati_re.options.make import make_options
from tati_re.options.trust import options_of_folder
from tati_re.runs import manifest

EVIL = """
from pathlib import Path

import keras

from tati_re.samplers import SGLD

Path("ran").touch()


class X(SGLD):
    name = "SGLD"


def build(input_shape, num_outputs):
    return keras.Sequential([keras.Input(input_shape), keras.layers.Dense(num_outputs)])
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    data = {
        "data": "two_clusters",
        "loss": "mean_squared_error",
        "execution": "graph",
        "verbose": 0,
    }
    sim = tati_re.Simulation(
        **data, sampler="SGLD", step_size=1e-5, record_every=1, trajectory_every=1
    )
    sim.sample(num_steps=4, output=str(folder))
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "victim").write_text("mine")
    shutil.copytree(made, tmp_path / "run")
    return tmp_path / "run"


def says(folder, **options):
    """The folder's manifest, changed as its sender likes."""
    content = dict(manifest.read(folder))
    content["options"] |= options
    content["given"] = [*content["given"], *options]
    (folder / "manifest.toml").write_text(tomli_w.dumps(content))


def is_untouched(folder):
    return not (folder.parent / "ran").exists() and (folder.parent / "victim").read_text() == "mine"


WRITTEN = {
    name: "victim"
    for name in ("run_file", "averages_file", "trajectory_file", "save_model", "tensorboard")
}


@pytest.mark.parametrize(
    "asked", [{"sampler": "evil.py:X"}, {"sampler": "evil:X"}, {"run_file": "victim"}]
)
def test_resume_asks_before_it_runs_code_or_writes_elsewhere(folder, capsys, asked):
    says(folder, **asked)
    ((name, value),) = asked.items()
    assert sample.main(["--resume", "run", "--num-steps", "6", "--quiet"]) == 2
    kind = "code to run" if name == "sampler" else "files to write outside of it"
    assert capsys.readouterr().err == (
        f"error: --resume: the folder run names {kind}. Received: {name} = '{value}'. "
        f"Expected: trust=True (--trust) if you trust it, or {name} given again.\n"
    )
    with pytest.raises(InputError, match=f"names {kind}"):
        tati_re.Simulation.resume("run", num_steps=6, verbose=0)
    with pytest.raises(InputError, match=f"names {kind}"):
        tati_re.Simulation.from_folder("run")
    run = tati_re.load("run")
    assert (
        len(run.run_info) == 4 and len(run.predict().probabilities) and "run" in str(run.summary())
    )
    assert is_untouched(folder)


@pytest.mark.parametrize("word", ["trust", "again"])
def test_the_word_and_the_name_are_enough(folder, made, word):
    says(folder, sampler="evil.py:X", run_file="victim")
    flags = ["--trust"] if word == "trust" else ["--sampler", "evil.py:X", "--run-file", "victim"]
    assert sample.main(["--resume", "run", "--num-steps", "6", "--quiet", *flags]) == 0
    assert (folder.parent / "victim").read_text() == (folder / "run.csv").read_text()
    assert (folder.parent / "ran").exists()
    tati_re.Simulation.resume("run", num_steps=7, verbose=0, trust=True)
    tati_re.Simulation.resume("run", num_steps=8, verbose=0, sampler="evil.py:X", run_file=None)
    assert len((folder.parent / "victim").read_text().splitlines()) == 1 + 7
    with pytest.raises(
        InputError, match=r"sampler cannot be changed. Received: SGLD. Expected: evil.py:X"
    ):
        tati_re.Simulation.resume("run", num_steps=9, verbose=0, sampler="SGLD", run_file=None)
    with pytest.raises(
        InputError, match=r"Received: run_file = 'victim'. Expected: .* or run_file given again"
    ):
        tati_re.Simulation.resume("run", num_steps=9, verbose=0, sampler="evil.py:X")
    with pytest.raises(InputError, match=r"trust has the wrong type\. Received: 'yes'"):
        tati_re.Simulation.resume("run", num_steps=9, verbose=0, trust="yes")


def test_a_model_is_built_by_the_folders_code_only_with_the_word(folder):
    says(folder, model="evil.py:build", hidden=[])
    tati_re.Simulation.resume("run", num_steps=5, verbose=0)  # from model.keras, which runs nothing
    assert is_untouched(folder)
    for content in (None, b"PK"):
        (folder / "model.keras").unlink() if content is None else (
            folder / "model.keras"
        ).write_bytes(content)
        for ask in (tati_re.Simulation.resume, tati_re.Simulation.from_folder, simulation_of):
            with pytest.raises(
                InputError, match=r"names code to run\. Received: model = 'evil.py:build'"
            ):
                ask("run", verbose=0)
    assert is_untouched(folder)
    assert simulation_of("run", trust=True).num_parameters() == 3
    tati_re.Simulation.resume("run", num_steps=6, verbose=0, model="evil.py:build")


def test_a_landscape_needs_no_word_for_the_sampler_of_its_run(folder):
    says(folder, sampler="evil.py:X", run_file="victim")
    assert simulation_of("run").num_parameters() == 3
    assert is_untouched(folder)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_file_that_a_run_writes_beside_its_folder_is_asked_for(tmp_path, name):
    (folder := tmp_path / "run").mkdir()
    (folder / "link").symlink_to(tmp_path / "victim")
    (tmp_path / "alias").symlink_to(folder)
    for value in (
        tmp_path / "victim",
        folder / ".." / "victim",
        folder / "link",
        tmp_path / "run.csv",
    ):
        with pytest.raises(InputError, match=f"files to write outside of it. Received: {name} = "):
            options_of_folder({name: str(value)}, folder, "resume")
    for inside in (
        folder / "copy.csv",
        tmp_path / "alias" / "copy.csv",
        folder / "a" / ".." / "copy.csv",
    ):
        assert getattr(options_of_folder({name: str(inside)}, folder, "resume"), name) == str(
            inside
        )


def test_what_is_read_and_what_has_a_name_needs_no_word(tmp_path):
    values = {
        "data": "/home/u/own.csv",
        "test_data": ["../a.csv"],
        "parameters": "/runs/a",
        "directions": "/d.npy",
    }
    for sampler in (
        "SGLD",
        "BAOAB",
        "GJF",
    ):  # the last is one that an installed package would register
        assert (
            options_of_folder({**values, "sampler": sampler}, tmp_path, "resume").data
            == "/home/u/own.csv"
        )
    with pytest.raises(InputError, match="names code to run and files to write outside of it"):
        options_of_folder(
            {"sampler": "os:system", "save_model": "/tmp/x.keras"}, tmp_path, "resume"
        )


def test_a_folder_cannot_say_that_it_is_trusted(folder):
    says(folder, sampler="evil.py:X", trust=True)
    with pytest.raises(InputError, match=r"trust is not a known option"):
        tati_re.Simulation.resume("run", num_steps=6, verbose=0)
    assert is_untouched(folder)
    with pytest.raises(InputError, match="trust"):
        make_options(trust=True)


def test_evidence_asks_as_well(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(EVIL)
    (tmp_path / "e" / "kept").mkdir(parents=True)
    (tmp_path / "e" / "kept" / "models.json").write_text(
        json.dumps({"": {"data": "two_clusters", "model": "evil.py:build"}})
    )
    assert evidence.main(["--resume", "e"]) == 2
    assert (
        "the folder e names code to run. Received: model = 'evil.py:build'."
        in capsys.readouterr().err
    )
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("command", [sample, evidence])
def test_the_word_belongs_to_resume(command, capsys):
    assert command.main(["--data", "two_clusters", "--trust"]) == 2
    assert capsys.readouterr().err.startswith("error: --trust applies only with --resume.")


@pytest.mark.parametrize(
    "module", ["evil", "os", "keras.utils", "keras.src.utils.file_utils", "keras.config"]
)
def test_a_model_file_imports_no_module(folder, tmp_path, module):
    """Also where Keras itself, in its oldest versions that we take, would."""
    source, target = folder / "model.keras", tmp_path / "bad.keras"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "config.json":
                config = json.loads(content)
                layer = config["config"]["layers"][-1]
                layer |= {"module": module, "class_name": "X", "registered_name": "X"}
                content = json.dumps(config).encode()
            new.writestr(name, content)
    with pytest.raises(InputError, match="layers or functions that Keras does not know"):
        load_model(target)
    assert is_untouched(folder)
