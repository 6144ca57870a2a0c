"""TensorFlow and Keras, imported once, quietly, and only when something is computed."""

import logging
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Lock
from traceback import walk_stack
from typing import Any

from tati_re.core.errors import InputError
from tati_re.core.lazy import uncollected
from tati_re.core.process import forks
from tati_re.core.process.programs import shared

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

_PACKAGE = Path(__file__).parents[1]


def _flush_errors() -> None:
    """Flushes standard error, if there is one that can be written."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.flush()


@contextmanager
def quiet():
    """Silences the messages of TensorFlow's libraries while they load or try something."""
    _flush_errors()
    descriptor = os.dup(2)
    silent = os.open(os.devnull, os.O_WRONLY)
    logger = logging.getLogger("tensorflow")
    level = logger.level
    try:
        os.dup2(silent, 2)
        logger.setLevel(logging.CRITICAL)
        yield
    finally:
        logger.setLevel(level)
        _flush_errors()
        os.dup2(descriptor, 2)
        os.close(descriptor)
        os.close(silent)


with warnings.catch_warnings(), quiet(), uncollected():
    warnings.simplefilter("ignore")
    import keras
    import tensorflow as tf

# On GPUs TensorFlow would round factors of products to 10 bits, by which energies of 10,000 nats
# lose whole ones.
tf.config.experimental.enable_tensor_float_32_execution(False)


def _keep_to_ourselves(record: logging.LogRecord) -> bool:
    """Each simulation traces functions of its own, which TensorFlow takes for one function traced
    too often.
    """
    if "triggered tf.function retracing" not in record.getMessage():
        return True
    return all(
        _PACKAGE not in Path(frame.f_code.co_filename).parents for frame, _ in walk_stack(None)
    )


tf.get_logger().addFilter(_keep_to_ourselves)

if keras.backend.backend() != "tensorflow":
    raise InputError(
        "tati_re needs the TensorFlow back end.",
        received=f"Keras with the {keras.backend.backend()} back end",
        expected="KERAS_BACKEND=tensorflow, set before Keras is imported",
    )


def _note_fork() -> None:
    if _has_computed():
        forks.note()


if os.name == "posix":
    os.register_at_fork(after_in_child=_note_fork)


def set_threads(number: int | None) -> None:
    """Sets how many threads, at least 1, TensorFlow may use inside one operation and beside each
    other; `None` leaves it (all cores). Sums are split over the threads, so results agree bit for
    bit only at equal numbers of threads.
    """
    forks.refuse()
    if number is None or number == threads() == threads(
        tf.config.threading.get_inter_op_parallelism_threads
    ):
        return
    try:
        tf.config.threading.set_inter_op_parallelism_threads(number)
        tf.config.threading.set_intra_op_parallelism_threads(number)
    except RuntimeError:
        problem = "threads can only be set before TensorFlow runs anything in this process."
        expected = f"{threads()}, or the option in the first Simulation of a fresh process"
        raise InputError(problem, number, expected) from None


def threads(
    configured: Callable[[], int] = tf.config.threading.get_intra_op_parallelism_threads,
) -> int:
    """The number of threads inside one operation, or what another function tells; all cores where
    none was set.
    """
    return configured() or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )


def on_gpu() -> bool:
    """Whether TensorFlow sees a GPU, on which it then computes."""
    return bool(tf.config.list_physical_devices("GPU"))


class Compiled:
    """A function of tensors, traced once for each combination of their shapes and types.

    Args:
        function: The function. It takes tensors and returns tensors, or tuples, lists or
            dictionaries of them.
        free: Positions of the arguments whose number of rows may vary without a new trace. Default:
            none.
        jit_compile: Whether XLA compiles the function. Default: False.
    """

    def __init__(
        self, function: Callable, free: Sequence[int] = (), jit_compile: bool = False
    ) -> None:
        # A concrete function: TensorFlow takes functions that are made anew for one that it traces
        # again and again.
        self._function = tf.function(function, autograph=False, jit_compile=jit_compile or None)
        self._free = free
        self._traced = dict[tuple, tuple[Callable, Callable]]()

    def __call__(self, *arguments: Any) -> Any:
        forks.refuse()
        tensors = [
            value if isinstance(value, tf.Tensor) else tf.convert_to_tensor(value)
            for value in arguments
        ]
        shapes = [
            (None, *value.shape[1:]) if i in self._free else value.shape
            for i, value in enumerate(tensors)
        ]
        key = tuple(zip(shapes, (value.dtype for value in tensors), strict=True))
        if key not in self._traced:
            traced = self._function.get_concrete_function(*(tf.TensorSpec(*spec) for spec in key))
            self._traced[key] = _caller(traced), _packing(traced.structured_outputs)
        called, packed = self._traced[key]
        return packed(called(tensors))

    def over_pieces(self, size: int, rows: Sequence[Any], *others: Any) -> list:
        """Calls the function on pieces of arrays that are too long for one call.

        Args:
            size: Largest number of rows of a piece.
            rows: The arrays that are cut, all of the same number of rows. They are the first
                arguments of each call.
            *others: Further arguments, whole in each call.

        Returns:
            The result of each piece, in order; arrays without rows are one piece.
        """
        starts = range(0, max(1, rows[0].shape[0]), size)
        return [
            self(*(values[start : start + size] for values in rows), *others) for start in starts
        ]


def value_and_gradient(function: Callable, variables: Any) -> tuple[Any, Any]:
    """Computes a function's value and the gradient of its sum.

    Args:
        function: A differentiable function of `variables` that returns a tensor.
        variables: A tensor, or nested tensors.

    Returns:
        The value, and the gradient in the structure of `variables`. It is zero for tensors that the
        value does not depend on.
    """
    with tf.GradientTape() as tape:
        tape.watch(variables)
        value = function(variables)
    return value, tape.gradient(value, variables, unconnected_gradients="zero")


# Private names of TensorFlow and Keras: each is behind one function, which a new version of theirs
# may break.


def _has_computed() -> bool:
    """Whether TensorFlow has made its threads."""
    from tensorflow.python.eager import context

    return bool(context.context()._initialized)


class Direct:
    """A function of nested tensors whose structure, shapes and types are those in the first call.

    TensorFlow compares them at each call. For 43 tensors a call takes 1.2 ms with this check,
    longer than a few steps, and 0.2 ms here.

    Args:
        function: The function. It takes and returns nested tensors.
        jit_compile: Whether XLA compiles the function. Default: False.
    """

    def __init__(self, function: Callable, jit_compile: bool = False) -> None:
        self._function = function
        self._compiled = jit_compile or None
        self._called: Callable | None = None
        self._packed: Callable = next

    def __call__(self, *arguments: Any) -> Any:
        leaves = tf.nest.flatten(arguments)
        tensors = [
            value if isinstance(value, tf.Tensor) else tf.constant(value) for value in leaves
        ]
        if self._called is None:

            def flat(*values):
                made = self._function(*tf.nest.pack_sequence_as(arguments, values))
                self._packed = _packing(made)
                return tf.nest.flatten(made)

            traced = tf.function(
                flat, autograph=False, jit_compile=self._compiled
            ).get_concrete_function(*tensors)
            self._called = _caller(traced)
        return self._packed(self._called(tensors))


def _caller(traced: Any) -> Callable:
    """Input tensors to an iterator of the outputs of a traced function, whose program others may
    share.
    """
    from tensorflow.python.eager import context

    call = context.context().call_function
    captured = list(traced.captured_inputs)
    number = len(traced.outputs)
    program = shared(traced)
    return lambda tensors: iter(call(program.name, [*tensors, *captured], number) or ())


def _packing(like: Any) -> Callable:
    """A function that puts the next leaves of an iterator into this structure, as
    `tf.nest.pack_sequence_as` does.
    """
    if isinstance(like, dict):
        entries = [(key, _packing(like[key])) for key in sorted(like)]
        empty = dict.fromkeys(like)
        return lambda leaves: empty | {key: entry(leaves) for key, entry in entries}
    if isinstance(like, tuple | list):
        parts = [_packing(value) for value in like]
        made = getattr(like, "_make", type(like))
        return lambda leaves: made([part(leaves) for part in parts])
    return next


def refilled(size: int) -> tuple[Any, Any]:
    """A vector, float64, and its memory, to be written before each call with it: a new tensor takes
    40 µs longer.
    """
    with tf.device("CPU"):
        vector: Any = tf.zeros((size,), tf.float64)
    memory = vector._numpy()
    memory[:] = 1.0
    if not vector.numpy().all():  # swaps would be decided by zeros
        raise RuntimeError("Writes into the memory of tensors are not visible in this TensorFlow.")
    return vector, memory


def dynamic_slice(values, begin, size):
    """Cuts a block out of a tensor, under XLA.

    Args:
        values: The tensor.
        begin: Index of the first entry in each dimension, shape (dimensions,); it may be a tensor.
        size: Number of entries in each dimension, shape (dimensions,); a constant.

    Returns:
        The block, of shape `size`.
    """
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_dynamic_slice(input=values, start_indices=begin, size_indices=size)


def dynamic_update_slice(values, begin, new):
    """Replaces a block of a tensor, under XLA.

    Args:
        values: The tensor.
        begin: Index of the block's first entry in each dimension, shape (dimensions,); it may be a
            tensor.
        new: The new entries of the block, with as many dimensions as `values`.

    Returns:
        The changed tensor, in the shape of `values`.
    """
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    return gen_xla_ops.xla_dynamic_update_slice(input=values, update=new, indices=begin)


def watched(call: Callable[[], Any], seen: Callable) -> None:
    """Calls a function and reports each operation that TensorFlow computes in it.

    Args:
        call: The function.
        seen: Called after each operation as `seen(kind, inputs, attributes, outputs, ...)`.
    """
    from tensorflow.python.framework import op_callbacks

    op_callbacks.add_op_callback(seen)
    try:
        call()
    finally:
        op_callbacks.remove_op_callback(seen)


_held = ExitStack()
_runs = list[object]()
_counting = Lock()
_REWRITES = "arithmetic_optimization"

# `deterministic` changes this setting and puts it back. Traced calls of functions hold the settings,
# so a program traced before the first run would differ from the same one after it.
if _REWRITES not in tf.config.optimizer.get_experimental_options():
    tf.config.optimizer.set_experimental_options({_REWRITES: True})


@contextmanager
def deterministic():
    """Makes all runs within the context bitwise reproducible on the same machine.

    The settings apply to the whole process. If runs use several threads, the last one restores
    them. TensorFlow's op determinism leaves one thing to chance. Its graph optimizer merges a sum
    of three arrays into one AddN, which begins with the array whose memory is free first, and
    rounds accordingly. This rewriting is therefore disabled.
    """
    forks.refuse()
    from tensorflow.python.framework import config

    run = object()
    rewriting = tf.config.optimizer
    with _counting:
        if not _runs:
            before = rewriting.get_experimental_options().get(_REWRITES, True)
            _held.callback(rewriting.set_experimental_options, {_REWRITES: before})
            rewriting.set_experimental_options({_REWRITES: False})
        if not config.is_op_determinism_enabled():
            tf.config.experimental.enable_op_determinism()
            _held.callback(config.disable_op_determinism)
        _runs.append(run)
    try:
        yield
    finally:
        with _counting:
            _runs.remove(run)
            if not _runs:
                _held.close()


def layers_of(layer, recursive: bool = True) -> list:
    """The layers inside a layer or model.

    Args:
        layer: A Keras layer or model; the list does not contain it.
        recursive: Whether to include the layers inside its layers, at any depth. Default: True.
    """
    return list(layer._flatten_layers(include_self=False, recursive=recursive))


def inputs_of(layer) -> list:
    """The symbolic tensors that a layer was called with, of all of its calls."""
    return [tensor for node in layer._inbound_nodes for tensor in node.input_tensors]


def first_outputs_of(operation) -> list:
    """The symbolic tensors that the first call of a layer or operation made."""
    return [tensor for node in operation._inbound_nodes[:1] for tensor in node.output_tensors]


def origin_of(tensor) -> tuple:
    """The layer or operation that made a symbolic tensor, and its call, with `arguments` and
    `input_tensors`.
    """
    operation, number, _ = tensor._keras_history
    return operation, operation._inbound_nodes[number]
