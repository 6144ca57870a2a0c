"""The local learning coefficient: how fast the volume below a loss shrinks around a minimum."""

from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import is_short, monte_carlo_error
from tati_re.analysis.reweighting import exact_rows, sampled_energies
from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.runs.run import AnyRun
from tati_re.runs.selection import as_run, select_rows

_RESOLVED = 4.0
_UNLIKELY = 0.01
_FEWEST = 4


@front_door
def learning_coefficient(
    run: AnyRun, lowest_loss: float | None = None, burnin: int | None = None, thin: int = 1
) -> pd.DataFrame:
    """Estimates the local learning coefficient λ at each rung of a run around a minimum.

    A tether, or any other proper prior, must keep the run near the minimum. The distribution is
    exp(-nβ L - V'), with mean loss L, n examples, β the likelihood weight over T, and V' = V/T of
    the prior. The raw estimate is nβ (E[L] - L_0), which is P/2 for a regular model with P
    parameters.

    V' lowers the estimate if it confines a direction that L would confine. The first-order
    correction is Cov(nβ L, V'). It is added to all rungs if it exceeds four standard errors at one
    of them. For a quadratic potential with curvatures k and a tether of precision γ, the raw value
    is Σ s/2 with s = nβk/(nβk + γ). The corrected value is Σ (1 - (1 - s)²)/2. References: S.
    Watanabe, JMLR 14 (2013); E. Lau and others, The local learning coefficient (2308.12108).

    Args:
        run: The run, or its folder. It must use all data at each step, or `full_every`.
        lowest_loss: L_0, the mean loss at the minimum (for a function, its value). Default: None,
            the loss at the center of the tether.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many rows. Default: 1.

    Returns:
        One row per rung with a likelihood, the coldest first. The columns are `rung`,
        `effective_examples` (nβ), `energy, energy_error` (E[n L], which estimates -log Z by WBIC at
        β = 1/ln n), `raw, raw_error, correction, correction_error, coefficient, error,
        from_variance, from_variance_error, disagreement` and `short`. `disagreement` is the
        difference between both estimates beyond the correction, in standard errors, or 0. `short`
        marks chains below 50 autocorrelation times, whose errors are rough.

    Raises:
        InputError: The energies come from mini-batches, or no minimum is known.
    """
    run = as_run(run)
    rows = exact_rows(run, select_rows(run, burnin, thin, rung=None), "learning_coefficient")
    sampled = sampled_energies(run, rows)
    examples = run.manifest.dataset.num_examples or 1
    scale = examples if run.manifest.options.potential != "mean_loss" else 1
    lowest_loss = run.manifest.loss_at_center if lowest_loss is None else lowest_loss
    if lowest_loss is None:
        expected = "a run with a tether (option tether, prior Tether), or lowest_loss, the mean loss at the minimum"
        raise InputError(
            "The loss of the minimum is not known.",
            run.manifest.prior.prior,
            expected,
        )
    lowest = scale * lowest_loss
    strengths = sampled.inverse_temperatures * sampled.likelihood_weights
    lines = list[dict[str, Any]]()
    added = False
    for rung, (likelihood, penalty) in enumerate(
        zip(sampled.likelihood, sampled.penalty, strict=True)
    ):
        if not (strength := strengths[rung]) > 0:
            continue
        reduced = strength * (likelihood - lowest)
        held = sampled.inverse_temperatures[rung] * penalty
        estimates = coefficient_estimates(reduced, held)
        added |= estimates["correction"] > _RESOLVED * estimates["correction_error"]
        energies = likelihood * (examples / scale)
        line = {"rung": rung, "effective_examples": strength * scale, "energy": energies.mean()}
        line |= {"energy_error": monte_carlo_error(energies)} | estimates
        lines.append(line | {"short": is_short(likelihood)})
    table = pd.DataFrame(lines)
    # Of all rungs or of none: a curve through both kinds would bend.
    return table if added else table.assign(coefficient=table["raw"], error=table["raw_error"])


@front_door
def coefficient_estimates(reduced: np.ndarray, penalty: np.ndarray) -> dict[str, float]:
    """Estimates a learning coefficient from draws at one nβ, as `learning_coefficient` does.

    Args:
        reduced: nβ (L - L_0) of the draws, `(chains, draws)`.
        penalty: V' = V/T of the prior or tether, in the same shape.

    Returns:
        `raw, raw_error, correction, correction_error, coefficient` (their sum), `error`,
        `from_variance, from_variance_error, disagreement`. Errors are standard errors.

    Raises:
        InputError: A chain has fewer than 4 draws.
    """
    deviations = reduced - reduced.mean()
    product = deviations * (penalty - penalty.mean())
    squares = deviations**2
    raw = float(reduced.mean())
    correction = float(product.mean())
    return {
        "raw": raw,
        "raw_error": monte_carlo_error(reduced),
        "correction": correction,
        "correction_error": monte_carlo_error(product),
        "coefficient": raw + correction,
        "error": monte_carlo_error(reduced + product),
        "from_variance": float(squares.mean()),
        "from_variance_error": monte_carlo_error(squares),
        "disagreement": _disagreement(reduced - squares, product),
    }


def _disagreement(gaps: np.ndarray, product: np.ndarray) -> float:
    """Standard errors by which mean and variance differ beyond what the tether explains.

    `gaps` are the terms of their difference, `product` those of the correction, `(chains, draws)`
    each. Around a minimum of power 2k the difference is the correction over k: some of it, not more.
    """
    beyond = gaps - product
    if gaps.mean() < 0:
        return float(gaps.mean() / monte_carlo_error(gaps))
    if beyond.mean() > 0:
        return float(beyond.mean() / monte_carlo_error(beyond))
    return 0.0


@front_door
def learning_curve(table: pd.DataFrame, largest_multiplicity: int = 4) -> pd.DataFrame:
    """Fits the learning coefficient λ and the multiplicity m to the estimates along a ladder.

    With t = ln(nβ), an estimate is λ - (m - 1)/(t + c) for m above 1, and λ + c/(nβ) for m = 1.
    Both hold at large nβ, so hot rungs are left out one by one until one of the curves fits
    (p-value of χ² at least 1 %). Rungs are treated as independent.

    Args:
        table: The table from `learning_coefficient`, with at least four rungs.
        largest_multiplicity: Largest m to try, at most P. Default: 4.

    Returns:
        One row per m, the most likely first: `multiplicity, coefficient, error, offset` (c),
        `chi_squared, rungs`. If χ² of two rows differs by less than 6, the data do not determine
        the multiplicity.

    Raises:
        InputError: There are fewer than four rungs.
    """
    from scipy.stats import chi2

    refuse_if(
        len(table) < _FEWEST,
        "A learning curve needs rungs to fit.",
        f"{len(table)}",
        f"at least {_FEWEST}",
    )
    ordered = table.sort_values("effective_examples", ascending=False)
    columns = [
        ordered[name].to_numpy(np.float64)
        for name in ("effective_examples", "coefficient", "error")
    ]
    for count in range(len(ordered), _FEWEST - 1, -1):
        points = [column[:count] for column in columns]
        fits = pd.DataFrame([_fitted(m, *points) for m in range(1, largest_multiplicity + 1)])
        if chi2.sf(fits["chi_squared"].min(), count - 2) > _UNLIKELY:
            break
    return fits.sort_values("chi_squared", kind="stable").reset_index(drop=True)


def _fitted(
    multiplicity: int, examples: np.ndarray, values: np.ndarray, errors: np.ndarray
) -> dict[str, Any]:
    from scipy.optimize import least_squares

    t = np.log(examples)

    def residuals(x: np.ndarray) -> np.ndarray:
        return (curve_value(multiplicity, x[0], x[1], examples) - values) / errors

    least = -np.inf if multiplicity == 1 else 0.5 - t.min()
    fit = least_squares(
        residuals, [values[0], max(0, least + 1)], bounds=([-np.inf, least], np.inf), x_scale="jac"
    )
    spread = np.linalg.pinv(fit.jac.T @ fit.jac)[0, 0]
    line = {
        "multiplicity": multiplicity,
        "coefficient": fit.x[0],
        "error": float(np.sqrt(spread)),
    }
    return line | {"offset": fit.x[1], "chi_squared": float(2 * fit.cost), "rungs": len(values)}


def curve_value(
    multiplicity: int, coefficient: float, offset: float, examples: np.ndarray
) -> np.ndarray:
    """The fitted curve of `learning_curve`.

    Args:
        multiplicity: m, at least 1.
        coefficient: λ.
        offset: c.
        examples: nβ, shape (n,).

    Returns:
        Estimates of the learning coefficient, shape (n,).
    """
    if multiplicity == 1:
        return coefficient + offset / examples
    return coefficient - (multiplicity - 1) / (np.log(examples) + offset)
