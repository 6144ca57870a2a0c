"""Examples as a potential holds them: in device memory, or inputs that are streamed from the
host.
"""

from collections.abc import Callable

import numpy as np

from tati_re.core.backend import tf
from tati_re.posterior.losses import Loss


class StreamedInputs:
    """Inputs that stay in host memory or a memory map; a step reads the rows of its batch.

    Up to rounding a run is the same as with data in device memory. Supported are `take`,
    `x[start:stop]` and `x.shape`. XLA cannot read such inputs.

    Args:
        values: The inputs, (N, ...).
        dtype: Type of the rows that are read.
    """

    def __init__(self, values: np.ndarray, dtype: tf.DType) -> None:
        self._values = values
        self.dtype = tf.as_dtype(dtype)
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
    """Inputs on the device: bytes that are scaled later stay bytes, others have the model's type.

    Args:
        inputs: Inputs as they are stored, (N, ...).
        scale: Factor by which the inputs are multiplied later; 1 leaves them as they are.
        dtype: Type of the model's inputs.
        limit: Bytes on the device above which the inputs stay with the host. Default: None, no
            limit.

    Returns:
        A tensor, or `StreamedInputs` above the limit.
    """
    kind = _device_type(inputs, scale, dtype)
    if limit is not None and device_bytes(inputs, scale, dtype) > limit:
        return StreamedInputs(inputs, kind)
    with np.errstate(over="ignore"):  # an infinite potential is said
        return tf.constant(
            inputs if inputs.dtype == kind.as_numpy_dtype else inputs.astype(kind.as_numpy_dtype)
        )


def device_bytes(inputs: np.ndarray, scale: float, dtype: str) -> int:
    """Size of inputs on the device in bytes.

    Args:
        inputs: Inputs as they are stored, (N, ...).
        scale: Factor by which the inputs are multiplied later. Bytes stay bytes unless it is 1.
        dtype: Type of the model's inputs.
    """
    return inputs.size * _device_type(inputs, scale, dtype).size


def scaled(x: tf.Tensor, dtype: str, scale: float) -> tf.Tensor:
    """Inputs in the model's type, multiplied by the scale of the data.

    Args:
        x: Inputs as they are stored, (n, ...).
        dtype: Type of the model's inputs.
        scale: The factor; 1 leaves the inputs as they are.
    """
    x = tf.cast(x, dtype)
    return x if scale == 1.0 else x * tf.constant(scale, x.dtype)


def _device_type(inputs: np.ndarray, scale: float, dtype: str) -> tf.DType:
    return tf.uint8 if scale != 1.0 and inputs.dtype == np.uint8 else tf.as_dtype(dtype)


class StoredExamples:
    """The examples of one part of a data set, as they are stored: inputs `x` and labels `y`.

    The attribute `streamed` says whether the inputs stay with the host.

    Args:
        inputs: Inputs, (N, ...).
        labels: Labels as the loss takes them, (N, ...).
        scale: Factor of the inputs that the model takes; bytes stay bytes until then.
        dtype: Type of the model's inputs.
        limit: Bytes of inputs above which they are streamed. Default: None, no limit.
    """

    def __init__(
        self,
        inputs: np.ndarray,
        labels: np.ndarray,
        scale: float,
        dtype: str,
        limit: float | None = None,
    ):
        self.x = device_inputs(inputs, scale, dtype, limit)
        self.y = tf.constant(labels)
        self.count = len(labels)
        self.limit = limit
        self.streamed = isinstance(self.x, StreamedInputs)

    def gathered(self, indices) -> tuple:
        """Inputs and labels of some examples, `(*indices.shape, ...)`."""
        return self.x.take(indices) if self.streamed else tf.gather(self.x, indices), tf.gather(
            self.y, indices
        )

    def piece(self, most: int) -> int:
        """How many examples a pass takes at a time: an eighth of the limit where they are
        streamed.
        """
        of_one = max(1, self.x.shape[1:].num_elements() * self.x.dtype.size)
        return max(1, min(most, int(self.limit / 8 // of_one))) if self.streamed else most

    def summed(self, most: int, part: Callable, zeros: tuple) -> tuple:
        """Sums of the tensors `part(x, y)` over all examples, piece by piece.

        Args:
            most: Greatest number of examples in a piece.
            part: Function of inputs and labels of a piece, as they are stored, that returns a tuple
                of tensors.
            zeros: Tensors of zeros in the shapes and types of the sums.

        Returns:
            The sums, as many as `zeros`.
        """
        piece = self.piece(most)
        full_pieces = self.count - self.count % piece

        def body(start, *sums):
            return start + piece, *map(tf.add, sums, part(*self.gathered(start + tf.range(piece))))

        _, *sums = tf.while_loop(
            lambda start, *_: start < full_pieces, body, (tf.constant(0), *zeros)
        )
        return tuple(
            sums
            if full_pieces == self.count
            else map(tf.add, sums, part(self.x[full_pieces:], self.y[full_pieces:]))
        )


def is_signs(dataset) -> bool:
    """Whether the labels are -1 and +1 in one column."""
    targets = dataset.targets
    one_column = targets.ndim == 1 or targets.shape[1] == 1
    return dataset.num_classes == 2 and one_column and targets.min() == -1 and targets.max() == 1


def has_accuracy(dataset, loss: Loss) -> bool:
    """Whether an accuracy is defined: not if numbers of more than two classes are regressed on.

    Args:
        dataset: The data set (`Dataset`).
        loss: The loss of the run.
    """
    return loss.objective.has_accuracy(
        dataset.num_classes,
        one_column=dataset.targets.ndim == 1,
        multi_label=dataset.multi_label,
    )


def device_targets(targets: np.ndarray, loss: Loss, dtype: tf.DType) -> np.ndarray:
    """Labels as the loss takes them.

    Args:
        targets: Labels of the data set, (N, ...).
        loss: The loss.
        dtype: Type of the parameters.

    Returns:
        Class numbers, int32, (N,); all else in the type of the parameters, (N, outputs).
    """
    return loss.objective.stored(targets, dtype.as_numpy_dtype)
