"""The command lines of TATi's analyser, data set writer and parser, samplers and explorer, besides
our own.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser, loading
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.memory import check_free
from tati_re.options.make import options_from_flags
from tati_re.options.representable import what_instead
from tati_re.options.tati_names import (
    ALIASES,
    EXPLORER,
    EXPLORER_FILES,
    LEG_OF_TATI,
    NOT_OF_EXPLORER,
)

if TYPE_CHECKING:
    import pandas as pd

    from tati_re.data import Dataset
    from tati_re.landscape.grid import Axis

READ = ("parse_run_file", "parse_trajectory_file")
INSTEAD = {
    "ensemble_average_trajectory": "average_trajectory: samples have the Boltzmann weight already",
    "covariance_per_walker": "tati-analyse RUN --what covariance --by walker",
    "integrated_autocorrelation_time_covariance": "tati-analyse RUN --what covariance, in place of acor",
    "integrated_autocorrelation_time_covariance_per_walker": "tati-analyse RUN --what covariance --by walker",
    "diffusion_map": "tati-analyse RUN --what diffusion_map",
    "free_energy_levelsets": "tati-analyse RUN --what free_energy --along diffusion:1",
    "free_energy_histograms": "tati-analyse RUN --what free_energy --along diffusion:1",
}
"""Modules of TATi's analyser that need more than a CSV file, and what does their work."""

WRITER = ("data_type", "dimension", "train_data_files", "test_data_files", "train_test_ratio")
"""Flags that only TATi's writer has; with one of them `tati-dataset` takes those of
`TATiDatasetWriter`.
"""

MODES = {
    "naive_grid": ("interval_weights", "interval_biases", "samples_weights", "samples_biases"),
    "naive_subgrid": ("interval_weights", "samples_weights", "directions_file", "interval_offsets"),
    "trajectory": ("parse_parameters_file",),
    "trajectory_subgrid": ("parse_parameters_file", "directions_file"),
}
"""Modes of TATi's loss function sampler, and the flags of each."""

_FILES = (
    *("run_file", "trajectory_file", "average_run_file", "average_trajectory_file"),
    *("covariance_matrix", "covariance_eigenvalues", "covariance_eigenvectors"),
    # Read by modules of `INSTEAD` alone, in TATi too.
    *(
        "inverse_temperature",
        "integrated_autocorrelation_time",
        "diffusion_map_method",
        "diffusion_map_file",
    ),
    *("diffusion_matrix_file", "use_reweighting", "landmarks", "landmark_file", "free_energy_file"),
)
_NUMBERS = {"drop_burnin": 0, "every_nth": 1, "steps": 20, "number_of_eigenvalues": 4}
_ENERGIES = ("kinetic_energy", "loss", "total_energy")
_MADE = {"data_type": 3, "dimension": 10, "noise": 0.0, "train_test_ratio": 0.5, "seed": 0}


def analyses(argv: list[str]) -> bool:
    return bool(argv) and argv[0] in (*READ, *INSTEAD, *_MODULES)


def writes(argv: list[str]) -> bool:
    return any(text.split("=")[0].removeprefix("--") in WRITER for text in argv)


def scans(argv: list[str]) -> bool:
    words = [
        text for text, before in zip(argv, ["", *argv], strict=False) if before != "--directions"
    ]
    return any(text in MODES or text.split("=")[0] == "--interval_input" for text in words)


def _parser(prog: str, **flags: Any) -> Parser:
    """Flags of TATi's spelling; None: a text, a list: several, a number: one of its kind, which is
    the default.
    """
    parser = Parser(prog=prog, quiet=None)
    for name, value in flags.items():
        if value is None:
            parser.add_argument(f"--{name}", dest=name, type=str)
        elif isinstance(value, list):
            parser.add_argument(f"--{name}", dest=name, type=str, nargs="+")
        else:
            parser.add_argument(f"--{name}", dest=name, type=type(value), default=value)
    parser.add_argument("-v", dest="v", action="count")
    return parser


def analyse_as_tati(argv: list[str]) -> None:
    """Runs modules of TATi on CSV files of a run, as `run_file` and `trajectory_file` name them."""
    parser = _parser("tati-analyse", **dict.fromkeys(_FILES), **_NUMBERS)
    parser.add_argument("modules", nargs="+")
    typed = parser.parse(argv)
    for name, default in _NUMBERS.items():
        if typed[name] < min(default, 1):
            raise InputError(
                f"--{name} is out of range.", typed[name], f"an integer at least {min(default, 1)}"
            )
    for module in typed["modules"]:
        if module in INSTEAD:
            raise InputError(f"{module} is done otherwise here.", expected=INSTEAD[module])
        if module not in (*READ, *_MODULES):
            known = (*READ, *_MODULES)
            raise InputError(
                f"{module} is not a module.{nearest(module, known)}", expected=", ".join(known)
            )
    for module in typed["modules"]:
        if module in _MODULES:
            _MODULES[module](typed)


def _file(typed: dict[str, Any], name: str) -> str:
    refuse_if(name not in typed, f"--{name} is missing.", expected="a CSV file")
    return typed[name]


def _rows(typed: dict[str, Any], name: str) -> "pd.DataFrame":
    from tati_re.core.regular import check_regular
    from tati_re.runs.reading import read_csv

    path = _file(typed, name)
    check_regular(path, f"--{name}")
    if not Path(path).is_file():
        raise InputError(
            f"--{name}: there is no {path}.",
            expected="a file that --run_file or --trajectory_file wrote",
        )
    table = read_csv(path)
    refuse_if(
        "step" not in table,
        f"--{name}: {path} has no column step.",
        ", ".join(map(str, table.columns[:4])),
    )
    _check_numbers(table, ["step"], path)
    steps = table["step"].unique()
    table = table[table["step"].isin(steps[steps > typed["drop_burnin"]][:: typed["every_nth"]])]
    if table.empty:
        raise InputError(
            f"--drop_burnin leaves no rows of {path}.", typed["drop_burnin"], f"below {steps.max()}"
        )
    return table


def _check_numbers(table: "pd.DataFrame", names: Sequence[str], path: str) -> None:
    """Refuses a table of a file that lacks a column, or has one that does not hold numbers."""
    for name in names:
        what = f"{path} has no column {name}."
        refuse_if(name not in table, what, ", ".join(map(str, table.columns[:6])))
        refuse_if(
            table[name].dtype.kind not in "biuf",
            f"The column {name} of {path} holds a cell that is not a number.",
            expected="numbers",
        )


def _average_energies(typed: dict[str, Any]) -> None:
    """Means and variances of kinetic energy, loss and their sum over the first rows, at `steps`
    ends.
    """
    import numpy as np
    import pandas as pd

    target = _file(typed, "average_run_file")
    table = _rows(typed, "run_file")
    _check_numbers(table, ("loss", "kinetic_energy"), typed["run_file"])
    table = table.assign(total_energy=table["loss"] + table["kinetic_energy"])
    ends = np.unique(np.linspace(0, len(table), typed["steps"] + 1).astype(int)[1:])
    lines = []
    for end in ends[ends > 0]:
        part = table.iloc[:end]
        line: dict[str, Any] = {"step": int(part["step"].iloc[-1])}
        for name in _ENERGIES:
            line |= {
                f"average_{name}": part[name].mean(),
                f"variance_{name}": part[name].var(ddof=0),
            }
        lines.append(line)
    write(pd.DataFrame(lines), target)


def _parameters(typed: dict[str, Any]) -> "pd.DataFrame":
    table = _rows(typed, "trajectory_file")
    others = ("step", "walker", "id", "potential", "loss", "rung", "replica", "weight")
    names = [name for name in table.columns if name not in others]
    _check_numbers(table, names, typed["trajectory_file"])
    return table[names]


def _average_trajectory(typed: dict[str, Any]) -> None:
    import pandas as pd

    target = _file(typed, "average_trajectory_file")
    positions = _parameters(typed)
    write(pd.DataFrame([positions.mean(), positions.var(ddof=0)]), target)


def _covariance(typed: dict[str, Any]) -> None:
    """The covariance of the parameters, its largest eigenvalues and their eigenvectors, one a
    row.
    """
    import numpy as np
    import pandas as pd

    positions = _parameters(typed).to_numpy()
    columns = [f"c{k}" for k in range(positions.shape[1])]
    if len(positions) < 2:
        raise InputError(
            f"{typed['trajectory_file']} has no covariance.", "one row", "two rows or more"
        )
    matrix = np.atleast_2d(np.cov(positions, rowvar=False))
    values, vectors = np.linalg.eigh(matrix)
    largest = np.argsort(values)[::-1][: typed["number_of_eigenvalues"]]
    tables = {
        "covariance_matrix": pd.DataFrame(matrix, columns=columns),
        "covariance_eigenvalues": pd.DataFrame({"value": values[largest]}),
        "covariance_eigenvectors": pd.DataFrame(vectors[:, largest].T, columns=columns),
    }
    if not any(name in typed for name in tables):
        raise InputError(
            "covariance has nowhere to go.", expected=" or ".join(f"--{name}" for name in tables)
        )
    for name, table in tables.items():
        if name in typed:
            write(table, typed[name])


def write(columns: Any, path: str) -> None:
    """Writes columns, or a data frame, to a CSV file."""
    import pandas as pd

    from tati_re.runs.csv_table import frame_text

    table = pd.DataFrame(columns)
    try:
        Path(path).write_bytes(frame_text(table))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}.") from None
    print(f"{len(table)} rows to {path}")


def write_dataset_as_tati(argv: list[str]) -> None:
    """Makes points of two classes, shuffles them, and writes them to training and test files."""
    parts = ("train", "test")
    typed = _parser("tati-dataset", **_MADE, **{f"{part}_data_files": [] for part in parts}).parse(
        argv
    )
    files = {part: typed.get(f"{part}_data_files", []) for part in parts}
    count = typed["dimension"]
    ratio = typed["train_test_ratio"]
    for name in ("noise", "train_test_ratio"):
        if instead := what_instead(typed[name], "float32"):
            raise InputError(
                f"--{name} is out of range.", typed[name], f"a finite number, {instead}"
            )
    check_free("--dimension", count, 100.0 * count, f"{count:,} points")
    refuse_if(
        not 0 <= ratio <= 1,
        "--train_test_ratio is out of range.",
        ratio,
        "a part for training, from 0 to 1",
    )
    first = round(ratio * count)
    rows = {"train": slice(None, first), "test": slice(first, None)}
    sizes = {"train": first, "test": count - first}
    for part, size in sizes.items():
        if size < len(files[part]):
            raise InputError(
                f"--{part}_data_files: fewer points than files.", size, "a larger --dimension"
            )
        what = f"--{part}_data_files is missing: --train_test_ratio {ratio:g} leaves {size} points for it."
        refuse_if(size and not files[part], what, expected="files for them, or another ratio")
    from tati_re.coming_from_tati import ClassificationDatasets, split_into_files

    features, labels = ClassificationDatasets(typed["seed"]).generate(
        count, typed["noise"], typed["data_type"]
    )
    for part in parts:
        if files[part]:
            split_into_files(features[rows[part]], labels[rows[part]], files[part])
            print(f"{sizes[part]} points to {' '.join(files[part])}")


def print_rows(dataset: "Dataset", batch_size: int | None) -> None:
    """Prints inputs and labels of all rows, batch after batch, as TATi's parser does."""
    import numpy as np

    parts = (dataset.inputs * dataset.input_scale, dataset.targets)
    rows = np.column_stack([np.reshape(part, (len(part), -1)) for part in parts])
    size = len(rows) if batch_size is None else batch_size
    refuse_if(size < 1, "--batch_size is out of range.", size, "an integer at least 1")
    for start in range(0, len(rows), size):
        print(f"batch {start // size}")
        np.savetxt(sys.stdout, rows[start : start + size], fmt="%.9g")


def _of_network(
    prog: str, argv: list[str], required: Sequence[str], *optional: str
) -> dict[str, Any]:
    flags: dict[str, Any] = {
        name: 1 if name.startswith("samples") else [] for name in (*required, *optional)
    }
    parser = _parser(
        prog, csv_file=None, **{name: value for name, value in flags.items() if name not in ALIASES}
    )
    parser.add_names_of_tati(
        ("data", "prior", "model", "restore_model", "inter_ops_threads", "intra_ops_threads")
    )
    if prog == "tati-landscape":
        parser.add_argument("mode", choices=MODES)
    typed = parser.parse(argv)
    if missing := [name for name in ("csv_file", *required) if name not in typed]:
        raise InputError(f"--{missing[0]} is missing.")
    loading(int(typed.pop("verbose", "1")))
    return typed


def _simulation(typed: dict[str, Any], left_out: Collection[str], **objects: Any) -> Any:
    from tati_re.simulation.simulation import Simulation

    flags = {
        name: value for name, value in typed.items() if name in ALIASES and name not in left_out
    }
    flags |= {"potential": "mean_loss", "verbose": "0"} | ({"num_classes": "0"} if objects else {})
    return Simulation.from_options(options_from_flags(flags), objects)


def _numbers(typed: dict[str, Any], name: str, count: int, kind: Callable = float) -> list[Any]:
    """The numbers after a flag; none is all 0, or of a count of 0 none."""
    try:
        values = [kind(text) for text in typed.get(name, [0] * count)]
    except ValueError:
        values = [float("nan")]
    if (count and len(values) != count) or not all(abs(value) < 1e30 for value in values):
        raise InputError(
            f"--{name}: other numbers.", " ".join(typed[name]), f"{count or 'one or more'} of them"
        )
    return values


def _axis(typed: dict[str, Any], kind: str, offset: float = 0.0) -> "Axis":
    """`--interval_KIND A B`, moved by an offset, in `--samples_KIND` intervals."""
    from tati_re.landscape.grid import Axis

    low, high = _numbers(typed, f"interval_{kind}", 2)
    if not low < high or typed[f"samples_{kind}"] < 1:
        what = f"--interval_{kind} and --samples_{kind} are not a grid."
        raise InputError(
            what,
            f"{low:g} to {high:g} in {typed[f'samples_{kind}']}",
            "rising numbers, an interval",
        )
    return Axis(low + offset, high + offset, typed[f"samples_{kind}"] + 1)


def sample_as_tati(argv: list[str]) -> None:
    """Writes the loss, and the accuracy of a classifier, on a grid of parameters or at the rows of
    a trajectory.
    """
    import numpy as np

    from tati_re.landscape.grid import Grid

    mode = next(text for text in argv if text in MODES)
    required = [name for name in MODES[mode] if name != "interval_offsets"]
    every = dict.fromkeys(name for names in MODES.values() for name in names)
    typed = _of_network("tati-landscape", argv, required, *every, "exclude_parameters")
    given = {text.split("=")[0].removeprefix("--") for text in argv} & {*every} - {*MODES[mode]}
    if unused := sorted(given - {"parse_parameters_file"}):
        print(f"Not used by {mode}: --{', --'.join(unused)}.")
    from tati_re.landscape import Surface
    from tati_re.runs.parameters import read_trajectory
    from tati_re.simulation.saved_model import read_directions

    walks = mode.startswith("trajectory")
    subspace = mode.endswith("subgrid")
    left_out = ["directions_file"]
    if walks:
        left_out += ["parse_parameters_file", "parse_steps"]
    sim = _simulation(typed, left_out=left_out)
    names = sim.parameter_names()
    excluded = typed.get("exclude_parameters", [])
    biases = np.array([name.split("[")[0].endswith("bias") for name in names])
    order = np.argsort(biases, kind="stable")  # TATi's: all weights, then all biases
    labels = np.array(
        [f"w{k}" for k in range(np.sum(~biases))] + [f"b{k}" for k in range(np.sum(biases))]
    )
    if unknown := sorted({*excluded} - {*labels.tolist()}):
        raise InputError(
            "--exclude_parameters: no such parameter.", unknown[0], f"{labels[0]} to {labels[-1]}"
        )
    free = ~np.isin(labels, excluded)
    directions = np.eye(len(names))[order][free]
    kinds = np.where(biases[order][free], "biases", "weights").tolist()
    if subspace:
        directions = (
            np.asarray(read_directions(typed["directions_file"], len(names)))
            * free[np.argsort(order)]
        )
        kinds = ["weights"] * len(directions)
    if walks:
        steps, points = read_trajectory(
            typed["parse_parameters_file"], names, _numbers(typed, "parse_steps", 0, int)
        )
        coordinates = points @ directions.T
    else:
        axes = map(
            _axis, [typed] * len(kinds), kinds, _numbers(typed, "interval_offsets", len(kinds))
        )
        centre = np.asarray(
            sim.parameters if sim.options.parameters else np.zeros(len(names)), np.float64
        )
        grid = Grid(
            centre, directions / np.linalg.norm(directions, axis=1, keepdims=True), list(axes)
        )
        steps = np.arange(grid.num_points)
        coordinates = grid.coordinates(0, grid.num_points)[:, 1:]
        points = grid.positions(coordinates)
    values = Surface(sim, batch_size=sim.options.batch_size).values(points)
    columns = {"step": steps} | {
        name: values[name] for name in ("loss", "accuracy") if name in values
    }
    shown = {f"c{k}": column for k, column in enumerate(coordinates.T)}
    write(
        columns | (shown if subspace else dict(zip(labels, points[:, order].T, strict=True))),
        typed["csv_file"],
    )


def sample_inputs_as_tati(argv: list[str]) -> None:
    """Writes what a network with given parameters says over a grid of inputs."""
    import numpy as np

    from tati_re.landscape.grid import Grid

    typed = _of_network("tati-inputspace", argv, ("interval_input", "samples_input"))
    inputs = int(typed.get("input_dimension", 2))
    outputs = int(typed.get("output_dimension", 1))
    refuse_if(
        {"parse_parameters_file", "restore_model"}.isdisjoint(typed),
        "--parse_parameters_file is missing.",
    )
    grid = Grid(np.zeros(inputs), np.eye(inputs), [_axis(typed, "input")] * inputs)
    points = grid.positions(grid.coordinates(0, grid.num_points)[:, 1:])
    left_out = ("batch_data_files", "batch_data_file_type", "batch_size", "loss")
    sim = _simulation(typed, left_out=left_out, data=(points, np.zeros((len(points), outputs))))
    if "batch_data_files" in typed:
        print(
            f"{' '.join(typed['batch_data_files'])}: left alone; the grid that TATi writes there is in the table."
        )
    columns = {"i": np.arange(len(points))} | {
        f"x{k + 1}": column for k, column in enumerate(points.T)
    }
    labels = ["label"] if outputs == 1 else [f"label{k + 1}" for k in range(outputs)]
    predicted = np.reshape(sim.predict(points), (len(points), -1))
    write(columns | dict(zip(labels, predicted.T, strict=True)), typed["csv_file"])


def explorer(typed: dict[str, Any]) -> dict[str, Any]:
    """What was typed, with the flags of TATi's explorer under the names of `tati-explore`; a
    trajectory is one leg.
    """
    for name, instead in NOT_OF_EXPLORER.items():
        if str(typed.get(name, 0)) not in ("0", "1" if name in LEG_OF_TATI else "0"):
            raise InputError(f"--{name} is not of the exploration here.", typed[name], instead)
    done = {
        EXPLORER.get(name, name): value
        for name, value in typed.items()
        if name not in NOT_OF_EXPLORER
    }
    if "parse_steps" in done:
        done |= ALIASES["parse_steps"].translate("--parse_steps", done.pop("parse_steps"))
    if "max_legs" in done:
        (legs,), (steps,) = (
            _numbers({n: [typed.get(n, "1000")]}, n, 1, int) for n in ("max_legs", "max_steps")
        )
        done |= {"leg_steps": str(legs * steps)}
    return done | (
        {"directions": "diffusion_map"} if done.pop("diffusion_map_method", None) else {}
    )


def write_exploration(found: Any, typed: dict[str, Any], names: list[str]) -> None:
    """Files of TATi's explorer: bottoms, where legs started, and legs, one row a position."""
    import numpy as np

    lengths = [len(leg) for leg in found.legs]
    legs = {
        "id": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([np.arange(n) for n in lengths]),
    }
    starts = {"id": np.arange(len(lengths)), "step": np.zeros(len(lengths), int)}
    bottoms = found.minima[["number", "round", "loss", "gradient_norm", "hessian_index"]]
    bottoms = dict(bottoms.set_axis(["id", "step", "loss", "gradient", "num_negative_ev"], axis=1))
    tables = (
        (bottoms, found.positions),
        (starts, [leg[0] for leg in found.legs]),
        (legs, np.concatenate(found.legs)),
    )
    for name, (columns, rows) in zip(EXPLORER_FILES, tables, strict=True):
        if name in typed:
            write(columns | dict(zip(names, np.transpose(rows), strict=True)), typed[name])


_MODULES: dict[str, Callable[[dict[str, Any]], None]] = {
    "average_energies": _average_energies,
    "average_trajectory": _average_trajectory,
    "covariance": _covariance,
}
