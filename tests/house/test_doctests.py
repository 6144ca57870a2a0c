"""The examples in docstrings run, with what a reader would have at hand: `tati_re`, `np`, a `sim`,
and its `run`.
"""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import tati_re

PACKAGE = Path(tati_re.__file__).parent
# Evidences and games take half of the time of all examples.
LONG = ("tati_re.evidence.methods", "tati_re.evidence.estimating", "tati_re.simulation.game")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def modules_with_examples() -> list[str]:
    files = [
        file for file in sorted(PACKAGE.rglob("*.py")) if ">>> " in file.read_text(encoding="utf-8")
    ]
    return [
        ".".join(["tati_re", *file.relative_to(PACKAGE).with_suffix("").parts]) for file in files
    ]


@pytest.mark.parametrize(
    "left_out", [LONG, pytest.param((), marks=pytest.mark.slow)], ids=["short", "all"]
)
def test_examples_of_docstrings_run(tmp_path, monkeypatch, left_out):
    monkeypatch.chdir(tmp_path)
    sim = tati_re.Simulation(
        data="two_clusters", loss="binary_crossentropy", test_fraction=0.25, seed=1, verbose=0
    )
    run = sim.sample(
        step_size=0.02, num_steps=60, num_burnin_steps=20, trajectory_every=2, output="runs/a"
    )
    at_hand = {"tati_re": tati_re, "np": np, "sim": sim, "run": run}
    report: list[str] = []
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=FLAGS)
    for name in (name for name in modules_with_examples() if name not in left_out):
        module = importlib.import_module(name)
        for example in finder.find(module, extraglobs=at_hand):
            runner.run(example, out=report.append)
    attempted = runner.summarize(verbose=False).attempted
    assert not report, "\n".join(report)
    assert attempted >= (70 if left_out else 80)


def test_docstrings_are_markdown():
    """Roles of other tools, such as `:class:`, would stand on the pages as they are typed."""
    role = re.compile(r":(?:class|func|meth|mod|attr|data|exc|ref):`")
    assert role.search("see :class:`Run`")
    assert [
        file.name
        for file in sorted(PACKAGE.rglob("*.py"))
        if role.search(file.read_text(encoding="utf-8"))
    ] == []
