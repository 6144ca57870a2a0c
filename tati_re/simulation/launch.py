"""From a Simulation to a run in its folder: starting it, and saying what went wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tati_re._version import __version__
from tati_re.core.backend import tf, threads
from tati_re.core.errors import InputError, SamplingError
from tati_re.engine.driver import Driver, Outcome, Plan
from tati_re.engine.environment import TemporaryFolder, deterministic, versions
from tati_re.engine.loop import Loop
from tati_re.engine.observables import Observables
from tati_re.engine.progress import make_progress
from tati_re.engine.tensorboard import TensorBoard
from tati_re.exchange.choosing import ladder_sentences, unused_replica_options, with_replicas
from tati_re.exchange.noise_tests import noise_table
from tati_re.optimizers import make_optimizer
from tati_re.options import tati_names as aliases
from tati_re.options.make import Options, make_options
from tati_re.options.stages import PlannedStage, check_num_steps, check_stages, planned
from tati_re.posterior.evaluator import Evaluator
from tati_re.posterior.priors.choosing import too_hot, unused_prior_options
from tati_re.runs import files, manifest, run_folder
from tati_re.runs.single_files import check_single_files, single_files, trajectory_format
from tati_re.runs.storage import storing, write_whole
from tati_re.runs.tables import csv_text
from tati_re.samplers import Rung, make_sampler, tuned
from tati_re.samplers.choosing import unused_options, wrapped
from tati_re.samplers.importing import checked, made
from tati_re.samplers.schedules import TEMPERATURE_SCHEDULES, Factor, step_factor, temperature_factor
from tati_re.simulation import batch_norm
from tati_re.simulation.replica_starts import check_starts, given_starts, made_starts
from tati_re.simulation.run import Run
from tati_re.simulation.saved_model import read_directions, save_model
from tati_re.simulation.streaming import check_stream, prediction_averages
from tati_re.simulation.system import OBJECTS


def start_sampling(sim, options: Options, objects: dict[str, Any]) -> Run:
    """Starts `Simulation.sample`."""
    sampler = sampler_of(sim, options, objects)
    _check_batches(f"sampler: {sampler.name} is exact on the full batch only.", "BAOAB", sampler, sim, options)
    if options.num_burnin_steps >= options.num_steps:
        raise InputError(
            "num_burnin_steps leaves no steps to average over.",
            received=options.num_burnin_steps,
            expected=f"less than num_steps = {options.num_steps}",
        )
    if sampler.adapts and not options.num_burnin_steps:
        raise InputError(
            f"num_burnin_steps: {sampler.name} adapts, and does so only during the burn-in.",
            received=0,
            expected="some hundred, and fewer than num_steps",
        )
    method = exchanging(sampler, sim, options, objects)
    check_stream(options, sim.dataset, method)
    check_starts(options, objects.get("starts"), sim._position.shape, method.copies)
    copies = method.copies * options.num_walkers
    batch_norm.check_method(options, sim._system.flat, method, copies)
    return _start(sim, options, objects, "sample", method)


def start_fit(sim, options: Options, objects: dict[str, Any]) -> Run:
    """Starts `Simulation.fit`."""
    if "starts" in objects:
        raise InputError("starts belongs to sample.", expected="Simulation.parameters to say where fit starts")
    options = make_options(options, num_steps=check_num_steps(options))
    optimizer = optimizer_of(sim, options, objects)
    check_stages(options, optimizer, sim.dataset.num_examples)
    _check_batches(f"optimizer: {optimizer.name} works on the full batch only.", "adam", optimizer, sim, options)
    if optimizer.validates and sim.dataset.test_inputs is None:
        raise InputError(
            f"optimizer: {optimizer.name} stops by the loss on a test part, and the data have none.",
            received=sim.dataset.name,
            expected="test_fraction above 0, or ((inputs, labels), (test inputs, test labels))",
        )
    return _start(sim, options, objects, "fit", optimizer)


def sampler_of(sim, options: Options, objects: dict[str, Any]):
    """The sampler of a run, with what the options wrap around it."""
    flat = sim._system.flat
    given = objects.get("sampler")
    if given is None:
        sampler = make_sampler(options.sampler, options)
    else:
        sampler = tuned(made(given, options) if isinstance(given, type) else checked(given), options)
    sampler.check(options.step_size, options.kT, options.num_burnin_steps)
    sampler = wrapped(sampler, options, flat.tensor_names, flat.shapes, objects.get("mass"))
    reflects = not sampler.metropolis or options.walls == "reflect"
    prior = sim._system.prior(options, objects) if sampler.mixes_parameters and reflects else None
    if prior is not None and prior.walled:
        raise InputError(
            "covariance_blending: walls reflect parameter by parameter, which a full matrix does not keep.",
            received=f"prior {prior}",
            expected="a prior without hard walls, or sampler HMC with walls reject",
        )
    if options.control_variate and options.batch_size in (None, sim.dataset.num_examples):
        raise InputError(
            "control_variate: there is no noise to reduce.", received="the full batch", expected="a batch_size"
        )
    return sampler


def exchanging(sampler, sim, options: Options, objects: dict[str, Any]):
    """The sampler on the temperature ladder of the options; as it is where they have none."""
    exact = options.batch_size in (None, sim.dataset.num_examples)
    return with_replicas(sampler, options, exact, sim._system.prior(options, objects))


def optimizer_of(sim, options: Options, objects: dict[str, Any]):
    if (first := planned(options)[0].learning_rate) is not None:
        options = make_options(options, learning_rate=first)
    return make_optimizer(objects.get("optimizer", options.optimizer), options, sim._system.flat.shapes)


def _check_batches(sentence: str, other: str, method, sim, options: Options) -> None:
    """Refuses mini-batches for a method that is only right on all data."""
    if method.full_batch and options.batch_size not in (None, sim.dataset.num_examples):
        raise InputError(
            sentence,
            received=f"batch_size = {options.batch_size} of {sim.dataset.num_examples} examples",
            expected=f"no batch_size, or a method for mini-batches such as {other}",
        )


def potential_of(sim, options: Options, objects: dict[str, Any], kind: str, copies: int):
    """The potential of a run; layers act as in training in a fit, and in sampling with `batch_norm` batch."""
    fits = kind == "fit"
    return sim._system.potential(options, objects, fits or options.batch_norm == "batch", copies, fits)


def _start(sim, options: Options, objects: dict[str, Any], kind: str, method) -> Run:
    check_single_files(options)
    if options.full_every % options.record_every:
        raise InputError(
            "full_every: rows are recorded at other steps.",
            received=f"{options.full_every}, and record_every {options.record_every}",
            expected="a multiple of record_every",
        )
    copies = method.copies * options.num_walkers
    potential = potential_of(sim, options, objects, kind, copies)
    directions = read_directions(objects.get("directions", options.directions), potential.num_parameters)
    observables = Observables(method, potential.metric_name, objects.get("observables"))
    observables.check(tf.TensorSpec((copies, potential.num_parameters), potential.dtype))
    holder = None
    if options.output is None:
        holder = TemporaryFolder()
        folder = holder.folder
    else:
        folder = run_folder.prepare(options.output, options.overwrite)
    progress = make_progress(options.verbose)
    run = Running(sim, options, objects, kind, method, potential, directions, folder, progress)
    run.say_start()
    with storing(folder / files.MODEL):
        written = save_model(sim, folder / files.MODEL)
    if not written and options.output is not None:
        progress.message("The model cannot be written to a file: resume and save_model will need the model object.")
    with storing(folder / files.DIRECTIONS):
        # An old run's directions would be taken for those of this run when it is resumed.
        (folder / files.DIRECTIONS).unlink(missing_ok=True)
        if directions is not None:
            np.save(folder / files.DIRECTIONS, directions)
    driver, carry = run.begin()
    if not run.compiles(carry):
        if options.execution == "xla":
            raise InputError(
                "execution: XLA cannot compile this model.",
                received=f"xla, walkers {potential.walker_evaluation}",
                expected="auto or graph",
            )
        progress.message("XLA cannot compile this model: the steps run as a graph.")
        run = Running(sim, options, objects, kind, method, potential, directions, folder, progress, "graph")
        driver, carry = run.begin()
    return run.finish(driver, carry, holder)


def _groups_of(sim, options: Options) -> dict[str, int]:
    """The tensors whose temperatures are recorded, with their sizes; none without `group_temperatures`."""
    flat = sim._system.flat
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in flat.shapes]
    return dict(zip(flat.tensor_names, sizes, strict=True)) if options.group_temperatures else {}


class Running:
    """What a run needs, put together."""

    def __init__(
        self, sim, options, objects, kind, method, potential, directions, folder, progress, execution=None
    ) -> None:
        self.sim, self.options, self.objects, self.kind, self.method = sim, options, objects, kind, method
        self.potential, self.directions, self.folder, self.progress = potential, directions, folder, progress
        self.execution = execution or sim._system.execution(options)
        own = {**potential.columns, **(objects.get("observables") or {})}
        self.observables = Observables(method, potential.metric_name, own, options.full_every, _groups_of(sim, options))
        if kind == "fit" and options.stages:
            self.stages = planned(options)
            parts = [sim._system.batches(options, stage.batch_size, k) for k, stage in enumerate(self.stages)]
            potentials = [potential.with_batches(batches) for batches in parts]
        else:
            self.stages = [PlannedStage(0, options.num_steps, None, options.batch_size)]
            potentials = [potential]
        self.loops = [self._loop(*pair) for pair in zip(potentials, self.stages, strict=True)]
        self.loop, self.potential = self.loops[0], potentials[0]
        self._starts: tuple[np.ndarray, tuple] | None = None
        self.meaning = self.potential.describe("the examples of each stage" if len(self.stages) > 1 else None)

    def _loop(self, potential, stage: PlannedStage) -> Loop:
        options, sampling = self.options, self.kind == "sample"
        beta = options.beta if sampling else float("inf")
        values = (beta, 1.0, options.step_size if sampling else self._rate(stage))
        if self.method.ladder is not None:
            values = [column[0] for column in self.method.ladder]
        rung = Rung(*(tf.fill([potential.num_walkers], tf.constant(value, tf.float64)) for value in values))
        return Loop(
            potential,
            self.method,
            self.observables,
            rung,
            options.seed,
            self.execution,
            options.record_every,
            options.trajectory_every,
            options.num_burnin_steps if sampling else 0,
            self.directions,
            *self._schedules(),
            first_step=stage.first_step,
            kept=options.num_walkers if options.trajectory_rungs == "target" else None,
            num_steps=options.num_steps - stage.first_step,
            limits=self.sim.limits,
        )

    def _rate(self, stage: PlannedStage) -> float:
        """The learning rate of a stage: its own, that of an optimizer object, or that of the options."""
        rates = (stage.learning_rate, self.method.learning_rate, self.options.learning_rate)
        return next(rate for rate in rates if rate is not None)

    def _schedules(self) -> tuple[Factor | None, Factor | None]:
        """What step size and temperature are multiplied with."""
        if self.kind != "sample":
            return None, None
        given = (self.objects.get(name) for name in ("step_schedule", "temperature_schedule"))
        return step_factor(self.options, next(given)), temperature_factor(self.options, next(given))

    def say_start(self) -> None:
        """Says what is sampled, in words."""
        flat, options = self.sim._system.flat, self.options
        fixed = f" ({flat.num_fixed} more are fixed)" if flat.num_fixed else ""
        target = f"temperature {options.kT:g}" if self.kind == "sample" else "to its minimum"
        self.progress.message(
            f"{self.method.name} on {self.sim.dataset.name}: {flat.num_parameters} parameters{fixed}, "
            f"{options.num_walkers} walker(s), {target}."
        )
        self.progress.message(self.meaning + ".")
        for sentence in [*self.potential.notices(), *aliases.sentences(options)]:
            self.progress.message(sentence)
        if self.sim._start_sentence is not None:
            self.progress.message(self.sim._start_sentence)
        for number, (stage, loop) in enumerate(zip(self.stages, self.loops, strict=True), 1):
            if len(self.stages) > 1:
                batch = "all examples" if loop.potential.batches.full else f"mini-batches of {stage.batch_size}"
                self.progress.message(
                    f"Stage {number}: steps {stage.first_step + 1} to {stage.last_step}, "
                    f"learning rate {self._rate(stage):g}, {batch}."
                )
        for sentence in ladder_sentences(self.method, self.potential):
            self.progress.message(sentence)
        unused = [*unused_options(options, self.method), *unused_replica_options(options, self.method)]
        betas = [options.beta] if self.method.ladder is None else self.method.ladder[0]
        if self.kind == "sample" and (hot := too_hot(self.potential.prior, 1 / float(np.min(betas)))):
            self.progress.message(hot)
        if other := [] if "prior" in self.objects else unused_prior_options(options):
            self.progress.message(f"Not used by the prior as it is set up: {', '.join(other)}.")
        if sentence := self.method.swap_bias:
            self.progress.message(sentence)
        if self.method.bias is not None and not self.potential.batches.full:
            self.progress.message(
                "bias_energies batch: forces and weights see the bias at the noisy energies of mini-batches, so that "
                "the run samples a law near the one asked for."
            )
        if self.kind == "sample" and unused:
            self.progress.message(f"Not used by {self.method.name} as it is set up: {', '.join(unused)}.")
        said = batch_norm.sentence(options, flat) if self.kind == "sample" else None
        if said:
            self.progress.message(said)

    def driver(self) -> Driver:
        options, count = self.options, self.potential.num_parameters
        names = (
            self.sim.parameter_names() if self.directions is None else [f"c{i}" for i in range(len(self.directions))]
        )
        known = self.kind == "sample" and "temperature_schedule" not in self.objects
        known = known and options.temperature_schedule in TEMPERATURE_SCHEDULES
        half = 0.5 * count if known else float("nan")
        kinetic = half if self.method.has_momentum else float("nan")
        virial = half if self.potential.prior.proper and not self.potential.prior.walled else float("nan")
        chosen = trajectory_format(options, len(names))
        self.copies = single_files(options, chosen)
        self.tensorboard = TensorBoard(options.tensorboard)
        plan = Plan(
            num_steps=options.num_steps,
            checkpoint_seconds=options.checkpoint_seconds,
            max_time=options.max_time,
            trajectory_format=chosen,
            parameter_names=names,
            expected=(kinetic, virial),
            callbacks=(self.copies, self.tensorboard, *self.objects.get("callbacks", ())),
        )
        averages = prediction_averages(self.sim, options, self.potential) if self.kind == "sample" else None
        driver = Driver(self.folder, self.loops, plan, self.progress, averages, self.sim.limits)
        driver.say_size()
        return driver

    def begin(self):
        """Writes the checkpoint of step 0 and the manifest: from here on the run can be resumed."""
        driver = self.driver()
        self._starts = self.guard(self._first_values)
        carry = self.guard(lambda: driver.begin(*self.start_values()))
        manifest.write(self.folder, self.manifest())
        return driver, carry

    def start_values(self) -> tuple[np.ndarray, tuple]:
        """Position and auxiliary variables of every copy at step 0; those of the walkers where a run goes on."""
        return self._starts or self._where_the_walkers_are()

    def _first_values(self) -> tuple[np.ndarray, tuple]:
        position, auxiliary = self._where_the_walkers_are()
        if self.kind != "sample":
            return position, auxiliary
        if (given := self.objects.get("starts")) is not None:
            return given_starts(given, position), auxiliary
        if len(position) == self.options.num_walkers or self.options.replica_start == "same":
            return position, auxiliary
        system = self.sim._system
        return made_starts(system, self.options, self.objects, position, auxiliary, self.execution), auxiliary

    def _where_the_walkers_are(self) -> tuple[np.ndarray, tuple]:
        sim, rungs = self.sim, self.potential.num_walkers // self.options.num_walkers

        def repeated(value):
            return np.tile(value, (rungs,) + (1,) * (value.ndim - 1)) if rungs > 1 else value

        return repeated(sim._position), tuple(repeated(value) for value in sim._auxiliary)

    def manifest(self) -> dict[str, Any]:
        flat, loop = self.sim._system.flat, self.loop
        return {
            "kind": self.kind,
            "tati_re": __version__,
            "versions": versions(),
            "options": self.options.model_dump(exclude_none=True, exclude={"resume", "overwrite"}),
            "given": sorted(self.options.explicit - {"resume", "overwrite"}),
            "objects": sorted(set(OBJECTS) & set(self.objects)),
            "observables": sorted(self.observables.extra),
            "seed": self.options.seed,
            "threads": threads(),
            "execution": self.execution,
            "walker_evaluation": ", ".join(dict.fromkeys(each.potential.walker_evaluation for each in self.loops)),
            "chunk_steps": loop.chunk_steps,
            "meaning": self.meaning,
            "temperature": self.options.kT,
            "method": self.method.get_config(),
            "loss": self.potential.loss.get_config(),
            "prior": self.potential.prior.get_config(),
            "prior_proper": self.potential.prior.proper,
            "prior_walled": self.potential.prior.walled,
            "parameters": flat.described(),
            "dataset": {
                "name": self.sim.dataset.name,
                "fingerprint": self.sim.dataset.fingerprint(),
                "num_examples": self.sim.dataset.num_examples,
                **self.sim.dataset.get_config(),
            },
        }

    def finish(self, driver: Driver, carry, holder) -> Run:
        """Runs to the end and leaves the walkers where they arrived."""
        self.tensorboard.begin(driver.step)
        try:
            carry, outcome = self.guard(lambda: driver.run(carry))
        finally:
            self.copies(self.folder, driver.step, last=True)
        sim, state = self.sim, carry.state
        there = slice(None)
        if self.method.by_rung:
            there = np.asarray(self.method.order(state))[: self.options.num_walkers]
        sim._position = np.array(state.position)[there]
        if self.method.has_momentum:
            sim._momenta = np.array(state.momentum)[there]
        sim._auxiliary = tuple(np.array(value)[there] for value in carry.auxiliary)
        sim._forget()
        sim._start_sentence = None
        if outcome is Outcome.FINISHED and self.kind == "sample":
            self.guard(lambda: self._test_noise(carry))
        if outcome is not Outcome.FINISHED:
            self.progress.message(
                f"{outcome.value} Step {driver.step} of {self.options.num_steps}; tati-sample --resume {self.folder}, "
                f"or Simulation.resume({str(self.folder)!r})."
            )
        if self.kind == "fit" and (self.folder / files.MODEL).exists():
            with storing(self.folder / files.MODEL):
                save_model(sim, self.folder / files.MODEL)
        if self.options.save_model is not None and outcome is Outcome.FINISHED:
            self._save_model(Path(self.options.save_model))
        run = Run(self.folder)
        run._holder = holder
        return run

    def _save_model(self, path: Path) -> None:
        with storing(path):
            if not save_model(self.sim, path if path.suffix == ".keras" else Path(f"{path}.keras")):
                self.progress.message("save_model: the model cannot be written to a file.")

    def _test_noise(self, carry) -> None:
        """Writes noise.csv, where swaps saw mini-batches."""
        loop, first = self.loops[-1], self.options.num_steps + 1
        table = noise_table(
            loop.potential, self.method, carry.state, carry.auxiliary, loop.rung, self.options.seed, first
        )
        if table is not None:
            write_whole(self.folder / files.NOISE, csv_text(table))

    def compiles(self, carry) -> bool:
        """Compiles the steps without taking one; `False` where XLA refuses."""
        if self.execution == "eager":
            return True
        try:
            with deterministic():
                for loop in self.loops:
                    loop.prepare(carry.state)
                    loop.run(carry, loop.first_step + 1, 0)
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            if self.execution != "xla":
                raise
            return False
        return True

    def guard(self, action):
        """Runs an action under op determinism; explains a potential that is no longer finite."""
        try:
            with deterministic():
                return action()
        except SamplingError as error:
            kept = "" if self.options.output is None or not error.step else f" What came before is in {self.folder}."
            raise SamplingError(f"{error} {self._advice(error)}{kept}", error.step, error.walker) from None

    def _advice(self, error: SamplingError) -> str:
        """Compares the step size with the limit of stability at the start position."""
        walker, (position, auxiliary) = error.walker, self.start_values()
        if error.step == 0:
            inside = np.isfinite(self.potential.prior.log_prob(tf.constant(position)))[walker]
            outside = f"The parameters start outside of the prior, {self.potential.prior}: set them, or widen it."
            return "Look for infinities in data, loss or model at its start." if inside else outside
        if self.kind == "fit":
            return "Try a smaller learning_rate."
        engine = Evaluator(self.potential, False)
        try:
            curvature = engine.largest_curvature(position, walker, engine.batch(0), auxiliary)
        except tf.errors.OpError:
            curvature = float("nan")
        step_size = self.options.step_size
        if not (np.isfinite(curvature) and curvature > 0):
            return "Look for infinities in data, loss or model at its start."
        limit = 2 / np.sqrt(curvature) if self.method.has_momentum else 2 / curvature
        formula = "2/ω_max" if self.method.has_momentum else "2/k_max"
        found = f"the limit of stability at the start, {formula} = {limit:.3g} from a few Lanczos steps"
        if step_size >= limit:
            return f"step_size {step_size:g} is too large: {found}."
        return f"step_size {step_size:g} is below {found}; the potential may be steeper elsewhere: try a smaller one."
