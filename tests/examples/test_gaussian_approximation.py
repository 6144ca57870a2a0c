"""Laplace's approximation and SWAG against closed forms: linear regression, quadratic potentials, a
discrete Lyapunov equation.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import tati_re
from tati_re import GaussianApproximation, InputError, gaussian_approximation

NOISE, PRIOR = 0.5, 2.0
Z = 5.5
"""Standard errors that a comparison may be off: 4e-8 for one."""


def regression(count: int = 40, inputs: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    x = random.standard_normal((count, inputs)) * np.linspace(0.5, 2.0, inputs)
    return x, x @ np.linspace(-1, 1, inputs) + 0.3 + NOISE * random.standard_normal(count)


def simulation(x: np.ndarray, y: np.ndarray, **options) -> tati_re.Simulation:
    fixed = {
        "standardize": "none",
        "test_fraction": 0.0,
        "noise_std": NOISE,
        "prior": "gaussian",
        "prior_std": PRIOR,
    }
    return tati_re.Simulation(data=(x, y), dtype="float64", verbose=0, **fixed, **options)


def posterior(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Mean and covariance of the weights and the bias, and the log evidence."""
    design = np.column_stack([x, np.ones(len(x))])
    covariance = np.linalg.inv(design.T @ design / NOISE**2 + np.eye(design.shape[1]) / PRIOR**2)
    evidence = multivariate_normal.logpdf(
        y, cov=NOISE**2 * np.eye(len(y)) + PRIOR**2 * design @ design.T
    )
    return covariance @ design.T @ y / NOISE**2, covariance, float(evidence)


def test_linear_regression_is_exact():
    x, y = regression()
    mean, covariance, evidence = posterior(x, y)
    sim = simulation(x, y, num_walkers=2)
    sim.fit(optimizer="barzilai_borwein", num_steps=300)
    np.testing.assert_allclose(sim.parameters, np.tile(mean, (2, 1)), atol=1e-8)
    found = gaussian_approximation(sim)
    for walker in (0, 1):
        np.testing.assert_allclose(found.covariance(walker), covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.log_evidence, evidence, rtol=1e-6)
    precision = np.linalg.inv(covariance)
    scaled = precision / np.sqrt(np.outer(found.mass, found.mass))
    np.testing.assert_allclose(np.linalg.eigvalsh(scaled)[-1], 1.0, rtol=1e-6)
    ratio = found.mass * np.sqrt(np.diag(covariance) / np.diag(precision))
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-6)
    np.testing.assert_array_equal(found.raised, 0)
    assert found.excess.max() < 1e-9
    points = mean + 0.1 * np.random.default_rng(1).standard_normal((5, 4))
    exact = multivariate_normal.logpdf(points, mean, covariance)
    np.testing.assert_allclose(found.log_prob(points), exact, rtol=1e-6)
    # Errors that would be likely are far outside of these bounds.
    design = np.column_stack([x, np.ones(len(x))])
    for wrong in (2 * covariance, np.linalg.inv(design.T @ design / NOISE**2), len(x) * covariance):
        assert not np.allclose(found.covariance(), wrong, rtol=1e-4)
    assert abs(found.log_evidence[0] - evidence - np.linalg.slogdet(covariance)[1]) > 1

    diagonal = gaussian_approximation(sim, "laplace_diagonal")
    np.testing.assert_allclose(
        diagonal.variance[0], 1 / np.diag(np.linalg.inv(covariance)), rtol=1e-6
    )
    sim.parameters = mean + np.array([[0.0] * 4, [0.3, -0.2, 0.1, 0.4]])
    with pytest.warns(UserWarning, match="above the minimum"):
        np.testing.assert_allclose(gaussian_approximation(sim).log_evidence, evidence, rtol=1e-6)
    hot = simulation(x, y, temperature=3.0)
    hot.parameters = mean
    np.testing.assert_allclose(
        gaussian_approximation(hot).covariance(), 3 * covariance, rtol=1e-6, atol=1e-9
    )
    hot.parameters = mean + 1.0
    with pytest.warns(UserWarning, match="above the minimum"):
        away = gaussian_approximation(hot)
    np.testing.assert_allclose(away.excess, np.linalg.inv(covariance).sum() / 6, rtol=1e-6)


def test_draws_start_weigh_and_predict():
    x, y = regression()
    mean, covariance, _ = posterior(x, y)
    sim = simulation(x, y, num_walkers=3)
    sim.parameters = np.tile(mean, (3, 1))
    approximation = gaussian_approximation(sim)
    sim.parameters = approximation.draw(3)
    run = sim.sample(
        sampler="HMC", step_size=0.3, mass=approximation.mass, num_steps=20, trajectory_every=10
    )
    assert run.run_info["acceptance"].mean() > 0.5
    draws = approximation.draw(4000, seed=2)
    predicted = run.predict(x, parameters=draws)
    assert predicted.num_draws == 4000
    design = np.column_stack([x, np.ones(len(x))])
    exact = np.sqrt(np.einsum("ij,jk,ik->i", design, covariance, design))
    np.testing.assert_allclose(predicted.parameter_std[:, 0], exact, rtol=Z / np.sqrt(2 * 4000))
    with pytest.raises(InputError, match="wrong shape"):
        run.predict(x, parameters=draws[:, :2])
    with pytest.raises(InputError, match="replaces the draws"):
        run.predict(x, parameters=draws, thin=2)


def test_no_direction_is_wider_than_the_prior():
    def saddle(position):
        return (
            -0.3 * position[:, 0] ** 2
            + 2.0 * position[:, 1] ** 2
            + 0.1 * position[:, 0] * position[:, 1]
        )

    sim = tati_re.Simulation(
        potential=saddle, dimension=2, prior="gaussian", prior_std=PRIOR, verbose=0
    )
    found = gaussian_approximation(sim)
    whole = PRIOR**2 * np.array([[-0.6, 0.1], [0.1, 4.0]]) + np.eye(2)
    values, vectors = np.linalg.eigh(whole)
    np.testing.assert_allclose(
        found.covariance(), PRIOR**2 * (vectors / np.maximum(values, 1)) @ vectors.T, rtol=1e-6
    )
    np.testing.assert_array_equal(found.raised, [1])
    diagonal = gaussian_approximation(sim, "laplace_diagonal")
    np.testing.assert_allclose(diagonal.variance[0], [PRIOR**2, 1 / (4 + 1 / PRIOR**2)], rtol=1e-6)
    alone = tati_re.Simulation(potential=saddle, dimension=2, verbose=0)
    with pytest.raises(InputError, match="not convex at the position of walker 0"):
        gaussian_approximation(alone)


def test_densities_and_draws_of_all_forms():
    random = np.random.default_rng(3)
    mean, factor = random.standard_normal((2, 3)), random.standard_normal((2, 3, 3))
    forms = {
        "laplace": (np.zeros((2, 3)), factor),
        "laplace_diagonal": (np.exp(random.standard_normal((2, 3))), factor[:, :, :0]),
        "swag": (np.exp(random.standard_normal((2, 3))), factor[:, :, :2]),
    }
    points = 2 * random.standard_normal((6, 3))
    for kind, (diagonal, wide) in forms.items():
        made = GaussianApproximation(kind, 1.0, mean, diagonal, wide)
        covariances = [np.diag(d) + f @ f.T for d, f in zip(diagonal, wide, strict=True)]
        exact = np.mean(
            [multivariate_normal.pdf(points, m, c) for m, c in zip(mean, covariances, strict=True)],
            axis=0,
        )
        np.testing.assert_allclose(made.log_prob(points), np.log(exact), rtol=1e-9)
        np.testing.assert_allclose(made.variance, [np.diag(c) for c in covariances])
        inverses = [np.linalg.inv(c) for c in covariances]
        ratio = made.mass * np.sqrt(
            made.variance.mean(axis=0) / np.mean([np.diag(i) for i in inverses], axis=0)
        )
        np.testing.assert_allclose(ratio, ratio[0])
        fastest = max(
            np.linalg.eigvalsh(i / np.sqrt(np.outer(made.mass, made.mass)))[-1] for i in inverses
        )
        assert fastest <= 1 + 1e-9 and (kind != "laplace" or fastest > 1 - 1e-9)
        count = 40_000
        draws = made.draw(2 * count, seed=4).reshape(count, 2, 3)
        for k, covariance in enumerate(covariances):
            away = draws[:, k] - mean[k]
            products = away[:, :, None] * away[:, None, :]
            error = products.std(axis=0) / np.sqrt(count)
            assert (np.abs(products.mean(axis=0) - covariance) < Z * error).all()
            assert not (np.abs(products.mean(axis=0) - 1.1 * covariance) < Z * error).all()
            assert (np.abs(away.mean(axis=0)) < Z * np.sqrt(np.diag(covariance) / count)).all()
        np.testing.assert_array_equal(made.draw(4, seed=4), made.draw(4, seed=4))


def lyapunov(x: np.ndarray, y: np.ndarray, rate: float, batch: int, multiplied: bool = True):
    """Stationary covariance of gradient descent on batches with replacement, and the mean step I -
    rate H.
    """
    design, count = np.column_stack([x, np.ones(len(x))]), len(x)
    each = np.einsum("ni,nj->nij", design, design) / NOISE**2
    whole = each.mean(axis=0) + np.eye(design.shape[1]) / (count * PRIOR**2)
    centre = posterior(x, y)[0]
    slopes = each @ centre - design * y[:, None] / NOISE**2
    noise = np.cov(slopes.T, ddof=0) / batch
    size = len(centre)
    spread = np.mean([np.kron(a, a) for a in each], axis=0) - np.kron(
        each.mean(axis=0), each.mean(axis=0)
    )
    step = np.eye(size) - rate * whole
    moved = np.kron(step, step) + (rate**2 * spread / batch if multiplied else 0.0)
    solved = np.linalg.solve(np.eye(size**2) - moved, rate**2 * noise.reshape(-1))
    return solved.reshape(size, size), step


def of_swag(
    stationary: np.ndarray, step: np.ndarray, every: int, count: int, rank: int
) -> np.ndarray:
    """The mean of SWAG's covariance from `count` positions of a stationary chain of correlations
    step^(k every).
    """
    powers = [np.linalg.matrix_power(step, every * k) @ stationary for k in range(count)]

    def covariance(i: int, j: int) -> np.ndarray:
        return powers[i - j] if i >= j else powers[j - i].T

    def of_mean(n: int) -> np.ndarray:
        return sum((n - abs(k)) * covariance(max(k, 0), max(-k, 0)) for k in range(1 - n, n)) / n**2

    diagonal = np.diag(np.diag(stationary - of_mean(count)))
    deviations = np.zeros_like(stationary)
    for i in range(count - rank, count):
        across = sum(covariance(i, j) for j in range(i + 1)) / (i + 1)
        deviations += stationary + of_mean(i + 1) - across - across.T
    return 0.5 * diagonal + 0.5 * deviations / (rank - 1)


def test_swag_has_the_stationary_covariance():
    x, y = regression(32, 1)
    rate, batch, every, rank, walkers = 0.2, 2, 5, 6, 400
    stationary, step = lyapunov(x, y, rate, batch)
    sim = simulation(
        x, y, num_walkers=walkers, batch_size=batch, batch_sampling="replacement", seed=5
    )
    sim.parameters = np.tile(posterior(x, y)[0], (walkers, 1))
    fit = {"learning_rate": rate, "batch_sampling": "replacement"}
    sim.fit(optimizer="gradient_descent", num_steps=100, **fit)
    found = gaussian_approximation(
        sim, "swag", rank=rank, num_steps=30 * every, trajectory_every=every, **fit
    )
    assert found.mean.shape == (walkers, 2) and found.factor.shape == (walkers, 2, rank)
    each = np.array([found.covariance(walker) for walker in range(walkers)])
    mean, error = each.mean(axis=0), each.std(axis=0, ddof=1) / np.sqrt(walkers)
    exact = of_swag(stationary, step, every, 30, rank)
    assert (np.abs(mean - exact) < Z * error).all(), (mean, exact, error)
    assert (error < 0.1 * np.sqrt(np.outer(np.diag(exact), np.diag(exact)))).all()
    plain = of_swag(*lyapunov(x, y, rate, batch, multiplied=False), every, 30, rank)
    for wrong in (
        2 * exact,
        exact * (rank - 1) / rank,
        plain,
        of_swag(stationary, step, 1, 30, rank),
    ):
        assert (np.abs(mean - wrong) > Z * error).any()


def test_the_fit_of_swag_has_defaults_and_bad_input_is_refused():
    x, y = regression()
    sim = simulation(x, y, batch_size=10, num_steps=100)
    before = sim.parameters.copy()
    found = gaussian_approximation(sim, "swag", rank=4, learning_rate=0.01)
    assert (
        found.factor.shape == (1, 4, 4)
        and (found.diagonal > 0).all()
        and (sim.parameters != before).any()
    )
    for options, sentence in (
        ({"kind": "swa"}, "kind has an unknown value"),
        ({"rank": 5}, "rank applies only to kind swag"),
        ({"learning_rate": 0.1}, "learning_rate applies only to kind swag"),
        ({"kind": "swag", "rank": 1}, "rank is out of range"),
        ({"kind": "swag", "rank": 5, "num_steps": 20, "trajectory_every": 5}, "too few positions"),
    ):
        with pytest.raises(InputError, match=sentence):
            gaussian_approximation(sim, **options)
    with pytest.raises(InputError, match="wrong shape"):
        found.log_prob(np.zeros(3))
