"""Data from each kind of source, by its name, type or suffix."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.data.archives import KERAS, load_keras
from tati_re.data.categories import Categories, one_hot_columns, with_codes
from tati_re.data.columns import Columns, numbered, parse_columns
from tati_re.data.contents import Contents, joined
from tati_re.data.frames import check_order, in_order, is_frame, labels_of, numbers_of
from tati_re.data.generators import GENERATORS
from tati_re.data.packing import is_several, order_of, packed
from tati_re.data.readers.contract import Reader, ReadRequest, TableReader, readable
from tati_re.data.readers.registry import (
    kinds_of_files,
    reader_of,
    readers,
    suffix_of,
    table_reader_of,
)
from tati_re.data.tables import choose_columns
from tati_re.data.tf_datasets import is_tf_dataset, read_tf_dataset

FORMS = "(x, y), (x, y, weights), ((x, y), (x_test, y_test)), a pandas.DataFrame, Dataset, tf.data.Dataset, name or file"


_ENCODING = "encoding applies only to text tables."
_TEXT_FILES = "a .csv, .tsv, .txt, .dat or .data file"


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


def read_source(source: object, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    """The contents of a source, and the columns derived from it."""
    if isinstance(source, str) and source in KERAS:
        contents = load_keras(source)
    elif by_name(source):
        return _from_files(source, reading)
    elif is_frame(source):
        return _from_frame(source, reading)
    else:
        problem = (
            "data_keys applies only to NPZ and TFRecord files; arrays are identified by "
            "their positions."
        )
        refuse_if(
            reading.data_keys is not None,
            problem,
            ", ".join(reading.data_keys or ()),
            "no data_keys",
        )
        contents = (
            read_tf_dataset(source, reading.limit) if is_tf_dataset(source) else _from_pair(source)
        )
    columns = derived(contents, reading)
    return contents, one_hot_columns(columns, contents.names, contents.categories)


def _from_frame(source: Any, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    """A data frame, whose labels are chosen as those of a file; its name says them."""
    frame = source.set_axis([str(name) for name in source.columns], axis=1)
    labels = reading.label_columns
    file = "the data frame"
    choice = choose_columns(
        list(frame.columns), labels, reading.input_columns, file, reading.weights
    )
    coded, categories = with_codes(
        frame[list(choice.inputs)], reading.categories, choice.inputs, "data"
    )
    inputs = numbers_of(coded, "data")
    targets = labels_of(frame[list(choice.labels)])
    weights = (
        None if choice.weights is None else numbers_of(frame[choice.weights], "sample_weights")
    )
    name = f"a data frame with labels {', '.join(choice.labels)}"
    parts = Contents(
        inputs,
        targets,
        (),
        name,
        choice.inputs,
        choice.labels,
        weights=weights,
        categories=categories,
    )
    return parts, one_hot_columns(choice.derived, choice.inputs, categories)


def derived(contents: Contents, reading: ReadOptions) -> Columns | None:
    """The map of columns for inputs `(N, columns)`, or None."""
    if reading.input_columns is None:
        return None
    if contents.inputs.ndim > 2:
        received = f"examples of shape {contents.inputs.shape[1:]}"
        raise InputError(
            "input_columns needs inputs in columns.", received, "a table, or arrays (N, columns)"
        )
    return parse_columns(
        reading.input_columns, contents.names or numbered(math.prod(contents.inputs.shape[1:]))
    )


def _from_files(source: object, reading: ReadOptions) -> tuple[Contents, Columns | None]:
    paths = [_existing(path) for path in _listed(source)]
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
        for each in part:
            texts.setdefault(each.column, set()).update(each.texts)
    return tuple(Categories(column, tuple(sorted(names))) for column, names in texts.items())


def read_test_part(
    source: object, training: object, reading: ReadOptions, contents: Contents
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs, targets and weights (or None) of test data, read in the same way as the training
    data.
    """
    try:
        known = _names_of(training, reading.encoding)
        if by_name(source):
            if known and (other := _names_of(source, reading.encoding)):
                refuse_if(
                    known != other,
                    "the test file has a different header.",
                    ", ".join(other),
                    ", ".join(known),
                )
            derived_from = reading.input_columns if is_table(source) else None
            keys = reading.data_keys[:2] if reading.data_keys else None
            weights = reading.weights if is_table(source) else None
            test_reading = replace(
                reading,
                input_columns=derived_from,
                data_keys=keys,
                weights=weights,
                categories=contents.categories,
            )
            test = _from_files(source, test_reading)[0]
        elif is_frame(source):
            test_reading = replace(reading, categories=contents.categories)
            test = _from_frame(in_order(source, known, "data"), test_reading)[0]
        else:
            test = (
                read_tf_dataset(source, reading.limit)
                if is_tf_dataset(source)
                else _from_pair(source, contents)
            )
        if test.layout and (order := order_of(test.layout, contents.layout)) is not None:
            test = replace(test, inputs=test.inputs[:, order])
    except InputError as error:
        text = str(error)
        raise InputError(
            f"test_{text}" if text.startswith(("data ", "data: ")) else f"test_data: {text}"
        ) from None
    if test.input_scale != contents.input_scale:
        received = f"{test.inputs.dtype} and {contents.inputs.dtype}"
        raise InputError(
            "test_data: the inputs differ in type from the training inputs.",
            received,
            "one type",
        )
    return test.inputs, test.targets, test.weights


def _column_names(reader: TableReader, path: Path, encoding: str | None) -> list[str]:
    with readable(path, reader):
        return list(reader.column_names(path, ReadRequest(encoding=encoding)))


def _names_of(source: Any, encoding: str | None) -> list[str]:
    """The names of the columns of a file or a data frame, of several files those of the first; else
    none.
    """
    if is_frame(source):
        return [str(name) for name in source.columns]
    if not is_table(source):
        return []
    path = _existing(_listed(source)[0])
    reader = table_reader_of(path)
    return [] if reader is None else _column_names(reader, path, encoding)


def _listed(source: Any) -> list[Any]:
    return [source] if isinstance(source, (str, Path)) else list(source)


def by_name(source: object) -> bool:
    """Whether a source is a name: text or a path, or a list of them."""
    parts = source if isinstance(source, (list, tuple)) else [source]
    return all(isinstance(part, (str, Path)) for part in parts)


def is_table(source: object) -> bool:
    """Whether a source is a file of columns, or a list with one."""
    return by_name(source) and any(
        table_reader_of(Path(path)) is not None for path in _listed(source)
    )


def source_text(source: object) -> str:
    """A source as text for error messages."""
    return ", ".join(map(str, _listed(source))) if by_name(source) else type(source).__name__


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


def _from_pair(source: object, first: Contents | None = None) -> Contents:
    """Arrays, of data frames by the names of their columns; of a test set in the order of those of
    `first`.
    """
    if not isinstance(source, (tuple, list)) or len(source) not in (2, 3):
        raise InputError("data has the wrong form.", type(source).__name__, FORMS)
    # As Keras' own data sets come: only tuples are pairs, so that nested lists of numbers stay
    # arrays.
    if len(source) == 2 and all(isinstance(part, tuple) and len(part) in (2, 3) for part in source):
        train = _pair(source[0], first)
        test = _pair(source[1], train)
        other = test.layout or "one"
        layout = train.layout or "one"
        refuse_if(
            layout != other,
            "data: the inputs of the test set differ in shape or type.",
            other,
            layout,
        )
        return replace(train, test=(test.inputs, test.targets), test_weights=test.weights)
    return _pair(source, first)


def _pair(source: Sequence[Any], first: Contents | None) -> Contents:
    x, y = source[:2]
    for part, called in zip(source[1:], ("labels", "weights"), strict=False):
        check_order(x, part, f"data: the {called}")
    x = in_order(x, first.names if first else (), "data")
    y = in_order(y, first.label_names if first else (), "data")
    names, label_names = (
        tuple(str(name) for name in part.columns)
        if is_frame(part) and part.columns.is_unique
        else ()
        for part in (x, y)
    )
    try:
        count = len(y)
    except TypeError:
        count = None
    categories: tuple[Categories, ...] = ()
    if is_several(x, count):
        inputs, layout = packed(x)
    else:
        known = None if first is None else first.categories
        coded, categories = with_codes(x, known, names, "data")
        inputs, layout = numbers_of(coded, "data"), ()
    weights = numbers_of(source[2], "data") if len(source) == 3 else None
    return Contents(
        inputs,
        labels_of(y),
        (),
        names=names,
        label_names=label_names,
        weights=weights,
        layout=layout,
        categories=categories,
    )
