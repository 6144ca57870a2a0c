"""The peer: the same job in JAX as one would write it by hand, a `lax.scan` over BAOAB steps.

Each walker has its own threefry keys; the mini-batches are gathered inside the scan, the walkers
are a `vmap`, the state is donated to the compiled function, and one row of observables comes back
every 100th step. The batches are drawn by the same code as those of a run; "drawn inside" draws
them in the scan, with replacement, as is quickest to write. "plain" is one walker without a `vmap`,
which XLA compiles to another product than that of a batch of one. "bare" is the gradient alone, for
batches drawn beforehand. JAX works in a process of its own, so that neither library's threads meet
the other's: `python -m benchmarks.jax_scan ROW FORM`.
"""

from __future__ import annotations

import importlib.util
import itertools
import math
import os
import subprocess
import sys

import numpy as np

from benchmarks.systems import FRICTION, NUM_EXAMPLES, ROWS, SHAPES, STEP_SIZE, Row, images
from benchmarks.timing import milliseconds_per_step

STEPS = 100
STORED = ("bytes", "float32")
"""How the images lie in memory: as bytes that are scaled after gathering, or as float32."""


def forms(row: Row) -> tuple[str, ...]:
    """What is measured in a row: how the images lie, and other forms of the faster program, with
    bytes.
    """
    if not row.dense:
        return "bytes", "bytes bare"
    plain = ("bytes plain",) if row.walkers == 1 else ()
    return (*STORED, "bytes drawn inside", *plain, "bytes bare")


def available() -> bool:
    """Whether JAX is installed."""
    return importlib.util.find_spec("jax") is not None


class JaxScan:
    """A process that takes steps in JAX when told to.

    Args:
        row: Network of dense layers, walkers, batches.
        form: One of `forms`.
    """

    def __init__(self, row: Row, form: str) -> None:
        command = [sys.executable, "-m", "benchmarks.jax_scan", row.name, form]
        # On a GPU: float32 as float32, and no more of its memory than is needed, for TensorFlow
        # holds the rest.
        wanted = {
            "JAX_DEFAULT_MATMUL_PRECISION": "highest",
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._process = subprocess.Popen(command, env={**os.environ, **wanted}, **pipes)
        self._answer()

    def measure(self, seconds: float) -> float:
        """Milliseconds a step."""
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self) -> None:
        """Ends the process."""
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _answer(self) -> float:
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"The JAX process ended with status {self._process.wait()}.")
        return float(line)


def _serve(row: Row, form: str) -> None:
    call = _steps(row, *form.split(" ", 1))
    call()
    print(0.0, flush=True)
    for line in sys.stdin:
        print(milliseconds_per_step(call, float(line)), flush=True)


def _steps(row: Row, stored: str, how: str = ""):
    """A function that takes 100 steps with all walkers and returns that number."""
    import jax
    import jax.numpy as jnp

    from tati_re.data import Batches

    pixels, labels = images(SHAPES.get(row.network, (784,)))
    x = jnp.asarray(pixels if stored == "bytes" else pixels.astype(np.float32) / 255)
    y = jnp.asarray(labels)
    shapes, apply = (_dense if row.dense else _resnet)(row)
    cuts = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    h, count = STEP_SIZE, row.batch_size
    c, spread = math.exp(-FRICTION * h), math.sqrt(-math.expm1(-2 * FRICTION * h))

    def loss(theta, inputs, classes):
        weights = [p.reshape(s) for p, s in zip(jnp.split(theta, cuts[:-1]), shapes, strict=True)]
        log_probability = jnp.take_along_axis(
            jax.nn.log_softmax(apply(weights, inputs)), classes[:, None], 1
        )
        return -log_probability.sum() * (NUM_EXAMPLES / count)

    def gradient(theta, indices):
        inputs = x[indices]
        if stored == "bytes":
            inputs = inputs.astype(jnp.float32) * np.float32(1 / 255)
        value, slope = jax.value_and_grad(loss)(theta, inputs, y[indices])
        return value, slope + theta

    own = row.batches == "own"
    walkers_gradient = jax.vmap(gradient, in_axes=(0, 0 if own else None))
    if how == "plain":

        def walkers_gradient(theta, indices):
            value, slope = gradient(theta[0], indices.reshape(-1))
            return value[None], slope[None]

    draw = jax.vmap(lambda key: jax.random.normal(key, (cuts[-1],)))

    def step(state, indices):
        theta, momentum, slope, _, keys = state
        split = jax.vmap(jax.random.split)(keys)
        if how == "drawn inside":
            shape = (row.walkers, count) if own else (count,)
            indices = jax.random.randint(jax.random.fold_in(split[0, 1], 1), shape, 0, NUM_EXAMPLES)
        if how == "bare":
            value, slope = walkers_gradient(theta, indices)
            return (theta - 1e-9 * slope, momentum, slope, value, keys), None
        momentum = momentum - 0.5 * h * slope
        theta = theta + 0.5 * h * momentum
        momentum = c * momentum + spread * draw(split[:, 1])
        theta = theta + 0.5 * h * momentum
        value, slope = walkers_gradient(theta, indices)
        return (theta, momentum - 0.5 * h * slope, slope, value, split[:, 0]), None

    def chunk(state, indices):
        state, _ = jax.lax.scan(step, state, indices)
        theta, momentum, slope, value, _ = state
        squares = [
            (momentum**2).sum(1),
            (theta * slope).sum(1),
            (slope**2).sum(1),
            (theta**2).sum(1),
        ]
        return state, jnp.stack([value, *squares], axis=1)

    compiled = jax.jit(chunk, donate_argnums=0)
    scale = 0.01 if row.dense else 0.1
    start = scale * jax.random.normal(jax.random.key(0), (row.walkers, cuts[-1]))
    keys = jax.random.split(jax.random.key(1), row.walkers)
    state = [(start, jnp.zeros_like(start), jnp.zeros_like(start), jnp.zeros(row.walkers), keys)]
    batches = Batches(NUM_EXAMPLES, count, row.walkers, 0, shared=row.batches == "shared")
    first = [0]

    def call() -> int:
        indices = batches.indices(first[0], STEPS)[0]
        state[0], values = compiled(state[0], jnp.asarray(indices if own else indices[:, 0]))
        first[0] += STEPS
        if not np.isfinite(values).all():
            raise RuntimeError("The measured run is not stable.")
        return STEPS

    return call


def _dense(row: Row):
    """Shapes of the weights of a dense network, and its outputs."""
    import jax

    sizes = [784, *row.hidden, 10]
    shapes = [shape for pair in itertools.pairwise(sizes) for shape in (pair, pair[1:])]

    def apply(weights, inputs):
        outputs = inputs
        for layer in range(0, len(weights), 2):
            outputs = (jax.nn.relu(outputs) if layer else outputs) @ weights[layer] + weights[
                layer + 1
            ]
        return outputs

    return shapes, apply


def _resnet(row: Row):
    """Likewise of the ResNet-20 of `examples/resghmc_resnet.py`, normalized by the statistics of
    each batch.
    """
    import jax
    import jax.numpy as jnp

    layout = [(3, 3, 16, 1)]
    for stage in range(3):
        for block in range(3):
            before = 16 * 2**stage // (2 if stage and not block else 1)
            stride, after = (2 if before < 16 * 2**stage else 1), 16 * 2**stage
            layout += [(3, before, after, stride), (3, after, after, 1)]
            layout += [(1, before, after, stride)] if stride > 1 else []
    shapes = [shape for size, a, b, _ in layout for shape in ((size, size, a, b), (b,), (b,))] + [
        (64, 10),
        (10,),
    ]

    def apply(weights, inputs):
        used = iter(range(len(layout)))

        def normalized(x):
            layer = next(used)
            kernel, scale, shift = weights[3 * layer : 3 * layer + 3]
            strides = (layout[layer][3],) * 2
            x = jax.lax.conv_general_dilated(
                x, kernel, strides, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            spread = jax.lax.rsqrt(x.var((0, 1, 2)) + 1e-3)
            return (x - x.mean((0, 1, 2))) * spread * scale + shift

        x = jax.nn.relu(normalized(inputs))
        for block in range(9):
            y = normalized(jax.nn.relu(normalized(x)))
            x = jax.nn.relu((normalized(x) if block in (3, 6) else x) + y)
        return jnp.mean(x, (1, 2)) @ weights[-2] + weights[-1]

    return shapes, apply


if __name__ == "__main__":
    _serve(ROWS[sys.argv[1]], sys.argv[2])
