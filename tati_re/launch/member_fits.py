"""Independent fits that keep the parameters at which their held-out density was best."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import keras
import numpy as np

from tati_re.core.backend import Compiled, deterministic, tf
from tati_re.core.potential import Batch
from tati_re.core.protocol import Rung
from tati_re.data.dataset import Dataset
from tati_re.data.disk_arrays import chosen
from tati_re.launch.starts import with_seeds
from tati_re.models.inspect import layers_of
from tati_re.posterior.losses import Loss
from tati_re.posterior.potential import ModelEvaluate, ModelPotential
from tati_re.runs.fits import Fits
from tati_re.system.system import System
from tati_re.system.walkers import Walkers

LOOKS = 32
"""Looks at the held-out rows during the steps of a fit."""
PATIENCE = 12
"""Looks without a better density, of any member, after which the fits end."""
FEWEST_STEPS = 320
"""Steps of the shortest schedule, ten a look."""
_SECONDS_BEYOND = 5.0
"""Most seconds that the shortest schedule may take after the time is over, so that there is
something to predict with: compilation alone can take a short limit.
"""
MOST_HELD_OUT = 2_000
_HELD_OUT = 0x484F
_FIRST_DECAY = 0.9
_SECOND_DECAY = 0.999
_OFFSET = 1e-7
_MOST_AT_ONCE = 128
"""Steps of one call, between which the clock is not looked at."""
_PROBED = 16
_FEW_PROBED = 2
_SHARE_OF_LOOKS = 0.1
_FEWEST_LOOKS = 4
_WINDOW = 5.0
"""Steps in a fifth of which batch normalization averages while its averages are young."""
_OPTIMIZED = 3
"""Parts of a state that belong to the optimizer and the position; others are kept by layers."""
_SLOW_STEP = 0.1
"""Steps that are timed before the first look, one if a step takes more than so many seconds."""


@dataclass(frozen=True, eq=False)
class FittedMembers:
    """Members of an ensemble with their held-out densities.

    Attributes:
        positions: Parameters of each member where its density was best, shape (members, parameters).
        last: Those after the last step, in the same shape.
        densities: Log density of each held-out row under each member, in the units of the data,
            shape (members, rows).
        steps: Step at which each member was kept, shape (members,).
        num_steps: Steps that were taken.
        step_seconds: Seconds of a step of all members, without compilation; 0 if not measured.
        cross_stopped: Log density of each held-out row under an ensemble of which each member is
            kept where the other half of the rows has the best density, shape (rows,): the rows that
            it scores did not choose it.
        auxiliary: Non-trainable variables of each member, shape (members, ...) each. Default: none.
    """

    positions: np.ndarray
    last: np.ndarray
    densities: np.ndarray
    steps: np.ndarray
    num_steps: int
    step_seconds: float = 0.0
    cross_stopped: np.ndarray = field(default_factory=lambda: np.empty(0))
    auxiliary: tuple[np.ndarray, ...] = ()

    @property
    def ensemble(self) -> np.ndarray:
        """Log density of each held-out row under the mixture of the members, shape (rows,)."""
        return mixture(self.densities)


def can_be_fitted(system: System) -> bool:
    """Whether members can be fitted apart: the inputs are in memory.

    Args:
        system: The model and its data.
    """
    return not system.streamed


class Fitted(Protocol):
    """Fitted members, of one round or of several."""

    @property
    def positions(self) -> np.ndarray: ...

    @property
    def auxiliary(self) -> tuple[np.ndarray, ...]: ...

    @property
    def steps(self) -> np.ndarray: ...

    @property
    def cross_stopped(self) -> np.ndarray: ...


def leave_at(walkers: Walkers, members: Fitted, held_out: np.ndarray, fits_alone: bool) -> None:
    """Leaves walkers at fitted members, and keeps these as their fits.

    Args:
        walkers: As many walkers as members.
        members: The members.
        held_out: Rows of the training set that no member was fitted to.
        fits_alone: Whether no chain starts from them.
    """
    walkers.position = members.positions.astype(walkers.position.dtype)
    walkers.sentence = None
    walkers.drawn = None
    walkers.auxiliary = members.auxiliary
    walkers.fits = Fits(
        positions=walkers.position.copy(),
        auxiliary=members.auxiliary,
        held_out=held_out,
        steps=members.steps,
        density=members.cross_stopped,
    )
    walkers.fits_alone = fits_alone


def held_out_rows(data: Dataset, fraction: float, seed: int) -> np.ndarray:
    """Rows of the training set that are put aside, ascending.

    Args:
        data: The data set, whose test set is not looked at.
        fraction: Part of the training rows, above 0 and below 1.
        seed: Which rows, the same for the same seed.
    """
    count = min(MOST_HELD_OUT, round(fraction * data.num_examples))
    order = np.random.default_rng([seed, _HELD_OUT]).permutation(data.num_examples)
    return np.sort(order[:count])


def without_rows(data: Dataset, held_out: np.ndarray) -> Dataset:
    """The data set trained without some rows, which replace its test set.

    Args:
        data: The data set.
        held_out: Indices of the rows in the training set, shape (rows,).
    """
    trained = np.ones(data.num_examples, bool)
    trained[held_out] = False
    inputs = data.inputs
    weights = data.weights
    return replace(
        data,
        inputs=chosen(inputs, trained),
        targets=data.targets[trained],
        weights=None if weights is None else weights[trained],
        test_inputs=chosen(inputs, ~trained),
        test_targets=data.targets[~trained],
        test_weights=None if weights is None else weights[~trained],
    )


class MemberFits:
    """Fits of several members at once, compiled once, to be run for some time.

    Args:
        system: The model and its data, with the held-out rows as their test set.
        potential: The potential of the system on mini-batches, one walker for each member.
        learning_rate: Largest rate of Adam; it falls by half a cosine.
        xla: Whether steps are compiled by XLA.
        warm_up: Part of the steps during which the rate rises from 0. Default: 0.
    """

    def __init__(
        self,
        system: System,
        potential: ModelPotential,
        learning_rate: float,
        xla: bool,
        warm_up: float = 0.0,
    ) -> None:
        self._system = system
        self._potential = potential
        self._rate = learning_rate
        self._warm_up = warm_up
        ones = tf.ones((potential.num_walkers,), tf.float64)
        self._rung = Rung(ones, ones, ones)
        self._rates_of_averages = rates_of_averages(potential.flat)
        self._steps = Compiled(self._several, jit_compile=xla)
        self._compiled_losses = Compiled(self._losses)
        self.look_seconds = math.inf
        """Seconds that predicting the held-out rows by all members takes; infinite before."""

    @property
    def loss(self) -> Loss:
        """The loss that is fitted."""
        return self._potential.loss

    @property
    def system(self) -> System:
        """The model and its data, with the held-out rows as their test set."""
        return self._system

    @property
    def num_members(self) -> int:
        """Members that are fitted at once."""
        return self._potential.num_walkers

    @property
    def batch_size(self) -> int:
        """Examples of a step."""
        return self._potential.batches.batch_size

    @property
    def num_held_out(self) -> int:
        """Rows of which no fit is made."""
        targets = self._system.dataset.test_targets
        return 0 if targets is None else len(targets)

    def run(self, start: np.ndarray, num_steps: int, deadline: float) -> FittedMembers:
        """Fits from a start until the held-out density stops improving.

        Args:
            start: Parameters at which the members begin, shape (members, parameters).
            num_steps: Steps of the schedule, at least `FEWEST_STEPS`; fewer where a first look
                tells that they do not fit into the time.
            deadline: Time of the last step, by `time.monotonic`. A network that is compiled too late
                still takes `FEWEST_STEPS`, for at most 5 seconds.
        """
        with deterministic():
            return self._run(np.array(start), num_steps, deadline)

    def _run(self, start: np.ndarray, num_steps: int, deadline: float) -> FittedMembers:
        state = self._begun(start)
        pace = self._pace(state, max(1, num_steps // LOOKS), deadline)
        seen = [self.densities(state[0], *state[_OPTIMIZED:])]
        kept = _Kept(self._held_by(state), seen[0])
        most, steps_per_look, deadline = self._planned(state, num_steps, pace, deadline)

        looks = most
        look = 0
        since_better = 0
        seconds_of_look = 0.0
        while look < looks and since_better < PATIENCE:
            began = time.monotonic()
            if began + seconds_of_look > deadline:
                break
            state = self._chunk(
                state, look * steps_per_look, steps_per_look, looks * steps_per_look
            )
            look += 1
            seen.append(self.densities(state[0], *state[_OPTIMIZED:]))
            is_better = kept.take(self._held_by(state), seen[-1], look * steps_per_look)
            since_better = 0 if is_better else since_better + 1

            took = time.monotonic() - began
            if look == 2:  # the first one was compiled
                left = int((deadline - time.monotonic()) / max(took, 1e-9))
                looks = min(most, max(look + 1, look + left))
            seconds_of_look = took if look > 1 else 0.0

        return FittedMembers(
            positions=kept.arrays[0],
            auxiliary=tuple(kept.arrays[1:]),
            last=state[0].numpy(),
            densities=kept.densities,
            steps=kept.steps,
            num_steps=look * steps_per_look,
            step_seconds=seconds_of_look / steps_per_look,
            cross_stopped=cross_stopped_density(np.stack(seen)),
        )

    def _planned(
        self, state: tuple, num_steps: int, pace: float, deadline: float
    ) -> tuple[int, int, float]:
        """Looks, steps between two of them, and when the fits end, by `time.monotonic()`.

        Args:
            state: The members at their start.
            num_steps: Steps of the whole schedule.
            pace: Seconds of a step; 0 if all steps fit easily.
            deadline: When the fits are to end, unless not even the shortest schedule fits.
        """
        if not pace:
            return LOOKS, max(1, num_steps // LOOKS), deadline
        looks = self._affordable_looks(state, deadline)
        time_of_looks = looks * self.look_seconds
        shortest = min(FEWEST_STEPS * pace + time_of_looks, _SECONDS_BEYOND)
        deadline = max(deadline, time.monotonic() + shortest)
        affordable = (deadline - time.monotonic() - time_of_looks) / pace
        return looks, max(1, int(min(num_steps, affordable)) // looks), deadline

    def seconds_of_step(self, start: np.ndarray) -> float:
        """Seconds of one step of all members, without compilation.

        Args:
            start: Parameters at which it is measured, shape (members, parameters).
        """
        with deterministic():
            return self._measured_pace(self._begun(start), _PROBED)

    def _begun(self, start: np.ndarray) -> tuple:
        """The members at their start: position, both moments of Adam, and what layers keep."""
        moments = np.zeros_like(start)
        potential = self._potential
        auxiliary = with_seeds(potential.flat, potential.auxiliary, _HELD_OUT)
        parts = (start, moments, moments, *auxiliary)
        return tuple(tf.constant(value) for value in parts)

    @staticmethod
    def _held_by(state: tuple) -> list[np.ndarray]:
        """What makes a member of a state: position, and what layers keep."""
        return [value.numpy() for value in (state[0], *state[_OPTIMIZED:])]

    def densities(self, position: Any, *auxiliary: Any) -> np.ndarray:
        """Log density of each held-out row in the units of the data, shape (members, rows).

        Args:
            position: Parameters, shape (members, parameters).
            auxiliary: What layers keep, shape (members, ...) each, in the order of the model.
        """
        began = time.monotonic()
        losses = self._compiled_losses(position, *auxiliary).numpy()
        self.look_seconds = min(self.look_seconds, time.monotonic() - began)
        return -losses - self._system.log_unit(self.loss)

    def _pace(self, state: tuple, steps_per_look: int, deadline: float) -> float:
        """Seconds of a step, of steps whose result is not used; 0 if all steps fit easily."""
        seconds = self._measured_pace(state, steps_per_look)
        left = deadline - time.monotonic()
        return 0.0 if seconds * steps_per_look * LOOKS < left else seconds

    def _affordable_looks(self, state: tuple, deadline: float) -> int:
        """Looks that take at most a tenth of the time until the deadline, between 4 and `LOOKS`."""
        self.densities(state[0], *state[_OPTIMIZED:])  # the first one was compiled
        tenth = _SHARE_OF_LOOKS * (deadline - time.monotonic())
        return int(min(max(tenth / max(self.look_seconds, 1e-9), _FEWEST_LOOKS), LOOKS))

    def _measured_pace(self, state: tuple, steps_per_look: int) -> float:
        """Seconds of a step after the first, which is compiled."""
        self._called(state, 0, 1, steps_per_look)
        seconds = 0.0
        for count in (1, min(steps_per_look, _PROBED)):
            began = time.monotonic()
            self._called(state, 0, count, steps_per_look)
            seconds = (time.monotonic() - began) / count
            if seconds > _SLOW_STEP:
                count = min(steps_per_look, _FEW_PROBED)
                began = time.monotonic()
                self._called(state, 0, count, steps_per_look)
                return (time.monotonic() - began) / count
        return seconds

    def _chunk(self, state: tuple, first: int, count: int, planned: int) -> tuple:
        """The members after some more steps of the planned ones."""
        for begin in range(first, first + count, _MOST_AT_ONCE):
            state = self._called(state, begin, min(_MOST_AT_ONCE, first + count - begin), planned)
        return state

    def _called(self, state: tuple, first: int, count: int, planned: int) -> tuple:
        """The members after one call of so many steps."""
        batches = self._potential.batches
        # All calls have arrays of one shape, and so one program.
        numbers = np.arange(first, first + _MOST_AT_ONCE)
        rates = self._rate * 0.5 * (1.0 + np.cos(math.pi * numbers / planned))
        if self._warm_up:
            rates = rates * np.minimum(1.0, (numbers + 1) / max(1.0, self._warm_up * planned))
        if batches.full:
            indices = np.zeros((_MOST_AT_ONCE, 1, 1), np.int32)
            sizes = np.ones(_MOST_AT_ONCE, np.int32)
        else:
            indices, sizes = batches.indices(first + 1, _MOST_AT_ONCE)
        return tuple(
            self._steps(
                np.asarray(numbers + 1, np.float64),
                rates,
                np.asarray(indices, np.int32),
                np.asarray(sizes, np.int32),
                np.int32(count),
                *state,
            )
        )

    def _several(
        self,
        numbers: tf.Tensor,
        rates: tf.Tensor,
        indices: tf.Tensor,
        sizes: tf.Tensor,
        count: tf.Tensor,
        position: tf.Tensor,
        mean: tf.Tensor,
        square: tf.Tensor,
        *auxiliary: tf.Tensor,
    ) -> tuple:
        """Steps of Adam in one loop (Kingma and Ba, 2015)."""
        full = self._potential.batches.full
        dtype = position.dtype

        def step(
            i: Any,
            position: tf.Tensor,
            mean: tf.Tensor,
            square: tf.Tensor,
            auxiliary: tuple,
        ) -> tuple:
            batch = None if full else Batch(indices[i], sizes[i])
            evaluate = self._potential.bind(self._rung, batch, auxiliary)
            gradient = evaluate(position).gradient
            mean = _FIRST_DECAY * mean + (1 - _FIRST_DECAY) * gradient
            square = _SECOND_DECAY * square + (1 - _SECOND_DECAY) * tf.square(gradient)
            first = 1.0 - tf.pow(tf.constant(_FIRST_DECAY, tf.float64), numbers[i])
            second = 1.0 - tf.pow(tf.constant(_SECOND_DECAY, tf.float64), numbers[i])
            rate = tf.cast(rates[i] * tf.sqrt(second) / first, dtype)
            position = position - rate * mean / (tf.sqrt(square) + tf.constant(_OFFSET, dtype))
            return i + 1, position, mean, square, self._averaged(numbers[i], auxiliary, evaluate)

        begun = (tf.constant(0), position, mean, square, tuple(auxiliary))
        *moved, averages = tf.while_loop(lambda i, *_: i < count, step, begun)[1:]
        return (*moved, *averages)

    def _averaged(self, number: tf.Tensor, before: tuple, evaluate: ModelEvaluate) -> tuple:
        """What layers keep after a step. The moving averages of batch normalization forget their
        start sooner than in Keras, where that takes some 500 steps: the weight of a new batch is
        that of an average over the last fifth of the steps, as long as it is the larger one.
        """
        parts = zip(before, evaluate.auxiliary, self._rates_of_averages, strict=True)
        averages = []
        for old, new, rate in parts:
            if rate is None:
                averages.append(new)
                continue
            weight = tf.maximum(tf.constant(rate, tf.float64), _WINDOW / (number + _WINDOW))
            averages.append(old + tf.cast(weight / rate, old.dtype) * (new - old))
        return tuple(averages)

    def _losses(self, position: tf.Tensor, *auxiliary: tf.Tensor) -> tf.Tensor:
        """Minus the log density of each held-out row under each member, `(members, rows)`."""
        return self._potential.losses_of_test(position, tuple(auxiliary))


def rates_of_averages(flat: Any) -> list[float | None]:
    """The weight of a new batch in each moving average that layers keep.

    Args:
        flat: The model, whose `others` are its non-trainable variables.

    Returns:
        1 - momentum for the averages of batch normalization, None for other variables.
    """
    rates = {}
    for layer in layers_of(flat.model):
        if isinstance(layer, keras.layers.BatchNormalization) and layer.momentum < 1:
            for variable in (layer.moving_mean, layer.moving_variance):
                rates[id(variable)] = 1.0 - layer.momentum
    return [rates.get(id(variable)) for variable in flat.others]


class _Kept:
    """Members as they were when their held-out density was best.

    Args:
        parts: Arrays of the members at their start, members first.
        densities: Log density of each held-out row under each member, shape (members, rows).

    Attributes:
        arrays: The parts of each member where its density was best.
        densities: The densities there, shape (members, rows).
        steps: The steps after which they were best, shape (members,).
    """

    def __init__(self, parts: list[np.ndarray], densities: np.ndarray) -> None:
        self.arrays = [np.array(part) for part in parts]
        self.densities = np.array(densities)
        self.steps = np.zeros(len(densities), np.int64)
        self._best = densities.mean(axis=1)

    def take(self, parts: list[np.ndarray], densities: np.ndarray, step: int) -> bool:
        """Takes the members that are better than before.

        Args:
            parts: Their arrays after some steps.
            densities: The densities there, shape (members, rows).
            step: The number of steps.

        Returns:
            Whether any member is better.
        """
        density = densities.mean(axis=1)
        better = density > self._best
        for array, part in zip(self.arrays, parts, strict=True):
            array[better] = part[better]
        self.densities[better] = densities[better]
        self._best[better] = density[better]
        self.steps[better] = step
        return bool(better.any())


def mixture(densities: np.ndarray) -> np.ndarray:
    """Log density of rows under the equal mixture of members.

    Args:
        densities: Log densities, shape (members, rows).
    """
    return np.logaddexp.reduce(densities, axis=0) - math.log(len(densities))


def cross_stopped_density(densities: np.ndarray) -> np.ndarray:
    """Log density of rows under an ensemble of members that other rows stopped.

    Members that are kept where some rows have the best density look better on these rows than on
    others. So each half of the rows is scored by members that the other half stopped.

    Args:
        densities: Log density of each row under each member at each look, shape (looks, members,
            rows).

    Returns:
        Log densities, shape (rows,).
    """
    looks, members, rows = densities.shape
    order = np.random.default_rng(rows).permutation(rows)
    halves = order[: rows // 2], order[rows // 2 :]
    density = np.empty(rows)
    for scored, stopping in (halves, halves[::-1]):
        means = (
            densities[:, :, stopping].mean(axis=2) if len(stopping) else np.zeros((looks, members))
        )
        best = np.argmax(means, axis=0)
        density[scored] = mixture(densities[best, np.arange(members)][:, scored])
    return density
