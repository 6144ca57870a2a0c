"""A manifest whose values are of other types, missing or out of range: a sentence, whoever reads it."""

from __future__ import annotations

import copy
import itertools
import math
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tati_re.core.errors import InputError
from tati_re.runs import manifest
from tati_re.runs.run import RunFiles
from tati_re.summary.certificate import certificate
from tati_re.summary.summary import summarize
from tests.made_runs import made_run

FULL: dict[str, Any] = {
    "tati_re": "0.2.0",
    "versions": {"python": "3.11.7", "numpy": "2.4.6"},
    "given": ["num_burnin_steps"],
    "unused": ["target_bias"],
    "objects": ["data"],
    "observables": [],
    "seed": 1,
    "call": 1,
    "threads": 2,
    "execution": "graph",
    "walker_evaluation": "unrolled",
    "chunk_steps": 16_384,
    "fewest_positions": 32,
    "burnin_found": "step size 0.0157",
    "burnin_open": "",
    "burnin_cut": {"step": 10, "by": "max_time"},
    "stopped": "at 3",
    "failed_checks": ["R-hat 1.2 (asked 1.01)"],
    "method": {"sampler": "BAOAB", "friction": 10.0, "mass": "fisher", "target_bias": 0.2},
    "loss": {"loss": "gaussian", "from_logits": True, "noise_std": 1.0},
    "prior": {"prior": "gaussian", "prior_std": 1.0},
    "prior_walled": False,
    "dataset": {
        "name": "arrays",
        "fingerprint": "faaf297b",
        "num_examples": 64,
        "task": "regression",
        "feature_names": ["a"],
        "label_names": ["y"],
        "input_scale": 1.0,
        "input_ranges": {"low": [-1.0], "high": [1.0]},
        "preparation": {"target": {"mean": 1.0, "deviation": 2.0}},
    },
    "heating": {
        name: {"slowest": 0.001, "stiffest": 0.05, "mean": 0.01, "virial": 0.02, "steps": 96.0}
        for name in ("start", "end")
    },
    "teacher": {"step": 100, "draws": 4, "rhat": 1.3, "rhat_of": "U", "by_chance": 1.1},
    "centered": {"step": 100, "num_draws": 94, "mean": 0.9, "lower": 0.6, "upper": 1.4},
    "convergence": {
        "step": 400,
        "rhat": 1.001,
        "rhat_of": "prediction 43",
        "ess": 500.0,
        "ess_of": "prediction 43",
        "rhat_by_chance": 1.02,
        "spoiled_by": [],
        "mcse": {"potential": 0.1},
    },
}
ODD = ["", "x", "a\nb\x1b[31m", 0, -1, 2**62, True, 0.5, math.nan, math.inf, [], ["x"], [1], [[1]]]
ODD += [[[2**40, 2**40]], {}, {"x": 1}, {"x": {"y": []}}]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run folder with rows, positions, and all kinds of entries in its manifest."""
    random = np.random.default_rng(0)
    chains = {"virial": random.chisquare(3, (2, 40)) / 2, "loss": random.random((2, 40))}
    positions = random.normal(size=(2, 40, 3))
    run = made_run(tmp_path_factory.mktemp("runs") / "a", chains, positions, burnin=50, extra=FULL)
    return run.folder


def places(table: dict[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The keys of a table and of the tables in it."""
    for key, value in table.items():
        yield (*above, key)
        if isinstance(value, dict):
            yield from places(value, (*above, key))


def changed(content: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The content with another value in one place; None: without it."""
    other = copy.deepcopy(content)
    table = other
    for key in place[:-1]:
        table = table[key]
    table.pop(place[-1]) if value is None else table.update({place[-1]: value})
    return other


def variants(content: dict[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Each key without its value, and with each odd one."""
    for place in places(content):
        for value in (None, *ODD):
            yield place, changed(content, place, value)


def one_sentence(error: InputError) -> None:
    said = str(error)
    assert "\n" not in said and "\x1b" not in said and len(said) < 1_000


def test_each_value_is_read_or_refused_in_one_sentence(finished, monkeypatch):
    """The files are not written: what TOML holds comes from memory, which is a thousand times faster."""
    content = dict(manifest.read_toml_file(finished / "manifest.toml"))
    given: dict[str, Any] = {}
    monkeypatch.setattr(manifest, "read_toml_file", lambda path: given)
    refused = 0
    for place, other in variants(content):
        given.clear()
        given.update(other)
        try:
            manifest.read(finished)
        except InputError as error:
            one_sentence(error)
            assert place[0] in str(error) or "schema_version" in str(error), error
            refused += 1
    assert refused > 200


READERS = {
    "certificate": certificate,
    "summary": summarize,
    "parameters": lambda run: run.parameters(400, 0),
    "rows": lambda run: run.run_info,
}
READ = ("options", "parameters", "temperature", "kind", "dataset", "convergence", "heating")


def test_what_is_read_is_used_or_refused_in_one_sentence(finished, monkeypatch):
    """Every second of the values, each of them at every second key."""
    content = dict(manifest.read_toml_file(finished / "manifest.toml"))
    given: dict[str, Any] = {}
    monkeypatch.setattr(manifest, "read_toml_file", lambda path: given)
    for place, other in itertools.islice(variants(content), 0, None, 2):
        if place[0] not in READ or place == ("options", "sampler"):
            continue
        given.clear()
        given.update(other)
        began = time.process_time()
        for use in READERS.values():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    use(RunFiles(finished))
                except InputError as error:
                    one_sentence(error)
        assert time.process_time() - began < 5, place
