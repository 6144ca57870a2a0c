"""The command lines of TATi's data set writer and parser, samplers and explorer, besides our own."""

import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.cli.arguments import Parser, loading
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.process.memory import check_free
from tati_re.options.make import options_from_flags
from tati_re.options.representable import representable_range
from tati_re.options.tati_names import (
    ALIASES,
    EXPLORER,
    EXPLORER_FILES,
    LEG_OF_TATI,
    MARK,
    NOT_OF_EXPLORER,
)

if TYPE_CHECKING:
    import numpy as np

    from tati_re.data import Dataset
    from tati_re.landscape.grid import Axis

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

SCANNER = ("csv_file", "interval_input", *dict.fromkeys(name for m in MODES.values() for name in m))
"""Flags of TATi's samplers of losses and inputs, by which a command line is theirs."""

_MADE = {"data_type": 3, "dimension": 10, "noise": 0.0, "train_test_ratio": 0.5}


def is_flag(text: str, names: Collection[str]) -> bool:
    """Whether a word of a command line is one of these flags of TATi, or a beginning of one.

    Args:
        text: The word.
        names: The flags, without dashes. A beginning has an underscore, as no flag here has.
    """
    name = text.split("=")[0].removeprefix("--")
    begins = "_" in name and any(known.startswith(name) for known in names)
    return text.startswith("--") and (name in names or begins)


def writes(argv: list[str]) -> bool:
    return any(is_flag(text, WRITER) for text in argv)


def scans(argv: list[str]) -> bool:
    words = [
        text for text, before in zip(argv, ["", *argv], strict=False) if before != "--directions"
    ]
    return any(text in MODES or is_flag(text, SCANNER) for text in words)


def parser_of_flags(prog: str, **flags: Any) -> Parser:
    """A parser of flags in TATi's spelling.

    Args:
        prog: The name of the command.
        **flags: Kind of value by flag. None: a text. A list: several texts. A number: a number of
            the same type, which is the default.
    """
    parser = Parser(prog=prog, quiet=None)
    parser.has_only_flags_of_tati = True
    for name, value in flags.items():
        if value is None:
            parser.add_argument(f"--{name}", dest=name, type=str)
        elif isinstance(value, list):
            parser.add_argument(f"--{name}", dest=name, type=str, nargs="+")
        else:
            parser.add_argument(f"--{name}", dest=name, type=type(value), default=value)
    parser.add_argument("-v", "--verbose", dest="v", action="count")
    return parser


def write(columns: Any, path: str) -> None:
    """Writes columns to a CSV file, and prints the number of rows.

    Args:
        columns: A data frame, or columns by name.
        path: The file.

    Raises:
        InputError: The file cannot be written.
    """
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
    of_parts: dict[str, Any] = {f"{part}_data_files": [] for part in parts}
    parser = parser_of_flags("tati-dataset", **_MADE, **of_parts)
    parser.add_argument("--seed", dest="seed", type=int)
    typed = parser.parse(argv)
    files = {part: typed.get(f"{part}_data_files", []) for part in parts}
    count = typed["dimension"]
    ratio = typed["train_test_ratio"]
    for name in ("noise", "train_test_ratio"):
        if instead := representable_range(typed[name], "float32"):
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
    targets = [os.path.realpath(file) for part in parts for file in files[part]]
    doubled = [file for file, times in Counter(targets).items() if times > 1]
    refuse_if(doubled, "A file is named twice.", ", ".join(doubled), "another file for each part")
    first = round(ratio * count)
    rows = {"train": slice(None, first), "test": slice(first, None)}
    sizes = {"train": first, "test": count - first}
    for part, size in sizes.items():
        if size < len(files[part]):
            raise InputError(
                f"--{part}_data_files: fewer points than files.", size, "a larger --dimension"
            )
        problem = f"--{part}_data_files is missing: --train_test_ratio {ratio:g} leaves {size} points for it."
        refuse_if(size and not files[part], problem, expected="files for them, or another ratio")
    from tati_re.coming_from_tati import ClassificationDatasets, split_into_files

    seed = typed.get("seed")
    if seed is None:
        seed = secrets.randbelow(2**31)
        print(f"--seed {seed} makes these points again.")
    features, labels = ClassificationDatasets(seed).generate(
        count, typed["noise"], typed["data_type"]
    )
    for part in parts:
        if files[part]:
            split_into_files(features[rows[part]], labels[rows[part]], files[part])
            print(f"{sizes[part]} points to {' '.join(files[part])}")


def print_rows(dataset: "Dataset", batch_size: int | None) -> None:
    """Prints inputs and labels of all rows, batch after batch, as TATi's parser does.

    Args:
        dataset: The data set; its training set is printed.
        batch_size: Rows of a batch. None: one batch of all rows.

    Raises:
        InputError: `batch_size` is below 1.
    """
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
    parser = parser_of_flags(
        prog, csv_file=None, **{name: value for name, value in flags.items() if name not in ALIASES}
    )
    parser.add_names_of_tati(
        ("data", "prior", "model", "restore_model", "inter_ops_threads", "intra_ops_threads")
    )
    if prog == "tati-landscape":
        parser.add_argument("mode", choices=MODES)
        place = next(k for k, text in enumerate(argv) if text in MODES)
        argv = [argv[place], *argv[:place], *argv[place + 1 :]]  # else a value of a flag before it
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
    flags |= {"potential": "mean_loss", "verbose": "0"} | dict.fromkeys(MARK, "1")
    flags |= {"num_classes": "0"} if objects else {}
    return Simulation.from_options(options_from_flags(flags), objects)


def _numbers(typed: dict[str, Any], name: str, count: int, kind: Callable = float) -> list[Any]:
    """The numbers after a flag; none is all 0, or of a count of 0 none."""
    try:
        values = [kind(text) for text in typed.get(name, [0] * count)]
    except ValueError:
        values = [float("nan")]
    if (count and len(values) != count) or not all(abs(value) < 1e30 for value in values):
        noun = "integer" if kind is int else "number"
        expected = f"{count or 'one or more'} {noun}{'s' if count != 1 else ''}"
        raise InputError(f"--{name} has the wrong form.", " ".join(typed[name]), expected)
    return values


def _dimension(typed: dict[str, Any], kind: str, default: int) -> int:
    """`--KIND_dimension`, the number of inputs or outputs."""
    name = f"{kind}_dimension"
    text = typed.get(name, str(default))
    ALIASES[name].translate(f"--{name}", text)
    return int(text)


def _axis(typed: dict[str, Any], kind: str, offset: float = 0.0) -> "Axis":
    """`--interval_KIND A B`, moved by an offset, in `--samples_KIND` intervals."""
    from tati_re.landscape.grid import Axis

    low, high = _numbers(typed, f"interval_{kind}", 2)
    if not low < high or typed[f"samples_{kind}"] < 1:
        problem = f"--interval_{kind} and --samples_{kind} are not a grid."
        raise InputError(
            problem,
            f"{low:g} to {high:g} in {typed[f'samples_{kind}']}",
            "rising numbers, an interval",
        )
    return Axis(low + offset, high + offset, typed[f"samples_{kind}"] + 1)


def _grid_points(
    centre: "np.ndarray", directions: "np.ndarray", axes: Sequence["Axis"]
) -> tuple["np.ndarray", "np.ndarray"]:
    """Points of a grid and their coordinates in TATi's order: the first axis is the fastest."""
    from tati_re.landscape.grid import Grid

    grid = Grid(centre, directions[::-1], [*axes][::-1])
    reversed_coordinates = grid.coordinates(0, grid.num_points)[:, 1:]
    return grid.positions(reversed_coordinates), reversed_coordinates[:, ::-1]


def sample_as_tati(argv: list[str]) -> None:
    """Writes the loss, and the accuracy of a classifier, on a grid of parameters or at the rows of
    a trajectory.
    """
    import numpy as np

    mode = next((text for text in argv if text in MODES), "")
    problem = f"No mode is named.{nearest(argv[0], MODES)}"
    refuse_if(not mode, problem, argv[0], ", ".join(MODES))
    required = [name for name in MODES[mode] if name != "interval_offsets"]
    every = dict.fromkeys(name for names in MODES.values() for name in names)
    typed = _of_network("tati-landscape", argv, required, *every, "exclude_parameters")
    named_flags = {text.split("=")[0].removeprefix("--") for text in argv} & {*every} - {
        *MODES[mode]
    }
    if unused := sorted(named_flags - {"parse_parameters_file"}):
        print(f"Not used by {mode}: --{', --'.join(unused)}.")
    from tati_re.landscape import Surface
    from tati_re.runs.parameters import read_trajectory
    from tati_re.system.saved_model import read_directions

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
        rows = read_directions(typed["directions_file"], len(names), lambda: names)
        directions = np.asarray(rows) * free[np.argsort(order)]
        kinds = ["weights"] * len(directions)
    if walks:
        steps, points = read_trajectory(
            typed["parse_parameters_file"], names, _numbers(typed, "parse_steps", 0, int)
        )
        coordinates = points @ directions.T
    else:
        offsets = _numbers(typed, "interval_offsets", len(kinds))
        axes = [_axis(typed, kind, offset) for kind, offset in zip(kinds, offsets, strict=True)]
        centre = np.asarray(
            sim.parameters if sim.options.parameters else np.zeros(len(names)), np.float64
        )
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        points, coordinates = _grid_points(centre, unit, axes)
        steps = np.arange(len(points))
    values = Surface(sim, batch_size=sim.options.batch_size).values(points)
    columns = {"step": steps} | {
        name: values[name] for name in ("loss", "accuracy") if name in values
    }
    coordinate_columns = {f"c{k}": column for k, column in enumerate(coordinates.T)}
    write(
        columns
        | (coordinate_columns if subspace else dict(zip(labels, points[:, order].T, strict=True))),
        typed["csv_file"],
    )


def sample_inputs_as_tati(argv: list[str]) -> None:
    """Writes what a network with given parameters says over a grid of inputs."""
    import numpy as np

    typed = _of_network("tati-inputspace", argv, ("interval_input", "samples_input"))
    inputs, outputs = _dimension(typed, "input", 2), _dimension(typed, "output", 1)
    refuse_if(
        {"parse_parameters_file", "restore_model"}.isdisjoint(typed),
        "--parse_parameters_file is missing.",
    )
    axes = [_axis(typed, "input")] * inputs
    points, _ = _grid_points(np.zeros(inputs), np.eye(inputs), axes)
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
            raise InputError(f"--{name} does not apply to tati-explore.", typed[name], instead)
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


def write_exploration(exploration: Any, typed: dict[str, Any], names: list[str]) -> None:
    """Writes the files of TATi's explorer, one row a position.

    They are the bottoms, the starting points of legs, and the legs.

    Args:
        exploration: The result of the exploration.
        typed: What was typed, by option. Only the files that it names in `EXPLORER_FILES` are
            written.
        names: Names of the parameters, which head the columns.
    """
    import numpy as np

    lengths = [len(leg) for leg in exploration.legs]
    legs = {
        "id": np.repeat(np.arange(len(lengths)), lengths),
        "step": np.concatenate([np.arange(n) for n in lengths]),
    }
    starts = {"id": np.arange(len(lengths)), "step": np.zeros(len(lengths), int)}
    bottoms = exploration.minima[["number", "round", "loss", "gradient_norm", "hessian_index"]]
    bottoms = dict(bottoms.set_axis(["id", "step", "loss", "gradient", "num_negative_ev"], axis=1))
    tables = (
        (bottoms, exploration.positions),
        (starts, [leg[0] for leg in exploration.legs]),
        (legs, np.concatenate(exploration.legs)),
    )
    for name, (columns, rows) in zip(EXPLORER_FILES, tables, strict=True):
        if name in typed:
            write(columns | dict(zip(names, np.transpose(rows), strict=True)), typed[name])
