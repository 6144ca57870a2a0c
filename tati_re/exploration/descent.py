"""Descent to a stationary point, and its kind: minimum, valley or saddle."""

import math
import time
from typing import NamedTuple

import numpy as np

from tati_re.core.front_door import front_door
from tati_re.core.lanczos import lanczos
from tati_re.core.views import viewable
from tati_re.landscape.hessian import hessian_matrix

WHOLE = 300
"""Up to so many parameters all eigenvalues of the Hessian are computed, beyond it the ends of the
spectrum.
"""

LANCZOS_STEPS = WHOLE
"""Hessian-vector products for the ends of the spectrum, as many as the whole of the smaller ones
takes.
"""

LARGE_STEPS = 2000
"""Of a descent beyond `WHOLE` parameters; below it there are 5,000, three times."""

STILL = 1e-6
"""Temperatures by which U falls in a step of a descent that is over, beyond `WHOLE` parameters."""

FLAT = 1e-6
"""A curvature below this part of the largest one counts as none."""

SAME = 1e-3
"""Temperatures by which U may rise along a flat direction."""


@viewable
class StationaryPoint(NamedTuple):
    """A point with vanishing gradient.

    Attributes:
        position: `(parameters,)`.
        potential: U at the point.
        loss: The mean loss there.
        gradient_norm: The remaining |∇U|.
        kind: "minimum", "valley" (U is constant along flat directions), "saddle", or "unfinished"
            if the descent ended while U was still falling, at the last step or at a wall.
        index: Number of negative eigenvalues of the Hessian; for more than 300 parameters a lower
            bound.
        num_flat: Number of computed eigenvalues that count as 0.
        smallest: The lowest eigenvalue.
        largest: The highest eigenvalue.
        ln_volume: ln of the integral of exp(-(U - U_min)/T) over the basin in the harmonic
            approximation, sum of ln(2πT/λ)/2. NaN for points other than minima, and if not all
            eigenvalues were computed.
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


class _Deadline:
    """Ends a minimization of SciPy when the time is over, as its callback."""

    def __init__(self, until: float) -> None:
        self._until = until

    @property
    def is_over(self) -> bool:
        return math.isfinite(self._until) and time.monotonic() > self._until

    def __call__(self, position: np.ndarray) -> None:
        if self.is_over:
            raise StopIteration


@front_door
def descend(
    surface,
    start: np.ndarray,
    max_steps: int | None = None,
    temperature: float = 1.0,
    until: float = math.inf,
) -> tuple[np.ndarray, float, float]:
    """Descends to a stationary point with L-BFGS on all data.

    For more than 300 parameters, where many directions are soft, it ends when a step lowers U by
    less than 10⁻⁶ T. The last digits would take most of the time without benefit.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        start: The starting point, `(parameters,)`.
        max_steps: Largest number of steps. Default: None, 5,000, three times; 2,000 for more than
            300 parameters.
        temperature: T. Default: 1.
        until: Time limit, on the clock of `time.monotonic`. Default: no limit.

    Returns:
        The position, U, and |∇U| there.
    """
    if surface.num_parameters > WHOLE:
        return _long_way_down(
            surface, np.asarray(start, np.float64), max_steps or LARGE_STEPS, temperature, until
        )[:3]
    from scipy.optimize import minimize

    max_steps = max_steps or 5000
    position = np.asarray(start, np.float64)
    exact = surface.dtype == "float64"
    deadline = _Deadline(until)
    # Restarts from where it ended: the line search gives up where differences of U are rounding.
    for _ in range(3):
        options = {
            "maxiter": max_steps,
            "maxfun": 2 * max_steps,
            "ftol": 1e-15 if exact else 1e-9,
            "gtol": 1e-11,
        }
        optimum = minimize(
            surface.gradient,
            position,
            jac=True,
            method="L-BFGS-B",
            options=options,
            callback=deadline,
        )
        moved = np.linalg.norm(optimum.x - position)
        position = optimum.x
        if moved <= 1e-9 * (1 + np.linalg.norm(position)) or deadline.is_over:
            break
    value, gradient = surface.gradient(position)
    return position, value, float(np.linalg.norm(gradient))


def _long_way_down(
    surface, start: np.ndarray, max_steps: int, temperature: float, until: float = math.inf
):
    from scipy.optimize import minimize

    size = max(1.0, abs(float(surface.gradient(start)[0])))
    tolerance = max(STILL * temperature / size, 1e-15 if surface.dtype == "float64" else 1e-8)
    options = {
        "maxiter": max_steps,
        "maxfun": 2 * max_steps,
        "ftol": tolerance,
        "gtol": 1e-11,
        "maxcor": 30,
    }
    optimum = minimize(
        surface.gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options=options,
        callback=_Deadline(until),
    )
    return optimum.x, float(optimum.fun), float(np.linalg.norm(optimum.jac)), optimum.status != 1


@front_door
def characterize(
    surface, position: np.ndarray, temperature: float = 1.0, step: float = 0.1
) -> StationaryPoint:
    """Determines the kind of a stationary point.

    A negative eigenvalue means a saddle. If the lowest eigenvalue counts as 0, the point is moved
    by `step` along its eigenvector and descends again. If it stays at least half as far away with
    the same U, the point lies in a valley. Otherwise the direction is flat only to second order,
    and the point is a minimum.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        position: The end point of `descend`, `(parameters,)`.
        temperature: T, which sets the tolerance for equal U. Default: 1.
        step: Length of the move. Default: 0.1.

    Returns:
        The stationary point.
    """
    position = np.asarray(position, np.float64)
    value, gradient = surface.gradient(position)
    loss = float(surface.values(position[None])["loss"][0])
    values, lowest = _spectrum(surface, position)
    largest = float(values[-1])
    smallest = float(values[0])
    flat = (FLAT if surface.dtype == "float64" else 1e-3) * max(abs(largest), abs(smallest), 1e-300)
    index = int(np.sum(values < -flat))
    num_flat = int(np.sum(np.abs(values) <= flat))
    # What U would fall by, within a distance of 1.
    force = float(np.linalg.norm(gradient))
    fall = force * min(1.0, force / (2 * max(abs(largest), abs(smallest), 1e-300)))

    if fall > SAME * temperature:
        kind = "unfinished"
    else:
        kind = "saddle" if index else "minimum"

    if kind == "minimum" and num_flat:
        away, there, _ = descend(surface, position + step * lowest, temperature=temperature)
        if abs(there - value) < SAME * temperature and np.linalg.norm(away - position) > 0.5 * step:
            kind = "valley"
    has_volume = kind == "minimum" and len(values) == surface.num_parameters and not num_flat
    volume = (
        0.5 * float(np.sum(np.log(2 * np.pi * temperature / values)))
        if has_volume
        else float("nan")
    )
    return StationaryPoint(
        position=position,
        potential=value,
        loss=loss,
        gradient_norm=force,
        kind=kind,
        index=index,
        num_flat=num_flat,
        smallest=smallest,
        largest=largest,
        ln_volume=volume,
    )


def _spectrum(surface, position) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues, ascending, and the lowest's vector; beyond `WHOLE` parameters Ritz values, of
    1.6 GB at most.
    """
    size = surface.num_parameters
    if size <= WHOLE:
        values, vectors = np.linalg.eigh(hessian_matrix(surface, position))
        return values, vectors[:, 0]
    count = min(LANCZOS_STEPS, size, max(30, 200_000_000 // size))
    values, vectors, basis = lanczos(
        lambda vector: surface.hessian_product(position, vector[None])[0], size, count
    )
    return values, vectors[:, 0] @ basis


@front_door
def lowest_below(
    surface,
    start: np.ndarray,
    temperature: float = 1.0,
    max_steps: int = LARGE_STEPS,
    until: float = math.inf,
) -> StationaryPoint:
    """Descends to a stationary point, and again from both sides of a saddle; returns the lowest
    point.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        start: The starting point, `(parameters,)`.
        temperature: T. Default: 1.
        max_steps: Largest number of steps per descent. Default: 2,000.
        until: Time limit, on the clock of `time.monotonic`. After it the point is "unfinished", and
            its Hessian is not computed. Default: no limit.

    Returns:
        The lowest stationary point.
    """
    deadline = _Deadline(until)

    def below(place: np.ndarray) -> StationaryPoint:
        over = True
        if surface.num_parameters <= WHOLE:
            place = descend(surface, place, until=until)[0]
        else:
            place, _, _, over = _long_way_down(surface, place, max_steps, temperature, until)
        if deadline.is_over:
            return _unfinished(surface, place)
        point = characterize(surface, place, temperature)
        # No saddle is told from a slope that goes on.
        return point if over else point._replace(kind="unfinished")

    lowest = below(np.asarray(start, np.float64))
    if lowest.kind != "saddle" or deadline.is_over:
        return lowest
    direction = _spectrum(surface, lowest.position)[1]
    both = [below(lowest.position + 0.1 * sign * direction) for sign in (1, -1)]
    return min([lowest, *both], key=lambda minimum: minimum.potential)


def _unfinished(surface, position: np.ndarray) -> StationaryPoint:
    """A point of which nothing is known but U and its gradient."""
    value, gradient = surface.gradient(position)
    loss = float(surface.values(position[None])["loss"][0])
    force = float(np.linalg.norm(gradient))
    nothing = math.nan
    return StationaryPoint(
        position=position,
        potential=float(value),
        loss=loss,
        gradient_norm=force,
        kind="unfinished",
        index=0,
        num_flat=0,
        smallest=nothing,
        largest=nothing,
        ln_volume=nothing,
    )
