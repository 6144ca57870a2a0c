"""NPZ files, as NumPy writes them."""

from pathlib import Path

from tati_re.data.archives import read_npz
from tati_re.data.contents import Contents
from tati_re.data.readers.contract import Reader, ReadRequest


class NpzReader(Reader):
    """Arrays of an NPZ file by their names."""

    suffixes = (".npz",)
    title = "NPZ"
    takes_keys = True
    takes_weights = True

    def read(self, path: Path, request: ReadRequest) -> Contents:
        return read_npz(path, request.data_keys, request.weights, request.limit)
