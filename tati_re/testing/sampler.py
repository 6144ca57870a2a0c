"""What every sampler must do, whatever its law: the protocol of :mod:`tati_re.samplers.protocol`, one check a rule."""

from __future__ import annotations

import copy
import inspect
import json
import tempfile
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tati_re.engine import checkpoint
from tati_re.engine.loop import Loop
from tati_re.engine.noise import RecordingNoise, StepNoise, draw_bits
from tati_re.engine.observables import Observables
from tati_re.models.backend import tf
from tati_re.posterior.function import FunctionPotential
from tati_re.posterior.priors import Box
from tati_re.samplers.importing import ATTRIBUTES
from tati_re.samplers.protocol import Info, State
from tati_re.testing.numpy_parts import GivenNoise, NumpyEvaluate, NumpyNoise, quartic, rung_of
from tati_re.testing.sampler_law import check_law

WALKERS, PARAMETERS = 5, 3
STEP_SIZES, TEMPERATURES = np.linspace(0.05, 0.15, WALKERS), np.linspace(0.5, 1.5, WALKERS)
ENERGIES = ("potential", "loss", "log_prior")


class LoopRun(NamedTuple):
    """What 25 steps of the engine's loop gave: the number of traces, the recorded rows, and every field of the final
    state but the rung."""

    traces: int
    rows: np.ndarray
    fields: dict[str, np.ndarray]


def check_sampler(
    sampler: Any,
    expected_variance: float | Callable | None = None,
    *,
    stiffness: float = 1.0,
    step_size: float | None = None,
    order: int = 1,
    num_steps: int = 1_500,
) -> None:
    """Tries everything that the engine relies on, and whether the sampler has the right law on a harmonic well.

    The rules are those of :mod:`tati_re.samplers.protocol`: attributes; shapes and types, with parameters in float32
    and float64; steps that are pure, ask for the same random numbers each time, count their gradients and stay inside
    the walls of a prior; the same numbers in numpy and TensorFlow, eagerly, as a graph and under XLA, and after a
    checkpoint. The law is described at :func:`tati_re.testing.check_law`.

    Args:
        sampler: An object, or a class that is made without arguments.
        expected_variance: Variance of θ on the harmonic well at T = 1, a number or a function of the step size.
            Default: that of exp(-U/T), up to a bias of order h.
        stiffness: k of the harmonic well. Default: 1.
        step_size: h on that well. Default: 0.2 in units of 1/sqrt(k) with momenta, of 1/k without.
        order: Of the bias in h, 1 or 2; with 2 the check is stricter. Default: 1.
        num_steps: Steps on that well. Default: 1,500.

    Raises:
        AssertionError: The first rule that is broken, in one sentence.

    Example:
        >>> from tati_re.samplers import SGLD
        >>> check_sampler(SGLD, expected_variance=lambda h: 1 / (1 - h / 2))
    """
    if isinstance(sampler, type):
        try:
            sampler = sampler()
        except Exception as error:
            raise AssertionError(
                f"{sampler.__name__} cannot be made without arguments ({type(error).__name__}: {error}); "
                "check an object."
            ) from error
    law = partial(
        check_law,
        expected_variance=expected_variance,
        stiffness=stiffness,
        step_size=step_size,
        order=order,
        num_steps=num_steps,
    )
    for what, check in {**CHECKS, "the law": law}.items():
        name = getattr(sampler, "name", type(sampler).__name__)
        try:
            check(sampler)
        except AssertionError as error:
            raise AssertionError(f"{name}, {what}: {error}") from None
        except Exception as error:
            said = " ".join(str(error).split())
            said = said if len(said) <= 200 else said[:200] + "..."
            raise AssertionError(f"{name}, {what}: a step raised {type(error).__name__}: {said}") from error


def require(condition: Any, sentence: str) -> None:
    """Raises an AssertionError with this sentence unless the condition holds."""
    if not condition:
        raise AssertionError(sentence)


def check_attributes(sampler: Any) -> None:
    """All attributes are there and of their types; the arguments have their names; the configuration is plain."""
    missing = [name for name in ATTRIBUTES if not hasattr(sampler, name)]
    require(not missing, f"the attributes {', '.join(missing)} are missing.")
    for method, names in (
        ("init", ["position", "evaluate", "noise"]),
        ("step", ["state", "evaluate", "noise"]),
    ):
        found = list(inspect.signature(getattr(sampler, method)).parameters)
        require(found == names, f"{method} takes {', '.join(found)}. Expected: {', '.join(names)}.")
    require(isinstance(sampler.name, str) and sampler.name, f"name is {sampler.name!r}. Expected: a text.")
    for flag in ("has_momentum", "metropolis", "full_batch", "current"):
        value = getattr(sampler, flag)
        require(isinstance(value, bool), f"{flag} is {value!r}. Expected: True or False.")
    cost = sampler.gradients_per_step
    require(isinstance(cost, float) and cost > 0, f"gradients_per_step is {cost!r}. Expected: a float above 0.")
    config = sampler.get_config()
    try:
        again = json.loads(json.dumps(config))
    except TypeError:
        again = None
    require(
        again == config,
        f"get_config gives {config}. Expected: texts, numbers, booleans, None and lists of them by name.",
    )
    require(
        config.get("sampler") == sampler.name,
        f"get_config says sampler = {config.get('sampler')!r}. Expected: the name, {sampler.name!r}.",
    )


def inputs(dtype=np.float64):
    """Positions, the potential, and noise, all in numpy; the positions refuse to be written to."""
    position = np.random.default_rng(0).normal(size=(WALKERS, PARAMETERS)).astype(dtype)
    position.setflags(write=False)
    return position, NumpyEvaluate(rung_of(STEP_SIZES, TEMPERATURES, numpy=True)), NumpyNoise(1, dtype)


def locked(state):
    """The state, its arrays protected against writing."""
    for name, value in state._asdict().items():
        for array in value if name == "rung" else [value]:
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
    return state


def started(sampler: Any, dtype=np.float64):
    """The state after `init` in numpy, and the potential."""
    position, evaluate, noise = inputs(dtype)
    state = sampler.init(position, evaluate, noise)
    require(hasattr(state, "_fields"), f"init returns a {type(state).__name__}. Expected: a NamedTuple such as State.")
    return locked(state), evaluate


def stepped(sampler: Any, state, evaluate, noise):
    """One step, whose result has to be a pair of a state of the same type and an Info."""
    result = sampler.step(state, evaluate, noise)
    pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Info)
    require(pair, f"step returns a {type(result).__name__}. Expected: a pair of state and Info.")
    require(
        type(result[0]) is type(state),
        f"step returns a {_fields_of(result[0])}, init a {_fields_of(state)}. Expected: the same type.",
    )
    return result


def _fields_of(state) -> str:
    return f"{type(state).__name__} of {', '.join(getattr(state, '_fields', ()))}"


def check_shapes_and_types(sampler: Any, dtype=np.float64) -> None:
    """A NamedTuple with the fields of State, rung last; arrays of the parameters' type, energies in float64."""
    state, evaluate = started(sampler, dtype)
    after, info = stepped(sampler, state, evaluate, NumpyNoise(2, dtype))
    wide, narrow = (WALKERS, PARAMETERS), (WALKERS,)
    for where, now in (("init", state), ("step", after)):
        lacking = [name for name in State._fields if name not in now._fields]
        require(not lacking, f"the state of {where} has no {', '.join(lacking)}. Expected: all fields of State.")
        require(now._fields[-1] == "rung", f"the state ends with {now._fields[-1]}. Expected: rung as its last field.")
        require(
            ("momentum" in now._fields) == sampler.has_momentum,
            f"has_momentum is {sampler.has_momentum}, the fields are {', '.join(now._fields)}. Expected: both alike.",
        )
        vectors = ("position", "gradient", *(["momentum"] if sampler.has_momentum else []))
        for names, shape, wanted in ((vectors, wide, dtype), (ENERGIES, narrow, np.float64)):
            for name in names:
                value = np.asarray(getattr(now, name))
                require(
                    value.shape == shape and value.dtype == wanted,
                    f"{name} after {where} is {value.dtype} of shape {value.shape}. "
                    f"Expected: {np.dtype(wanted)} of shape {shape} for parameters in {np.dtype(dtype)}.",
                )
        require(now.rung is evaluate.rung, f"{where} changes the rung. Expected: the one it got, as it is.")
    for name, before, now in zip(state._fields, state, after, strict=True):
        if name != "rung":
            before, now = np.asarray(before), np.asarray(now)
            require(
                (before.dtype, before.shape) == (now.dtype, now.shape) and before.dtype.kind in "biuf",
                f"{name} is {before.dtype} {before.shape} after init and {now.dtype} {now.shape} after step. "
                "Expected: numbers of the same type and shape.",
            )
    told = [value is not None for value in info]
    require(
        told == [sampler.metropolis] * 2,
        f"metropolis is {sampler.metropolis}, and step returns {_told(info)}. Expected: both of Info, or neither.",
    )
    if sampler.metropolis:
        fits = info.acceptance.shape == info.energy_change.shape == narrow
        require(fits, f"Info has the shapes {[np.shape(value) for value in info]}. Expected: {narrow}.")
        require(
            ((info.acceptance >= 0) & (info.acceptance <= 1)).all(),
            f"acceptance reaches {info.acceptance.min():.3g} to {info.acceptance.max():.3g}. Expected: 0 to 1.",
        )


def _told(info: Info) -> str:
    return ", ".join(name for name, value in info._asdict().items() if value is not None) or "an empty Info"


def check_types_in_tensorflow(sampler: Any, dtype: str = "float64") -> None:
    """The same in TensorFlow: rungs are float64 and must not raise or change a type."""
    potential = FunctionPotential(quartic, PARAMETERS, dtype=dtype)
    evaluate, noise = potential.bind(rung_of(STEP_SIZES)), RecordingNoise(potential.dtype)
    state = sampler.init(tf.ones((WALKERS, PARAMETERS), dtype), evaluate, noise)
    after, _ = stepped(sampler, state, evaluate, noise)
    for name, before, now in zip(state._fields, state, after, strict=True):
        if name != "rung":
            wanted = tf.float64 if name in ENERGIES else dtype if name in ("position", "gradient") else before.dtype
            require(
                before.dtype == now.dtype == wanted and before.shape == now.shape,
                f"{name} is {before.dtype.name} {before.shape} after init and {now.dtype.name} {now.shape} after step, "
                f"in TensorFlow. Expected: {tf.as_dtype(wanted).name} {before.shape} for parameters in {dtype}.",
            )


def first_difference(first, second) -> str | None:
    """The name of the first field, the rung apart, that is not the same bit for bit."""
    for name, a, b in zip(first._fields, first, second, strict=True):
        if name != "rung" and not np.array_equal(a, b):
            return name
    return None


def check_pure(sampler: Any) -> None:
    """Inputs are unchanged, the same inputs give the same outputs, and nothing is kept in the sampler."""
    before = {name: (value, _copied(value)) for name, value in vars(sampler).items()}
    state, evaluate = started(sampler)
    copies = state._replace(**{name: np.copy(value) for name, value in state._asdict().items() if name != "rung"})
    first, _ = stepped(sampler, state, evaluate, NumpyNoise(2))
    stepped(sampler, first, evaluate, NumpyNoise(3))
    again, _ = stepped(sampler, state, evaluate, NumpyNoise(2))
    other, _ = stepped(sampler, state, evaluate, NumpyNoise(4))
    changed = [name for name, value in vars(sampler).items() if name not in before or not _kept(value, *before[name])]
    require(
        not changed,
        f"a step changes the sampler's {', '.join(changed)}. Expected: what changes is a field of the state.",
    )
    written = first_difference(copies, state)
    require(written is None, f"a step writes into {written} of the state it got. Expected: a new array.")
    differs = first_difference(first, again)
    require(differs is None, f"{differs} differs when a step is repeated. Expected: the same for the same inputs.")
    require(first_difference(first, other), "other random numbers give the same step. Expected: another one.")
    differs = first_difference(sampler.init(*inputs()), sampler.init(*inputs()))
    require(differs is None, f"{differs} differs when init is repeated. Expected: the same for the same inputs.")


def _copied(value: Any) -> Any:
    return copy.deepcopy(value) if isinstance(value, list | dict | set | np.ndarray) else value


def _kept(value: Any, before: Any, copied: Any) -> bool:
    return value is before and (value is copied or bool(np.all(value == copied)))


def check_noise_asked_alike(sampler: Any) -> None:
    """The same kinds and shapes each time, `(walkers, ...)` or `()`, whatever the state."""
    state, evaluate = started(sampler)
    requests = []
    for seed in range(20):
        noise = NumpyNoise(seed)
        state, _ = stepped(sampler, state, evaluate, noise)
        requests.append(noise.asked)
    require(requests[0], "a step asks for no random numbers. Expected: noise.normal or noise.uniform.")
    odd = next((asked for asked in requests if asked != requests[0]), None)
    require(odd is None, f"one step draws {requests[0]}, another {odd}. Expected: the same each time.")
    for kind, shape in requests[0]:
        require(
            shape == () or shape[0] == WALKERS,
            f"a step draws {kind} numbers of shape {shape}. Expected: () or the {WALKERS} walkers first.",
        )


def check_walkers_alone(sampler: Any) -> None:
    """Another start of walker 0 changes nothing of the others."""
    position, evaluate, _ = inputs()
    moved = position.copy()
    moved[0] += 0.3
    ends = []
    for start in (position, moved):
        state = sampler.init(start, evaluate, NumpyNoise(1))
        for seed in range(3):
            state, _ = stepped(sampler, state, evaluate, NumpyNoise(seed))
        ends.append(state)
    for name, first, second in zip(ends[0]._fields, *ends, strict=True):
        alone = name == "rung" or np.array_equal(first[1:], second[1:])
        require(alone, f"{name} of the other walkers changes when walker 0 starts elsewhere. Expected: no change.")
    require((ends[0].position[0] != ends[1].position[0]).any(), "the walkers forget where they start within 3 steps.")


def check_gradients(sampler: Any) -> None:
    """The count over steps is `gradients_per_step`, of mini-batches or, for `full_batch`, of all data alone; they
    belong to the position where `current` says so."""
    state, evaluate = started(sampler)
    own, other = ("full_calls", "calls") if sampler.full_batch else ("calls", "full_calls")
    wrong = "evaluate(position)" if sampler.full_batch else "evaluate.full(position)"
    before = getattr(evaluate, own)
    # Random trajectory lengths: 400 of them give the mean within 8 % (5.5 standard errors); fixed counts agree exactly.
    num_steps = 400 if sampler.metropolis else 10
    for seed in range(num_steps):
        state, _ = stepped(sampler, state, evaluate, NumpyNoise(seed))
        if sampler.current:
            for name, wanted in (
                ("gradient", state.position**3 + state.position),
                ("potential", quartic(state.position)),
            ):
                require(
                    np.allclose(getattr(state, name), wanted, rtol=0, atol=1e-12),
                    f"{name} after a step is not that of the position. Expected: so, or current = False.",
                )
    require(
        getattr(evaluate, other) == 0,
        f"full_batch is {sampler.full_batch}, and {wrong} is asked. Expected: one kind of evaluation, as it says.",
    )
    found = (getattr(evaluate, own) - before) / num_steps
    said = sampler.gradients_per_step
    require(
        abs(found - said) <= (0.09 * said if sampler.metropolis else 0),
        f"a step asks for {found:g} gradients. Expected: {said:g}, as gradients_per_step says.",
    )


def check_walls(sampler: Any, bound: float = 0.1) -> None:
    """Within 20 steps nobody leaves the support of a prior with walls."""
    potential = FunctionPotential(quartic, PARAMETERS, prior=Box(bound))
    evaluate, random = potential.bind(rung_of(STEP_SIZES, TEMPERATURES)), _Drawn(2)
    state = sampler.init(tf.zeros((WALKERS, PARAMETERS), tf.float64), evaluate, random)
    for _ in range(20):
        state, _ = stepped(sampler, state, evaluate, random)
        outside = float(tf.reduce_max(tf.abs(state.position)))
        require(
            outside <= bound,
            f"a walker is at {outside:.3g} with walls at {bound:g}. Expected: position, momentum = "
            "evaluate.confine(position, momentum) after each move.",
        )


class _Drawn:
    """Random numbers of numpy as tensors."""

    def __init__(self, seed: int) -> None:
        self.noise = NumpyNoise(seed)

    def normal(self, shape):
        return tf.constant(self.noise.normal(shape))

    def uniform(self, shape):
        return tf.constant(self.noise.uniform(shape))


def check_numpy_is_tensorflow(sampler: Any) -> None:
    """Ten steps on the same numbers in numpy and eagerly, float64, to 1e-12."""
    state, evaluate = started(sampler)
    potential = FunctionPotential(quartic, PARAMETERS)
    tensor_rung = type(evaluate.rung)(*map(tf.constant, evaluate.rung))
    bound = potential.bind(tensor_rung, clock=type(evaluate.clock)(*map(tf.constant, evaluate.clock)))
    bound.gradient_variance = evaluate.gradient_variance
    recording = RecordingNoise(tf.float64)
    tensors = _with_rung(state, tensor_rung, tf.constant)
    stepped(sampler, tensors, bound, recording)
    bits = draw_bits(recording.draws, 3, "step", 1, 10)
    for i in range(10):
        noise = StepNoise(recording.draws, [values[i] for values in bits])
        tensors, _ = stepped(sampler, tensors, bound, noise)
        given = GivenNoise(StepNoise(recording.draws, [values[i] for values in bits]))
        state, _ = stepped(sampler, state, evaluate, given)
    for name, here, there in zip(state._fields, state, tensors, strict=True):
        close = name == "rung" or np.allclose(here, there, rtol=0, atol=1e-12)
        require(close, f"{name} in numpy and in TensorFlow differ after 10 steps. Expected: less than 1e-12 apart.")


def _with_rung(state, rung, convert: Callable):
    fields = {name: convert(value) for name, value in state._asdict().items() if name != "rung"}
    return type(state)(**fields, rung=rung)


def run_loop(sampler: Any, execution: str) -> LoopRun:
    """25 steps of the engine's loop on an anharmonic potential, 5 walkers, 3 parameters, float64.

    Args:
        sampler: The sampler.
        execution: "eager", "graph" or "xla".
    """
    loop = Loop(
        FunctionPotential(quartic, PARAMETERS),
        sampler,
        Observables(sampler, None),
        rung_of(STEP_SIZES, TEMPERATURES),
        seed=3,
        execution=execution,
        record_every=5,
    )
    carry = loop.start(np.linspace(-1, 1, WALKERS * PARAMETERS).reshape(WALKERS, PARAMETERS), ())
    chunk = loop.run(carry, 1, 25)
    fields = {name: value.numpy() for name, value in chunk.carry.state._asdict().items() if name != "rung"}
    return LoopRun(loop.traces, chunk.rows.numpy()[: int(chunk.num_rows)], fields)


def check_execution(sampler: Any, run: Callable[[Any, str], LoopRun] = run_loop) -> None:
    """A graph within 1e-12 of eager, XLA (its own erfinv) within 1e-9; one trace.

    Args:
        sampler: The sampler.
        run: :func:`run_loop`, or something that remembers what it gave.
    """
    eager = run(sampler, "eager")
    require(eager.traces == 0 and len(eager.rows) == 5, "25 eager steps do not give 5 rows.")
    for execution, tolerance in (("graph", 1e-12), ("xla", 1e-9)):
        compiled = run(sampler, execution)
        require(compiled.traces == 1, f"{execution} traces the loop {compiled.traces} times. Expected: once.")
        pairs = {"rows": (compiled.rows, eager.rows)}
        pairs |= {name: (value, eager.fields[name]) for name, value in compiled.fields.items()}
        for name, (found, wanted) in pairs.items():
            require(
                found.shape == wanted.shape and np.allclose(found, wanted, rtol=0, atol=tolerance, equal_nan=True),
                f"{name} after 25 steps under {execution} differ from eager ones. Expected: less than {tolerance:g}.",
            )


def check_checkpoint(sampler: Any) -> None:
    """A state that went through the arrays of a checkpoint into the structure that `init` makes goes on as before."""
    potential = FunctionPotential(quartic, PARAMETERS)
    evaluate = potential.bind(rung_of(STEP_SIZES, TEMPERATURES))
    random, position = _Drawn(5), tf.constant(inputs()[0])
    template = sampler.init(position, evaluate, random)
    state = template
    for _ in range(3):
        state, _ = stepped(sampler, state, evaluate, random)
    fields = [name for name in state._fields if name != "rung"]
    with tempfile.TemporaryDirectory() as folder:
        checkpoint.save(folder, {name: np.asarray(getattr(state, name)) for name in fields}, {"step": 3})
        arrays, _, _ = checkpoint.load(folder)
    restored = template._replace(**{name: tf.constant(arrays[name]) for name in fields})
    whole, _ = stepped(sampler, state, evaluate, _Drawn(6))
    after, _ = stepped(sampler, restored, evaluate, _Drawn(6))
    differs = first_difference(whole, after)
    require(
        differs is None,
        f"{differs} after a checkpoint goes on from other numbers than without one. "
        "Expected: what goes on from step to step are fields of the state.",
    )


CHECKS: dict[str, Callable[[Any], None]] = {
    "attributes": check_attributes,
    "shapes and types in float64": check_shapes_and_types,
    "shapes and types in float32": partial(check_shapes_and_types, dtype=np.float32),
    "types in TensorFlow in float64": check_types_in_tensorflow,
    "types in TensorFlow in float32": partial(check_types_in_tensorflow, dtype="float32"),
    "purity": check_pure,
    "random numbers": check_noise_asked_alike,
    "independent walkers": check_walkers_alone,
    "gradients": check_gradients,
    "walls": check_walls,
    "numpy and TensorFlow": check_numpy_is_tensorflow,
    "eager, graph and XLA": check_execution,
    "checkpoint": check_checkpoint,
}
"""What :func:`check_sampler` tries before the law, by what it is about."""
