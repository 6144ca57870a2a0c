"""A data set in words: its contents, classes and ranges."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from tati_re.data.columns import numbered
from tati_re.data.dataset import Dataset
from tati_re.data.disk_arrays import on_disk

MOST_COLUMNS = MOST_CLASSES = 20
_WORDS = {
    "classification": "{} classes",
    "signs": "{} classes by sign, with one output",
    "one_hot": "{} classes, one-hot",
    "multi_label": "several labels of 0 or 1 for each example",
    "regression": "values of a regression",
}


def describe_dataset(dataset: Dataset) -> str:
    """A data set in a few lines: name, sizes, shapes, types, counts of classes, or ranges, means
    and deviations.
    """
    test = (
        "no test set" if dataset.test_inputs is None else f"{len(dataset.test_inputs)} for testing"
    )
    count = "1 example" if dataset.num_examples == 1 else f"{dataset.num_examples} examples"
    lines = [f"{dataset.name}: {count} for training, {test}"]
    shape = " x ".join(map(str, dataset.inputs.shape[1:]))
    scale = "" if dataset.input_scale == 1.0 else f", multiplied by 1/{1 / dataset.input_scale:g}"
    lines.append(f"inputs: {shape}, {dataset.inputs.dtype}{scale}")
    lines += _ranges(*_columns_of_numbers(dataset))
    lines += [
        f"  {categories.column}: {', '.join(categories.texts)}"
        for categories in dataset.input_categories
    ]
    column = (
        f" {', '.join(dataset.label_names)}" if dataset.label_names not in ((), ("label",)) else ""
    )
    lines.append(f"labels{column}: {_WORDS[dataset.task].format(dataset.num_classes)}")
    if dataset.task in ("regression", "multi_label"):
        targets = dataset.targets.reshape(dataset.num_examples, -1)
        names = (
            ("label",)
            if targets.shape[1] == 1
            else tuple(f"label{i + 1}" for i in range(targets.shape[1]))
        )
        lines += _ranges(targets, dataset.label_names or names)
    else:
        lines += _counts(dataset)
    return "\n".join([*lines, *cautions(dataset)])


def _columns_of_numbers(dataset: Dataset) -> tuple[np.ndarray, tuple[str, ...]]:
    """The inputs without the columns of text, and their names."""
    of_text = {categories.column for categories in dataset.input_categories}
    if not of_text:
        return dataset.inputs, dataset.feature_names
    column_numbers = [k for k, name in enumerate(dataset.feature_names) if name not in of_text]
    return dataset.inputs[:, column_numbers], tuple(
        dataset.feature_names[k] for k in column_numbers
    )


def cautions(dataset: Dataset) -> Iterator[str]:
    """Says which of several inputs is the number of its row, and where examples to test with are
    trained on.
    """
    x = dataset.inputs
    y = dataset.targets
    test_x = dataset.test_inputs
    test_y = dataset.test_targets
    if on_disk(x) or len(x) < 10:
        return
    derived = dataset.preparation is not None and dataset.preparation.columns is not None
    for place in (
        np.flatnonzero(x[0] < x[1]) if x.ndim == 2 and x.shape[1] > 1 and not derived else ()
    ):
        columns = [part[:, place] for part in (x, test_x) if part is not None]
        numbers = np.sort(np.concatenate(columns))
        if (
            numbers[0] in (0, 1)
            and (np.diff(numbers) == 1).all()
            and all((np.diff(c) > 0).all() for c in columns)
        ):
            name = (dataset.feature_names or numbered(x.shape[1]))[place]
            yield (
                f"The input {name} is the row number, {numbers[0]:g} to {numbers[-1]:g}. "
                "It carries information if the rows are sorted. Exclude it with "
                "input_columns."
            )
    if test_x is not None and test_y is not None:
        test = [(row.tobytes(), label.tobytes()) for row, label in zip(test_x, test_y, strict=True)]
        known = {*test}.intersection(
            (row.tobytes(), label.tobytes()) for row, label in zip(x, y, strict=True)
        )
        if 20 * (count := sum(test_row in known for test_row in test)) >= len(test):
            yield (
                f"{count} of {len(test)} test rows also occur in the training data; test scores will be optimistic."
            )


def _ranges(values: np.ndarray, names: tuple[str, ...]) -> list[str]:
    if values.ndim != 2 or values.shape[1] > MOST_COLUMNS:
        values = values.reshape(-1, 1)
        names = ("all",)
    names = names or numbered(values.shape[1])
    width = max(map(len, names))
    rows = zip(names, values.min(0), values.max(0), values.mean(0), values.std(0), strict=True)
    return [
        f"  {n:<{width}}  {a:>10.4g} to {b:<10.4g}, mean {m:<10.4g}, standard deviation {s:.4g}"
        for n, a, b, m, s in rows
    ]


def _counts(dataset: Dataset) -> list[str]:
    """The number of examples of each class, in both parts."""

    parts = [part for part in (dataset.targets, dataset.test_targets) if part is not None]
    labels = [
        (part.argmax(1) if dataset.task == "one_hot" else part).reshape(-1).tolist()
        for part in parts
    ]
    train = Counter(labels[0])
    test = Counter(*labels[1:])
    first = -1 if dataset.task == "signs" else 0
    classes = [-1, 1] if first else list(range(dataset.num_classes or 0))
    named = dict(enumerate(dataset.class_names))
    wide = max(3, *(len(str(name)) for name in dataset.class_names[:MOST_CLASSES]), 0)
    lines = [
        f"  class {named.get(c, c):<{wide}} {train[c]:>8d}"
        + (f" and {test[c]} for testing" if test else "")
        for c in classes[:MOST_CLASSES]
    ]
    return lines + (
        [f"  and {len(classes) - MOST_CLASSES} more classes"] if len(classes) > MOST_CLASSES else []
    )
