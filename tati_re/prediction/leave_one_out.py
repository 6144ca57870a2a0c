"""Leave-one-out predictions without leaving out: Pareto-smoothed importance sampling on the draws
of a run.
"""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from tati_re.analysis.convergence import array_stats
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.views import viewable
from tati_re.prediction.draws import independent_draws
from tati_re.prediction.named import has_named_parameters, log_likelihoods_of
from tati_re.prediction.network import likelihood_blocks, likelihood_of
from tati_re.runs import files
from tati_re.runs.checked_tables import read_table
from tati_re.runs.csv_table import frame_text
from tati_re.runs.derived_tables import path_since_draws
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.runs.positions import Block, Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run
from tati_re.runs.storage import write_whole

LEAST_DRAWS = 25
_MOST_DRAWS = 4_000
_COLUMNS = ("example", "elpd", "pareto_k")


@front_doors
@viewable
@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """The expected log predictive density (elpd) of new examples, from leave-one-out predictions.

    Attributes:
        example: Indices of the examples used, `(n,)`.
        elpd: log p(y_i | all other examples), in the units of the data, `(n,)`.
        pareto_k: Tail shape of the importance weights, `(n,)`. Above `largest_k`, elpd is not
            reliable.
        num_examples: Number of training examples. If n is smaller, sums are scaled up to it.
        num_draws: S, the number of posterior draws that were weighted.
    """

    example: np.ndarray
    elpd: np.ndarray
    pareto_k: np.ndarray
    num_examples: int
    num_draws: int

    @property
    def largest_k(self) -> float:
        """The largest reliable tail shape for S draws, min(1 - 1/log10 S, 0.7) (Vehtari et al.,
        2024).

        It is 0.67 for 1,000 draws.
        """
        return min(0.7, 1 - 1 / math.log10(self.num_draws))

    @property
    def total(self) -> tuple[float, float]:
        """Returns the sum of elpd over all examples, and its standard error."""
        return _total(self.elpd, self.num_examples)

    @property
    def unreliable(self) -> int:
        """Number of examples with a Pareto k above `largest_k`."""
        return int((self.pareto_k > self.largest_k).sum())

    def difference(self, other: "LeaveOneOut") -> tuple[float, float]:
        """Returns elpd of `other` minus this one over all examples, and its standard error.

        The error is computed from paired differences, so shared variation cancels.

        Args:
            other: The estimate of another run on the same examples.

        Returns:
            The difference in nats, and its standard error.

        Raises:
            InputError: The examples differ.
        """
        if (
            not np.array_equal(self.example, other.example)
            or self.num_examples != other.num_examples
        ):
            raise InputError(
                "elpd: the runs have different examples.",
                f"{self.num_examples} and {other.num_examples}",
            )
        return _total(other.elpd - self.elpd, self.num_examples)

    def frame(self) -> pd.DataFrame:
        """Returns one row per example: `example`, `elpd`, `pareto_k` and a constant `num_draws`."""
        return pd.DataFrame({name: vars(self)[name] for name in (*_COLUMNS, "num_draws")})

    def __str__(self) -> str:
        total, error = self.total
        subsample = (
            "" if len(self.elpd) == self.num_examples else f", from {len(self.elpd):,} of them"
        )
        return (
            f"elpd {total:.1f} +- {error:.1f} of {self.num_examples:,} examples{subsample}; "
            f"Pareto k above {self.largest_k:.2g}: {self.unreliable} of {len(self.elpd):,}"
        )


@front_door
def leave_one_out(
    run: AnyRun,
    burnin: int | None = None,
    data: Any = None,
    model: Any = None,
    most_examples: int = 1_000,
) -> LeaveOneOut:
    """Estimates by PSIS-LOO how well the posterior of a run predicts an unseen example.

    It estimates Σ log p(y_i | y without y_i) from draws of the full posterior, weighted by 1/p(y_i
    | θ) with the largest weights smoothed (Vehtari, Gelman, Gabry, 2017), using arviz-stats. The
    result is stored as `loo.csv` in the run folder, where the summary and `tati-compare --elpd`
    read it. The standard error covers the choice of examples, not the Monte Carlo error of the
    draws.

    Args:
        run: The run, or its folder. It must have T = 1, a likelihood, and draws of equal weight.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        data: The data set of the run. Default: None, the data of a run made in this process,
            otherwise read from the source in the manifest.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        most_examples: Largest number of examples to use. From a larger data set, a random subset is
            drawn, the same for all runs. Default: 1,000.

    Returns:
        The estimate for each example.

    Raises:
        InputError: There is no likelihood, T is not 1, draws have weights, or data or stored
            positions are missing.
    """
    run = as_run(run)
    warn_of_failed_checks(run)
    refuse_other_temperature(run, "elpd")
    named = has_named_parameters(run)
    network: Any = None
    if not named:
        data, network = likelihood_of(run, data, model)
    stored = Positions(run, burnin, 1).read()
    refuse_weighted_draws(stored, "elpd")
    draws = np.lexsort((stored.step, stored.walker))
    problem = "elpd: too few draws to smooth their largest weights."
    refuse_if(
        len(draws) < LEAST_DRAWS,
        problem,
        f"{len(draws)} after the burn-in",
        f"at least {LEAST_DRAWS}",
    )
    draws = draws[:: math.ceil(len(draws) / _MOST_DRAWS)]
    if named:
        logs = log_likelihoods_of(run, stored.values[draws])
        count = logs.shape[1]
        left_out_rows = chosen_rows(count, most_examples)
        logs = logs[:, left_out_rows]
    else:
        count = data.num_examples
        left_out_rows = chosen_rows(count, most_examples)
        logs = np.concatenate(
            [part for part, _, _ in likelihood_blocks(network, data, stored, draws, left_out_rows)]
        )
    efficiency = relative_efficiency(logs, stored.step[draws], stored.walker[draws])
    # Draws that a Metropolis test repeats may be all of a tail: no Pareto law fits it, and weights
    # stay as they are.
    elpd, k = np.full((2, len(left_out_rows)), np.nan)
    for i in range(len(left_out_rows)):
        with np.errstate(divide="ignore", invalid="ignore"), suppress(ValueError):
            elpd[i], k[i], _ = array_stats().loo(logs[None, :, i], r_eff=efficiency)
    tied = ~np.isfinite(elpd) | ~np.isfinite(k)
    raw = math.log(len(draws)) - logsumexp(-logs, axis=0)
    result = LeaveOneOut(
        left_out_rows, np.where(tied, raw, elpd), np.where(tied, np.inf, k), count, len(draws)
    )
    table = result.frame()
    table = table.assign(num_examples=count) if named else table
    write_whole(run.folder / files.LOO, frame_text(table))
    return result


def chosen_rows(count: int, most: int) -> np.ndarray:
    """Row numbers chosen at random, rising; every call chooses the same.

    Args:
        count: The number of rows.
        most: The number of rows to choose; all if there are no more.

    Returns:
        Numbers of rows, shape (min(count, most),).
    """
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(count).choice(count, most, replace=False))


def refuse_other_temperature(run: RunFiles, about: str) -> None:
    """Refuses a run that did not sample the posterior.

    Args:
        run: The run.
        about: What needs it, the first word of the message.

    Raises:
        InputError: Another temperature than 1.
    """
    temperature = run.manifest.temperature
    if temperature != 1:
        raise InputError(
            f"{about}: leaving out needs the posterior.",
            "no temperature" if temperature is None else f"T = {temperature:g}",
            "T = 1",
        )


def refuse_weighted_draws(stored: Block, about: str) -> None:
    """Refuses draws that do not count alike, such as those of simulated tempering.

    Args:
        stored: The stored draws.
        about: What needs draws of equal weight, the first word of the message.

    Raises:
        InputError: Draws of different weights.
    """
    weight = stored.weight
    if weight is None or np.ptp(weight) == 0:
        return
    problem = f"{about}: the draws of this run have different weights."
    received = f"weights from {weight.min():.3g} to {weight.max():.3g}"
    expected = "a run without bias or simulated tempering"
    raise InputError(problem, received, expected)


def relative_efficiency(logs: np.ndarray, step: np.ndarray, walker: np.ndarray) -> float:
    """Independent draws per draw, by the autocorrelation of the log likelihood.

    Args:
        logs: log p(y_i | θ) of draws and examples, shape (draws, n).
        step: The step of each draw, shape (draws,).
        walker: The walker of each draw, shape (draws,).

    Returns:
        A number in (0, 1]; 1 where it is not known, of draws of many short walkers.
    """
    independent = independent_draws(logs.sum(axis=-1), step, walker, np.ones(len(logs)))
    efficiency = independent / len(logs)
    return 1.0 if np.isnan(efficiency) else float(efficiency)


def left_out_weights(logs: np.ndarray, efficiency: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the weights with which draws leave out an example, each column's sum 1.

    Args:
        logs: log p(y_i | θ) of draws and examples, shape (draws, n).
        efficiency: Independent draws per draw. Default: 1.

    Returns:
        Smoothed importance weights, shape (draws, n), unsmoothed where no tail can be fitted; and
        Pareto k of each example, shape (n,), infinite there.
    """
    smooth = -logs
    pareto_k = np.full(logs.shape[1], np.inf)
    for row in range(logs.shape[1]):
        with np.errstate(all="ignore"):
            try:
                weights, k = array_stats().psislw(logs[:, row], r_eff=efficiency)
            except ValueError:
                continue
        if np.isfinite(k) and not np.isnan(weights).any():
            smooth[:, row] = weights
            pareto_k[row] = k
    return smooth - logsumexp(smooth, axis=0), pareto_k


def stored_leave_one_out(run: RunFiles) -> LeaveOneOut | None:
    """What an earlier call found, None where there was none since the run stored positions."""
    path = path_since_draws(run, files.LOO)
    if path is None:
        return None
    table = read_table(path)
    if missing := set(_COLUMNS) - set(table):
        raise InputError(
            f"{path} is not a table of run.loo().", f"no column {min(missing)}", ", ".join(_COLUMNS)
        )
    if "num_draws" not in table:  # of an earlier version
        return None
    example, elpd, k = (table[name].to_numpy() for name in _COLUMNS)
    count = run.manifest.dataset.num_examples or 0
    if "num_examples" in table:
        count = int(table["num_examples"].max())
    return LeaveOneOut(example, elpd, k, count, int(table["num_draws"].max()))


def _total(values: np.ndarray, num_examples: int) -> tuple[float, float]:
    spread = float(values.std(ddof=1)) if len(values) > 1 else float("nan")
    return num_examples * float(values.mean()), num_examples * spread / math.sqrt(len(values))
