"""The modules of `tati-analyse`, each from a run to tables and figures, and the analysis of a run
in one call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tati_re import plotting
from tati_re.analysis.alignment import align
from tati_re.analysis.averages import averages, parameter_averages
from tati_re.analysis.convergence import chains_of, halves_of
from tati_re.analysis.covariance import covariance_eigenpairs, covariance_table
from tati_re.analysis.diffusion_map import landmarks
from tati_re.analysis.format import write_table
from tati_re.analysis.free_energy import coordinate_of, diffusion_map_of, free_energy
from tati_re.analysis.learning_coefficient import learning_coefficient, learning_curve
from tati_re.analysis.reweighting import reweight
from tati_re.analysis.temperature import group_sentences, group_temperatures
from tati_re.core.errors import AnyPath, InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.printable import printable
from tati_re.core.renamed import renamed_arguments
from tati_re.core.rhat import rhat_of_halves
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import html_table
from tati_re.launch.run import load
from tati_re.prediction.network import model_of
from tati_re.runs import files
from tati_re.runs.lock import writing
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import is_optimization, leaves, select_rows, spacing
from tati_re.runs.storage import made, replacing

_OF_SAMPLES = ("temperatures", "free_energy", "reweighting", "learning_coefficient")
_SHOWN = ("potential", "loss", "kinetic_energy", "virial")


def _of(*modules: str, default: Any) -> Any:
    """A choice that these modules have."""
    return field(default=default, metadata={"modules": modules})


@dataclass(frozen=True)
class Choices:
    """The options of the modules. `burnin` None is the run's own; empty `observables` are the
    columns of run.csv that vary, empty `temperatures` those of the ladder and two between each. Of
    the diffusion map are `num_points`, the most positions that it takes, `num_landmarks`, points
    far apart that are marked, `bandwidth` (a number, "bgh" or "median"), `alpha`, and
    `target_measure`, whether points count for exp(-U/T); of the free energy the coordinate `along`,
    `method` ("histogram" or "kernel") and `num_bins`. `lowest_loss` None is that at the tether's
    center.
    """

    burnin: int | None = None
    thin: int = 1
    by: Literal["all", "walker", "rung"] = _of(
        "averages", "parameters", "covariance", default="all"
    )
    observables: tuple[str, ...] = _of("averages", "reweighting", default=())
    num_eigenpairs: int = _of("covariance", default=16)
    groups: Literal["tensor", "layer", "kind"] = _of("temperatures", default="tensor")
    num_eigenvectors: int = _of("diffusion_map", default=4)
    num_points: int = _of("diffusion_map", default=2000)
    num_landmarks: int = _of("diffusion_map", default=5)
    bandwidth: float | str = _of("diffusion_map", default="bgh")
    alpha: float = _of("diffusion_map", default=0.5)
    target_measure: bool = _of("diffusion_map", default=False)
    along: str = _of("free_energy", default="potential")
    method: Literal["histogram", "kernel"] = _of("free_energy", default="histogram")
    num_bins: int = _of("free_energy", default=40)
    temperatures: tuple[float, ...] = _of("reweighting", default=())
    lowest_loss: float | None = _of("learning_coefficient", default=None)

    @property
    def diffusion(self) -> dict[str, Any]:
        return {
            name: vars(self)[name]
            for name in ("num_points", "bandwidth", "alpha", "target_measure")
        }


@dataclass
class Result:
    """A module's table, sentences to read it by, functions that draw into a path by file name, and
    arrays to keep; and why the module has no result, if it has none.
    """

    table: pd.DataFrame
    sentences: list[str] = field(default_factory=list)
    figures: dict[str, Callable[[Path | None], Figure]] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    problem: InputError | None = None

    def __repr__(self) -> str:
        table = self.table.to_string(index=False, max_rows=12, max_cols=12)
        return printable("\n".join([*self.sentences, table]))

    def _repr_html_(self) -> str:
        return html_table(
            "Analysis", (("", sentence) for sentence in self.sentences), frame=self.table
        )


def _averages(run: RunFiles, choices: Choices) -> Result:
    names = list(choices.observables) or None
    table = averages(run, names, choices.by, choices.burnin, choices.thin)
    rows = select_rows(run, choices.burnin, choices.thin)
    drawn = [name for name in (names or _SHOWN) if name in rows.columns]
    chains = {} if leaves(run.run_info) else {name: chains_of(rows, name, -1) for name in drawn}
    observables = [name for name in names or () if name in rows.columns] or None
    traces = lambda path: plotting.plot_run(run, observables, choices.burnin, choices.thin, path)  # noqa: E731
    result = Result(table, figures={"traces": traces})
    if any(
        v.shape[1] >= 4 and np.isfinite(v).all() and (np.ptp(v, axis=1) > 0).all()
        for v in chains.values()
    ):
        result.figures["autocorrelation"] = lambda path: plotting.plot_autocorrelation(
            chains, spacing(rows), path
        )
    return result


def _parameters(run: RunFiles, choices: Choices) -> Result:
    thin = choices.thin if choices.thin > 1 else None
    if choices.by != "walker":
        return Result(parameter_averages(run, choices.burnin, thin))
    walkers = range(run.manifest.options.num_walkers)
    tables = [
        parameter_averages(run, choices.burnin, thin, walker).assign(walker=walker)
        for walker in walkers
    ]
    return Result(pd.concat(tables, ignore_index=True)[["walker", "parameter", "mean", "std"]])


def _covariance(run: RunFiles, choices: Choices) -> Result:
    walkers: list[Any] = [None]
    if choices.by == "walker":
        walkers = sorted(
            {
                int(walker)
                for block in Positions(run, choices.burnin).blocks()
                for walker in np.unique(block.walker)
            }
        )
    tables = dict[Any, Any]()
    arrays = dict[str, Any]()
    for walker in walkers:
        eigenpairs = covariance_eigenpairs(
            run, choices.num_eigenpairs, walker, choices.burnin, choices.thin
        )
        name, ending = (
            ("all walkers", "") if walker is None else (f"walker {walker}", f"_walker_{walker}")
        )
        tables[name] = covariance_table(run, eigenpairs, walker, choices.burnin, choices.thin)
        arrays |= {
            f"vectors{ending}": eigenpairs.vectors,
            f"values{ending}": eigenpairs.values,
            f"mean{ending}": eigenpairs.mean,
        }
    all_spectra = pd.concat(tables, names=["of"]).reset_index("of").reset_index(drop=True)
    sentences = [
        f"{eigenpairs.num_rows:,} positions of {len(eigenpairs.mean):,} parameters, read "
        f"{eigenpairs.num_passes} times. A large eigenvalue marks a flat, slow direction, a "
        "small one a stiff, fast one; in a quadratic potential the curvature is T / "
        "eigenvalue."
    ]
    if eigenpairs.num_rows <= len(eigenpairs.mean):
        sentences.append(
            "There are fewer positions than parameters. Eigenvalues beyond their number "
            "are missing, and the leading ones are too large."
        )
    return Result(
        all_spectra,
        sentences,
        {"spectrum": lambda path: plotting.plot_spectrum(tables, path)},
        arrays,
    )


def _temperatures(run: RunFiles, choices: Choices) -> Result:
    table = group_temperatures(run, choices.groups, choices.burnin, choices.thin)
    figures = {"temperatures": lambda path: plotting.plot_group_temperatures(table, path)}
    sentences = group_sentences(table, run.manifest.sees_batches)
    return Result(table, sentences or ["All groups lie within their bands."], figures)


def _diffusion_map(run: RunFiles, choices: Choices) -> Result:
    diffusion, block = diffusion_map_of(
        run, choices.num_eigenvectors, choices.burnin, choices.thin, **choices.diffusion
    )
    marked = landmarks(
        diffusion, min(choices.num_landmarks, len(block.step)), int(block.potential.argmin())
    )
    columns = {
        "step": block.step,
        "walker": block.walker,
        "potential": block.potential,
        "loss": block.loss,
    }
    place = np.full(len(block.step), np.nan)
    place[marked] = np.arange(1, len(marked) + 1)
    columns |= {"stationary": diffusion.stationary, "landmark": place}
    columns |= {
        f"eigenfunction_{k + 1}": diffusion.vectors[:, k] for k in range(len(diffusion.values))
    }
    values = ", ".join(f"{value:.4g}" for value in diffusion.values)
    sentences = [
        f"{len(block.step):,} positions; bandwidth {diffusion.bandwidth:.4g}, at which the "
        f"kernel detects {diffusion.dimension:.2g} dimensions. Eigenvalues of the generator: "
        f"{values}."
    ]
    figures = {
        "diffusion_map": lambda path: plotting.plot_diffusion_map(
            diffusion, block.potential, marked, path
        )
    }
    return Result(pd.DataFrame(columns), sentences, figures, {"values": diffusion.values})


def _free_energy(run: RunFiles, choices: Choices) -> Result:
    options = choices.diffusion if choices.along.startswith("diffusion:") else {}
    coordinate = coordinate_of(run, choices.along, choices.burnin, choices.thin, **options)
    temperature = 1.0 if run.manifest.temperature is None else run.manifest.temperature
    table = free_energy(
        coordinate.values, temperature, choices.method, choices.num_bins, coordinate.weights
    )
    how = f"by {choices.method}, at temperature {temperature:g}; errors are one standard error."
    sentences = [f"Along {choices.along}, {how}"]
    return Result(
        table,
        sentences,
        {"free_energy": lambda path: plotting.plot_free_energy(table, choices.along, path)},
    )


def _reweighting(run: RunFiles, choices: Choices) -> Result:
    names = choices.observables or ("potential", "loss")
    table = reweight(run, choices.temperatures or None, names, choices.burnin, choices.thin)
    sampled = sorted(set(run.run_info["temperature"]))
    return Result(
        table, figures={"reweighting": lambda path: plotting.plot_reweighting(table, sampled, path)}
    )


def _alignment(run: RunFiles, choices: Choices) -> Result:
    positions = Positions(run, choices.burnin, choices.thin)
    refuse_if(
        positions.projected, "alignment: the run stored projections, not parameters.", run.folder
    )
    fixed = run.manifest.options.fix_parameters
    refuse_if(
        fixed,
        "alignment: units with fixed weights cannot be permuted.",
        fixed,
        "no fix_parameters",
    )
    problem = "alignment: units of frozen layers cannot be permuted."
    refuse_if(run.manifest.options.layers == "last", problem, "layers = last", "layers = all")
    block = positions.read()
    walkers, counts = np.unique(block.walker, return_counts=True)
    refuse_if(
        counts.max() < 4, "alignment: too few positions.", f"{counts.max()} a walker", "at least 4"
    )
    values = np.full(
        (len(walkers), counts.max(), block.values.shape[1]), np.nan, block.values.dtype
    )
    for chain, walker, count in zip(values, walkers, counts, strict=True):
        chain[:count] = block.values[block.walker == walker]
    alignment = align(model_of(run), values)
    table = pd.DataFrame(
        {"walker": walkers, "distance": alignment.before, "aligned": alignment.after}
    )
    # The classical R-hat: ranks of thousands take minutes.
    chains = [
        [walker_positions[:count] for walker_positions, count in zip(of, counts, strict=True)]
        for of in (values, alignment.positions)
    ]
    hats = [
        rhat_of_halves(
            [
                half
                for walker_draws in of
                if len(walker_draws) > 1
                for half in halves_of(walker_draws[None])
            ]
        )
        for of in chains
    ]
    spreads = [np.concatenate(of).var(0).sum() for of in chains]
    sentences = [
        "Distances between the mean of the first walker and the other means, as sampled "
        f"and after alignment. Largest R-hat of a weight: {np.max(hats[0]):.4g} and "
        f"{np.max(hats[1]):.4g}; median: {np.median(hats[0]):.4g} and "
        f"{np.median(hats[1]):.4g}; total variance: {spreads[0]:.4g} and {spreads[1]:.4g}."
    ]
    return Result(table, sentences, arrays={"positions": alignment.positions})


def _learning_coefficient(run: RunFiles, choices: Choices) -> Result:
    table = learning_coefficient(run, choices.lowest_loss, choices.burnin, choices.thin)
    sentences = []
    curve = None
    size = run.manifest.parameters.num
    if len(table) > 3:
        curve = learning_curve(table, min(4, size))
        best = curve.iloc[0]
        others = curve["chi_squared"].to_numpy()
        is_resolved = len(others) == 1 or others[1] - others[0] >= 6
        sentences.append(
            f"The {best['rungs']:.0f} coldest rungs fit λ = {best['coefficient']:.4g} ± "
            f"{best['error']:.2g} with multiplicity {best['multiplicity']:.0f} (χ² "
            f"{best['chi_squared']:.3g})"
            + (
                "."
                if is_resolved
                else f"; multiplicity {curve['multiplicity'][1]:.0f} fits as well (χ² {others[1]:.3g})."
            )
        )
    far = table[table["correction"] > 0.1 * table["coefficient"].abs()]
    unclear = table[table["correction_error"] > 0.1 * table["coefficient"].abs()]
    if len(far) + len(unclear):
        sentences.append(
            f"At {len(far.index.union(unclear.index))} of {len(table)} rungs the "
            "correction for the tether exceeds 10 %, or its uncertainty does. A weaker "
            "tether determines λ there."
        )
    sentences += _of_both_estimates(table)
    if (table["raw"] < 0).any():
        sentences.append(
            "E[L] is below the lowest loss: the center is not a minimum, and these values are not λ."
        )
    figures = {
        "learning_coefficient": lambda path: plotting.plot_learning_coefficient(
            table, curve, size, path
        )
    }
    return Result(table, sentences, figures)


_CLEAR = 5.0
"""Standard errors from which the two estimates of a learning coefficient disagree."""
_LARGE = 0.1
"""The least part of the coefficient that counts as a disagreement."""


def _of_both_estimates(table: pd.DataFrame) -> list[str]:
    """Sentences on the mean and the variance of the loss as estimates of λ."""
    coldest = table.iloc[0]
    sentences = [
        f"λ = {coldest['coefficient']:.4g} ± {coldest['error']:.2g} from the mean loss, "
        f"{coldest['from_variance']:.4g} ± {coldest['from_variance_error']:.2g} from its variance, "
        f"at nβ = {coldest['effective_examples']:.4g}."
    ]
    gap = (table["raw"] - table["from_variance"]).abs()
    large = gap > _LARGE * table["coefficient"].abs()
    disagreeing = table[(table["disagreement"].abs() > _CLEAR) & large]
    if len(disagreeing):
        sentences.append(
            f"The two disagree at {len(disagreeing)} of {len(table)} rungs, by up to "
            f"{disagreeing['disagreement'].abs().max():.0f} standard errors. The center is not a minimum, "
            "the chains have not mixed, or the tether is too strong."
        )
    return sentences


_FUNCTIONS = (
    *(_averages, _parameters, _covariance, _temperatures, _diffusion_map, _free_energy, _alignment),
    *(_learning_coefficient, _reweighting),
)
MODULES = {function.__name__[1:]: function for function in _FUNCTIONS}
"""The modules by name, each a function of a run and what was asked."""


def modules_of(run: RunFiles, burnin: int | None = None) -> list[str]:
    """The default modules for which a run has data after the burn-in.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
    """
    names = ["averages"]
    stored = files.trajectory_in(run.folder) is not None and not is_optimization(
        run.manifest, run.run_info
    )
    if stored and Positions(run, burnin).left():
        names.append("covariance")
    if any(name.startswith("kinetic_energy(") for name in run.run_info.columns):
        names.append("temperatures")
    return names


def refuse_idle(
    choices: Mapping[str, Any], requested: Sequence[str], spell: Callable[[str], str] = str
) -> None:
    """Refuses choices that belong to none of the requested modules.

    Args:
        choices: The choices that were given, by name.
        requested: Names of the modules.
        spell: Writes a name as the user gave it, such as a flag. Default: unchanged.

    Raises:
        InputError: A choice has no effect.
    """
    known = {
        option_field.name: option_field.metadata.get("modules", ())
        for option_field in fields(Choices)
    }
    rung = choices.get("by") == "rung"
    along = str(choices.get("along", "")).startswith("diffusion:")
    for name in choices:
        modules = list(known.get(name, ()))
        modules = ["averages"] if name == "by" and rung else modules
        if along and name in Choices().diffusion:
            modules.append("free_energy")
        problem = f"{spell(name)} applies to another module."
        expected = f"{spell('modules')} {' or '.join(modules)}"
        refuse_if(
            modules and not {*modules} & {*requested}, problem, ", ".join(requested), expected
        )


def result_of(run: RunFiles, name: str, choices: Choices | None = None) -> Result:
    """The result of a module.

    Args:
        run: The run.
        name: Name of the module.
        choices: Options of the modules. Default: None, their defaults.

    Raises:
        InputError: There is no such module, or the run lacks data that it needs.
    """
    refuse_if(name not in MODULES, "Unknown module.", name, ", ".join(MODULES))
    descends = is_optimization(run.manifest, run.run_info)
    problem = f"{name}: the run {run.folder} is a fit, and samples no temperature."
    refuse_if(descends and name in _OF_SAMPLES, problem, expected="a run that sampled")
    result = MODULES[name](run, choices or Choices())
    if descends:
        result.sentences.append(
            "The run is a fit: its rows are a descent, not draws, and their errors are meaningless."
        )
    return result


def result_or_problem(run: RunFiles, name: str, choices: Choices | None = None) -> Result:
    """The result of a module, or an empty one with a sentence on what the run lacks for it.

    Args:
        run: The run.
        name: Name of the module.
        choices: Options of the modules. Default: None, their defaults.
    """
    try:
        return result_of(run, name, choices)
    except InputError as error:
        return Result(pd.DataFrame(), [str(error)], problem=error)


def raise_problem(
    results: Mapping[str, Result], requested: Sequence[str], choices: Mapping[str, Any]
) -> None:
    """Raises the problem of a module that was asked for, or of all modules.

    A module was asked for by its name, or by a choice that is its own.

    Args:
        results: Results by module.
        requested: Names of modules that were given; empty for those of a first look.
        choices: The choices that were given, by name.

    Raises:
        InputError: The first problem among the modules that were asked for, or the first one if no
            module has a result.
    """
    problems = {name: result.problem for name, result in results.items() if result.problem}
    asked = {*requested}
    for field_of_choice in fields(Choices):
        if field_of_choice.name in choices:
            asked |= {*field_of_choice.metadata.get("modules", ())}
    if results and len(problems) == len(results):
        asked = {*results}
    for name, problem in problems.items():
        if name in asked:
            raise problem


@renamed_arguments(what="modules")
@front_door
def analyse(
    run: AnyRun, modules: Sequence[str] | None = None, output: AnyPath | None = None, **choices: Any
) -> dict[str, Result]:
    """Analyzes a run as `tati-analyse` does: tables with errors, and figures of them.

    Args:
        run: A run or its folder.
        modules: Names of modules: averages, parameters, covariance, temperatures, diffusion_map,
            free_energy, alignment, learning_coefficient, reweighting. Default: None, the modules of
            a first look for which the run has data. One of these that cannot be computed has an
            empty table, and a sentence that says why.
        output: Folder for tables (CSV), arrays (NPZ) and figures (PNG), created if missing.
            Default: None, no files.
        **choices: The flags of `tati-analyse`: `burnin`, `thin`, `by`, `observables`,
            `num_eigenpairs`, `groups`, `num_eigenvectors`, `num_points`, `num_landmarks`,
            `bandwidth`, `alpha`, `target_measure`, `along`, `method`, `num_bins`, `temperatures`,
            `lowest_loss`.

    Returns:
        The result of each module by name. It has `table` (a DataFrame), `sentences` that explain
        it, `arrays`, and `figures`, functions of a path.

    Raises:
        InputError: There is no such module or choice, or the run lacks data that a module needs.

    Examples:
        >>> tati_re.analyse(run)["averages"].table.columns[:3].tolist()
        ['observable', 'mean', 'error']
    """
    names = [field.name for field in fields(Choices)]
    for name in choices:
        refuse_if(
            name not in names,
            f"analyse: unknown choice {name}.{nearest(name, names)}",
            expected=", ".join(names),
        )
    run = run if isinstance(run, RunFiles) else load(run)
    chosen = Choices(**choices)
    refuse_idle(choices, requested := modules or modules_of(run, chosen.burnin))
    with writing(output):
        folder = None if output is None else made(output)
        results = {name: result_or_problem(run, name, chosen) for name in requested}
        raise_problem(results, modules or (), choices)
        if folder is not None:
            for name, result in results.items():
                write_result(name, result, folder)
    return results


def write_result(
    name: str, result: Result, folder: Path, to: str = "csv", figures: bool = True
) -> list[str]:
    """Writes the table, the arrays and the figures of a module; returns the names of the files.

    Nothing is written for a module without a result. A figure that cannot be drawn is left out,
    with a warning.

    Args:
        name: Name of the module, which is the name of the files of table and arrays.
        result: Its result.
        folder: An existing folder.
        to: Format of the table, "csv" or "parquet". Default: "csv".
        figures: Whether to draw the figures. Default: True.
    """
    if result.problem:
        return []
    written = [write_table(result.table, folder / name, to)]
    if result.arrays:
        written.append(folder / f"{name}.npz")
        with replacing(written[-1]) as file:
            np.savez(file, **result.arrays)
    for drawn, draw in result.figures.items() if figures else ():
        path = folder / f"{drawn}.png"
        try:
            draw(path)
        except InputError as error:
            warn_user(f"{path.name} is not drawn. {error}")
        else:
            written.append(path)
    return [path.name for path in written]
