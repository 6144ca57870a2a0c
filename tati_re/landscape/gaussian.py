"""Gaussian approximations of the posterior: Laplace's, from the Hessian of U, and SWAG, from the
iterates of a fit.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tati_re.core.backend import tf
from tati_re.core.errors import InputError, nearest, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.user_input import seeded
from tati_re.core.user_warnings import warn_user
from tati_re.core.views import viewable
from tati_re.landscape.hessian import MOST_PARAMETERS, hessian_matrix, hessian_rows
from tati_re.landscape.surface import Surface
from tati_re.runs.positions import Positions

KINDS = ("laplace", "laplace_diagonal", "swag")
_SMALLEST_VARIANCE = 1e-30


@front_doors
@viewable
@dataclass(frozen=True, eq=False)
class GaussianApproximation:
    """A Gaussian around each walker; for several walkers, their mixture with equal weights.

    The covariance of a component is diag(`diagonal`) + F F', with F its `factor`.

    Attributes:
        kind: "laplace", "laplace_diagonal" or "swag".
        temperature: T of the simulation.
        mean: The centers of the components, `(walkers, parameters)`.
        diagonal: Variances in addition to F F', `(walkers, parameters)`; 0 for "laplace".
        factor: F, `(walkers, parameters, k)`. k is P for "laplace", 0 for "laplace_diagonal", and
            the rank for "swag".
        log_evidence: ln of the integral of exp(-U/T) over the parabola at the walker, `(walkers,)`.
            Likelihoods are densities of the targets in the units of the data. At T = 1 it is log Z of
            the posterior if U is this parabola. None for "swag".
        raised: Number of directions whose curvature was raised to that of the prior, `(walkers,)`,
            or None.
        excess: Height of the walker above the minimum of its parabola in units of T, ∇U' H⁻¹ ∇U /
            (2 T), `(walkers,)`, or None.
    """

    kind: str
    temperature: float
    mean: np.ndarray
    diagonal: np.ndarray
    factor: np.ndarray
    log_evidence: np.ndarray | None = None
    raised: np.ndarray | None = None
    excess: np.ndarray | None = None

    @property
    def variance(self) -> np.ndarray:
        """Variance of each parameter in each component, `(walkers, parameters)`."""
        return self.diagonal + np.sum(self.factor**2, axis=2)

    @cached_property
    def mass(self) -> np.ndarray:
        """Returns masses for the option `mass`, `(parameters,)`.

        They are proportional to the square root of the precision over the variance of each
        parameter, as for "fisher". Their unit limits the frequency of the fastest direction to 1,
        so step sizes of 0.1 to 1 fit.
        """
        factors = range(len(self.mean))
        pairs = list(zip(self.diagonal, self.factor, strict=True))
        matrices = (
            [np.linalg.inv(self.covariance(k)) for k in factors] if self.kind == "laplace" else []
        )
        precision = [np.diag(m) for m in matrices] or [
            1 / d - np.sum(_scaled(d, f)[0] ** 2, axis=1) for d, f in pairs
        ]
        mass = np.sqrt(np.mean(precision, axis=0) / self.variance.mean(axis=0))
        root = 1 / np.sqrt(mass)
        stiffest = [np.linalg.eigvalsh(root[:, None] * m * root)[-1] for m in matrices]
        return self.temperature * np.max(stiffest or [1 / (d * mass) for d, _ in pairs]) * mass

    def covariance(self, walker: int = 0) -> np.ndarray:
        """Returns the covariance of one component, `(parameters, parameters)`.

        Args:
            walker: The walker of the component, counted from 0. Default: 0.

        Returns:
            The matrix, float64.
        """
        return np.diag(self.diagonal[walker]) + self.factor[walker] @ self.factor[walker].T

    def draw(self, count: int, seed: int = 0) -> np.ndarray:
        """Draws independent samples, `(count, parameters)`, float64, from the components in turn.

        With as many draws as walkers, there is one around each walker. They can serve as starting
        points: `sim.parameters = approximation.draw(sim.num_walkers())`.

        Args:
            count: Number of draws.
            seed: Seed of the random numbers. Default: 0.

        Returns:
            Positions, shape (count, parameters), float64.
        """
        random = seeded(seed, 0x4741)
        walkers = np.arange(count) % len(self.mean)
        wide = self.factor[0].shape[1]
        normal = random.standard_normal((count, self.mean.shape[1]))
        draws = self.mean[walkers] + np.sqrt(self.diagonal[walkers]) * normal
        along = random.standard_normal((count, wide))
        for walker in range(min(count, len(self.mean))):
            draws[walkers == walker] += along[walkers == walker] @ self.factor[walker].T
        return draws

    def log_prob(self, positions: np.ndarray) -> np.ndarray:
        """Computes the log density of the mixture.

        Args:
            positions: Positions, shape (n, parameters).

        Returns:
            One number per position, shape (n,).

        Raises:
            InputError: The positions have another number of parameters.
        """
        positions = np.asarray(positions, np.float64)
        if positions.ndim != 2 or positions.shape[1] != self.mean.shape[1]:
            raise InputError(
                "positions: wrong shape.", positions.shape, f"(n, {self.mean.shape[1]})"
            )
        parts = zip(self.mean, self.diagonal, self.factor, strict=True)
        log_densities = [
            _log_density(positions - mean, diagonal, factor) for mean, diagonal, factor in parts
        ]
        return np.logaddexp.reduce(log_densities, axis=0) - np.log(len(log_densities))


@front_door
def gaussian_approximation(
    sim: Any, kind: str = "laplace", *, rank: int | None = None, **fit: Any
) -> GaussianApproximation:
    """Approximates exp(-U/T) by a Gaussian around each walker.

    Use it as a starting distribution, as a mass matrix, or as a baseline.

    "laplace" has its mean at the walker and the covariance T H⁻¹, with H the Hessian of U on all
    data. It is meant for walkers at a minimum, where `fit` left them. If the prior can be sampled,
    H is raised to the curvature of the prior along every direction in which it is lower or
    negative. No direction is then wider than the prior: in units of the prior widths s_i, the
    eigenvalues of H are at least 1. "laplace_diagonal" uses only the diagonal of H. Without such a
    prior H must be positive definite.

    "swag" uses the moments of the iterates of a fit at a constant learning rate, and their last K
    deviations from the running mean. The covariance is diag(Σ)/2 + D D'/(2 (K - 1)), with D the
    deviations and Σ the variances. The fit starts at the walkers and moves them. Its learning rate
    and mini-batch noise determine the width.

    The cost is P Hessian-vector products on all data per walker, or the fit for "swag". Sources: D.
    MacKay, Neural Computation 4 (1992); W. Maddox, T. Garipov, P. Izmailov, D. Vetrov, A. Wilson,
    NeurIPS 2019, algorithm 1.

    Args:
        sim: The simulation, with its walkers at the end of a fit.
        kind: "laplace" (up to 5,000 parameters), "laplace_diagonal" or "swag". Default: "laplace".
        rank: K of "swag", at least 2. Default: None, 20.
        **fit: Options of the fit for "swag". Default: `gradient_descent` on the simulation's
            batches, and 5 K positions (`trajectory_every`) per walker. `learning_rate`, `num_steps`
            and `batch_size` are taken from the options.

    Returns:
        The approximation.

    Raises:
        InputError: The kind is unknown, there are too many parameters, the curvature is not
            positive, there are too few positions, or an option belongs to another kind.

    Examples:
        >>> sim = tati_re.Simulation(data="two_clusters", loss="binary_crossentropy", seed=1, verbose=0)
        >>> run = sim.fit(optimizer="barzilai_borwein", num_steps=100)
        >>> approximation = tati_re.gaussian_approximation(sim)
        >>> approximation.covariance().shape, approximation.draw(50).shape
        ((3, 3), (50, 3))
    """
    refuse_if(
        kind not in KINDS,
        f"kind has an unknown value.{nearest(kind, KINDS)}",
        repr(kind),
        ", ".join(KINDS),
    )
    if kind == "swag":
        return _swag(sim, 20 if rank is None else rank, fit)
    for name in (*fit, *(["rank"] if rank is not None else [])):
        raise InputError(f"{name} applies only to kind swag.", kind, "no such option")
    return _laplace(sim, kind == "laplace")


def _laplace(sim: Any, full: bool) -> GaussianApproximation:
    surface = Surface(sim)
    temperature = float(sim.options.kT)
    count = surface.num_parameters
    positions = np.array(sim.walkers.position, np.float64)
    if full and count > MOST_PARAMETERS:
        limit = f"at most {MOST_PARAMETERS:,}, or kind laplace_diagonal or swag"
        raise InputError(
            "kind laplace: the whole Hessian is too large.", f"{count:,} parameters", limit
        )
    widths = _prior_widths(sim, count)
    least = 1.0
    if widths is None:
        widths = np.ones(count)
        least = 0.0
    if any((value != value[:1]).any() for value in sim.walkers.auxiliary):
        problem = "kind: each walker has its own statistics of batch normalization."
        raise InputError(problem, f"{len(positions)} walkers", "one walker, or kind swag")
    expansions = []
    flat = 1e-9 if surface.dtype == "float64" else 1e-5
    for walker, position in enumerate(positions):
        rows = hessian_rows(surface, position, np.arange(0 if full else count))
        vectors = None
        diagonals = [block[np.arange(len(part)), part] for part, block in rows]
        hessian = hessian_matrix(surface, position) if full else np.concatenate(diagonals)
        if full and np.isfinite(hessian).all():
            curvatures, vectors = np.linalg.eigh(widths[:, None] * hessian * widths)
        else:
            curvatures = widths**2 * (hessian if hessian.ndim == 1 else np.diag(hessian))
        raised_curvatures = np.maximum(curvatures, least)
        if not raised_curvatures.min() > flat * raised_curvatures.max():
            problem = f"kind: U is not convex at the position of walker {walker}."
            expected = "walkers at a minimum, as after fit, or a prior that confines all parameters"
            raise InputError(
                problem,
                f"curvatures from {curvatures.min():.3g} to {curvatures.max():.3g}",
                expected,
            )
        std = (
            widths * np.sqrt(temperature / raised_curvatures)
            if vectors is None
            else np.zeros(count)
        )
        factor = np.zeros((count, 0))
        if vectors is not None:
            factor = widths[:, None] * vectors * np.sqrt(temperature / raised_curvatures)
        potential, gradient = surface.gradient(position)
        excess = 0.5 * np.sum((std * gradient) ** 2) + 0.5 * np.sum((factor.T @ gradient) ** 2)
        log_volume = 0.5 * np.sum(np.log(2 * np.pi * temperature * widths**2 / raised_curvatures))
        excess = excess / temperature**2
        below = np.sum(curvatures < (1 - 1e-6) * least)
        expansions.append(
            (std**2, factor, log_volume - potential / temperature + excess, below, excess)
        )
    diagonal, factors, evidences, raised, above = (
        np.array(part) for part in zip(*expansions, strict=True)
    )
    if sim.system.has_data and sim.options.potential != "mean_loss":
        loss = sim.system.potential(sim.options, sim.objects).loss
        evidences -= sim.dataset.num_examples * sim.system.log_unit(loss) / temperature
    if above.max() > 1:
        warn_user(
            f"A walker is {above.max():.3g} T above the minimum of its parabola, so a "
            "Gaussian around it does not describe a minimum. Descend on all data first: "
            "sim.fit(optimizer='fire', batch_size=None)."
        )
    kind = "laplace" if full else "laplace_diagonal"
    return GaussianApproximation(
        kind, temperature, positions, diagonal, factors, evidences, raised, above
    )


def _swag(sim: Any, rank: int, fit: dict[str, Any]) -> GaussianApproximation:
    refuse_if(rank < 2, "rank is out of range.", rank, "at least 2")
    every = max(1, fit.get("num_steps", sim.options.num_steps) // (5 * rank))
    run = sim.fit(
        **{"optimizer": "gradient_descent", "trajectory_every": every, "directions": None, **fit}
    )
    values = (
        Positions(run, burnin=0, rung=None)
        .read()
        .values.reshape(-1, sim.num_walkers(), sim.num_parameters())
    )
    if len(values) <= rank:
        raise InputError(
            "rank: the fit stored too few positions.",
            f"{len(values)} of a walker",
            f"more than {rank}",
        )
    running = np.cumsum(values, axis=0) / np.arange(1, len(values) + 1)[:, None, None]
    deviations = (values - running)[-rank:].transpose(1, 2, 0)
    diagonal = np.maximum(0.5 * values.var(axis=0), _SMALLEST_VARIANCE)
    factor = deviations / np.sqrt(2 * (rank - 1))
    return GaussianApproximation("swag", float(sim.options.kT), running[-1], diagonal, factor)


def _prior_widths(sim: Any, count: int) -> np.ndarray | None:
    """Half the width that 68 % of prior draws have, a Gaussian's deviation; None where none can be
    drawn.
    """
    ends = np.repeat([[-1.0], [1.0]], count, axis=1)
    try:
        low, high = (
            sim.system.prior(sim.options, sim.objects).from_normal(tf.constant(ends)).numpy()
        )
    except InputError:
        return None
    return 0.5 * (high - low)


def _log_density(away: np.ndarray, diagonal: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Log density of N(0, diag(d) + F F') at `(n, parameters)`; without a diagonal F is square."""
    if not diagonal.any():
        squares = np.sum(np.linalg.solve(factor, away.T) ** 2, axis=0)
        log_det = 2 * np.linalg.slogdet(factor)[1]
    else:
        scaled, log_det = _scaled(diagonal, factor)
        squares = np.sum(away**2 / diagonal, axis=1) - np.sum((away @ scaled) ** 2, axis=1)
    return -0.5 * (squares + log_det + away.shape[1] * np.log(2 * np.pi))


def _scaled(diagonal: np.ndarray, factor: np.ndarray) -> tuple[np.ndarray, float]:
    """Of Σ = diag(d) + F F' the S of Σ⁻¹ = diag(1/d) - S S' (Woodbury's formula), and ln det Σ."""
    scaled = factor / diagonal[:, None]
    lower = np.linalg.cholesky(np.eye(factor.shape[1]) + factor.T @ scaled)
    log_det = np.sum(np.log(diagonal)) + 2 * np.sum(np.log(np.diag(lower)))
    return np.linalg.solve(lower, scaled.T).T, float(log_det)
