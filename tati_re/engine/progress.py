"""Progress of a run: a bar on a terminal, plain lines elsewhere, or silence."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

import numpy as np

from tati_re.core.printable import inner_stream, printable
from tati_re.core.standard_streams import LenientStream

if TYPE_CHECKING:
    from rich.console import Console

FIRST_SECONDS = 5.0
LINE_SECONDS = 60.0
"""Seconds to the first line of a log, and between later ones."""
_WIDE = 110
"""Columns of a terminal that has room for replicas, workers and blocks beside the name of a
method.
"""


class Progress(Protocol):
    """Progress of the engine; any object with these five methods. `start` once, then `update` as
    often as you like, `message` for a sentence at any time, `stop` at the end, also after an error:
    a bar hides the cursor until then.
    """

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        """Begins with `done` of `total` steps, or of another unit, under a title such as the
        sampler's name.
        """

    def update(
        self,
        step: int,
        potential: Any = None,
        temperature: Any = None,
        rate: float | None = None,
        limit: float | None = None,
    ) -> None:
        """Says the step reached, potential and temperature (numbers, or arrays over walkers), steps
        a second, and the seconds that `max_time` leaves, where it is given.
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
    """One line after five seconds, one a minute from then on, and the last state at the end;
    messages come at once.

    Args:
        stream: Where the lines go. Default: standard output.
        clock: The time in seconds. Default: `time.monotonic`.
        seconds: Seconds between lines. Default: 60.
    """

    seconds = LINE_SECONDS

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        seconds: float | None = None,
    ) -> None:
        self.stream = stream or cast(TextIO, LenientStream(inner_stream(sys.stdout)))
        self._clock = clock
        self.seconds = self.seconds if seconds is None else seconds
        self._waiting: str | None = None

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        self._total = total
        self._title = printable(title, keep="")
        self._walkers = walkers
        self._unit = unit
        self._waiting = None
        self._next = self._clock() + min(FIRST_SECONDS, self.seconds)

    def update(
        self,
        step: int,
        potential: Any = None,
        temperature: Any = None,
        rate: float | None = None,
        limit: float | None = None,
    ) -> None:
        state = _state(self._total - step, self._walkers, potential, temperature, rate, limit)
        self._waiting = "  ".join(
            part for part in (self._title, f"{self._unit} {step}/{self._total}", state) if part
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
    """One line below the cell that is replaced twice a second; sentences are printed.

    The line is a display of IPython that is updated, so that a stored notebook has one line as
    well. Where there is no IPython kernel, a carriage return writes over the line.
    """

    seconds = 0.5
    _width = 0

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(stream, clock)
        self._display = _ipython_display()
        self._handle: Any = None

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        super().start(total, done, title, walkers, unit)
        self._handle = None

    def message(self, text: str) -> None:
        self._end_line()
        super().message(text)

    def stop(self) -> None:
        super().stop()
        self._end_line()

    def _print_waiting(self) -> None:
        line = self._waiting or ""
        if self._display is not None:
            self._show(line)
        else:
            # A shorter state must cover the end of a longer one.
            print("\r" + line.ljust(self._width), end="", file=self.stream, flush=True)
            self._width = len(line)
        self._waiting = None
        self._next = self._clock() + self.seconds

    def _show(self, line: str) -> None:
        """Shows the line in the display of this run, which the first line makes."""
        shown = {"text/plain": line}
        if self._handle is None:
            self._handle = self._display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def _end_line(self) -> None:
        if self._width:
            print(file=self.stream, flush=True)
            self._width = 0


def _ipython_display() -> Any:
    """The function `display` of IPython in a kernel; None outside."""
    ipython = sys.modules.get("IPython")
    if ipython is None or ipython.get_ipython() is None:
        return None
    from IPython.display import display

    return display


class RichProgress:
    """A bar on a terminal: title, bar, step, walkers, potential, temperature, steps a second, time
    left.
    """

    def __init__(self, stream: TextIO | None = None, console: Console | None = None) -> None:
        from rich.console import Console

        self.console = console or Console(file=inner_stream(stream or sys.stdout))
        self._bar: Any = None

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
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
        state = _state(total - done, walkers)
        self._task = self._bar.add_task(title, total=total, completed=done, state=state)
        self._bar.start()

    def update(
        self,
        step: int,
        potential: Any = None,
        temperature: Any = None,
        rate: float | None = None,
        limit: float | None = None,
    ) -> None:
        left = int(self._bar.tasks[0].total) - step
        state = _state(left, self._walkers, potential, temperature, rate, limit)
        # 80 columns are just enough without this word.
        self._bar.update(self._task, completed=step, state=state.removesuffix(" left"))

    def message(self, text: str) -> None:
        self.console.print(printable(text), markup=False, highlight=False, soft_wrap=True)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class Countdown:
    """Progress of a work in parts: parts done, of how many, and the time left at this pace.

    Args:
        progress: Where it is shown.
        costs: What each part costs beside the others, `(parts,)`, above 0.
        title: What the work is.
        clock: The time in seconds. Default: `time.monotonic`.

    Examples:
        >>> countdown = Countdown(PlainProgress(), [1.0, 1.0, 2.0], "points")
        >>> countdown.done()
        >>> countdown.stop()
        points  part 1/3  0:00:00 left
    """

    def __init__(
        self,
        progress: Progress,
        costs: Sequence[float],
        title: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._progress = progress
        self._clock = clock
        self._costs = list(costs)
        self._number = 0
        self._spent = self._cost = 0.0
        self._since = clock()
        progress.start(len(self._costs), title=title, unit="part")

    def done(self, kept: bool = False) -> None:
        """Counts the next part.

        Args:
            kept: Whether it was there already, so that its time tells nothing. Default: no.
        """
        now = self._clock()
        if not kept:
            self._spent += now - self._since
            self._cost += self._costs[self._number]
        self._since = now
        self._number += 1
        left = sum(self._costs[self._number :])
        limit = left * self._spent / self._cost if self._cost else None
        self._progress.update(self._number, limit=limit)

    def stop(self) -> None:
        """Shows the last state; the parts end here."""
        self._progress.stop()


def make_progress(verbose: int = 1, stream: TextIO | None = None) -> Progress:
    """The progress that fits where it is shown.

    Args:
        verbose: 0: silence; 1: a bar on a terminal, a line below the cell of a notebook, elsewhere
            a line a minute; 2: plain lines, one each five seconds. Default: 1.
        stream: Where it is shown. Default: standard output; a process without one is silent.
    """
    shown = inner_stream(stream or sys.stdout)
    if verbose == 0 or shown is None:
        return NullProgress()
    is_notebook = type(shown).__module__.split(".")[0] in ("ipykernel", "google")
    # A run does not end where it cannot say how far it is.
    stream = cast(TextIO, LenientStream(shown))
    if verbose == 1 and stream.isatty() and os.environ.get("TERM") != "dumb":
        return RichProgress(stream)
    if verbose == 1 and is_notebook:
        return NotebookProgress(stream)
    return PlainProgress(stream, seconds=FIRST_SECONDS if verbose == 2 else None)


def _state(
    left: int,
    walkers: int,
    potential: Any = None,
    temperature: Any = None,
    rate: float | None = None,
    limit: float | None = None,
) -> str:
    """Returns `4 walkers  U 312.4  T 1.002  5,300 steps/s  0:00:12 left`, without what is not
    known; the time left is that of all steps or, where it is shorter, that of `max_time`.
    """
    parts = [f"{walkers} walkers"] if walkers > 1 else []
    for letter, value in (("U", potential), ("T", temperature)):
        if value is not None and np.size(value):
            mean = float(np.mean(value))
            parts.append(
                f"{letter} {mean:,.0f}" if 1e4 <= abs(mean) < 1e9 else f"{letter} {mean:.4g}"
            )

    clocks = [] if limit is None else [limit]
    if rate is not None and math.isfinite(rate) and rate > 0:
        clocks.append(left / rate)
        parts.append(f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s")
    if clocks:
        parts.append(f"{clock_text(min(clocks))} left")
    return "  ".join(parts)


def clock_text(seconds: float) -> str:
    """Seconds as `0:01:30`."""
    whole = max(0, round(seconds))
    minutes = whole // 60 % 60
    hours = whole // 3600
    return f"{hours}:{minutes:02d}:{whole % 60:02d}"
