"""Names of parameters by their place in the model."""

from __future__ import annotations

import re
from collections import Counter


def snake_case(name: str) -> str:
    """`BatchNormalization` to `batch_normalization`, as Keras names its layers."""
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def place_names(model) -> list[str]:
    """One name a trainable tensor, such as `dense/kernel`, `dense_1/bias`, `lstm/lstm_cell/kernel`.

    Layers are counted by class from the model's first, so that the names do not depend on what else the process built; a
    layer with a name that the user chose keeps it.
    """
    places: dict[int, str] = {}
    _walk(model, "", places)
    names, seen = [], Counter()
    for variable in model.trainable_variables:
        name = places.get(id(variable), variable.name)
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name] - 1}")
    return names


def _walk(layer, prefix: str, places: dict[int, str]) -> None:
    """Names the variables of a layer and of the layers inside it."""
    for variable in getattr(layer, "_trainable_variables", []):
        places.setdefault(id(variable), f"{prefix}{variable.name}")
    counts: Counter = Counter()
    for child in _children(layer):
        plain = snake_case(type(child).__name__)
        if re.fullmatch(rf"{re.escape(plain)}(_\d+)?", child.name):
            name = plain if not counts[plain] else f"{plain}_{counts[plain]}"
            counts[plain] += 1
        else:
            name = child.name
        _walk(child, f"{prefix}{name}/", places)


def _children(layer) -> list:
    found, seen = [], set()
    for child in getattr(layer, "layers", None) or layer._layers:
        if id(child) not in seen:
            seen.add(id(child))
            found.append(child)
    return found
