"""Samplers of users under masses and tempering: one that asks on mini-batches and may go back, one
with a memory.
"""

from typing import Any, NamedTuple

import numpy as np
import pytest

import tati_re
from tati_re.samplers import HamiltonianMonteCarlo, Info, LangevinState, Method, SimulatedTempering
from tati_re.samplers.functions import column, exp, minimum, sqrt, sum_of_products, where


class OwnMetropolis(Method):
    """Hybrid Monte Carlo of one step that asks for the energies of its batch, and goes back where
    it is rejected.
    """

    name = "OwnMetropolis"
    has_momentum = metropolis = True

    def init(self, position, evaluate, noise):
        energy, rung = evaluate(position), evaluate.rung
        momentum = sqrt(column(rung.temperature, position)) * noise.normal(position.shape)
        return LangevinState(
            position,
            momentum,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            rung,
        )

    def step(self, state, evaluate, noise):
        x, rung = state.position, state.rung
        h, temperature = column(rung.step_size, x), column(rung.temperature, x)
        kept = exp(-h)
        before = kept * state.momentum + sqrt((1 - kept * kept) * temperature) * noise.normal(
            x.shape
        )
        half = before - h / 2 * state.gradient
        there = x + h * half
        new = evaluate(there)
        after = half - h / 2 * new.gradient
        kinetic = 0.5 * (sum_of_products(after, after) - sum_of_products(before, before))
        change = new.potential - state.potential + kinetic
        rate = exp(minimum(-rung.inverse_temperature * change, 0.0 * change))
        accepted = noise.uniform(change.shape) < where(rate == rate, rate, 0.0 * rate)
        moved = accepted[:, None]
        own = {"position": where(moved, there, x), "momentum": where(moved, after, -before)}
        own["gradient"] = where(moved, new.gradient, state.gradient)
        energies = {name: getattr(new, name) for name in ("potential", "loss", "log_prior")}
        own |= {
            name: where(accepted, value, getattr(state, name)) for name, value in energies.items()
        }
        return state._replace(**own), Info(acceptance=rate, energy_change=change)


class RememberingState(NamedTuple):
    position: Any
    momentum: Any
    memory: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    rung: Any


class Remembering(Method):
    """Langevin dynamics whose friction acts through a variable of its own, N(0, T) in
    equilibrium.
    """

    name = "Remembering"
    has_momentum = True
    of_rung: tuple[str, ...] = ("memory",)

    def init(self, position, evaluate, noise):
        root = sqrt(column(evaluate.rung.temperature, position))
        momentum, memory = (root * noise.normal(position.shape) for _ in range(2))
        energy = evaluate(position)
        known = energy.gradient, energy.potential, energy.loss, energy.log_prior
        return RememberingState(position, momentum, memory, *known, evaluate.rung)

    def step(self, state, evaluate, noise):
        x, rung = state.position, state.rung
        h, temperature = column(rung.step_size, x), column(rung.temperature, x)
        half = h / 2
        momentum = state.momentum - half * state.gradient
        x = x + half * momentum
        cosine, sine = (1 - half * half) / (1 + half * half), 2 * half / (1 + half * half)
        momentum, memory = (
            cosine * momentum + sine * state.memory,
            cosine * state.memory - sine * momentum,
        )
        kept = exp(-0.1 * h)
        memory = kept * memory + sqrt((1 - kept * kept) * temperature) * noise.normal(x.shape)
        momentum, memory = cosine * momentum + sine * memory, cosine * memory - sine * momentum
        x = x + half * momentum
        energy = evaluate(x)
        momentum = momentum - half * energy.gradient
        known = energy.gradient, energy.potential, energy.loss, energy.log_prior
        return RememberingState(x, momentum, memory, *known, rung), Info()


def narrow(x):
    return 0.5 * x[:, 0] ** 2 + 50 * x[:, 1] ** 2


def well(x):
    return 0.5 * x[:, 0] ** 2 + 0.5 * x[:, 1] ** 2


QUIET = {"execution": "graph", "verbose": 0}


@pytest.mark.parametrize(
    ("h", "mass"),
    [
        pytest.param(0.15, [1.0, 1.0], marks=pytest.mark.slow),
        (1.2, [1.0, 100.0]),
        pytest.param(0.15, "fisher", marks=pytest.mark.slow),
    ],
)
def test_a_mass_keeps_the_law_of_a_test_on_the_energies_that_a_step_asked_for(h, mass):
    """Variances of 200 walkers within 5.5 standard errors; the gradient of what was rejected gives
    .54 to .90.
    """
    start = np.random.default_rng(0).normal(size=(200, 2)) * [1, 0.1]
    sim = tati_re.Simulation(
        potential=narrow, dimension=2, num_walkers=200, seed=3, verbose=0, parameters=start
    )
    given = {"mass": np.array(mass) if isinstance(mass, list) else mass, **QUIET}
    run = sim.sample(
        sampler=OwnMetropolis(),
        step_size=h,
        num_steps=1000,
        num_burnin_steps=300,
        trajectory_every=5,
        **given,
    )
    squares = run.trajectory.groupby("walker")[["x[0]", "x[1]"]].apply(
        lambda x: (x**2).mean()
    ).to_numpy() * [1, 100]
    errors = squares.std(0, ddof=1) / 200**0.5
    assert (errors < 0.04).all()
    assert (np.abs(squares.mean(0) - 1) < 5.5 * errors).all()


@pytest.mark.parametrize("copies", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_what_belongs_to_a_rung_stays_there_while_a_walker_is_elsewhere(copies, monkeypatch):
    """Mean U/T at three temperatures, 1 each; a memory that travels gives 1.3 to 1.5."""
    if not copies:
        monkeypatch.setattr(Remembering, "of_rung", ())
    sampler = SimulatedTempering(Remembering(), inverse_temperatures=[1.0, 0.4, 0.15], move_every=2)
    sim = tati_re.Simulation(potential=well, dimension=2, num_walkers=200, seed=3, verbose=0)
    run = sim.sample(
        sampler=sampler,
        step_size=0.3,
        num_steps=1600,
        num_burnin_steps=400,
        record_every=4,
        **QUIET,
    )
    rows = run.run_info[run.run_info["step"] > 400]
    for rung, temperature in enumerate((1, 2.5, 1 / 0.15)):
        means = rows[rows["rung"] == rung].groupby("walker")["potential"].mean() / temperature
        error = means.std() / len(means) ** 0.5
        assert (abs(means.mean() - 1) < 5.5 * error) == copies
        assert error < 0.05


@pytest.mark.slow
def test_averages_of_a_walker_that_comes_and_goes_take_all_of_its_rows_at_the_target():
    sampler = SimulatedTempering(
        HamiltonianMonteCarlo(5), inverse_temperatures=[1.0, 0.3, 0.1], move_every=50
    )
    sim = tati_re.Simulation(potential=narrow, dimension=2, num_walkers=8, seed=3, verbose=0)
    run = sim.sample(
        sampler=sampler,
        step_size=0.1,
        num_steps=1000,
        num_burnin_steps=300,
        record_every=1,
        **QUIET,
    )
    rows = run.run_info.query("step > 300 and weight == 1")
    assert rows.groupby("walker").size().nunique() > 1
    found = tati_re.analysis.averages(run, ["potential"]).iloc[0]
    assert found["rows"] == len(rows)
    assert found["mean"] == pytest.approx(rows["potential"].mean(), rel=1e-12)
    assert found["std"] == pytest.approx(rows["potential"].std(ddof=0), rel=1e-12)
