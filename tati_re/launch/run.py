"""A run as users get it: its files, and what needs the model or describes the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.process.exit_status import INTERRUPTED
from tati_re.core.views import drawn, html_table
from tati_re.data.preparation import Preparation
from tati_re.likelihoods.registry import named_loss
from tati_re.runs import checkpoint, files
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.runs.run import RunFiles
from tati_re.runs.storage import storing

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from matplotlib.figure import Figure

    from tati_re.shipping.predictor import Predictor


@front_door
def load(path: AnyPath, **objects: Any) -> "Run":
    """Opens a run folder; only its manifest is read at once, and tables are read on first use.

    Args:
        path: The folder of a run that has ended, is still running, or was killed.
        **objects: Python objects that the run used (`data`, `test_data`, `model`, ...).
            Predictions, `save_model` and `Simulation.from_folder(run)` use them. Default: none.

    Returns:
        The run, whose tables are pandas DataFrames.

    Raises:
        InputError: There is no such folder, it holds no run, the run used no such object, or the
            model differs.

    Examples:
        >>> run = tati_re.load("runs/a")
        >>> run.run_info.columns[:3].tolist()
        ['step', 'walker', 'temperature']
    """
    run = Run.open(path)
    if "log_density" in objects:
        from tati_re.system.named import with_density_again

        objects = with_density_again(objects, run)
    known_objects = {*run.manifest.objects, "model"}
    if unknown := sorted(set(objects) - known_objects):
        problem = f"{run.folder}: the run used no {unknown[0]} given in Python."
        raise InputError(problem, expected=", ".join(sorted(known_objects)))
    if "model" in objects and run.has(files.MODEL):
        from tati_re.models.identity import refuse_other_model

        refuse_other_model(objects["model"], run.folder / files.MODEL, str(run.folder))
    run.objects |= objects
    warn_of_failed_checks(run)
    return run


@front_doors
class Run(RunFiles):
    """A finished, running or stopped run: tables, draws, predictions, certificate and summary.

    Args:
        folder: The run folder. Use `tati_re.load` to check it first.
        temporary: The object that removes the folder when the run is no longer used. Default: None,
            the folder stays.
        exit_status: The exit status of the call that made the run. Default: None, another process
            made it.

    Attributes:
        exit_status: The exit status of a command after this run: 0 if all steps are done, 4 or 5
            under `require_certificate` if the certificate failed or was not measured, 75 after
            `max_time`, 130 after Ctrl-C. None if the run was opened with `tati_re.load`. See "On a
            cluster queue" in the userguide.

    Examples:
        >>> run = tati_re.load("runs/a")
        >>> int(run.averages["step"].max())
        60
    """

    def __init__(
        self, folder: AnyPath, temporary: Any = None, exit_status: int | None = None
    ) -> None:
        super().__init__(folder)
        self._temporary = temporary
        self.exit_status = exit_status

    @property
    def is_temporary(self) -> bool:
        """Whether the folder is removed when the run is no longer used."""
        return self._temporary is not None

    def passing_on(self) -> "Run":
        """Returns the run, or raises `KeyboardInterrupt` if Ctrl-C ended it.

        For callers for which this run is one part of a longer job.
        """
        if self.exit_status == INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _repr_html_(self) -> str:
        from tati_re.summary.summary import summary_lines

        notes, lines = summary_lines(self)
        return html_table(f"Run {self.folder.name}", lines, notes)

    def save_model(self, which: str | int, path: AnyPath, walker: int = 0) -> None:
        """Writes the model with parameters of the run as a `.keras` file that plain Keras opens.

        If the data were standardized, the saved model has layers that scale inputs and outputs. It
        then works in the units of the data.

        Args:
            which: `"mean"`, the average over all walkers and all steps after burn-in, or a stored
                step.
            path: The file, ending in `.keras`, in an existing folder.
            walker: The walker whose position at that step is saved, counted from 0. Not used with
                `"mean"`. Default: 0.

        Raises:
            InputError: The step is not stored, or the path does not end in `.keras`.
            StorageError: The file cannot be written.
        """
        path = Path(path)
        refuse_if(path.suffix != ".keras", "The path of a saved model must end in .keras.", path)
        vector = self.parameters(which, None if which == "mean" else walker)
        from tati_re.prediction.network import flat_model_of
        from tati_re.system.saved_model import save_model
        from tati_re.system.walkers import Walkers

        flat = flat_model_of(self)
        # Moving statistics are each walker's own; those of a mean over walkers are walker 0's.
        statistics, _, _ = checkpoint.load(self.folder)
        row = 0 if which == "mean" else walker or 0
        standardization = self.manifest.dataset.preparation
        preparation = (
            None if standardization is None else Preparation.from_config(standardization.table)
        )
        model_values = tuple(
            statistics.of_shape(f"auxiliary/{k}", (None, *value.shape))[[row]]
            for k, value in enumerate(flat.auxiliary)
        )
        loss = named_loss(self.manifest.loss.loss)
        predicts_noise = loss is not None and loss.predicts_noise
        with storing(path):
            written = save_model(
                flat, Walkers(vector[None], model_values), path, preparation, predicts_noise
            )
        kind = type(flat.model).__name__
        cure = f"a model with get_config, or run.parameters({which!r})"
        refuse_if(not written, "The model cannot be written to a file.", kind, cure)

    @property
    def draws(self) -> "dict[str, np.ndarray]":
        """The stored draws after burn-in by parameter name, arrays `(chains, draws, *shape)`.

        Named parameters of `Simulation(log_density=...)` have their constrained values and their
        shapes.

        Raises:
            InputError: No draws are stored, or the draws have different weights.
        """
        from tati_re.analysis.named_draws import draws_of

        return draws_of(self)

    @property
    def generated(self) -> "dict[str, np.ndarray]":
        """The quantities of `Simulation(generated=...)` for each stored draw, by name.

        Each is an array `(chains, draws, *shape)`. Random quantities are the same at each call.

        Raises:
            InputError: The simulation had no `generated`, or one of its functions fails.
        """
        from tati_re.prediction.named import generated_of

        return generated_of(self)

    def parameter_summary(self, names: str | Sequence[str] | None = None) -> "pandas.DataFrame":
        """Returns the mean, standard deviation, quantiles, ESS and R-hat of each stored parameter.

        Args:
            names: Parameters to include, or one of them. Default: None, all of them.

        Returns:
            A table as returned by `tati_re.analysis.parameter_summary`.

        Raises:
            InputError: There is no such parameter, or no draws are stored.
        """
        from tati_re.analysis.named_draws import parameter_summary

        return parameter_summary(self, names)

    def predict(self, inputs: Any = None, labels: Any = None, **options: Any) -> Any:
        """Predicts by averaging over the stored posterior draws of the run.

        Args:
            inputs: Inputs, as for `tati_re.predict`. Default: None, the inputs of the test set.
            labels: True labels or values, as for `tati_re.predict`. Default: None.
            **options: `interval`, `rung`, `burnin`, `thin`, `model`, `weights` and `calibrate`, as
                for `tati_re.predict`.

        Returns:
            A `ClassPrediction`, a `LabelPrediction` or a `RegressionPrediction`, all from
            `tati_re.prediction`.

        Raises:
            InputError: The run stored no draws, or inputs or labels do not fit.

        Examples:
            >>> prediction = run.predict()
            >>> "accuracy" in prediction.scores()
            True
        """
        from tati_re.prediction.predict import predict

        return predict(self, inputs, labels, **options)

    def compress(
        self, members: int | None = 16, tolerance: float = 0.01, **options: Any
    ) -> "Predictor":
        """Returns a predictor of a few weighted draws that predicts like all draws together.

        Args:
            members: Number of draws to keep, at least 1; None keeps all. Default: 16.
            tolerance: Accepted loss in nats per row. A larger loss is a warning. Default: 0.01.
            **options: `inputs`, `outside` and `model`, as for `tati_re.shipping.compress`.

        Returns:
            A `tati_re.Predictor`, which can be saved in one file and does not need the run.

        Raises:
            InputError: The run stored no draws, or its loss has no density.
        """
        from tati_re.shipping.compressing import compress

        return compress(self, members, tolerance, **options)

    def distil(
        self, hidden: Sequence[int] = (64, 64, 64), tolerance: float = 0.05, **options: Any
    ) -> "Predictor":
        """Returns a predictor of one network that is trained to predict like all draws together.

        Args:
            hidden: Units of the hidden layers. Default: (64, 64, 64).
            tolerance: Accepted loss in nats per row. A larger loss is a warning. Default: 0.05.
            **options: `num_steps`, `inputs`, `outside`, `model` and `seed`, as for
                `tati_re.shipping.distil`.

        Returns:
            A `tati_re.Predictor`, which can be saved in one file and does not need the run.

        Raises:
            InputError: One network cannot predict what the run predicts.
        """
        from tati_re.shipping.distilling import distil

        return distil(self, hidden, tolerance, **options)

    def to_arviz(
        self,
        burnin: int | None = None,
        thin: int = 1,
        data: Any = None,
        model: Any = None,
        weights: str | None = None,
    ) -> Any:
        """Converts the run for the installed version of ArviZ.

        `tati_re.analysis.to_arviz` describes the groups.

        Args:
            burnin: Steps to leave out. Default: None, the burn-in of the run.
            thin: Keep one in this many stored positions and rows. Default: 1.
            data: The data set, if it was given in Python. Default: None, that of the run.
            model: The Keras model, if the folder holds none. Default: None, the model in the folder.
            weights: Weights of the chains, `"equal"` or `"stacking"`. Default: None, the run's
                option.

        Returns:
            An `xarray.DataTree`, or an `arviz.InferenceData` for ArviZ before version 1.
        """
        from tati_re.prediction.arviz import for_installed, to_arviz

        return for_installed(to_arviz(self, burnin, thin, data, model, weights))

    def loo(self, **options: Any) -> Any:
        """Returns the leave-one-out estimate of the run (PSIS-LOO) with its Pareto k.

        `summary` shows it from then on.

        Args:
            **options: Arguments of `tati_re.prediction.leave_one_out`, and `weights`, `"equal"` or
                `"stacking"`. Default of `weights`: the run's option.

        Returns:
            A `tati_re.prediction.LeaveOneOut`.
        """
        from tati_re.prediction.stacking import weighted_leave_one_out

        return weighted_leave_one_out(self, **options)

    @property
    def comparison(self) -> "pandas.DataFrame":
        """Scores of the posterior average, the ensemble of the fits and a single fit on held-out
        rows.

        It shows what sampling improved over the fits that the walkers started from; see
        `tati_re.prediction.held_out_comparison`.

        Raises:
            InputError: The run did not start from fits.
        """
        from tati_re.prediction.held_out import held_out_comparison

        return held_out_comparison(self)

    @property
    def certificate(self) -> Any:
        """The certificate of a sampled run: an error budget for its averages.

        A DataFrame with one row per check and the columns `check`, `value`, `limit`, `verdict`
        (passed, failed or not measured) and `advice`, which says what to do about a failed check.
        Its `outcome` is the verdict on all checks together. `detailed()` adds the columns `note`
        and `given`, which is true if you set the limit.

        The checks cover the largest R-hat and the smallest effective sample size of U, predictions
        and projections of the positions, outlying chains, and standard errors of averages named in
        `until`. They also cover the bias from the step size, mini-batch heating, measured
        temperatures, divergences and the burn-in.

        Raises:
            InputError: The run is a fit, or has no rows.
        """
        from tati_re.summary.certificate import certificate

        return certificate(self)

    def plot(self, observables: Sequence[str] | str | None = None, **choices: Any) -> "Figure":
        """Plots traces, ranks and autocorrelation of the observables of the run.

        Args:
            observables: Names of observables, or one name. Default: as in
                `tati_re.plotting.plot_run`.
            **choices: `burnin`, `thin` and `path`, as for `tati_re.plotting.plot_run`.

        Returns:
            The figure.
        """
        return drawn("run", self, observables=observables, **choices)

    def summary(self) -> str:
        """Returns a text with averages, temperatures, effective sample sizes and R-hat."""
        from tati_re.summary.summary import summarize

        return summarize(self)
