"""Reference posteriors of networks: makes them, and scores draws against them.

    python -m benchmarks.references
    python -m benchmarks.references --make surface-41 --work FOLDER
    python -m benchmarks.references --score draws.npz
    python -m benchmarks.references --methods surface-41

Without an option it prints the table of the references. `--make` samples a case with two exact
samplers, and writes its reference if they agree; FOLDER keeps the runs, so that a stopped one goes
on. `--score` takes an archive with `name`, the name of a reference, and `predictions`, an array
(chains, draws, inputs) of outputs, or (chains, draws, inputs, classes) of probabilities, at the
inputs of the reference. `--methods` samples a case by this package's defaults, by MCLMC and by fits,
and scores each.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.references import score
from benchmarks.references.cases import CASES

FOLDER = Path(__file__).parent


def loaded(name: str, folder: Path = FOLDER) -> dict[str, Any]:
    """The reference of that name."""
    path = folder / f"{name}.json"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in folder.glob("*.json"))) or "none"
        raise SystemExit(f"{name}: there is no such reference. References: {known}.")
    return json.loads(path.read_text(encoding="utf-8"))


def print_table(folder: Path) -> None:
    """Prints a row for each reference."""
    print("| reference | weights | least ESS | R-hat | nested R-hat | W1 of the samplers |")
    print("|---|---|---|---|---|---|")
    for path in sorted(folder.glob("*.json")):
        reference = json.loads(path.read_text(encoding="utf-8"))
        found = reference["agreement"]
        print(
            f"| {reference['name']} | {reference['num_weights']} | {found['least_ess']:,.0f} "
            f"| {found['rhat']:.4f} | {found['nested_rhat']:.4f} | {found['distance']:.3f} |"
        )


def print_scores(path: Path, folder: Path) -> None:
    """Prints the scores of an archive."""
    with np.load(path) as archive:
        missing = {"name", "predictions"} - set(archive.files)
        if missing:
            raise SystemExit(f"{path}: the archive has no {' and no '.join(sorted(missing))}.")
        reference = loaded(str(archive["name"]), folder)
        predictions = np.asarray(archive["predictions"], float)
    quantities = len(reference["mean"])
    if predictions.ndim < 3 or np.prod(predictions.shape[2:]) != quantities:
        expected = len(reference["inputs"]), reference["num_classes"]
        raise SystemExit(
            f"predictions: wrong shape {predictions.shape}. Expected: (chains, draws, "
            f"{expected[0]}{f', {expected[1]}' if expected[1] else ''})."
        )
    draws = predictions.reshape(*predictions.shape[:2], quantities)
    print("| score | value | error | of independent exact draws |")
    print("|---|---|---|---|")
    for name, found in score.scored(draws, reference).items():
        print(f"| {name} | {found.value:.3f} | {found.error:.3f} | {found.by_chance:.3f} |")


def print_methods(name: str, folder: Path) -> None:
    """Prints the scores of each method on a case."""
    from benchmarks.references import methods  # which imports TensorFlow

    reference = loaded(name, folder)
    print("| case | method | agreement | total variation | W1 | W1 of exact draws | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for method in methods.METHODS:
        scores, seconds = methods.scores_of(CASES[name](), method, 1, reference)
        cells = [f"{found.value:.3f} ± {found.error:.3f}" for found in scores.values()]
        chance = f"{scores['W1'].by_chance:.3f}"
        print(
            "| " + " | ".join([name, method, *cells, chance, f"{seconds:.0f}"]) + " |", flush=True
        )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--make", nargs="*", choices=list(CASES), default=[])
    parser.add_argument("--num-steps", type=int, default=20_000, help="steps of each sampler")
    parser.add_argument("--work", type=Path, default=Path("references_runs"))
    parser.add_argument("--score", type=Path)
    parser.add_argument("--methods", nargs="*", choices=list(CASES), default=[])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where references are")
    chosen = parser.parse_args(arguments)
    left_out = 0
    for name in chosen.make:
        from benchmarks.references import make  # which imports TensorFlow

        chosen.work.mkdir(parents=True, exist_ok=True)
        reference, agrees = make.made(CASES[name](), chosen.num_steps, chosen.work)
        print(f"{name}: {reference['agreement']}", flush=True)
        if agrees:
            print(f"written to {make.write(reference, chosen.folder)}", flush=True)
        else:
            left_out += 1
            print(f"{name}: the samplers do not agree; nothing is written.", flush=True)
    for name in chosen.methods:
        print_methods(name, chosen.folder)
    if chosen.score:
        print_scores(chosen.score, chosen.folder)
    elif not chosen.make and not chosen.methods:
        print_table(chosen.folder)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
