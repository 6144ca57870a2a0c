"""`tati-dataset`: make a data set from a seed or read a file; describe, write and draw it."""

import argparse
import inspect
from pathlib import Path
from typing import Any

from tati_re.cli.arguments import Parser, entry_point, flags_named, number_typed
from tati_re.cli.failures import PRINTS_RESULT
from tati_re.cli.tati_tools import is_flag, print_rows, write_dataset_as_tati, writes
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.process.memory import check_free
from tati_re.data import Dataset, dataset_from_options
from tati_re.data.describing import describe_dataset
from tati_re.data.generators import FIXED, GENERATORS
from tati_re.data.writing import files_of, write_dataset
from tati_re.options.flags import flag
from tati_re.options.make import options_from_flags

READING = ["test_data", "test_fraction", "label_columns", "input_columns", "data_keys"]
READING += ["encoding", "num_classes", "shuffle", "seed"]
"""Options that say how files are read; two of them also belong to sets that are made."""

NUMBERS = {
    "num_examples": (
        int,
        "number of points of both classes together, without test points (default 500)",
    ),
    "noise": (
        float,
        "displacement of the points, 0 to 1; two_clusters: the standard deviation is 0.5 "
        "+ 7 noise (default 0)",
    ),
    "std": (float, "two_clusters: standard deviation around each center (default 1)"),
    "a": (float, "harmonic: square of the input (default 1)"),
    "num_dimensions": (int, "gaussian: number of dimensions and examples (default 10)"),
    "condition": (float, "gaussian: largest eigenvalue; the smallest is 1 (default 100)"),
}


def parser_of_command() -> Parser:
    description = "Make a data set, or inspect one in files; print a description."
    parser = Parser("tati-dataset", "tati-dataset NAME or FILE [options]", description, quiet=None)
    parser.add_argument("name", nargs="?", metavar="NAME", help=", ".join(GENERATORS))
    text = "files to read instead, or mnist, cifar10, ..."
    parser.add_argument(
        "--inspect",
        "--data",
        "--batch_data_files",
        dest="inspect",
        nargs="+",
        metavar="FILE",
        help=text,
    )
    parser.add_argument("--batch_size", dest="batch_size", type=int, help=argparse.SUPPRESS)
    parser.add_argument("-v", dest="v", action="count", help=argparse.SUPPRESS)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="write the data as .csv or .npz; the test set of a .csv goes to a second file",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace existing files")
    parser.add_argument("--plot", metavar="FILE", help="draw the points of a plane, .png")
    making = parser.add_argument_group("seed of the data set")
    for name, (kind, text) in NUMBERS.items():
        making.add_argument(flag(name), dest=name, metavar="N" if kind is int else "X", help=text)
    making.add_argument(
        "--covariance", metavar="FILE", help="gaussian: covariance matrix, a .npy or .csv file"
    )
    parser.add_options(
        "reading; --test-fraction (default 0 here) and --seed also apply to generated sets", READING
    )
    return parser


def _matrix(text: str) -> Any:

    from tati_re.core.files.regular import check_regular
    from tati_re.core.files.text_lines import read_numbers
    from tati_re.core.files.unpacking import load_arrays

    path = Path(text)
    check_regular(path, "--covariance")
    try:
        return load_arrays(path) if path.suffix == ".npy" else read_numbers(path)
    except InputError as error:
        raise InputError(f"--covariance: {error}") from None
    except OSError as error:
        raise InputError(
            f"--covariance: {path} cannot be read.", error.strerror or "no such file"
        ) from None
    except ValueError:
        raise InputError(
            f"--covariance: {path} is not a matrix.", expected="a .npy or .csv file of numbers"
        ) from None


def _made(typed: dict[str, Any]) -> Dataset:
    name = typed["name"]
    problem = f"{name}: unknown data set.{nearest(name, GENERATORS)}"
    refuse_if(name not in GENERATORS, problem, expected=", ".join(GENERATORS))
    generate = GENERATORS[name]
    known = inspect.signature(generate).parameters
    settings = {n: typed[n] for n in (*NUMBERS, "covariance", *READING) if n in typed}
    for other in settings:
        expected = ", ".join(map(flag, known)) if known else "no flags"
        refuse_if(other not in known, f"{flag(other)} does not apply to {name}.", expected=expected)
    options = options_from_flags({n: value for n, value in settings.items() if n in READING})
    values = {n: number_typed(n, settings[n], NUMBERS[n][0]) for n in NUMBERS if n in settings}
    # Draws, points, their labels and the sets that are split from them; gaussian: three matrices.
    count = values.get("num_examples", 0)
    check_free("--num-examples", count, 100.0 * count, f"{count:,} points")
    count = values.get("num_dimensions", 0)
    check_free("--num-dimensions", count, 24.0 * count**2, f"matrices of {count:,} rows")
    if "covariance" in settings:
        values["covariance"] = _matrix(settings["covariance"])
    if "seed" in known:
        values["seed"] = options.seed
    if name not in FIXED:
        values["test_fraction"] = options.test_fraction or 0.0
    with flags_named(values):
        return generate(**values)


def _read(typed: dict[str, Any]) -> Dataset:
    for name in (*NUMBERS, "covariance"):
        refuse_if(
            name in typed,
            f"{flag(name)} applies only to generated data sets.",
            expected=", ".join(map(flag, READING)),
        )
    flags = {name: typed[name] for name in READING if name in typed}
    files = typed["inspect"]
    flags = {"test_fraction": "0", **flags, "data": files[0] if len(files) == 1 else files}
    return dataset_from_options(options_from_flags(flags))


def _body(argv: list[str]) -> None:
    if writes(argv):
        PRINTS_RESULT.set(False)
        return write_dataset_as_tati(argv)
    typed = parser_of_command().parse(argv)
    if Path(typed.get("name") or "").suffix and typed.get("inspect") is None:
        typed["inspect"] = [typed.pop("name")]
    if (typed.get("name") is None) == (typed.get("inspect") is None):
        both = f"{typed['name']} and --inspect" if typed.get("name") else "neither"
        problem = "tati-dataset either makes a data set or inspects files."
        raise InputError(problem, both, f"one of {', '.join(GENERATORS)}; or --inspect")
    dataset = _made(typed) if typed.get("name") else _read(typed)
    output = Path(typed["output"]) if "output" in typed else None
    existing = [path for path in files_of(dataset, output) if path.exists()] if output else []
    if existing and not typed.get("overwrite"):
        raise InputError("--output already exists.", existing[0], "a new file, or --overwrite")
    PRINTS_RESULT.set(output is None and not typed.get("plot"))
    print(describe_dataset(dataset))
    if any(is_flag(text, ["batch_data_files"]) for text in argv):
        print_rows(dataset, typed.get("batch_size"))
    if typed.get("plot"):
        from tati_re.plotting.inputs import plot_points

        plot_points(dataset.prepared(), typed["plot"])
        print(f"drawn: {typed['plot']}")
    if output:
        print(f"written: {' '.join(map(str, write_dataset(dataset.prepared(), output)))}")


main = entry_point("tati-dataset", _body, __name__)
