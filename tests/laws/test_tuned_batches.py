"""Default tuning on mini-batches has the posterior of a linear regression, in closed form.

64 chains of 500 rows in batches of 20. Steps, friction and masses are the run's own. The means are
compared in units of their posterior deviation, and the covariance in coordinates in which it is the
identity. Draws of a chain forget within some 60 steps, so that 64 chains have above 1,000 effective
draws: errors of 0.03 in a mean and 0.045 in a variance, and 2 % of heating are allowed. The bounds
are five such errors. The wrong variant leaves out what the noise of the batches asks for.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import Simulation

ROWS = 500
CHAINS = 64
MOST_OF_MEAN = 0.2
MOST_OF_VARIANCE = 0.25


def whitened(order: str) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariance of the draws, in the coordinates of the posterior."""
    random = np.random.default_rng(5)
    inputs = random.standard_normal((ROWS, 3))
    targets = inputs @ random.standard_normal((3, 1)) + random.standard_normal((ROWS, 1))
    precision = inputs.T @ inputs + np.eye(3)
    center = np.linalg.solve(precision, inputs.T @ targets)[:, 0]
    sim = Simulation(
        data=(inputs, targets),
        hidden=[],
        use_bias=False,
        loss="gaussian",
        noise_std=1.0,
        prior_std=1.0,
        standardize="none",
        num_walkers=CHAINS,
        walker_start="fit",
        seed=1,
        verbose=0,
    )
    run = sim.sample(
        batch_size=20,
        batch_sampling=order,
        num_steps=3_000,
        num_burnin_steps=1_920,
        until=None,
        trajectory_every=10,
        execution="graph",
    )
    draws = run.trajectory.filter(like="dense").to_numpy()
    whiten = np.linalg.cholesky(precision).T
    white = (draws - center) @ whiten.T
    return white.mean(axis=0), np.cov(white.T)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["epochs", "symmetric"])
def test_tuned_steps_have_the_posterior_of_a_linear_regression(order):
    means, covariance = whitened(order)
    assert np.abs(means).max() < MOST_OF_MEAN
    assert np.abs(np.linalg.eigvalsh(covariance) - 1).max() < MOST_OF_VARIANCE


@pytest.mark.slow
def test_steps_that_ignore_the_noise_are_caught(monkeypatch):
    monkeypatch.setattr("tati_re.launch.run_heating.cool_enough", lambda *_: {})
    _, covariance = whitened("replacement")
    assert np.linalg.eigvalsh(covariance).min() > 1 + MOST_OF_VARIANCE
