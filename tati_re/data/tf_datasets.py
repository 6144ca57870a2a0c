"""`tf.data.Dataset` objects, read into memory once."""

import math
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.process.memory import free_bytes
from tati_re.core.user_input import error_text
from tati_re.core.user_warnings import warn_user
from tati_re.data.archives import images
from tati_re.data.contents import Contents
from tati_re.data.disk_arrays import Store

FORM = (
    "pairs (inputs, labels), or triples with sample weights, of arrays in batches, as Keras "
    "accepts them"
)


def is_tf_dataset(source: object) -> bool:
    """Whether an object is a `tf.data.Dataset`, without importing TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(source, tensorflow.data.Dataset)


def read_tf_dataset(source: Any, limit: float | None = None) -> Contents:
    """All examples of a finite `tf.data.Dataset` in order; bytes get the scale 1/255.

    Elements are batches. An element is a single example if its label is a single number, or if
    inputs and label have different known lengths.

    Args:
        source: A `tf.data.Dataset` of pairs (inputs, labels), or of triples with sample weights.
        limit: Bytes above which the inputs are kept on the disk. Default: None, all in memory.

    Raises:
        InputError: The data set is infinite, empty, or has elements of another form.
    """
    spec = source.element_spec
    if (
        not isinstance(spec, tuple)
        or len(spec) not in (2, 3)
        or not all(hasattr(part, "shape") for part in spec)
    ):
        received = (
            f"elements of {len(spec)} parts"
            if isinstance(spec, (tuple, list))
            else type(spec).__name__
        )
        if isinstance(spec, tuple) and (
            several := [part for part in spec if isinstance(part, (dict, tuple, list))]
        ):
            received = f"{len(several[0])} arrays in one part; several inputs are given as arrays, ({{name: array}}, y)"
        raise InputError(
            "data: the elements of the tf.data.Dataset have the wrong form.", received, FORM
        )
    if int(source.cardinality()) == -1:
        raise InputError(
            "data: the tf.data.Dataset is infinite.",
            "an infinite one",
            "a data set without repeat(), or with take(n)",
        )
    single = _single(spec)
    endless = int(source.cardinality()) == -2
    announced = 1
    stores = [Store(limit if i == 0 else None) for i in range(len(spec))]
    try:
        for pair in source.as_numpy_iterator():
            for store, part in zip(stores, pair, strict=True):
                store.append(np.asarray(part)[None] if single else np.asarray(part))
            if (
                endless
                and max(stores[0].rows / 1e6, sum(store.size for store in stores) / 1e9) > announced
            ):
                announced *= 2
                problem = (
                    f"data: the tf.data.Dataset does not state its length; {stores[0].rows:,} "
                    "examples are read"
                )
                held = min(stores[0].size, limit or math.inf) + sum(
                    store.size for store in stores[1:]
                )
                full = held > (free_bytes() or math.inf)
                refuse_if(
                    full,
                    f"{problem}, and fill the memory.",
                    expected="a data set without repeat(), or with take(n)",
                )
                warn_user(f"{problem} so far; take(n) would limit it.")
    except InputError:
        raise
    except ValueError:
        raise InputError(
            "data: the tf.data.Dataset contains arrays of unequal shapes.", expected=FORM
        ) from None
    except Exception as error:
        raise InputError(
            f"data: the tf.data.Dataset raises {error_text(error)}.", expected=FORM
        ) from error
    refuse_if(not stores[0].rows, "data: the tf.data.Dataset has no examples.", expected=FORM)
    inputs, targets, *weights = (store.finished() for store in stores)
    return replace(
        images(inputs, targets, (), "tf.data.Dataset"), weights=weights[0] if weights else None
    )


def _single(spec: tuple) -> bool:
    inputs, labels = (part.shape for part in spec[:2])
    if labels.rank == 0 or inputs.rank == 0:
        return True
    if labels.rank is None or inputs.rank is None:
        return False
    if None in (inputs[0], labels[0]) or inputs[0] != labels[0]:
        return None not in (inputs[0], labels[0])
    problem = "data: the elements of the tf.data.Dataset could be examples or batches of numbers."
    refuse_if(
        inputs.rank == labels.rank == 1,
        problem,
        f"inputs and labels of shape {inputs}",
        "dataset.batch(n)",
    )
    return False
