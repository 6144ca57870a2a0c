"""log Z by adaptive sequential Monte Carlo: populations cooled from the reference to the posterior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.errors import SamplingError
from tati_re.evidence.chains import Chains
from tati_re.evidence.energies import Plan, ReferenceDraws, tuned
from tati_re.evidence.path import drawn_from_reference
from tati_re.evidence.population import combined, effective_fraction, log_increments, next_point, systematic
from tati_re.models.backend import tf

_MOST_STAGES = 2_000
_BYTES = 256 * 2**20
"""Of the positions that count at a stage."""


class Cooling(NamedTuple):
    """What the populations did.

    Attributes:
        log_z: Of all populations together.
        error: From their spread.
        repeats: log Z of each population.
        curve: Columns, one entry a stage.
        gradients: Evaluations of the gradient for one member on all data.
    """

    log_z: float
    error: float
    repeats: np.ndarray
    curve: dict[str, np.ndarray]
    gradients: float


def cooled(
    potential_of: Callable[[int], Any],
    sampler,
    plan: Plan,
    num_populations: int,
    num_particles: int,
    num_moves: int,
    fraction: float,
    say: Callable[[str], None],
) -> Cooling:
    """Adaptive sequential Monte Carlo along a path.

    Rule, from independent draws of the reference: the next λ is where the effective part of the poorest population
    falls to `fraction`; weights exp(-Δλ E), whose mean is the population's share of Z; of each population by itself
    `num_particles` are resampled and moved, while the step size is tuned, and by `num_moves` steps more, after each of
    which they count: a population has num_particles x num_moves members, and no move is wasted. Where the positions
    of so many would take more than 256 MiB only the last moves count. Choosing λ and step sizes from the members leaves
    a bias of order 1/members.

    Source: Del Moral, Doucet and Jasra, J. R. Statist. Soc. B 68 (2006); all moves as members: Dau and Chopin, J. R.
    Statist. Soc. B 84 (2022), whose chains these are.

    Args:
        potential_of: The path's potential for a number of walkers.
        sampler: With the law of each λ.
        plan: `step_size`, `target_acceptance`, `largest_step_size`, `seed`, `execution`.
        num_populations: Independent ones, from whose spread the error is taken.
        num_particles: Chains of each.
        num_moves: Steps after each resampling.
        fraction: Between 0 and 1.
        say: Takes sentences on the progress.
    """
    walkers = num_populations * num_particles
    potential = potential_of(walkers)
    counted = counted_moves(walkers * potential.num_parameters * tf.as_dtype(potential.dtype).size, num_moves)
    random = np.random.default_rng([plan.seed, 0x534D])
    chains = Chains(potential, sampler, plan.seed, plan.execution, max(2, num_moves), counted)
    start = Chains(potential, ReferenceDraws(), plan.seed + 1, plan.execution, max(2, num_moves), counted)
    moved = start.run(drawn_from_reference(potential, walkers, plan.seed), 0.0, 1.0, counted)
    log_z, weight, step_size = np.zeros(num_populations), 0.0, float("nan")
    rows: list[tuple] = []
    while weight < 1.0 and len(rows) < _MOST_STAGES:
        # The moves of one chain side by side, so that systematic resampling spreads over chains.
        energies = moved.energies[:, -counted:].reshape(num_populations, num_particles * counted)
        following = next_point(weight, energies, fraction)
        logs = -(following - weight) * energies
        shares = log_increments(following - weight, energies)
        log_z += shares
        effective = float(effective_fraction(logs).mean())
        rows.append((weight, following, float(shares.mean()), effective, float(moved.acceptance.mean()), step_size))
        weight = following
        if len(rows) % 10 == 0 or weight == 1.0:
            say(f"Stage {len(rows)}: {weight:.3g} of the way, log Z so far {combined(log_z)[0]:,.6g}.")
        if weight < 1.0:
            chosen = np.stack([systematic(own, random.random(), num_particles) for own in logs])
            chain = np.arange(num_populations)[:, None] * num_particles + chosen // counted
            position = moved.visited[chosen % counted, chain].reshape(walkers, -1)
            first = plan.step_size if np.isnan(step_size) else step_size
            position, step_size = tuned(chains, position, weight, first, plan, 2, 1)
            moved = chains.run(position, weight, step_size, num_moves)
    if weight < 1.0:
        raise SamplingError(
            f"The populations came no further than {weight:.3g} of the way in {_MOST_STAGES} stages: a smaller "
            "particle_fraction.",
            _MOST_STAGES,
            0,
        )
    names = ("path", "next", "log_ratio", "effective_fraction", "acceptance", "step_size")
    curve = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    return Cooling(*combined(log_z), log_z, curve, chains.gradients + start.gradients)


def counted_moves(num_bytes: int, num_moves: int) -> int:
    """How many of the moves count: all, or as many as memory holds the positions of.

    Args:
        num_bytes: Of all walkers' positions.
        num_moves: Steps after each resampling.
    """
    return int(np.clip(_BYTES // num_bytes, 1, num_moves))
