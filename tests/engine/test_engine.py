"""The compiled loop and the files of a run: the same numbers however it is executed, at exactly the
steps asked for.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
import pandas
import pytest

from tati_re import InputError, SamplingError, Simulation, load
from tati_re.core.backend import keras, tf
from tati_re.core.ops import where
from tati_re.data import Dataset
from tati_re.engine.limits import Limits
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.passes import ModelPasses
from tati_re.samplers import HamiltonianMonteCarlo, Info, Splitting
from tati_re.testing.numpy_parts import rung_of
from tests.systems import tables

STEPS, RECORD, STORE, BURNIN = 50, 7, 5, 11
WALKERS = 2
NINE = Limits(most_steps=9, first_steps=9)
GENERATOR = np.random.default_rng(5)
X, Y = GENERATOR.normal(size=(10, 2)), GENERATOR.normal(size=10)
EXECUTED = {"BAOAB": 4, "ABOBA": 4, "SGLD": 4, "HMC": None}


def simulation(**options) -> Simulation:
    """A network with 9 parameters on 10 examples, mini-batches of 4, 4 and 2, both walkers their
    own.
    """
    defaults = {
        "noise_std": 1.0,
        "hidden": [2],
        "activation": "tanh",
        "dtype": "float64",
        "num_walkers": WALKERS,
        "batch_size": 4,
        "step_size": 0.02,
        "seed": 3,
        "verbose": 0,
        "execution": "graph",
        "walker_evaluation": "unrolled",
    }
    return Simulation(data=(X, Y), **defaults | options)


def short(**options) -> Simulation:
    """The same in chunks of 9 steps."""
    sim = simulation(**options)
    sim.limits = NINE
    return sim


class Recorded(NamedTuple):
    run: Any
    loops: list


@pytest.fixture(scope="module")
def awkward():
    """50 steps, rows each 7, positions each 5, burn-in of 11, in chunks of 9 steps."""
    loops = []

    class Noted(Loop):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            loops.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tati_re.launch.loops.Loop", Noted)
        run = short().sample(
            num_steps=STEPS, record_every=RECORD, trajectory_every=STORE, num_burnin_steps=BURNIN
        )
    return Recorded(run, loops)


@pytest.fixture(scope="module")
def executed():
    """`executed(sampler, execution)`: rows and positions of 4 steps."""
    done = {}

    def run(sampler: str, execution: str):
        if (sampler, execution) not in done:
            sim = simulation(
                execution=execution, batch_size=EXECUTED[sampler], num_leapfrog_steps=2
            )
            ran = sim.sample(sampler=sampler, num_steps=4, record_every=2, trajectory_every=3)
            done[sampler, execution] = ran.run_info, ran.trajectory
        return done[sampler, execution]

    return run


@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(name, marks=pytest.mark.slow if name in ("ABOBA", "SGLD") else ())
        for name in EXECUTED
    ],
)
@pytest.mark.parametrize(("execution", "tolerance"), [("eager", 1e-12), ("xla", 1e-9)])
def test_every_execution_gives_the_numbers_of_the_graph(executed, sampler, execution, tolerance):
    for found, expected in zip(
        executed(sampler, execution), executed(sampler, "graph"), strict=True
    ):
        assert list(found.columns) == list(expected.columns)
        assert len(found) > 0
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_rows_and_positions_are_of_the_steps_asked_for(awkward):
    run = awkward.run
    rows = [
        (step, walker) for step in range(RECORD, STEPS + 1, RECORD) for walker in range(WALKERS)
    ]
    assert list(map(tuple, run.run_info[["step", "walker"]].to_numpy())) == rows
    past = [(step, walker) for step, walker in rows if step > BURNIN]
    assert list(map(tuple, run.averages[["step", "walker"]].to_numpy())) == past
    stored = [
        (step, walker)
        for step in range(STORE, STEPS + 1, STORE)
        if step > BURNIN
        for walker in range(WALKERS)
    ]
    assert list(map(tuple, run.trajectory[["step", "walker"]].to_numpy())) == stored


def test_columns_are_those_of_the_run_folder(awkward):
    run = awkward.run
    always = [
        "step",
        "walker",
        "temperature",
        "step_size",
        "loss",
        "potential",
        "log_prior",
        "kinetic_energy",
        "virial",
    ]
    assert list(run.run_info.columns) == [*always, "gradient_norm", "momentum_norm"]
    means = ["step", "walker", "loss", "potential", "kinetic_energy", "virial"]
    assert list(run.averages.columns) == [*means, "expected_kinetic_energy", "expected_virial"]
    names = [f"dense/kernel[{i},{j}]" for i in range(2) for j in range(2)] + [
        "dense/bias[0]",
        "dense/bias[1]",
    ]
    names += ["dense_1/kernel[0,0]", "dense_1/kernel[1,0]", "dense_1/bias[0]"]
    assert list(run.trajectory.columns) == ["step", "walker", "potential", "loss", *names]
    assert list(run.timing.columns) == ["step", "seconds", "steps_per_second"]


def test_a_run_traces_its_chunk_at_most_twice(awkward):
    assert all(0 < loop.traces <= 2 for loop in awkward.loops)


def test_chunks_change_nothing(awkward):
    whole = simulation().sample(
        num_steps=STEPS, record_every=RECORD, trajectory_every=STORE, num_burnin_steps=BURNIN
    )
    assert tables(whole.folder) == tables(awkward.run.folder)


def test_running_averages_are_means_of_the_rows_after_burn_in(awkward):
    rows, averages = awkward.run.run_info, awkward.run.averages
    rows = rows[rows.step > BURNIN]
    for walker in range(WALKERS):
        for name in ("loss", "potential", "kinetic_energy", "virial"):
            expected = rows[rows.walker == walker][name].expanding().mean()
            np.testing.assert_allclose(
                averages[averages.walker == walker][name], expected, rtol=1e-13
            )


def test_averages_come_with_the_value_they_should_have(awkward):
    assert (awkward.run.averages[["expected_kinetic_energy", "expected_virial"]] == 4.5).all(
        axis=None
    )


def test_rows_hold_what_their_columns_say(awkward):
    run, sim = awkward.run, simulation(batch_size=None)
    both = run.run_info.merge(run.trajectory, on=["step", "walker"], suffixes=("", "_stored"))
    assert list(both.step) == [35, 35]
    np.testing.assert_array_equal(both["potential"], both["potential_stored"])
    sim.parameters = both[sim.parameter_names()].to_numpy()
    squares = np.sum(sim.parameters**2, axis=1)
    np.testing.assert_allclose(
        both["log_prior"], -0.5 * squares - 4.5 * np.log(2 * np.pi), rtol=1e-13
    )
    np.testing.assert_allclose(both["potential"], 10 * both["loss"] - both["log_prior"], rtol=1e-13)
    np.testing.assert_allclose(both["kinetic_energy"], both["momentum_norm"] ** 2 / 2, rtol=1e-13)
    assert set(both["temperature"]) == {1.0}
    assert set(both["step_size"]) == {0.02}


def test_streaming_moments_are_those_of_the_positions_at_the_recorded_steps():
    run = simulation().sample(
        num_steps=STEPS, record_every=STORE, trajectory_every=STORE, num_burnin_steps=BURNIN
    )
    trajectory, moments = run.trajectory, run.moments
    assert list(moments.count) == [8, 8]
    for walker in range(WALKERS):
        positions = trajectory[trajectory.walker == walker].iloc[:, 4:].to_numpy()
        np.testing.assert_allclose(moments.mean[walker], positions.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(
            moments.variance[walker], positions.var(axis=0, ddof=1), rtol=1e-10
        )
    np.testing.assert_allclose(
        run.parameters("mean"), trajectory.iloc[:, 4:].mean(axis=0), rtol=1e-12
    )


@pytest.mark.parametrize("form", [pytest.param("array", marks=pytest.mark.slow), "npy", "csv"])
def test_directions_store_projections(awkward, tmp_path, form):
    directions = np.random.default_rng(1).normal(size=(3, 9))
    source: Any = directions
    if form == "npy":
        source = str(tmp_path / "directions.npy")
        np.save(source, directions)
    elif form == "csv":
        source = str(tmp_path / "directions.csv")
        np.savetxt(
            source,
            directions,
            delimiter=",",
            header=",".join(f"d{i}" for i in range(9)),
            comments="",
        )
    run = simulation().sample(
        num_steps=15,
        record_every=RECORD,
        trajectory_every=STORE,
        num_burnin_steps=BURNIN,
        directions=source,
    )
    assert list(run.trajectory.columns) == ["step", "walker", "potential", "loss", "c0", "c1", "c2"]
    positions = awkward.run.trajectory.iloc[:2, 4:].to_numpy()
    np.testing.assert_allclose(run.trajectory.iloc[:, 4:], positions @ directions.T, rtol=1e-12)


@pytest.mark.parametrize("directions", [np.ones((2, 8)), np.full((1, 9), np.nan), "nowhere.npy"])
def test_directions_that_do_not_fit_are_refused(directions):
    with pytest.raises(InputError, match=r"^directions: .* Expected: "):
        simulation().sample(directions=directions)


def test_user_observables_get_a_column_each(awkward):
    observables = {
        "norm": lambda parameters: tf.norm(parameters, axis=-1),
        "first": lambda parameters: parameters[:, 0],
        "mean": lambda parameters: keras.ops.mean(parameters, axis=-1),
    }
    run = simulation().sample(
        num_steps=35, record_every=35, trajectory_every=35, observables=observables
    )
    assert list(run.run_info.columns[-3:]) == ["norm", "first", "mean"]
    positions = run.trajectory.iloc[:, 4:].to_numpy()
    np.testing.assert_allclose(run.run_info["norm"], np.linalg.norm(positions, axis=1), rtol=1e-13)
    np.testing.assert_array_equal(run.run_info["first"], positions[:, 0])
    np.testing.assert_allclose(run.run_info["mean"], positions.mean(axis=1), rtol=1e-13)


def test_names_of_columns_of_swaps_hold_any_number_elsewhere():
    quarter = {
        name: lambda parameters: parameters[:, 0] * 0 + 0.25
        for name in ("accepted", "batch_size", "rung_low")
    }
    run = simulation().sample(num_steps=4, record_every=2, observables=quarter)
    assert (run.run_info[list(quarter)] == 0.25).all(axis=None)


@pytest.mark.parametrize(
    ("observables", "sentence"),
    [
        (
            {"loss": lambda p: p[:, 0]},
            r"a column of run\.csv already has this name\. Received: loss\.",
        ),
        (
            {"all": lambda p: p},
            r"'all' must return one number per walker\. Received: shape \(2, 9\)\. Expected: \(2,\)\.",
        ),
        (
            {"norm": lambda p: np.linalg.norm(p, axis=1)},
            r"'norm' cannot be computed inside the compiled steps",
        ),
        (
            {"a\nb": lambda p: p[:, 0]},
            r"a name cannot be a column header\. Received: \['a\\nb'\]\.",
        ),
    ],
)
def test_observables_that_cannot_be_recorded_are_refused(observables, sentence):
    with pytest.raises(InputError, match=r"^observables: " + sentence):
        simulation().sample(num_steps=2, observables=observables)


def test_callbacks_are_called_when_the_files_are_up_to_date():
    seen = []

    def callback(folder, step):
        seen.append((step, load(folder).run_info["step"].max()))

    short().sample(num_steps=30, record_every=3, checkpoint_seconds=1e-9, callbacks=[callback])
    assert seen == [(9, 9), (18, 18), (27, 27), (30, 30)]


def test_metropolis_methods_record_their_acceptance(executed):
    rows, _ = executed("HMC", "graph")
    assert rows.columns[-1] == "acceptance"
    assert rows["acceptance"].between(0, 1).all()
    run = simulation(batch_size=None, execution="graph").sample(
        sampler=HamiltonianMonteCarlo(1, 0.0), num_steps=6, record_every=1, step_size=2.0
    )
    np.testing.assert_allclose(
        run.averages["acceptance"],
        run.run_info.groupby("walker")["acceptance"].expanding().mean().sort_index(level=1),
    )
    assert (run.run_info["acceptance"] < 0.5).any()


class BreakingState(NamedTuple):
    position: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    steps: Any
    rung: Any


class Breaking:
    """A random walk whose second walker becomes nan at a given step."""

    name = "Breaking"
    has_momentum = metropolis = full_batch = False
    current = True
    gradients_per_step = 1.0

    def __init__(self, at: int) -> None:
        self.at = at

    def init(self, position, evaluate, noise):
        energy = evaluate(position)
        steps = 0.0 * position[:, :1]
        fields = (
            position,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            steps,
            evaluate.rung,
        )
        return BreakingState(*fields)

    def step(self, state, evaluate, noise):
        second = np.array([[0.0], [1.0]])
        position = state.position + 0.01 * noise.normal(state.position.shape)
        position = where(
            (state.steps + 1) * second == float(self.at), position + float("nan"), position
        )
        energy = evaluate(position)
        new = (
            position,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            state.steps + 1,
            state.rung,
        )
        return BreakingState(*new), Info()

    def get_config(self) -> dict:
        return {"sampler": self.name, "at": self.at}


@pytest.mark.parametrize("execution", [pytest.param("graph", marks=pytest.mark.slow), "xla"])
def test_a_potential_that_becomes_nan_stops_the_run_and_keeps_what_came_before(tmp_path, execution):
    folder = tmp_path / "run"
    with pytest.raises(
        SamplingError, match=r"^The potential of walker 1 is nan after step 37\."
    ) as caught:
        simulation(execution=execution).sample(
            sampler=Breaking(37),
            num_steps=60,
            record_every=4,
            trajectory_every=9,
            output=str(folder),
        )
    assert (caught.value.step, caught.value.walker) == (37, 1)
    assert str(folder) in str(caught.value)
    run = load(folder)
    assert list(run.run_info.step) == [step for step in range(4, 37, 4) for _ in range(2)]
    assert list(run.averages.step) == list(run.run_info.step)
    assert list(run.trajectory.step) == [step for step in range(9, 37, 9) for _ in range(2)]
    assert np.isfinite(run.trajectory).all(axis=None)


@pytest.mark.parametrize(("sampler", "symbol"), [("BAOAB", "2/ω_max"), ("SGLD", "2/k_max")])
def test_a_step_size_that_is_too_large_is_told_with_its_limit(sampler, symbol):
    sim = simulation(hidden=[], batch_size=None)
    curvature = np.linalg.eigvalsh(sim.hessians(0))[-1]
    limit = 2 / np.sqrt(curvature) if sampler == "BAOAB" else 2 / curvature
    with pytest.raises(SamplingError, match=r"step_size \S+ is too large") as caught:
        sim.sample(sampler=sampler, num_steps=1000, step_size=float(3 * limit))
    said = re.search(rf"{symbol} = (\S+) from", str(caught.value))
    assert said is not None
    np.testing.assert_allclose(float(said[1]), limit, rtol=0.01)


@pytest.mark.parametrize(
    ("evaluation", "batch_size"),
    [
        ("vectorized", 4),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in [
                ("unrolled", None),
                ("vectorized", None),
                ("unrolled", 4),
                ("looped", None),
                ("looped", 4),
            ]
        ),
    ],
)
def test_xla_compiles_once(evaluation, batch_size):
    """Later chunks, which start at other steps, take less time in all than the compilation in the
    first call.
    """
    from time import perf_counter

    labels = (Y > 0).astype(int)
    system = {
        "data": (X, labels),
        "num_walkers": 3,
        "batch_size": batch_size,
        "walker_batches": "shared",
    }
    sim = Simulation(walker_evaluation=evaluation, verbose=0, **system)
    sim.limits = NINE
    seconds = []
    run = Loop.run

    def timed(self, *arguments):
        begin = perf_counter()
        chunk = run(self, *arguments)
        seconds.append(perf_counter() - begin)
        return chunk

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Loop, "run", timed)
        sim.sample(step_size=0.001, num_steps=60, execution="xla", trajectory_every=0)
    assert len(seconds) > 6
    assert sum(seconds[1:7]) < seconds[0]


def test_xla_compiles_once_for_other_starts_and_other_variables():
    """Another start has another limit on the energy; the potential has a variable.

    Both are arguments of the program. As constants they would take the compilation again, some
    hundred times the processor time of a chunk.
    """
    from time import process_time

    stiffness = tf.Variable([1.0, 2.0], dtype=tf.float64, trainable=False)
    potential = FunctionPotential(lambda x: tf.reduce_sum(stiffness * x * x, -1), num_parameters=2)
    method = Splitting("BAOAB", 1.0)
    loop = Loop(
        potential,
        method,
        Observables(method, None),
        rung_of(np.full(WALKERS, 0.1)),
        seed=1,
        execution="xla",
        record_every=10,
        limits=NINE,
    )
    seconds = []
    for number in range(1, 4):
        carry = loop.start(np.full((WALKERS, 2), float(number)), ())
        stiffness.assign([1.0, 1.0 + number])
        begin = process_time()
        loop.run(carry, 1, 9)
        seconds.append(process_time() - begin)
    assert sum(seconds[1:]) < 0.2 * seconds[0]


def test_a_graph_gives_the_same_bytes_again():
    """Sums of three arrays begin with the same one each time: with TensorFlow's own rewriting of
    them these runs part in the first hundred steps.
    """
    generator = np.random.default_rng(0)
    images, labels = (
        generator.integers(0, 256, (10_000, 3_072), dtype=np.uint8),
        generator.integers(0, 10, 10_000),
    )
    data = Dataset.from_arrays(images, labels, input_scale=1 / 255)
    found = []
    for _ in range(3):
        sim = Simulation(data=data, hidden=[3], batch_size=50, seed=1, verbose=0, execution="graph")
        run = sim.sample(step_size=5e-4, num_steps=100, record_every=1, trajectory_every=0)
        found.append(run.run_info["virial"])
    assert found[1].equals(found[0]) and found[2].equals(found[0])


@pytest.mark.parametrize(
    "ladder",
    [{}, pytest.param({"temperatures": [1.0, 2.0], "exchange_every": 3}, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize(
    "evaluation",
    ["looped", *(pytest.param(how, marks=pytest.mark.slow) for how in ("vectorized", "unrolled"))],
)
def test_a_row_of_each_step_takes_its_accuracy_from_the_pass_of_the_step(evaluation, ladder):
    """The numbers are those of a pass of their own, which rows of every other step have; the last
    batch is shorter, the second class weighs less, and some examples nothing.
    """
    labels, weights = (Y > 0).astype(int), np.where(Y > 0, 0.5, 1.0) * (np.arange(10) % 5 > 0)
    passes, metric = [], ModelPasses.metric

    def counted(self, *arguments):
        passes.append(arguments)
        return metric(self, *arguments)

    def rows(every: int):
        passes.clear()
        system = {
            "data": (X, labels, weights),
            "hidden": [2],
            "num_walkers": 3,
            "seed": 2,
            "verbose": 0,
        }
        sim = Simulation(walker_evaluation=evaluation, batch_size=4, **system)
        options = {
            "step_size": 0.02,
            "num_steps": 12,
            "record_every": every,
            "execution": "graph",
            **ladder,
        }
        return sim.sample(sampler="BAOAB", **options).run_info, len(passes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelPasses, "metric", counted)
        (each, shared), (other, own) = rows(1), rows(2)
    assert ladder or shared == 0 < own
    assert other["accuracy"].nunique() > 2
    found = each[each["step"] % 2 == 0].reset_index(drop=True)
    pandas.testing.assert_frame_equal(found, other, rtol=1e-12)
