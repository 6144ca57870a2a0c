"""Which likelihood the option `loss` means."""

from __future__ import annotations

import inspect
from typing import Any

from tati_re.core.errors import InputError, refuse_if
from tati_re.likelihoods.contract import Likelihood
from tati_re.likelihoods.registry import is_likelihood, likelihood_class, likelihoods
from tati_re.options.user_code import imported_object, is_code


def likelihood_of_loss(loss: Any, options: Any) -> Likelihood | None:
    """The likelihood that the option `loss` means, not fitted; None for other losses.

    Args:
        loss: A likelihood, its name, `my_file.py:MyLikelihood`, or another loss.
        options: Where settings are looked up whose names are options.

    Raises:
        InputError: A file or module that has no such class.
    """
    if isinstance(loss, Likelihood):
        problem = f"loss: {loss.name} is given by name, and its settings as options."
        refuse_if(not loss.own_units, problem, repr(loss), f"loss={loss.name!r}")
        return loss
    if isinstance(loss, type) and issubclass(loss, Likelihood):
        problem = "loss is a class; an object is needed."
        raise InputError(problem, loss.__name__, f"{loss.__name__}()")
    if is_likelihood(loss):
        return _with_options(likelihood_class(loss), options)
    if isinstance(loss, str) and is_code(loss):
        return _with_options(_of_users(loss), options)
    return None


def _of_users(name: str) -> type[Likelihood]:
    form = "my_module:MyLikelihood or my_file.py:MyLikelihood"

    def is_class(value: Any) -> bool:
        return inspect.isclass(value) and issubclass(value, Likelihood) and bool(value.name)

    made = imported_object("loss", name, form, is_class, "a likelihood class")
    expected = f"a class derived from tati_re.likelihoods.Likelihood, or {', '.join(likelihoods())}"
    refuse_if(not is_class(made), "loss: this is not a likelihood.", name, expected)
    return made


def _with_options(kind: type[Likelihood], options: Any) -> Likelihood:
    """A likelihood whose settings that are options have their values."""
    return kind(**options.values_of(key for key in kind.settings if key in options.explicit))
