"""The end of the screen of a run: warnings, the certificate, and where the run is stored."""

import math
import textwrap
from collections.abc import Callable
from typing import Any

from tati_re.analysis.until import DEFAULTS, Condition, conditions_of, steps_left
from tati_re.core.errors import InputError, pasted
from tati_re.core.printable import SCREEN_WIDTH, printable
from tati_re.core.process.exit_status import CERTIFICATE_FAILED, CERTIFICATE_NOT_MEASURED, FINISHED
from tati_re.core.process.interruption import in_command
from tati_re.prediction.held_out import shortest_lines
from tati_re.prediction.named import has_named_parameters
from tati_re.runs import manifest
from tati_re.runs.manifest_entries import ConvergenceEntry
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import burnin_of
from tati_re.summary.certificate import certificate
from tati_re.summary.summary import warnings_of
from tati_re.summary.verdicts import PASSED, CheckResult, certificate_text

_COMPLETE = (FINISHED, CERTIFICATE_FAILED, CERTIFICATE_NOT_MEASURED)
_OF_CONVERGENCE = ("R-hat", "ESS", "R-hat of weights")


def end_screen(run: RunFiles) -> str:
    """The last lines on the screen of a run that sampled.

    Args:
        run: The run, which has just ended.

    Returns:
        The text of all `END_SECTIONS`, an empty line between two of them. The last line says how
        to continue a run that has not converged.
    """
    texts = ["\n".join(section(run)) for section in END_SECTIONS]
    return printable("\n\n".join(filter(None, texts)))


def _warnings(run: RunFiles) -> list[str]:
    """Warnings that are no checks of the certificate."""
    lines = []
    for note in warnings_of(run):
        lines += textwrap.wrap(f"Warning: {note}", SCREEN_WIDTH, subsequent_indent="  ")
    return lines


def _certificate(run: RunFiles) -> list[str]:
    """The certificate, one line a check."""
    results = _results(run)
    return certificate_text(results) if results else ["Certificate: not measured (no draws yet)"]


def _results(run: RunFiles) -> tuple[CheckResult, ...]:
    try:
        return certificate(run).results
    except InputError:  # it ended before its first row
        return ()


def _end(run: RunFiles) -> list[str]:
    """Where the run is stored and what to do next; last, how to continue if it has not
    converged.
    """
    lines = [_stored(run)]
    if run.exit_status in _COMPLETE and (missing := _not_converged(run)):
        lines += missing
    return lines


def _stored(run: RunFiles) -> str:
    first = "run.parameter_summary()" if has_named_parameters(run) else "run.predict()"
    if run.is_temporary:
        return f"not saved (no output)   next: {first}, run.summary()"
    following = f"{first}, run.summary(), tati_re.write_report(run)"
    if in_command():
        following = f"tati-report {pasted(run.folder)}"
    line = f"saved in {run.folder}   next: {following}"
    return line if len(line) <= SCREEN_WIDTH else f"saved in {run.folder}\n  next: {following}"


_CHAINS_LOST = (
    "In a trial chains predicted worse than the fits. A larger max_time adds members instead."
)


def _not_converged(run: RunFiles) -> list[str]:
    """What has not converged, and how to continue; nothing if all did."""
    open_ = [
        result
        for result in _results(run)
        if result.verdict != PASSED
        and (result.check in _OF_CONVERGENCE or "error of" in result.check)
    ]
    if not open_:
        return []
    if run.manifest.has_fits_alone:
        choice = run.manifest.choice
        if choice is not None and choice.trial_steps and not choice.trial_won:
            return [_CHAINS_LOST]
        again = "tati_re.Simulation.resume(run)"
        if not run.is_temporary:
            again = manifest.going_on(run.folder)
        return [f"To sample chains from the fits: {again}"]

    names = ", ".join(result.check for result in open_)
    if run.manifest.until.stuck_at == last_step(run, 0):
        return textwrap.wrap(f"Not converged: {names}. {_cure_of_modes(run)}", SCREEN_WIDTH)
    num_steps = _wanted_steps(run)
    again = f"tati_re.Simulation.resume(run, {num_steps})"
    if not run.is_temporary:
        again = manifest.going_on(run.folder, num_steps)
    return [
        *textwrap.wrap(f"Not converged: {names}. Continue with:", SCREEN_WIDTH),
        f"  {again}",
    ]


def _cure_of_modes(run: RunFiles) -> str:
    """What to do about chains that sit in different modes."""
    cause = "The chains sit in different modes, and more steps would hardly help."
    content = run.manifest
    if content.dataset.potential or content.temperature != 1.0:
        return f"{cause} Temperatures connect modes (num_replicas)."
    option = "--goal predict" if in_command() else 'goal="predict"'
    return f"{cause} {option} predicts with such chains and ends after 60 seconds."


def _wanted_steps(run: RunFiles) -> int:
    """The step at which the run is expected to have converged; twice its length if not known."""
    content = run.manifest
    rows = run.run_info
    step = last_step(run, 0 if rows.empty else int(rows["step"].max()))
    drawn = step - burnin_of(run, None)
    conditions = conditions_of(content.options.until)
    conditions = conditions or [Condition(name, "", DEFAULTS[name]) for name in ("rhat", "ess")]
    noted = ConvergenceEntry() if content.convergence is None else content.convergence
    numbers: dict[str, Any] = {"mcse": {}, **noted.table}
    left = [steps_left(steps, numbers, drawn) for steps in conditions]
    more = max((steps for steps in left if math.isfinite(steps)), default=0.0)
    return step + int(more) if more > 0 else 2 * step


Section = Callable[[RunFiles], list[str]]

END_SECTIONS: tuple[Section, ...] = (_warnings, _certificate, shortest_lines, _end)
"""The parts of the end of the screen, in their order: functions of the run that return lines. A
new part is a function and an entry here; the last one is where the run is stored.
"""
