"""A conjugate linear regression whose evidence, and whose law at every point of the path from the
prior, is known.

20 points of y = sin(2.5 x) + 0.3 cos(17 x) on [-1, 1], features 1, x, x², noise 0.3, prior standard
deviation 2.
"""

from __future__ import annotations

import numpy as np

NOISE, PRIOR = 0.3, 2.0
X = np.linspace(-1, 1, 20)
FEATURES = np.stack([np.ones(20), X, X**2], 1)
Y = np.sin(2.5 * X) + 0.3 * np.cos(17 * X)
LOG_Z = {1: -67.0808261370, 2: -15.9010448099, 3: -18.0751110846}


def closed_form(features: np.ndarray, targets: np.ndarray, noise: float, prior: float) -> float:
    """log N(y; 0, noise² + prior² X X')."""
    covariance = noise**2 * np.eye(len(targets)) + prior**2 * features @ features.T
    quadratic = targets @ np.linalg.solve(covariance, targets)
    return -0.5 * (len(targets) * np.log(2 * np.pi) + np.linalg.slogdet(covariance)[1] + quadratic)


def law(weight: float, prior: float = PRIOR) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of prior x likelihood^weight."""
    covariance = np.linalg.inv(weight * FEATURES.T @ FEATURES / NOISE**2 + np.eye(3) / prior**2)
    return covariance @ (weight * FEATURES.T @ Y / NOISE**2), covariance


def energies_at(position: np.ndarray) -> np.ndarray:
    """Minus log likelihood of `(..., 3)`."""
    residual = Y - position @ FEATURES.T
    return 0.5 * (residual**2).sum(-1) / NOISE**2 + 20 * np.log(NOISE * np.sqrt(2 * np.pi))


def mean_energy(weight: float) -> float:
    """The exact mean of minus log likelihood at a point of the path."""
    mean, covariance = law(weight)
    return float(energies_at(mean) + 0.5 * np.trace(FEATURES @ covariance @ FEATURES.T) / NOISE**2)


def variance_of_energy(weight: float) -> float:
    """Its exact variance: E is quadratic, with curvature A, slope b at the mean."""
    mean, covariance = law(weight)
    curvature = FEATURES.T @ FEATURES / NOISE**2
    slope = -FEATURES.T @ (Y - FEATURES @ mean) / NOISE**2
    product = curvature @ covariance
    return float(0.5 * np.trace(product @ product) + slope @ covariance @ slope)


def drawn(
    path, walkers: int, draws: int, seed: int, memory: float = 0.0, prior_at_zero: float = PRIOR
) -> np.ndarray:
    """Energies of exact draws at all points, `(points, walkers, draws)`.

    Args:
        path: λ.
        walkers: Independent ones.
        draws: Of each, correlated by `memory` from one to the next.
        seed: Of the random numbers.
        memory: Autocorrelation of the parameters; points of a walker share nothing.
        prior_at_zero: Standard deviation of what is drawn at λ = 0; another one than the prior's is
            wrong.
    """
    random = np.random.default_rng(seed)
    found = []
    for weight in path:
        mean, covariance = law(weight, PRIOR if weight > 0 else prior_at_zero)
        normal = random.standard_normal((draws, walkers, 3))
        for t in range(1, draws if memory else 0):
            normal[t] = memory * normal[t - 1] + np.sqrt(1 - memory**2) * normal[t]
        found.append(energies_at(mean + normal @ np.linalg.cholesky(covariance).T).T)
    return np.array(found)
