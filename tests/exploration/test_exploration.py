"""Descents, kinds of bottoms, barriers, and explorations that find all of them and go on after a
kill.
"""

import os
import signal
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import optimize

import tati_re
from tati_re.cli import explore as command
from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.exploration import (
    ExploredSystem,
    characterize,
    connect,
    descend,
    disconnectivity,
    explore,
    lowest_below,
)
from tati_re.exploration import jobs as jobs_module
from tati_re.exploration.explorer import _Reports
from tati_re.exploration.trajectories import (
    FunctionTrajectories,
    ModelTrajectories,
    candidates,
    num_positions,
)
from tati_re.landscape import Surface, scan
from tati_re.plotting.exploration import plot_disconnectivity, plot_exploration
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.priors import Gaussian
from tests.cluster.test_workers import alive

CENTRES = np.array([[0.0, 0.0], [3.0, 3.0], [3.0, -3.0], [-3.0, 3.0], [-3.0, -3.0]])


class Numpy:
    """A surface from U and its gradient, both of `(n, parameters)`; Hessians by central differences
    of the gradient.
    """

    dtype, points, identity, columns = "float64", 64, "NumPy", ("loss", "potential")

    def __init__(self, function, slope, num_parameters=2):
        self.function, self.slope, self.num_parameters = function, slope, num_parameters

    def values(self, positions):
        found = self.function(positions)
        return {"loss": found, "potential": found}

    def gradients(self, positions):
        return self.function(positions), self.slope(positions)

    def gradient(self, position):
        values, slopes = self.gradients(position[None])
        return float(values[0]), slopes[0]

    def hessian_product(self, position, vectors):
        rows = np.atleast_2d(vectors)
        found = (self.slope(position + 1e-5 * rows) - self.slope(position - 1e-5 * rows)) / 2e-5
        return found.reshape(np.shape(vectors))


def five_wells():
    """Minus the logarithm of five equal Gaussians of standard deviation 0.5."""

    def parts(x):
        away = x[:, None] - CENTRES
        exponent = -2 * np.sum(away**2, axis=2)
        top = exponent.max(axis=1, keepdims=True)
        weights = np.exp(exponent - top)
        return away, weights, -(top[:, 0] + np.log(weights.sum(axis=1)))

    def slope(x):
        away, weights, _ = parts(x)
        return 4 * np.sum(weights[..., None] * away, axis=1) / weights.sum(axis=1, keepdims=True)

    return Numpy(lambda x: parts(x)[2], slope)


def perceptron(prior=0.0):
    """One weight after another on (1, 1) and (-1, -1): U = (1 - s)^2 + prior |w|^2/2 with s = w1
    w2.
    """

    def slope(w):
        return -2 * (1 - w[:, :1] * w[:, 1:]) * w[:, ::-1] + prior * w

    return Numpy(lambda w: (1 - w[:, 0] * w[:, 1]) ** 2 + 0.5 * prior * np.sum(w**2, axis=1), slope)


def system(surface, temperature=1.0, step_size=0.05):
    return ExploredSystem(surface, FunctionTrajectories(surface, step_size), temperature)


def double_well():
    return Numpy(
        lambda x: (x[:, 0] ** 2 - 1) ** 2 + 2 * x[:, 1] ** 2,
        lambda x: np.stack([4 * x[:, 0] * (x[:, 0] ** 2 - 1), 4 * x[:, 1]], axis=1),
    )


def test_a_descent_ends_where_the_force_does():
    position, value, norm = descend(double_well(), np.array([0.4, 0.7]))
    np.testing.assert_allclose(position, [1, 0], atol=1e-6)
    assert value < 1e-12 and norm < 1e-6


def test_kinds():
    well = double_well()
    minimum = characterize(well, np.array([1.0, 0.0]), temperature=2.0)
    assert (minimum.kind, minimum.index, minimum.num_flat) == ("minimum", 0, 0)
    np.testing.assert_allclose([minimum.smallest, minimum.largest], [4, 8], rtol=1e-6)
    assert minimum.ln_volume == pytest.approx(0.5 * np.log((4 * np.pi) ** 2 / 32), rel=1e-6)
    saddle = characterize(well, np.zeros(2))
    assert (saddle.kind, saddle.index) == ("saddle", 1) and np.isnan(saddle.ln_volume)
    assert abs(lowest_below(well, np.array([0.0, 0.5])).position[0]) == pytest.approx(1, abs=1e-6)
    valley = characterize(perceptron(), np.array([2.0, 0.5]))
    assert (valley.kind, valley.num_flat) == ("valley", 1) and np.isnan(valley.ln_volume)
    assert (
        characterize(
            perceptron(0.02), lowest_below(perceptron(0.02), np.array([2.0, 0.5])).position
        ).kind
        == "minimum"
    )
    # A curvature of 0 alone makes no valley: on a quartic bottom U rises, if slowly.
    quartic = Numpy(
        lambda x: x[:, 0] ** 4 + x[:, 1] ** 2,
        lambda x: np.stack([4 * x[:, 0] ** 3, 2 * x[:, 1]], axis=1),
    )
    flat = characterize(quartic, np.zeros(2))
    assert (flat.kind, flat.num_flat) == ("minimum", 1)


def many(num_parameters=400):
    """A double well in the first coordinate, and springs from 1 to 10,000 in the others."""
    springs = np.logspace(0, 4, num_parameters - 1)

    def slope(x):
        return np.concatenate([4 * x[:, :1] * (x[:, :1] ** 2 - 1), springs * x[:, 1:]], axis=1)

    def function(x):
        return (x[:, 0] ** 2 - 1) ** 2 + 0.5 * np.sum(springs * x[:, 1:] ** 2, axis=1)

    return Numpy(function, slope, num_parameters)


def test_many_parameters():
    """Beyond 300 a descent is over within a thousandth of T, and Lanczos steps see both ends of the
    spectrum.
    """
    surface, generator = many(), np.random.default_rng(0)
    start = np.concatenate([[0.4], 0.1 * generator.standard_normal(399)])
    position, value, norm = descend(surface, start)
    assert position[0] == pytest.approx(1, abs=0.01) and 0 <= value < 1e-3 and norm < 0.3
    calls, product = [], surface.hessian_product
    surface.hessian_product = lambda *given: calls.append(1) or product(*given)
    found = characterize(surface, position)
    assert (found.kind, found.index, found.num_flat) == ("minimum", 0, 0) and len(calls) <= 300
    assert found.largest == pytest.approx(10_000, rel=1e-6) and found.smallest == pytest.approx(
        1, abs=0.1
    )
    saddle = np.concatenate([[0.0], 1e-3 * generator.standard_normal(399)])
    assert characterize(surface, np.zeros(400)).kind == "saddle"
    found = lowest_below(surface, saddle)
    assert (
        found.kind == "minimum"
        and abs(found.position[0]) == pytest.approx(1, abs=0.01)
        and found.potential < 1e-3
    )
    assert lowest_below(surface, start, max_steps=3).kind == "unfinished"
    assert [num_positions(P) for P in (2, 2_410, 79_510, 10**7)] == [200, 200, 50, 20]


def test_time_is_over(tmp_path, monkeypatch):
    """On a clock on which each leg takes three seconds; called again, the exploration goes on."""
    now, run = [0.0], ExploredSystem.run

    def timed(self, job, seed, advanced=None):
        done = run(self, job, seed, advanced)
        now[0] += 3.0
        return done._replace(is_cut=now[0] > job.until)

    monkeypatch.setattr(ExploredSystem, "run", timed)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    options = {
        "num_steps": 20,
        "num_legs": 3,
        "num_candidates": 2,
        "max_rounds": 3,
        "output": tmp_path / "a",
    }
    options["num_connected"] = 1
    monkeypatch.setattr("tati_re.exploration.descent.LANCZOS_STEPS", 10)
    said = []
    found = explore(
        system(many(310), step_size=0.01),
        np.eye(310)[0] * 0.5,
        max_time=10,
        say=said.append,
        **options,
    )
    assert found.reason == "the 10 seconds are used up" and len(found.legs) == 3
    legs = [text for text in said if text.startswith("leg ")]
    assert len(legs) == 1 and "leg 2: 2 descents in 3 s, U " in legs[0]
    assert "at most 5 more legs, 2 s left" in legs[0]
    # The third was cut short, and is not kept.
    assert len(list((tmp_path / "a" / "jobs").glob("*.npz"))) == 2
    more = explore(system(many(310), step_size=0.01), np.eye(310)[0] * 0.5, **options)
    assert len(more.legs) == 7
    for one, other in zip(found.legs, more.legs, strict=False):
        np.testing.assert_array_equal(one, other)
    with pytest.raises(InputError, match=r"^max_time is out of range. Received: 0"):
        explore(system(many(310)), np.zeros(310), max_time=0)


def test_the_parts_of_a_leg_are_counted(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    said: list[str] = []
    reports = _Reports(said.append, most=2, num_candidates=2, until=np.inf)
    for _ in range(3):
        now[0] += 60.0
        reports.advanced()
    assert said == [
        "leg 1: trajectory done; at most 1 more leg, 5 min left",
        "leg 1: 1 of 2 descents; at most 1 more leg, 4 min left",
        "leg 1: 2 of 2 descents; at most 1 more leg, 3 min left",
    ]
    one = _Reports(said.append, most=1, num_candidates=1, until=np.inf)
    now[0] += 60.0
    one.advanced()
    assert said[-1] == "leg 1: trajectory done; 60 s left"


@pytest.mark.parametrize("size", [3, 310])
def test_a_leg_and_its_descents_end_with_the_time(size, tmp_path, monkeypatch):
    """A leg of an hour, on a clock that each gradient moves on by a tenth of a second."""
    now, gradient = [0.0], Numpy.gradient

    def timed(self, position):
        now[0] += 0.1
        return gradient(self, position)

    monkeypatch.setattr(Numpy, "gradient", timed)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    potential, start = many(size), np.eye(size)[0] * 0.5
    asked = {"num_steps": 36_000, "num_legs": 3, "num_candidates": 4, "output": tmp_path / "a"}
    found = explore(system(potential, step_size=0.01), start, max_time=30, **asked)
    assert now[0] < 36 and found.out_of_time
    assert len(found.legs) == 1 and 1 < len(found.legs[0]) < 200
    assert len(found.minima) == 1 and found.minima["kind"][0] == "unfinished"
    assert np.isfinite(found.minima["potential"][0]) and found.paths == {}
    assert not list((tmp_path / "a" / "jobs").glob("*.npz"))


def test_legs_of_a_model_end_with_the_time():
    sim = tati_re.Simulation(data="two_clusters", hidden=[3], seed=1, dtype="float64", verbose=0)
    began = time.monotonic()
    explore(sim, num_steps=20, num_legs=1, num_candidates=1, max_rounds=1)
    least = time.monotonic() - began  # with compiling
    began = time.monotonic()
    found = explore(sim, num_steps=10**8, num_legs=1, num_candidates=1, max_time=2.0)
    assert time.monotonic() - began < 3.0 + 2.0 * least
    assert found.out_of_time and len(found.legs[0]) > 1 and len(found.minima) == 1


def test_a_descent_ends_with_the_time():
    surface = many(310)
    point = lowest_below(surface, np.full(310, 0.3), until=time.monotonic() - 1.0)
    assert point.kind == "unfinished" and np.isnan(point.smallest)
    assert point.potential <= surface.gradient(np.full(310, 0.3))[0]
    assert lowest_below(surface, np.full(310, 0.3), until=time.monotonic() + 1e6).kind == "minimum"


def test_barriers():
    way = connect(double_well(), np.array([-1.0, 0.0]), np.array([1.0, 0.0]), curvature=8.0)
    assert way.linear_barrier == pytest.approx(1) and way.relaxed_barrier == pytest.approx(
        1, abs=0.01
    )
    r = np.sqrt(0.99)
    way = connect(perceptron(0.02), np.array([-r, -r]), np.array([r, r]), curvature=4.0)
    assert way.relaxed_barrier == pytest.approx(1 - 0.0199, abs=0.01)
    wells = five_wells()
    way = connect(wells, CENTRES[1], CENTRES[2], curvature=4.0)
    # Around the corner by the middle well: its own barrier is (3/sqrt(2))^2 / (2 * 0.25) - ln 2.
    assert way.linear_barrier == pytest.approx(18 - np.log(3), abs=0.1)
    assert way.relaxed_barrier == pytest.approx(9 - np.log(2), abs=0.3)
    bent = connect(perceptron(), np.array([2.0, 0.5]), np.array([0.5, 2.0]), curvature=9.0)
    assert bent.linear_barrier > 0.1 and bent.relaxed_barrier < 0.01
    short = connect(
        perceptron(), np.array([2.0, 0.5]), np.array([0.5, 2.0]), curvature=9.0, enough=0.1
    )
    assert short.relaxed_barrier < 0.11


def test_a_place_where_u_is_no_number_is_a_barrier():
    """NaN between two wells was a barrier of 0."""

    def function(x):
        return np.where(np.abs(x[:, 0]) < 0.3, np.nan, (x[:, 0] ** 2 - 1) ** 2)

    surface = Numpy(function, lambda x: 4 * x * (x**2 - 1), 1)
    way = connect(surface, np.array([-1.0]), np.array([1.0]), curvature=8.0)
    assert way.linear_barrier == way.relaxed_barrier == np.inf and np.isinf(way.linear).any()


def test_a_folder_of_another_function_or_sampler_is_refused(tmp_path):
    """Each gave the numbers of the first."""
    functions = [lambda x: tf.reduce_sum(x**2, -1), lambda x: 100 + tf.reduce_sum((x - 1) ** 4, -1)]
    first, second = (FunctionPotential(function, 2) for function in functions)
    walled = FunctionPotential(functions[0], 2, prior=Gaussian(1.0))
    options = {"num_steps": 5, "max_rounds": 1, "num_candidates": 1, "output": tmp_path / "a"}
    found = explore(first, np.array([0.5, 0.5]), **options)
    for other in (second, walled):
        with pytest.raises(InputError, match="another"):
            explore(other, np.array([0.5, 0.5]), **options)
    again = explore(FunctionPotential(functions[0], 2), np.array([0.5, 0.5]), **options)
    np.testing.assert_array_equal(again.positions, found.positions)
    ranges = "-1:1:3", (0,)
    table = scan(Surface(first), np.zeros(2), np.eye(2)[:1], *ranges, output=tmp_path / "b").table
    with pytest.raises(InputError, match="another"):
        scan(Surface(second), np.zeros(2), np.eye(2)[:1], *ranges, output=tmp_path / "b")
    assert table.equals(
        scan(Surface(first), np.zeros(2), np.eye(2)[:1], *ranges, output=tmp_path / "b").table
    )

    def identity(**given):
        sim = tati_re.Simulation(
            data="two_clusters", hidden=[2], verbose=0, seed=1, sampler="HMC", **given
        )
        return ModelTrajectories(sim).identity

    plain = identity(num_leapfrog_steps=3)
    assert plain == identity(num_leapfrog_steps=3) != identity(num_leapfrog_steps=50)
    assert plain != identity(num_leapfrog_steps=3, mass="fan_in")
    assert "'batch_sampling': 'auto'" in identity(batch_size=50), (
        "as it was given, in explorations of before too"
    )


def ring(x):
    """Four wells on the unit circle, where U = -cos 4θ + .3 cos θ + .2 sin θ: straight ways between
    them cut across.
    """
    angle = tf.math.atan2(x[:, 1], x[:, 0])
    tilt = 0.3 * tf.cos(angle) + 0.2 * tf.sin(angle)
    return 5 * (tf.reduce_sum(x * x, -1) - 1) ** 2 - tf.cos(4 * angle) + tilt


@pytest.mark.slow
def test_the_tree_of_wells_on_a_circle(tmp_path):
    """Each joins a lower one at the lower of the two saddles beside it, found by the roots of
    dU/dθ; the paths are read off to 1e-3. Straight ways, the wrong passes, are higher by .8 at
    least.
    """
    slope = lambda angle: 4 * np.sin(4 * angle) - 0.3 * np.sin(angle) + 0.2 * np.cos(angle)  # noqa: E731
    at = [optimize.brentq(slope, near - 0.2, near + 0.2) for near in np.arange(-4, 4) * np.pi / 4]
    exact = ring(tf.stack([tf.cos(tf.constant(at)), tf.sin(tf.constant(at))], axis=1)).numpy()
    wells, saddles = np.sort(exact[::2]), np.sort(exact[1::2])
    start, options = (
        np.array([1.0, 0.0]),
        {"num_steps": 100, "num_candidates": 3, "max_rounds": 6, "temperature": 0.4},
    )
    found = explore(FunctionPotential(ring, 2), start, **options, output=tmp_path)
    tree = disconnectivity(found)
    np.testing.assert_allclose(tree["potential"], wells, atol=1e-6)
    # From -π on: well, saddle, well, ... in turn; the highest saddle of the circle joins nothing
    # any more.
    assert tree["joins"].tolist() == [0, 1, 1, 1]
    np.testing.assert_allclose(np.sort(tree["joins_at"][1:]), saddles[:3], atol=1e-3)
    np.testing.assert_allclose(tree["depth"][1:], tree["joins_at"][1:] - tree["potential"][1:])
    straight = found.barriers.assign(relaxed_barrier=found.barriers["linear_barrier"])
    assert (
        disconnectivity(found._replace(barriers=straight))["joins_at"][1:] > saddles[2] + 0.7
    ).all()
    assert pd.read_csv(tmp_path / "tree.csv")["joins"].tolist() == [0, 1, 1, 1]
    panel = plot_disconnectivity(found, tmp_path / "tree.png").axes[0]
    assert (tmp_path / "tree.png").stat().st_size > 10_000
    heights = sorted({line.get_ydata()[1] for line in panel.lines if len(line.get_ydata()) == 4})
    np.testing.assert_allclose(heights, np.sort(tree["joins_at"][1:]))


def test_a_pass_is_that_of_the_best_chain_of_paths():
    """1 and 4 meet at 7 by 2 and 3, where the path between them goes over 9; 5 and 6 have none to
    the others.
    """
    minima = pd.DataFrame(
        {"number": [1, 2, 3, 4, 5, 6], "potential": [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]}
    )
    pairs = [(1, 2, 4.0), (2, 3, 5.0), (3, 4, 2.0), (1, 4, 6.0), (5, 6, 1.0)]
    barriers = pd.DataFrame(pairs, columns=["first", "second", "relaxed_barrier"])
    tree = disconnectivity(SimpleNamespace(minima=minima, barriers=barriers))
    assert tree["joins"].tolist() == [0, 1, 1, 3, 0, 5]
    np.testing.assert_array_equal(tree["joins_at"], [np.nan, 5.0, 7.0, 5.0, np.nan, 6.0])


def test_candidates_lie_in_all_parts_of_a_leg():
    positions = np.array([[0.9, 0], [0.5, 0], [1.0, 0.1], [-0.5, 0], [-0.99, 0], [-0.2, 0]])
    rows = candidates(double_well(), positions, 2).tolist()
    assert rows in ([2, 4], [0, 4])


def test_legs_around_a_ladder_are_of_one_temperature(tmp_path):
    """A ladder that moves in the burn-in was refused, since legs have none; others took all their
    replicas along.
    """
    sim, output = tati_re.Simulation(data="two_clusters", seed=1, verbose=0), str(tmp_path / "run")
    moving = {
        "temperatures": [2.0, 3.0],
        "adapt_ladder": True,
        "num_burnin_steps": 10,
        "num_steps": 30,
    }
    sim.sample(
        sampler="HMC",
        num_leapfrog_steps=3,
        step_size=0.002,
        execution="graph",
        **moving,
        output=output,
    )
    legs = jobs_module.system_of({"run": output, "dtype": "float64", "execution": "graph"})
    assert legs.temperature == 2.0 and legs.trajectories.sim.options.num_rungs == 1
    assert len(legs.trajectories(legs.trajectories.start, 2.0, 40, 0)) > 2


def test_a_descent_that_did_not_end_is_drawn_as_well(tmp_path):
    found = explore(system(double_well()), np.array([0.3, 0.1]), num_steps=100, max_rounds=1)
    for count, said in ((1, "1 unfinished"), (2, "2 unfinished")):
        minima = pd.concat([found.minima.head(1).assign(kind="unfinished")] * count)
        few = found._replace(minima=minima, positions=found.positions[:1].repeat(count, axis=0))
        assert (
            plot_exploration(few, tmp_path / "found.png").axes[0].get_title(loc="left")
            == f"found: {said}"
        )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_five_wells_from_one_start(seed):
    """A single leg at T, the wrong variant, stays in the well in which it starts."""
    found = explore(
        system(five_wells()), np.array([0.3, 0.1]), num_steps=400, seed=seed, num_connected=2
    )
    assert (found.minima["kind"] == "minimum").all() and len(found.minima) == 5
    distances = np.linalg.norm(found.positions[:, None] - CENTRES, axis=2)
    assert (
        sorted(distances.argmin(axis=1)) == [0, 1, 2, 3, 4] and distances.min(axis=1).max() < 1e-4
    )
    np.testing.assert_allclose(found.minima["ln_volume"], np.log(2 * np.pi / 4), rtol=1e-3)
    assert found.minima["times_found"].min() >= 1 and "without a new" in found.reason
    lone = explore(
        system(five_wells()),
        np.array([0.3, 0.1]),
        num_steps=400,
        seed=seed,
        max_rounds=1,
        heats=(1.0,),
    )
    assert len(lone.minima) < 5


def test_diffusion_coordinates():
    found = explore(
        system(five_wells()),
        np.array([0.3, 0.1]),
        num_steps=100,
        directions="diffusion_map",
        max_rounds=2,
        num_connected=1,
    )
    assert len(found.minima) >= 1 and len(found.legs) == 5


def test_two_minima_of_the_perceptron_with_a_weak_prior(tmp_path):
    found = explore(
        system(perceptron(0.02), 0.2),
        np.array([0.8, 0.5]),
        num_steps=300,
        heats=(1, 5),
        max_rounds=4,
        patience=2,
    )
    r = np.sqrt(0.99)
    assert found.minima["kind"].tolist() == ["minimum", "minimum"]
    np.testing.assert_allclose(np.sort(found.positions[:, 0]), [-r, r], atol=1e-4)
    np.testing.assert_allclose(found.minima["potential"], 0.02 - 0.0001, atol=1e-8)
    np.testing.assert_allclose(found.minima[["smallest", "largest"]], [[0.04, 3.96]] * 2, rtol=1e-3)
    np.testing.assert_allclose(found.barriers["relaxed_barrier"], 0.9801, atol=0.01)
    figure = plot_exploration(found, tmp_path / "a.png")
    assert (tmp_path / "a.png").stat().st_size > 20_000 and len(figure.axes) == 4


def test_two_valleys_of_the_perceptron_without_one():
    found = explore(
        system(perceptron(), 0.2),
        np.array([0.8, 0.5]),
        num_steps=300,
        heats=(1, 5),
        max_rounds=4,
        patience=2,
    )
    assert found.minima["kind"].tolist() == ["valley", "valley"]
    np.testing.assert_allclose(found.positions.prod(axis=1), 1, atol=1e-6)
    assert sorted(np.sign(found.positions[:, 0])) == [-1, 1]


def test_an_exploration_goes_on_after_a_kill(tmp_path, monkeypatch):
    arguments = {"num_steps": 60, "max_rounds": 3, "num_legs": 2, "num_connected": 3}
    start = np.array([0.3, 0.1])
    whole = explore(system(five_wells()), start, **arguments, output=tmp_path / "whole")
    run, done = ExploredSystem.run, []

    def stops(self, job, seed, advanced=None):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(job.number)
        return run(self, job, seed, advanced)

    monkeypatch.setattr(ExploredSystem, "run", stops)
    with pytest.raises(KeyboardInterrupt):
        explore(system(five_wells()), start, **arguments, output=tmp_path / "a")
    assert len(list((tmp_path / "a" / "jobs").glob("*.npz"))) == 3
    left = []
    monkeypatch.setattr(
        ExploredSystem,
        "run",
        lambda self, job, *rest: left.append(job.number) or run(self, job, *rest),
    )
    found = explore(system(five_wells()), start, **arguments, output=tmp_path / "a")
    assert left == [4, 5] and found.minima.equals(whole.minima)
    for name in ("minima.csv", "barriers.csv", "paths.csv"):
        if (tmp_path / "whole" / name).exists():
            assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    with pytest.raises(InputError, match=r"contains another exploration\. Received: seed = 0"):
        explore(system(five_wells()), start, **arguments, seed=1, output=tmp_path / "a")
    with pytest.raises(InputError, match=r"contains another exploration\. Received: digest"):
        explore(system(five_wells(), step_size=0.1), start, **arguments, output=tmp_path / "a")


def test_a_function_potential():
    def function(w):
        return tf.square(1 - w[:, 0] * w[:, 1]) + 0.01 * tf.reduce_sum(w * w, -1)

    found = explore(
        FunctionPotential(function, 2),
        np.array([0.8, 0.5]),
        num_steps=20,
        max_rounds=1,
        temperature=0.2,
    )
    np.testing.assert_allclose(np.abs(found.positions[0]), np.sqrt(0.99), atol=1e-5)
    with pytest.raises(InputError, match="are not available in others"):
        explore(jobs_module.system_of(FunctionPotential(function, 2)), np.zeros(2), num_processes=2)


@pytest.fixture(scope="module")
def two_weights(tmp_path_factory):
    """The network 1-1-1 without biases on two points, with V = 0.01 |w|^2: minima at +-(r, r)."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "points.csv").write_text("x,label\n1,1\n-1,-1\n")
    return [
        "--data",
        str(folder / "points.csv"),
        "--num-classes",
        "0",
        "--test-fraction",
        "0",
        "--hidden",
        "1",
        "--activation",
        "linear",
        "--no-use-bias",
        "--loss",
        "mean_squared_error",
        "--potential",
        "mean_loss",
        "--prior-std",
        str(0.02**-0.5),
        "--temperature",
        "0.2",
        "--step-size",
        "0.1",
        "--execution",
        "graph",
    ]


def test_command(two_weights, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    limits = [
        "--leg-steps",
        "100",
        "--max-rounds",
        "2",
        "--num-candidates",
        "2",
        "--heats",
        "8",
        "--output",
        "a",
    ]
    status = command.main([*two_weights, *limits])
    out, err = capsys.readouterr()
    assert status == 0, err
    assert (
        "2 parameters on points.csv, temperature 0.2; no trajectory yet" in out
        and " minimum " in out
    )
    table = np.genfromtxt("a/minima.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    constant = 2 * np.log(0.02**-0.5 * np.sqrt(2 * np.pi))
    assert np.atleast_1d(table["potential"])[0] == pytest.approx(0.0199 + constant, abs=1e-6)
    np.testing.assert_allclose(
        np.abs(np.load("a/minima.npz")["parameters"][0]), np.sqrt(0.99), atol=1e-4
    )
    # The saddle between them is the origin, U = 1.
    assert pd.read_csv("a/tree.csv")["depth"].tolist()[1:] == [pytest.approx(1 - 0.0199, abs=0.01)]
    assert (tmp_path / "a" / "disconnectivity.png").exists()
    assert command.main([*two_weights, *limits, "--quiet"]) == 0, "nothing is left to do"


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "tati-explore needs a run folder or --data."),
        (
            ["--data", "two_clusters", "--leg-steps", "x"],
            "--leg-steps has the wrong type. Received: x.",
        ),
        (
            ["--data", "two_clusters", "--leg-steps", "0"],
            "--leg-steps is out of range. Received: 0.",
        ),
        (
            ["--data", "two_clusters", "--centre", "best"],
            "--centre needs RUN. Received: best.",
        ),
        (
            ["--data", "two_clusters", "--num-processes", "-2"],
            "--num-processes is out of range. Received: -2.",
        ),
        (["--data", "two_clusters", "--heats", "a"], "--heats has the wrong type. Received: a."),
        (
            ["--data", "two_clusters", "--directions", "covarianc"],
            "--directions has an unknown value. Did you mean 'covariance'",
        ),
        (
            ["--data", "two_clusters", "--num-leg", "1"],
            "--num-leg is not a known option of tati-explore. Did you mean",
        ),
    ],
)
def test_bad_input_is_one_line(tmp_path, monkeypatch, capsys, argv, sentence):
    monkeypatch.chdir(tmp_path)
    assert command.main(argv) == 2
    err = capsys.readouterr().err
    assert (
        err.startswith(f"error: {sentence}")
        and err.count("\n") == 1
        and not list(tmp_path.iterdir())
    )


@pytest.mark.slow
def test_processes_find_what_one_finds(tmp_path):
    """Legs in two processes, each with a TensorFlow of its own, equal those of this process."""
    source = {
        "data": "two_clusters",
        "hidden": [2],
        "dtype": "float64",
        "execution": "graph",
        "step_size": 0.02,
    }
    source |= {"verbose": 0, "activation": "tanh"}
    start = np.asarray(tati_re.Simulation(**source).parameters, float)
    limits = {
        "num_steps": 100,
        "max_rounds": 2,
        "num_legs": 2,
        "num_candidates": 2,
        "num_connected": 2,
    }
    one = explore(source, start, **limits, output=tmp_path / "one")
    two = explore(source, start, **limits, num_processes=2, output=tmp_path / "two")
    np.testing.assert_allclose(two.minima["potential"], one.minima["potential"], rtol=1e-6)
    assert jobs_module.path_of_job(tmp_path / "two", 3).exists()


@pytest.mark.slow
def test_a_function_is_explored_by_processes_of_which_one_is_killed():
    """With the same legs; one process dies while it works."""

    def function(w):
        return tf.square(1 - w[:, 0] * w[:, 1]) + 0.01 * tf.reduce_sum(w * w, -1)

    given = {"num_steps": 400, "max_rounds": 3, "num_legs": 4, "step_size": 0.1, "friction": 2.0}
    potential, start = FunctionPotential(function, 2), np.array([0.8, 0.5])
    one = explore(potential, start, **given)
    killed: list[int] = []

    def said(text):
        if text.startswith("round 1") and (pids := alive()):
            killed.append(pids[0])
            os.kill(pids[0], signal.SIGKILL)

    two = explore(potential, start, **given, num_processes=2, say=said)
    np.testing.assert_allclose(two.minima["potential"], one.minima["potential"], rtol=1e-6)
    assert killed and not alive()


@pytest.mark.slow
def test_minima_far_from_the_origin_are_told_apart():
    """What lies a thousandth of its distance from the origin apart is one minimum only if nothing
    lies between.
    """

    def function(w):
        return 20 * ((w[:, 0] - 1000.0) ** 2 / 0.09 - 1) ** 2 + 0.5 * w[:, 1] ** 2

    found = explore(
        FunctionPotential(function, 2),
        np.array([1000.3, 0.0]),
        num_steps=300,
        num_legs=4,
        num_candidates=3,
        max_rounds=4,
        heats=(1, 20),
        step_size=0.005,
    )
    np.testing.assert_allclose(sorted(found.positions[:, 0]), [999.7, 1000.3], atol=1e-5)
    assert found.barriers["relaxed_barrier"].iloc[0] == pytest.approx(20, abs=0.05)


def test_what_stopped_at_a_wall_is_no_minimum():
    sim = tati_re.Simulation(
        potential=lambda w: 0.5 * (w[:, 0] + 1) ** 2 + 0.5 * w[:, 1] ** 2,
        coordinates=["x", "y"],
        parameters=[1.0, 1.0],
        lower_wall={"x": 0.5},
        verbose=0,
        seed=1,
    )
    surface = Surface(sim)
    point = characterize(surface, descend(surface, np.array([1.0, 1.0]))[0])
    assert point.gradient_norm > 1 and point.kind == "unfinished"
    assert characterize(surface, np.array([0.6, 0.0])).kind == "unfinished"


def test_the_time_of_processes_is_over_too(monkeypatch):
    """As many legs as processes are begun at once, and none after the end."""
    pool = jobs_module.Pool.__new__(jobs_module.Pool)
    begun = []

    def run(part, ready):
        begun.append([job.number for job in part])
        for place in range(len(part)):
            result = SimpleNamespace(of=part[place].number, is_cut=False)
            ready(place, result)

    pool.folder, pool._team, pool._number = None, SimpleNamespace(run=run), 2
    jobs = [jobs_module.Job(number, np.zeros(2), 1.0, 10, 1) for number in range(5)]

    def numbers(**limits):
        return [result.of for result in pool.run(jobs, **limits)]

    assert numbers(until=0.0) == [0, 1]
    assert numbers(until=1e18) == [0, 1, 2, 3, 4]
    assert numbers() == [0, 1, 2, 3, 4]
    assert begun == [[0, 1], [0, 1], [2, 3], [4], [0, 1, 2, 3, 4]]


@pytest.mark.slow
def test_a_run_by_code_is_explored_where_it_is_trusted(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wells.py").write_text(
        "def two(x):\n    return 3 * (x[:, 0] ** 2 - 1) ** 2 + 0.5 * x[:, 1] ** 2\n"
    )
    sim = tati_re.Simulation(potential="wells.py:two", coordinates=["x", "y"], verbose=0, seed=1)
    sim.sample(
        sampler="BAOAB",
        step_size=0.1,
        num_steps=60,
        trajectory_every=3,
        execution="graph",
        output="run",
    )
    few = ["--leg-steps", "50", "--num-legs", "1", "--max-rounds", "1", "--no-figures"]
    assert command.main(["run", *few, "--output", "a"]) == 2
    assert "--trust" in capsys.readouterr().err
    assert command.main(["run", *few, "--trust", "--output", "a"]) == 0
    assert len(pd.read_csv(tmp_path / "a" / "minima.csv")) >= 1
