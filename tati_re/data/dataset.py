"""A data set: inputs, targets, the kind of targets, weights, and an optional test set."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_doors
from tati_re.core.user_input import as_array
from tati_re.data.categories import Categories
from tati_re.data.disk_arrays import blocks, chosen, on_disk
from tati_re.data.frames import labels_of
from tati_re.data.labels import (
    LabelRule,
    Names,
    are_integers,
    are_labels,
    as_storage_type,
    called,
    integer_names,
    kind_of,
    names_of,
    numbers_of_names,
)
from tati_re.data.packing import Layout
from tati_re.data.preparation import Preparation
from tati_re.data.streams import SPLIT, stream

_MOST_RANGES = 1000
"""Columns up to which a run remembers the range of each."""


@front_doors
@dataclass(frozen=True, eq=False)
class Dataset:
    """Examples for training and sampling, and a test set that only predictions use.

    Arrays keep their number type (bytes stay bytes). Computations first multiply the inputs by
    `input_scale`. `from_arrays` is the usual way to create a data set; it also determines the kind
    of targets.

    Args:
        inputs: Finite numbers, `(N, ...)`.
        targets: Finite numbers, `(N,)` or `(N, K)`.
        test_inputs: Inputs of the test set, `(M, ...)`. Default: None, no test set.
        test_targets: Targets of the test set, `(M,)` or `(M, K)`. Default: None, no test set.
        name: Name in messages and in the manifest. Default: "arrays".
        input_scale: Factor of the inputs, such as 1/255 for image bytes. Default: 1.0.
        num_classes: Number of classes, or None for a regression. Default: None.
        feature_names: Names of the input columns. Default: none.
        preparation: Transformation of inputs and targets before the network. Default: the scale
            only.
        weights: Weight of each example in the loss, `(N,)`, at least 0. Default: None, 1 each.
        test_weights: Weight of each test example, `(M,)`, at least 0. Default: None, 1 each.
        layout: Names and shapes of several inputs, which are concatenated in `inputs`. Default: one
            input.
        multi_label: Whether the target columns are separate labels of 0 and 1. Default: False.
        class_names: Names of the classes in the order of their numbers: texts, or the integers that
            are their labels in the data. Default: none, labels are the numbers.
        layout_scales: Factors already multiplied into several inputs, which also multiply inputs to
            predict. Default: none.
        label_names: Names of the table columns of the targets. Default: none.
        input_categories: Categories of input columns of text, whose numbers are in `inputs`.
            Default: none.

    Raises:
        InputError: There are no examples, lengths differ, test examples have another shape, or
            numbers are not finite.

    Examples:
        >>> Dataset.from_arrays([[0.0, 1.0], [2.0, 3.0]], [0, 1]).task
        'classification'
    """

    inputs: np.ndarray
    targets: np.ndarray
    test_inputs: np.ndarray | None = None
    test_targets: np.ndarray | None = None
    name: str = "arrays"
    input_scale: float = 1.0
    num_classes: int | None = None
    feature_names: tuple[str, ...] = ()
    preparation: Preparation | None = None
    weights: np.ndarray | None = None
    test_weights: np.ndarray | None = None
    layout: Layout = ()
    multi_label: bool = False
    class_names: Names = ()
    layout_scales: tuple[float, ...] = ()
    label_names: tuple[str, ...] = ()
    input_categories: tuple[Categories, ...] = ()

    def __post_init__(self) -> None:
        if (self.test_inputs is None) != (self.test_targets is None):
            raise InputError("The test set needs both inputs and targets.")
        if self.test_inputs is None and self.test_weights is not None:
            raise InputError(
                "test_weights needs a test set.", expected="test_inputs and test_targets"
            )
        values_by_name = {field.name: getattr(self, field.name) for field in fields(self)}
        for part in ("", "test_"):
            for name in (part + "inputs", part + "targets"):
                if values_by_name[name] is not None:
                    values_by_name[name] = as_array(values_by_name[name], name, numbers=True)
            inputs = values_by_name[part + "inputs"]
            weights = values_by_name[part + "weights"]
            _check_part(part, inputs, values_by_name[part + "targets"])
            if weights is not None:
                values_by_name[part + "weights"] = checked_weights(
                    weights, len(inputs), f"{part}sample_weights"
                )
        for name, values in values_by_name.items():
            object.__setattr__(self, name, values)
        if self.test_inputs is not None:
            for kind in ("inputs", "targets"):
                train = values_by_name[kind]
                test = values_by_name["test_" + kind]
                if train.shape[1:] != test.shape[1:]:
                    expected = f"examples of shape {train.shape[1:]}"
                    raise InputError(f"test_{kind} do not fit {kind}.", test.shape[1:], expected)

    def __repr__(self) -> str:
        test = (
            "no test set" if self.test_inputs is None else f"{len(self.test_inputs):,} for testing"
        )
        return f"{self.name}: {self.num_examples:,} examples, {test}, inputs {self.inputs.shape[1:]}, {self.task}"

    @classmethod
    def from_arrays(
        cls,
        inputs: object,
        targets: object,
        test_inputs: object = None,
        test_targets: object = None,
        *,
        name: str = "arrays",
        input_scale: float = 1.0,
        feature_names: tuple[str, ...] = (),
        by_value: bool = False,
        num_classes: int | None = None,
        multi_label: bool = False,
        places: tuple = (),
        rule: LabelRule = "values",
        weights: object = None,
        test_weights: object = None,
        layout: Layout = (),
        layout_scales: tuple[float, ...] = (),
    ) -> "Dataset":
        """Makes a data set and determines the kind of its targets.

        * -1 and +1 in one column: two classes by sign, kept as they are (one output, accuracy by
          sign);
        * text in one column: names of classes, which are numbered in sorted order;
        * up to 20 different integers from 0 to 99, most of which repeat or which are
          0, 1, 2, ...: classes, which the integers name, numbered from 0 in their order and kept as int32;
        * nothing but 0 and 1 in several columns: one-hot classes, refused where a row has not a
          single 1; with `multi_label` rows of any labels, also one-hot ones if `num_classes` is 0;
        * anything else: values of a regression.

        Where `num_classes` is given the targets must be that many classes, in any form: integers
        from 0, or as many different ones; one or, as class numbers `(N, places, ...)`, several an
        example. `(N, 1)` becomes `(N,)`.

        Args:
            inputs: Inputs, `(N, ...)`, finite numbers; one-dimensional ones become `(N, 1)`.
            targets: Targets or labels, `(N,)` or `(N, K)`; `(N, 1)` becomes `(N,)`.
            test_inputs: Inputs of the test set, `(M, ...)`. Default: no test set.
            test_targets: Targets of the test set, `(M,)` or `(M, K)`. Default: no test set.
            name: What messages and the manifest call it. Default: "arrays".
            input_scale: Factor of the inputs, such as 1/255 for image bytes. Default: 1.
            feature_names: One name for each column of the inputs. Default: none.
            by_value: Take floats that are whole numbers as integers, as in a text file. Default
                False: floats are classes only if they are 0 and 1, or -1 and +1, or one-hot.
            num_classes: The number of classes, at least 2, or 0 for a regression. Default: None, by
                the values.
            multi_label: Rows of 0 and 1 may be several labels at once, for the binary
                cross-entropy. Default: no.
            places: The shape of labels that are no one-hot rows, but those of several places.
                Default: none is.
            rule: What integers mean under the loss. Default: classes if they are few.
            weights: The weight of each example in the loss, `(N,)`, 0 or more. Default: 1.
            test_weights: The weights of the test set, `(M,)`. Default: 1.
            layout: Names and shapes of several inputs, as of `Dataset`. Default: one input.
            layout_scales: Factors of several inputs, as of `Dataset`. Default: none.

        Returns:
            The data set.

        Raises:
            InputError: As the class, and labels that are not the classes they should be.
        """
        parts = (inputs, targets, test_inputs, test_targets)
        arrays: list[Any] = [None if a is None else as_array(a, "data") for a in parts]
        arrays[1::2] = [None if a is None else labels_of(a) for a in arrays[1::2]]
        for i in (0, 2):
            if arrays[i] is not None and arrays[i].ndim == 1:
                arrays[i] = arrays[i][:, None]
        for i in (1, 3):
            if arrays[i] is not None and arrays[i].ndim == 2 and arrays[i].shape[1] == 1:
                arrays[i] = arrays[i][:, 0]
        names: Names = ()
        if arrays[1] is not None and arrays[1].dtype.kind == "U":
            names = names_of(arrays[1], num_classes)
            num_classes, arrays[1] = len(names), numbers_of_names(arrays[1], names, "targets")
            arrays[3] = (
                None if arrays[3] is None else numbers_of_names(arrays[3], names, "test_targets")
            )
        checked = cls(arrays[0], arrays[1], arrays[2], arrays[3], name)
        multi_label = multi_label and are_labels(checked.targets, checked.test_targets, num_classes)
        num_classes = 0 if multi_label else num_classes
        kind, num_classes = kind_of(
            checked.targets, checked.test_targets, by_value, num_classes, places, rule
        )
        if kind == "classification" and not names:
            names = integer_names(checked.targets, checked.test_targets, num_classes or 0)
        train_labels = checked.targets
        test_labels = checked.test_targets
        if are_integers(names):
            train_labels = numbers_of_names(train_labels, names, "data")
            if test_labels is not None:
                test_labels = numbers_of_names(test_labels, names, "data")
        return cls(
            inputs=checked.inputs,
            targets=as_storage_type(train_labels, kind),
            test_inputs=checked.test_inputs,
            test_targets=None if test_labels is None else as_storage_type(test_labels, kind),
            name=name,
            input_scale=input_scale,
            num_classes=num_classes,
            feature_names=tuple(feature_names),
            weights=cast("np.ndarray | None", weights),
            test_weights=cast("np.ndarray | None", test_weights),
            layout=layout,
            multi_label=multi_label,
            class_names=names,
            layout_scales=layout_scales,
        )

    def split(self, test_fraction: float, seed: int, shuffle: bool = True) -> "Dataset":
        """Returns the same data with a test set split off.

        A data set that already has one is returned unchanged.

        Args:
            test_fraction: Fraction of the examples, in [0, 1), rounded to whole examples; at least
                one is left for training.
            seed: Seed of the choice. Both parts keep the order of the examples.
            shuffle: Whether the test set is random; False uses the last examples. Default: True.

        Returns:
            A data set with test set, or this one.
        """
        refuse_if(
            not 0 <= test_fraction < 1,
            "test_fraction is out of its range.",
            test_fraction,
            "a number in [0, 1)",
        )
        count = min(round(test_fraction * self.num_examples), self.num_examples - 1)
        if self.test_inputs is not None or test_fraction == 0 or self.num_examples == 1:
            return self
        received = f"{test_fraction:g} of {self.num_examples:,} examples"
        refuse_if(
            count == 0,
            "test_fraction: no example would be held out.",
            received,
            "more examples, a larger fraction, or 0",
        )
        test = np.zeros(self.num_examples, bool)
        order = (
            stream(seed, SPLIT).permutation(self.num_examples)
            if shuffle
            else np.arange(self.num_examples)[::-1]
        )
        test[order[:count]] = True
        x = self.inputs
        y = self.targets
        w = self.weights
        parts: dict[str, Any] = {"inputs": chosen(x, ~test), "targets": y[~test]}
        parts |= {"test_inputs": chosen(x, test), "test_targets": y[test]}
        if w is not None:
            parts |= {"weights": w[~test], "test_weights": w[test]}
            _refuse_zero_weights(w[~test], "training")
            _refuse_zero_weights(w[test], "test")
        return replace(self, **parts)

    def as_labels(self, targets: np.ndarray) -> np.ndarray:
        """Converts class numbers to the labels of the data if those are integers; otherwise
        unchanged.

        Args:
            targets: Targets of this data set, shape `(n, ...)`.

        Returns:
            Labels in the same shape.
        """
        return np.array(self.class_names)[targets] if are_integers(self.class_names) else targets

    def with_classes(self, num_classes: int | None, rule: LabelRule) -> "Dataset":
        """Returns the data set with its integer labels reinterpreted.

        Args:
            num_classes: The number of classes, 0 for a regression, None for a choice by the rule.
            rule: The meaning of integers.

        Returns:
            A data set of classes or of values.
        """
        if not are_integers(self.class_names) or (
            num_classes in (None, self.num_classes) and rule != "numbers"
        ):
            return self
        targets = self.as_labels(self.targets)
        test = None if self.test_targets is None else self.as_labels(self.test_targets)
        kind, count = kind_of(targets, test, True, num_classes, (), rule)
        test = None if test is None else as_storage_type(test, kind)
        targets = as_storage_type(targets, kind)
        return replace(self, targets=targets, test_targets=test, num_classes=count, class_names=())

    @property
    def num_examples(self) -> int:
        """N, the number of examples for training and sampling."""
        return len(self.inputs)

    @property
    def task(self) -> str:
        """The kind of targets: "classification" (class numbers, int32), "signs" (-1 and +1),
        "one_hot", "multi_label" (several labels of 0 and 1) or "regression".
        """
        if self.multi_label:
            return "multi_label"
        if self.num_classes is None:
            return "regression"
        numbers = (
            self.targets.ndim == 2 and self.targets.dtype == np.int32
        )  # of places, unless they are one-hot rows
        if numbers and (
            self.targets.shape[1] != self.num_classes or (self.targets.sum(axis=1) != 1).any()
        ):
            return "classification"
        if self.targets.ndim == 2:
            return "one_hot"
        return "signs" if self.targets.min() < 0 else "classification"

    def prepare(self, inputs: np.ndarray) -> np.ndarray:
        """Returns inputs as the network expects them; unscaled if there is no preparation.

        Args:
            inputs: Inputs as in the data, shape (n, ...).

        Returns:
            Inputs of the network, shape (n, ...).
        """
        return (
            inputs
            if self.preparation is None
            else self.preparation.inputs(inputs, self.input_scale)
        )

    def restore(self, outputs: np.ndarray, predicts_noise: bool = False) -> np.ndarray:
        """Converts outputs of a network to the units of the targets.

        Args:
            outputs: Outputs, `(n, ...)`.
            predicts_noise: Whether the second half of the outputs are logarithms of standard
                deviations. Default: False.

        Returns:
            Outputs in the units of the targets, in the same shape.
        """
        return (
            outputs
            if self.preparation is None
            else self.preparation.restored(outputs, predicts_noise)
        )

    def prepared(self) -> "Dataset":
        """Returns the data set that the network trains on; this one if it is only rescaled."""
        if self.preparation is None:
            return self
        parts: dict[str, Any] = {
            "inputs": self.prepare(self.inputs),
            "targets": self.preparation.targets(self.targets),
            "test_inputs": None if self.test_inputs is None else self.prepare(self.test_inputs),
            "test_targets": None
            if self.test_targets is None
            else self.preparation.targets(self.test_targets),
        }
        columns = self.preparation.columns
        names = self.feature_names if columns is None else columns.texts
        return replace(
            self,
            **parts,
            input_scale=1.0,
            feature_names=names,
            preparation=None,
            input_categories=(),
        )

    def get_config(self) -> dict:
        """Returns the manifest entry of the data, which suffices to predict other inputs without
        them.
        """
        places = self.targets.shape[1:] if self.task == "classification" else ()
        return {
            "task": self.task,
            "num_classes": self.num_classes,
            "input_scale": self.input_scale,
            "feature_names": list(self.feature_names),
            "preparation": None if self.preparation is None else self.preparation.get_config(),
            **(
                {"layout": [{"name": n, "shape": list(shape)} for n, shape in self.layout]}
                if self.layout
                else {}
            ),
            **({"class_names": list(self.class_names)} if self.class_names else {}),
            **({"places": list(places)} if places else {}),
            **({"label_names": list(self.label_names)} if self.label_names else {}),
            **({"layout_scales": list(self.layout_scales)} if self.layout_scales else {}),
            **self._input_categories(),
            **self._input_ranges(),
        }

    def _input_categories(self) -> dict[str, Any]:
        """The categories of the columns of text, in the order of their numbers."""
        if not self.input_categories:
            return {}
        entries = [
            {"column": categories.column, "texts": list(categories.texts)}
            for categories in self.input_categories
        ]
        return {"input_categories": entries}

    def _input_ranges(self) -> dict[str, Any]:
        """The least and the largest value of each column of a table in the training set."""
        inputs = self.inputs
        table = inputs.ndim == 2 and self.input_scale == 1.0 and not self.layout
        if not table or inputs.shape[1] > _MOST_RANGES or on_disk(inputs):
            return {}
        numbers = inputs.astype(np.uint8) if inputs.dtype == np.bool_ else inputs
        ends = {"low": numbers.min(axis=0).tolist(), "high": numbers.max(axis=0).tolist()}
        return {"input_ranges": ends}

    def fingerprint(self) -> str:
        """Returns the SHA-256 (hexadecimal) of values, shapes, types, scale and preparation.

        The name does not enter.
        """
        return self._fingerprint

    @cached_property
    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(float(self.input_scale)).encode())
        weights = [values for values in (self.weights, self.test_weights) if values is not None]
        for values in (self.inputs, self.targets, self.test_inputs, self.test_targets, *weights):
            if values is None:
                digest.update(b"none")
            else:
                # In one byte order, so that the fingerprint does not depend on the machine.
                values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
                digest.update(f"{values.dtype.str}{values.shape}".encode())
                digest.update(values.reshape(-1).view(np.uint8).data)
        for described in filter(None, (self.layout, self.class_names)):
            digest.update(repr(described).encode())
        if self.preparation is not None:
            digest.update(self.preparation.fingerprint())
        return digest.hexdigest()


def _check_part(part: str, inputs: np.ndarray | None, targets: np.ndarray | None) -> None:
    if inputs is None or targets is None:
        return
    if inputs.ndim < 2 or targets.ndim < 1:
        shapes = f"{part}inputs {inputs.shape}, {part}targets {targets.shape}"
        raise InputError(
            "Inputs or targets have too few dimensions.", shapes, "(N, ...) and (N,) or (N, K)"
        )
    if len(inputs) != len(targets):
        received = f"{len(inputs)} {part}inputs and {len(targets)} {part}targets"
        raise InputError(
            "The numbers of inputs and targets differ.", received, "one target for each input"
        )
    if inputs.size == 0 or targets.size == 0:
        raise InputError(
            f"There are no {part}examples.",
            f"{part}inputs of shape {inputs.shape}",
            "at least 1 example",
        )
    for kind, values in (("inputs", inputs), ("targets", targets)):
        if values.dtype.kind == "f" and not all(
            np.isfinite(block).all() for block in blocks(values)
        ):
            index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
            place = f"{part}{kind}[{', '.join(map(str, index))}]"
            problem = "The data contain a value that is not finite."
            raise InputError(problem, f"{place} = {values[index]}", "finite numbers")


def checked_weights(weights: Any, count: int, argument: str = "sample_weights") -> np.ndarray:
    """Weights as float64, shape (count,).

    Args:
        weights: Finite numbers, at least 0 and not all 0, shape (count,) or (count, 1).
        count: The number of examples or classes.
        argument: What messages call the weights. Default: "sample_weights".

    Raises:
        InputError: The weights have another shape, are not finite, are negative, or are all 0.
    """
    values = as_array(weights, argument, np.float64)
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    if values.shape != (count,):
        raise InputError(
            f"{argument} do not match the examples.",
            f"shape {values.shape}",
            f"({count},), one per example",
        )
    if not np.isfinite(values).all() or (values < 0).any():
        i = int(np.flatnonzero(~np.isfinite(values) | (values < 0))[0])
        raise InputError(
            f"{argument} contain an invalid weight.",
            f"{values[i]:g} of example {i}",
            "0 or more",
        )
    refuse_if(not values.any(), f"{argument} are all zero.", expected="at least one above 0")
    return values


def of_classes(
    class_weights: Sequence[float] | Mapping[Any, float], dataset: Any, targets: np.ndarray
) -> np.ndarray:
    """The weight of the class of each example.

    Args:
        class_weights: One weight for each class, or weights by name or number of the class. Classes
            that are not named have weight 1.
        dataset: The data set that defines the classes.
        targets: Labels in the form that the data set stores, shape (n,) or one-hot (n, classes).

    Returns:
        Weights, float64, shape (n,).

    Raises:
        InputError: The labels are not classes, examples have several classes, or a class is
            unknown.
    """
    count = dataset.num_classes
    refuse_if(
        count is None,
        "class_weights: the labels are not classes.",
        f"a {dataset.task}",
        "num_classes for classes, or sample_weights",
    )
    if isinstance(class_weights, Mapping):
        number = {called(name): k for k, name in enumerate(dataset.class_names)}
        if not are_integers(dataset.class_names):
            number = {str(k): k for k in range(count)} | number
        by_class = dict.fromkeys(range(count), 1.0)
        for label, weight in class_weights.items():
            expected = ", ".join(map(called, dataset.class_names[:10])) or f"0 to {count - 1}"
            refuse_if(called(label) not in number, "class_weights: unknown class.", label, expected)
            by_class[number[called(label)]] = weight
        class_weights = [*by_class.values()]
    if len(class_weights) != count:
        raise InputError(
            "class_weights: their number differs from the number of classes.",
            f"{len(class_weights)} of them",
            f"{count} numbers",
        )
    weights = checked_weights(class_weights, count, "class_weights")
    if targets.ndim > 1:
        refuse_if(
            dataset.task != "one_hot",
            "class_weights cannot weight examples with several classes.",
            targets.shape,
            "one",
        )
        return weights[targets.argmax(axis=1)]
    return weights[np.where(targets < 0, 0, targets).astype(int)]


def weights_by_class(dataset: Any) -> list[float]:
    """The weight of the examples of each class; empty where they have none, or it is one for all,
    or differs within a class.
    """
    if dataset.weights is None or dataset.num_classes is None or dataset.task == "regression":
        return []
    targets = dataset.targets
    numbers = targets.argmax(axis=1) if dataset.task == "one_hot" else np.maximum(targets, 0)
    numbers = np.asarray(numbers).reshape(len(targets), -1)
    if numbers.shape[1] != 1:
        return []
    class_weights = []
    for number in range(dataset.num_classes):
        weights = dataset.weights[numbers[:, 0] == number]
        if not len(weights) or np.ptp(weights) > 1e-9 * weights.max():
            return []
        class_weights.append(float(weights[0]))
    return class_weights if np.ptp(class_weights) > 0 and min(class_weights) > 0 else []


def class_weights_note(weights: Sequence[float]) -> str:
    """Says that probabilities are those of weighted classes, and how to undo it."""
    smallest = min(weights)
    ratio = " : ".join(f"{weight / smallest:.4g}" for weight in weights[:10])
    more = " : ..." if len(weights) > 10 else ""
    return (
        f"The classes are weighted {ratio}{more}: predicted probabilities refer to the weighted "
        "classes. To undo it, divide each p[c] by the weight of class c, then each row by its sum: "
        "prediction.without_class_weights()."
    )


def _refuse_zero_weights(weights: np.ndarray, part: str) -> None:
    """Refuses weights that leave no row of a part of the data."""
    refuse_if(
        not weights.any(),
        f"All {part} rows have the weight 0 (sample_weights, class_weights).",
        expected=f"a weight above 0 for one of the {part} rows",
    )


def with_weights(dataset: Any, sample_weights: Any = None, class_weights: Any = None) -> Any:
    """The data set with examples weighted by the product of sample weight and class weight.

    It applies before a part is kept for testing.

    Args:
        dataset: The data set.
        sample_weights: A weight for each example, shape (N,). Default: None, the weights that the
            data set has.
        class_weights: Weights as `of_classes` takes them, which also apply to the test set.
            Default: None, 1 for each class.
    """
    weights = dataset.weights
    test = dataset.test_weights
    if sample_weights is not None:
        weights = checked_weights(sample_weights, dataset.num_examples)
    if class_weights is not None and len(class_weights):
        weights = of_classes(class_weights, dataset, dataset.targets) * (
            1.0 if weights is None else weights
        )
        _refuse_zero_weights(weights, "training")
        if dataset.test_targets is not None:
            test = of_classes(class_weights, dataset, dataset.test_targets) * (
                1.0 if test is None else test
            )
            _refuse_zero_weights(test, "test")
    return replace(dataset, weights=weights, test_weights=test)
