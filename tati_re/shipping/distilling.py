"""One network that predicts as the average over all draws of a run, and what that costs in nats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_warnings import warn_user
from tati_re.likelihoods.student_t import LaplaceNoise, StudentTNoise
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import CLASSES, VALUES
from tati_re.prediction.draws import Members
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.sources import source_of
from tati_re.runs.manifest import SCHEMA_VERSION, Manifest
from tati_re.runs.run import RunFiles
from tati_re.shipping.carried_run import carried_manifest
from tati_re.shipping.compressing import (
    HELD_OUT,
    INSIDE,
    MOST_ROWS,
    OUTSIDE,
    calibration_of,
    candidates_of,
    held_out_loss,
    test_part_of,
    training_rows,
)
from tati_re.shipping.goals import MOST_VALUES, goal_of
from tati_re.shipping.outside_inputs import inputs_outside
from tati_re.shipping.predictor import Predictor
from tati_re.shipping.predictor_file import Parts, model_bytes
from tati_re.shipping.student import Student, Targets

HIDDEN = (64, 64, 64)
STEPS = 8_000
DISTIL_TOLERANCE = 0.05
"""Nats a row that a distillation may lose."""

_HELD_OUT_SHARE = 8
"""One in this many training inputs measures the loss and trains nothing."""
_ROWS_OF_A_KIND = 2_048
_TARGETS = 16
_SEED = 0xD157
_FAR = 10.0
"""Widths from the median member at which a member counts for the spread; further ones count as if
there, since a single wild one would decide the spread of all.
"""
_SPREAD_KEPT = 0.9
_LOSSES = {
    "classification": "sparse_categorical_crossentropy",
    "one_hot": "categorical_crossentropy",
    "signs": "binary_crossentropy",
}


@dataclass(frozen=True)
class _Rows:
    """Inputs as in the data set.

    Attributes:
        training: Inputs that train the network, by kind.
        checks: Inputs that measure the loss, by kind.
    """

    training: dict[str, np.ndarray]
    checks: dict[str, np.ndarray]


@front_door
def distil(
    run: RunFiles,
    hidden: Sequence[int] = HIDDEN,
    tolerance: float = DISTIL_TOLERANCE,
    *,
    num_steps: int = STEPS,
    inputs: Any = None,
    outside: Any = None,
    model: Any = None,
    seed: int = 0,
) -> Predictor:
    """Trains one network to predict like the average over all draws of a run.

    The network has tanh layers. For values it predicts mean and standard deviation, for classes
    their probabilities. It minimizes the Kullback-Leibler divergence from the average over the
    draws at training inputs, between pairs of them, and outside the data. No labels are used.

    One network cannot tell noise from uncertainty of the parameters: `parameter_std` is 0, and so
    is the mutual information of classes. A normal distribution has one mode and thin tails. Prefer
    `compress` if several networks fit into the application.

    Args:
        run: The run.
        hidden: Units of the hidden layers. Default: (64, 64, 64).
        tolerance: Accepted loss in nats per row inside and outside the data. A larger loss is a
            warning. Default: 0.05.
        num_steps: Training steps, at least 1. Default: 8,000.
        inputs: Inputs like those to be predicted, as in the data set. Default: None, training rows.
        outside: Inputs unlike the data. Default: None, generated from `inputs` by `inputs_outside`.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        seed: Seed of the weights and of the order of the rows. Default: 0.

    Returns:
        A predictor of one network, with its losses.

    Raises:
        InputError: The run predicts counts, positive values, several labels or several places, has
            several inputs, or no inputs are available.
    """
    refuse_if(num_steps < 1, "num_steps is too small.", num_steps, "at least 1")
    refuse_if(not tolerance > 0, "tolerance is too small.", tolerance, "a number above 0")
    network, draws = source_of(run, model=model)
    _refuse_indistillable(network)
    candidates = candidates_of(draws)
    rows = training_rows(run) if inputs is None else network.packed(inputs)
    rows = np.asarray(rows)
    problem = "distil: two rows are the minimum."
    refuse_if(len(rows) < 2, problem, len(rows), "inputs=..., rows like those to predict")
    chosen = _rows(rows, None if outside is None else network.packed(outside), seed)

    student = Student(network, tuple(hidden), seed)
    targets = _targets(network, candidates, chosen.training)
    student.train(targets, num_steps)

    manifest = _manifest(run.manifest, network, student.flat.described())
    parts = Parts(
        manifest=manifest,
        members=student.vector[None],
        weights=np.ones(1),
        model_file=model_bytes(student.flat.model),
        calibration=calibration_of(run, model),
    )
    distilled = Predictor(parts)
    source = (distilled.network, distilled.members)
    losses = _losses((network, candidates), source, chosen.checks)
    if (test := test_part_of(run, network)) is not None:
        losses[HELD_OUT] = held_out_loss((network, candidates), source, test)
    _warn_of_loss(losses, tolerance)
    if network.predictive.kind == VALUES:
        _warn_of_spread((network, candidates), source, chosen.checks[OUTSIDE])
    return Predictor(parts.with_losses(losses))


def _refuse_indistillable(network: Network) -> None:
    predictive = network.predictive
    several = bool(network.layout) or predictive.rows > 1 or network.places > 1
    several = several or None in network.input_shape
    problem = "distil: the network has several inputs, inputs of any length, or several places."
    refuse_if(several, problem, expected="run.compress")
    expected = "a run of classes, or of values with Gaussian, Laplace or Student t noise"
    of_registry = isinstance(predictive, LikelihoodPredictive)
    symmetric = isinstance(predictive.objective, (StudentTNoise, LaplaceNoise))
    normal = predictive.kind == VALUES and predictive.has_noise and (symmetric or not of_registry)
    classes = predictive.kind == CLASSES and predictive.task in _LOSSES and not of_registry
    problem = "distil: one network cannot predict targets of this kind."
    refuse_if(not (normal or classes), problem, predictive.name, expected)
    takes_integers = np.issubdtype(np.dtype(network.flat.input_dtype), np.integer)
    problem = "distil: the network of the run has whole numbers as inputs."
    refuse_if(takes_integers, problem, network.flat.input_dtype, "run.compress")


def _rows(rows: np.ndarray, outside: np.ndarray | None, seed: int) -> _Rows:
    """Inputs to train on and inputs to measure the loss on, inside, between and outside the data."""
    random = np.random.default_rng([_SEED, seed])
    order = random.permutation(len(rows))
    num_checks = max(1, min(MOST_ROWS, len(rows) // _HELD_OUT_SHARE))
    checks, training = rows[order[:num_checks]], rows[order[num_checks:]]
    if outside is None:
        repeats = -(-_ROWS_OF_A_KIND // len(training))
        made = [inputs_outside(training, seed=number) for number in range(repeats)]
        unlike = np.concatenate(made)[:_ROWS_OF_A_KIND]
        unlike_checks = inputs_outside(rows, seed=repeats)[:MOST_ROWS]
    else:
        unlike, unlike_checks = outside[0::2], outside[-1::-2][:MOST_ROWS]
    return _Rows(
        {INSIDE: training, "between": _between(training, random), OUTSIDE: unlike},
        {INSIDE: checks, OUTSIDE: unlike_checks},
    )


def _between(rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Inputs between pairs of others, so that few rows are not learned by heart.

    Columns of whole numbers stay whole, as they may be the numbers of categories.
    """
    first, second = random.integers(len(rows), size=(2, _ROWS_OF_A_KIND))
    part = random.uniform(size=(_ROWS_OF_A_KIND, *[1] * (rows.ndim - 1)))
    between = (1 - part) * rows[first] + part * rows[second]
    are_whole = np.all(rows == np.round(rows), axis=0)
    return np.where(are_whole, np.round(between), between)


def _targets(
    network: Network, candidates: Members, kinds: dict[str, np.ndarray]
) -> dict[str, Targets]:
    """What the network learns at inputs of each kind."""
    return {name: _targets_of(network, candidates, rows) for name, rows in kinds.items()}


def _targets_of(network: Network, candidates: Members, rows: np.ndarray) -> Targets:
    size = len(candidates) * max(1, network.predictive.num_outputs)
    step = max(1, MOST_VALUES // size)
    prepared = network.prepared(rows)
    pieces = []
    for first in range(0, len(prepared), step):
        some = prepared[first : first + step]
        pieces.append(_averages(network, candidates, some))
    joined = [np.concatenate(part) for part in zip(*pieces, strict=True)]
    return Targets(prepared, joined[0], joined[1] if len(joined) > 1 else None)


def _averages(network: Network, members: Members, prepared: np.ndarray) -> list[np.ndarray]:
    """Mean and deviation of the average over members in the units of the data, or probabilities."""
    predictive = network.predictive
    share = members.weight / members.weight.sum()
    outputs, extra = outputs_of_draws(network, members, prepared)
    if predictive.kind == CLASSES:
        return [np.tensordot(share, np.exp(predictive.log_probabilities(outputs)), 1)]
    with np.errstate(all="ignore"):
        law = predictive.law(outputs, extra)
        widths = np.broadcast_to(law.std, law.mean.shape)
        middle = np.median(law.mean, axis=0)
        width = np.median(widths, axis=0) + np.median(np.abs(law.mean - middle), axis=0)
        widths = np.minimum(widths, _FAR * width)
        means = np.clip(law.mean, middle - _FAR * width, middle + _FAR * width)
    mean = np.tensordot(share, means, 1)
    variance = np.tensordot(share, widths**2 + (means - mean) ** 2, 1)
    return [mean, np.sqrt(variance)]


def _manifest(manifest: Manifest, network: Network, parameters: dict[str, Any]) -> Manifest:
    """What is carried of the manifest, with the loss and the parameters of the new network."""
    table = dict(carried_manifest(manifest).table)
    predictive = network.predictive
    loss = "heteroscedastic_gaussian"
    if predictive.kind == CLASSES:
        loss = _LOSSES[predictive.task]
    table["loss"] = {"loss": loss, "from_logits": True, "noise_std": 1.0}
    table["parameters"] = parameters
    options = {**table["options"], "noise_std": 1.0}
    options.pop("fix_parameters", None)
    table["options"] = options
    return Manifest.of({**table, "schema_version": SCHEMA_VERSION})


def _losses(
    all_draws: tuple[Network, Members],
    distilled: tuple[Network, Members],
    checks: dict[str, np.ndarray],
) -> dict[str, float]:
    """Nats a row that are lost on inputs of each kind."""
    random = np.random.default_rng(_SEED)
    losses = {}
    for name, rows in checks.items():
        goal, _ = goal_of(*all_draws, rows, random, _TARGETS)
        losses[name] = goal.loss(goal.ratios(*distilled)[0])
    return losses


def _warn_of_loss(losses: dict[str, float], tolerance: float) -> None:
    where = max((INSIDE, OUTSIDE), key=lambda name: losses[name])
    if losses[where] <= tolerance:
        return
    kind = "inputs of the training data" if where == INSIDE else "inputs outside the data"
    warn_user(
        f"The distilled network loses {losses[where]:.3f} nats a row on {kind} (tolerance "
        f"{tolerance:g}). Use more hidden units or steps, or compress."
    )


def _warn_of_spread(
    all_draws: tuple[Network, Members], distilled: tuple[Network, Members], rows: np.ndarray
) -> None:
    """Warns if the network is surer outside the data than all draws together."""
    spreads = []
    for network, members in (all_draws, distilled):
        spreads.append(_averages(network, members, network.prepared(rows))[1])
    ratio = float(np.median(spreads[1] / spreads[0]))
    if ratio < _SPREAD_KEPT:
        warn_user(
            "The distilled network loses spread outside the data: its standard deviation is "
            f"{ratio:.2f} times the one of all {all_draws[1].kind} (median of {len(rows):,} inputs)."
        )
