"""The posterior of a softmax regression on MNIST: 7,850 parameters, 60,000 images, mini-batches of
550, 8 walkers.

    python examples/mnist_softmax.py --data FOLDER [--num-steps 10000] [--output runs/mnist_softmax]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it. Each walker
descends with Adam, then samples exp(-U) with BAOAB, U the negative log likelihood of all images
plus a Gaussian prior of standard deviation 0.1. Prints the run's summary, and test accuracy and
negative log likelihood of the optimum and of the posterior average.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import tati_re

SYSTEM = {"prior": "gaussian", "prior_std": 0.1, "batch_size": 550, "num_walkers": 8}
FIT = {"optimizer": "adam", "learning_rate": 0.005, "num_steps": 2_000}
SAMPLE = {"sampler": "BAOAB", "step_size": 5e-4, "friction": 100.0, "inverse_temperature": 1.0}
SMALLEST_NUM_STEPS = 100
STORED_DRAWS = 50
"""Positions of each walker that are kept for predictions."""


def sample(data: Path, output: Path, num_steps: int) -> None:
    """Fits, samples, predicts and prints.

    Args:
        data: The .npz file.
        output: Run folder, new or empty.
        num_steps: Sampling steps; the first two fifths are burn-in.

    Raises:
        InputError: No such file, or a folder that is not empty.
    """
    from tati_re.prediction import accuracy, negative_log_likelihood

    if num_steps < SMALLEST_NUM_STEPS:
        raise tati_re.InputError(
            "--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS}"
        )
    if not data.is_file():
        raise tati_re.InputError(
            "--data: there is no mnist.npz.", data.parent, "a folder that holds mnist.npz"
        )
    num_burnin_steps = 2 * num_steps // 5
    sim = tati_re.Simulation(data=str(data), **SYSTEM)
    images, labels = sim.dataset.test_inputs, sim.dataset.test_targets
    sim.fit(**FIT)
    optimum = sim.predict_probabilities(images, walker_index=0)
    run = sim.sample(
        num_steps=num_steps,
        num_burnin_steps=num_burnin_steps,
        record_every=10,
        trajectory_every=max(1, (num_steps - num_burnin_steps) // STORED_DRAWS),
        output=str(output),
        **SAMPLE,
    )
    print(f"\n{run.summary()}\n", flush=True)
    average = run.predict()
    print(
        f"{len(labels):,} test images           optimum   average of {average.num_draws} posterior draws"
    )
    for name, score in (
        ("test accuracy", accuracy),
        ("negative log likelihood", negative_log_likelihood),
    ):
        print(f"{name:29}{score(optimum, labels):<10.4f}{score(average.probabilities, labels):.4f}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Softmax regression on MNIST, sampled with BAOAB.")
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder that holds mnist.npz"
    )
    parser.add_argument(
        "--num-steps", type=int, default=10_000, metavar="N", help="sampling steps; default 10,000"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs/mnist_softmax"),
        metavar="DIR",
        help="run folder, new or empty",
    )
    arguments = parser.parse_args(argv)
    try:
        sample(arguments.data / "mnist.npz", arguments.output, arguments.num_steps)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
