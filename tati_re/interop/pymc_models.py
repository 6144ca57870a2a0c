"""Models of PyMC, computed by PyTensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_input import error_text
from tati_re.interop.outside_density import OutsideDensity, OutsideModel, refuse_missing


@front_door
def from_pymc(model: Any) -> OutsideDensity:
    """Returns the posterior of a PyMC model as a density for `Simulation(potential=...)`.

    Value and gradient are the function that PyMC compiles for its own samplers. It is called for
    one chain after the other.

    Args:
        model: A `pymc.Model`.

    Returns:
        The density.

    Raises:
        InputError: PyMC is not installed, the argument is no model, or the model has discrete
            parameters.
    """
    try:
        import pymc
    except ImportError as error:
        refuse_missing("pymc", error)
    expected = "a pymc.Model with continuous parameters"
    refuse_if(
        not isinstance(model, pymc.Model), "from_pymc: this is not a model.", repr(model), expected
    )
    discrete = [value.name for value in model.discrete_value_vars]
    refuse_if(
        discrete,
        "from_pymc: the model has discrete parameters.",
        ", ".join(discrete),
        f"{expected}, such as pymc_extras.marginalize gives",
    )
    try:
        return OutsideDensity(_PymcModel(model))
    except InputError:
        raise
    except Exception as error:
        raise InputError("from_pymc: the model fails.", error_text(error, 160), expected) from error


class _PymcModel(OutsideModel):
    """A model by the function of its log density and gradient, and of its variables.

    Args:
        model: A `pymc.Model`.
    """

    def __init__(self, model: Any) -> None:
        self.name = model.name or "model"
        point = model.initial_point()
        values = model.continuous_value_vars
        names = {model.rvs_to_values[rv].name: rv.name for rv in model.free_RVs}
        self._value_names = [value.name for value in values]
        self._value_shapes = [np.shape(point[name]) for name in self._value_names]
        self.free_shapes = {
            names[name]: shape
            for name, shape in zip(self._value_names, self._value_shapes, strict=True)
        }
        if not values:
            return
        self._both = model.logp_dlogp_function(
            grad_vars=values, ravel_inputs=True, initial_point=point
        )
        self._both.set_extra_values({})
        hidden = {*self._value_names} - {*self.free_shapes}
        shown = [value for value in model.unobserved_value_vars if value.name not in hidden]
        self._shown_names = [value.name for value in shown]
        self._shown = model.compile_fn(shown, inputs=values, on_unused_input="ignore")

    def value_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        computed = [self._both(row.copy()) for row in position]
        values = np.array([-float(value) for value, _ in computed])
        slopes = np.array([-np.asarray(slope) for _, slope in computed])
        return values, slopes.reshape(position.shape)

    def constrained(self, position: np.ndarray) -> dict[str, np.ndarray]:
        rows = [self._shown(self._point(row)) for row in position]
        return {
            name: np.stack([np.asarray(row[k]) for row in rows])
            for k, name in enumerate(self._shown_names)
        }

    def _point(self, row: np.ndarray) -> dict[str, np.ndarray]:
        """A position as PyMC's values by name."""
        computed = {}
        first = 0
        for name, shape in zip(self._value_names, self._value_shapes, strict=True):
            size = int(np.prod(shape))
            computed[name] = row[first : first + size].reshape(shape)
            first += size
        return computed
