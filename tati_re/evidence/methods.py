"""log Z of a simulation: what may be asked, and which parts do it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tati_re.engine.progress import make_progress
from tati_re.errors import InputError, nearest
from tati_re.evidence import estimators
from tati_re.evidence.chains import Chains
from tati_re.evidence.energies import Energies, Plan, energies_along, tuned
from tati_re.evidence.grids import Grid, make_grid, spike_at_reference, trapezoid_weights
from tati_re.evidence.path import SpringsPotential
from tati_re.evidence.quadratic import Springs
from tati_re.evidence.result import NAMES, Evidence, Evidences
from tati_re.evidence.smc import cooled
from tati_re.exchange.replicas import rung_fields
from tati_re.exchange.starts import descended
from tati_re.models.inspect import output_shape_of
from tati_re.options import Options, make_options
from tati_re.posterior.priors import Box
from tati_re.samplers.choosing import unused_options
from tati_re.samplers.protocol import groups_of

METHODS = tuple(NAMES)
_UNUSED = (
    *("record_every", "trajectory_every", "trajectory_format", "directions", "max_time", "checkpoint_seconds"),
    *("step_schedule", "temperature_schedule", "control_variate", "exchange", "swap_rule", "swap_schedule"),
    *("exchange_every", "adapt_ladder", "replica_start", "batch_sampling", "walker_batches"),
)
"""Options of runs that mean nothing here."""
_WALKERS = 4
_TARGET_ACCEPTANCE = 0.8
_FEW_STEPS = 10_000
"""Up to so many steps XLA takes longer to compile than it saves: a regression with three weights, 72 copies, takes 3.9
seconds of a processor for 1,000 steps in a graph and 6.8 under XLA, and 0.8 and 0.4 for 1,000 more."""
_OBJECTS = ("sampler", "prior", "loss")
_LADDER = ("num_replicas", "temperature_ratio", "max_temperature", "temperatures", "step_sizes", "tempering", "bias")
_EVERY = 4


def log_evidence(sim, method: str | None = None, **options: Any) -> Evidence:
    """log Z of a simulation, Z = ∫ likelihood x prior, with an error bar.

    Targets the integral that normalises the posterior; log Z of two models on the same data are compared by their
    difference, the log Bayes factor.

    Rule: energies E are sampled at points λ of a path from a normalised reference to the posterior, at each from
    reference^(1-λ) posterior^λ, and log Z is
        thermodynamic_integration   the integral of <-E> over λ from the prior, by the rule `evidence_grid`
        frenkel_ladd                the same from springs at a minimum, as wide as the posterior is there
        stepping_stone              Σ log <exp(-Δλ E)> over neighbouring points, from the prior
        mbar                        all points at once by the multistate Bennett acceptance ratio, from the prior
        smc                         adaptive sequential Monte Carlo, from the prior: points chosen by themselves
    At λ = 0 draws from the reference are exact. The sampler is HMC with its step size tuned at each point, unless one
    was given. All data are seen at each step.

    Cost: `evidence_nodes` x `num_walkers` x (`num_steps` + the way up) steps of the sampler.

    Args:
        sim: Model, data, a loss that is a likelihood (cross-entropy, or gaussian with `noise_std`), a proper prior.
        method: One of the names above. Default: the first of the option `method`, thermodynamic_integration.
        **options: Options for this call: `evidence_grid`, `evidence_nodes`, `evidence_power`, `evidence_sampling`,
            `num_particles`, `num_populations`, and those of a run (`num_steps`, `num_burnin_steps`, `sampler`,
            `step_size`, `num_leapfrog_steps`, `target_acceptance`, `seed`, ...).

    Returns:
        `log_z`, `error`, `curve` and more (:class:`tati_re.evidence.Evidence`).

    Raises:
        InputError: The loss is no likelihood, the prior is improper, or an option does not fit.
        SamplingError: An energy is not finite.

    Example:
        >>> sim = tati_re.Simulation(data="two_clusters", loss="binary_crossentropy", seed=1)
        >>> print(tati_re.evidence.log_evidence(sim).summary())
    """
    first = [method] if method is not None else _options(sim, None, options).method[:1]
    return log_evidences(sim, first, **options)[0]


def log_evidences(sim, methods: Sequence[str] | None = None, **options: Any) -> Evidences:
    """log Z of a simulation by several methods, side by side; those that start from the prior share their energies.

    Args:
        sim: As for :func:`log_evidence`.
        methods: Names. Default: the option `method`.
        **options: As for :func:`log_evidence`.

    Returns:
        The estimates, with `table`, `disagreements` and `summary()`.
    """
    work = _work(sim, methods, options)
    return Evidences([work.by(name) for name in dict.fromkeys(work.options.method)])


def sample_energies(sim, **options: Any) -> Energies:
    """Energies at the points of `evidence_grid` from the prior to the posterior, for :func:`estimated`.

    Args:
        sim: As for :func:`log_evidence`.
        **options: As for :func:`log_evidence`.
    """
    return _work(sim, None, options).from_prior()[0]


def _work(sim, methods: Sequence[str] | None, options: dict[str, Any]) -> _Work:
    chosen = _options(sim, methods, options)
    given = {name: options[name] for name in _OBJECTS if _object(options, name)}
    return _Work(sim, chosen, {**sim._objects, **given})


def estimated(energies: Energies, method: str, grid: Grid | None = None) -> Evidence:
    """An estimate from energies along a path that was sampled already.

    Args:
        energies: `path` from 0 to 1 and `values`, `(points, walkers, draws)`.
        method: "thermodynamic_integration", "stepping_stone" or "mbar".
        grid: For thermodynamic integration, whose path is that of the energies. Default: the corrected trapezoid over
            their points.
    """
    import pandas as pd

    if grid is None:
        grid = Grid(energies.path, trapezoid_weights(energies.path), "corrected_trapezoid")
    if method == "stepping_stone":
        found = estimators.stepping_stone(energies.path, energies.values)
    elif method == "mbar":
        found = estimators.mbar(energies.path, energies.values)
    else:
        found = estimators.thermodynamic_integration(grid, energies.values)
    settings = {"points": len(energies.path), "walkers": energies.values.shape[1], "draws": energies.values.shape[2]}
    settings["gradients"] = float(energies.gradients)
    curve = pd.DataFrame(found.curve)
    name = method if method in NAMES else "thermodynamic_integration"
    return Evidence(found.log_z, found.error, name, curve, found.repeats, _notes(found, energies), settings)


def _notes(found: estimators.Estimate, energies: Energies) -> tuple[str, ...]:
    said = []
    if abs(found.bias) > found.error:
        said.append(
            f"The trapezoid is off by about {found.bias:+.2g} between its points, more than its error: evidence_grid "
            "corrected_trapezoid or gauss_legendre."
        )
    if "effective_fraction" in found.curve and (least := found.curve["effective_fraction"].min()) < 0.02:
        said.append(f"One step of the path uses {least:.1%} of its draws: take more evidence_nodes.")
    if "overlap" in found.curve and (least := np.nanmin(found.curve["overlap"])) < 0.03:
        said.append(f"Two neighbouring points overlap by {least:.3f} only: take more evidence_nodes.")
    if (poor := energies.acceptance[1:].min()) < 0.3:
        said.append(f"The acceptance at one point is {poor:.2f}: a smaller step_size or more burn-in.")
    half = found.influence.shape[1] // 2
    early, late = found.influence[:, :half], found.influence[:, -half:]
    drift = float(late.mean() - early.mean())
    # Errors of the halves: that of the whole has grown with the drift.
    if abs(drift) > 3.5 * np.hypot(estimators.series_error(early), estimators.series_error(late)):
        said.append(f"The second half of the draws says {drift:+.2g} more than the first: more num_burnin_steps.")
    deviation = found.repeats.std(ddof=1) / np.sqrt(len(found.repeats)) if len(found.repeats) > 3 else 0.0
    if deviation > 3 * found.error:
        said.append(f"The walkers differ more than their draws explain (error {deviation:.2g} from their spread).")
    return tuple(said)


def _object(options: dict, name: str) -> bool:
    return name in options and not isinstance(options[name], str | None)


def _options(sim, methods, given: dict[str, Any]) -> Options:
    named = {name: value for name, value in given.items() if not _object(given, name) or name not in _OBJECTS}
    if methods is not None:
        for name in methods:
            if name not in METHODS:
                raise InputError(
                    f"method: there is none of this name.{nearest(name, METHODS)}", repr(name), ", ".join(METHODS)
                )
        named["method"] = list(methods)
    sim._refuse_fixed([name for name in named if name != "num_walkers"])
    return make_options(sim.options, **named)


def check(sim, options: Options, objects: dict[str, Any], potential) -> None:
    """Refuses what has no evidence, in a sentence.

    Raises:
        InputError: See :func:`log_evidence`.
    """
    loss, prior = potential.loss, potential.prior
    if options.potential != "posterior":
        raise InputError("potential: the mean loss is no log likelihood.", options.potential, "potential posterior")
    if not loss.likelihood:
        advice = (
            "loss gaussian with noise_std" if "error" in loss.name else "a cross-entropy, or gaussian with noise_std"
        )
        raise InputError(f"loss: {loss.name} is no likelihood with its constant.", loss.name, advice)
    if len(output_shape_of(sim._system.model)) > 2:
        raise InputError("model: the loss is a mean over outputs of several axes.", expected="outputs in one axis")
    if sim.dataset.weights is not None:
        raise InputError(
            "sample_weights: a loss with weights is no log likelihood.", "weights of examples or classes", "no weights"
        )
    if not prior.proper:
        raise InputError(
            "prior: the evidence needs one that is proper.", f"{prior}", "gaussian, laplace, student_t or box"
        )
    if sim._system.flat.regularizer is not None:
        raise InputError(
            "model: its weight regularisers are priors without a normalisation.", expected="prior and prior_std instead"
        )
    if options.batch_norm == "batch":
        raise InputError("batch_norm: its statistics would change from step to step.", "batch", "batch_norm frozen")
    if options.batch_size not in (None, sim.dataset.num_examples):
        raise InputError("batch_size: the evidence needs energies of all data.", options.batch_size, "no batch_size")
    if options.kT != 1.0:
        raise InputError("temperature: the evidence is that of the posterior.", options.kT, "no temperature, or 1")
    if given := [name for name in _LADDER if name in options.explicit]:
        raise InputError(
            f"{given[0]}: the points of the path are those of evidence_grid.",
            expected="evidence_nodes, evidence_sampling",
        )


class _Work:
    """One simulation under one set of options; energies from the prior are sampled once."""

    def __init__(self, sim, options: Options, objects: dict[str, Any]) -> None:
        self.sim, self.options, self.objects = sim, options, objects
        self.system = sim._system
        self.progress = make_progress(options.verbose)
        self.walkers = options.num_walkers if "num_walkers" in options.explicit else _WALKERS
        self.execution = self.system.execution(options)
        if options.execution == "auto" and options.num_steps <= _FEW_STEPS:
            self.execution = "graph"
        check(sim, options, objects, self.potential(1))
        if "mbar" in options.method:
            estimators.load_pymbar()
        self.sampler = self._sampler()
        if unused := [*(name for name in _UNUSED if name in options.explicit), *unused_options(options, self.sampler)]:
            self.progress.message(f"Not used for the evidence: {', '.join(dict.fromkeys(unused))}.")
        self._from_prior: tuple[Energies, float] | None = None

    def potential(self, copies: int):
        """The posterior of so many copies, moving statistics where the simulation has them."""
        potential = self.system.potential(self.options, self.objects, copies=copies)
        potential.auxiliary = tuple(np.repeat(value[:1], copies, axis=0) for value in self.sim._auxiliary)
        return potential

    def _sampler(self):
        from tati_re.running import sampler_of

        options, objects = self.options, self.objects
        changed: dict[str, Any] = {"target_acceptance": None}
        if "sampler" not in options.explicit and "sampler" not in objects:
            changed["sampler"] = "HMC"
        if "walls" not in options.explicit:
            changed["walls"] = "reflect"
        sampler = sampler_of(self.sim, make_options(options, **changed), objects)
        adapts = getattr(sampler, "adapts", False) or rung_fields(sampler)
        if groups_of(sampler)[0] > 1 or adapts or getattr(sampler, "label_names", ()):
            raise InputError(
                "sampler: the points of a path need one that moves each walker by a fixed law.",
                sampler.name,
                "HMC, MALA, GHMC or a splitting word such as BAOAB",
            )
        return sampler

    def plan(self, widths: np.ndarray) -> Plan:
        """How long, and step sizes for parameters as wide as the reference."""
        options = self.options
        mass, inner = 1.0, self.sampler
        while inner is not None:
            mass = mass * np.asarray(getattr(inner, "mass", 1.0))
            inner = getattr(inner, "inner", None)
        widths = widths * np.sqrt(mass)
        first = 0.5 * float(np.min(widths))
        if "step_size" in options.explicit or not self.sampler.metropolis:
            first = options.step_size
        burnin = options.num_burnin_steps if "num_burnin_steps" in options.explicit else options.num_steps // 5
        if options.num_steps - burnin < 8:
            raise InputError("num_steps: too few draws.", options.num_steps, f"at least {burnin + 8}")
        return Plan(
            self.walkers,
            options.num_steps - burnin,
            burnin,
            options.evidence_sampling,
            first,
            options.target_acceptance or _TARGET_ACCEPTANCE,
            2.0 * float(np.max(widths)),
            options.seed,
            self.execution,
        )

    def _prior_widths(self) -> np.ndarray:
        prior = self.potential(1).prior
        drawn = np.asarray(prior.sample((64, self.sim.num_parameters()), self.options.seed), np.float64)
        # Not the standard deviation, which heavy tails do not have.
        low, high = np.quantile(drawn, (0.16, 0.84), axis=0)
        return 0.5 * (high - low)

    def grid(self) -> Grid:
        options = self.options
        return make_grid(options.evidence_grid, options.evidence_nodes, options.evidence_power)

    def by(self, method: str) -> Evidence:
        start = time.monotonic()
        if method == "smc":
            found = self._smc()
        elif method == "frenkel_ladd":
            found = self._frenkel_ladd()
        else:
            energies, spent = self.from_prior()
            start -= spent
            grid = self.grid()
            found = estimated(energies, method, grid)
        settings = {**found.settings, "seconds": round(time.monotonic() - start, 3)}
        return Evidence(found.log_z, found.error, method, found.curve, found.repeats, found.notes, settings)

    def from_prior(self) -> tuple[Energies, float]:
        """Energies along the path from the prior, and the seconds they took."""
        if self._from_prior is None:
            start = time.monotonic()
            grid, plan = self.grid(), self.plan(self._prior_widths())
            energies = energies_along(grid.path, self.potential, self.sampler, plan, self.progress.message)
            self._from_prior = energies, time.monotonic() - start
        return self._from_prior

    def _smc(self) -> Evidence:
        import pandas as pd

        options = self.options
        found = cooled(
            self.potential,
            self.sampler,
            self.plan(self._prior_widths()),
            options.num_populations,
            options.num_particles,
            options.num_moves,
            options.particle_fraction,
            self.progress.message,
        )
        settings = {
            "populations": options.num_populations,
            "particles": options.num_particles,
            "stages": len(found.curve["path"]),
        }
        settings["gradients"] = float(found.gradients)
        notes = []
        if found.repeats.std() > 1.0:
            notes.append(
                f"The populations' log Z spread by {found.repeats.std():.2g}: take more num_particles or num_moves."
            )
        return Evidence(
            found.log_z, found.error, "smc", pd.DataFrame(found.curve), found.repeats, tuple(notes), settings
        )

    def _frenkel_ladd(self) -> Evidence:
        springs, gradients = self._springs()
        self.progress.message(f"Reference: {springs}.")

        def potential_of(copies: int):
            return SpringsPotential(self.potential(copies), springs)

        grid, plan = self.grid(), self.plan(springs.std)
        energies = energies_along(grid.path, potential_of, self.sampler, plan, self.progress.message)
        found = estimated(energies._replace(gradients=energies.gradients + gradients), "frenkel_ladd", grid)
        notes = list(found.notes)
        if (height := spike_at_reference(grid, found.curve["mean"].to_numpy())) is not None:
            notes.append(
                f"The integrand has a spike of {height:,.4g} at the springs, which the even grid takes for a slope: "
                "evidence_grid gauss_legendre has no point there."
            )
        return Evidence(
            found.log_z, found.error, "frenkel_ladd", found.curve, found.repeats, tuple(notes), found.settings
        )

    def _springs(self) -> tuple[Springs, float]:
        """Springs at a minimum, as soft as the mean squares of the distances from it that a short run has."""
        options, walkers = self.options, self.walkers
        prior = self.potential(1).prior
        if getattr(prior, "walled", False) and not isinstance(prior, Box):
            raise InputError(
                "method: frenkel_ladd knows the walls of a box only.", f"{prior}", "prior box, or no walls"
            )
        bound = np.broadcast_to(prior.bound, (self.sim.num_parameters(),)) if isinstance(prior, Box) else None
        position = np.asarray(self.sim._position[:1])
        auxiliary = tuple(value[:1] for value in self.sim._auxiliary)
        steps = options.descent_steps
        centre = descended(self.potential(1), position, auxiliary, steps, self.execution)[0].astype(np.float64)
        if bound is not None:
            centre = np.clip(centre, -bound, bound)
        plan = self.plan(self._prior_widths())
        chains = Chains(self.potential(walkers), self.sampler, options.seed + 3, self.execution)
        place = np.repeat(centre[None], walkers, axis=0)
        place, step_size = tuned(chains, place, 1.0, plan.step_size, plan)
        place = chains.run(place, 1.0, step_size, max(plan.num_burnin_steps, 1)).position
        squares, count = np.zeros_like(centre), max(8, plan.num_draws // _EVERY)
        for _ in range(count):
            place = chains.run(place, 1.0, step_size, _EVERY).position
            squares += np.mean((place.astype(np.float64) - centre) ** 2, axis=0) / count
        return Springs(centre, np.sqrt(np.maximum(squares, 1e-24)), bound), steps + chains.gradients
