"""Barzilai-Borwein, FIRE, annealing and momentum: their rules against plain numpy, their minima,
their refusals.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.cli import optimize
from tati_re.core.backend import keras, tf
from tati_re.core.ops import column, where
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.optimizers import (
    Annealing,
    BarzilaiBorwein,
    Fire,
    GradientDescent,
    Optimizer,
    keras_optimizer,
    make_optimizer,
)
from tati_re.options.make import make_options
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import Info, State
from tati_re.samplers.skeleton import Skeleton
from tests.scenarios import NumpyEvaluate, NumpyNoise, quartic, rung_of
from tests.systems import tables

CURVATURES = np.geomspace(1, 100, 20)


class Evaluate(NumpyEvaluate):
    """A potential in numpy, a scale, a step number, and a validation loss `validation(position,
    step)`.
    """

    def __init__(self, learning_rate, potential, gradient, scale=1.0, validation=None) -> None:
        super().__init__(rung_of(learning_rate, numpy=True), potential, gradient)
        self.scale, self._validation = scale, validation
        self.clock = SimpleNamespace(step=0)
        self.validations = 0

    def validation(self, position):
        self.validations += 1
        return self._validation(position, self.clock.step)


def quadratic(learning_rate) -> Evaluate:
    return Evaluate(
        [learning_rate], lambda x: 0.5 * (CURVATURES * x * x).sum(-1), lambda x: CURVATURES * x
    )


def rosenbrock(learning_rate) -> Evaluate:
    def slope(x):
        bend = x[:, 1] - x[:, 0] ** 2
        return np.stack([-2 * (1 - x[:, 0]) - 400 * x[:, 0] * bend, 200 * bend], -1)

    return Evaluate(
        [learning_rate], lambda x: (1 - x[:, 0]) ** 2 + 100 * (x[:, 1] - x[:, 0] ** 2) ** 2, slope
    )


def double_well(learning_rate, scale=1.0, **options) -> Evaluate:
    """U = scale sum(x⁴/4 - x²/2), which is not convex where |x| < 0.58."""
    return Evaluate(
        learning_rate,
        lambda x: scale * (0.25 * x**4 - 0.5 * x**2).sum(-1),
        lambda x: scale * (x**3 - x),
        scale,
        **options,
    )


def states(optimizer, evaluate, position, num_steps, noise=None):
    """The state at the start and after each step."""
    noise = noise or NumpyNoise(0)
    found = [optimizer.init(position, evaluate, noise)]
    for step in range(1, num_steps + 1):
        evaluate.clock.step = step
        found.append(optimizer.step(found[-1], evaluate, noise)[0])
    return found


def steps_until(optimizer, evaluate, position, close, most=20_000) -> int:
    state = optimizer.init(position, evaluate, NumpyNoise(0))
    for step in range(1, most + 1):
        state, _ = optimizer.step(state, evaluate, NumpyNoise(0))
        if close(state):
            return step
    return most + 1


# Barzilai and Borwein

START = np.array([[1.7, -0.4, 0.9], [0.2, 0.3, -0.1]])
WELL = {"learning_rate": [0.05, 0.05], "scale": 7.0}


def barzilai_borwein_in_numpy(kind: str, num_steps: int) -> tuple[np.ndarray, bool]:
    """Positions `(steps, walkers, 3)` of the double well divided by its scale, and whether s·y was
    once negative.
    """
    ends, negative = [], False
    for theta in START:
        rate, path = 0.05, []
        slope = theta**3 - theta
        for _ in range(num_steps):
            new = theta - rate * slope
            s, y = new - theta, (new**3 - new) - slope
            negative |= bool(s @ y <= 0)
            rate = (
                {"long": s @ s / (s @ y), "short": s @ y / (y @ y)}[kind]
                if s @ y > 0
                else np.sqrt(s @ s / (y @ y))
            )
            theta, slope = new, new**3 - new
            path.append(theta)
        ends.append(path)
    return np.stack(ends, 1), negative


class Swapped(BarzilaiBorwein):
    """Takes one of the two steps for the other."""

    def _rate(self, ss, sy, yy):
        return BarzilaiBorwein(
            {"long": "short", "short": "long"}[self.barzilai_borwein_step]
        )._rate(ss, sy, yy)


class Absolute(BarzilaiBorwein):
    """TATi's absolute value of s·y."""

    def _rate(self, ss, sy, yy):
        return np.abs(sy) / yy if self.barzilai_borwein_step == "short" else ss / np.abs(sy)


@pytest.mark.parametrize("kind", ["long", "short"])
def test_barzilai_borwein_is_its_rule(kind):
    expected, negative = barzilai_borwein_in_numpy(kind, 8)
    assert negative
    found = np.stack(
        [
            state.position
            for state in states(BarzilaiBorwein(kind), double_well(**WELL), START, 8)[1:]
        ]
    )
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
    for wrong in (Swapped, Absolute):
        path = np.stack(
            [state.position for state in states(wrong(kind), double_well(**WELL), START, 8)[1:]]
        )
        assert np.abs(path - expected).max() > 1e-3


@pytest.mark.parametrize("kind", ["long", "short"])
def test_barzilai_borwein_on_a_condition_number_of_100(kind):
    """Measured: 117 steps (long), 111 (short); plain descent at its best rate 1,152."""

    def close(state):
        return np.abs(state.gradient).max() < 1e-8

    evaluate = quadratic(0.01)
    assert steps_until(BarzilaiBorwein(kind), evaluate, np.ones((1, 20)), close) <= 150
    assert evaluate.calls == 0
    assert steps_until(GradientDescent(), quadratic(2 / 101), np.ones((1, 20)), close) > 1000


def test_barzilai_borwein_finds_the_minimum_of_rosenbrock():
    """Measured: 67 steps."""
    start = np.array([[-1.2, 1.0]])
    found = steps_until(
        BarzilaiBorwein(), rosenbrock(0.001), start, lambda s: np.abs(s.position - 1).max() < 1e-6
    )
    assert found <= 100


def test_barzilai_borwein_takes_back_a_step_that_is_not_finite():
    def walled(x):
        return np.where(np.abs(x) > 3, np.nan, 0.5 * x * x).sum(-1)

    evaluate = Evaluate([100.0, 0.5], walled, lambda x: np.where(np.abs(x) > 3, np.nan, x))
    path = states(BarzilaiBorwein(), evaluate, np.array([[1.0], [1.0]]), 6)
    np.testing.assert_array_equal(path[1].position, [[1.0], [0.5]])
    np.testing.assert_array_equal(path[1].step_size, [10.0, 1.0])
    np.testing.assert_array_equal(path[1].potential, [0.5, 0.125])
    np.testing.assert_allclose(path[3].step_size, [1.0, 1.0])
    np.testing.assert_allclose(path[-1].position, 0, atol=1e-12)


def test_barzilai_borwein_at_rest_keeps_its_rate():
    path = states(BarzilaiBorwein(), double_well([0.3]), np.array([[1.0, -1.0]]), 3)
    for state in path:
        np.testing.assert_array_equal(state.step_size, [0.3])
        np.testing.assert_array_equal(state.position, path[0].position)


# FIRE


def fire_in_numpy(rates, scale: float, num_steps: int) -> np.ndarray:
    ends = []
    for theta, first in zip(START, rates, strict=True):
        velocity, t, path = np.zeros(3), first, []
        for _ in range(num_steps):
            half = velocity - t / 2 * (theta**3 - theta)
            new = theta + t * half
            old_u, new_u = (float((0.25 * x**4 - 0.5 * x**2).sum()) for x in (theta, new))
            if new_u <= old_u:
                theta, velocity, t = new, half - t / 2 * (new**3 - new), t + 0.05 * min(t, first)
            else:
                velocity, t = np.zeros(3), 0.95 * t
            path.append(theta)
        ends.append(path)
    return np.stack(ends, 1)


class NeverHalts(Fire):
    """Keeps its velocity when it steps back."""

    def step(self, state, evaluate, noise):
        new, info = super().step(state, evaluate, noise)
        halted = (new.position == state.position).all(-1)[:, None]
        return new._replace(velocity=where(halted, state.velocity, new.velocity)), info


def test_fire_is_its_rule():
    rates = np.array([0.3, 0.9])
    expected = fire_in_numpy(rates, 7.0, 40)
    assert (
        (expected[1:] == expected[:-1]).all(-1).any(0).all()
    )  # each walker stepped back at least once
    path = states(Fire(), double_well(rates, 7.0), START, 40)
    np.testing.assert_allclose(
        np.stack([s.position for s in path[1:]]), expected, rtol=0, atol=1e-12
    )
    assert (np.diff([s.potential for s in path], axis=0) <= 0).all()
    wrong = states(NeverHalts(), double_well(rates, 7.0), START, 40)
    assert np.abs(wrong[-1].position - expected[-1]).max() > 1e-6


def test_fire_finds_minima():
    """Measured: 267 steps for the quadratic, 1,388 for Rosenbrock's function (plain descent: 1,152
    and 34,096).
    """
    close = lambda s: np.abs(s.gradient).max() < 1e-8  # noqa: E731
    assert steps_until(Fire(), quadratic(0.1), np.ones((1, 20)), close) <= 400
    start = np.array([[-1.2, 1.0]])
    assert (
        steps_until(Fire(), rosenbrock(0.01), start, lambda s: np.abs(s.position - 1).max() < 1e-6)
        <= 2000
    )


def test_fire_takes_back_a_step_that_is_not_finite():
    def walled(x):
        return np.where(np.abs(x) > 3, np.nan, 0.5 * x * x).sum(-1)

    evaluate = Evaluate([10.0], walled, lambda x: np.where(np.abs(x) > 3, np.nan, x))
    path = states(Fire(), evaluate, np.array([[1.0]]), 200)
    np.testing.assert_array_equal(path[1].position, [[1.0]])
    np.testing.assert_allclose(path[1].step_size, [9.5])
    assert np.isfinite(path[-1].potential).all() and path[-1].potential < 1e-6


# Annealing

STAGE = 4
VALIDATION = {
    1: [3.0, 2.0],
    2: [2.0, 2.5],
    3: [1.0, 0.1],
    4: [1.5, 0.1],
    5: [0.1, 0.1],
    6: [0.1, 0.1],
}


def annealed(optimizer, num_steps=6 * STAGE, seed=5):
    """Walker 0 has its best stage at the end of step 12, walker 1 of step 4; both are offered less
    later.
    """
    evaluate = double_well(
        [0.4, 0.4], 7.0, validation=lambda x, step: np.array(VALIDATION[step // STAGE])
    )
    noise = NumpyNoise(seed)
    return states(optimizer, evaluate, START, num_steps, noise), noise, evaluate


class Stays(Annealing):
    """Stops, but where it is."""

    def _validated(self, state, evaluate, ended):
        new = super()._validated(state, evaluate, ended)
        return new._replace(position=state.position)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_annealing_is_its_rule(momentum):
    path, noise, _ = annealed(Annealing(2.0, 0.5, STAGE, 1, momentum), 2 * STAGE)
    h, c = np.sqrt(0.4 / 7.0), momentum
    theta, temperature = START[0], 2.0
    p = np.sqrt(temperature) * noise.drawn[0][0]
    for step in range(1, 2 * STAGE + 1):
        p = p - h / 2 * 7.0 * (theta**3 - theta)
        theta = theta + h / 2 * p
        p = c * p + np.sqrt((1 - c * c) * temperature) * noise.drawn[step][0]
        theta = theta + h / 2 * p
        p = p - h / 2 * 7.0 * (theta**3 - theta)
        if step % STAGE == 0:
            temperature *= 0.5
        np.testing.assert_allclose(path[step].position[0], theta, rtol=0, atol=1e-12)
        np.testing.assert_allclose(path[step].momentum[0], p, rtol=0, atol=1e-12)
        assert path[step].temperature[0] == temperature


def test_annealing_cools_stops_goes_back_and_stays():
    optimizer = Annealing(2.0, 0.5, STAGE, 1, 0.5)
    path, _, evaluate = annealed(optimizer)
    assert evaluate.validations == 6
    assert [state.temperature[0] for state in path[::STAGE]] == [2.0, 1.0, 0.5, 0.25, 0.5, 0.5, 0.5]
    assert [state.temperature[1] for state in path[::STAGE]] == [2.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    for walker, best, stop in ((0, 12, 16), (1, 4, 8)):
        assert not path[stop - 1].stopped[walker]
        assert np.abs(path[stop - 1].position[walker] - path[best].position[walker]).max() > 0.01
        for state in path[stop:]:
            assert state.stopped[walker]
            for name in ("position", "gradient", "potential", "loss", "log_prior"):
                np.testing.assert_array_equal(
                    getattr(state, name)[walker], getattr(path[best], name)[walker]
                )
            np.testing.assert_array_equal(state.momentum[walker], 0.0)
            assert state.best.validation[walker] == VALIDATION[best // STAGE][walker]
    wrong, _, _ = annealed(Stays(2.0, 0.5, STAGE, 1, 0.5))
    for walker, best in ((0, 12), (1, 4)):
        assert (wrong[-1].position[walker] != wrong[best].position[walker]).all()


def test_annealing_compares_averages_and_goes_back_to_the_lowest():
    """Averages 4, 3.5, 4 of the stages, while the losses at their ends are 3, 6, 4: it stops after
    the third stage.
    """
    seen = {2: 5.0, 4: 3.0, 6: 1.0, 8: 6.0, 10: 4.0, 12: 4.0, 14: 0.0, 16: 0.0}
    evaluate = double_well([0.4, 0.4], validation=lambda x, step: np.full(2, seen[step]))
    path = states(Annealing(stage_steps=4, validations=2), evaluate, START, 16)
    assert [bool(state.stopped.any()) for state in path] == [False] * 12 + [True] * 5
    for state in path[12:]:
        np.testing.assert_array_equal(state.position, path[6].position)
        np.testing.assert_allclose(state.temperature, 0.8)


@pytest.mark.parametrize(
    ("stage_steps", "validations", "count"), [(25, 10, 13), (100, 10, 10), (3, 10, 3), (7, 1, 1)]
)
def test_annealing_validates_evenly_and_at_the_end_of_a_stage(stage_steps, validations, count):
    evaluate, at = (
        double_well([0.4, 0.4], validation=lambda x, step: at.append(step) or np.ones(2)),
        [],
    )
    path = states(Annealing(2.0, 0.5, stage_steps, validations), evaluate, START, 2 * stage_steps)
    assert (
        len(at) == 2 * count and at[count - 1] == stage_steps and len(set(np.diff(at[:count]))) <= 1
    )
    np.testing.assert_allclose(path[-1].last_validation, 1.0)
    assert not path[-1].stopped.any()


def test_annealing_stops_where_the_validation_loss_is_not_finite():
    evaluate = double_well([0.4, 0.4], validation=lambda x, step: np.array([np.nan, 1.0]))
    path = states(Annealing(stage_steps=3), evaluate, START, 6)
    assert path[-1].stopped.tolist() == [True, False]
    np.testing.assert_array_equal(path[-1].position[0], START[0])


def test_annealing_samples_its_temperature():
    """A stage on the harmonic well: BAOAB has exactly T/k at every step size, also at momentum 0,
    where successive positions are correlated by 1 - h²k/2.
    """
    walkers, temperature = 4000, 0.7
    evaluate = Evaluate(np.full(walkers, 0.5), lambda x: (x * x).sum(-1), lambda x: 2 * x, 1.0)
    state = states(Annealing(temperature, stage_steps=1000), evaluate, np.zeros((walkers, 2)), 60)[
        -1
    ]
    # 8,000 independent numbers; 5.5 standard errors are 8.7 %. A halved or doubled noise is far
    # outside.
    assert (state.position**2).mean() == pytest.approx(temperature / 2, rel=5.5 * np.sqrt(2 / 8000))


# In the engine

OPTIMIZERS = {
    "long": BarzilaiBorwein("long"),
    "short": BarzilaiBorwein("short"),
    "fire": Fire(),
    "annealing": Annealing(1.0, 0.5, 5, 2, 0.3),
}


def looped(optimizer, execution: str):
    """25 steps of 4 walkers on the quartic well; the validation loss grows with the distance from
    (1, 1, 1).
    """

    def distance(position):
        return tf.reduce_sum(tf.square(position - 1.0), -1)

    potential = FunctionPotential(quartic, 3, validation=distance)
    rung = rung_of(np.linspace(0.05, 0.2, 4), np.inf)
    loop = Loop(
        potential,
        optimizer,
        Observables(optimizer, None),
        rung,
        3,
        execution,
        record_every=5,
        num_steps=25,
    )
    chunk = loop.run(loop.start(np.linspace(-1, 1, 12).reshape(4, 3), ()), 1, 25)
    flat = [np.asarray(value, np.float64) for value in tf.nest.flatten(chunk.carry.state)]
    return chunk.carry.state, flat, chunk.rows.numpy()[: int(chunk.num_rows)], loop


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name in ("long", "annealing")))
        for name in OPTIMIZERS
    ],
)
def test_eager_graph_and_xla_agree(name):
    state, eager, rows, loop = looped(OPTIMIZERS[name], "eager")
    for execution, tolerance in (("graph", 1e-12), ("xla", 1e-9)):
        _, other, other_rows, _ = looped(OPTIMIZERS[name], execution)
        for value, expected in zip(other, eager, strict=True):
            np.testing.assert_allclose(value, expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(other_rows, rows, rtol=0, atol=tolerance)
    columns = loop.observables.columns
    if name == "annealing":
        assert state.stopped.numpy().any()
        np.testing.assert_array_equal(rows[-1][:, columns.index("temperature")], state.temperature)
    else:
        np.testing.assert_array_equal(rows[-1][:, columns.index("step_size")], state.step_size)
        evaluate = Evaluate(np.linspace(0.05, 0.2, 4), quartic, lambda x: x**3 + x)
        in_numpy = states(OPTIMIZERS[name], evaluate, np.linspace(-1, 1, 12).reshape(4, 3), 25)[-1]
        np.testing.assert_allclose(state.position, in_numpy.position, rtol=0, atol=1e-12)


def test_validation_of_a_function_without_one_is_refused():
    evaluate = FunctionPotential(quartic, 2).bind(rung_of([0.1]))
    with pytest.raises(InputError, match=r"^validation: there is no test set\."):
        evaluate.validation(tf.zeros((1, 2), tf.float64))


# Through Simulation

GENERATOR = np.random.default_rng(12)
X, Y = GENERATOR.normal(size=(12, 2)), GENERATOR.normal(size=12)
DATA = ((X[:8], Y[:8]), (X[8:], Y[8:]))
DESIGN = np.column_stack([X, np.ones(12)])[:8]
LINEAR = {
    "noise_std": 1.0,
    "dtype": "float64",
    "verbose": 0,
    "execution": "graph",
    "num_walkers": 2,
    "seed": 2,
}


def validation_loss(theta) -> np.ndarray:
    error = np.column_stack([X, np.ones(12)])[8:] @ np.asarray(theta).T - Y[8:, None]
    return 0.5 * (error**2).mean(0) + 0.5 * np.log(2 * np.pi)


def simulation(**options) -> Simulation:
    sim = Simulation(data=DATA, **LINEAR | options)
    sim.parameters = np.linspace(-1, 1, 6).reshape(2, 3)
    return sim


@pytest.mark.parametrize(("optimizer", "num_steps"), [("barzilai_borwein", 60), ("fire", 1000)])
def test_full_batch_optimizers_find_the_mode_of_the_posterior(optimizer, num_steps):
    sim = simulation()
    run = sim.fit(optimizer=optimizer, learning_rate=0.2, num_steps=num_steps, record_every=1)
    mode = np.linalg.solve(DESIGN.T @ DESIGN + np.eye(3), DESIGN.T @ Y[:8])
    np.testing.assert_allclose(sim.parameters, [mode, mode], rtol=0, atol=1e-8)
    rates = run.run_info["step_size"]
    assert len(set(rates)) > 10 and run.manifest["method"]["optimizer"] == optimizer


@pytest.mark.parametrize("piece", [65_536, 3])
def test_validation_is_the_mean_loss_on_the_test_part(piece):
    sim = simulation()
    potential = sim._engine().potential
    potential.full_chunk = 2 * piece
    evaluate = potential.bind(rung_of([0.1, 0.1]))
    found = tf.function(evaluate.validation)(tf.constant(sim.parameters))
    assert found.dtype == tf.float64
    np.testing.assert_allclose(found, validation_loss(sim.parameters), rtol=1e-12)


def opposite() -> Simulation:
    """The test set is the training set with the sign of the labels turned, and the walkers start
    at its best fit.
    """
    sim = Simulation(data=((X, Y), (X, -Y)), **LINEAR, prior="none")
    design = np.column_stack([X, np.ones(12)])
    sim.parameters = np.linalg.lstsq(design, -Y)[0]
    return sim


COLD = {
    "optimizer": "annealing",
    "learning_rate": 0.01,
    "annealing_start_temperature": 1e-9,
    "annealing_stage_steps": 5,
    "annealing_validations": 1,
    "record_every": 1,
    "trajectory_every": 5,
}


def test_annealing_stops_where_training_spoils_the_validation_loss():
    """A cold walker leaves the best fit of the test set at once: it stops after the second stage,
    and returns to the end of the first.
    """
    sim = opposite()
    run = sim.fit(num_steps=30, **COLD)
    assert (
        run.parameters(5, 0).tolist()
        == run.parameters(10, 0).tolist()
        == run.parameters(30, 0).tolist()
    )
    np.testing.assert_array_equal(sim.parameters[1], run.parameters(5, 1))
    rows = run.run_info[run.run_info.walker == 0].set_index("step")
    assert (
        rows["potential"].loc[9]
        < rows["potential"].loc[5]
        == rows["potential"].loc[10]
        == rows["potential"].loc[30]
    )
    np.testing.assert_allclose(rows["temperature"].loc[[4, 5, 10, 30]], [1e-9, 8e-10, 1e-9, 1e-9])
    np.testing.assert_array_equal(sim.momenta, 0.0)


def test_annealing_goes_on_while_the_validation_loss_falls():
    sim = Simulation(data=((X, Y), (X, Y)), **LINEAR, prior="none")
    sim.parameters = np.full((2, 3), 3.0)
    run = sim.fit(num_steps=30, **COLD)
    assert run.run_info["temperature"].iloc[-1] == pytest.approx(1e-9 * 0.8**6)


RESUMED = {
    "barzilai_borwein": {"optimizer": "barzilai_borwein", "learning_rate": 0.02},
    "fire": {"optimizer": "fire", "learning_rate": 0.2},
    "annealing": {
        "optimizer": "annealing",
        "annealing_stage_steps": 5,
        "learning_rate": 0.02,
        "momentum": 0.5,
    },
    "annealing in mini-batches, stopped": {**COLD, "batch_size": 3},
    "sgd with momentum": {"optimizer": "sgd", "momentum": 0.9, "batch_size": 3},
}


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=() if case == "sgd with momentum" else pytest.mark.slow)
        for case in RESUMED
    ],
)
@pytest.mark.parametrize("half", [pytest.param(3, marks=pytest.mark.slow), 13])
def test_resume_byte_for_byte(tmp_path, case, half):
    # Compiling is most of the time of so short a run: one method under XLA stands for all.
    execution = "xla" if case == "sgd with momentum" else "graph"
    options = {"record_every": 3, "trajectory_every": 4, "execution": execution, **RESUMED[case]}
    for folder, steps in (("whole", 26), ("halves", half)):
        sim = opposite() if "stopped" in case else simulation()
        sim.fit(num_steps=steps, output=str(tmp_path / folder), **options)
    data = ((X, Y), (X, -Y)) if "stopped" in case else DATA
    Simulation.resume(str(tmp_path / "halves"), num_steps=26, data=data)
    assert tables(tmp_path / "halves") == tables(tmp_path / "whole")
    rows = load(tmp_path / "whole").run_info
    varies = {"annealing": "temperature", "barzilai_borwein": "step_size", "fire": "step_size"}.get(
        case
    )
    assert varies is None or rows[varies].nunique() > 2


def test_batch_normalisation_learns_its_statistics_on_the_full_batch():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [keras.Input((2,)), keras.layers.BatchNormalization(momentum=0.9), keras.layers.Dense(1)]
    )
    sim = Simulation(model, (X, Y), verbose=0, execution="graph")
    run = sim.fit(optimizer="barzilai_borwein", num_steps=10, trajectory_every=10)
    assert np.isfinite(run.run_info["potential"]).all()
    np.testing.assert_allclose(sim.walkers.auxiliary[0][0], (1 - 0.9**11) * X.mean(0), rtol=1e-5)


def test_momentum_is_that_of_keras():
    sim = simulation(prior="none")
    expected = []
    for row in sim.parameters:
        variable = keras.Variable(row, dtype="float64")
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
        for _ in range(20):
            optimizer.apply([DESIGN.T @ (DESIGN @ variable.numpy() - Y[:8]) / 8], [variable])
        expected.append(variable.numpy())
    sim.fit(optimizer="sgd", learning_rate=0.05, momentum=0.9, num_steps=20)
    np.testing.assert_allclose(sim.parameters, expected, rtol=1e-6)


LIKE_ADAM_OR_SGD = ("adadelta", "adagrad", "adamax", "adamw", "lion", "nadam", "rmsprop")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in LIKE_ADAM_OR_SGD else ())
        for name in sorted(keras_optimizer.keras_optimizers())
    ],
)
def test_weights_are_one_tensor_where_each_number_follows_its_own_gradients(name, monkeypatch):
    """Two walkers of four tensors: the same steps, bit by bit; a rule that looks at the whole
    tensor is told by it.
    """
    found = []
    for names in (keras_optimizer._BY_NUMBER, (), tuple(keras_optimizer.keras_optimizers())):
        monkeypatch.setattr(keras_optimizer, "_BY_NUMBER", names)
        sim = Simulation(
            data=DATA,
            hidden=[2],
            noise_std=1.0,
            num_walkers=2,
            seed=3,
            execution="eager",
            verbose=0,
            walker_evaluation="unrolled",
        )
        sim.fit(optimizer=name, learning_rate=0.05, num_steps=3)
        found.append(sim.parameters.tobytes())
    chosen, apart, together = found
    assert chosen == apart
    # The last one's powers round otherwise in a longer tensor.
    assert (together == apart) == (name not in ("adafactor", "lamb", "muon", "ftrl")), (
        "these need each tensor by itself"
    )


@pytest.mark.slow
def test_clipped_norms_are_those_of_single_tensors():
    moved = []
    for norm in (1e-3, 1e3):
        sim = simulation(prior="none")
        before = sim.parameters.copy()
        sim.fit(optimizer=keras.optimizers.SGD(1.0, clipnorm=norm), num_steps=1)
        moved.append(sim.parameters - before)
    # The weights (2, 1) and the bias (1,) of each walker are cut to the norm by themselves.
    np.testing.assert_allclose(np.linalg.norm(moved[0][:, :2], axis=1), 1e-3, rtol=1e-5)
    np.testing.assert_allclose(np.abs(moved[0][:, 2]), 1e-3, rtol=1e-5)
    assert np.abs(moved[1][:, 2]).min() > 2e-3


# Names and refusals


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gradient_descent", GradientDescent),
        ("GradientDescent", GradientDescent),
        ("barzilai_borwein", BarzilaiBorwein),
        ("BarzilaiBorwein", BarzilaiBorwein),
        ("fire", Fire),
        ("Annealing", Annealing),
    ],
)
def test_names(name, kind):
    optimizer = make_optimizer(name, make_options(annealing_cooling=0.3), [(1,)])
    assert type(optimizer) is kind
    assert optimizer.get_config()["optimizer"] == kind.name
    if kind is Annealing:
        assert optimizer.cooling == 0.3


REFUSED = {
    "barzilai_borwein, mini-batches": (
        {"optimizer": "barzilai_borwein", "batch_size": 4},
        r"^optimizer: barzilai_borwein works only with all data in every step\. Received: batch_size = 4 of 8 examples\.",
    ),
    "fire, mini-batches": (
        {"optimizer": "fire", "batch_size": 4},
        r"^optimizer: fire works only with all data in every step\.",
    ),
    "adam, momentum": (
        {"optimizer": "adam", "momentum": 0.9},
        "^momentum: adam does not use it. Received: 0.9. Expected: optimizer muon, rmsprop, sgd, annealing.",
    ),
    "fire, momentum": (
        {"optimizer": "fire", "momentum": 0.9},
        "^momentum: fire does not use it.",
    ),
    "an object, momentum": (
        {"optimizer": keras.optimizers.SGD(0.1), "momentum": 0.9},
        "^momentum: an optimizer object has its own.",
    ),
    "momentum 1": ({"optimizer": "sgd", "momentum": 1.0}, r"^momentum is out of range\."),
    "no such step": (
        {"barzilai_borwein_step": "middle"},
        r"^barzilai_borwein_step has an unknown value\.",
    ),
    "no cooling": ({"annealing_cooling": 1.0}, r"^annealing_cooling is out of range\."),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_in_python(case):
    options, sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence):
        simulation().fit(num_steps=2, **options)


class Sign(Optimizer):
    """Of users: a step of the rate along the sign of the gradient."""

    name = "sign"

    def init(self, position, evaluate, noise):
        U = evaluate(position)
        return State(position, U.gradient, U.potential, U.loss, U.log_prior, evaluate.rung)

    def step(self, state, evaluate, noise):
        rate = column(state.rung.step_size, state.position)
        return self.init(state.position - rate * tf.sign(state.gradient), evaluate, noise), Info()


def test_an_object_of_ones_own_fits_and_is_resumed(tmp_path, capsys):
    sim = Simulation(data="two_clusters", seed=1, dtype="float64", execution="graph")
    start, slope = sim.parameters.copy(), np.sign(sim.gradients())
    run = sim.fit(
        optimizer=Sign(),
        learning_rate=2.0**-20,
        num_steps=2,
        record_every=1,
        output=str(tmp_path / "a"),
    )
    np.testing.assert_allclose(sim.parameters, start - 2.0**-19 * slope, rtol=1e-12)
    assert (
        run.manifest["method"] == {"optimizer": "sign"}
        and "Not used" not in capsys.readouterr().out
    )
    run = Simulation.resume(run, num_steps=3, optimizer=Sign(), verbose=0)
    assert run.run_info["step"].max() == 3
    with pytest.raises(InputError, match="optimizer: this is not an optimizer"):
        sim.fit(optimizer=Skeleton(), num_steps=2)


def test_annealing_without_a_test_part_is_refused():
    sim = Simulation(data=(X, Y), **LINEAR)
    with pytest.raises(
        InputError,
        match=r"^optimizer: annealing stops according to the loss on a test set, but the data have no",
    ):
        sim.fit(optimizer="annealing", num_steps=2)
    evaluate = sim._engine().potential.bind(rung_of([0.1, 0.1]))
    with pytest.raises(InputError, match=r"^data: there is no test set for validation."):
        evaluate.validation(tf.zeros((2, 3), tf.float64))


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (lambda: BarzilaiBorwein("middle"), "barzilai_borwein_step"),
        (lambda: Fire(increase=-1.0), "fire: increase"),
        (lambda: Fire(decrease=1.0), "fire: decrease"),
        (lambda: Annealing(start_temperature=0.0), "annealing_start_temperature"),
        (lambda: Annealing(cooling=1.0), "annealing_cooling"),
        (lambda: Annealing(stage_steps=0), "annealing_stage_steps"),
        (lambda: Annealing(validations=0), "annealing_validations"),
        (lambda: Annealing(momentum=1.0), "momentum"),
    ],
)
def test_objects_check_their_own(make, what):
    with pytest.raises(InputError, match=f"^{what}"):
        make()


@pytest.mark.parametrize("optimizer", ["barzilai_borwein", "fire"])
def test_the_command_says_it_on_one_line(tmp_path, monkeypatch, capsys, optimizer):
    monkeypatch.chdir(tmp_path)
    argv = [
        "--data",
        "two_clusters",
        "--optimizer",
        optimizer,
        "--batch-size",
        "5",
        "--num-steps",
        "2",
        "--quiet",
    ]
    assert optimize.main(argv) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        f"error: --optimizer: {optimizer} works only with all data in every step."
    )
    assert "--batch-size = 5" in said and said.count("\n") == 1
