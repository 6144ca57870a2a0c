"""The request of a launch: options and objects of one call, the system, and the resulting
method.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.facets import temperatures_of
from tati_re.core.method import Method
from tati_re.engine.limits import LIMITS, Limits
from tati_re.exchange.choosing import with_replicas
from tati_re.models.chain import chain_of
from tati_re.optimizers import make_optimizer
from tati_re.options.families import DEFAULT
from tati_re.options.make import Options, make_options
from tati_re.options.stages import planned
from tati_re.options.tati_names import capped
from tati_re.posterior.potential import ModelPotential
from tati_re.posterior.priors import Prior
from tati_re.runs.run import RunFiles
from tati_re.samplers import make_sampler, tuned
from tati_re.samplers.user_samplers import checked, made
from tati_re.system.saved_model import read_directions
from tati_re.system.system import System, check_memory
from tati_re.tuning.choosing import (
    latest_end,
    latest_end_on_batches,
    with_steps,
    with_tuner,
    wrapped,
)

_POSITIONS, _FEWEST, _POSITION_BYTES = 1_000, 64, 2**29
"""Stored positions of all walkers by `trajectory_every` auto, of a run and of a short one; float64
bytes at most.
"""
_OF_NAMED = 10
"""Steps between stored draws of named parameters, each of a sampler with a Metropolis test: the
effective draws of a run are among the stored ones.
"""
_OF_FITS = 100  # Steps between stored positions of a fit, and the most of a run with `until`.
BATCH_SIZE = 128
FEW_EXAMPLES, FULL_BATCH_BELOW = 5 * BATCH_SIZE, 5_000
"""Examples up to which every step sees all of them, whatever it costs, and below which it does
where that is cheap.
"""
MOST_WORK = 50_000_000
"""Work of all examples (`System.work`) that is cheap: a step of four walkers takes some 0.25 s
then, and 5,000 of them 20 minutes. LSTM(32) on 1,600 sequences of 50 steps has twice as much, and
drew nothing in a minute.
"""
MOST_PRODUCTS = 25_000_000
"""Examples times parameters up to which networks of dense layers see more examples as well: a step
of four walkers takes some 20 ms then, and one on mini-batches has to be a hundredth as long for
their noise to heat by 2 %. Of 40,000 examples and 502 parameters, 27,000 steps were nearer in seven
minutes than three million on mini-batches.
"""
MOST_PRODUCTS_OF_ONE_LAYER = 100_000_000
"""The same of a last layer on features: its posterior has one mode, which a few thousand exact steps
sample. Noise of mini-batches would take longer to average out.
"""
MOST_STEPS = 100_000
"""Steps of a run with `until` and no `num_steps`."""


@dataclass(frozen=True)
class Request:
    """The request of a launch: its kind is "sample" or "fit". `objects` are what was given as
    objects in Python: loss, prior, sampler, observables, callbacks, starts, ... `method` is the
    sampler with its wrappers, or the optimizer. Each walker of a run that may end early has stored
    the `fewest_positions` as soon as it took as many steps. `at_end` gives further entries of the
    manifest, of a run that has come to its last step.
    """

    options: Options
    objects: Mapping[str, Any]
    system: System
    kind: str
    method: Method
    limits: Limits = LIMITS
    fewest_positions: int = 0
    at_end: Callable[[RunFiles], dict[str, Any]] | None = None

    @property
    def samples(self) -> bool:
        """Whether this is a run of a sampler."""
        return self.kind == "sample"

    @property
    def record_every(self) -> int:
        """Steps between rows."""
        every = self.options.record_every
        if isinstance(every, int):
            return every
        return 1 if self.samples and self.method.metropolis else 10

    @property
    def trajectory_every(self) -> int:
        """Steps between stored positions."""
        requested = self.options.trajectory_every
        options = self.options
        if isinstance(requested, int):
            return requested
        if not self.samples:
            return _OF_FITS
        recorded, size = self.stored
        positions = (options.num_steps - (options.num_burnin_steps or 0)) * recorded
        # Those at other temperatures of simulated tempering have no weight.
        every = positions / _POSITIONS / temperatures_of(self.method).visited
        if options.until is not None:  # it may end long before num_steps
            every = min(every / 20, _OF_FITS)
            if self.system.flat.described().get("supports"):
                every = min(every, 1 if self.method.metropolis else _OF_NAMED)
        every = max(1, round(max(every, positions * size / _POSITION_BYTES)))
        power = 2 ** max(0, every.bit_length() - 3) if self.fewest_positions else 1
        return -(-every // power) * power

    @property
    def stored(self) -> tuple[int, int]:
        """Walkers with stored positions, and bytes of one in float64."""
        width = self.system.flat.num_parameters if self.directions is None else len(self.directions)
        return (
            self.options.num_walkers if self.options.trajectory_rungs == "target" else self.copies,
            8 * width,
        )

    @property
    def full_batch(self) -> bool:
        """Whether every step sees all examples."""
        return sees_all(self.options, self.system)

    @property
    def copies(self) -> int:
        """Walkers at all temperatures."""
        return temperatures_of(self.method).copies * self.options.num_walkers

    @cached_property
    def prior(self) -> Prior:
        """The prior of the parameters."""
        return self.system.prior(self.options, self.objects)

    @cached_property
    def potential(self) -> ModelPotential:
        """The potential; layers act as in training in a fit, and in sampling with `batch_norm`
        batch.
        """
        fits = not self.samples
        training = fits or self.options.batch_norm == "batch"
        potential = self.system.potential(self.options, self.objects, training, self.copies, fits)
        potential.vanishing = self.options.tempering == "likelihood"
        return potential

    @cached_property
    def directions(self) -> np.ndarray | None:
        """Row vectors on which positions are projected before they are stored; None: positions are
        stored.
        """
        flat = self.system.flat
        source = self.objects.get("directions", self.options.directions)
        return read_directions(source, flat.num_parameters, flat.parameter_names)


def is_cheap(system: System) -> bool:
    """Whether steps that see all of the data cost little."""
    most = MOST_PRODUCTS if system.flat.head is None else MOST_PRODUCTS_OF_ONE_LAYER
    system = system.sampled
    size = system.dataset.num_examples
    flat = system.flat
    if size <= FEW_EXAMPLES or (
        size * flat.num_parameters <= most and chain_of(flat.model) is not None
    ):
        return True
    return size < FULL_BATCH_BELOW and system.work <= MOST_WORK


def sees_all(options: Options, system: System) -> bool:
    """Whether the mini-batch of these options is all of the data.

    Args:
        options: The options of the run.
        system: The model and its data.
    """
    batch_is_all = (
        options.batch_size == system.dataset.num_examples
        and options.batch_sampling != "replacement"
    )
    return options.batch_size is None or batch_is_all


def make_request(
    kind: str, options: Options, objects: Mapping[str, Any], system: System, limits: Limits = LIMITS
) -> Request:
    """The request of a launch, with its method and the order of its mini-batches.

    Args:
        kind: "sample" or "fit".
        options: The options of the run.
        objects: Options that are Python objects, by name.
        system: The model and its data, or a potential.
        limits: Bounds on the chunks of steps, and the start of the time limit. Default: `LIMITS`.
    """
    return _Draft(kind, options, objects, system).request(limits)


@dataclass
class _Draft:
    """A launch before all of its options are settled."""

    kind: str
    options: Options
    objects: Mapping[str, Any]
    system: System

    def request(self, limits: Limits) -> Request:
        """The request, with nothing left open."""
        self.options = capped(self.options, self.system.dataset.num_examples)
        if self.options.sampler == "auto":
            self._settle(sampler=DEFAULT)
        method = self._sampler() if self.kind == "sample" else self._optimizer()
        if self.options.batch_sampling == "auto":
            subtracts = method.subtracts_noise and not sees_all(self.options, self.system)
            self._settle(batch_sampling="replacement" if subtracts else "epochs")
        request = Request(
            options=self.system.resolved(self.options),
            objects=self.objects,
            system=self.system,
            kind=self.kind,
            method=method,
            limits=limits,
        )
        explicit = self.options.explicit
        as_long = "num_steps" in explicit and self.options.max_time is None
        if not request.samples or "trajectory_every" in explicit or as_long:
            return request
        recorded, size = request.stored
        fewest = min(-(-_FEWEST // recorded), _POSITION_BYTES // (16 * recorded * size))
        return replace(request, fewest_positions=fewest)

    def _settle(self, **values: Any) -> None:
        self.options = self.options.resolved(**values)

    def _sampler(self) -> Method:
        """The sampler of a run on its ladder."""
        explicit = self.options.explicit
        if self.options.until is not None and "num_steps" not in explicit:
            self._settle(num_steps=MOST_STEPS)
        check_memory(
            self.options,
            self.system.flat.num_parameters,
            self.options.num_walkers * self.options.num_rungs,
        )
        finds_end = (
            "num_burnin_steps" not in explicit and "temperature_schedule" not in self.objects
        )
        fresh = self.options.num_burnin_steps is None
        if fresh:
            self._settle(num_burnin_steps=self._latest_end())
        sampler = sampler_of(self.options, self.objects, self.system, True)
        prior = self.system.prior(self.options, self.objects)
        moves = self.options.num_rungs > 1 and (
            self.options.adapt_ladder or self.options.exchange == "tempering"
        )
        learns = moves or self.options.bias != "none"  # what no tuner sees
        if fresh and not (sampler.adapts or learns):
            self._settle(num_burnin_steps=0)
        tuner = with_tuner(sampler, self.options, finds_end and not learns)
        regularized = self.system.flat.regularizer is not None
        return with_replicas(
            tuner, self.options, sees_all(self.options, self.system), prior, regularized
        )

    def _latest_end(self) -> int:
        """The last step of a burn-in that nobody gave."""
        options = self.options
        if options.goal != "predict" or sees_all(options, self.system):
            return latest_end(options.num_steps)
        size = options.batch_size or self.system.dataset.num_examples
        epoch = -(-self.system.dataset.num_examples // size)
        return latest_end_on_batches(options.num_steps, epoch)

    def _optimizer(self) -> Method:
        """The optimizer of a fit, at the rate of its first stage."""
        first = planned(self.options)[0].learning_rate
        options = self.options if first is None else make_options(self.options, learning_rate=first)
        return make_optimizer(
            self.objects.get("optimizer", self.options.optimizer), options, self.system.flat.shapes
        )


def inner_sampler(options: Options, objects: Mapping[str, Any]):
    """The sampler of the options or objects, without what a run wraps around it.

    Args:
        options: The options of the run.
        objects: Options that are Python objects, by name. The entry `sampler` may be a sampler or
            its class.
    """
    sampler = objects.get("sampler")
    if sampler is None:
        return make_sampler(options.sampler, options)
    return tuned(made(sampler, options) if isinstance(sampler, type) else checked(sampler), options)


def sampler_of(options: Options, objects: Mapping[str, Any], system: System, tunes: bool = False):
    """The sampler with mass, ensemble and control variate as the options ask.

    Args:
        options: The options of the run.
        objects: Options that are Python objects, by name.
        system: The model and its data, or a potential.
        tunes: Whether the sampler may find its step size in the burn-in. Default: False.
    """
    sampler = inner_sampler(options, objects)
    if tunes:
        number = system.flat.num_parameters
        sampler = with_steps(sampler, options, "step_schedule" in objects, number)
    sampler.check(options.first_step_size, options.kT, options.num_burnin_steps)
    return wrapped(
        sampler, options, system.flat.tensor_names, system.flat.shapes, objects.get("mass")
    )
