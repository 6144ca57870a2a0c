"""HDF5 files whose writer was killed, read as files that nobody writes."""

import io
import os
import struct

_SUPERBLOCK, _SIGNATURE, _FLAGS, _END = 48, b"\x89HDF\r\n\x1a\n\x03", 11, 28
"""Bytes of a superblock of version 3, how it begins, and where its marks of an open file and the
file's end stand.
"""
_WORD = 0xFFFFFFFF


class KilledFile(io.FileIO):
    """A file for `h5py.File` that says of itself that it was closed. HDF5 opens one that was not
    only as a file that changes, and reads its damaged parts again and again, without an end. An
    `OSError` for a file that begins in another way than those that HDF5 1.10 and later write for
    one writer.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, "rb")
        head = bytearray(super().read(_SUPERBLOCK))
        if (
            len(head) < _SUPERBLOCK
            or not head.startswith(_SIGNATURE)
            or checksum(head[:-4]) != head[-4:]
        ):
            self.close()
            raise OSError("its first bytes are damaged")
        head[_FLAGS] = 0
        head[_END : _END + 8] = struct.pack("<Q", self.seek(0, os.SEEK_END))
        self._head = bytes(head[:-4] + checksum(head[:-4]))

    def readinto(self, buffer) -> int:
        place = self.tell()
        count = super().readinto(buffer)
        if place < len(self._head):
            known = self._head[place : place + count]
            buffer[: len(known)] = known
        return count


def checksum(content: bytes | bytearray) -> bytes:
    """HDF5's checksum of metadata: lookup3 (Jenkins 2006) with the initial value 0."""

    def turned(x: int, k: int) -> int:
        return (x << k | x >> (32 - k)) & _WORD

    a = b = c = (0xDEADBEEF + len(content)) & _WORD
    padded = bytes(content) + bytes(-len(content) % 12)
    words = struct.unpack(f"<{len(padded) // 4}I", padded)
    for place in range(0, len(words), 3):
        a, b, c = (
            (x + y) & _WORD for x, y in zip((a, b, c), words[place : place + 3], strict=True)
        )
        if place + 3 < len(words):
            for k in (4, 6, 8, 16, 19, 4):
                a = (a - c) & _WORD ^ turned(c, k)
                c = (c + b) & _WORD
                a, b, c = b, c, a
            continue
        for k in (14, 11, 25, 16, 4, 14, 24):
            c = (c ^ b) - turned(b, k) & _WORD
            a, b, c = b, c, a
    return struct.pack("<I", b)
