"""The readers of files by the suffixes of the files: one line each.

Other packages add `feather = "my_module:FeatherReader"` to
`[project.entry-points."tati_re.readers"]` of their pyproject.toml; the name is the suffix without
its dot.
"""

from __future__ import annotations

import importlib
import re
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from tati_re.core.errors import InputError, refuse_if
from tati_re.data.readers.contract import Reader, TableReader
from tati_re.data.text_files import TEXTS

GROUP = "tati_re.readers"

READERS = {
    ".csv": "tati_re.data.readers.text:TextReader",
    ".tsv": "tati_re.data.readers.text:TextReader",
    ".txt": "tati_re.data.readers.text:TextReader",
    ".dat": "tati_re.data.readers.text:TextReader",
    ".data": "tati_re.data.readers.text:TextReader",
    ".parquet": "tati_re.data.readers.parquet:ParquetReader",
    ".npz": "tati_re.data.readers.npz:NpzReader",
    ".tfrecord": "tati_re.data.readers.tfrecord:TFRecordReader",
    ".tfrecords": "tati_re.data.readers.tfrecord:TFRecordReader",
}
"""Where the reader of each suffix is found."""

_COMMON = (".csv", ".txt", ".npz", ".parquet", ".tfrecord")
"""The formats of this package that messages list."""

_added = dict[str, Reader]()


@cache
def _installed() -> dict[str, str]:
    """The readers of installed packages by suffix."""
    readers = {
        f".{entry.name.lower().lstrip('.')}": entry.value for entry in entry_points(group=GROUP)
    }
    return {suffix: where for suffix, where in readers.items() if suffix not in READERS}


def readers() -> tuple[str, ...]:
    """Returns the suffixes of all readable files, those of this package first."""
    return tuple(dict.fromkeys((*READERS, *_added, *_installed())))


def add_reader(reader: Reader) -> None:
    """Registers a reader in this process.

    An installed package registers one everywhere by its entry point.

    Args:
        reader: The reader. It replaces an earlier registered reader of the same suffix.

    Raises:
        InputError: There are no suffixes, they have an invalid form, or they belong to this
            package.
    """
    if not isinstance(reader, Reader):
        expected = "an object of a class derived from tati_re.data.readers.Reader"
        raise InputError("The reader is not a Reader.", type(reader).__name__, expected)
    named = [suffix for suffix in reader.suffixes if re.fullmatch(r"\.[a-z0-9_]+", suffix)]
    if not named or len(named) < len(reader.suffixes):
        received = ", ".join(reader.suffixes) or "none"
        raise InputError("suffixes of a reader are invalid.", received, "such as ('.feather',)")
    registered = [suffix for suffix in named if suffix in READERS]
    refuse_if(
        registered,
        "suffixes: a reader of this package already has this suffix.",
        ", ".join(registered),
        "others",
    )
    _added.update(dict.fromkeys(named, reader))


def reader_of(path: Path) -> Reader | None:
    """The reader of a file by its name; None if its suffix is unknown.

    Args:
        path: The file, which need not exist.

    Returns:
        The reader.

    Raises:
        InputError: The package with the reader cannot be imported.
    """
    suffix = suffix_of(path)
    if suffix in _added:
        return _added[suffix]
    where = READERS.get(suffix) or _installed().get(suffix)
    return None if where is None else _imported(suffix, where)


def table_reader_of(path: Path) -> TableReader | None:
    """The reader of a file of named columns; None for all other files.

    Args:
        path: The file, which need not exist.

    Returns:
        The reader.
    """
    reader = reader_of(path)
    return reader if isinstance(reader, TableReader) else None


def suffix_of(path: Path) -> str:
    """The suffix of a file's type: `.tfrecord` also for `a.tfrecord.gz` and
    `a.tfrecord-00000-of-00010`.
    """
    name = path.name.lower()
    match = re.search(r"(\.tfrecords?)(-\d+-of-\d+)?(\.gz)?$", name)
    if match:
        return match[1]

    unpacked = Path(name.removesuffix(".gz")).suffix
    return unpacked if unpacked in TEXTS else Path(name).suffix


def kinds_of_files() -> str:
    """The formats as messages list them, those of other packages included."""
    others = [suffix for suffix in readers() if suffix not in READERS]
    kinds = [*_COMMON, *others]
    return f"a {', '.join(kinds[:-1])} or {kinds[-1]} file"


@cache
def _imported(suffix: str, where: str) -> Reader:
    module, _, attribute = where.partition(":")
    try:
        made = vars(importlib.import_module(module))[attribute]()
    except (ImportError, KeyError, TypeError) as error:
        problem = f"data: the reader of {suffix} files cannot be imported: {error}."
        raise InputError(problem, where, "an installed package that provides it") from error
    if not isinstance(made, Reader):
        problem = f"data: the reader of {suffix} files is not a Reader."
        raise InputError(problem, where, "a class derived from tati_re.data.readers.Reader")
    return made
