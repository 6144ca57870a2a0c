"""`python -m benchmarks.efficiency`: all targets, ours and the peers in turn, a table and
results.csv.

python -m benchmarks.efficiency --data FOLDER --peer-python /path/to/python --output FOLDER
python -m benchmarks.efficiency --quick                      # a minute: one small target, a short budget
python -m benchmarks.efficiency --targets yacht energy --methods "ours, MCLMC" "BlackJAX MCLMC" --rounds 3

Nothing is tuned by hand: every sampler has the settings that its own guide gives, and the same
number of gradients. The peers need JAX (`pip install 'tati_re[bench]'`), here or in the environment
of --peer-python. In every round each target is sampled by one method after the other, so that what
else the machine does meets all of them alike. What results.csv has already is not run again.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.efficiency import ours, peers
from benchmarks.efficiency.measures import Result, judged
from benchmarks.efficiency.targets import all_targets

CHAINS = 4
HEADS = {
    "to_mean": "gradients to b² < .01 of x",
    "to_square": "of x²",
    "seconds_to_square": "seconds to that of x²",
    "ess_1000": "effective draws per 1,000 gradients",
    "ess_u_1000": "of U",
    "ess_second": "per second",
    "tuning_gradients": "gradients to tune",
    "tuning_seconds": "s to tune",
    "compile_seconds": "s to compile",
    "eevpd": "EEVPD",
}


def read(path: Path) -> list[Result]:
    """The lines of results.csv, if there is one."""
    if not path.is_file():
        return []
    kinds = {"target": str, "method": str, "note": str, "round": int}
    with path.open(encoding="utf-8") as file:
        return [
            Result(**{name: kinds.get(name, float)(text) for name, text in row.items()})
            for row in csv.DictReader(file)
        ]


def write(results: Iterable[Result], path: Path) -> None:
    """Writes results.csv."""
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([Result._fields, *results])


def table(results: Sequence[Result]) -> str:
    """In Markdown, a row for each target and method, medians over the rounds."""
    lines = [f"| target | method | {' | '.join(HEADS.values())} |", "|---" * (len(HEADS) + 2) + "|"]
    for target, method in dict.fromkeys((result.target, result.method) for result in results):
        rows = [
            result._asdict()
            for result in results
            if (result.target, result.method) == (target, method)
        ]
        cells = [cell(float(np.median([row[name] for row in rows]))) for name in HEADS]
        lines.append(f"| {target} | {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(value: float) -> str:
    """Three digits; a dash where nothing is measured, and words where an error was not reached."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "not reached"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def main(arguments: list[str] | None = None) -> int:
    """Runs what is missing in results.csv and prints the table."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.efficiency", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--targets", nargs="+", help="default: all that can be made")
    parser.add_argument(
        "--methods", nargs="+", default=[*ours.METHODS, *peers.PEERS], help="default: all"
    )
    parser.add_argument(
        "--data", type=Path, help="folder with uci/yacht.txt, uci/energy.txt, german.data-numeric"
    )
    parser.add_argument(
        "--peer-python", default=sys.executable, help="interpreter that has JAX; default: this one"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="each with its own seed; the table has medians"
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="of each target's budget of gradients; default: 1"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small target and a twentieth of the gradients"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("efficiency"), help="folder of results.csv"
    )
    given = parser.parse_args(arguments)
    known, missing = all_targets(given.data)
    missing |= {
        name: "no such target"
        for name in given.targets or ()
        if name not in known and name not in missing
    }
    names = [
        name
        for name in given.targets or (["gaussian-1"] if given.quick else known)
        if name in known
    ]
    missing |= {
        name: reason for name in peers.PEERS if (reason := peers.missing(given.peer_python, name))
    }
    for name in (
        *(given.targets or () if given.targets or given.quick else missing),
        *given.methods,
    ):
        if name in missing:
            print(f"{name} is left out: {missing[name]}.", flush=True)
    path, results = given.output / "results.csv", read(given.output / "results.csv")
    given.output.mkdir(parents=True, exist_ok=True)
    share = 0.05 * given.share if given.quick else given.share
    runs = [
        (number, name, method)
        for number in range(given.rounds)
        for name in names
        for method in given.methods
    ]
    for number, name, method in runs:
        if method in missing or any(result[:3] == (name, method, number) for result in results):
            continue
        target = known[name]()
        budget, options = (
            max(2_000, int(share * target.gradients)),
            {"chains": CHAINS, "seed": 100 * number},
        )
        if method in ours.METHODS:
            draws = ours.draws_of(target, method, gradients=budget, **options)
        else:
            options |= {"data": given.data} if given.data else {}
            draws = peers.in_process(given.peer_python, name, method, budget, options)
        results.append(judged(target, method, number, draws))
        write(results, path)
        print(table(results[-1:]).splitlines()[-1], flush=True)
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
