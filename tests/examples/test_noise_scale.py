"""The law does not move with the size of the data: N = 100, 1,000, 10,000 with the stiffness N k
fixed, three batch sizes each.

Law: one weight w on constant inputs, targets of variance N/10 and noise of standard deviation
sqrt(N): U = (w - m)²/2 for every N, m the mean of the targets. A mini-batch of n, drawn with
replacement, estimates ∇U = w - m as the mean of w - y over its examples, with the variance V = N /
(10 n). BAOAB at h = 0.2, γ = 2 has the variance of the discrete Lyapunov equation with a fresh
gradient of variance V in each step; without noise it is 1.

Power: 200 walkers, 4,000 steps: 5.5 standard errors, from the spread of the walkers, are below 5 %
of the variance; the noise moves it by 28 % at n = N/50 and by 5 % at n = N/10, alike for every N.
"""

from __future__ import annotations

import numpy as np
import pytest

from tati_re import Simulation
from tests.scenarios import TOLERANCE, splitting_law

STEP_SIZE, FRICTION = 0.2, 2.0
WALKERS, NUM_STEPS = 200, 4_000


def measured(
    num_examples: int, batch_size: int | None, noise_std: float | None = None
) -> tuple[float, float, float]:
    """Variance of w about the exact mean, its standard error, and what the law says."""
    random = np.random.default_rng(5)
    targets = random.standard_normal(num_examples)
    targets *= np.sqrt(num_examples / 10) / targets.std()
    sim = Simulation(
        data=(np.ones((num_examples, 1)), targets),
        use_bias=False,
        dtype="float64",
        num_walkers=WALKERS,
        seed=1,
        loss="gaussian",
        noise_std=noise_std or np.sqrt(num_examples),
        prior="none",
        verbose=0,
    )
    mean = targets.mean()
    sim.parameters = mean + random.standard_normal((WALKERS, 1))
    run = sim.sample(
        num_steps=NUM_STEPS,
        num_burnin_steps=100,
        step_size=STEP_SIZE,
        friction=FRICTION,
        batch_size=batch_size,
        batch_sampling="replacement" if batch_size else "epochs",
        record_every=NUM_STEPS,
        trajectory_every=5,
    )
    frame = run.trajectory
    squares = (frame.iloc[:, 4] - mean) ** 2
    each = squares.groupby(frame["walker"]).mean().to_numpy()
    variance = 0.1 * num_examples / batch_size if batch_size else 0.0
    law = splitting_law("BAOA", STEP_SIZE, friction=FRICTION, gradient_variance=variance)
    return each.mean(), each.std(ddof=1) / np.sqrt(WALKERS), law.covariance[0, 0]


CASES = [(100, 2), (100, 10), (100, None), (1_000, 20), (1_000, 100), (1_000, None)]
LARGE = [(10_000, 200), (10_000, 1_000), (10_000, None)]


@pytest.mark.parametrize(
    ("num_examples", "batch_size"),
    [
        CASES[1],
        *(pytest.param(*case, marks=pytest.mark.slow) for case in [CASES[0], *CASES[2:], *LARGE]),
    ],
    ids=str,
)
def test_the_law_is_that_of_the_noise_alone(num_examples, batch_size):
    value, error, law = measured(num_examples, batch_size)
    print(f"N={num_examples} n={batch_size}: {value:.4f} +- {error:.4f}, law {law:.4f}")
    assert TOLERANCE * error < 0.06 * law
    assert abs(value - law) < TOLERANCE * error


def test_the_wrong_size_of_the_data_is_caught():
    """Noise of the targets for 4 N examples: a fourth of the stiffness."""
    value, error, law = measured(100, 10, noise_std=np.sqrt(400))
    assert abs(value - law) > 10 * TOLERANCE * error
