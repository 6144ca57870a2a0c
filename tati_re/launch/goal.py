"""The goal of a run of which neither the model nor the sampler is named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import Any

from tati_re.launch.candidates import refuse_unfit_goal
from tati_re.launch.member_fits import can_be_fitted
from tati_re.launch.request import is_cheap
from tati_re.options.make import Options, make_options, options_of
from tati_re.system.system import System

PREDICT = "predict"
POSTERIOR = "posterior"
MAX_TIME = 60.0
"""Seconds of a run for prediction whose length is not given."""

_OF_POSTERIOR = frozenset(
    {
        *options_of(("model", "posterior", "sampler", "replicas", "training")),
        *("parameters", "parameters_step", "walker_start", "walker_jitter"),
        *("walker_batches", "walker_evaluation", "batch_size", "batch_sampling"),
        *("num_burnin_steps", "require_certificate", "stream_predictions", "directions"),
        *("group_temperatures", "full_every", "call"),
    }
) - {"dtype"}
"""Options each of which names a part of one posterior, or of the chains that sample it."""
_KEPT_BY_PREDICTIONS = frozenset(
    {
        *options_of(("model",)),
        *("model", "loss", "prior", "prior_std", "prior_scale", "prior_degrees"),
        *("prior_bound", "prior_scaling", "noise_std", "noise_prior"),
        *("noise_prior_scale", "noise_prior_shape"),
    }
) - {"layers"}
"""Parts of a model that a run for prediction keeps as they are."""
_OBJECTS_OF_POSTERIOR = frozenset(
    {
        *("model", "loss", "prior", "potential", "sampler", "optimizer", "mass"),
        *("step_schedule", "temperature_schedule", "starts", "directions", "observables"),
    }
)


def with_goal(
    options: Options, objects: Mapping[str, Any], system: System, placed: bool
) -> Options:
    """The options of a run with its goal settled.

    The goal is "predict" if the user names no part of a model, a prior or a sampler, the walkers
    have not moved, and the data are in memory. Where the data are so many that steps see
    mini-batches, it is so for a named model as well: chains of its posterior do not
    converge within hours. A run for prediction without a length may take 60
    seconds.

    Args:
        options: The options of the call.
        objects: What was given as objects in Python.
        system: The model and its data.
        placed: Whether the walkers were placed, or have moved.

    Raises:
        InputError: A goal that the run cannot have.
    """
    if options.goal is None and _is_open(options, objects, system, placed):
        options = make_options(options, goal=PREDICT)
    refuse_unfit_goal(options, system.has_data)
    if options.goal == PREDICT and not options.explicit & {"max_time", "num_steps"}:
        return make_options(options, max_time=MAX_TIME)
    return options


def names_posterior(names: Iterable[str]) -> bool:
    """Whether some of these options name a part of one posterior, or how it is sampled.

    Args:
        names: Options, or objects given in Python, by name.
    """
    return not (_OF_POSTERIOR | _OBJECTS_OF_POSTERIOR).isdisjoint(names)


def is_for_predictions(named: Set[str], system: System) -> bool:
    """Whether a run without a goal is one for prediction.

    Args:
        named: Options and objects that were given, by name.
        system: The model and its data.

    Returns:
        True if no part of a posterior is named; if steps cannot see all of the data, also if only
        the model and its prior are.
    """
    if not names_posterior(named):
        return True
    chains = "num_steps" in named or names_posterior(named - _KEPT_BY_PREDICTIONS)
    return not (chains or is_cheap(system)) and can_be_fitted(system)


def _is_open(options: Options, objects: Mapping[str, Any], system: System, placed: bool) -> bool:
    """Whether all that a run for prediction chooses is left to the run."""
    if not system.has_data or placed or options.tati or system.streamed:
        return False
    return is_for_predictions(options.explicit | {*objects}, system)
