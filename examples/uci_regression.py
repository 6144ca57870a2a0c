"""Bayesian regression on three UCI sets: the test error of every stochastic-gradient sampler beside
a long HMC.

A network of one hidden layer with 50 tanh units, prior standard deviation 1 on every parameter,
Gaussian noise. Inputs and target are scaled to mean 0 and variance 1 on the training set, 90 % of
the rows drawn at random. The noise is chosen by validation: four networks are fitted with Adam to
80 % of the training set, and the standard deviation of the noise is the root mean squared residual
of their mean prediction on the other 20 %. Then four walkers descend with Adam on the whole
training set, and every sampler starts from where they arrive; a third of its steps are burn-in.

`auto` is `preset="auto"`, which chooses sampler, batches, step, masses, friction, burn-in and end
by itself; what its certificate holds against it is printed. Of the others no sampler is tuned to a
data set. With k the largest eigenvalue of the Hessian where the walkers start, all Langevin methods
have the step size 0.3/sqrt(k) and the friction 0.03 sqrt(k), SGLD and LM have 0.2/k, pSGLD 0.001/N,
all with mini-batches of 100 examples: of shuffled epochs, or, for those that take out the heat of
mini-batches (SGHMC, CCAdL, mCCAdL), drawn with replacement. HMC sees all data at each of 300
leapfrog steps and tunes its step size in the burn-in.

    python examples/uci_regression.py --data FOLDER [--samplers SGLD ...] [--num-splits 1]
    [--num-steps 60000]
        [--num-auto-steps N] [--num-trajectories 3000] [--threads N] [--output DIR]

FOLDER/uci holds yacht.txt, concrete.txt and energy.txt: one row an example, target last. Writes
results.csv and figure.png to the output folder, in about three quarters of an hour a split on two
cores, half of it HMC: test negative log likelihood (of the posterior predictive density, in the
target's units) and root mean squared error of the mean prediction, with the standard error that
four walkers leave (jackknife), the temperatures, and R-hat of the test error. What results.csv has
already, run as long, is not run again. Of several splits means and the standard errors that the
splits leave are printed at the end, and how often the certificate of `auto` failed, and in
what.

Published beside it: dropout with a network of the same size, mean and standard deviation over 20
splits, as its authors list them in the repository yaringal/DropoutUncertaintyExps (Y. Gal, Z.
Ghahramani, Dropout as a Bayesian approximation, ICML 2016, and the same trained ten times longer).
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from published import published

import tati_re

DATA_SETS = ("yacht", "concrete", "energy")
PUBLISHED = published("dropout")
"""RMSE and log likelihood of dropout: of the paper, and trained ten times longer."""

NUM_UNITS = 50
NUM_WALKERS = 4
BATCH_SIZE = 100
FRICTION = 0.03
TEST_PART, VALIDATION_PART = 0.1, 0.2
FIRST_NOISE_STD = 0.1
"""Of the fit that chooses the noise."""
START_STD = 0.3
"""Standard deviation of the parameters before the fit, each walker its own."""
NUM_DRAWS = 100
"""Stored positions of each walker."""
SMALLEST_NUM_STEPS = 150


class Method(NamedTuple):
    """A sampler of the comparison.

    Attributes:
        sampler: Its option name.
        step_size: Function of k, the largest eigenvalue of the Hessian, and N, the number of
            examples.
        options: Its own options.
    """

    sampler: str
    step_size: Callable[[float, int], float]
    options: dict


def langevin(k: float, n: int) -> float:
    """Step size of the methods with momenta."""
    return 0.3 / math.sqrt(k)


def overdamped(k: float, n: int) -> float:
    """Step size of the methods without."""
    return 0.2 / k


METHODS = (
    Method("SGLD", overdamped, {}),
    Method("LM", overdamped, {}),
    Method("pSGLD", lambda k, n: 0.001 / n, {}),
    Method("BAOAB", langevin, {}),
    Method("SGHMC", langevin, {"gradient_noise": "estimate"}),
    Method("SGNHT", langevin, {}),
    Method("BADODAB", langevin, {}),
    Method("CCAdL", langevin, {}),
    Method("mCCAdL", langevin, {}),
)
AUTO = Method("auto", langevin, {"preset": "auto", "batch_size": None})
"""Chooses for itself; the step size of its rule is not used."""
REFERENCE = Method(
    "HMC", langevin, {"num_leapfrog_steps": 300, "target_acceptance": 0.8, "batch_size": None}
)


class Sizes(NamedTuple):
    """How long everything runs; `fit` is learning rate and number of steps of Adam, one after the
    other.
    """

    num_steps: int = 60_000
    num_reference_steps: int = 3_000
    num_auto_steps: int | None = None
    fit: tuple[tuple[float, int], ...] = ((0.01, 3_000), (0.001, 2_000))
    threads: int | None = None

    def steps_of(self, method: Method) -> int | None:
        """Of one method; None: as many as it takes."""
        return {"HMC": self.num_reference_steps, "auto": self.num_auto_steps}.get(
            method.sampler, self.num_steps
        )


QUICK = Sizes(300, 150, 600, ((0.01, 200),))


class Split(NamedTuple):
    """Scaled rows of training and test set, target last, and the target's scale."""

    train: np.ndarray
    test: np.ndarray
    target_std: float


class Score(NamedTuple):
    """What one sampler reached on one split.

    Attributes:
        data: Name of the set.
        split: Number of the split.
        sampler: Name.
        nll: Test negative log likelihood, a mean over examples, in nats, in the target's units.
        nll_error: Its standard error, from the differences of the walkers.
        rmse: Root mean squared error of the mean prediction, in the target's units.
        rmse_error: Its standard error.
        r_hat: Of the mean squared test error over the draws.
        kinetic_temperature: p'p/P, 1 where the momenta are right; nan without momenta.
        configurational_temperature: θ·∇U/P, 1 where the positions are right.
        passes: Over the training data.
        failed: Checks of the certificate that failed; of `auto` only.
    """

    data: str
    split: int
    sampler: str
    nll: float
    nll_error: float
    rmse: float
    rmse_error: float
    r_hat: float
    kinetic_temperature: float
    configurational_temperature: float
    passes: float
    failed: str = ""


def read(folder: Path, name: str) -> np.ndarray:
    """Rows of a UCI set, target last."""
    path = folder / "uci" / f"{name}.txt"
    if not path.is_file():
        raise tati_re.InputError(
            f"--data: there is no uci/{name}.txt.", folder, "a folder with uci/*.txt"
        )
    return np.loadtxt(path)


def generated(num_examples: int = 200, seed: int = 0) -> np.ndarray:
    """Rows of a smooth function of three inputs with noise of standard deviation 0.1, target
    last.
    """
    random = np.random.default_rng(seed)
    x = random.uniform(-1, 1, (num_examples, 3))
    y = np.sin(2 * x[:, 0]) + x[:, 1] * x[:, 2] + 0.1 * random.standard_normal(num_examples)
    return np.column_stack([x, y])


def split_of(rows: np.ndarray, number: int) -> Split:
    """A random split, scaled by mean and standard deviation of its training set."""
    rows = rows[np.random.default_rng(number).permutation(len(rows))]
    size = round((1 - TEST_PART) * len(rows))
    mean, std = rows[:size].mean(axis=0), rows[:size].std(axis=0)
    scaled = ((rows - mean) / np.where(std > 0, std, 1.0)).astype(np.float32)
    return Split(scaled[:size], scaled[size:], float(std[-1]))


def fitted(
    train: np.ndarray, test: np.ndarray, noise_std: float, seed: int, sizes: Sizes
) -> tati_re.Simulation:
    """A simulation whose walkers Adam has brought to minima, each from a random start of its
    own.
    """
    sim = tati_re.Simulation(
        data=((train[:, :-1], train[:, -1:]), (test[:, :-1], test[:, -1:])),
        hidden=[NUM_UNITS],
        activation="tanh",
        loss="gaussian",
        noise_std=noise_std,
        prior_std=1.0,
        num_walkers=NUM_WALKERS,
        threads=sizes.threads,
        seed=seed,
        verbose=0,
    )
    shape = (NUM_WALKERS, sim.num_parameters())
    sim.parameters = START_STD * np.random.default_rng(seed).standard_normal(shape)
    for learning_rate, num_steps in sizes.fit:
        sim.fit(
            optimizer="adam",
            learning_rate=learning_rate,
            num_steps=num_steps,
            batch_size=min(BATCH_SIZE, len(train)),
            record_every=num_steps,
            trajectory_every=0,
            seed=seed,
        )
    return sim


def noise_by_validation(train: np.ndarray, seed: int, sizes: Sizes) -> float:
    """Root mean squared residual of the walkers' mean prediction on a part of the training rows
    that no walker saw.
    """
    size = round((1 - VALIDATION_PART) * len(train))
    part, rest = train[:size], train[size:]
    sim = fitted(part, rest, FIRST_NOISE_STD, seed, sizes)
    return float(
        np.sqrt(np.mean((sim.predict(rest[:, :-1]).mean(axis=0)[:, 0] - rest[:, -1]) ** 2))
    )


def largest_eigenvalue(sim: tati_re.Simulation) -> float:
    """Largest over the walkers, of the Hessian of U on all data, by 30 steps of the power
    iteration.
    """
    vectors = (
        np.random.default_rng(0)
        .standard_normal((NUM_WALKERS, sim.num_parameters()))
        .astype(np.float32)
    )
    for _ in range(30):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors = sim.hessian_vector_product(vectors)
    return float(np.linalg.norm(vectors, axis=1).max())


def errors_of(
    outputs: np.ndarray, targets: np.ndarray, noise_std: float, scale: float
) -> np.ndarray:
    """Negative log likelihood of the mixture of all draws, and root mean squared error of their
    mean.

    Args:
        outputs: Predictions `(walkers, draws, examples)`.
        targets: `(examples,)`.
        noise_std: Of the likelihood, in scaled units as the other two.
        scale: Standard deviation of the target.
    """
    outputs = outputs.reshape(-1, len(targets)).astype(np.float64)
    log_density = -0.5 * ((outputs - targets) / noise_std) ** 2 - math.log(
        noise_std * scale * math.sqrt(2 * math.pi)
    )
    nll = -np.mean(np.logaddexp.reduce(log_density, axis=0) - math.log(len(outputs)))
    return np.array([nll, scale * np.sqrt(np.mean((outputs.mean(axis=0) - targets) ** 2))])


def with_errors(outputs: np.ndarray, *others) -> tuple[np.ndarray, np.ndarray]:
    """`errors_of` all walkers, and the standard error by leaving out one walker at a time
    (jackknife).
    """
    without = np.array(
        [errors_of(np.delete(outputs, walker, axis=0), *others) for walker in range(NUM_WALKERS)]
    )
    return errors_of(outputs, *others), np.sqrt((NUM_WALKERS - 1) * without.var(axis=0))


def sampled(
    method: Method, sim: tati_re.Simulation, k: float, num_examples: int, num_steps: int | None
):
    """The run of one method from where the walkers are."""
    seed = sim.options.seed  # Whichever samplers ran before.
    if method is AUTO:
        return sim.sample(
            **({"num_steps": num_steps} if num_steps else {}), seed=seed, **AUTO.options
        )
    assert num_steps is not None
    burnin = num_steps // 3
    options = {
        "batch_size": min(BATCH_SIZE, num_examples),
        "friction": FRICTION * math.sqrt(k),
        **method.options,
    }
    options |= {
        "sampler": method.sampler,
        "step_size": method.step_size(k, num_examples),
        "num_burnin_steps": burnin,
    }
    options["trajectory_every"] = max(1, (num_steps - burnin) // NUM_DRAWS)
    return sim.sample(
        num_steps=num_steps, seed=seed, record_every=max(1, num_steps // 2_000), **options
    )


def score(
    method: Method,
    sim: tati_re.Simulation,
    k: float,
    split: Split,
    noise_std: float,
    steps: int | None,
) -> tuple:
    """Samples with one method from where the walkers are, and scores its predictions; the fields of
    Score from nll.
    """
    from tati_re.analysis import r_hat, stored_positions

    num_examples = len(split.train)
    run = sampled(method, sim, k, num_examples, steps)
    certificate = run.certificate if method is AUTO else None
    failed = (
        ""
        if certificate is None
        else "; ".join(certificate["check"][certificate["verdict"] == "failed"])
    )
    num_steps, burnin = (
        int(run.run_info["step"].max()),
        int(run.manifest["options"]["num_burnin_steps"]),
    )
    inputs, targets = split.test[:, :-1], split.test[:, -1]
    outputs: list[list[np.ndarray]] = [[] for _ in range(NUM_WALKERS)]
    for position in stored_positions(run):
        outputs[position.walker].append(sim.predict(inputs, position.parameters)[:, 0])
    drawn = np.array(outputs)
    (nll, rmse), (nll_error, rmse_error) = with_errors(drawn, targets, noise_std, split.target_std)
    rows = run.run_info[run.run_info["step"] > burnin]
    kinetic, configurational = (
        2 * float(rows[name].mean()) / sim.num_parameters() for name in ("kinetic_energy", "virial")
    )
    hat = float(r_hat(((drawn - targets) ** 2).mean(axis=-1)))
    passes = passes_of(method, num_examples, num_steps)
    return (
        float(nll),
        float(nll_error),
        float(rmse),
        float(rmse_error),
        hat,
        kinetic,
        configurational,
        passes,
        failed,
    )


def passes_of(method: Method, num_examples: int, num_steps: int) -> float:
    """Over the training data."""
    batch_size = method.options.get("batch_size", min(BATCH_SIZE, num_examples)) or num_examples
    return method.options.get("num_leapfrog_steps", 1) * num_steps * batch_size / num_examples


def compare(
    name: str,
    rows: np.ndarray,
    number: int,
    methods: Sequence[Method],
    sizes: Sizes,
    before: Sequence[Score],
) -> Iterator[Score]:
    """Methods on one split of one set, but for those that ran before, as long as now."""
    split = split_of(rows, number)

    def ran(method: Method) -> bool:
        passes = passes_of(method, len(split.train), sizes.steps_of(method) or 0)
        same = [found for found in before if found[:3] == (name, number, method.sampler)]
        return any(
            method is AUTO or math.isclose(found.passes, passes, rel_tol=1e-4) for found in same
        )

    methods = [method for method in methods if not ran(method)]
    if not methods:
        return
    noise_std = noise_by_validation(split.train, number, sizes)
    sim = fitted(split.train, split.test, noise_std, number, sizes)
    start, k = sim.parameters.copy(), largest_eigenvalue(sim)
    print(
        f"\n{name}, split {number}: {len(split.train)} + {len(split.test)} rows, {sim.num_parameters()} parameters, "
        f"noise {noise_std:.3f} of the target's deviation {split.target_std:.4g}, largest eigenvalue {k:.3g}\n"
        f"{'':10}{'test NLL':19}{'test RMSE':19}R-hat   kinetic T   configurational T   passes over the data",
        flush=True,
    )
    for method in methods:
        sim.parameters = start
        try:
            numbers = score(method, sim, k, split, noise_std, sizes.steps_of(method))
        except tati_re.SamplingError as error:
            print(f"{method.sampler:10}{error}", flush=True)
            continue
        found = Score(name, number, method.sampler, *numbers)
        cells = (
            f"{found.nll:.3f} ± {found.nll_error:.3f}",
            f"{found.rmse:.3f} ± {found.rmse_error:.3f}",
        )
        kinetic = (
            "-" if math.isnan(found.kinetic_temperature) else f"{found.kinetic_temperature:.3f}"
        )
        print(
            f"{found.sampler:10}{cells[0]:19}{cells[1]:19}{found.r_hat:<8.2f}{kinetic:12}"
            f"{found.configurational_temperature:<20.3f}{found.passes:,.0f}"
            + f"; failed: {found.failed or 'nothing'}"
            * (method is AUTO),
            flush=True,
        )
        yield found
    for label in ("dropout", "trained longer"):
        if row := PUBLISHED.get(f"{name}, {label}"):
            print(f"published, {label}: RMSE {row[0]}, log likelihood {row[1]}")


def stored(output: Path) -> list[Score]:
    """What results.csv has already."""
    path = output / "results.csv"
    if not path.is_file():
        return []
    with path.open() as file:
        rows = list(csv.DictReader(file))
    numbers = [[float(row[field] or "nan") for field in Score._fields[3:-1]] for row in rows]
    return [
        Score(
            row["data"],
            int(row["split"]),
            row["sampler"],
            *own,
            row.get("failed", row.get("outside")) or "",
        )
        for row, own in zip(rows, numbers, strict=True)
    ]


def write(scores: Sequence[Score], output: Path) -> None:
    """Writes results.csv."""
    lines = [
        ",".join("" if v != v else f"{v:.6g}" if isinstance(v, float) else str(v) for v in s)
        for s in scores
    ]
    try:
        output.mkdir(parents=True, exist_ok=True)
        (output / "results.csv").write_text("\n".join([",".join(Score._fields), *lines, ""]))
    except OSError as error:
        raise tati_re.InputError(
            f"The results cannot be written: {error.strerror}.", output
        ) from None


def summary(scores: Sequence[Score]) -> Iterator[str]:
    """A line for each sampler that ran on several splits of a set: means, and standard errors by
    the splits.
    """
    for name, sampler in dict.fromkeys((found.data, found.sampler) for found in scores):
        same = [found for found in scores if (found.data, found.sampler) == (name, sampler)]
        if len(same) < 2:
            continue
        numbers = np.array([(found.nll, found.rmse, found.r_hat) for found in same])
        (nll, rmse, _), errors = (
            numbers.mean(axis=0),
            numbers.std(axis=0, ddof=1) / math.sqrt(len(same)),
        )
        line = f"{name}, {sampler}, {len(same)} splits: NLL {nll:.3f} ± {errors[0]:.3f}"
        hats = numbers[:, 2].min(), numbers[:, 2].max()
        line += f", RMSE {rmse:.3f} ± {errors[1]:.3f}, R-hat of the test error {hats[0]:.2f} to {hats[1]:.2f}"
        if sampler == AUTO.sampler:
            failed = [row for found in same for row in filter(None, found.failed.split("; "))]
            counts = ", ".join(f"{row} {failed.count(row)}" for row in dict.fromkeys(failed))
            line += f"; certificate failed: {counts or 'never'}"
        yield line


def draw(scores: Sequence[Score], path: Path) -> None:
    """Draws NLL and RMSE of every sampler, means over the splits, with HMC's value and error as a
    band.
    """
    from tati_re.plotting import COLORS, DARK, new_figure, plain, save

    names = [
        name for name in (*DATA_SETS, "generated") if any(found.data == name for found in scores)
    ]
    samplers = [
        m.sampler
        for m in (*METHODS, AUTO, REFERENCE)
        if any(found.sampler == m.sampler for found in scores)
    ]
    figure = new_figure(3.4 * len(names) + 0.8, 0.5 * len(samplers) + 2.6)
    panels = figure.subplots(2, len(names), squeeze=False, sharey=True)
    for row, (quantity, title) in enumerate((("nll", "test NLL"), ("rmse", "test RMSE"))):
        for axes, name in zip(panels[row], names, strict=True):
            for place, sampler in enumerate(samplers):
                same = [found for found in scores if (found.data, found.sampler) == (name, sampler)]
                if not same:
                    continue
                mean = np.mean([getattr(found, quantity) for found in same])
                error = np.sqrt(
                    np.sum([getattr(found, quantity + "_error") ** 2 for found in same])
                ) / len(same)
                color = DARK if sampler == REFERENCE.sampler else COLORS[0]
                if sampler == REFERENCE.sampler:
                    axes.axvspan(mean - error, mean + error, color=DARK, alpha=0.15, linewidth=0)
                    axes.axvline(mean, color=DARK, linewidth=0.8, linestyle="--")
                axes.errorbar(
                    mean, place, xerr=error, fmt="o", color=color, markersize=5, capsize=2
                )
            axes.set_yticks(range(len(samplers)), samplers)
            axes.set_ylim(len(samplers) - 0.5, -0.5)
            axes.set_xlabel(f"{title} (less is better)")
            axes.locator_params(axis="x", nbins=5)
            plain(axes)
            if row == 0:
                axes.set_title(name, fontsize=11, loc="left")
    save(figure, path)


def experiment(
    data: Path | None,
    names: Sequence[str],
    samplers: Sequence[str],
    num_splits: int,
    sizes: Sizes,
    output: Path,
) -> None:
    """Runs all splits of all sets; without a folder a generated set and one method only.

    Args:
        data: The folder.
        names: Of the sets.
        samplers: Names.
        num_splits: Random splits of each.
        sizes: Of the runs.
        output: Folder of the files.

    Raises:
        InputError: A file that is not there, too few steps, or a folder that cannot be written.
    """
    asked = {"--num-steps": sizes.num_steps, "--num-trajectories": sizes.num_reference_steps}
    if sizes.num_auto_steps is not None:
        asked |= {"--num-auto-steps": sizes.num_auto_steps}
    for flag, number in asked.items():
        if number < SMALLEST_NUM_STEPS:
            raise tati_re.InputError(
                f"{flag} is too small.", number, f"at least {SMALLEST_NUM_STEPS}"
            )
    if num_splits < 1:
        raise tati_re.InputError("--num-splits is too small.", num_splits, "at least 1")
    tables = (
        {"generated": generated()} if data is None else {name: read(data, name) for name in names}
    )
    methods = [method for method in (*METHODS, AUTO, REFERENCE) if method.sampler in samplers]
    scores = stored(output)
    for number in range(num_splits):
        for name, rows in tables.items():
            for found in compare(name, rows, number, methods, sizes, scores):
                scores = [other for other in scores if other[:3] != found[:3]] + [found]
                write(scores, output)
    draw(scores, output / "figure.png")
    print(*summary(scores), sep="\n")
    print(f"\n{output / 'results.csv'}, {output / 'figure.png'}")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiment; the exit status is 2 for bad input."""
    parser = argparse.ArgumentParser(
        description="Bayesian regression on UCI sets: every sampler beside HMC."
    )
    parser.add_argument(
        "--data", type=Path, metavar="FOLDER", help="folder that holds uci/yacht.txt and the others"
    )
    parser.add_argument(
        "--sets", nargs="+", choices=DATA_SETS, default=DATA_SETS, help="default: all three"
    )
    names = [method.sampler for method in (*METHODS, AUTO, REFERENCE)]
    parser.add_argument("--samplers", nargs="+", choices=names, help="default: all, HMC last")
    parser.add_argument(
        "--num-splits", type=int, default=1, metavar="N", help="random splits of each; default 1"
    )
    parser.add_argument(
        "--num-steps", type=int, default=None, metavar="N", help="of a sampler; default 60,000"
    )
    text = (
        "most steps of auto; default: it goes on beyond 100,000 where it can tell how many it takes"
    )
    parser.add_argument("--num-auto-steps", type=int, default=None, metavar="N", help=text)
    text = "trajectories of HMC, of 300 steps each; default 3,000"
    parser.add_argument("--num-trajectories", type=int, default=None, metavar="N", help=text)
    parser.add_argument(
        "--threads", type=int, default=None, metavar="N", help="of TensorFlow; default: it decides"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a generated set, one sampler beside HMC, in seconds"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/uci_regression"), metavar="DIR"
    )
    arguments = parser.parse_args(argv)
    sizes = (QUICK if arguments.quick else Sizes())._replace(threads=arguments.threads)
    if arguments.num_auto_steps is not None:
        sizes = sizes._replace(num_auto_steps=arguments.num_auto_steps)
    if arguments.num_steps is not None:
        sizes = sizes._replace(num_steps=arguments.num_steps)
    if arguments.num_trajectories is not None:
        sizes = sizes._replace(num_reference_steps=arguments.num_trajectories)
    try:
        if arguments.data is None and not arguments.quick:
            raise tati_re.InputError(
                "--data is missing.", None, "a folder with uci/*.txt, or --quick"
            )
        data = None if arguments.quick else arguments.data
        samplers = arguments.samplers or (
            ["BADODAB", AUTO.sampler, REFERENCE.sampler] if arguments.quick else names
        )
        experiment(data, arguments.sets, samplers, arguments.num_splits, sizes, arguments.output)
    except (tati_re.InputError, tati_re.SamplingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
