"""The first sentences of a run, which wait until its options have passed the checks."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

from tati_re.core.errors import InputError
from tati_re.engine.progress import make_progress

_WAITING: ContextVar[list[tuple[int, str]] | None] = ContextVar("waiting sentences", default=None)


@contextlib.contextmanager
def opening() -> Iterator[None]:
    """Makes the sentences of `announce` wait, so that a refused option is all that is printed.

    They are printed by `release`, or when the block ends. An `InputError` before that drops them.
    """
    token = _WAITING.set([])
    try:
        yield
    except InputError:
        raise
    except BaseException:
        release()
        raise
    else:
        release()
    finally:
        _WAITING.reset(token)


def announce(verbose: int, text: str) -> None:
    """Prints a sentence of the start of a run, or lets it wait.

    Args:
        verbose: The option; 0 prints nothing.
        text: The sentence.
    """
    waiting = _WAITING.get()
    if waiting is None:
        make_progress(verbose).message(text)
    else:
        waiting.append((verbose, text))


def release() -> None:
    """Prints what waits, and lets nothing wait from then on: the options are checked."""
    waiting = _WAITING.get()
    if waiting is None:
        return
    for verbose, text in waiting:
        make_progress(verbose).message(text)
    _WAITING.set(None)
