"""Replica exchange Nosé-Hoover dynamics on networks whose labels are permuted again and again,
beside seven others and two controls.

An LSTM reads the 28 rows of an MNIST image (28 -> 32 units, then 32 ReLU units and 10 outputs:
9,194 parameters). A fifth of the 6,000 training labels is permuted. A method starts three times
from random weights and may take the same number of gradients each time: a ladder of R rungs takes R
gradients at every step, and so an Rth of the steps. Two controls have the steps of a ladder: R
chains of SGNHT that do not swap, whose predictions are averaged together, and one chain. Half of
the steps are burn-in; predictions are averaged over positions from the other half.

Labels that are permuted anew at each epoch are noise in the gradient, not another potential: the
potential that a sampler sees is the mean over the permutations. Here it is the mean over 20 of
them, drawn once, each a copy of the images in the data set; mini-batches are drawn from all copies,
so that an image comes back under other labels, and swaps are decided for the potential whose
gradients move the walkers.

U is the mean loss, with the prior's V/N, at the temperature 1/N with N = 6,000: the posterior at T
= 1 for 6,000 images under a standard normal prior. The temperature ratio of the ladder is measured:
a pilot of SGNHT tells how U spreads at T = 1, and neighbors are put where Metropolis' rule would
accept half of the swaps.

    python examples/renhd_lstm.py --data FOLDER [--percent 0 | 20 | 30] [--full] [--num-gradients
    2400] [--output DIR] python examples/renhd_lstm.py --data FOLDER --network resnet [--full]
    [--output DIR]

`--network resnet` takes images of CIFAR-10 and a residual network instead, a ResNet-8 of 8 channels
or, with `--full`, ResNet-20. Its layers are normalized over the channels of each image (group
normalization with one group): under batch normalization the loss of an image depends on its
mini-batch, and is no sum over the data.

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it, or
cifar10_subset.npz. Writes results.csv, rungs.csv and figure.png, the LSTM in about 8 minutes on 2
cores, 25 where others use them too. Methods that are in results.csv are not run again.

RELD is SGLD on the ladder here. In the paper it is RENHD's step with a frozen thermostat: another
update, whose momentum factor is negative, and none with a law that is known.

Published: R. Luo, Q. Zhang, Y. Yang, J. Wang, Replica-exchange Nosé-Hoover dynamics for Bayesian
learning on large datasets (NeurIPS 2020), Table 1: accuracy on Fashion-MNIST, by an LSTM of 128
units and 64 ReLU units, 20 % of the labels permuted at each epoch, 1,000 epochs, 12 rungs with
ratio 1.2, 10 runs; and on CIFAR-10, by ResNet-20.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import resghmc_resnet
from published import published

import tati_re

TABLES = {
    ("lstm", 0): "renhd_table_1_unpermuted",
    ("lstm", 20): "renhd_table_1",
    ("lstm", 30): "renhd_table_1_30",
    ("resnet", 0): "renhd_table_1_resnet_unpermuted",
    ("resnet", 20): "renhd_table_1_resnet",
    ("resnet", 30): "renhd_table_1_resnet_30",
}
PUBLISHED = {case: published(name) for case, name in TABLES.items()}
SETTINGS = published("renhd_settings")
"""Accuracies in % by method, and how they were reached."""
BATCH_SIZE = 128
NUM_PERMUTATIONS = 20
PRIOR_STD = 1.0
STEP_SIZE, FRICTION = 0.5, 0.3
"""In units of the mean loss: a learning rate of 0.25, and a momentum that keeps 0.85 in a step."""
TEMPERING_STEPS = 1_600.0
"""Three times the noise of U/T on a mini-batch, 6,000 nats / sqrt(128), as TACT-HMC wants it."""
LADDER_ACCEPTANCE = 0.5
"""Of Metropolis' rule, which the pilot's ratio is chosen for; Barker's accepts at most half."""
NUM_DRAWS = 20
"""Positions of each run whose predictions are averaged."""
SMALLEST_NUM_STEPS = 40


class Method(NamedTuple):
    """One method.

    Attributes:
        name: As the paper calls it.
        options: Its options; of `fit` where they name an optimizer, else of `sample`.
        ladder: It has several rungs.
        chains: It has as many chains as a ladder has rungs, without swaps.
        short: It is one chain with the steps of a ladder, and so with fewer gradients.
    """

    name: str
    options: dict[str, Any]
    ladder: bool = False
    chains: bool = False
    short: bool = False

    @property
    def trains(self) -> bool:
        """It is an optimizer."""
        return "optimizer" in self.options

    @property
    def steps_as_a_ladder(self) -> bool:
        """It makes as many steps as a ladder, fewer than a single chain."""
        return self.ladder or self.chains or self.short


DYNAMICS = {"step_size": STEP_SIZE, "friction": FRICTION}
METHODS = (
    Method("RENHD", {"sampler": "RENHD", **DYNAMICS}, True),
    Method("RELD", {"sampler": "RELD", "step_size": 0.5}, True),
    Method("TACT-HMC", {"sampler": "TACT-HMC", "tempering_steps": TEMPERING_STEPS, **DYNAMICS}),
    Method("SGNHT", {"sampler": "SGNHT", **DYNAMICS}),
    Method("SGNHT, chains", {"sampler": "SGNHT", **DYNAMICS}, chains=True),
    Method("SGNHT, short", {"sampler": "SGNHT", **DYNAMICS}, short=True),
    Method("SGHMC", {"sampler": "SGHMC", **DYNAMICS}),
    Method("SGLD", {"sampler": "SGLD", "step_size": 0.5}),
    Method("momentum SGD", {"optimizer": "sgd", "momentum": 0.9, "learning_rate": 0.1}),
    Method("Adam", {"optimizer": "adam", "learning_rate": 0.003}),
)


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_gradients: Of each run of each method.
        num_replicas: Rungs of a ladder.
        num_runs: Of each method, side by side.
        exchange_every: Steps between two rounds of swaps.
        num_train: Training images.
        num_test: Test images that count.
        num_units: Of the LSTM; channels of the first stage of the ResNet.
        num_blocks: Of two layers, in each of the three stages of the ResNet.
        num_pilot_steps: Of the pilot that chooses the ladder.
        percent: Of the labels are permuted.
        network: "lstm" or "resnet".
    """

    num_gradients: int = 2_400
    num_replicas: int = 3
    num_runs: int = 3
    exchange_every: int = 20
    num_train: int = 6_000
    num_test: int = 4_000
    num_units: int = 32
    num_blocks: int = 1
    num_pilot_steps: int = 800
    percent: int = 20
    network: str = "lstm"


SIZES = {"lstm": Sizes(), "resnet": Sizes(1_200, 3, 3, 20, 2_000, 2_000, 8, 1, 400, 20, "resnet")}
QUICK = {
    name: Sizes(120, 2, 2, 2, 64, 50, units, 1, 40, 20, name)
    for name, units in (("lstm", 4), ("resnet", 1))
}
FULL = {
    "lstm": Sizes(1_000 * 60_000 // BATCH_SIZE, 12, 10, 20, 60_000, 10_000, 128, 1, 8_000),
    "resnet": Sizes(
        1_000 * 10_000 // BATCH_SIZE, 12, 10, 20, 10_000, 2_000, 16, 3, 8_000, 20, "resnet"
    ),
}
"""As published, but for the ReLU layer, which is as wide as the LSTM, a fifth of CIFAR-10, and
1,000 epochs for all.
"""
DATA = {"lstm": "mnist.npz", "resnet": "cifar10_subset.npz"}


class Digits(NamedTuple):
    """Images `(n, 28, 28)`, or `(n, 32, 32, 3)`, as bytes, and labels `(n,)`."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Result(NamedTuple):
    """What a method reached; deviations are standard deviations over its runs.

    Attributes:
        method: Its name.
        rungs: Temperatures; chains without swaps of which each run averages the predictions.
        steps: Of each run.
        draws: Positions averaged over, of all runs.
        accuracy: Of the predictions averaged over positions, in %, a mean over the runs.
        accuracy_deviation: Over the runs.
        nll: Negative log likelihood of a test image under that average, in nats.
        nll_deviation: Over the runs.
        last_accuracy: Of the last position alone, in %.
        last_accuracy_deviation: Over the runs.
        acceptance: Of swaps, burn-in included; nan without a ladder.
        swap_batch: Images that a swap looked at, on average.
        round_trips: From the target to the hottest rung and back, of all replicas of all runs,
            burn-in included.
        seconds: Of all runs together.
    """

    method: str
    rungs: int
    steps: int
    draws: int
    accuracy: float
    accuracy_deviation: float
    nll: float
    nll_deviation: float
    last_accuracy: float
    last_accuracy_deviation: float
    acceptance: float
    swap_batch: float
    round_trips: int
    seconds: float


def read(folder: Path, num_train: int, num_test: int) -> Digits:
    """The first training images, and test images, of MNIST."""
    path = folder / "mnist.npz"
    if not path.is_file():
        raise tati_re.InputError(
            "--data: there is no mnist.npz.", folder, "a folder that holds mnist.npz"
        )
    with np.load(path) as file:
        train, labels, test, test_labels = (
            file[key] for key in ("x_train", "y_train", "x_test", "y_test")
        )
    for option, count, most in (
        ("--num-train", num_train, len(labels)),
        ("--num-test", num_test, len(test_labels)),
    ):
        if not 1 <= count <= most:
            raise tati_re.InputError(f"{option} is out of range.", count, f"1 to {most:,}")
    return Digits(train[:num_train], labels[:num_train], test[:num_test], test_labels[:num_test])


def generated(num_train: int, num_test: int, seed: int) -> Digits:
    """Ten patterns of 28 x 28 with noise."""
    random = np.random.default_rng(seed)
    patterns, labels = random.integers(0, 128, (10, 28, 28)), np.arange(num_train + num_test) % 10
    images = (patterns[labels] + random.integers(0, 128, (len(labels), 28, 28))).astype(np.uint8)
    return Digits(images[:num_train], labels[:num_train], images[num_train:], labels[num_train:])


def permuted(labels: np.ndarray, count: int, seed: int, percent: int = 20) -> np.ndarray:
    """Labels in `count` versions, `(count, n)`: in each another part of them, permuted among each
    other.
    """
    random = np.random.default_rng(seed)
    versions = np.tile(labels, (count, 1))
    for version in versions:
        chosen = random.choice(len(labels), round(percent / 100 * len(labels)), replace=False)
        version[chosen] = version[random.permutation(chosen)]
    return versions


class Problem:
    """The network and its data, at three starts.

    Args:
        digits: The images.
        sizes: Of the runs.
        seed: Of permutations, starts and dynamics.
    """

    def __init__(self, digits: Digits, sizes: Sizes, seed: int) -> None:
        self.digits, self.sizes, self.seed = digits, sizes, seed
        self.versions = NUM_PERMUTATIONS if sizes.percent else 1
        versions = permuted(digits.train_labels, self.versions, seed, sizes.percent)
        self.frequencies = np.stack([(versions == digit).mean(0) for digit in range(10)], axis=-1)
        first = slice(0, 10)
        few = (digits.train[first], np.arange(10) % 10)
        self.starts = np.stack(
            [self._simulation(*few, 1, seed + run).parameters for run in range(sizes.num_runs)]
        )
        images = np.tile(digits.train, (self.versions, *[1] * (digits.train.ndim - 1)))
        self.simulation = self._simulation(images, versions.reshape(-1), sizes.num_runs, seed)
        self.temperature = 1 / len(digits.train)

    def _simulation(self, images, labels, num_walkers: int, seed: int) -> tati_re.Simulation:
        import keras

        from tati_re.data import Dataset

        keras.utils.set_random_seed(seed)
        units = self.sizes.num_units
        if self.sizes.network == "resnet":
            model = resghmc_resnet.resnet(
                images.shape[1:], self.sizes.num_blocks, units, batch_norm=False
            )
        else:
            layers = [
                keras.layers.LSTM(units),
                keras.layers.Dense(units, "relu"),
                keras.layers.Dense(10),
            ]
            model = keras.Sequential([keras.Input((28, 28)), *layers])
        name = "images with permuted labels"
        return tati_re.Simulation(
            model,
            Dataset.from_arrays(images, labels, name=name, input_scale=1 / 255, num_classes=10),
            loss="sparse_categorical_crossentropy",
            from_logits=True,
            potential="mean_loss",
            # V/N of a prior with standard deviation s is V of one with s sqrt(N).
            prior_std=PRIOR_STD * math.sqrt(len(self.digits.train)),
            batch_size=min(BATCH_SIZE, len(labels)),
            num_walkers=num_walkers,
            # XLA cannot compile an LSTM; a loop over the walkers is compiled soonest and is as
            # fast.
            execution="graph",
            walker_evaluation="looped",
            seed=seed,
            verbose=0,
        )

    def run(self, method: Method, ratio: float | None, num_steps: int, keep: int, chain: int = 0):
        """Runs a method from the starts; positions are stored at each `keep`th step of the second
        half. Each `chain` draws other random numbers.
        """
        self.simulation.parameters = self.starts
        options = {
            **method.options,
            "seed": self.seed + 1_000 * chain,
            "num_steps": num_steps,
            "trajectory_every": keep,
            "record_every": keep,
        }
        if method.trains:
            return self.simulation.fit(**options)
        if method.ladder:
            sizes = self.sizes
            options |= {"num_replicas": sizes.num_replicas, "temperature_ratio": ratio}
            options |= {"exchange_every": sizes.exchange_every}
        return self.simulation.sample(
            **options, temperature=self.temperature, num_burnin_steps=num_steps // 2
        )

    def energy(self, parameters: np.ndarray) -> float:
        """N U at a position, on all images and label versions: U of the posterior at T = 1."""
        outputs = self.simulation.predict(self.digits.train, parameters).astype(np.float64)
        log_probabilities = outputs - np.logaddexp.reduce(outputs, axis=-1, keepdims=True)
        loss = -np.sum(self.frequencies * log_probabilities)
        return loss + 0.5 * np.sum((parameters.astype(np.float64) / PRIOR_STD) ** 2)


def pilot(problem: Problem) -> tuple[float, float]:
    """The deviation of U at T = 1, and the temperature ratio that it asks for.

    U still drifts in so short a run: its deviation is that from a straight line in time, for each
    walker its own.
    """
    from tati_re.exchange import geometric, ladder_advice, spacing

    sizes = problem.sizes
    num_steps = sizes.num_pilot_steps
    method = next(method for method in METHODS if method.name == "SGNHT")
    every = max(1, num_steps // 40)
    drawn = positions(problem.run(method, None, num_steps, every), num_steps // 2)
    changes, squares = [], []
    for walker in drawn:
        steps, energies = np.array(
            [(step, problem.energy(vector)) for step, vector in walker], float
        ).T
        line = np.polyfit(steps - steps.mean(), energies, 1)
        changes.append(line[0] * np.ptp(steps))
        # A line takes two of the numbers.
        squares.append(
            np.sum((energies - np.polyval(line, steps - steps.mean())) ** 2) / (len(steps) - 2)
        )
    deviation = math.sqrt(np.mean(squares))
    ratio = math.exp(spacing(LADDER_ACCEPTANCE) / deviation)
    print(
        f"pilot, {sizes.num_runs} walkers of {num_steps} steps of SGNHT at T = 1: in the second half U changes by "
        f"{np.mean(changes):+.0f} and deviates from a line by {deviation:.1f}, as {2 * deviation**2:,.0f} "
        f"stiff directions would; chosen: {sizes.num_replicas} rungs with temperature ratio {ratio:.4f}"
    )
    size, step = SETTINGS["rungs, ratio"]
    ladder = geometric(int(size), temperature_ratio=float(step))
    for sentence in ladder_advice(
        ladder, heat_capacity=deviation**2, acceptance=LADDER_ACCEPTANCE
    ).sentences:
        print(f"the published ladder here: {sentence}")
    print(flush=True)
    return deviation, ratio


def positions(run, after: int) -> list[list[tuple[int, np.ndarray]]]:
    """Stored positions of each walker after a step, with their steps, those at the target's
    temperature alone.
    """
    from tati_re.analysis import stored_positions

    rows = run.run_info
    weights = {}
    if "weight" in rows:
        weights = {
            (int(step), int(walker)): weight
            for step, walker, weight in rows[["step", "walker", "weight"]].values
        }
    found: list[list] = [[] for _ in range(rows["walker"].max() + 1)]
    for step, walker, vector in stored_positions(run):
        if step > after and weights.get((step, walker), 1) > 0:
            found[walker].append((step, vector))
    return found


def spread(drawn: Sequence[tuple[int, np.ndarray]], count: int) -> list[np.ndarray]:
    """At most `count` positions of a walker, at even distances in time."""
    if not drawn:
        return []
    places = np.unique(np.linspace(0, len(drawn) - 1, count).round().astype(int))
    return [drawn[place][1] for place in places]


def trips(rungs: np.ndarray) -> int:
    """How often a replica goes from rung 0 to the hottest one and back; `rungs` are those of its
    rows, in order.
    """
    top, count, been = rungs.max(), 0, -1
    for rung in rungs:
        if rung == 0:
            count += been == 1
            been = 0
        elif rung == top and been == 0:
            been = 1
    return count


def result(problem: Problem, method: Method, ratio: float) -> tuple[Result, Any]:
    """Runs and scores a method.

    Returns:
        The result; the rows of run.csv of a ladder, else `None`.
    """
    from tati_re.prediction import accuracy, negative_log_likelihood

    sizes, sim, digits = problem.sizes, problem.simulation, problem.digits
    rungs = sizes.num_replicas if method.ladder or method.chains else 1
    shares = sizes.num_replicas if method.steps_as_a_ladder else 1
    num_steps = sizes.num_gradients // shares
    keep = max(1, num_steps // (8 * NUM_DRAWS))

    runs, last = [], []
    for chain in range(rungs if method.chains else 1):
        runs.append(problem.run(method, ratio, num_steps, keep, chain))
        last.extend(np.atleast_2d(sim.parameters).copy())  # of one run it is a vector
    run = runs[0]

    averages, count = [], 0
    for drawn_of_chains in zip(*(positions(run, num_steps // 2) for run in runs), strict=True):
        chosen = [vector for drawn in drawn_of_chains for vector in spread(drawn, NUM_DRAWS)]
        if not chosen:
            continue
        outputs = [sim.predict_probabilities(digits.test, vector) for vector in chosen]
        mean = np.mean(outputs, axis=0, dtype=np.float64)
        averages.append(
            (accuracy(mean, digits.test_labels), negative_log_likelihood(mean, digits.test_labels))
        )
        count += len(chosen)
    scores = np.array(averages) * (100, 1) if averages else np.full((1, 2), np.nan)
    ends = [
        100 * accuracy(sim.predict_probabilities(digits.test, vector), digits.test_labels)
        for vector in last
    ]
    swaps = (math.nan, math.nan, 0)
    rows = run.run_info if method.ladder else None
    if rows is not None:
        replicas = rows.sort_values("step").groupby(["walker", "replica"])["rung"]
        trip_count = sum(trips(path.to_numpy()) for _, path in replicas if path.max() == rungs - 1)
        swaps = (run.exchanges["accepted"].mean(), run.exchanges["batch_size"].mean(), trip_count)

    def deviation(values) -> float:
        return float(np.std(values, ddof=1)) if len(values) > 1 else math.nan

    found = Result(
        method.name,
        rungs,
        num_steps,
        count,
        scores[:, 0].mean(),
        deviation(scores[:, 0]),
        scores[:, 1].mean(),
        deviation(scores[:, 1]),
        float(np.mean(ends)),
        deviation(ends),
        *swaps,
        float(sum(run.timing["seconds"].iloc[-1] for run in runs)),
    )
    return found, rows


def with_deviation(value: float, deviation: float, digits: int) -> str:
    """A mean and its deviation over the runs, which one run does not have."""
    text = f"{value:.{digits}f}"
    return text if math.isnan(deviation) else f"{text} ± {deviation:.{digits}f}"


def report(found: Result, sizes: Sizes) -> None:
    """Prints a line of the table."""
    said = PUBLISHED.get((sizes.network, sizes.percent), {}).get(found.method, "")
    cells = (
        with_deviation(found.accuracy, found.accuracy_deviation, 2) if found.draws else "no draw",
        with_deviation(found.nll, found.nll_deviation, 3) if found.draws else "",
        with_deviation(found.last_accuracy, found.last_accuracy_deviation, 2),
    )
    swaps = "" if math.isnan(found.acceptance) else f"{found.acceptance:.3f}, {found.round_trips}"
    print(
        f"{found.method:14}{found.rungs:<7}{found.steps:<8,}{found.draws:<7}{cells[0]:16}{cells[1]:17}{cells[2]:16}"
        f"{swaps:12}{said:13}{found.seconds:.0f}".rstrip(),
        flush=True,
    )


def before(output: Path, names: Sequence[str], sizes: Sizes, seed: int) -> list[Result]:
    """The results that an earlier call with the same sizes has left in the folder; else it is
    marked as one of these.

    Raises:
        InputError: It has results of other sizes.
    """
    settings, path = {**sizes._asdict(), "seed": seed}, output / "settings.json"
    if path.is_file() and json.loads(path.read_text()) != settings:
        raise tati_re.InputError(
            "--output has results of other sizes or another seed.", output, "another folder"
        )
    write([[json.dumps(settings)]], [], path)
    if not (output / "results.csv").is_file():
        return []
    with (output / "results.csv").open(newline="") as file:
        kinds, rows = list(Result.__annotations__.values()), list(csv.reader(file))[1:]
    casts = [
        {"str": str, "int": int}.get(kind, lambda text: float(text or "nan")) for kind in kinds
    ]
    return [
        Result(*(cast(text) for cast, text in zip(casts, row, strict=True)))
        for row in rows
        if row[0] in names
    ]


def write(rows: Sequence[Sequence], header: Sequence[str], path: Path) -> None:
    """Writes a CSV file."""
    lines = [
        ",".join("" if v != v else f"{v:.6g}" if isinstance(v, float) else str(v) for v in row)
        for row in rows
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([",".join(header), *lines, ""]))
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", path.parent
        ) from None


def draw(results: Sequence[Result], ladders: dict[str, Any], path: Path) -> None:
    """Draws the rungs of the replicas of the first run against the step, and the accuracies as
    bars.
    """
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(9.0, 3.8)
    grid = figure.add_gridspec(max(1, len(ladders)), 2, width_ratios=(1.1, 1))
    for place, (name, rows) in enumerate(ladders.items()):
        axes = figure.add_subplot(grid[place, 0])
        first = rows[rows["walker"] == 0].sort_values("step")
        for replica, path_of in first.groupby("replica"):
            color = COLORS[int(replica) % len(COLORS)]
            axes.step(path_of["step"], path_of["rung"], where="post", color=color, linewidth=1.1)
        axes.set_yticks(range(int(rows["rung"].max()) + 1))
        axes.set_ylabel("rung")
        axes.set_title(f"{name}: replicas of the first run", fontsize=9, loc="left")
        if place == len(ladders) - 1:
            axes.set_xlabel("step")
        plain(axes)
    axes = figure.add_subplot(grid[:, 1])
    for place, found in enumerate(results):
        color = COLORS[1] if found.rungs > 1 else COLORS[0]
        axes.barh(
            place,
            found.accuracy,
            xerr=found.accuracy_deviation,
            color=color,
            height=0.6,
            ecolor=GRAY,
            capsize=2,
        )
        axes.plot(
            found.last_accuracy, place, "o", color="white", markeredgecolor="black", markersize=4
        )
    axes.set_yticks(range(len(results)), [found.method for found in results])
    axes.invert_yaxis()
    known = [v for r in results for v in (r.accuracy, r.last_accuracy) if not math.isnan(v)]
    if known:
        axes.set_xlim(max(0.0, min(known) - 5), min(100.0, max(known) + 3))
    axes.set_xlabel("test accuracy in %, labels unpermuted")
    axes.set_title("averaged predictions (bars), last position (dots)", fontsize=9, loc="left")
    plain(axes)
    save(figure, path)


def experiment(
    data: Path | None,
    names: Sequence[str],
    sizes: Sizes,
    ratio: float | None,
    seed: int,
    output: Path,
):
    """Runs the pilot and all methods; without a folder, generated images.

    Args:
        data: The folder.
        names: Of the methods.
        sizes: Of the runs.
        ratio: Of neighboring temperatures; `None`: by the pilot.
        seed: Of permutations, starts and dynamics.
        output: Folder of the files.

    Raises:
        InputError: A file that is not there, a size that is too small, or a folder that cannot be
            written.
    """
    if sizes.num_replicas < 2:
        raise tati_re.InputError("--num-replicas is too small.", sizes.num_replicas, "at least 2")
    least = SMALLEST_NUM_STEPS * sizes.num_replicas
    if sizes.num_gradients < least:
        raise tati_re.InputError(
            "--num-gradients is too small.", sizes.num_gradients, f"at least {least}"
        )
    if sizes.num_pilot_steps < SMALLEST_NUM_STEPS:
        expected = f"at least {SMALLEST_NUM_STEPS}"
        raise tati_re.InputError("--num-pilot-steps is too small.", sizes.num_pilot_steps, expected)
    of_resnet = sizes.network == "resnet"
    if data is None:
        digits = (resghmc_resnet.generated if of_resnet else generated)(
            sizes.num_train, sizes.num_test, seed
        )
    else:
        digits = (resghmc_resnet.read if of_resnet else read)(data, sizes.num_train, sizes.num_test)
    problem = Problem(digits, sizes, seed)
    what = f"LSTM of {sizes.num_units} units"
    if of_resnet:
        what = f"ResNet-{6 * sizes.num_blocks + 2} of {sizes.num_units} channels"
    print(
        f"{what}, {problem.starts.shape[1]:,} parameters; N = {len(digits.train):,} images, "
        f"{problem.versions} versions of their labels, {sizes.percent} % permuted in each; U = mean loss - log prior "
        f"/ N at the temperature 1/N, prior standard deviation {PRIOR_STD:g}; mini-batches of {BATCH_SIZE}; "
        f"{sizes.num_gradients:,} gradients a run, {sizes.num_runs} runs of each; {len(digits.test):,} test images"
    )
    if ratio is None:
        _, ratio = pilot(problem)
    print(
        f"{'':14}rungs  steps   draws  accuracy, %     NLL              last position   swaps, trips "
        "published*  seconds"
    )
    results, ladders = before(output, names, sizes, seed), {}
    for method in METHODS:
        if method.name not in names or method.name in [found.method for found in results]:
            continue
        try:
            found, rows = result(problem, method, ratio)
        except tati_re.SamplingError as error:
            print(f"{method.name:14}{error}", flush=True)
            continue
        results.append(found)
        report(found, sizes)
        if rows is not None:
            ladders[method.name] = rows
        write(results, Result._fields, output / "results.csv")
    traces = [
        (name, *map(int, row))
        for name, rows in ladders.items()
        for row in rows[["step", "walker", "replica", "rung"]].values
    ]
    write(traces, ("method", "step", "run", "replica", "rung"), output / "rungs.csv")
    draw(results, ladders, output / "figure.png")
    images = "CIFAR-10" if of_resnet else "Fashion-MNIST"
    print(
        f"* {images}, {sizes.percent} % permuted; 'swaps, trips': accepted part, round trips of all runs"
    )
    print(f"\n{output / 'results.csv'}, {output / 'rungs.csv'}, {output / 'figure.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="RENHD and seven other methods on networks with permuted labels."
    )
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder that holds mnist.npz or cifar10_subset.npz",
    )
    parser.add_argument("--network", choices=tuple(SIZES), default="lstm", help="default lstm")
    names = [method.name for method in METHODS]
    parser.add_argument("--methods", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument(
        "--temperature-ratio",
        type=float,
        default=None,
        metavar="R",
        help="of neighboring rungs; default: by a pilot",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name in Sizes._fields[:-1]:
        told = ", ".join(
            f"{sizes._asdict()[name]:,} ({network})" for network, sizes in SIZES.items()
        )
        parser.add_argument(
            "--" + name.replace("_", "-"), type=int, metavar="N", help=f"default {told}"
        )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="generated images, a few short runs, in seconds"
    )
    size.add_argument(
        "--full",
        action="store_true",
        help="12 rungs, 10 runs, 1,000 epochs of all images, as published",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="default results/renhd_lstm or results/renhd_resnet",
    )
    arguments = parser.parse_args(argv)
    given = {
        name: getattr(arguments, name)
        for name in Sizes._fields
        if getattr(arguments, name) is not None
    }
    network = arguments.network
    sizes = (QUICK if arguments.quick else FULL if arguments.full else SIZES)[network]._replace(
        **given
    )
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, f"a folder with {DATA[network]}, or --quick"
            )
        data = None if arguments.quick else arguments.data
        output = arguments.output or Path("results") / f"renhd_{network}"
        experiment(
            data, arguments.methods, sizes, arguments.temperature_ratio, arguments.seed, output
        )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
