"""Simulations that take turns, each with a potential that reads where the others are."""

import os
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.backend import deterministic, tf
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.process.interruption import interruptible
from tati_re.core.user_input import as_array
from tati_re.engine.driver import Outcome
from tati_re.engine.loop import Carry
from tati_re.launch.automatic_choices import is_open, prepared
from tati_re.launch.calls import Calls
from tati_re.launch.checks import check_request
from tati_re.launch.goal import with_goal
from tati_re.launch.launch import Launch, started
from tati_re.launch.request import make_request
from tati_re.launch.resume import reopened
from tati_re.launch.run import Run
from tati_re.runs import checkpoint, manifest, run_folder
from tati_re.simulation.simulation import Simulation

_OF_ONE = ("num_steps", "output", "workers", "control_variate", "bias", "tensorboard")
"""Options that a player of a game cannot have."""


def _check(folder: Any, *counts: Any) -> None:
    are_counts = all(isinstance(count, int | np.integer) and count >= 1 for count in counts)
    refuse_if(
        not are_counts, "num_rounds and steps must be integers of 1 or more.", counts, "1 or more"
    )
    refuse_if(
        not isinstance(folder, str | os.PathLike | None),
        "output is not a path.",
        folder,
        "a folder",
    )


def _check_options(name: str, sim: Simulation) -> None:
    for option in sim.options.explicit & {*_OF_ONE}:
        refuse_if(
            getattr(sim.options, option), f"{option}: {name} is a player of a game.", option, "none"
        )


@front_doors
class Player:
    """The positions of one simulation in a game, for use in the potentials of the other players.

    Args:
        start: The positions before the game begins, `(walkers, parameters)`, in the precision of
            the simulation.
    """

    def __init__(self, start: Any) -> None:
        self._start = as_array(start, "start", numbers=True)
        self._now = tf.Variable(self._start, trainable=False)

    @property
    def positions(self) -> Any:
        """Positions of the walkers at the target temperature, `(walkers, parameters)`, as a tensor.

        In compiled functions it always holds the current positions.
        """
        return self._now.read_value()

    def _follow(self, launch: Launch, carry: Carry) -> None:
        self._now.assign(np.array(carry.state.position)[launch.there(carry)])


@front_doors
class Game:
    """Simulations that take turns, each with a potential that depends on the positions of the
    others.

    The potentials read `Player.positions`. In every round each player takes its steps with U and ∇U
    at the current positions of the other players.

    If there is a joint distribution whose conditionals are exp(-U/T) of each player, the game
    samples it by alternating conditionals (Gibbs sampling). This is exact for turns of any length,
    as far as the samplers are exact. The others see the walkers at the target temperature of a
    player. The hotter replicas of its ladder lag behind by one turn, an effect that vanishes for
    long turns. Without a joint distribution (generator and discriminator) the game is a dynamics
    without a known target.

    Args:
        **players: A `Player` and its `Simulation` by name, in the order of their turns. Each
            simulation has its own sampler, ladder, batches, walkers and recording intervals.

    Raises:
        InputError: There are fewer than two players, shapes do not fit, or a player has an option
            that games do not support.

    Examples:
        >>> x, y = Player(np.zeros((1, 1))), Player(np.zeros((1, 1)))
        >>> near = lambda other: lambda here: tf.reduce_sum((here - 0.5 * other.positions) ** 2, -1) / 1.5
        >>> own = {"dimension": 1, "sampler": "HMC", "step_size": 0.5, "record_every": 5, "verbose": 0}
        >>> first, second = Simulation(potential=near(y), **own), Simulation(potential=near(x), **own)
        >>> runs = Game(x=(x, first), y=(y, second)).sample(num_rounds=4, steps={"x": 5, "y": 10})
        >>> len(runs["x"].run_info), len(runs["y"].run_info)
        (4, 8)
    """

    def __init__(self, **players: tuple[Player, Simulation]) -> None:
        refuse_if(
            len(players) < 2,
            "players: a game needs at least two.",
            len(players),
            "x=(player, simulation), ...",
        )
        self.players = players
        for name, pair in players.items():
            match pair:
                case (Player() as player, Simulation() as sim):
                    pass
                case _:
                    raise InputError(
                        f"{name} is not a player of a game.",
                        pair,
                        f"{name}=(a Player, its Simulation)",
                    )
            is_so = player.positions
            position = sim.walkers.position
            expected = f"{position.shape} of {position.dtype}"
            received = f"{tuple(is_so.shape)} of {is_so.dtype.name}"
            refuse_if(
                received != expected,
                f"{name}: the player belongs to another simulation.",
                received,
                expected,
            )
            _check_options(name, sim)

    def sample(
        self, num_rounds: int, steps: int | Mapping[str, int] = 1, output: AnyPath | None = None
    ) -> dict[str, Run]:
        """Plays a number of rounds; the walkers stay where they arrive.

        Args:
            num_rounds: Number of turns of each player, at least 1.
            steps: Steps per turn, one number for all players or a number by name. Default: 1.
            output: A folder, in which each player gets a run folder under its name. Default:
                temporary folders.

        Returns:
            The runs of all players by name.

        Raises:
            InputError: An argument is invalid. Nothing has been computed yet.
            SamplingError: A player diverged. Everything before that is on disk.
        """
        turns = steps if isinstance(steps, Mapping) else dict.fromkeys(self.players, steps)
        requests = []
        refuse_if(
            {*turns} != {*self.players},
            "steps: one number for each player is needed.",
            ", ".join(turns),
            ", ".join(self.players),
        )
        _check(output, num_rounds, *turns.values())
        calls = Calls(
            *(sim.calls for _, sim in self.players.values())
        )  # of one seed, each has noise of its own
        for name, (player, sim) in self.players.items():
            _check_options(name, sim)  # which may be others by now
            player._now.assign(sim.walkers.position)
            sim.calls = calls
            folder = None if output is None else os.fspath(Path(output) / name)
            options, objects = sim._for_call(
                {"num_steps": num_rounds * turns[name], "output": folder}
            )
            unnamed = options.until is not None or is_open(options, objects)
            refuse_if(
                unnamed,
                f"until: a game ends after num_rounds, but {name} has until.",
                options.until,
                "a sampler by name",
            )
            options = calls.next("sample", options)
            options = with_goal(options, objects, sim.system, placed=True)
            options, _ = prepared(sim, options, objects, sim.limits, places_walkers=False)
            limits = replace(sim.limits, most_steps=turns[name])
            requests.append(make_request("sample", options, objects, sim.system, limits))
            check_request(requests[-1])
        with ExitStack() as stack, ExitStack() as failing:
            launched: list[Any] = []
            for (name, (_, sim)), request in zip(self.players.items(), requests, strict=True):
                launched.append(
                    stack.enter_context(started(request, sim.walkers, sim.calls, bool(launched)))
                )
                where = launched[-1][0].folder
                failing.callback(
                    run_folder.clear, where
                )  # of a game whose other players do not start
                manifest.note(where, turn=turns[name])
            failing.pop_all()
            return self._played(launched, num_rounds)

    def resume(self, folder: AnyPath, num_rounds: int) -> dict[str, Run]:
        """Resumes the game in a folder, as if it had never stopped.

        Use the same simulations as before.

        Args:
            folder: The folder of the game.
            num_rounds: The new total number of rounds.

        Returns:
            The runs of all players by name.
        """
        _check(folder, num_rounds)
        where = {name: Path(folder) / name for name in self.players}
        turns = {name: manifest.read(at).turn or 0 for name, at in where.items()}
        refuse_if(
            not all(turns.values()),
            "resume: this is not a game.",
            os.fspath(folder),
            "a folder of Game.sample",
        )
        rounds = {
            name: next(checkpoint.metas(at), {}).get("step", 0) // turns[name]
            for name, at in where.items()
        }
        with ExitStack() as stack:
            launched: list[Any] = []
            for player, _ in self.players.values():
                player._now.assign(
                    player._start
                )  # a fingerprint is that of the potential at the start
            for name, (_, sim) in self.players.items():
                if rounds[name] > min(rounds.values()):  # a kill came between two checkpoints
                    checkpoint.step_back(where[name])
                overrides = sim.objects | sim.options.values_of(("verbose", "max_time"))
                limits = replace(sim.limits, most_steps=turns[name])
                last = num_rounds * turns[name]
                launched.append(
                    (
                        *reopened(stack, where[name], last, True, overrides, limits, turns[name]),
                        None,
                    )
                )
            runs = self._played(launched, num_rounds)
        for (_, sim), (launch, *_) in zip(self.players.values(), launched, strict=True):
            sim.walkers = launch.walkers
        return runs

    def _played(self, launched: list[Any], rounds: int) -> dict[str, Run]:
        launches = [launch for launch, *_ in launched]
        carries = [carry for _, carry, _ in launched]
        turns = [launch.request.options.num_steps // rounds for launch in launches]
        lead = launches[0]
        players = [player for player, _ in self.players.values()]
        drivers = [launch.driver for launch in launches]
        plans = [driver.plan for driver in drivers]
        began = time.monotonic()
        most = min(
            (plan.max_time for plan in plans if plan.max_time is not None), default=float("inf")
        )
        every = min(plan.checkpoint_seconds for plan in plans)
        saved = began
        outcome = Outcome.FINISHED

        def flush() -> None:
            for driver, carry in zip(drivers, carries, strict=True):
                driver.flush(carry)

        for player, launch, carry in zip(players, launches, carries, strict=True):
            player._follow(launch, carry)
        lead.progress.start(
            plans[0].num_steps, lead.driver.step, lead.driver.loop.method.name, len(players)
        )
        notice = f"Game.resume goes on with the last checkpoint of {lead.folder.parent}."
        with deterministic(), interruptible(lambda: notice, plans[0].requeue_signal) as interrupted:
            try:
                while lead.driver.step < plans[0].num_steps:
                    now = time.monotonic()
                    if interrupted() or now - began >= most:
                        outcome = Outcome.INTERRUPTED if interrupted() else Outcome.OUT_OF_TIME
                        break
                    if now - saved >= every:
                        flush()
                        saved = now
                    for k, launch in enumerate(launches):
                        carries[k] = launch.guarded(
                            lambda k=k: drivers[k].turn(carries[k], turns[k])
                        )
                        players[k]._follow(launch, carries[k])
                flush()
                lead.driver.signal = interrupted()
            finally:
                for driver, (_, sim) in zip(drivers, self.players.values(), strict=True):
                    driver.close()
                    sim._forget()
        ended = {}
        for name, (launch, _, folder), carry in reversed(
            [*zip(self.players, launched, carries, strict=True)]
        ):
            ended[name] = launch.finish(
                carry, folder, outcome
            )  # the first one last: it may stop the process
        return {name: ended[name] for name in self.players}
