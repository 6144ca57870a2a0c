"""Directions in parameter space along which a landscape is evaluated."""

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np

from tati_re.analysis.covariance import covariance_eigenpairs, leading_eigenpairs, signed
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.renamed import renamed_function
from tati_re.core.user_input import seeded

NORMALIZATIONS = ("filter", "tensor", "none")


@front_door
def random_directions(
    centre: np.ndarray,
    shapes: Sequence[Sequence[int]],
    count: int = 2,
    seed: int = 0,
    normalization: str = "filter",
) -> np.ndarray:
    """Draws random directions, scaled filter by filter to the norms of the parameters at the
    center.

    d is drawn from N(0, 1), then d_ij <- d_ij / |d_ij| * |θ_ij| for filter j of tensor i. A filter
    holds the weights that lead into one unit, along the last axis of a kernel. Networks that
    compute the same function with rescaled filters then have the same landscape. Tensors of one
    axis (biases, scales) count as one filter. Published practice sets them to 0, which `fixed_mask` does.
    Source: H. Li, Z. Xu, G. Taylor, C. Studer, T. Goldstein, Visualizing the loss landscape of
    neural nets, NeurIPS 2018, section 4.

    Args:
        centre: The parameters, `(parameters,)`.
        shapes: Shapes of their tensors, in order.
        count: Number of directions, at least 1. Default: 2.
        seed: Seed of the random numbers. Default: 0.
        normalization: "filter", "tensor" (one norm per tensor), or "none" (random, length 1).
            Default: "filter".

    Returns:
        Directions, `(count, parameters)`. They are not exactly orthogonal, but nearly so for many
        parameters.
    """
    if normalization not in NORMALIZATIONS:
        advice = nearest(normalization, NORMALIZATIONS)
        raise InputError(
            f"normalization has an unknown value.{advice}",
            normalization,
            f"one of {', '.join(NORMALIZATIONS)}",
        )
    centre = np.asarray(centre, np.float64)
    drawn = seeded(seed).standard_normal((count, len(centre)))
    if normalization == "none":
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    result = np.empty_like(drawn)
    start = 0
    for shape in shapes:
        size = int(np.prod(shape, dtype=np.int64))
        columns = int(shape[-1]) if len(shape) > 1 and normalization == "filter" else 1
        piece = slice(start, start + size)
        norms = np.linalg.norm(centre[piece].reshape(-1, columns), axis=0)
        for row, values in zip(result, drawn, strict=True):
            parts = values[piece].reshape(-1, columns)
            row[piece] = (parts / np.linalg.norm(parts, axis=0) * norms).reshape(-1)
        start += size
    problem = (
        "directions: random directions have no length at a center of zeros, as they are "
        "scaled by its norms."
    )
    refuse_if(not result.any(axis=1).all(), problem, normalization, "normalization none")
    return result


@front_door
def trajectory_directions(
    positions: np.ndarray, centre: np.ndarray, count: int = 2
) -> tuple[np.ndarray, np.ndarray]:
    """Computes principal directions of a path relative to its end.

    They are the right singular vectors of the rows position - center, from the smaller Gram matrix.
    Li et al. 2018, section 7, use the end of training as the center, not the mean.

    Args:
        positions: Positions along the path, `(n, parameters)`.
        centre: The end of the path, `(parameters,)`.
        count: Number of directions, at most n. Default: 2.

    Returns:
        Orthonormal directions `(count, parameters)`, and the fraction of the path's sum of squares
        that each explains.
    """
    away = np.asarray(positions, np.float64) - centre
    if not 1 <= count <= min(away.shape):
        raise InputError(
            "The path has fewer directions than asked for.", count, f"1 to {min(away.shape)}"
        )
    if away.shape[0] <= away.shape[1]:
        values, vectors = np.linalg.eigh(away @ away.T)
        values = values[::-1]
        rows = vectors[:, ::-1][:, :count].T @ away
        lengths = np.linalg.norm(rows, axis=1)
        rows = rows / np.maximum(lengths, 1e-300)[:, None]
    else:
        values, vectors = np.linalg.eigh(away.T @ away)
        values = values[::-1]
        rows = vectors[:, ::-1][:, :count].T
        lengths = np.linalg.norm(away @ rows.T, axis=0)
    most = int(np.sum(lengths > 1e-12 * max(lengths[0], 1e-300)))
    expected = f"1 to {most}" if most else "a path"
    refuse_if(most < count, "The path has fewer directions than asked for.", count, expected)
    explained = np.clip(values[:count], 0, None) / max(values.clip(0).sum(), 1e-300)
    return signed(rows), explained


@front_door
def covariance_directions(
    source, numbers: Sequence[int], **choices
) -> tuple[np.ndarray, np.ndarray]:
    """Returns eigenvectors of the covariance of sampled positions by number.

    Number 1 is the direction of largest spread, which is flat and slow. High numbers are stiff
    directions.

    Args:
        source: A run or its folder, whose trajectory may exceed the memory, or positions `(n,
            parameters)`.
        numbers: Numbers of the eigenvectors, from 1 for the largest eigenvalue, below the number of
            positions.
        **choices: For a run: `walker`, `burnin`, `thin`, `tolerance`, `max_passes`, as for
            `tati_re.analysis.covariance_eigenpairs`.

    Returns:
        Orthonormal rows `(len(numbers), parameters)`, and their eigenvalues.

    Raises:
        InputError: There is no eigenvector of this number, or there are no positions.
    """
    refuse_if(
        not numbers or min(numbers) < 1,
        "Eigenvectors of the covariance are numbered from 1.",
        list(numbers),
    )
    if isinstance(source, np.ndarray):
        rows = np.asarray(source, np.float64)
        eigenpairs = leading_eigenpairs(lambda: [(rows, None)], max(numbers))
    else:
        eigenpairs = covariance_eigenpairs(source, max(numbers), **choices)
    most = int(np.sum(eigenpairs.values > 1e-12 * eigenpairs.values[0]))
    refuse_if(
        max(numbers) > most, "There is no eigenvector of that number.", max(numbers), f"1 to {most}"
    )
    indices = [number - 1 for number in numbers]
    return eigenpairs.vectors[indices], eigenpairs.values[indices]


@front_door
def between(*sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns the line or plane through two or three parameter vectors.

    The directions are not normalized. With two directions, the coordinates (0, 0), (1, 0) and (0,
    1) are the given points.

    Args:
        *sets: Two or three vectors, `(parameters,)` each.

    Returns:
        The first vector as the center, and the directions to the others.
    """
    refuse_if(
        len(sets) not in (2, 3), "A line or plane passes through two or three points.", len(sets)
    )
    points = [np.asarray(vector, np.float64) for vector in sets]
    if any(point.shape != points[0].shape for point in points):
        raise InputError(
            "The points differ in length.", ", ".join(str(len(point)) for point in points)
        )
    directions = np.stack([point - points[0] for point in points[1:]])
    if not np.linalg.norm(directions, axis=1).all():
        raise InputError("Two of the points are the same: there is no line between them.")
    return points[0], directions


@front_door
def fixed_mask(names: Sequence[str], patterns: Sequence[str]) -> np.ndarray:
    """Returns the mask of parameters that stay fixed at the center.

    Args:
        names: Names of the parameters, such as `dense/kernel[0,3]`.
        patterns: Names of tensors or parameters, with `*` and `?`: `*bias*`, `dense_1/*`,
            `dense/kernel[0,*`.

    Returns:
        The mask, `(parameters,)`.

    Raises:
        InputError: A pattern matches no parameter.
    """
    mask = np.zeros(len(names), bool)
    tensors = [name.split("[")[0] for name in names]
    for pattern in patterns:
        # In fnmatch brackets are sets of characters; in the names of parameters they are brackets.
        literal = pattern.replace("[", "[[]")
        both = zip(names, tensors, strict=True)
        matches = [
            fnmatchcase(name, literal) or fnmatchcase(tensor, literal) for name, tensor in both
        ]
        if not any(matches):
            known = list(dict.fromkeys(tensors))
            listed = ", ".join(known[:6]) + (", ..." if len(known) > 6 else "")
            raise InputError(
                f"{pattern} matches no parameter.{nearest(pattern, known)}",
                expected=f"such as {listed}",
            )
        mask |= matches
    return mask


held = renamed_function("held", fixed_mask)


@front_door
def project_out(directions: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Sets the parameters of a mask to zero in directions.

    Args:
        directions: Directions, `(axes, parameters)`.
        mask: The parameters to set to zero, `(parameters,)`.

    Returns:
        The changed directions.

    Raises:
        InputError: Nothing is left of a direction.
    """
    left = np.where(mask, 0.0, directions)
    refuse_if(
        not np.linalg.norm(left, axis=1).all(),
        "A direction changes only parameters that are held fixed.",
    )
    return left
