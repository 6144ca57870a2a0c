"""Names that changed: the old ones work for one release, with a warning."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import getdoc
from operator import attrgetter
from typing import Any, TypeVar

from tati_re.core.user_warnings import warn_user

Function = TypeVar("Function", bound=Callable[..., Any])


def renamed_arguments(**names: str) -> Callable[[Function], Function]:
    """Lets a public function accept the old names of arguments, with a `DeprecationWarning`.

    Args:
        **names: The new name of each argument, by its old name.

    Returns:
        A decorator. The function keeps its signature, which has the new names alone.
    """

    def decorate(function: Function) -> Function:
        @wraps(function)
        def renaming(*positional: Any, **named: Any) -> Any:
            for old, new in names.items():
                if old in named:
                    if new in named:
                        raise TypeError(f"{function.__name__}() got both {old} and {new}")
                    text = f"The argument {old} is now called {new}; the old name will be removed."
                    warn_user(text, DeprecationWarning)
                    named[new] = named.pop(old)
            return function(*positional, **named)

        return renaming  # type: ignore[return-value]

    return decorate


def renamed_attribute(old: str, new: str) -> property:
    """Makes the old name of an attribute or method, with a `DeprecationWarning`.

    Args:
        old: The old name.
        new: The new name.

    Returns:
        A property that gives what the new name gives.
    """

    def value(self: Any) -> Any:
        warn_user(f"{old} is now called {new}; the old name will be removed.", DeprecationWarning)
        return attrgetter(new)(self)

    return property(value, doc=f"The old name of `{new}`.")


def renamed_function(old: str, function: Function) -> Function:
    """Makes a function of the old name, which warns and calls the new one.

    Args:
        old: The old name.
        function: The function, which has the new name.

    Returns:
        A function with the arguments and the result of `function`.
    """

    @wraps(function)
    def renaming(*positional: Any, **named: Any) -> Any:
        text = f"{old} is now called {function.__name__}; the old name will be removed."
        warn_user(text, DeprecationWarning)
        return function(*positional, **named)

    _, _, described = (getdoc(function) or "").partition("\n\n")
    renaming.__doc__ = f"The old name of `{function.__name__}`.\n\n{described}"
    renaming.__name__ = old
    return renaming  # type: ignore[return-value]
