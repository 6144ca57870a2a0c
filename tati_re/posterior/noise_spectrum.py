"""How the noise of mini-batches is spread over the frequencies of the potential, at one place."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.evaluate import Rung
from tati_re.core.lanczos import lanczos
from tati_re.posterior.function import combine
from tati_re.posterior.passes import ModelPasses

LANCZOS_STEPS = 8
REST_VECTORS = 2
COST = 2 * (LANCZOS_STEPS + REST_VECTORS) + REST_VECTORS + 2
"""Gradients on all examples that are looked at, at most; a product with the Hessian costs two."""


Map = Callable[[np.ndarray], np.ndarray]
"""Of vectors `(n, parameters)`, linear."""


class NoiseSpectrum(NamedTuple):
    """Curvatures of U and the noise of mini-batch gradients along their directions.

    Attributes:
        curvature: Ritz values of the Hessian, ascending, (k,); the last is close to its largest
            eigenvalue.
        variance: Variance over the examples of the gradient of N times one example's loss along the
            Ritz vectors, (k,).
        rest_curvature: Mean curvature of the other directions, weighted by their variance.
        rest_variance: Sum of the variances of the other directions.
        rest: Number of the other directions.
        num_examples: Number of examples from which the variances are estimated.
    """

    curvature: np.ndarray
    variance: np.ndarray
    rest_curvature: float
    rest_variance: float
    rest: int
    num_examples: int


def noise_spectrum(
    potential: ModelPasses,
    position: np.ndarray,
    auxiliary: tuple,
    indices: np.ndarray,
    there: Map,
    back: Map,
) -> NoiseSpectrum:
    """The spectrum of gradient noise at one position, from some examples.

    Lanczos steps start from a noise vector. Their Hessian products also give the gradients of
    single examples along it. Other noise counts with one mean curvature. Layers act as in
    prediction. Vectors are in coordinates x with θ = B x.

    Args:
        potential: The potential of the model.
        position: Position θ, (parameters,).
        auxiliary: Non-trainable variables, (1, *shape) each.
        indices: Indices of the training examples, (n,).
        there: B: maps rows of x, (m, parameters), to rows of θ.
        back: B' on rows in the same shape.
    """
    theta = tf.constant(position[None])
    count = len(indices)
    random = np.random.default_rng(0)
    ones = tf.ones((1,), tf.float64)
    extra = tuple(tf.constant(value) for value in auxiliary)
    x, y = potential.train.gathered(tf.constant(indices, tf.int32))
    x = potential.prepared(x)

    def gradient(weight):
        return potential.summed_loss_and_gradient(
            theta, x, y, weight, extra, True, "unrolled", potential.scale
        )[1]

    weight = tf.fill([count], tf.constant(1 / count, tf.float64))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([theta, weight])
        slope = combine(
            ones, gradient(weight), potential.prior, theta, Rung(ones, ones, ones), 1.0
        ).gradient
        if potential.flat.regularizer is not None:
            slope += potential.regularizer(theta)[1]

    def product(vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        along = tf.constant(_mapped(there, vector)[None], theta.dtype)
        curved, by_example = tape.gradient(slope, [theta, weight], along, "zero")
        return _mapped(back, curved.numpy()[0]), by_example.numpy()

    def noise() -> np.ndarray:
        weights = random.standard_normal(count)
        return _mapped(back, gradient(tf.constant(weights - weights.mean())).numpy()[0])

    seen: list[np.ndarray] = []

    def noted(vector: np.ndarray) -> np.ndarray:
        curved, slopes = product(vector)
        seen.append(slopes)
        return curved

    size, start = len(position), noise()
    start = start / max(float(np.linalg.norm(start)), 1e-300)
    # The random part finds directions without noise.
    other = random.standard_normal(size)
    start = start + 0.5 * other / np.linalg.norm(other)
    curvature, mixing, basis = lanczos(noted, size, min(LANCZOS_STEPS, size), start)
    variance = np.var(np.stack(seen, axis=1) @ mixing, axis=0, ddof=1)
    left = size - len(basis)
    squares = 0.0
    curved = 0.0
    for _ in range(REST_VECTORS if left else 0):
        vector = noise()
        vector -= basis.T @ (basis @ vector)
        squares += float(vector @ vector)
        curved += float(vector @ product(vector)[0])
    rest_curvature = squares / REST_VECTORS / (count - 1)
    return NoiseSpectrum(
        curvature, variance, curved / squares if squares else 0.0, rest_curvature, left, count
    )


def _mapped(by: Map, vector: np.ndarray) -> np.ndarray:
    return by(vector[None].astype(np.float64))[0]
