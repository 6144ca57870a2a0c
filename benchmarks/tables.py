"""A table of one's own, nothing chosen: `python -m benchmarks.tables [--data FOLDER] [--only NAME
...] [--max-time S]`.

`tati_re.Simulation(data="own.csv", hidden=[50]).sample()` on raw tables, generated, of
scikit-learn, and of FOLDER/uci. Each is a CSV file with a header and the target last, of which a
random four fifths are learned from. A line for each, in Markdown: steps, what the certificate says,
noise, seconds and processor time with compilation, and the test set beside a random forest of 300
trees with its defaults.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import numpy as np


def sine(random: np.random.Generator) -> np.ndarray:
    """200 points of a sine with noise of .1."""
    x = random.uniform(-3, 3, 200)
    return np.column_stack([x, np.sin(2 * x) + 0.1 * random.standard_normal(200)])


def rare(random: np.random.Generator) -> np.ndarray:
    """1,000 rows, of which one in twenty belongs to a class near a corner."""
    x = random.normal(size=(1000, 4))
    score = x[:, 0] + x[:, 1] + 0.5 * random.standard_normal(1000)
    return np.column_stack([x, score > np.quantile(score, 0.95)])


def of_sklearn(name: str, **options) -> Callable[[np.random.Generator], np.ndarray]:
    """A set that scikit-learn has or makes, as rows with the target last."""

    def made(random: np.random.Generator) -> np.ndarray:
        from sklearn import datasets

        found = getattr(datasets, name)(**options)
        return np.column_stack(found if isinstance(found, tuple) else (found.data, found.target))

    return made


TABLES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "sine with noise": sine,
    "moons": of_sklearn("make_moons", n_samples=600, noise=0.25, random_state=0),
    "diabetes": of_sklearn("load_diabetes", scaled=False),
    "breast cancer": of_sklearn("load_breast_cancer"),
    "wine": of_sklearn("load_wine"),
    "one class of 5 %": rare,
    "friedman1": of_sklearn("make_friedman1", n_samples=1000, noise=1.0, random_state=0),
    "digits": of_sklearn("load_digits"),
}
UCI = ("yacht", "energy", "concrete", "airfoil")
CLASSES = ("moons", "breast cancer", "wine", "one class of 5 %", "digits")
"""The others have targets with values."""


def rows_of(name: str, data: Path | None) -> np.ndarray:
    """The rows of a table, target last, in an order of chance."""
    random = np.random.default_rng(0)
    if name in TABLES:
        rows = TABLES[name](random)
    else:
        assert data is not None
        rows = np.loadtxt(data / "uci" / f"{name}.txt")
    return random.permutation(rows)


def written(path: Path, rows: np.ndarray, classes: bool) -> Path:
    """The rows as a file that a person would have."""
    heads = [f"x{k + 1}" for k in range(rows.shape[1] - 1)]
    lines = [",".join([*heads, "class" if classes else "y"])]
    for row in rows:
        lines.append(
            ",".join(
                [
                    *(f"{value:.9g}" for value in row[:-1]),
                    f"{int(row[-1])}" if classes else f"{row[-1]:.9g}",
                ]
            )
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def score(outputs: np.ndarray, targets: np.ndarray, classes: bool) -> str:
    """Accuracy of a mean prediction, or its root mean squared error in deviations of the
    targets.
    """
    if not classes:
        return f"{np.sqrt(np.mean((outputs - targets) ** 2)) / targets.std():.3f}"
    return f"{np.mean(outputs == targets):.3f}"


def forest(train: np.ndarray, test: np.ndarray, classes: bool) -> str:
    """The same of a random forest."""
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    made = (RandomForestClassifier if classes else RandomForestRegressor)(300, random_state=0)
    return score(made.fit(train[:, :-1], train[:, -1]).predict(test[:, :-1]), test[:, -1], classes)


def measured(name: str, data: Path | None, max_time: float | None) -> SimpleNamespace:
    """What a run by defaults came to."""
    from tati_re import Simulation

    rows, classes = rows_of(name, data), name in CLASSES
    size = round(0.8 * len(rows))
    train, test = rows[:size], rows[size:]
    with tempfile.TemporaryDirectory() as folder:
        file = written(Path(folder) / "own.csv", train, classes)
        began = time.perf_counter(), time.process_time()
        run = Simulation(data=str(file), hidden=[50], verbose=0).sample(
            **({"max_time": max_time} if max_time else {})
        )
        seconds, processor = time.perf_counter() - began[0], time.process_time() - began[1]
        told = run.certificate.set_index("check")
        predicted = run.predict(test[:, :-1].astype(np.float32))
        found = predicted.predicted if classes else predicted.mean[:, 0]
        noise = run.run_info.get("noise_std")
        values = {key: float(told["value"].get(key, np.nan)) for key in told.index}
    failed = told.index[told["verdict"] == "failed"]
    return SimpleNamespace(
        examples=size,
        steps=int(run.run_info["step"].max()),
        values=values,
        noise=None if noise is None else float(noise.iloc[len(noise) // 2 :].mean()),
        verdict="passed" if not len(failed) else "failed: " + ", ".join(failed),
        seconds=seconds,
        processor=processor,
        ours=score(found, test[:, -1], classes),
        forest=forest(train, test, classes),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tables", description="Tables of one's own, by defaults."
    )
    parser.add_argument(
        "--data", type=Path, help="a folder with uci/*.txt; default: those of scikit-learn alone"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*TABLES, *UCI],
        metavar="NAME",
        help=", ".join([*TABLES, *UCI]),
    )
    parser.add_argument(
        "--max-time", type=float, help="seconds of each run; default: as many as it takes"
    )
    given = parser.parse_args(argv)
    names = given.only or [*TABLES, *(UCI if given.data else ())]
    if given.data is None and set(names) & {*UCI}:
        parser.error("--data: the folder of " + ", ".join(sorted({*names} & {*UCI})))
    print(
        "| table (examples) | steps | least ESS | worst R-hat | of weights | bound of the bias | noise |"
        " seconds | processor | certificate | test accuracy, or RMSE in deviations | of a random forest |"
    )
    print("|" + "---|" * 12)
    for name in names:
        row = measured(name, given.data, given.max_time)
        values = row.values
        noise = "" if row.noise is None else f"{row.noise:.3g}"
        print(
            f"| {name} ({row.examples:,}) | {row.steps:,} | {values['ESS']:,.0f} | {values['R-hat']:.3f} "
            f"| {values['R-hat of weights']:.3f} | {values['bias from the step size']:.3f} | {noise} | {row.seconds:.0f} "
            f"| {row.processor:.0f} | {row.verdict} | {row.ours} | {row.forest} |",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
