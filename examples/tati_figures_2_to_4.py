"""Discretization errors of GLA1, GLA2, BAOAB and SGLD where they are known exactly: Figures 2 to 4 of TATi's paper.

Figures 2 and 3: one weight on the single example (sqrt(a), 0), a harmonic well with force constant 2a. The mean kinetic
energy of BAOAB is too small by the part h² 2a/4, the mean virial of GLA2 too large by about the same.
Figure 4: a linear perceptron on two clusters, 500 points, 3 parameters. Its potential is quadratic too, so that the
error of the mean virial θ·∇L is known for every method: GLA1 and SGLD are of first order, GLA2 of second, and BAOAB has
no error. All on the full batch with U = mean loss and β = 10; each walker is a seed of its own and gives one average.

    python examples/tati_figures_2_to_4.py [--num-walkers 100] [--num-steps 100000] [--output DIR]

Writes errors.csv (every average with its error bar and the exact value), slopes.csv and figure.png to the output
folder, in about ten minutes. Source: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling strategies based on
discretized stochastic differential equations for machine learning applications, J. Mach. Learn. Res. 21 (2020),
section 3.1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import curve_fit

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re
from tati_re.data.generators import harmonic

INVERSE_TEMPERATURE = 10.0
SYSTEM = {"loss": "mean_squared_error", "potential": "mean_loss", "prior": "none", "dtype": "float64", "verbose": 0}
HARMONIC_ROWS, CLUSTER_ROWS = 5_000, 10_000
"""Recorded steps of a walker at most; an average is one over them."""

HARMONIC_STEPS = (1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4)
CONSTANTS = (0.01, 1.0, 4.0)
FRICTIONS = (0.01, 0.1, 1.0, 10.0, 100.0)
CLUSTER_FRICTION = 10.0
CLUSTER_STEPS = {
    "GLA1": (0.005, 0.01, 0.02, 0.04),
    "GLA2": (0.04, 0.057, 0.08, 0.113, 0.16),
    "BAOAB": (0.04, 0.08, 0.16, 0.32),
    "SGLD": (0.003125, 0.00625, 0.0125, 0.025),
}
NUM_FIT_STEPS = 2_000
BURNIN_TIME = 20.0
"""Four times the longest relaxation time of the perceptron, 5."""

WORDS = {"GLA1": "BAO", "GLA2": "BABO", "BAOAB": "BAOAB"}
SLOPES = published("tati_slopes")
PUBLISHED = {
    ("harmonic", "BAOAB"): f"{SLOPES['harmonic well, a = 4, BAOAB']} at a = 4, flat at small a",
    ("harmonic", "GLA2"): SLOPES["harmonic well, a = 4, GLA2"],
    ("clusters", "GLA1"): SLOPES["two clusters, GLA1"],
    ("clusters", "GLA2"): SLOPES["two clusters, GLA2"],
    ("clusters", "BAOAB"): "none: statistical limit",
    ("clusters", "SGLD"): f"{SLOPES['two clusters, SGLD']} ({SLOPES['SGLD against sqrt(h)']} against sqrt(h))",
}
RESOLVED = 3.0
"""Error bars from 0 that a point must lie to count as an error that is seen."""
SMALLEST_NUM_STEPS = 1_000
SMALLEST_NUM_WALKERS = 10
CONSTANT_OF_SLOPE = CONSTANTS[-1]


class Point(NamedTuple):
    """Relative error of one average at one step size.

    Attributes:
        system: "harmonic" or "clusters".
        sampler: Its name.
        quantity: "kinetic energy" or "virial".
        a: Constant of the harmonic well; nan for the clusters.
        friction: γ; nan for SGLD.
        step_size: h.
        error: Average over its value at h = 0, less 1.
        error_bar: Standard error of that, from the spread of the walkers.
        exact: What it is for this data set.
    """

    system: str
    sampler: str
    quantity: str
    a: float
    friction: float
    step_size: float
    error: float
    error_bar: float
    exact: float


class Slope(NamedTuple):
    """Power of h in error = c h^slope; nan where fewer than two points lie three error bars or more from 0.

    Attributes:
        slope: Fitted to the measured errors.
        error_bar: Its standard error.
        exact: The same fit to the exact errors, with the same weights: errors are powers only for small h.
    """

    slope: float
    error_bar: float
    exact: float


def exact_errors(sampler: str, step_size: float, friction: float, curvatures: np.ndarray) -> tuple[float, float]:
    """Relative errors of mean kinetic energy and mean virial at the end of a step on a quadratic potential.

    A step is linear with Gaussian noise, z' = M z + N(0, Q) for z = (q, p) of each mode, so that its stationary
    covariance solves S = M S M' + Q.
    """
    if sampler == "SGLD":
        return math.nan, float(np.mean(1 / (1 - step_size * curvatures / 2)) - 1)
    errors = []
    for curvature in curvatures:
        matrix, noise = np.eye(2), np.zeros((2, 2))
        word = WORDS[sampler]
        for letter in word:
            t = step_size / word.count(letter)
            c = math.exp(-friction * t)
            part = np.array({"A": [[1, t], [0, 1]], "B": [[1, 0], [-t * curvature, 1]], "O": [[1, 0], [0, c]]}[letter])
            matrix, noise = part @ matrix, part @ noise @ part.T
            noise[1, 1] += (1 - c * c) if letter == "O" else 0.0
        covariance = solve_discrete_lyapunov(matrix, noise)
        errors.append((covariance[1, 1] - 1, curvature * covariance[0, 0] - 1))
    return tuple(np.mean(errors, axis=0).tolist())


def average(sim: tati_re.Simulation, column: str, num_burnin_steps: int, **options) -> tuple[float, float]:
    """Samples, and returns the relative error of one column's average and its standard error over the walkers."""
    run = sim.sample(
        inverse_temperature=INVERSE_TEMPERATURE, num_burnin_steps=num_burnin_steps, trajectory_every=0, **options
    )
    means = run.averages.groupby("walker")[column].last().to_numpy()
    relative = means * 2 * INVERSE_TEMPERATURE / sim.num_parameters() - 1
    return float(relative.mean()), float(relative.std(ddof=1) / math.sqrt(len(relative)))


def harmonic_errors(
    a: float,
    samplers: Sequence[str],
    steps: Sequence[float],
    frictions: Sequence[float],
    sizes: dict,
    seeds: Iterator[int],
) -> list[Point]:
    """Kinetic energy of BAOAB and virial of GLA2 on the well with force constant 2a, started in its law."""
    data = harmonic(a)
    sim = tati_re.Simulation(data=(data.inputs, data.targets), use_bias=False, **SYSTEM, **sizes)
    curvature = float(sim.hessians(0)[0, 0])
    start = np.random.default_rng(0).standard_normal((sizes["num_walkers"], 1))
    points = []
    for sampler in samplers:
        which = ("kinetic_energy", "virial").index("kinetic_energy" if sampler == "BAOAB" else "virial")
        column = ("kinetic_energy", "virial")[which]
        for friction in frictions:
            for h in steps:
                sim.parameters = start / math.sqrt(INVERSE_TEMPERATURE * curvature)
                every = max(1, sizes["num_steps"] // HARMONIC_ROWS)
                options = {
                    "sampler": sampler,
                    "step_size": h,
                    "friction": friction,
                    "record_every": every,
                    "seed": next(seeds),
                }
                error, bar = average(sim, column, sizes["num_steps"] // 10, **options)
                exact = exact_errors(sampler, h, friction, np.array([curvature]))[which]
                point = Point("harmonic", sampler, column.replace("_", " "), a, friction, h, error, bar, exact)
                points.append(point)
                say(point)
    return points


def cluster_errors(steps: dict[str, Sequence[float]], sizes: dict, seeds: Iterator[int]) -> list[Point]:
    """The virial of every sampler on the two clusters, started from the minimum."""
    sim = tati_re.Simulation(data="two_clusters", **SYSTEM, **sizes)
    sim.fit(
        optimizer="gradient_descent",
        learning_rate=0.03,
        num_steps=NUM_FIT_STEPS,
        record_every=NUM_FIT_STEPS,
        trajectory_every=0,
    )
    minimum, curvatures = sim.parameters.copy(), np.linalg.eigvalsh(sim.hessians(0))
    print(f"two clusters: eigenvalues of the Hessian {', '.join(f'{value:.2f}' for value in curvatures)}")
    points = []
    for sampler, sampler_steps in steps.items():
        friction = math.nan if sampler == "SGLD" else CLUSTER_FRICTION
        for h in sampler_steps:
            sim.parameters = minimum
            every = max(1, sizes["num_steps"] // CLUSTER_ROWS, min(round(0.25 / h), sizes["num_steps"] // 200))
            burnin = min(math.ceil(BURNIN_TIME / h), sizes["num_steps"] // 2)
            options = {"sampler": sampler, "step_size": h, "record_every": every, "seed": next(seeds)}
            error, bar = average(sim, "virial", burnin, friction=CLUSTER_FRICTION, **options)
            exact = exact_errors(sampler, h, friction, curvatures)[1]
            points.append(Point("clusters", sampler, "virial", math.nan, friction, h, error, bar, exact))
            say(points[-1])
    return points


def say(point: Point) -> None:
    """Prints a point, and by how many of its error bars it misses the exact value."""
    constants = f"a {point.a:g}, " if point.system == "harmonic" else ""
    constants += "" if math.isnan(point.friction) else f"friction {point.friction:g}, "
    name = f"{point.system}, {point.sampler}, {constants}h {point.step_size:.4g}"
    off = (point.error - point.exact) / point.error_bar
    print(
        f"{name:52}{point.quantity:16}error {point.error:+.5f} ± {point.error_bar:.5f}   exact {point.exact:+.5f}   "
        f"off by {off:+.1f} bars",
        flush=True,
    )


def pooled(points: Sequence[Point]) -> list[Point]:
    """One point for each step size: the mean over the frictions, weighted by their error bars."""
    result = []
    for h in sorted({point.step_size for point in points}):
        same = [point for point in points if point.step_size == h]
        weights = np.array([point.error_bar for point in same]) ** -2
        error, exact = (np.average([getattr(p, name) for p in same], weights=weights) for name in ("error", "exact"))
        bar = float(weights.sum() ** -0.5)
        result.append(same[0]._replace(friction=math.nan, error=float(error), error_bar=bar, exact=float(exact)))
    return result


def fitted_slope(points: Sequence[Point]) -> Slope:
    """Fits error = c h^slope to all points by least squares, each weighted by its error bar.

    The logarithm is not fitted: it would need the points that chance took near 0 left out, and so prefer large ones.
    """
    h, error, bar, exact = _columns(points)
    if np.sum(np.abs(error) > RESOLVED * bar) < 2:
        return Slope(math.nan, math.nan, math.nan)

    def power(h, log_constant, slope):
        return np.exp(log_constant + slope * np.log(h / points[-1].step_size))

    fits = []
    for values in (error * np.sign(error[-1]), np.abs(exact)):
        guess = (math.log(np.abs(values).max()), 1.0)
        fits.append(curve_fit(power, h, values, guess, sigma=bar, absolute_sigma=True))
    return Slope(float(fits[0][0][1]), float(np.sqrt(fits[0][1][1, 1])), float(fits[1][0][1]))


def _columns(points: Sequence[Point]) -> tuple[np.ndarray, ...]:
    names = ("step_size", "error", "error_bar", "exact")
    return tuple(np.array([getattr(point, name) for point in points]) for name in names)


def curves(points: Sequence[Point]) -> dict[tuple[str, str, float], list[Point]]:
    """The points of each line of the figure: system, sampler and a, pooled over frictions."""
    keys = dict.fromkeys((p.system, p.sampler, 0.0 if math.isnan(p.a) else p.a) for p in points)
    return {
        key: pooled([p for p in points if (p.system, p.sampler) == key[:2] and (math.isnan(p.a) or p.a == key[2])])
        for key in keys
    }


def tell(lines: dict[tuple[str, str, float], list[Point]]) -> list[str]:
    """Prints the slope of each line beside the published one, and returns the table as CSV lines."""
    print(f"\n{'':34}{'slope measured':22}{'exact, same points':26}published")
    rows = ["system,sampler,a,slope,error_bar,exact,published"]
    for (system, sampler, a), line in lines.items():
        slope, paper = fitted_slope(line), PUBLISHED[system, sampler]
        if math.isnan(slope.slope):
            largest = max(abs(point.error) / point.error_bar for point in line)
            measured, exact = "statistical limit", f"within {largest:.1f} bars of 0"
        else:
            measured, exact = f"{slope.slope:.3f} ± {slope.error_bar:.3f}", f"{slope.exact:.3f}"
        name = f"{system}, {sampler}" + (f", a = {a:g}" if system == "harmonic" else "")
        print(f"{name:34}{measured:22}{exact:26}{paper}")
        values = ",".join("" if math.isnan(v) else f"{v:.9g}" for v in slope)
        rows.append(f'{system},{sampler},{a or ""},{values},"{paper}"')
    return rows


def draw(lines: dict[tuple[str, str, float], list[Point]], path: Path) -> None:
    """Draws abs(error) against h beside the exact lines (dashed); a hollow point lies within three bars of 0."""
    from tati_re.plotting import COLORS, new_figure, plain, save

    kinetic = {key: line for key, line in lines.items() if key[:2] == ("harmonic", "BAOAB")}
    virial = {key: line for key, line in lines.items() if key[:2] == ("harmonic", "GLA2")}
    rest = {key: line for key, line in lines.items() if key[0] == "clusters"}
    panels = [
        ("harmonic well: kinetic energy, BAOAB", kinetic),
        ("harmonic well: virial, GLA2", virial),
        ("two clusters: virial", rest),
    ]
    panels = [(title, group) for title, group in panels if group]
    figure = new_figure(3.7 * len(panels), 4.4)
    for axes, (title, group) in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        for color, (key, line) in zip(COLORS, group.items(), strict=False):
            slope = fitted_slope(line)
            name = f"a = {key[2]:g}" if key[0] == "harmonic" else key[1]
            fit = f"slope {slope.slope:.2f} ± {slope.error_bar:.2f}" if slope.slope > 0 else "statistical limit"
            _draw_line(axes, line, color, f"{name}: {fit}")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(bottom=0.3 * min(point.error_bar for line in group.values() for point in line))
        axes.set_xlabel("step size h" + (" (SGLD: its own, gradient coefficient)" if group is rest else ""))
        axes.set_ylabel("relative error of the average")
        axes.set_title(f"{title}\n(dashed: exact)", fontsize=9, loc="left", pad=56)
        plain(axes)
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 1.0), frameon=False, fontsize=7.5, handlelength=1.2)
    save(figure, path)


def _draw_line(axes, line: Sequence[Point], color: str, label: str) -> None:
    h, error, bar, exact = _columns(line)
    size = np.abs(error)
    below = np.minimum(bar, 0.9 * size)
    far = size > RESOLVED * bar
    for mask, face, name in ((far, color, label), (~far, "white", None if far.any() else label)):
        if mask.any():
            axes.errorbar(
                h[mask],
                size[mask],
                yerr=[below[mask], bar[mask]],
                fmt="o",
                color=color,
                markerfacecolor=face,
                markersize=5,
                linewidth=1.0,
                capsize=2,
                label=name,
            )
    if np.abs(exact).max() > 1e-12:
        axes.plot(h, np.abs(exact), color=color, linewidth=0.9, linestyle="--")


def reproduce(num_walkers: int, num_steps: int, seed: int, output: Path, quick: bool) -> None:
    """Runs all of it, prints and writes.

    Args:
        num_walkers: Independent seeds.
        num_steps: Of each walker at each step size.
        seed: Of the data set and all random numbers.
        output: Folder of the files.
        quick: Two step sizes of three methods only.

    Raises:
        InputError: Too small sizes, or a folder that cannot be written.
    """
    if num_steps < SMALLEST_NUM_STEPS:
        raise tati_re.InputError("--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS:,}")
    if num_walkers < SMALLEST_NUM_WALKERS:
        raise tati_re.InputError("--num-walkers is too small.", num_walkers, f"at least {SMALLEST_NUM_WALKERS}")
    sizes = {"num_walkers": num_walkers, "num_steps": num_steps, "seed": seed}
    seeds = itertools.count(seed)  # one for each average: common random numbers would make their errors alike
    if quick:
        points = harmonic_errors(4.0, ("BAOAB", "GLA2"), HARMONIC_STEPS[-2:], (10.0,), sizes, seeds)
        points += cluster_errors({"GLA1": (0.04, 0.08)}, sizes, seeds)
    else:
        points = []
        for a in CONSTANTS:
            # The friction changes the error bar only; all of them where there is an error to see.
            frictions = FRICTIONS if a == CONSTANT_OF_SLOPE else (10.0,)
            points += harmonic_errors(a, ("BAOAB",), HARMONIC_STEPS, frictions, sizes, seeds)
        points += harmonic_errors(CONSTANT_OF_SLOPE, ("GLA2",), HARMONIC_STEPS, (10.0,), sizes, seeds)
        points += cluster_errors(CLUSTER_STEPS, sizes, seeds)
    lines = curves(points)
    slopes = tell(lines)
    off = np.array([(point.error - point.exact) / point.error_bar for point in points])
    print(f"{len(off)} averages lie {off.std():.2f} error bars (root mean square) from the exact values; 1 is right.")
    try:
        output.mkdir(parents=True, exist_ok=True)
        rows = [",".join("" if v != v else f"{v:.9g}" if isinstance(v, float) else v for v in p) for p in points]
        (output / "errors.csv").write_text("\n".join([",".join(Point._fields), *rows, ""]))
        (output / "slopes.csv").write_text("\n".join([*slopes, ""]))
    except OSError as error:
        raise tati_re.InputError(f"The results cannot be written: {error.strerror}.", output) from None
    draw(lines, output / "figure.png")
    print(", ".join(str(output / name) for name in ("errors.csv", "slopes.csv", "figure.png")))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Discretization errors, Figures 2 to 4 of TATi's paper.")
    parser.add_argument("--num-walkers", type=int, default=100, metavar="N", help="independent seeds; default 100")
    parser.add_argument("--num-steps", type=int, default=100_000, metavar="N", help="steps of each; default 100,000")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of data and random numbers; default 1")
    parser.add_argument("--quick", action="store_true", help="a part of it, in seconds")
    parser.add_argument("--output", type=Path, default=Path("results/tati_figures_2_to_4"), metavar="DIR")
    arguments = parser.parse_args(argv)
    try:
        reproduce(arguments.num_walkers, arguments.num_steps, arguments.seed, arguments.output, arguments.quick)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
