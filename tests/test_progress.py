"""Progress: a bar on a terminal, at most a line every five seconds elsewhere, silence when
asked.
"""

import io

import numpy as np
import pytest
from rich.console import Console

from tati_re.engine.progress import NullProgress, PlainProgress, RichProgress, make_progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_choice(monkeypatch, capsys):
    monkeypatch.setenv("TERM", "xterm-256color")
    assert isinstance(make_progress(0, Terminal()), NullProgress)
    assert isinstance(make_progress(1, Terminal()), RichProgress)
    assert isinstance(make_progress(2, Terminal()), PlainProgress)
    assert isinstance(make_progress(1, io.StringIO()), PlainProgress)
    assert isinstance(make_progress(), PlainProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(make_progress(1, Terminal()), PlainProgress)


def test_plain_lines_are_rare():
    clock, stream = Clock(), io.StringIO()
    progress = PlainProgress(stream, clock=clock)
    progress.start(100_000, title="BAOAB", walkers=4)
    for step in range(1, 1001):
        clock.now = step / 50
        progress.update(10 * step, np.array([300.0, 302.0, 304.0, 306.0]), 1.0021, 5300.0)
    lines = stream.getvalue().splitlines()
    assert (
        lines[0]
        == "BAOAB  step 2500/100000  4 walkers  U 303  T 1.002  5,300 steps/s  0:00:18 left"
    )
    assert len(lines) == 4
    progress.message("A note.")
    progress.update(10_001, 301.0)
    progress.stop()
    progress.stop()
    assert stream.getvalue().splitlines()[4:] == [
        "A note.",
        "BAOAB  step 10001/100000  4 walkers  U 301",
    ]


def test_a_narrow_terminal_has_the_name_of_the_method_alone():
    for width, shown in ((80, False), (130, True)):
        stream = io.StringIO()
        progress = RichProgress(console=Console(file=stream, force_terminal=True, width=width))
        progress.start(1000, title="BAOAB, 4 replicas, workers 2, blocks 4", walkers=4)
        progress.update(500, 312.4, 1.002, 5300.0)
        progress.stop()
        assert (
            "workers 2, blocks 4" in stream.getvalue()
        ) == shown and "5,300 steps/s" in stream.getvalue()


def test_plain_line_of_a_fit():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(10, 5)
    progress.update(7, rate=0.5)
    progress.stop()
    assert stream.getvalue() == "step 7/10  0.5 steps/s  0:00:06 left\n"


@pytest.mark.parametrize("width", [80, 120])
def test_bar(width, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")  # a dumb one has no cursor to hide
    stream = Terminal()
    console = Console(file=stream, width=width, force_terminal=True, color_system=None)
    progress = RichProgress(console=console)
    progress.start(100_000, 50_000, "BAOAB [x]", walkers=8)
    progress.update(60_000, np.array([-123456.0, -123458.0]), 1.0021, 5300.0)
    progress.message(
        "The checkpoint current.npz is damaged; " + "x" * 100 + " [bold]is used[/bold]."
    )
    progress.stop()
    progress.stop()
    text = stream.getvalue()
    last = next(line for line in reversed(text.splitlines()) if "BAOAB" in line)
    for part in (
        "BAOAB [x]",
        "60000/100000",
        "8 walkers",
        "U -123,457",
        "T 1.002",
        "5,300 steps/s",
        "0:00:08",
    ):
        assert part in last, last
    assert "x" * 100 + " [bold]is used[/bold].\n" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_silence(capsys):
    progress = NullProgress()
    progress.start(10)
    progress.update(5, 1.0, 1.0, 100.0)
    progress.message("A note.")
    progress.stop()
    assert capsys.readouterr() == ("", "")
