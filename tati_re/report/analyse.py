"""The analysis of a run in one call."""

import os
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.analysis.format import write_table
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.report.modules import Choices, Result, modules_of, result_of
from tati_re.runs.lock import writing
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.storage import replacing
from tati_re.simulation.run import load


def analyse(
    run: AnyRun, what: Sequence[str] | None = None, output: str | os.PathLike[str] | None = None, **choices: Any
) -> dict[str, Result]:
    """Analyses a run as `tati-analyse` does: tables with errors, and the figures that show them.

    Args:
        run: A run or its folder.
        what: Names of modules: averages, parameters, covariance, temperatures, diffusion_map, free_energy, alignment,
            learning_coefficient, reweighting. Default: those of a first look that the run has data for.
        output: Folder for tables (CSV), arrays (NPZ) and figures (PNG), made where missing. Default: none.
        **choices: As the flags of `tati-analyse`: `burnin`, `thin`, `by`, `observables`, `num_eigenpairs`, `groups`,
            `num_eigenvectors`, `num_points`, `num_landmarks`, `bandwidth`, `alpha`, `target_measure`, `along`,
            `method`, `num_bins`, `temperatures`, `lowest_loss`.

    Returns:
        Of each module `table` (a DataFrame), `sentences` on reading it, `arrays`, and `figures`: functions of a path.

    Raises:
        InputError: No such module or choice, or a run that has not what a module needs.

    Examples:
        >>> tati_re.analyse(run)["averages"].table.columns[:3].tolist()
        ['observable', 'mean', 'error']
    """
    names = [field.name for field in fields(Choices)]
    for name in choices:
        refuse_if(name not in names, f"analyse has no choice {name}.{nearest(name, names)}", expected=", ".join(names))
    run = run if isinstance(run, RunFiles) else load(run)
    chosen = Choices(**choices)
    with writing(output):
        folder = None if output is None else made_folder(output)
        results = {name: result_of(run, name, chosen) for name in what or modules_of(run)}
        if folder is not None:
            for name, result in results.items():
                write_result(name, result, folder)
    return results


def made_folder(folder: str | os.PathLike[str]) -> Path:
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        what = f"{folder} cannot be made: {error.strerror}."
        raise InputError(what, expected="--output with another folder") from None
    return folder


def write_result(name: str, result: Result, folder: Path, to: str = "csv", figures: bool = True) -> list[str]:
    """Writes the table, the arrays and the figures of a module; returns the names of the files."""
    written = [write_table(result.table, folder / name, to)]
    if result.arrays:
        written.append(folder / f"{name}.npz")
        with replacing(written[-1]) as file:
            np.savez(file, **result.arrays)
    for drawn, draw in result.figures.items() if figures else ():
        written.append(folder / f"{drawn}.png")
        draw(written[-1])
    return [path.name for path in written]
