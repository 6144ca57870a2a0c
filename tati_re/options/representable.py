"""What the value of an option can be: an integer of 64 bits, a float that the arithmetic of a run
can hold, text.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import BaseModel

MOST_INTEGER = 2**63 - 1
LARGEST = {"float32": 1e18, "float64": 1e150}
"""Of the sizes of floats, by precision: squares and their inverses are then numbers, neither 0 nor
infinite.
"""


DEEPEST = 32
"""Levels of lists and tables inside each other in the value of an option."""


def is_deep(value: Any, levels: int = DEEPEST) -> bool:
    """Whether lists and tables lie inside each other more than so many times, as in one that holds
    itself.

    Args:
        value: The value of an option.
        levels: Levels that are right. Default: 32.

    Returns:
        The answer.
    """
    level = [value]
    for _ in range(levels + 1):
        # By identity: a list that holds itself twice would have twice as many parts at each level.
        level = [*{id(part): part for container in level for part in _inside(container)}.values()]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    """The lists and tables in a list or table."""
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, (list, tuple)):
        parts = value
    return [part for part in parts if isinstance(part, (list, tuple, Mapping))]


def representable_range(value: Any, dtype: str | None) -> str | None:
    """Describes the allowed range if the arithmetic cannot represent a value.

    Args:
        value: A number or text, or a list, table or model of them.
        dtype: Number type, "float32" or "float64". None: floats are not checked.

    Returns:
        What the value should be, in words; None if it can be represented.
    """
    for part in _parts(value):
        if isinstance(part, int) and abs(part) > MOST_INTEGER:
            return "below 2^63"
        if isinstance(part, float) and dtype is not None and part:
            limit = LARGEST[dtype]
            if not 1 / limit <= abs(part) <= limit:
                return (
                    f"of magnitude {1 / limit:g} to {limit:g}, so that its square is a number "
                    f"of {dtype}"
                )
        if isinstance(part, str) and not part:
            return "not empty"
        if isinstance(part, str) and (
            "\0" in part or any("\ud800" <= letter <= "\udfff" for letter in part)
        ):
            return "without NUL characters, in UTF-8"
    return None


def _parts(value: Any) -> Iterator[Any]:
    """The numbers and texts inside of a value."""
    if isinstance(value, BaseModel):
        value = value.model_dump()
    if isinstance(value, Mapping):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for part in value:
            yield from _parts(part)
    else:
        yield value
