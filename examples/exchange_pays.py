"""When replica exchange pays on a network, and when it does not: ladders and single chains beside an oracle.

The network f(x) = Σ_j c_j tanh(a_j x + b_j)/√H + d has 3H + 1 weights with priors N(0, s²). Its data are a well with
two walls, y = tanh(8(x - 1.3)) - tanh(8(x + 1.3)) + noise, at points uniform in [-2, -.7] and [.7, 2]. Two units are
just enough for it; one unit has two explanations, one wall or the other, which weigh the same where the data are
mirrored. Every method gets as many gradients as a ladder: likelihood tempering from the prior, which is drawn anew at
each step, an adapted ladder and even-odd rounds, by HMC; single chains of HMC, MCLMC and BAOAB, tuned by the package,
start at fits, or at draws of the prior that are cooled from T = 1000 in the burn-in.

The oracle is all ladders of a problem together. A second path checks it: given a and b the network is linear in c and
d, whose integral is Gaussian, and the other 2H numbers are cooled by sequential Monte Carlo in NumPy. The 2^H H! copies
of a network (signs and order of its units) have equal shares of the posterior, which is a third, exact one.

Error: of the mean prediction of one ladder or one chain at 41 inputs in [-2.5, 2.5], root mean square over inputs and
walkers, in standard deviations of the posterior.

    python examples/exchange_pays.py [--part one border tempered] [--seeds 3] [--full] [--output DIR]

A part that is done is a file of the output folder and not done again. Writes results.csv and a figure.
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
        x, noise = random.uniform(0.7, 2.0, (self.examples, 1)), random.standard_normal((self.examples, 1))
        if self.mirrored:
            x, noise = (np.repeat(values[::2], 2, 0) for values in (x, noise))
        x[::2] *= -1
        return x, np.tanh(8 * (x - 1.3)) - np.tanh(8 * (x + 1.3)) + self.noise * noise

    def outputs(self, weights: np.ndarray) -> np.ndarray:
        """f at INPUTS of weights `(..., 3H + 1)`: kernel, bias, output kernel (with its 1/√H), output bias."""
        a, b, c = (weights[..., None, k * self.width : (k + 1) * self.width] for k in range(3))
        return (np.tanh(a * INPUTS[:, None] + b) * c).sum(-1) + weights[..., -1:]

    def shares(self, weights: np.ndarray) -> np.ndarray:
        """Of draws `(walkers, draws, 3H + 1)`, the share of each of the 2^H H! copies: `(walkers, copies)`, to H = 3.

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
            prior_std={"*": self.prior_std, "dense_1/kernel": self.prior_std / math.sqrt(self.width)},
            num_walkers=walkers,
            dtype="float64",
            threads=1,
            seed=seed,
            verbose=0,
            **options,
        )

    def prior_draws(self, count: int, seed: int) -> np.ndarray:
        draws = self.prior_std * np.random.default_rng([seed, 7]).standard_normal((count, 3 * self.width + 1))
        draws[:, 2 * self.width : -1] /= math.sqrt(self.width)
        return draws


def measured(problem: Problem, run, burnin: int, walkers: int) -> dict:
    """Means over each walker's stored positions, and what its rows and ladder say."""
    from tati_re.analysis import r_hat

    table = run.trajectory
    table = table[table["step"] > burnin].sort_values(["walker", "step"])
    weights = table.filter(like="dense").to_numpy(float).reshape(walkers, -1, 3 * problem.width + 1)
    f = problem.outputs(weights)
    share = (table["weight"].to_numpy() if "weight" in table else np.ones(len(table))).reshape(walkers, -1, 1)
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
        starts=problem.prior_draws(problem.rungs * walkers, seed).reshape(problem.rungs, walkers, -1),
    )
    return measured(problem, run, burnin, walkers)


def tempered(problem: Problem, seed: int, starts: np.ndarray, rounds: int, rungs: int, bias_factor: float) -> dict:
    """A ladder of temperatures up to 100, with a well-tempered bias where `bias_factor` is above 1."""
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


def fitted(problem: Problem, seed: int, walkers: int, steps: int) -> dict:
    """Networks fitted from starts of their own."""
    sim = problem.simulation(walkers, seed, walker_start="fresh")
    sim.fit(num_steps=steps, learning_rate=0.02)
    return {"weights": sim.parameters}


def chains(problem: Problem, sampler: str, seed: int, starts: np.ndarray | None, walkers: int, rounds: int) -> dict:
    """Single chains with as many gradients each as a ladder has, from `starts`, or from cooled draws of the prior."""
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
    run = sim.sample(**options, num_steps=steps, num_burnin_steps=burnin, record_every=every, trajectory_every=every)
    return measured(problem, run, burnin, walkers)


def sequential(problem: Problem, seed: int, particles: int, moves: int = 12) -> dict:
    """The second path: sequential Monte Carlo over a and b, with c and d integrated in closed form.

    Signs and order of the units are folded together after each move, which leaves the posterior what it is and makes
    differences of two particles good proposals. Returned are E f and E f² of the posterior.
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
                ratio -= 0.5 * ((proposal**2).sum(1) - (units[own] ** 2).sum(1)) / problem.prior_std**2
                accepted = np.log(random.random(len(own))) < ratio
                units[own[accepted]], energy[own[accepted]] = folded(proposal[accepted]), found[accepted]
    phi = features(units, INPUTS)
    matrix, _, answer = solved(units)
    mean = (phi @ answer)[..., 0]
    spread = problem.noise**2 * np.einsum("npk,nkp->np", phi, np.linalg.solve(matrix, phi.transpose(0, 2, 1)))
    return {"mean": mean.mean(0)[None], "square": (mean**2 + spread).mean(0)[None]}


class Task(NamedTuple):
    """A part of the work, whose result is a file: a problem, a method, a seed, and where chains start."""

    problem: Problem
    method: str
    seed: int
    start: str = ""

    @property
    def name(self) -> str:
        return f"{self.problem.name}_{self.method}{self.start and '_' + self.start}_{self.seed}"


WELL = Problem()
MIRROR = Problem(width=1, noise=0.2, rungs=10, mirrored=True)
"""One unit for two equal walls: two explanations, each with half of the posterior."""
BORDER = {
    "width": tuple(WELL._replace(width=width, rungs=14 if width < 4 else 18) for width in (1, 2, 3, 4, 6, 8)),
    "noise": tuple(MIRROR._replace(noise=noise) for noise in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)),
    "prior_std": tuple(MIRROR._replace(prior_std=prior_std) for prior_std in (1.0, 2.0, 5.0, 10.0)),
    "examples": tuple(MIRROR._replace(noise=0.5, examples=examples) for examples in (10, 20, 30, 60, 120)),
}


def tasks_of(part: str, seeds: int) -> list[Task]:
    """The work of a part, all methods of a seed before the next seed."""
    problems = (MIRROR, WELL, WELL._replace(width=3)) if part == "one" else sum(BORDER.values(), ())
    if part == "tempered":
        return [Task(WELL, name, 0) for name in ("ladder", "fit", "tempered", "biased")]
    found = []
    for seed in range(seeds):
        for problem in problems:
            found += [Task(problem, name, seed) for name in ("ladder", "sequential")]
            if part == "one":
                found += [Task(problem, "fit", seed), *(Task(problem, name, seed, "fit") for name in CHAINS)]
            found += [Task(problem, name, seed, "prior") for name in CHAINS[: 3 if part == "one" else 2]]
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
        rungs, factor = (given.rungs, 1.0) if task.method == "tempered" else (given.biased_rungs, given.bias_factor)
        found = tempered(task.problem, task.seed, starts, given.rounds * 3, rungs, factor)
    elif task.method == "fit":
        found = fitted(task.problem, task.seed, given.chains, given.fit_steps)
    else:
        starts = loaded(task._replace(method="fit", start=""), folder)["weights"] if task.start == "fit" else None
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
        oracle = [found for task, found in files.items() if task.problem == kind.problem and task.method == "ladder"]
        own = [found for task, found in files.items() if task._replace(seed=0) == kind]
        if not oracle:
            continue
        mean, square = (np.concatenate([found[name] for found in oracle]).mean(0) for name in ("mean", "square"))
        off = (np.concatenate([found["mean"] for found in own]) - mean) / np.sqrt(square - mean**2)
        line = kind.problem._asdict() | {"method": kind.method, "start": kind.start, "seeds": len(own)}
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


def drawn(lines: Sequence[dict], path: Path) -> None:
    """The border: errors of one chain and one ladder, and Λ, against width, noise, prior and number of examples."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(
        2, 4, figsize=(14, 5.5), sharex="col", sharey="row", height_ratios=(3, 1), layout="constrained"
    )
    labels = {"width": "hidden units H", "noise": "noise σ", "prior_std": "prior width s", "examples": "examples N"}
    for (name, problems), (above, below) in zip(BORDER.items(), axes.T, strict=True):
        for method, start, style in (("ladder", "", "o-"), ("HMC", "prior", "s--"), ("MCLMC", "prior", "^:")):
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
                above.plot(x, error, style, label=label)
                if method == "ladder":
                    below.plot(x, barriers, style)
        above.set(yscale="log", title="a well" if name == "width" else "two explanations")
        below.set(xlabel=labels[name], ylim=(0, None))
        if name != "width":
            below.set_xscale("log")
    axes[0, 0].set_ylabel("error of the prediction\n(posterior standard deviations)")
    axes[1, 0].set_ylabel("barrier Λ")
    axes[0, 0].legend()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(description="When replica exchange pays on a network, and when it does not.")
    parser.add_argument(
        "--part", nargs="+", choices=("one", "border", "tempered"), default=["one"], help="default: one"
    )
    parser.add_argument("--full", action="store_true", help="64 ladders, 64 chains, 6,000 rounds, 20,000 particles")
    for flag, default, what in (
        ("--seeds", 1, "of each method"),
        ("--ladders", 16, "independent ladders"),
        ("--chains", 8, "independent chains"),
        ("--rounds", 1500, "of swaps, a third of them burn-in; a chain gets as many gradients as a ladder"),
        ("--particles", 6000, "of sequential Monte Carlo"),
        ("--fit-steps", 1000, "of the fits at which chains start"),
        ("--rungs", 8, "tempered: of the ladder without a bias"),
        ("--biased-rungs", 5, "tempered: of that with one"),
    ):
        parser.add_argument(flag, type=int, default=default, metavar="N", help=f"{what}; default {default:,}")
    parser.add_argument("--bias-factor", type=float, default=10.0, metavar="G", help="tempered: default 10")
    parser.add_argument("--output", type=Path, default=Path("results/exchange_pays"), metavar="DIR")
    given = parser.parse_args(argv)
    if given.full:
        given.ladders, given.chains, given.rounds, given.particles = 64, 64, 6000, 20_000
    try:
        for name in ("seeds", "ladders", "chains", "rounds", "particles", "fit_steps", "rungs", "biased_rungs"):
            if getattr(given, name) < 1:
                raise tati_re.InputError(
                    f"--{name.replace('_', '-')} is too small.", getattr(given, name), "at least 1"
                )
        given.output.mkdir(parents=True, exist_ok=True)
        sizes = {name: value for name, value in vars(given).items() if name not in ("part", "seeds", "output")}
        known = given.output / "sizes.json"
        if known.exists() and json.loads(known.read_text()) != sizes:
            raise tati_re.InputError("--output has parts of other sizes.", str(given.output), "another folder")
        known.write_text(json.dumps(sizes))
        tasks = [task for part in given.part for task in tasks_of(part, given.seeds)]
        for task in tasks:
            done(task, given, given.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    lines = results(tasks, given.output)
    columns = list(dict.fromkeys(name for line in lines for name in line))
    with (given.output / "results.csv").open("w", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    for line in lines:
        print(
            ", ".join(
                f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in line.items()
            )
        )
    if "border" in given.part:
        drawn(lines, given.output / "border.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
