"""The potential called from Python: compiled once, asked many times."""

from collections.abc import Callable

import numpy as np

from tati_re.core.backend import Compiled, tf, value_and_gradient
from tati_re.core.lanczos import lanczos
from tati_re.core.potential import Batch, Potential
from tati_re.core.protocol import Energy, Rung

_LANCZOS_STEPS = 20


class Evaluator:
    """Energies, accuracies and Hessian products of a potential at given positions.

    The temperature, the weight of the likelihood and the step size are 1 for all walkers.

    Args:
        potential: The potential.
        compile_with_xla: Whether XLA compiles the functions; Hessian products are never compiled.
    """

    def __init__(self, potential: Potential, compile_with_xla: bool) -> None:
        self.potential = potential
        self._xla = compile_with_xla
        ones = tf.ones((potential.num_walkers,), tf.float64)
        self._rung = Rung(ones, ones, ones)
        self._functions: dict[tuple[str, int], Compiled] = {}

    def batch(self, number: int) -> tuple:
        """Indices and size of one mini-batch; nothing for all data."""
        batches = self.potential.batches
        if batches.full:
            return ()
        indices, sizes = batches.indices(number, 1)
        return tf.constant(indices[0], tf.int32), tf.constant(sizes[0], tf.int32)

    def energy(self, position: np.ndarray, batch: tuple, auxiliary: tuple) -> Energy:
        """U, its gradient, the mean loss and the log prior of each walker.

        Args:
            position: Positions, (walkers, parameters).
            batch: Indices and size of a mini-batch, as `batch` gives them; empty for all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.

        Returns:
            NumPy arrays.
        """
        values = self._call(
            "energy", lambda evaluate, x: tuple(evaluate(x)), (position,), batch, auxiliary
        )
        return Energy(*(value.numpy() for value in values))

    def metric(self, position: np.ndarray, batch: tuple, auxiliary: tuple) -> np.ndarray:
        """The accuracy of each walker, (walkers,), float64; the potential must be a classifier's.

        Args:
            position: Positions, (walkers, parameters).
            batch: Indices and size of a mini-batch, as `batch` gives them; empty for all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """
        return self._call(
            "metric", lambda evaluate, x: evaluate.metric(x), (position,), batch, auxiliary
        ).numpy()

    def _call(
        self, name: str, function: Callable, positions: tuple, batch: tuple, auxiliary: tuple
    ):
        """Calls `function(evaluate, *positions)` compiled, with as few arguments as it can: each
        costs 0.1 ms.
        """
        key = name, len(batch)
        if key not in self._functions:
            first = len(positions)
            second = len(positions) + len(batch)

            def flat(*arguments):
                batch = Batch(*arguments[first:second]) if second > first else None
                return function(
                    self.potential.bind(self._rung, batch, arguments[second:]), *arguments[:first]
                )

            # One product at a time: compiling second derivatives takes longer than it saves.
            self._functions[key] = Compiled(
                flat, jit_compile=self._xla and name != "hessian_product"
            )
        return self._functions[key](*positions, *batch, *auxiliary)

    def hessian_product(
        self, position: np.ndarray, vector: np.ndarray, batch: tuple, auxiliary: tuple
    ) -> np.ndarray:
        """∇²U times a vector for all walkers, (walkers, parameters).

        Args:
            position: Positions, (walkers, parameters).
            vector: The vector, (parameters,) for all walkers, or (walkers, parameters).
            batch: Indices and size of a mini-batch, as `batch` gives them; empty for all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """

        def product(evaluate, position, vector):
            return value_and_gradient(
                lambda x: tf.reduce_sum(evaluate(x).gradient * vector), position
            )[1]

        vector = np.broadcast_to(np.asarray(vector, position.dtype), position.shape)
        return self._call("hessian_product", product, (position, vector), batch, auxiliary).numpy()

    def largest_curvature(
        self, position: np.ndarray, walker: int, batch: tuple, auxiliary: tuple
    ) -> float:
        """The largest eigenvalue of ∇²U at one walker, from at most 20 Lanczos steps.

        Args:
            position: Positions of all walkers, (walkers, parameters).
            walker: Number of the walker, from 0.
            batch: Indices and size of a mini-batch, as `batch` gives them; empty for all data.
            auxiliary: Non-trainable variables, (walkers, *shape) each.
        """

        def product(vector: np.ndarray) -> np.ndarray:
            rows = np.zeros_like(position)
            rows[walker] = vector
            return self.hessian_product(position, rows, batch, auxiliary)[walker]

        size = position.shape[1]
        return float(lanczos(product, size, min(_LANCZOS_STEPS, size))[0][-1])
