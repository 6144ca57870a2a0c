"""A run in one page of plain text: warnings first, then a table, with the rungs of a ladder."""

import textwrap

from tati_re.analysis.format import WIDTH, table
from tati_re.analysis.named_draws import parameter_summary
from tati_re.core.errors import InputError
from tati_re.core.printable import printable
from tati_re.prediction.named import has_named_parameters
from tati_re.runs.run import RunFiles
from tati_re.runs.selection import check_thin
from tati_re.summary import averages, ladder, lengths, stored, temperatures
from tati_re.summary.certificate import results_of
from tati_re.summary.facts import RunFacts, facts_of
from tati_re.summary.told import Section, Told
from tati_re.summary.verdicts import FAILED, CheckResult, certificate_lines, certificate_text

BEGIN: tuple[Section, ...] = (lengths.system, lengths.length, lengths.step_sizes)
WITHOUT_ROWS: tuple[Section, ...] = (lengths.without_rows,)
OF_FIT: tuple[Section, ...] = (lengths.end_of_fit,)
OF_SAMPLING: tuple[Section, ...] = (
    averages.sampled,
    averages.refreshes,
    temperatures.expected_heating,
    ladder.rungs,
    averages.widths,
    stored.leave_one_out,
)
END: tuple[Section, ...] = (
    stored.streamed,
    stored.stacking,
    stored.calibration,
    stored.comparison,
    stored.files_of_run,
)
"""The sections of a summary, in their order: what every run begins and ends with, and what stands
between for a run without rows, a fit, and a run that sampled. A new section is a function and an
entry here.
"""

_BELOW_CERTIFICATE = (stored.LOO, stored.FILES)
"""Labels of lines that stand below the certificate."""
_MOST_ENTRIES = 40


def summarize(run: RunFiles) -> str:
    """Summarizes a sampled or fitted run, finished or not.

    Args:
        run: The run.

    Returns:
        Warnings, one sentence each; a table; and the certificate of a run that sampled. Lines have
        at most 110 characters, except for long paths.
    """
    facts = _facts(run)
    note_set = _told(facts)
    warnings = [
        textwrap.fill(f"Warning: {note}", WIDTH, subsequent_indent="  ") for note in note_set.notes
    ]
    parts = ["\n".join(warnings), table(note_set.lines)]
    if named := _parameters_text(run):
        parts.append(named)
    if results := _check_results(facts):
        parts.append("\n".join(certificate_text(results, details=True)))
    return printable("\n\n".join(filter(None, parts)))


def details(run: RunFiles) -> str:
    """The table of a summary: averages, temperatures, ladder, without warnings and certificate."""
    return printable(table(_told(_facts(run)).lines))


def warnings_of(run: RunFiles) -> list[str]:
    """The warnings of a run that are no checks of its certificate."""
    return _told(_facts(run)).notes


def summary_lines(run: RunFiles, burnin: int | None = None, thin: int = 1) -> Told:
    """The warnings, failed checks among them, and the pairs of label and value.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: the burn-in of the run.
        thin: Every how many rows of a walker are kept. Default: 1.

    Returns:
        The notes and the lines.

    Raises:
        InputError: The run has no such row.
    """
    check_thin(thin)
    facts = _facts(run, burnin)
    notes, lines = _told(facts, thin)
    results = _check_results(facts)
    failed = [_warning_of(result) for result in results if result.verdict == FAILED]
    certified = certificate_lines(results) if results else []
    place = next((k for k, line in enumerate(lines) if line[0] in _BELOW_CERTIFICATE), len(lines))
    return Told(notes + failed, [*lines[:place], *certified, *lines[place:]])


def _facts(run: RunFiles, burnin: int | None = None) -> RunFacts:
    """What is known of a run; all rows of a fit count."""
    return facts_of(run, 0 if run.manifest.is_fit else burnin)


def _sections(facts: RunFacts) -> tuple[Section, ...]:
    """The sections of the summary of a run."""
    if facts.all_rows.empty:
        return BEGIN + WITHOUT_ROWS + END
    return BEGIN + (OF_FIT if facts.is_optimization else OF_SAMPLING) + END


def _told(facts: RunFacts, thin: int = 1) -> Told:
    """The warnings and the pairs of label and value, without the certificate."""
    note_sets = [section(facts, thin) for section in _sections(facts)]
    return Told(
        notes=[note for note_set in note_sets for note in note_set.notes],
        lines=[line for note_set in note_sets for line in note_set.lines],
    )


def _check_results(facts: RunFacts) -> tuple[CheckResult, ...]:
    """The outcomes of the checks of a run; none of a fit, or of a run without rows."""
    if facts.all_rows.empty or facts.is_optimization:
        return ()
    return results_of(facts)


def _warning_of(result: CheckResult) -> str:
    """A failed check in one sentence, with its advice."""
    limit = f"(limit {result.limit_text})" if result.limit_text else ""
    parts = [result.check, result.value_text, limit]
    remark = f", {result.remark}" if result.remark else ""
    return f"{' '.join(filter(None, parts))}{remark}: {result.advice}."


def _parameters_text(run: RunFiles) -> str:
    """The summary of named parameters as a table; empty for other runs, or without draws."""
    if not has_named_parameters(run) or run.manifest.is_fit:
        return ""
    try:
        summary = parameter_summary(run)
    except InputError:  # nothing is stored yet
        return ""
    text = str(summary.head(_MOST_ENTRIES).to_string(float_format="{:.4g}".format))
    left = len(summary) - _MOST_ENTRIES
    more = f"\n... {left} more: run.parameter_summary()" if left > 0 else ""
    return text + more
