"""Checks of every sampler in TensorFlow and in the engine: the same numbers under every
execution.
"""

import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.method import as_method
from tati_re.core.protocol import fields_of
from tati_re.engine.loop import Loop
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_numbers
from tati_re.engine.observables import Observables
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.priors import Box
from tati_re.runs import checkpoint
from tati_re.testing.numpy_parts import ConvertedNoise, NumpyNoise, quartic, rung_of
from tati_re.testing.sampler_protocol import (
    ENERGIES,
    PARAMETERS,
    STEP_SIZES,
    TEMPERATURES,
    WALKERS,
    first_difference,
    inputs,
    require,
    started,
    stepped,
)


class LoopRun(NamedTuple):
    """What 25 steps of the engine's loop gave: traces, recorded rows, and the final state but for
    the rung.
    """

    traces: int
    rows: np.ndarray
    fields: dict[str, np.ndarray]


def check_types_in_tensorflow(sampler: Any, dtype: str = "float64") -> None:
    """Checks types and shapes in TensorFlow: rungs are float64 and must not raise or change a type.

    Args:
        sampler: The sampler.
        dtype: Number type of the parameters, "float32" or "float64". Default: float64.

    Raises:
        AssertionError: A field of the state has a wrong type or shape.
    """
    potential = FunctionPotential(quartic, PARAMETERS, dtype=dtype)
    evaluate = potential.bind(rung_of(STEP_SIZES))
    noise = RecordingNoise(potential.dtype)
    state = sampler.init(tf.ones((WALKERS, PARAMETERS), dtype), evaluate, noise)
    after, _ = stepped(sampler, state, evaluate, noise)
    for name, before, now in zip(state._fields, state, after, strict=True):
        if name != "rung":
            if name in ENERGIES:
                expected_type = tf.float64
            else:
                expected_type = dtype if name in ("position", "gradient") else before.dtype
            require(
                before.dtype == now.dtype == expected_type and before.shape == now.shape,
                f"{name} is {before.dtype.name} {before.shape} after init and {now.dtype.name} {now.shape} after step, "
                f"in TensorFlow. Expected: {tf.as_dtype(expected_type).name} {before.shape} for parameters in {dtype}.",
            )


def check_walls(sampler: Any, bound: float = 0.1) -> None:
    """Checks that within 20 steps no walker leaves the support of a prior with walls.

    Args:
        sampler: The sampler.
        bound: Distance of the walls from 0. Default: 0.1.

    Raises:
        AssertionError: A walker has left the support.
    """
    potential = FunctionPotential(quartic, PARAMETERS, prior=Box(bound))
    evaluate = potential.bind(rung_of(STEP_SIZES, TEMPERATURES))
    random = _tensor_noise(2)
    state = sampler.init(tf.zeros((WALKERS, PARAMETERS), tf.float64), evaluate, random)
    for _ in range(20):
        state, _ = stepped(sampler, state, evaluate, random)
        outside = float(tf.reduce_max(tf.abs(state.position)))
        require(
            outside <= bound,
            f"a walker is at {outside:.3g} with walls at {bound:g}. Expected: position, momentum = "
            "evaluate.confine(position, momentum) after each move.",
        )


def _tensor_noise(seed: int) -> ConvertedNoise:
    return ConvertedNoise(NumpyNoise(seed), tf.constant)


def check_numpy_is_tensorflow(sampler: Any) -> None:
    """Ten steps on the same numbers in numpy and eagerly, float64, to 1e-12."""
    state, evaluate = started(sampler)
    potential = FunctionPotential(quartic, PARAMETERS)
    tensor_rung = type(evaluate.rung)(*map(tf.constant, evaluate.rung))
    bound = potential.bind(
        tensor_rung, clock=type(evaluate.clock)(*map(tf.constant, evaluate.clock))
    )
    bound.gradient_variance = evaluate.gradient_variance
    recording = RecordingNoise(tf.float64)
    fields = {name: tf.constant(value) for name, value in state._asdict().items() if name != "rung"}
    tensors = type(state)(**fields, rung=tensor_rung)
    stepped(sampler, tensors, bound, recording)
    numbers = draw_numbers(recording.draws, 3, "step", 1, 10)
    for i in range(10):
        tensors, _ = stepped(
            sampler, tensors, bound, StepNoise(recording.draws, [values[i] for values in numbers])
        )
        replayed = ConvertedNoise(
            StepNoise(recording.draws, [values[i] for values in numbers]), np.asarray
        )
        state, _ = stepped(sampler, state, evaluate, replayed)
    for name, numpy_value, there in zip(state._fields, state, tensors, strict=True):
        close = name == "rung" or np.allclose(numpy_value, there, rtol=0, atol=1e-12)
        require(
            close,
            f"{name} in numpy and in TensorFlow differ after 10 steps. Expected: less than 1e-12 apart.",
        )


def run_loop(sampler: Any, execution: str) -> LoopRun:
    """Runs 25 steps of the engine's loop: U anharmonic, 5 walkers, 3 parameters, float64.

    Args:
        sampler: The sampler.
        execution: "eager", "graph" or "xla".
    """
    method = as_method(sampler)
    potential = FunctionPotential(quartic, PARAMETERS)
    rung = rung_of(STEP_SIZES, TEMPERATURES)
    loop = Loop(
        potential=potential,
        method=method,
        observables=Observables(method, None),
        rung=rung,
        seed=3,
        execution=execution,
        record_every=5,
        num_steps=25,
    )
    carry = loop.start(np.linspace(-1, 1, WALKERS * PARAMETERS).reshape(WALKERS, PARAMETERS), ())
    chunk = loop.run(carry, 1, 25)
    fields = {
        name: value.numpy() for name, value in chunk.carry.state._asdict().items() if name != "rung"
    }
    return LoopRun(loop.traces, chunk.rows.numpy()[: int(chunk.num_rows)], fields)


def check_execution(sampler: Any, run: Callable[[Any, str], LoopRun] = run_loop) -> None:
    """Checks that compiled steps give the same numbers as eager ones, with one trace.

    A graph agrees within 1e-12, XLA, which has a different logarithm, within 1e-9.

    Args:
        sampler: The sampler.
        run: Runs the steps, from the sampler and the execution. Default: `run_loop`.

    Raises:
        AssertionError: Numbers differ, or the loop is traced more than once.
    """
    eager = run(sampler, "eager")
    require(eager.traces == 0 and len(eager.rows) == 5, "25 eager steps do not give 5 rows.")
    for execution, tolerance in (("graph", 1e-12), ("xla", 1e-9)):
        compiled = run(sampler, execution)
        require(
            compiled.traces == 1,
            f"{execution} traces the loop {compiled.traces} times. Expected: once.",
        )
        pairs = {"rows": (compiled.rows, eager.rows)}
        pairs |= {name: (value, eager.fields[name]) for name, value in compiled.fields.items()}
        for name, (actual, expected_value) in pairs.items():
            require(
                actual.shape == expected_value.shape
                and np.allclose(actual, expected_value, rtol=0, atol=tolerance, equal_nan=True),
                f"{name} after 25 steps under {execution} differ from eager ones. Expected: less than {tolerance:g}.",
            )


def check_checkpoint(sampler: Any) -> None:
    """A state that went through the arrays of a checkpoint into the structure that `init` makes
    goes on as before.
    """
    evaluate = FunctionPotential(quartic, PARAMETERS).bind(rung_of(STEP_SIZES, TEMPERATURES))
    random = _tensor_noise(5)
    position = tf.constant(inputs()[0])
    template = sampler.init(position, evaluate, random)
    state = template
    for _ in range(3):
        state, _ = stepped(sampler, state, evaluate, random)
    fields = [name for name in state._fields if name != "rung"]
    with tempfile.TemporaryDirectory() as folder:
        stored = {name: np.asarray(value) for name, value in fields_of(state, fields).items()}
        checkpoint.save(folder, stored, {"step": 3})
        arrays, _, _ = checkpoint.load(folder)
    restored = template._replace(**{name: tf.constant(arrays[name]) for name in fields})
    uninterrupted, _ = stepped(sampler, state, evaluate, _tensor_noise(6))
    after, _ = stepped(sampler, restored, evaluate, _tensor_noise(6))
    differs = first_difference(uninterrupted, after)
    require(
        differs is None,
        f"{differs} differs when a checkpoint is resumed. Expected: everything that "
        "changes from step to step is a field of the state.",
    )
