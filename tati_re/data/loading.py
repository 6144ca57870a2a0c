"""One data set from any source: read, labels checked, split, prepared."""

from collections.abc import Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.data.categories import one_hot_columns
from tati_re.data.contents import Contents
from tati_re.data.dataset import Dataset, with_weights
from tati_re.data.frames import check_order
from tati_re.data.from_arrays import derived
from tati_re.data.generators import built_in
from tati_re.data.labels import LabelRule, are_labels, are_names, kind_of, numbers_of_names
from tati_re.data.readers.registry import kinds_of_files
from tati_re.data.source import ReadOptions, Source, source_of
from tati_re.data.sources import read_source, read_test_part
from tati_re.data.standardizing import prepare

DEFAULT_TEST_FRACTION = 0.2
_CLASSES = ("sparsecategoricalcrossentropy", "ordinal")
_EITHER = ("binarycrossentropy", "bce", "categoricalcrossentropy")
"""Losses of class numbers, and those of classes in several forms, in lower case without _."""

BINARY = ("binary_crossentropy", "BinaryCrossentropy", "bce", "BCE")
"""The loss that takes several labels at once: as an option, and as an object of Keras."""


@front_door
def load_data(
    source: object,
    test_fraction: float | None = None,
    seed: int = 0,
    *,
    test_data: object = None,
    label_columns: Sequence[str] | None = None,
    input_columns: Sequence[str] | None = None,
    data_keys: Sequence[str] | None = None,
    num_classes: int | None = None,
    standardize: str = "none",
    shuffle: bool = True,
    sample_weights: object = None,
    class_weights: Any = None,
    memory_limit: float | None = None,
    multi_label: bool = False,
    places: tuple = (),
    rule: LabelRule = "values",
    encoding: str | None = None,
) -> Dataset:
    """Loads a data set from a name, a file or arrays.

    Args:
        source: A built-in name (`generators.GENERATORS`), an image set of Keras (`archives.KERAS`),
            a path or a list of paths, arrays `(x, y)` or, as tuples, `((x, y), (x_test, y_test))`,
            a `pandas.DataFrame`, a `tf.data.Dataset`, or a `Dataset`.
        test_fraction: Fraction of the examples for testing if the data have no test set, in [0, 1).
            Default: None, 0.2 for built-in names and files of at least 3 examples, 0 for data
            passed in Python.
        seed: Seed for drawing the test set and random built-in data. Default: 0.
        test_data: The test set: a file or a list of files, arrays `(x, y)`, or a `tf.data.Dataset`.
            Default: None.
        label_columns: Label columns of a table. Default: None, columns with label names, otherwise
            the last column.
        input_columns: Input columns of a table. Default: None, all other columns.
        data_keys: Names of the arrays in an NPZ or HDF5 file, inputs first. Default: None, found by
            their names.
        num_classes: Number of classes; 0 for a regression. Default: None, determined from the
            labels.
        standardize: Whether inputs and targets are standardized, as in the option. Default: "none".
        shuffle: Whether the test set is random; otherwise it is the end of the data. Default: True.
        sample_weights: Weight of each example in the loss: one number per training example read, or
            the name of a column of a table or of an array in an NPZ file. Default: None, weights in
            the data, otherwise 1.
        class_weights: Weight of each class in the loss, or "balanced". Default: None, 1.
        memory_limit: Memory limit for the data, in bytes. Default: None, no limit.
        multi_label: Whether columns of 0 and 1 that are not one-hot are several labels at once;
            otherwise they are refused. Default: False.
        places: Shape of labels at several positions, which are not one-hot rows. Default: none.
        rule: Meaning of integers in one column under the loss. "values": classes if there are few;
            "classes": always classes; "numbers": classes that keep their numbers. Default:
            "values".
        encoding: Character encoding of text tables, as in the option. Default: UTF-8.

    Returns:
        The data set, with values as read. A network trains on `Dataset.prepared()`.

    Raises:
        InputError: The data are invalid; the message is one sentence.
    """
    named = sample_weights if isinstance(sample_weights, str) else None
    limit = None if memory_limit is None else 1e6 * memory_limit
    reading = ReadOptions(
        label_columns=label_columns,
        input_columns=input_columns,
        data_keys=data_keys,
        weights=named,
        limit=limit,
        num_classes=num_classes,
        encoding=encoding,
    )
    data_source = source_of(source)
    test = None if test_data is None else source_of(test_data)
    _check_reading(data_source, reading)

    fraction = _fraction_for(data_source, test_fraction)
    if data_source.kind == "generated":
        drawn = built_in(data_source.data, 0.0 if test is not None else fraction, seed, shuffle)
        fraction = 0.0
        data_source = source_of(drawn)
    if data_source.kind == "dataset":
        data, columns = _of_dataset(data_source.data, test, reading, multi_label, rule)
    else:
        data, columns = _read(data_source, test, reading, multi_label, places, rule)

    if data.layout and (columns is not None or standardize != "none"):
        problem = "standardize and input_columns need data with one input."
        raise InputError(problem, f"{len(data.layout)} inputs", "neither")
    check_order(
        source[0] if isinstance(source, (tuple, list)) else source, sample_weights, "sample_weights"
    )
    if sample_weights is not None or (class_weights is not None and len(class_weights)):
        data = with_weights(data, None if named else sample_weights, class_weights)

    few = test_fraction is None and data.num_examples < 3
    data = data.split(0.0 if few else fraction, seed, shuffle)
    if columns is None and standardize != "none" and data.preparation is not None:
        columns = data.preparation.columns
    preparation = prepare(data, columns, standardize)
    return data if preparation is None else replace(data, preparation=preparation)


def _check_reading(source: Source, reading: ReadOptions) -> None:
    """Refuses options of files that the source is not."""
    if reading.weights is not None and source.kind not in ("files", "frame"):
        raise InputError(
            "sample_weights: only files have named columns.",
            reading.weights,
            "numbers, one per example",
        )
    if reading.encoding is not None and source.kind != "files":
        expected = "a .csv, .tsv, .txt, .dat or .data file"
        raise InputError("encoding applies only to text tables.", source.text, expected)
    if reading.label_columns is not None and not source.has_columns:
        raise InputError(
            "label_columns: only tables have named columns.",
            source.text,
            "a .csv or .parquet file",
        )


def _fraction_for(source: Source, test_fraction: float | None) -> float:
    """The part of the examples that is kept for testing."""
    default = DEFAULT_TEST_FRACTION if source.is_named else 0.0
    fraction = default if test_fraction is None else test_fraction
    refuse_if(
        not 0 <= fraction < 1, "test_fraction is out of its range.", fraction, "a number in [0, 1)"
    )
    return fraction


def _of_dataset(
    source: Dataset, test: Source | None, reading: ReadOptions, multi_label: bool, rule: LabelRule
) -> tuple[Dataset, Any]:
    """A data set with another test set, its labels as the options take them, and its columns."""
    num_classes = reading.num_classes
    source = source.with_classes(num_classes, rule)
    if num_classes is not None and num_classes != (source.num_classes or 0):
        raise InputError(
            "num_classes contradicts the data set.", num_classes, source.num_classes or 0
        )

    data = _with_test(source, test)
    contents = Contents(source.inputs, source.targets, names=source.feature_names)
    columns = derived(contents, reading)
    if columns is not None or source.preparation is None:
        columns = one_hot_columns(columns, source.feature_names, source.input_categories)

    several = multi_label and data.num_classes is None
    if several and are_labels(data.targets, data.test_targets, 0):
        data = replace(data, multi_label=True)
    if data.multi_label and not are_labels(data.targets, data.test_targets, 0):
        raise InputError(
            "Several labels per example must be 0 or 1.", "other numbers in test_data", "0 and 1"
        )
    return data, columns


def _read(
    source: Source,
    test_source: Source | None,
    reading: ReadOptions,
    multi_label: bool,
    places: tuple,
    rule: LabelRule,
) -> tuple[Dataset, Any]:
    """The data set of files, arrays or frames, and its columns."""
    contents, columns = read_source(source, reading)
    test = contents.test
    test_weights = contents.test_weights
    if test_source is not None:
        x, y, test_weights = read_test_part(test_source, source, reading, contents)
        test = (x, y)

    data = Dataset.from_arrays(
        contents.inputs,
        contents.targets,
        *test,
        name=contents.name,
        input_scale=contents.input_scale,
        feature_names=contents.names,
        by_value=contents.by_value,
        num_classes=reading.num_classes,
        weights=contents.weights,
        test_weights=test_weights,
        layout=contents.layout,
        layout_scales=contents.layout_scales,
        multi_label=multi_label,
        places=places,
        rule=rule,
    )
    data = replace(data, label_names=contents.label_names, input_categories=contents.categories)
    return data, columns


@front_door
def dataset_from_options(
    options: Any,
    data: object = None,
    test_data: object = None,
    sample_weights: object = None,
    loss: Any = None,
    *,
    places: tuple = (),
) -> Dataset:
    """Loads the data set described by options, or by objects in their place.

    `standardize="auto"` leaves the data unchanged here, because it depends on the network.

    Args:
        options: The data options, as attributes.
        data: Data in place of `options.data`, as for `load_data`. Default: None, the option.
        test_data: Test set in place of `options.test_data`. Default: None, the option.
        sample_weights: Weights in place of `options.sample_weights`. Default: None, the option.
        loss: Loss object in place of `options.loss`. Default: None, the option.
        places: Shape of labels at several positions. Default: labels at one position.

    Returns:
        The data set.

    Raises:
        InputError: There are no data, or they are invalid.
    """
    source = options.data if data is None else data
    refuse_if(
        source is None,
        "data is missing.",
        expected=f"arrays (inputs, labels), a built-in name, or {kinds_of_files()}",
    )
    return load_data(
        source,
        options.test_fraction,
        options.seed,
        shuffle=options.shuffle,
        num_classes=options.num_classes,
        test_data=options.test_data if test_data is None else test_data,
        label_columns=options.label_columns or None,
        input_columns=options.input_columns or None,
        data_keys=options.data_keys or None,
        encoding=options.encoding,
        class_weights=options.class_weights,
        standardize="none" if options.standardize == "auto" else options.standardize,
        sample_weights=options.sample_weights if sample_weights is None else sample_weights,
        memory_limit=options.memory_limit,
        places=places,
        multi_label=(options.loss if loss is None else type(loss).__name__) in BINARY,
        rule=_rule_of(options.loss if loss is None else loss),
    )


def _rule_of(loss: Any) -> LabelRule:
    """What integer labels mean under a loss: a name, an object, a function, or None."""
    if loss is None:
        return "values"
    of_object = loss.__name__ if isinstance(loss, FunctionType) else type(loss).__name__
    name = loss if isinstance(loss, str) else of_object
    plain = name.replace("_", "").lower()
    if plain in _CLASSES:
        return "classes"
    return "values" if plain in _EITHER else "numbers"


def _with_test(data: Dataset, test: Source | None) -> Dataset:
    """A data set with another test set, if there is one."""
    if test is None:
        return data
    contents = Contents(
        data.inputs,
        data.targets,
        names=data.feature_names,
        label_names=data.label_names,
        input_scale=data.input_scale,
        layout=data.layout,
        layout_scales=data.layout_scales,
        categories=data.input_categories,
    )
    reading = ReadOptions(
        label_columns=data.label_names or None, input_columns=data.feature_names or None
    )
    inputs, targets, weights = read_test_part(
        test, None, reading if test.has_columns else ReadOptions(), contents
    )
    if are_names(targets, data.class_names):
        targets = numbers_of_names(targets, data.class_names, "test_data")
    if targets.ndim == data.targets.ndim + 1 and targets.shape[1] == 1:
        targets = targets[:, 0]
    kind_of(data.targets, targets, True, data.num_classes or 0)
    return replace(
        data,
        test_inputs=inputs,
        test_targets=targets.astype(data.targets.dtype),
        test_weights=weights,
    )
