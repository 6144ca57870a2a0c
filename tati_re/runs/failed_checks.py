"""A warning, once in a process, of the checks that a run failed."""

from typing import Any

from tati_re.core.errors import CertificateWarning
from tati_re.core.user_warnings import warn_user

FAILED = "failed_checks"
"""The entry of the manifest: the failed checks in words; none where all passed."""
_MOST = 4
_OF_LENGTH = ("R-hat", "ESS", "burn-in", "outlying chains")
"""First words of the checks that fail in a run that was too short."""
_warned: set[tuple[str, tuple[str, ...]]] = set()


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
