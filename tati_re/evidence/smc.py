"""log Z by adaptive sequential Monte Carlo: populations cooled from the reference to the posterior.
Source: Del Moral, Doucet and Jasra, J. R. Statist. Soc. B 68 (2006); steps chosen by the effective
sample size: Jasra, Stephens, Doucet and Tsagaris, Scand. J. Stat. 38 (2011).
"""

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from tati_re.core.backend import tf
from tati_re.core.errors import SamplingError
from tati_re.engine.progress import FIRST_SECONDS, LINE_SECONDS, clock_text
from tati_re.evidence.chains import Chains
from tati_re.evidence.energies import ReferenceDraws, SamplingPlan, tuned
from tati_re.evidence.parts import PartFiles
from tati_re.evidence.springs import drawn_from_reference

_HALVINGS = 60


def effective_fraction(log_weights) -> np.ndarray:
    """1/(n Σ w²) of normalized weights along the last axis, between 1/n and 1."""
    log_weights = np.asarray(log_weights, np.float64)
    log_squares = logsumexp(2 * log_weights, axis=-1) - 2 * logsumexp(log_weights, axis=-1)
    return np.exp(-log_squares) / log_weights.shape[-1]


def next_point(now: float, energies, fraction: float = 0.5) -> float:
    """The next λ, at most 1, where the least effective fraction of a population falls to a limit.

    Args:
        now: λ of the populations.
        energies: E of their members, shape (populations, members).
        fraction: The limit, between 0 and 1. Default: 0.5.
    """
    energies = np.asarray(energies, np.float64)

    def enough(point: float) -> bool:
        return bool(effective_fraction(-(point - now) * energies).min() >= fraction)

    if enough(1.0):
        return 1.0
    # In powers of ten first: from the prior the first step may be 1e-6.
    low = 0.0
    high = 1.0 - now
    while high > 1e-300 and not enough(now + high):
        low = 0.0
        high = high / 10
    low = high
    high = min(10 * high, 1.0 - now)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if enough(now + middle) else (low, middle)
    return now + low


def systematic(log_weights, uniform: float, count: int) -> np.ndarray:
    """Systematic resampling: indices of members, rising, int64, shape (count,).

    Args:
        log_weights: Logarithms of the weights, shape (members,); they need no normalization.
        uniform: A uniform number in [0, 1).
        count: Number of indices.
    """
    log_weights = np.asarray(log_weights, np.float64)
    summed = np.cumsum(np.exp(log_weights - logsumexp(log_weights)))
    indices = np.searchsorted(
        summed / summed[-1], (np.arange(count) + uniform) / count, side="right"
    )
    return indices.clip(0, len(summed) - 1)


def combined(log_z) -> tuple[float, float]:
    """The log of the mean of Z over independent populations, and its standard error. Each
    population's Z is unbiased, its logarithm is not; where the logarithms spread by more than about
    1 the largest dominates both.
    """
    log_z = np.asarray(log_z, np.float64)
    count = len(log_z)
    mean = float(logsumexp(log_z) - np.log(count))
    if count < 2:
        return mean, float("nan")
    return mean, float(np.exp(log_z - mean).std(ddof=1) / np.sqrt(count))


_MOST_STAGES = 2_000
_COLUMNS = ("path", "next", "log_ratio", "effective_fraction", "acceptance", "step_size")
_BYTES = 256 * 2**20  # Of the positions that count at a stage.


class Cooling(NamedTuple):
    """log Z of all populations with an error from their spread, of each (`repeats`), a `curve` by
    stage, `gradients`
    """

    log_z: float
    error: float
    repeats: np.ndarray
    curve: dict[str, np.ndarray]
    gradients: float


def cooled(
    potential_of: Callable[[int], Any],
    sampler,
    plan: SamplingPlan,
    num_populations: int,
    num_particles: int,
    num_moves: int,
    fraction: float,
    say: Callable[[str], None],
    parts: PartFiles,
) -> Cooling:
    """Adaptive sequential Monte Carlo along a path.

    Rule, from independent draws of the reference: the next λ is where the effective part of the
    poorest population falls to `fraction`. Members have weights exp(-Δλ E), whose mean is the
    population's share of Z. Each population alone resamples `num_particles` members and moves them,
    while the step size is tuned. After each of `num_moves` further steps they count. A population
    has num_particles x num_moves members, and no move is wasted.

    Beyond 256 MiB of positions only the last moves count. Choosing λ and step sizes from the
    members leaves a bias of order 1/members. All moves as members: Dau and Chopin, J. R. Statist.
    Soc. B 84 (2022), whose chains these are.

    Args:
        potential_of: Makes the path's potential for a number of walkers.
        sampler: A sampler with the distribution of each λ.
        plan: Step sizes, `target_acceptance`, `seed` and `execution`; the rest is not used.
        num_populations: Number of independent populations.
        num_particles: Chains of a population.
        num_moves: Steps of each chain at a λ.
        fraction: The effective fraction at which the next λ is, between 0 and 1.
        say: Function called with a sentence on the progress.
        parts: Keeps the last stage.

    Returns:
        log Z and its curve.

    Raises:
        SamplingError: The populations do not reach λ = 1 in 2,000 stages.
    """
    populations = _Populations(
        potential_of(num_populations * num_particles),
        sampler,
        plan,
        num_populations=num_populations,
        num_particles=num_particles,
        num_moves=num_moves,
    )
    progress = _CoolingProgress(say)
    state = parts.load("populations", *populations.chains)
    if state is None:
        state = populations.at_reference()
    progress.begin(state["rows"])
    while _reached(state) < 1.0 and len(state["rows"]) < _MOST_STAGES:
        weight = _reached(state)
        energies = populations.energies(state)
        following = next_point(weight, energies, fraction)
        logs = -(following - weight) * energies
        # The log of the mean weight of each population.
        shares = logsumexp(logs, axis=-1) - np.log(logs.shape[-1])
        row = (
            weight,
            following,
            shares.mean(),
            effective_fraction(logs).mean(),
            state["acceptance"],
            state["step_size"],
        )
        rows: np.ndarray = np.vstack([np.asarray(state["rows"]), np.asarray(row)])
        log_z = state["log_z"] + shares
        progress.stage(rows, log_z)
        entries = {"log_z": log_z, "rows": rows, "step_size": float(state["step_size"])}
        if following < 1.0:
            entries |= populations.moved(state, following, logs, stage=len(rows))
        state = entries
        parts.save("populations", state, *populations.chains)

    reached = _reached(state)
    if reached < 1.0:
        outcome = f"The populations reached only {reached:.3g} of the path in {_MOST_STAGES} stages"
        raise SamplingError(f"{outcome}: reduce particle_fraction.", _MOST_STAGES, 0)
    log_z = state["log_z"]
    curve = dict(zip(_COLUMNS, state["rows"].T, strict=True))
    return Cooling(*combined(log_z), log_z, curve, populations.gradients)


def _reached(state: dict[str, Any]) -> float:
    """λ where the populations are."""
    rows = state["rows"]
    return float(rows[-1, 1]) if len(rows) else 0.0


class _Populations:
    """Chains of all populations side by side.

    Args:
        potential: That of the path, for all walkers.
        sampler: Moves the walkers at a λ.
        plan: Step sizes, `target_acceptance`, `seed` and `execution`.
        num_populations: Independent populations.
        num_particles: Chains of each.
        num_moves: Steps of each chain at a λ.
    """

    def __init__(
        self,
        potential: Any,
        sampler: Any,
        plan: SamplingPlan,
        num_populations: int,
        num_particles: int,
        num_moves: int,
    ) -> None:
        self._potential = potential
        self._plan = plan
        self._num_populations = num_populations
        self._num_particles = num_particles
        self._num_moves = num_moves
        self._num_walkers = num_populations * num_particles
        num_numbers = self._num_walkers * potential.num_parameters
        self._num_counted = counted_moves(
            num_numbers * tf.as_dtype(potential.dtype).size, num_moves
        )
        self._moving = self._chains_of(sampler, role="")
        self._start = self._chains_of(ReferenceDraws(), role=" reference")

    def _chains_of(self, sampler: Any, role: str) -> Chains:
        return Chains(
            potential=self._potential,
            sampler=sampler,
            seed=self._plan.seed,
            execution=self._plan.execution,
            most_steps=max(2, self._num_moves),
            visited=self._num_counted,
            role=role,
        )

    @property
    def chains(self) -> tuple[Chains, Chains]:
        """Those that move, and those that draw from the reference."""
        return self._moving, self._start

    @property
    def gradients(self) -> float:
        """Evaluations of the gradient for one walker on all data, so far."""
        return self._moving.gradients + self._start.gradients

    def at_reference(self) -> dict[str, Any]:
        """The state at λ = 0: independent draws."""
        drawn = drawn_from_reference(self._potential, self._num_walkers, self._plan.seed)
        moved = self._start.run(drawn, 0.0, 1.0, self._num_counted)
        return {
            "log_z": np.zeros(self._num_populations),
            "rows": np.zeros((0, len(_COLUMNS))),
            "step_size": np.nan,
            "energies": moved.energies,
            "visited": moved.visited,
            "acceptance": moved.acceptance.mean(),
        }

    def energies(self, state: dict[str, Any]) -> np.ndarray:
        """Of all members, `(populations, members)`; the moves of one chain stand side by side, so
        that systematic resampling spreads over chains.
        """
        counted = state["energies"][:, -self._num_counted :]
        return counted.reshape(self._num_populations, -1)

    def moved(
        self, state: dict[str, Any], weight: float, log_weights: np.ndarray, stage: int
    ) -> dict[str, Any]:
        """Resamples each population and moves it at λ = `weight`, the step size tuned first.

        Args:
            state: Members before.
            weight: λ.
            log_weights: Of the members, `(populations, members)`.
            stage: Its number, for the random numbers.

        Returns:
            The entries of the state that changed.
        """
        plan = self._plan
        random = np.random.default_rng([plan.seed, 0x534D, stage])
        chosen = np.stack(
            [systematic(weights, random.random(), self._num_particles) for weights in log_weights]
        )
        first_chain = np.arange(self._num_populations)[:, None] * self._num_particles
        chain = first_chain + chosen // self._num_counted
        position = state["visited"][chosen % self._num_counted, chain]
        position = position.reshape(self._num_walkers, -1)

        size = float(state["step_size"])
        size = plan.step_size if np.isnan(size) else size
        position, size = tuned(self._moving, position, weight, size, plan, round_steps=2, times=1)
        moved = self._moving.run(position, weight, size, self._num_moves)
        return {
            "energies": moved.energies,
            "visited": moved.visited,
            "acceptance": moved.acceptance.mean(),
            "step_size": size,
        }


class _CoolingProgress:
    """A sentence on the stages after five seconds, then once a minute, and one at the end."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say

    def begin(self, rows: np.ndarray) -> None:
        """Starts the clock; `rows` are the stages of an earlier process."""
        self._num_before = len(rows)
        self._began = time.monotonic()
        self._due = self._began + FIRST_SECONDS

    def stage(self, rows: np.ndarray, log_z: np.ndarray) -> None:
        """Tells of a stage, the last one of `rows`, if it is time."""
        weight = rows[-1, 1]
        now = time.monotonic()
        if now < self._due and weight < 1.0:
            return
        so_far = f"{weight:.3g} of the way, log Z so far {combined(log_z)[0]:,.6g}"
        outcome = _stages_left(rows, len(rows) - self._num_before, now - self._began)
        self._say(f"Stage {len(rows)}: {so_far}{outcome}.")
        self._due = now + LINE_SECONDS


def _stages_left(rows: np.ndarray, done: int, seconds: float) -> str:
    """About how many stages are left and how long they take, by the growth of λ in the last one;
    empty at the end and in the first stage, from λ = 0.

    Args:
        rows: The stages so far, `(stages, columns)`, λ before and after each first.
        done: Stages of this process, 1 or more.
        seconds: Time that these took.
    """
    before, after = rows[-1, :2]
    if after >= 1.0 or before <= 0.0:
        return ""
    stages = max(1, math.ceil(-math.log(after) / math.log(after / before)))
    return f"; about {stages:,} more stages, {clock_text(stages * seconds / done)} left"


def counted_moves(num_bytes: int, num_moves: int) -> int:
    """How many of the last moves count, so that their positions fit in 256 MiB; at least 1.

    Args:
        num_bytes: Bytes of the positions of all walkers.
        num_moves: Number of moves.
    """
    return int(np.clip(_BYTES // num_bytes, 1, num_moves))
