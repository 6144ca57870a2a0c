"""What users hand over in Python: arrays, and functions of their own, with one sentence for each
that is not right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import InputError, refuse_if

if TYPE_CHECKING:
    import numpy as np


def as_array(values: Any, name: str, dtype: Any = None, numbers: bool = False) -> np.ndarray:
    """An array of what was given as `name`; with a `dtype` or `numbers` it must be integers, floats
    or booleans. Masked entries, rows of unequal lengths, and what cannot be made an array of such a
    type are an `InputError`.
    """
    import numpy as np  # not with the help of a command

    problem = f"{name}: a masked array has missing numbers."
    expected = "an array without a mask, such as the unmasked rows, or filled(...)"
    refuse_if(masked := _masked(values), problem, f"{masked} masked entries", expected)
    padded = "rows of equal length, for example by keras.utils.pad_sequences"
    try:
        array = np.asarray(values)
    except Exception as error:
        # Arrays of other libraries raise what they like, such as those that live on a GPU.
        if isinstance(error, ValueError) and "inhomogeneous" in str(error):
            raise InputError(
                f"{name} has rows of unequal lengths.", type(values).__name__, padded
            ) from None
        received = f"{type(values).__name__} ({error_text(error)})"
        raise InputError(
            f"{name} cannot be converted to a NumPy array.", received, "an array of numbers"
        ) from error
    if (numbers or dtype is not None) and array.dtype.kind not in "buif":
        raise InputError(
            f"{name} are not numbers.", f"an array of type {array.dtype}", "integers or floats"
        )
    if dtype is None and array.dtype.kind == "f" and array.dtype.itemsize > 8:
        dtype = np.float64  # TensorFlow has no longer one
    return array if dtype is None else array.astype(dtype)


def _masked(values: Any) -> int:
    """Masked entries of an array, or of the arrays in a list."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.count_masked(values))
    if isinstance(values, (list, tuple)) and values and not isinstance(values[0], (int, float)):
        return sum(map(_masked, values))
    return 0


def seeded(seed: Any, *purpose: int) -> np.random.Generator:
    """Random numbers of a seed that a user gave.

    NumPy looks into lists in a list without end, and crashes where one holds itself.

    Args:
        seed: A whole number from 0, or several.
        purpose: Whole numbers that tell apart what the same seed is used for. Default: none.

    Returns:
        The generator of NumPy.

    Raises:
        InputError: The seed is something else.
    """
    import numpy as np  # not with the help of a command

    check_seed(seed)
    return np.random.default_rng([seed, *purpose] if purpose else seed)


def check_seed(seed: Any) -> None:
    """Refuses a seed that is neither a whole number from 0 nor a list of such numbers."""
    import numpy as np  # not with the help of a command

    is_list = isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim == 1)
    entries = list(seed) if is_list else [seed]
    whole = all(isinstance(entry, (int, np.integer)) for entry in entries)
    refuse_if(not whole, "seed is not a whole number.", seed, "a whole number from 0")
    refuse_if(min(entries, default=0) < 0, "seed is out of range.", seed, "a whole number from 0")


@contextmanager
def users_code(subject: str, expected: str) -> Iterator[None]:
    """Makes one sentence of whatever code of users raises; `subject` is the option and the name of the
    code.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        problem = f"{subject} cannot be computed inside the compiled steps ({error_text(error)})."
        raise InputError(problem, expected=expected) from error


def error_text(error: BaseException, most: int = 300) -> str:
    """An exception in one line: its type and message, without colors and what comes after `most`
    characters.
    """
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split()).rstrip(".")
    text = text if len(text) <= most else text[: most - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_change(values: np.ndarray, terms: np.ndarray, tolerance: float, dtype: str) -> bool:
    """Whether the last of `values` less the first is the sum of `terms`, slopes times ways, within
    a part of their sizes and what the type rounds.
    """
    import numpy as np

    difference = float(values[-1]) - float(values[0])
    rounding = 16 * np.finfo(dtype).eps * np.abs(values).max()
    return bool(
        abs(difference - terms.sum())
        <= tolerance * max(np.abs(terms).sum(), abs(difference)) + rounding
    )
