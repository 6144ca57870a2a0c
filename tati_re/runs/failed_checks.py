"""What a run failed of its certificate: noted at its end, and a warning once in a process."""

from typing import Any

from tati_re.core.errors import CertificateWarning, InputError
from tati_re.core.process.exit_status import CERTIFICATE_FAILED, CERTIFICATE_NOT_MEASURED, FINISHED
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import words_about
from tati_re.runs import manifest
from tati_re.runs.run import RunFiles

FAILED = "failed_checks"
"""The entry of the manifest: the failed checks in words; none where all passed."""
_MOST = 4
_OF_LENGTH = ("R-hat", "ESS", "burn-in", "outlying chains")
"""First words of the checks that fail in a run that was too short."""
_warned: set[tuple[str, tuple[str, ...]]] = set()


def note_failed_checks(run: RunFiles) -> None:
    """Writes the failed checks of a run that came to its end into its manifest.

    Args:
        run: A run that sampled; whoever calls this holds the lock of its folder.
    """
    try:
        failed = words_about(FAILED, run)
    except InputError:  # it ended before its first row: nothing was checked
        failed = []
    if tuple(failed) == manifest.read(run.folder).failed_checks:
        return
    # Out and in again: the entry is the last one of the file.
    others = manifest.read(run.folder) | {FAILED: None}
    manifest.write(run.folder, {**others, FAILED: failed or None})


def certificate_status(run: RunFiles) -> int:
    """The exit status of a completed run under `require_certificate`.

    Args:
        run: A run that sampled.

    Returns:
        0 if all checks passed, 4 if one failed, else 5.
    """
    try:
        verdicts = {*words_about("certificate", run)["verdict"]}
    except InputError:  # it ended before its first row: nothing was checked
        return CERTIFICATE_NOT_MEASURED
    if "failed" in verdicts:
        return CERTIFICATE_FAILED
    return FINISHED if verdicts == {"passed"} else CERTIFICATE_NOT_MEASURED


def warn_of_failed_checks(run: Any, ended: bool = False) -> None:
    """Warns that a run failed checks of its certificate, unless this process has done so.

    Args:
        run: The run, or what stands in for one.
        ended: Whether the run has just ended, in a folder where another run may have been before.
            Default: no.
    """
    failed = run.manifest.failed_checks
    key = str(run.folder.absolute()), failed
    if not failed or (key in _warned and not ended):
        return
    _warned.add(key)
    failures = "; ".join(failed[:_MOST])
    more = f"; and {len(failed) - _MOST} more" if len(failed) > _MOST else ""
    checks = "checks" if len(failed) > 1 else "a check"
    warn_user(
        f"The run {run.folder} failed {checks} of its certificate: "
        f"{failures}{more}. {_consequence(run)}; run.certificate shows the details.",
        CertificateWarning,
    )


def _consequence(run: Any) -> str:
    """What failed checks mean for the results of a run."""
    entries = run.manifest
    if entries.prefers_fits:
        return "Its averages may be wrong"
    is_early = all(text.startswith(_OF_LENGTH) for text in entries.failed_checks)
    if entries.options.goal == "predict" and is_early:
        return (
            "Its chains have not settled, so more time (max_time) may change its predictions. "
            "run.comparison scores them as they are"
        )
    return "Its averages and predictions may be wrong"
