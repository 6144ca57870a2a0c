"""The posterior as a whole: simulation-based calibration and the joint test of Geweke, on
regressions of 20 points.

Model: w ~ N(0, 1) twice, y_i = w₀ + tanh(w₁ x_i) + N(0, 1/4), x evenly spread in (-2, 2). Every
replication is a walker with data of its own, so that one run does them all.

Calibration (Talts et al. 2018): the rank of the true value among 99 nearly independent draws from
the posterior is uniform on 0..99; 1,000 replications in 20 bins give a chi-square of 19 degrees of
freedom, refused below a probability of 4e-8, that of 5.5 standard errors.

Joint test (Geweke, J. Am. Stat. Assoc. 99, 799, 2004): drawing y from the model given w and moving
w by the sampler given y, in turn, leaves w in its prior, E w = 0, E w² = 1, E w⁴ = 3, E w₀ w₁ = 0.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2

from tati_re.core.backend import tf
from tati_re.engine.loop import Loop
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_numbers
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.samplers import HamiltonianMonteCarlo, Splitting
from tests.scenarios import TOLERANCE, mean_and_error, rung_of

pytestmark = pytest.mark.slow

EXAMPLES, NOISE = 20, 0.5
X = np.linspace(-2, 2, EXAMPLES)
SMALLEST = 4e-8
METHODS = {
    "HMC": (HamiltonianMonteCarlo(10, 0.5), 0.12, 12),
    "BAOAB": (Splitting("BAOAB", 2.0), 0.05, 80),
}


def mean_of(w, tanh=np.tanh):
    return w[:, :1] + tanh(w[:, 1:] * X)


def potential_of(y) -> FunctionPotential:
    def function(w):
        error = (y - mean_of(w, tf.tanh)) / NOISE
        return 0.5 * tf.reduce_sum(error**2, axis=-1) + 0.5 * tf.reduce_sum(w**2, axis=-1)

    return FunctionPotential(function, 2)


# ----------------------------------------------------------------------------------------------------------
# calibration


def ranks(
    method: str, temperature: float = 1.0, replications: int = 1_000
) -> dict[str, np.ndarray]:
    """Rank of the true value of w₀, w₁ and the log likelihood among 99 draws, `(replications,)`
    each.
    """
    sampler, step_size, thinning = METHODS[method]
    random = np.random.default_rng(8)
    truth = random.normal(size=(replications, 2))
    y = mean_of(truth) + NOISE * random.normal(size=(replications, EXAMPLES))
    burnin = 20 * thinning
    loop = Loop(
        potential_of(tf.constant(y)),
        sampler,
        Observables(sampler, None),
        rung_of(np.full(replications, step_size), temperature),
        seed=9,
        execution="xla",
        record_every=burnin,
        trajectory_every=thinning,
        num_burnin_steps=burnin,
    )
    carry, step, draws = loop.start(random.normal(size=(replications, 2)), ()), 1, []
    total = burnin + 99 * thinning
    while step <= total:
        chunk = loop.run(carry, step, min(loop.chunk_steps, total + 1 - step))
        draws.append(chunk.positions.numpy()[: int(chunk.num_positions)])
        carry, step = chunk.carry, step + int(chunk.taken)
    draws = np.concatenate(draws)
    assert draws.shape == (99, replications, 2)

    def log_likelihood(w):
        return -((y - mean_of(w)) ** 2).sum(1)

    likelihoods = np.stack([log_likelihood(w) for w in draws])
    return {
        "w0": (draws[:, :, 0] < truth[:, 0]).sum(0),
        "w1": (draws[:, :, 1] < truth[:, 1]).sum(0),
        "log likelihood": (likelihoods < log_likelihood(truth)).sum(0),
    }


def probability(found: np.ndarray, bins: int = 20) -> float:
    """Of a chi-square as large as that of the ranks, if they were uniform."""
    counts = np.bincount(found * bins // 100, minlength=bins)
    expected = len(found) / bins
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), bins - 1))


@pytest.mark.parametrize("method", METHODS)
def test_ranks_are_uniform(method):
    found = {name: probability(values) for name, values in ranks(method).items()}
    print(method, found)
    assert min(found.values()) > SMALLEST


def test_a_wrong_temperature_is_rejected():
    """T = 1.4, a posterior 1.2 times too wide in standard deviation: the test's power."""
    found = {name: probability(values) for name, values in ranks("HMC", temperature=1.4).items()}
    print(found)
    assert min(found.values()) < SMALLEST


# -----------------------------------------------------------------------------------------------------------
# joint test


def joint(
    method: str, num_turns: int = 200, walkers: int = 6_000, likelihood_noise: float = NOISE
) -> dict[str, float]:
    """z of E w, E w², E w⁴ (both weights) and E w₀ w₁ over turns of drawing y and moving w."""
    sampler, step_size, _ = METHODS[method]
    num_steps = 3 if method == "HMC" else 30
    rung = rung_of(np.full(walkers, step_size))
    start = tf.constant(np.random.default_rng(2).normal(size=(walkers, 2)))
    recording = RecordingNoise(tf.float64)
    silent = potential_of(tf.zeros((walkers, EXAMPLES), tf.float64)).bind(rung)
    sampler.init(start, silent, recording)
    initial, recording = recording.draws, RecordingNoise(tf.float64)
    state = sampler.init(start, silent, RecordingNoise(tf.float64))
    sampler.step(state, silent, recording)

    @tf.function(autograph=False, jit_compile=True)
    def moved(w, y, first_numbers, numbers):
        evaluate = potential_of(y).bind(rung)
        state = sampler.init(
            w, evaluate, StepNoise(initial, [values[0] for values in first_numbers])
        )

        def body(i, state):
            return i + 1, sampler.step(
                state, evaluate, StepNoise(recording.draws, [values[i] for values in numbers])
            )[0]

        return tf.while_loop(lambda i, _: i < num_steps, body, (tf.constant(0), state))[1].position

    random, w, sums = np.random.default_rng(3), start, 0.0
    for turn in range(num_turns):
        noise = random.normal(size=(walkers, EXAMPLES))
        y = mean_of(w.numpy()) + likelihood_noise * noise
        numbers = draw_numbers(recording.draws, 5, "step", 1 + turn * num_steps, num_steps)
        w = moved(w, tf.constant(y), draw_numbers(initial, 5, "init", turn, 1), numbers)
        now = w.numpy()
        sums = sums + np.stack([*now.T, *(now**2).T, *(now**4).T, now[:, 0] * now[:, 1]])
    laws = (0, 0, 1, 1, 3, 3, 0)
    pairs = [mean_and_error(values / num_turns) for values in sums]
    names = ("w0", "w1", "w0²", "w1²", "w0⁴", "w1⁴", "w0 w1")
    print(
        {name: round(TOLERANCE * error, 4) for name, (_, error) in zip(names, pairs, strict=True)}
    )
    return {
        name: (mean - law) / error
        for name, (mean, error), law in zip(names, pairs, laws, strict=True)
    }


@pytest.mark.parametrize("method", METHODS)
def test_data_and_weights_drawn_in_turn_keep_the_prior(method):
    """6,000 walkers, 200 turns: 5.5 standard errors resolve 7 % of the variances and 0.06 of the
    means.
    """
    found = joint(method)
    print(method, {name: round(z, 2) for name, z in found.items()})
    assert max(map(abs, found.values())) < TOLERANCE


def test_another_likelihood_is_rejected():
    """Data 10 % noisier than the potential takes them for."""
    found = joint("HMC", likelihood_noise=1.1 * NOISE)
    print({name: round(z, 2) for name, z in found.items()})
    assert max(map(abs, found.values())) > TOLERANCE
