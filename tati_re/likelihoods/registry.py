"""The likelihoods that have a name: one line each.

Other packages add `zeta = "my_module:Zeta"` to `[project.entry-points."tati_re.likelihoods"]` of
their pyproject.toml.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError, nearest
from tati_re.core.front_door import front_door

if TYPE_CHECKING:
    from tati_re.likelihoods.contract import Likelihood, Objective

GROUP = "tati_re.likelihoods"

LOSSES = {
    "sparse_categorical_crossentropy": "tati_re.likelihoods.categorical:SparseCategorical",
    "categorical_crossentropy": "tati_re.likelihoods.categorical:Categorical",
    "binary_crossentropy": "tati_re.likelihoods.bernoulli:Bernoulli",
    "gaussian": "tati_re.likelihoods.gaussian:GaussianNoise",
    "heteroscedastic_gaussian": "tati_re.likelihoods.gaussian:PredictedGaussian",
    "mean_squared_error": "tati_re.likelihoods.errors:MeanSquaredError",
    "mean_absolute_error": "tati_re.likelihoods.errors:MeanAbsoluteError",
    "pinball": "tati_re.likelihoods.quantile:Pinball",
}
"""Losses of targets that the data room may standardize, by name. Keras has further ones."""

LIKELIHOODS = {
    "student_t": "tati_re.likelihoods.student_t:StudentTNoise",
    "laplace": "tati_re.likelihoods.student_t:LaplaceNoise",
    "log_normal": "tati_re.likelihoods.positive:LogNormal",
    "gamma": "tati_re.likelihoods.positive:Gamma",
    "beta": "tati_re.likelihoods.positive:Beta",
    "poisson_count": "tati_re.likelihoods.counts:Poisson",
    "negative_binomial": "tati_re.likelihoods.counts:NegativeBinomial",
    "zero_inflated_poisson": "tati_re.likelihoods.counts:ZeroInflatedPoisson",
    "zero_inflated_negative_binomial": "tati_re.likelihoods.counts:ZeroInflatedNegativeBinomial",
    "censored_normal": "tati_re.likelihoods.censored:CensoredNormal",
    "censored_log_normal": "tati_re.likelihoods.censored:CensoredLogNormal",
    "censored_weibull": "tati_re.likelihoods.censored:CensoredWeibull",
    "ordinal": "tati_re.likelihoods.ordinal:Ordinal",
}
"""Where each likelihood is found, by the name that users type as `loss`."""


@front_door
@cache
def likelihoods() -> dict[str, str]:
    """Returns all likelihoods by name, including those of installed packages.

    Built-in names have priority.
    """
    installed = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    return installed | LIKELIHOODS


def is_likelihood(name: object) -> bool:
    """Whether a name is that of a likelihood of this registry."""
    return isinstance(name, str) and name in likelihoods()


def named_loss(name: object) -> type[Objective] | None:
    """The class of a loss or likelihood that has a name here, whatever users gave; else None."""
    known = isinstance(name, str) and (name in LOSSES or name in likelihoods())
    return likelihood_class(str(name)) if known else None


@cache
def likelihood_class(name: str) -> type[Any]:
    """The class of a name, of `LOSSES` too.

    Raises:
        InputError: No likelihood has this name, or its package cannot be imported.
    """
    where = LOSSES.get(name) or likelihoods().get(name)
    if where is None:
        problem = f"loss: no likelihood has this name.{nearest(name, likelihoods())}"
        raise InputError(problem, repr(name), ", ".join(likelihoods()))
    module, _, attribute = where.partition(":")
    try:
        return vars(importlib.import_module(module))[attribute]
    except (ImportError, KeyError) as error:
        problem = f"loss: the likelihood {name} cannot be imported: {error}."
        raise InputError(problem, where, "an installed package that provides it") from error


def likelihood_of(config: Mapping[str, Any]) -> Likelihood:
    """The likelihood that `Likelihood.get_config` described.

    Raises:
        InputError: An unknown name, or a configuration that lacks something.
    """
    return likelihood_class(str(config.get("name"))).from_config(config)
