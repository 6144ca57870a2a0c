"""How much the engine does between two returns to Python."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on a chunk of steps; the numbers of a run do not depend on them. A chunk has at most
    `most_steps` where memory allows for more, and the first one `first_steps`, whose time says how
    many the next may have. `chunk_seconds` is the time of one, as far as the one before tells:
    Ctrl-C, `max_time` and checkpoints wait for its end. `began` is when the call began that
    `max_time` bounds, by `time.monotonic`; None: with the steps. `share` is how much of the time
    that compiling leaves is for these steps. `reserve` are seconds of `max_time` to keep for what
    follows the last step.
    """

    most_steps: int = 16_384
    first_steps: int = 1
    chunk_seconds: float = 0.5
    began: float | None = None
    share: float = 1.0
    reserve: float = 0.0


LIMITS = Limits()
