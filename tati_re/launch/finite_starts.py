"""Starts that nobody gave and where U is not finite, or out of reach, are drawn again."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.launch.opening import announce
from tati_re.launch.starts import fresh_starts
from tati_re.options.make import Options, make_options
from tati_re.posterior.evaluator import Evaluator
from tati_re.posterior.named_density import NamedDensity
from tati_re.posterior.noise_level import with_extra_starts
from tati_re.system.walkers import Walkers

MOST_DRAWS = 100
OUT_OF_REACH = 1e30
"""Of U and its gradient. No descent comes down from there: its first steps are as small as the
gradient is large, and grow by 5 % each.
"""
_AGAIN = 0x4147


def make_finite(
    system: Any, walkers: Walkers, options: Options, objects: Mapping[str, Any]
) -> None:
    """Moves walkers that nobody has placed to where U and its gradient are finite, and says so.

    Walkers above `OUT_OF_REACH` are moved too, if lower places are found. Networks are drawn as
    `walker_start` fresh draws them; coordinates of a function are normal numbers, of deviation 1,
    or of `walker_jitter` where that sets walkers apart.

    Args:
        system: A system of a simulation.
        walkers: Where they start; those in reach stay.
        options: Of the run.
        objects: Of the run.

    Raises:
        InputError: U is not finite at any of 100 places for a walker.
    """
    position = np.array(walkers.position)
    height = _heights(system, position, options, objects, walkers.auxiliary)
    far = height >= OUT_OF_REACH
    count = int(far.sum())
    if not count:
        return

    draws = 0
    while far.any() and draws < MOST_DRAWS:
        draws += 1
        drawn = _drawn(system, position, options, objects, draws)
        new_height = _heights(system, drawn, options, objects, walkers.auxiliary)
        better = far & (new_height < height)
        position = np.where(better[:, None], drawn, position)
        height = np.where(better, new_height, height)
        far = height >= OUT_OF_REACH

    if not np.isfinite(height).all():
        walker = int(np.flatnonzero(~np.isfinite(height))[0])
        problem = (
            f"potential: not finite at the start of walker {walker}, nor at {MOST_DRAWS} "
            "other random starts."
        )
        expected = f"{_argument_of(system)}, a start where U and its gradient are finite"
        density = objects.get("potential")
        if isinstance(density, NamedDensity) and density.data:
            missing = ", ".join(density.missing_data)
            possible = f"data without NaN ({missing})" if missing else "data that its laws allow"
            expected = f"{possible}, or {expected}"
        if system.has_data:
            expected = f"inputs and targets of order 1 (standardize), or {expected}"
        raise InputError(problem, expected=expected)
    if np.array_equal(position, walkers.position):
        return
    walkers.move(position)
    announce(
        options.verbose,
        f"U was not finite or above {OUT_OF_REACH:.0e} at the start of {count} of {len(far)} walkers. "
        f"New starts were drawn ({draws} times). Set a start with {_argument_of(system)}",
    )


def _argument_of(system: Any) -> str:
    """The argument by which a user gives a start."""
    named = bool(system.flat.described().get("supports"))
    return "inits={...}" if named else "parameters=..."


def _heights(
    system: Any,
    position: np.ndarray,
    options: Options,
    objects: Mapping[str, Any],
    auxiliary: tuple,
) -> np.ndarray:
    """The larger of U and the largest entry of its gradient at each position, `(walkers,)`.

    It is infinite where one of them is not finite.
    """
    if not system.has_data:
        values, slopes = system.target.value_and_gradient(position)
    else:
        full_batch_options = make_options(options, batch_size=None)
        potential = system.potential(full_batch_options, objects, copies=len(position))
        energy = Evaluator(potential, False).energy(position, (), auxiliary)
        values = energy.potential
        slopes = energy.gradient
    finite = np.isfinite(values) & np.isfinite(slopes).all(axis=1)
    height = np.maximum(values.astype(np.float64), np.abs(slopes).max(axis=1))
    return np.where(finite, height, np.inf)


def _drawn(
    system: Any, like: np.ndarray, options: Options, objects: Mapping[str, Any], number: int
) -> np.ndarray:
    """Other starts, `(walkers, parameters)`, inside the walls of the prior."""
    seed = [options.seed, _AGAIN, number]
    if system.has_data:
        start_seed = int(np.random.default_rng(seed).integers(2**31))
        drawn = fresh_starts(system.flat.tensor_names, system.flat.shapes, len(like), start_seed)
        drawn = with_extra_starts(system.flat, drawn)
    else:
        deviation = options.walker_jitter if options.walker_start == "jitter" else 1.0
        drawn = deviation * np.random.default_rng(seed).standard_normal(like.shape)
    drawn = drawn.astype(like.dtype)
    prior = system.prior(options, objects)
    return np.array(prior.confine(tf.constant(drawn), None)[0]) if prior.walled else drawn
