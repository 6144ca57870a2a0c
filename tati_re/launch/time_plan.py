"""How a run for prediction divides the time that it may take."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

CHOICE_SHARE = 0.2
FIT_SHARE = 0.2
"""Parts of `max_time` in which the model is chosen, and the members are fitted, at most."""
UNBOUNDED = 1e7
"""Seconds that the shares are parts of if a run has no time limit: so many that no clock decides what
it computes."""
CANDIDATE_SECONDS = 2.5
"""Seconds of one candidate, with its compilation, below which a comparison only shows noise."""
LIKELIHOOD_SECONDS = 10.0
"""The same where short chains compare likelihoods: after 3 seconds the one that burns in fastest wins,
one noise for all rows, and loses up to 1.5 nats a row when the chains are longer."""
LAUNCH_SECONDS = 6.0
"""Seconds from the fits to the first step of the chains: what is compiled as a graph."""
WORKER_SECONDS = 9.0
"""Seconds until workers give their first answer, if TensorFlow starts for them."""
CHAIN_SECONDS = 8.0
FEWEST_STEPS = 1_000
"""Seconds and steps of the chains below which the fits alone predict better."""
END_SECONDS = 3.0
"""Seconds from the last step to the end: the last look, the comparison and the certificate."""
XLA_SECONDS = 40.0
"""Seconds left for the chains above which compiling with XLA pays, if it compiles a copy of the
network for each chain: 11 to 15 seconds longer, for steps that are two to three times faster. Chains
of 15 seconds after it were too short.
"""
XLA_SECONDS_OF_ONE = 10.0
"""The same if the chains are one product or a loop: it compiles for 5 to 8 seconds."""
END_OF_FITS_SECONDS = 2.5
"""The same of a run that ends with its fits."""
MOST_RESERVE = 0.4
"""Part of `max_time` that is kept for the end at most."""
_REST_SHARE = 1.0 - CHOICE_SHARE - FIT_SHARE
_SECONDS_OF_REST = LAUNCH_SECONDS + CHAIN_SECONDS + END_SECONDS
"""What follows the fits: its part of `max_time`, and what it takes at least."""
_MOST_SLOWNESS = 10.0
_BATCH_ADVANTAGE = 0.3
"""Time of an example in a step on all rows, in units of that in a step on a mini-batch."""


@dataclass
class TimePlan:
    """The time of one run for prediction.

    The estimates in seconds are those of a processor of its own; the plan multiplies them by how
    much slower this process has run so far.

    Args:
        max_time: Seconds of the run, above 0; None: no limit.
        began: When the call began, by `time.monotonic`.
        worker_seconds: Seconds that workers of the chains take to start. Default: 0, no workers.
    """

    max_time: float | None
    began: float
    worker_seconds: float = 0.0
    _processor_began: float = field(default_factory=lambda: time.process_time())
    _wall_began: float = field(default_factory=lambda: time.monotonic())

    @property
    def seconds(self) -> float:
        """Seconds that the shares are parts of."""
        return UNBOUNDED if self.max_time is None else self.max_time

    @property
    def left(self) -> float:
        """Seconds until the time is over, infinite without a limit."""
        if self.max_time is None:
            return math.inf
        return self.began + self.max_time - time.monotonic()

    @property
    def slowness(self) -> float:
        """Seconds by the clock for each second of the processor, between 1 and 10."""
        used = time.process_time() - self._processor_began
        passed = time.monotonic() - self._wall_began
        if used < 1.0:
            return 1.0
        return min(max(1.0, passed / used), _MOST_SLOWNESS)

    @property
    def reserve(self) -> float:
        """Seconds to keep for what follows the last step of the chains."""
        return self._bounded(END_SECONDS)

    def _bounded(self, seconds: float) -> float:
        """Seconds of this process for so many of the processor, at most two fifths of the time."""
        return min(seconds * self.slowness, MOST_RESERVE * self.seconds)

    def num_candidates(self, most: int, seconds: float = CANDIDATE_SECONDS) -> int:
        """How many candidates there is time to compare, at most so many.

        Args:
            most: Candidates at most.
            seconds: What one of them takes at least, in seconds. Default: 2.5.

        Returns:
            Two or more; 0 if there is only time for one, or if chains would have too little after it.
        """
        affordable = int(CHOICE_SHARE * self.seconds / seconds)
        count = min(most, affordable)
        has_room = self.seconds * _REST_SHARE >= _SECONDS_OF_REST
        return count if count > 1 and has_room else 0

    @staticmethod
    def seconds_to_compare(seconds: float) -> float:
        """The shortest `max_time` that compares two candidates of so many seconds."""
        return max(2.0 * seconds / CHOICE_SHARE, _SECONDS_OF_REST / _REST_SHARE)

    @property
    def choice_deadline(self) -> float:
        """When the choice of the model ends, by `time.monotonic`."""
        return self.began + CHOICE_SHARE * self.seconds

    def fit_seconds(self, with_chains: bool) -> float:
        """Seconds for the fits of the members: all that are left if no chain follows them."""
        if with_chains:
            return FIT_SHARE * self.seconds
        return max(0.0, self.left - self._bounded(END_OF_FITS_SECONDS))

    def has_chains(self, step_seconds: float = 0.0, fits: bool = False) -> bool:
        """Whether chains after the fits have the time to predict better than the fits.

        Args:
            step_seconds: Expected seconds of a step of all chains. Default: 0, not known.
            fits: Whether the fits are still to be made.
        """
        if self.max_time is None:
            return True
        before = FIT_SHARE * self.seconds if fits else 0.0
        launch = (LAUNCH_SECONDS + self.worker_seconds) * self.slowness
        left = self.left - before - launch - self.reserve
        return left >= max(CHAIN_SECONDS * self.slowness, FEWEST_STEPS * step_seconds)

    def has_xla(self, one_network: bool = False) -> bool:
        """Whether compiling the steps of the chains with XLA pays.

        Args:
            one_network: Whether the network is compiled once for all chains. Default: False, a copy
                for each.
        """
        seconds = XLA_SECONDS_OF_ONE if one_network else XLA_SECONDS
        needed = seconds + self.worker_seconds
        return self.left - self.reserve >= needed * self.slowness


def seconds_of_step(seconds: float, batch_size: int, num_examples: int) -> float:
    """Expected seconds of a step on all examples.

    Args:
        seconds: Seconds of a step of the same walkers on a mini-batch.
        batch_size: Examples of the mini-batch, at least 1.
        num_examples: All examples.
    """
    ratio = max(1.0, _BATCH_ADVANTAGE * num_examples / batch_size)
    return seconds * ratio
