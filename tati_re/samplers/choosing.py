"""From options to the sampler of a run: a family, and what wraps it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.given import as_array
from tati_re.models.fan_in import fan_in_plus_one
from tati_re.options.families import FAMILIES, family, options_of_family
from tati_re.options.table import options_of
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive


def wrapped(sampler, options, names: Sequence[str], shapes: Sequence[tuple[int, ...]], mass=None):
    """The sampler with the mass, the ensemble preconditioner and the control variate that the options ask for."""
    if mass is not None or options.mass != "unit":
        if options.covariance_blending:
            raise InputError(
                "mass and covariance_blending both set the speed of directions.",
                received=f"covariance_blending = {options.covariance_blending:g}",
                expected="one of the two",
            )
        sampler = Massive(sampler, _masses(options.mass, names, shapes) if mass is None else _checked(mass, shapes))
        if sampler.measured and options.num_burnin_steps < 200:
            raise InputError(
                f"mass: {sampler.mass} is measured during the burn-in.",
                received=f"num_burnin_steps = {options.num_burnin_steps}",
                expected="200 or more",
            )
    if options.covariance_blending:
        sampler = EnsembleQuasiNewton(
            sampler, options.covariance_blending, options.covariance_after_steps, options.ensemble_scheme
        )
        sampler.check_walkers(options.num_walkers)
        if sampler.groups > 1 and options.num_steps % sampler.group_steps:
            raise InputError(
                "num_steps: each half of the walkers moves covariance_after_steps at a time.",
                received=options.num_steps,
                expected=f"a multiple of {sampler.group_steps}",
            )
    return ControlVariate(sampler, options.control_variate_every) if options.control_variate else sampler


_BELONG = {
    "thermostat_bath": lambda options: family(options.sampler) is None and "D" in options.sampler.upper(),
    "schedule_delay": lambda options: options.step_schedule == "polynomial",
    "schedule_power": lambda options: options.step_schedule == "polynomial",
    "cycle_steps": lambda options: options.step_schedule == "cyclical",
    "temperature_start": lambda options: options.temperature_schedule == "annealing",
    "control_variate_every": lambda options: options.control_variate,
    "covariance_after_steps": lambda options: options.covariance_blending > 0,
    "ensemble_scheme": lambda options: options.covariance_blending > 0,
    "step_size_tuning": lambda options: options.target_acceptance is not None,
}
"""Options that only mean something beside another one."""


def unused_options(options, sampler) -> list[str]:
    """Options that were given and that a run with this sampler does not use."""
    config = sampler.get_config()
    taken = {name for where in FAMILIES.values() for name in options_of_family(where)}
    beside = [name for name, used in _BELONG.items() if name in options.explicit and not used(options)]
    given = [name for name in options_of(["sampler"]) if name in taken & options.explicit]
    return [*(name for name in given if name not in config), *beside]


def _checked(mass, shapes) -> np.ndarray:
    mass = as_array(mass, "mass", np.float64)
    wanted = (sum(math.prod(shape) for shape in shapes),)
    if mass.shape != wanted:
        raise InputError("mass: wrong shape.", received=mass.shape, expected=f"{wanted}, one a parameter")
    return mass


def _masses(which: str, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> np.ndarray | str:
    """Of every parameter, as `fan_in_plus_one` counts, or the name of a mass that is measured."""
    return fan_in_plus_one(names, shapes) if which == "fan_in" else which
