"""The reference of Frenkel-Ladd integration: independent springs at a minimum, cut at the prior's box if any.

    q(θ) = exp(-Σ (θ_i - c_i)²/(2 s_i²)) / Z_q    for abs(θ_i) < bound_i

Published bounds took the box as centered on the minimum; it is centered on 0, so that its part of the normalization is
1/2 [erf((a - c)/(√2 s)) + erf((a + c)/(√2 s))] for each parameter. That correction is ours.

Source: Frenkel and Ladd, J. Chem. Phys. 81, 3188 (1984); of networks: Baldock and Marzari (arXiv 1904.04154).
"""

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

from tati_re.core.errors import InputError


class Springs:
    """The normalized Gaussian density q with center c and standard deviations s > 0, `(parameters,)` both, in a box of
    half width `bound`, `(parameters,)` or a number; None: there is no box."""

    def __init__(self, centre, std, bound=None) -> None:
        self.centre = np.asarray(centre, np.float64)
        self.std = np.asarray(std, np.float64)
        self.bound = None if bound is None else np.broadcast_to(np.asarray(bound, np.float64), self.centre.shape)
        if self.centre.ndim != 1 or self.std.shape != self.centre.shape:
            raise InputError(
                "springs: wrong shapes.", f"{self.centre.shape} and {self.std.shape}", "(parameters,) both"
            )
        if not (np.isfinite(self.std) & (self.std > 0)).all():
            raise InputError("springs: a standard deviation is not above 0.", self.std.min(), "finite numbers above 0")
        if self.bound is not None and (np.abs(self.centre) > self.bound).any():
            raise InputError("springs: the minimum lies outside the box.", expected="a minimum inside")

    @property
    def log_normalization(self) -> float:
        whole = np.log(self.std * np.sqrt(2 * np.pi))
        if self.bound is not None:
            low, high = self._edges()
            whole = whole + np.log1p(-(ndtr(low) + ndtr(-high)))
            crowded = ndtr(low) + ndtr(-high) > 0.5
            if crowded.any():
                # Springs wider than the box: the small difference of two numbers near each other.
                a, b = log_ndtr(high[crowded]), log_ndtr(low[crowded])
                whole[crowded] = np.log(self.std[crowded] * np.sqrt(2 * np.pi)) + a + np.log1p(-np.exp(b - a))
        return float(whole.sum())

    def log_prob(self, position) -> np.ndarray:
        """log q at positions `(n, parameters)` inside the box, `(n,)`."""
        squares = ((np.asarray(position, np.float64) - self.centre) / self.std) ** 2
        return -0.5 * squares.sum(axis=-1) - self.log_normalization

    def cut_edges(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Probabilities below the lower and the upper wall; `None` where the walls cut off less than double precision
        resolves."""
        if self.bound is None:
            return None
        low, high = map(ndtr, self._edges())
        return (low, high) if (low + ndtr(-self._edges()[1]) > 1e-15).any() else None

    def from_normal(self, normal) -> np.ndarray:
        """Draws from q, from standard normal numbers `(n, parameters)`."""
        normal = np.asarray(normal, np.float64)
        if (edges := self.cut_edges()) is not None:
            low, high = edges
            normal = ndtri(np.clip(low + (high - low) * ndtr(normal), 1e-300, 1 - 1e-16))
        drawn = self.centre + self.std * normal
        return drawn if self.bound is None else np.clip(drawn, -self.bound, self.bound)

    def _edges(self) -> tuple[np.ndarray, np.ndarray]:
        return (-self.bound - self.centre) / self.std, (self.bound - self.centre) / self.std

    def __str__(self) -> str:
        return f"springs of standard deviation {self.std.min():.3g} to {self.std.max():.3g} at a minimum"
