"""The leave-one-out log density of training rows while a run goes on."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tati_re.core.backend import Compiled, tf
from tati_re.launch.request import Request
from tati_re.system.walkers import Walkers

MOST_ROWS = 1_000
MOST_DRAWS = 1_600
"""Rows and draws that are looked at, drawn evenly: a second of one core for small networks."""
_BLOCK = 32
_ROWS = 0x4C4F


class LeaveOneOutDensity:
    """Log densities of training rows by leave-one-out from stored draws.

    Args:
        request: The run.
        walkers: Its walkers, with the non-trainable variables of each.
    """

    def __init__(self, request: Request, walkers: Walkers) -> None:
        self._request = request
        self._walkers = walkers
        count = request.system.examples.num_examples
        rows = np.arange(count)
        if count > MOST_ROWS:
            random = np.random.default_rng([request.options.seed, _ROWS])
            rows = np.sort(random.choice(count, MOST_ROWS, replace=False))
        self._rows = rows

    def mean(self, values: np.ndarray, walker: np.ndarray) -> float:
        """The mean over the rows of the log density under the equal mixture of the chains.

        Args:
            values: Draws, shape (draws, parameters).
            walker: The chain of each draw, shape (draws,).

        Returns:
            The mean, nan without draws.
        """
        chosen = np.unique(np.linspace(0, len(values) - 1, MOST_DRAWS).astype(int))
        if not len(values):
            return math.nan
        likelihoods = self._log_likelihoods(values[chosen], walker[chosen])
        chains = [
            left_out(likelihoods[walker[chosen] == number]) for number in np.unique(walker[chosen])
        ]
        mixture = np.logaddexp.reduce(chains, axis=0) - math.log(len(chains))
        return float(mixture.mean())

    def _log_likelihoods(self, values: np.ndarray, walker: np.ndarray) -> np.ndarray:
        """Log likelihood of each row under each draw, shape (draws, rows)."""
        parts = []
        for first in range(0, len(values), _BLOCK):
            block = np.arange(first, first + _BLOCK) % len(values)
            extra = [
                np.asarray(value)[walker[block] % len(value)] for value in self._walkers.auxiliary
            ]
            position = values[block].astype(self._walkers.position.dtype)
            parts.append(-self._losses(position, *extra).numpy()[: len(values) - first])
        return np.concatenate(parts)

    @cached_property
    def _losses(self) -> Compiled:
        potential = self._request.potential
        rows = tf.constant(self._rows, tf.int32)
        return Compiled(lambda position, *extra: potential.examples(position, rows, extra))


def left_out(log_likelihoods: np.ndarray) -> np.ndarray:
    """Log density of each row given the others, by truncated importance sampling (Ionides 2008).

    Args:
        log_likelihoods: log p(y_i | θ_s), shape (draws, rows).

    Returns:
        The log densities, shape (rows,).
    """
    count = len(log_likelihoods)
    logs = -log_likelihoods
    most = np.logaddexp.reduce(logs, axis=0) - 0.5 * math.log(count)
    logs = np.minimum(logs, most)
    return np.logaddexp.reduce(logs + log_likelihoods, axis=0) - np.logaddexp.reduce(logs, axis=0)
