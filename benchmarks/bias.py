"""The bias of the default beside the bound that its certificate states: `python -m benchmarks.bias
[NAME ...]`.

Each target is sampled as `sample()` chooses by itself (MCLMC on all data), of as many walkers and
as long as --quick or the table of `CASES` says, and then, where its moments have no closed form, by
MAMS from where the walkers are, which is exact. Printed are the bound (row "bias from the step size" of
the certificate), and the relative error of variances: its mean over what is observed, which is what
the bound is about, and the largest, with standard errors from the walkers of both runs. What is
observed are the coordinates; of networks, whose coordinates have copies, the outputs at 64 inputs,
U, and the sum of the squares of the weights. `beyond` is how many standard errors the mean is
beyond the bound.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.efficiency import targets
from benchmarks.efficiency.ours import TUNED, in_tensorflow

NUM_WALKERS, NUM_ROWS = 32, 500
EXACT = {**TUNED, "sampler": "MAMS", "num_leapfrog_steps": 20}
"""The sampler of the reference. The length that it finds for weights of networks is some hundred
steps.
"""


class Case(NamedTuple):
    """A target, the steps of the default and of the reference, what is observed of positions `(n,
    d)`, the exact variances of it, or None, and the options of a network.
    """

    target: Any
    num_steps: int
    num_reference_steps: int
    observed: Callable[[np.ndarray], np.ndarray] = lambda x: x
    variance: np.ndarray | None = None
    network: dict[str, Any] = {}  # noqa: RUF012


def regression(activation: str, hidden: int = 10, count: int = 100) -> Case:
    """A layer of units on a smooth function of two inputs with noise of deviation 0.2; all
    parameters N(0, 1).
    """
    random = np.random.default_rng(0)
    x = random.uniform(-1.5, 1.5, (count, 2)).astype(np.float32)
    y = (
        np.sin(2 * x[:, :1])
        + x[:, :1] * x[:, 1:]
        + 0.2 * random.standard_normal((count, 1)).astype(np.float32)
    )
    function = {"tanh": np.tanh, "relu": lambda values: np.maximum(values, 0.0)}[activation]

    def outputs(theta, inputs):
        kernel, bias, last = np.split(theta[:, :-1], [2 * hidden, 3 * hidden], axis=1)
        values = function(inputs @ kernel.reshape(-1, 2, hidden) + bias[:, None])
        return (values @ last[:, :, None])[:, :, 0] + theta[:, -1:]

    def observed(theta):
        theta = theta.astype(np.float64)
        squares = np.sum(theta**2, axis=1, keepdims=True)
        misses = np.sum((outputs(theta, x) - y[:, 0]) ** 2, axis=1, keepdims=True)
        return np.concatenate(
            [outputs(theta, x[:64]), misses / 0.08 + 0.5 * squares, squares], axis=1
        )

    options = {
        "data": (x, y),
        "hidden": [hidden],
        "activation": activation,
        "loss": "gaussian",
        "noise_std": 0.2,
    }
    return Case(
        None, 40_000, 4_000, observed, network=options | {"prior_std": 1.0, "standardize": "none"}
    )


def closed(target, num_steps: int, columns: slice = slice(None)) -> Case:
    """A target whose variances are known."""
    return Case(target, num_steps, 0, lambda x: x[:, columns], target.truth.variance[columns])


def shallow_funnel(deviation: float) -> Case:
    """Neal's funnel with v ~ N(0, deviation²) and nine x ~ N(0, exp(v)); of v the variance is
    looked at.
    """

    def potential(xp, x):
        v = x[..., 0]
        return (
            0.5 * v * v / deviation**2
            + 4.5 * v
            + 0.5 * xp.exp(-v) * xp.sum(x[..., 1:] * x[..., 1:], -1)
        )

    target = targets.funnel()._replace(potential=potential)
    return Case(target, 60_000, 0, lambda x: x[:, :1], np.array([deviation**2]))


CASES: dict[str, Callable[[], Case]] = {
    "gaussian-1": lambda: closed(targets.gaussian(1.0), 12_000),
    "gaussian-10000": lambda: closed(targets.gaussian(1e4), 12_000),
    "breast-cancer": lambda: Case(targets.breast_cancer(), 20_000, 3_000),
    "tanh-10": lambda: regression("tanh"),
    "relu-10": lambda: regression("relu"),
    "rosenbrock": lambda: closed(targets.rosenbrock(), 60_000),
    "funnel": lambda: closed(targets.funnel(), 60_000, slice(1)),
    "funnel-1.5": lambda: shallow_funnel(1.5),
}


def variances(run, observed, of: int) -> tuple[np.ndarray, np.ndarray]:
    """Variances about the mean over all walkers: of all rows, and what each walker contributes,
    `(walkers, k)`.
    """
    from tati_re.analysis import stored_positions

    rows: list[list[np.ndarray]] = [[] for _ in range(of)]
    for position in stored_positions(run):
        rows[position.walker].append(position.parameters)
    values = np.array([observed(np.array(each)) for each in rows])
    each = ((values - values.mean((0, 1))) ** 2).mean(axis=1)
    return each.mean(axis=0), each


def measured(name: str, walkers: int, share: float, options: dict[str, Any]) -> dict[str, float]:
    """What one target shows."""
    import tati_re

    case = CASES[name]()
    given = {"num_walkers": walkers, "seed": 1, "verbose": 0, "threads": 1}
    if case.network:
        sim = tati_re.Simulation(**case.network, **given)
        shape = (walkers, sim.num_parameters())
        sim.parameters = 0.5 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    else:
        potential, dimension = in_tensorflow(case.target), case.target.dimension
        sim = tati_re.Simulation(potential=potential, dimension=dimension, **given)
        sim.parameters = case.target.starts(walkers, 0)

    def drawn(num_steps: int, **options):
        steps = max(400, int(share * num_steps))
        every = max(1, steps // 2 // NUM_ROWS)
        with tempfile.TemporaryDirectory() as folder:
            kept = {
                "trajectory_every": every,
                "record_every": every,
                "output": str(Path(folder) / "run"),
            }
            run = sim.sample(num_steps=steps, trajectory_format="h5", **kept, **options)
            return variances(run, case.observed, walkers), run.certificate.set_index("check")

    (found, each), certificate = drawn(case.num_steps, until=None, **options)
    reference, of_reference = case.variance, 0.0 * each
    if reference is None:
        (reference, of_reference), _ = drawn(case.num_reference_steps, **EXACT)
    row = certificate.loc["bias from the step size"]
    relative = found / reference - 1
    parts = [each / reference, of_reference / reference * (found / reference)]
    error = math.sqrt(sum(part.mean(axis=1).var(ddof=1) for part in parts) / walkers)
    errors = np.sqrt(sum(part.var(axis=0, ddof=1) for part in parts) / walkers)
    worst = int(np.argmax(abs(relative)))
    mean = float(relative.mean())
    return {
        "bound": float(row["value"]),
        "verdict": row["verdict"],
        "mean": mean,
        "error": error,
        "worst": float(relative[worst]),
        "error of it": float(errors[worst]),
        "of": worst,
        "beyond": (abs(mean) - float(row["value"])) / error,
        "burn-in": certificate.loc["burn-in", "value"],
        "R-hat": certificate.loc["R-hat", "value"],
        "ess": certificate.loc["ESS", "value"],
        **(
            {"squares": relative[-1], "U": relative[-2], "outputs": relative[:-2].mean()}
            if case.network
            else {}
        ),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Prints a line for each target."""
    parser = argparse.ArgumentParser(
        description="The default's bias beside the bound of its certificate."
    )
    parser.add_argument(
        "targets", nargs="*", metavar="NAME", help=f"of {', '.join(CASES)}; default: all"
    )
    parser.add_argument("--num-walkers", type=int, default=NUM_WALKERS, metavar="N")
    parser.add_argument(
        "--share", type=float, default=1.0, metavar="X", help="of the steps; default 1"
    )
    parser.add_argument(
        "--target-bias", type=float, default=None, metavar="B", help="default: what the preset has"
    )
    arguments = parser.parse_args(argv)
    unknown = [name for name in arguments.targets if name not in CASES]
    if unknown:
        parser.error(
            f"no such target. Received: {', '.join(unknown)}. Expected: {', '.join(CASES)}"
        )
    options = {} if arguments.target_bias is None else {"target_bias": arguments.target_bias}
    for name in arguments.targets or CASES:
        found = measured(name, arguments.num_walkers, arguments.share, options)
        said = (
            f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
            for key, value in found.items()
        )
        print(f"{name}: {', '.join(said)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
