"""The objects passed through the two pure functions of a sampler, arrays with walkers first.

    init(position, evaluate, noise) -> State
    step(state, evaluate, noise) -> (State, Info)

Whatever else than the fields of `State` adapts or moves is a further field of the sampler's own
NamedTuple and is checkpointed with it. Tuning parameters (friction, word, number of leapfrog steps)
are attributes of the sampler object. Structure after BlackJAX (Cabezas et al. 2024) and Listing 1
of TATi.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

from tati_re.core.evaluate import Clock as Clock
from tati_re.core.evaluate import Energy, Rung
from tati_re.core.evaluate import Evaluate as Evaluate
from tati_re.core.ops import as_float64, where


def with_energy(state, energy: Energy):
    """Puts the potential, its gradient and its parts into a state.

    Args:
        state: A NamedTuple with at least the fields of `State`.
        energy: The energy of each walker, with its gradient.

    Returns:
        The changed state; position and rung are the same.
    """
    return state._replace(**energy._asdict())


def step_size_of(state, rung: Rung):
    """The step size of each walker, shape (walkers,).

    Args:
        state: The state of a sampler. A tuned sampler has found the field `step_factor`, which
            multiplies the rung's step size.
        rung: The rung of each walker.
    """
    return rung.step_size * state.step_factor if "step_factor" in state._fields else rung.step_size


def attributes_of(method, *names: str) -> dict:
    """Attributes of a method as a dictionary.

    Args:
        method: A sampler, an optimizer, or another object.
        *names: Names of attributes of the object itself, not of its class.
    """
    return {name: vars(method)[name] for name in names}


def fields_of(state, names) -> dict:
    """Some fields of a state as a dictionary, in the order of the names.

    Args:
        state: A NamedTuple.
        names: Names of its fields.
    """
    values = state._asdict()
    return {name: values[name] for name in names}


def chosen(condition, first, second, names) -> dict:
    """Chooses between the fields of two states for each walker.

    Args:
        condition: For each walker, whether the first state counts, bool, shape (walkers,).
        first: A NamedTuple whose fields have shape (walkers,) or (walkers, n).
        second: The state of the other walkers, with the same fields.
        names: Names of the fields.

    Returns:
        The fields by name.
    """
    ours = fields_of(first, names)
    others = fields_of(second, names)
    column = condition[:, None]
    return {
        name: where(column if len(x.shape) == 2 else condition, x, others[name])
        for name, x in ours.items()
    }


class State(NamedTuple):
    """The minimal state that a sampler carries from step to step. A sampler that adapts its
    temperature or step size has them as fields of these names, `(walkers,)`, float64: in run.csv
    they stand in place of the rung's.

    Attributes:
        position: θ, `(walkers, parameters)`.
        gradient: ∇U where it was evaluated last, `(walkers, parameters)`.
        potential: The potential U = λ L + V, `(walkers,)`, float64.
        loss: The mean loss over the examples, `(walkers,)`, float64.
        log_prior: -V, the log density of the prior, `(walkers,)`, float64.
        rung: The temperature and step size of each walker.
    """

    position: Any
    gradient: Any
    potential: Any
    loss: Any
    log_prior: Any
    rung: Rung


class Info(NamedTuple):
    """The second result of a step; methods without a Metropolis test return the default.

    Attributes:
        acceptance: Acceptance probabilities min(1, exp(-β ΔH)), `(walkers,)`, or None.
        energy_change: ΔH of the proposals, `(walkers,)`, or None.
    """

    acceptance: Any = None
    energy_change: Any = None


@runtime_checkable
class Noise(Protocol):
    """This step's random numbers. Draw outside of loops, and ask for `(walkers, ...)` or `()`
    shapes.
    """

    def normal(self, shape):
        """Standard normal numbers in the type of the parameters."""

    def uniform(self, shape):
        """Uniform numbers in (0, 1), float64."""


def sums_at_rung(rung: Rung, values):
    """Sums over all walkers of the same rung, see `same_rung`.

    Args:
        rung: The rung of each walker.
        values: Summands, float64, shape (walkers, n).

    Returns:
        The sum over its rung for each walker, shape (walkers, n).
    """
    return same_rung(rung) @ values


def same_rung(rung: Rung):
    """1 for each two walkers of the same temperature, likelihood weight and step size, else 0:
    `(walkers, walkers)`.
    """
    same = 1.0
    for column in rung:
        same = same * as_float64(column[:, None] == column[None, :])
    return same
