"""Every benchmark that fits on a page: `python -m benchmarks.all [--quick] [--output FILE] [--only
NAME ...]`.

Each runs in a process of its own, one after the other, and its tables come in Markdown with the
machine and its load before and after: what userguide/speed.md shows. One that fails leaves its last
line in its place, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

QUICK_ROWS = [
    "784-10x1",
    "784-10x8-own",
    "784-10x8-shared",
    "784-100-10x1",
    "convx4-own",
    "lstmx1",
    "perceptron",
]
"""Of the engine: each is compiled in all ways, which takes most of the time."""

PARTS: dict[str, tuple[str, list[str], list[str]]] = {
    "engine": ("Steps beside the bare gradient and JAX", [], ["--quick", "--rows", *QUICK_ROWS]),
    "samplers": ("Samplers beside the bare gradient", [], ["--quick"]),
    "exchange": ("Replica exchange beside independent walkers", [], ["--quick"]),
    "recording": ("Keeping every draw", [], ["--quick"]),
    "swap_rules": ("Swap rules", [], ["--quick"]),
    "sizes": ("Sizes of runs", [], ["--quick"]),
    "landscape": ("Planes through a loss", [], ["--points", "11", "--examples", "5500"]),
    "analysis": ("Eigenpairs of a covariance", [], ["--quick"]),
    "digests": ("Digests", [], []),
}
"""Title, arguments, and arguments of a quick run, by module."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmarks and writes their tables."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.all", description="All benchmarks as one page."
    )
    parser.add_argument(
        "--quick", action="store_true", help="short ones, below 15 minutes on two cores"
    )
    parser.add_argument("--output", metavar="FILE", help="where the page goes; default: the screen")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=PARTS,
        metavar="NAME",
        default=list(PARTS),
        help=", ".join(PARTS),
    )
    arguments = parser.parse_args(argv)
    pages, failed = [], 0
    for name in arguments.only:
        title, long, quick = PARTS[name]
        print(f"{name} ...", file=sys.stderr, flush=True)
        began, load = time.time(), os.getloadavg()[0]
        command = [
            sys.executable,
            "-m",
            f"benchmarks.{name}",
            *(quick if arguments.quick else long),
        ]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=Path(__file__).parent.parent
        )
        text, how = done.stdout.strip(), " ".join(["python", *command[1:]])
        if done.returncode:
            failed += 1
            text += f"\n\nFailed: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else done.returncode}"
        took = f"{time.time() - began:.0f} s, load {load:.1f} before and {os.getloadavg()[0]:.1f} after"
        pages.append(f"## {title}\n\n`{how}`, {took}.\n\n{text}\n")
    machine = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}, Python {platform.python_version()}"
    page = f"# Speed\n\n{machine}.\n\n" + "\n".join(pages)
    if arguments.output:
        Path(arguments.output).write_text(page, encoding="utf-8")
    else:
        print(page)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
