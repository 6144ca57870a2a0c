"""Processes that were forked after TensorFlow had computed: it waits there for threads that were not
copied.
"""

from tati_re.core.errors import refuse_if

_noted: list[bool] = []


def note() -> None:
    """Notes that this process is such a copy."""
    _noted.append(True)


def refuse() -> None:
    """Refuses work in a process that was noted, in which it would hang."""
    problem = "tati_re: this process was forked after TensorFlow had run, and would hang."
    expected = (
        'fresh processes: multiprocessing.get_context("spawn"), or joblib with its backend loky'
    )
    refuse_if(_noted, problem, "a forked process", expected)
