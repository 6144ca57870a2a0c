"""TATi's training of a softmax perceptron on MNIST in three stages: 7,850 parameters, 55,000
images.

    python examples/tati_mnist_training.py --data FOLDER [--stages 3000:0.5:550 3000:0.05:5500
    3000:0.01:all]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it. Gradient descent
on the mean cross-entropy of the first 55,000 training images: 3,000 steps at rate 0.5 in
mini-batches of 550, 3,000 at 0.05 in mini-batches of 5,500, and 3,000 at 0.01 on all of them.
Prints loss and accuracy of the end, on the training images and the 10,000 test images, and draws
the loss of every tenth step. Published numbers stand beside both. One run folder holds the whole
training. Takes about 7 minutes on 2 cores.

Published: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling strategies based on discretized
stochastic differential equations for machine learning applications, J. Mach. Learn. Res. 21 (2020),
section 3.2.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import number, published

import tati_re

STAGES = ["3000:0.5:550", "3000:0.05:5500", "3000:0.01:all"]
NUM_EXAMPLES = 55_000
PUBLISHED = {
    part: tuple(map(number, published("tati_training")[part])) for part in ("training", "test")
}
"""Mean cross-entropy and accuracy after the three stages."""
RECORD_EVERY = 10


def train(
    data: Path, output: Path, num_examples: int, stages: list[str], seed: int
) -> dict[str, tuple[float, float]]:
    """Trains, prints and draws.

    Args:
        data: The .npz file.
        output: Run folder, new or empty.
        num_examples: The first so many of the training images.
        stages: As `--stages`.
        seed: Of the mini-batches and the start.

    Returns:
        Mean cross-entropy and accuracy, of the training and of the test images.

    Raises:
        InputError: No such file, more images than it has, a stage that is not valid, or a folder
            that is not empty.
    """
    from tati_re.data import Dataset
    from tati_re.prediction import accuracy, negative_log_likelihood

    if not data.is_file():
        raise tati_re.InputError(
            "--data: there is no mnist.npz.", data.parent, "a folder that holds mnist.npz"
        )
    with np.load(data) as file:
        images, labels, test_images, test_labels = (
            file[key] for key in ("x_train", "y_train", "x_test", "y_test")
        )
    if not 1 <= num_examples <= len(labels):
        raise tati_re.InputError(
            "--num-examples is out of range.", num_examples, f"1 to {len(labels):,}"
        )
    first = images[:num_examples], labels[:num_examples]
    dataset = Dataset.from_arrays(
        *first, test_images, test_labels, name=data.name, input_scale=1 / 255
    )
    sim = tati_re.Simulation(
        data=dataset, potential="mean_loss", prior="none", execution="graph", seed=seed
    )
    run = sim.fit(
        optimizer="sgd",
        stages=stages,
        record_every=RECORD_EVERY,
        trajectory_every=0,
        output=str(output),
    )
    found = {}
    print(f"\n{'':10}images   mean loss  published   accuracy  published")
    for part, (x, y) in {"training": first, "test": (test_images, test_labels)}.items():
        probabilities = sim.predict_probabilities(x)
        found[part] = negative_log_likelihood(probabilities, y), accuracy(probabilities, y)
        columns = [
            f"{ours:<11.4f}{theirs:<12}"
            for ours, theirs in zip(found[part], PUBLISHED[part], strict=True)
        ]
        print(f"{part:10}{len(y):<9,}{''.join(columns)}".rstrip())
    draw(run, output / "figure.png")
    return found


def draw(run, path: Path) -> None:
    """The loss of the mini-batches over the steps, with the ends of the stages and the published
    loss of the end.
    """
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(7.0, 3.5)
    axes = figure.subplots()
    axes.plot(
        run.run_info["step"],
        run.run_info["loss"],
        color=COLORS[0],
        linewidth=0.8,
        label="loss of the step",
    )
    axes.axhline(
        PUBLISHED["training"][0],
        color=COLORS[1],
        linewidth=0.8,
        zorder=0,
        label="published training loss at the end",
    )
    for end in list(accumulate(stage["num_steps"] for stage in run.manifest["options"]["stages"]))[
        :-1
    ]:
        axes.axvline(end, color=GRAY, linestyle=":")
    axes.set_xlabel("step")
    axes.set_ylabel("mean cross-entropy")
    plain(axes)
    legend_above(axes)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="TATi's three-stage training of a softmax perceptron on MNIST."
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder that holds mnist.npz"
    )
    parser.add_argument(
        "--stages",
        nargs="+",
        default=STAGES,
        metavar="STEPS:RATE:BATCH",
        help=f"default {' '.join(STAGES)}",
    )
    parser.add_argument(
        "--num-examples",
        type=int,
        default=NUM_EXAMPLES,
        metavar="N",
        help="training images; default 55,000",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/tati_mnist_training"),
        metavar="DIR",
        help="run folder, new or empty",
    )
    arguments = parser.parse_args(argv)
    try:
        train(
            arguments.data / "mnist.npz",
            arguments.output,
            arguments.num_examples,
            arguments.stages,
            arguments.seed,
        )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
