"""The arrays of a checkpoint, which may be missing or of another form than a reader needs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError


class MissingArray(InputError):
    """An array that a checkpoint lacks.

    Args:
        folder: The folder of the run, for the message.
        array: Name of the array.

    Attributes:
        array: Its name.
    """

    def __init__(self, folder: AnyPath, array: str) -> None:
        super().__init__(
            f"The checkpoint in {folder} is not complete.",
            f"no {array}",
            "the file as the run wrote it",
        )
        self.array = array


NUMBERS = "biuf"
"""Kinds of NumPy types that a checkpoint holds: booleans and real numbers."""


class StoredArrays(dict[str, np.ndarray]):
    """The arrays of a checkpoint by name.

    A name that is missing is an `InputError`, not a `KeyError`.

    Args:
        arrays: The arrays by name.
        folder: The folder of the run, for messages.

    Attributes:
        folder: The folder of the run.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], folder: AnyPath) -> None:
        super().__init__(arrays)
        self.folder = folder

    def __missing__(self, name: str) -> np.ndarray:
        raise MissingArray(self.folder, name)

    def like(self, name: str, template: Any) -> np.ndarray:
        """An array with the shape and the type of another one.

        Args:
            name: The name of the array.
            template: An array or a tensor of the shape and type that is needed.

        Returns:
            The array.

        Raises:
            InputError: It is missing, or of another shape or type.
        """
        like_array = np.asarray(template)
        array = self[name]
        if array.shape != like_array.shape or array.dtype != like_array.dtype:
            raise self._unfit(name, f"shape {like_array.shape} of {like_array.dtype}")
        return array

    def of_shape(self, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
        """An array of real numbers of a shape.

        Args:
            name: The name of the array.
            shape: Its lengths; None: any length.

        Returns:
            The array.

        Raises:
            InputError: It is missing, or of another shape or type.
        """
        array = self[name]
        fits = array.ndim == len(shape) and all(
            expected_length in (None, length)
            for length, expected_length in zip(array.shape, shape, strict=True)
        )
        if not fits or array.dtype.kind not in NUMBERS:
            lengths = ", ".join("any" if length is None else str(length) for length in shape)
            raise self._unfit(name, f"shape ({lengths}) of numbers")
        return array

    def num_rows(self, name: str) -> int:
        """The first length of an array; 0 if it is a single number, or missing."""
        return len(self[name]) if name in self and self[name].ndim else 0

    def _unfit(self, name: str, expected: str) -> InputError:
        array = self[name]
        return InputError(
            f"The checkpoint in {self.folder} does not match the run: {name}.",
            f"shape {array.shape} of {array.dtype}",
            expected,
        )
