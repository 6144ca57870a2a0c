"""The length of the next call of a compiled loop, from the times of the calls before."""

import math

_CLEAR_CHANGE = 1.25
"""Ratio of two numbers of moves from which on their times tell a fixed cost from a slope."""
_PROBE_EVERY = 8
"""Calls of about the same length after which one of twice the length measures the fixed cost
again.
"""

_SMALL_SHARE = 0.1
"""Share of a call's time below which its steps cost next to nothing."""


class Pace:
    """How many moves the next call may have: `time = fixed cost + moves * slope`.

    A call has a cost that does not depend on its moves, such as random numbers for the capacity
    of the loop. A call lasts `chunk_seconds`, or twice its fixed cost where that is more, so that
    at least half of the time goes to steps.

    Args:
        first_moves: Moves of the first call, and the fewest of each later one; 1 or more.
        chunk_seconds: Time of one call that is aimed at, in seconds; 0: all calls have
            `first_moves`.
    """

    def __init__(self, first_moves: int, chunk_seconds: float) -> None:
        self._fewest = first_moves
        self._chunk_seconds = chunk_seconds
        self.begin()

    def begin(self) -> None:
        """Forgets all calls, as for another loop."""
        self.moves = self._fewest
        self._reference: tuple[int, float] | None = None
        self._fixed = self._slope = 0.0
        self._is_line = False
        self._alike = 0

    def add(self, moves: int, seconds: float) -> None:
        """Takes note of one call.

        Args:
            moves: Moves that the call made, 1 or more.
            seconds: Time that it took.
        """
        if self._chunk_seconds == 0.0:
            return
        seconds = max(seconds, 1e-9)
        self._fit(moves, seconds)

        target = max(self._chunk_seconds, 2.0 * self._fixed)
        target_moves = (target - self._fixed) / self._slope if self._slope > 0.0 else math.inf
        # A call that is mostly fixed cost may grow faster than one that is mostly steps.
        mostly_fixed = self._is_line and self._slope * moves < _SMALL_SHARE * seconds
        growth = 4 if mostly_fixed else 2
        safe = max(growth * moves, int(moves * self._chunk_seconds / seconds))

        if not self._is_line or self._alike >= _PROBE_EVERY:
            self._alike = 0
            target_moves = max(target_moves, 2 * moves)

        self.moves = max(self._fewest, int(min(target_moves, safe)))

    @property
    def shortest(self) -> float:
        """Seconds that the shortest call is expected to take; 0 while the fixed cost is unknown."""
        return self._fixed + self._slope * self._fewest if self._is_line else 0.0

    def within(self, seconds: float) -> int:
        """The moves of the next call that is to end in so many seconds, at least the fewest."""
        if self._reference is None or math.isinf(seconds):
            return self.moves
        if self._slope <= 0.0:
            return self.moves
        fitting = (seconds - self._fixed) / self._slope
        return max(self._fewest, int(min(self.moves, fitting)))

    def _fit(self, moves: int, seconds: float) -> None:
        """The line through this call and the last one of another length."""
        if self._reference is None:
            self._reference = moves, seconds
            self._slope = seconds / moves
            return

        before, took = self._reference
        ratio = moves / before
        if 1.0 / _CLEAR_CHANGE < ratio < _CLEAR_CHANGE:
            self._alike += 1
            self._fixed = min(self._fixed, seconds)
            self._slope = (seconds - self._fixed) / moves
            return

        self._slope = max(0.0, (seconds - took) / (moves - before))
        self._fixed = max(0.0, seconds - self._slope * moves)
        self._slope = (seconds - self._fixed) / moves
        self._reference = moves, seconds
        self._is_line = True
        self._alike = 0
