"""Training, covariance and landscape of a softmax perceptron on MNIST: Figures 5 to 8 of TATi's
paper.

784-10, 7,850 parameters, U = mean cross-entropy of the first 55,000 training images, β = 10.

Figure 5: gradient descent in three stages, then BAOAB (h 0.125, γ 10, mini-batches of 550): loss
and accuracy, and the loss while sampling. Figure 6: leading eigenvalues of the covariance of three
walkers of equal length. They are sampled twice: with the paper's U, which nothing confines (weights
of pixels that are always 0 feel no force and diffuse), and with a weak Gaussian prior. Figures 7
and 8: ln(L - L0) over the plane of eigenvectors 1 and 64 of the covariance under the prior, from
±10 down to ±10^-5 around the plane's lowest point, with the way of the training into it, in float32
and float64.

    python examples/tati_figures_5_to_8.py --data FOLDER [--num-steps 20000] [--points 15] [--full]
    [--output DIR]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it. The defaults take
a few minutes on two cores; --full takes the published numbers of steps and points. Writes
training.csv, spectra.csv, way.csv (where the training went on the plane, and how far from it),
landscape folders and figure5.png, ... to the output folder; what is there is not done again, and a
sampled run that was interrupted goes on.

Source: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling strategies based on discretized
stochastic differential equations for machine learning applications, J. Mach. Learn. Res. 21 (2020),
section 3.2.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from published import number, published

import tati_re

NUM_EXAMPLES = 55_000
STAGES = ["3000:0.5:550", "300:0.05:5500", "60:0.01:all"]
NUM_STEPS, POINTS = 20_000, 15
SAMPLING = published("tati_sampling")
FULL_STAGES = [stage.replace(",", "") for stage in SAMPLING["stages"]]
FULL_NUM_STEPS, FULL_POINTS = 1_000_000, int(SAMPLING["grid"].split()[0])
PUBLISHED = {
    part: tuple(map(number, published("tati_training")[part])) for part in ("training", "test")
}
"""Mean cross-entropy and accuracy after the three stages."""
SAMPLER = {
    "sampler": "BAOAB",
    "step_size": 0.125,
    "friction": 10.0,
    "inverse_temperature": 10.0,
    "batch_size": 550,
}
WALKERS = 3
NUMBERS = (1, 64)
"""Eigenvectors of the covariance that span the plane."""
SCALES = (1, 0, -1, -2, -3, -4, -5)
SHOWN = (1, -2, -5)
"""Scales that are drawn as surfaces."""
STORED_EVERY, ON_THE_WAY = 10, 60
"""Steps between stored positions of the training; how many of them, nearly a constant factor apart,
are drawn.
"""
PRIOR_STD = 3.0
"""k = 1/9: a weight without other forces relaxes within γ/k = 90 units of time, 720 steps."""
ROWS = 400
"""Stored positions of a walker."""
LEADING = 100


def read(folder: Path, num_examples: int):
    """The images as a data set, bytes taken times 1/255."""
    from tati_re.data import Dataset

    path = folder / "mnist.npz"
    if not path.is_file():
        raise tati_re.InputError(
            "--data: there is no mnist.npz.", folder, "a folder that holds mnist.npz"
        )
    with np.load(path) as file:
        images, labels, test_images, test_labels = (
            file[key] for key in ("x_train", "y_train", "x_test", "y_test")
        )
    if not 100 <= num_examples <= len(labels):
        raise tati_re.InputError(
            "--num-examples is out of range.", num_examples, f"100 to {len(labels):,}"
        )
    parts = images[:num_examples], labels[:num_examples], test_images, test_labels
    return Dataset.from_arrays(*parts, name="mnist", input_scale=1 / 255)


def simulation(dataset, seed: int, **options) -> tati_re.Simulation:
    """784-10 with U = mean loss."""
    kept = {"potential": "mean_loss", "prior": "none", "execution": "graph", "seed": seed} | options
    return tati_re.Simulation(data=dataset, **kept)


def train(dataset, stages: list[str], seed: int, output: Path) -> np.ndarray:
    """Trains in stages, and says loss and accuracy at the end beside the published ones."""
    from tati_re.landscape import Surface

    folder = output / "training"
    sim = simulation(dataset, seed)
    if not (output / "training.csv").exists():
        sim.fit(
            optimizer="sgd",
            stages=stages,
            record_every=10,
            trajectory_every=STORED_EVERY,
            trajectory_format="h5",
            output=str(folder),
            overwrite=True,
        )
        found = Surface(sim, test=True).values(sim.parameters[None])
        rows = [
            (
                "training",
                len(dataset.inputs),
                found["loss"][0],
                found["accuracy"][0],
                *PUBLISHED["training"],
            ),
            (
                "test",
                len(dataset.test_inputs),
                found["test_loss"][0],
                found["test_accuracy"][0],
                *PUBLISHED["test"],
            ),
        ]
        columns = ["part", "images", "loss", "accuracy", "published_loss", "published_accuracy"]
        pd.DataFrame(rows, columns=columns).to_csv(output / "training.csv", index=False)
        np.save(output / "end_of_training.npy", sim.parameters)
    print(pd.read_csv(output / "training.csv").to_string(index=False))
    return np.load(output / "end_of_training.npy", allow_pickle=False)


def sample(dataset, start: np.ndarray, name: str, num_steps: int, seed: int, output: Path, **prior):
    """Three walkers from the end of the training; a run that is complete is not repeated, and one
    of as many steps that was interrupted goes on.
    """
    folder = output / name
    if (folder / "manifest.toml").exists():
        run = tati_re.load(folder)
        if len(run.run_info) and run.run_info["step"].max() >= num_steps:
            return run
        if len(run.run_info) and run.manifest["options"]["num_steps"] == num_steps:
            return tati_re.Simulation.resume(str(folder), data=dataset)
    sim = simulation(dataset, seed, num_walkers=WALKERS, **prior)
    sim.parameters = start
    every = max(1, num_steps // (ROWS + ROWS // 10))
    return sim.sample(
        **SAMPLER,
        num_steps=num_steps,
        num_burnin_steps=num_steps // 11,
        record_every=max(1, num_steps // 500),
        trajectory_every=every,
        output=str(folder),
        overwrite=True,
    )


def spectra(runs: dict, output: Path) -> pd.DataFrame:
    """Leading eigenvalues of the covariance, walker by walker."""
    from tati_re.analysis import covariance_eigenpairs

    rows = []
    for name, run in runs.items():
        for walker in range(WALKERS):
            found = covariance_eigenpairs(run, LEADING, walker=walker)
            rows += [(name, walker, k + 1, value) for k, value in enumerate(found.values)]
    table = pd.DataFrame(rows, columns=["run", "walker", "number", "eigenvalue"])
    table.to_csv(output / "spectra.csv", index=False)
    for name in runs:
        wide = table[table["run"] == name].pivot(
            index="number", columns="walker", values="eigenvalue"
        )
        spread = (wide.std(axis=1) / wide.mean(axis=1)).head(20).mean()
        fall = wide.mean(axis=1).iloc[0] / wide.mean(axis=1).iloc[-1]
        print(
            f"{name}: first 20 eigenvalues of three walkers differ by {spread:.1%}; number 1 over {LEADING}: {fall:.3g}"
        )
    return table


def free_diffusion(run) -> float:
    """k² times the k-th eigenvalue of the covariance of a path without forces: P 2D t/π².

    The demeaned path of a Brownian motion of length t has the eigenvalues 2D t/(π k)² in each
    dimension, with the same functions of time, so that those of P dimensions add up (Antognini and
    Sohl-Dickstein, NeurIPS 2018). BAOAB without forces diffuses with D = T h coth(γh/2)/2.
    """
    h, friction, temperature = (
        SAMPLER["step_size"],
        SAMPLER["friction"],
        1 / SAMPLER["inverse_temperature"],
    )
    options = run.manifest["options"]
    length = (options["num_steps"] - options["num_burnin_steps"]) * h
    diffusion = 0.5 * temperature * h / np.tanh(0.5 * friction * h)
    return run.manifest["parameters"]["num"] * 2 * diffusion * length / np.pi**2


def lowest_on_plane(surface, centre: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The point of the plane where the mean loss is lowest."""
    from scipy.optimize import minimize

    def on_plane(coordinates):
        value, slope = surface.gradient(centre + coordinates @ directions)
        return value, directions @ slope

    found = minimize(
        on_plane, np.zeros(2), jac=True, method="BFGS", options={"gtol": 1e-13, "maxiter": 40}
    )
    return centre + found.x @ directions


def way_of_the_training(output: Path) -> list:
    """Stored positions of the training: its first steps go as far as all others."""
    from tati_re.landscape import path_of

    found = path_of(tati_re.load(output / "training"), sys.maxsize)
    steps = [one.step for one in found]
    chosen = np.unique(np.searchsorted(steps, np.geomspace(steps[0], steps[-1], ON_THE_WAY)))
    return [found[min(place, len(found) - 1)] for place in chosen]


def planes(
    dataset, start: np.ndarray, run, points: int, seed: int, output: Path, scales=SCALES
) -> dict:
    """The plane at all scales, evaluated in both precisions, with the way of the training on it."""
    from tati_re.landscape import Surface, covariance_directions, scan

    directions, values = covariance_directions(run, NUMBERS, walker=0)
    print(
        f"variances along eigenvectors {NUMBERS[0]} and {NUMBERS[1]}: {values[0]:.4g}, {values[1]:.4g}"
    )
    trajectory = way_of_the_training(output)
    centre, found = None, {}
    for dtype in ("float64", "float32"):
        surface = Surface(simulation(dataset, seed, dtype=dtype))
        if centre is None:
            centre = lowest_on_plane(surface, start.astype(np.float64), directions)
        found[dtype] = scan(
            surface,
            centre,
            directions,
            f"-1:1:{points}",
            scales,
            trajectory=trajectory,
            output=output / f"landscape-{dtype}",
            overwrite=True,
        )
    way = found["float64"].trajectory
    way.to_csv(output / "way.csv", index=False)
    first, last = way.iloc[0], way.iloc[-1]
    length = math.hypot(last["c0"] - first["c0"], last["c1"] - first["c1"])
    print(
        f"the training from step {first['step']:.0f} on: {length:.3g} in the plane, {first['distance']:.3g} across it; "
        f"its loss is {math.exp(last['ln_excess_loss']):.3g} above the lowest of the plane at the end"
    )
    return found


def draw(output: Path, runs: dict, table: pd.DataFrame, landscapes: dict) -> None:
    """The four figures."""
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, plot_landscape, save

    figure = new_figure(11.0, 3.2)
    left, middle, right = figure.subplots(1, 3)
    training = tati_re.load(output / "training").run_info
    left.plot(
        training["step"], training["loss"], color=COLORS[0], linewidth=0.7, label="loss of the step"
    )
    left.axhline(PUBLISHED["training"][0], color=COLORS[1], linewidth=0.8, label="published")
    left.set(xlabel="step of the training", ylabel="mean cross-entropy")
    middle.plot(
        training["step"],
        training["accuracy"],
        color=COLORS[0],
        linewidth=0.7,
        label="accuracy of the step",
    )
    middle.axhline(PUBLISHED["training"][1], color=COLORS[1], linewidth=0.8, label="published")
    middle.set(xlabel="step of the training", ylabel="accuracy")
    for color, (name, run) in zip(COLORS, runs.items(), strict=False):
        rows = run.run_info[run.run_info["walker"] == 0]
        right.plot(rows["step"], rows["loss"], color=color, linewidth=0.7, label=name)
    right.set(xlabel="step of the sampling", ylabel="mean cross-entropy")
    for panel in (left, middle, right):
        plain(panel)
        legend_above(panel)
    save(figure, output / "figure5.png")

    figure = new_figure(6.0, 3.6)
    panel = figure.subplots()
    for color, name in zip(COLORS, runs, strict=False):
        for walker in range(WALKERS):
            rows = table[(table["run"] == name) & (table["walker"] == walker)]
            label = {"label": name} if walker == 0 else {}
            panel.loglog(
                rows["number"],
                rows["eigenvalue"],
                color=color,
                linewidth=1,
                marker=".",
                markersize=2,
                **label,
            )
    numbers, free = np.arange(1, LEADING + 1), free_diffusion(next(iter(runs.values())))
    panel.loglog(
        numbers,
        free / numbers**2,
        color=GRAY,
        linestyle="--",
        linewidth=0.9,
        label="free diffusion",
    )
    panel.set(xlabel="number k", ylabel="eigenvalue of the covariance")
    plain(panel)
    legend_above(panel)
    save(figure, output / "figure6.png")

    for dtype, landscape in landscapes.items():
        plot_landscape(landscape, output / f"figure7_{dtype}.png", "surface", scales=SHOWN)
    figure = new_figure(8.0, 3.4)
    for place, (dtype, landscape) in enumerate(landscapes.items(), 1):
        panel = figure.add_subplot(1, 2, place)
        for color, scale in zip((*COLORS, GRAY), SCALES, strict=True):
            rows = landscape.table[landscape.table["scale"] == scale]
            # The lowest point has no logarithm: a gap there.
            line = rows[np.isclose(rows["c1"], 0, atol=1e-12)]
            panel.plot(
                line["c0"] / 10.0**scale,
                line["ln_excess_loss"],
                color=color,
                marker=".",
                markersize=3,
            )
            panel.annotate(
                f"$10^{{{scale}}}$",
                (1.02, line["ln_excess_loss"].iloc[-1]),
                fontsize=7,
                color=color,
            )
        panel.set(xlabel="c0 over the scale", ylabel="ln(L − L₀)")
        panel.set_title(dtype, loc="left", fontsize=9)
        plain(panel)
    save(figure, output / "figure8.png")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the example; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Figures 5 to 8 of TATi's paper: training, covariance, landscape."
    )
    parser.add_argument(
        "--data", type=Path, required=True, metavar="FOLDER", help="folder that holds mnist.npz"
    )
    parser.add_argument("--stages", nargs="+", metavar="STEPS:RATE:BATCH", help="of the training")
    parser.add_argument(
        "--num-examples", type=int, default=NUM_EXAMPLES, metavar="N", help="default 55,000"
    )
    parser.add_argument(
        "--num-steps", type=int, metavar="N", help=f"of each sampled run; default {NUM_STEPS:,}"
    )
    parser.add_argument(
        "--points", type=int, metavar="N", help=f"of an axis of the planes; default {POINTS}"
    )
    parser.add_argument(
        "--full", action="store_true", help="the published stages, steps and points"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument(
        "--output", type=Path, default=Path("results/tati_figures_5_to_8"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    output, seed, full = arguments.output, arguments.seed, arguments.full
    stages = arguments.stages or (FULL_STAGES if full else STAGES)
    defaults = (FULL_NUM_STEPS, FULL_POINTS) if full else (NUM_STEPS, POINTS)
    given = (arguments.num_steps, arguments.points)
    steps, points = (
        one if one is not None else other for one, other in zip(given, defaults, strict=True)
    )
    try:
        if steps < 1_000 or points < 3:
            what = "--num-steps and --points are too small."
            raise tati_re.InputError(what, f"{steps} and {points}", "1,000 and 3 at least")
        dataset = read(arguments.data, arguments.num_examples)
        output.mkdir(parents=True, exist_ok=True)
        start = train(dataset, stages, seed, output)
        runs = {
            "no prior": sample(dataset, start, "no-prior", steps, seed, output),
            f"prior std {PRIOR_STD:g}": sample(
                dataset, start, "prior", steps, seed, output, prior="gaussian", prior_std=PRIOR_STD
            ),
        }
        table = spectra(runs, output)
        landscapes = planes(dataset, start, list(runs.values())[1], points, seed, output)
        draw(output, runs, table, landscapes)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(f"written to {output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
