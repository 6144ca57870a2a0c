"""Checks of every sampler on plain numpy arrays, one per rule: shapes, types, purity, random
numbers, cost.
"""

import copy
import inspect
import json
from typing import Any

import numpy as np

from tati_re.core.method import as_method
from tati_re.core.method import missing as missing_in
from tati_re.core.protocol import Info, State, fields_of
from tati_re.testing.numpy_parts import NumpyEvaluate, NumpyNoise, quartic, rung_of

WALKERS = 5
PARAMETERS = 3
STEP_SIZES = np.linspace(0.05, 0.15, WALKERS)
TEMPERATURES = np.linspace(0.5, 1.5, WALKERS)
ENERGIES = ("potential", "loss", "log_prior")


def require(condition: Any, sentence: str) -> None:
    """Raises an `AssertionError` if a condition does not hold.

    Args:
        condition: The condition.
        sentence: What is wrong, and what was expected.

    Raises:
        AssertionError: The condition is false.
    """
    if not condition:
        raise AssertionError(sentence)


def check_attributes(sampler: Any) -> None:
    """All attributes are there and of their types; the arguments have their names; the
    configuration is plain.
    """
    missing = missing_in(sampler)
    require(not missing, f"the attributes {', '.join(missing)} are missing.")
    for method, function, names in (
        ("init", sampler.init, ["position", "evaluate", "noise"]),
        ("step", sampler.step, ["state", "evaluate", "noise"]),
    ):
        parameters = list(inspect.signature(function).parameters)
        require(
            parameters == names,
            f"{method} takes {', '.join(parameters)}. Expected: {', '.join(names)}.",
        )
    require(
        isinstance(sampler.name, str) and sampler.name,
        f"name is {sampler.name!r}. Expected: a text.",
    )
    flags = {"has_momentum": sampler.has_momentum, "metropolis": sampler.metropolis}
    for flag, value in (
        flags | {"full_batch": sampler.full_batch, "current": sampler.current}
    ).items():
        require(isinstance(value, bool), f"{flag} is {value!r}. Expected: True or False.")
    cost = sampler.gradients_per_step
    require(
        isinstance(cost, float) and cost > 0,
        f"gradients_per_step is {cost!r}. Expected: a float above 0.",
    )
    config = sampler.get_config()
    try:
        again = json.loads(json.dumps(config))
    except TypeError:
        again = None
    text = f"get_config gives {config}. Expected: texts, numbers, booleans, None and lists of them by name."
    require(again == config, text)
    text = f"get_config says sampler = {config.get('sampler')!r}. Expected: the name, {sampler.name!r}."
    require(config.get("sampler") == sampler.name, text)


def inputs(dtype=np.float64):
    position = np.random.default_rng(0).normal(size=(WALKERS, PARAMETERS)).astype(dtype)
    position.setflags(write=False)
    return (
        position,
        NumpyEvaluate(rung_of(STEP_SIZES, TEMPERATURES, numpy=True)),
        NumpyNoise(1, dtype),
    )


def locked(state):
    """The state, its arrays protected against writing."""
    for name, value in state._asdict().items():
        for array in value if name == "rung" else [value]:
            if isinstance(array, np.ndarray):
                array.setflags(write=False)
    return state


def started(sampler: Any, dtype=np.float64):
    """A sampler's first state on NumPy arrays, protected against writing.

    Args:
        sampler: The sampler.
        dtype: Number type of the parameters. Default: float64.

    Returns:
        The state of 5 walkers with 3 parameters, and the evaluations for its steps.

    Raises:
        AssertionError: `init` does not return a NamedTuple.
    """
    position, evaluate, noise = inputs(dtype)
    state = sampler.init(position, evaluate, noise)
    require(
        _fields_of(state),
        f"init returns a {type(state).__name__}. Expected: a NamedTuple such as State.",
    )
    return locked(state), evaluate


def stepped(sampler: Any, state, evaluate, noise):
    """Makes one step, whose result must be a pair of a state of the same type and an `Info`.

    Args:
        sampler: The sampler.
        state: The state before the step.
        evaluate: Computes U and its gradient.
        noise: Random numbers of this step.

    Returns:
        The state after the step, and its `Info`.

    Raises:
        AssertionError: The result is something else.
    """
    result = sampler.step(state, evaluate, noise)
    pair = isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Info)
    require(pair, f"step returns a {type(result).__name__}. Expected: a pair of state and Info.")
    text = f"step returns a {_in_words(result[0])}, init a {_in_words(state)}. Expected: the same type."
    require(type(result[0]) is type(state), text)
    return result


def _fields_of(state) -> tuple[str, ...]:
    return getattr(state, "_fields", ())


def _in_words(state) -> str:
    return f"{type(state).__name__} of {', '.join(_fields_of(state))}"


def check_shapes_and_types(sampler: Any, dtype=np.float64) -> None:
    """Checks the fields of the state, and the shapes and types of all arrays.

    The state is a NamedTuple with the fields of `State`, rung last. Arrays have the parameters'
    type, energies float64.

    Args:
        sampler: The sampler.
        dtype: Number type of the parameters. Default: float64.

    Raises:
        AssertionError: A field, shape or type is wrong.
    """
    state, evaluate = started(sampler, dtype)
    after, info = stepped(sampler, state, evaluate, NumpyNoise(2, dtype))
    wide = (WALKERS, PARAMETERS)
    narrow = (WALKERS,)
    for where, now in (("init", state), ("step", after)):
        lacking = [name for name in State._fields if name not in now._fields]
        require(
            not lacking,
            f"the state of {where} has no {', '.join(lacking)}. Expected: all fields of State.",
        )
        require(
            now._fields[-1] == "rung",
            f"the state ends with {now._fields[-1]}. Expected: rung as its last field.",
        )
        text = f"has_momentum is {sampler.has_momentum}, the fields are {', '.join(now._fields)}. Expected: both alike."
        require(("momentum" in now._fields) == sampler.has_momentum, text)
        vectors = ("position", "gradient", *(["momentum"] if sampler.has_momentum else []))
        for names, shape, expected_type in ((vectors, wide, dtype), (ENERGIES, narrow, np.float64)):
            for name, field in fields_of(now, names).items():
                value = np.asarray(field)
                require(
                    value.shape == shape and value.dtype == expected_type,
                    f"{name} after {where} is {value.dtype} of shape {value.shape}. "
                    f"Expected: {np.dtype(expected_type)} of shape {shape} for parameters in {np.dtype(dtype)}.",
                )
        require(
            now.rung is evaluate.rung,
            f"{where} changes the rung. Expected: the unchanged rung.",
        )
    for name, before, now in zip(state._fields, state, after, strict=True):
        if name != "rung":
            before = np.asarray(before)
            now = np.asarray(now)
            require(
                (before.dtype, before.shape) == (now.dtype, now.shape)
                and before.dtype.kind in "biuf",
                f"{name} is {before.dtype} {before.shape} after init and {now.dtype} {now.shape} after step. "
                "Expected: numbers of the same type and shape.",
            )
    for name in as_method(sampler).shown:
        fits = np.shape(after._asdict().get(name)) == narrow
        require(
            fits,
            f"shown names {name}, which is not a field of shape {narrow}. Expected: one "
            "number per walker.",
        )
    meters = as_method(sampler).dynamics.meters
    returned = ", ".join(name for name, value in info._asdict().items() if value is not None)
    require(
        [value is not None for value in info] == [sampler.metropolis, sampler.metropolis or meters],
        f"metropolis is {sampler.metropolis}, but step returns {returned or 'an empty Info'}. "
        "Expected: both fields of Info, or "
        f"{'energy_change alone, as meters is True' if meters else 'neither'}.",
    )
    if sampler.metropolis:
        fits = info.acceptance.shape == info.energy_change.shape == narrow
        require(
            fits, f"Info has the shapes {[np.shape(value) for value in info]}. Expected: {narrow}."
        )
        text = f"acceptance reaches {info.acceptance.min():.3g} to {info.acceptance.max():.3g}. Expected: 0 to 1."
        require(((info.acceptance >= 0) & (info.acceptance <= 1)).all(), text)


def first_difference(first, second) -> str | None:
    """The name of the first field that differs in any bit, the rung apart; None if all are equal.

    Args:
        first: A state.
        second: A state of the same type.
    """
    for name, a, b in zip(first._fields, first, second, strict=True):
        if name != "rung" and not np.array_equal(a, b):
            return name
    return None


def check_pure(sampler: Any) -> None:
    """Inputs are unchanged, the same inputs give the same outputs, and nothing is kept in the
    sampler.
    """
    changing = (list, dict, set, np.ndarray)
    before = {
        n: (v, copy.deepcopy(v) if isinstance(v, changing) else v) for n, v in vars(sampler).items()
    }
    state, evaluate = started(sampler)
    copies = state._replace(
        **{name: np.copy(value) for name, value in state._asdict().items() if name != "rung"}
    )
    first, _ = stepped(sampler, state, evaluate, NumpyNoise(2))
    stepped(sampler, first, evaluate, NumpyNoise(3))
    again, _ = stepped(sampler, state, evaluate, NumpyNoise(2))
    other, _ = stepped(sampler, state, evaluate, NumpyNoise(4))
    changed = []
    for name, value in vars(sampler).items():
        then, copied = before.get(name, (None, None))
        if (
            name not in before
            or value is not then
            or not (value is copied or np.all(value == copied))
        ):
            changed.append(name)
    text = (
        f"a step changes {', '.join(changed)} of the sampler. Expected: everything that "
        "changes is a field of the state."
    )
    require(not changed, text)
    written = first_difference(copies, state)
    require(
        written is None, f"a step writes into {written} of its input state. Expected: a new array."
    )
    differs = first_difference(first, again)
    require(
        differs is None,
        f"{differs} differs when a step is repeated. Expected: the same result for the "
        "same inputs.",
    )
    require(
        first_difference(first, other),
        "other random numbers give the same step. Expected: a different step.",
    )
    differs = first_difference(sampler.init(*inputs()), sampler.init(*inputs()))
    require(
        differs is None,
        f"{differs} differs when init is repeated. Expected: the same result for the same inputs.",
    )


def check_same_noise_requested(sampler: Any) -> None:
    """The same kinds and shapes each time, `(walkers, ...)` or `()`, whatever the state."""
    state, evaluate = started(sampler)
    requests = []
    for seed in range(20):
        noise = NumpyNoise(seed)
        state, _ = stepped(sampler, state, evaluate, noise)
        requests.append(noise.asked)
    require(
        requests[0], "a step asks for no random numbers. Expected: noise.normal or noise.uniform."
    )
    odd = next((request for request in requests if request != requests[0]), None)
    require(
        odd is None,
        f"one step draws {requests[0]}, another {odd}. Expected: the same draws each time.",
    )
    for kind, shape in requests[0]:
        text = f"a step draws {kind} numbers of shape {shape}. Expected: () or the {WALKERS} walkers first."
        require(shape == () or shape[0] == WALKERS, text)


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
        require(
            alone,
            f"{name} of the other walkers changes when walker 0 starts elsewhere. Expected: no change.",
        )
    require(
        (ends[0].position[0] != ends[1].position[0]).any(),
        "the walkers forget their start within 3 steps.",
    )


def check_gradients(sampler: Any) -> None:
    """A step asks for `gradients_per_step`, of its one kind; they are of the position where
    `current` says so.
    """
    state, evaluate = started(sampler)
    wrong = "evaluate(position)" if sampler.full_batch else "evaluate.full(position)"

    def calls() -> tuple[int, int]:
        """Of the kind that the method says, and of the other."""
        return (evaluate.calls, evaluate.full_calls)[:: -1 if sampler.full_batch else 1]

    before, _ = calls()
    # Random trajectory lengths: 400 of them give the mean within 8 % (5.5 standard errors); fixed
    # counts agree exactly.
    num_steps = 400 if sampler.metropolis else 10
    for seed in range(num_steps):
        state, _ = stepped(sampler, state, evaluate, NumpyNoise(seed))
        if sampler.current:
            for name, value, expected_value in (
                ("gradient", state.gradient, state.position**3 + state.position),
                ("potential", state.potential, quartic(state.position)),
            ):
                text = (
                    f"{name} after a step is not for the new position. Expected: values for "
                    "the position, or current = False."
                )
                require(np.allclose(value, expected_value, rtol=0, atol=1e-12), text)
    after, others = calls()
    text = (
        f"full_batch is {sampler.full_batch}, but {wrong} is requested. Expected: one kind of "
        "evaluation, as full_batch says."
    )
    require(others == 0, text)
    requested = (after - before) / num_steps
    declared = sampler.gradients_per_step
    text = f"a step requests {requested:g} gradients. Expected: {declared:g}, as gradients_per_step says."
    require(abs(requested - declared) <= (0.09 * declared if sampler.metropolis else 0), text)
