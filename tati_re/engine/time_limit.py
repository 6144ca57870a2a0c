"""The clock of a run: when `max_time` ends its steps, and when it ends the burn-in."""

import math

_LEAST_BURNIN = 320
"""Steps that tune something, before which a burn-in takes three quarters of the time, else half."""
_MOST_RESERVED = 0.25
"""Share of `max_time` that is kept for what follows the last step at most."""


class TimeLimit:
    """Seconds from a call to the last step of a run.

    Args:
        max_time: Seconds from `began` to the end; None: no limit.
        began: When the call began, by `time.monotonic`.
        share: Of the time that compiling leaves, 0 to 1; the rest is for what follows the run.
        reserve: Seconds to keep for what follows the last step, a quarter of `max_time` at most.
    """

    def __init__(
        self, max_time: float | None, began: float, share: float = 1.0, reserve: float = 0.0
    ) -> None:
        self._most = math.inf if max_time is None else max_time
        self._share = share
        self._ready: float | None = None
        self._expected = min(reserve, _MOST_RESERVED * self._most)
        self._reserved = self._expected
        self.deadline = began + self._most

    def step_made(self, now: float) -> None:
        """Notes that steps are made; before the first ones the run was prepared and compiled."""
        if self._ready is None:
            self._ready = now
            if math.isfinite(self.deadline):
                self.deadline -= (1.0 - self._share) * max(0.0, self.deadline - now)

    def reserve(self, seconds: float) -> None:
        """Keeps so many seconds, such as a last look at the run takes, for what follows the steps.

        Args:
            seconds: Seconds of one look, of which a quarter of `max_time` is kept at most.
        """
        # The comparison and the certificate follow the last look.
        reserved = seconds + 0.5 * self._expected
        self._reserved = min(reserved, _MOST_RESERVED * self._most)

    def left(self, now: float) -> float:
        """Seconds that are left for steps, inf without a limit."""
        return self.deadline - self._reserved - now

    def ends_burnin(self, now: float, step: int) -> str:
        """Which share of the time is over where a burn-in has to end at this step; else empty.

        Args:
            now: The time, by `time.monotonic`.
            step: The last step, of which fewer than 320 tune little.
        """
        if self._ready is None or not math.isfinite(self.deadline):
            return ""
        share, times = ("Half", 1) if step >= _LEAST_BURNIN else ("Three quarters", 3)
        left = self.left(now)
        return share if now - self._ready >= times * left > 0 else ""
