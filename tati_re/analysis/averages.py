"""Averages of a run with their Monte Carlo errors."""

import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import numpy as np
import pandas as pd

from tati_re.analysis import convergence
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.positions import Positions
from tati_re.runs.run import AnyRun
from tati_re.runs.selection import as_run, burnin_of, keep, select_rows, spacing

LABELS = ("step", "walker", "rung", "replica", "weight")
"""Columns of run.csv that say where a row belongs and are no observables."""

_FEW = 50.0

By = Literal["all", "walker", "rung"]


def energy_error(rows: pd.DataFrame) -> float:
    """The mean squared energy error of the steps since the burn-in, per parameter, in T², over the
    walkers.
    """
    return float(rows.groupby("walker")["eevpd"].last().mean())


@front_door
def averages(
    run: AnyRun,
    observables: Iterable[str] | Mapping[str, Callable[[pd.DataFrame], Any]] | None = None,
    by: By = "all",
    burnin: int | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    """Computes means of a run's observables, with errors and convergence diagnostics.

    Rows are weighted by the column `weight` if the run has it (well-tempered ensembles, tempering).
    The mean is then Σwx/Σw. Its error is the error of the mean of w(x - mean)/mean(w), to first
    order in the ratio.

    Args:
        run: The run, or its folder.
        observables: Columns of `run.csv`, or functions of its rows that return one number per row.
            Default: None, all columns that vary.
        by: `"all"` walkers at the target temperature, each `"walker"`, or each `"rung"` of a
            ladder. Default: all.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows. Default: 1.

    Returns:
        One row per observable (and walker or rung). The columns are `mean`, `error` (standard error
        of the mean), `std`, `ess_bulk`, `ess_tail`, `r_hat`, `autocorrelation_steps`, `rows`,
        `short` and `note`. `short` marks chains below 50 autocorrelation times, whose error is
        rough and usually too small. `note` gives limits of the estimates, such as the chain length
        that an autocorrelation time needs. It also warns of weights that rest on fewer than 50
        rows, whose error is rough and usually too small. With weights, `ess_bulk` and
        `autocorrelation_steps` refer to the weighted mean, `r_hat` to the unweighted draws with a
        positive weight, and `ess_tail` is nan.

    Raises:
        InputError: There is no such column, no rows are left after burn-in, or `by` is unknown.

    Reference: Vehtari and others, Bayesian Analysis 16 (2021) for all but the autocorrelation time.
    """
    refuse_if(by not in ("all", "walker", "rung"), "by: unknown value.", by, "all, walker or rung")
    rows = (
        select_rows(run, burnin, thin, rung=None)
        if by == "rung"
        else rows_at_target(run, burnin, thin)
    )
    return averages_of_rows(rows, observables, by)


def rows_at_target(run: AnyRun, burnin: int | None = None, thin: int = 1) -> pd.DataFrame:
    """The rows at the target after the burn-in.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows. Default: 1.

    Returns:
        Rows of `run.csv`. If walkers come and leave, all their rows, with weight 0 at other rungs.
    """
    rows = select_rows(run, burnin, thin, rung=None)
    comes = {"rung", "weight"} <= {*rows} and not rows.loc[rows["rung"] != 0, "weight"].any()
    return rows if comes else keep(rows, rung=0)


def averages_of_rows(
    rows: pd.DataFrame,
    observables: Iterable[str] | Mapping[str, Callable[[pd.DataFrame], Any]] | None = None,
    by: By = "all",
) -> pd.DataFrame:
    """Averages as `averages` computes them, from selected rows of `run.csv`.

    Args:
        rows: The rows.
        observables: Columns, or functions of the rows by name. Default: None, the columns that
            vary.
        by: Whether to average over all rows, or for each "walker" or "rung". Default: "all".

    Returns:
        A table as from `averages`.

    Raises:
        InputError: There is no such column, or the run has no rungs.
    """
    if isinstance(observables, Mapping):
        named = {
            name: np.asarray(function(rows), dtype=np.float64)
            for name, function in observables.items()
        }
        rows = rows.assign(**named)
    numbers = [
        name for name in rows.columns if name not in LABELS and rows[name].dtype.kind in "if"
    ]
    names = (
        [name for name in numbers if rows[name].min() < rows[name].max()]
        if observables is None
        else [*observables]
    )
    for name in names:
        refuse_if(
            name not in rows.columns,
            f"The run has no column '{name}'.{nearest(name, rows.columns)}",
        )
    if by == "rung" and "rung" not in rows.columns:
        raise InputError("by rung: the run has no temperature ladder.", expected="all or walker")
    parts = [({}, rows)] if by == "all" else [({by: key}, part) for key, part in rows.groupby(by)]
    if by == "rung" and "weight" in rows:  # of the target; the rows of another rung count alike
        parts = [
            (label, part if part["weight"].any() else part.drop(columns="weight"))
            for label, part in parts
        ]
    jobs = [(label | {"observable": name}, part, name) for label, part in parts for name in names]
    # Sorts and Fourier transforms of long columns run side by side. The filters of warnings belong
    # to the process: what threads do to them ends here.
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        averages = list(pool.map(lambda job: _average(*job), jobs))
    return pd.DataFrame(
        averages, columns=None if averages else ["observable", *average(np.zeros((1, 1)))]
    )


def average(
    chains: np.ndarray,
    weights: np.ndarray | None = None,
    steps_between_rows: float = 1.0,
    sizes: bool = True,
) -> dict[str, Any]:
    """Returns one row of the table of `averages` from draws.

    Args:
        chains: Draws, `(chains, draws)`.
        weights: Weights of the draws, in the same shape. Default: None, equal weights.
        steps_between_rows: Steps between two draws, the unit of the autocorrelation time. Default:
            1.
        sizes: Whether to compute effective sample sizes and R-hat, which take most of the time.
            Default: True.

    Returns:
        The row: `mean` and `error`, and with `sizes` also effective sample sizes, R-hat and
        autocorrelation time, by the names of the columns.
    """
    chains = np.atleast_2d(np.asarray(chains, dtype=np.float64))
    weights = None if weights is None else np.atleast_2d(weights)
    if weights is not None and weights.any():  # a walker that never was there is none
        chains = chains[there := weights.any(axis=1)]
        weights = weights[there]
    spread = float(chains.std()) if np.isfinite(chains).all() else np.nan
    result: dict[str, Any] = {"mean": float(chains.mean()), "error": np.nan, "std": spread}
    result |= dict.fromkeys(("ess_bulk", "ess_tail", "r_hat", "autocorrelation_steps"), np.nan)
    result |= {"rows": chains.size, "short": False, "note": ""}
    drawn = chains
    variance = None
    if weights is not None and not weights.any():
        return result | {"mean": np.nan, "std": np.nan, "rows": 0, "note": "no row has a weight"}
    if weights is not None and np.ptp(weights) > 0:
        total = weights.sum()
        # A row without weight may belong to no state at all, and hold no number.
        values = np.where(weights > 0, chains, 0.0)
        mean = float((weights * values).sum() / total)
        variance = float((weights * np.where(weights > 0, (chains - mean) ** 2, 0.0)).sum() / total)
        result |= {"mean": mean, "std": np.sqrt(variance), "rows": int((weights > 0).sum())}
        chains = np.where(weights > 0, weights * (values - mean), 0.0) * (weights.size / total)
        bearing = float(total**2 / (weights**2).sum())
        if bearing < _FEW:
            result["note"] = f"the weights rest on about {bearing:.0f} rows"
    if chains.shape[1] < convergence.MINIMUM_DRAWS:
        return result | {"note": f"fewer than {convergence.MINIMUM_DRAWS} rows"}
    if not np.isfinite(chains).all():
        return result | {"note": "not all finite"}
    if np.ptp(chains) == 0:
        return result | {"note": "never changes"}
    result["error"] = convergence.monte_carlo_error(chains)
    if variance is not None:
        result["ess_bulk"] = variance / result["error"] ** 2
    elif sizes:
        result["ess_bulk"] = convergence.effective_sample_size(chains, "bulk")
        result["ess_tail"] = convergence.effective_sample_size(chains, "tail")
    if sizes and (len(chains) > 1 or chains.shape[1] >= 2 * convergence.MINIMUM_DRAWS):
        result["r_hat"] = convergence.r_hat(drawn, weights)
    time, note = time_or_note(chains)
    notes = "; ".join(filter(None, (result["note"], note)))
    return result | {
        "autocorrelation_steps": time * steps_between_rows,
        "short": bool(np.isnan(time)),
        "note": notes,
    }


def time_or_note(chains: np.ndarray) -> tuple[float, str]:
    """The autocorrelation time in rows and no note; nan and the reason if there is none."""
    if not np.isfinite(chains).all():
        return float("nan"), "not all finite"
    if (np.ptp(chains, axis=1) == 0).any():
        return float("nan"), "one chain never changes"
    time, needed = convergence.autocorrelation_estimate(chains)
    return (float("nan"), f"too short: needs {needed:,} rows per chain") if needed else (time, "")


@front_door
def parameter_averages(
    run: AnyRun, burnin: int | None = None, thin: int | None = None, walker: int | None = None
) -> pd.DataFrame:
    """Returns the mean and standard deviation of each parameter.

    Without `burnin` and `thin`, they cover every step with a row after burn-in, which a run
    accumulates without a trajectory. With either argument, they are computed from the stored
    positions.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: None, all positions.
        walker: One walker, counted from 0. Default: None, all walkers together.

    Returns:
        Columns `parameter, mean, std`, one row per parameter.

    Raises:
        InputError: Nothing was averaged or stored, or there is no such walker.
    """
    run = as_run(run)
    if burnin is None and thin is None:
        mean, variance = run.moments.of(walker)
    else:
        positions = Positions(run, burnin, 1 if thin is None else thin, walker)
        if positions.projected:
            raise InputError(
                "The run stored projections, not parameters.", expected="without burnin and thin"
            )
        mean, variance, _ = positions.moments()
    names = run.manifest.parameters.all_names()
    return pd.DataFrame({"parameter": names, "mean": mean, "std": np.sqrt(variance)})


@front_door
def trajectory_averages(
    run: AnyRun,
    functions: Mapping[str, Callable[[np.ndarray], Any]],
    burnin: int | None = None,
    thin: int = 1,
) -> pd.DataFrame:
    """Averages functions of the parameters over the stored positions, with errors.

    Args:
        run: The run, or its folder.
        functions: Functions by name. Each maps positions `(n, P)` to `(n,)`.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many stored positions. Default: 1.

    Returns:
        A table as returned by `averages`.

    Raises:
        InputError: No positions are stored or left.

    Examples:
        >>> squared = {"squared length": lambda positions: (positions**2).sum(axis=1)}
        >>> tati_re.analysis.trajectory_averages(run, squared)["observable"].tolist()
        ['squared length']
    """
    run = as_run(run)
    parts = []
    for block in Positions(run, burnin_of(run, burnin), thin).blocks():
        columns = {"step": block.step, "walker": block.walker}
        columns |= {
            name: np.asarray(function(block.values)) for name, function in functions.items()
        }
        parts.append(
            pd.DataFrame(columns | ({} if block.weight is None else {"weight": block.weight}))
        )
    rows = pd.concat(parts, ignore_index=True)
    where, there = convergence.rows_on_grid(rows["step"].to_numpy(), rows["walker"].to_numpy())
    if not there.all():  # walkers that come and leave, as in `rows_at_target`
        steps = np.tile(np.unique(rows["step"]), len(where))
        rows = rows.assign(weight=rows.get("weight", 1.0)).iloc[where.ravel()].assign(step=steps)
        rows["weight"] *= there.ravel()
    return averages_of_rows(rows, list(functions))


def _average(label: dict[str, Any], rows: pd.DataFrame, name: str) -> dict[str, Any]:
    weights = convergence.chains_of(rows, "weight", -1) if "weight" in rows.columns else None
    return label | average(convergence.chains_of(rows, name, -1), weights, spacing(rows))
