"""Samplers that another module holds: found by name, made from options, and checked."""

from typing import Any

from tati_re.core.errors import InputError
from tati_re.core.method import Method, as_method, missing
from tati_re.options.families import factory
from tati_re.options.user_code import called


def imported(name: str, options):
    """A sampler by the place of its class, or of a function that makes one.

    Args:
        name: `my_module:MySampler` or `path/my_file.py:MySampler`.
        options: The options of the run.

    Raises:
        InputError: There is no such class, or it is not a sampler.
    """
    return made(factory(name), options)


def made(factory: Any, options):
    """Makes a sampler and checks it.

    Args:
        factory: A class of samplers, or a function that makes one.
        options: The options of the run; those that the signature names are passed.

    Raises:
        InputError: `factory` cannot be called, fails, or makes something that is not a sampler.
    """
    name = getattr(factory, "__name__", type(factory).__name__)
    if not callable(factory):
        raise InputError(
            f"sampler: {name} is not a class.", type(factory).__name__, "a class with init and step"
        )
    return checked(called("sampler", factory, options))


def checked(sampler) -> Method:
    """The sampler as a method that answers all that a run may ask; what one lacks is named, and it
    is refused.
    """
    if lacking := missing(sampler):
        listed = " and ".join(filter(None, [", ".join(lacking[:-1]), lacking[-1]]))
        problem = f"sampler: {type(sampler).__name__} is not a sampler: it lacks {listed}."
        raise InputError(problem, expected="the attributes and methods of tati_re.samplers.Sampler")
    return as_method(sampler)
