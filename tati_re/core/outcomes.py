"""The three verdicts on a check of a run."""

PASSED = "passed"
FAILED = "failed"
NOT_MEASURED = "not measured"
