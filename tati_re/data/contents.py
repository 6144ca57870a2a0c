"""The contents of a file or stream before the kind of targets is settled, and several of them
joined.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.categories import Categories
from tati_re.data.disk_arrays import concatenated
from tati_re.data.packing import Layout


@dataclass(frozen=True, eq=False)
class Contents:
    """The arrays of a file or another source, as they were read.

    Args:
        inputs: The inputs, shape (N, ...).
        targets: The labels, shape (N,) or (N, K): numbers, or names of classes.
        test: Inputs and labels of a test set. Default: None.
        name: Name of the data in messages, such as the name of the file. Default: "arrays".
        names: Names of the input columns. Default: none.
        label_names: Names of the label columns. Default: none.
        input_scale: Factor of the inputs before the network, such as 1/255 for bytes. Default: 1.
        by_value: Whether integral floats among the labels count as integers, as in a text file
            without decimal points. Default: False.
        weights: Sample weights, shape (N,). Default: None, 1 each.
        test_weights: Sample weights of the test set. Default: None, 1 each.
        layout: Positions of several inputs that are concatenated in `inputs`. Default: one input.
        layout_scales: Factors already multiplied into several inputs. Default: none.
        categories: Categories of the columns of text, whose numbers are in `inputs`. Default: none.
    """

    inputs: np.ndarray
    targets: np.ndarray
    test: tuple[np.ndarray, ...] = ()
    name: str = "arrays"
    names: tuple[str, ...] = ()
    label_names: tuple[str, ...] = ()
    input_scale: float = 1.0
    by_value: bool = field(default=False)
    weights: np.ndarray | None = None
    test_weights: np.ndarray | None = None
    layout: Layout = ()
    layout_scales: tuple[float, ...] = ()
    categories: tuple[Categories, ...] = ()


def joined(parts: Sequence[Contents]) -> Contents:
    """Joins the contents of several files, one after the other."""
    first = parts[0]
    if len(parts) == 1:
        return first
    for other in parts[1:]:
        pairs = {"inputs": (other.inputs, first.inputs), "targets": (other.targets, first.targets)}
        for kind, (have, want) in pairs.items():
            problem = f"{other.name} and {first.name} hold {kind} of different shapes and cannot be joined."
            refuse_if(have.shape[1:] != want.shape[1:], problem, have.shape[1:], want.shape[1:])
        if other.input_scale != first.input_scale:
            received = f"{first.inputs.dtype} and {other.inputs.dtype}"
            raise InputError(
                f"{other.name} and {first.name} hold inputs of different types.",
                received,
                "one type",
            )
        if (other.weights is None) != (first.weights is None):
            raise InputError(
                f"Only one of {first.name} and {other.name} has sample weights.",
                expected="both or neither",
            )
        if bool(other.test) != bool(first.test):
            raise InputError(
                f"Only one of {first.name} and {other.name} has a test set.",
                expected="both or neither",
            )
    test = tuple(concatenated([part.test[i] for part in parts]) for i in range(len(first.test)))
    inputs = concatenated([part.inputs for part in parts])
    targets = np.concatenate([part.targets for part in parts])
    name = f"{first.name} and {len(parts) - 1} more"
    weights = None if first.weights is None else np.concatenate([part.weights for part in parts])
    return replace(
        first,
        inputs=inputs,
        targets=targets,
        test=test,
        name=name,
        weights=weights,
        by_value=all(part.by_value for part in parts),
    )
