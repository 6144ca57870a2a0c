"""What only some methods have, each an object with a few answers: turns, a ladder of temperatures,
and what the burn-in does between compiled steps; and what every method says of its step.

A method has a facet or `None`. Whoever asks takes `turns_of`, `tuning_of` and `temperatures_of`, which
give the answers of a method without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tati_re.core.front_door import front_doors
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
        """Makes one step, see `Method.step`.

        Args:
            state: The state before the step.
            evaluate: Computes U and its gradient on the mini-batch of the step.
            noise: Random numbers of this step.

        Returns:
            The state after the step, and its `Info`.
        """


@dataclass(frozen=True)
class Dynamics:
    """Properties of a method's step, for choosing its size and for changes of coordinates.

    Attributes:
        timed: Whether the step size is a time; otherwise it multiplies the gradient. Default: None,
            true for methods with momenta.
        isokinetic: Whether momenta have the fixed length sqrt(P T). This requires 2 parameters, a
            temperature above 0, and gradients of all data. Default: False.
        first_order: Whether the method has an error of order h times its friction that energy
            errors do not show. Default: False.
        meters: Whether `Info.energy_change` of a step is its energy error ΔE although there is no
            Metropolis test; `(walkers,)`, in the units of U, and nan if unknown. Default: False.
        undoes: Whether a step may return to its starting point, with the gradient there. Default:
            False.
        mixes_parameters: Whether a step moves parameters along full matrices, so walls cannot
            reflect them one by one. Default: False.
        acceptance: The most efficient acceptance of a method with a Metropolis test. Default: 0.8,
            for HMC.
        needs_heat: Whether the method does not move, or divides by zero, at temperature 0. Default:
            False.
        removed_noise: Known variance of the gradient noise whose heat the steps remove. Default: 0.
        own_speeds: Whether each parameter has its own speed, so the largest curvature of U does not
            limit the step. Default: False.
        finds_length: Whether the burn-in tunes the friction or the trajectory length, which are
            then fields of the state. Default: False.
        if_unstable: A clause that says why a step below the stability limit may diverge, and what
            to do. Default: empty.
        note: A sentence that a run prints at its start. Default: empty.
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


@front_doors
class Turns:
    """Groups of neighboring walkers that move in turn while the other groups rest.

    A turn is up to `steps` steps of one group, `evaluate.clock.group`. A recorded row or the end of
    a chunk interrupts a turn, and the next `begin` continues it. In this base class each step is a
    separate turn.

    Args:
        method: The method whose step is one move.
        groups: Number of groups. Default: 1.
        steps: Number of steps of one group before the next group moves. Default: 1.
    """

    def __init__(self, method: Faceted, groups: int = 1, steps: int = 1) -> None:
        self.method = method
        self.groups = groups
        self.steps = steps

    def begin(self, state: Any, evaluate: Evaluate) -> Any:
        """Selects the part of the state that the steps of one turn change.

        Args:
            state: The state of all walkers.
            evaluate: Computes U and its gradient.

        Returns:
            The state of the turn, the argument of `move`.
        """
        return state

    def move(self, turn: Any, evaluate: Evaluate, noise: Noise) -> Any:
        """Makes one step of a turn.

        Args:
            turn: The result of `begin` or of the last `move`.
            evaluate: Computes U and its gradient on the mini-batch of the step.
            noise: Random numbers of this step.

        Returns:
            The state of the turn after the step, and its `Info`.
        """
        return self.method.step(turn, evaluate, noise)

    def end(self, state: Any, turn: Any, evaluate: Evaluate) -> Any:
        """Ends a turn.

        Args:
            state: The state of all walkers at the start of the turn.
            turn: The result of the last `move`.
            evaluate: Computes U and its gradient.

        Returns:
            The state of all walkers.
        """
        return turn


@front_doors
class BurninTuning:
    """Work of a method during the burn-in between two compiled chunks, and its results.

    Attributes:
        renewals: Steps before the end of the burn-in after which `renewed` is called, for work that
            does not belong in a compiled step (matrix decompositions). Default: none.
        finds_end: Whether `end` determines the end of the burn-in, at its number of steps at the
            latest. Default: False.
    """

    renewals: tuple[int, ...] = ()
    finds_end: bool = False

    def renewed(self, state: Any) -> Any:
        """Retunes the method after one of the steps `renewals`. Default: no change.

        Args:
            state: The state, as plain numbers.

        Returns:
            The state from which the next step starts.
        """
        return state

    def end(self, state: Any) -> int | None:
        """Returns the last step of the burn-in once the method has determined it.

        Args:
            state: The state after a step.

        Returns:
            The number of the step, or None if the burn-in continues.
        """
        return None

    def shortened(self, state: Any, step: int) -> Any:
        """Reduces a step size whose measured bias is too large.

        All steps so far then count as burn-in, which ends here. Called between two chunks if the method
        `finds_end`.

        Args:
            state: The state after a step.
            step: The number of that step.

        Returns:
            The state with the smaller step size.
        """
        return state

    def tuned(self, state: Any) -> str:
        """Summarizes what the burn-in has tuned, after its end.

        Args:
            state: The state at the end of the burn-in.

        Returns:
            One line; empty if nothing was tuned.
        """
        return ""

    def step_settled(self, state: Any, acceptance: Any, weights: Any) -> bool:
        """Returns whether the step size has settled.

        Args:
            state: The state at the end of a window of the burn-in.
            acceptance: Acceptance of its steps by rung, `(rungs, walkers of each, steps)`.
            weights: Likelihood weights of the walkers, `(walkers,)`.

        Returns:
            True if the step size may be frozen.
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


@front_doors
class Temperatures:
    """The interface of a method with several temperatures, or with a bias on the energies.

    Attributes:
        rungs: Columns β, λ and step size of the rungs, the target first, in place of the options.
            Default: None, all walkers are at the temperature of the run.
        copies: Replicas of each walker, one at each rung. Default: 1.
        by_rung: Whether rows are written by temperature, in the order of `order`. Default: False.
        visited: Number of rungs that each walker visits, of which one counts. Default: 1.
        event_columns: Columns of the rows of exchange.csv, from `events`. Default: none.
        event_every: Steps between two such rows; 0 for none. Default: 0.
        reevaluates: Whether potential and loss belong to the position after a swap although the
            method is not `current`. Default: False.
        bias: The bias on the energies, if there is one. Default: None.
        exact_energies: Whether energies use all data while gradients use mini-batches. Default:
            False.
        swap_bias: A sentence on the bias of the swaps, if there is one. Default: None.
        divides: Whether workers may hold different replicas, with central decisions on their swaps.
            Default: False.
        stretch: Steps after which replicas in different workers receive their rungs; 0: never.
            Default: None, all replicas are in one process.
        at_target: Number of replicas at the target in all processes.
        in_all: Number of replicas at all rungs in all processes.
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
        """Returns the walkers in the order of the rows; used if `by_rung`.

        Args:
            state: The state after a step.

        Returns:
            Indices of walkers, shape (walkers,), int32.
        """
        raise NotImplementedError("These walkers keep their order.")

    def events(self, state: Any) -> Any:
        """Returns the latest rows of `event_columns`; called every `event_every` steps.

        Args:
            state: The state after a step.

        Returns:
            The rows, shape (rows, columns).
        """
        raise NotImplementedError("This ladder has no events.")

    def tables(self, state: Any) -> dict[str, dict[str, Any]]:
        """Returns small tables of the current state, rewritten at each checkpoint. Default: none.

        Args:
            state: The state after a step.

        Returns:
            The columns by name of the tables "ladder" and "bias".
        """
        return {}

    def bound(self, state: Any, evaluate: Evaluate) -> Any:
        """Binds the potential to the current rungs of the walkers, to evaluate a row.

        Args:
            state: The state after a step.
            evaluate: Computes U and its gradient.

        Returns:
            The potential at these rungs.
        """
        return evaluate

    def asks_examples(self, exact: bool) -> bool:
        """Whether swaps ask for the losses of single examples.

        Args:
            exact: Steps see all examples.

        Returns:
            True if they do.
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
