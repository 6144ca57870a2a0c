"""Local learning coefficients of deep linear networks of 84 to 112,500 weights beside their closed
form.

The network is a product of matrices A_1 ... A_M, its truth T is 1 at the first `rank` places of the
diagonal and 0 elsewhere, and the loss with inputs of unit covariance is K = |A_1 ... A_M - T|²/2.
Under exp(-n K - |A - A⁰|²/2), a tether of precision 1 to a point A⁰ where every matrix is such a
diagonal, λ̂ = n E[K], which goes to λ as n grows. λ and its multiplicity are known (M. Aoyagi,
2024, theorem 1): about half the entries of T where hidden layers are wide, not half the weights.

A second estimate is the variance of n K, which needs no lowest loss.

Two runs of each: what both find is equilibrium. One starts at A⁰, where nothing but the first rank
is in use: walkers of wide networks take long to spread into the directions that cost nothing. The
other starts at draws of the tether, far above, from where `Simulation.sample()` descends first:
those of narrow, deep networks are long on their way down. It chooses everything else, for variances
that are wrong by at most 0.5 % on average.

    python examples/deep_linear_networks.py [--networks 4-6-6-4:2 30-70-70-30:5] [--num-steps N]
    [--output DIR]

Writes results.csv and figure.png. The first three networks take eight minutes on one core, the
fourth fifteen.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

import tati_re

NETWORKS = ("4-6-6-4:2", "20-12-12-12-20:4", "30-70-70-30:5", "100-250-250-100:10")
PARTS = 10
"""Of a run, in each of which the figure has a mean."""
LARGE = 50_000
"""Weights from which on two walkers make fewer steps."""
STARTS = ("center", "draws")


def closed_form(sizes: Sequence[int], rank: int) -> tuple[float, int]:
    """λ and its multiplicity of a deep linear network at a truth of some rank (Aoyagi, 2024,
    theorem 1).
    """
    rest = np.sort(np.array(sizes)) - rank
    for layers in range(1, len(rest)):
        inside, total = rest[: layers + 1], rest[: layers + 1].sum()
        if total >= layers * inside.max() and (
            layers + 1 == len(rest) or total < layers * rest[layers + 1]
        ):
            break
    a = total - (-(-total // layers) - 1) * layers
    pairs = (total**2 - (inside**2).sum()) / 2
    square = 0.25 * (layers - 1) / layers * total**2
    free = 0.5 * (rank * (sizes[0] + sizes[-1]) - rank**2)
    return free + a * (layers - a) / (4 * layers) - square + 0.5 * pairs, int(a * (layers - a) + 1)


def parsed(words: str) -> tuple[tuple[int, ...], int]:
    """Sizes and rank of "4-6-6-4:2"."""
    try:
        sizes, rank = words.split(":")
        found, least = tuple(int(size) for size in sizes.split("-")), int(rank)
    except ValueError:
        found, least = (), 0
    if len(found) < 2 or min(found) < 1 or not 0 <= least <= min(found):
        expected = "sizes and rank, such as 4-6-6-4:2, the rank at most the smallest size"
        raise tati_re.InputError("--networks: this is no network.", words, expected)
    return found, least


def diagonal(shape: tuple[int, int], rank: int) -> np.ndarray:
    """1 at the first places of the diagonal, 0 elsewhere."""
    found = np.zeros(shape)
    found[np.arange(rank), np.arange(rank)] = 1.0
    return found


def energy(sizes: Sequence[int], rank: int, examples: float):
    """n K of walkers `(walkers, weights)`."""
    import tensorflow as tf

    shapes, truth = list(pairwise(sizes)), diagonal((sizes[0], sizes[-1]), rank)

    def potential(weights):
        parts = tf.split(weights, [a * b for a, b in shapes], axis=1)
        product = tf.reshape(parts[0], (-1, *shapes[0]))
        for part, shape in zip(parts[1:], shapes[1:], strict=True):
            product = product @ tf.reshape(part, (-1, *shape))
        return (
            0.5
            * examples
            * tf.reduce_sum((product - tf.constant(truth, product.dtype)) ** 2, axis=(1, 2))
        )

    return potential


def estimated(sizes: Sequence[int], rank: int, start: str, given) -> tuple[dict, list[float]]:
    """A line of the table, and means of λ̂ over parts of the run."""
    from tati_re.analysis import learning_coefficient

    center = np.concatenate([diagonal(shape, rank).ravel() for shape in pairwise(sizes)])
    walkers = given.num_walkers or (2 if len(center) > LARGE else 4 if len(center) > 100 else 8)
    steps = given.num_steps or (12_000 if len(center) > LARGE else 40_000)
    sim = tati_re.Simulation(
        potential=energy(sizes, rank, given.examples),
        dimension=len(center),
        prior=tati_re.priors.Tether(center, 1.0),
        num_walkers=walkers,
        dtype="float64",
        threads=1,
        seed=given.seed,
        verbose=0,
    )
    apart = np.random.default_rng(given.seed).standard_normal((walkers, len(center)))
    sim.parameters = center + apart * (start == "draws")
    began = time.process_time()
    run = sim.sample(num_steps=steps, target_bias=0.005)
    seconds = time.process_time() - began
    line = learning_coefficient(run).iloc[0]
    exact, multiplicity = closed_form(sizes, rank)
    found = {
        "sizes": "-".join(map(str, sizes)),
        "rank": rank,
        "start": start,
        "weights": len(center),
        "exact": exact,
    }
    found |= {"multiplicity": multiplicity, "estimate": line["raw"], "error": line["raw_error"]}
    found |= {
        "ratio": line["raw"] / exact,
        "short": bool(line["short"]),
        "steps": steps,
        "walkers": walkers,
    }
    found |= {
        "from_variance": line["from_variance"],
        "variance_error": line["from_variance_error"],
        "disagreement": line["disagreement"],
    }
    rows = run.run_info
    rows = rows[rows["step"] > run.manifest["options"]["num_burnin_steps"]]
    parts = np.array_split(rows.sort_values("step")["loss"].to_numpy() / exact, PARTS)
    return found | {"core_seconds": seconds}, [part.mean() for part in parts]


def drawn(lines: Sequence[dict], parts: Sequence[Sequence[float]], path: Path) -> None:
    """λ̂/λ of each tenth of a run."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(6.4, 3.4)
    axes = figure.subplots()
    axes.axhspan(0.95, 1.05, color=GRAY, alpha=0.2, linewidth=0)
    axes.axhline(1.0, color=GRAY, linewidth=1)
    places = (np.arange(PARTS) + 0.5) / PARTS
    for number, (line, values) in enumerate(zip(lines, parts, strict=True)):
        first = line["start"] == STARTS[0]
        label = (
            f"{line['sizes']}, λ = {line['exact']:g} of {line['weights']:,} weights"
            if first
            else None
        )
        color = COLORS[number // len(STARTS) % len(COLORS)]
        axes.plot(
            places,
            values,
            "o-" if first else "s--",
            color=color,
            markersize=3,
            linewidth=1,
            label=label,
        )
    axes.set(xlabel="part of the run after its burn-in", ylabel="λ̂/λ (band: 5 %)", ylim=(0.8, 1.25))
    axes.legend(
        frameon=False, fontsize=8, title="from the center; dashed, from draws", title_fontsize=8
    )
    plain(axes)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="Learning coefficients of deep linear networks.")
    parser.add_argument(
        "--networks", nargs="+", default=NETWORKS, metavar="SIZES:RANK", help=" ".join(NETWORKS)
    )
    parser.add_argument(
        "--examples", type=float, default=40_000, metavar="N", help="n; default 40,000"
    )
    parser.add_argument(
        "--num-steps", type=int, metavar="N", help="default 40,000, of large networks 12,000"
    )
    parser.add_argument("--num-walkers", type=int, metavar="N", help="default 8, 4 or 2, by size")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    parser.add_argument(
        "--output", type=Path, default=Path("results/deep_linear_networks"), metavar="DIR"
    )
    given = parser.parse_args(argv)
    lines: list[dict] = []
    parts: list[list[float]] = []
    try:
        networks = [parsed(words) for words in given.networks]
        if not 0 < given.examples < np.inf:
            raise tati_re.InputError("--examples is out of range.", given.examples, "above 0")
        given.output.mkdir(parents=True, exist_ok=True)
        for sizes, rank in networks:
            for start in STARTS:
                line, means = estimated(sizes, rank, start, given)
                lines.append(line)
                parts.append(means)
                said = (
                    f"{name} {v:.5g}" if isinstance(v, float) else f"{name} {v}"
                    for name, v in line.items()
                )
                print(", ".join(said), flush=True)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    with (given.output / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    drawn(lines, parts, given.output / "figure.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
