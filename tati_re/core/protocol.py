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


class Rung(NamedTuple):
    """A row of the temperature ladder, gathered for each walker; each field has shape `(walkers,)`, float64.

    Attributes:
        inverse_temperature: β, the target is exp(-β U).
        likelihood_weight: λ in U = λ L + V; 1 but for likelihood tempering.
        step_size: h, the time step of the scheme.
    """

    inverse_temperature: Any
    likelihood_weight: Any
    step_size: Any

    @property
    def temperature(self):
        """T = 1/β."""
        return 1.0 / self.inverse_temperature


class Clock(NamedTuple):
    """Where in the run a step is.

    Attributes:
        step: Number of the step, from 1; 0 in `init`; int64 scalar.
        adapting: The step belongs to the burn-in: what adapts may change, and is frozen afterwards; bool scalar.
        group: Which group of walkers moves, for methods that move one at a time; int32 scalar.
    """

    step: Any
    adapting: Any
    group: Any


class Energy(NamedTuple):
    """The potential at some positions.

    Attributes:
        potential: U = λ L + V, `(walkers,)`, float64.
        gradient: ∇U, `(walkers, parameters)`.
        loss: Mean loss over the examples, `(walkers,)`, float64.
        log_prior: -V, `(walkers,)`, float64.
    """

    potential: Any
    gradient: Any
    loss: Any
    log_prior: Any


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
class Evaluate(Protocol):
    """What a step may ask about the potential. It is bound to this step's mini-batch and to the walkers' rungs.

    Attributes:
        rung: Temperature, likelihood weight and step size of each walker.
        scale: What the mean loss is multiplied with in L: N, or 1 under the mean-loss convention.
        clock: The number of this step, and whether it belongs to the burn-in.
        num_examples: N.
        exact: This step's batch is all data.
    """

    rung: Rung
    scale: float
    clock: Clock
    num_examples: int
    exact: bool

    def __call__(self, position) -> Energy:
        """U and its gradient on this step's mini-batch."""

    def full(self, position) -> Energy:
        """U and its gradient on all data, summed in float64."""

    def validation(self, position):
        """Mean loss on the test part of the data, `(walkers,)`, float64; an `InputError` where there is none."""

    def gradient_variance(self, position):
        """Variance of each entry of this mini-batch's estimate of ∇U, `(walkers, parameters)`, estimated from the
        gradients of its examples; zero for the full batch."""

    def mean_loss(self, position):
        """Mean loss over all data, `(walkers,)`, float64; without a gradient, at a third of the cost of `full`."""

    def examples(self, position, indices):
        """Loss of each of some examples, `(n,)` indices that all walkers share: `(walkers, n)`, float64."""

    def log_prior(self, position):
        """-V, `(walkers,)`, float64."""

    def drawn_from_prior(self, normal):
        """Positions drawn from the prior, made of standard normal numbers `(walkers, parameters)`."""

    def at(self, rung: Rung) -> Evaluate:
        """The same potential on the same mini-batch, with the walkers on other rungs."""

    def part(self, first, count: int) -> Evaluate:
        """The same for `count` walkers from walker `first` on; `first` may be known only while the step runs."""

    def confine(self, position, momentum):
        """Reflects what left the support of the prior: returns position and momentum (`None` stays `None`)."""


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
    neighbouring walkers there are, and `group_steps`, how many steps one group moves before the next one does. Its
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


def energy_and_variance(evaluate: Evaluate, position) -> tuple[Energy, Any]:
    """U and its gradient on this step's mini-batch, and the gradient's variance: in one pass where `evaluate` has a
    method `with_variance` for that."""
    joint = getattr(evaluate, "with_variance", None)
    return joint(position) if joint else (evaluate(position), evaluate.gradient_variance(position))


def groups_of(method) -> tuple[int, int]:
    """How many groups of walkers take turns, and how many steps a turn has: (1, 1) for methods that move all."""
    return getattr(method, "groups", 1), getattr(method, "group_steps", 1)
