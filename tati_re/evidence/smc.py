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
    """The next λ, at most 1, where the least effective fraction is `fraction`; `energies`:
    `(populations, members)`.
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
    """Systematic resampling: `count` indices, rising, int64, from log weights `(members,)`."""
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
    poorest population falls to `fraction`; weights exp(-Δλ E), whose mean is the population's share
    of Z; of each population by itself `num_particles` are resampled and moved, while the step size
    is tuned, and by `num_moves` steps more, after each of which they count: a population has
    num_particles x num_moves members, and no move is wasted. Beyond 256 MiB of positions only the
    last moves count. Choosing λ and step sizes from the members leaves a bias of order 1/members.

    `potential_of` makes the path's potential for a number of walkers; `sampler` has the
    distribution of each λ; of `plan` the step sizes, `target_acceptance`, `seed` and `execution`
    are used; `say` takes sentences on the progress; `parts` keeps the last stage. All moves as
    members: Dau and Chopin, J. R. Statist. Soc. B 84 (2022), whose chains these are.
    """
    walkers = num_populations * num_particles
    potential = potential_of(walkers)
    counted = counted_moves(
        walkers * potential.num_parameters * tf.as_dtype(potential.dtype).size, num_moves
    )
    chains = Chains(
        potential=potential,
        sampler=sampler,
        seed=plan.seed,
        execution=plan.execution,
        most_steps=max(2, num_moves),
        visited=counted,
    )
    start = Chains(
        potential=potential,
        sampler=ReferenceDraws(),
        seed=plan.seed,
        execution=plan.execution,
        most_steps=max(2, num_moves),
        visited=counted,
        role=" reference",
    )
    state: dict[str, Any] | None = parts.load("populations", chains, start)
    if state is None:
        moved = start.run(drawn_from_reference(potential, walkers, plan.seed), 0.0, 1.0, counted)
        state = {
            "log_z": np.zeros(num_populations),
            "rows": np.zeros((0, len(_COLUMNS))),
            "step_size": np.nan,
        }
        state |= {
            "energies": moved.energies,
            "visited": moved.visited,
            "acceptance": moved.acceptance.mean(),
        }
    weight = float(state["rows"][-1, 1]) if len(state["rows"]) else 0.0
    began = time.monotonic()
    first = len(state["rows"])
    due = began + FIRST_SECONDS
    while weight < 1.0 and len(state["rows"]) < _MOST_STAGES:
        # The moves of one chain side by side, so that systematic resampling spreads over chains.
        energies = state["energies"][:, -counted:].reshape(num_populations, num_particles * counted)
        following = next_point(weight, energies, fraction)
        logs = -(following - weight) * energies
        # The log of the mean weight of each population.
        shares = logsumexp(logs, axis=-1) - np.log(logs.shape[-1])
        effective = effective_fraction(logs).mean()
        row = (weight, following, shares.mean(), effective, state["acceptance"], state["step_size"])
        rows = np.vstack([state["rows"], row])
        log_z = state["log_z"] + shares
        weight = following
        now = time.monotonic()
        if now >= due or weight == 1.0:
            so_far = f"{weight:.3g} of the way, log Z so far {combined(log_z)[0]:,.6g}"
            outcome = _stages_left(rows, len(rows) - first, now - began)
            say(f"Stage {len(rows)}: {so_far}{outcome}.")
            due = now + LINE_SECONDS
        visited = state["visited"]
        size = float(state["step_size"])
        state = {"log_z": log_z, "rows": rows, "step_size": size}
        if weight < 1.0:
            random = np.random.default_rng([plan.seed, 0x534D, len(rows)])
            chosen = np.stack(
                [systematic(log_weights, random.random(), num_particles) for log_weights in logs]
            )
            chain = np.arange(num_populations)[:, None] * num_particles + chosen // counted
            position = visited[chosen % counted, chain].reshape(walkers, -1)
            position, size = tuned(
                chains, position, weight, plan.step_size if np.isnan(size) else size, plan, 2, 1
            )
            moved = chains.run(position, weight, size, num_moves)
            state |= {
                "energies": moved.energies,
                "visited": moved.visited,
                "acceptance": moved.acceptance.mean(),
            }
            state["step_size"] = size
        parts.save("populations", state, chains, start)
    log_z = state["log_z"]
    if weight < 1.0:
        outcome = f"The populations reached only {weight:.3g} of the path in {_MOST_STAGES} stages"
        raise SamplingError(f"{outcome}: reduce particle_fraction.", _MOST_STAGES, 0)
    curve = dict(zip(_COLUMNS, state["rows"].T, strict=True))
    return Cooling(*combined(log_z), log_z, curve, chains.gradients + start.gradients)


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
    return int(np.clip(_BYTES // num_bytes, 1, num_moves))
