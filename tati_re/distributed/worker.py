"""A worker process: makes an object that answers messages, and answers them until nobody asks any
more.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

_LEFT_TO_THE_DRIVER = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGXCPU", "SIGURG")
"""Stops, which the process that asks takes care of; this one ends with it."""


def leave_stops_to_the_driver() -> None:
    """Ignores the signals that ask for an end."""
    for name in _LEFT_TO_THE_DRIVER:
        signal.signal(signal.Signals[name], signal.SIG_IGN)


def serve(descriptor: int) -> None:
    """Answers what comes over the pipe of this file descriptor."""
    leave_stops_to_the_driver()
    pipe = Connection(descriptor)
    answer: Any = None
    while True:
        try:
            message = pipe.recv()
        except EOFError:
            os._exit(0)
        answer_sent: tuple[str, Any]
        try:
            if answer is None:
                answer, result = _made(*message)
            else:
                result = answer(*message)
            answer_sent = "answer", result
        except BaseException as error:
            answer_sent = type(error).__name__, str(error)
        try:
            pipe.send(answer_sent)
        except OSError:
            os._exit(0)


def _made(threads: int, pickled: bytes) -> tuple[Any, dict[str, Any]]:
    """The function that answers messages, and what the numbers of this process depend on."""
    import cloudpickle

    from tati_re.core.backend import keras, set_threads

    set_threads(threads)
    keras.config.enable_unsafe_deserialization()  # of what the driver itself holds
    answer, result = cloudpickle.loads(pickled)()
    return answer, result


if __name__ == "__main__":
    serve(int(sys.argv[1]))
