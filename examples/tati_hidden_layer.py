"""A network with a hidden layer on MNIST: trained by Barzilai and Borwein's steps, sampled, and the
surface of its loss over two eigenvectors of the covariance, TATi's Figure 9.

784-100-10 with sigmoid nodes, 79,510 parameters, U = mean cross-entropy of the first 55,000
training images, 3,000 steps on the full gradient, the first one at rate 0.05; then BAOAB from
there, with the settings of tati_figures_5_to_8.py, and ln(L - L0) on the plane of eigenvectors 1
and 100 of the covariance of its positions, at the scales 10 and 0.1. Prints loss and accuracy of
the end, on the training images and the 10,000 test images; writes curves.csv (loss and accuracy of
stored positions, on both parts), training.csv (the end), figure.png (loss, accuracy and rate
against the step), eigenvalues.csv, surface/ (the planes as tables) and figure9.png to the output
folder.

    python examples/tati_hidden_layer.py --data FOLDER [--num-steps 3000] [--output DIR]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it. Takes about half
an hour on 2 cores. A run that was interrupted is resumed, and one with fewer steps than --num-steps
goes on.

Source: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling strategies based on discretized
stochastic differential equations for machine learning applications, J. Mach. Learn. Res. 21 (2020),
section 3.3.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from published import number, published
from tati_figures_5_to_8 import SAMPLER, lowest_on_plane, read

import tati_re
from tati_re.plotting import plot_landscape

NUM_EXAMPLES = 55_000
NUM_STEPS = 3_000
RATE = 0.05
HIDDEN = 100
PUBLISHED = {part: number(published("tati_hidden_layer")[part]) for part in ("training", "test")}
"""Accuracies at the end."""
POSITIONS = 100
"""Stored positions, at which both parts are evaluated."""
BLOCK = 10
NUMBERS = (1, 100)
"""Eigenvectors of the covariance, from the largest."""
SCALES = (1, -1)
"""Powers of ten."""
COLUMNS = ["loss", "accuracy", "test_loss", "test_accuracy"]


def train(sim: tati_re.Simulation, dataset, num_steps: int, rate: float, folder: Path):
    """The run: a new one, or the rest of the one in the folder."""
    if (folder / "manifest.toml").exists():
        run = tati_re.load(folder)
        if len(run.run_info) and run.run_info["step"].max() >= num_steps:
            return run
        return tati_re.Simulation.resume(str(folder), num_steps=num_steps, data=dataset)
    return sim.fit(
        optimizer="barzilai_borwein",
        learning_rate=rate,
        num_steps=num_steps,
        record_every=max(1, num_steps // 1000),
        trajectory_every=max(1, num_steps // POSITIONS),
        output=str(folder),
        overwrite=True,
    )


def curves(sim: tati_re.Simulation, run) -> pd.DataFrame:
    """Loss and accuracy on both parts at the stored positions."""
    from tati_re.landscape import Surface

    surface, steps = Surface(sim, test=True), run.run_info["step"].max()
    steps = np.unique(run.trajectory["step"])
    parts = []
    for block in np.array_split(steps, max(1, len(steps) // BLOCK)):
        values = surface.values(np.stack([run.parameters(int(step)) for step in block]))
        parts.append(pd.DataFrame({"step": block, **{name: values[name] for name in COLUMNS}}))
    return pd.concat(parts, ignore_index=True)


def sample(sim: tati_re.Simulation, num_steps: int, folder: Path):
    """One walker from the end of the training, 400 stored positions; a run that is complete is not
    repeated.
    """
    if (folder / "manifest.toml").exists():
        run = tati_re.load(folder)
        if len(run.run_info) and run.run_info["step"].max() >= num_steps:
            return run
    return sim.sample(
        **SAMPLER | {"batch_size": min(SAMPLER["batch_size"], sim.dataset.num_examples)},
        num_steps=num_steps,
        num_burnin_steps=0,
        record_every=max(1, num_steps // 500),
        trajectory_every=max(1, num_steps // 400),
        trajectory_format="h5",
        output=str(folder),
        overwrite=True,
    )


def surface_of(sim: tati_re.Simulation, run, points: int, output: Path):
    """The planes through the lowest point near the end of the training, with the sampled
    positions.
    """
    from tati_re.analysis import covariance_eigenpairs
    from tati_re.landscape import Surface, covariance_directions, path_of, scan

    found = covariance_eigenpairs(run, max(NUMBERS))
    table = pd.DataFrame({"number": range(1, max(NUMBERS) + 1), "eigenvalue": found.values})
    table.to_csv(output / "eigenvalues.csv", index=False)
    directions, values = covariance_directions(run, NUMBERS)
    print(
        f"variances along eigenvectors {NUMBERS[0]} and {NUMBERS[1]}: {values[0]:.4g}, {values[1]:.4g}"
    )
    surface = Surface(sim)
    centre = lowest_on_plane(surface, np.asarray(sim.parameters, np.float64), directions)
    return scan(
        surface,
        centre,
        directions,
        f"-1:1:{points}",
        SCALES,
        trajectory=path_of(run, 100),
        output=output / "surface",
        overwrite=True,
    )


def draw(output: Path, run, table: pd.DataFrame) -> None:
    """Loss, accuracy and rate against the step."""
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(11.0, 3.4)
    loss, accuracy, rate = figure.subplots(1, 3)
    rows = run.run_info
    loss.semilogy(rows["step"], rows["loss"], color=COLORS[0], linewidth=0.8, label="training")
    loss.semilogy(table["step"], table["test_loss"], color=COLORS[1], linewidth=1.0, label="test")
    loss.set(xlabel="step", ylabel="mean cross-entropy")
    accuracy.plot(rows["step"], rows["accuracy"], color=COLORS[0], linewidth=0.8, label="training")
    accuracy.plot(
        table["step"], table["test_accuracy"], color=COLORS[1], linewidth=1.0, label="test"
    )
    for place, value in enumerate(PUBLISHED.values()):
        label = {"label": "published, end"} if place == 0 else {}
        accuracy.axhline(value, color=GRAY, linestyle="--", linewidth=0.8, zorder=0, **label)
    accuracy.set(xlabel="step", ylabel="accuracy", ylim=(0.9, 1.005))
    rate.semilogy(rows["step"], rows["step_size"], color=COLORS[2], linewidth=0.5)
    rate.set(xlabel="step", ylabel="learning rate")
    for panel in (loss, accuracy, rate):
        plain(panel)
    for panel in (loss, accuracy):
        legend_above(panel)
    save(figure, output / "figure.png")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="784-100-10 on MNIST: training, sampling, surface of the loss."
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder that holds mnist.npz"
    )
    parser.add_argument(
        "--num-steps", type=int, default=NUM_STEPS, metavar="N", help=f"default {NUM_STEPS:,}"
    )
    parser.add_argument(
        "--learning-rate", type=float, default=RATE, metavar="A", help=f"first rate; default {RATE}"
    )
    parser.add_argument(
        "--num-examples", type=int, default=NUM_EXAMPLES, metavar="N", help="default 55,000"
    )
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of the weights at the start; default 0"
    )
    parser.add_argument(
        "--sampling-steps", type=int, default=20_000, metavar="N", help="of BAOAB; default 20,000"
    )
    parser.add_argument(
        "--points", type=int, default=21, metavar="N", help="of an axis of the surface; default 21"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/tati_hidden_layer"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    output = arguments.output
    try:
        if arguments.num_steps < 1:
            raise tati_re.InputError("--num-steps is too small.", arguments.num_steps, "1 at least")
        if arguments.sampling_steps < 2 * max(NUMBERS):
            raise tati_re.InputError(
                "--sampling-steps is too small for the eigenvectors of the covariance.",
                arguments.sampling_steps,
                f"{2 * max(NUMBERS)} at least",
            )
        dataset = read(arguments.data, arguments.num_examples)
        sim = tati_re.Simulation(
            data=dataset,
            hidden=[HIDDEN],
            activation="sigmoid",
            potential="mean_loss",
            prior="none",
            execution="graph",
            seed=arguments.seed,
        )
        output.mkdir(parents=True, exist_ok=True)
        run = train(sim, dataset, arguments.num_steps, arguments.learning_rate, output / "training")
        table = curves(sim, run)
        end_of_training = int(run.trajectory["step"].max())
        start = sim.parameters = run.parameters(end_of_training)
        sampled = sample(sim, arguments.sampling_steps, output / f"sampling-from-{end_of_training}")
        sim.parameters = start
        landscape = surface_of(sim, sampled, arguments.points, output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table.to_csv(output / "curves.csv", index=False)
    last, step = table.iloc[-1], int(table["step"].iloc[-1])
    rows = [
        (
            "training",
            len(dataset.inputs),
            step,
            last["loss"],
            last["accuracy"],
            PUBLISHED["training"],
        ),
        (
            "test",
            len(dataset.test_inputs),
            step,
            last["test_loss"],
            last["test_accuracy"],
            PUBLISHED["test"],
        ),
    ]
    end = pd.DataFrame(
        rows, columns=["part", "images", "step", "loss", "accuracy", "published_accuracy"]
    )
    end.to_csv(output / "training.csv", index=False)
    print(end.to_string(index=False))
    fitted = run.run_info[run.run_info["accuracy"] == 1]
    first = (
        f"from step {fitted['step'].iloc[0]:,} on record" if len(fitted) else "at no recorded step"
    )
    print(
        f"all training images are right {first}; best test accuracy {table['test_accuracy'].max():.4f}"
    )
    draw(output, run, table)
    plot_landscape(landscape, output / "figure9.png", "surface", scales=SCALES)
    print(f"written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
