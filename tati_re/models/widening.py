"""Parameters of a dense network in a wider one that is the same function."""

from collections.abc import Sequence

import numpy as np


def widened_parameters(
    position: np.ndarray,
    shapes: Sequence[Sequence[int]],
    wide_shapes: Sequence[Sequence[int]],
    fresh: np.ndarray,
) -> np.ndarray:
    """Carries the parameters of dense layers into wider layers without changing the function.

    Old units keep their weights and biases. New units take theirs from `fresh`, and nothing passes
    from them to old units or outputs: those weights are 0, and descent or sampling moves them.

    Args:
        position: Parameters of the small network, `(walkers, parameters)`.
        shapes: Shapes of its tensors, kernels `(inputs, units)` and biases `(units,)`.
        wide_shapes: Shapes of the wide network's tensors, in the same order, nowhere smaller.
        fresh: Parameters for the new units, `(walkers, wide parameters)`.

    Returns:
        Parameters of the wide network, `(walkers, wide parameters)`, in the type of `position`.
    """
    parts = []
    pieces = zip(
        _split(position, shapes), _split(fresh, wide_shapes), shapes, wide_shapes, strict=True
    )
    for old, new, shape, wide_shape in pieces:
        tensor = new.reshape(-1, *wide_shape).astype(position.dtype)
        units = shape[-1]
        if len(shape) == 2:
            inputs = shape[0]
            tensor[:, inputs:, :units] = 0.0
            tensor[:, :inputs, :units] = old.reshape(-1, *shape)
        else:
            tensor[:, :units] = old
        parts.append(tensor.reshape(len(position), -1))
    return np.concatenate(parts, axis=1)


def _split(position: np.ndarray, shapes: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """The part of each tensor, `(walkers, size)`."""
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    return np.split(position, ends[:-1], axis=1)
