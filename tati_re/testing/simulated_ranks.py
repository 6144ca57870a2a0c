"""Simulation-based calibration of a named density: ranks of true parameters among its draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from tati_re.analysis.convergence import effective_sample_size, r_hat
from tati_re.analysis.named_draws import is_constant
from tati_re.core.errors import AnyPath, abbreviated, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_input import seeded
from tati_re.plotting.bands import uniform_band
from tati_re.plotting.ranks import cumulative, plot_ranks
from tati_re.posterior.named_density import NamedDensity
from tati_re.posterior.simulated import EXPECTED, SimulatedPairs
from tati_re.samplers.user_samplers import checked
from tati_re.supports.contract import Support
from tati_re.supports.layout import ParameterLayout
from tati_re.testing.many_posteriors import STEP_SIZE, ManyPosteriors

JOINT = "log density"
"""The quantity that also depends on the data: it notices a posterior that ignores them."""
LARGEST_RHAT = 1.05
_MOST_FAILED = 0.1
_LEAST_SHIFT = 2.5
"""Standard errors from which the mean or the spread of ranks is described."""


@front_doors
@dataclass(frozen=True, eq=False)
class RankCalibration:
    """Ranks of true values among posterior draws, over many simulated data sets.

    Attributes:
        ranks: The number of draws below the true value, 0 to `draws`, shape (replications,), by the
            name of each entry, and of the log density.
        draws: Number of draws that each true value is ranked among.
        level: Probability that a correct model and sampler pass, over all quantities together.
        ess: Smallest bulk ESS over all entries, shape (replications,).
        rhat: Largest R-hat over all entries, shape (replications,).
        seed: Seed of the simulated data and of the runs.
    """

    ranks: dict[str, np.ndarray]
    draws: int
    level: float
    ess: np.ndarray
    rhat: np.ndarray
    seed: int

    @cached_property
    def _table(self) -> pd.DataFrame:
        return pd.DataFrame([self._row(name) for name in self.ranks])

    @property
    def replications(self) -> int:
        """The number of simulated data sets."""
        return len(self.ess)

    @property
    def band_level(self) -> float:
        """Probability of the band of one quantity; `level` holds for all of them together."""
        return 1 - (1 - self.level) / len(self.ranks)

    @property
    def too_dependent(self) -> np.ndarray:
        """Replications with an ESS below `draws` or R-hat above 1.05, counted from 0."""
        return np.flatnonzero(~((self.ess >= self.draws) & (self.rhat < LARGEST_RHAT)))

    @property
    def outcome(self) -> str:
        """The verdict: "passed", "failed", or "not measured" if too many runs did not converge."""
        if (self._table["verdict"] == "failed").any():
            return "failed"
        if len(self.too_dependent) > _MOST_FAILED * self.replications:
            return "not measured"
        return "passed"

    @property
    def passed(self) -> bool:
        """Whether the verdict is "passed"."""
        return self.outcome == "passed"

    def fractions(self) -> dict[str, np.ndarray]:
        """Returns ranks as fractions in [0, 1], which are uniform for a correct model.

        Each rank is spread evenly over its part of the interval, by a fixed seed.
        """
        random = seeded(self.seed, 0x5342)
        return {
            name: (values + random.random(len(values))) / (self.draws + 1)
            for name, values in self.ranks.items()
        }

    def bands(self) -> pd.DataFrame:
        """Returns the simultaneous band and the distribution of the ranks of each quantity.

        Returns:
            A table with the columns `place`, `low`, `high`, and one for each quantity: the fraction
            of ranks at or below the place.
        """
        levels, low, high = uniform_band(self.replications, self.band_level)
        curves = {name: cumulative(values, levels) for name, values in self.fractions().items()}
        return pd.DataFrame({"place": levels, "low": low, "high": high, **curves})

    def frame(self) -> pd.DataFrame:
        """Returns one row per quantity: `quantity`, `mean_rank` and `spread` (both 1 if
        calibrated, relative to uniform ranks), `outside` (the largest distance from the band),
        `verdict` and `advice`.
        """
        return self._table.copy()

    def plot(self, path: AnyPath | None = None) -> Figure:
        """Plots the distribution of the ranks of each quantity in its band.

        Args:
            path: A PNG file to write. Default: None, no file.

        Returns:
            The figure.
        """
        return plot_ranks(self.fractions(), self.band_level, path)

    def _row(self, name: str) -> dict[str, Any]:
        values = self.fractions()[name]
        levels, low, high = uniform_band(self.replications, self.band_level)
        curve = cumulative(values, levels)
        outside = float(np.maximum(low - curve, curve - high).max())
        failed = outside > 0
        return {
            "quantity": name,
            "mean_rank": 2 * float(values.mean()),
            "spread": float(values.std() * np.sqrt(12)),
            "outside": max(outside, 0.0),
            "verdict": "failed" if failed else "passed",
            "advice": _advice(values) if failed else "",
        }

    def __str__(self) -> str:
        lines = [
            f"Simulation-based calibration: {self.outcome}",
            f"{self.replications} data sets, each true value ranked among {self.draws} draws; "
            f"a correct model passes with probability {self.level:g}",
            f"{'quantity':<20} {'mean rank':>9} {'spread':>7}   verdict",
        ]
        for row in self._table.itertuples():
            advice = f": {row.advice!s}" if row.advice else ""
            lines.append(
                f"{row.quantity:<20} {row.mean_rank:>9.2f} {row.spread:>7.2f}   "
                f"{row.verdict}{advice}"
            )
        if len(self.too_dependent):
            lines.append(
                f"{len(self.too_dependent)} of {self.replications} runs have an ESS below "
                f"{self.draws} or R-hat above {LARGEST_RHAT}. Use more chains."
            )
        return "\n".join(lines)

    __repr__ = __str__


def _advice(fractions: np.ndarray) -> str:
    """What ranks that are not uniform say about the posterior."""
    root = np.sqrt(len(fractions))
    shift = (fractions.mean() - 0.5) * np.sqrt(12) * root
    # The variance of (u - 1/2)² of uniform numbers is 1/180.
    spread = (fractions.var() - 1 / 12) * np.sqrt(180) * root
    said_of = []
    if abs(shift) > _LEAST_SHIFT:
        said_of.append("draws are too low" if shift > 0 else "draws are too high")
    if abs(spread) > _LEAST_SHIFT:
        said_of.append("the posterior is too narrow" if spread > 0 else "the posterior is too wide")
    return ", ".join(said_of) or "ranks are not uniform"


@front_door
def calibrate(
    simulate: Callable[[np.random.Generator], tuple[Mapping[str, Any], Mapping[str, Any]]],
    log_density: Callable,
    parameters: Mapping[str, Support],
    *,
    replications: int = 100,
    draws: int = 99,
    chains: int = 4,
    level: float = 0.99,
    seed: int = 0,
    sampler: Any = None,
    step_size: float = STEP_SIZE,
) -> RankCalibration:
    """Checks a model on data simulated from it: simulation-based calibration.

    Each replication draws parameters from the prior and data from the likelihood, samples the
    posterior of these data, and counts the draws below the true value. The counts are uniform if
    prior, likelihood, log density and sampler agree. Bands hold a whole distribution function at
    once, and all quantities together.

    The chains of all replications move side by side in one compiled program. Each replication finds
    its own location and scales, and steps are in units of the standard deviations of its posterior.
    Chains are extended until each replication has an ESS of twice `draws`, up to 8 times.

    Sources: Talts, Betancourt, Simpson, Vehtari and Gelman, Validating Bayesian inference
    algorithms with simulation-based calibration, arXiv 1804.06788 (2018); Säilynoja, Bürkner and
    Vehtari, Graphical test for discrete uniformity, Stat. Comput. 32, 32 (2022); for the log
    density as a quantity, Modrák and others, Bayesian Anal. 20, 461 (2025).

    Args:
        simulate: A function of a NumPy random generator that returns `(parameters, data)`: a dict
            of values drawn from the prior, and a dict of data drawn given them. Names and shapes
            are those of the model, the same in each call.
        log_density: The log density, as in `Simulation(log_density=...)`.
        parameters: The support of each parameter by its name.
        replications: Number of simulated data sets, at least 20. Default: 100.
        draws: Number of posterior draws that each true value is ranked among, evenly spaced in the
            chains, at least 9. Default: 99.
        chains: Chains of each replication, at least 2. Default: 4.
        level: Probability that a correct model passes, above 0.5 and below 1. Default: 0.99.
        seed: Seed of data and chains. Default: 0.
        sampler: A sampler of `tati_re.samplers`, or your own; it keeps its first settings. Default:
            None, HMC with 3 to 9 leapfrog steps.
        step_size: Step size in standard deviations of the posterior, above 0. For HMC, each
            replication shortens it to its own acceptance. Default: 0.25.

    Returns:
        The ranks, their bands and the verdict; print it, or call its `plot`.

    Raises:
        InputError: `simulate` returns something other than two dicts, values lie outside of their
            supports, or data change their shapes.
    """
    _check_numbers(replications, draws, chains, level, step_size)
    refuse_if(
        not callable(simulate),
        "simulate: this is not a function.",
        abbreviated(simulate, 60),
        EXPECTED,
    )
    layout = ParameterLayout(parameters)
    simulated = SimulatedPairs(simulate, layout)
    pairs = [simulated.drawn(seed, number) for number in range(replications)]
    first = NamedDensity(log_density, layout.supports, pairs[0][1])
    systems = ManyPosteriors(first, [data for _, data in pairs], chains, seed)
    method = checked(sampler) if sampler is not None else None
    ranked_draws = systems.sampled(method, step_size, least_ess=2 * draws)
    rows = [
        _ranked(systems, truth, ranked_draws[:, number], draws, number)
        for number, (truth, _) in enumerate(pairs)
    ]
    constant = frozenset.intersection(*(row.constant for row in rows))
    changing = [name for name in rows[0].ranks if name not in constant]
    return RankCalibration(
        ranks={name: np.array([row.ranks[name] for row in rows]) for name in changing},
        draws=draws,
        level=level,
        ess=np.array([row.ess for row in rows]),
        rhat=np.array([row.rhat for row in rows]),
        seed=seed,
    )


def _check_numbers(
    replications: int, draws: int, chains: int, level: float, step_size: float
) -> None:
    least_of = {"replications": (replications, 20), "draws": (draws, 9), "chains": (chains, 2)}
    for name, (value, least) in least_of.items():
        is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
        refuse_if(
            not is_integer or value < least,
            f"{name}: out of range.",
            abbreviated(value, 40),
            f"a whole number of at least {least}",
        )
    refuse_if(
        not 0.5 < level < 1, "level: out of range.", abbreviated(level, 40), "above 0.5, below 1"
    )
    in_range = 0 < step_size < np.inf
    refuse_if(not in_range, "step_size: out of range.", abbreviated(step_size, 40), "above 0")


@dataclass(frozen=True)
class _Ranked:
    """One replication: ranks by quantity, its smallest ESS and its largest R-hat.

    `constant` are the entries that are the same in all draws.
    """

    ranks: dict[str, int]
    constant: frozenset[str]
    ess: float
    rhat: float


def _ranked(
    systems: ManyPosteriors,
    truth: Mapping[str, np.ndarray],
    positions: np.ndarray,
    draws: int,
    number: int,
) -> _Ranked:
    """The ranks of one replication.

    Args:
        systems: All replications.
        truth: The true values.
        positions: Free coordinates, shape (steps, chains, dimension).
        draws: Number of draws to rank the true values among.
        number: The replication, from 0.
    """
    layout = systems.density.layout
    steps, chains, dimension = positions.shape
    chosen = np.linspace(0, steps * chains - 1, draws).round().astype(int)
    few = positions.transpose(1, 0, 2).reshape(-1, dimension)[chosen]
    entries = layout.entries(layout.constrain(few)[0])
    right = layout.entries({name: value[None] for name, value in truth.items()})[0]
    random = seeded(systems.seed, 0x5254, number)
    columns = dict(zip(layout.entry_names(), zip(entries.T, right, strict=True), strict=True))
    ranks = {name: _rank(values, value, random) for name, (values, value) in columns.items()}
    constant = frozenset(name for name, (values, _) in columns.items() if is_constant(values))
    free = np.concatenate([layout.unconstrain(truth), few])
    log_density = -systems.energy(free, number) - layout.constrain(free)[1]
    ranks[JOINT] = _rank(log_density[1:], log_density[0], random)
    moving = [positions[:, :, k].T for k in range(dimension)]
    sizes = map(effective_sample_size, moving)
    return _Ranked(ranks, constant, min(sizes), max(map(r_hat, moving)))


def _rank(values: np.ndarray, truth: float, random: np.random.Generator) -> int:
    """The number of draws below the true value; it has a random place among equal draws.

    Args:
        values: The draws of a quantity.
        truth: Its true value.
        random: Random numbers.
    """
    equal = int((values == truth).sum())
    return int((values < truth).sum()) + int(random.integers(equal + 1))
