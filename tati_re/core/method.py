"""The contract between the engine and a method: a sampler, an optimizer, an ensemble, or replica
exchange. `Method` has a default for each answer, so that whoever asks needs no question whether
there is one. A sampler without the base class becomes a method where it enters, by `as_method`. What
only some methods have are facets (`tati_re.core.facets`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import wraps
from operator import methodcaller
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

from tati_re.core.facets import BurninTuning, Dynamics, Temperatures, Turns
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
        against_noise: What it does about the noise of mini-batches, a clause, where that is no
            linear answer from which a heating follows. Default: none.
        settings: Names of the attributes that `get_config` has beside the name. Default: none.
        dynamics: What a step is, for whoever chooses its size.
        turns: Groups of walkers that move in turn. Default: None, all move at once.
        burnin: What the burn-in does between compiled steps, and has found. Default: None, nothing.
        ladder: Several temperatures, or a bias on the energies. Default: None, one temperature.
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
    against_noise: str | None = None
    settings: tuple[str, ...] = ()
    dynamics: Dynamics = Dynamics()
    turns: Turns | None = None
    burnin: BurninTuning | None = None
    ladder: Temperatures | None = None

    def init(self, position: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """The state at given positions, `(walkers, parameters)`."""
        raise NotImplementedError(f"{type(self).__name__} has no init.")

    def step(self, state: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """The state after one step, and its `Info`."""
        raise NotImplementedError(f"{type(self).__name__} has no step.")

    def get_config(self) -> dict:
        """Plain values from which the same method can be made; written to the manifest."""
        return {"sampler": self.name, **attributes_of(self, *self.settings)}

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        """Raises an `InputError` for requests of a run that the method cannot fulfill. Default:
        nothing.
        """

    def used_options(self) -> set[str]:
        """The options of samplers that the method uses. Default: the names of `get_config`."""
        return {*self.get_config()}

    def labels(self, state: Any) -> dict[str, Any]:
        """The columns `label_names`, `(walkers,)` each."""
        return {}

    def speeds(self, state: Any) -> Any:
        """What velocities in each parameter are multiplied with, a number or `(walkers,
        parameters)`. Default: 1.
        """
        return 1.0

    def masses(self) -> Any:
        """The masses that were given, a number or `(parameters,)`. Default: 1."""
        return 1.0

    def coordinates(self, state: Any) -> Any:
        """The coordinates in which its steps move, where they were measured, as plain numbers.
        Default: None, no mass is measured.
        """
        return None

    def linear_part(self, coordinates: Any) -> tuple["Method", Any]:
        """The method whose step is linear on a harmonic well, at one temperature, and the
        coordinates in which it moves.

        Args:
            coordinates: Those of `coordinates`, or None where nothing is measured yet.

        Returns:
            The method, without what changes its temperature, step size or coordinates, and the
            coordinates; None stands for the parameters themselves. Default: the method itself.
        """
        return self, None

    def at_friction(self, friction: float) -> "Method":
        """The method at a friction that the burn-in has found. Default: the method itself."""
        return self


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


_OWN = {"used_options", "linear_part", "at_friction"}
"""What a wrapper answers by itself, as any method does."""


class Wrapper(Method):
    """A method that wraps another one and forwards all answers to `inner` except those it
    overrides.

    The state of a wrapper is that of `inner` with further fields, so that `inner` can read it.
    Groups that move in turn stay the groups of `inner`, but each step is a turn of its own: what a
    wrapper adds to a step belongs around each step.

    Args:
        inner: The wrapped method, or a sampler from which `as_method` makes one.
    """

    def __init__(self, inner: Sampler) -> None:
        self.inner = as_method(inner)
        # By their list, so that an answer that is added to Method cannot be forgotten here.
        vars(self).update({name: getattr(self.inner, name) for name in Method.__annotations__})
        if self.turns is not None:
            self.turns = Turns(self, self.turns.groups, self.turns.steps)


def _forwarded(default: FunctionType) -> Callable:
    @wraps(default)
    def answer(self, *arguments: Any, **named: Any) -> Any:
        return methodcaller(default.__name__, *arguments, **named)(self.inner)

    return answer


for _name, _default in vars(Method).items():
    if isinstance(_default, FunctionType) and _name not in _OWN:
        setattr(Wrapper, _name, _forwarded(_default))


_FLAT_TURNS = {
    "groups": "groups",
    "group_steps": "steps",
    "begin_turn": "begin",
    "move": "move",
    "end_turn": "end",
}
_FLAT_BURNIN = {
    "renewals": "renewals",
    "finds_end": "finds_end",
    "renewed": "renewed",
    "burnin_end": "end",
    "shortened": "shortened",
    "tuned": "tuned",
}
_FLAT_LADDER = {
    "ladder": "rungs",
    "copies": "copies",
    "by_rung": "by_rung",
    "event_columns": "event_columns",
    "event_every": "event_every",
    "reevaluates": "reevaluates",
    "bias": "bias",
    "exact_energies": "exact_energies",
    "swap_bias": "swap_bias",
    "order": "order",
    "events": "events",
    "tables": "tables",
    "bound": "bound",
}
_FLAT_DYNAMICS = (
    "timed",
    "isokinetic",
    "first_order",
    "meters",
    "undoes",
    "mixes_parameters",
    "acceptance",
)
"""Names under which samplers answered by themselves before there were facets, and those of the
facets' answers.
"""


def _told(sampler: Any, names: Iterable[str]) -> dict[str, Any]:
    """The attributes of a sampler, of those with these names that it has."""
    return {name: getattr(sampler, name) for name in names if hasattr(sampler, name)}


class _Adapted(Method):
    """A sampler that has no base class, with the defaults for what it leaves out, or one that
    answers by itself what belongs to a facet.
    """

    def __init__(self, sampler: Sampler) -> None:
        told = _told(sampler, [name for name in dir(Method) if not name.startswith("_")])
        told.setdefault("used_options", lambda: {*sampler.get_config()})
        vars(self).update(told)

        if not isinstance(self.turns, Turns):
            self.turns = _of_flat(sampler, Turns(self), _FLAT_TURNS)
        if not isinstance(self.burnin, BurninTuning):
            self.burnin = _of_flat(sampler, BurninTuning(), _FLAT_BURNIN)
        if not isinstance(self.ladder, Temperatures):
            self.ladder = _of_flat(sampler, Temperatures(), _FLAT_LADDER)
        own = self.dynamics if isinstance(self.dynamics, Dynamics) else Dynamics()
        self.dynamics = replace(own, **_told(sampler, _FLAT_DYNAMICS))


def _of_flat(sampler: Any, facet: Any, names: Mapping[str, str]) -> Any:
    """The facet with the answers that a sampler gives by itself; None where it gives none."""
    told = {name: value for name, value in _told(sampler, names).items() if value is not None}
    for name, value in told.items():
        setattr(facet, names[name], value)
    return facet if told else None


def _answers_by_itself(method: Method) -> bool:
    """Whether a method answers by itself what belongs to a facet that it does not have, or has
    something else under the name of a facet.
    """
    if not isinstance(method.dynamics, Dynamics):
        return True

    names = [*_FLAT_DYNAMICS]
    for facet, kind, own in (
        (method.turns, Turns, _FLAT_TURNS),
        (method.burnin, BurninTuning, _FLAT_BURNIN),
        (method.ladder, Temperatures, _FLAT_LADDER),
    ):
        if facet is not None and not isinstance(facet, kind):
            return True
        if facet is None:
            names += own
    # A ladder of None is none.
    return any(value is not None for value in _told(method, names).values())


def as_method(sampler: Sampler) -> Method:
    """The sampler itself where it is a `Method` with its facets, else a method that gives its
    answers.
    """
    if isinstance(sampler, Method) and not _answers_by_itself(sampler):
        return sampler
    return _Adapted(sampler)


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
