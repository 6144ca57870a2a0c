"""Common parts of wrappers: states with further fields, and steps in other coordinates."""

from __future__ import annotations

from collections import namedtuple
from functools import cache
from operator import methodcaller
from typing import Any, Protocol

from tati_re.core.evaluate import Delegating, Energy
from tati_re.core.ops import column, maximum, repeat, rows, sqrt, sum_of_products
from tati_re.core.protocol import fields_of

_PROBE = {"float32": 1e-2, "float64": 1e-5}
_POWER_STEPS = 8


@cache
def _extended(base: Any, names: tuple[str, ...]) -> Any:
    fields = [name for name in base._fields if name != "rung"]
    make: Any = namedtuple
    made = make("_".join((base.__name__, *names)), [*fields, *names, "rung"])
    made.base = base
    return made


def extend(state, **fields):
    """The state with further fields, the rung last.

    The same state and names give the same type of state.

    Args:
        state: The state.
        **fields: Values of the new fields, by name.
    """
    return _extended(type(state), tuple(fields))(**state._asdict(), **fields)


def inner_of(state):
    """The state of the inner sampler within an extended state, as its own type."""
    base = type(state).base
    return base(**fields_of(state, base._fields))


class Coordinates(Protocol):
    """A linear map B from a sampler's coordinates to parameters, θ = θ₀ + B x; vectors are
    `(walkers, parameters)`.
    """

    def forward(self, vectors: Any):
        """B v: from x to θ."""

    def transposed(self, vectors: Any):
        """B' v: gradients from θ to x."""

    def backward(self, vectors: Any):
        """B⁻¹ v: from θ to x."""

    def untransposed(self, vectors: Any):
        """B'⁻¹ v: gradients from x to θ."""

    def spread(self, variances: Any):
        """The variance of the entries of B' v from that of the entries of v; an `InputError` where
        B mixes them.
        """

    def part(self, first, count: int) -> Coordinates:
        """B of some consecutive walkers.

        Args:
            first: Index of the first walker; it may be a tensor.
            count: Number of walkers.
        """


class Diagonal:
    """Coordinates x = θ / s, entry by entry."""

    def __init__(self, scale) -> None:
        self.scale = scale

    def forward(self, vectors):
        return self.scale * vectors

    transposed = forward

    def untransposed(self, vectors):
        return vectors / self.scale

    backward = untransposed

    def spread(self, variances):
        return self.scale * (self.scale * variances)

    def part(self, first, count: int) -> Diagonal:
        """The coordinates of some consecutive walkers.

        Args:
            first: Index of the first walker; it may be a tensor.
            count: Number of walkers.
        """
        return Diagonal(
            rows(self.scale, first, count) if len(self.scale.shape) == 2 else self.scale
        )


def _asked_there(name: str) -> Any:
    return lambda self, x, *others: methodcaller(name, self._there(x), *others)(self.evaluate)


class InCoordinates(Delegating):
    """The potential as a function of x in θ = θ₀ + B x: the same U, the gradient B' ∇U.

    Args:
        evaluate: The potential as a function of θ.
        origin: θ₀, shape (walkers, parameters).
        coordinates: B.
    """

    def __init__(self, evaluate, origin, coordinates: Coordinates) -> None:
        super().__init__(evaluate)
        self.origin = origin
        self.coordinates = coordinates
        self.seen = None

    def _there(self, x):
        return self.origin + self.coordinates.forward(x)

    def _here(self, energy: Energy) -> Energy:
        return energy._replace(gradient=self.coordinates.transposed(energy.gradient))

    def __call__(self, x) -> Energy:
        energy = self.evaluate(self._there(x))
        self.seen = energy.gradient
        return self._here(energy)

    def full(self, x) -> Energy:
        return self._here(self.evaluate.full(self._there(x)))

    validation = _asked_there("validation")

    def gradient_variance(self, x):
        return self.coordinates.spread(self.evaluate.gradient_variance(self._there(x)))

    def with_variance(self, x):
        energy, variance = self.evaluate.with_variance(self._there(x))
        self.seen = energy.gradient
        return self._here(energy), self.coordinates.spread(variance)

    mean_loss = _asked_there("mean_loss")
    examples = _asked_there("examples")
    log_prior = _asked_there("log_prior")

    def drawn_from_prior(self, normal):
        return self.coordinates.backward(self.evaluate.drawn_from_prior(normal) - self.origin)

    def part(self, first, count: int) -> InCoordinates:
        origin = rows(self.origin, first, count)
        coordinates = self.coordinates.part(first, count)
        return InCoordinates(self.evaluate.part(first, count), origin, coordinates)

    def confine(self, x, momentum):
        """Reflects at the walls of θ, for a diagonal B, which keeps the walls upright.

        Args:
            x: Positions in x, shape (walkers, parameters).
            momentum: Momenta, in the shape of `x`, or None.

        Returns:
            Both after the reflections.
        """
        position = self._there(x)
        inside, turned = self.evaluate.confine(position, momentum)
        if inside is position:
            return x, momentum
        return x + self.coordinates.backward(inside - position), turned

    metric = _asked_there("metric")


def step_in_coordinates(sampler, state, evaluate, noise, coordinates: Coordinates, slope=None):
    """Makes a step of a sampler in x with θ = θ₀ + B x.

    θ₀ is the position of the walkers. It is 0 for a sampler that mixes parameters and learns from
    the other walkers' places. Momenta belong to x, of unit mass.

    Args:
        sampler: The sampler.
        state: The state before the step; position and gradient are those in θ.
        evaluate: The potential as a function of θ.
        noise: Random numbers of this step.
        coordinates: B.
        slope: B' ∇U at the start, shape (walkers, parameters). Default: None, from the state.

    Returns:
        The state after the step in θ, its `Info`, and B' ∇U at the end.
    """
    slope = coordinates.transposed(state.gradient) if slope is None else slope
    start = 0.0 * state.position
    origin = state.position
    dynamics = sampler.dynamics
    if dynamics.mixes_parameters:
        start, origin = coordinates.backward(state.position), start
    bound = InCoordinates(evaluate, origin, coordinates)
    new, info = sampler.step(state._replace(position=start, gradient=slope), bound, noise)
    position = origin + coordinates.forward(new.position)
    # Methods for mini-batches end a step with the gradient that they asked for last; those with a
    # Metropolis test ask inside of loops and may go back to the one before.
    asks_inside = dynamics.mixes_parameters or dynamics.undoes or sampler.metropolis
    last = None if asks_inside else bound.seen
    gradient = coordinates.untransposed(new.gradient) if last is None else last
    return new._replace(position=position, gradient=gradient), info, new.gradient


def curved(ask, position, gradient, direction):
    """Computes ∇²U times a direction for each walker, by a difference of gradients.

    Args:
        ask: Computes U and its gradient.
        position: Positions, shape (walkers, parameters).
        gradient: ∇U there, in the same shape.
        direction: Directions of any length, in the same shape.

    Returns:
        The products, shape (walkers, parameters), and the lengths of the directions, (walkers,).
    """
    length = sqrt(sum_of_products(direction, direction))
    scale = column(_PROBE[direction.dtype.name] / maximum(length, 1e-30 + 0.0 * length), direction)
    return (ask(position + scale * direction).gradient - gradient) / scale, length


def stiffest(ask, position, gradient, coordinates: Coordinates, along=None):
    """The largest curvature of each walker in x, shape (walkers,).

    It comes from 8 power iterations on B'∇²U B.

    Args:
        ask: Computes U and its gradient as a function of θ.
        position: Positions θ, shape (walkers, parameters).
        gradient: ∇U there, in the same shape.
        coordinates: B.
        along: Vectors in x from which the iteration starts, in the same shape. Default: None, the
            slopes B'∇U.
    """

    def power(along, _):
        length = sqrt(sum_of_products(along, along))
        along = coordinates.forward(along / column(maximum(length, 1e-30 + 0.0 * length), along))
        image = coordinates.transposed(curved(ask, position, gradient, along)[0])
        return image, sqrt(sum_of_products(image, image))

    along = coordinates.transposed(gradient) if along is None else along
    return repeat(_POWER_STEPS, power, (along, sum_of_products(along, along)))[1]
