"""Predictions of some inputs by all draws: averages at once, intervals and scores when read."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.errors import refuse_if
from tati_re.likelihoods.mixture import mixture_crps, mixture_pit, mixture_quantile
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import LABELS, VALUES, log_mean_exp
from tati_re.prediction.class_averages import ClassAverages
from tati_re.prediction.draws import AnyDraws
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import Network
from tati_re.prediction.outputs import outputs_of_draws
from tati_re.prediction.scores import crps, mixture_cdf, mixture_interval, weighted_quantiles

_PIT_SEED = 0x717
"""Of the places between two probabilities of a count."""
_BLOCK_VALUES = 1 << 17
"""Probabilities that are computed at a time."""
_IMPRECISE = 1e-30
"""Smaller mean probabilities are computed in double precision."""
_KEPT_VALUES = 2_000_000
"""Outputs that a prediction keeps for what is computed later, 16 MB; more are computed again."""


class PredictedPart:
    """Predictions of some of the inputs by all draws.

    What is expensive and not always read is computed when it is read: ends of intervals, CRPS and
    PIT. The outputs of the draws are kept until then if they are few, else computed again.

    Args:
        sources: Networks and their parameters.
        rows: Inputs as each of the networks takes them, some of all.
        source_outputs: Outputs of the draws of each source, and their extra parameters.
        labels: Labels of the inputs, or None.
        level: Probability inside the intervals.
        compared: Whether labels are values of the outputs.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Network, AnyDraws]],
        rows: Sequence[np.ndarray],
        source_outputs: list[tuple],
        labels: np.ndarray | None,
        level: float,
        compared: bool = True,
    ) -> None:
        weight = np.concatenate([draws.weight for _, draws in sources])
        self._share = weight / weight.sum()
        self._weight = weight
        self._level = level
        self._ends = np.array([(1 - level) / 2, (1 + level) / 2])
        self._sources = sources
        self._rows = rows
        self._source_outputs: list[tuple] | None = source_outputs
        self._predictive = [network.predictive for network, _ in sources]
        self.losses: Any = None
        self.right: np.ndarray | None = None
        self.log_density: Any = None
        if labels is not None and all(
            network_of_source.predictive.has_loss for network_of_source, _ in sources
        ):
            parts = [
                network.predictive.losses(f, network.prepared_targets(labels), extra)
                for (network, _), (f, extra) in zip(sources, source_outputs, strict=True)
            ]
            self.losses = np.concatenate([part.sum(axis=1) for part in parts])
        predictive = self._predictive
        self._has_noise = all(source_predictive.has_noise for source_predictive in predictive)
        self._has_laws = any(
            isinstance(source_predictive, LikelihoodPredictive) for source_predictive in predictive
        )
        if labels is not None and predictive[0].kind == LABELS:
            self.log_density = log_mean_exp(-np.concatenate(parts), self._weight)
        if predictive[0].kind == VALUES:
            self._targets: np.ndarray | None = None
            if labels is not None and compared:
                self._targets = np.asarray(labels, np.float64).reshape(len(labels), -1)
            self._values(source_outputs)
            censored = self.log_density is None and self._has_laws
            if labels is not None and censored:
                self.log_density = log_mean_exp(-np.concatenate(parts), self._weight)
        else:
            self._classes(source_outputs, labels)

    def keep(self, whole: bool) -> None:
        """Keeps the outputs of the draws for what is not computed yet, or computes it now.

        Args:
            whole: Whether this part has all inputs, so that no other part keeps outputs as well.
        """
        in_memory = all(draws.in_memory for _, draws in self._sources)
        size = sum(outputs.size for outputs, _ in self._source_outputs or ())
        if not in_memory:
            self._compute_all()
        if not (in_memory and whole and size <= _KEPT_VALUES):
            self._source_outputs = None

    def _compute_all(self) -> None:
        """Computes what is computed when it is read."""
        if self._predictive[0].kind == VALUES:
            _ = self.mean_ends, self.value_ends, self.value_scores
        else:
            _ = self.probability_ends

    def _outputs(self) -> list[tuple]:
        """Outputs of the draws of each source, and their extra parameters."""
        if self._source_outputs is not None:
            return self._source_outputs
        pairs = zip(self._sources, self._rows, strict=True)
        return [outputs_of_draws(*source, rows) for source, rows in pairs]

    def _triples(self, source_outputs: list[tuple]) -> list[tuple[Any, Any, Any]]:
        """What the outputs of each source predict, the outputs, and their extra parameters."""
        return [
            (predictive, *pair)
            for predictive, pair in zip(self._predictive, source_outputs, strict=True)
        ]

    def _classes(self, source_outputs: list[tuple], labels: np.ndarray | None) -> None:
        several = self._predictive[0].kind == LABELS
        rows, columns = self._shape_of(source_outputs[0][0])
        classes = None
        if labels is not None and not several:
            classes = class_labels(labels.reshape(rows, -1), columns)
        averages = self._class_averages(source_outputs, classes, labels if several else None)
        self.right = averages.right
        self.expected_entropy = averages.entropy
        self.probabilities = averages.mean
        self.std = averages.std

        # What is that small has lost digits in single precision, or is not that small.
        imprecise = (self.probabilities < _IMPRECISE).any(axis=1)
        if imprecise.any() and any(outputs.dtype == np.float32 for outputs, _ in source_outputs):
            precise_outputs = [
                (outputs[:, imprecise].astype(np.float64), extra)
                for outputs, extra in source_outputs
            ]
            precise = self._class_averages(precise_outputs)
            self.expected_entropy[imprecise] = precise.entropy
            self.probabilities[imprecise] = precise.mean
            self.std[imprecise] = precise.std
        if not several:  # single precision leaves their sums 1e-8 from 1
            self.probabilities /= self.probabilities.sum(axis=1, keepdims=True)

    def _class_averages(
        self,
        source_outputs: list[tuple],
        classes: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> ClassAverages:
        """Averages of the probabilities of all draws, a few draws at a time.

        Args:
            source_outputs: Outputs of the draws of each source, and their extra parameters.
            classes: True classes, shape (n,), or None.
            labels: True labels of 0 and 1, shape (n, labels), or None.
        """
        rows, columns = self._shape_of(source_outputs[0][0])
        averages = ClassAverages(classes, labels)
        # Temporary arrays of a few draws stay in the cache.
        for some_draws, (predictive, outputs, _) in self._blocks(source_outputs, rows * columns):
            probabilities, entropies = predictive.probabilities_by_class(outputs)
            averages.add(probabilities, entropies, self._share[some_draws])
        return averages

    def _shape_of(self, outputs: np.ndarray) -> tuple[int, int]:
        """Rows, and classes or labels, of the outputs of draws."""
        return outputs.shape[1], self._predictive[0].num_columns

    def _deviation(self, values: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The weighted standard deviation of what the draws predict, a few draws at a time.

        Args:
            values: Predicted values of each draw, shape (draws, ...).
            mean: Their weighted mean, shape (...).
        """
        variance = np.zeros_like(mean)
        for some_draws in _slices(len(values), values[0].size):
            away = values[some_draws] - mean
            away *= away
            variance += np.tensordot(self._share[some_draws], away, 1)
        return np.sqrt(variance)

    def _values(self, source_outputs: list[tuple]) -> None:
        columns = self._predictive[0].num_columns
        values = np.empty((len(self._share), source_outputs[0][0].shape[1], columns))
        for some_draws, (predictive, outputs, extra) in self._blocks(
            source_outputs, values[0].size
        ):
            values[some_draws] = predictive.restored(outputs, extra)
        self.mean = np.tensordot(self._share, values, 1)
        self.parameter_std = self._deviation(values, self.mean)
        self.noise_std = None
        if not self._has_noise:
            return
        triples = self._triples(source_outputs)
        if self._has_laws:
            self.noise_std = np.sqrt(np.tensordot(self._share, self._law(triples).std ** 2, 1))
        else:
            self.noise_std = np.broadcast_to(self._mean_noise(source_outputs), self.mean.shape)
        if self._targets is not None:
            densities = [
                source_predictive.log_densities(f, self._targets, extra_values)
                for source_predictive, f, extra_values in triples
            ]
            self.log_density = log_mean_exp(np.concatenate(densities), self._weight)

    def _mean_noise(self, source_outputs: list[tuple]) -> np.ndarray:
        """Root of the mean variance of the noise, shape (n or 1, outputs)."""
        size = self._noise_size(self.mean.shape)
        total = np.zeros(size)
        for some_draws, (predictive, outputs, extra) in self._blocks(
            source_outputs, self.mean.size
        ):
            noise = predictive.noise(outputs, extra) ** 2
            by_draw = np.broadcast_to(noise, (len(outputs), *size))
            total += np.tensordot(self._share[some_draws], by_draw, 1)
        return np.sqrt(total)

    def _noise_size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of the noise: a single row if no network predicts it."""
        rows = shape[0] if any(predictive.predicts_noise for predictive in self._predictive) else 1
        return rows, shape[-1]

    def _blocks(
        self, source_outputs: list[tuple], size: int
    ) -> Iterator[tuple[slice, tuple[Any, np.ndarray, np.ndarray | None]]]:
        """A few draws at a time: which of all they are; what they predict, outputs and extra."""
        start = 0
        for predictive, outputs, extra in self._triples(source_outputs):
            for some_draws in _slices(len(outputs), size):
                some = outputs[some_draws]
                extra_of_draws = None if extra is None else extra[some_draws]
                yield (
                    slice(start + some_draws.start, start + some_draws.start + len(some)),
                    (predictive, some, extra_of_draws),
                )
            start += len(outputs)

    def _restored(self, triples: list[tuple[Any, Any, Any]]) -> np.ndarray:
        """Predicted values of all draws in the units of the data, shape (draws, n, outputs)."""
        return joined_draws([predictive.restored(f, extra) for predictive, f, extra in triples])

    def _noise(self, triples: list[tuple[Any, Any, Any]], shape: tuple[int, ...]) -> np.ndarray:
        """Deviations of the noise of all draws, shape (draws, n or 1, outputs)."""
        noises = [predictive.noise(f, extra) for predictive, f, extra in triples]
        size = self._noise_size(shape[1:])
        return joined_draws(
            [
                np.broadcast_to(s, (len(f), *size))
                for s, (_, f, _) in zip(noises, triples, strict=True)
            ]
        )

    def _law(self, triples: list[tuple[Any, Any, Any]]) -> Any:
        """The laws of all draws under a likelihood of the registry."""
        refuse_if(
            len({predictive.name for predictive, _, _ in triples}) > 1,
            "The runs have different likelihoods.",
            ", ".join(sorted({predictive.name for predictive, _, _ in triples})),
            "one likelihood",
        )
        laws = [predictive.law(f, extra) for predictive, f, extra in triples]
        return type(laws[0]).joined(laws)

    @cached_property
    def probability_ends(self) -> np.ndarray:
        """Ends of the intervals of probabilities over the draws, shape (2, n, classes)."""
        source_outputs = self._outputs()
        rows, columns = self._shape_of(source_outputs[0][0])
        p = np.empty((sum(len(f) for f, _ in source_outputs), rows, columns))
        for some_draws, (predictive, outputs, _) in self._blocks(source_outputs, p[0].size):
            probabilities, _ = predictive.probabilities_by_class(outputs)
            p[some_draws] = np.moveaxis(probabilities, 0, -1)
        return weighted_quantiles(p, self._weight, self._ends)

    @cached_property
    def mean_ends(self) -> np.ndarray:
        """Ends of the intervals of outputs over the draws, shape (2, n, outputs)."""
        values = self._restored(self._triples(self._outputs()))
        return weighted_quantiles(values, self._weight, self._ends)

    @cached_property
    def value_ends(self) -> Any:
        """Ends of the intervals of new values, shape (2, n, outputs); twice None without noise."""
        if not self._has_noise:
            return None, None
        triples = self._triples(self._outputs())
        if self._has_laws:
            law = self._law(triples)
            outputs = self.mean.shape[-1]
            first = self._predictive[0]
            discrete = isinstance(first, LikelihoodPredictive) and first.target_law.discrete
            return [
                mixture_quantile(law, float(end), self._weight, outputs, discrete)
                for end in self._ends
            ]
        values = self._restored(triples)
        noise = self._noise(triples, values.shape)
        ends = [
            mixture_interval(values[..., k], noise[..., k], self._weight, self._level)
            for k in range(values.shape[-1])
        ]
        return [np.stack(part, axis=1) for part in zip(*ends, strict=True)]

    @cached_property
    def value_scores(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """CRPS and PIT of the targets, shape (n, outputs) each; None without targets or noise."""
        y = self._targets
        if y is None or not self._has_noise:
            return None, None
        triples = self._triples(self._outputs())
        if self._has_laws:
            if y.shape != self.mean.shape:
                return None, None
            law = self._law(triples)
            random = np.random.default_rng(_PIT_SEED)
            return mixture_crps(law, y, self._weight), mixture_pit(law, y, self._weight, random)
        values = self._restored(triples)
        noise = self._noise(triples, values.shape)
        columns = range(values.shape[-1])
        scores = [crps(y[:, k], values[..., k], noise[..., k], self._weight) for k in columns]
        below = [mixture_cdf(y[:, k], values[..., k], noise[..., k], self._weight) for k in columns]
        return np.stack(scores, axis=1), np.stack(below, axis=1)


def joined_draws(parts: list[np.ndarray]) -> np.ndarray:
    """Arrays one behind the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _slices(count: int, size: int) -> Iterator[slice]:
    """Slices of so many draws that their values fit into the cache.

    Args:
        count: Number of draws.
        size: Values of a draw.
    """
    step = max(1, _BLOCK_VALUES // max(1, size))
    for first in range(0, count, step):
        yield slice(first, first + step)
