"""Step sizes and temperatures that change over a run, as factors of the step number. A schedule is
a pure function of step numbers, `(n,)` to `(n,)`: a resumed run goes on with it where it was.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.files.regular import regular_bytes
from tati_re.core.files.text_lines import numbered_lines
from tati_re.core.user_input import users_code

Factor = Callable[[np.ndarray], np.ndarray]

SCHEDULES = {
    "step_schedule": ("constant", "polynomial", "cyclical"),
    "temperature_schedule": ("constant", "annealing"),
}
"""Names that these options know; others are files."""


def polynomial(delay: float, power: float) -> Factor:
    """The factor (1 + t/b)^-a, which is 1 at the first step, t = 0.

    It is Welling and Teh's a(b + t)^-γ (ICML 2011).

    Args:
        delay: b in steps, above 0.
        power: a. From 0.5 (exclusive) to 1, averages converge without bias.
    """
    return lambda steps: (1.0 + (steps - 1) / delay) ** -power


def cyclical(length: int) -> Factor:
    """½ (cos(π mod(t - 1, n) / n) + 1): cycles from the full step size towards 0 (Zhang et al.,
    ICLR 2020, eq. 1). A cycle is n steps; theirs is ⌈K/M⌉ for M cycles in K steps.
    """
    return lambda steps: 0.5 * (np.cos(np.pi * ((steps - 1) % length) / length) + 1.0)


def annealing(ratio: float, num_steps: int) -> Factor:
    """The factor ratio^(1 - t/n), geometric in the step number t, and 1 from step n on.

    Args:
        ratio: The factor at the first step, t = 0.
        num_steps: n, the number of steps until the factor is 1; 0 counts as 1.
    """
    return lambda steps: ratio ** np.clip(1.0 - (steps - 1) / max(num_steps, 1), 0.0, 1.0)


def table(pairs: Sequence[tuple[int, float]], unit: float, name: str) -> Factor:
    """The factor of a table of values: each holds from its step on, the first also before it.

    Args:
        pairs: Pairs (step, value): ascending steps, and finite values above 0.
        unit: The value for which the factor is 1.
        name: Name of the option, for messages.

    Raises:
        InputError: These are not pairs, the steps do not ascend, or a value is not above 0.
    """
    try:
        steps, values = (np.asarray(column, np.float64) for column in zip(*pairs, strict=True))
    except (TypeError, ValueError):
        raise InputError(f"{name}: this is not a table.", pairs, "pairs (step, value)") from None
    if (np.diff(steps) <= 0).any() or not (np.isfinite(values) & (values > 0)).all():
        raise InputError(
            f"{name}: the table is invalid.", list(pairs), "ascending steps, and values above 0"
        )
    return lambda t: values[np.clip(np.searchsorted(steps, t, side="right") - 1, 0, None)] / unit


def read_table(path: str, name: str) -> list[tuple[int, float]]:
    """Reads pairs from a CSV file with the header `step,value`.

    Args:
        path: Of the file; its last line may lack its end.
        name: Of the option, for messages.

    Raises:
        InputError: No such file, other columns, or a line that is not a step and a number.
    """
    expected = "columns step and value, with one number each"
    try:
        lines = numbered_lines(path, regular_bytes(path))
    except OSError as error:
        raise InputError(
            f"{name}: {path} cannot be read: {error.strerror}.", expected="a CSV file"
        ) from None
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    names = [cell.strip(' "') for cell in lines[0][1].split(",")]
    if not {"step", "value"} <= {*names}:
        raise InputError(f"{name}: {path} is not a table.", ", ".join(names), expected)
    at_step, at_value = names.index("step"), names.index("value")
    pairs = []
    for number, line in lines[1:]:
        cells = line.split(",")
        if len(cells) == len(names):
            with suppress(ValueError):
                pairs.append((int(cells[at_step]), float(cells[at_value])))
                continue
        raise InputError(f"{name}: {path}, line {number} is not a table row.", line, expected)
    return pairs


def keras_schedule(schedule, unit: float, name: str = "step_schedule") -> Factor:
    """A Keras learning rate schedule as a factor.

    The factor at step t is the schedule's value at step t - 1, since Keras counts from 0.

    Args:
        schedule: A schedule or another function of a step number, computed with keras.ops or
            TensorFlow.
        unit: The value for which the factor is 1.
        name: Name of the option, for messages. Default: step_schedule.

    Raises:
        InputError: The schedule fails, or returns a number that is negative or not finite.
    """
    from tati_re.core.backend import tf

    @tf.function(autograph=False)
    def values(steps):
        return tf.map_fn(
            lambda step: tf.cast(schedule(step), tf.float64), steps, fn_output_signature=tf.float64
        )

    def factor(steps: np.ndarray) -> np.ndarray:
        with users_code(
            f"{name}: the schedule",
            "a number above 0 for each step, computed with keras.ops or TensorFlow",
        ):
            factors = values(tf.constant(steps - 1, tf.int64)).numpy()
        if not (np.isfinite(factors) & (factors >= 0)).all():
            received = f"{factors[~(np.isfinite(factors) & (factors >= 0))][0]:g}"
            raise InputError(
                f"{name}: the schedule returns an invalid value.",
                received,
                "finite numbers, 0 or more",
            )
        return factors / unit

    factor(np.arange(1, 2))
    return factor


def step_factor(options, schedule=None) -> Factor | None:
    """The factor of the step size, or None if it is constant.

    Args:
        options: The options of the run.
        schedule: A Keras schedule, or pairs (step, value), in place of the option `step_schedule`.
            Default: None, the option.

    Raises:
        InputError: The schedule is unknown or has invalid values.
    """
    if schedule is None and options.step_schedule == "polynomial":
        return polynomial(options.schedule_delay, options.schedule_power)
    if schedule is None and options.step_schedule == "cyclical":
        return cyclical(options.cycle_steps)
    return _given("step_schedule", options.step_schedule, schedule, options.first_step_size)


def temperature_factor(options, schedule=None) -> Factor | None:
    """The factor of the temperature, or None if it is constant.

    Args:
        options: The options of the run.
        schedule: A Keras schedule, or pairs (step, value), in place of the option
            `temperature_schedule`. Default: None, the option.

    Raises:
        InputError: The schedule is unknown or has invalid values, options exclude each other, or
            annealing lacks a burn-in or its first temperature.
    """
    explores = options.exploration_fraction > 0
    if explores and options.step_schedule != "cyclical":
        problem = "exploration_fraction is a fraction of each cycle."
        raise InputError(
            problem, f"step_schedule = {options.step_schedule}", "step_schedule cyclical"
        )
    if explores and (schedule is not None or options.temperature_schedule != "constant"):
        problem = "exploration_fraction and temperature_schedule exclude each other."
        raise InputError(
            problem, f"temperature_schedule = {options.temperature_schedule}", "one of the two"
        )
    if explores:
        length = options.cycle_steps
        part = round(options.exploration_fraction * options.cycle_steps, 9)
        return lambda steps: np.where(
            ((steps - 1) % length) < part, 0.0, 1.0
        )  # the first part of each cycle descends
    if schedule is None and options.temperature_schedule == "annealing":
        if not options.num_burnin_steps or options.temperature_start is None:
            received = f"num_burnin_steps = {options.num_burnin_steps}, temperature_start = {options.temperature_start}"
            raise InputError(
                "temperature_schedule: annealing cools during the burn-in.", received, "both given"
            )
        return annealing(options.temperature_start / options.kT, options.num_burnin_steps)
    return _given("temperature_schedule", options.temperature_schedule, schedule, options.kT)


def _given(name: str, schedule: str, factors, unit: float) -> Factor | None:
    if factors is None:
        if schedule == "constant":
            return None
        if not os.path.exists(schedule):
            problem = f"{name}: {'there is no such file' if schedule.lower().endswith('.csv') else 'unknown name'}."
            known = ", ".join(SCHEDULES[name])
            raise InputError(
                problem, repr(schedule), f"{known}, or a CSV file with the columns step and value"
            )
        factors = read_table(schedule, name)
    return keras_schedule(factors, unit, name) if callable(factors) else table(factors, unit, name)
