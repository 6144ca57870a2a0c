"""Replica-exchange Nosé-Hoover dynamics on five Gaussians, with noise on gradients and on the
energies of swaps.

Figure 2 of the paper: seven rungs with temperature ratio 1.5, noise of variance 0.25 on every
energy and every entry of a gradient, swaps by the compensated rule with σ*² = 0.2. Its centers,
step size, friction and trajectory length are not in print; here five equal Gaussians of standard
deviation 0.5 lie at (0, 0) and (±3, ±3), h = 0.05, a bath of noise C = 1 on every rung, and 20
steps between two swap rounds, each of which gives one sample. Independent ladders are averaged
over; all start in the middle.

The effective size is 1/τ, τ = 1 + 2 Σ ρ(t), with ρ about the mean 0 that x and y have by symmetry,
over both and all ladders. The estimate for a few chains of unknown mean (as in `tati_re.analysis`)
is cut where ρ falls below 0 by chance, which on many short chains makes it scatter by a tenth.

Four runs: BADODAB (the preset RENHD), the same without noise and by Metropolis' rule, an explicit
Euler step as published at its friction c = hγ = 0.1 (the preset renhd_euler), and one rung without
swaps. Beside them a normalizing flow, eight affine couplings (L. Dinh, J. Sohl-Dickstein, S.
Bengio, ICLR 2017) that learn from U alone, while the temperature falls to 1, to minimize the mean
of U/T + log q. Its points, and a tenth from a wide Gaussian, are proposals of an independence
Metropolis test, without which their law would be the flow's. And TACT-HMC: single walkers whose own
temperature moves between 1 and that of the hottest rung, under the same noise, with as many
gradients as a ladder has.

    python examples/renhd_five_gaussians.py [--num-ladders 250] [--num-samples 1200] [--quick]
    [--output results/renhd]

Writes results.csv, renhd.png and marginals.png (x at five rungs, the appendix's Figure 3) to the
output folder. Source: R. Luo, Q. Zhang, Y. Yang, J. Wang, Replica-exchange Nosé-Hoover dynamics for
Bayesian learning on large datasets (2020), section 4.1.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from ladder_systems import NoisyEnergies, NoisyEverywhere, five_gaussians, run_ladder, run_walkers
from published import published

from tati_re import FunctionPotential
from tati_re.exchange import (
    BarkerCompensated,
    Metropolis,
    ReplicaExchange,
    geometric,
    make_ladder,
    make_swap_schedule,
)
from tati_re.samplers import SGNHT, Splitting, TactHMC

CENTRES = np.array([[0, 0], [3, 3], [3, -3], [-3, 3], [-3, -3]], float)
SPREAD = 0.5
NUM_RUNGS, RATIO = 7, 1.5
STEP_SIZE, NUM_STEPS_EACH, FRICTION = 0.05, 20, 1.0
NOISE, SWAP_VARIANCE = 0.25, 0.2
EULER_FRICTION = 0.1 / STEP_SIZE
EXAMPLES_OF_A_SWAP = 64
SMALLEST_NUM_SAMPLES = 100

EXACT_ENERGY = 3.0610
"""<U> at temperature 1, by quadrature."""
PUBLISHED_SIZE = float(published("renhd_five_gaussians")["effective size, a sample"])
"""Effective sample size of one sample."""
LONGEST_LAG = 200
"""About ten autocorrelation times; what is left out is e^-6."""
COUPLINGS, UNITS, BATCH = 8, 64, 512
FLOW_STEPS = 3_000
"""Of the training of the flow, 512 values of U and their gradients each."""
WIDE, BROAD = 0.1, 3.5
FLOW = "normalizing flow"
TEMPERING_STEPS = 30
"""Steps in which TACT-HMC's tempering variable goes a way of 1; 10 and 100 are within a fifth of
its effective size.
"""
VARIANCE = 4 * 9 / 5 + SPREAD**2
"""Of x and y."""
SHOWN = 5
"""Rungs whose marginals are drawn."""
EDGES = np.linspace(-9, 9, 91)
NUM_GROUPS = 25
"""Of ladders, from which the error of an effective size comes."""


class Setting(NamedTuple):
    """A run: its sampler, and how replicas swap."""

    name: str
    sampler: object
    rule: object
    num_rungs: int = NUM_RUNGS
    noisy: bool = True


SETTINGS = (
    Setting(
        "RENHD",
        Splitting("BADODAB", FRICTION, bath_noise=FRICTION),
        BarkerCompensated(SWAP_VARIANCE),
    ),
    Setting(
        "exact swaps",
        Splitting("BADODAB", FRICTION, bath_noise=FRICTION),
        Metropolis(),
        noisy=False,
    ),
    Setting("renhd_euler", SGNHT(EULER_FRICTION), BarkerCompensated(SWAP_VARIANCE)),
    Setting("one rung", Splitting("BADODAB", FRICTION, bath_noise=FRICTION), None, 1),
)


class Result(NamedTuple):
    """What a run gave.

    Attributes:
        cold: Positions at temperature 1, `(samples, ladders, 2)`.
        rung: Of the first replica of the first ladder at each sample.
        masses: Of the five cells about the centers at temperature 1, and their standard errors.
        energy: <U> at temperature 1, and its standard error.
        rates: Of accepted swaps for each pair of rungs.
        spread: Standard deviation of the distance to the nearest center along an axis.
        size: Effective sample size of one sample, and its standard error.
        changes: How often a sample lies in another cell than the one before.
        histograms: Of x at each of the `SHOWN` coldest rungs, `(rungs, ladders, bins)`, each of sum
            1; or empty.
    """

    cold: np.ndarray
    rung: np.ndarray
    masses: tuple[np.ndarray, np.ndarray]
    energy: tuple[float, float]
    rates: np.ndarray
    spread: float
    size: tuple[float, float]
    changes: float
    histograms: np.ndarray = np.zeros(0)


def nearest(positions: np.ndarray) -> np.ndarray:
    """The index of the nearest center."""
    return np.argmin([((positions - centre) ** 2).sum(-1) for centre in CENTRES], axis=0)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean over the first axis, and its standard error from the spread."""
    return values.mean(0), values.std(0, ddof=1) / math.sqrt(len(values))


def effective_size(cold: np.ndarray) -> tuple[float, float]:
    """1/τ of x and y together, about their mean 0, and its standard error: the jackknife over
    groups of ladders.
    """
    num_samples, num_ladders, _ = cold.shape
    num_lags = min(LONGEST_LAG, num_samples // 2)
    transformed = np.fft.rfft(cold, 2 * num_samples, axis=0)
    products = np.fft.irfft(np.abs(transformed) ** 2, axis=0)[:num_lags].sum(axis=2)
    covariance = products / np.arange(num_samples, num_samples - num_lags, -1)[:, None]
    groups = np.array_split(np.arange(num_ladders), min(NUM_GROUPS, num_ladders))

    def size_of(ladders: np.ndarray) -> float:
        mean = covariance[:, ladders].mean(axis=1)
        return float(mean[0] / (mean[0] + 2 * mean[1:].sum()))

    without = np.array([size_of(np.setdiff1d(np.arange(num_ladders), group)) for group in groups])
    return size_of(np.arange(num_ladders)), float(without.std() * math.sqrt(len(groups) - 1))


def sample(setting: Setting, num_ladders: int, num_samples: int, seed: int = 1) -> Result:
    """Runs independent ladders; a fifth as many samples come first and are not counted."""
    ladder = make_ladder(step_size=STEP_SIZE)
    if setting.num_rungs > 1:
        ladder = geometric(setting.num_rungs, temperature_ratio=RATIO, step_size=STEP_SIZE)
    method = ReplicaExchange(
        setting.sampler,
        ladder,
        setting.rule,
        None if setting.rule is None else make_swap_schedule("even_odd", setting.num_rungs),
        NUM_STEPS_EACH,
        num_ladders,
        EXAMPLES_OF_A_SWAP,
    )
    energy_noise = NOISE if setting.noisy else 0.0
    potential = NoisyEnergies(five_gaussians, 2, NOISE, energy_noise)
    if not setting.noisy:
        potential = FunctionPotential(five_gaussians, 2)
    start = SPREAD * np.random.default_rng(seed).normal(size=(method.num_replicas, 2))
    burnin = num_samples // 5 * NUM_STEPS_EACH
    total = burnin + num_samples * NUM_STEPS_EACH
    run = run_ladder(
        method,
        potential,
        start,
        total,
        NUM_STEPS_EACH,
        burnin,
        seed=seed,
        trajectory_every=NUM_STEPS_EACH,
    )
    cold = run.positions[:, 0]
    shown = np.moveaxis(run.positions[..., 0], 1, 0)[:SHOWN] if setting.num_rungs >= SHOWN else ()
    cell = nearest(cold)
    by_ladder = np.stack([(cell == k).mean(axis=0) for k in range(5)], axis=-1)
    energy = run.column("potential")[num_samples // 5 :, 0].mean(axis=0)
    counts = run.state.rungs.counts
    rates = counts.accepted.numpy() / counts.attempts.numpy() if setting.rule else np.zeros(0)
    return Result(
        cold,
        np.argmax(run.column("replica")[num_samples // 5 :, :, 0] == 0, axis=1),
        mean_and_error(by_ladder),
        tuple(float(value) for value in mean_and_error(energy)),
        rates,
        float((cold - CENTRES[cell]).std()),
        effective_size(cold),
        float((np.diff(cell, axis=0) != 0).mean()),
        np.array([[np.histogram(x, EDGES)[0] / len(x) for x in rung.T] for rung in shown]),
    )


class Tempered(NamedTuple):
    """What single walkers gave whose own temperature moves: the share of their steps at temperature
    1, the masses of the five cells with standard errors, the spread of a mode, and the effective
    size of a gradient with its error.
    """

    share: float
    masses: tuple[np.ndarray, np.ndarray]
    spread: float
    size: tuple[float, float]


def tempered(num_walkers: int, num_samples: int, seed: int = 1) -> Tempered:
    """TACT-HMC, with as many gradients a walker as a ladder has, burn-in included."""
    every = NUM_STEPS_EACH
    burnin, total = (
        part * every * NUM_RUNGS for part in (num_samples // 5, num_samples // 5 + num_samples)
    )
    sampler = TactHMC(
        FRICTION, max_temperature=RATIO ** (NUM_RUNGS - 1), tempering_steps=TEMPERING_STEPS
    )
    potential = NoisyEverywhere(five_gaussians, 2, NOISE, NOISE)
    start = SPREAD * np.random.default_rng(seed).normal(size=(num_walkers, 2))
    weight, x = run_walkers(sampler, potential, start, STEP_SIZE, total, every, burnin, seed)
    cell, counted = nearest(x), weight.sum(axis=0)
    masses = np.stack([(weight * (cell == k)).sum(axis=0) / counted for k in range(5)], axis=-1)
    spread = math.sqrt((weight[..., None] * (x - CENTRES[cell]) ** 2).sum() / weight.sum() / 2)
    return Tempered(
        float(weight.mean()),
        mean_and_error(masses),
        spread,
        size_of_means(x, weight, total - burnin),
    )


def size_of_means(x: np.ndarray, weight: np.ndarray | float, gradients: int) -> tuple[float, float]:
    """Effective draws a gradient, from how means of x and y of independent chains scatter about 0,
    and the error.
    """
    weight = np.broadcast_to(weight, x.shape[:2])
    squares = (((weight[..., None] * x).sum(axis=0) / weight.sum(axis=0)[:, None]) ** 2).ravel()
    size = VARIANCE / squares.mean() / gradients
    return size, size * squares.std() / squares.mean() / math.sqrt(len(squares))


def trained_flow(num_steps: int, seed: int):
    """`flow(z) -> x, log|dx/dz|`, whose law has learned exp(-U) from a Gaussian of deviation 3 on,
    and the logarithm of its density.
    """
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(seed)
    parts = []
    for _ in range(COUPLINGS):
        inner = [keras.layers.Dense(UNITS, "tanh") for _ in range(2)]
        parts.append(
            keras.Sequential(
                [keras.Input((1,)), *inner, keras.layers.Dense(2, kernel_initializer="zeros")]
            )
        )

    def flow(z):
        x, log_volume = 3.0 * z, 2 * math.log(3.0) + tf.zeros_like(z[:, 0])
        for number, part in enumerate(parts):
            kept, moved = x[:, number % 2], x[:, 1 - number % 2]
            shift, scale = tf.unstack(part(kept[:, None]), axis=1)
            scale = 2.0 * tf.tanh(scale)
            moved = moved * tf.exp(scale) + shift
            x = tf.stack([kept, moved] if number % 2 == 0 else [moved, kept], axis=1)
            log_volume += scale
        return x, log_volume

    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(2e-3, num_steps))
    weights = [variable for part in parts for variable in part.trainable_variables]
    optimizer.build(weights)

    @tf.function(jit_compile=True)
    def step(number):
        # From the hottest rung to T = 1 in three fifths of the steps: at T = 1 from the start it
        # keeps to one mode.
        cooling = tf.maximum(0.0, 1.0 - tf.cast(number, tf.float32) / (0.6 * num_steps))
        temperature = RATIO ** ((NUM_RUNGS - 1) * cooling)
        z = tf.random.stateless_normal((BATCH, 2), (seed, number))
        with tf.GradientTape() as tape:
            x, log_volume = flow(z)
            loss = tf.reduce_mean(tf.cast(five_gaussians(x), tf.float32) / temperature - log_volume)
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    for number in range(num_steps):
        step(tf.constant(number))

    def density(x):
        log_volume = 2 * math.log(3.0) + tf.zeros_like(x[:, 0])
        for number, part in reversed([*enumerate(parts)]):
            kept, moved = x[:, number % 2], x[:, 1 - number % 2]
            shift, scale = tf.unstack(part(kept[:, None]), axis=1)
            scale = 2.0 * tf.tanh(scale)
            moved = (moved - shift) * tf.exp(-scale)
            x = tf.stack([kept, moved] if number % 2 == 0 else [moved, kept], axis=1)
            log_volume += scale
        return -0.5 * tf.reduce_sum((x / 3.0) ** 2, 1) - math.log(2 * math.pi) - log_volume

    return tf.function(flow), tf.function(density)


def flow_proposals(
    flow, density, num_ladders: int, num_samples: int, seed: int = 1
) -> tuple[Result, float]:
    """As many chains as ladders, all started at a point of the flow: the result, and the rate of
    accepted proposals.
    """
    random, position, weight = np.random.default_rng(seed), None, None
    burnin, cold, energies, accepted = num_samples // 5, [], [], []
    for _ in range(burnin + num_samples):
        x = flow(random.standard_normal((num_ladders, 2)).astype(np.float32))[0].numpy()
        # Where exp(-U) has more than the flow the test would hold a point for long: a tenth come
        # from a wide Gaussian.
        x = np.where(
            random.random((num_ladders, 1)) < WIDE,
            BROAD * random.standard_normal((num_ladders, 2)),
            x,
        )
        wide = -0.5 * (x**2).sum(1) / BROAD**2 - math.log(2 * math.pi * BROAD**2)
        proposed = np.logaddexp(
            math.log(1 - WIDE) + density(x.astype(np.float32)).numpy(), math.log(WIDE) + wide
        )
        energy = np.asarray(five_gaussians(x))
        new = -energy - proposed
        if position is None:
            position, weight, potential = x, new, energy
        better = np.log(random.random(num_ladders)) < new - weight
        position = np.where(better[:, None], x, position)
        weight, potential = np.where(better, new, weight), np.where(better, energy, potential)
        cold.append(position)
        energies.append(potential)
        accepted.append(better.mean())
    cold, energies = np.array(cold[burnin:]), np.array(energies[burnin:])
    cell = nearest(cold)
    masses = mean_and_error(np.stack([(cell == k).mean(axis=0) for k in range(5)], axis=-1))
    energy = tuple(float(value) for value in mean_and_error(energies.mean(axis=0)))
    spread, changes = (
        float((cold - CENTRES[cell]).std()),
        float((np.diff(cell, axis=0) != 0).mean()),
    )
    none = np.zeros(0)
    result = Result(cold, none, masses, energy, none, spread, effective_size(cold), changes)
    return result, float(np.mean(accepted[burnin:]))


def exact_marginal(temperature: float) -> np.ndarray:
    """Of the bins of `EDGES`, the share of exp(-U/T) that has its x there: five points a bin, y
    from -15 to 15.
    """
    y, x = np.linspace(-15, 15, 301), np.linspace(EDGES[0], EDGES[-1], 5 * (len(EDGES) - 1) + 1)
    x = (x[1:] + x[:-1]) / 2
    points = np.stack(np.meshgrid(x, y, indexing="ij"), axis=-1).reshape(-1, 2)
    share = np.exp(-np.asarray(five_gaussians(points)) / temperature).reshape(len(x), -1).sum(1)
    return share.reshape(-1, 5).sum(1) / share.sum()


class Marginal(NamedTuple):
    """The law of x at a rung.

    Attributes:
        temperature: T.
        found: Share of each bin of `EDGES`, and `error`, its standard error from the spread of
            ladders.
        exact: By quadrature.
    """

    temperature: float
    found: np.ndarray
    error: np.ndarray
    exact: np.ndarray

    @property
    def barrier(self) -> tuple[float, float, float]:
        """-ln of what the mode at 0 has over the valley at 1.5: found, its error, exact; two bins
        of each count.
        """
        middle = (EDGES[1:] + EDGES[:-1]) / 2
        top, valley = np.abs(middle) < 0.2, np.abs(np.abs(middle) - 1.5) < 0.2

        def height(share):
            return math.log(share[top].mean() / share[valley].mean())

        squares = [
            ((self.error[part]).sum() / self.found[part].sum()) ** 2 for part in (top, valley)
        ]
        return height(self.found), math.sqrt(sum(squares)), height(self.exact)


def marginals(result: Result) -> list[Marginal]:
    """Those of the coldest rungs."""
    rungs = enumerate(result.histograms)
    return [
        Marginal(RATIO**j, *mean_and_error(found), exact_marginal(RATIO**j)) for j, found in rungs
    ]


def draw_marginals(found: Sequence[Marginal], path: Path) -> None:
    """Draws the marginals of x, and -ln of them: the potential that x feels at a rung, in units of
    its temperature.
    """
    from tati_re.plotting import COLORS, new_figure, plain, save

    figure = new_figure(9.0, 3.4)
    panels, middle, width = figure.subplots(1, 2), (EDGES[1:] + EDGES[:-1]) / 2, EDGES[1] - EDGES[0]
    for color, rung in zip(COLORS, found, strict=False):
        seen = rung.found > 0
        for axes, of in zip(panels, (lambda p: -np.log(p), lambda p: p), strict=True):
            axes.plot(middle, of(rung.exact / width), color=color, linewidth=1)
            label = f"T = {rung.temperature:.4g}"
            axes.plot(
                middle[seen],
                of(rung.found[seen] / width),
                ".",
                color=color,
                markersize=4,
                label=label,
            )
    panels[0].set(ylabel="-ln p(x), the effective potential", ylim=(0, 9))
    panels[1].set(ylabel="p(x)", ylim=(0, None))
    panels[1].legend(frameon=False, fontsize=8, title="RENHD; lines: exact", title_fontsize=8)
    for axes in panels:
        axes.set(xlabel="x", xlim=(-7, 7))
        plain(axes)
    save(figure, path)


def table_of(results: dict[str, Result]) -> list[dict[str, object]]:
    """A row for each number: what was measured, its standard error where there is one, the exact
    and the printed.
    """
    rows = []

    def add(run: str, quantity: str, value: float, error="", exact="", published="") -> None:
        rows.append(
            dict(
                run=run,
                quantity=quantity,
                value=f"{value:.6g}",
                error=error,
                exact=exact,
                published=published,
            )
        )

    for name, result in results.items():
        for centre, mass, error in zip(CENTRES, *result.masses, strict=True):
            add(name, f"mass at ({centre[0]:g} {centre[1]:g})", mass, f"{error:.2g}", 0.2)
        add(name, "mean potential", result.energy[0], f"{result.energy[1]:.2g}", EXACT_ENERGY)
        add(name, "spread of a mode", result.spread, "", SPREAD)
        add(name, "samples in another mode than the one before", result.changes)
        for pair, rate in enumerate(result.rates):
            add(name, f"swap rate {pair} {pair + 1}", rate)
        for rung in marginals(result):
            where = f"at T = {rung.temperature:.4g}"
            height, error, exact = rung.barrier
            add(name, f"barrier {where}", height, f"{error:.2g}", f"{exact:.6g}")
            add(name, f"total variation {where}", 0.5 * np.abs(rung.found - rung.exact).sum())
        if name == FLOW:
            add(name, "effective size per sample", result.size[0])
            add(name, "standard error of it", result.size[1])
        if len(result.rates):
            published = f"{PUBLISHED_SIZE:.4g}" if name != "exact swaps" else ""
            size, error = result.size
            add(name, "effective size per sample", size, "", "", published)
            add(name, "standard error of it", error)
            add(name, "effective size per gradient of rung 0", size / NUM_STEPS_EACH)
            add(name, "effective size per gradient of all rungs", size / NUM_STEPS_EACH / NUM_RUNGS)
    return rows


def draw(results: dict[str, Result], path: Path) -> None:
    """Histograms of x against its density, the plane, and paths of x and of a replica."""
    from tati_re.plotting import COLORS, DARK, GRAY, legend_above, new_figure, plain, save

    figure = new_figure(9.0, 5.6)
    (plane, marginal), (path_of_x, path_of_rung) = figure.subplots(2, 2, width_ratios=(1, 2))
    renhd, alone = results["RENHD"], results["one rung"]
    edges = np.linspace(-5, 5, 81)
    points = renhd.cold.reshape(-1, 2)
    plane.hist2d(points[:, 0], points[:, 1], bins=[edges, edges], cmap="Blues")
    axis = np.linspace(-5, 5, 201)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1)
    density = sum(np.exp(-((grid - centre) ** 2).sum(-1) / (2 * SPREAD**2)) for centre in CENTRES)
    plane.contour(axis, axis, density, levels=[math.exp(-2.0)], colors=COLORS[1], linewidths=0.9)
    plane.set(title="RENHD at T = 1; lines: two deviations", xlabel="x", ylabel="y", aspect="equal")
    plane.set(xticks=[-3, 0, 3], yticks=[-3, 0, 3])

    x = np.linspace(-5, 5, 501)
    exact = sum(np.exp(-((x - centre) ** 2) / (2 * SPREAD**2)) for centre in CENTRES[:, 0])
    exact /= len(CENTRES) * SPREAD * math.sqrt(2 * math.pi)
    marginal.plot(x, exact, color=DARK, linewidth=1.2, label="density of x")
    for color, (name, result) in zip(COLORS, results.items(), strict=False):
        if name != "exact swaps":
            values = result.cold[..., 0].ravel()
            marginal.hist(
                values, edges, density=True, histtype="step", color=color, linewidth=1.3, label=name
            )
    marginal.set(xlabel="x", title="all cold samples")
    marginal.legend(frameon=False, fontsize=8)

    shown = min(500, len(renhd.rung))
    path_of_x.plot(alone.cold[:shown, 0, 0], color=COLORS[3], linewidth=0.6, label="one rung")
    path_of_x.plot(renhd.cold[:shown, 0, 0], color=COLORS[0], linewidth=0.6, label="RENHD")
    path_of_x.set(xlabel="sample", ylabel="x at T = 1", ylim=(-5, 5))
    legend_above(path_of_x)
    path_of_rung.step(
        np.arange(shown), renhd.rung[:shown], where="mid", color=COLORS[0], linewidth=0.9
    )
    path_of_rung.set(
        xlabel="swap round", ylabel="rung", title="where one replica was", yticks=range(NUM_RUNGS)
    )
    path_of_rung.grid(axis="y", color=GRAY, alpha=0.3, linewidth=0.5)
    for panel in (plane, marginal, path_of_x, path_of_rung):
        plain(panel)
        panel.title.set_size(9)
    save(figure, path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the experiment; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--num-ladders", type=int, help="independent ladders (default 250, quick 40)"
    )
    parser.add_argument(
        "--num-samples",
        type=int,
        help="samples of each after its burn-in (default 1200, quick 300)",
    )
    parser.add_argument("--quick", action="store_true", help="some seconds, and large errors")
    parser.add_argument(
        "--output", type=Path, default=Path("results/renhd"), help="folder of the files"
    )
    options = parser.parse_args(arguments)
    num_ladders = (
        options.num_ladders if options.num_ladders is not None else 40 if options.quick else 250
    )
    num_samples = (
        options.num_samples if options.num_samples is not None else 300 if options.quick else 1200
    )
    for name, given, least in (
        ("ladders", num_ladders, 2),
        ("samples", num_samples, SMALLEST_NUM_SAMPLES),
    ):
        if given < least:
            print(
                f"--num-{name} is too small. Received: {given}. Expected: at least {least}.",
                file=sys.stderr,
            )
            return 2
    results = {}
    for setting in SETTINGS:
        result = results[setting.name] = sample(setting, num_ladders, num_samples)
        print(f"{setting.name}: {num_ladders} x {num_samples} samples")
        print(
            "  masses "
            + ", ".join(
                f"{mass:.4f} ± {error:.4f}" for mass, error in zip(*result.masses, strict=True)
            )
        )
        print(f"  <U> {result.energy[0]:.4f} ± {result.energy[1]:.4f} (exact {EXACT_ENERGY:.4f})")
        print(
            f"  spread of a mode {result.spread:.4f} (exact {SPREAD}), mode changes a sample {result.changes:.4f}"
        )
        if len(result.rates):
            print("  swap rates " + ", ".join(f"{rate:.3f}" for rate in result.rates))
            size, error = result.size
            print(
                f"  effective size: {size:.4f} ± {error:.4f} per sample (published {PUBLISHED_SIZE:.4f}), "
                f"{size / NUM_STEPS_EACH:.2e} per gradient of rung 0, "
                f"{size / NUM_STEPS_EACH / NUM_RUNGS:.2e} per gradient of all rungs"
            )
    gradients = num_samples * NUM_STEPS_EACH * NUM_RUNGS
    alone, size = (
        tempered(num_ladders, num_samples),
        size_of_means(results["RENHD"].cold, 1.0, gradients),
    )
    print(
        f"TACT-HMC: {num_ladders} walkers of as many gradients as a ladder, {alone.share:.4f} of them at T = 1"
    )
    print(
        "  masses "
        + ", ".join(f"{mass:.4f} ± {error:.4f}" for mass, error in zip(*alone.masses, strict=True))
    )
    print(
        f"  spread of a mode {alone.spread:.4f}; effective size per gradient, from the spread of means:"
    )
    print(
        "  "
        + ", ".join(
            f"{of[0]:.2e} ± {of[1]:.1e} {name}"
            for name, of in (("TACT-HMC", alone.size), ("RENHD", size))
        )
    )
    flow = trained_flow(600 if options.quick else FLOW_STEPS, seed=1)
    result, rate = flow_proposals(*flow, num_ladders, num_samples)
    results[FLOW] = result
    print(f"{FLOW}: proposals of a flow, {rate:.3f} of them accepted")
    print(
        "  masses "
        + ", ".join(f"{mass:.4f} ± {error:.4f}" for mass, error in zip(*result.masses, strict=True))
    )
    print(f"  <U> {result.energy[0]:.4f} ± {result.energy[1]:.4f} (exact {EXACT_ENERGY:.4f})")
    print(
        f"  spread of a mode {result.spread:.4f}; effective size {result.size[0]:.4f} ± {result.size[1]:.4f} per sample"
    )
    options.output.mkdir(parents=True, exist_ok=True)
    rows = table_of(results)
    rows.append(rows[-1] | {"quantity": "accepted proposals", "value": f"{rate:.6g}"})
    for run, quantity, value, error, exact in (
        ("TACT-HMC", "steps at T = 1", alone.share, "", ""),
        ("TACT-HMC", "spread of a mode", alone.spread, "", SPREAD),
        ("TACT-HMC", "effective size per gradient, from means", *alone.size, ""),
        ("RENHD", "effective size per gradient of all rungs, from means", *size, ""),
        *(
            ("TACT-HMC", f"mass at ({centre[0]:g} {centre[1]:g})", *pair, 0.2)
            for centre, *pair in zip(CENTRES, *alone.masses, strict=True)
        ),
    ):
        error = error if error == "" else f"{error:.2g}"
        rows.append(
            dict(
                run=run,
                quantity=quantity,
                value=f"{value:.6g}",
                error=error,
                exact=exact,
                published="",
            )
        )
    with (options.output / "results.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    draw(results, options.output / "renhd.png")
    draw_marginals(marginals(results["RENHD"]), options.output / "marginals.png")
    print(
        f"written: {options.output}/results.csv, {options.output}/renhd.png, {options.output}/marginals.png"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
