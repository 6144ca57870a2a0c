"""From options to the sampler of a run: a family, and what wraps it."""

import math
from collections.abc import Sequence

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.facets import turns_of
from tati_re.core.user_input import as_array
from tati_re.models.names import fan_in_plus_one
from tati_re.options.families import FAMILIES, family, options_of_family
from tati_re.options.table import options_of
from tati_re.samplers.wrappers.control_variate import ControlVariate
from tati_re.samplers.wrappers.eqn import EnsembleQuasiNewton
from tati_re.samplers.wrappers.mass import Massive
from tati_re.samplers.wrappers.metered import SETTLED, Metered
from tati_re.samplers.wrappers.step_size_tuning import StepSizeTuning
from tati_re.tuning.tuner import Tuner


def latest_end(num_steps: int) -> int:
    """The last step of a burn-in that does not end by itself: half of all, or the end of a window
    before that.
    """
    half = num_steps // 2
    return max((int(end) for end in SETTLED if end <= half), default=half)


def latest_end_on_batches(num_steps: int, steps_per_epoch: int) -> int:
    """The last step of a burn-in of chains for prediction that see mini-batches.

    They begin at fits, and tune their steps within a few epochs: a longer burn-in is time that
    draws would have.

    Args:
        num_steps: Steps of the run.
        steps_per_epoch: Steps in which a chain sees each example once.

    Returns:
        The end of the first window after 1,920 steps and five epochs, at most that of `latest_end`.
    """
    enough = max(_FEWEST_ON_BATCHES, _EPOCHS_OF_BURNIN * steps_per_epoch)
    windows = (int(end) for end in SETTLED if end >= enough)
    return min(latest_end(num_steps), next(windows, num_steps))


_FEWEST_ON_BATCHES = 1_920
_EPOCHS_OF_BURNIN = 5


def with_steps(sampler, options, given_schedule: bool = False, num_parameters: int = 1):
    """The sampler that finds its step size in the burn-in, where the options leave it to the run.

    Args:
        sampler: The sampler.
        options: The options of the run.
        given_schedule: Whether a step schedule is given as an object. Default: False.
        num_parameters: Number of directions that the bias bounds one by one, if the option
            `target_bias_of` is "worst". Default: 1.

    Raises:
        InputError: Another option needs a given step size.
    """
    if not isinstance(options.step_size, str) or options.step_sizes:
        return sampler
    for name, is_set in (
        ("covariance_blending", options.covariance_blending > 0),
        ("step_schedule", given_schedule or options.step_schedule != "constant"),
        ("gradient_noise", sampler.dynamics.removed_noise > 0),
    ):
        refuse_if(
            is_set,
            f"{name}: needs a given step size.",
            "step_size = auto",
            "a number as step_size",
        )
    if isinstance(sampler, StepSizeTuning):
        sampler = sampler.inner
    if isinstance(sampler, Massive):  # steps are those of its coordinates
        inner = with_steps(sampler.inner, options, num_parameters=num_parameters)
        return Massive(inner, sampler.mass)
    if sampler.metropolis:
        target = options.target_acceptance or sampler.dynamics.acceptance
        return StepSizeTuning(
            sampler,
            target_acceptance=target,
            step_size_tuning=options.step_size_tuning,
            from_curvature=True,
        )
    directions = num_parameters if options.target_bias_of == "worst" else 1
    return Metered(sampler, target_bias=options.target_bias, bounded_directions=directions)


def with_tuner(sampler, options, automatic: bool):
    """The sampler with a `Tuner` that ends its burn-in or tunes its length, if it needs one.

    Args:
        sampler: The sampler.
        options: The options of the run.
        automatic: Whether the burn-in may end automatically, because no number of steps was given.
    """
    finds_end = automatic and sampler.adapts and options.temperature_schedule == "constant"
    is_needed = finds_end or sampler.dynamics.finds_length
    if not is_needed or sampler.label_names:
        return sampler
    return Tuner(sampler, finds_end=finds_end, within_chains=options.goal == "predict")


FEWEST_BURNIN_STEPS = 200
"""Of a mass that is measured."""


def wrapped(sampler, options, names: Sequence[str], shapes: Sequence[tuple[int, ...]], mass=None):
    """The sampler with mass, ensemble preconditioner and control variate, as the options ask.

    Args:
        sampler: The sampler.
        options: The options of the run.
        names: Names of the parameter tensors.
        shapes: Their shapes.
        mass: Masses of the parameters, shape (parameters,). Default: None, the option `mass`.

    Raises:
        InputError: Options exclude each other, or numbers do not fit.
    """
    if mass is not None or options.mass != "unit":
        if options.covariance_blending:
            problem = "mass and covariance_blending both set the speed of directions."
            raise InputError(
                problem, f"covariance_blending = {options.covariance_blending:g}", "one of the two"
            )
        named = fan_in_plus_one(names, shapes) if options.mass == "fan_in" else options.mass
        sampler = Massive(sampler, named if mass is None else _checked(mass, shapes))
        is_explicit = "num_burnin_steps" in options.explicit
        if sampler.measured and options.burnin < (FEWEST_BURNIN_STEPS if is_explicit else 1):
            problem = f"mass: {sampler.mass} is measured during the burn-in."
            raise InputError(
                problem,
                f"num_burnin_steps = {options.num_burnin_steps}",
                f"{FEWEST_BURNIN_STEPS} or more",
            )
    if options.covariance_blending:
        every = options.covariance_after_steps
        sampler = EnsembleQuasiNewton(
            sampler,
            covariance_blending=options.covariance_blending,
            covariance_after_steps=every,
            scheme=options.ensemble_scheme,
        )
        sampler.check_walkers(options.num_walkers)
        turns = turns_of(sampler)
        if turns.groups > 1 and options.num_steps % turns.steps:
            problem = (
                "num_steps: each half of the walkers moves covariance_after_steps steps at a time."
            )
            raise InputError(problem, options.num_steps, f"a multiple of {turns.steps}")
    return (
        ControlVariate(sampler, refresh_every=options.control_variate_every)
        if options.control_variate
        else sampler
    )


_BELONG = {
    "thermostat_bath": lambda options: (
        family(options.sampler) is None and "D" in options.sampler.upper()
    ),
    "preconditioner_correction": lambda options: options.preconditioner == "adaptive",
    "step_size": lambda options: not options.step_sizes,
    **dict.fromkeys(
        ("schedule_delay", "schedule_power"), lambda options: options.step_schedule == "polynomial"
    ),
    "cycle_steps": lambda options: options.step_schedule == "cyclical",
    "temperature_start": lambda options: options.temperature_schedule == "annealing",
    "control_variate_every": lambda options: options.control_variate,
    **dict.fromkeys(
        ("covariance_after_steps", "ensemble_scheme"),
        lambda options: options.covariance_blending > 0,
    ),
    "step_size_tuning": lambda options: (
        options.target_acceptance is not None or options.step_size == "auto"
    ),
    "fit_steps": lambda options: options.walker_start == "fit",
    **dict.fromkeys(
        ("target_bias", "target_bias_of"),
        lambda options: "auto" in (options.step_size, options.friction),
    ),
    "bias_energies": lambda options: (
        options.bias == "well_tempered" and options.batch_size is not None
    ),
    **dict.fromkeys(
        ("bias_factor", "bias_rate", "bias_width"), lambda options: options.bias == "well_tempered"
    ),
    **dict.fromkeys(
        ("batch_sampling", "walker_batches"), lambda options: options.batch_size is not None
    ),
    **dict.fromkeys(
        ("trajectory_format", "directions"), lambda options: options.trajectory_every != 0
    ),
}
"""Options that only mean something beside another one."""


def unused_options(options, sampler) -> list[str]:
    """Options that were given and that a run with this sampler does not use.

    Args:
        options: The options of the run.
        sampler: Its sampler.

    Returns:
        Their names.
    """
    used = sampler.used_options()
    sampler_options = {name for where in FAMILIES.values() for name in options_of_family(where)}
    others = {"step_size_tuning"}
    if sampler.metropolis:
        others = {"target_bias", "target_bias_of"}
    idle = {name for name, used in _BELONG.items() if name in others or not used(options)}
    beside = [name for name in _BELONG if name in options.explicit & idle]
    explicit = [
        name for name in options_of(["sampler"]) if name in sampler_options & options.explicit
    ]
    return [*dict.fromkeys([*(name for name in explicit if name not in used), *beside])]


def _checked(mass, shapes) -> np.ndarray:
    mass = as_array(mass, "mass", np.float64)
    expected_shape = (sum(math.prod(shape) for shape in shapes),)
    refuse_if(
        mass.shape != expected_shape,
        "mass: wrong shape.",
        mass.shape,
        f"{expected_shape}, one a parameter",
    )
    return mass
