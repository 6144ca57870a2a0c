"""Noise that is sampled, beside noise that is chosen: log densities of new observations on the
yacht data.

A regression needs the standard deviation of its noise. Chosen too small, the posterior is too sure
of itself; chosen too large, it is vague. Here one network is sampled with several values, and once
with `noise_std="sampled"`, where log σ is a parameter with a half normal prior: no search and no
validation part, and the spread of σ goes into the predictions.

    python examples/sampled_noise.py [--data FOLDER] [--num-steps 3000] [--output
    results/sampled_noise]

FOLDER holds uci/yacht.txt (six columns and the resistance); without it, a set like it is made: 308
points of a steep function of six inputs. Writes sampled_noise.csv and sampled_noise.png, in two
minutes or so on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tati_re

CHOSEN = (0.01, 0.02, 0.05, 0.1, 0.3, 1.0)
"""Standard deviations in units of that of the targets."""

FIT_STEPS = 500
"""Fewest steps of the fit at which each run starts."""


class Found(NamedTuple):
    """What one run found.

    Attributes:
        noise: σ in standardized units: the chosen one, or the draws of the sampled one.
        log_density: Mean of new observations, in nats.
        error: Its standard error over the test set.
    """

    noise: np.ndarray
    log_density: float
    error: float


def made() -> np.ndarray:
    """A set like the yachts': 308 rows of six inputs and a target, with noise of 0.8 beside a
    spread of 15.
    """
    random = np.random.default_rng(0)
    inputs = random.uniform(0.0, 1.0, (308, 6))
    return np.column_stack(
        [inputs, 60 * inputs[:, 5] ** 6 * (1 + 0.2 * inputs[:, 0]) + random.normal(0, 0.8, 308)]
    )


def rows_of(folder: Path | None) -> np.ndarray:
    """The rows of the yacht data, or of a set like them.

    Raises:
        InputError: The folder has no such file.
    """
    if folder is None:
        return made()
    path = folder / "uci" / "yacht.txt"
    if not path.exists():
        raise tati_re.InputError(
            "--data: there is no uci/yacht.txt.", folder, "a folder with it, or no --data"
        )
    return np.loadtxt(path)


def run(rows: np.ndarray, noise_std: float | str, num_steps: int) -> Found:
    """Fits and samples one network.

    Args:
        rows: Inputs and, last, the target.
        noise_std: A number, or "sampled".
        num_steps: Of the sampler, a third of which is burn-in.
    """
    sim = tati_re.Simulation(
        data=(rows[:, :-1], rows[:, -1]),
        test_fraction=0.2,
        standardize="all",
        hidden=[20],
        activation="tanh",
        noise_std=noise_std,
        noise_prior="half_normal",
        num_walkers=4,
        execution="graph",
        seed=1,
        verbose=0,
    )
    # From a poor fit the noise falls and the curvature rises while the step size stays: it diverges.
    sim.fit(optimizer="adam", learning_rate=0.01, num_steps=max(FIT_STEPS, num_steps // 3))
    draws = sim.sample(
        step_size=0.9 * sim.suggest_step_size(),
        friction=3.0,
        num_steps=num_steps,
        num_burnin_steps=num_steps // 3,
        record_every=10,
        trajectory_every=max(1, num_steps // 100),
    )
    density = draws.predict(sim.dataset.test_inputs, sim.dataset.test_targets).log_density
    found = draws.run_info
    kept = found[found["step"] > num_steps // 3]
    noise = kept["noise_std"].to_numpy() if noise_std == "sampled" else np.array([noise_std])
    return Found(noise, float(density.mean()), float(density.std() / np.sqrt(len(density))))


def draw(found: dict[float | str, Found], path: Path) -> None:
    """Draws log densities against the noise, and the posterior of the sampled one above them."""
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(5.6, 3.6)
    axes = figure.subplots()
    chosen = [one for name, one in found.items() if name != "sampled"]
    values, errors = [one.log_density for one in chosen], [one.error for one in chosen]
    axes.errorbar(
        [one.noise[0] for one in chosen],
        values,
        errors,
        color=COLORS[0],
        marker="o",
        capsize=2,
        label="noise chosen",
    )
    one = found["sampled"]
    low, middle, high = np.quantile(one.noise, [0.05, 0.5, 0.95])
    axes.errorbar(
        [middle],
        [one.log_density],
        [[one.error], [one.error]],
        [[middle - low], [high - middle]],
        color=COLORS[1],
        marker="s",
        capsize=2,
        label="noise sampled: median and 90 % of σ",
    )
    axes.axhline(one.log_density, color=GRAY, linewidth=0.7, linestyle=":")
    axes.set_xscale("log")
    best = max(value + error for value, error in zip(values, errors, strict=True))
    axes.set_ylim(max(min(values) - 1, best - 6), best + 0.5)
    axes.set_xlabel("standard deviation of the noise, over that of the targets")
    axes.set_ylabel("log density of a new observation [nats]")
    plain(axes)
    legend_above(axes)
    save(figure, path)


def compare(folder: Path | None, num_steps: int, output: Path) -> None:
    """Runs all, prints a table, writes CSV and figure."""
    if num_steps < 30:
        raise tati_re.InputError("--num-steps is too small.", num_steps, "30 or more")
    rows = rows_of(folder)
    found = {noise: run(rows, noise, num_steps) for noise in (*CHOSEN, "sampled")}
    lines = ["noise_std,noise_low,noise_median,noise_high,log_density,standard_error"]
    print(f"{'noise_std':>10}  {'sigma':>8}  log density of a new observation")
    for name, one in found.items():
        low, middle, high = np.quantile(one.noise, [0.05, 0.5, 0.95])
        lines.append(
            f"{name},{low:.6g},{middle:.6g},{high:.6g},{one.log_density:.6g},{one.error:.6g}"
        )
        print(f"{name!s:>10}  {middle:8.4f}  {one.log_density:8.3f} +- {one.error:.3f}")
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "sampled_noise.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None
    draw(found, output / "sampled_noise.png")
    print(f"\n{output / 'sampled_noise.csv'}, {output / 'sampled_noise.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Noise that is sampled, beside noise that is chosen."
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder that holds uci/yacht.txt"
    )
    parser.add_argument(
        "--num-steps", type=int, default=3_000, metavar="N", help="steps of each run; default 3000"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("results/sampled_noise"),
        metavar="DIR",
        help="folder of the files",
    )
    arguments = parser.parse_args(argv)
    try:
        compare(arguments.data, arguments.num_steps, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
