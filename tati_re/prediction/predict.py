"""Posterior predictions of runs: which draws predict which rows, calibrated and with notes."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_warnings import warn_user
from tati_re.prediction import results
from tati_re.prediction.averaging import average
from tati_re.prediction.calibrating import (
    NONE,
    calibration,
    chosen_calibration,
    with_scale,
    with_temperature,
)
from tati_re.prediction.deferred import changed
from tati_re.prediction.draws import AnyDraws, Draws, Members
from tati_re.prediction.network import Network
from tati_re.prediction.rows import requested_rows
from tati_re.prediction.sources import source_of
from tati_re.prediction.streamed import streamed_prediction
from tati_re.prediction.training_rows import with_training
from tati_re.runs import files
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles

FEW_DRAWS = 100
"""Independent draws below which predictions are said to be rough."""
_USED = {"chains": "the chains", "fits": "the fits", "both": "the chains and the fits, half each"}
"""What a run for prediction uses, in words."""
_FEW_INPUTS = 256
"""Inputs up to which a prediction does not count the independent draws again."""


@front_door
def predict(
    runs: RunFiles | Sequence[RunFiles],
    inputs: Any = None,
    labels: Any = None,
    *,
    interval: float = 0.9,
    rung: int = 0,
    burnin: int | None = None,
    thin: int | None = None,
    model: Any = None,
    parameters: np.ndarray | None = None,
    weights: str | None = None,
    calibrate: str | None = None,
) -> results.ClassPrediction | results.LabelPrediction | results.RegressionPrediction:
    """Predicts with averages over the stored draws of runs, with intervals and scores.

    It returns p(y|x) = E[p(y|x, θ)] under the distribution that the run sampled: a weighted average
    for a run with weights, and the distribution of one rung for a ladder. For a fit, the end point
    of each walker is one draw. A single walker is the optimum, several walkers are an ensemble.
    Probabilities are averaged, never logits. Draws are read from disk block by block.

    Args:
        runs: One run, or several runs whose draws have equal weight.
        inputs: `(n, ...)`, as in the data set, before any scaling; or a data frame, a dict or a
            list of dicts with the names of the columns. Default: None, the test inputs of the run's
            data.
        labels: True labels or values, `(n,)` or `(n, outputs)`, in the units of the data. Default:
            None, the label columns of a data frame if they are complete, or the labels of the test
            set.
        interval: Probability inside the central intervals, between 0 and 1. Default: 0.9.
        rung: The rung, on a ladder that stores all rungs. Default: 0, the target.
        burnin: Steps to leave out; a run for prediction then predicts with its chains. Default:
            None, the burn-in of the run.
        thin: Use one in this many stored positions of a walker. Default: None, as many draws as
            20,000,000 predictions allow, at least 2,000.
        model: The Keras model, if the folders hold none. Default: None, the model in the folder.
        parameters: Parameter vectors `(draws, parameters)` in place of the draws of one run, such
            as those from `tati_re.gaussian_approximation`. Default: None, the draws of the run.
        weights: Weights of the chains: `"equal"`, or `"stacking"`, from the leave-one-out
            predictive density of each chain (see `tati_re.prediction.chain_weights`). Default:
            None, the run's option `weights`; a run for prediction whose fits did better on held-out
            rows uses the fits, alone or beside the chains.
        calibrate: `"loo"` calibrates by one number, fitted to training rows left out one by one. It
            is a temperature of class probabilities, or a scale that stretches the distributions of
            values about their means. `"none"` does not calibrate. Default: None, the run's option
            `calibrate`.

    Returns:
        A `ClassPrediction`, a `LabelPrediction` or a `RegressionPrediction`. If the run accumulated
        averages for its test set (`stream_predictions`), these are returned if it has no trajectory
        or its data were passed in Python, unless you select draws.

    Raises:
        InputError: Inputs or labels do not fit, the runs predict different things, or there are no
            draws.

    Examples:
        >>> prediction = tati_re.predict(run, [[1.0, 1.0], [-1.0, -1.0]])
        >>> prediction.probabilities.shape
        (2, 2)
    """
    runs = list(runs) if isinstance(runs, Sequence) else [runs]
    refuse_if(not runs, "There are no runs for the prediction.")
    refuse_if(
        not 0 < interval < 1, "interval is out of range.", interval, "a number between 0 and 1"
    )
    selection = DrawSelection(rung=rung, burnin=burnin, thin=thin, weights=weights)
    with ExitStack() as unchanged_files:
        for run in runs:
            unchanged_files.enter_context(run.unchanged())
        for run in runs:
            if parameters is not None or selection.names_draws or not run.manifest.prefers_fits:
                warn_of_failed_checks(run)

        if inputs is None and labels is not None:
            raise InputError("labels without inputs.", expected="predict(inputs, labels)")
        if inputs is None and parameters is None and _are_streamed(runs, selection, calibrate):
            return streamed_prediction(runs[0], interval)

        rows, row_labels = requested_rows(runs, inputs, labels)
        if parameters is None:
            return _average_of_draws(
                runs, rows, row_labels, interval, selection, calibrate=calibrate, model=model
            )
        if len(runs) > 1 or selection != DrawSelection():
            raise InputError(
                "parameters replaces the draws of a single run.",
                expected="no rung, burnin, thin or weights",
            )
        return _average_of_vectors(runs[0], parameters, rows, row_labels, interval, model)


@dataclass(frozen=True)
class DrawSelection:
    """The draws of a run that a prediction averages, in the arguments of `predict`."""

    rung: int = 0
    burnin: int | None = None
    thin: int | None = None
    weights: str | None = None

    @property
    def names_draws(self) -> bool:
        """Whether draws were asked for, also of a run whose fits predict better."""
        return (self.rung, self.burnin, self.weights) != (0, None, None)


def _are_streamed(
    runs: Sequence[RunFiles], selection: DrawSelection, calibrate: str | None
) -> bool:
    """Whether the averages that a run accumulated for its test set are its prediction."""
    manifest = runs[0].manifest
    if len(runs) > 1 or not manifest.options.stream_predictions:
        return False
    if selection != DrawSelection() or manifest.chose_fits:
        return False
    if chosen_calibration(manifest, calibrate) != NONE:
        return False
    in_python = {"data", "test_data"} & {*manifest.objects}
    return bool(in_python) or not files.trajectory_in(runs[0].folder)


def _average_of_draws(
    runs: Sequence[RunFiles],
    inputs: Any,
    labels: Any,
    interval: float,
    selection: DrawSelection,
    calibrate: str | None,
    model: Any,
) -> Any:
    """The prediction of runs by their draws, or by the fits of a run that predicts with them."""
    sources = [
        source_of(
            run,
            rung=selection.rung,
            burnin=selection.burnin,
            thin=selection.thin,
            model=model,
            inputs=inputs,
            weights=selection.weights,
        )
        for run in runs
    ]
    prediction = average(sources, inputs, labels, interval)
    if len(runs) > 1 and chosen_calibration(runs[0].manifest, calibrate) != NONE:
        problem = "calibrate: several runs have no common calibration."
        raise InputError(problem, f"{len(runs)} runs", "one run, or calibrate none")
    prediction = as_calibrated(runs[0], prediction, sources, inputs, calibrate, model)
    if any(isinstance(draws, Draws) for _, draws in sources):
        warn_of_few_draws(prediction, runs[0], _independent_draws(prediction, sources))
    return with_training(with_predictor(prediction, runs, sources), runs[0])


def _average_of_vectors(
    run: RunFiles,
    parameters: np.ndarray,
    inputs: Any,
    labels: Any,
    interval: float,
    model: Any,
) -> Any:
    """The prediction of a run by parameter vectors that were passed in place of its draws."""
    network = Network(run, model)
    # A copy: ends of intervals are computed later, whatever becomes of the caller's array.
    vectors = np.array(np.atleast_2d(parameters))
    if vectors.shape[1:] != (network.num_parameters,):
        raise InputError(
            "parameters: wrong shape.",
            np.shape(parameters),
            f"(draws, {network.num_parameters})",
        )
    prediction = average([(network, Members(vectors))], inputs, labels, interval)
    return with_training(prediction, run)


def as_calibrated(
    run: RunFiles,
    prediction: results.Prediction,
    sources: Sequence[tuple[Network, AnyDraws]],
    inputs: Any,
    calibrate: str | None = None,
    model: Any = None,
) -> Any:
    """The prediction, calibrated where that is asked for.

    Args:
        run: The run.
        prediction: What `average` gave.
        sources: The networks and draws that it averaged.
        inputs: The inputs that it predicted.
        calibrate: `none` or `loo`. Default: as the options of the run say.
        model: The Keras model if the folder holds none. Default: the model in the folder.
    """
    if run.manifest.is_fit or chosen_calibration(run.manifest, calibrate) == NONE:
        return prediction
    averaged = sources[0][1].kind
    key = ("calibration", averaged, id(model))
    factor = run.cached_result(key, lambda: calibration(run, model, averaged)).factor
    if isinstance(prediction, results.ClassPrediction):
        return with_temperature(prediction, factor)
    assert isinstance(prediction, results.RegressionPrediction)

    def again(targets: np.ndarray | None) -> Any:
        return average(sources, inputs, targets, prediction.level)

    return with_scale(prediction, factor, again)


def with_predictor(
    prediction: results.Prediction,
    runs: Sequence[RunFiles],
    sources: Sequence[tuple[Network, AnyDraws]],
) -> Any:
    """The prediction with a note if it averages fits in place of draws, or beside them.

    Args:
        prediction: The prediction.
        runs: Its runs.
        sources: Their networks and parameters, in the same order.
    """
    notes = [
        note
        for run, (_, draws) in zip(runs, sources, strict=True)
        if not isinstance(draws, Draws) and (note := predictor_note(run.manifest))
    ]
    return changed(prediction, notes=(*prediction.notes, *dict.fromkeys(notes)))


def predictor_note(manifest: Manifest) -> str:
    """What a run for prediction predicts with, and why, as a sentence; empty if nothing was
    compared.

    Args:
        manifest: The manifest of the run.
    """
    chosen = manifest.predictor
    if chosen is None:
        return ""
    if not chosen.rows:
        return f"Predictions use the fits: each chain has only {chosen.draws} draws."
    return (
        f"Predictions use {_USED[chosen.uses]}. Held-out log density: fits {chosen.fits:.3f}, chains "
        f"{chosen.chains:.3f} ({chosen.rows:,} rows, error {chosen.error:.3f})."
    )


def _independent_draws(
    prediction: results.Prediction, sources: Sequence[tuple[Network, AnyDraws]]
) -> float:
    """Independent draws by which a prediction is judged.

    They are counted at the inputs of the prediction. A few inputs are judged by the last count of
    the same draws, since counting takes longer than predicting them.

    Args:
        prediction: The prediction.
        sources: The networks and draws that it averages.
    """
    draws = sources[0][1]
    if len(sources) > 1 or not isinstance(draws, Draws) or prediction.inputs is None:
        return prediction.independent_draws
    if draws.independent is None or len(prediction.inputs) > _FEW_INPUTS:
        draws.independent = prediction.independent_draws
    return draws.independent


def warn_of_few_draws(
    prediction: results.Prediction, run: RunFiles, independent: float | None = None
) -> None:
    """Warns that a prediction averages few draws, or fits in place of draws.

    Args:
        prediction: The prediction.
        run: Its run, or the first one of several.
        independent: Number of independent draws. Default: None, counted at the inputs of the
            prediction.
    """
    independent = prediction.independent_draws if independent is None else independent
    if run.manifest.has_fits_alone:
        warn_user(
            f"Predictions average {prediction.num_draws:,} fits, not draws: "
            f"{run.manifest.why_without_draws}."
        )
    elif not independent >= FEW_DRAWS:
        warn_user(
            f"Predictions average {prediction.num_draws:,} draws, "
            f"{results.worth(independent)}. Below {FEW_DRAWS} they and their "
            "scores are rough: take more steps, or store more positions."
        )
