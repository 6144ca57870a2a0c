"""The inputs of a data set for steps: in device memory, or streamed from the host."""

import numpy as np

from tati_re.core.backend import tf


class StreamedInputs:
    """Inputs in host memory or a memory map, `(N, ...)`; a step reads the rows of its batch, as `dtype`, and the run is
    that with data in memory up to rounding. For `taken(x, indices)`, `x[start:stop]`, `x.shape`; XLA cannot read so."""

    def __init__(self, values: np.ndarray, dtype: tf.DType) -> None:
        self._values, self.dtype = values, tf.as_dtype(dtype)
        self.shape = tf.TensorShape(values.shape)

    def take(self, indices) -> tf.Tensor:
        indices = tf.convert_to_tensor(indices)
        rows = tf.numpy_function(self._read, [indices], self.dtype, stateful=False)
        return tf.ensure_shape(rows, indices.shape.concatenate(self.shape[1:]))

    def _read(self, indices: np.ndarray) -> np.ndarray:
        return np.asarray(self._values[indices], self.dtype.as_numpy_dtype)

    def __getitem__(self, rows: slice) -> tf.Tensor:
        return self.take(np.arange(*rows.indices(self.shape[0]), dtype=np.int64))


def device_inputs(inputs: np.ndarray, scale: float, dtype: str, limit: float | None = None):
    """Inputs on the device: bytes that are scaled later stay bytes, everything else is in the model's type."""
    kind = _device_type(inputs, scale, dtype)
    if limit is not None and device_bytes(inputs, scale, dtype) > limit:
        return StreamedInputs(inputs, kind)
    with np.errstate(over="ignore"):  # an infinite potential is said
        return tf.constant(inputs if inputs.dtype == kind.as_numpy_dtype else inputs.astype(kind.as_numpy_dtype))


def device_bytes(inputs: np.ndarray, scale: float, dtype: str) -> int:
    """Size of inputs on the device in bytes; arguments as of `device_inputs`."""
    return inputs.size * _device_type(inputs, scale, dtype).size


def _device_type(inputs: np.ndarray, scale: float, dtype: str) -> tf.DType:
    return tf.uint8 if scale != 1.0 and inputs.dtype == np.uint8 else tf.as_dtype(dtype)


def taken(inputs, indices) -> tf.Tensor:
    """The rows of some examples, `(*indices.shape, ...)`."""
    return inputs.take(indices) if isinstance(inputs, StreamedInputs) else tf.gather(inputs, indices)


def rows_at_once(inputs, most: int, limit: float | None) -> int:
    """Number of examples per piece of a sum over all: an eighth of the limit if they are streamed."""
    if not isinstance(inputs, StreamedInputs):
        return most
    of_one = max(1, inputs.shape[1:].num_elements() * inputs.dtype.size)
    return max(1, min(most, int(limit / 8 // of_one)))
