"""Exact laws of samplers on quadratic examples under real batches, read off the samplers' own
steps, without sampling.

On U = Σ_i (θ'A_i θ/2 - c_i'θ) a step with a given mini-batch is affine in z, the `(walkers,
parameters)` fields of the state: z' = M z + b + F R, R standard normal. `step_map` runs the sampler
on numpy arrays with walkers at the unit vectors, and random numbers that are 0 or a unit vector.
Moments over all orders of batches follow by linear algebra.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tati_re.core.evaluate import Energy
from tati_re.data.batches import Batches
from tests.scenarios import NumpyEvaluate, NumpyNoise, rung_of

VECTORS = ("position", "momentum", "gradient", "random")
"""Fields of a state that make up z, as far as it has them."""


class Examples(NumpyEvaluate):
    """The potential on mini-batches; `indices` are those of each walker, `(walkers, n)`, or of all,
    `(1, n)`.

    Args:
        curvature: A_i, `(examples, parameters, parameters)`.
        slope: c_i, `(examples, parameters)`.
        replacement: The examples of a batch are drawn independently, which counts for the variance
            of its gradient.
    """

    def __init__(self, curvature, slope, replacement: bool = True) -> None:
        super().__init__(rung_of([1.0], numpy=True))
        self.curvature, self.slope, self.replacement = (
            np.asarray(curvature),
            np.asarray(slope),
            replacement,
        )
        self.num_examples, self.parameters = self.slope.shape
        self.indices = np.zeros((1, 1), int)

    def gradients(self, position):
        """N times those of the single examples of a batch, `(walkers, n, parameters)`."""
        here = np.einsum(
            "wnij,wj->wni",
            np.broadcast_to(self.curvature[self.indices], self._shape(position)),
            position,
        )
        return self.num_examples * (here - self.slope[self.indices])

    def _shape(self, position) -> tuple:
        return (len(position), self.indices.shape[1], self.parameters, self.parameters)

    def _energy(self, position) -> Energy:
        zeros = np.zeros(len(position))
        return Energy(zeros, self.gradients(position).mean(axis=1), zeros, zeros)

    def gradient_variance(self, position):
        n = self.indices.shape[1]
        if n == 1:
            return np.zeros_like(position)
        finite = 1.0 if self.replacement else 1 - n / self.num_examples
        return self.gradients(position).var(axis=1, ddof=1) / n * finite


class Affine(NamedTuple):
    """z' = matrix z + shift + N(0, noise)."""

    matrix: np.ndarray
    shift: np.ndarray
    noise: np.ndarray

    def then(self, last: Affine) -> Affine:
        """Another one after this one."""
        matrix, noise = (
            last.matrix @ self.matrix,
            last.matrix @ self.noise @ last.matrix.T + last.noise,
        )
        return Affine(matrix, last.matrix @ self.shift + last.shift, noise)


class UnitNoise:
    """Zeros, and for one more walker after the other a 1 in the place of each number that a step
    asks for.
    """

    def __init__(self, first: int) -> None:
        self.next = first

    def normal(self, shape):
        numbers = np.zeros(shape)
        numbers[self.next : self.next + shape[1]] = np.eye(shape[1])
        self.next += shape[1]
        return numbers


def step_map(
    sampler, examples: Examples, batch, step_size: float, temperature: float = 1.0, **held
) -> Affine:
    """The map of one step on the examples `batch`; `held` are fields of the state that are no part
    of z.
    """
    examples.indices = np.asarray(batch)[None]
    examples.rung = rung_of([step_size], temperature, numpy=True)
    probe, noise = (
        sampler.init(np.zeros((1, examples.parameters)), examples, NumpyNoise(0)),
        NumpyNoise(0),
    )
    sampler.step(probe, examples, noise)
    names = [name for name in VECTORS if name in probe._fields]
    size, numbers = len(names) * examples.parameters, len(noise.asked) * examples.parameters
    walkers = 1 + size + numbers
    z = np.zeros((walkers, size))
    z[1 : 1 + size] = np.eye(size)
    rung = examples.rung = rung_of(np.full(walkers, step_size), temperature, numpy=True)
    state = sampler.init(np.zeros((walkers, examples.parameters)), examples, NumpyNoise(0))
    held = {
        name: np.broadcast_to(value, getattr(state, name).shape) for name, value in held.items()
    }
    state = state._replace(
        rung=rung, **dict(zip(names, np.split(z, len(names), axis=1), strict=True)), **held
    )
    state, _ = sampler.step(state, examples, UnitNoise(1 + size))
    found = np.concatenate([state._asdict()[name] for name in names], axis=1)
    change = (found[1:] - found[0]).T
    return Affine(change[:, :size], found[0], change[:, size:] @ change[:, size:].T)


class Moments(NamedTuple):
    """Mean of z and of zz', at the end of a sweep, and zz' on average over the steps of a sweep."""

    mean: np.ndarray
    second: np.ndarray
    averaged: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """At the end of a sweep."""
        return self.second - np.outer(self.mean, self.mean)


def sweeps(order: str, count: int) -> list[tuple[int, ...]]:
    """All sweeps over so many batches, equally likely: single batches for "replacement"."""
    if order == "replacement":
        return [(i,) for i in range(count)]
    orders = itertools.permutations(range(count))
    return [(*once, *reversed(once)) if order == "symmetric" else once for once in orders]


def stationary(maps: list[Affine], order: str) -> Moments:
    """The law of steps whose batches, one map each, come in this order: a new sweep is drawn after
    each sweep.
    """
    chosen, size = sweeps(order, len(maps)), len(maps[0].shift)
    paths = [list(itertools.accumulate((maps[i] for i in sweep), Affine.then)) for sweep in chosen]
    ends = [path[-1] for path in paths]
    mean = np.linalg.solve(
        np.eye(size) - np.mean([end.matrix for end in ends], axis=0),
        np.mean([end.shift for end in ends], axis=0),
    )

    def added(step: Affine) -> np.ndarray:
        moved = step.matrix @ mean
        both = np.outer(moved, step.shift)
        return step.noise + both + both.T + np.outer(step.shift, step.shift)

    kept = np.mean([np.kron(end.matrix, end.matrix) for end in ends], axis=0)
    constant = np.mean([added(end) for end in ends], axis=0)
    second = np.linalg.solve(np.eye(size**2) - kept, constant.ravel()).reshape(size, size)
    after = [step.matrix @ second @ step.matrix.T + added(step) for path in paths for step in path]
    return Moments(mean, second, np.mean(after, axis=0))


def heating(step: Affine, answer: np.ndarray, order: str, count: int) -> np.ndarray:
    """Variance of z, on average over a sweep of `count` batches, that gradient noise of unit
    variance adds where all batches have the same curvature: the sum over pairs of steps of the
    answers `answer` and `step.matrix` give, times the covariance of the noise of the two. That is 1
    for the same batch, -1/(m - 1) for two batches of a sweep.
    """
    answers, now = [], answer
    while np.abs(now).max() > 1e-9 or len(answers) < 4 * count:
        answers.append(now)
        now = step.matrix @ now
    r = np.array(answers)
    if order == "replacement":
        return (r**2).sum(axis=0)
    length = count if order == "epochs" else 2 * count
    total = np.zeros(r.shape[1])
    for phase in range(length):
        place, sweep = (
            (phase - np.arange(len(r))) % length,
            (np.arange(len(r)) - phase + length - 1) // length,
        )
        batch = np.minimum(place, 2 * count - 1 - place)
        of_batch = np.zeros((sweep.max() + 1, count, r.shape[1]))
        np.add.at(of_batch, (sweep, batch), r)
        total += (of_batch**2).sum(axis=(0, 1)) * (1 + 1 / (count - 1)) - (
            of_batch.sum(axis=1) ** 2
        ).sum(axis=0) / (count - 1)
    return total / length


def squares(position):
    return position**2


def sampled(
    sampler,
    examples: Examples,
    order: str,
    batch_size: int,
    step_size: float,
    num_steps: int,
    walkers: int,
    temperature: float = 1.0,
    observe: Callable = squares,
    **given,
) -> np.ndarray:
    """Means of `observe(position)` of each walker, over the last two thirds of the steps of the
    sampler on numpy arrays, with the indices of `Batches`. Walkers start in the law of all data,
    with `given` fields of the state.
    """
    batches = Batches(examples.num_examples, batch_size, walkers, 3, order)
    examples.rung = rung_of(np.full(walkers, step_size), temperature, numpy=True)
    examples.indices = batches.indices(0, 1)[0][0]
    noise, total, burnin = NumpyNoise(5), 0.0, num_steps // 3
    start = np.random.default_rng(6).standard_normal((walkers, examples.parameters)) * np.sqrt(
        temperature
    )
    state = sampler.init(
        start @ np.linalg.inv(np.linalg.cholesky(examples.curvature.sum(axis=0))), examples, noise
    )
    state = state._replace(**{name: np.full(walkers, value) for name, value in given.items()})
    for step in range(1, num_steps + 1):
        examples.indices = batches.indices(step - 1, 1)[0][0]
        examples.clock = examples.clock._replace(
            step=np.int64(step), adapting=np.bool_(step <= burnin)
        )
        state, _ = sampler.step(state, examples, noise)
        total = total + observe(state.position) if step > burnin else total
    return total / (num_steps - burnin)
