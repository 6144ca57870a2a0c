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


@runtime_checkable
class Prior(Protocol):
    """A prior of the parameters; positions have shape `(walkers, parameters)`. A class that derives
    from it gives `proper`, `log_prob` and `gradient`, and has defaults for the rest: a prior
    without walls, for any number of parameters, from which nothing can be drawn.

    Attributes:
        proper: The prior can be normalized, so that it confines U in every direction.
        walled: It has hard walls, at which `confine` reflects. Default: False.
        num_parameters: How many parameters it is made for. Default: `None`, any number.
        unconfined: Names of the tensors that it leaves free. Default: `None`, all of them or none,
            as `proper` says.
        hottest: The temperature T from which on exp(-V/T) cannot be normalized. Default: inf.
    """

    proper: bool
    walled: bool = False
    num_parameters: int | None = None
    unconfined: Sequence[str] | None = None
    hottest: float = math.inf

    @abstractmethod
    def log_prob(self, position) -> tf.Tensor:
        """log prior density, `(walkers,)`, float64, normalization included."""

    @abstractmethod
    def gradient(self, position) -> tf.Tensor | None:
        """∇V = -∇ log prior where it is finite, `(walkers, parameters)`; `None` where it vanishes
        everywhere.
        """

    def confine(self, position, momentum):
        """Reflects position and momentum (or `None`) at the walls."""
        return position, momentum

    def sample(self, shape: tuple[int, int], seed: int) -> np.ndarray:
        """Independent draws from the prior, numpy, `(walkers, parameters)`."""
        return self.from_normal(
            tf.constant(np.random.default_rng([seed, 0x5052]).standard_normal(shape))
        ).numpy()

    def from_normal(self, normal) -> tf.Tensor:
        """Draws from the prior, from standard normal numbers of the same shape."""
        raise InputError(
            "prior: draws from this prior are not possible.",
            str(self),
            "a prior that has from_normal",
        )

    def get_config(self) -> dict:
        """The prior's entry in the manifest."""
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
        """Examples of each step, `(steps, walkers, batch_size)`, and how many of them are valid,
        `(steps,)`.
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
        return np.zeros((num_steps, 1, 0), np.int32), np.zeros(num_steps, np.int32)

    def from_walker(self, first: int) -> Any:
        return self


class Batch(NamedTuple):
    """The examples of one step.

    Attributes:
        indices: Their places, `(walkers, n)`, or `(1, n)` if all walkers share them, int32.
        size: How many of the n count, int32: a short last batch is padded.
    """

    indices: Any
    size: Any


@runtime_checkable
class Potential(Protocol):
    """The potential U = λ L + V of all walkers at once. Subclasses inherit the values given here.

    Attributes:
        num_parameters, prior, dtype: P, V, and the type of the parameters.
        num_examples, num_walkers: N, and W of walkers at all temperatures. Default: 1.
        scale: L over the mean loss: N, or 1 under the mean-loss convention. Default: 1.
        batches: Which examples a step sees. Default: all.
        auxiliary: Start values of Keras' non-trainable variables, `(walkers, *shape)` each.
            Default: none.
        metric_name: "accuracy" for classifiers. Default: `None`.
        walker_evaluation: How all walkers are computed. Default: vectorized.
        vanishing: λ may be 0, where L does not count even if it is infinite. Default: False.
        columns: Columns of run.csv that belong to it: functions of positions `(walkers,
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
        return {}

    @abstractmethod
    def bind(
        self,
        rung: Rung,
        batch: Batch | None = None,
        auxiliary: tuple = (),
        clock: Clock | None = None,
    ) -> Evaluate:
        """The potential as a step sees it; without a batch, all data."""

    @abstractmethod
    def describe(self, batch: str | None = None) -> str:
        """Describes U at the start of a run; `batch`: the examples of a step, if they change."""

    def notices(self) -> list[str]:
        """Sentences that a user should read before the run."""
        return []


class Recorder(Protocol):
    """A callback after each flush of a run, with its folder and the last step on disk."""

    def __call__(self, folder: Path, step: int) -> None: ...
