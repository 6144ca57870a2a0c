"""Diffusion maps: the slowest motions of a cloud of points, and coordinates along them."""

from typing import Literal, NamedTuple

import numpy as np

from tati_re.analysis.covariance import signed
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_arguments
from tati_re.core.views import viewable

DENSE_LIMIT = 3000
"""Up to so many points all pairs count; beyond, each point's nearest neighbors."""

_CUTOFF = 40.0  # Kernels below exp(-40) are none.

_REACH, _NEIGHBORS = 8.0, 4
"""Of the fourth of each point's neighbors, in d²/ε: a kernel of exp(-2) at least."""


@viewable
class DiffusionMap(NamedTuple):
    """A diffusion map of n points.

    Attributes:
        values: Eigenvalues of the generator, 0 > λ₁ >= λ₂ ..., `(k,)`, without the eigenvalue 0 of
            the constant. -1/λ is the relaxation time of overdamped motion with unit diffusion.
        vectors: Eigenfunctions at the points, `(n, k)`, with stationary mean square 1 and a
            positive largest entry.
        bandwidth: ε of the kernel exp(-d²/4ε).
        dimension: Dimension of the cloud of points as the kernel resolves it, 2 d ln S / d ln ε.
        stationary: Stationary probabilities of the points, `(n,)`.
        density: Kernel sums at the points, q, `(n,)`.
    """

    values: np.ndarray
    vectors: np.ndarray
    bandwidth: float
    dimension: float
    stationary: np.ndarray
    density: np.ndarray

    @property
    def coordinates(self) -> np.ndarray:
        """Diffusion coordinates φ_k / sqrt(-λ_k), `(n, k)`; distances between them are commute
        times.
        """
        return self.vectors / np.sqrt(-self.values)


@front_door
def diffusion_map(
    points: np.ndarray,
    num_eigenvectors: int = 4,
    bandwidth: float | Literal["bgh", "median"] = "bgh",
    alpha: float = 0.5,
    log_target: np.ndarray | None = None,
    num_neighbors: int | None = None,
) -> DiffusionMap:
    """Computes leading eigenfunctions of a diffusion on a cloud of points.

    Rule: K_ij = exp(-|x_i - x_j|²/4ε); q_i = Σ_j K_ij; the kernel is multiplied from the right by
    r_j = q_j^-α, for a target measure π by r_j = q_j^-1 sqrt(π_j); rows are made to sum to 1: P; L
    = (P - 1)/ε. As ε falls, L becomes

        without target   Δ + 2 (1 - α) ∇ ln q · ∇,   q the density of the points: α = 1/2 gives the overdamped Langevin
                         motion whose distribution the points have, α = 1 the Laplacian of the
                         surface they lie on;
        with target      Δ + ∇ ln π · ∇, whatever the points' own density (target-measure diffusion map).

    Reference: R. Coifman, S. Lafon, Appl. Comput. Harmon. Anal. 21 (2006); R. Banisch, Z.
    Trstanova, A. Bittracher, S. Klus, P. Koltai, Appl. Comput. Harmon. Anal. 48 (2020); "bgh": T.
    Berry, D. Giannakis, J. Harlim, Phys. Rev. E 91 (2015): the ε at which d ln Σ K / d ln ε is
    largest.

    Args:
        points: The points, `(n, d)`.
        num_eigenvectors: k, the number of eigenfunctions. Default: 4.
        bandwidth: ε, or a rule: `"bgh"`, or `"median"`, 4ε = median of d² over ln n. Default:
            `"bgh"`.
        alpha: α, between 0 and 1; a target measure takes α = 1. Default: 0.5.
        log_target: ln π at the points up to a constant, such as -βU, `(n,)`. Default: None, no
            target measure.
        num_neighbors: Number of nearest neighbors of each point, including itself. Default: None,
            all for up to 3,000 points, otherwise 256.

    Returns:
        Eigenvalues, eigenfunctions and bandwidth.

    Raises:
        InputError: The rule is unknown, or points are fewer than eigenvectors, not finite, all
            equal, or disconnected at this ε.
    """
    from scipy.sparse.linalg import eigsh
    from sklearn.neighbors import NearestNeighbors

    points = np.asarray(points, np.float64)
    if points.ndim == 1:
        points = points[:, None]
    count = len(points)
    if count < num_eigenvectors + 2 or not np.isfinite(points).all():
        expected = f"more than {num_eigenvectors + 1} finite points"
        raise InputError("A diffusion map needs more points.", f"shape {points.shape}", expected)
    refuse_if(
        num_eigenvectors < 1, "num_eigenvectors is too small.", num_eigenvectors, "at least 1"
    )
    refuse_if(not 0 <= alpha <= 1, "alpha is out of range.", alpha, "0 to 1")
    squares = _squared_distances(points, num_neighbors)
    entries = squares.data if _sparse(squares) else squares.ravel()
    refuse_if(entries.max() == 0, "All points are the same.")
    epsilon, dimension = _bandwidth(entries, count, bandwidth)
    if bandwidth == "bgh":
        # The loneliest point has neighbors in reach, or else it is the slowest motion all by
        # itself, or with a few. Points that coincide are one.
        distinct = np.unique(points, axis=0)
        near = (
            NearestNeighbors(n_neighbors=min(_NEIGHBORS + 1, len(distinct)))
            .fit(distinct)
            .kneighbors(distinct)[0]
        )
        epsilon = max(epsilon, float(near[:, -1].max() ** 2) / _REACH)
    kernel = _kernel(squares, epsilon)
    density = np.asarray(kernel.sum(axis=1)).ravel()
    if log_target is None:
        right = density**-alpha
    else:
        log_target = np.asarray(log_target, np.float64)
        refuse_if(
            log_target.shape != (count,),
            "log_target does not fit the points.",
            log_target.shape,
            f"({count},)",
        )
        right = np.exp(0.5 * (log_target - log_target.max())) / density
    rows = np.asarray(kernel @ right).ravel()
    # P = diag(1/rows) K diag(right) is similar to a symmetric matrix, for which eigsh is made.
    scale = np.sqrt(right / rows)
    symmetric = (
        kernel.multiply(scale[:, None]).multiply(scale).tocsr()
        if _sparse(kernel)
        else scale[:, None] * kernel
    )
    symmetric = symmetric if _sparse(kernel) else symmetric * scale
    # The start is fixed, so that a second call gives the same signs and digits.
    start = np.random.default_rng(0).standard_normal(count)
    values, inner = eigsh(symmetric, num_eigenvectors + 1, which="LA", v0=start)
    values = values[::-1]
    inner = inner[:, ::-1]
    weight = right * rows
    stationary = weight / weight.sum()
    vectors = inner / np.sqrt(weight)[:, None]
    vectors /= np.sqrt(stationary @ vectors**2)
    pieces = int((values > 1 - 1e-10).sum())
    problem = f"The points split into {pieces} or more groups that no kernel connects."
    refuse_if(
        pieces > 1, problem, f"bandwidth {epsilon:.3g}", "a larger bandwidth or more neighbors"
    )
    return DiffusionMap(
        (values[1:] - 1) / epsilon,
        signed(vectors.T).T[:, 1:],
        epsilon,
        dimension,
        stationary,
        density,
    )


@renamed_arguments(found="diffusion")
@front_door
def landmarks(diffusion: DiffusionMap, num_landmarks: int, first: int | None = None) -> np.ndarray:
    """Selects points far from each other in the diffusion distance.

    Each point is the farthest from all earlier ones.

    Args:
        diffusion: The diffusion map.
        num_landmarks: Number of points, at least 1.
        first: Index of the first point, such as the point of lowest potential. Default: None, the
            point with the largest value of the first eigenfunction.

    Returns:
        Indices of the points, `(num_landmarks,)`.

    Raises:
        InputError: There are fewer points than landmarks.
    """
    coordinates = diffusion.coordinates
    if not 1 <= num_landmarks <= len(coordinates):
        raise InputError(
            "num_landmarks is out of range.", num_landmarks, f"1 to {len(coordinates)}"
        )
    chosen = [int(np.argmax(diffusion.vectors[:, 0])) if first is None else int(first)]
    distance = np.full(len(coordinates), np.inf)
    while len(chosen) < num_landmarks:
        distance = np.minimum(distance, ((coordinates - coordinates[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return np.array(chosen)


def _squared_distances(points: np.ndarray, num_neighbors: int | None):
    count = len(points)
    if num_neighbors is None:
        num_neighbors = count if count <= DENSE_LIMIT else 256
    if num_neighbors >= count:
        from scipy.spatial.distance import pdist, squareform

        return squareform(pdist(points, "sqeuclidean"))
    refuse_if(num_neighbors < 2, "num_neighbors is too small.", num_neighbors, "at least 2")
    from sklearn.neighbors import NearestNeighbors

    graph = (
        NearestNeighbors(n_neighbors=num_neighbors)
        .fit(points)
        .kneighbors_graph(points, mode="distance")
    )
    graph.data **= 2
    # A pair counts if one is among the other's neighbors. Distances are shifted by 1 so that a
    # point's own, 0, is an entry and the larger of both directions is either.
    graph.data += 1.0
    both = graph.maximum(graph.T).tocsr()
    both.data -= 1.0
    return both


def _kernel(squares, epsilon: float):
    if not _sparse(squares):
        return np.exp(-squares / (4 * epsilon))
    kernel = squares.copy()
    kernel.data = np.exp(-kernel.data / (4 * epsilon))
    return kernel


def _sparse(matrix) -> bool:
    return not isinstance(matrix, np.ndarray)


def _bandwidth(entries: np.ndarray, count: int, rule) -> tuple[float, float]:
    """ε and the dimension that the kernel sees there, from a fine histogram of the squared
    distances.
    """
    positive = entries[entries > 0]
    logs = np.log(positive)
    low = float(logs.min())
    high = float(logs.max())
    heights, edges = np.histogram(logs, bins=2000, range=(low, high + 1e-9))
    middle = np.exp(0.5 * (edges[1:] + edges[:-1]))
    coincident_pairs = len(entries) - len(
        positive
    )  # pairs at distance zero: each point and itself, and points that coincide

    def slope(log_epsilon: np.ndarray) -> np.ndarray:
        exponent = middle / (4 * np.exp(log_epsilon)[:, None])
        kernel = np.exp(-np.minimum(exponent, 700)) * heights
        return (kernel * exponent).sum(axis=1) / (kernel.sum(axis=1) + coincident_pairs)

    if rule == "bgh":
        grid = np.arange(low - np.log(4 * _CUTOFF), high + 3.0, 0.02)
        slopes = slope(grid)
        place = int(slopes.argmax())
        return float(np.exp(grid[place])), float(2 * slopes[place])
    if rule == "median":
        epsilon = float(np.median(positive)) / (4 * np.log(count))
    elif isinstance(rule, str):
        raise InputError("bandwidth: unknown rule.", rule, "bgh, median, or a number above 0")
    else:
        epsilon = float(rule)
        refuse_if(
            not (np.isfinite(epsilon) and epsilon > 0),
            "bandwidth is out of range.",
            rule,
            "a number above 0",
        )
    return epsilon, float(2 * slope(np.array([np.log(epsilon)]))[0])
