"""NPZ files, and the image sets that Keras downloads, which have the same keys."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.files.unpacking import DAMAGED, load_arrays
from tati_re.data.contents import Contents
from tati_re.data.disk_arrays import member_of_npz
from tati_re.data.packing import packed

KERAS = ("mnist", "fashion_mnist", "cifar10")
"""Data sets by the names of their modules in `keras.datasets`."""

NPZ_KEYS = "x_train, y_train, x_test, y_test, or x, y, or data_keys with two or four names, a+b for two inputs"


def read_npz(
    path: Path,
    keys: Sequence[str] | None = None,
    weights: str | None = None,
    limit: float | None = None,
) -> Contents:
    """The inputs, labels and test set of an NPZ file.

    Inputs of type uint8 are images: they stay bytes and get the scale 1/255.

    Args:
        path: The file.
        keys: Names of the arrays of inputs and labels, perhaps followed by two names for the test
            set. Several inputs are joined by `+`, in the order of the model's inputs. Default:
            None, x_train and y_train with x_test and y_test if they exist, or x and y.
        weights: Name of the array of sample weights. Default: None, no weights.
        limit: Bytes above which an array is kept on the disk. Default: None, all in memory.

    Raises:
        InputError: The file is damaged, holds pickled objects, or lacks an array.
    """
    try:
        with path.open("rb") as opened, load_arrays(opened, limit) as file:
            return _chosen(path, file, keys, weights, limit)
    except InputError:
        raise
    except (ValueError, TypeError, AttributeError, OSError, EOFError, *DAMAGED) as error:
        problem = f"{path} cannot be read as an NPZ file of numbers."
        if "allow_pickle" in str(error):
            received = "pickled Python objects, which could run code"
            expected = (
                "arrays of numbers, as np.savez writes them; class names as np.array(labels, str)"
            )
            raise InputError(problem, received, expected) from None
        raise InputError(
            problem, str(error).split("\n")[0].rstrip(".") or type(error).__name__
        ) from None


def _chosen(
    path: Path, file, keys: Sequence[str] | None, weights: str | None, limit: float | None
) -> Contents:
    if keys is None:
        keys = ["x_train", "y_train"] if "x_train" in file.files else ["x", "y"]
        received = ", ".join(file.files) or "no arrays"
        refuse_if(
            not set(keys) <= set(file.files),
            f"{path.name} lacks the arrays of a data set.",
            received,
            NPZ_KEYS,
        )
        keys += ["x_test", "y_test"] if {"x_test", "y_test"} <= set(file.files) else []
    check_keys(keys, (2, 4))
    parts = [[key] if key in file.files else key.split("+") for key in keys]
    for key in [part for several in parts for part in several]:
        problem = f"data_keys: {path.name} has no array '{key}'.{nearest(key, file.files)}"
        refuse_if(key not in file.files, problem, key, f"one of {', '.join(file.files)}")
    if weights is not None and weights not in file.files:
        problem = (
            f"sample_weights: {path.name} has no array '{weights}'.{nearest(weights, file.files)}"
        )
        raise InputError(problem, weights, f"one of {', '.join(file.files)}")
    if len(parts[0]) > 1:
        contents = _several(path, file, parts)
    else:
        members = [member_of_npz(path, f"{key}.npy", limit) for key in keys]
        inputs, targets, *test = (
            file[key] if member is None else member
            for key, member in zip(keys, members, strict=True)
        )
        contents = images(inputs, targets, tuple(test), path.name)
    return contents if weights is None else replace(contents, weights=file[weights])


def _several(path: Path, file, parts: Sequence[Sequence[str]]) -> Contents:
    """Several inputs side by side; arrays of bytes among them are images."""
    arrays = [[file[key] for key in parts[i]] for i in range(0, len(parts), 2)]
    scales = tuple(1 / 255 if array.dtype == np.uint8 else 1.0 for array in arrays[0])
    both = [packed(part, scales) for part in arrays]
    if len({layout for _, layout in both}) > 1:
        raise InputError(
            f"{path.name}: the inputs of the test set differ in shape or type.",
            "+".join(parts[2]),
            "inputs like the training set's",
        )
    test = (both[1][0], file[parts[3][0]]) if len(parts) == 4 else ()
    return Contents(
        both[0][0], file[parts[1][0]], test, path.name, layout=both[0][1], layout_scales=scales
    )


def check_keys(keys: Sequence[str], lengths: Sequence[int]) -> None:
    """Refuses `data_keys` with another number of names.

    Args:
        keys: Names of arrays, inputs first.
        lengths: The numbers of names that are allowed: 2, and 4 where a test set may follow.

    Raises:
        InputError: The number of names is not allowed.
    """
    four = ", or four names, the last two for the test set" if 4 in lengths else ""
    refuse_if(
        len(keys) not in lengths,
        "data_keys needs two names.",
        ", ".join(keys),
        f"names of inputs and labels{four}",
    )


def images(
    inputs: np.ndarray, targets: np.ndarray, test: tuple[np.ndarray, ...], name: str
) -> Contents:
    """The contents, with the scale 1/255 where the inputs are bytes.

    Args:
        inputs: Inputs, shape (N, ...).
        targets: Labels, shape (N,) or (N, K).
        test: Inputs and labels of the test set, or empty.
        name: Name of the data in messages.
    """
    return Contents(
        inputs, targets, test, name, input_scale=1 / 255 if inputs.dtype == np.uint8 else 1.0
    )


def load_keras(name: str) -> Contents:
    """An image set of Keras, which downloads it once to `~/.keras/datasets`: bytes, classes, and
    their test set.
    """
    from tati_re.core.backend import keras

    try:
        (inputs, targets), test = getattr(keras.datasets, name).load_data()
    except Exception as error:  # urllib, http, ssl and Keras each raise their own
        problem = f"{name} could not be downloaded by Keras."
        reason = " ".join(str(error).split())[:120].rstrip(".") or type(error).__name__
        expected = (
            "a network connection, or the path of an NPZ file with the arrays x_train, "
            "y_train, x_test, y_test"
        )
        raise InputError(problem, reason, expected) from None
    return images(inputs, targets, test, name)
