"""A few draws with weights that predict as all draws of a run do, and what that costs in nats."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import logsumexp

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_warnings import warn_user
from tati_re.prediction.calibrating import NONE, calibration, chosen_calibration
from tati_re.prediction.draws import AnyDraws, DrawsAndFits, Members
from tati_re.prediction.network import Network, dataset_of, has_its_data
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.sources import source_of
from tati_re.prediction.stacking import mixture_weights
from tati_re.runs.run import RunFiles
from tati_re.shipping.carried_run import carried_manifest
from tati_re.shipping.goals import Goal, goal_of, log_of
from tati_re.shipping.outside_inputs import inputs_outside
from tati_re.shipping.predictor import Predictor
from tati_re.shipping.predictor_file import Parts, model_bytes

MEMBERS = 16
TOLERANCE = 0.01
"""Nats a row that a compression may lose."""

MOST_CANDIDATES = 1_000
MOST_ROWS = 256
_TARGETS = 16
"""Targets drawn for each row."""
_SEED = 0x5417
INSIDE, OUTSIDE, HELD_OUT = "inside", "outside", "held_out"


@front_door
def compress(
    run: RunFiles,
    members: int | None = MEMBERS,
    tolerance: float = TOLERANCE,
    *,
    inputs: Any = None,
    outside: Any = None,
    model: Any = None,
) -> Predictor:
    """Compresses the draws of a run into a few weighted ones with nearly the same predictive
    density.

    Draws are added one at a time. Each step adds the draw that brings the mixture density closest
    to the density of all draws; convex weights are then fitted. Half of the inputs are training
    inputs, half are inputs outside the data. Targets are drawn from the average over all draws. The
    loss is the Kullback-Leibler divergence from that average; no labels are used.

    Args:
        run: The run.
        members: Number of members, at least 1; None keeps all draws and loses nothing. Default: 16.
        tolerance: Accepted loss in nats per row on either kind of input. A larger loss is a
            warning. Default: 0.01.
        inputs: Inputs like those to be predicted, as in the data set. Default: None, training rows.
        outside: Inputs unlike the data. Default: None, generated from `inputs` by `inputs_outside`.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.

    Returns:
        The predictor, with its losses.

    Raises:
        InputError: `members` is below 1, the loss has no density, or no inputs are available.
    """
    problem = "members is too small."
    refuse_if(members is not None and members < 1, problem, members, "at least 1, or None for all")
    refuse_if(not tolerance > 0, "tolerance is too small.", tolerance, "a number above 0")
    network, draws = source_of(run, model=model)
    if members is None or len(draws) <= members:
        every = np.arange(len(draws))
        few = Members(vectors_of(draws, every), draws.walker, draws.weight, draws.kind)
        return Predictor(_parts(run, network, few, {}, model))
    candidates = candidates_of(draws)
    rows = training_rows(run) if inputs is None else network.packed(inputs)
    unlike = inputs_outside(rows) if outside is None else network.packed(outside)
    few, losses = compressed(network, candidates, rows, unlike, members)
    _warn_of_loss(losses, members, tolerance)
    if (test := test_part_of(run, network)) is not None:
        losses[HELD_OUT] = held_out_loss((network, candidates), (network, few), test)
    return Predictor(_parts(run, network, few, losses, model))


def compressed(
    network: Network,
    candidates: Members,
    rows: np.ndarray,
    outside: np.ndarray,
    members: int,
) -> tuple[Members, dict[str, float]]:
    """Weighted members that predict together as all draws do, and what they lose.

    Args:
        network: The network of the run.
        candidates: Draws that stand for all, with their weights.
        rows: Inputs as in the data set, shape (n, ...).
        outside: Inputs unlike them, shape (m, ...).
        members: How many members.

    Returns:
        The members, and the nats a row that are lost inside and outside of the data.
    """
    random = np.random.default_rng(_SEED)
    both = (_halves(rows), _halves(outside))
    inside, unlike = (
        goal_of(network, candidates, parts[0][:MOST_ROWS], random, _TARGETS) for parts in both
    )
    checks = {
        name: goal_of(network, candidates, parts[-1][:MOST_ROWS], random, _TARGETS)[0]
        for name, parts in zip((INSIDE, OUTSIDE), both, strict=True)
    }
    ratios = np.concatenate([inside[1], unlike[1]], axis=1)
    share = np.concatenate([inside[0].share, unlike[0].share]) / 2
    chosen, weights = greedy(ratios, share, members)
    vectors = candidates.vectors[chosen]
    few = Members(vectors, candidates.walker[chosen], weights)
    return few, _losses(network, few, checks)


def _losses(network: Network, members: Members, checks: dict[str, Goal]) -> dict[str, float]:
    """Nats a row that members lose at some goals."""
    return {
        name: goal.loss(members.weight @ goal.ratios(network, members))
        for name, goal in checks.items()
    }


def held_out_loss(
    all_draws: tuple[Network, Members], few: tuple[Network, Members], test: tuple[Any, np.ndarray]
) -> float:
    """Nats a row that are lost on rows of the test set, by their labels.

    Args:
        all_draws: The network of the run, and draws that stand for all.
        few: The network and the members that take their place.
        test: Inputs and targets of the test set.
    """
    rows, targets = (part[:MOST_ROWS] for part in test)
    densities = []
    for network, members in (all_draws, few):
        prepared = network.prepared_targets(targets)
        outputs, extra = outputs_of_draws(network, members, network.prepared(rows))
        logs = network.predictive.log_likelihoods(outputs, prepared, targets, extra)
        share = members.weight[:, None] / members.weight.sum()
        densities.append(logsumexp(logs, b=share, axis=0))
    return float(np.mean(densities[0] - densities[1]))


def test_part_of(run: RunFiles, network: Network) -> tuple[Any, np.ndarray] | None:
    """Inputs and targets of the run's test set; None if there are none, or no likelihood.

    A data file that cannot be read is a warning: members can be chosen without it.

    Args:
        run: The run.
        network: Its network.
    """
    if not network.predictive.likelihood or not has_its_data(run):
        return None
    try:
        data = dataset_of(run)
    except InputError as error:
        warn_user(f"The loss on held-out rows is not measured. {error}")
        return None
    if data.test_inputs is None or data.test_targets is None:
        return None
    return data.test_inputs, data.test_targets


def greedy(ratios: np.ndarray, share: np.ndarray, members: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws whose weighted mixture has the largest mean log density.

    They are added one by one with equal weights, then weighted. Those that matter least make room
    for others, until nothing improves.

    Args:
        ratios: Densities of the draws at some points, shape (draws, points).
        share: What each point counts, with the sum 1, shape (points,).
        members: How many draws.

    Returns:
        Numbers of the draws, each once, and their weights with the sum 1.
    """
    chosen: list[int] = []
    sums = np.zeros(ratios.shape[1])
    for count in range(members):
        gains = _gains(ratios, share, sums / max(1, count), 1 / (count + 1))
        gains[chosen] = -np.inf
        chosen.append(int(gains.argmax()))
        sums += ratios[chosen[-1]]
    weights = mixture_weights(ratios[chosen].T, share)
    for _ in range(_EXCHANGES):
        better, new = _exchanged(ratios, share, chosen, weights)
        if new is None:
            break
        chosen, weights = better, new
    there = weights > 0
    return np.asarray(chosen)[there], weights[there] / weights[there].sum()


_EXCHANGES = 16
"""Exchanges of one draw for another at most."""


def _exchanged(
    ratios: np.ndarray, share: np.ndarray, chosen: list[int], weights: np.ndarray
) -> tuple[list[int], np.ndarray | None]:
    """One draw in place of the one that matters least, if that improves the mixture."""
    mixture = weights @ ratios[chosen]
    without = [mixture - w * ratios[k] for w, k in zip(weights, chosen, strict=True)]
    place = int(np.argmax([share @ log_of(remaining) for remaining in without]))
    part = max(float(weights[place]), 1 / (2 * len(chosen)))
    remaining = without[place] / max(1e-12, 1 - float(weights[place]))
    gains = _gains(ratios, share, remaining, part)
    gains[chosen] = -np.inf
    other = [*chosen[:place], int(gains.argmax()), *chosen[place + 1 :]]
    new = mixture_weights(ratios[other].T, share)
    before = share @ log_of(mixture)
    after = share @ log_of(new @ ratios[other])
    return (other, new) if after > before + 1e-6 else (chosen, None)


def _gains(ratios: np.ndarray, share: np.ndarray, mixture: np.ndarray, part: float) -> np.ndarray:
    """Mean log density of a mixture with each draw added at a share, shape (draws,)."""
    gains = np.empty(len(ratios))
    for first in range(0, len(gains), 64):
        some_draws = slice(first, first + 64)
        both = (1 - part) * mixture + part * ratios[some_draws]
        gains[some_draws] = log_of(both) @ share
    return gains


def candidates_of(draws: AnyDraws) -> Members:
    """At most `MOST_CANDIDATES` draws, evenly along the chains, and all fits that are averaged."""
    if isinstance(draws, DrawsAndFits):
        both = DrawsAndFits(candidates_of(draws.draws), draws.fits)
        return Members(vectors_of(both, np.arange(len(both))), both.walker, both.weight, both.kind)
    order = np.lexsort((draws.step, draws.walker))
    count = min(MOST_CANDIDATES, len(order))
    numbers = np.sort(order[np.linspace(0, len(order) - 1, count).astype(int)])
    return Members(
        vectors_of(draws, numbers), draws.walker[numbers], draws.weight[numbers], draws.kind
    )


def vectors_of(draws: AnyDraws, numbers: np.ndarray) -> np.ndarray:
    """Parameters of some draws.

    Args:
        draws: The draws.
        numbers: Numbers of those that are wanted, in increasing order, shape (some,).

    Returns:
        Parameters, shape (some, P).
    """
    vectors = []
    for first, values in draws.blocks(len(draws)):
        some_draws = numbers[(numbers >= first) & (numbers < first + len(values))]
        vectors.append(values[some_draws - first])
    return np.concatenate(vectors)


def _halves(rows: np.ndarray) -> list[np.ndarray]:
    """Every second row chooses members, the others measure what is lost; a single row does both."""
    return [rows[0::2], rows[1::2]] if len(rows) > 1 else [rows]


def training_rows(run: RunFiles) -> np.ndarray:
    """Some training inputs, always the same."""
    if not has_its_data(run):
        raise InputError(
            "The data of the run were given in Python, and are not at hand.",
            expected="inputs=..., rows like those to predict, or tati_re.load(folder, data=...)",
        )
    inputs = dataset_of(run).inputs
    count = min(2 * MOST_ROWS, len(inputs))
    rows = np.random.default_rng(_SEED).choice(len(inputs), count, replace=False)
    return np.asarray(inputs[rows])


def _warn_of_loss(losses: dict[str, float], members: int, tolerance: float) -> None:
    where, worst = max(
        (INSIDE, losses[INSIDE]), (OUTSIDE, losses[OUTSIDE]), key=lambda pair: pair[1]
    )
    if worst <= tolerance:
        return
    kind = "inputs of the training data" if where == INSIDE else "inputs outside the data"
    who = "One member loses" if members == 1 else f"{members} members lose"
    warn_user(
        f"{who} {worst:.3f} nats a row on {kind} (tolerance {tolerance:g}). "
        f"Keep more of them, such as members={2 * members}."
    )


def _parts(
    run: RunFiles, network: Network, members: Members, losses: dict[str, float], model: Any
) -> Parts:
    """What a predictor of these members consists of."""
    auxiliary = network.auxiliary_of(members.vectors, members.walker)
    return Parts(
        manifest=carried_manifest(run.manifest),
        members=members.vectors.astype(network.flat.dtype),
        weights=members.weight / members.weight.sum(),
        model_file=model_bytes(network.flat.model),
        auxiliary=auxiliary,
        calibration=calibration_of(run, model),
        losses=losses,
    )


def calibration_of(run: RunFiles, model: Any) -> float | None:
    """The factor by which predictions of a run are calibrated; None if they are not.

    Args:
        run: The run.
        model: The Keras model if the folder holds none.
    """
    if run.manifest.is_fit or chosen_calibration(run.manifest, None) == NONE:
        return None
    return calibration(run, model, run.manifest.averaged).factor
