"""Several inputs of a model side by side in one array, `(N, numbers of all inputs)`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.user_input import as_array
from tati_re.data.categories import Categories, check_codes, with_codes
from tati_re.data.frames import in_order, numbers_of, rows_by_name

Layout = tuple[tuple[str, tuple[int, ...]], ...]
"""Name (empty where it has none) and shape of one example of each input, in their order."""

_MOST = 2**24  # Whole numbers up to here are exact in float32.


def is_several(inputs: Any, count: int | None = None) -> bool:
    """Whether inputs are several arrays, each with a row for every example.

    Args:
        inputs: A mapping, which always is several inputs, or a list or tuple of arrays; anything
            else is one input.
        count: The number of examples. A list of this length is one input, a row in each entry.
            Default: None, not known.
    """
    if isinstance(inputs, Mapping):
        return True
    if not isinstance(inputs, (list, tuple)) or len(inputs) < 2 or len(inputs) == count:
        return False
    if not all(hasattr(part, "shape") and len(part.shape) for part in inputs):
        return False
    lengths = {len(part) for part in inputs}
    return len(lengths) == 1 and (count is None or lengths == {count})


def packed(
    inputs: Mapping[str, Any] | Sequence[Any], scales: Sequence[float] = ()
) -> tuple[np.ndarray, Layout]:
    """Several inputs as one array, and their layout.

    Args:
        inputs: Arrays (N, ...) by name, or in the order of the model's inputs. One-dimensional
            arrays count as (N, 1).
        scales: Factor for each input. Default: none, 1 each.

    Returns:
        Array of shape (N, numbers of all inputs), float64 if an input is, else float32; name and
        shape of each input.

    Raises:
        InputError: Lengths differ, an input has no numbers, or integers exceed 2**24.
    """
    names = [str(name) for name in inputs] if isinstance(inputs, Mapping) else [""] * len(inputs)
    values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
    refuse_if(
        not values,
        "data has no inputs.",
        "an empty mapping",
        "arrays, one for each name of the model's inputs",
    )
    arrays = [
        numbers_of(value, f"data: input {name}".rstrip())
        for name, value in zip(names, values, strict=True)
    ]
    for name, array in zip(names, arrays, strict=True):
        called = f" {name}" if name else ""
        if array.dtype.kind not in "buif" or not array.ndim:
            raise InputError(
                f"data: input{called} is not an array of numbers.", f"type {array.dtype}", "numbers"
            )
        if (
            array.dtype.kind in "ui"
            and array.size
            and max(abs(int(array.max())), abs(int(array.min()))) > _MOST
        ):
            raise InputError(
                f"data: input{called} contains integers that are too large.",
                expected=f"up to {_MOST:,}",
            )
    counts = [len(array) for array in arrays]
    if len(set(counts)) > 1:
        raise InputError(
            "data: the inputs have unequal lengths.",
            ", ".join(map(str, counts)),
            "one row per example",
        )
    kind = np.float64 if any(array.dtype == np.float64 for array in arrays) else np.float32
    factors = scales or [1.0] * len(arrays)
    scaled = [
        a if factor == 1.0 else a * kind(factor) for a, factor in zip(arrays, factors, strict=True)
    ]
    flat = np.concatenate([array.reshape(len(array), -1).astype(kind) for array in scaled], axis=1)
    return flat, tuple(
        (name, array.shape[1:] or (1,)) for name, array in zip(names, arrays, strict=True)
    )


def as_packed(
    inputs: Any,
    layout: Layout,
    names: Sequence[str] = (),
    scales: Sequence[float] = (),
    categories: Sequence[Categories] = (),
) -> np.ndarray:
    """Inputs in the form in which a data set stores them.

    Args:
        inputs: Rows of inputs. Several inputs are sorted in the order of the layout, columns of a
            data frame by name.
        layout: Names and shapes of several inputs of the data; empty for one input.
        names: Names of the input columns of the data. Default: none.
        scales: Factors of the inputs of the data. Inputs that seem to be multiplied by them already
            are refused. Default: none, 1 each.
        categories: Categories of columns of text, which become their numbers. Default: none.

    Returns:
        One array, shape (n, ...); several inputs side by side, multiplied by their scales.

    Raises:
        InputError: The inputs do not match the data.
    """
    if not layout:
        inputs = rows_by_name(inputs, names, "inputs")
    scales = scales if len(scales) == max(1, len(layout)) else [1.0] * max(1, len(layout))
    if not layout or not is_several(inputs) or len(inputs) != len(layout):
        ordered = in_order(inputs, names, "inputs")
        coded, _ = with_codes(_as_rows(ordered, categories), categories, names, "inputs")
        values = as_array(numbers_of(coded, "inputs"), "inputs", numbers=True)
        check_codes(values, categories, names)
        if not layout:
            refuse_scaled(values, scales[0])
        return values
    if isinstance(inputs, Mapping):
        known = [name for name, _ in layout]
        problem = "inputs by name: the inputs of the data have no names."
        refuse_if(
            not any(known),
            problem,
            ", ".join(inputs),
            f"a list of {len(known)} arrays in the order of the data",
        )
        for name in known:
            refuse_if(
                name not in inputs, f"inputs lack '{name}'.", ", ".join(inputs), ", ".join(known)
            )
        inputs = [inputs[name] for name in known]
    for part, scale in zip(inputs, scales, strict=True):
        refuse_scaled(np.asarray(part), scale)
    values, packed_layout = packed(inputs, scales)
    if [math.prod(shape) for _, shape in packed_layout] != [
        math.prod(shape) for _, shape in layout
    ]:
        shapes = ", ".join(str(shape) for _, shape in packed_layout)
        raise InputError(
            "inputs do not match the data.", shapes, ", ".join(str(shape) for _, shape in layout)
        )
    return values


def _as_rows(inputs: Any, categories: Sequence[Categories]) -> Any:
    """Lists of rows with texts as an array of objects, `(n, columns)`; anything else as it is."""
    if not categories or not isinstance(inputs, (list, tuple)):
        return inputs
    return np.array(inputs, dtype=object)


def refuse_scaled(values: np.ndarray, scale: float) -> None:
    """Refuses inputs that seem to be multiplied by their scale already.

    Args:
        values: One input, shape (n, ...).
        scale: Its factor. Only a factor below 1, such as 1/255 for bytes, is checked.

    Raises:
        InputError: The inputs are floats of at most 1.
    """
    done = scale < 1.0 and values.dtype.kind == "f" and values.size and values.max() <= 1.0
    problem = f"inputs: they are multiplied by 1/{1 / scale:g} here, but seem to be scaled already."
    refuse_if(
        done, problem, f"{values.dtype} up to 1", f"numbers as in the data, up to {1 / scale:g}"
    )


def order_of(layout: Layout, target_layout: Layout) -> np.ndarray | None:
    """The permutation of packed columns into the order of a model; None if they are in it.

    Args:
        layout: Names and shapes of the inputs of the data.
        target_layout: Names and shapes of the inputs of the model.

    Returns:
        Numbers of columns, shape (columns,), or None.

    Raises:
        InputError: The model lacks an input of this name, or shapes differ.
    """
    names = [name for name, _ in layout]
    theirs = [name for name, _ in target_layout]
    order = list(range(len(layout)))
    if any(names):
        for name in names:
            problem = f"data: the model has no input '{name}'.{nearest(name, theirs)}"
            refuse_if(name not in theirs, problem, ", ".join(names), ", ".join(theirs))
        order = [names.index(name) for name in theirs if name in names]
    sizes = [math.prod(layout[i][1]) for i in order]
    if layout and sizes != [math.prod(shape) for _, shape in target_layout]:
        received = ", ".join(f"{name} {shape}".strip() for name, shape in layout)
        expected = ", ".join(f"{name} {shape}" for name, shape in target_layout)
        raise InputError("data: the inputs do not fit the inputs of the model.", received, expected)
    if order == list(range(len(layout))):
        return None
    starts = np.cumsum([0, *(math.prod(shape) for _, shape in layout)])
    return np.concatenate([np.arange(starts[i], starts[i + 1]) for i in order])
