"""Simulation-based calibration: verdicts of given ranks, hostile input, and wrong models caught.

A band holds the whole curve of a quantity with probability 1 - 0.01 / quantities, so that a correct
model passes with probability 0.99. The seeds are fixed.
"""

from time import process_time

import numpy as np
import pytest

from tati_re.core.backend import tf, value_and_gradient
from tati_re.core.errors import InputError
from tati_re.likelihoods.log_prob import half_normal, normal, total
from tati_re.plotting.bands import uniform_band
from tati_re.posterior.named_density import NamedDensity
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tati_re.supports import positive, real, unit_vector
from tati_re.testing import RankCalibration, calibrate, simulated_ranks
from tati_re.testing.many_posteriors import ManyPosteriors
from tati_re.testing.simulated_ranks import JOINT, _rank, _Ranked, _ranked

X = np.array([-1.0, -0.5, 0.5, 1.0])
SUPPORTS = {"a": real(), "b": real(), "s": positive()}


def log_density(a, b, s, x, y):
    return total(normal(y, a + b * x, 2 * s), normal(a), normal(b), half_normal(s))


def simulate(rng, prior=1.0, noise=1.0):
    a = prior * rng.normal()
    b = prior * rng.normal()
    s = abs(rng.normal())
    y = a + b * X + noise * 2 * s * rng.normal(size=len(X))
    return {"a": a, "b": b, "s": s}, {"x": X, "y": y}


def calibration(fractions, **changes):
    """The result of given fractions of draws below the truth, by quantity."""
    size = len(next(iter(fractions.values())))
    given = {
        "ranks": {name: np.floor(100 * values).astype(int) for name, values in fractions.items()},
        "draws": 99,
        "level": 0.99,
        "ess": np.full(size, 400.0),
        "rhat": np.full(size, 1.0),
        "seed": 3,
        **changes,
    }
    return RankCalibration(**given)


def test_bands_hold_whole_curves_as_often_as_they_say():
    """5,000 sets of 100 uniform numbers: the part outside has a standard error of 0.0014 at 0.01."""
    random = np.random.default_rng(7)
    places, low, high = uniform_band(100, 0.99)
    curves = (random.random((5_000, 100, 1)) <= places).mean(axis=1)
    outside = ((curves < low) | (curves > high)).any(axis=1).mean()
    assert outside == pytest.approx(0.01, abs=5.5 * 0.0014)


def test_uniform_ranks_pass():
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(200), "b": random.random(200)})
    assert result.passed
    assert str(result).startswith("Simulation-based calibration: passed")
    assert list(result.bands().columns) == ["place", "low", "high", "a", "b"]
    assert (result.frame()["outside"] == 0).all()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda u: np.clip(0.5 + 1.6 * (u - 0.5), 0, 0.999), "the posterior is too narrow"),
        (lambda u: 0.5 + 0.5 * (u - 0.5), "the posterior is too wide"),
        (lambda u: u**2, "draws are too high"),
        (lambda u: np.sqrt(u), "draws are too low"),
    ],
)
def test_other_ranks_fail_and_say_how(wrong, words):
    random = np.random.default_rng(2)
    result = calibration({"good": random.random(200), "bad": wrong(random.random(200))})
    assert result.outcome == "failed"
    table = result.frame().set_index("quantity")
    assert table.loc["good", "verdict"] == "passed"
    assert words in table.loc["bad", "advice"]
    assert words in str(result)


def test_dependent_draws_are_no_verdict():
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(200)}, ess=np.full(200, 40.0))
    assert result.outcome == "not measured"
    assert "200 of 200 runs have an ESS below 99" in str(result)


def test_the_figure_has_a_panel_for_each_quantity(tmp_path):
    random = np.random.default_rng(1)
    result = calibration({"a": random.random(100), "b": random.random(100) ** 3})
    figure = result.plot(tmp_path / "ranks.png")
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["a", "b"]
    assert (tmp_path / "ranks.png").stat().st_size > 1_000


def changing(rng):
    parameters, data = simulate(rng)
    return parameters, {**data, "n": int(rng.integers(10_000))}


def with_targets(y):
    return lambda rng: (simulate(rng)[0], {"x": X, "y": y})


def fails(rng):
    raise ValueError("no such law")


@pytest.mark.parametrize(
    ("function", "changes", "words"),
    [
        (3, {}, "this is not a function"),
        (fails, {}, "the function fails"),
        (lambda rng: simulate(rng)[0], {}, "does not return two dicts"),
        (lambda rng: ({"a": 0.0}, {}), {}, "does not return the parameters of the model"),
        (lambda rng: ({"a": 0.0, "b": 0.0, "s": -1.0}, {}), {}, "s: outside of its support"),
        (changing, {}, "the data n change their form"),
        (simulate, {"replications": 3}, "replications: out of range"),
        (simulate, {"draws": 2.5}, "draws: out of range"),
        (simulate, {"level": 1.0}, "level: out of range"),
        (simulate, {"step_size": 0.0}, "step_size: out of range"),
        (simulate, {"step_size": np.inf}, "step_size: out of range"),
        (simulate, {"sampler": "HMC"}, "sampler: str is not a sampler"),
        (simulate, {"seed": -1}, "^seed is out of range"),
        (with_targets([[1], [2, 3]]), {}, "simulate: y has rows of unequal lengths"),
        (with_targets(np.ma.masked_array(X, X > 0)), {}, "simulate: y: a masked array"),
    ],
)
def test_hostile_input_gets_one_sentence(function, changes, words):
    with pytest.raises(InputError, match=words):
        calibrate(function, log_density, SUPPORTS, **changes)


@pytest.mark.slow
def test_other_data_and_other_scales_are_arguments_of_the_program():
    """A chunk with other scales takes a small part of the processor time of the compilation."""
    data = [simulate(np.random.default_rng(number))[1] for number in range(2)]
    density = NamedDensity(log_density, SUPPORTS, data[0])
    systems = ManyPosteriors(density, data, chains=2, seed=1)
    result = systems.energy(np.zeros((1, 3)), 1)
    assert result == pytest.approx(density.with_data(data[1])(np.zeros((1, 3))).numpy())
    seconds = []
    loop = systems._steps_of(HamiltonianMonteCarlo(2, 0.5), 0.1, 0)
    loop.start(np.zeros((4, 3)))
    for scale in (0.2, 0.1, 0.05):
        systems.scale.assign(np.full((4, 3), scale))
        begin = process_time()
        loop.moved(5)
        seconds.append(process_time() - begin)
    assert sum(seconds[1:]) < 0.2 * seconds[0]


def test_the_gradient_with_data_of_rows_is_that_of_the_density():
    data = [simulate(np.random.default_rng(number))[1] for number in range(2)]
    density = NamedDensity(log_density, SUPPORTS, data[0])
    position = tf.constant(np.random.default_rng(3).standard_normal((2, 3)))
    rows = {name: tf.constant(np.stack([one[name] for one in data])) for name in data[0]}
    value, gradient = value_and_gradient(lambda x: density.with_data_of_rows(x, rows), position)
    for number, one in enumerate(data):
        alone = value_and_gradient(density.with_data(one), position[number : number + 1])
        np.testing.assert_allclose(value[number], alone[0][0], rtol=1e-12)
        np.testing.assert_allclose(gradient[number], alone[1][0], rtol=1e-12)


def test_the_log_density_is_ranked_without_lengths_of_free_vectors():
    """The length of z in x = z / |z| says nothing about x; only the angles count."""
    density = NamedDensity(lambda v, y: total(normal(y, v)), {"v": unit_vector(2)}, {"y": X[:2]})
    systems = ManyPosteriors(density, [{"y": X[:2]}], chains=2, seed=1)
    truth = {"v": np.array([0.6, 0.8])}
    free = np.random.default_rng(2).standard_normal((20, 2, 2))
    directions = free / np.linalg.norm(free, axis=-1, keepdims=True)
    expected = (directions @ X[:2] < truth["v"] @ X[:2]).sum()
    assert 0 < expected < 40
    assert _ranked(systems, truth, free, 40, 0).ranks[JOINT] == expected


def test_equal_draws_are_ranked_at_random():
    """A log density that is the same everywhere tells nothing, and is no failure."""
    random = np.random.default_rng(4)
    ranks = [_rank(np.array([0.0, 1.0, 1.0, 2.0]), 1.0, random) for _ in range(60)]
    assert {*ranks} == {1, 2, 3}
    assert _rank(np.array([0.0, 1.0, 2.0]), 1.5, random) == 2


def test_entries_count_unless_they_never_change(monkeypatch):
    """A chain that is stuck in one replication leaves the others as they are."""
    rows = [
        _Ranked({"a": 3, "one": 0, JOINT: 1}, frozenset(constant), 400.0, 1.0)
        for constant in ({"a", "one"}, {"one"})
    ]
    monkeypatch.setattr(simulated_ranks, "_ranked", lambda *given: rows[given[-1] % 2])
    monkeypatch.setattr(ManyPosteriors, "sampled", lambda *given, **options: np.zeros((1, 20)))
    assert list(calibrate(simulate, log_density, SUPPORTS, replications=20).ranks) == ["a", JOINT]


@pytest.mark.slow
def test_a_correct_model_passes_and_its_ranks_are_those_of_independent_draws():
    result = calibrate(simulate, log_density, SUPPORTS, seed=1)
    print(result)
    assert result.passed
    assert list(result.ranks) == ["a", "b", "s", "log density"]
    assert len(result.too_dependent) <= 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({"prior": 3.0}, {}),  # the spread of a and b given the data doubles
        ({"noise": 1.3}, {"replications": 400}),
    ],
)
def test_wrong_priors_and_likelihoods_are_caught(changes, options):
    def wrong(rng):
        return simulate(rng, **changes)

    result = calibrate(wrong, log_density, SUPPORTS, seed=1, **options)
    print(result)
    assert result.outcome == "failed"


def log_density_of_line(a, b, x, y):
    return total(normal(y, a + b * x, 1.0), normal(a), normal(b))


def simulate_line(rng):
    a = rng.normal()
    b = rng.normal()
    return {"a": a, "b": b}, {"x": X, "y": a + b * X + rng.normal(size=len(X))}


@pytest.mark.slow
def test_a_biased_sampler_is_caught():
    """OBABO makes the variance of a Gaussian 1 / (1 - 1.5²/4) = 2.3 times too large.

    In two dimensions the ranks u of the log density then have the distribution u^2.3. It is 0.30
    below the uniform one at most, with a standard error of 0.035; the band is 0.12 wide.
    """
    supports = {"a": real(), "b": real()}
    result = calibrate(
        simulate_line,
        log_density_of_line,
        supports,
        replications=200,
        seed=1,
        sampler=Splitting("OBABO", 2.0),
        step_size=1.5,
    )
    print(result)
    assert result.outcome == "failed"
    table = result.frame().set_index("quantity")
    assert table.loc["log density", "verdict"] == "failed"


@pytest.mark.slow
def test_a_chain_that_diverges_is_refused():
    """A few observations leave log s skewed, and a step of 1.3 deviations is too long for it."""
    sampler = Splitting("OBABO", 2.0)
    with pytest.raises(InputError, match="a chain diverged"):
        calibrate(simulate, log_density, SUPPORTS, seed=1, sampler=sampler, step_size=1.3)
