"""The potential called from Python: compiled once, asked many times."""

from __future__ import annotations

import numpy as np

from tati_re.models.backend import tf
from tati_re.posterior.potential import Batch, ModelPotential
from tati_re.samplers.protocol import Energy, Rung


class Evaluator:
    """Energies, accuracies and Hessian products of a potential at given positions.

    Args:
        potential: What is evaluated.
        compile_with_xla: Whether single evaluations run under XLA.
    """

    def __init__(self, potential: ModelPotential, compile_with_xla: bool) -> None:
        self.potential = potential
        ones = tf.ones((potential.num_walkers,), tf.float64)
        rung = Rung(ones, ones, ones)
        self._none = tf.zeros((1, 0), tf.int32), tf.constant(0)

        def bound(indices, size, auxiliary):
            return potential.bind(rung, None if potential.batches.full else Batch(indices, size), auxiliary)

        def energy(position, indices, size, auxiliary):
            return bound(indices, size, auxiliary)(position)

        def metric(position, indices, size, auxiliary):
            return bound(indices, size, auxiliary).metric(position)

        def product(position, vector, indices, size, auxiliary):
            with tf.GradientTape() as tape:
                tape.watch(position)
                slope = bound(indices, size, auxiliary)(position).gradient
                along = tf.reduce_sum(slope * vector)
            return tape.gradient(along, position, unconnected_gradients="zero")

        xla = {"jit_compile": True} if compile_with_xla else {}
        self._energy = tf.function(energy, autograph=False, **xla)
        self._metric = tf.function(metric, autograph=False, **xla)
        self._product = tf.function(product, autograph=False)

    def batch(self, number: int) -> tuple:
        """Indices and size of one mini-batch, or placeholders for the full batch."""
        batches = self.potential.batches
        if batches.full:
            return self._none
        indices, sizes = batches.indices(number, 1)
        return tf.constant(indices[0], tf.int32), tf.constant(sizes[0], tf.int32)

    def energy(self, position: np.ndarray, batch: tuple, auxiliary: tuple) -> Energy:
        """U, its gradient, loss and log prior of all walkers, as numpy arrays."""
        return Energy(*(value.numpy() for value in self._energy(position, *batch, auxiliary)))

    def metric(self, position: np.ndarray, batch: tuple, auxiliary: tuple) -> np.ndarray:
        """Accuracy of all walkers."""
        return self._metric(position, *batch, auxiliary).numpy()

    def hessian_product(self, position: np.ndarray, vector: np.ndarray, batch: tuple, auxiliary: tuple) -> np.ndarray:
        """∇²U times a vector, for all walkers, `(walkers, parameters)`."""
        vector = np.broadcast_to(np.asarray(vector, position.dtype), position.shape)
        return self._product(position, tf.constant(vector), *batch, auxiliary).numpy()

    def largest_curvature(
        self, position: np.ndarray, walker: int, batch: tuple, auxiliary: tuple, num_steps: int = 20
    ) -> float:
        """The largest eigenvalue of ∇²U at one walker, from a few Lanczos steps with full reorthogonalisation.

        Source: Golub and Van Loan, Matrix Computations, section 10.1.
        """
        generator = np.random.default_rng(0)
        size = position.shape[1]
        basis = [generator.standard_normal(size)]
        basis[0] /= np.linalg.norm(basis[0])
        diagonal, off = [], []
        for _ in range(min(num_steps, size)):
            vector = np.zeros_like(position)
            vector[walker] = basis[-1]
            image = self.hessian_product(position, vector, batch, auxiliary)[walker].astype(np.float64)
            diagonal.append(float(image @ basis[-1]))
            stack = np.stack(basis)
            image -= stack.T @ (stack @ image)
            image -= stack.T @ (stack @ image)
            length = float(np.linalg.norm(image))
            if not length > 1e-10 * (abs(diagonal[0]) + 1e-300):
                break
            off.append(length)
            basis.append(image / length)
        off = off[: len(diagonal) - 1]
        return float(np.linalg.eigvalsh(np.diag(diagonal) + np.diag(off, 1) + np.diag(off, -1))[-1])
