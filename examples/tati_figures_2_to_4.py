"""Discretization errors of GLA1, GLA2, BAOAB and SGLD where they are known exactly: Figures 2 to 4
of TATi's paper.

Figures 2 and 3: one weight on the single example (sqrt(a), 0), a harmonic well with force constant
2a, for three a and five frictions. The mean kinetic energy of BAOAB is too small by the part h²
2a/4, the mean virial of GLA2 too large by about the same, whatever the friction: it decides the
error bar. Figure 4: a linear perceptron on two clusters, 500 points, 3 parameters. Its potential is
quadratic too, so that the error of the mean virial θ·∇L is known for every method: GLA1 and SGLD
are of first order, GLA2 of second, and BAOAB has no error. All on the full batch with U = mean loss
and β = 10; each walker is a seed of its own and gives one average.

    python examples/tati_figures_2_to_4.py [--num-walkers 100] [--num-steps 20000] [--full]
    [--output DIR]

Writes errors.csv (every average with its error bar and the exact value), slopes.csv,
figure2_and_3.png and figure4.png to the output folder; --full takes 10⁶ steps, as published. A run
that was interrupted goes on.

Source: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling strategies based on discretized
stochastic differential equations for machine learning applications, J. Mach. Learn. Res. 21 (2020),
section 3.1.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.linalg import solve_discrete_lyapunov
from scipy.optimize import curve_fit

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re
from tati_re.data.generators import harmonic

INVERSE_TEMPERATURE = 10.0
SYSTEM = {
    "loss": "mean_squared_error",
    "potential": "mean_loss",
    "prior": "none",
    "dtype": "float64",
    "verbose": 0,
}
HARMONIC_ROWS, CLUSTER_ROWS = 1_000, 10_000
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
    ("harmonic", "GLA2"): f"{SLOPES['harmonic well, a = 4, GLA2']} at a = 4",
    ("clusters", "GLA1"): SLOPES["two clusters, GLA1"],
    ("clusters", "GLA2"): SLOPES["two clusters, GLA2"],
    ("clusters", "BAOAB"): "none: statistical limit",
    (
        "clusters",
        "SGLD",
    ): f"{SLOPES['two clusters, SGLD']} ({SLOPES['SGLD against sqrt(h)']} against sqrt(h))",
}
RESOLVED = 3.0
"""Error bars from 0 that a point must lie to count as an error that is seen."""
SMALLEST_NUM_STEPS = 1_000
SMALLEST_NUM_WALKERS = 10
NUM_STEPS, FULL_NUM_STEPS = 20_000, 1_000_000
CLOSE = 1e-12
"""Relative distance of the temperatures of two rungs: equal ones are no ladder."""


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
        num_walkers: Independent seeds.
        num_steps: Of each.
        seed: Of the whole experiment.
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
    num_walkers: int = 0
    num_steps: int = 0
    seed: int = 0


class Slope(NamedTuple):
    """Power of h in error = c h^slope; nan where fewer than two points lie three error bars or more
    from 0.

    Attributes:
        slope: Fitted to the measured errors.
        error_bar: Its standard error.
        exact: The same fit to the exact errors, with the same weights: errors are powers only for
            small h.
    """

    slope: float
    error_bar: float
    exact: float


def exact_errors(
    sampler: str, step_size: float, friction: float, curvatures: np.ndarray
) -> tuple[float, float]:
    """Relative errors of mean kinetic energy and mean virial at the end of a step on a quadratic
    potential.

    A step is linear with Gaussian noise, z' = M z + N(0, Q) for z = (q, p) of each mode, so that
    its stationary covariance solves S = M S M' + Q.
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
            part = np.array(
                {"A": [[1, t], [0, 1]], "B": [[1, 0], [-t * curvature, 1]], "O": [[1, 0], [0, c]]}[
                    letter
                ]
            )
            matrix, noise = part @ matrix, part @ noise @ part.T
            noise[1, 1] += (1 - c * c) if letter == "O" else 0.0
        covariance = solve_discrete_lyapunov(matrix, noise)
        errors.append((covariance[1, 1] - 1, curvature * covariance[0, 0] - 1))
    return tuple(np.mean(errors, axis=0).tolist())


class Book:
    """The points so far, in errors.csv: what is there is not computed again.

    Args:
        path: The file, new or one of the same sizes.
        sizes: `num_walkers`, `num_steps` and `seed` of all points.

    Raises:
        InputError: The file has points of other sizes, or cannot be read or written.
    """

    def __init__(self, path: Path, sizes: dict) -> None:
        self.path, self.sizes, self.points, self.num_runs = path, sizes, [], 0
        if path.exists():
            self.points = [Point(**row) for row in pd.read_csv(path).to_dict("records")]
        other = [
            point
            for point in self.points
            if sizes != {name: getattr(point, name) for name in sizes}
        ]
        if other:
            found = ", ".join(f"{name} {getattr(other[0], name)}" for name in sizes)
            raise tati_re.InputError(
                "--output holds points of other sizes.", found, "another folder, or these sizes"
            )

    def lacks(self, **values) -> bool:
        """Whether no point has these values; counts a run, so that each has a seed of its own."""
        self.num_runs += 1
        wanted = {name: value for name, value in values.items() if value == value}
        return not any(
            all(getattr(point, name) == value for name, value in wanted.items())
            for point in self.points
        )

    def next_seed(self) -> int:
        """Common random numbers would make the errors of two runs alike."""
        return self.sizes["seed"] + self.num_runs

    def add(self, points: Sequence[Point]) -> None:
        """Prints points and writes all there are."""
        for point in points:
            say(point)
        self.points += [point._replace(**self.sizes) for point in points]
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            partial = self.path.with_suffix(".part")
            pd.DataFrame(self.points).to_csv(partial, index=False, float_format="%.9g")
            partial.replace(self.path)
        except OSError as error:
            raise tati_re.InputError(
                f"The results cannot be written: {error.strerror}.", self.path
            ) from None


def averages(
    sim: tati_re.Simulation, column: str, num_burnin_steps: int, **options
) -> list[tuple[float, float]]:
    """Samples, and returns the relative error of one column's average and its standard error over
    the walkers.

    Returns:
        A pair for each rung.
    """
    run = sim.sample(num_burnin_steps=num_burnin_steps, trajectory_every=0, **options)
    found = []
    for rung in range(max(1, len(options.get("step_sizes", [])))):
        rows = (
            run.averages[run.averages["rung"] == rung] if "rung" in run.averages else run.averages
        )
        means = rows.groupby("walker")[column].last().to_numpy()
        relative = means * 2 * INVERSE_TEMPERATURE / sim.num_parameters() - 1
        found.append(
            (float(relative.mean()), float(relative.std(ddof=1) / math.sqrt(len(relative))))
        )
    return found


def harmonic_errors(
    a: float,
    samplers: Sequence[str],
    steps: Sequence[float],
    frictions: Sequence[float],
    book: Book,
) -> None:
    """Kinetic energy of BAOAB and virial of GLA2 on the well with force constant 2a, started in its
    law.

    The step sizes are the rungs of a ladder without exchange, so that one run has them all.
    """
    data = harmonic(a)
    kept = {name: book.sizes[name] for name in ("num_walkers", "num_steps")}
    options = {
        "temperatures": [(1 + CLOSE * place) / INVERSE_TEMPERATURE for place in range(len(steps))],
        "step_sizes": list(steps),
        "exchange": "none",
        "record_every": max(1, kept["num_steps"] // HARMONIC_ROWS),
    }
    curvature = 2 * a
    start = np.random.default_rng(0).standard_normal((kept["num_walkers"], 1))
    for sampler, friction in itertools.product(samplers, frictions):
        if not book.lacks(system="harmonic", sampler=sampler, a=a, friction=friction):
            continue
        sim = tati_re.Simulation(data=(data.inputs, data.targets), use_bias=False, **SYSTEM, **kept)
        assert math.isclose(float(sim.hessians(0)[0, 0]), curvature, rel_tol=1e-9)
        sim.parameters = start / math.sqrt(INVERSE_TEMPERATURE * curvature)
        column = "kinetic_energy" if sampler == "BAOAB" else "virial"
        more = {"sampler": sampler, "friction": friction, "seed": book.next_seed()}
        found = averages(sim, column, kept["num_steps"] // 10, **options, **more)
        points = []
        for h, (error, bar) in zip(steps, found, strict=True):
            exact = exact_errors(sampler, h, friction, np.array([curvature]))[column == "virial"]
            points.append(
                Point(
                    "harmonic", sampler, column.replace("_", " "), a, friction, h, error, bar, exact
                )
            )
        book.add(points)


def cluster_errors(steps: dict[str, Sequence[float]], book: Book) -> None:
    """The virial of every sampler on the two clusters, started from the minimum."""
    sim = tati_re.Simulation(data="two_clusters", **SYSTEM, **book.sizes)
    sim.fit(
        optimizer="gradient_descent",
        learning_rate=0.03,
        num_steps=NUM_FIT_STEPS,
        record_every=NUM_FIT_STEPS,
        trajectory_every=0,
    )
    minimum, curvatures = sim.parameters.copy(), np.linalg.eigvalsh(sim.hessians(0))
    print(
        f"two clusters: eigenvalues of the Hessian {', '.join(f'{value:.2f}' for value in curvatures)}"
    )
    num_steps = book.sizes["num_steps"]
    for sampler, sampler_steps in steps.items():
        friction = math.nan if sampler == "SGLD" else CLUSTER_FRICTION
        for h in sampler_steps:
            if not book.lacks(system="clusters", sampler=sampler, step_size=h):
                continue
            sim.parameters = minimum
            every = max(1, num_steps // CLUSTER_ROWS, min(round(0.25 / h), num_steps // 200))
            burnin = min(math.ceil(BURNIN_TIME / h), num_steps // 2)
            options = {
                "sampler": sampler,
                "step_size": h,
                "record_every": every,
                "seed": book.next_seed(),
            }
            options |= {"inverse_temperature": INVERSE_TEMPERATURE, "friction": CLUSTER_FRICTION}
            ((error, bar),) = averages(sim, "virial", burnin, **options)
            exact = exact_errors(sampler, h, friction, curvatures)[1]
            book.add(
                [Point("clusters", sampler, "virial", math.nan, friction, h, error, bar, exact)]
            )


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
        error, exact = (
            np.average([getattr(p, name) for p in same], weights=weights)
            for name in ("error", "exact")
        )
        bar = float(weights.sum() ** -0.5)
        result.append(
            same[0]._replace(
                friction=math.nan, error=float(error), error_bar=bar, exact=float(exact)
            )
        )
    return result


def fitted_slope(points: Sequence[Point]) -> Slope:
    """Fits error = c h^slope to all points by least squares, each weighted by its error bar.

    The logarithm is not fitted: it would need the points that chance took near 0 left out, and so
    prefer large ones.
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


def fit_of(points: Sequence[Point], before: str = "") -> str:
    """The slope in words."""
    slope = fitted_slope(points)
    if not math.isnan(slope.slope):
        return f"{before}{slope.slope:.2f} ± {slope.error_bar:.2f}"
    seen = [point for point in points if abs(point.error) > RESOLVED * point.error_bar]
    return f"seen at h = {seen[0].step_size:.3g} alone" if seen else "statistical limit"


def _columns(points: Sequence[Point]) -> tuple[np.ndarray, ...]:
    names = ("step_size", "error", "error_bar", "exact")
    return tuple(np.array([getattr(point, name) for point in points]) for name in names)


Key = tuple[str, str, float]


def lines_of(points: Sequence[Point]) -> dict[Key, dict[float, list[Point]]]:
    """The points of every panel or curve (system, sampler, a; 0 for the clusters) by friction; 0
    for that of SGLD.
    """
    found: dict[Key, dict[float, list[Point]]] = {}
    for point in points:
        key = (point.system, point.sampler, 0.0 if math.isnan(point.a) else point.a)
        friction = 0.0 if math.isnan(point.friction) else point.friction
        found.setdefault(key, {}).setdefault(friction, []).append(point)
    return found


def tell(lines: dict[Key, dict[float, list[Point]]]) -> list[str]:
    """Prints slopes beside the published ones, for every friction and for all, and returns the
    table as CSV lines.
    """
    print(f"\n{'':46}{'slope measured':26}{'exact, same points':26}published")
    rows = ["system,sampler,a,friction,slope,error_bar,exact,published"]
    for (system, sampler, a), line in lines.items():
        parts = {f"{friction:g}": part for friction, part in line.items()}
        all_points = [point for part in line.values() for point in part]
        for friction, part in (
            parts.items() if len(parts) == 1 else {**parts, "all": pooled(all_points)}.items()
        ):
            slope, paper = fitted_slope(part), PUBLISHED[system, sampler]
            measured, exact = fit_of(part), f"{slope.exact:.3f}"
            if math.isnan(slope.slope):
                largest = max(abs(point.error) / point.error_bar for point in part)
                exact = f"within {largest:.1f} bars of 0"
            name = f"{system}, {sampler}" + (
                f", a = {a:g}, friction {friction}" if system == "harmonic" else ""
            )
            print(f"{name:46}{measured:26}{exact:26}{paper}")
            values = ",".join("" if math.isnan(v) else f"{v:.9g}" for v in slope)
            rows.append(f'{system},{sampler},{a or ""},{friction},{values},"{paper}"')
    return rows


def draw_wells(lines: dict[Key, dict[float, list[Point]]], path: Path) -> None:
    """Draws abs(error) against h, one line a friction, beside the exact line (dashed); a hollow
    point lies within three bars of 0.
    """
    from tati_re.plotting import COLORS, new_figure, plain, save

    wells = [key for key in lines if key[0] == "harmonic"]
    samplers = list(dict.fromkeys(key[1] for key in wells))
    constants = sorted({key[2] for key in wells})
    figure = new_figure(3.0 * len(constants) + 0.8, 2.9 * len(samplers) + 0.5)
    grid, shown = figure.add_gridspec(len(samplers), len(constants)), {}
    for key in wells:
        axes = figure.add_subplot(grid[samplers.index(key[1]), constants.index(key[2])])
        for place, (color, (friction, line)) in enumerate(
            zip(COLORS, sorted(lines[key].items()), strict=False)
        ):
            shown[friction] = _draw_line(axes, line, color, 1.05 ** (place - 2))
        fit = fit_of(pooled([point for line in lines[key].values() for point in line]), "slope ")
        _finish(axes, line, f"{key[1]}, {line[0].quantity}, a = {key[2]:g}\nall frictions: {fit}")
        plain(axes)
    frictions = sorted(shown)
    names = [f"γ = {friction:g}" for friction in frictions]
    handles = [shown[friction] for friction in frictions]
    figure.legend(
        handles, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8
    )
    save(figure, path)


def draw_clusters(lines: dict[Key, dict[float, list[Point]]], path: Path) -> None:
    """The same for the clusters, one line a sampler."""
    from tati_re.plotting import COLORS, new_figure, plain, save

    figure = new_figure(4.6, 4.0)
    axes = figure.subplots()
    for color, (key, line) in zip(
        COLORS, ((k, v) for k, v in lines.items() if k[0] == "clusters"), strict=False
    ):
        points = next(iter(line.values()))
        _draw_line(axes, points, color, label=f"{key[1]}: {fit_of(points, 'slope ')}")
        _finish(axes, points, "two clusters, virial", color)
    axes.set_xlabel("step size h (SGLD: its own)")
    axes.legend(loc="lower right", frameon=False, fontsize=7.5, handlelength=1.2)
    plain(axes)
    save(figure, path)


def _draw_line(
    axes, line: Sequence[Point], color: str, shift: float = 1.0, label: str | None = None
):
    h, error, bar, _ = _columns(line)
    size, h = np.abs(error), shift * h
    style = {"color": color, "markersize": 4, "linewidth": 0.9, "elinewidth": 0.8, "capsize": 1.5}
    drawn = axes.errorbar(
        h, size, [np.minimum(bar, 0.9 * size), bar], fmt="-o", label=label, **style
    )
    near = size <= RESOLVED * bar
    axes.plot(
        h[near], size[near], "o", color=color, markerfacecolor="white", markersize=4, zorder=5
    )
    return drawn


def _finish(axes, line: Sequence[Point], title: str, color: str = "black") -> None:
    h, _, _, exact = _columns(line)
    if np.abs(exact).max() > 1e-12:
        axes.plot(h, np.abs(exact), color=color, linewidth=0.9, linestyle="--", zorder=6)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("step size h")
    axes.set_title(title, fontsize=8.5, loc="left")
    if axes.get_subplotspec().is_first_col():
        axes.set_ylabel("relative error of the average")


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
        raise tati_re.InputError(
            "--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS:,}"
        )
    if num_walkers < SMALLEST_NUM_WALKERS:
        raise tati_re.InputError(
            "--num-walkers is too small.", num_walkers, f"at least {SMALLEST_NUM_WALKERS}"
        )
    book = Book(
        output / "errors.csv", {"num_walkers": num_walkers, "num_steps": num_steps, "seed": seed}
    )
    if quick:
        harmonic_errors(4.0, ("BAOAB", "GLA2"), HARMONIC_STEPS[-2:], (10.0,), book)
        cluster_errors({"GLA1": (0.04, 0.08)}, book)
    else:
        for a in reversed(CONSTANTS):
            harmonic_errors(a, ("BAOAB", "GLA2"), HARMONIC_STEPS, FRICTIONS, book)
        cluster_errors(CLUSTER_STEPS, book)
    points = book.points
    lines = lines_of(points)
    slopes = tell(lines)
    off = np.array([(point.error - point.exact) / point.error_bar for point in points])
    rms = math.sqrt(np.mean(off**2))
    print(
        f"{len(off)} averages lie {rms:.2f} error bars (root mean square) from the exact values; 1 is right."
    )
    (output / "slopes.csv").write_text("\n".join([*slopes, ""]), encoding="utf-8")
    draw_wells(lines, output / "figure2_and_3.png")
    draw_clusters(lines, output / "figure4.png")
    print(f"written to {output}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Discretization errors, Figures 2 to 4 of TATi's paper."
    )
    parser.add_argument(
        "--num-walkers", type=int, default=100, metavar="N", help="independent seeds; default 100"
    )
    parser.add_argument(
        "--num-steps", type=int, metavar="N", help=f"steps of each; default {NUM_STEPS:,}"
    )
    parser.add_argument(
        "--full", action="store_true", help=f"the published number of steps, {FULL_NUM_STEPS:,}"
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of data and random numbers; default 1"
    )
    parser.add_argument("--quick", action="store_true", help="a part of it, in seconds")
    parser.add_argument(
        "--output", type=Path, default=Path("results/tati_figures_2_to_4"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    try:
        num_steps = arguments.num_steps
        if num_steps is None:
            num_steps = FULL_NUM_STEPS if arguments.full else NUM_STEPS
        reproduce(
            arguments.num_walkers, num_steps, arguments.seed, arguments.output, arguments.quick
        )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
