"""The certificate of a run, how far it may be off beside what was asked for, and what heats it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from tati_re.analysis.averages import energy_error
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of, effective_sample_size
from tati_re.analysis.format import percent, table
from tati_re.analysis.heating import MOST_OF_ONE
from tati_re.analysis.temperature import (
    COLUMNS,
    FEWEST_EFFECTIVE,
    Temperature,
    group_temperatures,
    has_no_target,
    measured_temperatures,
    nothing_confines,
)
from tati_re.analysis.until import (
    DEFAULTS,
    WEIGHTS,
    Condition,
    conditions_of,
    diagnosis,
    walker_names,
    within_chains,
)
from tati_re.core.errors import InputError
from tati_re.prediction.quantities import quantities
from tati_re.runs.manifest import sees_batches
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import as_run, at_target, burnin_of, is_optimization
from tati_re.samplers.choosing import latest_end
from tati_re.samplers.wrappers.metered import BAND, error_of_bias
from tati_re.samplers.wrappers.tuner import FOR_SPEED, LEARNT, NOT_SETTLED

_NOT_YET = "nothing is drawn yet"
_STILL = "U never changes"
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
_FEWEST_ERRORS = 30
"""Energy errors below which their mean is too rough: of 30 squares of a Gaussian number it is half
of what it should be in one of a hundred cases.
"""
_ROWS_OF_RARE = 500  # Below it a hundredth of the rows is a handful.
INSIDE = "inside"
OUTSIDE = "outside"
UNKNOWN = "unknown"
TARGET_BIAS = 0.02
OF_PREDICTIONS = {"rhat": 1.05, "ess": 100.0}
"""Limits of a run for prediction, within each chain: an average over 100 independent draws is off by
a tenth of the spread of the draws.
"""


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


@dataclass(frozen=True)
class CertificateFacts:
    """What the checks of a certificate look at.

    Attributes:
        run: The run.
        rows: Its rows at the temperature of the target.
        burnin: Steps that are left out.
    """

    run: RunFiles
    rows: pd.DataFrame
    burnin: int

    @property
    def manifest(self) -> dict[str, Any]:
        return self.run.manifest

    @property
    def options(self) -> dict[str, Any]:
        return self.manifest.get("options", {})

    @cached_property
    def given(self) -> set[str]:
        """Names of the options that were given."""
        return set(self.manifest.get("given", ()))

    @property
    def target_bias(self) -> float:
        """The relative error of variances that is allowed."""
        return float(self.options.get("target_bias", TARGET_BIAS))

    @property
    def bias_is_given(self) -> bool:
        return "target_bias" in self.given

    @cached_property
    def own_burnin(self) -> int:
        """The burn-in of the run itself."""
        return burnin_of(self.run, None)

    @cached_property
    def kept(self) -> pd.DataFrame:
        """The rows after the burn-in."""
        return self.rows[self.rows["step"] > self.burnin]

    @property
    def last_row(self) -> int:
        """The step of the last row; 0 without rows."""
        run_info = self.run.run_info
        return 0 if run_info.empty else int(run_info["step"].max())

    @property
    def num_steps(self) -> int:
        """The last step of the run so far."""
        return last_step(self.run, self.last_row)

    def noted(self, name: str) -> Any:
        """What the run noted at its end under a name, if that is about one of these rows."""
        note = self.manifest.get(name)
        every = int(self.options.get("record_every", 1))
        if not note or self.own_burnin != self.burnin:
            return None
        return note if 0 <= note["step"] - self.last_row < every else None

    @cached_property
    def conditions(self) -> list[Condition]:
        """The conditions of the option `until`."""
        return conditions_of(self.options.get("until"))

    @cached_property
    def limits(self) -> dict[str, float]:
        """The limits of R-hat and effective size."""
        usual = DEFAULTS | OF_PREDICTIONS if self.predicts else DEFAULTS
        return usual | {one.quantity: one.limit for one in self.conditions}

    @property
    def predicts(self) -> bool:
        """Whether the run is one for prediction, whose chains are checked one by one."""
        return self.options.get("goal") == "predict"

    @cached_property
    def not_mixed(self) -> str:
        """The fact that chains stay in modes of their own; empty where they agree, or are compared."""
        between = self.number("rhat_between")
        if not (self.predicts and between > self.limits["rhat"]):
            return ""
        chains = self.rows["walker"].nunique()
        said = f"chains have not mixed across modes (R-hat {between:.3g} between them)"
        return f"{said}: predictions are a mixture of {chains} chains"

    def limit_is_given(self, quantity: str) -> bool:
        """Whether the limit of a quantity stands in the option `until`."""
        return any(one.quantity == quantity for one in self.conditions)

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """R-hat and effective size as the run noted them, else from its files."""
        if (noted := self.noted("convergence")) is not None:
            return noted
        try:
            compared = quantities(self.run, burnin=self.burnin)
            apart = within_chains(compared) if self.predicts else compared
            return diagnosis(apart, self.limits["rhat"])
        except InputError:  # no rows after the burn-in
            return diagnosis([], self.limits["rhat"])

    @cached_property
    def without_predictions(self) -> str:
        """A note on numbers from files, among which there are no predictions."""
        noted = self.noted("convergence") is not None
        own = self.manifest.get("dataset", {}).get("potential")
        return "" if noted or own else ", without predictions"

    def number(self, name: str, absent: float = math.nan) -> float:
        """One of the numbers of convergence."""
        return float(self.numbers.get(name, absent))

    @property
    def by_chance_of_one(self) -> float:
        """R-hat that one quantity may have by chance; an earlier version noted that of all alone."""
        return self.number("rhat_by_chance_of_one", self.number("rhat_by_chance"))

    @cached_property
    def nothing_to_compare(self) -> str:
        """Why there is no R-hat and no effective size; empty if U moves."""
        drawn = self.rows.loc[self.rows["step"] > self.burnin, "potential"]
        # A flat U within walls says nothing of positions, where walkers are compared by them.
        moved = self.number("ess") > 0 and self.manifest.get("dataset", {}).get("potential")
        if len(drawn) >= MINIMUM_DRAWS and drawn.nunique() == 1 and not moved:
            return _STILL
        return "too few rows" if len(drawn) else _NOT_YET

    @property
    def effective_size(self) -> float:
        """The least effective sample size."""
        return 0.0 if self.nothing_to_compare == _STILL else self.number("ess")

    @cached_property
    def has_converged(self) -> bool:
        """Whether all checks of convergence passed."""
        rows = [row for check in CONVERGENCE for row in check(self)]
        return all(row.verdict == INSIDE for row in rows)


def certificate(run: RunFiles, burnin: int | None = None) -> pd.DataFrame:
    """What a sampled run certifies, one row each: see `Run.certificate`.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: the burn-in of the run.

    Returns:
        The rows of all `CHECKS`.

    Raises:
        InputError: A fit, or a run without rows.
    """
    run = as_run(run)
    rows = run.run_info
    if rows.empty and "burnin_cut" in run.manifest:
        return Certificate(_nothing_drawn(run.manifest, last_step(run, 0)))
    if rows.empty and run.manifest.get("kind") != "fit":
        raise InputError(
            f"The run has no rows yet: it ended at step {last_step(run, 0):,}, before the first one.",
            run.folder,
            "a run that came to its first row; Simulation.resume goes on",
        )
    if is_optimization(run.manifest, rows):
        raise InputError(
            "A fit has no certificate: it looks for a minimum.", run.folder, "a run that sampled"
        )

    facts = CertificateFacts(run, at_target(rows), burnin_of(run, burnin))
    return Certificate([row for check in CHECKS for row in check(facts)])


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
    verdict = INSIDE if good else OUTSIDE
    if good is None or math.isnan(value):
        verdict = UNKNOWN
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


def _bias(facts: CertificateFacts) -> list[Row]:
    """The bias of the step size, from the energy error."""
    said = facts.manifest
    kept = facts.kept
    asked = facts.target_bias
    given = facts.bias_is_given
    what = "discretization bias"
    if _is_exact(said, kept):
        return [_row(what, 0.0, asked, True, "exact: a Metropolis test on all data", given)]

    error = energy_error(kept) if "eevpd" in kept and len(kept) else math.nan
    if not math.isfinite(error):
        none = "no energy error was metered; step_size auto does" if len(kept) else _NOT_YET
        return [_row(what, math.nan, asked, None, none, given)]

    if said.get("first_order"):
        note = (
            "by the energy error alone; that of order h friction, which BAOAB lacks, is not metered"
        )
        return [_row(what, _bias_of(error), asked, None, note, given)]
    return [_bound_of_bias(facts, error)]


def _is_exact(said: dict[str, Any], kept: pd.DataFrame) -> bool:
    """Whether a Metropolis test on all data removes the bias."""
    tested = "acceptance" in kept and "acceptance" not in said.get("observables", [])
    return tested and not sees_batches(said) and not said.get("method", {}).get("swap_bias")


def _bound_of_bias(facts: CertificateFacts, error: float) -> Row:
    """The bound of the bias by the energy error, and what no bound covers."""
    asked = facts.target_bias
    allowed = BAND * error_of_bias(asked)
    bound = _bias_of(error)
    rare = _rare(facts.manifest, facts.kept, facts.own_burnin)
    enough = _num_errors(facts.kept, facts.own_burnin) >= _FEWEST_ERRORS

    note = "relative error of variances on average over all directions, an upper bound"
    good: bool | None = error <= allowed
    if good and (not enough or math.isnan(rare)):
        good = None
        note += "; too few rows with energy errors to tell"

    number = int(facts.manifest.get("parameters", {}).get("num", 0))
    if why := _unbounded(facts, rare):
        good = None if good else good
        note += f"; one alone may have any: {why}"
    elif number > 1:
        note += f"; one alone may have {_bias_of(number * error):.2g}"

    if asked < bound and good:
        most = _bias_of(allowed)
        note += f" (inside up to {most:.2g}: the energy error is tuned to a factor {BAND:g})"
    return _row("discretization bias", bound, asked, good, note, facts.bias_is_given)


def _unbounded(facts: CertificateFacts, rare: float) -> str:
    """Why no bound covers a single direction; empty if one does.

    Args:
        facts: The facts.
        rare: The share of the energy error that a hundredth of the rows has.
    """
    unseen = float((facts.noted("convergence") or {}).get("unexplained", 0.0))
    if unseen > _MOST_UNSEEN:
        return f"on {percent(unseen)} of the lines between draws U jumps, or its gradient is wrong, which HMC would see"
    if rare > _MOST_RARE:
        return f"1 % of the rows have {100 * rare:.0f} % of the energy error, as at the neck of a funnel"
    return ""


def _bias_of(error: float) -> float:
    """β of EEVPD = 4β³/(1 + β)², which rises with β: there is one positive root."""
    roots = np.roots([4.0, -error, -2 * error, -error]) if error > 0 else np.zeros(1)
    return float(roots[np.argmin(abs(roots.imag))].real)


def _predicted_heating(facts: CertificateFacts) -> list[Row]:
    """The heating that is predicted of mini-batch noise: its mean, and none of its directions above
    a tenth.
    """
    said = facts.manifest
    asked = facts.target_bias
    given = facts.bias_is_given
    what = "predicted heating"
    if not sees_batches(said):
        return [_row(what, 0.0, asked, True, "none: all data in every step", given)]
    heating = latest(said)
    if "mean" not in heating:
        none = heating.get("not_predicted", "not predicted")
        return [_row(what, math.nan, asked, None, none, given)]
    value = float(heating["mean"])
    single: dict[str, float] = {
        name: float(heating[name]) for name in ("slowest", "stiffest", "hottest") if name in heating
    }
    worst = max(single, key=lambda name: single[name], default="")
    note = f"{percent(heating.get('slowest', math.nan))} in the slowest directions"
    hides = bool(worst) and single[worst] > MOST_OF_ONE
    if worst and worst != "slowest":
        note += f", {percent(single[worst])} in the {worst}"
    if hides and value <= asked:
        note += f": above {percent(MOST_OF_ONE)}, which the mean hides"
    good: bool | None = value <= asked and not hides
    if any(math.isnan(one) for one in single.values()):
        good = None if good else good
    return [_row(what, value, asked, good, note, given)]


def _temperatures(facts: CertificateFacts) -> list[Row]:
    """The measured temperatures, with that of positions about their means where known, and those of
    groups of parameters where recorded.
    """
    said = facts.manifest
    kept = facts.kept
    asked = facts.target_bias
    given = facts.bias_is_given
    centered = facts.noted("centered")
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
        group = _group_apart(facts.run, one.kind, facts.burnin)
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
    if not len(excess) or np.abs(excess).max() <= MOST_OF_ONE:
        return ""
    worst = int(np.argmax(np.abs(excess)))
    return f"{off['group'].iloc[worst]} alone is off by {percent(excess[worst])}"


def _effective_size(facts: CertificateFacts) -> list[Row]:
    """The least effective sample size."""
    size = facts.effective_size
    limit = facts.limits["ess"]
    of = facts.nothing_to_compare
    if facts.numbers["ess_of"]:
        of = f"least, of {facts.numbers['ess_of']}{facts.without_predictions}"
    given = facts.limit_is_given("ess")
    return [_row("effective size", size, limit, size > limit, of, given)]


def _worst_r_hat(facts: CertificateFacts) -> list[Row]:
    """The worst R-hat of the quantities that walkers are compared by."""
    hat = facts.number("rhat")
    limit = facts.limits["rhat"]
    chance = facts.number("rhat_by_chance")
    good = _agreement(hat, limit, chance, facts.by_chance_of_one)

    of = facts.numbers["rhat_of"] or facts.nothing_to_compare
    if not math.isnan(hat):
        of = f"worst, of {facts.numbers['rhat_of']}{facts.without_predictions}"
        if good is None:
            most = chance if hat >= limit else facts.by_chance_of_one
            of += f"; chance gives up to {most:.3f}, store more positions"
        if facts.not_mixed:
            of += f"; {facts.not_mixed}"
    return [_row("R-hat", hat, limit, good, of, facts.limit_is_given("rhat"))]


def _r_hat_of_weights(facts: CertificateFacts) -> list[Row]:
    """R-hat of weights, which walkers are not compared by; none if it was not measured."""
    if WEIGHTS not in facts.numbers:
        return []

    drift = facts.number(WEIGHTS)
    most = facts.limits[WEIGHTS]
    of = f"worst, of {facts.numbers[f'{WEIGHTS}_of']}: each walker compared with itself"
    steady: bool | None = drift < most
    if steady and not facts.by_chance_of_one <= most:
        steady = None
        of += "; too few draws to tell"
    return [_row("R-hat of weights", drift, most, steady, of, facts.limit_is_given(WEIGHTS))]


def _walkers_apart(facts: CertificateFacts) -> list[Row]:
    """Walkers that alone raise R-hat, or that never came to the target."""
    hat = facts.number("rhat")
    limit = facts.limits["rhat"]
    good = _agreement(hat, limit, facts.number("rhat_by_chance"), facts.by_chance_of_one)
    apart = facts.numbers.get("spoiled_by", [])
    of = "no walker alone lifts R-hat" if hat > limit else "too few draws"
    if good:
        of = ""

    walkers, there = (
        {*table.loc[table["step"] > facts.burnin, "walker"]}
        for table in (facts.run.run_info, facts.rows)
    )
    if away := sorted(walkers - there):
        good = False
        apart = away
        of = f"{walker_names(away)}: never at the target since the burn-in"
    elif apart:
        good = None if good is None else False
        of = f"{walker_names(apart)}: R-hat is {facts.numbers['rhat_without']:.3f} without"
    elif len(there) < 2:
        good = None
        of = "a single walker"

    known = good if good or apart else None
    number = math.nan if known is None else float(len(apart))
    return [_row("walkers apart", number, 0.0, known, of)]


def _errors_of_averages(facts: CertificateFacts) -> list[Row]:
    """Standard errors of averages, if `until` asks for them."""
    found = []
    for one in (one for one in facts.conditions if one.name):
        value = float(facts.numbers.get("mcse", {}).get(one.name, math.nan))
        error = "standard error of the mean"
        small: bool | None = value < one.limit
        if small and not facts.effective_size >= FEWEST_EFFECTIVE:
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


def _divergences(facts: CertificateFacts) -> list[Row]:
    """Steps that were undone because they diverged, since the burn-in."""
    rows = facts.rows
    stopped = "stopped" in facts.manifest
    if stopped or "divergences" not in rows:
        note = "the run stopped" if stopped else "a run stops at the first one"
        return [_row("divergences", float(stopped), 0.0, not stopped, note)]

    early = rows[rows["step"] <= facts.burnin]
    before = float(early.groupby("walker")["divergences"].max().sum())
    count = float(rows.groupby("walker")["divergences"].max().sum()) - before
    note = f"steps undone, and {before:,.0f} in the burn-in"
    return [_row("divergences", count, 0.0, count == 0, note)]


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


def _burnin(facts: CertificateFacts) -> list[Row]:
    """The burn-in. It is inside where it ended by itself, or what a ladder has learnt was followed
    by draws that agree. One that was cut off before it had settled is unknown at best. One that
    was given is judged by the draws alone.
    """
    if facts.num_steps <= facts.own_burnin:
        note = _not_over(facts.manifest, facts.own_burnin)
        return [_row("burn-in", float(facts.num_steps), math.nan, False, note)]

    said = facts.manifest
    burnin = facts.burnin
    moved = _moved(facts.kept)
    found = burnin > 0 and "num_burnin_steps" not in facts.given
    most = int(said.get("until", {}).get("most", facts.options.get("num_steps", 0)))
    unsettled = said.get("burnin_open")
    late = found and (burnin >= latest_end(most) if unsettled is None else bool(unsettled))
    cut_by = said.get("burnin_cut", {}).get("by", "")

    good: bool | None = True
    note = "as given" if burnin else "none"
    if found:
        note = "ended by itself"
    if found and (late or cut_by):
        good, note = _cut(unsettled, facts.has_converged, cut_by)
    elif not found and math.isnan(moved):
        good = None
        note += "; too few rows, or rows with weights, to tell whether U still moves"
    if moved > _MOST_MOVED:
        good = False
        note += (
            f"; U of the first tenth of the rows is {moved:.0f} standard errors off: more burn-in"
        )
    steps = f"steps, {note}" if burnin else note
    return [_row("burn-in", float(burnin), math.nan, good, steps, not found)]


def _cut(unsettled: str | None, agreed: bool, cut_by: str) -> tuple[bool | None, str]:
    """Verdict and note of a burn-in that was over before it had settled.

    Args:
        unsettled: What had not settled; None in runs of an earlier version, which do not say it.
        agreed: Whether what was drawn since has converged.
        cut_by: What ended it, such as `max_time`; empty: the limit on the steps.

    Returns:
        The verdict, None for unknown, and the note.
    """
    since = ", but what was drawn since has converged" if agreed else ""
    if unsettled == LEARNT and not cut_by:
        return agreed, f"all that it may take; {NOT_SETTLED}{unsettled}{since}"
    if not unsettled and not cut_by:
        return False, "as long as it may be, and whether it had settled was not noted"
    note = "cut off before it had settled"
    if cut_by:
        note += f" by {cut_by}"
    if unsettled:
        note += f"; {NOT_SETTLED}{unsettled}"
    if unsettled and {*unsettled.split(", ")} <= {*FOR_SPEED}:
        return None, f"{note}, which costs steps, no more"
    return (None if agreed else False), note + since


Check = Callable[[CertificateFacts], list[Row]]

CONVERGENCE: tuple[Check, ...] = (
    _effective_size,
    _worst_r_hat,
    _r_hat_of_weights,
    _walkers_apart,
    _errors_of_averages,
)
"""The checks of what was drawn since the burn-in."""

CHECKS: tuple[Check, ...] = (
    _bias,
    _predicted_heating,
    _temperatures,
    *CONVERGENCE,
    _divergences,
    _burnin,
)
"""All checks, in the order of their rows. A new one is a function and an entry here."""
