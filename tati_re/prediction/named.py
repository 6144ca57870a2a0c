"""What the draws of named parameters imply: terms of observations and generated quantities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.analysis.named_draws import draws_of, values_by_name
from tati_re.core.errors import InputError, refuse_if
from tati_re.runs.run import RunFiles

if TYPE_CHECKING:
    from tati_re.posterior.named_density import NamedDensity

_CURE = "tati_re.load(folder, log_density=f, data=..., log_likelihood=g, generated={...})"


def has_named_parameters(run: RunFiles) -> bool:
    """Whether a run sampled named parameters with supports.

    Args:
        run: The run.
    """
    return bool(run.manifest.parameters.supports)


def density_of(run: RunFiles) -> NamedDensity:
    """The density of a run of named parameters, given in this process.

    Args:
        run: The run.

    Raises:
        InputError: The run has no named parameters, or its folder was opened without the density.
    """
    from tati_re.posterior.named_density import NamedDensity  # which imports TensorFlow

    problem = f"{run.folder}: the run has no named parameters."
    refuse_if(not has_named_parameters(run), problem, expected="a run of Simulation(log_density=f)")
    density = run.objects.get("potential")
    if not isinstance(density, NamedDensity):
        raise InputError(f"{run.folder} does not hold the log density.", expected=_CURE)
    return density


def unchanged_density_of(run: RunFiles) -> NamedDensity:
    """The density of a run of named parameters, with the data that the run was given.

    Args:
        run: The run.

    Raises:
        InputError: As of `density_of`; or the density, or its data, has other values than in the
            run.
    """
    from tati_re.posterior.target import Target  # which imports TensorFlow

    density = density_of(run)
    target = Target(density, density.dimension, density.dtype)
    if target.fingerprint() != run.manifest.dataset.fingerprint:
        problem = f"{run.folder}: the log density or its data differ from the run's."
        raise InputError(problem, expected="both as in the run; for new data take generated={...}")
    return density


def generated_of(run: RunFiles, burnin: int | None = None, thin: int = 1) -> dict[str, np.ndarray]:
    """The generated quantities of each stored draw.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Every how many stored positions of a chain are kept. Default: 1.

    Returns:
        Arrays `(chains, draws, *shape)` by name; random ones are the same at each call.

    Raises:
        InputError: The density was given without `generated`, or a function fails.
    """
    density = density_of(run)
    problem = "generated: the density was given without functions."
    refuse_if(not density.generated, problem, expected='generated={"y_rep": g}')
    draws = draws_of(run, burnin, thin)
    chains = next(iter(draws.values())).shape[:2]
    flat = {name: value.reshape(-1, *value.shape[2:]) for name, value in draws.items()}
    generated = density.generate(flat, run.manifest.seed or 0)
    return {name: value.reshape(*chains, *value.shape[1:]) for name, value in generated.items()}


def log_likelihoods_of(run: RunFiles, positions: np.ndarray) -> np.ndarray:
    """The log density of each observation at stored positions.

    Args:
        run: The run.
        positions: Free coordinates, `(draws, parameters)`.

    Returns:
        Log densities, `(draws, observations)`.

    Raises:
        InputError: The density is not known, was given with other data, or without
            `log_likelihood`.
    """
    return unchanged_density_of(run).log_likelihoods(values_by_name(run, positions))


def observed_of(density: NamedDensity) -> dict[str, Any]:
    """The arrays among the data of a density, by name."""
    state = density.__getstate__()["data"]
    return {name: value for name, value in state.items() if isinstance(value, np.ndarray)}
