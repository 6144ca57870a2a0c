"""The outcome of the checks of a certificate: verdicts, the frame of all checks, and its text."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pandas as pd

from tati_re.analysis.format import percent
from tati_re.analysis.until import whole_text
from tati_re.core.outcomes import FAILED as FAILED
from tati_re.core.outcomes import NOT_MEASURED as NOT_MEASURED
from tati_re.core.outcomes import PASSED as PASSED
from tati_re.core.printable import SCREEN_WIDTH, printable

COLUMNS = ("check", "value", "limit", "verdict", "advice")

BELOW = "below"
ABOVE = "above"
SHARE = "share"
BAND = "band"
COUNT = "count"
STEPS = "steps"


def overall(verdicts: Sequence[str]) -> str:
    """The verdict on all checks: failed if one failed, else not measured if one was not measured."""
    for verdict in (FAILED, NOT_MEASURED):
        if verdict in verdicts:
            return verdict
    return PASSED


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        check: Name of the check.
        value: The measured number; nan if there is none.
        limit: Its limit; nan if there is none.
        verdict: `passed`, `failed` or `not measured`.
        advice: What to do, if the check failed; else empty.
        remark: A few words for the line of the check, such as why it was not measured.
        details: Further words, for the report and `verbose=2`.
        given: Whether the user set the limit.
        form: How value and limit are written: BELOW, ABOVE, SHARE, BAND, COUNT or STEPS.
    """

    check: str
    value: float
    limit: float
    verdict: str
    advice: str = ""
    remark: str = ""
    details: str = ""
    given: bool = False
    form: str = BELOW

    @property
    def note(self) -> str:
        """Remark and details."""
        return "; ".join(filter(None, (self.remark, self.details)))

    @property
    def value_text(self) -> str:
        """The value with its unit; empty if there is none."""
        if math.isnan(self.value):
            return ""
        if self.form == SHARE:
            return percent(self.value)
        if self.form == BAND:
            return f"{'-' if self.value < 0 else '+'}{percent(abs(self.value))}"
        if self.form == STEPS:
            return f"{self.value:,.0f} steps"
        if self.form == ABOVE:
            return whole_text(self.value)
        if self.form == COUNT:
            return f"{self.value:,.0f}"
        return f"{self.value:.3f}" if 0.1 <= abs(self.value) < 1e4 else f"{self.value:.3g}"

    @property
    def limit_text(self) -> str:
        """The limit with its sign; empty if there is none."""
        if math.isnan(self.limit) or self.form in (COUNT, STEPS):
            return ""
        if self.form == SHARE:
            return f"< {percent(self.limit)}"
        if self.form == BAND:
            return f"± {percent(self.limit)}"
        return f"{'>' if self.form == ABOVE else '<'} {self.limit:,.4g}"


def check_result(
    check: str,
    value: float,
    limit: float,
    passed: bool | None,
    form: str = BELOW,
    remark: str = "",
    details: str = "",
    advice: str = "",
    given: bool = False,
) -> CheckResult:
    """The outcome of a check: not measured if `passed` is None or the value is nan.

    Args:
        check: Name of the check.
        value: The measured number; nan if there is none.
        limit: Its limit; nan if there is none.
        passed: Whether the value is within its limit; None if that cannot be told.
        form: How value and limit are written. Default: BELOW.
        remark: A few words for the line of the check. Default: none.
        details: Further words. Default: none.
        advice: What to do if the check failed; left out otherwise. Default: nothing.
        given: Whether the user set the limit. Default: no.

    Returns:
        The outcome.
    """
    verdict = PASSED if passed else FAILED
    if passed is None or math.isnan(value):
        verdict = NOT_MEASURED
    if verdict != FAILED:
        advice = ""
    return CheckResult(check, value, limit, verdict, advice, remark, details, given, form)


class Certificate(pd.DataFrame):
    """A frame with a row for each check: check, value, limit, verdict, advice.

    It prints as on the screen. What is taken from it is a plain frame.

    Attributes:
        results: The outcome of each check, with its details.
    """

    _metadata: ClassVar[list[str]] = ["results"]
    results: tuple[CheckResult, ...]

    @classmethod
    def of(cls, results: Sequence[CheckResult]) -> "Certificate":
        """The certificate with these outcomes."""
        rows = [
            [result.check, result.value, result.limit, result.verdict, result.advice]
            for result in results
        ]
        frame = cls(rows, columns=list(COLUMNS))
        frame.results = tuple(results)
        return frame

    @property
    def outcome(self) -> str:
        """The verdict on all checks: `passed`, `failed` or `not measured`."""
        return overall([result.verdict for result in self.results])

    def detailed(self) -> pd.DataFrame:
        """A plain frame with two more columns: `note`, and `given`, whether the user set the limit."""
        notes = [result.note for result in self.results]
        explicit = [result.given for result in self.results]
        return pd.DataFrame(self).assign(note=notes, given=explicit)

    def __repr__(self) -> str:
        return "\n".join(certificate_text(self.results, details=True))

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self.detailed().to_html()


def title_of(results: Sequence[CheckResult]) -> str:
    """The verdict on all checks, such as `passed (7 of 7 checks)`."""
    verdict = overall([result.verdict for result in results])
    count = sum(result.verdict == verdict for result in results)
    return f"{verdict} ({count} of {len(results)} checks)"


def certificate_text(results: Sequence[CheckResult], details: bool = False) -> list[str]:
    """The lines of a certificate: the verdict, then a line for each check.

    A failed check says in a second line what to do; one that was not measured says why.

    Args:
        results: The outcomes.
        details: Whether the notes of passed checks are shown too. Default: no.

    Returns:
        Lines of at most 100 characters.
    """
    columns = [(result.check, result.value_text, result.limit_text) for result in results]
    wide = [max((len(row[k]) for row in columns), default=0) for k in range(3)]
    lines = [f"Certificate: {title_of(results)}"]

    for result, row in zip(results, columns, strict=True):
        cells = [text.ljust(width) for text, width in zip(row, wide, strict=True)]
        verdict = "" if result.verdict == PASSED else result.verdict
        words = (
            f"{verdict} ({result.remark})"
            if verdict and result.remark
            else verdict or result.remark
        )
        start = "  " + "  ".join(cells)
        if len(f"{start}  {words}") <= SCREEN_WIDTH:
            lines.append(f"{start}  {words}".rstrip())
        else:
            lines.append(f"{start}  {verdict}".rstrip())
            lines.extend(_indented(result.remark))
        for text in (result.details if details else "", result.advice):
            lines.extend(_indented(text))
    return lines


def _indented(text: str) -> list[str]:
    """A text below a check, in lines that fit the screen."""
    fill: Any = textwrap.TextWrapper(
        SCREEN_WIDTH,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines: list[str] = fill.wrap(printable(text))
    return lines


def certificate_lines(results: Sequence[CheckResult]) -> list[tuple[str, str]]:
    """The certificate as pairs of label and value, for tables."""
    lines = [("certificate", title_of(results))]
    for result in results:
        limit = f"(limit {result.limit_text})" if result.limit_text else ""
        parts = [
            result.value_text,
            limit,
            result.verdict if result.verdict != PASSED else "",
            result.note,
        ]
        if result.advice:
            parts.append(f"→ {result.advice}")
        lines.append((f"  {result.check}", "  ".join(filter(None, parts))))
    return lines
