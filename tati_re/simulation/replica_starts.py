"""Starting positions of replicas: given, newly initialized, or at the end of a descent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.potential import Potential
from tati_re.core.protocol import Rung
from tati_re.models.fan_in import fan_in_plus_one
from tati_re.optimizers.fire import Fire
from tati_re.options.make import make_options
from tati_re.posterior.noise_level import with_noise_of

if TYPE_CHECKING:
    from tati_re.simulation.request import Request
    from tati_re.simulation.starts import Walkers

_PURPOSE = 0x5354
_FIRST_TIME_STEP = 0.1


def first_values(request: Request, walkers: Walkers, execution: str) -> tuple[np.ndarray, tuple]:
    """Position and non-trainable variables of every copy before the first step, rung by rung."""
    position, auxiliary = on_all_rungs(request, walkers)
    if not request.samples:
        return position, auxiliary
    if (given := request.objects.get("starts")) is not None:
        return np.array(np.asarray(given).reshape(position.shape), position.dtype), auxiliary
    if len(position) == len(walkers.position) or request.options.replica_start == "same":
        return position, auxiliary
    return made_starts(request, position, auxiliary, execution), auxiliary


def on_all_rungs(request: Request, walkers: Walkers) -> tuple[np.ndarray, tuple]:
    """Position and non-trainable variables of the walkers, the same at each rung."""
    rungs = request.copies // len(walkers.position)

    def repeated(value):
        return np.tile(value, (rungs,) + (1,) * (value.ndim - 1)) if rungs > 1 else value

    return repeated(walkers.position), tuple(map(repeated, walkers.auxiliary))


def fresh_starts(names, shapes, count: int, seed: int) -> np.ndarray:
    """Independent initializations from U(-1/sqrt(k), 1/sqrt(k)), k = fan-in + 1 of the parameter's layer.

    Source: Baldock and Marzari (arXiv 1904.04154); without the + 1 the usual rule of LeCun et al. (1998) for biases and
    weights alike.

    Args:
        names: Of the model's tensors.
        shapes: Theirs.
        count: How many positions.
        seed: Of the random numbers; the first positions do not depend on `count`.

    Returns:
        `(count, parameters)`, float64.
    """
    bound = 1 / np.sqrt(fan_in_plus_one(names, shapes))
    return np.random.default_rng([seed, _PURPOSE]).uniform(-bound, bound, (count, len(bound)))


def made_starts(request: Request, like: np.ndarray, auxiliary: tuple, execution: str) -> np.ndarray:
    """Where the replicas start under `replica_start` fresh or descent, `(replicas, parameters)`.

    The descent is `tati_re.optimizers.Fire` on U with all data, `descent_steps` steps with 0.1 as the first
    time step, for each replica from its own initialization.
    """
    system, options = request.system, request.options
    fresh = fresh_starts(system.flat.tensor_names, system.flat.shapes, len(like), options.seed).astype(like.dtype)
    fresh = with_noise_of(system.flat, fresh)
    if options.replica_start == "fresh":
        return fresh
    all_data = make_options(options, batch_size=None)
    potential = system.potential(all_data, request.objects, copies=len(like))
    return descended(potential, fresh, auxiliary, options.descent_steps, execution)


def descended(
    potential: Potential, position: np.ndarray, auxiliary: tuple, num_steps: int, execution: str
) -> np.ndarray:
    """Where the descent on all data arrives from these positions, `(replicas, parameters)`."""
    ones = tf.ones((len(position),), tf.float64)
    method, rung = Fire(), Rung(ones, ones, _FIRST_TIME_STEP * ones)

    def descend(position, auxiliary, count):
        evaluate = potential.bind(rung, None, auxiliary)
        start = (tf.constant(0), method.init(position, evaluate, None))

        def step(i, state):
            return i + 1, method.step(state, evaluate, None)[0]

        return tf.while_loop(lambda i, _: i < count, step, start)[1].position

    given = tf.constant(position), tuple(map(tf.constant, auxiliary)), tf.constant(num_steps)
    call = descend
    try:
        if execution != "eager":
            # Traced by itself: TensorFlow takes functions that are made anew for one that it traces again and again.
            compiled = tf.function(descend, autograph=False, jit_compile=execution == "xla")
            call = compiled.get_concrete_function(*given)
        return call(*given).numpy()
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
        if execution != "xla":
            raise
        return descended(potential, position, auxiliary, num_steps, "graph")
