"""Stages of a fit: each has its rate and mini-batches, the optimizer's state goes on, and so does a
resumed run.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.cli import optimize
from tati_re.core.backend import keras
from tati_re.core.process import programs
from tati_re.data import Batches
from tati_re.engine.limits import Limits
from tati_re.options.make import make_options, options_from_flags, read_toml, to_toml
from tati_re.runs import checkpoint
from tests.systems import tables

N, PRIOR = 10, 0.7
GENERATOR = np.random.default_rng(12)
X, Y = GENERATOR.normal(size=(N, 2)), GENERATOR.normal(size=N)
DESIGN = np.column_stack([X, np.ones(N)])
START = GENERATOR.normal(size=(2, 3))
# So few steps take less time one by one than the compilation of a loop for each stage.
OPTIONS = {
    "noise_std": 1.0,
    "dtype": "float64",
    "prior_std": PRIOR,
    "verbose": 0,
    "execution": "eager",
    # A vectorized map would be traced at each of these steps.
    "walker_evaluation": "unrolled",
    "num_walkers": 2,
    "seed": 5,
}
RATES, SIZES, STEPS = (0.2, 0.1, 0.02), (3, 5, None), (6, 4, 5)
STAGES = [
    {"num_steps": steps, "learning_rate": rate, "batch_size": size}
    for steps, rate, size in zip(STEPS, RATES, SIZES, strict=True)
]


def fitted(start=None, **options):
    execution = options.pop("execution", OPTIONS["execution"])
    sim = Simulation(data=(X, Y), **OPTIONS | {"execution": execution})
    sim.parameters = START if start is None else start
    run = sim.fit(**{"record_every": 1, "trajectory_every": 1} | options)
    return sim.parameters, run


def slope(theta, rows=slice(None)) -> np.ndarray:
    """∇U / N of linear regression with unit noise on some of the examples."""
    design = DESIGN[rows]
    return design.T @ (design @ theta - Y[rows]) / len(design) + theta / PRIOR**2 / N


def descent(number_of_stage=lambda stage: stage) -> np.ndarray:
    """Every position of a plain descent through `STAGES`, `(steps, walkers, parameters)`: step j of
    a stage follows the gradient on its batch j - 1.
    """
    theta, found = START.copy(), []
    for stage, (steps, rate, size) in enumerate(zip(STEPS, RATES, SIZES, strict=True)):
        indices, sizes = Batches(N, size, 2, OPTIONS["seed"], stage=number_of_stage(stage)).indices(
            0, steps
        )
        for step in range(steps):
            rows = [indices[step, walker, : sizes[step]] for walker in range(2)]
            theta = np.array(
                [theta[walker] - rate * slope(theta[walker], rows[walker]) for walker in range(2)]
            )
            found.append(theta)
    return np.array(found)


@pytest.fixture(scope="module")
def staged():
    return fitted(optimizer="gradient_descent", stages=STAGES, execution="graph")


def test_each_stage_descends_at_its_rate_on_its_own_mini_batches(staged):
    parameters, run = staged
    found = run.trajectory.iloc[:, 4:].to_numpy().reshape(15, 2, 3)
    np.testing.assert_allclose(found, descent(), rtol=1e-10)
    np.testing.assert_array_equal(parameters, found[-1])
    # Had all stages one key, the second would have drawn the numbers of the first again.
    assert np.abs(found - descent(lambda stage: 0)).max() > 1e-3


def test_run_csv_is_one_and_shows_the_rate_of_each_stage(staged):
    _, run = staged
    assert list(run.run_info["step"].unique()) == list(range(1, 16))
    for (_, step, rate), walker in itertools.product(
        [(0, 6, 0.2), (6, 10, 0.1), (10, 15, 0.02)], (0, 1)
    ):
        assert (
            run.run_info.query(f"step == {step} and walker == {walker}")["step_size"].item() == rate
        )
    shown = run.run_info.query("walker == 0")["step_size"]
    assert list(shown) == [0.2] * 6 + [0.1] * 4 + [0.02] * 5
    full = run.run_info.query("step > 10")
    theta = run.trajectory.query("step > 10").iloc[:, 4:].to_numpy()
    exact = [0.5 * np.mean((DESIGN @ row - Y) ** 2) + 0.5 * np.log(2 * np.pi) for row in theta]
    np.testing.assert_allclose(full["loss"], exact, rtol=1e-10)
    assert full["loss"].iloc[-1] < run.run_info["loss"].iloc[:2].mean()


def test_the_manifest_says_the_stages(staged):
    _, run = staged
    options = run.manifest["options"]
    assert options["num_steps"] == 15
    assert options["stages"] == [*STAGES[:2], STAGES[2] | {"batch_size": "all"}]
    assert "from the examples of each stage" in run.manifest["meaning"]


def test_one_stage_is_a_plain_fit(tmp_path):
    plain = {"learning_rate": 0.1, "batch_size": 4, "num_steps": 12}
    fitted(optimizer="adam", output=str(tmp_path / "plain"), **plain)
    fitted(optimizer="adam", output=str(tmp_path / "staged"), stages=[plain])
    assert tables(tmp_path / "plain") == tables(tmp_path / "staged")


def test_stages_share_no_numbers_and_a_stage_draws_none_twice():
    """Same seed and batch size: the orderings of 12 epochs differ, within a stage and between two
    (10! of them).
    """
    orders = {
        Batches(N, 5, 1, 5, stage=stage).indices(2 * epoch, 2)[0].tobytes()
        for stage in (0, 1)
        for epoch in range(6)
    }
    assert len(orders) == 12


# momenta and slots

TWO = [{"num_steps": 8, "learning_rate": 0.1}, {"num_steps": 8, "learning_rate": 0.05}]


@pytest.mark.slow
def test_stages_of_one_batch_size_are_compiled_once():
    def number_of_programs(*sizes: int) -> int:
        programs._programs.clear()
        plans = zip(RATES, sizes, strict=True)
        stages = [
            {"num_steps": 3, "learning_rate": rate, "batch_size": size} for rate, size in plans
        ]
        graph = fitted(stages=stages, execution="graph")[0]
        np.testing.assert_allclose(graph, fitted(stages=stages)[0], rtol=1e-12)
        return len(programs._programs)

    assert number_of_programs(3, 5, 3) < number_of_programs(3, 5, 4)


def with_momentum(reset: bool) -> np.ndarray:
    theta, velocity = START.copy(), np.zeros_like(START)
    for rate in (0.1, 0.05):
        velocity = np.zeros_like(START) if reset else velocity
        for _ in range(8):
            velocity = 0.9 * velocity - rate * np.array([slope(row) for row in theta])
            theta = theta + velocity
    return theta


def test_momenta_go_on_from_stage_to_stage():
    """Starting the second stage at rest moves the end by more than 0.01; Keras' float32 rates by
    less than 1e-6.
    """
    found, _ = fitted(optimizer="sgd", momentum=0.9, stages=TWO, execution="graph")
    np.testing.assert_allclose(found, with_momentum(reset=False), atol=1e-6)
    assert np.abs(found - with_momentum(reset=True)).max() > 1e-2
    first, _ = fitted(optimizer="sgd", momentum=0.9, stages=TWO[:1], execution="graph")
    second, _ = fitted(first, optimizer="sgd", momentum=0.9, stages=TWO[1:], execution="graph")
    np.testing.assert_allclose(second, with_momentum(reset=True), atol=1e-6)


def test_adam_counts_its_steps_through_all_stages():
    expected = []
    for row in START:
        variable, adam = keras.Variable(row, dtype="float64"), keras.optimizers.Adam(0.1)
        for step in range(16):
            adam.learning_rate = 0.1 if step < 8 else 0.05
            adam.apply([slope(variable.numpy())], [variable])
        expected.append(variable.numpy())
    found, _ = fitted(optimizer="adam", stages=TWO, execution="graph")
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_an_optimizer_object_keeps_its_rate_where_a_stage_says_none():
    stages = [{"num_steps": 2, "batch_size": 3}, {"num_steps": 2, "learning_rate": 0.25}]
    _, run = fitted(optimizer=keras.optimizers.SGD(0.5), stages=stages)
    assert list(run.run_info.query("walker == 1")["step_size"]) == [0.5, 0.5, 0.25, 0.25]
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
    _, run = fitted(optimizer=keras.optimizers.SGD(schedule), stages=stages[:1])
    assert run.run_info["step_size"].isna().all()


# resume


def start(folder: Path, execution: str, kind: type[Simulation] = Simulation, **options):
    sim = kind(data=(X, Y), **OPTIONS | {"execution": execution, "dtype": "float32"})
    optimizer = {"optimizer": "sgd", "momentum": 0.9}
    return sim.fit(
        **optimizer
        | {"record_every": 2, "trajectory_every": 3, "stages": STAGES, "output": str(folder)}
        | options
    )


@pytest.mark.parametrize(
    ("execution", "chunk", "cuts"),
    [
        ("eager", 1, [1, 2, 3, 4, 5, 6]),
        pytest.param("xla", 2, [2, 3, 5, 6], marks=pytest.mark.slow),
    ],
)
def test_a_run_cut_before_at_and_after_the_ends_of_stages_is_one_run(
    tmp_path, execution, chunk, cuts
):
    stages = [stage | {"num_steps": 3} for stage in STAGES[:2]]
    start(tmp_path / "whole", execution, stages=stages)

    class Short(Simulation):
        limits = Limits(most_steps=chunk, first_steps=chunk)

    folder, reached = tmp_path / "cut", []
    start(folder, execution, Short, stages=stages, max_time=1e-9)
    reached.append(checkpoint.load(folder)[1]["step"])
    while reached[-1] < 6:
        Short.resume(str(folder), data=(X, Y), max_time=1e-9)
        reached.append(checkpoint.load(folder)[1]["step"])
    assert reached == cuts
    assert tables(folder) == tables(tmp_path / "whole")
    assert (
        load(folder).manifest["options"]["stages"]
        == load(tmp_path / "whole").manifest["options"]["stages"]
    )


def test_the_last_stage_goes_on_where_a_run_is_made_longer(tmp_path):
    longer = [*STAGES[:2], STAGES[2] | {"num_steps": 9}]
    start(tmp_path / "whole", "eager", stages=longer)
    start(tmp_path / "longer", "eager")
    run = Simulation.resume(str(tmp_path / "longer"), 19, data=(X, Y))
    assert tables(tmp_path / "longer") == tables(tmp_path / "whole")
    assert run.manifest["options"]["num_steps"] == 19
    assert [stage["num_steps"] for stage in run.manifest["options"]["stages"]] == [6, 4, 9]


def test_a_run_that_is_to_stop_early_keeps_its_plan(tmp_path):
    start(tmp_path / "whole", "eager")
    start(tmp_path / "cut", "eager", max_time=1e-9)
    for steps in (8, 15):
        run = Simulation.resume(str(tmp_path / "cut"), steps, data=(X, Y))
        assert run.manifest["options"]["num_steps"] == steps
        assert [stage["num_steps"] for stage in run.manifest["options"]["stages"]] == list(STEPS)
    assert tables(tmp_path / "cut") == tables(tmp_path / "whole")


# three doors

TEXTS = ["6:0.2:3", "4:0.1:5", "5:0.02:all"]
TABLES = """
[[stages]]
num_steps = 6
learning_rate = 0.2
batch_size = 3
[[stages]]
num_steps = 4
learning_rate = 0.1
batch_size = 5
[[stages]]
num_steps = 5
learning_rate = 0.02
batch_size = "all"
"""


def test_python_flags_and_toml_say_the_same(tmp_path):
    options = make_options(stages=STAGES)
    assert options_from_flags({"stages": TEXTS}) == make_options(stages=TEXTS) == options
    (tmp_path / "run.toml").write_text("seed = 3\n" + TABLES)
    assert make_options(read_toml(tmp_path / "run.toml")) == make_options(options, seed=3)
    printed = to_toml(options)
    assert "# num_steps is the sum of the stages\n" in printed
    (tmp_path / "run.toml").write_text(printed)
    assert make_options(read_toml(tmp_path / "run.toml")).stages == options.stages
    assert (
        make_options(stages=["7", "8:0.5"]).stages
        == make_options(stages=[{"num_steps": 7}, "8:0.5"]).stages
    )
    assert (
        make_options(stages=[{"num_steps": np.int64(7), "learning_rate": np.float32(0.5)}])
        .stages[0]
        .num_steps
        == 7
    )


def test_stages_of_a_call_replace_the_number_of_steps_before_it():
    assert make_options(make_options(num_steps=9, seed=1), stages=TEXTS).explicit == {
        "seed",
        "stages",
    }


def test_a_stage_takes_what_it_leaves_out_from_the_run():
    sim = Simulation(data=(X, Y), **OPTIONS, batch_size=5, learning_rate=0.3)
    stages = ["2", "2:0.1", {"num_steps": 2, "batch_size": None}]
    run = sim.fit(optimizer="sgd", stages=stages, record_every=1, trajectory_every=1)
    assert list(run.run_info.query("walker == 0")["step_size"]) == [0.3, 0.3, 0.1, 0.1, 0.3, 0.3]
    theta = run.trajectory.query("step == 6 and walker == 0").iloc[0, 4:].to_numpy(float)
    found = run.run_info.query("step == 6 and walker == 0")["loss"].item()
    assert found == pytest.approx(
        0.5 * np.mean((DESIGN @ theta - Y) ** 2) + 0.5 * np.log(2 * np.pi), rel=1e-10
    )


def test_the_command_runs_its_stages(tmp_path):
    folder = str(tmp_path / "run")
    typed = [
        "--data",
        "two_clusters",
        "--stages",
        "20:0.05:50",
        "20:0.01:all",
        "--output",
        folder,
        "--quiet",
    ]
    assert optimize.main([*typed, "--optimizer", "sgd", "--record-every", "20"]) == 0
    assert list(load(folder).run_info["step_size"]) == [0.05, 0.01]


# bad input

STAGE = "num_steps[:learning_rate[:batch_size]] such as 3000:0.5:550, or the same as a table"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"stages": "3000:0.5"},
            "stages has the wrong type. Received: '3000:0.5'. Expected: a list of stages.",
        ),
        ({"stages": [7]}, f"stages: stage 1 is not valid. Received: 7. Expected: {STAGE}."),
        (
            {"stages": ["1:2:3:4"]},
            f"stages: stage 1 is not valid. Received: 1:2:3:4. Expected: {STAGE}.",
        ),
        (
            {"stages": ["9", "2.5:1"]},
            "stages: num_steps of stage 2 is not valid. Received: 2.5. Expected: an integer at least 1.",
        ),
        (
            {"stages": [{"num_steps": 0}]},
            "stages: num_steps of stage 1 is not valid. Received: 0. Expected: an integer at least 1.",
        ),
        (
            {"stages": ["9:-0.1"]},
            "stages: learning_rate of stage 1 is not valid. Received: -0.1. Expected: a number greater than 0.",
        ),
        (
            {"stages": ["9:fast"]},
            "stages: learning_rate of stage 1 is not valid. Received: 'fast'. Expected: a number greater than 0.",
        ),
        (
            {"stages": ["9:nan"]},
            "stages: learning_rate of stage 1 is not valid. Received: nan. Expected: a number greater than 0.",
        ),
        (
            {"stages": ["9:0.1:some"]},
            "stages: batch_size of stage 1 is not valid. Received: 'some'. Expected: an integer at least 1, or all.",
        ),
        (
            {"stages": ["9:0.1:0"]},
            "stages: batch_size of stage 1 is not valid. Received: 0. Expected: an integer at least 1, or all.",
        ),
        (
            {"stages": [{"batch_size": 3}]},
            "stages: stage 1 has no num_steps. Expected: an integer at least 1.",
        ),
        (
            {"stages": [{"num_steps": 3, "learning_rat": 1.0}]},
            "stages: learning_rat of stage 1 is not known. Did you mean 'learning_rate'? "
            "Expected: num_steps, learning_rate, batch_size.",
        ),
        (
            {"stages": [{"num_steps": 3, "seed": 1}]},
            "stages: seed of stage 1 is not known. Expected: num_steps, learning_rate, batch_size; "
            "other options stand above [[stages]].",
        ),
        (
            {"stages": ["9", "8"], "num_steps": 20},
            "num_steps contradicts stages. Received: num_steps = 20 with stages of 17 steps. "
            "Expected: no num_steps with stages, or their sum.",
        ),
        (
            {"stages": ["9", "8:0.1:11"]},
            "stages: batch_size of stage 2 is larger than the data set. Received: 11. Expected: 1 to 10, or all.",
        ),
        (
            {"stages": ["9", "8"], "optimizer": "barzilai_borwein"},
            (
                "stages: barzilai_borwein determines its own rate, on all examples. "
                "Received: 2 stages. Expected: num_steps instead, or an optimizer with a "
                "learning rate such as sgd."
            ),
        ),
        (
            {
                "stages": ["9", "8:0.25"],
                "optimizer": keras.optimizers.SGD(
                    keras.optimizers.schedules.ExponentialDecay(0.1, 5, 0.5)
                ),
            },
            "stages: the sgd object has its own learning rate schedule. Received: learning_rate = 0.25 of "
            "stage 2. Expected: stages without learning_rate, or an optimizer with a constant one.",
        ),
    ],
)
def test_bad_stages_are_one_sentence(options, sentence):
    with pytest.raises(InputError) as caught:
        fitted(**options)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        (["--stages", "9:x"], "--stages: learning_rate of stage 1 is not valid. Received: 'x'."),
        (
            ["--stages", "9", "8", "--num-steps", "20"],
            "--num-steps contradicts stages. Received: --num-steps = 20",
        ),
        (
            ["--stages", "9:0.1:9999"],
            "--stages: batch_size of stage 1 is larger than the data set. Received: 9999.",
        ),
    ],
)
def test_bad_flags_are_one_line_and_status_2(tmp_path, monkeypatch, capsys, typed, sentence):
    monkeypatch.chdir(tmp_path)
    assert optimize.main(["--data", "two_clusters", *typed]) == 2
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.splitlines()) == 1
    assert not list(tmp_path.iterdir())
