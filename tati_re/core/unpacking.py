"""Sizes that files claim, checked before memory is asked for. What a header says of an array has to
be in the file; what a compressed file unpacks to has a bound: the memory limit of the data, 2 GB
elsewhere, or 200 times the file where that is more.
"""

import math
import os
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

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


def check_size(unpacked: float, packed: float, limit: float | None = None) -> None:
    """A `ValueError` if a file of `packed` bytes claims more bytes than it may unpack to."""
    most = max(LIMIT if limit is None else limit, RATIO * packed)
    if unpacked > most:
        raise ValueError(
            f"it claims {unpacked:,.0f} bytes, and {most:,.0f} are allowed for a file of {packed:,.0f}"
        )


def load_arrays(source: str | os.PathLike[str] | BinaryIO, limit: float | None = None) -> Any:
    """`numpy.load` of an NPY or NPZ file without pickled objects; a `ValueError` where sizes are
    not in the file.
    """
    if isinstance(source, (str, os.PathLike)):
        with Path(source).open("rb") as file:
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
    """A `ValueError` if the members of a zip file of this size unpack to too much."""
    members = list(members)
    check_size(sum(member.file_size for member in members), size, limit)
    for member in members:
        if member.compress_type == zipfile.ZIP_STORED and member.file_size > size:
            raise ValueError(
                f"{member.filename} claims {member.file_size:,} bytes of a file of {size:,}"
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
        raise ValueError(f"its header claims {claimed:,} bytes of numbers, and it has {there:,}")
