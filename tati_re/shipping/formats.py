"""The forms in which a predictor leaves the package: its own file, Keras, SavedModel, NPZ."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.runs.storage import replacing, storing, write_whole
from tati_re.shipping.exportable import Exportable
from tati_re.shipping.forms import ENDINGS, KERAS, NPZ, TATI


def export(
    predictor: Exportable, path: AnyPath, to: str, quantiles: tuple[float, ...], overwrite: bool
) -> None:
    """Writes a predictor in one of the forms.

    Args:
        predictor: The predictor.
        path: The file, or the folder of a SavedModel.
        to: `tati`, `keras`, `savedmodel` or `npz`.
        quantiles: Levels of the quantiles that a Keras model predicts.
        overwrite: Whether what is there may be replaced.

    Raises:
        InputError: Another form, another ending, something that is there, or a network that Keras
            alone cannot compute.
        StorageError: The file cannot be written.
    """
    path = Path(path)
    refuse_if(to not in ENDINGS, "to has an unknown value.", to, ", ".join(ENDINGS))
    problem = f"The path of a {to} export must end in {ENDINGS[to]}."
    refuse_if(ENDINGS[to] and path.suffix != ENDINGS[to], problem, path)
    there = path.exists() and not overwrite
    refuse_if(there, f"{path} is there already.", expected="another path, or overwrite")
    if to == TATI:
        predictor.save(path)
    elif to == NPZ:
        write_whole(path, npz_bytes(predictor))
    elif to == KERAS:
        model = predictor.to_keras(quantiles)
        with replacing(path, ENDINGS[KERAS]) as file:
            model.save(file.name)
    else:
        _write_saved_model(predictor.to_keras(quantiles), path)


def _write_saved_model(model: Any, path: Path) -> None:
    problem = f"{path} is a file."
    refuse_if(path.is_file(), problem, expected="the folder of a SavedModel")
    with storing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            model.export(path, verbose=False)
        except (NotImplementedError, ValueError) as error:
            reason = str(error).split("\n")[0][:100]
            raise InputError("Keras cannot export the model.", reason, "to keras") from None


def npz_bytes(predictor: Exportable) -> bytes:
    """The arrays of a predictor for programs in other languages, without any Python object.

    They are `members` (members, parameters), `weights` (members,), the names and shapes of the
    tensors that follow each other in a member, means and deviations of inputs and targets, names of
    columns, classes and categories of text, and the Keras configuration of the network as JSON.
    Inputs that are functions of columns have `column_source`, the number of the column,
    `column_function` and `column_power`. `calibration` is there if predictions are calibrated.

    Args:
        predictor: The predictor.
    """
    network = predictor.network
    parameters = predictor.manifest.parameters
    shapes = [list(shape) for shape in parameters.shapes]
    arrays: dict[str, Any] = {
        "members": predictor.members.vectors,
        "weights": predictor.weights,
        "tensor_names": _texts(parameters.names),
        "tensor_shapes": _texts(map(json.dumps, shapes)),
        "feature_names": _texts(predictor.feature_names),
        "target_names": _texts(predictor.target_names),
        "class_names": _texts(network.class_names),
        "loss": _texts([network.predictive.name]),
        "input_scale": np.asarray(network.scale),
    }
    preparation = network.preparation
    if preparation is not None:
        pairs = (("input", preparation.input_standard), ("target", preparation.target_standard))
        for name, standard in pairs:
            if standard is not None:
                arrays[f"{name}_mean"] = standard.mean
                arrays[f"{name}_deviation"] = standard.deviation
    if preparation is not None and preparation.columns is not None:
        columns = preparation.columns.columns
        arrays["column_source"] = np.asarray([column.source for column in columns])
        arrays["column_function"] = _texts(column.function for column in columns)
        arrays["column_power"] = np.asarray([float(column.power) for column in columns])
    if predictor.calibration is not None:
        arrays["calibration"] = np.asarray(predictor.calibration)
    for column_categories in network.categories:
        arrays[f"categories_{column_categories.column}"] = _texts(column_categories.texts)
    for number, values in enumerate(network.auxiliary):
        arrays[f"auxiliary_{number}"] = values
    arrays["model"] = _texts([network.flat.model.to_json()])
    file = io.BytesIO()
    np.savez_compressed(file, allow_pickle=False, **arrays)
    return file.getvalue()


def _texts(names: Any) -> np.ndarray:
    """Texts as an array of letters, which is no array of objects."""
    return np.asarray([str(name) for name in names], dtype=str)
