"""Ensemble quasi-Newton: how much faster walkers mix that precondition each other. Figure 10 of
TATi's paper, and two more on images.

Figure 10, Gaussians: the mean loss w'Cw/n of n examples of a linear model, the eigenvalues of C
even over [1, 100], for n = 2 to 128. Measured for 8 and 16 walkers are the law of the slowest
direction (k times its variance, exactly 1) and the integrated autocorrelation times of the slowest
and the fastest direction, beside that of a walker on its own: measured, and in closed form. The
gain is their ratio, per gradient, with those that a refresh costs.

Images (with --data), in halves and with a prior. The paper's Figure 11 has neither: that is
tati_figure_11.py. Sevens against nines: the five slowest directions of a logistic regression on
images averaged over squares to 4 x 4, 16 parameters, and the flat directions of a softmax
regression on whole images, 1,568 parameters; with the biases fixed at zero, and free. U is the mean
loss of mini-batches of 550 images plus a Gaussian prior of standard deviation 3, without which flat
directions have no equilibrium; temperature 0.1.

    python examples/ensemble_quasi_newton.py [--num-steps 4000] [--output DIR] python
    examples/ensemble_quasi_newton.py --data FOLDER [--pool 4] [--num-steps 20000] [--output DIR]

FOLDER holds mnist.npz with x_train and y_train. Writes gaussians.csv or mnist.csv and a figure of
the same name to the output folder, in about five minutes each. Source: F. Heber, Z. Trstanova, B.
Leimkuhler, Posterior sampling strategies based on discretized stochastic differential equations for
machine learning applications, J. Mach. Learn. Res. 21 (2020), section 3.4.
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
from scipy.linalg import solve_discrete_lyapunov
from scipy.stats import ortho_group

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re
from tati_re.samplers import EnsembleQuasiNewton, Splitting

STEP_SIZE = 0.125
BLENDING = 10.0
REFRESH = 100
"""Steps of one half of the walkers before the other half moves."""
COST = 1 + 4 / REFRESH
"""Gradients of a walker's step: a refresh asks for four, for the cap."""
NUM_WALKERS = (8, 16)

FRICTION = 1.0
DIMENSIONS = (2, 4, 8, 16, 32, 64, 128)
TOTAL_WALKERS = 256
"""Shared out to independent ensembles, whose number is that of the repetitions."""
STEPS_PER_DIMENSION = 80
"""Of a walker at least: its slowest time is 8 n steps."""
LEAST_GAIN = {(16, 8): 4.0, (16, 16): 9.0, (64, 8): 1.7, (64, 16): 3.2}
"""What theory asks for at this refresh, by dimension and number of walkers."""

MNIST = {
    "potential": "mean_loss",
    "prior": "gaussian",
    "prior_std": 3.0,
    "batch_size": 550,
    "walker_batches": "shared",
}
MNIST_FRICTION, TEMPERATURE = 10.0, 0.1
NUM_SLOW = 5
NUM_FLAT = 100
MNIST_BLENDING = 100.0
MNIST_WALKERS = (8, 16, 32)
POOLED_WALKERS, WHOLE_WALKERS = 128, 32
EVERY = 10
"""Positions of MNIST runs are stored each so many steps."""
LARGEST_BLENDING = 10_000.0
"""The paper's largest; only the cap makes it stable."""
SMALLEST_NUM_STEPS = 500
FALL_ON_GAUSSIANS, FALL_ON_MNIST = (
    published("tati_ensemble")[row]
    for row in ("slow times, Gaussians", "five slowest times, MNIST")
)


class Time(NamedTuple):
    """An integrated autocorrelation time in steps, and its standard error."""

    steps: float
    error: float


class Row(NamedTuple):
    """One direction of one run.

    Attributes:
        system: "n = 16", "4 x 4, biases fixed", ...
        walkers: Of an ensemble; 1 for a walker on its own.
        direction: "slowest", "fastest", "slow 1", ... or "flat".
        variance: Over the expected one; expected is the exact one, or that of the walkers on their
            own.
        variance_error: Its standard error.
        time: Integrated autocorrelation time in gradients.
        time_error: Its standard error.
        alone: That of a walker on its own.
        gain: alone / time.
        gain_error: Its standard error.
        blending: Mean η in use.
    """

    system: str
    walkers: int
    direction: str
    variance: float
    variance_error: float
    time: float
    time_error: float
    alone: float
    gain: float
    gain_error: float
    blending: float


class Sampled(NamedTuple):
    """Projections `(rows, ensembles, walkers of one, directions)`, mean η and mean kinetic
    temperature.
    """

    values: np.ndarray
    blending: float
    temperature: float


def time_alone(curvature: float, friction: float) -> float:
    """Integrated autocorrelation time, in steps, of one direction of a Gaussian under BAOAB: z' = M
    z + noise.
    """
    matrix, noise = np.eye(2), np.zeros((2, 2))
    for letter in "BAOAB":
        t = STEP_SIZE / "BAOAB".count(letter)
        c = math.exp(-friction * t)
        part = np.array(
            {"A": [[1, t], [0, 1]], "B": [[1, 0], [-t * curvature, 1]], "O": [[1, 0], [0, c]]}[
                letter
            ]
        )
        matrix, noise = part @ matrix, part @ noise @ part.T
        noise[1, 1] += (1 - c * c) if letter == "O" else 0.0
    covariance = solve_discrete_lyapunov(matrix, noise)
    return float(2 * np.linalg.solve(np.eye(2) - matrix, covariance)[0, 0] / covariance[0, 0] - 1)


def gain_of_a_fixed_root(curvatures: np.ndarray, num_lenders: int, num_draws: int = 400) -> float:
    """Gain of the slowest direction if B were kept for long: 1 / E[(1 + η C)⁻¹] of the lenders'
    covariance C.
    """
    random, inverses = np.random.default_rng(0), []
    for _ in range(num_draws):
        lenders = random.standard_normal((num_lenders, len(curvatures))) / np.sqrt(curvatures)
        lenders -= lenders.mean(0)
        largest = np.linalg.eigvalsh((lenders * curvatures) @ lenders.T / num_lenders)[-1]
        blending = min(BLENDING, max(1 / STEP_SIZE**2 - curvatures.max(), 0) / largest)
        wide = math.sqrt(blending / num_lenders) * lenders
        middle = np.linalg.inv(np.eye(num_lenders) + wide @ wide.T)
        inverses.append(1 - wide[:, 0] @ middle @ wide[:, 0])
    return float(1 / np.mean(inverses))


def measured_time(values: np.ndarray, variance: float, least: float, every: int = 1) -> Time:
    """Integrated autocorrelation time of the ensembles' mean, times walkers, so that their
    correlation counts.

    The sum of autocovariances ends at 2.5 times itself, where an exponential has lost 0.7 % of its
    weight.

    Args:
        values: Less their known mean, `(rows, ensembles, walkers of one)`.
        variance: Of one walker.
        least: Steps that the sum has at least: those in which momenta forget.
        every: Steps between two rows.
    """
    means = values.mean(2)
    rows, ensembles = means.shape
    spectrum = np.abs(np.fft.rfft(means, 2 * rows, axis=0)) ** 2
    products = np.fft.irfft(spectrum.mean(1))[:rows] / np.arange(rows, 0, -1)
    products *= values.shape[2] / variance
    sums = 2 * np.cumsum(products) - products[0]
    enough = np.arange(rows) >= np.maximum(2.5 * sums / products[0], least / every)
    window = int(np.argmax(enough)) if enough.any() else rows - 1
    time = max(float(sums[window]), 1e-9)
    return Time(every * time, every * time * math.sqrt(2 * (2 * window + 1) / (rows * ensembles)))


def sample(
    sim: tati_re.Simulation, walkers: int, friction: float, blending: float = BLENDING, **options
) -> Sampled:
    """Samples with ensembles side by side, or walkers that do not know each other, and reads the
    positions back.
    """
    ensembles = sim.num_walkers() // walkers
    inner = Splitting("BAOAB", friction)
    sampler = (
        inner
        if walkers == 1
        else EnsembleQuasiNewton(inner, blending, REFRESH, num_ensembles=ensembles)
    )
    with tempfile.TemporaryDirectory() as folder:
        run = sim.sample(
            sampler=sampler,
            step_size=STEP_SIZE,
            record_every=REFRESH,
            trajectory_format="h5",
            output=str(Path(folder) / "run"),
            **options,
        )
        rows, info = run.trajectory.sort_values(["step", "walker"]), run.run_info
    values = rows.iloc[:, 4:].to_numpy()
    values = values.reshape(-1, sim.num_walkers(), values.shape[1])
    # Halves take turns, and each is shared out to all ensembles: one has its walkers from both.
    halves = np.array_split(values, 1 if walkers == 1 else 2, axis=1)
    grouped = [half.reshape(len(values), ensembles, -1, values.shape[2]) for half in halves]
    late = info[info["step"] > options.get("num_burnin_steps", 0)]
    used = float(late["blending"].mean()) if walkers > 1 else math.nan
    temperature = 2 * float(late["kinetic_energy"].mean()) / sim.num_parameters()
    return Sampled(np.concatenate(grouped, axis=2), used, temperature)


def compared(
    system: str,
    walkers: int,
    direction: str,
    values: np.ndarray,
    variance: float,
    alone: Time,
    least,
    every,
    blending,
) -> Row:
    """A direction's row: values less their known mean, and what is expected of them."""
    time = measured_time(values, variance, least, every)
    cost = COST if walkers > 1 else 1.0
    squares = (values**2).mean((0, 2)) / variance
    error = float(squares.std(ddof=1) / math.sqrt(len(squares))) if len(squares) > 1 else math.nan
    gain = alone.steps / (time.steps * cost)
    spread = math.hypot(time.error / time.steps, alone.error / alone.steps)
    law, cost_error = float(squares.mean()), time.error * cost
    return Row(
        system,
        walkers,
        direction,
        law,
        error,
        time.steps * cost,
        cost_error,
        alone.steps,
        gain,
        gain * spread,
        blending,
    )


def gaussian(
    n: int, num_walkers: Sequence[int], num_steps: int, total: int, seed: int
) -> list[Row]:
    """Ensembles (or walkers on their own) on the Gaussian of n dimensions, all started in its
    law.
    """
    eigenvalues = np.linspace(1, 100, n)
    curvatures, directions = 2 * eigenvalues / n, ortho_group.rvs(n, random_state=seed)
    examples = np.sqrt(eigenvalues)[:, None] * directions
    num_steps = REFRESH * math.ceil(max(num_steps, STEPS_PER_DIMENSION * n) / REFRESH)
    rows = []
    for walkers in num_walkers:
        sim = tati_re.Simulation(
            data=(examples, np.zeros((n, 1))),
            loss="mean_squared_error",
            use_bias=False,
            potential="mean_loss",
            prior="none",
            dtype="float64",
            num_walkers=max(total // (4 if walkers == 1 else 1), walkers),
            seed=seed + walkers,
            verbose=0,
        )
        start = np.random.default_rng(seed).standard_normal((sim.num_walkers(), n)) / np.sqrt(
            curvatures
        )
        sim.parameters = start @ directions
        which = {"slowest": 0, "fastest": -1}
        sampled = sample(
            sim,
            walkers,
            FRICTION,
            directions=directions[list(which.values())],
            num_steps=num_steps,
            trajectory_every=1,
        )
        for place, (name, index) in enumerate(which.items()):
            alone = Time(time_alone(curvatures[index], FRICTION), 0.0)
            values = sampled.values[..., place]
            least = 16 / (FRICTION * STEP_SIZE)
            rows.append(
                compared(
                    f"n = {n}",
                    walkers,
                    name,
                    values,
                    1 / curvatures[index],
                    alone,
                    least,
                    1,
                    sampled.blending,
                )
            )
            say(rows[-1])
    return rows


def say(row: Row) -> None:
    """Prints a row."""
    used = "" if math.isnan(row.blending) else f"   η in use {row.blending:.3g}"
    print(
        f"{row.system:30}{row.walkers:3} walker{' ' if row.walkers == 1 else 's'}  {row.direction:8} "
        f"variance {row.variance:.3f} ± {row.variance_error:.3f}   "
        f"time {row.time:8.2f} ± {row.time_error:.2f} gradients, alone {row.alone:.2f}   "
        f"gain {row.gain:5.2f} ± {row.gain_error:.2f}{used}",
        flush=True,
    )


def seven_or_nine(folder: Path | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images `(examples, 28, 28)` with values in [0, 1], and labels, 1 for a nine; without a
    folder, generated.
    """
    if folder is None:
        random = np.random.default_rng(seed)
        labels = random.integers(0, 2, 1000)
        shapes = random.uniform(0, 1, (2, 28, 28))
        return np.clip(shapes[labels] + 0.2 * random.standard_normal((1000, 28, 28)), 0, 1).astype(
            "float32"
        ), labels
    file = folder / "mnist.npz"
    if not file.is_file():
        raise tati_re.InputError(
            "--data: there is no mnist.npz.", folder, "a folder that holds mnist.npz"
        )
    with np.load(file) as arrays:
        if not {"x_train", "y_train"} <= set(arrays):
            raise tati_re.InputError(
                "--data: arrays are missing.", ", ".join(arrays), "x_train and y_train"
            )
        images, labels = arrays["x_train"], arrays["y_train"]
    chosen = (labels == 7) | (labels == 9)
    return images[chosen].astype("float32") / 255, (labels[chosen] == 9).astype(int)


def pooled_inputs(images: np.ndarray, pool: int) -> np.ndarray:
    """Averages over squares: `(examples, pool * pool)`."""
    side = 28 // pool
    return images.reshape(-1, pool, side, pool, side).mean((2, 4)).reshape(-1, pool * pool)


def perceptron(
    inputs, labels, outputs: int, use_bias: bool, num_walkers: int, seed: int
) -> tati_re.Simulation:
    """Logistic regression with one output, softmax regression with two."""
    import keras

    model = keras.Sequential(
        [keras.Input((inputs.shape[1],)), keras.layers.Dense(outputs, use_bias=use_bias)]
    )
    loss = "binary_crossentropy" if outputs == 1 else "sparse_categorical_crossentropy"
    data = (inputs, labels[:, None] if outputs == 1 else labels)
    return tati_re.Simulation(
        model, data, loss=loss, num_walkers=num_walkers, seed=seed, verbose=0, **MNIST
    )


def start_in_the_prior(sim: tati_re.Simulation, seed: int) -> None:
    """Draws the walkers from exp(-V/T), the law of all flat directions."""
    std = MNIST["prior_std"] * math.sqrt(TEMPERATURE)
    sim.parameters = std * np.random.default_rng(seed).standard_normal(sim.parameters.shape)


def pooled(
    inputs,
    labels,
    use_bias: bool,
    num_walkers: Sequence[int],
    total: int,
    num_steps: int,
    seed: int,
):
    """The slowest five directions of the pooled images.

    Lonely walkers run twice as long: the eigenvectors come from the first half, times and variances
    from the second, as an eigenvector has the largest variance in the very positions it was
    computed from.
    """
    pool = math.isqrt(inputs.shape[1])
    system = f"{pool} x {pool}, biases {'free' if use_bias else 'fixed'}"
    burnin = REFRESH * math.ceil(0.2 * num_steps / REFRESH)
    options = {"temperature": TEMPERATURE, "trajectory_every": EVERY, "num_burnin_steps": burnin}
    sim = perceptron(inputs, labels, 1, use_bias, total, seed)
    start_in_the_prior(sim, seed)
    alone = sample(sim, 1, MNIST_FRICTION, num_steps=burnin + 2 * num_steps, **options).values
    first, second = np.array_split(alone, 2)
    directions = np.linalg.eigh(np.cov(first.reshape(-1, alone.shape[-1]).T))[1][:, ::-1][
        :, :NUM_SLOW
    ].T
    centres = (second @ directions.T).mean((0, 1, 2))
    variances = (second @ directions.T).var((0, 1, 2))
    least, alones, errors, rows = 16 / (MNIST_FRICTION * STEP_SIZE), [], [], []
    for walkers in (1, *num_walkers):
        sampled = Sampled(second @ directions.T, math.nan, math.nan)
        if walkers > 1:
            sim = perceptron(inputs, labels, 1, use_bias, total, seed + walkers)
            sim.parameters = second[
                np.random.default_rng(seed).integers(len(second), size=total), np.arange(total), 0
            ]
            steps = {"num_steps": burnin + num_steps, "directions": directions}
            sampled = sample(sim, walkers, MNIST_FRICTION, MNIST_BLENDING, **steps, **options)
        for place in range(NUM_SLOW):
            values = sampled.values[..., place] - centres[place]
            if walkers == 1:
                alones.append(measured_time(values, variances[place], least, EVERY))
            name, used = f"slow {place + 1}", sampled.blending
            row = compared(
                system, walkers, name, values, variances[place], alones[place], least, EVERY, used
            )
            if walkers == 1:
                errors.append(row.variance_error)
                row = row._replace(gain_error=0.0)
            else:
                row = row._replace(variance_error=math.hypot(row.variance_error, errors[place]))
            rows.append(row)
            say(rows[-1])
    return rows


def whole(
    images,
    labels,
    use_bias: bool,
    num_walkers: Sequence[int],
    blending: float,
    num_steps: int,
    seed: int,
):
    """The flat directions of a softmax regression on whole images.

    Moving the weights of both outputs alike changes no probability, so that half of all directions
    are held by the prior alone: their law is N(0, T 3²) and a lonely walker's time is known. Here
    are means over 100 of them; an eigenvector of a sampled covariance would be chance where
    thousands of draws meet 1,568 parameters.
    """
    inputs = images.reshape(len(images), -1)
    system = f"28 x 28, biases {'free' if use_bias else 'fixed'}"
    if blending > MNIST_BLENDING:
        system += f", η {blending:,.0f}"
    random = np.random.default_rng(seed)
    common = np.linalg.qr(random.standard_normal((inputs.shape[1], NUM_FLAT)))[0].T
    directions = np.repeat(common, 2, axis=1) / math.sqrt(2)
    if use_bias:
        directions = np.concatenate([directions, np.zeros((NUM_FLAT, 2))], axis=1)
    variance = TEMPERATURE * MNIST["prior_std"] ** 2
    alone = Time(time_alone(1 / MNIST["prior_std"] ** 2, MNIST_FRICTION), 0.0)
    burnin, rows = REFRESH * math.ceil(0.1 * num_steps / REFRESH), []
    for walkers in num_walkers:
        sim = perceptron(inputs, labels, 2, use_bias, WHOLE_WALKERS, seed + walkers)
        start_in_the_prior(sim, seed)
        sampled = sample(
            sim,
            walkers,
            MNIST_FRICTION,
            blending,
            temperature=TEMPERATURE,
            num_steps=burnin + num_steps,
            num_burnin_steps=burnin,
            trajectory_every=EVERY,
            directions=directions,
        )
        # Directions that feel no force but the prior's are alike: each is one more ensemble.
        values = np.moveaxis(sampled.values, 3, 1).reshape(len(sampled.values), -1, walkers)
        least = 16 / (MNIST_FRICTION * STEP_SIZE)
        rows.append(
            compared(
                system, walkers, "flat", values, variance, alone, least, EVERY, sampled.blending
            )
        )
        say(rows[-1])
        print(
            f"{'':30}kinetic temperature {sampled.temperature:.4f} (wanted {TEMPERATURE})",
            flush=True,
        )
    return rows


def tell_gaussians(rows: Sequence[Row]) -> None:
    """Prints gains beside those of a fixed B and the least that theory asks for."""
    print("\ngain of the slowest direction, per gradient")
    print(f"{'':12}{'walkers':10}{'measured':18}{'B kept for long':18}{'at least':12}TATi, Fig. 10")
    for row in rows:
        if row.direction == "slowest" and row.walkers > 1:
            n = int(row.system.removeprefix("n = "))
            kept = gain_of_a_fixed_root(2 * np.linspace(1, 100, n) / n, row.walkers // 2) / COST
            least = f">= {LEAST_GAIN[n, row.walkers]:g}" if (n, row.walkers) in LEAST_GAIN else ""
            measured = f"{row.gain:.2f} ± {row.gain_error:.2f}"
            print(
                f"{row.system:12}{row.walkers:<10}{measured:18}{kept:<18.2f}{least:12}{FALL_ON_GAUSSIANS}"
            )
    off = max(
        abs(row.variance - 1) for row in rows if row.direction == "slowest" and row.walkers > 1
    )
    print(f"largest deviation of the law of the slowest direction: {off:.3f}")


def tell_mnist(rows: Sequence[Row]) -> None:
    """Prints the gain of the slowest time beside the published one."""
    print(
        f"\n{'':32}{'walkers':10}{'slowest time':18}{'alone':10}{'gain of it':14}{'mean gain':12}TATi, 28 x 28"
    )
    for system, walkers in dict.fromkeys(
        (row.system, row.walkers) for row in rows if row.walkers > 1
    ):
        same = [row for row in rows if (row.system, row.walkers) == (system, walkers)]
        slowest = max(same, key=lambda row: row.time)
        alone = max(row.alone for row in same)
        time, mean = (
            f"{slowest.time:.0f} ± {slowest.time_error:.0f}",
            np.mean([row.gain for row in same]),
        )
        gain = f"{alone / slowest.time:<14.2f}{mean:<12.2f}{FALL_ON_MNIST}"
        print(f"{system:32}{walkers:<10}{time:18}{alone:<10.0f}{gain}")


def draw_gaussians(rows: Sequence[Row], path: Path) -> None:
    """Gain against n beside that of a fixed B, and the law of the slowest direction."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    figure = new_figure(8.4, 3.6)
    left, right = figure.subplots(1, 2)
    left.axhline(1, color=GRAY, linewidth=0.8)
    right.axhspan(0.98, 1.02, color=GRAY, alpha=0.2, linewidth=0, label="2 %")
    right.axhline(1, color=GRAY, linewidth=0.8)
    numbers = sorted({row.walkers for row in rows} - {1})
    for place, (walkers, color) in enumerate(zip(numbers, COLORS, strict=False)):
        same = [row for row in rows if row.walkers == walkers and row.direction == "slowest"]
        n = np.array([int(row.system.removeprefix("n = ")) for row in same])
        kept = [
            gain_of_a_fixed_root(2 * np.linspace(1, 100, m) / m, walkers // 2) / COST for m in n
        ]
        left.plot(n, kept, color=color, linewidth=1.0, linestyle="--")
        gains, bars = [row.gain for row in same], [row.gain_error for row in same]
        style = {"fmt": "o", "color": color, "markersize": 5, "linewidth": 1.0, "capsize": 2}
        left.errorbar(n, gains, bars, label=f"{walkers} walkers", **style)
        fast = [row.gain for row in rows if row.walkers == walkers and row.direction == "fastest"]
        left.plot(n, fast, "x", color=color, markersize=4, label=f"{walkers} walkers, fastest")
        laws, bars = [row.variance for row in same], [row.variance_error for row in same]
        right.errorbar(n * (0.97 + 0.06 * place), laws, bars, label=f"{walkers} walkers", **style)
    drawn = {(int(row.system.removeprefix("n = ")), row.walkers) for row in rows}
    wanted = np.array([(place[0], least) for place, least in LEAST_GAIN.items() if place in drawn])
    if len(wanted):
        left.scatter(
            *wanted.T,
            marker="_",
            s=120,
            color="black",
            linewidths=1.2,
            label="least, by theory",
        )
    for axes, title in (
        (left, "gain, slowest direction (dashed: B kept)"),
        (right, "variance, slowest direction / exact"),
    ):
        axes.set_xscale("log", base=2)
        dimensions = sorted({int(row.system.removeprefix("n = ")) for row in rows})
        axes.set_xticks(dimensions, [str(n) for n in dimensions])
        axes.minorticks_off()
        axes.set_xlabel("dimensions n")
        axes.set_title(title, fontsize=10, loc="left")
        plain(axes)
    left.set_yscale("log")
    left.set_ylim(0.6, 90)
    left.set_yticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    left.minorticks_off()
    left.set_ylabel("autocorrelation time alone / in an ensemble")
    left.legend(frameon=False, fontsize=7.5, ncols=2, loc="upper right")
    slowest = [row for row in rows if row.direction == "slowest" and row.walkers > 1]
    low = min((row.variance - row.variance_error for row in slowest), default=1.0)
    high = max((row.variance + row.variance_error for row in slowest), default=1.0)
    right.set_ylim(min(0.95, low - 0.01), max(1.05, high + 0.01))
    right.legend(frameon=False, fontsize=7.5, loc="best")
    save(figure, path)


def draw_mnist(rows: Sequence[Row], path: Path) -> None:
    """Autocorrelation times for 1, 8, 16 and 32 walkers: one panel for every system."""
    from tati_re.plotting import COLORS, GRAY, new_figure, plain, save

    systems = list(dict.fromkeys(row.system for row in rows))
    flat = [
        any(row.direction == "flat" for row in rows if row.system == system) for system in systems
    ]
    figure = new_figure(sum(1.6 if one else 2.6 for one in flat) + 1.0, 3.7)
    widths = [1.6 if one else 2.6 for one in flat]
    panels = np.atleast_1d(figure.subplots(1, len(systems), sharey=True, width_ratios=widths))
    numbers, shown = (1, *MNIST_WALKERS), {}
    for axes, system, single in zip(panels, systems, flat, strict=True):
        for number, (color, walkers) in enumerate(zip(COLORS, numbers, strict=False)):
            same = [row for row in rows if (row.system, row.walkers) == (system, walkers)]
            if not same:
                continue
            places = [number] if single else np.arange(1, len(same) + 1)
            times, bars = [row.time for row in same], [row.time_error for row in same]
            style = {"fmt": "o", "color": color, "markersize": 5, "linewidth": 1.0, "capsize": 2}
            shown.setdefault(
                f"{walkers} walker{'s' if walkers > 1 else ''}",
                axes.errorbar(places, times, bars, **style),
            )
        if single:
            alone = next(row.alone for row in rows if row.system == system)
            axes.axhline(alone, color=GRAY, linewidth=0.9, linestyle="--", zorder=0)
            axes.set_xlim(-0.7, 2.7)
            axes.set_xticks(range(3), [str(walkers) for walkers in numbers[:3]])
        axes.set_xlabel("walkers" if single else "slow direction")
        axes.set_yscale("log")
        pixels, _, rest = system.partition(", ")
        axes.set_title(
            f"{pixels}{': flat directions' if single else ''}\n{rest}", fontsize=8.5, loc="left"
        )
        plain(axes)
    times = [row.time for row in rows]
    panels[0].set_ylim(0.7 * min(times), 1.5 * max(times))
    ticks = [
        tick
        for tick in (20, 50, 100, 200, 500, 1000, 2000)
        if 0.7 * min(times) < tick < 1.5 * max(times)
    ]
    panels[0].set_yticks(ticks, [f"{tick:,}" for tick in ticks])
    panels[0].minorticks_off()
    panels[0].set_ylabel("autocorrelation time [gradients]")
    figure.legend(
        shown.values(),
        shown.keys(),
        loc="outside upper center",
        frameon=False,
        fontsize=8,
        ncols=len(shown),
    )
    save(figure, path)


def checked(num_steps: int | None, default: int, pool: int) -> int:
    """Number of steps, a multiple of the refresh.

    Raises:
        InputError: Too few, or squares that do not fill an image.
    """
    if num_steps is not None and num_steps < SMALLEST_NUM_STEPS:
        raise tati_re.InputError(
            "--num-steps is too small.", num_steps, f"at least {SMALLEST_NUM_STEPS}"
        )
    if pool < 3 or 28 % pool:
        raise tati_re.InputError("--pool does not fit 28 pixels.", pool, "4, 7, 14 or 28")
    return REFRESH * math.ceil((num_steps or default) / REFRESH)


def reproduce(
    data: Path | None, pool: int, num_steps: int | None, seed: int, output: Path, quick: bool
) -> None:
    """Runs one of the figures, or a part of both, prints and writes.

    Args:
        data: Folder of mnist.npz for the images; None for Figure 10.
        pool: Side of the pooled images.
        num_steps: Of each walker; None for the default.
        seed: Of all random numbers.
        output: Folder of the files.
        quick: Smallest sizes, on generated images.

    Raises:
        InputError: Bad sizes, no data, or a folder that cannot be written.
    """
    if quick:
        num_steps = checked(num_steps, 500, pool)
        images, labels = seven_or_nine(data, seed)
        results = {
            "gaussians": gaussian(4, NUM_WALKERS[:1], num_steps, 128, seed),
            "mnist": pooled(
                pooled_inputs(images, pool), labels, False, NUM_WALKERS[:1], 16, num_steps, seed
            ),
        }
    elif data is None:
        num_steps = checked(num_steps, 4000, pool)
        walkers = (1, *NUM_WALKERS)
        rows = [
            row for n in DIMENSIONS for row in gaussian(n, walkers, num_steps, TOTAL_WALKERS, seed)
        ]
        results = {"gaussians": rows}
    else:
        num_steps = checked(num_steps, 20_000, pool)
        images, labels = seven_or_nine(data, seed)
        inputs = pooled_inputs(images, pool)
        rows = pooled(inputs, labels, False, MNIST_WALKERS, POOLED_WALKERS, num_steps, seed)
        rows += pooled(inputs, labels, True, MNIST_WALKERS, POOLED_WALKERS, num_steps, seed)
        half = REFRESH * math.ceil(num_steps / 2 / REFRESH)
        rows += whole(images, labels, False, (1, *NUM_WALKERS), MNIST_BLENDING, half, seed)
        rows += whole(images, labels, True, NUM_WALKERS, LARGEST_BLENDING, half, seed)
        results = {"mnist": rows}
    for name, (tell, draw) in {
        "gaussians": (tell_gaussians, draw_gaussians),
        "mnist": (tell_mnist, draw_mnist),
    }.items():
        if name in results:
            tell(results[name])
            write(results[name], output / f"{name}.csv")
            draw(results[name], output / f"{name}.png")
            print(output / f"{name}.csv", output / f"{name}.png", sep=", ")


def write(rows: Sequence[Row], path: Path) -> None:
    """Writes the rows as CSV."""
    lines = [
        ",".join("" if v != v else f"{v:.6g}" if isinstance(v, float) else f'"{v}"' for v in row)
        for row in rows
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join([",".join(Row._fields), *lines, ""]), encoding="utf-8")
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", path
        ) from None


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Ensemble quasi-Newton: Figure 10 of TATi's paper, and images."
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder that holds mnist.npz, for images"
    )
    parser.add_argument(
        "--pool", type=int, default=4, metavar="N", help="side of the pooled images; default 4"
    )
    parser.add_argument(
        "--num-steps",
        type=int,
        metavar="N",
        help="of each walker; default 4,000, with --data 20,000",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="of all random numbers; default 1"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a part of it on generated images, in seconds"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/ensemble_quasi_newton"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    try:
        values = (arguments.data, arguments.pool, arguments.num_steps, arguments.seed)
        reproduce(*values, arguments.output, arguments.quick)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
