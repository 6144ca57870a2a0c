"""When replica exchange pays on a network, and when it does not: ladders and single chains beside
an oracle.

The network f(x) = Σ_j c_j tanh(a_j x + b_j)/√H + d has 3H + 1 weights with priors N(0, s²). Its
data are a well with two walls, y = tanh(8(x - 1.3)) - tanh(8(x + 1.3)) + noise, at points uniform
in [-2, -.7] and [.7, 2]. Two units are just enough for it; one unit has two explanations, one wall
or the other, which weigh the same where the data are mirrored. Every method gets as many gradients
as a ladder: likelihood tempering from the prior, which is drawn anew at each step, an adapted
ladder and even-odd rounds, by HMC; single chains of HMC, MCLMC and BAOAB, tuned by the package,
start at fits, or at draws of the prior that are cooled from T = 1000 in the burn-in.

The oracle is all ladders of a problem together. A second path checks it: given a and b the network
is linear in c and d, whose integral is Gaussian, and the other 2H numbers are cooled by sequential
Monte Carlo in NumPy. The 2^H H! copies of a network (signs and order of its units) have equal
shares of the posterior, which is a third, exact one.

Error: of the mean prediction of one ladder or one chain at 41 inputs in [-2.5, 2.5], root mean
square over inputs and walkers, in standard deviations of the posterior.

With `--part batches` swaps of one unit see mini-batches, of data that are not mirrored: the share
of the posterior with its wall on the right is known by quadrature. Replicas are exact draws at
their rungs but for their walls, which only swaps and the prior change: what is measured is the rule
of a swap that sees few examples (penalty, RENHD's compensated rule, or the noise ignored), and
nothing else.

    python examples/exchange_pays.py [--part one border tempered batches] [--seeds 3] [--full]
    [--output DIR]

A part that is done is a file of the output folder and not done again. Writes results.csv,
batches.csv and figures.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import numpy as np

import tati_re

INPUTS = np.linspace(-2.5, 2.5, 41)
LEAPFROG_STEPS = 20
PER_ROUND = LEAPFROG_STEPS + 1
"""Gradients of a replica between two rounds: the trajectory, and one after the swap."""
LADDER = {
    "sampler": "HMC",
    "num_leapfrog_steps": LEAPFROG_STEPS,
    "target_acceptance": 0.8,
    "adapt_ladder": True,
    "exchange_every": 1,
}
"""Options of every ladder."""
CHAINS = ("HMC", "MCLMC", "BAOAB")


class Problem(NamedTuple):
    """A network, its prior and its data.

    Attributes:
        width: H.
        noise: Standard deviation of the targets' noise.
        prior_std: s.
        examples: Number of data, half of them on each side.
        rungs: Of the ladder.
        mirrored: The data are the same on both sides, and so is the posterior.
    """

    width: int = 2
    noise: float = 0.05
    prior_std: float = 5.0
    examples: int = 30
    rungs: int = 14
    mirrored: bool = False

    @property
    def name(self) -> str:
        kind = "mirror_" if self.mirrored else ""
        return f"{kind}H{self.width}_noise{self.noise:g}_prior{self.prior_std:g}_N{self.examples}"

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets, `(examples, 1)` each."""
        random = np.random.default_rng(0)
        x, noise = (
            random.uniform(0.7, 2.0, (self.examples, 1)),
            random.standard_normal((self.examples, 1)),
        )
        if self.mirrored:
            x, noise = (np.repeat(values[::2], 2, 0) for values in (x, noise))
        x[::2] *= -1
        return x, np.tanh(8 * (x - 1.3)) - np.tanh(8 * (x + 1.3)) + self.noise * noise

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        """f at INPUTS of weights `(..., 3H + 1)`: kernel, bias, output kernel (with its 1/√H),
        output bias.
        """
        a, b, c = (weights[..., None, k * self.width : (k + 1) * self.width] for k in range(3))
        return (np.tanh(a * INPUTS[:, None] + b) * c).sum(-1) + weights[..., -1:]

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """Of draws `(walkers, draws, 3H + 1)`, the share of each of the 2^H H! copies: `(walkers,
        copies)`, to H = 3.

        They differ in the signs of a and the order of -b/a.
        """
        if self.width > 3:
            return np.zeros((len(weights), 0))
        a, b = weights[..., : self.width], weights[..., self.width : 2 * self.width]
        signs = ((a > 0) * 2 ** np.arange(self.width)).sum(-1)
        orders = list(permutations(range(self.width)))
        ranks = np.argsort(-b / a, axis=-1)
        order = np.array([(ranks == row).all(-1) for row in orders]).argmax(0)
        copies = order * 2**self.width + signs
        return (copies[..., None] == np.arange(2**self.width * len(orders))).mean(1)

    def simulation(self, walkers: int, seed: int, **options) -> tati_re.Simulation:
        return tati_re.Simulation(
            data=self.data(),
            hidden=[self.width],
            activation="tanh",
            noise_std=self.noise,
            prior_std={
                "*": self.prior_std,
                "dense_1/kernel": self.prior_std / math.sqrt(self.width),
            },
            num_walkers=walkers,
            dtype="float64",
            threads=1,
            seed=seed,
            verbose=0,
            **options,
        )

    def prior_draws(self, count: int, seed: int) -> np.ndarray:
        draws = self.prior_std * np.random.default_rng([seed, 7]).standard_normal(
            (count, 3 * self.width + 1)
        )
        draws[:, 2 * self.width : -1] /= math.sqrt(self.width)
        return draws


def measured(problem: Problem, run, burnin: int, walkers: int) -> dict:
    """Means over each walker's stored positions, and what its rows and ladder say."""
    from tati_re.analysis import r_hat

    table = run.trajectory
    table = table[table["step"] > burnin].sort_values(["walker", "step"])
    weights = table.filter(like="dense").to_numpy(float).reshape(walkers, -1, 3 * problem.width + 1)
    f = problem.outputs(weights)
    share = (table["weight"].to_numpy() if "weight" in table else np.ones(len(table))).reshape(
        walkers, -1, 1
    )
    share = share / share.mean(1, keepdims=True)
    tempered = "num_replicas" in run.manifest["method"]
    rows = run.at_rung(0) if tempered else run.run_info
    rows = rows[rows["step"] > burnin]
    found = {
        "mean": (share * f).mean(1),
        "square": (share * f**2).mean(1),
        "shares": problem.shares(weights),
        "rhat": max(float(r_hat(f[:, :, k])) for k in range(0, len(INPUTS), 4)),
        "loss": problem.examples * rows["loss"].mean(),
    }
    if tempered:
        ladder = run.ladder
        inner = ladder["acceptance"].to_numpy()[:-1]
        found |= {
            "swaps": np.array([inner.min(), inner.max()]),
            "barrier": float(ladder["barrier"].iloc[-1]),
            "trips": float(ladder["round_trips"].iloc[-1]),
            "arrivals": float(ladder["restarts"].iloc[-1]),
        }
    return found


def ladders(problem: Problem, seed: int, walkers: int, rounds: int) -> dict:
    """Independent ladders from the prior to the posterior, a third of their rounds burn-in."""
    sim = problem.simulation(walkers, seed)
    burnin = rounds // 3
    run = sim.sample(
        **LADDER,
        tempering="likelihood",
        num_replicas=problem.rungs,
        num_steps=rounds,
        num_burnin_steps=burnin,
        record_every=10,
        trajectory_every=max(1, (rounds - burnin) // 1000),
        starts=problem.prior_draws(problem.rungs * walkers, seed).reshape(
            problem.rungs, walkers, -1
        ),
    )
    return measured(problem, run, burnin, walkers)


def tempered(
    problem: Problem, seed: int, starts: np.ndarray, rounds: int, rungs: int, bias_factor: float
) -> dict:
    """A ladder of temperatures up to 100, with a well-tempered bias where `bias_factor` is above
    1.
    """
    sim = problem.simulation(len(starts), seed)
    sim.parameters = starts
    bias = {"bias": "well_tempered", "bias_factor": bias_factor} if bias_factor > 1 else {}
    burnin = rounds // 2
    run = sim.sample(
        **LADDER,
        num_replicas=rungs,
        max_temperature=100.0,
        num_steps=rounds,
        num_burnin_steps=burnin,
        record_every=5,
        trajectory_every=max(1, (rounds - burnin) // 1000),
        **bias,
    )
    rows = run.run_info[run.run_info["step"] > burnin]
    temperature = run.ladder["temperature"].to_numpy()
    return measured(problem, run, burnin, len(starts)) | {
        "variance": rows.groupby("rung")["potential"].var().to_numpy() / temperature**2,
        "temperature": temperature,
        "acceptance": run.ladder["acceptance"].to_numpy(),
    }


class Walls:
    """The law of one unit at every rung, on a grid of a and b, with c and d in closed form.

    Args:
        problem: One unit.
        most: Largest |a| and |b|.
        points: Of the grid in each.
    """

    def __init__(self, problem: Problem, most: float = 25.0, points: int = 151) -> None:
        self.problem, (self.x, self.y) = problem, problem.data()
        self.a, self.b = (
            grid.ravel()
            for grid in np.meshgrid(*[np.linspace(-most, most, points)] * 2, indexing="ij")
        )
        hidden = np.tanh(self.a[:, None] * self.x[:, 0] + self.b[:, None])
        phi = np.stack([hidden, np.ones_like(hidden)], -1)
        self.gram, self.target = phi.transpose(0, 2, 1) @ phi, phi.transpose(0, 2, 1) @ self.y[:, 0]
        self.right = self.a * self.b < 0

    def share(self, weight: float, right: np.ndarray | None = None) -> np.ndarray:
        """Of each cell at the likelihood's `weight`; of those of one wall alone where `right` says
        which.
        """
        problem = self.problem
        ratio = weight * (problem.prior_std / problem.noise) ** 2
        matrix = ratio * self.gram + np.eye(2)
        fit = (self.target * np.linalg.solve(matrix, self.target[..., None])[..., 0]).sum(1)
        log_share = (
            0.5 * weight * ratio * fit / problem.noise**2 - 0.5 * np.linalg.slogdet(matrix)[1]
        )
        log_share -= 0.5 * (self.a**2 + self.b**2) / problem.prior_std**2
        if right is not None:
            log_share = np.where(right, log_share, -np.inf)
        share = np.exp(log_share - log_share.max())
        return share / share.sum()

    def losses(self, cells: np.ndarray, weight: float, random: np.random.Generator) -> np.ndarray:
        """-ln likelihood of each example, `(cells, examples)`, with c and d drawn given a and b."""
        problem = self.problem
        precision = weight * self.gram[cells] / problem.noise**2 + np.eye(2) / problem.prior_std**2
        mean = np.linalg.solve(
            precision, weight * self.target[cells][..., None] / problem.noise**2
        )[..., 0]
        factor = np.linalg.cholesky(np.linalg.inv(precision))
        c, d = (mean + np.einsum("kij,kj->ki", factor, random.standard_normal(mean.shape))).T[
            ..., None
        ]
        outputs = c * np.tanh(self.a[cells, None] * self.x[:, 0] + self.b[cells, None]) + d
        return 0.5 * (outputs - self.y[:, 0]) ** 2 / problem.noise**2


def spaced(walls: Walls, acceptance: float, draws: int, random: np.random.Generator) -> list[float]:
    """Weights of the likelihood from 1 to 0 at which Metropolis' rule accepts this part of swaps of
    exact draws.
    """

    def energies(weight):
        cells = random.choice(len(walls.a), draws, p=walls.share(weight))
        return walls.losses(cells, weight, random).sum(1)

    found, here = [1.0], energies(1.0)
    while found[-1] > 0:
        low, high = 0.0, 1.0
        for _ in range(12):
            middle = 0.5 * (low + high)
            weight = 0.0 if middle < 1e-3 else found[-1] * middle
            other = energies(weight)
            rate = np.exp(np.minimum(0, (found[-1] - weight) * (here - other))).mean()
            low, high = (low, middle) if rate > acceptance else (middle, high)
            if weight == 0.0:
                break
        found, here = [*found, weight], other
    return found


def batched(
    walls: Walls,
    weights: Sequence[float],
    seed: int,
    rule: str,
    examples: int,
    ladders: int,
    rounds: int,
):
    """Ladders whose replicas are drawn anew at their rung in each round, but for the wall, which
    the prior alone lays anew: the best that dynamics can do. Swaps see a mini-batch; where the rule
    wants it, it is doubled.

    Returned are shares of the right wall, rates of swaps, arrivals at the target from the prior,
    examples seen, and what V is with `examples` of them.
    """
    from tati_re.exchange import Penalty, make_swap_rule

    rule = Penalty(target_variance=None) if rule == AS_IT_COMES else make_swap_rule(rule)
    random, number, rungs = np.random.default_rng([seed, 5]), walls.problem.examples, len(weights)
    sums = [
        [np.cumsum(walls.share(w, walls.right == side)) for side in (False, True)] for w in weights
    ]
    free = float(walls.share(0.0)[walls.right].sum())
    wall = random.random((ladders, rungs)) < free
    fresh = np.zeros((ladders, rungs), bool)
    share, arrivals, seen, variances = np.zeros(ladders), np.zeros(ladders), [], []
    tries, swaps = np.zeros(rungs - 1), np.zeros(rungs - 1)
    for number_of_round in range(rounds):
        wall[:, -1], fresh[:, -1] = random.random(ladders) < free, True
        counts = number_of_round >= rounds // 3
        if counts:
            share += wall[:, 0]
            arrivals += fresh[:, 0]
        fresh[:, 0] = False
        losses = np.empty((rungs, ladders, number))
        for rung, weight in enumerate(weights):
            cells = [np.searchsorted(one, random.random(ladders) * one[-1]) for one in sums[rung]]
            cells = np.minimum(np.where(wall[:, rung], cells[1], cells[0]), len(walls.a) - 1)
            losses[rung] = walls.losses(cells, weight, random)
        low = np.arange(number_of_round % 2, rungs - 1, 2)
        gap = (np.asarray(weights)[low] - np.asarray(weights)[low + 1])[:, None]
        differences = losses[low] - losses[low + 1]
        differences = random.permuted(differences, axis=2)
        n = np.full((len(low), ladders), number if rule.exact else examples)
        while True:
            part = np.arange(number) < n[..., None]
            mean = (differences * part).sum(2) / n
            spread = (((differences - mean[..., None]) * part) ** 2).sum(2) / np.maximum(n - 1, 1)
            variance = (gap * number) ** 2 * spread / n * (1 - n / number)
            if counts and (n <= examples).all():
                variances.append(variance)
            target = getattr(rule, "target_variance", None)
            small = (n < number) & (variance > target) if target else np.zeros_like(n, bool)
            if not small.any():
                break
            n = np.where(small, np.minimum(2 * n, number), n)
        accepted = rule.accept(
            gap * number * mean,
            variance,
            n,
            random.random(n.shape),
            random.standard_normal(n.shape),
        )
        accepted = np.asarray(accepted).T
        for one in (wall, fresh):
            pairs = one[:, low].copy(), one[:, low + 1].copy()
            one[:, low], one[:, low + 1] = (
                np.where(accepted, pairs[1 - k], pairs[k]) for k in range(2)
            )
        if counts:
            seen.append(n.mean())
            tries[low] += ladders
            swaps[low] += accepted.sum(0)
    rates = swaps / tries
    return {
        "right": share / (rounds - rounds // 3),
        "rungs": rungs,
        "swaps": np.array([rates.min(), rates.max()]),
        "arrivals": arrivals.sum(),
        "seen": np.mean(seen),
        "variance": np.median(np.concatenate(variances)) if variances else 0.0,
    }


def fitted(problem: Problem, seed: int, walkers: int, steps: int) -> dict:
    """Networks fitted from starts of their own."""
    sim = problem.simulation(walkers, seed, walker_start="fresh")
    sim.fit(num_steps=steps, learning_rate=0.02)
    return {"weights": sim.parameters}


def chains(
    problem: Problem, sampler: str, seed: int, starts: np.ndarray | None, walkers: int, rounds: int
) -> dict:
    """Single chains with as many gradients each as a ladder has, from `starts`, or from cooled
    draws of the prior.
    """
    sim = problem.simulation(walkers, seed)
    steps = problem.rungs * rounds * (1 if sampler == "HMC" else PER_ROUND)
    options: dict = {"sampler": sampler, "step_size": "auto"}
    sim.parameters = problem.prior_draws(walkers, seed) if starts is None else starts
    if starts is None:
        options |= {"temperature_schedule": "annealing", "temperature_start": 1000.0}
    if sampler == "HMC":
        options |= {"num_leapfrog_steps": LEAPFROG_STEPS}
    else:
        options |= {"friction": "auto"}
    burnin = steps // 3
    every = max(1, (steps - burnin) // 1000)
    run = sim.sample(
        **options,
        num_steps=steps,
        num_burnin_steps=burnin,
        record_every=every,
        trajectory_every=every,
    )
    return measured(problem, run, burnin, walkers)


def sequential(problem: Problem, seed: int, particles: int, moves: int = 12) -> dict:
    """The second path: sequential Monte Carlo over a and b, with c and d integrated in closed form.

    Signs and order of the units are folded together after each move, which leaves the posterior
    what it is and makes differences of two particles good proposals. Returned are E f and E f² of
    the posterior.
    """
    random = np.random.default_rng([seed, 11])
    (x, y), width = problem.data(), problem.width
    ridge = np.append(np.full(width, width), 1.0) * (problem.noise / problem.prior_std) ** 2

    def features(units, points):
        hidden = np.tanh(units[:, None, :width] * points[:, None] + units[:, None, width:])
        return np.concatenate([hidden, np.ones_like(hidden[..., :1])], -1)

    def solved(units):
        phi = features(units, x[:, 0])
        matrix = phi.transpose(0, 2, 1) @ phi + np.diag(ridge)
        target = phi.transpose(0, 2, 1) @ y
        return matrix, target, np.linalg.solve(matrix, target)

    def log_likelihood(units):
        matrix, target, answer = solved(units)
        fit = (y**2).sum() - (target * answer).sum((1, 2))
        return -0.5 * fit / problem.noise**2 - 0.5 * np.linalg.slogdet(matrix)[1]

    def folded(units):
        a, b = units[:, :width], units[:, width:]
        sign = np.where(a < 0, -1.0, 1.0)
        a, b = a * sign, b * sign
        order = np.argsort(-b / a, axis=1)
        return np.concatenate([np.take_along_axis(a, order, 1), np.take_along_axis(b, order, 1)], 1)

    units = folded(problem.prior_std * random.standard_normal((particles, 2 * width)))
    energy, power = log_likelihood(units), 0.0
    while power < 1.0:
        low, high = 0.0, 2 * (1.0 - power)
        for _ in range(80):
            middle = (low + high) / 2
            weight = np.exp(middle * (energy - energy.max()))
            enough = weight.sum() ** 2 / (weight**2).sum() >= 0.6 * particles
            low, high = (middle, high) if enough else (low, middle)
        following = min(1.0, power + low)
        weight, power = np.exp((following - power) * (energy - energy.max())), following
        places = (np.arange(particles) + random.random()) / particles
        chosen = np.searchsorted(np.cumsum(weight) / weight.sum(), places)
        units, energy = units[chosen], energy[chosen]
        shuffled = random.permutation(particles)
        halves = shuffled[: particles // 2], shuffled[particles // 2 :]
        for _ in range(moves):
            for own, others in (halves, halves[::-1]):
                pair = units[random.choice(others, (2, len(own)))]
                scale = 2.38 / math.sqrt(4 * width) * 10.0 ** -random.uniform(0, 2, (len(own), 1))
                proposal = units[own] + scale * (pair[0] - pair[1])
                proposal += 1e-6 * random.standard_normal(proposal.shape)
                found = log_likelihood(proposal)
                ratio = power * (found - energy[own])
                ratio -= (
                    0.5 * ((proposal**2).sum(1) - (units[own] ** 2).sum(1)) / problem.prior_std**2
                )
                accepted = np.log(random.random(len(own))) < ratio
                units[own[accepted]], energy[own[accepted]] = (
                    folded(proposal[accepted]),
                    found[accepted],
                )
    phi = features(units, INPUTS)
    matrix, _, answer = solved(units)
    mean = (phi @ answer)[..., 0]
    spread = problem.noise**2 * np.einsum(
        "npk,nkp->np", phi, np.linalg.solve(matrix, phi.transpose(0, 2, 1))
    )
    return {"mean": mean.mean(0)[None], "square": (mean**2 + spread).mean(0)[None]}


class Task(NamedTuple):
    """A part of the work, whose result is a file: a problem, a method, a seed, and where chains
    start (swaps: the rule, and how many examples it sees).
    """

    problem: Problem
    method: str
    seed: int
    start: str = ""

    @property
    def name(self) -> str:
        start = "".join(letter if letter.isalnum() else "_" for letter in self.start)
        return f"{self.problem.name}_{self.method}{start and '_' + start}_{self.seed}"


WELL = Problem()
MIRROR = Problem(width=1, noise=0.2, rungs=10, mirrored=True)
"""One unit for two equal walls: two explanations, each with half of the posterior."""
BORDER = {
    "width": tuple(
        WELL._replace(width=width, rungs=14 if width < 4 else 18) for width in (1, 2, 3, 4, 6, 8)
    ),
    "noise": tuple(MIRROR._replace(noise=noise) for noise in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)),
    "prior_std": tuple(MIRROR._replace(prior_std=prior_std) for prior_std in (1.0, 2.0, 5.0, 10.0)),
    "examples": tuple(
        MIRROR._replace(noise=0.5, examples=examples) for examples in (10, 20, 30, 60, 120)
    ),
}


SKEWED = Problem(width=1, noise=1.0, examples=240, mirrored=False)
"""One unit for two walls of which the data favor one."""
AS_IT_COMES = "penalty, as it comes"
SWAPS = (
    ("metropolis", 240),
    *((AS_IT_COMES, examples) for examples in (220, 180, 120, 60, 20)),
    ("penalty", 20),
    ("barker_compensated", 20),
    *(("naive", examples) for examples in (120, 20)),
)
"""Rules, and how many examples their energies have; those that grow double them until the variance
is below 1.
"""


def tasks_of(part: str, seeds: int) -> list[Task]:
    """The work of a part, all methods of a seed before the next seed."""
    problems = (MIRROR, WELL, WELL._replace(width=3)) if part == "one" else sum(BORDER.values(), ())
    if part == "tempered":
        return [Task(WELL, name, 0) for name in ("ladder", "fit", "tempered", "biased")]
    if part == "batches":
        kinds = [f"{rule}:{examples}" for rule, examples in SWAPS]
        return [Task(SKEWED, "swaps", seed, kind) for seed in range(seeds) for kind in kinds]
    found = []
    for seed in range(seeds):
        for problem in problems:
            found += [Task(problem, name, seed) for name in ("ladder", "sequential")]
            if part == "one":
                found += [
                    Task(problem, "fit", seed),
                    *(Task(problem, name, seed, "fit") for name in CHAINS),
                ]
            found += [
                Task(problem, name, seed, "prior") for name in CHAINS[: 3 if part == "one" else 2]
            ]
    return list(dict.fromkeys(found))


def loaded(task: Task, folder: Path) -> dict[str, np.ndarray]:
    """The result of a task that is done."""
    with np.load(folder / f"{task.name}.npz") as file:
        return dict(file)


def done(task: Task, given, folder: Path) -> None:
    """Runs a task, unless its file is there."""
    path = folder / f"{task.name}.npz"
    if path.exists():
        return
    began, of_processor = time.perf_counter(), time.process_time()
    if task.method == "ladder":
        found = ladders(task.problem, task.seed, given.ladders, given.rounds)
    elif task.method == "sequential":
        found = sequential(task.problem, task.seed, given.particles)
    elif task.method in ("tempered", "biased"):
        starts = loaded(task._replace(method="fit", start=""), folder)["weights"]
        rungs, factor = (
            (given.rungs, 1.0)
            if task.method == "tempered"
            else (given.biased_rungs, given.bias_factor)
        )
        found = tempered(task.problem, task.seed, starts, given.rounds * 3, rungs, factor)
    elif task.method == "swaps":
        rule, examples = task.start.split(":")
        walls = Walls(task.problem)
        weights = spaced(walls, 0.5, 2_000, np.random.default_rng(0))
        found = batched(walls, weights, task.seed, rule, int(examples), given.ladders, given.rounds)
    elif task.method == "fit":
        found = fitted(task.problem, task.seed, given.chains, given.fit_steps)
    else:
        starts = (
            loaded(task._replace(method="fit", start=""), folder)["weights"]
            if task.start == "fit"
            else None
        )
        found = chains(task.problem, task.method, task.seed, starts, given.chains, given.rounds)
    seconds = time.perf_counter() - began, time.process_time() - of_processor
    partial = folder / "partial.npz"
    np.savez(partial, **found, seconds=seconds)
    partial.replace(path)
    print(f"{task.name}: {seconds[0]:.0f} s", flush=True)


def results(tasks: Iterable[Task], folder: Path) -> list[dict]:
    """A line for each problem, method and start, all seeds together, of the tasks that are done."""
    files = {task: loaded(task, folder) for task in tasks if (folder / f"{task.name}.npz").exists()}
    kinds = dict.fromkeys(task._replace(seed=0) for task in files if task.method != "fit")
    lines = []
    for kind in kinds:
        oracle = [
            found
            for task, found in files.items()
            if task.problem == kind.problem and task.method == "ladder"
        ]
        own = [found for task, found in files.items() if task._replace(seed=0) == kind]
        if not oracle:
            continue
        mean, square = (
            np.concatenate([found[name] for found in oracle]).mean(0) for name in ("mean", "square")
        )
        off = (np.concatenate([found["mean"] for found in own]) - mean) / np.sqrt(square - mean**2)
        line = kind.problem._asdict() | {
            "method": kind.method,
            "start": kind.start,
            "seeds": len(own),
        }
        line |= {
            "walkers": len(off),
            "error": np.sqrt((off**2).mean()),
            "error_pooled": np.sqrt((off.mean(0) ** 2).mean()),
        }
        for name in ("rhat", "loss", "barrier"):
            if name in own[0]:
                line[name] = float(np.mean([found[name] for found in own]))
        if "trips" in own[0]:
            line["round_trips"] = sum(float(found["trips"]) for found in own)
            line["least_swap"] = min(float(found["swaps"][0]) for found in own)
            line["most_swap"] = max(float(found["swaps"][1]) for found in own)
            shares = np.concatenate([found["shares"] for found in own])
            if shares.size:
                # Equal copies have equal laws, and so one standard error.
                error = np.sqrt(shares.var(0, ddof=1).mean() / len(shares))
                line["copies"], line["copies_z"] = (
                    shares.shape[1],
                    np.abs(shares.mean(0) - 1 / shares.shape[1]).max() / error,
                )
        line["core_seconds"] = sum(float(found["seconds"][1]) for found in own)
        lines.append(line)
    return lines


def of_batches(tasks: Iterable[Task], folder: Path) -> list[dict]:
    """A line for each rule and number of examples, all seeds together."""
    walls, lines = Walls(SKEWED), []
    exact = float(walls.share(1.0)[walls.right].sum())
    tasks = [
        task for task in tasks if task.method == "swaps" and (folder / f"{task.name}.npz").exists()
    ]
    for kind in dict.fromkeys(task.start for task in tasks):
        own = [loaded(task, folder) for task in tasks if task.start == kind]
        right = np.concatenate([found["right"] for found in own])
        rule, examples = kind.split(":")
        line = {
            "rule": rule,
            "examples": int(examples),
            "seen": np.mean([found["seen"] for found in own]),
        }
        line |= {
            "share": right.mean(),
            "share_error": right.std(ddof=1) / math.sqrt(len(right)),
            "exact": exact,
        }
        line |= {"error": math.sqrt(((right - exact) ** 2).mean()), "ladders": len(right)}
        line |= {"rungs": int(own[0]["rungs"]), "variance": float(own[0]["variance"])}
        line["arrivals"] = sum(float(found["arrivals"]) for found in own)
        line["least_swap"] = min(float(found["swaps"][0]) for found in own)
        line["most_swap"] = max(float(found["swaps"][1]) for found in own)
        lines.append(line | {"core_seconds": sum(float(found["seconds"][1]) for found in own)})
    return lines


def drawn_batches(lines: Sequence[dict], path: Path) -> None:
    """Shares with their errors and journeys of replicas against the examples of a swap."""
    from tati_re.plotting import COLORS, DARK, new_figure, plain, save

    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2)
    left.axhline(lines[0]["exact"], color=DARK, linewidth=1, label="exact")
    for color, rule in zip(COLORS, dict.fromkeys(line["rule"] for line in lines), strict=False):
        own = sorted(
            (line for line in lines if line["rule"] == rule), key=lambda line: line["seen"]
        )
        seen = [line["seen"] for line in own]
        share, error = ([line[name] for line in own] for name in ("share", "share_error"))
        left.errorbar(
            seen, share, error, color=color, marker="o", markersize=4, linewidth=1, label=rule
        )
        arrivals = [line["arrivals"] / line["ladders"] for line in own]
        right.plot(seen, arrivals, "o-", color=color, markersize=4, linewidth=1, label=rule)
    left.set_ylabel("share with the wall on the right")
    right.set_ylabel("arrivals from the prior, a ladder")
    left.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.set(xlim=(0, SKEWED.examples + 10), xlabel=f"examples of a swap, of {SKEWED.examples}")
        plain(axes)
    save(figure, path)


def drawn(lines: Sequence[dict], path: Path) -> None:
    """The border: errors of one chain and one ladder, and Λ, against width, noise, prior and number
    of examples.
    """
    from tati_re.plotting import COLORS, new_figure, plain, save

    figure = new_figure(11.2, 4.4)
    axes = figure.subplots(2, 4, sharex="col", sharey="row", height_ratios=(3, 1))
    labels = {
        "width": "hidden units H",
        "noise": "noise σ",
        "prior_std": "prior width s",
        "examples": "examples N",
    }
    for (name, problems), (above, below) in zip(BORDER.items(), axes.T, strict=True):
        for color, (method, start, style) in zip(
            COLORS,
            (("ladder", "", "o-"), ("HMC", "prior", "s--"), ("MCLMC", "prior", "^:")),
            strict=False,
        ):
            found = [
                (getattr(problem, name), line["error"], line.get("barrier"))
                for problem in problems
                for line in lines
                if line["method"] == method and line["start"] == start
                if all(line[key] == value for key, value in problem._asdict().items())
            ]
            if found:
                x, error, barriers = zip(*found, strict=True)
                label = "one ladder" if method == "ladder" else f"one chain, {method}"
                above.plot(x, error, style, color=color, markersize=4, linewidth=1.2, label=label)
                if method == "ladder":
                    below.plot(x, barriers, style, color=color, markersize=4, linewidth=1.2)
        above.set_yscale("log")
        above.set_title("a well" if name == "width" else "two explanations", loc="left", fontsize=9)
        below.set_xlabel(labels[name])
        if name != "width":
            # The values that were tried are the ticks: those of a short logarithmic axis lie over
            # each other.
            tried = sorted({getattr(problem, name) for problem in problems})
            below.set_xscale("log")
            below.set_xticks(tried, [f"{value:g}" for value in tried])
            below.minorticks_off()
        plain(above, below)
    axes[0, 0].set_ylabel("error of the prediction\n(posterior standard deviations)")
    axes[1, 0].set_ylabel("barrier Λ")
    axes[1, 0].set_ylim(bottom=0)
    axes[0, 0].legend(frameon=False, fontsize=8)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="When replica exchange pays on a network, and when it does not."
    )
    parser.add_argument(
        "--part",
        nargs="+",
        choices=("one", "border", "tempered", "batches"),
        default=["one"],
        help="default: one",
    )
    parser.add_argument(
        "--full", action="store_true", help="64 ladders, 64 chains, 6,000 rounds, 20,000 particles"
    )
    for flag, default, what in (
        ("--seeds", 1, "of each method"),
        ("--ladders", 16, "independent ladders"),
        ("--chains", 8, "independent chains"),
        (
            "--rounds",
            1500,
            "of swaps, a third of them burn-in; a chain gets as many gradients as a ladder",
        ),
        ("--particles", 6000, "of sequential Monte Carlo"),
        ("--fit-steps", 1000, "of the fits at which chains start"),
        ("--rungs", 8, "tempered: of the ladder without a bias"),
        ("--biased-rungs", 5, "tempered: of that with one"),
    ):
        parser.add_argument(
            flag, type=int, default=default, metavar="N", help=f"{what}; default {default:,}"
        )
    parser.add_argument(
        "--bias-factor", type=float, default=10.0, metavar="G", help="tempered: default 10"
    )
    parser.add_argument("--output", type=Path, default=Path("results/exchange_pays"), metavar="DIR")
    given = parser.parse_args(argv)
    if given.full:
        given.ladders, given.chains, given.rounds, given.particles = 64, 64, 6000, 20_000
    try:
        for name in (
            "seeds",
            "ladders",
            "chains",
            "rounds",
            "particles",
            "fit_steps",
            "rungs",
            "biased_rungs",
        ):
            if getattr(given, name) < 1:
                raise tati_re.InputError(
                    f"--{name.replace('_', '-')} is too small.", getattr(given, name), "at least 1"
                )
        given.output.mkdir(parents=True, exist_ok=True)
        sizes = {
            name: value
            for name, value in vars(given).items()
            if name not in ("part", "seeds", "output")
        }
        known = given.output / "sizes.json"
        if known.exists() and json.loads(known.read_text()) != sizes:
            raise tati_re.InputError(
                "--output has parts of other sizes.", str(given.output), "another folder"
            )
        known.write_text(json.dumps(sizes))
        tasks = [task for part in given.part for task in tasks_of(part, given.seeds)]
        for task in tasks:
            done(task, given, given.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    lines, batches = results(tasks, given.output), of_batches(tasks, given.output)
    for found, name in ((lines, "results.csv"), (batches, "batches.csv")):
        if not found:
            continue
        columns = list(dict.fromkeys(name for line in found for name in line))
        with (given.output / name).open("w", newline="") as file:
            table = csv.DictWriter(file, columns, lineterminator="\n")
            table.writeheader()
            table.writerows(found)
    for line in lines + batches:
        print(
            ", ".join(
                f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
                for name, value in line.items()
            )
        )
    if batches:
        drawn_batches(batches, given.output / "batches.png")
    if "border" in given.part:
        drawn(lines, given.output / "border.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
