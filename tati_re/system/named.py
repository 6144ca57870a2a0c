"""A simulation of named parameters: from what users give to a potential and its starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.posterior.named_density import NamedDensity
from tati_re.runs.run import RunFiles
from tati_re.supports.contract import Support
from tati_re.supports.layout import ParameterLayout
from tati_re.system.target import NUM_CHAINS

_CURE = "Simulation(log_density=f, parameters={...})"
_OF_DENSITY = ("log_likelihood", "generated")
INITS_JITTER = 0.1
"""Standard deviation, in free coordinates, by which chains are set apart around given starts."""


def with_named_density(options: Mapping[str, Any]) -> tuple[dict[str, Any], np.ndarray | None]:
    """What a Simulation was given, with the named density as its potential.

    Args:
        options: Options and objects by name, among them `log_density`, `parameters` and `data`.

    Returns:
        Options and objects with `potential`, and the starts `(walkers, dimension)`, None if there
        are none.

    Raises:
        InputError: What only a named density has, without one; or both it and a potential.
    """
    system_options = dict(options)
    inits = system_options.pop("inits", None)
    if "log_density" in system_options:
        system_options = _with_potential(system_options)
    density = system_options.get("potential")
    is_named = isinstance(density, NamedDensity)
    _refuse_supports(system_options.get("parameters"))
    alone = [name for name in _OF_DENSITY if name in system_options]
    alone += ["inits"] if inits is not None and not is_named else []
    for name in alone:
        raise InputError(
            f"{name} belongs to a density of named parameters.",
            expected=f"NamedDensity(f, {{...}}, {name}=...)" if is_named else _CURE,
        )
    if inits is None or not isinstance(density, NamedDensity):
        return system_options, None
    walkers = system_options.setdefault("num_walkers", NUM_CHAINS)
    is_count = isinstance(walkers, int) and walkers > 0
    starts = density.layout.unconstrain(inits, walkers if is_count else 1)
    system_options.setdefault("walker_start", "jitter")
    if system_options["walker_start"] == "jitter":
        system_options.setdefault("walker_jitter", INITS_JITTER)
    return system_options, starts


def _refuse_supports(parameters: Any) -> None:
    """Refuses supports that were given without a log density, or next to another density."""
    listed = parameters.values() if isinstance(parameters, Mapping) else ()
    given = any(isinstance(value, Support) for value in listed)
    refuse_if(given, "parameters: supports belong to a log density.", expected=_CURE)


def _with_potential(options: Mapping[str, Any]) -> dict[str, Any]:
    """The named density in the place of log density, supports and data."""
    system_options = dict(options)
    for name in ("model", "loss", "potential"):
        refuse_if(
            name in system_options,
            f"log_density and {name} exclude each other.",
            expected="one of the two",
        )
    system_options["potential"] = NamedDensity(
        system_options.pop("log_density"),
        system_options.pop("parameters", None),
        system_options.pop("data", None),
        log_likelihood=system_options.pop("log_likelihood", None),
        generated=system_options.pop("generated", None),
        dtype=str(system_options.get("dtype", "float64")),
    )
    return system_options


def with_density_again(overrides: Mapping[str, Any], run: RunFiles) -> dict[str, Any]:
    """What is given again for the folder of a run, with a log density as its potential.

    Args:
        overrides: Options and objects by name.
        run: The run, whose manifest describes the supports.

    Raises:
        InputError: A log density for a run that has no named parameters.
    """
    if "log_density" not in overrides:
        return dict(overrides)
    described = run.manifest.parameters
    refuse_if(
        not described.supports,
        "log_density: the run has no named parameters.",
        expected="potential=f, the function that the run was given",
    )
    layout = ParameterLayout.from_config(described.supports)
    supports = layout.supports
    given = overrides.get("parameters", supports)
    refuse_if(
        isinstance(given, Mapping) and ParameterLayout(given) != layout,
        "parameters: the run has other supports.",
        abbreviated(given, 120),
        abbreviated(supports, 300),
    )
    dtype = run.manifest.options.dtype
    options = _with_potential({"parameters": supports, "dtype": dtype, **overrides})
    return {
        name: value for name, value in options.items() if name != "dtype" or "dtype" in overrides
    }
