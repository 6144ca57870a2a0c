"""Progress of a run: a bar on a terminal, plain lines elsewhere, or silence."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TextIO

import numpy as np

from tati_re.core.printable import inner_stream, printable

if TYPE_CHECKING:
    from rich.console import Console

LINE_SECONDS = 5.0
_WIDE = 110
"""Columns of a terminal that has room for replicas, workers and blocks beside the name of a
method.
"""


class Progress(Protocol):
    """Progress of the engine; any object with these five methods. `start` once, then `update` as
    often as you like, `message` for a sentence at any time, `stop` at the end, also after an error:
    a bar hides the cursor until then.
    """

    def start(self, total: int, done: int = 0, title: str = "", walkers: int = 1) -> None:
        """Begins with `done` of `total` steps, under a title such as the sampler's name."""

    def update(
        self, step: int, potential: Any = None, temperature: Any = None, rate: float | None = None
    ) -> None:
        """Says the step reached, potential and temperature (numbers, or arrays over walkers), and
        steps a second.
        """

    def message(self, text: str) -> None:
        """Says one sentence."""

    def stop(self) -> None:
        """Ends; a second call does nothing."""


class NullProgress:
    """Says nothing."""

    def start(self, *_: Any, **__: Any) -> None:
        pass

    update = message = stop = start


class PlainProgress:
    """One line at most every five seconds, and the last state at the end; messages come at once."""

    seconds = LINE_SECONDS

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.stream = inner_stream(stream or sys.stdout)
        self._clock = clock
        self._waiting: str | None = None

    def start(self, total: int, done: int = 0, title: str = "", walkers: int = 1) -> None:
        self._total = total
        self._title = printable(title, keep="")
        self._walkers = walkers
        self._waiting = None
        self._next = self._clock() + self.seconds

    def update(
        self, step: int, potential: Any = None, temperature: Any = None, rate: float | None = None
    ) -> None:
        state = _state(self._total - step, self._walkers, potential, temperature, rate)
        self._waiting = "  ".join(
            part for part in (self._title, f"step {step}/{self._total}", state) if part
        )
        if self._clock() >= self._next:
            self._print_waiting()

    def message(self, text: str) -> None:
        print(printable(text), file=self.stream, flush=True)

    def stop(self) -> None:
        if self._waiting is not None:
            self._print_waiting()

    def _print_waiting(self) -> None:
        print(self._waiting, file=self.stream, flush=True)
        self._waiting = None
        self._next = self._clock() + self.seconds


class NotebookProgress(PlainProgress):
    """One line below the cell that is written over twice a second; sentences stay above it."""

    seconds = 0.5
    _width = 0

    def message(self, text: str) -> None:
        self._end_line()
        super().message(text)

    def stop(self) -> None:
        super().stop()
        self._end_line()

    def _print_waiting(self) -> None:
        # A shorter state must cover the end of a longer one.
        line = self._waiting or ""
        print("\r" + line.ljust(self._width), end="", file=self.stream, flush=True)
        self._width = len(line)
        self._waiting = None
        self._next = self._clock() + self.seconds

    def _end_line(self) -> None:
        if self._width:
            print(file=self.stream, flush=True)
            self._width = 0


class RichProgress:
    """A bar on a terminal: title, bar, step, walkers, potential, temperature, steps a second, time
    left.
    """

    def __init__(self, stream: TextIO | None = None, console: Console | None = None) -> None:
        from rich.console import Console

        self.console = console or Console(file=inner_stream(stream or sys.stdout))
        self._bar: Any = None

    def start(self, total: int, done: int = 0, title: str = "", walkers: int = 1) -> None:
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        self.stop()
        self._walkers = walkers
        title = printable(title, keep="")
        title = title if self.console.width >= _WIDE else title.partition(",")[0]
        counter = 2 * len(str(total)) + 1
        self._bar = Bar(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, min_width=len(title)),
            ),
            BarColumn(bar_width=None),
            TextColumn(
                "{task.completed}/{task.total}",
                table_column=Column(no_wrap=True, min_width=counter),
            ),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            console=self.console,
            refresh_per_second=4,
            expand=True,
        )
        state = _state(total - done, walkers, None, None, None)
        self._task = self._bar.add_task(title, total=total, completed=done, state=state)
        self._bar.start()

    def update(
        self, step: int, potential: Any = None, temperature: Any = None, rate: float | None = None
    ) -> None:
        state = _state(
            int(self._bar.tasks[0].total) - step, self._walkers, potential, temperature, rate
        )
        # 80 columns are just enough without this word.
        self._bar.update(self._task, completed=step, state=state.removesuffix(" left"))

    def message(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def make_progress(verbose: int = 1, stream: TextIO | None = None) -> Progress:
    """The progress that fits where it is shown; without a stream, standard output. `verbose` is 0
    for silence, 1 for a bar on a terminal, a line below the cell of a notebook and plain lines
    elsewhere, 2 for plain lines.
    """
    stream = inner_stream(stream or sys.stdout)
    if verbose == 0:
        return NullProgress()
    if verbose == 1 and stream.isatty() and os.environ.get("TERM") != "dumb":
        return RichProgress(stream)
    if verbose == 1 and type(stream).__module__.split(".")[0] in ("ipykernel", "google"):
        return NotebookProgress(stream)
    return PlainProgress(stream)


def _state(left: int, walkers: int, potential: Any, temperature: Any, rate: float | None) -> str:
    """Returns `4 walkers  U 312.4  T 1.002  5,300 steps/s  0:00:12 left`, without what is not known."""
    parts = [f"{walkers} walkers"] if walkers > 1 else []
    for letter, value in (("U", potential), ("T", temperature)):
        if value is not None and np.size(value):
            mean = float(np.mean(value))
            parts.append(
                f"{letter} {mean:,.0f}" if 1e4 <= abs(mean) < 1e9 else f"{letter} {mean:.4g}"
            )
    if rate is not None and math.isfinite(rate) and rate > 0:
        seconds = max(0, round(left / rate))
        minutes = seconds // 60 % 60
        hours = seconds // 3600
        parts.append(f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
        parts.append(f"{hours}:{minutes:02d}:{seconds % 60:02d} left")
    return "  ".join(parts)
