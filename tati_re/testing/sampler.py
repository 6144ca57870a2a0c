"""One call that checks everything that the engine relies on."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tati_re.testing import sampler_in_engine as engine
from tati_re.testing import sampler_protocol as protocol
from tati_re.testing.sampler_law import check_law


def check_sampler(
    sampler: Any,
    expected_variance: float | Callable | None = None,
    *,
    stiffness: float = 1.0,
    step_size: float | None = None,
    order: int = 1,
    num_steps: int = 1_500,
) -> None:
    """Checks everything that the engine relies on, and the sampler's distribution on a harmonic well.

    The rules are those of `tati_re.core.protocol`: attributes; shapes and types, with parameters in float32
    and float64; steps that are pure, ask for the same random numbers each time, count their gradients and stay inside
    the walls of a prior; the same numbers in numpy and TensorFlow, eagerly, as a graph and under XLA, and after a
    checkpoint. The distribution is described at `tati_re.testing.check_law`.

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
    given: dict[str, Any] = {"stiffness": stiffness, "step_size": step_size, "order": order, "num_steps": num_steps}
    law = partial(check_law, expected_variance=expected_variance, **given)
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


CHECKS: dict[str, Callable[[Any], None]] = {
    "attributes": protocol.check_attributes,
    "shapes and types in float64": protocol.check_shapes_and_types,
    "shapes and types in float32": partial(protocol.check_shapes_and_types, dtype=np.float32),
    "types in TensorFlow in float64": engine.check_types_in_tensorflow,
    "types in TensorFlow in float32": partial(engine.check_types_in_tensorflow, dtype="float32"),
    "purity": protocol.check_pure,
    "random numbers": protocol.check_noise_asked_alike,
    "independent walkers": protocol.check_walkers_alone,
    "gradients": protocol.check_gradients,
    "walls": engine.check_walls,
    "numpy and TensorFlow": engine.check_numpy_is_tensorflow,
    "eager, graph and XLA": engine.check_execution,
    "checkpoint": engine.check_checkpoint,
}
"""The checks of `check_sampler` before the distribution, by subject."""
