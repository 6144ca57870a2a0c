"""What is sampled: each potential once, in functions that NumPy, `jax.numpy` and TensorFlow's NumPy
have in common.

The formulas are those of the published comparisons of microcanonical samplers
(reubenharry/sampler-benchmarks on GitHub), whose models are inference-gym's (package inference-gym
0.0.5): positive scales are sampled through softplus (Brownian motion) or exp (German credit), with
the Jacobian. Errors are those of the variables that inference-gym names, after these maps.
"""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TRUTH = Path(__file__).with_name("truth.csv")
"""Moments of the targets without closed form: `python -m benchmarks.efficiency --truth NAME` makes
a row's.
"""
NOISE_STD = 0.1
"""Of the standardized target of a regression."""
NUM_PREDICTIONS = 64


class Truth(NamedTuple):
    """Exact moments of each coordinate, `(d,)`: mean and variance of x, mean and variance of x²."""

    mean: np.ndarray
    variance: np.ndarray
    mean_of_square: np.ndarray
    variance_of_square: np.ndarray


class Target(NamedTuple):
    """A row of the table.

    Attributes:
        name: As it is typed.
        dimension: Number of coordinates d.
        potential: `potential(xp, x)` is U of one position `(d,)` or of many `(n, d)`, xp one of the
            three NumPys.
        gradients: Of one chain, tuning included.
        start: Center of the starts, `(d,)`.
        start_std: Deviation of the chains' starts about it.
        observed: `observed(xp, x)`: what is judged, `(n, k)`. Default: the coordinates.
        truth: Its moments, or None where the coordinates have copies (networks) or nothing is
            stored.
        network: Options of the same model in tati_re, data included; empty where the target is a
            function.
    """

    name: str
    dimension: int
    potential: Callable[[Any, Any], Any]
    gradients: int
    start: np.ndarray
    start_std: float = 1.0
    observed: Callable[[Any, Any], Any] = lambda xp, x: x
    truth: Truth | None = None
    network: dict[str, Any] = {}  # noqa: RUF012

    def starts(self, chains: int, seed: int) -> np.ndarray:
        """Where the chains begin, `(chains, d)`, the same for every sampler."""
        noise = np.random.default_rng(seed).standard_normal((chains, self.dimension))
        return self.start + self.start_std * noise


def gaussian(condition: float) -> Target:
    """Independent coordinates, d = 100, their variances evenly spaced in the logarithm, the largest
    1.
    """
    variance = np.geomspace(1.0 / condition, 1.0, 100)

    def potential(xp, x):
        return 0.5 * xp.sum(x * x * (1.0 / variance), -1)

    zeros = np.zeros(100)
    truth = Truth(zeros, variance, variance, 2 * variance**2)
    name = f"gaussian-{condition:.0f}"
    return Target(
        name, 100, potential, 20_000 if condition == 1 else 60_000, zeros, 1.0, truth=truth
    )


def rosenbrock() -> Target:
    """Eighteen independent pairs, x ~ N(1, 1), y ~ N(x², .1): first all x, then all y."""
    spread = 0.1

    def potential(xp, x):
        first, second = x[..., :18], x[..., 18:]
        return 0.5 * xp.sum((first - 1.0) ** 2 + (first * first - second) ** 2 / spread, -1)

    # With z ~ N(1, 1): E z², z⁴, z⁸ = 2, 10, 764.
    moments = [[1.0, 1.0, 2.0, 6.0], [2.0, 6.0 + spread, 10.0 + spread, 0.0]]
    moments[1][3] = 764 + 6 * spread * 10 + 3 * spread**2 - moments[1][2] ** 2
    truth = Truth(*np.repeat(np.array(moments), 18, axis=0).T)
    return Target("rosenbrock", 36, potential, 400_000, np.zeros(36), truth=truth)


def funnel() -> Target:
    """Neal's funnel of inference-gym: v ~ N(0, 9), nine x ~ N(0, exp(v)); of x only the first two
    moments are asked.
    """

    def potential(xp, x):
        v = x[..., 0]
        return v * v / 18.0 + 4.5 * v + 0.5 * xp.exp(-v) * xp.sum(x[..., 1:] * x[..., 1:], -1)

    def power(k: int) -> float:  # E x^k = (k - 1)!! E exp(k v / 2)
        return math.prod(range(1, k, 2)) * math.exp(9 * k**2 / 8)

    variance = np.array([9.0] + 9 * [power(2)])
    fourth = np.array([243.0] + 9 * [power(4)])
    truth = Truth(np.zeros(10), variance, variance, fourth - variance**2)
    return Target("funnel", 10, potential, 400_000, np.zeros(10), truth=truth)


OBSERVED = np.array(
    [
        0.21592641,
        0.118771404,
        -0.07945447,
        0.037677474,
        -0.27885845,
        -0.1484156,
        -0.3250906,
        -0.22957903,
        -0.44110894,
        -0.09830782,
        -0.8786016,
        -0.83736074,
        -0.7384849,
        -0.8939254,
        -0.7774566,
        -0.70238715,
        -0.87771565,
        -0.51853573,
        -0.6948214,
        -0.6202789,
    ]
)
"""Of inference-gym's brownian_motion_missing_middle_observations: times 0 to 9 and 20 to 29."""


def _softplus(xp, x):
    return xp.logaddexp(x, 0.0 * x)


def brownian() -> Target:
    """Brownian motion of 30 steps with unknown scales of steps and observations, the middle ten not
    observed.
    """

    def potential(xp, x):
        step, noise, places = _softplus(xp, x[..., 0]), _softplus(xp, x[..., 1]), x[..., 2:]
        steps = places[..., 0] ** 2 + xp.sum((places[..., 1:] - places[..., :-1]) ** 2, -1)
        misses = xp.sum((places[..., :10] - OBSERVED[:10]) ** 2, -1)
        misses = misses + xp.sum((places[..., 20:] - OBSERVED[10:]) ** 2, -1)
        value = (
            0.5 * steps / step**2
            + 0.5 * misses / noise**2
            + 30.0 * xp.log(step)
            + 20.0 * xp.log(noise)
        )
        for raw, scale in (
            (x[..., 0], step),
            (x[..., 1], noise),
        ):  # log-normal(0, 2), and the Jacobian of softplus
            value = value + xp.log(scale) + xp.log(scale) ** 2 / 8.0 + _softplus(xp, -raw)
        return value

    def observed(xp, x):
        return xp.concatenate([_softplus(xp, x[..., :2]), x[..., 2:]], -1)

    start = np.concatenate(
        [
            np.log(np.expm1([0.1, 0.15])),
            np.interp(np.arange(30), [*range(10), *range(20, 30)], OBSERVED),
        ]
    )
    return Target("brownian", 32, potential, 100_000, start, 0.1, observed, stored("brownian", 32))


def german_credit(folder: Path) -> Target:
    """Sparse logistic regression of inference-gym on the numeric German credit data, the file
    german.data-numeric.
    """
    rows = np.loadtxt(folder / "german.data-numeric")
    inputs = (rows[:, :24] - rows[:, :24].mean(0)) / rows[:, :24].std(0)
    inputs, labels = np.column_stack([inputs, np.ones(len(rows))]), rows[:, 24] - 1.0

    def potential(
        xp, x
    ):  # global scale, local scales, weights, as inference-gym's VectorModel orders them
        log_global, log_local, weights = x[..., :1], x[..., 1:26], x[..., 26:]
        logits = xp.matmul(weights * xp.exp(log_local + log_global), inputs.T)
        logs = x[..., :26]  # Gamma(1/2, 1/2), and the Jacobian of exp
        prior = 0.5 * xp.sum(xp.exp(logs) - logs, -1) + 0.5 * xp.sum(weights * weights, -1)
        return xp.sum(_softplus(xp, logits) - logits * labels, -1) + prior

    def observed(xp, x):
        return xp.concatenate([xp.exp(x[..., :26]), x[..., 26:]], -1)

    start = np.zeros(51)
    return Target(
        "german-credit", 51, potential, 200_000, start, 0.1, observed, stored("german-credit", 51)
    )


def breast_cancer() -> Target:
    """Logistic regression on scikit-learn's breast cancer data, standardized, 30 weights and a
    bias, prior N(0, 1).
    """
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    inputs = (data.data - data.data.mean(0)) / data.data.std(0)
    inputs, labels = np.column_stack([inputs, np.ones(len(inputs))]), data.target.astype(float)

    def potential(xp, x):
        logits = xp.matmul(x, inputs.T)
        return xp.sum(_softplus(xp, logits) - logits * labels, -1) + 0.5 * xp.sum(x * x, -1)

    return Target(
        "breast-cancer", 31, potential, 60_000, np.zeros(31), 0.1, truth=stored("breast-cancer", 31)
    )


def network(
    name: str, inputs: np.ndarray, targets: np.ndarray, hidden: list[int], gradients: int
) -> Target:
    """A network of tanh layers on all data, prior N(0, 1); judged by its outputs for some of the
    inputs.
    """
    classes = targets.ndim == 1
    sizes = [inputs.shape[1], *hidden, int(targets.max()) + 1 if classes else 1]
    shapes = [shape for pair in itertools.pairwise(sizes) for shape in (pair, pair[1:])]
    cuts = np.cumsum([0, *(math.prod(shape) for shape in shapes)]).tolist()
    inputs, chosen = (
        inputs.astype(np.float32),
        inputs[:: max(1, len(inputs) // NUM_PREDICTIONS)][:NUM_PREDICTIONS],
    )
    truth = np.eye(sizes[-1], dtype=np.float32)[targets] if classes else targets.astype(np.float32)

    def outputs(xp, x, given):
        values = given
        for layer in range(0, len(shapes), 2):
            values = xp.tanh(values) if layer else values
            kernel = xp.reshape(
                x[..., cuts[layer] : cuts[layer + 1]], (*x.shape[:-1], *shapes[layer])
            )
            values = xp.matmul(values, kernel) + x[..., None, cuts[layer + 1] : cuts[layer + 2]]
        return values

    def potential(xp, x):
        found = outputs(xp, x, inputs)
        if classes:
            top = xp.max(found, -1, keepdims=True)
            log_sum = top[..., 0] + xp.log(xp.sum(xp.exp(found - top), -1))
            loss = xp.sum(log_sum - xp.sum(found * truth, -1), -1)
        else:
            loss = xp.sum((found - truth) ** 2, (-2, -1)) / (2 * NOISE_STD**2)
        return loss + 0.5 * xp.sum(x * x, -1)

    def observed(xp, x):
        found = outputs(xp, x, chosen.astype(np.float32))
        return found[..., 0]  # of classes the logit of the first one

    options = {
        "data": (inputs, targets if classes else truth),
        "hidden": hidden,
        "activation": "tanh",
    }
    options |= {"prior": "gaussian", "prior_std": 1.0}
    options |= {} if classes else {"loss": "gaussian", "noise_std": NOISE_STD}
    return Target(
        name, cuts[-1], potential, gradients, np.zeros(cuts[-1]), 0.3, observed, None, options
    )


def uci(name: str, folder: Path) -> Target:
    """A network of 50 tanh units on a UCI set of the folder, inputs and target standardized."""
    rows = np.loadtxt(folder / "uci" / f"{name}.txt")
    rows = (rows - rows.mean(0)) / np.where(rows.std(0) > 0, rows.std(0), 1.0)
    return network(name, rows[:, :-1], rows[:, -1:], [50], 60_000)


def digits() -> Target:
    """A network 64-32-10 on scikit-learn's 1,797 digits."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return network("digits", data.data / 16.0, data.target.astype(np.int64), [32], 20_000)


def num_rows(target: Target, chains: int) -> int:
    """Draws of a chain that are looked at, at most: 60,000, or what fits into 40 million
    numbers.
    """
    return min(60_000, 40_000_000 // (chains * target.dimension))


def all_targets(folder: Path | None) -> tuple[dict[str, Callable[[], Target]], dict[str, str]]:
    """What can be sampled, made when it is called for, and what cannot, with the reason."""
    found: dict[str, Callable[[], Target]] = {
        "gaussian-1": lambda: gaussian(1.0),
        "gaussian-10000": lambda: gaussian(1e4),
        "brownian": brownian,
        "rosenbrock": rosenbrock,
        "funnel": funnel,
        "breast-cancer": breast_cancer,
        "digits": digits,
    }
    missing = {}
    for name in ("german-credit", "yacht", "energy"):
        file = "german.data-numeric" if name == "german-credit" else f"uci/{name}.txt"
        if folder is not None and (folder / file).is_file():
            make = (
                german_credit
                if name == "german-credit"
                else lambda folder, name=name: uci(name, folder)
            )
            found[name] = lambda make=make, folder=folder: make(folder)
        else:
            missing[name] = f"needs {file} in the folder of --data"
    return found, missing


def stored(name: str, dimension: int) -> Truth | None:
    """The moments of a target in truth.csv, or None."""
    if not TRUTH.is_file():
        return None
    with TRUTH.open(encoding="utf-8") as file:
        rows = [
            [float(row[field]) for field in Truth._fields]
            for row in csv.DictReader(file)
            if row["target"] == name
        ]
    return Truth(*np.array(rows).T) if len(rows) == dimension else None
