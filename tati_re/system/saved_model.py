"""Model and directions of a run in files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tati_re.core.backend import keras
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.files.regular import check_regular
from tati_re.core.files.text_lines import header_of, read_numbers
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.core.user_input import as_array
from tati_re.data.preparation import Preparation, Standard
from tati_re.models.inspect import input_dtype_of
from tati_re.runs.storage import StorageError, replacing
from tati_re.runs.trajectory_rows import named_columns

if TYPE_CHECKING:
    from tati_re.models.flat import FlatModel
    from tati_re.system.walkers import Walkers


def in_units(model: Any, preparation: Preparation | None, predicts_noise: bool = False) -> Any:
    """The Keras model from inputs to outputs in the units of the data.

    It has a `Normalization` layer at either end where the data are standardized. Derived columns
    are not part of it: the model is then returned unchanged.

    Args:
        model: The Keras model of prepared inputs and targets.
        preparation: Transformation of the data before the network; None for none.
        predicts_noise: Whether the second half of the outputs is the logarithm of a deviation.
            Default: False.
    """
    if preparation is None or preparation.columns is not None:
        return model
    ahead = preparation.input_standard
    behind = preparation.target_standard
    if behind is not None and predicts_noise:
        of_log_std = np.log(behind.deviation), np.ones_like(behind.deviation)
        behind = Standard(*map(np.append, (behind.mean, behind.deviation), of_log_std))
    pairs = ((ahead, False), (behind, True))
    dtype = model.compute_dtype
    ends = [
        [_normalization(standard, invert, dtype)] if standard is not None else []
        for standard, invert in pairs
    ]
    start = keras.Input(model.input_shape[1:], dtype=input_dtype_of(model) or model.compute_dtype)
    # The layers keep their names where they stand in a row.
    inside = model.layers if isinstance(model, keras.Sequential) else [model]
    return keras.Sequential([start, *ends[0], *inside, *ends[1]]) if any(ends) else model


def _normalization(standard: Standard, invert: bool, dtype: str) -> Any:
    axis = None if standard.mean.ndim == 0 else -1
    numbers = {"mean": standard.mean.tolist(), "variance": (standard.deviation**2).tolist()}
    return keras.layers.Normalization(axis=axis, invert=invert, dtype=dtype, **numbers)


def save_model(
    flat: FlatModel,
    walkers: Walkers,
    path: Path,
    preparation: Preparation | None = None,
    predicts_noise: bool = False,
) -> bool:
    """Writes the model with the weights of walker 0, as `in_units` makes it.

    Args:
        flat: The model.
        walkers: The walkers.
        path: The .keras file.
        preparation: Transformation of the data that becomes part of the model. Default: None.
        predicts_noise: Whether the second half of the outputs is the logarithm of a deviation.
            Default: False.

    Returns:
        Whether a model was written; False where there is none that can be written.
    """
    if flat.model is None:
        return False
    try:
        with restored_values(flat.model):
            flat.set(walkers.position[0])
            for variable, value in zip(flat.others, walkers.auxiliary, strict=True):
                variable.assign(value[0])
            # A kill while the model is written must not cost the one that was there before.
            with replacing(path, ".keras") as file:
                in_units(flat.model, preparation, predicts_noise).save(file.name)
    except StorageError:
        raise
    except (NotImplementedError, TypeError, ValueError):
        return False
    return True


@contextmanager
def restored_values(model: Any) -> Iterator[None]:
    """Gives a model's variables back the values that they have now."""
    before = [variable.numpy() for variable in model.variables]
    try:
        yield
    finally:
        for variable, value in zip(model.variables, before, strict=True):
            variable.assign(value)


def read_directions(
    source: Any, num_parameters: int, names: Callable[[], Sequence[str]] = list
) -> np.ndarray | None:
    """Row vectors (k, parameters) from an array or a file; None where no source is given.

    Args:
        source: An array, (k, parameters) or (parameters,), the path of a file, or None.
        num_parameters: Number of parameters.
        names: Returns the names of the parameters, in order. A CSV file whose header names them,
            as here or in TATi, may have its columns in another order. Default: `list`, no names:
            the columns are in order.

    Raises:
        InputError: There is no row, its length differs, or numbers are not finite.
    """
    if source is None:
        return None
    if isinstance(source, str):
        path, source = Path(source), read_rows("directions", source, "row vectors")
        places = named_columns(header_of(path), names()) if path.suffix.lower() == ".csv" else None
        source = source if places is None else source[:, places]
    rows = np.atleast_2d(as_array(source, "directions", np.float64))
    if (
        rows.ndim != 2
        or not len(rows)
        or rows.shape[1] != num_parameters
        or not np.isfinite(rows).all()
    ):
        problem = "directions: these are not row vectors of the parameters."
        raise InputError(problem, f"shape {rows.shape}", f"(k, {num_parameters}), finite")
    return rows


def read_rows(option: str, source: AnyPath, meaning: str) -> np.ndarray:
    """The numbers in the file of an option.

    Args:
        option: Name of the option, for messages.
        source: A .npy, .npz or .csv file; of several arrays the first is read.
        meaning: What the rows are, in words, such as "row vectors".

    Raises:
        InputError: The file does not exist or cannot be read.
    """
    path = Path(source)
    expected = f"a .npy, .npz or .csv file of {meaning}"
    refuse_if(not os.path.exists(path), f"{option}: the file does not exist.", path, expected)
    refuse_if(path.is_dir(), f"{option} is a folder.", path, expected)
    check_regular(path, option)
    try:
        return np.asarray(_numbers_in(path))
    except InputError as error:
        raise InputError(f"{option}: {error}") from None
    except (OSError, ValueError, EOFError, IndexError, *DAMAGED) as error:
        reason = str(error).strip().split("\n")[0]
        raise InputError(f"{option}: {path} cannot be read: {reason}.", expected=expected) from None


def _numbers_in(path: Path) -> np.ndarray:
    """The numbers of a .npy file, of the first array of a .npz file, or of a CSV file with or
    without a header line.
    """
    if path.suffix.lower() != ".csv":
        loaded = load_arrays(path)
        return loaded if isinstance(loaded, np.ndarray) else loaded[loaded.files[0]]
    return read_numbers(path)
