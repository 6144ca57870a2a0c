"""Data from anywhere: built-in names, CSV and NPZ files, arrays."""

from __future__ import annotations

import csv
import warnings
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tati_re.data.dataset import Dataset
from tati_re.data.generators import BUILT_IN
from tati_re.errors import InputError, nearest

DEFAULT_TEST_FRACTION = 0.2
NPZ_KEYS = "x_train, y_train, x_test, y_test, or x, y"


def load_data(
    source: object,
    test_fraction: float | None = None,
    seed: int = 0,
    *,
    label_columns: Sequence[str] | None = None,
    input_columns: Sequence[str] | None = None,
) -> Dataset:
    """Loads a data set.

    Args:
        source: A built-in name (digits, two_clusters, harmonic, gaussian), the path of a .csv or .npz file, arrays
            `(x, y)` or, as tuples, `((x, y), (x_test, y_test))`, or a `Dataset`, which is returned as it is.
        test_fraction: Part of the examples kept for testing where the data bring no test part, in [0, 1).
            Default (None): 0.2 for built-in names and files, 0 for arrays, of which nothing is taken away unasked.
        seed: Draws what is kept for testing, and the built-in data that are random. Default 0.
        label_columns: Names of the label columns of a CSV file. Default: all that start with `label`, else the last.
        input_columns: Names of the input columns of a CSV file. Default: all others.

    Returns:
        The data set.

    Raises:
        InputError: Bad data, in one sentence.
    """
    if (label_columns is not None or input_columns is not None) and not _is_csv(source):
        received = str(source) if isinstance(source, (str, Path)) else type(source).__name__
        raise InputError("Columns can only be named for a CSV file.", received, "the path of a .csv file")
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (str, Path)):
        fraction = DEFAULT_TEST_FRACTION if test_fraction is None else test_fraction
        if not 0 <= fraction < 1:
            raise InputError("test_fraction is out of its range.", fraction, "a number in [0, 1)")
        if str(source) in BUILT_IN:
            return BUILT_IN[str(source)](fraction, seed)
        path = _existing(source)
        data = read_csv(path, label_columns, input_columns) if _is_csv(path) else read_npz(path)
        return data.split(fraction, seed)
    return _from_pair(source).split(test_fraction or 0.0, seed)


def read_csv(
    path: Path, label_columns: Sequence[str] | None = None, input_columns: Sequence[str] | None = None
) -> Dataset:
    """Reads a CSV file with a header line; lines that start with `#` are skipped.

    Label columns are those named, else all whose names start with `label`, else the last. Whole numbers from 0 to 99 in
    a single label column are classes, -1 and +1 are classes by sign, anything else is a regression
    (`Dataset.from_arrays`).

    Args:
        path: The file.
        label_columns: Names of the label columns.
        input_columns: Names of the input columns. Default: all that are not labels.

    Returns:
        Inputs `(N, columns)` float64; all examples are training examples.
    """
    names = _header(path)
    named = [n for n in names if n.lower().startswith("label")] or names[-1:]
    labels = named if label_columns is None else list(label_columns)
    inputs = [n for n in names if n not in labels] if input_columns is None else list(input_columns)
    for name in [*labels, *inputs]:
        if name not in names:
            what = f"{path.name} has no column '{name}'.{nearest(name, names)}"
            raise InputError(what, name, f"one of {', '.join(names)}")
    if not labels or not inputs:
        received = f"inputs {', '.join(inputs) or 'none'}, labels {', '.join(labels) or 'none'}"
        raise InputError(f"{path.name} needs a column of inputs and one of labels.", received)
    table = _table(path, names, [*inputs, *labels])
    x, y = table[:, : len(inputs)], table[:, len(inputs) :]
    return Dataset.from_arrays(np.ascontiguousarray(x), y, name=path.name, feature_names=tuple(inputs), by_value=True)


def read_npz(path: Path) -> Dataset:
    """Reads an NPZ file with the keys x_train, y_train and perhaps x_test, y_test; or x, y.

    Inputs of type uint8 are images: they stay bytes and get the scale 1/255.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, TypeError, AttributeError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{path} cannot be read as an NPZ file of numbers.", str(error).split("\n")[0]) from None
    keys = ("x_train", "y_train") if "x_train" in arrays else ("x", "y")
    if not set(keys) <= set(arrays):
        raise InputError(f"{path.name} lacks the arrays of a data set.", ", ".join(arrays) or "no arrays", NPZ_KEYS)
    has_test = {"x_test", "y_test"} <= set(arrays)
    test = (arrays["x_test"], arrays["y_test"]) if has_test else ()
    scale = 1 / 255 if arrays[keys[0]].dtype == np.uint8 else 1.0
    return Dataset.from_arrays(arrays[keys[0]], arrays[keys[1]], *test, name=path.name, input_scale=scale)


def _is_csv(source: object) -> bool:
    return isinstance(source, (str, Path)) and str(source).lower().endswith(".csv")


def _existing(source: str | Path) -> Path:
    path = Path(source).expanduser()
    known = path.suffix.lower() in (".csv", ".npz")
    if path.is_file() and known:
        return path
    if path.is_file():
        raise InputError("data is a file of an unknown type.", source, "a .csv or .npz file")
    if path.is_dir():
        raise InputError("data is a folder.", source, "a .csv or .npz file")
    if not known and len(path.parts) == 1:
        expected = f"{', '.join(BUILT_IN)}, or a .csv or .npz file"
        raise InputError(f"data is not known.{nearest(str(source), BUILT_IN)}", source, expected)
    folder = path.parent
    others = [p.name for p in folder.iterdir() if p.suffix.lower() in (".csv", ".npz")] if folder.is_dir() else []
    raise InputError(f"data is a file that does not exist.{nearest(path.name, others)}", source, "a .csv or .npz file")


def _from_pair(source: object) -> Dataset:
    if not isinstance(source, (tuple, list)) or len(source) != 2:
        form = "(x, y), ((x, y), (x_test, y_test)), a Dataset, a built-in name or a file name"
        raise InputError("data has the wrong form.", type(source).__name__, form)
    # As Keras' own data sets come: only tuples are pairs, so that nested lists of numbers stay arrays.
    if all(isinstance(part, tuple) and len(part) == 2 for part in source):
        return Dataset.from_arrays(*(_array(values) for part in source for values in part))
    return Dataset.from_arrays(*map(_array, source))


def _array(values: object) -> np.ndarray:
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError("data has rows of unequal lengths.", type(values).__name__, "arrays of numbers") from None


def _header(path: Path) -> list[str]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            line = next((line for line in file if line.strip() and not line.startswith("#")), None)
    except UnicodeDecodeError:
        raise InputError(f"{path.name} is not a text file.", path, "a CSV file in UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read.", error.strerror) from None
    if line is None:
        raise InputError(f"{path.name} is empty.", path, "a header line and one line an example")
    names = [name.strip() for name in next(csv.reader([line], skipinitialspace=True))]
    if all(_is_number(name) for name in names):
        raise InputError(f"{path.name} has no header line.", line.strip()[:80], "names of columns, separated by commas")
    if len(names) < 2:
        raise InputError(f"{path.name} has a single column.", line.strip()[:80], "at least two, separated by commas")
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise InputError(f"{path.name} has several columns of one name.", ", ".join(doubled), "different names")
    return names


def _rows(path: Path):
    """Yields (line number, cells) of the lines below the header."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = ((number, line) for number, line in enumerate(file, 1) if line.strip() and not line.startswith("#"))
        next(lines)
        for number, line in lines:
            yield number, next(csv.reader([line], skipinitialspace=True))


def _table(path: Path, names: list[str], used: list[str]) -> np.ndarray:
    """Returns the columns `used`, in this order; other columns may hold text."""
    columns = [names.index(name) for name in used]
    everything = sorted(columns) == list(range(len(names)))
    with path.open(newline="", encoding="utf-8-sig") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        lines = (line for line in file if line.strip() and not line.startswith("#"))
        next(lines)
        try:
            usecols = None if everything else columns
            table = np.loadtxt(lines, delimiter=",", comments=None, quotechar='"', ndmin=2, usecols=usecols)
        except UnicodeDecodeError:
            raise InputError(f"{path.name} is not a text file.", path, "a CSV file in UTF-8") from None
        except ValueError:
            table = None
    if table is not None and table.size == 0:
        raise InputError(f"{path.name} has no examples.", path, "one line an example below the header")
    if table is not None and table.shape[1] == len(columns) and np.isfinite(table).all():
        return table[:, columns] if everything else table
    raise _bad_cell(path, names, used)


def _bad_cell(path: Path, names: list[str], used: list[str]) -> InputError:
    """Finds what is wrong with the first bad line; the fast reader does not say it in the words of the file."""
    for number, cells in _rows(path):
        if len(cells) != len(names):
            return InputError(f"{path.name}, line {number} has the wrong number of cells.", len(cells), len(names))
        for name, cell in zip(names, cells, strict=True):
            if name in used and not (_is_number(cell) and np.isfinite(float(cell))):
                place = f"{path.name}, line {number}, column '{name}'"
                return InputError(f"{place} is no finite number.", cell.strip() or "an empty cell")
    return InputError(f"{path.name} cannot be read as a table of numbers.", path, "numbers separated by commas")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
