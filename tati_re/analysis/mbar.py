"""Free energies by pymbar, an optional package, loaded without its warnings."""

import contextlib
import logging
import warnings

import numpy as np

from tati_re.core.errors import InputError


def load_pymbar():
    """Imports pymbar without its remarks about optional accelerators."""
    try:
        with _quiet():
            import pymbar
    except ImportError:
        raise InputError(
            "method: mbar needs the package pymbar.", "not installed", "pip install 'tati_re[evidence]'"
        ) from None
    return pymbar


def mbar_free_energies(reduced: np.ndarray, counts: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """Free energies f_k = -ln Z_k of K states relative to the first, from the reduced potential of each draw in each
    state, `(K, N)`, and the draws of each state in the order of the columns, `(K,)`. `start` None is zeros."""
    if len(counts) == 1:
        return np.zeros(1)
    pymbar = load_pymbar()
    with _quiet():
        # Near the solution a root finder is some ten times faster than the adaptive iteration that pymbar starts with.
        protocol = "default" if start is None else ({"method": "hybr"},)
        solver = pymbar.MBAR(reduced, counts, initial_f_k=start, solver_protocol=protocol)
    free = np.asarray(solver.f_k, np.float64)
    return free - free[0]


@contextlib.contextmanager
def _quiet():
    logger = logging.getLogger("pymbar")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
