"""Runs that leave what is possible stop and say why; runs that only begin far away do not."""

from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re import SamplingError, Simulation, load
from tati_re.core.backend import tf
from tati_re.engine.divergence import highest_energy
from tati_re.samplers import Info
from tati_re.summary.summary import summary_lines
from tests.engine.test_engine import Breaking

EXECUTION = {"execution": "eager", "verbose": 0, "seed": 1}


def housing(number=120):
    """Inputs and targets as those of Boston housing, in the units of their file."""
    generator = np.random.default_rng(3)
    crime = np.exp(generator.uniform(np.log(0.00632), np.log(89.0), number))
    rooms, tax = generator.normal(6.3, 0.7, number), generator.choice([187.0, 403.0, 711.0], number)
    return np.stack([crime, rooms, tax], 1), np.clip(22 + 9 * (rooms - 6.3) - 0.01 * tax, 5, 50)


@pytest.mark.parametrize("hidden", [[], [4]])
def test_raw_housing_as_it_is_stops_with_advice(tmp_path, hidden, capsys):
    """It ended normally, at U = 1e41."""
    folder = tmp_path / "run"
    raw = {"loss": "mean_squared_error", "hidden": hidden, "standardize": "none", **EXECUTION}
    sim = Simulation(data=housing(), **raw)
    with pytest.raises(
        SamplingError, match=r"^The .* of walker 0 is \S+ after step \d+, above the limit"
    ) as caught:
        sim.sample(step_size=0.001, num_steps=100, record_every=1, output=str(folder))
    said = str(caught.value)
    assert "step_size 0.001 is too large" in said and "ω_max is" in said and "above 2" in said
    assert "The inputs range from 0.00" in said and " to 711: standardize='all'" in said
    run = load(folder)
    assert len(run.run_info) < caught.value.step
    notes, _ = summary_lines(run)
    assert notes[0].startswith("The run stopped: The ")
    capsys.readouterr()
    with pytest.raises(SamplingError, match=r"^The .* of walker 0 is") as again:
        Simulation.resume(str(folder), data=housing(), verbose=1)
    assert again.value.step == caught.value.step
    assert "This run stopped: The " in capsys.readouterr().out


class RacingState(NamedTuple):
    position: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    rung: Any
    momentum: Any


class Racing(Breaking):
    """Momenta that double at each step, in positions that stay: the kinetic energy alone tells."""

    has_momentum = True

    def init(self, position, evaluate, noise):
        energy = evaluate(position)
        fields = (energy.gradient, energy.potential, energy.loss, energy.log_prior, evaluate.rung)
        return RacingState(position, *fields, 0.0 * position + 1.0)

    def step(self, state, evaluate, noise):
        return state._replace(momentum=2.0 * state.momentum), Info()


def test_a_kinetic_energy_that_runs_away_stops_at_a_row(tmp_path):
    sim = Simulation(
        data=housing(),
        loss="mean_squared_error",
        standardize="all",
        hidden=[],
        num_walkers=2,
        **EXECUTION,
    )
    with pytest.raises(SamplingError, match=r"^The energy U \+ p·p/2 of walker 0 is") as caught:
        sim.sample(
            sampler=Racing(0),
            step_size=0.001,
            num_steps=300,
            record_every=5,
            output=str(tmp_path / "run"),
        )
    rows = load(tmp_path / "run").run_info
    assert caught.value.step == rows["step"].max() + 5 and rows["kinetic_energy"].max() > 1e3


def test_a_start_far_above_and_a_hot_ladder_do_not_stop():
    system = {"data": housing(), "loss": "mean_squared_error", "standardize": "all", "hidden": []}
    sim = Simulation(**system, **EXECUTION)
    sim.parameters = 1e4 * np.ones(sim.num_parameters())
    run = sim.sample(num_steps=60, step_size=0.05, friction=1.0, record_every=5)
    assert run.run_info["potential"].iloc[-1] < 0.1 * run.run_info["potential"].iloc[0]
    assert run.run_info["kinetic_energy"].max() > 1e5, "what falls becomes fast, far beyond 1,000 T"
    hot = {"temperatures": [1.0, 1e6], "sampler": "BAOAB", "step_size": 0.05, "exchange_every": 10}
    sim = Simulation(**system, **EXECUTION | {"execution": "graph"})
    assert sim.sample(num_steps=50, **hot).run_info["step"].max() == 50


def test_a_fit_that_diverges_stops():
    sim = Simulation(
        data=housing(), loss="mean_squared_error", hidden=[], standardize="none", **EXECUTION
    )
    with pytest.raises(
        SamplingError, match=r"^The potential .* Try a smaller learning_rate\. The inputs range"
    ) as caught:
        sim.fit(optimizer="gradient_descent", learning_rate=0.01, num_steps=500)
    assert caught.value.step < 10


def test_no_correct_run_comes_to_the_bound():
    """A harmonic U of P parameters, T χ²(P)/2, at every rung; a start above it, and potentials
    below 0, are allowed.
    """
    for parameters in (1, 2, 100, 100_000):
        for temperature in (1e-6, 1.0, 1e6):
            bound = highest_energy(np.array([0.0]), np.array([0.0]), temperature, parameters, 1.0)
            assert chi2.logsf(bound / temperature, 2 * parameters) < -500
    assert highest_energy(np.array([1e12, 5.0]), np.array([1e12, 5.0]), 1.0, 3, 10.0) > 1e12
    assert highest_energy(np.array([-1e9]), np.array([-1e9]), 1.0, 3, 10.0) > 0
    assert highest_energy(np.array([1.0]), np.array([1.0]), 0.0, 3, 10.0) == 1.0 + 1e6 * 11


STIFF = {"potential": lambda x: 5e3 * tf.reduce_sum(x * x, -1), "dimension": 3, **EXECUTION}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            {"mass": np.full(3, 0.01)},
            "is too large for the parameters that mass or preconditioner speed up",
        ),
        (
            {"mass": "fisher", "num_burnin_steps": 200, "step_size": 0.1},
            "step_size 0.1 is too large: the stability limit",
        ),
    ],
    ids=["given", "measured"],
)
def test_with_a_mass_the_limit_is_another(options, said):
    """The limit in θ is 0.02; a mass of 0.01 has a tenth of it."""
    with pytest.raises(SamplingError, match=said):
        Simulation(**STIFF, parameters=np.ones(3)).sample(
            **{"step_size": 0.01, "num_steps": 300} | options
        )


def test_a_divergence_in_the_first_turn_is_not_one_of_the_start():
    """A half of the walkers moves 100 steps while the others are at step 0."""
    sim = Simulation(**STIFF, num_walkers=8, walker_start="jitter", walker_jitter=0.1)
    with pytest.raises(
        SamplingError, match=r"after step 0, .*step_size 0\.2 is too large"
    ) as caught:
        sim.sample(step_size=0.2, num_steps=200, covariance_blending=10.0)
    assert caught.value.step == 0 and "Look for infinities" not in str(caught.value)


def test_on_a_ladder_the_longest_step_is_told():
    """U = 50 x²: the limit is 0.2. The step of the target is below it, that of the hot rung is
    not.
    """
    sim = Simulation(
        potential=lambda x: 50 * tf.reduce_sum(x * x, -1),
        dimension=2,
        parameters=[0.1, 0.1],
        execution="graph",
        verbose=0,
    )
    with pytest.raises(
        SamplingError, match=r"step_size 0\.5 is too large: the stability limit at the start"
    ):
        sim.sample(sampler="BAOAB", temperatures=[1.0, 2.0], step_sizes=[0.1, 0.5], num_steps=100)
