"""A run in one page of plain text: warnings first, then a table, with the rungs of a ladder."""

import math
import textwrap

import numpy as np
import pandas as pd

from tati_re.analysis.averages import average, rows_at_target
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of
from tati_re.analysis.format import SHORT, SHORT_NOTE, WIDTH, percent, table, with_error
from tati_re.analysis.named_draws import parameter_summary
from tati_re.analysis.temperature import (
    ABOVE,
    TOO_SHORT,
    Temperature,
    has_no_target,
    measured_temperatures,
    nothing_confines,
)
from tati_re.core.errors import InputError
from tati_re.core.printable import printable
from tati_re.exchange.advice import ladder_advice
from tati_re.exchange.gaussianity import gaussianity_report
from tati_re.exchange.ladder import explicit
from tati_re.prediction.calibrating import stored_calibration
from tati_re.prediction.held_out import comparison_notes, stored_comparison
from tati_re.prediction.held_out_table import LABEL_WIDTH, SCORES, table_lines
from tati_re.prediction.leave_one_out import stored_leave_one_out
from tati_re.prediction.named import has_named_parameters
from tati_re.prediction.stacking import stored_stacking
from tati_re.prediction.streamed import streamed_lines
from tati_re.runs import files
from tati_re.runs.manifest import Manifest, changes
from tati_re.runs.run import RunFiles
from tati_re.runs.selection import at_target, check_thin, is_optimization, keep
from tati_re.samplers.wrappers.eqn import refresh_note
from tati_re.summary.certificate import certificate, heating_lines, why_hot, widths_note
from tati_re.summary.facts import facts_of
from tati_re.summary.step_sizes import step_size_text
from tati_re.summary.verdicts import (
    FAILED,
    NOT_MEASURED,
    PASSED,
    CheckResult,
    certificate_lines,
    certificate_text,
)


def summarize(run: RunFiles) -> str:
    """Summarizes a sampled or fitted run, finished or not.

    Args:
        run: The run.

    Returns:
        Warnings, one sentence each; a table; and the certificate of a run that sampled. Lines have
        at most 110 characters, except for long paths.
    """
    notes, lines = _notes_and_lines(run, None, 1)
    warnings = [textwrap.fill(f"Warning: {note}", WIDTH, subsequent_indent="  ") for note in notes]
    parts = ["\n".join(warnings), table(lines)]
    if named := _parameters_text(run):
        parts.append(named)
    if results := check_results(run):
        parts.append("\n".join(certificate_text(results, details=True)))
    return printable("\n\n".join(filter(None, parts)))


_MOST_ENTRIES = 40


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


def details(run: RunFiles) -> str:
    """The table of a summary: averages, temperatures, ladder, without warnings and certificate."""
    return printable(table(_notes_and_lines(run, None, 1)[1]))


def warnings_of(run: RunFiles) -> list[str]:
    """The warnings of a run that are no checks of its certificate."""
    return _notes_and_lines(run, None, 1)[0]


def check_results(run: RunFiles, burnin: int | None = None) -> tuple[CheckResult, ...]:
    """The outcomes of the checks of a run; none of a fit, or of a run without rows.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: the burn-in of the run.
    """
    rows = run.run_info
    if rows.empty or is_optimization(run.manifest, rows):
        return ()
    return certificate(run, burnin).results


def _warning_of(result: CheckResult) -> str:
    """A failed check in one sentence, with its advice."""
    limit = f"(limit {result.limit_text})" if result.limit_text else ""
    parts = [result.check, result.value_text, limit]
    remark = f", {result.remark}" if result.remark else ""
    return f"{' '.join(filter(None, parts))}{remark}: {result.advice}."


def summary_lines(
    run: RunFiles, burnin: int | None = None, thin: int = 1
) -> tuple[list[str], list[tuple[str, str]]]:
    """The warnings, failed checks among them, and the pairs of label and value.

    Args:
        run: The run.
        burnin: Steps to leave out. Default: the burn-in of the run.
        thin: Every how many rows of a walker are kept. Default: 1.
    """
    notes, lines = _notes_and_lines(run, burnin, thin)
    results = check_results(run, burnin)
    failed = [_warning_of(one) for one in results if one.verdict == FAILED]
    place = next((k for k, line in enumerate(lines) if line[0] in _LAST), len(lines))
    return notes + failed, [
        *lines[:place],
        *(certificate_lines(results) if results else []),
        *lines[place:],
    ]


_LAST = ("PSIS-LOO", "files")
"""Lines below the certificate."""


def _notes_and_lines(
    run: RunFiles, burnin: int | None, thin: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """The warnings and the pairs of label and value, without the certificate."""
    check_thin(thin)
    facts = facts_of(run, 0 if run.manifest.is_fit else burnin)
    manifest = facts.manifest
    rows = facts.all_rows
    burnin = facts.burnin
    stopped = [] if manifest.stopped is None else [f"The run stopped: {manifest.stopped}"]
    stopped += changes(run.folder, manifest)
    number = manifest.parameters.num
    system = [
        ("potential U", manifest.meaning),
        ("parameters", f"{number:,}" if number else ""),
    ]
    lines = [("folder", str(run.folder)), *(line for line in system if line[1])]
    lines += _length_lines(manifest, rows, burnin, thin)
    if moved := step_size_text(manifest, rows, burnin):
        lines.append(("learning rate" if manifest.is_fit else "step size", moved))
    if rows.empty:
        notes = ["The run has no rows yet."]
        if manifest.has_fits_alone:
            notes = ["The run has no draws: predictions use its fits alone."]
    elif is_optimization(manifest, rows):
        notes = []
        last = rows[rows["step"] == rows["step"].max()]
        names = [
            name for name in ("loss", "potential", "accuracy", "gradient_norm") if name in last
        ]
        lines += [(f"last {name.replace('_', ' ')}", _range(last[name])) for name in names]
    else:
        notes, more_lines = _sampling_lines(run, facts.rows, burnin, thin)
        notes += filter(None, [refresh_note(manifest.method.table)])
        lines += [*more_lines, *heating_lines(manifest)]
        if run.has(files.LADDER) and len(run.ladder) > 1:  # a bias alone has one rung
            more, more_lines = ladder_lines(
                manifest, run.ladder, run.noise if run.has(files.NOISE) else None
            )
            notes = notes + more
            lines = lines + more_lines
        notes += [f"{spread[0].upper()}{spread[1:]}." for spread in [widths_note(run)] if spread]
        if (loo := stored_leave_one_out(run)) is not None:
            lines.append(("PSIS-LOO", str(loo)))
            if loo.unreliable:
                notes.append(
                    f"PSIS-LOO: {loo.unreliable} of {len(loo.elpd)} examples have a "
                    f"Pareto k above {loo.largest_k:.2g}. These rows are highly "
                    "influential, and the elpd estimate is unreliable."
                )
    if manifest.options.stream_predictions:
        lines += streamed_lines(run)
    if (stacked := stored_stacking(run)) is not None:
        lines.append(("stacking of the chains", str(stacked)))
    if (calibrated := stored_calibration(run)) is not None:
        lines.append(("calibration", str(calibrated)))
    lines += comparison_pairs(run)
    lines.append(
        ("files", ", ".join(sorted(path.name for path in run.folder.iterdir() if path.is_file())))
    )
    return stopped + notes, lines


def comparison_pairs(run: RunFiles) -> list[tuple[str, str]]:
    """The scores of the posterior and of the fits it began with, as label and value of each line."""
    frame = stored_comparison(run)
    if frame is None:
        return []
    rows = table_lines(frame, tuple(SCORES), ())
    pairs = [(line[:LABEL_WIDTH].rstrip(), line[LABEL_WIDTH:]) for line in rows]
    return pairs + [("  note", note) for note in comparison_notes(run)]


def temperature_text(temperature: Temperature) -> str:
    """Returns `1.003  target 1  band 0.998 to 1.002  failed`.

    A mean in its band is called consistent, not passed: the certificate also asks whether the band
    is narrow enough to find a fault.
    """
    half = temperature.upper - temperature.target
    if temperature.reason == TOO_SHORT:
        size = temperature.effective_sample_size
        why = (
            f"{'too noisy' if size > 1_000 else 'the run is too short'} ({size:.0f} effective rows)"
        )
        return f"{temperature.mean:.3g}  target {temperature.target:g}  {NOT_MEASURED}: {why}"
    decimals = max(2, 2 - math.floor(math.log10(half))) if half > 0 else 3
    verdict = temperature.verdict
    if verdict == NOT_MEASURED:
        verdict += f": {temperature.reason}"
    elif verdict == PASSED:
        verdict = "consistent"
    band = (
        f"  band {temperature.lower:.{decimals}f} to {temperature.upper:.{decimals}f}"
        if math.isfinite(half)
        else ""
    )
    return f"{temperature.mean:.{decimals}f}  target {temperature.target:g}{band}  {verdict}"


def temperature_note(temperature: Temperature, manifest: Manifest) -> str | None:
    """Returns a warning about a temperature outside its band, with what the manifest knows of
    causes, or None.
    """
    if temperature.verdict != FAILED:
        return None
    above = temperature.reason == ABOVE
    excess = temperature.mean / temperature.target - 1
    if above:
        advice = why_hot(manifest, temperature.kind, excess)
    elif temperature.kind == "kinetic":
        advice = "the steps are large for the stiffest direction; reduce step_size"
    else:
        advice = "not in equilibrium yet; take more burn-in steps"
    return (
        f"The {temperature.kind} temperature is {percent(abs(excess))} "
        f"{'above' if above else 'below'} its target, more than chance allows: {advice}."
    )


def _length_lines(
    manifest: Manifest, rows: pd.DataFrame, burnin: int, thin: int
) -> list[tuple[str, str]]:
    planned = manifest.options.num_steps
    last = 0 if rows.empty else int(rows["step"].max())
    # The last row is that of the last recorded step, up to record_every - 1 before the last one
    # taken.
    finished = planned is None or planned - last < manifest.options.record_every
    text = f"{planned if finished and planned is not None else last:,}" + (
        "" if finished else f" of {planned:,}"
    )
    if burnin:
        text += (
            f", the first {burnin:,} left out as burn-in"
            if burnin <= last
            else f", burn-in up to {burnin:,}"
        )
    if thin > 1:
        text += f", thinned by a factor of {thin:,}"
    counts = at_target(rows).groupby("walker").size().reindex(rows["walker"].unique(), fill_value=0)
    least, most = (0, 0) if rows.empty else (counts.min(), counts.max())
    number = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    walkers = len(counts) or manifest.options.num_walkers
    return [("steps", text), ("walkers", f"{walkers}, {number} rows each")]


def _range(values: pd.Series) -> str:
    low = float(values.min())
    high = float(values.max())
    return f"{low:,.6g}" if low == high else f"{low:,.6g} to {high:,.6g} over the walkers"


def _sampling_lines(
    run: RunFiles, rows: pd.DataFrame, burnin: int, thin: int
) -> tuple[list[str], list[tuple[str, str]]]:
    manifest = run.manifest
    notes = list[str]()
    lines = list[tuple[str, str]]()
    sampled = rows[rows["step"] > burnin]
    sampled = sampled if sampled.empty else keep(sampled, burnin, thin)
    counted = (
        rows_at_target(run, burnin, thin)
        if "weight" in sampled.columns and not sampled.empty
        else sampled
    )
    if len(sampled) < MINIMUM_DRAWS or counted.groupby("walker").size().min() < MINIMUM_DRAWS:
        return [
            f"Fewer than {MINIMUM_DRAWS} rows of each walker after burn-in: too few for statistics."
        ], lines
    weights = chains_of(counted, "weight") if "weight" in sampled.columns else None
    of_extra = [name for name in sampled.columns if name.startswith(("noise_std", "degrees_of"))]
    for name in ("loss", "potential", "accuracy", "acceptance", *of_extra):
        if name in sampled.columns and sampled[name].notna().any():
            averages = average(chains_of(counted, name), weights, sizes=False)
            lines.append(
                (
                    f"{name} (mean)",
                    with_error(averages["mean"], averages["error"], averages["short"]),
                )
            )
    if any(SHORT in value for _, value in lines):
        lines.append((SHORT, SHORT_NOTE))
    preparation = manifest.dataset.preparation
    standard = None if preparation is None else preparation.target
    if standard is not None:
        deviation = ", ".join(f"{value:.4g}" for value in np.atleast_1d(standard.deviation)[:4])
        lines.append(
            (
                "targets",
                f"standardized (sd {deviation}); multiply noise_std by it for original units",
            )
        )
    potential = chains_of(counted, "potential")
    if np.ptp(potential) == 0:
        notes.append("The potential never changed: no step moved a walker. Reduce step_size.")
    if nothing_confines(manifest):
        notes.insert(
            0,
            "Nothing confines U (no prior, no box). A flat direction has no equilibrium, "
            "and the configurational temperature no target.",
        )
    for temperature in measured_temperatures(sampled, manifest.parameters.num):
        text = temperature_text(temperature)
        if temperature.kind == "configurational" and has_no_target(manifest):
            text = f"{temperature.mean:.4g}  no target: the potential has flat directions or walls"
        elif note := temperature_note(temperature, manifest):
            notes.append(note)
        lines.append((f"{temperature.kind} temperature", text))
    return notes, lines


_FEW = 0.01
_MOST_ROWS = 40


def ladder_lines(
    manifest: Manifest, ladder: pd.DataFrame, noise: pd.DataFrame | None = None
) -> tuple[list[str], list[tuple[str, str]]]:
    """The warnings of a run on a ladder, and the lines of its end table: label and value of each
    rung.
    """
    exchanges = manifest.method.exchange != "none"
    tempered = ladder["likelihood_weight"].nunique() > 1
    tempered_column = "likelihood_weight" if tempered else "temperature"
    notes = [manifest.method.swap_bias] if manifest.method.swap_bias else []
    own_steps = ladder["step_size"].nunique() > 1
    biased = "bias" in manifest.method.table
    energy = "U under the bias" if biased else "U"
    if tempered:
        energy = "L"
    notes += _notes(ladder, biased) if exchanges else []
    lines = [("ladder", "")]
    for row in ladder.head(_MOST_ROWS).to_dict("records"):
        text = f"{tempered_column.replace('_', ' ')} {row[tempered_column]:.6g}  mean {energy} {row['mean_potential']:,.6g}"
        text += f"  step size {row['step_size']:.4g}" if own_steps else ""
        if exchanges and np.isfinite(row["acceptance"]):
            predicted = (
                "" if biased else f", from the mean energies {row['predicted_acceptance']:.3f}"
            )
            text += f"  swaps up {row['acceptance']:.3f} (expected {row['expected_acceptance']:.3f}{predicted})"
        lines.append((f"  rung {int(row['rung'])}", text))
    if len(ladder) > _MOST_ROWS:
        lines.append(("  ...", f"{len(ladder) - _MOST_ROWS} more rungs in ladder.csv"))
    if exchanges:
        last = ladder.iloc[-1]
        known = f"{last['barrier']:.3g}, the sum of the rejection rates"
        unknown = "unknown: one pair of rungs never tried to swap"
        lines.append(("barrier", known if np.isfinite(last["barrier"]) else unknown))
        trips = f"{int(last['round_trips']):,} target to hottest rung and back, {int(last['restarts']):,} arrivals"
        lines.append(("round trips", trips))
    if noise is not None and len(noise):
        noise_lines = _noise_lines(noise)
        notes = notes + noise_lines[0]
        lines = lines + noise_lines[1]
    return notes, lines


def _noise_lines(noise: pd.DataFrame) -> tuple[list[str], list[tuple[str, str]]]:
    notes = []
    lines = []
    for kind, subject in (
        ("energy", "The noise of the swaps' energies"),
        ("gradient", "The noise of the gradients"),
    ):
        values = noise.loc[noise["test"] == kind, "p_value"].to_numpy(dtype=np.float64)
        if not len(values):
            continue
        report = gaussianity_report(values, subject)
        low, high = report.band
        text = f"{report.fraction:.3f} of {len(values)} p-values below 0.05, band {low:.3f} to {high:.3f}"
        lines.append((f"{kind} noise", f"Shapiro-Wilk: {text}, smallest {values.min():.2g}"))
        if report.sentence:
            notes.append(report.sentence)
    return notes, lines


def _notes(ladder: pd.DataFrame, biased: bool) -> list[str]:
    pairs = ladder.iloc[:-1]
    if not pairs["attempts"].sum() > 0:
        return ["No swap was tried after the burn-in: exchange_every is longer than the run."]
    broken = pairs[pairs["acceptance"] < _FEW]
    notes = []
    if len(broken):
        rungs = ", ".join(f"{int(rung)} and {int(rung) + 1}" for rung in broken["rung"][:5])
        notes.append(
            f"Fewer than {_FEW:.0%} of the swaps between rungs "
            f"{rungs}{' and others' if len(broken) > 5 else ''} are accepted: the ladder "
            "is broken there."
        )
        if not biased:
            notes[-1] += "".join(f" {sentence}" for sentence in measured_advice(ladder)[1:])
    elif ladder["round_trips"].iloc[-1] < 1:
        notes.append(
            "No replica made a round trip between the target and the hottest rung: take "
            "more steps, or more rungs."
        )
    return notes


def measured_advice(ladder: pd.DataFrame) -> tuple[str, ...]:
    """Advice on a ladder by its heat capacity d<U>/dT between neighbors; none below 0, or where λ
    is tempered.
    """
    temperature, mean = (
        ladder[name].to_numpy(dtype=np.float64) for name in ("temperature", "mean_potential")
    )
    if (
        ladder["likelihood_weight"].nunique() > 1
        or not np.isfinite(mean).all()
        or (np.diff(temperature) <= 0).any()
    ):
        return ()
    capacity = np.diff(mean) / np.diff(temperature)
    if not (capacity > 0).all():
        return ()
    at_rungs = np.concatenate([capacity[:1], 0.5 * (capacity[1:] + capacity[:-1]), capacity[-1:]])
    return ladder_advice(explicit(temperature.tolist()), heat_capacity=at_rungs).sentences
