"""What only some methods have, each an object with a few answers: turns, a ladder of temperatures,
and what the burn-in does between compiled steps; and what every method says of its step.

A method has a facet or `None`. Whoever asks takes `turns_of`, `tuning_of` and `temperatures_of`, which
give the answers of a method without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tati_re.core.protocol import Evaluate, Noise


class Faceted(Protocol):
    """What is asked for its facets: a `Method`, which is made of them."""

    @property
    def turns(self) -> Turns | None: ...

    @property
    def burnin(self) -> BurninTuning | None: ...

    @property
    def ladder(self) -> Temperatures | None: ...

    def step(self, state: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """One step."""


@dataclass(frozen=True)
class Dynamics:
    """What a step of a method is, for whoever chooses its size or puts it into other coordinates.

    Attributes:
        timed: The step size is a time; else it multiplies the gradient. Default: None, where there
            are momenta.
        isokinetic: Its momenta have the fixed length sqrt(P T), for which it takes 2 parameters, a
            temperature above 0, and gradients of all data. Default: no.
        first_order: It has an error of order h times its friction, which no energy error tells.
            Default: no.
        meters: `Info.energy_change` of a step is its energy error ΔE, `(walkers,)`, in the units of
            U and nan where it is not known, though there is no Metropolis test. Default: no.
        undoes: A step may go back to where it began, with the gradient there. Default: no.
        mixes_parameters: A step moves parameters along full matrices: walls cannot reflect them
            singly. Default: no.
        acceptance: Acceptance at which its steps pay most, where it has a Metropolis test. Default:
            0.8, of HMC.
        needs_heat: At temperature 0 it does not move, or divides by it. Default: no.
        removed_noise: Variance of the gradient's noise that was given as a number, and whose heat
            the steps take out. Default: 0.
        own_speeds: Each parameter has a speed of its own, so that the largest curvature of U sets
            no limit to the step. Default: no.
        finds_length: The burn-in finds its friction or the length of its trajectories, which are
            fields of the state then. Default: no.
        if_unstable: A clause on why a step below the limit of stability may diverge, and what to
            do. Default: empty.
        note: A sentence that a run says at its start. Default: empty.
    """

    timed: bool | None = None
    isokinetic: bool = False
    first_order: bool = False
    meters: bool = False
    undoes: bool = False
    mixes_parameters: bool = False
    acceptance: float = 0.8
    needs_heat: bool = False
    removed_noise: float = 0.0
    own_speeds: bool = False
    finds_length: bool = False
    if_unstable: str = ""
    note: str = ""


class Turns:
    """Groups of neighboring walkers that move in turn, one while the others rest.

    A turn is up to `steps` steps of one group, `evaluate.clock.group`. A row that is recorded, or
    the end of a chunk, cuts a turn, and the next `begin` goes on with it. As it stands each step is
    a turn of its own.

    Args:
        method: The method whose step a move is.
        groups: How many groups there are. Default: 1.
        steps: How many steps one group makes before the next one does. Default: 1.
    """

    def __init__(self, method: Faceted, groups: int = 1, steps: int = 1) -> None:
        self.method = method
        self.groups = groups
        self.steps = steps

    def begin(self, state: Any, evaluate: Evaluate) -> Any:
        """The part of the state that the steps of one turn change."""
        return state

    def move(self, turn: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """One step of what `begin` gave, and its `Info`."""
        return self.method.step(turn, evaluate, noise)

    def end(self, state: Any, turn: Any, evaluate: Evaluate) -> Any:
        """The state of all walkers after a turn that began at `state`."""
        return turn


class BurninTuning:
    """What a method does in the burn-in between two compiled chunks, and what it has found there.

    Attributes:
        renewals: Steps before the last one of the burn-in after which `renewed` is asked, for what
            is no work of a compiled step (matrix decompositions). Default: none.
        finds_end: The burn-in ends where `end` says, at its number of steps at the latest. Default:
            no.
    """

    renewals: tuple[int, ...] = ()
    finds_end: bool = False

    def renewed(self, state: Any) -> Any:
        """The state after one of the steps `renewals`, from plain numbers."""
        return state

    def end(self, state: Any) -> int | None:
        """The last step of the burn-in, once the method has found it."""
        return None

    def shortened(self, state: Any, step: int) -> Any:
        """The state with a step whose bias is as wanted, where what was measured is above.

        All steps up to this one are burn-in then, and it ends here. Asked between two chunks, where
        the method `finds_end`.
        """
        return state

    def tuned(self, state: Any) -> str:
        """A line on what the burn-in has tuned, once it is over."""
        return ""

    def step_settled(self, state: Any, acceptance: Any, weights: Any) -> bool:
        """Whether the step size has settled.

        Args:
            state: The state at the end of a window of the burn-in.
            acceptance: Acceptance of its steps by rung, `(rungs, walkers of each, steps)`.
            weights: Likelihood weights of the walkers, `(walkers,)`.
        """
        return True


class BurninAround(BurninTuning):
    """The burn-in of a wrapper: that of the method inside, of which it overrides what differs.

    Args:
        inner: The burn-in of the method inside.
    """

    def __init__(self, inner: BurninTuning) -> None:
        self.inner = inner
        self.renewals = inner.renewals
        self.finds_end = inner.finds_end

    def renewed(self, state: Any) -> Any:
        return self.inner.renewed(state)

    def end(self, state: Any) -> int | None:
        return self.inner.end(state)

    def shortened(self, state: Any, step: int) -> Any:
        return self.inner.shortened(state, step)

    def tuned(self, state: Any) -> str:
        return self.inner.tuned(state)

    def step_settled(self, state: Any, acceptance: Any, weights: Any) -> bool:
        return self.inner.step_settled(state, acceptance, weights)


class Temperatures:
    """What a method with several temperatures, or with a bias on the energies, answers.

    Attributes:
        rungs: Columns β, λ and step size of the copies' rungs, the target first, in place of the
            options'. Default: None, all walkers are at those of the run.
        copies: Replicas of each walker that a run asks for, one at each rung. Default: 1.
        by_rung: Rows are written temperature by temperature, in the order that `order` gives.
            Default: no.
        visited: Rungs that each walker visits by itself, of which one counts. Default: 1.
        event_columns: Columns of the rows of exchange.csv, which `events` gives. Default: none.
        event_every: Steps between two such rows; 0: there are none. Default: 0.
        reevaluates: After a swap, potential and loss belong to the position although the method is
            not `current`. Default: no.
        bias: The bias on the energies, where there is one. Default: none.
        exact_energies: Energies are those of all data, beside gradients of mini-batches. Default:
            no.
        swap_bias: A sentence that names the bias of the swaps, where there is one. Default: none.
        divides: Workers may hold the replicas apart from each other, and their swaps are decided
            where all of them are known. Default: no.
        stretch: Steps after which replicas held apart are told where they are; 0: never. Default:
            None, they are not apart.
        at_target: Replicas at the target, those of other processes included, where they are apart.
        in_all: Replicas at all rungs, those of other processes included, where they are apart.
    """

    rungs: Any = None
    copies: int = 1
    by_rung: bool = False
    visited: int = 1
    event_columns: tuple[str, ...] = ()
    event_every: int = 0
    reevaluates: bool = False
    bias: Any = None
    exact_energies: bool = False
    swap_bias: str | None = None
    divides: bool = False
    stretch: int | None = None
    at_target: int = 0
    in_all: int = 0

    def order(self, state: Any) -> Any:
        """The walkers in the order of the rows, `(walkers,)`, int32; used if `by_rung`."""
        raise NotImplementedError("These walkers keep their order.")

    def events(self, state: Any) -> Any:
        """The last rows of `event_columns`, `(rows, columns)`; asked every `event_every` steps."""
        raise NotImplementedError("This ladder has no events.")

    def tables(self, state: Any) -> dict[str, dict[str, Any]]:
        """Small tables of the current state, "ladder" and "bias", columns by name; rewritten at
        each checkpoint.
        """
        return {}

    def bound(self, state: Any, evaluate: Evaluate) -> Any:
        """The potential at the walkers' own rungs, for what is evaluated for a row."""
        return evaluate

    def asks_examples(self, exact: bool) -> bool:
        """Whether swaps ask for the losses of single examples.

        Args:
            exact: Steps see all examples.
        """
        return False

    def used_options(self) -> set[str]:
        """The options of ladders, swaps and replicas that this ladder uses."""
        return set()


def turns_of(method: Faceted) -> Turns:
    """The turns of a method; one group of all walkers where it has none."""
    return Turns(method) if method.turns is None else method.turns


def tuning_of(method: Faceted) -> BurninTuning:
    """What a method does in the burn-in; nothing where it has no such facet."""
    return BurninTuning() if method.burnin is None else method.burnin


def temperatures_of(method: Faceted) -> Temperatures:
    """The temperatures of a method; those of the run where it has no ladder."""
    return Temperatures() if method.ladder is None else method.ladder
