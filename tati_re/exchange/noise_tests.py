"""Tests of a run's mini-batch noise at its end, for swaps and thermostats that assume Gaussian
noise.
"""

import numpy as np

from tati_re.core.backend import Compiled
from tati_re.core.facets import temperatures_of
from tati_re.core.potential import Batch, Potential
from tati_re.exchange.gaussianity import difference_p_values, gradient_p_values
from tati_re.exchange.replicas import ReplicaExchange

_MOST_EXAMPLES = 50_000
_ENERGY_TESTS = 20
_ENERGY_BATCHES = 100
_GRADIENT_BATCHES = 50
_VECTORS = 100


def noise_table(
    potential: Potential, method, state, auxiliary: tuple, rung, seed: int, first_batch: int
) -> dict | None:
    """The columns of noise.csv: p-values of the Shapiro-Wilk test.

    Rows `energy` test means over mini-batches of the differences of the losses of neighboring
    replicas; `rung` is the lower one of a pair. Rows `gradient` test mini-batch gradients at the
    target's first walker, less their mean, on random unit vectors.

    Args:
        potential: The potential of the run, with its mini-batches.
        method: The method of the run.
        state: The state at the end of the run.
        auxiliary: Keras' non-trainable variables of the walkers.
        rung: Temperature, likelihood weight and step size of each walker.
        seed: Seed of the tests.
        first_batch: Number of the first mini-batch whose gradients are tested.

    Returns:
        The columns, or None where no swap sees noise.
    """
    batches = potential.batches
    count = potential.num_examples
    if not isinstance(method, ReplicaExchange) or method.batch_size is None or batches.full:
        return None
    order = np.asarray(temperatures_of(method).order(state))
    size = min(method.batch_size, count)
    p_values: list[tuple[str, int, float]] = []
    if size < min(count, _MOST_EXAMPLES):
        losses = _losses(potential, state, auxiliary, rung, min(count, _MOST_EXAMPLES), seed)
        walkers = order.reshape(method.num_rungs, method.num_ladders)[:, 0]
        tests_per_pair = -(-_ENERGY_TESTS // (method.num_rungs - 1))
        for low in range(method.num_rungs - 1):
            gaps = losses[walkers[low]] - losses[walkers[low + 1]]
            if np.ptp(gaps) > 0 and np.isfinite(gaps).all():
                energy_values = difference_p_values(
                    gaps, size, _ENERGY_BATCHES, tests_per_pair, seed + low
                )
                p_values += [("energy", low, float(value)) for value in energy_values]
    gradients = _gradients(potential, state, auxiliary, rung, first_batch, int(order[0]))
    if np.isfinite(gradients).all() and np.ptp(gradients, axis=0).any():
        p_values += [
            ("gradient", 0, float(value)) for value in gradient_p_values(gradients, _VECTORS, seed)
        ]
    kinds, rungs, values = zip(*p_values, strict=True) if p_values else ((), (), ())
    return {"test": list(kinds), "rung": list(rungs), "p_value": list(values)}


def _losses(potential, state, auxiliary: tuple, rung, count: int, seed: int) -> np.ndarray:
    chosen = (
        np.random.default_rng([seed, 0x4E54])
        .permutation(potential.num_examples)[:count]
        .astype(np.int32)
    )
    evaluate = potential.bind(rung, None, auxiliary)
    losses = Compiled(lambda indices: evaluate.examples(state.position, indices))
    return np.concatenate([piece.numpy() for piece in losses.over_pieces(5000, [chosen])], axis=1)


def _gradients(
    potential, state, auxiliary: tuple, rung, first_batch: int, walker: int
) -> np.ndarray:
    """Gradients of one walker on some mini-batches, `(batches, parameters)`."""
    indices, sizes = potential.batches.indices(first_batch, _GRADIENT_BATCHES)

    def gradient(indices_of_batch, size):
        return potential.bind(rung, Batch(indices_of_batch, size), auxiliary)(
            state.position
        ).gradient[walker]

    call = Compiled(gradient)
    pairs = zip(np.asarray(indices, np.int32), np.asarray(sizes, np.int32), strict=True)
    return np.stack(
        [call(indices_of_batch, size).numpy() for indices_of_batch, size in pairs]
    ).astype(np.float64)
