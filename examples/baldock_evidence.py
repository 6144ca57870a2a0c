"""Model selection by evidence: one hidden layer against three, on 500 images of digits.

Networks 256-40-10 (10,690 parameters) and 256-40-40-40-10 (13,970) with logistic hidden units,
linear outputs and a uniform prior |θ_i| < 50/sqrt(k_i), k_i = fan-in + 1; the sum of the
cross-entropies of 500 images, 16 x 16 pixels, at T = 1. log Z by thermodynamic integration from the
prior, each run from a draw of its own, and by Frenkel-Ladd integration from springs at a minimum:
two paths that have only their end in common. Trajectories are long, as a walker has to cross a box
in which a step is a thousandth of the width.

    python examples/baldock_evidence.py --data FOLDER [--num-runs 3] [--output DIR]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it, and
nn_sample_mnist_train_indices_50.txt, the 500 numbers of the training images. Writes results.csv (a
row a run) and figure.png, in about half an hour on 2 cores. `--full` takes 28 runs, as many as
published, of longer trajectories.

Published: R. Baldock, N. Marzari, Bayesian neural networks at finite temperature (arXiv
1904.04154): the shallow network has the larger evidence. Differences from the paper: points of the
path at Gauss-Legendre nodes, λ = t⁵, in place of an even grid whose end at the springs has a spike;
walls that reflect; energies summed in double precision; a box that is centered on 0 in the springs'
normalization; runs of one network that share the minimum of their springs, for any of which the
integral is exact.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tati_re
from tati_re.evidence import Evidence, log_evidence

INDICES = "nn_sample_mnist_train_indices_50.txt"
NETS = {"one hidden layer": (256, 40, 10), "three hidden layers": (256, 40, 40, 40, 10)}
METHODS = {"thermodynamic_integration": "from the prior", "frenkel_ladd": "Frenkel-Ladd"}
BOUND = 50.0
LOG_DENSITIES = {"one hidden layer": -19945.736, "three hidden layers": -28960.436}
"""log of the prior's density, by hand."""


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_runs: Independent runs of each network and method, at least 2.
        num_nodes: Points of the path that count.
        num_steps: HMC trajectories of each point, a fifth of them burn-in.
        num_leapfrog_steps: Steps of one.
        num_descent_steps: To a minimum.
    """

    num_runs: int = 3
    num_nodes: int = 12
    num_steps: int = 30
    num_leapfrog_steps: int = 100
    num_descent_steps: int = 500


QUICK = Sizes(2, 8, 100, 20, 200)
QUICK_NETS = {"one hidden layer": (4, 3, 10), "three hidden layers": (4, 3, 3, 3, 10)}
"""Networks that trajectories of seconds can cross: on those of 10,690 parameters the two paths of
such a run end thousands of nats apart.
"""
FULL = Sizes(28, 16, 400, 100, 5_000)


class Result(NamedTuple):
    """One run."""

    net: str
    method: str
    run: int
    log_z: float
    error: float


def shrunk(images: np.ndarray) -> np.ndarray:
    """Images `(n, 28, 28)` as `(n, 256)`: 16 x 16 by a triangle filter, then (v/255 -
    0.1307)/0.3081.
    """
    ratio = images.shape[1] / 16
    centres = (np.arange(16)[:, None] + 0.5) * ratio
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(images.shape[1]) + 0.5 - centres) / ratio)
    weights /= weights.sum(axis=1, keepdims=True)
    small = np.einsum("ai,nij,bj->nab", weights, images.astype(np.float64), weights, optimize=True)
    return ((small / 255 - 0.1307) / 0.3081).reshape(len(images), -1)


def read(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """The 500 training images and their labels.

    Raises:
        InputError: A file is not there.
    """
    for name in ("mnist.npz", INDICES):
        if not (folder / name).is_file():
            raise tati_re.InputError(
                f"--data: there is no {name}.", folder, f"a folder that holds mnist.npz, {INDICES}"
            )
    listed = np.loadtxt(folder / INDICES, dtype=np.int64)
    with np.load(folder / "mnist.npz") as file:
        return shrunk(file["x_train"][listed]), file["y_train"][listed].astype(np.int64)


def generated(seed: int, num_pixels: int = 256) -> tuple[np.ndarray, np.ndarray]:
    """Ten patterns with noise, 3 images each."""
    random = np.random.default_rng(seed)
    labels = np.arange(30) % 10
    patterns = random.standard_normal((10, num_pixels))
    return patterns[labels] + random.standard_normal((30, num_pixels)), labels


def simulation(
    data: tuple[np.ndarray, np.ndarray], net: str, num_walkers: int, seed: int
) -> tati_re.Simulation:
    """A network, by the width of the images, and the images."""
    nets = QUICK_NETS if data[0].shape[1] == QUICK_NETS[net][0] else NETS
    return tati_re.Simulation(
        data=data,
        hidden=list(nets[net][1:-1]),
        activation="sigmoid",
        loss="sparse_categorical_crossentropy",
        prior="box",
        prior_bound=BOUND,
        prior_scaling="fan_in",
        test_fraction=0.0,
        num_walkers=num_walkers,
        execution="graph",
        seed=seed,
        verbose=0,
    )


def log_density(net: str) -> float:
    """log of the density of the prior inside of its box."""
    fan_in = np.concatenate([np.full((a + 1) * b, a + 1.0) for a, b in pairwise(NETS[net])])
    return float(-np.log(2 * BOUND / np.sqrt(fan_in)).sum())


def sampled(data, net: str, method: str, sizes: Sizes, seed: int) -> tuple[list[Result], Evidence]:
    """All runs of a network by a method, which are walkers independent of each other, and their
    estimate.
    """
    found = log_evidence(
        simulation(data, net, sizes.num_runs, seed),
        method,
        mass="fan_in",
        num_leapfrog_steps=sizes.num_leapfrog_steps,
        num_steps=sizes.num_steps,
        evidence_sampling="sequential",
        evidence_nodes=sizes.num_nodes,
        descent_steps=sizes.num_descent_steps,
        verbose=1,
    )
    error = float(found.error * np.sqrt(sizes.num_runs))
    say(found)
    return [
        Result(net, method, run, float(value), error) for run, value in enumerate(found.repeats)
    ], found


def say(found: Evidence) -> None:
    """Prints what an estimate says against itself."""
    for note in found.notes:
        print(f"  {note}", flush=True)


def estimate(results: Sequence[Result], net: str, method: str) -> tuple[float, float]:
    """log Z of a network by a method, a mean over the runs, and its standard error.

    The error is the larger one of that from the spread of the runs and that of their draws.
    """
    chosen = [each for each in results if (each.net, each.method) == (net, method)]
    values = np.array([each.log_z for each in chosen])
    of_draws = float(np.sqrt(np.mean([each.error**2 for each in chosen])))
    return float(values.mean()), max(float(values.std(ddof=1)), of_draws) / np.sqrt(len(values))


def report(results: Sequence[Result], method: str) -> None:
    """Prints what a method says of both networks."""
    estimates = [estimate(results, net, method) for net in NETS]
    for net, (mean, error) in zip(NETS, estimates, strict=True):
        print(f"{METHODS[method]}, {net}: log Z = {mean:,.0f} ± {error:,.0f}")
    (shallow, first), (deep, second) = estimates
    difference, error = shallow - deep, float(np.hypot(first, second))
    verdict = "the shallow network wins" if difference > 0 else "the deep network wins"
    if abs(difference) < 2 * error:
        verdict = "no winner within two standard errors"
    print(
        f"{METHODS[method]}: log Bayes factor {difference:+,.0f} ± {error:,.0f}: {verdict}",
        flush=True,
    )


def disagreements(results: Sequence[Result]) -> list[str]:
    """Sentences about networks whose log Z differs between the two paths, or is impossible.

    The paths have only their end in common, so that an error which both share is unlikely; and a
    sum of cross-entropies is never negative, so that log Z is not above 0.
    """
    said = []
    done = [method for method in METHODS if any(each.method == method for each in results)]
    for net in NETS:
        estimates = {method: estimate(results, net, method) for method in done}
        for method, (mean, error) in estimates.items():
            if mean > 3 * error:
                said.append(f"{METHODS[method]}, {net}: log Z above 0 is impossible.")
        if len(estimates) < 2:
            continue
        (first, error), (second, other) = estimates.values()
        apart, expected = abs(first - second), float(np.hypot(error, other))
        if apart > 4 * expected:
            said.append(
                f"{net}: the two paths differ by {apart:,.0f} nats, {apart / expected:.0f} standard "
                "errors. The chains have not reached equilibrium; increase --num-steps."
            )
    return said


def write(results: Sequence[Result], path: Path) -> None:
    """Writes the runs as CSV."""
    lines = [
        ",".join(f"{v:.6g}" if isinstance(v, float) else str(v) for v in each) for each in results
    ]
    path.write_text("\n".join([",".join(Result._fields), *lines, ""]), encoding="utf-8")


def draw(curves: dict[tuple[str, str], Evidence], results: Sequence[Result], path: Path) -> None:
    """Draws the integrand of each network by each method, and log Z of all runs."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    methods = list(dict.fromkeys(each.method for each in results))
    figure = new_figure(3.0 * len(methods) + 3.2, 3.4)
    panels = figure.subplots(1, len(methods) + 1)
    for axes, method in zip(panels, methods, strict=False):
        for color, net in zip(COLORS, NETS, strict=False):
            curve = curves[net, method].curve
            counted = curve[curve["weight"] > 0]
            t = counted["path"] ** 0.2
            axes.plot(
                t,
                5 * t**4 * counted["mean"],
                "o-",
                markersize=3,
                linewidth=1,
                color=color,
                label=net,
            )
        axes.axhline(0, color=GRAY, linewidth=0.6)
        axes.set_title(METHODS[method], fontsize=9, loc="left")
        axes.set_xlabel("t, λ = t⁵")
        axes.set_ylabel("d log Z / dt, nats")
        plain(axes)
    panels[0].legend(frameon=False, fontsize=7)
    for row, method in enumerate(methods):
        for number, net in enumerate(NETS):
            values = [each.log_z for each in results if (each.net, each.method) == (net, method)]
            height = len(methods) - 1 - row + 0.12 - 0.24 * number
            panels[-1].plot(
                values, np.full(len(values), height), "o", markersize=4, color=COLORS[number]
            )
    panels[-1].set_yticks(range(len(methods)), [METHODS[method] for method in methods[::-1]])
    panels[-1].set_ylim(-0.5, len(methods) - 0.5)
    panels[-1].set_xlabel("log Z of each run, nats")
    plain(panels[-1])
    save(figure, path)


def experiment(
    data: tuple[np.ndarray, np.ndarray],
    methods: Sequence[str],
    sizes: Sizes,
    seed: int,
    output: Path,
):
    """Estimates both networks by each method.

    Raises:
        InputError: Fewer than 2 runs, or a folder that cannot be written.
    """
    if sizes.num_runs < 2:
        raise tati_re.InputError("--num-runs is too small.", sizes.num_runs, "at least 2")
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None
    for net, by_hand in LOG_DENSITIES.items():
        print(
            f"{net}: log prior density {log_density(net):,.3f} (by hand {by_hand:,.3f})", flush=True
        )
    results: list[Result] = []
    curves: dict[tuple[str, str], Evidence] = {}
    for method in methods:
        for net in NETS:
            found, curves[net, method] = sampled(data, net, method, sizes, seed)
            results += found
            write(results, output / "results.csv")
        report(results, method)
    for sentence in disagreements(results):
        print(f"warning: {sentence}", flush=True)
    draw(curves, results, output / "figure.png")
    print(f"published: the shallow network wins\n{output / 'results.csv'}, {output / 'figure.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="log Z of a shallow and a deep network on 500 digits."
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help=f"folder that holds mnist.npz and {INDICES}"
    )
    parser.add_argument(
        "--methods", nargs="+", choices=tuple(METHODS), default=list(METHODS), help="default: both"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name, default in Sizes._field_defaults.items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=int, default=None, metavar="N", help=f"default {default:,}")
    parser.add_argument(
        "--quick", action="store_true", help="generated images of 4 pixels, small networks"
    )
    parser.add_argument(
        "--full", action="store_true", help="28 runs of longer trajectories: days on 2 cores"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/baldock_evidence"), metavar="DIR"
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
                "--data is missing.", None, f"a folder with mnist.npz and {INDICES}, or --quick"
            )
        num_pixels = QUICK_NETS["one hidden layer"][0]
        data = generated(arguments.seed, num_pixels) if arguments.quick else read(arguments.data)
        experiment(data, arguments.methods, sizes, arguments.seed, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
