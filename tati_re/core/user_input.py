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
    """Converts what a user gave to an array.

    Args:
        values: Numbers, lists of them, or an array of any library.
        name: Its name in messages.
        dtype: Number type of the array; the values must then be integers, floats or booleans.
            Default: None, their type; floats of more than 64 bits become float64.
        numbers: Whether the values must be integers, floats or booleans. Default: False.

    Raises:
        InputError: Entries are masked, rows have unequal lengths, or the values cannot be made an
            array of such a type.
    """
    import numpy as np  # not with the help of a command

    problem = f"{name}: a masked array has missing numbers."
    expected = "an array without a mask, such as the unmasked rows, or filled(...)"
    refuse_if(masked := masked_entries(values), problem, f"{masked} masked entries", expected)
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


def masked_entries(values: Any) -> int:
    """The number of masked entries of an array, or of the arrays in a list."""
    import numpy as np

    if isinstance(values, np.ma.MaskedArray):
        return int(np.ma.count_masked(values))
    if isinstance(values, (list, tuple)) and values and not isinstance(values[0], (int, float)):
        return sum(map(masked_entries, values))
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
    """Turns any exception of a user's code into one sentence.

    Args:
        subject: The option and the name of the code, which begin the sentence.
        expected: Code that would work, for the message.

    Raises:
        InputError: The code raised an exception. An `InputError` of the code passes unchanged.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        problem = f"{subject} cannot be computed inside the compiled steps ({error_text(error)})."
        raise InputError(problem, expected=expected) from error


def error_text(error: BaseException, most: int = 300) -> str:
    """An exception in one line: its type and its message, without colors.

    Args:
        error: The exception.
        most: Largest number of characters of the message; a longer one is cut. Default: 300.
    """
    text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split()).rstrip(".")
    text = text if len(text) <= most else text[: most - 3] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_change(values: np.ndarray, terms: np.ndarray, tolerance: float, dtype: str) -> bool:
    """Whether the change of a function along a line agrees with its slopes.

    Args:
        values: Values of the function along the line; the first and the last are compared.
        terms: Slope times distance for each direction; their sum is the expected change.
        tolerance: Allowed deviation as a fraction of the larger of two numbers: the sum of the
            sizes of `terms`, and the size of the change.
        dtype: Number type of the computation, such as "float32". Its rounding errors are allowed
            too.
    """
    import numpy as np

    difference = float(values[-1]) - float(values[0])
    rounding = 16 * np.finfo(dtype).eps * np.abs(values).max()
    return bool(
        abs(difference - terms.sum())
        <= tolerance * max(np.abs(terms).sum(), abs(difference)) + rounding
    )
