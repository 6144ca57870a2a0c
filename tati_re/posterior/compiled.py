"""Functions of tensors that are compiled once and called from Python."""

from collections.abc import Callable, Sequence
from typing import Any

from tati_re.core.backend import tf


class Compiled:
    """A function of tensors, traced once for each set of their shapes and types.
    The arguments at the positions `free` may have another number of rows in each call."""

    def __init__(self, function: Callable, free: Sequence[int] = (), jit_compile: bool = False) -> None:
        # A concrete function: TensorFlow takes functions that are made anew for one that it traces again and again.
        self._function = tf.function(function, autograph=False, jit_compile=jit_compile or None)
        self._free, self._traced = free, dict[tuple, Callable]()

    def __call__(self, *arguments: Any) -> Any:
        given = [tf.convert_to_tensor(value) for value in arguments]
        shapes = [(None, *value.shape[1:]) if i in self._free else value.shape for i, value in enumerate(given)]
        key = tuple(zip(shapes, (value.dtype for value in given), strict=True))
        if key not in self._traced:
            self._traced[key] = self._function.get_concrete_function(*(tf.TensorSpec(*spec) for spec in key))
        return self._traced[key](*given)

    def over_pieces(self, size: int, rows: Sequence[Any], *others: Any) -> list:
        """Its results for `(*pieces of rows, *others)`, piece by piece.
        `rows` are arrays or tensors of the same number of rows, of which a piece has at most `size`."""
        starts = range(0, max(1, rows[0].shape[0]), size)
        return [self(*(values[start : start + size] for values in rows), *others) for start in starts]
