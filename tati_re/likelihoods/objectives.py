"""Which objective a name or a manifest means, without TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tati_re.likelihoods.contract import Objective
from tati_re.likelihoods.registry import LOSSES, likelihood_class
from tati_re.likelihoods.without_density import WithoutDensity


def named_objective(name: str, settings: Mapping[str, Any]) -> Objective:
    """The objective of a name of `LOSSES`, with those settings that it has.

    Args:
        name: A name of `LOSSES`.
        settings: Values by the names of the constructors' parameters; those of others are left out.
    """
    kind = likelihood_class(name)
    return kind(**{key: settings[key] for key in kind.settings if key in settings})


def objective_of_manifest(
    loss: Mapping[str, Any], per_example: Callable[..., Any] | None = None
) -> Objective:
    """The objective of a run.

    Args:
        loss: What the manifest says of the loss.
        per_example: The loss as a function of arrays, where a name does not say it.
    """
    name = str(loss["loss"])
    if name in LOSSES:
        return named_objective(name, loss)
    return WithoutDensity(name, per_example)
