"""How much a measured mass has changed from one window of the burn-in to the next.

A mass is compared as a matrix. The parts of a low-rank mass (its diagonal, directions and roots)
are no measure: two sets of parts can make the same matrix, and rounding decides which set is used.
"""

import numpy as np

from tati_re.core.protocol import fields_of
from tati_re.samplers.wrappers.fisher import LowRankMass

WHOLE = 200
"""Parameters up to which all eigenvalues are compared; above, projections are."""

_ENTRIES, _PROJECTIONS = 64, 64


def buckets(parameters: int, projections: int = _PROJECTIONS) -> tuple[int, int]:
    """Splits the parameters into disjoint groups of one size.

    Args:
        parameters: Number of parameters, at least 1.
        projections: Largest number of groups. Default: 64.

    Returns:
        Parameters of a group, and number of groups.
    """
    size = -(-parameters // projections)
    return size, parameters // size


def signs(parameters: int, projections: int = _PROJECTIONS) -> np.ndarray:
    """Random signs of the parameters that `buckets` puts into groups, the same in each call.

    Args:
        parameters: Number of parameters, at least 1.
        projections: Largest number of groups. Default: 64.

    Returns:
        1 or -1 for each parameter in a group.
    """
    size, count = buckets(parameters, projections)
    return np.random.default_rng(0).choice([-1.0, 1.0], size * count)


def unit_mass(state) -> np.ndarray:
    """The record of a unit mass, of the shape that `mass_record` has for such a state.

    Args:
        state: State of a sampler; only its fields and the shape of `position` are used.

    Returns:
        A vector, float64.
    """
    if not _is_low_rank(state):
        return np.zeros(_ENTRIES)
    parameters = int(state.position.shape[1])
    rank = int(state.mass_roots.shape[0])
    unit = LowRankMass(np.ones(parameters), np.zeros((rank, parameters)), np.ones(rank))
    return _record(unit)


def mass_record(state) -> np.ndarray:
    """What has to be kept of the mass of a state to compare it with a later one.

    Args:
        state: State of a sampler, with or without a measured mass.

    Returns:
        A vector, float64: logarithms of 64 entries of a diagonal mass (zeros without a mass); of a
        low-rank mass the root L of the inverse mass L L' for up to 200 parameters, and for more the
        logarithms of u'L L'u and of u'(L L')⁻¹u for 64 random projections u.
    """
    if _is_low_rank(state):
        parts = fields_of(state, ("mass_scale", "mass_directions", "mass_roots")).values()
        return _record(LowRankMass(*(np.asarray(part, np.float64) for part in parts)))
    if "mass" not in state._fields:
        return np.zeros(_ENTRIES)
    entries = np.asarray(state.mass).ravel()
    chosen = np.linspace(0, len(entries) - 1, _ENTRIES).astype(int)
    return np.log(entries[chosen])


def mass_change(state, before: np.ndarray, now: np.ndarray) -> float:
    """The median change of the logarithm of the mass between two records.

    Args:
        state: State that one of the records was made of.
        before: The earlier record of `mass_record`.
        now: The later record.

    Returns:
        The median of |ln λ| over the eigenvalues λ of M₁⁻¹ M₂, or over entries or projections, as
        `mass_record` keeps them; at least 0.
    """
    parameters = int(state.position.shape[1])
    if not _is_low_rank(state) or parameters > WHOLE:
        return float(np.median(np.abs(now - before)))
    roots = [record.reshape(parameters, parameters) for record in (before, now)]
    stretched = np.linalg.svd(np.linalg.solve(*roots), compute_uv=False)
    return float(np.median(np.abs(2.0 * np.log(stretched))))


def _is_low_rank(state) -> bool:
    return "mass_directions" in state._fields


def _record(mass: LowRankMass) -> np.ndarray:
    parameters = len(mass.scale)
    if parameters <= WHOLE:
        return mass.forward(np.eye(parameters)).T.ravel()
    size, count = buckets(parameters)
    projections = np.zeros((count, parameters))
    group = np.repeat(np.arange(count), size)
    projections[group, np.arange(size * count)] = signs(parameters)
    lengths = [(half**2).sum(1) for half in _halves(mass, projections)]
    return np.log(np.concatenate(lengths))


def _halves(mass: LowRankMass, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """L'u and L⁻¹u of the rows u."""
    return mass.transposed(vectors), mass.backward(vectors)
