"""How far predictions can be believed: posterior averages, an optimum and an ensemble on
handwritten digits.

A 64-32-10 network with the prior N(0, 1) on every parameter. Five members of a deep ensemble are
fitted with Adam, each from weights of its own; the first of them is the optimum. Posterior draws
come from BAOAB, with walkers that start at the members: once for as many gradients of examples as
the whole ensemble cost, once for longer, and once for longer at the temperature 0.1 (a cold
posterior); the first half of each run is burn-in. Two Gaussian approximations begin at the optimum:
Laplace's, from the Hessian of U after a descent on all data, and SWAG, from the iterates of SGD at
a constant learning rate. All predict the same test images, uniform noise, and the test images with
the pixels of each in random order, which a network that knows what it does not know should be
unsure of.

    python examples/digits_calibration.py [--num-steps 20000] [--output DIR]

Writes scores.csv (accuracy, negative log likelihood with the standard error that the test images
leave, Brier score, calibration error, AUROC by entropy and by mutual information against both kinds
of other images, and the cost in epochs of gradients) and figure.png. A deep ensemble as in B.
Lakshminarayanan, A. Pritzel, C. Blundell, Simple and scalable predictive uncertainty estimation
using deep ensembles, NeurIPS 2017, without adversarial examples.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tati_re
from tati_re import Run
from tati_re.data import load_data
from tati_re.prediction import ClassPrediction, auroc, average, noise_like, source_of

SMALLEST_STEPS = 40
OPTIMUM, ENSEMBLE = "optimum", "ensemble"
LAPLACE, SWAG = "Laplace", "SWAG"
SHORT, LONG, COLD = "posterior, same cost", "posterior, longer", "posterior at T = 0.1"


class Study(NamedTuple):
    """Sizes of a comparison.

    Attributes:
        network: Options of the network and its prior.
        num_members: Of the ensemble.
        fit_steps: Steps of Adam of each member.
        fit_batch: Examples in a mini-batch of the fits.
        learning_rate: Of Adam.
        sampler: Options of the sampler, its batch size among them.
        num_walkers: At most as many as members.
        num_steps: Of the longer runs.
        num_draws: Stored positions of each walker, roughly.
        descent_steps: Of the descent on all data before Laplace's approximation. Default: 0,
            without it.
        swag: Options of the fit of SWAG. Default: none, without it.
    """

    network: dict[str, Any]
    num_members: int
    fit_steps: int
    fit_batch: int
    learning_rate: float
    sampler: dict[str, Any]
    num_walkers: int
    num_steps: int
    num_draws: int
    descent_steps: int = 0
    swag: dict[str, Any] | None = None


DIGITS = Study(
    {"hidden": [32]},
    num_members=5,
    fit_steps=1000,
    fit_batch=100,
    learning_rate=0.01,
    sampler={"sampler": "BAOAB", "step_size": 0.008, "friction": 8.0, "batch_size": 719},
    num_walkers=4,
    num_steps=20_000,
    num_draws=100,
    descent_steps=2000,
    swag={"learning_rate": 0.1, "num_steps": 2000, "batch_size": 100},
)


def shuffled_pixels(images: np.ndarray, seed: int = 0) -> np.ndarray:
    """The same images, the pixels of each in a random order of its own."""
    flat = images.reshape(len(images), -1)
    return np.random.default_rng(seed).permuted(flat, axis=1).reshape(images.shape)


def compare(
    data: Any, study: Study, folder: Path, seed: int, verbose: int = 0
) -> tuple[dict, dict, dict]:
    """Fits, samples and predicts.

    Returns:
        Predictions of the test set by name; of other images, by kind and name; costs in epochs by
        name.
    """
    members, optimum = [], None
    for k in range(study.num_members):
        sim = tati_re.Simulation(data=data, **study.network, seed=seed + k, verbose=verbose)
        where = str(folder / f"member-{k}")
        rest = {
            "batch_size": study.fit_batch,
            "trajectory_every": 0,
            "output": where,
            "overwrite": True,
        }
        members.append(
            sim.fit(
                optimizer="adam",
                learning_rate=study.learning_rate,
                num_steps=study.fit_steps,
                **rest,
            )
        )
        optimum = optimum or (sim, np.array(sim.parameters))
        print(f"member {k} of {study.num_members} is fitted", flush=True)
    cost = study.num_members * study.fit_steps * study.fit_batch
    batch = study.sampler["batch_size"] or data.num_examples
    lengths = {
        SHORT: max(2, cost // (study.num_walkers * batch)),
        LONG: study.num_steps,
        COLD: study.num_steps,
    }
    sim = tati_re.Simulation(
        data=data, **study.network, num_walkers=study.num_walkers, seed=seed, verbose=verbose
    )
    sources = {OPTIMUM: [source_of(members[0])], ENSEMBLE: [source_of(run) for run in members]}
    starts = np.concatenate([draws.vectors for _, draws in sources[ENSEMBLE]])[: study.num_walkers]
    costs = {OPTIMUM: cost / study.num_members, ENSEMBLE: cost}
    for name, num_steps in lengths.items():
        sim.parameters = starts if study.num_walkers > 1 else starts[0]
        began = time.monotonic()
        place = folder / name.replace(",", "").replace(" = ", "").replace(" ", "-")
        run = sampled(sim, study, num_steps, 0.1 if name == COLD else 1.0, place)
        print(f"{name}: {num_steps:,} steps in {time.monotonic() - began:.0f} s", flush=True)
        print_convergence(run)
        sources[name], costs[name] = [source_of(run)], num_steps * study.num_walkers * batch
    predictors = {name: partial(average, source) for name, source in sources.items()}
    for name, (draws, gradients) in gaussians(*optimum, study, seed).items():
        predictors[name] = partial(predicted, members[0], draws)
        costs[name] = costs[OPTIMUM] + gradients
    images, labels = data.test_inputs, data.test_targets
    others = {"noise": noise_like(images, seed), "shuffled": shuffled_pixels(images, seed)}
    inside = {name: predict(images, labels) for name, predict in predictors.items()}
    outside = {
        kind: {name: predict(other) for name, predict in predictors.items()}
        for kind, other in others.items()
    }
    return inside, outside, {name: value / data.num_examples for name, value in costs.items()}


def predicted(
    run: Run, draws: np.ndarray, inputs: np.ndarray, labels: np.ndarray | None = None
) -> Any:
    """Predictions of the run's network with these parameters."""
    return run.predict(inputs, labels, parameters=draws)


def gaussians(
    sim: tati_re.Simulation, start: np.ndarray, study: Study, seed: int
) -> dict[str, tuple]:
    """Draws of Laplace's approximation and of SWAG from an optimum, and their cost in gradients of
    examples.
    """
    count, examples, found = study.num_walkers * study.num_draws, sim.dataset.num_examples, {}
    if study.descent_steps:
        sim.parameters = start
        sim.fit(optimizer="fire", num_steps=study.descent_steps)
        laplace = tati_re.gaussian_approximation(sim)
        print(
            f"Laplace: {laplace.raised[0]} of {len(start)} directions as wide as the prior, {laplace.excess[0]:.3g} T"
        )
        # A product with the Hessian costs two gradients.
        found[LAPLACE] = (
            laplace.draw(count, seed),
            (study.descent_steps + 2 * len(start)) * examples,
        )
    if study.swag is not None:
        sim.parameters = start
        swag = tati_re.gaussian_approximation(sim, "swag", **study.swag)
        found[SWAG] = swag.draw(count, seed), study.swag["num_steps"] * study.swag["batch_size"]
    return found


def sampled(
    sim: tati_re.Simulation, study: Study, num_steps: int, temperature: float, folder: Path
) -> Run:
    """A run whose first half is burn-in, with `num_draws` stored positions of each walker, or some
    more.
    """
    rest = {
        "num_burnin_steps": num_steps // 2,
        "record_every": max(1, num_steps // 500),
        "overwrite": True,
    }
    every = max(1, num_steps // 2 // study.num_draws)
    rest |= {"trajectory_every": every, "temperature": temperature, "output": str(folder)}
    return sim.sample(**study.sampler, num_steps=num_steps, **rest)


def print_convergence(run: Run) -> None:
    """R-hat of the potential and the temperature of the positions."""
    from tati_re.analysis import chains_of, configurational_temperature, r_hat

    options = run.manifest["options"]
    burnin, count = options["num_burnin_steps"], run.manifest["parameters"]["num"]
    chains = chains_of(run.run_info, "potential", burnin)
    if chains.shape[1] >= 8:
        measured = configurational_temperature(run.run_info, count, burnin)
        print(
            f"  R-hat of the potential {r_hat(chains):.3f}, configurational temperature {measured.mean:.3f}"
        )


def table(inside: dict[str, ClassPrediction], outside: dict, costs: dict[str, float]):
    """One row a predictor."""
    import pandas as pd

    rows = []
    for name, one in inside.items():
        chosen = np.clip(one.probabilities[np.arange(len(one.labels)), one.labels], 1e-38, 1)
        row = {
            "predictor": name,
            "draws": one.num_draws,
            "epochs": round(costs[name], 1),
            **one.scores(),
        }
        row["nll_error"] = float(np.log(chosen).std() / np.sqrt(len(chosen)))
        for kind, others in outside.items():
            for score, values in one.uncertainty().items():
                if score == "entropy" or one.num_draws > 1:
                    row[f"auroc_{kind}_{score}"] = auroc(values, others[name].uncertainty()[score])
        rows.append(row)
    return pd.DataFrame(rows)


def report(inside: dict, outside: dict, costs: dict, folder: Path) -> None:
    """Prints the table; writes scores.csv and figure.png."""
    from tati_re.plotting import plot_classes

    frame = table(inside, outside, costs)
    frame.to_csv(folder / "scores.csv", index=False)
    width = max(len(name) for name in frame.columns)
    print(f"\n{len(next(iter(inside.values())).labels):,} test images")
    print("".ljust(width + 2) + "".join(f"{name:<22}" for name in frame["predictor"]))
    for column in frame.columns[1:]:
        cells = (
            "" if np.isnan(value) else f"{value:,.4f}".rstrip("0").rstrip(".")
            for value in frame[column]
        )
        print(column.ljust(width + 2) + "".join(f"{cell:<22}" for cell in cells).rstrip())
    shown = {name: inside[name] for name in (OPTIMUM, ENSEMBLE, LONG, COLD)}
    plot_classes(shown, outside["shuffled"], folder / "figure.png")
    print(f"\nscores.csv and figure.png are in {folder}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--num-steps", type=int, default=DIGITS.num_steps, help="of the longer runs"
    )
    parser.add_argument(
        "--fit-steps", type=int, default=DIGITS.fit_steps, help="of Adam, each member"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, default=Path("results/digits_calibration"))
    typed = parser.parse_args(argv)
    study = DIGITS._replace(num_steps=typed.num_steps, fit_steps=typed.fit_steps)
    return reported("digits", study, typed.output, typed.seed)


def reported(data: str, study: Study, folder: Path, seed: int) -> int:
    """Compares the predictors of a study and writes what was found; the exit status.

    Args:
        data: The name or the file of the data.
        study: What is compared.
        folder: Where tables and figures go; made if it is not there.
        seed: Of all random numbers, 0 or more.
    """
    try:
        for flag, given, smallest in (
            ("--num-steps", study.num_steps, SMALLEST_STEPS),
            ("--fit-steps", study.fit_steps, 1),
        ):
            if given < smallest:
                raise tati_re.InputError(f"{flag} is too small.", given, f"{smallest} at least")
        images = load_data(data, seed=seed)
        folder.mkdir(parents=True, exist_ok=True)
        report(*compare(images, study, folder, seed), folder)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
