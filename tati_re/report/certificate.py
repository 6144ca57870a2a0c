"""The certificate of a run, how far it may be off beside what was asked for, and what heats it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.averages import energy_error
from tati_re.analysis.convergence import MINIMUM_DRAWS, chains_of, effective_sample_size
from tati_re.analysis.format import percent
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
    steps_left,
    walker_names,
    within_chains,
)
from tati_re.core.errors import InputError
from tati_re.prediction.quantities import quantities
from tati_re.report.verdicts import (
    ABOVE,
    BAND,
    COUNT,
    FAILED,
    PASSED,
    SHARE,
    STEPS,
    Certificate,
    CheckResult,
    check_result,
)
from tati_re.runs.manifest import sees_batches
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import as_run, at_target, burnin_of, is_optimization
from tati_re.samplers.choosing import latest_end
from tati_re.samplers.wrappers.metered import BAND as FACTOR_OF_TUNING
from tati_re.samplers.wrappers.metered import error_of_bias
from tati_re.samplers.wrappers.tuner import FOR_SPEED, LEARNT, NOT_SETTLED

_NOT_YET = "no draws yet"
_STILL = "U never changes"
_FACTOR = 1.5  # How far the prediction and a measured temperature may differ.
_SLOW = "not in equilibrium yet, or the steps are large for the stiffest direction; take more burn-in, or reduce step_size"


def heating_lines(manifest: dict[str, Any]) -> list[tuple[str, str]]:
    """The line of the summary below the measured temperatures; none for full batches."""
    heating = latest(manifest)
    if not heating:
        return []
    if "not_predicted" in heating:
        return [("expected heating", f"not predicted; {heating['not_predicted']}")]
    kinetic = "" if math.isnan(heating["kinetic"]) else f", kinetic + {percent(heating['kinetic'])}"
    text = (
        f"by mini-batch noise: {percent(heating['slowest'])} in the slowest directions, {percent(heating['stiffest'])} in "
        f"the stiffest, {percent(heating['mean'])} in all; configurational temperature + {percent(heating['virial'])}"
    )
    return [("expected heating", text + kinetic)]


def why_hot(manifest: dict[str, Any], kind: str, excess: float) -> str:
    """What can have raised a temperature by so much, and what helps."""
    if not sees_batches(manifest):
        return _SLOW
    heating = latest(manifest)
    expected = heating.get("virial" if kind == "configurational" else "kinetic")
    if expected is None:
        return (
            "not in equilibrium yet, or the steps are large for the stiffest direction, or mini-batch noise heats, "
            "which was not predicted; take more burn-in, smaller steps or larger batches"
        )
    cause = f"mini-batch noise was expected to raise it by {percent(expected)}"
    if expected * _FACTOR < excess:
        return f"{cause} only; {_SLOW}"
    if kind == "configurational" and heating["mean"] * _FACTOR < expected:
        cause += (
            f", and the temperature of the positions by {percent(heating['mean'])} (within a sweep the virial also contains "
            "correlations between batches)"
        )
    return f"{cause}; reduce it by smaller steps, larger batches or more friction"


def latest(manifest: dict[str, Any]) -> dict[str, Any]:
    heating = manifest.get("heating", {})
    return heating.get("end") or heating.get("start") or {}


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
TARGET_BIAS = 0.02
OF_PREDICTIONS = {"rhat": 1.05, "ess": 100.0}
"""Limits of a run for prediction, within each chain: an average over 100 independent draws is off by
a tenth of the spread of the draws.
"""
_STEP_SIZE_BIAS = "bias from the step size"
_HEATING = "mini-batch heating"
_VERDICTS_OF_BANDS = {"too short": "the run is too short"}


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
        """The fact that chains stay in separate modes; empty if they agree, or are compared."""
        between = self.number("rhat_between")
        if not (self.predicts and between > self.limits["rhat"]):
            return ""
        chains = self.rows["walker"].nunique()
        return (
            f"chains have not mixed across modes (R-hat {between:.3g} between them); predictions are a "
            f"mixture of {chains} chains"
        )

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
        return all(row.verdict == PASSED for row in rows)


def certificate(run: RunFiles, burnin: int | None = None) -> Certificate:
    """What a sampled run certifies, a row for each check: see `Run.certificate`.

    Args:
        run: The run, or its folder.
        burnin: Steps to leave out. Default: the burn-in of the run.

    Returns:
        The outcomes of all `CHECKS`.

    Raises:
        InputError: A fit, or a run without rows.
    """
    run = as_run(run)
    rows = run.run_info
    if rows.empty and "burnin_cut" in run.manifest:
        return Certificate.of(_nothing_drawn(run.manifest, last_step(run, 0)))
    if rows.empty and run.manifest.get("kind") != "fit":
        raise InputError(
            f"The run has no rows yet: it ended at step {last_step(run, 0):,}, before the first one.",
            run.folder,
            "a run with at least one row; Simulation.resume continues it",
        )
    if is_optimization(run.manifest, rows):
        raise InputError(
            "A fit has no certificate: it looks for a minimum.", run.folder, "a run that sampled"
        )

    facts = CertificateFacts(run, at_target(rows), burnin_of(run, burnin))
    return Certificate.of([one for check in CHECKS for one in check(facts)])


def widths_note(run: RunFiles) -> str:
    """Reports widths of coordinates too different for one step size and any mass; else empty."""
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
    """The checks of a run's certificate that failed, in words.

    Args:
        run: The run.

    Returns:
        A text for each failed check, such as `R-hat 1.08 (limit < 1.01)`; none for those that were
        not measured.
    """
    failed = [one for one in certificate(run).results if one.verdict == FAILED]
    texts = []
    for one in failed:
        limit = f"(limit {one.limit_text})" if one.limit_text else ""
        texts.append(" ".join(filter(None, [one.check, one.value_text, limit])))
    spread = widths_note(run) if failed else ""
    return [spread, *texts] if spread else texts


def _not_over(manifest: dict[str, Any], burnin: int) -> str:
    """The remark on a burn-in, of so many steps at most, during which the run ended."""
    cut = manifest.get("burnin_cut")
    how = "not over" if cut is None else f"cut off by {cut['by']}"
    return f"{how}, of up to {burnin:,} steps; {_NOT_YET}"


def _nothing_drawn(manifest: dict[str, Any], step: int) -> list[CheckResult]:
    """The outcomes of a run that was cut off in its burn-in, before the first row of a table."""
    names = ("R-hat", "ESS", _STEP_SIZE_BIAS)
    results = [check_result(name, math.nan, math.nan, None, remark=_NOT_YET) for name in names]
    burnin = int(manifest.get("options", {}).get("num_burnin_steps") or 0)
    return [*results, _burnin_not_over(manifest, burnin, step)]


def _burnin_not_over(manifest: dict[str, Any], burnin: int, step: int) -> CheckResult:
    return check_result(
        "burn-in",
        float(step),
        math.nan,
        False,
        form=STEPS,
        remark=_not_over(manifest, burnin),
        advice="resume the run",
    )


def _errors_of_rows(kept: pd.DataFrame, begin: int) -> np.ndarray:
    """The energy error that each row adds to the sum of its walker since the burn-in."""
    sums = kept.assign(sum=kept["eevpd"] * (kept["step"] - begin)).groupby("walker")["sum"]
    return sums.diff().dropna().to_numpy()


def _num_errors(kept: pd.DataFrame, begin: int) -> int:
    """How many rows have energy errors of their own, over all walkers; 0 if none is metered."""
    if "eevpd" not in kept:
        return 0
    return int(np.count_nonzero(_errors_of_rows(kept, begin) > 0))


def _rare(manifest: dict[str, Any], kept: pd.DataFrame, begin: int) -> float:
    """The share of the energy error since the burn-in that a hundredth of the rows has; 0 if not
    each step, or that of each walker at one temperature, is metered; nan if rows are few.
    """
    sampler = manifest.get("options", {}).get("sampler")
    if sampler != "MCLMC" or "rung" in kept or "eevpd" not in kept:
        return 0.0
    errors = np.sort(_errors_of_rows(kept, begin))[::-1]
    if len(errors) < _ROWS_OF_RARE or not errors.sum() > 0:
        return math.nan
    return float(errors[: len(errors) // 100].sum() / errors.sum())


def _bias(facts: CertificateFacts) -> list[CheckResult]:
    """The bias of the step size, from the energy error."""
    kept = facts.kept
    limit = facts.target_bias
    given = facts.bias_is_given

    def outcome(value: float, passed: bool | None, remark: str) -> list[CheckResult]:
        return [
            check_result(
                _STEP_SIZE_BIAS, value, limit, passed, form=SHARE, remark=remark, given=given
            )
        ]

    if _is_exact(facts.manifest, kept):
        return outcome(0.0, True, "exact: Metropolis test on all data")

    error = energy_error(kept) if "eevpd" in kept and len(kept) else math.nan
    if not math.isfinite(error):
        unmetered = "energy errors were not recorded; set step_size auto"
        return outcome(math.nan, None, unmetered if len(kept) else _NOT_YET)

    if facts.manifest.get("first_order"):
        remark = "from energy errors; the scheme's O(h · friction) bias is not measured"
        return outcome(_bias_of(error), None, remark)
    return [_bound_of_bias(facts, error)]


def _is_exact(manifest: dict[str, Any], kept: pd.DataFrame) -> bool:
    """Whether a Metropolis test on all data removes the bias."""
    tested = "acceptance" in kept and "acceptance" not in manifest.get("observables", [])
    return tested and not sees_batches(manifest) and not manifest.get("method", {}).get("swap_bias")


def _bound_of_bias(facts: CertificateFacts, error: float) -> CheckResult:
    """The bound of the bias by the energy error, and what no bound covers."""
    limit = facts.target_bias
    allowed = FACTOR_OF_TUNING * error_of_bias(limit)
    bound = _bias_of(error)
    rare = _rare(facts.manifest, facts.kept, facts.own_burnin)
    enough = _num_errors(facts.kept, facts.own_burnin) >= _FEWEST_ERRORS

    remark = "upper bound, mean over all directions"
    details = "relative error of variances"
    passed: bool | None = error <= allowed
    if passed and (not enough or math.isnan(rare)):
        passed = None
        remark = "too few rows with energy errors"

    number = int(facts.manifest.get("parameters", {}).get("num", 0))
    if why := _unbounded(facts, rare):
        if passed:
            passed = None
            remark = f"a single direction may be off by any amount: {why}"
        else:
            details += f"; a single direction may be off by any amount: {why}"
    elif number > 1:
        details += f"; a single direction may be off by {percent(_bias_of(number * error))}"

    if limit < bound and passed:
        most = _bias_of(allowed)
        remark = f"accepted up to {percent(most)}: tuning is accurate to a factor of {FACTOR_OF_TUNING:g}"
    return check_result(
        _STEP_SIZE_BIAS,
        bound,
        limit,
        passed,
        form=SHARE,
        remark=remark,
        details=details,
        advice='reduce step_size, or set step_size="auto" with a longer burn-in',
        given=facts.bias_is_given,
    )


def _unbounded(facts: CertificateFacts, rare: float) -> str:
    """Why no bound covers a single direction; empty if one does.

    Args:
        facts: The facts.
        rare: The share of the energy error that a hundredth of the rows has.
    """
    unseen = float((facts.noted("convergence") or {}).get("unexplained", 0.0))
    if unseen > _MOST_UNSEEN:
        return (
            f"U jumps, or its gradient is wrong, on {percent(unseen)} of the lines between draws "
            "(HMC would show it)"
        )
    if rare > _MOST_RARE:
        return f"1 % of the rows have {100 * rare:.0f} % of the energy error, as in the neck of a funnel"
    return ""


def _bias_of(error: float) -> float:
    """β of EEVPD = 4β³/(1 + β)², which rises with β: there is one positive root."""
    roots = np.roots([4.0, -error, -2 * error, -error]) if error > 0 else np.zeros(1)
    return float(roots[np.argmin(abs(roots.imag))].real)


def _predicted_heating(facts: CertificateFacts) -> list[CheckResult]:
    """The predicted heating by mini-batch noise: its mean, and no direction above a tenth.

    Without mini-batches there is none to check.
    """
    limit = facts.target_bias
    given = facts.bias_is_given
    if not sees_batches(facts.manifest):
        return []

    heating = latest(facts.manifest)
    if "mean" not in heating:
        why = heating.get("not_predicted", "not predicted")
        return [check_result(_HEATING, math.nan, limit, None, form=SHARE, remark=why, given=given)]

    value = float(heating["mean"])
    single: dict[str, float] = {
        name: float(heating[name]) for name in ("slowest", "stiffest", "hottest") if name in heating
    }
    worst = max(single, key=lambda name: single[name], default="")
    details = f"{percent(heating.get('slowest', math.nan))} in the slowest directions"
    hides = bool(worst) and single[worst] > MOST_OF_ONE
    if worst and worst != "slowest":
        details += f", {percent(single[worst])} in the {worst}"

    remark = "predicted, mean over all directions"
    if hides and value <= limit:
        remark = f"predicted; {percent(single[worst])} in the {worst} directions (limit {percent(MOST_OF_ONE)})"
    passed: bool | None = value <= limit and not hides
    if any(math.isnan(one) for one in single.values()) and passed:
        passed = None
        remark = "the heating of single directions is not known"
    return [
        check_result(
            _HEATING,
            value,
            limit,
            passed,
            form=SHARE,
            remark=remark,
            details=details,
            advice="use larger batches, smaller steps or more friction",
            given=given,
        )
    ]


def _temperatures(facts: CertificateFacts) -> list[CheckResult]:
    """The measured temperatures, with that of positions about their means if known, and those of
    groups of parameters if recorded.
    """
    manifest = facts.manifest
    kept = facts.kept
    limit = facts.target_bias
    centered = facts.noted("centered")
    results = []
    for one in measured_temperatures(kept, int(manifest.get("parameters", {}).get("num", 0))):
        configurational = one.kind == "configurational"
        energies = kept[COLUMNS[one.kind]]
        free = configurational and nothing_confines(manifest)
        walled = configurational and has_no_target(manifest) and not free
        fixed = energies.std() <= 1e-6 * abs(energies.mean())  # momenta of a fixed length
        if walled or fixed:
            continue
        if free:
            excess = one.mean / one.target - 1
            results.append(
                check_result(
                    f"{one.kind} temperature",
                    excess,
                    limit,
                    None,
                    form=BAND,
                    remark="nothing confines U",
                    given=facts.bias_is_given,
                )
            )
            continue
        about = ""
        about_mean = one
        if configurational and centered:
            about_mean = one._replace(
                mean=centered["mean"], lower=centered["lower"], upper=centered["upper"]
            )
        if about_mean is not one and not one.half <= max(limit, about_mean.half):
            one = about_mean
            about = f"from {centered['num_draws']} draws, about their mean"
        results.append(_temperature(facts, one, about))
    return results


def _temperature(facts: CertificateFacts, one: Temperature, about: str) -> CheckResult:
    """A measured temperature against its target.

    Failed if it is further off than the limit and than chance allows; not measured if chance alone
    may reach further than the limit.

    Args:
        facts: The facts.
        one: The temperature.
        about: Which draws were used; empty for all rows.
    """
    limit = facts.target_bias
    excess = one.mean / one.target - 1
    passed: bool | None = None
    if one.tells:
        if one.half <= limit:
            passed = True
        if not one.in_band and abs(excess) > limit:
            passed = False

    remark = _VERDICTS_OF_BANDS.get(one.verdict, one.verdict)
    details = [about]
    if math.isfinite(one.half):
        remark = ""
        details.append(f"up to {percent(one.half)} expected by chance")
    if passed is None and math.isfinite(one.half) and limit > 0:
        times = (one.half / limit) ** 2
        remark = (
            f"up to {percent(one.half)} expected by chance; {times:,.2g} times as many draws needed"
        )
        details.pop()
    if passed is None and one.kind == "configurational" and not about:
        details.append("or coordinates that are about 0 on average")

    advice = "reduce step_size, or take more burn-in"
    if excess > 0:
        advice = why_hot(facts.manifest, one.kind, excess)
    if group := _group_apart(facts.run, one.kind, facts.burnin):
        passed = False
        remark = group
    return check_result(
        f"{one.kind} temperature",
        excess,
        limit,
        passed,
        form=BAND,
        remark=remark,
        details="; ".join(filter(None, details)),
        advice=advice,
        given=facts.bias_is_given,
    )


def _group_apart(run: RunFiles, kind: str, burnin: int) -> str:
    """The group of parameters that is furthest off, if it is off by more than a tenth and than
    chance allows; empty if none is, or groups were not recorded.
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


def _more_steps(facts: CertificateFacts, quantity: str, otherwise: str, name: str = "") -> str:
    """How many more steps a condition needs, as advice.

    Args:
        facts: The facts.
        quantity: Of the condition: "rhat", "ess", "rhat(weights)" or "mcse".
        otherwise: The advice if the number is not known.
        name: The column of "mcse". Default: none.
    """
    limit = facts.limits[quantity]
    if name:
        limit = next(one.limit for one in facts.conditions if one.name == name)
    numbers = {"mcse": {}, **facts.numbers}
    more = steps_left(Condition(quantity, name, limit), numbers, facts.num_steps - facts.burnin)
    if math.isfinite(more) and more > 0:
        return f"run about {more:,.0f} more steps"
    return otherwise


def _effective_size(facts: CertificateFacts) -> list[CheckResult]:
    """The least effective sample size."""
    size = facts.effective_size
    limit = facts.limits["ess"]
    remark = facts.nothing_to_compare
    if facts.numbers["ess_of"]:
        remark = f"least: {facts.numbers['ess_of']}{facts.without_predictions}"
    return [
        check_result(
            "ESS",
            size,
            limit,
            size > limit,
            form=ABOVE,
            remark=remark,
            advice=_more_steps(facts, "ess", "run longer"),
            given=facts.limit_is_given("ess"),
        )
    ]


def _worst_r_hat(facts: CertificateFacts) -> list[CheckResult]:
    """The worst R-hat of the quantities that walkers are compared by."""
    hat = facts.number("rhat")
    limit = facts.limits["rhat"]
    chance = facts.number("rhat_by_chance")
    passed = _agreement(hat, limit, chance, facts.by_chance_of_one)

    remark = facts.numbers["rhat_of"] or facts.nothing_to_compare
    if not math.isnan(hat):
        remark = f"worst: {facts.numbers['rhat_of']}{facts.without_predictions}"
        if passed is None:
            most = chance if hat >= limit else facts.by_chance_of_one
            remark = f"up to {most:.3f} expected by chance with so few draws; store more"
    return [
        check_result(
            "R-hat",
            hat,
            limit,
            passed,
            remark=remark,
            details=facts.not_mixed,
            advice=_more_steps(
                facts,
                "rhat",
                "the chains have not mixed: run longer, or add temperatures (num_replicas)",
            ),
            given=facts.limit_is_given("rhat"),
        )
    ]


def _r_hat_of_weights(facts: CertificateFacts) -> list[CheckResult]:
    """R-hat of weights, by which walkers are not compared; none if it was not measured."""
    if WEIGHTS not in facts.numbers:
        return []

    drift = facts.number(WEIGHTS)
    limit = facts.limits[WEIGHTS]
    remark = f"worst: {facts.numbers[f'{WEIGHTS}_of']}"
    steady: bool | None = drift < limit
    if steady and not facts.by_chance_of_one <= limit:
        steady = None
        remark = "too few draws"
    return [
        check_result(
            "R-hat of weights",
            drift,
            limit,
            steady,
            remark=remark,
            details="halves of each chain compared",
            advice=_more_steps(facts, WEIGHTS, "the weights still drift: run longer"),
            given=facts.limit_is_given(WEIGHTS),
        )
    ]


def _walkers_apart(facts: CertificateFacts) -> list[CheckResult]:
    """Chains that alone explain a high R-hat, or that never reached the target."""
    hat = facts.number("rhat")
    limit = facts.limits["rhat"]
    passed = _agreement(hat, limit, facts.number("rhat_by_chance"), facts.by_chance_of_one)
    outliers = facts.numbers.get("spoiled_by", [])
    remark = "no single chain explains the high R-hat" if hat > limit else "too few draws"
    if passed:
        remark = ""

    walkers, there = (
        {*table.loc[table["step"] > facts.burnin, "walker"]}
        for table in (facts.run.run_info, facts.rows)
    )
    advice = "run longer, or start these chains elsewhere (walker_start)"
    if away := sorted(walkers - there):
        passed = False
        outliers = away
        remark = f"{walker_names(away)}: never at the target temperature"
        advice = "run longer, or add rungs to the ladder"
    elif outliers:
        passed = None if passed is None else False
        remark = f"{walker_names(outliers)}: R-hat is {facts.numbers['rhat_without']:.3f} without"
    elif len(there) < 2:
        passed = None
        remark = "a single chain"

    known = passed if passed or outliers else None
    number = math.nan if known is None else float(len(outliers))
    return [
        check_result(
            "outlying chains", number, 0.0, known, form=COUNT, remark=remark, advice=advice
        )
    ]


def _errors_of_averages(facts: CertificateFacts) -> list[CheckResult]:
    """Standard errors of averages, if `until` asks for them."""
    results = []
    for one in (one for one in facts.conditions if one.name):
        value = float(facts.numbers.get("mcse", {}).get(one.name, math.nan))
        remark = ""
        small: bool | None = value < one.limit
        if small and not facts.effective_size >= FEWEST_EFFECTIVE:
            small = None
            remark = "rough: the effective sample size is too small"
        results.append(
            check_result(
                f"standard error of {one.name}",
                value,
                one.limit,
                small,
                remark=remark,
                advice=_more_steps(facts, "mcse", "run longer", one.name),
                given=True,
            )
        )
    return results


def _agreement(hat: float, limit: float, chance: float, of_one: float) -> bool | None:
    """Whether R-hat is below its limit. None if chance gives as much: above the limit by the
    worst of all quantities, below it if already one of them is above by chance.
    """
    if hat < limit:
        return True if of_one <= limit else None
    return None if hat < chance else False


def _divergences(facts: CertificateFacts) -> list[CheckResult]:
    """Diverged steps since the burn-in, which were undone."""
    rows = facts.rows
    advice = "reduce step_size"
    stopped = "stopped" in facts.manifest
    if stopped or "divergences" not in rows:
        remark = "the run stopped" if stopped else ""
        count = float(stopped)
        details = "" if stopped else "a run stops at the first one"
        return [
            check_result(
                "divergences",
                count,
                0.0,
                not stopped,
                form=COUNT,
                remark=remark,
                details=details,
                advice=advice,
            )
        ]

    early = rows[rows["step"] <= facts.burnin]
    before = float(early.groupby("walker")["divergences"].max().sum())
    count = float(rows.groupby("walker")["divergences"].max().sum()) - before
    details = f"steps undone; {before:,.0f} more in the burn-in"
    return [
        check_result(
            "divergences", count, 0.0, count == 0, form=COUNT, details=details, advice=advice
        )
    ]


def _moved(kept: pd.DataFrame) -> float:
    """By how many of its standard errors U of the first tenth of the rows is off that of the second
    half; nan if rows are few, or have weights. Source: J. Geweke, Bayesian Statistics 4 (1992),
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


def _burnin(facts: CertificateFacts) -> list[CheckResult]:
    """The burn-in.

    It passes if its tuning settled, or if what a ladder has learnt was followed by draws that
    agree. One that was cut off before its tuning settled is not measured at best. One that was
    given is judged by the draws alone.
    """
    if facts.num_steps <= facts.own_burnin:
        return [_burnin_not_over(facts.manifest, facts.own_burnin, facts.num_steps)]

    manifest = facts.manifest
    burnin = facts.burnin
    moved = _moved(facts.kept)
    ended_itself = 0 < burnin == facts.own_burnin and "num_burnin_steps" not in facts.given
    most = int(manifest.get("until", {}).get("most", facts.options.get("num_steps", 0)))
    unsettled = manifest.get("burnin_open")
    late = ended_itself and (burnin >= latest_end(most) if unsettled is None else bool(unsettled))
    cut_by = manifest.get("burnin_cut", {}).get("by", "")

    passed: bool | None = True
    remark = "as given" if burnin else ""
    advice = "run longer, so that the burn-in can settle"
    if ended_itself:
        remark = "ended when its tuning had settled"
    if ended_itself and (late or cut_by):
        passed, remark = _cut(unsettled, facts.has_converged, cut_by)
    elif not ended_itself and math.isnan(moved):
        passed = None
        remark = "too few rows, or rows with weights, to test whether U still drifts"
    if moved > _MOST_MOVED:
        passed = False
        remark = (
            f"mean U of the first 10 % differs from the second half by {moved:.0f} standard errors"
        )
        advice = "burn-in too short: increase num_burnin_steps"
    return [
        check_result(
            "burn-in",
            float(burnin),
            math.nan,
            passed,
            form=STEPS,
            remark=remark,
            advice=advice,
            given=not ended_itself,
        )
    ]


def _cut(unsettled: str | None, agreed: bool, cut_by: str) -> tuple[bool | None, str]:
    """Verdict and remark of a burn-in that was over before its tuning had settled.

    Args:
        unsettled: What had not settled; None in runs of an earlier version, which do not say it.
        agreed: Whether what was drawn since has converged.
        cut_by: What ended it, such as `max_time`; empty: the limit on the steps.

    Returns:
        The verdict, None for not measured, and the remark.
    """
    since = ", but the draws since then have converged" if agreed else ""
    if unsettled == LEARNT and not cut_by:
        return agreed, f"{NOT_SETTLED}{unsettled}{since}"
    if not unsettled and not cut_by:
        return False, "at its limit; whether its tuning had settled was not recorded"
    remark = "cut off early"
    if cut_by:
        remark += f" by {cut_by}"
    if unsettled:
        remark += f"; {NOT_SETTLED}{unsettled}"
    if unsettled and {*unsettled.split(", ")} <= {*FOR_SPEED}:
        return None, f"{remark} (costs efficiency, not accuracy)"
    return (None if agreed else False), remark + since


Check = Callable[[CertificateFacts], list[CheckResult]]

CONVERGENCE: tuple[Check, ...] = (
    _worst_r_hat,
    _effective_size,
    _r_hat_of_weights,
    _walkers_apart,
    _errors_of_averages,
)
"""The checks of what was drawn since the burn-in."""

CHECKS: tuple[Check, ...] = (
    *CONVERGENCE,
    _bias,
    _predicted_heating,
    _temperatures,
    _divergences,
    _burnin,
)
"""All checks, in the order of their rows. A new one is a function and an entry here."""
