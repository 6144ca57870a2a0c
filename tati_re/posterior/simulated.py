"""Parameters and data that a user's function simulates from a model, checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, abbreviated, refuse_if
from tati_re.core.user_input import as_array, error_text, seeded
from tati_re.supports.layout import ParameterLayout

EXPECTED = "a function simulate(rng) that returns (parameters, data), two dicts of arrays"


class SimulatedPairs:
    """True values and data from a user's function, checked.

    Args:
        simulate: The function.
        layout: The parameters of the model.
    """

    def __init__(self, simulate: Callable, layout: ParameterLayout) -> None:
        self.simulate = simulate
        self.layout = layout
        self._forms: dict[str, Any] = {}

    def drawn(self, seed: int, number: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Returns true values and data of one replication.

        Args:
            seed: The seed of all replications.
            number: The number of this one, from 0.
        """
        random = seeded(seed, number)
        try:
            simulated = self.simulate(random)
        except Exception as error:
            raise InputError(
                "simulate: the function fails.", error_text(error, 160), EXPECTED
            ) from error
        pair = isinstance(simulated, tuple) and len(simulated) == 2
        good = pair and all(isinstance(part, Mapping) for part in simulated)
        refuse_if(
            not good,
            "simulate: it does not return two dicts.",
            abbreviated(simulated, 60),
            EXPECTED,
        )
        values, data = simulated
        known = self.layout.supports
        refuse_if(
            {*values} != {*known},
            "simulate: it does not return the parameters of the model.",
            ", ".join(map(str, values)),
            ", ".join(known),
        )
        truth = {name: known[name].checked(f"simulate: {name}", values[name]) for name in known}
        for name, value in truth.items():
            shape = known[name].shape
            refuse_if(value.shape != shape, f"simulate: {name}: wrong shape.", value.shape, shape)
        self._check_form(data)
        return truth, dict(data)

    def _check_form(self, data: Mapping[str, Any]) -> None:
        """Refuses data whose names or shapes differ from the first call."""
        forms = {name: _form(name, value) for name, value in data.items()}
        self._forms = self._forms or forms
        for name in {**self._forms, **forms}:
            before = self._forms.get(name)
            now = forms.get(name)
            refuse_if(
                before != now,
                f"simulate: the data {name} change their form.",
                f"{before} and {now}",
                "the same names and shapes each time; a number that changes as a float or an array",
            )


def _form(name: str, value: Any) -> Any:
    """What must stay the same: whole numbers are a part of the program, arrays have a shape.

    Args:
        name: The name of the data, for messages.
        value: The data.
    """
    if isinstance(value, bool | int | str | np.integer | np.bool_):
        return value
    array = as_array(value, f"simulate: {name}")
    return (array.shape, array.dtype.kind)
