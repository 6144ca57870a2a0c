"""Options with one value for all parameters, or a table of patterns and values: `1 */bias=10`."""

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import tomli_w
from pydantic import BeforeValidator

from tati_re.core.errors import InputError, nearest

ALL = "*"


class _Table(BeforeValidator):
    """Marks an option that may be a table, and reads what was typed."""


def is_table(metadata: Iterable[Any]) -> bool:
    """Whether an option with these annotations may be a table."""
    return any(isinstance(item, _Table) for item in metadata)


def _read(patterns: Any) -> Any:
    """`["1", "*/bias=10"]` as a table; a value without a pattern stands for all; anything else as
    it is.
    """
    texts = [patterns] if isinstance(patterns, str) else patterns
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        return patterns
    if not any("=" in text for text in texts):
        return patterns if len(texts) != 1 else texts[0]
    table = {}
    for text in texts:
        pattern, equals, value = text.rpartition("=")
        table[pattern if equals else ALL] = value
    return table


BY_PATTERN = _Table(_read)
"""In the type of an option: a value for all parameters, or a table of pattern -> value."""


def by_tensor(option: str, value: Any, default: Any, names: Sequence[str]) -> list:
    """The value of an option for each tensor.

    Args:
        option: Name of the option, for messages.
        value: One value for all tensors, or a table of patterns and values. A pattern is a name or
            its end after a slash, with `*` and `?` as in file names: `*/bias`, `bias`, `dense_1/*`.
            The last pattern that matches counts.
        default: The value of tensors that no pattern matches.
        names: Names of the tensors.

    Raises:
        InputError: A pattern matches no tensor.
    """
    if not isinstance(value, Mapping):
        return [value] * len(names)
    tensor_values = [default] * len(names)
    for pattern, pattern_value in value.items():
        hits = [i for i, name in enumerate(names) if matches(pattern, name)]
        if not hits:
            problem = (
                f"{option}: the pattern matches no tensor of the model.{nearest(pattern, names)}"
            )
            expected = (
                f"a pattern that matches {', '.join(names[:4])}{', ...' if len(names) > 4 else ''}"
            )
            raise InputError(problem, received=repr(pattern), expected=expected)
        for i in hits:
            tensor_values[i] = pattern_value
    return tensor_values


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern matches the name of a tensor.

    Args:
        pattern: A name or its end after a slash, with `*` and `?` as in file names.
        name: The name of the tensor.
    """
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*/{pattern}")


def in_words(value: Any) -> str | None:
    """A table in words: `1, 10 for */bias`; `None` for a value that is none."""
    if not isinstance(value, Mapping):
        return None
    words = {
        p: f"{pattern_value:g}" if isinstance(pattern_value, float) else str(pattern_value)
        for p, pattern_value in value.items()
    }
    return ", ".join(
        pattern_value if pattern == ALL else f"{pattern_value} for {pattern}"
        for pattern, pattern_value in words.items()
    )


def toml(table: Mapping[str, Any]) -> str:
    """A table as TOML, inline, so that other options may follow it."""
    entries = [tomli_w.dumps({pattern: value}).strip() for pattern, value in table.items()]
    return f"{{ {', '.join(entries)} }}"
