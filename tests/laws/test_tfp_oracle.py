"""The HMC of TensorFlow Probability, on a potential written down once more, predicts as ours does.

A network 1-16-1 with tanh, 49 weights, 20 points of sin(3x) with noise 0.3, prior N(0, 1): mean and
variance of the network's output at 9 points. 64 chains each; the two agree within 5.5 standard
errors from the spread over chains.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from tati_re import Simulation
from tati_re.core.backend import keras, tf

pytestmark = pytest.mark.slow

HIDDEN, NOISE, CHAINS = 16, 0.3, 64
RANDOM = np.random.default_rng(4)
X = RANDOM.uniform(-1, 1, size=(20, 1))
Y = np.sin(3 * X[:, 0]) + NOISE * RANDOM.normal(size=20)
GRID = np.linspace(-1.2, 1.2, 9)[:, None]
STEP_SIZE, LENGTH, BURNIN, DRAWS = 0.02, 25, 400, 1_600


def outputs(theta, x):
    """The network's outputs `(..., points)` for weights `(..., 49)`, in the order kernel, bias,
    kernel, bias.
    """
    hidden = tf.tanh(theta[..., None, :HIDDEN] * x + theta[..., None, HIDDEN : 2 * HIDDEN])
    return (
        tf.reduce_sum(hidden * theta[..., None, 2 * HIDDEN : 3 * HIDDEN], -1)
        + theta[..., 3 * HIDDEN :]
    )


def log_posterior(theta):
    error = (tf.constant(Y) - outputs(theta, tf.constant(X))) / NOISE
    return -0.5 * tf.reduce_sum(error**2, -1) - 0.5 * tf.reduce_sum(theta**2, -1)


def start() -> np.ndarray:
    return 0.5 * np.random.default_rng(5).normal(size=(CHAINS, 3 * HIDDEN + 1))


@pytest.fixture(scope="module")
def probability():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            "tensorflow_probability", reason="the extra test brings tensorflow-probability"
        )


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    layers = [keras.layers.Dense(HIDDEN, activation="tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input((1,)), *layers])
    sim = Simulation(
        data=(X, Y),
        model=model,
        dtype="float64",
        noise_std=NOISE,
        num_walkers=CHAINS,
        seed=6,
        verbose=0,
    )
    sim.parameters = start()
    return sim


def moments(predictions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean output and mean square of `(draws, chains, points)`, over draws: `(chains, points)`
    each.
    """
    return predictions.mean(0), (predictions**2).mean(0)


def ours(sim, **options) -> np.ndarray:
    run = sim.sample(
        sampler="HMC",
        step_size=STEP_SIZE,
        num_leapfrog_steps=LENGTH,
        num_burnin_steps=BURNIN,
        num_steps=BURNIN + DRAWS,
        record_every=BURNIN,
        trajectory_every=4,
        trajectory_format="h5",
        **options,
    )
    names = sim.parameter_names()
    draws = run.trajectory[names].to_numpy().reshape(-1, CHAINS, len(names))
    assert len(draws) == DRAWS // 4
    return outputs(tf.constant(draws), tf.constant(GRID)).numpy()


def theirs(probability) -> np.ndarray:
    kernel = probability.mcmc.HamiltonianMonteCarlo(log_posterior, STEP_SIZE, LENGTH)

    @tf.function(autograph=False, jit_compile=True)
    def sample():
        return probability.mcmc.sample_chain(
            DRAWS // 4,
            tf.constant(start()),
            kernel=kernel,
            num_burnin_steps=BURNIN,
            num_steps_between_results=3,
            trace_fn=lambda _, results: tf.reduce_mean(tf.cast(results.is_accepted, tf.float64)),
            seed=(1, 2),
        )

    draws, accepted = sample()
    assert 0.6 < accepted.numpy().mean() < 1
    return outputs(draws, tf.constant(GRID)).numpy()


def test_the_potentials_are_one(simulation):
    """U and minus the logarithm of the oracle's posterior differ by one constant, to 1e-9."""
    difference = simulation.potential() + log_posterior(tf.constant(simulation.parameters)).numpy()
    assert np.ptp(difference) < 1e-9


@pytest.mark.parametrize("noise", [NOISE, 1.1 * NOISE], ids=["same", "wrong noise"])
def test_predictions_agree(simulation, probability, noise):
    """Means and variances at 9 points, resolved to 0.12 of the noise and of the variance; a
    likelihood that is 1.1 times too wide must not pass.
    """
    found = []
    for sampled in (ours(simulation, noise_std=noise), theirs(probability)):
        means, squares = moments(sampled)
        mean = means.mean(0)
        # Variance around the mean of all chains; its error from the spread of each chain's own
        # estimate.
        spread = squares - 2 * means * mean + mean**2
        found.append(
            [
                (values.mean(0), values.std(0, ddof=1) / np.sqrt(CHAINS))
                for values in (means, spread)
            ]
        )
    z = np.array([(a[0] - b[0]) / np.hypot(a[1], b[1]) for a, b in zip(*found, strict=True)])
    scales = (NOISE, found[1][1][0])
    relative = [
        5.5 * np.hypot(a[1], b[1]) / scale
        for (a, b), scale in zip(zip(*found, strict=True), scales, strict=True)
    ]
    print("z", z.round(2).tolist(), "resolution", [round(float(r.max()), 3) for r in relative])
    print("means", found[1][0][0].round(3), "variances", found[1][1][0].round(4))
    assert (np.abs(z).max() < 5.5) == (noise == NOISE)
    assert max(values.max() for values in relative) < 0.12
