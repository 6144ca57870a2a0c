"""Exploration: short trajectories (legs) from known minima, descents along them, new legs from
unseen regions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path as File
from typing import Any

import numpy as np
import pandas

from tati_re.analysis.diffusion_map import diffusion_map
from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_input import check_seed
from tati_re.engine.progress import FIRST_SECONDS, LINE_SECONDS
from tati_re.exploration.descent import StationaryPoint
from tati_re.exploration.jobs import Job, JobResult, Pool, system_of
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
    _check(num_steps, num_legs, heats, num_candidates, max_rounds, patience, directions)
    refuse_if(num_processes < 0, "num_processes is out of range.", num_processes, "0 or more")
    refuse_if(
        max_time is not None and not max_time > 0,
        "max_time is out of range.",
        max_time,
        "seconds above 0",
    )
    began = time.monotonic()
    limit = float("inf") if max_time is None else max_time
    say = say or (lambda _: None)
    system = system_of(source, step_size, friction)
    if temperature is not None:
        system.temperature = float(temperature)
    surface = system.surface
    if start is None:
        start = system.trajectories.start
    refuse_if(start is None, "start is missing.", expected="parameters to start from")
    start = np.asarray(start, np.float64)
    folder = None if output is None else File(output)
    if seed is None:
        counted = folder is None and isinstance(system.trajectories, ModelTrajectories)
        seed = system.trajectories.next_seed() if counted else 0
    check_seed(seed)
    if folder is not None:
        specification = {
            "num_steps": num_steps,
            "num_legs": num_legs,
            "heats": list(heats),
            "num_candidates": num_candidates,
            "directions": directions,
            "temperature": system.temperature,
            "seed": seed,
            "digest": digest(
                [
                    surface.identity,
                    system.trajectories.identity,
                    start,
                    np.zeros(0) if path is None else np.asarray(path),
                ]
            ),
        }
        open_folder(folder, SPECIFICATION, specification, "exploration")
    made = (
        partial(system_of, source, step_size, friction)
        if isinstance(source, (dict, FunctionPotential))
        else None
    )
    pool = Pool(system=system, folder=folder, seed=seed, num_processes=num_processes, made=made)
    minima = _StationaryPoints(surface, system.temperature)
    most = 1 + num_legs * (max_rounds - 1)

    reports = _Reports(say, most, num_candidates, began + 0.8 * limit)
    legs: list[np.ndarray] = []
    starts = [start]
    quiet = 0
    number = 0
    rounds = 0
    reason = f"the {max_rounds} rounds were done"
    out_of_time = False
    try:
        for turn in range(1, max_rounds + 1):
            jobs = []
            for k, begin in enumerate(starts):
                number += 1
                heat = heats[(turn - 1 + k) % len(heats)] * 2.0**quiet
                start_path = (
                    np.asarray(path, np.float64)
                    if path is not None and turn == 1 and k == 0
                    else None
                )
                jobs.append(
                    Job(
                        number=number,
                        start=begin,
                        temperature=heat * system.temperature,
                        num_steps=num_steps,
                        num_candidates=num_candidates,
                        path=start_path,
                    )
                )
            results = pool.run(jobs, began + 0.8 * limit, reports.leg_done, reports.advanced)
            rounds = turn
            before = len(minima.points)
            for done in results:
                legs.append(done.positions)
                minima.add(done, turn)
            fresh = len(minima.points) - before
            say(f"round {turn}: {len(jobs)} legs, {fresh} new, {len(minima.points)} in all")
            if time.monotonic() - began > 0.8 * limit:
                reason = f"the {max_time:g} seconds are used up"
                out_of_time = True
                break
            quiet = 0 if fresh else quiet + 1
            if quiet >= patience:
                reason = f"{patience} rounds without a new minimum"
                break
            starts = _next_starts(minima, legs, [*starts], num_legs, directions)
    finally:
        pool.close()
    order = np.argsort([point.potential for point in minima.points], kind="stable")
    paths = _connect(surface, [minima.points[i] for i in order[:num_connected]], began + limit, say)
    if len(minima.points) > 10 and max(minima.times) == 1 and num_candidates > 1:
        reason += "; no minimum was found twice: there are many more than these"
    out_of_time = out_of_time or time.monotonic() > began + limit
    result = _tables(minima, order, paths, legs, rounds, reason)._replace(out_of_time=out_of_time)
    if folder is not None:
        _write(folder, result)
    return result


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
        progress = f"leg {self._legs + 1}: {part} of {self._parts_of_leg} parts (leg and descents)"
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
        summary = f"leg {job.number}: {len(ends)} descents in {seconds:.3g} s"
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
        return f"at most {legs} more legs, {_duration(seconds)} left"


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


def _check(num_steps, num_legs, heats, num_candidates, max_rounds, patience, directions) -> None:
    numbers = {
        "num_steps": num_steps,
        "num_legs": num_legs,
        "num_candidates": num_candidates,
        "max_rounds": max_rounds,
        "patience": patience,
    }
    for name, value in numbers.items():
        refuse_if(value < 1, f"{name} is out of range.", value, "at least 1")
    refuse_if(
        not len(heats) or min(heats) <= 0, "heats are out of range.", list(heats), "numbers above 0"
    )
    problem = f"directions has an unknown value.{nearest(directions, DIRECTIONS)}"
    refuse_if(directions not in DIRECTIONS, problem, directions, " or ".join(DIRECTIONS))
