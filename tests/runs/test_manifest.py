"""Manifests: every key has a field with a type, unknown keys stay, and wrong values are refused."""

import copy
import math
import shutil
import tomllib
import warnings
from functools import reduce

import numpy as np
import pytest
import tomli_w

import tati_re
from tati_re.core.errors import InputError
from tati_re.core.files.typed_tables import (
    Count,
    FiniteNumber,
    WrongValue,
    entry_of,
    keys_of,
    matches,
    reader_of,
)
from tati_re.options.table import OPTIONS
from tati_re.runs import files, manifest
from tati_re.runs.manifest import Manifest
from tati_re.runs.manifest_entries import (
    ConvergenceEntry,
    DataEntry,
    HeatingEntry,
    OptionsEntry,
    ParametersEntry,
    UntilEntry,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -1.0, 0.5] + 0.1 * RNG.normal(size=60)
FREE = {"table", "method", "loss", "prior", "versions", "tables", "options", "stages", "worker"}
"""Tables whose keys are those of a sampler, a loss, a prior, or packages; options have a test of
their own.
"""


def simulation(**options):
    return tati_re.Simulation(data=(X, Y), hidden=[4], verbose=0, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs whose manifests have all kinds of entries, by what they are for."""
    folder = tmp_path_factory.mktemp("runs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "until": simulation(seed=1, num_walkers=2).sample(
                until="ess>20", num_steps=600, output=folder / "until"
            ),
            "batches": simulation(seed=2, batch_size=20).sample(
                sampler="SGHMC", step_size=0.01, num_steps=60, output=folder / "batches"
            ),
            "ladder": simulation(seed=3, fix_parameters="dense/kernel[0,*]").sample(
                sampler="HMC",
                num_leapfrog_steps=2,
                step_size=0.01,
                num_replicas=2,
                max_temperature=2.0,
                num_steps=40,
                output=folder / "ladder",
            ),
            "clock": simulation(seed=4).sample(
                num_steps=5_000, max_time=1e-6, output=folder / "clock"
            ),
            "fit": simulation(seed=5).fit(
                stages=["20:0.01:10", "10:0.001:all"], output=folder / "fit"
            ),
        }


def undeclared(table, kind, where=""):
    """Keys of a table, and of the tables in it, that no field declares."""
    types = keys_of(kind)
    missing = [f"{where}{key}" for key in table if key not in types]
    for key in table.keys() & types.keys() - FREE:
        entry = reader_of(types[key])(table[key], key)
        for part in entry if isinstance(entry, tuple) else [entry]:
            if type(part).__module__ == DataEntry.__module__ and isinstance(table[key], dict):
                missing += undeclared(table[key], type(part), f"{where}{key}.")
    return missing


@pytest.mark.parametrize("name", ["until", "batches", "ladder", "clock", "fit"])
def test_every_key_of_a_run_has_a_field(runs, name):
    content = tomllib.loads((runs[name].folder / files.MANIFEST).read_text(encoding="utf-8"))
    assert undeclared(content, Manifest) == []
    assert set(content["options"]) <= set(OPTIONS)
    stored = runs[name].manifest
    assert str(dict(stored)) == str(content), "it is the mapping of the file"
    assert stored.options.num_steps == content["options"]["num_steps"]
    assert stored.parameters.num == len(stored.parameters.all_names())
    assert stored.seed == content["seed"] and stored.is_fit == (name == "fit")


def test_a_key_without_a_field_is_found():
    assert undeclared({"kind": "fit", "dataset": {"colour": 1}, "age": 2}, Manifest) == [
        "age",
        "dataset.colour",
    ]


def test_runs_say_what_they_became(runs):
    until = runs["until"].manifest.until
    assert until.most == 600 and until.conditions == ("ess>20",)
    assert until.look_at(until.looks[-1].step) == until.looks[-1] and until.look_at(-1) is None
    assert runs["batches"].manifest.sees_batches and not runs["until"].manifest.sees_batches
    assert runs["batches"].manifest.heating.end.mean > 0
    ladder = runs["ladder"].manifest
    assert ladder.method.num_replicas == 2 and ladder.parameters.parts["dense/kernel"].fixed
    clock = runs["clock"].manifest
    assert clock.last_positions.step == clock.burnin_cut.step
    assert [stage.num_steps for stage in runs["fit"].manifest.options.stages] == [20, 10]


def test_the_bytes_of_a_file_stay(runs, tmp_path):
    for run in runs.values():
        manifest.write(tmp_path, manifest.read(run.folder))
        written = (tmp_path / files.MANIFEST).read_bytes()
        assert written == (run.folder / files.MANIFEST).read_bytes()


def test_keys_of_other_versions_stay(runs, tmp_path):
    """Wherever they stand, through a note and a resume."""
    folder = tmp_path / "run"
    shutil.copytree(runs["until"].folder, folder)
    content = tomllib.loads((folder / files.MANIFEST).read_text(encoding="utf-8"))
    content["later"] = {"a": [1, "b"]}
    content["options"]["later"] = 2.5
    content["dataset"]["later"] = True
    content["until"]["looks"][0]["later"] = 7
    text = tomli_w.dumps(content)
    (folder / files.MANIFEST).write_text(text, encoding="utf-8")
    content = tomllib.loads(text)

    manifest.note(folder, stopped="It stopped.", options={"num_steps": 610})
    manifest.note(folder, stopped=None)
    stored = tomllib.loads((folder / files.MANIFEST).read_text(encoding="utf-8"))
    content["options"]["num_steps"] = 610
    assert str(stored) == str(content), "in their order; a nan is not equal to itself"


def values_of(table, path=()):
    """Each value of a table that is no table, with its keys."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from values_of(value, (*path, key))
        else:
            yield (*path, key), value


WRONG = ("text", True, -1, 1.5, math.nan, 10**30, [], ["text"], [[1.0]], {}, {"a": {"b": [1]}})
"""Values of TOML, of which each key takes some at most."""


def changed(content, path, value):
    copied = copy.deepcopy(content)
    table = copied
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    return copied


@pytest.mark.parametrize("name", ["until", "batches", "ladder", "clock", "fit"])
def test_values_of_another_type_are_refused(runs, name):
    """Each key with each value: it is read, or refused by its key."""
    content = tomllib.loads((runs[name].folder / files.MANIFEST).read_text(encoding="utf-8"))
    refused = 0
    for path, kept in list(values_of(content)):
        table = reduce(dict.__getitem__, path[:-1], content)
        for table[path[-1]] in WRONG:
            try:
                Manifest.of(content)
            except WrongValue as error:
                refused += 1
                assert error.key.startswith(path[0]) and "\n" not in error.received
        table[path[-1]] = kept
    assert refused > 5 * len(list(values_of(content))), "most of them"


@pytest.mark.parametrize(
    ("path", "value", "sentence"),
    [
        (("seed",), "seven", "seed. Received: 'seven'. Expected: a whole number, 0 or more."),
        (("temperature",), math.inf, "temperature. Received: inf. Expected: a finite number."),
        (("options", "num_steps"), 1e3, "options.num_steps. Received: 1000.0. Expected: a whole"),
        (("options", "step_size"), [1], "options.step_size. Received: [1]. Expected: a finite"),
        (("options", "hidden"), [1.5], "options.hidden. Received: [1.5]. Expected: a list, each"),
        (("given",), "seed", "given. Received: 'seed'. Expected: a list, each text."),
        (("until", "looks"), [1], "until.looks[0]. Received: 1. Expected: a table."),
        (("burnin_cut",), {"step": 3}, "lacks burnin_cut.by."),
        (("parameters", "shapes"), [[1]], "parameters.shapes. Received: 1 shapes of 1"),
        (("dataset",), [], "dataset. Received: []. Expected: a table."),
    ],
)
def test_a_wrong_value_is_one_sentence(runs, tmp_path, path, value, sentence):
    content = tomllib.loads((runs["until"].folder / files.MANIFEST).read_text(encoding="utf-8"))
    text = tomli_w.dumps(changed(content, path, value))
    (tmp_path / files.MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        manifest.read(tmp_path)
    assert sentence in str(caught.value)
    assert str(tmp_path / files.MANIFEST) in str(caught.value)


def test_types_and_limits():
    assert matches(1, float) and matches(1.5, float) and not matches(True, float)
    assert matches(1, int) and not matches(1.0, int) and not matches(2**63, int)
    assert matches(math.nan, float) and not matches(math.nan, FiniteNumber)
    assert matches(0, Count) and not matches(-1, Count) and not matches(False, Count)
    assert matches(["a"], tuple[str, ...]) and not matches(["a", 1], tuple[str, ...])
    assert matches("new", OPTIONS["execution"].annotation), "a choice of another version"


def test_entries_have_defaults():
    """Each of them may be missing, as in files of earlier versions."""
    assert Manifest.of({}) == {} and Manifest.of({}).call == 1
    for kind in (OptionsEntry, DataEntry, ParametersEntry, UntilEntry, HeatingEntry):
        assert entry_of(kind, {"later": 1}).table == {"later": 1}
    look = ConvergenceEntry.of({"step": 5, "rhat(weights)": 1.5, "rhat(weights)_of": "w"})
    assert (look.rhat_of_weights, look.name_of_weights) == (1.5, "w") and math.isnan(look.rhat)


def test_other_entries_make_another_manifest():
    stored = Manifest.of({"kind": "fit", "seed": 3})
    other = stored | {"seed": 4, "stopped": "It stopped.", "kind": None}
    assert dict(other) == {"seed": 4, "stopped": "It stopped."} and stored.seed == 3
    with pytest.raises(AttributeError):
        stored.seed = 5
