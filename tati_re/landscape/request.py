"""Potential, center and directions of a landscape from their descriptions."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.landscape.directions import (
    between,
    covariance_directions,
    fixed_mask,
    random_directions,
    trajectory_directions,
)
from tati_re.landscape.grid import Axis, parse_axis
from tati_re.landscape.hessian import hessian_directions
from tati_re.launch.run import load
from tati_re.options.make import OPTIONS, options_of
from tati_re.options.trust import WRITTEN
from tati_re.runs.parameters import read_parameters
from tati_re.runs.positions import Positions
from tati_re.simulation.simulation import Simulation
from tati_re.system.saved_model import read_directions

CENTRES = "mean, last, best, the number of a stored step, or zero"
DIRECTIONS = "random[:COUNT], trajectory[:COUNT], covariance:1,64, hessian:1,-1, between, or a .npy, .npz or .csv file"


def simulation_of(folder: AnyPath, **overrides: Any):
    """Rebuilds the simulation of a run, for one walker at the parameters of the run's model file.

    It has the run's data, model, loss and prior.

    Args:
        folder: The folder of the run.
        **overrides: Options in place of the run's, and what the run received as Python objects:
            `data`, `model`, `loss`, `prior`. `trust=True` lets code that the folder names build a
            model.
    """
    # No step is taken and no run written: the folder's own sampler, ladder and files beside it are
    # not asked for.
    left_out = {
        "sampler": OPTIONS["sampler"].default,
        **dict.fromkeys(("batch_size", "preset", *WRITTEN)),
    }
    left_out |= {name: field.default for name, field in options_of(("replicas",)).items()}
    if temperatures := load(folder).manifest.options.temperatures:
        left_out["temperature"] = float(temperatures[0])
    return Simulation.from_folder(
        folder, **{"num_walkers": 1, "verbose": 0, **left_out, **overrides}
    )


@front_door
def centre_of(
    folder: AnyPath, which: str = "auto", walker: int | None = None
) -> tuple[np.ndarray, str]:
    """Returns a point of a run, for the center of a landscape.

    Args:
        folder: The run folder.
        which: "mean" over the steps after burn-in, "last" position, "best" (the stored position
            with the lowest recorded potential), a stored step by number, or "auto": the end point
            of a fit, otherwise the mean. Default: auto.
        walker: The walker, counted from 0. Default: None, the first walker; for the mean all
            walkers.

    Returns:
        Parameters `(parameters,)` float64, and their origin in words.

    Raises:
        InputError: The run has no such point.
    """
    run = load(folder)
    folder = os.fspath(folder)
    if which == "auto":
        which = "last" if run.manifest.is_fit else "mean"
    if which == "mean":
        return run.parameters("mean", walker).astype(np.float64), f"mean of {folder}"
    if which == "last":
        parameters = read_parameters(folder, names=run.manifest.parameters.all_names())
        row = 0 if walker is None else walker
        if not 0 <= row < len(parameters.positions):
            raise InputError(
                "The walker does not exist.", walker, f"0 to {len(parameters.positions) - 1}"
            )
        return parameters.positions[row], parameters.source
    if which == "best":
        blocks = Positions(run, walker=walker).blocks()
        lowest = (block.at(np.array([np.nanargmin(block.potential)])) for block in blocks)
        best = min(lowest, key=lambda row: row.potential[0])
        return best.values[
            0
        ], f"step {best.step[0]}, walker {best.walker[0]} of {folder}, the lowest stored potential"
    try:
        step = int(which)
    except ValueError:
        advice = nearest(which, ("mean", "last", "best"))
        raise InputError(f"centre has an unknown value.{advice}", which, CENTRES) from None
    return run.parameters(step, walker or 0).astype(np.float64), f"step {step} of {folder}"


def fixed(
    names: Sequence[str], fix: Sequence[str], exclude: Sequence[str]
) -> tuple[np.ndarray, dict[int, float]]:
    """The parameters that stay fixed, and their values.

    Args:
        names: Names of the parameters, such as `dense/kernel[0,3]`.
        fix: Texts `PATTERN=NUMBER` that give the matching parameters a value.
        exclude: Patterns of parameters that stay at the center.

    Returns:
        The mask of fixed parameters, shape (parameters,), and the given values by number of the
        parameter.

    Raises:
        InputError: A text has another form, or a pattern matches no parameter.
    """
    mask = fixed_mask(names, exclude)
    values = {}
    for text in fix:
        pattern, sign, number = text.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            sign = ""
        if not sign or not pattern or not np.isfinite(value):
            raise InputError("fix has the wrong form.", text, "PATTERN=NUMBER, such as */bias=0")
        matches = fixed_mask(names, [pattern])
        mask |= matches
        values.update(dict.fromkeys(np.flatnonzero(matches).tolist(), value))
    return mask, values


def named_axes(
    names: Sequence[str], grid: Sequence[str]
) -> tuple[np.ndarray, list[Axis], list[str]]:
    """A grid over named parameters.

    Args:
        names: Names of the parameters.
        grid: Texts `PATTERN=LOW:HIGH:POINTS`, ranges around the center. Each parameter that matches
            the pattern is an axis.

    Returns:
        Directions that are single parameters, shape (axes, parameters), their ranges, and their
        names.

    Raises:
        InputError: A text has another form, or a pattern matches no parameter.
    """
    chosen: dict[int, Axis] = {}
    for text in grid:
        pattern, sign, numbers = text.rpartition("=")
        if not sign or not pattern:
            raise InputError(
                "grid has the wrong form.",
                text,
                "PATTERN=LOW:HIGH:POINTS, such as */kernel=-5:5:21",
            )
        chosen.update(
            dict.fromkeys(
                np.flatnonzero(fixed_mask(names, [pattern])).tolist(), parse_axis(numbers, "grid")
            )
        )
    chosen_numbers = sorted(chosen)
    directions = np.zeros((len(chosen_numbers), len(names)))
    directions[np.arange(len(chosen_numbers)), chosen_numbers] = 1.0
    return (
        directions,
        [chosen[place] for place in chosen_numbers],
        [names[place] for place in chosen_numbers],
    )


def directions_of(
    words: str,
    surface,
    centre: np.ndarray,
    *,
    run: Any = None,
    positions: np.ndarray | None = None,
    others: Sequence[np.ndarray] = (),
    free: np.ndarray | None = None,
    normalization: str = "filter",
    seed: int = 0,
    walker: int | None = None,
) -> tuple[np.ndarray, list[str]]:
    """Directions from their description.

    Args:
        words: `random`, `random:1`, `trajectory`, `covariance:1,64`, `hessian:1,-1`, `between`, or
            a file.
        surface: The potential, a `tati_re.landscape.Surface`.
        centre: The center, shape (parameters,).
        run: The run, for `covariance`. Default: None.
        positions: Positions of the trajectory, shape (n, parameters), for `trajectory`. Default:
            None.
        others: One or two more points, shape (parameters,) each, for `between`. Default: none.
        free: Mask of the parameters that may move, shape (parameters,), for `hessian`. Default:
            None, all.
        normalization: Normalization of `random` directions. Default: "filter".
        seed: Seed for `random` and `hessian`. Default: 0.
        walker: The walker whose positions count for `covariance`. Default: None, all walkers.

    Returns:
        Directions, shape (axes, parameters), and a sentence about each.

    Raises:
        InputError: The description is unknown, or lacks what it needs.
    """
    kind, _, settings = words.partition(":")
    known = ("random", "trajectory", "covariance", "hessian", "between")
    if kind not in known:
        if Path(words).suffix in (".npy", ".npz", ".csv"):
            rows = read_directions(words, surface.num_parameters, lambda: surface.parameter_names)
            return rows, [f"row {i} of {words}" for i in range(len(rows))]
        raise InputError(
            f"directions: {kind} is not known.{nearest(kind, known)}", expected=DIRECTIONS
        )
    if kind == "random":
        count = _count(words, settings)
        rows = random_directions(centre, surface.shapes, count, seed, normalization)
        return rows, [f"random, {normalization} normalization, seed {seed}"] * count
    if kind == "trajectory":
        if positions is None:
            raise InputError(
                "directions: trajectory needs a run with a trajectory.",
                expected="a run with a trajectory",
            )
        rows, parts = trajectory_directions(positions, centre, _count(words, settings))
        return rows, [
            f"principal direction {i + 1} of the path, {part:.1%} of it"
            for i, part in enumerate(parts)
        ]
    if kind == "between":
        return between(centre, *others)[1], [f"to given point {i + 1}" for i in range(len(others))]
    try:
        numbers = [int(part) for part in settings.split(",")]
    except ValueError:
        raise InputError("directions: eigenvectors need numbers.", words, f"{kind}:1,2") from None
    if kind == "covariance":
        refuse_if(
            run is None,
            "directions: covariance needs a sampled run.",
            expected="a run with a trajectory",
        )
        rows, values = covariance_directions(run, numbers, walker=walker)
        pairs = zip(numbers, values, strict=True)
        return rows, [f"eigenvector {n} of the covariance, variance {v:.4g}" for n, v in pairs]
    rows, values = hessian_directions(surface, centre, numbers, free, seed)
    return rows, [
        f"eigenvector {n} of the Hessian, curvature {v:.4g}"
        for n, v in zip(numbers, values, strict=True)
    ]


def _count(words: str, settings: str) -> int:
    if not settings and ":" not in words:
        return 2
    if not settings.isdigit() or not 1 <= int(settings) <= 6:
        raise InputError(
            "directions: this is not a count of directions.",
            words,
            f"{words.split(':')[0]}:COUNT, 1 to 6",
        )
    return int(settings)
