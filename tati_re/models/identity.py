"""Whether a Keras model is the one of a file."""

import json
import warnings
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from tati_re.core.backend import keras
from tati_re.core.errors import InputError
from tati_re.models.build import member

_BESIDE = {
    *("name", "dtype", "trainable", "module", "registered_name", "build_config", "compile_config")
}
_BESIDE |= {"shared_object_id"}
"""What models may differ in that are the same function of their parameters, as are names between
layers.
"""
_BETWEEN = {"inbound_nodes", "input_layers", "output_layers"}
_STARTS = ("initializer", "seed", "seed_generator")


def refuse_other_model(model: Any, path: Path, who: str) -> None:
    """Refuses a model that differs from the model in a .keras file.

    Layers, activations, regularizers and their numbers are compared: a model that differs in them
    is another function, even if its parameters have the same shapes. Models without a config cannot
    be compared, and are not refused.

    Args:
        model: The Keras model.
        path: The .keras file.
        who: Beginning of the message, such as the folder of the run.

    Raises:
        InputError: The models differ; the message gives the first difference.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that lambdas are code
            now = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
        then = member(path, "config.json")
    except (NotImplementedError, TypeError, ValueError, KeyError, OSError, BadZipFile):
        return
    if difference := _difference(now, then, ""):
        raise InputError(f"{who}: the model differs from the run's.", *difference)


def _difference(now: Any, then: Any, where: str) -> tuple[str, str] | None:
    """The first entry that differs, as it is and as it was. Entries that one of them lacks are of
    another Keras.
    """
    if isinstance(now, dict) and isinstance(then, dict):
        if now.get("class_name") == then.get("class_name") == "__lambda__":
            return None  # code, with the lines where it stood
        names = [
            n for n in now if n in then and n not in _BESIDE | _BETWEEN and not n.endswith(_STARTS)
        ]
        prefix = f"{where}{now['class_name']} " if isinstance(now.get("class_name"), str) else where
        parts = [
            (now[name], then[name], prefix if name == "config" else f"{prefix}{name} ")
            for name in names
        ]
    elif isinstance(now, list) and isinstance(then, list) and len(now) == len(then):
        parts = [(*pair, where) for pair in zip(now, then, strict=True)]
    else:
        named = any(str(value).startswith(("<lambda>", "function_")) for value in (now, then))
        return None if now == then or named else (f"{where}{now}", f"{where}{then}")
    return next((difference for part in parts if (difference := _difference(*part))), None)
