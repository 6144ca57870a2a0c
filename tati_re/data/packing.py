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
    """Whether inputs are several arrays of a row per example; a list of as many rows as examples
    (`count`) is one.
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
    """Several inputs as one array, and their layout; each is multiplied by its scale, 1 where there
    are none. Inputs are arrays `(N, ...)` by name, or in the order of the model's inputs;
    one-dimensional ones are `(N, 1)`.
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
    """Inputs in the form of a data set's: several in the order of its layout, columns of a data
    frame by name, columns of text as the numbers of `categories`. `scales` are those of its inputs:
    what has been multiplied by them already is refused.
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
    """Refuses inputs that look as if a scale below 1, such as 1/255 for bytes, were in them
    already.
    """
    done = scale < 1.0 and values.dtype.kind == "f" and values.size and values.max() <= 1.0
    problem = f"inputs: they are multiplied by 1/{1 / scale:g} here, but seem to be scaled already."
    refuse_if(
        done, problem, f"{values.dtype} up to 1", f"numbers as in the data, up to {1 / scale:g}"
    )


def order_of(layout: Layout, target_layout: Layout) -> np.ndarray | None:
    """The permutation of packed columns into the order of a model; None if they are in it."""
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
