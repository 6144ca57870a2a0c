"""log Z of a simulation, by one method or several."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tati_re.core.errors import nearest, refuse_if
from tati_re.core.front_door import front_door
from tati_re.evidence.energies import Energies
from tati_re.evidence.estimation import Estimation
from tati_re.evidence.result import NAMES, Evidence, Evidences
from tati_re.options.make import Options, make_options
from tati_re.runs.lock import one_writer
from tati_re.simulation.simulation import Simulation
from tati_re.system.system import refuse_fixed

_OBJECTS = ("sampler", "prior", "loss")


@front_door
def log_evidence(sim, method: str | None = None, **options: Any) -> Evidence:
    """Estimates log Z of a simulation with an error bar, Z = ∫ likelihood x prior.

    Z is the normalization of the posterior. The difference of log Z between two models on the same
    data is the log Bayes factor.

    Rule: energies E are sampled at points λ of a path from a normalized reference to the posterior,
    at each from reference^(1-λ) posterior^λ, and log Z is

        thermodynamic_integration   the integral of <-E> over λ from the prior, by the rule `evidence_grid`
        frenkel_ladd                the same from springs at a minimum, as wide as the posterior is there
        stepping_stone              Σ log <exp(-Δλ E)> over neighboring points, from the prior
        mbar                        all points at once by the multistate Bennett acceptance ratio, from the prior
        smc                         adaptive sequential Monte Carlo, from the prior: points chosen by themselves

    At λ = 0 draws from the reference are exact. The default sampler is HMC, with its step size
    tuned at each point. Each step uses all data.

    Cost: `evidence_nodes` x `num_walkers` x (`num_steps` + the way up) steps of the sampler.

    Args:
        sim: Model, data, a loss that is a likelihood (cross-entropy, or gaussian with `noise_std`),
            a proper prior.
        method: One of the names above. Default: None, the first of the option `method`,
            thermodynamic_integration.
        **options: Options for this call: `evidence_grid`, `evidence_nodes`, `evidence_power`,
            `evidence_sampling`, `num_particles`, `num_populations`, and those of a run
            (`num_steps`, `num_burnin_steps`, `sampler`, `step_size`, `num_leapfrog_steps`,
            `target_acceptance`, `seed`, ...). With `output`, a folder, every finished part (a point
            of the path, a tenth of the draws, a stage of smc) is kept there, and the same call goes
            on with what is there, to the same numbers; `overwrite` removes the parts of another
            estimate. Without it each call on a simulation draws further random numbers; `call`
            repeats those of an earlier one.

    Returns:
        `log_z`, `error`, `curve` and more (`tati_re.evidence.Evidence`).

    Raises:
        InputError: The loss is no likelihood, the prior is improper, or an option does not fit.
        SamplingError: An energy is not finite.

    Examples:
        >>> sim = tati_re.Simulation(data="two_clusters", loss="binary_crossentropy", seed=1, verbose=0)
        >>> print(tati_re.evidence.log_evidence(sim, num_steps=100, evidence_nodes=4).summary())
        log Z = -10... ± 0... by thermodynamic integration...
    """
    first = [method] if method is not None else _options(sim, None, options).method[:1]
    return log_evidences(sim, first, **options)[0]


@front_door
@one_writer
def log_evidences(sim, methods: Sequence[str] | None = None, **options: Any) -> Evidences:
    """Estimates log Z of a simulation by several methods.

    Methods that start from the prior share their energies.

    Args:
        sim: The simulation.
        methods: Names of methods. Default: None, the option `method`.
        **options: Options of the evidence, as for `log_evidence`.

    Returns:
        The estimates.

    Raises:
        InputError: The loss is not a likelihood, the prior is improper, or an option does not fit.
    """
    return prepared(sim, methods, **options).estimates()


@front_door
@one_writer
def sample_energies(sim, **options: Any) -> Energies:
    """Samples energies at the points of `evidence_grid`, from the prior to the posterior.

    Pass them to `estimated`.

    Args:
        sim: The simulation.
        **options: Options of the evidence, as for `log_evidence`.

    Returns:
        The energies.

    Raises:
        InputError: The loss is not a likelihood, the prior is improper, or an option does not fit.
    """
    return prepared(sim, **options).from_prior()[0]


def sample_parts(options: Options, folder: Path, method: str) -> None:
    """Keeps the parts of an estimate in a folder where other workers write too.

    It runs in a worker, which does not have the module of a command.

    Args:
        options: The options of the simulation and of the estimate.
        folder: The folder, which was opened before.
        method: Name of the method.
    """
    now = prepared(Simulation.from_options(options.resolved(verbose=0)), [method])
    now.folder = folder
    now.by(method)


def prepared(sim, methods: Sequence[str] | None = None, **options: Any) -> Estimation:
    """The checked estimation of `log_evidences`, not yet started.

    Args:
        sim: The simulation.
        methods: Names of methods. Default: None, the option `method`.
        **options: Options of the evidence, as for `log_evidence`.

    Raises:
        InputError: The posterior has no evidence, or an option does not fit.
    """
    problem = "workers: these estimates are computed by one process."
    expected = "no workers, or tati-evidence --workers"
    refuse_if(options.get("workers") is not None, problem, options.get("workers"), expected)
    chosen = _options(sim, methods, options)
    objects = {name: options[name] for name in _OBJECTS if _object(options, name)}
    if options.get("output") is None:
        chosen = sim.calls.numbered("evidence", chosen, options)
    estimation = Estimation(sim, chosen, {**sim.objects, **objects})
    sim.calls.count("evidence", chosen.seed, chosen.call or 1)
    if options.get("output") is not None:
        estimation.keep(options["output"], options.get("overwrite", False))
    return estimation


def _object(options: dict, name: str) -> bool:
    return name in options and not isinstance(options[name], str | None)


def _options(sim, methods, objects: dict[str, Any]) -> Options:
    named = {
        name: value
        for name, value in objects.items()
        if not _object(objects, name) or name not in _OBJECTS
    }
    if methods is not None:
        for name in methods:
            refuse_if(
                name not in NAMES,
                f"method: unknown name.{nearest(name, NAMES)}",
                repr(name),
                ", ".join(NAMES),
            )
        named["method"] = list(methods)
    refuse_fixed([name for name in named if name != "num_walkers"])
    return make_options(sim.options, **named)
