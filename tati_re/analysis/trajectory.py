"""Stored positions of a run, one after the other, without reading all of them into memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tati_re.engine import reading
from tati_re.errors import InputError

if TYPE_CHECKING:
    from tati_re.engine.run import Run

_BLOCK_VALUES = 4_000_000
_INDEX = ("step", "walker")  # the order of columns in every trajectory file
_BEFORE_PARAMETERS = ("potential", "loss")


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


def stored_positions(run: Run) -> Iterator[Position]:
    """Yields the rows of a run's trajectory as they were written, a block of them in memory at a time.

    That is in the order of steps and walkers; where groups of walkers take turns (`covariance_blending`), turn by turn.

    Args:
        run: The run, as `tati_re.load(folder)` returns it.

    Yields:
        A Position per row; rows of the burn-in are not in the trajectory.

    Raises:
        InputError: The run stored no trajectory, or projections instead of parameters.
    """
    if run.manifest.get("options", {}).get("directions") or "directions" in run.manifest.get("objects", []):
        raise InputError(f"The run {run.folder} stored projections, not parameters.")
    # After the parameters come the labels of a walker on a ladder; a manifest without parameters has none.
    count = run.manifest.get("parameters", {}).get("num")
    if (run.folder / "trajectory.h5").exists():
        blocks = _h5_blocks(run)
    elif (run.folder / "trajectory.csv").exists():
        blocks = _csv_blocks(run)
    else:
        raise InputError(f"The run {run.folder} has no trajectory.", expected="a run with trajectory_every above 0")
    return (
        Position(int(step), int(walker), vector[:count])
        for index, vectors in blocks
        for (step, walker), vector in zip(index, vectors, strict=True)
    )


def _h5_blocks(run: Run) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with reading.open_h5(run.folder / "trajectory.h5") as file:
        length = reading.h5_length(file)
        size = max(1, _BLOCK_VALUES // file["rows"].shape[1])
        for start in range(0, length, size):
            stop = min(start + size, length)
            yield file["index"][start:stop, : len(_INDEX)], file["rows"][start:stop, len(_BEFORE_PARAMETERS) :]


def _csv_blocks(run: Run) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    with (run.folder / "trajectory.csv").open("rb") as file:
        size = max(1, _BLOCK_VALUES // (file.readline().count(b",") + 1))
        # A last line without its end is still being written.
        while lines := [line for line in islice(file, size) if line.endswith(b"\n")]:
            cells = [line.split(b",") for line in lines]
            index = np.array([row[: len(_INDEX)] for row in cells], dtype=np.int64)
            first = len(_INDEX) + len(_BEFORE_PARAMETERS)
            yield index, np.array([list(map(float, row[first:])) for row in cells])
