"""Down to a point without a force, and what kind of point it is: a minimum, a valley, or a saddle."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tati_re.errors import InputError
from tati_re.landscape.hessian import hessian_density, hessian_eigenpairs, hessian_matrix

WHOLE = 300
"""Up to so many parameters all eigenvalues of the Hessian are computed, beyond it the ends of the spectrum."""

FLAT = 1e-6
"""A curvature below this part of the largest one counts as none."""

SAME = 1e-3
"""Temperatures by which U may rise along a flat direction."""


class Stationary(NamedTuple):
    """A point where the force vanishes.

    Attributes:
        position: `(parameters,)`.
        potential: U there.
        loss: Mean loss there.
        gradient_norm: |∇U| that is left.
        kind: "minimum", "valley" (flat directions along which U stays the same) or "saddle".
        index: Negative eigenvalues of the Hessian.
        num_flat: Eigenvalues that count as 0, of those that were computed.
        smallest: The lowest eigenvalue.
        largest: The highest one.
        ln_volume: ln of the integral of exp(-(U - U_min)/T) over the basin in the harmonic approximation,
            sum of ln(2πT/λ)/2; nan for what is no minimum, and where not all eigenvalues were computed.
    """

    position: np.ndarray
    potential: float
    loss: float
    gradient_norm: float
    kind: str
    index: int
    num_flat: int
    smallest: float
    largest: float
    ln_volume: float


def descend(surface, start: np.ndarray, max_steps: int = 5000) -> tuple[np.ndarray, float, float]:
    """Goes downhill to where the gradient vanishes, with L-BFGS on all data.

    Args:
        surface: :class:`tati_re.landscape.Surface`.
        start: `(parameters,)`.
        max_steps: At most. Default: 5,000.

    Returns:
        The position, U, and |∇U| there.
    """
    from scipy.optimize import minimize

    position, exact = np.asarray(start, np.float64), surface.dtype == "float64"
    # Restarts from where it ended: the line search gives up where differences of U are rounding.
    for _ in range(3):
        options = {"maxiter": max_steps, "maxfun": 2 * max_steps, "ftol": 1e-15 if exact else 1e-9, "gtol": 1e-11}
        found = minimize(surface.gradient, position, jac=True, method="L-BFGS-B", options=options)
        moved = np.linalg.norm(found.x - position)
        position = found.x
        if moved <= 1e-9 * (1 + np.linalg.norm(position)):
            break
    value, slope = surface.gradient(position)
    return position, value, float(np.linalg.norm(slope))


def characterise(surface, position: np.ndarray, temperature: float = 1.0, step: float = 0.1) -> Stationary:
    """Says what kind of point one without a force is.

    A negative eigenvalue makes a saddle. Where the lowest eigenvalue counts as 0 the point is moved by `step` along its
    eigenvector, and descends again: if it stays at least half as far away and U is the same, the bottom is a valley;
    else the direction is flat to second order only, and the point a minimum.

    Args:
        surface: :class:`tati_re.landscape.Surface`.
        position: Where `descend` arrived.
        temperature: T, the unit of what counts as the same U. Default: 1.
        step: Length of that move. Default: 0.1.
    """
    position = np.asarray(position, np.float64)
    value, slope = surface.gradient(position)
    loss = float(surface.values(position[None])["loss"][0])
    if surface.num_parameters <= WHOLE:
        values, rows = np.linalg.eigh(hessian_matrix(surface, position))
        vectors = rows.T
    else:
        values, vectors = _ends(surface, position)
    largest, smallest = float(values[-1]), float(values[0])
    flat = (FLAT if surface.dtype == "float64" else 1e-3) * max(abs(largest), abs(smallest), 1e-300)
    index, num_flat = int(np.sum(values < -flat)), int(np.sum(np.abs(values) <= flat))
    kind = "saddle" if index else "minimum"
    if (
        not index
        and num_flat
        and vectors is not None
        and _stays(surface, position, vectors[0], value, temperature, step)
    ):
        kind = "valley"
    whole = kind == "minimum" and len(values) == surface.num_parameters and not num_flat
    volume = 0.5 * float(np.sum(np.log(2 * np.pi * temperature / values))) if whole else float("nan")
    return Stationary(
        position, value, loss, float(np.linalg.norm(slope)), kind, index, num_flat, smallest, largest, volume
    )


def _ends(surface, position) -> tuple[np.ndarray, np.ndarray | None]:
    """Both ends of the spectrum, ascending; Ritz values without vectors where the lowest ones do not converge."""
    try:
        pairs = hessian_eigenpairs(surface, position, 1, 3)
        return pairs.values[::-1], pairs.vectors[::-1]
    except InputError:
        return np.sort(hessian_density(surface, position, 1).nodes[0])[[0, -1]], None


def _stays(surface, position, direction, value: float, temperature: float, step: float) -> bool:
    """Whether moving along a direction and descending again leads to another point of the same potential."""
    away, there, _ = descend(surface, position + step * direction)
    return abs(there - value) < SAME * temperature and np.linalg.norm(away - position) > 0.5 * step


def lowest_below(surface, start: np.ndarray, temperature: float = 1.0) -> Stationary:
    """Descends, and where it ended on a saddle, from both sides of it again; the lowest point found."""
    position, _, _ = descend(surface, start)
    found = characterise(surface, position, temperature)
    if found.kind != "saddle":
        return found
    if surface.num_parameters <= WHOLE:
        direction = np.linalg.eigh(hessian_matrix(surface, position))[1][:, 0]
    else:
        direction = hessian_eigenpairs(surface, position, 1, 1).vectors[-1]
    both = []
    for sign in (1, -1):
        away, _, _ = descend(surface, position + 0.1 * sign * direction)
        both.append(characterise(surface, away, temperature))
    return min([found, *both], key=lambda one: one.potential)
