"""A model that another library computes, as a density of named parameters."""

from __future__ import annotations

import keyword
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.interop.recognition import recognized
from tati_re.posterior.named_density import NamedDensity
from tati_re.supports import real
from tati_re.supports.contract import Support
from tati_re.supports.layout import RESERVED, ParameterLayout


class OutsideModel(ABC):
    """Density, gradient and transforms of a model of another library, in NumPy and float64.

    Attributes:
        name: The name of the model.
        free_shapes: The shape of the free coordinates of each parameter, by its name, in the order
            of the vector that is sampled.
    """

    name: str
    free_shapes: Mapping[str, tuple[int, ...]]

    @abstractmethod
    def value_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns U = -log density of free coordinates, with the Jacobian, and its gradient.

        Args:
            position: Free coordinates, shape (n, dimension).

        Returns:
            U, shape (n,), and its gradient, shape (n, dimension).
        """

    @abstractmethod
    def constrained(self, position: np.ndarray) -> dict[str, np.ndarray]:
        """Returns all parameters, and quantities computed from them, by the library's transforms.

        Args:
            position: Free coordinates, shape (n, dimension).

        Returns:
            Values by name, shape (n, *shape) each.
        """


@front_doors
class OutsideDensity(NamedDensity):
    """A model of another library, for `Simulation(potential=...)`.

    Free coordinates, their density and its gradient are the library's. If the transform of a
    parameter agrees with one of the package's supports, its draws, summary and conditions are of
    the constrained values. A parameter with another transform is sampled and summarized in its free
    coordinates, under its name with `_free`. Its constrained values, and all deterministic
    quantities, are in `run.generated`, computed by the library.

    Args:
        model: The model.

    Raises:
        InputError: The model has no continuous parameters.
    """

    @front_door
    def __init__(self, model: OutsideModel) -> None:
        refuse_if(
            not model.free_shapes,
            f"{model.name}: the model has no continuous parameters.",
            expected="a model with at least one",
        )
        self.model = model
        self.name = model.name
        self.dtype = "float64"
        self.data = {}
        self.log_likelihood = None
        self.layout = ParameterLayout(_supports_of(model))
        origin = model.constrained(np.zeros((1, self.dimension)))
        others = {_identifier(name) for name in origin} - {*self.layout.supports}
        self.generated = dict.fromkeys(sorted(others), self._refuse)

    def __call__(self, position: Any) -> Any:
        """U of free coordinates and its gradient, in NumPy.

        Args:
            position: Free coordinates, `(walkers, dimension)`.

        Returns:
            U, `(walkers,)`, and its gradient, `(walkers, dimension)`.
        """
        positions = np.asarray(position, np.float64)
        if positions.ndim != 2:
            raise ValueError(f"positions of shape {positions.shape}")
        with np.errstate(all="ignore"):  # nan says that there is no density
            return self.model.value_and_gradient(positions)

    def generate(self, values: Mapping[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
        """Returns the other quantities of each draw.

        Args:
            values: Parameters by name, `(draws, *shape)` each.
            seed: Not used: the quantities are not random.

        Returns:
            Arrays by name, `(draws, *shape)` each.
        """
        count = len(next(iter(values.values())))
        position = self.layout.unconstrain(values, walkers=count)
        constrained = self.model.constrained(position)
        named = {_identifier(name): value for name, value in constrained.items()}
        return {name: named[name] for name in self.generated}

    def with_data(self, data: Mapping[str, Any]) -> NoReturn:
        """Refused: the library holds the data.

        Args:
            data: Not used.

        Raises:
            InputError: Always.
        """
        raise InputError(f"{self.name}: its data cannot be replaced.", expected="another model")

    def _refuse(self) -> NoReturn:
        raise InputError(f"{self.name}: its quantities are computed for all draws at once.")


def _supports_of(model: OutsideModel) -> dict[str, Support]:
    """The support of each parameter; where none is recognized, real free coordinates."""
    supports = {}
    first = 0
    dimension = sum(int(np.prod(shape)) for shape in model.free_shapes.values())
    for name, free_shape in model.free_shapes.items():
        size = int(np.prod(free_shape))
        columns = slice(first, first + size)
        first += size

        def constrain(free: np.ndarray, name: str = name, columns: slice = columns) -> np.ndarray:
            others = np.random.default_rng(len(name)).standard_normal((len(free), dimension))
            others[:, columns] = free.reshape(len(free), -1)
            return np.asarray(model.constrained(others)[name], np.float64)

        support = recognized(constrain, free_shape)
        if support is None:
            supports[f"{_identifier(name)}_free"] = real(*free_shape)
        else:
            supports[_identifier(name)] = support
    return supports


def _identifier(name: str) -> str:
    """A name that a table of parameters can have."""
    identifier = re.sub(r"\W", "_", name)
    if not identifier.isidentifier() or keyword.iskeyword(identifier) or identifier in RESERVED:
        identifier = f"{identifier}_" if identifier[:1].isalpha() else f"p_{identifier}"
    return identifier


def refuse_missing(package: str, error: ImportError) -> NoReturn:
    """Raises an error that says which package is to be installed.

    Args:
        package: Its name.
        error: What the import raised.

    Raises:
        InputError: Always.
    """
    raise InputError(
        f"from_{package}: {package} is not installed.",
        str(error),
        f"pip install tati_re[{package}]",
    ) from error
