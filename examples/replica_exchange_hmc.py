"""Test loss against temperature: replica-exchange Hamiltonian Monte Carlo on networks for 16 x 16
digits.

Networks 256-40-40-40-10 with logistic hidden units (13,970 parameters) and a uniform prior |θ_i| <
f/sqrt(k_i), k_i = fan-in + 1: one with linear outputs and f = 50, one with logistic outputs, which
go into the softmax, and f = 1000; and, if asked for, 256-40-10 with linear outputs ("shallow",
10,690 parameters). U is the sum of the cross-entropies of all training images in nats, so that T =
1 is the Bayesian posterior. Two training sets: the 500 images of a list, and 5 of each class drawn
with a seed. All other images are for testing.

Two ladders run side by side, from two sides, so that it can be seen whether they arrive at the same
law. One starts at the ends of descents from small weights, U(-1/sqrt(k), 1/sqrt(k)), which are the
baseline; there the box is empty. The other starts at the ends of descents from hidden layers drawn
from the prior; there the box is full.

A trajectory has 200 velocity Verlet steps, with masses k_i, in which the box is a cube of half
width f; step sizes are tuned for an acceptance of 0.65 at every temperature during the burn-in and
then frozen. After each trajectory neighboring temperatures try to swap. The paper rejects a
trajectory that leaves the box, as --walls reject does; ours is reflected at the walls. Parameters
are in single precision, energies are summed in double.

    python examples/replica_exchange_hmc.py --data FOLDER [--num-trajectories 60] [--output DIR]

FOLDER holds mnist.npz with x_train, y_train, x_test, y_test, as Keras stores it, and
nn_sample_mnist_train_indices_50.txt, the 500 numbers of the training images. Writes results.csv (a
row a temperature, and start, with standard errors from the autocorrelation of the rung) and
figure.png, in about 20 minutes on 2 cores. --sets 5000 takes the list
nn_sample_mnist_train_indices_500.txt, at ten times the cost.

U of all rungs after each trajectory, as in Figure 2 of the paper, is drawn for each set and network
(trace-....png), and training images as the networks see them, as in its Figure 1 (images.png).

Published: R. Baldock, N. Marzari, Bayesian neural networks at finite temperature (arXiv
1904.04154). Their curves are not in print as numbers; what is compared are their shapes.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re

INDICES, MANY = "nn_sample_mnist_train_indices_50.txt", "nn_sample_mnist_train_indices_500.txt"
"""500 and 5,000 training images."""
INPUTS, CLASSES = 256, 10
PIXELS = 16
PER_CLASS = 5
UNINFORMED = math.log(10)
LOGISTIC_FLOOR = math.log(1 + 9 / math.e)
"""Least loss of an image whose outputs lie between 0 and 1: one of them 1, nine 0."""
PUBLISHED = {
    (
        "500",
        "linear",
    ): f"a clear minimum of the test loss near T = {published('baldock_minimum')['500, linear']}",
    ("50", "linear"): "a minimum at T > 0; above ln 10 at every T",
    ("500", "logistic"): "no minimum: lowest at the lowest T",
    ("50", "logistic"): "no minimum: lowest at the lowest T",
    ("5000", "linear"): "a minimum at T > 0, another one than that of 500 images",
    ("5000", "logistic"): "no minimum: lowest at the lowest T",
}
SMALLEST_NUM_TRAJECTORIES = 30
STARTS = ("small weights", "prior")
WIDE = 0.9
"""Part of the box that hidden layers of the second start fill: a descent must not leave the box."""
AGREE = 3.0
"""Standard errors by which two means of one law may differ."""


class Net(NamedTuple):
    """A network: activation of its outputs, f of its prior, where its step sizes start at T = 1,
    nodes by layer.
    """

    output_activation: str
    prior_bound: float
    step_size: float
    nodes: tuple[int, ...]


DEEP = (INPUTS, 40, 40, 40, CLASSES)
NETS = {
    "linear": Net("linear", 50.0, 0.05, DEEP),
    "logistic": Net("sigmoid", 1000.0, 0.03, DEEP),
    "shallow": Net("linear", 50.0, 0.05, (INPUTS, 40, CLASSES)),
}
WORDS = {"linear": "linear outputs", "logistic": "logistic outputs", "shallow": "one hidden layer"}


class Sizes(NamedTuple):
    """How long everything runs.

    Attributes:
        num_trajectories: HMC trajectories of each replica, a third of them burn-in.
        num_leapfrog_steps: Steps of one.
        num_replicas: Temperatures.
        min_temperature: The lowest.
        max_temperature: The highest.
        num_test: Test images that count.
        num_descent_steps: Of each descent.
        walls: "reflect" a trajectory at the box, or "reject" one that leaves it.
    """

    num_trajectories: int = 60
    num_leapfrog_steps: int = 200
    num_replicas: int = 16
    min_temperature: float = 0.01
    max_temperature: float = 20.0
    num_test: int = 2_000
    num_descent_steps: int = 500
    walls: str = "reflect"


QUICK = Sizes(60, 5, 4, 0.1, 1.0, 100, 100)


class Digits(NamedTuple):
    """Images `(n, 256)`, standardized, and labels `(n,)`."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Point(NamedTuple):
    """One temperature of one curve; losses are means over images in nats, errors are standard
    errors.
    """

    images: int
    outputs: str
    start: str
    temperature: float
    train_loss: float
    train_loss_error: float
    test_loss: float
    test_loss_error: float
    train_accuracy: float
    test_accuracy: float
    step_size: float
    acceptance: float
    swap_rate: float
    effective_draws_train: float
    effective_draws: float
    width: float


class Curve(NamedTuple):
    """All temperatures of one training set and network, and the descents beside them.

    Attributes:
        set_name: "500" or "50".
        net: A key of NETS.
        points: From the lowest temperature upwards, one list a start.
        round_trips: Of all replicas, from the lowest temperature to the highest and back.
        rungs: How many rungs these energies ask for so that neighbors exchange with probability
            0.3.
        baseline: Mean test loss of the descents, its standard error, mean training loss, mean test
            accuracy.
        seconds: What sampling took.
    """

    set_name: str
    net: str
    points: list[list[Point]]
    round_trips: int
    rungs: int
    baseline: tuple[float, float, float, float]
    seconds: float


def shrunk(images: np.ndarray) -> np.ndarray:
    """Images `(n, 28, 28)` as `(n, 256)`: 16 x 16 by a bilinear filter, then (v/255 -
    0.1307)/0.3081.

    The filter is a triangle as wide as the ratio of the sizes, as image libraries use it to shrink.
    """
    ratio = images.shape[1] / PIXELS
    centres = (np.arange(PIXELS)[:, None] + 0.5) * ratio
    distances = np.abs(np.arange(images.shape[1]) + 0.5 - centres) / ratio
    weights = np.maximum(0.0, 1.0 - distances)
    weights /= weights.sum(axis=1, keepdims=True)
    small = np.einsum("ai,nij,bj->nab", weights, images.astype(np.float64), weights, optimize=True)
    return ((small / 255 - 0.1307) / 0.3081).reshape(len(images), -1)


def read(folder: Path, num_test: int, seed: int, many: bool = False) -> dict[str, Digits]:
    """The two training sets, and 5,000 images where `many` are wanted, with `num_test` images drawn
    from all others.
    """
    needed = ("mnist.npz", INDICES, MANY) if many else ("mnist.npz", INDICES)
    for name in needed:
        if not (folder / name).is_file():
            expected = f"a folder that holds {', '.join(needed)}"
            raise tati_re.InputError(f"--data: there is no {name}.", folder, expected)
    with np.load(folder / "mnist.npz") as file:
        images = np.concatenate([file["x_train"], file["x_test"]])
        labels = np.concatenate([file["y_train"], file["y_test"]]).astype(np.int64)
        num_train = len(file["y_train"])
    listed = np.loadtxt(folder / INDICES, dtype=np.int64)
    if listed.ndim != 1 or not len(listed) or listed.min() < 0 or listed.max() >= num_train:
        raise tati_re.InputError(
            f"--data: {INDICES} does not fit mnist.npz.", folder, "numbers of training images"
        )
    if not 1 <= num_test <= len(images) - len(listed):
        raise tati_re.InputError(
            "--num-test is out of range.", num_test, f"1 to {len(images) - len(listed):,}"
        )
    random = np.random.default_rng(seed)
    classes = [np.flatnonzero(labels[:num_train] == digit) for digit in range(10)]
    few = np.concatenate([random.choice(members, PER_CLASS, replace=False) for members in classes])
    print(f"50 images: {PER_CLASS} of each class, seed {seed}: {' '.join(map(str, few))}")
    sets = {}
    chosen = [("500", listed), ("50", few)]
    if many:
        chosen.append(("5000", np.loadtxt(folder / MANY, dtype=np.int64)))
    for name, train in chosen:
        others = np.setdiff1d(np.arange(len(images)), train)
        test = random.choice(others, num_test, replace=False)
        sets[name] = Digits(
            shrunk(images[train]), labels[train], shrunk(images[test]), labels[test]
        )
    return sets


def generated(num_test: int, seed: int) -> dict[str, Digits]:
    """Ten patterns with noise, 5 training images each."""
    random = np.random.default_rng(seed)
    patterns = random.standard_normal((CLASSES, INPUTS))
    labels = np.arange(50 + num_test) % CLASSES
    images = patterns[labels] + random.standard_normal((len(labels), INPUTS))
    return {"50": Digits(images[:50], labels[:50], images[50:], labels[50:])}


def fan_in_plus_one(net: Net) -> np.ndarray:
    """k of each parameter, in the order of the vector: weights of a layer, then its biases."""
    return np.concatenate([np.full((a + 1) * b, a + 1.0) for a, b in pairwise(net.nodes)])


def network(net: Net):
    """A function that builds the network.

    The article's logistic outputs are the logits of a softmax. A sigmoid at the end is taken for
    probabilities, so 1/2 is subtracted from it; a softmax does not change by that.
    """

    def build(input_shape):
        import keras

        layers = [keras.layers.Dense(units, "sigmoid") for units in net.nodes[1:-1]]
        layers.append(keras.layers.Dense(net.nodes[-1], net.output_activation))
        if net.output_activation == "sigmoid":
            layers.append(keras.layers.Rescaling(1.0, offset=-0.5))
        return keras.Sequential([keras.Input(input_shape), *layers])

    return build


def simulation(digits: Digits, net: Net, num_walkers: int, seed: int) -> tati_re.Simulation:
    """The network and its training set."""
    return tati_re.Simulation(
        network(net),
        ((digits.train, digits.train_labels), (digits.test, digits.test_labels)),
        loss="sparse_categorical_crossentropy",
        from_logits=True,
        standardize="none",
        prior="box",
        prior_bound=net.prior_bound,
        prior_scaling="fan_in",
        dtype="float32",
        num_walkers=num_walkers,
        execution="graph",
        seed=seed,
        verbose=0,
    )


def test_observables(digits: Digits, net: Net) -> dict:
    """Columns `test_loss`, `test_accuracy` and `width` of run.csv: functions of the parameters of
    all replicas.

    The width is the root mean square of the parameters over that of the prior, 1 where the box is
    filled evenly.
    """
    import tensorflow as tf

    half_width = net.prior_bound / np.sqrt(fan_in_plus_one(net))

    def outputs(position):
        values, start = tf.constant(digits.test, position.dtype)[None], 0
        for layer, (a, b) in enumerate(pairwise(net.nodes)):
            weights = tf.reshape(position[:, start : start + a * b], (-1, a, b))
            values = (
                tf.matmul(values, weights) + position[:, None, start + a * b : start + (a + 1) * b]
            )
            start += (a + 1) * b
            last = layer == len(net.nodes) - 2
            values = values if last and net.output_activation == "linear" else tf.sigmoid(values)
        return values

    def loss(position):
        logits = tf.cast(outputs(tf.convert_to_tensor(position)), tf.float64)
        right = tf.gather(
            logits,
            tf.tile(tf.constant(digits.test_labels)[None], (logits.shape[0], 1)),
            batch_dims=2,
        )
        return tf.reduce_mean(tf.reduce_logsumexp(logits, axis=-1) - right, axis=-1)

    def accuracy(position):
        found = tf.argmax(outputs(tf.convert_to_tensor(position)), axis=-1)
        return tf.reduce_mean(
            tf.cast(tf.equal(found, tf.constant(digits.test_labels)[None]), tf.float64), axis=-1
        )

    def width(position):
        scaled = tf.cast(position, tf.float64) / tf.constant(half_width)
        return tf.sqrt(3.0 * tf.reduce_mean(scaled**2, axis=-1))

    return {"test_loss": loss, "test_accuracy": accuracy, "width": width}


def descents(
    digits: Digits, net: Net, sizes: Sizes, seed: int
) -> tuple[np.ndarray, tuple[float, float, float, float]]:
    """Where descents from both starts end, `(replicas, 2, parameters)`, and what those from small
    weights reach.
    """
    import tensorflow as tf

    k = fan_in_plus_one(net)
    random = np.random.default_rng(seed)
    small, wide = (random.uniform(-1, 1, (sizes.num_replicas, len(k))) for _ in STARTS)
    hidden = np.arange(len(k)) < len(k) - (net.nodes[-2] + 1) * net.nodes[-1]
    wide[:, hidden] *= WIDE * net.prior_bound
    sim = simulation(digits, net, 2 * sizes.num_replicas, seed)
    sim.parameters = np.concatenate([small, wide]) / np.sqrt(k)
    sim.fit(
        optimizer="fire",
        learning_rate=0.1,
        num_steps=sizes.num_descent_steps,
        record_every=sizes.num_descent_steps,
        trajectory_every=0,
    )
    bound = net.prior_bound / np.sqrt(k)
    ends = np.clip(sim.parameters, -bound, bound).reshape(2, sizes.num_replicas, -1)
    found = {
        name: function(tf.constant(ends[0])).numpy()
        for name, function in test_observables(digits, net).items()
    }
    losses = found["test_loss"]
    error = losses.std(ddof=1) / math.sqrt(len(losses))
    train = np.asarray(sim.loss())[: sizes.num_replicas]
    return ends.transpose(1, 0, 2), (
        losses.mean(),
        error,
        float(train.mean()),
        found["test_accuracy"].mean(),
    )


def sampled(
    set_name: str, net_name: str, digits: Digits, sizes: Sizes, seed: int, output: Path
) -> Curve:
    """One curve: descents, then replica exchange from where they end."""
    net = NETS[net_name]
    ends, baseline = descents(digits, net, sizes, seed)
    sim = simulation(digits, net, 2, seed)
    num_burnin_steps = sizes.num_trajectories // 3
    temperatures = np.geomspace(sizes.min_temperature, sizes.max_temperature, sizes.num_replicas)
    run = sim.sample(
        sampler="HMC",
        num_leapfrog_steps=sizes.num_leapfrog_steps,
        leapfrog_jitter=0.0,
        walls=sizes.walls,
        mass="fan_in",
        # Of the law of U/T, below T = 1: with momenta of variance 1 the step hardly depends on T.
        step_sizes=list(net.step_size * np.minimum(temperatures, 1.0) ** -0.4),
        target_acceptance=0.65,
        step_size_tuning="baldock",
        temperatures=list(temperatures),
        exchange_every=1,
        starts=ends,
        num_steps=sizes.num_trajectories,
        num_burnin_steps=num_burnin_steps,
        record_every=1,
        trajectory_every=0,
        observables=test_observables(digits, net),
        output=str(output / f"run-{set_name}-{net_name}"),
        overwrite=True,
    )
    seconds = float(run.timing["seconds"].iloc[-1])
    traces = traces_of(run, len(digits.train))
    draw_traces(traces, temperatures, num_burnin_steps, output / f"trace-{set_name}-{net_name}.png")
    points = points_of(run, len(digits.train), net_name, num_burnin_steps)
    rungs = rungs_wanted(run, len(digits.train), num_burnin_steps)
    return Curve(
        set_name,
        net_name,
        points,
        int(run.ladder["round_trips"].iloc[-1]),
        rungs,
        baseline,
        seconds,
    )


def traces_of(run, images: int) -> np.ndarray:
    """U after each trajectory, `(starts, rungs, trajectories)`."""
    rows = run.run_info.assign(start=run.run_info["walker"] % len(STARTS)).sort_values(
        ["start", "rung", "step"]
    )
    return images * rows["loss"].to_numpy().reshape(len(STARTS), rows["rung"].nunique(), -1)


def draw_traces(
    traces: np.ndarray, temperatures: np.ndarray, num_burnin_steps: int, path: Path
) -> None:
    """Draws U of all rungs over the trajectories, a panel a start, from cold (dark) to hot."""
    from matplotlib import colormaps

    from tati_re.plotting import GRAY, new_figure, plain, save

    figure = new_figure(9.0, 3.6)
    shades = colormaps["viridis"](np.linspace(0, 0.92, len(temperatures)))
    for axes, start, trace in zip(
        figure.subplots(1, len(STARTS), sharey=True), STARTS, traces, strict=True
    ):
        for place, (temperature, values) in enumerate(zip(temperatures, trace, strict=True)):
            label = (
                f"T = {temperature:.3g}"
                if place in (0, len(temperatures) // 2, len(temperatures) - 1)
                else None
            )
            axes.plot(
                np.arange(1, len(values) + 1),
                values,
                color=shades[place],
                linewidth=0.9,
                label=label,
            )
        axes.axvline(num_burnin_steps, color=GRAY, linestyle=":", linewidth=1)
        axes.set_yscale("log")
        axes.set_title(f"from {start}", fontsize=9, loc="left")
        axes.set_xlabel("trajectory (dotted: end of the burn-in)")
        plain(axes)
    figure.axes[0].set_ylabel("U in nats")
    handles = figure.axes[0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=3, frameon=False, fontsize=8)
    save(figure, path)


def points_of(run, images: int, outputs: str, num_burnin_steps: int) -> list[list[Point]]:
    """Means and errors of every rung after the burn-in, one list a start."""
    from tati_re.analysis import effective_sample_size, monte_carlo_error

    rows = run.run_info[run.run_info["step"] > num_burnin_steps]
    points: list[list[Point]] = [[] for _ in STARTS]
    for place, rung in run.ladder.iterrows():
        for number, start in enumerate(STARTS):
            here = rows[
                (rows["rung"] == place) & (rows["walker"] % len(STARTS) == number)
            ].sort_values("step")
            train, test = here["loss"].to_numpy(), here["test_loss"].to_numpy()
            points[number].append(
                Point(
                    images,
                    outputs,
                    start,
                    float(rung["temperature"]),
                    train.mean(),
                    monte_carlo_error(train),
                    test.mean(),
                    monte_carlo_error(test),
                    here["accuracy"].mean(),
                    here["test_accuracy"].mean(),
                    here["step_size"].iloc[-1],
                    here["acceptance"].mean(),
                    rung["acceptance"],
                    *(
                        effective_sample_size(values, "mean") if np.ptp(values) > 0 else 0.0
                        for values in (train, test)
                    ),
                    here["width"].mean(),
                )
            )
    return points


def rungs_wanted(run, images: int, num_burnin_steps: int) -> int:
    """Rungs between the same ends whose neighbors would exchange with probability 0.3, from the
    spread of U.
    """
    from tati_re.exchange import spaced_evenly

    rows = run.run_info[run.run_info["step"] > num_burnin_steps]
    groups = rows.groupby(["rung", rows["walker"] % len(STARTS)])["loss"]
    spread = images * np.sqrt(
        np.maximum(groups.var(ddof=1).groupby(level=0).mean().to_numpy(), 1e-12)
    )
    return len(spaced_evenly(1 / run.ladder["temperature"].to_numpy(), spread, 0.3))


def agreement(curve: Curve, quantity: str) -> list[float]:
    """Difference of the two starts at each temperature in standard errors of the difference."""
    return [
        (getattr(a, quantity) - getattr(b, quantity))
        / math.hypot(getattr(a, quantity + "_error"), getattr(b, quantity + "_error"))
        for a, b in zip(*curve.points, strict=True)
    ]


def in_words(value: float, error: float) -> str:
    """A mean and its error, which a walker that never moved does not have."""
    return f"{value:.4f}, stuck" if math.isnan(error) else f"{value:.4f} ± {error:.4f}"


def report(curve: Curve) -> None:
    """Prints a curve."""
    loss, error, train, accuracy = curve.baseline
    print(
        f"\n{curve.points[0][0].images} images, {WORDS[curve.net]}: sampled in {curve.seconds:.0f} s, "
        f"{curve.round_trips} round trips; for swap rates of 0.3 these energies ask for {curve.rungs} rungs\n"
        f"descents: training loss {train:.4f}, test loss {loss:.4f} ± {error:.4f}, accuracy {accuracy:.3f}"
    )
    for points in curve.points:
        print(
            f"from {points[0].start}\nT         training loss       test loss           accuracy  step size  "
            "acceptance  swaps up  effective draws (training, test)  width"
        )
        for point in points:
            swaps = "-" if math.isnan(point.swap_rate) else f"{point.swap_rate:.3f}"
            cells = (
                in_words(point.train_loss, point.train_loss_error),
                in_words(point.test_loss, point.test_loss_error),
            )
            print(
                f"{point.temperature:<10.4g}{cells[0]:20}{cells[1]:20}{point.test_accuracy:<10.3f}"
                f"{point.step_size:<11.4g}{point.acceptance:<12.3f}{swaps:10}"
                f"{point.effective_draws_train:<6.0f}{point.effective_draws:<28.0f}{point.width:.3f}"
            )
        least = min(points, key=lambda point: point.test_loss)
        where = "the lowest temperature" if least is points[0] else f"T = {least.temperature:.3g}"
        lowest = in_words(least.test_loss, least.test_loss_error)
        above = sum(point.test_loss > UNINFORMED for point in points)
        print(
            f"least test loss {lowest} at {where}; above ln 10 at {above} of {len(points)} "
            "temperatures"
        )
    for quantity, words in (("train_loss", "training"), ("test_loss", "test")):
        apart = agreement(curve, quantity)
        same = sum(abs(z) < AGREE for z in apart)
        print(
            f"{words} loss of the two starts within {AGREE:g} errors at {same} of {len(apart)} temperatures"
        )
    print(f"published: {PUBLISHED.get((curve.set_name, curve.net), 'no curve')}", flush=True)


def write(curves: Sequence[Curve], output: Path) -> None:
    """Writes results.csv."""
    points = [point for curve in curves for start in curve.points for point in start]
    lines = [
        ",".join("" if v != v else f"{v:.6g}" if isinstance(v, float) else str(v) for v in p)
        for p in points
    ]
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "results.csv").write_text("\n".join([",".join(Point._fields), *lines, ""]))
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None


def draw(curves: Sequence[Curve], path: Path) -> None:
    """Draws training and test loss against the temperature, a panel a curve, beside the
    descents.
    """
    from tati_re.plotting import COLORS, DARK, GRAY, new_figure, plain, save

    sets = list(dict.fromkeys(curve.set_name for curve in curves))
    figure = new_figure(8.6, 3.0 * len(sets) + 0.4)
    nets = [net for net in NETS if net in {curve.net for curve in curves}]
    panels = figure.subplots(len(sets), len(nets), squeeze=False)
    for axes in panels.flat:
        axes.set_visible(False)
    for curve in curves:
        axes = panels[sets.index(curve.set_name), nets.index(curve.net)]
        axes.set_visible(True)
        for points, line, marker in zip(curve.points, ("-", "--"), ("o", "s"), strict=True):
            temperatures = [point.temperature for point in points]
            for quantity, color, words in (
                ("train", COLORS[0], "training"),
                ("test", COLORS[1], "test"),
            ):
                values, errors = (
                    [getattr(point, f"{quantity}_loss{end}") for point in points]
                    for end in ("", "_error")
                )
                style = {"fmt": marker + line, "markersize": 3, "linewidth": 1, "capsize": 2}
                filled = color if line == "-" else "white"
                label = f"{words}, from {points[0].start}"
                axes.errorbar(
                    temperatures,
                    values,
                    errors,
                    color=color,
                    markerfacecolor=filled,
                    label=label,
                    **style,
                )
        axes.axhline(
            curve.baseline[0], color=COLORS[2], linestyle="-", linewidth=1, label="descents, test"
        )
        axes.axhline(UNINFORMED, color=GRAY, linestyle=":", linewidth=1, label="ln 10")
        if curve.net == "logistic":
            axes.axhline(
                LOGISTIC_FLOOR, color=DARK, linestyle="-.", linewidth=1, label="ln(1 + 9/e)"
            )
        axes.set_xscale("log")
        axes.set_title(
            f"{curve.points[0][0].images} images, {WORDS[curve.net]}", fontsize=10, loc="left"
        )
        axes.set_ylabel("mean cross-entropy")
        axes.set_xlabel("temperature")
        plain(axes)
    entries = {}
    for axes in panels.flat:
        entries |= {
            label: handle for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
        }
    figure.legend(
        entries.values(),
        entries.keys(),
        loc="outside upper center",
        ncols=4,
        frameon=False,
        fontsize=8,
    )
    save(figure, path)


def draw_images(digits: Digits, path: Path) -> None:
    """Draws the first two training images of each class, as the networks see them; Figure 1 of the
    paper.
    """
    from tati_re.plotting import new_figure, save

    figure = new_figure(7.2, 1.7)
    for label, column in enumerate(figure.subplots(2, CLASSES).T):
        images = digits.train[digits.train_labels == label][:2].reshape(-1, PIXELS, PIXELS)
        for axes, image in zip(column, images, strict=True):
            axes.imshow(image, cmap="gray_r", interpolation="nearest")
            axes.set(xticks=[], yticks=[])
        column[0].set_title(str(label), fontsize=9)
    save(figure, path)


def experiment(
    data: Path | None,
    sets: Sequence[str],
    nets: Sequence[str],
    sizes: Sizes,
    seed: int,
    output: Path,
):
    """Samples every set with every network; without a folder, generated images.

    Args:
        data: The folder.
        sets: "500", "50", "5000".
        nets: Keys of NETS.
        sizes: Of the runs.
        seed: Of the 50 images, the test images, the starts and the dynamics.
        output: Folder of the files.

    Raises:
        InputError: A file that is not there, a size that is too small, or a folder that cannot be
            written.
    """
    if sizes.num_trajectories < SMALLEST_NUM_TRAJECTORIES:
        least = f"at least {SMALLEST_NUM_TRAJECTORIES}"
        raise tati_re.InputError("--num-trajectories is too small.", sizes.num_trajectories, least)
    if sizes.num_replicas < 2:
        raise tati_re.InputError("--num-replicas is too small.", sizes.num_replicas, "at least 2")
    if not 0 < sizes.min_temperature < sizes.max_temperature:
        limits = f"{sizes.min_temperature:g} and {sizes.max_temperature:g}"
        raise tati_re.InputError(
            "--min-temperature and --max-temperature do not fit.",
            limits,
            "0 < the first < the second",
        )
    digits = (
        generated(sizes.num_test, seed)
        if data is None
        else read(data, sizes.num_test, seed, "5000" in sets)
    )
    print(
        f"U: sum of the cross-entropies in nats (T = 1 is the posterior); {sizes.num_replicas} temperatures "
        f"{sizes.min_temperature:g} to {sizes.max_temperature:g}, {sizes.num_trajectories} trajectories of "
        f"{sizes.num_leapfrog_steps} steps, a third of them burn-in; {sizes.num_test} test images; "
        f"ln 10 = {UNINFORMED:.4f}, ln(1 + 9/e) = {LOGISTIC_FLOOR:.4f}",
        flush=True,
    )
    curves: list[Curve] = []
    for set_name in (name for name in sets if name in digits):
        for net_name in nets:
            curves.append(sampled(set_name, net_name, digits[set_name], sizes, seed, output))
            report(curves[-1])
            write(curves, output)
    draw(curves, output / "figure.png")
    draw_images(next(digits[name] for name in sets if name in digits), output / "images.png")
    print(f"\n{output / 'results.csv'}, {output / 'figure.png'}, {output / 'images.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Test loss against temperature by replica-exchange HMC."
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help=f"folder that holds mnist.npz and {INDICES}"
    )
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=("500", "50", "5000"),
        default=("500", "50"),
        help="default: 500 50",
    )
    parser.add_argument(
        "--nets",
        nargs="+",
        choices=tuple(NETS),
        default=("linear", "logistic"),
        help="default: linear logistic",
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="default 0")
    for name, default in Sizes._field_defaults.items():
        kind: dict = (
            {"choices": ("reflect", "reject")}
            if name == "walls"
            else {"type": type(default), "metavar": "N"}
        )
        shown = default if isinstance(default, str) else f"{default:,}"
        parser.add_argument(
            "--" + name.replace("_", "-"), default=None, help=f"default {shown}", **kind
        )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="generated images, a few short trajectories, in seconds",
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/replica_exchange_hmc"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    given = {
        name: getattr(arguments, name)
        for name in Sizes._fields
        if getattr(arguments, name) is not None
    }
    sizes = (QUICK if arguments.quick else Sizes())._replace(**given)
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, f"a folder with mnist.npz and {INDICES}, or --quick"
            )
        data = None if arguments.quick else arguments.data
        experiment(data, arguments.sets, arguments.nets, sizes, arguments.seed, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
