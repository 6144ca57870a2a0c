"""Members of a run for prediction whose steps see mini-batches: rounds of fits while there is
time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tati_re.launch.member_fits import LOOKS, FittedMembers

MEMBERS = 4
"""Members of one round, which are fitted side by side."""
MOST_MEMBERS = 32
"""Members of all rounds at most: predictions cost as much as their number."""
EPOCHS = 10
FEWEST_STEPS = 4_000
"""Epochs of a fit, and its steps where they are fewer."""
USEFUL_EPOCHS = 5.0
"""Epochs below which fewer members that are fitted longer predict better."""
WARM_UP = 0.05
"""Part of the steps during which the learning rate rises."""
LARGEST_RATE = 0.01
SMALLEST_RATE = 0.001
_RATE_OF_ONE_INPUT = 0.06
LEAST_GAIN = 5e-4
"""Nats a row by which one more round has to improve the held-out density of the ensemble, for
another one to follow.
"""
TRIAL_SHARE = 0.15
"""Part of the time in which chains from the fits are tried."""
LEAST_LEFT = 0.4
"""Part of the time of a round that has to be left for another one, whose schedule is shorter. A
round that does not improve the ensemble is left out.
"""


@dataclass
class Rounds:
    """The members of one or more rounds of fits with as many members each.

    Attributes:
        found: What each round found.
    """

    fits: list[FittedMembers] = field(default_factory=list)

    @property
    def positions(self) -> np.ndarray:
        """Parameters of each member, shape (members, parameters)."""
        return np.concatenate([fit.positions for fit in self.fits])

    @property
    def auxiliary(self) -> tuple[np.ndarray, ...]:
        """Non-trainable variables of each member, shape (members, ...) each."""
        parts = zip(*(fit.auxiliary for fit in self.fits), strict=True)
        return tuple(np.concatenate(part) for part in parts)

    @property
    def steps(self) -> np.ndarray:
        """Step at which each member was kept, shape (members,)."""
        return np.concatenate([fit.steps for fit in self.fits])

    @property
    def num_steps(self) -> int:
        """Steps of the longest round."""
        return max(fit.num_steps for fit in self.fits)

    @property
    def member_density(self) -> float:
        """Mean held-out log density of a row under one member."""
        return float(np.mean([fit.densities.mean() for fit in self.fits]))

    @property
    def cross_stopped(self) -> np.ndarray:
        """Held-out log densities under all members, each stopped by other rows, shape (rows,)."""
        return _mean_density([fit.cross_stopped for fit in self.fits])

    def best(self) -> Rounds:
        """The rounds without those that make the ensemble worse, left out one after the other."""
        best = self
        while len(best.fits) > 1:
            fewer = [
                Rounds([fit for fit in best.fits if fit is not left_out]) for left_out in best.fits
            ]
            better = max(fewer, key=lambda rounds: float(rounds.cross_stopped.mean()))
            if better.cross_stopped.mean() <= best.cross_stopped.mean():
                break
            best = better
        return best

    @property
    def gain(self) -> float:
        """Nats a row that the last round added to the best ensemble; infinite after the first."""
        if len(self.fits) < 2:
            return math.inf
        before = Rounds(self.fits[:-1])
        return float(self.best().cross_stopped.mean() - before.best().cross_stopped.mean())


def _mean_density(densities: Sequence[np.ndarray]) -> np.ndarray:
    """Log of the mean of densities that are given as logarithms, row by row."""
    return np.logaddexp.reduce(np.stack(densities), axis=0) - math.log(len(densities))


def learning_rate_of(shapes: Sequence[tuple[int, ...]]) -> float:
    """A learning rate of Adam for a network.

    It falls with the square root of the inputs of its widest unit, so that a step changes the sums
    of all units about as much.

    Args:
        shapes: Shapes of the parameters; kernels have the inputs of a unit before the last axis.

    Returns:
        0.01 for 36 inputs and fewer, 0.06/sqrt(k) for k, at least 0.001.
    """
    widest = max((math.prod(shape[:-1]) for shape in shapes if len(shape) > 1), default=1)
    rate = _RATE_OF_ONE_INPUT / math.sqrt(widest)
    return min(max(rate, SMALLEST_RATE), LARGEST_RATE)


def steps_of_fit(num_examples: int, batch_size: int) -> int:
    """Steps of the fit of one member that has all the time it wants.

    Args:
        num_examples: Examples that are fitted.
        batch_size: Examples of a step.
    """
    epochs = math.ceil(EPOCHS * num_examples / batch_size)
    return max(FEWEST_STEPS, epochs, LOOKS)


def members_at_once(step_seconds: float, seconds: float, steps_of_epoch: int) -> int:
    """How many members a round has.

    Args:
        step_seconds: Seconds of a step of one member, above 0.
        seconds: Seconds for the round.
        steps_of_epoch: Steps in which a member sees each example once.

    Returns:
        Between 1 and 4: as many as see each example five times.
    """
    affordable = seconds / (step_seconds * USEFUL_EPOCHS * steps_of_epoch)
    return max(1, min(MEMBERS, int(affordable)))


@dataclass
class Schedule:
    """How long the next round of fits is: twice as long as the last one, as long as longer fits
    are better.

    Attributes:
        unit_seconds: Seconds of a round of the first length.
        length: Length of the last round, in units of the first one.
        density: Mean held-out log density of one fit of that length.
    """

    unit_seconds: float
    density: float
    length: int = 1
    _grows: bool = True

    def next_length(self, left: float) -> int:
        """Length of the next round; 0 if there is no time for one.

        Args:
            left: Seconds until the fits have to end.
        """
        if left < LEAST_LEFT * self.unit_seconds:
            return 0
        longest = max(1, int(left / self.unit_seconds))
        length = 2 * self.length if self._grows else self.length
        while length > longest:
            length //= 2
        return length

    def note(self, length: int, density: float) -> None:
        """Takes notice of a round.

        Args:
            length: Its length.
            density: Mean held-out log density of one of its fits.
        """
        if length > self.length:
            self._grows = density > self.density + LEAST_GAIN
            if self._grows:
                self.length = length
                self.density = density


def is_worth_more(rounds: Rounds, members: int) -> bool:
    """Whether another round of so many members may improve the ensemble.

    Args:
        rounds: The rounds so far.
        members: Members of a round.
    """
    is_full = len(rounds.positions) + members > MOST_MEMBERS
    return not is_full and rounds.gain >= LEAST_GAIN
