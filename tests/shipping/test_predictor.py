"""Predictors: what they predict without their run, their file, and files that are refused."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
import tomllib
import zipfile
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest
import tomli_w

import tati_re
from tati_re import Predictor
from tati_re.core.errors import InputError
from tati_re.prediction import draws as draws_of_runs
from tati_re.prediction import sources
from tati_re.prediction.network import Network
from tati_re.runs import checkpoint
from tati_re.runs.positions import Positions
from tati_re.shipping.predictor_file import SUMS

# Keras, when it writes a model.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
QUIET = {"verbose": 0, "execution": "graph", "seed": 1}


def values(count: int = 60) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (count, 2)) * [1.0, 100.0]
    return x, 50 + 10 * x[:, 0] + np.sin(x[:, 1]) + 0.1 * random.normal(size=count)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A regression on a named table, standardized, with its noise sampled: 40 draws of 2 chains."""
    x, y = values()
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": y})
    path = tmp_path_factory.mktemp("runs") / "table.csv"
    table.to_csv(path, index=False)
    sim = tati_re.Simulation(
        data=str(path), hidden=[4], standardize="all", test_fraction=0.2, num_walkers=2, **QUIET
    )
    steps = {"num_steps": 300, "num_burnin_steps": 100, "trajectory_every": 10}
    return sim.sample(sampler="BAOAB", step_size=0.01, **steps, output=str(path.parent / "a"))


@pytest.fixture(scope="module")
def classes(tmp_path_factory):
    """Three classes with names."""
    random = np.random.default_rng(1)
    x = random.normal(size=(60, 2))
    names = np.array(["low", "middle", "high"])[np.digitize(x[:, 0], [-0.5, 0.5])]
    table = pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": names})
    path = tmp_path_factory.mktemp("classes") / "table.csv"
    table.to_csv(path, index=False)
    sim = tati_re.Simulation(data=str(path), hidden=[4], **QUIET)
    steps = {"num_steps": 300, "num_burnin_steps": 100, "trajectory_every": 10}
    return sim.sample(sampler="BAOAB", step_size=0.05, **steps, output=str(path.parent / "a"))


@pytest.fixture(scope="module")
def predictor(run):
    return run.compress(members=None)


@pytest.fixture(scope="module")
def file(predictor, tmp_path_factory):
    path = tmp_path_factory.mktemp("file") / "p.tati"
    predictor.save(path)
    return path


def test_a_second_prediction_reads_and_traces_nothing(run, monkeypatch):
    """Each prediction read the trajectory and traced the network: 0.4 s for a row, now 0.01."""
    opened = tati_re.load(run.folder)
    x, _ = values(7)
    first = opened.predict(x)

    def refused(*args, **options):
        raise AssertionError("a later prediction reads or builds something again")

    for owner, name in ((Positions, "blocks"), (Network, "__init__"), (checkpoint, "load")):
        monkeypatch.setattr(owner, name, refused)
    monkeypatch.setattr(sources, "last_step", refused)
    again = opened.predict(x)
    np.testing.assert_array_equal(first.mean, again.mean)
    np.testing.assert_array_equal(first.lower, again.lower)
    network, _ = sources.source_of(opened)
    traced = network._outputs._several_few_rows._traced
    assert len(traced) == 1
    for count in (1, 2, 5):
        opened.predict(x[:count])
    assert len(traced) == 1
    times = []
    for _ in range(10):
        start = time.process_time()
        opened.predict(x[:1])
        times.append(time.process_time() - start)
    assert min(times) < 0.05


def test_other_rows_count_no_autocorrelations(run, monkeypatch):
    """The autocorrelations of the outputs of each new row took 6 of its 14 ms."""
    counted = []

    def counting(*args):
        counted.append(args)
        return draws_of_series(*args)

    draws_of_series = draws_of_runs.independent_draws
    monkeypatch.setattr(draws_of_runs, "independent_draws", counting)
    opened = tati_re.load(run.folder)
    x, _ = values(300)
    first = opened.predict(x[:1]).independent_draws
    assert len(counted) == 1

    other = opened.predict(x[1:2])
    assert len(counted) == 1
    assert 0 < other.independent_draws != first
    assert len(counted) == 2

    opened.predict(x)
    assert len(counted) == 3  # many rows are judged by their own outputs


def test_predictions_follow_files_that_changed(run, tmp_path):
    x, _ = values(7)
    folder = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(run.folder), str(folder)], check=True)
    copy = tati_re.load(folder)
    before = copy.predict(x).mean
    trajectory = folder / "trajectory.csv"
    lines = trajectory.read_text().splitlines(keepends=True)
    checkpoint_folder = folder / "checkpoint"
    subprocess.run(["rm", "-r", str(checkpoint_folder)], check=True)
    trajectory.write_text("".join(lines[: len(lines) // 2]))
    after = copy.predict(x).mean
    assert np.abs(before - after).max() > 1e-4


def test_a_predictor_of_all_draws_predicts_as_its_run(run, predictor):
    x, y = values(30)
    ours, theirs = predictor.predict(x, y), run.predict(x, y)
    # A sampled noise is kept in the type of the weights: 9 digits of it, where tables have 16.
    for name in ("mean", "std", "lower", "upper", "log_density", "crps"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-6)
    assert predictor.kind == "regression" and predictor.num_members == theirs.num_draws
    assert predictor.feature_names == ("a", "b")
    low, high = predictor.predict_interval(x, 0.5)
    np.testing.assert_allclose(low, run.predict(x, interval=0.5).lower, rtol=1e-6)
    found = predictor.quantiles(x, [0.25, 0.75])
    np.testing.assert_allclose(found, [low, high], rtol=1e-7)
    np.testing.assert_array_equal(predictor.log_prob(x, y), ours.log_density)


def test_samples_have_the_predicted_distribution(predictor):
    """4,000 samples: their mean has an error of 1/63 deviations, their quantiles at most 1/30."""
    x, _ = values(5)
    found = predictor.predict(x)
    drawn = predictor.sample(x, 4_000, seed=3)
    assert drawn.shape == (4_000, 5, 1)
    np.testing.assert_array_equal(drawn, predictor.sample(x, 4_000, seed=3))
    assert (np.abs(drawn.mean(0) - found.mean) < 5 * found.std / 63).all()
    below = (drawn < found.lower).mean(0)
    assert (np.abs(below - 0.05) < 5 * np.sqrt(0.05 * 0.95 / 4_000)).all()
    # The wrong distribution: without the noise.
    assert (np.abs(drawn.std(0) / found.parameter_std - 1) > 0.2).any()


def test_classes(classes, tmp_path):
    x = np.random.default_rng(2).normal(size=(20, 2))
    predictor = classes.compress(members=None)
    found = classes.predict(x)
    np.testing.assert_array_equal(predictor.predict_proba(x), found.probabilities)
    assert {*predictor.classes} == {"low", "middle", "high"}
    labels = found.predicted
    np.testing.assert_allclose(
        predictor.log_prob(x, labels), np.log(found.probabilities.max(1)), rtol=1e-12
    )
    drawn = predictor.sample(x, 3_000)
    share = (drawn == labels).mean(0)
    error = np.sqrt(0.25 / 3_000)
    assert (np.abs(share - found.probabilities.max(1)) < 5 * error).all()
    low, high = predictor.predict_interval(x)
    np.testing.assert_array_equal(low, found.lower)
    assert (low <= high).all()
    predictor.save(tmp_path / "c.tati")
    again = Predictor.load(tmp_path / "c.tati")
    assert list(again.predict(x).predicted) == list(labels)
    with pytest.raises(InputError, match="quantiles belongs to regression"):
        predictor.quantiles(x)


def test_a_file_predicts_the_same_without_the_run(predictor, file):
    x, y = values(10)
    loaded = Predictor.load(file)
    ours, theirs = loaded.predict(x, y), predictor.predict(x, y)
    for name in ("mean", "std", "lower", "upper", "log_density"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert loaded.digest == predictor.digest and loaded.versions["tati_re"]
    again = file.with_name("again.tati")
    loaded.save(again)
    assert again.read_bytes() == file.read_bytes()
    rows = pd.DataFrame({"b": x[:, 1], "a": x[:, 0]})
    np.testing.assert_array_equal(loaded.predict(rows).mean, ours.mean)
    low, high = loaded.training_ranges.loc["b"]
    assert -100 <= low < high <= 100
    with pytest.warns(UserWarning, match="outside the training range"):
        loaded.predict([[0.0, 5_000.0]])


def test_few_members_keep_the_density(run):
    few = run.compress(members=8, tolerance=5.0)
    fewest = run.compress(members=1, tolerance=50.0)
    assert few.num_members <= 8 and fewest.num_members == 1
    assert few.weights.sum() == pytest.approx(1)
    for name in ("inside", "outside"):
        assert few.losses[name] < fewest.losses[name]
    assert few.losses["inside"] < 0.05 and "held_out" in few.losses
    assert f"loss inside: {few.losses['inside']:.4f} nats" in repr(few)
    with pytest.warns(UserWarning, match=r"One member loses .* nats a row"):
        run.compress(members=1, tolerance=1e-6)


def test_inputs_that_are_given_need_no_data_file(run):
    """The data of a copied run were asked for, although only the held-out loss needs them."""
    x, _ = values()
    table = run.folder.parent / "table.csv"
    table.rename(table.with_suffix(".away"))
    try:
        copied = tati_re.load(run.folder)
        with pytest.warns(UserWarning, match="held-out rows is not measured.*table.csv"):
            few = copied.compress(members=10, tolerance=10, inputs=x)
        assert {*few.losses} == {"inside", "outside"}
        with pytest.raises(InputError, match=r"table\.csv"):
            copied.compress(members=10)
    finally:
        table.with_suffix(".away").rename(table)


def test_greedy_members_beat_random_ones(run):
    """Of targets drawn from all draws, the chosen members lose less than random ones do."""
    x, _ = values(200)
    each = np.arange(len(x))
    y = run.compress(members=None).sample(x, len(x), seed=5)[each, each]
    whole = run.predict(x, y).log_density
    few = run.compress(members=4, tolerance=50.0)
    lost = np.mean(whole - few.log_prob(x, y))
    _, draws = sources.source_of(run)
    vectors = np.concatenate([part for _, part in draws.blocks(1_000)])
    others = []
    for number in range(20):
        some = np.random.default_rng(number).choice(len(vectors), 4, replace=False)
        found = run.predict(x, y, parameters=vectors[some])
        others.append(np.mean(whole - found.log_density))
    assert lost < np.median(others)


def test_what_cannot_be_compressed(run):
    with pytest.raises(InputError, match="members is too small"):
        run.compress(members=0)
    with pytest.raises(InputError, match="tolerance is too small"):
        run.compress(tolerance=0.0)
    with pytest.raises(InputError, match=r"must end in \.tati"):
        run.compress(members=2, tolerance=50.0).save("p.zip")


def changed(file, name: str, content: bytes, sums: bool = True) -> bytes:
    """The archive with other content of one file, and with right sums unless they are to be wrong."""
    with zipfile.ZipFile(file) as archive:
        files = {each: archive.read(each) for each in archive.namelist()}
    files[name] = content
    if sums:
        found = {each: sha256(part).hexdigest() for each, part in files.items() if each != SUMS}
        files[SUMS] = json.dumps(found).encode()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for each, part in files.items():
            archive.writestr(each, part)
    return written.getvalue()


def array(content: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.save(file, content, allow_pickle=pickled)
    return file.getvalue()


def claimed() -> bytes:
    """An array whose header claims 80 TB."""
    header = io.BytesIO()
    shape = {"descr": "<f8", "fortran_order": False, "shape": (10**7, 10**6)}
    np.lib.format.write_array_header_1_0(header, shape)
    return header.getvalue() + bytes(64)


HOSTILE = {
    "sums": ("weights.npy", array(np.ones(3) / 3), False, "SHA-256"),
    "weights": ("weights.npy", array(np.ones(3) / 3), True, "weights"),
    "pickles": ("weights.npy", array(np.array([{}], object), True), True, "cannot be read"),
    "sizes": ("members.npy", claimed(), True, "claims"),
    "members": ("members.npy", array(np.full((40, 5), np.nan)), True, "finite numbers"),
    "text": ("predictor.toml", b"format = [", True, "cannot be read"),
    "deep": ("predictor.toml", b"a = " + b"[" * 100_000, True, "nested"),
    "empty": ("predictor.toml", b"", True, "lacks format"),
    "later": ("predictor.toml", b"format = 9\n[manifest]\n", True, "later version"),
    "later manifest": (
        "predictor.toml",
        b"format = 1\n[manifest]\nschema_version = 9\n",
        True,
        "later version of the package. Received: schema_version 9",
    ),
    "model": ("model.keras", b"no model", True, "not a .keras file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_files_get_one_sentence(file, tmp_path, kind):
    name, content, sums, match = HOSTILE[kind]
    path = tmp_path / "hostile.tati"
    path.write_bytes(changed(file, name, content, sums))
    with pytest.raises(InputError, match=match) as caught:
        Predictor.load(path)
    assert "\n" not in str(caught.value)


MANIFESTS = {
    "likelihood": {"loss": {"loss": "student_t", "likelihood": {"name": 3}}},
    "settings": {
        "loss": {"loss": "student_t", "likelihood": {"name": "student_t", "location": []}}
    },
    "loss": {"loss": {"loss": 7}},
    "task": {"dataset": {}},
    "names": {"parameters": {"num": 4}},
    "preparation": {"dataset": {"task": "regression", "preparation": {"columns": [[1]]}}},
}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_hostile_manifests_get_one_sentence(file, tmp_path, kind):
    with zipfile.ZipFile(file) as archive:
        table = tomllib.loads(archive.read("predictor.toml").decode())
    table["manifest"] |= MANIFESTS[kind]
    path = tmp_path / "hostile.tati"
    path.write_bytes(changed(file, "predictor.toml", tomli_w.dumps(table).encode()))
    with pytest.raises(InputError) as caught:
        Predictor.load(path)
    assert "\n" not in str(caught.value)


def test_paths_that_are_no_predictors(tmp_path, run):
    for path, match in ((tmp_path / "no.tati", "no file"), (tmp_path, "is a folder")):
        with pytest.raises(InputError, match=match):
            Predictor.load(path)
    (broken := tmp_path / "b.tati").write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(InputError, match="cannot be read"):
        Predictor.load(broken)


@pytest.mark.slow
def test_a_new_process_predicts_within_a_second_of_tensorflows_import(file):
    """Processor time, which another process does not change much."""
    imported = "import time, tensorflow, keras; print(time.process_time())"
    predicted = (
        "import time, tati_re, numpy; p = tati_re.Predictor.load({!r}); "
        "p.predict(numpy.zeros((1, 2))); print(time.process_time())"
    )

    def seconds(code: str) -> float:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
        return float(done.stdout.split()[-1])

    assert seconds(predicted.format(str(file))) < seconds(imported) + 2.0
