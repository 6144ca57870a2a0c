"""What a support is: the set of values of a parameter, and its change of variables."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.core.front_door import Doors

MOST_ENTRIES = 10_000_000
"""Entries of one parameter; more is taken for a mistake."""


class Support(Doors, ABC):
    """The set of values of a parameter, with a map from unbounded real numbers onto it.

    Samplers move the free coordinates, which have no bounds. Their density is the density of the
    parameter times the Jacobian determinant of the map. The maps follow the Stan reference manual,
    chapter "Constraint transforms".

    All methods work on NumPy arrays and on tensors, with any number of axes before the shape of the
    parameter.

    Attributes:
        kind: The name of the support in a manifest, such as "positive".
        transform: The transform to free coordinates, such as "log"; empty for the identity.
        shape: The shape of the parameter.
        free_shape: The shape of its free coordinates.
    """

    kind: ClassVar[str] = ""
    transform: ClassVar[str] = ""
    shape: tuple[int, ...]
    free_shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of free coordinates."""
        return math.prod(self.free_shape)

    @abstractmethod
    def constrain(self, free: Any) -> tuple[Any, Any]:
        """Maps free coordinates to the parameter.

        Args:
            free: Free coordinates, `(..., *free_shape)`.

        Returns:
            The parameter, `(..., *shape)`, and the log of the absolute value of the Jacobian
            determinant, `(...)`.
        """

    @abstractmethod
    def unconstrain(self, value: np.ndarray) -> np.ndarray:
        """The inverse map.

        Args:
            value: Values inside the support, `(..., *shape)`.

        Returns:
            Free coordinates, `(..., *free_shape)`.
        """

    @abstractmethod
    def contains(self, value: np.ndarray) -> bool:
        """Whether all values lie inside the support, its boundary excluded.

        Args:
            value: Finite values, `(..., *shape)`.

        Returns:
            True if all do.
        """

    @abstractmethod
    def describe(self) -> str:
        """Describes the support in words, such as "above 0".

        Returns:
            A few words.
        """

    def get_config(self) -> dict[str, Any]:
        """Returns the numbers that define the support, for a manifest."""
        return {"kind": self.kind, "shape": list(self.shape)}

    def checked(self, name: str, value: Any) -> np.ndarray:
        """Returns a value of the parameter as an array inside the support.

        Args:
            name: The name of the parameter, for messages.
            value: The value, `(*shape)` or `(walkers, *shape)`.

        Returns:
            An array of float64, in the shape of `value`.

        Raises:
            InputError: The shape differs, or numbers are not finite or outside the support.
        """
        try:
            array = np.asarray(value, np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"{name}: this is not an array of numbers.", abbreviated(value, 60), str(self)
            ) from None
        trailing = array.shape[array.ndim - len(self.shape) :]
        wrong = array.ndim - len(self.shape) not in (0, 1) or trailing != self.shape
        refuse_if(wrong, f"{name}: wrong shape.", array.shape, f"{self.shape} for {self}")
        outside = not np.isfinite(array).all() or not self.contains(array)
        refuse_if(outside, f"{name}: outside of its support.", abbreviated(value, 60), str(self))
        return array

    def __str__(self) -> str:
        where = "a number" if not self.shape else f"an array of shape {self.shape}"
        return f"{where}, {self.describe()}"

    def __repr__(self) -> str:
        return f"<{self}>"

    def __eq__(self, other: object) -> bool:
        same = isinstance(other, Support) and type(other) is type(self)
        return same and isinstance(other, Support) and other.get_config() == self.get_config()

    def __hash__(self) -> int:
        return hash((self.kind, self.shape))


def shape_of(kind: str, sizes: Any) -> tuple[int, ...]:
    """The shape that a user gave: whole numbers, or one tuple of them.

    Args:
        kind: The name of the support, for messages.
        sizes: A whole number, or a sequence of them.

    Raises:
        InputError: Not whole numbers of 1 or more, or too many entries.
    """
    lengths = sizes if isinstance(sizes, Sequence) and not isinstance(sizes, str) else (sizes,)
    if len(lengths) == 1 and isinstance(lengths[0], Sequence) and not isinstance(lengths[0], str):
        lengths = lengths[0]
    are_integers = [
        isinstance(size, int | np.integer) and not isinstance(size, bool) for size in lengths
    ]
    expected = "whole numbers of 1 or more, such as real(4) or real(3, 2)"
    refuse_if(
        not all(are_integers) or any(size < 1 for size in lengths),
        f"{kind}: this is not a shape.",
        abbreviated(sizes, 60),
        expected,
    )
    refuse_if(
        math.prod(lengths) > MOST_ENTRIES,
        f"{kind}: too many entries for one parameter.",
        f"{math.prod(lengths):,}",
        f"at most {MOST_ENTRIES:,}",
    )
    return tuple(int(size) for size in lengths)


def order_of(kind: str, size: Any, least: int) -> int:
    """The number of entries of a vector, or of rows of a matrix.

    Args:
        kind: The name of the support, for messages.
        size: What was given.
        least: The smallest number that makes sense.

    Raises:
        InputError: Not a whole number, too small, or too large.
    """
    shape = shape_of(kind, size) if not isinstance(size, Sequence) else ()
    wrong = len(shape) != 1 or shape[0] < least
    refuse_if(
        wrong,
        f"{kind}: wrong size.",
        abbreviated(size, 60),
        f"one whole number of {least} or more; shape=(n,) makes n of them",
    )
    return shape[0]
