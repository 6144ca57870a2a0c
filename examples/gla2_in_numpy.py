"""GLA2 written in plain numpy on the Simulation interface, beside the built-in word of the same
name.

The perceptron of the two clusters: 500 points, 3 parameters, mean squared loss, full batch, no
prior, β = 10. Its potential is quadratic, so that the mean virial of GLA2 (BABO) at a finite step
is known: the sum over the Hessian's eigenvalues k of T/2 / (1 - h² k/4).

    python examples/gla2_in_numpy.py [--num-steps 50000] [--output results/gla2]

Writes gla2.csv (virial and kinetic energy of each step, both ways) and gla2.png (running averages)
to the output folder. Source: B. Leimkuhler, C. Matthews, Appl. Math. Res. Express 2013(1), 34-56;
the system of TATi's paper, Fig. 4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tati_re
from tati_re.analysis import autocorrelation_time

STEP_SIZE = 0.16
FRICTION = 10.0
INVERSE_TEMPERATURE = 10.0
NUM_FIT_STEPS = 500
SMALLEST_NUM_STEPS = 1_000
COLUMNS = ("virial_numpy", "virial_word", "kinetic_energy_numpy", "kinetic_energy_word")


def gla2(sim: tati_re.Simulation, num_steps: int, seed: int) -> np.ndarray:
    """Samples with GLA2, one gradient a step, and leaves the walker where it arrives.

    Args:
        sim: The system; its parameters are where the walk starts.
        num_steps: How many steps.
        seed: Of the noise.

    Returns:
        Virial θ·∇U/2 and kinetic energy p·p/2 after each step, `(num_steps, 2)`.
    """
    noise = np.random.default_rng(seed)
    h, c = STEP_SIZE, np.exp(-FRICTION * STEP_SIZE)
    spread = np.sqrt((1 - c**2) / INVERSE_TEMPERATURE)
    position, gradient = sim.parameters.copy(), sim.gradients()
    momentum = noise.standard_normal(position.shape) / np.sqrt(INVERSE_TEMPERATURE)
    rows = np.empty((num_steps, 2))
    for step in range(num_steps):
        momentum = momentum - 0.5 * h * gradient
        position = position + h * momentum
        sim.parameters = position
        gradient = sim.gradients()
        momentum = momentum - 0.5 * h * gradient
        momentum = c * momentum + spread * noise.standard_normal(position.shape)
        rows[step] = 0.5 * position @ gradient, 0.5 * momentum @ momentum
    return rows


def built_in(sim: tati_re.Simulation, num_steps: int) -> np.ndarray:
    """The same with `sampler="GLA2"`, as `gla2` returns it."""
    run = sim.sample(
        sampler="GLA2",
        step_size=STEP_SIZE,
        friction=FRICTION,
        inverse_temperature=INVERSE_TEMPERATURE,
        num_steps=num_steps,
        record_every=1,
        trajectory_every=0,
    )
    return run.run_info[["virial", "kinetic_energy"]].to_numpy()


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean of a chain and its standard error, the chain's autocorrelation counted in."""
    time = max(1.0, autocorrelation_time(values))
    return float(values.mean()), float(values.std(ddof=1) * np.sqrt(time / len(values)))


def draw(rows: np.ndarray, exact: float, path: Path) -> None:
    """Draws the running averages of the virial, numpy and word, with the exact value."""
    from tati_re.plotting import COLORS, DARK, legend_above, new_figure, plain, save

    figure = new_figure(7.0, 3.6)
    axes = figure.subplots()
    steps = np.arange(1, len(rows) + 1)
    shown = np.unique(np.geomspace(min(100, len(rows)), len(rows), 500).astype(int)) - 1
    for column, name, color in ((0, "plain numpy", COLORS[0]), (1, "word GLA2", COLORS[1])):
        means = np.cumsum(rows[:, column]) / steps
        axes.plot(steps[shown], means[shown], color=color, label=name)
    axes.axhline(exact, color=DARK, linewidth=0.8, linestyle="--", label=f"exact, {exact:.4f}")
    axes.set_xscale("log")
    axes.set_xlabel("steps averaged")
    axes.set_ylabel("average virial θ·∇U/2")
    plain(axes)
    legend_above(axes)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="GLA2 in plain numpy beside the built-in word.")
    parser.add_argument(
        "--num-steps", type=int, default=50_000, metavar="N", help="steps of each; default 50,000"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/gla2"),
        metavar="DIR",
        help="folder of the files",
    )
    arguments = parser.parse_args(argv)
    try:
        compare(arguments.num_steps, arguments.output)
    except tati_re.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


def compare(num_steps: int, output: Path) -> None:
    """Samples both ways from the minimum, prints the averages with their errors, writes CSV and
    figure.

    Args:
        num_steps: Of each way; the first tenth is burn-in.
        output: Folder of the files.

    Raises:
        InputError: Too few steps to tell the errors, or a folder that cannot be written.
    """
    if num_steps < SMALLEST_NUM_STEPS:
        raise tati_re.InputError(
            "--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS:,}"
        )
    sim = tati_re.Simulation(
        data="two_clusters",
        loss="mean_squared_error",
        potential="mean_loss",
        prior="none",
        seed=1,
        verbose=0,
    )
    sim.fit(optimizer="gradient_descent", learning_rate=0.03, num_steps=NUM_FIT_STEPS)
    minimum, curvatures = sim.parameters.copy(), np.linalg.eigvalsh(sim.hessians())
    by_numpy = gla2(sim, num_steps, seed=2)
    sim.parameters = minimum
    rows = np.column_stack([by_numpy, built_in(sim, num_steps)])[num_steps // 10 :, [0, 2, 1, 3]]

    temperature = 1 / INVERSE_TEMPERATURE
    half = 0.5 * temperature * len(minimum)
    exact = float(0.5 * temperature * np.sum(1 / (1 - STEP_SIZE**2 * curvatures / 4)))
    print(
        f"GLA2, h = {STEP_SIZE}, friction {FRICTION:g}, beta {INVERSE_TEMPERATURE:g}, {len(rows):,} steps averaged"
    )
    print(f"{'':16}{'plain numpy':24}{'word GLA2':24}{'difference':12}exact")
    for name, pair, value in (
        ("virial", rows[:, :2], exact),
        ("kinetic energy", rows[:, 2:], half),
    ):
        (first, first_error), (second, second_error) = (
            mean_and_error(pair[:, 0]),
            mean_and_error(pair[:, 1]),
        )
        error = np.hypot(first_error, second_error)
        cells = (f"{first:.5f} ± {first_error:.5f}", f"{second:.5f} ± {second_error:.5f}")
        print(
            f"{name:16}{cells[0]:24}{cells[1]:24}{f'{(first - second) / error:+.1f} errors':12}{value:.5f}"
        )

    try:
        output.mkdir(parents=True, exist_ok=True)
        with open(output / "gla2.csv", "w") as file:
            np.savetxt(file, rows, delimiter=",", header=",".join(COLUMNS), comments="", fmt="%.9g")
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None
    draw(rows[:, :2], exact, output / "gla2.png")
    print(f"{output / 'gla2.csv'}, {output / 'gla2.png'}")


if __name__ == "__main__":
    sys.exit(main())
