"""Stored positions of a run one by one, without reading all of them into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tati_re.core.errors import InputError
from tati_re.runs.positions import BLOCK_BYTES, Positions, stores_projections

if TYPE_CHECKING:
    from tati_re.runs.run import RunFiles


class Position(NamedTuple):
    """A stored position.

    Attributes:
        step: Its step.
        walker: Its walker, counted from 0.
        parameters: The vector, shape (P,).
    """

    step: int
    walker: int
    parameters: np.ndarray


def stored_positions(run: RunFiles, block_bytes: int = BLOCK_BYTES) -> Iterator[Position]:
    """Yields the rows of a run's trajectory in written order, with one block in memory at a time.

    That is in the order of steps and walkers; where groups of walkers take turns (`covariance_blending`), turn by turn.

    Args:
        run: The run, as `tati_re.load(folder)` returns it.
        block_bytes: Of the rows in memory at a time.

    Yields:
        A Position per row; rows of the burn-in are not in the trajectory.

    Raises:
        InputError: The run stored no trajectory, or projections instead of parameters.
    """
    if stores_projections(run):
        raise InputError(f"The run {run.folder} stored projections, not parameters.")
    positions = Positions(run, burnin=0, rung=None, keep_type=True, block_bytes=block_bytes)
    return (
        Position(int(step), int(walker), vector)
        for block in positions.all_blocks()
        for step, walker, vector in zip(block.step, block.walker, block.values, strict=True)
    )
