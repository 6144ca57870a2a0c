"""What others wrote does not steer the terminal, and hints can be pasted."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import unicodedata
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas
import pytest
from rich.console import Console

import tati_re
from tati_re.cli import analyse, compare, dataset, report
from tati_re.cli.arguments import command
from tati_re.core.errors import InputError, SamplingError, pasted
from tati_re.core.printable import PrintableStream, inner_stream, printable, printable_output
from tati_re.core.views import viewable
from tati_re.engine.progress import PlainProgress, RichProgress
from tati_re.prediction.results import ClassPrediction
from tati_re.report.html import bullets, html_table, pairs, paragraph
from tati_re.report.modules import Result
from tati_re.report.page import without_folders
from tati_re.runs.run import LadderTable

EVIL = [
    "\x1b[2J",
    "\x1b]0;owned\x07",
    "\x1b]52;c;bHM=\x07",
    "\x9b31m",
    "\u202etxt.exe",
    "\u2066a\u2069",
    "\u200b",
    "\u200d",
    "\ufeff",
    "\u061c",
    "\u2028",
    "\x7f",
    "\b\b\b",
    "\r0",
    "\x00",
    "\udc80",
    "\U000e0041",
]
PLAIN = ["x", "größe", "名前", "a\tb\nc", "é", "😀", "U = 1.5·10⁻³", "a\xa0b", "ع"]


def steers(text: str, allowed: str = "\n\t") -> bool:
    return any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
        for character in text
        if character not in allowed
    )


@pytest.mark.parametrize("text", EVIL)
def test_controls_are_written_as_letters(text):
    assert not steers(printable(f"a{text}b"))
    assert printable(f"a{text}b") != "ab"
    assert not steers(str(InputError(f"a {text}.", text, text)), "")
    assert not steers(str(SamplingError(text, 1, 0)), "")
    for made in (paragraph(text), bullets([text]), pairs([(text, text)])):
        assert not steers(made)
    if text.isascii() or text.encode(errors="ignore"):
        assert not steers(html_table(pandas.DataFrame({text: [text]})))


@pytest.mark.parametrize("text", PLAIN)
def test_all_other_letters_stay(text):
    assert printable(text) == text
    assert str(InputError(text)) == " ".join(text.split("\n")).replace("\t", " ")


def test_errors_are_one_line():
    error = InputError("a\nb.", "c\n\td", "e\r\nf")
    assert "\n" not in str(error) and "\r" not in str(error)


def test_a_stream_that_is_printable(capsys):
    with printable_output():
        print("a\x1b[1mb")
        print("\u202ec", file=sys.stderr)
        assert sys.stdout.isatty() is False and sys.stdout.encoding
        assert isinstance(sys.stdout, PrintableStream)
        assert not isinstance(inner_stream(sys.stdout), PrintableStream)
        with printable_output():
            print("d\x07")
    assert not isinstance(sys.stdout, PrintableStream)
    out, err = capsys.readouterr()
    assert out == "a\\x1b[1mb\nd\\x07\n" and err == "\\u202ec\n"


def test_streams_that_are_not_there(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    with printable_output():
        assert sys.stdout is None


def test_any_command_prints_without_controls(capsys):
    def body(_):
        print("\x1b[31mred")
        print("\x1b[32mgreen", file=sys.stderr)
        raise InputError("bad \x1b[33m.")

    assert command("tati-x", body, []) == 2
    out, err = capsys.readouterr()
    assert not steers(out + err) and "\\x1b[31mred" in out and "\\x1b[32mgreen" in err


@pytest.mark.parametrize("text", EVIL)
def test_progress(text):
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(10, title=text)
    progress.update(5)
    progress.message(text)
    progress.stop()
    assert not steers(stream.getvalue())
    stream = io.StringIO()
    shown = RichProgress(console=Console(file=stream, force_terminal=False, width=120))
    shown.start(10, title=text)
    shown.message(text)
    shown.stop()
    assert not steers(stream.getvalue())


def test_a_bar_on_a_terminal_keeps_its_colors():
    """Its own control characters go to the stream below the one that is printable."""
    stream = io.StringIO()
    stream.isatty = lambda: True
    progress = RichProgress(PrintableStream(stream))
    progress.console._force_terminal = True
    progress.start(10, title="MCLMC")
    progress.message("half \x1b]0;owned\x07")
    progress.update(10)
    progress.stop()
    text = stream.getvalue()
    assert "\x1b[" in text and "\\x1b[" not in text and "\x1b]0" not in text


@pytest.fixture(scope="module")
def evil_run(tmp_path_factory):
    """A run whose data have names that steer a terminal."""
    folder = tmp_path_factory.mktemp("runs")
    rows = "".join(f"{i % 7},{i % 5},{'yes' if i % 3 else 'no'}\x1b[2J\n" for i in range(60))
    (folder / "a.csv").write_text("x\x1b[31m,z\u202e,label\n" + rows)
    sim = tati_re.Simulation(data=str(folder / "a.csv"), label_columns=["label"], verbose=0)
    sim.sample(
        sampler="sgld",
        step_size=1e-5,
        num_steps=60,
        trajectory_every=5,
        record_every=5,
        output=str(folder / "run\x1b[32m"),
    )
    return folder / "run\x1b[32m"


def test_commands_on_a_run_with_names_that_steer(evil_run, tmp_path, capsys):
    calls = [
        (dataset.main, ["--inspect", str(evil_run.parent / "a.csv")]),
        (analyse.main, [str(evil_run), "--no-figures", "--output", str(tmp_path / "out")]),
        (compare.main, [str(evil_run), str(evil_run)]),
        (compare.main, ["--verify", str(evil_run)]),
        (report.main, [str(evil_run), "--output", str(tmp_path / "a.html")]),
    ]
    for main, argv in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main(argv)
        out, err = capsys.readouterr()
        assert not steers(out + err), (argv, out, err)
    page = (tmp_path / "a.html").read_text()
    assert not steers(page)
    assert str(tmp_path) not in page and str(evil_run.parent) not in page
    assert not steers(tati_re.load(evil_run).summary())


FOLDERS = ["a b", "it's", "-x", "--data", 'q"q', "$HOME", "a;b", "ä", "a\nb", "\x1b[1m", "*", "~"]


@pytest.mark.parametrize("name", FOLDERS)
def test_a_hint_can_be_pasted(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(name).mkdir()
    line = f"ls -d {pasted(name)}"
    assert not steers(line, "")
    done = subprocess.run(["bash", "-c", f"test -d {pasted(name)}"], capture_output=True)
    assert done.returncode == 0, pasted(name)


def test_a_name_that_is_not_utf_8(tmp_path):
    name = os.fsdecode(b"a\xff")
    os.mkdir(tmp_path / name)
    words = pasted(tmp_path / name)
    assert words == words.encode().decode()
    assert subprocess.run(["bash", "-c", f"test -d {words}"]).returncode == 0


def test_absolute_folders_leave_a_page():
    body = (
        '<a href="/keep/this/one">x</a> <p>/data/mine/a.csv and /opt/b c/d.csv, '
        "/home/me/runs/a/run.csv; 3 / 4, kJ/mol/K</p><td>1/2</td>"
    )
    text = without_folders(body, [Path("/home/me/runs/a")])
    assert 'href="/keep/this/one"' in text and "<td>1/2</td>" in text and "kJ/mol/K" in text
    assert "/data" not in text and "/home" not in text and "a.csv" in text and "3 / 4" in text
    assert "a/run.csv" in text


@pytest.mark.parametrize("text", [text for text in EVIL if text != "\udc80"])
def test_tables_of_results_do_not_steer(text):
    """The names of classes head the columns of predictions."""
    table = pandas.DataFrame({f"p[{text}]": [0.5], "class": [text]})

    @viewable
    class Found(NamedTuple):
        table: pandas.DataFrame

    for found in (Result(table, [f"It is {text}."]), Found(table), LadderTable(table)):
        assert not steers(repr(found))
    half = np.full((1, 2), 0.5)
    found = ClassPrediction(
        num_draws=4,
        effective_draws=4.0,
        level=0.9,
        draw_losses=None,
        walker=None,
        weight=None,
        probabilities=half,
        std=half,
        lower=half,
        upper=half,
        expected_entropy=np.ones(1),
        labels=None,
        class_values=np.array([text, "b"]),
        draw_accuracy=None,
    )
    assert not steers(repr(found))
