"""From a request to a run in its folder."""

import contextlib
import shutil
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tati_re.core.backend import deterministic, tf
from tati_re.core.errors import InputError, SamplingError, WorkersLost, refuse_if
from tati_re.core.facets import temperatures_of, tuning_of
from tati_re.core.process.exit_status import FINISHED
from tati_re.core.process.interruption import BARE, saying, stop, stopping
from tati_re.engine.driver import Driver, Outcome
from tati_re.engine.environment import TemporaryFolder
from tati_re.engine.loop import Carry
from tati_re.engine.progress import make_progress
from tati_re.exchange.noise_tests import noise_table
from tati_re.launch.calls import Calls
from tati_re.launch.checks import check_request
from tati_re.launch.description import manifest_of
from tati_re.launch.ending import Ending
from tati_re.launch.finite_starts import make_finite
from tati_re.launch.loops import RunLoops
from tati_re.launch.opening import release
from tati_re.launch.predictor import choose_predictor
from tati_re.launch.request import Request
from tati_re.launch.run import Run
from tati_re.launch.run_heating import RunHeating
from tati_re.launch.run_plan import outputs_of, plan_of
from tati_re.launch.start_messages import start_messages
from tati_re.launch.starts import first_values, on_all_rungs
from tati_re.launch.step_size_advice import divergence_advice
from tati_re.options.make import make_options
from tati_re.posterior.evaluator import Evaluator
from tati_re.posterior.priors import Tether
from tati_re.prediction.held_out import compare_at_end
from tati_re.prediction.stacking import weigh_at_end
from tati_re.runs import files, manifest, run_folder
from tati_re.runs.csv_table import frame_text
from tati_re.runs.fits import write_fits
from tati_re.runs.lock import writing
from tati_re.runs.positions import Positions
from tati_re.runs.run import RunFiles
from tati_re.runs.storage import made, replacing, storing, write_whole
from tati_re.summary.outcome import certificate_status, note_failed_checks
from tati_re.summary.screen import end_screen
from tati_re.summary.summary import details
from tati_re.system.saved_model import save_model
from tati_re.system.walkers import Walkers
from tati_re.tuning.tuner import LEARNT, NOT_SETTLED


def launch(request: Request, walkers: Walkers, calls: Calls, brief: bool = False) -> Run:
    """Starts a run, notes it among the calls, and takes it to its end.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation. They stay where they arrive.
        calls: The calls of the Simulation so far.
        brief: Whether to say nothing at the start and the end. Default: False.
    """
    with started(request, walkers, calls, brief) as (running, carry, temporary):
        return running.finish(carry, temporary)


def launch_finite(request: Request, walkers: Walkers, calls: Calls, brief: bool = False) -> Run:
    """Launches a run; walkers of a network are drawn again if U is not finite at their start.

    This happens only if the user has not placed the walkers.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation. They stay where they arrive.
        calls: The calls of the Simulation so far.
        brief: Whether to say nothing at the start and the end. Default: False.
    """
    system = request.system
    free = not walkers.placed and "starts" not in request.objects
    drawn = request.options.walker_start in ("fresh", "fit")
    built = not ({"model"} & {*request.objects} or request.options.model)
    try:
        return launch(request, walkers, calls, brief)
    except WorkersLost:
        raise
    except SamplingError as error:
        if error.step or not (free and system.has_data and (drawn or built)):
            raise
    make_finite(system, walkers, request.options, request.objects)
    return launch(request, walkers, calls, brief)


@contextlib.contextmanager
def started(
    request: Request, walkers: Walkers, calls: Calls, brief: bool = False
) -> Iterator[tuple["Launch", Carry, TemporaryFolder | None]]:
    """Starts a run, before its first step, as the only one that writes in its folder.

    If the start fails, it leaves no files.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation.
        calls: The calls of the Simulation so far; this one is noted.
        brief: Whether to say nothing at the start and the end. Default: False.

    Yields:
        The run, its carry at step 0, and its temporary folder, None if the option `output` names a
        folder.
    """
    check_request(request)
    options = request.options
    if request.objects.get("starts") is None:
        request.system.check_start(walkers.position)
    release()
    temporary = TemporaryFolder() if options.output is None else None
    with stopping(options.requeue_signal), writing(options.output):
        if temporary is not None:
            folder = start = temporary.folder
        else:
            folder = run_folder.prepare(str(options.output), options.overwrite)
            start = made(folder / files.START)
        try:
            with saying(lambda: "Interrupted before the first step: nothing was saved."):
                running, carry = _begun(request, walkers, start, brief)
                running.guarded(lambda: running.write_manifest(folder))
        except BaseException:
            # No step was taken: nothing may stand in the way of the same call again.
            if not files.is_started(folder):
                shutil.rmtree(start, ignore_errors=True)
            raise
        calls.count(request.kind, options.seed, options.call or 1)
        yield running, carry, temporary


def _begun(request: Request, walkers: Walkers, folder: Path, brief: bool) -> tuple["Launch", Carry]:
    """The run compiled, with all that a resume needs on the disk."""
    system = request.system
    execution = system.execution(request.options, request.copies, not request.samples)
    if walkers.fits_alone and request.samples:
        execution = "eager"  # nothing is compiled for a run without steps
    running = Launch(
        request=request, walkers=walkers, folder=folder, execution=execution, brief=brief
    )
    if not brief:
        details = request.options.verbose > 1
        for sentence in start_messages(running.loops, walkers.sentence, details):
            running.progress.message(sentence)
    with storing(folder / files.MODEL):
        written = not system.has_data or save_model(system.flat, walkers, folder / files.MODEL)
    if not written and request.options.output is not None:
        sentence = "The model cannot be written to a file. Pass the model object again to resume and save_model."
        running.progress.message(sentence)
    if request.directions is not None:
        with replacing(folder / files.DIRECTIONS) as file:
            np.save(file, request.directions)
    if walkers.fits is not None and request.samples:
        write_fits(folder, walkers.fits)
    carry = running.begin()
    if walkers.fits_alone and request.samples:
        return running, carry
    if not running.guarded(lambda: running.loops.compiles(carry)):
        received = f"xla, walkers {request.potential.walker_evaluation}"
        forced = request.options.execution == "xla"
        refuse_if(forced, "execution: XLA cannot compile this model.", received, "auto or graph")
        running.progress.message("XLA cannot compile this model. Running the steps as a graph.")
        running.loops.close()
        graph = request.options.resolved(execution="graph")
        running = Launch(
            request=replace(request, options=graph),
            walkers=walkers,
            folder=folder,
            execution="graph",
            brief=brief,
        )
        carry = running.begin()
    return running, carry


class Launch:
    """Builds loop, driver and files of one run, and finishes it.

    Args:
        request: The request of the run.
        walkers: The walkers of the Simulation. They move when the run ends.
        folder: An empty folder, or the folder of the run to resume.
        execution: "xla", "graph" or "eager".
        brief: Whether to say nothing at the start and the end. Default: False.
    """

    def __init__(
        self, request: Request, walkers: Walkers, folder: Path, execution: str, brief: bool = False
    ) -> None:
        self.request = request
        self.walkers = walkers
        self.folder = folder
        self._brief = brief
        self._fits = walkers.fits
        self._is_without_chains = walkers.fits_alone and request.samples
        self.progress = make_progress(request.options.verbose)
        self.loops = RunLoops(request, execution, self.progress.message)
        self.heating = RunHeating(request, self.loops, has_chains=not self._is_without_chains)
        self._starts: tuple[np.ndarray, tuple] | None = None
        self._expected: dict[str, Any] = {}
        self.outputs = outputs_of(request)
        self.ending = Ending(request, walkers, folder)
        self.driver = self._driver()
        if self.heating.is_tuned:
            self.heating.limit()

    def _driver(self) -> Driver:
        plan = plan_of(
            self.request,
            self.outputs,
            looks=self.ending if self.ending.conditions else None,
            burnt_in=self._burnt_in if self.request.samples else None,
        )
        return Driver(self.folder, self.loops.loops, plan, self.progress)

    def _burnt_in(self, last: int, tuned: str, carry: Carry) -> None:
        """Says what the burn-in has tuned, and writes down where it ended and what noise heats from
        there on.
        """
        if self.driver.burnin_cut is not None:
            cut = {"step": self.driver.burnin_cut, "by": "max_time"}
            manifest.note(self.folder, burnin_cut=cut)
        if not tuned:
            return
        self.progress.detail(f"Burn-in of {last:,} steps: {tuned}.")
        stored = manifest.read(self.folder)
        entries: dict[str, Any] = {
            "burnin_found": tuned,
            "options": {"num_burnin_steps": last},
            "burnin_open": tuned.partition(NOT_SETTLED)[2] or stored.burnin_open or "",
        }
        if self.heating.is_tuned:
            heating = self.heating.expected(carry)
            entries["heating"] = {**stored.heating.table, "start": heating}
            self.heating.say(heating, self.progress)
        manifest.note(self.folder, **entries)

    def begin(self):
        """Writes the checkpoint of step 0."""
        self.driver.say_size()
        self._starts = self.guarded(
            lambda: first_values(self.request, self.walkers, self.loops.execution)
        )
        carry = self.guarded(lambda: self.driver.begin(*self._start_values()))
        if self.heating.is_there:
            self._expected = {"heating": {"start": self.heating.expected(carry)}}
        return carry

    def write_manifest(self, folder: Path) -> None:
        """Writes the manifest, from which on the run can be resumed, and takes its place in the
        folder.
        """
        options = self.request.options
        ends = tuning_of(self.request.method).finds_end or not self.request.samples
        learns = options.burnin and "num_burnin_steps" not in options.explicit and not ends
        unseen = {"burnin_open": LEARNT} if learns else {}
        manifest.write(
            self.folder,
            manifest_of(self.loops) | unseen | self._expected | self._center() | self._choice(),
        )
        run_folder.replace_with_start(folder)
        self.folder = self.ending.folder = self.driver.folder = folder
        self.driver.tables.move(folder)

    def _choice(self) -> dict[str, Any]:
        """How the model was chosen, where a run for prediction begins."""
        choice = self.walkers.choice
        return {"choice": choice} if choice is not None and self.request.samples else {}

    def _center(self) -> dict[str, Any]:
        """The mean loss at the center of a tether, where it has one."""
        request = self.request
        if not isinstance(prior := request.potential.prior, Tether):
            return {}
        options = make_options(request.options, batch_size=None)
        engine = Evaluator(request.system.potential(options, request.objects, copies=1), False)
        auxiliary = tuple(value[:1] for value in self.walkers.auxiliary)
        center = prior.center[None].astype(self.walkers.position.dtype)
        return {"loss_at_center": float(engine.energy(center, engine.batch(0), auxiliary).loss[0])}

    def go_on(self):
        """Reads the checkpoint of a run that was stopped."""
        self.driver.say_size()
        carry = self.guarded(lambda: self.driver.go_on(*self._start_values()))
        run_folder.remove_leftovers(self.folder, ("simulation", "engine"))
        return carry

    def _start_values(self) -> tuple[np.ndarray, tuple]:
        """Position and auxiliary variables of every copy at step 0; those of the walkers where a
        run goes on.
        """
        return self._starts or on_all_rungs(self.request, self.walkers)

    def finish(
        self, carry: Carry, temporary: TemporaryFolder | None = None, outcome: Outcome | None = None
    ) -> Run:
        """Runs to the end, and leaves the walkers where they arrived.

        Args:
            carry: The state of the run.
            temporary: The temporary folder of a run without `output`. Default: None.
            outcome: How the run ended, if its steps are already taken. Default: None, this call
                takes them.
        """
        with contextlib.closing(self.loops):
            return self._finished(carry, temporary, outcome)

    def _finished(
        self, carry: Carry, temporary: TemporaryFolder | None, outcome: Outcome | None
    ) -> Run:
        """Takes the steps that are left, where there is no `outcome` yet, and ends the run."""
        driver = self.driver
        options = self.request.options
        if self._expected and not self.heating.is_tuned:
            self.heating.say(self._expected["heating"]["start"], self.progress)
        self.outputs.tensorboard.begin(driver.step)

        alone = outcome is None
        if self._is_without_chains:
            outcome = Outcome.OUT_OF_TIME
        carry, outcome = self._driven(carry, temporary, outcome)
        self._arrive(carry)
        self._note_workers()
        run = self._run_of(temporary)
        outcome = self._planned(carry, outcome, is_stored=temporary is None)

        stopped = outcome is not Outcome.FINISHED or bool(driver.signal)
        if self.request.samples:
            self._end_sampling(carry, run, outcome, stopped)
        if not self.request.samples:
            self._save_fit()
        elif stopped:
            self.guarded(lambda: self._leave_positions(carry, outcome))
        if options.save_model is not None and outcome is Outcome.FINISHED:
            self._save_model(Path(options.save_model))

        if self.request.samples and not driver.signal:
            weigh_at_end(run)
            self.guarded(lambda: choose_predictor(run))
            compare_at_end(run)
        run.exit_status = self._exit_status(outcome, run)
        if alone and self.request.samples and not self._brief and not driver.signal:
            self._print_end(run)
        if stopped:
            self._say_stopped(temporary, outcome, alone)

        if driver.signal not in (0, signal.SIGINT):
            stop(driver.signal, BARE if temporary is not None and not options.verbose else "")
        return run

    def _print_end(self, run: Run) -> None:
        """Prints certificate and next steps, unless the run is quiet."""
        verbose = self.request.options.verbose
        if verbose > 1:
            self.progress.message(f"\n{details(run)}")
        if verbose > 0:
            self.progress.message(f"\n{end_screen(run)}")

    def _exit_status(self, outcome: Outcome, run: Run) -> int:
        """The status of the command; that of the certificate if the run is complete and it was
        asked for.
        """
        status = self.driver.exit_status(outcome)
        is_required = self.request.options.require_certificate and self.request.samples
        if is_required and status == FINISHED:
            return self.guarded(lambda: certificate_status(run))
        return status

    def _planned(self, carry: Carry, outcome: Outcome, is_stored: bool) -> Outcome:
        """The outcome of a run, finished where a run for prediction used its time as planned."""
        request = self.request
        planned = request.samples and request.options.goal == "predict"
        if not planned or outcome is not Outcome.OUT_OF_TIME or self.driver.signal:
            return outcome
        self.guarded(lambda: self._leave_positions(carry, outcome))
        onward = f" Continue with:\n  {manifest.going_on(self.folder)}" if is_stored else ""
        if self._is_without_chains:
            return Outcome.FINISHED
        step = self.driver.step
        self.progress.message(f"max_time is used up at step {step:,}; the run ends here.{onward}")
        return Outcome.FINISHED

    def _driven(
        self, carry: Carry, temporary: TemporaryFolder | None, outcome: Outcome | None
    ) -> tuple[Any, Outcome]:
        """The state and the outcome after the last step; files that are written once are whole
        then, whatever happened.
        """
        driver = self.driver
        try:
            if outcome is None:
                carry, outcome = self.guarded(lambda: driver.run(carry))
        except WorkersLost as lost:
            where = "" if temporary is not None else f" {driver.truth()}"
            raise WorkersLost(f"{lost}{where}", lost.step, lost.walker) from None
        finally:
            self.outputs.copies(self.folder, driver.step, last=True)
        return carry, outcome

    def _note_workers(self) -> None:
        """Writes which workers took part, if there were any."""
        workers = self.loops.workers
        if workers is not None and workers.team.workers:
            manifest.note(self.folder, workers=workers.described())

    def _end_sampling(self, carry: Carry, run: Run, outcome: Outcome, stopped: bool) -> None:
        """Notes convergence, heating and failed checks, as far as the run came."""
        driver = self.driver
        if not (driver.signal or self._is_without_chains):
            self.guarded(lambda: self.ending.finish(run, driver.step, not stopped))

        if outcome is Outcome.FINISHED:
            self.guarded(lambda: self._test_noise(carry))
            if self.heating.is_there:
                before = manifest.read(self.folder).heating.table
                heating = {**before, "end": self.heating.expected(carry)}
                manifest.note(self.folder, heating=heating)
            if self.request.at_end is not None:
                self.progress.message("Comparing with chains from an equilibrium draw (certify).")
                manifest.note(self.folder, **self.request.at_end(run))

        if not driver.signal:
            self.guarded(lambda: note_failed_checks(run))

    def _say_stopped(
        self, temporary: TemporaryFolder | None, outcome: Outcome, alone: bool
    ) -> None:
        """Says at which step the run stopped, why, and how it goes on."""
        driver = self.driver
        fits = self._brief and not self.request.samples and outcome is Outcome.OUT_OF_TIME
        sentence = "A quarter of max_time is used up; the fits end here." if fits else outcome.value
        sentence += f" Step {driver.step} of {driver.planned}."
        if temporary is None and alone:
            sentence += f" Continue with:\n  {manifest.going_on(self.folder)}"

        self.progress.message(sentence)
        if driver.signal and not self.request.options.verbose and temporary is None:
            print(sentence, file=sys.stderr)

    def _save_fit(self) -> None:
        """Writes the model with the parameters of a fit into its folder."""
        model = self.folder / files.MODEL
        with storing(model):
            save_model(self.request.system.flat, self.walkers, model)

    def _save_model(self, path: Path) -> None:
        """Writes the model where the option `save_model` says."""
        flat = self.request.system.flat
        with storing(path):
            named = path if path.suffix == ".keras" else Path(f"{path}.keras")
            loss = self.request.potential.loss
            preparation = self.request.system.dataset.preparation
            if not save_model(flat, self.walkers, named, preparation, loss.predicts_noise):
                self.progress.message("save_model: the model cannot be written to a file.")

    def _run_of(self, temporary: TemporaryFolder | None) -> Run:
        """The run, with its data and what was given as objects."""
        system = self.request.system
        run = Run(self.folder, temporary)
        run.data = system.dataset
        run.objects = {**self.request.objects}
        if system.has_data:
            run.objects["model"] = system.model
        return run

    def _leave_positions(self, carry: Carry, outcome: Outcome) -> None:
        """Stores the last position of each walker where a run ends before its first draw is stored,
        so that it can predict, and says so; the manifest has both facts. A run for prediction
        stores its fits.
        """
        driver = self.driver
        line = self.driver.loop.timeline
        if not line.trajectory_every or _has_draws(RunFiles(self.folder)):
            return

        if self._fits is not None and self.request.options.goal == "predict":
            self._leave_fits(carry)
            return
        step = driver.step
        walkers = len(self.walkers.position)
        driver.store_last_positions(carry)
        entries: dict[str, Any] = {"last_positions": {"step": step}}
        why = f"No position was stored by step {step:,}"
        if step <= line.num_burnin_steps:
            by = "a signal" if driver.signal or outcome is Outcome.INTERRUPTED else "max_time"
            entries["burnin_cut"] = {"step": step, "by": by}
            why = f"The burn-in was cut off at step {step:,} by {by}"
        manifest.note(self.folder, **entries)

        number = (
            "the last position" if walkers == 1 else f"the last positions of the {walkers} walkers"
        )
        start = (
            " (a few steps after their fits)" if self.request.options.walker_start == "fit" else ""
        )
        sentence = (
            f"{why}: predictions use {number}{start}, which are not draws from the posterior."
        )
        self.progress.message(sentence)

    def _leave_fits(self, carry: Carry) -> None:
        """Stores the fits in place of draws, since chains that left them before they have settled
        predict worse, and says so.
        """
        assert self._fits is not None
        driver = self.driver
        position = tf.constant(self._fits.positions, carry.state.position.dtype)
        carry = carry._replace(state=carry.state._replace(position=position))
        if driver.step:
            carry = driver.loop.evaluated(carry, driver.step)
        driver.store_last_positions(carry)
        cut = {"step": driver.step, "by": "max_time"}
        noted = {"last_positions": {"step": driver.step, "of": "fits"}, "burnin_cut": cut}
        manifest.note(self.folder, **noted)
        if not self._is_without_chains:
            self.progress.message(
                f"Time ran out before the first draw: predictions use only the {len(position)} fits."
            )

    def there(self, carry: Carry) -> Any:
        """Which copies are at the target."""
        ladder = temperatures_of(self.request.method)
        order = (
            np.asarray(ladder.order(carry.state))
            if ladder.by_rung
            else np.arange(self.request.copies)
        )
        return order[: self.request.options.num_walkers]

    def _arrive(self, carry: Carry) -> None:
        """Leaves the walkers where the copies at the target are."""
        walkers = self.walkers
        state = carry.state
        method = self.request.method
        there = self.there(carry)
        walkers.position = np.array(state.position)[there]
        if method.has_momentum:
            walkers.momentum = np.array(state.momentum)[there]
        walkers.auxiliary = tuple(np.array(value)[there] for value in carry.auxiliary)
        walkers.sentence = None
        walkers.drawn = None
        walkers.fits = None
        walkers.fits_alone = False

    def _test_noise(self, carry: Carry) -> None:
        """Writes noise.csv, where swaps saw mini-batches."""
        loop = self.loops.loops[-1]
        options = self.request.options
        table = noise_table(
            loop.potential,
            self.request.method,
            carry.state,
            carry.auxiliary,
            loop.rung,
            seed=options.run_seed,
            first_batch=options.num_steps + 1,
        )
        if table is not None:
            write_whole(self.folder / files.NOISE, frame_text(table))

    def guarded(self, action):
        """Runs an action under op determinism; one that fails ends the workers, whoever keeps its
        traceback, and why a run diverged is explained, also in its manifest.
        """
        try:
            with contextlib.ExitStack() as failing, deterministic():
                failing.callback(self.loops.close)
                result = action()
                failing.pop_all()
            return result
        except WorkersLost:
            raise
        except SamplingError as error:
            is_stored = self.request.options.output is not None and error.step
            explanation = f"{error} {divergence_advice(error, self.request, self.loops.potential, *self._start_values())}"
            if is_stored:
                manifest.note(self.folder, stopped=explanation)
                explanation += f" Earlier results are in {self.folder}."
            raise SamplingError(explanation, error.step, error.walker) from None
        except tf.errors.OpError:
            self.request.system.check_failure()
            raise


def _has_draws(run: RunFiles) -> bool:
    """Whether a position after the burn-in is stored."""
    try:
        return any(len(block.step) for block in Positions(run).blocks())
    except InputError:
        return False
