"""The contract of a reader: which files it reads, and how it gives inputs and labels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.unpacking import DAMAGED, check_size, check_texts
from tati_re.data.categories import Categories, with_codes
from tati_re.data.contents import Contents
from tati_re.data.frames import labels_of, numbers_of

if TYPE_CHECKING:
    import pandas

UNREADABLE = (OSError, EOFError, ValueError, *DAMAGED)
"""What a reader may raise for a damaged file; people see one sentence with its text."""


@dataclass(frozen=True)
class ReadRequest:
    """What to read from a file.

    Args:
        inputs: Columns to read as inputs, in this order. Default: none, for files without columns.
        labels: Columns to read as labels, in this order. Default: none.
        weights: The column or array of sample weights. Default: none.
        data_keys: Names of the arrays to read, inputs first. Default: None, found by the reader.
        limit: Largest number of bytes after unpacking; larger inputs may stay on disk. Default: 2
            GB, in memory.
        named: Whether texts among the labels are always names of classes. Otherwise only texts that
            do not look like numbers are. Default: False.
        encoding: Character encoding of text tables. Default: UTF-8.
        categories: Categories of the input columns that hold text, as the training data have them.
            Default: None, found in the columns.
        fewest_columns: Columns that a text table must have: 1 for inputs alone. Default: 2, inputs
            and labels.
    """

    inputs: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    weights: str | None = None
    data_keys: tuple[str, ...] | None = None
    limit: float | None = None
    named: bool = False
    encoding: str | None = None
    categories: tuple[Categories, ...] | None = None
    fewest_columns: int = 2

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns to read: inputs, labels, then weights."""
        weights = () if self.weights is None else (self.weights,)
        return (*self.inputs, *self.labels, *weights)


class Reader(ABC):
    """Reads files of arrays; use a `TableReader` for files with named columns.

    `read` receives existing regular files only. An `OSError` or a `ValueError` for a damaged file
    becomes a sentence for the user. An `InputError` is shown unchanged.
    """

    suffixes: ClassVar[tuple[str, ...]] = ()
    """The suffixes of the files, in lower case, with the dot."""

    title: ClassVar[str] = ""
    """The format as messages call it. Default: the first suffix."""

    takes_keys: ClassVar[bool] = False
    """Whether `request.data_keys` names arrays of the file."""

    takes_weights: ClassVar[bool] = False
    """Whether `request.weights` names sample weights in the file."""

    takes_encoding: ClassVar[bool] = False
    """Whether the file holds text, stored as `request.encoding` says."""

    joins_suffixes: ClassVar[bool] = True
    """Whether files of different suffixes of this reader can be joined."""

    @abstractmethod
    def read(self, path: Path, request: ReadRequest) -> Contents:
        """Reads inputs, labels and anything else named in the request.

        Args:
            path: A regular file with one of the suffixes.
            request: What to read.

        Returns:
            Inputs of shape (N, ...), labels of shape (N,) or (N, columns), in the order of the
            file.
        """

    @property
    def name(self) -> str:
        """The format as messages call it."""
        return self.title or self.suffixes[0]

    def check_claim(self, path: Path, claimed: float, request: ReadRequest) -> None:
        """Refuses a file whose content would take more memory than a file of its size may.

        Args:
            path: The file.
            claimed: Bytes that its content takes in memory, as the file says or as counted so far.
            request: What to read, with the limit in bytes.

        Raises:
            ValueError: More than the limit and more than 200 times the file.
        """
        check_size(claimed, path.stat().st_size, request.limit)


class TableReader(Reader):
    """Reads files of named columns: `column_names` lists them, `frame` reads some of them.

    The choice of inputs, labels and weights, the types of numbers, names of classes, missing cells
    and their messages follow from these two.
    """

    takes_weights = True

    @abstractmethod
    def column_names(self, path: Path, request: ReadRequest) -> list[str]:
        """The names of all columns of a file, in its order.

        Args:
            path: A regular file with one of the suffixes.
            request: The encoding and the limit; columns are not chosen yet.

        Returns:
            The names.
        """

    def frame(self, path: Path, columns: Sequence[str], request: ReadRequest) -> pandas.DataFrame:
        """Some columns of a file as a data frame, one row an example, missing cells as pandas has them.

        Args:
            path: A regular file with one of the suffixes.
            columns: The names of the columns to read.
            request: What to read.

        Returns:
            The data frame.
        """
        raise NotImplementedError(f"{type(self).__name__} lacks frame or read.")

    def read(self, path: Path, request: ReadRequest) -> Contents:
        """Reads the columns that the request names.

        Args:
            path: A regular file with one of the suffixes.
            request: The columns.

        Returns:
            Inputs (N, columns), float32 if all of them are, else float64, with the numbers of
            categories in columns of text; labels (N, columns), names of classes as texts (N,).

        Raises:
            InputError: No rows, a column without numbers, or a missing cell.
        """
        frame = self.frame(path, request.columns, request)
        refuse_if(len(frame) == 0, f"{path.name} has no examples.", path, "at least one row")
        coded, categories = with_codes(
            frame[list(request.inputs)], request.categories, request.inputs, path.name
        )
        inputs = numbers_of(coded, path.name)
        if inputs.dtype not in (np.float32, np.float64):
            inputs = inputs.astype(np.float64)
        _check_names_of_classes(path, frame, request)
        targets = labels_of(frame[list(request.labels)], path.name)
        weights = None
        if request.weights is not None:
            weights = numbers_of(frame[request.weights], f"{path.name}: sample_weights")
        return Contents(
            inputs=inputs,
            targets=targets,
            name=path.name,
            names=request.inputs,
            label_names=request.labels,
            weights=weights,
            categories=categories,
        )

    def is_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> bool:
        """Whether all cells of some columns are empty, as the labels of rows to predict.

        Args:
            path: A regular file with one of the suffixes.
            columns: The names of the columns.
            request: The encoding and the limit.

        Returns:
            Whether no cell has a value.
        """
        return bool(self.frame(path, columns, request)[list(columns)].isna().all(axis=None))

    def num_blank(self, path: Path, columns: Sequence[str], request: ReadRequest) -> int:
        """The number of rows with an empty cell in some columns, such as rows without a label.

        Args:
            path: A regular file with one of the suffixes.
            columns: The names of the columns.
            request: The encoding and the limit.
        """
        return int(self.frame(path, columns, request)[list(columns)].isna().any(axis=1).sum())


def _check_names_of_classes(path: Path, frame: pandas.DataFrame, request: ReadRequest) -> None:
    """A `ValueError` if names of classes would take too much as texts of one length."""
    if len(request.labels) != 1:
        return
    labels = frame[request.labels[0]]
    longest = max((len(label) for label in labels.unique() if isinstance(label, str)), default=0)
    check_texts(len(labels), longest, path.stat().st_size, request.limit)


@contextmanager
def readable(path: Path, reader: Reader) -> Iterator[None]:
    """Turns what a reader raises for a damaged file into one sentence.

    Args:
        path: The file.
        reader: The reader, whose name the sentence contains.

    Raises:
        InputError: The file cannot be read.
    """
    try:
        yield
    except InputError:
        raise
    except UNREADABLE as error:
        reason = str(error).split("\n")[0].rstrip(".") or type(error).__name__
        problem = f"{path} cannot be read as a {reader.name} file: {reason}."
        raise InputError(problem) from None
