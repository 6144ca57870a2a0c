"""Masses from the positions and gradients of the burn-in, which make the target as round as they
can. Of a Gaussian exp(-θ'Hθ/2T) the covariance of positions is T H⁻¹ and that of gradients T H, so
that the inverse mass that is wanted, H⁻¹, maps gradients to positions, whatever the draws: two
draws tell a diagonal one, d + 1 a full one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError
from tati_re.core.protocol import fields_of, same_rung
from tati_re.samplers.wrappers.coordinates import Coordinates, Diagonal, stiffest

ENDS = 40 * 2 ** np.arange(50, dtype=np.int64)
"""Steps of the burn-in after which what adapts is measured anew, each from the steps since the one
before: the last of these windows is between a quarter and half of the burn-in.
"""
LONGEST = 1e4
"""How much faster than the stiffest parameter another one may become."""
_LEAST = 1e-3
"""In equilibrium Var θ Var g is T² or more; what is flat for good has a mass of this part of T/Var
θ.
"""
_INSIDE = 2.0
_RIDGE = 1e-5
_ALIKE = {"float32": 1e-4, "float64": 1e-9}
_LARGEST = 1e150
"""Of a number whose squares can be summed in float64."""


class DiagonalWindows:
    """Masses from variances over a window, of the steps of each walker about its own mean, over the
    walkers of a rung. Rule, entry by entry: m = sqrt(Var g / Var θ) ("fisher") or m = T / Var θ
    ("variance"). Accumulated in float64 by Welford's rule; draws with a number that is not finite
    are left out and counted.
    """

    shown = ("mass_spread", "mass_skipped")
    sums = ("position_mean", "position_square", "gradient_mean", "gradient_square", "drawn")
    of_rung = (*sums, "mass", "mass_unit", "mass_spread")
    fields = (*of_rung, "mass_skipped")
    mixes_parameters = False
    renewals: tuple[int, ...] = ()

    def __init__(self, by_gradients: bool) -> None:
        self.by_gradients = by_gradients

    def start(self, state) -> dict[str, Any]:
        zeros = ops.as_float64(0.0 * state.position)
        numbers = 0.0 * state.potential
        made = dict.fromkeys(self.fields, zeros) | dict.fromkeys(("drawn", "mass_skipped"), numbers)
        return (
            made
            | dict.fromkeys(("mass_unit", "mass_spread"), numbers + 1.0)
            | {"mass": 0.0 * state.position + 1.0}
        )

    def adapted(self, memory: tuple, state, clock, ask) -> tuple:
        """The memory with the state's draw counted, and with new masses at the end of a window.

        Args:
            memory: The fields of the state that belong to the mass, in the order of `fields`.
            state: The state before the step.
            clock: Number of the step, and whether it belongs to the burn-in.
            ask: Computes U and its gradient, for the unit of mass.
        """
        memory = ops.replaced_if(
            clock.adapting, lambda *memory: self._counted(memory, state), memory
        )
        due = clock.adapting & is_among(clock.step, ENDS)
        return ops.replaced_if(due, lambda *memory: self._measured(memory, state, ask), memory)

    def _counted(self, memory: tuple, state) -> tuple:
        sums, drawn, *mass, skipped = [*memory[:4]], *memory[4:]
        ones = 0.0 * state.position + 1.0
        good = ops.is_finite(
            ops.sum_of_products(state.position, ones) + ops.sum_of_products(state.gradient, ones)
        )
        drawn = drawn + ops.as_float64(good)
        number = ops.maximum(drawn, 1.0 + 0.0 * drawn)[:, None]
        for k, values in ((0, state.position), (2, state.gradient)):
            # The first draw of a window is its mean: nothing is lost where deviations are small
            # beside it.
            change = ops.where(good[:, None], ops.as_float64(values) - sums[k], 0.0 * sums[k])
            sums[k], sums[k + 1] = (
                sums[k] + change / number,
                sums[k + 1] + change * change * (1.0 - 1.0 / number),
            )
        return (*sums, drawn, *mass, skipped + ops.as_float64(~good))

    def _measured(self, memory: tuple, state, ask) -> tuple:
        _, position, _, gradient, drawn, mass, unit, _, skipped = memory
        same = same_rung(state.rung)
        zeros = 0.0 * position
        tiny = 1e-300 + zeros
        freedom = (same @ ops.maximum(drawn - 1.0, 0.0 * drawn)[:, None]) + zeros
        position, gradient = (
            (same @ square) / ops.maximum(freedom, tiny) for square in (position, gradient)
        )
        least = state.rung.temperature[:, None] / ops.maximum(position, tiny)
        scale = ops.sqrt(gradient / ops.maximum(position, tiny)) if self.by_gradients else least
        scale = ops.maximum(scale, _LEAST * least)
        known = (freedom > 0.0) & (position > 0.0) & ops.is_finite(ops.as_type(scale, mass))
        mass = ops.as_type(ops.where(known, scale, ops.as_float64(mass)), mass)
        unit = _unit(ask, state, Diagonal(1.0 / ops.sqrt(mass)), unit)
        spread = ops.as_float64(ops.largest(_scale(mass, unit), 1))
        return (zeros, zeros, zeros, zeros, 0.0 * drawn, mass, unit, spread, skipped)

    def renewed(self, state):
        return state

    def coordinates(self, memory: tuple) -> Coordinates:
        return Diagonal(_scale(*memory[5:7]))


class LowRankWindows:
    """An inverse mass D (I + Q' (Λ - I) Q) D from draws kept over a window, measured between steps
    by `low_rank_mass`. Kept are 4 draws a direction and 8 more, together over the walkers, at equal
    distances in each window; all walkers have one mass. The state has `kept_positions` and
    `kept_gradients`, `(draws, walkers, parameters)`; the steps of the window so far, those between
    two draws, and the number of the window, `window`; and D, Q and the roots of Λ.
    """

    shown = ("mass_spread", "mass_skipped")
    of_rung: tuple[str, ...] = ()
    matrices = ("mass_scale", "mass_directions", "mass_roots")
    fields = ("kept_positions", "kept_gradients", "window", *matrices, "mass_unit", *shown)
    mixes_parameters = True
    renewals = tuple(map(int, ENDS))

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def start(self, state) -> dict[str, Any]:
        walkers, parameters = state.position.shape
        rank = min(self.rank, parameters)
        numbers = 0.0 * state.potential
        stored = ops.constant(
            np.zeros((-(-(4 * rank + 8) // walkers), walkers, parameters)), state.position
        )
        ones = [ops.constant(np.ones(count), stored) for count in (parameters, rank)]
        window = ops.constant(self._window(0, stored.shape[0]), numbers)
        directions = ops.constant(np.zeros((rank, parameters)), stored)
        values = (
            stored,
            stored,
            window,
            ones[0],
            directions,
            ones[1],
            numbers + 1.0,
            numbers + 1.0,
            numbers,
        )
        return dict(zip(self.fields, values, strict=True))

    @staticmethod
    def _window(number: int, draws: int) -> np.ndarray:
        return np.array([0.0, -(-np.diff(ENDS, prepend=0)[number] // draws), number])

    def adapted(self, memory: tuple, state, clock, ask) -> tuple:
        """The memory with the state's draw kept if due.

        The first step of a window after a renewal sets the unit of mass.

        Args:
            memory: The fields of the state that belong to the mass, in the order of `fields`.
            state: The state before the step.
            clock: Number of the step, and whether it belongs to the burn-in.
            ask: Computes U and its gradient, for the unit of mass.
        """
        positions, gradients, window, *matrices, unit, spread, skipped = memory
        place = window[0]
        every = window[1]
        unit, spread = ops.replaced_if(
            clock.adapting & (place == 0.0) & (window[2] > 0.0),
            lambda *before: self._in_use(before, state, ask, matrices),
            (unit, spread),
        )
        stored = ops.replaced_if(
            clock.adapting & (place % every == 0.0),
            lambda *stored: tuple(
                ops.with_rows(values, ops.as_int32(place / every), new[None])
                for values, new in zip(stored, (state.position, state.gradient), strict=True)
            ),
            (positions, gradients),
        )
        passed = ops.as_float64(clock.adapting) * ops.constant(np.array([1.0, 0.0, 0.0]), window)
        return (*stored, window + passed, *matrices, unit, spread, skipped)

    @staticmethod
    def _in_use(before: tuple, state, ask, matrices) -> tuple:
        unit = _unit(ask, state, Stretched(*matrices), before[0])
        return unit, ops.sqrt(unit) * before[1]

    def renewed(self, state):
        """The state at the end of a window of the burn-in, with the mass of its draws."""
        place, every, number = np.asarray(state.window)
        count = int(-(-place // every))
        positions, gradients = (
            np.asarray(values)[:count] for values in (state.kept_positions, state.kept_gradients)
        )
        good = usable(positions, gradients)
        skipped = np.asarray(state.mass_skipped) + (~good).sum(0)
        changed = {
            "window": self._window(int(number) + 1, len(state.kept_positions)),
            "mass_skipped": skipped,
        }
        low_rank = low_rank_mass(
            positions, gradients, self.rank, float(np.min(state.rung.temperature))
        )
        if low_rank is not None:
            directions = np.zeros(state.mass_directions.shape)
            roots = np.ones(len(state.mass_roots))
            directions[: len(low_rank.directions)], roots[: len(low_rank.directions)] = (
                low_rank.directions,
                low_rank.roots,
            )
            changed |= dict(zip(self.matrices, (low_rank.scale, directions, roots), strict=True))
            # Multiplied with the root of the unit by the step that comes next.
            changed["mass_spread"] = low_rank.longest() + 0.0 * skipped
        return state._replace(
            **{k: ops.constant(changed[k], old) for k, old in fields_of(state, changed).items()}
        )

    def coordinates(self, memory: tuple) -> Coordinates:
        scale, directions, roots, unit = memory[3:7]
        return Stretched(ops.sqrt(ops.column(unit, scale)) * scale, directions, roots)


class Stretched:
    """Coordinates θ = L x with L = D (I + Q' (S - I) Q).

    Args:
        scale: The diagonal of D, shape (parameters,) or (walkers, parameters).
        directions: Q, orthonormal rows, shape (k, parameters).
        roots: S, by which the rows are stretched, shape (k,).
    """

    def __init__(self, scale, directions, roots) -> None:
        self.scale = scale
        self.directions = directions
        self.roots = roots

    def forward(self, vectors):
        return self.scale * self._stretched(vectors, self.roots)

    def transposed(self, vectors):
        return self._stretched(self.scale * vectors, self.roots)

    def backward(self, vectors):
        return self._stretched(vectors / self.scale, 1.0 / self.roots)

    def untransposed(self, vectors):
        return self._stretched(vectors, 1.0 / self.roots) / self.scale

    def _stretched(self, vectors, by):
        return vectors + ((vectors @ ops.transpose(self.directions)) * (by - 1.0)) @ self.directions

    def spread(self, variances):
        problem = (
            "mass: directions mix gradient entries, and their variances do not determine "
            "the mixture's."
        )
        raise InputError(
            problem, expected="fisher, or a sampler that does not use them, such as BAOAB or HMC"
        )

    def part(self, first, count: int) -> Stretched:
        """The coordinates of some consecutive walkers.

        Args:
            first: Index of the first walker; it may be a tensor.
            count: Number of walkers.
        """
        scale = ops.rows(self.scale, first, count) if len(self.scale.shape) == 2 else self.scale
        return Stretched(scale, self.directions, self.roots)


class LowRankMass(Stretched):
    """The inverse mass L L' with the L of these coordinates, of NumPy arrays."""

    def longest(self) -> float:
        """The root of the largest eigenvalue of L L', by powers."""
        vector = np.random.default_rng(0).standard_normal((1, len(self.scale)))
        length = 1.0
        for _ in range(100):
            vector = self.forward(self.transposed(vector / length))
            length = float(np.linalg.norm(vector))
        return length**0.5

    def divergence(self, positions: np.ndarray, gradients: np.ndarray) -> float:
        """The sum of the squares of L'g - L⁻¹θ, which is 0 where the mass is exact.

        Args:
            positions: Deviations θ of positions from their means, shape (draws, parameters).
            gradients: Deviations g of the gradients there, in the same shape.
        """
        return float(np.sum((self.transposed(gradients) - self.backward(positions)) ** 2))


def low_rank_mass(
    positions: np.ndarray, gradients: np.ndarray, rank: int, temperature: float = 1.0
) -> LowRankMass | None:
    """The inverse mass of least Fisher divergence from a Gaussian: a diagonal and some directions.

    D² is sqrt(Var θ / Var g) or 1; the one with the smaller divergence counts. Draws x = θ/D and
    slopes y = D g are projected on the space that they span. There S = cov x # (cov y)⁻¹, the
    geometric mean, solves S cov(y) S = cov x. Its eigenvalues outside of [1/2, 2] are kept, the
    furthest from 1 first.

    Where fewer directions than draws tell x from y, they are the space. Where the draws span all of
    it, nothing is assumed. Both are exact on a Gaussian, and all eigenvalues are kept.

    No mass is below 1e-3 of T / Var θ, as in `DiagonalWindows`: a gradient that did not change does
    not show a flat direction. Source: Seyboldt et al., arXiv 2603.18845.

    Args:
        positions: Positions, shape (draws, walkers, parameters), each walker about its own mean.
            Only `usable` draws count.
        gradients: Gradients at these, in the same shape.
        rank: The largest number of directions.
        temperature: T. Default: 1.

    Returns:
        The mass, or None where fewer than three draws are left.
    """
    alike = _ALIKE[positions.dtype.name]
    good = usable(positions, gradients)
    x, y = (_deviations(np.asarray(values, np.float64), good) for values in (positions, gradients))
    freedom = len(x) - int(good.any(0).sum())
    squares = (x**2).sum(0), (y**2).sum(0)
    if freedom < 2 or not min(values.max() for values in squares) > 0:
        return None
    moved = np.maximum(squares[0], squares[0].max() * 1e-30)
    least = _LEAST * temperature * freedom
    diagonal = (moved / np.maximum(squares[1], least**2 / moved)) ** 0.25
    diagonal = np.clip(diagonal, diagonal.min(), diagonal.min() * LONGEST)
    masses = [
        _of_scale(x, y, scale, rank, freedom, alike, least)
        for scale in (diagonal, np.ones_like(diagonal))
    ]
    return min(masses, key=lambda mass: mass.divergence(x, y))


def usable(positions: np.ndarray, gradients: np.ndarray) -> np.ndarray:
    """Whether squares of all numbers of a draw can be summed in float64.

    A start in a far tail may have a finite gradient of 1e200, whose square is infinite.

    Args:
        positions: Positions, `(draws, walkers, parameters)`.
        gradients: Gradients at these, of the same shape.

    Returns:
        A boolean for each draw, `(draws, walkers)`.
    """
    small = [np.abs(values.astype(np.float64)) < _LARGEST for values in (positions, gradients)]
    return np.all(small, axis=(0, -1))


def _of_scale(x, y, scale, rank: int, freedom: int, alike: float, least: float) -> LowRankMass:
    x = x / scale
    y = y * scale
    size = float(np.linalg.norm(x, 2) + np.linalg.norm(y, 2))
    basis = _span(x - y, alike * size)
    known = True
    if len(basis) >= freedom:
        basis = _span(np.concatenate([x, y]), alike * size)
        known = len(basis) <= freedom
    if not len(basis):
        return LowRankMass(scale, basis, np.ones(0))
    # Where nothing is assumed, so little that it counts for flat directions only.
    ridge = (1e-12 * size if known else np.sqrt(_RIDGE)) * np.eye(len(basis))
    moved = x
    x, y = (np.concatenate([values @ basis.T, ridge]) for values in (x, y))
    # (cov y) = R'R; S = R⁻¹ (R cov x R')^½ R'⁻¹, the root by the singular values of R x', which
    # keeps all digits.
    upper = np.linalg.qr(y, mode="r")
    left, values, _ = np.linalg.svd(upper @ x.T, full_matrices=False)
    vectors, roots, _ = np.linalg.svd(
        np.linalg.solve(upper, left * np.sqrt(values)), full_matrices=False
    )
    order = np.argsort(-np.abs(np.log(np.maximum(roots, 1e-300))), kind="stable")[:rank]
    order = order if known else order[np.abs(np.log(roots[order] ** 2)) > np.log(_INSIDE)]
    directions = vectors.T[order] @ basis
    most = np.sqrt(((moved @ directions.T) ** 2).sum(0) / least)
    return LowRankMass(
        scale, directions, np.clip(roots[order], 1 / LONGEST, np.clip(most, 1 / LONGEST, LONGEST))
    )


def _deviations(values: np.ndarray, good: np.ndarray) -> np.ndarray:
    """Rows of the good draws, each about the mean of its walker."""
    rows_by_walker = [values[good[:, w], w] for w in range(values.shape[1])]
    return np.concatenate(
        [rows - rows.mean(0) for rows in rows_by_walker if len(rows)] or [values[:0, 0]]
    )


def _span(rows: np.ndarray, least: float) -> np.ndarray:
    """Orthonormal rows that span these, up to what is shorter than `least`."""
    _, lengths, vectors = np.linalg.svd(rows, full_matrices=False)
    return vectors[lengths > least]


def _unit(ask, state, coordinates: Coordinates, before):
    """The unit of mass in which the stiffest direction is as stiff as at equal masses,
    `(walkers,)`, one for a rung.
    """
    gradient = ask(state.position).gradient
    same = same_rung(state.rung)
    equal, new = (
        ops.largest(same * stiffest(ask, state.position, gradient, metric)[None, :], 1)
        for metric in (Diagonal(0.0 * state.position + 1.0), coordinates)
    )
    unit = equal / ops.maximum(new, 1e-300 + 0.0 * new)
    return ops.where(ops.is_finite(unit) & (unit > 0.0), unit, before)


def _scale(mass, unit):
    """1 / sqrt(m) in the unit of mass."""
    unit = ops.column(unit, mass)
    return ops.sqrt(unit / ops.maximum(mass, unit / LONGEST**2))


def is_among(step, ends: np.ndarray):
    """Whether a step is one of several, a boolean tensor.

    Args:
        step: Number of the step, int64.
        ends: The numbers of steps, shape (n,).
    """
    return ops.sum_over(ops.as_float64(ops.constant(ends, step) == step), 0)[0] > 0.0


def steps_of_window(step):
    """How many steps up to this one, a number in float64, belong to its window of `ENDS`, the last
    of a window included in the next.
    """
    ends = ops.constant(ENDS - 1, step)
    return step - ops.largest(ops.as_float64(ends < step) * ends, 0)
