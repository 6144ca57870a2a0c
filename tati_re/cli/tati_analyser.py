"""The command line of TATi's analyser: its modules on the CSV files of a run."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.tati_tools import is_flag, parser_of_flags, write
from tati_re.core.errors import InputError, nearest, refuse_if

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from tati_re.analysis.diffusion_map import DiffusionMap

MATRICES = ("covariance_matrix", "covariance_eigenvalues", "covariance_eigenvectors")
"""Flags of the files of a covariance."""

METHODS = ("vanilla", "pydiffmap", "TMDMap")
"""Diffusion maps by TATi's name; the last one reweights by exp(-beta L)."""

_FILES = (
    "run_file",
    "trajectory_file",
    "average_run_file",
    "average_trajectory_file",
    *MATRICES,
    "integrated_autocorrelation_time",
    "diffusion_map_file",
    "diffusion_matrix_file",
    "landmark_file",
    "free_energy_file",
)
_INPUTS = ("run_file", "trajectory_file")
_TIMES = "integrated_autocorrelation_time_covariance"
_POOLED, _OF_WALKERS = (("covariance", _TIMES), ("covariance_per_walker", f"{_TIMES}_per_walker"))
_SHARED = {
    "average_trajectory_file": (("average_trajectory",), ("ensemble_average_trajectory",)),
    "integrated_autocorrelation_time": (_POOLED[1:], _OF_WALKERS[1:]),
    **dict.fromkeys(MATRICES, (_POOLED, _OF_WALKERS)),
}
"""Files that modules of two groups write, with other rows, by flag."""
_WORDS = ("inverse_temperature", "diffusion_map_method", "use_reweighting")
_NUMBERS = {
    "drop_burnin": 0,
    "every_nth": 1,
    "steps": 20,
    "number_of_eigenvalues": 4,
    "landmarks": 5,
}
_ENERGIES = ("kinetic_energy", "loss", "total_energy")
_NOT_PARAMETERS = (
    "step",
    "walker",
    "id",
    "potential",
    "loss",
    "accuracy",
    "rung",
    "replica",
    "weight",
)
_YES = ("yes", "true", "t", "y", "1")
_NO = ("no", "false", "f", "n", "0")


def analyses(argv: Sequence[str]) -> bool:
    """Whether a command line is one of TATi's analyser: it has one of its modules and flags.

    A run folder may have the name of a module, and `--modules` modules of the same names.
    """
    if any(is_flag(text, _FILES) for text in argv):
        return True
    return bool(argv) and argv[0] in MODULES


def analyse_as_tati(argv: list[str]) -> None:
    """Runs modules of TATi on CSV files of a run, as `run_file` and `trajectory_file` name them."""
    flags = dict.fromkeys((*_FILES, *_WORDS))
    parser = parser_of_flags("tati-analyse", **flags, **_NUMBERS)
    parser.add_argument("modules", nargs="*")
    typed = parser.parse(argv)
    for name, default in _NUMBERS.items():
        least = min(default, 1)
        problem = f"--{name} is out of range."
        refuse_if(typed[name] < least, problem, typed[name], f"an integer at least {least}")
    modules = typed.get("modules", [])
    refuse_if(not modules, "No module is named.", expected=", ".join(MODULES))
    for module in modules:
        problem = f"{module} is not a module.{nearest(module, MODULES)}"
        refuse_if(module not in MODULES, problem, expected=", ".join(MODULES))

    _check_targets(typed, modules)
    files = _Files(typed)
    for module in modules:
        MODULES[module](files)


def _check_targets(typed: dict[str, Any], modules: Sequence[str]) -> None:
    """Refuses a file that would be written over an input, or over the rows of another module."""
    named: dict[str, str] = {}
    for name in _FILES:
        if name in typed:
            path = os.path.realpath(typed[name])
            both = name in _INPUTS and named.get(path) in _INPUTS
            refuse_if(
                path in named and not both,
                f"--{name} and --{named.get(path)} name the same file.",
                typed[name],
                "another file for the results",
            )
            named[path] = name
    for name, (first, second) in _SHARED.items():
        doubled = [next((m for m in modules if m in group), None) for group in (first, second)]
        refuse_if(
            name in typed and all(doubled),
            f"{doubled[0]} and {doubled[1]} write the same file, --{name}.",
            typed.get(name),
            "one of the modules in each call",
        )


@dataclass
class _Trajectory:
    """Rows of a trajectory file.

    Attributes:
        table: The rows that are left after burn-in and thinning.
        positions: The parameters, `(rows, parameters)`.
        walkers: The number of the walker of each row, `(rows,)`.
        path: The file.
    """

    table: "pd.DataFrame"
    positions: "np.ndarray"
    walkers: "np.ndarray"
    path: str

    def losses(self) -> "np.ndarray":
        """The losses of the rows, `(rows,)`; an `InputError` if the file has none."""
        check_numbers(self.table, ["loss"], self.path)
        return self.table["loss"].to_numpy(float)

    def chains(self, values: "np.ndarray") -> "np.ndarray":
        """The rows' values `(rows,)` by walker, `(walkers, draws)`."""
        from tati_re.analysis.convergence import rows_by_walker

        return values[rows_by_walker(self.table["step"].to_numpy(), self.walkers)]


class _Files:
    """What the flags name, each read and computed once."""

    def __init__(self, typed: dict[str, Any]) -> None:
        self.typed = typed

    def target(self, name: str) -> str:
        """The file of a flag that a module cannot do without."""
        refuse_if(name not in self.typed, f"--{name} is missing.", expected="a CSV file")
        return self.typed[name]

    def write(self, name: str, columns: Any) -> None:
        """Writes columns to the file of a flag, if it was typed."""
        if name in self.typed:
            write(columns, self.typed[name])

    def rows(self, name: str) -> "pd.DataFrame":
        """Rows of a CSV file past the burn-in, every so many steps."""
        from tati_re.core.files.regular import check_regular
        from tati_re.runs.reading import read_csv, read_h5

        path = self.target(name)
        check_regular(path, f"--{name}")
        expected = "a file that --run_file or --trajectory_file wrote"
        refuse_if(not Path(path).is_file(), f"--{name}: there is no {path}.", expected=expected)
        table = (read_h5 if path.endswith(".h5") else read_csv)(path)
        check_numbers(table, ["step"], path)
        table = _at_target(table, path)
        steps = table["step"].unique()
        kept_steps = steps[steps > self.typed["drop_burnin"]][:: self.typed["every_nth"]]
        if not len(kept_steps):
            problem = f"--drop_burnin leaves no rows of {path}."
            raise InputError(problem, self.typed["drop_burnin"], f"below {steps.max()}")
        return table[table["step"].isin(kept_steps)]

    @cached_property
    def trajectory(self) -> _Trajectory:
        import numpy as np

        table = self.rows("trajectory_file")
        path = self.typed["trajectory_file"]
        names = [name for name in table.columns if name not in _NOT_PARAMETERS]
        nameless = [name for name in names if re.fullmatch(r"|Unnamed: \d+", name)]
        refuse_if(
            nameless,
            f"{path} has a column without a name.",
            ", ".join(table.columns)[:80],
            "names for all columns; index=False keeps pandas from writing its index",
        )
        refuse_if(not names, f"{path} has no column of a parameter.", ", ".join(table.columns))
        check_numbers(table, names, path)
        infinite = [name for name in names if not np.isfinite(table[name]).all()]
        refuse_if(
            infinite,
            f"The column {', '.join(infinite[:1])} of {path} has values that are not finite.",
            expected="finite parameters; --drop_burnin leaves out the first steps",
        )
        walkers = np.zeros(len(table), int)
        for name in ("id", "walker"):
            if name in table:
                check_numbers(table, [name], path)
                walkers = table[name].to_numpy()
        return _Trajectory(table, table[names].to_numpy(float), walkers, path)

    @property
    def inverse_temperature(self) -> float:
        """β, for the weights exp(-βL) of points."""
        text = self.typed.get("inverse_temperature", "")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        refuse_if(
            not 0 < value < float("inf"),
            "--inverse_temperature is needed for the weights exp(-beta loss).",
            text or "none",
            "a number above 0",
        )
        return value

    @property
    def reweights(self) -> bool:
        """Whether points of the diffusion map count for exp(-βL)."""
        method = self.typed.get("diffusion_map_method", METHODS[0])
        problem = f"--diffusion_map_method has an unknown value.{nearest(method, METHODS)}"
        refuse_if(method not in METHODS, problem, method, ", ".join(METHODS))
        text = str(self.typed.get("use_reweighting", "0")).lower()
        problem = "--use_reweighting has the wrong type."
        refuse_if(text not in (*_YES, *_NO), problem, text, "true or false")
        return method == "TMDMap" or text in _YES

    @cached_property
    def diffusion_map(self) -> "DiffusionMap":
        from tati_re.analysis.diffusion_map import diffusion_map

        trajectory = self.trajectory
        target = -self.inverse_temperature * trajectory.losses() if self.reweights else None
        return diffusion_map(
            trajectory.positions, self.typed["number_of_eigenvalues"], log_target=target
        )

    def point_columns(self) -> dict[str, Any]:
        """Columns of the points of the diffusion map in TATi's order: loss, kernel sum, parameters."""
        trajectory = self.trajectory
        columns = {}
        if "loss" in trajectory.table:
            columns["loss"] = trajectory.losses()
        columns["kernel_diff"] = self.diffusion_map.density
        columns |= {f"dof_{k}": column for k, column in enumerate(trajectory.positions.T)}
        return columns

    def of_eigenvector(self, name: str, number: int) -> str:
        """The file of an eigenvector, from 1: `X-ev_1.csv` for `--NAME X.csv`."""
        return f"{self.target(name).removesuffix('.csv')}-ev_{number}.csv"


def _at_target(table: "pd.DataFrame", path: str) -> "pd.DataFrame":
    """The rows at the target's temperature, of a ladder; refuses rows that have unequal weights."""
    if "rung" in table and table["rung"].nunique() > 1:
        table = table[table["rung"] == 0]
        print(f"{path}: rows of rung 0, which is at the target's temperature.")
    refuse_if(
        "weight" in table and table["weight"].nunique() > 1,
        f"The rows of {path} have different weights. TATi's modules give all rows the same weight.",
        expected="tati-analyse RUN --modules ..., with the run folder",
    )
    return table


def check_numbers(
    table: "pd.DataFrame", names: Sequence[str], path: str, filled: bool = True
) -> None:
    """Refuses a table of a file that lacks a column, or has one that does not hold numbers.

    Args:
        table: The table.
        names: The columns.
        path: The file, for the message.
        filled: Whether each row needs a number. Default: True.

    Raises:
        InputError: A column is missing or holds something else.
    """
    for name in names:
        problem = f"{path} has no column {name}."
        refuse_if(name not in table, problem, ", ".join(map(str, table.columns[:6])))
        refuse_if(
            table[name].dtype.kind not in "biuf",
            f"The column {name} of {path} holds a cell that is not a number.",
            expected="numbers",
        )
        refuse_if(
            filled and table[name].isna().any(),
            f"The column {name} of {path} has a cell without a number.",
            expected="a number in each row",
        )


def _parse_run_file(files: _Files) -> None:
    rows = files.rows("run_file")
    check_numbers(rows, ["loss"], files.typed["run_file"])
    print(
        f"{len(rows)} rows of {files.typed['run_file']}: loss {rows['loss'].mean():.6g} on average"
    )


def _parse_trajectory_file(files: _Files) -> None:
    trajectory = files.trajectory
    count, parameters = trajectory.positions.shape
    print(f"{count} rows of {trajectory.path} with {parameters} parameters")


def _average_energies(files: _Files) -> None:
    """Means and variances of kinetic energy, loss and their sum over the first rows, at `steps`
    ends.
    """
    import numpy as np
    import pandas as pd

    target = files.target("average_run_file")
    table = files.rows("run_file")
    check_numbers(table, ["loss"], files.typed["run_file"])
    check_numbers(
        table, ["kinetic_energy"], files.typed["run_file"], filled=False
    )  # of a fit: none
    table = table.assign(total_energy=table["loss"] + table["kinetic_energy"])
    ends = np.unique(np.linspace(0, len(table), files.typed["steps"] + 1).astype(int)[1:])
    lines = []
    for end in ends[ends > 0]:
        part = table.iloc[:end]
        line: dict[str, Any] = {"step": int(part["step"].iloc[-1])}
        for name in _ENERGIES:
            line[f"average_{name}"] = part[name].mean()
            line[f"variance_{name}"] = part[name].var(ddof=0)
        lines.append(line)
    write(pd.DataFrame(lines), target)


def _average_trajectory(files: _Files) -> None:
    import pandas as pd

    target = files.target("average_trajectory_file")
    names = [name for name in files.trajectory.table if name not in _NOT_PARAMETERS]
    positions = files.trajectory.table[names]
    write(pd.DataFrame([positions.mean(), positions.var(ddof=0)]), target)


def _ensemble_average_trajectory(files: _Files) -> None:
    """Means and variances of the parameters with the weights exp(-βL): for points of a grid."""
    import numpy as np
    import pandas as pd

    target = files.target("average_trajectory_file")
    names = [name for name in files.trajectory.table if name not in _NOT_PARAMETERS]
    exponents = -files.inverse_temperature * files.trajectory.losses()
    weights = np.exp(exponents - exponents.max())
    weights /= weights.sum()
    means = weights @ files.trajectory.positions
    variances = weights @ (files.trajectory.positions - means) ** 2
    print(
        "Rows count by exp(-beta loss), which is right for points of a grid. Samples have this "
        "weight already: use average_trajectory for them."
    )
    write(pd.DataFrame([means, variances], columns=names), target)


def _eigenpairs(positions: "np.ndarray", path: str, count: int) -> tuple[Any, Any, Any]:
    """The covariance `(P, P)`, its largest eigenvalues `(k,)` and their eigenvectors `(k, P)`."""
    import numpy as np

    if len(positions) < 2:
        raise InputError(f"{path} has no covariance.", "one row", "two rows or more")
    matrix = np.atleast_2d(np.cov(positions, rowvar=False))
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argsort(values)[::-1][:count]
    return matrix, values[largest], vectors[:, largest].T


def _covariance_tables(files: _Files, positions: "np.ndarray") -> dict[str, "pd.DataFrame"]:
    """The tables of a covariance by the flag of their file."""
    import pandas as pd

    count = files.typed["number_of_eigenvalues"]
    matrix, values, vectors = _eigenpairs(positions, files.trajectory.path, count)
    columns = [f"c{k}" for k in range(len(matrix))]
    return {
        "covariance_matrix": pd.DataFrame(matrix, columns=columns),
        "covariance_eigenvalues": pd.DataFrame({"value": values}),
        "covariance_eigenvectors": pd.DataFrame(vectors, columns=columns),
    }


def _needs_target(files: _Files, module: str, names: Sequence[str]) -> None:
    """Refuses a module all of whose files are missing."""
    expected = " or ".join(f"--{name}" for name in names)
    lost = not any(name in files.typed for name in names)
    refuse_if(lost, f"{module} has nowhere to go.", expected=expected)


def _covariance(files: _Files) -> None:
    """The covariance of the parameters, its largest eigenvalues and their eigenvectors, one a
    row.
    """
    _needs_target(files, "covariance", MATRICES)
    for name, table in _covariance_tables(files, files.trajectory.positions).items():
        files.write(name, table)


def _covariance_per_walker(files: _Files) -> None:
    """The same of each walker alone; the column `id` says which."""
    import pandas as pd

    _needs_target(files, "covariance_per_walker", MATRICES)
    parts: dict[str, list[Any]] = {name: [] for name in MATRICES}
    for walker, positions in _of_walkers(files):
        for name, table in _covariance_tables(files, positions).items():
            table.insert(0, "id", walker)
            parts[name].append(table)
    for name, tables in parts.items():
        files.write(name, pd.concat(tables, ignore_index=True))


def _of_walkers(files: _Files) -> list[tuple[int, "np.ndarray"]]:
    """Each walker's number and positions, `(rows, parameters)`."""
    import numpy as np

    trajectory = files.trajectory
    return [
        (int(w), trajectory.positions[trajectory.walkers == w])
        for w in np.unique(trajectory.walkers)
    ]


def _times_along(vectors: "np.ndarray", chains: "np.ndarray", path: str) -> list[dict[str, Any]]:
    """The autocorrelation time, in rows, along each eigenvector of chains `(walkers, draws, P)`."""
    import numpy as np

    from tati_re.analysis.convergence import (
        autocorrelation_estimate,
        is_short,
        monte_carlo_error,
    )

    lines = []
    for number, vector in enumerate(vectors):
        along = chains @ vector
        if (np.ptp(along, axis=1) == 0).any():
            print(f"{path}: nothing moves along eigenvector {number}; its time is nan.")
            lines.append({"weight": number, "tau": np.nan, "mean": along.mean(), "sigma": np.nan})
            continue
        if is_short(along):
            print(f"{path}: too few rows for the autocorrelation time along eigenvector {number}.")
        line: dict[str, Any] = {"weight": number, "tau": autocorrelation_estimate(along)[0]}
        line |= {"mean": along.mean(), "sigma": monte_carlo_error(along)}
        lines.append(line)
    return lines


def _time_of_covariance(files: _Files) -> None:
    """Autocorrelation times along the eigenvectors of the covariance of all walkers."""
    import numpy as np

    target = files.target("integrated_autocorrelation_time")
    trajectory = files.trajectory
    tables = _covariance_tables(files, trajectory.positions)
    for name, table in tables.items():
        files.write(name, table)
    chains = np.stack([trajectory.chains(column) for column in trajectory.positions.T], axis=-1)
    vectors = tables["covariance_eigenvectors"].to_numpy()
    write(_times_along(vectors, chains, trajectory.path), target)


def _time_of_covariance_per_walker(files: _Files) -> None:
    """Autocorrelation times of each walker along the eigenvectors of its own covariance."""
    target = files.target("integrated_autocorrelation_time")
    if any(name in files.typed for name in MATRICES):
        _covariance_per_walker(files)
    lines = []
    for walker, positions in _of_walkers(files):
        vectors = _covariance_tables(files, positions)["covariance_eigenvectors"].to_numpy()
        times = _times_along(vectors, positions[None], files.trajectory.path)
        lines += [{"walker": walker} | line for line in times]
    write(lines, target)


def _diffusion_map(files: _Files) -> None:
    """Eigenvalues of the diffusion map, and its eigenvectors at the points of the trajectory."""
    names = ("diffusion_map_file", "diffusion_matrix_file")
    _needs_target(files, "diffusion_map", names)
    diffusion = files.diffusion_map
    print(
        f"Bandwidth {diffusion.bandwidth:.6g} of the kernel exp(-d^2 / 4 bandwidth), from the points."
    )
    numbers = range(len(diffusion.values))
    values = {
        "i": [*numbers],
        "eigenvalue": 1 + diffusion.bandwidth * diffusion.values,
        "generator": diffusion.values,
    }
    files.write("diffusion_map_file", values)
    columns = {"i": range(len(diffusion.vectors))} | files.point_columns()
    columns |= {f"ev_{k + 1}": diffusion.vectors[:, k] for k in numbers}
    files.write("diffusion_matrix_file", columns)


def _map_files(files: _Files) -> None:
    """Writes the diffusion map too, if its files are named."""
    if any(name in files.typed for name in ("diffusion_map_file", "diffusion_matrix_file")):
        _diffusion_map(files)


def _free_energy_levelsets(files: _Files) -> None:
    """Free energies of level sets of each eigenvector: as many as landmarks, equally wide.

    The landmark of a set is its point of lowest loss, or, without losses, of the highest density.
    """
    import numpy as np
    import pandas as pd

    files.target("landmark_file")
    _map_files(files)
    points = pd.DataFrame(files.point_columns())
    depth = points["loss"] if "loss" in points else -points["kernel_diff"]
    for number, vector in enumerate(files.diffusion_map.vectors.T, start=1):
        count = files.typed["landmarks"]
        edges = np.linspace(vector.min(), vector.max(), count + 1)
        sets = np.digitize(vector, edges[1:-1])
        chosen = [depth[sets == k].idxmin() for k in np.unique(sets)]
        table = points.loc[chosen].reset_index(drop=True)
        table.insert(0, "landmark", chosen)
        sizes = np.unique(sets, return_counts=True)[1]
        table["free_energy"] = -np.log(sizes / len(vector))
        table[f"ev_{number}"] = vector[chosen]
        write(table, files.of_eigenvector("landmark_file", number))


def _free_energy_histograms(files: _Files) -> None:
    """-ln of the density of the points along each eigenvector, in as many bins as landmarks."""
    import numpy as np

    from tati_re.analysis.free_energy import free_energy

    files.target("free_energy_file")
    _map_files(files)
    bins = max(files.typed["landmarks"], 2)
    for number, vector in enumerate(files.diffusion_map.vectors.T, start=1):
        histogram = free_energy(files.trajectory.chains(vector), num_bins=bins)
        histogram = histogram[histogram["density"] > 0]
        columns = {
            "bin": histogram["coordinate"],
            "free_energy": -np.log(histogram["density"]),
            "error": histogram["error"],
        }
        write(columns, files.of_eigenvector("free_energy_file", number))


MODULES: dict[str, Callable[[_Files], None]] = {
    "parse_run_file": _parse_run_file,
    "parse_trajectory_file": _parse_trajectory_file,
    "average_energies": _average_energies,
    "average_trajectory": _average_trajectory,
    "ensemble_average_trajectory": _ensemble_average_trajectory,
    "covariance": _covariance,
    "covariance_per_walker": _covariance_per_walker,
    "integrated_autocorrelation_time_covariance": _time_of_covariance,
    "integrated_autocorrelation_time_covariance_per_walker": _time_of_covariance_per_walker,
    "diffusion_map": _diffusion_map,
    "free_energy_levelsets": _free_energy_levelsets,
    "free_energy_histograms": _free_energy_histograms,
}
"""Modules of TATi's analyser by name."""
