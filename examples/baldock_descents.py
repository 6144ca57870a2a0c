"""Whether descents predict better than the posterior depends on where a descent stops.

Networks, images and starts are as in replica_exchange_hmc.py. 16 descents start at small weights.
Each continues until the largest |θ_i| sqrt(k_i), with k_i = fan-in + 1, reaches a bound, as in the
paper: 30 for linear outputs, 890 for logistic ones. The test loss at the bound depends on the
optimizer, so two are compared. The script also reports a stop after 500 steps, the last step, and
the least test loss along the descent, which no user can know.

    python examples/baldock_descents.py --data FOLDER [--sets 500 50] [--nets linear logistic]

FOLDER holds mnist.npz and nn_sample_mnist_train_indices_50.txt. Writes descents.csv (a row for each
set, network, optimizer, descent and recorded step), stops.csv (a row for each stop) and figure.png,
in some minutes on 2 cores.

Published: R. Baldock, N. Marzari, Bayesian neural networks at finite temperature (arXiv
1904.04154).
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import published
from replica_exchange_hmc import (
    NETS,
    WORDS,
    Digits,
    Net,
    fan_in_plus_one,
    generated,
    read,
    simulation,
    test_observables,
)

import tati_re

BOUNDS = {name: float(value) for name, value in published("baldock_descents").items()}
"""Of the largest |θ_i| sqrt(k_i), by network."""
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "FIRE": {"optimizer": "fire", "learning_rate": 0.1},
    "Adam": {"optimizer": "adam", "learning_rate": 0.03},
}
"""The potential is the sum over the images; Adam does not see its scale."""
FEW_STEPS = 500
"""The stop of the baseline of replica_exchange_hmc.py."""
SMALLEST_NUM_STEPS = 40
_WIDE_RANGE = 20.0
"""Ratio of training losses above which their axis is logarithmic."""


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_descents: From each network and set.
        num_steps: The longest descent.
        record_every: Steps between two looks at the bound.
        num_test: Test images that count.
    """

    num_descents: int = 16
    num_steps: int = 4_000
    record_every: int = 10
    num_test: int = 2_000


QUICK = Sizes(4, 40, 10, 100)


class Stop(NamedTuple):
    """Means over the descents at one stop; losses are means over images in nats.

    Attributes:
        set_name: Training images.
        net_name: Key of NETS.
        optimizer: Key of OPTIMIZERS.
        stop: Where the descents stop.
        reached: Descents that came there.
        steps: Mean number of steps.
        train_loss: Training loss.
        test_loss: Test loss.
        test_loss_error: Standard error over the descents.
        test_accuracy: Part of the test images.
        largest: Mean of the largest |θ_i| sqrt(k_i).
    """

    set_name: str
    net_name: str
    optimizer: str
    stop: str
    reached: int
    steps: float
    train_loss: float
    test_loss: float
    test_loss_error: float
    test_accuracy: float
    largest: float


def largest_weight(net: Net):
    """The column `largest` of run.csv: the largest |θ_i| sqrt(k_i) of each walker."""
    import tensorflow as tf

    factors = np.sqrt(fan_in_plus_one(net))

    def largest(position):
        scaled = tf.cast(tf.abs(position), tf.float64) * tf.constant(factors)
        return tf.reduce_max(scaled, axis=-1)

    return largest


def descended(digits: Digits, net: Net, optimizer: str, sizes: Sizes, seed: int):
    """The rows of all descents: step, walker, loss, test_loss, test_accuracy, largest."""
    k = fan_in_plus_one(net)
    random = np.random.default_rng(seed)
    sim = simulation(digits, net, sizes.num_descents, seed)
    sim.parameters = random.uniform(-1, 1, (sizes.num_descents, len(k))) / np.sqrt(k)
    run = sim.fit(
        **OPTIMIZERS[optimizer],
        num_steps=sizes.num_steps,
        record_every=sizes.record_every,
        trajectory_every=0,
        observables=test_observables(digits, net) | {"largest": largest_weight(net)},
    )
    rows = run.run_info
    columns = ["step", "walker", "loss", "test_loss", "test_accuracy", "largest"]
    rows = rows[columns].sort_values(["walker", "step"], ignore_index=True)
    return rows


def stops(rows, bound: float) -> dict[str, Any]:
    """The rows where descents stop, by the name of the stop."""
    there = rows[rows["largest"] >= bound].groupby("walker").first().reset_index()
    few = rows[rows["step"] == FEW_STEPS]
    least = rows.loc[rows.groupby("walker")["test_loss"].idxmin()]
    last = rows.groupby("walker").last().reset_index()
    return {
        f"bound {bound:g}": there,
        f"{FEW_STEPS} steps": few,
        "least test loss": least,
        "last step": last,
    }


def mean_at(rows, place: tuple[str, str, str], stop: str) -> Stop:
    """Means over the descents that came to a stop."""
    count = len(rows)
    means = rows.mean() if count else rows.mean() * math.nan
    error = rows["test_loss"].std(ddof=1) / math.sqrt(count) if count > 1 else math.nan
    return Stop(
        *place,
        stop,
        count,
        float(means["step"]),
        float(means["loss"]),
        float(means["test_loss"]),
        float(error),
        float(means["test_accuracy"]),
        float(means["largest"]),
    )


def report(found: Stop, num_descents: int) -> None:
    """Prints a line of the table."""
    print(
        f"{found.optimizer:17}{found.stop:17}{f'{found.reached} of {num_descents}':10}"
        f"{found.steps:<8,.0f}{found.train_loss:<10.4f}"
        f"{f'{found.test_loss:.3f} ± {found.test_loss_error:.3f}':18}"
        f"{found.test_accuracy:<10.3f}{found.largest:.1f}",
        flush=True,
    )


def draw(paths: dict[tuple[str, str, str], Any], path: Path) -> None:
    """Draws test loss against training loss on the way, the median over descents, with a mark
    where the bound is reached.
    """
    from tati_re.plotting import COLORS, new_figure, plain, save

    cases = list(dict.fromkeys(key[:2] for key in paths))
    figure = new_figure(4.2 * len(cases), 3.4)
    panels = np.atleast_1d(figure.subplots(1, len(cases), squeeze=False)[0])
    for axes, case in zip(panels, cases, strict=True):
        losses = [paths[*case, optimizer]["loss"] for optimizer in OPTIMIZERS]
        least, greatest = (function(np.concatenate(losses)) for function in (np.min, np.max))
        for place, optimizer in enumerate(OPTIMIZERS):
            rows = paths[*case, optimizer]
            medians = rows.groupby("step")[["loss", "test_loss"]].median()
            color = COLORS[place]
            axes.plot(medians["loss"], medians["test_loss"], color=color, label=optimizer)
            there = rows[rows["largest"] >= BOUNDS[case[1]]].groupby("walker").first()
            axes.plot(there["loss"], there["test_loss"], "o", color=color, markersize=3)
        if greatest > _WIDE_RANGE * least:
            axes.set_xscale("log")
        axes.set_xlabel("training loss")
        axes.set_ylabel("test loss")
        axes.set_title(f"{case[0]} images, {WORDS[case[1]]}", fontsize=9, loc="left")
        plain(axes)
    panels[0].legend(fontsize=7, frameon=False)
    save(figure, path)


def experiment(
    data: Path | None,
    sets: Sequence[str],
    nets: Sequence[str],
    sizes: Sizes,
    seed: int,
    output: Path,
) -> None:
    """Runs all descents; without a folder, on generated images.

    Args:
        data: The folder.
        sets: "500", "50".
        nets: Keys of BOUNDS.
        sizes: Of the descents.
        seed: Of the 50 images, the test images and the starts.
        output: Folder of the files.

    Raises:
        InputError: A file that is not there, a size that is too small, or a folder that cannot be
            written.
    """
    import pandas as pd

    if sizes.num_steps < SMALLEST_NUM_STEPS:
        expected = f"at least {SMALLEST_NUM_STEPS}"
        raise tati_re.InputError("--num-steps is too small.", sizes.num_steps, expected)
    digits = generated(sizes.num_test, seed) if data is None else read(data, sizes.num_test, seed)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None

    paths, found = {}, []
    for set_name in (name for name in sets if name in digits):
        for net_name in nets:
            print(f"\n{len(digits[set_name].train)} images, {WORDS[net_name]}")
            print(
                "optimizer        stop             reached   steps   training  test loss         accuracy  largest"
            )
            for optimizer in OPTIMIZERS:
                place = (set_name, net_name, optimizer)
                rows = descended(digits[set_name], NETS[net_name], optimizer, sizes, seed)
                paths[place] = rows
                for stop, there in stops(rows, BOUNDS[net_name]).items():
                    found.append(mean_at(there, place, stop))
                    report(found[-1], sizes.num_descents)

    pd.concat(
        [
            rows.assign(set=place[0], net=place[1], optimizer=place[2])
            for place, rows in paths.items()
        ]
    ).to_csv(output / "descents.csv", index=False)
    pd.DataFrame(found).to_csv(output / "stops.csv", index=False)
    draw(paths, output / "figure.png")
    print(f"\n{output / 'descents.csv'}, {output / 'stops.csv'}, {output / 'figure.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the descents; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Test losses of descents by where they stop.")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="FOLDER",
        help="folder that holds mnist.npz and nn_sample_mnist_train_indices_50.txt",
    )
    parser.add_argument("--sets", nargs="+", choices=("500", "50"), default=("500", "50"))
    parser.add_argument("--nets", nargs="+", choices=tuple(BOUNDS), default=tuple(BOUNDS))
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name, default in Sizes._field_defaults.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=int, metavar="N", help=f"default {default:,}")
    parser.add_argument("--quick", action="store_true", help="generated images, in seconds")
    parser.add_argument(
        "--output", type=Path, default=Path("results/baldock_descents"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    given = {
        name: getattr(arguments, name)
        for name in Sizes._fields
        if getattr(arguments, name) is not None
    }
    sizes = (QUICK if arguments.quick else Sizes())._replace(**given)
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, "a folder with mnist.npz and the list, or --quick"
            )
        data = None if arguments.quick else arguments.data
        experiment(data, arguments.sets, arguments.nets, sizes, arguments.seed, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
