"""Jobs of an exploration, each a leg with its descents, run in parallel and saved in separate
files.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from tati_re.core.backend import threads
from tati_re.core.errors import InputError
from tati_re.core.files.unpacking import load_arrays
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.protocol import fields_of
from tati_re.core.user_warnings import warn_user
from tati_re.distributed.jobs import SideBySide
from tati_re.exploration.descent import StationaryPoint, lowest_below
from tati_re.exploration.trajectories import FunctionTrajectories, ModelTrajectories, candidates
from tati_re.landscape.request import simulation_of
from tati_re.landscape.surface import Surface
from tati_re.posterior.function import FunctionPotential
from tati_re.runs.storage import replacing
from tati_re.simulation.simulation import Simulation

KINDS = ("minimum", "valley", "saddle", "unfinished")
_NUMBERS = (
    "potential",
    "loss",
    "gradient_norm",
    "index",
    "num_flat",
    "smallest",
    "largest",
    "ln_volume",
)


class Job(NamedTuple):
    """A leg of `num_steps` from `start`, `(parameters,)`, and `num_candidates` descents along it,
    to be run. Without steps there is no leg, and the descents start at `path`, positions that
    exist. `number` gives file and seed; after `until`, by `time.monotonic`, it is cut short.
    """

    number: int
    start: np.ndarray
    temperature: float
    num_steps: int
    num_candidates: int
    path: np.ndarray | None = None
    until: float = math.inf


class JobResult(NamedTuple):
    """The positions of a leg `(n, parameters)`, the rows descended from, and the points reached;
    whether the leg was cut short by the clock.
    """

    positions: np.ndarray
    rows: np.ndarray
    points: list[StationaryPoint]
    is_cut: bool = False

    @property
    def found(self) -> list[StationaryPoint]:
        """The old name of `points`."""
        warn_user("found is now called points; the old name will be removed.", DeprecationWarning)
        return self.points


@front_doors
class ExploredSystem:
    """A potential together with the dynamics that samples its legs.

    Args:
        surface: The potential, a `tati_re.landscape.Surface`.
        trajectories: Function that samples a leg, `(start, temperature, num_steps, seed) ->
            positions`, with attributes `start` and `identity`.
        temperature: T of the target, for volumes.
    """

    @front_door
    def __init__(self, surface: Surface, trajectories: Any, temperature: float) -> None:
        self.surface = surface
        self.trajectories = trajectories
        self.temperature = temperature

    def run(self, job: Job, seed: int, advanced: Callable[[], None] | None = None) -> JobResult:
        """Runs a job.

        Args:
            job: The job. It ends early when its time is over, after at least one descent.
            seed: Seed of the exploration.
            advanced: Function called after the leg and after each descent. Default: None.

        Returns:
            The leg, and the stationary points of its descents.
        """
        advanced = advanced or (lambda: None)
        positions = job.path
        if positions is None:
            leg_seed = int(np.random.SeedSequence([seed, job.number]).generate_state(1)[0] >> 1)
            positions = self.trajectories(
                job.start, job.temperature, job.num_steps, leg_seed, job.until
            )
        advanced()

        rows = candidates(self.surface, positions, job.num_candidates)
        points: list[StationaryPoint] = []
        for place in rows:
            if points and _is_over(job.until):
                break
            points.append(
                lowest_below(self.surface, positions[place], self.temperature, until=job.until)
            )
            advanced()
        return JobResult(positions, rows[: len(points)], points, _is_over(job.until))


def system_of(
    source: Any, step_size: float | None = None, friction: float | None = None
) -> ExploredSystem:
    """The system of an exploration.

    Args:
        source: A Simulation, a FunctionPotential, a dict of options, or an ExploredSystem, which is
            returned unchanged. With `run`, a folder, they replace options of that run.
        step_size: Step size of the legs of a function. Default: None, 0.05.
        friction: Friction of the legs of a function. Default: None, 1.
    """
    if isinstance(source, ExploredSystem):
        return source
    if isinstance(source, dict):
        options = dict(source)
        run = options.pop("run", None)
        source = Simulation(**options) if run is None else simulation_of(run, **options)
    if isinstance(source, FunctionPotential):
        surface = Surface(source)
        legs = FunctionTrajectories(
            surface, step_size or 0.05, 1.0 if friction is None else friction
        )
        return ExploredSystem(surface, legs, 1.0)
    return ExploredSystem(Surface(source), ModelTrajectories(source), source.options.kT)


def _is_over(until: float) -> bool:
    return math.isfinite(until) and time.monotonic() > until


def path_of_job(folder: Path, number: int) -> Path:
    """The file of a job's result.

    Args:
        folder: The folder of the exploration.
        number: Number of the job.
    """
    return folder / "jobs" / f"job-{number:05d}.npz"


def write(path: Path, done: JobResult) -> None:
    """Writes the result of a job, in one piece.

    Args:
        path: The file.
        done: The result.
    """
    arrays = {
        "leg": done.positions,
        "places": done.rows,
        "points": np.stack([point.position for point in done.points]),
        "kinds": np.array([KINDS.index(point.kind) for point in done.points]),
        "numbers": np.array(
            [[*fields_of(point, _NUMBERS).values()] for point in done.points], np.float64
        ),
    }
    with replacing(path) as file:
        np.savez(file, **arrays)


def read(path: Path) -> JobResult:
    with load_arrays(path) as file:
        points = []
        for position, kind, numbers in zip(
            file["points"], file["kinds"], file["numbers"], strict=True
        ):
            values = dict(zip(_NUMBERS, numbers.tolist(), strict=True))
            values |= {"index": int(values["index"]), "num_flat": int(values["num_flat"])}
            points.append(StationaryPoint(position, kind=KINDS[kind], **values))
        return JobResult(file["leg"], file["places"], points)


class Pool:
    """Runs jobs without a saved result, in this process or in several others.

    Args:
        system: The system that runs jobs in this process.
        folder: Where results are saved; None saves none.
        seed: Seed of the exploration.
        num_processes: Number of processes; 0 or 1 runs in this one.
        made: Makes the system in another process; None if it cannot be made there.

    Raises:
        InputError: There are several processes, and no `made`.
    """

    def __init__(
        self,
        system: ExploredSystem,
        folder: Path | None,
        seed: int,
        num_processes: int,
        made: Callable[[], ExploredSystem] | None,
    ) -> None:
        self.system = system
        self.folder = folder
        self.seed = seed
        self._team: SideBySide | None = None
        self._number = num_processes
        if num_processes > 1:
            problem = "num_processes: objects of this process are not available in others."
            if made is None:
                raise InputError(
                    problem, num_processes, "a run folder, options in words or a function potential"
                )
            self._team = SideBySide(
                lambda: partial(made().run, seed=seed), num_processes, threads()
            )
        if folder is not None:
            (folder / "jobs").mkdir(parents=True, exist_ok=True)

    def run(
        self,
        jobs: Sequence[Job],
        until: float = float("inf"),
        report: Callable[[Job, JobResult, float], None] | None = None,
        advanced: Callable[[], None] | None = None,
    ) -> list[JobResult]:
        """Results of the jobs in order, of the first ones if the time ran out.

        Args:
            jobs: The jobs.
            until: When, by `time.monotonic`, no further job is begun and those that go on are cut
                short; one always is begun, and with several processes one in each. Jobs that were
                cut short are not saved. Default: never.
            report: Called after each job, with its result and the seconds it took, those of all
                processes together. Default: none.
            advanced: Called after each leg and each descent of this process. Default: none.
        """
        jobs = [job._replace(until=until) for job in jobs]
        left = [
            job
            for job in jobs
            if self.folder is None or not path_of_job(self.folder, job.number).exists()
        ]
        fresh: dict[int, JobResult] = {}

        def on_result(part: Sequence[Job], place: int, result: JobResult) -> None:
            fresh[part[place].number] = result
            if self.folder is not None and not result.is_cut:
                write(path_of_job(self.folder, part[place].number), result)

        if self._team is None:
            together = 1
        else:
            together = self._number if until < float("inf") else max(1, len(left))

        for first in range(0, len(left), together):
            if fresh and time.monotonic() > until:
                break
            began = time.monotonic()
            job = left[first]
            part = left[first : first + together]
            if self._team is not None:
                self._team.run(part, partial(on_result, part))
                if report is not None:
                    last = part[-1]
                    report(last, fresh[last.number], (time.monotonic() - began) / len(part))
                continue
            on_result(part, 0, self.system.run(job, self.seed, advanced))
            if report is not None:
                report(job, fresh[job.number], time.monotonic() - began)
        skipped = {job.number for job in left} - set(fresh)
        numbers = [job.number for job in jobs if job.number not in skipped]
        return [
            fresh[n] if n in fresh else read(path_of_job(cast(Path, self.folder), n))
            for n in numbers
        ]

    def close(self) -> None:
        if self._team is not None:
            self._team.close()
