"""Where the walkers of a Simulation start, and the replicas of a run: at given places, together or
apart.
"""

import math
from typing import Any

import numpy as np

from tati_re.core.backend import Compiled, tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.potential import Potential
from tati_re.core.protocol import Rung
from tati_re.launch.request import Request
from tati_re.models.names import fan_in_plus_one, parameter_names, tensor_names
from tati_re.optimizers.fire import Fire
from tati_re.options.make import Options, make_options
from tati_re.options.tati_names import START, has_defaults_of_tati
from tati_re.posterior.noise_level import with_extra_starts
from tati_re.runs.parameters import FileParameters, read_parameters
from tati_re.system.walkers import Walkers, check_sum

TOGETHER = "; set walker_start to jitter, fresh or fit to separate them"
"""The end of the sentence on walkers that start at the same place."""
_FRESH = 0x5354
_JITTER = 0x4A49
_TATI = 0x5441
_SEEDS = 0x5345
_FIRST_TIME_STEP = 0.1


def starting_walkers(
    options: Options, flat: Any, positions: Any = None, built: bool = False
) -> Walkers:
    """The walkers before their first step.

    Args:
        options: The options of the run.
        flat: The model, with all parameters in one vector.
        positions: Given positions, shape (parameters,) for all walkers or (walkers, parameters).
            Default: None, from the options or the model.
        built: Whether the network was built from the options. Under the names of TATi it then
            starts as in TATi. Default: False.

    Raises:
        InputError: Options contradict each other, or the positions do not fit.
    """
    walkers = options.num_walkers
    start = options.walker_start
    _check(options)
    position = np.repeat(np.asarray(flat.get(), flat.dtype)[None], walkers, axis=0)
    auxiliary = tuple(
        np.repeat(np.asarray(value)[None], walkers, axis=0) for value in flat.auxiliary
    )
    if options.parameters is not None:
        stored = _from_file(options.parameters, options.parameters_step, flat)
        position = stored.positions[stored.rows_of(walkers)].astype(flat.dtype)
        auxiliary = _auxiliary(stored, auxiliary)
        sentence = f"Start: {stored.source}{_which(stored, walkers)}"
    else:
        sentence = "Start: all walkers at the same place" if walkers > 1 else ""
    if positions is not None:
        problem = f"parameters and walker_start {start} both set where walkers start."
        refuse_if(start in ("fresh", "fit"), problem, expected="one of them")
        position = Walkers(position, auxiliary).fitting(positions, "parameters")
        sentence = (
            "Start: the given parameters"
            if position.ndim == 2 and np.ndim(positions) == 2
            else sentence
        )
    if start in ("fresh", "fit"):
        position = fresh_starts(flat.tensor_names, flat.shapes, walkers, options.seed).astype(
            flat.dtype
        )
        position = with_extra_starts(flat, position)
        sentence = "Start: drawn separately for each walker"
    elif start == "jitter":
        noise = np.random.default_rng([options.seed, _JITTER]).standard_normal(position.shape)
        position = (position + options.walker_jitter * noise).astype(flat.dtype)
        sentence = (
            f"{sentence or 'Start: the model'}, displaced by Gaussian noise of standard "
            f"deviation {options.walker_jitter:g}"
        )
    elif built and positions is None and _starts_as_tati(options):
        position = with_extra_starts(flat, _starts_of_tati(flat, walkers, options.seed))
        label = "Start: drawn separately for each walker" if walkers > 1 else "Start"
        sentence = f"{label}, {START}, as in TATi"
    elif walkers > 1 and options.parameters is None and np.ndim(positions) < 2:
        sentence += TOGETHER
    free = positions is None and options.parameters is None
    return Walkers(
        position,
        auxiliary,
        f"{sentence}." if sentence else None,
        drawn=check_sum(position) if free else None,
    )


def _from_file(path: str, step: int | None, flat: Any) -> FileParameters:
    """The parameters of a file; those of a run without noise get the noise where it starts."""
    names = flat.parameter_names()
    fixed = _fixed_names(flat)
    try:
        return read_parameters(path, step, names=names, fixed=fixed)
    except InputError as error:
        if not flat.num_extra:
            raise
        names = flat.inside.parameter_names()
        try:
            stored = read_parameters(path, step, names=names, fixed=fixed)
        except InputError as other:
            raise (other if str(other).startswith("parameters_step") else error) from None
        positions = np.append(
            stored.positions, np.zeros((len(stored.positions), flat.num_extra)), axis=1
        )
        return stored._replace(positions=with_extra_starts(flat, positions))


def _fixed_names(flat: Any) -> set[str]:
    """Names of the model's parameters that keep their values."""
    if flat.model is None:
        return set()
    every = parameter_names(
        tensor_names(flat.model), [tuple(v.shape) for v in flat.model.trainable_variables]
    )
    return set(every) - set(flat.parameter_names())


def _which(stored: FileParameters, walkers: int) -> str:
    if walkers == 1:
        return "" if len(stored.positions) == 1 else ", from the first walker"
    return (
        ", a separate row for each walker"
        if len(stored.positions) >= walkers
        else ", the first row for all walkers"
    )


def _auxiliary(stored: FileParameters, model_variables: tuple) -> tuple:
    """Moving statistics of the file, where it has those of this model."""
    # What is fixed comes last, and keeps its values.
    variables = (stored.auxiliary or [])[: len(model_variables)]
    if not variables or [v.shape[1:] for v in variables] != [
        v.shape[1:] for v in model_variables[: len(variables)]
    ]:
        return model_variables
    rows = stored.rows_of(len(model_variables[0]))
    from_file = tuple(
        value[rows].astype(like.dtype)
        for value, like in zip(variables, model_variables, strict=False)
    )
    return from_file + model_variables[len(from_file) :]


def _check(options: Options) -> None:
    step = options.parameters_step
    expected = "parameters, the file that contains the step"
    refuse_if(
        step is not None and options.parameters is None,
        "parameters_step needs a file.",
        step,
        expected,
    )
    if options.parameters is not None and options.walker_start in ("fresh", "fit"):
        problem = (
            f"parameters and walker_start {options.walker_start} both set where walkers start."
        )
        raise InputError(
            problem, options.parameters, "one of the two, or walker_start same or jitter"
        )
    if "walker_jitter" in options.explicit and options.walker_start != "jitter":
        raise InputError(
            "walker_jitter applies only to walker_start jitter.",
            options.walker_start,
            "walker_start jitter",
        )


def first_values(request: Request, walkers: Walkers, execution: str) -> tuple[np.ndarray, tuple]:
    """Positions and non-trainable variables of every copy before the first step, rung by rung.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation.
        execution: "xla", "graph" or "eager", for a descent to the start.

    Returns:
        Positions, shape (copies, parameters), and non-trainable variables, shape (copies, ...)
        each.
    """
    position, auxiliary = on_all_rungs(request, walkers)
    if not request.samples:
        return position, with_seeds(request.system.flat, auxiliary, request.options.run_seed)
    if (starts := request.objects.get("starts")) is not None:
        return np.array(np.asarray(starts).reshape(position.shape), position.dtype), auxiliary
    if len(position) == len(walkers.position) or request.options.replica_start == "same":
        return position, auxiliary
    return made_starts(request, position, auxiliary, execution), auxiliary


def with_seeds(flat: Any, auxiliary: tuple, seed: int) -> tuple:
    """Moves the states of Keras' seed generators; each walker of each run then drops other units.

    Args:
        flat: The model, with all parameters in one vector.
        auxiliary: Its non-trainable variables, shape (walkers, ...) each.
        seed: Seed of the changes.

    Returns:
        The variables; all but the states of seed generators are unchanged.
    """
    moved = list(auxiliary)
    for k, variable in enumerate(flat.others):
        if variable.name == "seed_generator_state":
            moved[k] = np.array(moved[k])
            for walker, state in enumerate(moved[k]):
                word = np.random.default_rng([seed, _SEEDS, k, walker]).integers(2**31)
                state[0] = (int(state[0]) + word) % 2**31
    return tuple(moved)


def on_all_rungs(request: Request, walkers: Walkers) -> tuple[np.ndarray, tuple]:
    """Positions and non-trainable variables of the walkers, the same at each rung.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation.

    Returns:
        Positions, shape (copies, parameters), and non-trainable variables, shape (copies, ...)
        each.
    """
    rungs = request.copies // len(walkers.position)

    def repeated(value):
        return np.tile(value, (rungs,) + (1,) * (value.ndim - 1)) if rungs > 1 else value

    return repeated(walkers.position), tuple(map(repeated, walkers.auxiliary))


def _starts_as_tati(options: Options) -> bool:
    unnamed = options.parameters is None and "walker_start" not in options.explicit
    return unnamed and has_defaults_of_tati(options.tati)


def _starts_of_tati(flat: Any, count: int, seed: int) -> np.ndarray:
    """Weights from U(-0.5, 0.5) and biases 0.1, `(count, parameters)`; walker i is drawn by the
    seed + i, as in TATi, with other random numbers.
    """
    is_bias = np.concatenate(
        [
            np.full(int(np.prod(shape)), name.endswith("bias"))
            for name, shape in zip(flat.tensor_names, flat.shapes, strict=True)
        ]
    )
    drawn = [
        np.random.default_rng([seed + walker, _TATI]).uniform(-0.5, 0.5, len(is_bias))
        for walker in range(count)
    ]
    return np.where(is_bias, 0.1, drawn).astype(flat.dtype)


_NORMALIZING = {"gamma": 1.0, "scale": 1.0, "beta": 0.0}
"""Starts of the parameters of Keras' normalizing layers, by name."""


def fresh_starts(names, shapes, count: int, seed: int) -> np.ndarray:
    """Independent initializations from U(-1/sqrt(k), 1/sqrt(k)), k = fan-in + 1.

    The fan-in belongs to the parameter's layer. The scales of normalizing layers start at 1 and
    their shifts at 0, as in Keras. Source: Baldock and Marzari (arXiv 1904.04154); without the + 1
    LeCun et al. (1998).

    Args:
        names: Names of the model's tensors.
        shapes: Their shapes.
        count: Number of initializations. The first ones do not depend on it.
        seed: Seed of the random numbers.

    Returns:
        Parameters, shape (count, parameters), float64.
    """
    bound = 1 / np.sqrt(fan_in_plus_one(names, shapes))
    drawn = np.random.default_rng([seed, _FRESH]).uniform(-bound, bound, (count, len(bound)))
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    for name, shape, end in zip(names, shapes, ends, strict=True):
        value = _NORMALIZING.get(name.rpartition("/")[2])
        if value is not None and len(shape) == 1:
            drawn[:, end - shape[0] : end] = value
    return drawn


def made_starts(request: Request, like: np.ndarray, auxiliary: tuple, execution: str) -> np.ndarray:
    """Where the replicas start under `replica_start` fresh or descent.

    Each has an independent initialization. A descent takes `descent_steps` steps of
    `tati_re.optimizers.Fire` on U with all data, with a time step of 0.1 at first.

    Args:
        request: The request of the run.
        like: An array whose shape (replicas, parameters) and type the result has.
        auxiliary: Non-trainable variables, shape (replicas, ...) each.
        execution: "xla", "graph" or "eager".

    Returns:
        Positions, shape (replicas, parameters).
    """
    system = request.system
    options = request.options
    fresh = fresh_starts(
        system.flat.tensor_names, system.flat.shapes, len(like), options.run_seed
    ).astype(like.dtype)
    fresh = with_extra_starts(system.flat, fresh)
    if options.replica_start == "fresh":
        return fresh
    potential = system.potential(
        make_options(options, batch_size=None), request.objects, copies=len(like)
    )
    return descended(potential, fresh, auxiliary, options.descent_steps, execution)[0]


def descended(
    potential: Potential,
    position: np.ndarray,
    auxiliary: tuple,
    num_steps: int,
    execution: str,
    least: float = -np.inf,
) -> tuple[np.ndarray, np.ndarray]:
    """Descends on U with all data.

    Args:
        potential: The potential, with one walker for each replica.
        position: Where the descent starts, shape (replicas, parameters).
        auxiliary: Non-trainable variables, shape (replicas, ...) each.
        num_steps: Largest number of steps.
        execution: "xla", "graph" or "eager". If XLA cannot compile the steps, they run as a graph.
        least: The descent ends after a tenth of the steps if U has fallen by less in every replica.
            Default: -inf, it takes all steps.

    Returns:
        Where the descent ends, shape (replicas, parameters), and by how much U fell, shape
        (replicas,).
    """
    ones = tf.ones((len(position),), tf.float64)
    method = Fire()
    rung = Rung(ones, ones, _FIRST_TIME_STEP * ones)

    def descend(position, count, *auxiliary):
        evaluate = potential.bind(rung, None, auxiliary)
        first = method.init(position, evaluate, None)
        # From rest a step goes by t² |g|/2, the first one by 1 at most: a gradient of thousands
        # would lead far astray.
        steep = tf.cast(tf.norm(first.gradient, axis=1), tf.float64) / evaluate.scale
        start = (
            tf.constant(0),
            first._replace(step_size=tf.minimum(first.step_size, tf.sqrt(2.0 / steep))),
        )

        def step(i, state):
            return i + 1, method.step(state, evaluate, None)[0]

        def goes_on(i, state):
            return (i < count) & (
                (i < count // 10) | tf.reduce_any(first.potential - state.potential >= least)
            )

        end = tf.while_loop(goes_on, step, start)[1]
        return end.position, first.potential - end.potential

    call = descend if execution == "eager" else Compiled(descend, jit_compile=execution == "xla")
    try:
        end, fall = call(
            tf.constant(position), tf.constant(num_steps), *map(tf.constant, auxiliary)
        )
        return end.numpy(), fall.numpy()
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
        if execution != "xla":
            raise
        return descended(potential, position, auxiliary, num_steps, "graph", least)
