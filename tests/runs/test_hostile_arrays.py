"""A checkpoint whose sha256 is right and whose arrays have other shapes or types: a sentence, whoever
reads it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import tati_re
from tati_re.core.errors import InputError, SamplingError
from tati_re.runs import checkpoint, files
from tati_re.runs.parameters import read_parameters

INPUTS = np.random.default_rng(0).normal(size=(40, 2))
TARGETS = INPUTS.sum(axis=1)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with streamed predictions: its checkpoint has arrays of all kinds but auxiliary ones."""
    folder = tmp_path_factory.mktemp("runs") / "a"
    sim = tati_re.Simulation(
        data=(INPUTS, TARGETS), hidden=[3], num_walkers=2, test_fraction=0.2, seed=1, verbose=0
    )
    sim.sample(
        sampler="BAOAB",
        step_size=0.01,
        friction=1.0,
        num_steps=8,
        num_burnin_steps=2,
        trajectory_every=2,
        stream_predictions=2,
        execution="eager",
        output=str(folder),
    )
    return folder


def variants(array: np.ndarray) -> Iterator[np.ndarray]:
    """The array in other shapes, and of other types."""
    kind = array.dtype
    yield np.zeros((), kind) if array.ndim else np.zeros((1,), kind)
    yield np.zeros((0,) * max(1, array.ndim), kind)
    yield np.concatenate([array, array]) if array.ndim else np.zeros((2, 2), kind)
    yield array[None]
    yield array.astype(complex)
    yield np.full(array.shape, "x")
    yield np.zeros(array.shape, np.int64 if kind.kind == "f" else np.float32)


def write(folder, arrays: dict[str, np.ndarray], meta: dict) -> None:
    """Both checkpoints of a run, with the right digest."""
    text = np.frombuffer(json.dumps(meta).encode(), np.uint8)
    for name in (files.CURRENT, files.PREVIOUS):
        with open(folder / files.CHECKPOINTS / name, "wb+") as file:
            checkpoint._write(file, {checkpoint.META: text, **arrays})


def uses(folder) -> dict[str, Callable[[], object]]:
    return {
        "moments": lambda: tati_re.load(folder).parameters("mean"),
        "a walker's moments": lambda: tati_re.load(folder).parameters("mean", walker=1),
        "predict": lambda: tati_re.load(folder).predict(),
        "parameters": lambda: read_parameters(folder, names=["dense/kernel[0,0]"]),
        "resume": lambda: tati_re.Simulation.resume(
            str(folder), 12, data=(INPUTS, TARGETS), verbose=0
        ),
    }


READ = {
    "moments": ("moments", "a walker's moments"),
    "predictions": ("predict",),
    "state": ("parameters",),
}
"""Which uses read the arrays of a kind, in addition to `resume`, which reads all."""


def one_sentence(use: Callable[[], object]) -> None:
    try:
        use()
    except (InputError, SamplingError) as error:
        assert "\n" not in str(error)


def test_arrays_of_other_shapes_and_types(finished, tmp_path):
    arrays, meta, _ = checkpoint.load(finished)
    kinds = {name.partition("/")[0] for name in arrays}
    assert kinds >= {"moments", "averages", "state"}, kinds
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for name, array in arrays.items():
        for other in variants(array):
            write(folder, {**arrays, name: other}, meta)
            for use in READ.get(name.partition("/")[0], ()):
                one_sentence(uses(folder)[use])


def test_a_resume_refuses_arrays_that_do_not_fit(finished, tmp_path):
    """It says the name of the array, and which shape it has and needs."""
    arrays, meta, _ = checkpoint.load(finished)
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    names = ["state/position/0", "averages/sums", "moments/m2", "moments/count", "highest"]
    for number, name in enumerate([*names, "state/momentum/0"]):
        other = list(variants(arrays[name]))[number]
        write(folder, {**arrays, name: other}, meta)
        with pytest.raises(InputError) as refused:
            uses(folder)["resume"]()
        said = str(refused.value)
        assert name in said and "\n" not in said


def test_arrays_that_are_missing(finished, tmp_path):
    arrays, meta, _ = checkpoint.load(finished)
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    for name in arrays:
        write(folder, {key: value for key, value in arrays.items() if key != name}, meta)
        for use in READ.get(name.partition("/")[0], ()):
            one_sentence(uses(folder)[use])
    write(folder, {key: value for key, value in arrays.items() if "momentum" not in key}, meta)
    with pytest.raises(InputError, match=r"lacks 'state/momentum/0' of the sampler's state"):
        uses(folder)["resume"]()
