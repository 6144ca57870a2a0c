"""TFRecord files, as TensorFlow writes them."""

from pathlib import Path

from tati_re.data.contents import Contents
from tati_re.data.readers.contract import Reader, ReadRequest
from tati_re.data.tfrecord import read_tfrecord


class TFRecordReader(Reader):
    """Features of the examples of a TFRecord file, which may be compressed (`.gz`)."""

    suffixes = (".tfrecord", ".tfrecords")
    title = "TFRecord"
    takes_keys = True

    def read(self, path: Path, request: ReadRequest) -> Contents:
        return read_tfrecord(path, request.data_keys, request.limit)
