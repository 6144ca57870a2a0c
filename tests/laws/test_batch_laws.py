"""Samplers under the batches that `Batches` draws, on quadratic potentials, against exact laws.

The laws are those of the samplers' own steps (`tests.batch_laws`): by all orders of m = 4 batches,
or for batches of one curvature by a closed form that knows any m. Numbers that were computed apart,
from the formulas of UBU, BAO and SGHMC, are met to their last digit. What the laws say is then
sampled with indices of `Batches`.

Power: 5.5 standard errors of the sampled variances, from the spread over 500 walkers, are 3 to 9 %;
the law of another order of batches is off by 15 % or more.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq

from tati_re import Simulation
from tati_re.samplers import SGHMC, SGLD, CCAdL, LeimkuhlerMatthews, Splitting, thermostat
from tests.batch_laws import Examples, heating, sampled, stationary, step_map
from tests.scenarios import TOLERANCE, mean_and_error

ORDERS = ("replacement", "epochs", "symmetric")
OMEGA = 8.0
STEP_SIZE, FRICTION = 0.3 / OMEGA, OMEGA


def four() -> tuple[Examples, float]:
    """Two parameters, four batches of different curvature and slope, the minimum at 0; and the
    largest frequency.
    """
    random, curvature, slope = np.random.default_rng(3), [], []
    for _ in range(4):
        ray = random.normal(size=(2, 1))
        curvature.append(0.5 * ray @ ray.T + 0.1 * np.eye(2))
        slope.append(random.normal(size=2))
    whole = np.sum(curvature, axis=0)
    middle = np.linalg.solve(whole, np.sum(slope, axis=0))
    return Examples(curvature, slope - np.array(curvature) @ middle), np.sqrt(
        np.linalg.eigvalsh(whole)[-1]
    )


def wells(
    count: int, batch_size: int, ratio: float, parameters: int = 1, replacement: bool = True
) -> Examples:
    """U = ω²θ²/2 from as many examples; a batch estimates the gradient with the variance V,
    hV/(2γT) = `ratio`.
    """
    slope = np.random.default_rng(0).normal(size=(count, parameters))
    slope -= slope.mean(axis=0)
    finite = 1.0 if replacement else (count - batch_size) / (count - 1)
    variance = (count * slope.std(axis=0)) ** 2 / batch_size * finite
    slope *= np.sqrt(noise_of(ratio) / variance)
    curvature = np.broadcast_to(
        np.eye(parameters) * OMEGA**2 / count, (count, parameters, parameters)
    )
    return Examples(curvature, slope, replacement)


def noise_of(ratio: float) -> float:
    return ratio * 2 * FRICTION / STEP_SIZE


def closed_form(sampler, ratio: float, order: str, count: int, **held) -> np.ndarray:
    """Var of z on average over a sweep of `count` batches."""
    examples = wells(2, 1, ratio)
    moving, still = (
        step_map(sampler, examples, batch, STEP_SIZE, **held) for batch in ([0], [0, 1])
    )
    answer = (moving.shift - still.shift) / np.sqrt(noise_of(ratio))
    quiet = np.diag(stationary([still], "replacement").second)
    return quiet + noise_of(ratio) * heating(still, answer, order, count)


# -----------------------------------------------------------------------------------------------
# numbers computed apart


APART = {
    ("UBU", "all"): (0.0047, 0.0012),
    ("UBU", "replacement"): (0.762, 0.365),
    ("UBU", "epochs"): (0.0166, 0.0043),
    ("UBU", "symmetric"): (0.0182, 0.0058),
    ("BAO", "all"): (0.0765, 0.0401),
    ("BAO", "replacement"): (0.763, 0.341),
    ("BAO", "epochs"): (0.0909, 0.0442),
    ("BAO", "symmetric"): (0.0943, 0.0447),
}
"""Error of the covariance at the end of a sweep, d = 2, m = 4 different quadratics, at h = 0.05 and
0.025. BAO kicks by the batch of the step before here, so that its sweep ends a step earlier: 0.3 %
of the error.
"""


def errors_of_covariance(word: str, order: str, step_sizes) -> np.ndarray:
    """Spectral norm of L'CL - 1 with the covariance C at the end of a sweep and LL' the
    curvature.
    """
    examples, friction = four()
    root, found = np.linalg.cholesky(examples.curvature.sum(axis=0)), []
    for step_size in step_sizes:
        batches = [np.arange(4)] if order == "all" else [[i] for i in range(4)]
        maps = [
            step_map(Splitting(word, friction), examples, batch, step_size) for batch in batches
        ]
        covariance = stationary(maps, "replacement" if order == "all" else order).covariance[:2, :2]
        found.append(np.linalg.norm(root.T @ covariance @ root - np.eye(2), 2))
    return np.array(found)


@pytest.mark.parametrize(("word", "order"), APART)
def test_the_covariance_errors_of_all_orders(word, order):
    found = errors_of_covariance(word, order, (0.05, 0.025))
    np.testing.assert_allclose(found, APART[word, order], rtol=0.0035, atol=6e-5)


@pytest.mark.parametrize(
    ("word", "order", "expected", "within"),
    [(word, "replacement", 1, 0.1) for word in ("BAOAB", "UBU", "OBABO")]
    + [(word, "symmetric", 2, 0.15) for word in ("BAOAB", "UBU", "OBABO")]
    + [("BAO", "symmetric", 1, 0.1)],
)
def test_the_order_of_the_error_in_the_step_size(word, order, expected, within):
    """Between h = 0.0125 and 0.00625, where the next order is small enough."""
    larger, smaller = errors_of_covariance(word, order, (0.0125, 0.00625))
    assert np.log2(larger / smaller) == pytest.approx(expected, abs=within)


@pytest.mark.parametrize(
    ("count", "ratio", "order", "expected"),
    [
        (4, 0.75, "replacement", 1.027),
        (4, 0.75, "epochs", 0.365),
        (4, 0.25, "epochs", 0.807),
        (64, 0.25, "epochs", 1.005),
    ],
)
def test_subtracting_the_variance_under_epochs_is_cold(count, ratio, order, expected):
    """SGHMC with the exact V: right with replacement, a third of the variance with four batches an
    epoch.
    """
    variance = OMEGA**2 * closed_form(SGHMC(FRICTION, noise_of(ratio)), ratio, order, count)[0]
    assert variance == pytest.approx(expected, abs=6e-4)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("replacement", (1.773, 1.773, 1.773, 1.773)),
        ("epochs", (1.096, 1.482, 1.706, 1.756)),
        ("symmetric", (1.091, 1.574, 1.726, 1.761)),
    ],
)
def test_the_heat_that_the_guide_says(order, expected):
    """BAOAB with 4, 16, 64 and 256 batches at hV/(2γT) = 0.75."""
    found = [
        closed_form(Splitting("BAOAB", FRICTION), 0.75, order, count)[0]
        for count in (4, 16, 64, 256)
    ]
    np.testing.assert_allclose(OMEGA**2 * np.array(found), expected, atol=6e-4)


def test_all_orders_and_the_closed_form_agree():
    """Four batches of one curvature and different slopes: enumeration and closed form to ten
    digits.
    """
    for sampler in (
        Splitting("UBU", FRICTION),
        Splitting("BAOAB", FRICTION),
        SGHMC(FRICTION, noise_of(0.5)),
    ):
        maps = [step_map(sampler, wells(4, 1, 0.5), [i], STEP_SIZE) for i in range(4)]
        for order in ORDERS:
            np.testing.assert_allclose(
                np.diag(stationary(maps, order).averaged),
                closed_form(sampler, 0.5, order, 4),
                rtol=1e-8,
            )


# ---------------------------------------------------------------------------------------------
# sampled, real indices


SAMPLERS = {
    "BAOAB": Splitting("BAOAB"),
    "OBABO": Splitting("OBABO"),
    "UBU": Splitting("UBU"),
    "BAO": Splitting("BAO"),
    "SGHMC": SGHMC(1.0, 2.0),
    "SGLD": SGLD(),
    "LM": LeimkuhlerMatthews(),
}


def deviation(values: np.ndarray, law, resolution: float) -> float:
    """The largest difference of sampled mean squares from their law in standard errors, which are
    small enough.
    """
    means, errors = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
    print(means / law, TOLERANCE * errors / law)
    assert (TOLERANCE * errors < resolution * law).all()
    return np.abs((means - law) / errors).max()


FAST = (("UBU", "symmetric"), ("BAOAB", "epochs"), ("SGHMC", "epochs"), ("SGLD", "replacement"))
CASES = [
    pytest.param(name, order, marks=() if (name, order) in FAST else pytest.mark.slow)
    for name in SAMPLERS
    for order in ORDERS
]


@pytest.mark.parametrize(("name", "order"), CASES)
def test_four_batches_of_different_curvature(name, order):
    """Curvatures that differ by a third, and slopes that heat by half: all 24 orders; each
    parameter's second moment. With replacement it is 20 to 50 % larger than in the other orders.
    """
    random = np.random.default_rng(4)
    change, slope = random.normal(size=(4, 2, 2)), random.normal(size=(4, 2))
    change = change + change.swapaxes(1, 2)
    curvature = np.array([[2.5, 1.5], [1.5, 2.5]]) / 4 + 0.08 * (change - change.mean(axis=0))
    examples, sampler = Examples(curvature, 0.5 * (slope - slope.mean(axis=0))), SAMPLERS[name]
    step_size = 0.25 if sampler.has_momentum else 0.1
    maps = [step_map(sampler, examples, [i], step_size) for i in range(4)]
    laws = {way: np.diag(stationary(maps, way).averaged)[:2] for way in ORDERS}
    values = sampled(sampler, examples, order, 1, step_size, 480, 500)
    assert deviation(values, laws[order], 0.06) < TOLERANCE
    other = laws["epochs" if order == "replacement" else "replacement"]
    assert deviation(values, other, 0.1) > 2 * TOLERANCE


@pytest.mark.parametrize(
    ("name", "order"), [case for case in CASES if case.values[0] not in ("SGLD", "LM")]
)
def test_sixteen_batches_of_four_examples(name, order):
    """64 examples, divided anew in every epoch, or once: the closed form, at hV/(2γT) = 0.75."""
    sampler = SGHMC(FRICTION, noise_of(0.75)) if name == "SGHMC" else Splitting(name, FRICTION)
    examples = wells(64, 4, 0.75, 2, order == "replacement")
    values = sampled(sampler, examples, order, 4, STEP_SIZE, 480, 500)
    assert deviation(values, closed_form(sampler, 0.75, order, 16)[:1], 0.09) < TOLERANCE


# --------------------------------------------------------------------------------------------
# thermostat and damping


def thermostat_and_variance(order: str) -> tuple[float, float]:
    """ξ and ω² Var θ of BADODAB with a heavy thermostat and four batches, hV/(2γT) = 0.75: at ξ the
    step is affine, and ξ is where p² is T on average over the two D, before and after the bath.
    """
    sampler = Splitting("BADODAB", FRICTION, 1e30)

    def moments(xi: float) -> np.ndarray:
        maps = [
            step_map(sampler, wells(4, 1, 0.75), [i], STEP_SIZE, thermostat=xi) for i in range(4)
        ]
        return stationary(maps, order).averaged

    def excess(xi: float) -> float:
        kicked, kept = np.array([0.0, 1.0, -0.5 * STEP_SIZE]), np.exp(-2 * xi * STEP_SIZE)
        before = kicked @ moments(xi) @ kicked
        return 0.5 * (before + kept * before + FRICTION / xi * (1 - kept)) - 1

    xi = brentq(excess, 0.3 * FRICTION, 6 * FRICTION)
    return xi, OMEGA**2 * moments(xi)[0, 0]


@pytest.mark.parametrize("order", [pytest.param("replacement", marks=pytest.mark.slow), "epochs"])
def test_a_thermostat_holds_the_kinetic_temperature(order):
    """BADODAB, twenty parameters of one V, mean square: law of the heavy thermostat, which leaves
    0.5 %. Under epochs the kinetic energy is right and the positions are cold: their noise is fast,
    and moves momenta more.
    """
    xi, variance = thermostat_and_variance(order)
    print(xi / FRICTION, variance)
    assert variance == pytest.approx({"replacement": 0.969, "epochs": 0.74}[order], abs=0.01)
    values = sampled(
        Splitting("BADODAB", FRICTION),
        wells(4, 1, 0.75, 20),
        order,
        1,
        STEP_SIZE,
        600,
        400,
        thermostat=xi,
    )
    mean, error = mean_and_error(OMEGA**2 * values.mean(axis=1))
    assert TOLERANCE * error < 0.02
    assert abs(mean / variance - 1) < TOLERANCE * error + 0.005


def law_of_damping(sampler, examples: Examples) -> float:
    """ω² <θ²> of a word with C, each V estimated from a batch of two drawn with replacement. The
    step is affine with the variances of this batch and of the two before given: the moments of z,
    split by the last two, are iterated.
    """
    pairs = [[i, j] for i in range(examples.num_examples) for j in range(i, examples.num_examples)]
    share = np.array([1.0 + (i != j) for i, j in pairs]) / examples.num_examples**2
    variances = []
    for examples.indices in np.array(pairs)[:, None]:
        variances.append(examples.gradient_variance(np.zeros((1, 1)))[0, 0])
    maps = [
        [
            [
                step_map(
                    sampler,
                    examples,
                    pair,
                    STEP_SIZE,
                    gradient_variance=last,
                    variance_before=before,
                )
                for before in variances
            ]
            for last in variances
        ]
        for pair in pairs
    ]
    matrix, shift, noise = (
        np.array([[[m[k] for m in row] for row in plane] for plane in maps]) for k in range(3)
    )
    constant = np.einsum("sac,s,a,c->sac", np.ones(shift.shape[:3]), share, share, share)
    mean, second = np.zeros((*shift.shape[1:],)), np.zeros(noise.shape[1:])
    for _ in range(300):
        moved = share[:, None, None, None] * np.einsum("sacij,acj->saci", matrix, mean)
        both = np.einsum("saci,sacj->sacij", moved, shift)
        kept = share[:, None, None, None, None] * np.einsum(
            "sacij,acjk,saclk->sacil", matrix, second, matrix
        )
        added = constant[..., None, None] * (noise + np.einsum("saci,sacj->sacij", shift, shift))
        mean = (moved + constant[..., None] * shift).sum(axis=2)
        second = (kept + both + both.swapaxes(-1, -2) + added).sum(axis=2)
    return OMEGA**2 * second.sum(axis=(0, 1))[0, 0]


def skewed() -> Examples:
    """Three examples, one of them far out: a batch with it shows a large variance and a large noise
    of one sign.
    """
    examples = wells(3, 2, 0.5)
    size = np.sqrt((examples.slope**2).sum() / 6)
    return Examples(examples.curvature, size * np.array([[-1.0], [-1.0], [2.0]]))


def test_damping_by_estimated_variances():
    """mCCAdL with its thermostat at rest."""
    sampler = Splitting("mCCAdL", FRICTION, 1e12)
    law = law_of_damping(sampler, skewed())
    values = OMEGA**2 * sampled(sampler, skewed(), "replacement", 2, STEP_SIZE, 480, 500)
    print(law)
    assert deviation(values, np.array([law]), 0.06) < TOLERANCE


def test_damping_under_epochs_is_cold():
    """V is taken out and was never there: 0.60 with four batches of 16 examples, hV/(2γT) =
    0.76.
    """
    sampler = Splitting("mCCAdL", FRICTION, 1e12)
    values = OMEGA**2 * sampled(
        sampler, wells(64, 16, 0.75, 1, False), "epochs", 16, STEP_SIZE, 240, 300
    )
    mean, error = mean_and_error(values[:, 0])
    assert mean == pytest.approx(0.6, abs=0.03) and TOLERANCE * error < 0.06


def regression() -> tuple[Examples, float]:
    """40 examples of a linear regression with heavy-tailed inputs, so that a stiff batch shows a
    large variance, and the largest frequency.
    """
    random = np.random.default_rng(4)
    x = random.normal(size=(40, 2)) * np.exp(0.7 * random.normal(size=(40, 1)))
    y = x.sum(axis=1) + np.sqrt(0.002) * random.normal(size=40)
    curvature, slope = x[:, :, None] * x[:, None, :] / 0.002, x * y[:, None] / 0.002
    whole = curvature.sum(axis=0)
    middle = np.linalg.solve(whole, slope.sum(axis=0))
    return Examples(curvature, slope - curvature @ middle), np.sqrt(np.linalg.eigvalsh(whole)[-1])


class AnotherBatch(Examples):
    """Takes the variance from examples that no gradient sees."""

    random = np.random.default_rng(1)

    def gradient_variance(self, position):
        seen, self.indices = self.indices, self.random.integers(40, size=self.indices.shape)
        variance, self.indices = super().gradient_variance(position), seen
        return variance


def configurational(sampler, frequency: float, kind: type[Examples] = Examples) -> np.ndarray:
    """T_conf/T of each walker at N = 40, n = 8, T = 0.4, h ω_max = 0.15."""
    examples, _ = regression()
    whole, examples = examples.curvature.sum(axis=0), kind(examples.curvature, examples.slope)
    observe = lambda position: np.einsum("wi,ij,wj->w", position, whole, position) / 0.8  # noqa: E731
    return sampled(sampler, examples, "replacement", 8, 0.15 / frequency, 600, 400, 0.4, observe)


@pytest.mark.parametrize("word", ["BACOCAB", pytest.param("mCCAdL", marks=pytest.mark.slow)])
def test_a_batch_does_not_damp_its_own_noise(word, monkeypatch):
    """As cool as with the variance of another batch (1.03: single draws of V, parameters that
    correlate). Damped by its own variance all of it is at 1.25, and by that of the step before,
    whose noise is still there, in between. Walkers are compared one by one, with the same
    numbers.
    """
    frequency = regression()[1]
    sampler, right = Splitting(word, 1.5 * frequency), thermostat.damp

    def all_by(name: str) -> np.ndarray:
        def wrong(state, *rest):
            variance = state._asdict()[name]
            return right(
                state._replace(gradient_variance=variance, variance_before=variance), *rest
            )

        monkeypatch.setattr(thermostat, "damp", wrong)
        return configurational(sampler, frequency)

    other, found = (configurational(sampler, frequency, kind) for kind in (AnotherBatch, Examples))
    difference, error = mean_and_error(found - other)
    print(mean_and_error(found), mean_and_error(other), difference, error)
    assert abs(difference) < TOLERANCE * error < 0.06
    for name in ("gradient_variance", "variance_before"):
        difference, error = mean_and_error(all_by(name) - found)
        print(name, difference, error)
        assert difference > TOLERANCE * error


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["SGHMC", "CCAdL", "CCAdL of one step"])
def test_other_estimates_do_not_know_the_noise(sampler):
    """SGHMC's average is frozen; CCAdL's variance damps what was there before the kick."""
    frequency = regression()[1]
    friction = 1.5 * frequency
    made = {"SGHMC": SGHMC(friction, "estimate"), "CCAdL": CCAdL(friction)}.get(
        sampler, CCAdL(friction, None, 1)
    )
    found = [configurational(made, frequency, kind) for kind in (Examples, AnotherBatch)]
    difference, error = mean_and_error(found[0] - found[1])
    print(mean_and_error(found[0]), difference, error)
    assert abs(difference) < TOLERANCE * error < 0.06


# ---------------------------------------------------------------------------------------------------
# the whole product


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "order"),
    [({}, "epochs"), ({"sampler": "UBU", "batch_sampling": "symmetric"}, "symmetric")],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_simulations_by_their_defaults(options, order):
    """64 examples in batches of 4, ten parameters, hV/(2γT) = 0.75; 100 walkers and 800 steps
    resolve 4 %, and the orders differ by 6 to 20 %.
    """
    examples = wells(64, 4, 0.75, 10, False)
    sim = Simulation(
        data=(np.ones((64, 1)), examples.slope * 64 / OMEGA**2),
        use_bias=False,
        dtype="float64",
        num_walkers=100,
        seed=1,
        verbose=0,
        loss="gaussian",
        noise_std=np.sqrt(64) / OMEGA,
        prior="none",
    )
    sim.parameters = np.random.default_rng(5).standard_normal((100, 10)) / OMEGA
    run = sim.sample(
        num_steps=1_024,
        num_burnin_steps=224,
        step_size=STEP_SIZE,
        friction=FRICTION,
        batch_size=4,
        record_every=1_024,
        trajectory_every=3,
        **options,
    )
    assert run.manifest["options"]["batch_sampling"] == order
    squares = run.trajectory.filter(regex="kernel").pow(2).mean(axis=1)
    mean, error = mean_and_error(squares.groupby(run.trajectory["walker"]).mean().to_numpy())
    sampler = Splitting(options.get("sampler", "BAOAB"), FRICTION)
    laws = {way: closed_form(sampler, 0.75, way, 16)[0] for way in ORDERS}
    print(mean * OMEGA**2, error * OMEGA**2, laws)
    assert abs(mean - laws[order]) < TOLERANCE * error < 0.04 * laws[order]
