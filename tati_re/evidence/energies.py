"""Sampling of energies along a path: all points at once with swaps, or one after the other."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tati_re.core.method import Method
from tati_re.core.protocol import Info, State, with_energy
from tati_re.engine.progress import Countdown, NullProgress, Progress
from tati_re.evidence.chains import Chains
from tati_re.evidence.parts import PartFiles
from tati_re.evidence.springs import drawn_from_reference
from tati_re.exchange.ladder import Ladder
from tati_re.exchange.replicas import ReplicaExchange
from tati_re.exchange.schedule import make_swap_schedule
from tati_re.exchange.swap_rules import Metropolis
from tati_re.samplers.mala import MALA

_ROUND = 8
_MOST_ROUNDS = 40
_TYPICAL_ROUNDS = 10
_WINDOW = 0.1
_BLOCKS = 10
_CALL = 64


class Energies(NamedTuple):
    """Energies E = -log(f/q) in nats, with step sizes, acceptance and cost. `path` (λ from 0 to 1),
    `step_size` and the mean `acceptance` are `(points,)`, `values` is `(points, walkers, draws)`.
    `gradients` counts evaluations of the gradient for one walker on all data; `position` is where
    the walkers are at last, `(points, walkers, parameters)`, or the last point's alone.
    """

    path: np.ndarray
    values: np.ndarray
    step_size: np.ndarray
    acceptance: np.ndarray
    gradients: float
    position: np.ndarray


class SamplingPlan(NamedTuple):
    """Number of draws, sampling scheme and step sizes of an estimate. `walkers` are independent
    repeats, each with `num_draws` draws at each point after `num_burnin_steps` there. `sampling` is
    "ladder" or "sequential", `execution` "xla" or "graph". `step_size` is the first one, and that
    of all points for samplers without a Metropolis test; for the others it is tuned at each point
    to `target_acceptance`, in flat places up to `largest_step_size`.
    """

    walkers: int
    num_draws: int
    num_burnin_steps: int
    sampling: str
    step_size: float
    target_acceptance: float
    largest_step_size: float
    seed: int
    execution: str


class ReferenceDraws(Method):
    name = "draws from the reference"
    full_batch = True

    init = MALA.init

    def step(self, state: State, evaluate, noise) -> tuple[State, Info]:
        position = evaluate.drawn_from_prior(noise.normal(state.position.shape))
        return with_energy(state._replace(position=position), evaluate.full(position)), Info()


def energies_along(
    path,
    potential_of: Callable[[int], Any],
    sampler,
    plan: SamplingPlan,
    say: Callable[[str], None],
    parts: PartFiles,
    progress: Progress | None = None,
) -> Energies:
    """Samples energies at all points of a path of λ from 0 to 1.

    First every walker goes from a draw of the reference up to the posterior, the step size tuned at
    each point. "sequential" takes its draws on this way. "ladder" starts all points where they were
    passed. Neighbors swap after every step, so that a walker that met a mode can leave it.
    At λ = 0 draws are independent ones of the reference in both.

    Args:
        path: λ, rising from 0 to 1, shape (points,).
        potential_of: Makes the path's potential for a number of walkers.
        sampler: The sampler at each λ.
        plan: Numbers of draws and walkers, sampling scheme and step sizes.
        say: Function called with a sentence.
        parts: Keeps each point, and each tenth of the draws of all.
        progress: Shows how many parts are done and the time that is left. Default: None.

    Returns:
        The energies.
    """
    path = np.asarray(path, np.float64)
    sequential = plan.sampling == "sequential"
    title = f"{len(path)} points, one after the other" if sequential else f"{len(path)} points"
    countdown = Countdown(progress or NullProgress(), _costs(path, plan), title)
    stored = _CountedParts(parts, countdown)

    way = _Way(potential_of(plan.walkers), sampler, plan, stored)
    points = [way.point(number, weight) for number, weight in enumerate(path)]
    if sequential:
        countdown.stop()
        return Energies(
            path=path,
            values=np.array([point.energies for point in points]),
            step_size=np.array([point.step_size for point in points]),
            acceptance=np.array([point.acceptance for point in points]),
            gradients=way.gradients,
            position=np.array([point.position for point in points]),
        )

    say(
        f"From here on all {len(path)} points at once, {plan.walkers} walkers at each, "
        "with swaps after every step."
    )
    found = _energies_of_ladder(path, points, potential_of, sampler, plan, stored)
    countdown.stop()
    return found._replace(gradients=way.gradients + found.gradients)


class _CountedParts:
    """Stored parts of an estimate, each of which the countdown counts."""

    def __init__(self, parts: PartFiles, countdown: Countdown) -> None:
        self._parts = parts
        self._countdown = countdown

    def part(self, name: str, compute: Callable[[], dict], *used: Chains) -> dict:
        """The part of this name, from its file or computed by `compute`."""
        is_stored = self._parts.has(name)
        part = self._parts.part(name, compute, *used)
        self._countdown.done(is_stored)
        return part


class _Point(NamedTuple):
    """Where the walkers of one λ are, `(walkers, parameters)`, and their step size; where draws are
    taken on the way, `energies`, `(walkers, draws)`, and the mean `acceptance` too.
    """

    position: Any
    step_size: float
    energies: Any = None
    acceptance: float = math.nan


class _Way:
    """Walkers that go from a draw of the reference up to the posterior, point by point."""

    def __init__(self, potential: Any, sampler: Any, plan: SamplingPlan, stored: _CountedParts):
        self._potential = potential
        self._plan = plan
        self._stored = stored
        self._chains = Chains(potential, sampler, plan.seed, plan.execution)
        position = drawn_from_reference(potential, plan.walkers, plan.seed)
        self._now = _Point(position, plan.step_size)

    @property
    def gradients(self) -> float:
        """Evaluations of the gradient for one walker on all data, so far."""
        return self._chains.gradients

    def point(self, number: int, weight: float) -> _Point:
        """Moves the walkers to the next point, λ = `weight`."""
        if weight > 0:
            part = self._stored.part(
                _name_of_point(number), lambda: self._at_point(weight), self._chains
            )
        elif self._plan.sampling == "sequential":
            part = self._stored.part(_name_of_point(number), self._at_reference, self._chains)
        else:
            return self._now
        self._now = _Point(
            position=part["position"],
            step_size=float(part.get("step_size", self._now.step_size)),
            energies=part.get("energies"),
            acceptance=float(part.get("acceptance", math.nan)),
        )
        return self._now

    def _at_reference(self) -> dict:
        plan = self._plan
        exact = Chains(
            self._potential, ReferenceDraws(), plan.seed, plan.execution, role=" reference"
        )
        moved = exact.run(self._now.position, 0.0, 1.0, plan.num_draws)
        return {"position": moved.position, "energies": moved.energies, "acceptance": 1.0}

    def _at_point(self, weight: float) -> dict:
        plan = self._plan
        chains = self._chains
        place, size = tuned(chains, self._now.position, weight, self._now.step_size, plan)
        if plan.sampling != "sequential":
            return {"position": place, "step_size": size}
        place = chains.run(place, weight, size, plan.num_burnin_steps).position
        moved = chains.run(place, weight, size, plan.num_draws)
        return {
            "position": moved.position,
            "energies": moved.energies,
            "acceptance": moved.acceptance.mean(),
            "step_size": size,
        }


def _name_of_point(number: int) -> str:
    return f"point-{number:03d}"


def _energies_of_ladder(
    path: np.ndarray,
    points: list[_Point],
    potential_of: Callable[[int], Any],
    sampler: Any,
    plan: SamplingPlan,
    stored: _CountedParts,
) -> Energies:
    """Draws at all points at once, from where the way passed them, with swaps of neighbors."""
    step_sizes = np.array([point.step_size for point in points])
    # A ladder begins at the posterior, λ = 1.
    ladder = Ladder(np.ones(len(path)), path[::-1].copy(), step_sizes[::-1].copy())
    exchange = ReplicaExchange(
        sampler,
        ladder,
        swap_rule=Metropolis(),
        swap_schedule=make_swap_schedule("even_odd", len(path)),
        exchange_every=1,
        num_ladders=plan.walkers,
    )
    potential = potential_of(plan.walkers * len(path))
    together = Chains(potential, exchange, plan.seed, plan.execution, role=" ladder")
    position = np.concatenate([point.position for point in reversed(points)])

    def block(count: int) -> dict:
        weights = ladder.likelihood_weight[0]
        moved = together.run(position, weights, points[-1].step_size, count)
        return {
            "position": moved.position,
            "energies": moved.energies,
            "acceptance": moved.acceptance * count,
        }

    if plan.num_burnin_steps:
        burnin = stored.part("burnin", lambda: block(plan.num_burnin_steps), together)
        position = burnin["position"]
    blocks = []
    for number, count in enumerate(_block_sizes(plan.num_draws)):
        part = stored.part(f"draws-{number:03d}", lambda count=count: block(count), together)
        blocks.append(part)
        position = part["position"]

    energies = np.concatenate([part["energies"] for part in blocks], axis=1)
    accepted = sum(part["acceptance"] for part in blocks) / plan.num_draws
    return Energies(
        path=path,
        values=_by_point(energies, len(path), plan.walkers),
        step_size=step_sizes,
        acceptance=accepted.reshape(len(path), -1).mean(axis=1)[::-1],
        gradients=together.gradients,
        position=_by_point(position, len(path), plan.walkers),
    )


def _by_point(series: np.ndarray, num_points: int, num_walkers: int) -> np.ndarray:
    """Rows of a ladder, λ = 1 first, as `(points, walkers, n)` with λ = 0 first."""
    return series.reshape(num_points, num_walkers, -1)[::-1]


def _block_sizes(num_draws: int) -> list[int]:
    """Draws of each tenth, in whole calls, whose first momenta are new ones anyhow."""
    size = -(-num_draws // (_BLOCKS * _CALL)) * _CALL
    return [min(size, num_draws - start) for start in range(0, num_draws, size)]


def _costs(path: np.ndarray, plan: SamplingPlan) -> list[float]:
    """Steps of single walkers in each part of `energies_along`, in order; the rounds of tuning are
    guessed.
    """
    tuning = _TYPICAL_ROUNDS * _ROUND
    if plan.sampling == "sequential":
        at_point = tuning + plan.num_burnin_steps + plan.num_draws
        return [float(at_point if weight > 0 else plan.num_draws) for weight in path]
    points = [float(tuning) for weight in path if weight > 0]
    together = [plan.num_burnin_steps] if plan.num_burnin_steps else []
    together += _block_sizes(plan.num_draws)
    return points + [float(len(path) * count) for count in together]


def tuned(
    chains: Chains,
    position,
    weight: float,
    step_size: float,
    plan: SamplingPlan,
    round_steps: int = _ROUND,
    times: int = 2,
) -> tuple[np.ndarray, float]:
    """Moves walkers at λ = `weight` while tuning the step size to the target acceptance.

    The step size stays below the largest step size of the plan. The acceptance is checked every
    `round_steps` steps, and must be close to its target in `times` consecutive rounds.

    Args:
        chains: The compiled chains.
        position: Starting positions of the walkers.
        weight: λ, the likelihood weight.
        step_size: The first step size.
        plan: Target acceptance and largest step size.
        round_steps: Steps per round.
        times: Number of consecutive rounds. Default: 2.

    Returns:
        The final positions and the step size.
    """
    if not chains.sampler.metropolis:
        return chains.run(position, weight, step_size, round_steps).position, step_size
    settled = 0
    for _ in range(_MOST_ROUNDS):
        moved = chains.run(position, weight, step_size, round_steps)
        position = moved.position
        acceptance = float(moved.acceptance.mean())
        settled = settled + 1 if abs(acceptance - plan.target_acceptance) < _WINDOW else 0
        if settled == times or (
            acceptance > plan.target_acceptance and step_size >= plan.largest_step_size
        ):
            break
        step_size *= float(np.exp(np.clip(2.5 * (acceptance - plan.target_acceptance), -1.2, 0.5)))
        step_size = min(step_size, plan.largest_step_size)
    return position, step_size
