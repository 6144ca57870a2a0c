"""Averages over walkers at the same rung."""

from tati_re.core.ops import as_float64
from tati_re.core.protocol import Rung


def sums_at_rung(rung: Rung, values):
    """Sums of `(walkers, n)` float64 values over all walkers of the same rung, see `same_rung`, in the same shape."""
    return same_rung(rung) @ values


def same_rung(rung: Rung):
    """1 for each two walkers of the same temperature, likelihood weight and step size, else 0: `(walkers, walkers)`."""
    same = 1.0
    for column in rung:
        same = same * as_float64(column[:, None] == column[None, :])
    return same
