"""How often error bars of learning coefficients cover the truth: `python -m
benchmarks.learning_coefficient [--groups N] [--output DIR]`.

Potentials n L with a tether of precision 1 whose E[n L] at this n is known by quadrature: w², w⁴,
w⁶, (w₁ w₂)², and a regular one of 100 parameters with curvatures over three decades. Each is
sampled by HMC with many independent chains at once. Groups of four chains are what a user has: each
group has an estimate, its error, and the second estimate by the variance. An interval of 90 % is
1.645 errors to both sides. A group is one seed: its chains share no random number with another's.
Chains start in equilibrium, at independent draws: what is measured are the error bars, not burn-in.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

EXAMPLES = 1e4
QUANTILE = 1.6449
"""Of 90 % intervals, in standard errors."""
CHAINS = 4
CURVATURES = np.geomspace(1e-3, 1.0, 100)


class Target(NamedTuple):
    """A mean loss with known expectations: the exact mean of n L, and the coefficient at n = ∞."""

    name: str
    dimension: int
    loss: Callable
    mean: float
    variance: float
    limit: float
    draws: Callable
    """Independent draws, of a generator and their number, `(number, dimension)`."""


def _moments(density: np.ndarray, first: np.ndarray, second: np.ndarray, w: np.ndarray):
    """Mean and variance of a quantity with these conditional moments, by quadrature over w."""
    total = np.trapezoid(density, w)
    mean = np.trapezoid(density * first, w) / total
    return float(mean), float(np.trapezoid(density * second, w) / total - mean**2)


def _of_power(power: int) -> tuple[float, float]:
    """Mean and variance of n w^power under exp(-n w^power - w²/2)."""
    w = np.sinh(np.linspace(-14, 14, 400_001)) / np.sinh(14) * 8
    value = EXAMPLES * w**power
    return _moments(np.exp(-value - 0.5 * w**2), value, value**2, w)


def _by_inversion(w: np.ndarray, density: np.ndarray, uniform: np.ndarray) -> np.ndarray:
    """Numbers with a density that is known at the places `w`."""
    pieces = 0.5 * (density[1:] + density[:-1]) * np.diff(w)
    below = np.concatenate([[0.0], np.cumsum(pieces)])
    return np.interp(uniform, below / below[-1], w)


def _draws_of_power(power: int) -> Callable:
    def draws(generator: np.random.Generator, count: int) -> np.ndarray:
        w = np.sinh(np.linspace(-14, 14, 400_001)) / np.sinh(14) * 8
        density = np.exp(-EXAMPLES * w**power - 0.5 * w**2)
        return _by_inversion(w, density, generator.random(count))[:, None]

    return draws


def _draws_of_product(generator: np.random.Generator, count: int) -> np.ndarray:
    w = np.sinh(np.linspace(-14, 14, 400_001)) / np.sinh(14) * 9
    density = np.exp(-0.5 * w**2) / np.sqrt(1 + 2 * EXAMPLES * w**2)
    first = _by_inversion(w, density, generator.random(count))
    second = generator.standard_normal(count) / np.sqrt(1 + 2 * EXAMPLES * first**2)
    return np.stack([first, second], axis=1)


def _draws_of_regular(generator: np.random.Generator, count: int) -> np.ndarray:
    normal = generator.standard_normal((count, len(CURVATURES)))
    return normal / np.sqrt(EXAMPLES * CURVATURES + 1)


def _of_product() -> tuple[float, float]:
    """The same of n (w₁ w₂)² with both tethered: w₂ is Gaussian given w₁."""
    w = np.sinh(np.linspace(-14, 14, 400_001)) / np.sinh(14) * 9
    inner = 1 + 2 * EXAMPLES * w**2
    value = EXAMPLES * w**2 / inner
    return _moments(np.exp(-0.5 * w**2) / np.sqrt(inner), value, 3 * value**2, w)


def targets() -> list[Target]:
    """The potentials, with n L from positions `(walkers, dimension)`."""
    import tensorflow as tf

    found = [
        Target(f"w^{p}", 1, lambda w, p=p: w[:, 0] ** p, *_of_power(p), 1 / p, _draws_of_power(p))
        for p in (2, 4, 6)
    ]
    product = Target(
        "(w1 w2)^2", 2, lambda w: (w[:, 0] * w[:, 1]) ** 2, *_of_product(), 0.5, _draws_of_product
    )
    held = EXAMPLES * CURVATURES / (EXAMPLES * CURVATURES + 1.0)
    regular = Target(
        "regular, 100",
        len(CURVATURES),
        lambda w: 0.5 * tf.reduce_sum(tf.constant(CURVATURES, w.dtype) * w * w, axis=1),
        float(held.sum() / 2),
        float((held**2).sum() / 2),
        len(CURVATURES) / 2,
        _draws_of_regular,
    )
    return [*found, product, regular]


def measured(target: Target, groups: int, draws: int, seed: int, sampler: str | None) -> dict:
    """Coverage of the groups' intervals, and how far estimates lie from the exact mean."""
    import tati_re
    from tati_re.analysis import chains_of, coefficient_estimates, is_short

    walkers = CHAINS * groups
    sim = tati_re.Simulation(
        potential=lambda w: EXAMPLES * target.loss(w),
        dimension=target.dimension,
        prior=tati_re.priors.Tether(np.zeros(target.dimension), 1.0),
        num_walkers=walkers,
        seed=seed,
        verbose=0,
    )
    sim.parameters = target.draws(np.random.default_rng(seed), walkers)
    began = time.process_time()
    burnin = 1000
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tati_re.CertificateWarning)
        chosen = {"target_bias": 0.005} if sampler is None else {"sampler": sampler}
        chosen |= {"num_leapfrog_steps": "auto"} if sampler == "HMC" else {}
        lengths = {"num_steps": burnin + draws, "num_burnin_steps": burnin, "record_every": 1}
        run = sim.sample(**chosen, **lengths)
    seconds = time.process_time() - began
    reduced = chains_of(run.run_info, "loss", burnin)
    penalty = -chains_of(run.run_info, "log_prior", burnin)
    inside = []
    inside_variance = []
    relative = []
    disagree = 0
    short = 0
    for group in np.split(np.arange(walkers), groups):
        found = coefficient_estimates(reduced[group], penalty[group])
        gap = found["raw"] - target.mean
        inside.append(abs(gap) < QUANTILE * found["raw_error"])
        relative.append(gap / found["raw_error"])
        gap = found["from_variance"] - target.variance
        inside_variance.append(abs(gap) < QUANTILE * found["from_variance_error"])
        disagree += abs(found["disagreement"]) > 5
        short += is_short(reduced[group])
    return {
        "target": target.name,
        "sampler": run.manifest["options"]["sampler"],
        "exact": target.mean,
        "limit": target.limit,
        "draws": draws,
        "groups": groups,
        "estimate": reduced.mean(),
        "coverage": np.mean(inside),
        "coverage of the variance": np.mean(inside_variance),
        "mean of z": np.mean(relative),
        "deviation of z": np.std(relative),
        "disagreements": disagree,
        "short": short,
        "seconds a group": seconds / groups,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measures, prints and writes; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--groups", type=int, default=50, help="groups of four chains")
    parser.add_argument("--draws", type=int, nargs="+", default=[1000, 4000], help="of each chain")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--targets", nargs="+", help="some of them, by name")
    parser.add_argument("--sampler", default="HMC", help="or auto: as sample() chooses it")
    parser.add_argument("--output", type=Path, default=Path("results/learning_coefficient"))
    given = parser.parse_args(argv)
    given.output.mkdir(parents=True, exist_ok=True)
    lines = []
    sampler = None if given.sampler == "auto" else given.sampler
    for target in targets():
        if given.targets and target.name not in given.targets:
            continue
        for draws in given.draws:
            line = measured(target, given.groups, draws, given.seed, sampler)
            lines.append(line)
            print(", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
            with (given.output / "coverage.csv").open("w", newline="") as file:
                table = csv.DictWriter(file, list(line), lineterminator="\n")
                table.writeheader()
                table.writerows(lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
