"""Running averages of predictions during a run, in place of stored positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.likelihoods.outputs import entropy_of
from tati_re.posterior.predictive import LABELS, VALUES, Predictive
from tati_re.runs.stored_arrays import StoredArrays

if TYPE_CHECKING:
    from tati_re.engine.loop import Chunk, Loop
    from tati_re.engine.timeline import Timeline

PREFIX = "predictions/"
"""Of the names of the arrays in a checkpoint."""


class PredictionAverages:
    """Weighted running averages of what draws predict for fixed inputs, in float64.

    Kept are the mean and the sum of squared deviations of the prediction (Welford's update): class
    probabilities, or values in the units of the data. Kept is also the mean entropy of the class
    probabilities, or the mean noise variance. For values with noise, and for multi-label classes,
    the log of the mean density of the targets is kept as well. The memory is two predictions.

    Args:
        outputs: The model as a function of parameters and inputs (`Outputs`).
        predictive: Turns outputs into predictions.
        inputs: Inputs as the model takes them, shape (n, ...).
        targets: Labels, or values in the units of the data, shape (n,) or (n, outputs).
        every: Steps between two predictions.

    Attributes:
        every: Steps between two predictions.
    """

    def __init__(
        self,
        outputs: Any,
        predictive: Predictive,
        inputs: np.ndarray,
        targets: np.ndarray,
        every: int,
    ) -> None:
        self._outputs = outputs
        self._predictive = predictive
        self._inputs = inputs
        self._targets = np.asarray(targets)
        self.every = every
        self._rows = len(inputs) * predictive.rows
        self.begin()

    def begin(self) -> None:
        """Counts no draw yet."""
        predictive = self._predictive
        shape = (self._rows, predictive.num_columns)
        classes = predictive.kind != VALUES
        self._averages: dict[str, Any] = dict.fromkeys(
            ("count", "weight", "weight_squares"), np.zeros(())
        )
        self._averages |= {"mean": np.zeros(shape), "m2": np.zeros(shape)}
        if classes:
            self._averages["expected_entropy"] = np.zeros(shape[:1])
        elif predictive.has_noise:
            self._averages["noise_variance"] = np.zeros(
                shape if predictive.predicts_noise else shape[1:]
            )
        if predictive.has_noise or predictive.kind == LABELS:
            self._averages["log_density"] = np.full(shape[:1], -np.inf)

    def moves_until_due(self, timeline: Timeline, moves: int, count: int) -> int:
        """Moves up to the next prediction, which needs the positions after it.

        Args:
            timeline: Steps and burn-in of the loop.
            moves: Moves made so far.
            count: The most moves.

        Returns:
            Number of moves, at most `count`.
        """
        due = self._due(timeline, timeline.steps(moves + 1, count)[0])
        return int(np.argmax(due)) + 1 if due.any() else count

    def _due(self, timeline: Timeline, steps: np.ndarray) -> np.ndarray:
        return (steps % self.every == 0) & timeline.counted(steps)

    def add_chunk(self, loop: Loop, chunk: Chunk, move: int) -> None:
        """Counts the walkers that arrived with the last move of a chunk, where a prediction is due.

        Args:
            loop: The loop that made the chunk.
            chunk: The chunk.
            move: Number of its last move, from 1.
        """
        steps, group = loop.timeline.steps(move, 1)
        if not self._due(loop.timeline, steps)[0]:
            return
        state = chunk.carry.state
        walkers = loop.timeline.turns(group, np.arange(loop.walkers))[0][1]
        walker_order = (
            np.asarray(loop.ladder.order(state)) if loop.by_rung else np.arange(loop.walkers)
        )
        walker_order = walker_order[walkers][: loop.walkers_at_rung]
        weights = np.ones(len(walkers))
        if "weight" in loop.labels:
            row = np.asarray(chunk.rows[int(chunk.num_rows) - 1])
            weights = row[walkers, loop.observables.columns.index("weight")]
        auxiliary = [np.asarray(value)[walker_order] for value in chunk.carry.auxiliary]
        self.add(np.asarray(state.position)[walker_order], auxiliary, weights[: len(walker_order)])

    def add(
        self, positions: np.ndarray, auxiliary: Sequence[np.ndarray], weights: np.ndarray
    ) -> None:
        """Counts one draw of each walker.

        Args:
            positions: Parameters, shape (walkers, parameters).
            auxiliary: Non-trainable variables of the model, shape (walkers, ...) each.
            weights: Weight of each draw, shape (walkers,). A draw of weight 0 is not predicted.
        """
        for walker in np.flatnonzero(weights > 0):
            own_row = slice(walker, walker + 1)
            outputs = self._outputs(
                positions[own_row], [values[own_row] for values in auxiliary], self._inputs
            )
            count = self._predictive.num_extra
            extra = positions[own_row, -count:].astype(np.float64) if count else None
            self._count(outputs.reshape(self._rows, -1), float(weights[walker]), extra)

    def _count(self, outputs: np.ndarray, weight: float, extra: np.ndarray | None) -> None:
        averages = self._averages
        predictive = self._predictive
        averages["count"] = averages["count"] + 1
        averages["weight"] = averages["weight"] + weight
        averages["weight_squares"] = averages["weight_squares"] + weight**2
        share = weight / averages["weight"]
        if predictive.kind != VALUES:
            logs = predictive.log_probabilities(outputs)
            values = np.exp(logs)
            entropy = entropy_of(logs)
            if predictive.kind == LABELS:
                values = values[..., 1]
                entropy = entropy.sum(axis=-1)
                self._add_density(-predictive.losses(outputs, self._targets), weight)
            before = averages["expected_entropy"]
            averages["expected_entropy"] = before + share * (entropy - before)
        else:
            values = predictive.restored(outputs[None], extra)[0]
            if predictive.has_noise:
                before = averages["noise_variance"]
                noise = predictive.noise(outputs[None], extra).reshape(before.shape)
                averages["noise_variance"] = before + share * (noise**2 - before)
                self._add_density(
                    predictive.log_densities(outputs[None], self._targets, extra)[0], weight
                )
        difference = values - averages["mean"]
        averages["mean"] = averages["mean"] + share * difference
        averages["m2"] = averages["m2"] + weight * difference * (values - averages["mean"])

    def _add_density(self, density: np.ndarray, weight: float) -> None:
        """log of the weighted sum; the mean is this less the log of the sum of the weights."""
        self._averages["log_density"] = np.logaddexp(
            self._averages["log_density"], density + np.log(weight)
        )

    def arrays(self) -> dict[str, np.ndarray]:
        return {
            f"{PREFIX}{name}": values
            for name, values in {**self._averages, "targets": self._targets}.items()
        }

    def restore(self, arrays: StoredArrays) -> None:
        self._averages = {
            name: arrays.like(f"{PREFIX}{name}", before) for name, before in self._averages.items()
        }
