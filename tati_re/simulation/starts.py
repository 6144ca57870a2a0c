"""Where the walkers of a Simulation start: at the model's own weights, at those of a file, together or apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.models.names import parameter_names, tensor_names
from tati_re.options.make import Options
from tati_re.posterior.noise_level import with_noise_of
from tati_re.runs.parameters import FileParameters, read_parameters
from tati_re.simulation.replica_starts import fresh_starts

_PURPOSE = 0x4A49


@dataclass
class Walkers:
    """Where the walkers of a simulation are.

    Attributes:
        position: `(walkers, parameters)`.
        auxiliary: Keras' non-trainable variables, `(walkers, ...)` each.
        momentum: `(walkers, parameters)`, or None until they are drawn.
        sentence: What the start of a run says of the position; None once they have moved.
    """

    position: np.ndarray
    auxiliary: tuple[np.ndarray, ...]
    sentence: str | None = None
    momentum: np.ndarray | None = None

    def fitting(self, value: Any, name: str) -> np.ndarray:
        """An array in the shape of the positions, or of one of them."""
        value = np.asarray(value)
        if value.shape not in (self.position.shape, self.position.shape[1:]):
            raise InputError(
                f"{name}: wrong shape.",
                received=value.shape,
                expected=f"{self.position.shape[1:]} for all walkers, or {self.position.shape}",
            )
        return value


def starting_walkers(options: Options, flat: Any) -> Walkers:
    """The walkers before their first step."""
    walkers, start = options.num_walkers, options.walker_start
    _check(options)
    position = np.repeat(np.asarray(flat.get(), flat.dtype)[None], walkers, axis=0)
    auxiliary = tuple(np.repeat(np.asarray(value)[None], walkers, axis=0) for value in flat.auxiliary)
    if options.parameters is not None:
        stored = _stored(options, flat)
        position = stored.for_walkers(walkers).astype(flat.dtype)
        auxiliary = _auxiliary(stored, auxiliary)
        said = f"Start: {stored.source}{_which(stored, walkers)}"
    else:
        said = "Start: all walkers at the same place" if walkers > 1 else None
    if start == "fresh":
        position = fresh_starts(flat.tensor_names, flat.shapes, walkers, options.seed).astype(flat.dtype)
        position = with_noise_of(flat, position)
        said = "Start: each walker newly drawn"
    elif start == "jitter":
        noise = np.random.default_rng([options.seed, _PURPOSE]).standard_normal(position.shape)
        position = (position + options.walker_jitter * noise).astype(flat.dtype)
        said = f"{said or 'Start: the model'}, moved by Gaussian numbers of deviation {options.walker_jitter:g}"
    elif walkers > 1 and options.parameters is None:
        said += "; walker_start jitter or fresh, or a fit, sets them apart"
    return Walkers(position, auxiliary, None if said is None else said + ".")


def _stored(options: Options, flat: Any) -> FileParameters:
    """The parameters of a file; those of a run without noise get the noise where it starts."""
    names, fixed = flat.parameter_names(), _fixed_names(flat)
    try:
        return read_parameters(options.parameters, options.parameters_step, names=names, fixed=fixed)
    except InputError as error:
        if not flat.samples_noise:
            raise
        names = flat.inside.parameter_names()
        try:
            stored = read_parameters(options.parameters, options.parameters_step, names=names, fixed=fixed)
        except InputError:
            raise error from None
        positions = np.append(stored.positions, np.zeros((len(stored.positions), 1)), axis=1)
        return stored._replace(positions=with_noise_of(flat, positions))


def _fixed_names(flat: Any) -> set[str]:
    """Names of the model's parameters that keep their values."""
    variables = flat.model.trainable_variables
    every = parameter_names(tensor_names(flat.model), [tuple(v.shape) for v in variables])
    return set(every) - set(flat.parameter_names())


def _which(stored: FileParameters, walkers: int) -> str:
    if walkers == 1:
        return "" if len(stored.positions) == 1 else ", the first walker's"
    return ", each walker from its own row" if len(stored.positions) >= walkers else ", the first row for all walkers"


def _auxiliary(stored: FileParameters, own: tuple) -> tuple:
    """Moving statistics of the file, where it has those of this model."""
    # What is fixed comes last, and keeps its values.
    found = (stored.auxiliary or [])[: len(own)]
    if not found or [v.shape[1:] for v in found] != [v.shape[1:] for v in own[: len(found)]]:
        return own
    rows = stored.rows_of(len(own[0]))
    taken = tuple(value[rows].astype(like.dtype) for value, like in zip(found, own, strict=False))
    return taken + own[len(taken) :]


def _check(options: Options) -> None:
    if options.parameters_step is not None and options.parameters is None:
        raise InputError(
            "parameters_step belongs to a file.", options.parameters_step, "parameters, the file it is a step of"
        )
    if options.parameters is not None and options.walker_start == "fresh":
        raise InputError(
            "parameters and walker_start fresh both say where walkers start.",
            options.parameters,
            "one of the two, or walker_start same or jitter",
        )
    if "walker_jitter" in options.explicit and options.walker_start != "jitter":
        raise InputError("walker_jitter belongs to walker_start jitter.", options.walker_start, "walker_start jitter")
