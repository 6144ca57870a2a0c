"""Predictions of several networks, averaged over all their draws in bounded memory."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError
from tati_re.core.front_door import front_door
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import CLASSES, LABELS, Predictive
from tati_re.prediction import results
from tati_re.prediction.deferred import Deferred
from tati_re.prediction.draws import AnyDraws, series_of
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import BLOCK_DRAWS, outputs_of_draws
from tati_re.prediction.part import PredictedPart
from tati_re.prediction.row_labels import RowLabels, row_labels

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
    sources: Sequence[tuple[Network, AnyDraws]],
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
    networks = [network for network, _ in sources]
    _check_same_quantity(networks)
    packed = [network.packed(inputs) for network in networks]
    prepared = [network.prepared_rows(rows) for network, rows in zip(networks, packed, strict=True)]
    truth = row_labels(networks[0], labels, len(packed[0]))
    rows_at_once = _rows_at_once(sources, memory_values)
    parts, independent = _predicted_parts(
        sources, prepared, truth, interval, rows_at_once, block_draws
    )
    common = _common_entries(sources, parts, packed[0], interval, independent)
    kind = networks[0].predictive.kind
    if kind == CLASSES:
        return _class_prediction(networks[0], parts, truth, common)
    if kind == LABELS:
        return _label_prediction(networks[0], parts, truth, common)
    return _value_prediction(networks[0], parts, truth, common)


def _check_same_quantity(networks: Sequence[Network]) -> None:
    """Refuses networks that predict different quantities."""
    first = networks[0]
    for network in networks[1:]:
        pairs = [(one.predictive, one.class_names) for one in (first, network)]
        forms = [
            (predictive.kind, predictive.num_columns, predictive.rows, names)
            for predictive, names in pairs
        ]
        if forms[0] != forms[1]:
            kinds = [
                f"{predictive.kind} of {predictive.num_columns} {', '.join(map(str, names))}"
                for predictive, names in pairs
            ]
            raise InputError("The runs predict different quantities.", " and ".join(kinds))


def _rows_at_once(sources: Sequence[tuple[Network, AnyDraws]], memory_values: int) -> int:
    """The number of inputs whose predictions by all draws are in memory at a time."""
    first = sources[0][0].predictive
    num_draws = sum(len(draws) for _, draws in sources)
    values_of_row = num_draws * first.rows * max(first.num_columns, first.num_outputs)
    return max(1, memory_values // values_of_row)


def _predicted_parts(
    sources: Sequence[tuple[Network, AnyDraws]],
    prepared: Sequence[np.ndarray],
    truth: RowLabels | None,
    level: float,
    rows_at_once: int,
    block_draws: int,
) -> tuple[list[PredictedPart], Deferred]:
    """Predictions of some of the inputs after the other, and the number of independent draws.

    Args:
        sources: Networks and their parameters.
        prepared: The inputs as each network takes them.
        truth: True labels, or None.
        level: Probability inside the intervals.
        rows_at_once: The number of inputs of a part.
        block_draws: Number of draws evaluated at a time.
    """
    count = len(prepared[0])
    parts: list[PredictedPart] = []
    columns: list[np.ndarray] = []
    for start in range(0, count, rows_at_once):
        rows = slice(start, start + rows_at_once)
        inputs = [of_network[rows] for of_network in prepared]
        source_outputs = [
            outputs_of_draws(network, draws, of_network, block_draws)
            for (network, draws), of_network in zip(sources, inputs, strict=True)
        ]
        if not parts:
            columns = [series_of(outputs) for outputs, _ in source_outputs]
        part = PredictedPart(
            sources,
            inputs,
            source_outputs,
            labels=None if truth is None else truth.values[rows],
            level=level,
            compared=truth is None or truth.are_outputs,
        )
        part.keep(whole=rows_at_once >= count)
        parts.append(part)
    # Autocorrelations of a single row would take longer than its prediction.
    return parts, Deferred(lambda: _independent_draws(sources, columns))


def _independent_draws(
    sources: Sequence[tuple[Network, AnyDraws]], columns: Sequence[np.ndarray]
) -> float:
    """Independent draws with the error of all, from some outputs of each source."""
    of_sources = [
        draws.independent_of(series) for (_, draws), series in zip(sources, columns, strict=True)
    ]
    # The variance of the mean of several runs is that of each, times the square of its share.
    totals = np.array([draws.weight.sum() for _, draws in sources])
    return float(totals.sum() ** 2 / (totals**2 / of_sources).sum())


def _common_entries(
    sources: Sequence[tuple[Network, AnyDraws]],
    parts: list[PredictedPart],
    inputs: np.ndarray,
    level: float,
    independent: Deferred,
) -> dict[str, Any]:
    """The fields that predictions of all kinds have."""
    weight = np.concatenate([draws.weight for _, draws in sources])
    before = np.cumsum([0, *(draws.walker.max() + 1 for _, draws in sources)])
    walkers = [draws.walker + first for (_, draws), first in zip(sources, before[:-1], strict=True)]
    return {
        "num_draws": sum(len(draws) for _, draws in sources),
        "effective_draws": float(weight.sum() ** 2 / (weight**2).sum()),
        "independent_draws": independent,
        "inputs": inputs,
        "level": level,
        "walker": np.concatenate(walkers),
        "weight": weight,
        "draw_losses": _over_examples(parts, "losses", len(inputs)),
        "notes": sources[0][0].predictive.notes,
        "averaged": tuple(dict.fromkeys(draws.kind for _, draws in sources)),
    }


def _class_prediction(
    network: Network,
    parts: list[PredictedPart],
    truth: RowLabels | None,
    common: dict[str, Any],
) -> results.ClassPrediction:
    predictive = network.predictive
    count = len(common["inputs"]) * predictive.rows
    names = network.class_names
    return results.ClassPrediction(
        **common,
        **_probability_entries(parts),
        draw_accuracy=_over_examples(parts, "right", count),
        places=predictive.rows,
        class_weights=predictive.class_weights,
        labels=None if truth is None else truth.classes,
        class_values=results.class_values(predictive.task, predictive.num_columns, names),
    )


def _label_prediction(
    network: Network,
    parts: list[PredictedPart],
    truth: RowLabels | None,
    common: dict[str, Any],
) -> results.LabelPrediction:
    count = len(common["inputs"]) * network.predictive.rows
    return results.LabelPrediction(
        **common,
        **_probability_entries(parts),
        log_density=_joined(parts, "log_density"),
        labels=None if truth is None else truth.values,
        draw_accuracy=_over_examples(parts, "right", count),
    )


def _probability_entries(parts: list[PredictedPart]) -> dict[str, Any]:
    """The fields that predictions of probabilities have."""
    entries = {name: _joined(parts, name) for name in _AVERAGED}
    entries["lower"] = _later(parts, lambda part: part.probability_ends, 0)
    entries["upper"] = _later(parts, lambda part: part.probability_ends, 1)
    return entries


def _value_prediction(
    network: Network,
    parts: list[PredictedPart],
    truth: RowLabels | None,
    common: dict[str, Any],
) -> results.RegressionPrediction:
    entries = common | {name: _joined(parts, name) for name in _OF_VALUES}
    for number, end in enumerate(("lower", "upper")):
        entries[f"mean_{end}"] = _later(parts, lambda part: part.mean_ends, number)
        entries[end] = _later(parts, lambda part: part.value_ends, number)
    entries["crps"] = _later(parts, lambda part: part.value_scores, 0)
    entries["pit"] = _later(parts, lambda part: part.value_scores, 1)
    entries["notes"] += _notes_on_scores(network, truth, common["draw_losses"] is not None)
    targets = None
    if truth is not None and truth.are_outputs:
        targets = np.asarray(truth.values, np.float64).reshape(len(common["inputs"]), -1)
    return results.RegressionPrediction(
        **entries,
        scale=network.predictive.deviation,
        targets=targets,
        target_names=network.target_names,
    )


def _notes_on_scores(network: Network, truth: RowLabels | None, scored: bool) -> tuple[str, ...]:
    """Which scores there are not, although there are labels."""
    if truth is not None and not truth.are_outputs:
        return (_not_compared(truth.values, network.predictive, scored),)
    if truth is not None and not scored:
        return (f"There is no mean_loss. {_LOST}",)
    return ()


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
