"""`python -m benchmarks.faults`: all cases in turn, a line of JSON each, and one table.

python -m benchmarks.faults --output faults.jsonl        # 320 cases; goes on behind those that are there
python -m benchmarks.faults --case kill:123              # one of them again
python -m benchmarks.faults --kinds kill writers --count 10
python -m benchmarks.faults --table faults.jsonl
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from benchmarks.faults.campaign import ANEW, HARMLESS, LOST, REFUSED, WHOLE, Campaign, Result
from benchmarks.faults.cases import KINDS, run_case
from benchmarks.faults.children import load_all, preload

HEADS = {
    "tried": None,
    "as if undisturbed": (WHOLE,),
    "begun anew": (ANEW,),
    "refused": (REFUSED,),
    "harmless": (HARMLESS,),
    "lost": (LOST,),
}


def read(path: Path) -> list[Result]:
    """The results in a file, the last one of each case."""
    found = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        result = Result(**json.loads(line))
        found[result.case] = result
    return list(found.values())


def table(results: Iterable[Result], by: str) -> str:
    """Counts of ends in Markdown, a row for each kind of case, or for each family of the kills."""
    counts: dict[str, Counter[str]] = {}
    for result in results:
        if by == "kind":
            counts.setdefault(_kind(result), Counter())[result.end] += 1
        elif result.case.startswith("kill:"):
            counts.setdefault(result.family, Counter())[result.end] += 1
    lines = [f"| {by} | {' | '.join(HEADS)} |", "|---" * (len(HEADS) + 1) + "|"]
    for name, found in sorted(counts.items()):
        cells = [
            found.total() if ends is None else sum(found[end] for end in ends)
            for ends in HEADS.values()
        ]
        lines.append(f"| {name} | {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def _kind(result: Result) -> str:
    kind, number = result.case.split(":")
    if kind != "kill":
        return {
            "damage": "a damaged file",
            "full": "a full disk",
            "removed": "folder removed",
            "readonly": "folder read-only",
            "writers": "two writers",
        }[kind]
    return ("killed inside a change" if int(number) % 2 else "killed at an instant") + ", twice" * (
        ", again " in result.done
    )


def mixed(counts: dict[str, int]) -> list[str]:
    """So many cases of each kind, mixed, so that a part of the campaign has its part of each."""
    places = {
        f"{kind}:{k}": (k + 0.5) / count for kind, count in counts.items() for k in range(count)
    }
    return sorted(places, key=places.__getitem__)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.faults", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--case",
        nargs="+",
        help="single cases, KIND:NUMBER; their folders are kept where they fail",
    )
    parser.add_argument(
        "--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="default: all"
    )
    parser.add_argument(
        "--count",
        type=int,
        help="cases of each kind; default: 200 kills, 60 damages, 20, 10, 10, 20",
    )
    parser.add_argument(
        "--output", type=Path, help="file of results, to which those that are missing are added"
    )
    parser.add_argument("--table", type=Path, help="print the table of a file of results, and end")
    given = parser.parse_args()
    if given.table is not None:
        results = read(given.table)
        print(table(results, "kind"), table(results, "family"), sep="\n\n")
        return 0
    cases = given.case or mixed({kind: given.count or KINDS[kind][1] for kind in given.kinds})
    folder = preload()
    load_all()
    campaign, results = Campaign(folder), [] if given.output is None else read(given.output)
    known = {result.case for result in results}
    for case in cases:
        if case in known:
            continue
        result = run_case(campaign, case)
        results.append(result)
        if given.output is not None:
            with given.output.open("a", encoding="utf-8") as file:
                file.write(json.dumps(result._asdict()) + "\n")
        print(
            f"{case:12} {result.end:9} {result.family}; {result.done}; {result.said}"[:400],
            flush=True,
        )
    print(table(results, "kind"))
    lost = [result.case for result in results if result.end == LOST]
    print(f"lost: {', '.join(lost) or 'none'}; folders: {folder}")
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
