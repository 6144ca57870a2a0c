"""Replica exchange with noisy energies: three mixtures, corrected and naive swaps, and energies
with less noise.

Two SGLD chains at temperatures 1 and 10 sample 0.4 N(a, 0.7²) + 0.6 N(b, 0.5²) in one dimension; at
every step they try to swap, by energies with the noise N(0, 2²), t(5) or 7 t(10). Figure 2 of the
paper shows histograms of the cold chain. Here many pairs of chains start from the laws of the two
temperatures and are averaged over; beside mass and swap rate stand those of the stationary law of
the two chains, found on a grid from their transition kernel, and the published swap rates.

The last panels show what a control variate does to swaps on mini-batches: the mean of a mixture of
two Gaussians whose likelihood has two equal modes, after a simulation of Deng et al. (2021).

    python examples/resgld_mixtures.py [--num-pairs 1000] [--num-steps 3000] [--output
    results/resgld]

Writes mixtures.csv, control_variate.csv and resgld.png to the output folder, in about two minutes
on two idle cores. Sources: W. Deng, Q. Feng, L. Gao, F. Liang, G. Lin, Non-convex learning via
replica exchange stochastic gradient MCMC, ICML 2020, section 5.1; W. Deng, Q. Feng, G. Karagiannis,
G. Lin, F. Liang, Accelerating convergence of replica exchange stochastic gradient MCMC via variance
reduction, ICLR 2021, section 4.1.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re
from tati_re import FunctionPotential
from tati_re.engine import Loop, Observables
from tati_re.exchange import (
    Corrected,
    Correction,
    Metropolis,
    Naive,
    ReplicaExchange,
    explicit,
    make_swap_schedule,
)
from tati_re.posterior import FunctionEvaluate
from tati_re.samplers import SGLD, Rung

TEMPERATURES = (1.0, 10.0)
STEP_SIZE = 0.03
GRADIENT_STD = 0.1
VARIANCE_SAMPLES = 10
VARIANCE_EVERY = 5
"""Steps from one estimate of the variance to the next. In the paper it is 100, in chains of 1e5
steps.
"""
POSITIONS_EVERY = 10
WEIGHTS, SPREADS = (0.4, 0.6), (0.7, 0.5)


class Mixture(NamedTuple):
    """One of the published problems.

    Attributes:
        name: Its number.
        centres: Means of the two Gaussians.
        scale: What a noise number is multiplied with.
        freedom: Degrees of freedom of Student's law, 0 for a normal one.
        noise: The law of the noise, in words.
    """

    name: str
    centres: tuple[float, float]
    scale: float
    freedom: int
    noise: str

    @property
    def middle(self) -> float:
        """Where one mode ends and the other begins."""
        return sum(self.centres) / 2


MIXTURES = {
    "1": Mixture("1", (-3.0, 2.0), 2.0, 0, "N(0, 2²)"),
    "2": Mixture("2", (-4.0, 3.0), 1.0, 5, "t(5)"),
    "3": Mixture("3", (-6.0, 4.0), 7.0, 10, "7 t(10)"),
}

EXACT = {
    ("1", "noise-free"): (0.5893, 38.79),
    ("1", "F = 1"): (0.5892, 11.20),
    ("1", "naive"): (0.5139, 41.99),
    ("2", "noise-free"): (0.5874, 36.42),
    ("2", "F = 1"): (0.5952, 19.58),
    ("2", "naive"): (0.5361, 37.92),
    ("3", "noise-free"): (0.5821, 35.46),
    ("3", "F = 2"): (0.4927, 0.7001),
    ("3", "F = 4"): (0.4768, 8.7725),
    ("3", "naive"): (0.4466, 46.03),
}
"""Mass of the right mode and swap rate in % at step size 0.03: the stationary law of the kernel of
the two chains on a grid with spacing 0.1, for the true variance.
"""

PUBLISHED = {
    ("3", rule): float(published("resgld_mixtures")[rule]) for rule in ("F = 2", "F = 4", "naive")
}
"""Swap rates in %."""

RULES = {
    "1": ("SGLD", "naive", "F = 1"),
    "2": ("SGLD", "naive", "F = 1"),
    "3": ("SGLD", "naive", "F = 4", "F = 2", "noise-free"),
}


def density(mixture: Mixture, x: np.ndarray) -> np.ndarray:
    """The mixture's density."""
    return sum(
        weight / (spread * math.sqrt(2 * math.pi)) * np.exp(-0.5 * ((x - centre) / spread) ** 2)
        for weight, spread, centre in zip(WEIGHTS, SPREADS, mixture.centres, strict=True)
    )


class MixturePotential(FunctionPotential):
    """U = -ln of a mixture, with noise on gradients and on the energies of swaps.

    An energy is U plus one noise number. The examples that stand behind it deviate from it such
    that their variance over their number is that of as many other noise numbers, drawn each
    `variance_every` steps; between these they are equal.
    """

    def __init__(
        self, mixture: Mixture, variance_every: int = VARIANCE_EVERY, noisy: bool = True
    ) -> None:
        super().__init__(lambda position: _potential(mixture, position), 1)
        self.mixture, self.variance_every, self.noisy = mixture, variance_every, noisy

    def bind(self, rung, batch=None, auxiliary=(), clock=None):
        return MixtureEvaluate(self, rung, clock)

    def draw(self, shape, step, stream: int):
        """Noise of energies, a function of step and stream."""
        mixture = self.mixture
        seed = [
            tf.stack([tf.cast(step, tf.int64), tf.constant(4 * stream + k, tf.int64)])
            for k in range(3)
        ]
        normal = tf.random.stateless_normal(shape, seed[0], dtype=tf.float64, alg="philox")
        if not mixture.freedom:
            return mixture.scale * normal
        # χ² of an even number of degrees is a sum of exponential numbers.
        half = (mixture.freedom // 2, *shape)
        uniform = tf.random.stateless_uniform(half, seed[1], dtype=tf.float64, alg="philox")
        squares = -2.0 * tf.math.log(tf.reduce_prod(1.0 - uniform, 0))
        if mixture.freedom % 2:
            squares += tf.square(
                tf.random.stateless_normal(shape, seed[2], dtype=tf.float64, alg="philox")
            )
        return mixture.scale * normal * tf.sqrt(mixture.freedom / squares)


class MixtureEvaluate(FunctionEvaluate):
    """A `MixturePotential` bound to a step."""

    num_examples = 10**9

    @property
    def exact(self) -> bool:
        return not self.potential.noisy

    def __call__(self, position):
        energy = super().__call__(position)
        seed = tf.stack([tf.cast(self.clock.step, tf.int64), tf.constant(-1, tf.int64)])
        noise = tf.random.stateless_normal(position.shape, seed, dtype=position.dtype, alg="philox")
        return energy._replace(gradient=energy.gradient + GRADIENT_STD * noise)

    def examples(self, position, indices):
        potential, step, count = self.potential, self.clock.step, indices.shape[-1]
        energy = self.mean_loss(position)[:, None] + potential.draw((position.shape[0], 1), step, 0)

        def deviations():
            others = potential.draw((position.shape[0], count), step, 1)
            return math.sqrt(count) * (others - tf.reduce_mean(others, -1, keepdims=True))

        due = tf.equal((step - 1) % potential.variance_every, 0)
        return energy + tf.cond(
            due, deviations, lambda: tf.zeros((position.shape[0], count), tf.float64)
        )


def _potential(mixture: Mixture, position):
    x = position[:, 0]
    parts = [
        math.log(weight / (spread * math.sqrt(2 * math.pi)))
        - 0.5 * tf.square((x - centre) / spread)
        for weight, spread, centre in zip(WEIGHTS, SPREADS, mixture.centres, strict=True)
    ]
    return -(tf.maximum(*parts) + tf.math.log1p(tf.exp(-tf.abs(parts[0] - parts[1]))))


class Sampled(NamedTuple):
    """What a run of many pairs of chains gave.

    Attributes:
        right: Mass of the right mode of the cold chain, by pair, `(pairs,)`.
        swap_rate: Of all attempts.
        swap_error: Its standard error; nan where swaps are not counted by pair.
        positions: Of the cold chains, `(positions, pairs)`.
        variance: Of one energy, as the rule knows it at the end, `(pairs,)`; nan where it knows
            none.
    """

    right: np.ndarray
    swap_rate: float
    swap_error: float
    positions: np.ndarray
    variance: np.ndarray

    @property
    def mass(self) -> tuple[float, float]:
        """Mean mass, and its standard error over the pairs."""
        return float(self.right.mean()), float(self.right.std(ddof=1) / math.sqrt(len(self.right)))


def starts(mixture: Mixture, num_pairs: int, seed: int) -> np.ndarray:
    """Draws from both temperatures, `(2 pairs, 1)`: the chains begin near their stationary law."""
    random, x = (
        np.random.default_rng(seed),
        np.linspace(mixture.centres[0] - 15, mixture.centres[1] + 15, 60_001),
    )
    found = []
    for temperature in TEMPERATURES:
        sums = np.cumsum(density(mixture, x) ** (1 / temperature))
        found.append(np.interp(random.random(num_pairs), sums / sums[-1], x))
    return np.concatenate(found)[:, None]


def sample(
    mixture: Mixture,
    rule: str,
    num_pairs: int,
    num_steps: int,
    num_burnin_steps: int = 500,
    step_size: float = STEP_SIZE,
    variance_every: int = VARIANCE_EVERY,
    seed: int = 1,
    start: np.ndarray | None = None,
) -> Sampled:
    """Runs pairs of chains.

    Args:
        mixture: What is sampled.
        rule: "SGLD" (no swaps), "naive", "noise-free" or "F = ..." of the corrected swap.
        num_pairs: Independent pairs of chains.
        num_steps: Steps averaged over.
        num_burnin_steps: Steps before.
        step_size: Of both chains.
        variance_every: Steps from one estimate of the variance, of 10 energies, to the next.
        seed: Of all random numbers but those of the noise, which is one sequence for all seeds.
        start: `(2 pairs, 1)`. Default: `starts`.
    """
    swap_rule = {"SGLD": None, "naive": Naive(), "noise-free": Metropolis()}.get(rule)
    if rule.startswith("F = "):
        swap_rule = Corrected(float(rule[4:]), correction=Correction(every=variance_every))
    schedule = None if swap_rule is None else make_swap_schedule("all_pairs", 2)
    ladder = explicit(TEMPERATURES, step_size=step_size)
    method = ReplicaExchange(SGLD(), ladder, swap_rule, schedule, 1, num_pairs, VARIANCE_SAMPLES)
    # A row for every attempt of every pair would be gigabytes.
    method.ladder.event_columns = ()
    method.ladder.event_every = 0
    potential = MixturePotential(mixture, variance_every, rule != "noise-free")
    values = (1 / TEMPERATURES[0], 1.0, step_size)
    rung = Rung(*(tf.fill([2 * num_pairs], tf.constant(value, tf.float64)) for value in values))
    total = num_burnin_steps + num_steps
    loop = Loop(
        potential,
        method,
        Observables(method, None),
        rung,
        seed,
        "xla",
        total,
        POSITIONS_EVERY,
        num_burnin_steps,
        num_recorded=num_pairs,
    )
    carry = loop.start(starts(mixture, num_pairs, seed) if start is None else start, ())
    positions, step = [], 0
    while step < total:
        chunk = loop.run(carry, step + 1, min(loop.chunk_steps, total - step))
        carry = chunk.carry
        step += int(chunk.taken)
        positions.append(chunk.positions.numpy()[: int(chunk.num_positions), :, 0])
    cold = np.concatenate(positions)
    counts, remembered = carry.state.rungs.counts, carry.state.rungs.correction
    rate, error, variance = 0.0, float("nan"), np.full(num_pairs, np.nan)
    if swap_rule is not None:
        rate = float(counts.accepted[0] / counts.attempts[0])
    if remembered:
        error = float(np.std(remembered.swaps.numpy(), ddof=1) / total / math.sqrt(num_pairs))
        variance = remembered.variance.numpy()[:, 0] / (2 * VARIANCE_SAMPLES)
    return Sampled((cold > mixture.middle).mean(0), rate, error, cold, variance)


MEAN, CENTRE, SPREAD = -5.0, 20.0, 5.0
"""x ~ 0.5 N(μ, 5²) + 0.5 N(20 - μ, 5²): μ and 20 - μ have one likelihood, and with a flat prior
each mode mass 0.5.
"""
NUM_EXAMPLES, BATCH_SIZE = 1_000, 100
MEAN_TEMPERATURES = [25.0, 1000.0]


def mean_model():
    """A Keras model whose output is -ln p(x; μ) of an example; its mean absolute error about 0 is
    the loss.
    """
    import keras

    class NegativeLogDensity(keras.layers.Layer):
        def build(self, shape):
            self.mean = self.add_weight(
                shape=(), initializer=keras.initializers.Constant(MEAN), name="mean"
            )

        def call(self, x):
            parts = [
                -0.5 * keras.ops.square((x - mean) / SPREAD)
                for mean in (self.mean, CENTRE - self.mean)
            ]
            return math.log(2 * SPREAD * math.sqrt(2 * math.pi)) - keras.ops.logaddexp(*parts)

    return keras.Sequential([keras.Input((1,)), NegativeLogDensity()])


def mean_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Examples, and the zeros that their losses are compared with."""
    random = np.random.default_rng(seed)
    centres = np.where(random.random(NUM_EXAMPLES) < 0.5, MEAN, CENTRE - MEAN)
    x = centres + SPREAD * random.standard_normal(NUM_EXAMPLES)
    return x[:, None].astype(np.float32), np.zeros((NUM_EXAMPLES, 1), np.float32)


def sample_mean(
    control_variate: bool, num_pairs: int, num_steps: int, refresh: int, seed: int = 1, **options
):
    """A run of pairs of SGLD chains on the posterior of μ, swaps corrected with F = 1.

    Args:
        control_variate: Losses and gradients are corrected by those of a center at which all data
            were seen.
        num_pairs: Independent pairs of chains.
        num_steps: Of each.
        refresh: Steps from one center to the next.
        seed: Of all random numbers but those of the data.
        **options: More of them.
    """
    simulation = tati_re.Simulation(
        mean_model(),
        mean_data(),
        loss="mean_absolute_error",
        prior="none",
        num_walkers=num_pairs,
        seed=seed,
    )
    given = {
        "sampler": "SGLD",
        "step_size": 0.002,
        "num_steps": num_steps,
        "num_burnin_steps": num_steps // 10,
        "temperatures": MEAN_TEMPERATURES,
        "batch_size": BATCH_SIZE,
        "swap_rule": "corrected",
        "swap_schedule": "all_pairs",
        "exchange_every": 1,
        "record_every": num_steps,
        "trajectory_every": 20,
        "verbose": 0,
    }
    if control_variate:
        given |= {"control_variate": True, "control_variate_every": refresh}
    return simulation.sample(**(given | options))


class MeanRow(NamedTuple):
    """One run of the mean of a mixture.

    Attributes:
        refresh: Steps from one center of the control variate to the next; 0: none.
        variance: Mean V of the swaps.
        swap_rate: In %.
        right: Mass of the mode at 25, all chains having started in the other.
        right_error: Its standard error.
        changes: Of the mode of a cold chain, in 1,000 steps.
    """

    refresh: int
    variance: float
    swap_rate: float
    right: float
    right_error: float
    changes: float


def mean_row(run, refresh: int, num_pairs: int, every: int = 20) -> tuple[MeanRow, np.ndarray]:
    """What a run of `sample_mean` says, and the means μ of its cold chains, `(positions,
    pairs)`.
    """
    table, swaps = run.trajectory, run.exchanges
    means = (
        table[table.columns[table.columns.str.endswith("/mean")][0]]
        .to_numpy()
        .reshape(-1, num_pairs)
    )
    right = means > CENTRE / 2
    changes = (right[1:] != right[:-1]).mean() * 1_000 / every
    error = right.mean(0).std(ddof=1) / math.sqrt(num_pairs)
    rate = 100 * swaps["accepted"].mean()
    return MeanRow(refresh, swaps["variance"].mean(), rate, right.mean(), error, changes), means


def draw(mixtures: dict, means: dict, rows: list[MeanRow], path: Path) -> None:
    """Histograms of the cold chains, swap rates, and the mean of a mixture with and without control
    variate.
    """
    from tati_re.plotting import COLORS, DARK, GRAY, new_figure, plain, save

    figure = new_figure(10.5, 6.0)
    panels = figure.subplots(2, 3)
    colors = {
        "SGLD": GRAY,
        "naive": COLORS[1],
        "F = 1": COLORS[0],
        "F = 2": COLORS[0],
        "F = 4": COLORS[4],
    }
    colors["noise-free"] = COLORS[2]
    for axes, mixture in zip(panels[0], MIXTURES.values(), strict=True):
        edges = np.linspace(mixture.centres[0] - 3, mixture.centres[1] + 3, 61)
        x = np.linspace(edges[0], edges[-1], 600)
        axes.fill_between(x, density(mixture, x), color="#E4E4E4", linewidth=0, label="target")
        for rule in RULES[mixture.name]:
            found = mixtures[mixture.name, rule].positions
            heights = np.histogram(found, edges)[0] / found.size / np.diff(edges)
            style = "--" if rule in ("SGLD", "naive") else "-"
            axes.stairs(
                heights, edges, color=colors[rule], linestyle=style, linewidth=1.2, label=rule
            )
        axes.set_title(f"energy noise {mixture.noise}", fontsize=9, loc="left")
        axes.set_xlabel("position of the cold chain")
        axes.set_ylim(0, 0.65)
        axes.legend(frameon=False, fontsize=7.5, loc="upper center")
    panels[0, 0].set_ylabel("density")

    rates, history, last = panels[1]
    names = [key for key in mixtures if key[1] not in ("SGLD",)]
    for number, key in enumerate(names):
        rates.plot(100 * mixtures[key].swap_rate, number, "o", color=COLORS[0], markersize=5)
        if key in EXACT:
            rates.plot(EXACT[key][1], number, "|", color=DARK, markersize=13)
        if key in PUBLISHED:
            rates.plot(PUBLISHED[key], number, "x", color=COLORS[1], markersize=6)
    for marker, color, label in (
        ("o", COLORS[0], "here"),
        ("|", DARK, "kernel"),
        ("x", COLORS[1], "published"),
    ):
        rates.plot([], [], marker, color=color, label=label)
    rates.set_yticks(range(len(names)), [f"{name}: {rule}" for name, rule in names])
    rates.set_xscale("log")
    rates.set_xlabel("accepted swaps in %")
    rates.invert_yaxis()
    rates.legend(frameon=False, fontsize=7.5, loc="upper left")

    edges = np.linspace(-10, 30, 81)
    for number, (color, (label, values)) in enumerate(
        zip((COLORS[1], COLORS[0]), means.items(), strict=True)
    ):
        # One chain of each, the second above the first.
        history.plot(
            np.linspace(0.1, 1, len(values)), values[:, 0] + 50 * number, color=color, linewidth=0.7
        )
        history.annotate(label, (0.1, 50 * number + 30), fontsize=7.5, color=color)
        last.stairs(
            np.histogram(values, edges)[0] / values.size / np.diff(edges),
            edges,
            color=color,
            label=label,
        )
    history.set_yticks([-5, 25, 45, 75], ["-5", "25", "-5", "25"])
    history.set_ylim(-15, 90)
    history.set_xlabel("part of the run")
    history.set_ylabel("mean μ of a cold chain")
    last.set_xlabel("mean μ, started at -5")
    last.set_ylabel("density")
    rate = " → ".join(f"{row.swap_rate:.2g} %" for row in rows)
    last.set_title(f"swaps {rate}", fontsize=9, loc="left")
    for axes in panels.flat:
        plain(axes)
    save(figure, path)


def compare(
    num_pairs: int, num_steps: int, mean_pairs: int, mean_steps: int, refresh: int, output: Path
) -> None:
    """Prints what the runs give beside the exact and the published numbers; writes tables and
    figure.

    Raises:
        InputError: A size that is too small, or a folder that cannot be written.
    """
    for name, value, least in (("num-pairs", num_pairs, 10), ("num-steps", num_steps, 100)):
        if value < least:
            raise tati_re.InputError(f"--{name} is too small.", value, f"at least {least}")
    if mean_pairs < 4 or mean_steps < 400 or refresh < 1:
        raise tati_re.InputError(
            "--mean-pairs, --mean-steps or --refresh is too small.",
            f"{mean_pairs}, {mean_steps}, {refresh}",
            "at least 4, 400 and 1",
        )
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None
    print(
        "mixture  swaps        mass of the right mode  (kernel)   swaps in %       (kernel) published"
    )
    mixtures, lines = {}, []
    for name, rules in RULES.items():
        for rule in rules:
            start = (
                np.full((2 * num_pairs, 1), MIXTURES[name].centres[0]) if rule == "SGLD" else None
            )
            found = mixtures[name, rule] = sample(
                MIXTURES[name], rule, num_pairs, num_steps, start=start
            )
            exact, (mass, error) = EXACT.get((name, rule), (math.nan, math.nan)), found.mass
            paper = PUBLISHED.get((name, rule), math.nan)
            numbers = (
                mass,
                error,
                exact[0],
                100 * found.swap_rate,
                100 * found.swap_error,
                exact[1],
                paper,
            )
            lines.append(
                f"{name},{rule}," + ",".join("" if math.isnan(n) else f"{n:.6g}" for n in numbers)
            )
            print(
                f"{name:9}{rule:13}{mass:.4f} +- {error:.4f}        ({exact[0]:.4f})   {100 * found.swap_rate:8.4f}"
                f"        ({exact[1]:.4f})  {paper:g}",
                flush=True,
            )
    header = "mixture,swaps,right_mass,right_error,right_exact,swap_percent,swap_error,swap_exact,swap_published"
    (output / "mixtures.csv").write_text("\n".join([header, *lines]) + "\n")

    rows, means = [], {}
    for label, used in (
        ("one mini-batch", False),
        (f"control variate, new each {refresh} steps", True),
    ):
        run = sample_mean(used, mean_pairs, mean_steps, refresh)
        row, means[label] = mean_row(run, refresh if used else 0, mean_pairs)
        rows.append(row)
        print(
            f"mean of a mixture, {label}: V {row.variance:.3g}, swaps {row.swap_rate:.3g} %, mode changes in 1,000 "
            f"steps {row.changes:.3g}, mass of the other mode {row.right:.3f} +- {row.right_error:.3f} (0.5)",
            flush=True,
        )
    lines = [
        ",".join(MeanRow._fields),
        *(",".join(f"{value:.6g}" for value in row) for row in rows),
    ]
    (output / "control_variate.csv").write_text("\n".join(lines) + "\n")
    draw(mixtures, means, rows, output / "resgld.png")
    print(f"\n{output / 'mixtures.csv'}, {output / 'control_variate.csv'}, {output / 'resgld.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the comparison; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Replica exchange with noisy energies: three mixtures."
    )
    add = parser.add_argument
    add(
        "--num-pairs",
        type=int,
        default=1_000,
        metavar="N",
        help="pairs of chains of each mixture; default 1000",
    )
    add(
        "--num-steps",
        type=int,
        default=3_000,
        metavar="N",
        help="steps averaged over; default 3000",
    )
    add(
        "--mean-pairs",
        type=int,
        default=32,
        metavar="N",
        help="pairs of chains on the mean; default 32",
    )
    add("--mean-steps", type=int, default=8_000, metavar="N", help="their steps; default 8000")
    add(
        "--refresh",
        type=int,
        default=3,
        metavar="N",
        help="steps from one center to the next; default 3",
    )
    add(
        "--output",
        type=Path,
        default=Path("results/resgld"),
        metavar="DIR",
        help="folder of the files",
    )
    given = parser.parse_args(argv)
    try:
        compare(
            given.num_pairs,
            given.num_steps,
            given.mean_pairs,
            given.mean_steps,
            given.refresh,
            given.output,
        )
    except tati_re.InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
