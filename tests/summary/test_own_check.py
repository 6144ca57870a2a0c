"""The check that CONTRIBUTING.md shows: one function and one entry bring it everywhere."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import tati_re
from tati_re.runs.run import RunFiles
from tati_re.summary import certificate as certificates
from tati_re.summary.certificate import failed_checks
from tati_re.summary.summary import summarize
from tests.made_runs import made_run

ROOT = Path(__file__).parents[2]
NAME = "rows of each walker"


@pytest.fixture
def added(monkeypatch):
    """The function of the page, as if it stood in certificate.py."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(def _rows_of_each_walker.*?)```", page, re.DOTALL)
    space = dict(vars(certificates))
    exec(code, space)
    checks = (*certificates.CHECKS, space["_rows_of_each_walker"])
    monkeypatch.setattr(certificates, "CHECKS", checks)


@pytest.mark.usefixtures("added")
@pytest.mark.parametrize(("rows", "verdict"), [(40, "failed"), (140, "passed")])
def test_a_check_of_one_function_and_one_entry_is_everywhere(tmp_path, rows, verdict):
    random = np.random.default_rng(0)
    chains = {"virial": random.chisquare(3, (2, rows)) / 2, "loss": random.random((2, rows))}
    made = made_run(tmp_path / "a", chains, random.normal(size=(2, rows, 3)))
    run = RunFiles.open(made.folder)
    frame = tati_re.load(made.folder).certificate.set_index("check")
    assert frame.loc[NAME, "verdict"] == verdict and frame.loc[NAME, "value"] == rows
    assert any(NAME in line for line in failed_checks(run)) == (verdict == "failed")
    assert NAME in summarize(run)
    tati_re.write_report(made.folder, tmp_path / "a.html")
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert NAME in page and ("lower record_every" in page) == (verdict == "failed")
