"""`tati-compare`: compare the averages of two runs, or two tables column by column."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tati_re.cli.arguments import Parser, entry_point, loading
from tati_re.core.errors import InputError, nearest, refuse_if

KINDS = ("absolute", "relative")
_MOST_LINES = 20
UNKNOWN_STATUS = 3
"""Exit status of two runs that are too short to tell whether they agree."""


def parser_of_command() -> Parser:
    description = (
        "Compare the averages of two run folders within their errors: U, predictions and "
        "parameters. Two CSV or HDF5 files are compared column by column within a "
        "tolerance. So are the tables of two run folders with --tolerance, "
        "--column-tolerance, --drop or --ignore-sign. Exit status: 0 if they agree, 1 if "
        "they differ, 2 for bad input, 3 if the runs are too short to decide. With "
        "--verify: 0 if all files are intact (and two folders hold the same numbers), "
        "else 1."
    )
    usage = (
        "tati-compare A B [options] | tati-compare --elpd A B | tati-compare --verify RUN [RUN ...]"
    )
    parser = Parser(
        "tati-compare", usage, description, quiet="print nothing; report by the exit status only"
    )
    parser.add_argument("paths", nargs="*", metavar="A B", help="two run folders, or two files")
    text = (
        "largest difference of two numbers, absolute (the default kind) or relative to the "
        "larger; default 1e-8 absolute"
    )
    parser.add_argument(
        "--tolerance", "--general_threshold", nargs="+", metavar=("X", "KIND"), help=text
    )
    text = "the same for single columns: name, number and kind for each"
    parser.add_argument(
        "--column-tolerance",
        "--column_threshold",
        dest="column_tolerance",
        nargs="+",
        metavar="NAME X KIND",
        help=text,
    )
    text = "columns to leave out; a name that ends in * stands for all columns that begin with it"
    parser.add_argument(
        "--drop", "--column_drop", dest="drop", nargs="+", metavar="NAME", help=text
    )
    text = "columns whose sign does not matter, given in the same form"
    parser.add_argument(
        "--ignore-sign",
        "--column_ignore_sign",
        dest="ignore_sign",
        nargs="+",
        metavar="NAME",
        help=text,
    )
    text = (
        "smallest difference of two means, in posterior standard deviations, that two runs must resolve to agree; "
        "default 0.5"
    )
    parser.add_argument("--resolution", metavar="X", help=text)
    text = (
        "instead check the files of one or more run folders, one line per file: whether "
        "each is as the run wrote it; for two folders also whether their tables hold the "
        "same numbers, except timing.csv"
    )
    parser.add_argument("--verify", action="store_true", help=text)
    text = (
        "compare how well the runs predict unseen examples: elpd by PSIS-LOO, and the "
        "difference with its error"
    )
    parser.add_argument("--elpd", action="store_true", help=text)
    parser.add_argument("-v", dest="v", action="count", help=argparse.SUPPRESS)
    return parser


def _tolerance(name: str, words: Sequence[str]) -> Any:
    from tati_re.runs.compare import Tolerance

    refuse_if(
        len(words) > 2,
        f"{name} takes a number and a kind.",
        " ".join(words),
        "such as 1e-8 relative",
    )
    try:
        value = float(words[0])
    except ValueError:
        value = -1.0
    expected = "a number at least 0, such as 1e-8"
    refuse_if(not value >= 0, f"{name} is out of range.", words[0], expected)
    kind = words[1] if len(words) == 2 else "absolute"
    refuse_if(
        kind not in KINDS,
        f"{name} has an unknown kind.{nearest(kind, KINDS)}",
        kind,
        "absolute or relative",
    )
    return Tolerance(value, kind)


def _verify(folders: list[str], quiet: bool) -> int:
    loading(not quiet, f"Reading {', '.join(folders)}")
    from tati_re.runs.verify import verify

    checked_files = [(folder, file) for folder in folders for file in verify(folder)]
    bad = [file for _, file in checked_files if not file.whole]
    if not quiet:
        for folder, file in checked_files:
            where = f"{folder}: " if len(folders) > 1 else ""
            print(f"{where}{'ok ' if file.whole else 'BAD'} {file.name}: {file.sentence}")
        print(
            f"{len(bad)} of {len(checked_files)} files differ from what the run wrote."
            if bad
            else "All files are intact."
        )
    if bad or len(folders) != 2:
        return int(bool(bad))
    from tati_re.runs.compare import Tolerance, compare

    first, second = folders
    unlike = compare(first, second, tolerance=Tolerance(0.0))
    _print_differences(unlike, quiet)
    return int(bool(unlike))


def _print_differences(differences: Sequence[Any], quiet: bool) -> None:
    if quiet:
        return
    for difference in differences[:_MOST_LINES]:
        print(": ".join(part for part in difference if part))
    if len(differences) > _MOST_LINES:
        print(f"... and {len(differences) - _MOST_LINES} more")
    print("They differ." if differences else "They agree.")


def _averages(paths: Sequence[str], typed: dict[str, Any]) -> int:
    """Compares the averages of two run folders; the exit status."""
    from tati_re.launch.run import load
    from tati_re.prediction.run_comparison import AGREE, DIFFER, RESOLUTION, compare_runs

    first, second = (load(path) for path in paths)
    resolution = _positive("--resolution", typed.get("resolution", RESOLUTION))
    comparison = compare_runs(first, second, resolution)
    if not typed.get("quiet"):
        print(comparison)
    return {AGREE: 0, DIFFER: 1}.get(comparison.verdict, UNKNOWN_STATUS)


def _positive(name: str, text: Any) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    good = value > 0 and math.isfinite(value)
    refuse_if(not good, f"{name} is not a number above 0.", text, "such as 0.5")
    return value


def _elpd(paths: list[str], quiet: bool) -> int:
    """Prints elpd of both runs and their difference; what is not kept in their folders is
    computed.
    """
    import numpy as np

    from tati_re.launch.run import load
    from tati_re.prediction.leave_one_out import leave_one_out, stored_leave_one_out
    from tati_re.prediction.network import dataset_of

    runs = [load(path) for path in paths]
    prints = [(run.manifest.dataset.fingerprint, run.manifest.dataset.num_examples) for run in runs]
    # The same labels may be predicted from other columns, or from standardized ones.
    same = prints[0] == prints[1]
    if not same and not np.array_equal(dataset_of(runs[0]).targets, dataset_of(runs[1]).targets):
        raise InputError(
            "--elpd compares predictions on the same data only.",
            "runs on different data",
            "the same data",
        )
    first, second = (stored_leave_one_out(run) or leave_one_out(run) for run in runs)
    difference, error = first.difference(second)
    if not quiet:
        for path, estimate in zip(paths, (first, second), strict=True):
            print(f"{path}: {estimate}")
        print(f"{paths[1]} minus {paths[0]}: elpd {difference:.1f} +- {error:.1f}")
    return 0


def _body(argv: list[str]) -> int:
    """Returns the exit status: 0 if both agree, 1 if not, 3 if that cannot be told."""
    typed = parser_of_command().parse(argv)
    typed.pop("verbose", None)  # TATi's -v: what differs is printed anyway
    paths = typed.get("paths", [])
    if typed.get("verify"):
        beside = not paths or typed.keys() - {"paths", "verify", "quiet"}
        refuse_if(
            beside,
            "--verify takes run folders and no other options.",
            " ".join(argv),
            "tati-compare --verify RUN [RUN ...]",
        )
        return _verify(paths, typed.get("quiet", False))
    refuse_if(
        len(paths) != 2,
        "tati-compare needs two runs or two tables.",
        " ".join(paths) or "none",
        "tati-compare A B",
    )
    loading(not typed.get("quiet"), f"Reading {' and '.join(paths)}")
    if typed.get("elpd"):
        if typed.keys() - {"paths", "elpd", "quiet"}:
            raise InputError(
                "--elpd takes two run folders and no other options.",
                " ".join(argv),
                "tati-compare --elpd A B",
            )
        return _elpd(paths, typed.get("quiet", False))
    of_tables = typed.keys() & {"tolerance", "column_tolerance", "drop", "ignore_sign"}
    folders = all(Path(path).is_dir() for path in paths)
    if folders and not of_tables:
        return _averages(paths, typed)
    if "resolution" in typed:
        raise InputError(
            "--resolution applies only to the averages of two run folders.",
            " ".join(argv),
            "tati-compare --resolution X A B",
        )
    words = typed.get("column_tolerance", [])
    if len(words) % 3:
        raise InputError(
            "--column-tolerance takes three words for each column.",
            " ".join(words),
            "NAME X KIND ...",
        )
    from tati_re.runs.compare import compare

    columns = {
        words[k]: _tolerance("--column-tolerance", words[k + 1 : k + 3])
        for k in range(0, len(words), 3)
    }
    tolerance = _tolerance("--tolerance", typed.get("tolerance", ["1e-8"]))
    differences = compare(
        paths[0], paths[1], tolerance, columns, typed.get("drop", ()), typed.get("ignore_sign", ())
    )
    _print_differences(differences, typed.get("quiet", False))
    return int(bool(differences))


main = entry_point("tati-compare", _body, __name__)
