"""The certificate of a run: how far it may be off, beside what was asked for."""

import math
from collections.abc import Callable, Mapping
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
    TOO_SHORT,
    Temperature,
    group_temperatures,
    has_no_target,
    measured_temperatures,
    nothing_confines,
)
from tati_re.analysis.until import (
    MCSE,
    WEIGHTS,
    Condition,
    steps_left,
    walker_names,
)
from tati_re.core.errors import InputError
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles, last_step
from tati_re.runs.selection import as_run, is_optimization
from tati_re.samplers.wrappers.metered import BAND as FACTOR_OF_TUNING
from tati_re.samplers.wrappers.metered import wanted_error
from tati_re.summary.facts import NOT_YET, RunFacts, computed_once, facts_of
from tati_re.summary.temperatures import why_hot
from tati_re.summary.verdicts import (
    ABOVE,
    BAND,
    COUNT,
    FAILED,
    NOT_MEASURED,
    PASSED,
    SHARE,
    STEPS,
    Certificate,
    CheckResult,
    check_result,
)
from tati_re.tuning.choosing import latest_end
from tati_re.tuning.tuner import (
    FOR_SPEED,
    FOR_SPEED_BEFORE,
    LEARNT,
    LEARNT_BEFORE,
    NOT_SETTLED,
)

_UNSURE = 0.25
"""Relative error of a predicted heating, from a few hundred examples at one place."""
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
_STEP_SIZE_BIAS = "bias from the step size"
_HEATING = "mini-batch heating"
_REASONS = {TOO_SHORT: "the run is too short"}


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
    manifest = run.manifest
    rows = run.run_info
    if rows.empty and manifest.burnin_cut is not None:
        return Certificate.of(_nothing_drawn(manifest, last_step(run, 0)))
    if rows.empty and not manifest.is_fit:
        raise InputError(
            f"The run has no rows yet: it ended at step {last_step(run, 0):,}, before the first one.",
            run.folder,
            "a run with at least one row; Simulation.resume continues it",
        )
    if is_optimization(manifest, rows):
        raise InputError(
            "A fit has no certificate: it looks for a minimum.", run.folder, "a run that sampled"
        )

    return Certificate.of(results_of(facts_of(run, burnin)))


def results_of(facts: RunFacts) -> tuple[CheckResult, ...]:
    """The outcomes of all `CHECKS` of a run that sampled and has rows, computed once."""
    return computed_once(
        facts.run,
        f"certificate after {facts.burnin}",
        lambda: tuple(result for check in CHECKS for result in check(facts)),
    )


def has_converged(facts: RunFacts) -> bool:
    """Whether all checks of convergence passed."""
    rows = [row for check in CONVERGENCE for row in check(facts)]
    return all(row.verdict == PASSED for row in rows)


def widths_note(run: RunFiles) -> str:
    """Reports widths of coordinates too different for one step size and any mass; else empty."""
    if run.manifest.is_fit:
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
    failed = [result for result in certificate(run).results if result.verdict == FAILED]
    texts = []
    for result in failed:
        limit = f"(limit {result.limit_text})" if result.limit_text else ""
        texts.append(" ".join(filter(None, [result.check, result.value_text, limit])))
    spread = widths_note(run) if failed else ""
    return [spread, *texts] if spread else texts


def _not_over(manifest: Manifest, burnin: int) -> str:
    """The remark on a burn-in, of so many steps at most, during which the run ended."""
    cut = manifest.burnin_cut
    how = "not over" if cut is None else f"cut off by {cut.by}"
    return f"{how}, of up to {burnin:,} steps; {NOT_YET}"


def _nothing_drawn(manifest: Manifest, step: int) -> list[CheckResult]:
    """The outcomes of a run that was cut off in its burn-in, before the first row of a table."""
    names = ("R-hat", "ESS", _STEP_SIZE_BIAS)
    remark = NOT_YET
    if manifest.has_fits_alone:
        remark = f"no chains: {manifest.why_without_draws}"
    results = [check_result(name, math.nan, math.nan, None, remark=remark) for name in names]
    return [*results, _burnin_not_over(manifest, manifest.options.num_burnin_steps or 0, step)]


def _burnin_not_over(manifest: Manifest, burnin: int, step: int) -> CheckResult:
    passed: bool | None = False
    remark = _not_over(manifest, burnin)
    if manifest.has_fits_alone:
        passed = None
        remark = f"{manifest.why_without_draws}; predictions use the fits alone"
    return check_result(
        "burn-in",
        float(step),
        math.nan,
        passed,
        form=STEPS,
        remark=remark,
        advice="resume the run",
    )


def _errors_of_rows(rows: pd.DataFrame, begin: int) -> np.ndarray:
    """The energy error that each row adds to the sum of its walker since the burn-in."""
    sums = rows.assign(sum=rows["eevpd"] * (rows["step"] - begin)).groupby("walker")["sum"]
    return sums.diff().dropna().to_numpy()


def _num_errors(rows: pd.DataFrame, begin: int) -> int:
    """How many rows have energy errors of their own, over all walkers; 0 if none is metered."""
    if "eevpd" not in rows:
        return 0
    return int(np.count_nonzero(_errors_of_rows(rows, begin) > 0))


def _rare(manifest: Manifest, rows: pd.DataFrame, begin: int) -> float:
    """The share of the energy error since the burn-in that a hundredth of the rows has; 0 if not
    each step, or that of each walker at one temperature, is metered; nan if rows are few.
    """
    if manifest.options.sampler != "MCLMC" or "rung" in rows or "eevpd" not in rows:
        return 0.0
    errors = np.sort(_errors_of_rows(rows, begin))[::-1]
    if len(errors) < _ROWS_OF_RARE or not errors.sum() > 0:
        return math.nan
    return float(errors[: len(errors) // 100].sum() / errors.sum())


def _bias(facts: RunFacts) -> list[CheckResult]:
    """The bias of the step size, from the energy error."""
    rows = facts.kept
    limit = facts.target_bias
    is_explicit = facts.bias_is_given

    def outcome(value: float, passed: bool | None, remark: str) -> list[CheckResult]:
        return [
            check_result(
                _STEP_SIZE_BIAS, value, limit, passed, form=SHARE, remark=remark, given=is_explicit
            )
        ]

    if _is_exact(facts.manifest, rows):
        return outcome(0.0, True, "exact: Metropolis test on all data")

    error = energy_error(rows) if "eevpd" in rows and len(rows) else math.nan
    if not math.isfinite(error):
        unmetered = "energy errors were not recorded; set step_size auto"
        return outcome(math.nan, None, unmetered if len(rows) else NOT_YET)

    if facts.manifest.first_order:
        remark = "from energy errors; the scheme's O(h · friction) bias is not measured"
        return outcome(_bias_of(error), None, remark)
    return [_bound_of_bias(facts, error)]


def _is_exact(manifest: Manifest, rows: pd.DataFrame) -> bool:
    """Whether a Metropolis test on all data removes the bias."""
    tested = "acceptance" in rows and "acceptance" not in manifest.observables
    return tested and not manifest.sees_batches and not manifest.method.swap_bias


def _bound_of_bias(facts: RunFacts, error: float) -> CheckResult:
    """The bound of the bias by the energy error, and what no bound covers."""
    limit = facts.target_bias
    number = facts.manifest.parameters.num
    directions = number if facts.bounds_each_direction else 1
    allowed = FACTOR_OF_TUNING * wanted_error(limit, directions)
    bound = _bias_of(directions * error)
    rare = _rare(facts.manifest, facts.kept, facts.own_burnin)
    enough = _num_errors(facts.kept, facts.own_burnin) >= _FEWEST_ERRORS

    of = "every single direction" if facts.bounds_each_direction else "mean over all directions"
    remark = f"upper bound, {of}"
    details = "relative error of variances"
    passed: bool | None = error <= allowed
    if passed and (not enough or math.isnan(rare)):
        passed = None
        remark = "too few rows with energy errors"

    if why := _unbounded(facts, rare):
        if passed:
            passed = None
            remark = f"a single direction may be off by any amount: {why}"
        else:
            details += f"; a single direction may be off by any amount: {why}"
    elif facts.bounds_each_direction:
        details += f"; on average at most {percent(_bias_of(error))}"
    elif number > 1:
        details += f"; a single direction may be off by {percent(_bias_of(number * error))}"

    if limit < bound and passed:
        most = _bias_of(directions * allowed)
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


def _unbounded(facts: RunFacts, rare: float) -> str:
    """Why no bound covers a single direction; empty if one does.

    Args:
        facts: The facts.
        rare: The share of the energy error that a hundredth of the rows has.
    """
    noted = facts.noted_convergence
    unseen = 0.0 if noted is None else noted.unexplained
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


def _predicted_heating(facts: RunFacts) -> list[CheckResult]:
    """The predicted heating by mini-batch noise: its mean, and no direction above a tenth.

    Without mini-batches there is none to check.
    """
    limit = facts.target_bias
    is_explicit = facts.bias_is_given
    if not facts.manifest.sees_batches:
        return []

    heating = facts.manifest.heating.latest
    if heating is None or heating.not_predicted is not None:
        why = "not predicted"
        if heating is not None and heating.not_predicted:
            why = heating.not_predicted
        return [
            check_result(_HEATING, math.nan, limit, None, form=SHARE, remark=why, given=is_explicit)
        ]

    value = heating.mean
    single = heating.of_single_directions()
    worst = max(single, key=lambda name: single[name], default="")
    details = f"{percent(heating.slowest)} in the slowest directions"
    hides = bool(worst) and single[worst] > MOST_OF_ONE
    if worst and worst != "slowest":
        details += f", {percent(single[worst])} in the {worst}"

    remark = "predicted, mean over all directions"
    if hides and value <= limit:
        remark = f"predicted; {percent(single[worst])} in the {worst} directions (limit {percent(MOST_OF_ONE)})"
    passed: bool | None = value <= limit and not hides
    if any(math.isnan(share) for share in single.values()) and passed:
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
            given=is_explicit,
        )
    ]


def _temperatures(facts: RunFacts) -> list[CheckResult]:
    """The measured temperatures, with that of positions about their means if known, and those of
    groups of parameters if recorded.
    """
    manifest = facts.manifest
    rows = facts.kept
    limit = facts.target_bias
    centered = facts.centered
    results = []
    for measured in measured_temperatures(rows, manifest.parameters.num):
        configurational = measured.kind == "configurational"
        energies = rows[COLUMNS[measured.kind]]
        free = configurational and nothing_confines(manifest)
        walled = configurational and has_no_target(manifest) and not free
        fixed = energies.std() <= 1e-6 * abs(energies.mean())  # momenta of a fixed length
        if walled or fixed:
            continue
        if free:
            excess = measured.mean / measured.target - 1
            results.append(
                check_result(
                    f"{measured.kind} temperature",
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
        about_mean = measured
        if configurational and centered is not None:
            about_mean = measured._replace(
                mean=centered.mean, lower=centered.lower, upper=centered.upper
            )
        if (
            centered is not None
            and about_mean is not measured
            and not measured.half <= max(limit, about_mean.half)
        ):
            measured = about_mean
            about = f"from {centered.num_draws} draws, about their mean"
        results.append(_temperature(facts, measured, about))
    if facts.predicts:
        # Predictions rest on the other checks: noise that hides a temperature says nothing of them.
        return [result for result in results if result.verdict != NOT_MEASURED]
    return results


def _beyond_positions(manifest: Manifest, kind: str, limit: float) -> float:
    """The part of the heating by mini-batch noise that raises a meter, and not the positions.

    Over a sweep the noise of the batches sums to zero: positions, which are slow, average it. The
    momenta and the virial follow each batch.

    Args:
        manifest: The manifest.
        kind: `"kinetic"` or `"configurational"`.
        limit: The largest heating of the positions that is allowed.

    Returns:
        A relative rise; 0 if none was predicted, or the positions are too hot as well.
    """
    heating = manifest.heating.latest
    if not manifest.sees_batches or heating is None or not heating.mean <= limit:
        return 0.0
    expected = heating.virial if kind == "configurational" else heating.kinetic
    beyond = expected - heating.mean
    return beyond if beyond > 0 else 0.0


def _temperature(facts: RunFacts, measured: Temperature, about: str) -> CheckResult:
    """A measured temperature against its target, without what mini-batch noise adds to the meter
    alone.

    Failed if it is further off than the limit and than chance allows; not measured if chance alone
    may reach further than the limit.

    Args:
        facts: The facts.
        measured: The temperature.
        about: Which draws were used; empty for all rows.
    """
    limit = facts.target_bias
    excess = measured.mean / measured.target - 1
    beyond = _beyond_positions(facts.manifest, measured.kind, limit)
    of_positions = excess - beyond
    allowed = limit + _UNSURE * beyond
    passed: bool | None = None
    if measured.tells:
        if measured.half <= limit and (abs(of_positions) <= allowed or not beyond):
            passed = True
        in_band = abs(of_positions) <= measured.half if beyond else measured.in_band
        if not in_band and abs(of_positions) > allowed:
            passed = False

    remark = _REASONS.get(measured.reason, measured.reason)
    details = [about]
    if math.isfinite(measured.half):
        remark = ""
        details.append(f"up to {percent(measured.half)} expected by chance")
    if passed is None and math.isfinite(measured.half) and limit > 0:
        times = (measured.half / limit) ** 2
        remark = details.pop()
        details.append(f"{times:,.2g} times as many draws needed")
    if (
        passed is None
        and math.isfinite(measured.half)
        and measured.in_band
        and _exact_and_named(facts)
    ):
        passed = True
        details.pop()
        remark = f"within chance ({percent(measured.half)}); the sampler is exact"
    if passed is None and measured.kind == "configurational" and not about:
        details.append("or coordinates that are about 0 on average")

    if beyond:
        meter = "the virial" if measured.kind == "configurational" else "the momenta"
        details.append(
            f"measured {percent(excess)}, of which mini-batch noise adds {percent(beyond)} to {meter} "
            "and not to the positions (predicted)"
        )
    advice = "reduce step_size, or take more burn-in"
    if excess > 0:
        advice = why_hot(facts.manifest, measured.kind, excess)
    if group := _group_apart(facts.run, measured.kind, facts.burnin):
        passed = False
        remark = group
    return check_result(
        f"{measured.kind} temperature",
        of_positions,
        limit,
        passed,
        form=BAND,
        remark=remark,
        details="; ".join(filter(None, details)),
        advice=advice,
        given=facts.bias_is_given,
    )


def _exact_and_named(facts: RunFacts) -> bool:
    """Whether a Metropolis test makes a run of named parameters exact.

    A temperature then has no bias to show. R-hat and effective sizes of each parameter, its squares
    and its tails say whether the draws suffice.
    """
    named = bool(facts.manifest.parameters.supports)
    return named and _is_exact(facts.manifest, facts.kept)


def _group_apart(run: RunFiles, kind: str, burnin: int) -> str:
    """The group of parameters that is furthest off, if it is off by more than a tenth and than
    chance allows; empty if none is, or groups were not recorded.
    """
    try:
        groups = group_temperatures(run, "tensor", burnin)
    except InputError:  # a run that recorded none
        return ""
    off = groups[(groups["temperature"] == kind) & (groups["verdict"] == FAILED)]
    excess = (off["mean"] / off["target"] - 1).to_numpy()
    if not len(excess) or np.abs(excess).max() <= MOST_OF_ONE:
        return ""
    worst = int(np.argmax(np.abs(excess)))
    return f"{off['group'].iloc[worst]} alone is off by {percent(excess[worst])}"


def _more_steps(facts: RunFacts, quantity: str, otherwise: str, name: str = "") -> str:
    """How many more steps a condition needs, as advice.

    Args:
        facts: The facts.
        quantity: Of the condition: "rhat", "ess", "rhat(weights)" or "mcse".
        otherwise: The advice if the number is not known.
        name: The column of "mcse". Default: none.
    """
    limit = facts.limits.get(quantity, math.nan)
    if name:
        named = [
            condition
            for condition in facts.conditions
            if condition.name == name and condition.quantity == quantity
        ]
        limit = named[0].limit
    numbers: Mapping[str, Any] = {"mcse": {}, **facts.numbers.table}
    more = steps_left(Condition(quantity, name, limit), numbers, facts.num_steps - facts.burnin)
    if math.isfinite(more) and more > 0:
        return f"run about {more:,.0f} more steps"
    return otherwise


def _effective_size(facts: RunFacts) -> list[CheckResult]:
    """The least effective sample size."""
    size = facts.effective_size
    limit = facts.limits["ess"]
    remark = facts.nothing_to_compare
    if facts.numbers.ess_of:
        remark = f"least: {facts.numbers.ess_of}{facts.without_predictions}"
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


def _sizes_of_parameters(facts: RunFacts) -> list[CheckResult]:
    """The effective sample sizes of named parameters, if `until` asks for them."""
    results = []
    for condition in (
        condition
        for condition in facts.conditions
        if condition.quantity == "ess" and condition.name
    ):
        size = facts.numbers.sizes.get(condition.name, math.nan)
        known = None if math.isnan(size) else size > condition.limit
        results.append(
            check_result(
                f"ESS of {condition.name}",
                size,
                condition.limit,
                known,
                form=ABOVE,
                remark="least of values, squares and tails",
                advice=_more_steps(facts, "ess", "run longer", condition.name),
                given=True,
            )
        )
    return results


def _worst_r_hat(facts: RunFacts) -> list[CheckResult]:
    """The worst R-hat of the quantities that walkers are compared by."""
    hat = facts.numbers.rhat
    limit = facts.limits["rhat"]
    chance = facts.numbers.rhat_by_chance
    passed = _agreement(hat, limit, chance, facts.by_chance_of_one)

    remark = facts.numbers.rhat_of or facts.nothing_to_compare
    if not math.isnan(hat):
        remark = f"worst: {facts.numbers.rhat_of}{facts.without_predictions}"
        if passed is None:
            most = chance if hat >= limit else facts.by_chance_of_one
            remark = f"up to {most:.3f} expected by chance; store more"
    return [
        check_result(
            "R-hat",
            hat,
            limit,
            passed,
            remark=remark,
            details=facts.not_mixed,
            advice=_more_steps(facts, "rhat", _advice_on_mixing(facts)),
            given=facts.limit_is_given("rhat"),
        )
    ]


def _advice_on_mixing(facts: RunFacts) -> str:
    """What to do about a high R-hat whose end is not in sight."""
    if facts.predicts:
        return "chains have not settled yet: a larger max_time may improve predictions"
    return "the chains have not mixed: run longer, or add temperatures (num_replicas)"


def _r_hat_of_weights(facts: RunFacts) -> list[CheckResult]:
    """R-hat of weights, by which walkers are not compared; none if it was not measured."""
    drift = facts.numbers.rhat_of_weights
    # A run for prediction asks for predictions alone, whose R-hat is checked.
    is_asked = not facts.predicts or facts.limit_is_given(WEIGHTS)
    if drift is None or not is_asked:
        return []

    limit = facts.limits[WEIGHTS]
    remark = f"worst: {facts.numbers.name_of_weights}"
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


def _walkers_apart(facts: RunFacts) -> list[CheckResult]:
    """Chains that alone explain a high R-hat, or that never reached the target."""
    hat = facts.numbers.rhat
    limit = facts.limits["rhat"]
    passed = _agreement(hat, limit, facts.numbers.rhat_by_chance, facts.by_chance_of_one)
    outliers = list(facts.numbers.spoiled_by)
    remark = "no single chain explains R-hat" if hat > limit else "too few draws"
    if passed:
        remark = ""

    walkers, there = (
        {*table.loc[table["step"] > facts.burnin, "walker"]}
        for table in (facts.all_rows, facts.rows)
    )
    advice = "run longer, or start these chains elsewhere (walker_start)"
    if away := sorted(walkers - there):
        passed = False
        outliers = away
        remark = f"{walker_names(away)}: never at the target temperature"
        advice = "run longer, or add rungs to the ladder"
    elif outliers:
        passed = None if passed is None else False
        remark = f"{walker_names(outliers)}: R-hat is {facts.numbers.rhat_without:.3f} without"
    elif facts.predicts and not passed:
        # Each chain is compared with itself, and no single one is the reason.
        return []
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


def _errors_of_averages(facts: RunFacts) -> list[CheckResult]:
    """Standard errors of averages, if `until` asks for them."""
    results = []
    for condition in (condition for condition in facts.conditions if condition.quantity == MCSE):
        value = facts.numbers.mcse.get(condition.name, math.nan)
        remark = ""
        small: bool | None = value < condition.limit
        if small and not facts.effective_size >= FEWEST_EFFECTIVE:
            small = None
            remark = "rough: the effective sample size is too small"
        results.append(
            check_result(
                f"standard error of {condition.name}",
                value,
                condition.limit,
                small,
                remark=remark,
                advice=_more_steps(facts, "mcse", "run longer", condition.name),
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


def _divergences(facts: RunFacts) -> list[CheckResult]:
    """Diverged steps since the burn-in, which were undone."""
    rows = facts.rows
    advice = "reduce step_size"
    stopped = facts.manifest.stopped is not None
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


def _moved(rows: pd.DataFrame) -> float:
    """By how many of its standard errors U of the first tenth of the rows is off that of the second
    half; nan if rows are few, or have weights. Source: J. Geweke, Bayesian Statistics 4 (1992),
    169.
    """
    weighed = "weight" in rows and rows["weight"].nunique() > 1
    if weighed or rows.empty or rows.groupby("walker").size().min() < 10 * MINIMUM_DRAWS:
        return math.nan
    chains = chains_of(rows, "potential", -1)
    early = chains[:, : chains.shape[1] // 10]
    late = chains[:, chains.shape[1] // 2 :]
    error = late.std() * math.sqrt(
        (1 + late.shape[1] / early.shape[1]) / effective_sample_size(late, "mean")
    )
    return float(abs(early.mean() - late.mean()) / error)


def _burnin(facts: RunFacts) -> list[CheckResult]:
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
    ended_itself = 0 < burnin == facts.own_burnin and not manifest.is_explicit_option(
        "num_burnin_steps"
    )
    most = manifest.until.most or manifest.options.num_steps or 0
    unsettled = manifest.burnin_open
    late = ended_itself and (burnin >= latest_end(most) if unsettled is None else bool(unsettled))
    cut_by = "" if manifest.burnin_cut is None else manifest.burnin_cut.by

    passed: bool | None = True
    remark = "as given" if burnin else ""
    advice = "run longer, so that the burn-in can settle"
    if ended_itself:
        remark = "ended when its tuning had settled"
    if ended_itself and (late or cut_by):
        passed, remark = _cut(unsettled, has_converged(facts), cut_by)
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
    if unsettled in (LEARNT, LEARNT_BEFORE) and not cut_by:
        return agreed, f"{NOT_SETTLED}{unsettled}{since}"
    if not unsettled and not cut_by:
        return False, "at its limit; whether its tuning had settled was not recorded"
    remark = "cut off early"
    if cut_by:
        remark += f" by {cut_by}"
    if unsettled:
        remark += f"; {NOT_SETTLED}{unsettled}"
    if unsettled and {*unsettled.split(", ")} <= {*FOR_SPEED, *FOR_SPEED_BEFORE}:
        return None, f"{remark} (costs efficiency, not accuracy)"
    return (None if agreed else False), remark + since


_TEACHER = "equilibrium starts"


def _equilibrium_starts(facts: RunFacts) -> list[CheckResult]:
    """Agreement of chains from exact draws with chains from the usual starts, if asked for."""
    if facts.options.certify != "teacher":
        return []
    noted = facts.manifest.teacher
    advice = "a mode was missed, or chains are slow: add temperatures (num_replicas), or run longer"
    if noted is None or noted.why:
        remark = "compared when a run that was not resumed ends" if noted is None else noted.why
        return [check_result(_TEACHER, math.nan, math.nan, None, remark=remark)]

    passed: bool | None = None
    remark = f"up to {noted.by_chance:.3g} expected by chance at level {noted.level:g}; run longer"
    if noted.rhat >= noted.limit and noted.rhat > noted.by_chance:
        passed = False
    elif max(noted.rhat, noted.by_chance) < noted.limit:
        passed = True
    if passed is not None:
        remark = f"worst nested R-hat: {noted.rhat_of}"
    draws = "1 exact draw" if noted.draws == 1 else f"{noted.draws} independent exact draws"
    missed = percent(0.5**noted.draws)
    details = f"{draws}: a missed mode of half the mass stays unseen with probability {missed}"
    if noted.step != facts.num_steps:
        details += f"; compared at step {noted.step:,}"
    return [
        check_result(
            _TEACHER,
            noted.rhat,
            noted.limit,
            passed,
            remark=remark,
            details=details,
            advice=advice,
            given=True,
        )
    ]


Check = Callable[[RunFacts], list[CheckResult]]

CONVERGENCE: tuple[Check, ...] = (
    _worst_r_hat,
    _effective_size,
    _sizes_of_parameters,
    _r_hat_of_weights,
    _walkers_apart,
    _errors_of_averages,
)
"""The checks of what was drawn since the burn-in."""

CHECKS: tuple[Check, ...] = (
    *CONVERGENCE,
    _equilibrium_starts,
    _bias,
    _predicted_heating,
    _temperatures,
    _divergences,
    _burnin,
)
"""All checks, in the order of their rows. A new one is a function and an entry here."""
