"""Posterior averages, an optimum and an ensemble on MNIST: the comparison of digits_calibration.py
on 60,000 images.

A 784-100-10 network; the prior of a layer is N(0, 1/k), k = fan-in + 1. Five members are fitted
with Adam, each from weights of its own. The posterior is sampled by BAOAB on mini-batches of 1,000
images, with walkers that start at the members: once for as many gradients of examples as the whole
ensemble cost, once for longer, and once for longer at the temperature 0.1; the first half of each
run is burn-in.

    python examples/mnist_calibration.py --data FOLDER [--num-steps 2000] [--prior-std S] [--output
    DIR]

FOLDER holds mnist.npz with the arrays x_train, y_train, x_test, y_test. Writes scores.csv and
figure.png, in three to ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from digits_calibration import Study, reported

MNIST = Study(
    {"hidden": [100], "prior_scaling": "fan_in"},
    num_members=5,
    fit_steps=1800,
    fit_batch=200,
    learning_rate=0.002,
    sampler={"sampler": "BAOAB", "step_size": 0.001, "friction": 30.0, "batch_size": 1000},
    num_walkers=4,
    num_steps=2000,
    num_draws=25,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with mnist.npz")
    parser.add_argument("--num-steps", type=int, default=MNIST.num_steps, help="of the longer runs")
    parser.add_argument(
        "--fit-steps", type=int, default=MNIST.fit_steps, help="of Adam, each member"
    )
    parser.add_argument(
        "--prior-std", type=float, help="one deviation for all parameters, in place of 1/sqrt(k)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/mnist_calibration"))
    typed = parser.parse_args(argv)
    file = typed.data / "mnist.npz"
    if not file.is_file():
        expected = "a folder with x_train, y_train, x_test, y_test in mnist.npz"
        print(
            f"error: --data: there is no mnist.npz. Received: {typed.data}. Expected: {expected}.",
            file=sys.stderr,
        )
        return 2
    study = MNIST._replace(num_steps=typed.num_steps, fit_steps=typed.fit_steps)
    if typed.prior_std is not None:
        network = {"hidden": [100], "prior_std": typed.prior_std}
        study = study._replace(network=network, sampler={**study.sampler, "step_size": 0.0007})
    return reported(str(file), study, typed.output, typed.seed)


if __name__ == "__main__":
    sys.exit(main())
