"""How much the engine does between two returns to Python."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds on a chunk of steps, on which the numbers of a run do not depend. The time of the `first_steps` says how
    many the next chunk may have to last `chunk_seconds`: Ctrl-C, `max_time` and checkpoints wait for its end."""

    most_steps: int = 16_384
    first_steps: int = 4
    chunk_seconds: float = 0.5


LIMITS = Limits()
