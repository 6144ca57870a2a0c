"""pymbar, an optional package, loaded without its warnings."""

import contextlib
import logging
import warnings

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
