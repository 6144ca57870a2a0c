"""The certificate of a run, how far it may be off beside what was asked for, and what heats it."""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tati_re.analysis.averages import energy_error
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of, effective_sample_size
from tati_re.analysis.format import percent, table
from tati_re.analysis.temperature import (
    COLUMNS,
    FEWEST_EFFECTIVE,
    Temperature,
    group_temperatures,
    has_no_target,
    measured_temperatures,
    nothing_confines,
)
from tati_re.analysis.until import DEFAULTS, WEIGHTS, conditions_of, diagnosis, walker_names
from tati_re.core.errors import InputError, refuse_if
from tati_re.prediction.quantities import quantities
from tati_re.runs.manifest import sees_batches
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import as_run, at_target, burnin_of, is_optimization
from tati_re.samplers.choosing import latest_end
from tati_re.samplers.wrappers.metered import BAND, error_of_bias
from tati_re.samplers.wrappers.tuner import FOR_SPEED, LEARNT, NOT_SETTLED

_NOT_YET = "nothing is drawn yet"
_FACTOR = 1.5  # How far the prediction and a measured temperature may differ.
_SLOW = "not in equilibrium yet, or the steps are large for the stiffest direction; take more burn-in, or reduce step_size"


def heating_lines(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The line of the summary below the measured temperatures; none for full batches."""
    found = latest(manifest)
    if not found:
        return []
    if "not_predicted" in found:
        return [("expected heating", f"not predicted; {found['not_predicted']}")]
    kinetic = "" if math.isnan(found["kinetic"]) else f", kinetic + {percent(found['kinetic'])}"
    text = (
        f"by mini-batch noise: {percent(found['slowest'])} in the slowest directions, {percent(found['stiffest'])} in "
        f"the stiffest, {percent(found['mean'])} in all; configurational temperature + {percent(found['virial'])}"
    )
    return [("expected heating", text + kinetic)]


def why_hot(manifest: dict[str, Any], kind: str, excess: float) -> str:
    """What can have raised a temperature by so much, and what helps."""
    if not sees_batches(manifest):
        return _SLOW
    found = latest(manifest)
    expected = found.get("virial" if kind == "configurational" else "kinetic")
    if expected is None:
        return (
            "not in equilibrium yet, or the steps are large for the stiffest direction, or mini-batch noise heats, "
            "which was not predicted; take more burn-in, smaller steps or larger batches"
        )
    said = f"mini-batch noise was expected to raise it by {percent(expected)}"
    if expected * _FACTOR < excess:
        return f"{said} only; {_SLOW}"
    if kind == "configurational" and found["mean"] * _FACTOR < expected:
        said += (
            f", and that of the positions by {percent(found['mean'])}: within a sweep a gradient is correlated with "
            "where the batches before it led, which the virial shows"
        )
    return f"{said}; reduce it by smaller steps, larger batches or more friction"


def latest(manifest: dict[str, Any]) -> dict[str, Any]:
    found = manifest.get("heating", {})
    return found.get("end") or found.get("start") or {}


_MOST_SPREAD = 1e9
"""Ratio of widths: masses span 1e8 (`samplers/wrappers/fisher.py`), a step size some more."""
_MOST_RARE = 0.75  # Where walkers touch what no step can enter, 1 % of the rows have 90 % of the energy error.
_MOST_UNSEEN = 0.05  # Of lines between draws, along which the gradient does not tell how U changes.
_MOST_MOVED = 5.5  # Standard errors by which U of the first rows may be off.
_MOST_OF_ONE = 0.1
"""Relative error of a single direction, or group of parameters, above which no mean over all of
them is inside.
"""
_FEWEST_ERRORS = 30
"""Energy errors below which their mean is too rough: of 30 squares of a Gaussian number it is half
of what it should be in one of a hundred cases.
"""
_ROWS_OF_RARE = 500  # Below it a hundredth of the rows is a handful.
INSIDE = "inside"
OUTSIDE = "outside"
UNKNOWN = "unknown"
TARGET_BIAS = 0.02


class Row(NamedTuple):
    """What is certified, its number, what was asked, the verdict, a note; `given`: the user asked,
    not the default.
    """

    quantity: str
    value: float
    asked: float
    verdict: str
    note: str = ""
    given: bool = False


class Certificate(pd.DataFrame):
    """The frame of a certificate, which prints the lines of a summary; what is taken from it is a
    plain frame.
    """

    def __repr__(self) -> str:
        return table(certificate_lines(self))

    def _repr_html_(self) -> str:
        with pd.option_context("display.max_colwidth", None):
            return self.to_html()


def certificate(run: RunFiles, burnin: int | None = None) -> pd.DataFrame:
    """What a sampled run certifies, one row each: see `Run.certificate`."""
    run = as_run(run)
    said = run.manifest
    rows = run.run_info
    more = "a run that came to its first row; Simulation.resume goes on"
    now = last_step(run, 0 if rows.empty else int(rows["step"].max()))
    what = f"The run has no rows yet: it ended at step {now:,}, before the first one."
    if rows.empty and "burnin_cut" in said:
        return Certificate(_nothing_drawn(said, now))
    refuse_if(rows.empty and said.get("kind") != "fit", what, run.folder, more)
    if is_optimization(said, rows):
        raise InputError(
            "A fit has no certificate: it looks for a minimum.", run.folder, "a run that sampled"
        )
    rows = at_target(rows)
    given = set(said.get("given", ()))
    options = said.get("options", {})
    tolerance = float(options.get("target_bias", TARGET_BIAS)), "target_bias" in given
    own = burnin_of(run, None)
    burnin = burnin_of(run, burnin)
    kept = rows[rows["step"] > burnin]
    every = int(options.get("record_every", 1))
    last = 0 if run.run_info.empty else int(run.run_info["step"].max())
    # What the run noted at its end, if that is one of these rows.
    noted = [said.get(name) for name in ("centered", "convergence")]
    centered, numbers = (
        one if one and own == burnin and 0 <= one["step"] - last < every else None for one in noted
    )
    seen = _rare(said, kept, own), float((numbers or {}).get("unexplained", 0.0))
    enough = _num_errors(kept, own) >= _FEWEST_ERRORS
    found = [
        _bias(said, kept, *seen, enough, *tolerance),
        _predicted_heating(said, *tolerance),
        *_temperatures(run, kept, burnin, centered, *tolerance),
    ]
    converged = _convergence(run, rows, burnin, numbers)
    agreed = all(row.verdict == INSIDE for row in converged)
    burnt = _burnin(said, options, burnin, given, agreed, _moved(kept))
    if now <= own:
        burnt = _row("burn-in", float(now), math.nan, False, _not_over(said, own))
    return Certificate([*found, *converged, _divergences(said, rows, burnin), burnt])


def widths_note(run: RunFiles) -> str:
    """Says that coordinates have widths too different for one step size and any mass; else empty."""
    if run.manifest.get("kind") == "fit":
        return ""
    try:
        variance = run.moments.variance
    except InputError:  # no step after the burn-in was saved
        return ""
    widths = np.sqrt(variance.mean(axis=0))
    widths = widths[np.isfinite(widths) & (widths > 0)]
    if not len(widths) or not widths.max() > _MOST_SPREAD * widths.min():
        return ""
    return (
        f"the widths of coordinates differ by a factor of {widths.max() / widths.min():.2g}, more than "
        f"masses can balance ({_MOST_SPREAD:.0g}): rescale the coordinates to similar widths"
    )


def failed_checks(run: RunFiles) -> list[str]:
    """The checks of a run's certificate that failed, in words; those not measured are not among
    them.
    """
    frame = certificate(run)
    failed = frame[frame["verdict"] == OUTSIDE]
    found = []
    for name, value, asked in failed[["quantity", "value", "asked"]].itertuples(index=False):
        number = "" if math.isnan(value) else f" {value:.3g}"
        found.append(f"{name}{number}" + (f" (asked {asked:g})" if asked > 0 else ""))
    spread = widths_note(run) if found else ""
    return [spread, *found] if spread else found


def _not_over(said: dict[str, Any], burnin: int) -> str:
    """The note on a burn-in, of so many steps at most, during which the run ended."""
    cut = said.get("burnin_cut")
    how = "not over" if cut is None else f"cut off by {cut['by']}"
    return f"steps of up to {burnin:,}: {how}, {_NOT_YET}"


def _nothing_drawn(said: dict[str, Any], step: int) -> list[Row]:
    """The rows of a run that was cut off in its burn-in, before the first row of a table."""
    unknown = ("discretization bias", "effective size", "R-hat")
    rows = [_row(name, math.nan, math.nan, None, _NOT_YET) for name in unknown]
    burnin = int(said.get("options", {}).get("num_burnin_steps") or 0)
    return [*rows, _row("burn-in", float(step), math.nan, False, _not_over(said, burnin))]


def certificate_lines(frame: pd.DataFrame) -> list[tuple[str, str]]:
    """The certificate as label and value of the lines of a summary; the first one is the verdict of
    all.
    """
    verdicts = {
        verdict: frame.loc[frame["verdict"] == verdict, "quantity"]
        for verdict in (OUTSIDE, UNKNOWN)
    }
    said = "; ".join(
        f"{verdict}: {', '.join(rows)}" for verdict, rows in verdicts.items() if len(rows)
    )
    lines = [("certificate", said or INSIDE)]
    for row in (Row(*values) for values in frame[[*Row._fields]].to_numpy().tolist()):
        value = f"{row.value:,.0f}" if row.value.is_integer() else f"{row.value:.4g}"
        parts = ["" if math.isnan(row.value) else value, row.note]
        if row.asked > 0:
            parts.append(f"asked {row.asked:g}" + ("" if row.given else " (default)"))
        lines.append((f"  {row.quantity}", "  ".join(filter(None, [row.verdict, *parts]))))
    return lines


def _row(
    what: str, value: float, asked: float, good: bool | None, note: str = "", given: bool = False
) -> Row:
    """A row that is inside where it is `good`; unknown where that is None, or the value no
    number.
    """
    verdict = UNKNOWN if good is None or math.isnan(value) else INSIDE if good else OUTSIDE
    return Row(what, value, asked, verdict, note, given)


def _errors_of_rows(kept: pd.DataFrame, begin: int) -> np.ndarray:
    """The energy error that each row adds to the sum of its walker since the burn-in."""
    sums = kept.assign(sum=kept["eevpd"] * (kept["step"] - begin)).groupby("walker")["sum"]
    return sums.diff().dropna().to_numpy()


def _num_errors(kept: pd.DataFrame, begin: int) -> int:
    """How many rows have energy errors of their own, over all walkers; 0 where none is metered."""
    if "eevpd" not in kept:
        return 0
    return int(np.count_nonzero(_errors_of_rows(kept, begin) > 0))


def _rare(said: dict[str, Any], kept: pd.DataFrame, begin: int) -> float:
    """The share of the energy error since the burn-in that a hundredth of the rows has; 0 where not
    each step, or that of each walker at one temperature, is metered; nan where rows are few.
    """
    if said.get("options", {}).get("sampler") != "MCLMC" or "rung" in kept or "eevpd" not in kept:
        return 0.0
    errors = np.sort(_errors_of_rows(kept, begin))[::-1]
    if len(errors) < _ROWS_OF_RARE or not errors.sum() > 0:
        return math.nan
    return float(errors[: len(errors) // 100].sum() / errors.sum())


def _bias(
    said: dict[str, Any],
    kept: pd.DataFrame,
    rare: float,
    unseen: float,
    enough: bool,
    asked: float,
    given: bool,
) -> Row:
    """The bound of the bias; `rare`, `unseen`: shares of the error and of the lines that no bound
    covers; `enough`: whether there are enough energy errors for a mean.
    """
    what = "discretization bias"
    tested = "acceptance" in kept and "acceptance" not in said.get("observables", [])
    if tested and not sees_batches(said) and not said.get("method", {}).get("swap_bias"):
        return _row(what, 0.0, asked, True, "exact: a Metropolis test on all data", given)
    error = energy_error(kept) if "eevpd" in kept and len(kept) else math.nan
    if not math.isfinite(error):
        none = "no energy error was metered; step_size auto does" if len(kept) else _NOT_YET
        return _row(what, math.nan, asked, None, none, given)
    allowed = BAND * error_of_bias(asked)
    bound = _bias_of(error)
    most = _bias_of(allowed)
    if said.get("first_order"):
        note = (
            "by the energy error alone; that of order h friction, which BAOAB lacks, is not metered"
        )
        return _row(what, bound, asked, None, note, given)
    note = "relative error of variances on average over all directions, an upper bound"
    good: bool | None = error <= allowed
    if good and (not enough or math.isnan(rare)):
        good = None
        note += "; too few rows with energy errors to tell"
    why = f"1 % of the rows have {100 * rare:.0f} % of the energy error, as at the neck of a funnel"
    if unseen > _MOST_UNSEEN:
        why = f"on {percent(unseen)} of the lines between draws U jumps, or its gradient is wrong, which HMC would see"
    if unseen > _MOST_UNSEEN or rare > _MOST_RARE:
        good = None if good else good
        note += f"; one alone may have any: {why}"
    elif (number := int(said.get("parameters", {}).get("num", 0))) > 1:
        note += f"; one alone may have {_bias_of(number * error):.2g}"
    if asked < bound and good:
        note += f" (inside up to {most:.2g}: the energy error is tuned to a factor {BAND:g})"
    return _row(what, bound, asked, good, note, given)


def _bias_of(error: float) -> float:
    """β of EEVPD = 4β³/(1 + β)², which rises with β: there is one positive root."""
    roots = np.roots([4.0, -error, -2 * error, -error]) if error > 0 else np.zeros(1)
    return float(roots[np.argmin(abs(roots.imag))].real)


def _predicted_heating(said: dict[str, Any], asked: float, given: bool) -> Row:
    """The heating that is predicted of mini-batch noise: its mean, and none of its directions above
    a tenth.
    """
    what = "predicted heating"
    if not sees_batches(said):
        return _row(what, 0.0, asked, True, "none: all data in every step", given)
    heating = latest(said)
    if "mean" not in heating:
        none = heating.get("not_predicted", "not predicted")
        return _row(what, math.nan, asked, None, none, given)
    value = float(heating["mean"])
    single: dict[str, float] = {
        name: float(heating[name]) for name in ("slowest", "stiffest", "hottest") if name in heating
    }
    worst = max(single, key=lambda name: single[name], default="")
    note = f"{percent(heating.get('slowest', math.nan))} in the slowest directions"
    hides = bool(worst) and single[worst] > _MOST_OF_ONE
    if worst and worst != "slowest":
        note += f", {percent(single[worst])} in the {worst}"
    if hides and value <= asked:
        note += f": above {percent(_MOST_OF_ONE)}, which the mean hides"
    good: bool | None = value <= asked and not hides
    if any(math.isnan(one) for one in single.values()):
        good = None if good else good
    return _row(what, value, asked, good, note, given)


def _temperatures(
    run: RunFiles, kept: pd.DataFrame, burnin: int, centered: Any, asked: float, given: bool
) -> list[Row]:
    """The measured temperatures, with that of positions about their means where known, and those of
    groups of parameters where recorded.
    """
    said = run.manifest
    found = []
    for one in measured_temperatures(kept, int(said.get("parameters", {}).get("num", 0))):
        configurational = one.kind == "configurational"
        energies = kept[COLUMNS[one.kind]]
        free = configurational and nothing_confines(said)
        walled = configurational and has_no_target(said) and not free
        fixed = energies.std() <= 1e-6 * abs(energies.mean())  # momenta of a fixed length
        if walled or fixed:
            continue
        what = f"{one.kind} heating"
        if free:
            excess = one.mean / one.target - 1
            note = "no target: nothing confines U"
            found.append(_row(what, excess, asked, None, note, given))
            continue
        about = ""
        about_mean = one
        if configurational and centered:
            about_mean = one._replace(
                mean=centered["mean"], lower=centered["lower"], upper=centered["upper"]
            )
        if about_mean is not one and not one.half <= max(asked, about_mean.half):
            one = about_mean
            about = f"{centered['num_draws']} draws, about their mean: "
        group = _group_apart(run, one.kind, burnin)
        found.append(_temperature(one, what, about, group, asked, given))
    return found


def _temperature(
    one: Temperature, what: str, about: str, group: str, asked: float, given: bool
) -> Row:
    """A measured temperature against its target: outside where it is further off than was asked,
    and than chance allows; unknown where chance alone may reach further than was asked. `about`
    says which draws were taken, `group` which group of parameters is apart.
    """
    excess = one.mean / one.target - 1
    good: bool | None = None
    if one.tells:
        if one.half <= asked:
            good = True
        if not one.in_band and abs(excess) > asked:
            good = False
    note = one.verdict
    if math.isfinite(one.half):
        note = f"chance gives up to {percent(one.half)}"
    if good is None and math.isfinite(one.half) and asked > 0:
        times = (one.half / asked) ** 2
        note += f", more than is asked: {times:,.2g} times as many draws would tell"
    if good is None and what.startswith("configurational") and not about:
        note += "; needs more steps, or coordinates that are about 0 on average"
    if group:
        good = False
        note += f"; {group}"
    return _row(what, excess, asked, good, about + note, given)


def _group_apart(run: RunFiles, kind: str, burnin: int) -> str:
    """The group of parameters that is furthest off, where it is off by more than a tenth and than
    chance allows; empty where none is, or groups were not recorded.
    """
    try:
        groups = group_temperatures(run, "tensor", burnin)
    except InputError:  # a run that recorded none
        return ""
    off = groups[(groups["temperature"] == kind) & groups["verdict"].isin(("above", "below"))]
    excess = (off["mean"] / off["target"] - 1).to_numpy()
    if not len(excess) or np.abs(excess).max() <= _MOST_OF_ONE:
        return ""
    worst = int(np.argmax(np.abs(excess)))
    return f"{off['group'].iloc[worst]} alone is off by {percent(excess[worst])}"


def _convergence(run: RunFiles, rows: pd.DataFrame, burnin: int, numbers: Any) -> list[Row]:
    """R-hat, sample size, walkers that disagree, errors of averages: as the run noted them, else
    from its files.
    """
    said = run.manifest
    note = ""
    conditions = conditions_of(said.get("options", {}).get("until"))
    limits = DEFAULTS | {one.quantity: one.limit for one in conditions}
    given = {one.quantity for one in conditions}
    if numbers is None:
        try:
            numbers = diagnosis(quantities(run, burnin=burnin), limits["rhat"])
        except InputError:  # no rows after the burn-in
            numbers = diagnosis([], limits["rhat"])
        note = "" if said.get("dataset", {}).get("potential") else ", without predictions"
    hat, size, chance = (
        float(numbers.get(name, math.nan)) for name in ("rhat", "ess", "rhat_by_chance")
    )
    # A manifest of an earlier version has that of all quantities alone.
    of_one = float(numbers.get("rhat_by_chance_of_one", chance))
    drawn = rows.loc[rows["step"] > burnin, "potential"]
    # A flat U within walls says nothing of positions, where walkers are compared by them.
    moved = size > 0 and said.get("dataset", {}).get("potential")
    still = len(drawn) >= MINIMUM_DRAWS and drawn.nunique() == 1 and not moved
    none, size = (
        ("U never changes", 0.0) if still else ("too few rows" if len(drawn) else _NOT_YET, size)
    )
    of = f"least, of {numbers['ess_of']}{note}" if numbers["ess_of"] else none
    found = [_row("effective size", size, limits["ess"], size > limits["ess"], of, "ess" in given)]
    good = _agreement(hat, limits["rhat"], chance, of_one)
    of = (
        f"worst, of {numbers['rhat_of']}{note}"
        if not math.isnan(hat)
        else numbers["rhat_of"] or none
    )
    if good is None and not math.isnan(hat):
        most = chance if hat >= limits["rhat"] else of_one
        of += f"; chance gives up to {most:.3f}, store more positions"
    found.append(_row("R-hat", hat, limits["rhat"], good, of, "rhat" in given))
    if WEIGHTS in numbers:
        drift = float(numbers[WEIGHTS])
        most = limits[WEIGHTS]
        of = f"worst, of {numbers[f'{WEIGHTS}_of']}: each walker compared with itself"
        steady: bool | None = drift < most
        if steady and not of_one <= most:
            steady = None
            of += "; too few draws to tell"
        found.append(_row("R-hat of weights", drift, most, steady, of, WEIGHTS in given))
    apart = numbers.get("spoiled_by", [])
    of = "" if good else "no walker alone lifts R-hat" if hat > limits["rhat"] else "too few draws"
    walkers, there = (
        {*table.loc[table["step"] > burnin, "walker"]} for table in (run.run_info, rows)
    )
    if away := sorted(walkers - there):
        good = False
        apart = away
        of = f"{walker_names(away)}: never at the target since the burn-in"
    elif apart:
        good = None if good is None else False
        of = f"{walker_names(apart)}: R-hat is {numbers['rhat_without']:.3f} without"
    elif len(there) < 2:
        good = None
        of = "a single walker"
    known = good if good or apart else None
    found.append(
        _row("walkers apart", math.nan if known is None else float(len(apart)), 0.0, known, of)
    )
    for one in (one for one in conditions if one.name):
        value = float(numbers.get("mcse", {}).get(one.name, math.nan))
        error = "standard error of the mean"
        small: bool | None = value < one.limit
        if small and not size >= FEWEST_EFFECTIVE:
            small = None
            error += ", rough: the effective size is too small to tell it"
        found.append(_row(f"error of {one.name}", value, one.limit, small, error, True))
    return found


def _agreement(hat: float, limit: float, chance: float, of_one: float) -> bool | None:
    """Whether R-hat is below its limit. None where chance gives as much: above the limit by the
    worst of all quantities, below it where already one of them is above by chance.
    """
    if hat < limit:
        return True if of_one <= limit else None
    return None if hat < chance else False


def _divergences(said: dict[str, Any], rows: pd.DataFrame, burnin: int) -> Row:
    if "stopped" in said or "divergences" not in rows:
        note = "the run stopped" if "stopped" in said else "a run stops at the first one"
        return _row("divergences", float("stopped" in said), 0.0, "stopped" not in said, note)
    before = float(rows[rows["step"] <= burnin].groupby("walker")["divergences"].max().sum())
    count = float(rows.groupby("walker")["divergences"].max().sum()) - before
    return _row(
        "divergences", count, 0.0, count == 0, f"steps undone, and {before:,.0f} in the burn-in"
    )


def _moved(kept: pd.DataFrame) -> float:
    """By how many of its standard errors U of the first tenth of the rows is off that of the second
    half; nan where rows are few, or have weights. Source: J. Geweke, Bayesian Statistics 4 (1992),
    169.
    """
    weighed = "weight" in kept and kept["weight"].nunique() > 1
    if weighed or kept.empty or kept.groupby("walker").size().min() < 10 * MINIMUM_DRAWS:
        return math.nan
    chains = chains_of(kept, "potential", -1)
    early = chains[:, : chains.shape[1] // 10]
    late = chains[:, chains.shape[1] // 2 :]
    error = late.std() * math.sqrt(
        (1 + late.shape[1] / early.shape[1]) / effective_sample_size(late, "mean")
    )
    return float(abs(early.mean() - late.mean()) / error)


def _burnin(
    said: dict, options: dict[str, Any], burnin: int, given: set[str], agreed: bool, moved: float
) -> Row:
    """The burn-in. It is inside where it ended by itself, or what a ladder has learnt was followed
    by draws that agree. One that was cut off before it had settled is unknown at best. One that
    was given is judged by the draws alone.

    Args:
        said, options: The manifest, and its options.
        burnin: Steps.
        given: Names of the options that were given.
        agreed: Whether what was drawn since has converged.
        moved: As of `_moved`.
    """
    found = burnin > 0 and "num_burnin_steps" not in given
    most = int(said.get("until", {}).get("most", options.get("num_steps", 0)))
    unsettled = said.get("burnin_open")
    late = found and (burnin >= latest_end(most) if unsettled is None else bool(unsettled))
    good: bool | None = True
    note = "as given" if burnin else "none"
    if found:
        note = "ended by itself"
    cut_by = said.get("burnin_cut", {}).get("by", "")
    if found and (late or cut_by):
        good, note = _cut(unsettled, agreed, cut_by)
    elif not found and math.isnan(moved):
        good = None
        note += "; too few rows, or rows with weights, to tell whether U still moves"
    if moved > _MOST_MOVED:
        good = False
        note += (
            f"; U of the first tenth of the rows is {moved:.0f} standard errors off: more burn-in"
        )
    steps = f"steps, {note}" if burnin else note
    return _row("burn-in", float(burnin), math.nan, good, steps, not found)


def _cut(unsettled: str | None, agreed: bool, cut_by: str) -> tuple[bool | None, str]:
    """Verdict and note of a burn-in that was over before it had settled.

    Args:
        unsettled: What had not settled; None in runs of an earlier version, which do not say it.
        agreed: Whether what was drawn since has converged.
        cut_by: What ended it, such as `max_time`; empty: the limit on the steps.

    Returns:
        The verdict, None for unknown, and the note.
    """
    since = ", but what was drawn since has converged" * agreed
    if unsettled == LEARNT and not cut_by:
        return agreed, f"all that it may take; {NOT_SETTLED}{unsettled}{since}"
    if not unsettled and not cut_by:
        return False, "as long as it may be, and whether it had settled was not noted"
    note = "cut off before it had settled" + f" by {cut_by}" * bool(cut_by)
    if unsettled:
        note += f"; {NOT_SETTLED}{unsettled}"
    if unsettled and {*unsettled.split(", ")} <= {*FOR_SPEED}:
        return None, f"{note}, which costs steps, no more"
    return (None if agreed else False), note + since
