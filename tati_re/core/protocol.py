"""What a sampler is: two pure functions on walkers-first arrays, and the objects that pass through them.

    init(position, evaluate, noise) -> State
    step(state, evaluate, noise) -> (State, Info)

`State` is a NamedTuple that has at least the fields of `State`; whatever else adapts or moves is a further field
of the
sampler's own NamedTuple and is checkpointed with it. Tuning parameters (friction, word, number of leapfrog steps) are
attributes of
the sampler object. Structure after BlackJAX (Cabezas et al. 2024) and Listing 1 of TATi.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from tati_re.core.evaluate import Clock, Energy, Evaluate, Rung

__all__ = [
    "Clock",
    "Energy",
    "Evaluate",
    "Info",
    "Noise",
    "Rung",
    "Sampler",
    "State",
    "groups_of",
    "with_energy",
]


def with_energy(state, energy: Energy):
    """The state, a NamedTuple with at least the fields of `State`, with potential and gradient of an energy."""
    return state._replace(
        gradient=energy.gradient, potential=energy.potential, loss=energy.loss, log_prior=energy.log_prior
    )


class State(NamedTuple):
    """The least that a sampler carries from step to step.

    A sampler that adapts its temperature or step size has them as fields of these names, `(walkers,)`, float64: in
    run.csv they stand in place of the rung's.

    Attributes:
        position: θ, `(walkers, parameters)`.
        gradient: ∇U where it was evaluated last, `(walkers, parameters)`.
        potential: U there, `(walkers,)`, float64.
        loss: Mean loss there, `(walkers,)`, float64.
        log_prior: -V there, `(walkers,)`, float64.
        rung: The temperature and step size of each walker.
    """

    position: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    rung: Rung


class Info(NamedTuple):
    """What a step tells beside the state; methods without a Metropolis test leave it as it is.

    Attributes:
        acceptance: min(1, exp(-β ΔH)), `(walkers,)`, or `None`.
        energy_change: ΔH of the proposal, `(walkers,)`, or `None`.
    """

    acceptance: Any = None
    energy_change: Any = None


@runtime_checkable
class Noise(Protocol):
    """This step's random numbers. Draw outside of loops, and ask for `(walkers, ...)` or `()` shapes."""

    def normal(self, shape):
        """Standard normal numbers in the type of the parameters."""

    def uniform(self, shape):
        """Uniform numbers in (0, 1), float64."""


@runtime_checkable
class Sampler(Protocol):
    """A method that moves walkers.

    Attributes:
        name: As it is written in options and tables.
        has_momentum: The state has a `momentum` field.
        metropolis: `Info` tells the acceptance.
        full_batch: The method is only right on all data and asks `evaluate.full`.
        current: At the end of a step, gradient and potential belong to the position (else they are evaluated anew for
            each recorded row).
        gradients_per_step: Cost.

    A method may have `shown`, names of further fields of its state, `(walkers,)` each, that run.csv shows (thermostat,
    ...).

    Methods whose walkers change temperature have `label_names` and `labels(state)`, the last columns of run.csv and of
    the trajectory, `(walkers,)` each; one named `weight` is what a row counts in averages.

    Likewise `of_rung`: names of fields of its state that belong to the temperature rather than to the walker
    (thermostat, tuned step size, preconditioner): they change hands when two walkers exchange temperatures.

    A method that moves one group of walkers while the others rest has two more: `groups`, how many groups of
    neighboring walkers there are, and `group_steps`, how many steps one group moves before the next one does. Its
    `gradients_per_step` then counts for a walker that moves. Such a method may spare the loop to take its group out of
    all walkers, and to put it back, at each step: `begin_turn(state, evaluate)` gives what its steps change,
    `move(turn, evaluate, noise)` makes a step of it, and `end_turn(state, turn, evaluate)` the state of all walkers
    again. A row that is recorded, or the end of a chunk, cuts a turn: `begin_turn` then goes on with it. `step` is all
    three, one after the other.
    """

    name: str
    has_momentum: bool
    metropolis: bool
    full_batch: bool
    current: bool
    gradients_per_step: float

    def init(self, position, evaluate: Evaluate, noise: Noise): ...

    def step(self, state, evaluate: Evaluate, noise: Noise): ...

    def get_config(self) -> dict: ...


def groups_of(method) -> tuple[int, int]:
    """How many groups of walkers take turns, and how many steps a turn has: (1, 1) for methods that move all."""
    return getattr(method, "groups", 1), getattr(method, "group_steps", 1)
