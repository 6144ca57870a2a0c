"""The contract between the engine and a method: a sampler, an optimizer, an ensemble, or replica
exchange. `Method` has a default for each answer, so that whoever asks needs no question whether
there is one. A sampler without the base class becomes a method where it enters, by `as_method`.
"""

from collections.abc import Callable
from functools import wraps
from operator import methodcaller
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

from tati_re.core.protocol import Evaluate, Noise, attributes_of


@runtime_checkable
class Sampler(Protocol):
    """The minimal sampler: two functions, its configuration, and six attributes, those of
    `Method`.
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


REQUIRED = ("init", "step", "get_config", *Sampler.__annotations__)
"""Names of the required attributes of a sampler."""


class Method:
    """All answers of a method to the engine, with defaults that a method overrides where needed.

    Attributes:
        name: As it is written in options and tables.
        has_momentum: The state has a `momentum` field. Default: no.
        metropolis: `Info` tells the acceptance. Default: no.
        full_batch: The method is only right on all data and asks `evaluate.full`. Default: no.
        current: At the end of a step, gradient and potential belong to the position; else they are
            evaluated anew for each recorded row. Default: yes.
        gradients_per_step: Cost of a step, for each walker that moves. Default: 1.
        shown: Names of further fields of the state, `(walkers,)` each, that run.csv shows. Default:
            none.
        label_names: Names of the last columns of run.csv and of the trajectory, which `labels`
            gives, for methods whose walkers change temperature; one named `weight` is what a row
            counts in averages. Default: none.
        of_rung: Names of the fields of the state that belong to the temperature rather than to the
            walker (thermostat, tuned step size, preconditioner): they change hands when two walkers
            exchange temperatures. Default: none.
        adapts: It changes its own parameters during the burn-in, which therefore has to have steps.
            Default: no.
        subtracts_noise: It takes out the heat that mini-batches would bring if their noise were new
            in every step: mini-batches are then drawn with replacement, and others are refused.
            Default: no.
        mixes_parameters: A step moves parameters along full matrices: walls cannot reflect them
            singly. Default: no.
        groups: How many groups of neighboring walkers move in turn, one while the others rest.
            Default: 1.
        group_steps: How many steps one group makes before the next one does. Default: 1.
        event_columns: Columns of the rows of exchange.csv, which `events` gives. Default: none.
        event_every: Steps between two such rows; 0: there are none. Default: 0.
        copies: Replicas of each walker that a run asks for, one at each temperature of a ladder.
            Default: 1.
        by_rung: Rows are written temperature by temperature, in the order that `order` gives.
            Default: no.
        ladder: β, λ and step size of the copies' rungs, the target first, in place of the options'.
            Default: none.
        reevaluates: After a swap, potential and loss belong to the position although `current` says
            no. Default: no.
        bias: The bias on the energies, where there is one. Default: none.
        exact_energies: Energies are those of all data, beside gradients of mini-batches. Default:
            no.
        swap_bias: A sentence that names the bias of the swaps, where there is one. Default: none.
        against_noise: What it does about the noise of mini-batches, a clause, where that is no
            linear answer from which a heating follows. Default: none.
        renewals: Steps before the last one of the burn-in after which `renewed` is asked, for what
            is no work of a compiled step (matrix decompositions). Default: none.
        finds_end: The burn-in ends where `burnin_end` says, at its number of steps at the latest.
            Default: no.
        isokinetic: Its momenta have the fixed length sqrt(P T), for which it takes 2 parameters, a
            temperature above 0, and gradients of all data. Default: no.
        meters: `Info.energy_change` of a step is its energy error ΔE, `(walkers,)`, in the units of
            U and nan where it is not known, though there is no Metropolis test. Default: no.
        first_order: It has an error of order h times its friction, which no energy error tells.
            Default: no.
        undoes: A step may go back to where it began, with the gradient there. Default: no.
        timed: The step size is a time; else it multiplies the gradient. Default: None, where there
            are momenta.
        acceptance: Acceptance at which its steps pay most, where it has a Metropolis test. Default:
            0.8, of HMC.
        settings: Names of the attributes that `get_config` has beside the name. Default: none.
    """

    name: str = ""
    has_momentum: bool = False
    metropolis: bool = False
    full_batch: bool = False
    current: bool = True
    gradients_per_step: float = 1.0
    shown: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    of_rung: tuple[str, ...] = ()
    adapts: bool = False
    subtracts_noise: bool = False
    mixes_parameters: bool = False
    groups: int = 1
    group_steps: int = 1
    event_columns: tuple[str, ...] = ()
    event_every: int = 0
    copies: int = 1
    by_rung: bool = False
    ladder: Any = None
    reevaluates: bool = False
    bias: Any = None
    exact_energies: bool = False
    swap_bias: str | None = None
    against_noise: str | None = None
    renewals: Any = ()
    finds_end: bool = False
    isokinetic: bool = False
    meters: bool = False
    first_order: bool = False
    undoes: bool = False
    timed: bool | None = None
    acceptance: float = 0.8
    settings: tuple[str, ...] = ()

    def init(self, position, evaluate: Evaluate, noise: Noise) -> Any:
        """The state at given positions, `(walkers, parameters)`."""
        raise NotImplementedError(f"{type(self).__name__} has no init.")

    def step(self, state, evaluate: Evaluate, noise: Noise) -> Any:
        """The state after one step, and its `Info`."""
        raise NotImplementedError(f"{type(self).__name__} has no step.")

    def get_config(self) -> dict:
        """Plain values from which the same method can be made; written to the manifest."""
        return {"sampler": self.name, **attributes_of(self, *self.settings)}

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        """Raises an `InputError` for requests of a run that the method cannot fulfill. Default:
        nothing.
        """

    def begin_turn(self, state, evaluate: Evaluate) -> Any:
        """The part of the state that the steps of one turn change. Default: the state. A turn is up
        to `group_steps` steps of one group, `evaluate.clock.group`; `step` is `begin_turn`, `move`
        and `end_turn`, one after the other. A row that is recorded, or the end of a chunk, cuts a
        turn, and the next `begin_turn` goes on with it.
        """
        return state

    def move(self, turn, evaluate: Evaluate, noise: Noise) -> Any:
        """One step of what `begin_turn` gave, and its `Info`. Default: `step`."""
        return self.step(turn, evaluate, noise)

    def end_turn(self, state, turn, evaluate: Evaluate) -> Any:
        """The state of all walkers after a turn that began at `state`. Default: `turn`."""
        return turn

    def bound(self, state, evaluate: Evaluate) -> Any:
        """The potential at the walkers' own rungs, for what is evaluated for a row. Default: as it
        is.
        """
        return evaluate

    def labels(self, state) -> dict[str, Any]:
        """The columns `label_names`, `(walkers,)` each."""
        return {}

    def order(self, state) -> Any:
        """The walkers in the order of the rows, `(walkers,)`, int32; used if `by_rung`."""
        raise NotImplementedError(f"{type(self).__name__} keeps its walkers in their order.")

    def events(self, state) -> Any:
        """The last rows of `event_columns`, `(rows, columns)`; asked every `event_every` steps."""
        raise NotImplementedError(f"{type(self).__name__} has no events.")

    def tables(self, state) -> dict[str, dict[str, Any]]:
        """Small tables of the current state, "ladder" and "bias", columns by name; rewritten at
        each checkpoint.
        """
        return {}

    def renewed(self, state) -> Any:
        """The state after one of the steps `renewals`, from plain numbers, between two compiled
        chunks. Default: it.
        """
        return state

    def speeds(self, state) -> Any:
        """What velocities in each parameter are multiplied with, a number or `(walkers,
        parameters)`. Default: 1.
        """
        return 1.0

    def burnin_end(self, state) -> int | None:
        """The last step of the burn-in, once the method has found it. Default: none, it is
        given.
        """
        return None

    def shortened(self, state, step: int) -> Any:
        """The state with a step whose bias is as wanted, where what was measured is above; all
        steps up to this one are burn-in then, and it ends here. Asked between two chunks, where it
        `finds_end`. Default: the state.
        """
        return state

    def tuned(self, state) -> str:
        """A line on what the burn-in has tuned, once it is over. Default: empty."""
        return ""


class Optimizer(Method):
    """A method that goes downhill, in the step size of its walkers, the learning rate, or in its
    own in place of the options', `learning_rate`, or `None`, which it changes by itself where it is
    `scheduled`. Where it `validates` it asks `evaluate.validation`, the loss on the test part.
    """

    learning_rate: float | None = None
    scheduled: bool = False
    validates: bool = False

    def get_config(self) -> dict:
        return {"optimizer": self.name, **attributes_of(self, *self.settings)}


_OF_TURNS = {"begin_turn", "move", "end_turn"}


class Wrapper(Method):
    """A method that wraps another one and forwards all answers to `inner` except those it
    overrides.

    The state of a wrapper is that of `inner` with further fields, so that `inner` can read it.
    Turns are not passed on: what a wrapper adds to a step belongs around each step, and `step` of
    `inner` is a turn of its own.

    Args:
        inner: The wrapped method, or a sampler from which `as_method` makes one.
    """

    def __init__(self, inner: Sampler) -> None:
        self.inner = as_method(inner)
        # By their list, so that an answer that is added to Method cannot be forgotten here.
        vars(self).update({name: getattr(self.inner, name) for name in Method.__annotations__})


def _forwarded(default: FunctionType) -> Callable:
    @wraps(default)
    def answer(self, *arguments: Any, **named: Any) -> Any:
        return methodcaller(default.__name__, *arguments, **named)(self.inner)

    return answer


for _name, _default in vars(Method).items():
    if isinstance(_default, FunctionType) and _name not in _OF_TURNS:
        setattr(Wrapper, _name, _forwarded(_default))


class _Adapted(Method):
    """A sampler that has no base class, with the defaults for what it leaves out."""

    def __init__(self, sampler: Sampler) -> None:
        answers = [name for name in dir(Method) if not name.startswith("_")]
        vars(self).update(
            {name: getattr(sampler, name) for name in answers if hasattr(sampler, name)}
        )


def as_method(sampler: Sampler) -> Method:
    """The sampler itself where it is a `Method`, else a method that gives its answers."""
    return sampler if isinstance(sampler, Method) else _Adapted(sampler)


def missing(sampler) -> list[str]:
    """The attributes of `Sampler` that a sampler lacks, by name; of heirs of `Method` also what
    they must override.
    """
    if isinstance(sampler, Method):
        own = {
            "init": type(sampler).init is not Method.init,
            "step": type(sampler).step is not Method.step,
        }
        return [
            name for name, overridden in own.items() if not overridden and name not in vars(sampler)
        ]
    return [name for name in REQUIRED if not hasattr(sampler, name)]
