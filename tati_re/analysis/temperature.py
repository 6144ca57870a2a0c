"""Measured temperatures of a run, and of groups of its parameters, against the target."""

import re
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaincinv, ndtri, stdtrit

from tati_re.analysis.convergence import (
    MINIMUM_DRAWS,
    chains_of,
    effective_sample_size,
    rows_that_count,
)
from tati_re.analysis.until import weighted
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.outcomes import FAILED, NOT_MEASURED, PASSED
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import AnyRun
from tati_re.runs.selection import as_run, at_target, select_rows

LEVEL = 1e-4
"""How often the mean of a correct run lies outside its band: once in 10,000 times."""

FEWEST_ROWS, FEWEST_EFFECTIVE = 16, 8.0
"""Rows of a walker, and effective rows of all, below which their number cannot be told, and no
verdict is given.
"""
_ROWS_A_DEGREE = 8.0
"""Effective rows for each degree of freedom of their own estimate, so that 20,000 autoregressions
of 16 to 1,000 rows, one to 32 walkers and times up to 65 rows leave the band at most twice as often
as said.
"""

Kind = Literal["kinetic", "configurational"]

COLUMNS: dict[Kind, str] = {"kinetic": "kinetic_energy", "configurational": "virial"}
"""The column of run.csv behind each kind of temperature."""

_WIDEST = 0.5
"""Half of a band, of the target, beyond which nothing is concluded from it."""


ABOVE, BELOW = "above", "below"
TOO_SHORT, NEVER_CHANGES, NO_TARGET = "too short", "never changes", "no target"
"""Reasons why a temperature has not passed."""


class Temperature(NamedTuple):
    """A measured temperature with its expected band; infinite if the run is too short for a
    verdict.

    Attributes:
        kind: `"kinetic"` or `"configurational"`.
        mean: Mean over walkers and rows after burn-in.
        target: The temperature of the target distribution.
        lower: Lower end of the band around the target.
        upper: Upper end of the band.
        effective_sample_size: Effective number of independent rows in the mean.
    """

    kind: Kind
    mean: float
    target: float
    lower: float
    upper: float
    effective_sample_size: float

    @property
    def in_band(self) -> bool:
        """Whether the mean lies inside the band."""
        return self.lower <= self.mean <= self.upper

    @property
    def half(self) -> float:
        """The longer half of the band, relative to the target."""
        return max(self.upper - self.target, self.target - self.lower) / self.target

    @property
    def tells(self) -> bool:
        """Whether the band is narrow enough for a verdict on heating."""
        return self.half <= _WIDEST

    @property
    def verdict(self) -> str:
        """`passed` if the mean lies in its band, `failed` if not, and `not measured` without a
        band.
        """
        if not np.isfinite(self.lower):
            return NOT_MEASURED
        return FAILED if self.reason else PASSED

    @property
    def reason(self) -> str:
        """The reason for a verdict other than `passed`; otherwise empty.

        It is `above` or `below` (the band), or without a band `too short` (the run) or `never
        changes` (the energy).
        """
        if not np.isfinite(self.lower):
            return NEVER_CHANGES if np.isnan(self.lower) else TOO_SHORT
        if self.mean > self.upper:
            return ABOVE
        return BELOW if self.mean < self.lower else ""


def measured_temperature(
    energies: np.ndarray,
    kind: Kind,
    num_parameters: int,
    target: float,
    level: float = LEVEL,
    weights: Any = None,
) -> Temperature:
    """The temperature of kinetic energies or virials, and the band of a correct run.

    The mean of n independent p'p/(P T) follows χ²(nP)/(nP). As n is only estimated, the band is
    wider. The distance of its quantiles from T is multiplied by the quantile of Student's t over
    the quantile of the normal distribution. Student's t has n/8 degrees of freedom. The law of
    virials depends on the potential, and is the same where the potential is harmonic. Their band is
    the wider of this band and t standard errors. There is no verdict below 16 rows of a walker,
    below n = 8, or where a mean of 0 would be inside the band, too.

    Args:
        energies: Kinetic energies, or virials θ·∇U/2, shape (walkers, rows), at least 4 rows.
        kind: "kinetic" or "configurational".
        num_parameters: P.
        target: T of the target.
        level: Probability that the mean of a correct run lies outside the band. Default: 1e-4.
        weights: Weights of the energies, in the same shape. Default: None, 1 each.
    """
    chains = 2.0 * np.atleast_2d(energies) / num_parameters
    mean = float(chains.mean())
    size = effective_sample_size(chains, kind="mean")
    spread = float(chains.std(ddof=1))
    rows = chains.shape[1]
    if weights is not None and np.ptp(weights) > 0:
        mean = float(np.average(chains, weights=weights))
        size = weighted(chains, weights)[1]
        spread = float(np.average((chains - mean) ** 2, weights=weights)) ** 0.5
        rows = (weights > 0).sum(axis=1).max()
    if not np.isfinite(size):
        return Temperature(kind, mean, target, np.nan, np.nan, size)
    if rows < FEWEST_ROWS or size < FEWEST_EFFECTIVE:
        return Temperature(kind, mean, target, -np.inf, np.inf, size)
    quantile = -float(stdtrit(size / _ROWS_A_DEGREE, 0.5 * level))
    wider = quantile / -float(ndtri(0.5 * level))
    below, above = (
        wider * (end - target) for end in chi_square_band(num_parameters, size, target, level)
    )
    if kind == "configurational":
        half = quantile * spread / np.sqrt(size)
        below = min(below, -half)
        above = max(above, half)
    if (
        below <= -target and below <= mean - target <= above
    ):  # a band that no temperature lies below
        below = -np.inf
        above = np.inf
    return Temperature(kind, mean, target, target + below, target + above, size)


def chi_square_band(
    num_parameters: int, num_rows: float, temperature: float = 1.0, level: float = LEVEL
) -> tuple[float, float]:
    """Lower and upper quantile of T χ²(nP)/(nP), the band of the kinetic temperature.

    Args:
        num_parameters: P.
        num_rows: n, the number of independent rows.
        temperature: T. Default: 1.
        level: Probability that the mean of n rows lies outside the band. Default: 1e-4.
    """
    half = 0.5 * num_parameters * num_rows
    lower, upper = gammaincinv(half, [0.5 * level, 1 - 0.5 * level]) * (temperature / half)
    return float(lower), float(upper)


@front_door
def kinetic_temperature(
    run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0
) -> Temperature | None:
    """Returns the kinetic temperature p'p/P with the band of the chi-square distribution.

    At equilibrium p'p/T follows a chi-square distribution with P degrees of freedom for any
    potential. The mean of n independent rows thus has the standard deviation T sqrt(2/P)/sqrt(n). A
    correct run lies outside the band once in 10,000 times. The band does not include the bias of
    the scheme (for BAOAB and a mode of frequency ω: T (1 - h²ω²/4)), nor heating by mini-batch
    gradient noise.

    Args:
        run_info: Rows of `run.csv` with `step, walker, temperature, kinetic_energy`.
        num_parameters: Number of parameters P, at least 1.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Returns:
        The temperature with its band (`measured_temperature`), or None for a sampler without
        momenta (empty column).

    Raises:
        InputError: Rows have more than one temperature, or there are too few.
    """
    return _measured(run_info, "kinetic", num_parameters, num_burnin_steps)


@front_door
def configurational_temperature(
    run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0
) -> Temperature | None:
    """Returns the configurational temperature θ·∇U/P with a band from its Monte Carlo error.

    By the virial theorem its mean is T, if the potential confines every parameter and has no walls.
    It detects errors in the distribution of positions that the kinetic temperature misses.

    Args:
        run_info: Rows of `run.csv` with `step, walker, temperature, virial`.
        num_parameters: Number of parameters P, at least 1.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Returns:
        The temperature with its band, or None if `virial` was not recorded.

    Raises:
        InputError: Rows have more than one temperature, or there are too few.
    """
    return _measured(run_info, "configurational", num_parameters, num_burnin_steps)


@front_door
def temperatures(
    run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0
) -> list[Temperature]:
    """Returns the recorded kinetic and configurational temperatures of a run.

    Args:
        run_info: Rows of `run.csv` with `step, walker, temperature` and `kinetic_energy` or
            `virial`.
        num_parameters: Number of parameters P, at least 1.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Returns:
        The kinetic temperature first; it is missing for a sampler without momenta.

    Raises:
        InputError: Rows have more than one temperature, or there are too few.
    """
    estimates = (_measured(run_info, kind, num_parameters, num_burnin_steps) for kind in COLUMNS)
    return [temperature for temperature in estimates if temperature is not None]


@front_door
def target_temperature(run_info: pd.DataFrame, num_burnin_steps: int = 0) -> float:
    """Returns the common temperature of the rows of a run.

    Args:
        run_info: Rows with the columns `step` and `temperature`.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Returns:
        The temperature, above 0.

    Raises:
        InputError: There is no temperature (the run is a fit), or there are several.
    """
    values = np.empty(0)
    if "temperature" in run_info.columns:
        values = run_info["temperature"].to_numpy(dtype=np.float64)[
            run_info["step"].to_numpy() > num_burnin_steps
        ]
        values = np.unique(values[np.isfinite(values)])
    if len(values) != 1 or values[0] <= 0:
        listed = ", ".join(f"{value:g}" for value in values[:4]) or "none"
        raise InputError(
            "The rows must have been sampled at one temperature.", listed, "one value above 0"
        )
    return float(values[0])


def measured_temperatures(rows: pd.DataFrame, num_parameters: int) -> list[Temperature]:
    """Temperatures as `temperatures` measures them, if the rows suffice.

    Args:
        rows: Rows of `run.csv`, all at one temperature above 0.
        num_parameters: P; 0 for a run without parameters.

    Returns:
        The temperatures; none for too few rows, several temperatures, or no parameters.
    """
    has_one_temperature = (
        "temperature" in rows
        and rows["temperature"].nunique() == 1
        and rows["temperature"].iloc[0] > 0
    )
    enough = (
        num_parameters
        and has_one_temperature
        and rows.groupby("walker").size().max() >= MINIMUM_DRAWS
    )
    return temperatures(rows, num_parameters) if enough else []


def _measured(
    run_info: pd.DataFrame, kind: Kind, num_parameters: int, num_burnin_steps: int
) -> Temperature | None:
    refuse_if(
        num_parameters < 1,
        "A temperature needs the number of parameters.",
        num_parameters,
        "at least 1",
    )
    column = COLUMNS[kind]
    if column not in run_info.columns or run_info[column].isna().all():
        return None
    return _of_rows(run_info, column, kind, num_parameters, num_burnin_steps)


def _of_rows(
    run_info: pd.DataFrame, column: str, kind: Kind, num_parameters: int, burnin: int
) -> Temperature:
    """Of rows of which walkers may have unlike numbers, and weights under a bias, of which momenta
    know nothing.
    """
    chains = chains_of(run_info, column, burnin)
    rows = run_info[run_info["step"] > burnin]
    target = target_temperature(run_info, burnin)
    weights = (
        rows["weight"].to_numpy(np.float64)
        if kind == "configurational" and "weight" in rows
        else None
    )
    order, counts = rows_that_count(rows["step"].to_numpy(), rows["walker"].to_numpy(), weights)
    if counts is not None:
        chains = rows[column].to_numpy(np.float64)[order]
    return measured_temperature(chains, kind, num_parameters, target, weights=counts)


_COLUMN = re.compile(r"^(kinetic_energy|virial)\((.+)\)$")

By = Literal["tensor", "layer", "kind"]


@front_door
def group_temperatures(
    run: AnyRun, by: By = "tensor", burnin: int | None = None, thin: int = 1
) -> pd.DataFrame:
    """Returns kinetic and configurational temperatures of parameter groups, with their expected
    bands.

    For each group g, p_g'p_g/T follows a chi-square distribution with P_g degrees of freedom for
    any potential. By the virial theorem the mean of θ_g·∇_gU is P_g T, if U confines the group and
    has no walls. A correct mean lies outside its band once in 10,000 times. The band is asymmetric
    for groups of a few parameters. There is no band for fewer than 8 effective rows
    (`measured_temperature`).

    The band does not include the bias of the scheme. BAOAB's kinetic temperature is T (1 - h²ω²/4)
    in a mode of frequency ω, so a low value identifies a layer for which the step is large. It does
    not include heating by gradient noise either, so a high value identifies a heated layer.
    Reference: F. Wenzel and others, How good is the Bayes posterior in deep neural networks
    really?, ICML 2020, section 4 and appendix I, with means of correlated rows in place of single
    rows.

    Args:
        run: The run, or its folder, recorded with `group_temperatures=True`.
        by: Group by `"tensor"` (`dense/kernel`), all tensors of a `"layer"` (`dense`), or all
            tensors of a `"kind"` (`kernel`). Default: tensor.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows. Default: 1.

    Returns:
        Columns `group, parameters, temperature` (kinetic or configurational), `mean, target, lower,
        upper, rows` (effective), `verdict` (passed, failed or not measured), and `reason`. The
        reason is above, below, too short, never changes, or no target (positions are not confined,
        or have walls); it is empty for passed. Groups are in the order of the model, then `all`.

    Raises:
        InputError: The run did not record groups, has rows of several temperatures, or has too few
            rows.
    """
    refuse_if(
        by not in ("tensor", "layer", "kind"), "by: unknown value.", by, "tensor, layer or kind"
    )
    run = as_run(run)
    rows = at_target(select_rows(run, burnin, thin))
    sizes = run.manifest.parameters.sizes()
    recorded = [match for match in map(_COLUMN.match, rows.columns) if match and match[2] in sizes]
    problem = "The run recorded no temperatures of groups."
    refuse_if(
        not recorded, problem, expected="a run with group_temperatures (--group-temperatures)"
    )
    few = rows.empty or rows.groupby("walker").size().max() < MINIMUM_DRAWS
    refuse_if(few, f"Fewer than {MINIMUM_DRAWS} rows of each walker are left.", len(rows))
    lines = []
    for kind, column in COLUMNS.items():
        tensors = [match[2] for match in recorded if match[1] == column]
        groups: dict[str, list[str]] = {}
        for tensor in tensors:
            layer, _, last = tensor.rpartition("/")
            groups.setdefault(
                {"tensor": tensor, "layer": layer or tensor, "kind": last}[by], []
            ).append(tensor)
        if len(groups) > 1:
            groups["all"] = tensors
        for group, members in groups.items():
            energies: Any = sum(rows[f"{column}({tensor})"] for tensor in members)
            if energies.isna().all():
                continue
            number = sum(sizes[tensor] for tensor in members)
            estimate = _of_rows(rows.assign(energies=energies), "energies", kind, number, -1)
            aimless = kind == "configurational" and has_no_target(run.manifest)
            estimate = estimate._replace(lower=np.nan, upper=np.nan) if aimless else estimate
            line = {
                "group": group,
                "parameters": number,
                "temperature": kind,
                "mean": estimate.mean,
            }
            line |= {"target": estimate.target, "lower": estimate.lower, "upper": estimate.upper}
            line |= {
                "rows": estimate.effective_sample_size,
                "verdict": estimate.verdict,
                "reason": NO_TARGET if aimless else estimate.reason,
            }
            lines.append(line)
    return pd.DataFrame(lines)


def group_sentences(table: pd.DataFrame, mini_batches: bool) -> list[str]:
    """Sentences with advice on the group temperatures outside their bands; none if all lie within.

    Args:
        table: The table from `group_temperatures`.
        mini_batches: Whether the run uses mini-batches.
    """
    sentences = []
    slow = "not in equilibrium yet, or the step is large for them: more burn-in, smaller steps"
    heated = "not in equilibrium yet, or heated by gradient noise: more burn-in, larger batches"
    advice = {
        (
            "kinetic",
            "above",
        ): "gradient noise heats them: larger batches, smaller steps or more friction",
        ("kinetic", "below"): "the step is large for their stiffest direction: smaller steps",
        ("configurational", "above"): heated,
        ("configurational", "below"): "not in equilibrium yet: more burn-in",
    }
    off = table[(table["group"] != "all") & (table["verdict"] == FAILED)]
    for (kind, side), part in off.groupby(["temperature", "reason"], sort=False):
        names = ", ".join(
            f"{row['group']} ({row['mean']:.3g})" for row in part.head(5).to_dict("records")
        )
        more = f" and {len(part) - 5} more" if len(part) > 5 else ""
        remedy = slow if side == ABOVE and not mini_batches else advice[str(kind), str(side)]
        sentences.append(f"The {kind} temperature is {side} its band in {names}{more}; {remedy}.")
    return sentences


def nothing_confines(manifest: Manifest) -> bool:
    """Whether U has flat directions, in which there is no equilibrium."""
    return not manifest.prior_proper and "regularis" not in manifest.meaning


def has_no_target(manifest: Manifest) -> bool:
    """Whether the configurational temperature has no target: flat directions, or walls."""
    walled = manifest.prior_walled
    if walled is None:  # an earlier version
        walled = manifest.prior.prior == "box"
    return nothing_confines(manifest) or walled
