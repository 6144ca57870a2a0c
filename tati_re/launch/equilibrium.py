"""Exact draws of a posterior: parameters from the prior, with data simulated from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.core.user_input import error_text
from tati_re.data.dataset import Dataset
from tati_re.options.make import Options, make_options
from tati_re.options.user_code import imported_object
from tati_re.posterior.device_data import device_inputs
from tati_re.posterior.likelihood_predictive import predictive_of
from tati_re.posterior.named_density import NamedDensity
from tati_re.posterior.outputs import Outputs
from tati_re.posterior.simulated import SimulatedPairs
from tati_re.system.system import System
from tati_re.system.target import potential_of, target_system

FORM = "my_file.py:my_function or my_module:my_function"
_EXPECTED = "a function simulate(rng) that returns an exact draw, an array of the coordinates"
_STREAM = 0x5445


@dataclass(frozen=True)
class Equilibrium:
    """Exact draws of a posterior, one for each walker.

    Attributes:
        positions: The draws, `(walkers, parameters)`.
        system: The system of which they are draws.
        objects: Options that are Python objects, for this system.
        draws: How many of the draws are independent: all, or one for all walkers.
        is_twin: Whether the data of the system were simulated.
    """

    positions: np.ndarray
    system: System
    objects: Mapping[str, Any]
    draws: int
    is_twin: bool


def equilibrium_of(
    system: System, options: Options, objects: Mapping[str, Any], walkers: int
) -> Equilibrium:
    """Draws from a posterior without sampling it.

    A network has parameters from its prior, and targets from its likelihood on the inputs of the
    user: the parameters are then an exact draw of their posterior. For named parameters with data
    the option `simulate` does both. For a density without data `simulate` draws each walker.

    Args:
        system: The model and its data, or the potential.
        options: The options of the run.
        objects: Options that are Python objects, by name.
        walkers: The number of walkers.

    Raises:
        InputError: There is no such draw, or `simulate` fails.
    """
    if system.has_data:
        return _of_network(system, options, objects, walkers)
    simulate = _simulate_of(options, objects)
    density = potential_of(options, objects)
    if isinstance(density, NamedDensity):
        return _of_density(density, simulate, system, options, objects, walkers)
    positions = np.stack(
        [
            _one_position(simulate, system, np.random.default_rng([options.seed, _STREAM, number]))
            for number in range(walkers)
        ]
    )
    return Equilibrium(positions, system, objects, draws=walkers, is_twin=False)


def _simulate_of(options: Options, objects: Mapping[str, Any]) -> Callable:
    """The user's function."""
    simulate = objects.get("simulate", options.simulate)
    refuse_if(
        simulate is None,
        "certify: a potential that is a function needs exact draws.",
        "no simulate",
        f"simulate, {_EXPECTED.removeprefix('a ')}; or (parameters, data) of named parameters",
    )
    if isinstance(simulate, str):
        simulate = imported_object(
            "simulate", simulate, FORM, callable, "a function of a generator"
        )
    refuse_if(
        not callable(simulate),
        "simulate: this is not a function.",
        abbreviated(simulate, 60),
        _EXPECTED,
    )
    return simulate


def _one_position(simulate: Callable, system: System, random: np.random.Generator) -> np.ndarray:
    """One draw of a potential without data."""
    try:
        drawn = np.asarray(simulate(random), np.float64)
    except Exception as error:
        raise InputError(
            "simulate: the function fails.", error_text(error, 160), _EXPECTED
        ) from error
    shape = (system.flat.num_parameters,)
    refuse_if(drawn.shape != shape, "simulate: wrong shape.", drawn.shape, shape)
    refuse_if(
        not np.isfinite(drawn).all(),
        "simulate: not all are finite numbers.",
        expected="finite numbers",
    )
    return drawn


def _of_density(
    density: NamedDensity,
    simulate: Callable,
    system: System,
    options: Options,
    objects: Mapping[str, Any],
    walkers: int,
) -> Equilibrium:
    """Draws of named parameters, with their data if the density has some."""
    pairs = SimulatedPairs(simulate, density.layout)
    if not any(isinstance(value, tf.Variable) for value in density.data.values()):
        drawn = [pairs.drawn(options.seed, number)[0] for number in range(walkers)]
        positions = np.concatenate(
            [density.layout.unconstrain(drawn_values) for drawn_values in drawn]
        )
        return Equilibrium(positions, system, objects, draws=walkers, is_twin=False)
    truth, data = pairs.drawn(options.seed, 0)
    refuse_if(
        {*data} != {*density.data},
        "simulate: it does not return the data of the model.",
        ", ".join(map(str, data)) or "none",
        ", ".join(density.data),
    )
    objects = {**objects, "potential": density.with_data(data)}
    twin = target_system(make_options(options, potential="posterior"), objects)
    positions = np.repeat(density.layout.unconstrain(truth), walkers, axis=0)
    return Equilibrium(positions, twin, objects, draws=1, is_twin=True)


def _of_network(
    system: System, options: Options, objects: Mapping[str, Any], walkers: int
) -> Equilibrium:
    """Weights from the prior, with targets from the likelihood on the inputs of the user."""
    prior = system.prior(options, objects)
    refuse_if(
        not prior.proper,
        "certify: an exact draw needs a prior that can be normalized.",
        str(prior),
        "prior gaussian",
    )
    number = system.flat.num_parameters
    position = np.asarray(prior.sample((1, number), options.seed), system.flat.dtype)
    random = np.random.default_rng([options.seed, _STREAM])
    twin = _with_targets(system, _simulated_targets(system, options, objects, position, random))
    before, now = (modeled.potential(options, objects, copies=1) for modeled in (system, twin))
    for name, first, second in (
        ("loss", before.loss, now.loss),
        ("prior", before.prior, now.prior),
    ):
        refuse_if(
            first.get_config() != second.get_config(),
            f"certify: the {name} takes constants from the targets.",
            str(first.get_config()),
            f"a {name} with fixed constants",
        )
    positions = np.repeat(position, walkers, axis=0)
    return Equilibrium(positions, twin, objects, draws=1, is_twin=True)


def _simulated_targets(
    system: System,
    options: Options,
    objects: Mapping[str, Any],
    position: np.ndarray,
    random: np.random.Generator,
) -> np.ndarray:
    """Targets of all training inputs, in the units of the network."""
    ready = system.examples
    outputs = Outputs(system.flat)
    loss = system.potential(options, objects, copies=1).loss
    predictive = predictive_of(
        loss.get_config(),
        ready.task,
        ready.num_classes,
        outputs.num_outputs,
        likelihood=objects.get("loss"),
        places=outputs.places,
    )
    refuse_if(
        not predictive.likelihood,
        "certify: targets cannot be drawn, because the loss is not a likelihood.",
        loss.name,
        "loss gaussian, or another likelihood",
    )
    inputs = device_inputs(ready.inputs, ready.input_scale, system.flat.input_dtype)
    auxiliary = [np.asarray(value)[None] for value in system.flat.auxiliary]
    values = outputs(position, auxiliary, system.prepared(inputs).numpy())
    values = values.reshape(1, ready.num_examples, -1)
    count = predictive.num_extra
    extra = np.asarray(position[:, -count:], np.float64) if count else None
    drawn = np.asarray(predictive.drawn(values, extra, random))[0]
    if ready.task == "one_hot" and ready.targets.ndim > 1:
        drawn = np.eye(ready.targets.shape[1])[drawn.reshape(-1)]
    return drawn.reshape(ready.targets.shape).astype(ready.targets.dtype)


def _with_targets(system: System, targets: np.ndarray) -> System:
    """The same model and inputs with other targets, without a test set."""
    ready = system.examples
    dataset: Dataset = replace(
        ready,
        targets=targets,
        test_inputs=None,
        test_targets=None,
        test_weights=None,
        name=f"{ready.name}, targets simulated",
    )
    return replace(
        system, dataset=dataset, ready=None, units_from=system.units_from or system.examples
    )
