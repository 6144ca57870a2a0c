"""What a compression aims at: the average over all draws at some inputs, and densities against it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from tati_re.core.errors import refuse_if
from tati_re.posterior.predictive import CLASSES, LABELS
from tati_re.prediction.draws import Members
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import outputs_of_draws

SMALLEST = 1e-300
_NEGLIGIBLE = 1e-9
MOST_VALUES = 20_000_000
"""Draws times rows times outputs that are in memory at a time."""


class Goal(NamedTuple):
    """The average over all draws at some inputs.

    Its points are targets of each row, drawn from the average, or, of classes, all classes.

    Attributes:
        rows: Inputs as the network takes them, shape (n, ...).
        targets: In the units of the data, shape (targets, n, columns); None for classes.
        average: Log density of the average at the points, shape (points,).
        share: What each point counts, with the sum 1, shape (points,).
    """

    rows: np.ndarray
    targets: np.ndarray | None
    average: np.ndarray
    share: np.ndarray

    def ratios(self, network: Network, members: Members) -> np.ndarray:
        """Densities of members at the points, divided by the density of the average.

        Args:
            network: The network of the members.
            members: The members.

        Returns:
            Ratios, shape (members, points).
        """
        outputs, extra = outputs_of_draws(network, members, self.rows)
        return self.ratios_of(_log_densities(network.predictive, outputs, extra, self.targets))

    def ratios_of(self, logs: np.ndarray) -> np.ndarray:
        """The same from log densities, shape (members, points)."""
        with np.errstate(over="ignore"):
            return np.where(self.share > 0, np.exp(logs - self.average), 1.0)

    def loss(self, mixture: np.ndarray) -> float:
        """Nats that a mixture with these ratios, shape (points,), loses against the average."""
        return -float(self.share @ log_of(mixture))


def log_of(densities: np.ndarray) -> np.ndarray:
    """Logarithms; a density that underflows counts as the smallest number."""
    return np.log(np.maximum(densities, SMALLEST))


def goal_of(
    network: Network,
    members: Members,
    rows: np.ndarray,
    random: np.random.Generator,
    num_targets: int,
) -> tuple[Goal, np.ndarray]:
    """The average over members at some rows.

    Args:
        network: The network of the run.
        members: The draws, with their weights.
        rows: Inputs as in the data set, shape (n, ...).
        random: For targets.
        num_targets: Targets drawn for each row.

    Returns:
        The goal, and the ratios of the members, shape (members, points).

    Raises:
        InputError: The loss has no density, or no density is a number.
    """
    predictive = network.predictive
    share = members.weight / members.weight.sum()
    size = len(members) * predictive.rows * max(1, predictive.num_outputs)
    prepared = network.prepared(rows[: max(1, MOST_VALUES // size)])
    outputs, extra = outputs_of_draws(network, members, prepared)
    with np.errstate(all="ignore"):  # far outside of the data widths may overflow
        targets = _targets(predictive, outputs, extra, share, random, num_targets)
        logs = _log_densities(predictive, outputs, extra, targets)
        average = logsumexp(logs, b=share[:, None], axis=0)
    counts = np.exp(average) if targets is None else np.ones(len(average))
    counts = np.where(np.isfinite(average) & (counts > _NEGLIGIBLE), counts, 0.0)
    problem = "compress: the densities of the draws are not finite numbers."
    refuse_if(not counts.any(), problem, expected="a run that converged, or other inputs")
    goal = Goal(prepared, targets, average, counts / counts.sum())
    return goal, goal.ratios_of(logs)


def _targets(
    predictive: Any,
    outputs: np.ndarray,
    extra: np.ndarray | None,
    share: np.ndarray,
    random: np.random.Generator,
    count: int,
) -> np.ndarray | None:
    """Targets of each row, drawn from the average, (count, n, columns); None for classes."""
    if predictive.kind == CLASSES:
        return None
    rows = np.arange(outputs.shape[1])
    draws = []
    for _ in range(count):
        source = random.choice(len(share), size=len(rows), p=share)
        if predictive.kind == LABELS:
            p = np.exp(predictive.log_probabilities(outputs)[source, rows, :, 1])
            draws.append(random.random(p.shape) < p)
            continue
        law = predictive.law(outputs, extra)
        problem = "compress: the loss has no density."
        expected = "gaussian, or another loss that is a likelihood"
        refuse_if(law is None, problem, predictive.name, expected)
        draws.append(law.draw(random)[source, rows])
    return np.stack(draws)


def _log_densities(
    predictive: Any, outputs: np.ndarray, extra: np.ndarray | None, targets: np.ndarray | None
) -> np.ndarray:
    """Log densities of draws at all points, shape (draws, points); what is no number counts as 0."""
    if targets is None:
        logs = predictive.log_probabilities(outputs)
        return logs.reshape(len(logs), -1)
    if predictive.kind == LABELS:
        logs = predictive.log_probabilities(outputs)
        by_source = [np.where(y, logs[..., 1], logs[..., 0]).sum(axis=-1) for y in targets]
    else:
        with np.errstate(all="ignore"):
            law = predictive.law(outputs, extra)
            by_source = [law.log_prob(y).sum(axis=-1) for y in targets]
    joined = np.concatenate(by_source, axis=1)
    return np.nan_to_num(joined, nan=-np.inf, posinf=-np.inf, neginf=-np.inf)
