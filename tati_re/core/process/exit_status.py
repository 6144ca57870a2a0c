"""Exit statuses of the commands. All other code takes them from here."""

import signal

FINISHED = 0
BAD_INPUT = 2
"""Bad input, a run that diverged, a folder that cannot be written or that another process writes:
one sentence.
"""
CERTIFICATE_FAILED = 4
"""A run that came to its end under `require_certificate`, and failed a check of its certificate."""
CERTIFICATE_NOT_MEASURED = 5
"""As above: no check failed, but at least one could not be measured."""
INTERNAL_ERROR = 70
"""A fault of the package: EX_SOFTWARE of sysexits.h."""
OUTPUT_FAILED = 74
"""What a command prints cannot be written, as on a full disk: EX_IOERR of sysexits.h."""
OUT_OF_TIME = 75
"""`max_time` is over with steps left: EX_TEMPFAIL of sysexits.h, come again."""


def of_signal(number: int) -> int:
    """The status of a command that a signal ended, as shells count: 130 for Ctrl-C, 129 for SIGHUP,
    143 for SIGTERM.
    """
    return 128 + number


INTERRUPTED = of_signal(signal.SIGINT)
OUTPUT_CLOSED = of_signal(13)
"""The reader of the output has left, as in `tati-compare ... | head`: no error, and nothing is
printed. A command that writes a run folder goes on to its end.
"""
