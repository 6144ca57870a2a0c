"""Processor time: what a method may use, and how much it has used."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Budget:
    """Seconds of processor time, user and system, of all threads of this process.

    Attributes:
        seconds: What a method may use for fits, tuning, compilation and predictions.
        began: Processor time at the start.
    """

    seconds: float
    began: float = field(default_factory=time.process_time)

    @property
    def used(self) -> float:
        """Seconds since the start."""
        return time.process_time() - self.began

    @property
    def left(self) -> float:
        """Seconds until the budget is used."""
        return self.seconds - self.used


@contextlib.contextmanager
def clock_of_processor() -> Iterator[None]:
    """Lets `max_time` of a run count processor time, so that a busy machine changes nothing."""
    wall = time.monotonic
    time.monotonic = time.process_time
    try:
        yield
    finally:
        time.monotonic = wall
