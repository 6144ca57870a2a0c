"""Barriers between points along straight and relaxed paths."""

import math
import time
from typing import NamedTuple

import numpy as np

from tati_re.core.front_door import front_door
from tati_re.core.views import viewable

_IMAGES = 17
_FINE = 5
_STEPS = 300
"""Points of the path, ends included, odd as the middle is one; places for each of them; steps at
most.
"""


@viewable
class Path(NamedTuple):
    """The straight and the relaxed path between two points.

    Attributes:
        place: Position along each path as a fraction of its length, `(n,)`, from 0 to 1.
        linear: U along the straight line, `(n,)`.
        relaxed: U along the relaxed path, `(n,)`.
        images: Points of the relaxed path, `(n, parameters)`.
        linear_barrier: Highest U on the line above the higher end, at least 0.
        relaxed_barrier: Highest U on the relaxed path above the higher end. It estimates the
            barrier between the two basins, and is an upper bound if the path is not fully relaxed.
        residual: Root mean square force across the path, divided by the largest force on the
            straight line. Small for a relaxed path.
    """

    place: np.ndarray
    linear: np.ndarray
    relaxed: np.ndarray
    images: np.ndarray
    linear_barrier: float
    relaxed_barrier: float
    residual: float


@front_door
def connect(
    surface,
    first: np.ndarray,
    second: np.ndarray,
    curvature: float = 1.0,
    enough: float = 0.0,
    until: float = math.inf,
) -> Path:
    """Computes the straight line between two points and the relaxed path between them.

    It uses the simplified string method: images move downhill and are then redistributed evenly
    along the path, so only the force across the path acts. Steps are 0.5/curvature, halved while
    the highest image rises. Source: W. E, W. Ren, E. Vanden-Eijnden, J. Chem. Phys. 126, 164103
    (2007).

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        first: One end, `(parameters,)`.
        second: The other end, `(parameters,)`.
        curvature: Largest eigenvalue of the Hessian at the ends. Default: 1.
        enough: A barrier below this value ends the relaxation. Default: 0.
        until: Time limit of the relaxation, on the clock of `time.monotonic`. Default: no limit.

    Returns:
        Both paths, at five times as many points as images, because the highest point lies between
        images.
    """
    place = np.linspace(0, 1, _IMAGES)
    line = first + place[:, None] * (second - first)
    # A line from a point to its mirror image meets the saddle between them head on, where no force
    # leads around it.
    span = np.linalg.norm(second - first)
    bend = np.random.default_rng(0).standard_normal(line.shape[1])
    bend *= 0.01 * span / max(float(np.linalg.norm(bend)), 1e-300)
    forces = surface.gradients(line)[1]
    images = line + np.sin(np.pi * place)[:, None] * bend
    values, gradients = surface.gradients(images)
    step = 0.5 / max(curvature, 1e-300)
    still = 0
    for _ in range(_STEPS):
        if values.max() - max(values[0], values[-1]) < enough:
            break
        if math.isfinite(until) and time.monotonic() > until:
            break
        moved = _spread(
            images - step * np.concatenate([0 * gradients[:1], gradients[1:-1], 0 * gradients[-1:]])
        )
        new, new_gradients = surface.gradients(moved)
        if not np.isfinite(new).all() or new.max() > values.max() + 1e-9 * (1 + abs(values.max())):
            step *= 0.5
            if step < 1e-9 / max(curvature, 1e-300):
                break
            continue
        shift = np.abs(moved - images).max()
        images = moved
        values = new
        gradients = new_gradients
        step *= 1.05
        still = still + 1 if shift < 1e-6 * (1 + span) else 0
        if still >= 5:
            break
    # The gradient without its part along the path, of the inner images.
    along = images[2:] - images[:-2]
    inner = gradients[1:-1]
    along /= np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-300)
    across = inner - np.sum(inner * along, axis=1, keepdims=True) * along
    scale = max(float(np.linalg.norm(forces, axis=1).max()), 1e-300)
    fine = np.linspace(0, 1, _FINE * (_IMAGES - 1) + 1)
    between = _between(images, fine)
    straight, relaxed = (
        surface.gradients(way)[0] for way in (first + fine[:, None] * (second - first), between)
    )
    # Where U is no number no walker is: such a place is as high as can be.
    straight, relaxed = (
        np.where(np.isnan(values), np.inf, values) for values in (straight, relaxed)
    )
    ends = max(straight[0], straight[-1])
    return Path(
        place=fine,
        linear=straight,
        relaxed=relaxed,
        images=between,
        linear_barrier=max(0.0, float(straight.max() - ends)),
        relaxed_barrier=max(0.0, float(relaxed.max() - ends)),
        residual=float(np.sqrt(np.mean(np.sum(across**2, axis=1)))) / scale,
    )


def _between(images: np.ndarray, fine: np.ndarray) -> np.ndarray:
    """A cubic spline through the images, since straight pieces would cut the bends of a valley."""
    from scipy.interpolate import CubicSpline

    pieces = np.linalg.norm(np.diff(images, axis=0), axis=1)
    if not (pieces > 0).all():
        return images[0] + fine[:, None] * (images[-1] - images[0])
    reached = np.concatenate([[0.0], np.cumsum(pieces)])
    return CubicSpline(reached / reached[-1], images)(fine)


def _spread(images: np.ndarray) -> np.ndarray:
    """The same path with its images at equal distances."""
    pieces = np.linalg.norm(np.diff(images, axis=0), axis=1)
    reached = np.concatenate([[0.0], np.cumsum(pieces)])
    if not reached[-1] > 0:
        return images
    even_lengths = np.linspace(0, reached[-1], len(images))
    place = np.clip(np.searchsorted(reached, even_lengths, side="right") - 1, 0, len(pieces) - 1)
    part = (even_lengths - reached[place]) / np.maximum(pieces[place], 1e-300)
    moved = images[place] + part[:, None] * (images[place + 1] - images[place])
    moved[0] = images[0]
    moved[-1] = images[-1]
    return moved
