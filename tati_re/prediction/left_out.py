"""Training rows left out one by one: weights of the draws, and what these predict without a row."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from tati_re.core.errors import InputError, refuse_if
from tati_re.prediction.draws import DRAWS, FITS
from tati_re.prediction.leave_one_out import (
    LEAST_DRAWS,
    chosen_rows,
    left_out_weights,
    refuse_other_temperature,
    refuse_weighted_draws,
    relative_efficiency,
)
from tati_re.prediction.network import Network, likelihood_blocks, likelihood_of
from tati_re.prediction.stacking import EQUAL, chain_weights, chosen_weights
from tati_re.runs.fits import held_out_of, read_fits
from tati_re.runs.positions import Block, Positions
from tati_re.runs.run import RunFiles


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Predictions of rows by the posterior of all other rows.

    Attributes:
        network: The network of the run.
        outputs: Outputs of each draw, shape (draws, n, outputs).
        extra: The extra parameters of each draw, such as a sampled noise, shape (draws, numbers);
            None where there are none.
        log_weights: Logarithms of the weights of the draws for each row, shape (draws, n).
        pareto_k: Shape of the tail of these weights, shape (n,).
        log_density: Log density of each row, shape (n,).
    """

    network: Network
    outputs: np.ndarray
    extra: np.ndarray | None
    log_weights: np.ndarray
    pareto_k: np.ndarray
    log_density: np.ndarray


def left_out(
    run: RunFiles,
    data: Any,
    rows: np.ndarray,
    most_draws: int,
    weights: str = EQUAL,
    model: Any = None,
) -> LeftOut:
    """Leaves rows out of a posterior that was conditioned on them, each one in turn.

    The draws get weights 1/p(y_i | θ), whose tail is smoothed (Vehtari, Gelman and Gabry, 2017).

    Args:
        run: The run, at temperature 1, of a likelihood.
        data: Its data set.
        rows: Numbers of training rows, shape (n,).
        most_draws: Draws that are used at most.
        weights: `equal`, all draws together; or `stacking`, each chain leaves out by itself, and
            chains are averaged with their weights.
        model: The Keras model if the folder holds none. Default: the model in the folder.

    Returns:
        Outputs and weights of the draws, and the density of each row.

    Raises:
        InputError: No likelihood, another temperature, draws with weights, or too few.
    """
    refuse_other_temperature(run, "rows")
    data, network = likelihood_of(run, data, model)
    stored = Positions(run).read()
    refuse_weighted_draws(stored, "rows")
    order = np.lexsort((stored.step, stored.walker))
    problem = "There are too few draws for leave-one-out scores."
    refuse_if(len(order) < LEAST_DRAWS, problem, len(order), f"at least {LEAST_DRAWS}")
    draws = order[:: math.ceil(len(order) / most_draws)]
    logs, outputs, extra = _joined(likelihood_blocks(network, data, stored, draws, rows))
    if weights == EQUAL:
        efficiency = relative_efficiency(logs, stored.step[draws], stored.walker[draws])
        log_weights, pareto_k = left_out_weights(logs, efficiency)
    else:
        share = chain_weights(run, data, model).weight
        log_weights, pareto_k = _weights_by_chain(logs, stored.walker[draws], share)
    plain = logs if data.weights is None else logs / data.weights[rows]
    return LeftOut(
        network=network,
        outputs=outputs,
        extra=extra,
        log_weights=log_weights,
        pareto_k=pareto_k,
        log_density=logsumexp(log_weights + plain, axis=0),
    )


def unseen_rows(run: RunFiles, data: Any, most: int) -> np.ndarray:
    """Training rows that no fit of a run was trained on, and that count.

    Args:
        run: The run.
        data: Its data set.
        most: Rows at most; of more, so many are drawn at random.

    Returns:
        Numbers of rows, ascending, shape (n,); none if the run has no such rows.

    Raises:
        InputError: The fits are of other data.
    """
    rows = held_out_of(read_fits(run.folder), run.folder, data.num_examples)
    if data.weights is not None:
        rows = rows[data.weights[rows] > 0]
    return rows[chosen_rows(len(rows), most)]


def left_out_of_unseen_rows(
    run: RunFiles, data: Any, rows: np.ndarray, model: Any = None
) -> LeftOut:
    """Predictions of rows by the fits of a run, which were not trained on these rows.

    Args:
        run: The run, of a likelihood.
        data: Its data set.
        rows: Numbers of training rows, as of `unseen_rows`, shape (n,), at least 1.
        model: The Keras model if the folder holds none. Default: the model in the folder.

    Returns:
        Outputs of the fits, which count alike in each row, and the density of each row.

    Raises:
        InputError: No likelihood, no such row, or no fits.
    """
    data, network = likelihood_of(run, data, model)
    fits = read_fits(run.folder)
    problem = f"{run.folder} has no rows that its fits were not trained on."
    if fits is None or not len(rows):
        raise InputError(problem, expected="a run for prediction of at least 40 training rows")

    count = len(fits.positions)
    numbers = np.arange(count)
    zeros = np.zeros(count)
    members = Block(numbers, numbers, zeros, zeros, fits.positions.astype(np.float64), None)
    logs, outputs, extra = _joined(likelihood_blocks(network, data, members, numbers, rows))
    plain = logs if data.weights is None else logs / data.weights[rows]
    log_weights = np.full(plain.shape, -math.log(count))
    return LeftOut(
        network=network,
        outputs=outputs,
        extra=extra,
        log_weights=log_weights,
        pareto_k=np.full(len(rows), -np.inf),
        log_density=logsumexp(log_weights + plain, axis=0),
    )


def left_out_of(
    run: RunFiles,
    data: Any,
    rows: np.ndarray,
    most_draws: int,
    averaged: str,
    model: Any = None,
) -> LeftOut:
    """Predictions of rows by what the run predicts with, which has not seen these rows.

    Args:
        run: The run, at temperature 1, of a likelihood.
        data: Its data set.
        rows: Numbers of training rows, shape (n,); with fits such as `unseen_rows` gives.
        most_draws: Draws that are used at most.
        averaged: `draws`, with the weights of the chains that the run's options say; `fits`; or
            `both`.
        model: The Keras model if the folder holds none. Default: the model in the folder.

    Returns:
        Outputs and weights of the draws and fits, and the density of each row.

    Raises:
        InputError: As of `left_out` and `left_out_of_unseen_rows`.
    """
    if averaged == FITS:
        return left_out_of_unseen_rows(run, data, rows, model)
    weights = chosen_weights(run.manifest, None)
    of_draws = left_out(run, data, rows, most_draws, weights, model)
    if averaged == DRAWS:
        return of_draws
    return half_each(of_draws, left_out_of_unseen_rows(run, data, rows, model))


def half_each(one: LeftOut, other: LeftOut) -> LeftOut:
    """The mixture of two predictions of the same rows, with half of the weight each.

    Args:
        one: The first.
        other: The second, of the same network.
    """
    extra = None
    if one.extra is not None and other.extra is not None:
        extra = np.concatenate([one.extra, other.extra])
    both = np.stack([one.log_density, other.log_density])
    return LeftOut(
        network=one.network,
        outputs=np.concatenate([one.outputs, other.outputs]),
        extra=extra,
        log_weights=np.concatenate([one.log_weights, other.log_weights]) - math.log(2),
        pareto_k=np.maximum(one.pareto_k, other.pareto_k),
        log_density=logsumexp(both, axis=0) - math.log(2),
    )


def _joined(blocks: Iterable[tuple]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Log likelihoods, outputs and, where the likelihood has them, sampled numbers of all draws."""
    logs, outputs, extras = zip(*blocks, strict=True)
    extra = None
    if extras[0] is not None:
        extra = np.concatenate([np.asarray(part) for part in extras])
    return np.concatenate(logs), np.concatenate(outputs), extra


def _weights_by_chain(
    logs: np.ndarray, walker: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of draws where each chain leaves rows out by itself, and the largest Pareto k.

    Args:
        logs: log p(y_i | θ) of draws and examples, shape (draws, n).
        walker: The chain of each draw, shape (draws,).
        share: Weights of the chains with the sum 1.

    Returns:
        Logarithms of the weights, shape (draws, n); Pareto k of chains that count, shape (n,).
    """
    log_weights = np.full(logs.shape, -np.inf)
    pareto_k = np.full(logs.shape[1], -np.inf)
    for chain in np.unique(walker):
        if share[chain] > 0:
            is_of_chain = walker == chain
            inside, tail = left_out_weights(logs[is_of_chain])
            log_weights[is_of_chain] = inside + np.log(share[chain])
            pareto_k = np.maximum(pareto_k, tail)
    return log_weights, pareto_k
