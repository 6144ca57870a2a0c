"""Which order of mini-batches a run takes, and the laws of samplers that take their noise out
again.

Law: U = ω²θ²/2 in 10 parameters from 64 examples whose gradients differ by constants, batches of
16, γ = ω. Under replacement the noise is new in every step, with variance V: the step is linear,
and with V subtracted the variance of the positions solves a Lyapunov equation. In units of T/ω²:
SGHMC at hω = 0.3 1.027; mCCAdL 0.998, with the spread of the estimated variance and ξ where the
kinetic energy is T; CCAdL at hω = 0.1 0.903, an Euler step, whose positions are low by half its
friction. In epochs the noise sums to zero and hardly heats: subtracted nevertheless it leaves 0.52,
0.76 and 0.85.

Power: 200 or 100 walkers, 600 steps: 5.5 standard errors, from the spread of the walkers, are below
5 %.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import chi2

from tati_re import InputError, Simulation
from tati_re.core.evaluate import Clock, Energy
from tati_re.core.method import Method
from tati_re.data import Batches
from tati_re.launch.checks import check_request
from tati_re.launch.request import make_request
from tati_re.options.make import options_from_flags, read_toml
from tati_re.report.description import sampling_sentences
from tati_re.samplers import SGHMC, SGLD, SGNHT, CCAdL, Splitting
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.mass import Massive
from tests.scenarios import TOLERANCE, NumpyEvaluate, NumpyNoise, law_of_linear_step, rung_of

N, BATCH, PARAMETERS, OMEGA = 64, 16, 10, 8.0
SUBTRACTING = [
    {"sampler": "SGHMC", "gradient_noise": 3.0},
    {"sampler": "SGHMC", "gradient_noise": "estimate"},
    {"sampler": "CCAdL"},
    {"sampler": "mCCAdL"},
    {"sampler": "BACOCAB", "num_replicas": 2, "temperature_ratio": 1.5},
    {"sampler": "OBACABO", "exchange": "tempering", "num_replicas": 2, "temperature_ratio": 1.5},
]
OTHERS = [
    {"sampler": name}
    for name in ("BAOAB", "SGHMC", "SGNHT", "BADODAB", "SGLD", "pSGLD", "LM", "TACT-HMC")
]


# -------------------------------------------------------------------------------------------------
# which order is taken


@pytest.fixture(scope="module")
def sim() -> Simulation:
    random = np.random.default_rng(0)
    data = random.normal(size=(12, 2)), random.normal(size=12)
    options = {"step_size": 0.01, "num_steps": 4, "num_burnin_steps": 2, "execution": "eager"}
    return Simulation(data=data, verbose=0, batch_size=4, record_every=1, **options)


def request(sim: Simulation, kind: str = "sample", **options):
    made = make_request(kind, *sim._for_call(options, kind), sim.system)
    check_request(made)
    return made


def taken(sim: Simulation, **options) -> str:
    return request(sim, **options).options.batch_sampling


@pytest.mark.parametrize("given", SUBTRACTING, ids=str)
def test_what_subtracts_noise_draws_with_replacement(sim, given):
    assert taken(sim, **given) == "replacement"
    assert request(sim, **given).potential.batches.sampling == "replacement"
    assert taken(sim, **given, batch_sampling="replacement") == "replacement"
    whole = (
        given.get("gradient_noise") != 3.0
    )  # a number is refused where all data are in every step, see below
    if whole:
        assert (
            taken(sim, **given, batch_size=None) == taken(sim, **given, batch_size=12) == "epochs"
        )
    for order in ("epochs", "symmetric"):
        with pytest.raises(
            InputError,
            match="^batch_sampling: .* removes the heat .* too cold. Received: " + order,
        ):
            request(sim, **given, batch_sampling=order)
        assert not whole or request(sim, **given, batch_sampling=order, batch_size=None).full_batch


@pytest.mark.parametrize("given", OTHERS, ids=str)
def test_what_subtracts_nothing_takes_any_order(sim, given):
    assert taken(sim, **given) == "epochs"
    assert all(
        taken(sim, **given, batch_sampling=order) == order for order in ("symmetric", "replacement")
    )


def test_a_method_says_what_it_is_and_wrappers_pass_it_on():
    assert not Method.subtracts_noise
    subtracting = [
        SGHMC(gradient_noise=1.0),
        SGHMC(gradient_noise="estimate"),
        CCAdL(),
        Splitting("BACOCAB"),
    ]
    for inner in [*subtracting, SGHMC(), SGNHT(), SGLD(), Splitting("BADODAB")]:
        with_mass = (
            inner.has_momentum and inner is not subtracting[0]
        )  # which knows its noise without a mass alone
        wrapped = ControlVariate(Massive(inner, np.ones(3)) if with_mass else inner)
        assert wrapped.subtracts_noise == inner.subtracts_noise == (inner in subtracting)

    class Own(SGLD):
        subtracts_noise = True

    sim = Simulation(data=(np.ones((4, 1)), np.ones(4)), verbose=0, batch_size=2)
    assert taken(sim, sampler=Own) == taken(sim, sampler=Own()) == "replacement"


def test_as_many_examples_as_there_are_drawn_with_replacement_are_a_mini_batch(sim):
    assert not request(
        sim, batch_size=12, batch_sampling="replacement", sampler="mCCAdL"
    ).full_batch
    assert request(sim, batch_size=12, batch_sampling="symmetric").full_batch
    with pytest.raises(InputError, match="HMC is exact only with all data in every step"):
        request(sim, batch_size=12, batch_sampling="replacement", sampler="HMC")


def test_the_order_of_the_data_is_refused(sim):
    data = np.arange(6.0)[:, None], np.arange(6.0)
    ordered = Simulation(data=data, verbose=0, batch_size=2, shuffle=False)
    assert taken(ordered) == "epochs"
    with pytest.raises(InputError, match=r"^shuffle: CCAdL removes .* Received: shuffle = false"):
        request(ordered, sampler="CCAdL")


def test_files_and_flags_are_refused_alike(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'data = "two_clusters"\nbatch_size = 100\nbatch_sampling = "epochs"\nsampler = "mCCAdL"\n'
    )
    for typed in (
        options_from_flags({}, read_toml(path)),
        options_from_flags(
            {"batch_sampling": "epochs"},
            {"data": "two_clusters", "batch_size": 100, "sampler": "CCAdL"},
        ),
    ):
        with pytest.raises(
            InputError, match=r"^batch_sampling: m?CCAdL removes .* Received: epochs"
        ):
            request(Simulation.from_options(typed))


def test_noise_that_all_data_do_not_have_is_not_subtracted(sim):
    """With gradient_noise = 10 at h = 0.1 and γ = 1 a Gaussian had half of its temperature."""
    what = (
        "^gradient_noise: every step uses all data, so there is no .* Received: 3.0. "
        "Expected: a batch_size, or gradient_noise"
    )
    for whole in (
        {"batch_size": None},
        {"batch_size": 12},
        {"batch_size": None, "num_replicas": 2, "max_temperature": 2.0},
    ):
        with pytest.raises(InputError, match=what):
            request(sim, sampler="SGHMC", gradient_noise=3.0, **whole)
    request(sim, sampler="SGHMC", gradient_noise=3.0, batch_size=12, batch_sampling="replacement")
    request(sim, sampler="SGHMC", gradient_noise="estimate", batch_size=None)


def test_each_call_settles_its_own_order(sim, tmp_path):
    """A Simulation that samples first without and then with subtraction; fits and its own answers
    keep epochs; the manifest says what was used, and a resumed run goes on with it, also where an
    earlier version used epochs.
    """
    first = sim.sample()
    folder = tmp_path / "second"
    second = sim.sample(sampler="SGHMC", gradient_noise=1.0, output=str(folder))
    third = sim.sample(batch_sampling="symmetric")
    fitted = sim.fit(num_steps=2)
    used = [run.manifest["options"]["batch_sampling"] for run in (first, second, third, fitted)]
    assert used == ["epochs", "replacement", "symmetric", "epochs"]
    assert "batch_sampling" not in second.manifest["given"]
    words = ("in epochs", "drawn with replacement", "in symmetric sweeps", "in epochs")
    for run, order in zip((first, second, third, fitted), words, strict=True):
        assert f"12 examples, in mini-batches of 4 {order}." in " ".join(
            sampling_sentences(run.manifest, run.run_info)
        )
    assert sim.options.batch_sampling == "auto"
    assert sim.system.potential(sim.options).batches.sampling == "epochs"
    manifest = folder / "manifest.toml"
    text = manifest.read_text()
    for order in ("replacement", "epochs"):
        manifest.write_text(
            text.replace('batch_sampling = "replacement"', f'batch_sampling = "{order}"')
        )
        data = sim.dataset.inputs, sim.dataset.targets
        resumed = Simulation.resume(str(folder), num_steps=5 + (order == "epochs"), data=data)
        assert resumed.manifest["options"]["batch_sampling"] == order


def test_the_run_says_so(capsys):
    sim = Simulation(
        data=(np.arange(8.0)[:, None], np.arange(8.0)),
        batch_size=4,
        execution="eager",
        num_steps=1,
        verbose=2,
    )
    sim.sample(sampler="CCAdL", step_size=1e-3)
    assert (
        "Mini-batches are drawn with replacement: CCAdL corrects for noise"
        in capsys.readouterr().out
    )
    sim.sample(sampler="CCAdL", step_size=1e-3, batch_size=None)
    assert "drawn with replacement" not in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------------
# laws


class WithExamples(NumpyEvaluate):
    """U = ω²θ²/2 whose examples' gradients differ by constants; `chosen` are those of a step,
    `(walkers, n, P)`.
    """

    def __init__(self, rung, rest: float) -> None:
        super().__init__(rung)
        self.rest, self.chosen = rest, np.zeros((1, 2, 1))

    def __call__(self, position):
        loss = 0.5 * OMEGA**2 * (position**2).sum(-1)
        return Energy(loss, OMEGA**2 * position + N * self.chosen.mean(1), loss, 0 * loss)

    def gradient_variance(self, position):
        return N**2 / self.chosen.shape[1] * self.rest * self.chosen.var(1, ddof=1)


def examples(step_size: float, ratio: float) -> np.ndarray:
    """Deviations of the gradients of examples: batches have hV/(2γT) = ratio under replacement, γ =
    ω.
    """
    variance = ratio * 2 * OMEGA / step_size
    deviations = np.random.default_rng(5).standard_normal((N, PARAMETERS))
    deviations -= deviations.mean(0)
    return deviations * np.sqrt(variance * BATCH) / N / deviations.std(0)


def measured(
    sampler,
    order: str,
    step_size: float,
    ratio: float,
    walkers=200,
    steps=600,
    burnin=200,
    pairs=False,
):
    """ω² times the variance of the positions, or of sums and differences over √2 of pairs with the
    same noise, and its standard error.
    """
    rung = rung_of(np.full(walkers, step_size), numpy=True)
    evaluate = WithExamples(rung, 1.0 if order == "replacement" else 1 - BATCH / N)
    noise, gradients = NumpyNoise(1), examples(step_size, ratio)
    half = PARAMETERS // 2
    if pairs:
        gradients[:, half:] = gradients[:, :half]
    indices, _ = Batches(N, BATCH, walkers, 0, order).indices(0, burnin + steps)
    evaluate.chosen = gradients[indices[0]]
    start = np.random.default_rng(2).standard_normal((walkers, PARAMETERS)) / OMEGA
    state, total = (
        sampler.init(start, evaluate, noise),
        np.zeros((walkers, 2) if pairs else walkers),
    )
    for step, chosen in enumerate(indices, 1):
        evaluate.chosen = gradients[chosen]
        evaluate.clock = Clock(np.int64(step), np.bool_(step <= burnin), np.int32(0))
        state, _ = sampler.step(state, evaluate, noise)
        noise.asked.clear(), noise.drawn.clear()
        found = (state.position**2).mean(1)
        if pairs:
            first, second = state.position[:, :half], state.position[:, half:]
            found = 0.5 * np.stack(
                [((first + sign * second) ** 2).mean(1) for sign in (1, -1)], axis=1
            )
        total += (step > burnin) * found
    total *= OMEGA**2 / steps
    return total.mean(0), total.std(axis=0, ddof=1) / np.sqrt(walkers)


def drift_of(time: float) -> np.ndarray:
    return np.array([[1.0, time], [0.0, 1.0]])


def euler_covariance(step_size: float, rate: float, noise: float) -> np.ndarray:
    """Of (q, p) under p' = (1 - rate) p - h ω² q + N(0, noise), q' = q + h p'."""
    drift = drift_of(step_size)
    kick = np.array([[1.0, 0.0], [-step_size * OMEGA**2, 1 - rate]])
    return law_of_linear_step(drift @ kick, drift @ np.diag([0.0, noise]) @ drift.T).covariance


def sghmc_law(step_size: float, ratio: float) -> float:
    """With all of the noise subtracted, whatever it is."""
    return OMEGA**2 * euler_covariance(step_size, OMEGA * step_size, 2 * OMEGA * step_size)[0, 0]


def ccadl_law(step_size: float, ratio: float) -> float:
    """At the friction where the kinetic temperature is T, as the thermostat asks."""
    noise = 2 * OMEGA * step_size * (1 + ratio)

    def covariance(rate):
        return euler_covariance(step_size, rate, noise)

    return OMEGA**2 * covariance(brentq(lambda rate: covariance(rate)[1, 1] - 1, 0.05, 1.0))[0, 0]


def mccadl_law(step_size: float, ratio: float) -> float:
    """BACDODCAB with ξ where the mean kinetic temperature at the two D is T, and with a damping of
    each step from the variance of 16 Gaussian examples, chi-square with 15 degrees of freedom,
    independent of their mean.
    """
    h, variance = step_size, ratio * 2 * OMEGA / step_size
    quantiles = chi2.ppf((np.arange(200) + 0.5) / 200, BATCH - 1) / (BATCH - 1)
    damping = np.exp(-h * h * variance / 4 * quantiles)
    drift, kick = drift_of(h / 2), np.array([[1.0, 0.0], [-h * OMEGA**2, 1.0]])

    def covariance(friction):
        kept = np.exp(-friction * h)
        bath = OMEGA * (1 - kept**2) / friction
        operator, source = np.zeros((4, 4)), np.zeros((2, 2))
        for factor in damping:
            damp, last = np.diag([1.0, factor]), kick @ drift
            matrix = last @ damp @ np.diag([1.0, kept]) @ damp @ drift
            noise = last @ np.diag([0.0, factor**2 * bath]) @ last.T + np.diag(
                [0.0, h * h * variance]
            )
            operator, source = operator + np.kron(matrix, matrix), source + noise
        count = len(damping)
        found = np.linalg.solve(np.eye(4) - operator / count, source.ravel() / count).reshape(2, 2)
        before = (damping**2).mean() * (drift @ found @ drift.T)[1, 1]
        return found, 0.5 * (before + kept**2 * before + bath)

    friction = brentq(
        lambda friction: covariance(friction)[1] - 1, 0.5 * OMEGA, 2 * OMEGA, xtol=1e-3
    )
    return OMEGA**2 * covariance(friction)[0][0, 0]


CASES = {
    "SGHMC": (lambda: SGHMC(OMEGA, "estimate"), sghmc_law, 0.3),
    "mCCAdL": (lambda: Splitting("mCCAdL", OMEGA), mccadl_law, 0.3),
    "CCAdL": (lambda: CCAdL(OMEGA, thermal_mass=1.0), ccadl_law, 0.1),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name == "CCAdL")) for name in CASES]
)
def test_laws_with_real_batches(name):
    """Under replacement as computed; a wrong variant, the noise of epochs subtracted, is found too
    cold.
    """
    make, law, frequency = CASES[name]
    step_size = frequency / OMEGA
    expected = law(step_size, 0.75)
    value, error = measured(make(), "replacement", step_size, 0.75)
    print(f"{name}: {value:.4f} +- {error:.4f}, law {expected:.4f}")
    assert TOLERANCE * error < 0.05 * expected
    assert abs(value - expected) < TOLERANCE * error
    wrong, error = measured(make(), "epochs", step_size, 0.75)
    print(f"    epochs: {wrong:.4f} +- {error:.4f}")
    assert expected - wrong > 2 * TOLERANCE * error


@pytest.mark.parametrize(
    ("sampler", "sums", "differences"),
    [(Splitting("BACOCAB", OMEGA), 1.431, 0.569), (SGHMC(OMEGA, "estimate"), 1.755, 0.251)],
    ids=["BACOCAB", "SGHMC"],
)
def test_noise_that_parameters_share(sampler, sums, differences):
    """Pairs with the same noise, hω = 0.1, r = hV/(2γT) = 0.75: a mode with 2V from which V is
    taken, and one without noise from which V is taken; for small h (1 + 2r)/(1 + r) and 1/(1 + r),
    or 1 + r and 1 - r. The numbers are those of the userguide: Lyapunov equations with the exact V.
    Taking 1 for both would be off by 40 standard errors.
    """
    values, errors = measured(sampler, "replacement", 0.1 / OMEGA, 0.75, pairs=True)
    print(values, errors)
    assert (np.abs(values - [sums, differences]) < TOLERANCE * errors).all()
    assert (TOLERANCE * errors < 0.08 * np.array([sums, 1.0])).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_whole_product_by_its_defaults(name):
    """`Simulation` that is told a batch size and nothing of the order of batches, 100 walkers, 600
    steps.
    """
    _, law, frequency = CASES[name]
    step_size = frequency / OMEGA
    random = np.random.default_rng(5)
    targets = examples(step_size, 0.75) * N / OMEGA**2
    sim = Simulation(
        data=(np.ones((N, 1)), targets),
        use_bias=False,
        dtype="float64",
        num_walkers=100,
        seed=1,
        verbose=0,
        loss="gaussian",
        noise_std=np.sqrt(N) / OMEGA,
        prior="none",
    )
    sim.parameters = random.standard_normal((100, PARAMETERS)) / OMEGA
    more = {"SGHMC": {"gradient_noise": "estimate"}, "CCAdL": {"thermal_mass": 1.0}}.get(name, {})
    run = sim.sample(
        sampler=name,
        num_steps=800,
        num_burnin_steps=200,
        step_size=step_size,
        friction=OMEGA,
        batch_size=BATCH,
        record_every=800,
        trajectory_every=2,
        **more,
    )
    assert run.manifest["options"]["batch_sampling"] == "replacement"
    squares = OMEGA**2 * run.trajectory.filter(regex="kernel").pow(2).mean(axis=1)
    each = squares.groupby(run.trajectory["walker"]).mean()
    value, error, expected = each.mean(), each.std(ddof=1) / 10, law(step_size, 0.75)
    print(f"{name}: {value:.4f} +- {error:.4f}, law {expected:.4f}")
    assert TOLERANCE * error < 0.06 * expected
    assert abs(value - expected) < TOLERANCE * error
