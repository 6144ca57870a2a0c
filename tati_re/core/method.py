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
from tati_re.core.front_door import Doors
from tati_re.core.protocol import Evaluate, Noise, attributes_of


@runtime_checkable
class Sampler(Protocol):
    """The minimal sampler: two functions, its configuration, and the first six attributes of
    `Method`.
    """

    name: str
    has_momentum: bool
    metropolis: bool
    full_batch: bool
    current: bool
    gradients_per_step: float

    def init(self, position, evaluate: Evaluate, noise: Noise):
        """Makes the state before the first step; see `Method.init`.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient on the first mini-batch.
            noise: Random numbers of this step.

        Returns:
            The state.
        """

    def step(self, state, evaluate: Evaluate, noise: Noise):
        """Makes one step; see `Method.step`.

        Args:
            state: The state before the step.
            evaluate: Computes U and its gradient on the mini-batch of the step.
            noise: Random numbers of this step.

        Returns:
            The state after the step, and its `Info`.
        """

    def get_config(self) -> dict:
        """Returns plain values that define the sampler; they are written to the manifest."""


REQUIRED = ("init", "step", "get_config", *Sampler.__annotations__)
"""Names of the required attributes of a sampler."""


class Method(Doors):
    """The full interface of a method to the engine, with defaults that a method overrides if
    needed.

    Attributes:
        name: Name in options and tables.
        has_momentum: Whether the state has a field `momentum`. Default: False.
        metropolis: Whether `Info` holds the acceptance. Default: False.
        full_batch: Whether the method is correct only on all data and calls `evaluate.full`.
            Default: False.
        current: Whether gradient and potential belong to the position at the end of a step.
            Otherwise they are reevaluated for each recorded row. Default: True.
        gradients_per_step: Cost of a step, for each walker that moves. Default: 1.
        shown: Names of further fields of the state, `(walkers,)` each, that are columns of run.csv.
            Default: none.
        label_names: Names of the last columns of run.csv and of the trajectory, from `labels`, for
            methods whose walkers change temperature. A column `weight` is the weight of a row in
            averages. Default: none.
        of_rung: Names of the fields of the state that belong to the temperature rather than to the
            walker (thermostat, tuned step size, preconditioner). Two walkers swap them when they
            exchange temperatures. Default: none.
        adapts: Whether the method adapts during the burn-in, which must then have steps. Default:
            False.
        subtracts_noise: Whether the method removes the heat of mini-batch noise that is new in
            every step. Mini-batches are then drawn with replacement, and other sampling is refused.
            Default: False.
        against_noise: A clause on how the method treats mini-batch noise, if its response is not
            linear and no heating follows from it. Default: empty.
        settings: Names of the attributes that `get_config` returns in addition to the name.
            Default: none.
        dynamics: Properties of a step, for choosing its size.
        turns: Groups of walkers that move in turn. Default: None, all move at once.
        burnin: Work of the burn-in between compiled steps, and its results. Default: None.
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
        """Makes the state before the first step.

        Args:
            position: Positions, shape (walkers, parameters).
            evaluate: Computes U and its gradient at positions, on the examples of mini-batch 0.
            noise: Random numbers of this step, by `noise.normal(shape)` and `noise.uniform(shape)`.

        Returns:
            The state, a named tuple of tensors whose first axis counts walkers.

        Raises:
            NotImplementedError: The class does not define the method.
        """
        raise NotImplementedError(f"{type(self).__name__} has no init.")

    def step(self, state: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """Makes one step.

        Args:
            state: The state before the step, from `init` or the last step.
            evaluate: Computes U and its gradient at positions, on the examples of this step.
            noise: Random numbers of this step, by `noise.normal(shape)` and `noise.uniform(shape)`.

        Returns:
            The state after the step, and its `Info`: acceptance and ΔH of each walker, None
                without a Metropolis test.

        Raises:
            NotImplementedError: The class does not define the method.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step.")

    def get_config(self) -> dict:
        """Returns plain values that define the method; they are written to the manifest."""
        return {"sampler": self.name, **attributes_of(self, *self.settings)}

    def check(self, step_size: float, temperature: float, num_burnin_steps: int) -> None:
        """Refuses requests of a run that the method cannot fulfill. The default accepts everything.

        Args:
            step_size: h.
            temperature: T.
            num_burnin_steps: Steps of the burn-in.

        Raises:
            InputError: The method cannot fulfill the request.
        """

    def used_options(self) -> set[str]:
        """Returns the sampler options that the method uses. Default: the names of `get_config`."""
        return {*self.get_config()}

    def labels(self, state: Any) -> dict[str, Any]:
        """Returns columns of run.csv that only this method has. Default: none.

        Args:
            state: The state after a step.

        Returns:
            A tensor of shape (walkers,) for each of `label_names`.
        """
        return {}

    def speeds(self, state: Any) -> Any:
        """Returns the factor by which a velocity differs from its momentum. Default: 1.

        Args:
            state: The state after a step.

        Returns:
            A number, or one for each parameter, shape (walkers, parameters).
        """
        return 1.0

    def masses(self) -> Any:
        """Returns the fixed masses, a number or `(parameters,)`. Default: 1."""
        return 1.0

    def coordinates(self, state: Any) -> Any:
        """Returns the measured coordinates in which steps move. Default: None, no mass is measured.

        Args:
            state: The state after a step, as plain numbers.

        Returns:
            The coordinates of each walker, or None.
        """
        return None

    def linear_part(self, coordinates: Any) -> tuple["Method", Any]:
        """Returns the method with a linear step in a harmonic well, at one temperature, and its
        coordinates.

        Args:
            coordinates: The result of `coordinates`, or None before any measurement.

        Returns:
            The method without the parts that change its temperature, step size or coordinates, and
            the coordinates. None stands for the parameters themselves. Default: the method itself.
        """
        return self, None

    def at_friction(self, friction: float) -> "Method":
        """Returns the method at a friction that the burn-in has measured. Default: the method unchanged.

        Args:
            friction: Friction in 1/time.

        Returns:
            A method with this friction.
        """
        return self


class Optimizer(Method):
    """A method that minimizes U. The step size of its walkers is the learning rate.

    A learning rate in `learning_rate`, if not None, replaces the one in the options. If the
    optimizer is `scheduled`, it changes its learning rate automatically. If it `validates`, it
    calls `evaluate.validation`, the loss on the test set.
    """

    learning_rate: float | None = None
    scheduled: bool = False
    validates: bool = False

    def get_config(self) -> dict:
        return {"optimizer": self.name, **attributes_of(self, *self.settings)}


_OWN = {"used_options", "linear_part", "at_friction"}
"""What a wrapper answers by itself, as any method does."""


class Wrapper(Method):
    """A method that wraps another one and forwards everything to `inner` except what it overrides.

    The state of a wrapper is the state of `inner` with further fields, so `inner` can read it.
    Groups that move in turn are the groups of `inner`, but each step is a separate turn: a wrapper
    adds its work around each step.

    Args:
        inner: The wrapped method, or a sampler that `as_method` converts.
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
        overridden = _told(sampler, [name for name in dir(Method) if not name.startswith("_")])
        overridden.setdefault("used_options", lambda: {*sampler.get_config()})
        vars(self).update(overridden)

        if not isinstance(self.turns, Turns):
            self.turns = _of_flat(sampler, Turns(self), _FLAT_TURNS)
        if not isinstance(self.burnin, BurninTuning):
            self.burnin = _of_flat(sampler, BurninTuning(), _FLAT_BURNIN)
        if not isinstance(self.ladder, Temperatures):
            self.ladder = _of_flat(sampler, Temperatures(), _FLAT_LADDER)
        dynamics = self.dynamics if isinstance(self.dynamics, Dynamics) else Dynamics()
        self.dynamics = replace(dynamics, **_told(sampler, _FLAT_DYNAMICS))


def _of_flat(sampler: Any, facet: Any, names: Mapping[str, str]) -> Any:
    """The facet with the answers that a sampler gives by itself; None where it gives none."""
    overridden = {name: value for name, value in _told(sampler, names).items() if value is not None}
    for name, value in overridden.items():
        setattr(facet, names[name], value)
    return facet if overridden else None


def _answers_by_itself(method: Method) -> bool:
    """Whether a method answers by itself what belongs to a facet that it does not have, or has
    something else under the name of a facet.
    """
    if not isinstance(method.dynamics, Dynamics):
        return True

    names = [*_FLAT_DYNAMICS]
    for facet, kind, flat_names in (
        (method.turns, Turns, _FLAT_TURNS),
        (method.burnin, BurninTuning, _FLAT_BURNIN),
        (method.ladder, Temperatures, _FLAT_LADDER),
    ):
        if facet is not None and not isinstance(facet, kind):
            return True
        if facet is None:
            names += flat_names
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
        overrides = {
            "init": type(sampler).init is not Method.init,
            "step": type(sampler).step is not Method.step,
        }
        return [
            name
            for name, overridden in overrides.items()
            if not overridden and name not in vars(sampler)
        ]
    return [name for name in REQUIRED if not hasattr(sampler, name)]
