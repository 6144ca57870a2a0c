"""Progress: a bar on a terminal, a line a minute elsewhere, silence when asked."""

import io
import sys

import numpy as np
import pytest
from rich.console import Console

import tati_re
from tati_re.engine.progress import (
    NullProgress,
    PlainProgress,
    RichProgress,
    make_progress,
    wrapped,
)


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
    progress.start(100_000, title="sampling", walkers=4)
    for step in range(1, 1001):
        clock.now = step / 5
        progress.update(10 * step, np.array([300.0, 302.0, 304.0, 306.0]), 1.0021, 5300.0)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "sampling   250/100,000          0:05   U 303, T 1.002, 0:19 left"
    assert [line.split()[1] for line in lines] == [
        f"{step:,}/100,000" for step in (250, 3250, 6250, 9250)
    ]
    progress.message("A note.")
    progress.update(10_001, 301.0)
    progress.stop()
    progress.stop()
    assert stream.getvalue().splitlines()[4:] == [
        "A note.",
        "sampling   10,001/100,000       3:20   U 301",
    ]


def test_verbose_2_has_a_line_each_five_seconds():
    clock, stream = Clock(), io.StringIO()
    progress = make_progress(2, stream)
    progress._clock = clock
    progress.start(1_000)
    for step in range(1, 201):
        clock.now = step / 10
        progress.update(step)
    assert len(stream.getvalue().splitlines()) == 4


@pytest.mark.parametrize(
    ("rate", "limit", "shown"),
    [
        (10.0, None, "1:30 left"),
        (10.0, 30.4, "0:30 left"),
        (10.0, 300.0, "1:30 left"),
        (None, 30.4, "0:30 left"),
        (10.0, 0.0, "0:00 left"),
    ],
)
def test_the_time_left_is_the_smaller_of_both_clocks(rate, limit, shown):
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(1_000)
    progress.update(100, rate=rate, limit=limit)
    progress.stop()
    assert stream.getvalue().rstrip().endswith(shown)
    bar = RichProgress(
        console=Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)
    )
    bar.start(1_000)
    bar.update(100, rate=rate, limit=limit)
    bar.stop()
    assert shown in bar.console.file.getvalue()


def test_a_run_with_max_time_shows_what_is_left_of_it(monkeypatch):
    """Of a run that would take hours."""
    shown = []

    class Noted(NullProgress):
        def update(self, step, *values, limit=None, **named):
            shown.append(limit)

    monkeypatch.setattr("tati_re.launch.launch.make_progress", lambda verbose: Noted())
    sim = tati_re.Simulation(data="two_clusters", hidden=[2], seed=1, execution="graph")
    sim.sample(sampler="BAOAB", step_size=0.001, num_steps=10**9, max_time=6.0)
    assert shown and all(limit is not None and limit < 6.0 for limit in shown)
    shown.clear()
    sim.sample(sampler="BAOAB", step_size=0.001, num_steps=10)
    assert shown and set(shown) == {None}


def test_a_process_without_standard_output_is_silent(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert isinstance(make_progress(1), NullProgress)


def test_a_narrow_terminal_has_the_name_of_the_method_alone():
    for width, shown in ((80, False), (130, True)):
        stream = io.StringIO()
        progress = RichProgress(console=Console(file=stream, force_terminal=True, width=width))
        progress.start(1000, title="BAOAB, 4 replicas, workers 2, blocks 4", walkers=4)
        progress.update(500, 312.4, 1.002, 5300.0)
        progress.stop()
        assert (
            "workers 2, blocks 4" in stream.getvalue()
        ) == shown and "U 312.4" in stream.getvalue()


def test_plain_line_of_a_fit():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(10, 5)
    progress.update(7, rate=0.5)
    progress.stop()
    assert stream.getvalue() == "           7/10                 0:00   0:06 left\n"


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
        "60,000/100,000",
        "U -123,457",
        "T 1.002",
        "0:08 left",
    ):
        assert part in last, last
    assert "x" * 100 + "\n  [bold]is used[/bold].\n" in text
    assert text.count("\x1b[?25l") == text.count("\x1b[?25h") == 1


def test_details_are_shown_with_verbose_2():
    for verbose, words in ((1, []), (2, ["4 walkers", "U 303", "T 1.002", "5,300 steps/s"])):
        stream = io.StringIO()
        progress = make_progress(verbose, stream)
        progress.detail("A detail.")
        progress.start(100_000, title="sampling", walkers=4)
        progress.update(250, 303.0, 1.0021, 5300.0, goal="ESS 212 of 400", missing=10_600.0)
        progress.stop()
        line = stream.getvalue().splitlines()[-1]
        assert "ESS 212 of 400" in line and line.endswith("about 0:02 left")
        assert [word in line for word in words] == [True] * len(words)
        assert ("A detail." in stream.getvalue()) == (verbose == 2)
        assert ("U 303" in line) == (verbose == 2)


def test_each_phase_leaves_one_line_with_what_it_found():
    for stream in (io.StringIO(), Terminal()):
        progress = PlainProgress(stream)
        if stream.isatty():
            console = Console(file=stream, width=100, force_terminal=True, color_system=None)
            progress = RichProgress(console=console)
        progress.start(2_000, title="fitting")
        progress.update(2_000, -160.9, rate=900.0)
        progress.stop()
        progress.start(50_000, title="burn-in")
        progress.update(7_680, -160.9, rate=900.0)
        progress.finish("step size 0.018")
        progress.start(100_000, 7_680, title="sampling")
        progress.update(24_000, rate=900.0, goal="ESS 212 of 400", missing=float("inf"))
        progress.finish("ESS 430 of 400, R-hat 1.005")
        progress.stop()
        shown = stream.getvalue().replace("\r", "\n").splitlines()
        rows = [next(line for line in reversed(shown) if name in line) for name in PHASES]
        assert "2,000/2,000" in rows[0] and "left" not in rows[0]
        assert " 7,680 " in rows[1] and rows[1].rstrip().endswith("step size 0.018")
        assert " 24,000 " in rows[2] and rows[2].rstrip().endswith("R-hat 1.005")


PHASES = ("fitting", "burn-in", "sampling")


def test_a_goal_whose_distance_is_not_known_promises_no_time():
    stream = io.StringIO()
    progress = PlainProgress(stream)
    progress.start(100)
    progress.update(10, rate=1.0, goal="ESS 2 of 400", missing=float("inf"))
    progress.stop()
    assert "left" not in stream.getvalue()
    progress.update(10, rate=1.0, goal="ESS 2 of 400", missing=float("inf"), limit=30.0)
    progress.stop()
    assert stream.getvalue().endswith("about 0:30 left\n")


def test_silence(capsys):
    progress = NullProgress()
    progress.start(10)
    progress.update(5, 1.0, 1.0, 100.0)
    progress.message("A note.")
    progress.detail("A detail.")
    progress.finish("done")
    progress.stop()
    assert capsys.readouterr() == ("", "")


def test_a_long_message_fits_the_screen():
    """One was 188 columns wide; a command that can be pasted stays on its line."""
    call = "  tati-sample --resume " + 40 * "folder/"
    text = (
        "The inputs are standardized, " + "since they are far from order 1, " * 3 + "by default. "
    )
    lines = wrapped(
        f"{text}Predictions are in the units of the data. Continue with:\n{call}"
    ).split("\n")
    assert max(map(len, lines[:-1])) <= 100 and lines[-1] == call
    assert lines[-2] == "  Predictions are in the units of the data. Continue with:"
    assert wrapped("Short. Two sentences.") == "Short. Two sentences."
