"""A simulation of the last layer of a network whose other layers keep the weights that they have."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.launch.calls import alone
from tati_re.launch.run import Run
from tati_re.launch.starts import starting_walkers
from tati_re.models.flat import FlatModel
from tati_re.models.last_layer import flat_model
from tati_re.models.precision import rebuilt_in
from tati_re.options.make import Options, make_options
from tati_re.posterior.noise_level import extended_as
from tati_re.system.features import layers_notes
from tati_re.system.target import system_of
from tati_re.system.walkers import Walkers, check_sum

_TRAINED = 'a trained model, parameters=..., or sim.fit() and then sim.sample(layers="last")'


def sample_last_layer(sim: Any, layers: str, overrides: dict[str, Any]) -> Run:
    """Samples the last layer of a simulation of all layers; its walkers stay where they arrive.

    Args:
        sim: The simulation.
        layers: The option `layers` of the call.
        overrides: The other options of the call.

    Returns:
        The run.

    Raises:
        InputError: Nothing of the network has been trained, or its walkers differ in what is frozen.
    """
    options = make_options(sim.options, layers=layers)
    problem = "layers: the layers of this Simulation are frozen."
    refuse_if(options.layers == "all", problem, "all", "layers=all in Simulation(...)")
    refuse_if(not sim.system.has_data, "layers: a potential has no layers.", "last", "a model")
    with alone(sim):
        part = narrowed(sim, options)
        run = part.sample(**overrides)
        _move_last_layer(sim, part)
    return run


def start_last_layer(sim: Any, start: Any = None) -> None:
    """Starts a simulation of the last layer at the parameters of the whole network.

    Args:
        sim: The simulation, which has its options and objects.
        start: Positions of the whole network, or of its last layer. Default: those that the option
            `parameters` names.

    Raises:
        InputError: Nothing of the network has been trained.
    """
    options = sim.options
    built = options.model is None and "model" not in sim.objects
    placed = options.parameters is not None or start is not None
    problem = "layers: the layers to freeze have not been trained."
    refuse_if(built and not placed, problem, "a new network", _TRAINED)
    full_sim = object.__new__(type(sim))
    everywhere = make_options(options, layers="all")
    try:
        full_sim._start(everywhere, sim.objects, start)
    except InputError:
        # What was stored by a run of the last layer has no other parameters.
        if built:
            raise
        _start_there(sim, start)
        return
    part = narrowed(full_sim, make_options(full_sim.options, layers="last"))
    sim.options = part.options
    sim.walkers = part.walkers
    sim.take(part.system)


def narrowed(sim: Any, options: Options) -> Any:
    """A simulation of the last layer, at the positions of a simulation of all layers.

    Args:
        sim: The simulation of all layers.
        options: Its options, with layers = last.

    Raises:
        InputError: Nothing of the network has been trained, or the walkers differ in what is frozen.
    """
    system = sim.system
    walkers = sim.walkers
    built = sim.options.model is None and "model" not in sim.objects
    problem = "layers: the layers to freeze have not been trained."
    refuse_if(built and not walkers.placed, problem, "a new network", _TRAINED)
    model = _model_there(sim) if walkers.placed else system.model
    inside = flat_model(model, options.fix_parameters, "last")
    flat = extended_as(inside, system.flat)
    columns = _columns(sim, flat)
    position = walkers.position[:, columns]
    if walkers.placed:
        frozen = np.delete(walkers.position, columns, axis=1)
        walkers_differ = any(
            np.ptp(values, axis=0).any() for values in (frozen, *walkers.auxiliary)
        )
        problem = "layers: the walkers have different weights before the last layer."
        expected = "num_walkers=1 for the fit"
        refuse_if(walkers_differ, problem, f"{len(position)} walkers", expected)

    part = copy.copy(sim)
    part.options = options
    notes = (*system.notes, *layers_notes(flat, options))
    part._take(replace(system, model=model, flat=flat, notes=notes))
    auxiliary = [np.repeat(np.asarray(v)[None], len(position), 0) for v in flat.auxiliary]
    # One walker is a trained network, around which a run may choose its starts.
    drawn = check_sum(position) if len(position) == 1 else None
    part.walkers = Walkers(position, tuple(auxiliary), "Start: the trained network.", drawn=drawn)
    return part


def _start_there(sim: Any, start: Any) -> None:
    """Starts a simulation of the last layer of a trained model at positions of that layer."""
    sim._take(system_of(sim.options, sim.objects))
    sim.walkers = starting_walkers(sim.options, sim.system.flat, start)


def _model_there(sim: Any) -> Any:
    """A copy of the Keras model with the weights of walker 0."""
    system = sim.system
    model = rebuilt_in(system.model, system.flat.dtype)
    flat = extended_as(FlatModel(model, sim.options.fix_parameters), system.flat)
    flat.set(sim.walkers.position[0])
    for variable, value in zip(flat.others, sim.walkers.auxiliary, strict=True):
        variable.assign(value[0])
    return model


def _columns(sim: Any, flat: Any) -> np.ndarray:
    """Where the parameters of the last layer stand among those of all layers."""
    numbers = {name: place for place, name in enumerate(sim.parameter_names())}
    return np.array([numbers[name] for name in flat.parameter_names()])


def _move_last_layer(sim: Any, part: Any) -> None:
    """Puts the walkers of all layers where those of the last layer arrived."""
    walkers = sim.walkers
    there = part.walkers.position
    position = np.repeat(walkers.position[:1], len(there), axis=0)
    position[:, _columns(sim, part.system.flat)] = there
    auxiliary = tuple(np.repeat(value[:1], len(there), axis=0) for value in walkers.auxiliary)
    sim.options = make_options(sim.options, num_walkers=len(there))
    sim.walkers = Walkers(position, auxiliary)
    sim.take(sim.system)
