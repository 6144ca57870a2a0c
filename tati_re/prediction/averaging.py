"""Predictions of several networks, averaged over all their draws in bounded memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.data.frames import labels_of
from tati_re.data.labels import are_names, numbers_of_names
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import CLASSES, LABELS, VALUES, Predictive
from tati_re.prediction import results
from tati_re.prediction.deferred import Deferred
from tati_re.prediction.draws import Draws, Members, independent_draws
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import BLOCK_DRAWS, outputs_of_draws
from tati_re.prediction.part import PredictedPart

MEMORY_VALUES = 8_000_000
"""Predictions (draws × inputs × columns) in memory at once, ten times over; more inputs go in
parts, by all draws.
"""
_LOST = (
    "The run's loss was an object, which its folder does not contain. Restore it with "
    "tati_re.load(folder, loss=loss)."
)
_AVERAGED = ("probabilities", "std", "expected_entropy")
_OF_VALUES = (
    "mean",
    "parameter_std",
    "noise_std",
    "log_density",
)
"""What a part of the predictions of a regression has."""


@front_door
def average(
    sources: Sequence[tuple[Network, Draws | Members]],
    inputs: Any,
    labels: Any = None,
    interval: float = 0.9,
    memory_values: int = MEMORY_VALUES,
    block_draws: int = BLOCK_DRAWS,
) -> results.ClassPrediction | results.LabelPrediction | results.RegressionPrediction:
    """Averages the predictions of several networks over all their draws; see `predict`.

    Args:
        sources: Networks and their parameters, as returned by `source_of`.
        inputs: Inputs, `(n, ...)`, before any scaling.
        labels: True labels or values, `(n,)` or `(n, outputs)`. Default: None.
        interval: Probability inside the central intervals, in (0, 1). Default: 0.9.
        memory_values: Largest number of predicted values in memory at a time.
        block_draws: Number of draws evaluated at a time.

    Returns:
        The prediction.

    Raises:
        InputError: The networks predict different things, or inputs and labels do not fit.
    """
    first = sources[0][0].predictive
    for network, _ in sources[1:]:
        other = network.predictive
        called = network.class_names, sources[0][0].class_names
        same = (other.kind, other.num_columns, other.rows) == (
            first.kind,
            first.num_columns,
            first.rows,
        )
        if not same or called[0] != called[1]:
            pairs = (first, called[1]), (other, called[0])
            kinds = [
                f"{result.kind} of {result.num_columns} {', '.join(map(str, names))}"
                for result, names in pairs
            ]
            raise InputError("The runs predict different quantities.", " and ".join(kinds))
    prepared = [network.prepared(inputs) for network, _ in sources]
    inputs = sources[0][0].packed(inputs)
    count = len(inputs) * first.rows
    if labels is not None:
        labels = labels_of(labels, "labels")
        if are_names(labels, sources[0][0].class_names):
            labels = numbers_of_names(labels, sources[0][0].class_names, "labels")
        if len(labels) != len(inputs):
            raise InputError(
                "The numbers of inputs and labels differ.",
                f"{len(inputs)} and {len(labels)}",
                "equal",
            )
        if first.kind == CLASSES:
            fit = labels.size in (count, count * first.num_columns)
            refuse_if(
                not fit,
                "The labels do not match the network.",
                labels.shape,
                f"one class for each of {count:,}",
            )
            numbers = class_labels(labels.reshape(count, -1), first.num_columns)
            labels = {"one_hot": np.eye(first.num_columns)[numbers], "signs": 2 * numbers - 1}.get(
                first.task
            )
            labels = numbers.reshape(len(inputs), -1) if labels is None else labels
        elif first.kind == LABELS:
            labels = results.labels_of_rows(labels, (len(inputs), first.num_columns))
        elif labels.size != len(inputs) * first.num_columns and not first.own_loss:
            raise InputError(
                "The targets do not match the network.", labels.shape, f"(n, {first.num_columns})"
            )
        elif labels.dtype.kind not in "buif" or not np.isfinite(labels).all():
            raise InputError(
                "The labels are not finite numbers.", f"type {labels.dtype}", "finite numbers"
            )
        if isinstance(first, LikelihoodPredictive):
            first.check_labels(labels)
    compared = labels is None or first.kind != VALUES
    compared = compared or labels.size == len(inputs) * first.num_columns
    num_draws = sum(len(draws) for _, draws in sources)
    rows = max(
        1, memory_values // (num_draws * first.rows * max(first.num_columns, first.num_outputs))
    )
    parts: list[PredictedPart] = []
    independent = float("nan")
    for start in range(0, len(inputs), rows):
        part = slice(start, start + rows)
        these = [x[part] for x in prepared]
        source_outputs = [
            outputs_of_draws(*source, x, block_draws)
            for source, x in zip(sources, these, strict=True)
        ]
        if not parts:
            independent_by_source = [
                len(draws_of_source)
                if isinstance(draws_of_source, Members)
                else independent_draws(
                    f, draws_of_source.step, draws_of_source.walker, draws_of_source.weight
                )
                for (_, draws_of_source), (f, _) in zip(sources, source_outputs, strict=True)
            ]
            # Of so many runs' mean the variance is that of each, times the square of its share.
            totals = np.array([draws.weight.sum() for _, draws in sources])
            independent = float(totals.sum() ** 2 / (totals**2 / independent_by_source).sum())
        known = None if labels is None else labels[part]
        made = PredictedPart(sources, these, source_outputs, known, interval, compared)
        made.keep(whole=rows >= len(inputs))
        parts.append(made)
    weight = np.concatenate([draws.weight for _, draws in sources])
    before = np.cumsum([0, *(draws.walker.max() + 1 for _, draws in sources)])
    shared: dict[str, Any] = {
        "num_draws": num_draws,
        "effective_draws": float(weight.sum() ** 2 / (weight**2).sum()),
        "independent_draws": independent,
        "inputs": inputs,
        "level": interval,
        "walker": np.concatenate(
            [draws.walker + k for (_, draws), k in zip(sources, before[:-1], strict=True)]
        ),
        "weight": weight,
        "draw_losses": _over_examples(parts, "losses", len(inputs)),
        "notes": first.notes,
        "averaged": tuple(dict.fromkeys(draws.kind for _, draws in sources)),
    }
    hits = None if first.kind == VALUES else _over_examples(parts, "right", count)
    if first.kind != VALUES:
        shared["lower"] = _later(parts, lambda part: part.probability_ends, 0)
        shared["upper"] = _later(parts, lambda part: part.probability_ends, 1)
    if first.kind == CLASSES:
        values = results.class_values(first.task, first.num_columns, sources[0][0].class_names)
        shared |= {name: _joined(parts, name) for name in _AVERAGED}
        shared |= {"draw_accuracy": hits, "places": first.rows}
        shared["class_weights"] = first.class_weights
        return results.ClassPrediction(
            **shared, labels=None if labels is None else numbers, class_values=values
        )
    if first.kind == LABELS:
        shared |= {name: _joined(parts, name) for name in (*_AVERAGED, "log_density")}
        return results.LabelPrediction(**shared, labels=labels, draw_accuracy=hits)
    shared |= {name: _joined(parts, name) for name in _OF_VALUES}
    for number, end in enumerate(("lower", "upper")):
        shared[f"mean_{end}"] = _later(parts, lambda part: part.mean_ends, number)
        shared[end] = _later(parts, lambda part: part.value_ends, number)
    shared["crps"] = _later(parts, lambda part: part.value_scores, 0)
    shared["pit"] = _later(parts, lambda part: part.value_scores, 1)
    scored = shared["draw_losses"] is not None
    if labels is not None and not compared:
        shared["notes"] += (_not_compared(labels, first, scored),)
    elif labels is not None and not scored:
        shared["notes"] += (f"There is no mean_loss. {_LOST}",)
    targets = None
    if labels is not None and compared:
        targets = np.asarray(labels, np.float64).reshape(len(inputs), -1)
    return results.RegressionPrediction(
        **shared, scale=first.deviation, targets=targets, target_names=sources[0][0].target_names
    )


def _not_compared(labels: np.ndarray, predictive: Predictive, scored: bool) -> str:
    """Says what scores there are of labels whose shape is not that of the outputs."""
    if isinstance(predictive, LikelihoodPredictive):
        return (
            "Each label has a value and an event. The score is the density of both; "
            "censored values have no error and no coverage."
        )
    shape = ", ".join(["n", *map(str, labels.shape[1:])])
    reason = (
        f"The labels, of shape ({shape}), do not match the outputs, of shape (n, "
        f"{predictive.num_columns}): there is no error or coverage."
    )
    return f"{reason} {'The score is the loss of the run.' if scored else _LOST}"


def _later(
    parts: list[PredictedPart], read: Callable[[PredictedPart], Any], number: int
) -> Deferred:
    """One of two results of all parts, computed when it is read.

    Args:
        parts: The parts.
        read: Both results of a part.
        number: Which one.
    """

    def compute() -> np.ndarray | None:
        values = [read(part)[number] for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Deferred(compute)


def _joined(parts: list[PredictedPart], name: str) -> Any:
    values = [vars(part)[name] for part in parts]
    return None if values[0] is None else np.concatenate(values)


def _over_examples(parts: list[PredictedPart], name: str, count: int) -> np.ndarray | None:
    values = [vars(part)[name] for part in parts]
    return None if values[0] is None else np.sum(values, axis=0) / count
