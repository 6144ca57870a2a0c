"""From options to the prior of a model: by name, width and walls, for all parameters or by
pattern.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.potential import Prior
from tati_re.core.user_input import is_change, users_code
from tati_re.models.names import fan_in_plus_one
from tati_re.options.patterns import by_tensor, in_words
from tati_re.options.table import OPTIONS
from tati_re.posterior.priors.base import ScaleFamily
from tati_re.posterior.priors.families import Flat, Gaussian, Laplace, StudentT
from tati_re.posterior.priors.hierarchical import Hierarchical
from tati_re.posterior.priors.product import Product
from tati_re.posterior.priors.soft import SoftWalls
from tati_re.posterior.priors.walls import Box, HardWalls

FAMILIES: dict[str, type[ScaleFamily] | type[Hierarchical]] = {
    "gaussian": Gaussian,
    "laplace": Laplace,
    "student_t": StudentT,
    "hierarchical": Hierarchical,
    "box": Box,
}
_WITH_DEGREES = ("student_t", "hierarchical")
_USED = {
    "prior_std": {"gaussian"},
    "prior_scale": {"laplace", *_WITH_DEGREES},
    "prior_degrees": {*_WITH_DEGREES},
    "prior_bound": {"box"},
}
"""The families that an option of the prior is about."""
_OF_NOISE = {"noise_prior", "noise_prior_scale", "noise_prior_shape"}
_TABLES = ("prior", *_USED)
_WALLS = (
    "lower_wall",
    "upper_wall",
    "prior_lower_boundary",
    "prior_upper_boundary",
    "prior_factor",
    "prior_power",
)


def _kind(chosen: Mapping[str, Any]) -> tuple:
    """Of the options of a tensor's prior, the part that neighboring tensors of one prior object
    share; widths and walls, None where there is none, may differ.
    """
    soft = chosen["prior_lower_boundary"] is not None or chosen["prior_upper_boundary"] is not None
    hard = chosen["lower_wall"] is not None or chosen["upper_wall"] is not None
    return (
        chosen["prior"],
        chosen["prior_degrees"] if chosen["prior"] in _WITH_DEGREES else None,
        soft,
        hard,
    )


@front_door
def make_prior(options, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> Prior:
    """Creates the prior named in the options.

    Args:
        options: `prior`, `prior_std`, `prior_scale`, `prior_degrees`, `prior_bound`,
            `prior_scaling`, and the walls.
        names: Names of the model's tensors, such as `dense/kernel`.
        shapes: Shapes of the tensors, in the order of the flat vector.

    Returns:
        The prior.

    Raises:
        InputError: A pattern matches no tensor, there is nothing to scale, or walls are invalid.
    """
    sizes = [math.prod(shape) for shape in shapes]
    tables = options.values_of((*_TABLES, *_WALLS))
    columns = {
        name: by_tensor(name, value, OPTIONS[name].default, names) for name, value in tables.items()
    }
    chosen = [{name: column[i] for name, column in columns.items()} for i in range(len(names))]
    fans = None
    if options.prior_scaling == "fan_in":
        if all(tensor_options["prior"] == "none" for tensor_options in chosen):
            raise InputError(
                "prior_scaling: there is no prior to scale.",
                "prior none",
                "a prior, such as gaussian",
            )
        fans = np.split(fan_in_plus_one(names, shapes), np.cumsum(sizes)[:-1])
    runs = [list(run) for _, run in groupby(range(len(chosen)), lambda i: _kind(chosen[i]))]
    parts = []
    for run in runs:
        fan_in = None if fans is None else np.concatenate([fans[i] for i in run])
        parts.append(_one([chosen[i] for i in run], [sizes[i] for i in run], fan_in, options))
    if len(parts) == 1:
        return parts[0]
    return Product(
        parts,
        [sum(sizes[i] for i in run) for run in runs],
        [[names[i] for i in run] for run in runs],
    )


def _one(chosen: Sequence[Mapping[str, Any]], sizes: Sequence[int], fan_in, options) -> Prior:
    def of(name: str, absent: float | None = None):
        values = [
            absent if (value := tensor_options[name]) is None else value
            for tensor_options in chosen
        ]
        return values[0] if len(set(values)) == 1 else np.repeat(values, sizes)

    family, degrees, soft, hard = _kind(chosen[0])
    if family == "none":
        prior: Any = Flat()
    else:
        option = FAMILIES[family].option
        words = in_words(getattr(options, option)) if np.ndim(of(option)) else None
        also = {} if degrees is None else {"degrees": degrees}
        if family == "hierarchical":
            _refuse_walls(soft or hard)
            also["sizes"] = sizes
        prior = FAMILIES[family](of(option), fan_in=fan_in, words=words, **also)
    if soft:
        prior = SoftWalls(
            prior,
            of("prior_factor"),
            of("prior_power"),
            of("prior_lower_boundary", -math.inf),
            of("prior_upper_boundary", math.inf),
        )
    if hard:
        problem = (
            "prior_lower_boundary, prior_upper_boundary: hard and soft walls exclude each other."
        )
        refuse_if(
            soft, problem, "lower_wall or upper_wall as well", "one kind of walls per parameter"
        )
        prior = HardWalls(prior, of("lower_wall", -math.inf), of("upper_wall", math.inf))
    return prior


def _refuse_walls(has_walls: bool) -> None:
    """Refuses walls around parameters whose common width is unknown: the density between the walls
    would have to be normalized for each width.
    """
    refuse_if(
        has_walls,
        "prior: hierarchical has no walls.",
        "lower_wall, upper_wall, prior_lower_boundary or prior_upper_boundary",
        "no walls around these parameters, or another prior",
    )


def unused_prior_options(options) -> list[str]:
    """Options of the prior that were given and that no parameter uses."""
    families = (
        set(options.prior.values()) | {"gaussian"}
        if isinstance(options.prior, Mapping)
        else {options.prior}
    )
    unused = [
        name for name, used in _USED.items() if name in options.explicit and not used & families
    ]
    soft = options.prior_lower_boundary is not None or options.prior_upper_boundary is not None
    if options.tether is not None:
        unused = [name for name in (*_TABLES, "prior_scaling", *_WALLS) if name in options.explicit]
        return [name for name in unused if name != "prior_factor"]
    of_noise = {"noise_prior_shape"} if options.noise_prior == "half_normal" else set()
    of_noise |= _OF_NOISE if options.noise_std not in ("sampled", "by_target") else set()
    unused += sorted(of_noise & options.explicit)
    return unused + [
        n for n in ("prior_factor", "prior_power") if n in options.explicit and not soft
    ]


def unconfined(prior: Prior, names: Sequence[str], regularized: Sequence[str]) -> str | None:
    """A sentence about parameters that neither the prior nor a weight regularizer confines.

    Args:
        prior: The prior.
        names: Names of all tensors of the model.
        regularized: Names of the tensors with a weight regularizer.

    Returns:
        The sentence; None where all parameters are confined.
    """
    loose = names if prior.unconfined is None else prior.unconfined
    free = [] if prior.proper else [n for n in loose if n not in regularized]
    if not free:
        return None
    where = (
        "Nothing confines U"
        if len(free) == len(names)
        else f"Nothing confines U along {', '.join(free[:4])}"
    )
    more = f" and {len(free) - 4} more" if 4 < len(free) < len(names) else ""
    return (
        f"{where}{more}: without a prior, directions in which the loss is flat have no equilibrium."
    )


def too_hot(prior: Prior, temperature: float) -> str | None:
    """A sentence where exp(-V/T) of a prior with heavy tails cannot be normalized, else None.

    Args:
        prior: The prior.
        temperature: The highest temperature T of the run.
    """
    if temperature < prior.hottest:
        return None
    return (
        f"At temperature {temperature:g} the tails of the prior cannot be normalized (they need a "
        f"temperature below {prior.hottest:g}). Directions in which the loss is flat have no "
        "equilibrium."
    )


_ANSWERS = {
    "proper": "an attribute proper: whether the prior can be normalized",
    "log_prob": "a method log_prob(position): log density, (walkers,), float64",
    "gradient": "a method gradient(position): -∇ log density, (walkers, parameters)",
}
"""What a prior of users has to give."""


@front_door
def check_prior(prior: Prior, num_parameters: int, dtype: str = "float32") -> None:
    """Refuses an object that is not a valid prior, or that does not fit the model.

    User-defined priors are compiled, and their gradient is compared with finite differences.

    Args:
        prior: The prior.
        num_parameters: Number of parameters of the model.
        dtype: Precision of the positions, "float32" or "float64". Default: "float32".

    Raises:
        InputError: A required method is missing, the number of parameters differs, or the gradient
            is wrong.
    """
    is_class = isinstance(prior, type)
    refuse_if(is_class, "prior is a class; an object is needed.", prior, "an object of this class")
    missing = [name for name in ("proper", "log_prob", "gradient") if name not in dir(prior)]
    if missing:
        problem = f"prior: {type(prior).__name__} lacks {' and '.join(missing)}."
        raise InputError(problem, expected="; ".join(_ANSWERS[name] for name in missing))
    if not isinstance(prior, Prior):
        expected = "a class derived from tati_re.priors.Prior, which provides defaults"
        raise InputError("prior: a method or attribute is missing.", type(prior).__name__, expected)
    if prior.num_parameters not in (None, num_parameters):
        raise InputError(
            "prior: made for another number of parameters.", prior.num_parameters, num_parameters
        )
    if not type(prior).__module__.startswith("tati_re."):
        _check_density(prior, num_parameters, dtype)
        if type(prior).from_normal is not Prior.from_normal:
            _check_draws(prior, num_parameters, dtype)


def _check_density(prior: Prior, num_parameters: int, dtype: str) -> None:
    """Compares the gradient with differences of the density at normal numbers, along random signs
    in steps of 1e-3.
    """
    random = np.random.default_rng(0)
    point = random.standard_normal(num_parameters)
    along = 1e-3 * random.choice((-1.0, 1.0), num_parameters)
    x = tf.constant(np.stack([point - along, point, point + along]), dtype)
    expected = (
        "log_prob (walkers,), float64, gradient (walkers, parameters), in keras.ops or "
        "TensorFlow; and proper"
    )
    with users_code("prior: it", expected):
        value, slope = tf.function(
            lambda x: (prior.log_prob(x), prior.gradient(x)), autograph=False
        )(x)
        slope = tf.zeros_like(x) if slope is None else slope
        _ = prior.proper
    kinds = [(tuple(part.shape), part.dtype.name) for part in (value, slope)]
    expected_kinds = [((3,), "float64"), (tuple(x.shape), x.dtype.name)]
    refuse_if(
        kinds != expected_kinds,
        "prior: log_prob and gradient return other shapes or types for 3 walkers.",
        kinds,
        expected_kinds,
    )
    values = value.numpy()
    terms = -2 * along * slope[1].numpy().astype(np.float64)
    if (
        np.isfinite(values).all()
        and np.isfinite(terms).all()
        and not is_change(values, terms, 5e-2, "float32")
    ):
        slopes = [-change / 2e-3 for change in (terms.sum(), values[2] - values[0])]
        received = (
            f"a slope of {slopes[0]:.4g} by it and {slopes[1]:.4g} by differences of -log_prob"
        )
        raise InputError(
            "prior: the gradient does not match its density.", received, "the gradient of -log_prob"
        )


def _check_draws(prior: Prior, num_parameters: int, dtype: str) -> None:
    """Refuses draws of density 0, and where it has no edge those by which the means of θ·∇V and ∇V
    are not P and 0.
    """
    random = np.random.default_rng(0)
    count = min(max(200_000 // num_parameters, 16), 10_000)
    normal = tf.constant(random.standard_normal((count, num_parameters)), dtype)
    with users_code(
        "prior: from_normal", "draws (walkers, parameters), of keras.ops or TensorFlow"
    ):
        x = tf.function(prior.from_normal, autograph=False)(normal)
    got, expected_kind = ((tuple(values.shape), values.dtype.name) for values in (x, normal))
    refuse_if(
        got != expected_kind,
        "prior: from_normal returns another shape or type than its input.",
        got,
        expected_kind,
    )
    value, around = (prior.log_prob(at).numpy() for at in (x, 3 * x - 2 * tf.reverse(x, [0])))
    problem = "prior: from_normal does not draw from the density of log_prob."
    expected = "draws from exp(log_prob)"
    refuse_if(not np.isfinite(value).all(), problem, "draws where log_prob is not finite", expected)
    slope = prior.gradient(x)
    if slope is None or prior.walled or not np.isfinite(around).all():
        return
    place, slope = (values.numpy().astype(np.float64) for values in (x, slope))
    signs = random.choice((-1.0, 1.0), num_parameters)
    for name, mean, terms in (("θ·∇V", 1, place * slope), ("∇V", 0, slope)):
        off = (terms - mean) @ np.stack([np.ones(num_parameters), signs], axis=1) / num_parameters
        wrong = (abs(off.mean(0)) > 6 * off.std(0) / math.sqrt(count) + 1e-3).any()
        refuse_if(
            wrong,
            problem,
            f"{name} of {terms.mean():.3g} per parameter",
            f"{expected}, which give {mean}",
        )
