"""Named parameters side by side in one vector of free coordinates."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tati_re.core import ops
from tati_re.core.errors import InputError, abbreviated, nearest, refuse_if
from tati_re.supports.contract import Support
from tati_re.supports.make import from_config

RESERVED = ("step", "walker", "temperature", "replica", "rung", "weight", "loss", "potential")
"""Columns of a trajectory, which no single number may be called."""


class ParameterLayout:
    """Where the free coordinates of each parameter lie in the vector that is sampled.

    Args:
        supports: The support of each parameter by its name, in the order of the vector.

    Raises:
        InputError: No parameters, a name that is no identifier, or something else than a support.
    """

    def __init__(self, supports: Mapping[str, Support]) -> None:
        expected = 'parameters={"beta": real(4), "sigma": positive()}, from tati_re.supports'
        refuse_if(not supports, "parameters: there are none.", expected=expected)
        for name, support in supports.items():
            wrong = not isinstance(name, str) or not name.isidentifier()
            refuse_if(
                wrong, "parameters: this is not a name.", abbreviated(name, 40, repr), expected
            )
            refuse_if(
                not isinstance(support, Support),
                f"parameters: {name} has no support.",
                abbreviated(support, 60),
                expected,
            )
            refuse_if(
                name in RESERVED and not support.shape,
                f"parameters: {name} is already a column of the trajectory.",
                expected=f"another name than {', '.join(RESERVED)}",
            )
        self.supports = dict(supports)
        ends = itertools.accumulate(support.size for support in self.supports.values())
        self._ends = dict(zip(self.supports, ends, strict=True))

    @property
    def dimension(self) -> int:
        """The number of free coordinates."""
        return max(self._ends.values())

    def constrain(self, position: Any) -> tuple[dict[str, Any], Any]:
        """Maps free coordinates to the parameters.

        Args:
            position: Free coordinates, an array or a tensor, `(n, dimension)`.

        Returns:
            The parameters by name, `(n, *shape)`, and the log of the Jacobian determinant, `(n,)`.
        """
        values: dict[str, Any] = {}
        log_jacobian: Any = 0.0
        for name, support in self.supports.items():
            free = position[:, self._ends[name] - support.size : self._ends[name]]
            free = ops.reshape(free, (-1, *support.free_shape))
            values[name], part_log_jacobian = support.constrain(free)
            log_jacobian = log_jacobian + part_log_jacobian
        return values, log_jacobian

    def unconstrain(self, values: Mapping[str, Any], walkers: int = 1) -> np.ndarray:
        """Maps parameters to free coordinates; those that are left out are 0 there.

        Args:
            values: Parameters by name, `(*shape)`, or `(walkers, *shape)`.
            walkers: The number of walkers. Default: 1.

        Returns:
            Free coordinates, float64, `(walkers, dimension)`.

        Raises:
            InputError: Another name, shape or number of walkers, or values outside of a support.
        """
        refuse_if(
            not isinstance(values, Mapping),
            "inits: this is not a table of parameters.",
            abbreviated(values, 60),
            'inits={"sigma": 1.0}',
        )
        free = np.zeros((walkers, self.dimension))
        for name, value in values.items():
            known = ", ".join(self.supports)
            refuse_if(
                name not in self.supports,
                f"inits: there is no parameter {name}.{nearest(str(name), self.supports)}",
                expected=known,
            )
            support = self.supports[name]
            constrained = support.checked(name, value)
            several = constrained.ndim > len(support.shape)
            refuse_if(
                several and constrained.shape[0] != walkers,
                f"inits: {name} has another number of walkers.",
                f"shape {constrained.shape}",
                f"{support.shape} for all walkers, or {(walkers, *support.shape)}",
            )
            unconstrained = support.unconstrain(constrained).reshape(-1, support.size)
            free[:, self._ends[name] - support.size : self._ends[name]] = unconstrained
        return free

    def free_names(self) -> tuple[list[str], list[tuple[int, ...]]]:
        """Names and shapes of the free coordinates of each parameter, such as `log(sigma)`."""
        names = []
        for name, support in self.supports.items():
            names.append(f"{support.transform}({name})" if support.transform else name)
        return names, [support.free_shape for support in self.supports.values()]

    def entry_names(self) -> list[str]:
        """Names of all entries of the parameters, such as `theta[0]` and `L[1,0]`."""
        return [
            entry
            for name, support in self.supports.items()
            for entry in entries_of(name, support.shape)
        ]

    def entries(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """All entries of parameters side by side, in the order of `entry_names`.

        Args:
            values: Parameters by name, `(n, *shape)` each.

        Returns:
            The entries, `(n, entries)`.
        """
        parts = [values[name].reshape(len(values[name]), -1) for name in self.supports]
        return np.concatenate(parts, axis=1)

    def get_config(self) -> list[dict[str, Any]]:
        """The names and supports, for a manifest."""
        return [{"name": name, **support.get_config()} for name, support in self.supports.items()]

    @classmethod
    def from_config(cls, config: Sequence[Mapping[str, Any]]) -> ParameterLayout:
        """The layout that a manifest describes.

        Args:
            config: What `get_config` gave.

        Raises:
            InputError: A support that is not known.
        """
        for entry in config:
            if not {"name", "kind", "shape"} <= {*entry}:
                raise InputError(
                    "The manifest describes a parameter without name, kind or shape.",
                    abbreviated(dict(entry), 60),
                    "the manifest as the run wrote it",
                )
        return cls({str(entry["name"]): from_config(entry) for entry in config})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParameterLayout) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash(tuple(self.supports))


def entries_of(name: str, shape: tuple[int, ...]) -> list[str]:
    """The names of the entries of an array, in the order of its numbers.

    Args:
        name: The name of the array.
        shape: Its shape; empty for a number.
    """
    if not math.prod(shape) or not shape:
        return [name] if not shape else []
    indices = itertools.product(*(range(size) for size in shape))
    return [f"{name}[{','.join(map(str, place))}]" for place in indices]
