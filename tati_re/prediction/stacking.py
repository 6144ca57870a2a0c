"""Weights of chains that have not mixed: stacking of their predictive distributions."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import minimize
from scipy.special import logsumexp

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import viewable
from tati_re.prediction.draws import Draws
from tati_re.prediction.leave_one_out import (
    LEAST_DRAWS,
    LeaveOneOut,
    chosen_rows,
    leave_one_out,
    left_out_weights,
    refuse_other_temperature,
    refuse_weighted_draws,
    relative_efficiency,
)
from tati_re.prediction.network import likelihood_blocks, likelihood_of
from tati_re.runs import files
from tati_re.runs.csv_table import frame_text
from tati_re.runs.derived_tables import derived_table, has_numbers
from tati_re.runs.manifest import Manifest, check_data
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run
from tati_re.runs.storage import write_whole

EQUAL, STACKING = "equal", "stacking"
WEIGHTS = (EQUAL, STACKING)
"""Values of the option `weights`."""

MOST_DRAWS = 200
"""Draws of a chain that are used at most, evenly along it."""
MOST_ROWS = 1_000
_ROUNDS = 500
_TOLERANCE = 1e-9
_LEAST_WEIGHT = 1e-6
"""Smaller weights are 0, within what 1,000 rows can tell."""
_COLUMNS = ("walker", "weight", "elpd")


@front_doors
@viewable
@dataclass(frozen=True, eq=False)
class Stacking:
    """Weights of the chains of a run from their leave-one-out predictive density.

    Attributes:
        weight: Weights, which sum to 1, shape (chains,).
        elpd: Leave-one-out log density per row of each single chain, shape (chains,), in nats.
        equal: Leave-one-out log density per row of all chains with equal weights, in nats.
        stacked: Leave-one-out log density per row of all chains with these weights, in nats.
        rows: Number of training rows left out one by one.
    """

    weight: np.ndarray
    elpd: np.ndarray
    equal: float
    stacked: float
    rows: int

    def frame(self) -> pd.DataFrame:
        """Returns one row per chain: `walker`, `weight`, `elpd`, and the constants `equal`,
        `stacked`, `rows`.
        """
        table = pd.DataFrame(
            {"walker": np.arange(len(self.weight)), "weight": self.weight, "elpd": self.elpd}
        )
        return table.assign(equal=self.equal, stacked=self.stacked, rows=self.rows)

    def __str__(self) -> str:
        shares = ", ".join(f"{value:.2f}" for value in self.weight)
        gain = self.stacked - self.equal
        return (
            f"weights {shares}; leave-one-out density {self.stacked:.4f} nats a row, with equal "
            f"weights {self.equal:.4f} ({gain:+.4f})"
        )


def stacking_weights(log_densities: np.ndarray) -> np.ndarray:
    """The weights of a mixture that maximize the mean log density of rows.

    Maximizes mean_i log Σ_k w_k exp(l_ik) over weights w_k >= 0 with the sum 1: a concave problem
    with one maximum. Expectation-maximization rounds come near it; SLSQP of SciPy finishes.

    Source: Yao, Vehtari and Gelman, Stacking for non-mixing Bayesian computations, J. Mach. Learn.
    Res. 23 (2022), equation 3.

    Args:
        log_densities: l, shape (rows, chains), finite or -inf.

    Returns:
        Weights, shape (chains,).
    """
    ratios = np.exp(log_densities - log_densities.max(axis=1, keepdims=True))
    return mixture_weights(ratios)


def mixture_weights(densities: np.ndarray, share: np.ndarray | None = None) -> np.ndarray:
    """The weights of a mixture that maximize the mean log density of points.

    Args:
        densities: Densities up to a factor of each point, shape (points, components).
        share: What each point counts, with the sum 1, shape (points,). Default: all count alike.

    Returns:
        Weights, shape (components,).
    """
    count = densities.shape[1]
    weights = np.full(count, 1 / count)

    def objective(mixed: np.ndarray) -> float:
        with np.errstate(divide="ignore"):
            return float(_average(np.log(densities @ mixed), share))

    for _ in range(_ROUNDS):
        weights = weights * _gradient(weights, densities, share)
    optimum = minimize(
        lambda w: -objective(w),
        weights,
        jac=lambda w: -_gradient(w, densities, share),
        bounds=[(0.0, 1.0)] * count,
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(count)},
        method="SLSQP",
        options={"maxiter": 200, "ftol": 1e-12},
    )
    candidate = np.maximum(optimum.x, 0.0)
    candidate = candidate / candidate.sum()
    weights = candidate if objective(candidate) >= objective(weights) else weights
    weights = np.where(weights < _LEAST_WEIGHT, 0.0, weights)
    return weights / weights.sum()


def _average(values: np.ndarray, share: np.ndarray | None) -> Any:
    """The mean over points, weighted by what they count where they do not count alike."""
    return values.mean(axis=0) if share is None else share @ values


def _gradient(weights: np.ndarray, ratios: np.ndarray, share: np.ndarray | None) -> np.ndarray:
    """Derivatives of the mean log density, shape (chains,): 1 at most where it is the largest."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.nan_to_num(_average(ratios / (ratios @ weights)[:, None], share))


@front_door
def chain_weights(run: AnyRun, data: Any = None, model: Any = None) -> Stacking:
    """Computes weights of the chains of a run from how well each predicts unseen rows.

    Chains of a network stay near the mode where they start, so equal weights count each mode by how
    often fits find it. Stacking gives chain k the weight w_k that maximizes Σ_i log Σ_k w_k p(y_i |
    y without y_i, chain k). The densities come from the draws of each single chain, by
    Pareto-smoothed importance sampling. A stuck chain gets a weight near 0. Chains with the same
    predictions share their weight arbitrarily.

    The weights are stored as `stacking.csv` in the run folder and reused by later calls. They are
    recomputed if the run has new draws, or if you pass a model that the folder does not hold.

    Args:
        run: The run, or its folder. It must have a likelihood, temperature 1 and at least two
            chains.
        data: The data set of the run. Default: None, the data of a run made in this process,
            otherwise read from the source in the manifest.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.

    Returns:
        Weights of the chains, in the order of the walkers, and the densities.

    Raises:
        InputError: The run has one chain, no likelihood, another temperature, weighted draws or
            fewer than 25 draws per chain, or data or model are not those of the run.
    """
    from tati_re.models.identity import refuse_other_model

    run = as_run(run)
    if data is not None:
        check_data(run.manifest, data, run.folder)
    is_known = model is None or run.has(files.MODEL)
    if model is not None and is_known:
        refuse_other_model(model, run.folder / files.MODEL, str(run.folder))
    # Nothing tells whether the kept weights are of a model that the folder does not hold.
    if is_known and (stored := stored_stacking(run)) is not None:
        return stored
    logs, _, _ = chain_densities(run, data, model)
    weight = stacking_weights(logs)
    stacking = Stacking(
        weight=weight,
        elpd=logs.mean(axis=0),
        equal=mixture_density(logs, np.full(len(weight), 1 / len(weight))),
        stacked=mixture_density(logs, weight),
        rows=len(logs),
    )
    write_whole(run.folder / files.STACKING, frame_text(stacking.frame()))
    return stacking


@front_door
def weighted_leave_one_out(
    run: AnyRun, weights: str | None = None, most_examples: int = MOST_ROWS, **options: Any
) -> LeaveOneOut:
    """PSIS-LOO of a run with the weights of its chains.

    With `stacking` each chain leaves an example out by itself, and the densities are averaged with
    the weights of the chains. The weights were found on the same examples, which favors them a
    little: by some ten thousandths of a nat for eight chains and 1,000 examples.

    Args:
        run: The run, or its folder.
        weights: `"equal"`, all draws together, or `"stacking"`. Default: the run's option.
        most_examples: Where there are more, so many drawn at random. Default: 1,000.
        **options: `burnin`, `data` and `model`, as of `leave_one_out`.

    Returns:
        The result; Pareto k is the largest of the chains that count.

    Raises:
        InputError: As of `leave_one_out` and `chain_weights`.
    """
    run = as_run(run)
    if chosen_weights(run.manifest, weights) == EQUAL:
        return leave_one_out(run, most_examples=most_examples, **options)
    burnin = options.pop("burnin", None)
    logs, pareto_k, rows = chain_densities(run, most_rows=most_examples, burnin=burnin, **options)
    weight = chain_weights(run, **options).weight
    result = LeaveOneOut(
        example=rows,
        elpd=logsumexp(logs, b=weight, axis=1),
        pareto_k=pareto_k[:, weight > 0].max(axis=1),
        num_examples=run.manifest.dataset.num_examples or len(rows),
        num_draws=MOST_DRAWS,
    )
    if chosen_weights(run.manifest, None) == STACKING:
        write_whole(run.folder / files.LOO, frame_text(result.frame()))
    return result


def mixture_density(logs: np.ndarray, weight: np.ndarray) -> float:
    """Mean over rows of the log density of a mixture of chains.

    Args:
        logs: Log density of each row under each chain, shape (rows, chains).
        weight: Weights of the chains with the sum 1, shape (chains,).
    """
    return float(logsumexp(logs, b=weight, axis=1).mean())


def chain_densities(
    run: RunFiles,
    data: Any = None,
    model: Any = None,
    most_rows: int = MOST_ROWS,
    burnin: int | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Leave-one-out log densities of training rows by each chain alone.

    Args:
        run: The run.
        data: Its data set. Default: found by the run.
        model: Its model. Default: that of its folder.
        most_rows: Rows at most; where there are more, so many drawn at random, always the same.
        burnin: Steps to leave out. Default: the run's own burn-in.

    Returns:
        Log densities and Pareto k, shape (rows, chains) each, and the numbers of the rows.
    """
    refuse_other_temperature(run, "weights")
    data, network = likelihood_of(run, data, model)
    stored = Positions(run, burnin).read()
    refuse_weighted_draws(stored, "weights")
    walkers = np.unique(stored.walker)
    refuse_if(
        len(walkers) < 2,
        "weights: stacking needs several chains.",
        f"{len(walkers)} chain",
        "num_walkers of 2 at least",
    )
    rows = chosen_rows(data.num_examples, most_rows)
    columns = []
    tails = []
    for walker in walkers:
        chain_draws = np.flatnonzero(stored.walker == walker)
        problem = "weights: stacking needs more draws per chain."
        refuse_if(
            len(chain_draws) < LEAST_DRAWS, problem, len(chain_draws), f"at least {LEAST_DRAWS}"
        )
        chain_draws = chain_draws[np.argsort(stored.step[chain_draws], kind="stable")]
        chain_draws = chain_draws[:: math.ceil(len(chain_draws) / MOST_DRAWS)]
        logs = np.concatenate(
            [part for part, _, _ in likelihood_blocks(network, data, stored, chain_draws, rows)]
        )
        efficiency = relative_efficiency(logs, stored.step[chain_draws], stored.walker[chain_draws])
        log_weights, pareto_k = left_out_weights(logs, efficiency)
        columns.append(logsumexp(log_weights + logs, axis=0))
        tails.append(pareto_k)
    return np.stack(columns, axis=1), np.stack(tails, axis=1), rows


def stored_stacking(run: RunFiles) -> Stacking | None:
    """The weights that an earlier call kept; None if there are none since the last draw.

    Args:
        run: The run.

    Raises:
        InputError: The file is no such table.
    """
    frame = derived_table(run, files.STACKING)
    if frame is None:
        return None
    path = run.folder / files.STACKING
    expected = "the unmodified file of the run"
    numbers = has_numbers(frame, (*_COLUMNS, "equal", "stacked", "rows"))
    weight = frame["weight"].to_numpy(np.float64) if numbers and len(frame) else np.zeros(1)
    are_shares = np.isfinite(weight).all() and (weight >= 0).all() and abs(weight.sum() - 1) < 1e-3
    refuse_if(not (numbers and are_shares), f"{path} has no weights of chains.", expected=expected)
    first = frame.iloc[0]
    return Stacking(
        weight=weight / weight.sum(),
        elpd=frame["elpd"].to_numpy(np.float64),
        equal=float(first["equal"]),
        stacked=float(first["stacked"]),
        rows=int(first["rows"]),
    )


def weigh(run: RunFiles, draws: Draws, weights: str | None, model: Any = None) -> None:
    """Weighs draws of a run by its chains, where stacking is asked for.

    Args:
        run: The run.
        draws: Its draws, whose weights change.
        weights: `equal`, `stacking`, or None for what the options of the run say.
        model: The Keras model if the folder holds none. Default: the model in the folder.
    """
    if chosen_weights(run.manifest, weights) == STACKING:
        draws.weigh_walkers(chain_weights(run, model=model).weight)


def weigh_at_end(run: RunFiles) -> None:
    """Keeps the weights of the chains of a run that asked for stacking, where it has the draws."""
    if chosen_weights(run.manifest, None) != STACKING:
        return
    try:
        chain_weights(run)
    except InputError as error:
        warn_user(f"{error} Until then use weights='equal' for predictions.")


def chosen_weights(manifest: Manifest, weights: str | None) -> str:
    """How chains count: as given, else as the options of the run say.

    Args:
        manifest: The manifest of the run.
        weights: `equal`, `stacking`, or None.

    Raises:
        InputError: Another word.
    """
    chosen = weights or manifest.options.weights
    refuse_if(chosen not in WEIGHTS, "weights has an unknown value.", chosen, " or ".join(WEIGHTS))
    return chosen
