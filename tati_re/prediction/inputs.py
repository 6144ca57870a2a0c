"""Inputs to predict from a file, with or without labels."""

import math
from collections import Counter
from pathlib import Path

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.files.regular import check_regular
from tati_re.core.files.unpacking import load_arrays
from tati_re.core.front_door import front_door
from tati_re.core.user_input import seeded
from tati_re.data.categories import stored_categories
from tati_re.data.loading import load_data
from tati_re.data.readers.contract import ReadRequest, TableReader, readable
from tati_re.data.readers.registry import reader_of, suffix_of, table_reader_of
from tati_re.data.source import ReadOptions, source_of
from tati_re.data.sources import read_source
from tati_re.data.tables import label_names
from tati_re.prediction.network import model_of
from tati_re.prediction.rows import warn_of_missing_labels
from tati_re.runs.run import RunFiles

NOISE = "noise"
"""In place of a file of other inputs: uniform random numbers, each input within the range that it
has.
"""


def read_inputs(
    source: str, run: RunFiles, encoding: str | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Reads inputs in the form of a run's training data, and labels.

    A table contains the columns that the run's inputs and labels have by name. Without names of
    labels, the labels are all columns that start with `label`. If there are none, the label is the
    only column that is left and has no weights. A `.npy` file, and an NPZ file of one array,
    contain only inputs. The test set is read from files and built-in sets that have one.

    Args:
        source: A file, or the name of a built-in data set.
        run: The run.
        encoding: Character encoding of a text table. Default: None, the encoding of the run's data.

    Returns:
        Inputs, shape (n, ...), and labels; None where there are none, or where rows lack them. A
        warning says so if others have one.

    Raises:
        InputError: The source is missing or damaged, lacks a column, or takes no encoding.
    """
    path = Path(source).expanduser()
    options = run.manifest.options
    suffix = suffix_of(path)
    if not path.is_dir():
        check_regular(path, "inputs")
    table = table_reader_of(path)
    if table is not None and path.is_file():
        known = encoding or (options.encoding if table.takes_encoding else None)
        return _from_table(path, run, table, known)
    reader = reader_of(path)
    is_text = reader is not None and reader.takes_encoding
    if encoding is not None and not is_text:
        raise InputError("encoding applies only to text tables.", source, "a .csv or .txt file")
    refuse_if(suffix == ".npy" and not path.is_file(), "There is no such file of inputs.", source)
    if suffix in (".npy", ".npz") and path.is_file():
        try:
            loaded = load_arrays(path)
            if suffix == ".npy":
                return loaded, None
            with loaded as file:
                if len(file.files) == 1:
                    return file[file.files[0]], None
        except (OSError, ValueError) as error:
            kind = "NPZ file" if suffix == ".npz" else "array of numbers"
            raise InputError(
                f"{path} cannot be read as an {kind}.", str(error).split("\n")[0]
            ) from None
    if not path.exists() and not path.suffix:
        how = {
            name: options.table[name]
            for name in ("test_fraction", "shuffle")
            if options.table.get(name) is not None
        }
        dataset = load_data(source, seed=options.seed, **how)
        if dataset.test_inputs is None:
            return dataset.inputs, dataset.targets
        return dataset.test_inputs, dataset.test_targets
    known = encoding or (options.encoding if is_text else None)
    reading = ReadOptions(data_keys=list(options.data_keys) or None, encoding=known)
    contents = read_source(source_of(source), reading)[0]
    if not contents.test:
        return contents.inputs, contents.targets
    inputs, targets = contents.test
    return inputs, targets


@front_door
def noise_like(inputs: np.ndarray, seed: int = 0) -> np.ndarray:
    """Draws uniform random inputs, as many as given, with each entry within its range in the data.

    A constant entry uses the range of all entries.

    Args:
        inputs: Inputs, `(n, ...)`.
        seed: Seed of the random numbers. Default: 0.

    Returns:
        Random inputs of the same shape.
    """
    values = np.asarray(inputs, np.float64)
    low = values.min(axis=0)
    high = values.max(axis=0)
    still = high <= low
    low = np.where(still, values.min(), low)
    high = np.where(still, values.max(), high)
    drawn = seeded(seed).uniform(low, high, values.shape)
    are_integers = np.asarray(inputs).dtype.kind in "bui"
    return (np.round(drawn) if are_integers else drawn).astype(np.asarray(inputs).dtype)


def _from_table(
    path: Path, run: RunFiles, reader: TableReader, encoding: str | None
) -> tuple[np.ndarray, np.ndarray | None]:
    with readable(path, reader):
        names = list(reader.column_names(path, ReadRequest(encoding=encoding, fewest_columns=1)))
    weights = run.manifest.options.sample_weights
    input_columns = list(run.manifest.dataset.feature_names)
    if not input_columns:
        from tati_re.models.inspect import input_shape_of

        input_columns = names[
            : math.prod(length or 1 for length in input_shape_of(model_of(run))[1:])
        ]
    counts = Counter(names)
    for name in input_columns:
        refuse_if(
            counts[name] == 0,
            f"{path.name} lacks a column of the run's inputs.",
            ", ".join(names),
            name,
        )
        problem = f"{path.name} has several columns with the same name."
        refuse_if(counts[name] > 1, problem, name, "different names")
    other_columns = [name for name in names if name not in (*input_columns, weights)]
    if labels := list(run.manifest.dataset.label_names):
        labels = labels if {*labels} <= {*other_columns} else []
    else:
        labels = label_names(other_columns) or (other_columns if len(other_columns) == 1 else [])
    missing = 0
    with readable(path, reader):
        if labels and reader.is_blank(path, labels, ReadRequest(encoding=encoding)):
            labels = []
        elif labels:
            missing = reader.num_blank(path, labels, ReadRequest(encoding=encoding))
    labels = [] if missing else labels
    request = ReadRequest(
        inputs=tuple(input_columns),
        labels=tuple(labels),
        named=run.manifest.dataset.class_names is not None,
        encoding=encoding,
        categories=stored_categories(run.manifest.dataset.input_categories),
    )
    with readable(path, reader):
        contents = reader.read(path, request)
    if missing:
        warn_of_missing_labels(missing, len(contents.inputs))
    if not labels:
        return contents.inputs, None
    targets = contents.targets
    return contents.inputs, targets[:, 0] if targets.shape[1:] == (1,) else targets
