"""Every kind of model: slopes of the potential, ways to compute several walkers, resumed runs, and
a quiet terminal.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tati_re import Simulation
from tests.systems import tables
from tests.zoo import LABELS, ZOO, N, built

WALKERS = 2
OPTIONS = {"dtype": "float64", "execution": "graph", "verbose": 0}
LIKE_OTHERS = (
    *(
        "LSTM",
        "GRU",
        "vision transformer",
        "text",
        "Conv1D",
        "BatchNormalization, frozen",
        "subclassed",
    ),
    "BatchNormalization, batch",
)
"""Made of layers that others have, or long: the text of an embedding."""
RESUMED = [
    name if animal.fast else pytest.param(name, marks=pytest.mark.slow)
    for name, animal in ZOO.items()
]


def simulation(name: str, **options) -> Simulation:
    animal = ZOO[name]
    return Simulation(built(name), (animal.inputs, LABELS), **OPTIONS | animal.options | options)


def test_the_zoo_has_no_doubles():
    assert len(ZOO) == 15
    assert all(
        10 <= simulation(name).num_parameters() <= 100
        for name in ("Dense", "two inputs", "subclassed")
    )


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.slow if name in (*LIKE_OTHERS, "attention", "two inputs") else (),
        )
        for name in ZOO
    ],
)
def test_gradients_are_slopes_and_walkers_agree(name):
    """Central differences of fourth order in float64, and the same gradients whatever way walkers
    are computed.
    """
    one = simulation(name)
    start, count = one.parameters.copy(), one.num_parameters()
    moved = start + 0.1 * np.random.default_rng(2).normal(size=(WALKERS, count))
    one.parameters = moved[0]
    gradient = one.gradients()
    step, slopes = 1e-3, np.zeros(count)
    for k in range(count):
        values = {}
        for times in (-2, -1, 1, 2):
            there = moved[0].copy()
            there[k] += times * step
            one.parameters = there
            values[times] = one.potential()
        slopes[k] = (8 * (values[1] - values[-1]) - (values[2] - values[-2])) / (12 * step)
    assert np.abs(gradient).max() > 0.1
    assert np.linalg.norm(slopes - gradient) < 1e-6 * np.linalg.norm(gradient)
    # A gradient of N times the mean loss without the prior would be found out.
    assert np.linalg.norm(slopes - gradient + moved[0]) > 1e-3 * np.linalg.norm(gradient)
    found = {}
    for how in ("unrolled", "looped", "vectorized"):
        sim = simulation(name, num_walkers=WALKERS, walker_evaluation=how)
        sim.parameters = moved
        found[how] = np.column_stack([sim.potential(), sim.gradients()])
        np.testing.assert_allclose(found[how], found["unrolled"], rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found["looped"][0, 1:], gradient, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", RESUMED)
def test_a_resumed_run_is_the_same_byte_for_byte(name, tmp_path):
    options = {
        "batch_size": 4,
        "num_walkers": 2,
        "step_size": 0.01,
        "record_every": 1,
        "trajectory_every": 2,
    }
    for folder, steps in (("whole", 5), ("parts", 2)):
        simulation(name, **options).sample(num_steps=steps, output=str(tmp_path / folder))
    data = (ZOO[name].inputs, LABELS)
    Simulation.resume(str(tmp_path / "parts"), 5, data=data)
    assert tables(tmp_path / "whole") == tables(tmp_path / "parts")


@pytest.mark.slow
def test_what_cannot_be_vectorised_is_said_in_one_sentence_and_nothing_else(tmp_path):
    """In a process of its own, whose terminal is its file descriptors; it loads the checks of
    samplers for none.
    """
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, tati_re\n"
        "dir(tati_re)\n"
        "assert not {'tati_re.testing', 'tensorflow'} & set(sys.modules)\n"
        "from tests.zoo import LABELS, ZOO, built\n"
        "from tati_re import Simulation\n"
        "sim = Simulation(built('Conv2D'), (ZOO['Conv2D'].inputs, LABELS), num_walkers=2, execution='graph',\n"
        "                 walker_evaluation='vectorized')\n"
        "run = sim.sample(step_size=0.001, num_steps=3)\n"
        "assert run.manifest['walker_evaluation'] == 'unrolled' and 'tati_re.testing' not in sys.modules\n"
        "assert tati_re.testing.check_sampler\n"
    )
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    # The default of a user's shell, not that of the tests.
    environment.pop("TF_CPP_MIN_LOG_LEVEL", None)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=tmp_path,
    )
    assert done.stderr == ""
    assert done.stdout.count("cannot be vectorized. Walkers are computed one by one.") == 1
    assert len(done.stdout.splitlines()) < 20
    assert len(done.stdout) < 1500, done.stdout


def test_n_examples_are_enough():
    assert len(LABELS) == N
