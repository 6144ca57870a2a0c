"""The kinds of targets: class numbers, signs, one-hot rows, several labels at once, or the values
of a regression.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.data.numerals import Numeral, is_missing, is_number, numeral_of

MANY_CLASSES, MOST_VALUES, MAX_CLASSES = 10, 20, 100
"""Classes from which on a run asks whether counts are meant; different integers up to which labels
are classes where the user does not say, if all are below the third number; names of classes.
"""

Names = tuple[str | int, ...]
"""What classes are called: texts, or the integers that are their labels."""

LabelRule = Literal["values", "classes", "numbers"]
"""What integers in one column mean under a loss. "values": classes, numbered in the order of the
values that occur, if there are few; "classes": the same, however many there are; "numbers": values
that keep their size.
"""


FEW_ROWS = 5
"""Rows up to which names of classes need not repeat."""

_WHOLE = "a name in all rows; dropna of pandas removes rows without one"
_FRACTION = re.compile(r"\s*[-+]?\d*[.,]\d*[1-9]\d*(e[-+]?\d+)?\s*", re.I)
_DECIMAL = re.compile(r"\s*[-+]?\d*[.,]\d+(e[-+]?\d+)?\s*", re.I)


def names_of(labels: np.ndarray, num_classes: int | None) -> tuple[str, ...]:
    """The names of classes in their order, of labels that are texts.

    Texts name classes if there are at most 100 different ones, most of them repeat, and none looks
    like a number, a date or a missing value; or if `num_classes` says how many there are.

    Args:
        labels: Texts, shape `(n,)`.
        num_classes: The number of classes that the user gives, 0 for a regression, None for none.

    Raises:
        InputError: The texts are not names of classes.
    """
    texts = labels.tolist()
    names = tuple(np.unique(labels).tolist())
    declared = bool(num_classes) and num_classes == len(names)
    check_spellings(texts, bool(num_classes))
    if not declared and (num_classes is not None or not 2 <= len(names) <= MAX_CLASSES):
        expected_classes = (
            f"num_classes = {len(names)}" if num_classes else f"2 to {MAX_CLASSES} of them"
        )
        expected = f"{'numbers' if num_classes == 0 else expected_classes}, or label_columns that names another column"
        raise InputError(
            "The labels are text.", f"{_counted_texts(len(names))}, such as {names[0]!r}", expected
        )
    if not declared and not are_repeated(len(names), len(texts)):
        if all(map(is_number, names)):
            raise _number_as_text(names[0])
        raise InputError(
            "The labels are text, and most of them occur only once.",
            f"{len(names)} texts in {len(texts)} rows, such as {names[0]!r}",
            f"class names that repeat; num_classes = {len(names)} for {len(names)} "
            "classes; or label_columns that names another column",
        )
    return names


def _counted_texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count} texts"


def are_repeated(count: int, rows: int) -> bool:
    """Whether labels mostly occur more than once; up to 5 rows need not repeat any.

    Args:
        count: The number of different labels.
        rows: The number of rows.
    """
    return rows <= FEW_ROWS or 2 * count <= rows


def check_spellings(
    texts: Sequence[str], declared: bool, where: Callable[[int], str] = "targets[{}]".format
) -> None:
    """Refuses texts that are no names of classes by the way they are written.

    Args:
        texts: All labels.
        declared: The user says that they are names: only missing values are refused.
        where: The place of a label by its number, for a message. Default: `targets[3]`.

    Raises:
        InputError: A label is missing, looks like a number, or like another one in other case.
    """
    names = list(dict.fromkeys(texts))
    for name in names:
        if is_missing(name):
            place = f"{where(texts.index(name))} = {name!r}"
            raise InputError("A label is not a class name, although others are.", place, _WHOLE)
    if declared:
        return
    # More names than classes are refused anyway: some of them say how they look.
    names = names[: MAX_CLASSES + 1]
    one_mark = not any("," in name for name in names) or not any("." in name for name in names)
    if one_mark and all(map(_DECIMAL.fullmatch, names)) and any(map(_FRACTION.fullmatch, names)):
        raise _number_as_text(names[0])
    otherwise = f"; num_classes = {len(names)} treats the {len(names)} texts as class names"
    may_be_classes = 2 <= len(names) <= MAX_CLASSES and are_repeated(len(names), len(texts))
    otherwise = otherwise if may_be_classes else ""
    numerals = {name: numeral_of(name) for name in names if not is_number(name, fortran=False)}
    if unlike := _no_name(numerals, len(names), len(texts)):
        name, numeral = unlike
        place = f"{where(texts.index(name))} = {name!r}"
        raise InputError(
            f"A label is not a class name: it looks like {numeral.looks}.",
            place,
            f"{numeral.advice}{otherwise}",
        )
    if numerals and len(numerals) < len(names):
        number = next(name for name in names if name not in numerals)
        word = next(iter(numerals))
        raise InputError(
            "Some labels are numbers, others are text.",
            f"{where(texts.index(number))} = {number!r} and {where(texts.index(word))} = {word!r}",
            f"numbers in all rows, or class names in all rows{otherwise}",
        )
    _check_case(names, otherwise)


def _no_name(
    numerals: dict[str, Numeral | None], count: int, rows: int
) -> tuple[str, Numeral] | None:
    """The first text that is a number and no name; `numerals` are the kinds of all texts that no
    program reads as numbers, of `count` different labels in so many rows.
    """
    kinds = {name: numeral for name, numeral in numerals.items() if numeral is not None}
    few = len(numerals) == count and are_repeated(count, rows) and count <= MAX_CLASSES
    limits = [name for name, numeral in kinds.items() if numeral.looks == "a limit"]
    one_way = len(limits) > 2 and len({name.strip()[0] for name in limits}) == 1
    for name, numeral in kinds.items():
        if not numeral.may_name or not few or (one_way and name in limits):
            return name, numeral
    return None


def are_category_names(names: Sequence[str], count: int) -> bool:
    """Whether texts name categories by the rules for names of classes: 2 to 100 different ones,
    mostly repeated, none missing or like a number.

    Args:
        names: The different texts of a column.
        count: Number of rows.
    """
    if not 2 <= len(names) <= MAX_CLASSES or 2 * len(names) > count:
        return False
    if any(is_missing(name) or is_number(name, fortran=False) for name in names):
        return False
    kinds = {name: numeral_of(name) for name in names}
    return _no_name(kinds, len(names), count) is None


def alike(names: Iterable[str]) -> list[str]:
    """The first names that look alike: they differ only in upper and lower case, spaces, letters
    that are not shown, forms of one letter, or a full stop at their end.
    """
    by_key: dict[str, list[str]] = {}
    for name in names:
        by_key.setdefault(_without_spelling(name), []).append(name)
    return next((sorted(spellings) for spellings in by_key.values() if len(spellings) > 1), [])


def _check_case(names: Sequence[str], otherwise: str) -> None:
    """Refuses names that `alike` finds."""
    spellings = alike(names)
    if spellings:
        raise InputError(
            "Some labels differ only in upper and lower case, in spaces or in a full stop.",
            ", ".join(map(repr, spellings)),
            f"one spelling per class, for example with y.str.strip().str.lower(){otherwise}",
        )


def _without_spelling(name: str) -> str:
    """A name without what a reader takes for a slip of the hand."""
    shown = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    folded = " ".join(unicodedata.normalize("NFKC", shown).casefold().split())
    return folded.removesuffix(".") or folded


def _number_as_text(text: str) -> InputError:
    expected = "y.astype(float), or class names"
    if "," in text:
        expected = (
            "y.str.replace(',', '.').astype(float) for decimal commas, or "
            "y.str.replace(',', '').astype(float) for thousands"
        )
    return InputError("data: the labels are numbers stored as text.", repr(text), expected)


def called(label: object) -> str:
    """The name of a class, of a label in any form: 1 and 1.0 are one class."""
    return label if isinstance(label, str) else str(label).removesuffix(".0")


def are_integers(names: Names) -> bool:
    """Whether classes are called by the integers that are their labels in the data."""
    return bool(names) and all(isinstance(name, int) for name in names)


def are_names(labels: np.ndarray, names: Names) -> bool:
    """Whether labels are names of classes, and not numbers from 0.

    These are texts, integers where all names are integers, and other labels that are among the
    names.

    Args:
        labels: Labels, shape (n,) or (n, K).
        names: The names of the classes; empty where labels are numbers.
    """
    if isinstance(next(labels.flat, None), str):
        return True
    if not names or labels.size != len(labels):
        return False
    spellings = {*map(called, labels.reshape(-1).tolist())}
    return are_integers(names) or spellings <= {*map(called, names)}


def numbers_of_names(labels: object, names: Names, argument: str) -> np.ndarray:
    """The numbers, from 0, of classes that labels name, int32, shape (n,).

    Args:
        labels: Names of classes, shape (n,).
        names: All names in the order of their numbers.
        argument: What messages call the labels.

    Raises:
        InputError: A label is not among the names.
    """
    number = {called(name): k for k, name in enumerate(names)}
    texts = [called(label) for label in np.asarray(labels).reshape(-1).tolist()]
    if unknown := sorted({*texts} - {*number}):
        if not names:
            problem = f"{argument} are text, but the run has no class names."
            raise InputError(problem, unknown[0], "numbers, as in the data of the run")
        expected = ", ".join(map(called, names[:10]))
        raise InputError(
            f"{argument}: unknown class.{nearest(unknown[0], number)}", unknown[0], expected
        )
    return np.array([number[text] for text in texts], np.int32)


def integer_names(
    targets: np.ndarray, test_targets: np.ndarray | None, num_classes: int
) -> tuple[int, ...]:
    """The integers that are names of classes, rising.

    Args:
        targets: Class labels of the training set, shape (N,) or (N, K).
        test_targets: Class labels of the test set, or None.
        num_classes: The number of classes.

    Returns:
        The integers; none if labels already are numbers from 0 to `num_classes` - 1.
    """
    values = _values(targets, test_targets)
    if targets.ndim != 1 or (values[0] >= 0 and values[-1] < num_classes):
        return ()
    return tuple(int(value) for value in values)


def _values(targets: np.ndarray, test_targets: np.ndarray | None) -> np.ndarray:
    """All different labels of both parts, sorted."""
    parts = [targets] if test_targets is None else [targets, test_targets]
    return np.unique(np.concatenate([part.reshape(-1) for part in parts]))


def kind_of(
    targets: np.ndarray,
    test_targets: np.ndarray | None,
    by_value: bool,
    num_classes: int | None,
    places: tuple = (),
    rule: LabelRule = "values",
) -> tuple[str, int | None]:
    """The kind of targets and the number of classes.

    Args:
        targets: Shape `(N,)` or `(N, K)`.
        test_targets: Those of the test set, or None.
        by_value: Floats that are whole numbers count as integers.
        num_classes: What the user says, 0 for a regression, None to look at the values.
        places: Rows of this shape are not one-hot. Default: none is.
        rule: What integers mean. Default: classes if they are few.

    Returns:
        "classification", "signs", "one_hot" or "regression", and the number of classes or None.

    Raises:
        InputError: Labels that are not the classes they should be.
    """
    if num_classes == 0:
        return "regression", None
    if num_classes is not None:
        refuse_if(
            num_classes < 2,
            "num_classes is out of range.",
            num_classes,
            "at least 2, or 0 for regression",
        )
        return _declared(targets, test_targets, num_classes, places), num_classes
    values = _values(targets, test_targets)
    if values.dtype.kind == "b":
        values = values.astype(np.int32)
    if targets.ndim == 2 and targets.shape[1:] != places and set(values.tolist()) <= {0, 1}:
        otherwise = "num_classes = 0 for regression"
        for name, part in _named(targets, test_targets):
            _check_one_hot(
                name,
                part,
                f", loss = 'binary_crossentropy' for several labels per example, or {otherwise}",
            )
        return "one_hot", targets.shape[1]
    are_integers = values.dtype.kind in "ui" or bool((values == np.floor(values)).all())
    if targets.ndim != 1 or not are_integers or len(values) < 2:
        return "regression", None
    if values.tolist() == [-1, 1]:
        return "signs", 2
    rows = len(targets) + (0 if test_targets is None else len(test_targets))
    integers = by_value or values.dtype.kind in "ui" or values.tolist() == [0, 1]
    counted = values[-1] == len(values) - 1
    few = len(values) <= MOST_VALUES and (counted or are_repeated(len(values), rows))
    small = values[0] >= 0 and values[-1] < MAX_CLASSES
    if rule == "classes" or (integers and few and small):
        return "classification", int(values[-1]) + 1 if rule == "numbers" else len(values)
    return "regression", None


def are_labels(
    targets: np.ndarray, test_targets: np.ndarray | None, num_classes: int | None
) -> bool:
    """Whether targets are several labels of 0 and 1 for each example.

    If `num_classes` is None, some row must differ from a one-hot row, or rows must have several
    places.

    Args:
        targets: Targets of the training set, shape (N,) or (N, K, ...).
        test_targets: Targets of the test set, or None.
        num_classes: 0: any columns of 0 and 1 count. None: not given. A larger number: never.
    """
    parts = [targets] if test_targets is None else [targets, test_targets]
    if targets.ndim == 1 or num_classes or not all(np.isin(part, (0, 1)).all() for part in parts):
        return False
    return (
        num_classes == 0 or targets.ndim > 2 or any((part.sum(axis=1) != 1).any() for part in parts)
    )


def doubts(
    targets: np.ndarray, test: np.ndarray | None, num_classes: int | None, built=False
) -> Iterator[str]:
    """Sentences on labels of one column whose use as classes or as values is doubtful.

    Args:
        targets: Targets of the training set, shape (N,) or (N, K).
        test: Targets of the test set, or None.
        num_classes: The number of classes that the labels are treated as; None: values.
        built: Whether the network is built for these classes, so that many of them are doubtful.
            Default: False.

    Yields:
        At most one sentence.
    """
    labels = targets if test is None else np.concatenate([targets, test])
    if labels.ndim > 1 or len(labels) == 1 or not (labels == np.floor(labels)).all():
        return
    values = np.unique(labels)
    if len(values) == 1:
        yield f"All labels are {values[0]:g}: there is only one class."
    elif num_classes is not None and len(values) < num_classes:
        yield (
            f"Labels up to {values[-1]:g} are {num_classes} classes, of which "
            f"{len(values)} occur. Numbering them 0 to {len(values) - 1} makes a smaller "
            "model; num_classes = 0 makes a regression."
        )
    elif num_classes is not None and num_classes > MANY_CLASSES and built:
        yield (
            f"Labels {values[0]:g} to {values[-1]:g} are treated as classes. If they are "
            "counts, set num_classes = 0 for a regression."
        )
    elif num_classes is None and (
        2 * len(values) <= len(labels) or 0 <= values[0] <= values[-1] < MAX_CLASSES
    ):
        listed = ", ".join(f"{value:g}" for value in values[:5])
        if len(values) > 5:
            listed += f", ... ({len(values)} different values)"
        yield (
            f"Labels {listed} are treated as regression targets. Set num_classes = {len(values)} "
            "for classes, or 0 to confirm."
        )


def as_storage_type(targets: np.ndarray, kind: str) -> np.ndarray:
    """Class numbers as int32, all other targets as floats.

    Args:
        targets: Targets, shape (N,) or (N, K).
        kind: "classification" for class numbers, or another kind, as from `kind_of`.
    """
    if kind == "classification":
        return targets.astype(np.int32)
    return targets if targets.dtype.kind == "f" else targets.astype(np.float64)


def _named(targets: np.ndarray, test_targets: np.ndarray | None) -> list[tuple[str, np.ndarray]]:
    return [("targets", targets)] + (
        [] if test_targets is None else [("test_targets", test_targets)]
    )


def _declared(
    targets: np.ndarray, test_targets: np.ndarray | None, num_classes: int, places: tuple
) -> str:
    """Checks labels against the number of classes that the user gave and returns their kind.
    Several columns are one-hot, as many as classes, or class numbers of several places, where a row
    has not a single 1 or they are said.
    """
    classes = f"integers from 0 to {num_classes - 1}"
    parts = _named(targets, test_targets)
    columns = targets.shape[1:]
    if (
        columns not in ((), places)
        and targets.max() <= 1
        and (columns == (num_classes,) or (targets.sum(-1) == 1).all())
    ):
        for name, part in parts:
            problem = "The labels do not fit num_classes."
            received = f"{name} of shape {part.shape}"
            refuse_if(
                columns != (num_classes,), problem, received, f"{classes}, or {num_classes} columns"
            )
            _check_one_hot(name, part)
        return "one_hot"
    for name, part in parts:
        bad = np.argwhere(part != np.floor(part)).tolist() if part.dtype.kind == "f" else []
        if bad:
            raise InputError(
                "The labels are not integers.", f"{name}{bad[0]} = {part[tuple(bad[0])]}", classes
            )
    values = _values(targets, test_targets)
    signs = (
        num_classes == 2
        and not columns
        and (targets == -1).any()
        and np.isin(targets, (-1, 1)).all()
    )
    if not columns and not signs and len(values) == num_classes:
        return "classification"
    for name, part in parts:
        bad = np.argwhere(abs(part) != 1 if signs else (part < 0) | (part >= num_classes)).tolist()
        if bad:
            expected = "-1 or 1, as in the training set" if signs else classes
            raise InputError(
                "A label is not one of the classes.",
                f"{name}{bad[0]} = {part[tuple(bad[0])]}",
                expected,
            )
    return "signs" if signs else "classification"


def _check_one_hot(name: str, rows: np.ndarray, otherwise: str = "") -> None:
    wrong = (rows.sum(1) != 1) | ~((rows == 0) | (rows == 1)).all(1)
    if wrong.any():
        row = int(np.argmax(wrong))
        listed = ", ".join(f"{value:g}" for value in rows[row].astype(float)[:10])
        if rows.shape[1] > 10:
            listed += ", ..."
        total = rows[row].astype(float).sum()
        problem = (
            "Labels in several columns are not one-hot."
            if total == 1
            else "One-hot labels do not sum to one."
        )
        raise InputError(
            problem,
            f"{name}[{row}] = [{listed}], sum {total:g}",
            f"a single 1 in each row{otherwise}",
        )
