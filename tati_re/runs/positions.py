"""Stored positions of a run, in blocks or one by one, for any number of passes in bounded
memory.
"""

from collections.abc import Iterator
from itertools import accumulate, islice
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.regular import open_regular
from tati_re.core.front_door import front_door, front_doors
from tati_re.runs import checked_tables, checkpoint, files, reading
from tati_re.runs.digests import Known
from tati_re.runs.run import AnyRun, RunFiles, degrees_of_freedom, last_step, stored_every
from tati_re.runs.selection import as_run, burnin_of, check_thin

BLOCK_BYTES = 1 << 27
"""Bytes of the float64 values of a block."""


class Position(NamedTuple):
    """A stored position.

    Attributes:
        step: Its step.
        walker: Its walker, counted from 0.
        parameters: The parameter vector, `(P,)`.
    """

    step: int
    walker: int
    parameters: np.ndarray


class Block(NamedTuple):
    """Rows of a trajectory, `(n,)` each; float64 `values`, `(n, P)`, or projections; `weight` None:
    all the same.
    """

    step: np.ndarray
    walker: np.ndarray
    potential: np.ndarray
    loss: np.ndarray
    values: np.ndarray
    weight: np.ndarray | None

    @property
    def counts(self) -> np.ndarray:
        """What each row counts."""
        return np.ones(len(self.step)) if self.weight is None else self.weight

    def at(self, rows: np.ndarray) -> "Block":
        """The rows of these numbers, or where this is True."""
        if rows.dtype == bool and rows.all():
            return self
        step, walker, potential, loss, values = (part[rows] for part in self[:5])
        return Block(
            step,
            walker,
            potential,
            loss,
            values,
            None if self.weight is None else self.weight[rows],
        )


_MOST_RUNGS = 1_000  # in a message


@front_doors
class Positions:
    """The stored positions of a run after burn-in, by default at the target temperature.

    Args:
        run: The run with `trajectory.h5` or `trajectory.csv`, or its folder.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions of a walker at each rung. Default: 1.
        walker: One walker, counted from 0. Default: None, all walkers.
        rung: The rung, on a ladder that stores all rungs; None selects all rungs. Default: 0, the
            target.
        keep_type: Whether positions of an HDF5 file keep their number type; otherwise they become
            float64. Default: False.
        block_bytes: Bytes of positions in memory at a time.

    Raises:
        InputError: The run stored no trajectory, or an argument is out of range.

    Examples:
        >>> sum(len(block.values) for block in Positions("runs/a").blocks())
        20
    """

    @front_door
    def __init__(
        self,
        run: AnyRun,
        burnin: int | None = None,
        thin: int = 1,
        walker: int | None = None,
        rung: int | None = 0,
        keep_type: bool = False,
        block_bytes: int = BLOCK_BYTES,
    ) -> None:
        check_thin(thin)
        self.run = as_run(run)
        self.burnin = burnin_of(self.run, burnin)
        last = self.run.manifest.last_positions
        if last is not None and self.burnin == burnin_of(self.run, None):
            self.burnin = last.step - 1
        method = self.run.manifest.method
        self._every = stored_every(self.run)
        all_rungs = self.run.manifest.options.trajectory_rungs == "all"
        tempered = method.simulated_tempering
        alone = 1 if tempered is None else len(tempered)
        rungs = range(method.num_replicas if all_rungs else alone)
        problem = "The positions of this rung are not stored; trajectory_rungs chooses which are."
        refuse_if(
            bool(method.table) and rung is not None and rung not in rungs,
            problem,
            f"rung {rung}",
            ", ".join(map(str, rungs[:_MOST_RUNGS])),
        )
        self.thin = thin
        self.walker = walker
        self.rung = rung
        self.keep_type = keep_type
        self._path = files.trajectory_of(self.run.folder)
        if self._path.suffix == ".h5":
            self._read = self._h5
            with reading.open_h5(self._path) as file:
                index, columns = reading.h5_columns(file)
        else:
            self._read = self._csv
            with open_regular(self._path) as file:
                index = []
                columns = checked_tables.header_of(file.readline())
        if lost := {*files.INDEX, *files.BEFORE_PARAMETERS} - {*index, *columns}:
            raise InputError(
                f"{self._path} has no column {min(lost)}.",
                expected="the unmodified file of the run",
            )
        self._known = checkpoint.known(self.run.folder, self._path.name)
        self._index = index
        self._columns = columns
        self._most_rows = max(1, block_bytes // (8 * len(columns)))
        labels = {*files.INDEX, *files.BEFORE_PARAMETERS, *files.LABELS}
        column_numbers = [number for number, name in enumerate(columns) if name not in labels]
        self.names = [columns[number] for number in column_numbers]
        self._values = (
            slice(column_numbers[0], column_numbers[-1] + 1) if column_numbers else slice(0, 0)
        )

    @property
    def num_parameters(self) -> int:
        """P, or the number of directions if the run stored projections."""
        return len(self.names)

    @property
    def projected(self) -> bool:
        """Whether the run stored projections instead of parameters."""
        return stores_projections(self.run)

    def left(self) -> bool:
        """Whether there are rows after burn-in, at least two; a running run may have stored none
        yet.
        """
        return any(
            number > 1
            for number in accumulate(int(self._counts(block).sum()) for block, _ in self._read())
        )

    def _counts(self, block: Block) -> np.ndarray:
        """Which rows are past the burn-in, and as far apart as those at the end of a run that went
        on.
        """
        return (block.step > self.burnin) & (block.step % (self._every or 1) == 0)

    def blocks(self) -> Iterator[Block]:
        """Yields the selected rows in written order, block by block.

        Raises:
            InputError: No rows are left, or there is no such walker.
        """
        seen: dict[tuple[int, int], int] = {}
        empty = True
        walkers = set()
        last = 0
        for block, rung in self._read():
            walkers |= set(np.unique(block.walker).tolist())
            last = max(last, int(block.step.max(initial=0)))
            chosen = self._counts(block)
            if self.rung is not None and rung is not None:
                chosen &= rung == self.rung
            if self.walker is not None:
                chosen &= block.walker == self.walker
            if self.thin > 1:
                chosen &= self._due(
                    block.walker,
                    np.zeros_like(block.walker) if rung is None else rung,
                    chosen,
                    seen,
                )
            if chosen.any():
                empty = False
                block = block.at(chosen)
                yield (
                    block
                    if self.keep_type
                    else block._replace(values=block.values.astype(np.float64, copy=False))
                )
        missing = empty and self.walker not in (None, *walkers)
        refuse_if(
            missing, "The walker is not in the trajectory.", self.walker, f"0 to {len(walkers) - 1}"
        )
        problem = f"No positions are left after the burn-in of {self.burnin:,} steps."
        expected = (
            "a smaller trajectory_every, more steps (resume with num_steps), or a smaller burnin"
        )
        received = f"{last_step(self.run, last):,} steps, last stored {last:,}, trajectory_every {self._every:,}"
        refuse_if(empty, problem, received, expected)

    def read(self) -> Block:
        """Returns all selected rows at once, sorted by step and walker."""
        *columns, weights = zip(*self.blocks(), strict=True)
        step, walker, potential, loss, values = (np.concatenate(parts) for parts in columns)
        weight = None if weights[0] is None else np.concatenate(weights)
        return Block(step, walker, potential, loss, values, weight).at(np.lexsort((walker, step)))

    def moments(self) -> tuple[np.ndarray, np.ndarray, int]:
        """Returns mean `(P,)`, variance `(P,)` and the number of rows, in one pass.

        The variance uses `degrees_of_freedom`.
        """
        count = 0.0
        weights = 0.0
        rows = 0
        mean = squares = np.zeros(())
        for block in self.blocks():
            weight = block.counts
            number = weight.sum()
            rows += len(weight)
            if number == 0:
                continue
            middle = weight @ block.values / number
            deviation = block.values - middle
            squares = (
                squares
                + weight @ deviation**2
                + (middle - mean) ** 2 * count * number / (count + number)
            )
            mean = mean + (middle - mean) * (number / (count + number))
            count = count + number
            weights = weights + weight @ weight
        return mean, squares / degrees_of_freedom(count, weights), rows

    def _due(
        self, walkers: np.ndarray, rungs: np.ndarray, chosen: np.ndarray, seen: dict
    ) -> np.ndarray:
        """Every `thin`-th of the chosen rows of a walker at a rung, also from block to block."""
        due = np.zeros(len(walkers), bool)
        for walker, rung in set(zip(walkers[chosen].tolist(), rungs[chosen].tolist(), strict=True)):
            mine = np.flatnonzero(chosen & (walkers == walker) & (rungs == rung))
            before = seen.get((walker, rung), 0)
            due[mine[(before + np.arange(len(mine))) % self.thin == 0]] = True
            seen[walker, rung] = before + len(mine)
        return due

    def _h5(self) -> Iterator[tuple[Block, np.ndarray | None]]:
        with reading.open_h5(self._path) as file:
            length = reading.h5_length(file)
            check = checked_tables.RowCheck(self._path, file, self._first_time())
            for start in range(0, length, self._most_rows):
                stop = min(start + self._most_rows, length)
                index = file["index"][start:stop]
                rows = file["rows"][start:stop]
                check.add(index, rows)
                yield self._block(index, self._index, rows)
            check.end()

    def _csv(self) -> Iterator[tuple[Block, np.ndarray | None]]:
        with open_regular(self._path) as file:
            check = checked_tables.LineCheck(self._path, self._first_time())
            number = 2
            check.add(file.readline())
            # A last line without its end is still being written.
            while lines := [line for line in islice(file, self._most_rows) if line.endswith(b"\n")]:
                text = b"".join(lines)
                check.add(text)
                values = checked_tables.parsed(self._path, text, self._columns, number).to_numpy(
                    np.float64
                )
                number += len(lines)
                yield self._block(values, self._columns, values)
            check.end()

    def _first_time(self) -> Known | None:
        """What the checkpoint knows of the file; only one pass looks at it."""
        known = self._known
        self._known = None
        return known

    def _block(
        self, index: np.ndarray, names: list[str], rows: np.ndarray
    ) -> tuple[Block, np.ndarray | None]:
        def integers(name: str) -> np.ndarray:
            return index[:, names.index(name)].astype(np.int64)

        potential, loss = (
            rows[:, self._columns.index(name)].astype(np.float64)
            for name in files.BEFORE_PARAMETERS
        )
        weight = (
            rows[:, self._columns.index("weight")].astype(np.float64)
            if "weight" in self._columns
            else None
        )
        step, walker = (integers(name) for name in files.INDEX)
        rung = integers("rung") if "rung" in names else None
        return Block(step, walker, potential, loss, rows[:, self._values], weight), rung


def stores_projections(run: RunFiles) -> bool:
    manifest = run.manifest
    return bool(manifest.options.directions) or "directions" in manifest.objects


@front_door
def stored_positions(run: RunFiles, block_bytes: int = BLOCK_BYTES) -> Iterator[Position]:
    """Yields the rows of a run's trajectory in written order, with one block in memory at a time.

    Rows are ordered by step and walker. If groups of walkers take turns (`covariance_blending`),
    they are ordered by turn. Rows of the burn-in and of hotter rungs are left out.

    Args:
        run: The run.
        block_bytes: Bytes of positions in memory at a time.

    Yields:
        One stored position.

    Raises:
        InputError: The run stored no trajectory, or projections instead of parameters.
    """
    refuse_if(stores_projections(run), f"The run {run.folder} stored projections, not parameters.")
    positions = Positions(run, keep_type=True, block_bytes=block_bytes)
    chosen = (
        block.at(positions._counts(block) & (rung is None or rung == 0))
        for block, rung in positions._read()
    )
    return (
        Position(int(step), int(walker), vector)
        for block in chosen
        for step, walker, vector in zip(block.step, block.walker, block.values, strict=True)
    )
