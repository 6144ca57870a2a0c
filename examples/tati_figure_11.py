"""Ensemble quasi-Newton on whole images, as published, and a mass that gains there: Figure 11 of
TATi's paper.

MNIST 7 against 9: a softmax regression of 28 x 28 pixels without biases, 1,568 parameters; U = mean
loss of mini-batches of 550, β = 10, BAOAB with h 0.125 and γ 10, 8 walkers.

The published scheme: no prior, all walkers move at once, B from the covariance of the others, η up
to 10,000 and not lowered where a step would be unstable. For each η the autocorrelation times along
the five longest eigenvectors of the covariance, each walker about its own mean, as the paper has
them. Beside them stands what tells whether they are those of the law that was asked for: the
kinetic temperature, the mean loss, the time as a part of the run, and the time along 100 directions
that are the same for all η and feel no force. Without a prior most directions have no equilibrium,
and a free path has a time that is a fixed part of its length.

With a prior of standard deviation 3 there is one. Directions in which both classes move alike feel
the prior alone, are the slowest, and have a time that is known. Measured: masses of every
parameter, with and without 32 directions in addition to the diagonal (mass="fisher:32" and "fisher"). What
halves that take turns gain there, ensemble_quasi_newton.py measures.

    python examples/tati_figure_11.py --data FOLDER [--num-steps 2000] [--refresh 200] [--full]
    [--output DIR]

FOLDER holds mnist.npz with x_train and y_train. --full takes the published refresh, 10,000 steps,
and ten of them. Writes results.csv and figure.png to the output folder, in some ten minutes; a run
that was interrupted goes on. Source: F. Heber, Z. Trstanova, B. Leimkuhler, Posterior sampling
strategies based on discretized stochastic differential equations for machine learning applications,
J. Mach. Learn. Res. 21 (2020), section 3.4.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from ensemble_quasi_newton import measured_time, seven_or_nine, time_alone
from published import number, published

import tati_re
from tati_re.samplers import EnsembleQuasiNewton, Massive, Splitting

PAPER = published("tati_ensemble")
STEP_SIZE, FRICTION, TEMPERATURE, BATCH = 0.125, 10.0, 0.1, 550
WALKERS = int(PAPER["walkers"][0])
BLENDINGS = (0.0, 10.0, 100.0, number(PAPER["largest strength"]))
START = 0.5
"""Weights of the walkers of the published scheme start in U(-START, START), each for itself."""
NUM_SLOW = 5
PRIOR_STD = 3.0
NUM_FLAT, NUM_DRIVEN = 100, 5
"""Directions in which both classes move alike, and leading ones of the images in which they move
against each other.
"""
EVERY = 10
BURNIN = 1_300
"""The last window in which the mass is measured ends after 1,240 steps."""
NUM_STEPS, REFRESH = 2_000, 200
FULL_REFRESH = int(number(PAPER["refresh"]))
FULL_NUM_STEPS = 10 * FULL_REFRESH
ROWS = 400
MASSES = ("fisher", "fisher:32")
QUICK = {"num_steps": 400, "refresh": 100}


class Row(NamedTuple):
    """A direction of a run, or a group of directions of one law.

    Attributes:
        part: "no prior" or "prior".
        method: What was run.
        direction: "slow 1" to "slow 5", "flat" or "driven".
        time: Integrated autocorrelation time in steps of a walker; nan where the run diverged.
        time_error: Its standard error.
        share: The time as a part of the steps it was measured over.
        variance: Along a flat direction, over the exact one.
        variance_error: Its standard error.
        temperature: Kinetic; 0.1 was asked for.
        loss: Mean over the second half of the run.
        num_steps: Of the run.
        refresh: Steps between two refreshes of B.
        seed: Of the whole experiment.
    """

    part: str
    method: str
    direction: str
    time: float
    time_error: float
    share: float
    variance: float
    variance_error: float
    temperature: float
    loss: float
    num_steps: int
    refresh: int
    seed: int


class Sampled(NamedTuple):
    """Positions or projections `(rows, walkers, ...)`, mean kinetic temperature and loss of the
    second half.
    """

    values: np.ndarray
    temperature: float
    loss: float


def simulation(images: np.ndarray, labels: np.ndarray, seed: int, **prior) -> tati_re.Simulation:
    """The softmax regression without biases."""
    import keras

    model = keras.Sequential(
        [keras.Input((images.shape[1],)), keras.layers.Dense(2, use_bias=False)]
    )
    return tati_re.Simulation(
        model,
        (images, labels),
        loss="sparse_categorical_crossentropy",
        potential="mean_loss",
        batch_size=BATCH,
        walker_batches="shared",
        num_walkers=WALKERS,
        seed=seed,
        verbose=0,
        **prior,
    )


def sample(sim: tati_re.Simulation, sampler, num_steps: int, every: int, **options) -> Sampled:
    """Samples, and reads the positions back."""
    with tempfile.TemporaryDirectory() as folder:
        run = sim.sample(
            sampler=sampler,
            step_size=STEP_SIZE,
            temperature=TEMPERATURE,
            num_steps=num_steps,
            record_every=max(1, num_steps // 200),
            trajectory_every=every,
            trajectory_format="h5",
            output=str(Path(folder) / "run"),
            **options,
        )
        rows, info = run.trajectory.sort_values(["step", "walker"]), run.run_info
    late = info[info["step"] > 0.5 * num_steps]
    temperature = 2 * float(late["kinetic_energy"].mean()) / sim.num_parameters()
    values = rows.iloc[:, 4:].to_numpy().reshape(-1, WALKERS, rows.shape[1] - 4)
    return Sampled(values, temperature, float(late["loss"].mean()))


def time_within(paths: np.ndarray) -> float:
    """Integrated autocorrelation time of paths `(rows, paths)`, each about its own mean, in rows,
    by Sokal's window: up to the first lag of five times the sum. It is a number for paths that have
    no law, too.
    """
    rows = len(paths)
    spectrum = np.abs(np.fft.rfft(paths - paths.mean(0), 2 * rows, axis=0)) ** 2
    products = np.fft.irfft(spectrum, axis=0)[:rows]
    sums = 2 * np.cumsum((products / products[0]).mean(1)) - 1
    enough = np.arange(rows) >= 5 * sums
    return float(sums[np.argmax(enough)]) if enough.any() else float(sums[-1])


def published_scheme(
    images, labels, blending: float, num_steps: int, refresh: int, seed: int
) -> list[Row]:
    """The five longest directions of a run without prior, with all walkers at once and nothing that
    caps η.
    """
    sim = simulation(images, labels, seed, prior="none")
    sim.parameters = np.random.default_rng(seed).uniform(-START, START, sim.parameters.shape)
    inner = Splitting("BAOAB", FRICTION)
    ensemble = EnsembleQuasiNewton(inner, blending, refresh, scheme="simultaneous", capped=False)
    every, name = max(1, num_steps // ROWS), f"η = {blending:,.0f}"
    try:
        sampled = sample(
            sim, ensemble if blending else inner, num_steps, every, num_burnin_steps=num_steps // 10
        )
    except tati_re.SamplingError as error:
        print(f"{name}: {error}")
        return [Row("no prior", name, "diverged", *[math.nan] * 7, num_steps, refresh, seed)]
    deviations = sampled.values - sampled.values.mean(0)
    flat = deviations.reshape(-1, deviations.shape[-1])
    directions = np.linalg.eigh(flat.T @ flat)[1][:, ::-1][:, :NUM_SLOW]
    free = directions_of(images, seed)[:NUM_FLAT].T
    groups = {
        f"slow {place + 1}": directions[:, place : place + 1] for place in range(NUM_SLOW)
    } | {"flat": free}
    rows = []
    for direction, along in groups.items():
        paths = deviations @ along
        times = [every * time_within(paths[:, walker]) for walker in range(WALKERS)]
        time, error = float(np.mean(times)), float(np.std(times, ddof=1) / math.sqrt(WALKERS))
        values = (
            time,
            error,
            time / (every * len(paths)),
            math.nan,
            math.nan,
            sampled.temperature,
            sampled.loss,
        )
        rows.append(Row("no prior", name, direction, *values, num_steps, refresh, seed))
    return rows


def directions_of(images: np.ndarray, seed: int) -> np.ndarray:
    """Directions in which both classes move alike, by chance, and the leading ones of the images,
    one against the other.
    """
    random = np.random.default_rng(seed)
    flat = np.linalg.qr(random.standard_normal((images.shape[1], NUM_FLAT)))[0].T
    driven = np.linalg.eigh(images.T @ images)[1][:, ::-1][:, :NUM_DRIVEN].T
    signs = np.repeat([1.0, -1.0], [NUM_FLAT, NUM_DRIVEN])[:, None]
    both = np.concatenate([flat, driven])
    return np.stack([both, signs * both], axis=2).reshape(len(both), -1) / math.sqrt(2)


def with_a_prior(images, labels, name: str, sampler, num_steps: int, seed: int) -> list[Row]:
    """Flat directions, whose law is known, and driven ones."""
    sim = simulation(images, labels, seed, prior="gaussian", prior_std=PRIOR_STD)
    std = PRIOR_STD * math.sqrt(TEMPERATURE)
    sim.parameters = std * np.random.default_rng(seed).standard_normal(sim.parameters.shape)
    sampled = sample(
        sim,
        sampler,
        BURNIN + num_steps,
        EVERY,
        num_burnin_steps=BURNIN,
        directions=directions_of(images, seed),
    )
    least, rows = 16 / (FRICTION * STEP_SIZE), []
    flat, driven = np.split(sampled.values, [NUM_FLAT], axis=2)
    driven = driven - driven.mean((0, 1))
    for direction, values, variance in (("flat", flat, std**2), ("driven", driven, None)):
        scale = values.std((0, 1)) if variance is None else std
        # Flat directions are alike: each is one more walker.
        each = (values / scale).reshape(len(values), -1, 1)
        time = measured_time(each, 1.0, least, EVERY)
        squares = (each**2).mean((0, 2))
        law = (math.nan, math.nan)
        if variance is not None:
            law = (float(squares.mean()), float(squares.std(ddof=1) / math.sqrt(len(squares))))
        values = (*time, time.steps / num_steps, *law)
        values = (*values, sampled.temperature, sampled.loss, num_steps, 0, seed)
        rows.append(Row("prior", name, direction, *values))
    return rows


def samplers(masses: Sequence[str]) -> dict[str, Massive]:
    """What is compared under the prior."""
    inner = Splitting("BAOAB", FRICTION)
    return {mass: Massive(inner, mass) for mass in masses}


def alone(friction: float) -> float:
    """The time of a flat direction with masses 1, in closed form."""
    return time_alone(1 / PRIOR_STD**2, friction)


def say(row: Row) -> None:
    """Prints a row."""
    law = (
        ""
        if math.isnan(row.variance)
        else f"   variance {row.variance:.3f} ± {row.variance_error:.3f}"
    )
    print(
        f"{row.part:9}{row.method:21}{row.direction:8}time {row.time:8.1f} ± {row.time_error:6.1f} steps, "
        f"{row.share:.3f} of the run   temperature {row.temperature:.4g}   loss {row.loss:.4g}{law}",
        flush=True,
    )


def rows_in(path: Path, sizes: dict) -> list[Row]:
    """The rows that are there, of the same sizes.

    Raises:
        InputError: They have other sizes.
    """
    if not path.exists():
        return []
    rows = [Row(**row) for row in pd.read_csv(path).to_dict("records")]
    kept = {name: value for name, value in sizes.items() if name != "refresh"}
    if any({name: getattr(row, name) for name in kept} != kept for row in rows) or any(
        row.refresh != sizes["refresh"] for row in rows if row.part == "no prior"
    ):
        found = f"num_steps {rows[0].num_steps}, refresh {rows[0].refresh}, seed {rows[0].seed}"
        raise tati_re.InputError(
            "--output holds rows of other sizes.", found, "another folder, or these sizes"
        )
    return rows


def reproduce(
    data: Path | None, sizes: dict, output: Path, masses: Sequence[str] = MASSES
) -> list[Row]:
    """Runs what is missing, and writes after each run.

    Raises:
        InputError: No data, or a folder of other sizes or that cannot be written.
    """
    path = output / "results.csv"
    rows = rows_in(path, sizes)
    images, labels = seven_or_nine(data, sizes["seed"])
    images = images.reshape(len(images), -1)
    jobs = {
        ("no prior", f"η = {blending:,.0f}"): lambda blending=blending: published_scheme(
            images, labels, blending, **sizes
        )
        for blending in BLENDINGS
    }
    for name, sampler in samplers(masses).items():
        jobs["prior", name] = lambda name=name, sampler=sampler: with_a_prior(
            images, labels, name, sampler, sizes["num_steps"], sizes["seed"]
        )
    for key, job in jobs.items():
        if key not in {(row.part, row.method) for row in rows}:
            new = job()
            for row in new:
                say(row)
            rows += new
            try:
                output.mkdir(parents=True, exist_ok=True)
                pd.DataFrame(rows).to_csv(
                    path.with_suffix(".part"), index=False, float_format="%.9g"
                )
                path.with_suffix(".part").replace(path)
            except OSError as error:
                raise tati_re.InputError(
                    f"The results cannot be written: {error.strerror}.", path
                ) from None
    return rows


def tell(rows: Sequence[Row]) -> None:
    """Times beside those of walkers on their own, and the published fall."""
    print(f"\nwithout a prior: slowest of five (published: {PAPER['five slowest times, MNIST']})")
    slow = {
        method: [row for row in rows if row.method == method]
        for method in dict.fromkeys(row.method for row in rows if row.part == "no prior")
    }
    first = max(row.time for row in next(iter(slow.values()))[:NUM_SLOW])
    for method, same in slow.items():
        if same[0].direction == "diverged":
            print(f"{method:21}diverges")
            continue
        *five, flat = same
        slowest, fastest = (chosen(row.time for row in five) for chosen in (max, min))
        print(
            f"{method:21}slowest {slowest:.0f} steps, {first / slowest:.2f} times less; fastest {fastest:.0f}, "
            f"{first / fastest:.2f} times; flat {flat.share:.3f} of the run; kinetic temperature "
            f"{flat.temperature:.4g} (wanted {TEMPERATURE}), loss {flat.loss:.4g}"
        )
    exact, critical = alone(FRICTION), 2 / PRIOR_STD
    print(
        f"\nwith a prior, flat directions: masses 1: {exact:.0f} steps, {alone(critical):.0f} at γ {critical:.2g}"
    )
    for row in rows:
        if row.part == "prior" and row.direction == "flat":
            gain, error = exact / row.time, exact / row.time * row.time_error / row.time
            time = f"{row.time:9.1f} ± {row.time_error:.1f} gradients"
            print(f"{row.method:21}{time}, {gain:.2f} ± {error:.2f} times less")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Times of the published scheme against η, also as a part of the run, and times under the
    prior.
    """
    from tati_re.plotting import COLORS, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(9.6, 3.7)
    left, right = figure.subplots(1, 2)
    style = {"fmt": "o", "markersize": 4, "linewidth": 1, "capsize": 2}
    methods = list(dict.fromkeys(row.method for row in rows if row.part == "no prior"))
    for place, method in enumerate(methods):
        *five, last = [row for row in rows if row.method == method]
        if last.direction == "diverged":
            left.text(
                place,
                0.5,
                "diverges",
                rotation=90,
                ha="center",
                transform=left.get_xaxis_transform(),
            )
            continue
        times, errors = [row.time for row in five], [row.time_error for row in five]
        names = ("no prior: five longest", "flat") if place == 0 else (None, None)
        left.errorbar(
            place + 0.1 * (np.arange(NUM_SLOW) - 2),
            times,
            errors,
            color=COLORS[0],
            label=names[0],
            **style,
        )
        left.errorbar(
            place + 0.35, last.time, last.time_error, color=COLORS[1], label=names[1], **style
        )
    left.set_ylabel("autocorrelation time [steps]")
    left.set_ylim(bottom=0)
    left.set_xlim(-0.6, len(methods) - 0.4)
    left.set_xticks(range(len(methods)), [method.removeprefix("η = ") for method in methods])
    left.set_xlabel("η, all walkers at once")
    plain(left)
    first = next(row for row in rows if row.part == "no prior")
    length = first.time / first.share
    part = left.secondary_yaxis(
        "right", functions=(lambda time: time / length, lambda share: share * length)
    )
    part.set_ylabel("part of the run", fontsize=left.yaxis.label.get_size())
    part.tick_params(labelsize=left.yaxis.get_ticklabels()[0].get_size())
    legend_above(left)
    flat = [row for row in rows if row.part == "prior" and row.direction == "flat"]
    driven = [row for row in rows if row.part == "prior" and row.direction == "driven"]
    right.axhline(
        alone(FRICTION),
        color=GRAY,
        linestyle="--",
        linewidth=0.9,
        label="with a prior: flat, masses 1 (exact)",
    )
    for color, group, name in ((COLORS[1], flat, "flat"), (COLORS[2], driven, "along the images")):
        times, errors = [row.time for row in group], [row.time_error for row in group]
        right.errorbar(range(len(group)), times, errors, color=color, label=name, **style)
    right.set_ylim(bottom=0)
    right.set_xticks(range(len(flat)), [f'mass="{row.method}"' for row in flat])
    right.set_xlim(-0.5, len(flat) - 0.5)
    right.set_ylabel("autocorrelation time [gradients]")
    plain(right)
    legend_above(right)
    save(figure, path)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Ensemble quasi-Newton on whole images, Figure 11 of TATi's paper."
    )
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder that holds mnist.npz")
    parser.add_argument(
        "--num-steps", type=int, metavar="N", help=f"of each walker; default {NUM_STEPS:,}"
    )
    parser.add_argument(
        "--refresh", type=int, metavar="N", help=f"steps between two, published scheme; {REFRESH}"
    )
    full = f"{FULL_NUM_STEPS:,} steps, a refresh each {FULL_REFRESH:,}"
    parser.add_argument("--full", action="store_true", help=full)
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of all random numbers; default 1"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small part on generated images, in seconds"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/tati_figure_11"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    sizes = {"num_steps": NUM_STEPS, "refresh": REFRESH}
    if arguments.full or arguments.quick:
        sizes = (
            {"num_steps": FULL_NUM_STEPS, "refresh": FULL_REFRESH}
            if arguments.full
            else dict(QUICK)
        )
    given = {"num_steps": arguments.num_steps, "refresh": arguments.refresh}
    sizes |= {name: value for name, value in given.items() if value is not None} | {
        "seed": arguments.seed
    }
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", expected="a folder that holds mnist.npz, or --quick"
            )
        if (
            sizes["refresh"] < 1
            or sizes["num_steps"] < 4 * sizes["refresh"]
            or sizes["num_steps"] % 100
        ):
            what = "--num-steps does not fit."
            expected = "a multiple of 100, and 4 times --refresh at least"
            raise tati_re.InputError(
                what, f"{sizes['num_steps']} with --refresh {sizes['refresh']}", expected
            )
        rows = reproduce(
            arguments.data, sizes, arguments.output, MASSES[:1] if arguments.quick else MASSES
        )
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    tell(rows)
    draw(rows, arguments.output / "figure.png")
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
