"""`python -m benchmarks.prediction --data FOLDER`: predictions beside rivals at equal processor time.

    python -m benchmarks.prediction --data FOLDER --output FOLDER --protocols A --splits 5
    python -m benchmarks.prediction --images --data FOLDER --output FOLDER
    python -m benchmarks.prediction --quick

FOLDER/uci holds the tables, gap_splits.json and mc_dropout_20_splits.json. Protocols: A, the 20
splits of Hernández-Lobato and Adams (2015); B, gap splits; C, the split of bde; D, tables of
scikit-learn by ten times five folds. Each method has the same seconds of processor time, user and
system, for fits, tuning, compilation and predictions; imports are made before. Only training rows
are used to choose anything.

Each case adds a line to results.csv; lines that are there are not computed again. Tables and two
figures are written at the end, or from what is there by --only-tables.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from benchmarks.prediction import cases, images, keras_rivals, other_rivals, ours
from benchmarks.prediction.budget import Budget
from benchmarks.prediction.cases import Case
from benchmarks.prediction.figures import draw_differences, draw_times
from benchmarks.prediction.outcome import Line, add, published_dropout, read, scored, tables
from benchmarks.prediction.scores import Distribution

Method = Callable[[Case, Budget], tuple[Distribution, int]]

BY_HAND = "posterior, by hand"
FOR_PREDICTION = 'goal="predict"'
METHODS: dict[str, Method] = {
    BY_HAND: ours.quietly(ours.by_hand),
    "deep ensemble": ours.quietly(ours.deep_ensemble),
    "ensemble, mean first": ours.quietly(ours.mean_first_ensemble),
    "Keras ensemble": keras_rivals.ensemble,
    "MC dropout": keras_rivals.mc_dropout,
    "last-layer Laplace": keras_rivals.laplace_last_layer,
    "Gaussian process": other_rivals.gaussian_process,
    "HistGradientBoosting": other_rivals.gradient_boosting,
}
_EXTRAS: dict[str, tuple[str, Method]] = {
    "NGBoost": ("ngboost", other_rivals.ngboost),
    "CatBoost": ("catboost", other_rivals.catboost),
}
_QUICK_TABLES, _QUICK_METHODS = ("diabetes",), ("HistGradientBoosting", "Gaussian process")


def methods() -> dict[str, Method]:
    """The methods that this environment has, ours first."""
    found: dict[str, Method] = {}
    if ours.has_goal():
        found[FOR_PREDICTION] = ours.quietly(ours.for_prediction)
    found |= METHODS
    found |= {name: each for name, (package, each) in _EXTRAS.items() if other_rivals.has(package)}
    return found


def measured(case: Case, name: str, method: Method, seconds: float) -> Line:
    """The line of a method on a case; a method that fails has a note in place of scores."""
    budget = Budget(seconds)
    where = (case.protocol, case.table, case.split, name, seconds)
    try:
        distribution, members = method(case, budget)
        scores = distribution.scores(case.test_targets)
    except Exception as error:  # the others go on
        note = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
        return Line(*where, processor_seconds=round(budget.used, 2), commit=commit(), note=note)
    used = round(budget.used, 2)
    return Line(*where, processor_seconds=used, members=members, commit=commit(), **scores)


def commit() -> str:
    """The commit of the code, short; empty outside of a repository."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def planned(
    arguments: argparse.Namespace, known: set[tuple]
) -> Iterator[tuple[str, str, int, str, float]]:
    """Keys of the lines that are still to be made."""
    for protocol in arguments.protocols:
        for name in cases.missing_tables(arguments.data, protocol):
            print(f"protocol {protocol}: no table {name}", file=sys.stderr)
        chosen = tuple(arguments.tables or cases.TABLES[protocol])
        for table, split in cases.keys(arguments.data, protocol, chosen, arguments.splits):
            for seconds in arguments.budgets:
                for method in arguments.methods:
                    key = (protocol, table, split, method, seconds)
                    if key not in known:
                        yield key


def measure(arguments: argparse.Namespace, path: Path) -> None:
    """Makes the lines that results.csv lacks."""
    every = methods()
    done = read(path)
    known = {line.key for line in done if not (arguments.retry and line.note)}
    for protocol, table, split, method, seconds in planned(arguments, known):
        case = cases.PROTOCOLS[protocol](arguments.data, table, split)
        line = measured(case, method, every[method], seconds)
        add(line, path)
        shown = line.note or f"NLL {line.nll:.3f}, {line.processor_seconds:.1f} s"
        print(f"{protocol} {table} {split} {method} {seconds:g} s: {shown}", flush=True)
        clear()


def clear() -> None:
    """Frees the networks of a case."""
    if "keras" in sys.modules:
        sys.modules["keras"].backend.clear_session()
    gc.collect()


def warm_up() -> None:
    """Imports what methods need, so that no method pays for another one's imports."""
    import keras  # noqa: F401
    import sklearn.ensemble
    import sklearn.gaussian_process  # noqa: F401

    import tati_re  # noqa: F401
    from tati_re.core.backend import tf

    tf.constant(0.0)


def parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    """The arguments, with what --quick stands for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prediction")
    parser.add_argument("--data", type=Path, default=Path(), help="folder that holds uci/*.txt")
    parser.add_argument("--output", type=Path, default=Path("prediction"), help="folder of results")
    parser.add_argument("--protocols", nargs="+", choices=cases.PROTOCOLS, default=["A"])
    parser.add_argument("--tables", nargs="+", metavar="NAME", help="default: all of a protocol")
    parser.add_argument("--first-split", type=int, default=0, help="default: 0")
    parser.add_argument("--splits", type=int, default=20, help="how many; default: 20")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--budgets", nargs="+", type=float, default=[15.0, 60.0, 300.0])
    parser.add_argument("--reference", metavar="NAME", help="subtracted from the others")
    parser.add_argument("--retry", action="store_true", help="repeat lines that failed")
    parser.add_argument("--only-tables", action="store_true", help="compute no new line")
    parser.add_argument("--quick", action="store_true", help="a minute: diabetes, two rivals")
    arguments = parser.parse_args(argv)
    if arguments.quick:
        arguments.protocols, arguments.tables = ["D"], [*_QUICK_TABLES]
        arguments.methods, arguments.budgets = [*_QUICK_METHODS], [5.0]
        arguments.splits = min(arguments.splits, 2)
        arguments.reference = arguments.reference or _QUICK_METHODS[0]
    arguments.splits = range(arguments.first_split, arguments.first_split + arguments.splits)
    every = methods()
    arguments.methods = arguments.methods or [*every]
    arguments.reference = arguments.reference or next(iter(every))
    if unknown := {*arguments.methods} - {*every}:
        parser.error(f"--methods: {min(unknown)} is not one of {', '.join(every)}")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, and writes tables and figures."""
    if "--images" in (sys.argv[1:] if argv is None else argv):
        return images.main(argv)
    arguments = parsed(argv)
    arguments.output.mkdir(parents=True, exist_ok=True)
    path = arguments.output / "results.csv"
    if not arguments.only_tables:
        if not arguments.quick:
            warm_up()
        measure(arguments, path)
    lines = read(path)
    if not scored(lines):
        print("There are no results.", file=sys.stderr)
        return 1
    here = dict.fromkeys(line.table for line in lines if line.protocol == "A")
    lines += published_dropout(arguments.data, here)
    text = tables(lines, arguments.reference)
    (arguments.output / "tables.md").write_text(f"{text}\n", encoding="utf-8")
    draw_times(lines, arguments.output / "nll_against_time.png")
    draw_differences(lines, arguments.reference, arguments.output / "differences.png")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
