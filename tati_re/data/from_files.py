"""Data from files: by readers of their type, several files as one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.data.archives import KERAS
from tati_re.data.categories import Categories, one_hot_columns
from tati_re.data.columns import Columns
from tati_re.data.contents import Contents, joined
from tati_re.data.from_arrays import derived
from tati_re.data.generators import GENERATORS
from tati_re.data.readers.contract import Reader, ReadRequest, TableReader, readable
from tati_re.data.readers.registry import (
    kinds_of_files,
    reader_of,
    readers,
    suffix_of,
    table_reader_of,
)
from tati_re.data.source import ReadOptions, Source
from tati_re.data.tables import choose_columns

_ENCODING = "encoding applies only to text tables."
_TEXT_FILES = "a .csv, .tsv, .txt, .dat or .data file"


def from_files(source: Source, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    """The contents of files of one type, joined in order, and the columns derived from them.

    Args:
        source: One or several existing files.
        reading: Options for reading them.

    Returns:
        The contents, and the map to derived inputs, or None.

    Raises:
        InputError: A file is missing or of another type, or an option does not apply to the type.
    """
    paths = [_existing(path) for path in source.paths]
    refuse_if(not paths, "data contains no file names.", expected=kinds_of_files())
    reader = _one_reader(paths)
    _check_options(reader, paths[0], reading)
    if isinstance(reader, TableReader):
        return _from_tables(reader, paths, reading)
    keys = reading.data_keys
    request = ReadRequest(
        data_keys=None if keys is None else tuple(keys),
        weights=reading.weights,
        limit=reading.limit,
        encoding=reading.encoding,
    )
    contents = joined([_read(reader, path, request) for path in paths])
    return contents, derived(contents, reading)


def _one_reader(paths: Sequence[Path]) -> Reader:
    """The reader of all files, which have to be of one type."""
    kinds = sorted({suffix_of(path) for path in paths})
    readers = [reader for path in paths if (reader := reader_of(path)) is not None]
    same = len({type(reader) for reader in readers}) == 1 and readers[0].joins_suffixes
    if len(kinds) > 1 and not same:
        raise InputError(
            "data: files of different types cannot be joined.",
            " and ".join(kinds),
            "files of one type",
        )
    return readers[0]


def _check_options(reader: Reader, path: Path, reading: ReadOptions) -> None:
    """Refuses options that the reader does not take."""
    if reading.encoding is not None and not reader.takes_encoding:
        raise InputError(_ENCODING, path.name, _TEXT_FILES)
    if reading.data_keys is not None and not reader.takes_keys:
        problem = f"data_keys applies only to NPZ and TFRecord files; {_content_of(reader, path)}."
        received = ", ".join(reading.data_keys)
        expected = "label_columns" if isinstance(reader, TableReader) else "no data_keys"
        raise InputError(problem, received, expected)
    if reading.weights is not None and not reader.takes_weights:
        raise InputError(
            f"sample_weights cannot be read from {reader.name} files.",
            reading.weights,
            "a .csv or .npz file",
        )


def _content_of(reader: Reader, path: Path) -> str:
    content = "columns" if isinstance(reader, TableReader) else "no named arrays"
    return f"a {suffix_of(path)} file has {content}"


def _read(reader: Reader, path: Path, request: ReadRequest) -> Contents:
    with readable(path, reader):
        return reader.read(path, request)


def _from_tables(
    reader: TableReader, paths: Sequence[Path], reading: ReadOptions
) -> tuple[Contents, Columns | None]:
    names = _column_names(reader, paths[0], reading.encoding)
    for path in paths[1:]:
        others = _column_names(reader, path, reading.encoding)
        if others != names:
            problem = f"{path.name} has a different header from {paths[0].name}."
            raise InputError(problem, ", ".join(others), ", ".join(names))
    choice = choose_columns(
        names, reading.label_columns, reading.input_columns, paths[0].name, reading.weights
    )
    request = ReadRequest(
        inputs=choice.inputs,
        labels=choice.labels,
        weights=choice.weights,
        limit=reading.limit,
        named=bool(reading.num_classes),
        encoding=reading.encoding,
        categories=reading.categories,
    )
    contents = joined(_read_all(reader, paths, request))
    return contents, one_hot_columns(choice.derived, choice.inputs, contents.categories)


def _read_all(reader: Reader, paths: Sequence[Path], request: ReadRequest) -> list[Contents]:
    """The contents of several files, whose columns of text have the categories of all of them."""
    parts = [_read(reader, path, request) for path in paths]
    everything = _united([part.categories for part in parts])
    if len(parts) == 1 or all(part.categories == everything for part in parts):
        return parts
    known = replace(request, categories=everything)
    return [_read(reader, path, known) for path in paths]


def _united(parts: Sequence[tuple[Categories, ...]]) -> tuple[Categories, ...]:
    texts: dict[str, set[str]] = {}
    for part in parts:
        for categories in part:
            texts.setdefault(categories.column, set()).update(categories.texts)
    return tuple(Categories(column, tuple(sorted(names))) for column, names in texts.items())


def names_of_table(source: Source, encoding: str | None) -> list[str]:
    """The names of the columns of a file; none if it is not a table.

    Args:
        source: The data; the first of several files counts.
        encoding: Character encoding of a text table; None: UTF-8.
    """
    if not source.is_table:
        return []
    path = _existing(source.paths[0])
    reader = table_reader_of(path)
    return [] if reader is None else _column_names(reader, path, encoding)


def _column_names(reader: TableReader, path: Path, encoding: str | None) -> list[str]:
    with readable(path, reader):
        return list(reader.column_names(path, ReadRequest(encoding=encoding)))


_READERS_OF_OTHERS = {
    ".json": "pandas.read_json({})",
    ".jsonl": "pandas.read_json({}, lines=True)",
    ".ndjson": "pandas.read_json({}, lines=True)",
    ".feather": "pandas.read_feather({})",
    ".orc": "pandas.read_orc({})",
    ".dta": "pandas.read_stata({})",
    ".sav": "pandas.read_spss({})",
    ".sas7bdat": "pandas.read_sas({})",
    ".xml": "pandas.read_xml({})",
    ".html": "pandas.read_html({})[0]",
    ".fwf": "pandas.read_fwf({})",
    ".npy": "(inputs, labels), two arrays of numpy.load",
    ".mat": "(inputs, labels), two arrays of scipy.io.loadmat",
    ".h5": "(inputs, labels), two arrays of h5py",
    ".hdf5": "(inputs, labels), two arrays of h5py",
}
"""How Python reads files whose names end so; {} stands for the file."""


def _other_reader(source: str | Path) -> str:
    """What reads such a file in Python, as the end of a message; empty if that is not known."""
    suffix = suffix_of(Path(source))
    if suffix in (".zip", ".7z", ".rar", ".tar", ".tgz", ".xz", ".bz2", ".zst"):
        return "; unpack the archive first"
    reader = _READERS_OF_OTHERS.get(suffix)
    return "" if reader is None else f"; in Python data = {reader.format(repr(str(source)))}"


def _existing(source: str | Path) -> Path:
    path = Path(source).expanduser()
    files = kinds_of_files()
    try:
        path.is_file()
    except OSError as error:
        raise InputError(f"data: {error.strerror}.", source, files) from None
    suffixes = readers()
    known = suffix_of(path) in suffixes
    sheets = suffix_of(path) in (".xlsx", ".xls", ".xlsm", ".ods")
    if sheets:
        call = {".ods": "data=pandas.read_excel(..., engine='odf')"}.get(suffix_of(path))
        raise InputError(
            "data: spreadsheets cannot be read directly.",
            source,
            f"{call or f'data=pandas.read_excel({str(source)!r})'} in Python, or the sheet saved as a .csv file",
        )
    if path.is_file() and known:
        return path
    if path.is_file():
        raise InputError(
            "data is a file of an unknown type.", source, f"{files}{_other_reader(source)}"
        )
    refuse_if(path.is_dir(), "data is a folder.", source, files)
    if path.exists():
        expected = f"{files}: data are read more than once, which a pipe does not allow"
        raise InputError("data is not a regular file, but a pipe or device.", source, expected)
    folder = path.parent
    names = (*GENERATORS, *KERAS)
    others = (
        [p.name for p in folder.iterdir() if suffix_of(p) in suffixes] if folder.is_dir() else []
    )
    if not known and len(path.parts) == 1:
        expected = f"{', '.join(names)}, or {files}"
        raise InputError(
            f"data: unknown file or data set.{nearest(str(source), (*names, *others))}",
            source,
            expected,
        )
    expected = files if path.is_absolute() else f"{files}, in {Path.cwd()} or with its path"
    raise InputError(
        f"data: the file does not exist.{nearest(path.name, others)}", source, expected
    )
