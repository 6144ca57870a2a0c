"""Expected acceptance between neighbors of a ladder and the number of rungs needed, from the spread
of the energies.

Two rungs of densities exp(-bE) with b = β, E = U (posterior tempering) or b = β λ, E = L
(likelihood tempering) are x = ∫ sd(E) db apart. Where E is Gaussian at each b and x small enough
for its spread not to change, the log ratio of a swap is N(-x², 2x²) and the Metropolis rule accepts
with probability erfc(x/2) (Predescu, Predescu and Ciobanu 2004). With the heat capacity C_V =
d⟨U⟩/dT = var(U)/T² that is x = ∫ √C_V dT/T.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import betainc, erfcinv, log_ndtr

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.rhat import split_rhat
from tati_re.core.views import html_table
from tati_re.exchange.ladder import Ladder

HOPELESS = 0.05
"""Below this acceptance of any pair, replicas hardly travel the ladder."""


@front_door
def spacing(acceptance):
    """Returns the spacing x at which neighbors exchange with a given probability erfc(x/2).

    It is 1.812, 1.466 and 1.190 for 0.2, 0.3 and 0.4.

    Args:
        acceptance: The probability, in (0, 1), of any shape.

    Returns:
        The spacing, above 0, in the shape of `acceptance`.
    """
    return 2.0 * erfcinv(acceptance)


def distances(coordinate, energy_sd) -> np.ndarray:
    """x of each pair of neighbors, shape (rungs - 1,).

    It is |Δb| times a mean of both standard deviations, s s' ln(s/s')/(s - s'). This is between
    harmonic and geometric mean: 1/s is linear in b between two rungs. It is exact for a
    harmonic well (s = √C_V/β, x = √C_V ln R), and for a Gaussian prior and likelihood of one shape.

    Args:
        coordinate: b, which is β or β λ, shape (rungs,).
        energy_sd: s, the standard deviation of U or of L, above 0, shape (rungs,).
    """
    first = energy_sd[:-1]
    second = energy_sd[1:]
    q = np.log(first / second)
    flat = np.abs(q) < 1e-8
    return (
        np.abs(np.diff(coordinate))
        * second
        * np.where(flat, 1.0, q / -np.expm1(-np.where(flat, 1.0, q)))
    )


def log_acceptance(distance):
    """ln erfc(x/2), without underflow."""
    return np.log(2.0) + log_ndtr(-np.asarray(distance) / np.sqrt(2.0))


def biased_sd(inverse_temperature, energy_sd, bias_factor: float):
    """The sd(U)/γ that stands for sd(U) at swaps between converged well-tempered ensembles.

    The log ratio is (β - β') (U - U')/γ, with var(U) = γ T² (C_V - 1 + γ) of a harmonic well.
    Thus T² C_V becomes T² ((C_V - 1)/γ + 1).

    Args:
        inverse_temperature: β, shape (rungs,).
        energy_sd: sd(U) without a bias, shape (rungs,).
        bias_factor: γ, at least 1.
    """
    return (
        np.sqrt((np.square(inverse_temperature * energy_sd) - 1.0) / bias_factor + 1.0)
        / inverse_temperature
    )


@front_door
def harmonic_acceptance(dimensions, ratio, bias_factor: float = 1.0):
    """Returns the exact Metropolis acceptance of two harmonic wells at temperature ratio R.

    It is 2 I_{1/(1+R)}(b, b) with b = (d/2 - 1)/γ + 1.

    Args:
        dimensions: d, the number of stiff directions.
        ratio: R, above 0.
        bias_factor: γ of converged well-tempered ensembles, at least 1. Default: 1, no bias.

    Returns:
        The acceptance, in the common shape of `dimensions` and `ratio`.
    """
    shape = (np.asarray(dimensions, np.float64) / 2 - 1) / bias_factor + 1
    return 2 * betainc(shape, shape, 1 / (1 + np.maximum(ratio, 1 / np.asarray(ratio, np.float64))))


@front_door
def spaced_evenly(
    coordinate, energy_sd, acceptance: float = 0.3, num_replicas: int | None = None
) -> np.ndarray:
    """Returns rungs between the same ends at which all neighbors exchange equally often.

    Args:
        coordinate: β (or β λ) of the rungs at which the spread was measured, `(rungs,)`.
        energy_sd: Standard deviation of the energies at these rungs, `(rungs,)`.
        acceptance: Smallest wanted acceptance of neighbors, in (0, 1). Default: 0.3.
        num_replicas: Number of rungs, at least 2, in place of `acceptance`. Default: None.

    Returns:
        The coordinate of the new rungs, `(num_replicas,)`.
    """
    total = distances(coordinate, energy_sd).sum()
    if num_replicas is None:
        num_replicas = 1 + max(1, int(np.ceil(total / spacing(acceptance) - 1e-9)))
    return _coordinates_at(coordinate, energy_sd, np.linspace(0.0, total, num_replicas))


def _coordinates_at(coordinate, energy_sd, distance) -> np.ndarray:
    """b at distances from the first rung; 1/s is linear in b within a pair, so that ln s is linear
    in the distance.
    """
    parts = distances(coordinate, energy_sd)
    reached = np.concatenate([[0.0], np.cumsum(parts)])
    pair = np.clip(np.searchsorted(reached, distance, side="right") - 1, 0, len(parts) - 1)
    fraction = np.clip((distance - reached[pair]) / parts[pair], 0.0, 1.0)
    q = np.log(energy_sd[:-1] / energy_sd[1:])[pair]
    flat = np.abs(q) < 1e-8
    safe = np.where(flat, 1.0, q)
    moved = np.where(flat, fraction, np.expm1(fraction * safe) / np.expm1(safe))
    return coordinate[pair] + moved * (coordinate[pair + 1] - coordinate[pair])


class Advice(NamedTuple):
    """The expected acceptance of a ladder, and ladders that would work.

    Attributes:
        acceptance: Expected acceptance of each pair of neighbors, `(rungs - 1,)`.
        num_replicas: Number of rungs between the same ends that reaches the wanted acceptance.
        coordinate: β, or β λ, of these rungs, `(num_replicas,)`.
        bias_factor: The smallest γ with which this ladder would work. None if no γ works, or none
            is needed.
        sentences: The advice in words.
    """

    acceptance: np.ndarray
    num_replicas: int
    coordinate: np.ndarray
    bias_factor: float | None
    sentences: tuple[str, ...]

    def _repr_html_(self) -> str:
        pairs = (
            (f"rungs {k} and {k + 1}", f"{value:.2g} accepted")
            for k, value in enumerate(self.acceptance)
        )
        return html_table(
            "Advice on a ladder", [*(("", sentence) for sentence in self.sentences), *pairs]
        )

    @property
    def hopeless(self) -> bool:
        """Whether some pair of neighbors would hardly ever exchange."""
        return bool(self.acceptance.min() < HOPELESS)


@front_door
def ladder_advice(
    ladder: Ladder,
    energy_sd=None,
    heat_capacity=None,
    dimensions: float | None = None,
    acceptance: float = 0.3,
    bias_factor: float = 1.0,
) -> Advice:
    """Returns expected acceptances, the number of rungs needed, and remedies for an impossible
    ladder.

    Pass exactly one of `energy_sd`, `heat_capacity` and `dimensions`.

    Args:
        ladder: A ladder of NumPy arrays with at least 2 rungs.
        energy_sd: Measured standard deviation of U, or of L for likelihood tempering; `(rungs,)` or
            one number.
        heat_capacity: var(U)/T², `(rungs,)` or one number.
        dimensions: Number of stiff directions d, with C_V = d/2; the number of parameters if
            nothing else is known.
        acceptance: The wanted acceptance, in (0, 1). Default: 0.3.
        bias_factor: γ of a well-tempered ensemble that the run already has. Default: 1, none.

    Returns:
        The advice.

    Raises:
        InputError: Not exactly one measure of spread is given, or values are out of range.
    """
    if sum(value is not None for value in (energy_sd, heat_capacity, dimensions)) != 1:
        raise InputError(
            "Advice needs the spread of the energies.",
            expected="energy_sd, heat_capacity or dimensions",
        )
    refuse_if(
        not 0 < acceptance < 1, "acceptance is out of range.", acceptance, "above 0 and below 1"
    )
    refuse_if(
        ladder.num_rungs < 2,
        "A ladder with one rung has no neighbors.",
        expected="at least 2 rungs",
    )
    tempers_posterior = ladder.tempering == "posterior"
    if energy_sd is None and not tempers_posterior:
        raise InputError("Likelihood tempering needs energy_sd, the spread of L on each rung.")
    beta = ladder.inverse_temperature
    capacity = dimensions / 2 if dimensions is not None else heat_capacity
    spread = np.sqrt(capacity) / beta if energy_sd is None else energy_sd
    sd = np.broadcast_to(np.asarray(spread, np.float64), beta.shape)
    if not (np.isfinite(sd).all() and (sd > 0).all()):
        raise InputError(
            "The spread of the energies is out of range.", spread, "above 0 on every rung"
        )
    coordinate = beta * ladder.likelihood_weight
    now = biased_sd(beta, sd, bias_factor) if tempers_posterior else sd
    pair_distances = distances(coordinate, now)
    proposed = spaced_evenly(coordinate, now, acceptance)
    helps = tempers_posterior and pair_distances.max() > spacing(acceptance)
    factor = _bias_factor(beta, sd, spacing(acceptance)) if helps else None
    advice = Advice(
        acceptance=np.exp(log_acceptance(pair_distances)),
        num_replicas=len(proposed),
        coordinate=proposed,
        bias_factor=factor,
        sentences=(),
    )
    return advice._replace(sentences=_sentences(ladder, advice, pair_distances, now, acceptance))


def _bias_factor(beta, sd, target_distance: float) -> float | None:
    """The least γ at which no pair is further apart than wanted; none where even γ → ∞ leaves one
    so, at ln R.
    """
    if np.abs(np.diff(np.log(beta))).max() >= target_distance:
        return None
    from scipy.optimize import brentq

    return float(
        np.exp(
            brentq(
                lambda ln: distances(beta, biased_sd(beta, sd, np.exp(ln))).max() - target_distance,
                0,
                60,
            )
        )
    )


def _sentences(
    ladder: Ladder, advice: Advice, pair_distances, sd, acceptance: float
) -> tuple[str, ...]:
    worst = int(np.argmax(np.round(pair_distances, 9)))
    rungs = ladder.num_rungs
    posterior = ladder.tempering == "posterior"
    symbol, values = ("T", ladder.temperature) if posterior else ("λ", ladder.likelihood_weight)
    pair = f"between {symbol} = {values[worst]:.4g} and {values[worst + 1]:.4g}"
    chance = _in_words(log_acceptance(pair_distances[worst]))
    if not advice.hopeless:
        first = f"Neighboring rungs are expected to exchange with probability {advice.acceptance.mean():.2f}"
        first += f", at worst {chance} {pair}."
        if advice.acceptance.min() >= acceptance:
            return (first,)
        return (
            first,
            f"{_ladder_in_words(advice, posterior)} would raise it to {acceptance:.2g} or "
            "more for all pairs.",
        )
    first = (
        f"Neighboring rungs {pair} would exchange with probability {chance}: replicas would "
        "not cross this ladder."
    )
    ways = [f"{_ladder_in_words(advice, posterior)} up to {symbol} = {values[-1]:.4g}"]
    coordinate = ladder.inverse_temperature * ladder.likelihood_weight
    reached = _coordinates_at(coordinate, sd, np.array([(rungs - 1) * spacing(acceptance)]))[0]
    if posterior:
        ratio = (ladder.inverse_temperature[0] / reached) ** (1 / (rungs - 1))
        ways.append(
            f"these {rungs} rungs up to T = {1 / reached:.4g} only (temperature_ratio {_ratio(ratio)})"
        )
        if advice.bias_factor is not None:
            factor = advice.bias_factor
            rounded_up = (
                f"{np.ceil(factor):,.0f}" if factor >= 10 else f"{np.ceil(factor * 10) / 10:.1f}"
            )
            ways.append(f"a well-tempered ensemble with bias_factor {rounded_up}")
        step = np.log(values[worst + 1] / values[worst])
        fewer = 2 * (spacing(acceptance) / step) ** 2
        ways.append(
            f"{fewer:,.0f} stiff directions instead of about {2 * (pair_distances[worst] / step) ** 2:,.0f}"
        )
    return first, f"For a probability of {acceptance:.2g}, use one of: {'; '.join(ways)}."


def _ladder_in_words(advice: Advice, posterior: bool) -> str:
    words = f"num_replicas {advice.num_replicas}"
    if not posterior:
        return f"{words}, with adapted weights,"
    ratios = advice.coordinate[:-1] / advice.coordinate[1:]
    low = _ratio(ratios.min())
    high = _ratio(ratios.max())
    return (
        f"{words} (temperature_ratio {low})"
        if low == high
        else f"{words} (temperature ratios {low} to {high})"
    )


def _ratio(ratio: float) -> str:
    digits = max(2, 2 - int(np.floor(np.log10(ratio - 1))))
    return f"{ratio:.{digits}f}"


def _in_words(log_value: float) -> str:
    """A probability from its logarithm as text, without underflow."""
    power = int(np.floor(log_value / np.log(10.0)))
    if power >= -2:
        return f"{np.exp(log_value):.2g}"
    return f"{np.exp(log_value - power * np.log(10.0)):.1f}e{power:03d}"


class ExchangeAdvice(NamedTuple):
    """Whether exchange is likely to pay, judged from a short run.

    Attributes:
        r_hat: Split R-hat of the quantity on which the walkers agree least.
        kept: Correlation of the walkers' means of this quantity between the first and the second
            half of the run.
        pays: True if the walkers stay apart, False if they agree, None if the run is too short.
        barrier: The barrier Λ of the ladder; None if its energies are unknown.
        sentence: The advice in words.
    """

    r_hat: float
    kept: float
    pays: bool | None
    barrier: float | None
    sentence: str


@front_door
def exchange_advice(chains, ladder: Ladder | None = None, energy_sd=None) -> ExchangeAdvice:
    """Judges from a short run of independent walkers whether replica exchange is likely to pay.

    If walkers from different starts disagree (R-hat above 1.4) and the disagreement persists from
    one half of the run to the other, a barrier separates them. A ladder may get around it. If they
    agree (below 1.1), there is nothing to gain, unless all of them miss the same mode, which their
    runs cannot show.

    Args:
        chains: U, predictions or other quantities, `(walkers, rows)` or `(walkers, rows,
            quantities)`, after a burn-in, with at least 4 walkers and 20 rows. Do not pass
            parameters of networks, because equivalent copies of a network differ in them.
        ladder: A ladder of NumPy arrays that was run briefly, for Λ = Σ x/√π. Default: None.
        energy_sd: Standard deviation of its energies at each rung, as for `ladder_advice`. Default:
            None.

    Returns:
        The advice.

    Raises:
        InputError: There are too few walkers or rows, numbers are not finite, or a ladder lacks its
            energies.
    """
    values = np.asarray(chains, np.float64)[(..., None) if np.ndim(chains) == 2 else ...]
    if values.ndim != 3 or len(values) < 4 or values.shape[1] < 20 or not np.isfinite(values).all():
        raise InputError(
            "Advice needs chains.",
            f"shape {values.shape}",
            "finite numbers, at least 4 walkers and 20 rows",
        )
    if (ladder is None) != (energy_sd is None):
        raise InputError(
            "Advice on a ladder needs the spread of its energies.", expected="ladder and energy_sd"
        )
    rows = values.shape[1] // 2
    means = values[:, : 2 * rows].reshape(len(values), 2, rows, -1).mean(2)
    r_hats = split_rhat(values)
    worst = int(r_hats.argmax())
    first, second = (means[:, half, worst] - means[:, half, worst].mean() for half in (0, 1))
    size = np.sqrt((first @ first) * (second @ second))
    worst_rhat = float(r_hats[worst])
    correlation = float(first @ second / size) if size else 0.0
    left = f"; {max(correlation, 0):.0%} of their differences remain from one half to the other"

    pays: bool | None
    if worst_rhat > 1.4 and correlation > 0.8:
        pays = True
        verdict = "is likely to pay"
        how = "stay apart"
    elif worst_rhat < 1.1:
        pays = False
        verdict = "is not likely to pay"
        how = "agree"
        left = ""
    else:
        pays = None
        verdict = "may or may not pay (the run is too short)"
        how = "do not agree yet"

    sentence = f"Exchange {verdict}: {len(values)} walkers {how} (R-hat {worst_rhat:.3g}{left})."
    size_of = None
    if ladder is not None:
        coordinate = ladder.inverse_temperature * ladder.likelihood_weight
        spread = np.broadcast_to(np.asarray(energy_sd, np.float64), coordinate.shape)
        size_of = float(distances(coordinate, spread).sum() / np.sqrt(np.pi))
        sentence += (
            f" The ladder's barrier is {size_of:.1f}; about {2 * size_of + 1:.0f} rungs cross "
            "it best."
        )
    return ExchangeAdvice(
        r_hat=worst_rhat, kept=correlation, pays=pays, barrier=size_of, sentence=sentence
    )
