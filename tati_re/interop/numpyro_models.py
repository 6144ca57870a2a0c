"""Models of NumPyro, computed by JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_input import error_text
from tati_re.interop.outside_density import OutsideDensity, OutsideModel, refuse_missing
from tati_re.posterior.named_density import name_of


@front_door
def from_numpyro(model: Callable, *args: Any, **kwargs: Any) -> OutsideDensity:
    """Returns the posterior of a NumPyro model as a density for `Simulation(potential=...)`.

    Value and gradient are `jax.value_and_grad` of NumPyro's potential, compiled and vectorized over
    chains, in float64.

    Args:
        model: A NumPyro model.
        *args: Its positional arguments, such as data.
        **kwargs: Its named arguments, such as observed values.

    Returns:
        The density.

    Raises:
        InputError: NumPyro is not installed, the model fails, or it has no continuous parameters.
    """
    try:
        import jax
        import numpyro
    except ImportError as error:
        refuse_missing("numpyro", error)
    expected = "a NumPyro model and its arguments: from_numpyro(model, x, y=y)"
    refuse_if(not callable(model), "from_numpyro: this is not a function.", repr(model), expected)
    try:
        with _double(jax):
            info = numpyro.infer.util.initialize_model(
                jax.random.PRNGKey(0), model, model_args=args, model_kwargs=kwargs
            )
            return OutsideDensity(_NumpyroModel(jax, info, name_of(model)))
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            "from_numpyro: the model fails.", error_text(error, 160), expected
        ) from error


def _double(jax: Any) -> Any:
    """A context in which JAX computes in float64, whatever its configuration."""
    try:
        return jax.enable_x64(True)
    except AttributeError:  # before JAX 0.8
        return jax.experimental.enable_x64(True)


class _NumpyroModel(OutsideModel):
    """A model by NumPyro's potential and its constraints.

    Args:
        jax: The package.
        info: What NumPyro's `initialize_model` returns.
        name: The name of the model.
    """

    def __init__(self, jax: Any, info: Any, name: str) -> None:
        start = dict(sorted(info.param_info.z.items()))
        self.name = name
        self.free_shapes = {site: tuple(np.shape(value)) for site, value in start.items()}
        self._jax = jax
        if not start:
            return
        # Dictionaries are flattened in the order of their keys.
        _, unravel = jax.flatten_util.ravel_pytree(start)

        def potential(position: Any) -> Any:
            return info.potential_fn(unravel(position))

        def constrain(position: Any) -> Any:
            return info.postprocess_fn(unravel(position))

        self._both = jax.jit(jax.vmap(jax.value_and_grad(potential)))
        self._constrain = jax.jit(jax.vmap(constrain))

    def value_and_gradient(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with _double(self._jax):
            values, slopes = self._both(position)
            return np.asarray(values), np.asarray(slopes)

    def constrained(self, position: np.ndarray) -> dict[str, np.ndarray]:
        with _double(self._jax):
            constrained = self._constrain(position)
            return {name: np.asarray(value) for name, value in constrained.items()}
