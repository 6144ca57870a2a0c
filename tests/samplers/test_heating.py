"""The heating that a run with mini-batches predicts: closed forms, every order of small epochs, and
runs.

The prediction is a pure function of the sampler's own step (`tati_re.analysis.heating`), fed by one
measurement of the noise (`tati_re.posterior.noise_spectrum`). Simulations here are cold: no thermal
noise, so that all variance is heating and the error of 4,000 walkers is below 2 %; the bound is 5.5
standard errors. White noise taken for that of epochs is off by a factor of 8 there.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tati_re import InputError, Simulation, load
from tati_re.analysis.heating import (
    LinearStep,
    _Silence,
    _Wells,
    linear_step,
    memory_steps,
    noise_covariance,
    relative_heating,
    slowest_frequency,
)
from tati_re.core.protocol import Info, State, with_energy
from tati_re.engine.limits import Limits
from tati_re.posterior.noise_spectrum import noise_spectrum
from tati_re.runs.manifest import Manifest
from tati_re.samplers import (
    SGHMC,
    SGLD,
    SGNHT,
    CCAdL,
    LeimkuhlerMatthews,
    PreconditionedSGLD,
    Splitting,
)
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.coordinates import Diagonal
from tati_re.samplers.wrappers.fisher import Stretched
from tati_re.samplers.wrappers.mass import Massive
from tati_re.summary.summary import summarize
from tati_re.summary.temperatures import heating_lines, why_hot
from tests.summary.test_summary import fake_run

OMEGA = 8.0
STEP_SIZE, FRICTION = 0.3 / OMEGA, OMEGA
VARIANCE = 0.75 * 2 * FRICTION / STEP_SIZE


def test_the_table_of_closed_forms():
    """BAOAB whose two kicks of a step see one batch, at h V / (2 γ T) = 0.75."""
    kick, drift = (
        np.array([[1, 0], [-STEP_SIZE * OMEGA**2 / 2, 1]]),
        np.array([[1, STEP_SIZE / 2], [0, 1]]),
    )
    half, push = (
        drift @ np.diag([1, np.exp(-FRICTION * STEP_SIZE)]) @ drift,
        np.array([0, -STEP_SIZE / 2]),
    )
    step = LinearStep((kick @ half @ kick)[None], (kick @ half @ push + push)[None], 1)
    table = {
        "epochs": [1.087, 1.465, 1.688, 1.739],
        "symmetric": [1.082, 1.556, 1.708, 1.744],
        "replacement": [1.756] * 4,
    }
    for order, row in table.items():
        found = [noise_covariance(step, order, 1, m).position[0] for m in (4, 16, 64, 256)]
        np.testing.assert_allclose(1 + VARIANCE * OMEGA**2 * np.array(found), row, atol=6e-4)


def enumerated(step: LinearStep, order: str, noises: np.ndarray, sizes: list[int]) -> np.ndarray:
    """Covariance of (z, noise of the step), averaged over the steps of a sweep and all orders of
    its examples.
    """
    matrix = np.zeros((len(step.push[0]) + 1,) * 2)
    matrix[:-1, :-1], push = step.matrix[0], np.append(step.push[0], 1.0)
    ends = np.cumsum(sizes)[:-1]
    sweeps = [
        [part.mean() for part in np.split(np.array(one), ends)]
        for one in itertools.permutations(noises)
    ]
    sweeps = [one + one[::-1] for one in sweeps] if order == "symmetric" else sweeps
    paths = [
        list(itertools.accumulate(one, lambda z, c: matrix @ z + push * c, initial=0 * push))
        for one in sweeps
    ]
    fresh = np.mean([[np.outer(z, z) for z in path] for path in paths], axis=0)
    length = len(sweeps[0])
    power = np.linalg.matrix_power(matrix, length)
    start = np.linalg.solve(np.eye(power.size) - np.kron(power, power), fresh[-1].ravel()).reshape(
        power.shape
    )
    powers = [np.linalg.matrix_power(matrix, k) for k in range(1, length + 1)]
    return np.mean(
        [one @ start @ one.T + new for one, new in zip(powers, fresh[1:], strict=True)], axis=0
    )


@pytest.mark.parametrize("order", ["epochs", "symmetric"])
@pytest.mark.parametrize("word", ["BAOAB", "BAO", "UBU"])
def test_every_order_of_a_small_epoch(order, word):
    """Four batches of one example; in epochs also five examples in batches of two, the last one
    short.
    """
    step = linear_step(Splitting(word, FRICTION), STEP_SIZE, 1.0, np.array([OMEGA**2]))
    for size, count in [(1, 4), (2, 5)] if order == "epochs" else [(1, 4)]:
        noises = np.random.default_rng(count).standard_normal(count)
        noises -= noises.mean()
        sizes = [size] * (count // size) + [count % size] * (count % size > 0)
        exact = enumerated(step, order, noises, sizes) / (
            np.var(noises, ddof=1) * (1 / size - 1 / count)
        )
        found = noise_covariance(step, order, size, count)
        np.testing.assert_allclose(found.position[0], exact[0, 0], rtol=1e-9)
        np.testing.assert_allclose(found.virial[0], exact[0, -1], rtol=1e-9)
        np.testing.assert_allclose(found.kinetic[0], exact[1, 1], rtol=1e-9)


class NormalizedKick:
    """A sampler of a user without the base class: SGLD in two halves, linear in the gradient."""

    name, has_momentum, metropolis, full_batch, current, gradients_per_step = (
        "Mine",
        False,
        False,
        False,
        True,
        1.0,
    )

    def init(self, position, evaluate, noise):
        energy = evaluate(position)
        return State(
            position,
            energy.gradient,
            energy.potential,
            energy.loss,
            energy.log_prior,
            evaluate.rung,
        )

    def step(self, state, evaluate, noise):
        time = state.rung.step_size[:, None]
        random = np.sqrt(2 * time) * noise.normal(state.position.shape)
        state = state._replace(position=state.position - 0.5 * time * state.gradient + random)
        state = with_energy(state, evaluate(state.position))
        state = state._replace(position=state.position - 0.5 * time * state.gradient)
        return with_energy(state, evaluate(state.position)), Info()

    def get_config(self):
        return {"sampler": "Mine"}


def cold(method, step_size: float, order: str, variance: float, record_every: int) -> np.ndarray:
    """ω² x², x times gradient, p² over the walkers of a run without thermal noise, with the
    batches' noise alone, and their standard errors, `(2, 3)`.
    """
    walkers, random, m = 4_000, np.random.default_rng(3), 4
    values = random.standard_normal((walkers, m))
    values -= values.mean(1, keepdims=True)
    values *= np.sqrt(variance / np.mean(values**2))
    evaluate, sums, queue = (
        _Wells(np.full((walkers, 1), OMEGA**2), step_size, 1.0),
        np.zeros((3, walkers)),
        [],
    )
    state, steps = None, 0
    for number in range(241):
        if not queue:
            chosen = random.permuted(np.tile(np.arange(m), (walkers, 1)), axis=1)
            chosen = random.integers(m, size=chosen.shape) if order == "replacement" else chosen
            chosen = (
                np.concatenate([chosen, chosen[:, ::-1]], 1) if order == "symmetric" else chosen
            )
            queue = list(np.take_along_axis(values, chosen, 1).T[:, :, None])
        evaluate.noise = queue.pop(0)
        if state is None:  # the first batch is that of the start
            state = method.init(np.zeros((walkers, 1)), evaluate, _Silence())
            continue
        state, _ = method.step(state, evaluate, _Silence())
        if number > 80 and number % record_every == 0:
            momentum = state.momentum if method.has_momentum else np.nan * state.position
            products = OMEGA**2 * state.position**2, state.position * state.gradient, momentum**2
            sums, steps = sums + np.array(products)[:, :, 0], steps + 1
    return np.array([sums.mean(1), sums.std(1) / np.sqrt(walkers)]) / steps


METHODS = [
    Splitting("BAOAB", FRICTION),
    Splitting("OBABO", FRICTION),
    SGHMC(FRICTION),
    SGLD(),
    LeimkuhlerMatthews(),
]


@pytest.mark.parametrize("order", ["epochs", "symmetric", "replacement"])
@pytest.mark.parametrize(
    "method", [*METHODS, Massive(METHODS[0], 4.0), NormalizedKick()], ids=lambda one: one.name
)
def test_samplers_heat_as_their_step_says(method, order):
    from tati_re.core.method import as_method

    adapted = as_method(method)
    step_size = STEP_SIZE if adapted.has_momentum else 0.2 / OMEGA**2
    for record_every in (1, 4) if method is METHODS[0] else (1,):
        found = relative_heating(
            adapted, step_size, 1.0, [OMEGA], VARIANCE, order, 4, 16, record_every
        )
        measured, error = cold(method, step_size, order, VARIANCE, record_every)
        for value, exact, bound in zip(measured, found, 5.5 * error, strict=True):
            assert (
                np.isnan(value) if np.isnan(exact[0]) else abs(value - exact[0]) < bound + 1e-9
            ), (found, measured)
        if method is METHODS[0] and order == "epochs":
            white = relative_heating(
                adapted, step_size, 1.0, [OMEGA], VARIANCE, "replacement", 4, 16
            )
            assert abs(measured[0] - white.position[0]) > 50 * error[0], (
                "the law of white noise is caught"
            )


def test_what_adapts_gets_no_number():
    class Asking(NormalizedKick):
        def step(self, state, evaluate, noise):
            evaluate.gradient_variance(state.position)
            return super().step(state, evaluate, noise)

    class Squared(NormalizedKick):
        def step(self, state, evaluate, noise):
            return super().step(state._replace(gradient=state.gradient**2), evaluate, noise)

    from tati_re.core.method import as_method

    known = [
        SGNHT(),
        CCAdL(),
        Splitting("BADODAB"),
        Splitting("mCCAdL"),
        SGHMC(1.0, 4.0),
        PreconditionedSGLD(),
    ]
    known += [ControlVariate(Splitting()), Massive(Splitting()), Massive(SGNHT(), 4.0)]
    for method in [*known, as_method(Asking()), as_method(Squared())]:
        with pytest.raises(InputError, match=f"^{method.name}: "):
            linear_step(method, 0.01, 1.0, np.ones(1))
    thermostat = Splitting("BADODAB")
    thermostat.against_noise = None
    with pytest.raises(InputError, match="adapts"):
        linear_step(thermostat, 0.01, 1.0, np.ones(1))
    with pytest.raises(InputError, match="unstable"):
        relative_heating(Splitting(), 0.5, 1.0, [4.1], 1.0, "epochs", 4, 16)


def test_the_slowest_direction_relaxes_within_the_run():
    """BAOAB at large friction: θ falls as exp(-ω² t / γ)."""
    found = slowest_frequency(Splitting("BAOAB", 50.0), 0.01, 1.0, 10.0, 100_000)
    np.testing.assert_allclose(found, np.sqrt(50.0 / 1000.0), rtol=0.15)
    assert slowest_frequency(Splitting("BAOAB", 50.0), 0.01, 1.0, 10.0, 1) == 10.0


def regression(
    num_parameters: int, num_examples: int, **options
) -> tuple[Simulation, np.ndarray, np.ndarray]:
    """Linear regression whose posterior mean is 0; inputs and targets with it. The walkers start
    there.
    """
    random = np.random.default_rng(num_parameters)
    inputs = random.standard_normal((num_examples, num_parameters)) * np.linspace(
        0.5, 2, num_parameters
    )
    targets = random.standard_normal(num_examples)
    targets -= inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]
    given = {
        "hidden": [],
        "use_bias": False,
        "loss": "gaussian",
        "noise_std": 1.0,
        "prior_std": 10.0,
        "seed": 1,
    }
    sim = Simulation(
        data=(inputs, targets), **{**given, "dtype": "float64", "verbose": 0, **options}
    )
    sim.parameters[...] = 0.0
    return sim, inputs, targets


@pytest.mark.parametrize("num_parameters", [5, 40])
def test_the_spectrum_of_the_noise(num_parameters):
    """Against the eigenvectors of the Hessian and the gradients of all examples; with masses too,
    which mix parameters or do not.
    """
    sim, inputs, targets = regression(num_parameters, 200)
    potential, scale = sim.system.potential(sim.options, {}), np.linspace(0.5, 1.5, num_parameters)
    directions = np.linalg.qr(np.random.default_rng(3).standard_normal((num_parameters, 2)))[0].T
    for each in (
        Diagonal(np.ones(1)),
        Diagonal(scale),
        Stretched(scale, directions, np.array([3.0, 0.5])),
    ):
        there = each.forward(np.eye(num_parameters)).T
        place = np.zeros(num_parameters), (), np.arange(200)
        found = noise_spectrum(potential, *place, each.forward, each.transposed)
        slopes = -200 * targets[:, None] * inputs @ there
        curvature, vectors = np.linalg.eigh(
            there.T @ (inputs.T @ inputs + 0.01 * np.eye(num_parameters)) @ there
        )
        variances = np.var(slopes @ vectors, axis=0, ddof=1)
        np.testing.assert_allclose(found.curvature[-1], curvature[-1], rtol=0.02)
        if num_parameters == 5:
            np.testing.assert_allclose(found.curvature, curvature, rtol=1e-9)
            np.testing.assert_allclose(found.variance, variances, rtol=1e-9)
            assert found.rest == 0 and found.rest_variance == 0
        else:
            total = found.variance.sum() + found.rest_variance
            np.testing.assert_allclose(total, variances.sum(), rtol=0.15)
            weighted = found.variance @ found.curvature + found.rest_variance * found.rest_curvature
            np.testing.assert_allclose(weighted, variances @ curvature, rtol=0.15)


@pytest.mark.parametrize("friction", [0.5, 2.0, 20.0])
def test_the_memory_of_a_mode_is_that_of_langevin_dynamics(friction):
    """Short steps: exp(-γt/2) where friction is low, exp(-λt) with λ = γ/2 - sqrt(γ²/4 - ω²) where
    it is high. A wrong variant, 1/γ, is off by a factor of 2 and more.
    """
    rate = 0.5 * friction - np.sqrt(max(0.0, 0.25 * friction**2 - 1.0))
    found = memory_steps(Splitting("BAOAB", friction), 0.01, 1.0, [1.0])[0]
    np.testing.assert_allclose(0.01 * found, 1 / rate, rtol=0.02 if friction != 2.0 else 0.1)
    assert abs(0.01 * found * friction - 1.0) > 0.5
    with pytest.raises(InputError, match="unstable"):
        memory_steps(Splitting("BAOAB", friction), 3.0, 1.0, [1.0])


def test_a_run_says_what_it_expects_and_keeps_its_bytes(tmp_path, monkeypatch, capsys):
    """The start of a resumed run stays, its end is that of one that never stopped, and no row
    depends on the measurement; with all data there is none.
    """
    options = {
        "num_steps": 24,
        "step_size": 0.02,
        "batch_size": 16,
        "execution": "graph",
        "verbose": 2,
    }
    for name, steps in (("whole", 24), ("stopped", 12)):
        regression(3, 64)[0].sample(**options | {"num_steps": steps}, output=str(tmp_path / name))
    said = " ".join(capsys.readouterr().out.split())
    assert "is expected to raise the temperature of the slowest directions by" in said
    assert "Predictions are expected to decorrelate within" in said
    data = regression(3, 64)[1:]
    Simulation.resume(str(tmp_path / "stopped"), 24, data=data)
    whole, stopped = (load(tmp_path / name).manifest["heating"] for name in ("whole", "stopped"))
    assert whole == stopped and {*whole} == {"start", "end"} and whole["start"] != whole["end"]
    assert 0 < whole["start"]["mean"] < whole["start"]["virial"] < 1
    assert "expected heating" in summarize(load(tmp_path / "whole"))
    assert "predictions decorrelate within" in summarize(load(tmp_path / "whole"))
    start = whole["start"]
    assert start["memory"] == pytest.approx(4 * start["memory_epochs"])
    monkeypatch.setattr(
        "tati_re.launch.run_heating.expected_heating", lambda *_: {"not_predicted": "nothing."}
    )
    regression(3, 64)[0].sample(**options, output=str(tmp_path / "without"))
    assert (tmp_path / "without" / "run.csv").read_bytes() == (
        tmp_path / "whole" / "run.csv"
    ).read_bytes()
    assert "not predicted; nothing." in summarize(load(tmp_path / "without"))
    run = regression(3, 64)[0].sample(**options | {"batch_size": None, "num_steps": 2})
    assert "heating" not in run.manifest and "expected heating" not in run.summary()


def test_noise_does_not_heat_the_burn_in(monkeypatch):
    """The kinetic temperature within a burn-in at batches of 4 of 400, 80 momenta; with the energy
    error alone it is at 2 (seed 1). Of 160 rows that hardly correlate the mean has an error of
    0.013.
    """

    def temperature() -> float:
        sim = regression(20, 400, num_walkers=4)[0]
        options = {
            "batch_size": 4,
            "batch_sampling": "replacement",
            "num_steps": 660,
            "num_burnin_steps": 640,
        }
        run = sim.sample(
            sampler="BAOAB", friction="auto", **options, execution="graph", record_every=4
        )
        rows = run.run_info[run.run_info.step <= 640]
        return float((2 * rows.kinetic_energy / 20).mean())

    assert abs(temperature() - 1.0) < 0.09
    monkeypatch.setattr("tati_re.launch.run_heating.cool_enough", lambda *_: {})
    assert temperature() > 1.5


@pytest.mark.slow
def test_a_tuned_run_is_heated_no_more_than_it_may(tmp_path, monkeypatch):
    """By what the tuner alone finds it would be, with masses from the burn-in too; a run that is
    stopped within the burn-in and at its end goes on byte for byte.
    """
    options = {
        "sampler": "BAOAB",
        "friction": "auto",
        "mass": "fisher",
        "batch_size": 8,
        "num_steps": 480,
    }
    options |= {
        "batch_sampling": "replacement",
        "execution": "graph",
        "target_bias": 0.02,
        "record_every": 5,
    }

    def run_of(name, most=1_000, **others):
        sim, inputs, targets = regression(4, 64, num_walkers=2)
        sim.limits = Limits(most, most)
        return sim.sample(**options, **others, output=str(tmp_path / name)), (inputs, targets)

    run, data = run_of("whole")
    end = run.manifest["options"]["num_burnin_steps"]
    cooled = run.manifest["heating"]["start"]["mean"]
    run_of("stopped", 30, max_time=1e-9)
    for most in (end - 30, 20):
        monkeypatch.setattr(Simulation, "limits", Limits(most, most))
        Simulation.resume(str(tmp_path / "stopped"), data=data, max_time=1e-9)
    stopped = Simulation.resume(str(tmp_path / "stopped"), data=data)
    assert (tmp_path / "stopped" / "run.csv").read_bytes() == (
        tmp_path / "whole" / "run.csv"
    ).read_bytes()
    assert stopped.manifest["heating"] == run.manifest["heating"]
    longer = Simulation.resume(str(tmp_path / "stopped"), 485, data=data)
    assert longer.manifest["heating"]["start"] == run.manifest["heating"]["start"]
    monkeypatch.setattr("tati_re.launch.run_heating.cool_enough", lambda *_: {})
    alone, _ = run_of("alone")
    hot = alone.manifest["heating"]["start"]["mean"]
    assert hot > 0.03 and 0.003 < cooled <= 0.0155, (hot, cooled)


def test_causes_follow_from_the_facts(tmp_path):
    """Full batch: step size and burn-in. Mini-batches: the noise, with its number, where it
    explains what was seen.
    """
    run = fake_run(tmp_path, virial=lambda rows: 1.05 * rows["virial"])
    assert "noise" not in summarize(run) and "burn-in, or reduce step_size" in " ".join(
        summarize(run).split()
    )
    run.manifest |= {"options": run.manifest["options"] | {"batch_size": 10}}
    assert "was not predicted" in " ".join(summarize(run).split())
    found = {
        "slowest": 0.001,
        "stiffest": 0.2,
        "mean": 0.04,
        "virial": 0.05,
        "kinetic": float("nan"),
    }
    end = found | {"virial": 0.06, "mean": 0.055}
    run.manifest |= {"heating": {"start": found, "end": end}}
    text = " ".join(summarize(run).split())
    assert "mini-batch noise was expected to raise it by 6 %; reduce it by smaller steps" in text
    assert (
        "0.1 % in the slowest directions, 20 % in the stiffest, 5.5 % in all" in text
        and "kinetic +" not in text
    )
    run.manifest |= {"heating": {"start": found, "end": end | {"virial": 0.002}}}
    assert "raise it by 0.2 % only; not in equilibrium yet, or the steps are large" in " ".join(
        summarize(run).split()
    )
    run.manifest |= {"heating": {"start": found, "end": end | {"virial": 0.3, "mean": 0.02}}}
    assert "the temperature of the positions by 2 %" in why_hot(
        run.manifest, "configurational", 0.25
    )
    assert heating_lines(Manifest()) == []


def compared(num_parameters: int, count: int, **options) -> list[tuple[float, float, float]]:
    """Of a run: measured heating, that with the bias of the steps taken out, its error, and what
    was expected of it where it arrived: of the positions, and of the configurational
    temperature.
    """
    sim, inputs, _ = regression(num_parameters, count, num_walkers=50)
    hessian = inputs.T @ inputs + 0.01 * np.eye(num_parameters)
    curvature, vectors = np.linalg.eigh(hessian)
    overdamped = options["sampler"] == "SGLD"
    fastest = np.sqrt(curvature[-1])
    if overdamped:
        options["step_size"] /= fastest**2
    else:
        options = options | {"step_size": options["step_size"] / fastest, "friction": fastest}
    burnin = options["num_steps"] // 4
    run = sim.sample(**options, num_burnin_steps=burnin, record_every=5, trajectory_every=5)
    frame = run.trajectory[run.trajectory["step"] > burnin]
    bias = 1 / (1 - options["step_size"] * curvature / 2) if overdamped else np.ones_like(curvature)
    squares = (frame.iloc[:, 4 : 4 + num_parameters].to_numpy() @ vectors) ** 2 * curvature - bias
    rows = run.run_info[run.run_info["step"] > burnin]
    virial = 2 * rows["virial"].to_numpy() / num_parameters - bias.mean()
    expected, found = run.manifest["heating"]["end"], []
    for name, values, walkers in (
        ("mean", squares.mean(1), frame["walker"]),
        ("virial", virial, rows["walker"]),
    ):
        each = np.array([values[walkers == walker].mean() for walker in np.unique(walkers)])
        found.append((each.mean(), each.std(ddof=1) / np.sqrt(len(each)), expected[name]))
    return found


RUNS = [
    ("BAOAB", "epochs", 0.5, 8, 500),
    ("BAOAB", "replacement", 0.25, 16, 2_000),
    ("SGLD", "epochs", 0.2, 8, 2_000),
    ("SGLD", "replacement", 0.2, 16, 4_000),
    ("OBABO", "symmetric", 0.25, 8, 5_000),
    ("BAOAB", "epochs", 0.5, 8, 2_000, "fisher:4"),
]


@pytest.mark.parametrize(
    ("sampler", "order", "step_size", "batch_size", "num_steps", "mass"),
    [
        (*RUNS[0], "unit"),
        *(pytest.param(*[*case, "unit"][:6], marks=pytest.mark.slow) for case in RUNS[1:]),
    ],
)
def test_runs_heat_as_they_expected(sampler, order, step_size, batch_size, num_steps, mass):
    """Linear regression by the whole product: heating and configurational temperature within a
    factor of 1.5.
    """
    more = {"batch_sampling": order, "batch_size": batch_size} | (
        {} if sampler == "SGLD" else {"mass": mass}
    )
    for value, error, expected in compared(
        4, 64, sampler=sampler, step_size=step_size, num_steps=num_steps, **more
    ):
        print(f"{sampler} {order}: {value:.4f} +- {error:.4f}, expected {expected:.4f}")
        assert expected > 0.02 and 4 * error < expected / 2
        assert expected / 1.5 < value < 1.5 * expected


@pytest.mark.parametrize(
    ("order", "every", "friction"),
    [pytest.param("epochs", 4, 1.0, marks=pytest.mark.slow), ("symmetric", 8, 8.0)],
)
def test_rows_at_one_place_of_each_sweep_heat_as_they_expected(order, every, friction):
    """One parameter, the mean of 64 targets in four batches, rows each sweep: exact but for chance,
    5.5 standard errors of 100 walkers. The place before it has 0.6 for 0.17 in epochs, and 0.1 for
    0.001 in symmetric ones (positions).
    """
    targets = 1.5 * np.random.default_rng(0).standard_normal(64)
    sim = Simulation(
        data=(np.ones((64, 1)), targets),
        hidden=[],
        use_bias=False,
        loss="gaussian",
        noise_std=1.0,
        prior="none",
        num_walkers=100,
        dtype="float64",
        standardize="none",
        batch_size=16,
        batch_sampling=order,
        seed=3,
        verbose=0,
    )
    times = {
        "step_size": 0.5 / 8,
        "friction": 8 * friction,
        "num_steps": 2_200,
        "num_burnin_steps": 200,
    }
    run = sim.sample(sampler="BAOAB", **times, record_every=every, trajectory_every=every)
    rows, expected = run.run_info[run.run_info.step > 200], run.manifest["heating"]["end"]
    places = 64 * (run.trajectory.iloc[:, -1] - targets.mean()) ** 2
    for name, each in (
        ("mean", places.groupby(run.trajectory.walker)),
        ("virial", (2 * rows.virial).groupby(rows.walker)),
    ):
        values = each.mean() - 1
        error = values.std(ddof=1) / 10
        print(f"{order} {name}: {values.mean():.3f} +- {error:.3f}, expected {expected[name]:.3f}")
        assert abs(values.mean() - expected[name]) < 5.5 * error < 0.15


@pytest.mark.slow
def test_a_network_heats_as_it_expected():
    """A network of 4 hidden units and 20 walkers, in epochs and with replacement: above a run with
    all data, from where that arrived. Errors are a fourth of the heating at most.
    """
    random = np.random.default_rng(4)
    inputs = random.uniform(-1, 1, (64, 2))
    targets = np.sin(3 * inputs[:, 0]) * inputs[:, 1] + 0.3 * random.standard_normal(64)
    sim = Simulation(
        data=(inputs, targets),
        hidden=[4],
        activation="tanh",
        loss="gaussian",
        noise_std=0.3,
        prior_std=0.5,
        dtype="float64",
        num_walkers=20,
        walker_start="jitter",
        seed=2,
        verbose=0,
    )
    options = {
        "step_size": 0.02,
        "friction": 40.0,
        "num_burnin_steps": 400,
        "num_steps": 2_000,
        "record_every": 7,
    }
    found = []
    for batches in (
        {},
        *({"batch_size": 12, "batch_sampling": order} for order in ("epochs", "replacement")),
    ):
        run = sim.sample(**options, **batches)
        rows = run.run_info[run.run_info["step"] > 400]
        each = 2 * rows.groupby("walker")["virial"].mean() / sim.num_parameters()
        found.append(
            (
                each.mean(),
                each.std(ddof=1) / np.sqrt(20),
                run.manifest.get("heating", {}).get("end"),
            )
        )
    cold, cold_error, _ = found[0]
    for hot, error, heating in found[1:]:
        value, error, expected = hot - cold, np.hypot(error, cold_error), heating["virial"]
        print(f"network: {value:.3f} +- {error:.3f}, expected {expected:.3f}")
        assert error < expected / 4
        assert expected / 1.5 < value < 1.5 * expected


@pytest.mark.slow
def test_the_noise_at_one_place_is_measured_once(monkeypatch):
    """At the start and at the end of the burn-in, where it is tuned by and then told: it was
    measured twice there.
    """
    places = []

    def measured(potential, position, *others):
        places.append(position.tobytes())
        return noise_spectrum(potential, position, *others)

    monkeypatch.setattr("tati_re.launch.heating.noise_spectrum", measured)
    sim = regression(4, 64, num_walkers=2)[0]
    sim.sample(
        sampler="BAOAB",
        friction="auto",
        mass="fisher",
        batch_size=8,
        num_steps=120,
        execution="graph",
    )
    assert len(set(places)) == len(places) > 2
    places.clear()
    # One for the choice between two orders of mini-batches, and three of the run.
    regression(4, 64)[0].sample(batch_size=8, num_steps=60, fit_steps=10, execution="graph")
    assert len(places) == 4
