"""Networks that predict a spread start from ones that predict the mean alone.

A network that learns mean and spread together explains rows that it does not fit yet by a large
spread, and then no longer fits them (Seitzer et al., ICLR 2022).
"""

from __future__ import annotations

import numpy as np

from tati_re.likelihoods.location_scale import LocationScale
from tati_re.posterior.losses import Loss
from tati_re.system.system import System

MEAN = "gaussian"
"""The loss of the network that predicts the mean."""


def predicts_spread(loss: Loss) -> bool:
    """Whether outputs under a loss are centers, and as many logarithms of widths."""
    objective = loss.objective
    if isinstance(objective, LocationScale):
        return objective.outputs_per_target == 2
    return objective.predicts_noise


def units_of(system: System, loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """The units in which a network predicts the targets.

    Args:
        system: The model and its data, whose preparation may standardize the targets.
        loss: The loss of the network.

    Returns:
        Mean and standard deviation of the targets, shape (targets,) each; 0 and 1, shape (1,), if
        the targets are not standardized.
    """
    law = loss.objective
    if isinstance(law, LocationScale):
        return np.asarray(law.location, np.float64), np.asarray(law.scale, np.float64)
    preparation = system.dataset.preparation
    standard = None if preparation is None else preparation.target_standard
    if standard is None:
        return np.zeros(1), np.ones(1)
    return np.asarray(standard.mean, np.float64), np.asarray(standard.deviation, np.float64)


def with_spread(
    position: np.ndarray,
    shapes: list[tuple[int, ...]],
    before: tuple[np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray],
    num_noise: int = 1,
) -> np.ndarray:
    """Parameters of networks that predict mean and spread, from those that predict the mean.

    Args:
        position: Parameters of dense networks with biases, and the logarithms of the noise, shape
            (members, parameters).
        shapes: Shapes of the tensors of the network that predicts both, its last kernel and bias
            at the end, without parameters of the likelihood.
        before: Mean and deviation that stand for the units of the mean's network.
        after: Those of the other network.
        num_noise: Logarithms of a noise at the end of the positions: one, or one a target.

    Returns:
        Parameters of the other network, which predicts the same mean, and the noise as the spread
        of every row, shape (members, parameters).
    """
    units, outputs = shapes[-2]
    targets = outputs // 2
    ratio = np.broadcast_to(before[1] / after[1], (targets,))
    shift = np.broadcast_to((before[0] - after[0]) / after[1], (targets,))
    count = len(position)
    inside = position[:, : -(units * targets + targets + num_noise)]
    last = position[:, inside.shape[1] : -num_noise]
    kernel = last[:, : units * targets].reshape(count, units, targets) * ratio
    bias = last[:, units * targets :] * ratio + shift
    log_width = position[:, -num_noise:] + np.log(ratio)
    kernel = np.concatenate([kernel, np.zeros_like(kernel)], axis=2)
    parts = [inside, kernel.reshape(count, -1), bias, log_width]
    return np.concatenate(parts, axis=1).astype(position.dtype)
