"""Python code of users, named by an option as `my_module:name` or `my_file.py:name`: found, and
called with options.
"""

import hashlib
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.user_input import error_text
from tati_re.options.table import OPTIONS


def imported_object(
    option: str, name: str, form: str, known: Callable[[Any], bool], kind: str
) -> Any:
    """Imports an object that an option names.

    Args:
        option: Name of the option, for messages.
        name: `my_module:name`, of a module that is installed or lies in the current folder, or
            `my_file.py:name`. A file is executed again at each call.
        form: An example of such names, for messages.
        known: Returns whether a value of the module may have been meant, for messages.
        kind: What is expected, for messages: an article, one noun and more, such as "a class with
            init and step".

    Raises:
        InputError: There is no such module, file or name, or its import fails.
    """
    from cloudpickle import register_pickle_by_value

    (where, _, attribute) = name.rpartition(":")
    noun = kind.split()[1]
    refuse_if(
        not where or not attribute.isidentifier(),
        f"{option}: the form is MODULE:{noun.upper()}.",
        repr(name),
        form,
    )
    path = Path(where) if where.endswith(".py") else None
    before = {*sys.modules}
    folder = Path.cwd() if path is None else path.resolve().parent
    search_path = list(sys.path)
    sys.path.insert(0, str(folder))  # first, as for a script that lies there
    importlib.invalidate_caches()
    try:
        module = _module(option, where) if path is None else _file(option, path, form)
        if not hasattr(module, attribute):
            others = [key for key, value in vars(module).items() if known(value)]
            sentence = f"{option}: {where} has no {noun} of this name.{nearest(attribute, others)}"
            raise InputError(sentence, received=attribute, expected=", ".join(others) or kind)
    finally:
        sys.path[:] = search_path
    for new in {*sys.modules} - before:
        is_inside = folder in Path(getattr(sys.modules[new], "__file__", None) or "").parents[:2]
        # Workers would not find what lies in this folder alone.
        if (
            is_inside
            and PathFinder.find_spec(new.partition(".")[0], [entry for entry in sys.path if entry])
            is None
        ):
            register_pickle_by_value(sys.modules[new])
    return getattr(module, attribute)


def is_code(name: str | None) -> bool:
    """Whether the option `model` or `sampler` names something of a module, rather than a file or a
    known name.
    """
    return name is not None and ":" in name and not name.endswith(".keras")


def called(
    option: str, factory: Callable, options: Any, others: Mapping[str, Any] | None = None
) -> Any:
    """Calls a class or function with the options that its signature names.

    A parameter with the name of an option gets its value, which may be the default in the table of
    options. The parameter `kT` gets the temperature of the target. An option without a value (none)
    leaves the default of the signature, if there is one. All other parameters keep their defaults.

    Args:
        option: Name of the option that named the class or function, for messages.
        factory: The class or function.
        options: The options of the run.
        others: Further arguments by name, passed if the signature names them. Default: None, none.

    Returns:
        What the call returns.

    Raises:
        InputError: A parameter has neither a value nor a default, or the call fails.
    """
    name = getattr(factory, "__name__", type(factory).__name__)
    others = others or {}
    arguments = {}
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:
        problem = f"{option}: {name} is built into Python, and its arguments cannot be determined."
        raise InputError(problem, expected="your own class or function") from None
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        required = parameter.default is parameter.empty
        known = parameter.name in (*OPTIONS, "kT")
        value = others.get(
            parameter.name, getattr(options, parameter.name, None) if known else None
        )
        if required and not known and parameter.name not in others:
            where = "in the constructor" if inspect.isclass(factory) else "in the function"
            also = f", or one of {', '.join(others)}" if others else ""
            expected = f"a default for it {where}, or the name of an option such as friction{also}"
            raise InputError(
                f"{option}: {name} needs {parameter.name}, which is not an option.",
                expected=expected,
            )
        if required or value is not None:
            arguments[parameter.name] = value
    try:
        return factory(**arguments)
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{option}: {name} could not be created ({error_text(error)}).") from error


def _module(option: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not (name == error.name or name.startswith(f"{error.name}.")):
            raise _failed(option, name, error) from error
        beside = f", or {name}.py:..." if Path(f"{name}.py").exists() else ""
        expected = f"a module that is installed or lies in {Path.cwd()}{beside}"
        raise InputError(
            f"{option}: there is no such module.", received=name, expected=expected
        ) from None
    except (Exception, SystemExit) as error:
        raise _failed(option, name, error) from error


def _file(option: str, path: Path, form: str) -> ModuleType:
    refuse_if(
        not os.path.isfile(path), f"{option}: there is no such file.", path, f"such as {form}"
    )
    full = path.resolve()
    # A name of its own: a file may be called like a module that is installed.
    name = f"{full.stem}_{hashlib.sha256(str(full).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(option, path, error) from error
    return module


def _failed(option: str, where: object, error: BaseException) -> InputError:
    return InputError(f"{option}: {where} cannot be imported ({error_text(error)}).")
