"""The tables and the splits of the protocols: which rows train, and which rows test."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

UCI = {
    "yacht": "yacht.txt",
    "energy": "energy.txt",
    "concrete": "concrete.txt",
    "wine-red": "wine-quality-red.txt",
    "power": "power-plant.txt",
    "boston": "boston.txt",
    "airfoil": "airfoil.txt",
    "bikesharing": "bikesharing.txt",
}
"""Files of FOLDER/uci, one row an example, target last."""
_GAP_NAMES = {"wine-red": "wine"}
_FOLDS, _REPEATS = 5, 10
_TRAINING_SHARE = 0.9


@dataclass(frozen=True, eq=False)
class Case:
    """One table, split into rows to learn from and rows to predict.

    Attributes:
        protocol: A, B, C or D.
        table: Name of the table.
        split: Number of the split, from 0.
        inputs: Training inputs, shape (n, features).
        targets: Training targets in their own units, shape (n,); class numbers of a classification.
        test_inputs: Inputs to predict, shape (m, features).
        test_targets: What came true, shape (m,).
        num_classes: Classes; 0 of a regression.
    """

    protocol: str
    table: str
    split: int
    inputs: np.ndarray
    targets: np.ndarray
    test_inputs: np.ndarray
    test_targets: np.ndarray
    num_classes: int = 0

    @classmethod
    def of_rows(
        cls, where: tuple[str, str, int], rows: np.ndarray, test: np.ndarray, num_classes: int = 0
    ) -> Case:
        """A case whose test set are the rows of these numbers; the others train, in their order.

        Args:
            where: Protocol, table and split.
            rows: The table, target last, shape (rows, features + 1).
            test: Numbers of the test rows.
            num_classes: Classes; 0 of a regression.
        """
        train = np.setdiff1d(np.arange(len(rows)), test)
        known, unknown = rows[train], rows[test]
        return cls(
            *where, known[:, :-1], known[:, -1], unknown[:, :-1], unknown[:, -1], num_classes
        )


@cache
def uci_table(folder: Path, name: str) -> np.ndarray:
    """A table of FOLDER/uci, target last.

    Raises:
        FileNotFoundError: The folder has no such table.
    """
    return np.loadtxt(folder / "uci" / UCI[name])


def published_rows(count: int, split: int) -> tuple[np.ndarray, np.ndarray]:
    """Training and test rows of one of the splits of protocol A.

    The rule of Hernández-Lobato and Adams (2015), whose files of row numbers it repeats.

    Args:
        count: Rows of the table.
        split: 0 to 19.

    Returns:
        Row numbers, shapes (round(.9 count),) and (the others,).
    """
    random = np.random.RandomState(1)
    for _ in range(split + 1):
        order = random.choice(range(count), count, replace=False)
    end = round(_TRAINING_SHARE * count)
    return order[:end], order[end:]


def protocol_a(folder: Path, table: str, split: int) -> Case:
    """One of the 20 splits of Hernández-Lobato and Adams."""
    rows = uci_table(folder, table)
    train, test = published_rows(len(rows), split)
    known, unknown = rows[train], rows[test]
    return Case("A", table, split, known[:, :-1], known[:, -1], unknown[:, :-1], unknown[:, -1])


def protocol_b(folder: Path, table: str, split: int) -> Case:
    """A gap split (Foong et al. 2019): the middle third along one feature is the test set."""
    gaps = json.loads((folder / "uci" / "gap_splits.json").read_text(encoding="utf-8"))
    test = np.array(gaps[_GAP_NAMES.get(table, table)][split])
    return Case.of_rows(("B", table, split), uci_table(folder, table), test)


def protocol_c(folder: Path, table: str, split: int) -> Case:
    """The split of bde's own comparison; `split` is the seed of the method."""
    from sklearn.model_selection import train_test_split

    rows = uci_table(folder, table)
    _, test = train_test_split(np.arange(len(rows)), test_size=0.2, random_state=0)
    return Case.of_rows(("C", table, split), rows, test)


def protocol_d(folder: Path, table: str, split: int) -> Case:
    """Ten times five folds of a table that scikit-learn brings; classes keep their shares."""
    del folder
    from sklearn import datasets
    from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

    inputs, targets = getattr(datasets, f"load_{table}")(return_X_y=True)
    classes = 0 if table == "diabetes" else len(np.unique(targets))
    kind = RepeatedStratifiedKFold if classes else RepeatedKFold
    folds = kind(n_splits=_FOLDS, n_repeats=_REPEATS, random_state=0)
    test = [each for _, each in folds.split(inputs, targets)][split]
    rows = np.column_stack([inputs, targets])
    return Case.of_rows(("D", table, split), rows, test, classes)


PROTOCOLS: dict[str, Callable[[Path, str, int], Case]] = {
    "A": protocol_a,
    "B": protocol_b,
    "C": protocol_c,
    "D": protocol_d,
}

TABLES = {
    "A": ("yacht", "energy", "concrete", "boston", "wine-red", "power"),
    "B": ("yacht", "energy", "concrete", "power", "wine-red"),
    "C": ("airfoil", "bikesharing"),
    "D": ("digits", "breast_cancer", "wine", "diabetes"),
}

_NUM_SPLITS = {"A": 20, "C": 5, "D": _FOLDS * _REPEATS}


def num_splits(folder: Path, protocol: str, table: str) -> int:
    """Splits of a table in a protocol."""
    if protocol != "B":
        return _NUM_SPLITS[protocol]
    gaps = json.loads((folder / "uci" / "gap_splits.json").read_text(encoding="utf-8"))
    return len(gaps[_GAP_NAMES.get(table, table)])


def missing_tables(folder: Path, protocol: str) -> list[str]:
    """Tables of a protocol that the folder does not hold."""
    if protocol == "D":
        return []
    return [name for name in TABLES[protocol] if not (folder / "uci" / UCI[name]).exists()]


def keys(
    folder: Path, protocol: str, tables: tuple[str, ...], splits: range
) -> Iterator[tuple[str, int]]:
    """Table and split of each case, split by split, so that what is there can be compared."""
    absent = missing_tables(folder, protocol)
    here = [name for name in TABLES[protocol] if name in tables and name not in absent]
    for split in splits:
        for table in here:
            if split < num_splits(folder, protocol, table):
                yield table, split
