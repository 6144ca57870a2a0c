"""The well-tempered ensemble: histograms of the energy on each rung, without and with the bias.

A harmonic well of 100 dimensions on six rungs with temperature ratio 1.2, by HMC. Without a bias
the energies of rung r have the law Gamma(50) in units of T; with the converged one Gamma(49/γ + 1)
in units of γT, whose deviation is twice as large at γ = 4, so that neighbors overlap and swap: 2
I_{1/(1+R)}(b, b) with b = 50 and 13.25 is 0.36 and 0.64. The weights e^{A(U)/T} give the law
without bias back.

    python examples/well_tempered_histograms.py [--num-ladders 30] [--num-steps 3000] [--quick]
    [--output results/wte]

Writes results.csv and well_tempered.png to the output folder, in about a minute. Sources: M.
Bonomi, M. Parrinello, Phys. Rev. Lett. 104, 190601 (2010); R. Luo et al., Replica-exchange
Nosé-Hoover dynamics for Bayesian learning on large datasets (2020), appendix.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import betainc
from scipy.stats import gamma

sys.path.insert(0, str(Path(__file__).parent))

from ladder_systems import harmonic, run_ladder

from tati_re import FunctionPotential
from tati_re.exchange import (
    Metropolis,
    ReplicaExchange,
    WellTempered,
    geometric,
    make_swap_schedule,
)
from tati_re.samplers import HamiltonianMonteCarlo

DIMENSIONS, NUM_RUNGS, RATIO = 100, 6, 1.2
BIAS_FACTOR = 4.0
STEP_SIZE, NUM_LEAPFROG_STEPS = 0.25, 8
SMALLEST_NUM_STEPS = 200


class Result(NamedTuple):
    """Energies and weights after the burn-in, `(rows, rungs, ladders)`, and swap rates of each pair
    of rungs.
    """

    energy: np.ndarray
    weight: np.ndarray
    rates: np.ndarray

    def means(self) -> np.ndarray:
        """<U> of each rung without the bias."""
        return (self.energy * self.weight).sum((0, 2)) / self.weight.sum((0, 2))

    def sizes(self) -> np.ndarray:
        """How many samples of equal weight one sample of each rung is worth."""
        return self.weight.mean((0, 2)) ** 2 / (self.weight**2).mean((0, 2))


def shape_and_scale(bias_factor: float) -> tuple[float, float]:
    """Of the energies' Gamma law at T = 1."""
    return (DIMENSIONS / 2 - 1) / bias_factor + 1, bias_factor


def swap_rate(bias_factor: float) -> float:
    """Exact, under Metropolis' rule."""
    shape, _ = shape_and_scale(bias_factor)
    return float(2 * betainc(shape, shape, 1 / (1 + RATIO)))


def sample(bias_factor: float, num_ladders: int, num_steps: int) -> Result:
    """Runs the ladders; as long a burn-in comes first, in which the bias grows. A factor of 1 is no
    bias.
    """
    method = ReplicaExchange(
        HamiltonianMonteCarlo(NUM_LEAPFROG_STEPS),
        geometric(NUM_RUNGS, temperature_ratio=RATIO, step_size=STEP_SIZE),
        Metropolis(),
        make_swap_schedule("even_odd", NUM_RUNGS),
        1,
        num_ladders,
        bias=WellTempered(bias_factor, height=2.0, decay=0.5, decay_after=5000.0)
        if bias_factor > 1
        else None,
    )
    spread = np.repeat(np.sqrt(RATIO ** np.arange(NUM_RUNGS)), num_ladders)[:, None]
    start = spread * np.random.default_rng(0).standard_normal((len(spread), DIMENSIONS))
    run = run_ladder(
        method, FunctionPotential(harmonic, DIMENSIONS), start, 2 * num_steps, 2, num_steps
    )
    energy, counts = run.column("potential")[num_steps // 2 :], run.state.rungs.counts
    weight = run.column("weight")[num_steps // 2 :] if bias_factor > 1 else np.ones_like(energy)
    return Result(energy, weight, counts.accepted.numpy() / counts.attempts.numpy())


def draw(results: dict[float, Result], path: Path) -> None:
    """Histograms of all rungs, without the bias above and with it below, and the exact
    densities.
    """
    from tati_re.plotting import COLORS, DARK, new_figure, plain, save

    figure = new_figure(7.0, 4.6)
    panels = figure.subplots(2, 1, sharex=True, sharey=True)
    edges = np.linspace(0, 230, 116)
    x = np.linspace(0.5, 230, 460)
    for panel, (factor, result) in zip(panels, results.items(), strict=True):
        shape, scale = shape_and_scale(factor)
        for rung in range(NUM_RUNGS):
            hot, color = RATIO**rung, COLORS[rung % len(COLORS)]
            panel.hist(
                result.energy[:, rung].ravel(),
                edges,
                density=True,
                histtype="stepfilled",
                color=color,
                alpha=0.35,
            )
            panel.plot(x, gamma(shape, scale=scale * hot).pdf(x), color=color, linewidth=1.2)
            if factor > 1 and rung == 0:
                values, weights = result.energy[:, rung].ravel(), result.weight[:, rung].ravel()
                panel.hist(
                    values,
                    edges,
                    density=True,
                    weights=weights,
                    histtype="step",
                    color=DARK,
                    linewidth=0.9,
                    label="rung 0 with its weights",
                )
                panel.legend(frameon=False, fontsize=8)
        name = "without a bias" if factor == 1 else f"well-tempered, γ = {factor:g}"
        panel.set_title(f"{name}: {np.mean(result.rates):.2f} of all swaps accepted", fontsize=9)
        panel.set(ylabel="density")
        plain(panel)
    panels[1].set(xlabel="U (lines: exact laws of temperatures 1, 1.2, ..., 2.49)", xlim=(0, 230))
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the experiment; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--num-ladders", type=int, help="independent ladders (default 30, quick 20)"
    )
    parser.add_argument(
        "--num-steps",
        type=int,
        help="trajectories after as many of burn-in (default 3000, quick 800)",
    )
    parser.add_argument("--quick", action="store_true", help="some seconds, and larger errors")
    parser.add_argument(
        "--output", type=Path, default=Path("results/wte"), help="folder for table and figure"
    )
    options = parser.parse_args(arguments)
    num_ladders = (
        options.num_ladders if options.num_ladders is not None else 20 if options.quick else 30
    )
    num_steps = (
        options.num_steps if options.num_steps is not None else 800 if options.quick else 3000
    )
    for name, given, least in (
        ("ladders", num_ladders, 2),
        ("steps", num_steps, SMALLEST_NUM_STEPS),
    ):
        if given < least:
            print(
                f"--num-{name} is too small. Received: {given}. Expected: at least {least}.",
                file=sys.stderr,
            )
            return 2
    results = {factor: sample(factor, num_ladders, num_steps) for factor in (1.0, BIAS_FACTOR)}
    options.output.mkdir(parents=True, exist_ok=True)
    with (options.output / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        columns = (
            "bias_factor",
            "rung",
            "temperature",
            "mean",
            "exact_mean",
            "variance",
            "exact_variance",
        )
        writer.writerow((*columns, "weighted_mean", "weight_size", "swap_rate", "exact_swap_rate"))
        for factor, result in results.items():
            shape, scale = shape_and_scale(factor)
            for rung in range(NUM_RUNGS):
                hot, energy = RATIO**rung, result.energy[:, rung]
                law = (energy.mean(), shape * scale * hot, energy.var(), shape * (scale * hot) ** 2)
                last = (result.rates[rung], swap_rate(factor)) if rung < NUM_RUNGS - 1 else ("", "")
                values = (*law, result.means()[rung], result.sizes()[rung], *last)
                shown = (
                    value if isinstance(value, str) else f"{value:.6g}" for value in (hot, *values)
                )
                writer.writerow((f"{factor:g}", rung, *shown))
            hot = RATIO ** np.arange(NUM_RUNGS)
            variance, mean = result.energy.var((0, 2)) / hot**2, result.means() / hot
            print(
                f"γ = {factor:g}: var U / T² {variance.mean():.1f} (exact {shape * scale**2:.1f}), "
                f"swaps {result.rates.mean():.3f} (exact {swap_rate(factor):.3f}), "
                f"weighted <U>/T {mean.mean():.3f} (exact {DIMENSIONS / 2:g}), "
                f"a sample is worth {result.sizes().mean():.2f} of equal weight"
            )
    draw(results, options.output / "well_tempered.png")
    print(f"written: {options.output}/results.csv, {options.output}/well_tempered.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
