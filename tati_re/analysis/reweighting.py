"""Reweighting of averages to temperatures that were not sampled, with free energies by pymbar."""

import contextlib
import logging
import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import logsumexp

from tati_re.analysis.convergence import chains_of, is_short
from tati_re.analysis.temperature import target_temperature
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.run import AnyRun, RunFiles
from tati_re.runs.selection import as_run, select_rows


def load_pymbar():
    """Imports pymbar without its remarks about optional accelerators."""
    try:
        with _quiet():
            import pymbar
    except ImportError:
        problem = "method: mbar needs the package pymbar."
        raise InputError(problem, "not installed", "pip install 'tati_re[evidence]'") from None
    return pymbar


def mbar_free_energies(
    reduced: np.ndarray, counts: np.ndarray, start: np.ndarray | None = None
) -> np.ndarray:
    """Free energies f_k = -ln Z_k of K states relative to the first, by MBAR, shape (K,).

    Args:
        reduced: Reduced potential of each draw in each state, shape (K, N).
        counts: The number of draws from each state, in the order of the columns, shape (K,).
        start: Free energies to begin with, shape (K,). Default: None, zeros.
    """
    if len(counts) == 1:
        return np.zeros(1)
    pymbar = load_pymbar()
    with _quiet():
        # Near the solution a root finder is some ten times faster than the adaptive iteration that
        # pymbar starts with.
        protocol = "default" if start is None else ({"method": "hybr"},)
        solver = pymbar.MBAR(reduced, counts, initial_f_k=start, solver_protocol=protocol)
    free = np.asarray(solver.f_k, np.float64)
    return free - free[0]


@contextlib.contextmanager
def _quiet():
    logger = logging.getLogger("pymbar")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


BLOCKS = 20
"""Parts of the run that are left out in turn for the errors."""

_MOST = 60_000


class LadderDraws(NamedTuple):
    """Draws at the rungs of a ladder, or at the one temperature of a run, which sample exp(-β (λ L
    + V)): the negative log likelihood L and the penalty V = -log prior, `(rungs, walkers, draws)`
    both, and β and λ of each rung.
    """

    likelihood: np.ndarray
    penalty: np.ndarray
    inverse_temperatures: np.ndarray
    likelihood_weights: np.ndarray


@front_door
def reweight(
    run: AnyRun,
    temperatures: Sequence[float] | None = None,
    observables: Iterable[str] = ("potential", "loss"),
    burnin: int | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    """Computes averages of a run at other temperatures by the multistate Bennett acceptance ratio.

    The draws of all rungs are used. At temperature T a draw has the weight exp(-U/T) / Σ_k N_k
    exp(f_k - u_k), with u_k the reduced potential of rung k and f_k its free energy, which the
    draws determine. For a single temperature this is plain reweighting, which works for nearby
    temperatures. Errors come from a jackknife that leaves out a twentieth of the run at a time and
    recomputes everything. They account for correlations shorter than this block. Reference: M.
    Shirts, J. Chodera, J. Chem. Phys. 129, 124105 (2008). pymbar solves for the free energies.

    Args:
        run: The run, or its folder. It must use all data at each step, or `full_every`.
        temperatures: T of the target exp(-U/T). Default: None, the temperatures of the ladder and
            two between each pair; for a run at one temperature, five from 0.8 to 1.25 times its
            temperature.
        observables: Columns of `run.csv`. Default: potential (at likelihood weight 1) and loss.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows. Default: 1.

    Returns:
        Columns `temperature, observable, mean, error, effective_rows, short`. The observable
        `log_partition` is ln Z(T) minus its value at the run's target. `effective_rows` is
        (Σw)²/Σw², without correlations. A mean that rests on a few rows is not reliable. `short`
        marks energy chains below 50 autocorrelation times, whose errors are rough and usually too
        small.

    Raises:
        InputError: The energies come from mini-batches, the run has a bias, pymbar is missing, or
            no rows are left.
    """
    run = as_run(run)
    rows = select_rows(run, burnin, thin, rung=None)
    names = list(observables)
    for name in names:
        refuse_if(
            name not in rows.columns,
            f"The run has no column '{name}'.{nearest(name, rows.columns)}",
        )
    rows = exact_rows(run, rows)
    sampled = sampled_energies(run, rows)
    chosen = (
        _temperatures(sampled)
        if temperatures is None
        else np.asarray(list(temperatures), np.float64)
    )
    if not (len(chosen) and (chosen > 0).all() and np.isfinite(chosen).all()):
        raise InputError("temperatures must be above 0.", temperatures)
    observables_by_rung = {name: _by_rung(rows, name) for name in names}
    if "potential" in observables_by_rung:
        observables_by_rung["potential"] = sampled.likelihood + sampled.penalty
    short = any(is_short(energies) for energies in sampled.likelihood + sampled.penalty)
    lines = [
        (temperature, name, mean, error, effective, short)
        for temperature, (means, errors, effective) in zip(
            chosen, _jackknife(sampled, chosen, observables_by_rung), strict=True
        )
        for name, mean, error in zip([*names, "log_partition"], means, errors, strict=True)
    ]
    return pd.DataFrame(
        lines, columns=["temperature", "observable", "mean", "error", "effective_rows", "short"]
    )


def sampled_energies(run: RunFiles, rows: pd.DataFrame) -> LadderDraws:
    """Likelihood and penalty of the draws at each rung.

    A likelihood with weight 0 follows from the mean loss, times the ratio of both at the other
    rungs.

    Args:
        run: The run, which has a ladder if the rows have rungs.
        rows: Rows of `run.csv` at all rungs, with energies on all data.
    """
    penalty = -_by_rung(rows, "log_prior")
    potential = _by_rung(rows, "potential")
    if "rung" in rows.columns:
        for _, part in rows.groupby("rung"):
            target_temperature(part, -1)
        ladder = run.ladder.sort_values("rung")
        beta = 1.0 / ladder["temperature"].to_numpy()
        weight = ladder["likelihood_weight"].to_numpy()
    else:
        beta = np.array([1.0 / target_temperature(rows, -1)])
        weight = np.ones(1)
    tempered = weight[:, None, None] * np.ones_like(potential)
    scaled = potential - penalty
    with np.errstate(divide="ignore", invalid="ignore"):
        likelihood = np.where(tempered > 0, scaled / tempered, np.nan)
    if (weight == 0).any():
        # Where the likelihood does not count it is known from the mean loss, times what it is
        # elsewhere.
        loss = _by_rung(rows, "loss")
        likelihood = np.where(tempered > 0, likelihood, np.nanmedian(likelihood / loss) * loss)
    return LadderDraws(likelihood, penalty, beta, weight)


def _jackknife(sampled: LadderDraws, temperatures: np.ndarray, observables: dict[str, np.ndarray]):
    """Estimates at each temperature from all draws, their errors, and the effective number of
    rows.
    """
    rungs, walkers, draws = sampled.likelihood.shape
    stride = max(1, -(-rungs * walkers * draws // _MOST))
    sampled = sampled._replace(
        likelihood=sampled.likelihood[:, :, ::stride], penalty=sampled.penalty[:, :, ::stride]
    )
    observables = {name: values[:, :, ::stride] for name, values in observables.items()}
    draws = sampled.likelihood.shape[2]
    blocks = min(BLOCKS, draws)
    refuse_if(blocks < 2, "Too few rows to reweight.", f"{draws} a walker", "at least 2")
    part = np.arange(draws) * blocks // draws
    estimates, effective, free = _estimates(sampled, temperatures, observables, slice(None), None)
    without = np.array(
        [_estimates(sampled, temperatures, observables, part != k, free)[0] for k in range(blocks)]
    )
    errors = np.sqrt((blocks - 1) / blocks * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    return zip(estimates, errors, effective, strict=True)


def _estimates(
    sampled: LadderDraws,
    temperatures: np.ndarray,
    observables: dict[str, np.ndarray],
    chosen,
    start,
):
    likelihood = sampled.likelihood[:, :, chosen]
    penalty = sampled.penalty[:, :, chosen]
    counts = np.full(len(likelihood), likelihood[0].size)
    flat = likelihood.ravel()
    prior = penalty.ravel()
    beta = sampled.inverse_temperatures[:, None]
    weight = sampled.likelihood_weights[:, None]
    reduced = beta * (weight * flat + prior)
    free = mbar_free_energies(reduced, counts, start)
    mixture = logsumexp(free[:, None] - reduced + np.log(counts)[:, None], axis=0)
    reference = logsumexp(-(sampled.inverse_temperatures[0] * (flat + prior)) - mixture)
    values = [series[:, :, chosen].ravel() for series in observables.values()]
    estimates = []
    effective = []
    for temperature in temperatures:
        logs = -(flat + prior) / temperature - mixture
        shares = np.exp(logs - logs.max())
        total = shares.sum()
        estimates.append(
            [*(float(shares @ value / total) for value in values), logsumexp(logs) - reference]
        )
        effective.append(float(total**2 / (shares @ shares)))
    return np.array(estimates, dtype=np.float64), effective, free


def _by_rung(rows: pd.DataFrame, column: str) -> np.ndarray:
    if "rung" not in rows.columns:
        return chains_of(rows, column, -1)[None]
    parts = [chains_of(part, column, -1) for _, part in rows.groupby("rung")]
    shortest = min(part.shape[1] for part in parts)
    return np.stack([part[:, :shortest] for part in parts])


def exact_rows(run: RunFiles, rows: pd.DataFrame, of: str = "reweighting") -> pd.DataFrame:
    """Rows with energies on all data.

    Args:
        run: The run.
        rows: Rows of `run.csv`.
        of: What messages call the analysis. Default: "reweighting".

    Raises:
        InputError: The rows have weights of a bias, or energies of mini-batches only.
    """
    problem = f"{of} does not account for the bias or the visits of this run."
    refuse_if(
        "weight" in rows.columns,
        problem,
        "a column weight",
        "averages, which use the column weight",
    )
    if "full_potential" in rows.columns:
        rows = rows.dropna(subset=["full_potential"])
        return rows.assign(potential=rows["full_potential"], loss=rows["full_loss"])
    problem = f"{of} needs energies of all data: mini-batch noise enters the weights exponentially."
    batch = f"batch_size {run.manifest.options.batch_size}"
    refuse_if(
        run.manifest.sees_batches, problem, batch, "a run on all data, or one with full_every"
    )
    return rows


def _temperatures(sampled: LadderDraws) -> np.ndarray:
    rung_temperatures = 1.0 / sampled.inverse_temperatures
    if len(rung_temperatures) == 1 or np.ptp(rung_temperatures) == 0:
        return rung_temperatures[0] * np.geomspace(0.8, 1.25, 5)
    rung_temperatures = np.sort(rung_temperatures)
    return np.concatenate(
        [
            *[np.geomspace(low, high, 4)[:-1] for low, high in pairwise(rung_temperatures)],
            rung_temperatures[-1:],
        ]
    )
