"""Densities of one's own, against closed forms: a banana, and Neal's funnel as it stands and in
other coordinates.

Banana: x ~ N(0, 1), y ~ N(x^2, 1/4), so that E x^2 = 1, E y = 1 and E y^2 = 3.25. Funnel: v ~ N(0,
9) and nine x_i ~ N(0, e^v), a neck that no step size fits together with the mouth. With z_i = x_i
e^(-v/2) for x_i all coordinates are normal, and the same sampler gets E v = 0 and E v^2 = 9 right.
All are sampled by HMC with 64 walkers.

    python examples/targets.py [--num-steps 4000] [--quick] [--output results/targets]

Writes results.csv and funnel.png to the output folder, in about a minute. Source of the funnel: R.
M. Neal, Slice sampling, Annals of Statistics 31, 705 (2003), with these nine x.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import tensorflow as tf

import tati_re
from tati_re import InputError

NUM_WALKERS, SMALLEST_NUM_STEPS = 64, 200


def banana(x):
    """U of all walkers, `(walkers,)`, at `(walkers, 2)`."""
    return 0.5 * x[:, 0] ** 2 + 2 * (x[:, 1] - x[:, 0] ** 2) ** 2


def funnel(x):
    """U of v and nine x: the normalization of the x depends on v, and belongs to U."""
    v = x[:, 0]
    return v**2 / 18 + 0.5 * tf.exp(-v) * tf.reduce_sum(x[:, 1:] ** 2, -1) + 4.5 * v


def straightened(z):
    """The funnel in v and z = x exp(-v/2), which are independent and normal."""
    return z[:, 0] ** 2 / 18 + 0.5 * tf.reduce_sum(z[:, 1:] ** 2, -1)


class Case(NamedTuple):
    """A target, its coordinates, step size and length of the trajectories, and moments: coordinate,
    power and truth.
    """

    potential: Callable
    coordinates: list[str]
    step_size: float
    num_leapfrog_steps: int
    moments: list[tuple[str, int, float]]


OF_V = [("v", 1, 0.0), ("v", 2, 9.0)]
CASES = {
    "banana": Case(
        banana, ["x", "y"], 0.1, 15, [("x", 1, 0.0), ("x", 2, 1.0), ("y", 1, 1.0), ("y", 2, 3.25)]
    ),
    "funnel": Case(funnel, ["v", *(f"x{i}" for i in range(1, 10))], 0.2, 10, OF_V),
    "funnel, straightened": Case(
        straightened, ["v", *(f"z{i}" for i in range(1, 10))], 0.5, 10, OF_V
    ),
}


def sample(case: Case, num_steps: int) -> pd.DataFrame:
    """The trajectory after a fifth of the steps."""
    sim = tati_re.Simulation(
        potential=case.potential,
        coordinates=case.coordinates,
        num_walkers=NUM_WALKERS,
        walker_start="jitter",
        walker_jitter=1.0,
        verbose=0,
    )
    burnin = num_steps // 5
    run = sim.sample(
        sampler="HMC",
        step_size=case.step_size,
        num_leapfrog_steps=case.num_leapfrog_steps,
        num_steps=num_steps,
        num_burnin_steps=burnin,
        trajectory_every=4,
    )
    return run.trajectory[run.trajectory["step"] > burnin]


def moments(name: str, case: Case, rows: pd.DataFrame) -> list[dict]:
    """Each moment beside its truth, with an error from the spread of the walkers."""
    table = []
    for coordinate, power, truth in case.moments:
        means = (rows[coordinate] ** power).groupby(rows["walker"]).mean()
        mean, error = float(means.mean()), float(means.std() / np.sqrt(len(means)))
        row = {
            "target": name,
            "moment": f"E {coordinate}^{power}",
            "exact": truth,
            "sampled": mean,
            "error": error,
        }
        table.append(row | {"errors_off": abs(mean - truth) / error})
    return table


def draw(rows: dict[str, pd.DataFrame], path: Path) -> None:
    """The density of v in both coordinates, and the exact one."""
    from tati_re.plotting import COLORS, DARK, new_figure, plain, save

    figure = new_figure(5.0, 3.2)
    axes = figure.subplots()
    edges = np.linspace(-11, 11, 67)
    for color, (name, table) in zip(COLORS, rows.items(), strict=False):
        axes.hist(table["v"], edges, density=True, color=color, alpha=0.45, label=name)
    axes.plot(
        edges,
        np.exp(-(edges**2) / 18) / np.sqrt(18 * np.pi),
        color=DARK,
        linewidth=1.2,
        label="exact, N(0, 9)",
    )
    axes.set(xlabel="v, the logarithm of the funnel's width squared", ylabel="density")
    axes.legend(frameon=False, fontsize=8)
    plain(axes)
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the experiment; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--num-steps", type=int, help="HMC trajectories of each walker (default 4000, quick 600)"
    )
    parser.add_argument("--quick", action="store_true", help="some seconds, and larger errors")
    parser.add_argument(
        "--output", type=Path, default=Path("results/targets"), help="folder for table and figure"
    )
    options = parser.parse_args(arguments)
    num_steps = (
        options.num_steps if options.num_steps is not None else 600 if options.quick else 4000
    )
    try:
        if num_steps < SMALLEST_NUM_STEPS:
            raise InputError(
                "--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS}"
            )
        rows = {name: sample(case, num_steps) for name, case in CASES.items()}
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    table = pd.DataFrame(
        [row for name, case in CASES.items() for row in moments(name, case, rows[name])]
    )
    options.output.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.output / "results.csv", index=False)
    draw({name: rows[name] for name in CASES if name != "banana"}, options.output / "funnel.png")
    print(table.to_string(index=False, float_format=lambda value: f"{value:.3g}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
