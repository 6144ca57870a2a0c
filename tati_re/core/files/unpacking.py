"""Sizes that files claim, checked before memory is asked for. What a header says of an array has to
be in the file; what a compressed file unpacks to has a bound: the memory limit of the data, 2 GB
elsewhere, or 200 times the file where that is more.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

import numpy as np

from tati_re.core.files.regular import open_regular

DAMAGED = (zipfile.BadZipFile, zlib.error, RuntimeError)
"""What reading a damaged archive raises beside a ValueError; a RuntimeError where a member says
that it is encrypted or compressed in an unknown way.
"""

LIMIT = 2e9
"""Bytes that any file may unpack to, where there is no other limit."""
RATIO = 200
"""Bytes that each byte of a file may unpack to; what compresses better is mostly zeros, or made to
fill a memory.
"""


H5_LIMIT = 256e6
"""Bytes that a compressed dataset of an HDF5 file may unpack to; this package writes none."""
H5_CHUNK = 64e6
"""Bytes of a chunk of an HDF5 dataset, which is read as a whole."""


def check_size(unpacked: float, packed: float, limit: float | None = None) -> None:
    """Refuses a file that claims more bytes than it may unpack to.

    Args:
        unpacked: Bytes that the file claims to unpack to.
        packed: Bytes of the file.
        limit: Bytes that any file may unpack to. Default: None, `LIMIT`. A file may always unpack
            to `RATIO` times its size.

    Raises:
        ValueError: The file claims more.
    """
    most = max(LIMIT if limit is None else limit, RATIO * packed)
    if unpacked > most:
        raise ValueError(
            f"it claims {unpacked:,.0f} bytes; the limit for a file of {packed:,.0f} is {most:,.0f}"
        )


def check_h5_size(dataset: Any, unwritten: float = 0.0) -> None:
    """A `ValueError` if a dataset of an HDF5 file claims more bytes than the file has of it: what
    was never written reads as zeros of any number.

    Args:
        dataset: An open `h5py.Dataset`.
        unwritten: Bytes that may be missing, as while a table grows. Default: none.
    """
    if dataset.is_virtual or dataset.external is not None:
        raise ValueError("it refers to numbers in other files")
    there = dataset.id.get_storage_size()
    chunk = math.prod(dataset.chunks or (0,)) * dataset.dtype.itemsize
    if chunk > H5_CHUNK:
        raise ValueError(f"it has chunks of {chunk:,} bytes; the limit is {H5_CHUNK:,.0f}")
    if dataset.id.get_create_plist().get_nfilters():
        check_size(dataset.nbytes, there, H5_LIMIT)
    elif dataset.nbytes > there + unwritten:
        raise ValueError(f"it claims {dataset.nbytes:,} bytes of numbers but contains {there:,}")


def check_texts(rows: int, longest: int, packed: float, limit: float | None = None) -> None:
    """Refuses an array of texts that would take more memory than its file may unpack to.

    In an array each text takes as much memory as the longest, four bytes per letter.

    Args:
        rows: Number of texts.
        longest: Letters of the longest text.
        packed: Bytes of the file.
        limit: Bytes that any file may unpack to, see `check_size`. Default: None, `LIMIT`.

    Raises:
        ValueError: The array would take more.
    """
    try:
        check_size(4.0 * rows * longest, packed, limit)
    except ValueError as error:
        raise ValueError(f"a text of {longest:,} letters in {rows:,} rows: {error}") from None


def load_arrays(source: str | os.PathLike[str] | BinaryIO, limit: float | None = None) -> Any:
    """Checks the sizes in an NPY or NPZ file, and loads it without pickled objects.

    Args:
        source: The path of the file, or the open file at its start.
        limit: Bytes that an NPZ file may unpack to, see `check_size`. Default: None, `LIMIT`.

    Returns:
        The array of an NPY file; the open `NpzFile` of an NPZ file.

    Raises:
        ValueError: A header claims more bytes than the file contains, or more than it may unpack
            to.
    """
    if isinstance(source, (str, os.PathLike)):
        with open_regular(source) as file:
            _check(file, limit)
    else:
        _check(source, limit)
    return np.load(source, allow_pickle=False)


def _check(file: BinaryIO, limit: float | None) -> None:
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    if (magic := file.read(6)) == b"\x93NUMPY":
        file.seek(start)
        _check_array(file, size)
    elif magic[:2] == b"PK":
        with zipfile.ZipFile(file) as archive:
            check_members(archive.infolist(), size, limit)
            for member in archive.infolist():
                if member.filename.endswith(".npy"):
                    with archive.open(member) as opened:
                        _check_array(opened, member.file_size)
    file.seek(start)


def check_members(
    members: Iterable[zipfile.ZipInfo], size: int, limit: float | None = None
) -> None:
    """Refuses a zip file whose members unpack to too much.

    Args:
        members: The entries of its directory.
        size: Bytes of the zip file.
        limit: Bytes that all members together may unpack to, see `check_size`. Default: None,
            `LIMIT`.

    Raises:
        ValueError: The members claim more, or an uncompressed member claims more bytes than the
            file.
    """
    members = list(members)
    check_size(sum(member.file_size for member in members), size, limit)
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > size:
            raise ValueError(
                f"{member.filename} claims {member.file_size:,} bytes in a file of {size:,}"
            )


def array_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, order (True: column by column) and type that the header of an NPY file says."""
    version = np.lib.format.read_magic(file)
    read = (
        np.lib.format.read_array_header_1_0
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0
    )
    return read(file)


def _check_array(file: Any, size: int) -> None:
    shape, _, dtype = array_header(file)
    claimed = math.prod(shape) * dtype.itemsize
    there = size - file.tell()
    if claimed > there and not dtype.hasobject:
        raise ValueError(
            f"its header claims {claimed:,} bytes of numbers, but the file contains {there:,}"
        )
