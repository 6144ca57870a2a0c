"""Replica exchange SGHMC on a ResNet-20: two chains, one five times as hot, and the correction of
their noisy swaps.

The network (0.27 million parameters, convolutions without biases, batch normalization) is trained
by Adam on 10,000 images of CIFAR-10, which also learns the moving statistics of the batch
normalization. Then reSGHMC samples; half way the run stops, and is resumed from its folder. Each
mini-batch is normalized by its own mean and variance, as in the published chains: U is another
function for each batch, forces go through its statistics too, and swaps and predictions take the
moving averages of each chain. With `--batch-norm frozen` both chains move the trainable parameters
of a network that normalizes by the fixed numbers that Adam left.

The scale is the published one: temperatures 0.01 and 0.05 of U = N * mean loss - log prior, weight
decay 25 for 50,000 images, a momentum that keeps 0.9, a rate of the hot chain 1.5 times that of the
cold one, swaps that are corrected with F = 3e5, which falls by 0.8 at every swap and grows by 1.02
in an epoch. With F that far above 1 the swaps are biased; beside the swaps that were made stand
those that F = 1 and no correction would have made of the same energies. With `--annealed`
temperatures fall by 1.02 and, after two fifths of the run, rates by 0.984 in each 500th of it,
which stands for an epoch of the published schedule; else both are constant.

`--methods` puts SGHMC and SGD with momentum beside it, from the same starts and with as many
gradients as both chains together; `--num-runs` repeats all from other seeds, and `--factors` scans
F.

    python examples/resghmc_resnet.py --data FOLDER [--annealed] [--num-steps 200] [--batch-norm
    frozen] [--output DIR] python examples/resghmc_resnet.py --data FOLDER --annealed --full
    --num-runs 3 --factors 1 3e5 \\
        --methods reSGHMC SGHMC "momentum SGD"

FOLDER holds cifar10_subset.npz with x_train, y_train, x_test, y_test, images as bytes. Writes
results.csv, swaps.csv and figure.png, with several F also factors.png, in 5 minutes on 2 cores.
What `--methods`, `--num-runs` and `--factors` add is not run again where results.csv has it.

Published: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin, Non-convex learning via replica exchange
stochastic gradient MCMC (ICML 2020): CIFAR-10 with all 50,000 images, augmented, 500 epochs of
batch 256, average of predictions.
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

from published import published

import tati_re

TEMPERATURES = (0.01, 0.05)
WEIGHT_DECAY = 5e-4
"""Of the mean loss: 25 for the sum over 50,000 images."""
MOMENTUM_LOST = 0.1
HOT_STEP = math.sqrt(1.5)
FACTOR, FACTOR_DECAY, FACTOR_GROWTH = 3e5, 0.8, 1.02
PUBLISHED = published("resgld_networks")
"""Accuracies in % of averaged predictions, and settings."""
NUM_DRAWS = 10
SMALLEST_NUM_STEPS = 40


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_fit_steps: Of Adam.
        num_steps: Of reSGHMC, a third of them burn-in.
        exchange_every: Steps between two tries to swap.
        batch_size: Of a gradient.
        exchange_batch_size: Images of an energy estimate.
        num_train: Training images.
        num_test: Test images that count.
        blocks: In each of three stages: 6 blocks + 2 layers, 3 for ResNet-20.
        width: Channels of the first stage.
    """

    num_fit_steps: int = 200
    num_steps: int = 200
    exchange_every: int = 4
    batch_size: int = 64
    exchange_batch_size: int = 256
    num_train: int = 10_000
    num_test: int = 1_000
    blocks: int = 3
    width: int = 16


QUICK = Sizes(20, 40, 2, 16, 32, 64, 32, 1, 2)
FULL = Sizes(200, 500 * 10_000 // 256, 4, 256, 1_000, 10_000, 2_000)
METHODS = ("reSGHMC", "SGHMC", "momentum SGD")
EPOCHS = int(PUBLISHED["epochs, batch"][0])
COOLING, DECAY, DECAY_AFTER = map(
    float, PUBLISHED["cooling and decay of the rate in an epoch, epochs before it"]
)


class Images(NamedTuple):
    """Images `(n, 32, 32, 3)` as bytes, and labels `(n,)`."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Result(NamedTuple):
    """Test accuracy in % and negative log likelihood of a test image in nats, of predictions
    averaged over draws.
    """

    name: str
    draws: int
    accuracy: float
    nll: float
    factor: float = math.nan
    seed: int = 0
    swaps: float = math.nan
    """Accepted ones of each try."""


def read(folder: Path, num_train: int, num_test: int) -> Images:
    """The first images of the set."""
    path = folder / "cifar10_subset.npz"
    if not path.is_file():
        expected = "a folder that holds cifar10_subset.npz"
        raise tati_re.InputError("--data: there is no cifar10_subset.npz.", folder, expected)
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
    return Images(
        train[:num_train],
        labels[:num_train].ravel(),
        test[:num_test],
        test_labels[:num_test].ravel(),
    )


def generated(num_train: int, num_test: int, seed: int) -> Images:
    """Ten patterns of 8 x 8 with noise."""
    random = np.random.default_rng(seed)
    patterns, labels = random.integers(0, 192, (10, 8, 8, 3)), np.arange(num_train + num_test) % 10
    images = (patterns[labels] + random.integers(0, 64, (len(labels), 8, 8, 3))).astype(np.uint8)
    return Images(images[:num_train], labels[:num_train], images[num_train:], labels[num_train:])


def resnet(shape: tuple[int, ...], blocks: int, width: int, batch_norm: bool = True):
    """A residual network for small images: K. He, X. Zhang, S. Ren, J. Sun (2016), section 4.2,
    with projections. Without `batch_norm` layers are normalized over the channels and places of
    each image.
    """
    import keras
    from keras import layers

    def normalised(x, channels: int, stride: int = 1, size: int = 3):
        x = layers.Conv2D(
            channels, size, stride, "same", use_bias=False, kernel_initializer="he_normal"
        )(x)
        # Short trainings need statistics that follow soon.
        return (
            layers.BatchNormalization(momentum=0.9) if batch_norm else layers.GroupNormalization(1)
        )(x)

    inputs = keras.Input(shape)
    x = layers.ReLU()(normalised(inputs, width))
    for stage in range(3):
        channels = width * 2**stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            y = layers.ReLU()(normalised(x, channels, stride))
            y = normalised(y, channels)
            x = x if stride == 1 else normalised(x, channels, stride, 1)
            x = layers.ReLU()(layers.Add()([x, y]))
    return keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def simulation(
    images: Images, sizes: Sizes, seed: int, batch_norm: str = "batch", execution: str = "auto"
) -> tuple[tati_re.Simulation, Any]:
    """The network on its data, and these, which a resumed run needs again."""
    import keras

    from tati_re.data import Dataset

    keras.utils.set_random_seed(seed)
    dataset = Dataset.from_arrays(
        images.train, images.train_labels, name="CIFAR-10", input_scale=1 / 255, num_classes=10
    )
    sim = tati_re.Simulation(
        resnet(images.train.shape[1:], sizes.blocks, sizes.width),
        dataset,
        loss="sparse_categorical_crossentropy",
        from_logits=True,
        prior_std=1 / math.sqrt(WEIGHT_DECAY * len(images.train)),
        batch_size=min(sizes.batch_size, len(images.train)),
        batch_norm=batch_norm,
        execution=execution,
        seed=seed,
        verbose=0,
    )
    return sim, dataset


def annealed(num_steps: int, step_size: float) -> dict[str, Any]:
    """Temperature and step size of the cold chain at the steps where they change."""
    epochs = np.arange(min(EPOCHS, num_steps))
    steps = (1 + epochs * num_steps // len(epochs)).tolist()
    epochs = epochs * EPOCHS / len(epochs)
    temperatures = TEMPERATURES[0] * COOLING**-epochs
    sizes = step_size * DECAY ** (np.maximum(0, epochs - DECAY_AFTER) / 2)
    tables = {"temperature_schedule": temperatures, "step_schedule": sizes}
    return {name: list(zip(steps, values.tolist(), strict=True)) for name, values in tables.items()}


def alone(
    sim: tati_re.Simulation, name: str, sizes: Sizes, rate: float, anneals: bool, images: Images
) -> Result:
    """One chain that takes the gradients of both: the average over draws of SGHMC, or where SGD
    ends.
    """
    num_steps = 2 * sizes.num_steps
    if name == "momentum SGD":
        momentum = 1 - MOMENTUM_LOST
        sim.fit(
            optimizer="sgd",
            momentum=momentum,
            learning_rate=rate,
            num_steps=num_steps,
            trajectory_every=0,
        )
        return score(name, sim, images)
    num_burnin_steps, step_size = num_steps // 3, math.sqrt(rate / sim.dataset.num_examples)
    run = sim.sample(
        sampler="SGHMC",
        temperature=TEMPERATURES[0],
        step_size=step_size,
        friction=MOMENTUM_LOST / step_size,
        num_steps=num_steps,
        num_burnin_steps=num_burnin_steps,
        trajectory_every=max(1, (num_steps - num_burnin_steps) // NUM_DRAWS),
        **(annealed(num_steps, step_size) if anneals else {}),
    )
    return scores(name, run, images)[1]


def sampled(
    sim: tati_re.Simulation,
    dataset,
    sizes: Sizes,
    rate: float,
    folder: Path,
    factor: float = FACTOR,
    anneals: bool = False,
    stops: bool = True,
):
    """Samples with reSGHMC, stops half way, and goes on from the folder.

    Args:
        sim: Where it starts.
        dataset: Its data.
        sizes: Of the run.
        rate: Learning rate of the mean loss, cold chain.
        folder: Run folder.
        factor: F at the start.
        anneals: Temperatures and rates fall.
        stops: Half way; else the run is made in one call.
    """
    num_examples = dataset.num_examples
    step_size = math.sqrt(rate / num_examples)
    epoch = num_examples / sizes.batch_size
    half, num_burnin_steps = sizes.num_steps // 2, sizes.num_steps // 3
    schedules = annealed(sizes.num_steps, step_size) if anneals else {}
    run = sim.sample(
        sampler="reSGHMC",
        temperatures=list(TEMPERATURES),
        step_sizes=[step_size, HOT_STEP * step_size],
        friction=MOMENTUM_LOST / step_size,
        swap_schedule="all_pairs",
        exchange_every=sizes.exchange_every,
        exchange_batch_size=min(sizes.exchange_batch_size, num_examples),
        correction_factor=factor,
        correction_decay=FACTOR_DECAY,
        correction_growth=FACTOR_GROWTH ** (1000 / epoch),
        num_steps=half if stops else sizes.num_steps,
        num_burnin_steps=num_burnin_steps,
        record_every=1,
        trajectory_every=max(1, (sizes.num_steps - num_burnin_steps) // NUM_DRAWS),
        output=str(folder),
        overwrite=True,
        **schedules,
    )
    if not stops:
        return run
    return tati_re.Simulation.resume(
        str(folder), num_steps=sizes.num_steps, data=dataset, verbose=0, **schedules
    )


class Swaps(NamedTuple):
    """What became of each try to swap, arrays `(tries,)`.

    Attributes:
        step: When.
        delta: ln of the estimated Metropolis ratio.
        correction: V/2 for F = 1, which makes swaps exact for normal noise.
        factor: F at that step.
        swaps: Accepted so far.
        without: Swaps expected so far of the same energies without a correction.
        exact: With F = 1.
    """

    step: np.ndarray
    delta: np.ndarray
    correction: np.ndarray
    factor: np.ndarray
    swaps: np.ndarray
    without: np.ndarray
    exact: np.ndarray


def swaps_of(events, epoch: float, first: float = FACTOR) -> Swaps:
    """The tries of exchange.csv.

    Args:
        events: Its rows.
        epoch: Steps of one.
        first: F at the start.
    """
    step, delta, variance, accepted = (
        events[name].to_numpy(float) for name in ("step", "delta", "variance", "accepted")
    )
    swaps = np.cumsum(accepted)
    factor = first * FACTOR_DECAY ** (swaps - accepted) * FACTOR_GROWTH ** (step / epoch)

    def expected(log_ratio):
        return np.cumsum(np.exp(np.minimum(0.0, log_ratio)))

    return Swaps(
        step, delta, variance / 2, factor, swaps, expected(delta), expected(delta - variance / 2)
    )


def score(name: str, sim: tati_re.Simulation, images: Images) -> Result:
    """Predictions where the walker is."""
    from tati_re.prediction import accuracy, negative_log_likelihood

    found, labels = sim.predict_probabilities(images.test), images.test_labels
    return Result(name, 1, 100 * accuracy(found, labels), negative_log_likelihood(found, labels))


def scores(name: str, run, images: Images) -> tuple[Result, Result]:
    """The last draw of a run, and its average; each draw has the statistics of batches at its own
    parameters.
    """
    found = run.predict(images.test, images.test_labels, thin=1)
    all_, last = found.scores(), (100 * found.draw_accuracy[-1], found.draw_losses[-1])
    average = 100 * all_["accuracy"], all_["negative_log_likelihood"]
    return Result(f"{name} (last draw)", 1, *map(float, last)), Result(
        name, found.num_draws, *average
    )


def before(output: Path, settings: dict[str, Any]) -> list[Result]:
    """The results of single chains and other F that a call with the same settings has left in the
    folder.

    Raises:
        InputError: It has results of other settings.
    """
    path = output / "settings.json"
    if path.is_file() and json.loads(path.read_text()) != settings:
        raise tati_re.InputError(
            "--output has results of other settings.", output, "another folder"
        )
    write([[json.dumps(settings)]], [], path)
    if not (output / "results.csv").is_file():
        return []
    with (output / "results.csv").open(newline="") as file:
        rows = [Result(*row) for row in list(csv.reader(file))[1:]]
    return [
        Result(row.name, int(row.draws), *map(float, row[2:5]), int(row.seed), float(row.swaps))
        for row in rows
        if row.name in METHODS
    ]


def write(rows: Sequence[Sequence], header: Sequence[str], path: Path) -> None:
    """Writes a CSV file."""
    lines = [
        ",".join(f"{value:.8g}" if isinstance(value, float) else str(value) for value in row)
        for row in rows
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([",".join(header), *lines, ""]))
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", path.parent
        ) from None


def draw_scan(results: Sequence[Result], path: Path) -> None:
    """Draws accepted swaps and accuracies against F, a dot for each seed and a line through their
    means.
    """
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(7.5, 3.2)
    scan = [row for row in results if row.name in (METHODS[0], "reSGHMC (average)")]
    factors = sorted({row.factor for row in scan})
    panels = figure.subplots(1, 2)
    for axes, name, label in zip(
        panels, ("swaps", "accuracy"), ("swaps a try", "test accuracy, %"), strict=True
    ):
        axes.plot(
            [row.factor for row in scan], [getattr(row, name) for row in scan], ".", color=COLORS[0]
        )
        means = [
            np.mean([getattr(row, name) for row in scan if row.factor == factor])
            for factor in factors
        ]
        axes.plot(factors, means, color=COLORS[0], linewidth=1, label=METHODS[0])
        for alone_, style in zip(METHODS[1:], ("--", ":"), strict=True):
            found = [row.accuracy for row in results if row.name == alone_]
            if found and name == "accuracy":
                axes.axhline(np.mean(found), color=GRAY, linestyle=style, linewidth=1, label=alone_)
        axes.set_xscale("log")
        axes.set_xlabel("F at the start")
        axes.set_ylabel(label)
        plain(axes)
    panels[1].legend(fontsize=7, frameon=False)
    save(figure, path)


def draw(swaps: Swaps, rows, resumed_at: int, epoch: float, path: Path) -> None:
    """Draws the losses of both chains, what swaps gain and the corrections, and the number of
    swaps, over epochs.
    """
    from tati_re.plotting import COLORS, DARK, GRAY, new_figure, plain, save

    figure = new_figure(10.5, 3.3)
    left, middle, right = figure.subplots(1, 3)
    epochs = swaps.step / epoch
    for rung, label in enumerate((f"T = {TEMPERATURES[0]:g}", f"T = {TEMPERATURES[1]:g}")):
        there = rows[rows["rung"] == rung].sort_values("step")
        smooth = there["loss"].rolling(10, min_periods=1).mean()
        left.plot(there["step"] / epoch, smooth, color=COLORS[rung], linewidth=1, label=label)
    left.set_ylabel("loss of mini-batches, mean of 10")
    middle.plot(
        epochs, np.abs(swaps.delta), ".", color=GRAY, markersize=3, label="|ln ratio|, estimated"
    )
    middle.plot(epochs, swaps.correction, color=DARK, linewidth=1, label="correction, F = 1")
    middle.plot(
        epochs,
        swaps.correction / swaps.factor,
        color=COLORS[1],
        linewidth=1,
        label="correction made",
    )
    middle.set_yscale("log")
    middle.set_ylabel("nats")
    right.plot(epochs, swaps.without, "--", color=GRAY, linewidth=1, label="expected uncorrected")
    right.step(epochs, swaps.swaps, where="post", color=COLORS[1], linewidth=1.3, label="made")
    right.plot(epochs, swaps.exact, color=DARK, linewidth=1, label="expected, F = 1")
    right.set_ylabel("swaps so far")
    for axes in (left, middle, right):
        axes.axvline(resumed_at / epoch, color=GRAY, linestyle=":", linewidth=1)
        axes.set_xlabel("epoch")
        axes.legend(fontsize=7, frameon=False)
        plain(axes)
    save(figure, path)


def experiment(
    data: Path | None,
    sizes: Sizes,
    rate: float,
    seed: int,
    output: Path,
    batch_norm: str = "batch",
    methods: Sequence[str] = METHODS[:1],
    num_runs: int = 1,
    factors: Sequence[float] = (FACTOR,),
    anneals: bool = False,
    execution: str = "auto",
) -> None:
    """Trains, samples, resumes, scores; without a folder, on generated images.

    Args:
        data: The folder.
        sizes: Of the runs.
        rate: Learning rate of the mean loss, of the cold chain.
        seed: Of start, mini-batches and dynamics.
        output: Folder of the files.
        batch_norm: "frozen" or "batch".
        methods: What is run from each start.
        num_runs: Starts, from this seed on.
        factors: F at the start of reSGHMC.
        anneals: Temperatures and rates fall.
        execution: "auto", "xla" or "graph".

    Raises:
        InputError: A file that is not there, a size that is too small, or a folder that cannot be
            written.
    """
    if sizes.num_steps < SMALLEST_NUM_STEPS:
        raise tati_re.InputError(
            "--num-steps is too small.", sizes.num_steps, f"at least {SMALLEST_NUM_STEPS}"
        )
    if data is None:
        images = generated(sizes.num_train, sizes.num_test, seed)
    else:
        images = read(data, sizes.num_train, sizes.num_test)
    settings = {
        **sizes._asdict(),
        "rate": rate,
        "batch_norm": batch_norm,
        "anneals": anneals,
        "first": seed,
    }
    earlier = before(output, settings)
    sim, dataset = simulation(images, sizes, seed, batch_norm, execution)
    num_examples = dataset.num_examples
    print(
        f"ResNet-{6 * sizes.blocks + 2}, {sim.num_parameters():,} parameters; N = {num_examples:,} images, batches "
        f"of {sizes.batch_size}; U = N * mean loss - log prior, prior with standard deviation "
        f"{1 / math.sqrt(WEIGHT_DECAY * num_examples):.3f}; temperatures {TEMPERATURES[0]:g} and {TEMPERATURES[1]:g}; "
        f"batch normalization {'frozen' if batch_norm == 'frozen' else 'by each batch'} while sampling",
        flush=True,
    )
    sim.fit(
        optimizer="adam",
        learning_rate=0.003,
        num_steps=sizes.num_fit_steps,
        record_every=sizes.num_fit_steps,
        trajectory_every=0,
    )
    start = sim.parameters.copy()
    results = [score("Adam (where sampling starts)", sim, images)]
    print(f"after {sizes.num_fit_steps} steps of Adam: {results[0].accuracy:.1f} %", flush=True)
    run = sampled(sim, dataset, sizes, rate, output / "run", factors[0], anneals)
    last, average = scores(METHODS[0], run, images)
    results += [last, average._replace(name="reSGHMC (average)")]
    epoch = num_examples / sizes.batch_size
    swaps = swaps_of(run.exchanges, epoch, factors[0])
    ours = {"factor": factors[0], "swaps": swaps.swaps[-1] / len(swaps.step)}
    results = [
        found._replace(seed=seed, **(ours if "reSGHMC" in found.name else {})) for found in results
    ]
    print(f"\n{'':30}draws  test accuracy, %   NLL")
    for found in results:
        print(f"{found.name:30}{found.draws:<7}{found.accuracy:<19.2f}{found.nll:.3f}")
    count, (epochs, batch) = (
        PUBLISHED["number of images, weight decay"][0],
        PUBLISHED["epochs, batch"],
    )
    accuracies = ", ".join(f"{name} {PUBLISHED[name]}" for name in ("reSGHMC", "SGHMC"))
    print(f"published, {count} images, augmented, {epochs} epochs of batch {batch}: {accuracies}")
    print(
        f"\nswaps: {swaps.swaps[-1]:.0f} of {len(swaps.step)} tries; of the same energies F = 1 would make "
        f"{swaps.exact[-1]:.1f}, no correction {swaps.without[-1]:.1f}; F went from {factors[0]:.0e} to "
        f"{swaps.factor[-1]:.2g}; median |ln ratio| {np.median(np.abs(swaps.delta)):,.0f}, correction at F = 1 "
        f"{np.median(swaps.correction):,.0f}, made {np.median(swaps.correction / swaps.factor):,.2f}"
    )
    print(f"stopped at step {sizes.num_steps // 2} and resumed from {output / 'run'}")
    write(results, Result._fields, output / "results.csv")
    write(
        list(zip(*(values.tolist() for values in swaps), strict=True)),
        Swaps._fields,
        output / "swaps.csv",
    )
    draw(swaps, run.run_info, sizes.num_steps // 2, epoch, output / "figure.png")
    for k in range(seed, seed + num_runs):
        wanted = [
            (name, F) for name in methods for F in (factors if name == METHODS[0] else (math.nan,))
        ]
        wanted = [each for each in wanted if (k, each) != (seed, (METHODS[0], factors[0]))]
        results += [row for row in earlier if row.seed == k and row.name in methods]
        done = [(row.name, f"{row.factor:g}") for row in earlier if row.seed == k]
        wanted = [(name, factor) for name, factor in wanted if (name, f"{factor:g}") not in done]
        if wanted and k > seed:
            sim, dataset = simulation(images, sizes, k, batch_norm, execution)
            sim.fit(
                optimizer="adam",
                learning_rate=0.003,
                num_steps=sizes.num_fit_steps,
                trajectory_every=0,
            )
            start = sim.parameters.copy()
        for name, factor in wanted:
            sim.parameters = start
            if name == METHODS[0]:
                other = sampled(
                    sim,
                    dataset,
                    sizes,
                    rate,
                    output / f"run_{factor:g}_{k}",
                    factor,
                    anneals,
                    stops=False,
                )
                found = scores(name, other, images)[1]._replace(
                    swaps=float(other.exchanges["accepted"].mean())
                )
            else:
                found = alone(sim, name, sizes, rate, anneals, images)
            results.append(found._replace(factor=factor, seed=k))
            print(
                f"{name}, F = {factor:g}, seed {k}: {found.accuracy:.2f} %, {found.nll:.3f}",
                flush=True,
            )
            write(results, Result._fields, output / "results.csv")
    scanned = len(factors) > 1
    if scanned:
        draw_scan(results, output / "factors.png")
    names = ("results.csv", "swaps.csv", "figure.png", *(["factors.png"] if scanned else []))
    print(", ".join(str(output / name) for name in names))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Replica exchange SGHMC on a ResNet-20.")
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder that holds cifar10_subset.npz"
    )
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=0.01,
        metavar="R",
        help="of the mean loss, cold chain; default 0.01",
    )
    parser.add_argument(
        "--batch-norm",
        choices=["frozen", "batch"],
        default="batch",
        help="statistics while sampling; default batch, as published",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name, default in Sizes._field_defaults.items():
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=int,
            default=None,
            metavar="N",
            help=f"default {default:,}",
        )
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=METHODS[:1], help="default reSGHMC"
    )
    parser.add_argument("--num-runs", type=int, default=1, metavar="N", help="starts; default 1")
    parser.add_argument(
        "--factors",
        nargs="+",
        type=float,
        default=[FACTOR],
        metavar="F",
        help=f"F at the start; default {FACTOR:g}",
    )
    parser.add_argument("--annealed", action="store_true", help="temperatures and rates fall")
    parser.add_argument(
        "--execution", choices=["auto", "xla", "graph"], default="auto", help="default auto"
    )
    size = parser.add_mutually_exclusive_group()
    size.add_argument(
        "--quick", action="store_true", help="generated images, a small network, in seconds"
    )
    size.add_argument(
        "--full", action="store_true", help="500 epochs of batch 256 on 10,000 images"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/resghmc_resnet"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    given = {
        name: getattr(arguments, name)
        for name in Sizes._fields
        if getattr(arguments, name) is not None
    }
    sizes = (QUICK if arguments.quick else FULL if arguments.full else Sizes())._replace(**given)
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, "a folder with cifar10_subset.npz, or --quick"
            )
        data = None if arguments.quick else arguments.data
        if arguments.num_runs < 1:
            raise tati_re.InputError("--num-runs is too small.", arguments.num_runs, "1 or more")
        experiment(
            data,
            sizes,
            arguments.learning_rate,
            arguments.seed,
            arguments.output,
            arguments.batch_norm,
            arguments.methods,
            arguments.num_runs,
            arguments.factors,
            arguments.annealed,
            arguments.execution,
        )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
