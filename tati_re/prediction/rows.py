"""What a prediction is asked for: rows of inputs, and their labels, in the order of the data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.user_warnings import warn_user
from tati_re.data.categories import stored_categories
from tati_re.data.frames import check_order, in_order, is_frame, rows_by_name
from tati_re.data.packing import as_packed
from tati_re.prediction.network import dataset_of
from tati_re.prediction.ranges import warn_of_ranges
from tati_re.runs.run import RunFiles


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
    """Inputs as of a run's data with the names of its columns, by which other runs find theirs."""
    names = run.manifest.dataset.feature_names
    named = inputs.ndim == 2 and inputs.dtype.kind == "f" and len(names) == inputs.shape[1]
    return pandas.DataFrame(inputs, columns=list(names)) if named else inputs


def checked_rows(run: RunFiles, inputs: Any) -> Any:
    """Inputs with rows given by names as a data frame; warns of rows outside the training range.

    Args:
        run: The run, whose manifest has names and ranges of the inputs.
        inputs: Inputs as `predict` takes them.
    """
    data = run.manifest.dataset
    names = data.feature_names
    if data.layout:
        return inputs
    inputs = rows_by_name(inputs, names, "inputs")
    if data.input_ranges is not None:
        categories = stored_categories(data.input_categories)
        warn_of_ranges(data, as_packed(inputs, (), names, categories=categories))
    return inputs


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
                notice = f"The labels of {missing:,} of {len(label_columns):,} rows are missing"
                warn_user(f"{notice}: predictions have no labels and no scores.")
            return None
        return label_columns if len(names) > 1 else label_columns[names[0]]
    check_order(inputs, labels, "labels")
    return in_order(labels, names, "labels")
