"""How the systems, potentials and fits of a run for prediction are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tati_re.launch.batch_members import WARM_UP, learning_rate_of
from tati_re.launch.candidates import Candidate, candidates_of
from tati_re.launch.mean_first import MEAN, predicts_spread, units_of, with_spread
from tati_re.launch.member_fits import (
    FEWEST_STEPS,
    MemberFits,
    held_out_rows,
    without_rows,
)
from tati_re.launch.request import BATCH_SIZE, is_cheap
from tati_re.launch.starts import fresh_starts
from tati_re.options.make import Options, make_options
from tati_re.posterior.noise_level import with_extra_starts
from tati_re.posterior.potential import ModelPotential
from tati_re.system.system import System
from tati_re.system.target import system_of
from tati_re.system.walkers import Walkers

ACTIVATION = "tanh"
FIT_BATCH_SIZE = 100
MEAN_STEPS = 960
"""Steps of the fits of a mean before its spread."""
MEAN_HELD_OUT = 0.1
"""Part of the rows that are not held out, on which the fits of a mean are stopped."""
SECONDS_OF_XLA = 8.0
"""Seconds of the fits of the members above which compiling them with XLA pays."""
_LEARNING_RATE = 0.01


class Predicted(Protocol):
    """What of a Simulation a run for prediction reads and changes."""

    options: Options
    objects: dict[str, Any]
    walkers: Walkers
    system: System

    def take(self, system: System) -> None: ...


class FitMaker:
    """Makes the systems and fits of the candidates and members of a run for prediction.

    Args:
        sim: The Simulation, whose data and model are the default ones.
        options: The options of the call.
        objects: What was given as objects in Python.
    """

    def __init__(self, sim: Predicted, options: Options, objects: Mapping[str, Any]) -> None:
        self._sim = sim
        self._options = options
        self._objects = objects

    def sees_all_rows(self) -> bool:
        """Whether each step of a chain is to see all rows, as far as the options tell."""
        return self._options.batch_size is None and self._is_cheap

    @cached_property
    def _is_cheap(self) -> bool:
        """Whether steps that see all rows are cheap, of the smallest network that is compared."""
        system = self._sim.system
        compared = candidates_of(self._options, self._objects, system.dataset)
        return is_cheap(self.system(self.options_with(compared[0])))

    def options_with(self, candidate: Candidate) -> Options:
        """The options of a run of a candidate."""
        values = candidate.options()
        if candidate.hidden is not None and "activation" not in self._options.explicit:
            values["activation"] = ACTIVATION
        return make_options(self._options, **values)

    def system(self, options: Options) -> System:
        """The system of a candidate, of the data that the Simulation has read."""
        data = replace(self._sim.system.dataset, preparation=None)
        return system_of(options, {**self._objects_beside(options), "data": data})

    def _objects_beside(self, options: Options) -> dict[str, Any]:
        """The objects of the call; a loss that the options name takes the place of one of them."""
        replaced = {"loss"} if "loss" in options.explicit else set()
        return {name: value for name, value in self._objects.items() if name not in replaced}

    @staticmethod
    def held_out_system(system: System, held_out: np.ndarray) -> System:
        """The system whose test set are the held-out rows, in the units of all rows.

        The outputs of a network mean the same here as in the run, which also has the same noise
        prior. For standardized targets this prior is the same for all data, seeds and folds, so
        their fits share compiled programs.

        Args:
            system: The model and its data.
            held_out: Indices of the held-out rows in the training set, shape (rows,).
        """
        without_held_out = system.of(without_rows(system.dataset, held_out))
        return replace(without_held_out, units_from=system.examples)

    def fits(self, system: System, options: Options, members: int, xla: bool) -> MemberFits:
        """Fits of several members on mini-batches.

        Args:
            system: The model and its data, with the held-out rows as their test set.
            options: The options of the run.
            members: Number of members.
            xla: Whether XLA compiles the steps.
        """
        sees_all = self.sees_all_rows()
        size = FIT_BATCH_SIZE if sees_all else options.batch_size or BATCH_SIZE
        potential = self.on_batches(system, options, members, size, xla, training=True)
        if "learning_rate" in options.explicit:
            rate = options.learning_rate
        else:
            rate = _LEARNING_RATE if sees_all else learning_rate_of(system.flat.shapes)
        return MemberFits(system, potential, rate, xla, warm_up=0.0 if sees_all else WARM_UP)

    def on_batches(
        self,
        system: System,
        options: Options,
        members: int,
        size: int,
        xla: bool,
        training: bool = False,
        **values: Any,
    ) -> ModelPotential:
        """The potential of some members on mini-batches.

        Args:
            system: The model and its data.
            options: The options of the run.
            members: Number of members, each a walker.
            size: Examples of a mini-batch; at most all of the data are taken.
            xla: Whether XLA compiles the steps.
            training: Whether layers act as in training, for a fit. Default: False.
            **values: Further options to change.
        """
        size = min(size, system.dataset.num_examples)
        chosen = make_options(options, batch_size=size, **values).resolved(
            execution="xla" if xla else "graph", num_walkers=members
        )
        return system.potential(
            chosen,
            self._objects_beside(options),
            training=training,
            copies=members,
            fitting=training,
        )

    def has_xla(self, system: System, seconds: float) -> bool:
        """Whether compiling fits with XLA pays.

        Args:
            system: The model and its data.
            seconds: Time of the fits in seconds.
        """
        pays = seconds >= SECONDS_OF_XLA and system.execution(self._options) == "xla"
        return pays and system.flat.xla_safe

    @staticmethod
    def drawn(system: System, options: Options, members: int, before: int = 0) -> np.ndarray:
        """Draws new members.

        Args:
            system: The model and its data.
            options: The options of the run.
            members: Number of members.
            before: Number of members drawn before them. Default: 0.

        Returns:
            Their parameters, shape (members, parameters).
        """
        flat = system.flat
        drawn = fresh_starts(flat.tensor_names, flat.shapes, before + members, options.seed)
        return with_extra_starts(flat, drawn[before:].astype(flat.dtype))

    @staticmethod
    def num_steps(options: Options, most: int) -> int:
        """Steps of a fit.

        Args:
            options: The options of the run. If `fit_steps` is set, it counts.
            most: Number of steps otherwise.
        """
        if "fit_steps" in options.explicit:
            return max(FEWEST_STEPS, options.fit_steps)
        return most

    def start(
        self,
        system: System,
        options: Options,
        members: int,
        held_out: np.ndarray,
        deadline: float,
        before: int = 0,
    ) -> np.ndarray:
        """Draws new members; if they predict a spread, first fits their mean.

        Args:
            system: The model and its data.
            options: The options of the run.
            members: Number of members.
            held_out: Indices of the held-out rows in the training set, shape (rows,).
            deadline: When the fits of the mean end, by `time.monotonic()`.
            before: Number of members drawn before them. Default: 0.

        Returns:
            Their parameters, shape (members, parameters).
        """
        flat = system.flat
        start = self.drawn(system, options, members, before)
        after = system.potential(options, self._objects_beside(options), copies=members).loss
        if not (predicts_spread(after) and self._is_built(options)):
            return start
        plain = make_options(options, loss=MEAN)
        of_mean = self._inner_system(self.system(plain), held_out, options.seed)
        if not of_mean.flat.samples_noise:  # targets that do not vary
            return start
        fits = self.fits(of_mean, plain, members, xla=False)
        begun = self.start(of_mean, plain, members, held_out, deadline, before)
        fitted = fits.run(begun, MEAN_STEPS, deadline)
        network = with_spread(
            fitted.positions,
            flat.shapes[: len(flat.shapes) - flat.num_extra],
            units_of(of_mean, fits.loss),
            units_of(system, after),
            of_mean.flat.num_extra,
        )
        return np.concatenate([network, start[:, start.shape[1] - flat.num_extra :]], axis=1)

    @staticmethod
    def _inner_system(system: System, held_out: np.ndarray, seed: int) -> System:
        """The system without the held-out rows, of which further rows are the test set.

        Fits of a mean stop on these further rows: fits of mean and spread begin there, and a row
        that stopped their mean would score them too well.

        Args:
            system: The model and its data.
            held_out: Indices of the held-out rows in the training set, shape (rows,).
            seed: Which further rows are put aside, the same for the same seed.
        """
        trained = without_rows(system.dataset, held_out)
        stopping = held_out_rows(trained, MEAN_HELD_OUT, seed)
        return replace(system.of(without_rows(trained, stopping)), units_from=system.examples)

    def _is_built(self, options: Options) -> bool:
        """Whether the network is one of dense layers with biases, whose noise can be sampled."""
        has_model = options.model or "model" in self._objects
        noise = "noise_std" in options.explicit
        return bool(options.hidden) and options.use_bias and not (has_model or noise)

    def whole(self, system: System, options: Options, members: int) -> ModelPotential:
        """The potential of a few chains on all rows but the held-out ones.

        Args:
            system: The model and its data, with the held-out rows as their test set.
            options: The options of the run.
            members: Number of chains.
        """
        chosen = make_options(options, batch_size=None).resolved(
            execution="graph", num_walkers=members
        )
        return system.potential(chosen, self._objects_beside(options), copies=members)
