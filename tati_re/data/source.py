"""What data are given as, decided once: a name, files, a data frame, a stream or arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tati_re.data.archives import KERAS
from tati_re.data.categories import Categories
from tati_re.data.dataset import Dataset
from tati_re.data.frames import as_frame, is_frame
from tati_re.data.generators import GENERATORS
from tati_re.data.readers.registry import table_reader_of
from tati_re.data.tf_datasets import is_tf_dataset

Kind = Literal["generated", "images", "files", "frame", "dataset", "stream", "arrays"]


@dataclass(frozen=True)
class Source:
    """Data as they were given.

    Attributes:
        data: A name, paths, a data frame, a data set, a stream or arrays.
        kind: `generated` or `images` for a name of the package's own data or of Keras' image sets;
            `files` for paths; `frame` for a data frame; `dataset` for a `Dataset`; `stream` for a
            `tf.data.Dataset`; `arrays` for all else.
    """

    data: Any
    kind: Kind

    @property
    def is_named(self) -> bool:
        """Whether it is a name: text or a path, or a list of them."""
        return self.kind in ("generated", "images", "files")

    @property
    def is_table(self) -> bool:
        """Whether it is a file of columns, or a list with one."""
        return self.kind == "files" and any(
            table_reader_of(Path(path)) is not None for path in self.paths
        )

    @property
    def has_columns(self) -> bool:
        """Whether its columns have names, in a file or in a data frame."""
        return self.kind == "frame" or self.is_table

    @property
    def paths(self) -> list[str | Path]:
        """The files of a source that is named."""
        return [self.data] if isinstance(self.data, (str, Path)) else list(self.data)

    @property
    def text(self) -> str:
        """The source in error messages."""
        return ", ".join(map(str, self.paths)) if self.is_named else type(self.data).__name__


def source_of(data: object) -> Source:
    """Decides what data are.

    Args:
        data: A name, a path or a list of paths, a data frame, a data set, a stream or arrays.

    Returns:
        The source, which is not read yet; its files need not exist.
    """
    table = as_frame(data)
    return Source(table, _kind_of(table))


def _kind_of(data: object) -> Kind:
    if isinstance(data, str) and data in GENERATORS:
        return "generated"
    if isinstance(data, str) and data in KERAS:
        return "images"
    parts = data if isinstance(data, (list, tuple)) else [data]
    if all(isinstance(part, (str, Path)) for part in parts):
        return "files"
    if is_frame(data):
        return "frame"
    if isinstance(data, Dataset):
        return "dataset"
    return "stream" if is_tf_dataset(data) else "arrays"


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading files; None where one is not given. Label columns are names in a table,
    and `input_columns` the inputs of the network in terms of columns; `data_keys` are arrays of an
    NPZ file or features of a TFRecord file; `weights` is the column or NPZ array of sample weights.
    Inputs of more than `limit` bytes are kept on the disk. `num_classes` is what the user says:
    texts are then names of classes, however they look. `encoding` is that of tables of text.
    `categories` are those of the training data, for a test set.
    """

    label_columns: Sequence[str] | None = None
    input_columns: Sequence[str] | None = None
    data_keys: Sequence[str] | None = None
    weights: str | None = None
    limit: float | None = None
    num_classes: int | None = None
    encoding: str | None = None
    categories: tuple[Categories, ...] | None = None
