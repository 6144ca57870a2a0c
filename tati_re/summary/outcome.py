"""What the end of a run makes of its certificate: an entry of the manifest, and an exit status."""

from tati_re.core.errors import InputError
from tati_re.core.process.exit_status import CERTIFICATE_FAILED, CERTIFICATE_NOT_MEASURED, FINISHED
from tati_re.runs import manifest
from tati_re.runs.failed_checks import FAILED as NAME_OF_ENTRY
from tati_re.runs.run import RunFiles
from tati_re.summary.certificate import certificate, failed_checks
from tati_re.summary.verdicts import FAILED, PASSED


def note_failed_checks(run: RunFiles) -> None:
    """Writes the failed checks of a run that came to its end into its manifest.

    Args:
        run: A run that sampled; whoever calls this holds the lock of its folder.
    """
    try:
        failed = failed_checks(run)
    except InputError:  # it ended before its first row: nothing was checked
        failed = []
    if tuple(failed) == manifest.read(run.folder).failed_checks:
        return
    # Out and in again: the entry is the last one of the file.
    others = manifest.read(run.folder) | {NAME_OF_ENTRY: None}
    manifest.write(run.folder, {**others, NAME_OF_ENTRY: failed or None})


def certificate_status(run: RunFiles) -> int:
    """The exit status of a completed run under `require_certificate`.

    Args:
        run: A run that sampled.

    Returns:
        0 if all checks passed, 4 if one failed, else 5.
    """
    try:
        verdicts = {result.verdict for result in certificate(run).results}
    except InputError:  # it ended before its first row: nothing was checked
        return CERTIFICATE_NOT_MEASURED
    if FAILED in verdicts:
        return CERTIFICATE_FAILED
    return FINISHED if verdicts == {PASSED} else CERTIFICATE_NOT_MEASURED
