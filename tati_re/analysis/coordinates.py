"""Coordinates of a run: columns, parameters, eigenvectors of the covariance, eigenfunctions of a diffusion map."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tati_re.analysis.convergence import chains_of, rows_by_walker
from tati_re.analysis.covariance import covariance_eigenpairs
from tati_re.analysis.diffusion_map import DiffusionMap, diffusion_map
from tati_re.core.errors import InputError, nearest
from tati_re.runs.positions import Block, Positions
from tati_re.runs.selection import as_run, select_rows

if TYPE_CHECKING:
    from tati_re.runs.run import RunFiles

FORM = "a column of run.csv, a parameter such as dense/kernel[0,0], covariance:1 or diffusion:1"


class Coordinate(NamedTuple):
    """Draws of one coordinate, `(walkers, draws)`, and what each counts, same shape; None where all count the same."""

    values: np.ndarray
    weights: np.ndarray | None


def coordinate_of(
    run: RunFiles | str | os.PathLike[str], name: str, burnin: int | None = None, thin: int = 1, **map_options: Any
) -> Coordinate:
    """Returns the draws of a coordinate of a run.

    Args:
        run: The run, or its folder.
        name: A column of `run.csv`; a parameter by its name in the trajectory; `covariance:k` or `diffusion:k`, the
            k-th (from 1) eigenvector of the covariance, or eigenfunction of the diffusion map, of the stored positions.
        burnin: Steps to leave out. Default: None, the run's own burn-in.
        thin: Every how many rows or positions are kept. Default: 1.
        **map_options: For `diffusion:k`: those of `diffusion_map_of`.

    Raises:
        InputError: No such coordinate, or no positions are stored.
    """
    run = as_run(run)
    kind, _, number = name.partition(":")
    if number and kind in ("covariance", "diffusion"):
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"{kind}: which?", number, f"{kind}:1, {kind}:2, ...")
        return _along(run, kind, int(number), burnin, thin, map_options)
    if name in run.run_info.columns and name not in ("step", "walker"):
        rows = select_rows(run, burnin, thin)
        return Coordinate(chains_of(rows, name, -1), chains_of(rows, "weight", -1) if "weight" in rows else None)
    positions = Positions(run, burnin, thin)
    if name not in positions.names:
        known = [*run.run_info.columns, *positions.names]
        raise InputError(f"There is no coordinate '{name}'.{nearest(name, known)}", expected=FORM)
    place = positions.names.index(name)
    return _by_walker(positions.blocks(), lambda block: block.values[:, place])


def diffusion_map_of(
    run: RunFiles | str | os.PathLike[str],
    num_eigenvectors: int = 4,
    burnin: int | None = None,
    thin: int = 1,
    num_points: int = 2000,
    bandwidth: float | str = "bgh",
    alpha: float = 0.5,
    target_measure: bool = False,
) -> tuple[DiffusionMap, Block]:
    """The diffusion map of a run's stored positions, evenly thinned to a maximal number.

    Args:
        run: The run, or its folder.
        num_eigenvectors: How many. Default: 4.
        burnin: Steps to leave out. Default: None, the run's own burn-in.
        thin: Every how many positions are kept. Default: 1.
        num_points: Most positions that enter. Default: 2000.
        bandwidth: As in `diffusion_map`. Default: "bgh".
        alpha: As there. Default: 0.5.
        target_measure: Whether points count for exp(-U/T), U as stored, whatever their density: TMDmap. Default: False.

    Returns:
        The map, and the positions that it is of.

    Raises:
        InputError: No positions are stored, or too few.
    """
    run = as_run(run)
    count = sum(len(block.step) for block in Positions(run, burnin, thin).blocks())
    walkers = max(1, int(run.manifest.get("options", {}).get("num_walkers", 1)))
    more = -(-count // max(num_points, walkers))
    block = Positions(run, burnin, thin * max(1, more)).read()
    log_target = -block.potential / float(run.manifest.get("temperature", 1.0)) if target_measure else None
    return diffusion_map(block.values, num_eigenvectors, bandwidth, alpha, log_target), block


def _along(
    run: RunFiles, kind: str, number: int, burnin: int | None, thin: int, map_options: dict[str, Any]
) -> Coordinate:
    if kind == "diffusion":
        found, block = diffusion_map_of(run, number, burnin, thin, **map_options)
        return _by_walker([block], lambda _: found.vectors[:, number - 1])
    pairs = covariance_eigenpairs(run, number, None, burnin, thin)
    if number > len(pairs.values):
        raise InputError("The covariance has fewer eigenvectors.", number, f"1 to {len(pairs.values)}")
    vector = pairs.vectors[number - 1]
    return _by_walker(Positions(run, burnin, thin).blocks(), lambda block: (block.values - pairs.mean) @ vector)


def _by_walker(blocks, take) -> Coordinate:
    steps, walkers, values, weights = zip(*((b.step, b.walker, take(b), b.weight) for b in blocks), strict=True)
    rows = rows_by_walker(np.concatenate(steps), np.concatenate(walkers))
    return Coordinate(np.concatenate(values)[rows], None if weights[0] is None else np.concatenate(weights)[rows])
