"""A simulation of a wider network that starts as the same function."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.launch.starts import fresh_starts
from tati_re.models.widening import widened_parameters
from tati_re.options.make import make_options

_WIDENED = 0x57494445
"""A word of the seed, so that these numbers are no others of a run."""


def widened(sim: Any, hidden: Sequence[int], seed: int | None) -> Any:
    """A simulation of a wider network that computes the same function, see `Simulation.widened`.

    Args:
        sim: The Simulation.
        hidden: Units of each hidden layer: as many layers as now, with at least as many units in
            each.
        seed: Seed for the weights of the new units. None: the seed in the options.

    Raises:
        InputError: The network of `sim` cannot be widened, or `hidden` does not describe a wider
            network with the same number of layers.
    """
    units = _checked(sim, hidden)
    options = make_options(sim.options, hidden=units, parameters=None, parameters_step=None)
    larger = type(sim).from_options(options, dict(sim.objects))
    old: Any = sim.system.flat
    new: Any = larger.system.flat
    num_weights = old.num_parameters - old.num_extra
    position = sim.walkers.position
    fresh = _drawn(larger, options.seed if seed is None else seed)
    shapes = old.shapes[: len(old.shapes) - old.num_extra]
    wide_shapes = new.shapes[: len(new.shapes) - new.num_extra]
    within = widened_parameters(position[:, :num_weights], shapes, wide_shapes, fresh)
    larger.parameters = np.append(within, position[:, num_weights:], axis=1)
    return larger


def _checked(sim: Any, hidden: Sequence[int]) -> list[int]:
    """The units of the wider network; an `InputError` for a network that cannot be this one."""
    options = sim.options
    is_built = bool({"model", "potential"} & {*sim.objects})
    is_custom = is_built or options.model is not None or options.is_target
    expected = "a network that tati_re builds from the option hidden"
    refuse_if(is_custom, "widened: only networks of dense layers can be widened.", None, expected)
    refuse_if(
        bool(options.fix_parameters),
        "widened: fixed parameters belong to the network of this size.",
        options.fix_parameters,
        "no fix_parameters",
    )
    problem = "widened: a frozen network cannot be widened."
    refuse_if(options.layers == "last", problem, "layers = last", "layers = all")
    problem = "widened: hidden is not a wider network of as many layers."
    expected = f"{len(options.hidden)} layers of at least {options.hidden} units"
    if not options.hidden:
        expected = "a network with hidden layers to widen"
    units = make_options(hidden=hidden).hidden
    same_depth = len(units) == len(options.hidden) > 0
    wide = same_depth and all(a >= b for a, b in zip(units, options.hidden, strict=True))
    if not wide:
        raise InputError(problem, hidden, expected)
    return list(units)


def _drawn(larger: Any, seed: int) -> np.ndarray:
    """Parameters of the wider network from its prior, `(walkers, parameters)`; without a proper
    prior as `walker_start` fresh draws them.
    """
    flat: Any = larger.system.flat
    num_weights = flat.num_parameters - flat.num_extra
    count = larger.num_walkers()
    prior = larger.system.prior(larger.options, larger.objects)
    generator = np.random.default_rng([seed, _WIDENED])
    if prior.proper:
        normal = generator.standard_normal((count, flat.num_parameters))
        return prior.from_normal(tf.constant(normal)).numpy()[:, :num_weights]
    tensors = len(flat.shapes) - flat.num_extra
    return fresh_starts(flat.tensor_names[:tensors], flat.shapes[:tensors], count, seed)
