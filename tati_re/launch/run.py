"""A run as users get it: its files, and what needs the model or describes the run."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tati_re.core.errors import AnyPath, InputError, refuse_if
from tati_re.core.front_door import front_door, front_doors
from tati_re.core.process.exit_status import INTERRUPTED
from tati_re.core.views import drawn, html_table, told
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
    """Opens the folder of a run; nothing but its manifest is read yet. Its tables are pandas
    DataFrames.

    Args:
        path: The folder, of a run that ended, goes on, or was killed.
        **objects: What the run was given as objects in Python (`data`, `test_data`, `model`, ...),
            for what comes after it: predictions, `save_model`, `Simulation.from_folder(run)`.
            Default: none.

    Raises:
        InputError: No such folder, not that of a run, or of one that was given no such object, or
            another model.

    Examples:
        >>> run = tati_re.load("runs/a")
        >>> run.run_info.columns[:3].tolist()
        ['step', 'walker', 'temperature']
    """
    run = Run.open(path)
    if "log_density" in objects:
        from tati_re.system.named import with_density_again

        objects = with_density_again(objects, run)
    given = {*run.manifest.objects, "model"}
    if unknown := sorted(set(objects) - given):
        what = f"{run.folder}: the run used no {unknown[0]} given in Python."
        raise InputError(what, expected=", ".join(sorted(given)))
    if "model" in objects and run.has(files.MODEL):
        from tati_re.models.identity import refuse_other_model

        refuse_other_model(objects["model"], run.folder / files.MODEL, str(run.folder))
    run.objects |= objects
    warn_of_failed_checks(run)
    return run


@front_doors
class Run(RunFiles):
    """A finished, running or stopped run: its tables and parameters, its predictions, and what it
    says of itself.

    Args:
        folder: The run folder; `tati_re.load` checks it first.
        temporary: What removes the folder when the run is no longer used. Default: it stays.
        exit_status: How the call ended that made the run. Default: None, it was made by another
            process.

    Attributes:
        exit_status: What a command ends with after it, see "On a cluster queue" in the userguide: 0
            if all steps are done, 4 or 5 under `require_certificate` if the certificate failed or
            was not measured, 75 after `max_time`, 130 after Ctrl-C; None of a run that was opened
            with `tati_re.load`.

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
        """Whether the folder goes when the run is no longer used."""
        return self._temporary is not None

    def passing_on(self) -> "Run":
        """Returns the run; raises `KeyboardInterrupt` where Ctrl-C ended it, for those whose part
        it is.
        """
        if self.exit_status == INTERRUPTED:
            raise KeyboardInterrupt
        return self

    def _repr_html_(self) -> str:
        notes, lines = told("summary_lines", self)
        return html_table(f"Run {self.folder.name}", lines, notes)

    def save_model(self, which: str | int, path: AnyPath, walker: int = 0) -> None:
        """Writes the run's model with parameters of the run as a `.keras` file that plain Keras
        opens. Where the data were standardized it has layers for that: inputs and outputs are in
        the units of the data.

        Args:
            which: `"mean"`, over all walkers and steps after burn-in, or a stored step.
            path: The file, ending in `.keras`; its folder exists.
            walker: Whose position at that step; the mean does not use it. Default: 0.

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
        said = self.manifest.dataset.preparation
        preparation = None if said is None else Preparation.from_config(said.table)
        own = tuple(
            statistics.of_shape(f"auxiliary/{k}", (None, *value.shape))[[row]]
            for k, value in enumerate(flat.auxiliary)
        )
        loss = named_loss(self.manifest.loss.loss)
        predicts_noise = loss is not None and loss.predicts_noise
        with storing(path):
            written = save_model(
                flat, Walkers(vector[None], own), path, preparation, predicts_noise
            )
        kind = type(flat.model).__name__
        cure = f"a model with get_config, or run.parameters({which!r})"
        refuse_if(not written, "The model cannot be written to a file.", kind, cure)

    @property
    def draws(self) -> "dict[str, np.ndarray]":
        """The stored draws after the burn-in, arrays `(chains, draws, *shape)` by parameter.

        Named parameters of `Simulation(log_density=...)` are in their own values and shapes.

        Raises:
            InputError: Nothing is stored, or draws have different weights.
        """
        from tati_re.analysis.named_draws import draws_of

        return draws_of(self)

    @property
    def generated(self) -> "dict[str, np.ndarray]":
        """The quantities of `Simulation(generated=...)` for each stored draw, arrays `(chains,
        draws, *shape)` by name; random ones are the same at each call.

        Raises:
            InputError: The density was given without `generated`, or a function fails.
        """
        from tati_re.prediction.named import generated_of

        return generated_of(self)

    def parameter_summary(self, names: Sequence[str] | None = None) -> "pandas.DataFrame":
        """Returns mean, standard deviation, quantiles, ESS and R-hat of each stored parameter.

        Args:
            names: Parameters to include. Default: all of them.

        Returns:
            A table as of `tati_re.analysis.parameter_summary`.

        Raises:
            InputError: No such parameter, or nothing is stored.
        """
        from tati_re.analysis.named_draws import parameter_summary

        return parameter_summary(self, names)

    def predict(self, inputs: Any = None, labels: Any = None, **options: Any) -> Any:
        """Predicts with the average over the posterior draws that the run stored.

        Args:
            inputs: Inputs, as of `tati_re.predict`.
            labels: Right labels or values, as of `tati_re.predict`.
            **options: `interval`, `rung`, `burnin`, `thin`, `model` and `weights`, as of
                `tati_re.predict`.

        Returns:
            A `tati_re.prediction.ClassPrediction` or `tati_re.prediction.RegressionPrediction`.

        Raises:
            InputError: The run stored no draws, or inputs or labels that do not fit.
        """
        from tati_re.prediction.predict import predict

        return predict(self, inputs, labels, **options)

    def compress(
        self, members: int | None = 16, tolerance: float = 0.01, **options: Any
    ) -> "Predictor":
        """A few weighted draws that predict as all do, as one file that needs no run.

        Args:
            members: Number of draws that stay; None: all. Default: 16.
            tolerance: Nats a row that may be lost; a larger loss is a warning. Default: 0.01.
            **options: `inputs`, `outside` and `model`, as of `tati_re.shipping.compress`.

        Returns:
            A `tati_re.Predictor`.

        Raises:
            InputError: The run stored no draws, or its loss has no density.
        """
        from tati_re.shipping.compressing import compress

        return compress(self, members, tolerance, **options)

    def to_arviz(
        self,
        burnin: int | None = None,
        thin: int = 1,
        data: Any = None,
        model: Any = None,
        weights: str | None = None,
    ) -> Any:
        """Returns the run as the ArviZ that is installed takes it: `arviz.InferenceData` before
        version 1, else an `xarray.DataTree`; the arguments and groups are those of
        `tati_re.analysis.to_arviz`.
        """
        from tati_re.prediction.arviz import for_installed, to_arviz

        return for_installed(to_arviz(self, burnin, thin, data, model, weights))

    def loo(self, **options: Any) -> Any:
        """Returns the `tati_re.prediction.LeaveOneOut` of the run, PSIS-LOO with Pareto k, which
        `summary` then shows; the arguments are those of `tati_re.prediction.leave_one_out`, and
        `weights`, `"equal"` or `"stacking"` (default: as the options of the run say).
        """
        from tati_re.prediction.stacking import weighted_leave_one_out

        return weighted_leave_one_out(self, **options)

    @property
    def comparison(self) -> "pandas.DataFrame":
        """What sampling bought: the scores of the posterior average, of the ensemble of the fits that
        the walkers began with, and of one fit, on held-out rows; see
        `tati_re.prediction.held_out_comparison`. `InputError` of a run that did not begin with fits.
        """
        from tati_re.prediction.held_out import held_out_comparison

        return held_out_comparison(self)

    @property
    def certificate(self) -> Any:
        """The certificate of a sampled run: how far its averages may be off.

        A DataFrame with a row for each check and the columns `check`, `value`, `limit`, `verdict`
        (passed, failed or not measured) and `advice`, what to do about a failed check. Its
        `outcome` is the verdict on all checks, and `detailed()` adds the columns `note` and
        `given`, whether you set the limit.

        The checks: the worst R-hat and the least effective sample size of U, predictions and
        projections of the positions, outlying chains, standard errors of averages that `until`
        names, the bias from the step size, mini-batch heating, measured temperatures, divergences,
        and the burn-in.

        Raises:
            InputError: A fit, or a run without rows.
        """
        return told("certificate", self)

    def plot(self, observables: Sequence[str] | str | None = None, **choices: Any) -> "Figure":
        """Draws traces, ranks and autocorrelation; `observables`, `burnin`, `thin` and `path` as
        `tati_re.plotting.plot_run` has them."""
        return drawn("run", self, observables=observables, **choices)

    def summary(self) -> str:
        """Returns what the run says about itself: averages, temperatures, effective sample sizes,
        R-hat.
        """
        return str(told("summarize", self))
