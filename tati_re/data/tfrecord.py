"""TFRecord files of `tf.train.Example` messages; TensorFlow is imported when one is read."""

import contextlib
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.files.unpacking import check_size
from tati_re.data.archives import check_keys, images
from tati_re.data.contents import Contents
from tati_re.data.disk_arrays import Store

KEYS = ("image_raw", "label")
"""The features that are read where none are named: bytes of an image, and a class number."""

_AT_ONCE = 4096
_SIDES = ("height", "width", "depth")
_ENCODED = {b"\x89PNG": "PNG", b"\xff\xd8\xff": "JPEG", b"GIF8": "GIF"}


def read_tfrecord(
    path: Path, keys: Sequence[str] | None = None, limit: float | None = None
) -> Contents:
    """The inputs and labels of a TFRecord file.

    A feature of bytes holds uint8 numbers, which get the scale 1/255. Features of floats or
    integers are unchanged. The integers `height`, `width` and `depth` of a record are the shape of
    bytes, without a depth of 1. Bytes without them stay flat.

    Args:
        path: The file; the suffix `.gz` marks a compressed one.
        keys: The features of inputs and labels. Default: None, `image_raw` and `label`.
        limit: Bytes above which the inputs are kept on the disk as numbers, since a step reads
            examples in any order. Default: None, all in memory.

    Returns:
        Inputs (N, height, width[, depth]) or (N, length), targets (N,) or (N, K).

    Raises:
        InputError: The file is damaged, has no examples, or lacks a feature.
    """
    keys = list(KEYS if keys is None else keys)
    check_keys(keys, (2,))
    _check_sizes(path, limit)
    from tati_re.core.backend import tf

    records = tf.data.TFRecordDataset(
        str(path), compression_type="GZIP" if path.suffix.lower() == ".gz" else ""
    )
    try:
        first: Any = next((tf.train.Example.FromString(r.numpy()) for r in records.take(1)), None)
    except tf.errors.OpError as error:
        raise _broken(path, error) from None
    except Exception:  # google.protobuf.message.DecodeError, without importing protobuf by name
        raise InputError(
            f"{path} holds records of another kind.", path, "tf.train.Example messages"
        ) from None
    refuse_if(first is None, f"{path.name} has no examples.", path, "at least one record")
    features = first.features.feature
    _check(path, features, keys, 0)
    # Without a default value, a record that lacks a feature is an error.
    types = {"bytes_list": tf.string, "float_list": tf.float32, "int64_list": tf.int64}
    spec = {
        key: tf.io.FixedLenFeature([_length(feature := features[key])], types[_kind(feature)])
        for key in keys
    }
    sides = {key: tuple(features[key].int64_list.value) for key in _SIDES if key in features}
    sides = {key: values for key, values in sides.items() if len(values) == 1}
    spec |= {
        key: tf.io.FixedLenFeature([1], tf.int64, values)
        for key, values in sides.items()
        if key not in keys
    }
    stores = (Store(limit), Store())
    lengths = [0, 0]
    start = 0
    try:
        for batch in records.batch(_AT_ONCE):
            parsed = tf.io.parse_example(batch, spec)
            for key, side in sides.items():
                problem = (
                    f"{path.name}: the records differ in '{key}' and do not contain images of "
                    "one shape."
                )
                refuse_if(
                    (parsed[key] != side).numpy().any(),
                    problem,
                    f"{side[0]} and others",
                    "the same in all records",
                )
            for i, key in enumerate(keys):
                values = parsed[key].numpy()
                if values.dtype == object and start == 0:
                    lengths[i] = len(values[0, 0])
                if i == 1 and values.dtype == object:
                    texts = [text.decode(errors="replace") for text in values.ravel()]
                    problem = f"{path.name}: feature '{key}' contains text."
                    refuse_if(
                        all(map(str.isprintable, texts)),
                        problem,
                        texts[0],
                        "the class number, an integer",
                    )
                stores[i].append(_decoded(path, key, values, start, lengths[i]))
            start += len(batch)
    except tf.errors.DataLossError as error:
        raise _broken(path, error) from None
    except tf.errors.InvalidArgumentError:
        raise _odd_record(tf, path, records, keys, features) from None
    inputs, targets = (store.finished() for store in stores)
    # Class numbers fit into 32 bits unless they are something else.
    small = targets.dtype.kind in "iu" and np.abs(targets).max() < 2**31
    return images(
        _shaped(path, inputs, features),
        targets.astype(np.int32 if small else targets.dtype),
        (),
        path.name,
    )


def _check_sizes(path: Path, limit: float | None) -> None:
    """Refuses lengths of records that are not in the file, for which TensorFlow would ask memory,
    and a compressed file that unpacks to too much; whatever else is wrong is left to TensorFlow.
    """
    size = path.stat().st_size
    packed = path.suffix.lower() == ".gz"
    total = 0
    with (
        contextlib.suppress(OSError, EOFError, zlib.error),
        (gzip.open if packed else open)(path, "rb") as file,
    ):
        while len(head := file.read(12)) == 12:
            length = int.from_bytes(head[:8], "little")
            total += length + 16
            try:
                if packed:
                    check_size(total, size, limit)
                elif total > size:
                    raise ValueError(f"its records claim {total:,} bytes, but it has {size:,}")
            except ValueError as error:
                expected = "a larger memory_limit, if the file is correct" if packed else None
                raise InputError(
                    f"{path} cannot be read as a TFRecord file: {error}.", expected=expected
                ) from None
            file.seek(length + 4, 1)


def _kind(feature: Any) -> Any:
    """The name of the feature's list of values; None where it has none."""
    return feature.WhichOneof("kind")


def _length(feature: Any) -> int:
    return len(getattr(feature, _kind(feature)).value)


def _check(path: Path, features: Any, keys: Sequence[str], record: int) -> None:
    for key in keys:
        if key not in features:
            known = sorted(features)
            problem = f"data_keys: record {record} of {path.name} has no feature '{key}'.{nearest(key, known)}"
            raise InputError(
                problem,
                ", ".join(known) or "no features",
                "the names of the inputs and of the labels",
            )
        if _kind(features[key]) is None or _length(features[key]) == 0:
            raise InputError(
                f"Record {record} of {path.name} has an empty feature '{key}'.", expected="a value"
            )


def _odd_record(tf: Any, path: Path, records: Any, keys: Sequence[str], first: Any) -> InputError:
    """Finds the first record that differs from record 0 in form."""
    for number, record in enumerate(records):
        features = tf.train.Example.FromString(record.numpy()).features.feature
        try:
            _check(path, features, keys, number)
        except InputError as error:
            return error
        for key in keys:
            have, want = (
                (_kind(f[key]).removesuffix("_list"), _length(f[key])) for f in (features, first)
            )
            if have != want:
                problem = f"Record {number} of {path.name} has a feature '{key}' unlike the first record's."
                return InputError(
                    problem, f"{have[1]} of type {have[0]}", f"{want[1]} of type {want[0]}"
                )
    return InputError(f"{path} cannot be read as a TFRecord file of examples.", path)


def _decoded(path: Path, key: str, values: np.ndarray, first: int, length: int) -> np.ndarray:
    """Numbers: bytes become uint8, as many in each record from record `first` on as in record 0."""
    if values.dtype != object:
        return values
    refuse_if(
        values.shape[1] > 1,
        f"{path.name}: feature '{key}' has several texts.",
        values.shape[1],
        "one, of bytes",
    )
    texts = values[:, 0]
    for start, name in _ENCODED.items():
        expected = "the bytes of the pixels, as from numpy's tobytes"
        refuse_if(
            texts[0].startswith(start),
            f"{path.name}: feature '{key}' holds encoded images.",
            name,
            expected,
        )
    lengths = np.array([len(text) for text in texts])
    odd = np.flatnonzero(lengths != length)
    if len(odd):
        problem = f"{path.name}: the records differ in the number of bytes of feature '{key}'."
        raise InputError(
            problem, f"{lengths[odd[0]]} in record {first + odd[0]}", f"{length}, as in the first"
        )
    return np.frombuffer(b"".join(texts), np.uint8).reshape(len(texts), -1)


def _shaped(path: Path, inputs: np.ndarray, features: Any) -> np.ndarray:
    sides = [features[k].int64_list.value for k in _SIDES if k in features]
    if inputs.dtype != np.uint8 or len(sides) != 3 or any(len(side) != 1 for side in sides):
        return inputs
    shape = tuple(int(side[0]) for side in sides)
    if np.prod(shape) != inputs.shape[1]:
        received = f"{inputs.shape[1]} bytes and height, width, depth {shape}"
        raise InputError(
            f"{path.name}: the shape of the images does not match their bytes.",
            received,
            "their product",
        )
    return inputs.reshape(len(inputs), *(shape[:2] if shape[2] == 1 else shape))


def _broken(path: Path, error: Any) -> InputError:
    reason = str(error.message).split(" [Op:")[0].split("\n")[0]
    return InputError(
        f"{path} cannot be read as a TFRecord file.",
        reason,
        "a file written by tf.io.TFRecordWriter",
    )
