"""The evaluations of the potential available to a step, and the base of objects that delegate
them.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from operator import methodcaller
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

from tati_re.core.front_door import front_door, front_doors
from tati_re.core.ops import rows


class Rung(NamedTuple):
    """The rung of each walker in the temperature ladder: float64 arrays of shape `(walkers,)`.

    Attributes:
        inverse_temperature: β of the target exp(-β U).
        likelihood_weight: λ in U = λ L + V; 1 except for likelihood tempering.
        step_size: h.
    """

    inverse_temperature: Any
    likelihood_weight: Any
    step_size: Any

    @property
    def temperature(self):
        """T = 1/β."""
        return 1.0 / self.inverse_temperature

    def part(self, first, count: int) -> Rung:
        """Returns the rungs of some consecutive walkers.

        Args:
            first: Index of the first walker.
            count: Number of walkers.

        Returns:
            Their rungs.
        """
        return Rung(*(rows(values, first, count) for values in self))


class Clock(NamedTuple):
    """The number of a step, from 1 (0 in `init`), int64; whether it belongs to the burn-in, in
    which what adapts may change, bool; and which group of walkers moves, for methods that move one
    at a time, int32.
    """

    step: Any
    adapting: Any
    group: Any


class Energy(NamedTuple):
    """The potential, its gradient and its parts at some positions.

    Attributes:
        potential: The potential U = λ L + V, `(walkers,)`, float64.
        gradient: ∇U, `(walkers, parameters)`.
        loss: The mean loss over the examples, `(walkers,)`, float64.
        log_prior: -V, the log density of the prior, `(walkers,)`, float64.
    """

    potential: Any
    gradient: Any
    loss: Any
    log_prior: Any


@runtime_checkable
class Evaluate(Protocol):
    """Evaluations of the potential available to a step, on its mini-batch and at the walkers'
    rungs.

    A subclass inherits the methods implemented here and must implement the others. A class that
    changes only a few methods of another evaluation derives from `Delegating`.

    Attributes:
        rung: Temperature, likelihood weight and step size of each walker.
        scale: Factor of the mean loss in L: N, or 1 under the mean-loss convention.
        clock: The number of this step, and whether it belongs to the burn-in.
        num_examples: N.
        exact: Whether the batch of this step is all data.
        counting: Whether each call also computes the accuracy, if possible.
        known_accuracy: The last evaluated position, and the accuracy there or None.
    """

    rung: Rung
    scale: float
    clock: Clock
    num_examples: int
    exact: bool
    counting: bool = False
    known_accuracy: tuple = (None, None)

    @property
    def auxiliary(self) -> tuple:
        """Returns Keras' non-trainable variables after the last forward pass, `(walkers, *shape)`
        each.
        """
        return ()

    @abstractmethod
    def __call__(self, position) -> Energy:
        """U and its gradient on this step's mini-batch."""

    @abstractmethod
    def full(self, position) -> Energy:
        """Computes U and its gradient on all data, summed in float64.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            U of each walker, shape (walkers,), and its gradient in the shape of `position`.
        """

    @abstractmethod
    def validation(self, position):
        """Computes the mean loss on the test set.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            One number per walker, shape (walkers,), float64.

        Raises:
            InputError: There is no test set.
        """

    @abstractmethod
    def gradient_variance(self, position):
        """Computes the variance of each entry of this mini-batch's estimate of ∇U.

        It is estimated from the gradients of the examples in the batch, and is zero for all data.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            Variances, in the shape of `position`.
        """

    def with_variance(self, position) -> tuple[Energy, Any]:
        """Computes U, its gradient on this mini-batch and the gradient's variance, if possible in one pass.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            U with its gradient, and the variances in the shape of `position`.
        """
        return self(position), self.gradient_variance(position)

    @abstractmethod
    def mean_loss(self, position):
        """Computes the mean loss over all data.

        It has no gradient and a third of the cost of `full`.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            One number per walker, shape (walkers,), float64.
        """

    @abstractmethod
    def examples(self, position, indices):
        """Returns losses `(walkers, n)`, float64, of some examples.

        Args:
            position: Positions, `(walkers, parameters)`.
            indices: Indices of examples, `(n,)` for all walkers, or `(walkers, n)` for each walker.
        """

    @abstractmethod
    def log_prior(self, position):
        """Computes the log prior density, -V.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            One number per walker, shape (walkers,), float64.
        """

    @abstractmethod
    def drawn_from_prior(self, normal):
        """Maps standard normal numbers to draws from the prior.

        Args:
            normal: Standard normal numbers, shape (walkers, parameters).

        Returns:
            Draws, in the same shape.
        """

    def at(self, rung: Rung) -> Self:
        """Returns the same potential on the same mini-batch with the walkers on other rungs.

        Args:
            rung: Temperature and step size of each walker.

        Returns:
            A copy at these rungs.
        """
        other = copy.copy(self)
        other.rung = rung
        return other

    @front_door
    def part(self, first, count: int) -> Self:
        """Returns the same evaluation for some consecutive walkers.

        Args:
            first: Index of the first walker; it may be a tensor known only during the step.
            count: Number of walkers.

        Returns:
            A copy for these walkers.
        """
        return self.at(self.rung.part(first, count))

    def confine(self, position, momentum):
        """Reflects positions outside the support of the prior. Default: no walls.

        Args:
            position: Positions, shape (walkers, parameters).
            momentum: Momenta in the same shape, or None.

        Returns:
            Position and momentum inside the support; a momentum of None stays None.
        """
        return position, momentum

    def accuracy_at(self, position):
        """Returns the accuracy from the last call if it was at this position.

        Args:
            position: The very tensor of the last call.

        Returns:
            The accuracy, shape (walkers,), or None.
        """
        return self.known_accuracy[1] if self.known_accuracy[0] is position else None

    def metric(self, position):
        """Computes the accuracy on this mini-batch.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            One number per walker, shape (walkers,), float64; None if the labels are not classes.
        """
        return None


def _asked(name: str) -> Any:
    return lambda self, *arguments: methodcaller(name, *arguments)(self.evaluate)


@front_doors
class Delegating(Evaluate):
    """An evaluation that delegates to another one; subclasses override what they change.

    `with_variance` combines its two parts, so overriding one of them has an effect.

    Args:
        evaluate: The evaluation.
    """

    def __init__(self, evaluate: Evaluate) -> None:
        self.evaluate = evaluate
        self.rung = evaluate.rung
        self.scale = evaluate.scale
        self.clock = evaluate.clock
        self.num_examples = evaluate.num_examples
        self.exact = evaluate.exact

    @property
    def auxiliary(self) -> tuple:
        return self.evaluate.auxiliary

    def around(self, evaluate: Evaluate) -> Self:
        """Returns the same modification of another evaluation.

        Args:
            evaluate: The evaluation to modify.

        Returns:
            The modified evaluation.
        """
        other = copy.copy(self)
        Delegating.__init__(other, evaluate)
        return other

    __call__ = _asked("__call__")
    full = _asked("full")
    validation = _asked("validation")
    gradient_variance = _asked("gradient_variance")
    mean_loss = _asked("mean_loss")
    examples = _asked("examples")
    log_prior = _asked("log_prior")
    drawn_from_prior = _asked("drawn_from_prior")

    def at(self, rung: Rung) -> Self:
        return self.around(self.evaluate.at(rung))

    def part(self, first, count: int) -> Self:
        return self.around(self.evaluate.part(first, count))

    confine = _asked("confine")
    metric = _asked("metric")
