"""One estimate of log Z: potential, sampler and plan from a simulation's options, and the run of
each method.
"""

import hashlib
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tati_re.analysis.reweighting import load_pymbar
from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.facets import turns_of
from tati_re.core.process.interruption import stopping
from tati_re.engine.progress import make_progress
from tati_re.evidence.chains import Chains
from tati_re.evidence.energies import Energies, SamplingPlan, energies_along, tuned
from tati_re.evidence.estimating import estimated
from tati_re.evidence.grids import Quadrature, make_grid, spike_at_reference
from tati_re.evidence.parts import PartFiles, opened
from tati_re.evidence.result import NAMES, Evidence, Evidences
from tati_re.evidence.smc import cooled
from tati_re.evidence.springs import Springs, SpringsPotential
from tati_re.launch.checks import check_control_variate, check_walls
from tati_re.launch.request import Request, sampler_of
from tati_re.launch.starts import descended
from tati_re.options.make import Options, make_options
from tati_re.options.table import NOT_OF_EVIDENCE, options_of
from tati_re.posterior.priors import Box
from tati_re.system.system import check_memory
from tati_re.tuning.choosing import unused_options

_LADDER = (
    "num_replicas",
    "temperature_ratio",
    "max_temperature",
    "temperatures",
    "step_sizes",
    "tempering",
    "bias",
)


def check(sim, options: Options, potential) -> None:
    """Refuses a simulation whose posterior has no evidence.

    Args:
        sim: The simulation.
        options: The options of the estimate.
        potential: The potential, with its loss and prior.

    Raises:
        InputError: The loss is not a likelihood, the prior is improper, or an option does not fit.
    """
    loss = potential.loss
    prior = potential.prior
    if options.potential == "mean_loss":
        raise InputError(
            "potential: the mean loss is not a log likelihood.",
            options.potential,
            "potential posterior",
        )
    advice = "loss gaussian" if "error" in loss.name else "a cross-entropy, or gaussian"
    problem = f"loss: {loss.name} is not a normalized likelihood."
    refuse_if(not loss.likelihood, problem, loss.name, f"{advice} with noise_std")
    problem = "sample_weights: a weighted loss is not a log likelihood."
    refuse_if(sim.dataset.weights is not None, problem, "weights of examples or classes", "none")
    if not prior.proper:
        raise InputError(
            "prior: the evidence needs a proper prior.",
            f"{prior}",
            "gaussian, laplace, student_t, hierarchical or box",
        )
    problem = "model: its weight regularizers are priors that are not normalized."
    refuse_if(
        sim.system.flat.regularizer is not None, problem, expected="prior and prior_std instead"
    )
    if options.batch_norm == "batch":
        raise InputError(
            "batch_norm: its statistics would change from step to step.",
            "batch",
            "batch_norm frozen",
        )
    if options.batch_size not in (None, sim.dataset.num_examples):
        raise InputError(
            "batch_size: the evidence needs energies of all data.",
            options.batch_size,
            "no batch_size",
        )
    if options.kT != 1.0:
        raise InputError(
            "temperature: the evidence is defined for the posterior at temperature 1.",
            options.kT,
            "no temperature, or 1",
        )
    if ladder_options := [name for name in _LADDER if name in options.explicit]:
        problem = f"{ladder_options[0]}: evidence_grid already sets the points of the path."
        raise InputError(problem, expected="evidence_nodes, evidence_sampling")


_UNITS = "log Z is for targets in the units of the data."
_USED = {
    "batch_size",
    "temperature",
    "inverse_temperature",
    "covariance_blending",
    "descent_steps",
    *_LADDER,
}
_UNUSED = tuple(name for name in (*NOT_OF_EVIDENCE, *options_of(["replicas"])) if name not in _USED)
"""Options of runs that mean nothing here, not even a refusal."""
_OF: dict[str, tuple[str, ...]] = dict.fromkeys(
    ("num_particles", "num_populations", "num_moves", "particle_fraction"), ("smc",)
)
_OF |= {"descent_steps": ("frenkel_ladd",)} | dict.fromkeys(
    (
        "evidence_grid",
        "evidence_nodes",
        "evidence_power",
        "evidence_sampling",
        "num_steps",
        "num_burnin_steps",
    ),
    tuple(name for name in NAMES if name != "smc"),
)
"""The methods that an option is about."""
_WALKERS = 4
_EVERY = 4  # Steps between the positions whose spread says how wide the springs are.
_TARGET_ACCEPTANCE = 0.8
_FEW_STEPS = 10_000
"""Up to so many steps XLA takes longer to compile than it saves: a regression with three weights,
72 copies, takes 3.9 seconds of a processor for 1,000 steps in a graph and 6.8 under XLA, and 0.8
and 0.4 for 1,000 more.
"""
_NO_MATTER = {"method", "output", "requeue_signal", "overwrite", "verbose", "threads", "execution"}
_NO_MATTER |= {"workers", "worker_gpus", *_UNUSED}
"""Options that change nothing in the parts that are kept."""


class Estimation:
    """Estimates for one simulation and one set of options.

    Energies from the prior are sampled once.

    Args:
        sim: The simulation.
        options: The options of the estimate.
        objects: Objects in place of options, by name: a sampler, a prior, a loss, ...

    Attributes:
        has_density: Whether Z is a density of the targets, and not their probability.

    Raises:
        InputError: The posterior has no evidence, or the sampler does not fit.
    """

    def __init__(self, sim, options: Options, objects: dict[str, Any]) -> None:
        self.sim = sim
        self.objects = objects
        self.system = sim.system
        self.progress = make_progress(options.verbose)
        self.walkers = options.num_walkers if "num_walkers" in options.explicit else _WALKERS
        members = options.num_populations * options.num_particles if "smc" in options.method else 0
        check_memory(
            options,
            self.system.flat.num_parameters,
            max(members, self.walkers * options.evidence_nodes),
        )
        few = options.execution == "auto" and options.num_steps <= _FEW_STEPS
        self.execution = "graph" if few else self.system.execution(options)
        self.options = options.resolved(execution=self.execution)
        potential = self.potential(1)
        check(sim, options, potential)
        # How much larger log Z is in the network's units of the targets than in the data's.
        self._log_unit = sim.dataset.num_examples * self.system.log_unit(potential.loss)
        self.has_density = potential.loss.has_density
        if "mbar" in options.method:
            load_pymbar()
        self.sampler = self._sampler()
        idle = [name for name, methods in _OF.items() if not {*methods} & {*options.method}]
        if options.evidence_grid == "simpson":
            idle.append("evidence_power")
        explicit = [name for name in (*_UNUSED, *idle) if name in options.explicit]
        if unused := [*explicit, *unused_options(options, self.sampler)]:
            self.progress.message(f"Not used for the evidence: {', '.join(dict.fromkeys(unused))}.")
        self._from_prior: tuple[Energies, float] | None = None
        self.folder: Path | None = None

    def keep(self, output: AnyPath, overwrite: bool = False) -> None:
        """Saves finished parts in a folder, and continues with those found there.

        Args:
            output: The folder.
            overwrite: Whether parts of another estimate are removed. Default: False.
        """
        self.folder = Path(output)
        for message in opened(self.folder, self._specification(), overwrite):
            self.progress.message(message)

    def estimates(self) -> Evidences:
        with stopping(self.options.requeue_signal):
            evidences = [self.by(name) for name in dict.fromkeys(self.options.method)]
        data = self.sim.dataset
        notes = tuple[str, ...]()
        if self._log_unit:
            notes += (_UNITS,)
        if (
            data.test_inputs is not None
            and not {"test_fraction", "test_data"} & self.options.explicit
        ):
            tests = f"{len(data.test_inputs):,} are held out for testing (test_fraction)"
            notes += (f"log Z is for {data.num_examples:,} examples; {tests}.",)
        return Evidences(
            [replace(evidence, notes=evidence.notes + notes) for evidence in evidences]
        )

    def _specification(self) -> dict[str, str]:
        sim = self.sim
        options = self.options
        explicit = options.model_dump(mode="json", include=set(options.explicit) - _NO_MATTER)
        specification = {
            name: json.dumps(value, sort_keys=True) for name, value in explicit.items()
        }
        potential = self.potential(1)
        flat = self.system.flat
        # Not the position of the walker: the minimum that a descent from it reaches is kept.
        statistics = b"|".join(
            np.ascontiguousarray(variable[:1]).tobytes() for variable in sim.walkers.auxiliary
        )
        names = [
            f"{name}{list(shape)}"
            for name, shape in zip(flat.tensor_names, flat.shapes, strict=True)
        ]
        specification |= {
            "prior and loss": f"{potential.prior}, {potential.loss.name}",
            "execution": self.execution,
        }
        specification |= {"data set": sim.dataset.fingerprint(), "parameters": ", ".join(names)}
        specification |= {"statistics": hashlib.sha256(statistics).hexdigest()[:16]}
        return specification | {
            "moves": json.dumps(self.sampler.get_config(), sort_keys=True, default=str)
        }

    def _in_data_units(self, energies: Energies) -> Energies:
        """Energies of a path, of densities of the targets in the units of the data."""
        return energies._replace(values=energies.values + self._log_unit)

    def potential(self, copies: int):
        potential = self.system.potential(self.options, self.objects, copies=copies)
        potential.auxiliary = tuple(
            np.repeat(value[:1], copies, axis=0) for value in self.sim.walkers.auxiliary
        )
        return potential

    def _sampler(self):
        options = self.options
        objects = self.objects
        changed: dict[str, Any] = {"target_acceptance": None}
        if "sampler" not in options.explicit and "sampler" not in objects:
            changed["sampler"] = "HMC"
        if "walls" not in options.explicit:
            changed["walls"] = "reflect"
        options = make_options(options, **changed)
        sampler = sampler_of(options, objects, self.system)
        request = Request(
            options=options, objects=objects, system=self.system, kind="sample", method=sampler
        )
        check_walls(request)
        check_control_variate(request)
        if turns_of(sampler).groups > 1 or sampler.adapts or sampler.of_rung or sampler.label_names:
            problem = (
                "sampler: the points of a path need a sampler with a known fixed distribution."
            )
            raise InputError(
                problem, sampler.name, "HMC, MALA, GHMC or a splitting word such as BAOAB"
            )
        return sampler

    def plan(self, widths: np.ndarray) -> SamplingPlan:
        """The sampling plan, with step sizes for parameters as wide as the reference."""
        options = self.options
        widths = widths * np.sqrt(self.sampler.masses())
        first = 0.5 * float(np.min(widths))
        if "step_size" in options.explicit or not self.sampler.metropolis:
            first = options.first_step_size
        burnin = (
            options.num_steps // 5 if options.num_burnin_steps is None else options.num_burnin_steps
        )
        if options.num_steps - burnin < 8:
            raise InputError(
                "num_steps: too few draws.", options.num_steps, f"at least {burnin + 8}"
            )
        acceptance = options.target_acceptance or _TARGET_ACCEPTANCE
        largest = 2.0 * float(np.max(widths))

        return SamplingPlan(
            walkers=self.walkers,
            num_draws=options.num_steps - burnin,
            num_burnin_steps=burnin,
            sampling=options.evidence_sampling,
            step_size=first,
            target_acceptance=acceptance,
            largest_step_size=largest,
            seed=options.run_seed,
            execution=self.execution,
        )

    def prior_widths(self) -> np.ndarray:
        prior = self.potential(1).prior
        drawn = np.asarray(
            prior.sample((64, self.sim.num_parameters()), self.options.seed), np.float64
        )
        # Not the standard deviation, which heavy tails do not have.
        low, high = np.quantile(drawn, (0.16, 0.84), axis=0)
        return 0.5 * (high - low)

    def grid(self) -> Quadrature:
        options = self.options
        return make_grid(options.evidence_grid, options.evidence_nodes, options.evidence_power)

    def by(self, method: str) -> Evidence:
        start = time.monotonic()
        if method in ("smc", "frenkel_ladd"):
            parts = PartFiles(self.folder, "smc-" if method == "smc" else "springs-")
            evidence = self._smc(parts) if method == "smc" else self._frenkel_ladd(parts)
            start -= parts.seconds_saved
        else:
            energies, spent = self.from_prior()
            start = time.monotonic() - spent
            evidence = estimated(energies, method, self.grid())
        settings = {**evidence.settings, "seconds": round(time.monotonic() - start, 3)}
        return replace(evidence, method=method, settings=settings)

    def from_prior(self) -> tuple[Energies, float]:
        """Energies along the path from the prior, and their sampling time in seconds."""
        if self._from_prior is None:
            start = time.monotonic()
            grid = self.grid()
            plan = self.plan(self.prior_widths())
            parts = PartFiles(self.folder, "prior-")
            energies = energies_along(
                grid.path,
                self.potential,
                self.sampler,
                plan,
                self.progress.message,
                parts,
                self.progress,
            )
            spent = time.monotonic() - start + parts.seconds_saved
            self._from_prior = self._in_data_units(energies), spent
        return self._from_prior

    def _smc(self, parts: PartFiles) -> Evidence:
        options = self.options
        plan = self.plan(self.prior_widths())
        result = cooled(
            self.potential,
            self.sampler,
            plan,
            num_populations=options.num_populations,
            num_particles=options.num_particles,
            num_moves=options.num_moves,
            fraction=options.particle_fraction,
            say=self.progress.message,
            parts=parts,
        )
        settings: dict[str, Any] = {
            "populations": options.num_populations,
            "particles": options.num_particles,
        }
        settings |= {"stages": len(result.curve["path"]), "gradients": float(result.gradients)}
        notes = []
        if result.repeats.std() > 1.0:
            spread = f"{result.repeats.std():.2g}"
            notes.append(
                f"log Z of the populations spreads by {spread}: increase num_particles or "
                "num_moves."
            )
        curve = pd.DataFrame(result.curve)
        curve["log_ratio"] -= (curve["next"] - curve["path"]) * self._log_unit
        return Evidence(
            log_z=result.log_z - self._log_unit,
            error=result.error,
            method="smc",
            curve=curve,
            repeats=result.repeats - self._log_unit,
            notes=tuple(notes),
            settings=settings,
        )

    def _frenkel_ladd(self, parts: PartFiles) -> Evidence:
        springs, gradients = springs_at_minimum(self, parts)
        self.progress.message(f"Reference: {springs}.")

        def potential_of(copies: int):
            return SpringsPotential(self.potential(copies), springs)

        grid = self.grid()
        plan = self.plan(springs.std)
        energies = energies_along(
            grid.path,
            potential_of,
            self.sampler,
            plan,
            self.progress.message,
            parts,
            self.progress,
        )
        energies = self._in_data_units(energies)
        estimate = estimated(
            energies._replace(gradients=energies.gradients + gradients), "frenkel_ladd", grid
        )
        notes = list(estimate.notes)
        if (height := spike_at_reference(grid, estimate.curve["mean"].to_numpy())) is not None:
            notes.append(
                f"The integrand has a spike of {height:,.4g} at the springs, which the "
                "even grid mistakes for a slope. Use evidence_grid gauss_legendre, which "
                "has no point there."
            )
        return replace(estimate, notes=tuple(notes))


def springs_at_minimum(estimation, parts: PartFiles) -> tuple[Springs, float]:
    """Springs at a minimum, as wide as the posterior is there.

    Args:
        estimation: The estimate.
        parts: Keeps the minimum and the widths.

    Returns:
        The springs, and the number of gradients that they took.

    Raises:
        InputError: The prior has walls that are not a box.
    """
    options = estimation.options
    walkers = estimation.walkers
    prior = estimation.potential(1).prior
    if prior.walled and not isinstance(prior, Box):
        raise InputError(
            "method: frenkel_ladd supports only the walls of a box.",
            f"{prior}",
            "prior box, or no walls",
        )
    bound = (
        np.broadcast_to(prior.bound, (estimation.sim.num_parameters(),))
        if isinstance(prior, Box)
        else None
    )
    position = np.asarray(estimation.sim.walkers.position[:1])
    auxiliary = tuple(value[:1] for value in estimation.sim.walkers.auxiliary)
    steps = options.descent_steps

    def minimum() -> dict:
        state = descended(
            estimation.potential(1), position, auxiliary, steps, estimation.execution
        )[0]
        return {"centre": state[0].astype(np.float64)}

    centre = parts.part("minimum", minimum)["centre"]
    if bound is not None:
        centre = np.clip(centre, -bound, bound)
    plan = estimation.plan(estimation.prior_widths())
    chains = Chains(
        estimation.potential(walkers),
        estimation.sampler,
        plan.seed,
        plan.execution,
        role=" springs",
    )

    def widths() -> dict:
        place, step_size = tuned(
            chains, np.repeat(centre[None], walkers, axis=0), 1.0, plan.step_size, plan
        )
        place = chains.run(place, 1.0, step_size, max(plan.num_burnin_steps, 1)).position
        squares = np.zeros_like(centre)
        count = max(8, plan.num_draws // _EVERY)
        for _ in range(count):
            place = chains.run(place, 1.0, step_size, _EVERY).position
            squares += np.mean((place.astype(np.float64) - centre) ** 2, axis=0) / count
        return {"squares": squares}

    squares = parts.part("widths", widths, chains)["squares"]
    return Springs(centre, np.sqrt(np.maximum(squares, 1e-24)), bound), steps + chains.gradients
