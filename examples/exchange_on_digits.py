"""Does a ladder from the prior to the posterior pay on a network of 2,410 weights? Digits of 8 x 8,
64-32-10, or with another number of hidden units.

Weights have N(0, 1/fan-in), biases N(0, 1). Ladders temper the likelihood from the prior, which is
drawn anew at each step, to the posterior, with inner rungs that adapt, and even and odd rounds of
swaps; HMC of 10 leapfrog steps moves all rungs. As many single walkers, started at draws of the
prior like all replicas, get as many gradients each as a ladder has. A third of each is burn-in.

Compared are predictions, which copies of a network do not change: R-hat of the probability of the
true class at 40 test images, over ladders or over walkers; the distance of one ladder (walker) from
the mean of all, root mean square over images, in standard deviations of the posterior; and the test
NLL of one ladder's (walker's) averaged predictions.

    python examples/exchange_on_digits.py [--hidden 32] [--examples 200] [--rungs 16] [--seeds 3]
    [--output DIR] python examples/exchange_on_digits.py --full python
    examples/exchange_on_digits.py --centers [--examples 1438] [--output DIR]

The last line asks what a control variate does for a swap of this network at two temperatures
between which exact energies would swap at 0.5: V, the variance of the log ratio over mini-batches
of a tenth of the images, against the age of the center, by two runs of BAOAB in equilibrium. Writes
centers.csv.

Runs that are done are files of the output folder. Writes results.csv, ladder.csv and figure.png;
needs scikit-learn.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import tati_re

PIXELS, CLASSES, LEAPFROG_STEPS, IMAGES = 64, 10, 10, 40
AGES = (0, 1, 2, 5, 10, 20, 50, 200)
"""Steps since a center was where the walker is now; 0: no control variate."""
BURNIN, DRAWS = 6_000, 800


def digits(examples: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images, and their labels, in an order drawn once: the last 359 are for
    tests.
    """
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order] / 16, labels[order]
    return images[:examples], labels[:examples], images[-359:], labels[-359:]


def prior_draws(count: int, seed: int, hidden: int) -> np.ndarray:
    """Weights in the order of the network: kernel, bias, output kernel, output bias."""
    sizes = [PIXELS * hidden, hidden, hidden * CLASSES, CLASSES]
    scale = np.repeat([PIXELS**-0.5, 1.0, hidden**-0.5, 1.0], sizes)
    return scale * np.random.default_rng([seed, 7]).standard_normal((count, sum(sizes)))


def probabilities(weights: np.ndarray, images: np.ndarray) -> np.ndarray:
    """Of each class, `(..., images, 10)`, for weights `(..., parameters)`."""
    *lead, count = weights.shape
    width = (count - CLASSES) // (PIXELS + 1 + CLASSES)
    kernel, bias, out, last = np.split(
        weights, np.cumsum([PIXELS * width, width, width * CLASSES]), axis=-1
    )
    hidden = np.tanh(images @ kernel.reshape(*lead, PIXELS, width) + bias[..., None, :])
    outputs = hidden @ out.reshape(*lead, width, CLASSES) + last[..., None, :]
    outputs -= outputs.max(-1, keepdims=True)
    found = np.exp(outputs)
    return found / found.sum(-1, keepdims=True)


def network(data: tuple[np.ndarray, np.ndarray], hidden: int) -> dict:
    """Options of the network and its prior."""
    return {
        "data": data,
        "num_classes": 10,
        "hidden": [hidden],
        "activation": "tanh",
        "loss": "sparse_categorical_crossentropy",
        "standardize": "none",
        "prior_std": {"dense/kernel": PIXELS**-0.5, "dense_1/kernel": hidden**-0.5, "*/bias": 1.0},
    }


def sampled(method: str, given, seed: int) -> dict[str, np.ndarray]:
    """Runs ladders, or single walkers with as many gradients."""
    images, labels, test, test_labels = digits(given.examples)
    system = network((images, labels), given.hidden)
    sim = tati_re.Simulation(**system, num_walkers=given.ladders, threads=1, seed=seed, verbose=0)
    options: dict = {
        "sampler": "HMC",
        "num_leapfrog_steps": LEAPFROG_STEPS,
        "target_acceptance": 0.8,
    }
    options["step_size"] = given.step_size
    steps = given.rounds
    if method == "ladder":
        options |= {
            "tempering": "likelihood",
            "num_replicas": given.rungs,
            "adapt_ladder": True,
            "exchange_every": 1,
        }
        starts = prior_draws(given.rungs * given.ladders, seed, given.hidden)
        options["starts"] = starts.reshape(given.rungs, given.ladders, -1)
    else:
        steps *= given.rungs
        sim.parameters = prior_draws(given.ladders, seed, given.hidden)
    burnin = steps // 3
    every = max(1, (steps - burnin) // 100)
    began = time.process_time()
    run = sim.sample(
        **options,
        num_steps=steps,
        num_burnin_steps=burnin,
        record_every=every,
        trajectory_every=every,
    )
    seconds = time.process_time() - began
    table = run.trajectory
    table = table[table["step"] > burnin].sort_values(["walker", "step"])
    weights = (
        table.filter(like="dense").to_numpy(float).reshape(given.ladders, -1, sim.num_parameters())
    )
    found = np.array([probabilities(own, test) for own in weights])
    true = found[..., np.arange(len(test)), test_labels]
    result = {
        "true": true[:, :, :IMAGES],
        "mean": found.mean(1),
        "labels": test_labels,
        "seconds": seconds,
    }
    rows = run.at_rung(0) if method == "ladder" else run.run_info
    result["loss"] = given.examples * rows[rows["step"] > burnin]["loss"].mean()
    if method == "ladder":
        names = ("likelihood_weight", "acceptance", "barrier")
        result |= {name: run.ladder[name].to_numpy() for name in names}
        result["trips"] = run.ladder["round_trips"].iloc[-1]
        result["arrivals"] = run.ladder["restarts"].iloc[-1]
    return result


def losses_at(temperature: float, given, seed: int) -> tuple[np.ndarray, float]:
    """Losses of each example along a run in equilibrium, `(walkers, steps, examples)`, and their
    sum's deviation.
    """
    images, labels, _, _ = digits(given.examples)
    system = network((images, labels), given.hidden)
    sim = tati_re.Simulation(**system, num_walkers=given.ladders, threads=1, seed=seed, verbose=0)
    sim.fit(num_steps=500, learning_rate=0.01)
    options = {
        "sampler": "BAOAB",
        "step_size": "auto",
        "friction": "auto",
        "temperature": temperature,
    }
    steps = BURNIN + max(AGES) + DRAWS
    run = sim.sample(
        **options, num_steps=steps, num_burnin_steps=BURNIN, record_every=1, trajectory_every=1
    )
    table = run.trajectory.sort_values(["walker", "step"])
    weights = (
        table.filter(like="dense")
        .to_numpy(np.float32)
        .reshape(given.ladders, -1, sim.num_parameters())
    )
    found = [
        [-np.log(probabilities(one, images)[np.arange(len(labels)), labels]) for one in own]
        for own in weights
    ]
    rows = run.run_info[run.run_info["step"] > BURNIN]
    return np.array(found), float(given.examples * rows["loss"].std())


def variances(given) -> list[dict]:
    """Median V of a swap, without a control variate (age 0) and with one whose center is some steps
    old.
    """
    cold, deviation = losses_at(1.0, given, 1)
    # Metropolis' rule accepts half where the energies of neighbors deviate by 0.95/Δβ.
    gap = 0.95 / deviation
    ratios = gap * (cold - losses_at(1 / (1 - gap), given, 2)[0])
    batch = given.examples // 10
    scale = given.examples**2 * (1 / batch - 1 / given.examples)
    lines = []
    for age in AGES:
        changes = ratios[:, age:] - ratios[:, :-age] if age else ratios
        line = {"age": age, "variance": scale * float(np.median(changes.var(-1, ddof=1)))}
        lines.append(line | {"examples": batch, "of": given.examples, "temperature": 1 / (1 - gap)})
    return lines


def summary(method: str, runs: Sequence[dict]) -> dict:
    """A line of the table, all seeds together; ± are standard errors over ladders or walkers."""
    from tati_re.analysis import r_hat

    labels = runs[0]["labels"]
    true, mean = (np.concatenate([run[name] for run in runs]) for name in ("true", "mean"))
    nll = -np.log(mean[:, np.arange(len(labels)), labels]).mean(1)
    right = mean.argmax(2) == labels
    off = (true.mean(1) - true.mean((0, 1))) / true.std((0, 1))
    line = {
        "method": method,
        "walkers": len(mean),
        "rhat_median": float(np.median([r_hat(true[:, :, k]) for k in range(true.shape[2])])),
        "rhat_largest": float(max(r_hat(true[:, :, k]) for k in range(true.shape[2]))),
        "distance": float(np.sqrt((off**2).mean())),
        "nll": float(nll.mean()),
        "nll_error": float(nll.std(ddof=1) / math.sqrt(len(nll))),
        "nll_pooled": float(-np.log(mean.mean(0)[np.arange(len(labels)), labels]).mean()),
        "accuracy": float(100 * right.mean()),
        "loss": float(np.mean([run["loss"] for run in runs])),
        "core_seconds": float(sum(run["seconds"] for run in runs)),
    }
    if "barrier" in runs[0]:
        inner = np.array([run["acceptance"][:-1] for run in runs])
        line |= {"barrier": float(np.mean([run["barrier"][-1] for run in runs]))}
        line |= {"least_swap": float(inner.min()), "most_swap": float(inner.max())}
        line |= {name: float(sum(run[name] for run in runs)) for name in ("trips", "arrivals")}
    return line


def draw(runs: dict[str, list[dict]], path: Path) -> None:
    """The barrier along the ladder, and the predictions of ladders and of walkers against their
    common mean.
    """
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(9.0, 3.4)
    left, right = figure.subplots(1, 2)
    for run in runs["ladder"]:
        left.plot(
            run["likelihood_weight"],
            run["barrier"],
            "o-",
            color=COLORS[0],
            markersize=3,
            linewidth=1,
        )
    left.set(xlabel="weight of the likelihood", ylabel="barrier up to here, from the posterior")
    left.set_xscale("symlog", linthresh=1e-3)
    both = np.concatenate([run["true"].mean(1) for of in runs.values() for run in of]).mean(0)
    for color, (method, of) in zip(COLORS, runs.items(), strict=False):
        found = np.concatenate([run["true"].mean(1) for run in of])
        right.plot(
            np.tile(both, len(found)),
            (found - both).ravel(),
            ".",
            color=color,
            markersize=4,
            label=method,
        )
    right.axhline(0, color=GRAY, linewidth=1)
    right.set(xlabel="p(true class), mean of all", ylabel="one ladder or walker less that mean")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        plain(axes)
    save(figure, path)


def written(lines: Sequence[dict], path: Path) -> None:
    """Writes a table, and prints it."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, names, lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
    for line in lines:
        print(
            ", ".join(
                f"{name} {v:.4g}" if isinstance(v, float) else f"{name} {v}"
                for name, v in line.items()
            )
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Does a ladder from the prior to the posterior pay on digits?"
    )
    sizes = (
        ("--seeds", 1, "of each method"),
        ("--examples", 200, "training images, up to 1,438"),
        ("--hidden", 32, "units"),
        ("--ladders", 4, "independent ladders, and walkers"),
        ("--rungs", 16, "of a ladder"),
        ("--rounds", 200, "of swaps; a walker gets as many gradients as a ladder"),
    )
    for flag, default, what in sizes:
        parser.add_argument(flag, type=int, metavar="N", help=f"{what}; default {default:,}")
    parser.add_argument(
        "--step-size",
        type=float,
        default=0.02,
        metavar="H",
        help="where tuning begins; default 0.02",
    )
    parser.add_argument(
        "--centers",
        action="store_true",
        help="variance of a swap against the age of a center, alone",
    )
    parser.add_argument(
        "--full",
        action="store_true",
        help="1,438 images, 8 ladders, 64 rungs, 3,000 rounds, 5 seeds",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/exchange_on_digits"), metavar="DIR"
    )
    given = parser.parse_args(argv)
    full = {"hidden": 32, "seeds": 5, "examples": 1_438, "ladders": 8, "rungs": 64, "rounds": 3_000}
    for flag, default, _ in sizes:
        name = flag[2:]
        if getattr(given, name) is None:
            setattr(given, name, full[name] if given.full else default)
    try:
        ranges = {
            "seeds": (1, 100),
            "examples": (10, 1_438),
            "ladders": (2, 1_000),
            "rungs": (2, 1_000),
        }
        ranges["hidden"] = 1, 1_000
        for name, (least, most) in ranges.items():
            if not least <= getattr(given, name) <= most:
                raise tati_re.InputError(
                    f"--{name} is out of range.", getattr(given, name), f"{least} to {most:,}"
                )
        if given.rounds < 30:
            raise tati_re.InputError("--rounds is too small.", given.rounds, "at least 30")
        given.output.mkdir(parents=True, exist_ok=True)
        settings = {
            name: getattr(given, name)
            for name in ("examples", "hidden", "ladders", "rungs", "rounds")
        }
        settings["step_size"] = given.step_size
        if given.centers:
            written(variances(given), given.output / "centers.csv")
            return 0
        known = given.output / "sizes.json"
        if known.exists() and {"hidden": 32} | json.loads(known.read_text()) != settings:
            raise tati_re.InputError(
                "--output has runs of other sizes.", str(given.output), "another folder"
            )
        known.write_text(json.dumps(settings))
        runs: dict[str, list[dict]] = {"ladder": [], "walker": []}
        for seed in range(given.seeds):
            for method, found in runs.items():
                path = given.output / f"{method}_{seed}.npz"
                if not path.exists():
                    np.savez(given.output / "partial.npz", **sampled(method, given, seed))
                    (given.output / "partial.npz").replace(path)
                with np.load(path) as file:
                    found.append(dict(file))
                print(
                    f"{method}, seed {seed}: {float(found[-1]['seconds']):.0f} s of the processor",
                    flush=True,
                )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    written(
        [summary(method, found) for method, found in runs.items()], given.output / "results.csv"
    )
    rungs = zip(
        *(runs["ladder"][0][name] for name in ("likelihood_weight", "acceptance", "barrier")),
        strict=True,
    )
    with (given.output / "ladder.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [["likelihood_weight", "acceptance", "barrier"], *rungs]
        )
    draw(runs, given.output / "figure.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
