"""Step size and friction at which mini-batch noise heats no more than it may and chains forget
fastest, from predictions alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tati_re.core.errors import InputError

SMALLEST_PART = 1_000.0
"""The shortest step that is tried is this part of the longest one."""
_WORTH = 2.0
"""Times as fast as the longest cool step a shorter one has to be: long steps need much friction, by
which momenta cool at once where a burn-in begins hot.
"""
_RATIO_OF_STEPS = 1.6
_RATIO_OF_FRICTIONS = 1.4
_NUM_FRICTIONS = 28
_PRECISION = 0.04
"""Of the logarithm of a friction at the limit of the heating."""


@dataclass(frozen=True)
class NoisySteps:
    """A step size and a friction.

    Attributes:
        step_size: h, above 0.
        friction: γ, above 0; 0 for a method without one.
        memory: Steps within which predictions forget, under both.
    """

    step_size: float
    friction: float
    memory: float


@dataclass(frozen=True)
class NoiseSearch:
    """The search for the steps that forget fastest among those that are cool enough.

    For each step size the friction begins at the one that forgets fastest, and is raised to 1/h at
    most until the noise heats no more than it may: beyond 1/h friction only slows. White noise
    leaves no choice: a given heating has its speed. In sweeps, where the noise of an epoch sums to
    zero, short steps at little friction are often several times faster.

    Attributes:
        is_cool: Whether the heating is allowed at a step size and friction.
        memory: Steps within which predictions forget at a step size and friction; raises
            `InputError` where steps are unstable.
        has_friction: Whether the friction may be changed.
        has_steps: Whether the step size may be changed.
    """

    is_cool: Callable[[float, float], bool]
    memory: Callable[[float, float], float]
    has_friction: bool
    has_steps: bool

    def best(self, longest: float, friction: float) -> NoisySteps | None:
        """The steps that forget fastest.

        Args:
            longest: The longest step size that is tried.
            friction: The friction now, at the first step size; 0 for a method without one.

        Returns:
            Step size and friction; None where nothing is cool enough.
        """
        first: NoisySteps | None = None
        best: NoisySteps | None = None
        step_size = longest
        while step_size >= longest / SMALLEST_PART:
            fastest = self._fastest(step_size, friction)
            # Shorter steps forget more slowly at every friction.
            if best is not None and fastest is not None and fastest.memory > best.memory:
                break
            best = _faster(best, self._cooled(fastest))
            first = first or best
            if not self.has_steps:
                return best
            step_size /= _RATIO_OF_STEPS

        if best is None or first is None:
            return None
        centre = best.step_size
        for part in (-0.5, -0.25, 0.25, 0.5):
            between = centre * _RATIO_OF_STEPS**part
            if between <= longest:
                best = _faster(best, self._cooled(self._fastest(between, friction)))
        is_worth_it = best is not None and _WORTH * best.memory < first.memory
        return best if is_worth_it else first

    def _fastest(self, step_size: float, friction: float) -> NoisySteps | None:
        """The friction that forgets fastest at this step size; None where steps are unstable."""
        if not self.has_friction:
            return self._steps(step_size, friction)
        highest = 1.0 / step_size
        tried = [highest / _RATIO_OF_FRICTIONS**k for k in range(_NUM_FRICTIONS)]
        measured = [self._steps(step_size, trial_friction) for trial_friction in tried]
        stable = [result for result in measured if result is not None]
        return min(stable, key=lambda result: result.memory, default=None)

    def _steps(self, step_size: float, friction: float) -> NoisySteps | None:
        try:
            memory = self.memory(step_size, friction)
        except InputError:  # unstable: new masses have made directions stiff
            return None
        return NoisySteps(step_size, friction, memory)

    def _cooled(self, fastest: NoisySteps | None) -> NoisySteps | None:
        """The least friction above the given one at which the heating is allowed."""
        if fastest is None:
            return None
        step_size = fastest.step_size
        if self.is_cool(step_size, fastest.friction):
            return fastest
        highest = 1.0 / step_size
        if not self.has_friction or not self.is_cool(step_size, highest):
            return None
        low = math.log(fastest.friction)
        high = math.log(highest)
        while high - low > _PRECISION:
            middle = 0.5 * (low + high)
            if self.is_cool(step_size, math.exp(middle)):
                high = middle
            else:
                low = middle
        return self._steps(step_size, math.exp(high))


def _faster(first: NoisySteps | None, second: NoisySteps | None) -> NoisySteps | None:
    """The steps that forget faster, the first ones of two alike."""
    if first is None or (second is not None and second.memory < first.memory):
        return second
    return first
