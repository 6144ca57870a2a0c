"""TensorFlow and Keras, imported once, quietly, and only when something is computed."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from contextlib import contextmanager

from tati_re.core.errors import InputError

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


@contextmanager
def quiet():
    """Keeps what TensorFlow's libraries write to the terminal, while they load or try something, out of sight."""
    sys.stderr.flush()
    kept, silent = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    logger = logging.getLogger("tensorflow")
    level = logger.level
    try:
        os.dup2(silent, 2)
        logger.setLevel(logging.CRITICAL)
        yield
    finally:
        logger.setLevel(level)
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
        os.close(silent)


with warnings.catch_warnings(), quiet():
    warnings.simplefilter("ignore")
    import keras
    import tensorflow as tf


def _keep_to_ourselves(record: logging.LogRecord) -> bool:
    """Each simulation traces functions of its own, which TensorFlow takes for one function traced too often."""
    text = record.getMessage()
    return not (
        "triggered tf.function retracing" in text
        and any(name in text for name in ("Loop.", "Evaluator.", "Simulation."))
    )


tf.get_logger().addFilter(_keep_to_ourselves)

if keras.backend.backend() != "tensorflow":
    raise InputError(
        "tati_re computes with TensorFlow.",
        received=f"Keras with the {keras.backend.backend()} back end",
        expected="KERAS_BACKEND=tensorflow, set before Keras is imported",
    )

__all__ = ["keras", "quiet", "set_threads", "tf", "threads"]


def set_threads(number: int | None) -> None:
    """Sets how many threads TensorFlow may use inside one operation.

    Sums are split over the threads, so results agree bit for bit only at equal numbers of threads.

    Args:
        number: At least 1, or `None` to leave the number as it is (all cores).

    Raises:
        InputError: TensorFlow is already computing with another number.
    """
    if number is None or number == threads():
        return
    try:
        tf.config.threading.set_intra_op_parallelism_threads(number)
    except RuntimeError:
        raise InputError(
            "threads can only be set before TensorFlow computes anything in this process.",
            received=number,
            expected=f"{threads()}, or the option in the first Simulation of a fresh process",
        ) from None


def threads() -> int:
    """The number of threads inside one operation, all cores where none was set."""
    return tf.config.threading.get_intra_op_parallelism_threads() or (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
