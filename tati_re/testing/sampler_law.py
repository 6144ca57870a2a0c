"""Whether a sampler is right in all that the engine relies on, and has the distribution of a
harmonic well.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tati_re.core.front_door import front_door, refuse_arguments
from tati_re.core.protocol import fields_of
from tati_re.testing import sampler_in_engine as engine
from tati_re.testing import sampler_protocol as protocol
from tati_re.testing.numpy_parts import NumpyEvaluate, NumpyNoise, rung_of


@front_door
def check_sampler(
    sampler: Any,
    expected_variance: float | Callable | None = None,
    *,
    stiffness: float = 1.0,
    step_size: float | None = None,
    order: int = 1,
    num_steps: int = 1_500,
) -> None:
    """Tests a sampler against the rules of the engine, and its distribution in a harmonic well.

    The rules of `tati_re.core.protocol` cover attributes, shapes and types, with parameters in
    float32 and float64. Steps must be pure, request the same random numbers each time, count their
    gradients, and stay inside the walls of a prior. Numbers must agree between numpy and TensorFlow
    (eager, graph and XLA), and after a checkpoint. `tati_re.testing.check_law` describes the test
    of the distribution.

    Args:
        sampler: A sampler object, or a class that needs no arguments.
        expected_variance: Variance of θ in the harmonic well at T = 1, a number or a function of
            the step size. Default: None, the variance of exp(-U/T), up to a bias of order h.
        stiffness: k of the harmonic well. Default: 1.
        step_size: h. Default: None, the step size for x = 0.2.
        order: n, the order of the bias, 1 or 2. The check is stricter for 2. Default: 1.
        num_steps: Steps of each walker. Default: 1,500.

    Raises:
        AssertionError: The first broken rule, in one sentence.
        InputError: A setting is of another kind.

    Examples:
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
    settings: dict[str, Any] = {
        "stiffness": stiffness,
        "step_size": step_size,
        "order": order,
        "num_steps": num_steps,
    }
    refuse_arguments(check_sampler, **settings)
    law = partial(check_law, expected_variance=expected_variance, **settings)
    for check_name, check in {**CHECKS, "the law": law}.items():
        name = getattr(sampler, "name", type(sampler).__name__)
        try:
            check(sampler)
        except AssertionError as error:
            raise AssertionError(f"{name}, {check_name}: {error}") from None
        except Exception as error:
            reason = " ".join(str(error).split())
            reason = reason if len(reason) <= 200 else reason[:200] + "..."
            raise AssertionError(
                f"{name}, {check_name}: a step raised {type(error).__name__}: {reason}"
            ) from error


CHECKS: dict[str, Callable[[Any], None]] = {
    "attributes": protocol.check_attributes,
    "shapes and types in float64": protocol.check_shapes_and_types,
    "shapes and types in float32": partial(protocol.check_shapes_and_types, dtype=np.float32),
    "types in TensorFlow in float64": engine.check_types_in_tensorflow,
    "types in TensorFlow in float32": partial(engine.check_types_in_tensorflow, dtype="float32"),
    "purity": protocol.check_pure,
    "random numbers": protocol.check_same_noise_requested,
    "independent walkers": protocol.check_walkers_alone,
    "gradients": protocol.check_gradients,
    "walls": engine.check_walls,
    "numpy and TensorFlow": engine.check_numpy_is_tensorflow,
    "eager, graph and XLA": engine.check_execution,
    "checkpoint": engine.check_checkpoint,
}
"""The checks of `check_sampler` before the distribution, by subject."""


TOLERANCE = 5.5
"""Standard errors: two-sided probability 4e-8 for one comparison with a normal distribution."""

RESOLUTION = 0.1
"""The largest relative error of a variance that the check may leave open."""

WALKERS = 500
PARAMETERS = 4
TEMPERATURES = (0.5, 2.0)
_FASTER = (1.0, 0.5)


@front_door
def check_law(
    sampler: Any,
    expected_variance: float | Callable | None = None,
    stiffness: float = 1.0,
    step_size: float | None = None,
    order: int = 1,
    num_steps: int = 1_500,
) -> None:
    """Compares the variances of positions and momenta for U = k θ'θ/2 with their exact values.

    500 walkers with 4 parameters start in the distribution exp(-U/T), for each of T = 0.5 and 2 and
    step sizes h and h/2. The first third of the steps is left out; it is the burn-in of methods
    that adapt. If the state has a field `weight`, `(walkers,)`, averages are weighted by it.
    Standard errors come from the spread over walkers.

    Let x = h sqrt(k) (h k without momenta), and v(h) the variance of θ in units of T/k, or of p in
    units of T. A bias of order n cancels in v₀ = (2ⁿ v(h/2) - v(h)) / (2ⁿ - 1). v₀ must be 1 within
    5.5 standard errors plus xⁿ⁺¹ for the next order. For a method with a Metropolis test, v(h) =
    v(h/2) = 1 within 5.5 standard errors. With `expected_variance`, the variance of θ must be T
    times this number. As examples of wrong samplers, halved noise gives v₀ = 0.25, and T in place
    of its square root gives 0.5 and 2.

    Args:
        sampler: A sampler.
        expected_variance: Variance of θ at T = 1, a number or a function of the step size. Default:
            None, unknown.
        stiffness: k of the harmonic well. Default: 1.
        step_size: h. Default: None, the step size for x = 0.2.
        order: n, the order of the bias, 1 or 2. The check is stricter for 2. Default: 1.
        num_steps: Steps of each walker. Default: 1,500.

    Raises:
        AssertionError: A variance is wrong, or the walkers move too slowly to measure it within 10
            %.
    """
    unit = 1 / math.sqrt(stiffness) if sampler.has_momentum else 1 / stiffness
    step_size = 0.2 * unit if step_size is None else step_size
    steps = [factor * step_size for factor in _FASTER]
    names = ["position", *(["momentum"] if sampler.has_momentum else [])]
    # What is unstable is told by its result, not by the warnings on the way.
    with np.errstate(all="ignore"):
        squares = mean_squares(sampler, names, stiffness, steps, num_steps)
    for name in names:
        expected = expected_variance if name == "position" else None
        for i, temperature in enumerate(TEMPERATURES):
            exact = temperature / stiffness if name == "position" else temperature
            values = squares[name][i] / exact
            if expected is None and not sampler.metropolis:
                weight = 2**order
                quantity = f"variance of {name}, extrapolated from h = {steps[0]:.3g} and {steps[1]:.3g} to 0,"
                estimate = _combined(values, (-1 / (weight - 1), weight / (weight - 1)))
                _compare(quantity, estimate, 1.0, (step_size / unit) ** (order + 1), temperature)
                continue
            for j, h in enumerate(steps):
                target_variance = (
                    1.0
                    if expected is None
                    else (expected(h) if callable(expected) else expected) * stiffness
                )
                estimate = _combined(values[j : j + 1], (1.0,))
                _compare(
                    f"variance of {name} at h = {h:.3g}",
                    estimate,
                    target_variance,
                    0.0,
                    temperature,
                )


def mean_squares(
    sampler: Any, names: list[str], stiffness: float, steps: list[float], num_steps: int
) -> dict:
    """Mean squares of fields over the last two thirds of the steps, in a harmonic well.

    Args:
        sampler: The sampler.
        names: Names of fields of shape (walkers, parameters), such as "position".
        stiffness: k of the well.
        steps: Step sizes h.
        num_steps: Steps of each walker; the first third is burn-in.

    Returns:
        Mean squares by name, shape (temperatures, step sizes, walkers).
    """
    groups = (len(TEMPERATURES), len(steps), WALKERS)
    temperature = np.broadcast_to(np.array(TEMPERATURES)[:, None, None], groups).ravel()
    rung = rung_of(
        np.broadcast_to(np.array(steps)[None, :, None], groups).ravel(), temperature, numpy=True
    )
    evaluate = NumpyEvaluate(
        rung, lambda x: 0.5 * stiffness * np.sum(x * x, axis=-1), lambda x: stiffness * x
    )
    evaluate.gradient_variance = np.zeros_like
    noise = NumpyNoise(7)
    start = np.random.default_rng(8).standard_normal((len(temperature), PARAMETERS))
    state = sampler.init(np.sqrt(temperature / stiffness)[:, None] * start, evaluate, noise)
    burnin = num_steps // 3
    sums = dict.fromkeys(names, np.zeros(len(start)))
    counted = np.zeros(len(start))
    for step in range(1, num_steps + 1):
        evaluate.clock = evaluate.clock._replace(
            step=np.int64(step), adapting=np.bool_(step <= burnin)
        )
        state, _ = sampler.step(state, evaluate, noise)
        if step > burnin:
            weight = state.weight if "weight" in state._fields else np.ones(len(start))
            counted = counted + weight
            for name, value in fields_of(state, names).items():
                sums[name] = sums[name] + weight * np.einsum("wp,wp->w", value, value)
    counts = PARAMETERS * counted.reshape(groups)
    return {name: _ratio(total.reshape(groups), counts) for name, total in sums.items()}


def _ratio(totals: np.ndarray, counts: np.ndarray) -> np.ndarray:
    share = counts.mean(axis=-1, keepdims=True)
    ratio = totals.mean(axis=-1, keepdims=True) / share
    return ratio + (totals - ratio * counts) / share


def _combined(values: np.ndarray, weights: tuple[float, ...]) -> tuple[float, float]:
    """Weighted sum of the means of `(step sizes, walkers)`, and its standard error."""
    means = values.mean(axis=1)
    errors = values.std(axis=1, ddof=1) / math.sqrt(values.shape[1])
    return float(np.dot(weights, means)), float(
        np.sqrt(np.dot(np.square(weights), np.square(errors)))
    )


def _compare(
    quantity: str,
    estimate: tuple[float, float],
    expected_value: float,
    bias: float,
    temperature: float,
) -> None:
    value, error = estimate
    at = f"the {quantity} on the harmonic well at T = {temperature:g}"
    if not np.isfinite(value):
        raise AssertionError(
            f"{at} is not finite; expected {expected_value:.4g}. Try a smaller step_size."
        )
    if abs(value - expected_value) > TOLERANCE * error + bias * expected_value:
        within = TOLERANCE * error + bias * expected_value
        raise AssertionError(
            f"{at} is {value:.4g} times its value under exp(-U/T); expected {expected_value:.4g} "
            f"± {within:.2g}."
        )
    if TOLERANCE * error > RESOLUTION * expected_value:
        raise AssertionError(
            f"{at} is known only to {TOLERANCE * error / expected_value:.0%}, because the walkers "
            f"move too slowly; expected {RESOLUTION:.0%}. Use more num_steps or a larger "
            "step_size."
        )
