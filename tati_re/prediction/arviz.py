"""Export of runs to ArviZ: its groups as an `xarray.DataTree`, and as a NetCDF file."""

import warnings
from collections.abc import Collection, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import rows_by_walker
from tati_re.analysis.named_draws import values_by_name
from tati_re.core.errors import AnyPath, InputError
from tati_re.core.front_door import front_door
from tati_re.data.dataset import Dataset
from tati_re.prediction.draws import resampled
from tati_re.prediction.leave_one_out import refuse_weighted_draws
from tati_re.prediction.named import has_named_parameters, observed_of, unchanged_density_of
from tati_re.prediction.network import likelihood_blocks, likelihood_of
from tati_re.prediction.stacking import STACKING, chain_weights, chosen_weights
from tati_re.runs import files
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.runs.positions import Block, Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run, select_rows
from tati_re.runs.storage import StorageError, replacing

_PURPOSE = 0xA2F12
_COORDINATES = ("chain", "draw", "step", "walker")
"""Names that ArviZ has for draws; a variable of such a name gets an underscore."""


@front_door
def to_arviz(
    run: AnyRun,
    burnin: int | None = None,
    thin: int = 1,
    data: Dataset | None = None,
    model: Any = None,
    weights: str | None = None,
) -> Any:
    """Converts a run to an `xarray.DataTree` for ArviZ, with walkers as chains.

    ArviZ 1 uses it directly, ArviZ 0 through `arviz.InferenceData.from_datatree`. Its groups:

    * `posterior`: the stored positions, with each tensor of the model in its shape and named
      parameters in their constrained values; or the stored projections;
    * `sample_stats`: the columns of run.csv, and under ArviZ' names `lp` = -U/T (U with its
      constants, without the evidence), `acceptance_rate`, and, for methods with momenta, `energy` =
      U + p'p/2, the Hamiltonian of that step. U covers all data if it is recorded with every row
      (`full_every`);
    * `log_likelihood`: log p(y | θ) of each example (times its weight) at each stored position,
      summed over outputs;
    * `observed_data`: the targets y, in the units of the data, with classes as integers;
    * `posterior_predictive`: new targets drawn at each stored position; the run's seed determines
      them.

    The last three groups need the data, the model, stored parameters and a likelihood under
    `potential="posterior"`: a cross-entropy, or values with Gaussian noise. The mean squared error
    over k outputs stands for the variance k/2. The groups are left out otherwise, and for weighted
    draws, which ArviZ does not support; the attribute `left_out` gives the reason. Groups have the
    coordinate `step`, because positions and rows may be recorded at different steps. `arviz.bfmi`
    compares neighboring rows, so record every step for it. Parameters named `chain`, `draw`, `step`
    or `walker`, as ArviZ names its coordinates, get an underscore.

    All chains in ArviZ have the same length. Draws of walkers that leave the target and return
    (simulated tempering) are concatenated and cut into the same number of equal chains. The
    coordinate `walker` then gives the walker of each draw. The attribute `cut` describes the cut
    and the number of draws left over.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows or positions, at least 1. Default: 1.
        data: The data set of the run, `sim.dataset`. Default: None, the data of a run made in this
            process, otherwise read from the source in the manifest.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        weights: Weights of the chains, `"equal"` or `"stacking"`. ArviZ has no weights, so stacking
            resamples the draws, and the coordinate `walker` gives the walker of each draw. R-hat
            and effective sample sizes of resampled draws do not describe the run. Default: None,
            the run's option.

    Returns:
        The tree of groups.

    Raises:
        InputError: The packages xarray and h5netcdf are missing, no rows are left, or the data
            differ.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import xarray
    except ImportError:
        problem = "ArviZ's format needs the packages xarray and h5netcdf."
        raise InputError(problem, expected="pip install 'tati_re[arviz]'") from None
    run = as_run(run)
    warn_of_failed_checks(run)
    rows = select_rows(run, burnin, thin)
    chains, coordinates, cut = _chains(rows["step"].to_numpy(), rows["walker"].to_numpy())
    attributes = {
        "inference_library": "tati_re",
        "inference_library_version": run.manifest.tati_re,
        "sampler": str(run.manifest.method.sampler or run.manifest.options.sampler or ""),
        "meaning": run.manifest.meaning,
    }
    groups = {"sample_stats": xarray.Dataset(_statistics(rows, chains), coordinates, cut)}
    if files.trajectory_in(run.folder) is not None:
        positions = Positions(run, burnin, thin)
        stored = positions.read()
        chains, coordinates, cut = _chains(stored.step, stored.walker)
        try:
            refuse_weighted_draws(stored, "ArviZ")
            if chosen_weights(run.manifest, weights) == STACKING:
                chains, coordinates, cut = _resampled(run, stored, chains, data, model)
            groups["posterior"] = xarray.Dataset(
                _tensors(run, positions, stored.values[chains]), coordinates, cut
            )
            if has_named_parameters(run):
                groups |= _of_density(xarray, run, stored.values, chains, coordinates)
            else:
                groups |= _of_examples(xarray, run, stored, chains, coordinates, data, model)
            for name in {"log_likelihood", "posterior_predictive"} & {*groups}:
                groups[name].attrs.update(cut)
        except InputError as error:
            if data is not None or model is not None:
                raise
            attributes["left_out"] = str(error)
    for group in groups.values():
        group.attrs.update(attributes)
    return xarray.DataTree.from_dict(groups)


def for_installed(tree: Any) -> Any:
    """The tree as the ArviZ that is installed takes it: `arviz.InferenceData` before version 1,
    else as it is.
    """
    try:
        if metadata.version("arviz").partition(".")[0] != "0":
            return tree
    except metadata.PackageNotFoundError:
        return tree
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ArviZ 1 is coming
        import arviz
    return arviz.InferenceData.from_datatree(tree)


@front_door
def write_arviz(
    run: AnyRun,
    path: AnyPath,
    burnin: int | None = None,
    thin: int = 1,
    data: Dataset | None = None,
    model: Any = None,
) -> Path:
    """Writes a run as a NetCDF file for `xarray.open_datatree` and ArviZ.

    Args:
        run: The run, or its folder.
        path: The file, ending in `.nc`.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows or positions, at least 1. Default: 1.
        data: The data set of the run. Default: None, the data of a run made in this process,
            otherwise read from the source in the manifest.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.

    Returns:
        The path of the file.

    Raises:
        InputError: The file cannot be written, or an error of `to_arviz` occurs.
    """
    tree = to_arviz(run, burnin, thin, data, model)
    try:
        with replacing(path, ".nc") as file:
            tree.to_netcdf(file.name, engine="h5netcdf")
    except StorageError:
        raise
    except (ImportError, ValueError) as error:
        problem = f"The NetCDF file cannot be written: {error}."
        raise InputError(problem, expected="pip install 'tati_re[arviz]'") from error
    return Path(path)


def _statistics(rows: pd.DataFrame, chains: np.ndarray) -> dict[str, Any]:
    full = "full_potential" in rows and rows["full_potential"].notna().all()
    potential = rows["full_potential" if full else "potential"]
    columns = {name: rows[name] for name in rows.columns if name not in ("step", "walker")}
    columns["lp"] = -potential / rows["temperature"]
    if "kinetic_energy" in rows and rows["kinetic_energy"].notna().all():
        thermal = rows["kinetic_energy"] / rows["temperature"]
        if (
            np.ptp(thermal) > 1e-5 * thermal.mean()
        ):  # not momenta of fixed length, whose BFMI would be that of U
            columns["energy"] = potential + rows["kinetic_energy"]
    if "acceptance" in rows:
        columns["acceptance_rate"] = rows["acceptance"]
    return {
        name: (("chain", "draw"), values.to_numpy()[chains]) for name, values in columns.items()
    }


def _of_examples(
    xarray: Any, run: RunFiles, stored: Block, chains: np.ndarray, coordinates, data, model
) -> dict:
    """The groups with one number an example."""
    data, network = likelihood_of(run, data, model)
    predictive = network.predictive
    random = np.random.default_rng([run.manifest.seed or 0, run.manifest.call, _PURPOSE])
    logs = []
    again = []
    for log_likelihoods, outputs, extra in likelihood_blocks(
        network, data, stored, chains.reshape(-1)
    ):
        logs.append(log_likelihoods)
        again.append(predictive.drawn(outputs, extra, random))
    observed = data.targets.argmax(axis=1) if predictive.task == "one_hot" else data.targets
    log_likelihood = np.concatenate(logs)
    observed = observed if observed.ndim < 3 else observed.reshape(len(observed), -1)
    dims = ("example", "output")[: observed.ndim]

    def of_draws(values: np.ndarray, dims: tuple) -> Any:
        shape = (*chains.shape, *observed.shape[: len(dims)])
        return xarray.Dataset({"y": (("chain", "draw", *dims), values.reshape(shape))}, coordinates)

    return {
        "log_likelihood": of_draws(log_likelihood, dims[:1]),
        "observed_data": xarray.Dataset({"y": (dims, observed)}),
        "posterior_predictive": of_draws(np.concatenate(again), dims),
    }


def _of_density(
    xarray: Any,
    run: RunFiles,
    positions: np.ndarray,
    chains: np.ndarray,
    coordinates: dict[str, Any],
) -> dict[str, Any]:
    """The groups of a density of named parameters: its observations and generated quantities."""
    density = unchanged_density_of(run)
    values = values_by_name(run, positions[chains.ravel()])
    groups = {"observed_data": xarray.Dataset(_variables(observed_of(density), ()))}
    if density.log_likelihood is not None:
        logs = density.log_likelihoods(values).reshape(*chains.shape, -1)
        groups["log_likelihood"] = xarray.Dataset(
            _variables({"log_likelihood": logs}, ("chain", "draw")), coordinates
        )
    if density.generated:
        drawn = {
            name: value.reshape(*chains.shape, *value.shape[1:])
            for name, value in density.generate(values, run.manifest.seed or 0).items()
        }
        groups["posterior_predictive"] = xarray.Dataset(
            _variables(drawn, ("chain", "draw")), coordinates
        )
    return groups


def _variables(values: Mapping[str, np.ndarray], first: tuple[str, ...]) -> dict[str, Any]:
    """Arrays with names of their dimensions, `first` and then by number."""
    variables = {}
    coordinates = _COORDINATES if first else ()
    for name, value in values.items():
        own = _unlike(name, (*coordinates, *values)) if name in coordinates else name
        axes = [_unlike(f"{own}_dim_{k}", values) for k in range(value.ndim - len(first))]
        variables[own] = ((*first, *axes), value)
    return variables


def _unlike(name: str, others: Collection[str]) -> str:
    """A name with as many underscores that it is none of the others."""
    while name in others:
        name += "_"
    return name


def _chains(
    steps: np.ndarray, walkers: np.ndarray
) -> tuple[np.ndarray, dict[str, Any], dict[str, str]]:
    """Rows in chains, `(chains, draws)`, by walker or, where that would lose more of them, of all
    walkers joined and cut into equal parts; their coordinates; and in the attribute `cut` what was
    done, where walkers are not alike.
    """
    rows = rows_by_walker(steps, walkers)
    counts = np.unique(walkers, return_counts=True)[1]
    cut = {}
    text = f"Walkers have {counts.min():,} to {counts.max():,} draws"
    length = len(steps) // len(rows)
    if joined := length > rows.shape[1]:
        rows = np.lexsort((steps, walkers))[: length * len(rows)].reshape(len(rows), length)
        text += f", joined one after the other and cut into {len(rows)} chains of {length:,}"
    if len(steps) > rows.size or joined:
        cut = {"cut": f"{text}; {len(steps) - rows.size} of {len(steps):,} are omitted."}
    alike = (steps[rows] == steps[rows[0]]).all()
    coordinates = {"step": ("draw", steps[rows[0]]) if alike else (("chain", "draw"), steps[rows])}
    coordinates |= {"walker": (("chain", "draw"), walkers[rows])} if joined else {}
    return (
        rows,
        {"chain": np.arange(len(rows)), "draw": np.arange(rows.shape[1]), **coordinates},
        cut,
    )


def _resampled(
    run: RunFiles, stored: Block, chains: np.ndarray, data: Any, model: Any
) -> tuple[np.ndarray, dict[str, Any], dict[str, str]]:
    """Rows in chains as of `_chains`, resampled by the weights of stacking."""
    weight = chain_weights(run, data, model).weight
    rows = chains.reshape(-1)
    share = weight[stored.walker[rows]]
    # Each chain of the result has draws of all walkers in the same proportions.
    resampled_rows = rows[resampled(share)].reshape(chains.shape[1], -1).T
    coordinates = {
        "chain": np.arange(resampled_rows.shape[0]),
        "draw": np.arange(resampled_rows.shape[1]),
        "step": (("chain", "draw"), stored.step[resampled_rows]),
        "walker": (("chain", "draw"), stored.walker[resampled_rows]),
    }
    shares = ", ".join(f"{value:.3f}" for value in weight)
    return (
        resampled_rows,
        coordinates,
        {"cut": f"Draws are resampled with the weights of the walkers: {shares}."},
    )


def _tensors(run: RunFiles, positions: Positions, values: np.ndarray) -> dict[str, Any]:
    described = run.manifest.parameters
    if has_named_parameters(run) and not positions.projected:
        named = values_by_name(run, values.reshape(-1, values.shape[-1]))
        shaped = {
            name: value.reshape(*values.shape[:2], *value.shape[1:])
            for name, value in named.items()
        }
        return _variables(shaped, ("chain", "draw"))
    if positions.projected or positions.num_parameters != described.num:
        return {"projection": (("chain", "draw", "direction"), values)}
    tensors = {}
    first = 0
    for name, shape in zip(described.names, described.shapes, strict=True):
        size = int(np.prod(shape, dtype=np.int64))
        part = values[..., first : first + size].reshape(*values.shape[:2], *shape)
        tensors[name.replace("/", ".")] = part  # a slash would make a group of a NetCDF file
        first += size
    return _variables(tensors, ("chain", "draw"))
