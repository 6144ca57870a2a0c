"""Measured temperatures of a run against its target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from tati_re.analysis.convergence import chains_of, effective_sample_size, monte_carlo_error
from tati_re.core.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BAND_WIDTH = 3.9
"""Half width of a band in standard errors: a normal value lies outside once in 10,000 times."""


class Temperature(NamedTuple):
    """A measured temperature and its expected band.

    Attributes:
        kind: `"kinetic"` or `"configurational"`.
        mean: Mean over walkers and rows after burn-in.
        target: Temperature that was asked for.
        lower: Lower end of the band around the target.
        upper: Its upper end.
        effective_sample_size: Independent rows behind the mean.
    """

    kind: Literal["kinetic", "configurational"]
    mean: float
    target: float
    lower: float
    upper: float
    effective_sample_size: float

    @property
    def in_band(self) -> bool:
        """True if the mean lies inside the band."""
        return self.lower <= self.mean <= self.upper


def kinetic_temperature(run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0) -> Temperature | None:
    """Kinetic temperature p'p/P with the band of the chi-square distribution.

    Targets T: at equilibrium p'p/T follows a chi-square distribution with P degrees of freedom, whatever the potential,
    so that the mean of n independent rows has the standard deviation T sqrt(2/P)/sqrt(n). The scheme's own bias is no
    part of the band (BAOAB on a mode of frequency ω: T (1 - h²ω²/4)), nor the heat of mini-batches' gradient noise.

    Args:
        run_info: Rows of `run.csv` with `step, walker, temperature, kinetic_energy`.
        num_parameters: Number of parameters P, at least 1.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Returns:
        The temperature with the band T (1 ± 3.9 sqrt(2/P)/sqrt(n)), n the effective sample size of the kinetic energy,
        or None for a sampler without momenta (column empty).

    Raises:
        InputError: Rows of more than one temperature, or too few rows.
    """
    chains = _temperature_chains(run_info, "kinetic_energy", num_parameters, num_burnin_steps)
    if chains is None:
        return None
    target = target_temperature(run_info, num_burnin_steps)
    size = effective_sample_size(chains, kind="mean")
    half = BAND_WIDTH * target * np.sqrt(2.0 / num_parameters) / np.sqrt(size)
    return Temperature("kinetic", float(chains.mean()), target, target - half, target + half, size)


def configurational_temperature(
    run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0
) -> Temperature | None:
    """Configurational temperature θ·∇U/P with a band from its Monte Carlo error.

    Targets T by the virial theorem, for a potential that confines every parameter and has no walls. It sees errors of
    the positions' distribution that the kinetic temperature cannot. The arguments and errors are those of
    `kinetic_temperature`, with the column `virial` in place of `kinetic_energy`.

    Returns:
        The temperature with the band T ± 3.9 Monte Carlo errors of its mean, or None if the column is empty.
    """
    chains = _temperature_chains(run_info, "virial", num_parameters, num_burnin_steps)
    if chains is None:
        return None
    target = target_temperature(run_info, num_burnin_steps)
    half = BAND_WIDTH * monte_carlo_error(chains)
    size = effective_sample_size(chains, kind="mean")
    return Temperature("configurational", float(chains.mean()), target, target - half, target + half, size)


def temperatures(run_info: pd.DataFrame, num_parameters: int, num_burnin_steps: int = 0) -> list[Temperature]:
    """The kinetic and configurational temperatures of a run, as far as recorded.

    The kinetic one comes first, and is missing for a sampler without momenta. The arguments and errors are those of
    `kinetic_temperature`.
    """
    found = (measure(run_info, num_parameters, num_burnin_steps) for measure in _MEASURES)
    return [temperature for temperature in found if temperature is not None]


def target_temperature(run_info: pd.DataFrame, num_burnin_steps: int = 0) -> float:
    """The common temperature of the rows.

    Args:
        run_info: Rows of `run.csv` with the columns `step` and `temperature`, which must be above 0.
        num_burnin_steps: Rows up to and including this step are left out. Default: 0.

    Raises:
        InputError: No temperature (a run of an optimizer), or more than one.
    """
    values = np.empty(0)
    if "temperature" in run_info.columns:
        values = run_info["temperature"].to_numpy(dtype=np.float64)[run_info["step"].to_numpy() > num_burnin_steps]
        values = np.unique(values[np.isfinite(values)])
    if len(values) != 1 or values[0] <= 0:
        shown = ", ".join(f"{value:g}" for value in values[:4]) or "none"
        raise InputError("The rows must have been sampled at one temperature.", shown, "one value above 0")
    return float(values[0])


def _temperature_chains(
    run_info: pd.DataFrame, column: str, num_parameters: int, num_burnin_steps: int
) -> np.ndarray | None:
    if num_parameters < 1:
        raise InputError("A temperature needs the number of parameters.", num_parameters, "at least 1")
    if column not in run_info.columns or run_info[column].isna().all():
        return None
    return 2.0 * chains_of(run_info, column, num_burnin_steps) / num_parameters


_MEASURES = (kinetic_temperature, configurational_temperature)
