"""Acceptance rules for replica swaps, from an estimate of the Metropolis ratio.

For replicas i and j on rungs with reduced potentials u, D = u_i(θ_i) + u_j(θ_j) - u_i(θ_j) -
u_j(θ_i) is the logarithm of the Metropolis ratio. A rule is exact when its acceptance A(D),
averaged over the noise of D, has ln A(D)/A(-D) = D.
"""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.ops import (
    as_float64,
    constant,
    exp,
    log,
    log1p,
    logistic,
    maximum,
    minimum,
    sqrt,
    sum_over,
)
from tati_re.core.protocol import attributes_of
from tati_re.exchange.compensation import (
    LARGEST_NOISE_VARIANCE,
    compensation_table,
    cumulative,
    quantile,
)
from tati_re.exchange.correction import Correction

OF_CORRECTION = (
    "correction_factor",
    "correction_decay",
    "correction_growth",
    "variance_gain",
    "variance_every",
)
"""Options of the rule that corrects in part."""

OPTIONS_OF_RULES = {
    "penalty": ("swap_variance",),
    "barker_compensated": ("swap_variance",),
    "corrected": ("swap_variance", *OF_CORRECTION),
    "naive": ("swap_variance",),
}
"""Options that a rule uses, by its name; others have none."""


@runtime_checkable
class SwapRule(Protocol):
    """The acceptance rule of a swap, as pure functions of float64 arrays (numpy or TensorFlow).

    Attributes:
        name: Name in options and tables.
        exact: Whether the rule needs exact energies of all data. Otherwise it uses an estimate with
            its variance.
        target_variance: σ*². The batch grows until the variance of the estimate is below it, or
            until it is all data and the variance is 0. `None`: a single mini-batch.
        biased: A sentence that describes the bias, or `None`.
    """

    name: str
    exact: bool = False
    target_variance: float | None = None
    biased: str | None = None

    def accept(self, log_ratio, variance, count, uniform, normal):
        """Decides whether two replicas swap.

        Args:
            log_ratio: Estimate of D, the log ratio of the swap; NaN refuses it.
            variance: Variance of its Gaussian noise; 0 if D is exact.
            count: Number of independent values that `variance` was estimated from, at least 2; large
                if it is known.
            uniform: Random numbers in (0, 1).
            normal: Standard normal random numbers.

        Returns:
            True for each accepted swap, in the shape of `log_ratio`.
        """

    def expected(self, log_ratio, variance, count):
        """Computes the acceptance probability: the mean of `accept` over its random numbers.

        Args:
            log_ratio: Estimate of D.
            variance: Variance of its Gaussian noise; 0 if D is exact.
            count: Number of independent values that `variance` was estimated from.

        Returns:
            Probabilities in [0, 1], in the shape of `log_ratio`.
        """

    def get_config(self) -> dict[str, Any]:
        """Returns plain values that define the rule; they are written to the manifest."""
        return {"swap_rule": self.name}


def _metropolis(log_ratio):
    return exp(minimum(as_float64(log_ratio), as_float64(0.0)))


def _log_odds(uniform):
    return log(uniform) - log1p(-uniform)


@front_doors
class Metropolis(SwapRule):
    """Metropolis' rule on noise-free energies of all data.

    Rule: accept with probability min(1, e^D). No exact rule on noise-free energies accepts more
    often (Peskun 1973).

    Examples:
        >>> float(Metropolis().expected(-1.0, 0.0, 1.0)).__round__(4)
        0.3679
    """

    name = "metropolis"
    exact = True

    def accept(self, log_ratio, variance, count, uniform, normal):
        return log(uniform) < log_ratio

    def expected(self, log_ratio, variance, count):
        return _metropolis(log_ratio)


@front_doors
class Barker(SwapRule):
    """Barker's rule on noise-free energies of all data.

    Rule: accept with probability 1/(1 + e^-D), that is when z + D > 0 for a logistic number z. Of
    swaps at one temperature half are accepted, where Metropolis accepts all.

    Source: Barker 1965.
    """

    name = "barker"
    exact = True

    def accept(self, log_ratio, variance, count, uniform, normal):
        return _log_odds(uniform) + log_ratio > 0

    def expected(self, log_ratio, variance, count):
        return logistic(as_float64(log_ratio))


@front_doors
class Penalty(SwapRule):
    """The penalty method: exact for Gaussian noise of any known variance.

    Rule: accept with probability a(D - V/2 - V²/(4(n+1)) - V³/(3(n+1)(n+3))), a(x) = min(1, e^x)
    and V the variance, estimated from n numbers. The shift V/2 makes up for the noise: under N(0,
    V), E a(D + noise - V/2) has the ratio e^D to that at -D for every a with a(x) = e^x a(-x).
    Barker's a(x) = 1/(1 + e^-x) is therefore exact in the same way (a remark of ours); it accepts
    less, half as often at D = 0 and V = 0. The two further terms bring the mean of e^-shift nearer
    to e^(-V/2) where V is an estimate; they vanish as n grows. They expand in V/n, good below 1/4.

    Source: Ceperley and Dewing 1999.

    Args:
        barker: Barker's form in place of Metropolis'. Default: False.
        target_variance: σ*² above 0 that the batch grows for; the acceptance at D = 0 is
            erfc(sqrt(V/8)), 0.62 at 1 and 0.32 at 4. `None` takes each batch as it comes. Default:
            1.

    Examples:
        >>> float(Penalty().expected(0.5, 1.0, 1e9)).__round__(4)
        1.0
    """

    name = "penalty"

    @front_door
    def __init__(self, barker: bool = False, target_variance: float | None = 1.0) -> None:
        self.barker = bool(barker)
        self.target_variance = _checked_target(target_variance)

    def accept(self, log_ratio, variance, count, uniform, normal):
        draw = _log_odds(uniform) if self.barker else -log(uniform)
        return draw + (log_ratio - self.penalty(variance, count)) > 0

    def expected(self, log_ratio, variance, count):
        shifted = as_float64(log_ratio) - self.penalty(as_float64(variance), as_float64(count))
        return logistic(shifted) if self.barker else _metropolis(shifted)

    def penalty(self, variance, count):
        """Computes the penalty that is subtracted from D to correct for its noise.

        Args:
            variance: Variance of the noise of D.
            count: Number of independent values that it was estimated from.

        Returns:
            The penalty, in the shape of `variance`.
        """
        small = variance**2 / (4.0 * (count + 1.0)) + variance**3 / (
            3.0 * (count + 1.0) * (count + 3.0)
        )
        return 0.5 * variance + small

    def get_config(self) -> dict[str, Any]:
        return {
            "swap_rule": self.name,
            "barker": self.barker,
            "target_variance": self.target_variance,
        }


@front_doors
class BarkerCompensated(SwapRule):
    """Barker's rule on noisy energies, with a random number that compensates for the noise.

    Rule: accept if z + sqrt(σ*² - V) R + D > 0. R is standard normal, and z has the compensation
    density of σ*². Together with the noise of D, z + sqrt(σ*² - V) R is a logistic number. The
    acceptance is Barker's for any variance, up to the error of the density: 1e-9 at σ*² = 0.2, 8e-6
    at 1. V must be known. If V exceeds σ*², nothing is added, and the rule is biased.

    Source: Luo et al. 2020, section 2.3; Seita et al. 2017.

    Args:
        target_variance: σ*² in (0, 1.05]. Default: 1, a large value with the smallest batch.
        series_terms: Number of terms of the published series, for comparison. Default: None, the
            density by quadrature.
        series_filter: λ of the series, `None` for ∞. Default: 10, as published.

    Raises:
        InputError: σ*² is out of range, or the series is not a density.
    """

    name = "barker_compensated"

    @front_door
    def __init__(
        self,
        target_variance: float = 1.0,
        series_terms: int | None = None,
        series_filter: float | None = 10.0,
    ) -> None:
        if not 0 < target_variance <= LARGEST_NOISE_VARIANCE:
            raise InputError(
                "swap_variance is out of range for 'barker_compensated'. Above "
                f"{LARGEST_NOISE_VARIANCE} the density that compensates the noise is "
                "negative in places, and swaps are biased. 'penalty' accepts any "
                "variance.",
                received=target_variance,
                expected=f"above 0, up to {LARGEST_NOISE_VARIANCE}",
            )
        self.target_variance = float(target_variance)
        self.series_terms = None if series_terms is None else int(series_terms)
        self.series_filter = None if series_filter is None else float(series_filter)
        if series_terms is not None:
            self.table  # noqa: B018 - a series that is no density is refused before work starts
            self.biased = (
                "The published series for the compensation density is truncated. At "
                "variance 0.2, filter 10 and 3 terms, acceptances are wrong by up to "
                "0.001."
            )

    @property
    def table(self):
        """The compensation density; made once, when first used."""
        return compensation_table(self.target_variance, self.series_terms, self.series_filter)

    def accept(self, log_ratio, variance, count, uniform, normal):
        return quantile(self.table, uniform) + self._width(variance) * normal + log_ratio > 0

    def expected(self, log_ratio, variance, count):
        log_ratio = as_float64(log_ratio)
        width = self._width(as_float64(variance))
        # Gauss-Hermite: the density has no frequency above 13, the rule is exact up to about sqrt(2
        # x 96).
        nodes, weights = np.polynomial.hermite_e.hermegauss(96)
        nodes = constant(nodes, log_ratio)
        weights = constant(weights / np.sqrt(2 * np.pi), log_ratio)
        below = cumulative(self.table, log_ratio[..., None] + width[..., None] * nodes)
        return sum_over(below * weights, -1)[..., 0]

    def _width(self, variance):
        return sqrt(maximum(self.target_variance - variance, as_float64(0.0)))

    def get_config(self) -> dict[str, Any]:
        return {
            "swap_rule": self.name,
            **attributes_of(self, "target_variance", "series_terms", "series_filter"),
        }


@front_doors
class Corrected(SwapRule):
    """The corrected swap of reSGLD: the penalty without its small-sample terms, divided by a
    factor.

    Rule: accept with probability min(1, e^(D - V/(2F))). F = 1 is exact for Gaussian noise of known
    variance. F > 1 accepts more and leaves a part of the noise uncorrected: the ratio of
    acceptances at D = 1 is e^0.80 for F = 2 at V = 2, instead of e. If `correction` changes the factor
    during a run, it divides V by the change, and F stays the initial factor.

    Source: Deng et al. 2020, eq. 10 to 12; V is the variance of D, (1/T_i - 1/T_j)² times the sum
    of the variances of two independent energies, or the variance of the paired difference if both
    use the same batch.

    Args:
        factor: F above 0. Default: 1.
        target_variance: σ*², above 0: the batch grows until V is at most σ*². Default: `None`, one
            mini-batch, as published.
        correction: How replica exchange averages V over swaps and changes the factor. Default: the
            mean of all estimates, as published, and a constant factor.
    """

    name = "corrected"

    @front_door
    def __init__(
        self,
        factor: float = 1.0,
        target_variance: float | None = None,
        correction: Correction | None = None,
    ) -> None:
        refuse_if(not factor > 0, "correction_factor: out of range.", factor, "above 0")
        self.factor = float(factor)
        self.target_variance = _checked_target(target_variance)
        self.correction = correction or Correction()
        if self.correction.varies:
            self.biased = (
                f"correction_decay {self.correction.decay:g} and correction_growth "
                f"{self.correction.growth:g} change correction_factor {self.factor:g} "
                "according to past swaps; swaps are exact only at 1."
            )
        elif self.factor != 1:
            part = "too small" if self.factor > 1 else "too large"
            self.biased = (
                f"correction_factor {self.factor:g} makes the correction for noisy "
                f"energies {part}: cold replicas sample energies that are "
                f"{'too high' if self.factor > 1 else 'too low'}; 1 is exact."
            )

    def accept(self, log_ratio, variance, count, uniform, normal):
        return log(uniform) < log_ratio - variance / (2.0 * self.factor)

    def expected(self, log_ratio, variance, count):
        return _metropolis(as_float64(log_ratio) - as_float64(variance) / (2.0 * self.factor))

    def get_config(self) -> dict[str, Any]:
        config = {
            "swap_rule": self.name,
            "factor": self.factor,
            "target_variance": self.target_variance,
        }
        return {**config, **self.correction.get_config()}


@front_doors
class Naive(SwapRule):
    """Metropolis' rule on noisy energies treated as exact: for comparison, never for results.

    Rule: accept with probability min(1, e^D). The noise lets hot replicas reach cold rungs, as if
    the temperatures were closer together.

    Args:
        target_variance: σ*² above 0, the variance to which the batch grows; None: it does not grow.
            Default: None.
    """

    name = "naive"
    biased = (
        "swap_rule 'naive' treats noisy energies as exact: cold replicas sample energies "
        "that are too high. Use 'penalty', or 'metropolis' on all data."
    )

    @front_door
    def __init__(self, target_variance: float | None = None) -> None:
        self.target_variance = _checked_target(target_variance)

    accept = Metropolis.accept
    expected = Metropolis.expected

    def get_config(self) -> dict[str, Any]:
        return {"swap_rule": self.name, "target_variance": self.target_variance}


def _checked_target(target_variance: float | None) -> float | None:
    if target_variance is not None and not target_variance > 0:
        raise InputError(
            "swap_variance: out of range.", received=target_variance, expected="above 0"
        )
    return None if target_variance is None else float(target_variance)


_RULES: tuple[Any, ...] = (Metropolis, Barker, Penalty, BarkerCompensated, Corrected, Naive)
SWAP_RULES: dict[str, Any] = {rule.name: rule for rule in _RULES}


@front_door
def make_swap_rule(
    name: str,
    swap_variance: float | None = None,
    correction_factor: float = 1.0,
    correction: Correction | None = None,
) -> SwapRule:
    """Creates a swap rule by name.

    Args:
        name: "metropolis", "barker", "penalty", "barker_compensated", "corrected" or "naive".
        swap_variance: σ*² of the rules on noisy energies. Default: None, 1 for "penalty" and
            "barker_compensated", otherwise a single mini-batch.
        correction_factor: F of "corrected". Default: 1.
        correction: Averaging of the variance, and schedule of F, for "corrected" only. Default:
            None.

    Returns:
        The rule.

    Raises:
        InputError: The name is unknown, a value is out of range, or the rule does not use it.

    Examples:
        >>> make_swap_rule("penalty", swap_variance=2.0).get_config()
        {'swap_rule': 'penalty', 'barker': False, 'target_variance': 2.0}
    """
    if name not in SWAP_RULES:
        raise InputError(
            f"swap_rule has an unknown value.{nearest(name, SWAP_RULES)}",
            name,
            ", ".join(SWAP_RULES),
        )
    maker = SWAP_RULES[name]
    settings = dict[str, Any]()
    if swap_variance is not None:
        problem = f"swap_variance: '{name}' uses all data, without noise."
        refuse_if(maker.exact, problem, swap_variance, "a rule for noisy energies")
        settings["target_variance"] = swap_variance
    if name == "corrected":
        settings |= {"factor": correction_factor, "correction": correction}
    elif correction_factor != 1:
        raise InputError(
            f"correction_factor: '{name}' has no such factor.",
            correction_factor,
            "swap_rule 'corrected'",
        )
    return maker(**settings)


LARGE_COUNT = 1e15
"""Stands for a variance that is known, not estimated."""


@front_door
def mean_acceptance(
    rule: SwapRule,
    log_ratio,
    noise_variance: float,
    variance: float | None = None,
    count: float = LARGE_COUNT,
) -> np.ndarray:
    """Returns A(D), the acceptance of a swap with log ratio D averaged over the noise of its
    estimate.

    The quadrature over the Gaussian noise is accurate to about 1e-6. An exact rule has ln
    A(D)/A(-D) = D.

    Args:
        rule: The swap rule.
        log_ratio: D, of any shape.
        noise_variance: Variance of the actual noise, at least 0.
        variance: Variance passed to the rule. Default: None, the actual variance.
        count: Number of independent values behind this variance, passed to the rule. Default: a
            large number, a known variance.

    Returns:
        The acceptance, in the shape of `log_ratio`.

    Examples:
        >>> float(mean_acceptance(Penalty(), 0.5, 1.0)).__round__(4)
        0.7616
    """
    log_ratio = np.asarray(log_ratio, float)
    assumed = np.float64(noise_variance if variance is None else variance)
    if noise_variance == 0:
        return np.asarray(
            rule.expected(
                log_ratio, np.full_like(log_ratio, assumed), np.full_like(log_ratio, count)
            )
        )
    normal = np.linspace(-9, 9, 6001)
    weights = np.exp(-0.5 * normal**2)
    weights /= weights.sum()
    result = np.empty(log_ratio.shape)
    for place, value in np.ndenumerate(log_ratio):
        noisy = value + np.sqrt(noise_variance) * normal
        result[place] = weights @ rule.expected(
            noisy, np.full_like(noisy, assumed), np.full_like(noisy, count)
        )
    return result
