"""Closed forms of stationary laws, and small helpers that run a sampler and average over its steps.

Every step of a splitting on a harmonic well is linear in z = (q, p) with Gaussian noise, z' = M z +
N(0, Q), so that its stationary covariance S solves the discrete Lyapunov equation S = M S M' + Q,
and the squares of its coordinates have correlations ρ(t)² with ρ(t) = (M^t S)_ii / S_ii. A test
compares with these within `TOLERANCE` standard errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from examples.ladder_systems import NoisyEvaluate, NoisyPotential
from tati_re.core.backend import tf
from tati_re.core.protocol import Clock, Rung
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_numbers
from tati_re.testing.numpy_parts import NumpyEvaluate, NumpyNoise, quartic, rung_of
from tati_re.testing.sampler_law import TOLERANCE

__all__ = [
    "TOLERANCE",
    "Law",
    "NoisyEvaluate",
    "NoisyPotential",
    "NumpyEvaluate",
    "NumpyNoise",
    "averages",
    "discrete_lyapunov",
    "hmc_acceptance",
    "law_of_linear_step",
    "mean_and_error",
    "overdamped_law",
    "quartic",
    "rung_of",
    "splitting_law",
    "stationary_start",
]

_BITS_BYTES = 12 * 2**20


class Law(NamedTuple):
    """Stationary covariance of (q, p), or of q alone, and the integrated autocorrelation time in
    steps of each coordinate's square.
    """

    covariance: np.ndarray
    times: np.ndarray

    def standard_error(self, coordinate: int, samples: int) -> float:
        """Of the mean of the coordinate's square over so many samples (steps times walkers), the
        chain started in its stationary law.
        """
        return self.covariance[coordinate, coordinate] * math.sqrt(
            2 * self.times[coordinate] / samples
        )


def discrete_lyapunov(matrix: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """S = sum over t of M^t Q M'^t, which solves S = M S M' + Q; each pass doubles the number of
    terms (Smith 1968).
    """
    if np.abs(np.linalg.eigvals(matrix)).max() >= 1:
        raise ValueError("unstable: there is no stationary law")
    total, power = noise.copy(), matrix.copy()
    while np.abs(power).max() > 1e-30:
        total, power = total + power @ total @ power.T, power @ power
    return total


def law_of_linear_step(matrix: np.ndarray, noise: np.ndarray) -> Law:
    """The law of z' = M z + N(0, Q); the sums of ρ(t)² solve a Lyapunov equation too."""
    covariance = discrete_lyapunov(matrix, noise)
    times = []
    for i, column in enumerate(covariance.T):
        squares = discrete_lyapunov(matrix, np.outer(column, column))[i, i]
        times.append(2 * squares / column[i] ** 2 - 1)
    return Law(covariance, np.array(times))


def splitting_law(
    word: str,
    step_size: float,
    stiffness: float = 1.0,
    friction: float = 1.0,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
) -> Law:
    """The law of (q, p) at the end of a step of a splitting word on U = stiffness q²/2.

    Each B draws gradient noise of its own: a word whose B at the end of a step and at the beginning
    of the next share one gradient is given with one B, BAOA in place of BAOAB, which has the same
    q.

    BAOAB has Var q = T/k and Var p = T (1 - h²k/4), as Leimkuhler and Matthews (2013) show; the
    other words follow in the same way.
    """
    matrix, noise = np.eye(2), np.zeros((2, 2))
    for letter in word:
        t = step_size / word.count(letter)
        c = math.exp(-friction * t)
        damped = math.exp(-t * step_size * gradient_variance / (2 * temperature))
        part = {
            "A": [[1, t], [0, 1]],
            "B": [[1, 0], [-t * stiffness, 1]],
            "O": [[1, 0], [0, c]],
            "U": [[1, (1 - c) / friction], [0, c]],
            "C": [[1, 0], [0, damped]],
        }[letter]
        matrix, noise = np.array(part) @ matrix, np.array(part) @ noise @ np.array(part).T
        if letter == "O":
            noise[1, 1] += (1 - c * c) * temperature
        elif letter == "U":
            both = (1 - c) ** 2 / friction
            of_q = (2 * friction * t - 3 + 4 * c - c * c) / friction**2
            noise += temperature * np.array([[of_q, both], [both, 1 - c * c]])
        elif letter == "B":
            noise[1, 1] += t * t * gradient_variance
    return law_of_linear_step(matrix, noise)


def overdamped_law(
    step_size: float,
    stiffness: float = 1.0,
    temperature: float = 1.0,
    gradient_variance: float = 0.0,
) -> Law:
    """The law of q under q' = (1 - hk) q + sqrt(2hT) R + h sqrt(V) R': a first-order
    autoregression, Var q = (T/k) (1 + hV/(2T)) / (1 - hk/2).
    """
    noise = 2 * step_size * temperature + step_size**2 * gradient_variance
    return law_of_linear_step(np.array([[1 - step_size * stiffness]]), np.array([[noise]]))


def hmc_acceptance(
    dimensions: int, step_size: float, lengths, frequency: float = 1.0
) -> np.ndarray:
    """Mean acceptance of velocity Verlet HMC at stationarity on U = ω²q²/2 in d equal dimensions,
    one value for each length L.

    L steps rotate (χωq, p) by Lφ with cos φ = 1 - h²ω²/2 and χ² = 1 - h²ω²/4, a map with singular
    values exp(±s), sinh s = |χ - 1/χ| |sin Lφ| / 2. Volume is kept, so that the mean of min(1,
    exp(-βΔH)) is twice the probability that H falls, which asks whether a Beta(d/2, d/2) variable
    is below 1/(1 + exp(2s)): 2 I_{1/(1+exp(2s))}(d/2, d/2), at every temperature.
    """
    x = (step_size * frequency) ** 2
    phi, chi = math.acos(1 - x / 2), math.sqrt(1 - x / 4)
    s = np.arcsinh(0.5 * abs(chi - 1 / chi) * np.abs(np.sin(np.atleast_1d(lengths) * phi)))
    return 2 * betainc(dimensions / 2, dimensions / 2, 1 / (1 + np.exp(2 * s)))


def stationary_start(laws, walkers: int, seed: int) -> np.ndarray:
    """Exact draws from Gaussian laws, `walkers` for each: `(len(laws) * walkers, coordinates)`."""
    random = np.random.default_rng(seed)
    return np.concatenate(
        [
            random.multivariate_normal(np.zeros(len(law.covariance)), law.covariance, walkers)
            for law in laws
        ]
    )


def averages(
    sampler,
    potential,
    rung: Rung,
    position: np.ndarray,
    num_steps: int,
    observe: Callable,
    momentum: np.ndarray | None = None,
    seed: int = 0,
    change_noise: Callable = lambda noise: noise,
    num_burnin_steps: int = 0,
) -> np.ndarray:
    """Runs a sampler, all walkers at once in one function compiled by XLA, and averages over its
    steps.

    Args:
        sampler: What is tested.
        potential: A `FunctionPotential`.
        rung: Step size and temperature of each walker.
        position: `(walkers, parameters)` to start from.
        num_steps: Steps averaged over.
        observe: `observe(old_state, state, info)` gives a list of `(walkers,)` float64 tensors.
        momentum: `(walkers, parameters)`, in place of the ones that `init` draws.
        seed: Of the random numbers.
        change_noise: Wraps the noise of each step; for wrong variants.
        num_burnin_steps: Steps before, in which what adapts may do so.

    Returns:
        `(observables, walkers)`.
    """
    evaluate, position = potential.bind(rung), tf.constant(position, potential.dtype)
    taken = num_burnin_steps + num_steps
    recording = RecordingNoise(potential.dtype)
    sampler.init(position, evaluate, recording)
    numbers = draw_numbers(recording.draws, seed, "init", 0, 1)
    state = sampler.init(
        position, evaluate, StepNoise(recording.draws, [values[0] for values in numbers])
    )
    if momentum is not None:
        state = state._replace(momentum=tf.constant(momentum, potential.dtype))
    recording = RecordingNoise(potential.dtype)
    size = len(observe(state, *sampler.step(state, evaluate, recording)))
    draws = recording.draws
    chunk = max(1, min(taken, _BITS_BYTES // sum(draw.bytes() for draw in draws)))

    def one_step(i, state, sums, numbers, first):
        noise = change_noise(StepNoise(draws, [values[i] for values in numbers]))
        step = first + tf.cast(i, tf.int64)
        adapting = step <= num_burnin_steps
        new, info = sampler.step(
            state, potential.bind(rung, clock=Clock(step, adapting, tf.constant(0))), noise
        )
        counted = tf.cast(tf.logical_not(adapting), tf.float64)
        return i + 1, new, sums + counted * tf.stack(observe(state, new, info)), numbers, first

    @tf.function(autograph=False, jit_compile=True)
    def steps(state, sums, numbers, count, first):
        return tf.while_loop(
            lambda i, *_: i < count, one_step, (tf.constant(0), state, sums, numbers, first)
        )[1:3]

    @tf.function(autograph=False)
    def run(state, sums, first, count):
        return steps(state, sums, draw_numbers(draws, seed, "step", first, chunk), count, first)

    sums = tf.zeros((size, position.shape[0]), tf.float64)
    for done in range(0, taken, chunk):
        state, sums = run(
            state, sums, tf.constant(1 + done, tf.int64), tf.constant(min(chunk, taken - done))
        )
    return sums.numpy() / num_steps


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over independent walkers, and its standard error from their spread."""
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(len(values)))
