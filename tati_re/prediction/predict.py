"""Posterior predictions of runs, averaged over all draws in bounded memory, or accumulated while
sampling.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

import numpy as np
import pandas
from scipy.special import ndtr, ndtri

from tati_re.core.errors import InputError, refuse_if
from tati_re.core.front_door import front_door
from tati_re.core.user_warnings import warn_user
from tati_re.data.categories import stored_categories
from tati_re.data.dataset import class_weights_note
from tati_re.data.frames import check_order, in_order, is_frame, labels_of, rows_by_name
from tati_re.data.labels import are_names, numbers_of_names
from tati_re.data.packing import as_packed
from tati_re.engine.prediction_averages import PREFIX
from tati_re.likelihoods.mixture import mixture_crps, mixture_pit, mixture_quantile
from tati_re.posterior.likelihood_predictive import LikelihoodPredictive
from tati_re.posterior.predictive import (
    CLASSES,
    LABELS,
    VALUES,
    Predictive,
    log_mean_exp,
    without_noise,
)
from tati_re.prediction import results
from tati_re.prediction.calibrating import (
    NONE,
    calibration,
    chosen_calibration,
    with_scale,
    with_temperature,
)
from tati_re.prediction.deferred import Deferred, changed
from tati_re.prediction.draws import Draws, Members, independent_draws
from tati_re.prediction.metrics import class_labels
from tati_re.prediction.network import Network, dataset_of, has_its_data, network_of
from tati_re.prediction.ranges import warn_of_ranges
from tati_re.prediction.scores import (
    crps,
    mixture_cdf,
    mixture_interval,
    normal_crps,
    weighted_quantiles,
)
from tati_re.prediction.stacking import weigh
from tati_re.runs import checkpoint, files
from tati_re.runs.failed_checks import warn_of_failed_checks
from tati_re.runs.fits import read_fits
from tati_re.runs.manifest import Manifest
from tati_re.runs.run import RunFiles, last_step, stored_every
from tati_re.runs.selection import burnin_of

MEMORY_VALUES = 8_000_000
"""Predictions (draws × inputs × columns) in memory at once, ten times over; more inputs go in
parts, by all draws.
"""

BLOCK_DRAWS = 512
MOST_PREDICTIONS, FEWEST_DRAWS = 20_000_000, 2_000
"""Draws times inputs that a prediction takes where nobody says, and the draws that it takes of any
inputs: 40 seconds of one core, where all 41,000 draws of a run of two million steps took more than
six minutes for 4,000 inputs.
"""
MOST_TRAINING = 1_000
"""Examples of the training data that a figure shows at most."""
_LOST = (
    "The run's loss was an object, which its folder does not contain. Restore it with "
    "tati_re.load(folder, loss=loss)."
)
FEW_DRAWS = 100
"""Independent draws below which predictions are said to be rough."""
_PIT_SEED = 0x717
"""Of the places between two probabilities of a count."""
_AVERAGED = ("probabilities", "std", "expected_entropy")


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
            None, the run's option `weights`; a run for prediction whose fits predict better than
            its chains uses the fits.
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
    with ExitStack() as files_as_they_are:
        for run in runs:
            files_as_they_are.enter_context(run.unchanged())
        from_draws = parameters is not None or (rung, burnin, weights) != (0, None, None)
        for run in runs:
            if from_draws or not run.manifest.prefers_fits:
                warn_of_failed_checks(run)
        if inputs is None:
            refuse_if(
                labels is not None, "labels without inputs.", expected="predict(inputs, labels)"
            )
            has_averages = (
                len(runs) == 1
                and parameters is None
                and runs[0].manifest.options.stream_predictions
            )
            has_averages = has_averages and (rung, burnin, thin, weights) == (0, None, None, None)
            has_averages = has_averages and not runs[0].manifest.prefers_fits
            has_averages = has_averages and chosen_calibration(runs[0].manifest, calibrate) == NONE
            in_python = {"data", "test_data"} & {*runs[0].manifest.objects}
            if has_averages and (in_python or not files.trajectory_in(runs[0].folder)):
                return streamed_prediction(runs[0], interval)
            inputs, labels = test_part(runs[0])
            inputs = with_names(runs[0], inputs) if len(runs) > 1 else inputs
        else:
            inputs = checked_rows(runs[0], inputs)
        labels = labels_by_name(runs, inputs, labels)
        if parameters is None:
            sources = [source_of(run, rung, burnin, thin, model, inputs, weights) for run in runs]
            prediction = average(sources, inputs, labels, interval)
            if chosen_calibration(runs[0].manifest, calibrate) != NONE:
                problem = "calibrate: several runs have no common calibration."
                refuse_if(len(runs) > 1, problem, f"{len(runs)} runs", "one run, or calibrate none")
            prediction = as_calibrated(runs[0], prediction, sources, inputs, calibrate, model)
            if any(isinstance(draws, Draws) for _, draws in sources):
                warn_of_few_draws(prediction, runs[0])
            return with_training(with_predictor(prediction, runs, sources), runs[0])
        if len(runs) > 1 or (rung, burnin, thin, weights) != (0, None, None, None):
            raise InputError(
                "parameters replaces the draws of a single run.",
                expected="no rung, burnin, thin or weights",
            )
        network = Network(runs[0], model)
        # A copy: ends of intervals are computed later, whatever becomes of the caller's array.
        vectors = np.array(np.atleast_2d(parameters))
        if vectors.shape[1:] != (network.num_parameters,):
            raise InputError(
                "parameters: wrong shape.",
                np.shape(parameters),
                f"(draws, {network.num_parameters})",
            )
        prediction = average([(network, Members(vectors))], inputs, labels, interval)
        return with_training(prediction, runs[0])


def as_calibrated(
    run: RunFiles,
    prediction: results.Prediction,
    sources: Sequence[tuple[Network, Draws | Members]],
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
    of_fits = isinstance(sources[0][1], Members)
    key = ("calibration", of_fits, id(model))
    factor = run.cached_result(key, lambda: calibration(run, model, of_fits)).factor
    if isinstance(prediction, results.ClassPrediction):
        return with_temperature(prediction, factor)
    assert isinstance(prediction, results.RegressionPrediction)

    def again(targets: np.ndarray | None) -> Any:
        return average(sources, inputs, targets, prediction.level)

    return with_scale(prediction, factor, again)


def with_predictor(
    prediction: results.Prediction,
    runs: Sequence[RunFiles],
    sources: Sequence[tuple[Network, Draws | Members]],
) -> Any:
    """The prediction with a note if it averages fits that predict better than the chains.

    Args:
        prediction: The prediction.
        runs: Its runs.
        sources: Their networks and parameters, in the same order.
    """
    notes = [
        note
        for run, (_, draws) in zip(runs, sources, strict=True)
        if isinstance(draws, Members) and (note := predictor_note(run.manifest))
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
        f"Predictions use the {chosen.uses}. Held-out log density: fits {chosen.fits:.3f}, chains "
        f"{chosen.chains:.3f} ({chosen.rows:,} rows, error {chosen.error:.3f})."
    )


def with_training(prediction: results.Prediction, run: RunFiles) -> Any:
    """The prediction with examples that the run was trained on, if the network has one input and
    the data are at hand.

    Args:
        prediction: The prediction.
        run: The run, or the first of several.
    """
    if (
        prediction.inputs is None
        or prediction.places > 1
        or np.size(prediction.inputs) != len(prediction.inputs)
    ):
        return prediction
    known = run.cached_result("training", lambda: _some_training(run))
    if known is None:
        return prediction
    inputs, targets = known
    if isinstance(prediction, results.RegressionPrediction):
        fits = targets.shape[1] == prediction.mean.shape[1]
    elif isinstance(prediction, results.ClassPrediction):
        targets = class_labels(targets, prediction.probabilities.shape[1])
        fits = True
    else:
        fits = False
    fits = fits and inputs.shape[1] == 1
    return changed(prediction, training=(inputs[:, 0], targets)) if fits else prediction


def _some_training(run: RunFiles) -> tuple[np.ndarray, np.ndarray] | None:
    """Inputs and targets of at most `MOST_TRAINING` training examples, a row each; None where the
    data are not at hand.
    """
    if not has_its_data(run):
        return None
    try:
        data = dataset_of(run)
    except InputError:  # moved or changed since: the figure goes without them
        return None
    chosen = np.unique(np.linspace(0, data.num_examples - 1, MOST_TRAINING).astype(int))
    inputs = np.asarray(data.inputs)[chosen].reshape(len(chosen), -1)
    targets = np.asarray(data.targets)[chosen].reshape(len(chosen), -1)
    return inputs, targets


def checked_rows(run: RunFiles, inputs: Any) -> Any:
    """Inputs with rows given by names as a data frame; warns of rows outside the training range.

    Args:
        run: The run, whose manifest has names and ranges of the inputs.
        inputs: Inputs as `predict` takes them.
    """
    data = run.manifest.dataset
    names = data.feature_names
    if data.layout:
        return inputs
    inputs = rows_by_name(inputs, names, "inputs")
    if data.input_ranges is not None:
        categories = stored_categories(data.input_categories)
        warn_of_ranges(data, as_packed(inputs, (), names, categories=categories))
    return inputs


def labels_by_name(runs: Sequence[RunFiles], inputs: Any, labels: Any) -> Any:
    """Returns labels in the order of all runs.

    Args:
        runs: The runs, which must predict the same quantities.
        inputs: A data frame or array of inputs, which may contain the label columns too.
        labels: Labels, or None: the label columns of `inputs`, if no value is missing.

    Returns:
        The labels, or None if there are none.

    Raises:
        InputError: The runs predict different quantities.
    """
    names, *others = (list(run.manifest.dataset.label_names) for run in runs)
    for other in others:
        received = f"{', '.join(names)} and {', '.join(other)}"
        refuse_if(
            names and other and other != names, "The runs predict different quantities.", received
        )
    if (
        labels is None
        and names
        and is_frame(inputs)
        and {*names} <= {str(name) for name in inputs.columns}
    ):
        own = in_order(inputs, names, "labels")
        if missing := int(own.isna().any(axis=1).sum()):
            if missing < len(own):
                notice = f"The labels of {missing:,} of {len(own):,} rows are missing"
                warn_user(f"{notice}: predictions have no labels and no scores.")
            return None
        return own if len(names) > 1 else own[names[0]]
    check_order(inputs, labels, "labels")
    return in_order(labels, names, "labels")


def warn_of_few_draws(prediction: results.Prediction, run: RunFiles) -> None:
    """Warns that a prediction averages few draws, or fits in place of draws.

    Args:
        prediction: The prediction.
        run: Its run, or the first one of several.
    """
    if run.manifest.has_fits_alone:
        warn_user(
            f"Predictions average {prediction.num_draws:,} fits, not draws: "
            f"{run.manifest.why_without_draws}."
        )
    elif not prediction.independent_draws >= FEW_DRAWS:
        warn_user(
            f"Predictions average {prediction.num_draws:,} draws, "
            f"{results.worth(prediction.independent_draws)}. Below {FEW_DRAWS} they and their "
            "scores are rough: take more steps, or store more positions."
        )


def source_of(
    run: RunFiles,
    rung: int = 0,
    burnin: int | None = None,
    thin: int | None = 1,
    model: Any = None,
    inputs: Any = (),
    weights: str | None = None,
) -> tuple[Network, Draws | Members]:
    """Returns the network of a run and the parameters for predictions.

    The parameters are the draws of the run, the end points of a fit, or the fits of a run for
    prediction that predict better than its draws.

    Args:
        run: The run.
        rung: The rung, on a ladder that stores all rungs. Default: 0, the target.
        burnin: Steps to leave out. Default: None, the burn-in of the run.
        thin: Keep one in this many draws; None keeps as many draws as 20,000,000 predictions of the
            inputs allow. Default: 1.
        model: The Keras model, if the folder holds none. Default: None, the model in the folder.
        inputs: The inputs; only their number is used, if `thin` is None. Default: none.
        weights: Weights of the chains, `"equal"` or `"stacking"`. Default: None, the run's option.

    Returns:
        The network and the parameters.

    Raises:
        InputError: The run predicts with its fits, and its folder lacks them.
    """
    network = network_of(run, model)
    if run.manifest.is_fit:
        return network, run.cached_result("members", lambda: _end_of_fit(run, network))
    if run.manifest.prefers_fits and (rung, burnin, weights) == (0, None, None):
        return network, run.cached_result("fits", lambda: _fits_of(run, network))
    if thin is None:
        most = max(FEWEST_DRAWS, MOST_PREDICTIONS // max(1, len(network.packed(inputs))))
        stored = run.cached_result(("stored", burnin), lambda: _num_stored(run, burnin))
        thin = max(1, stored // most)

    def drawn() -> Draws:
        draws = Draws(run, rung, burnin, thin)
        draws.cache()
        weigh(run, draws, weights, model)
        return draws

    return network, run.cached_result(("draws", rung, burnin, thin, weights, id(model)), drawn)


def _end_of_fit(run: RunFiles, network: Network) -> Members:
    """The places where the walkers of an optimization arrived."""
    arrays, _, _ = checkpoint.load(run.folder)
    positions = arrays.of_shape("state/position/0", (None, network.num_parameters))
    return Members(positions, np.arange(len(positions)))


def _fits_of(run: RunFiles, network: Network) -> Members:
    """The fits that predict better than the chains of a run."""
    fits = read_fits(run.folder)
    if fits is None or fits.positions.shape[1:] != (network.num_parameters,):
        raise InputError(
            f"{run.folder / files.MEMBERS} does not contain the fits of this run.",
            expected="the unmodified file; weights='equal' predicts with the chains",
        )
    return Members(fits.positions, np.arange(len(fits.positions)))


def _num_stored(run: RunFiles, burnin: int | None) -> int:
    """About how many positions of all walkers the run stored after its burn-in."""
    first = burnin_of(run, burnin)
    steps = (last_step(run, first) - first) // (stored_every(run) or 1)
    return steps * run.manifest.options.num_walkers


def test_part(run: RunFiles) -> tuple[np.ndarray, np.ndarray | None]:
    dataset = dataset_of(run)
    if dataset.test_inputs is None:
        problem = "The run's data have no test set."
        raise InputError(
            problem, expected="inputs to predict, or test_fraction=0.2 in Simulation(...)"
        )
    labels = dataset.test_targets
    return dataset.test_inputs, None if labels is None else dataset.as_labels(labels)


def with_names(run: RunFiles, inputs: np.ndarray) -> Any:
    """Inputs as of a run's data with the names of its columns, by which other runs find theirs."""
    names = run.manifest.dataset.feature_names
    named = inputs.ndim == 2 and inputs.dtype.kind == "f" and len(names) == inputs.shape[1]
    return pandas.DataFrame(inputs, columns=list(names)) if named else inputs


@front_door
def average(
    sources: Sequence[tuple[Network, Draws | Members]],
    inputs: Any,
    labels: Any = None,
    interval: float = 0.9,
    memory_values: int = MEMORY_VALUES,
    block_draws: int = BLOCK_DRAWS,
) -> results.ClassPrediction | results.LabelPrediction | results.RegressionPrediction:
    """Averages the predictions of several networks over all their draws; see `predict`.

    Args:
        sources: Networks and their parameters, as returned by `source_of`.
        inputs: Inputs, `(n, ...)`, before any scaling.
        labels: True labels or values, `(n,)` or `(n, outputs)`. Default: None.
        interval: Probability inside the central intervals, in (0, 1). Default: 0.9.
        memory_values: Largest number of predicted values in memory at a time.
        block_draws: Number of draws evaluated at a time.

    Returns:
        The prediction.

    Raises:
        InputError: The networks predict different things, or inputs and labels do not fit.
    """
    first = sources[0][0].predictive
    for network, _ in sources[1:]:
        other = network.predictive
        called = network.class_names, sources[0][0].class_names
        same = (other.kind, other.num_columns, other.rows) == (
            first.kind,
            first.num_columns,
            first.rows,
        )
        if not same or called[0] != called[1]:
            pairs = (first, called[1]), (other, called[0])
            kinds = [
                f"{one.kind} of {one.num_columns} {', '.join(map(str, names))}"
                for one, names in pairs
            ]
            raise InputError("The runs predict different quantities.", " and ".join(kinds))
    prepared = [network.prepared(inputs) for network, _ in sources]
    inputs = sources[0][0].packed(inputs)
    count = len(inputs) * first.rows
    if labels is not None:
        labels = labels_of(labels, "labels")
        if are_names(labels, sources[0][0].class_names):
            labels = numbers_of_names(labels, sources[0][0].class_names, "labels")
        if len(labels) != len(inputs):
            raise InputError(
                "The numbers of inputs and labels differ.",
                f"{len(inputs)} and {len(labels)}",
                "equal",
            )
        if first.kind == CLASSES:
            fit = labels.size in (count, count * first.num_columns)
            refuse_if(
                not fit,
                "The labels do not match the network.",
                labels.shape,
                f"one class for each of {count:,}",
            )
            numbers = class_labels(labels.reshape(count, -1), first.num_columns)
            labels = {"one_hot": np.eye(first.num_columns)[numbers], "signs": 2 * numbers - 1}.get(
                first.task
            )
            labels = numbers.reshape(len(inputs), -1) if labels is None else labels
        elif first.kind == LABELS:
            labels = results.labels_of_rows(labels, (len(inputs), first.num_columns))
        elif labels.size != len(inputs) * first.num_columns and not first.own_loss:
            raise InputError(
                "The targets do not match the network.", labels.shape, f"(n, {first.num_columns})"
            )
        elif labels.dtype.kind not in "buif" or not np.isfinite(labels).all():
            raise InputError(
                "The labels are not finite numbers.", f"type {labels.dtype}", "finite numbers"
            )
        if isinstance(first, LikelihoodPredictive):
            first.check_labels(labels)
    compared = labels is None or first.kind != VALUES
    compared = compared or labels.size == len(inputs) * first.num_columns
    num_draws = sum(len(draws) for _, draws in sources)
    rows = max(
        1, memory_values // (num_draws * first.rows * max(first.num_columns, first.num_outputs))
    )
    parts: list[_Part] = []
    independent = float("nan")
    for start in range(0, len(inputs), rows):
        part = slice(start, start + rows)
        these = [x[part] for x in prepared]
        source_outputs = [
            outputs_of_draws(*source, x, block_draws)
            for source, x in zip(sources, these, strict=True)
        ]
        if not parts:
            each = [
                len(one)
                if isinstance(one, Members)
                else independent_draws(f, one.step, one.walker, one.weight)
                for (_, one), (f, _) in zip(sources, source_outputs, strict=True)
            ]
            # Of so many runs' mean the variance is that of each, times the square of its share.
            totals = np.array([draws.weight.sum() for _, draws in sources])
            independent = float(totals.sum() ** 2 / (totals**2 / each).sum())
        known = None if labels is None else labels[part]
        made = _Part(sources, these, source_outputs, known, interval, compared)
        made.keep(whole=rows >= len(inputs))
        parts.append(made)
    weight = np.concatenate([draws.weight for _, draws in sources])
    before = np.cumsum([0, *(draws.walker.max() + 1 for _, draws in sources)])
    shared: dict[str, Any] = {
        "num_draws": num_draws,
        "effective_draws": float(weight.sum() ** 2 / (weight**2).sum()),
        "independent_draws": independent,
        "inputs": inputs,
        "level": interval,
        "walker": np.concatenate(
            [draws.walker + k for (_, draws), k in zip(sources, before[:-1], strict=True)]
        ),
        "weight": weight,
        "draw_losses": _over_examples(parts, "losses", len(inputs)),
        "notes": first.notes,
    }
    hits = None if first.kind == VALUES else _over_examples(parts, "right", count)
    if first.kind != VALUES:
        shared["lower"] = _later(parts, lambda part: part.probability_ends, 0)
        shared["upper"] = _later(parts, lambda part: part.probability_ends, 1)
    if first.kind == CLASSES:
        values = results.class_values(first.task, first.num_columns, sources[0][0].class_names)
        shared |= {name: _joined(parts, name) for name in _AVERAGED}
        shared |= {"draw_accuracy": hits, "places": first.rows}
        shared["class_weights"] = first.class_weights
        return results.ClassPrediction(
            **shared, labels=None if labels is None else numbers, class_values=values
        )
    if first.kind == LABELS:
        shared |= {name: _joined(parts, name) for name in (*_AVERAGED, "log_density")}
        return results.LabelPrediction(**shared, labels=labels, draw_accuracy=hits)
    shared |= {name: _joined(parts, name) for name in _OF_VALUES}
    for number, end in enumerate(("lower", "upper")):
        shared[f"mean_{end}"] = _later(parts, lambda part: part.mean_ends, number)
        shared[end] = _later(parts, lambda part: part.value_ends, number)
    shared["crps"] = _later(parts, lambda part: part.value_scores, 0)
    shared["pit"] = _later(parts, lambda part: part.value_scores, 1)
    scored = shared["draw_losses"] is not None
    if labels is not None and not compared:
        shared["notes"] += (_not_compared(labels, first, scored),)
    elif labels is not None and not scored:
        shared["notes"] += (f"There is no mean_loss. {_LOST}",)
    targets = None
    if labels is not None and compared:
        targets = np.asarray(labels, np.float64).reshape(len(inputs), -1)
    return results.RegressionPrediction(
        **shared, scale=first.deviation, targets=targets, target_names=sources[0][0].target_names
    )


_OF_VALUES = (
    "mean",
    "parameter_std",
    "noise_std",
    "log_density",
)
"""What a part of the predictions of a regression has."""


def _not_compared(labels: np.ndarray, predictive: Predictive, scored: bool) -> str:
    """Says what scores there are of labels whose shape is not that of the outputs."""
    if isinstance(predictive, LikelihoodPredictive):
        return (
            "Each label has a value and an event. The score is the density of both; "
            "censored values have no error and no coverage."
        )
    shape = ", ".join(["n", *map(str, labels.shape[1:])])
    reason = (
        f"The labels, of shape ({shape}), do not match the outputs, of shape (n, "
        f"{predictive.num_columns}): there is no error or coverage."
    )
    return f"{reason} {'The score is the loss of the run.' if scored else _LOST}"


class _Part:
    """Predictions of some of the inputs by all draws.

    What is expensive and not always read is computed when it is read: ends of intervals, CRPS and
    PIT. The outputs of the draws are kept until then if they are few, else computed again.

    Args:
        sources: Networks and their parameters.
        rows: Inputs as each of the networks takes them, some of all.
        source_outputs: Outputs of the draws of each source, and their extra parameters.
        labels: Labels of the inputs, or None.
        level: Probability inside the intervals.
        compared: Whether labels are values of the outputs.
    """

    def __init__(
        self,
        sources: Sequence[tuple[Network, Draws | Members]],
        rows: Sequence[np.ndarray],
        source_outputs: list[tuple],
        labels: np.ndarray | None,
        level: float,
        compared: bool = True,
    ) -> None:
        weight = np.concatenate([draws.weight for _, draws in sources])
        self._share = weight / weight.sum()
        self._weight = weight
        self._level = level
        self._ends = np.array([(1 - level) / 2, (1 + level) / 2])
        self._sources = sources
        self._rows = rows
        self._source_outputs: list[tuple] | None = source_outputs
        self._predictive = [network.predictive for network, _ in sources]
        self.losses: Any = None
        self.right: np.ndarray | None = None
        self.log_density: Any = None
        if labels is not None and all(one.predictive.has_loss for one, _ in sources):
            parts = [
                network.predictive.losses(f, network.prepared_targets(labels), extra)
                for (network, _), (f, extra) in zip(sources, source_outputs, strict=True)
            ]
            self.losses = np.concatenate([part.sum(axis=1) for part in parts])
        predictive = self._predictive
        self._has_noise = all(one.has_noise for one in predictive)
        self._has_laws = any(isinstance(one, LikelihoodPredictive) for one in predictive)
        if labels is not None and predictive[0].kind == LABELS:
            self.log_density = log_mean_exp(-np.concatenate(parts), self._weight)
        if predictive[0].kind == VALUES:
            self._targets: np.ndarray | None = None
            if labels is not None and compared:
                self._targets = np.asarray(labels, np.float64).reshape(len(labels), -1)
            self._values(source_outputs)
            censored = self.log_density is None and self._has_laws
            if labels is not None and censored:
                self.log_density = log_mean_exp(-np.concatenate(parts), self._weight)
        else:
            self._classes(source_outputs, labels)

    def keep(self, whole: bool) -> None:
        """Keeps the outputs of the draws for what is not computed yet, or computes it now.

        Args:
            whole: Whether this part has all inputs, so that no other part keeps outputs as well.
        """
        in_memory = all(draws.in_memory for _, draws in self._sources)
        size = sum(outputs.size for outputs, _ in self._source_outputs or ())
        if not in_memory:
            self._compute_all()
        if not (in_memory and whole and size <= _KEPT_VALUES):
            self._source_outputs = None

    def _compute_all(self) -> None:
        """Computes what is computed when it is read."""
        if self._predictive[0].kind == VALUES:
            _ = self.mean_ends, self.value_ends, self.value_scores
        else:
            _ = self.probability_ends

    def _outputs(self) -> list[tuple]:
        """Outputs of the draws of each source, and their extra parameters."""
        if self._source_outputs is not None:
            return self._source_outputs
        pairs = zip(self._sources, self._rows, strict=True)
        return [outputs_of_draws(*source, rows) for source, rows in pairs]

    def _triples(self, source_outputs: list[tuple]) -> list[tuple[Any, Any, Any]]:
        """What the outputs of each source predict, the outputs, and their extra parameters."""
        return [(one, *pair) for one, pair in zip(self._predictive, source_outputs, strict=True)]

    def _classes(self, source_outputs: list[tuple], labels: np.ndarray | None) -> None:
        several = self._predictive[0].kind == LABELS
        p = np.empty(
            (sum(len(f) for f, _ in source_outputs), *self._shape_of(source_outputs[0][0]))
        )
        entropy = np.zeros(p.shape[1:] if several else p.shape[1:-1])
        right = np.zeros(len(p), np.int64)
        classes = None
        if labels is not None and not several:
            classes = class_labels(labels.reshape(p.shape[1], -1), p.shape[-1])
        # A few draws at a time: temporary arrays stay in the cache.
        for some_draws, (predictive, outputs, _) in self._blocks(source_outputs, p[0].size):
            logs = predictive.log_probabilities(outputs)
            each = np.exp(logs)
            logs = np.maximum(logs, -_LARGE)
            logs *= each
            entropy -= np.tensordot(self._share[some_draws], logs @ np.ones(logs.shape[-1]), 1)
            each = each[..., 1] if several else each
            p[some_draws] = each
            if classes is not None:
                right[some_draws] = (each.argmax(axis=-1) == classes).sum(axis=1)
        self.expected_entropy = entropy.sum(axis=1) if several else entropy
        self.probabilities = np.tensordot(self._share, p, 1)
        variance = np.zeros_like(self.probabilities)
        for some_draws in _slices(len(p), p[0].size):
            away = p[some_draws] - self.probabilities
            away *= away
            variance += np.tensordot(self._share[some_draws], away, 1)
        self.std = np.sqrt(variance)
        if labels is not None and several:
            self.right = ((p > 0.5) == labels).all(axis=-1).sum(axis=1)
        elif labels is not None:
            self.right = right

    def _shape_of(self, outputs: np.ndarray) -> tuple[int, int]:
        """Rows, and classes or labels, of the outputs of draws."""
        return outputs.shape[1], self._predictive[0].num_columns

    def _values(self, source_outputs: list[tuple]) -> None:
        columns = self._predictive[0].num_columns
        values = np.empty((len(self._share), source_outputs[0][0].shape[1], columns))
        for some_draws, (predictive, outputs, extra) in self._blocks(
            source_outputs, values[0].size
        ):
            values[some_draws] = predictive.restored(outputs, extra)
        self.mean = np.tensordot(self._share, values, 1)
        variance = np.zeros_like(self.mean)
        for some_draws in _slices(len(values), values[0].size):
            away = values[some_draws] - self.mean
            away *= away
            variance += np.tensordot(self._share[some_draws], away, 1)
        self.parameter_std = np.sqrt(variance)
        self.noise_std = None
        if not self._has_noise:
            return
        triples = self._triples(source_outputs)
        if self._has_laws:
            self.noise_std = np.sqrt(np.tensordot(self._share, self._law(triples).std ** 2, 1))
        else:
            self.noise_std = np.broadcast_to(self._mean_noise(source_outputs), self.mean.shape)
        if self._targets is not None:
            densities = [one.log_densities(f, self._targets, own) for one, f, own in triples]
            self.log_density = log_mean_exp(np.concatenate(densities), self._weight)

    def _mean_noise(self, source_outputs: list[tuple]) -> np.ndarray:
        """Root of the mean variance of the noise, shape (n or 1, outputs)."""
        size = self._noise_size(self.mean.shape)
        total = np.zeros(size)
        for some_draws, (predictive, outputs, extra) in self._blocks(
            source_outputs, self.mean.size
        ):
            noise = predictive.noise(outputs, extra) ** 2
            each = np.broadcast_to(noise, (len(outputs), *size))
            total += np.tensordot(self._share[some_draws], each, 1)
        return np.sqrt(total)

    def _noise_size(self, shape: tuple[int, ...]) -> tuple[int, int]:
        """Rows and columns of the noise: a single row if no network predicts it."""
        rows = shape[0] if any(one.predicts_noise for one in self._predictive) else 1
        return rows, shape[-1]

    def _blocks(
        self, source_outputs: list[tuple], size: int
    ) -> Iterator[tuple[slice, tuple[Any, np.ndarray, np.ndarray | None]]]:
        """A few draws at a time: which of all they are; what they predict, outputs and extra."""
        start = 0
        for predictive, outputs, extra in self._triples(source_outputs):
            for some_draws in _slices(len(outputs), size):
                some = outputs[some_draws]
                own = None if extra is None else extra[some_draws]
                yield (
                    slice(start + some_draws.start, start + some_draws.start + len(some)),
                    (predictive, some, own),
                )
            start += len(outputs)

    def _restored(self, triples: list[tuple[Any, Any, Any]]) -> np.ndarray:
        """Predicted values of all draws in the units of the data, shape (draws, n, outputs)."""
        return joined_draws([one.restored(f, extra) for one, f, extra in triples])

    def _noise(self, triples: list[tuple[Any, Any, Any]], shape: tuple[int, ...]) -> np.ndarray:
        """Deviations of the noise of all draws, shape (draws, n or 1, outputs)."""
        each = [one.noise(f, own) for one, f, own in triples]
        size = self._noise_size(shape[1:])
        return joined_draws(
            [
                np.broadcast_to(s, (len(f), *size))
                for s, (_, f, _) in zip(each, triples, strict=True)
            ]
        )

    def _law(self, triples: list[tuple[Any, Any, Any]]) -> Any:
        """The laws of all draws under a likelihood of the registry."""
        refuse_if(
            len({one.name for one, _, _ in triples}) > 1,
            "The runs have different likelihoods.",
            ", ".join(sorted({one.name for one, _, _ in triples})),
            "one likelihood",
        )
        laws = [one.law(f, extra) for one, f, extra in triples]
        return type(laws[0]).joined(laws)

    @cached_property
    def probability_ends(self) -> np.ndarray:
        """Ends of the intervals of probabilities over the draws, shape (2, n, classes)."""
        source_outputs = self._outputs()
        several = self._predictive[0].kind == LABELS
        p = np.empty(
            (sum(len(f) for f, _ in source_outputs), *self._shape_of(source_outputs[0][0]))
        )
        for some_draws, (predictive, outputs, _) in self._blocks(source_outputs, p[0].size):
            logs = predictive.log_probabilities(outputs)
            p[some_draws] = np.exp(logs[..., 1] if several else logs)
        return weighted_quantiles(p, self._weight, self._ends)

    @cached_property
    def mean_ends(self) -> np.ndarray:
        """Ends of the intervals of outputs over the draws, shape (2, n, outputs)."""
        values = self._restored(self._triples(self._outputs()))
        return weighted_quantiles(values, self._weight, self._ends)

    @cached_property
    def value_ends(self) -> Any:
        """Ends of the intervals of new values, shape (2, n, outputs); twice None without noise."""
        if not self._has_noise:
            return None, None
        triples = self._triples(self._outputs())
        if self._has_laws:
            law = self._law(triples)
            outputs = self.mean.shape[-1]
            first = self._predictive[0]
            discrete = isinstance(first, LikelihoodPredictive) and first.target_law.discrete
            return [
                mixture_quantile(law, float(end), self._weight, outputs, discrete)
                for end in self._ends
            ]
        values = self._restored(triples)
        noise = self._noise(triples, values.shape)
        ends = [
            mixture_interval(values[..., k], noise[..., k], self._weight, self._level)
            for k in range(values.shape[-1])
        ]
        return [np.stack(part, axis=1) for part in zip(*ends, strict=True)]

    @cached_property
    def value_scores(self) -> tuple[np.ndarray | None, np.ndarray | None]:
        """CRPS and PIT of the targets, shape (n, outputs) each; None without targets or noise."""
        y = self._targets
        if y is None or not self._has_noise:
            return None, None
        triples = self._triples(self._outputs())
        if self._has_laws:
            if y.shape != self.mean.shape:
                return None, None
            law = self._law(triples)
            random = np.random.default_rng(_PIT_SEED)
            return mixture_crps(law, y, self._weight), mixture_pit(law, y, self._weight, random)
        values = self._restored(triples)
        noise = self._noise(triples, values.shape)
        columns = range(values.shape[-1])
        scores = [crps(y[:, k], values[..., k], noise[..., k], self._weight) for k in columns]
        below = [mixture_cdf(y[:, k], values[..., k], noise[..., k], self._weight) for k in columns]
        return np.stack(scores, axis=1), np.stack(below, axis=1)


_PARAMETERS_AT_ONCE = 4_000_000
"""Numbers of all draws that go through the network in one call."""
_BLOCK_VALUES = 1 << 17
"""Probabilities that are computed at a time."""
_LARGE = 1e300
_KEPT_VALUES = 2_000_000
"""Outputs that a prediction keeps for what is computed later, 16 MB; more are computed again."""


def joined_draws(parts: list[np.ndarray]) -> np.ndarray:
    """Arrays one behind the other; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _slices(count: int, size: int) -> Iterator[slice]:
    """Slices of so many draws that their values fit into the cache.

    Args:
        count: Number of draws.
        size: Values of a draw.
    """
    step = max(1, _BLOCK_VALUES // max(1, size))
    for first in range(0, count, step):
        yield slice(first, first + step)


def _later(parts: list[_Part], read: Callable[[_Part], Any], number: int) -> Deferred:
    """One of two results of all parts, computed when it is read.

    Args:
        parts: The parts.
        read: Both results of a part.
        number: Which one.
    """

    def compute() -> np.ndarray | None:
        values = [read(part)[number] for part in parts]
        return None if values[0] is None else np.concatenate(values)

    return Deferred(compute)


def outputs_of_draws(
    network: Network, draws: Draws | Members, inputs: np.ndarray, block_draws: int = BLOCK_DRAWS
) -> tuple[np.ndarray, np.ndarray | None]:
    """Outputs of all draws, as of `Network.outputs`, float64, and their extra parameters `(draws,
    numbers)`, None without any.
    """
    extra: list[Any] = []
    outputs = np.empty(
        (len(draws), len(inputs) * network.predictive.rows, network.predictive.num_outputs)
    )
    # Small networks go through in one call, whose fixed cost is that of a hundred draws.
    few = len(draws) * network.num_parameters <= _PARAMETERS_AT_ONCE
    if few and draws.in_memory and not network.predictive.num_extra:
        outputs[:] = network.outputs_of_all(draws, inputs)
        return outputs, None
    for first, vectors in draws.blocks(block_draws):
        some_draws = slice(first, first + len(vectors))
        outputs[some_draws] = network.outputs(vectors, draws.walker[some_draws], inputs)
        if network.predictive.num_extra:
            extra.append(network.extra(vectors))
    return outputs, np.concatenate(extra) if extra else None


def _joined(parts: list[_Part], name: str) -> Any:
    values = [vars(part)[name] for part in parts]
    return None if values[0] is None else np.concatenate(values)


def _over_examples(parts: list[_Part], name: str, count: int) -> np.ndarray | None:
    values = [vars(part)[name] for part in parts]
    return None if values[0] is None else np.sum(values, axis=0) / count


def _streamed_averages(run: RunFiles) -> dict[str, np.ndarray]:
    """The running averages of predictions in the last checkpoint of a run, by name."""
    arrays, _, _ = checkpoint.load(run.folder)
    sums = ("count", "weight", "weight_squares")
    is_there = f"{PREFIX}count" in arrays
    counted = is_there and all(arrays.of_shape(f"{PREFIX}{name}", ()) > 0 for name in sums)
    refuse_if(
        not counted or not arrays[f"{PREFIX}mean"].size,
        f"The run {run.folder} has no averages of predictions.",
        expected="stream_predictions",
    )

    mean = arrays.of_shape(f"{PREFIX}mean", (None, None))
    shapes: dict[str, tuple[int, ...]] = {"m2": mean.shape}
    for name in sums:
        shapes[name] = ()
    for name in ("expected_entropy", "log_density"):
        if f"{PREFIX}{name}" in arrays:
            shapes[name] = mean.shape[:1]
    if (noise := f"{PREFIX}noise_variance") in arrays:
        shapes["noise_variance"] = mean.shape[1:] if arrays[noise].ndim == 1 else mean.shape

    averages = {name: arrays.of_shape(f"{PREFIX}{name}", shape) for name, shape in shapes.items()}
    targets = arrays[f"{PREFIX}targets"]
    scored = {"expected_entropy", "noise_variance"} & {*averages}
    fits = targets.ndim > 0 and targets.size in (len(mean), mean.size)
    if scored and not fits:
        arrays.of_shape(f"{PREFIX}targets", mean.shape)
    return {**averages, "mean": mean, "targets": targets}


def streamed_prediction(
    run: RunFiles, interval: float = 0.9
) -> results.ClassPrediction | results.LabelPrediction | results.RegressionPrediction:
    """Predictions of a run with `stream_predictions` on the test set of its data, up to its last
    checkpoint. Of the draws only averages are left: classes have no intervals, values the normal
    ones, and no draw has a loss.
    """
    averages = _streamed_averages(run)
    weight = float(averages["weight"])
    mean = averages["mean"]
    targets = averages["targets"]
    std = np.sqrt(np.maximum(averages["m2"] / weight, 0.0))
    shared: dict[str, Any] = {
        "num_draws": int(averages["count"]),
        "effective_draws": float(weight**2 / averages["weight_squares"]),
        "level": interval,
        **dict.fromkeys(("draw_losses", "walker", "weight")),
    }
    density = averages["log_density"] - np.log(weight) if "log_density" in averages else None
    if "expected_entropy" in averages:
        shared |= dict.fromkeys(("lower", "upper", "draw_accuracy"))
        shared |= {
            "probabilities": mean,
            "std": std,
            "expected_entropy": averages["expected_entropy"],
        }
        if density is not None:
            return results.LabelPrediction(
                **shared, labels=targets.astype(np.int64), log_density=density
            )
        labels = class_labels(targets.reshape(len(mean), -1), mean.shape[1])
        data = run.manifest.dataset
        names = data.class_names or ()
        classes = results.class_values(data.task or "", mean.shape[1], names)
        if weights := data.class_weights:
            shared |= {"class_weights": weights, "notes": (class_weights_note(weights),)}
        return results.ClassPrediction(
            **shared, labels=labels, class_values=classes, places=len(mean) // len(targets)
        )
    observed = np.asarray(targets, np.float64)
    y = observed.reshape(mean.shape) if observed.size == mean.size else None
    reach = -ndtri((1 - interval) / 2)
    shared |= {"mean_lower": mean - reach * std, "mean_upper": mean + reach * std}
    shared |= dict.fromkeys(("lower", "upper", "log_density", "crps", "pit"))
    noise = None
    if "noise_variance" in averages:
        assert y is not None
        noise = np.broadcast_to(np.sqrt(averages["noise_variance"]), mean.shape)
        total = np.hypot(std, noise)
        shared |= {"lower": mean - reach * total, "upper": mean + reach * total}
        shared |= {"log_density": density, "crps": normal_crps(y, mean, total)}
        shared["pit"] = ndtr((y - mean) / total)
    else:
        shared["notes"] = (without_noise(run.manifest.loss.loss or "loss"),)
    preparation = run.manifest.dataset.preparation
    standard = None if preparation is None else preparation.target
    scale = 1.0 if standard is None else standard.deviation
    shared |= {"noise_std": noise, "targets": y, "scale": np.asarray(scale)}
    shared["target_names"] = tuple(run.manifest.dataset.label_names)
    return results.RegressionPrediction(**shared, mean=mean, parameter_std=std)


def streamed_lines(run: RunFiles) -> list[tuple[str, str]]:
    """Lines of a summary with the scores of the accumulated averages, if the run has any."""
    try:
        prediction = streamed_prediction(run)
    except InputError:
        return []
    scores = ", ".join(f"{label} {value}" for label, value in prediction.score_lines())
    scores = scores or " ".join(prediction.notes)
    return [("test predictions", f"{scores}; average of {prediction.num_draws:,} draws")]
