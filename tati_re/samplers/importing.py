"""Samplers that users wrote: found by name, made from the options, and checked before any work starts."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from tati_re.errors import InputError, nearest

FORM = "my_module:MySampler or my_file.py:MySampler"
ATTRIBUTES = (
    "init",
    "step",
    "get_config",
    "name",
    "has_momentum",
    "metropolis",
    "full_batch",
    "current",
    "gradients_per_step",
)
"""What a sampler has, see :class:`tati_re.samplers.protocol.Sampler`."""


def imported(name: str, options):
    """Returns the sampler of `my_module:MySampler` or `path/my_file.py:MySampler`, made from the options.

    A module is one that is installed or lies in the current folder; a file is executed anew each time.

    Args:
        name: Module or file, a colon, and the name of a class (or of a function that makes a sampler).
        options: Where the parameters of the constructor are looked up, see :func:`made`.

    Raises:
        InputError: No such module or class, the module cannot be imported, the class cannot be made, or what it makes
            is no sampler.
    """
    where, _, what = name.rpartition(":")
    if not where or not what.isidentifier():
        raise InputError("sampler: a colon stands between module and class.", received=repr(name), expected=FORM)
    path = Path(where) if where.endswith(".py") else None
    folder = Path.cwd() if path is None else path.resolve().parent
    with _importable(folder):
        module = _module(where) if path is None else _file(path)
        if not hasattr(module, what):
            known = [key for key, value in vars(module).items() if inspect.isclass(value) and hasattr(value, "step")]
            raise InputError(
                f"sampler: {where} has no class of this name.{nearest(what, known)}",
                received=what,
                expected=", ".join(known) or "a class with init and step",
            )
        return made(getattr(module, what), options)


def made(factory: Any, options):
    """Calls a class of samplers, or a function that makes one, with those options that its signature names.

    A parameter that has the name of an option gets the value of that option, its default in the table of options
    included. An option that has no value (none) leaves the default of the constructor, if there is one. All other
    parameters keep their own defaults.

    Args:
        factory: The class or function.
        options: Attributes by the name of the option.

    Raises:
        InputError: A parameter without a default is no option, the constructor fails, or what it makes is no sampler.
    """
    name = getattr(factory, "__name__", type(factory).__name__)
    if not callable(factory):
        raise InputError(
            f"sampler: {name} is no class.", received=type(factory).__name__, expected="a class with init and step"
        )
    arguments = {}
    for parameter in inspect.signature(factory).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        value = getattr(options, parameter.name, None) if _is_option(parameter.name) else None
        if required and not _is_option(parameter.name):
            raise InputError(
                f"sampler: {name} needs {parameter.name}, which is no option.",
                expected="a default for it in the constructor, or the name of an option such as friction",
            )
        if required or value is not None:
            arguments[parameter.name] = value
    try:
        sampler = factory(**arguments)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"sampler: {name} cannot be made ({_said(error)}).") from error
    return checked(sampler)


def checked(sampler):
    """Returns the sampler if it has what samplers have.

    Raises:
        InputError: An attribute or method is missing; all that are missing are named.
    """
    missing = [name for name in ATTRIBUTES if not hasattr(sampler, name)]
    if missing:
        raise InputError(
            f"sampler: {type(sampler).__name__} is no sampler, it has no {_listed(missing)}.",
            expected="the attributes and methods of tati_re.samplers.Sampler",
        )
    return sampler


def _is_option(name: str) -> bool:
    from tati_re.option_table import OPTIONS

    return name in OPTIONS


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _said(error: Exception) -> str:
    """An exception in one line: its type and message."""
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """The folder comes first where modules are looked for, as it does for a script that lies there."""
    before = list(sys.path)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path[:] = before


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _failed(name, error) from error
        beside = f", or {name}.py:..." if Path(f"{name}.py").exists() else ""
        raise InputError(
            "sampler: there is no such module.",
            received=name,
            expected=f"one that is installed or lies in {Path.cwd()}{beside}",
        ) from None
    except Exception as error:
        raise _failed(name, error) from error


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InputError("sampler: there is no such file.", received=path, expected=f"such as {FORM}")
    full = path.resolve()
    # A name of its own: a file may be called like a module that is installed.
    name = f"{full.stem}_{hashlib.sha256(str(full).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, full)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise _failed(path, error) from error
    return module


def _failed(where: object, error: Exception) -> InputError:
    return InputError(f"sampler: {where} cannot be imported ({_said(error)}).")
