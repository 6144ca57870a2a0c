"""Densities, draws and slopes of every prior against scipy and quadrature, and the tables that
choose among them.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from tati_re import InputError, Simulation, priors
from tati_re.core.backend import tf
from tati_re.options.make import make_options, options_from_flags, read_toml, to_toml
from tati_re.options.patterns import by_tensor, in_words
from tati_re.posterior.priors.choosing import too_hot, unconfined, unused_prior_options

SCALES = np.array([0.4, 1.0, 2.5])
NORMAL = tf.constant(np.random.default_rng(5).standard_normal((20_000, 3)))
LAWS = {
    "laplace": (priors.Laplace(SCALES), stats.laplace(0, SCALES)),
    "student_t": (priors.StudentT(SCALES, 4.0), stats.t(4.0, 0, SCALES)),
    "cauchy": (priors.StudentT(SCALES, 1.0), stats.cauchy(0, SCALES)),
    "around a point": (priors.Tether([0.1, -2.0, 3.0], 4.0), stats.norm([0.1, -2.0, 3.0], 0.5)),
    "truncated": (
        priors.HardWalls(priors.Gaussian(SCALES), [-0.2, 0.5, -np.inf], [0.4, np.inf, 1.0]),
        stats.truncnorm([-0.5, 0.5, -np.inf], [1.0, np.inf, 0.4], 0, SCALES),
    ),
    "uniform": (
        priors.HardWalls(priors.Flat(), [-1.0, 0.0, 2.0], [1.0, 3.0, 2.5]),
        stats.uniform([-1, 0, 2], [2, 3, 0.5]),
    ),
}
WALLS = {
    "tether": priors.SoftWalls(priors.Flat(), 2.0, 3.0, 0.5, 0.5),
    "walls": priors.SoftWalls(priors.Flat(), 5.0, 1.0, -1.0, 1.0),
    "gaussian within": priors.SoftWalls(priors.Gaussian(0.8), 30.0, 2.0, -0.5, 0.9),
    "laplace above": priors.SoftWalls(priors.Laplace(0.7), 40.0, 0.0, 0.3),
    "student, tethered": priors.SoftWalls(priors.StudentT(1.0, 3.0), 0.5, 1.0, 1.0, 1.0),
}
X = np.random.default_rng(0).standard_normal((12, 3))
SMALL = {
    "data": (X, np.arange(12) % 2),
    "hidden": [4],
    "dtype": "float64",
    "verbose": 0,
    "seed": 1,
    "execution": "graph",
}


def density(prior, points: np.ndarray) -> np.ndarray:
    """Of one parameter."""
    return np.exp(prior.log_prob(tf.constant(points[:, None])).numpy())


@pytest.mark.parametrize("name", LAWS)
def test_densities_are_those_of_scipy(name):
    prior, law = LAWS[name]
    position = law.rvs((50, 3), random_state=np.random.default_rng(2))
    np.testing.assert_allclose(
        prior.log_prob(tf.constant(position)), law.logpdf(position).sum(axis=1), rtol=1e-9
    )


@pytest.mark.parametrize("name", LAWS)
def test_draws_follow_the_density(name):
    """20,000 draws of each kind; a scale wrong by 20 % is rejected."""
    prior, law = LAWS[name]
    for draws in (prior.sample((20_000, 3), 1), prior.from_normal(NORMAL).numpy()):
        for i in range(3):

            def cdf(x, i=i):
                return law.cdf(np.repeat(x[:, None], 3, axis=1))[:, i]

            assert stats.kstest(draws[:, i], cdf).pvalue > 1e-4
            assert stats.kstest(1.2 * draws[:, i], cdf).pvalue < 1e-4


def test_draws_made_of_normal_numbers_are_quantiles():
    z = np.linspace(-5.0, 5.0, 41)
    for name in ("laplace", "student_t", "cauchy", "truncated"):
        prior, law = LAWS[name]
        made = prior.from_normal(tf.constant(np.repeat(z[:, None], 3, axis=1))).numpy()
        np.testing.assert_allclose(
            made, law.ppf(stats.norm.cdf(np.repeat(z[:, None], 3, axis=1))), rtol=2e-6, atol=1e-9
        )


def test_walls_far_out_in_a_tail_keep_their_digits():
    prior = priors.HardWalls(priors.Gaussian(1.0), 12.0, 12.5)
    law = stats.truncnorm(12.0, 12.5)
    points = np.linspace(12.01, 12.49, 7)
    np.testing.assert_allclose(density(prior, points), law.pdf(points), rtol=1e-6)
    made = prior.from_normal(tf.constant(np.array([[-1.0], [0.0], [1.5]]))).numpy()[:, 0]
    np.testing.assert_allclose(made, law.ppf(stats.norm.cdf([-1.0, 0.0, 1.5])), rtol=1e-6)


@pytest.mark.parametrize("name", WALLS)
def test_soft_walls_are_normalised_and_drawn_from(name):
    """The density integrates to one; without the normalizer it would not."""
    prior = WALLS[name]
    pieces = [-60.0, -5.0, *np.linspace(-1.3, 1.3, 105), 5.0, 60.0]
    total = sum(
        integrate.fixed_quad(lambda x: density(prior, x), a, b, n=60)[0]
        for a, b in pairwise(pieces)
    )
    assert total == pytest.approx(1.0, abs=2e-4 if "student" in name else 1e-6)
    grid = np.linspace(-8, 8, 160_001)
    cumulative = integrate.cumulative_simpson(density(prior, grid), x=grid, initial=0.0)
    draws = prior.sample((20_000, 1), 3)[:, 0]
    assert stats.kstest(draws, lambda x: np.interp(x, grid, cumulative)).pvalue > 1e-4
    assert stats.kstest(draws + 0.03, lambda x: np.interp(x, grid, cumulative)).pvalue < 1e-4


def test_normalisers_of_flat_soft_walls_in_closed_form():
    """∫ exp(-f/q |x|^q) = 2 Γ(1 + 1/q) (q/f)^(1/q) with q = a + 1, and the same for the two halves
    of a layer.
    """
    tether = WALLS["tether"]
    expected = 2 * math.gamma(1.25) * (4 / 2.0) ** 0.25
    assert density(tether, np.array([0.5]))[0] == pytest.approx(1 / expected, rel=1e-9)
    layer, strength = 0.02, 5.0
    inside = 2.0 - 2 * layer + 2 * layer * math.gamma(1.5) * (2 / (strength * layer)) ** 0.5
    assert density(WALLS["walls"], np.array([0.0]))[0] == pytest.approx(1 / inside, rel=1e-9)


def test_forces_of_soft_walls_are_those_of_tati():
    """prior_factor |min(d/w, 1) - 1|^prior_power inward, growing beyond the wall; w by TATi's
    rules.
    """
    x = np.array([-1.3, -1.01, -0.995, -0.985, 0.0, 0.99, 1.2])[:, None]

    def published(d, w):
        return 3.0 * np.abs(np.minimum(d / w, 1) - 1) ** 1.5

    both = priors.SoftWalls(priors.Flat(), 3.0, 1.5, -1.0, 1.0)
    np.testing.assert_allclose(
        -both.gradient(tf.constant(x)), published(x + 1, 0.02) - published(1 - x, 0.02), atol=1e-12
    )
    below = priors.SoftWalls(priors.Flat(), 3.0, 1.5, -2.0)
    deep = np.array([[-2.5], [-1.99], [-1.0]])
    np.testing.assert_allclose(
        -below.gradient(tf.constant(deep)), published(deep + 2, 0.02), atol=1e-12
    )
    above = priors.SoftWalls(priors.Flat(), 3.0, 1.5, upper=2.0)
    high = np.array([[2.1], [1.995], [0.0]])
    np.testing.assert_allclose(
        above.gradient(tf.constant(high)), published(2 - high, 0.01), atol=1e-12
    )
    tether = priors.SoftWalls(priors.Flat(), 3.0, 1.5, 0.4, 0.4)
    np.testing.assert_allclose(
        -tether.gradient(tf.constant(x)), -3.0 * np.sign(x - 0.4) * np.abs(x - 0.4) ** 1.5
    )


@pytest.mark.parametrize("name", [*LAWS, *WALLS])
def test_slopes_are_derivatives_of_the_density(name):
    prior = LAWS[name][0] if name in LAWS else WALLS[name]
    position = tf.constant(prior.sample((40, 3 if name in LAWS else 1), 7))
    with tf.GradientTape() as tape:
        tape.watch(position)
        total = -tf.reduce_sum(prior.log_prob(position))
    slope = tape.gradient(total, position, unconnected_gradients="zero")
    found = prior.gradient(position)
    np.testing.assert_allclose(
        tf.zeros_like(position) if found is None else found, slope, rtol=1e-9, atol=1e-12
    )


def test_what_is_proper_and_what_has_walls():
    flat = priors.Flat()
    assert not priors.HardWalls(flat, lower=0.0).proper and priors.HardWalls(flat, 0.0, 1.0).proper
    assert (
        not priors.SoftWalls(flat, lower=0.0).proper
        and priors.SoftWalls(flat, lower=0.0, upper=1.0).proper
    )
    assert (
        not priors.SoftWalls(flat, 0.0, 1.0, 0.0, 1.0).proper
        and priors.SoftWalls(priors.Laplace(), lower=0.0).proper
    )
    assert priors.HardWalls(flat, 0.0).walled and not priors.SoftWalls(flat, lower=0.0).walled
    mixed = priors.Product([priors.Gaussian(), flat], [2, 1], [["a"], ["b"]])
    assert not mixed.proper and mixed.unconfined == ["b"] and not mixed.walled


def test_a_product_is_its_parts():
    parts = [priors.Gaussian(2.0), priors.Box(1.5), priors.Flat()]
    mixed = priors.Product(parts, [2, 1, 1])
    position = tf.constant([[0.5, -1.0, 1.2, 7.0], [0.1, 0.2, 1.6, 0.0]])
    expected = parts[0].log_prob(position[:, :2]) + parts[1].log_prob(position[:, 2:3])
    np.testing.assert_allclose(mixed.log_prob(position), expected)
    np.testing.assert_allclose(mixed.gradient(position)[0], [0.125, -0.25, 0.0, 0.0])
    moved, turned = mixed.confine(position, tf.ones_like(position))
    np.testing.assert_allclose(moved[1], [0.1, 0.2, 1.4, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(turned, [[1, 1, 1, 1], [1, 1, -1, 1]])
    proper = priors.Product(parts[:2], [2, 1])
    draws = proper.sample((20_000, 3), 1)
    assert draws.std(axis=0) == pytest.approx([2.0, 2.0, 1.5 / np.sqrt(3)], rel=0.03)
    assert abs(np.corrcoef(draws.T) - np.eye(3)).max() < 0.03


def test_tables_choose_by_pattern():
    sim = Simulation(
        prior={"*": "gaussian", "bias": "laplace", "dense_1/bias": "student_t"},
        prior_std={"*": 2.0, "dense_1/*": 0.5},
        prior_scale={"dense/bias": 0.3},
        prior_degrees=5.0,
        **SMALL,
    )
    assert [name for name in sim.parameter_names() if name.endswith("[0]")] == [
        "dense/bias[0]",
        "dense_1/bias[0]",
    ]
    theta = sim.parameters + 0.1
    sim.parameters = theta
    kernel, bias, kernel_1, bias_1 = np.split(theta, [12, 16, 24])
    expected = stats.norm(0, 2.0).logpdf(kernel).sum() + stats.laplace(0, 0.3).logpdf(bias).sum()
    expected += stats.norm(0, 0.5).logpdf(kernel_1).sum() + stats.t(5.0).logpdf(bias_1).sum()
    assert 12 * sim.loss() - sim.potential() == pytest.approx(expected, rel=1e-10)
    words = sim.system.prior(sim.options).__str__()
    assert (
        "a Laplace distribution of scale 0.3 (dense/bias); a Gaussian of standard deviation 0.5 (dense_1/kernel)"
        in words
    )


def test_one_family_with_widths_by_pattern_is_one_object():
    sim = Simulation(prior_std={"*": 1.0, "bias": 10.0}, prior_scaling="fan_in", **SMALL)
    prior = sim.system.prior(sim.options)
    np.testing.assert_allclose(
        prior.std, np.repeat([1 / 2, 10 / 2, 1 / 5**0.5, 10 / 5**0.5], [12, 4, 8, 2])
    )
    assert (
        str(prior)
        == "a Gaussian of standard deviation (1, 10 for bias)/sqrt(k), k = fan-in + 1 of its layer"
    )
    alike = Simulation(prior_std={"kernel": 1.0}, **SMALL)
    assert str(alike.system.prior(alike.options)) == "a Gaussian of standard deviation 1"


def test_walls_by_pattern():
    sim = Simulation(
        lower_wall={"kernel": -3.0},
        prior_upper_boundary={"bias": 0.5},
        prior_factor={"bias": 7.0},
        **SMALL,
    )
    prior = sim.system.prior(sim.options)
    assert [type(part).__name__ for part in prior.parts] == ["HardWalls", "SoftWalls"] * 2
    assert "with hard walls above -3 (dense/kernel, dense_1/kernel)" in str(prior)
    assert "with soft walls below 0.5 (factor 7, power 1) (dense/bias, dense_1/bias)" in str(prior)


def test_tables_go_through_every_door(tmp_path):
    typed = options_from_flags(
        {
            "prior": ["gaussian", "bias=laplace"],
            "prior_std": ["1", "dense/*=2.5"],
            "lower_wall": "-1e-3",
        }
    )
    assert typed.prior == {"*": "gaussian", "bias": "laplace"}
    assert typed.prior_std == {"*": 1.0, "dense/*": 2.5} and typed.lower_wall == -1e-3
    path = tmp_path / "run.toml"
    path.write_text(to_toml(typed))
    assert make_options(read_toml(path)).prior_std == typed.prior_std
    path.write_text('num_steps = 5\n[prior_std]\n"*" = 3\n"*/bias" = 1.0\n')
    assert read_toml(path)["prior_std"] == {"*": 3.0, "*/bias": 1.0}
    assert by_tensor("x", {"b*": 2}, 1, ["a/bias", "a/kernel"]) == [2, 1]
    assert in_words({"*": 1.0, "bias": 2.0}) == "1, 2 for bias" and in_words(3.0) is None


def test_a_table_goes_into_the_manifest_and_comes_back(tmp_path):
    options = {
        **SMALL,
        "data": "two_clusters",
        "prior_std": {"bias": 5.0},
        "sampler": "SGLD",
        "step_size": 1e-5,
    }
    run = Simulation(**options).sample(num_steps=4, record_every=1, output=str(tmp_path / "run"))
    assert run.manifest["options"]["prior_std"] == {"bias": 5.0}
    assert "1 to 5" in run.manifest["meaning"] or "5 for bias" in run.manifest["meaning"]
    again = Simulation.resume(str(tmp_path / "run"), num_steps=6)
    assert again.run_info["step"].max() == 6


def test_what_is_not_used_is_said(capsys):
    sim = Simulation(**{**SMALL, "verbose": 1}, prior="laplace", prior_std=3.0, prior_factor=2.0)
    sim.sample(num_steps=2, step_size=1e-4)
    assert "Not used by this prior: prior_std, prior_factor." in " ".join(
        capsys.readouterr().out.split()
    )
    half_normal = make_options(
        noise_prior="half_normal", noise_prior_scale=2.0, noise_prior_shape=3.0
    )
    assert unused_prior_options(half_normal) == ["noise_prior_shape"]
    assert unused_prior_options(make_options(half_normal, noise_prior="log_normal")) == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"prior_std": {"biases": 2.0}},
            "prior_std: the pattern matches no tensor of the model. Received: 'biases'.",
        ),
        ({"prior": {"dense_9/*": "box"}}, "prior: the pattern matches no tensor of the model."),
        (
            {"lower_wall": 1.0, "upper_wall": 1.0},
            "lower_wall is not below upper_wall. Received: 1 and 1.",
        ),
        (
            {"prior": "box", "lower_wall": 0.0},
            "lower_wall, upper_wall: this prior has its own walls.",
        ),
        (
            {"lower_wall": 0.0, "prior_lower_boundary": 0.0},
            "hard and soft walls exclude each other.",
        ),
        (
            {"prior_lower_boundary": 2.0, "prior_upper_boundary": 1.0},
            "prior_lower_boundary is above prior_upper_boundary. Received: 2 and 1.",
        ),
        ({"prior_factor": -1.0}, "prior_factor is out of range. Received: -1.0."),
        ({"prior_degrees": 0.0}, "prior_degrees is out of range."),
        ({"prior_std": {"bias": -2.0}}, "prior_std has the wrong type. Received: {'bias': -2.0}."),
        ({"prior": {"bias": "laplacian"}}, "prior has the wrong type."),
        ({"prior": "student"}, "prior has an unknown value. Did you mean 'student_t'?"),
        (
            {
                "covariance_blending": 1.0,
                "num_walkers": 4,
                "upper_wall": 5.0,
                "num_steps": 200,
                "step_size": 0.01,
            },
            "covariance_blending: walls reflect each parameter separately",
        ),
    ],
)
def test_what_is_no_prior_is_refused(options, sentence):
    with pytest.raises(InputError) as caught:
        Simulation(**{**SMALL, **options}).sample()
    assert sentence in str(caught.value)


def test_what_nothing_confines_is_said():
    """A wall on one side, a force of strength 0 and a prior of some tensors leave directions
    free.
    """
    bias = ["dense/bias", "dense_1/bias"]

    def said(**options) -> str:
        sim = Simulation(**SMALL, **options)
        return " ".join(sim.system.potential(sim.options).notices())

    for free in (
        {},
        {"lower_wall": 0.0},
        {"prior_lower_boundary": 0.0, "prior_upper_boundary": 1.0, "prior_factor": 0.0},
    ):
        assert "Nothing confines U: without a prior" in said(prior="none", **free)
    for held in (
        {"lower_wall": -9.0, "upper_wall": 9.0},
        {"prior_lower_boundary": 0.0, "prior_upper_boundary": 0.0},
    ):
        assert "confines" not in said(prior="none", **held)
    assert f"Nothing confines U along {', '.join(bias)}: " in said(prior={"bias": "none"})
    assert unconfined(priors.Flat(), ["k", *bias], ["k", *bias]) is None
    assert "along dense/bias, dense_1/bias" in unconfined(priors.Flat(), ["k", *bias], ["k"])


def test_a_student_prior_that_is_too_hot_is_said(capsys):
    """(1 + x²/ν)^(-(ν + 1)/(2T)) has a finite integral while T < ν + 1."""
    prior = priors.Product(
        [priors.Gaussian(), priors.HardWalls(priors.StudentT(1.0, 2.0), 0.0)], [2, 1]
    )
    assert too_hot(prior, 2.9) is None and "a temperature below 3" in too_hot(prior, 3.0)
    student = priors.StudentT(1.0, 2.0)
    held = priors.HardWalls(student, -5.0, 5.0), priors.SoftWalls(student, 1.0, 1.0, -5.0, 5.0)
    assert [too_hot(each, 9.0) for each in held] == [None, None]
    for loose in (
        priors.SoftWalls(student, 0.0, 1.0, -5.0, 5.0),
        priors.SoftWalls(student, 1.0, 1.0, -5.0),
    ):
        assert "a temperature below 3" in too_hot(loose, 3.0)
    sim = Simulation(**{**SMALL, "verbose": 1}, prior="student_t", prior_degrees=1.5)
    for temperature, said in ((2.0, False), (3.0, True)):
        sim.sample(num_steps=1, step_size=1e-4, temperature=temperature)
        assert ("cannot be normalized" in " ".join(capsys.readouterr().out.split())) == said
