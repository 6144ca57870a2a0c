"""Airfoil self-noise: ten networks that predict mean and deviation, sampled together, beside the published ensembles.

A network 5-16-16-16-16-2 of tanh units predicts mean and log standard deviation of a Gaussian (`loss =
"heteroscedastic_gaussian"`), prior N(0, 1) on every weight. scikit-learn's train_test_split with test_size=.2 and
random_state=0 draws the test rows; inputs and target are standardized on the training rows, and both scores are in
these units: root mean squared error of the mean prediction, and negative log likelihood of the mixture of all draws.
Each of ten walkers is fitted from a start of its own and samples from there with MCLMC on all rows; step size, friction
and masses are tuned in its burn-in. Its variances may be wrong by .3, about the energy error that the published
ensemble allows: such posteriors are not equilibrated in minutes, and larger steps bring U down sooner. Seeds change
starts and noise, not the rows. Nothing is chosen by the test rows.

    python examples/airfoil.py --data FOLDER [--sets airfoil concrete] [--num-seeds 5] [--num-steps 60000]
        [--minutes 20] [--output DIR]

FOLDER/uci holds airfoil.txt and concrete.txt: one row an example, target last. Writes results.csv to the output folder,
one line a seed. R-hat and the drift of U say whether such a run has come to equilibrium. Published beside airfoil: bde,
deep ensembles, XGBoost and TabPFN, as bde's own comparison has them.
"""

from __future__ import annotations

import argparse
import csv
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
SAMPLER = {"sampler": "MCLMC", "step_size": "auto", "friction": "auto", "mass": "fisher", "target_bias": 0.3}
FIT_STEPS = 4_000
NUM_STEPS = 60_000
NUM_DRAWS = 100
"""Stored positions of each walker."""


class Score(NamedTuple):
    """A line of results.csv.

    Attributes:
        data: Name of the set.
        seed: Of starts and sampler.
        rmse: Of the mean prediction, in units of the target's deviation.
        nll: Of the mixture, in nats, in the same units.
        rmse_one: The same for the draws of one walker, the mean over walkers.
        nll_one: Likewise.
        potential: U, the mean over the second half of the rows after the burn-in.
        drift: Of U between the two halves.
        r_hat: Of the mean squared test error over the draws.
        steps: Of the sampler.
        seconds: Of fits and sampling.
    """

    data: str
    seed: int
    rmse: float
    nll: float
    rmse_one: float
    nll_one: float
    potential: float
    drift: float
    r_hat: float
    steps: int
    seconds: float


class Split(NamedTuple):
    """Standardized rows, target last."""

    train: np.ndarray
    test: np.ndarray


def read(folder: Path, name: str) -> np.ndarray:
    """Rows of a set, target last."""
    path = folder / "uci" / f"{name}.txt"
    if not path.is_file():
        raise tati_re.InputError(f"--data: there is no uci/{name}.txt.", folder, "a folder with uci/*.txt")
    return np.loadtxt(path)


def generated(num_examples: int = 120, seed: int = 0) -> np.ndarray:
    """Rows of a smooth function of two inputs whose noise grows with the first, target last."""
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (num_examples, 2))
    noise = 0.05 * np.exp(x[:, 0]) * random.standard_normal(num_examples)
    return np.column_stack([x, np.sin(2 * x[:, 0]) + x[:, 1] ** 2 + noise])


def split_of(rows: np.ndarray) -> Split:
    """The split of the published comparison, scaled by its training part."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(rows, test_size=0.2, random_state=0)
    mean, std = train.mean(axis=0), train.std(axis=0)
    scale = np.where(std > 0, std, 1.0)
    return Split(((train - mean) / scale).astype(np.float32), ((test - mean) / scale).astype(np.float32))


def errors_of(outputs: np.ndarray, targets: np.ndarray) -> tuple[float, float]:
    """RMSE of the mean prediction, and negative log likelihood of the mixture of all draws.

    Args:
        outputs: Mean and log standard deviation, `(draws, examples, 2)`.
        targets: `(examples,)`.
    """
    mean, log_std = np.moveaxis(np.asarray(outputs, np.float64), -1, 0)
    log_density = -0.5 * ((mean - targets) / np.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
    nll = -np.mean(np.logaddexp.reduce(log_density, axis=0) - math.log(len(mean)))
    return float(np.sqrt(np.mean((mean.mean(axis=0) - targets) ** 2))), float(nll)


def sampled(name: str, rows: np.ndarray, seed: int, num_steps: int, minutes: float) -> Score:
    """Fits and samples with one seed.

    Args:
        name: Of the set.
        rows: Of the set, target last.
        seed: Of starts and sampler.
        num_steps: At most.
        minutes: After which sampling ends in any case.
    """
    from tati_re.analysis import r_hat, stored_positions

    began = time.perf_counter()
    split = split_of(rows)
    x, y = split.test[:, :-1], split.test[:, -1]
    sim = tati_re.Simulation(
        data=((split.train[:, :-1], split.train[:, -1:]), (x, y[:, None])),
        hidden=HIDDEN,
        activation="tanh",
        loss="heteroscedastic_gaussian",
        prior_std=1.0,
        num_walkers=NUM_WALKERS,
        walker_start="fit",
        fit_steps=FIT_STEPS,
        seed=seed,
    )
    run = sim.sample(**SAMPLER, num_steps=num_steps, max_time=60 * minutes, record_every=20, trajectory_every=100)
    found: list[list[np.ndarray]] = [[] for _ in range(NUM_WALKERS)]
    positions = list(stored_positions(run))
    stride = max(1, len(positions) // NUM_WALKERS // NUM_DRAWS)
    for number, position in enumerate(positions):
        if number // NUM_WALKERS % stride == 0:
            found[position.walker].append(sim.predict(x, position.parameters))
    outputs = np.array(found)
    squares = ((outputs[..., 0] - y) ** 2).mean(axis=-1)
    ones = np.mean([errors_of(walker, y) for walker in outputs], axis=0)
    rows_after = run.run_info[run.run_info["step"] > int(run.manifest["options"]["num_burnin_steps"] or 0)]
    energies = rows_after.groupby("step")["potential"].mean().to_numpy()
    first, second = (part.mean() for part in np.array_split(energies, 2))
    hat = float(r_hat(squares)) if squares.shape[1] > 3 else math.nan
    seconds = time.perf_counter() - began
    whole = errors_of(outputs.reshape(-1, *outputs.shape[2:]), y)
    steps = int(run.run_info["step"].max())
    return Score(name, seed, *whole, float(ones[0]), float(ones[1]), second, second - first, hat, steps, seconds)


def write(scores: Sequence[Score], output: Path) -> None:
    """Writes results.csv."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        with (output / "results.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([Score._fields, *scores])
    except OSError as error:
        raise tati_re.InputError("--output: cannot be written.", f"{output}: {error.strerror}") from None


def experiment(tables: dict[str, np.ndarray], seeds: int, num_steps: int, minutes: float, output: Path) -> None:
    """All seeds of all sets, each printed and stored when it is done.

    Args:
        tables: Rows by name.
        seeds: How many.
        num_steps: At most.
        minutes: Of sampling, for each seed.
        output: Folder of results.csv.
    """
    scores: list[Score] = []
    for name, rows in tables.items():
        for seed in range(seeds):
            score = sampled(name, rows, seed, num_steps, minutes)
            scores.append(score)
            write(scores, output)
            print(
                f"{name}, seed {seed}: RMSE {score.rmse:.4f}, NLL {score.nll:.3f}; one walker {score.rmse_one:.4f}, "
                f"{score.nll_one:.3f}; U {score.potential:.0f}, drift {score.drift:+.0f}, R-hat {score.r_hat:.2f}; "
                f"{score.steps:,} steps, {score.seconds:.0f} s",
                flush=True,
            )
        own = np.array([(score.rmse, score.nll) for score in scores if score.data == name])
        print(f"{name}, {seeds} seeds: RMSE {own[:, 0].mean():.4f}, NLL {own[:, 1].mean():.3f}")
        if name == "airfoil":
            for method, values in PUBLISHED.items():
                print(f"published, {method}: RMSE {values[0]}, NLL {values[1]}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Networks that predict mean and deviation: airfoil, concrete.")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder that holds uci/airfoil.txt and concrete.txt"
    )
    parser.add_argument("--sets", nargs="+", choices=DATA_SETS, default=["airfoil"], help="default: airfoil")
    parser.add_argument("--num-seeds", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument("--num-steps", type=int, default=None, metavar="N", help="default 60,000")
    parser.add_argument("--minutes", type=float, default=20.0, help="of sampling, for each seed; default 20")
    parser.add_argument("--quick", action="store_true", help="a generated set and 600 steps")
    parser.add_argument("--output", type=Path, default=Path("results/airfoil"), metavar="DIR")
    given = parser.parse_args(argv)
    try:
        if given.data is None and not given.quick:
            raise tati_re.InputError("--data is missing.", None, "a folder with uci/*.txt, or --quick")
        if given.num_seeds < 1:
            raise tati_re.InputError("--num-seeds is too small.", given.num_seeds, "at least 1")
        if given.quick:
            tables, num_steps = {"generated": generated()}, given.num_steps or 600
        else:
            tables, num_steps = {name: read(given.data, name) for name in given.sets}, given.num_steps or NUM_STEPS
        experiment(tables, given.num_seeds, num_steps, given.minutes, given.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
