"""Exploration: short trajectories (legs) from known minima, descents along them, new legs from
unseen regions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path as File
from typing import Any, NamedTuple

import numpy as np
import pandas

from tati_re.analysis.diffusion_map import diffusion_map
from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_input import check_seed
from tati_re.engine.progress import FIRST_SECONDS, LINE_SECONDS
from tati_re.exploration.descent import StationaryPoint
from tati_re.exploration.jobs import ExploredSystem, Job, JobResult, Pool, system_of
from tati_re.exploration.paths import Path, connect
from tati_re.exploration.result import Exploration, disconnectivity
from tati_re.exploration.trajectories import ModelTrajectories
from tati_re.landscape.tables import digest
from tati_re.posterior.function import FunctionPotential
from tati_re.runs.csv_table import frame_text
from tati_re.runs.lock import one_writer
from tati_re.runs.specification import open_folder
from tati_re.runs.storage import replacing, write_whole

DIRECTIONS = ("covariance", "diffusion_map")
SPECIFICATION = "exploration.toml"
MERGE = 0.1
"""Temperatures: two bottoms with a lower barrier between them are one."""
_TIME_OF_LEGS = 0.8
"""Part of `max_time` that legs may take; the rest is for barriers."""
_CLOUD = 1500
_COORDINATES = 10


@front_door
@one_writer
def explore(
    source: Any,
    start: np.ndarray | None = None,
    *,
    path: np.ndarray | None = None,
    num_steps: int = 2000,
    num_legs: int = 4,
    heats: Sequence[float] = (1.0, 4.0),
    num_candidates: int = 5,
    max_rounds: int = 10,
    patience: int = 3,
    directions: str = "covariance",
    num_connected: int = 8,
    num_processes: int = 0,
    temperature: float | None = None,
    step_size: float | None = None,
    friction: float | None = None,
    seed: int | None = None,
    output: AnyPath | None = None,
    max_time: float | None = None,
    say: Callable[[str], None] | None = None,
) -> Exploration:
    """Finds the minima and valleys of U that can be reached from a starting point.

    Each round runs `num_legs` legs. Half of them start from the minima found so far, the least
    visited first. The other half start from the sampled points farthest from all minima and earlier
    starts. Distances are measured along the directions of largest spread (from the covariance, or a
    diffusion map).

    Each leg is sampled at one of the temperatures T * heats in turn, which double after each round
    without a new minimum. Points of small gradient along the leg then descend. A descent that ends
    at a known point adds nothing. Two minima with flat directions belong to the same valley if a
    relaxed path between them rises by less than 0.1 T. Points closest to a minimum that was found
    more than ten times are no longer used as starts while others exist. The exploration stops after
    `patience` rounds without a new minimum.

    Args:
        source: A Simulation of one walker, a FunctionPotential, options with `run` for a folder, or
            an `ExploredSystem`.
        start: The starting point, `(parameters,)`. Default: None, the position of the simulation.
        path: Positions `(n, parameters)` of an existing trajectory, used as the first leg. Default:
            None.
        num_steps: Steps per leg. Default: 2,000.
        num_legs: Legs per round. Default: 4.
        heats: Temperatures of the legs relative to T. Default: 1 and 4.
        num_candidates: Descents per leg. Default: 5.
        max_rounds: Largest number of rounds. Default: 10.
        patience: Rounds without a new minimum before it stops. Default: 3.
        directions: "covariance" or "diffusion_map". Default: "covariance".
        num_connected: Number of lowest minima whose pairwise barriers are computed. Default: 8.
        num_processes: Number of parallel processes; 0 runs in this process. Default: 0.
        temperature: T. Default: None, the temperature of the simulation, or 1 for a function.
        step_size: Step size of the legs of a function; a simulation uses its own. Default: 0.05.
        friction: Friction of the legs of a function. Default: 1.
        seed: Seed of the legs. Default: 0. Without `output`, further calls for one simulation use
            new random numbers.
        output: A folder. Another call with the same folder continues an interrupted exploration.
            Default: None.
        max_time: Time limit in seconds, four fifths for legs and the rest for barriers. A leg and
            its descents are cut short at the limit; the same call with `output` completes them.
            Default: None, no limit.
        say: Function called with a sentence after each round and, in long rounds, once a minute.
            Default: None.

    Returns:
        The exploration.

    Raises:
        InputError: A number is out of range, or the folder belongs to another exploration.
    """
    plan = _Plan(
        num_steps=num_steps,
        num_legs=num_legs,
        heats=heats,
        num_candidates=num_candidates,
        max_rounds=max_rounds,
        patience=patience,
        directions=directions,
        max_time=max_time,
    )
    _check(plan, num_processes)
    began = time.monotonic()
    limit = float("inf") if max_time is None else max_time
    until = began + limit
    legs_until = began + _TIME_OF_LEGS * limit
    say = say or (lambda _: None)

    system = system_of(source, step_size, friction)
    if temperature is not None:
        system.temperature = float(temperature)
    start = _start_of(system, start)
    path = None if path is None else np.asarray(path)
    folder = None if output is None else File(output)
    seed = _seed_of(system, seed, folder)
    if folder is not None:
        specification = _specification(plan, system, start, path, seed)
        open_folder(folder, SPECIFICATION, specification, "exploration")

    made = None
    if isinstance(source, (dict, FunctionPotential)):
        made = partial(system_of, source, step_size, friction)
    pool = Pool(system=system, folder=folder, seed=seed, num_processes=num_processes, made=made)
    search = _Search(plan, system, pool, say, legs_until)
    try:
        reason = search.run(start, path)
    finally:
        pool.close()

    minima = search.minima
    order = np.argsort([point.potential for point in minima.points], kind="stable")
    lowest = [minima.points[i] for i in order[:num_connected]]
    paths = _connect(system.surface, lowest, until, say)
    if len(minima.points) > 10 and max(minima.times) == 1 and num_candidates > 1:
        reason += "; no minimum was found twice: there are many more than these"
    result = _tables(minima, order, paths, search.legs, search.rounds, reason)
    result = result._replace(out_of_time=search.out_of_time or time.monotonic() > until)
    if folder is not None:
        _write(folder, result)
    return result


class _Plan(NamedTuple):
    """What was asked for, as the arguments of `explore`."""

    num_steps: int
    num_legs: int
    heats: Sequence[float]
    num_candidates: int
    max_rounds: int
    patience: int
    directions: str
    max_time: float | None


def _start_of(system: ExploredSystem, start: np.ndarray | None) -> np.ndarray:
    """The starting point that was given, else the position of the simulation."""
    if start is None:
        start = system.trajectories.start
    refuse_if(start is None, "start is missing.", expected="parameters to start from")
    return np.asarray(start, np.float64)


def _seed_of(system: ExploredSystem, seed: int | None, folder: File | None) -> int:
    """The seed that was given; else 0, or that of the next call for one simulation."""
    if seed is None:
        counted = folder is None and isinstance(system.trajectories, ModelTrajectories)
        seed = system.trajectories.next_seed() if counted else 0
    check_seed(seed)
    return seed


def _specification(
    plan: _Plan, system: ExploredSystem, start: np.ndarray, path: np.ndarray | None, seed: int
) -> dict[str, Any]:
    """What another call with the same folder must ask for again."""
    parts = [
        system.surface.identity,
        system.trajectories.identity,
        start,
        np.zeros(0) if path is None else path,
    ]
    return {
        "num_steps": plan.num_steps,
        "num_legs": plan.num_legs,
        "heats": list(plan.heats),
        "num_candidates": plan.num_candidates,
        "directions": plan.directions,
        "temperature": system.temperature,
        "seed": seed,
        "digest": digest(parts),
    }


class _Search:
    """Rounds of legs: the minima that they found, and where the next legs start.

    Args:
        plan: What was asked for.
        system: The surface and its trajectories.
        pool: Where legs run.
        say: Function called with a sentence.
        legs_until: When no leg may begin any more, on the monotonic clock.
    """

    def __init__(
        self,
        plan: _Plan,
        system: ExploredSystem,
        pool: Pool,
        say: Callable[[str], None],
        legs_until: float,
    ) -> None:
        self.minima = _StationaryPoints(system.surface, system.temperature)
        self.legs: list[np.ndarray] = []
        self.rounds = 0
        self.out_of_time = False
        self._plan = plan
        self._temperature = system.temperature
        self._pool = pool
        self._say = say
        self._legs_until = legs_until
        most_legs = 1 + plan.num_legs * (plan.max_rounds - 1)
        self._reports = _Reports(say, most_legs, plan.num_candidates, legs_until)
        self._num_jobs = 0
        self._rounds_without_new = 0

    def run(self, start: np.ndarray, path: np.ndarray | None) -> str:
        """Runs rounds until one of the limits is reached.

        Args:
            start: Where the first leg starts.
            path: Positions that take the place of the first leg, or `None`.

        Returns:
            Why the exploration ended.
        """
        plan = self._plan
        starts = [start]
        for turn in range(1, plan.max_rounds + 1):
            num_new = self._round(turn, starts, path if turn == 1 else None)
            if time.monotonic() > self._legs_until:
                self.out_of_time = True
                return f"the {plan.max_time:g} seconds are used up"
            self._rounds_without_new = 0 if num_new else self._rounds_without_new + 1
            if self._rounds_without_new >= plan.patience:
                return f"{_counted(plan.patience, 'round')} without a new minimum"
            starts = _next_starts(self.minima, self.legs, starts, plan.num_legs, plan.directions)
        return f"the limit of {_counted(plan.max_rounds, 'round')} is reached"

    def _round(self, turn: int, starts: list[np.ndarray], path: np.ndarray | None) -> int:
        """Runs the legs of one round, and returns the number of new minima."""
        jobs = [self._job(turn, place, start) for place, start in enumerate(starts)]
        if path is not None:
            jobs[0] = jobs[0]._replace(path=np.asarray(path, np.float64))
        reports = self._reports
        results = self._pool.run(jobs, self._legs_until, reports.leg_done, reports.advanced)
        self.rounds = turn

        num_before = len(self.minima.points)
        for done in results:
            self.legs.append(done.positions)
            self.minima.add(done, turn)
        num_all = len(self.minima.points)
        num_new = num_all - num_before
        found = f"{num_new} new {'minimum' if num_new == 1 else 'minima'}, {num_all} in total"
        self._say(f"round {turn}: {_counted(len(jobs), 'leg')}, {found}")
        return num_new

    def _job(self, turn: int, place: int, start: np.ndarray) -> Job:
        """The next leg; its temperature doubles with each round without a new minimum."""
        plan = self._plan
        self._num_jobs += 1
        heat = plan.heats[(turn - 1 + place) % len(plan.heats)] * 2.0**self._rounds_without_new
        return Job(
            number=self._num_jobs,
            start=start,
            temperature=heat * self._temperature,
            num_steps=plan.num_steps,
            num_candidates=plan.num_candidates,
            path=None,
        )


class _Reports:
    """Sentences on how far an exploration is, the first after five seconds, then one a minute."""

    def __init__(
        self, say: Callable[[str], None], most: int, num_candidates: int, until: float
    ) -> None:
        self._say = say
        self._most = most
        self._until = until
        self._parts_of_leg = 1 + num_candidates
        self._parts = self._legs = 0
        self._seconds = 0.0
        self._began = time.monotonic()
        self._due = self._began + FIRST_SECONDS

    def advanced(self) -> None:
        """Counts a leg's trajectory or one of its descents."""
        self._parts += 1
        if not self._is_due():
            return
        part = self._parts - self._legs * self._parts_of_leg
        progress = f"leg {self._legs + 1}: trajectory done"
        if part > 1:
            descents = _counted(self._parts_of_leg - 1, "descent")
            progress = f"leg {self._legs + 1}: {part - 1} of {descents}"
        pace = (time.monotonic() - self._began) / self._parts
        self._say(f"{progress}; {self._left(pace * self._parts_of_leg, part / self._parts_of_leg)}")

    def leg_done(self, job: Job, done: JobResult, seconds: float) -> None:
        """Counts a leg with its descents, and the time it took."""
        self._legs = job.number
        self._parts = job.number * self._parts_of_leg
        self._seconds += seconds
        if not self._is_due():
            return
        ends = [point.potential for point in done.points]
        summary = f"leg {job.number}: {_counted(len(ends), 'descent')} in {seconds:.3g} s"
        self._say(f"{summary}, U {min(ends):.6g} to {max(ends):.6g}; {self._left(seconds)}")

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + LINE_SECONDS
        return True

    def _left(self, seconds_of_leg: float, part: float = 0.0) -> str:
        """How many legs are left at most and how long they take, or `max_time` lets them."""
        legs = max(0, self._most - self._legs - (part > 0.0))
        seconds = (legs + (1.0 - part if part > 0.0 else 0.0)) * seconds_of_leg
        seconds = min(seconds, max(0.0, self._until - time.monotonic()))
        left = f"{_duration(seconds)} left"
        return f"at most {_counted(legs, 'more leg')}, {left}" if legs else left


def _counted(number: int, noun: str) -> str:
    """A number with its noun, such as `1 leg` or `4 legs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _StationaryPoints:
    def __init__(self, surface, temperature: float) -> None:
        self.surface = surface
        self.temperature = temperature
        self.points: list[StationaryPoint] = []
        self.times: list[int] = []
        self.rounds: list[int] = []

    def add(self, done: JobResult, turn: int) -> None:
        for point in done.points:
            if point.kind == "saddle" or not np.isfinite(point.potential):
                continue
            place = self._known(point)
            if place is None:
                self.points.append(point)
                self.times.append(1)
                self.rounds.append(turn)
                continue
            self.times[place] += 1
            if point.potential < self.points[place].potential:
                self.points[place] = point

    def _known(self, point: StationaryPoint) -> int | None:
        for place, other in enumerate(self.points):
            if abs(point.potential - other.potential) > MERGE * self.temperature:
                continue
            distance = float(np.linalg.norm(point.position - other.position))
            if distance < 1e-3 * (1 + float(np.linalg.norm(other.position))):
                between = self.surface.values(0.5 * (point.position + other.position)[None])[
                    "potential"
                ][0]
                if between - max(point.potential, other.potential) < MERGE * self.temperature:
                    return place
            if point.kind == other.kind == "valley":
                curvature = max(point.largest, other.largest)
                limit = MERGE * self.temperature
                way = connect(
                    self.surface,
                    other.position,
                    point.position,
                    curvature=curvature,
                    enough=0.5 * limit,
                )
                if min(way.linear_barrier, way.relaxed_barrier) < limit:
                    return place
        return None


def _next_starts(
    minima: _StationaryPoints,
    legs: list[np.ndarray],
    last: list[np.ndarray],
    count: int,
    directions: str,
) -> list[np.ndarray]:
    chosen = [
        minima.points[i].position
        for i in np.argsort(minima.times, kind="stable")[: max(1, count // 2)]
    ]
    cloud = np.concatenate(legs)
    cloud = cloud[:: -(-len(cloud) // (_CLOUD if directions == "covariance" else _CLOUD // 4))]
    known = np.array([*(point.position for point in minima.points), *last, *chosen])
    coordinates = _coordinates(np.concatenate([cloud, known]), directions)
    points = coordinates[: len(cloud)]
    marks = coordinates[len(cloud) :]
    often = sum(times > 10 for times in minima.times)
    nearest_distance = np.min(np.linalg.norm(points[:, None] - marks[None], axis=2), axis=1)
    if 0 < often < len(minima.points):
        # Pruned: what lies nearest to a bottom that was found many times, while others were not.
        bottoms = np.array([point.position for point in minima.points])
        # One bottom at a time: all differences at once are gigabytes for networks.
        owner = np.argmin([np.linalg.norm(cloud - bottom, axis=1) for bottom in bottoms], axis=0)
        pruned = np.array(minima.times)[owner] > 10
        nearest_distance = np.where(pruned & (not pruned.all()), 0.0, nearest_distance)
    while len(chosen) < count:
        place = int(np.argmax(nearest_distance))
        chosen.append(cloud[place])
        nearest_distance = np.minimum(
            nearest_distance, np.linalg.norm(points - points[place], axis=1)
        )
    return chosen


def _coordinates(points: np.ndarray, directions: str) -> np.ndarray:
    away = points - points.mean(axis=0)
    count = min(_COORDINATES, *away.shape)
    if directions == "diffusion_map" and len(points) > 20:
        # Clouds that no kernel joins have no distance by diffusion; the covariance still sees them.
        with suppress(InputError):
            return diffusion_map(points, min(4, len(points) - 2)).coordinates
    _, values, vectors = np.linalg.svd(away, full_matrices=False)
    return away @ vectors[:count][values[:count] > 1e-9 * max(values[0], 1e-300)].T


def _connect(surface, points: list[StationaryPoint], until: float, say: Callable[[str], None]):
    paths: dict[tuple[int, int], Path] = {}
    pairs = sorted(
        ((i, j) for j in range(len(points)) for i in range(j)), key=lambda pair: (pair[1], pair[0])
    )
    began = time.monotonic()
    due = began + FIRST_SECONDS
    for number, (i, j) in enumerate(pairs):
        if time.monotonic() > until:
            say(f"barriers: out of time after {number} of {len(pairs)} pairs")
            break
        # The curvature of a descent that was cut short is unknown: nan.
        curvature = float(np.nanmax([points[i].largest, points[j].largest, 1e-300]))
        paths[i + 1, j + 1] = connect(
            surface,
            points[i].position,
            points[j].position,
            curvature=curvature if curvature > 1e-300 else 1.0,
            until=until,
        )
        now = time.monotonic()
        if now >= due:
            due = now + LINE_SECONDS
            left = (len(pairs) - number - 1) * (now - began) / (number + 1)
            left = min(left, max(0.0, until - now))
            say(f"barriers: {number + 1} of {len(pairs)} pairs, {_duration(left)} left")
    return dict(sorted(paths.items()))


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _tables(minima: _StationaryPoints, order, paths, legs, rounds: int, reason: str) -> Exploration:
    points = [minima.points[i] for i in order]
    positions = np.array([point.position for point in points])
    rows = [
        (
            k + 1,
            point.kind,
            point.potential,
            point.loss,
            point.gradient_norm,
            point.index,
            point.num_flat,
            point.smallest,
            point.largest,
            point.ln_volume,
            float(np.linalg.norm(point.position - positions[0])),
            minima.times[i],
            minima.rounds[i],
        )
        for k, (i, point) in enumerate(zip(order, points, strict=True))
    ]
    names = [
        "number",
        "kind",
        "potential",
        "loss",
        "gradient_norm",
        "hessian_index",
        "num_flat",
        "smallest",
        "largest",
        "ln_volume",
        "distance",
        "times_found",
        "round",
    ]
    pairs = [
        (
            *pair,
            float(np.linalg.norm(positions[pair[0] - 1] - positions[pair[1] - 1])),
            way.linear_barrier,
            way.relaxed_barrier,
            way.residual,
        )
        for pair, way in paths.items()
    ]
    columns = ["first", "second", "distance", "linear_barrier", "relaxed_barrier", "residual"]
    frame = pandas.DataFrame(rows, columns=names)
    barriers = pandas.DataFrame(pairs, columns=columns)
    return Exploration(
        minima=frame,
        positions=positions,
        barriers=barriers,
        paths=paths,
        legs=legs,
        num_rounds=rounds,
        reason=reason,
    )


def _write(folder: File, result: Exploration) -> None:
    for name, frame in (
        ("minima", result.minima),
        ("barriers", result.barriers),
        ("tree", disconnectivity(result)),
    ):
        write_whole(folder / f"{name}.csv", frame_text(frame))
    rows = [
        pandas.DataFrame(
            {
                "first": i,
                "second": j,
                "place": way.place,
                "linear": way.linear,
                "relaxed": way.relaxed,
            }
        )
        for (i, j), way in result.paths.items()
    ]
    if rows:
        write_whole(folder / "paths.csv", frame_text(pandas.concat(rows)))
    with replacing(folder / "minima.npz") as file:
        np.savez(file, parameters=result.positions)


def _check(plan: _Plan, num_processes: int) -> None:
    numbers = {
        "num_steps": plan.num_steps,
        "num_legs": plan.num_legs,
        "num_candidates": plan.num_candidates,
        "max_rounds": plan.max_rounds,
        "patience": plan.patience,
    }
    for name, value in numbers.items():
        refuse_if(value < 1, f"{name} is out of range.", value, "at least 1")
    heats = plan.heats
    refuse_if(
        not len(heats) or min(heats) <= 0, "heats are out of range.", list(heats), "numbers above 0"
    )
    directions = plan.directions
    problem = f"directions has an unknown value.{nearest(directions, DIRECTIONS)}"
    refuse_if(directions not in DIRECTIONS, problem, directions, " or ".join(DIRECTIONS))
    refuse_if(num_processes < 0, "num_processes is out of range.", num_processes, "0 or more")
    max_time = plan.max_time
    refuse_if(
        max_time is not None and not max_time > 0,
        "max_time is out of range.",
        max_time,
        "seconds above 0",
    )
