"""Signals that ask for a stop: Ctrl-C, SIGTERM, SIGHUP, and the one that a batch queue sends before
its end.
"""

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NoReturn

from tati_re.core.errors import InputError
from tati_re.core.process.exit_status import INTERRUPTED, of_signal

BARE = "Interrupted."
"""The sentence of a stop of which nobody knows more."""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
_truths: list[Callable[[], str]] = []
_watched: list[int] = []


class Terminated(SystemExit):
    """The end of a process that a signal other than Ctrl-C asked for.

    Args:
        number: Number of the signal. It determines the exit status.
        sentence: The message of the exception. Default: empty.
    """

    def __init__(self, number: int, sentence: str = "") -> None:
        super().__init__(sentence)
        self.code = self.status = of_signal(number)


STOPS = (KeyboardInterrupt, Terminated)
"""What a stop raises."""


class _Handler:
    """A handler of this module, known by its class."""

    def __init__(self, act: Callable[[int], Any]) -> None:
        self._act = act

    def __call__(self, number: int, frame: Any) -> None:
        self._act(number)


def stop(number: int, sentence: str = "") -> NoReturn:
    """Raises the exception that a signal means.

    Args:
        number: Number of the signal.
        sentence: The message of the exception. Default: empty.

    Raises:
        KeyboardInterrupt: The signal is SIGINT.
        Terminated: It is another signal; a script then ends with the right status.
    """
    raise (
        KeyboardInterrupt(*filter(None, [sentence]))
        if number == signal.SIGINT
        else Terminated(number, sentence)
    )


@contextmanager
def _handled(act: Callable[[int], Any], requeue_signal: str | None) -> Iterator[None]:
    """Gives the signals to `act`, but for SIGTERM and SIGHUP where they are ignored (nohup) or the
    program has handlers of its own. Signals reach the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        if requeue_signal is not None:
            raise InputError(
                "requeue_signal: signals reach only the main thread.",
                requeue_signal,
                "a run in the main thread",
            )
        yield
        return
    before = {}
    for name in dict.fromkeys((*_SIGNALS, requeue_signal)):
        if name is None or name not in signal.Signals.__members__:
            if name is not None and name == requeue_signal:
                raise InputError(
                    "requeue_signal: this system does not know this signal.", name, "max_time"
                )
            continue
        number = signal.Signals[name]
        is_requeue_signal = name in (requeue_signal, "SIGINT")
        now = signal.getsignal(number)
        if is_requeue_signal or now is signal.SIG_DFL or isinstance(now, _Handler):
            before[number] = signal.signal(number, _Handler(act))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def stopping(requeue_signal: str | None = None) -> Iterator[None]:
    """A signal raises one of `STOPS` as soon as Python has the word."""
    with _handled(lambda number: stop(number, BARE), requeue_signal):
        yield


@contextmanager
def interruptible(
    truth: Callable[[], str], requeue_signal: str | None = None
) -> Iterator[Callable[[], int]]:
    """Collects signals in this context as requests to end in good order.

    A second Ctrl-C interrupts at once.

    Args:
        truth: Returns the sentence for an interruption at once, about the files on disk.
        requeue_signal: Name of the signal that a batch queue sends before its end. Default: None,
            only SIGINT, SIGTERM and SIGHUP.

    Yields:
        A function that returns the number of the first signal that came, 0 before.

    Raises:
        InputError: `requeue_signal` is set outside the main thread, or this system does not know
            it.
    """
    signals: list[int] = []

    def ask(number: int) -> None:
        if number == signal.SIGINT and signals and not _watched:
            stop(number, truth())
        signals.append(number)

    _truths.append(truth)
    try:
        with _handled(ask, requeue_signal):
            yield lambda: signals[0] if signals else 0
    finally:
        _truths.pop()


@contextmanager
def saying(sentence: Callable[[], str]) -> Iterator[None]:
    """A stop in this block carries the sentence, unless it has a better one, or was said already
    (an empty one).
    """
    try:
        yield
    except STOPS as error:
        if str(error) == BARE or (isinstance(error, KeyboardInterrupt) and not str(error)):
            error.args = (sentence(),)
        raise


@contextmanager
def commanded() -> Iterator[None]:
    """The signals of a command: one asks for a stop, and a second Ctrl-C ends the process at once,
    also where Python waits for a long compiled call; the truth about the folder is said first.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(reader,), daemon=True).start()
    _watched.append(1)
    try:
        with stopping():
            yield
    finally:
        _watched.pop()
        signal.set_wakeup_fd(before)
        writer.close()


def in_command() -> bool:
    """Whether this process runs a command, rather than a Python script."""
    return bool(_watched)


def _watch(reader: socket.socket) -> None:
    times = 0
    with reader:
        while number := reader.recv(1):
            times += number[0] == signal.SIGINT
            if times > 1:
                notice = _truths[-1]() if _truths else "Files on disk are kept."
                shows = sys.stdout is not None and sys.stdout.isatty()
                cursor = "\033[?25h" if shows else ""
                with suppress(OSError):
                    os.write(2, f"{cursor}\nLeft at once. {notice}\n".encode())
                os._exit(INTERRUPTED)
