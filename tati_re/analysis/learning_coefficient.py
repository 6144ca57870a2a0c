"""The local learning coefficient: how fast the volume below a loss shrinks around a minimum."""

from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.convergence import is_short, monte_carlo_error
from tati_re.analysis.reweighting import exact_rows, sampled_energies
from tati_re.core.errors import InputError, refuse_if
from tati_re.runs.run import AnyRun
from tati_re.runs.selection import as_run, select_rows

_RESOLVED = 4.0
_UNLIKELY = 0.01
_FEWEST = 4


def learning_coefficient(
    run: AnyRun, lowest_loss: float | None = None, burnin: int | None = None, thin: int = 1
) -> pd.DataFrame:
    """Local learning coefficient λ at each rung of a run that a tether, or any proper prior, keeps
    around a minimum.

    The distribution is exp(-nβ L - V'), with the mean loss L, n examples, β the likelihood weight
    over T, V' = V/T of the prior. The raw estimate is nβ (E[L] - L_0), P/2 in a regular model of P
    parameters. V' makes it smaller where it holds a direction that L would: to first order in its
    strength by Cov(nβ L, V'), which is added to all rungs where it is more than four of its
    standard errors at one. Of a quadratic potential with curvatures k about a tether of precision γ
    the raw value is Σ s/2, s = nβk/(nβk + γ), and the corrected one Σ (1 - (1 - s)²)/2. Reference:
    S. Watanabe, JMLR 14 (2013); E. Lau and others, The local learning coefficient (2308.12108).

    Args:
        run: The run, or its folder; on all of the data at each step, or with `full_every`.
        lowest_loss: L_0, the mean loss at the minimum (of a function, its value). Default: that at
            the tether's center.
        burnin: Steps to leave out. Default: the run's own burn-in.
        thin: Keep every so many rows. Default: 1.

    Returns:
        A row for each rung with a likelihood, the coldest first: `rung, effective_examples` (nβ),
        `energy, energy_error` (E[n L]: at β = 1/ln n the estimate WBIC of -log Z), `raw, raw_error,
        correction, correction_error, coefficient, error, from_variance, from_variance_error,
        disagreement` (of both estimates, beyond what the correction explains, in standard errors;
        0 if none) and `short` (chains below 50 autocorrelation times: the errors are rough).

    Raises:
        InputError: The energies are those of mini-batches, or no minimum is known.
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
        found = coefficient_estimates(reduced, held)
        added |= found["correction"] > _RESOLVED * found["correction_error"]
        energies = likelihood * (examples / scale)
        line = {"rung": rung, "effective_examples": strength * scale, "energy": energies.mean()}
        line |= {"energy_error": monte_carlo_error(energies)} | found
        lines.append(line | {"short": is_short(likelihood)})
    table = pd.DataFrame(lines)
    # Of all rungs or of none: a curve through both kinds would bend.
    return table if added else table.assign(coefficient=table["raw"], error=table["raw_error"])


def coefficient_estimates(reduced: np.ndarray, penalty: np.ndarray) -> dict[str, float]:
    """Estimates of a learning coefficient from draws at one nβ, as `learning_coefficient` has them.

    Args:
        reduced: nβ (L - L_0) of the draws, `(chains, draws)`.
        penalty: V' = V/T of the prior or tether, same shape.

    Returns:
        `raw, raw_error, correction, correction_error, coefficient` (their sum), `error`,
        `from_variance, from_variance_error, disagreement`. Errors are standard errors.

    Raises:
        InputError: Fewer than 4 draws a chain.
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


def learning_curve(table: pd.DataFrame, largest_multiplicity: int = 4) -> pd.DataFrame:
    """Fits learning coefficient λ and multiplicity m to the estimates along a ladder. With t =
    ln(nβ) an estimate is λ - (m - 1)/(t + c) for m above 1, and λ + c/(nβ) for m = 1. These hold at
    large nβ: hot rungs are left out, one by one, until one of them fits (χ² not less likely than 1
    %). Rungs are independent.

    Args:
        table: Of `learning_coefficient`, with at least four rungs.
        largest_multiplicity: The largest m that is tried; it is at most P. Default: 4.

    Returns:
        A row for each m, the likeliest first: `multiplicity, coefficient, error, offset` (c),
        `chi_squared, rungs`. Where χ² of two differ by less than 6 the multiplicity is not told
        apart.

    Raises:
        InputError: Fewer than four rungs.
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
    found = least_squares(
        residuals, [values[0], max(0, least + 1)], bounds=([-np.inf, least], np.inf), x_scale="jac"
    )
    spread = np.linalg.pinv(found.jac.T @ found.jac)[0, 0]
    line = {
        "multiplicity": multiplicity,
        "coefficient": found.x[0],
        "error": float(np.sqrt(spread)),
    }
    return line | {"offset": found.x[1], "chi_squared": float(2 * found.cost), "rungs": len(values)}


def curve_value(
    multiplicity: int, coefficient: float, offset: float, examples: np.ndarray
) -> np.ndarray:
    """The fitted curve at nβ = `examples`."""
    if multiplicity == 1:
        return coefficient + offset / examples
    return coefficient - (multiplicity - 1) / (np.log(examples) + offset)
