"""Protocols of potentials, priors, mini-batches and recorders."""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError
from tati_re.core.evaluate import Clock, Evaluate, Rung
from tati_re.core.front_door import front_doors
from tati_re.core.user_input import seeded


@front_doors
@runtime_checkable
class Prior(Protocol):
    """A prior of the parameters; positions have shape `(walkers, parameters)`.

    A subclass implements `proper`, `log_prob` and `gradient`. The defaults of the rest describe a
    prior without walls, for any number of parameters, which cannot be sampled.

    Attributes:
        proper: Whether the prior can be normalized, so that it confines U in every direction.
        walled: Whether it has hard walls, at which `confine` reflects. Default: False.
        num_parameters: Number of parameters it supports. Default: `None`, any number.
        unconfined: Names of the tensors that it leaves free. Default: `None`, all or none of them,
            according to `proper`.
        hottest: The lowest temperature T at which exp(-V/T) cannot be normalized. Default: inf.
    """

    proper: bool
    walled: bool = False
    num_parameters: int | None = None
    unconfined: Sequence[str] | None = None
    hottest: float = math.inf

    @abstractmethod
    def log_prob(self, position) -> tf.Tensor:
        """Computes the log prior density, including its normalization.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            One number per walker, shape (walkers,), float64; -inf outside the support.
        """

    @abstractmethod
    def gradient(self, position) -> tf.Tensor | None:
        """Computes ∇V = -∇ log prior where it is finite.

        Args:
            position: Positions, shape (walkers, parameters).

        Returns:
            The gradient, in the shape of `position`; None if it vanishes everywhere.
        """

    def confine(self, position, momentum):
        """Reflects walkers at the walls of the support. Default: no walls.

        Args:
            position: Positions, shape (walkers, parameters).
            momentum: Momenta in the same shape, or None.

        Returns:
            Position and momentum inside the support; a momentum of None stays None.
        """
        return position, momentum

    def sample(self, shape: tuple[int, int], seed: int) -> np.ndarray:
        """Draws independent positions from the prior.

        Args:
            shape: Numbers of walkers and parameters.
            seed: Seed of the random numbers.

        Returns:
            A NumPy array, shape (walkers, parameters).

        Raises:
            InputError: The prior cannot be drawn from.
        """
        return self.from_normal(tf.constant(seeded(seed, 0x5052).standard_normal(shape))).numpy()

    def from_normal(self, normal) -> tf.Tensor:
        """Maps standard normal numbers to draws from the prior.

        Args:
            normal: Standard normal numbers, shape (walkers, parameters).

        Returns:
            Draws, in the same shape.

        Raises:
            InputError: The prior cannot be drawn from.
        """
        raise InputError(
            "prior: draws from this prior are not possible.",
            str(self),
            "a prior that has from_normal",
        )

    def get_config(self) -> dict:
        """Returns the prior's entry in the manifest."""
        return {"prior": type(self).__name__}

    def __str__(self) -> str:
        return type(self).__name__


class Batching(Protocol):
    """The examples of each step. With `full` every batch is the whole data set, so that nothing is
    gathered and `indices` is not asked; with `shared` all walkers see the same examples. `sampling`
    is "epochs", "symmetric" or "replacement"; `mean_size` is what a sum over a batch is divided by
    for its mean, None: the own size.
    """

    full: bool
    shared: bool
    batch_size: int
    sampling: str
    mean_size: float | None

    def indices(self, first_step: int, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Draws the examples of consecutive steps.

        Args:
            first_step: Number of the first step, from 0.
            num_steps: Number of steps.

        Returns:
            Indices of the examples, shape (steps, walkers, batch_size), with one row for all
            walkers if `shared`; and how many of each step are valid, shape (steps,).
        """

    def from_walker(self, first: int) -> Any:
        """Those of as many walkers of the run, from another one on."""


class AllExamples:
    """The batches of a potential without examples, or one that always uses all of them."""

    full = True
    shared = True
    batch_size = 1
    sampling = "epochs"
    mean_size: float | None = None

    def indices(self, first_step: int, num_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """No examples for any step; see `Batching.indices`.

        Args:
            first_step: Number of the first step; it makes no difference.
            num_steps: Number of steps.

        Returns:
            An empty array of shape (steps, 1, 0), and zeros of shape (steps,), both int32.
        """
        return np.zeros((num_steps, 1, 0), np.int32), np.zeros(num_steps, np.int32)

    def from_walker(self, first: int) -> Any:
        return self


class Batch(NamedTuple):
    """The examples of one step.

    Attributes:
        indices: Indices of the examples, `(walkers, n)`, or `(1, n)` if all walkers share them,
            int32.
        size: Number of the n examples that count, int32; a short last batch is padded.
    """

    indices: Any
    size: Any


@runtime_checkable
class Potential(Protocol):
    """The potential U = λ L + V of all walkers at once. Subclasses inherit the default values.

    Attributes:
        num_parameters: P.
        prior: The prior, with -log density V.
        dtype: Number type of the parameters.
        num_examples: N. Default: 1.
        num_walkers: W, the walkers at all temperatures. Default: 1.
        scale: L divided by the mean loss: N, or 1 under the mean-loss convention. Default: 1.
        batches: The choice of examples for each step. Default: all examples.
        auxiliary: Initial values of Keras' non-trainable variables, `(walkers, *shape)` each.
            Default: none.
        metric_name: "accuracy" for classifiers. Default: `None`.
        walker_evaluation: How all walkers are evaluated. Default: vectorized.
        vanishing: Whether λ may be 0, which removes L even if it is infinite. Default: False.
        columns: Columns of run.csv that belong to the potential: functions of positions `(walkers,
            parameters)`. Default: none.
    """

    num_parameters: int
    dtype: tf.DType
    prior: Prior
    num_examples: int = 1
    num_walkers: int = 1
    scale: float = 1.0
    batches: Batching = AllExamples()
    auxiliary: tuple = ()
    metric_name: str | None = None
    walker_evaluation: str = "vectorized"
    vanishing: bool = False

    @property
    def confined(self) -> bool:
        """Whether exp(-U) can be normalized."""
        return self.prior.proper

    @property
    def columns(self) -> Mapping[str, Callable]:
        """Functions of the position that are columns of run.csv, by name. Default: none."""
        return {}

    @abstractmethod
    def bind(
        self,
        rung: Rung,
        batch: Batch | None = None,
        auxiliary: tuple = (),
        clock: Clock | None = None,
    ) -> Evaluate:
        """Prepares the potential for one step.

        Args:
            rung: Temperature and step size of each walker.
            batch: The examples of the step. Default: None, all data.
            auxiliary: Keras' non-trainable variables, shape (walkers, ...) each. Default: none.
            clock: The number of the step, for potentials that depend on it. Default: None.

        Returns:
            A callable that computes U and its gradient for this step.
        """

    @abstractmethod
    def describe(self, batch: str | None = None) -> str:
        """Describes U at the start of a run.

        Args:
            batch: The examples of a step in words, if they change from step to step. Default: None.

        Returns:
            One sentence or formula.
        """

    def notices(self) -> list[str]:
        """Returns sentences that a user should read before the run."""
        return []


class Recorder(Protocol):
    """A callback after each flush of a run, with its folder and the last step on disk."""

    def __call__(self, folder: Path, step: int) -> None: ...
