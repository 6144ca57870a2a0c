"""`tati-analyse` with the command line of TATi's analyser: modules by name, tables in files of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser
from tati_re.core.errors import InputError, nearest

if TYPE_CHECKING:
    import pandas as pd

READ = ("parse_run_file", "parse_trajectory_file")
INSTEAD = {
    "ensemble_average_trajectory": "average_trajectory: samples have the Boltzmann weight already",
    "covariance_per_walker": "tati-analyse RUN --what covariance --by walker",
    "integrated_autocorrelation_time_covariance": "tati-analyse RUN --what covariance",
    "integrated_autocorrelation_time_covariance_per_walker": "tati-analyse RUN --what covariance --by walker",
    "diffusion_map": "tati-analyse RUN --what diffusion_map",
    "free_energy_levelsets": "tati-analyse RUN --what free_energy --along diffusion:1",
    "free_energy_histograms": "tati-analyse RUN --what free_energy --along diffusion:1",
}
"""Modules of TATi that need more than a CSV file, and what does their work."""

_FILES = (
    *("run_file", "trajectory_file", "average_run_file", "average_trajectory_file"),
    *("covariance_matrix", "covariance_eigenvalues", "covariance_eigenvectors"),
)
_NUMBERS = {"drop_burnin": 0, "every_nth": 1, "steps": 20, "number_of_eigenvalues": 4}
_ENERGIES = ("kinetic_energy", "loss", "total_energy")


def is_of_tati(argv: list[str]) -> bool:
    return bool(argv) and argv[0] in (*READ, *INSTEAD, *_MODULES)


def analyse_as_tati(argv: list[str]) -> None:
    """Runs modules of TATi on CSV files of a run, as `run_file` and `trajectory_file` name them."""
    typed = _parser().parse(argv)
    for name, default in _NUMBERS.items():
        try:
            typed[name] = int(typed.get(name, default))
        except ValueError:
            raise InputError(f"--{name} has the wrong type.", typed[name], "an integer") from None
        if typed[name] < min(default, 1):
            raise InputError(f"--{name} is out of range.", typed[name], f"an integer at least {min(default, 1)}")
    for module in typed["modules"]:
        if module in INSTEAD:
            raise InputError(f"{module} is done otherwise here.", expected=INSTEAD[module])
        if module not in (*READ, *_MODULES):
            known = (*READ, *_MODULES)
            raise InputError(f"{module} is not a module.{nearest(module, known)}", expected=", ".join(known))
    for module in typed["modules"]:
        if module in _MODULES:
            _MODULES[module](typed)


def _parser() -> Parser:
    parser = Parser(prog="tati-analyse")
    parser.add_argument("modules", nargs="+")
    for name in (*_FILES, *_NUMBERS):
        parser.add_argument(f"--{name}", dest=name)
    parser.add_argument("-v", dest="v", action="count")
    return parser


def _file(typed: dict[str, Any], name: str) -> str:
    if name not in typed:
        raise InputError(f"--{name} is missing.", expected="a CSV file")
    return typed[name]


def _rows(typed: dict[str, Any], name: str) -> pd.DataFrame:
    from pathlib import Path

    from tati_re.runs.reading import read_csv

    path = _file(typed, name)
    if not Path(path).is_file():
        raise InputError(f"--{name}: there is no {path}.", expected="a file that --run_file or --trajectory_file wrote")
    table = read_csv(path)
    if "step" not in table:
        raise InputError(f"--{name}: {path} has no column step.", ", ".join(map(str, table.columns[:4])))
    steps = table["step"].unique()
    kept = steps[steps > typed["drop_burnin"]][:: typed["every_nth"]]
    table = table[table["step"].isin(kept)]
    if table.empty:
        raise InputError(f"--drop_burnin leaves no rows of {path}.", typed["drop_burnin"], f"below {steps.max()}")
    return table


def _average_energies(typed: dict[str, Any]) -> None:
    """Means and variances of kinetic energy, loss and their sum over the first rows, at `steps` ends."""
    import numpy as np
    import pandas as pd

    target, table = _file(typed, "average_run_file"), _rows(typed, "run_file")
    table = table.assign(total_energy=table["loss"] + table["kinetic_energy"])
    ends = np.unique(np.linspace(0, len(table), typed["steps"] + 1).astype(int)[1:])
    lines = []
    for end in ends[ends > 0]:
        part = table.iloc[:end]
        line: dict[str, Any] = {"step": int(part["step"].iloc[-1])}
        for name in _ENERGIES:
            line |= {f"average_{name}": part[name].mean(), f"variance_{name}": part[name].var(ddof=0)}
        lines.append(line)
    _write(pd.DataFrame(lines), target)


def _parameters(typed: dict[str, Any]) -> pd.DataFrame:
    table = _rows(typed, "trajectory_file")
    others = ("step", "walker", "id", "potential", "loss", "rung", "replica", "weight")
    return table[[name for name in table.columns if name not in others]]


def _average_trajectory(typed: dict[str, Any]) -> None:
    import pandas as pd

    target, positions = _file(typed, "average_trajectory_file"), _parameters(typed)
    _write(pd.DataFrame([positions.mean(), positions.var(ddof=0)]), target)


def _covariance(typed: dict[str, Any]) -> None:
    """The covariance of the parameters, its largest eigenvalues and their eigenvectors, one a row."""
    import numpy as np
    import pandas as pd

    positions = _parameters(typed).to_numpy()
    columns = [f"c{k}" for k in range(positions.shape[1])]
    matrix = np.atleast_2d(np.cov(positions, rowvar=False, ddof=0))
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argsort(values)[::-1][: typed["number_of_eigenvalues"]]
    tables = {
        "covariance_matrix": pd.DataFrame(matrix, columns=columns),
        "covariance_eigenvalues": pd.DataFrame({"value": values[largest]}),
        "covariance_eigenvectors": pd.DataFrame(vectors[:, largest].T, columns=columns),
    }
    if not any(name in typed for name in tables):
        raise InputError("covariance has nowhere to go.", expected=" or ".join(f"--{name}" for name in tables))
    for name, table in tables.items():
        if name in typed:
            _write(table, typed[name])


def _write(table: pd.DataFrame, path: str) -> None:
    from tati_re.runs.csv_table import frame_text

    try:
        Path(path).write_bytes(frame_text(table))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    print(f"{len(table)} rows to {path}")


_MODULES: dict[str, Callable[[dict[str, Any]], None]] = {
    "average_energies": _average_energies,
    "average_trajectory": _average_trajectory,
    "covariance": _covariance,
}
