"""Progress of a run: a bar for each phase on a terminal, plain lines elsewhere, or silence."""

from __future__ import annotations

import math
import os
import re
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TextIO, cast

import numpy as np

from tati_re.core.printable import SCREEN_WIDTH, inner_stream, printable
from tati_re.core.process.standard_streams import LenientStream

if TYPE_CHECKING:
    from rich.console import Console

FIRST_SECONDS = 5.0
LINE_SECONDS = 60.0
"""Seconds to the first line of a log, and between later ones."""
_WIDE = 110
"""Columns of a terminal that has room for a long title."""
_TITLE = 10
"""Columns of the name of a phase: fitting, burn-in, sampling."""
_BAR = 12
"""Columns of a bar."""


_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=[A-Z])")


def wrapped(text: str) -> str:
    """A message in lines of at most 100 columns, broken between sentences where that suffices.

    Args:
        text: The message. Lines that begin with a space are laid out already and stay as they are:
            tables, and commands that can be pasted.

    Returns:
        The same words; the later lines of a paragraph are indented by two columns.
    """
    fill = textwrap.TextWrapper(
        SCREEN_WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    lines: list[str] = []
    for line in text.split("\n"):
        if line.startswith(" ") or len(line) <= SCREEN_WIDTH:
            lines.append(line)
            continue
        current, *sentences = _SENTENCE_END.split(line)
        for sentence in sentences:
            if len(current) + 1 + len(sentence) <= SCREEN_WIDTH:
                current = f"{current} {sentence}"
            else:
                lines += fill.wrap(current)
                current = f"  {sentence}"
        lines += fill.wrap(current)
    return "\n".join(lines)


class Progress(Protocol):
    """Progress of the engine; any object with these six methods.

    `start` begins a phase, `update` may be called as often as you like, `finish` ends the phase
    with a few words, `message` reports a sentence at any time, `detail` one that only
    `verbose=2` shows, and `stop` ends it all, also after an error: a bar hides the cursor until
    then.
    """

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        """Begins a phase.

        Args:
            total: The last step of the phase, or the number of parts.
            done: Steps done already. Default: 0.
            title: What the phase is called, such as "burn-in". Default: nothing.
            walkers: Number of walkers. Default: 1.
            unit: Name of the unit that is counted, such as "part". Default: "step".
        """

    def update(
        self,
        step: int,
        potential: Any = None,
        temperature: Any = None,
        rate: float | None = None,
        limit: float | None = None,
        goal: str = "",
        missing: float | None = None,
    ) -> None:
        """Reports the state of the phase.

        Args:
            step: Steps done.
            potential: U, a number or an array over walkers. Default: not known.
            temperature: Temperature, likewise. Default: not known.
            rate: Steps a second. Default: not known.
            limit: Seconds that `max_time` leaves. Default: no limit.
            goal: How far the run is from its end, such as `ESS 212 of 400`. Default: a run of
                fixed length.
            missing: Steps expected until the goal; inf if not known. Default: those to the total.
        """

    def finish(self, text: str = "") -> None:
        """Ends a phase, with a few words on its result."""

    def message(self, text: str) -> None:
        """Reports one sentence."""

    def detail(self, text: str) -> None:
        """Reports one sentence, if details are shown."""

    def stop(self) -> None:
        """Ends; a second call does nothing."""


class NullProgress:
    """Reports nothing."""

    def start(self, *_: Any, **__: Any) -> None:
        """Does nothing.

        Args:
            *_: Any arguments of `Progress`.
            **__: Any arguments of `Progress`.
        """
        pass

    update = finish = message = detail = stop = start


class PhaseState:
    """The state of a phase, as text.

    Args:
        total: The last step.
        walkers: The number of walkers.
        details: Whether U, T, walkers and the rate are shown beside a goal.
        clock: The time in seconds.
    """

    def __init__(self, total: int, walkers: int, details: bool, clock: Callable[[], float]) -> None:
        self.total = total
        self._walkers = walkers
        self._details = details
        self._clock = clock
        self._began = clock()
        self.over = False

    def count(self, step: int) -> str:
        """Steps done, of how many unless the phase is over."""
        if self.over and step != self.total:
            return f"{step:,}"
        return f"{step:,}/{self.total:,}"

    @property
    def elapsed(self) -> str:
        """The time since the phase began, such as `0:31`."""
        return clock_text(self._clock() - self._began)

    def text(
        self,
        step: int,
        potential: Any = None,
        temperature: Any = None,
        rate: float | None = None,
        limit: float | None = None,
        goal: str = "",
        missing: float | None = None,
    ) -> str:
        """The state in words, such as `ESS 212 of 400, R-hat 1.021, about 0:35 left`.

        Args:
            step: Steps done.
            potential: U, a number or an array over walkers. Default: None, not known.
            temperature: Temperature, a number or an array over walkers. Default: None, not known.
            rate: Steps a second. Default: None, not known.
            limit: Seconds that `max_time` leaves. Default: None, no limit.
            goal: How far the run is from its end, such as `ESS 212 of 400`. Default: a run of fixed
                length.
            missing: Steps expected until the goal; inf if not known. Default: None, all up to the
                total.
        """
        parts = [goal] if goal else []
        if self._details and self._walkers > 1:
            parts.append(f"{self._walkers} walkers")
        if self._details or not goal:
            parts += _energies(potential, temperature)
        if self._details and _is_rate(rate):
            parts.append(_rate_text(rate))

        steps = self.total - step if missing is None else missing
        seconds = [] if limit is None else [limit]
        if _is_rate(rate) and math.isfinite(steps):
            seconds.append(max(0.0, steps) / cast(float, rate))
        if seconds and step < self.total:
            about = "about " if goal else ""
            parts.append(f"{about}{clock_text(min(seconds))} left")
        return ", ".join(parts)


def _is_rate(rate: float | None) -> bool:
    return rate is not None and math.isfinite(rate) and rate > 0


def _rate_text(rate: Any) -> str:
    return f"{rate:,.0f} steps/s" if rate >= 10 else f"{rate:.2g} steps/s"


def _energies(potential: Any, temperature: Any) -> list[str]:
    """U and T, if they are known, as means over the walkers."""
    parts = []
    for letter, value in (("U", potential), ("T", temperature)):
        if value is not None and np.size(value):
            mean = float(np.mean(value))
            form = ",.0f" if 1e4 <= abs(mean) < 1e9 else ".4g"
            parts.append(f"{letter} {mean:{form}}")
    return parts


class PlainProgress:
    """One line after five seconds, one a minute from then on, and the last state at the end of a
    phase; messages come at once.

    Args:
        stream: Where the lines go. Default: standard output.
        clock: The time in seconds. Default: `time.monotonic`.
        seconds: Seconds between lines. Default: 60.
        details: Whether details are shown. Default: no.
    """

    seconds = LINE_SECONDS

    def __init__(
        self,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
        seconds: float | None = None,
        details: bool = False,
    ) -> None:
        self.stream = stream or cast(TextIO, LenientStream(inner_stream(sys.stdout)))
        self._clock = clock
        self.seconds = self.seconds if seconds is None else seconds
        self._details = details
        self._waiting: str | None = None

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        """Begins a phase, whose first line is due after five seconds at most.

        Args:
            total: The last step of the phase, or the number of parts.
            done: Steps done already. Default: 0.
            title: What the phase is called, at the start of each line. Default: nothing.
            walkers: Number of walkers, shown with the details. Default: 1.
            unit: Name of the unit that is counted, shown unless it is "step". Default: "step".
        """
        self._state = PhaseState(total, walkers, self._details, self._clock)
        self._title = printable(title, keep="").ljust(_TITLE)
        self._unit = "" if unit == "step" else f"{unit} "
        self._step = done
        self._waiting = None
        self._next = self._clock() + min(FIRST_SECONDS, self.seconds)

    def update(self, step: int, *values: Any, **named: Any) -> None:
        """Prints the state of the phase if a line is due, otherwise keeps it.

        Args:
            step: Steps done.
            *values: Potential, temperature and further values of `Progress.update`, in its order.
            **named: Values of `Progress.update` by name.
        """
        self._step = step
        self._waiting = self._line(self._state.text(step, *values, **named))
        if self._clock() >= self._next:
            self._print_waiting()

    def finish(self, text: str = "") -> None:
        self._state.over = True
        self._waiting = self._line(printable(text, keep=""))
        self.stop()

    def message(self, text: str) -> None:
        print(wrapped(printable(text)), file=self.stream, flush=True)

    def detail(self, text: str) -> None:
        if self._details:
            self.message(text)

    def stop(self) -> None:
        if self._waiting is not None:
            self._print_waiting()

    def _line(self, state: str) -> str:
        count = self._unit + self._state.count(self._step)
        line = f"{self._title} {count:<17} {self._state.elapsed:>7}   {state}"
        return line.rstrip()

    def _print_waiting(self) -> None:
        print(self._waiting, file=self.stream, flush=True)
        self._waiting = None
        self._next = self._clock() + self.seconds


class NotebookProgress(PlainProgress):
    """One line below the cell that is replaced twice a second; sentences are printed.

    The line is a display of IPython that is updated, so that a stored notebook has one line as
    well. Where there is no IPython kernel, a carriage return writes over the line.

    Args:
        stream: Where the lines go without a kernel, and where sentences go. Default: None, standard
            output.
        clock: The time in seconds. Default: `time.monotonic`.
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
        content = {"text/plain": line}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

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
    """A bar on a terminal for each phase: title, bar, steps, elapsed time, state.

    The line of a phase that is over stays.

    Args:
        stream: Where it is shown. Default: standard output.
        console: The console of rich. Default: one for the stream.
        clock: The time in seconds. Default: `time.monotonic`.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console

        self.console = console or Console(file=inner_stream(stream or sys.stdout))
        self._clock = clock
        self._bar: Any = None

    def start(
        self, total: int, done: int = 0, title: str = "", walkers: int = 1, unit: str = "step"
    ) -> None:
        """Begins a phase with a bar, and ends the bar before it.

        Args:
            total: The last step of the phase, or the number of parts.
            done: Steps done already. Default: 0.
            title: What the phase is called. A narrow terminal shows it up to its first comma.
                Default: nothing.
            walkers: Number of walkers; not shown. Default: 1.
            unit: Name of the unit that is counted; not shown. Default: "step".
        """
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        self.stop()
        self._state = PhaseState(total, walkers, details=False, clock=self._clock)
        title = printable(title, keep="")
        title = title if self.console.width >= _WIDE else title.partition(",")[0]
        self._bar = Bar(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(no_wrap=True, min_width=_TITLE),
            ),
            BarColumn(bar_width=_BAR),
            TextColumn(
                "{task.fields[count]}",
                table_column=Column(no_wrap=True, min_width=2 * len(f"{total:,}") + 1),
            ),
            TextColumn(
                "{task.fields[elapsed]}",
                table_column=Column(no_wrap=True, min_width=4, justify="right"),
            ),
            TextColumn("{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            console=self.console,
            refresh_per_second=4,
        )
        fields = self._fields(done, self._state.text(done))
        self._task = self._bar.add_task(title, total=total, completed=done, **fields)
        self._bar.start()

    def update(self, step: int, *values: Any, **named: Any) -> None:
        """Shows the state of the phase; does nothing where no phase has begun.

        Args:
            step: Steps done.
            *values: Potential, temperature and further values of `Progress.update`, in its order.
            **named: Values of `Progress.update` by name. `missing` also sets the length of the bar,
                so it must be given by name.
        """
        if self._bar is None:
            return
        missing = named.get("missing")
        total = self._state.total
        if missing is not None and math.isfinite(missing):
            total = min(total, max(1, step + round(missing)))
        fields = self._fields(step, self._state.text(step, *values, **named))
        self._bar.update(self._task, total=total, completed=step, **fields)

    def finish(self, text: str = "") -> None:
        if self._bar is None:
            return
        self._state.over = True
        fields = self._fields(self._step, printable(text, keep=""))
        self._bar.update(self._task, total=max(1, self._step), completed=self._step, **fields)
        self.stop()

    def _fields(self, step: int, state: str) -> dict[str, str]:
        """What is shown beside the bar."""
        self._step = step
        return {"count": self._state.count(step), "elapsed": self._state.elapsed, "state": state}

    def message(self, text: str) -> None:
        self.console.print(wrapped(printable(text)), markup=False, highlight=False, soft_wrap=True)

    def detail(self, text: str) -> None:
        """Details are shown as plain lines, with `verbose=2`."""

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
        points     part 1/3             0:00   0:00 left
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

    def done(self, was_stored: bool = False) -> None:
        """Counts the next part.

        Args:
            was_stored: Whether it was there already, so that its time tells nothing. Default: no.
        """
        now = self._clock()
        if not was_stored:
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
            a line a minute; 2: details, as plain lines, one each five seconds. Default: 1.
        stream: Where it is shown. Default: standard output; a process without one is silent.
    """
    target = inner_stream(stream or sys.stdout)
    if verbose == 0 or target is None:
        return NullProgress()
    is_notebook = type(target).__module__.split(".")[0] in ("ipykernel", "google")
    # A run does not end where it cannot say how far it is.
    stream = cast(TextIO, LenientStream(target))
    if verbose == 1 and stream.isatty() and os.environ.get("TERM") != "dumb":
        return RichProgress(stream)
    if verbose == 1 and is_notebook:
        return NotebookProgress(stream)
    details = verbose >= 2
    return PlainProgress(stream, seconds=FIRST_SECONDS if details else None, details=details)


def clock_text(seconds: float) -> str:
    """Seconds as `1:30`, or `2:01:30`."""
    total_seconds = max(0, round(seconds))
    minutes = total_seconds // 60
    if minutes < 60:
        return f"{minutes}:{total_seconds % 60:02d}"
    return f"{minutes // 60}:{minutes % 60:02d}:{total_seconds % 60:02d}"
