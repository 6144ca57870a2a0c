"""Fixed parameters: the entries that a pattern selects, and their values."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.options.patterns import matches

_ENTRIES = re.compile(r"(.*?)\[([\d\s,*]*)\]$")
_TATI = re.compile(r"(?:layer(\d+)|(output))/(weights|biases)/Variable(?:_\d+)?:0$")


class Fixed(NamedTuple):
    """The fixed entries of one tensor: a mask of its shape, True where fixed, and values, of which only those count."""

    mask: np.ndarray
    values: np.ndarray


def items(given: str | Sequence[str] | None) -> list[tuple[str, str | None]]:
    """Patterns and the text of their values, None to keep the model's.

    Each given text is `pattern` or `pattern=values`, or several of these separated by `;`.

    Examples:
        >>> items("dense/bias;output/*=0,0.5")
        [('dense/bias', None), ('output/*', '0,0.5')]
    """
    texts = [given] if isinstance(given, str) else list(given or ())
    parts = [part.strip() for text in texts for part in text.split(";")]
    pairs = [part.partition("=") for part in parts if part]
    return [(name.strip(), values.strip() if equals else None) for name, equals, values in pairs]


def fixed_parts(
    given: str | Sequence[str] | None, names: Sequence[str], values: Sequence[np.ndarray]
) -> list[Fixed | None]:
    """The fixed entries of each tensor, None where there are none. A pattern, given as to `items`, is a tensor's name
    or the end of it after a slash, with `*` and `?` as in file names, and perhaps entries: `dense/bias`, `bias`,
    `dense_1/*`, `dense/kernel[0,3]`, `dense/kernel[0,*]`. For networks of dense layers TATi's names mean the same:
    `layer1/weights/Variable:0`, `output/biases/Variable:0`. A value of one number stands for all entries, else there is
    one for each; without any the tensors' `values` stay. Of two values the later counts."""
    found: list[Fixed | None] = [None] * len(names)
    for pattern, text in items(given):
        tensor, entries = _tensor_and_entries(pattern, names)
        hits = [i for i, name in enumerate(names) if matches(tensor, name)]
        if not hits:
            shown = f"{', '.join(names[:6])}{', ...' if len(names) > 6 else ''}"
            what = f"fix_parameters: no parameter of the model matches the pattern.{nearest(tensor, names)}"
            raise InputError(what, repr(pattern), f"a pattern for {shown}")
        for i in hits:
            old = found[i] or Fixed(np.zeros(values[i].shape, bool), np.array(values[i]))
            mask = _mask(pattern, entries, names[i], values[i].shape)
            if text is not None:
                old.values[mask] = _numbers(pattern, text, names[i], int(mask.sum()))
            found[i] = Fixed(old.mask | mask, old.values)
    return found


def _tensor_and_entries(pattern: str, names: Sequence[str]) -> tuple[str, str | None]:
    if (own := _ENTRIES.match(pattern)) is not None:
        return own[1], own[2]
    if (theirs := _TATI.match(pattern)) is not None:
        layers = list(dict.fromkeys(name.rsplit("/", 1)[0] for name in names))
        dense = layers == [f"dense_{k}" if k else "dense" for k in range(len(layers))]
        number = len(layers) if theirs[2] else int(theirs[1])
        if dense and 1 <= number <= len(layers) - (not theirs[2]):
            return f"{layers[number - 1]}/{'kernel' if theirs[3] == 'weights' else 'bias'}", None
    return pattern, None


def _mask(pattern: str, entries: str | None, name: str, shape: tuple[int, ...]) -> np.ndarray:
    mask = np.zeros(shape, bool)
    if entries is None:
        mask[...] = True
        return mask
    parts = [part.strip() for part in entries.split(",")]
    inside = len(parts) == len(shape) and all(
        part == "*" or (part.isdigit() and int(part) < length) for part, length in zip(parts, shape, strict=False)
    )
    last = ",".join(str(length - 1) for length in shape)
    zeros = ",".join("0" for _ in shape)
    what = f"fix_parameters: {name} has no such entry."
    refuse_if(not inside, what, repr(pattern), f"{name}[{zeros}] to {name}[{last}]")
    mask[tuple(slice(None) if part == "*" else int(part) for part in parts)] = True
    return mask


def _numbers(pattern: str, text: str, name: str, count: int) -> np.ndarray:
    try:
        numbers = np.array([float(part) for part in text.strip("[]").split(",") if part.strip()])
    except ValueError:
        what = "fix_parameters: the values are not numbers."
        raise InputError(what, f"{pattern}={text}", f"{pattern}=0, or {count} numbers") from None
    if len(numbers) not in (1, count) or not np.isfinite(numbers).all():
        expected = f"one finite number for all, or {count} for {name}" if count > 1 else f"one finite number for {name}"
        raise InputError("fix_parameters: the values do not fit the tensor.", f"{len(numbers)} of them", expected)
    return numbers
