"""What a prediction is asked for: rows of inputs, and their labels, in the order of the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.user_warnings import warn_user
from tati_re.data.categories import stored_categories
from tati_re.data.frames import as_frame, check_order, in_order, is_frame, rows_by_name
from tati_re.data.packing import as_packed
from tati_re.prediction.network import dataset_of
from tati_re.prediction.ranges import warn_of_ranges
from tati_re.runs.manifest_entries import DataEntry
from tati_re.runs.run import RunFiles


def requested_rows(runs: Sequence[RunFiles], inputs: Any, labels: Any) -> tuple[Any, Any]:
    """The inputs and labels of a prediction, in the order of the data of the runs.

    Args:
        runs: The runs, which must predict the same quantities.
        inputs: Inputs as `predict` takes them, or None: the test set of the first run.
        labels: Labels as `predict` takes them, or None: those of the test set, or the label
            columns of a data frame.

    Returns:
        Inputs, an array unless the runs take their columns in different forms, and labels or None.

    Raises:
        InputError: Inputs or labels do not fit, or the data have no test set.
    """
    if inputs is None:
        inputs, labels = test_part(runs[0])
        inputs = with_names(runs[0], inputs) if len(runs) > 1 else inputs
        return inputs, labels_by_name(runs, inputs, labels)
    table = named_rows(runs[0], inputs)
    rows = packed_rows(runs, table)
    return rows, labels_by_name(runs, table, labels)


def test_part(run: RunFiles) -> tuple[np.ndarray, np.ndarray | None]:
    dataset = dataset_of(run)
    if dataset.test_inputs is None:
        problem = "The run's data have no test set."
        raise InputError(
            problem, expected="inputs to predict, or test_fraction=0.2 in Simulation(...)"
        )
    labels = dataset.test_targets
    return dataset.test_inputs, None if labels is None else dataset.as_labels(labels)


def with_names(run: RunFiles, inputs: np.ndarray) -> Any:
    """Inputs with the column names of a run's data, by which other runs find their columns.

    Args:
        run: The run.
        inputs: Inputs as in the run's data, shape (n, ...).

    Returns:
        A data frame of floats in named columns; other inputs unchanged.
    """
    names = run.manifest.dataset.feature_names
    named = inputs.ndim == 2 and inputs.dtype.kind == "f" and len(names) == inputs.shape[1]
    return pandas.DataFrame(inputs, columns=list(names)) if named else inputs


def named_rows(run: RunFiles, inputs: Any) -> Any:
    """Rows that are given by names as a data frame; other inputs as they are.

    Args:
        run: The run, whose manifest has the names of the inputs.
        inputs: Inputs as `predict` takes them.
    """
    data = run.manifest.dataset
    return inputs if data.layout else rows_by_name(inputs, data.feature_names, "inputs")


def packed_rows(runs: Sequence[RunFiles], inputs: Any) -> Any:
    """Inputs as all runs take them, in one array; warns of rows outside the training range.

    Texts are looked up and columns are ordered once, however many networks predict the rows.

    Args:
        runs: The runs, whose manifests have names, categories and ranges of the inputs.
        inputs: Inputs as of `named_rows`.

    Returns:
        The array. Runs that take the columns in different forms get the inputs as they are.
    """
    first = runs[0].manifest.dataset
    packed = _packed(first, inputs)
    if not first.layout and first.input_ranges is not None:
        warn_of_ranges(first, packed)
    forms = [_form(run.manifest.dataset) for run in runs]
    return packed if all(form == forms[0] for form in forms) else inputs


def _packed(data: DataEntry, inputs: Any) -> np.ndarray:
    layout = tuple((part.name, part.shape) for part in data.layout)
    scales = data.layout_scales or (float(data.input_scale),)
    categories = stored_categories(data.input_categories)
    return as_packed(inputs, layout, data.feature_names, scales, categories)


def _form(data: DataEntry) -> list[Any]:
    """What decides how inputs are packed."""
    texts = [(entry.column, tuple(entry.texts)) for entry in data.input_categories]
    layout = [(part.name, tuple(part.shape)) for part in data.layout]
    scales = [float(scale) for scale in data.layout_scales or (data.input_scale,)]
    return [layout, list(data.feature_names), scales, texts]


def labels_by_name(runs: Sequence[RunFiles], inputs: Any, labels: Any) -> Any:
    """Returns labels in the order of all runs.

    Args:
        runs: The runs, which must predict the same quantities.
        inputs: A data frame or array of inputs, which may contain the label columns too.
        labels: Labels, or None: the label columns of `inputs`, if no value is missing.

    Returns:
        The labels, or None if there are none.

    Raises:
        InputError: The runs predict different quantities.
    """
    labels = as_frame(labels)
    names, *others = (list(run.manifest.dataset.label_names) for run in runs)
    for other in others:
        received = f"{', '.join(names)} and {', '.join(other)}"
        refuse_if(
            names and other and other != names, "The runs predict different quantities.", received
        )
    if (
        labels is None
        and names
        and is_frame(inputs)
        and {*names} <= {str(name) for name in inputs.columns}
    ):
        label_columns = in_order(inputs, names, "labels")
        if missing := int(label_columns.isna().any(axis=1).sum()):
            if missing < len(label_columns):
                warn_of_missing_labels(missing, len(label_columns))
            return None
        return label_columns if len(names) > 1 else label_columns[names[0]]
    check_order(inputs, labels, "labels")
    return in_order(labels, names, "labels")


def warn_of_missing_labels(missing: int, count: int) -> None:
    """Warns that some rows lack labels, so that none are used.

    Args:
        missing: Number of rows without a label.
        count: Number of all rows.
    """
    notice = f"The labels of {missing:,} of {count:,} rows are missing"
    warn_user(f"{notice}: predictions have no labels and no scores.")
