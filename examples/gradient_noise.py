"""Is the noise of mini-batch gradients Gaussian, layer by layer, over the course of a run? RENHD's
appendix, Figure 2.

The thermostats of RENHD and its relatives take the noise of a gradient to be Gaussian. Here the
gradients of many mini-batches at one place are projected on random unit vectors of one layer (a
block of a ResNet, a layer of an LSTM), and Shapiro and Wilk's test is made of sets of 50
projections, each set of mini-batches of its own. The part of tests with a p-value below 0.05 is
0.05 where the noise is Gaussian. Beside it stands the same of Gaussian numbers with the covariance
of the gradients: noise in few directions makes tests of one set alike, which scatters that part
more.

    python examples/gradient_noise.py --data FOLDER [--network lstm | resnet] [--quick | --full]
    [--output DIR]

FOLDER holds mnist.npz (lstm) or cifar10_subset.npz (resnet). The LSTM is that of renhd_lstm.py,
moved by SGNHT, the ResNet that of resghmc_resnet.py, trained by Adam. Writes NETWORK.csv and
NETWORK.png.

Source: R. Luo, Q. Zhang, Y. Yang, J. Wang, Replica-exchange Nosé-Hoover dynamics for Bayesian
learning on large datasets (2020), appendix C: ResNet-20.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import renhd_lstm
import resghmc_resnet

import tati_re

BATCHES_OF_A_TEST, VECTORS = 50, 25


class Sizes(NamedTuple):
    """How much is tested.

    Attributes:
        places: Steps after which gradients are tested.
        sets: Of 50 mini-batches, with 25 vectors each.
        num_train: Images.
        batch_size: Of a gradient.
        width: Units of the LSTM, or channels of the first stage.
        blocks: Of the ResNet, in each of three stages.
    """

    places: tuple[int, ...] = (0, 50, 200, 800)
    sets: int = 8
    num_train: int = 6_000
    batch_size: int = 128
    width: int = 32
    blocks: int = 1


DEFAULTS = {"lstm": Sizes(), "resnet": Sizes((0, 30, 100), 6, 2_000, 64, 8)}
QUICK = Sizes((0, 2), 1, 128, 8, 2)
FULL = {
    "lstm": Sizes((0, 500, 5_000, 50_000), 40, 60_000, 128, 128),
    "resnet": Sizes((0, 500, 5_000, 20_000), 40, 10_000, 128, 16, 3),
}


def blocks_of(names: Sequence[str], blocks: int) -> list[str]:
    """Of each parameter of the ResNet, its block; a block that changes the width has a convolution
    more.
    """
    kinds = [
        "stem",
        *(f"block {stage * blocks + k + 1}" for stage in range(3) for k in range(blocks)),
        "head",
    ]
    counts = [1, *(3 if stage and not k else 2 for stage in range(3) for k in range(blocks)), 1]
    of_layer = [kind for kind, count in zip(kinds, counts, strict=True) for _ in range(count)]
    tensors = [name.split("[")[0] for name in names]
    kernels = [tensor for tensor in dict.fromkeys(tensors) if tensor.endswith("kernel")]
    place, found = dict(zip(kernels, of_layer, strict=True)), []
    for tensor in tensors:
        # What follows a convolution, its batch normalization or bias, is of its block.
        found.append(place.get(tensor, found[-1] if found else kinds[0]))
    return found


def p_values(gradients: np.ndarray, seed: int) -> list[float]:
    """Of tests of `(batches, parameters)` less their mean, projected on random unit vectors."""
    from scipy.stats import shapiro

    vectors = np.random.default_rng(seed).standard_normal((gradients.shape[1], VECTORS))
    projections = (gradients - gradients.mean(0)) @ (vectors / np.linalg.norm(vectors, axis=0))
    return [shapiro(column).pvalue for column in projections.T]


def fractions(gradients: np.ndarray, seed: int) -> tuple[float, float, tuple[float, float]]:
    """Of tests of `(batches, parameters)` the part below 0.05: found, and of Gaussian numbers with
    their covariance; and the band of independent tests.
    """
    from tati_re.exchange import gaussianity_report

    random, sets = (
        np.random.default_rng([seed, 3]),
        np.array_split(gradients, len(gradients) // BATCHES_OF_A_TEST),
    )
    noise = gradients - gradients.mean(0)
    twins = [
        random.standard_normal((len(one), len(noise))) @ noise / np.sqrt(len(noise)) for one in sets
    ]
    found, like = (
        gaussianity_report(np.concatenate([p_values(one, k) for k, one in enumerate(all_sets)]))
        for all_sets in (sets, twins)
    )
    return found.fraction, like.fraction, found.band


def made(
    network: str, data: Path | None, sizes: Sizes, seed: int
) -> tuple[tati_re.Simulation, list[str]]:
    """The network with its data, and the layer of each parameter."""
    if network == "lstm":
        own = renhd_lstm.Sizes(
            num_train=sizes.num_train, num_test=10, num_units=sizes.width, num_runs=1
        )
        read, generated = renhd_lstm.read, renhd_lstm.generated
        digits = (
            generated(sizes.num_train, 10, seed)
            if data is None
            else read(data, sizes.num_train, 10)
        )
        sim = renhd_lstm.Problem(digits, own, seed).simulation
        sim.set_options(batch_size=sizes.batch_size)
        return sim, [name.split("[")[0] for name in sim.parameter_names()]
    own = resghmc_resnet.Sizes(batch_size=sizes.batch_size, blocks=sizes.blocks, width=sizes.width)
    read, generated = resghmc_resnet.read, resghmc_resnet.generated
    images = (
        generated(sizes.num_train, 10, seed) if data is None else read(data, sizes.num_train, 10)
    )
    sim = resghmc_resnet.simulation(images, own, seed, "frozen")[0]
    return sim, blocks_of(sim.parameter_names(), sizes.blocks)


def moved(sim: tati_re.Simulation, network: str, num_steps: int, temperature: float) -> None:
    """Takes more steps."""
    if network == "resnet":
        sim.fit(optimizer="adam", learning_rate=0.003, num_steps=num_steps, trajectory_every=0)
    else:
        options = {"sampler": "SGNHT", **renhd_lstm.DYNAMICS, "temperature": temperature}
        sim.sample(**options, num_steps=num_steps, record_every=num_steps, trajectory_every=0)


def measured(network: str, data: Path | None, sizes: Sizes, seed: int) -> list[dict]:
    """A line for each place and layer."""
    sim, layers = made(network, data, sizes, seed)
    names, lines, here = np.array(layers), [], 0
    for place in sizes.places:
        if place > here:
            moved(sim, network, place - here, 1 / sizes.num_train)
            here = place
        gradients = []
        for _ in range(sizes.sets * BATCHES_OF_A_TEST):
            sim.next_batch()
            gradients.append(np.ravel(sim.gradients()))
        gradients = np.array(gradients)
        for layer in dict.fromkeys(layers):
            found, like, (low, high) = fractions(gradients[:, names == layer], seed)
            lines.append(
                {
                    "step": place,
                    "layer": layer,
                    "parameters": int((names == layer).sum()),
                    "fraction": found,
                }
                | {
                    "of_gaussian_numbers": like,
                    "low": low,
                    "high": high,
                    "tests": sizes.sets * VECTORS,
                }
            )
            print(", ".join(f"{name} {value}" for name, value in lines[-1].items()), flush=True)
    return lines


def draw(lines: Sequence[dict], path: Path) -> None:
    """Fractions against the step, a line for each layer; dashed those of Gaussian numbers; the band
    in gray.
    """
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(7.5, 3.4)
    axes = figure.subplots()
    steps = list(dict.fromkeys(line["step"] for line in lines))
    layers = list(dict.fromkeys(line["layer"] for line in lines))
    axes.axhspan(lines[0]["low"], lines[0]["high"], color=GRAY, alpha=0.25, linewidth=0)
    for number, layer in enumerate(layers):
        own, color = (
            [line for line in lines if line["layer"] == layer],
            COLORS[number % len(COLORS)],
        )
        style = "os^v"[number // len(COLORS) % 4] + "-"
        axes.plot(
            range(len(steps)),
            [line["fraction"] for line in own],
            style,
            color=color,
            markersize=4,
            label=layer,
        )
        axes.plot(
            range(len(steps)),
            [line["of_gaussian_numbers"] for line in own],
            ":",
            color=color,
            linewidth=1,
        )
    axes.axhline(0.05, color=GRAY, linewidth=1)
    axes.set_xticks(range(len(steps)), [f"{step:,}" for step in steps])
    axes.set(xlabel="step", ylabel="part of tests below 0.05", ylim=(0, None))
    axes.legend(frameon=False, fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    plain(axes)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Is the noise of mini-batch gradients Gaussian, layer by layer?"
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="with mnist.npz or cifar10_subset.npz"
    )
    parser.add_argument(
        "--network", choices=("lstm", "resnet"), default="lstm", help="default lstm"
    )
    parser.add_argument(
        "--batch-size", type=int, metavar="N", help="default 128 (lstm), 64 (resnet)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="generated images, in seconds")
    size.add_argument("--full", action="store_true", help="LSTM of 128 units, ResNet-20")
    parser.add_argument(
        "--output", type=Path, default=Path("results/gradient_noise"), metavar="DIR"
    )
    given = parser.parse_args(argv)
    sizes = QUICK if given.quick else FULL[given.network] if given.full else DEFAULTS[given.network]
    if given.batch_size is not None:
        sizes = sizes._replace(batch_size=given.batch_size)
    try:
        if given.data is None and not given.quick:
            raise tati_re.InputError("--data is missing.", None, "a folder with images, or --quick")
        if not 1 <= sizes.batch_size <= sizes.num_train:
            raise tati_re.InputError(
                "--batch-size is out of range.", sizes.batch_size, f"1 to {sizes.num_train:,}"
            )
        lines = measured(given.network, None if given.quick else given.data, sizes, given.seed)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    given.output.mkdir(parents=True, exist_ok=True)
    with (given.output / f"{given.network}.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, lines[0], lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    draw(lines, given.output / f"{given.network}.png")
    print(f"{given.output / given.network}.csv, {given.output / given.network}.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
