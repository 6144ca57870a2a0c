"""Notebooks: their code runs from top to bottom, and simulations, runs and progress show
themselves.
"""

from __future__ import annotations

import base64
import io
import json
import sys
import types
from pathlib import Path

import matplotlib
import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.views import html_table
from tati_re.engine.progress import NotebookProgress, make_progress

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_steps.ipynb"


@pytest.fixture(autouse=True)
def without_a_screen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.mark.slow
def test_the_notebook_runs_and_its_band_is_wide_where_there_are_no_data(capsys):
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4 and len({cell["id"] for cell in notebook["cells"]}) == len(
        notebook["cells"]
    )
    names: dict = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            text = (
                "".join(cell["source"])
                .replace("num_steps=100_000", "num_steps=4_000")
                .replace("=20_000", "=1_000")
            )
            text = (
                text.replace("_every=800", "_every=50")
                .replace("1500", "600")
                .replace("seed=1\n", "seed=1, execution='graph'\n")
            )
            exec(compile(text, NOTEBOOK.name, "exec"), names)
    width = (names["prediction"].mean_upper - names["prediction"].mean_lower).ravel()
    grid = names["grid"][:, 0]
    inside, gap, outside = np.abs(grid + 0.6) < 0.1, np.abs(grid - 0.05) < 0.1, np.abs(grid) > 1.2
    assert width[inside].mean() < 0.2 < width[outside].mean()
    assert width[inside].mean() < width[gap].mean()
    assert len(names["prediction"].plot().axes) == 1
    assert "with momenta such as BAOAB are stable below" in capsys.readouterr().out


def test_simulations_and_runs_show_themselves():
    x = np.random.default_rng(0).normal(size=(20, 2))
    sim = Simulation(
        data=(x, (x[:, 0] > 0).astype(int)), hidden=[3], num_walkers=2, verbose=0, execution="graph"
    )
    text = sim._repr_html_()
    assert "<b>Simulation</b>" in text and "17: dense/kernel 2×3, dense/bias 3" in text
    assert "20 examples (classification), all examples" in text
    run = sim.sample(num_steps=4, record_every=1, step_size=0.01)
    text = run._repr_html_()
    assert "kinetic temperature" in text and "<table>" in text and "Warning:" in text
    assert html_table("<a>", [("b&c", "<d>")], ["1 < 2"]).count("<a>") == 0


class Cell(io.StringIO):
    """Standard output in a notebook."""


def test_progress_writes_over_one_line_below_the_cell():
    Cell.__module__ = "ipykernel.iostream"
    cell = Cell()
    progress = make_progress(1, cell)
    assert isinstance(progress, NotebookProgress)
    now = iter(np.arange(0.0, 10.0, 0.15))
    progress._clock = lambda: next(now)
    progress.message("The start.")
    progress.start(100, title="BAOAB")
    for step in (10, 20, 30, 40):
        progress.update(step, 123.456 if step < 40 else None)
    progress.message("A sentence.")
    progress.update(100)
    progress.stop()
    progress.stop()
    lines = cell.getvalue().split("\n")
    assert lines[0] == "The start."
    states = lines[1].split("\r")
    assert states[0] == "" and len(states) == 3 and states[1].startswith("BAOAB      20/100")
    assert len(states[2]) >= len(states[1].rstrip())
    assert (
        lines[2] == "A sentence."
        and lines[3].startswith("\rBAOAB      100/100")
        and lines[4:] == [""]
    )


def test_progress_is_one_display_of_a_kernel_that_is_updated(monkeypatch):
    """A stored notebook has the last state of a run, and not each one."""
    shown = []

    class Handle:
        def __init__(self, content):
            shown.append([content["text/plain"]])
            self._states = shown[-1]

        def update(self, content, raw):
            assert raw
            self._states.append(content["text/plain"])

    kernel = types.ModuleType("IPython")
    kernel.get_ipython = lambda: object()
    kernel.display = types.ModuleType("IPython.display")
    kernel.display.display = lambda content, raw, display_id: Handle(content)
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", kernel.display)

    Cell.__module__ = "ipykernel.iostream"
    cell = Cell()
    progress = make_progress(1, cell)
    progress._clock = iter(np.arange(0.0, 1e3, 0.3)).__next__
    for _ in range(2):
        progress.start(1_000, title="BAOAB")
        for step in range(1, 141):
            progress.update(step)
        progress.message("A sentence.")
        progress.update(1_000)
        progress.stop()
    assert cell.getvalue() == "A sentence.\n" * 2
    assert len(shown) == 2 and all(len(states) > 50 for states in shown)
    assert [states[-1].split()[1] for states in shown] == ["1,000/1,000"] * 2


def test_the_outputs_are_stored_and_are_those_of_the_code():
    """Numbered from the top, with what each cell shows: tables of the simulation and the run, and
    two figures.
    """
    cells = [
        cell
        for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    shown = [
        {kind: data for out in cell["outputs"] for kind, data in out.get("data", {}).items()}
        for cell in cells
    ]
    html = ["".join(each.get("text/html", "")) for each in shown]
    assert any("<b>Simulation</b>" in text for text in html) and any(
        "kinetic temperature" in text for text in html
    )
    pictures = [base64.b64decode(each["image/png"]) for each in shown if "image/png" in each]
    assert len(pictures) == 2 and all(picture.startswith(b"\x89PNG") for picture in pictures)
    text = "".join("".join(out.get("text", "")) for cell in cells for out in cell["outputs"])
    assert "with momenta such as BAOAB are stable below" in text and "Traceback" not in text
    assert not any(place in json.dumps(cells) for place in ("/work/", "/root/", "/home/")), (
        "nobody's folders"
    )
