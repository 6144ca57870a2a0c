"""Append-only tables of a run: CSV, and HDF5 for wide ones.

Both have `append(rows)`, `flush()`, `position()` (how much of the file is surely on the disk), `close()` and the
class method `reopen(path, columns, position, ...)`, which cuts the file off at a position and goes on from there.
"""

from tati_re.runs.csv_table import CsvTable, csv_text
from tati_re.runs.h5_table import H5Table
from tati_re.runs.storage import StorageError

__all__ = ["CsvTable", "H5Table", "StorageError", "csv_text"]
