"""Airfoil self-noise and concrete: ten networks that predict mean and deviation, sampled together,
beside bde.

A network of four hidden layers of 16 tanh units predicts mean and log standard deviation of a
Gaussian (`loss = "heteroscedastic_gaussian"`), prior N(0, 1) on every weight. scikit-learn's
train_test_split with test_size=.2 and random_state=0 draws the test rows; inputs and target are
standardized on the training rows, and all scores are in these units: root mean squared error of the
mean prediction; negative log likelihood of the mixture of all draws; and of a Gaussian with the
mixture's mean and variance, which is how bde counts. `preset="MILE"` does the rest, with about as
many gradients as bde takes: each of ten walkers is fitted from a start of its own and goes on from
there with MCLMC on all rows, and step size and masses are tuned in the burn-in. Seeds change starts
and noise, not the rows.

Nothing is chosen by the test rows: with --part validation a fifth of the training rows takes their
place, which is how the options were looked at.

    python examples/airfoil.py --data FOLDER [--sets airfoil concrete] [--num-seeds 5] [--num-steps
    110000]
        [--processes 2] [--part validation] [--bde] [--output DIR]

FOLDER/uci holds airfoil.txt and concrete.txt: one row an example, target last. Writes results.csv
to the output folder, one line a seed. R-hat and the drift of U say whether such a run has come to
equilibrium. --bde runs bde beside it, with the options of its authors (`pip install
sklearn-contrib-bde`). Published beside airfoil: bde, deep ensembles, XGBoost and TabPFN, as bde's
own comparison has them.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re

DATA_SETS = ("airfoil", "concrete")
PUBLISHED = published("bde_airfoil")
"""RMSE and negative log likelihood by method."""
HIDDEN = [16, 16, 16, 16]
NUM_WALKERS = 10
NUM_STEPS, BURNIN_PART = 110_000, 10 / 11
NUM_DRAWS = 100
"""Stored positions of each walker."""


class Score(NamedTuple):
    """A line of results.csv.

    Attributes:
        data: Name of the set.
        method: "MILE", or "bde".
        seed: Of starts and sampler.
        rmse: Of the mean prediction, in units of the target's deviation.
        nll: Of the mixture, in nats, in the same units.
        nll_moments: Of a Gaussian with the mixture's mean and variance.
        rmse_one: The same for the draws of one walker, the mean over walkers.
        nll_one: Likewise.
        potential: U, the mean over the second half of the rows after the burn-in.
        drift: Of U between the two halves.
        r_hat: Of the mean squared test error over the draws.
        steps: Of the sampler.
        seconds: Of fits, sampling and prediction.
        core_seconds: The same of the processor, over all cores.
    """

    data: str
    method: str
    seed: int
    rmse: float
    nll: float
    nll_moments: float
    rmse_one: float
    nll_one: float
    potential: float
    drift: float
    r_hat: float
    steps: int
    seconds: float
    core_seconds: float


class Split(NamedTuple):
    """Standardized rows, target last."""

    train: np.ndarray
    test: np.ndarray


def read(folder: Path, name: str) -> np.ndarray:
    """Rows of a set, target last."""
    path = folder / "uci" / f"{name}.txt"
    if not path.is_file():
        raise tati_re.InputError(
            f"--data: there is no uci/{name}.txt.", folder, "a folder with uci/*.txt"
        )
    return np.loadtxt(path)


def generated(num_examples: int = 120, seed: int = 0) -> np.ndarray:
    """Rows of a smooth function of two inputs whose noise grows with the first, target last."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (num_examples, 2))
    noise = 0.05 * np.exp(x[:, 0]) * random.standard_normal(num_examples)
    return np.column_stack([x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + noise])


def split_of(rows: np.ndarray, part: str = "test") -> Split:
    """The split of the published comparison, scaled by its training set; a part "validation" is
    cut from that.
    """
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(rows, test_size=0.2, random_state=0)
    if part == "validation":
        train, test = train_test_split(train, test_size=0.2, random_state=0)
    mean, std = train.mean(axis=0), train.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    return Split(
        ((train - mean) / scale).astype(np.float32), ((test - mean) / scale).astype(np.float32)
    )


def errors_of(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, float, float]:
    """RMSE of the mean prediction, and negative log likelihood of the mixture of all draws, and of
    its first moments.

    Args:
        outputs: Mean and log standard deviation, `(draws, examples, 2)`.
        targets: `(examples,)`.
    """
    mean, log_std = np.moveaxis(np.asarray(outputs, np.float64), -1, 0)
    log_density = (
        -0.5 * ((mean - targets) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    )
    nll = -np.mean(np.logaddexp.reduce(log_density, axis=0) - math.log(len(mean)))
    center, variance = mean.mean(axis=0), np.exp(2 * log_std).mean(axis=0) + mean.var(axis=0)
    moments = 0.5 * np.mean((center - targets) ** 2 / variance + np.log(2 * math.pi * variance))
    return float(np.sqrt(np.mean((center - targets) ** 2))), float(nll), float(moments)


def sampled(name: str, split: Split, seed: int, num_steps: int) -> Score:
    """Fits and samples with one seed.

    Args:
        name: Of the set.
        split: Its rows.
        seed: Of starts and sampler.
        num_steps: Of the sampler.
    """
    from tati_re.analysis import r_hat, stored_positions

    began, of_processor = time.perf_counter(), time.process_time()
    x, y = split.test[:, :-1], split.test[:, -1]
    sim = tati_re.Simulation(
        data=((split.train[:, :-1], split.train[:, -1:]), (x, y[:, None])),
        hidden=HIDDEN,
        activation="tanh",
        loss="heteroscedastic_gaussian",
        prior_std=1.0,
        num_walkers=NUM_WALKERS,
        walker_start="fit",
        threads=1,  # Networks as small as these leave nothing to share.
        seed=seed,
    )
    num_burnin_steps = round(num_steps * BURNIN_PART)
    run = sim.sample(
        preset="MILE",
        num_steps=num_steps,
        num_burnin_steps=num_burnin_steps,
        trajectory_every=max(1, (num_steps - num_burnin_steps) // NUM_DRAWS),
        record_every=20,
        verbose=0,
    )
    found: list[list[np.ndarray]] = [[] for _ in range(NUM_WALKERS)]
    for position in stored_positions(run):
        found[position.walker].append(sim.predict(x, position.parameters))
    outputs = np.array(found)
    squares = ((outputs[..., 0] - y) ** 2).mean(axis=-1)
    rows_after = run.run_info[run.run_info["step"] > num_burnin_steps]
    energies = rows_after.groupby("step")["potential"].mean().to_numpy()
    first, second = (part.mean() for part in np.array_split(energies, 2))
    steps = int(run.run_info["step"].max())
    seconds = time.perf_counter() - began, time.process_time() - of_processor
    scores = scores_of(outputs, y)
    return Score(
        name, "MILE", seed, *scores, second, second - first, float(r_hat(squares)), steps, *seconds
    )


def scores_of(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, ...]:
    """The fields of Score from rmse to nll_one, of outputs `(walkers, draws, examples, 2)`."""
    ones = np.mean([errors_of(walker, targets)[:2] for walker in outputs], axis=0)
    return (
        *errors_of(outputs.reshape(-1, *outputs.shape[2:]), targets),
        float(ones[0]),
        float(ones[1]),
    )


def bde(name: str, split: Split, seed: int) -> Score:
    """bde with the options of its authors' comparison.

    Args:
        name: Of the set.
        split: Its rows.
        seed: Of starts and sampler.
    """
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    began, of_processor = time.perf_counter(), time.process_time()
    model = BdeRegressor(
        n_members=NUM_WALKERS,
        hidden_layers=HIDDEN,
        loss=GaussianNLL(),
        epochs=1200,
        validation_split=0.15,
        lr=1e-3,
        weight_decay=1e-4,
        warmup_steps=50_000,
        n_samples=1_000,
        n_thinning=10,
        patience=20,
        seed=seed,
    )
    model.fit(split.train[:, :-1], split.train[:, -1])
    outputs = np.array(model.predict(split.test[:, :-1], raw=True), np.float64)
    outputs[..., 1] = np.log(
        np.logaddexp(0, outputs[..., 1]) + 1e-6
    )  # Its deviation is the softplus of the output.
    seconds = time.perf_counter() - began, time.process_time() - of_processor
    nan = math.nan
    return Score(
        name, "bde", seed, *scores_of(outputs, split.test[:, -1]), nan, nan, nan, 51_000, *seconds
    )


def write(scores: Sequence[Score], output: Path) -> None:
    """Writes results.csv."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with (output / "results.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Score._fields, *scores])
    except OSError as error:
        raise tati_re.InputError(
            "--output: cannot be written.", f"{output}: {error.strerror}"
        ) from None


def _called(task: tuple) -> Score:
    function, *arguments = task
    return function(*arguments)


def experiment(tasks: Sequence[tuple], processes: int, output: Path) -> None:
    """All seeds of all sets, each printed and stored when it is done.

    Args:
        tasks: A function and its arguments, for each line of results.csv.
        processes: That run at the same time.
        output: Folder of results.csv.
    """
    scores: list[Score] = []

    def done(_place: int, score: Score) -> None:
        scores.append(score)
        write(sorted(scores, key=lambda score: score[:3]), output)
        print(
            f"{score.data}, {score.method}, seed {score.seed}: RMSE {score.rmse:.4f}, NLL {score.nll:.3f} "
            f"({score.nll_moments:.3f} by mean and variance); one walker {score.rmse_one:.4f}, {score.nll_one:.3f}; "
            f"U {score.potential:.0f}, drift {score.drift:+.0f}, R-hat {score.r_hat:.2f}; {score.steps:,} steps, "
            f"{score.seconds:.0f} s, of the processor {score.core_seconds:.0f} s",
            flush=True,
        )

    if processes == 1:
        for place, task in enumerate(tasks):
            done(place, _called(task))
    else:
        tati_re.side_by_side(_called, tasks, processes, done=done)
    for name, method in dict.fromkeys((score.data, score.method) for score in scores):
        own = np.array([score[3:6] for score in scores if score[:2] == (name, method)])
        cells = [
            f"{mean:.4f} ± {std:.4f}"
            for mean, std in zip(own.mean(axis=0), own.std(axis=0), strict=True)
        ]
        print(
            f"{name}, {method}, {len(own)} seeds: RMSE {cells[0]}, NLL {cells[1]} ({cells[2]} by mean and variance)"
        )
        if name == "airfoil":
            for other, values in PUBLISHED.items():
                print(f"published, {other}: RMSE {values[0]}, NLL {values[1]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Networks that predict mean and deviation: airfoil, concrete."
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder that holds uci/airfoil.txt and concrete.txt",
    )
    parser.add_argument(
        "--sets", nargs="+", choices=DATA_SETS, default=["airfoil"], help="default: airfoil"
    )
    parser.add_argument("--num-seeds", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--num-steps", type=int, default=None, metavar="N", help="default 110,000")
    parser.add_argument(
        "--processes", type=int, default=1, metavar="N", help="seeds at the same time; default 1"
    )
    parser.add_argument(
        "--part", choices=("test", "validation"), default="test", help="on which rows; default test"
    )
    parser.add_argument("--bde", action="store_true", help="bde as well, which has to be installed")
    parser.add_argument("--quick", action="store_true", help="a generated set and 600 steps")
    parser.add_argument("--output", type=Path, default=Path("results/airfoil"), metavar="DIR")
    given = parser.parse_args(argv)
    try:
        if given.data is None and not given.quick:
            raise tati_re.InputError(
                "--data is missing.", None, "a folder with uci/*.txt, or --quick"
            )
        for flag, number in (("--num-seeds", given.num_seeds), ("--processes", given.processes)):
            if number < 1:
                raise tati_re.InputError(f"{flag} is too small.", number, "at least 1")
        if given.bde and importlib.util.find_spec("bde") is None:
            raise tati_re.InputError(
                "--bde: it is not installed.", None, "pip install sklearn-contrib-bde"
            )
        tables = (
            {"generated": generated()}
            if given.quick
            else {name: read(given.data, name) for name in given.sets}
        )
        num_steps = given.num_steps or (600 if given.quick else NUM_STEPS)
        splits = {name: split_of(rows, given.part) for name, rows in tables.items()}
        tasks: list[tuple] = [
            (sampled, name, split, seed, num_steps)
            for name, split in splits.items()
            for seed in range(given.num_seeds)
        ]
        if given.bde:
            tasks += [
                (bde, name, split, seed)
                for name, split in splits.items()
                for seed in range(given.num_seeds)
            ]
        experiment(tasks, given.processes, given.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
