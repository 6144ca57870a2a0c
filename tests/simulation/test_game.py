"""Players that take turns: the joint law of alternating conditionals in closed form, resumed games,
mini-batches.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import tati_re
from tati_re.core.backend import keras, tf
from tati_re.engine.loop import Loop
from tati_re.runs import checkpoint
from tati_re.simulation import game as module

COORDINATES = 400
A, B, C, LINEAR = 2.0, 1.0, 0.4, 0.5
"""U = sum over walkers of A x²/2 + LINEAR x and of B y²/2, minus C x y for each pair: for each
coordinate a Gaussian of all walkers of both players.
"""


def expected(num_x: int, num_y: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the x and y of one coordinate."""
    precision = np.diag([A] * num_x + [B] * num_y)
    precision[:num_x, num_x:] = precision[num_x:, :num_x] = -C
    covariance = np.linalg.inv(precision)
    return covariance @ -np.repeat([LINEAR, 0.0], [num_x, num_y]), covariance


def game(num_x: int = 2, num_y: int = 3, seed: int = 1, apart: int = 1, **options) -> tati_re.Game:
    starts = [np.zeros((count, COORDINATES)) for count in (num_x, num_y)]
    x, y = map(tati_re.Player, starts)

    def of_x(here):
        pull = LINEAR - C * tf.reduce_sum(y.positions, 0)
        return tf.reduce_sum(A * here**2 / 2 + pull * here, -1)

    def of_y(here):
        return tf.reduce_sum(B * here**2 / 2 - C * tf.reduce_sum(x.positions, 0) * here, -1)

    own = {
        "dimension": COORDINATES,
        "sampler": "BAOAB",
        "step_size": 0.7,
        "record_every": 5,
        "trajectory_every": 5,
    }
    own |= {"verbose": 0, "execution": "graph"} | options
    first = tati_re.Simulation(
        potential=of_x, num_walkers=num_x, parameters=starts[0], seed=seed, **own
    )
    own |= {"temperatures": None} if "temperatures" in own else {}
    second = tati_re.Simulation(
        potential=of_y, num_walkers=num_y, parameters=starts[1], seed=seed + apart, **own
    )
    return tati_re.Game(x=(x, first), y=(y, second))


def deviations(
    runs: dict[str, tati_re.Run], num_x: int, num_y: int, burnin: int = 10
) -> np.ndarray:
    """Errors of mean and covariances in standard errors, which the independent coordinates tell."""
    found = []
    for name, count in (("x", num_x), ("y", num_y)):
        columns = runs[name].trajectory.filter(like="x[").to_numpy()
        found.append(columns.reshape(-1, count, COORDINATES)[burnin:])
    both = np.concatenate(found, axis=1)
    mean, covariance = expected(num_x, num_y)
    centered = both - mean[:, None]
    values = [
        centered.mean(0),
        np.einsum("tid,tjd->ijd", centered, centered) / len(both) - covariance[..., None],
    ]
    values = np.concatenate([value.reshape(-1, COORDINATES) for value in values])
    return values.mean(1) / (values.std(1) / COORDINATES**0.5)


def test_two_players_sample_their_joint_gaussian(tmp_path):
    """All walkers of one see all of the other; errors of 1 % of a variance would be found. The game
    stops half way.
    """
    game().sample(num_rounds=60, steps=5, output=tmp_path)
    runs = game().resume(tmp_path, num_rounds=120)
    assert np.abs(deviations(runs, 2, 3)).max() < 5.5


def test_players_of_one_seed_have_noise_of_their_own_in_each_game():
    """The same noise for both would make their covariance too large by half."""
    one = game(1, 1, apart=0)
    runs = [one.sample(num_rounds=40, steps=5) for _ in range(2)]
    assert [run.manifest["options"].get("call", 1) for both in runs for run in both.values()] == [
        1,
        2,
        3,
        4,
    ]
    assert all(np.abs(deviations(both, 1, 1)).max() < 5.5 for both in runs)
    sims = {name: sim for name, (_, sim) in one.players.items()}
    assert [sims[name].sample(num_steps=2).manifest["call"] for name in ("y", "x")] == [5, 6]
    again = tati_re.Game(**one.players).sample(num_rounds=1)
    assert [run.manifest["call"] for run in again.values()] == [7, 8]


def test_a_partner_that_goes_far_is_no_divergence():
    """U = (x - y)²/2 + (y - 1000)²/2 for each of three coordinates: x and y have mean 1000 and
    variances 2 and 1. What the one does to U of the other is a hundred times what a run of one can
    come to.
    """
    x, y = map(tati_re.Player, (np.zeros((1, 3)), np.zeros((1, 3))))

    def apart(other):
        return lambda here: tf.reduce_sum((here - other.positions) ** 2, -1) / 2

    def pulled(here):
        return apart(x)(here) + tf.reduce_sum((here - 1000) ** 2, -1) / 2

    own = {"dimension": 3, "sampler": "BAOAB", "step_size": 0.7, "verbose": 0, "execution": "graph"}
    first, second = (
        tati_re.Simulation(potential=apart(y), **own),
        tati_re.Simulation(potential=pulled, **own),
    )
    tati_re.Game(x=(x, first), y=(y, second)).sample(num_rounds=60, steps=10)
    assert abs(first.parameters - 1000).max() < 8 and abs(second.parameters - 1000).max() < 6


def test_a_game_without_a_sampler_is_refused_and_moves_no_walker():
    x, y = tati_re.Player(np.zeros((1, 1))), tati_re.Player(np.zeros((1, 1)))
    own = {
        "potential": lambda here: tf.reduce_sum((here - y.positions) ** 2, -1),
        "dimension": 1,
        "verbose": 0,
    }
    sims = [tati_re.Simulation(**own) for _ in range(2)]
    both = tati_re.Game(x=(x, sims[0]), y=(y, sims[1]))
    with pytest.raises(
        tati_re.InputError,
        match=r"until: a game ends after num_rounds, but x has until. Expected: a sampler",
    ):
        both.sample(num_rounds=2)
    for sim in sims:
        sim.set_options(sampler="HMC", step_size=0.5)
    assert both.sample(num_rounds=2)["x"].manifest["options"]["num_walkers"] == 1


def test_bad_games_are_refused():
    own = {
        "potential": lambda x: tf.reduce_sum(x**2, -1),
        "dimension": 2,
        "sampler": "HMC",
        "verbose": 0,
    }
    sim, player = tati_re.Simulation(**own), tati_re.Player(np.zeros((1, 2)))
    with pytest.raises(tati_re.InputError, match="at least two"):
        tati_re.Game(x=(player, sim))
    with pytest.raises(tati_re.InputError, match="belongs to another simulation"):
        tati_re.Game(x=(player, sim), y=(tati_re.Player(np.zeros((1, 3))), sim))
    with pytest.raises(tati_re.InputError, match="num_steps: y is a player"):
        tati_re.Game(x=(player, sim), y=(player, tati_re.Simulation(num_steps=5, **own)))
    both = tati_re.Game(x=(player, sim), y=(player, sim))
    with pytest.raises(tati_re.InputError, match="one number for each player is needed"):
        both.sample(num_rounds=2, steps={"x": 1})
    for counts in (
        {"num_rounds": 2, "steps": 0},
        {"num_rounds": "3"},
        {"num_rounds": 1.5},
        {"num_rounds": 2, "steps": "2"},
    ):
        with pytest.raises(tati_re.InputError, match="integers of 1 or more"):
            both.sample(**counts)
    with pytest.raises(tati_re.InputError, match="output is not a path"):
        both.sample(num_rounds=2, output=3)
    with pytest.raises(tati_re.InputError, match="not a player of a game"):
        tati_re.Game(x=(player, sim), y=(sim, player))
    sim.set_options(workers=1)
    with pytest.raises(tati_re.InputError, match="workers: x is a player of a game"):
        both.sample(num_rounds=2)


def test_of_a_game_that_does_not_start_nothing_is_left(tmp_path):
    """The second player does not start: the first one's folder is no obstacle to the same call."""
    (tmp_path / "y").mkdir()
    (tmp_path / "y" / "own.txt").touch()
    with pytest.raises(
        tati_re.InputError, match=f"The output folder {tmp_path / 'y'} is not empty"
    ):
        game().sample(num_rounds=2, output=tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["y", "own.txt"]
    (tmp_path / "y" / "own.txt").unlink()
    assert game().sample(num_rounds=2, output=tmp_path)["x"].exit_status == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [{"sampler": "HMC", "step_size": 0.2, "num_leapfrog_steps": 4}, {"execution": "xla"}]
)
def test_other_samplers_and_executions_do_so_too(options):
    runs = game(1, 2, **options).sample(num_rounds=150, steps=5)
    assert np.abs(deviations(runs, 1, 2)).max() < 5.5


@pytest.mark.slow
def test_a_ladder_does_so_too():
    """Its swaps are frequent and its turns are long; a position is that of the end of a turn."""
    options = {
        "sampler": "HMC",
        "step_size": 0.2,
        "num_leapfrog_steps": 4,
        "temperatures": [1.0, 1.05],
    }
    runs = game(1, 1, exchange_every=2, trajectory_every=10, **options).sample(
        num_rounds=150, steps=10
    )
    assert runs["x"].ladder.acceptance.iloc[0] > 0.3
    assert np.abs(deviations(runs, 1, 1)).max() < 5.5


@pytest.mark.slow
def test_a_partner_of_the_round_before_is_found(monkeypatch):
    """Both move at once: of a pair of walkers, the covariance of a round vanishes."""
    waiting = {}

    def late(self, launch, carry):
        if id(self) in waiting:
            self._now.assign(waiting[id(self)])
        waiting[id(self)] = np.array(carry.state.position)[launch.there(carry)]

    monkeypatch.setattr(module.Player, "_follow", late)
    runs = game(1, 1).sample(num_rounds=120, steps=5)
    assert np.abs(deviations(runs, 1, 1)).max() > 10


@pytest.mark.slow
def test_forces_of_a_turn_before_are_found(monkeypatch):
    """Turns of one step, whose first half of a kick would be at where the partner was."""
    options = {"record_every": 1, "trajectory_every": 1}
    runs = game(1, 1, **options).sample(num_rounds=200, steps=1)
    assert np.abs(deviations(runs, 1, 1, 40)).max() < 5.5
    monkeypatch.setattr(Loop, "evaluated", lambda self, carry, batch: carry)
    runs = game(1, 1, **options).sample(num_rounds=200, steps=1)
    assert np.abs(deviations(runs, 1, 1, 40)).max() > 10


def same_bytes(first, second) -> list[str]:
    names = [
        f"{player}/{name}" for player in ("x", "y") for name in sorted(os.listdir(first / player))
    ]
    names = [name for name in names if name.endswith(".csv") and not name.endswith("timing.csv")]
    assert len(names) > 5
    return [name for name in names if (first / name).read_bytes() != (second / name).read_bytes()]


@pytest.mark.slow
def test_a_game_is_resumed_byte_for_byte_also_from_checkpoints_of_two_rounds(tmp_path, monkeypatch):
    options = {"temperatures": [1.0, 1.05], "exchange_every": 2, "checkpoint_seconds": 1e-9}
    game(**options).sample(num_rounds=12, steps={"x": 4, "y": 2}, output=tmp_path / "whole")
    saved, save = [], checkpoint.save

    def killed(folder, arrays, meta):
        saved.append(meta["step"])
        if len(saved) == 12:
            raise KeyboardInterrupt
        save(folder, arrays, meta)

    monkeypatch.setattr(checkpoint, "save", killed)
    with pytest.raises(KeyboardInterrupt):
        game(**options).sample(num_rounds=12, steps={"x": 4, "y": 2}, output=tmp_path / "killed")
    monkeypatch.setattr(checkpoint, "save", save)
    steps = [next(checkpoint.metas(tmp_path / "killed" / name))["step"] for name in "xy"]
    assert steps[0] // 4 == steps[1] // 2 + 1
    with pytest.raises(tati_re.InputError, match="player of a game"):
        tati_re.Simulation.resume(
            tmp_path / "killed" / "x", potential=lambda x: tf.reduce_sum(x**2, -1)
        )
    game(**options).resume(tmp_path / "killed", num_rounds=12)
    assert same_bytes(tmp_path / "whole", tmp_path / "killed") == []


class Shifted(keras.layers.Layer):
    """Adds the mean weight of another player to its inputs."""

    def __init__(self, other: tati_re.Player) -> None:
        super().__init__()
        self.read = lambda: other.positions

    def call(self, inputs):
        return inputs + tf.reduce_mean(self.read())


@pytest.mark.slow
def test_a_network_reads_the_weights_of_another_one_on_mini_batches(tmp_path):
    random = np.random.default_rng(1)
    data = (
        random.normal(size=(40, 1)).astype("float32"),
        random.normal(size=(40, 1)).astype("float32"),
    )

    def network_game() -> tati_re.Game:
        x, y = (
            tati_re.Player(np.zeros((2, 1), "float32")),
            tati_re.Player(np.ones((1, 1), "float32")),
        )
        own = {
            "batch_size": 8,
            "step_size": 0.05,
            "verbose": 0,
            "loss": "mse",
            "record_every": 1,
            "execution": "graph",
        }
        nets = []
        for other in (y, x):
            layers = [keras.Input((1,)), Shifted(other), keras.layers.Dense(1, use_bias=False)]
            nets.append(keras.Sequential(layers))
        first = {
            "sampler": "SGHMC",
            "friction": 1.0,
            "num_walkers": 2,
            "parameters": np.zeros((2, 1), "float32"),
        }
        ladder = {
            "sampler": "reSGHMC",
            "friction": 1.0,
            "temperatures": [1.0, 2.0],
            "exchange_batch_size": 8,
        }
        second = {**ladder, "parameters": np.ones(1, "float32")}
        sims = [
            tati_re.Simulation(net, data, **own, **more)
            for net, more in zip(nets, (first, second), strict=True)
        ]
        return tati_re.Game(x=(x, sims[0]), y=(y, sims[1]))

    runs = network_game().sample(num_rounds=6, steps=3, output=tmp_path)
    rows = runs["x"].run_info
    assert sorted(set(rows.step)) == list(range(1, 19))
    whole = runs["y"].run_info
    again = network_game().resume(tmp_path, num_rounds=8)["y"].run_info
    assert again[: len(whole)].equals(whole)
    assert again.step.max() == 24
