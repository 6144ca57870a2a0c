"""Averaging of the variance in corrected swaps, and the schedule of their factor.

A rule that corrects for noisy energies needs the variance of D. Each attempt estimates it from its
own mini-batch; here these estimates are averaged in the state, one average for each pair of
neighboring rungs of each ladder,

    v <- (1 - g) v + g ṽ,   V = f² v/n (1 - n/N),   f = β_i λ_i - β_j λ_j,

with v the variance of N (l_i - l_j), the difference of the losses of one example under the two
replicas: it contains neither temperatures nor the size of the batch, so that it stays right when a
ladder moves or a batch grows.

Source: Deng, Feng, Gao, Liang and Lin, Non-convex learning via replica exchange stochastic gradient
MCMC (2020), algorithm 1. There v is the variance of one energy, 2 v that of the difference of two
independent ones; here both replicas see the same examples, and v is that of the difference.
"""

from typing import Any, NamedTuple

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.ops import as_float64, constant, maximum, sum_over, where, zeros_like

STEPS_OF_GROWTH = 1_000
"""Steps in which the factor grows by `growth`: the published unit, an epoch, means nothing where no
epochs are.
"""


class Smoothed(NamedTuple):
    """Averages carried from swap to swap, float64. For each pair of neighbors, `(ladders, rungs -
    1)`: v, the number m of estimates behind it, and the attempts; for each ladder, `(ladders,)`:
    the accepted swaps.
    """

    variance: Any
    updates: Any
    tries: Any
    swaps: Any


@front_doors
class Correction:
    """Averaging of the variance, and the schedule of the factor F in a run: F α^swaps
    growth^(step/1000).

    Args:
        gain: g in (0, 1]. Default: `None`, 1/m at the m-th estimate, the mean of all of them.
        every: Attempts of a pair from one estimate to the next, at least 1. Default: 1, each brings
            its own.
        decay: α in (0, 1], for each accepted swap of a ladder. Default: 1. Published for CIFAR:
            0.8.
        growth: At least 1, for each 1,000 steps. Default: 1. Published: 1.02 an epoch.
    """

    @front_door
    def __init__(
        self, gain: float | None = None, every: int = 1, decay: float = 1.0, growth: float = 1.0
    ) -> None:
        refuse_if(
            gain is not None and not 0 < gain <= 1,
            "variance_gain: out of range.",
            gain,
            "above 0, up to 1",
        )
        refuse_if(every < 1, "variance_every: out of range.", every, "at least 1 attempt")
        refuse_if(not 0 < decay <= 1, "correction_decay: out of range.", decay, "above 0, up to 1")
        refuse_if(not growth >= 1, "correction_growth: out of range.", growth, "at least 1")
        self.gain = gain
        self.every = int(every)
        self.decay = float(decay)
        self.growth = float(growth)

    @property
    def varies(self) -> bool:
        """The factor changes during a run."""
        return self.decay != 1 or self.growth != 1

    def start(self, num_ladders: int, num_rungs: int) -> Smoothed:
        """Makes the initial averages; the first estimate of a pair replaces its zero.

        Args:
            num_ladders: Number of ladders side by side.
            num_rungs: Number of temperatures of each.

        Returns:
            Averages as NumPy arrays.
        """
        pairs = np.zeros((num_ladders, num_rungs - 1))
        return Smoothed(pairs, pairs, pairs, np.zeros(num_ladders))

    def updated(self, state: Smoothed, pairs, moments) -> Smoothed:
        """Adds the estimates of a round to the averages.

        Args:
            state: The averages so far.
            pairs: The pairs of the round, with `low`, `high` and `valid`, shape (ladders, pairs). Pairs
                that are not neighbors are ignored.
            moments: The estimated variance of each pair, same shape.

        Returns:
            The new averages.
        """
        is_pair = _neighbors(state, pairs)
        tried = sum_over(as_float64(is_pair), -2)[..., 0, :]
        estimate = _picked(is_pair, moments[..., :, None], -2)[..., 0, :]
        due = (tried > 0) & (state.tries % self.every == 0)
        updates = state.updates + as_float64(due)
        number = maximum(updates, as_float64(1.0))
        gain = (
            1.0 / number
            if self.gain is None
            else where(number > 1, as_float64(self.gain), 1.0 / number)
        )
        variance = state.variance + gain * (estimate - state.variance)
        return Smoothed(
            where(due, variance, state.variance), updates, state.tries + tried, state.swaps
        )

    def applied(self, state: Smoothed, pairs, difference, coefficient, num_examples: int):
        """Adds a round's estimates to the averages, and puts the averaged variance into its differences.

        Args:
            state: The averages so far.
            pairs: The pairs of the round, shape (ladders, pairs). A pair that is not of neighbors keeps
                its own estimate.
            difference: The estimates of the round, a `LogRatioEstimate`.
            coefficient: The factor f of each pair, shape (ladders, pairs) or (pairs,).
            num_examples: Number of training examples N.

        Returns:
            The new averages, and the differences with the averaged variance.
        """
        state = self.updated(state, pairs, difference.example_variance)
        is_pair = _neighbors(state, pairs)
        is_one = sum_over(as_float64(is_pair), -1)[..., 0] > 0
        average = _picked(is_pair, state.variance[..., None, :], -1)[..., 0]
        left = maximum(1.0 - difference.count / num_examples, as_float64(0.0))
        variance = coefficient**2 * average / difference.count * left
        return state, difference._replace(variance=where(is_one, variance, difference.variance))

    def counted(self, state: Smoothed, accepted) -> Smoothed:
        """Counts the accepted swaps of a round.

        Args:
            state: The averages so far.
            accepted: Whether each pair swapped, shape (ladders, pairs).

        Returns:
            The averages with the new count.
        """
        return state._replace(swaps=state.swaps + sum_over(as_float64(accepted), -1)[..., 0])

    def factor(self, state: Smoothed, step):
        """Computes the factor F_k/F_0 of each ladder.

        Args:
            state: The averages so far.
            step: Number of the step that follows.

        Returns:
            Factors, shape (ladders, 1).
        """
        grown = as_float64(self.growth) ** (as_float64(step) / STEPS_OF_GROWTH)
        return (as_float64(self.decay) ** as_float64(state.swaps) * grown)[:, None]

    def get_config(self) -> dict[str, Any]:
        """Returns plain values that define the correction; they are written to the manifest."""
        variance = {"variance_gain": self.gain, "variance_every": self.every}
        return {**variance, "correction_decay": self.decay, "correction_growth": self.growth}


def _neighbors(state: Smoothed, pairs):
    lower = constant(np.arange(state.variance.shape[-1]), pairs.low)
    return (pairs.low[..., None] == lower) & (pairs.valid & (pairs.high == pairs.low + 1))[
        ..., None
    ]


def _picked(is_pair, values, axis: int):
    """Sum of the values that are meant; a product with 0 would carry a NaN of the others along."""
    return sum_over(where(is_pair, values, zeros_like(values)), axis)
